/* tide.c: the pool `tide`: blocks out of one address range, best fit, shared by all streams. The model is in tide_pool.h.
**
** What must stay true: a block handed out without TIDEI_ALLOC_STEAL has nothing pending that the stream is not ordered
** after. For one thread and one stream the addresses depend on the calls alone, not on what the device has done: the best
** fit is exact over `ready` and the stream's own shelf, and these two join. `free` takes no memory: the descriptor of a
** block serves when it is free again. */
#include "runtime/pool/tide_pool.h"

/* Sizes are rounded to this, or to the device's alignment if that is more. Coarser wastes (16 classes a doubling cost 1
** to 4 % on recorded traces), finer only makes more extents. */
#define GRANULE ((size_t)256)
#ifndef TIDEI_STRESS
#define SLAB_EXTENTS  63 /* descriptors a slab: 8 KiB */
#define FOREIGN_LOOKS 32 /* pieces on each of others' shelves looked at before the device is asked what is done */
#else
#define SLAB_EXTENTS  2
#define FOREIGN_LOOKS 1
#endif
struct tidei_slab {
    tidei_slab *next;
    tidei_extent extents[SLAB_EXTENTS];
};

/* ---- descriptors ---- */

static void add_slab(tidei_tide *p, tidei_slab *slab) {
    uint32_t rank = p->slabs ? p->slabs->extents[SLAB_EXTENTS - 1].rank : 1;
    slab->next = p->slabs;
    p->slabs = slab;
    for (unsigned i = 0; i < SLAB_EXTENTS; i++) {
        rank ^= rank << 13, rank ^= rank >> 17, rank ^= rank << 5; /* xorshift32: any spread will do */
        slab->extents[i].rank = rank;
        tidei_tide_drop(p, &slab->extents[i]);
    }
}

tide_status tidei_tide_restock(tidei_tide *p) {
    while (tidei_unlikely(!p->spares || !p->spares->left)) {
        pthread_mutex_unlock(&p->lock);
        tidei_slab *slab = tidei_host_alloc(p->base.dev->rt, sizeof *slab);
        pthread_mutex_lock(&p->lock);
        if (!slab) return tidei_fail_host_memory("pool tide", sizeof *slab);
        add_slab(p, slab);
    }
    return TIDE_OK;
}

tidei_extent *tidei_tide_spare(tidei_tide *p) {
    tidei_extent *x = p->spares;
    p->spares = x->left;
    return x;
}

void tidei_tide_drop(tidei_tide *p, tidei_extent *x) {
    tidei_extent_be(x, TIDEI_EXTENT_SPARE);
    x->left = p->spares;
    p->spares = x;
}

void tidei_tide_link_before(tidei_tide *p, tidei_extent *x, tidei_extent *at) {
    x->next = at;
    x->prev = at->prev;
    at->prev = x;
    if (x->prev)
        x->prev->next = x;
    else
        p->first = x;
}

void tidei_tide_link_behind(tidei_tide *p, tidei_extent *x, tidei_extent *at) {
    x->prev = at;
    x->next = at->next;
    at->next = x;
    if (x->next)
        x->next->prev = x;
    else
        p->last = x;
}

void tidei_tide_unlink(tidei_tide *p, tidei_extent *x) {
    if (x->prev)
        x->prev->next = x->next;
    else
        p->first = x->next;
    if (x->next)
        x->next->prev = x->prev;
    else
        p->last = x->prev;
}

/* ---- what is pending ---- */

static bool known_done(tidei_dev *d, unsigned slot, uint64_t tick) {
    tide_stream *s = atomic_load_explicit(&d->streams[slot], memory_order_acquire);
    return s && tick <= atomic_load_explicit(&s->completed, memory_order_acquire);
}

static tidei_stamp stamp_of(const tidei_extent *x) {
    return (tidei_stamp){.tick = x->tick, .stream = x->slot, .write = 1}; /* the history of the bytes is unknown */
}

bool tidei_tide_covered(tide_stream *s, tidei_extent *x) {
    if (x->slot == TIDEI_SLOT_READY) return true;
    if (x->slot == TIDEI_SLOT_MANY) return tidei_stamps_covered(s, &x->many);
    return x->slot == s->slot || tidei_stamp_covered(s, stamp_of(x));
}

