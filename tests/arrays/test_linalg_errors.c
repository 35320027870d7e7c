/* test_linalg_errors.c: linear algebra: what is refused, with which words; matrices that are
** singular or not finite, which the others of a batch do not suffer from; sizes beyond the
** library's; memory that runs out. */
#include "tests/arrays/matrices.h"
#include "arrays/expr/copy.h"
#include "arrays/linalg/job.h"
#include <limits.h>

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};

static tide_array *ones(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape) {
    tide_array *a = tide_ones(rt, t, ndim, shape);
    assert_array(a);
    return a;
}

/* ---- refusals ---- */

#define REFUSED(call, operation_, status, part)                                                    \
    do {                                                                                           \
        tide_error_clear();                                                                        \
        assert_false(call);                                                                        \
        assert_error(status, part);                                                                \
        assert_string_equal(tide_error_last()->operation, operation_);                             \
    } while (0)

static tide_array *untouched;
static bool lu_factor(tide_array *a) { return tide_lu_factor(a, &untouched, NULL) == TIDE_OK; }
static bool lu(tide_array *a) { return tide_lu(a, NULL, &untouched, NULL) == TIDE_OK; }
static bool cholesky(tide_array *a) { return tide_cholesky(a, TIDE_LOWER) != NULL; }
static bool qr(tide_array *a) { return tide_qr(a, TIDE_REDUCED, &untouched, NULL) == TIDE_OK; }
static bool svd(tide_array *a) {
    return tide_svd(a, TIDE_REDUCED, NULL, &untouched, NULL) == TIDE_OK;
}
static bool eigh(tide_array *a) { return tide_eigh(a, TIDE_LOWER, &untouched, NULL) == TIDE_OK; }
static bool solve(tide_array *a) { return tide_solve(a, a) != NULL; }
static bool inv(tide_array *a) { return tide_inv(a) != NULL; }
static bool det(tide_array *a) { return tide_det(a) != NULL; }
static bool slogdet(tide_array *a) { return tide_slogdet(a, &untouched, NULL) == TIDE_OK; }
static bool lstsq(tide_array *a) { return tide_lstsq(a, a, -1, &untouched, NULL, NULL) == TIDE_OK; }

static const struct function {
    const char *name;
    bool (*call)(tide_array *a);
    bool square;
} functions[] = {
    {"tide_lu_factor", lu_factor, false},
    {"tide_lu", lu, false},
    {"tide_cholesky", cholesky, true},
    {"tide_qr", qr, false},
    {"tide_svd", svd, false},
    {"tide_eigh", eigh, true},
    {"tide_solve", solve, true},
    {"tide_inv", inv, true},
    {"tide_det", det, true},
    {"tide_slogdet", slogdet, true},
    {"tide_lstsq", lstsq, false},
};

