/* test_expr.c: expressions end to end on the device under test: values, shapes, errors, threads,
** and what a warm call may not do. */
#include "arrays/expr/front.h"
#include "tests/arrays/expr/holds.h"
#include <pthread.h>

static uint32_t programs(void) { return atomic_load(&tidei_exprs_of(test_rt(rt))->nprograms); }

/* ---- elementwise ---- */

static void map_computes_a_formula(void **state) {
    (void)state;
    tide_array *x = vector(TIDE_F32, 3, ITEMS(1, 2, 3)),
               *y = vector(TIDE_F32, 3, ITEMS(10, 20, 30));
    holds(tide_map(rt, "(a, x, y) -> a*x + y", 2.0, x, y), TIDE_F32, SHAPE(3), ITEMS(12, 24, 36));
    holds(tide_map(rt, "(a, x, y) -> a*x + y", 3, x, y), TIDE_F32, SHAPE(3), ITEMS(13, 26, 39));
    holds(tide_map(rt, "(x) -> x", x), TIDE_F32, SHAPE(3), ITEMS(1, 2, 3));
    tide_expr *e = tide_expr_new(rt, "(a, b) -> (a + b, a - b, a < b)");
    tide_array *outs[3];
    assert_non_null(e);
    assert_ok(
        tide_expr_apply_many(e, (tide_arg[]){tide_arg_array(x), tide_arg_array(y)}, 2, outs, 3));
    holds(outs[0], TIDE_F32, SHAPE(3), ITEMS(11, 22, 33));
    holds(outs[1], TIDE_F32, SHAPE(3), ITEMS(-9, -18, -27));
    holds(outs[2], TIDE_BOOL, SHAPE(3), ITEMS(1, 1, 1));
    tide_expr_release(e);
}