/* Drops what is known to be done. Returns the slot of what is left; *tick is the last one of a single stream. */
static uint16_t reduce(tidei_dev *d, tidei_stamps *stamps, uint64_t *tick) {
    tidei_stamp *x = tidei_stamps_at(stamps);
    uint16_t slot = TIDEI_SLOT_READY, kept = 0;
    uint64_t last = 0;
    for (const tidei_stamp *end = x + stamps->n, *at = x; at < end; at++) {
        if (known_done(d, at->stream, at->tick)) continue;
        slot = slot == TIDEI_SLOT_READY || slot == at->stream ? at->stream : TIDEI_SLOT_MANY;
        if (at->tick > last) last = at->tick;
        x[kept++] = *at;
    }
    stamps->n = kept;
    *tick = last;
    return slot;
}

/* ---- shelves ---- */

static void shelf_open(const tidei_tide *p, tidei_shelf *sh) { sh->shift = (unsigned)__builtin_ctzll(p->granule); }

static tidei_shelf *own_known(const tidei_tide *p, unsigned slot) {
    return atomic_load_explicit(&p->own[slot], memory_order_acquire);
}

/* The shelf of a stream's slot, made at the first call; NULL when host memory is exhausted. Without the lock. */
__attribute__((noinline)) static tidei_shelf *own_made(tidei_tide *p, unsigned slot) {
    tidei_shelf *sh = NULL, *made = tidei_host_alloc(p->base.dev->rt, sizeof *made);
    if (!made) return NULL;
    shelf_open(p, made);
    if (atomic_compare_exchange_strong(&p->own[slot], &sh, made)) return made;
    tidei_host_free(p->base.dev->rt, made);
    return sh;
}

tidei_shelf *tidei_tide_shelf(tidei_tide *p, const tidei_extent *x) {
    if (x->slot == TIDEI_SLOT_READY) return &p->ready;
    if (x->slot == TIDEI_SLOT_MANY) return &p->mixed;
    return own_known(p, x->slot);
}

/* All of them by number; NULL where a stream has none. */
enum { SHELVES = TIDEI_STREAMS_MAX + 2 };
static const tidei_shelf *any_shelf(const tidei_tide *p, unsigned i) {
    if (i < TIDEI_STREAMS_MAX) return own_known(p, i);
    return i == TIDEI_STREAMS_MAX ? &p->ready : &p->mixed;
}

bool tidei_tide_joinable(const tidei_extent *a, const tidei_extent *b) {
    if (a->slot == TIDEI_SLOT_MANY || b->slot == TIDEI_SLOT_MANY) return false;
    return a->slot == b->slot || a->slot == TIDEI_SLOT_READY || b->slot == TIDEI_SLOT_READY;
}

static void join_pending(tidei_extent *x, const tidei_extent *y) {
    if (y->slot == TIDEI_SLOT_READY) return;
    if (x->slot == TIDEI_SLOT_READY || x->tick < y->tick) x->tick = y->tick;
    x->slot = y->slot;
}

void tidei_tide_absorb(tidei_tide *p, tidei_extent *x, tidei_extent *y) {
    if (y->off < x->off) x->off = y->off;
    x->size += y->size;
    join_pending(x, y);
    tidei_tide_unlink(p, y);
    tidei_tide_drop(p, y);
}

static bool joins(const tidei_extent *x, const tidei_extent *neighbour) {
    return neighbour && tidei_extent_is(neighbour) == TIDEI_EXTENT_FREE && tidei_tide_joinable(x, neighbour);
}

/* The free neighbour y takes over x, staying on its shelf and mostly in its place there; x is dropped. */
static void give_to(tidei_tide *p, tidei_extent *y, tidei_extent *x) {
    size_t off = y->off < x->off ? y->off : x->off;
    tidei_shelf *sh = tidei_tide_shelf(p, y);
    join_pending(y, x);
    tidei_tide_unlink(p, x);
    tidei_shelf_reshape(sh, y, off, y->size + x->size);
    tidei_tide_drop(p, x);
}

void tidei_tide_release(tidei_tide *p, tidei_extent *x) {
    tidei_extent *prev = joins(x, x->prev) ? x->prev : NULL;
    if (prev) join_pending(x, prev);
    tidei_extent *next = joins(x, x->next) ? x->next : NULL;
    if (prev && next) {
        tidei_shelf_take(tidei_tide_shelf(p, prev), prev);
        tidei_tide_absorb(p, x, prev);
    }
    tidei_extent *heir = next ? next : prev;
    if (heir && (x->slot == heir->slot || x->slot == TIDEI_SLOT_READY)) {
        give_to(p, heir, x);
        return;
    }
    if (heir) {
        tidei_shelf_take(tidei_tide_shelf(p, heir), heir);
        tidei_tide_absorb(p, x, heir);
    }
    tidei_extent_be(x, TIDEI_EXTENT_FREE);
    tidei_shelf_put(tidei_tide_shelf(p, x), x);
}

