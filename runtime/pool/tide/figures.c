/* figures.c: what the pool `tide` says of itself: its figures, and whether all of it hangs
** together.
**
** Threads take and free blocks meanwhile without the lock. What must stay true: a walk reads of a
** block handed out only what nobody changes, or asks first (LOOKED_AT), so that it is not freed
** under the look. */
#include "runtime/pool/tide/tide.h"

/* ---- figures ---- */

/* All of a zone's by number; NULL where a stream has none. */
enum { INDEXES = TIDEI_STREAMS_MAX + 2 };
static tidei_size_index *any_size_index(tidei_zone *z, unsigned i) {
    if (i < TIDEI_STREAMS_MAX) return tidei_zone_own(z, i);
    return i == TIDEI_STREAMS_MAX ? &z->ready : &z->mixed;
}

static size_t largest_in(tidei_size_index *sh) {
    const tidei_extent *x = sh ? tidei_size_index_largest(sh) : NULL;
    return x ? x->size : 0;
}

/* The largest free piece's bytes. */
static size_t largest(tidei_heap *p) {
    size_t most = 0;
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        tidei_zone *z = tidei_zone_at(p, k);
        most = tidei_max_size(most, largest_in(&z->ready));
        most = tidei_max_size(most, largest_in(&z->mixed));
        for (unsigned slot = 0; slot < p->size_indexes_end; slot++)
            most = tidei_max_size(most, largest_in(tidei_zone_own(z, slot)));
    }
    return most;
}

/* Other threads go on meanwhile, so what they count for themselves may not be of one moment; the
** sums hold all the same. */
void tidei_heap_stats(tidei_pool *pool, tidei_pool_stats *out) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_heap_lock(p);
    tidei_heap_flush(p);
    tidei_zones_join(p);
    tidei_heap_sums t = tidei_heap_tally(p);
    size_t cached = tidei_heap_ready_bytes(p) + p->claimed, used = tidei_heap_used(p),
           live = t.live < 0 ? 0 : tidei_min_size((size_t)t.live, used);
    *out = (tidei_pool_stats){.live = live,
                              .rounding = used - live,
                              .cached = cached,
                              .pending = p->backed - used - cached,
                              .backed = p->backed,
                              .largest = largest(p),
                              .allocs = t.allocs,
                              .frees = t.frees,
                              .compactions = p->compactions,
                              .bytes_moved = p->bytes_moved,
                              .bytes_remapped = p->bytes_remapped};
    tidei_heap_unlock(p);
}

size_t tidei_heap_rounding(tidei_pool *pool) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_heap_lock(p);
    tidei_heap_sums t = tidei_heap_tally(p);
    int64_t bytes = (int64_t)tidei_heap_used(p) - t.held - t.live;
    tidei_heap_unlock(p);
    return bytes > 0 ? (size_t)bytes : 0;
}

size_t tidei_heap_largest(tidei_pool *pool, size_t wanted) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_heap_lock(p);
    size_t bytes = largest(p);
    if (bytes < wanted) {
        tidei_heap_flush(p);
        tidei_zones_join(p);
        bytes = largest(p);
    }
    tidei_heap_unlock(p);
    return bytes;
}

/* What a walk over all extents adds up to. */
typedef struct census {
    size_t live, used, claimed, backed;
    size_t free_bytes, free_count;
    uint64_t blocks;
} census;

/* A block handed out: it cannot be freed while it is looked at. False: there is something wrong
** with it. */
static bool count_live(const tidei_heap *p, tidei_extent *x, census *c) {
    uint8_t live = TIDEI_EXTENT_LIVE;
    c->used += x->size;
    /* now in a cache */
    if (!atomic_compare_exchange_strong(&x->state, &live, TIDEI_EXTENT_LOOKED_AT)) return true;
    bool ok = x->bytes && x->bytes <= x->size && x->size - x->bytes < p->granule;
    c->live += x->bytes;
    c->blocks++;
    tidei_extent_become(x, TIDEI_WAS(LOOKED_AT), TIDEI_EXTENT_LIVE);
    return ok;
}

