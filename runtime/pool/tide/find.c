/* find.c: the pool `tide` finds a free piece for a request: the best fit, then what others may
** have, then room made by moving blocks, then new memory; and where the caller has nothing else
** left to try, all there is in one stretch.
**
** What must stay true: without TIDEI_ALLOC_STEAL or the rule WAIT a stream gets only what it is
** ordered after; a piece with more pending keeps saying so. The way there is long and rare, and
** lets go of the lock where it asks the device. */
#include "runtime/pool/reuse.h"
#include "runtime/pool/tide/tide.h"

#ifndef TIDEI_STRESS
/* pieces on each of others' size indexes looked at before the device is asked what is done */
#define FOREIGN_LOOKS 32
#else
#define FOREIGN_LOOKS 1
#endif

/* ---- what others may have ---- */

/* Where several streams are at work neighbours stay apart that one stream may have together: now
** they become one. */
static void join_for(tidei_heap *p, const tidei_stream *s) {
    for (tidei_extent *x = p->first, *next; x; x = next) {
        next = x->next;
        if (!next || tidei_extent_is(x) != TIDEI_EXTENT_FREE ||
            tidei_extent_is(next) != TIDEI_EXTENT_FREE)
            continue;
        if (x->slot != TIDEI_SLOT_READY && x->slot != s->slot) continue;
        if (next->slot != TIDEI_SLOT_READY && next->slot != s->slot) continue;
        tidei_size_index_take(tidei_heap_size_index(p, x), x);
        tidei_size_index_take(tidei_heap_size_index(p, next), next);
        tidei_heap_absorb(p, next, x);
        tidei_size_index_put(tidei_heap_size_index(p, next), next);
    }
}

/* Others' pieces: those that s may have, and those that it may once the device was asked. The lock
** is held, but for a while not. */
static tidei_extent *find_foreign(tidei_heap *p, tidei_size_index *own, size_t size,
                                  tidei_stream *s, unsigned flags) {
    tidei_check(tidei_lock_held(&p->lock));
    tidei_extent *x = tidei_heap_best_foreign(p, own, size, s, TIDEI_REACH_COVERED, FOREIGN_LOOKS);
    if (x) return x;
    if (tidei_reuse_rules(&p->base) & TIDEI_REUSE_DONE) {
        tidei_lock_give(&p->lock);
        tidei_heap_settle(p);
        tidei_lock_take(&p->lock);
        if ((x = tidei_heap_best_own(p, own, size))) return x;
    }
    if ((x = tidei_heap_best_foreign(p, own, size, s, TIDEI_REACH_COVERED, SIZE_MAX))) return x;
    return flags & TIDEI_ALLOC_STEAL ? tidei_heap_fit(p, size, s, TIDEI_REACH_ANY) : NULL;
}

/* Growth beyond what was ever in use at once is for fragments alone: this part of it is let pass
** before blocks are moved and other streams waited for. */
#define SLACK_PART 64
/* What streams keep from each other by work that is not done may be this part of what was ever in
** use at once, whoever they are. */
#define FAR_PART 16
/* Free pieces that are less than this part of a request together are not worth moving blocks
** for. */
#define LITTLE_PART 16
/* A compaction that was in vain is not tried again before so many blocks came back, and about twice
** as many each time. */
#define RETRY_FREES     8
#define RETRY_FREES_MAX 1024
/* Where a request found no room although there was enough and blocks might move, what stands
** between the free pieces is in the way, and most of that is small: from then on such small parts
** of that request keep to the other ends of free pieces than large blocks do. (A part of 1/700 to
** 1/1400 does nearly as well; larger blocks among the small ones leave less in one piece.) */
#define SMALL_PART 768

static bool tight(const tidei_heap *p, size_t size) {
    size_t most = tidei_max_size(p->most_used, p->used + size);
    return p->backed + size > most + most / SLACK_PART;
}

/* Free bytes within reach of a stream and beyond it; of those beyond, what is to be left alone for
** now. */
struct spread {
    size_t near, far, kept;
};