void tidei_tide_claim(tidei_tide *p, tidei_extent *x) {
    tidei_shelf_take(tidei_tide_shelf(p, x), x);
    tidei_extent_be(x, TIDEI_EXTENT_CLAIMED);
    p->claimed += x->size;
}

/* ---- finding a piece ---- */

static tidei_extent *better(tidei_extent *a, tidei_extent *b) {
    if (!a || !b) return a ? a : b;
    return tidei_extent_before(b, a->size, a->off) ? b : a;
}

static tidei_extent *best_own(const tidei_tide *p, const tidei_shelf *own, size_t size) {
    tidei_extent *x = tidei_shelf_fit(own, size);
    return tidei_likely(p->ready.bytes < size) ? x : better(x, tidei_shelf_fit(&p->ready, size));
}

/* The best of the first `looks` that s may have (`steal`: all), or best itself. */
static tidei_extent *look(const tidei_shelf *sh, size_t size, tide_stream *s, bool steal, size_t looks,
                          tidei_extent *best) {
    for (tidei_extent *x = tidei_shelf_fit(sh, size); x && looks; x = tidei_shelf_next(sh, x), looks--) {
        if (best && better(best, x) == best) break;
        if (steal || tidei_tide_covered(s, x)) return x;
    }
    return best;
}

/* The same over everything that others' work is pending on. */
static tidei_extent *best_foreign(tidei_tide *p, const tidei_shelf *own, size_t size, tide_stream *s, bool steal,
                                  size_t looks) {
    tidei_extent *best = look(&p->mixed, size, s, steal, looks, NULL);
    for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++) {
        const tidei_shelf *sh = own_known(p, slot);
        if (sh && sh != own && sh->bytes >= size) best = look(sh, size, s, steal, looks, best);
    }
    return best;
}

static size_t settle(tidei_tide *p);
static bool valid_locked(tidei_tide *p);

/* When neither `ready` nor the stream's own shelf has it. The lock is held, but for a while not. *out is on a shelf, or
** CLAIMED. */
static tide_status search(tidei_tide *p, const tidei_shelf *own, size_t size, tide_stream *s, unsigned flags,
                          tidei_extent **out) {
    bool steal = flags & TIDEI_ALLOC_STEAL;
    *out = NULL;
    tidei_tide_flush(p);
    if ((*out = best_own(p, own, size))) return TIDE_OK;
    size_t foreign = p->backed - p->used - p->claimed - p->ready.bytes - own->bytes;
    if (foreign && p->backed - p->used >= size) {
        if ((*out = best_foreign(p, own, size, s, false, FOREIGN_LOOKS))) return TIDE_OK;
        pthread_mutex_unlock(&p->lock);
        settle(p);
        pthread_mutex_lock(&p->lock);
        if ((*out = best_own(p, own, size))) return TIDE_OK;
        if ((*out = best_foreign(p, own, size, s, false, SIZE_MAX))) return TIDE_OK;
        if (steal && (*out = best_foreign(p, own, size, s, true, SIZE_MAX))) return TIDE_OK;
    }
    if (flags & TIDEI_ALLOC_NO_GROW) return TIDE_E_NOMEM;
    return tidei_tide_grow(p, size, s, out);
}

/* The same for `take`, which wants a spare descriptor afterwards as there is one now. */
__attribute__((noinline)) static tide_status find_elsewhere(tidei_tide *p, const tidei_shelf *own, size_t size,
                                                            tide_stream *s, unsigned flags, tidei_extent **out) {
    tidei_extent *spare = tidei_tide_spare(p);
    tide_status st = search(p, own, size, s, flags, out);
    tidei_tide_drop(p, spare);
    return st;
}

/* ---- handing out ---- */

/* For the rest of a piece that is split: all that is pending. False: host memory is exhausted. */
static bool copy_pending(tidei_extent *to, tidei_extent *from) {
    to->slot = from->slot;
    to->tick = from->tick;
    if (from->slot != TIDEI_SLOT_MANY) return true;
    to->many = (tidei_stamps){0};
    if (!tidei_stamps_reserve(&to->many, from->many.n)) return false;
    for (unsigned i = 0; i < from->many.n; i++) tidei_stamps_add(&to->many, tidei_stamps_at(&from->many)[i]);
    return true;
}