static void map_many_gives_several_results(void **state) {
    (void)state;
    tide_array *x = vector(TIDE_F32, 3, ITEMS(1, 2, 3)), *outs[3] = {x, x, x};
    assert_ok(tide_map_many(rt, outs, 3, "(a, x) -> (a + x, a - x, sum(x))", 10, x));
    holds(outs[0], TIDE_F32, SHAPE(3), ITEMS(11, 12, 13));
    holds(outs[1], TIDE_F32, SHAPE(3), ITEMS(9, 8, 7));
    holds(outs[2], TIDE_F32, 0, NULL, ITEMS(6));
    assert_ok(tide_map_many(rt, outs, 1, "() -> 7"));
    assert_true(tide_item_f64(outs[0]) == 7);
    outs[0] = outs[1] = x; /* nothing is written on failure */
    assert_int_equal(tide_map_many(rt, outs, 1, "(x) -> (x, x + 1)", x), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the expression has 2 results; 1 are wanted");
    assert_int_equal(tide_map_many(rt, outs, 2, "(x) -> (x, x +)", x), TIDE_E_PARSE);
    assert_string_equal(tide_error_last()->operation, "(x) -> (x, x +)");
    assert_int_equal(tide_map_many(rt, NULL, 1, "(x) -> x", x), TIDE_E_INVALID);
    assert_int_equal(tide_map_many(rt, outs, 2, NULL, x), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the text is NULL");
    assert_string_equal(tide_error_last()->operation, "tide_map_many");
    assert_int_equal(tide_map_many(NULL, outs, 2, "(x) -> (x, x)", x), TIDE_E_INVALID);
    assert_ptr_equal(outs[0], x);
    assert_ptr_equal(outs[1], x);
}

static void operands_are_stretched(void **state) {
    (void)state;
    tide_array *col = array(TIDE_I32, SHAPE(3, 1), ITEMS(0, 10, 20)),
               *row = vector(TIDE_I64, 2, ITEMS(1, 2));
    tide_array *zero_d = array(TIDE_I32, 0, NULL, ITEMS(100));
    holds(tide_map(rt, "(a, b) -> a + b", col, row), TIDE_I64, SHAPE(3, 2),
          ITEMS(1, 2, 11, 12, 21, 22));
    holds(tide_map(rt, "(a, b, c) -> a + b + c", col, row, zero_d), TIDE_I64, SHAPE(3, 2),
          ITEMS(101, 102, 111, 112, 121, 122));
    holds(tide_map(rt, "(c) -> c*c", zero_d), TIDE_I32, 0, NULL, ITEMS(10000));
    tide_array *eight = counting(TIDE_I32, SHAPE(2, 1, 2, 1, 2, 1, 2, 1)),
               *other = counting(TIDE_I32, SHAPE(2, 1, 2, 1, 2, 1, 2));
    /* axes 2..8 of `other` fall between those of `eight` */
    tide_array *sum = tide_add(eight, other);
    assert_array(sum);
    assert_int_equal(tide_array_size(sum), 256);
    double want[256];
    for (int i = 0; i < 256; i++) {
        int bit[8], a, b;
        for (int k = 0; k < 8; k++) bit[k] = i >> (7 - k) & 1;
        a = bit[0] * 8 + bit[2] * 4 + bit[4] * 2 + bit[6];
        b = bit[1] * 8 + bit[3] * 4 + bit[5] * 2 + bit[7];
        want[i] = a + b;
    }
    holds(sum, TIDE_I32, SHAPE(2, 2, 2, 2, 2, 2, 2, 2), want);
    assert_null(tide_map(rt, "(a, b) -> a + b", row, vector(TIDE_I64, 3, ITEMS(1, 2, 3))));
    assert_error(TIDE_E_SHAPE, "(2,)");
    assert_string_equal(tide_error_last()->operation, "(a, b) -> a + b");
    tide_error_clear();
}

static void views_are_read_as_they_lie(void **state) {
    (void)state;
    tide_array *x = counting(TIDE_F64, SHAPE(3, 4));
    tide_array *t = tide_transpose(x, NULL), *odd = tide_slice(x, "::-1, 1::2");
    holds(tide_map(rt, "(x) -> x + 1", t), TIDE_F64, SHAPE(4, 3),
          ITEMS(1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12));
    holds(tide_map(rt, "(x) -> -x", odd), TIDE_F64, SHAPE(3, 2), ITEMS(-9, -11, -5, -7, -1, -3));
    /* broadcast fails: (3,2) with (2,3) */
    holds(tide_map(rt, "(x, y) -> x*y", odd, tide_slice(t, "1::2, ::-1")) ? NULL : odd, TIDE_F64,
          SHAPE(3, 2), ITEMS(9, 11, 5, 7, 1, 3));
    assert_error(TIDE_E_SHAPE, "(3, 2)");
    tide_error_clear();
}

static void empty_operands_give_empty_results(void **state) {
    (void)state;
    tide_array *none = tide_empty(rt, TIDE_F32, SHAPE(0)),
               *wide = tide_empty(rt, TIDE_F32, SHAPE(2, 0, 3));
    holds(tide_map(rt, "(x) -> x*2 + 1", none), TIDE_F32, SHAPE(0), NULL);
    holds(tide_map(rt, "(x, y) -> x + y", wide, tide_ones(rt, TIDE_F64, SHAPE(3))), TIDE_F64,
          SHAPE(2, 0, 3), NULL);
    holds(tide_map(rt, "(x) -> sum(x, axis=1)", wide), TIDE_F32, SHAPE(2, 3),
          ITEMS(0, 0, 0, 0, 0, 0));
    holds(tide_map(rt, "(x) -> 1 + prod(x, axis=(1, 2), keepdims=true)", wide), TIDE_F32,
          SHAPE(2, 1, 1), ITEMS(2, 2));
    holds(tide_map(rt, "(x) -> mean(x)", wide), TIDE_F32, 0, NULL, ITEMS(NAN));
    double mean[2];
    assert_ok(tide_to_host(tide_mean(tide_empty(rt, TIDE_C128, SHAPE(0)), NULL, 0, 0), mean,
                           sizeof mean));
    assert_true(isnan(mean[0]) && isnan(mean[1]));
    holds(tide_map(rt, "(x) -> any(x, axis=1)", wide), TIDE_BOOL, SHAPE(2, 3),
          ITEMS(0, 0, 0, 0, 0, 0));
    holds(tide_map(rt, "(x) -> all(x)", wide), TIDE_BOOL, 0, NULL, ITEMS(1));
    holds(tide_map(rt, "(x) -> max(x, axis=0)", wide), TIDE_F32, SHAPE(0, 3),
          NULL); /* nothing to fold, nothing to give */
    holds(tide_map(rt, "(x) -> argmin(x, axis=2)", wide), TIDE_I64, SHAPE(2, 0), NULL);
    static const char *const without[] = {"(x) -> min(x, axis=1)", "(x) -> max(x)",
                                          "(x) -> argmin(x)", "(x) -> 2*argmax(x)"};
    for (size_t i = 0; i < TIDEI_COUNT(without); i++) {
        assert_null(tide_map(rt, without[i], wide));
        assert_error(TIDE_E_EMPTY, "of no elements has no value");
        tide_error_clear();
    }
}

static void numbers_alone_give_one_element(void **state) {
    (void)state;
    holds(tide_map(rt, "(a, b) -> a*b", 6, 7), TIDE_I64, 0, NULL, ITEMS(42));
    holds(tide_map(rt, "(a, b) -> a/b", 6, 4), TIDE_F64, 0, NULL, ITEMS(1.5));
    holds(tide_map(rt, "(a) -> a > 1", 2.5), TIDE_BOOL, 0, NULL, ITEMS(1));
    holds(tide_map(rt, "() -> sqrt(16)"), TIDE_F64, 0, NULL, ITEMS(4));
    holds(tide_map(rt,
                   "(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) -> a + b*c - d + e + f + g + "
                   "h + i + j + k"
                   " + l + m + n + o*p",
                   1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
          TIDE_I64, 0, NULL, ITEMS(338));
    tide_array *one = tide_zeros(rt, TIDE_I64, 0, NULL);
    assert_ok(tide_map_into(one, "() -> 7"));
    holds(one, TIDE_I64, 0, NULL, ITEMS(7));
    holds(tide_map(rt, "(a) -> f32(a) + f32(a)", 0.5), TIDE_F32, 0, NULL, ITEMS(1));
    holds(tide_map(rt, "(a) -> sum(a, keepdims=true)", 3), TIDE_I64, 0, NULL, ITEMS(3));
    holds(tide_map(rt, "(a) -> argmax(a)", 3), TIDE_I64, 0, NULL, ITEMS(0));
    tide_arg big;
    assert_ok(tide_item(
        tide_map(rt, "(x, n) -> x + n", tide_zeros(rt, TIDE_U64, 0, NULL), UINT64_MAX), &big));
    assert_true(big.kind == TIDE_ARG_UINT && big.value.u == UINT64_MAX);
}

/* The same numbers, a NaN's sign and payload apart. */
static void same_numbers(tide_array *a, tide_array *b, const char *what) {
    double x[512], y[512]; /* parts */
    assert_array(a);
    assert_array(b);
    size_t n = 2 * (size_t)tide_array_size(a);
    assert_true(n <= TIDEI_COUNT(x) && tide_array_size(b) == tide_array_size(a));
    assert_int_equal(tide_array_dtype(a), tide_array_dtype(b));
    assert_ok(tide_to_host(tide_cast(a, TIDE_C128), x, n * sizeof *x));
    assert_ok(tide_to_host(tide_cast(b, TIDE_C128), y, n * sizeof *y));
    for (size_t i = 0; i < n; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i])))
            fail_msg("%s: part %zu is %.17g, not %.17g", what, i, x[i], y[i]);
}

