/* test_pool_tide_pages.c: the pool `tide` alone, over doubles: pages that are mapped elsewhere
** where blocks stay, one by one or as runs with their blocks, and pages given to others
** (runtime/pool/tide/relocate.h). Blocks that move: test_pool_tide_moves.c. Real devices:
** test_remap.c. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "runtime/pool/tide/relocate.h"

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (64 * KIB)

static tidei_pool *open_tide(void) { return open_pool(&tidei_pool_tide, PAGE, 64 * MIB); }

/* ---- mapping elsewhere ---- */

/* Two blocks a page. On every fourth page one stays and the other is free; of the other pages'
** blocks every second one is free, with work of stream 1 pending. */
enum { HALVES = 32 };
static tidei_pool *open_pinned(tidei_block *b, double_owner *o) {
    tidei_pool *p = open_tide();
    p->mover = &double_mover;
    movers.on_move = NULL;
    movers.tick = 10;
    movers.blocks = 0;
    keep_caches(p, false);
    atomic_store(&dbl.dev.budget->limit, HALVES / 2 * PAGE);
    for (unsigned i = 0; i < HALVES; i++) b[i] = must(p, PAGE / 2, 0);
    for (unsigned i = 0; i < HALVES; i++) {
        o[i] = (double_owner){.b = &b[i], .pinned = i % 8 == 1};
        p->ops->own(p, &b[i], &o[i]);
    }
    for (unsigned i = 0; i < HALVES; i += 2) put(p, &b[i], 1, 5);
    return p;
}
static void drop_pinned(tidei_pool *p, tidei_block *b, const double_owner *o) {
    for (unsigned i = 1; i < HALVES; i += 2) {
        assert_int_equal(o[i].held, 0);
        p->ops->free(p, &b[i]);
    }
    close_clean(p);
}

/* Of sixteen pages four are pinned, and half of the others is what there is. */
static void pages_go_elsewhere_once_work_is_done(void **state) {
    (void)state;
    tidei_block b[HALVES], c;
    double_owner o[HALVES];
    tidei_pool *p = open_pinned(b, o);
    const unsigned flags = TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE;
    assert_int_equal(get(p, 9 * PAGE, 0, flags, &c), TIDE_E_NOMEM);
    assert_true(balanced(p));
    assert_int_equal(get(p, 8 * PAGE, 0, flags, &c), TIDE_OK);
    assert_true(movers.blocks > 0);
    assert_int_equal(figures(p).bytes_remapped, 8 * PAGE);
    assert_true(dbl.word[1] >= 5 && dbl.word[0] >= movers.tick); /* waited for */
    assert_int_equal(c.stamps.n, 0);
    assert_int_equal(dbl.dev.budget->backed, HALVES / 2 * PAGE);
    assert_false(movers.closed);
    put(p, &c, 0, 0);
    drop_pinned(p, b, o);
}

static struct {
    tidei_pool *p;
    tidei_block b;
} freed_late;
static void free_late(void) {
    dbl.on_wait = NULL;
    put(freed_late.p, &freed_late.b, 0, 99);
}

/* A block beside pages that go elsewhere is freed while the host waits for them: nobody has waited
** for its own last use. */
static void what_is_freed_meanwhile_keeps_its_history(void **state) {
    (void)state;
    tidei_pool *p = freed_late.p = open_tide();
    tidei_block held[3], far, near, c, other[400];
    unsigned n = 0;
    p->mover = &double_mover;
    keep_caches(p, false);
    held[0] = must(p, PAGE, 0);
    far = must(p, 100 * PAGE + PAGE / 2, 0);
    freed_late.b = must(p, PAGE / 2, 0);
    held[1] = must(p, PAGE, 0);
    near = must(p, 40 * PAGE, 0);
    held[2] = must(p, PAGE, 0);
    tidei_addr at = freed_late.b.addr;
    dbl.dev.budget->limit = dbl.dev.budget->backed;
    put(p, &far, 0, 5);
    put(p, &near, 0, 5);
    dbl.on_wait = free_late;
    assert_int_equal(get(p, 120 * PAGE, 0, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE, &c), TIDE_OK);
    assert_null(dbl.on_wait);
    assert_true(figures(p).bytes_remapped > 0);
    atomic_store(&p->attrs.reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE);
    while (n < TIDEI_COUNT(other) && get(p, PAGE / 2, 1, TIDEI_ALLOC_NO_GROW, &other[n]) == TIDE_OK)
        assert_int_not_equal(other[n++].addr, at);
    assert_in_range(n, 0, TIDEI_COUNT(other) - 1);
    assert_true(balanced(p));
    double_complete(0, 99);
    for (unsigned i = 0; i < 3; i++) p->ops->free(p, &held[i]);
    while (n) p->ops->free(p, &other[--n]);
    p->ops->free(p, &c);
    close_clean(p);
}