/* Cuts the low `size` bytes off x, which is larger, as an extent of its own; the rest is free. There is a spare
** descriptor. NULL: host memory is exhausted. */
static tidei_extent *split(tidei_tide *p, tidei_extent *x, size_t size) {
    tidei_extent *low = p->spares;
    if (!copy_pending(low, x)) return NULL;
    p->spares = low->left;
    low->off = x->off;
    low->size = size;
    tidei_tide_link_before(p, low, x);
    if (tidei_extent_is(x) == TIDEI_EXTENT_FREE) {
        tidei_shelf_reshape(tidei_tide_shelf(p, x), x, x->off + size, x->size - size);
    } else {
        p->claimed -= x->size;
        x->off += size;
        x->size -= size;
        tidei_tide_release(p, x);
    }
    return low;
}

static tidei_extent *whole(tidei_tide *p, tidei_extent *x) {
    if (tidei_extent_is(x) == TIDEI_EXTENT_FREE)
        tidei_shelf_take(tidei_tide_shelf(p, x), x);
    else
        p->claimed -= x->size;
    return x;
}

/* The history that goes with a block: what is not known to be done. */
static void hand_pending(const tidei_tide *p, tidei_extent *x, tidei_stamps *out) {
    out->n = out->cap = 0;
    if (x->slot == TIDEI_SLOT_READY) return;
    if (x->slot == TIDEI_SLOT_MANY) {
        *out = x->many;
    } else if (!known_done(p->base.dev, x->slot, x->tick)) {
        out->few[0] = stamp_of(x);
        out->n = 1;
    }
}

static inline size_t rounded(const tidei_tide *p, size_t bytes) {
    return (bytes + p->granule - 1) & ~(p->granule - 1);
}

/* From the shelves or the device, with the lock held. */
static tide_status take(tidei_tide *p, const tidei_shelf *own, size_t size, tide_stream *s, unsigned flags,
                        tidei_extent **out) {
    tide_status st;
    if (tidei_unlikely(!p->spares) && (st = tidei_tide_restock(p)) != TIDE_OK) return st;
    tidei_extent *x = best_own(p, own, size);
    if (tidei_unlikely(!x) && (st = find_elsewhere(p, own, size, s, flags, &x)) != TIDE_OK) return st;
    x = x->size > size ? split(p, x, size) : whole(p, x);
    if (tidei_unlikely(!x)) return tidei_fail_host_memory("pool tide", TIDEI_STREAMS_MAX * sizeof(tidei_stamp));
    tidei_extent_be(x, TIDEI_EXTENT_CACHED); /* nobody's, and on its way out */
    p->used += size;
    *out = x;
    return TIDE_OK;
}

