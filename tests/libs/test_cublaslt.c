/* test_cublaslt.c: products by cuBLASLt: which go there, how often it is asked for a kernel, what
** follows them in the same call or in a pass of its own, how exactly they compute. Over doubles of
** cuBLAS and of the driver, whose kernels are emulated where there is a C++ compiler. */
#include <math.h>
#include <pthread.h>
#include "tests/doubles/cublas_double.h"
#include "tests/doubles/cuda_double.h"

static int with_both(void **state) {
    memset(&cublas, 0, sizeof cublas);
    tidei_cublas_use(&cublas_table);
    return setup(state);
}
static int without_both(void **state) {
    tidei_cublas_use(NULL);
    assert_int_equal(cublas.made, 0);
    return teardown(state);
}

static tide_runtime *open_cuda(const char *precision) {
    const tide_config c = {.struct_size = sizeof c,
                           .device = "cuda",
                           .collector = "refcount",
                           .matmul_precision = precision};
    tide_runtime *rt = NULL;
    assert_ok(tide_open(&c, &rt));
    return rt;
}
static void close_cuda(tide_runtime *rt) {
    tide_close(rt);
    assert_nothing_left();
}
static bool emulate(void) { return fake.runs_texts = emu_compiler() != NULL; }

/* ---- matrices ---- of small integers, so that sums are exact */

static float at_of(int64_t i, int64_t j, int seed) {
    return (float)((i * 7 + j * 3 + seed) % 11) - 5;
}
static tide_array *matrix(tide_runtime *rt, int64_t rows, int64_t cols, int seed) {
    float *p = malloc((size_t)(rows * cols) * sizeof *p);
    for (int64_t i = 0; i < rows * cols; i++) p[i] = at_of(i / cols, i % cols, seed);
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(rows, cols), p);
    assert_array(a);
    free(p);
    return a;
}

static double bent(int activation, double x) {
    if (activation == TIDE_RELU) return x > 0 ? x : 0;
    if (activation == TIDE_GELU)
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    return x;
}

/* c is what `activation` makes of matrix(m, k, 1) by matrix(k, n, 2) and the bias matrix(1, n, 3),
** of which there is none if activation < 0. */
static void assert_product(tide_array *c, int64_t m, int64_t k, int64_t n, int activation) {
    float *got = malloc((size_t)(m * n) * sizeof *got);
    assert_array(c);
    assert_ok(tide_to_host(c, got, (size_t)(m * n) * sizeof *got));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double want = activation < 0 ? 0 : (double)at_of(0, j, 3);
            for (int64_t q = 0; q < k; q++) want += (double)(at_of(i, q, 1) * at_of(q, j, 2));
            want = bent(activation, want);
            if (fabs((double)got[i * n + j] - want) > (activation == TIDE_GELU ? 1e-5 : 0))
                fail_msg("(%d, %d) is %g, not %g", (int)i, (int)j, (double)got[i * n + j], want);
        }
    free(got);
}

static void multiply(tide_runtime *rt, int64_t m, int64_t k, int64_t n) {
    assert_ok(tide_scope_begin(rt));
    assert_product(tide_matmul(matrix(rt, m, k, 1), matrix(rt, k, n, 2)), m, k, n, -1);
    assert_ok(tide_scope_end(rt));
}
static void linear(tide_runtime *rt, int64_t m, int64_t k, int64_t n, int activation) {
    assert_ok(tide_scope_begin(rt));
    tide_array *bias = tide_reshape(matrix(rt, 1, n, 3), SHAPE(n));
    assert_product(tide_linear(matrix(rt, m, k, 1), matrix(rt, k, n, 2), bias, activation), m, k, n,
                   activation);
    assert_ok(tide_scope_end(rt));
}

/* ---- cases ---- */

