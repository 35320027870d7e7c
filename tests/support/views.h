/* views.h: what tests of matrices share: random views of every kind, elements read back as numbers,
** and which of them meet in a batch. */
#ifndef TIDETEST_VIEWS_H
#define TIDETEST_VIEWS_H

#include "tests/support/tidetest.h"

static uint64_t seed;
static inline uint64_t draw(uint64_t n) { /* 0 .. n-1 */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

typedef struct numbers {
    int ndim;
    int64_t shape[TIDE_MAX_RANK], n;
    double *re, *im;
} numbers;

static inline numbers read_back(tide_array *a) {
    numbers x = {.ndim = tide_array_ndim(a), .n = tide_array_size(a)};
    tide_dtype t = tide_array_dtype(a);
    size_t size = tide_dtype_size(t), bytes = (size_t)x.n * size;
    unsigned char *raw = malloc(bytes + 1);
    for (int i = 0; i < x.ndim; i++) x.shape[i] = tide_array_dim(a, i);
    assert_ok(tide_to_host(a, raw, bytes));
    x.re = calloc((size_t)x.n + 1, sizeof *x.re);
    x.im = calloc((size_t)x.n + 1, sizeof *x.im);
    for (int64_t i = 0; i < x.n; i++) {
        tide_arg v = tidei_decode(raw + (size_t)i * size, t);
        x.re[i] = v.kind == TIDE_ARG_FLOAT     ? v.value.f
                  : v.kind == TIDE_ARG_COMPLEX ? v.value.c[0]
                  : v.kind == TIDE_ARG_UINT    ? (double)v.value.u
                                               : (double)v.value.i;
        if (v.kind == TIDE_ARG_COMPLEX) x.im[i] = v.value.c[1];
    }
    free(raw);
    return x;
}
static inline void drop(numbers *x) {
    free(x->re);
    free(x->im);
}

/* The index of the matrix (core 2) or vector (1) of x that meets place `i` of a batch, by the rules
** of broadcasting. */
static inline int64_t place_at(const numbers *x, int core, int nbatch, const int64_t *batch,
                               int64_t i) {
    int64_t at = 0, step = 1;
    for (int d = 1; d <= nbatch; d++) {
        int64_t index = i % batch[nbatch - d];
        i /= batch[nbatch - d];
        int mine = x->ndim - core - d;
        if (mine < 0) continue;
        if (x->shape[mine] != 1) at += index * step;
        step *= x->shape[mine];
    }
    return at;
}

/* Rows and columns of every kind of view: shape (batch..., rows, cols). */
enum {
    PLAIN,
    TRANSPOSED,
    STEPS,
    BACKWARDS,
    WINDOW,
    REPEATED_ROWS,
    REVERSED,
    BATCH_BACKWARDS,
    REPEATED,
    PATTERNS
};
typedef tide_array *make_fn(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape);
static inline tide_array *view_of(tide_runtime *rt, make_fn *make, tide_dtype t, int pattern,
                                  int ndim, const int64_t *shape) {
    int64_t s[TIDE_MAX_RANK], rows = shape[ndim - 2], cols = shape[ndim - 1];
    int perm[TIDE_MAX_RANK];
    char text[96];
    memcpy(s, shape, sizeof s[0] * (size_t)ndim);
    for (int i = 0; i < ndim; i++) perm[i] = i;
    switch (pattern) {
    case TRANSPOSED:
        s[ndim - 2] = cols;
        s[ndim - 1] = rows;
        perm[ndim - 2] = ndim - 1;
        perm[ndim - 1] = ndim - 2;
        return tide_transpose(make(rt, t, ndim, s), perm);
    case STEPS:
        s[ndim - 2] = 2 * rows;
        s[ndim - 1] = 3 * cols;
        return tide_slice(make(rt, t, ndim, s), "..., ::2, ::3");
    case BACKWARDS: return tide_slice(make(rt, t, ndim, s), "..., ::-1, ::-1");
    case WINDOW:
        s[ndim - 2] = rows + 3;
        s[ndim - 1] = cols + 5;
        snprintf(text, sizeof text, "..., 2:%lld, 4:%lld", (long long)rows + 2,
                 (long long)cols + 4);
        return tide_slice(make(rt, t, ndim, s), text);
    case REPEATED_ROWS:
        s[ndim - 2] = 1;
        return tide_broadcast_to(make(rt, t, ndim, s), ndim, shape);
    case REVERSED:
        for (int i = 0; i < ndim; i++) s[i] = shape[ndim - 1 - i];
        return tide_transpose(make(rt, t, ndim, s), NULL);
    case BATCH_BACKWARDS: return tide_slice(make(rt, t, ndim, s), ndim > 2 ? "::-1" : "::1");
    case REPEATED: return tide_broadcast_to(make(rt, t, 2, shape + ndim - 2), ndim, shape);
    default: return make(rt, t, ndim, s);
    }
}

#endif
