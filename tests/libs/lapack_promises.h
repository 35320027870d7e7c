/* lapack_promises.h: what a routine promises of what it leaves in its operands (libs/solver.h),
** and whether that is so.
**
** Model. A problem is judged by what went in and what was got, whatever computed it: by residuals,
** by the orthogonality of what is orthogonal, by what is unique (singular values, eigenvalues, Q
** of given reflectors). What nobody may write is compared to the bit: elements that are nobody's,
** operands that are only read, the triangle that Cholesky does not read. All in complex double, of
** every type.
** What must stay true: nothing is compared that a library may choose: the signs and phases of
** vectors, the vectors of a null space, pivots among equals, how anything is rounded. Such a
** comparison fails on another processor, where nothing is wrong. */
#ifndef TIDETEST_LAPACK_PROMISES_H
#define TIDETEST_LAPACK_PROMISES_H

#include "tests/libs/lapack_operands.h"
#include "tests/support/measures.h"
#include <float.h>

/* Of matrix w: the first promise that is broken, and its measure. */
typedef struct verdict {
    const problem *p;
    int64_t w;
    double eps;
    const char *broken; /* NULL: none */
    double ratio;
    number *held[16]; /* matrices that are needed for it */
    int nheld;
} verdict;

static void within(verdict *v, const char *promise, double ratio) {
    if (v->broken || ratio < RATIO) return;
    v->broken = promise;
    v->ratio = ratio;
}
static void holds(verdict *v, const char *promise, bool so) {
    within(v, promise, so ? 0 : INFINITY);
}

/* ---- matrices ---- row-major */

static number *hold(verdict *v, int64_t rows, int64_t cols) {
    number *a = calloc((size_t)(rows * cols), sizeof *a);
    assert_non_null(a);
    assert_true(v->nheld < (int)TIDEI_COUNT(v->held));
    return v->held[v->nheld++] = a;
}

static double real_at(const char *p, size_t i, size_t size) {
    float f;
    double d;
    if (size == 8) return memcpy(&d, p + 8 * i, 8), d;
    return memcpy(&f, p + 4 * i, 4), (double)f;
}
/* An element of operand i, of what went in or what was got. */
static number element(const problem *p, int i, const char *bytes, int64_t w, int64_t row,
                      int64_t col) {
    const char *at = bytes + place_of(p, i, w, row, col);
    size_t part = part_of(&p->x);
    return CMPLX(real_at(at, 0, part), p->op[i].size > part ? real_at(at, 1, part) : 0);
}
static number *read_matrix(verdict *v, int i, const char *bytes) {
    const operand *o = &v->p->op[i];
    number *a = hold(v, o->rows, o->cols);
    for (int64_t k = 0; k < o->rows * o->cols; k++)
        a[k] = element(v->p, i, bytes, v->w, k / o->cols, k % o->cols);
    return a;
}
static number *given(verdict *v, int i) { return read_matrix(v, i, v->p->op[i].in); }
static number *got(verdict *v, int i) { return read_matrix(v, i, v->p->op[i].got); }

/* Hermitian, of the triangle of A that is read. */
static number *hermitian(verdict *v) {
    int64_t n = v->p->x.n;
    number *a = given(v, A), *h = hold(v, n, n);
    for (int64_t k = 0; k < n * n; k++) {
        bool read = v->p->x.upper ? k % n >= k / n : k % n <= k / n;
        h[k] = read ? a[k] : conj(a[k % n * n + k / n]);
    }
    return h;
}
static number *adjoint(verdict *v, int64_t m, int64_t n, const number *a) {
    number *h = hold(v, n, m);
    adjoint_of(m, n, a, h);
    return h;
}
static number *times_diagonal(verdict *v, int64_t m, int64_t n, const number *a, int64_t stride,
                              const number *d) {
    number *c = hold(v, m, n);
    for (int64_t k = 0; k < m * n; k++) c[k] = a[k / n * stride + k % n] * d[k % n];
    return c;
}

/* ---- LU ---- */

