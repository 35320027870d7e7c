/* handles.c: the cache of library handles: which thread has which, what they take, and how they
** give way.
**
** A slot's state is all that two threads share of it: an EMPTY or IDLE slot belongs to no thread, a
** TAKEN one to the thread that made it so by CAS, which alone may read and write the rest.
**   EMPTY -take-> TAKEN -create-> TAKEN -give back-> IDLE -take-> TAKEN -destroy-> EMPTY
** What must stay true besides: d->library is the sum of what slots count, and of what is reserved
** for a handle that is being made; a waiting thread is woken by every slot that becomes IDLE or
** EMPTY. Locks: `making` is held by a thread that makes or destroys a handle, as it would disturb
** what another one measures; nothing climbs and no callback runs under it.
** Under `lock`, a leaf, threads wait, and a thread that evicts counts what exceeds the cap. */
#include "libs/handles.h"
#include "libs/libs.h"
#include "runtime/memory/capture.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/base/uncancelled.h"

#define SLOTS 64 /* of a device, for all kinds: who finds them all in calls waits for one */
#define KINDS 16 /* kinds of handles in a process */

enum { EMPTY, IDLE, TAKEN };

typedef struct slot {
    _Atomic unsigned state;
    _Atomic(const tidei_handle_kind *) kind; /* looked at by who has not taken it yet, to choose */
    /* likewise: the table's clock when it was given back */
    _Atomic uint64_t used;
    _Atomic size_t bytes; /* likewise: the bytes counted for it */
    void *handle;
} slot;

/* What a device knows of a kind. */
typedef struct kind_state {
    _Atomic(const tidei_handle_kind *) kind; /* NULL: not used yet; once set it never changes */
    _Atomic size_t takes;                    /* bytes of one handle, as measured */
    atomic_bool measured;
    _Atomic unsigned made, keepers;
} kind_state;

typedef struct table {
    slot slots[SLOTS];
    kind_state kinds[KINDS];
    _Atomic uint64_t clock;
    _Atomic size_t bytes; /* of all handles */
    pthread_mutex_t making, lock;
    pthread_cond_t changed;
    _Atomic unsigned waiting;
    _Atomic uint64_t changes; /* times that waiting threads were woken; written under the lock */
    _Atomic tidei_cu_ctx ctx; /* the device's; NULL: not asked for yet */
} table;

struct tidei_handles {
    tidei_runtime *rt;
    tidei_reclaimable reclaim;
    _Atomic size_t cap;
    unsigned n;
    table tables[]; /* one a device */
};

static table *table_of(const tidei_dev *d) {
    return &tidei_libs_of(d->rt)->handles->tables[d->index];
}

static kind_state *state_of(table *t, const tidei_handle_kind *k) {
    for (unsigned i = 0; i < KINDS; i++) {
        const tidei_handle_kind *there =
            atomic_load_explicit(&t->kinds[i].kind, memory_order_acquire);
        if (there == k ||
            (!there && atomic_compare_exchange_strong(&t->kinds[i].kind, &there, k)) || there == k)
            return &t->kinds[i];
    }
    tidei_check(!"more kinds of handles than KINDS");
    return &t->kinds[KINDS - 1];
}

/* ---- the context: libraries work in the calling thread's current one ---- */

typedef struct context {
    const tidei_cu *cu;
    bool pushed;
} context;

/* It stays the same while the device is open, so it is asked for once. For a lost device the driver
** is asked each time, and may refuse. */
static tidei_cu_result find_context(tidei_dev *d, const tidei_cu *cu, tidei_dstream *ds,
                                    tidei_cu_ctx *out) {
    _Atomic tidei_cu_ctx *known = &table_of(d)->ctx;
    *out = atomic_load_explicit(known, memory_order_acquire);
    if (tidei_likely(*out && !atomic_load_explicit(&d->d->lost, memory_order_relaxed)))
        return TIDEI_CU_SUCCESS;
    tidei_cu_result r = cu->cuStreamGetCtx(d->d->ops->stream_native(d->d, ds), out);
    if (r == TIDEI_CU_SUCCESS) atomic_store_explicit(known, *out, memory_order_release);
    return r;
}

