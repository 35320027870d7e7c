/* reclaimables.c: the registry of reclaimables, which can give memory back beside the pools, and
** calling their slots.
**
** Model. An entry is the library's own (a cache of handles), or a program's
** (tide_reclaimable_register), which the registry keeps a copy of. A round calls one slot of every
** entry, newest first. It finds the next entry by its number in the order of registration, so it
** keeps no mark in the entries, and several rounds at the same time do not disturb each other.
** What must stay true: no lock is held in a slot. An entry stays while it is `busy`; the round
** notes that in the thread's record of the runtime that is short. A thread inside a slot starts no
** round, climbs in no runtime and asks no entry for its bytes: it may hold locks that these calls
** take. Another thread may undo what a longjmp left (callback.h), but only the thread itself puts
** `inside` back. */
#include "runtime/streams/thread_device.h"
#include "runtime/observe/nvtx.h"
#include "runtime/reclaim/reclaimables.h"
#include "runtime/pool/pools.h"
#include "runtime/memory/header.h"
#include "runtime/base/sized.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"

/* The number of the entry whose slot the thread is in, of whatever runtime. */
static TIDEI_FAST_TLS uint64_t inside;

uint64_t tidei_inside_reclaimable(void) { return inside; }
void tidei_back_in_reclaimable(uint64_t number) { inside = number; }

/* ---- the list ---- */

void tidei_reclaimable_register(tidei_runtime *rt, tidei_reclaimable *r) {
    static _Atomic uint64_t made;
    pthread_mutex_lock(&rt->reclaim->reclaimables_lock);
    r->busy = 0;
    r->told = 0;
    r->number = atomic_fetch_add(&made, 1) + 1;
    r->next = rt->reclaim->reclaimables;
    rt->reclaim->reclaimables = r;
    pthread_mutex_unlock(&rt->reclaim->reclaimables_lock);
}

/* Takes the entry of that number, a program's or the library's, out of the list; NULL: none. */
static tidei_reclaimable *take_out(tidei_runtime *rt, uint64_t number, bool by_user) {
    pthread_mutex_lock(&rt->reclaim->reclaimables_lock);
    tidei_reclaimable **p = &rt->reclaim->reclaimables;
    while (*p && !((*p)->number == number && (*p)->by_user == by_user)) p = &(*p)->next;
    tidei_reclaimable *r = *p;
    if (r) *p = r->next;
    pthread_mutex_unlock(&rt->reclaim->reclaimables_lock);
    return r;
}

struct waiter {
    tidei_runtime *rt;
    const tidei_reclaimable *r;
    unsigned own; /* the waiting thread's part of `busy` */
};
static void wait_until_idle(void *p) {
    const struct waiter *w = p;
    pthread_mutex_lock(&w->rt->reclaim->reclaimables_lock);
    while (w->r->busy > w->own)
        tidei_cond_wait(&w->rt->reclaim->reclaimables_idle, &w->rt->reclaim->reclaimables_lock);
    pthread_mutex_unlock(&w->rt->reclaim->reclaimables_lock);
}

/* Waits for the other threads that are in its slots. */
static void wait_for_others(tidei_runtime *rt, const tidei_reclaimable *r) {
    struct waiter w = {rt, r, inside == r->number};
    pthread_mutex_lock(&rt->reclaim->reclaimables_lock);
    bool busy = r->busy > w.own;
    pthread_mutex_unlock(&rt->reclaim->reclaimables_lock);
    if (busy) tidei_blocking(rt, wait_until_idle, &w); /* the slot may wait for a collection */
}

void tidei_reclaimable_unregister(tidei_runtime *rt, tidei_reclaimable *r) {
    (void)take_out(rt, r->number, false);
    wait_for_others(rt, r);
}

static void end_busy(tidei_runtime *rt, tidei_reclaimable *r) {
    pthread_mutex_lock(&rt->reclaim->reclaimables_lock);
    bool idle = --r->busy == 0, over = idle && r->over;
    if (idle) pthread_cond_broadcast(&rt->reclaim->reclaimables_idle);
    pthread_mutex_unlock(&rt->reclaim->reclaimables_lock);
    if (over) tidei_host_free(rt, r);
}

