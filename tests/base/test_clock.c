/* test_clock.c: the recorder's clock: times by a counter that stands still, jumps or begins anew,
** and by both clocks there are. */
#include "runtime/base/clock.h"
#include "tests/support/tidetest.h"
#include <unistd.h>

#define BATCH_NS ((uint64_t)1000000) /* from one comparison of the clocks to the next */
/* where the made-up counter stands at the start; it has two ticks a nanosecond */
#define COUNTED ((uint64_t)1 << 50)

static void assert_close(uint64_t ns, uint64_t expected, uint64_t apart) {
    assert_in_range(ns, expected > apart ? expected - apart : 0, expected + apart);
}

/* The counter is `jump` ticks further in the middle of batch 3. Times of that batch stay in it,
** those of others are right. */
static void check_jump(uint64_t jump) {
    const uint64_t start_ns = 12345;
    tidei_clock_pace p = {.start_ns = start_ns, .before = {COUNTED, 0}, .now = {COUNTED, 0}};
    uint64_t zero = COUNTED;
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t begin = i * BATCH_NS, end = begin + BATCH_NS, early = begin + BATCH_NS / 4,
                 late = end - BATCH_NS / 4;
        uint64_t early_ticks = zero + 2 * early;
        if (i == 3) zero += jump;
        uint64_t late_ticks = zero + 2 * late;
        tidei_clock_pace_add(&p, zero + 2 * end, start_ns + end);
        if (i == 3) {
            assert_in_range(tidei_clock_pace_ns(&p, early_ticks), begin, end);
            assert_in_range(tidei_clock_pace_ns(&p, late_ticks), begin, end);
        } else {
            assert_close(tidei_clock_pace_ns(&p, early_ticks), early, 1);
            assert_close(tidei_clock_pace_ns(&p, late_ticks), late, 1);
            assert_close(tidei_clock_pace_ns(&p, zero + 2 * begin), begin, 1);
        }
        assert_in_range(tidei_clock_pace_ns(&p, 0), 0, end);
        assert_int_equal(tidei_clock_pace_ns(&p, UINT64_MAX),
                         i == 3 && (int64_t)jump < 0 ? begin : end);
    }
}

static void a_counter_that_jumps_does_no_harm(void **state) {
    (void)state;
    check_jump(0);
    check_jump(BATCH_NS);
    check_jump((uint64_t)1 << 62);
    check_jump(-2 * BATCH_NS); /* it stood still */
    check_jump(-COUNTED);      /* it began anew */
}

/* An entry that comes late, or began long ago, has its time all the same. */
static void times_from_before(void **state) {
    tidei_clock_pace p = {.before = {COUNTED, 0}, .now = {COUNTED, 0}};
    (void)state;
    for (uint64_t i = 1; i <= 5; i++)
        tidei_clock_pace_add(&p, COUNTED + 2 * i * BATCH_NS, i * BATCH_NS);
    for (uint64_t ns = 0; ns <= 5 * BATCH_NS; ns += BATCH_NS / 10)
        assert_close(tidei_clock_pace_ns(&p, COUNTED + 2 * ns), ns, 1);
}

/* Where there is no counter ticks are the system's nanoseconds. With one they are as far apart. */
static void both_clocks_measure_the_same(void **state) {
    const uint64_t apart_ns = 1000000;
    (void)state;
    for (int counter = 0; counter <= tidei_clock_has_counter(); counter++) {
        const tidei_clock t = {.counter = counter};
        tidei_clock_pace p;
        tidei_clock_pace_start(&p, &t);
        for (int i = 0; i < 3; i++) {
            usleep(1000);
            uint64_t ns = tidei_now_ns(), ticks = tidei_clock_now(&t), later_ns = tidei_now_ns();
            if (!counter) assert_in_range(ticks, ns, later_ns);
            usleep(1000);
            tidei_clock_pace_compare(&p, &t);
            assert_in_range(tidei_clock_pace_ns(&p, ticks) + apart_ns, ns - p.start_ns,
                            later_ns - p.start_ns + 2 * apart_ns);
            assert_true(tidei_clock_pace_ns(&p, ticks) < p.now.ns);
        }
    }
}

int main(void) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_counter_that_jumps_does_no_harm),
        cmocka_unit_test(times_from_before),
        cmocka_unit_test(both_clocks_measure_the_same),
    };
    return cmocka_run_group_tests_name("ticks", cases, NULL, NULL);
}
