/* find.c: the pool `tide` finds a free piece for a request: the best fit, then pieces with other
** streams' pending work, then room made by moving blocks, then new memory, then such room where new
** memory would have been better; and where the caller has nothing else left to try, all free memory
** brought into one stretch.
**
** What must stay true: without TIDEI_ALLOC_STEAL or the rule WAIT a stream gets only what it is
** ordered after; a piece handed out with other pending work keeps the stamps of that work, for the
** block's first use to wait. This search is long and rare, and lets go of the lock where it asks
** the device. */
#include "runtime/pool/reuse.h"
#include "runtime/pool/tide/tide.h"

#ifndef TIDEI_STRESS
/* pieces looked at in each other stream's size index before the device is asked what is done */
#define FOREIGN_LOOKS 32
#else
#define FOREIGN_LOOKS 1
#endif

/* ---- what others may have ---- */

/* A neighbour of x, on which work of x's stream is pending, that its stream may have too; NULL:
** there is none. */
static tidei_extent *own_beside(const tidei_extent *x) {
    tidei_extent *beside[] = {x->prev, x->next};
    for (unsigned i = 0; i < TIDEI_COUNT(beside); i++) {
        tidei_extent *y = beside[i];
        if (y && tidei_extent_is(y) == TIDEI_EXTENT_FREE &&
            (y->slot == x->slot || y->slot == TIDEI_SLOT_READY))
            return y;
    }
    return NULL;
}

/* Where several streams are at work, neighbours that s may have both of can still be separate
** pieces: joins them. Of two such neighbours one is the stream's own, since ready ones are one
** piece: so only those of its size index are looked at, which are few of all extents. */
static void join_for(tidei_heap *p, tidei_size_index *own) {
    for (tidei_extent *x = tidei_size_index_fit(own, 1), *next, *y; x; x = next) {
        next = tidei_size_index_next(own, x);
        if (!own_beside(x)) continue;
        tidei_size_index_take(own, x);
        while ((y = own_beside(x))) {
            if (y == next) next = tidei_size_index_next(own, next);
            tidei_size_index_take(tidei_heap_size_index(p, y), y);
            tidei_heap_absorb(p, x, y);
        }
        tidei_size_index_put(own, x); /* should the walk come to it again, nothing is beside it */
    }
}

static void join_own(tidei_heap *p, const tidei_stream *s) {
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        tidei_size_index *own = tidei_zone_own(tidei_zone_at(p, k), s->slot);
        if (own) join_for(p, own);
    }
}

/* Finds a piece with other streams' work: one that s may have, or may have once the device was
** asked. The lock is held, but let go of in between. */
static tidei_extent *find_foreign(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags) {
    tidei_check(tidei_heap_locked(p));
    tidei_extent *x = tidei_heap_best_foreign(p, size, s, TIDEI_REACH_COVERED, FOREIGN_LOOKS);
    if (x) return x;
    if (tidei_reuse_rules(&p->base) & TIDEI_REUSE_DONE) {
        tidei_heap_unlock(p);
        tidei_heap_settle(p);
        tidei_heap_lock(p);
        if ((x = tidei_heap_best_own(p, s, size))) return x;
    }
    if ((x = tidei_heap_best_foreign(p, size, s, TIDEI_REACH_COVERED, SIZE_MAX))) return x;
    return flags & TIDEI_ALLOC_STEAL ? tidei_heap_fit(p, size, s, TIDEI_REACH_ANY) : NULL;
}

/* Growth beyond what was ever in use at once serves fragmentation alone: this part of it is allowed
** before blocks are moved and other streams waited for. */
#define SLACK_PART 64
/* Pieces that streams keep from each other by pending work may be this part of what was ever in use
** at once. */
#define FAR_PART 16
/* If all free pieces together are less than this part of a request, it is not worth moving
** blocks. */
#define LITTLE_PART 16
/* After a compaction in vain none is tried before so many blocks were freed, and about twice as
** many each time. */
#define RETRY_FREES     8
#define RETRY_FREES_MAX 1024
/* Where a request found no room although there was enough and blocks might move, the blocks between
** the free pieces are in the way, and most of them are small. From then on blocks smaller than this
** part of that request are cut from the other ends of free pieces than large blocks are. (A part of
** 1/700 to 1/1400 does nearly as well; larger blocks among the small ones leave less in one
** piece.) */
#define SMALL_PART 768

static bool tight(tidei_heap *p, size_t size) {
    size_t most = tidei_max_size(tidei_heap_most_used(p), tidei_heap_used(p) + size);
    return p->backed + size > most + most / SLACK_PART;
}

/* Free bytes within reach of a stream, and beyond it; kept: of those beyond, the bytes left to
** other streams for now. */
struct spread {
    size_t near, far, kept;
};

