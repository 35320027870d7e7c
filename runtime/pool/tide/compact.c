/* compact.c: the pool `tide` makes one large free piece of many small ones, by moving the
** blocks between them.
**
** Model. Two ways, over stretches of neighbouring extents in which nothing is pinned:
**   before   | a | free | b |  free  | c | free | PINNED |
**   empty    | a |        free           | c | b |  PINNED |     b goes to a free piece elsewhere
**   slide    | a | b | c |         free        | PINNED |
** To *empty* a stretch as long as the request, its blocks go to free pieces elsewhere; of the
** possible stretches the one with the fewest bytes to move is taken. Where the pieces elsewhere are
** too small, the blocks of a stretch *slide* together, towards its low end: of the stretches with
** enough free bytes, again the one with the fewest to move. The second way needs no room elsewhere,
** so it works whenever there are enough free bytes between two pinned blocks. Looking for stretches
** takes time as well: it ends where it costs more than it is likely to save. What is pending on
** free pieces does not matter: the moves come after it, on the device.
** What is chosen while submissions go on may not hold any more once they are stopped: claiming
** finds that out.
** What must stay true: the lock is not held while the mover works. Until it is done the owners hold
** the blocks, so none is freed, and the free pieces at the old and new places are claimed. Where a
** move fails, the moves before it stand. */
#include <stdlib.h>
#include "runtime/pool/reuse.h"
#include "runtime/pool/tide/compact.h"

/* A block that slides by less than this part of its size would be copied in too many pieces, of a
** launch each (move.c); in more than is worth it where the cost counts; and, where a request would
** be refused otherwise, for longer than anybody wants to wait: 50 ms on a GPU. */
#define SLIDE_PIECES      256
#define SLIDE_PIECES_FEW  8
#define SLIDE_PIECES_LAST (1 << 14)

typedef struct stretch {
    tidei_extent *first, *last; /* NULL: there is none */
    size_t off, end, cost, blocks;
} stretch;
typedef tidei_compaction compaction;

/* ---- opening and closing ---- */

static compaction *make(tidei_heap *p, size_t moves) {
    compaction *c;
    size_t each =
        sizeof *c->moves + sizeof *c->places + sizeof *c->from + sizeof *c->to + sizeof *c->held;
    if (!(c = tidei_host_alloc(p->base.dev->rt, sizeof *c + moves * each))) return NULL;
    c->cap = moves;
    c->moves = (tidei_move *)(c + 1);
    c->places = (tidei_piece *)(c->moves + moves);
    c->from = (tidei_extent **)(c->places + moves);
    c->to = c->from + moves;
    c->held = (void **)(c->to + moves);
    return c;
}

compaction *tidei_compaction_open(tidei_heap *p, size_t moves, size_t size, tidei_stream *s,
                                  tidei_reach reach) {
    compaction *c = NULL;
    tidei_check(tidei_heap_locked(p));
    if (p->compaction && p->compaction->cap >= moves) {
        c = p->compaction;
        p->compaction = NULL;
    } else {
        tidei_heap_unlock(p);
        c = make(p, tidei_max_size(moves, TIDEI_MOVES_MAX));
        tidei_heap_lock(p);
        if (!c) return NULL;
    }
    c->size = size, c->s = s, c->reach = reach, c->most = SIZE_MAX, c->last = c->asks = false;
    c->waits = reach == TIDEI_REACH_ANY || tidei_reuse_rules(&p->base) & TIDEI_REUSE_WAIT;
    c->lost = c->n = c->nheld = c->npending = 0;
    return c;
}

void tidei_compaction_close(tidei_heap *p, compaction *c) {
    tidei_check(tidei_heap_locked(p) && !c->nheld);
    if (!p->compaction && c->cap <= TIDEI_MOVES_MAX) {
        p->compaction = c;
        return;
    }
    tidei_heap_unlock(p);
    tidei_host_free(p->base.dev->rt, c);
    tidei_heap_lock(p);
}