static void every_function_refuses_what_it_must(void **state) {
    tide_runtime *rt = open_checked();
    (void)state;
    assert_ok(tide_scope_begin(rt));
    tide_array *gone = ones(rt, TIDE_F32, SHAPE(3, 3));
    tide_free(gone);
    for (size_t i = 0; i < TIDEI_COUNT(functions); i++) {
        const struct function *f = &functions[i];
        REFUSED(f->call(ones(rt, TIDE_F16, SHAPE(3, 3))), f->name, TIDE_E_DTYPE,
                "f16 is too narrow");
        REFUSED(f->call(ones(rt, TIDE_BF16, SHAPE(3, 3))), f->name, TIDE_E_DTYPE,
                "tide_cast it to f32");
        REFUSED(f->call(ones(rt, TIDE_F32, SHAPE(3))), f->name, TIDE_E_SHAPE,
                "shape (3,) is no matrix");
        REFUSED(f->call(ones(rt, TIDE_F32, 0, NULL)), f->name, TIDE_E_SHAPE,
                "shape () is no matrix");
        if (f->square)
            REFUSED(f->call(ones(rt, TIDE_F32, SHAPE(2, 4, 3))), f->name, TIDE_E_SHAPE,
                    "shape (2, 4, 3): the matrix is not square");
        REFUSED(f->call(NULL), f->name, TIDE_E_INVALID, "NULL");
        REFUSED(f->call(gone), f->name, TIDE_E_FREED, "freed");
        assert_null(untouched);
    }
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

static void refusals_say_what_is_wrong(void **state) {
    tide_runtime *rt = open_checked(), *other = open_checked();
    tide_array *x;
    (void)state;
    assert_ok(tide_scope_begin(rt));
    assert_ok(tide_scope_begin(other));
    tide_array *a = ones(rt, TIDE_F32, SHAPE(3, 3)), *five = ones(rt, TIDE_F32, SHAPE(5, 3, 3));
    tide_array *foreign = ones(other, TIDE_F32, SHAPE(3, 3)), *p = ones(rt, TIDE_I64, SHAPE(3));
    REFUSED(tide_solve(a, ones(rt, TIDE_F32, SHAPE(4, 2))), "tide_solve", TIDE_E_SHAPE,
            "shapes (3, 3) and (4, 2): the matrix has 3 rows, the right side 4");
    REFUSED(tide_solve(a, ones(rt, TIDE_F32, SHAPE(4))), "tide_solve", TIDE_E_SHAPE,
            "shapes (3, 3) and (4,)");
    REFUSED(tide_solve(a, ones(rt, TIDE_F32, 0, NULL)), "tide_solve", TIDE_E_SHAPE,
            "no matrix, nor a vector");
    REFUSED(tide_solve(five, ones(rt, TIDE_F32, SHAPE(2, 3, 1))), "tide_solve", TIDE_E_SHAPE,
            "do not broadcast");
    REFUSED(tide_solve(a, ones(rt, TIDE_F16, SHAPE(3, 1))), "tide_solve", TIDE_E_DTYPE,
            "f16 is too narrow");
    REFUSED(tide_solve(a, foreign), "tide_solve", TIDE_E_INVALID, "another runtime");
    REFUSED(tide_solve(a, NULL), "tide_solve", TIDE_E_INVALID, "NULL");
    REFUSED(tide_lu_solve(a, ones(rt, TIDE_F32, SHAPE(3)), a), "tide_lu_solve", TIDE_E_DTYPE,
            "pivots are f32; wanted an integer type");
    REFUSED(tide_lu_solve(five, p, a), "tide_lu_solve", TIDE_E_SHAPE,
            "factors of shape (5, 3, 3) with pivots of shape (3,)");
    REFUSED(tide_lu_solve(a, NULL, a), "tide_lu_solve", TIDE_E_INVALID, "NULL");
    REFUSED(tide_cholesky(a, 2), "tide_cholesky", TIDE_E_INVALID,
            "how is 2, none of TIDE_LOWER, TIDE_UPPER");
    REFUSED(!tide_eigh(a, -1, &x, NULL), "tide_eigh", TIDE_E_INVALID, "how is -1");
    REFUSED(!tide_qr(a, 7, &x, NULL), "tide_qr", TIDE_E_INVALID,
            "mode is 7, none of TIDE_REDUCED, TIDE_COMPLETE");
    REFUSED(!tide_svd(a, 2, &x, NULL, NULL), "tide_svd", TIDE_E_INVALID, "mode is 2");
    REFUSED(!tide_qr(a, TIDE_REDUCED, NULL, NULL), "tide_qr", TIDE_E_INVALID,
            "no result is wanted");
    REFUSED(!tide_slogdet(a, NULL, NULL), "tide_slogdet", TIDE_E_INVALID, "no result is wanted");
    REFUSED(!tide_lstsq(a, a, NAN, &x, NULL, NULL), "tide_lstsq", TIDE_E_INVALID,
            "rcond is not a number");
    /* An earlier error is left standing. */
    assert_null(tide_reshape(a, SHAPE(2, 2)));
    assert_null(tide_inv(tide_inv(tide_reshape(a, SHAPE(2, 2)))));
    assert_error(TIDE_E_SHAPE, "");
    assert_string_equal(tide_error_last()->operation, "tide_reshape");
    assert_ok(tide_scope_end(other));
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
    close_checked(other);
}

/* ---- singular ones ---- */

/* Matrix `at` of a batch (3, 2) of definite ones becomes worse. */
static tide_array *batch_with(tide_runtime *rt, tide_dtype t, int64_t n, int64_t at, int64_t row,
                              int64_t col, double v) {
    number *x = calloc((size_t)(6 * n * n), sizeof *x);
    for (int64_t w = 0; w < 6; w++) fill_matrix(x + w * n * n, t, DEFINITE, n, n);
    if (row >= 0)
        x[at * n * n + row * n + col] = x[at * n * n + col * n + row] = v;
    else /* one row and column of nothing */
        for (int64_t i = 0; i < n; i++)
            x[at * n * n + i * n - 1 - row] = x[at * n * n + (-1 - row) * n + i] = 0;
    tide_array *a = array_of(rt, t, 4, (int64_t[]){3, 2, n, n}, x);
    free(x);
    return a;
}

static void a_singular_matrix_spoils_no_other(void **state) {
    tide_runtime *rt = open_checked();
    (void)state;
    seed = 3;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        assert_ok(tide_scope_begin(rt));
        tide_array *a = batch_with(rt, types[t], 5, 4, -5, 0, 0),
                   *b = ones(rt, types[t], SHAPE(5, 2));
        tide_array *lu_, *pivots, *sign, *logs, *one = tide_slice(a, "2, 0"),
                                                *row = tide_slice(a, ":, 0");
        REFUSED(tide_solve(a, b), "tide_solve", TIDE_E_SINGULAR,
                "matrix (2, 0) of the batch is singular: U(5, 5) is 0");
        REFUSED(tide_inv(a), "tide_inv", TIDE_E_SINGULAR,
                "matrix (2, 0) of the batch is singular: U(5, 5) is 0");
        REFUSED(tide_inv(row), "tide_inv", TIDE_E_SINGULAR, "matrix 2 of the batch is singular");
        REFUSED(tide_inv(one), "tide_inv", TIDE_E_SINGULAR, "the matrix is singular: U(5, 5) is 0");
        REFUSED(tide_cholesky(a, TIDE_UPPER), "tide_cholesky", TIDE_E_SINGULAR,
                "matrix (2, 0) of the batch is not positive definite: its leading minor of order 5 "
                "is not positive");
        tide_array *below = batch_with(rt, types[t], 5, 1, 2, 2, -1);
        REFUSED(
            tide_cholesky(below, TIDE_LOWER), "tide_cholesky", TIDE_E_SINGULAR,
            "matrix (0, 1) of the batch is not positive definite: its leading minor of order 3");
        /* These are no failures. */
        assert_ok(tide_lu_factor(a, &lu_, &pivots));
        assert_ok(tide_slogdet(a, &sign, &logs));
        values v = read_back(tide_det(a)), vs = read_back(sign), vl = read_back(logs);
        for (int w = 0; w < 6; w++) assert_true((v.at[w] == 0) == (w == 4));
        assert_true(vs.at[4] == 0 && creal(vl.at[4]) == -INFINITY);
        drop(&v), drop(&vs), drop(&vl);
        v = read_back(tide_lu_solve(lu_, pivots, b));
        for (int w = 0; w < 6; w++) {
            int bad = 0;
            for (int i = 0; i < 10; i++) bad += !isfinite(cabs(v.at[w * 10 + i]));
            assert_true((bad > 0) == (w == 4));
        }
        drop(&v);
        assert_ok(tide_scope_end(rt));
    }
    close_checked(rt);
}

