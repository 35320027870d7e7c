/* linalg_cases.h: matrices of many types, shapes, kinds and views, and what each function promises
** of one: residuals within LAPACK's bounds. Shared by the programs about linear algebra. */
#ifndef TIDETEST_LINALG_CASES_H
#define TIDETEST_LINALG_CASES_H

#include "tests/arrays/matrices.h"

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128, TIDE_I16};

/* Shapes of one matrix, and of batches. */
static const int64_t sizes[][2] = {{1, 1}, {2, 2},   {5, 5},   {7, 3},   {3, 7},  {1, 4},
                                   {4, 1}, {32, 32}, {34, 34}, {40, 21}, {21, 40}};
static const struct some {
    int n;
    int64_t shape[3];
} batches[] = {{0, {0}}, {1, {3}}, {2, {2, 3}}};

/* Everything over everything, but for the first batches: `one` is called in a scope of its own.
** `once`: each type and shape one time, of kinds and batches in turn, for a device that is slow. */
typedef void one_case(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n);
static inline void cases_of(tide_runtime *rt, size_t first, bool once, const int *kinds, int nkinds,
                            bool square, one_case *one) {
    const size_t turns = (TIDEI_COUNT(batches) - first) * (size_t)nkinds;
    seed = 1;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (size_t i = 0; i < TIDEI_COUNT(sizes); i++)
            for (size_t b = first; b < TIDEI_COUNT(batches); b++)
                for (int k = 0; k < nkinds; k++) {
                    int64_t m = sizes[i][0], n = sizes[i][1];
                    const size_t turn = t + i + (b - first) * (size_t)nkinds + (size_t)k;
                    if (once ? turn % turns : test_quick() && (t + i + b) % 3) continue;
                    if (square && (m != n || (kinds[k] == GRADED && types[t] == TIDE_I16)))
                        continue;
                    assert_ok(tide_scope_begin(rt));
                    int view = (int)draw(VIEWS);
                    tide_array *a = matrices(rt, types[t], kinds[k], view, batches[b].n,
                                             batches[b].shape, m, n);
                    one(rt, a, types[t], m, n);
                    assert_ok(tide_scope_end(rt));
                }
}
static inline void each_case(const int *kinds, int nkinds, bool square, one_case *one) {
    tide_runtime *rt = open_checked();
    cases_of(rt, 0, false, kinds, nkinds, square, one);
    close_checked(rt);
}
static const int any[] = {RANDOM, GRADED, DEFICIENT};

/* ---- LU ---- */

/* P a = l u, where row i of P a is row perm[i] of a. */
static inline double lu_residual(int64_t m, int64_t n, const number *a, const number *perm,
                                 const number *l, const number *u, double eps) {
    int64_t least = m < n ? m : n;
    number *pa = calloc((size_t)(m * n) + 1, sizeof *pa);
    bool *seen = calloc((size_t)m, sizeof *seen);
    for (int64_t i = 0; i < m; i++) {
        int64_t from = (int64_t)creal(perm[i]);
        assert_true(from >= 0 && from < m && !seen[from]);
        seen[from] = true;
        memcpy(pa + i * n, a + from * n, (size_t)n * sizeof *pa);
    }
    double r = product_residual(m, least, n, pa, l, u, eps);
    free(pa);
    free(seen);
    return r;
}