/* All that may fail when pages are mapped elsewhere. */
static const enum double_call kinds[] = {CALL_HOST,  CALL_BACK, CALL_PAGE_NEW, CALL_MAP,
                                         CALL_UNMAP, CALL_MOVE, CALL_WAIT};

/* Each call of each kind fails in turn, alone or with all that follow; then the same is asked for
** again. */
static void remapping_that_fails_loses_nothing(void **state) {
    (void)state;
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++) {
        bool failed = true;
        for (long after = 0; failed; after++) {
            tidei_block b[HALVES], c;
            double_owner o[HALVES];
            tidei_pool *p = open_pinned(b, o);
            atomic_store(&dbl.dev.budget->limit, (HALVES / 2 + 1) * PAGE);
            dbl.fail_after[kinds[k]] = after;
            tide_status st = get(p, 9 * PAGE, 0, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE, &c);
            failed = dbl.fail_after[kinds[k]] < 0;
            dbl.fail_after[kinds[k]] = -1;
            assert_true(failed || st == TIDE_OK);
            assert_true(balanced(p));
            assert_false(movers.closed);
            assert_true(figures(p).backed >= HALVES / 2 * PAGE); /* nothing of it has left */
            if (st != TIDE_OK)
                assert_int_equal(get(p, 9 * PAGE, 0, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE, &c),
                                 TIDE_OK);
            put(p, &c, 0, 0);
            drop_pinned(p, b, o);
        }
    }
}

/* A low hole that is too small for all that is wanted is left alone. */
static void adds_in_one_piece(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_heap *t = (tidei_heap *)p;
    tidei_block b[3];
    tidei_extent *x = NULL;
    for (unsigned i = 0; i < 3; i++) b[i] = must(p, PAGE, 0);
    put(p, &b[1], 0, 0);
    assert_int_equal(p->ops->trim(p, 0), PAGE);
    tidei_heap_lock(t);
    assert_int_equal(tidei_heap_add(t, 3 * PAGE, &dbl.streams[0], &x), TIDE_OK);
    assert_int_equal(x->size, 3 * PAGE);
    tidei_heap_unclaim(t, x);
    tidei_heap_unlock(t);
    put(p, &b[0], 0, 0);
    put(p, &b[2], 0, 0);
    close_clean(p);
}

/* ---- where refused pages are ---- */

/* More single pages than go with one call of the device, between blocks that stay. */
enum { APART = 70 };
static struct {
    long grants, refusals; /* calls that map: so many pass, then so many are refused */
    tide_status (*map)(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n);
} refuser;

static tide_status refusing_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                                size_t n) {
    if (refuser.grants-- > 0 || refuser.refusals-- <= 0) return refuser.map(d, addr, pages, n);
    return TIDE_E_DEVICE;
}

/* Claims what is free, each page a run, and chains the runs. */
static tidei_page *claim_free_pages(tidei_heap *t) {
    tidei_page *runs = NULL, **at = &runs;
    tidei_extent *x = t->first;
    for (tidei_page *pg = t->first_page; pg; pg = pg->next) {
        while (tidei_extent_end(x) <= pg->off) x = x->next;
        if (tidei_extent_is(x) != TIDEI_EXTENT_FREE) continue;
        pg->chosen = true;
        assert_ptr_equal(tidei_run_next(pg, 1), pg);
        tidei_heap_claim(t, x);
        pg->first = x;
        *at = pg;
        at = &pg->then;
    }
    *at = NULL;
    return runs;
}