/* What the stream of a slot may keep of `bytes` that are pending on it, from a request of `size`.
** Where that is most of what was ever in use at once, streams work in such memory by turns, each
** with no other: without its own share none could work while another does. Else a stream that wants
** memory itself uses next what is pending on it, and others may have it: it costs both a wait. One
** that wants none works on what is passed on to it: with nothing left to it, all who are passed
** something on wait for each other. So buffers that pass through k streams are k + 1. */
static size_t kept_by(const tidei_heap *p, unsigned slot, size_t bytes, size_t size) {
    size_t most = tidei_max_size(p->most_used, p->used + size);
    if (bytes >= most / 2) return tidei_min_size(bytes, most);
    return p->takes[slot] ? 0 : tidei_min_size(bytes, size);
}

static struct spread spread_of(tidei_heap *p, tidei_stream *s, size_t size, tidei_reach reach) {
    size_t far[TIDEI_STREAMS_MAX] = {0}, all = p->backed - p->used - p->claimed;
    struct spread a = {0};
    if (all == p->ready.bytes + tidei_heap_own(p, s->slot)->bytes)
        return (struct spread){.near = all};
    for (tidei_extent *x = p->first; x; x = x->next) {
        if (tidei_extent_is(x) != TIDEI_EXTENT_FREE) continue;
        if (tidei_heap_reaches(p, reach, s, x)) {
            a.near += x->size;
        } else {
            a.far += x->size;
            if (x->slot < TIDEI_STREAMS_MAX) far[x->slot] += x->size;
        }
    }
    for (unsigned slot = 0; slot < p->size_indexes_end; slot++)
        if (far[slot]) a.kept += kept_by(p, slot, far[slot], size);
    return a;
}

/* The memory that is missing when all free bytes within reach are in one piece; less than
** `size`. */
static tide_status add_missing(tidei_heap *p, size_t size, size_t bytes, tidei_stream *s) {
    tidei_extent *more;
    if (bytes >= size) return TIDE_OK;
    tide_status st = tidei_heap_add(p, size - bytes, s, &more);
    if (st == TIDE_OK) tidei_heap_unclaim(p, more);
    return st;
}

/* How far s may reach instead of growing; *bytes are there. Beyond what streams keep, and beyond a
** part of all, memory is worth more than the wait. */
static tidei_reach reach_of(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                            size_t *bytes) {
    *bytes = p->backed - p->used - p->claimed;
    if (flags & TIDEI_ALLOC_MOVE) return TIDEI_REACH_ANY;
    struct spread a = spread_of(p, s, size, TIDEI_REACH_STALE);
    if (tidei_reuse_rules(&p->base) & TIDEI_REUSE_WAIT && a.far - a.kept >= size &&
        a.far > p->most_used / FAR_PART)
        return TIDEI_REACH_ANY;
    *bytes = a.near;
    return TIDEI_REACH_STALE;
}

/* Pieces become one; what is missing, and what cannot be had between blocks that hardly move, is
** added first if it may `grow`. */
static tide_status compact(tidei_heap *p, size_t size, size_t bytes, tidei_stream *s,
                           tidei_reach reach, bool grow, tidei_extent **out) {
    size_t lost = 0;
    if (!grow && bytes < size) return TIDE_E_NOMEM;
    tide_status st = add_missing(p, size, bytes, s);
    if (st != TIDE_OK) return st;
    st = tidei_heap_compact(p, size, TIDEI_MOVES_MAX, s, reach, &lost, out);
    if (st == TIDE_E_NOMEM) p->small = tidei_max_size(p->small, size / SMALL_PART);
    if (st != TIDE_E_NOMEM || !lost || !grow) return st;
    st = add_missing(p, lost, 0, s);
    return st == TIDE_OK ? tidei_heap_compact(p, size, TIDEI_MOVES_MAX, s, reach, &lost, out) : st;
}

/* Instead of growing by all that is wanted, where much is free but in pieces. *out is on a size
** index, or CLAIMED. */
static tide_status make_room(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                             tidei_extent **out) {
    bool must = flags & TIDEI_ALLOC_MOVE, grow = !(flags & TIDEI_ALLOC_NO_GROW);
    size_t bytes;
    tidei_check(tidei_lock_held(&p->lock));
    if (!must && !tight(p, size)) return TIDE_E_NOMEM;
    tidei_reach reach = reach_of(p, size, s, flags, &bytes);
    if ((*out = tidei_heap_fit(p, size, s, reach))) return TIDE_OK;
    uint64_t frees = tidei_heap_tally(p).frees;
    if (!p->base.mover || bytes < size / LITTLE_PART || (!must && frees < p->compact_after))
        return TIDE_E_NOMEM;
    tide_status st = compact(p, size, bytes, s, reach, grow, out);
    if (st == TIDE_E_NOMEM && must) st = tidei_heap_remap(p, size, s, grow, out);
    p->compact_pause = st == TIDE_E_NOMEM
                           ? tidei_min_size(2 * p->compact_pause + RETRY_FREES, RETRY_FREES_MAX)
                           : 0;
    p->compact_after = frees + p->compact_pause;
    return st;
}

