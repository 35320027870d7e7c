/* pages.c: memory for the pool `tide`: growing into holes, and giving whole pages back.
**
** Model. A page is a piece of device memory: made, mapped, unmapped and released as a whole. Growth
** fills the low or the high end of a hole, or all of it, so that with the free stretches beside it
** the request fits; of all holes it takes the one that needs the least new memory, and of those the
** lowest. Trim takes pages that lie wholly in ready extents, the highest first, and leaves holes.
**
**     pages     | page  | page  |                    | page  |
**     extents   | live | free   | hole               | live  | hole
**     growth    | live | free           | hole       | live  | hole     at the hole's low end
**     trim      | live | fr | hole                   | live  | hole     whole pages alone
**
** The lock is never held across a call of the device or of the limits.
** What must stay true: pages lie in address order, exactly where extents are backed. */
#include "runtime/pool/tide/tide.h"

/* A page is this part of what is backed with it, within bounds, and so is a step of growth. Then a
** page that a single small block keeps from going back is a small part of the whole, there are so
** few pages that their number does not matter, and a step takes little that may never be needed
** (1/16 cost 6 % on recorded traces; with 1/64 the steps are still some hundred up to all of a
** GPU). */
#define PAGE_PART 64
/* A page of 32 MiB costs about what one of 2 MiB does (create, set access, unmap, release: 100 us
** together). */
#define PAGE_MAX (32 * TIDEI_MIB)
/* One pinned block keeps its whole page from being mapped elsewhere, which matters where the limit
** is tight. So pages are so small that the limit has at least this many; at 100 us each they cost
** 0.2 s once. */
#define PAGES_MIN 2048
/* Memory got at once for one request is likely to be wanted in one piece again, and the cost of
** mapping it elsewhere goes by the number of its pages: so it has no more than this many, as long
** as they are ... */
#define PAGES_OF_ONE 8
/* ... no larger than this part of the limit: with 1/64 some requests failed on recorded traces with
** few pages to spare. */
#define ONE_PAGE_PART 256

/* ---- pages ---- */

static void pages_free(tidei_heap *p, tidei_page *first) {
    for (tidei_page *next; first; first = next) {
        next = first->next;
        tidei_host_free(p->base.dev->rt, first);
    }
}

static size_t whole_pages(const tidei_heap *p, size_t bytes) {
    return tidei_max_size(bytes / p->page_bytes * p->page_bytes, p->page_bytes);
}
/* The bytes of a step of growth with so much backed. */
static size_t growth(const tidei_heap *p, size_t backed) {
    return whole_pages(p, tidei_min_size(backed / PAGE_PART, PAGE_MAX));
}
/* How large a page may be where `bytes` are got at once, and so much is backed then. */
static size_t page_size(const tidei_heap *p, size_t backed, size_t bytes) {
    size_t limit = atomic_load_explicit(&p->base.dev->budget->limit, memory_order_relaxed);
    limit = tidei_min_size(limit, p->base.dev->d->info.total_bytes);
    size_t usual = tidei_min_size(growth(p, backed), limit / PAGES_MIN);
    size_t of_one =
        tidei_min_size(tidei_min_size(bytes / PAGES_OF_ONE, limit / ONE_PAGE_PART), PAGE_MAX);
    return whole_pages(p, tidei_max_size(usual, of_one));
}

/* Makes the records of pages of at most `most` bytes for a stretch, without memory yet, chained;
** NULL when host memory is exhausted. */
static tidei_page *pages_new(tidei_heap *p, size_t off, size_t bytes, size_t most) {
    tidei_page *first = NULL, *last = NULL;
    while (bytes) {
        tidei_page *pg = tidei_host_alloc(p->base.dev->rt, sizeof *pg);
        if (!pg) {
            pages_free(p, first);
            return NULL;
        }
        *pg =
            (tidei_page){.off = off, .at = off, .bytes = tidei_min_size(bytes, most), .prev = last};
        off += pg->bytes, bytes -= pg->bytes;
        if (last)
            last->next = pg;
        else
            first = pg;
        last = pg;
    }
    return first;
}

