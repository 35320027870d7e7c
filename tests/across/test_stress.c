/* test_stress.c: threads near the limit, where no allocation fails that arithmetic does not force;
** and that the judge would see it. The same at length: tide-bench stress. */
#include "bench/stress.h"
#include <cblas.h>
#include "tests/support/tidetest.h"

/* ---- the judge ---- */

static forced_figures judged(const forced_event *at, size_t n, uint64_t limit, bool scans) {
    forced_figures f;
    forced_check(at, n, limit, 10, scans, &f);
    return f;
}
#define JUDGED(limit, scans, ...)                                                                  \
    judged((const forced_event[]){__VA_ARGS__},                                                    \
           TIDEI_COUNT(((const forced_event[]){__VA_ARGS__})), limit, scans)

static void what_fits_must_not_fail(void **state) {
    (void)state;
    /* 100 of 210 are held, 10 are apart: 100 more fit, and 101 do not. */
#define HELD {FORCED_ASK, 0, 120}, {FORCED_GOT, 0, 100}
    forced_figures f = JUDGED(210, false, HELD, {FORCED_ASK, 1, 100}, {FORCED_FAILED, 1, 100});
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.unforced, 1);
    assert_int_equal(f.least_spare, 0);
    assert_int_equal(f.peak, 200);
    assert_int_equal(f.asked, 2);
    f = JUDGED(210, false, HELD, {FORCED_ASK, 1, 101}, {FORCED_FAILED, 1, 100});
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.unforced, 0);
    f = JUDGED(210, false, HELD, {FORCED_WANT, 1, 101}, {FORCED_FAILED, 1, 100});
    assert_int_equal(f.failures - f.unforced, 1);
    assert_int_equal(f.peak, 120); /* what cannot be had is held by nobody */
}

static void only_the_time_of_the_question_counts(void **state) {
    (void)state;
    /* Others had too much before, or get it after: unforced. Between question and answer:
    ** forced. */
    forced_figures f =
        JUDGED(210, false, {FORCED_ASK, 0, 200}, {FORCED_GOT, 0, 200}, {FORCED_DROP, 0, 150},
               {FORCED_ASK, 1, 100}, {FORCED_FAILED, 1, 0}, {FORCED_ASK, 0, 150});
    assert_int_equal(f.unforced, 1);
    assert_int_equal(f.least_spare, 50);
    f = JUDGED(210, false, HELD, {FORCED_ASK, 1, 90}, {FORCED_ASK, 2, 50}, {FORCED_FAILED, 1, 0},
               {FORCED_GOT, 2, 0});
    assert_int_equal(f.failures - f.unforced, 1);
    f = JUDGED(210, false, HELD, {FORCED_ASK, 1, 90}, {FORCED_WANT, 2, 500}, {FORCED_FAILED, 1, 0},
               {FORCED_FAILED, 2, 0});
    assert_int_equal(f.failures, 2);
    assert_int_equal(f.unforced, 1);
}

static void pinned_pages_and_garbage_count(void **state) {
    (void)state;
    forced_figures f =
        JUDGED(210, false, HELD, {FORCED_PIN, 0, 30}, {FORCED_ASK, 1, 71}, {FORCED_FAILED, 1, 0});
    assert_int_equal(f.unforced, 0);
    f = JUDGED(210, false, HELD, {FORCED_PIN, 0, 30}, {FORCED_UNPIN, 0, 30}, {FORCED_ASK, 1, 71},
               {FORCED_FAILED, 1, 0});
    assert_int_equal(f.unforced, 1);
    /* 30 to spare, and 40 live that nobody holds: a collector that scans has kept them, one that
    ** counts has no excuse. */
    f = JUDGED(210, true, HELD, {FORCED_ASK, 1, 70}, {FORCED_FAILED, 1, 140});
    assert_int_equal(f.kept, 1);
    assert_int_equal(f.unforced, 0);
    f = JUDGED(210, true, HELD, {FORCED_ASK, 1, 70}, {FORCED_FAILED, 1, 130});
    assert_int_equal(f.unforced, 1);
    f = JUDGED(210, false, HELD, {FORCED_ASK, 1, 70}, {FORCED_FAILED, 1, 140});
    assert_int_equal(f.unforced, 1);
}

/* ---- the program ---- */

static void no_failure_but_forced_ones(const char *collector) {
    const double factors[] = {1.02, 1.1, 1.2};
    openblas_set_num_threads(1);
    for (size_t i = 0; i < TIDEI_COUNT(factors); i++) {
        stress_outcome r;
        const stress_options o = {.device = test_device(),
                                  .collector = collector,
                                  .factor = factors[i],
                                  .steps = test_quick()  ? 2000
                                           : test_long() ? 200000
                                                         : 12000,
                                  .threads = 4,
                                  .seed = (unsigned)i + 1};
        if (!stress_run(&o, &r)) fail_msg("%s, %.2f: %s", collector, o.factor, r.why);
        print_message("%s, %.2f: asked %u times, %u failures, %u too large, %u kept, %u unforced "
                      "(with %llu bytes to spare), %u climbs, %.0f %% filled\n%s\n",
                      collector, o.factor, (unsigned)r.found.asked, (unsigned)r.found.failures,
                      (unsigned)r.too_large, (unsigned)r.found.kept, (unsigned)r.found.unforced,
                      (unsigned long long)r.found.least_spare, (unsigned)r.climbs, 100 * r.filled,
                      r.found.unforced ? r.why : "");
        assert_int_equal(r.found.unforced, 0);
        assert_true(r.found.failures >= r.too_large); /* which the judge finds forced */
        /* what one word keeps may fail what all threads ask for meanwhile */
        assert_true(r.found.kept <= r.found.asked / 1000 + o.threads);
        if (!test_quick()) assert_true(r.too_large >= 4 && r.climbs > 0);
    }
}
static void nothing_fails_unforced_refcount(void **state) {
    (void)state;
    no_failure_but_forced_ones("refcount");
}
static void nothing_fails_unforced_boehm(void **state) {
    (void)state;
    if (!TEST_BOEHM) skip();
    no_failure_but_forced_ones("boehm");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_must_not_fail),
        cmocka_unit_test(only_the_time_of_the_question_counts),
        cmocka_unit_test(pinned_pages_and_garbage_count),
        cmocka_unit_test(nothing_fails_unforced_refcount),
        cmocka_unit_test(nothing_fails_unforced_boehm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