void tidei_compaction_begin(tidei_heap *p) {
    tidei_check(tidei_heap_locked(p));
    tidei_heap_unlock(p);
    p->base.mover->begin(p->base.dev);
    tidei_heap_lock(p);
}

void tidei_compaction_end(tidei_heap *p, compaction *c) {
    tidei_check(tidei_heap_locked(p));
    tidei_heap_unlock(p);
    p->base.mover->end(p->base.dev);
    while (c->nheld) { /* the last reference returns the block to this pool */
        if (c->nheld > TIDEI_FETCH_AHEAD)
            __builtin_prefetch(c->held[c->nheld - TIDEI_FETCH_AHEAD - 1], 1);
        p->base.mover->let_go(c->held[--c->nheld]);
    }
    tidei_heap_lock(p);
}

/* ---- what may move ---- */

static bool is_free(const tidei_extent *x) { return tidei_extent_is_free(x); }

/* False: it has just been freed. Under the lock, so nobody else sees it LOOKED_AT but who frees it
** just then, who waits for the lock. */
static bool look_at(tidei_extent *x) {
    uint8_t live = TIDEI_EXTENT_LIVE;
    return atomic_compare_exchange_strong(&x->state, &live, TIDEI_EXTENT_LOOKED_AT);
}

static bool answered(tidei_extent *x, bool (*question)(void *owner)) {
    void *owner = atomic_load_explicit(&x->owner, memory_order_acquire);
    bool yes = owner && question(owner);
    tidei_extent_become(x, TIDEI_WAS(LOOKED_AT), TIDEI_EXTENT_LIVE);
    return yes;
}

static bool asked(tidei_extent *x, bool (*question)(void *owner)) {
    return look_at(x) && answered(x, question);
}

void tidei_compaction_ask(tidei_heap *p) {
    tidei_check(tidei_heap_locked(p));
    for (tidei_extent *x = p->first; x; x = x->next) {
        bool out =
            tidei_extent_is(x) == TIDEI_EXTENT_LIVE || tidei_extent_is(x) == TIDEI_EXTENT_CACHED;
        if (out) x->fixed = !asked(x, p->base.mover->movable), x->leaves = false;
    }
}

static bool note_held(compaction *c, tidei_extent *x, bool held) {
    x->fixed = !held;
    if (held) c->held[c->nheld++] = atomic_load_explicit(&x->owner, memory_order_relaxed);
    return held;
}

bool tidei_compaction_hold(tidei_heap *p, compaction *c, tidei_extent *x) {
    tidei_check(tidei_heap_locked(p) && c->nheld < c->cap);
    return note_held(c, x, asked(x, p->base.mover->hold));
}

/* ---- which stretch ---- */

/* Marks each free piece as within reach or `far`, where some may be far. Returns the bytes within
** reach. */
static size_t ask_reach(tidei_heap *p, compaction *c) {
    size_t bytes = 0, all = tidei_heap_free_bytes(p);
    c->some_far = c->reach != TIDEI_REACH_ANY && all > tidei_heap_own_bytes(p, c->s);
    if (!c->some_far) return all;
    for (tidei_extent *x = p->first; x; x = x->next) {
        if (!is_free(x)) continue;
        x->far = !tidei_heap_reaches(p, c->reach, c->s, x);
        if (!x->far) bytes += x->size;
    }
    return bytes;
}

/* Whether the extent must stay; a block that was not asked yet counts as movable. */
static inline bool stays(const compaction *c, const tidei_extent *x) {
    tidei_extent_state is = tidei_extent_is(x);
    if (is != TIDEI_EXTENT_LIVE && is != TIDEI_EXTENT_FREE) return true;
    return c->some_far && !c->waits && is == TIDEI_EXTENT_FREE && x->far;
}

/* What one extent adds to a stretch. */
typedef struct part {
    size_t size, free, cost;
    size_t far; /* of `free`, out of reach */
    bool block;
} part;