/* The memory of the pages from `pg` on up to the address `end`, at most TIDEI_CALL_PAGES. Returns
** the last one looked at. */
static tidei_page *batch(tidei_page *pg, size_t end, tidei_dpage **mem, size_t *n) {
    for (*n = 0;; pg = pg->next) {
        mem[(*n)++] = pg->mem;
        if (tidei_page_end(pg) >= end || *n == TIDEI_CALL_PAGES) return pg;
    }
}

/* Whether some of the pages may be displaced: not mapped where they belong. */
static bool displaced(const tidei_page *pg, size_t end) {
    while (!tidei_page_displaced(pg) && tidei_page_end(pg) < end) pg = pg->next;
    return tidei_page_displaced(pg);
}

/* Unmaps the stretch [pg->off, end), whole pages, without the lock: the links at its outer ends are
** not read, for they may change meanwhile. */
static tide_status unmap(tidei_heap *p, tidei_page *pg, size_t end) {
    tidei_device *d = p->base.dev->d;
    tidei_dpage *mem[TIDEI_CALL_PAGES];
    if (displaced(pg, end)) return tidei_fail(TIDE_E_LOST, "pool tide", "%s is lost", d->info.name);
    for (;; pg = pg->next) {
        size_t off = pg->off, n;
        pg = batch(pg, end, mem, &n);
        tide_status st = d->ops->unmap(d, p->addr + off, mem, n);
        if (st != TIDE_OK || tidei_page_end(pg) >= end) return st;
    }
}

static tide_status map(tidei_heap *p, tidei_page *first, size_t end) {
    tidei_device *d = p->base.dev->d;
    tidei_dpage *mem[TIDEI_CALL_PAGES];
    for (tidei_page *pg = first;; pg = pg->next) {
        size_t off = pg->off, n;
        pg = batch(pg, end, mem, &n);
        tide_status st = d->ops->map(d, p->addr + off, mem, n);
        if (st != TIDE_OK && off > first->off) unmap(p, first, off);
        if (st != TIDE_OK || tidei_page_end(pg) >= end) return st;
    }
}

static void pages_release(tidei_heap *p, tidei_page *pg, size_t end) {
    tidei_device *d = p->base.dev->d;
    for (;; pg = pg->next) {
        if (pg->mem) d->ops->page_release(d, pg->mem);
        if (tidei_page_end(pg) >= end) return;
    }
}

/* Gets memory for [off, off + bytes) in pages of at most `most`, counted against the limits, and
** maps it; *out: the chained pages. Called without the lock. */
static tide_status back(tidei_heap *p, size_t off, size_t bytes, size_t most, tidei_page **out) {
    tidei_device *d = p->base.dev->d;
    tidei_page *first = pages_new(p, off, bytes, most);
    if (!first) return tidei_fail_host_memory("pool tide", sizeof *first);
    tide_status st = tidei_back(p->base.dev, bytes);
    if (st == TIDE_OK) {
        for (tidei_page *pg = first; pg && st == TIDE_OK; pg = pg->next)
            st = d->ops->page_new(d, pg->bytes, &pg->mem);
        if (st == TIDE_OK) st = map(p, first, off + bytes);
        if (st == TIDE_OK) {
            tidei_heap_poison(p, off, bytes);
            *out = first;
            return TIDE_OK;
        }
        pages_release(p, first, off + bytes);
        tidei_unback(p->base.dev, bytes);
    }
    pages_free(p, first);
    return st;
}

void tidei_pages_link(tidei_heap *p, tidei_page *first) {
    tidei_page *last = first, *at = p->last_page;
    while (last->next) last = last->next;
    while (at && at->off > first->off) at = at->prev;
    first->prev = at;
    last->next = at ? at->next : p->first_page;
    if (last->next)
        last->next->prev = last;
    else
        p->last_page = last;
    if (at)
        at->next = first;
    else
        p->first_page = first;
}

