/* test_pool_tide_idle.c: the pool `tide`, over doubles, where nothing may move: whole pages on
** which nothing lies are mapped elsewhere in place of new memory, as far as nobody has to wait for
** another stream. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "runtime/pool/tide/tide.h"
#include <setjmp.h>

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (16 * KIB)

enum { PIECES = 16, LONG = 64 /* pages of a piece */ };

typedef struct bench {
    tidei_pool *p;
    tidei_block piece[PIECES], wall[PIECES];
} bench;

/* Long blocks with a short one behind each; without owners, so that nothing may move. */
static void bench_open(bench *b) {
    b->p = open_pool(&tidei_pool_tide, PAGE, 512 * MIB);
    b->p->mover = &double_mover;
    keep_caches(b->p, false);
    for (unsigned i = 0; i < PIECES; i++) {
        b->piece[i] = must(b->p, LONG * PAGE, 0);
        b->wall[i] = must(b->p, PAGE, 0);
    }
}

static void bench_close(bench *b) {
    for (unsigned i = 0; i < PIECES; i++) {
        if (b->piece[i].priv) put(b->p, &b->piece[i], 0, 0);
        put(b->p, &b->wall[i], 0, 0);
    }
    for (unsigned stream = 0; stream < 2; stream++) double_complete(stream, PIECES);
    b->p->ops->settle(b->p);
    b->p->ops->trim(b->p, 0);
    assert_int_equal(figures(b->p).backed, 0);
    close_clean(b->p);
}

static void give(bench *b, unsigned i, unsigned stream, uint64_t tick) {
    put(b->p, &b->piece[i], stream, tick);
    b->piece[i].priv = NULL;
}

/* A request for twice as much as any free piece: the pages of two pieces serve it. */
static void idle_pages_stand_in_for_new_memory(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    give(&b, 3, 0, 0);
    give(&b, 9, 0, 0);
    size_t backed = figures(b.p).backed;
    tidei_block large = must(b.p, 2 * LONG * PAGE, 0);
    assert_int_equal(figures(b.p).backed, backed);
    assert_true(figures(b.p).bytes_remapped >= LONG * PAGE);
    assert_int_equal(dbl.calls[CALL_WAIT], 0);
    assert_int_equal(large.stamps.n, 0);
    assert_true(balanced(b.p));
    put(b.p, &large, 0, 0);
    bench_close(&b);
}

/* What is missing is new, and no more than that. */
static void the_rest_is_new_memory(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    give(&b, 3, 0, 0);
    size_t backed = figures(b.p).backed;
    tidei_block large = must(b.p, 2 * LONG * PAGE, 0);
    assert_in_range(figures(b.p).backed, backed + PAGE, backed + LONG * PAGE);
    assert_true(figures(b.p).bytes_remapped > 0);
    assert_true(balanced(b.p));
    put(b.p, &large, 0, 0);
    bench_close(&b);
}

/* Pages with another stream's work stay where they are; once it is done, as the pool finds by
** itself, they serve. */
static void nobody_waits_for_work_of_others(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    give(&b, 3, 1, 7);
    size_t backed = figures(b.p).backed;
    tidei_block first = must(b.p, 2 * LONG * PAGE, 0);
    assert_true(figures(b.p).backed > backed);
    assert_int_equal(figures(b.p).bytes_remapped, 0);
    give(&b, 9, 1, 8);
    double_complete(1, 8);
    backed = figures(b.p).backed;
    tidei_block second = must(b.p, 2 * LONG * PAGE, 0);
    /* but for pages that the walls reach into */
    assert_true(figures(b.p).backed < backed + LONG * PAGE / 2);
    assert_true(figures(b.p).bytes_remapped > LONG * PAGE);
    assert_int_equal(dbl.calls[CALL_WAIT], 0);
    put(b.p, &first, 0, 0);
    put(b.p, &second, 0, 0);
    bench_close(&b);
}

/* Where much is free for the requester's stream at once, the host waits for that stream rather than
** that the pool grows. */
static void own_pending_pages_are_waited_for(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    give(&b, 3, 0, 7);
    give(&b, 9, 0, 8);
    size_t backed = figures(b.p).backed;
    tidei_block large = must(b.p, 2 * LONG * PAGE, 0);
    assert_int_equal(figures(b.p).backed, backed);
    assert_true(figures(b.p).bytes_remapped >= LONG * PAGE);
    assert_int_equal(dbl.calls[CALL_WAIT], 1);
    assert_true(balanced(b.p));
    put(b.p, &large, 0, 0);
    bench_close(&b);
}