static tide_status take_locked(tidei_tide *p, size_t size, tide_stream *s, unsigned flags, tidei_extent **out) {
    const tidei_shelf *own = own_known(p, s->slot);
    if (tidei_unlikely(!own) && !(own = own_made(p, s->slot)))
        return tidei_fail_host_memory("pool tide", sizeof *own);
    pthread_mutex_lock(&p->lock);
    tide_status st = take(p, own, size, s, flags, out);
    tidei_check_slow(valid_locked(p));
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* ---- the way without the lock ---- */

/* The calling thread's cache, if it has one in this pool already. */
static inline tidei_cache *cache_of(const tidei_tide *p, int number) {
    return tidei_likely(number > 0) ? atomic_load_explicit(&p->caches[number - 1], memory_order_acquire) : NULL;
}
static tidei_cache *cache_made(tidei_tide *p, unsigned number) {
    tidei_cache *c = cache_of(p, (int)number);
    return c || !number ? c : tidei_tide_cache_new(p, number);
}

/* x, which is nobody's, becomes the caller's. */
static inline void hand_out(const tidei_tide *p, tidei_extent *x, size_t bytes, unsigned home, tidei_block *out) {
    hand_pending(p, x, &out->stamps);
    out->addr = p->addr + x->off;
    out->bytes = bytes;
    out->priv = x;
    x->bytes = bytes;
    x->owner = NULL;
    x->home = (uint8_t)home;
    tidei_extent_be(x, TIDEI_EXTENT_LIVE);
    if (TIDEI_TIDE_POISONS) tidei_tide_unpoison(p, out->addr - p->addr, bytes);
}

static void count_out(tidei_cache *c, size_t bytes) {
    tidei_cache_add(&c->live, (int64_t)bytes);
    tidei_cache_count(&c->allocs);
}

/* When no entry of the thread's cache serves. */
__attribute__((noinline)) static tide_status alloc_slowly(tidei_tide *p, size_t bytes, tide_stream *s,
                                                          unsigned flags, tidei_block *out) {
    size_t size = rounded(p, bytes);
    unsigned number = tidei_thread_index();
    tidei_cache *c = cache_made(p, number);
    tidei_extent *x = c ? tidei_tide_from_inbox(p, c, size, s->slot) : NULL;
    if (x) {
        tidei_cache_add(&c->held, -(int64_t)size);
    } else {
        tide_status st = take_locked(p, size, s, flags, &x);
        if (st != TIDE_OK) return st;
    }
    hand_out(p, x, bytes, c ? number : 0, out);
    if (c) {
        count_out(c, bytes);
    } else {
        pthread_mutex_lock(&p->lock);
        p->live += (int64_t)bytes;
        p->allocs++;
        pthread_mutex_unlock(&p->lock);
    }
    return TIDE_OK;
}

static tide_status tide_pool_alloc(tidei_pool *pool, size_t bytes, tide_stream *s, unsigned flags,
                                   tidei_block *out) {
    tidei_tide *p = (tidei_tide *)pool;
    tidei_check(bytes > 0);
    if (tidei_unlikely(bytes > p->most)) return TIDE_E_NOMEM;
    size_t size = rounded(p, bytes);
    int number = tidei_thread_number;
    tidei_cache *c = cache_of(p, number);
    tidei_extent *x = c ? tidei_cache_take(c, size, s->slot) : NULL;
    if (tidei_unlikely(!x)) return alloc_slowly(p, bytes, s, flags, out);
    hand_out(p, x, bytes, (unsigned)number, out);
    tidei_cache_add(&c->held, -(int64_t)size);
    count_out(c, bytes);
    return TIDE_OK;
}

/* The thread's cache takes x, CACHED by now, or the cache of the thread that took it does. */
static inline bool cached(tidei_tide *p, tidei_cache *c, unsigned number, tidei_extent *x, size_t cap) {
    if (tidei_likely(x->home == number)) return tidei_cache_put(c, x, cap);
    tidei_cache_send(atomic_load_explicit(&p->caches[x->home - 1], memory_order_acquire), x);
    return true;
}

__attribute__((noinline)) static void free_to_shelf(tidei_tide *p, tidei_extent *x, size_t bytes, uint16_t slot,
                                                    uint64_t tick) {
    pthread_mutex_lock(&p->lock); /* whoever looked at x has done so now */
    p->live -= (int64_t)bytes;
    p->frees++;
    p->used -= x->size;
    x->slot = slot;
    x->tick = tick;
    tidei_tide_release(p, x);
    tidei_check_slow(valid_locked(p));
    pthread_mutex_unlock(&p->lock);
}

/* What is pending, on x once nobody else can look at it. The block's stamps are empty afterwards. */
static inline uint16_t take_stamps(tidei_tide *p, tidei_extent *x, tidei_stamps *stamps, uint64_t *tick) {
    if (tidei_likely(!stamps->n && !stamps->cap)) return *tick = 0, TIDEI_SLOT_READY;
    uint16_t slot = reduce(p->base.dev, stamps, tick);
    if (slot < TIDEI_STREAMS_MAX && tidei_unlikely(!own_known(p, slot)) && !own_made(p, slot))
        slot = TIDEI_SLOT_MANY;
    if (tidei_unlikely(slot == TIDEI_SLOT_MANY))
        x->many = *stamps; /* nobody looks at a live extent's */
    else if (tidei_unlikely(stamps->cap))
        tidei_stamps_clear(stamps);
    stamps->n = stamps->cap = 0;
    return slot;
}

static void tide_pool_free(tidei_pool *pool, tidei_block *b) {
    tidei_tide *p = (tidei_tide *)pool;
    tidei_extent *x = b->priv;
    size_t bytes = b->bytes, size = x->size, cap = atomic_load_explicit(&p->cap, memory_order_relaxed);
    int number = tidei_thread_number;
    tidei_cache *c = cache_of(p, number);
    uint64_t tick;
    tidei_check(x->bytes == bytes);
    uint16_t slot = take_stamps(p, x, &b->stamps, &tick);
    if (slot == TIDEI_SLOT_READY) tidei_tide_poison(p, x->off, size); /* queued work may still use the others */
    uint8_t live = TIDEI_EXTENT_LIVE;
    if (tidei_likely(c && x->home && size <= cap && slot != TIDEI_SLOT_MANY) &&
        atomic_compare_exchange_strong(&x->state, &live, TIDEI_EXTENT_CACHED)) {
        x->slot = slot;
        x->tick = tick;
        if (tidei_likely(cached(p, c, (unsigned)number, x, cap))) {
            tidei_cache_add(&c->live, -(int64_t)bytes);
            tidei_cache_add(&c->held, (int64_t)size);
            tidei_cache_count(&c->frees);
            return;
        }
    }
    free_to_shelf(p, x, bytes, slot, tick);
}

/* ---- settling ---- */

/* For each slot the last tick that something free waits for. */
static void ticks_wanted(tidei_tide *p, uint64_t *ticks) {
    for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++) {
        const tidei_shelf *sh = own_known(p, slot);
        if (!sh || !sh->bytes) continue;
        for (tidei_extent *x = tidei_shelf_fit(sh, 1); x; x = tidei_shelf_next(sh, x))
            if (x->tick > ticks[slot]) ticks[slot] = x->tick;
    }
    for (tidei_extent *x = tidei_shelf_fit(&p->mixed, 1); x; x = tidei_shelf_next(&p->mixed, x)) {
        const tidei_stamp *stamps = tidei_stamps_at(&x->many);
        for (unsigned i = 0; i < x->many.n; i++)
            if (stamps[i].tick > ticks[stamps[i].stream]) ticks[stamps[i].stream] = stamps[i].tick;
    }
}

