/* storage.c: tracked memory and submission. The model stands in storage.h.
**
** The common case, an operation whose operands were all used on its own stream, takes no lock but
** that stream's, makes no driver call but the launch, and allocates nothing. */
#include "runtime/memory/subranges.h"
#include "runtime/pool/pools.h"
#include "runtime/memory/capture.h"
#include "runtime/memory/header.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/memory/move.h"
#include "runtime/memory/peers.h"
#include "runtime/memory/recovery.h"
#include "runtime/memory/storage.h"
#include "runtime/streams/loss.h"
#include "runtime/streams/thread_device.h"
#include "runtime/memory/spill.h"
#include "runtime/observe/tracker.h"

/* ---- a storage's life ---- */

#if !defined(__SANITIZE_ADDRESS__)
/* a thread and device: 480 KiB; a collection finds so many dead in a row */
#define FREE_LIST_MOST 4096
#else
/* AddressSanitizer could not tell a record that is kept from one in use */
#define FREE_LIST_MOST 0
#endif

/* NULL: the calling thread has no number. */
static tidei_storage_free_list *free_list_here(tidei_dev *d) {
    int number = tidei_thread_number;
    return tidei_likely(number > 0) ? &d->memory->free_lists[number - 1] : NULL;
}

/* Of a storage whose runtime tracks: the bytes behind its record. */
#define ORIGIN_AT                                                                                  \
    ((sizeof(tidei_storage) + _Alignof(tidei_origin) - 1) / _Alignof(tidei_origin) *               \
     _Alignof(tidei_origin))
static tidei_origin *origin_of(tidei_storage *st) {
    return (tidei_origin *)(void *)((char *)st + ORIGIN_AT);
}

/* Takes a record, not zeroed, with room for its origin where it gets one. NULL: host memory is
** exhausted. */
static tidei_storage *take_record(tidei_dev *d) {
    tidei_storage_free_list *x = free_list_here(d);
    tidei_storage *st = x ? x->first : NULL;
    if (tidei_unlikely(!st))
        return tidei_host_take(d->rt,
                               d->rt->tracker ? ORIGIN_AT + sizeof(tidei_origin) : sizeof *st);
    x->first = st->priv;
    x->n--;
    return st;
}

static void give_record(tidei_dev *d, tidei_storage *st) {
    tidei_storage_free_list *x = free_list_here(d);
    if (tidei_unlikely(!x || x->n >= FREE_LIST_MOST)) {
        tidei_host_free(d->rt, st);
        return;
    }
    st->priv = x->first;
    x->first = st;
    x->n++;
}

void tidei_storage_free_list_drop(tidei_dev *d) {
    for (unsigned i = 0; i < TIDEI_THREADS_INDEXED; i++)
        for (tidei_storage *st; (st = d->memory->free_lists[i].first);) {
            d->memory->free_lists[i].first = st->priv;
            tidei_host_free(d->rt, st);
        }
}

/* Whether a new storage is watched. A thread without a number has no count: all its storages are
** watched, and the tracker chooses. */
static inline bool watch(tidei_dev *d) {
    tidei_storage_free_list *x = free_list_here(d);
    return tidei_likely(x) ? --x->unwatched == 0 : d->rt->watch_every != 0;
}

/* Whether the tracker looks at this one, where nobody else counts: it is the thread's turn. */
static bool has_turn(tidei_runtime *rt) {
    unsigned every = tidei_tracker_interval(rt->tracker);
    if (every == 1) return true;
    tidei_thread *t = tidei_thread_get(rt);
    if (!t || ++t->unsampled < every) return false;
    t->unsampled = 0;
    return true;
}

void tidei_watch_growth(tidei_runtime *rt) {
    const tidei_device *d = rt->devs[0].d;
    tidei_recorder_growth(rt->recorder, (uint64_t)(tidei_fresh_ns(d) * (double)TIDEI_MIB),
                          d->info.total_bytes);
}

void tidei_watch_made(tidei_storage *st, const tidei_stream *s) {
    tidei_runtime *rt = st->dev->rt;
    tidei_storage_free_list *x = free_list_here(st->dev);
    if (x) x->unwatched = rt->watch_every;
    atomic_store_explicit(&st->used_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&st->died_ns, 0, memory_order_relaxed);
    if (rt->recorder && tidei_on_device(st->pool->kind)) {
        tidei_watch_growth(rt);
        tidei_recorder_alloc(rt->recorder, (uintptr_t)st, st->bytes, s->slot);
    }
    if (rt->tracker)
        tidei_tracker_add(rt->tracker, origin_of(st), st, (x && !rt->recorder) || has_turn(rt));
}

