/* relocate.c: pages of the pool `tide` are mapped at other addresses, or go back where they were.
** The model, and what a refused call leaves, stand in relocate.h. */
#include "runtime/pool/tide/relocate.h"

/* ---- chosen pages ---- */

void tidei_pages_choose_none(tidei_heap *p) {
    for (tidei_page *pg = p->first_page; pg; pg = pg->next) pg->chosen = false;
}

tidei_page *tidei_run_next(tidei_page *pg, size_t most) {
    while (pg && !pg->chosen) pg = pg->next;
    if (!pg) return NULL;
    tidei_page *last = pg, *next;
    for (size_t n = 1; n < most && (next = last->next) && next->chosen; n++) {
        if (next->off != tidei_page_end(last)) break;
        last = next;
    }
    pg->last = last;
    return pg;
}

void tidei_pages_unclaim(tidei_heap *p) {
    const tidei_page *pg = p->first_page;
    tidei_check(tidei_heap_locked(p));
    /* that of one that is dropped still leads on */
    for (tidei_extent *x = p->first; x; x = x->next) {
        while (pg && (!pg->chosen || tidei_page_end(pg) <= x->off)) pg = pg->next;
        if (!pg) break;
        if (tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED && tidei_extent_end(x) > pg->off)
            tidei_heap_unclaim(p, x);
    }
    tidei_pages_choose_none(p);
}

/* ---- calls of the device; without the lock ---- */

/* Pages for one call. */
typedef struct batch {
    tidei_page *pages[TIDEI_CALL_PAGES];
    tidei_dpage *mem[TIDEI_CALL_PAGES];
    size_t n;
} batch;

static void add_page(batch *b, tidei_page *pg) {
    b->pages[b->n] = pg;
    b->mem[b->n++] = pg->mem;
}

/* All pages of the run, or none: there are too many. */
static bool add_run(batch *b, tidei_page *run) {
    size_t before = b->n;
    for (tidei_page *pg = run; b->n < TIDEI_CALL_PAGES; pg = pg->next) {
        add_page(b, pg);
        if (pg == run->last) return true;
    }
    b->n = before;
    return false;
}

/* Side by side from `to` on. */
static tide_status map(tidei_heap *p, const batch *b, size_t to) {
    tidei_device *d = p->base.dev->d;
    tide_status st = d->ops->map(d, p->addr + to, b->mem, b->n);
    for (size_t i = 0; i < b->n && st == TIDE_OK; to += b->pages[i++]->bytes) {
        tidei_check(b->pages[i]->at == TIDEI_NOWHERE);
        b->pages[i]->at = to;
    }
    return st;
}

/* They are mapped side by side from `at` on. */
static tide_status unmap(tidei_heap *p, const batch *b, size_t at) {
    tidei_device *d = p->base.dev->d;
    tide_status st = d->ops->unmap(d, p->addr + at, b->mem, b->n);
    for (size_t i = 0; i < b->n && st == TIDE_OK; at += b->pages[i++]->bytes) {
        tidei_check(b->pages[i]->at == at);
        b->pages[i]->at = TIDEI_NOWHERE;
    }
    return st;
}

static bool at_home(const tidei_page *pg) { return pg->at == pg->off; }
static bool nowhere(const tidei_page *pg) { return pg->at == TIDEI_NOWHERE; }
static bool at_target(const tidei_page *pg) { return !at_home(pg) && !nowhere(pg); }

/* Calls for the pages of the run that are so, which lie side by side, until the device refuses.
** `base`: where the run's first page is mapped, or is to be. */
static tide_status call_for(tidei_heap *p, tidei_page *run, bool (*so)(const tidei_page *),
                            tide_status (*call)(tidei_heap *, const batch *, size_t), size_t base) {
    batch b = {.n = 0};
    for (tidei_page *pg = run;; pg = pg->next) {
        bool wanted = so(pg), end = pg == run->last;
        if (wanted) add_page(&b, pg);
        if (b.n && (end || !wanted || b.n == TIDEI_CALL_PAGES)) {
            tide_status st = call(p, &b, base + (b.pages[0]->off - run->off));
            if (st != TIDE_OK) return st;
            b.n = 0;
        }
        if (end) return TIDE_OK;
    }
}

/* ---- the way and the way back; without the lock ---- */

static size_t bytes_of(const tidei_page *run) { return tidei_run_end(run) - run->off; }

/* Maps runs one behind the other from `to` on, until the device refuses. A call takes whole runs,
** so that a run without blocks, which is no longer than that, is mapped as a whole or not at
** all. */
static tide_status map_runs(tidei_heap *p, tidei_page *run, size_t to) {
    tide_status st = TIDE_OK;
    while (run && st == TIDE_OK) {
        batch b = {.n = 0};
        size_t from = to;
        tidei_page *first = run;
        for (; run && add_run(&b, run); run = run->then) to += bytes_of(run);
        if (b.n) {
            st = map(p, &b, from);
        } else { /* longer than a call */
            st = call_for(p, first, nowhere, map, from);
            to += bytes_of(first);
            run = first->then;
        }
    }
    return st;
}