/* Written powers are products, of complex numbers too, with whatever a product makes of
** infinities. */
static void written_powers_are_products(void **state) {
    static const double parts[] = {0, -0.0, 1, -2.5, 1e-30, 3e200, INFINITY, -INFINITY, NAN};
    enum { N = TIDEI_COUNT(parts) };
    double z[2 * N * N];
    int64_t n = N * N;
    (void)state;
    for (int i = 0; i < N * N; i++) z[2 * i] = parts[i / N], z[2 * i + 1] = parts[i % N];
    tide_array *wide = tide_from_host(rt, TIDE_C128, 1, &n, z);
    for (int t = TIDE_I8; t < TIDE_DTYPE_COUNT; t++) {
        tide_array *x =
            t < TIDE_C64 ? tide_cast(vector(TIDE_F64, N, parts), t) : tide_cast(wide, t);
        tide_array *two = tide_mul(x, x), *three = tide_mul(two, x), *four = tide_mul(two, two);
        same_numbers(tide_map(rt, "(z) -> z**2", x), two, "z**2");
        same_numbers(tide_map(rt, "(z) -> z**3", x), three, "z**3");
        same_numbers(tide_map(rt, "(z) -> z**4", x), four, "z**4");
        same_numbers(tide_map(rt, "(z) -> z**(1 + 1)", x), two, "z**(1 + 1)");
    }
    tide_arg v;
    assert_ok(tide_item(tide_map_args(rt, "() -> (1 + 2i)**3", NULL, 0), &v));
    assert_true(v.kind == TIDE_ARG_COMPLEX && v.value.c[0] == -11 && v.value.c[1] == -2);
    assert_ok(
        tide_item(tide_map_args(rt, "(n) -> n**4", (tide_arg[]){tide_arg_complex(0, 2)}, 1), &v));
    assert_true(v.kind == TIDE_ARG_COMPLEX && v.value.c[0] == 16 && v.value.c[1] == 0);
    holds(tide_map_args(rt, "(n) -> n**2", (tide_arg[]){tide_arg_int(-3)}, 1), TIDE_I64, 0, NULL,
          ITEMS(9));
    holds(tide_map(rt, "(x) -> x**2", vector(TIDE_BOOL, 2, ITEMS(0, 1))), TIDE_I64, SHAPE(2),
          ITEMS(0, 1));
    same_numbers(tide_map(rt, "(z) -> z**5", wide), tide_map(rt, "(z, n) -> z**n", wide, 5),
                 "z**5");
}