static int64_t pivot(const verdict *v, const char *bytes, int64_t i) { /* counting from 0 */
    const char *at = bytes + place_of(v->p, B, v->w, i, 0);
    int64_t wide;
    int narrow;
    if (v->p->op[B].size == 8) return memcpy(&wide, at, 8), wide - 1;
    return memcpy(&narrow, at, 4), narrow - 1;
}
static void exchange_rows(number *a, int64_t n, int64_t i, int64_t k) {
    for (int64_t j = 0; j < n; j++) {
        number was = a[i * n + j];
        a[i * n + j] = a[k * n + j];
        a[k * n + j] = was;
    }
}
static void split(verdict *v, const number *f, int64_t m, int64_t n, number **l, number **u) {
    int64_t least = m < n ? m : n;
    *l = hold(v, m, least);
    *u = hold(v, least, n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            if (i > j)
                (*l)[i * least + j] = f[i * n + j];
            else
                (*u)[i * n + j] = f[i * n + j];
    for (int64_t i = 0; i < least; i++) (*l)[i * least + i] = 1;
}

static void judge_lu(verdict *v) {
    int64_t m = v->p->x.m, n = v->p->x.n, least = lesser_side(&v->p->x);
    number *a = given(v, A), *f = got(v, A), *l, *u;
    for (int64_t i = 0; i < least; i++) {
        int64_t k = pivot(v, v->p->op[B].got, i);
        holds(v, "a pivot is one of the rows that are left", k >= i && k < m);
        if (v->broken) return;
        exchange_rows(a, n, i, k);
    }
    split(v, f, m, n, &l, &u);
    /* Of complex numbers the sum of both parts is what is largest. */
    for (int64_t i = 0; i < m * least; i++)
        holds(v, "pivots are the largest of their columns", cabs(l[i]) <= 1.42);
    within(v, "P A = L U", product_residual(m, least, n, a, l, u, v->eps));
}

static void judge_solution(verdict *v) {
    const tidei_lapack *x = &v->p->x;
    int64_t n = x->n;
    number *f = given(v, A), *a = hold(v, n, n), *turned = hold(v, n, n), *l, *u;
    split(v, f, n, n, &l, &u);
    product(n, n, n, l, false, u, a);
    for (int64_t i = n; i-- > 0;) exchange_rows(a, n, i, pivot(v, v->p->op[B].in, i));
    for (int64_t k = 0; k < n * n; k++) turned[k] = a[k % n * n + k / n];
    within(v, x->trans ? "A^T X = B" : "A X = B",
           system_residual(n, x->k, x->trans ? turned : a, got(v, C), given(v, C), v->eps));
}

/* ---- Cholesky and QR ---- */

static void judge_cholesky(verdict *v) {
    int64_t n = v->p->x.n;
    bool upper = v->p->x.upper;
    number *f = got(v, A);
    for (int64_t k = 0; k < n * n; k++) {
        if (upper ? k % n < k / n : k % n > k / n) f[k] = 0;
        if (k % n == k / n)
            holds(v, "the diagonal is real and positive", creal(f[k]) > 0 && cimag(f[k]) == 0);
    }
    number *h = adjoint(v, n, n, f);
    within(v, upper ? "A = U^H U" : "A = L L^H",
           product_residual(n, n, n, hermitian(v), upper ? h : f, upper ? f : h, v->eps));
}

/* The first columns of the product of k reflectors, which lie below the diagonal of f (m x n). */
static number *product_of_reflectors(verdict *v, int64_t m, int64_t n, int64_t k, const number *f,
                                     const number *tau, int64_t columns) {
    number *q = hold(v, m, columns), *r = hold(v, m, 1), *along = hold(v, 1, columns);
    for (int64_t i = 0; i < m && i < columns; i++) q[i * columns + i] = 1;
    while (k-- > 0) {
        for (int64_t i = 0; i < m; i++) r[i] = i < k ? 0 : i == k ? 1 : f[i * n + k];
        product(1, m, columns, r, true, q, along);
        for (int64_t i = 0; i < m * columns; i++)
            q[i] -= tau[k] * r[i / columns] * along[i % columns];
    }
    return q;
}

static void judge_qr(verdict *v) {
    int64_t m = v->p->x.m, n = v->p->x.n;
    number *f = got(v, A),
           *q = product_of_reflectors(v, m, n, lesser_side(&v->p->x), f, got(v, B), m);
    for (int64_t k = 0; k < m * n; k++)
        if (k % n < k / n) f[k] = 0;
    within(v, "A = Q R", product_residual(m, m, n, given(v, A), q, f, v->eps));
    within(v, "Q is unitary", orthogonality(m, m, q, v->eps));
}

static void judge_q(verdict *v) {
    int64_t m = v->p->x.m, n = v->p->x.n;
    number *q = got(v, A),
           *want = product_of_reflectors(v, m, n, v->p->x.k, given(v, A), given(v, B), n);
    for (int64_t i = 0; i < m * n; i++) q[i] -= want[i];
    within(v, "Q is the product of the reflectors", norm(m, n, q) / (v->eps * (double)m));
}

/* ---- singular values and eigenvalues ---- */

/* Those of the same numbers by LAPACK in double precision. */
static void check_values(verdict *v, const number *values, const double *want, int64_t n,
                         double longer) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        within(v, "the values are the matrix's",
               cabs(values[i] - want[i]) / (most * v->eps * longer));
}