/* Sets how often a storage is watched: the recorder is told of all, the tracker of those that it
** samples. */
void tidei_watch_open(tidei_runtime *rt) {
    rt->watch_every = rt->recorder ? 1 : tidei_tracker_interval(rt->tracker);
    for (unsigned i = 0; i < rt->ndevs; i++)
        for (unsigned k = 0; k < TIDEI_THREADS_INDEXED; k++)
            rt->devs[i].memory->free_lists[k].unwatched = rt->watch_every;
}

static void record_end(tidei_recorder *r, tidei_storage *st) {
    uint64_t died = atomic_load_explicit(&st->died_ns, memory_order_relaxed);
    unsigned stream = tidei_storage_last_stream(st);
    tidei_recorder_ends(r, (uintptr_t)st, atomic_load_explicit(&st->used_ns, memory_order_relaxed),
                        died, died & 1, stream);
    tidei_recorder_free(r, (uintptr_t)st, st->bytes, stream);
}

void tidei_watch_gone(tidei_storage *st) {
    tidei_runtime *rt = st->dev->rt;
    if ((st->watched & TIDEI_WATCHED_BY_OWNER) && rt->gc_ops)
        rt->gc_ops->discharge(rt, st->owner, st->bytes);
    if (!(st->watched & TIDEI_WATCHED_BY_OBSERVERS)) return;
    if (rt->recorder && tidei_on_device(st->pool->kind) && !tidei_storage_spilled(st))
        record_end(rt->recorder, st);
    if (rt->tracker) tidei_tracker_remove(rt->tracker, origin_of(st));
}

static void note_alloc(tidei_pool *pool, size_t bytes) {
    tidei_dev *d = pool->dev;
    size_t live = 0;
    if (tidei_unlikely(tidei_on_host(pool->kind)))
        atomic_fetch_add_explicit(&d->rt->budget->live, bytes, memory_order_relaxed);
    if (tidei_likely(tidei_on_device(pool->kind))) {
        live = atomic_fetch_add_explicit(&d->budget->live, bytes, memory_order_relaxed) + bytes;
        tidei_raise_size(&d->budget->peak_live, live);
    }
    tidei_pool_made(pool->users, bytes, live);
}

static void note_free(tidei_pool *pool, size_t bytes) {
    tidei_dev *d = pool->dev;
    if (tidei_likely(tidei_on_device(pool->kind)))
        atomic_fetch_sub_explicit(&d->budget->live, bytes, memory_order_relaxed);
    if (tidei_unlikely(tidei_on_host(pool->kind)))
        atomic_fetch_sub_explicit(&d->rt->budget->live, bytes, memory_order_relaxed);
    tidei_pool_gone(pool->users, bytes);
}

struct alloc_args {
    tidei_pool *pool;
    tidei_stream *s;
    size_t bytes;
    tidei_block block;
};

static tide_status alloc_attempt(void *arg, unsigned flags) {
    struct alloc_args *a = arg;
    if (tidei_unlikely(flags & TIDEI_ALLOC_FLUSHED))
        atomic_fetch_add_explicit(&a->pool->users->retries, 1, memory_order_relaxed);
    return a->pool->ops->alloc(a->pool, a->bytes, a->s, flags, &a->block);
}

/* Takes a block of device memory. */
static inline tide_status take_block(tidei_pool *pool, size_t bytes, tidei_attempt_fn attempt,
                                     void *arg, const char *op) {
    tidei_dev *d = pool->dev;
    size_t want = atomic_load_explicit(&d->budget->live, memory_order_relaxed) + bytes;
    if (want < bytes) return tidei_out_of_memory(d, bytes, op);
    if (tidei_unlikely(want >= atomic_load_explicit(&d->memory->wake_at, memory_order_relaxed)))
        tidei_ask_alloc(d->rt, d, pool, bytes);
    return tidei_with_reclaim(d, bytes, op, attempt, arg);
}

