/* choose_pages.c: the pool `tide` makes one large free piece of whole pages from anywhere, where
** blocks that stay stand between the free bytes.
**
** Model. Pages on which nothing stays can be had: those without blocks as they are, the others once
** their blocks have moved to free pieces on pages that are not chosen:
**
**     before    |. . . .|. P . .|b . b .|. . b P|  hole         (one | to a page; P stays)
**     chosen     x               x
**     after        hole |b P b .| hole  |. . b P|. . . . . . . .|
**
** Of these, pages with the fewest bytes to move for each byte that they give are chosen, until they
** are as many as the request needs beyond the free pieces beside the hole they go to; of equal ones
** those beside holes, since no piece reaches across a hole. The blocks move in stream order; then
** the host waits for what is pending on the pages, and they are relocated (relocate.h).
** In place of new memory, *vacant* pages go beside each other: those on which nothing lies. Nobody
** waits where nothing is pending on them either: such pages are *idle*. What the requester's own
** stream has pending beside the hole stays pending on the piece.
** What must stay true: a page is unmapped only when nothing queued uses its addresses: its free
** parts were claimed, its blocks moved elsewhere, and both are past. One thread at a time; the
** marks on pages are its own. Whatever fails, the claimed is free again, and blocks are where they
** were or at their new places. */
#include "runtime/pool/tide/compact.h"
#include "runtime/pool/tide/relocate.h"

/* Eighths of a page's bytes to be moved for it. Beyond the first, new memory is had for less, if
** the limit allows. Beyond the second a page is left alone: that is a large block, or so many small
** ones that their launches take longer than any allocation. */
#define COST_CHEAP 4
#define COST_MOST  512
/* Choosing begins again where blocks find no place, or get pinned meanwhile. */
#define ATTEMPTS 16
#define CHOICES  16
#define STAYS    SIZE_MAX

/* Which pages will do. */
typedef enum kind {
    ALL, /* those with blocks, too */
    IDLE /* vacant ones with no work pending */
} kind;

/* How much is to be done about a request; grows from try to try. */
typedef struct effort {
    kind kind;
    size_t cost;          /* of a page at most; COST_CHEAP or COST_MOST; vacant ones: 0 */
    size_t pages, blocks; /* to be mapped elsewhere, to be moved */
} effort;

typedef struct choice {
    kind kind;                   /* as the effort has it */
    uint16_t slot;               /* the requester's stream */
    tidei_extent *hole;          /* where the pages go: to its low end, */
    bool high;                   /* or to the high one */
    tidei_extent *below, *above; /* free pieces beside it that become part of the piece, or NULL */
    bool claimed;                /* all is, and the target is reserved: */
    tidei_relocation r;
    size_t need, bytes;   /* in whole pages: wanted, chosen */
    size_t pages, blocks; /* chosen; on them, to be moved */
} choice;

static bool is_free(const tidei_extent *x) { return tidei_extent_is_free(x); }
static bool is_live(const tidei_extent *x) { return tidei_extent_is(x) == TIDEI_EXTENT_LIVE; }
/* Blocks go into threads' caches and out of them without the lock: what was handed out a moment ago
** may be there. */
static bool is_out(const tidei_extent *x) {
    return is_live(x) || tidei_extent_is(x) == TIDEI_EXTENT_CACHED;
}

/* ---- which pages ---- */

/* Whether a free piece on a page can be had as it is. */
static bool serves(const choice *c, const tidei_extent *x) {
    return is_free(x) && (c->kind == ALL || x->slot == TIDEI_SLOT_READY);
}
/* The same beside a hole; then it is no page that goes. */
static tidei_extent *side(const choice *c, tidei_extent *x) {
    return x && (serves(c, x) || (is_free(x) && x->slot == c->slot)) ? x : NULL;
}
static size_t size_of(const tidei_extent *x) { return x ? x->size : 0; }

