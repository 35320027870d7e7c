/* split.c: the pool `split`: segments from the driver, cut into pieces and joined again within a
** segment, as PyTorch's caching allocator and CUDA.jl's pool of that name do.
**
** Model. Requests up to SMALL are cut from segments of SMALL_SEGMENT; others from segments of
** TIDEI_SPLIT_SEGMENT, or, from OWN_SEGMENT on, get one of their own, rounded to ROUND_SEGMENT.
** Small and large pieces never mix. Best fit, lowest address first. Where a whole segment does not
** fit the limit, one of just the request's size is tried. `max_split`: pieces of that size and more
** are never cut; they serve only requests of that size and more that leave less than
** TIDEI_SPLIT_SEGMENT of the piece unused.
** Unlike PyTorch's, segments belong to no stream: pieces carry stamps, and pool.h's rules say which
** stream may have them. Free neighbours are one piece wherever at most one stream's work is pending
** on the whole.
** What must stay true: the pieces of a segment tile it. Nothing is called with the lock held:
** neither the device nor the limits, which may come back here to trim. free takes no memory. A
** segment goes back when all of it is free and done. */
#include "runtime/pool/reuse.h"
#include "runtime/pool/size_index.h"

#define GRANULE       ((size_t)512) /* or the device's alignment, if that is more */
#define SMALL         TIDEI_MIB
#define SMALL_SEGMENT (2 * TIDEI_MIB)
#define OWN_SEGMENT   (10 * TIDEI_MIB)
#define ROUND_SEGMENT (2 * TIDEI_MIB)

typedef struct segment segment;
typedef struct piece {
    tidei_extent x;    /* off is the address; prev and next: the segment's */
    tidei_stamps many; /* while free, the stamps of the last uses */
    segment *seg;
    bool done; /* while free: nothing was pending when that was last asked */
} piece;

struct segment {
    segment *prev, *next;
    tidei_addr addr;
    size_t size;
    piece *first;
    size_t live; /* pieces handed out */
    bool small;
};

typedef struct split {
    tidei_pool base;
    size_t granule; /* fixed once open */
    pthread_mutex_t lock;
    /* under lock */
    segment *segments;
    tidei_size_index small, large; /* free pieces */
    /* bytes requested; handed out; in segments; free but not done */
    size_t live_bytes, used, backed, pending;
    uint64_t allocs, frees;
    piece *free_list; /* linked by x.left */
    uint32_t rank;    /* the latest descriptor's */
} split;

static piece *piece_of(tidei_extent *x) { return (piece *)x; }

/* ---- descriptors ---- */

static void put_descriptor(split *p, piece *a) {
    a->x.state = TIDEI_EXTENT_UNUSED;
    a->x.left = p->free_list ? &p->free_list->x : NULL;
    p->free_list = a;
}

static piece *take_descriptor(split *p) {
    piece *a = p->free_list;
    p->free_list = piece_of(a->x.left);
    a->many = (tidei_stamps){0};
    return a;
}

/* Puts a new descriptor on the free list, under the lock. */
static void add_descriptor(split *p, piece *a) {
    p->rank ^= p->rank << 13, p->rank ^= p->rank >> 17,
        p->rank ^= p->rank << 5; /* xorshift32: any spread will do */
    a->x.rank = (uint16_t)(p->rank >> 16);
    put_descriptor(p, a);
}

/* Makes sure that the free list has a descriptor; lets go of the lock in between. */
static tide_status restock(split *p) {
    while (!p->free_list) {
        pthread_mutex_unlock(&p->lock);
        piece *a = tidei_host_alloc(p->base.dev->rt, sizeof *a);
        pthread_mutex_lock(&p->lock);
        if (!a) return tidei_fail_host_memory("pool split", sizeof *a);
        add_descriptor(p, a);
    }
    return TIDE_OK;
}

/* ---- free pieces; under the lock ---- */

static tidei_size_index *size_index_of(split *p, const piece *a) {
    return a->seg->small ? &p->small : &p->large;
}

static void index_by_size(split *p, piece *a) {
    a->x.state = TIDEI_EXTENT_FREE;
    if (!a->done) p->pending += a->x.size;
    tidei_size_index_put(size_index_of(p, a), &a->x);
}

static void take_free(split *p, piece *a) {
    if (!a->done) p->pending -= a->x.size;
    tidei_size_index_take(size_index_of(p, a), &a->x);
}