/* ---- named functions ---- */

static void named_operations_compute(void **state) {
    (void)state;
    tide_array *a = vector(TIDE_F64, 4, ITEMS(-2.5, -0.5, 0.5, 2.5)),
               *b = vector(TIDE_F64, 4, ITEMS(2, 2, 2, 2));
    tide_array *i = vector(TIDE_I32, 4, ITEMS(-7, -1, 0, 7));
    holds(tide_add(a, b), TIDE_F64, SHAPE(4), ITEMS(-0.5, 1.5, 2.5, 4.5));
    holds(tide_div(i, i), TIDE_F64, SHAPE(4), ITEMS(1, 1, NAN, 1));
    holds(tide_floordiv(i, tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(2))), TIDE_I32, SHAPE(4),
          ITEMS(-4, -1, 0, 3));
    holds(tide_round(a), TIDE_F64, SHAPE(4), ITEMS(-2, -0.0, 0, 2));
    holds(tide_round(i), TIDE_I32, SHAPE(4), ITEMS(-7, -1, 0, 7)); /* a copy */
    holds(tide_neg(i), TIDE_I32, SHAPE(4), ITEMS(7, 1, 0, -7));
    holds(tide_where(tide_gt(a, tide_zeros(rt, TIDE_F64, 0, NULL)), a, b), TIDE_F64, SHAPE(4),
          ITEMS(2, 2, 0.5, 2.5));
    holds(tide_clip(i, tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(-1)),
                    tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(1))),
          TIDE_I32, SHAPE(4), ITEMS(-1, -1, 0, 1));
    holds(tide_logical_not(a), TIDE_BOOL, SHAPE(4), ITEMS(0, 0, 0, 0));
    holds(tide_isnan(i), TIDE_BOOL, SHAPE(4), ITEMS(0, 0, 0, 0));
    holds(tide_exp(tide_zeros(rt, TIDE_BOOL, SHAPE(2))), TIDE_F64, SHAPE(2), ITEMS(1, 1));
    assert_null(tide_bit_and(a, b));
    assert_error(TIDE_E_DTYPE, "bit_and is offered for bool, integers, not for f64");
    assert_string_equal(tide_error_last()->operation, "tide_bit_and");
    tide_error_clear();
}

/* ---- errors ---- */

