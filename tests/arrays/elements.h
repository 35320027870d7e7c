/* elements.h: the elements that an array must have, and numbers by chance. */
#ifndef TIDETEST_ELEMENTS_H
#define TIDETEST_ELEMENTS_H

#include "tests/support/tidetest.h"

static uint64_t seed = 88172645463325252u;
static inline int64_t random_below(int64_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)((seed >> 11) % (uint64_t)n);
}

/* The elements, in row-major order. */
static inline void has_bytes(tide_array *a, const void *want, size_t bytes) {
    assert_array(a);
    void *got = malloc(bytes + 1);
    assert_ok(tide_to_host(a, got, bytes));
    assert_memory_equal(got, want, bytes);
    free(got);
}
#define HAS_I32(a, ...) has_bytes(a, (int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}))
#define HAS_F32(a, ...) has_bytes(a, (float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}))
#define HAS_F64(a, ...) has_bytes(a, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}))

#endif