/* Takes a block of another kind, within the budgets that it counts in. */
static tide_status take_block_of_kind(struct alloc_args *a, const char *op) {
    tidei_dev *d = a->pool->dev;
    tidei_mem_kind kind = a->pool->kind;
    tidei_host_budget *b = d->rt->budget;
    size_t on_host = atomic_load_explicit(&b->live, memory_order_relaxed),
           on_device = atomic_load_explicit(&d->budget->live, memory_order_relaxed);
    bool wraps = a->bytes > SIZE_MAX - tidei_max_size(on_host, on_device);
    if (!wraps && on_host + a->bytes >= atomic_load_explicit(&b->wake_at, memory_order_relaxed))
        tidei_ask_host(d->rt, a->bytes);
    if (!wraps && tidei_on_device(kind) &&
        on_device + a->bytes >= atomic_load_explicit(&d->memory->wake_at, memory_order_relaxed))
        tidei_ask_alloc(d->rt, d, a->pool, a->bytes);
    tide_status status = tidei_reclaim_kind(d, kind, a->bytes, op, alloc_attempt, a);
    if (status == TIDE_OK && kind == TIDEI_MEM_UNIFIED) tidei_unadvise(d, a->block.addr, a->bytes);
    return status;
}

/* Reports that no block could be taken, where that is to be reported. */
static tide_status not_taken(tidei_pool *pool, tidei_stream *s, tide_status status,
                             const char *op) {
    if (status != TIDE_E_NOMEM && status != TIDE_E_HOST_NOMEM)
        return tidei_device_failed(s, status, op);
    atomic_fetch_add_explicit(&pool->users->ooms, 1, memory_order_relaxed);
    return tidei_fail_as(op);
}

tide_status tidei_block_take(tidei_pool *pool, size_t bytes, tidei_attempt_fn attempt, void *arg,
                             const char *op) {
    tidei_dev *d = pool->dev;
    if (tidei_deaths_pending(d->rt->deaths)) tidei_drain(d->rt);
    tide_status status = take_block(pool, bytes, attempt, arg, op);
    return status == TIDE_OK ? TIDE_OK : not_taken(pool, d->stream0, status, op);
}

void tidei_block_counted(tidei_pool *pool, size_t bytes) { note_alloc(pool, bytes); }
void tidei_block_discounted(tidei_pool *pool, size_t bytes) { note_free(pool, bytes); }

tide_status tidei_storage_new(tidei_dev *d, size_t bytes, tidei_stream *s, const char *op,
                              tidei_storage **out) {
    return tidei_storage_new_in(tidei_pool_here(d), bytes, s, op, out);
}

static inline void begin_life(tidei_storage *st, tidei_pool *pool, size_t bytes,
                              tidei_block *block) {
    atomic_flag_clear_explicit(&st->flag, memory_order_relaxed); /* nobody else knows it yet */
    atomic_init(&st->refs, 1);
    atomic_init(&st->pins, 0);
    st->dev = pool->dev;
    st->pool = pool;
    st->addr = block->addr;
    st->bytes = bytes;
    st->priv = block->priv;
    tidei_stamps_move(&st->stamps, &block->stamps);
    st->subranges = NULL;
    st->placeholder = false;
    atomic_init(&st->unordered, false);
}

/* `fixed`: it is pinned from birth, and the pool never hears of an owner. */
__attribute__((always_inline)) static inline tide_status make(tidei_pool *pool, size_t bytes,
                                                              tidei_stream *s, const char *op,
                                                              bool fixed, tidei_storage **out) {
    tidei_dev *d = pool->dev;
    tidei_capture *c = fixed ? NULL : tidei_capturing(d->rt);
    if (tidei_unlikely(c != NULL)) return tidei_capture_make(c, pool, bytes, op, out);
    if (tidei_unlikely(atomic_load_explicit(&d->d->lost, memory_order_relaxed)))
        return tidei_lost(d, op);
    if (tidei_deaths_pending(d->rt->deaths)) tidei_drain(d->rt);
    struct alloc_args a; /* `alloc` writes the block */
    a.pool = pool;
    a.s = s;
    a.bytes = bytes;
    if (bytes) {
        tide_status status = tidei_likely(pool->kind == TIDEI_MEM_DEVICE)
                                 ? take_block(pool, bytes, alloc_attempt, &a, op)
                                 : take_block_of_kind(&a, op);
        if (tidei_unlikely(status != TIDE_OK)) return not_taken(pool, s, status, op);
    } else {
        if (pool->kind == TIDEI_MEM_DEVICE)
            pool = d->pool; /* no block holds an own one; this lasts as the device does */
        a.block.addr = 0;
        a.block.priv = NULL;
        a.block.stamps.n = a.block.stamps.cap = 0;
    }
    tidei_storage *st = take_record(d);
    if (!st) {
        if (bytes) pool->ops->free(pool, &a.block);
        return tidei_fail_host_memory(op, sizeof *st);
    }
    begin_life(st, pool, bytes, &a.block);
    st->watched = bytes && watch(d) ? TIDEI_WATCHED_BY_OBSERVERS : 0;
    if (bytes) note_alloc(pool, bytes);
    tidei_record_alloc(st, s);
    if (fixed) {
        atomic_init(&st->pins, 1);
        atomic_fetch_add_explicit(&pool->users->pinned, bytes, memory_order_relaxed);
    } else if (bytes && pool->ops->own) {
        pool->ops->own(pool, &a.block, st); /* from now on it may move */
    }
    *out = st;
    return TIDE_OK;
}

