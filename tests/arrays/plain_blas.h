/* plain_blas.h: what tests of BLAS share: runtimes whose memory is checked, arrays and vectors of
** every kind of view, sums by plain loops and the bounds that rounding has. */
#ifndef TIDETEST_PLAIN_BLAS_H
#define TIDETEST_PLAIN_BLAS_H

#include <float.h>
#include <math.h>
#include "tests/arrays/checked.h"
#include "tests/support/views.h"

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};

static inline double epsilon(tide_dtype t) {
    return t == TIDE_F32 || t == TIDE_C64 ? FLT_EPSILON : DBL_EPSILON;
}
static inline bool is_complex(tide_dtype t) { return t == TIDE_C64 || t == TIDE_C128; }

/* In (-1, 1), of integers and bool a few small ones. */
static inline tide_array *random_numbers(tide_runtime *rt, tide_dtype t, int ndim,
                                         const int64_t *shape) {
    int64_t n = 1;
    size_t size = tide_dtype_size(t);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    unsigned char *data = calloc((size_t)n + 1, size);
    for (int64_t i = 0; i < n; i++) {
        double re = (double)draw(1 << 30) / (1 << 29) - 1,
               im = (double)draw(1 << 30) / (1 << 29) - 1;
        tidei_kind kind = tidei_dtype_kind(t);
        tide_arg x = kind == TIDEI_KIND_COMPLEX ? tide_arg_complex(re, im)
                     : kind == TIDEI_KIND_FLOAT ? tide_arg_float(re)
                     : kind == TIDEI_KIND_BOOL
                         ? tide_arg_bool(re > 0)
                         : tide_arg_int((int64_t)draw(7) - (kind == TIDEI_KIND_INT ? 3 : 0));
        assert_ok(tidei_encode(x, t, "test", data + (size_t)i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    assert_array(a);
    free(data);
    return a;
}

/* Vectors of every kind of view: shape (batch..., n). */
enum { V_PLAIN, V_STEPS, V_BACKWARDS, V_REPEATED, V_COLUMN, V_BATCH_BACKWARDS, V_PATTERNS };
static inline tide_array *vectors_of(tide_runtime *rt, tide_dtype t, int pattern, int ndim,
                                     const int64_t *shape) {
    int64_t s[TIDE_MAX_RANK];
    int perm[TIDE_MAX_RANK];
    memcpy(s, shape, sizeof s[0] * (size_t)ndim);
    switch (pattern) {
    case V_STEPS: s[ndim - 1] *= 3; return tide_slice(random_numbers(rt, t, ndim, s), "..., ::3");
    case V_BACKWARDS: return tide_slice(random_numbers(rt, t, ndim, s), "..., ::-1");
    case V_REPEATED:
        s[ndim - 1] = 1;
        return tide_broadcast_to(random_numbers(rt, t, ndim, s), ndim, shape);
    case V_COLUMN: /* of its transpose */
        for (int i = 0; i < ndim; i++) s[i] = shape[ndim - 1 - i], perm[i] = ndim - 1 - i;
        return tide_transpose(random_numbers(rt, t, ndim, s), perm);
    case V_BATCH_BACKWARDS:
        return tide_slice(random_numbers(rt, t, ndim, s), ndim > 1 ? "::-1" : "::1");
    default: return random_numbers(rt, t, ndim, s);
    }
}

/* A sum, and the sum of the magnitudes that it is of. */
typedef struct sum {
    long double re, im, size;
} sum;
static inline void add(sum *s, const numbers *x, int64_t i, const numbers *y, int64_t j) {
    s->re += (long double)x->re[i] * y->re[j] - (long double)x->im[i] * y->im[j];
    s->im += (long double)x->re[i] * y->im[j] + (long double)x->im[i] * y->re[j];
    s->size += (long double)hypot(x->re[i], x->im[i]) * hypot(y->re[j], y->im[j]);
}
static inline void times(sum *s, const double f[2]) {
    long double re = s->re * f[0] - s->im * f[1], im = s->re * f[1] + s->im * f[0];
    s->re = re, s->im = im, s->size *= hypot(f[0], f[1]);
}
/* f times x's element. A factor 0 reads nothing. */
static inline void plus(sum *s, const double f[2], const numbers *x, int64_t i) {
    if (f[0] == 0 && f[1] == 0) return;
    sum one = {x->re[i], x->im[i], hypot(x->re[i], x->im[i])};
    times(&one, f);
    s->re += one.re, s->im += one.im, s->size += one.size;
}

/* gamma_n of n roundings, complex ones counted as the four real ones that they are. */
static inline void assert_near(const char *what, tide_dtype t, double n, const sum *want, double re,
                               double im, int64_t i) {
    double u = epsilon(t) / 2 * (is_complex(t) ? 4 : 1),
           bound = (n + 4) * u / (1 - (n + 4) * u) * (double)want->size;
    if (!(hypot(re - (double)want->re, im - (double)want->im) <= bound))
        fail_msg("%s of %s, element %lld: %.17g + %.17gi, wanted %.17g + %.17gi within %g", what,
                 tide_dtype_name(t), (long long)i, re, im, (double)want->re, (double)want->im,
                 bound);
}

typedef struct factors {
    tide_arg alpha, beta;
    double a[2], b[2];
} factors;
static inline factors draw_factors(tide_dtype t) {
    static const double some[][2] = {{1, 0}, {0, 0}, {-1, 0}, {0.5, 0}, {2, 1}, {0, -1}};
    const double *a = some[draw(is_complex(t) ? 6 : 4)], *b = some[draw(is_complex(t) ? 6 : 4)];
    factors f = {.a = {a[0], a[1]}, .b = {b[0], b[1]}};
    f.alpha = a[1] != 0 ? tide_arg_complex(a[0], a[1]) : tide_arg_float(a[0]);
    f.beta = b[1] != 0           ? tide_arg_complex(b[0], b[1])
             : b[0] == (int)b[0] ? tide_arg_int((int)b[0])
                                 : tide_arg_float(b[0]);
    return f;
}

static inline int64_t product_of(int n, const int64_t *d) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= d[i];
    return p;
}
/* A batch's shape; *mine: a part of it that stretches to it. Returns the number of dimensions. */
static inline int draw_batch(int64_t *batch) {
    int n = (int)draw(3);
    for (int i = 0; i < n; i++) batch[i] = 1 + (int64_t)draw(3);
    return n;
}
static inline int draw_part(int nbatch, const int64_t *batch, int64_t *mine) {
    int n = (int)draw((uint64_t)nbatch + 1);
    for (int i = 0; i < n; i++) mine[i] = draw(3) ? batch[nbatch - n + i] : 1;
    return n;
}

#endif
