/* tide.c: the pool `tide`: blocks out of one address range, best fit, shared by all streams. The
** model is in tide.h.
**
** What must stay true: for one thread and one stream the addresses depend on the calls alone, not
** on what the device has done: the best fit is exact over `ready` and the stream's own size index,
** and these two join. `free` takes no memory: the descriptor of a block serves when it is free
** again. */
#include "runtime/pool/reuse.h"
#include "runtime/pool/tide/tide.h"

/* Sizes are rounded to this, or to the device's alignment if that is more. Coarser wastes (16
** classes a doubling cost 1 to 4 % on recorded traces), finer only makes more extents. */
#define GRANULE ((size_t)256)

/* ---- what is pending ---- */

/* What tidei_heap_reduce says of a single stamp. */
static inline uint16_t only_stamp(tidei_dev *d, tidei_stamp x, bool counts, uint64_t *tick) {
    bool done = counts && tidei_reuse_known_done(d, x);
    *tick = done ? 0 : x.tick;
    return done ? TIDEI_SLOT_READY : x.stream;
}

/* ---- handing out ---- */

/* The stamps that go with a block: those not known to be done, where that counts. Where it does
** not, the stream that gets the block is ordered after them or will wait. */
static void hand_pending(const tidei_heap *p, tidei_extent *x, tidei_stamps *out) {
    out->n = out->cap = 0;
    if (x->slot == TIDEI_SLOT_READY) return;
    if (x->slot == TIDEI_SLOT_MANY) {
        *out = *tidei_heap_many(x);
    } else if (!tidei_reuse_known_done(p->base.dev, tidei_extent_stamp(x)) ||
               !(tidei_reuse_rules(&p->base) & TIDEI_REUSE_DONE)) {
        out->few[0] = tidei_extent_stamp(x);
        out->n = 1;
    }
}

static inline size_t rounded(const tidei_heap *p, size_t bytes) {
    return (bytes + p->granule - 1) & ~(p->granule - 1);
}

/* Cuts a block off the piece x. The lock of its zone; there is a free descriptor. NULL: host memory
** is exhausted. */
static inline tidei_extent *cut_off(tidei_heap *p, tidei_extent *x, size_t size) {
    x = tidei_unlikely(size < p->small) ? tidei_heap_cut_high(p, x, size)
                                        : tidei_heap_cut(p, x, size);
    if (tidei_unlikely(!x)) return NULL;
    /* in no index and no cache, about to be handed out */
    tidei_extent_become(x, TIDEI_WAS(UNUSED) | TIDEI_WAS(FREE) | TIDEI_WAS(CLAIMED),
                        TIDEI_EXTENT_CACHED);
    tidei_zone *z = tidei_zone_of(p, x);
    z->used += size;
    z->most_used = tidei_max_size(z->most_used, z->used);
    return x;
}

/* From the zone, which is entered, and left. NULL: it has none. */
static inline tidei_extent *take_in(tidei_heap *p, tidei_zone *z, uint16_t slot, size_t size) {
    tidei_extent *x = tidei_zone_fit(z, slot, size);
    if (tidei_unlikely(!x) && tidei_zone_free_all(p, z)) x = tidei_zone_fit(z, slot, size);
    if (tidei_likely(x != NULL)) x = cut_off(p, x, size);
    tidei_check_slow(tidei_zones(p) > 1 || tidei_heap_valid_locked(p));
    tidei_zone_leave(z);
    return x;
}

/* From another zone than the thread's. */
__attribute__((noinline)) static tidei_extent *take_elsewhere(tidei_heap *p, tidei_cache *c,
                                                              uint16_t slot, size_t size) {
    tidei_extent *x = NULL;
    tidei_zone *z;
    for (unsigned at = 0; !x && (z = tidei_zone_enter_other(p, c, slot, size, &at));)
        x = take_in(p, z, slot, size);
    if (x) tidei_zone_was_short(p, c, slot);
    return x;
}