static void a_problem_is_asked_about_once(void **state) {
    (void)state;
    tide_runtime *rt = open_cuda(NULL);
    for (int i = 0; i < 3; i++) multiply(rt, 32, 32, 32);
    assert_int_equal(cublas.lt_products, 3);
    assert_int_equal(cublas.lt_asked, 1);
    multiply(rt, 32, 32, 31);
    assert_int_equal(cublas.lt_asked, 2);
    /* Otherwise stored, or at another alignment, it is another problem. */
    assert_ok(tide_scope_begin(rt));
    float *columns = malloc(32 * 32 * sizeof *columns);
    for (int64_t i = 0; i < 32 * 32; i++) columns[i] = at_of(i % 32, i / 32, 1);
    tide_array *turned = tide_transpose(tide_from_host(rt, TIDE_F32, SHAPE(32, 32), columns), NULL);
    free(columns);
    tide_array *b = matrix(rt, 32, 32, 2), *wide = matrix(rt, 32, 33, 1);
    assert_product(tide_matmul(turned, b), 32, 32, 32, -1);
    assert_int_equal(cublas.lt_asked, 3);
    tide_array *odd = tide_matmul(tide_slice(wide, ":, 1:"), b),
               *even = tide_matmul(wide, matrix(rt, 33, 32, 2));
    assert_array(odd);
    assert_array(even);
    assert_int_equal(cublas.lt_asked, 5);
    assert_array(tide_matmul(tide_slice(wide, ":, 1:"), b));
    assert_int_equal(cublas.lt_asked, 5);
    assert_ok(tide_scope_end(rt));
    assert_int_equal(cublas.lt_epilogues, 0);
    close_cuda(rt);
}

/* More problems than are kept: those that come again may be asked about again. */
static void problems_take_each_others_places(void **state) {
    (void)state;
    tide_runtime *rt = open_cuda(NULL);
    for (int round = 0; round < 2; round++)
        for (int64_t m = 2; m < 22; m++)
            for (int64_t n = 2; n < 22; n++) multiply(rt, m, 3, n);
    assert_int_equal(cublas.lt_products, 800);
    assert_in_range(cublas.lt_asked, 400, 800);
    close_cuda(rt);
}

