/* tasks.h: small programs of the public API, for tests that spoil the device or the memory under
** them (failure_loop.h).
**
** A task makes its arrays of four inputs that stand, and notes each at once (MAKE), so that
** whatever stops it half way, after_run lets go of all that there is. It ends at the first call
** that fails, with that call's status; what it made after a run that nothing stopped is compared
** with values worked out again here. What must stay true: a task changes none of the inputs, so the
** same task may be run again. */
#ifndef TIDETEST_TASKS_H
#define TIDETEST_TASKS_H

#include "tests/support/tidetest.h"
#include <math.h>

#define MADE 14
/* static: bdwgc scans it, and a late copy to its memory would do no harm unseen */
static struct work {
    tide_runtime *rt;
    bool counted; /* the collector wants releases */
    tide_array *in[4];
    tide_array *made[MADE];
    unsigned nmade;
    tide_stream *stream;
    tide_batches *batches;
    struct diagonal {
        int64_t n;
        tide_data diag[2];
    } gpu, back; /* gpu: its arrays are in `made` */
    int32_t host[64];
    char text[512];
} work;

/* Notes what was made; the status of its making. */
static tide_status made(tide_array *a) {
    if (!a) return tide_error_last()->status;
    assert_true(work.nmade < MADE);
    work.made[work.nmade++] = a;
    return TIDE_OK;
}
#define MAKE(a)                                                                                    \
    do {                                                                                           \
        tide_status status_ = made(a);                                                             \
        if (status_ != TIDE_OK) return status_;                                                    \
    } while (0)
#define DO(call)                                                                                   \
    do {                                                                                           \
        tide_status status_ = (call);                                                              \
        if (status_ != TIDE_OK) return status_;                                                    \
    } while (0)

static void drop(tide_array **a) {
    if (!*a) return;
    tide_free(*a);
    if (work.counted) tide_release(*a);
    *a = NULL;
}
static void drop_made(void) {
    for (unsigned i = 0; i < work.nmade; i++) drop(&work.made[i]);
    work.nmade = 0;
}

static void check_values(unsigned i, int64_t n, double (*wanted)(int64_t at), double tolerance) {
    static double got[100000];
    tide_array *d = tide_cast(work.made[i], TIDE_F64);
    assert_array(d);
    assert_int_equal(tide_array_size(d), n);
    assert_ok(tide_to_host(d, got, (size_t)n * sizeof *got));
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(got[k] - wanted(k)) <= tolerance * fabs(wanted(k))))
            fail_msg("result %u, element %d: %.9g, wanted %.9g", i, (int)k, got[k], wanted(k));
    drop(&d);
}

static const tide_adapt_field diagonal_fields[] = {TIDE_FIELD(struct diagonal, diag)};
static const tide_adapt_rule diagonal_rule = {
    "Diagonal", sizeof(struct diagonal), diagonal_fields, TIDEI_COUNT(diagonal_fields), NULL, NULL};

/* in[0]: 0 .. 184 as f32 (37, 5); in[1]: 1 .. 5 as f32; in[2]: 0 .. 69999 as i64; in[3]: 0 .. 34 as
** i32 (7, 5) */
static void prepare(void) {
    tide_runtime *rt = work.rt;
    tide_array *flat[2] = {tide_arange(rt, TIDE_F32, 0, 185, 1),
                           tide_arange(rt, TIDE_I32, 0, 35, 1)};
    assert_array(work.in[0] = tide_reshape(flat[0], SHAPE(37, 5)));
    assert_array(work.in[1] = tide_arange(rt, TIDE_F32, 1, 6, 1));
    assert_array(work.in[2] = tide_arange(rt, TIDE_I64, 0, 70000, 1));
    assert_array(work.in[3] = tide_reshape(flat[1], SHAPE(7, 5)));
    drop(&flat[0]);
    drop(&flat[1]);
    assert_ok(tide_adapt_register(rt, &diagonal_rule, NULL));
    assert_ok(tide_device_synchronize(rt));
}