/* Runs are mapped in order, and so is each: its last page is there once all of it is. */
static bool arrived(const tidei_page *run) { return at_target(run->last); }

static bool all_are(const tidei_page *run, bool (*so)(const tidei_page *)) {
    const tidei_page *pg = run;
    while (so(pg) && pg != run->last) pg = pg->next;
    return so(pg);
}

/* Nothing is left of it where it was, and nothing is lost with it. */
static bool leaves_pool(const tidei_page *run) { return !run->loaded && all_are(run, nowhere); }

/* The pages of a run that has not arrived go back. False: they are displaced for good. */
static bool bring_back(tidei_heap *p, tidei_page *run) {
    return (!at_target(run) || call_for(p, run, at_target, unmap, run->at) == TIDE_OK) &&
           call_for(p, run, nowhere, map, run->off) == TIDE_OK;
}

static tide_status lose(tidei_heap *p) {
    static const char why[] = "pages with blocks could not be mapped again";
    tidei_device *d = p->base.dev->d;
    tidei_saved_error e;
    tidei_error_save(&e);
    d->ops->lose(d, why);
    return tidei_fail(TIDE_E_LOST, "compaction", "%s: %s: %s", d->info.name, why, e.text);
}

static tide_status go_back(tidei_heap *p, tidei_page *runs, tide_status st) {
    tidei_saved_error e;
    tidei_error_save(&e);
    for (tidei_page *run = runs; run; run = run->then)
        if (!arrived(run) && !bring_back(p, run) && !leaves_pool(run)) return lose(p);
    tidei_error_restore(&e);
    return st;
}

static tide_status go(tidei_heap *p, tidei_page *runs, size_t to) {
    tide_status st = TIDE_OK;
    tidei_check(!tidei_heap_locked(p));
    for (tidei_page *run = runs; run && st == TIDE_OK; run = run->then)
        st = call_for(p, run, at_home, unmap, run->off);
    if (st == TIDE_OK) st = map_runs(p, runs, to);
    return st == TIDE_OK ? st : go_back(p, runs, st);
}

/* Pages that are mapped nowhere, chained by `next`, go back to the device. */
static void give_back(tidei_heap *p, tidei_page *pages) {
    tidei_device *d = p->base.dev->d;
    for (tidei_page *next; pages; pages = next) {
        next = pages->next;
        d->ops->page_release(d, pages->mem);
        tidei_unback(p->base.dev, pages->bytes);
        tidei_host_free(p->base.dev->rt, pages);
    }
}

/* ---- what has come of it; under the lock ---- */

typedef struct page_chain {
    tidei_page *first, *last;
} page_chain;

/* The run's pages leave the pool's order by address. */
static void take_pages(tidei_heap *p, tidei_page *run, page_chain *to) {
    tidei_pages_unlink(p, run, tidei_run_end(run));
    run->prev = to->last;
    if (to->last)
        to->last->next = run;
    else
        to->first = run;
    to->last = run->last;
}

/* Nobody may touch what is free on the stretch [low, end), whose extents begin with x. */
static void poison(const tidei_heap *p, const tidei_extent *x, size_t low, size_t end) {
    if (!p->poison) return;
    tidei_heap_poison(p, low, end - low);
    for (; x && x->off < end; x = x->next)
        if (tidei_extent_is(x) != TIDEI_EXTENT_CLAIMED) tidei_heap_unpoison(p, x->off, x->bytes);
}

/* A hole takes the place of the run's extents, of which `last` is the last one. */
static void leave_hole(tidei_heap *p, tidei_relocation *r, const tidei_page *run,
                       const tidei_extent *last) {
    tidei_extent *hole = r->holes;
    tidei_check(hole && run->first->off == run->off);
    r->holes = hole->left;
    hole->off = run->off;
    hole->size = bytes_of(run);
    tidei_heap_link(p, hole, hole, run->first->prev, last->next);
    tidei_heap_hole(p, hole);
}

static void shrink_target(tidei_heap *p, tidei_relocation *r, size_t bytes) {
    tidei_extent *x = r->target;
    tidei_check(tidei_extent_is(x) == TIDEI_EXTENT_MAPPING && bytes <= x->size);
    if (!r->high) x->off += bytes;
    x->size -= bytes;
    if (x->size) return;
    tidei_heap_unlink(p, x);
    tidei_heap_drop(p, x);
    r->target = NULL;
}

static tidei_extent *last_extent(const tidei_page *run) {
    tidei_extent *x = run->first;
    while (tidei_extent_end(x) < tidei_run_end(run)) x = x->next;
    tidei_check(tidei_extent_end(x) == tidei_run_end(run));
    return x;
}