/* The one stream whose work is pending, or TIDEI_SLOT_READY, TIDEI_SLOT_MANY. */
static uint16_t pending_on(piece *a) {
    const tidei_stamp *x = tidei_stamps_at(&a->many);
    uint16_t slot = TIDEI_SLOT_READY;
    for (unsigned i = 0; i < a->many.n; i++)
        slot = slot == TIDEI_SLOT_READY || slot == x[i].stream ? x[i].stream : TIDEI_SLOT_MANY;
    return slot;
}

static bool joinable(piece *a, piece *b) {
    uint16_t on_a = pending_on(a), on_b = pending_on(b);
    if (on_a == TIDEI_SLOT_MANY || on_b == TIDEI_SLOT_MANY) return false;
    return on_a == on_b || on_a == TIDEI_SLOT_READY || on_b == TIDEI_SLOT_READY;
}

/* a takes over its neighbour b; both are out of the size index. */
static void absorb(split *p, piece *a, piece *b) {
    const tidei_stamp *x = tidei_stamps_at(&b->many);
    /* stamps of one stream: there is room */
    for (unsigned i = 0; i < b->many.n; i++) tidei_stamps_add(&a->many, x[i]);
    tidei_stamps_clear(&b->many);
    a->done = a->done && b->done;
    if (b->x.off < a->x.off) a->x.off = b->x.off;
    a->x.size += b->x.size;
    if (b->x.prev)
        b->x.prev->next = b->x.next;
    else
        b->seg->first = piece_of(b->x.next);
    if (b->x.next) b->x.next->prev = b->x.prev;
    put_descriptor(p, b);
}

/* Makes a, which is out of the size index, free, and joins it with its neighbours where that is
** allowed. */
static void release(split *p, piece *a) {
    for (unsigned side = 0; side < 2; side++) {
        piece *b = piece_of(side ? a->x.next : a->x.prev);
        if (!b || b->x.state != TIDEI_EXTENT_FREE || !joinable(a, b)) continue;
        take_free(p, b);
        absorb(p, a, b);
    }
    index_by_size(p, a);
}

/* ---- handing out; under the lock ---- */

typedef struct request {
    size_t bytes, size;
    size_t max_split;
    bool small;
} request;

static bool may_serve(const tidei_extent *x, const request *r) {
    if (r->size < r->max_split) return x->size < r->max_split;
    return x->size - r->size < TIDEI_SPLIT_SEGMENT;
}

static piece *find(split *p, const request *r, tidei_stream *s, unsigned rules, bool wait) {
    tidei_size_index *sh = r->small ? &p->small : &p->large;
    for (tidei_extent *x = tidei_size_index_fit(sh, r->size); x && may_serve(x, r);
         x = tidei_size_index_next(sh, x)) {
        bool done = piece_of(x)->done && rules & TIDEI_REUSE_DONE;
        if (wait || done || tidei_reuse_may(s, &piece_of(x)->many, rules)) return piece_of(x);
    }
    return NULL;
}

static bool cuts(const split *p, size_t size, const request *r) {
    if (r->small) return size - r->size >= p->granule;
    return size - r->size > SMALL && r->size < r->max_split;
}

static bool copy_stamps(tidei_stamps *to, tidei_stamps *from) {
    if (!tidei_stamps_reserve(to, from->n)) return false;
    for (unsigned i = 0; i < from->n; i++) tidei_stamps_add(to, tidei_stamps_at(from)[i]);
    return true;
}

/* Cuts off a, which is out of the size index, what is beyond the request; the rest becomes free.
** The free list has a descriptor. False: host memory is exhausted. */
static bool cut(split *p, piece *a, const request *r) {
    piece *rest = take_descriptor(p);
    if (!copy_stamps(&rest->many, &a->many)) {
        put_descriptor(p, rest);
        return false;
    }
    rest->seg = a->seg;
    rest->done = a->done;
    rest->x.off = a->x.off + r->size;
    rest->x.size = a->x.size - r->size;
    rest->x.prev = &a->x;
    rest->x.next = a->x.next;
    if (rest->x.next) rest->x.next->prev = &rest->x;
    a->x.next = &rest->x;
    a->x.size = r->size;
    a->x.state = TIDEI_EXTENT_LIVE; /* so that no neighbour joins with it */
    index_by_size(p, rest);
    return true;
}

static bool hand_out(split *p, piece *a, const request *r, tidei_block *out) {
    if (cuts(p, a->x.size, r) && !cut(p, a, r)) return false;
    a->x.state = TIDEI_EXTENT_LIVE;
    a->x.bytes = r->bytes;
    a->seg->live++;
    p->live_bytes += r->bytes;
    p->used += a->x.size;
    p->allocs++;
    tidei_reuse_refresh(&p->base, &a->many);
    *out = (tidei_block){.addr = a->x.off, .bytes = r->bytes, .priv = a, .stamps = a->many};
    a->many = (tidei_stamps){0};
    return true;
}