static tide_status map(void) {
    tide_array *outs[2];
    const tide_arg args[] = {tide_arg_array(work.in[0]), tide_arg_array(work.in[1])};
    MAKE(tide_map(work.rt, "(x, y, a) -> sqrt(x*x + y)*a - x", work.in[0], work.in[1], 2.0));
    tide_expr *e = tide_expr_new(work.rt, "(a, b) -> (a + b, a - b)");
    if (!e) return tide_error_last()->status;
    tide_status s = tide_expr_apply_many(e, args, 2, outs, 2);
    tide_expr_release(e);
    if (s != TIDE_OK) return s;
    made(outs[0]), made(outs[1]);
    MAKE(tide_copy(work.in[0]));
    DO(tide_map_into(work.made[3], "(x) -> x*3", work.made[3]));
    DO(tide_map_many(work.rt, outs, 2, "(x, y) -> (x - 2*y, x*2)", work.in[0], work.in[1]));
    made(outs[0]), made(outs[1]);
    /* so far that the text takes memory */
    MAKE(tide_slicef(work.made[3], "%*d:%d, ::%d", 300, 1, 3, 4)); /* of the rows 1 and 2 */
    return TIDE_OK;
}
static double map_0(int64_t k) {
    return sqrt((double)k * (double)k + (double)(k % 5 + 1)) * 2 - (double)k;
}
static double map_1(int64_t k) { return (double)(k + k % 5 + 1); }
static double map_2(int64_t k) { return (double)(k - k % 5 - 1); }
static double map_3(int64_t k) { return (double)(3 * k); }
static double map_4(int64_t k) { return (double)(k - 2 * (k % 5 + 1)); }
static double map_5(int64_t k) { return (double)(2 * k); }
static double map_6(int64_t k) { return (double)(3 * (5 * (1 + k / 2) + 4 * (k % 2))); }
static void check_map(void) {
    check_values(0, 185, map_0, 1e-5);
    check_values(1, 185, map_1, 0);
    check_values(2, 185, map_2, 0);
    check_values(3, 185, map_3, 0);
    check_values(4, 185, map_4, 0);
    check_values(5, 185, map_5, 0);
    check_values(6, 4, map_6, 0);
}

static tide_status reduce(void) {
    MAKE(tide_map(work.rt, "(x) -> sum(x + 1)", work.in[2]));
    MAKE(tide_map(work.rt, "(x) -> sum(x*2, axis=0)", work.in[0]));
    MAKE(tide_map(work.rt, "(x) -> x - max(x)", work.in[0]));
    MAKE(tide_mean(work.in[2], NULL, 0, 0));
    MAKE(tide_std(work.in[2], NULL, 0, 0, 0));
    return TIDE_OK;
}
static double reduce_0(int64_t k) { return (void)k, 70000.0 * 70001 / 2; }
static double reduce_1(int64_t k) { return (double)(2 * (37 * k + 5 * 36 * 37 / 2)); }
static double reduce_2(int64_t k) { return (double)(k - 184); }
static double reduce_3(int64_t k) { return (void)k, 69999.0 / 2; }
static double reduce_4(int64_t k) { return (void)k, sqrt((70000.0 * 70000 - 1) / 12); }
static void check_reduce(void) {
    check_values(0, 1, reduce_0, 0);
    check_values(1, 5, reduce_1, 1e-6);
    check_values(2, 185, reduce_2, 0);
    check_values(3, 1, reduce_3, 1e-6);
    check_values(4, 1, reduce_4, 1e-6);
}