/* ---- rounds ---- */

struct round {
    tidei_runtime *rt;
    tidei_thread *by; /* the thread whose record notes that the entry is busy; NULL: none */
    uint64_t last;    /* that entry's number */
};

static struct round begin_round(tidei_runtime *rt) {
    return (struct round){rt, tidei_callbacks_record(rt), UINT64_MAX};
}

static void undo_busy(tidei_runtime *by, tidei_thread *t, void *r, uintptr_t rt) {
    (void)by, (void)t;
    end_busy((tidei_runtime *)rt, r);
}

/* The newest entry registered before the last one, busy until the round is done with it; NULL at
** the end. */
static tidei_reclaimable *next_reclaimable(struct round *x) {
    pthread_mutex_lock(&x->rt->reclaim->reclaimables_lock);
    tidei_reclaimable *r = x->rt->reclaim->reclaimables;
    while (r && r->number >= x->last) r = r->next;
    if (r) {
        x->last = r->number;
        r->busy++;
    }
    pthread_mutex_unlock(&x->rt->reclaim->reclaimables_lock);
    if (r) tidei_hold(x->by, undo_busy, r, (uintptr_t)x->rt);
    return r;
}

static void done_reclaimable(const struct round *x, tidei_reclaimable *r) {
    tidei_let(x->by, r);
    end_busy(x->rt, r);
}

/* The entry's own code begins, and ends: a program's, which is a callback, or the library's.
** `frame`: the caller's. */
static void enter_slot(tidei_callback *in, const tidei_reclaimable *r, tidei_dev *d,
                       tidei_callback_kind kind, const void *frame) {
    in->t = NULL;
    inside = r->number;
    if (r->by_user) tidei_callback_note(in, d->rt, kind, r->name, frame);
}

static void leave_slot(tidei_callback *in) {
    tidei_callback_end(in);
    inside = 0;
}

/* Makes that device the thread's current one again, unless the thread has left its runtime
** meanwhile. */
static void go_back(tidei_dev *here) {
    tidei_thread *t = here ? tidei_thread_look(here->rt) : NULL;
    if (t) tidei_thread_go(t, here);
}

/* Only the thread itself does so: a thread that closes the runtime does not change another thread's
** device. */
static void undo_go(tidei_runtime *rt, tidei_thread *t, void *here, uintptr_t of) {
    (void)of;
    if (t == tidei_thread_look(rt)) go_back(here);
}

/* Calls the slot and returns the bytes it gave; a failure is in the thread's error. Afterwards the
** thread's current device is the one from before. */
static size_t call(const struct round *x, tidei_reclaimable *r, tidei_dev *d, bool drop,
                   size_t wanted, bool *failed) {
    TIDEI_UNCANCELLED;
    size_t (*slot)(void *, tidei_dev *, size_t, bool *) = drop ? r->drop : r->purge;
    tidei_thread *t = tidei_thread_look(d->rt);
    tidei_dev *here = t ? t->dev : NULL;
    tidei_callback in;
    tide_error_clear();
    if (here) tidei_hold(x->by, undo_go, here, 0);
    enter_slot(&in, r, d, drop ? TIDEI_IN_DROP : TIDEI_IN_PURGE, __builtin_frame_address(0));
    size_t given = slot(r->self, d, wanted, failed);
    leave_slot(&in);
    if (here) tidei_let(x->by, here);
    go_back(here);
    return given;
}

/* Whether this is the entry's first failure in this climb. */
static bool first_failure(tidei_runtime *rt, tidei_reclaimable *r, uint64_t climb_id) {
    pthread_mutex_lock(&rt->reclaim->reclaimables_lock);
    bool first = r->told != climb_id;
    r->told = climb_id;
    pthread_mutex_unlock(&rt->reclaim->reclaimables_lock);
    return first;
}

