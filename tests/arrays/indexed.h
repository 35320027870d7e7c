/* indexed.h: what tests of elements at index arrays share: runtimes, plain or with a GPU's kernels,
** emulated; short arrays that are written out. */
#ifndef TIDETEST_INDEXED_H
#define TIDETEST_INDEXED_H

#include "tests/arrays/compiles.h"
#include "tests/arrays/elements.h"
#include "tests/doubles/emulated_device.h"

static inline int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
static inline int open_emulated(void **state) {
    *state = emulated_open(NULL);
    return 0;
}
static inline int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}
/* How often to try what is slow by an emulator, or a sanitizer. */
static inline int rounds(tide_runtime *rt, int n) {
    return is_emulated(rt) || test_quick() ? n / 4 : n;
}

/* The elements in row-major order; freed by the caller. */
static inline void *bytes_of(tide_array *a) {
    assert_array(a);
    size_t bytes = (size_t)tide_array_size(a) * tide_dtype_size(tide_array_dtype(a));
    void *p = malloc(bytes + 1);
    assert_ok(tide_to_host(a, p, bytes));
    return p;
}

/* An array of one axis, of the elements that are listed; C is their type in C. */
#define ROW(rt, T, C, ...)                                                                         \
    tide_from_host(rt, T, SHAPE(TIDEI_COUNT(((C[]){__VA_ARGS__}))), (C[]){__VA_ARGS__})
#define F32(rt, ...) ROW(rt, TIDE_F32, float, __VA_ARGS__)
#define I32(rt, ...) ROW(rt, TIDE_I32, int32_t, __VA_ARGS__)
#define I64(rt, ...) ROW(rt, TIDE_I64, int64_t, __VA_ARGS__)

#endif