/* Makes the device's context current. Where it is so already nothing is pushed: pushing and popping
** cost more than asking. */
static tide_status enter_context(tidei_dev *d, context *c, const char *op) {
    tidei_stream *own =
        /* not the call's stream, which may be CUDA's default one, which belongs to whatever context
        ** is current */
        d->stream0;
    tidei_dstream *ds = own->ds;
    tidei_cu_ctx ours, now = NULL;
    /* only a lost device's default stream is retired before its libraries close */
    if (!ds) return tidei_lost(d, op);
    tide_status status = tidei_cu_open(&c->cu);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = find_context(d, c->cu, ds, &ours);
    c->pushed =
        r == TIDEI_CU_SUCCESS && (c->cu->cuCtxGetCurrent(&now) != TIDEI_CU_SUCCESS || now != ours);
    if (c->pushed) r = c->cu->cuCtxPushCurrent(ours);
    return r == TIDEI_CU_SUCCESS ? TIDE_OK
                                 : tidei_fail(TIDE_E_DEVICE, op, "the stream's context: %s (%u)",
                                              tidei_cu_name(c->cu, r), r);
}

/* From entering to leaving the thread is not cancelled: callers have a guard (uncancelled.h). */
static void leave_context(const context *c) {
    tidei_cu_ctx ours;
    if (c->pushed) c->cu->cuCtxPopCurrent(&ours);
}

/* The context was made current for the calling thread, so no other thread can leave it. */
static void undo_context(tidei_runtime *rt, tidei_thread *t, void *cu, uintptr_t of) {
    (void)of;
    if (t == tidei_thread_look(rt)) leave_context(&(context){cu, true});
}

/* ---- failures ---- */

/* With so much free on the device, a handle or call that fails lacks something other than
** memory. */
static size_t plenty(const tidei_handle_kind *k) { return 4 * k->about; }

/* Our status for a library's. It has several statuses for a lack of memory and uses them for other
** failures too, so the device's free memory decides. */
static tide_status library_failed(tidei_dev *d, const tidei_handle_kind *k, unsigned r,
                                  const char *what, const char *op) {
    size_t free_bytes = 0, total = 0;
    bool may_be_short = false;
    /* lost */
    if (d->d->ops->memory(d->d, &free_bytes, &total) != TIDE_OK) return tidei_last_status();
    for (unsigned i = 0; i < k->nshort; i++) may_be_short |= k->short_codes[i] == r;
    if (may_be_short && free_bytes < plenty(k))
        return tidei_fail(TIDE_E_NOMEM, op, "%s: error %u in %s with %zu bytes free on %s", k->name,
                          r, what, free_bytes, d->d->info.name);
    return tidei_fail(TIDE_E_DEVICE, op,
                      "%s: error %u in %s; %s has %zu bytes free, so memory is not the reason",
                      k->name, r, what, d->d->info.name, free_bytes);
}

/* ---- slots ---- */

static void wake(table *t) {
    if (!atomic_load(&t->waiting)) return;
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->changes, 1);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void put(table *t, slot *s, unsigned state) {
    atomic_store(&s->state, state);
    wake(t);
}

/* Takes a slot by one CAS, whichever thread used it last. */
static bool take_as(table *t, slot *s, unsigned state, const tidei_handle_kind *k) {
    unsigned was = state;
    if (!atomic_compare_exchange_strong(&s->state, &was, TAKEN)) return false;
    if (!k || atomic_load(&s->kind) == k) return true;
    put(t, s, state); /* the slot went to another kind in between */
    return false;
}

static slot *take_idle(table *t, const tidei_handle_kind *k) {
    for (unsigned i = 0; i < SLOTS; i++) {
        slot *s = &t->slots[i];
        if (atomic_load(&s->state) == IDLE && atomic_load(&s->kind) == k && take_as(t, s, IDLE, k))
            return s;
    }
    return NULL;
}

static slot *take_empty(table *t) {
    for (unsigned i = 0; i < SLOTS; i++)
        if (take_as(t, &t->slots[i], EMPTY, NULL)) return &t->slots[i];
    return NULL;
}

struct waiter {
    table *t;
    const tidei_handle_kind *kind;
};

static bool has_idle(table *t, const tidei_handle_kind *k) {
    for (unsigned i = 0; i < SLOTS; i++)
        if (atomic_load(&t->slots[i].state) == IDLE && atomic_load(&t->slots[i].kind) == k)
            return true;
    return false;
}

