/* runs.c: the pool `tide` makes one stretch of what holes have cut into islands: the last
** way to a large piece.
**
** Model. An island is a stretch of whole pages, backed without a gap, whose blocks may all move and
** of which none reaches beyond its ends. Its pages can be mapped at other addresses with all that
** they hold: nothing is copied. So islands are put side by side, beside a hole whose neighbour's
** blocks may move as well, until what is free between all these blocks is as much as the request;
** to bring that together by sliding is left to tide_compact.c. Neither does alone: blocks do not
** slide across holes, and where less than a page is free in one place no block need find another
** place. Islands with the most free bytes for their pages go first.
** What must stay true: windows are closed from the choice until the owners know the new addresses,
** and a page is unmapped only when nothing queued uses it: its blocks are held, its free parts
** claimed, and the uses of both past. While windows are closed the host looks for that and does not
** wait: who waits for a window may have what it would want. Whatever fails, an island is where it
** was or at its new place. Only where the device maps its pages neither there nor back that device
** is lost. */
#include <time.h>
#include "runtime/pool/tide/compact.h"
#include "runtime/base/uncancelled.h"

/* A choice is made again where blocks get pinned or freed meanwhile, or their uses take long. */
#define ATTEMPTS 8
/* So long uses are looked for at first, twice as long from attempt to attempt: nobody works
** meanwhile. */
#define PATIENCE_NS 10000000
#define LOOK_NS     20000 /* between two looks */

typedef struct choice {
    tidei_extent *hole; /* where the islands go: to its low end, */
    bool high;          /* or to the high one */
    size_t low, end;    /* the stretch beside it, where blocks may slide already */
    size_t beside;      /* bytes that are free there */
    size_t bytes, free; /* of the islands chosen */
    size_t pages, blocks;
} choice;

typedef struct island {
    tidei_page *last;
    size_t off, end, free, pages, blocks;
    bool stays;
} island;

static bool is_free(const tidei_extent *x) { return tidei_extent_is_free(x); }
static bool may_move(const tidei_extent *x) {
    return tidei_extent_is(x) == TIDEI_EXTENT_LIVE && !x->fixed;
}

/* ---- where to ---- */

/* A hole that takes all there is before one that may not, then the one with more free beside it. */
static void consider(const tidei_heap *p, const choice *a, choice *best) {
    size_t room = tidei_min_size(a->hole->size, p->backed);
    size_t other = best->hole ? tidei_min_size(best->hole->size, p->backed) : 0;
    if (room > other || (room == other && a->beside > best->beside)) *best = *a;
}

/* Of the stretches that end (`high`: begin) at a hole. */
static void consider_all(const tidei_heap *p, bool high, choice *best) {
    choice a = {.high = high};
    bool begun = false;
    for (tidei_extent *x = high ? p->last : p->first; x; x = high ? x->prev : x->next) {
        if (is_free(x) || may_move(x)) {
            if (!begun || !high) a.end = tidei_extent_end(x);
            if (!begun || high) a.low = x->off;
            a.beside += is_free(x) ? x->size : 0;
            begun = true;
            continue;
        }
        a.hole = x;
        if (tidei_extent_is(x) == TIDEI_EXTENT_HOLE) consider(p, &a, best);
        a = (choice){.high = high};
        begun = false;
    }
}

/* ---- which islands ---- */

/* The island that begins with a page; *at is the first extent on it, and afterwards the first one
** behind it. */
static island island_from(tidei_page *pg, tidei_extent **at) {
    island a = {.off = pg->off};
    tidei_extent *x = *at;
    for (;; pg = pg->next) {
        a.last = pg;
        a.end = tidei_page_end(pg);
        a.pages++;
        a.stays |= pg->adrift;
        for (; x && x->off < a.end; x = x->next) {
            size_t low = tidei_max_size(x->off, pg->off),
                   high = tidei_min_size(tidei_extent_end(x), a.end);
            if (is_free(x))
                a.free += high - low;
            else if (may_move(x))
                a.blocks += x->off == low;
            else
                a.stays = true;
            if (tidei_extent_end(x) > a.end) break;
        }
        if (!pg->next || pg->next->off != a.end || !x || x->off == a.end || is_free(x)) break;
    }
    *at = x;
    return a;
}

static void choose_none(tidei_heap *p) {
    for (tidei_page *pg = p->first_page; pg; pg = pg->next) pg->chosen = false;
}

