/* ordered.h: what tests of order share: arrays of every type with what is hard to order, as views
** of every kind; the order as a slow comparison of numbers; and runtimes on a host device, plain or
** one that runs a GPU's kernels. */
#ifndef TIDETEST_ORDERED_H
#define TIDETEST_ORDERED_H

#include <math.h>
#include "tests/arrays/compiles.h"
#include "tests/doubles/emulated_device.h"
#include "tests/support/tidetest.h"

static inline int open_runtime(void **state) {
    *state = test_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static inline int open_collected(void **state) { /* nothing has to be released */
    *state = test_open(NULL);
    return 0;
}
static inline int open_emulated(void **state) {
    *state = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static inline int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static uint64_t seed = 88172645463325252u;
static inline uint64_t random_bits(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 2685821657736338717u;
}
static inline int64_t random_below(int64_t n) {
    return (int64_t)((random_bits() >> 11) % (uint64_t)n);
}

/* ---- elements ---- */

/* One that is hard to order, of few; or any bits. */
static inline void random_part(tide_dtype t, bool few, unsigned char *to) {
    static const double hard[] = {NAN, -NAN, 0.0, -0.0, INFINITY, -INFINITY, 1, -1, 2.5, 1e-40};
    tidei_kind kind = tidei_dtype_kind(t);
    uint64_t bits = random_bits();
    if (kind == TIDEI_KIND_FLOAT && few) {
        double v = hard[random_below((int64_t)TIDEI_COUNT(hard))];
        assert_ok(tidei_encode(tide_arg_float(v), t, "test", to));
    } else {
        if (few && random_below(4)) bits = (uint64_t)random_below(5) - 2;
        if (kind == TIDEI_KIND_BOOL) bits &= 1;
        memcpy(to, &bits, tide_dtype_size(t));
        /* copies on a device may make another NaN of one that signals */
        if (kind == TIDEI_KIND_FLOAT && isnan(tidei_decode(to, t).value.f))
            assert_ok(tidei_encode(tide_arg_float(NAN), t, "test", to));
    }
}
static inline unsigned char *random_elements(tide_dtype t, int64_t n, bool few) {
    tide_dtype part = tidei_real_of(t);
    size_t size = tide_dtype_size(part), parts = tide_dtype_size(t) / size;
    unsigned char *data = malloc((size_t)n * size * parts + 16);
    for (size_t i = 0; i < (size_t)n * parts; i++) random_part(part, few, data + i * size);
    return data;
}

/* As NumPy compares, NaN greatest: < 0, 0, > 0. */
static inline int compare_reals(double a, double b) {
    if (isnan(a) || isnan(b)) return !!isnan(a) - !!isnan(b);
    return (a > b) - (a < b);
}
static inline int compare(tide_dtype t, const void *x, const void *y) {
    tide_arg a = tidei_decode(x, t), b = tidei_decode(y, t);
    switch (a.kind) {
    case TIDE_ARG_FLOAT: return compare_reals(a.value.f, b.value.f);
    case TIDE_ARG_UINT: return (a.value.u > b.value.u) - (a.value.u < b.value.u);
    case TIDE_ARG_COMPLEX: break;
    default: return (a.value.i > b.value.i) - (a.value.i < b.value.i);
    }
    const double *p = a.value.c, *q = b.value.c;
    int p_class = 2 * !!isnan(p[0]) + !!isnan(p[1]), q_class = 2 * !!isnan(q[0]) + !!isnan(q[1]);
    if (p_class != q_class) return p_class - q_class;
    int real = compare_reals(p[0], q[0]);
    return real ? real : compare_reals(p[1], q[1]);
}

/* The places of n elements in order, stably. */
static struct {
    tide_dtype t;
    const unsigned char *from;
    int64_t stride; /* bytes */
    bool descending;
} comparing;
static inline int compare_places(const void *x, const void *y) {
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    int c = compare(comparing.t, comparing.from + a * comparing.stride,
                    comparing.from + b * comparing.stride);
    if (comparing.descending) c = -c;
    return c ? c : (a > b) - (a < b);
}
static inline void model_order(tide_dtype t, const unsigned char *from, int64_t stride, int64_t n,
                               bool descending, int64_t *places) {
    comparing.t = t, comparing.from = from, comparing.stride = stride;
    comparing.descending = descending;
    for (int64_t i = 0; i < n; i++) places[i] = i;
    qsort(places, (size_t)n, sizeof *places, compare_places);
}

/* ---- arrays ---- */

enum { PLAIN, TURNED, BACKWARD, SPARSE, STRETCHED, LAYOUTS };
/* An array of the shape, of at most 3 axes, whose elements lie as the layout says. The caller
** releases it. */
static inline tide_array *random_array(tide_runtime *rt, tide_dtype t, int ndim,
                                       const int64_t *shape, int layout, bool few) {
    static const char *const backward[] = {"", "::-1", "::-1, ::-1", "::-1, :, ::-1"},
                             *const sparse[] = {"", "::2", "::2, ::2", "::2, ::2, ::2"};
    int64_t dims[TIDE_MAX_RANK], n = 1;
    for (int i = 0; i < ndim; i++) {
        dims[i] = layout == TURNED ? shape[ndim - 1 - i] : shape[i];
        if (layout == SPARSE) dims[i] *= 2;
        if (layout == STRETCHED && i == 0 && ndim > 1) dims[i] = 1;
        n *= dims[i];
    }
    unsigned char *data = random_elements(t, n, few);
    tide_array *base = tide_from_host(rt, t, ndim, dims, data), *view = base;
    free(data);
    if (layout == TURNED) view = tide_transpose(base, NULL);
    if (layout == BACKWARD) view = tide_slice(base, backward[ndim]);
    if (layout == SPARSE) view = tide_slice(base, sparse[ndim]);
    if (layout == STRETCHED) view = tide_broadcast_to(base, ndim, shape);
    assert_array(view);
    if (view != base) tide_release(base);
    return view;
}

static inline unsigned char *elements_of(tide_array *a) {
    assert_array(a);
    size_t bytes = (size_t)tide_array_size(a) * tide_dtype_size(tide_array_dtype(a));
    unsigned char *data = malloc(bytes + 1);
    assert_ok(tide_to_host(a, data, bytes));
    return data;
}
/* Elements of the type, row-major, bit by bit; the array is released. */
static inline void has(tide_array *a, tide_dtype t, const void *want, int64_t n) {
    unsigned char *got = elements_of(a);
    assert_int_equal(tide_array_dtype(a), t);
    assert_int_equal(tide_array_size(a), n);
    assert_memory_equal(got, want, (size_t)n * tide_dtype_size(t));
    free(got);
    tide_release(a);
}
#define HAS(a, type, t, ...) has(a, t, (type[]){__VA_ARGS__}, TIDEI_COUNT(((type[]){__VA_ARGS__})))

#endif