/* The least that makes `size` bytes at this hole; `like`: the kind, and for whom. */
static choice target_at(const tidei_heap *p, tidei_extent *hole, size_t size, const choice *like) {
    choice c = {.kind = like->kind, .slot = like->slot, .hole = hole};
    tidei_extent *below = side(&c, hole->prev), *above = side(&c, hole->next);
    size_t low = size_of(below), high = size_of(above), most = tidei_max_size(low, high);
    c.need = most < size ? tidei_round_up(size - most, p->page_bytes) : p->page_bytes;
    if (hole->size < c.need && below && above && low + hole->size + high >= size) {
        c.below = below;
        c.above = above;
        c.need = hole->size;
    } else if (low >= high) {
        c.below = below;
    } else {
        c.above = above;
        c.high = true;
    }
    return c;
}

/* Fewer pages, or else more free memory beside them: what is left over is in one piece. */
static bool better(const choice *a, const choice *b) {
    if (!b->hole || a->need != b->need) return !b->hole || a->need < b->need;
    return size_of(a->below) + size_of(a->above) > size_of(b->below) + size_of(b->above);
}

/* The best of the holes that are long enough. */
static bool choose_target(const tidei_heap *p, size_t size, choice *c) {
    *c = (choice){.kind = c->kind, .slot = c->slot};
    for (tidei_extent *hole = p->holes; hole; hole = hole->right) {
        choice a = target_at(p, hole, size, c);
        if (a.need <= hole->size && better(&a, c)) *c = a;
    }
    return c->hole;
}

/* The bytes that clearing a page moves. A block that covers several pages frees them all: it counts
** for its share. */
static size_t cost_of(const tidei_page *pg, const tidei_extent *x, const choice *c) {
    size_t cost = 0, wanted = (c->need - c->bytes) / pg->bytes + 1;
    if (tidei_page_displaced(pg)) return STAYS; /* a relocation was refused: the device is lost */
    for (; x && x->off < tidei_page_end(pg); x = x->next) {
        if (serves(c, x) && x != c->below && x != c->above) continue;
        if (c->kind != ALL || !is_live(x) || x->fixed) return STAYS;
        if (x->leaves) continue;
        cost += (x->size + TIDEI_MOVE_COST) /
                tidei_min_size(tidei_max_size(x->size / pg->bytes, 1), wanted);
    }
    return cost;
}

static void choose_page(tidei_page *pg, tidei_extent *x, choice *c) {
    pg->chosen = true;
    c->bytes += pg->bytes;
    c->pages++;
    for (; x && x->off < tidei_page_end(pg); x = x->next) {
        if (!is_live(x) || x->leaves) continue;
        x->leaves = true;
        c->blocks++;
    }
}

/* Whether addresses without memory begin, or will begin, at one of the page's ends. */
static bool at_edge(const tidei_page *pg) {
    const tidei_page *low = pg->prev, *high = pg->next;
    bool below = low && tidei_page_end(low) == pg->off && !low->chosen;
    bool above = high && tidei_page_end(pg) == high->off && !high->chosen;
    return !below || !above;
}

/* Pages that cost at most so many eighths of their bytes; with `edges` only those that leave no new
** hole. */
static void choose_up_to(tidei_heap *p, size_t eighths, bool edges, choice *c) {
    tidei_extent *x = p->first;
    for (tidei_page *pg = p->first_page; pg && c->bytes < c->need; pg = pg->next) {
        while (tidei_extent_end(x) <= pg->off) x = x->next;
        if (pg->chosen || c->bytes + pg->bytes > c->hole->size || (edges && !at_edge(pg))) continue;
        if (cost_of(pg, x, c) <= pg->bytes / 8 * eighths) choose_page(pg, x, c);
    }
}

static void choose_none(tidei_heap *p) {
    tidei_pages_choose_none(p);
    for (tidei_extent *x = p->first; x; x = x->next)
        if (is_out(x)) x->leaves = false;
}

/* False: there are not enough; c->bytes is less than c->need. */
static bool choose(tidei_heap *p, size_t size, const effort *e, choice *c) {
    choose_none(p);
    if (!choose_target(p, size, c)) return false;
    for (size_t eighths = 0; c->bytes < c->need && eighths <= e->cost;
         eighths = eighths ? 2 * eighths : 1) {
        choose_up_to(p, eighths, true, c);
        choose_up_to(p, eighths, false, c);
    }
    return c->bytes >= c->need;
}

/* ---- pieces of pages ---- */