/* A free piece out of reach means a wait, on the device, for what is pending there, which is worse
** than moving as many bytes. */
static inline part part_of(const compaction *c, const tidei_extent *x) {
    size_t size = x->size;
    if (!is_free(x)) return (part){.size = size, .cost = size + TIDEI_MOVE_COST, .block = true};
    if (!c->some_far || !x->far) return (part){.size = size, .free = size};
    return (part){size, size, .cost = 2 * size + TIDEI_MOVE_COST, .far = size};
}

/* The stretch under consideration, and sums over its extents. */
struct look {
    tidei_extent *low;     /* the first one */
    tidei_extent *unasked; /* the first one that was not asked, or what comes behind the last one */
    size_t size, free, cost, far;
    size_t blocks, strangers; /* strangers: of the blocks, those that were not asked */
};

static struct look look_from(tidei_extent *x) { return (struct look){.low = x, .unasked = x}; }

static inline void add_high(struct look *a, part x) {
    a->size += x.size;
    a->free += x.free;
    a->cost += x.cost;
    a->far += x.far;
    a->blocks += x.block;
    a->strangers += x.block;
}

static inline void leave_low(struct look *a, part low) {
    tidei_extent *x = a->low;
    a->size -= low.size;
    a->free -= low.free;
    a->cost -= low.cost;
    a->far -= low.far;
    a->blocks -= low.block;
    a->low = x->next;
    if (a->unasked != x) return;
    a->strangers -= low.block;
    a->unasked = x->next;
}

/* Asks the stretch's blocks, up to `end`, each once. False: one may not move, and the stretch now
** begins behind it. */
static bool may_all_move(const tidei_heap *p, const compaction *c, struct look *a,
                         const tidei_extent *end) {
    for (tidei_extent *x = a->unasked; x != end; a->unasked = x = x->next) {
        if (is_free(x)) continue;
        if (!asked(x, p->base.mover->movable)) {
            for (const tidei_extent *behind = x->next; a->low != behind;)
                leave_low(a, part_of(c, a->low));
            return false;
        }
        a->strangers--;
    }
    return true;
}

/* Looking at an extent, or asking a block's owner, costs the host as much as moving so many bytes:
** 10 to 20 ns. */
#define LOOK_COST (32 * TIDEI_KIB)
/* Looks for better stretches until that costs this part of what they can save at most; among
** LOOKS_LEAST extents in any case, which takes no longer than stopping submissions and queueing a
** launch. */
#define LOOK_PART   4
#define LOOKS_LEAST 1024

/* Extents to look at for a stretch that costs less than that. */
static size_t looks_for(size_t cost) {
    if (cost == SIZE_MAX) return SIZE_MAX;
    return tidei_max_size(cost / LOOK_COST / LOOK_PART, LOOKS_LEAST);
}

/* The cheapest stretch that has the bytes wanted (if `slide`: free bytes). For each end the latest
** possible beginning is the cheapest. Owners are asked only where a stretch is cheaper than the
** best so far, and not at all where none has a reason to stay. */
static stretch choose(tidei_heap *p, compaction *c, bool slide) {
    size_t size = c->size + c->lost, all = ask_reach(p, c), cap = c->cap - c->nheld,
           looks = looks_for(c->most), price = c->asks ? LOOK_COST : 0;
    stretch best = {.cost = c->most};
    struct look a = look_from(p->first);
    for (tidei_extent *x = p->first; x && looks; x = x->next, looks--) {
        if (stays(c, x)) {
            a = look_from(x->next);
            continue;
        }
        add_high(&a, part_of(c, x));
        if ((slide ? a.free : a.size) < size) continue;
        part low = part_of(c, a.low);
        while ((slide ? a.free - low.free : a.size - low.size) >= size) {
            leave_low(&a, low);
            low = part_of(c, a.low);
        }
        if (a.cost + a.strangers * price >= best.cost) continue;
        bool fits = slide || a.size - a.free <= all - (a.free - a.far);
        if (!fits || a.blocks > cap || (c->asks && !may_all_move(p, c, &a, x->next))) continue;
        best = (stretch){a.low, x, a.low->off, tidei_extent_end(x), a.cost, a.blocks};
        looks = looks_for(best.cost);
    }
    return best;
}

