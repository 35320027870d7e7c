/* test_early_collections.c: collections before memory runs out: when the policy is asked, what it
** is told, and what the log says of each round. */
#include <pthread.h>
#include "runtime/pool/tide/tide.h"
#include "tests/gc/keeper.h"
#include "tests/support/logged.h"

static void the_log_tells_each_round(void **state) {
    mock_tracer m;
    double ms;
    char rest[8];
    (void)state;
    COUNTS_ROUNDS();
    logged.n = 0;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB",
                                                            .policy = "cudajl",
                                                            .log = keep_line,
                                                            .log_level = TIDE_LOG_DEBUG});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 3; i++) mock_drop(&m, mock_hold(&m, make(rt, 1 << 20)));
    mock_hold(&m, make(rt, 64)); /* at 3 of 4 MiB */
    assert_int_equal(test_stats(rt).early_collections, 1);
    assert_int_equal(lines_with(TIDE_LOG_INFO, "early: collected 3.0 MiB in "), 1);
    for (unsigned i = 0; i < logged.n; i++)
        if (!strncmp(logged.line[i], "early", 5)) {
            assert_int_equal(
                sscanf(logged.line[i], "early: collected 3.0 MiB in %lf %7s", &ms, rest), 2);
            assert_string_equal(rest, "ms");
        }
    assert_ok(tide_collect(rt));
    assert_int_equal(lines_with(TIDE_LOG_INFO, "tide_collect: collected 0 bytes in "), 1);
    /* A climb has its line, and each collection in it, also where they bring nothing. */
    assert_null(make(rt, (4 << 20) - 1));
    assert_int_equal(lines_with(TIDE_LOG_INFO, ", which was not enough"), 1);
    unsigned lines = lines_with(TIDE_LOG_INFO, "reclaim: collected 0 bytes in ") +
                     lines_with(TIDE_LOG_INFO, "early: collected") +
                     lines_with(TIDE_LOG_INFO, "tide_collect: collected");
    assert_true(lines_with(TIDE_LOG_INFO, "reclaim: collected 0 bytes in ") > 0);
    assert_int_equal(lines, test_stats(rt).collections);
    keeper_close();
    mock_end(&m);
}

/* Below its pressure the policy sleeps; asked at a sync point it acts at half. */
static void the_policy_acts_early_at_sync_points(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 40; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    assert_int_equal(test_stats(rt).early_collections, 0); /* 2.46 of 4 MiB */
    assert_int_equal(test_rt(rt)->devs[0].memory->wake_at, 3 << 20);
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    assert_int_equal(test_stats(rt).early_collections, 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    keeper_close();
    mock_end(&m);
}

/* Or the next allocation of each thread would be a slow one. */
static void a_question_leaves_threads_the_blocks_at_hand(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt =
        keeper_open(&kinds[0], (tide_config){.limit = "64MiB", .policy = "cudajl", .pool = "tide"});
    tidei_dev *d = &test_rt(rt)->devs[0];
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 4; i++) tide_free(make(rt, 4 << 10));
    (void)test_stats(rt); /* drains, and takes all blocks from the threads */
    tide_free(make(rt, 4 << 10));
    tidei_drain(test_rt(rt));
    int64_t at_hand = tidei_heap_tally((tidei_heap *)d->pool).held;
    assert_true(at_hand > 0);
    tidei_ask(test_rt(rt), d, TIDEI_AT_ALLOC, 4 << 10);
    tidei_ask(test_rt(rt), d, TIDEI_AT_SYNC, 0);
    assert_int_equal(tidei_heap_tally((tidei_heap *)d->pool).held, at_hand);
    keeper_close();
    mock_end(&m);
}

/* A round that ends while the policy's snapshot is taken: the policy is asked anew, not with
** figures from before it. */
static tide_runtime *asked;
static atomic_bool collects_once;
static uint64_t collecting_clock(void) {
    if (atomic_exchange(&collects_once, false)) {
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, collect_in_thread, asked), 0);
        pthread_join(other, NULL);
    }
    return tidei_now_ns();
}

static void a_round_may_end_while_the_policy_is_asked(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 40; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    assert_int_equal(test_stats(rt).collections, 0);
    asked = rt;
    atomic_store(&collects_once, true);
    test_rt(rt)->gc_counts.clock_ns = collecting_clock;
    /* 2.46 of 4 MiB: it would collect */
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    assert_int_equal(test_stats(rt).collections, 1);
    assert_int_equal(test_stats(rt).early_collections, 0);
    assert_int_equal(test_rt(rt)->devs[0].memory->wake_at, 0);
    keeper_close();
    mock_end(&m);
}

/* Early collections keep the ladder unclimbed, and are counted. */
static void early_collections_spare_the_ladder(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "reserve"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 400; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    tide_runtime_figures s = test_stats(rt);
    assert_in_range(s.early_collections, 6, 18); /* every 97 to 35 % of the limit */
    assert_int_equal(s.climbs, 0);
    assert_int_equal(s.collections, s.early_collections);
    assert_true(s.collect_max_ns <= s.collect_ns);
    assert_int_equal(s.collected, s.frees * (63 << 10));
    keeper_close();
    mock_end(&m);
}

static void early_collections_can_be_switched_off(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB", .gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 100; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.early_collections, 0);
    assert_true(s.climbs > 0); /* and yet nothing failed */
    keeper_close();
    mock_end(&m);
}

/* Data that really are live: collections that free nothing die out as the room shrinks. */
static void fruitless_collections_die_out(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "reserve"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 62; i++) mock_hold(&m, make(rt, 63 << 10));
    for (unsigned i = 0; i < 2000; i++) {
        tide_release(make(rt, 1024));
        tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
        tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_ALLOC, 300 << 10); /* too much */
    }
    assert_in_range(test_stats(rt).collections, 1, 12);
    keeper_close();
    mock_end(&m);
}

/* Without a tracing collector there is nobody to ask, and nothing is lost by asking. */
static void without_a_tracing_collector_nobody_is_asked(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB"});
    for (unsigned i = 0; i < 10; i++) hold(i, make(rt, 63 << 10));
    assert_true(test_rt(rt)->devs[0].memory->wake_at == SIZE_MAX);
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).collections, 0);
    for (unsigned i = 0; i < 10; i++) drop(i);
    keeper_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_tells_each_round),
        cmocka_unit_test(the_policy_acts_early_at_sync_points),
        cmocka_unit_test(a_question_leaves_threads_the_blocks_at_hand),
        cmocka_unit_test(a_round_may_end_while_the_policy_is_asked),
        cmocka_unit_test(early_collections_spare_the_ladder),
        cmocka_unit_test(early_collections_can_be_switched_off),
        cmocka_unit_test(fruitless_collections_die_out),
        cmocka_unit_test(without_a_tracing_collector_nobody_is_asked),
    };
    return cmocka_run_group_tests_name("early_collections", tests, NULL, NULL);
}
