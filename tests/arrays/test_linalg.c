/* test_linalg.c: factorizations, systems, determinants, least squares: residuals within LAPACK's
** bounds, over types, shapes, batches, views, and matrices that are graded or of less than full
** rank; what is exact; what is empty; which functions wait. */
#include "tests/arrays/linalg_cases.h"
#include <sched.h>

/* ---- LU ---- */

static void lu_gives_factors_of_every_matrix(void **state) {
    (void)state;
    each_case(any, 3, false, one_lu);
}

/* ---- Cholesky ---- */

static void cholesky_gives_a_factor(void **state) {
    static const int kinds[] = {DEFINITE};
    (void)state;
    each_case(kinds, 1, true, one_cholesky);
}

/* ---- QR ---- */

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

static void solve_gives_small_residuals(void **state) {
    static const int kinds[] = {RANDOM, DEFINITE};
    (void)state;
    each_case(kinds, 2, true, one_system);
}

static void inv_gives_small_residuals(void **state) {
    static const int kinds[] = {RANDOM, GRADED, DEFINITE};
    (void)state;
    each_case(kinds, 3, true, one_inverse);
}

/* ---- determinants ---- */

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
        cmocka_unit_test(the_device_agrees_with_the_host),
    };
    return cmocka_run_group_tests_name("linalg", tests, NULL, NULL);
}