/* ---- claiming ---- */

/* Free descriptors needed for the places of so many blocks. */
static size_t descriptors_for(size_t blocks, bool sliding) { return sliding ? 2 : blocks + 2; }

static void note(compaction *c, tidei_stamp x) {
    for (unsigned i = 0; i < c->npending; i++)
        if (c->pending[i].stream == x.stream) {
            if (c->pending[i].tick < x.tick) c->pending[i].tick = x.tick;
            return;
        }
    c->pending[c->npending++] = x;
}

void tidei_compaction_note_pending(compaction *c, tidei_extent *x) {
    tidei_check(x->slot != TIDEI_SLOT_READY);
    if (x->slot != TIDEI_SLOT_MANY) {
        note(c, (tidei_stamp){.tick = x->tick, .stream = x->slot, .write = 1});
        return;
    }
    for (unsigned i = 0; i < tidei_heap_many(x)->n; i++)
        note(c, tidei_stamps_at(tidei_heap_many(x))[i]);
}

/* Only the moves, at `tick` of s, are pending on x. */
static void be_pending(tidei_extent *x, tidei_stream *s, uint64_t tick) {
    if (x->slot == TIDEI_SLOT_MANY) tidei_stamps_clear(tidei_heap_many(x));
    x->slot = s->slot;
    x->tick = tick;
}

/* Frees the claimed pieces from x to before `end`, except one; those side by side are joined. */
static void unclaim_but(tidei_heap *p, tidei_extent *x, const tidei_extent *end,
                        const tidei_extent *kept) {
    for (tidei_extent *next; x != end; x = next) {
        next = x->next;
        if (x != kept && tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED) tidei_heap_unclaim(p, x);
    }
}
static void unclaim(tidei_heap *p, const stretch *w) {
    unclaim_but(p, w->first, w->last->next, NULL);
}

/* Whether the first and last extent of a stretch that was chosen a while ago are still there. */
static bool stands(const stretch *w) {
    bool first = is_free(w->first) || tidei_extent_is(w->first) == TIDEI_EXTENT_LIVE;
    bool last = is_free(w->last) || tidei_extent_is(w->last) == TIDEI_EXTENT_LIVE;
    return first && last && w->first->off == w->off && tidei_extent_end(w->last) == w->end;
}

static bool claim_free(tidei_heap *p, compaction *c, tidei_extent *x) {
    if (!c->waits && !tidei_heap_reaches(p, c->reach, c->s, x)) return false;
    tidei_compaction_note(c, x);
    tidei_heap_claim(p, x);
    return true;
}

/* Blocks that are LOOKED_AT until their owners, which are not in a near cache, have come there. */
struct group {
    tidei_extent *x[TIDEI_FETCH_AHEAD];
    unsigned n;
};

/* Afterwards none is LOOKED_AT any more, and the group is empty. False: one may not move. */
static bool claim_group(tidei_heap *p, compaction *c, struct group *g) {
    bool all = true;
    for (unsigned i = 0; i < g->n; i++) {
        tidei_extent *x = c->from[c->n++] = g->x[i];
        all &= note_held(c, x, answered(x, p->base.mover->hold));
    }
    g->n = 0;
    return all;
}

static bool claim_block(tidei_heap *p, compaction *c, struct group *g, tidei_extent *x) {
    if (c->nheld + g->n == c->cap || !look_at(x)) return false;
    __builtin_prefetch(atomic_load_explicit(&x->owner, memory_order_relaxed), 1);
    g->x[g->n++] = x;
    return g->n < TIDEI_COUNT(g->x) || claim_group(p, c, g);
}