tide_status tidei_storage_new_in(tidei_pool *pool, size_t bytes, tidei_stream *s, const char *op,
                                 tidei_storage **out) {
    return make(pool, bytes, s, op, false, out);
}

tide_status tidei_storage_new_fixed(tidei_pool *pool, size_t bytes, tidei_stream *s, const char *op,
                                    tidei_storage **out) {
    tidei_check(bytes);
    return make(pool, bytes, s, op, true, out);
}

void tidei_storage_drop_fixed(tidei_storage *st) {
    tidei_check(atomic_load(&st->refs) == 1 && atomic_load(&st->pins) == 1);
    atomic_fetch_sub_explicit(&st->pool->users->pinned, st->bytes, memory_order_relaxed);
    tidei_storage_end(st);
}

tide_status tidei_storage_try(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                              tidei_storage **out) {
    tidei_block block;
    tide_status status = pool->ops->alloc(pool, bytes, s, flags, &block);
    if (status != TIDE_OK) return status;
    tidei_storage *st = take_record(pool->dev);
    if (!st) {
        pool->ops->free(pool, &block);
        return tidei_fail_host_memory("tidei_storage_try", sizeof *st);
    }
    begin_life(st, pool, bytes, &block);
    st->watched = 0;
    note_alloc(pool, bytes);
    *out = st;
    return TIDE_OK;
}

tide_status tidei_storage_placeholder(tidei_pool *pool, size_t bytes, uint64_t number,
                                      const char *op, tidei_storage **out) {
    tidei_block none = {0};
    tidei_storage *st = take_record(pool->dev);
    if (!st) return tidei_fail_host_memory(op, sizeof *st);
    begin_life(st, pool, bytes, &none);
    st->watched = 0;
    st->placeholder = true;
    st->priv = (void *)(uintptr_t)number;
    *out = st;
    return TIDE_OK;
}

void tidei_storage_retain(tidei_storage *st) {
    atomic_fetch_add_explicit(&st->refs, 1, memory_order_relaxed);
}

void tidei_storage_release(tidei_storage *st) {
    if (tidei_storage_unref(st)) tidei_storage_end(st);
}

tide_status tidei_scratch_new(tidei_pool *pool, size_t bytes, tidei_stream *s, const char *op,
                              tidei_storage **out) {
    tide_status status = tidei_storage_new_in(pool, bytes, s, op, out);
    if (status == TIDE_OK) tidei_scratch_hold(*out);
    return status;
}

void tidei_scratch_hold(tidei_storage *st) {
    tidei_thread *t = tidei_thread_get(st->dev->rt);
    if (t) tidei_hold_storage(t, st);
}

void tidei_scratch_release(tidei_storage *st) {
    tidei_let(tidei_thread_get(st->dev->rt), st);
    tidei_storage_release(st);
}

void *tidei_scratch_host(tidei_runtime *rt, size_t bytes) {
    void *p = tidei_host_take(rt, tidei_max_size(bytes, 1));
    if (p) tidei_hold(tidei_thread_get(rt), tidei_undo_host, p, 0);
    return p;
}

void tidei_scratch_host_free(tidei_runtime *rt, void *p) {
    if (p) tidei_let(tidei_thread_get(rt), p);
    tidei_host_free(rt, p);
}

