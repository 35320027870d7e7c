/* choose_runs.c: the pool `tide` makes one stretch of what holes have cut into pieces: the last way
** to a large piece.
**
** Model. A relocatable run is a stretch of whole pages, backed without a gap, whose blocks may all
** move and of which none reaches beyond its ends. Its pages can be mapped at other addresses with
** all that they hold (relocate.h). So runs are put side by side, beside a hole whose neighbour's
** blocks may move as well, until what is free between all these blocks is as much as the request:
**
**     before   | A . B | hole | C . | hole | D pinned |       (. is free)
**     after    | A . B   C . |  hole       | D pinned |       blocks need only slide
**
** To bring the free bytes together by sliding is left to compact.c. Neither does alone: blocks do
** not slide across holes, and where less than a page is free in one place no block need find
** another place. Runs with the most free bytes for their pages go first.
** What must stay true: windows are closed from the choice until the owners know the new addresses,
** and a page is unmapped only when nothing queued uses it: its blocks are held, its free parts
** claimed, and the uses of both past. While windows are closed the host looks for that and does not
** wait: a caller that waits for a window may have what it would want. */
#include <time.h>
#include "runtime/pool/tide/compact.h"
#include "runtime/pool/tide/relocate.h"
#include "runtime/base/uncancelled.h"

/* A choice is made again where blocks get pinned or freed meanwhile, or their uses take long. */
#define ATTEMPTS 8
/* So long uses are looked for at first, twice as long from attempt to attempt: nobody works
** meanwhile. */
#define PATIENCE_NS 10000000
#define LOOK_NS     20000 /* between two looks */

typedef struct choice {
    tidei_extent *hole; /* where the runs go: to its low end, */
    bool high;          /* or to the high one */
    size_t low, end;    /* the stretch beside it, where blocks may slide already */
    size_t beside;      /* bytes that are free there */
    size_t bytes, free; /* of the runs chosen */
    size_t pages, blocks;
} choice;

typedef struct span {
    tidei_page *last;
    size_t off, end, free, pages, blocks;
    bool stays;
} span;

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

/* ---- which runs ---- */