/* ... but not where hardly any whole page would come of it. */
static void fragments_are_not_waited_for(void **state) {
    (void)state;
    enum { SMALL = 4 * LONG };
    bench b;
    tidei_block small[SMALL];
    bench_open(&b);
    for (unsigned i = 0; i < SMALL; i++) small[i] = must(b.p, PAGE * 3 / 4, 0);
    for (unsigned i = 0; i < SMALL; i += 2) put(b.p, &small[i], 0, 7);
    put(b.p, &b.wall[3], 0, 8); /* a whole page */
    tidei_block large = must(b.p, 90 * PAGE, 0);
    assert_int_equal(dbl.calls[CALL_WAIT], 0);
    assert_int_equal(figures(b.p).bytes_remapped, 0);
    put(b.p, &large, 0, 0);
    for (unsigned i = 1; i < SMALL; i += 2) put(b.p, &small[i], 0, 0);
    b.wall[3] = must(b.p, PAGE, 0);
    bench_close(&b);
}

static jmp_buf out_of_the_wait;
static void leave_the_wait(void) { longjmp(out_of_the_wait, 1); }

/* An embedder's callback may leave the wait: nothing is claimed by then, and the pages serve the
** next request. */
static void a_wait_that_is_left_takes_nothing_along(void **state) {
    (void)state;
    static bench b; /* of static life: longjmp leaves it alone */
    bench_open(&b);
    give(&b, 3, 0, 7);
    give(&b, 9, 0, 8);
    size_t backed = figures(b.p).backed;
    dbl.on_wait = leave_the_wait;
    if (!setjmp(out_of_the_wait)) {
        (void)must(b.p, 2 * LONG * PAGE, 0);
        fail_msg("nobody waited");
    }
    dbl.on_wait = NULL;
    tidei_block large = must(b.p, 2 * LONG * PAGE, 0);
    assert_int_equal(figures(b.p).backed, backed);
    assert_true(figures(b.p).bytes_remapped >= LONG * PAGE);
    assert_true(balanced(b.p));
    put(b.p, &large, 0, 0);
    bench_close(&b);
}

static tidei_pool *waited_in;
static tidei_block others;

static void another_wants_all(void) {
    dbl.on_wait = NULL;
    assert_int_equal(
        get(waited_in, 3 * LONG * PAGE, 1, TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED, &others),
        TIDE_OK);
}

/* While a thread waits for its stream, another one that is at its last resort gets memory. */
static void a_wait_is_in_nobodys_way(void **state) {
    (void)state;
    static const unsigned given[] = {1, 3, 5, 7, 9, 11};
    bench b;
    tidei_block large = {0};
    bench_open(&b);
    waited_in = b.p;
    atomic_store(&dbl.budget.limit, figures(b.p).backed);
    for (unsigned i = 0; i < TIDEI_COUNT(given); i++) give(&b, given[i], i > 1, 7 + i);
    dbl.on_wait = another_wants_all;
    tide_status st = get(b.p, 2 * LONG * PAGE, 0, 0, &large);
    assert_true(others.priv != NULL);
    if (st == TIDE_E_NOMEM) /* the other one took what was waited for; the rest is for this one */
        st = get(b.p, 2 * LONG * PAGE, 0, TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED, &large);
    assert_int_equal(st, TIDE_OK);
    assert_true(balanced(b.p));
    put(b.p, &large, 0, 0);
    put(b.p, &others, 1, 0);
    bench_close(&b);
}

/* ... but not where the rules say that nobody waits. */
static void without_the_rule_nobody_waits(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    atomic_fetch_and(&b.p->attrs.reuse, ~(unsigned)TIDEI_REUSE_WAIT);
    give(&b, 3, 0, 7);
    give(&b, 9, 0, 8);
    size_t backed = figures(b.p).backed;
    tidei_block large = must(b.p, 2 * LONG * PAGE, 0);
    assert_true(figures(b.p).backed > backed);
    assert_int_equal(figures(b.p).bytes_remapped, 0);
    assert_int_equal(dbl.calls[CALL_WAIT], 0);
    put(b.p, &large, 0, 0);
    bench_close(&b);
}