/* Whether a handle could be made: there is an empty slot, or an idle one of another kind. */
static bool has_place(table *t) {
    for (unsigned i = 0; i < SLOTS; i++)
        if (atomic_load(&t->slots[i].state) != TAKEN) return true;
    return false;
}

/* Waits until there is an idle handle of the kind, or none of the kind at all and a place for one.
** It does not take a handle, as the thread is in the blocking region. Slots are read without the
** lock. A thread that gives one back takes the lock and counts a change, so none is missed between
** the look and the sleep. */
static void wait_for_one(void *p) {
    struct waiter *w = p;
    table *t = w->t;
    const kind_state *ks = state_of(t, w->kind);
    atomic_fetch_add(&t->waiting, 1);
    for (;;) {
        uint64_t seen = atomic_load(&t->changes);
        if (has_idle(t, w->kind) || (!atomic_load(&ks->made) && has_place(t))) break;
        pthread_mutex_lock(&t->lock);
        while (atomic_load(&t->changes) == seen) tidei_cond_wait(&t->changed, &t->lock);
        pthread_mutex_unlock(&t->lock);
    }
    atomic_fetch_sub(&t->waiting, 1);
}

/* ---- making and destroying ---- */

/* What the device has free, plus what our pools hold, so that only others' use changes it. */
static size_t free_but_ours(tidei_dev *d) {
    size_t free_bytes = 0, total;
    if (d->d->ops->memory(d->d, &free_bytes, &total) != TIDE_OK) return 0;
    return free_bytes + atomic_load(&d->budget->backed);
}

/* What a first handle took, from what the device had free before and after. Other processes change
** that too: what they took at the same time is not the handle's, so `most` bounds it. */
static size_t taken(const tidei_handle_kind *k, size_t before, size_t after) {
    size_t bytes = before > after ? before - after : 0;
    return bytes > k->most ? k->about : bytes;
}

static tide_status beyond_limit(const tidei_handle_kind *k, size_t bytes, const char *op) {
    return tidei_fail(TIDE_E_NOMEM, op, "a %s handle takes %zu bytes, more than the limit leaves",
                      k->name, bytes);
}

/* Changes the count from what was reserved to what the first handle took. False: that is beyond the
** limit. */
static bool settle(tidei_dev *d, size_t reserved, size_t took) {
    if (took <= reserved) return tidei_library_unback(d, reserved - took), true;
    return tidei_library_back(d, took - reserved);
}

/* In the context, under `making`, with an empty slot of ours: a handle counted and idle, or the
** slot empty again. */
static tide_status create(tidei_dev *d, table *t, slot *s, const tidei_handle_kind *k,
                          const void *lib, const char *op) {
    kind_state *ks = state_of(t, k);
    bool measured = atomic_load(&ks->measured);
    size_t reserved = measured ? atomic_load(&ks->takes) : k->about, took = reserved;
    void *h = NULL;
    if (!tidei_library_back(d, reserved)) return beyond_limit(k, reserved, op);
    size_t before = measured ? 0 : free_but_ours(d);
    unsigned r = k->create(lib, &h);
    if (r) {
        tidei_library_unback(d, reserved);
        return library_failed(d, k, r, "making a handle", op);
    }
    if (!measured) took = taken(k, before, free_but_ours(d));
    atomic_store(&ks->takes, took);
    atomic_store(&ks->measured, true);
    if (!settle(d, reserved, took)) {
        (void)k->destroy(lib, h);
        tidei_library_unback(d, reserved);
        return beyond_limit(k, took, op);
    }
    s->handle = h;
    atomic_store(&s->bytes, took);
    atomic_store(&s->kind, k);
    atomic_store(&s->used, atomic_fetch_add(&t->clock, 1) + 1);
    atomic_fetch_add(&ks->made, 1);
    atomic_fetch_add(&t->bytes, took);
    return TIDE_OK;
}