/* From the thread's zone, or another one; *out is NULL if none has a piece. */
static inline tide_status take_from_zones(tidei_heap *p, tidei_cache *c, size_t size,
                                          tidei_stream *s, tidei_extent **out) {
    tidei_zone *z;
    tide_status st = tidei_zone_enter(p, c, s->slot, &z);
    if (tidei_unlikely(st != TIDE_OK)) return st;
    *out = take_in(p, z, s->slot, size);
    if (tidei_unlikely(!*out) && tidei_zones(p) > 1) *out = take_elsewhere(p, c, s->slot, size);
    return TIDE_OK;
}

/* By all means that the flags allow. */
static tide_status take_by_search(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                                  tidei_extent **out) {
    tidei_extent *x;
    tidei_heap_lock(p);
    tide_status st = tidei_heap_restock(p);
    if (st == TIDE_OK) st = tidei_heap_find(p, size, s, flags, &x);
    if (st == TIDE_OK && !(*out = cut_off(p, x, size)))
        st = tidei_fail_host_memory("pool tide", TIDEI_STREAMS_MAX * sizeof(tidei_stamp));
    tidei_check_slow(tidei_heap_valid_locked(p));
    tidei_heap_unlock(p);
    return st;
}

/* Takes a block from the size indexes or the device. */
static tide_status take(tidei_heap *p, tidei_cache *c, size_t size, tidei_stream *s, unsigned flags,
                        tidei_extent **out) {
    bool alone = tidei_zones(p) == 1;
    tidei_zone *z = alone ? NULL : tidei_zone_try_tighter(p, c, s->slot, size);
    if (tidei_unlikely(z != NULL) && (*out = take_in(p, z, s->slot, size))) return TIDE_OK;
    tide_status st = take_from_zones(p, c, size, s, out);
    if (tidei_likely(st != TIDE_OK || *out)) return st;
    /* what others' caches hold may do, and costs less than stopping them */
    if (!alone && tidei_heap_flush_apart(p)) st = take_from_zones(p, c, size, s, out);
    return st != TIDE_OK || *out ? st : take_by_search(p, size, s, flags, out);
}

/* ---- the way without the lock ---- */

static tidei_cache *cache_made(tidei_heap *p, unsigned number) {
    tidei_cache *c = tidei_heap_cache_of(p, (int)number);
    return c || !number ? c : tidei_heap_cache_new(p, number);
}

/* Hands out x, which no other thread can reach, to the caller. Its home is the caller's number, and
** it has no owner: a thread's cache has only such blocks. */
static inline void hand_out(const tidei_heap *p, tidei_extent *x, size_t bytes, tidei_block *out) {
    hand_pending(p, x, &out->stamps);
    out->addr = p->addr + x->off;
    out->bytes = bytes;
    out->priv = x;
    x->bytes = bytes;
    tidei_extent_become(x, TIDEI_WAS(CACHED), TIDEI_EXTENT_LIVE);
    if (TIDEI_HEAP_POISONS) tidei_heap_unpoison(p, out->addr - p->addr, bytes);
}

static void count_out(tidei_cache *c, size_t bytes) {
    tidei_cache_add(&c->live, (int64_t)bytes);
    tidei_cache_count(&c->allocs);
}

/* By a thread without a cache. */
static void count_out_here(tidei_heap *p, size_t bytes) {
    atomic_fetch_add_explicit(&p->live, (int64_t)bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->allocs, 1, memory_order_relaxed);
}