/* ---- what is not finite ---- */

/* Elements of matrix w are not-a-number, all of them; those of the others are finite. */
static void spoiled(tide_array *a, int64_t each, int64_t bad) {
    values v = read_back(a);
    assert_int_equal(v.n, 6 * each);
    for (int64_t i = 0; i < v.n; i++) {
        bool nan = isnan(creal(v.at[i])) || isnan(cimag(v.at[i]));
        if (i / each == bad ? !nan : !isfinite(cabs(v.at[i])))
            fail_msg("matrix %d, element %d: %g", (int)(i / each), (int)(i % each), creal(v.at[i]));
    }
    drop(&v);
}

static void one_not_finite(tide_runtime *rt, tide_dtype t, int64_t n, int64_t row, int64_t col,
                           double v) {
    static const char words[] = "matrix (1, 1) of the batch has elements that are not finite";
    tide_array *a = batch_with(rt, t, n, 3, row, col, v), *b = ones(rt, t, SHAPE(n, 2)), *x, *y, *z;
    REFUSED(tide_solve(a, b), "tide_solve", TIDE_E_SINGULAR, words);
    REFUSED(tide_inv(a), "tide_inv", TIDE_E_SINGULAR, words);
    for (int how = 0; how < 2; how++) {
        REFUSED(tide_cholesky(a, how), "tide_cholesky", TIDE_E_SINGULAR, words);
        REFUSED(!tide_eigh(a, how, &x, &y), "tide_eigh", TIDE_E_CONVERGENCE, words);
    }
    REFUSED(!tide_svd(a, TIDE_REDUCED, &x, &y, &z), "tide_svd", TIDE_E_CONVERGENCE, words);
    REFUSED(!tide_svd(a, TIDE_REDUCED, NULL, &y, NULL), "tide_svd", TIDE_E_CONVERGENCE, words);
    REFUSED(!tide_lstsq(a, b, -1, &x, &y, &z), "tide_lstsq", TIDE_E_CONVERGENCE, words);
    assert_ok(tide_lu_factor(a, &x, &y));
    spoiled(x, n * n, 3);
    spoiled(tide_lu_solve(x, y, b), 2 * n, 3);
    spoiled(tide_lu_solve(x, y, ones(rt, t, SHAPE(n))), n, 3);
    assert_ok(tide_lu(a, &x, &y, &z));
    spoiled(y, n * n, 3);
    spoiled(z, n * n, 3);
    assert_ok(tide_qr(a, TIDE_COMPLETE, &x, &y));
    spoiled(x, n * n, 3);
    spoiled(y, n * n, 3);
    if (n < 20) spoiled(tide_det(a), 1, 3); /* else f32 overflows anyway */
    assert_ok(tide_slogdet(a, &x, &y));
    spoiled(x, 1, 3);
    spoiled(y, 1, 3);
    /* One right side of two, in each place of it. */
    tide_array *sides = tide_map(rt, "(b, i, j, v) -> where((i == 1) & (j < 2), v, b)", b,
                                 tide_arange(rt, TIDE_I32, 0, 2, 1),
                                 tide_reshape(tide_arange(rt, TIDE_I32, 0, n, 1), SHAPE(n, 1)), v);
    tide_array *good = tide_slice(a, "0, 0");
    assert_array(x = tide_solve(good, tide_cast(sides, t)));
    values vx = read_back(x);
    for (int64_t i = 0; i < n; i++)
        assert_true(isfinite(cabs(vx.at[2 * i])) && !isfinite(cabs(vx.at[2 * i + 1])));
    drop(&vx);
}

