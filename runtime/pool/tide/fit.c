/* fit.c: which free piece of the pool `tide` fits a request best, of those that a stream may have.
**
** What must stay true: without TIDEI_REACH_ANY or the rule WAIT a stream gets only what it is
** ordered after. Nothing here lets go of the lock, or asks the device. */
#include "runtime/pool/reuse.h"
#include "runtime/pool/tide/tide.h"

/* ---- what is within reach ---- */

/* Work after which so many ticks were submitted to its stream counts as old ("stale"): it is likely
** done, or nearly, before new work of another stream begins. So waiting for it costs nothing, and
** several buffers can be in flight between two streams. */
#define STALE_TICKS 16

static bool stale(tidei_dev *d, tidei_stamp x) {
    tidei_stream *s = atomic_load_explicit(&d->rt->streams->at[x.stream], memory_order_acquire);
    return s && atomic_load_explicit(&s->submitted, memory_order_relaxed) >= x.tick + STALE_TICKS;
}

static bool reaches(const tidei_heap *p, tidei_reach reach, tidei_stream *s, tidei_stamp x) {
    unsigned r = tidei_reuse_rules(&p->base);
    if (reach == TIDEI_REACH_ANY || tidei_reuse_may_one(s, x, r)) return true;
    return reach == TIDEI_REACH_STALE && r & TIDEI_REUSE_WAIT && stale(p->base.dev, x);
}

bool tidei_heap_reaches(tidei_heap *p, tidei_reach reach, tidei_stream *s, tidei_extent *x) {
    if (x->slot == TIDEI_SLOT_READY) return true;
    if (x->slot != TIDEI_SLOT_MANY) return reaches(p, reach, s, tidei_extent_stamp(x));
    for (unsigned i = 0; i < tidei_heap_many(x)->n; i++)
        if (!reaches(p, reach, s, tidei_stamps_at(tidei_heap_many(x))[i])) return false;
    return true;
}

/* ---- finding a piece ---- */

static tidei_extent *better(tidei_extent *a, tidei_extent *b) {
    if (!a || !b) return a ? a : b;
    return tidei_extent_before(b, a->size, a->off) ? b : a;
}

tidei_extent *tidei_zone_fit(tidei_zone *z, uint16_t slot, size_t size) {
    tidei_size_index *own = tidei_zone_own(z, slot);
    tidei_extent *x = own ? tidei_size_index_fit(own, size) : NULL;
    return tidei_likely(z->ready.bytes < size) ? x
                                               : better(x, tidei_size_index_fit(&z->ready, size));
}

bool tidei_heap_any_ready(tidei_heap *p, size_t size) {
    for (unsigned k = 0; k < tidei_zones(p); k++)
        if (tidei_size_index_fit(&tidei_zone_at(p, k)->ready, size)) return true;
    return false;
}

tidei_extent *tidei_heap_best_own(tidei_heap *p, const tidei_stream *s, size_t size) {
    tidei_extent *x = NULL;
    for (unsigned k = 0; k < tidei_zones(p); k++)
        x = better(x, tidei_zone_fit(tidei_zone_at(p, k), s->slot, size));
    return x;
}

/* The best of the first `looks` pieces that are within reach of s, or `best` itself. */
static tidei_extent *look(tidei_heap *p, tidei_size_index *sh, size_t size, tidei_stream *s,
                          tidei_reach reach, size_t looks, tidei_extent *best) {
    for (tidei_extent *x = tidei_size_index_fit(sh, size); x && looks;
         x = tidei_size_index_next(sh, x), looks--) {
        if (best && better(best, x) == best) break;
        if (tidei_heap_reaches(p, reach, s, x)) return x;
    }
    return best;
}

/* The same over all pieces on which other streams' work is pending. */
tidei_extent *tidei_heap_best_foreign(tidei_heap *p, size_t size, tidei_stream *s,
                                      tidei_reach reach, size_t looks) {
    tidei_extent *best = NULL;
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        tidei_zone *z = tidei_zone_at(p, k);
        best = look(p, &z->mixed, size, s, reach, looks, best);
        for (unsigned slot = 0; slot < p->size_indexes_end; slot++) {
            tidei_size_index *sh = tidei_zone_own(z, slot);
            if (sh && slot != s->slot && sh->bytes >= size)
                best = look(p, sh, size, s, reach, looks, best);
        }
    }
    return best;
}

/* How many ticks were submitted after the work that is pending on x; 0 if it is work of several
** streams. */
static uint64_t age(const tidei_heap *p, const tidei_extent *x) {
    if (x->slot >= TIDEI_STREAMS_MAX) return 0;
    tidei_stream *s =
        atomic_load_explicit(&p->base.dev->rt->streams->at[x->slot], memory_order_acquire);
    uint64_t now = s ? atomic_load_explicit(&s->submitted, memory_order_relaxed) : 0;
    return now > x->tick ? now - x->tick : 0;
}

/* The size of the smallest piece of at least `size` on which work of one other stream is pending;
** SIZE_MAX: none. */
static size_t least_foreign(const tidei_heap *p, const tidei_stream *s, size_t size) {
    size_t least = SIZE_MAX;
    for (unsigned k = 0; k < tidei_zones(p); k++)
        for (unsigned slot = 0; slot < p->size_indexes_end; slot++) {
            tidei_size_index *sh = tidei_zone_own(tidei_zone_at(p, k), slot);
            const tidei_extent *x = sh && slot != s->slot ? tidei_size_index_fit(sh, size) : NULL;
            if (x) least = tidei_min_size(least, x->size);
        }
    return least;
}

/* The one among the pieces of `least` bytes and little more whose pending work is the oldest; or
** `oldest` itself. */
static tidei_extent *older(const tidei_heap *p, tidei_size_index *sh, size_t least,
                           tidei_extent *oldest) {
    tidei_extent *x = sh ? tidei_size_index_fit(sh, least) : NULL;
    for (; x && x->size <= least + least / 8; x = tidei_size_index_next(sh, x))
        if (!oldest || age(p, x) > age(p, oldest)) oldest = x;
    return oldest;
}

/* Of other streams' pieces that fit nearly as well as the best one, the one whose pending work is
** the oldest of its stream. The streams take turns, since ticks do not tell which stream is further
** behind. */
static tidei_extent *oldest_foreign(tidei_heap *p, const tidei_stream *s, size_t size) {
    size_t least = least_foreign(p, s, size);
    tidei_extent *oldest = NULL;
    for (unsigned i = 0; i < p->size_indexes_end && least < SIZE_MAX; i++) {
        unsigned slot = (p->turn + i) % p->size_indexes_end;
        for (unsigned k = 0; k < tidei_zones(p) && slot != s->slot; k++)
            oldest = older(p, tidei_zone_own(tidei_zone_at(p, k), slot), least, oldest);
    }
    if (oldest) p->turn = oldest->slot + 1u;
    return oldest;
}

tidei_extent *tidei_heap_fit(tidei_heap *p, size_t size, tidei_stream *s, tidei_reach reach) {
    tidei_extent *x = tidei_heap_best_own(p, s, size);
    if (!x)
        x = tidei_heap_best_foreign(p, size, s,
                                    reach == TIDEI_REACH_ANY ? TIDEI_REACH_STALE : reach, SIZE_MAX);
    if (!x && reach == TIDEI_REACH_ANY) x = oldest_foreign(p, s, size);
    return x ? x : tidei_heap_best_foreign(p, size, s, reach, SIZE_MAX);
}