static tide_status matmul(void) {
    MAKE(tide_matmul(work.in[0], work.in[1])); /* by BLAS: 37 */
    MAKE(tide_slice(work.in[0], "::-2, ::2")); /* 19 x 3, of no use to BLAS as it lies */
    MAKE(tide_transpose(work.made[1], NULL));
    MAKE(tide_matmul(work.made[2], work.made[1])); /* 3 x 3 */
    MAKE(tide_transpose(work.in[3], NULL));
    MAKE(tide_matmul(work.made[4], work.in[3])); /* integers: 5 x 5 */
    MAKE(tide_slice(work.in[0], "0, ::2"));      /* 3, with gaps */
    MAKE(tide_linear(work.made[2], work.made[1], work.made[6], TIDE_RELU));
    return TIDE_OK;
}
static double matmul_0(int64_t i) {
    double sum = 0;
    for (int k = 0; k < 5; k++) sum += (double)(5 * i + k) * (k + 1);
    return sum;
}
static double matmul_3(int64_t at) {
    double sum = 0;
    for (int r = 0; r < 37; r += 2)
        sum += (double)(5 * r + 2 * (at / 3)) * (double)(5 * r + 2 * (at % 3));
    return sum;
}
static double matmul_7(int64_t at) { return matmul_3(at) + (double)(at % 3 * 2); }
static double matmul_5(int64_t at) {
    double sum = 0;
    for (int r = 0; r < 7; r++) sum += (double)(5 * r + at / 5) * (double)(5 * r + at % 5);
    return sum;
}
static void check_matmul(void) {
    check_values(0, 37, matmul_0, 1e-6);
    check_values(3, 9, matmul_3, 1e-5);
    check_values(5, 25, matmul_5, 0);
    check_values(7, 9, matmul_7, 1e-5);
}

/* made[2] = 4 + 1 on the diagonal, 1 elsewhere (5 x 5): the eigenvalues are 4 and, once, 9. */
static tide_status definite(void) {
    MAKE(tide_arange(work.rt, TIDE_F64, 0, 5, 1));
    MAKE(tide_reshape(work.made[0], SHAPE(5, 1)));
    MAKE(tide_map(work.rt, "(i, j) -> where(i == j, 5.0, 1.0)", work.made[0], work.made[1]));
    return TIDE_OK;
}

static tide_status factorize(void) {
    tide_array *outs[3];
    DO(definite());
    MAKE(tide_cholesky(work.made[2], TIDE_LOWER));
    DO(tide_lu(work.made[2], &outs[0], &outs[1], &outs[2]));
    made(outs[0]), made(outs[1]), made(outs[2]);
    DO(tide_qr(work.made[2], TIDE_COMPLETE, &outs[0], &outs[1]));
    made(outs[0]), made(outs[1]);
    DO(tide_svd(work.made[2], TIDE_REDUCED, &outs[0], &outs[1], &outs[2]));
    made(outs[0]), made(outs[1]), made(outs[2]);
    DO(tide_eigh(work.made[2], TIDE_UPPER, &outs[0], &outs[1]));
    made(outs[0]), made(outs[1]);
    return TIDE_OK;
}
/* column by column: what is left of the diagonal, and of the ones beside it */
static double factor_3(int64_t at) {
    double diagonal = 5, beside = 1;
    if (at % 5 > at / 5) return 0;
    for (int64_t c = 0; c < at % 5; c++) {
        double square = beside * beside / diagonal;
        diagonal -= square;
        beside -= square;
    }
    return at % 5 == at / 5 ? sqrt(diagonal) : beside / sqrt(diagonal);
}
static double factor_4(int64_t k) { return (double)k; }
static double factor_10(int64_t k) { return k == 0 ? 9 : 4; }
static double factor_12(int64_t k) { return k == 4 ? 9 : 4; }
static void check_factorize(void) {
    check_values(3, 25, factor_3, 1e-13);
    check_values(4, 5, factor_4, 0);
    check_values(10, 5, factor_10, 1e-13);
    check_values(12, 5, factor_12, 1e-13);
}