/* Claims the free pieces of the stretch and holds its blocks, in order. False: it has changed since
** it was chosen, and nothing is claimed. Blocks already held stay held. */
static bool claim(tidei_heap *p, compaction *c, const stretch *w, bool slide) {
    tidei_extent *x = w->first, *end = w->last->next;
    struct group g = {.n = 0};
    size_t free = 0;
    c->n = c->npending = 0;
    if (!stands(w)) return false;
    for (; x != end; x = x->next) {
        if (is_free(x) ? !claim_free(p, c, x) : !claim_block(p, c, &g, x)) break;
        if (tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED) free += x->size;
    }
    bool held = claim_group(p, c, &g);
    if (held && x == end && p->free_list.n >= descriptors_for(c->n, slide) &&
        (!slide || free >= c->size + c->lost))
        return true;
    unclaim_but(p, w->first, x, NULL);
    return false;
}

/* Makes one piece of the stretch, which is claimed as a whole; only the moves are pending on it. */
static tidei_extent *joined(tidei_heap *p, const stretch *w, tidei_stream *s, uint64_t tick) {
    tidei_extent *x = w->first, *end = w->last->next;
    for (tidei_extent *y = x->next, *next; y != end; y = next) {
        next = y->next;
        if (y->slot == TIDEI_SLOT_MANY) tidei_stamps_clear(tidei_heap_many(y));
        x->size += y->size;
        tidei_heap_undescribe(p, y);
    }
    x->next = end;
    if (end)
        end->prev = x;
    else
        p->last = x;
    be_pending(x, s, tick);
    return x;
}

/* ---- moving ---- */

/* Enters the move of the i-th block, which is held, to offset `to_off` in `to`. */
static void plan_move(tidei_heap *p, compaction *c, size_t i, tidei_extent *to, size_t to_off) {
    tidei_extent *x = c->from[i];
    c->moves[i] =
        (tidei_move){.owner = atomic_load_explicit(&x->owner, memory_order_relaxed), .priv = to};
    c->places[i] =
        (tidei_piece){.dst = p->addr + to_off, .src = p->addr + x->off, .bytes = x->bytes};
    /* the copy may write there; the slack is poisoned again when the place becomes free */
    tidei_heap_unpoison(p, to_off, x->bytes);
}

/* Queues the moves; lets go of the lock meanwhile. The first *moved of them have happened. */
static tide_status move(tidei_heap *p, compaction *c, bool apart, size_t *moved, uint64_t *tick) {
    tidei_check(tidei_heap_locked(p));
    tidei_heap_unlock(p);
    tide_status st = p->base.mover->move(c->s, c->pending, c->npending, c->moves, c->places, c->n,
                                         apart, moved, tick);
    tidei_heap_lock(p);
    for (size_t i = 0; i < *moved; i++) p->bytes_moved += c->places[i].bytes;
    p->compactions += *moved > 0;
    return st;
}

/* ---- emptying ---- */

static int by_size(const void *a, const void *b) {
    const tidei_extent *x = *(tidei_extent *const *)a, *y = *(tidei_extent *const *)b;
    return (x->size < y->size) - (x->size > y->size);
}

/* Whether the blocks are sorted already, as blocks of one size are, which is common. */
static bool in_order(const compaction *c) {
    for (size_t i = 1; i < c->n; i++)
        if (c->from[i - 1]->size < c->from[i]->size) return false;
    return true;
}

static void vacate(tidei_heap *p, tidei_extent *x) {
    /* a failed move may have unpoisoned it */
    if (x->slot == TIDEI_SLOT_READY) tidei_heap_poison(p, x->off, x->size);
    tidei_heap_unclaim(p, x);
}

void tidei_compaction_vacate(tidei_heap *p, compaction *c, size_t i) {
    for (; i < c->n; i++)
        if (c->to[i]) vacate(p, c->to[i]);
}

/* Claims the smallest free piece of at least `size` bytes as a place. NULL: there is none, or no
** host memory for its stamps. */
static tidei_extent *find_place(tidei_heap *p, compaction *c, size_t size) {
    tidei_extent *x = tidei_heap_fit(p, size, c->s, c->reach);
    tidei_extent *y = x ? tidei_heap_cut(p, x, size) : NULL;
    if (!y) return NULL;
    tidei_extent_become(y, TIDEI_WAS(UNUSED) | TIDEI_WAS(FREE), TIDEI_EXTENT_CLAIMED);
    p->claimed += y->size;
    tidei_compaction_note(c, y);
    return y;
}