/* A handle that we have taken ends; *failed, and the handle idle and counted as before, where its
** context is not to be had. One that the library does not destroy is nobody's any more, and stays
** counted, for its memory did not come back. */
static size_t destroy(tidei_dev *d, slot *s, bool *failed) {
    TIDEI_UNCANCELLED;
    table *t = table_of(d);
    const tidei_handle_kind *k = atomic_load(&s->kind);
    const void *lib = k->lib();
    size_t bytes = atomic_load(&s->bytes);
    context c;
    if (!lib || enter_context(d, &c, "tide_reclaim") != TIDE_OK) {
        *failed = true;
        put(t, s, IDLE);
        return 0;
    }
    pthread_mutex_lock(&t->making); /* what a maker measures is its own handle alone */
    unsigned r = k->destroy(lib, s->handle);
    pthread_mutex_unlock(&t->making);
    leave_context(&c);
    s->handle = NULL;
    atomic_store(&s->kind, NULL);
    atomic_fetch_sub(&state_of(t, k)->made, 1);
    atomic_fetch_sub(&t->bytes, bytes);
    put(t, s, EMPTY);
    if (r) {
        tidei_fail(TIDE_E_DEVICE, "tide_reclaim",
                   "%s: error %u in destroying a handle of %zu bytes", k->name, r, bytes);
        *failed = true;
        return 0;
    }
    tidei_library_unback(d, bytes);
    return bytes;
}

/* ---- giving way ---- */

/* The one that has been idle longest, among those that may go: `keep_last` leaves each kind the
** one it used last. */
static slot *take_oldest(table *t, bool keep_last, uint64_t after) {
    for (;;) {
        slot *oldest = NULL;
        uint64_t least = UINT64_MAX, newest[KINDS] = {0};
        for (unsigned i = 0; i < SLOTS && keep_last; i++) {
            slot *s = &t->slots[i];
            const tidei_handle_kind *k = atomic_load(&s->kind);
            uint64_t used = atomic_load(&s->used);
            if (k && newest[state_of(t, k) - t->kinds] < used)
                newest[state_of(t, k) - t->kinds] = used;
        }
        for (unsigned i = 0; i < SLOTS; i++) {
            slot *s = &t->slots[i];
            const tidei_handle_kind *k = atomic_load(&s->kind);
            uint64_t used = atomic_load(&s->used);
            if (atomic_load(&s->state) != IDLE || !k || used <= after || used >= least) continue;
            const kind_state *ks = state_of(t, k);
            if (keep_last && used == newest[ks - t->kinds]) continue;
            if (atomic_load(&ks->keepers) && atomic_load(&ks->made) == 1) continue;
            oldest = s;
            least = used;
        }
        if (!oldest) return NULL;
        if (take_as(t, oldest, IDLE, NULL)) return oldest;
    }
}

/* Destroys idle ones until `wanted` bytes came back. Each is tried once: one that fails stays, and
** does not hide the others. */
static size_t give_way(tidei_dev *d, size_t wanted, bool keep_last, bool *failed) {
    table *t = table_of(d);
    size_t given = 0;
    uint64_t after = 0;
    for (slot *s; given < wanted && (s = take_oldest(t, keep_last, after));) {
        uint64_t used = atomic_load(&s->used);
        bool this_failed = false;
        given += destroy(d, s, &this_failed);
        *failed |= this_failed;
        if (this_failed) after = used;
    }
    return given;
}

/* Each kind keeps the handle that was used last: what is in use is wanted again at once. */
static size_t purge(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    (void)self;
    return give_way(d, wanted, true, failed);
}

static size_t drop(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    (void)self;
    return give_way(d, wanted, false, failed);
}

static size_t all_bytes(void *self, tidei_dev *d) {
    (void)self;
    return atomic_load(&table_of(d)->bytes);
}

static size_t idle_bytes(table *t) {
    size_t bytes = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        if (atomic_load(&t->slots[i].state) == IDLE) bytes += atomic_load(&t->slots[i].bytes);
    return bytes;
}

/* One beyond the cap, the least recently used. Under the lock, so that of two who look at once not
** both take one. */
static slot *take_excess(table *t, size_t cap) {
    pthread_mutex_lock(&t->lock);
    slot *s = idle_bytes(t) > cap ? take_oldest(t, true, 0) : NULL;
    pthread_mutex_unlock(&t->lock);
    return s;
}

/* Of one that is in the way of a call: that it fails is no error of the call's. */
static bool destroy_aside(tidei_dev *d, slot *s) {
    bool failed = false;
    tidei_saved_error before;
    tidei_error_save(&before);
    destroy(d, s, &failed);
    if (failed)
        tidei_log(d->rt, TIDE_LOG_WARNING, "handles: one that had to go on %s: %s", d->d->info.name,
                  tide_error_last()->message);
    tidei_error_restore(&before);
    return !failed;
}