static void a_matrix_that_is_not_finite_is_told(void **state) {
    /* the last is too large for what takes all steps at once */
    static const int64_t sizes[] = {1, 2, 5, 40, 70};
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    tide_runtime *rt = open_checked();
    (void)state;
    seed = 5;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (size_t i = 0; i < TIDEI_COUNT(sizes); i++)
            for (size_t k = 0; k < TIDEI_COUNT(bad); k++) {
                int64_t n = sizes[i], col = (int64_t)draw((uint64_t)n);
                if (n == 70 && k != t % TIDEI_COUNT(bad)) continue;
                assert_ok(tide_scope_begin(rt));
                one_not_finite(rt, types[t], n, k == 1 ? n - 1 : (int64_t)draw((uint64_t)n),
                               k == 2 ? 0 : col, bad[k]);
                assert_ok(tide_scope_end(rt));
            }
    close_checked(rt);
}

/* Large ones come out another way (job.c). */
static void a_large_one_that_is_not_finite_is_told(void **state) {
    enum { N = 420 }; /* six of them have 2^20 elements */
    tide_runtime *rt = open_checked();
    tide_array *x, *y;
    (void)state;
    seed = 6;
    assert_ok(tide_scope_begin(rt));
    assert_ok(tide_lu_factor(batch_with(rt, TIDE_F32, N, 3, 7, N - 1, NAN), &x, &y));
    spoiled(x, N * N, 3);
    assert_ok(tide_qr(batch_with(rt, TIDE_C64, N, 5, N - 1, 0, INFINITY), TIDE_REDUCED, &x, &y));
    spoiled(x, N * N, 5);
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* Numbers near the end of the range overflow on the way; what comes is not finite, an error, or
** right, and comes. */
static void an_overflow_is_no_wrong_answer(void **state) {
    tide_runtime *rt = open_checked();
    (void)state;
    seed = 6;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        double most = real_of(types[t]) == TIDE_F32 ? FLT_MAX : DBL_MAX;
        tide_array *x, *y, *z;
        assert_ok(tide_scope_begin(rt));
        number *v = calloc(50 * 50, sizeof *v);
        for (int i = 0; i < 2500; i++) v[i] = most * (draw(2) ? 0.7 : -0.6);
        tide_array *a = array_of(rt, types[t], 2, (int64_t[]){50, 50}, v);
        free(v);
        assert_ok(tide_lu_factor(a, &x, &y));
        assert_ok(tide_qr(a, TIDE_REDUCED, &x, &y));
        (void)!tide_svd(a, TIDE_REDUCED, &x, &y, &z);
        (void)!tide_eigh(a, TIDE_LOWER, &x, &y);
        (void)!tide_cholesky(a, TIDE_LOWER);
        (void)!tide_inv(a);
        assert_array(tide_det(a));
        assert_ok(tide_device_synchronize(rt));
        assert_ok(tide_scope_end(rt));
    }
    close_checked(rt);
}

/* Pivots that no factorization gives: not-a-number, and nothing outside the matrices is touched. */
static void bad_pivots_touch_nothing_outside(void **state) {
    static const double want[] = {2, 1, 3};
    static const int64_t given[] = {1,       1, 2, /**/ 0, 3, 2,
                                    /**/ -1, 1, 2, /**/ 0, 1, INT64_MAX,
                                    /* */ 0, 0, 2}; /* row 1 is not exchanged with one that is
                                    ** done */
    tide_runtime *rt = open_checked();
    (void)state;
    assert_ok(tide_scope_begin(rt));
    tide_array *lu_ =
        tide_map(rt, "(i, j, o) -> where(i == j, 2.0, 0.0) + o", tide_arange(rt, TIDE_I32, 0, 3, 1),
                 tide_reshape(tide_arange(rt, TIDE_I32, 0, 3, 1), SHAPE(3, 1)),
                 tide_zeros(rt, TIDE_F64, SHAPE(5, 3, 3)));
    tide_array *pivots = tide_from_host(rt, TIDE_I64, SHAPE(5, 3), given);
    values x = read_back(tide_lu_solve(lu_, pivots, tide_arange(rt, TIDE_F64, 2, 8, 2)));
    for (int i = 0; i < 15; i++) assert_true(i < 3 ? x.at[i] == want[i] : isnan(creal(x.at[i])));
    drop(&x);
    /* Of any integer type, and any strides. */
    tide_array *few = tide_cast(tide_slice(pivots, "0, ::-1"), TIDE_I8);
    x = read_back(tide_lu_solve(tide_slice(lu_, "0"), tide_slice(few, "::-1"),
                                tide_arange(rt, TIDE_F64, 2, 8, 2)));
    assert_true(x.at[0] == 2 && x.at[1] == 1 && x.at[2] == 3);
    drop(&x);
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* ---- the seam ---- */

static void a_call_says_what_it_reads_and_writes(void **state) {
    tidei_storage st[5];
    tidei_use uses[5];
    int at[5];
    (void)state;
    tidei_lapack x = {
        .routine = TIDEI_GESVD, .dtype = TIDE_C64, .m = 7, .n = 3, .count = 4, .job = 'S'};
    x.a = (tidei_mats){&st[0], 2, 8, 30};
    x.b = (tidei_mats){&st[1], 1, 0, 5};
    x.c = (tidei_mats){&st[2], 0, 7, 21};
    x.d = (tidei_mats){&st[3], 0, 3, 9};
    x.info = &st[4];
    assert_string_equal(tidei_lapack_name(&x), "gesvd");
    assert_int_equal(tidei_lapack_uses(&x, uses, at), 5);
    static const struct {
        size_t offset, bytes;
        unsigned mode;
    } want[] = {{16, (3 * 30 + 2 * 8 + 7) * 8, TIDEI_READ | TIDEI_WRITE},
                {4, (3 * 5 + 3) * 4, TIDEI_WRITE},
                {0, 4 * 21 * 8, TIDEI_WRITE},
                {0, 4 * 9 * 8, TIDEI_WRITE},
                {0, 16, TIDEI_WRITE}};
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(uses[i].st, &st[i]);
        assert_int_equal(at[i], i);
        assert_int_equal(uses[i].offset, want[i].offset);
        assert_int_equal(uses[i].bytes, want[i].bytes);
        assert_int_equal(uses[i].mode, want[i].mode);
    }
    x.job = 'A';
    assert_int_equal(tidei_lapack_uses(&x, uses, at), 5);
    assert_int_equal(uses[2].bytes, (3 * 21 + 49) * 8);
    x.job = 'N';
    assert_int_equal(tidei_lapack_uses(&x, uses, at), 3);
    assert_int_equal(at[2], 4);
    x.routine = TIDEI_GETRS;
    x.k = 2;
    x.info = NULL;
    assert_int_equal(tidei_lapack_uses(&x, uses, at), 3);
    assert_int_equal(uses[1].bytes, (3 * 5 + 3) * 8); /* i64 */
    assert_int_equal(uses[0].mode, TIDEI_READ);
    x.routine = TIDEI_ORGQR;
    assert_int_equal(tidei_lapack_uses(&x, uses, NULL), 2);
    assert_int_equal(uses[1].bytes, (3 * 5 + 2) * 8);
}