void tidei_storage_end(tidei_storage *st) {
    tidei_dev *d = st->dev;
    if (tidei_unlikely(st->subranges)) tidei_subranges_drop(st);
    if (st->bytes) tidei_record_free(st);
    if (tidei_unlikely(tidei_storage_spilled(st))) {
        tidei_spilled_end(st);
    } else if (tidei_likely(st->addr != 0)) {
        tidei_block b;
        b.addr = st->addr;
        b.bytes = st->bytes;
        b.priv = st->priv;
        tidei_stamps_move(&b.stamps, &st->stamps);
        st->pool->ops->free(st->pool, &b);
        note_free(st->pool, st->bytes);
    }
    give_record(d, st);
}

void tidei_storage_pin(tidei_storage *st) {
    if (atomic_fetch_add(&st->pins, 1) == 0)
        atomic_fetch_add_explicit(&st->pool->users->pinned, st->bytes, memory_order_relaxed);
}
void tidei_storage_unpin(tidei_storage *st) {
    if (atomic_fetch_sub(&st->pins, 1) == 1)
        atomic_fetch_sub_explicit(&st->pool->users->pinned, st->bytes, memory_order_relaxed);
}

/* ---- order ---- */

/* The stamps that an operation has to wait for, at most one a stream. */
struct needs {
    unsigned n;
    tidei_stamp at[TIDEI_STREAMS_MAX];
};

static void need(struct needs *w, tidei_stamp x) {
    for (unsigned i = 0; i < w->n; i++)
        if (w->at[i].stream == x.stream) {
            if (w->at[i].tick < x.tick) w->at[i].tick = x.tick;
            return;
        }
    w->at[w->n++] = x;
}

/* Must a use of the same bytes by s, or by the host (s NULL), wait for x? */
static bool must_wait(tidei_stream *s, tidei_stamp x, const tidei_use *u) {
    return (x.write || (u->mode & TIDEI_WRITE)) && !(s && tidei_stamp_covered(s, x));
}

/* Collects what the use must come after; s NULL: for a use by the host. Under the storage's
** flag. */
static void look_back(const tidei_use *u, tidei_stream *s, struct needs *w) {
    tidei_storage *st = u->st;
    const tidei_stamp *a = tidei_stamps_at(&st->stamps);
    for (unsigned i = 0; i < st->stamps.n; i++)
        if (must_wait(s, a[i], u)) need(w, a[i]);
    for (unsigned i = 0; st->subranges && i < st->subranges->n; i++) {
        const tidei_subrange *p = &st->subranges->part[i];
        if (tidei_subrange_meets(p, u) && must_wait(s, p->at, u)) need(w, p->at);
    }
    /* Uses of an unordered storage are not ordered among streams, but the host waits for them: it
    ** has no other way to. */
    for (unsigned i = 0; !s && st->subranges && i < st->subranges->unordered.n; i++)
        if (must_wait(s, tidei_stamps_at(&st->subranges->unordered)[i], u))
            need(w, tidei_stamps_at(&st->subranges->unordered)[i]);
}

/* Collects what `u` must wait for on stream s, and makes sure that its own stamp will find room. */
static tide_status look_at_use(const tidei_use *u, tidei_stream *s, struct needs *w,
                               const char *op) {
    tidei_storage *st = u->st;
    if (!st->bytes) return TIDE_OK;
    tide_status status =
        tidei_likely(st->dev == s->dev) ? TIDE_OK : tidei_peer_need(s->dev, st, op);
    if (status != TIDE_OK) return status;
    tidei_stamps_lock(st);
    look_back(u, s, w);
    bool room = tidei_subranges_reserve(st, u, s);
    tidei_stamps_unlock(st);
    return room ? TIDE_OK : tidei_fail_host_memory(op, sizeof(tidei_stamp));
}

/* Makes s wait, on the device, for everything that the uses must come after. */
tide_status tidei_order(tidei_stream *s, const tidei_use *uses, unsigned n, const char *op) {
    struct needs w;
    w.n = 0;
    for (unsigned i = 0; i < n; i++) {
        tide_status status = look_at_use(&uses[i], s, &w, op);
        if (status != TIDE_OK) return status;
    }
    if (s->dev->rt->streams->skip_waits) return TIDE_OK;
    for (unsigned i = 0; i < w.n; i++) {
        tidei_stream *from = tidei_stream_at(s->dev, w.at[i].stream);
        if (tidei_stamp_covered(s, w.at[i])) continue;
        tide_status status = tidei_stream_follow(s, from, w.at[i].tick);
        if (status != TIDE_OK) return tidei_device_failed(s, status, op);
    }
    return TIDE_OK;
}