/* Who is ordered after what is pending on the sides need not wait for it. */
static void claim_sides(tidei_heap *p, tidei_compaction *m, const choice *c) {
    tidei_extent *sides[] = {c->below, c->above};
    for (unsigned i = 0; i < TIDEI_COUNT(sides); i++) {
        if (!sides[i]) continue;
        if (c->kind == ALL) tidei_compaction_note(m, sides[i]);
        tidei_heap_claim(p, sides[i]);
    }
}

static void unclaim_sides(tidei_heap *p, const choice *c) {
    if (c->below) tidei_heap_unclaim(p, c->below);
    if (c->above) tidei_heap_unclaim(p, c->above);
}

/* The sides and what is claimed on chosen pages are free again, and no page is chosen. */
static void unclaim(tidei_heap *p, const choice *c) {
    tidei_pages_unclaim(p);
    unclaim_sides(p, c);
}

/* ---- clearing them ---- */

/* Claims the sides and what is free on the chosen pages, and lists the blocks there. */
static void claim(tidei_heap *p, tidei_compaction *m, const choice *c) {
    tidei_extent *x = p->first;
    m->n = m->npending = 0;
    claim_sides(p, m, c);
    for (tidei_page *run = p->first_page; (run = tidei_run_next(run, SIZE_MAX));
         run = run->last->next) {
        size_t low = run->off, high = tidei_run_end(run);
        while (tidei_extent_end(x) <= low) x = x->next;
        for (; x && x->off < high; x = x->next) {
            if (is_free(x)) {
                x = tidei_heap_claim_part(p, x, tidei_max_size(low, x->off),
                                          tidei_min_size(high, tidei_extent_end(x)));
                tidei_compaction_note(m, x);
            } else if (is_out(x) && x->leaves) { /* if it was freed meanwhile it cannot be held */
                x->leaves = false;               /* listed: it may lie on the next run too */
                m->from[m->n++] = x;
            }
            if (tidei_extent_end(x) >= high) break;
        }
    }
}

/* Chooses pages, claims them, and finds places for their blocks. False: there are not enough in *c,
** or it takes more than `e`. */
static bool plan(tidei_heap *p, tidei_compaction *m, const effort *e, choice *c) {
    for (unsigned i = 0; i < CHOICES; i++) {
        if (!choose(p, m->size, e, c) || c->pages > e->pages || c->blocks > e->blocks) return false;
        claim(p, m, c);
        if (tidei_compaction_find_places(p, m)) return true;
        unclaim(p, c);
    }
    return false;
}

/* Descriptors: for the rests of what is claimed, for places, and for the target. */
static size_t descriptors_for(size_t pages, size_t blocks) { return 3 * pages + blocks + 2; }

static bool hold_all(tidei_heap *p, tidei_compaction *m) {
    for (size_t i = 0; i < m->n; i++)
        if (!tidei_compaction_hold(p, m, m->from[i])) return false;
    return true;
}

/* With windows closed: the chosen pages are claimed as a whole, blocks have left, and the target is
** reserved. TIDE_E_NOMEM: there are not enough after all. */
static tide_status clear(tidei_heap *p, tidei_compaction *m, const effort *e, choice *c,
                         uint64_t *tick) {
    tide_status st = TIDE_OK;
    tidei_check(tidei_heap_locked(p));
    *tick = 0;
    if (e->kind == ALL) tidei_compaction_ask(p);
    if (p->free_list.n < descriptors_for(e->pages, e->blocks) || !plan(p, m, e, c)) {
        choose_none(p);
        return TIDE_E_NOMEM;
    }
    if (!hold_all(p, m)) {
        tidei_compaction_vacate(p, m, 0);
        unclaim(p, c);
        return TIDE_E_NOMEM;
    }
    tidei_relocation_reserve(p, &c->r, c->hole, c->bytes, c->high);
    c->r.high = false; /* whichever end it has of the hole, all go at once */
    c->claimed = true;
    if (m->n) st = tidei_compaction_move_out(p, m, tick);
    return st;
}

/* ---- mapping them elsewhere ---- */