/* What brings operands back may itself lack memory, at one rung of the ladder; at a higher one it
** does not. */
static void operands_are_brought_back_at_a_higher_rung(void **state) {
    static const double in[] = {1, 2, 3, 4};
    tide_runtime *rt = open_checked();
    tidei_job j;
    tidei_input x;
    tidei_load load;
    double out[4];
    const int32_t one = 1;
    int32_t marked[2];
    (void)state;
    tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(2, 2), in);
    tidei_job_begin(&j, "test", a, &x);
    tidei_operand *copy = tidei_job_work(&j, TIDE_F64, &x.batch, 2, (const int64_t[]){2, 2});
    tidei_operand *marks = tidei_job_marks(&j, &x.batch);
    tidei_job_load(&j, &load, &x, copy, &x.batch, 2, 2, true, 0, marks, FA_ALL);
    tidei_job_zero(&j, copy); /* spoiled */
    assert_int_equal(j.status, TIDE_OK);
    /* like these, by a call that was given up */
    assert_ok(tidei_fill_elements(marks, &one, "test"));
    j.status = TIDE_E_NOMEM; /* of the rung before */
    assert_ok(tidei_load_again(&load));
    assert_int_equal(j.status, TIDE_OK);
    assert_ok(tidei_operand_read(copy, out, "test"));
    for (int i = 0; i < 4; i++) assert_true(out[i] == in[i % 2 * 2 + i / 2]);
    assert_ok(tidei_operand_read(marks, marked, "test"));
    for (int i = 0; i < 2; i++) assert_int_equal(marked[i], 0);
    assert_ok(tidei_job_end(&j));
    tide_release(a);
    close_checked(rt);
}

/* What the host's library cannot count is refused before it is called: there is no such memory
** here. */
static void what_a_library_cannot_count_is_refused(void **state) {
    static const struct {
        tidei_lapack_routine routine;
        int64_t m, n;
    } cases[] = {{TIDEI_GETRF, (int64_t)INT_MAX + 1, 1},
                 {TIDEI_GEQRF, 1, (int64_t)INT_MAX + 1},
                 {TIDEI_GESVD, 40000, 40000},
                 {TIDEI_SYEVD, 40000, 40000},
                 {TIDEI_POTRF, 1, (int64_t)INT_MAX + 1},
                 {TIDEI_GESVD, INT_MAX, INT_MAX}};
    tide_runtime *rt = open_checked();
    (void)state;
    if (!test_on_host()) {
        close_checked(rt);
        skip();
    }
    tide_array *a = ones(rt, TIDE_F32, SHAPE(4));
    tidei_operand o;
    assert_ok(tidei_operand_get(a, "test", 1, &o));
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        int64_t m = cases[i].m, n = cases[i].n;
        tidei_lapack x = {
            .routine = cases[i].routine, .dtype = TIDE_F32, .m = m, .n = n, .count = 1, .job = 'S'};
        x.vectors = true;
        x.a = x.b = x.c = x.d = (tidei_mats){.st = o.st, .ld = m > n ? m : n};
        x.info = o.st;
        assert_int_equal(tidei_lapack_run(tidei_stream_here(test_rt(rt)), &x, "test"),
                         TIDE_E_UNSUPPORTED);
        assert_error(TIDE_E_UNSUPPORTED, "LAPACK counts in int");
    }
    tidei_operand_put(&o);
    tide_release(a);
    close_checked(rt);
}

