/* matrices.h: matrices for tests of linear algebra: made of every type, kind and view, and read
** back as complex double. */
#ifndef TIDETEST_MATRICES_H
#define TIDETEST_MATRICES_H

#include "tests/arrays/checked.h"
#include "tests/support/measures.h"
#include <float.h>

/* ---- numbers ---- */

static uint64_t seed = 1;
static inline uint64_t draw(uint64_t n) { /* 0 .. n-1 */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}
static inline double uniform(void) { return (double)draw(2000001) / 1e6 - 1; } /* -1 .. 1 */

static inline bool is_complex(tide_dtype t) { return t == TIDE_C64 || t == TIDE_C128; }
static inline tide_dtype wide_of(tide_dtype t) { return t < TIDE_F32 ? TIDE_F64 : t; }
static inline tide_dtype real_of(tide_dtype t) {
    return wide_of(t) == TIDE_C64 ? TIDE_F32 : wide_of(t) == TIDE_C128 ? TIDE_F64 : wide_of(t);
}
static inline double epsilon(tide_dtype t) {
    return real_of(t) == TIDE_F32 ? FLT_EPSILON : DBL_EPSILON;
}

/* ---- arrays as numbers ---- */

typedef struct values {
    int ndim;
    int64_t shape[TIDE_MAX_RANK], n;
    number *at; /* row-major */
} values;

static inline values read_back(tide_array *a) {
    assert_array(a);
    values x = {.ndim = tide_array_ndim(a), .n = tide_array_size(a)};
    tide_dtype t = tide_array_dtype(a);
    size_t size = tide_dtype_size(t), bytes = (size_t)x.n * size;
    unsigned char *raw = malloc(bytes + 1);
    for (int i = 0; i < x.ndim; i++) x.shape[i] = tide_array_dim(a, i);
    assert_ok(tide_to_host(a, raw, bytes));
    x.at = calloc((size_t)x.n + 1, sizeof *x.at);
    for (int64_t i = 0; i < x.n; i++) {
        tide_arg v = tidei_decode(raw + (size_t)i * size, t);
        x.at[i] = v.kind == TIDE_ARG_FLOAT     ? v.value.f
                  : v.kind == TIDE_ARG_COMPLEX ? CMPLX(v.value.c[0], v.value.c[1])
                  : v.kind == TIDE_ARG_UINT    ? (double)v.value.u
                                               : (double)v.value.i;
    }
    free(raw);
    return x;
}
static inline void drop(values *x) { free(x->at); }