static tide_status systems(void) {
    tide_array *outs[3];
    DO(definite());
    MAKE(tide_map(work.rt, "(a) -> sum(a, axis=1)", work.made[2]));
    MAKE(tide_solve(work.made[2], work.made[3]));
    MAKE(tide_inv(work.made[2]));
    MAKE(tide_det(work.made[2]));
    DO(tide_slogdet(work.made[2], &outs[0], &outs[1]));
    made(outs[0]), made(outs[1]);
    DO(tide_lstsq(work.made[2], work.made[3], -1, &outs[0], &outs[1], NULL));
    made(outs[0]), made(outs[1]);
    DO(tide_lu_factor(work.made[2], &outs[0], &outs[1]));
    made(outs[0]), made(outs[1]);
    /* its inverse's, so that again */
    MAKE(tide_lu_solve(work.made[11], work.made[12], work.made[5]));
    return TIDE_OK;
}
static double all_ones(int64_t k) { return (void)k, 1.0; }
static double all_fives(int64_t k) { return (void)k, 5.0; }
static double inverse(int64_t at) { return (at / 5 == at % 5 ? 0.25 : 0) - 1.0 / 36; }
static double inverse_twice(int64_t at) { return (at / 5 == at % 5 ? 0.0625 : 0) - 13.0 / 1296; }
static double determinant(int64_t k) { return (void)k, 2304.0; }
static double logarithm(int64_t k) { return (void)k, log(2304); }
static void check_systems(void) {
    check_values(4, 5, all_ones, 1e-13);
    check_values(5, 25, inverse, 1e-13);
    check_values(6, 1, determinant, 1e-13);
    check_values(7, 1, all_ones, 0);
    check_values(8, 1, logarithm, 1e-13);
    check_values(9, 5, all_ones, 1e-13);
    check_values(10, 1, all_fives, 0);
    check_values(13, 25, inverse_twice, 1e-13);
}

static tide_status by_blas(void) {
    tide_arg one = tide_arg_int(1);
    MAKE(tide_zeros(work.rt, TIDE_F32, SHAPE(37, 3)));
    MAKE(tide_slice(work.made[0], "::2, ::-1")); /* 19 x 3, which no BLAS writes as it lies */
    MAKE(tide_slice(work.in[0], "::2, ::2"));    /* nor reads */
    MAKE(tide_slice(work.in[1], ":3"));
    MAKE(tide_slice(work.made[2], "..., 1")); /* 10 r + 2 */
    MAKE(tide_slice(work.in[0], ":3, :3"));
    DO(tide_gemm(work.made[1], one, work.made[2], work.made[5], one));
    DO(tide_ger(work.made[1], one, work.made[4], work.made[3]));
    MAKE(tide_ones(work.rt, TIDE_F32, SHAPE(19)));
    DO(tide_gemv(work.made[6], one, work.made[2], work.made[3], tide_arg_int(3)));
    DO(tide_axpy(work.made[6], tide_arg_int(2), work.made[4]));
    MAKE(tide_dot(work.made[3], work.made[3]));
    MAKE(tide_nrm2(work.made[2]));
    MAKE(tide_solve_triangular(work.made[5], work.made[3], TIDE_UNIT));
    return TIDE_OK;
}
static double blas_1(int64_t at) { /* gaps (19, 3): 10 r + 2 k; (3, 3): 5 k + c */
    double r = (double)(at / 3), c = (double)(at % 3), sum = (10 * r + 2) * (c + 1);
    for (int k = 0; k < 3; k++) sum += (10 * r + 2 * k) * (5 * k + c);
    return sum;
}
static double blas_6(int64_t r) {
    return (double)(10 * r * 6 + 2 * 2 + 4 * 3 + 3 + 2 * (10 * r + 2));
}
static double blas_7(int64_t at) { return (void)at, 14; }
static double blas_8(int64_t r) { return sqrt((double)(300 * r * r + 120 * r + 20)); }
static double blas_9(int64_t at) { return at == 0 ? 1 : at == 1 ? 2 - 5 : 3 - 10 - 11 * (2 - 5); }
static void check_by_blas(void) {
    check_values(1, 57, blas_1, 1e-5);
    check_values(6, 19, blas_6, 1e-5);
    check_values(7, 1, blas_7, 1e-6);
    check_values(8, 19, blas_8, 1e-5);
    check_values(9, 3, blas_9, 1e-5);
}