enum { ENDS_N = 34, ENDS_ROOM = ENDS_N * ENDS_N, ENDS_HALF = 256 << 10 };

/* Numbers of the type's precision; the matrix that begins with element `at` outweighs on its
** diagonal, and of complex ones the diagonal is real. */
static tide_array *numbers_of(tide_runtime *rt, tide_dtype type, int64_t at) {
    static union {
        float f[ENDS_HALF / 4];
        double d[ENDS_HALF / 8];
    } in;
    const bool single = type == TIDE_F32 || type == TIDE_C64;
    const int64_t parts = type == TIDE_C64 || type == TIDE_C128 ? 2 : 1,
                  n = ENDS_HALF / (single ? 4 : 8);
    for (int64_t i = 0; i < n; i++) {
        const int64_t of = i / parts - at;
        const bool diagonal = of >= 0 && of < ENDS_ROOM && of % (ENDS_N + 1) == 0;
        const double x = !diagonal ? 1.0 / (double)(1 + i % 997) : i % parts ? 0 : 2.0 * ENDS_N;
        if (single)
            in.f[i] = (float)x;
        else
            in.d[i] = x;
    }
    return tide_from_host(rt, single ? TIDE_F32 : TIDE_F64, 1, &n, &in);
}

/* Behind the last page of the pool nothing is mapped, and an operand ends with that page. */
static void run_before_the_end(tidei_lapack_routine routine, tide_dtype type, int last) {
    const int64_t half = ENDS_HALF, elements = ENDS_HALF / (int64_t)tide_dtype_size(type);
    tide_runtime *rt =
        test_open(&(tide_config){.collector = "refcount", .pool = "tide", .limit = "512KiB"});
    tide_array *workspace, *a;
    tidei_operand o;
    tidei_storage *info;
    tidei_lapack x = {.routine = routine,
                      .dtype = type,
                      .m = ENDS_N,
                      .n = ENDS_N,
                      .k = routine == TIDEI_ORGQR ? ENDS_N : 0,
                      .count = 1,
                      .job = 'A',
                      .vectors = true};
    tidei_mats *const operands[] = {&x.a, &x.c, &x.d};
    for (int i = 0; i < 3; i++)
        *operands[i] = (tidei_mats){.offset = i * ENDS_ROOM, .ld = ENDS_N, .step = ENDS_ROOM};
    operands[last]->offset = elements - ENDS_ROOM;
    assert_array(workspace = tide_empty(rt, TIDE_U8, 1, &half));
    assert_array(a = numbers_of(rt, type, x.a.offset));
    tide_free(workspace);
    assert_ok(tidei_operand_get(a, "test", 1, &o));
    for (int i = 0; i < 3; i++) operands[i]->st = o.st;
    x.b = (tidei_mats){.st = o.st, .offset = 6 * ENDS_ROOM, .step = ENDS_N};
    assert_ok(tidei_storage_new(o.st->dev, 4, tidei_stream_here(test_rt(rt)), "test", &info));
    x.info = info;
    assert_ok(tidei_lapack_run(tidei_stream_here(test_rt(rt)), &x, "test"));
    assert_ok(tide_synchronize(rt, NULL));
    if (routine != TIDEI_GEQRF && routine != TIDEI_ORGQR)
        assert_int_equal(*(const int32_t *)(uintptr_t)info->addr, 0); /* it went through */
    tidei_storage_release(info);
    tidei_operand_put(&o);
    tide_release(a);
    tide_close(rt);
}

/* OpenBLAS's zgemv looks for an element beyond the last one of a vector that is a row, where the
** next column would be. */
static void nothing_is_read_beyond_an_operand(void **state) {
    static const tide_dtype each[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};
    static const tidei_lapack_routine routines[] = {TIDEI_GETRF, TIDEI_POTRF, TIDEI_GEQRF,
                                                    TIDEI_ORGQR, TIDEI_GESVD, TIDEI_SYEVD};
    (void)state;
    if (!test_on_host()) skip();
    for (size_t t = 0; t < TIDEI_COUNT(each); t++)
        for (size_t r = 0; r < TIDEI_COUNT(routines); r++)
            for (int last = 0; last < (routines[r] == TIDEI_GESVD ? 3 : 1); last++)
                run_before_the_end(routines[r], each[t], last);
}