/* Others may take what was gathered before it is in one piece, and some of it may lie between
** blocks that hardly move. */
#define GATHERINGS 4

static size_t blocks_of(const tidei_heap *p) {
    size_t n = 0;
    for (const tidei_extent *x = p->first; x; x = x->next)
        n += tidei_extent_is(x) == TIDEI_EXTENT_LIVE;
    return n;
}

/* All there is becomes one stretch, and blocks slide on it. */
static tide_status gather(tidei_heap *p, size_t size, tidei_stream *s, bool grow,
                          tidei_extent **out) {
    tide_status st = TIDE_E_NOMEM;
    size_t lost = 0;
    tidei_check(tidei_lock_held(&p->lock));
    for (unsigned i = 0; i < GATHERINGS && st == TIDE_E_NOMEM; i++) {
        if ((st = tidei_heap_gather(p, size + lost, s, grow)) != TIDE_OK) return st;
        st = tidei_heap_compact(p, size, blocks_of(p), s, TIDEI_REACH_ANY, &lost, out);
    }
    return st;
}

/* When neither `ready` nor the stream's own size index has it. The lock is held, but for a while
** not. *out is in a size index, or CLAIMED. */
static tide_status search(tidei_heap *p, tidei_size_index *own, size_t size, tidei_stream *s,
                          unsigned flags, tidei_extent **out) {
    bool grow = !(flags & TIDEI_ALLOC_NO_GROW), clears = !grow && flags & TIDEI_ALLOC_MOVE;
    if (!clears) p->takes[s->slot] = true; /* what pages are cleared for is not the stream's */
    tidei_heap_flush(p);
    if (p->shared && own->bytes + p->ready.bytes >= size) join_for(p, s);
    if ((*out = tidei_heap_best_own(p, own, size))) return TIDE_OK;
    size_t foreign = p->backed - p->used - p->claimed - p->ready.bytes - own->bytes;
    if (foreign && p->backed - p->used >= size && (*out = find_foreign(p, own, size, s, flags)))
        return TIDE_OK;
    if (!grow && !clears) return TIDE_E_NOMEM;
    tide_status st = make_room(p, size, s, flags, out);
    if (st == TIDE_E_NOMEM && grow) st = tidei_heap_grow(p, size, s, out);
    if (st != TIDE_E_NOMEM) return st;
    if (tidei_reuse_rules(&p->base) & TIDEI_REUSE_WAIT &&
        (*out = tidei_heap_fit(p, size, s, TIDEI_REACH_ANY)))
        return TIDE_OK; /* what was left alone above: memory is short */
    unsigned last = TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED;
    return (flags & last) == last ? gather(p, size, s, grow, out) : st;
}

/* The same, with a free descriptor left afterwards as there is one now. */
__attribute__((noinline)) static tide_status find_elsewhere(tidei_heap *p, tidei_size_index *own,
                                                            size_t size, tidei_stream *s,
                                                            unsigned flags, tidei_extent **out) {
    tidei_saved_error before; /* what was tried in vain on the way to success leaves no error */
    tidei_error_save(&before);
    tidei_extent *descriptor = tidei_heap_descriptor(p);
    tide_status st = search(p, own, size, s, flags, out);
    tidei_heap_drop(p, descriptor);
    if (st == TIDE_OK) tidei_error_restore(&before);
    return st;
}

tide_status tidei_heap_find(tidei_heap *p, tidei_size_index *own, size_t size, tidei_stream *s,
                            unsigned flags, tidei_extent **out) {
    tidei_check(tidei_lock_held(&p->lock));
    *out = tidei_heap_best_own(p, own, size);
    return tidei_likely(*out != NULL) ? TIDE_OK : find_elsewhere(p, own, size, s, flags, out);
}