static bool count_extent(const tidei_heap *p, tidei_extent *x, census *c) {
    bool border = tidei_extent_is(x) == TIDEI_EXTENT_BORDER;
    if (border == !!x->size || x->size % p->granule || x->off % p->granule) return false;
    switch (tidei_extent_is(x)) {
    case TIDEI_EXTENT_BORDER: break;
    case TIDEI_EXTENT_LIVE:
        if (!count_live(p, x, c)) return false;
        break;
    case TIDEI_EXTENT_CACHED: c->used += x->size; break;
    case TIDEI_EXTENT_FREE:
        c->free_bytes += x->size;
        c->free_count++;
        if (x->slot < TIDEI_STREAMS_MAX && !tidei_heap_size_index((tidei_heap *)p, x)) return false;
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

static bool extents_valid(const tidei_heap *p, census *c) {
    tidei_extent *x = p->first, *prev = NULL;
    size_t off = 0;
    for (; x; prev = x, x = x->next) {
        if (x->off != off || x->prev != prev || !count_extent(p, x, c)) return false;
        bool both_free = prev && tidei_extent_is(prev) == TIDEI_EXTENT_FREE &&
                         tidei_extent_is(x) == TIDEI_EXTENT_FREE;
        if (both_free && tidei_heap_joinable(p, prev, x)) return false;
        off += x->size;
    }
    return off == p->span && p->last == prev;
}

static bool holes_valid(const tidei_heap *p) {
    const tidei_extent *hole = p->holes, *before = NULL;
    for (const tidei_extent *x = p->first; x; x = x->next) {
        if (tidei_extent_is(x) != TIDEI_EXTENT_HOLE) continue;
        if (x != hole || hole->left != before) return false;
        before = hole;
        hole = hole->right;
    }
    return !hole;
}

static bool indexes_valid(tidei_heap *p, const census *c) {
    size_t bytes = 0, count = 0;
    for (unsigned i = 0; i < tidei_zones(p) * INDEXES; i++) {
        tidei_size_index *sh = any_size_index(tidei_zone_at(p, i / INDEXES), i % INDEXES);
        if (sh && !tidei_size_index_valid(sh, &count)) return false;
        if (sh) bytes += sh->bytes;
    }
    return bytes == c->free_bytes && count == c->free_count;
}

static bool free_list_valid(const tidei_free_list *s) {
    size_t listed = 0;
    for (const tidei_extent *x = s->first; x; x = x->left) {
        if (tidei_extent_is(x) != TIDEI_EXTENT_UNUSED) return false;
        listed++;
    }
    return listed == s->n;
}

static bool free_lists_valid(const tidei_heap *p) {
    for (const tidei_extent *x = p->batches; x; x = x->right)
        if (!free_list_valid(&(tidei_free_list){(tidei_extent *)x, x->size})) return false;
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        const tidei_zone *z = tidei_zone_at(p, k);
        if (!free_list_valid(&z->free_list) || !free_list_valid(&z->aside)) return false;
    }
    return free_list_valid(&p->free_list);
}

bool tidei_heap_valid_locked(tidei_heap *p) {
    census c = {0};
    tidei_check(tidei_heap_locked(p));
    if (!extents_valid(p, &c) || !holes_valid(p) || !tidei_heap_pages_valid(p)) return false;
    if (!indexes_valid(p, &c) || !tidei_zones_valid(p) || !free_lists_valid(p)) return false;
    tidei_heap_sums t = tidei_heap_tally(p);
    /* What threads count for themselves is exact where nobody is at it. */
    bool alone = !p->ncaches || (p->ncaches == 1 && tidei_heap_cache_of(p, tidei_thread_number));
    if (alone && ((int64_t)c.live != t.live || c.blocks != t.allocs - t.frees)) return false;
    return c.used == tidei_heap_used(p) && c.claimed == p->claimed && c.backed == p->backed;
}

bool tidei_heap_valid(tidei_pool *pool) {
    tidei_heap *p = (tidei_heap *)pool;
    tidei_heap_lock(p);
    bool ok = tidei_heap_valid_locked(p);
    tidei_heap_unlock(p);
    return ok;
}