/* A write replaces the stamps that s is ordered after. That need not be all of them, as other
** threads may have used the storage since s was ordered. There is room for the stamp. */
static void add_whole(tidei_storage *st, const tidei_use *u, tidei_stream *s, tidei_stamp x) {
    if (u->mode & TIDEI_WRITE) {
        tidei_stamp *a = tidei_stamps_at(&st->stamps);
        unsigned n = 0;
        for (unsigned i = 0; i < st->stamps.n; i++)
            if (!tidei_stamp_covered(s, a[i])) a[n++] = a[i];
        st->stamps.n = (uint16_t)n;
        if (tidei_unlikely(st->subranges)) tidei_subranges_replace(st, s);
        x.write = 1;
    }
    tidei_stamps_add(&st->stamps, x);
}

/* Under the storage's flag: writes the use into its history. Where a second stream began to work
** just now, room for parts may be missing. */
static void add_use(tidei_storage *st, const tidei_use *u, tidei_stream *s, tidei_stamp x) {
    if (tidei_unlikely(st->subranges && (tidei_use_is_part(u, s) || atomic_load(&st->unordered))))
        tidei_subranges_add(st, u, s, x);
    else
        add_whole(st, u, s, x);
}

static bool publish_use(const tidei_use *u, tidei_stream *s, tidei_stamp x) {
    tidei_storage *st = u->st;
    if (!st->bytes) return true;
    tidei_stamps_lock(st);
    /* tidei_order made room; other threads may have taken it since. */
    bool room = tidei_subranges_reserve(st, u, s);
    if (room) add_use(st, u, s, x);
    tidei_stamps_unlock(st);
    return room;
}

/* A recorder wants to know when they were last used. */
__attribute__((noinline)) static void note_uses(const tidei_use *uses, unsigned n) {
    uint64_t now = tidei_now_ns();
    for (unsigned i = 0; i < n; i++)
        atomic_store_explicit(&uses[i].st->used_ns, now, memory_order_relaxed);
}

bool tidei_publish_uses(tidei_stream *s, const tidei_use *uses, unsigned n, uint64_t tick) {
    bool all = true;
    if (tidei_unlikely(s->dev->rt->recorder)) note_uses(uses, n);
    for (unsigned i = 0; i < n; i++)
        if (!publish_use(&uses[i], s, (tidei_stamp){.tick = tick, .stream = s->slot})) all = false;
    return all;
}

/* ---- the submission ---- */

/* The same as use_at_once, under the storage's flag, where parts are told apart. */
__attribute__((noinline)) static bool part_at_once(const tidei_use *u, tidei_stream *s,
                                                   uint64_t tick) {
    struct needs w;
    w.n = 0;
    look_back(u, s, &w);
    if (w.n || !tidei_subranges_reserve(u->st, u, s)) return false;
    add_use(u->st, u, s, (tidei_stamp){.tick = tick, .stream = s->slot});
    return true;
}

/* The same for a use of the whole: adds its stamp x, or returns false. Ticks of one stream rise, so
** x is later than what s has left there. */
static inline bool stamp_at_once(tidei_stamps *stamps, tidei_stream *s, tidei_stamp x) {
    tidei_stamp *a = tidei_stamps_at(stamps), *place = NULL;
    if (tidei_unlikely(stamps->n == tidei_stamps_room(stamps))) return false;
    for (unsigned i = 0; i < stamps->n; i++)
        if (tidei_likely(a[i].stream == x.stream))
            place = a[i].write == x.write ? &a[i] : place;
        else if ((a[i].write || x.write) && !tidei_stamp_covered(s, a[i]))
            return false;
    if (x.write) { /* all of them are behind it */
        place = a;
        stamps->n = 1;
    } else if (!place)
        place = &a[stamps->n++];
    *place = x;
    return true;
}