tidei_page *tidei_pages_unlink(tidei_heap *p, tidei_page *first, size_t end) {
    tidei_page *last = first;
    while (tidei_page_end(last) < end) last = last->next;
    if (first->prev)
        first->prev->next = last->next;
    else
        p->first_page = last->next;
    if (last->next)
        last->next->prev = first->prev;
    else
        p->last_page = first->prev;
    last->next = NULL;
    return first;
}

/* ---- holes ---- */

static void hole_unlink(tidei_heap *p, tidei_extent *x) {
    if (x->left)
        x->left->right = x->right;
    else
        p->holes = x->right;
    if (x->right) x->right->left = x->left;
}

static void hole_link(tidei_heap *p, tidei_extent *x) {
    tidei_extent *before = NULL, *behind = p->holes;
    while (behind && behind->off < x->off) before = behind, behind = behind->right;
    x->left = before;
    x->right = behind;
    if (behind) behind->left = x;
    if (before)
        before->right = x;
    else
        p->holes = x;
}

void tidei_heap_hole(tidei_heap *p, tidei_extent *x) {
    tidei_extent *sides[] = {x->prev, x->next};
    x->slot = TIDEI_SLOT_READY;
    for (unsigned i = 0; i < TIDEI_COUNT(sides); i++) {
        if (!sides[i] || tidei_extent_is(sides[i]) != TIDEI_EXTENT_HOLE) continue;
        hole_unlink(p, sides[i]);
        tidei_heap_absorb(p, x, sides[i]);
    }
    tidei_extent_become(x, TIDEI_WAS(MAPPING) | TIDEI_WAS(CLAIMED) | TIDEI_WAS(UNUSED),
                        TIDEI_EXTENT_HOLE);
    hole_link(p, x);
    tidei_zone_bound(p, x);
}

/* ---- growing ---- */

/* Where to grow: the memory goes to the hole's low end (beside `left`) or its high end (beside
** `right`), or fills it. */
typedef struct plan {
    tidei_extent *hole;
    tidei_extent *left, *right; /* free neighbours that become part of the piece, or NULL */
    size_t bytes;               /* new memory to get; whole pages */
    bool high;
    bool beside; /* it belongs to the zone of what lies beside it, not to the thread's */
} plan;

static tidei_extent *usable(tidei_heap *p, tidei_extent *x, tidei_stream *s) {
    if (!x || tidei_extent_is(x) != TIDEI_EXTENT_FREE || x->slot == TIDEI_SLOT_MANY) return NULL;
    return tidei_heap_reaches(p, TIDEI_REACH_COVERED, s, x) ? x : NULL;
}

/* Plans the least new memory that makes a piece of `size` bytes at this hole; false if the hole is
** too small. */
static bool plan_hole(tidei_heap *p, tidei_extent *hole, size_t size, tidei_stream *s, plan *out) {
    tidei_extent *left = usable(p, hole->prev, s), *right = usable(p, hole->next, s);
    size_t l = left ? left->size : 0, r = right ? right->size : 0;
    size_t low = l < size ? tidei_round_up(size - l, p->page_bytes) : p->page_bytes;
    size_t high = r < size ? tidei_round_up(size - r, p->page_bytes) : p->page_bytes;
    if (low <= hole->size && low <= high)
        *out = (plan){.hole = hole, .left = left, .bytes = low};
    else if (high <= hole->size)
        *out = (plan){.hole = hole, .right = right, .bytes = high, .high = true};
    else if (left && right && tidei_heap_joinable(p, left, right) && l + hole->size + r >= size)
        *out = (plan){.hole = hole, .left = left, .right = right, .bytes = hole->size};
    else
        return false;
    return true;
}