/* Numbers as an array of type t, whose imaginary parts are dropped where it has none. */
static inline tide_array *array_of(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                                   const number *v) {
    int64_t n = 1;
    size_t size = tide_dtype_size(t);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    unsigned char *data = calloc((size_t)n + 1, size);
    for (int64_t i = 0; i < n; i++) {
        tidei_kind kind = tidei_dtype_kind(t);
        double re = kind == TIDEI_KIND_COMPLEX || kind == TIDEI_KIND_FLOAT ? creal(v[i])
                                                                           : rint(creal(v[i]) * 20);
        tide_arg x = kind == TIDEI_KIND_COMPLEX ? tide_arg_complex(re, cimag(v[i]))
                     : kind == TIDEI_KIND_FLOAT ? tide_arg_float(re)
                                                : tide_arg_int((int64_t)re);
        assert_ok(tidei_encode(x, t, "test", data + (size_t)i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    assert_array(a);
    free(data);
    return a;
}

static inline void assert_shape(tide_array *a, tide_dtype t, int ndim, const int64_t *shape) {
    assert_array(a);
    assert_int_equal(tide_array_dtype(a), t);
    assert_int_equal(tide_array_ndim(a), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(tide_array_dim(a, i), shape[i]);
    assert_true(tide_array_is_contiguous(a));
}

/* ---- kinds of matrices, and of views ---- */

enum { RANDOM, GRADED, DEFICIENT, HERMITIAN, DEFINITE, KINDS };

static inline void fill_matrix(number *a, tide_dtype t, int kind, int64_t m, int64_t n) {
    bool complex_too = is_complex(t);
    int64_t r = m < n ? m / 2 : n / 2; /* rank of the deficient */
    for (int64_t i = 0; i < m * n; i++) a[i] = CMPLX(uniform(), complex_too ? uniform() : 0);
    if (m * n == 1) a[0] += creal(a[0]) < 0 ? -1 : 1; /* no integer 0, which has no inverse */
    if (kind == GRADED && m > 1)
        for (int64_t i = 0; i < m * n; i++)
            a[i] *= pow(real_of(t) == TIDE_F32 ? 1e-4 : 1e-10, (double)(i / n) / (double)(m - 1));
    if (kind == DEFICIENT) /* the later rows are sums of earlier ones */
        for (int64_t i = r; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                a[i * n + j] = r ? a[i % r * n + j] + a[(i + 1) % r * n + j] : 0;
    if (kind == HERMITIAN || kind == DEFINITE)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                a[i * n + j] = i == j
                                   ? creal(a[i * n + i]) + (kind == DEFINITE ? (double)(2 * n) : 0)
                                   : conj(a[j * n + i]);
}

enum { PLAIN, TRANSPOSED, BACKWARDS, STEPS, STRETCHED, VIEWS };

/* The array as a view of another kind on other memory. */
static inline tide_array *as_view(tide_runtime *rt, tide_array *a, int view) {
    int ndim = tide_array_ndim(a), perm[TIDE_MAX_RANK];
    int64_t shape[TIDE_MAX_RANK];
    tide_array *v = NULL;
    for (int i = 0; i < ndim; i++) shape[i] = tide_array_dim(a, perm[i] = i);
    switch (view) {
    case TRANSPOSED:
        shape[ndim - 2] = tide_array_dim(a, -1);
        shape[ndim - 1] = tide_array_dim(a, -2);
        perm[ndim - 2] = ndim - 1;
        perm[ndim - 1] = ndim - 2;
        v = tide_transpose(tide_zeros(rt, tide_array_dtype(a), ndim, shape), perm);
        break;
    case BACKWARDS:
        v = tide_slice(tide_zeros(rt, tide_array_dtype(a), ndim, shape),
                       ndim > 2 ? "::-1, ..., ::-1, ::-1" : "::-1, ::-1");
        break;
    case STEPS:
        shape[ndim - 2] *= 2;
        shape[ndim - 1] = 3 * shape[ndim - 1] + 1;
        v = tide_slice(tide_zeros(rt, tide_array_dtype(a), ndim, shape), "..., ::2, 1::3");
        break;
    default: return a;
    }
    assert_array(v);
    assert_ok(tide_assign(v, a));
    return v;
}

/* A batch of matrices m x n, seen by a view. */
static inline tide_array *matrices(tide_runtime *rt, tide_dtype t, int kind, int view, int nbatch,
                                   const int64_t *batch, int64_t m, int64_t n) {
    int64_t shape[TIDE_MAX_RANK], count = 1;
    bool stretched = view == STRETCHED && nbatch;
    for (int i = 0; i < nbatch; i++) count *= shape[i] = stretched && i == 0 ? 1 : batch[i];
    shape[nbatch] = m;
    shape[nbatch + 1] = n;
    number *v = calloc((size_t)(count * m * n) + 1, sizeof *v);
    for (int64_t w = 0; w < count; w++) fill_matrix(v + w * m * n, t, kind, m, n);
    tide_array *a = array_of(rt, t, nbatch + 2, shape, v);
    free(v);
    if (!stretched) return as_view(rt, a, view);
    shape[0] = batch[0];
    a = tide_broadcast_to(a, nbatch + 2, shape);
    assert_array(a);
    return a;
}

#endif