/* Pages go beside a free piece with the requester's own work, which stays pending on the whole. */
static void own_pending_work_beside_the_pages_is_no_matter(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    atomic_fetch_and(&b.p->attrs.reuse, ~(unsigned)TIDEI_REUSE_WAIT);
    put(b.p, &b.wall[PIECES - 1], 0, 9);
    give(&b, PIECES - 1, 0, 9); /* at the end of all memory */
    give(&b, 3, 0, 0);
    give(&b, 9, 0, 0);
    size_t backed = figures(b.p).backed;
    tidei_block large = must(b.p, 2 * LONG * PAGE, 0);
    assert_int_equal(figures(b.p).backed, backed);
    assert_true(figures(b.p).bytes_remapped > 0);
    assert_int_equal(dbl.calls[CALL_WAIT], 0);
    assert_int_equal(large.stamps.n, 1);
    assert_int_equal(tidei_stamps_at(&large.stamps)[0].tick, 9);
    assert_true(balanced(b.p));
    put(b.p, &large, 0, 9);
    b.wall[PIECES - 1] = must(b.p, PAGE, 0);
    bench_close(&b);
}

/* A page or two of a large request are not worth unmapping and mapping. */
static void few_idle_pages_stay(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    tidei_block two;
    give(&b, 3, 0, 0);
    two = must(b.p, LONG * PAGE - 2 * PAGE, 0);
    tidei_block large = must(b.p, 2 * LONG * PAGE, 0);
    assert_int_equal(figures(b.p).bytes_remapped, 0);
    put(b.p, &two, 0, 0);
    put(b.p, &large, 0, 0);
    bench_close(&b);
}

/* Whichever call is refused: a request that fits is served, or fails with what the device said, and
** all is in order. */
static void every_refusal_leaves_order(void **state) {
    (void)state;
    static const struct {
        enum double_call call;
        tide_status with;
    } calls[] = {{CALL_HOST, TIDE_E_HOST_NOMEM}, {CALL_BACK, TIDE_E_NOMEM},
                 {CALL_PAGE_NEW, TIDE_E_DEVICE}, {CALL_MAP, TIDE_E_DEVICE},
                 {CALL_MAP, TIDE_E_NOMEM},       {CALL_UNMAP, TIDE_E_DEVICE},
                 {CALL_WAIT, TIDE_E_DEVICE}};
    for (unsigned k = 0; k < TIDEI_COUNT(calls); k++) {
        bool failed = true;
        for (long after = 0; failed; after++) {
            bench b;
            tidei_block large = {0};
            bench_open(&b);
            for (unsigned i = 1; i < PIECES; i += 3) give(&b, i, 0, i);
            dbl.fail_with = calls[k].with;
            dbl.fail_after[calls[k].call] = after;
            tide_status st = get(b.p, 4 * LONG * PAGE, 0, 0, &large);
            failed = dbl.fail_after[calls[k].call] < 0;
            dbl.fail_after[calls[k].call] = -1;
            assert_true(st == TIDE_OK || (failed && st == calls[k].with));
            assert_true(balanced(b.p));
            if (st == TIDE_OK) put(b.p, &large, 0, 0);
            bench_close(&b);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_pages_stand_in_for_new_memory),
        cmocka_unit_test(the_rest_is_new_memory),
        cmocka_unit_test(nobody_waits_for_work_of_others),
        cmocka_unit_test(own_pending_pages_are_waited_for),
        cmocka_unit_test(fragments_are_not_waited_for),
        cmocka_unit_test(a_wait_that_is_left_takes_nothing_along),
        cmocka_unit_test(a_wait_is_in_nobodys_way),
        cmocka_unit_test(without_the_rule_nobody_waits),
        cmocka_unit_test(own_pending_work_beside_the_pages_is_no_matter),
        cmocka_unit_test(few_idle_pages_stay),
        cmocka_unit_test(every_refusal_leaves_order),
    };
    return cmocka_run_group_tests_name("pool_tide_idle", tests, NULL, NULL);
}