/* Plans growth at the hole that needs the least, and takes a whole step there if it needs less than
** that. */
static bool plan_growth(tidei_heap *p, size_t size, size_t step, tidei_stream *s, plan *best) {
    plan a;
    best->hole = NULL;
    for (tidei_extent *hole = p->holes; hole; hole = hole->right)
        if (plan_hole(p, hole, size, s, &a) && (!best->hole || a.bytes < best->bytes)) *best = a;
    if (!best->hole) return false;
    best->bytes = tidei_min_size(tidei_max_size(best->bytes, step), best->hole->size);
    return true;
}

/* Plans so much new memory in one piece: in the first hole that is large enough. */
static bool plan_addition(tidei_heap *p, size_t bytes, tidei_stream *s, plan *out) {
    for (tidei_extent *hole = p->holes; hole; hole = hole->right) {
        if (hole->size < bytes) continue;
        *out =
            (plan){.hole = hole, .left = usable(p, hole->prev, s), .bytes = bytes, .beside = true};
        return true;
    }
    return false;
}

/* Cuts the plan's part off its hole; uses the descriptor `descriptor` where a rest stays a hole. */
static tidei_extent *cut_hole(tidei_heap *p, const plan *g, tidei_extent *descriptor) {
    tidei_extent *hole = g->hole, *x = hole;
    if (g->bytes == hole->size) {
        hole_unlink(p, hole);
        tidei_heap_drop(p, descriptor);
    } else {
        x = descriptor;
        x->slot = TIDEI_SLOT_READY;
        x->size = g->bytes;
        hole->size -= g->bytes;
        if (g->high) {
            x->off = tidei_extent_end(hole);
            tidei_heap_link_behind(p, x, hole);
        } else {
            x->off = hole->off;
            hole->off += g->bytes;
            tidei_heap_link_before(p, x, hole);
        }
    }
    tidei_extent_become(x, TIDEI_WAS(HOLE) | TIDEI_WAS(UNUSED), TIDEI_EXTENT_MAPPING);
    return x;
}

/* Whose the new memory x is. */
static unsigned zone_for(const tidei_heap *p, const plan *g, const tidei_extent *x) {
    const tidei_extent *side = g->high ? x->next : x->prev;
    bool backed = side && tidei_extent_is(side) != TIDEI_EXTENT_HOLE &&
                  tidei_extent_is(side) != TIDEI_EXTENT_MAPPING;
    return g->beside && backed ? tidei_zone_number(side) : tidei_zone_here(p);
}

/* Under the lock: the thread begins to get memory, and has ended it. */
static void growth_begins(tidei_heap *p) {
    tidei_inflight_growth_begin(p->base.dev);
    p->growing++;
}
static void growth_ends(tidei_heap *p, bool got) {
    tidei_inflight_growth_end(p->base.dev, got);
    p->growing--;
    atomic_fetch_add(&p->grown, 1);
    if (p->awaiting) tidei_word_wake(&p->grown);
}

/* Threads that find no memory at the same time would each get a step of growth, of which the first
** one serves most of them. */
bool tidei_heap_await_growth(tidei_heap *p, size_t size) {
    tidei_check(tidei_heap_locked(p));
    if (!p->growing || size > growth(p, p->backed) / 2) return false;
    uint32_t seen = atomic_load(&p->grown);
    p->awaiting++;
    tidei_heap_unlock(p);
    tidei_word_wait(&p->grown, seen);
    tidei_heap_lock(p);
    p->awaiting--;
    return true;
}