size_t tidei_reclaimables_call(tidei_dev *d, tidei_reclaim_slot which, size_t wanted,
                               uint64_t climb_id) {
    tidei_runtime *rt = d->rt;
    bool drop = which == TIDEI_DROP;
    size_t given = 0;
    tidei_saved_error before;
    if (inside) return 0;
    struct round x = begin_round(rt);
    tidei_error_save(&before);
    for (tidei_reclaimable *r; (r = next_reclaimable(&x));) {
        bool failed = false;
        if ((drop ? r->drop : r->purge) && (which != TIDEI_PURGE_CHEAP || r->cheap))
            given += call(&x, r, d, drop, wanted, &failed);
        if (failed && first_failure(rt, r, climb_id))
            tidei_log(rt, TIDE_LOG_WARNING, "reclaim: %s of %s failed: %s", drop ? "drop" : "purge",
                      r->name, tide_error_last()->message);
        done_reclaimable(&x, r);
    }
    tidei_error_restore(&before);
    return given;
}

/* ---- what they hold ---- */

#define LISTED 8

struct holding {
    char name[64]; /* copied, as the entry may go while the text is made */
    size_t bytes;
};

/* Sorts x into the list of the largest; the bytes of what drops out are added to *rest. */
static void note_holding(struct holding top[LISTED], struct holding x, size_t *rest) {
    for (unsigned i = 0; i < LISTED; i++)
        if (x.bytes > top[i].bytes) {
            struct holding swap = top[i];
            top[i] = x;
            x = swap;
        }
    *rest += x.bytes;
}

static size_t ask_bytes(const tidei_reclaimable *r, tidei_dev *d) {
    tidei_callback in;
    enter_slot(&in, r, d, TIDEI_IN_BYTES, __builtin_frame_address(0));
    size_t bytes = r->bytes(r->self, d);
    leave_slot(&in);
    return bytes;
}

static void find_holdings(tidei_dev *d, struct holding top[LISTED], size_t *rest) {
    TIDEI_UNCANCELLED;
    struct round x = begin_round(d->rt);
    for (tidei_reclaimable *r; (r = next_reclaimable(&x));) {
        struct holding h = {.bytes = 0};
        if (r->bytes) h.bytes = ask_bytes(r, d);
        tidei_format(h.name, sizeof h.name, "%s", r->name);
        done_reclaimable(&x, r);
        note_holding(top, h, rest);
    }
}

size_t tidei_reclaimables_text(tidei_dev *d, char *buf, size_t cap) {
    struct holding top[LISTED] = {{.bytes = 0}};
    size_t n = 0, rest = 0;
    char b[32];
    if (cap) *buf = 0;
    if (inside) return 0;
    find_holdings(d, top, &rest);
    for (unsigned i = 0; i < LISTED && top[i].bytes; i++)
        n += (size_t)tidei_format(n < cap ? buf + n : NULL, n < cap ? cap - n : 0, "%s%s %s",
                                  i ? ", " : "", top[i].name,
                                  tidei_format_bytes(b, sizeof b, top[i].bytes, 3));
    if (rest)
        n += (size_t)tidei_format(n < cap ? buf + n : NULL, n < cap ? cap - n : 0, ", others %s",
                                  tidei_format_bytes(b, sizeof b, rest, 3));
    return n;
}

/* ---- a program's own ---- */

struct given {
    tidei_reclaimable entry; /* first, so that a pointer to the entry is one to this */
    tide_reclaimable user;
    char name[];
};

typedef tide_status (*user_slot)(void *user, int device, size_t wanted, size_t *given);

static size_t call_user(const struct given *g, user_slot slot, tidei_dev *d, size_t wanted,
                        bool *failed) {
    size_t bytes = 0;
    tide_status status = slot(g->user.user, tidei_dev_number(d), wanted, &bytes);
    *failed = status != TIDE_OK;
    if (*failed && tidei_last_status() != status)
        tidei_fail(status, "tide_reclaim", "it returned %s (%d)", tide_status_name(status),
                   (int)status);
    return bytes;
}
static size_t user_purge(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    const struct given *g = self;
    return call_user(g, g->user.purge, d, wanted, failed);
}
static size_t user_drop(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    const struct given *g = self;
    return call_user(g, g->user.drop, d, wanted, failed);
}
static size_t user_bytes(void *self, tidei_dev *d) {
    const struct given *g = self;
    return g->user.bytes(g->user.user, tidei_dev_number(d));
}