/* The relocatable run that begins with a page; *at is the first extent on it, and afterwards the
** first one behind it. */
static span span_from(tidei_page *pg, tidei_extent **at) {
    span a = {.off = pg->off};
    tidei_extent *x = *at;
    for (;; pg = pg->next) {
        a.last = pg;
        a.end = tidei_page_end(pg);
        a.pages++;
        a.stays |= tidei_page_displaced(pg);
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

static void choose_span(tidei_page *pg, const span *a, choice *c) {
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
        span a = span_from(pg, &x);
        pg = a.last;
        bool there = a.end > c->low && a.off < c->end;
        if (a.stays || there || first->chosen || !a.free || (a.end - a.off) / times > a.free)
            continue;
        if (c->bytes + (a.end - a.off) <= c->hole->size) choose_span(first, &a, c);
    }
}

static void choose_none_yet(tidei_heap *p, choice *c) {
    tidei_pages_choose_none(p);
    c->bytes = c->free = c->pages = c->blocks = 0;
}

/* False: all of them are not enough, by what is in *c. */
static bool choose(tidei_heap *p, size_t size, choice *c) {
    *c = (choice){.hole = NULL};
    tidei_pages_choose_none(p);
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

/* Claims the free pieces of the run, and holds its blocks. *at: an extent before its end; the last
** one on it afterwards. False: it is not what it was, or host memory is exhausted. */
static bool claim_run(tidei_heap *p, tidei_compaction *m, tidei_page *run, tidei_extent **at) {
    size_t low = run->off, high = tidei_run_end(run);
    tidei_extent *x = *at;
    while (tidei_extent_end(x) <= low) x = x->next;
    run->first = NULL;
    run->loaded = false;
    for (; x && x->off < high; x = x->next) {
        if (is_free(x)) {
            x = tidei_heap_claim_part(p, x, tidei_max_size(low, x->off),
                                      tidei_min_size(high, tidei_extent_end(x)));
            tidei_compaction_note(m, x);
            if (x->off < low || tidei_extent_end(x) > high) return false;
        } else if (m->nheld == m->cap || !may_move(x) || !tidei_compaction_hold(p, m, x)) {
            return false;
        } else {
            run->loaded = true;
        }
        if (!run->first) run->first = x;
        *at = x;
    }
    return true;
}

/* *runs: what was chosen, chained by `then`. */
static bool claim(tidei_heap *p, tidei_compaction *m, tidei_page **runs) {
    tidei_extent *x = p->first;
    bool all = true;
    for (tidei_page *run = p->first_page; all && (run = tidei_run_next(run, SIZE_MAX));
         run = run->last->next) {
        all = claim_run(p, m, run, &x);
        *runs = run;
        runs = &run->then;
    }
    *runs = NULL;
    return all;
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

/* With windows closed: whether all that is queued on the runs is past soon. Without the lock
** meanwhile. */
static bool quiet(tidei_heap *p, tidei_compaction *m, uint64_t patience) {
    uint64_t until = tidei_now_ns() + patience;
    bool past;
    tidei_check(tidei_heap_locked(p));
    note_uses(p, m);
    tidei_heap_unlock(p);
    while (!(past = all_past(p, m)) && tidei_now_ns() < until) tidei_nap(LOOK_NS);
    tidei_heap_lock(p);
    return past;
}

/* With windows open. */
static tide_status wait_for(tidei_heap *p, const tidei_compaction *m) {
    tide_status st = TIDE_OK;
    tidei_check(tidei_heap_locked(p));
    tidei_heap_unlock(p);
    for (unsigned i = 0; i < m->npending && st == TIDE_OK; i++)
        st = tidei_stamp_wait(p->base.dev, m->pending[i]);
    tidei_heap_lock(p);
    return st;
}

/* ---- the whole ---- */

/* Descriptors: for the rests of what is claimed, for the holes that stay behind, and for the
** target. */
static size_t descriptors_for(size_t pages) { return 3 * pages + 2; }

/* The runs go to the target one after the other, so that few blocks are out of reach at a time;
** where one is refused, it and those behind it stay. */
static tide_status relocate_each(tidei_heap *p, tidei_relocation *r, tidei_page *run) {
    tide_status st = TIDE_OK;
    for (tidei_page *then; run && st == TIDE_OK; run = then) {
        then = run->then;
        run->then = NULL;
        st = tidei_relocate(p, r, run);
        if (st == TIDE_OK) tidei_run_release(p, run);
    }
    return st;
}

/* With windows closed. TIDE_E_NOMEM: it is to be tried again; *late: once the uses noted are
** past. */
static tide_status gather(tidei_heap *p, tidei_compaction *m, size_t size, uint64_t patience,
                          bool *late) {
    choice c;
    tidei_relocation r;
    tidei_page *runs;
    tidei_check(tidei_heap_locked(p) && p->remapping);
    m->npending = 0;
    tidei_compaction_ask(p);
    if (!choose(p, size, &c) || p->free_list.n < descriptors_for(c.pages)) {
        tidei_pages_choose_none(p);
        return TIDE_E_NOMEM;
    }
    if (!c.pages) return TIDE_OK;
    if (!claim(p, m, &runs)) {
        tidei_pages_unclaim(p);
        return TIDE_E_NOMEM;
    }
    tidei_relocation_reserve(p, &r, c.hole, c.bytes, c.high);
    tidei_relocation_stock(p, &r, runs);
    *late = !quiet(p, m, patience);
    tide_status st = *late ? TIDE_E_NOMEM : relocate_each(p, &r, runs);
    tidei_relocation_close(p, &r);
    return st;
}

/* New memory beside the hole's stretch, where runs alone are not enough. */
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
    tidei_pages_choose_none(p);
    if (!there) {
        st = grow ? add(p, &c, size) : TIDE_E_NOMEM;
        *again = st == TIDE_OK;
        return st == TIDE_OK ? TIDE_E_NOMEM : st;
    }
    if (!c.pages) return TIDE_OK;
    *blocks = tidei_max_size(*blocks, c.blocks + c.blocks / 4 + 16);
    if (*blocks > m->cap) return TIDE_E_NOMEM; /* with room for so many the next time */
    st = tidei_heap_restock_to(p, descriptors_for(c.pages + c.pages / 4 + 4));
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
    tidei_check(tidei_heap_locked(p));
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