/* The free pages go to the end of the range, while calls are refused. */
static tide_status relocate_free_pages(tidei_heap *t) {
    tidei_relocation r;
    tidei_extent *hole;
    tidei_heap_lock(t);
    t->remapping = true;
    assert_int_equal(tidei_heap_restock_to(t, 3 * APART + 2), TIDE_OK);
    for (hole = t->holes; hole->right;) hole = hole->right;
    tidei_page *runs = claim_free_pages(t);
    tidei_relocation_reserve(t, &r, hole, APART * PAGE, false);
    tidei_relocation_stock(t, &r, runs);
    tide_status st = tidei_relocate(t, &r, runs);
    for (; st == TIDE_OK && runs; runs = runs->then) tidei_run_release(t, runs);
    tidei_relocation_close(t, &r);
    t->remapping = false;
    tidei_heap_unlock(t);
    return st;
}

/* A page is at its new place, where it was, or, where neither will have it, back at the device. */
static void a_refused_page_is_where_it_was_or_leaves(void **state) {
    (void)state;
    static const struct {
        long grants, refusals, arrived, gone;
    } cases[] = {{99, 0, APART, 0},
                 {0, 1, 0, 0},
                 {0, 2, 0, 1},
                 {0, 4, 0, 3},
                 {1, 1, 64, 0},
                 {1, 2, 64, 1},
                 {1, 99, 64, APART - 64},
                 {0, 99, 0, APART}};
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_pool *p = open_tide();
        tidei_block b[2 * APART];
        keep_caches(p, false);
        for (unsigned k = 0; k < 2 * APART; k++) b[k] = must(p, PAGE, 0);
        for (unsigned k = 0; k < 2 * APART; k += 2) put(p, &b[k], 0, 0);
        struct tidei_device_ops ops = *dbl.device.ops;
        refuser.grants = cases[i].grants, refuser.refusals = cases[i].refusals;
        refuser.map = ops.map, ops.map = refusing_map;
        dbl.device.ops = &ops;
        tide_status st = relocate_free_pages((tidei_heap *)p);
        assert_int_equal(st, cases[i].refusals ? TIDE_E_DEVICE : TIDE_OK);
        assert_int_equal(figures(p).bytes_remapped, cases[i].arrived * PAGE);
        assert_int_equal(figures(p).backed, (2 * APART - cases[i].gone) * PAGE);
        assert_int_equal(figures(p).largest, cases[i].arrived         ? cases[i].arrived * PAGE
                                             : cases[i].gone == APART ? 0
                                                                      : PAGE);
        assert_true(balanced(p));
        refuser.refusals = 0;
        for (unsigned k = 1; k < 2 * APART; k += 2) p->ops->free(p, &b[k]);
        close_clean(p);
    }
}

/* Where the way back was refused too, a page stays displaced, and out of every later choice. */
static void a_displaced_page_is_not_chosen(void **state) {
    enum { PAGES = 8 };
    const unsigned flags = TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE;
    (void)state;
    tidei_pool *p = open_tide();
    tidei_page *first;
    tidei_block b[PAGES], c;
    keep_caches(p, false);
    atomic_store(&dbl.dev.budget->limit, PAGES * PAGE);
    for (unsigned k = 0; k < PAGES; k++) b[k] = must(p, PAGE, 0);
    for (unsigned k = 0; k < PAGES; k += 2) put(p, &b[k], 0, 0);
    p->mover = &double_mover;
    first = ((tidei_heap *)p)->first_page;
    first->at = TIDEI_NOWHERE;
    assert_int_equal(get(p, (PAGES / 2 - 1) * PAGE, 0, flags, &c), TIDE_OK);
    assert_int_equal(figures(p).bytes_remapped, (PAGES / 2 - 1) * PAGE);
    put(p, &c, 0, 0);
    assert_int_not_equal(get(p, PAGES / 2 * PAGE, 0, flags, &c), TIDE_OK);
    first->at = first->off;
    for (unsigned k = 1; k < PAGES; k += 2) p->ops->free(p, &b[k]);
    close_clean(p);
}

/* ---- relocatable runs ---- */

