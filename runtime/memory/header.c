/* header.c: headers, the death queue, drain. The model stands in header.h.
**
** What must stay true: while QUEUED is set only the drain that took the list touches the header. It
** clears QUEUED last, in one step that also sees a GONE that arrived meanwhile; so two drains never
** work on one header. */
#include "runtime/memory/header.h"
#include "runtime/memory/storage.h"
#include "runtime/base/uncancelled.h"
#include <sched.h>
#include <stdlib.h>

/* 16 KiB a slab, which serves 64 arrays with one malloc; small programs need one slab */
#define SLAB_HEADERS 64
static_assert(sizeof(tidei_header) == 4 * TIDEI_LINE,
              "what a death touches is the first line, but for the cell");

struct slab {
    struct slab *next;
    tidei_header headers[SLAB_HEADERS];
};

/* The process's: slabs and queues are never given back, so that a late report reads valid
** memory. */
static struct {
    pthread_mutex_t lock;
    struct slab *slabs;
    tidei_header *free;
    tidei_deaths *queues;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A recycled header looks dead to everyone, under a generation that no report was ever given. */
#define WORD_FREE (TIDEI_DEAD | TIDEI_GONE | TIDEI_DRAINED)

static bool grow_locked(void) {
    struct slab *s = aligned_alloc(alignof(struct slab), sizeof *s);
    if (!s) return false;
    memset(s, 0, sizeof *s);
    s->next = all.slabs;
    all.slabs = s;
    for (unsigned i = 0; i < SLAB_HEADERS; i++) {
        atomic_init(&s->headers[i].word, WORD_FREE);
        s->headers[i].next = all.free;
        all.free = &s->headers[i];
    }
    return true;
}

/* ---- a thread's free list ---- */

/* Fills the thread's list by half, so that neither taking nor putting soon comes back to the
** process's list. */
static bool fetch(tidei_header_free_list *free_list) {
    pthread_mutex_lock(&all.lock);
    while (free_list->n < TIDEI_FREE_LIST_MOST / 2 && (all.free || grow_locked())) {
        tidei_header *h = all.free;
        all.free = h->next;
        h->next = free_list->first;
        free_list->first = h;
        free_list->n++;
    }
    pthread_mutex_unlock(&all.lock);
    return free_list->n != 0;
}

static void give(tidei_header_free_list *free_list, unsigned keep) {
    pthread_mutex_lock(&all.lock);
    while (free_list->n > keep) {
        tidei_header *h = free_list->first;
        free_list->first = h->next;
        h->next = all.free;
        all.free = h;
        free_list->n--;
    }
    pthread_mutex_unlock(&all.lock);
}

void tidei_header_free_list_give(tidei_header_free_list *free_list) { give(free_list, 0); }

static void put(tidei_header_free_list *free_list, tidei_header *h) {
    if (free_list->n == TIDEI_FREE_LIST_MOST) give(free_list, TIDEI_FREE_LIST_MOST / 2);
    h->next = free_list->first;
    free_list->first = h;
    free_list->n++;
}

/* ---- a header's life ---- */

tidei_header *tidei_header_new(tidei_runtime *rt, tidei_header_free_list *free_list,
                               tidei_storage *st, const tidei_layout *lay) {
    if (!free_list->first && !fetch(free_list)) return NULL;
    tidei_header *h = free_list->first;
    free_list->first = h->next;
    free_list->n--;
    uint64_t generation =
        (atomic_load_explicit(&h->word, memory_order_relaxed) & ~(uint64_t)TIDEI_WORD_FLAGS) +
        TIDEI_WORD_GENERATION;
    h->next = NULL;
    atomic_store_explicit(&h->deaths, rt->deaths, memory_order_relaxed);
    h->home = NULL;
    h->root = NULL;
    h->st = st;
    h->dev = st ? st->dev : NULL;
    h->bytes = st ? st->bytes : 0;
    h->notes = NULL;
    atomic_store_explicit(&h->scope, NULL, memory_order_relaxed);
    h->lay = *lay;
    atomic_fetch_add_explicit(&rt->deaths->headers, 1, memory_order_relaxed);
    atomic_store_explicit(&h->word, generation, memory_order_release);
    return h;
}

#define QUARANTINE 4096 /* headers: 1 MiB; a stale pointer is mostly used soon */

/* Keeps a header out of use, and returns the one that has been so for longest; NULL while there is
** room. */
static tidei_header *quarantine(tidei_header *h) {
    static tidei_header *ring[QUARANTINE];
    static size_t at;
    pthread_mutex_lock(&all.lock);
    tidei_header *oldest = ring[at];
    ring[at] = h;
    at = (at + 1) % QUARANTINE;
    pthread_mutex_unlock(&all.lock);
    if (oldest) oldest->cell.hidden = 0;
    return oldest;
}

/* The header's last step: nobody holds the cell any more, and since its word says GONE later
** reports do not touch it. At debug level 1 it stays out of use for a while, so that using a stale
** pointer keeps failing. */
static void recycle(tidei_runtime *rt, tidei_header *h, uint64_t word,
                    tidei_header_free_list *free_list) {
    /* else the dead cell lies in another heap, and its owner quarantines it */
    bool counted = h->home == &h->cell;
    bool keep = counted && rt && rt->set.debug;
    if (counted && !keep) h->cell.hidden = 0;
    atomic_store_explicit(&h->word, (word | TIDEI_DRAINED) & ~(uint64_t)TIDEI_QUEUED,
                          memory_order_release);
    if (keep && !(h = quarantine(h))) return;
    put(free_list, h);
}

/* Sets the flags. True: the caller has to push the header. */
static bool mark(tidei_header *h, uint64_t generation, unsigned flags) {
    uint64_t w = atomic_load_explicit(&h->word, memory_order_relaxed);
    do {
        if ((w & ~(uint64_t)TIDEI_WORD_FLAGS) != generation || (w & flags) == flags) return false;
    } while (!atomic_compare_exchange_weak_explicit(&h->word, &w, w | flags | TIDEI_QUEUED,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return !(w & TIDEI_QUEUED);
}

/* Pushes all headers from the youngest to the oldest, linked by `next`. */
static void push(tidei_deaths *q, tidei_header *youngest, tidei_header *oldest) {
    tidei_header *head = atomic_load_explicit(&q->head, memory_order_relaxed);
    do oldest->next = head;
    while (!atomic_compare_exchange_weak_explicit(&q->head, &head, youngest, memory_order_release,
                                                  memory_order_relaxed));
}

/* Between marking and pushing, when nobody else touches the header. */
static inline void note_moment(tidei_deaths *q, tidei_header *h, unsigned flags) {
    if (tidei_unlikely(atomic_load_explicit(&q->timed, memory_order_relaxed)))
        h->died_ns = h->bytes ? (tidei_now_ns() | 1) ^ !(flags & TIDEI_GONE) : 0;
}

void tidei_report(tidei_header *h, uint64_t generation, unsigned flags) {
    if (!mark(h, generation, flags)) return;
    tidei_deaths *q = atomic_load_explicit(&h->deaths, memory_order_relaxed);
    note_moment(q, h, flags);
    push(q, h, h);
}

void tidei_report_many(const tidei_death *at, size_t n, unsigned flags) {
    tidei_deaths *q = NULL;
    tidei_header *youngest = NULL, *oldest = NULL;
    for (const tidei_death *d = at; d < at + n; d++) {
        tidei_header *h = d->header;
        if (!mark(h, d->generation, flags)) continue;
        tidei_deaths *of = atomic_load_explicit(&h->deaths, memory_order_relaxed);
        note_moment(of, h, flags);
        if (q && q != of) push(q, youngest, oldest);
        if (q == of)
            h->next = youngest;
        else
            q = of, oldest = h;
        youngest = h;
    }
    if (q) push(q, youngest, oldest);
}

/* Runs the death callbacks. Each is taken from the header before it is called: one that a longjmp
** leaves is not called again. */
static void run_notes(tidei_runtime *rt, tidei_header *h) {
    TIDEI_UNCANCELLED;
    for (tidei_death_note *n; (n = h->notes);) {
        tidei_callback in = {.t = NULL};
        void (*fn)(void *) = n->fn;
        void *user = n->user;
        h->notes = n->next;
        tidei_host_free(rt, n);
        if (rt) tidei_callback_begin(&in, rt, TIDEI_IN_DEATH, NULL);
        fn(user);
        tidei_callback_end(&in);
    }
}

/* The thread that holds the header will let go soon: the header was alive when it was held, and a
** dead one is not held again. */
__attribute__((noinline)) static void wait_while_held(tidei_header *h) {
    while (atomic_load_explicit(&h->word, memory_order_acquire) & TIDEI_HELD) sched_yield();
}

/* A storage dies with the last of its arrays, which is the one that is drained last. The cell went
** with the array: so a tracing collector found it, or its last reference was given back. */
__attribute__((noinline)) static void note_death(tidei_header *h, tidei_storage *st) {
    tidei_runtime *rt = st->dev->rt;
    uint64_t ns = h->died_ns;
    h->died_ns = 0; /* as the header's next array finds it */
    if (ns & 1 && !(rt->gc_ops && rt->gc_ops->traces && rt->gc_ops->traces(h))) ns--;
    atomic_store_explicit(&st->died_ns, ns, memory_order_relaxed);
}

/* Lets go of a dead header's storage; returns it if nobody else has it, and the caller then ends
** it. */
static tidei_storage *let_go(tidei_header *h) {
    tidei_storage *st = h->st;
    uint64_t w = atomic_load_explicit(&h->word, memory_order_acquire);
    if (tidei_unlikely(w & (TIDEI_DRAINED | TIDEI_HELD))) {
        if (w & TIDEI_DRAINED) return NULL;
        wait_while_held(h);
    }
    h->st = NULL;
    if (!st) return NULL;
    if (tidei_unlikely(st->watched & TIDEI_WATCHED_BY_OBSERVERS)) note_death(h, st);
    return tidei_storage_unref(st) ? st : NULL;
}

/* The rest of a death: callbacks, and the header itself once its cell is gone. True: it was
** recycled. */
static bool finish_death(tidei_runtime *rt, tidei_header *h, tidei_header_free_list *free_list) {
    uint64_t w = atomic_load_explicit(&h->word, memory_order_acquire);
    if (!(w & TIDEI_DRAINED) && tidei_unlikely(h->notes != NULL)) run_notes(rt, h);
    do {
        if (w & TIDEI_GONE) {
            recycle(rt, h, w, free_list);
            return true;
        }
    } while (
        !atomic_compare_exchange_weak(&h->word, &w, (w | TIDEI_DRAINED) & ~(uint64_t)TIDEI_QUEUED));
    return false;
}

/* The queue is a stack; callbacks and frees should come in the order of the deaths. */
static tidei_header *take_all(tidei_deaths *q) {
    tidei_header *list = atomic_exchange_explicit(&q->head, NULL, memory_order_acq_rel),
                 *reversed = NULL;
    while (list) {
        tidei_header *next = list->next;
        list->next = reversed;
        reversed = list;
        list = next;
    }
    return reversed;
}

/* headers: five cache lines for each of so many fit into the nearest cache */
#define BATCH 16

/* Returns the storages of the headers to their pools; returns their bytes. After a collection many
** headers are dead and not in the processor's cache: what the next step touches of all of them is
** fetched before it begins, so that the fetches overlap. */
static size_t let_go_all(tidei_header *const *h, unsigned n) {
    tidei_storage *over[BATCH];
    unsigned m = 0;
    size_t bytes = 0;
    for (unsigned i = 0; i < n; i++)
        if (h[i]->st) tidei_storage_prefetch(h[i]->st);
    for (unsigned i = 0; i < n; i++) {
        tidei_storage *st = let_go(h[i]);
        if (!st) continue;
        __builtin_prefetch(st->priv, 1);
        over[m++] = st;
    }
    for (unsigned i = 0; i < m; i++) {
        bytes += over[i]->bytes;
        tidei_storage_end(over[i]);
    }
    return bytes;
}

/* Takes the first headers off the list, at most BATCH. */
static unsigned take_batch(tidei_header **list, tidei_header **batch) {
    unsigned n = 0;
    for (; *list && n < BATCH; *list = (*list)->next) batch[n++] = *list;
    return n;
}

/* A longjmp left the drain inside a death callback. The first header of the list is the one whose
** callback that was: its other callbacks follow, in another drain. */
static void undo_finishing(tidei_runtime *rt, tidei_thread *t, void *list, uintptr_t of) {
    tidei_header *youngest = NULL, *oldest = t->dead;
    (void)list, (void)of;
    t->dead = NULL;
    t->depth_drain--;
    for (tidei_header *h = oldest, *next; h; h = next) {
        next = h->next;
        h->next = youngest;
        youngest = h;
    }
    if (youngest) push(rt->deaths, youngest, oldest);
}

/* Finishes the deaths of the list, callbacks first. Meanwhile the thread's record, if it has one,
** notes what is left of the list. */
static void finish_noted_death(tidei_runtime *rt, tidei_deaths *q,
                               tidei_header_free_list *free_list, tidei_thread *t,
                               tidei_header *list) {
    tidei_header *alone, **noted = t ? &t->dead : &alone;
    *noted = list;
    tidei_hold(t, undo_finishing, noted, 0);
    for (tidei_header *h; (h = *noted);) {
        tidei_header *next = h->next;
        bool recycled = finish_death(rt, h, free_list);
        *noted = next;
        if (recycled) atomic_fetch_sub_explicit(&q->headers, 1, memory_order_release);
    }
    tidei_let(t, noted);
}

/* Returns the storages of what is dead, and then calls the callbacks. Meanwhile no other thread can
** find these storages; `finishing` is odd until they are back in their pools (but not until the
** callbacks have run), so that a climb waits for them. */
static size_t drain_queue(tidei_runtime *rt, tidei_deaths *q, tidei_header_free_list *free_list,
                          _Atomic uint64_t *finishing, tidei_thread *t) {
    size_t bytes = 0;
    uint64_t recycled = 0;
    tidei_header *batch[BATCH], *noted = NULL, **end = &noted;
    uint64_t before = atomic_load_explicit(finishing, memory_order_relaxed);
    atomic_store_explicit(finishing, before + 1,
                          memory_order_relaxed); /* set before the list is taken */
    tidei_header *list = take_all(q);
    for (unsigned n; (n = take_batch(&list, batch));) {
        bytes += let_go_all(batch, n);
        for (unsigned i = 0; i < n; i++) {
            if (batch[i]->notes) {
                *end = batch[i];
                end = &batch[i]->next;
            } else
                recycled += finish_death(rt, batch[i], free_list);
        }
    }
    *end = NULL;
    if (recycled) atomic_fetch_sub_explicit(&q->headers, recycled, memory_order_release);
    atomic_store_explicit(finishing, before + 2, memory_order_release);
    if (tidei_unlikely(noted != NULL)) finish_noted_death(rt, q, free_list, t, noted);
    return bytes;
}

size_t tidei_drain(tidei_runtime *rt) {
    if (!tidei_deaths_pending(rt->deaths)) return 0;
    tidei_thread *t = tidei_thread_get(rt);
    if (!t || t->depth_drain) return 0;
    tidei_saved_error e;
    tidei_error_save(&e);
    t->depth_drain++;
    size_t bytes = drain_queue(rt, rt->deaths, &t->free_list, &t->finishing, t);
    t->depth_drain--;
    tidei_error_restore(&e);
    return bytes;
}

/* ---- queues ---- */

/* A queue without headers and without a runtime may serve again; queues with late reports are
** emptied on the way. The queue returned is claimed. */
static tidei_deaths *idle_queue(void) {
    for (tidei_deaths *q = all.queues; q; q = q->next) {
        if (atomic_load(&q->rt) || q->claimed) continue;
        /* or another opening runtime takes the queue, and this thread would finish that runtime's
        ** deaths */
        q->claimed = true;
        pthread_mutex_unlock(&all.lock); /* recycling takes it; queues never leave the list */
        tidei_header_free_list free_list = {NULL, 0};
        _Atomic uint64_t alone = 0;
        drain_queue(NULL, q, &free_list, &alone, NULL);
        tidei_header_free_list_give(&free_list);
        pthread_mutex_lock(&all.lock);
        if (atomic_load(&q->headers) == 0) return q;
        q->claimed = false;
    }
    return NULL;
}

tidei_deaths *tidei_deaths_open(tidei_runtime *rt) {
    pthread_mutex_lock(&all.lock);
    tidei_deaths *q = idle_queue();
    if (!q && (q = calloc(1, sizeof *q))) {
        q->next = all.queues;
        all.queues = q;
    }
    if (q) {
        atomic_store(&q->rt, rt);
        q->claimed = false;
    }
    pthread_mutex_unlock(&all.lock);
    return q;
}

static void each_header_locked(tidei_deaths *q, void (*fn)(tidei_header *h, void *user),
                               void *user) {
    for (struct slab *s = all.slabs; s; s = s->next)
        for (unsigned i = 0; i < SLAB_HEADERS; i++) {
            uint64_t w = atomic_load_explicit(&s->headers[i].word, memory_order_acquire);
            if (!(w & TIDEI_DRAINED) && s->headers[i].deaths == q) fn(&s->headers[i], user);
        }
}

void tidei_each_header(tidei_deaths *q, void (*fn)(tidei_header *h, void *user), void *user) {
    pthread_mutex_lock(&all.lock);
    each_header_locked(q, fn, user);
    pthread_mutex_unlock(&all.lock);
}

/* The fields are read while others may write them, and count only if the header's word is the same
** before and after; hence no ThreadSanitizer. */
__attribute__((no_sanitize("thread"))) bool tidei_header_look(tidei_header *h, tidei_dev **dev,
                                                              size_t *bytes, tidei_layout *lay) {
    uint64_t w = atomic_load_explicit(&h->word, memory_order_acquire);
    *dev = h->dev;
    *bytes = h->bytes;
    *lay = h->lay;
    return !(w & TIDEI_DRAINED) && atomic_compare_exchange_strong(&h->word, &w, w);
}

__attribute__((no_sanitize("thread"))) tidei_storage *
tidei_header_holds(tidei_header *h, size_t *bytes, tidei_layout *lay) {
    uint64_t w = atomic_load_explicit(&h->word, memory_order_acquire);
    tidei_storage *st = h->st;
    *bytes = h->bytes;
    *lay = h->lay;
    return !(w & TIDEI_DEAD) && atomic_compare_exchange_strong(&h->word, &w, w) ? st : NULL;
}

/* ---- storages that only arrays refer to ---- */

struct idle_look {
    tidei_deaths *q;
    const tidei_dev *dev;
    tidei_idle *at;
    size_t n, room;
};

static void let_die(tidei_header *h) {
    atomic_fetch_and_explicit(&h->word, ~(uint64_t)TIDEI_HELD, memory_order_release);
}

/* Sets HELD: until let_die a live header's storage keeps the array's reference. False: it is
** dead. */
static bool hold_live(tidei_header *h) {
    uint64_t w = atomic_load_explicit(&h->word, memory_order_acquire);
    do {
        if (w & (TIDEI_DEAD | TIDEI_DRAINED)) return false;
    } while (!atomic_compare_exchange_weak(&h->word, &w, w | TIDEI_HELD));
    return true;
}

bool tidei_header_spilled(tidei_header *h) {
    if (!hold_live(h)) return false;
    tidei_storage *st = h->st;
    bool spilled = false;
    if (st) {
        tidei_stamps_lock(st);
        spilled = tidei_storage_spilled(st);
        tidei_stamps_unlock(st);
    }
    let_die(h);
    return spilled;
}

static void look_at(tidei_header *h, void *user) {
    struct idle_look *x = user;
    if (x->n == x->room || !hold_live(h)) return;
    tidei_storage *st = h->st;
    if (atomic_load(&h->deaths) == x->q && st && st->bytes && st->dev == x->dev)
        x->at[x->n++] = (tidei_idle){st, h, 1};
    else
        let_die(h);
}

static int by_storage(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const tidei_idle *)a)->st,
              y = (uintptr_t)((const tidei_idle *)b)->st;
    return (x > y) - (x < y);
}

/* Of the headers of one storage one entry stays, if nobody else refers to the storage. Lets go of
** all headers. */
static size_t keep_idle(tidei_idle *at, size_t n) {
    size_t kept = 0;
    for (size_t i = 0, next; i < n; i = next) {
        tidei_storage *st = at[i].st;
        for (next = i + 1; next < n && at[next].st == st;) next++;
        uint32_t arrays = (uint32_t)(next - i);
        bool idle = atomic_load(&st->refs) == arrays;
        if (idle) tidei_storage_retain(st);
        for (size_t k = i; k < next; k++) let_die(at[k].header);
        if (idle) at[kept++] = (tidei_idle){.st = st, .arrays = arrays};
    }
    return kept;
}

size_t tidei_headers_idle(tidei_deaths *q, const tidei_dev *d, tidei_idle *at, size_t room) {
    struct idle_look x = {q, d, at, 0, room};
    /* tidei_header_look compares words, and would take a held header for another one */
    pthread_mutex_lock(&all.lock);
    each_header_locked(q, look_at, &x);
    qsort(at, x.n, sizeof *at, by_storage);
    size_t kept = keep_idle(at, x.n);
    pthread_mutex_unlock(&all.lock);
    return kept;
}

static void report_dead(tidei_header *h, void *count) {
    tidei_report(h, tidei_header_generation(h), TIDEI_DEAD);
    ++*(size_t *)count;
}

/* A report of another thread may be between its two steps: the header is marked, and will be
** pushed. */
void tidei_deaths_end(tidei_deaths *q) {
    tidei_runtime *rt = atomic_load(&q->rt);
    tidei_thread *t = tidei_thread_get(rt);
    tidei_header_free_list free_list = {NULL, 0};
    tidei_saved_error e;
    size_t left;
    _Atomic uint64_t alone = 0;
    tidei_error_save(&e);
    if (t) t->depth_drain++;
    atomic_store(&q->timed, false); /* what lives until here was never unreachable */
    do {
        left = 0;
        tidei_each_header(q, report_dead, &left);
        drain_queue(rt, q, t ? &t->free_list : &free_list, &alone, t);
        if (left) sched_yield();
    } while (left);
    if (t) t->depth_drain--;
    tidei_error_restore(&e);
    tidei_header_free_list_give(&free_list);
}

void tidei_deaths_close(tidei_deaths *q) {
    tidei_deaths_end(q);
    atomic_store(&q->rt, NULL);
}

/* ---- deaths in other threads' hands ---- */

struct others {
    const tidei_thread *own;
};

/* What is waited for takes no lock of threads and calls nobody back. */
static void wait_finished(tidei_thread *t, void *user) {
    const struct others *x = user;
    uint64_t now = atomic_load(&t->finishing);
    while (t != x->own && now % 2 && atomic_load(&t->finishing) == now) sched_yield();
}

void tidei_threads_finish_deaths(tidei_runtime *rt) {
    struct others x = {tidei_thread_look(rt)};
    /* the thread that emptied the queue that we saw empty has said so before */
    atomic_thread_fence(memory_order_acquire);
    tidei_threads_each(rt, wait_finished, &x);
}