/* A descriptor that is none is refused before anything is touched: of each kind of mistake, one. */
static tidei_lapack three_by_two(tidei_lapack_routine routine, tidei_storage *st) {
    const tidei_mats at = {.st = st, .ld = 3, .step = 9};
    return (tidei_lapack){.routine = routine,
                          .dtype = TIDE_F32,
                          .m = 3,
                          .n = 2,
                          .k = 2,
                          .count = 2,
                          .job = 'S',
                          .a = at,
                          .b = at,
                          .c = at,
                          .d = at,
                          .info = st};
}
enum wrong {
    NO_N,
    NO_M,
    NO_K,
    NO_COUNT,
    NO_INFO,
    NO_A,
    BEFORE_A,
    NARROW_A,
    CLOSE_A,
    WIDE,
    MANY_K,
    NO_JOB
};
static void spoil(tidei_lapack *x, enum wrong what) {
    switch (what) {
    case NO_N: x->n = 0; break;
    case NO_M: x->m = 0; break;
    case NO_K: x->k = 0; break;
    case NO_COUNT: x->count = 0; break;
    case NO_INFO: x->info = NULL; break;
    case NO_A: x->a.st = NULL; break;
    case BEFORE_A: x->a.offset = -1; break;
    case NARROW_A: x->a.ld = 1; break;
    case CLOSE_A: x->a.step = 4; break; /* the next one begins in the midst of this one */
    case WIDE: x->n = 4; break;         /* than it is high */
    case MANY_K: x->k = 3; break;       /* reflectors than there are columns */
    case NO_JOB: x->job = 'Q'; break;
    }
}

static void senseless_descriptors_are_refused(void **state) {
    static const struct {
        tidei_lapack_routine routine;
        enum wrong what;
    } cases[] = {{TIDEI_GETRF, NO_N},     {TIDEI_GETRF, NO_M},    {TIDEI_GETRF, NO_COUNT},
                 {TIDEI_GETRF, NO_INFO},  {TIDEI_GETRF, NO_A},    {TIDEI_GETRF, BEFORE_A},
                 {TIDEI_GETRF, NARROW_A}, {TIDEI_GETRF, CLOSE_A}, {TIDEI_GETRS, NO_K},
                 {TIDEI_POTRF, NO_INFO},  {TIDEI_GEQRF, NO_M},    {TIDEI_ORGQR, NO_K},
                 {TIDEI_ORGQR, WIDE},     {TIDEI_ORGQR, MANY_K},  {TIDEI_GESVD, WIDE},
                 {TIDEI_GESVD, NO_JOB},   {TIDEI_GESVD, NO_INFO}, {TIDEI_SYEVD, NO_INFO}};
    tide_runtime *rt = open_checked();
    tide_array *a = ones(rt, TIDE_F32, SHAPE(100));
    tidei_operand o;
    char wanted[64];
    (void)state;
    assert_ok(tidei_operand_get(a, "test", 1, &o));
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_lapack x = three_by_two(cases[i].routine, o.st);
        spoil(&x, cases[i].what);
        snprintf(wanted, sizeof wanted, "%s with sizes it cannot have", tidei_lapack_name(&x));
        assert_int_equal(tidei_lapack_run(tidei_stream_here(test_rt(rt)), &x, "test"),
                         TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, wanted);
    }
    tidei_operand_put(&o);
    tide_array *sum = tide_sum(a, NULL, 0, 0);
    assert_true(tide_item_f64(sum) == 100);
    tide_release(sum);
    tide_release(a);
    close_checked(rt);
}

/* Steps that the libraries' int does not count, of each operand: refused too, before any is
** taken. */
static void lapack_steps(tidei_stream *s, tidei_storage *st, int64_t far) {
    tidei_lapack x[4];
    const tidei_lapack_routine of[] = {TIDEI_GETRF, TIDEI_GETRS, TIDEI_GETRS, TIDEI_GESVD};
    for (unsigned i = 0; i < 4; i++) {
        x[i] = three_by_two(of[i], st);
        x[i].count = 1;
    }
    x[0].a.ld = x[1].c.ld = x[3].d.ld = x[2].k = far;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(tidei_lapack_run(s, &x[i], "test"), TIDE_E_UNSUPPORTED);
        assert_error(TIDE_E_UNSUPPORTED, "LAPACK counts in int");
    }
}
static void blas_steps(tidei_stream *s, tidei_storage *st, int64_t far) {
    const tidei_matrix at = {.st = st, .ld = 2};
    const tidei_gemm product = {
        .dtype = TIDE_F32, .m = 2, .n = 2, .k = 2, .a = at, .b = at, .c = at};
    const tidei_blas vectors = {
        .routine = TIDEI_GEMV, .dtype = TIDE_F32, .m = 2, .n = 2, .a = at, .b = at, .c = at};
    for (int i = 0; i < 3; i++) {
        tidei_gemm g = product;
        tidei_blas x = vectors;
        *(i == 0 ? &g.a.ld : i == 1 ? &g.b.ld : &g.c.ld) = far;
        *(i == 0 ? &x.a.ld : i == 1 ? &x.b.ld : &x.c.ld) = far;
        assert_int_equal(tidei_gemm_batched(s, &g, "test"), TIDE_E_UNSUPPORTED);
        assert_error(TIDE_E_UNSUPPORTED, "rows of less than 2^31 elements");
        assert_int_equal(tidei_blas_run(s, &x, "test"), TIDE_E_UNSUPPORTED);
        assert_error(TIDE_E_UNSUPPORTED, "steps of a vector as large");
    }
    tidei_blas triangle = {
        .routine = TIDEI_TRSM, .dtype = TIDE_F32, .m = far, .n = 1, .a = at, .c = at};
    assert_int_equal(tidei_blas_run(s, &triangle, "test"), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "rows of less than 2^31 elements");
}