static tide_status collect(void) {
    for (int i = 0; i < 6; i++) MAKE(tide_zeros(work.rt, TIDE_U8, SHAPE(1000 + i)));
    for (int i = 0; i < 3; i++) drop(&work.made[i]);
    DO(tide_collect(work.rt));
    MAKE(tide_copy(work.made[3]));
    drop(&work.made[4]);
    DO(tide_reclaim(work.rt, TIDE_RECLAIM_DROP, NULL));
    MAKE(tide_copy(work.made[3]));
    return TIDE_OK;
}
static double none(int64_t k) { return (void)k, 0.0; }
static void check_collect(void) {
    check_values(6, 1003, none, 0);
    check_values(7, 1003, none, 0);
}

/* Away, and back by an operation, a scope and the host; one dies there. */
static tide_status spill(void) {
    tide_use use = {.mode = TIDE_READ};
    tide_use_scope *scope;
    void *p;
    for (int i = 0; i < 3; i++) MAKE(tide_full(work.rt, TIDE_I32, SHAPE(1000), tide_arg_int(i)));
    DO(tide_reclaim(work.rt, TIDE_RECLAIM_SPILL, NULL));
    MAKE(tide_map(work.rt, "(a, b) -> a + b", work.made[1], work.made[2]));
    DO(tide_reclaim(work.rt, TIDE_RECLAIM_SPILL, NULL));
    drop(&work.made[0]);
    use.array = work.made[1];
    DO(tide_use_begin(work.rt, NULL, &use, 1, &p, &scope));
    DO(tide_use_end(scope));
    MAKE(tide_slice(work.made[2], ":8"));
    DO(tide_to_host(work.made[4], work.host, 8 * sizeof *work.host));
    MAKE(tide_copy(work.made[3]));
    DO(tide_reclaim(work.rt, TIDE_RECLAIM_SPILL, NULL));
    return TIDE_OK;
}
static double three(int64_t k) { return (void)k, 3.0; }
static void check_spill(void) {
    check_values(3, 1000, three, 0);
    check_values(5, 1000, three, 0);
}

static tide_status copy(void) {
    static const int32_t given[6] = {1, 2, 3, 4, 5, 6};
    tide_arg item;
    MAKE(tide_from_host(work.rt, TIDE_I32, SHAPE(2, 3), given));
    MAKE(tide_copy(work.made[0]));
    MAKE(tide_slice(work.made[1], ":, ::-1"));
    MAKE(tide_contiguous(work.made[2]));
    MAKE(tide_cast(work.made[2], TIDE_F16));
    DO(tide_assign(work.made[2], work.made[0])); /* reversed into made[1] */
    DO(tide_assign(work.made[0], work.made[2])); /* and back */
    MAKE(tide_slice(work.made[1], "1"));
    DO(tide_memset(work.made[5], 1));
    DO(tide_fill(work.made[5], tide_arg_int(9)));
    DO(tide_to_host(work.made[3], work.host, 6 * sizeof *work.host));
    DO(tide_to_host(work.made[2], work.host + 6, 6 * sizeof *work.host));
    MAKE(tide_slice(work.made[0], "1, 1"));
    DO(tide_item(work.made[6], &item));
    work.host[12] = (int32_t)item.value.i;
    const tide_print_options corners = {
        .struct_size = sizeof corners, .threshold = 1, .edge_items = 1};
    if (!tide_array_text_with(work.in[3], &corners, work.text, sizeof work.text) ||
        !tide_array_text(work.made[1], work.text, sizeof work.text))
        return tide_error_last()->status;
    return TIDE_OK;
}
static double copy_0(int64_t k) { return (double)(k + 1); }
static double copy_4(int64_t k) { return (double)(k / 3 * 3 + 3 - k % 3); }
static void check_copy(void) {
    static const int32_t wanted[] = {3, 2, 1, 6, 5, 4, 1, 2, 3, 9, 9, 9, 5};
    check_values(0, 6, copy_0, 0);
    check_values(4, 6, copy_4, 0);
    assert_memory_equal(work.host, wanted, sizeof wanted);
    assert_non_null(strstr(work.text, "3"));
}