/* The extents from x to `last` lie that much further up, or down; the owners of blocks are told,
** and nothing is pending any more. */
static void readdress(tidei_heap *p, tidei_extent *x, const tidei_extent *last, size_t by) {
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

/* The run is mapped on the target, and lies there from now on. */
static void arrive(tidei_heap *p, tidei_relocation *r, tidei_page *run, page_chain *pages) {
    tidei_extent *last = last_extent(run), *at = r->target;
    size_t to = run->at, bytes = bytes_of(run);
    tidei_check(to == (r->high ? tidei_extent_end(at) - bytes : at->off));
    leave_hole(p, r, run, last);
    if (r->high)
        tidei_heap_link(p, run->first, last, at, at->next);
    else
        tidei_heap_link(p, run->first, last, at->prev, at);
    readdress(p, run->first, last, to - run->off);
    take_pages(p, run, pages);
    for (tidei_page *pg = run; pg; pg = pg->next) pg->off = pg->at, pg->chosen = false;
    shrink_target(p, r, bytes);
    poison(p, run->first, to, to + bytes);
    p->bytes_remapped += bytes;
}

/* The run leaves the pool. */
static void leave(tidei_heap *p, tidei_relocation *r, tidei_page *run, page_chain *gone) {
    tidei_extent *x = run->first, *last = last_extent(run);
    size_t low = run->off, bytes = bytes_of(run);
    leave_hole(p, r, run, last);
    p->backed -= bytes;
    p->claimed -= bytes;
    take_pages(p, run, gone);
    for (tidei_extent *next;; x = next) {
        next = x->next;
        bool end = x == last;
        tidei_heap_be_ready(p, x);
        tidei_heap_drop(p, x);
        if (end) break;
    }
    tidei_heap_unpoison(p, low, bytes);
}

void tidei_run_release(tidei_heap *p, const tidei_page *run) {
    size_t end = tidei_run_end(run);
    for (tidei_extent *x = run->first, *next; x && x->off < end; x = next) {
        next = x->next;
        if (tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED) tidei_heap_unclaim(p, x);
    }
}

/* Each run lies where it is mapped now; of those that leave the pool the pages are in *gone. */
static void settle(tidei_heap *p, tidei_relocation *r, tidei_page *runs, page_chain *gone) {
    page_chain pages = {NULL};
    for (tidei_page *run = runs; run; run = run->then) {
        if (arrived(run))
            arrive(p, r, run, &pages);
        else if (leaves_pool(run))
            leave(p, r, run, gone);
        else
            poison(p, run->first, run->off, tidei_run_end(run));
    }
    if (pages.first) tidei_pages_link(p, pages.first);
    if (gone->first) tidei_heap_set_cap(p);
}

/* ---- the whole ---- */

void tidei_relocation_reserve(tidei_heap *p, tidei_relocation *r, tidei_extent *hole, size_t bytes,
                              bool high) {
    *r = (tidei_relocation){.target = tidei_heap_reserve(p, hole, bytes, high), .high = high};
}

void tidei_relocation_stock(tidei_heap *p, tidei_relocation *r, tidei_page *runs) {
    for (const tidei_page *run = runs; run; run = run->then) {
        tidei_extent *x = tidei_heap_descriptor(p);
        x->left = r->holes;
        r->holes = x;
    }
}

tide_status tidei_relocate(tidei_heap *p, tidei_relocation *r, tidei_page *runs) {
    page_chain gone = {NULL};
    tidei_check(tidei_heap_locked(p) && p->remapping);
    tidei_check(!r->high || !runs->then);
    size_t to = r->high ? tidei_extent_end(r->target) - bytes_of(runs) : r->target->off;
    for (tidei_page *run = runs; run; run = run->then) {
        tidei_check(all_are(run, at_home) && run->chosen && run->last->chosen);
        tidei_heap_unpoison(p, run->off, bytes_of(run));
    }
    tidei_heap_unlock(p);
    tide_status st = go(p, runs, to);
    tidei_heap_lock(p);
    settle(p, r, runs, &gone);
    for (tidei_page *run = runs; run && st != TIDE_OK; run = run->then)
        if (!run->chosen) tidei_run_release(p, run);
    if (!gone.first) return st;
    tidei_heap_unlock(p);
    give_back(p, gone.first);
    tidei_heap_lock(p);
    return st;
}

void tidei_relocation_close(tidei_heap *p, tidei_relocation *r) {
    tidei_check(tidei_heap_locked(p));
    for (tidei_extent *next; r->holes; r->holes = next) {
        next = r->holes->left;
        tidei_heap_drop(p, r->holes);
    }
    tidei_pages_unclaim(p);
    if (r->target) tidei_heap_hole(p, r->target);
    r->target = NULL;
}
