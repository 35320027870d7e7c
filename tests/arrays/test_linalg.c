/* test_linalg.c: factorizations, systems, determinants, least squares: residuals within LAPACK's
** bounds, over types, shapes, batches, views, and matrices that are graded or of less than full
** rank; what is exact; what is empty; which functions wait. */
#include "tests/arrays/matrices.h"
#include "tests/doubles/emulated_device.h"
#include <sched.h>

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128, TIDE_I16};

/* Shapes of one matrix, and of batches. */
static const int64_t sizes[][2] = {{1, 1}, {2, 2},   {5, 5},   {7, 3},   {3, 7},  {1, 4},
                                   {4, 1}, {32, 32}, {34, 34}, {40, 21}, {21, 40}};
static const struct some {
    int n;
    int64_t shape[3];
} batches[] = {{0, {0}}, {1, {3}}, {2, {2, 3}}};

/* Everything over everything, but for the first batches: `one` is called in a scope of its own. An
** emulated device, which is slow, has each type and shape once, of kinds and batches in turn. */
typedef void one_case(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n);
static void cases_of(tide_runtime *rt, size_t first, const int *kinds, int nkinds, bool square,
                     one_case *one) {
    const size_t turns = (TIDEI_COUNT(batches) - first) * (size_t)nkinds;
    seed = 1;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (size_t i = 0; i < TIDEI_COUNT(sizes); i++)
            for (size_t b = first; b < TIDEI_COUNT(batches); b++)
                for (int k = 0; k < nkinds; k++) {
                    int64_t m = sizes[i][0], n = sizes[i][1];
                    const size_t turn = t + i + (b - first) * (size_t)nkinds + (size_t)k;
                    if (is_emulated(rt) ? turn % turns : test_quick() && (t + i + b) % 3) continue;
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
static void each_case(const int *kinds, int nkinds, bool square, one_case *one) {
    tide_runtime *rt = open_checked();
    cases_of(rt, 0, kinds, nkinds, square, one);
    close_checked(rt);
}
static const int any[] = {RANDOM, GRADED, DEFICIENT};

/* ---- LU ---- */

/* P a = l u, where row i of P a is row perm[i] of a. */
static double lu_residual(int64_t m, int64_t n, const number *a, const number *perm,
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

static void one_lu(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
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
static void lu_gives_factors_of_every_matrix(void **state) {
    (void)state;
    each_case(any, 3, false, one_lu);
}

/* ---- Cholesky ---- */

/* The same with not-a-number in the triangle that is not read; integers have none. */
static tide_array *half_of(tide_runtime *rt, tide_array *a, const values *v, tide_dtype t,
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

static void one_cholesky(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
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
static void cholesky_gives_a_factor(void **state) {
    static const int kinds[] = {DEFINITE};
    (void)state;
    each_case(kinds, 1, true, one_cholesky);
}

/* ---- QR ---- */

/* R without its Q: R^H R = A^H A. The signs of its rows are the library's choice. */
static double gram_residual(int64_t m, int64_t columns, int64_t n, const number *a, const number *r,
                            double eps) {
    number *gram = calloc((size_t)(n * n) + 1, sizeof *gram),
           *rh = calloc((size_t)(n * columns) + 1, sizeof *rh);
    product(n, m, n, a, true, a, gram);
    adjoint_of(columns, n, r, rh);
    double ratio = product_residual(n, columns, n, gram, rh, r, eps);
    free(gram), free(rh);
    return ratio;
}

static void one_qr(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
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
static void qr_gives_factors_of_every_matrix(void **state) {
    (void)state;
    each_case(any, 3, false, one_qr);
}

/* ---- singular values ---- */

static void one_svd(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
    int64_t least = m < n ? m : n;
    (void)rt;
    for (int mode = TIDE_REDUCED; mode <= TIDE_COMPLETE; mode++) {
        tide_array *u, *s, *vh, *alone;
        int64_t cu = mode == TIDE_COMPLETE ? m : least, cv = mode == TIDE_COMPLETE ? n : least;
        assert_ok(tide_svd(a, mode, &u, &s, &vh));
        assert_ok(tide_svd(a, mode, NULL, &alone, NULL));
        assert_int_equal(tide_array_dtype(s), real_of(t));
        assert_int_equal(tide_array_dim(u, -1), cu);
        assert_int_equal(tide_array_dim(vh, -2), cv);
        values va = read_back(a), vu = read_back(u), vs = read_back(s), vv = read_back(vh),
               vl = read_back(alone);
        for (int64_t w = 0; w < va.n / (m * n); w++) {
            const number *U = vu.at + w * m * cu, *V = vv.at + w * cv * n, *S = vs.at + w * least;
            number *sv = calloc((size_t)(least * n), sizeof *sv),
                   *us = calloc((size_t)(m * least), sizeof *us);
            number *back = calloc((size_t)(cv * n), sizeof *back);
            for (int64_t i = 0; i < least; i++) {
                assert_true(creal(S[i]) >= 0 && (i == 0 || creal(S[i]) <= creal(S[i - 1])));
                assert_true(cabs(S[i] - vl.at[w * least + i]) <=
                            RATIO * epsilon(t) * (double)(m + n) * creal(S[0]));
                for (int64_t j = 0; j < n; j++) sv[i * n + j] = S[i] * V[i * n + j];
            }
            for (int64_t i = 0; i < m * least; i++) us[i] = U[i / least * cu + i % least];
            adjoint_of(cv, n, V, back);
            assert_ratio(product_residual(m, least, n, va.at + w * m * n, us, sv, epsilon(t)));
            assert_ratio(orthogonality(m, cu, U, epsilon(t)));
            assert_ratio(orthogonality(n, cv, back, epsilon(t)));
            free(sv), free(us), free(back);
        }
        drop(&va), drop(&vu), drop(&vs), drop(&vv), drop(&vl);
    }
}
static void svd_gives_factors_of_every_matrix(void **state) {
    (void)state;
    each_case(any, 3, false, one_svd);
}

/* Numbers whose squares are beyond the type: the library scales them. */
static void svd_scales_extreme_numbers(void **state) {
    static const int64_t shapes[][2] = {{5, 5}, {32, 20}, {40, 21}};
    tide_runtime *rt = open_checked();
    (void)state;
    for (tide_dtype t = TIDE_F32; t <= TIDE_C128; t++)
        for (size_t i = 0; i < TIDEI_COUNT(shapes); i++)
            for (int small = 0; small < 2; small++) {
                int64_t m = shapes[i][0], n = shapes[i][1];
                double power = (small ? -1 : 1) * (real_of(t) == TIDE_F32 ? 90 : 700),
                       factor = exp2(power);
                number *v = calloc((size_t)(m * n), sizeof *v);
                tide_array *s, *scaled;
                assert_ok(tide_scope_begin(rt));
                fill_matrix(v, t, RANDOM, m, n);
                tide_array *a = array_of(rt, t, 2, shapes[i], v);
                for (int64_t k = 0; k < m * n; k++) v[k] *= factor;
                tide_array *extreme = array_of(rt, t, 2, shapes[i], v);
                assert_ok(tide_svd(a, TIDE_REDUCED, NULL, &s, NULL));
                assert_ok(tide_svd(extreme, TIDE_REDUCED, NULL, &scaled, NULL));
                values vs = read_back(s), vx = read_back(scaled);
                for (int64_t k = 0; k < n; k++)
                    assert_true(cabs(vx.at[k] / factor - vs.at[k]) <=
                                RATIO * epsilon(t) * (double)(m + n) * creal(vs.at[0]));
                drop(&vs), drop(&vx), free(v);
                assert_ok(tide_scope_end(rt));
            }
    close_checked(rt);
}

/* ---- eigenvalues ---- */

static void one_eigh(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
    (void)m;
    for (int how = 0; how < 2; how++) {
        tide_array *w, *v, *alone;
        values va = read_back(a);
        tide_array *given = half_of(rt, a, &va, t, how);
        assert_ok(tide_eigh(given, how, &w, &v));
        assert_ok(tide_eigh(given, how, &alone, NULL));
        assert_int_equal(tide_array_dtype(w), real_of(t));
        values vw = read_back(w), vv = read_back(v), vl = read_back(alone);
        for (int64_t k = 0; k < va.n / (n * n); k++) {
            const number *A = va.at + k * n * n, *V = vv.at + k * n * n, *W = vw.at + k * n;
            number *scaled = calloc((size_t)(n * n), sizeof *scaled),
                   *back = calloc((size_t)(n * n), sizeof *back);
            double most = cabs(W[0]) > cabs(W[n - 1]) ? cabs(W[0]) : cabs(W[n - 1]);
            for (int64_t i = 0; i < n; i++) {
                assert_true(i == 0 || creal(W[i]) >= creal(W[i - 1]));
                assert_true(cabs(W[i] - vl.at[k * n + i]) <= RATIO * epsilon(t) * (double)n * most);
                for (int64_t j = 0; j < n; j++) scaled[i * n + j] = V[i * n + j] * W[j];
            }
            adjoint_of(n, n, V, back);
            assert_ratio(product_residual(n, n, n, A, scaled, back, epsilon(t)));
            assert_ratio(orthogonality(n, n, V, epsilon(t)));
            free(scaled), free(back);
        }
        drop(&va), drop(&vw), drop(&vv), drop(&vl);
    }
}
static void eigh_gives_values_and_vectors(void **state) {
    static const int kinds[] = {HERMITIAN, DEFINITE};
    (void)state;
    each_case(kinds, 2, true, one_eigh);
}

/* ---- systems ---- */

/* The index of the matrix of x that meets place w of a batch, by the rules of broadcasting; `tail`
** axes are its own. */
static int64_t matrix_at(const values *x, int tail, int nbatch, const int64_t *batch, int64_t w) {
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

static void check_system(tide_array *a, tide_array *b, tide_array *x, bool vector, double eps) {
    values va = read_back(a), vb = read_back(b), vx = read_back(x);
    int nbatch = vx.ndim - (vector ? 1 : 2);
    int64_t n = va.shape[va.ndim - 1], k = vector ? 1 : vb.shape[vb.ndim - 1];
    for (int64_t w = 0; n && k && w < vx.n / (n * k); w++)
        assert_ratio(system_residual(
            n, k, va.at + matrix_at(&va, 2, nbatch, vx.shape, w) * n * n, vx.at + w * n * k,
            vb.at + (vector ? 0 : matrix_at(&vb, 2, nbatch, vx.shape, w) * n * k), eps));
    drop(&va), drop(&vb), drop(&vx);
}

static void one_system(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
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
static void solve_gives_small_residuals(void **state) {
    static const int kinds[] = {RANDOM, DEFINITE};
    (void)state;
    each_case(kinds, 2, true, one_system);
}

/* The rows of a graded matrix are scaled, its inverse's columns the other way: each row of the
** product counts by itself. */
static void one_inverse(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
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
static void inv_gives_small_residuals(void **state) {
    static const int kinds[] = {RANDOM, GRADED, DEFINITE};
    (void)state;
    each_case(kinds, 3, true, one_inverse);
}

/* ---- determinants ---- */

/* By Gauss with partial pivoting, in long double. */
static long double complex determinant(int64_t n, const number *given) {
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

static void one_determinant(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
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
static void det_agrees_with_the_factors(void **state) {
    static const int kinds[] = {DEFINITE};
    (void)state;
    each_case(kinds, 1, true, one_determinant);
}

/* Signs by exchanges, exact numbers, singular ones, products beyond the range. */
static void det_is_exact_where_it_can_be(void **state) {
    static const double swapped[] = {0, 1, 0, 0, 0, 1, 1, 0, 0, /**/ 0, 2, 0, 1, 0, 0, 0, 0, 3},
                        half[] = {1, 2, 2, 4};
    tide_runtime *rt = open_checked();
    double det[2], sign[2], logs[2];
    tide_array *s, *l;
    (void)state;
    assert_ok(tide_scope_begin(rt));
    tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(2, 3, 3), swapped);
    assert_ok(tide_to_host(tide_det(a), det, sizeof det));
    assert_true(det[0] == 1 && det[1] == -6);
    assert_ok(tide_slogdet(a, &s, &l));
    assert_ok(tide_to_host(s, sign, sizeof sign));
    assert_ok(tide_to_host(l, logs, sizeof logs));
    assert_true(sign[0] == 1 && sign[1] == -1 && logs[0] == 0 && fabs(logs[1] - log(6)) < 1e-14);
    tide_array *singular = tide_from_host(rt, TIDE_F64, SHAPE(2, 2), half);
    assert_true(tide_item_f64(tide_det(singular)) == 0);
    assert_ok(tide_slogdet(singular, &s, &l));
    assert_true(tide_item_f64(s) == 0 && tide_item_f64(l) == -INFINITY);
    tide_array *large =
        tide_map(rt, "(i, j) -> f64(i == j) * -1e200", tide_arange(rt, TIDE_I32, 0, 3, 1),
                 tide_reshape(tide_arange(rt, TIDE_I32, 0, 3, 1), SHAPE(3, 1)));
    assert_true(tide_item_f64(tide_det(large)) == -INFINITY);
    assert_ok(tide_slogdet(large, &s, &l));
    assert_true(tide_item_f64(s) == -1 && fabs(tide_item_f64(l) - 600 * log(10)) < 1e-9);
    /* Large by parts and singular as a whole: 0, not inf * 0. */
    assert_ok(tide_fill(tide_slice(large, "2"), tide_arg_int(0)));
    assert_true(tide_item_f64(tide_det(large)) == 0);
    /* Signs are exact, of whatever size: 1/49 times 49 is not 1, and the smallest numbers have no
    ** reciprocal. */
    static const double alone[] = {49, -1e-310, 1.5e308, -3e-320};
    double signs[4];
    assert_ok(tide_slogdet(tide_from_host(rt, TIDE_F64, SHAPE(4, 1, 1), alone), &s, &l));
    assert_ok(tide_to_host(s, signs, sizeof signs));
    for (int i = 0; i < 4; i++) assert_true(signs[i] == (alone[i] < 0 ? -1 : 1));
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* ---- least squares ---- */

static void one_fit(tide_runtime *rt, tide_array *a, tide_dtype t, int64_t m, int64_t n) {
    int nbatch = tide_array_ndim(a) - 2;
    int64_t batch[3], least = m < n ? m : n, k = 1 + (int64_t)draw(3);
    tide_array *x, *rank, *s, *again, *b;
    for (int i = 0; i < nbatch; i++) batch[i] = tide_array_dim(a, i);
    bool vector = draw(4) == 0, one = draw(2);
    b = vector ? tide_slice(matrices(rt, t, RANDOM, PLAIN, 0, NULL, m, 2), ":, 1")
               : matrices(rt, t, RANDOM, (int)draw(VIEWS), one ? 0 : nbatch, batch, m, k);
    if (vector) k = 1;
    assert_ok(tide_lstsq(a, b, -1, &x, &rank, &s));
    assert_int_equal(tide_array_ndim(x), nbatch + (vector ? 1 : 2));
    assert_int_equal(tide_array_dtype(rank), TIDE_I64);
    assert_int_equal(tide_array_dtype(s), real_of(t));
    values va = read_back(a), vb = read_back(b), vx = read_back(x), vr = read_back(rank),
           vs = read_back(s);
    double eps = epsilon(t), longer = (double)(m > n ? m : n);
    for (int64_t w = 0; w < va.n / (m * n); w++) {
        const number *A = va.at + w * m * n, *X = vx.at + w * n * k;
        const number *B = vb.at + (vector || one ? 0 : w) * m * k, *S = vs.at + w * least;
        number *r = calloc((size_t)(m * k), sizeof *r),
               *normal = calloc((size_t)(n * k), sizeof *normal);
        int64_t counted = 0;
        while (counted < least && creal(S[counted]) > longer * eps * creal(S[0])) counted++;
        assert_true(creal(vr.at[w]) == (double)counted);
        product(m, n, k, A, false, X, r);
        for (int64_t i = 0; i < m * k; i++) r[i] -= B[i];
        product(n, m, k, A, true, r, normal);
        double whole = norm(m, n, A) * (norm(m, n, A) * norm(n, k, X) + norm(m, k, B));
        if (whole > 0) assert_ratio(norm(n, k, normal) / (whole * eps * longer));
        free(r), free(normal);
    }
    drop(&vb), drop(&vr);
    /* Of those that fit as well, the least: to fit what it gives gives it again. */
    if (!vector) {
        assert_ok(tide_lstsq(a, tide_matmul(tide_cast(a, wide_of(t)), x), -1, &again, NULL, NULL));
        values vy = read_back(again);
        for (int64_t w = 0; w < va.n / (m * n); w++) {
            number *d = calloc((size_t)(n * k), sizeof *d);
            const number *S = vs.at + w * least;
            int64_t last = 0;
            while (last + 1 < least && creal(S[last + 1]) > longer * eps * creal(S[0])) last++;
            double condition = creal(S[last]) > 0 ? creal(S[0]) / creal(S[last]) : 1;
            for (int64_t i = 0; i < n * k; i++) d[i] = vy.at[w * n * k + i] - vx.at[w * n * k + i];
            assert_true(norm(n, k, d) <=
                        RATIO * eps * longer * condition * norm(n, k, vx.at + w * n * k));
            free(d);
        }
        drop(&vy);
    }
    drop(&va), drop(&vx), drop(&vs);
}
static void lstsq_gives_the_smallest_fit(void **state) {
    static const int kinds[] = {RANDOM, DEFICIENT};
    (void)state;
    each_case(kinds, 2, false, one_fit);
}

/* What counts as 0 is the caller's choice. */
static void rcond_says_what_counts_as_0(void **state) {
    static const double diagonal[] = {4, 0, 0, 0, 1, 0, 0, 0, 0.125}, right[] = {4, 1, 0.125};
    static const struct {
        double rcond;
        int rank;
    } cases[] = {{-1, 3}, {0, 3}, {0.032, 2}, {0.03, 3}, {0.5, 1}, {2, 0}};
    tide_runtime *rt = open_checked();
    (void)state;
    assert_ok(tide_scope_begin(rt));
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        double x[3];
        tide_array *out, *rank;
        tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(3, 3), diagonal);
        assert_ok(tide_lstsq(a, tide_from_host(rt, TIDE_F64, SHAPE(3), right), cases[i].rcond, &out,
                             &rank, NULL));
        assert_ok(tide_to_host(out, x, sizeof x));
        assert_int_equal((int)tide_item_f64(rank), cases[i].rank);
        for (int k = 0; k < 3; k++) assert_true(fabs(x[k] - (k < cases[i].rank)) < 1e-14);
    }
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* ---- nothing at all ---- */

static tide_array *none(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape) {
    tide_array *a = tide_zeros(rt, t, ndim, shape);
    assert_array(a);
    return a;
}
static void is_identity(tide_array *a, int64_t n) {
    values v = read_back(a);
    for (int64_t i = 0; i < v.n; i++) assert_true(v.at[i] == (i / n % n == i % n));
    drop(&v);
}

static void empty_matrices_are_taken(void **state) {
    tide_runtime *rt = open_checked();
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(types); i++) {
        tide_dtype t = types[i], wide = wide_of(t), real = real_of(t);
        tide_array *x, *y, *z;
        assert_ok(tide_scope_begin(rt));
        tide_array *a = none(rt, t, SHAPE(0, 0)), *tall = none(rt, t, SHAPE(2, 3, 0)),
                   *wide_one = none(rt, t, SHAPE(0, 3)), *no_batch = none(rt, t, SHAPE(0, 3, 3));
        assert_ok(tide_lu_factor(tall, &x, &y));
        assert_shape(x, wide, SHAPE(2, 3, 0));
        assert_shape(y, TIDE_I64, SHAPE(2, 0));
        assert_ok(tide_lu(tall, &x, &y, &z));
        assert_shape(x, TIDE_I64, SHAPE(2, 3));
        values order = read_back(x);
        for (int k = 0; k < 6; k++) assert_true(order.at[k] == k % 3);
        drop(&order);
        assert_shape(y, wide, SHAPE(2, 3, 0));
        assert_shape(z, wide, SHAPE(2, 0, 0));
        assert_shape(tide_cholesky(a, TIDE_LOWER), wide, SHAPE(0, 0));
        assert_ok(tide_qr(tall, TIDE_REDUCED, &x, &y));
        assert_shape(x, wide, SHAPE(2, 3, 0));
        assert_shape(y, wide, SHAPE(2, 0, 0));
        assert_ok(tide_qr(tall, TIDE_COMPLETE, &x, &y));
        assert_shape(x, wide, SHAPE(2, 3, 3));
        assert_shape(y, wide, SHAPE(2, 3, 0));
        is_identity(x, 3);
        assert_ok(tide_svd(tall, TIDE_COMPLETE, &x, &y, &z));
        assert_shape(x, wide, SHAPE(2, 3, 3));
        assert_shape(y, real, SHAPE(2, 0));
        assert_shape(z, wide, SHAPE(2, 0, 0));
        is_identity(x, 3);
        assert_ok(tide_svd(wide_one, TIDE_COMPLETE, &x, &y, &z));
        is_identity(z, 3);
        assert_ok(tide_svd(wide_one, TIDE_REDUCED, &x, &y, &z));
        assert_shape(x, wide, SHAPE(0, 0));
        assert_shape(z, wide, SHAPE(0, 3));
        assert_ok(tide_eigh(a, TIDE_UPPER, &x, &y));
        assert_shape(x, real, SHAPE(0));
        assert_shape(y, wide, SHAPE(0, 0));
        assert_shape(tide_solve(a, none(rt, t, SHAPE(0, 4))), wide, SHAPE(0, 4));
        assert_shape(tide_solve(a, none(rt, t, SHAPE(0))), wide, SHAPE(0));
        assert_shape(tide_solve(no_batch, none(rt, t, SHAPE(3, 2))), wide, SHAPE(0, 3, 2));
        assert_shape(tide_solve(none(rt, t, SHAPE(3, 3)), none(rt, t, SHAPE(3, 0))), wide,
                     SHAPE(3, 0));
        assert_shape(tide_inv(no_batch), wide, SHAPE(0, 3, 3));
        assert_shape(tide_det(no_batch), wide, SHAPE(0));
        values one = read_back(tide_det(none(rt, t, SHAPE(2, 0, 0))));
        assert_true(one.n == 2 && one.at[0] == 1 && one.at[1] == 1);
        drop(&one);
        assert_ok(tide_slogdet(a, &x, &y));
        one = read_back(x);
        values zero = read_back(y);
        assert_true(one.at[0] == 1 && zero.at[0] == 0);
        drop(&one), drop(&zero);
        assert_ok(tide_lstsq(tall, none(rt, t, SHAPE(3, 2)), -1, &x, &y, &z));
        assert_shape(x, wide, SHAPE(2, 0, 2));
        assert_shape(y, TIDE_I64, SHAPE(2));
        assert_shape(z, real, SHAPE(2, 0));
        assert_ok(tide_lstsq(wide_one, none(rt, t, SHAPE(0, 2)), -1, &x, &y, NULL));
        assert_shape(x, wide, SHAPE(3, 2));
        zero = read_back(x);
        for (int k = 0; k < 6; k++) assert_true(zero.at[k] == 0);
        drop(&zero);
        assert_true(tide_item_f64(y) == 0);
        tide_array *square = tide_ones(rt, t, SHAPE(2, 2));
        assert_ok(tide_lstsq(square, none(rt, t, SHAPE(2, 0)), -1, &x, &y, NULL));
        assert_shape(x, wide, SHAPE(2, 0));
        assert_true(tide_item_f64(y) == 1);
        assert_ok(tide_scope_end(rt));
    }
    close_checked(rt);
}

/* ---- who waits ---- */

/* On a host device work is held back until the host waits, of which a collector is told. So a wait
** is one, however soon the work could be over. */
static atomic_int gate;
static void stand(void *unused) {
    (void)unused;
    while (!atomic_load(&gate)) sched_yield();
}
static void open_the_gate(void *self, void (*fn)(void *arg), void *arg) {
    (void)self;
    atomic_store(&gate, 1);
    fn(arg);
}
static int collects_nothing(void *self, int level) {
    return (void)self, (void)level, TIDE_COLLECT_DONE;
}
static void hold_back(tide_runtime *rt, tide_array *a) {
    static const tide_collector table = {.struct_size = sizeof table,
                                         .name = "gatekeeper",
                                         .collect = collects_nothing,
                                         .blocking = open_the_gate};
    tide_use use = {.array = a, .mode = TIDE_READ | TIDE_WRITE};
    tide_use_scope *scope;
    void *p;
    if (!test_on_host()) return;
    atomic_store(&gate, 0);
    assert_ok(tide_collector_register(rt, &table, NULL));
    assert_ok(tide_use_begin(rt, NULL, &use, 1, &p, &scope));
    assert_ok(tide_use_launch(scope, stand, NULL));
    assert_ok(tide_use_end(scope));
}

static void only_queued(tide_array *a, tide_array *b) {
    tide_array *x, *y, *z;
    assert_ok(tide_lu_factor(a, &x, &y));
    assert_array(tide_lu_solve(x, y, b));
    assert_ok(tide_lu(a, &x, &y, &z));
    assert_ok(tide_qr(a, TIDE_COMPLETE, &x, &y));
    assert_array(tide_det(a));
    assert_ok(tide_slogdet(a, &x, &y));
}
static void checked(tide_array *a, tide_array *b) {
    tide_array *x, *y, *z;
    assert_array(tide_solve(a, b));
    assert_array(tide_cholesky(a, TIDE_LOWER));
    assert_ok(tide_svd(a, TIDE_REDUCED, &x, &y, &z));
    assert_ok(tide_eigh(a, TIDE_LOWER, &x, &y));
    assert_array(tide_inv(a));
    assert_ok(tide_lstsq(a, b, -1, &x, &y, &z));
}
static void only_what_must_waits_for_the_device(void **state) {
    tide_runtime *rt = open_checked();
    (void)state;
    assert_ok(tide_scope_begin(rt));
    seed = 4;
    tide_array *a = matrices(rt, TIDE_F32, DEFINITE, PLAIN, 1, (int64_t[]){3}, 40, 40);
    tide_array *b = matrices(rt, TIDE_F32, RANDOM, PLAIN, 0, NULL, 40, 2);
    only_queued(a, b); /* what is made once is made */
    checked(a, b);
    assert_ok(tide_device_synchronize(rt));
    uint64_t before = test_stats(rt).host_waits;
    hold_back(rt, a);
    only_queued(a, b);
    assert_int_equal(test_stats(rt).host_waits, before);
    checked(a, b);
    uint64_t waits = test_stats(rt).host_waits - before;
    assert_true(waits >= 1 && waits <= 6); /* one each, at most: what is over by then needs none */
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* ---- what is launched ---- */

static struct {
    struct tidei_device_ops ops;
    const struct tidei_device_ops *before;
    int screens;
    unsigned blocks; /* of the last one */
} watch;

static tide_status watch_launch(tidei_device *d, tidei_dstream *s, const tidei_launch *l) {
    if (strncmp(l->name, "factor_screen", 13) == 0) {
        watch.screens++;
        watch.blocks = l->grid[0];
    }
    return watch.before->launch(d, s, l);
}

/* Few small matrices are screened in one launch, however small they are, with a block for each:
** they do not wait for each other. */
static void small_matrices_are_screened_in_one_launch(void **state) {
    static const int64_t counts[] = {1, 3, 500, 1024}, sizes_[] = {1, 2, 16, 64};
    (void)state;
    if (!test_on_host()) skip(); /* which takes any grid */
    tide_runtime *rt = open_checked();
    tidei_device *d = test_rt(rt)->devs[0].d;
    watch.ops = *(watch.before = d->ops);
    watch.ops.launch = watch_launch;
    d->ops = &watch.ops;
    d->info.sm_count = 132;
    for (size_t i = 0; i < TIDEI_COUNT(counts); i++)
        for (size_t k = 0; k < TIDEI_COUNT(sizes_); k++) {
            if (counts[i] * sizes_[k] > 8192) continue;
            assert_ok(tide_scope_begin(rt));
            watch.screens = 0;
            assert_array(tide_det(tide_ones(rt, TIDE_F32, SHAPE(counts[i], sizes_[k], sizes_[k]))));
            assert_int_equal(watch.screens, 1);
            assert_int_equal(watch.blocks, counts[i]);
            assert_ok(tide_scope_end(rt));
        }
    d->ops = watch.before;
    close_checked(rt);
}

/* ---- batches of small matrices on a GPU ---- No library of NVIDIA's is here: what is not served
** by kernels of our own fails. */

static void a_gpu_factors_small_batches(void **state) {
    static const struct {
        int nkinds;
        int kinds[3];
        bool square;
        one_case *one;
    } all[] = {{3, {RANDOM, GRADED, DEFICIENT}, false, one_lu},
               {1, {DEFINITE}, true, one_cholesky},
               {3, {RANDOM, GRADED, DEFICIENT}, false, one_qr},
               {2, {RANDOM, DEFINITE}, true, one_system},
               {3, {RANDOM, GRADED, DEFINITE}, true, one_inverse},
               {1, {DEFINITE}, true, one_determinant}};
    (void)state;
    if (!can_emulate()) skip();
    tide_runtime *rt = emulated_open(&(tide_config){.collector = "refcount"});
    for (size_t i = 0; i < TIDEI_COUNT(all); i++)
        cases_of(rt, 1, all[i].kinds, all[i].nkinds, all[i].square, all[i].one);
    /* so many that several share a warp */
    static const int64_t few[] = {3, 7, 16};
    for (size_t i = 0; i < TIDEI_COUNT(few); i++)
        for (size_t k = 0; k < TIDEI_COUNT(all); k++) {
            const int64_t many = (few[i] > 8 ? 2 : few[i] > 4 ? 4 : 8) * 97 + 1;
            assert_ok(tide_scope_begin(rt));
            tide_array *a = matrices(rt, types[(i + k) % 4], all[k].kinds[all[k].nkinds - 1], PLAIN,
                                     1, &many, few[i], few[i]);
            all[k].one(rt, a, types[(i + k) % 4], few[i], few[i]);
            assert_ok(tide_scope_end(rt));
        }
    /* so large that fewer right sides at once have room beside them; and long columns */
    const struct {
        int64_t m, n;
        one_case *one;
    } wide[] = {{72, 72, one_inverse}, {72, 72, one_qr}, {1, 300, one_qr}, {900, 3, one_lu}};
    for (size_t i = 0; i < TIDEI_COUNT(wide); i++) {
        assert_ok(tide_scope_begin(rt));
        tide_array *a =
            matrices(rt, TIDE_F64, RANDOM, PLAIN, 1, (int64_t[]){2}, wide[i].m, wide[i].n);
        wide[i].one(rt, a, TIDE_F64, wide[i].m, wide[i].n);
        assert_ok(tide_scope_end(rt));
    }
    tide_close(rt);
}

/* Numbers whose squares are beyond the type: times a power of 2, they have the same factors, of
** which those that are as large as they are multiplied by it. */
static void small_batches_take_extreme_numbers(void **state) {
    enum { M = 7, N = 5, COUNT = 3, EACH = M * N };
    (void)state;
    if (!can_emulate()) skip();
    tide_runtime *rt = emulated_open(&(tide_config){.collector = "refcount"});
    seed = 3;
    for (tide_dtype t = TIDE_F32; t <= TIDE_C128; t++)
        for (int little = 0; little < 2; little++) {
            /* not so small that digits are lost */
            double power = real_of(t) == TIDE_F32 ? (little ? -100 : 120) : (little ? -990 : 1018);
            number given[COUNT * EACH], extreme[COUNT * EACH];
            tide_array *q[2], *r[2], *lu[2], *pivots[2];
            assert_ok(tide_scope_begin(rt));
            for (int w = 0; w < COUNT; w++) fill_matrix(given + w * EACH, t, RANDOM, M, N);
            for (int i = 0; i < COUNT * EACH; i++) extreme[i] = given[i] * exp2(power);
            for (int i = 0; i < 2; i++) {
                tide_array *a = array_of(rt, t, SHAPE(COUNT, M, N), i ? extreme : given);
                assert_ok(tide_qr(a, TIDE_REDUCED, &q[i], &r[i]));
                assert_ok(tide_lu_factor(a, &lu[i], &pivots[i]));
            }
            tide_array *const *all[] = {q, r, lu, pivots};
            for (int which = 0; which < 4; which++) {
                values x = read_back(all[which][0]), y = read_back(all[which][1]);
                assert_int_equal(x.n, y.n);
                for (int64_t i = 0; i < x.n; i++) {
                    bool scaled = which == 1 || (which == 2 && i % EACH % N >= i % EACH / N);
                    number back = scaled ? y.at[i] * exp2(-power) : y.at[i];
                    assert_true(cabs(back - x.at[i]) <= RATIO * epsilon(t));
                }
                drop(&x), drop(&y);
            }
            assert_ok(tide_scope_end(rt));
        }
    tide_close(rt);
}

/* Pivots are the first of the greatest, infos the first zero or minor, and a matrix that is not
** finite is alone with what becomes of it. */
static void small_batches_keep_the_rules(void **state) {
    static const double ties[] = {1,      4, 0, -1, 2, 5, 1, 9, 7,  /**/ 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                  /**/ 1, 0, 0, 0,  1, 0, 0, 0, NAN};
    static const double singular[] = {2, 1, 1, 2, /**/ 1, 2, 2, 4, /**/ 0, 0, 0, 0};
    static const double no_reciprocal[] = {0x1p-1074, 0, 0x1p-1074, 0x1p-1074,
                                           0x1p-1070, 0, 0x1p-1070, 0x1p-1070};
    static const double wanted[] = {0, 1, 2, 0, 1, 2};
    double got[9], factors[27], least[3], corner = 0;
    tide_array *lu, *pivots, *q, *r;
    (void)state;
    if (!can_emulate()) skip();
    tide_runtime *rt = emulated_open(&(tide_config){.collector = "refcount"});
    assert_ok(tide_scope_begin(rt));
    tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(3, 3, 3), ties);
    assert_ok(tide_lu_factor(a, &lu, &pivots));
    assert_ok(tide_to_host(tide_cast(pivots, TIDE_F64), got, sizeof got));
    for (size_t i = 0; i < TIDEI_COUNT(wanted); i++) assert_true(got[i] == wanted[i]);
    assert_ok(tide_to_host(lu, factors, sizeof factors));
    for (int i = 0; i < 27; i++) assert_int_equal(isnan(factors[i]), i >= 18);
    for (int i = 9; i < 18; i++) assert_true(factors[i] == 0);
    assert_ok(tide_qr(a, TIDE_REDUCED, &q, &r));
    for (int which = 0; which < 2; which++) {
        assert_ok(tide_to_host(which ? r : q, factors, sizeof factors));
        for (int i = 0; i < 18; i++) assert_true(isfinite(factors[i]));
        assert_true(isnan(factors[26]));
    }
    tide_array *b = tide_from_host(rt, TIDE_F64, SHAPE(3, 2, 2), singular);
    tide_array *side = tide_ones(rt, TIDE_F64, SHAPE(2, 3));
    assert_null(tide_solve(b, side));
    assert_error(TIDE_E_SINGULAR, "matrix 1 of the batch is singular: U(2, 2) is 0");
    assert_null(tide_inv(b));
    assert_error(TIDE_E_SINGULAR, "matrix 1 of the batch");
    assert_null(tide_cholesky(b, TIDE_UPPER));
    assert_error(TIDE_E_SINGULAR, "matrix 1 of the batch");
    assert_ok(tide_to_host(tide_det(b), least, sizeof least));
    assert_true(fabs(least[0] - 3) < 1e-14 && least[1] == 0 && least[2] == 0);
    /* the least number has no reciprocal */
    tide_array *smallest = tide_from_host(rt, TIDE_F64, SHAPE(2, 2, 2), no_reciprocal);
    assert_ok(tide_lu_factor(smallest, &lu, NULL));
    assert_ok(tide_to_host(lu, factors, 8 * sizeof *factors));
    for (int i = 0; i < 8; i++) assert_true(factors[i] == (i % 4 == 2 ? 1 : no_reciprocal[i]));
    /* and that of the largest complex ones is lost on the way */
    tide_array *largest =
        tide_full(rt, TIDE_C128, SHAPE(2, 3, 2), tide_arg_complex(1.7e308, 1.7e308));
    assert_ok(tide_lu_factor(largest, &lu, NULL));
    assert_ok(tide_to_host(lu, factors, 24 * sizeof *factors));
    for (int i = 0; i < 24; i++)
        assert_true(factors[i] == (i % 12 < 4 ? 1.7e308 : i % 4 == 0 ? 1 : 0));
    /* what overflows on the way ends, whatever it gives */
    tide_array *huge = tide_full(rt, TIDE_F64, SHAPE(2, 3, 3), tide_arg_float(1e308));
    assert_ok(tide_qr(huge, TIDE_COMPLETE, &q, &r));
    assert_ok(tide_to_host(tide_slice(r, "0, 2, 0"), &corner, sizeof corner));
    assert_true(corner == 0);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

/* How many there are decides how many share a warp, not what comes of them. */
static void small_batches_do_not_depend_on_their_number(void **state) {
    enum { N = 7, FEW = 3, MANY = 97 * 4 };
    (void)state;
    if (!can_emulate()) skip();
    tide_runtime *rt = emulated_open(&(tide_config){.collector = "refcount"});
    assert_ok(tide_scope_begin(rt));
    tide_array *many = matrices(rt, TIDE_F64, RANDOM, PLAIN, 1, (int64_t[]){MANY}, N, N),
               *got[2][3];
    for (int i = 0; i < 2; i++) {
        tide_array *a = i ? tide_slice(many, ":3") : many;
        assert_ok(tide_qr(a, TIDE_REDUCED, &got[i][0], &got[i][1]));
        assert_array(got[i][2] = tide_inv(a));
    }
    for (int which = 0; which < 3; which++) {
        values x = read_back(got[0][which]), y = read_back(got[1][which]);
        assert_int_equal(y.n, FEW * N * N);
        for (int64_t i = 0; i < y.n; i++) assert_true(x.at[i] == y.at[i]);
        drop(&x), drop(&y);
    }
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

/* ---- a GPU against the host ---- */

static void compare(tide_array *mine, tide_array *theirs, double most) {
    values x = read_back(mine), y = read_back(theirs);
    assert_int_equal(x.n, y.n);
    double scale = norm(1, y.n, y.at);
    for (int64_t i = 0; i < x.n; i++)
        if (!(cabs(x.at[i] - y.at[i]) <= most * scale))
            fail_msg("element %d: %g against %g", (int)i, creal(x.at[i]), creal(y.at[i]));
    drop(&x), drop(&y);
}

static void the_device_agrees_with_the_host(void **state) {
    enum { N = 60, M = 90 };
    tide_config c = {.struct_size = sizeof c, .collector = "refcount", .device = "host"};
    tide_runtime *rt[2];
    (void)state;
    if (test_on_host()) skip();
    rt[0] = open_checked();
    assert_ok(tide_open(&c, &rt[1]));
    for (size_t t = 0; t < 4; t++) {
        tide_array *values_of[2], *eigen[2], *x[2], *fitted[2], *logs[2], *rank;
        for (int i = 0; i < 2; i++) {
            seed = t;
            assert_ok(tide_scope_begin(rt[i]));
            tide_array *a = matrices(rt[i], types[t], DEFINITE, PLAIN, 1, (int64_t[]){2}, N, N);
            tide_array *tall = matrices(rt[i], types[t], RANDOM, PLAIN, 0, NULL, M, N);
            tide_array *b = matrices(rt[i], types[t], RANDOM, PLAIN, 0, NULL, N, 3);
            assert_ok(tide_svd(tall, TIDE_REDUCED, NULL, &values_of[i], NULL));
            assert_ok(tide_eigh(a, TIDE_LOWER, &eigen[i], NULL));
            assert_array(x[i] = tide_solve(a, b));
            assert_ok(tide_slogdet(a, NULL, &logs[i]));
            assert_ok(tide_lstsq(tall, tide_slice(tall, ":, :2"), -1, &fitted[i], &rank, NULL));
            assert_true(tide_item_f64(rank) == N);
        }
        double most = RATIO * epsilon(types[t]) * M;
        compare(values_of[0], values_of[1], most);
        compare(eigen[0], eigen[1], most);
        compare(x[0], x[1], most);
        compare(logs[0], logs[1], most);
        compare(fitted[0], fitted[1], most * 100); /* its condition is about that */
        for (int i = 0; i < 2; i++) assert_ok(tide_scope_end(rt[i]));
    }
    close_checked(rt[0]);
    tide_close(rt[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lu_gives_factors_of_every_matrix),
        cmocka_unit_test(cholesky_gives_a_factor),
        cmocka_unit_test(qr_gives_factors_of_every_matrix),
        cmocka_unit_test(svd_scales_extreme_numbers),
        cmocka_unit_test(svd_gives_factors_of_every_matrix),
        cmocka_unit_test(eigh_gives_values_and_vectors),
        cmocka_unit_test(solve_gives_small_residuals),
        cmocka_unit_test(inv_gives_small_residuals),
        cmocka_unit_test(det_agrees_with_the_factors),
        cmocka_unit_test(det_is_exact_where_it_can_be),
        cmocka_unit_test(lstsq_gives_the_smallest_fit),
        cmocka_unit_test(rcond_says_what_counts_as_0),
        cmocka_unit_test(empty_matrices_are_taken),
        cmocka_unit_test(only_what_must_waits_for_the_device),
        cmocka_unit_test(small_matrices_are_screened_in_one_launch),
        cmocka_unit_test(a_gpu_factors_small_batches),
        cmocka_unit_test(small_batches_take_extreme_numbers),
        cmocka_unit_test(small_batches_keep_the_rules),
        cmocka_unit_test(small_batches_do_not_depend_on_their_number),
        cmocka_unit_test(the_device_agrees_with_the_host),
    };
    return cmocka_run_group_tests_name("linalg", tests, NULL, NULL);
}