/* What is idle beyond the cap goes, for which the library may wait for the device. */
static void keep_to_cap(tidei_dev *d, table *t) {
    size_t cap = atomic_load_explicit(&tidei_libs_of(d->rt)->handles->cap, memory_order_relaxed);
    if (tidei_likely(atomic_load(&t->bytes) <= cap)) return;
    for (slot *s; (s = take_excess(t, cap)) && destroy_aside(d, s);) {}
}

static void give(tidei_dev *d, slot *s) {
    table *t = table_of(d);
    atomic_store_explicit(
        &s->used, atomic_fetch_add_explicit(&t->clock, 1, memory_order_relaxed) + 1,
        memory_order_relaxed); /* the state, which is written next, comes after it for everybody */
    put(t, s, IDLE);
    keep_to_cap(d, t);
}

/* ---- one more ---- */

/* A slot for the first one of a kind, if need be in place of an idle one of another. NULL: all are
** in calls, or (*stuck) one does not go. */
static slot *take_place(tidei_dev *d, table *t, bool *stuck) {
    slot *s, *old;
    *stuck = false;
    while (!(s = take_empty(t)) && !*stuck && (old = take_oldest(t, false, 0)))
        *stuck = !destroy_aside(d, old) && atomic_load(&old->state) != EMPTY;
    return s;
}

/* One more handle, taken. *out NULL, without a failure: there is no slot for it, or it was to be
** the `first` of its kind, and another thread made that. */
static tide_status make(tidei_dev *d, const tidei_handle_kind *k, const void *lib, bool first,
                        const char *op, slot **out) {
    TIDEI_UNCANCELLED;
    table *t = table_of(d);
    context c;
    bool made = false, stuck = false;
    slot *s = first ? take_place(d, t, &stuck) : take_empty(t);
    *out = NULL;
    if (stuck && !s)
        return tidei_fail(TIDE_E_DEVICE, op,
                          "no place for a %s handle: one of %d others could not be destroyed",
                          k->name, SLOTS);
    if (!s) return TIDE_OK;
    tide_status status = enter_context(d, &c, op);
    if (status == TIDE_OK) {
        pthread_mutex_lock(&t->making);
        if (!first || !atomic_load(&state_of(t, k)->made)) {
            status = create(d, t, s, k, lib, op);
            made = status == TIDE_OK;
        }
        pthread_mutex_unlock(&t->making);
        leave_context(&c);
    }
    if (made)
        *out = s;
    else
        put(t, s, EMPTY);
    return status;
}

/* ---- calls ---- */

static void undo_keep(tidei_runtime *rt, tidei_thread *t, void *ks, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    atomic_fetch_sub(&((kind_state *)ks)->keepers, 1);
}

void tidei_library_keep(tidei_dev *d, const tidei_handle_kind *kind) {
    kind_state *ks = state_of(table_of(d), kind);
    atomic_fetch_add(&ks->keepers, 1);
    tidei_hold(tidei_thread_get(d->rt), undo_keep, ks, 0);
}
void tidei_library_unkeep(tidei_dev *d, const tidei_handle_kind *kind) {
    kind_state *ks = state_of(table_of(d), kind);
    tidei_let(tidei_thread_get(d->rt), ks);
    atomic_fetch_sub(&ks->keepers, 1);
}

/* Bytes that a handle is about to take, as far as is known. */
static size_t about(tidei_dev *d, const tidei_handle_kind *k) {
    kind_state *ks = state_of(table_of(d), k);
    return atomic_load(&ks->measured) ? atomic_load(&ks->takes) : k->about;
}

/* Makes sure that there is a handle. */
static tide_status provide(void *arg, unsigned flags) {
    const tidei_library_call *c = arg;
    tidei_dev *d = c->s->dev;
    table *t = table_of(d);
    slot *s = NULL;
    if (atomic_load(&state_of(t, c->kind)->made)) return TIDE_OK;
    if (flags & TIDEI_ALLOC_NO_GROW) return beyond_limit(c->kind, about(d, c->kind), c->op);
    tide_status status = make(d, c->kind, c->lib, true, c->op, &s);
    if (s) give(d, s);
    return status;
}