/* Allocates when no entry of the thread's cache serves. */
__attribute__((noinline)) static tide_status
alloc_slowly(tidei_heap *p, size_t bytes, tidei_stream *s, unsigned flags, tidei_block *out) {
    size_t size = rounded(p, bytes);
    tidei_cache *c = tidei_heap_cache_of(p, tidei_thread_number);
    if (tidei_unlikely(!c)) c = cache_made(p, tidei_thread_index());
    tidei_extent *x = NULL;
    if (tidei_likely(c != NULL)) tidei_cache_forget_sets(c);
    if (tidei_likely(c != NULL) &&
        tidei_unlikely(atomic_load_explicit(&c->inbox, memory_order_relaxed) != NULL))
        x = tidei_heap_from_inbox(p, c, size, s->slot);
    if (x) {
        tidei_cache_add(&c->held, -(int64_t)size);
    } else {
        tide_status st = take(p, c, size, s, flags, &x);
        if (tidei_unlikely(st != TIDE_OK)) return st;
    }
    atomic_store_explicit(&x->owner, NULL, memory_order_relaxed);
    x->home = c ? (uint8_t)tidei_thread_number : 0;
    hand_out(p, x, bytes, out);
    if (tidei_likely(c != NULL))
        count_out(c, bytes);
    else
        count_out_here(p, bytes);
    return TIDE_OK;
}

static tide_status pool_alloc(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                              tidei_block *out) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_check(bytes > 0);
    if (tidei_unlikely(bytes > p->most)) return TIDE_E_NOMEM;
    size_t size = rounded(p, bytes);
    int number = tidei_thread_number;
    tidei_cache *c = tidei_heap_cache_of(p, number);
    tidei_extent *x = c ? tidei_cache_take(c, size, s->slot) : NULL;
    if (tidei_unlikely(!x)) return alloc_slowly(p, bytes, s, flags, out);
    tidei_check(x->home == number);
    hand_out(p, x, bytes, out);
    tidei_cache_add(&c->held, -(int64_t)size);
    count_out(c, bytes);
    return TIDE_OK;
}

static void pool_own(tidei_pool *pool, tidei_block *b, void *owner) {
    tidei_extent *x = b->priv;
    (void)pool;
    atomic_store_explicit(&x->owner, owner, memory_order_release);
}

/* Puts x, which is CACHED by now, into the thread's cache, or into that of the thread that
** allocated it. */
static inline bool cached(tidei_heap *p, tidei_cache *c, unsigned number, tidei_extent *x,
                          size_t cap) {
    if (tidei_likely(x->home == number)) return tidei_cache_put(c, x, cap);
    tidei_cache_send(atomic_load_explicit(&p->caches[x->home - 1], memory_order_acquire), x);
    return true;
}

static void count_in(tidei_cache *c, size_t bytes) {
    tidei_cache_add(&c->live, -(int64_t)bytes);
    tidei_cache_count(&c->frees);
}

/* By a thread without a cache. */
static void count_in_here(tidei_heap *p, size_t bytes) {
    atomic_fetch_sub_explicit(&p->live, (int64_t)bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->frees, 1, memory_order_relaxed);
}

/* Frees x when no entry of the thread's cache takes it. `tries`: it may, once others are pushed
** out. */
__attribute__((noinline)) static void free_slowly(tidei_heap *p, tidei_cache *c, tidei_extent *x,
                                                  bool tries, uint16_t slot, uint64_t tick) {
    size_t size = x->size; /* read now: once a cache has x any thread may take it */
    if (tries && tidei_heap_cache_anew(p, c, x))
        tidei_cache_add(&c->held, (int64_t)size);
    else
        tidei_zone_free(p, c, x, slot, tick);
}

/* Moves the block's pending stamps to x, at which no other thread looks now. The block's stamps are
** empty afterwards. */
static inline uint16_t take_stamps(tidei_heap *p, tidei_extent *x, tidei_stamps *stamps,
                                   uint64_t *tick) {
    if (tidei_likely(!stamps->n && !stamps->cap)) return *tick = 0, TIDEI_SLOT_READY;
    bool counts = tidei_reuse_rules(&p->base) & TIDEI_REUSE_DONE;
    uint16_t slot = stamps->n == 1 && !stamps->cap
                        ? only_stamp(p->base.dev, stamps->few[0], counts, tick)
                        : tidei_heap_reduce(p->base.dev, stamps, counts, tick);
    if (slot < TIDEI_STREAMS_MAX && tidei_unlikely(!tidei_zone_own(tidei_zone_of(p, x), slot)) &&
        !tidei_zone_own_made(p, tidei_zone_of(p, x), slot))
        slot = TIDEI_SLOT_MANY;
    if (tidei_unlikely(slot == TIDEI_SLOT_MANY))
        *tidei_heap_many(x) = *stamps; /* no other thread reads a live extent's stamps */
    else if (tidei_unlikely(stamps->cap))
        tidei_stamps_clear(stamps);
    stamps->n = stamps->cap = 0;
    return slot;
}