static tide_status random_numbers(void) {
    tide_rng rng = {7, 0};
    MAKE(tide_random_uniform(work.rt, &rng, TIDE_F32, SHAPE(30)));
    MAKE(tide_random_normal(work.rt, &rng, TIDE_F64, SHAPE(30)));
    MAKE(tide_random_integers(work.rt, &rng, TIDE_I32, SHAPE(30), -5, 5));
    MAKE(tide_random_permutation(work.rt, &rng, 30));
    return TIDE_OK;
}
static void check_random(void) {
    static double got[4][30];
    bool seen[30] = {false};
    for (unsigned i = 0; i < 4; i++) {
        tide_array *d = tide_cast(work.made[i], TIDE_F64);
        assert_array(d);
        assert_ok(tide_to_host(d, got[i], sizeof got[i]));
        drop(&d);
    }
    for (int k = 0; k < 30; k++) {
        assert_true(got[0][k] >= 0 && got[0][k] < 1);
        assert_true(isfinite(got[1][k]));
        assert_true(got[2][k] >= -5 && got[2][k] < 5);
        assert_true(got[3][k] >= 0 && got[3][k] < 30 && !seen[(int)got[3][k]]);
        seen[(int)got[3][k]] = true;
    }
}

static tide_status gather(void) {
    static const int64_t rows[] = {6, 0, -1};
    MAKE(tide_from_host(work.rt, TIDE_I64, SHAPE(3), rows));
    MAKE(tide_take(work.in[3], work.made[0], 0)); /* (3, 5) */
    tide_array *parts[] = {work.made[1], work.in[3], work.in[0]};
    MAKE(tide_concat(parts, 3, 0)); /* (47, 5), f32 */
    return tide_synchronize(work.rt, NULL);
}
static double gather_1(int64_t k) { return (double)(k / 5 == 1 ? k % 5 : 30 + k % 5); }
static double gather_2(int64_t k) {
    return k < 15 ? gather_1(k) : k < 50 ? (double)(k - 15) : (double)(k - 50);
}
static void check_gather(void) {
    check_values(1, 15, gather_1, 0);
    check_values(2, 235, gather_2, 0);
}

/* What makes temporaries, and several views at once. */
static tide_status shape(void) {
    static const int64_t two[] = {2}, three[] = {3};
    tide_array *parts[2];
    DO(tide_split(work.in[2], NULL, 0, 0, parts, 2));
    made(parts[0]), made(parts[1]);
    MAKE(tide_pad(work.in[1], two, three, TIDE_PAD_REFLECT, tide_arg_int(0)));
    MAKE(tide_roll(work.in[0], three, NULL, 1)); /* (37, 5) */
    MAKE(tide_tril(work.in[3], 0));
    MAKE(tide_diff(work.in[2], 2, 0));
    MAKE(tide_trapezoid(work.in[1], tide_arg_array(work.in[1]), 0));
    return tide_synchronize(work.rt, NULL);
}
static double shape_1(int64_t k) { return (double)(35000 + k); }
static double shape_2(int64_t k) { return (double[]){3, 2, 1, 2, 3, 4, 5, 4, 3, 2}[k]; }
static double shape_3(int64_t k) { return (double)((k + 182) % 185); }
static double shape_4(int64_t k) { return k % 5 <= k / 5 ? (double)k : 0; }
static double shape_5(int64_t k) { return 0 * (double)k; }
static double shape_6(int64_t k) { return 12 + (double)k; }
static void check_shape(void) {
    check_values(1, 35000, shape_1, 0);
    check_values(2, 10, shape_2, 0);
    check_values(3, 185, shape_3, 0);
    check_values(4, 35, shape_4, 0);
    check_values(5, 69998, shape_5, 0);
    check_values(6, 1, shape_6, 0);
}