/* Long sums, batches, complex numbers; f64 goes, as it has no TF32 and no other way. */
static void what_gains_nothing_goes_to_cublas(void **state) {
    (void)state;
    bool runs = emulate();
    tide_runtime *rt = open_cuda(NULL);
    multiply(rt, 32, 129, 32);
    multiply(rt, 129, 32, 128);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = matrix(rt, 4, 4, 1), *b = matrix(rt, 4, 4, 2);
    assert_array(tide_matmul(tide_cast(a, TIDE_C64), tide_cast(b, TIDE_C64)));
    assert_array(tide_matmul(tide_reshape(matrix(rt, 8, 4, 1), SHAPE(2, 4, 4)),
                             tide_reshape(matrix(rt, 8, 4, 1), SHAPE(2, 4, 4))));
    assert_int_equal(cublas.lt_asked, 0);
    tide_array *c = tide_matmul(tide_cast(a, TIDE_F64), tide_cast(b, TIDE_F64));
    assert_array(c);
    if (runs) assert_product(tide_cast(c, TIDE_F32), 4, 4, 4, -1);
    assert_int_equal(cublas.lt_products, 1);
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

static void without_a_kernel_cublas_multiplies(void **state) {
    (void)state;
    for (int refuses = 0; refuses < 2; refuses++) {
        tide_runtime *rt = open_cuda(NULL);
        memset(&cublas, 0, sizeof cublas);
        cublas.lt_has_none = !refuses;
        cublas.lt_refuses = refuses;
        for (int i = 0; i < 2; i++) multiply(rt, 8, 9, 10);
        assert_int_equal(cublas.lt_asked, 1);
        assert_int_equal(cublas.lt_products, 0);
        assert_int_equal(cublas.calls, 2);
        close_cuda(rt);
    }
}

/* ---- what follows ---- */

static void bias_and_activation_are_one_call(void **state) {
    (void)state;
    tide_runtime *rt = open_cuda(NULL);
    for (int activation = TIDE_IDENTITY; activation <= TIDE_GELU; activation++) {
        int launches = fake.launches;
        linear(rt, 6, 7, 8, activation);
        linear(rt, 150, 200, 300, activation); /* in a workspace */
        assert_int_equal(fake.launches, launches);
    }
    assert_int_equal(cublas.lt_epilogues, 6);
    assert_int_equal(cublas.calls, 6);
    assert_int_equal(cublas.lt_asked, 6);
    /* rows of matrices that meet one b are one matrix */
    assert_ok(tide_scope_begin(rt));
    tide_array *tall =
        tide_linear(tide_reshape(matrix(rt, 6, 4, 1), SHAPE(2, 3, 4)), matrix(rt, 4, 5, 2),
                    tide_reshape(matrix(rt, 1, 5, 3), SHAPE(5)), TIDE_RELU);
    assert_int_equal(cublas.lt_epilogues, 7);
    assert_product(tall, 6, 4, 5, TIDE_RELU);
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

/* A batch of factors, f64, no kernel: what follows is a pass of its own. */
static void what_cuda_cannot_follow_is_a_pass(void **state) {
    (void)state;
    bool runs = emulate();
    tide_runtime *rt = open_cuda(NULL);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = matrix(rt, 6, 4, 1), *b = matrix(rt, 4, 5, 2),
               *bias = tide_reshape(matrix(rt, 1, 5, 3), SHAPE(5));
    cublas.lt_has_none = true;
    int launches = fake.launches;
    tide_array *c = tide_linear(a, b, bias, TIDE_RELU);
    assert_int_equal(fake.launches, launches + 1);
    if (runs) assert_product(c, 6, 4, 5, TIDE_RELU);
    cublas.lt_has_none = false;
    c = tide_linear(tide_cast(a, TIDE_F64), tide_cast(b, TIDE_F64), bias, TIDE_GELU);
    if (runs) assert_product(tide_cast(c, TIDE_F32), 6, 4, 5, TIDE_GELU);
    c = tide_linear(tide_reshape(matrix(rt, 12, 4, 1), SHAPE(3, 4, 4)),
                    tide_reshape(matrix(rt, 12, 5, 2), SHAPE(3, 4, 5)), bias, TIDE_IDENTITY);
    assert_array(c);
    assert_int_equal(cublas.lt_epilogues, 0);
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

/* ---- how exactly ---- */

static void precision_is_as_the_runtime_says(void **state) {
    static const struct {
        const char *name;
        tidei_cublas_compute compute;
    } rows[] = {{NULL, TIDEI_CUBLAS_COMPUTE_32F},
                {"highest", TIDEI_CUBLAS_COMPUTE_32F},
                {"high", TIDEI_CUBLAS_COMPUTE_32F_FAST_TF32},
                {"medium", TIDEI_CUBLAS_COMPUTE_32F_FAST_16BF}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        tide_runtime *rt = open_cuda(rows[i].name);
        cublas.narrow = rows[i].compute;
        multiply(rt, 8, 8, 8);
        multiply(rt, 64, 300, 64);
        linear(rt, 8, 8, 8, TIDE_RELU);
        assert_ok(tide_scope_begin(rt));
        tide_array *a = matrix(rt, 8, 8, 1), *c = matrix(rt, 8, 8, 2);
        assert_ok(tide_gemm(c, tide_arg_int(1), a, a, tide_arg_int(1)));
        tide_array *z = tide_cast(a, TIDE_C64), *y = tide_cast(a, TIDE_F64);
        assert_array(tide_matmul(z, z));
        assert_array(tide_matmul(y, y)); /* the double wants f64 of these */
        /* other routines are exact, also those that become products */
        cublas.narrow = TIDEI_CUBLAS_COMPUTE_32F;
        tide_array *x = tide_reshape(matrix(rt, 24, 1, 3), SHAPE(3, 8)), *out = matrix(rt, 3, 8, 4);
        assert_ok(tide_gemv(out, tide_arg_int(1), a, x, tide_arg_int(0)));
        assert_ok(tide_scope_end(rt));
        close_cuda(rt);
    }
}

/* ---- failures and threads ---- */

static void a_call_that_fails_is_told(void **state) {
    (void)state;
    tide_runtime *rt = open_cuda(NULL);
    multiply(rt, 8, 8, 8);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = matrix(rt, 8, 8, 1);
    cublas.failing = cublas.calls + 1;
    cublas.fails = 2;
    cublas.fails_with = 13;
    assert_null(tide_linear(a, a, tide_slice(a, "0"), TIDE_RELU));
    assert_error(TIDE_E_DEVICE, "cuBLAS: error 13 in a product of (8, 8) by (8, 8)");
    cublas.fails = 0;
    assert_array(tide_linear(a, a, tide_slice(a, "0"), TIDE_RELU));
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

int main(void) {
#define WITH(f) cmocka_unit_test_setup_teardown(f, with_both, without_both)
    const struct CMUnitTest tests[] = {
        WITH(a_problem_is_asked_about_once),     WITH(problems_take_each_others_places),
        WITH(what_gains_nothing_goes_to_cublas), WITH(without_a_kernel_cublas_multiplies),
        WITH(bias_and_activation_are_one_call),  WITH(what_cuda_cannot_follow_is_a_pass),
        WITH(precision_is_as_the_runtime_says),  WITH(a_call_that_fails_is_told),
    };
    return cmocka_run_group_tests_name("cublaslt", tests, NULL, NULL);
}