static void choose_island(tidei_page *pg, const island *a, choice *c) {
    c->bytes += a->end - a->off;
    c->free += a->free;
    c->pages += a->pages;
    c->blocks += a->blocks;
    for (; pg != a->last->next; pg = pg->next) pg->chosen = true;
}

static bool enough(const choice *c, size_t size) { return c->beside + c->free >= size; }

/* Of those whose bytes are at most so many times what is free on them, and that are not on the
** stretch beside the hole. */
static void choose_up_to(tidei_heap *p, size_t size, size_t times, choice *c) {
    tidei_extent *x = p->first;
    for (tidei_page *pg = p->first_page, *first; pg && !enough(c, size); pg = pg->next) {
        while (tidei_extent_end(x) <= pg->off) x = x->next;
        first = pg;
        island a = island_from(pg, &x);
        pg = a.last;
        bool there = a.end > c->low && a.off < c->end;
        if (a.stays || there || first->chosen || !a.free || (a.end - a.off) / times > a.free)
            continue;
        if (c->bytes + (a.end - a.off) <= c->hole->size) choose_island(first, &a, c);
    }
}

static void choose_none_yet(tidei_heap *p, choice *c) {
    choose_none(p);
    c->bytes = c->free = c->pages = c->blocks = 0;
}

/* False: all of them are not enough, by what is in *c. */
static bool choose(tidei_heap *p, size_t size, choice *c) {
    *c = (choice){.hole = NULL};
    choose_none(p);
    consider_all(p, false, c);
    consider_all(p, true, c);
    if (!c->hole) return false;
    choose_up_to(p, size, SIZE_MAX, c);
    if (!enough(c, size)) return false;
    choose_none_yet(p, c);
    for (size_t times = 1; !enough(c, size) && times; times *= 2) choose_up_to(p, size, times, c);
    return enough(c, size);
}

/* ---- claiming them ---- */

/* The first page of the run of chosen pages that begins at pg or behind; *end is the run's. NULL:
** there is none. */
static tidei_page *next_run(tidei_page *pg, size_t *end) {
    while (pg && !pg->chosen) pg = pg->next;
    if (!pg) return NULL;
    const tidei_page *last = pg;
    while (last->next && last->next->chosen && last->next->off == tidei_page_end(last))
        last = last->next;
    *end = tidei_page_end(last);
    return pg;
}

static tidei_page *page_behind(tidei_page *pg, size_t end) {
    while (pg && pg->off < end) pg = pg->next;
    return pg;
}

/* Claims the free pieces of the run [low, high), and holds its blocks. *at: an extent before its
** end; the last one on it afterwards. *first: the first one on it. False: it is not what it was, or
** host memory is exhausted. */
static bool claim_run(tidei_heap *p, tidei_compaction *m, size_t low, size_t high,
                      tidei_extent **at, tidei_extent **first) {
    tidei_extent *x = *at;
    while (tidei_extent_end(x) <= low) x = x->next;
    for (*first = NULL; x && x->off < high; x = x->next) {
        if (is_free(x)) {
            x = tidei_heap_claim_part(p, x, tidei_max_size(low, x->off),
                                      tidei_min_size(high, tidei_extent_end(x)));
            tidei_compaction_note(m, x);
            if (x->off < low || tidei_extent_end(x) > high) return false;
        } else if (m->nheld == m->cap || !may_move(x) || !tidei_compaction_hold(p, m, x)) {
            return false;
        }
        if (!*first) *first = x;
        *at = x;
    }
    return true;
}

/* The runs' first pages are chained by `then`, and know their first extents. */
static bool claim(tidei_heap *p, tidei_compaction *m, tidei_page **runs) {
    tidei_extent *x = p->first;
    size_t end;
    bool all = true;
    for (tidei_page *pg = p->first_page; all && (pg = next_run(pg, &end));
         pg = page_behind(pg, end)) {
        all = claim_run(p, m, pg->off, end, &x, &pg->first);
        *runs = pg;
        runs = &pg->then;
    }
    *runs = NULL;
    return all;
}

/* What was claimed on chosen pages is free again. */
static void unclaim(tidei_heap *p) {
    const tidei_page *pg = p->first_page;
    /* that of one that is dropped still leads on */
    for (tidei_extent *x = p->first; x; x = x->next) {
        while (pg && (!pg->chosen || tidei_page_end(pg) <= x->off)) pg = pg->next;
        if (!pg) break;
        if (tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED && tidei_extent_end(x) > pg->off)
            tidei_heap_unclaim(p, x);
    }
    choose_none(p);
}

/* ---- until they are quiet ---- */