/* Where s has nothing to wait for, looks and publishes the use in one step. False: it has to wait,
** or there is no room. Uses of the same submission that were published before then name a tick that
** comes later than needed, which is safe. Under s->lock. */
static bool use_at_once(const tidei_use *u, tidei_stream *s, uint64_t tick) {
    tidei_storage *st = u->st;
    if (tidei_unlikely(!st->bytes)) return true;
    if (tidei_unlikely(st->dev != s->dev) && !tidei_peer_known(s->dev, st)) return false;
    bool write = u->mode & TIDEI_WRITE;
    tidei_stamps_lock(st);
    if (tidei_unlikely(st->subranges || tidei_use_is_part(u, s))) {
        bool clean = part_at_once(u, s, tick);
        tidei_stamps_unlock(st);
        return clean;
    }
    bool clean = stamp_at_once(&st->stamps, s,
                               (tidei_stamp){.tick = tick, .stream = s->slot, .write = write});
    tidei_stamps_unlock(st);
    return clean;
}

static bool use_all_at_once(tidei_stream *s, const tidei_use *uses, unsigned n, uint64_t tick) {
    for (unsigned i = 0; i < n; i++)
        if (!use_at_once(&uses[i], s, tick)) return false;
    return true;
}

/* Waiting for another stream takes that one's lock, so ours is let go meanwhile. If it fails, the
** uses already published name a tick that has no work: the caller takes that tick all the same, or
** they would look pending until another submission takes it. */
static tide_status order_unlocked(tidei_stream *s, const tidei_use *uses, unsigned n,
                                  const char *op) {
    s->holders++;
    pthread_mutex_unlock(&s->lock);
    tide_status status = tidei_order(s, uses, n, op);
    pthread_mutex_lock(&s->lock);
    s->holders--;
    return status;
}

/* Whether a thread moves storages, or has moved some since `done` was read. Under a stream's lock
** the answer false stays true. */
static bool moved_since(tidei_moves *m, uint64_t done) {
    return atomic_load_explicit(&m->moving, memory_order_acquire) ||
           atomic_load_explicit(&m->done, memory_order_relaxed) != done;
}

/* Under a stream's lock while nothing moves: whether one of the submission's storages is
** spilled. */
static bool any_spilled(const tidei_submission *w) {
    const tidei_runtime *rt = w->s->dev->rt;
    if (tidei_likely(!atomic_load_explicit(&rt->moves->spilled, memory_order_relaxed)))
        return false;
    for (unsigned i = 0; i < w->n; i++)
        if (w->uses[i].st->dev->rt == rt && tidei_storage_spilled(w->uses[i].st)) return true;
    return false;
}

/* On success s->lock is held, unless *again: storages were moved meanwhile, or are to be brought
** back first. */
static tide_status open_submission(tidei_submission *w, bool *again) {
    tidei_stream *s = w->s;
    tidei_moves *moves = s->dev->rt->moves;
    pthread_mutex_lock(&s->lock);
    uint64_t so_far = atomic_load_explicit(&moves->done, memory_order_relaxed);
    *again = moved_since(moves, so_far) || any_spilled(w);
    if (tidei_unlikely(*again || !s->ds)) {
        pthread_mutex_unlock(&s->lock);
        return *again ? TIDE_OK : tidei_fail(TIDE_E_INVALID, w->op, "the stream was released");
    }
    tide_status usable = tidei_stream_usable(s);
    if (tidei_unlikely(usable != TIDE_OK)) {
        pthread_mutex_unlock(&s->lock);
        return tidei_device_failed(s, usable, w->op);
    }
    bool done = use_all_at_once(s, w->uses, w->n,
                                atomic_load_explicit(&s->submitted, memory_order_relaxed) + 1);
    tide_status status = TIDE_OK;
    if (tidei_unlikely(!done)) status = order_unlocked(s, w->uses, w->n, w->op);
    w->tick = tidei_stream_tick(s);
    *again = tidei_unlikely(!done) && status == TIDE_OK && moved_since(moves, so_far);
    if (tidei_unlikely(status != TIDE_OK || *again)) {
        pthread_mutex_unlock(&s->lock);
        return status;
    }
    s->last_op = w->op;
    w->unknown = !done && !tidei_publish_uses(s, w->uses, w->n, w->tick);
    w->began = tidei_record_begin(s);
    if (tidei_unlikely(s->dev->rt->recorder)) note_uses(w->uses, w->n);
    return TIDE_OK;
}

static void take(pthread_mutex_t *lock) {
    if (tidei_unlikely(lock != NULL)) pthread_mutex_lock(lock);
}
static void give(pthread_mutex_t *lock) {
    if (tidei_unlikely(lock != NULL)) pthread_mutex_unlock(lock);
}

