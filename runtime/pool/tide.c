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

bool tidei_tide_has_spares(const tidei_tide *p, size_t n) {
    const tidei_extent *x = p->spares;
    while (x && n > 1) x = x->left, n--;
    return x;
}

tide_status tidei_tide_restock(tidei_tide *p) { return tidei_tide_restock_to(p, 2); }

tide_status tidei_tide_restock_to(tidei_tide *p, size_t n) {
    while (tidei_unlikely(!tidei_tide_has_spares(p, n))) {
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

/* The rules of reuse between streams as they count: in a deterministic pool how far the device is does not matter. */
static unsigned rules(const tidei_tide *p) {
    unsigned r = atomic_load_explicit(&p->base.attrs.reuse, memory_order_relaxed);
    bool deterministic = atomic_load_explicit(&p->base.attrs.deterministic, memory_order_relaxed);
    return deterministic ? r & ~(unsigned)TIDEI_REUSE_DONE : r;
}

/* Work that so much has been submitted after, on its stream, is taken to be done before new work of another stream begins, or
** nearly: waiting for it keeps several buffers in flight between two streams. */
#define STALE_TICKS 16

static bool stale(tidei_dev *d, tidei_stamp x) {
    tide_stream *s = atomic_load_explicit(&d->streams[x.stream], memory_order_acquire);
    return s && atomic_load_explicit(&s->submitted, memory_order_relaxed) >= x.tick + STALE_TICKS;
}

static bool reaches(const tidei_tide *p, tidei_reach reach, tide_stream *s, tidei_stamp x) {
    tidei_dev *d = p->base.dev;
    if (x.stream == s->slot || reach == TIDEI_REACH_ANY) return true;
    unsigned r = rules(p);
    if (r & TIDEI_REUSE_FOLLOW && atomic_load_explicit(&s->seen[x.stream], memory_order_acquire) >= x.tick)
        return true;
    if (r & TIDEI_REUSE_DONE && known_done(d, x.stream, x.tick)) return true;
    return reach == TIDEI_REACH_STALE && r & TIDEI_REUSE_WAIT && stale(d, x);
}

bool tidei_tide_reaches(tidei_tide *p, tidei_reach reach, tide_stream *s, tidei_extent *x) {
    if (x->slot == TIDEI_SLOT_READY) return true;
    if (x->slot != TIDEI_SLOT_MANY) return reaches(p, reach, s, stamp_of(x));
    for (unsigned i = 0; i < x->many.n; i++)
        if (!reaches(p, reach, s, tidei_stamps_at(&x->many)[i])) return false;
    return true;
}

/* Drops what is known to be done, where that `counts`. Returns the slot of what is left; *tick is the last one of a single stream. */
static uint16_t reduce(tidei_dev *d, tidei_stamps *stamps, bool counts, uint64_t *tick) {
    tidei_stamp *x = tidei_stamps_at(stamps);
    uint16_t slot = TIDEI_SLOT_READY, kept = 0;
    uint64_t last = 0;
    for (const tidei_stamp *end = x + stamps->n, *at = x; at < end; at++) {
        if (counts && known_done(d, at->stream, at->tick)) continue;
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
    pthread_mutex_lock(&p->lock);
    bool first = atomic_compare_exchange_strong(&p->own[slot], &sh, made);
    if (first) p->shared = p->nshelves++ > 0;
    pthread_mutex_unlock(&p->lock);
    if (first) return made;
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

bool tidei_tide_joinable(const tidei_tide *p, const tidei_extent *a, const tidei_extent *b) {
    if (a->slot == TIDEI_SLOT_MANY || b->slot == TIDEI_SLOT_MANY) return false;
    if (a->slot == b->slot) return a->slot == TIDEI_SLOT_READY || !p->shared || a->tick == b->tick;
    return !p->shared && (a->slot == TIDEI_SLOT_READY || b->slot == TIDEI_SLOT_READY);
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

static bool joins(const tidei_tide *p, const tidei_extent *x, const tidei_extent *neighbour) {
    return neighbour && tidei_extent_is(neighbour) == TIDEI_EXTENT_FREE && tidei_tide_joinable(p, x, neighbour);
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
    tidei_extent *prev = joins(p, x, x->prev) ? x->prev : NULL;
    if (prev) join_pending(x, prev);
    tidei_extent *next = joins(p, x, x->next) ? x->next : NULL;
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

/* Where several streams are at work neighbours stay apart that one stream may have together: now they become one. */
static void join_for(tidei_tide *p, const tide_stream *s) {
    for (tidei_extent *x = p->first, *next; x; x = next) {
        next = x->next;
        if (!next || tidei_extent_is(x) != TIDEI_EXTENT_FREE || tidei_extent_is(next) != TIDEI_EXTENT_FREE)
            continue;
        if (x->slot != TIDEI_SLOT_READY && x->slot != s->slot) continue;
        if (next->slot != TIDEI_SLOT_READY && next->slot != s->slot) continue;
        tidei_shelf_take(tidei_tide_shelf(p, x), x);
        tidei_shelf_take(tidei_tide_shelf(p, next), next);
        tidei_tide_absorb(p, next, x);
        tidei_shelf_put(tidei_tide_shelf(p, next), next);
    }
}

void tidei_tide_claim(tidei_tide *p, tidei_extent *x) {
    tidei_shelf_take(tidei_tide_shelf(p, x), x);
    tidei_extent_be(x, TIDEI_EXTENT_CLAIMED);
    p->claimed += x->size;
}

void tidei_tide_unclaim(tidei_tide *p, tidei_extent *x) {
    p->claimed -= x->size;
    tidei_tide_release(p, x);
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

/* The best of the first `looks` within reach of s, or best itself. */
static tidei_extent *look(tidei_tide *p, const tidei_shelf *sh, size_t size, tide_stream *s, tidei_reach reach,
                          size_t looks, tidei_extent *best) {
    for (tidei_extent *x = tidei_shelf_fit(sh, size); x && looks; x = tidei_shelf_next(sh, x), looks--) {
        if (best && better(best, x) == best) break;
        if (tidei_tide_reaches(p, reach, s, x)) return x;
    }
    return best;
}

/* The same over everything that others' work is pending on. */
static tidei_extent *best_foreign(tidei_tide *p, const tidei_shelf *own, size_t size, tide_stream *s,
                                  tidei_reach reach, size_t looks) {
    tidei_extent *best = look(p, &p->mixed, size, s, reach, looks, NULL);
    for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++) {
        const tidei_shelf *sh = own_known(p, slot);
        if (sh && sh != own && sh->bytes >= size) best = look(p, sh, size, s, reach, looks, best);
    }
    return best;
}

/* How much has been submitted after the work that is pending on x; 0 where that is on several streams. */
static uint64_t age(const tidei_tide *p, const tidei_extent *x) {
    if (x->slot >= TIDEI_STREAMS_MAX) return 0;
    tide_stream *s = atomic_load_explicit(&p->base.dev->streams[x->slot], memory_order_acquire);
    return s ? atomic_load_explicit(&s->submitted, memory_order_relaxed) - x->tick : 0;
}

/* Of others' pieces that fit nearly as well as the best one, the one that is waited for the least. */
static tidei_extent *oldest_foreign(tidei_tide *p, const tidei_shelf *own, size_t size) {
    tidei_extent *oldest = NULL;
    for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++) {
        const tidei_shelf *sh = own_known(p, slot);
        tidei_extent *x = sh && sh != own ? tidei_shelf_fit(sh, size) : NULL;
        for (; x && x->size <= size + size / 8; x = tidei_shelf_next(sh, x))
            if (!oldest || age(p, x) > age(p, oldest)) oldest = x;
    }
    return oldest;
}

tidei_extent *tidei_tide_fit(tidei_tide *p, size_t size, tide_stream *s, tidei_reach reach) {
    const tidei_shelf *own = own_known(p, s->slot);
    tidei_extent *x = own ? best_own(p, own, size) : tidei_shelf_fit(&p->ready, size);
    if (!x) x = best_foreign(p, own, size, s, reach == TIDEI_REACH_ANY ? TIDEI_REACH_STALE : reach, SIZE_MAX);
    if (!x && reach == TIDEI_REACH_ANY) x = oldest_foreign(p, own, size);
    return x ? x : best_foreign(p, own, size, s, reach, SIZE_MAX);
}

static size_t settle(tidei_tide *p);
static bool valid_locked(tidei_tide *p);

/* Others' pieces: those that s may have, and those that it may once the device was asked. The lock is held, but for a while not. */
static tidei_extent *find_foreign(tidei_tide *p, const tidei_shelf *own, size_t size, tide_stream *s,
                                  unsigned flags) {
    tidei_extent *x = best_foreign(p, own, size, s, TIDEI_REACH_COVERED, FOREIGN_LOOKS);
    if (x) return x;
    if (rules(p) & TIDEI_REUSE_DONE) {
        pthread_mutex_unlock(&p->lock);
        settle(p);
        pthread_mutex_lock(&p->lock);
        if ((x = best_own(p, own, size))) return x;
    }
    if ((x = best_foreign(p, own, size, s, TIDEI_REACH_COVERED, SIZE_MAX))) return x;
    return flags & TIDEI_ALLOC_STEAL ? tidei_tide_fit(p, size, s, TIDEI_REACH_ANY) : NULL;
}

/* Growth beyond what was ever in use at once is for fragments alone: this part of it is let pass before blocks are moved and
** other streams waited for. */
#define SLACK_PART 64
/* What streams keep from each other by work that is not done may be this part of what was ever in use at once. */
#define FAR_PART 16
/* Free pieces that are less than this part of a request together are not worth moving blocks for. */
#define LITTLE_PART 16
/* A compaction that was in vain is not tried again before so many blocks came back, and twice as many each time. */
#define RETRY_FREES     8
#define RETRY_FREES_MAX 1024

static bool tight(const tidei_tide *p, size_t size) {
    size_t most = tidei_max_size(p->most_used, p->used + size);
    return p->backed + size > most + most / SLACK_PART;
}

/* Free bytes within reach and beyond it, and the largest piece beyond. */
struct spread {
    size_t near, far, largest_far;
};
static struct spread spread_of(tidei_tide *p, tide_stream *s, tidei_reach reach) {
    struct spread a = {0};
    for (tidei_extent *x = p->first; x; x = x->next) {
        if (tidei_extent_is(x) != TIDEI_EXTENT_FREE) continue;
        if (tidei_tide_reaches(p, reach, s, x)) {
            a.near += x->size;
        } else {
            a.far += x->size;
            a.largest_far = tidei_max_size(a.largest_far, x->size);
        }
    }
    return a;
}

/* The memory that is missing when all free bytes within reach are in one piece; less than `size`. */
static tide_status add_missing(tidei_tide *p, size_t size, size_t bytes, tide_stream *s) {
    tidei_extent *more;
    if (bytes >= size) return TIDE_OK;
    tide_status st = tidei_tide_add(p, size - bytes, s, &more);
    if (st == TIDE_OK) tidei_tide_unclaim(p, more);
    return st;
}

/* How far s may reach instead of growing; *bytes are there. One buffer that is still in use elsewhere is left alone, so that two
** streams can work side by side; beyond that, and beyond a part of all, memory is worth more than the wait. */
static tidei_reach reach_of(tidei_tide *p, size_t size, tide_stream *s, unsigned flags, size_t *bytes) {
    *bytes = p->backed - p->used - p->claimed;
    if (flags & TIDEI_ALLOC_MOVE) return TIDEI_REACH_ANY;
    struct spread a = spread_of(p, s, TIDEI_REACH_STALE);
    if (rules(p) & TIDEI_REUSE_WAIT && a.far - a.largest_far >= size && a.far > p->most_used / FAR_PART)
        return TIDEI_REACH_ANY;
    *bytes = a.near;
    return TIDEI_REACH_STALE;
}

/* Pieces become one; what is missing, and what cannot be had between blocks that hardly move, is added first. */
static tide_status compact(tidei_tide *p, size_t size, size_t bytes, tide_stream *s, tidei_reach reach,
                           tidei_extent **out) {
    size_t lost = 0;
    tide_status st = add_missing(p, size, bytes, s);
    if (st == TIDE_OK) st = tidei_tide_compact(p, size, s, reach, &lost, out);
    if (st != TIDE_E_NOMEM || !lost) return st;
    st = add_missing(p, lost, 0, s);
    return st == TIDE_OK ? tidei_tide_compact(p, size, s, reach, &lost, out) : st;
}

/* Instead of growing by all that is wanted, where much is free but in pieces. *out is on a shelf, or CLAIMED. */
static tide_status make_room(tidei_tide *p, size_t size, tide_stream *s, unsigned flags, tidei_extent **out) {
    bool must = flags & TIDEI_ALLOC_MOVE;
    size_t bytes;
    if (!must && !tight(p, size)) return TIDE_E_NOMEM;
    tidei_reach reach = reach_of(p, size, s, flags, &bytes);
    if ((*out = tidei_tide_fit(p, size, s, reach))) return TIDE_OK;
    uint64_t frees = tidei_tide_tally(p).frees;
    if (!p->base.mover || bytes < size / LITTLE_PART || (!must && frees < p->compact_after)) return TIDE_E_NOMEM;
    tide_status st = compact(p, size, bytes, s, reach, out);
    if (st == TIDE_E_NOMEM) p->compact_after = frees + p->compact_pause;
    p->compact_pause = st == TIDE_E_NOMEM ? tidei_min_size(p->compact_pause * 2, RETRY_FREES_MAX) : RETRY_FREES;
    return st;
}

/* When neither `ready` nor the stream's own shelf has it. The lock is held, but for a while not. *out is on a shelf, or
** CLAIMED. */
static tide_status search(tidei_tide *p, const tidei_shelf *own, size_t size, tide_stream *s, unsigned flags,
                          tidei_extent **out) {
    tidei_tide_flush(p);
    if (p->shared) join_for(p, s);
    if ((*out = best_own(p, own, size))) return TIDE_OK;
    size_t foreign = p->backed - p->used - p->claimed - p->ready.bytes - own->bytes;
    if (foreign && p->backed - p->used >= size && (*out = find_foreign(p, own, size, s, flags))) return TIDE_OK;
    if (flags & TIDEI_ALLOC_NO_GROW) return TIDE_E_NOMEM;
    tide_status st = make_room(p, size, s, flags, out);
    return st == TIDE_E_NOMEM ? tidei_tide_grow(p, size, s, out) : st;
}

/* The same for `take`, which wants a spare descriptor afterwards as there is one now. */
__attribute__((noinline)) static tide_status find_elsewhere(tidei_tide *p, const tidei_shelf *own, size_t size,
                                                            tide_stream *s, unsigned flags, tidei_extent **out) {
    tidei_saved_error before; /* what was tried in vain on the way to success leaves no error */
    tidei_error_save(&before);
    tidei_extent *spare = tidei_tide_spare(p);
    tide_status st = search(p, own, size, s, flags, out);
    tidei_tide_drop(p, spare);
    if (st == TIDE_OK) tidei_error_restore(&before);
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

tidei_extent *tidei_tide_cut(tidei_tide *p, tidei_extent *x, size_t size) {
    return x->size > size ? split(p, x, size) : whole(p, x);
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
    x = tidei_tide_cut(p, x, size);
    if (tidei_unlikely(!x)) return tidei_fail_host_memory("pool tide", TIDEI_STREAMS_MAX * sizeof(tidei_stamp));
    tidei_extent_be(x, TIDEI_EXTENT_CACHED); /* nobody's, and on its way out */
    p->used += size;
    p->most_used = tidei_max_size(p->most_used, p->used);
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
    atomic_store_explicit(&x->owner, NULL, memory_order_relaxed);
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

static tide_status pool_alloc(tidei_pool *pool, size_t bytes, tide_stream *s, unsigned flags, tidei_block *out) {
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

static void pool_own(tidei_pool *pool, tidei_block *b, void *owner) {
    tidei_extent *x = b->priv;
    (void)pool;
    atomic_store_explicit(&x->owner, owner, memory_order_release);
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
    uint16_t slot = reduce(p->base.dev, stamps, rules(p) & TIDEI_REUSE_DONE, tick);
    if (slot < TIDEI_STREAMS_MAX && tidei_unlikely(!own_known(p, slot)) && !own_made(p, slot))
        slot = TIDEI_SLOT_MANY;
    if (tidei_unlikely(slot == TIDEI_SLOT_MANY))
        x->many = *stamps; /* nobody looks at a live extent's */
    else if (tidei_unlikely(stamps->cap))
        tidei_stamps_clear(stamps);
    stamps->n = stamps->cap = 0;
    return slot;
}

static void pool_free(tidei_pool *pool, tidei_block *b) {
    tidei_tide *p = (tidei_tide *)pool;
    tidei_extent *x = b->priv;
    size_t bytes = b->bytes, size = x->size, cap = atomic_load_explicit(&p->cap, memory_order_relaxed);
    int number = tidei_thread_number;
    tidei_cache *c = cache_of(p, number);
    if (tidei_unlikely(!c)) c = cache_made(p, (unsigned)(number = (int)tidei_thread_index()));
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
    uint16_t slot = reduce(p->base.dev, &x->many, true, &tick);
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

static size_t pool_settle(tidei_pool *pool) { return settle((tidei_tide *)pool); }

static size_t pool_trim(tidei_pool *pool, size_t keep) {
    tidei_tide *p = (tidei_tide *)pool;
    settle(p);
    return tidei_tide_trim(p, keep);
}

static void pool_changed(tidei_pool *pool) {
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
static void pool_stats(tidei_pool *pool, tidei_pool_stats *out) {
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
                              .frees = t.frees,
                              .compactions = p->compactions,
                              .bytes_moved = p->bytes_moved};
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
        if (both_free && tidei_tide_joinable(p, prev, x)) return false;
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
    /* What threads count for themselves is exact where nobody is at it. */
    bool alone = !p->ncaches || (p->ncaches == 1 && cache_of(p, tidei_thread_number));
    if (alone && ((int64_t)c.live != t.live || c.blocks != t.allocs - t.frees)) return false;
    return bytes == c.free_bytes && count == c.free_count && c.used == p->used && c.claimed == p->claimed &&
           c.backed == p->backed;
}

static bool pool_valid(tidei_pool *pool) {
    tidei_tide *p = (tidei_tide *)pool;
    pthread_mutex_lock(&p->lock);
    bool ok = valid_locked(p);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

/* ---- opening and closing ---- */

static tide_status pool_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    const tidei_device_info *info = &dev->d->info;
    if (kind != TIDEI_MEM_DEVICE || !(info->flags & TIDEI_DEV_PAGES))
        return tidei_fail(TIDE_E_UNSUPPORTED, "pool tide",
                          "%s has no pages of this kind of memory; pool \"none\" does without", info->name);
    tidei_tide *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("pool tide", sizeof *p);
    tidei_pool_init(&p->base, &tidei_pool_tide, dev, kind);
    atomic_init(&p->base.attrs.reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE | TIDEI_REUSE_WAIT);
    p->page_bytes = info->page_bytes;
    p->granule = tidei_max_size(GRANULE, info->align);
    p->span = tidei_max_size(info->va_bytes, info->page_bytes) / p->page_bytes * p->page_bytes;
    p->most = tidei_min_size(p->span, info->total_bytes);
    p->compact_pause = RETRY_FREES;
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

static void pool_close(tidei_pool *pool) {
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
    tidei_host_free(rt, p->compaction);
    pthread_mutex_destroy(&p->lock);
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
    .trim = pool_trim,
    .stats = pool_stats,
    .changed = pool_changed,
    .valid = pool_valid,
};