static void pool_free(tidei_pool *pool, tidei_block *b) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_extent *x = b->priv;
    size_t bytes = b->bytes, size = x->size,
           cap = atomic_load_explicit(&p->cap, memory_order_relaxed);
    int number = tidei_thread_number;
    tidei_cache *c = tidei_heap_cache_of(p, number);
    if (tidei_unlikely(!c)) c = cache_made(p, (unsigned)(number = (int)tidei_thread_index()));
    uint64_t tick;
    tidei_check(x->bytes == bytes);
    uint16_t slot = take_stamps(p, x, &b->stamps, &tick);
    /* on others queued work may still be pending */
    if (slot == TIDEI_SLOT_READY) tidei_heap_poison(p, x->off, size);
    bool tries = false;
    uint8_t live = TIDEI_EXTENT_LIVE;
    if (tidei_likely(c && x->home && size <= cap && slot != TIDEI_SLOT_MANY) &&
        atomic_compare_exchange_strong(&x->state, &live, TIDEI_EXTENT_CACHED)) {
        x->slot = slot;
        x->tick = tick;
        tries = !tidei_likely(cached(p, c, (unsigned)number, x, cap));
        if (tidei_likely(!tries)) {
            tidei_cache_add(&c->held, (int64_t)size);
            count_in(c, bytes);
            return;
        }
    }
    if (tidei_likely(c != NULL))
        count_in(c, bytes);
    else
        count_in_here(p, bytes);
    free_slowly(p, c, x, tries, slot, tick);
}

/* ---- settling: what is done? ---- */

static bool done_counts(const tidei_heap *p) {
    return tidei_reuse_rules(&p->base) & TIDEI_REUSE_DONE;
}

/* In a deterministic pool it must not depend on when somebody asked what is done which stream may
** have a piece, or what a trim gives back: only on where the host waited for everything. So settle
** does nothing there. */
static size_t pool_settle(tidei_pool *pool) {
    tidei_heap *p = (tidei_heap *)pool;
    return done_counts(p) ? tidei_heap_settle(p) : 0;
}
static size_t pool_synced(tidei_pool *pool) {
    tidei_heap *p = (tidei_heap *)pool;
    return done_counts(p) ? 0 : tidei_heap_settle(p);
}

static size_t pool_trim(tidei_pool *pool, size_t keep) {
    tidei_heap *p = (tidei_heap *)pool;
    pool_settle(pool);
    return tidei_heap_trim(p, keep);
}

static void pool_changed(tidei_pool *pool) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_heap_lock(p);
    tidei_heap_set_cap(p);
    tidei_heap_flush(p);
    tidei_heap_unlock(p);
}

/* ---- opening and closing ---- */

static size_t in_pages(const tidei_heap *p, size_t bytes) {
    return tidei_max_size(bytes / p->page_bytes * p->page_bytes, p->page_bytes);
}

static bool too_many(tide_status st) { return st == TIDE_E_HOST_NOMEM || st == TIDE_E_NOMEM; }

static tide_status no_addresses(const tidei_heap *p, tide_status st, size_t wanted) {
    const tidei_device_info *info = &p->base.dev->d->info;
    bool host = info->flags & TIDEI_DEV_RUNS_HOST;
    return tidei_fail(
        st, "pool tide",
        "%s; the pool wanted %zu bytes at first, and %zu at least, for as much as %s has%s",
        tidei_error_record.message, wanted, p->span, info->name,
        host ? ": a smaller TIDE_HOST_DEVICE_MEMORY, or a higher ulimit -v, would do" : "");
}