/* Takes a piece that the pool holds; TIDE_E_NOMEM if none there serves. */
static tide_status take_held(split *p, const request *r, tidei_stream *s, bool wait,
                             tidei_block *out) {
    pthread_mutex_lock(&p->lock);
    tide_status st = restock(p);
    piece *a = st == TIDE_OK ? find(p, r, s, tidei_reuse_rules(&p->base), wait) : NULL;
    if (st == TIDE_OK && !a) st = TIDE_E_NOMEM;
    if (a) {
        take_free(p, a);
        if (!hand_out(p, a, r, out)) {
            index_by_size(p, a);
            st = tidei_fail_host_memory("pool split", TIDEI_STREAMS_MAX * sizeof(tidei_stamp));
        }
    }
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* ---- segments ---- */

static size_t segment_size(const request *r) {
    if (r->small) return SMALL_SEGMENT;
    return r->size < OWN_SEGMENT ? TIDEI_SPLIT_SEGMENT : tidei_round_up(r->size, ROUND_SEGMENT);
}

/* Makes the descriptors of a new segment: the segment's, its piece's and one for cutting that. */
static bool describe(split *p, segment **seg, piece *pieces[2]) {
    tidei_runtime *rt = p->base.dev->rt;
    *seg = tidei_host_alloc(rt, sizeof **seg);
    for (unsigned i = 0; i < 2; i++) pieces[i] = tidei_host_alloc(rt, sizeof *pieces[i]);
    if (*seg && pieces[0] && pieces[1]) return true;
    for (unsigned i = 0; i < 2; i++) tidei_host_free(rt, pieces[i]);
    tidei_host_free(rt, *seg);
    return false;
}

static void adopt(split *p, segment *seg, piece *pieces[2]) {
    for (unsigned i = 0; i < 2; i++) add_descriptor(p, pieces[i]);
    seg->next = p->segments;
    if (seg->next) seg->next->prev = seg;
    p->segments = seg;
    p->backed += seg->size;
    seg->first = take_descriptor(p);
    seg->first->seg = seg;
    seg->first->done = true;
    seg->first->x.off = seg->addr;
    seg->first->x.size = seg->size;
    seg->first->x.prev = seg->first->x.next = NULL;
}

static tide_status grow(split *p, const request *r, tidei_block *out) {
    segment *seg;
    piece *pieces[2];
    if (!describe(p, &seg, pieces)) return tidei_fail_host_memory("pool split", sizeof *seg);
    seg->small = r->small;
    seg->size = segment_size(r);
    tide_status st = tidei_pool_back(&p->base, &seg->size, r->size, &seg->addr);
    if (st != TIDE_OK) {
        for (unsigned i = 0; i < 2; i++) tidei_host_free(p->base.dev->rt, pieces[i]);
        tidei_host_free(p->base.dev->rt, seg);
        return st;
    }
    pthread_mutex_lock(&p->lock);
    adopt(p, seg, pieces);
    bool whole = hand_out(p, seg->first, r, out);
    tidei_check(whole); /* no stamps to copy */
    (void)whole;
    pthread_mutex_unlock(&p->lock);
    return TIDE_OK;
}

static tide_status split_alloc(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                               tidei_block *out) {
    split *p = (split *)pool;
    tidei_check(bytes > 0);
    if (bytes > SIZE_MAX - ROUND_SEGMENT - p->granule) return TIDE_E_NOMEM;
    request r = {.bytes = bytes, .size = tidei_round_up(bytes, p->granule)};
    r.max_split = atomic_load_explicit(&pool->attrs.max_split, memory_order_relaxed);
    r.small = r.size <= SMALL;
    tide_status st = take_held(p, &r, s, false, out);
    if (st != TIDE_E_NOMEM) return st;
    pool->ops->settle(pool);
    st = take_held(p, &r, s, tidei_reuse_waits(tidei_reuse_rules(pool), flags), out);
    if (st != TIDE_E_NOMEM || flags & TIDEI_ALLOC_NO_GROW) return st;
    return grow(p, &r, out);
}

static void split_free(tidei_pool *pool, tidei_block *b) {
    split *p = (split *)pool;
    piece *a = b->priv;
    tidei_stamps stamps = b->stamps;
    b->stamps = (tidei_stamps){0};
    bool done = tidei_reuse_refresh(pool, &stamps);
    pthread_mutex_lock(&p->lock);
    tidei_check(a->x.state == TIDEI_EXTENT_LIVE && a->x.bytes == b->bytes);
    p->live_bytes -= b->bytes;
    p->used -= a->x.size;
    p->frees++;
    a->seg->live--;
    a->many = stamps;
    a->done = done;
    release(p, a);
    pthread_mutex_unlock(&p->lock);
}

/* ---- settling and giving back ---- */

/* The next free piece after x; the first one for NULL; NULL at the end. */
static tidei_extent *free_after(split *p, tidei_extent *x) {
    tidei_size_index *sh = !x || piece_of(x)->seg->small ? &p->small : &p->large;
    tidei_extent *next = x ? tidei_size_index_next(sh, x) : tidei_size_index_fit(sh, 1);
    return next || sh == &p->large ? next : tidei_size_index_fit(&p->large, 1);
}

/* Looks at a free piece again. If fewer stamps are pending than before, so that it may join its
** neighbours, it is taken out of the size index and chained by x.left. */
static piece *look(split *p, piece *a, piece *chain) {
    if (!(tidei_reuse_rules(&p->base) & TIDEI_REUSE_DONE)) {
        if (!tidei_reuse_over(p->base.dev, &a->many)) return chain;
        a->done = true;
        p->pending -= a->x.size;
        return chain;
    }
    uint16_t before = a->many.n;
    take_free(p, a);
    a->done = tidei_reuse_prune(p->base.dev, &a->many);
    if (a->many.n == before) {
        index_by_size(p, a);
        return chain;
    }
    a->x.state = TIDEI_EXTENT_CLAIMED;
    a->x.left = chain ? &chain->x : NULL;
    return a;
}

static size_t split_settle(tidei_pool *pool) {
    split *p = (split *)pool;
    tidei_reuse_ticks ticks = {0};
    piece *chain = NULL;
    pthread_mutex_lock(&p->lock);
    bool any = p->pending > 0;
    for (tidei_extent *x = any ? free_after(p, NULL) : NULL; x; x = free_after(p, x))
        if (!piece_of(x)->done) tidei_reuse_want(&ticks, &piece_of(x)->many);
    pthread_mutex_unlock(&p->lock);
    if (!any) return 0;
    tidei_reuse_ask(pool->dev, &ticks);
    pthread_mutex_lock(&p->lock);
    size_t before = p->backed - p->used - p->pending;
    for (tidei_extent *x = free_after(p, NULL), *next; x; x = next) {
        next = free_after(p, x);
        if (!piece_of(x)->done) chain = look(p, piece_of(x), chain);
    }
    for (piece *next; chain; chain = next) {
        next = piece_of(chain->x.left);
        release(p, chain);
    }
    size_t after = p->backed - p->used - p->pending;
    pthread_mutex_unlock(&p->lock);
    return after > before ? after - before : 0;
}

static bool all_done(const segment *seg) {
    if (seg->live) return false;
    for (piece *a = seg->first; a; a = piece_of(a->x.next))
        if (!a->done) return false;
    return true;
}

static void segment_unlink(split *p, segment *seg) {
    if (seg->next) seg->next->prev = seg->prev;
    if (seg->prev)
        seg->prev->next = seg->next;
    else
        p->segments = seg->next;
    p->backed -= seg->size;
}

/* Its pieces, all free, go to the free list of descriptors. */
static void dissolve(split *p, segment *seg) {
    for (piece *a = seg->first, *next; a; a = next) {
        next = piece_of(a->x.next);
        take_free(p, a);
        tidei_stamps_clear(&a->many);
        put_descriptor(p, a);
    }
    segment_unlink(p, seg);
}

static size_t split_trim(tidei_pool *pool, size_t keep) {
    split *p = (split *)pool;
    segment *gone = NULL;
    size_t bytes = 0;
    split_settle(pool);
    pthread_mutex_lock(&p->lock);
    for (segment *seg = p->segments, *next; seg && p->backed - p->used > keep; seg = next) {
        next = seg->next;
        if (!all_done(seg)) continue;
        dissolve(p, seg);
        seg->next = gone;
        gone = seg;
    }
    pthread_mutex_unlock(&p->lock);
    for (segment *next; gone; gone = next) {
        next = gone->next;
        bytes += gone->size;
        tidei_pool_unback(pool, gone->addr, gone->size);
        tidei_host_free(pool->dev->rt, gone);
    }
    return bytes;
}

/* ---- figures ---- */

static size_t largest_on(tidei_size_index *sh) {
    const tidei_extent *x = tidei_size_index_largest(sh);
    return x ? x->size : 0;
}

static void split_stats(tidei_pool *pool, tidei_pool_stats *out) {
    split *p = (split *)pool;
    pthread_mutex_lock(&p->lock);
    *out =
        (tidei_pool_stats){.live = p->live_bytes,
                           .rounding = p->used - p->live_bytes,
                           .cached = p->backed - p->used - p->pending,
                           .pending = p->pending,
                           .backed = p->backed,
                           .largest = tidei_max_size(tidei_min_size(largest_on(&p->small), SMALL),
                                                     largest_on(&p->large)),
                           .allocs = p->allocs,
                           .frees = p->frees};
    pthread_mutex_unlock(&p->lock);
}

/* What a walk over all segments adds up to. */
typedef struct census {
    size_t live_bytes, used, backed, pending;
    size_t free_bytes[2], free_count; /* bytes of large, of small pieces */
    uint64_t blocks;
} census;

static bool count_piece(const split *p, const segment *seg, piece *a, census *c) {
    if (a->seg != seg || !a->x.size || a->x.size % p->granule) return false;
    if (a->x.state == TIDEI_EXTENT_LIVE) {
        c->live_bytes += a->x.bytes;
        c->used += a->x.size;
        c->blocks++;
        return a->x.bytes && a->x.bytes <= a->x.size && !a->many.n;
    }
    c->free_bytes[seg->small] += a->x.size;
    c->free_count++;
    if (!a->done) c->pending += a->x.size;
    piece *next = piece_of(a->x.next);
    if (next && next->x.state == TIDEI_EXTENT_FREE && joinable(a, next)) return false;
    return a->x.state == TIDEI_EXTENT_FREE && (a->done || a->many.n);
}

static bool segment_valid(const split *p, const segment *seg, census *c) {
    size_t off = seg->addr;
    uint64_t before = c->blocks;
    const tidei_extent *prev = NULL;
    for (piece *a = seg->first; a; a = piece_of(a->x.next)) {
        if (a->x.off != off || a->x.prev != prev || !count_piece(p, seg, a, c)) return false;
        off += a->x.size;
        prev = &a->x;
    }
    c->backed += seg->size;
    return off == seg->addr + seg->size && c->blocks - before == seg->live;
}

static bool valid_locked(split *p) {
    census c = {0};
    size_t in_size_indexes = 0;
    for (segment *seg = p->segments, *prev = NULL; seg; prev = seg, seg = seg->next)
        if (seg->prev != prev || !segment_valid(p, seg, &c)) return false;
    if (!tidei_size_index_valid(&p->small, &in_size_indexes) ||
        !tidei_size_index_valid(&p->large, &in_size_indexes))
        return false;
    return in_size_indexes == c.free_count && p->small.bytes == c.free_bytes[true] &&
           p->large.bytes == c.free_bytes[false] && c.live_bytes == p->live_bytes &&
           c.used == p->used && c.backed == p->backed && c.pending == p->pending &&
           c.blocks == p->allocs - p->frees;
}

static bool split_valid(tidei_pool *pool) {
    split *p = (split *)pool;
    pthread_mutex_lock(&p->lock);
    bool ok = valid_locked(p);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

/* ---- opening and closing ---- */

static tide_status split_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    split *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("pool split", sizeof *p);
    tidei_pool_init(&p->base, &tidei_pool_split, dev, kind);
    p->granule = tidei_max_size(GRANULE, dev->d->info.align);
    p->small.shift = p->large.shift = (unsigned)__builtin_ctzll(p->granule);
    p->rank = 1;
    pthread_mutex_init(&p->lock, NULL);
    *out = &p->base;
    return TIDE_OK;
}

static void split_close(tidei_pool *pool) {
    split *p = (split *)pool;
    tidei_runtime *rt = pool->dev->rt;
    for (segment *seg = p->segments, *next; seg; seg = next) {
        next = seg->next;
        for (piece *a = seg->first, *behind; a; a = behind) {
            behind = piece_of(a->x.next);
            tidei_stamps_clear(&a->many);
            tidei_host_free(rt, a);
        }
        tidei_pool_unback(pool, seg->addr, seg->size);
        tidei_host_free(rt, seg);
    }
    for (piece *a = p->free_list, *next; a; a = next) {
        next = piece_of(a->x.left);
        tidei_host_free(rt, a);
    }
    pthread_mutex_destroy(&p->lock);
    tidei_host_free(rt, p);
}

const struct tidei_pool_ops tidei_pool_split = {
    .name = "split",
    .open = split_open,
    .close = split_close,
    .alloc = split_alloc,
    .free = split_free,
    .settle = split_settle,
    .trim = split_trim,
    .stats = split_stats,
    .valid = split_valid,
};