/* Blocks of one and a half pages on runs of two, with holes between them: nothing slides across
** those, and no block finds a place elsewhere. */
enum { RUNS = 4 };
static const unsigned last_resort = TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED;
static tidei_pool *open_runs(tidei_block *b, double_owner *o) {
    tidei_pool *p = open_tide();
    tidei_block apart[RUNS];
    movers.on_move = NULL, movers.on_begin = NULL;
    movers.tick = 10;
    movers.blocks = movers.readdressed = 0;
    keep_caches(p, false);
    for (unsigned i = 0; i < RUNS; i++) {
        b[i] = must(p, PAGE / 2 * 3, 0);
        apart[i] = must(p, PAGE / 2 * 3, 0);
        o[i] = (double_owner){.b = &b[i]};
        p->ops->own(p, &b[i], &o[i]);
    }
    for (unsigned i = 0; i < RUNS; i++) put(p, &apart[i], 0, 0);
    p->ops->trim(p, 0);
    p->mover = &double_mover; /* before, blocks would be moved rather than so much left free */
    assert_int_equal(figures(p).backed, 2 * RUNS * PAGE);
    assert_int_equal(figures(p).largest, PAGE / 2);
    atomic_store(&dbl.dev.budget->limit, 2 * RUNS * PAGE);
    return p;
}
static void drop_runs(tidei_pool *p, tidei_block *b, const double_owner *o) {
    for (unsigned i = 0; i < RUNS; i++) {
        assert_int_equal(o[i].held, 0);
        p->ops->free(p, &b[i]);
    }
    close_clean(p);
}

static void runs_become_one_stretch(void **state) {
    (void)state;
    for (unsigned halves = 2; halves <= RUNS; halves++) { /* pages that are wanted */
        tidei_block b[RUNS], c;
        double_owner o[RUNS];
        tidei_pool *p = open_runs(b, o);
        /* waited for, where it goes elsewhere */
        for (unsigned i = 0; i < RUNS; i++) used_by(&b[i], 1 + i, 5);
        assert_int_equal(get(p, halves * PAGE / 2, 0, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE, &c),
                         TIDE_E_NOMEM);
        assert_int_equal(get(p, (RUNS / 2 + 1) * PAGE, 0, last_resort, &c), TIDE_E_NOMEM);
        assert_int_equal(figures(p).bytes_remapped, 0);
        assert_int_equal(get(p, halves * PAGE / 2, 0, last_resort, &c), TIDE_OK);
        /* no more than need be, and the first of them stays */
        assert_int_equal(movers.readdressed, halves - 1);
        assert_int_equal(figures(p).bytes_remapped, (halves - 1) * 2 * PAGE);
        assert_int_equal(dbl.dev.budget->backed, 2 * RUNS * PAGE);
        assert_false(movers.closed);
        assert_true(balanced(p));
        put(p, &c, 0, 11);
        drop_runs(p, b, o);
    }
}

/* What may not move stays. The free part of its last page is had where the others come to lie
** beside it: on the last run. */
static void pinned_runs_stay(void **state) {
    (void)state;
    for (unsigned pinned = 0; pinned < 1u << RUNS; pinned++) {
        tidei_block b[RUNS], c;
        double_owner o[RUNS];
        tidei_addr at[RUNS];
        tidei_pool *p = open_runs(b, o);
        unsigned mobile = 0;
        for (unsigned i = 0; i < RUNS; i++) {
            o[i].pinned = pinned >> i & 1;
            mobile += !o[i].pinned;
            at[i] = b[i].addr;
        }
        unsigned halves = mobile + o[RUNS - 1].pinned;
        assert_int_equal(get(p, (halves + 1) * PAGE / 2, 0, last_resort, &c), TIDE_E_NOMEM);
        if (halves > 1) assert_int_equal(get(p, halves * PAGE / 2, 0, last_resort, &c), TIDE_OK);
        for (unsigned i = 0; i < RUNS; i++)
            if (o[i].pinned) assert_int_equal(b[i].addr, at[i]);
        assert_true(balanced(p));
        if (halves > 1) put(p, &c, 0, 11);
        drop_runs(p, b, o);
    }
}

/* A page more than the runs have comes from the device. */
static void new_memory_makes_up_for_what_runs_lack(void **state) {
    (void)state;
    tidei_block b[RUNS], c;
    double_owner o[RUNS];
    tidei_pool *p = open_runs(b, o);
    atomic_store(&dbl.dev.budget->limit, (2 * RUNS + 1) * PAGE);
    assert_int_equal(get(p, (RUNS / 2 + 1) * PAGE, 0, last_resort, &c), TIDE_OK);
    assert_int_equal(dbl.dev.budget->backed, (2 * RUNS + 1) * PAGE);
    put(p, &c, 0, 11);
    drop_runs(p, b, o);
}