static inline void one_lu(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
    tide_array *perm, *l, *u, *both, *pivots;
    int64_t least = m < n ? m : n;
    (void)rt;
    assert_ok(tide_lu(a, &perm, &l, &u));
    assert_ok(tide_lu_factor(a, &both, &pivots));
    assert_int_equal(tide_array_dtype(perm), TIDE_I64);
    assert_int_equal(tide_array_dtype(pivots), TIDE_I64);
    assert_int_equal(tide_array_dtype(l), wide_of(t));
    assert_int_equal(tide_array_dim(l, -1), least);
    assert_int_equal(tide_array_dim(u, -2), least);
    values va = read_back(a), vp = read_back(perm), vl = read_back(l), vu = read_back(u),
           vb = read_back(both), vs = read_back(pivots);
    for (int64_t w = 0; w < va.n / (m * n); w++) {
        const number *L = vl.at + w * m * least, *U = vu.at + w * least * n, *B = vb.at + w * m * n;
        int64_t *order = calloc((size_t)m, sizeof *order);
        assert_ratio(lu_residual(m, n, va.at + w * m * n, vp.at + w * m, L, U, epsilon(t)));
        for (int64_t i = 0; i < m; i++) order[i] = i;
        for (int64_t i = 0; i < least; i++) {
            int64_t other = (int64_t)creal(vs.at[w * least + i]), was = order[i];
            assert_true(other >= i && other < m);
            order[i] = order[other];
            order[other] = was;
        }
        for (int64_t i = 0; i < m; i++) assert_true(creal(vp.at[w * m + i]) == (double)order[i]);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) { /* the same numbers, in one place and in two */
                if (j < least) assert_true(L[i * least + j] == (j < i ? B[i * n + j] : i == j));
                if (i < least) assert_true(U[i * n + j] == (j >= i ? B[i * n + j] : 0));
                if (j < i)
                    assert_true(cabs(B[i * n + j]) <=
                                1.42); /* of complex pivots the sum of both parts is the largest */
            }
        free(order);
    }
    drop(&va), drop(&vp), drop(&vl), drop(&vu), drop(&vb), drop(&vs);
}
/* ---- Cholesky ---- */

/* The same with not-a-number in the triangle that is not read; integers have none. */
static inline tide_array *half_of(tide_runtime *rt, tide_array *a, const values *v, tide_dtype t,
                                  int how) {
    int64_t n = v->shape[v->ndim - 1];
    if (t == TIDE_I16) return a;
    number *half = malloc((size_t)v->n * sizeof *half);
    for (int64_t i = 0; i < v->n; i++) {
        int64_t row = i / n % n, col = i % n;
        half[i] = (how == TIDE_LOWER ? col > row : col < row) ? NAN : v->at[i];
    }
    tide_array *given = array_of(rt, t, v->ndim, v->shape, half);
    free(half);
    return given;
}

static inline void one_cholesky(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m,
                                int64_t n) {
    (void)m;
    for (int how = 0; how < 2; how++) {
        values va = read_back(a);
        tide_array *given = half_of(rt, a, &va, t, how);
        tide_array *f = tide_cholesky(given, how);
        assert_array(f);
        values vf = read_back(f);
        for (int64_t w = 0; w < va.n / (n * n); w++) {
            number *F = vf.at + w * n * n, *H = calloc((size_t)(n * n), sizeof *H);
            for (int64_t i = 0; i < n * n; i++) {
                int64_t row = i / n, col = i % n;
                H[i] = conj(F[col * n + row]);
                if (row == col) assert_true(creal(F[i]) > 0 && cimag(F[i]) == 0);
                if (how == TIDE_LOWER ? col > row : col < row) assert_true(F[i] == 0);
            }
            assert_ratio(product_residual(n, n, n, va.at + w * n * n, how == TIDE_LOWER ? F : H,
                                          how == TIDE_LOWER ? H : F, epsilon(t)));
            free(H);
        }
        drop(&va), drop(&vf);
    }
}
/* ---- QR ---- */

/* R without its Q: R^H R = A^H A. The signs of its rows are the library's choice. */
static inline double gram_residual(int64_t m, int64_t columns, int64_t n, const number *a,
                                   const number *r, double eps) {
    number *gram = calloc((size_t)(n * n) + 1, sizeof *gram),
           *rh = calloc((size_t)(n * columns) + 1, sizeof *rh);
    product(n, m, n, a, true, a, gram);
    adjoint_of(columns, n, r, rh);
    double ratio = product_residual(n, columns, n, gram, rh, r, eps);
    free(gram), free(rh);
    return ratio;
}