/* Notes what the blocks are used for, beside what is pending on the free pieces. */
static void note_uses(tidei_heap *p, tidei_compaction *m) {
    tidei_stamp uses[2 * TIDEI_STREAMS_MAX];
    for (size_t i = 0; i < m->nheld; i++)
        for (unsigned n = p->base.mover->uses(m->held[i], uses); n--;)
            tidei_compaction_note(m, &(tidei_extent){.slot = uses[n].stream, .tick = uses[n].tick});
}

static bool all_past(tidei_heap *p, const tidei_compaction *m) {
    for (unsigned i = 0; i < m->npending; i++)
        if (!tidei_stamp_done(p->base.dev, m->pending[i])) return false;
    return true;
}

/* With windows closed: whether all that is queued on the islands is past soon. Without the lock
** meanwhile. */
static bool quiet(tidei_heap *p, tidei_compaction *m, uint64_t patience) {
    uint64_t until = tidei_now_ns() + patience;
    bool past;
    note_uses(p, m);
    tidei_lock_give(&p->lock);
    while (!(past = all_past(p, m)) && tidei_now_ns() < until) tidei_nap(LOOK_NS);
    tidei_lock_take(&p->lock);
    return past;
}

/* With windows open. */
static tide_status wait_for(tidei_heap *p, const tidei_compaction *m) {
    tide_status st = TIDE_OK;
    tidei_lock_give(&p->lock);
    for (unsigned i = 0; i < m->npending && st == TIDE_OK; i++)
        st = tidei_stamp_wait(p->base.dev, m->pending[i]);
    tidei_lock_take(&p->lock);
    return st;
}

/* ---- carrying them ---- */

/* Maps the pages [first->off, end) at `to`, or unmaps them there, until the device refuses. Returns
** where in [first->off, end) that was; `end`. Without the lock. */
static size_t hang(tidei_heap *p, tidei_page *first, size_t end, size_t to, bool up,
                   tide_status *st) {
    tidei_device *d = p->base.dev->d;
    tidei_dpage *mem[TIDEI_RUN_PAGES];
    tidei_page *pg = first;
    for (size_t at = first->off;; pg = pg->next) {
        size_t n = 0, high;
        for (;; pg = pg->next) {
            mem[n++] = pg->mem;
            high = tidei_page_end(pg);
            if (high >= end || n == TIDEI_RUN_PAGES) break;
        }
        tidei_addr addr = p->addr + to + (at - first->off);
        *st = up ? d->ops->map(d, addr, mem, n) : d->ops->unmap(d, addr, mem, n);
        if (*st != TIDE_OK || high >= end) return *st == TIDE_OK ? end : at;
        at = high;
    }
}

/* Their pages [low, high) are mapped from `to` on, where they do not belong, or (TIDEI_NOWHERE) not
** at all. */
static void stray(tidei_page *pg, size_t low, size_t high, size_t to) {
    for (; low < high; pg = pg->next) {
        if (pg->off < low) continue;
        pg->adrift = true;
        pg->at = to == TIDEI_NOWHERE ? to : to + (pg->off - low);
        low = tidei_page_end(pg);
        if (to != TIDEI_NOWHERE) to += pg->bytes;
    }
}

static tide_status lose(tidei_heap *p) {
    static const char why[] = "pages with blocks could not be mapped again";
    tidei_device *d = p->base.dev->d;
    tidei_saved_error e;
    tidei_error_save(&e);
    d->ops->lose(d, why);
    return tidei_fail(TIDE_E_LOST, "compaction", "%s: %s: %s", d->info.name, why, e.text);
}

/* Of the pages [first->off, down), which are not mapped where they belong, those before `up` are
** mapped at `to`. All go back. */
static tide_status go_back(tidei_heap *p, tidei_page *first, size_t down, size_t up, size_t to) {
    tide_status st = TIDE_OK;
    size_t off = first->off, left = up > off ? hang(p, first, up, to, false, &st) : up;
    if (st != TIDE_OK) {
        stray(first, off, left, TIDEI_NOWHERE);
        stray(first, left, up, to + (left - off));
        stray(first, up, down, TIDEI_NOWHERE);
        return lose(p);
    }
    size_t back = down > off ? hang(p, first, down, off, true, &st) : down;
    if (st == TIDE_OK) return TIDE_OK;
    stray(first, back, down, TIDEI_NOWHERE);
    return lose(p);
}

