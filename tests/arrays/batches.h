/* batches.h: what the tests of batches share: sources of numbers, and looking whether a batch is
** the one that is due. */
#ifndef TIDETEST_BATCHES_H
#define TIDETEST_BATCHES_H

#include "tests/support/tidetest.h"

static const char *const collectors[] __attribute__((unused)) = {"refcount", "boehm"};
#define EACH_COLLECTOR(c) for (unsigned c = 0; c < 1 + TEST_BOEHM; c++)
static float rows[4096 * 16] __attribute__((unused));

static inline tide_runtime *open_with(const char *collector) {
    return test_open(&(tide_config){.collector = collector, .debug = 1});
}

/* The array number `k` of numbers 0, 1, ...: `samples` rows of `width`. */
static inline tide_data numbers(float *at, int64_t samples, int64_t width) {
    for (int64_t i = 0; i < samples * width; i++) at[i] = (float)i;
    return tide_data_host(TIDE_F32, 2, (int64_t[]){samples, width}, at);
}

static inline tide_batches *batches_of(tide_runtime *rt, const tide_batches_config *c) {
    tide_batches_config k = *c;
    tide_batches *b = NULL;
    k.struct_size = sizeof k;
    assert_ok(tide_batches_new(rt, &k, &b));
    return b;
}

/* `a` is rows `first` .. first + n-1 of numbers of this width. */
static inline void check_rows(tide_array *a, int64_t first, int64_t n, int64_t width) {
    static float got[1 << 16];
    assert_int_equal(tide_array_dim(a, 0), n);
    assert_true(n * width <= (int64_t)TIDEI_COUNT(got));
    assert_ok(tide_to_host(a, got, (size_t)(n * width) * sizeof *got));
    for (int64_t i = 0; i < n * width; i++)
        if (got[i] != (float)(first * width + i))
            fail_msg("element %d is %g, not %g", (int)i, (double)got[i],
                     (double)(first * width + i));
}

static inline void end_of(tide_batches *b) {
    tide_data none;
    assert_int_equal(tide_batches_next(b, &none), TIDE_END);
}

static inline void nothing_left(tide_runtime *rt) {
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.live, 0);
    if (!strcmp(test_rt(rt)->set.collector, "refcount")) assert_int_equal(s.arrays, 0);
}

#endif