static void errors_say_what_is_wrong(void **state) {
    (void)state;
    tide_array *x = vector(TIDE_U8, 2, ITEMS(1, 2)), *freed = vector(TIDE_F32, 1, ITEMS(1));
    tide_error_clear();
    assert_null(tide_map(rt, "(x) -> x", (tide_array *)NULL));
    assert_error(TIDE_E_INVALID, "NULL");
    assert_null(tide_add(tide_map(rt, "(x) -> x +", x), x)); /* the first error is left standing */
    assert_error(TIDE_E_PARSE, "column 11");
    assert_null(tide_map(rt, "(x, y) -> x + y", x, tide_sum(NULL, NULL, 0, 0)));
    assert_error(TIDE_E_PARSE, "column 11");
    tide_error_clear();
    tide_free(freed);
    assert_null(tide_map(rt, "(x) -> x", freed));
    assert_error(TIDE_E_FREED, "freed");
    assert_null(tide_add(x, freed));
    assert_error(TIDE_E_FREED, "freed");
    assert_null(tide_map(rt, "(x, y) -> x", x));
    assert_error(TIDE_E_INVALID, "the expression has 2 parameters; 1 arguments are given");
    assert_null(tide_map(rt, "(x) -> (x, x)", x));
    assert_error(TIDE_E_INVALID, "the expression has 2 results; 1 are wanted");
    assert_null(tide_map(rt, "(x, n) -> x + n", x, 256));
    assert_error(TIDE_E_DTYPE, "column 5: 256 is out of the range of u8");
    assert_null(tide_map(rt, "(x, n) -> x ** n", x, -1));
    assert_error(TIDE_E_DTYPE, "column 13: integers have no power -1");
    assert_array(tide_map(rt, "(x, n) -> x ** n", x, 7));
    assert_null(tide_map(rt, "(x) -> f16(x) & x", x));
    assert_error(TIDE_E_DTYPE, "column 15: bit_and is offered for bool, integers, not for f16");
    assert_null(tide_map_args(rt, "(x) -> x", &(tide_arg){.kind = 9}, 1));
    assert_error(TIDE_E_INVALID, "9 is no kind of argument");
    assert_null(tide_map_args(rt, "(x) -> x", NULL, 1));
    assert_error(TIDE_E_INVALID, "the list of arguments is NULL");
    assert_null(tide_map(rt, (const char *)NULL, x));
    assert_null(tide_expr_new(rt, "(x) -> y"));
    assert_error(TIDE_E_PARSE, "unknown name");
    assert_null(tide_expr_apply(NULL, NULL, 0));
    tide_runtime *other = test_open(&(tide_config){.collector = "refcount"});
    tide_array *foreign = tide_zeros(other, TIDE_U8, SHAPE(2));
    assert_null(tide_add(x, foreign));
    assert_error(TIDE_E_INVALID, "another runtime");
    tide_close(other);
    assert_null(tide_add(x, foreign));
    assert_error(TIDE_E_CLOSED, "closed");
    tide_release(foreign);
    tide_error_clear();
}

/* A failure between two passes leaves nothing behind. */
static void a_failure_between_passes_leaves_nothing(void **state) {
    (void)state;
    tide_array *x = tide_empty(rt, TIDE_F32, SHAPE(4, 0));
    tide_runtime_figures before = test_stats(rt);
    assert_null(tide_map(rt, "(x) -> sum(x, axis=1) + max(x, axis=1)", x));
    tide_expr *e = tide_expr_new(rt, "(x) -> (sum(x, axis=1), min(x, axis=1))");
    tide_array *outs[2];
    tide_arg arg = tide_arg_array(x);
    assert_int_equal(tide_expr_apply_many(e, &arg, 1, outs, 2), TIDE_E_EMPTY);
    tide_expr_release(e);
    assert_ok(tide_device_synchronize(rt));
    tide_runtime_figures after = test_stats(rt);
    assert_int_equal(after.live, before.live);
    assert_int_equal(after.arrays, before.arrays);
    tide_error_clear();
}

/* ---- size ---- */