/* The bytes, of `bytes` free on which a slot's work is pending, that its stream may keep from a
** request of `size` by another stream. Three cases. If it is at least half of what was ever in use
** at once, streams use the same memory in turns: the stream keeps it, or no two streams could work
** at the same time. Else, if the stream allocates itself, it keeps nothing: it costs both streams a
** wait. Else it works on buffers that other streams pass on to it, and keeps one of `size`:
** otherwise all streams of such a chain would wait for each other. So where buffers pass through k
** streams there are k + 1 of them. */
static size_t kept_by(tidei_heap *p, unsigned slot, size_t bytes, size_t size) {
    size_t most = tidei_max_size(tidei_heap_most_used(p), tidei_heap_used(p) + size);
    if (bytes >= most / 2) return tidei_min_size(bytes, most);
    return p->takes[slot] ? 0 : tidei_min_size(bytes, size);
}

static struct spread spread_of(tidei_heap *p, tidei_stream *s, size_t size, tidei_reach reach) {
    size_t far[TIDEI_STREAMS_MAX] = {0}, all = tidei_heap_free_bytes(p);
    struct spread a = {0};
    if (all == tidei_heap_own_bytes(p, s)) return (struct spread){.near = all};
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

/* Adds the memory that would be missing if all `bytes` free within reach were in one piece; less
** than `size`. */
static tide_status add_missing(tidei_heap *p, size_t size, size_t bytes, tidei_stream *s) {
    tidei_extent *more;
    if (bytes >= size) return TIDE_OK;
    tide_status st = tidei_heap_add(p, size - bytes, s, &more);
    if (st == TIDE_OK) tidei_heap_unclaim(p, more);
    return st;
}

/* How far s may reach instead of growing; *bytes: free bytes there. Where other streams hold more
** than they may keep, and more than FAR_PART of all, taking their memory and waiting is better than
** growing. */
static tidei_reach reach_of(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                            size_t *bytes) {
    *bytes = tidei_heap_free_bytes(p);
    if (flags & TIDEI_ALLOC_MOVE) return TIDEI_REACH_ANY;
    struct spread a = spread_of(p, s, size, TIDEI_REACH_STALE);
    if (tidei_reuse_rules(&p->base) & TIDEI_REUSE_WAIT && a.far - a.kept >= size &&
        a.far > tidei_heap_most_used(p) / FAR_PART)
        return TIDEI_REACH_ANY;
    *bytes = a.near;
    return TIDEI_REACH_STALE;
}

/* Makes one piece of several by moving blocks, at a cost of less than `most`. If it may `grow` it
** first adds the memory that is missing, and as much as is lost between blocks that cannot
** slide. */
static tide_status compact(tidei_heap *p, size_t size, size_t bytes, size_t most, tidei_stream *s,
                           tidei_reach reach, bool grow, tidei_extent **out) {
    size_t lost = 0;
    if (!grow && bytes < size) return TIDE_E_NOMEM;
    tide_status st = add_missing(p, size, bytes, s);
    if (st != TIDE_OK) return st;
    st = tidei_heap_compact(p, size, TIDEI_MOVES_MAX, most, s, reach, &lost, out);
    if (st == TIDE_E_NOMEM && most == SIZE_MAX)
        p->small = tidei_max_size(p->small, size / SMALL_PART);
    if (st != TIDE_E_NOMEM || !lost || !grow) return st;
    st = add_missing(p, lost, 0, s);
    if (st != TIDE_OK) return st;
    return tidei_heap_compact(p, size, TIDEI_MOVES_MAX, most, s, reach, &lost, out);
}

/* Whether there are addresses to spare. Where there are not, each page that is mapped elsewhere
** cuts a hole in two, until none is left that a large request fits in. */
static bool has_many_addresses(const tidei_heap *p) {
    return p->span / 2 >= p->base.dev->d->info.total_bytes;
}

/* Whether waiting for s itself is better than growing: so much is free for s at once, as where
** other streams hold memory (reach_of), and growth would be more than the slack that is allowed
** anyway. What was waited for is known to be done, which has to count. */
static bool worth_waiting(tidei_heap *p, size_t size, const tidei_stream *s) {
    const unsigned wanted = TIDEI_REUSE_WAIT | TIDEI_REUSE_DONE;
    size_t near = tidei_heap_own_bytes(p, s), most = tidei_heap_most_used(p);
    return (tidei_reuse_rules(&p->base) & wanted) == wanted && near >= size &&
           near > most / FAR_PART && size > most / SLACK_PART;
}

/* The whole pages of a piece. */
static size_t pages_in(const tidei_heap *p, const tidei_extent *x) {
    size_t low = tidei_round_up(x->off, p->page_bytes),
           high = tidei_extent_end(x) / p->page_bytes * p->page_bytes;
    return low < high ? high - low : 0;
}

/* The host waits for what s has pending on free pages, if with those that are ready they are enough
** of `size` to be mapped elsewhere. Others go on meanwhile, with zones of their own; and an
** embedder's callback may leave the wait by longjmp, so that nothing is claimed yet. */
static tide_status await_own(tidei_heap *p, size_t size, const tidei_stream *s) {
    tidei_stamp last = {.stream = s->slot, .write = 1};
    size_t bytes = 0;
    tidei_check(tidei_heap_locked(p));
    for (const tidei_extent *x = p->first; x; x = x->next) {
        if (tidei_extent_is(x) != TIDEI_EXTENT_FREE || !pages_in(p, x)) continue;
        if (x->slot != s->slot && x->slot != TIDEI_SLOT_READY) continue;
        bytes += pages_in(p, x);
        if (x->slot == s->slot && x->tick > last.tick) last.tick = x->tick;
    }
    if (!last.tick || bytes < size / TIDEI_VACANT_PART) return TIDE_OK;
    tidei_heap_unlock(p);
    tide_status st = tidei_stamp_wait(p->base.dev, last);
    tidei_heap_lock(p);
    return st;
}

/* Maps pages on which nothing lies side by side, and gets new memory for what is missing. It asks
** which work is done, and if it `waits` waits for the stream's own. */
static tide_status use_idle_pages(tidei_heap *p, size_t size, tidei_stream *s, bool waits,
                                  tidei_extent **out) {
    tide_status st = waits ? await_own(p, size, s) : TIDE_OK;
    if (st != TIDE_OK) return st;
    if (tidei_reuse_rules(&p->base) & TIDEI_REUSE_DONE) {
        tidei_heap_unlock(p);
        tidei_heap_settle(p);
        tidei_heap_lock(p);
        tidei_zones_join(p);
        if ((*out = tidei_heap_best_own(p, s, size))) return TIDE_OK;
    }
    /* else no page will do, and threads would lose their zones for nothing */
    if (!tidei_heap_any_ready(p, p->page_bytes)) return TIDE_E_NOMEM;
    tidei_zones_unite(p);
    st = tidei_heap_remap_idle(p, size, s, out);
    tidei_zones_part(p);
    return st;
}

/* Moving blocks, the last resort last. */
static tide_status move_blocks(tidei_heap *p, size_t size, size_t bytes, size_t most,
                               tidei_stream *s, tidei_reach reach, unsigned flags,
                               tidei_extent **out) {
    bool must = flags & TIDEI_ALLOC_MOVE, grow = !(flags & TIDEI_ALLOC_NO_GROW);
    uint64_t frees = tidei_heap_tally(p).frees;
    tide_status st = compact(p, size, bytes, most, s, reach, grow, out);
    if (most != SIZE_MAX) return st; /* what costs too much then may be worth while later */
    if (st == TIDE_E_NOMEM && must) st = tidei_heap_remap(p, size, s, grow, out);
    p->compact_pause = st == TIDE_E_NOMEM
                           ? tidei_min_size(2 * p->compact_pause + RETRY_FREES, RETRY_FREES_MAX)
                           : 0;
    p->compact_after = frees + p->compact_pause;
    return st;
}

/* Makes room instead of growing by all that is wanted, where much is free but in pieces. `most`:
** what moves may cost; SIZE_MAX: whatever it takes, and pages may be mapped elsewhere. *out is in a
** size index, or CLAIMED. */
static tide_status make_room(tidei_heap *p, size_t size, size_t most, tidei_stream *s,
                             unsigned flags, tidei_extent **out) {
    bool must = flags & TIDEI_ALLOC_MOVE, again, waits;
    size_t bytes;
    tide_status st = TIDE_E_NOMEM;
    tidei_check(tidei_heap_locked(p));
    tidei_reach reach = reach_of(p, size, s, flags, &bytes);
    if ((*out = tidei_heap_fit(p, size, s, reach))) return TIDE_OK;
    if (!p->base.mover || bytes < size / LITTLE_PART) return TIDE_E_NOMEM;
    again = must || tidei_heap_tally(p).frees >= p->compact_after;
    if (again) st = move_blocks(p, size, bytes, most, s, reach, flags, out);
    if (st != TIDE_E_NOMEM || must || most != SIZE_MAX || !has_many_addresses(p)) return st;
    waits = worth_waiting(p, size, s);
    if (!again && !waits) return st;
    st = use_idle_pages(p, size, s, waits, out);
    return st == TIDE_OK || st == TIDE_E_LOST ? st : TIDE_E_NOMEM; /* growing may do all the same */
}

/* Attempts: other threads may take what was gathered before it is in one piece, and some of it may
** lie between blocks that cannot slide. */
#define GATHERINGS 4

/* Brings all free memory into one stretch of pages, and slides the blocks on it. */
static tide_status gather(tidei_heap *p, size_t size, tidei_stream *s, bool grow,
                          tidei_extent **out) {
    tide_status st = TIDE_E_NOMEM;
    size_t lost = 0;
    tidei_check(tidei_heap_locked(p));
    for (unsigned i = 0; i < GATHERINGS && st == TIDE_E_NOMEM; i++) {
        if ((st = tidei_heap_gather(p, size + lost, s, grow)) != TIDE_OK) return st;
        st = tidei_heap_compact(p, size, SIZE_MAX, SIZE_MAX, s, TIDEI_REACH_ANY, &lost, out);
    }
    return st;
}

/* A thread waits for so many growths by others before it grows by itself. The wait for each has an
** end: a growth calls the device and the embedder's allocator, which may need what this thread
** holds. */
#define GROWTHS 16

/* Where there is no growth to be had, moves may cost this many times the bytes wanted: 128 MiB for
** a request of 8 MiB take an H200 80 us, as long as the short collection that a climb begins with.
** An attempt that fails puts off no other one, as those of any cost do: it costs little beside the
** climb that follows. */
#define MOVED_TIMES 16

/* Grows, or makes room: first what costs less. Growth that is worth its memory may not be had; then
** there is still what lies in pieces. */
static tide_status grow_or_make_room(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                                     tidei_extent **out) {
    bool grow = !(flags & TIDEI_ALLOC_NO_GROW), first = flags & TIDEI_ALLOC_MOVE || tight(p, size);
    tide_status st = first ? make_room(p, size, SIZE_MAX, s, flags, out) : TIDE_E_NOMEM;
    if (st == TIDE_E_NOMEM && grow) st = tidei_heap_grow(p, size, s, out);
    if (st != TIDE_E_NOMEM || first) return st;
    return make_room(p, size, MOVED_TIMES * size, s, flags, out);
}

/* Searches when neither `ready` nor the stream's own size index has a piece. The lock is held, but
** let go of in between. *out is in a size index, or CLAIMED. */
static tide_status search(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                          tidei_extent **out) {
    bool grow = !(flags & TIDEI_ALLOC_NO_GROW), clears = !grow && flags & TIDEI_ALLOC_MOVE;
    if (!clears) p->takes[s->slot] = true; /* a piece made to clear pages is not for the stream */
    tidei_heap_flush(p);
    tidei_zones_join(p);
    size_t near = tidei_heap_own_bytes(p, s);
    if (p->shared && near >= size) join_own(p, s);
    if ((*out = tidei_heap_best_own(p, s, size))) return TIDE_OK;
    size_t free = tidei_heap_free_bytes(p);
    if (free > near && free + p->claimed >= size && (*out = find_foreign(p, size, s, flags)))
        return TIDE_OK;
    if (!grow && !clears) return TIDE_E_NOMEM;
    for (unsigned i = 0; grow && i < GROWTHS && tidei_heap_await_growth(p, size); i++)
        if ((*out = tidei_heap_best_own(p, s, size))) return TIDE_OK;
    tide_status st = grow_or_make_room(p, size, s, flags, out);
    if (st != TIDE_E_NOMEM) return st;
    if (tidei_reuse_rules(&p->base) & TIDEI_REUSE_WAIT &&
        (*out = tidei_heap_fit(p, size, s, TIDEI_REACH_ANY)))
        return TIDE_OK; /* takes what was left to other streams above, since memory is short */
    unsigned last = TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED;
    return (flags & last) == last ? gather(p, size, s, grow, out) : st;
}

/* The same, with a free descriptor left afterwards, as there is one now. What may move everything
** wants no borders between. */
__attribute__((noinline)) static tide_status
find_elsewhere(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags, tidei_extent **out) {
    tidei_saved_error before; /* attempts that failed on the way to success leave no error */
    tidei_error_save(&before);
    tidei_extent *descriptor = tidei_heap_descriptor(p);
    bool whole = flags & TIDEI_ALLOC_MOVE;
    if (whole) tidei_zones_unite(p);
    tide_status st = search(p, size, s, flags, out);
    if (whole) tidei_zones_part(p);
    tidei_heap_undescribe(p, descriptor);
    if (st == TIDE_OK) tidei_error_restore(&before);
    return st;
}

tide_status tidei_heap_find(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                            tidei_extent **out) {
    tidei_check(tidei_heap_locked(p));
    *out = tidei_heap_best_own(p, s, size);
    return tidei_likely(*out != NULL) ? TIDE_OK : find_elsewhere(p, size, s, flags, out);
}