/* Finds places for blocks of one size, from the i-th to before `end`, among pieces of exactly that
** size: the same as single searches would find, but in one walk. It looks at no more than
** LOOKS_A_PLACE extents a place; more would take longer than searching. Returns the first block
** without a place. */
#define LOOKS_A_PLACE 32
static size_t find_equal(tidei_heap *p, compaction *c, size_t i, size_t end) {
    size_t size = c->from[i]->size, looks = (end - i) * LOOKS_A_PLACE;
    for (tidei_extent *x = p->first; x && i < end && looks; x = x->next, looks--) {
        if (!is_free(x) || x->size != size ||
            (x->slot != TIDEI_SLOT_READY && x->slot != c->s->slot))
            continue;
        tidei_compaction_note(c, x);
        tidei_heap_claim(p, x);
        c->to[i++] = x;
    }
    return i;
}

/* How many blocks, from the i-th on, have the same size. */
static size_t equal_from(const compaction *c, size_t i) {
    size_t n = 1;
    while (i + n < c->n && c->from[i + n]->size == c->from[i]->size) n++;
    return n;
}

bool tidei_compaction_find_places(tidei_heap *p, compaction *c) {
    bool all = true;
    if (!in_order(c)) qsort(c->from, c->n, sizeof(tidei_extent *), by_size);
    for (size_t i = 0; i < c->n;) {
        size_t end = i + equal_from(c, i);
        for (i = find_equal(p, c, i, end); i < end; i++) {
            c->to[i] = find_place(p, c, c->from[i]->size);
            if (!c->to[i]) c->from[i]->fixed = true, all = false;
        }
    }
    if (!all) tidei_compaction_vacate(p, c, 0);
    return all;
}

/* The descriptors of a block a few places behind the i-th, and of its place, come into the nearest
** cache. */
static inline void fetch_ahead(const compaction *c, size_t i) {
    size_t k = i + TIDEI_FETCH_AHEAD;
    if (k >= c->n) return;
    __builtin_prefetch(c->from[k], 1);
    __builtin_prefetch(c->to[k], 1);
}

/* The block moved from x to y: they change roles, and x is free, pending on the move. */
static void exchange(tidei_heap *p, tidei_extent *x, tidei_extent *y, tidei_stream *s,
                     uint64_t tick) {
    if (y->slot == TIDEI_SLOT_MANY) tidei_stamps_clear(tidei_heap_many(y));
    y->slot = TIDEI_SLOT_READY;
    y->bytes = x->bytes;
    y->home = x->home;
    atomic_store_explicit(&y->owner, atomic_load_explicit(&x->owner, memory_order_relaxed),
                          memory_order_relaxed);
    tidei_extent_become(y, TIDEI_WAS(CLAIMED), TIDEI_EXTENT_LIVE);
    tidei_extent_become(x, TIDEI_WAS(LIVE), TIDEI_EXTENT_CLAIMED);
    x->slot = s->slot;
    x->tick = tick;
    tidei_check(x->size == y->size); /* so that the number of claimed bytes stays */
    if (tidei_zone_number(x) == tidei_zone_number(y)) return;
    tidei_zone_of(p, x)->used -= x->size;
    tidei_zone_of(p, y)->used += x->size;
}

tide_status tidei_compaction_move_out(tidei_heap *p, compaction *c, uint64_t *tick) {
    size_t moved = 0;
    tidei_check(tidei_heap_locked(p));
    for (size_t i = 0; i < c->n; i++) {
        fetch_ahead(c, i);
        plan_move(p, c, i, c->to[i], c->to[i]->off);
    }
    tide_status st = move(p, c, true, &moved, tick);
    for (size_t i = 0; i < moved; i++) {
        fetch_ahead(c, i);
        exchange(p, c->from[i], c->to[i], c->s, *tick);
    }
    /* the failed move may have been queued all the same */
    for (size_t i = moved; i < c->n && *tick; i++) be_pending(c->to[i], c->s, *tick);
    tidei_compaction_vacate(p, c, moved);
    return st;
}