/* Indices on several axes, along one, values for one place, segments. */
static tide_status by_index(void) {
    static const int64_t rows[] = {6, 0, -1}, counts[] = {2, 0, 1};
    MAKE(tide_from_host(work.rt, TIDE_I64, SHAPE(3), rows));
    const tide_pick picks[] = {tide_pick_array(work.made[0]), tide_pick_range(tide_range_index(2))};
    MAKE(tide_index(work.in[3], 2, picks)); /* (3) */
    MAKE(tide_zeros(work.rt, TIDE_F32, SHAPE(7)));
    DO(tide_index_put(work.made[2], 1, picks, work.made[1]));
    DO(tide_put_along_axis(work.made[2], work.made[0], 0, work.made[1]));
    DO(tide_scatter_add(work.made[2], work.made[0], 0, work.made[1], 0));
    MAKE(tide_from_host(work.rt, TIDE_I64, SHAPE(3), counts));
    MAKE(tide_repeat_each(work.made[1], work.made[3], 0)); /* (3) */
    MAKE(tide_segment_mean(work.made[4], work.made[3], 3, 0));
    return tide_synchronize(work.rt, NULL);
}
static double by_index_2(int64_t k) { return k == 6 ? 32 + 32 + 32 : k == 0 ? 2 + 2 : 0; }
static double by_index_5(int64_t k) { return (void)k, 32; }
static void check_by_index(void) {
    check_values(2, 7, by_index_2, 0);
    check_values(5, 3, by_index_5, 0);
}

/* Another stream, events between the two, and memory lent. */
static tide_status on_streams(void) {
    DO(tide_stream_new(work.rt, &work.stream));
    MAKE(tide_map(work.rt, "(x) -> x + 1", work.in[2]));
    DO(tide_stream_set(work.rt, work.stream));
    MAKE(tide_map(work.rt, "(x) -> x*2", work.made[0]));
    DO(tide_stream_set(work.rt, NULL));
    MAKE(tide_map(work.rt, "(x, y) -> x - y", work.made[1], work.in[2]));
    tide_use use = {.array = work.made[2], .mode = TIDE_READ | TIDE_WRITE};
    tide_use_scope *scope;
    void *p;
    DO(tide_use_begin(work.rt, work.stream, &use, 1, &p, &scope));
    DO(tide_use_end(scope));
    DO(tide_map_into(work.made[2], "(x) -> x + 1", work.made[2]));
    DO(tide_synchronize(work.rt, work.stream));
    return tide_device_synchronize(work.rt);
}
static double streams_2(int64_t k) { return (double)(k + 3); }
static void check_streams(void) { check_values(2, 70000, streams_2, 0); }

/* The batch to come may fail to be made ahead of its time: then it is made in time. */
static int32_t samples[7][3];
static tide_status batches(void) {
    for (int i = 0; i < 21; i++) samples[i / 3][i % 3] = i;
    tide_data x[2] = {tide_data_host(TIDE_I32, SHAPE(7, 3), samples),
                      tide_data_host(TIDE_I32, SHAPE(7, 3), samples)},
              batch[2];
    const tide_batches_config c = {.struct_size = sizeof c, .arrays = x, .narrays = 2, .batch = 2};
    DO(tide_batches_new(work.rt, &c, &work.batches));
    for (int i = 0; i < 3; i++) {
        DO(tide_batches_next(work.batches, batch));
        MAKE(tide_map(work.rt, "(x, y) -> x + y", batch[0].array, batch[1].array));
    }
    return tide_synchronize(work.rt, NULL);
}
static double batch_0(int64_t k) { return (double)(2 * k); }
static double batch_2(int64_t k) { return (double)(2 * (k + 12)); }
static void check_batches(void) {
    check_values(0, 6, batch_0, 0);
    check_values(2, 6, batch_2, 0);
}