/* Updates what is pending on x; true if that became less. */
static bool refresh(tidei_tide *p, tidei_extent *x) {
    uint64_t tick;
    if (x->slot != TIDEI_SLOT_MANY) {
        if (!known_done(p->base.dev, x->slot, x->tick)) return false;
        x->slot = TIDEI_SLOT_READY;
        return true;
    }
    uint16_t slot = reduce(p->base.dev, &x->many, &tick);
    if (slot == TIDEI_SLOT_MANY) return false;
    if (slot != TIDEI_SLOT_READY && !own_known(p, slot)) return false;
    tidei_stamps_clear(&x->many);
    x->slot = slot;
    x->tick = tick;
    return true;
}

/* Takes off the shelf what waits for less than it did, chained before `chain`. CLAIMED only until the lock is let go, so
** not counted as such. */
static tidei_extent *collect_done(tidei_tide *p, tidei_shelf *sh, tidei_extent *chain) {
    for (tidei_extent *x = tidei_shelf_fit(sh, 1), *next; x; x = next) {
        next = tidei_shelf_next(sh, x);
        if (!refresh(p, x)) continue;
        tidei_shelf_take(sh, x);
        tidei_extent_be(x, TIDEI_EXTENT_CLAIMED);
        x->left = chain;
        chain = x;
    }
    return chain;
}

static size_t settle(tidei_tide *p) {
    uint64_t ticks[TIDEI_STREAMS_MAX] = {0};
    tidei_extent *chain = NULL, *next;
    pthread_mutex_lock(&p->lock);
    tidei_tide_flush(p);
    ticks_wanted(p, ticks);
    pthread_mutex_unlock(&p->lock);
    for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++) /* makes `completed` of the streams known */
        if (ticks[slot])
            tidei_stamp_done(p->base.dev, (tidei_stamp){.tick = ticks[slot], .stream = (uint16_t)slot, .write = 1});
    pthread_mutex_lock(&p->lock);
    size_t before = p->ready.bytes;
    for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++) {
        tidei_shelf *sh = own_known(p, slot);
        if (sh && sh->bytes) chain = collect_done(p, sh, chain);
    }
    chain = collect_done(p, &p->mixed, chain);
    for (; chain; chain = next) {
        next = chain->left;
        if (chain->slot == TIDEI_SLOT_READY) tidei_tide_poison(p, chain->off, chain->size);
        tidei_tide_release(p, chain);
    }
    size_t after = p->ready.bytes;
    pthread_mutex_unlock(&p->lock);
    return after > before ? after - before : 0;
}

static size_t tide_pool_settle(tidei_pool *pool) { return settle((tidei_tide *)pool); }