/* Reserves as many addresses as the device recommends, or half, a quarter ...: with fewer, pages
** can be mapped elsewhere less often. At least one address for each byte of the device's memory, or
** the pool could not hand out all of it. */
static tide_status reserve(tidei_heap *p) {
    tidei_device *d = p->base.dev->d;
    size_t wanted = in_pages(p, d->info.va_bytes),
           least = tidei_min_size(in_pages(p, d->info.total_bytes), wanted);
    tidei_saved_error e;
    tidei_error_save(&e);
    p->span = wanted;
    tide_status st = d->ops->reserve(d, p->span, &p->addr);
    while (too_many(st) && p->span > least) {
        p->span = tidei_max_size(in_pages(p, p->span / 2), least);
        st = d->ops->reserve(d, p->span, &p->addr);
    }
    if (st == TIDE_OK) tidei_error_restore(&e); /* what was refused before is no matter */
    return too_many(st) ? no_addresses(p, st, wanted) : st;
}

static tide_status pool_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    const tidei_device_info *info = &dev->d->info;
    if (kind != TIDEI_MEM_DEVICE || !(info->flags & TIDEI_DEV_PAGES))
        return tidei_fail(TIDE_E_UNSUPPORTED, "pool tide",
                          "%s has no pages of this kind of memory; pool \"none\" does without",
                          info->name);
    tidei_heap *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("pool tide", sizeof *p);
    tidei_pool_init(&p->base, &tidei_pool_tide, dev, kind);
    atomic_init(&p->base.attrs.reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE | TIDEI_REUSE_WAIT);
    p->page_bytes = info->page_bytes;
    p->granule = tidei_max_size(GRANULE, info->align);
    p->poison = TIDEI_HEAP_POISONS && info->flags & TIDEI_DEV_RUNS_HOST;
    tidei_check(p->page_bytes % p->granule == 0);
    p->zone.ready.shift = p->zone.mixed.shift = (unsigned)__builtin_ctzll(p->granule);
    atomic_init(&p->zones[0], &p->zone);
    atomic_init(&p->nzones, 1);
    p->rank = 1;
    tidei_heap_set_cap(p);
    tidei_heap_lock(p);
    tide_status st = tidei_heap_restock(p);
    tidei_heap_unlock(p);
    if (st == TIDE_OK) st = reserve(p);
    p->most = tidei_min_size(p->span, info->total_bytes);
    if (st != TIDE_OK) {
        p->addr = 0;
        tidei_pool_tide.close(&p->base);
        return st;
    }
    tidei_heap_lock(p);
    tidei_extent *all = tidei_heap_descriptor(p);
    all->off = 0;
    all->size = p->span;
    all->prev = all->next = NULL;
    p->first = p->last = all;
    tidei_heap_hole(p, all);
    tidei_heap_unlock(p);
    *out = &p->base;
    return TIDE_OK;
}

static void pool_close(tidei_pool *pool) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_device *d = pool->dev->d;
    tidei_runtime *rt = pool->dev->rt;
    tidei_heap_lock(p); /* which looks at what was freed while a zone's lock was held */
    tidei_heap_unlock(p);
    tidei_heap_unmap_all(p);
    if (p->addr) d->ops->unreserve(d, p->addr, p->span);
    tidei_zones_close(p);
    for (unsigned i = 0; i < TIDEI_THREADS_INDEXED; i++)
        tidei_host_free(rt, atomic_load(&p->caches[i]));
    tidei_heap_free_descriptors(p);
    tidei_host_free(rt, p->compaction);
    tidei_host_free(rt, p);
}

const struct tidei_pool_ops tidei_pool_tide = {
    .name = "tide",
    .open = pool_open,
    .close = pool_close,
    .alloc = pool_alloc,
    .own = pool_own,
    .free = pool_free,
    .settle = pool_settle,
    .synced = pool_synced,
    .trim = pool_trim,
    .clear = tidei_heap_clear,
    .stats = tidei_heap_stats,
    .rounding = tidei_heap_rounding,
    .largest = tidei_heap_largest,
    .changed = pool_changed,
    .valid = tidei_heap_valid,
};