/* Gets the memory of a plan; there are three free descriptors, two of them for borders. *out is
** CLAIMED. */
static tide_status carry_out(tidei_heap *p, const plan *g, tidei_extent **out) {
    tidei_page *pages = NULL;
    tidei_extent *border[] = {tidei_heap_descriptor(p), tidei_heap_descriptor(p)};
    tidei_check(tidei_heap_locked(p));
    tidei_check(tidei_extent_is(g->hole) == TIDEI_EXTENT_HOLE && g->bytes <= g->hole->size);
    growth_begins(p);
    if (g->left) tidei_heap_claim(p, g->left);
    if (g->right) tidei_heap_claim(p, g->right);
    tidei_extent *x = cut_hole(p, g, tidei_heap_descriptor(p));
    size_t most = page_size(p, p->backed + x->size, x->size);
    tidei_heap_unlock(p);
    tide_status st = back(p, x->off, x->size, most, &pages);
    tidei_heap_lock(p);
    for (unsigned i = 0; i < TIDEI_COUNT(border); i++) tidei_heap_undescribe(p, border[i]);
    if (st != TIDE_OK) {
        tidei_heap_hole(p, x);
        if (g->left) tidei_heap_unclaim(p, g->left);
        if (g->right) tidei_heap_unclaim(p, g->right);
        growth_ends(p, false);
        return st;
    }
    tidei_pages_link(p, pages);
    p->backed += x->size;
    tidei_heap_set_cap(p);
    p->claimed += x->size;
    tidei_extent_become(x, TIDEI_WAS(MAPPING), TIDEI_EXTENT_CLAIMED);
    unsigned zone = zone_for(p, g, x);
    if (g->left) tidei_heap_absorb(p, x, g->left);
    if (g->right) tidei_heap_absorb(p, x, g->right);
    tidei_zone_set(p, x, zone);
    growth_ends(p, true);
    *out = x;
    return TIDE_OK;
}

static tide_status grow_by(tidei_heap *p, size_t size, size_t step, tidei_stream *s,
                           tidei_extent **out) {
    plan g;
    tide_status st = tidei_heap_restock(p);
    if (st != TIDE_OK) return st;
    return plan_growth(p, size, step, s, &g) ? carry_out(p, &g, out) : TIDE_E_NOMEM;
}

tide_status tidei_heap_add(tidei_heap *p, size_t bytes, tidei_stream *s, tidei_extent **out) {
    plan g;
    tidei_check(tidei_heap_locked(p));
    tide_status st = tidei_heap_restock(p);
    if (st != TIDE_OK) return st;
    bytes = tidei_round_up(bytes, p->page_bytes);
    return plan_addition(p, bytes, s, &g) ? carry_out(p, &g, out) : TIDE_E_NOMEM;
}

tide_status tidei_heap_add_at(tidei_heap *p, tidei_extent *hole, bool high, size_t bytes,
                              tidei_extent **out) {
    tidei_check(tidei_heap_locked(p));
    return carry_out(p, &(plan){.hole = hole, .bytes = bytes, .high = high, .beside = true}, out);
}

tide_status tidei_heap_grow(tidei_heap *p, size_t size, tidei_stream *s, tidei_extent **out) {
    tidei_check(tidei_heap_locked(p));
    size_t step = growth(p, p->backed);
    tide_status st = grow_by(p, size, step, s, out);
    return st == TIDE_E_NOMEM && step > p->page_bytes ? grow_by(p, size, 0, s, out) : st;
}

tidei_extent *tidei_heap_reserve(tidei_heap *p, tidei_extent *hole, size_t bytes, bool high) {
    return cut_hole(p, &(plan){.hole = hole, .bytes = bytes, .high = high},
                    tidei_heap_descriptor(p));
}

/* ---- giving back ---- */

/* Cuts the stretch [low, high) out of the ready extent x, as a claimed extent; there are free
** descriptors for the rests. */
static void claim_part(tidei_heap *p, tidei_extent *x, size_t low, size_t high) {
    size_t off = x->off, end = tidei_extent_end(x);
    tidei_extent *rest[2] = {NULL, NULL};
    tidei_size_index *ready = tidei_heap_size_index(p, x);
    tidei_size_index_take(ready, x);
    x->off = low;
    x->size = high - low;
    tidei_extent_become(x, TIDEI_WAS(FREE), TIDEI_EXTENT_CLAIMED);
    p->claimed += x->size;
    if (off < low) {
        rest[0] = tidei_heap_descriptor(p);
        rest[0]->off = off;
        rest[0]->size = low - off;
        tidei_heap_link_before(p, rest[0], x);
    }
    if (high < end) {
        rest[1] = tidei_heap_descriptor(p);
        rest[1]->off = high;
        rest[1]->size = end - high;
        tidei_heap_link_behind(p, rest[1], x);
    }
    for (unsigned i = 0; i < TIDEI_COUNT(rest); i++) {
        if (!rest[i]) continue;
        rest[i]->slot = TIDEI_SLOT_READY;
        atomic_store_explicit(&rest[i]->zone, (uint8_t)tidei_zone_number(x), memory_order_relaxed);
        tidei_extent_become(rest[i], TIDEI_WAS(UNUSED), TIDEI_EXTENT_FREE);
        tidei_size_index_put(ready, rest[i]);
    }
}