/* The host waits for all that is pending on the pages. */
static tide_status wait_for(tidei_heap *p, const tidei_compaction *m, uint64_t tick) {
    tide_status st = TIDE_OK;
    tidei_check(tidei_heap_locked(p));
    tidei_heap_unlock(p);
    if (tick)
        st = tidei_stamp_wait(p->base.dev,
                              (tidei_stamp){.tick = tick, .stream = m->s->slot, .write = 1});
    for (unsigned i = 0; i < m->npending && st == TIDE_OK; i++)
        st = tidei_stamp_wait(p->base.dev, m->pending[i]);
    tidei_heap_lock(p);
    return st;
}

/* From x on, the extents of the stretch [low, high) become one. */
static tidei_extent *joined(tidei_heap *p, tidei_extent *x, size_t low, size_t high) {
    /* Free are rests of what was claimed for the run before; they may have joined what lies
    ** beyond. */
    if (is_free(x))
        x = tidei_heap_claim_part(p, x, tidei_max_size(low, x->off),
                                  tidei_min_size(high, tidei_extent_end(x)));
    tidei_heap_be_ready(p, x);
    while (tidei_extent_end(x) < high) {
        tidei_extent *y = x->next;
        if (is_free(y))
            y = tidei_heap_claim_part(p, y, y->off, tidei_min_size(high, tidei_extent_end(y)));
        tidei_heap_be_ready(p, y);
        tidei_heap_absorb(p, x, y);
    }
    return tidei_heap_claim_part(p, x, low, high);
}

/* The chosen pages, cleared and done with, as runs of so many pages as are unmapped at once: each
** is one claimed extent. There are free descriptors for each. */
static tidei_page *make_runs(tidei_heap *p) {
    tidei_extent *x = p->first;
    tidei_page *runs = NULL, **at = &runs;
    for (tidei_page *run = p->first_page; (run = tidei_run_next(run, TIDEI_CALL_PAGES));
         run = run->last->next) {
        size_t low = run->off, high = tidei_run_end(run);
        while (tidei_extent_end(x) <= low) x = x->next;
        x = joined(p, x, low, high);
        tidei_heap_be_ready(p, x);
        run->first = x;
        run->loaded = false;
        tidei_check(x->off == low && tidei_extent_end(x) == high);
        *at = run;
        at = &run->then;
    }
    *at = NULL;
    return runs;
}

static tide_status abandon(tidei_heap *p, choice *c, tide_status st) {
    tidei_relocation_close(p, &c->r);
    unclaim_sides(p, c);
    return st;
}

/* What lies side by side on the target, with its sides, becomes one piece. */
static tidei_extent *piece_of(tidei_heap *p, const choice *c, const tidei_page *runs) {
    tidei_extent *x = runs->first;
    for (const tidei_page *run = runs->then; run; run = run->then)
        tidei_heap_absorb(p, x, run->first);
    if (c->below) tidei_heap_absorb(p, x, c->below);
    if (c->above) tidei_heap_absorb(p, x, c->above);
    return x;
}

/* The pages go to the target, and *out is that with its sides. */
static tide_status remap(tidei_heap *p, const tidei_compaction *m, choice *c, uint64_t tick,
                         tidei_extent **out) {
    tide_status st = wait_for(p, m, tick);
    if (st == TIDE_OK) st = tidei_heap_restock_to(p, descriptors_for(c->pages, 0));
    if (st != TIDE_OK) return abandon(p, c, st);
    if (c->kind == ALL && c->below) tidei_heap_be_ready(p, c->below);
    if (c->kind == ALL && c->above) tidei_heap_be_ready(p, c->above);
    tidei_page *runs = make_runs(p);
    tidei_relocation_stock(p, &c->r, runs);
    st = tidei_relocate(p, &c->r, runs);
    if (st != TIDE_OK) return abandon(p, c, st);
    *out = piece_of(p, c, runs);
    tidei_relocation_close(p, &c->r);
    return TIDE_OK;
}

/* ---- the whole ---- */

/* Once. TIDE_E_NOMEM with nothing claimed: it takes more than `e`, blocks got pinned meanwhile, or
** pages are missing in *c. */
static tide_status attempt(tidei_heap *p, tidei_compaction *m, const effort *e, choice *c,
                           tidei_extent **out) {
    uint64_t tick;
    tidei_check(tidei_heap_locked(p) && p->remapping);
    tide_status st = tidei_heap_restock_to(p, descriptors_for(e->pages, e->blocks));
    if (st != TIDE_OK) return st;
    if (e->blocks) tidei_compaction_begin(p);
    st = clear(p, m, e, c, &tick);
    if (e->blocks) tidei_compaction_end(p, m);
    if (!c->claimed) return st;
    return st == TIDE_OK ? remap(p, m, c, tick, out) : abandon(p, c, st);
}