static tide_status empty(tidei_heap *p, compaction *c, const stretch *w, tidei_extent **out) {
    uint64_t tick = 0;
    tide_status st =
        tidei_compaction_find_places(p, c) ? tidei_compaction_move_out(p, c, &tick) : TIDE_E_NOMEM;
    if (st == TIDE_OK)
        *out = joined(p, w, c->s, tick);
    else
        unclaim(p, w);
    return st;
}

/* ---- sliding ---- */

/* Plans where each block slides: close behind the one before. A block that would move so little
** that its copy takes too many pieces stays. TIDE_E_NOMEM: with the bytes lost before such blocks
** the free bytes are too few; c->lost is raised to that for the next try. */
static tide_status plan_slide(tidei_heap *p, compaction *c, const stretch *w) {
    size_t at = w->first->off, n = 0, lost = 0;
    size_t pieces = c->last               ? SLIDE_PIECES_LAST
                    : c->most == SIZE_MAX ? SLIDE_PIECES
                                          : SLIDE_PIECES_FEW;
    for (size_t i = 0; i < c->n; i++) {
        tidei_extent *x = c->from[i];
        size_t by = x->off - at;
        bool moves = by && x->size / by < pieces;
        if (moves) {
            c->from[n] = x;
            plan_move(p, c, n++, x, at);
        } else {
            lost += by;
            at = x->off;
        }
        at += x->size;
    }
    c->n = n;
    if (tidei_extent_end(w->last) - at >= c->size) return TIDE_OK;
    c->lost = tidei_max_size(c->lost, lost);
    return TIDE_E_NOMEM;
}

/* Takes the claimed pieces of the stretch out of the order by address, linked by `left`. */
static tidei_extent *loosen(tidei_heap *p, const stretch *w) {
    tidei_extent *loose = NULL;
    for (tidei_extent *x = w->first, *next, *end = w->last->next; x != end; x = next) {
        next = x->next;
        if (tidei_extent_is(x) != TIDEI_EXTENT_CLAIMED) continue;
        if (x->slot == TIDEI_SLOT_MANY) tidei_stamps_clear(tidei_heap_many(x));
        tidei_heap_unlink(p, x);
        x->left = loose;
        loose = x;
    }
    return loose;
}

/* Makes one of the loose pieces the gap [low, high) behind the extent `prev`; prev NULL: it is the
** first of the range. */
static tidei_extent *fill_gap(tidei_heap *p, tidei_extent **loose, size_t low, size_t high,
                              tidei_extent *prev) {
    tidei_extent *gap = *loose;
    *loose = gap->left;
    gap->off = low;
    gap->size = high - low;
    if (prev)
        tidei_heap_link_behind(p, gap, prev);
    else
        tidei_heap_link_before(p, gap, p->first);
    return gap;
}

/* Updates the extents after a slide: the blocks, in the same order, get their new offsets, and the
** claimed pieces become the gaps between them, of which there are no more than before. */
static void lay_out(tidei_heap *p, stretch *w, tidei_stream *s, uint64_t tick) {
    size_t low = w->first->off, high = tidei_extent_end(w->last);
    tidei_extent *before = w->first->prev, *behind = w->last->next, *prev = before,
                 *loose = loosen(p, w), *next;
    for (tidei_extent *x = before ? before->next : p->first; low < high; x = next) {
        size_t off = x == behind ? high : x->off;
        if (off > low) {
            tidei_extent *gap = fill_gap(p, &loose, low, off, prev);
            gap->slot = s->slot;
            gap->tick = tick;
        }
        if (x == behind) break;
        low = tidei_extent_end(x);
        prev = x;
        next = x->next;
    }
    for (; loose; loose = next) {
        next = loose->left;
        tidei_heap_drop(p, loose);
    }
    w->first = before ? before->next : p->first;
    w->last = behind ? behind->prev : p->last;
}