#define END(field) TIDEI_END(tide_reclaimable, field)
static const uint16_t reclaimable_ends[] = {END(struct_size), END(name), END(purge), END(drop),
                                            END(bytes),       END(user), END(dear),  END(reserved)};
#undef END
static const tidei_sized reclaimable_sizes = {"tide_reclaimable", reclaimable_ends,
                                              TIDEI_COUNT(reclaimable_ends),
                                              TIDEI_END(tide_reclaimable, struct_size)};

static tide_status check_user(const tide_reclaimable *r, const char *op) {
    tide_status status = tidei_sized_check(&reclaimable_sizes, r->struct_size, op);
    if (status != TIDE_OK) return status;
    tide_reclaimable known = {0};
    memcpy(&known, r, r->struct_size);
    if (!known.name) return tidei_fail(TIDE_E_INVALID, op, "the name is NULL");
    return known.purge || known.drop
               ? TIDE_OK
               : tidei_fail(TIDE_E_INVALID, op, "it can neither purge nor drop");
}

tide_status tide_reclaimable_register(tide_runtime *ref, const tide_reclaimable *r, uint64_t *id) {
    TIDEI_OPERATION("tide_reclaimable_register");
    static const char op[] = "tide_reclaimable_register";
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt) return tidei_last_status();
    if (!r) return tidei_fail(TIDE_E_INVALID, op, "the reclaimable is NULL");
    tide_status status = check_user(r, op);
    if (status != TIDE_OK) return status;
    size_t length = strlen(r->name) + 1;
    struct given *g = tidei_host_alloc(rt, sizeof *g + length);
    if (!g) return tidei_fail_host_memory(op, sizeof *g + length);
    memcpy(&g->user, r, r->struct_size);
    memcpy(g->name, r->name, length);
    g->entry = (tidei_reclaimable){.name = g->name,
                                   .purge = g->user.purge ? user_purge : NULL,
                                   .drop = g->user.drop ? user_drop : NULL,
                                   .bytes = g->user.bytes ? user_bytes : NULL,
                                   .cheap = !g->user.dear,
                                   .self = g,
                                   .by_user = true};
    tidei_reclaimable_register(rt, &g->entry);
    if (id) *id = g->entry.number;
    return TIDE_OK;
}

/* Ends an entry that is in no list: now, or when the last thread in one of its slots has
** returned. */
static void end_entry(tidei_runtime *rt, tidei_reclaimable *r) {
    pthread_mutex_lock(&rt->reclaim->reclaimables_lock);
    bool idle = r->busy == 0;
    r->over = true;
    pthread_mutex_unlock(&rt->reclaim->reclaimables_lock);
    if (idle) tidei_host_free(rt, r);
}

static void undo_unregister(tidei_runtime *rt, tidei_thread *t, void *r, uintptr_t of) {
    (void)t, (void)of;
    end_entry(rt, r);
}

tide_status tide_reclaimable_unregister(tide_runtime *ref, uint64_t id) {
    TIDEI_OPERATION("tide_reclaimable_unregister");
    static const char op[] = "tide_reclaimable_unregister";
    tidei_thread *t = tidei_enter(ref, op);
    if (!t) return tidei_last_status();
    tidei_runtime *rt = tidei_thread_runtime(t);
    tidei_reclaimable *r = take_out(rt, id, true);
    if (!r)
        return tidei_fail(TIDE_E_INVALID, op, "no reclaimable %llu is registered",
                          (unsigned long long)id);
    tidei_hold(t, undo_unregister, r, 0);
    wait_for_others(rt, r);
    tidei_let(t, r);
    end_entry(rt, r);
    return TIDE_OK;
}

void tidei_reclaimables_close(tidei_runtime *rt) {
    for (tidei_reclaimable *r; (r = rt->reclaim->reclaimables);) {
        rt->reclaim->reclaimables = r->next;
        if (r->by_user) tidei_host_free(rt, r);
    }
}