/* Others pin, free and take what was looked at, before windows are closed. */
static struct {
    tidei_pool *p;
    tidei_block *b, taken;
    double_owner *o;
} meanwhile;
static void pins_the_second(void) { meanwhile.o[1].pinned = true; }
static void frees_the_second(void) { put(meanwhile.p, &meanwhile.b[1], 1, 6); }
static void takes_a_quarter(void) { meanwhile.taken = must(meanwhile.p, PAGE / 4, 0); }

static void a_run_that_changes_meanwhile_is_chosen_again(void **state) {
    (void)state;
    void (*const all[])(void) = {pins_the_second, frees_the_second, takes_a_quarter};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++)
        for (unsigned caches = 0; caches < 2; caches++) {
            tidei_block b[RUNS], c;
            double_owner o[RUNS];
            tidei_pool *p = open_runs(b, o);
            keep_caches(p, caches);
            meanwhile.p = p, meanwhile.b = b, meanwhile.o = o, meanwhile.taken.bytes = 0;
            movers.on_begin = all[i];
            assert_int_equal(get(p, PAGE / 2 * 3, 0, last_resort, &c), TIDE_OK);
            assert_null(movers.on_begin);
            assert_true(balanced(p));
            if (meanwhile.taken.bytes) p->ops->free(p, &meanwhile.taken);
            if (all[i] == frees_the_second) b[1] = must(p, 256, 0);
            put(p, &c, 0, 11);
            drop_runs(p, b, o);
        }
}

/* Each call of each kind fails in turn; then the same is asked for again. */
static void a_run_that_is_refused_loses_nothing(void **state) {
    (void)state;
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++) {
        bool failed = true;
        for (long after = 0; failed; after++) {
            tidei_block b[RUNS], c;
            double_owner o[RUNS];
            tidei_pool *p = open_runs(b, o);
            atomic_store(&dbl.dev.budget->limit, (2 * RUNS + 1) * PAGE);
            for (unsigned i = 0; i < RUNS; i++) used_by(&b[i], 1 + i, 5);
            dbl.fail_after[kinds[k]] = after;
            tide_status st = get(p, 3 * PAGE, 0, last_resort, &c);
            failed = dbl.fail_after[kinds[k]] < 0;
            dbl.fail_after[kinds[k]] = -1;
            assert_true(failed || st == TIDE_OK);
            assert_true(balanced(p));
            assert_false(movers.closed);
            if (st != TIDE_OK) assert_int_equal(get(p, 3 * PAGE, 0, last_resort, &c), TIDE_OK);
            put(p, &c, 0, 0);
            drop_runs(p, b, o);
        }
        assert_true(k == 0 || dbl.calls[kinds[k]] > 0);
    }
}

/* ---- pages for others ---- */

/* With memory to be had as well, of which none is taken. */
static tidei_pool *open_for_others(tidei_block *b, double_owner *o) {
    tidei_pool *p = open_runs(b, o);
    dbl.dev.stream0 = &dbl.streams[0];
    atomic_store(&dbl.dev.budget->limit, 4 * RUNS * PAGE);
    dbl.peak = 0; /* of what is backed from now on */
    for (unsigned i = 0; i < RUNS; i++) used_by(&b[i], 1 + i, 5);
    return p;
}

/* Two pages are free in halves: one of them is had with a margin, both together only where they end
** a stretch. */
static void halves_of_pages_are_given_back(void **state) {
    (void)state;
    for (size_t wanted = 1; wanted <= 2 * PAGE; wanted += wanted < PAGE ? PAGE - 1 : PAGE / 2) {
        tidei_block b[RUNS];
        double_owner o[RUNS];
        tidei_pool *p = open_for_others(b, o);
        size_t given = p->ops->clear(p, wanted), left = figures(p).backed;
        assert_true(given >= tidei_round_up(wanted, PAGE));
        assert_int_equal(left + given, 2 * RUNS * PAGE);
        assert_int_equal(dbl.dev.budget->backed, left);
        assert_int_equal(dbl.peak, 0);
        assert_int_equal(figures(p).allocs, 2 * RUNS); /* it hands out nothing */
        assert_false(movers.closed);
        assert_true(balanced(p));
        drop_runs(p, b, o);
    }
}