/* Claims whole pages in ready extents until that is `excess` bytes; the claimed extents are chained
** by `left`. At most one batch an extent, so that the device refuses all of it or nothing. Stops
** early when free descriptors run out: *more. */
static tidei_extent *claim_pages(tidei_heap *p, size_t excess, bool *more) {
    tidei_extent *chain = NULL;
    tidei_page *pg = p->last_page;
    size_t got = 0;
    *more = false;
    if (!tidei_heap_any_ready(p, p->page_bytes)) return NULL;
    for (tidei_extent *x = p->last; x && got < excess; x = x->prev) {
        if (tidei_extent_is(x) != TIDEI_EXTENT_FREE || x->slot != TIDEI_SLOT_READY ||
            x->size < p->page_bytes)
            continue;
        while (pg && tidei_page_end(pg) > tidei_extent_end(x)) pg = pg->prev;
        size_t high = pg ? tidei_page_end(pg) : 0, low = high;
        tidei_page *first = NULL;
        for (unsigned n = 0; pg && pg->off >= x->off && got < excess && n < TIDEI_CALL_PAGES;
             pg = pg->prev, n++) {
            first = pg;
            low = pg->off;
            got += pg->bytes;
        }
        if (!first) continue;
        if (p->free_list.n < 2) {
            *more = true;
            break;
        }
        claim_part(p, x, low, high);
        x->pages = first;
        x->left = chain;
        chain = x;
    }
    return chain;
}

/* Unmaps and releases the pages of a claimed extent. Without the lock. Returns false where the
** device refuses. */
static bool unback(tidei_heap *p, tidei_extent *x) {
    size_t end = tidei_extent_end(x);
    tidei_check(!tidei_heap_locked(p) && tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED);
    tidei_heap_unpoison(p, x->off, x->size);
    if (unmap(p, x->pages, end) != TIDE_OK) {
        tidei_heap_poison(p, x->off, x->size);
        return false;
    }
    pages_release(p, x->pages, end);
    tidei_unback(p->base.dev, x->size);
    return true;
}

/* Makes holes of the extents that were given back, and free pieces of the others. Returns the pages
** to free. */
static tidei_page *commit_trim(tidei_heap *p, tidei_extent *given, tidei_extent *kept) {
    tidei_page *gone = NULL;
    for (tidei_extent *x = given, *next; x; x = next) {
        next = x->left;
        tidei_page *pg = tidei_pages_unlink(p, x->pages, tidei_extent_end(x)), *last = pg;
        while (last->next) last = last->next;
        last->next = gone;
        gone = pg;
        p->backed -= x->size;
        p->claimed -= x->size;
        tidei_heap_hole(p, x);
    }
    tidei_heap_set_cap(p);
    for (tidei_extent *x = kept, *next; x; x = next) {
        next = x->left;
        tidei_heap_unclaim(p, x);
    }
    return gone;
}