static inline void one_qr(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
    (void)rt;
    for (int mode = TIDE_REDUCED; mode <= TIDE_COMPLETE; mode++) {
        tide_array *q, *r, *alone;
        int64_t least = m < n ? m : n, columns = mode == TIDE_COMPLETE ? m : least;
        assert_ok(tide_qr(a, mode, &q, &r));
        assert_ok(tide_qr(a, mode, NULL, &alone));
        values va = read_back(a), vq = read_back(q), vr = read_back(r), vs = read_back(alone);
        assert_int_equal(tide_array_dim(q, -1), columns);
        assert_int_equal(tide_array_dim(r, -2), columns);
        assert_int_equal(vr.n, vs.n);
        for (int64_t w = 0; w < va.n / (m * n); w++) {
            const number *A = va.at + w * m * n, *Q = vq.at + w * m * columns;
            const number *R = vr.at + w * columns * n, *S = vs.at + w * columns * n;
            assert_ratio(product_residual(m, columns, n, A, Q, R, epsilon(t)));
            assert_ratio(orthogonality(m, columns, Q, epsilon(t)));
            assert_ratio(gram_residual(m, columns, n, A, S, epsilon(t)));
            for (int64_t i = 0; i < columns * n; i++)
                if (i % n < i / n) assert_true(R[i] == 0 && S[i] == 0);
        }
        drop(&va), drop(&vq), drop(&vr), drop(&vs);
    }
}
/* ---- systems ---- */

/* The index of the matrix of x that meets place w of a batch, by the rules of broadcasting; `tail`
** axes are its own. */
static inline int64_t matrix_at(const values *x, int tail, int nbatch, const int64_t *batch,
                                int64_t w) {
    int64_t at = 0, step = 1;
    for (int d = 1; d <= nbatch; d++) {
        int64_t index = w % batch[nbatch - d];
        int mine = x->ndim - tail - d;
        w /= batch[nbatch - d];
        if (mine < 0) continue;
        if (x->shape[mine] != 1) at += index * step;
        step *= x->shape[mine];
    }
    return at;
}

static inline void check_system(tide_array *a, tide_array *b, tide_array *x, bool vector,
                                double eps) {
    values va = read_back(a), vb = read_back(b), vx = read_back(x);
    int nbatch = vx.ndim - (vector ? 1 : 2);
    int64_t n = va.shape[va.ndim - 1], k = vector ? 1 : vb.shape[vb.ndim - 1];
    for (int64_t w = 0; n && k && w < vx.n / (n * k); w++)
        assert_ratio(system_residual(
            n, k, va.at + matrix_at(&va, 2, nbatch, vx.shape, w) * n * n, vx.at + w * n * k,
            vb.at + (vector ? 0 : matrix_at(&vb, 2, nbatch, vx.shape, w) * n * k), eps));
    drop(&va), drop(&vb), drop(&vx);
}

static inline void one_system(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
    int nbatch = tide_array_ndim(a) - 2;
    int64_t batch[3], shape[4], columns[] = {1, 3};
    tide_array *lu, *pivots;
    (void)m;
    assert_ok(tide_lu_factor(a, &lu, &pivots));
    for (int i = 0; i < nbatch; i++) batch[i] = tide_array_dim(a, i);
    for (int form = 0; form < 5;
         /* as a's batch is; one right side for all; a larger batch; a vector; b of one matrix a
         ** row */
         form++) {
        tide_array *b = NULL;
        int64_t k = columns[draw(2)];
        tide_dtype tb = form == 1 ? TIDE_F32 : t;
        memcpy(shape, batch, sizeof batch);
        memmove(shape + 1, batch, sizeof batch);
        shape[0] = 2;
        if (form == 0) b = matrices(rt, tb, RANDOM, (int)draw(VIEWS), nbatch, batch, n, k);
        if (form == 1) b = matrices(rt, tb, RANDOM, (int)draw(VIEWS), 0, NULL, n, k);
        if (form == 2) b = matrices(rt, tb, RANDOM, (int)draw(VIEWS), nbatch + 1, shape, n, k);
        if (form == 3) b = tide_slice(matrices(rt, tb, RANDOM, PLAIN, 0, NULL, 2, n), "1, ::-1");
        if (form == 4) {
            memset(shape, 0, sizeof shape);
            for (int i = 0; i < nbatch; i++) shape[i] = i ? 1 : batch[0];
            b = matrices(rt, tb, RANDOM, PLAIN, nbatch, shape, n, k);
        }
        /* an integer takes the type of a float it meets */
        tide_dtype tx = form == 1 && t < TIDE_F32 ? TIDE_F32 : wide_of(t);
        double eps = epsilon(tx);
        tide_array *x = tide_solve(a, b);
        assert_array(x);
        assert_int_equal(tide_array_ndim(x), form == 2   ? nbatch + 3
                                             : form == 3 ? nbatch + 1
                                                         : nbatch + 2);
        assert_int_equal(tide_array_dtype(x), tx);
        check_system(a, b, x, form == 3, eps);
        tide_array *again = tide_lu_solve(lu, pivots, b);
        assert_array(again);
        assert_int_equal(tide_array_ndim(again), tide_array_ndim(x));
        check_system(a, b, again, form == 3, eps);
    }
}
/* The rows of a graded matrix are scaled, its inverse's columns the other way: each row of the
** product counts by itself. */
static inline void one_inverse(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m,
                               int64_t n) {
    tide_array *x = tide_inv(a);
    (void)rt, (void)m;
    values va = read_back(a), vx = read_back(x);
    number *one = calloc((size_t)(n * n), sizeof *one);
    for (int64_t i = 0; i < n; i++) one[i * n + i] = 1;
    for (int64_t w = 0; w < va.n / (n * n); w++) {
        assert_ratio(system_residual(n, n, va.at + w * n * n, vx.at + w * n * n, one, epsilon(t)));
        assert_ratio(system_residual(n, n, vx.at + w * n * n, va.at + w * n * n, one, epsilon(t)));
    }
    free(one);
    drop(&va), drop(&vx);
}
/* ---- determinants ---- */