static void judge_svd(verdict *v) {
    const tidei_lapack *x = &v->p->x;
    int64_t m = x->m, n = x->n, columns = v->p->op[C].cols;
    double want[64], rest[64];
    number *a = given(v, A), *copy = given(v, A), *s = got(v, B);
    for (int64_t i = 0; i < n; i++)
        holds(v, "singular values descend to 0",
              creal(s[i]) >= 0 && (!i || creal(s[i]) <= creal(s[i - 1])));
    int info = LAPACKE_zgesvd(LAPACK_COL_MAJOR, 'N', 'N', (int)n, (int)m, copy, (int)n, want, NULL,
                              1, NULL, 1, rest);
    assert_int_equal(info, 0); /* of A^T, whose values are the same */
    check_values(v, s, want, n, (double)m);
    if (x->job == 'N') return;
    number *u = got(v, C), *vh = got(v, D);
    within(v, "A = U S V^H",
           product_residual(m, n, n, a, times_diagonal(v, m, n, u, columns, s), vh, v->eps));
    within(v, "the columns of U are orthonormal", orthogonality(m, columns, u, v->eps));
    within(v, "V is unitary", orthogonality(n, n, adjoint(v, n, n, vh), v->eps));
}

static void judge_eigen(verdict *v) {
    int64_t n = v->p->x.n;
    double want[64];
    number *a = hermitian(v), *copy = hermitian(v), *w = got(v, B);
    for (int64_t i = 1; i < n; i++) holds(v, "eigenvalues ascend", creal(w[i]) >= creal(w[i - 1]));
    int info = LAPACKE_zheevd(LAPACK_COL_MAJOR, 'N', 'U', (int)n, copy, (int)n, want);
    assert_int_equal(info, 0); /* of A^T, whose values are the same */
    check_values(v, w, want, n, (double)n);
    if (!v->p->x.vectors) return;
    number *vectors = got(v, A);
    within(v, "A = V W V^H",
           product_residual(n, n, n, a, times_diagonal(v, n, n, vectors, n, w),
                            adjoint(v, n, n, vectors), v->eps));
    within(v, "V is unitary", orthogonality(n, n, vectors, v->eps));
}

/* ---- what stays as it was ---- */

static bool is_written(const tidei_lapack *x, int i, int64_t row, int64_t col) {
    if (x->routine == TIDEI_GETRS) return i == C;
    if (x->routine == TIDEI_ORGQR) return i == A;
    if (x->routine == TIDEI_POTRF && i == A) return x->upper ? col >= row : col <= row;
    return true;
}
static void judge_rest(verdict *v, int i) {
    static const char *const promises[OPERANDS] = {
        "the rest of a is as it was", "the rest of b is as it was", "the rest of c is as it was",
        "the rest of d is as it was", "the rest of info is as it was"};
    const operand *o = &v->p->op[i];
    if (!o->bytes) return;
    char *rest = malloc(o->bytes);
    assert_non_null(rest);
    memcpy(rest, o->got, o->bytes);
    for (int64_t k = 0; k < v->p->x.count * o->rows * o->cols; k++) {
        int64_t w = k / (o->rows * o->cols), row = k % o->rows, col = k / o->rows % o->cols;
        size_t at = place_of(v->p, i, w, row, col);
        if (is_written(&v->p->x, i, row, col)) memcpy(rest + at, o->in + at, o->size);
    }
    holds(v, promises[i], memcmp(rest, o->in, o->bytes) == 0);
    free(rest);
}

/* ---- all of it ---- */

static void judge_matrix(verdict *v) {
    static void (*const judges[TIDEI_LAPACK_ROUTINES])(verdict *) = {
        [TIDEI_GETRF] = judge_lu,   [TIDEI_GETRS] = judge_solution, [TIDEI_POTRF] = judge_cholesky,
        [TIDEI_GEQRF] = judge_qr,   [TIDEI_ORGQR] = judge_q,        [TIDEI_GESVD] = judge_svd,
        [TIDEI_SYEVD] = judge_eigen};
    int info = 0;
    if (v->p->op[INFO].bytes)
        memcpy(&info, v->p->op[INFO].got + place_of(v->p, INFO, v->w, 0, 0), sizeof info);
    holds(v, "its code is 0", info == 0);
    if (!v->broken) judges[v->p->x.routine](v);
    while (v->nheld) free(v->held[--v->nheld]);
}

/* What was got of all matrices. */
static inline verdict judge(const problem *p) {
    verdict v = {.p = p, .eps = part_of(&p->x) == 4 ? FLT_EPSILON : DBL_EPSILON};
    for (int i = 0; i < OPERANDS; i++) judge_rest(&v, i);
    for (int64_t w = 0; w < p->x.count && !v.broken; w++) {
        v.w = w;
        judge_matrix(&v);
    }
    return v;
}

#endif