size_t tidei_heap_trim(tidei_heap *p, size_t keep) {
    size_t given_bytes = 0, round_bytes;
    bool more;
    tidei_check(!tidei_heap_locked(p));
    do {
        tidei_extent *given = NULL, *kept = NULL, *chain, *next;
        round_bytes = 0;
        tidei_heap_lock(p);
        bool stocked = tidei_heap_restock(p) == TIDE_OK;
        tidei_heap_flush(p);
        tidei_zones_join(p); /* a border may lie within a page */
        size_t idle = p->backed - tidei_heap_used(p),
               excess = stocked && idle > keep ? idle - keep : 0;
        tidei_inflight_growth_begin(p->base.dev);
        chain = claim_pages(p, excess, &more);
        tidei_heap_unlock(p);
        for (; chain; chain = next) {
            bool ok = unback(p, chain);
            next = chain->left;
            chain->left = ok ? given : kept;
            if (ok) {
                round_bytes += chain->size;
                given = chain;
            } else {
                kept = chain;
            }
        }
        tidei_heap_lock(p);
        tidei_page *gone = commit_trim(p, given, kept);
        tidei_heap_unlock(p);
        tidei_inflight_growth_end(p->base.dev, round_bytes > 0);
        pages_free(p, gone);
        given_bytes += round_bytes;
    } while (more && round_bytes);
    return given_bytes;
}

/* Unmaps `pg` and the pages behind it that lie side by side, at most one batch. Returns the last of
** them; where the device refuses their bytes are added to *stuck. */
static tidei_page *unmap_some(tidei_heap *p, tidei_page *pg, size_t *stuck) {
    tidei_device *d = p->base.dev->d;
    tidei_dpage *mem[TIDEI_CALL_PAGES] = {pg->mem};
    tidei_page *last = pg;
    size_t n = 1;
    if (pg->at == TIDEI_NOWHERE) return last;
    for (; !tidei_page_displaced(pg) && n < TIDEI_CALL_PAGES; last = last->next) {
        const tidei_page *next = last->next;
        if (!next || tidei_page_displaced(next) || next->off != tidei_page_end(last)) break;
        mem[n++] = next->mem;
    }
    size_t bytes = tidei_page_end(last) - pg->off;
    if (!tidei_page_displaced(pg)) tidei_heap_unpoison(p, pg->off, bytes);
    if (d->ops->unmap(d, p->addr + pg->at, mem, n) != TIDE_OK) *stuck += bytes;
    return last;
}

void tidei_heap_unmap_all(tidei_heap *p) {
    tidei_dev *dev = p->base.dev;
    size_t stuck = 0;
    tidei_saved_error e;
    tidei_error_save(&e);
    for (tidei_page *pg = p->first_page; pg; pg = unmap_some(p, pg, &stuck)->next) continue;
    if (stuck && !atomic_load(&dev->d->lost))
        tidei_log(dev->rt, TIDE_LOG_WARNING,
                  "pool tide: %zu bytes stay mapped until the pool's addresses go: %s", stuck,
                  tidei_error_record.message);
    tidei_error_restore(&e);
    for (tidei_page *pg = p->first_page; pg; pg = pg->next) {
        dev->d->ops->page_release(dev->d, pg->mem);
        tidei_unback(dev, pg->bytes);
    }
    pages_free(p, p->first_page);
    p->first_page = p->last_page = NULL;
}

bool tidei_heap_pages_valid(tidei_heap *p) {
    const tidei_page *pg = p->first_page, *prev = NULL;
    const tidei_extent *x = p->first;
    size_t sum = 0;
    for (; pg; prev = pg, pg = pg->next) {
        if (!pg->mem || !pg->bytes || pg->bytes % p->page_bytes || pg->off % p->page_bytes ||
            pg->prev != prev)
            return false;
        if (prev && pg->off < tidei_page_end(prev)) return false;
        sum += pg->bytes;
        for (; x && x->off < tidei_page_end(pg); x = x->next) { /* what the page covers is backed */
            if (tidei_extent_end(x) > pg->off && (tidei_extent_is(x) == TIDEI_EXTENT_HOLE ||
                                                  tidei_extent_is(x) == TIDEI_EXTENT_MAPPING))
                return false;
            if (tidei_extent_end(x) > tidei_page_end(pg)) break;
        }
    }
    /* and as the sums agree, all that is backed is covered */
    return sum == p->backed && p->last_page == prev;
}