/* By Gauss with partial pivoting, in long double. */
static inline long double complex determinant(int64_t n, const number *given) {
    long double complex *a = calloc((size_t)(n * n) + 1, sizeof *a), det = 1;
    for (int64_t i = 0; i < n * n; i++) a[i] = given[i];
    for (int64_t c = 0; c < n; c++) {
        int64_t best = c;
        for (int64_t i = c; i < n; i++)
            if (cabsl(a[i * n + c]) > cabsl(a[best * n + c])) best = i;
        if (best != c) det = -det;
        for (int64_t j = 0; j < n; j++) {
            long double complex was = a[c * n + j];
            a[c * n + j] = a[best * n + j];
            a[best * n + j] = was;
        }
        det *= a[c * n + c];
        for (int64_t i = c + 1; i < n && a[c * n + c] != 0; i++) {
            long double complex f = a[i * n + c] / a[c * n + c];
            for (int64_t j = c; j < n; j++) a[i * n + j] -= f * a[c * n + j];
        }
    }
    free(a);
    return det;
}

static inline void one_determinant(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m,
                                   int64_t n) {
    tide_array *d = tide_det(a), *sign, *logs;
    (void)rt, (void)m;
    assert_ok(tide_slogdet(a, &sign, &logs));
    assert_int_equal(tide_array_dtype(sign), wide_of(t));
    assert_int_equal(tide_array_dtype(logs), real_of(t));
    values va = read_back(a), vd = read_back(d), vs = read_back(sign), vl = read_back(logs);
    assert_int_equal(vd.n, va.n / (n * n));
    for (int64_t w = 0; w < vd.n; w++) {
        number want = (number)determinant(n, va.at + w * n * n);
        /* what the inverse may multiply an error by, taken as n here: these matrices are
        ** well-conditioned */
        double most = RATIO * epsilon(t) * (double)(n * n) * cabs(want);
        double log_error = RATIO * epsilon(t) * (double)(n * n) * (1 + fabs(log(cabs(want))));
        if (isfinite(cabs(vd.at[w])) && cabs(want) < (real_of(t) == TIDE_F32 ? 1e37 : 1e300))
            assert_true(cabs(vd.at[w] - want) <= most);
        assert_true(fabs(cabs(vs.at[w]) - 1) <= RATIO * epsilon(t) * (double)n);
        assert_true(cabs(vs.at[w] - want / cabs(want)) <= RATIO * epsilon(t) * (double)(n * n));
        assert_true(fabs(creal(vl.at[w]) - log(cabs(want))) <= log_error);
    }
    drop(&va), drop(&vd), drop(&vs), drop(&vl);
}

#endif