/* What the first one took, and was too much, is known afterwards: then it is climbed for again, and
** what failed before is no error. */
static tide_status provide_first(tidei_library_call *call) {
    tidei_dev *d = call->s->dev;
    tidei_saved_error before = {0}; /* collections below may scan it */
    tide_status status;
    size_t bytes;
    tidei_error_save(&before);
    do
        status =
            tidei_outside_with_reclaim(d, bytes = about(d, call->kind), call->op, provide, call);
    while (status == TIDE_E_NOMEM && about(d, call->kind) > bytes);
    if (status == TIDE_OK) tidei_error_restore(&before);
    return status;
}

tide_status tidei_library_provide(const tidei_library_call *c) {
    if (tidei_likely(atomic_load(&state_of(table_of(c->s->dev), c->kind)->made))) return TIDE_OK;
    tidei_library_call call = *c;
    return provide_first(&call);
}

tide_status tidei_library_begin(const tidei_library_call *c) {
    tidei_library_keep(c->s->dev, c->kind);
    tide_status status = tidei_library_provide(c);
    if (status != TIDE_OK) tidei_library_unkeep(c->s->dev, c->kind);
    return status;
}

void tidei_library_end(const tidei_library_call *c) { tidei_library_unkeep(c->s->dev, c->kind); }

/* Another handle beside those that are all in calls just now, if there is room for it that nobody
** has to make. */
static slot *make_another(const tidei_library_call *c) {
    tidei_dev *d = c->s->dev;
    slot *s = NULL;
    tidei_saved_error before;
    if (tidei_above_soft(d, about(d, c->kind))) return NULL;
    tidei_error_save(&before);
    if (make(d, c->kind, c->lib, false, c->op, &s) != TIDE_OK) tidei_error_restore(&before);
    return s;
}

/* A handle for this thread alone. Where all of the kind are in calls, their end is waited for. */
static tide_status acquire(const tidei_library_call *c, slot **out) {
    tidei_dev *d = c->s->dev;
    table *t = table_of(d);
    struct waiter w = {t, c->kind};
    while (!(*out = take_idle(t, c->kind))) {
        if (!atomic_load(&state_of(t, c->kind)->made)) {
            /* a climb that began before the call took it in between */
            tide_status status = make(d, c->kind, c->lib, true, c->op, out);
            if (*out || status != TIDE_OK) return status;
        } else if ((*out = make_another(c)))
            break;
        tidei_blocking(d->rt, wait_for_one, &w);
    }
    return TIDE_OK;
}

static void undo_acquire(tidei_runtime *rt, tidei_thread *t, void *s, uintptr_t of) {
    (void)rt, (void)t;
    put((table *)of, s, IDLE);
}

typedef struct attempted {
    const tidei_library_call *c;
    unsigned (*ask)(const tidei_library_call *c, void *handle); /* NULL: it is to be run */
    bool spoiled; /* an earlier attempt may have overwritten operands */
    /* NULL: it is queued, else captured, at the addresses of `at` */
    tidei_dgraph *g;
    const tidei_submission *at;
    const tidei_graph_range *ranges; /* the same, as the graph knows them */
    bool refused;                    /* it is not to be made without a workspace */
} attempted;

static tide_status fail_call(const tidei_library_call *c, unsigned r) {
    char what[256] = "a call";
    if (c->describe) c->describe(c, what, sizeof what);
    return library_failed(c->s->dev, c->kind, r, what, c->op);
}

static unsigned bind_workspace(const tidei_library_call *c, void *handle,
                               const tidei_submission *w) {
    if (!c->workspace) return c->kind->set_workspace(c->lib, handle, NULL, 0);
    const unsigned last = c->n - 1;
    return c->kind->set_workspace(c->lib, handle, (void *)(uintptr_t)w->ranges[last].addr,
                                  c->uses[last].bytes);
}

