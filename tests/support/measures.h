/* measures.h: how far a factorization or a solution is from what it should be, whatever computed
** it.
**
** Model. A matrix is row-major complex double. A measure is a ratio, as LAPACK's own tests have
** it: what is left over, divided by what rounding may leave in a type of this eps and a matrix of
** this size. A ratio of RATIO and more is a failure.
** What must stay true: a measure asks for what a routine promises and no more. The signs of
** vectors, what spans a null space and the order of equals are the library's choice, which may be
** another one on another processor. */
#ifndef TIDETEST_MEASURES_H
#define TIDETEST_MEASURES_H

#include "tests/support/tidetest.h"
#include <complex.h>
#include <math.h>

#define RATIO 30

typedef double complex number;

static inline double norm(int64_t m, int64_t n, const number *a) { /* Frobenius */
    double sum = 0;
    for (int64_t i = 0; i < m * n; i++)
        sum += creal(a[i]) * creal(a[i]) + cimag(a[i]) * cimag(a[i]);
    return sqrt(sum);
}

/* out = a^H, where a is m x n. */
static inline void adjoint_of(int64_t m, int64_t n, const number *a, number *out) {
    for (int64_t i = 0; i < m * n; i++) out[i % n * m + i / n] = conj(a[i]);
}

/* c = a b, or a^H b. */
static inline void product(int64_t m, int64_t k, int64_t n, const number *a, bool adjoint,
                           const number *b, number *c) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < k; q++) {
            number x = adjoint ? conj(a[q * m + i]) : a[i * k + q];
            for (int64_t j = 0; j < n; j++) c[i * n + j] += x * b[q * n + j];
        }
}

/* |a - b c| / |a|, where a is m x n, in units of eps times the longer side. */
static inline double product_residual(int64_t m, int64_t k, int64_t n, const number *a,
                                      const number *b, const number *c, double eps) {
    number *d = calloc((size_t)(m * n) + 1, sizeof *d);
    double whole = norm(m, n, a);
    product(m, k, n, b, false, c, d);
    for (int64_t i = 0; i < m * n; i++) d[i] -= a[i];
    double rest = norm(m, n, d);
    free(d);
    return whole > 0 ? rest / (whole * eps * (double)(m > n ? m : n)) : rest == 0 ? 0 : INFINITY;
}

/* |q^H q - 1|, where q is m x n with orthonormal columns. */
static inline double orthogonality(int64_t m, int64_t n, const number *q, double eps) {
    number *d = calloc((size_t)(n * n) + 1, sizeof *d);
    product(n, m, n, q, true, q, d);
    for (int64_t i = 0; i < n; i++) d[i * n + i] -= 1;
    double rest = norm(n, n, d);
    free(d);
    return rest / (eps * (double)m);
}

/* |a x - b| / (|a| |x|), where a is n x n and x and b are n x k. */
static inline double system_residual(int64_t n, int64_t k, const number *a, const number *x,
                                     const number *b, double eps) {
    number *r = calloc((size_t)(n * k) + 1, sizeof *r);
    product(n, n, k, a, false, x, r);
    for (int64_t i = 0; i < n * k; i++) r[i] -= b[i];
    double rest = norm(n, k, r), whole = norm(n, n, a) * norm(n, k, x);
    free(r);
    return whole > 0 ? rest / (whole * eps * (double)n) : rest == 0 ? 0 : INFINITY;
}

#define assert_ratio(ratio)                                                                        \
    do {                                                                                           \
        double r_ = (ratio);                                                                       \
        if (!(r_ < RATIO)) fail_msg("%s:%d: %s is %g", __func__, __LINE__, #ratio, r_);            \
    } while (0)

#endif