/* Slides the blocks of *w and updates its extents. On success the wanted piece lies at its end. */
static tide_status slide(tidei_heap *p, compaction *c, stretch *w, tidei_extent **out) {
    size_t moved = 0;
    uint64_t tick = 0;
    tide_status st = plan_slide(p, c, w);
    if (st == TIDE_OK) {
        st = move(p, c, false, &moved, &tick);
        for (size_t i = 0; i < moved; i++) c->from[i]->off = (size_t)(c->places[i].dst - p->addr);
        if (tick) lay_out(p, w, c->s, tick); /* else the pieces' own history still counts */
    }
    if (st == TIDE_OK) *out = w->last;
    unclaim_but(p, w->first, w->last->next, st == TIDE_OK ? w->last : NULL);
    return st;
}

/* ---- the whole ---- */

/* Clears the stretch, while submissions are stopped. TIDE_E_NOMEM with *again: the stretch has
** changed, another one may do. */
static tide_status clear(tidei_heap *p, compaction *c, stretch w, bool sliding, bool *again,
                         tidei_extent **out) {
    size_t lost = c->lost;
    if (!claim(p, c, &w, sliding)) { /* the lock was let go of since the choice, or some stay */
        c->asks = true;
        w = choose(p, c, sliding);
        *again = c->nheld > 0; /* which there may have been too little room for */
        if (!w.first) return TIDE_E_NOMEM;
        if (!claim(p, c, &w, sliding)) {
            *again = true;
            return TIDE_E_NOMEM;
        }
    }
    tide_status st = sliding ? slide(p, c, &w, out) : empty(p, c, &w, out);
    *again = c->lost > lost;
    return st;
}

/* Tries one of the two ways once. If no stretch is found submissions are not stopped. */
static tide_status attempt(tidei_heap *p, compaction *c, bool sliding, bool *again,
                           tidei_extent **out) {
    *again = false;
    stretch w = choose(p, c, sliding);
    if (!w.first || tidei_heap_restock_to(p, descriptors_for(w.blocks, sliding)) != TIDE_OK)
        return TIDE_E_NOMEM;
    tidei_compaction_begin(p);
    tide_status st = clear(p, c, w, sliding, again, out);
    tidei_compaction_end(p, c);
    return st;
}

/* A way begins again where blocks were pinned meanwhile, free descriptors ran out, or what a claim
** in vain holds left too little room. */
#define ATTEMPTS 8

static tide_status try_ways(tidei_heap *p, compaction *c, tidei_extent **out) {
    tide_status st = TIDE_E_NOMEM;
    tidei_heap_flush(p);
    for (unsigned way = 0; way < 2 && st == TIDE_E_NOMEM; way++) {
        bool again = true;
        for (unsigned i = 0; i < ATTEMPTS && again && st == TIDE_E_NOMEM; i++) {
            c->asks = c->asks || p->base.mover->some_stay(&p->base);
            st = attempt(p, c, way == 1, &again, out);
        }
    }
    return st;
}

static size_t blocks_of(const tidei_heap *p) {
    size_t n = 0;
    for (const tidei_extent *x = p->first; x; x = x->next)
        n += tidei_extent_is(x) == TIDEI_EXTENT_LIVE;
    return n;
}

tide_status tidei_heap_compact(tidei_heap *p, size_t size, size_t moves, size_t most,
                               tidei_stream *s, tidei_reach reach, size_t *lost,
                               tidei_extent **out) {
    tidei_check(tidei_heap_locked(p));
    if (!p->base.mover) return TIDE_E_NOMEM;
    bool last = moves == SIZE_MAX;
    compaction *c = tidei_compaction_open(p, last ? blocks_of(p) : moves, size, s, reach);
    if (!c) return TIDE_E_NOMEM;
    c->most = most;
    c->last = last;
    tide_status st = try_ways(p, c, out);
    *lost = c->lost;
    tidei_compaction_close(p, c);
    return st;
}