/* In the context, with the handle: the window. It climbs nothing, for who leads a climb may wait
** for the handle. */
static tide_status queue(attempted *a, slot *s) {
    const tidei_library_call *c = a->c;
    tidei_device *d = c->s->dev->d;
    tidei_thread *t = tidei_thread_get(c->s->dev->rt); /* it has come here through operands */
    tidei_submission w;
    tidei_deepen(t, &t->depth_climb);
    tide_status status = tidei_submit_begin(&w, c->s, c->uses, c->n, c->op);
    tidei_rise(t, &t->depth_climb);
    if (status != TIDE_OK) return status;
    void *native = d->ops->stream_native(d, c->s->ds);
    if (d->ops->stream_lend) d->ops->stream_lend(d, c->s->ds, true); /* under the stream's lock */
    unsigned r = c->kind->set_stream(c->lib, s->handle, native);
    if (!r && c->kind->set_workspace) r = bind_workspace(c, s->handle, &w);
    if (!r) {
        a->spoiled = true;
        r = c->run(c, s->handle, native, &w);
    }
    tidei_count_locked(&c->s->launches);
    status = tidei_submit_end(&w, TIDE_OK);
    return r && status == TIDE_OK ? fail_call(c, r) : status;
}

/* The same while the device captures. Afterwards the handle knows no stream that goes. */
static tide_status capture(attempted *a, slot *s) {
    const tidei_library_call *c = a->c;
    tidei_device *d = c->s->dev->d;
    void *native;
    tide_status status = d->ops->graph_capture_begin(d, a->g, &native);
    if (status != TIDE_OK) return status;
    unsigned r = c->kind->set_stream(c->lib, s->handle, native);
    if (!r && c->kind->set_workspace) r = bind_workspace(c, s->handle, a->at);
    if (!r) r = c->run(c, s->handle, native, a->at);
    status = d->ops->graph_capture_end(d, a->g, !r, a->ranges, c->n);
    (void)c->kind->set_stream(c->lib, s->handle, d->ops->stream_native(d, c->s->ds));
    a->refused = r && c->bare_first && !c->workspace;
    return r && status == TIDE_OK && !a->refused ? fail_call(c, r) : status;
}

static tide_status attempt(void *arg, unsigned flags) {
    TIDEI_UNCANCELLED;
    attempted *a = arg;
    const tidei_library_call *c = a->c;
    tidei_dev *d = c->s->dev;
    slot *s;
    context in;
    (void)flags;
    tide_status status = a->spoiled && c->again ? c->again(c) : TIDE_OK;
    if (status == TIDE_OK && !a->ask && !a->g)
        status = tidei_uses_return(c->s, c->uses, c->n, c->op);
    if (status == TIDE_OK) status = acquire(c, &s);
    if (status != TIDE_OK) return status;
    tidei_thread *t = tidei_thread_get(d->rt);
    tidei_hold(t, undo_acquire, s, (uintptr_t)table_of(d));
    status = enter_context(d, &in, c->op);
    if (status == TIDE_OK) {
        if (in.pushed) tidei_hold(t, undo_context, (void *)(uintptr_t)in.cu, 0);
        unsigned r = a->ask ? a->ask(c, s->handle) : 0;
        if (r) status = fail_call(c, r);
        if (!a->ask) status = a->g ? capture(a, s) : queue(a, s);
        if (in.pushed) tidei_let(t, in.cu);
        leave_context(&in);
    }
    tidei_let(t, s);
    give(d, s);
    return status;
}

/* ---- calls that are captured ---- */

typedef struct captured {
    tidei_library_call c;
    _Alignas(16) unsigned char arg[2048];
} captured;

/* Within what climbs where memory is short: the building of the graph. */
static tide_status make_captured(const captured *k, tidei_dgraph *g, const tidei_submission *w,
                                 const tidei_graph_range *ranges, bool bare, bool *refused) {
    tidei_library_call c = k->c;
    attempted a = {.c = &c, .g = g, .at = w, .ranges = ranges};
    c.n = bare ? w->n - 1 : w->n;
    c.workspace &= !bare;
    c.bare_first = bare;
    tide_status status = attempt(&a, 0);
    *refused = a.refused;
    return status;
}

/* Both attempts are of one call, as they are where it is queued: the second knows of the first. */
static tide_status call_captured(const tidei_graph_node *x, tidei_dev *d, tidei_dgraph *g,
                                 const tidei_submission *w, const tidei_graph_range *ranges) {
    captured k;
    bool refused = true;
    tide_status status = TIDE_OK;
    (void)d;
    memcpy(&k, x->data, offsetof(captured, arg) + ((const captured *)x->data)->c.arg_bytes);
    k.c.arg = k.arg;
    k.c.s = w->s;
    k.c.uses = w->uses;
    if (k.c.bare_first) status = make_captured(&k, g, w, ranges, true, &refused);
    return status == TIDE_OK && refused ? make_captured(&k, g, w, ranges, false, &refused) : status;
}