/* 1000 steps do not fit one program: intermediate values are stored. */
static void a_large_expression_is_cut_into_programs(void **state) {
    (void)state;
    char *text = malloc(1 << 16), *p = text;
    double want[3] = {1, 2, 3};
    tide_array *x = vector(TIDE_F64, 3, want);
    if (!text) abort();
    p += sprintf(p, "(x) -> x");
    for (int i = 0; i < 1000; i++) {
        p += sprintf(p, i % 3 ? " + %d*x" : " - %d", i);
        for (int k = 0; k < 3; k++) want[k] += i % 3 ? i * (double)(k + 1) : -i;
    }
    holds(tide_map(rt, text, x), TIDE_F64, SHAPE(3), want);
    p = text +
        /* a chain without nesting, doubled at each step: a tree of 2^200 */
        sprintf(text, "(x) -> let v0 = x; ");
    for (int i = 0; i < 200; i++)
        p += sprintf(p, "let v%d = (v%d + v%d)/2 + (x - x); ", i + 1, i, i);
    sprintf(p, "v200");
    holds(tide_map(rt, text, x), TIDE_F64, SHAPE(3), ITEMS(1, 2, 3));
    p = text + sprintf(text, "(x) -> x");
    for (int i = 0; i < 70; i++) p += sprintf(p, " + sum(x*%d)", i);
    assert_null(tide_map(rt, text, x));
    assert_error(TIDE_E_UNSUPPORTED, "more than 64 passes");
    tide_error_clear();
    free(text);
}

static void an_expression_takes_many_operands(void **state) {
    (void)state;
    char text[512], *p = text;
    tide_arg args[32];
    double want = 0;
    p += sprintf(p, "(a0");
    for (int i = 1; i < 32; i++) p += sprintf(p, ",a%d", i);
    p += sprintf(p, ") -> a0*sum(a0)"); /* the sum is a 33rd operand */
    for (int i = 1; i < 32; i++) p += sprintf(p, "+a%d*%d", i, i);
    for (int i = 0; i < 32; i++) {
        double v = i + 1;
        args[i] = tide_arg_array(vector(TIDE_F64, 1, &v));
        want += i ? v * i : 1;
    }
    holds(tide_map_args(rt, text, args, 32), TIDE_F64, SHAPE(1), &want);
}

/* Shapes, strides and numbers make no new programs. */
static void shapes_and_numbers_make_no_programs(void **state) {
    (void)state;
    tide_expr *e = tide_expr_new(rt, "(x, y, n) -> (x*n + y, sum(x*y + n))");
    int64_t n = 64;
    tide_array *base = counting(TIDE_F32, 1, &n), *outs[2];
    uint32_t before = 0;
    assert_non_null(e);
    for (int i = 0, rounds = test_quick() ? 2000 : 50000; i < rounds; i++) {
        if (i == 64) before = programs();
        assert_ok(tide_scope_begin(rt));
        tide_range r = {.start = i % 7, .stop = i % 7 + 1 + i % 31, .step = 1 + i % 2};
        tide_array *x = tide_slice_ranges(base, 1, &r);
        tide_array *y = i % 3 ? x : tide_slice(base, "5");
        tide_arg args[3] = {tide_arg_array(x), tide_arg_array(y), tide_arg_float(i * 0.5)};
        assert_ok(tide_expr_apply_many(e, args, 3, outs, 2));
        assert_ok(tide_scope_end(rt));
    }
    assert_int_equal(programs(), before);
    tide_runtime_figures s = test_stats(rt);
    assert_true(s.kernels < 1000);
    tide_expr_release(e);
}

/* ---- warm calls, threads, caches ---- */

static _Atomic uint64_t host_allocations;
static void *counting_alloc(void *user, size_t bytes) {
    (void)user;
    atomic_fetch_add(&host_allocations, 1);
    return malloc(bytes);
}
static void counting_free(void *user, void *p) {
    (void)user;
    free(p);
}

/* A warm call allocates on the host only what its results do. */
static void a_warm_call_allocates_only_its_results(void **state) {
    const tide_allocator host = {counting_alloc, counting_free, NULL};
    tide_runtime *r = test_open(&(tide_config){.collector = "refcount", .allocator = &host});
    const int64_t n = 8;
    uint64_t made = 0, applied = 0;
    (void)state;
    tide_array *x = tide_ones(r, TIDE_F32, 1, &n);
    tide_expr *e = tide_expr_new(r, "(a, x) -> let s = a*x + 1; s / x");
    assert_non_null(e);
    for (int i = 0; i < 200; i++) { /* the second half counts */
        tide_arg args[2] = {tide_arg_float(i), tide_arg_array(x)};
        uint64_t t0 = atomic_load(&host_allocations);
        tide_array *a = tide_empty(r, TIDE_F32, 1, &n);
        uint64_t t1 = atomic_load(&host_allocations);
        tide_array *b = tide_expr_apply(e, args, 2);
        uint64_t t2 = atomic_load(&host_allocations);
        assert_array(b);
        tide_release(a);
        tide_release(b);
        assert_ok(tide_synchronize(r, NULL));
        if (i >= 100) made += t1 - t0, applied += t2 - t1;
    }
    assert_true(applied <= made);
    tide_expr_release(e);
    tide_release(x);
    tide_close(r);
}