/* The run goes to `to`, or stays where it is. Without the lock. */
static tide_status carry(tidei_heap *p, tidei_page *first, size_t end, size_t to) {
    tide_status st;
    size_t up = first->off, down = hang(p, first, end, first->off, false, &st);
    if (st == TIDE_OK) up = hang(p, first, end, to, true, &st);
    if (st == TIDE_OK) return TIDE_OK;
    tide_status back = go_back(p, first, down, up, to);
    return back == TIDE_OK ? st : back;
}

/* Nobody may touch what is free on a run, whose extents begin with x. */
static void poison(const tidei_heap *p, const tidei_extent *x, size_t low, size_t end) {
    if (!p->poison) return;
    tidei_heap_poison(p, low, end - low);
    for (; x && x->off < end; x = x->next)
        if (tidei_extent_is(x) != TIDEI_EXTENT_CLAIMED) tidei_heap_unpoison(p, x->off, x->bytes);
}

/* A hole, with the descriptor given, takes the place of the extents from x to before `behind`. */
static void leave_hole(tidei_heap *p, tidei_extent *x, tidei_extent *behind, size_t off,
                       size_t bytes, tidei_extent *hole) {
    hole->off = off;
    hole->size = bytes;
    tidei_heap_link(p, hole, hole, x->prev, behind);
    tidei_heap_hole(p, hole);
}

/* Where the next run of the target goes. */
static size_t place_of(const tidei_extent *target, size_t bytes, bool high) {
    return high ? tidei_extent_end(target) - bytes : target->off;
}

static void shrink(tidei_heap *p, tidei_extent **target, size_t bytes, bool high) {
    tidei_extent *x = *target;
    if (!high) x->off += bytes;
    x->size -= bytes;
    if (x->size) return;
    tidei_heap_unlink(p, x);
    tidei_heap_drop(p, x);
    *target = NULL;
}

static void pages_settle(tidei_heap *p, tidei_page *first, size_t end, size_t to) {
    size_t off = first->off;
    tidei_pages_unlink(p, first, end);
    for (tidei_page *pg = first, *prev = NULL; pg; prev = pg, pg = pg->next) {
        pg->off = pg->off - off + to;
        pg->prev = prev;
        pg->chosen = false;
    }
    tidei_pages_link(p, first);
}

/* The extents from x to `last` lie that much further up, or down; the owners of blocks are told,
** and nothing is pending any more. */
static void extents_settle(tidei_heap *p, tidei_extent *x, const tidei_extent *last, size_t by) {
    for (;; x = x->next) {
        x->off += by;
        if (tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED)
            tidei_heap_be_ready(p, x);
        else
            p->base.mover->readdress(atomic_load_explicit(&x->owner, memory_order_relaxed),
                                     p->addr + x->off);
        if (x == last) return;
    }
}

/* The free pieces from x to `last` are anybody's. */
static void release(tidei_heap *p, tidei_extent *x, const tidei_extent *last) {
    for (tidei_extent *next;; x = next) {
        next = x->next;
        bool end = x == last;
        if (tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED) tidei_heap_unclaim(p, x);
        if (end) return;
    }
}

/* The run is mapped at its place on the target, and lies there from now on. */
static void settle(tidei_heap *p, tidei_page *run, size_t end, tidei_extent **target, bool high,
                   tidei_extent *spare) {
    tidei_extent *x = run->first, *last = x;
    size_t off = run->off, bytes = end - off, to = place_of(*target, bytes, high);
    while (tidei_extent_end(last) < end) last = last->next;
    leave_hole(p, x, last->next, off, bytes, spare);
    if (high)
        tidei_heap_link(p, x, last, *target, (*target)->next);
    else
        tidei_heap_link(p, x, last, (*target)->prev, *target);
    extents_settle(p, x, last, to - off);
    pages_settle(p, run, end, to);
    shrink(p, target, bytes, high);
    poison(p, x, to, to + bytes);
    p->bytes_remapped += bytes;
    release(p, x, last);
}

/* ---- the whole ---- */

/* Descriptors: for the rests of what is claimed, for the holes that stay behind, and for the
** target. */
static size_t spares_for(size_t pages) { return 3 * pages + 2; }

/* Descriptors of holes for as many runs, chained by `left`: there may be none left once the lock
** was let go of. */
static tidei_extent *holes_for(tidei_heap *p, const tidei_page *run) {
    tidei_extent *holes = NULL;
    for (; run; run = run->then) {
        tidei_extent *x = tidei_heap_spare(p);
        x->left = holes;
        holes = x;
    }
    return holes;
}

