/* holds.h: what tests of expressions share: arrays of given elements, and what an array must hold.
** In the group's runtime (scoped.h). */
#ifndef TIDETEST_HOLDS_H
#define TIDETEST_HOLDS_H

#include <math.h>
#include "tests/arrays/expr/scoped.h"

#define ITEMS(...)                                                                                 \
    (const double[]) { __VA_ARGS__ }

static inline tide_array *array(tide_dtype t, int ndim, const int64_t *shape, const double *v) {
    size_t n = 1, size = tide_dtype_size(t);
    for (int i = 0; i < ndim; i++) n *= (size_t)shape[i];
    unsigned char *data = malloc(n * size + 1);
    for (size_t i = 0; i < n; i++)
        assert_ok(tidei_encode(t < TIDE_F16 ? tide_arg_int((int64_t)v[i]) : tide_arg_float(v[i]), t,
                               "test", data + i * size));
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    free(data);
    assert_array(a);
    return a;
}
static inline tide_array *vector(tide_dtype t, int64_t n, const double *v) {
    return array(t, 1, &n, v);
}

/* 0, 1, 2, ... in this shape. */
static inline tide_array *counting(tide_dtype t, int ndim, const int64_t *shape) {
    double v[4096];
    for (int i = 0; i < 4096; i++) v[i] = i;
    return array(t, ndim, shape, v);
}

static inline double element(const unsigned char *data, tide_dtype t, size_t i) {
    tide_arg v = tidei_decode(data + i * tide_dtype_size(t), t);
    return v.kind == TIDE_ARG_FLOAT  ? v.value.f
           : v.kind == TIDE_ARG_UINT ? (double)v.value.u
                                     : (double)v.value.i;
}

/* The array has this type, shape and (nearly) these elements. */
static inline void holds(tide_array *a, tide_dtype t, int ndim, const int64_t *shape,
                         const double *want) {
    assert_array(a);
    assert_int_equal(tide_array_dtype(a), t);
    assert_int_equal(tide_array_ndim(a), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(tide_array_dim(a, i), shape[i]);
    size_t n = (size_t)tide_array_size(a), bytes = n * tide_dtype_size(t);
    unsigned char *data = malloc(bytes + 1);
    assert_ok(tide_to_host(a, data, bytes));
    double tolerance = t == TIDE_F64                     ? 1e-13
                       : t == TIDE_F32                   ? 1e-5
                       : t == TIDE_F16 || t == TIDE_BF16 ? 1e-2
                                                         : 0;
    for (size_t i = 0; i < n; i++) {
        double got = element(data, t, i);
        bool fine = isnan(want[i]) ? isnan(got)
                                   : got == want[i] ||
                                         fabs(got - want[i]) <= tolerance * fmax(1, fabs(want[i]));
        if (!fine) fail_msg("element %zu is %.17g, not %.17g", i, got, want[i]);
    }
    free(data);
}

#endif