/* More than is free is not given, but what is; and of what may not move nothing. */
static void no_more_than_there_is_is_given_back(void **state) {
    (void)state;
    tidei_block b[RUNS];
    double_owner o[RUNS];
    tidei_pool *p = open_for_others(b, o);
    assert_in_range(p->ops->clear(p, 5 * PAGE), PAGE, 2 * PAGE);
    assert_int_equal(dbl.peak, 0);
    assert_int_equal(p->ops->clear(p, 5 * PAGE), 0);
    drop_runs(p, b, o);
    p = open_for_others(b, o);
    for (unsigned i = 0; i < RUNS; i++) o[i].pinned = true;
    assert_int_equal(p->ops->clear(p, PAGE), 0);
    assert_int_equal(dbl.peak, 0);
    assert_int_equal(figures(p).backed, 2 * RUNS * PAGE);
    assert_true(balanced(p));
    drop_runs(p, b, o);
}

/* Where nothing has to move what is free may be pending still, on one stream or on several: the
** host waits for that alone, whether it counts that work is done or not. */
static void what_is_pending_on_free_pages_is_waited_for(void **state) {
    (void)state;
    for (unsigned streams = 1; streams <= 3; streams++)
        for (unsigned counts = 0; counts < 2; counts++) {
            tidei_pool *p = open_tide();
            dbl.dev.stream0 = &dbl.streams[0];
            p->mover = &double_mover;
            atomic_store(&p->attrs.deterministic, !counts);
            tidei_block b = must(p, 4 * PAGE, 1), kept = must(p, PAGE, 7);
            keep_caches(p, false);
            for (unsigned i = 0; i < streams; i++) used_by(&b, 1 + i, 5);
            put(p, &kept, 7, 5);
            p->ops->free(p, &b);
            assert_int_equal(p->ops->trim(p, 0), 0);
            assert_int_equal(p->ops->clear(p, 3 * PAGE), 4 * PAGE);
            for (unsigned i = 0; i < streams; i++) assert_int_equal(dbl.word[1 + i], 5);
            assert_int_equal(dbl.word[7], 0);
            assert_int_equal(figures(p).backed, PAGE);
            assert_false(((tidei_heap *)p)->takes[0]); /* its stream has wanted nothing */
            assert_true(balanced(p));
            close_clean(p);
        }
}

/* Each call of each kind fails in turn; then the same is asked for again. */
static void clearing_that_fails_loses_nothing(void **state) {
    (void)state;
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++) {
        bool failed = true;
        for (long after = 0; failed; after++) {
            tidei_block b[RUNS];
            double_owner o[RUNS];
            tidei_pool *p = open_for_others(b, o);
            dbl.fail_after[kinds[k]] = after;
            size_t given = p->ops->clear(p, PAGE);
            failed = dbl.fail_after[kinds[k]] < 0;
            dbl.fail_after[kinds[k]] = -1;
            assert_true(failed || given >= PAGE);
            assert_int_equal(figures(p).backed + given, 2 * RUNS * PAGE);
            assert_true(balanced(p));
            assert_false(movers.closed);
            if (given < PAGE) assert_true(p->ops->clear(p, PAGE) >= PAGE);
            drop_runs(p, b, o);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_freed_meanwhile_keeps_its_history),
        cmocka_unit_test(adds_in_one_piece),
        cmocka_unit_test(pages_go_elsewhere_once_work_is_done),
        cmocka_unit_test(remapping_that_fails_loses_nothing),
        cmocka_unit_test(a_refused_page_is_where_it_was_or_leaves),
        cmocka_unit_test(a_displaced_page_is_not_chosen),
        cmocka_unit_test(runs_become_one_stretch),
        cmocka_unit_test(pinned_runs_stay),
        cmocka_unit_test(new_memory_makes_up_for_what_runs_lack),
        cmocka_unit_test(a_run_that_changes_meanwhile_is_chosen_again),
        cmocka_unit_test(a_run_that_is_refused_loses_nothing),
        cmocka_unit_test(halves_of_pages_are_given_back),
        cmocka_unit_test(no_more_than_there_is_is_given_back),
        cmocka_unit_test(what_is_pending_on_free_pages_is_waited_for),
        cmocka_unit_test(clearing_that_fails_loses_nothing),
    };
    return cmocka_run_group_tests_name("pool_tide_pages", tests, NULL, NULL);
}