/* The runs go to the target one after the other; where one is refused, it and those behind it
** stay. */
static tide_status carry_all(tidei_heap *p, const choice *c, tidei_page *run, tidei_extent *target,
                             tidei_extent *holes) {
    tide_status st = TIDE_OK;
    for (tidei_page *then; run && st == TIDE_OK; run = then) {
        size_t end;
        then = run->then;
        next_run(run, &end);
        size_t to = place_of(target, end - run->off, c->high);
        tidei_heap_unpoison(p, run->off, end - run->off);
        tidei_lock_give(&p->lock);
        st = carry(p, run, end, to);
        tidei_lock_take(&p->lock);
        if (st == TIDE_OK) {
            tidei_extent *hole = holes;
            holes = hole->left;
            settle(p, run, end, &target, c->high, hole);
        } else {
            poison(p, run->first, run->off, end);
        }
    }
    for (tidei_extent *next; holes; holes = next) {
        next = holes->left;
        tidei_heap_drop(p, holes);
    }
    unclaim(p);
    if (target) tidei_heap_hole(p, target);
    return st;
}

/* With windows closed. TIDE_E_NOMEM: it is to be tried again; *late: once the uses noted are
** past. */
static tide_status gather(tidei_heap *p, tidei_compaction *m, size_t size, uint64_t patience,
                          bool *late) {
    choice c;
    tidei_page *runs;
    m->npending = 0;
    tidei_compaction_ask(p);
    if (!choose(p, size, &c) || p->nspares < spares_for(c.pages)) {
        choose_none(p);
        return TIDE_E_NOMEM;
    }
    if (!c.pages) return TIDE_OK;
    if (!claim(p, m, &runs)) {
        unclaim(p);
        return TIDE_E_NOMEM;
    }
    tidei_extent *target = tidei_heap_reserve(p, c.hole, c.bytes, c.high),
                 *holes = holes_for(p, runs);
    *late = !quiet(p, m, patience);
    tide_status st = carry_all(p, &c, *late ? NULL : runs, target, holes);
    return *late ? TIDE_E_NOMEM : st;
}

/* New memory beside the hole's stretch, where islands alone are not enough. */
static tide_status add(tidei_heap *p, const choice *c, size_t size) {
    tidei_extent *more;
    size_t bytes = tidei_round_up(size - c->beside - c->free, p->page_bytes);
    if (!c->hole || bytes > c->hole->size) return TIDE_E_NOMEM;
    tide_status st = tidei_heap_add_at(p, c->hole, c->high, bytes, &more);
    if (st == TIDE_OK) tidei_heap_unclaim(p, more);
    return st;
}

/* TIDE_E_NOMEM with *again: it is worth another try. */
static tide_status try_once(tidei_heap *p, tidei_compaction *m, size_t size, bool grow,
                            uint64_t patience, size_t *blocks, bool *again) {
    choice c;
    bool late = false;
    tide_status st = tidei_heap_restock(p);
    if (st != TIDE_OK) return st;
    tidei_heap_flush(p);
    tidei_compaction_ask(p);
    bool there = choose(p, size, &c);
    choose_none(p);
    if (!there) {
        st = grow ? add(p, &c, size) : TIDE_E_NOMEM;
        *again = st == TIDE_OK;
        return st == TIDE_OK ? TIDE_E_NOMEM : st;
    }
    if (!c.pages) return TIDE_OK;
    *blocks = tidei_max_size(*blocks, c.blocks + c.blocks / 4 + 16);
    if (*blocks > m->cap) return TIDE_E_NOMEM; /* with room for so many the next time */
    st = tidei_heap_restock_to(p, spares_for(c.pages + c.pages / 4 + 4));
    if (st != TIDE_OK) return st;
    tidei_compaction_begin(p);
    st = gather(p, m, size, patience, &late);
    tidei_compaction_end(p, m);
    tide_status past = late ? wait_for(p, m) : TIDE_OK;
    return past == TIDE_OK ? st : past;
}

tide_status tidei_heap_gather(tidei_heap *p, size_t size, tidei_stream *s, bool grow) {
    size_t blocks = 0;
    bool again = true;
    tide_status st = TIDE_E_NOMEM;
    if (!p->base.mover || p->remapping) return st;
    p->remapping = true;
    for (unsigned i = 0; i < ATTEMPTS && again && st == TIDE_E_NOMEM; i++) {
        tidei_compaction *m = tidei_compaction_open(p, blocks, size, s, TIDEI_REACH_ANY);
        if (!m) break;
        st = try_once(p, m, size, grow, (uint64_t)PATIENCE_NS << i, &blocks, &again);
        tidei_compaction_close(p, m);
    }
    p->remapping = false;
    return st;
}