/* New memory where the pages are to go, for those that are missing or some of them. */
static tide_status add(tidei_heap *p, size_t size, const choice *like, size_t bytes) {
    tide_status st = TIDE_E_NOMEM;
    for (; bytes && st == TIDE_E_NOMEM; bytes = bytes / 2 / p->page_bytes * p->page_bytes) {
        tidei_extent *more;
        choice c = *like;
        if ((st = tidei_heap_restock(p)) != TIDE_OK) return st;
        if (!choose_target(p, size, &c)) return TIDE_E_NOMEM;
        st = tidei_heap_add_at(p, c.hole, c.high, tidei_min_size(bytes, c.hole->size), &more);
        if (st == TIDE_OK) tidei_heap_unclaim(p, more);
    }
    return st;
}

/* What there is to be done, by a look at it while others go on, who may add part of as much
** again. */
static bool look(tidei_heap *p, const tidei_compaction *m, effort *e, choice *c) {
    if (e->kind == ALL) tidei_compaction_ask(p);
    bool enough = choose(p, m->size, e, c);
    choose_none(p);
    e->pages = tidei_max_size(e->pages, c->pages + c->pages / 4 + 4);
    if (c->blocks) e->blocks = tidei_max_size(e->blocks, c->blocks + c->blocks / 4 + 16);
    return enough;
}

/* TIDE_E_NOMEM with *again: it is worth another try. */
static tide_status try_once(tidei_heap *p, tidei_compaction *m, effort *e, bool grow, bool *again,
                            tidei_extent **out) {
    const choice like = {.kind = e->kind, .slot = m->s->slot};
    choice c = like;
    tide_status st = TIDE_E_NOMEM;
    *again = true;
    if (look(p, m, e, &c)) {
        if (e->blocks > m->cap) return st; /* with room for so many the next time */
        c = like;
        st = attempt(p, m, e, &c, out);
        if (st != TIDE_E_NOMEM || c.claimed) return *again = false, st;
        e->pages = tidei_max_size(e->pages, c.pages);
        e->blocks = tidei_max_size(e->blocks, c.blocks);
    }
    if (c.bytes >= c.need) return st;
    if (e->kind != ALL && c.bytes < c.need / TIDEI_VACANT_PART) return *again = false, st;
    if (grow) st = add(p, m->size, &like, c.need - c.bytes);
    if (st != TIDE_E_NOMEM) return st == TIDE_OK ? TIDE_E_NOMEM : st;
    *again = e->kind == ALL && e->cost == COST_CHEAP;
    e->cost = COST_MOST;
    return st;
}

static tide_status remap_with(tidei_heap *p, size_t size, tidei_stream *s, effort e, bool grow,
                              tidei_extent **out) {
    bool again = true;
    tide_status st = TIDE_E_NOMEM;
    tidei_check(tidei_heap_locked(p) && p->wholes);
    if (!p->base.mover || p->remapping) return st;
    p->remapping = true;
    tidei_heap_flush(p);
    for (unsigned i = 0; i < ATTEMPTS && again && st == TIDE_E_NOMEM; i++) {
        tidei_compaction *m = tidei_compaction_open(p, e.blocks, size, s, TIDEI_REACH_ANY);
        if (!m) break;
        st = try_once(p, m, &e, grow, &again, out);
        tidei_compaction_close(p, m);
    }
    p->remapping = false;
    return st;
}

tide_status tidei_heap_remap(tidei_heap *p, size_t size, tidei_stream *s, bool grow,
                             tidei_extent **out) {
    return remap_with(p, size, s, (effort){.cost = COST_CHEAP}, grow, out);
}

tide_status tidei_heap_remap_idle(tidei_heap *p, size_t size, tidei_stream *s, tidei_extent **out) {
    return remap_with(p, size, s, (effort){.kind = IDLE}, true, out);
}