static size_t tide_pool_trim(tidei_pool *pool, size_t keep) {
    tidei_tide *p = (tidei_tide *)pool;
    settle(p);
    return tidei_tide_trim(p, keep);
}

static void tide_pool_changed(tidei_pool *pool) {
    tidei_tide *p = (tidei_tide *)pool;
    pthread_mutex_lock(&p->lock);
    tidei_tide_set_cap(p);
    tidei_tide_flush(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- figures ---- */

static size_t largest(const tidei_tide *p) {
    size_t most = 0;
    for (unsigned i = 0; i < SHELVES; i++) {
        const tidei_shelf *sh = any_shelf(p, i);
        const tidei_extent *x = sh ? tidei_shelf_largest(sh) : NULL;
        if (x) most = tidei_max_size(most, x->size);
    }
    return most;
}

/* Other threads go on meanwhile, so what they count for themselves may not be of one moment; the sums hold all the same. */
static void tide_pool_stats(tidei_pool *pool, tidei_pool_stats *out) {
    tidei_tide *p = (tidei_tide *)pool;
    pthread_mutex_lock(&p->lock);
    tidei_tide_flush(p);
    tidei_tally t = tidei_tide_tally(p);
    size_t cached = p->ready.bytes + p->claimed, live = t.live < 0 ? 0 : tidei_min_size((size_t)t.live, p->used);
    *out = (tidei_pool_stats){.live = live,
                              .rounding = p->used - live,
                              .cached = cached,
                              .parked = p->backed - p->used - cached,
                              .backed = p->backed,
                              .largest = largest(p),
                              .allocs = t.allocs,
                              .frees = t.frees};
    pthread_mutex_unlock(&p->lock);
}

/* What a walk over all extents adds up to. */
typedef struct census {
    size_t live, used, claimed, backed;
    size_t free_bytes, free_count;
    uint64_t blocks;
} census;

/* A block handed out: it cannot be freed while it is looked at. False: there is something wrong with it. */
static bool count_live(const tidei_tide *p, tidei_extent *x, census *c) {
    uint8_t live = TIDEI_EXTENT_LIVE;
    c->used += x->size;
    if (!atomic_compare_exchange_strong(&x->state, &live, TIDEI_EXTENT_LOOKED_AT)) return true; /* now in a cache */
    bool ok = x->bytes && x->bytes <= x->size && x->size - x->bytes < p->granule;
    c->live += x->bytes;
    c->blocks++;
    tidei_extent_be(x, TIDEI_EXTENT_LIVE);
    return ok;
}

static bool count_extent(const tidei_tide *p, tidei_extent *x, census *c) {
    if (!x->size || x->size % p->granule || x->off % p->granule) return false;
    switch (tidei_extent_is(x)) {
    case TIDEI_EXTENT_LIVE:
        if (!count_live(p, x, c)) return false;
        break;
    case TIDEI_EXTENT_CACHED: c->used += x->size; break;
    case TIDEI_EXTENT_FREE:
        c->free_bytes += x->size;
        c->free_count++;
        if (x->slot < TIDEI_STREAMS_MAX && !tidei_tide_shelf((tidei_tide *)p, x)) return false;
        break;
    case TIDEI_EXTENT_CLAIMED: c->claimed += x->size; break;
    case TIDEI_EXTENT_MAPPING: return x->size % p->page_bytes == 0 && x->off % p->page_bytes == 0;
    case TIDEI_EXTENT_HOLE:
        if (x->next && tidei_extent_is(x->next) == TIDEI_EXTENT_HOLE) return false;
        return x->size % p->page_bytes == 0 && x->off % p->page_bytes == 0;
    default: return false;
    }
    c->backed += x->size;
    return true;
}

static bool extents_valid(const tidei_tide *p, census *c) {
    tidei_extent *x = p->first, *prev = NULL;
    size_t off = 0;
    for (; x; prev = x, x = x->next) {
        if (x->off != off || x->prev != prev || !count_extent(p, x, c)) return false;
        bool both_free =
            prev && tidei_extent_is(prev) == TIDEI_EXTENT_FREE && tidei_extent_is(x) == TIDEI_EXTENT_FREE;
        if (both_free && tidei_tide_joinable(prev, x)) return false;
        off += x->size;
    }
    return off == p->span && p->last == prev;
}

static bool holes_valid(const tidei_tide *p) {
    const tidei_extent *hole = p->holes, *before = NULL;
    for (const tidei_extent *x = p->first; x; x = x->next) {
        if (tidei_extent_is(x) != TIDEI_EXTENT_HOLE) continue;
        if (x != hole || hole->left != before) return false;
        before = hole;
        hole = hole->right;
    }
    return !hole;
}

static bool valid_locked(tidei_tide *p) {
    census c = {0};
    if (!extents_valid(p, &c) || !holes_valid(p) || !tidei_tide_pages_valid(p)) return false;
    size_t bytes = 0, count = 0;
    for (unsigned i = 0; i < SHELVES; i++) {
        const tidei_shelf *sh = any_shelf(p, i);
        if (sh && !tidei_shelf_valid(sh, &count)) return false;
        if (sh) bytes += sh->bytes;
    }
    tidei_tally t = tidei_tide_tally(p);
    bool alone = p->ncaches <= 1; /* what threads count for themselves is exact, and nobody at it */
    if (alone && ((int64_t)c.live != t.live || c.blocks != t.allocs - t.frees)) return false;
    return bytes == c.free_bytes && count == c.free_count && c.used == p->used && c.claimed == p->claimed &&
           c.backed == p->backed;
}

static bool tide_pool_valid(tidei_pool *pool) {
    tidei_tide *p = (tidei_tide *)pool;
    pthread_mutex_lock(&p->lock);
    bool ok = valid_locked(p);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

/* ---- opening and closing ---- */

static tide_status tide_pool_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    const tidei_device_info *info = &dev->d->info;
    if (kind != TIDEI_MEM_DEVICE || !(info->flags & TIDEI_DEV_PAGES))
        return tidei_fail(TIDE_E_UNSUPPORTED, "pool tide",
                          "%s has no pages of this kind of memory; pool \"none\" does without", info->name);
    tidei_tide *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("pool tide", sizeof *p);
    tidei_pool_init(&p->base, &tidei_pool_tide, dev, kind);
    p->page_bytes = info->page_bytes;
    p->granule = tidei_max_size(GRANULE, info->align);
    p->span = tidei_max_size(info->va_bytes, info->page_bytes) / p->page_bytes * p->page_bytes;
    p->most = tidei_min_size(p->span, info->total_bytes);
    p->poison = TIDEI_TIDE_POISONS && info->flags & TIDEI_DEV_RUNS_HOST;
    tidei_check(p->page_bytes % p->granule == 0);
    shelf_open(p, &p->ready);
    shelf_open(p, &p->mixed);
    tidei_tide_set_cap(p);
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_lock(&p->lock);
    tide_status st = tidei_tide_restock(p);
    pthread_mutex_unlock(&p->lock);
    if (st == TIDE_OK) st = dev->d->ops->reserve(dev->d, p->span, &p->addr);
    if (st != TIDE_OK) {
        p->addr = 0;
        tidei_pool_tide.close(&p->base);
        return st;
    }
    tidei_extent *all = tidei_tide_spare(p);
    all->off = 0;
    all->size = p->span;
    all->prev = all->next = NULL;
    p->first = p->last = all;
    tidei_tide_hole(p, all);
    *out = &p->base;
    return TIDE_OK;
}

static void tide_pool_close(tidei_pool *pool) {
    tidei_tide *p = (tidei_tide *)pool;
    tidei_device *d = pool->dev->d;
    tide_runtime *rt = pool->dev->rt;
    tidei_tide_unmap_all(p);
    if (p->addr) d->ops->unreserve(d, p->addr, p->span);
    for (tidei_extent *x = tidei_shelf_fit(&p->mixed, 1); x; x = tidei_shelf_next(&p->mixed, x))
        tidei_stamps_clear(&x->many);
    for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++) tidei_host_free(rt, atomic_load(&p->own[slot]));
    for (unsigned i = 0; i < TIDEI_THREADS_INDEXED; i++) tidei_host_free(rt, atomic_load(&p->caches[i]));
    for (tidei_slab *slab = p->slabs, *next; slab; slab = next) {
        next = slab->next;
        tidei_host_free(rt, slab);
    }
    pthread_mutex_destroy(&p->lock);
    tidei_host_free(rt, p);
}

const struct tidei_pool_ops tidei_pool_tide = {
    .name = "tide",
    .open = tide_pool_open,
    .close = tide_pool_close,
    .alloc = tide_pool_alloc,
    .free = tide_pool_free,
    .settle = tide_pool_settle,
    .trim = tide_pool_trim,
    .stats = tide_pool_stats,
    .changed = tide_pool_changed,
    .valid = tide_pool_valid,
};
