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

tidei_extent *tidei_heap_best_own(tidei_heap *p, tidei_size_index *own, size_t size) {
    tidei_extent *x = tidei_size_index_fit(own, size);
    return tidei_likely(p->ready.bytes < size) ? x
                                               : better(x, tidei_size_index_fit(&p->ready, size));
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
tidei_extent *tidei_heap_best_foreign(tidei_heap *p, tidei_size_index *own, size_t size,
                                      tidei_stream *s, tidei_reach reach, size_t looks) {
    tidei_extent *best = look(p, &p->mixed, size, s, reach, looks, NULL);
    for (unsigned slot = 0; slot < p->size_indexes_end; slot++) {
        tidei_size_index *sh = tidei_heap_own(p, slot);
        if (sh && sh != own && sh->bytes >= size) best = look(p, sh, size, s, reach, looks, best);
    }
    return best;
}

/* How many ticks were submitted after the work that is pending on x; 0 if it is work of several
** streams. */
static uint64_t age(const tidei_heap *p, const tidei_extent *x) {
    if (x->slot >= TIDEI_STREAMS_MAX) return 0;
    tidei_stream *s =
        atomic_load_explicit(&p->base.dev->rt->streams->at[x->slot], memory_order_acquire);
    return s ? atomic_load_explicit(&s->submitted, memory_order_relaxed) - x->tick : 0;
}

/* The size of the smallest piece of at least `size` on which work of one other stream is pending;
** SIZE_MAX: none. */
static size_t least_foreign(const tidei_heap *p, tidei_size_index *own, size_t size) {
    size_t least = SIZE_MAX;
    for (unsigned slot = 0; slot < p->size_indexes_end; slot++) {
        tidei_size_index *sh = tidei_heap_own(p, slot);
        const tidei_extent *x = sh && sh != own ? tidei_size_index_fit(sh, size) : NULL;
        if (x) least = tidei_min_size(least, x->size);
    }
    return least;
}

/* Of other streams' pieces that fit nearly as well as the best one, the one whose pending work is
** the oldest of its stream. The streams take turns, since ticks do not tell which stream is further
** behind. */
static tidei_extent *oldest_foreign(tidei_heap *p, tidei_size_index *own, size_t size) {
    size_t least = least_foreign(p, own, size);
    tidei_extent *oldest = NULL;
    for (unsigned i = 0; i < p->size_indexes_end && least < SIZE_MAX; i++) {
        tidei_size_index *sh = tidei_heap_own(p, (p->turn + i) % p->size_indexes_end);
        tidei_extent *x = sh && sh != own ? tidei_size_index_fit(sh, least) : NULL;
        for (; x && x->size <= least + least / 8; x = tidei_size_index_next(sh, x))
            if (!oldest || age(p, x) > age(p, oldest)) oldest = x;
    }
    if (oldest) p->turn = oldest->slot + 1u;
    return oldest;
}

tidei_extent *tidei_heap_fit(tidei_heap *p, size_t size, tidei_stream *s, tidei_reach reach) {
    tidei_size_index *own = tidei_heap_own(p, s->slot);
    tidei_extent *x =
        own ? tidei_heap_best_own(p, own, size) : tidei_size_index_fit(&p->ready, size);
    if (!x)
        x = tidei_heap_best_foreign(p, own, size, s,
                                    reach == TIDEI_REACH_ANY ? TIDEI_REACH_STALE : reach, SIZE_MAX);
    if (!x && reach == TIDEI_REACH_ANY) x = oldest_foreign(p, own, size);
    return x ? x : tidei_heap_best_foreign(p, own, size, s, reach, SIZE_MAX);
}