static tide_status adapt(void) {
    static const double given[3] = {1, 2, 3};
    static const int64_t strides[1] = {-1};
    struct diagonal cpu = {3,
                           {tide_data_host(TIDE_F64, SHAPE(3), given),
                            tide_data_host(TIDE_F64, SHAPE(3), given + 2)}},
                    narrow = {0};
    cpu.diag[1].strides = strides;
    DO(tide_adapt(work.rt, "Diagonal", &cpu, TIDE_ADAPT_DEVICE, &work.gpu));
    for (int i = 0; i < 2; i++) made(work.gpu.diag[i].array);
    DO(tide_adapt(work.rt, "Diagonal", &work.gpu, TIDE_ADAPT_DEVICE | TIDE_ADAPT_NARROW, &narrow));
    for (int i = 0; i < 2; i++) made(narrow.diag[i].array);
    return tide_adapt(work.rt, "Diagonal", &work.gpu, TIDE_ADAPT_HOST, &work.back);
}
static double adapt_0(int64_t k) { return (double)(k + 1); }
static double adapt_1(int64_t k) { return (double)(3 - k); }
static void check_adapt(void) {
    check_values(0, 3, adapt_0, 0);
    check_values(1, 3, adapt_1, 0);
    check_values(2, 3, adapt_0, 0);
    check_values(3, 3, adapt_1, 0);
    for (int i = 0; i < 3; i++) assert_true(((double *)work.back.diag[1].host)[i] == adapt_1(i));
}

/* Memory of other kinds, which the host reads and writes too. */
static tide_status by_kind(void) {
    tide_device_figures m = {.struct_size = sizeof m};
    tide_host_view v;
    tide_arg item;
    MAKE(tide_empty_in(work.rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(50)));
    DO(tide_fill(work.made[0], tide_arg_int(2)));
    MAKE(tide_to_memory(work.in[0], TIDE_MEMORY_UNIFIED));
    MAKE(tide_map(work.rt, "(x) -> x + 1", work.made[1]));
    DO(tide_array_prefetch(work.made[1], 0, 100, TIDE_TO_HOST));
    DO(tide_array_advise(work.made[1], 0, 100, TIDE_ADVISE_HOST));
    DO(tide_host_view_begin(work.made[1], TIDE_READ | TIDE_WRITE, &v));
    for (int i = 0; i < 37; i++)
        for (int k = 0; k < 5; k++) TIDE_AT(float, &v, i, k) += 10;
    DO(tide_host_view_end(&v));
    DO(tide_array_set(work.made[0], (const int64_t[]){3}, tide_arg_int(9)));
    DO(tide_array_get(work.made[0], (const int64_t[]){3}, &item));
    if (item.value.f != 9) fail_msg("%g was set to 9", item.value.f);
    MAKE(tide_copy(work.made[0]));
    return tide_device_info(work.rt, &m);
}
static double kind_0(int64_t k) { return k == 3 ? 9 : 2; }
static double kind_1(int64_t k) { return (double)(k + 10); }
static double kind_2(int64_t k) { return (double)(k + 1); }
static void check_kinds(void) {
    check_values(0, 50, kind_0, 0);
    check_values(1, 185, kind_1, 0);
    check_values(2, 185, kind_2, 0);
    check_values(3, 50, kind_0, 0);
}

static const struct task {
    const char *name;
    tide_status (*run)(void);
    void (*check)(void);
    /* of hundreds of calls: on a GPU, where each round takes a second, few of them get their
    ** turn */
    bool long_one;
} tasks[] = {
    {"map", map, check_map, false},
    {"reduce", reduce, check_reduce, false},
    {"matmul", matmul, check_matmul, false},
    {"factorize", factorize, check_factorize, true},
    {"systems", systems, check_systems, true},
    {"blas", by_blas, check_by_blas, false},
    {"collect", collect, check_collect, false},
    {"spill", spill, check_spill, false},
    {"copy", copy, check_copy, false},
    {"random", random_numbers, check_random, false},
    {"take and concat", gather, check_gather, false},
    {"shapes", shape, check_shape, false},
    {"index", by_index, check_by_index, false},
    {"streams", on_streams, check_streams, false},
    {"batches", batches, check_batches, false},
    {"adapt", adapt, check_adapt, false},
    {"kinds", by_kind, check_kinds, false},
};

static tide_status run(const struct task *t) {
    tide_error_clear();
    tide_status status = t->run();
    (void)!tide_stream_set(work.rt, NULL);
    return status;
}

static void after_run(void) {
    drop_made();
    tide_batches_release(work.batches);
    work.batches = NULL;
    tide_adapt_release(work.rt, "Diagonal", &work.back);
    tide_stream_release(work.stream);
    work.stream = NULL;
}

#endif