static void steps_a_library_cannot_count_are_refused(void **state) {
    const int64_t far = (int64_t)INT_MAX + 1;
    tide_runtime *rt = open_checked();
    tide_array *a = ones(rt, TIDE_F32, SHAPE(100));
    tidei_operand o;
    (void)state;
    assert_ok(tidei_operand_get(a, "test", 1, &o));
    if (test_on_host()) {
        lapack_steps(tidei_stream_here(test_rt(rt)), o.st, far);
        blas_steps(tidei_stream_here(test_rt(rt)), o.st, far);
    }
    tidei_operand_put(&o);
    tide_release(a);
    close_checked(rt);
}

/* ---- memory that runs out ---- */

/* No room for a working copy: the report, under the function's name, and the inputs as they
** were. */
static void no_room_for_a_copy_leaves_the_inputs(void **state) {
    enum { N = 400 };
    tide_config c = {.collector = "refcount", .limit = "2MiB"};
    (void)state;
    if (!test_on_host()) skip(); /* a GPU's library takes more than that */
    tide_runtime *rt = test_open(&c);
    assert_ok(tide_scope_begin(rt));
    tide_array *x, *y,
        *a = tide_map(rt, "(i, j) -> f64(i == j) * 2.0", tide_arange(rt, TIDE_I16, 0, N, 1),
                      tide_reshape(tide_arange(rt, TIDE_I16, 0, N, 1), SHAPE(N, 1)));
    assert_array(a); /* 1.25 MB */
    REFUSED(tide_inv(a), "tide_inv", TIDE_E_NOMEM, "tide_inv");
    REFUSED(!tide_eigh(a, TIDE_LOWER, &x, &y), "tide_eigh", TIDE_E_NOMEM, "tide_eigh");
    values v = read_back(a);
    for (int64_t i = 0; i < v.n; i++) assert_true(v.at[i] == (i / N == i % N ? 2 : 0));
    drop(&v);
    assert_ok(tide_scope_end(rt));
    assert_int_equal(test_stats(rt).live, 0);
    tide_close(rt);
}

/* Results that nobody wants take no room: R alone none for a square Q. */
static void results_that_nobody_wants_take_no_room(void **state) {
    enum { M = 2000 };
    tide_config c = {.collector = "refcount", .limit = "4MiB"};
    (void)state;
    if (!test_on_host()) skip(); /* a GPU's library takes more than that */
    tide_runtime *rt = test_open(&c);
    tide_array *r;
    assert_ok(tide_scope_begin(rt));
    tide_array *a = ones(rt, TIDE_F64, SHAPE(M, 2));
    assert_ok(tide_qr(a, TIDE_COMPLETE, NULL, &r));
    assert_int_equal(tide_array_dim(r, 0), M);
    values v = read_back(r);
    assert_true(fabs(cabs(v.at[0]) - sqrt(M)) < 1e-10 && fabs(cabs(v.at[1]) - sqrt(M)) < 1e-10);
    for (int64_t i = 2; i < v.n; i++) assert_true(cabs(v.at[i]) < 1e-10);
    drop(&v);
    /* Nor for the larger of the singular vectors. */
    tide_array *values_, *small;
    assert_ok(tide_svd(a, TIDE_COMPLETE, NULL, &values_, &small));
    assert_int_equal(tide_array_dim(small, 0), 2);
    assert_ok(tide_svd(tide_transpose(a, NULL), TIDE_COMPLETE, &small, &values_, NULL));
    assert_int_equal(tide_array_dim(small, 0), 2);
    v = read_back(values_);
    assert_true(fabs(creal(v.at[0]) - sqrt(2 * M)) < 1e-10 && cabs(v.at[1]) < 1e-10);
    drop(&v);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_refuses_what_it_must),
        cmocka_unit_test(refusals_say_what_is_wrong),
        cmocka_unit_test(a_singular_matrix_spoils_no_other),
        cmocka_unit_test(a_matrix_that_is_not_finite_is_told),
        cmocka_unit_test(a_large_one_that_is_not_finite_is_told),
        cmocka_unit_test(an_overflow_is_no_wrong_answer),
        cmocka_unit_test(bad_pivots_touch_nothing_outside),
        cmocka_unit_test(a_call_says_what_it_reads_and_writes),
        cmocka_unit_test(operands_are_brought_back_at_a_higher_rung),
        cmocka_unit_test(what_a_library_cannot_count_is_refused),
        cmocka_unit_test(nothing_is_read_beyond_an_operand),
        cmocka_unit_test(senseless_descriptors_are_refused),
        cmocka_unit_test(steps_a_library_cannot_count_are_refused),
        cmocka_unit_test(no_room_for_a_copy_leaves_the_inputs),
        cmocka_unit_test(results_that_nobody_wants_take_no_room),
    };
    return cmocka_run_group_tests_name("linalg_errors", tests, NULL, NULL);
}