tide_status tidei_submit_begin_under(tidei_submission *w, tidei_stream *s, const tidei_use *uses,
                                     unsigned n, tidei_range *ranges, pthread_mutex_t *lock,
                                     const char *op) {
    bool again;
    if (tidei_unlikely(tidei_capturing(s->dev->rt) != NULL))
        return tidei_capture_refused(s->dev->rt, op, "queues work of its own");
    w->s = s;
    w->uses = uses;
    w->n = n;
    w->op = op;
    w->ranges = ranges;
    w->few[0].addr = 0;
    if (tidei_unlikely(atomic_load_explicit(&s->dev->d->lost, memory_order_relaxed)))
        return tidei_lost(s->dev, op);
    for (;;) {
        take(lock);
        tide_status status = open_submission(w, &again);
        if (tidei_likely(status == TIDE_OK && !again)) break;
        give(lock);
        if (status != TIDE_OK) return status;
        tidei_moves_wait(s->dev->rt->moves);
        status = tidei_uses_return(s, uses, n, op);
        if (status != TIDE_OK) return status;
    }
    for (unsigned i = 0; i < n; i++) w->ranges[i] = tidei_use_range(&uses[i]);
    return TIDE_OK;
}

tide_status tidei_submit_begin(tidei_submission *w, tidei_stream *s, const tidei_use *uses,
                               unsigned n, const char *op) {
    tidei_check(n <= TIDEI_USES_MAX);
    return tidei_submit_begin_under(w, s, uses, n, w->few, NULL, op);
}

/* A longjmp left the wait in a callback: the device may still use the caller's memory, so this
** waits. */
static void undo_wait(tidei_runtime *rt, tidei_thread *t, void *s, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    (void)tidei_stream_finish(s);
}

tide_status tidei_submit_wait(tidei_stream *s, bool quiet) {
    tidei_thread *t = tidei_thread_look(s->dev->rt);
    tidei_hold(t, undo_wait, s, 0);
    tide_status status = tidei_stream_wait(s, quiet);
    tidei_let(t, s);
    return status;
}

tide_status tidei_submit_end(tidei_submission *w, tide_status result) {
    tidei_stream_after_work(w->s);
    tidei_record_submit(w->s, w->began, w->op);
    pthread_mutex_unlock(&w->s->lock);
    tidei_device_speak(w->s->dev->d);
    if (tidei_unlikely(w->unknown)) {
        tide_status waited = tidei_submit_wait(w->s, true);
        if (result == TIDE_OK) result = waited;
    }
    return tidei_likely(result == TIDE_OK) ? TIDE_OK : tidei_device_failed(w->s, result, w->op);
}

/* ---- the host waits ---- */

static void host_needs(const tidei_use *u, struct needs *w) {
    w->n = 0;
    tidei_stamps_lock(u->st);
    look_back(u, NULL, w);
    tidei_stamps_unlock(u->st);
}

bool tidei_use_pending(const tidei_use *u) {
    struct needs w;
    host_needs(u, &w);
    tidei_dev *d = u->st->dev;
    for (unsigned i = 0; i < w.n; i++) /* the wait reports it if a device is lost */
        if (!tidei_stamp_done(d, w.at[i]) ||
            atomic_load(&tidei_stream_at(d, w.at[i].stream)->dev->d->lost))
            return true;
    return false;
}

/* Fails if the device was lost before x was complete: then it has not written what it was to
** write. */
static tide_status not_lost(tidei_dev *d, tidei_stamp x) {
    tidei_stream *s = tidei_stream_at(d, x.stream);
    if (tidei_likely(s->dev == d || !x.write || !atomic_load(&s->dev->d->lost))) return TIDE_OK;
    return tidei_stream_got_to(s) >= x.tick ? TIDE_OK : tidei_lost(s->dev, "wait");
}

tide_status tidei_use_wait(const tidei_use *u) {
    tidei_dev *d = u->st->dev;
    struct needs w;
    host_needs(u, &w);
    tide_status status = TIDE_OK;
    for (unsigned i = 0; i < w.n && status == TIDE_OK; i++) {
        status = tidei_stamp_wait(d, w.at[i]);
        if (status == TIDE_OK) status = not_lost(d, w.at[i]);
    }
    return status;
}

tide_status tidei_storage_wait(tidei_storage *st, unsigned mode) {
    return tidei_use_wait(&(tidei_use){st, 0, st->bytes, mode});
}