static tide_status note_call(tidei_capture *into, const tidei_library_call *c) {
    captured k;
    if (!c->arg_bytes) return tidei_capture_refused(c->s->dev->rt, c->op, "calls a library");
    tidei_check(c->arg_bytes <= sizeof k.arg);
    k.c = *c;
    memcpy(k.arg, c->arg, c->arg_bytes);
    return tidei_capture_call(into, c->uses, c->n, call_captured, &k,
                              offsetof(captured, arg) + c->arg_bytes, c->op);
}

tide_status tidei_library_run(const tidei_library_call *c) {
    attempted a = {.c = c};
    tidei_capture *into = tidei_capturing(c->s->dev->rt);
    if (tidei_unlikely(into != NULL)) return note_call(into, c);
    return tidei_outside_with_reclaim(c->s->dev, about(c->s->dev, c->kind), c->op, attempt, &a);
}

tide_status tidei_library_ask(const tidei_library_call *c,
                              unsigned (*ask)(const tidei_library_call *c, void *handle)) {
    attempted a = {.c = c, .ask = ask};
    return tidei_outside_with_reclaim(c->s->dev, about(c->s->dev, c->kind), c->op, attempt, &a);
}

/* ---- figures ---- */

void tidei_handles_set_cap(tidei_runtime *rt, size_t bytes) {
    atomic_store(&tidei_libs_of(rt)->handles->cap, bytes);
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) keep_to_cap(d, table_of(d));
}

void tidei_handles_figures(tidei_dev *d, const tidei_handle_kind *kind, tidei_handle_figures *out) {
    table *t = table_of(d);
    *out = (tidei_handle_figures){0};
    for (unsigned i = 0; i < SLOTS; i++) {
        slot *s = &t->slots[i];
        const tidei_handle_kind *k = atomic_load(&s->kind);
        unsigned state = atomic_load(&s->state);
        if (!k || state == EMPTY || (kind && k != kind)) continue;
        size_t bytes = atomic_load(&s->bytes);
        out->made++;
        out->bytes += bytes;
        if (state == IDLE) out->idle++, out->idle_bytes += bytes;
    }
}

/* ---- opening and closing ---- */

tide_status tidei_handles_open(tidei_runtime *rt, tidei_handles **out) {
    size_t bytes = sizeof(tidei_handles) + rt->ndevs * sizeof(table);
    tidei_handles *h = tidei_host_alloc(rt, bytes);
    if (!h) return tidei_fail_host_memory("tide_open", bytes);
    h->rt = rt;
    h->n = rt->ndevs;
    atomic_store(&h->cap, rt->set.handle_cache);
    for (unsigned i = 0; i < h->n; i++) {
        pthread_mutex_init(&h->tables[i].making, NULL);
        pthread_mutex_init(&h->tables[i].lock, NULL);
        pthread_cond_init(&h->tables[i].changed, NULL);
    }
    h->reclaim = (tidei_reclaimable){
        .name = "library handles", .purge = purge, .drop = drop, .bytes = all_bytes, .self = h};
    *out = h; /* first: from now on a neighbour that is short may ask for handles */
    tidei_reclaimable_register(rt, &h->reclaim);
    return TIDE_OK;
}

void tidei_handles_close(tidei_handles *h) {
    if (!h) return;
    tidei_reclaimable_unregister(h->rt, &h->reclaim);
    for (tidei_dev *d = NULL; !tidei_forked() && (d = tidei_dev_next(h->rt, d));) {
        bool failed = false;
        give_way(d, SIZE_MAX, false, &failed);
        if (failed)
            tidei_log(h->rt, TIDE_LOG_WARNING, "tide_close: a library handle on %s: %s",
                      d->d->info.name, tide_error_last()->message);
    }
    for (unsigned i = 0; i < h->n; i++) {
        pthread_mutex_destroy(&h->tables[i].making);
        pthread_mutex_destroy(&h->tables[i].lock);
        pthread_cond_destroy(&h->tables[i].changed);
    }
    tidei_host_free(h->rt, h);
}