static void a_text_is_found_again(void **state) {
    (void)state;
    tide_array *x = vector(TIDE_F32, 1, ITEMS(1));
    char copy[] = "(x) -> x*x + 12345";
    assert_array(tide_map(rt, "(x) -> x*x + 12345", x));
    uint32_t before = atomic_load(&tidei_exprs_of(test_rt(rt))->ntexts);
    assert_array(tide_map(rt, copy, x)); /* by content, not by address */
    assert_int_equal(atomic_load(&tidei_exprs_of(test_rt(rt))->ntexts), before);
    copy[13] = '2';
    holds(tide_map(rt, copy, x), TIDE_F32, SHAPE(1), ITEMS(22346));
    for (int i = 0; i < TIDEI_TEXTS_MAX + 100; i++) { /* generated texts do not fill memory */
        char text[64];
        snprintf(text, sizeof text, "(x) -> x + %d", i);
        assert_ok(tide_scope_begin(rt));
        assert_array(tide_map(rt, text, x));
        assert_ok(tide_scope_end(rt));
    }
    assert_int_equal(atomic_load(&tidei_exprs_of(test_rt(rt))->ntexts), TIDEI_TEXTS_MAX);
}

typedef struct job {
    tide_expr *e;
    int number;
    int failures;
} job;

static void *work(void *arg) {
    job *j = arg;
    const int64_t n = 5;
    for (int i = 0; i < 200; i++) {
        char text[64];
        tide_dtype t = (i + j->number) % 2 ? TIDE_F64 : TIDE_I32;
        tide_array *x = tide_full(rt, t, 1, &n, tide_arg_int(i)), *outs[2] = {NULL, NULL};
        tide_arg args[2] = {tide_arg_array(x), tide_arg_int(j->number)};
        snprintf(text, sizeof text, "(x) -> sum(x*x + %d)", i % 50);
        tide_array *y = tide_map(rt, text, x);
        if (tide_expr_apply_many(j->e, args, 2, outs, 2) != TIDE_OK || !y) {
            j->failures++;
            continue;
        }
        j->failures += tide_item_f64(y) != 5.0 * (i * i + i % 50);
        j->failures += tide_item_f64(outs[1]) != 5.0 * (i + j->number);
        tide_release(x), tide_release(y), tide_release(outs[0]), tide_release(outs[1]);
    }
    return NULL;
}

static void threads_share_an_expression(void **state) {
    pthread_t threads[4];
    job jobs[4];
    (void)state;
    tide_expr *e = tide_expr_new(rt, "(x, n) -> (x + n, sum(x + n))");
    assert_non_null(e);
    for (int i = 0; i < 4; i++) {
        jobs[i] = (job){e, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].failures, 0);
    }
    tide_expr_release(e);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(map_computes_a_formula),
        CASE(map_many_gives_several_results),
        CASE(operands_are_stretched),
        CASE(views_are_read_as_they_lie),
        CASE(empty_operands_give_empty_results),
        CASE(numbers_alone_give_one_element),
        CASE(written_powers_are_products),
        CASE(named_operations_compute),
        CASE(errors_say_what_is_wrong),
        CASE(a_failure_between_passes_leaves_nothing),
        CASE(a_large_expression_is_cut_into_programs),
        CASE(an_expression_takes_many_operands),
        CASE(shapes_and_numbers_make_no_programs),
        CASE(a_warm_call_allocates_only_its_results),
        CASE(a_text_is_found_again),
        CASE(threads_share_an_expression),
    };
    return cmocka_run_group_tests(tests, open_rt, close_rt);
}
