/* Expressions end to end on the device under test: values, shapes, folds, destinations, errors,
** threads, and what a warm call may not do. */
#include "arrays/expr/front.h"
#include "tests/arrays/expr/scoped.h"
#include <math.h>
#include <pthread.h>

/* ---- helpers ---- */

#define ITEMS(...)                                                                                 \
    (const double[]) { __VA_ARGS__ }

static tide_array *array(tide_dtype t, int ndim, const int64_t *shape, const double *v) {
    size_t n = 1, size = tide_dtype_size(t);
    for (int i = 0; i < ndim; i++) n *= (size_t)shape[i];
    unsigned char *data = malloc(n * size + 1);
    for (size_t i = 0; i < n; i++)
        assert_ok(tidei_encode(t < TIDE_F16 ? tide_arg_int((int64_t)v[i]) : tide_arg_float(v[i]), t,
                               "test", data + i * size));
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    free(data);
    assert_array(a);
    return a;
}
static tide_array *vector(tide_dtype t, int64_t n, const double *v) { return array(t, 1, &n, v); }

/* 0, 1, 2, ... in this shape. */
static tide_array *counting(tide_dtype t, int ndim, const int64_t *shape) {
    double v[4096];
    for (int i = 0; i < 4096; i++) v[i] = i;
    return array(t, ndim, shape, v);
}

static double element(const unsigned char *data, tide_dtype t, size_t i) {
    tide_arg v = tidei_decode(data + i * tide_dtype_size(t), t);
    return v.kind == TIDE_ARG_FLOAT  ? v.value.f
           : v.kind == TIDE_ARG_UINT ? (double)v.value.u
                                     : (double)v.value.i;
}

/* The array has this type, shape and (nearly) these elements. */
static void holds(tide_array *a, tide_dtype t, int ndim, const int64_t *shape, const double *want) {
    assert_array(a);
    assert_int_equal(tide_array_dtype(a), t);
    assert_int_equal(tide_array_ndim(a), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(tide_array_dim(a, i), shape[i]);
    size_t n = (size_t)tide_array_size(a), bytes = n * tide_dtype_size(t);
    unsigned char *data = malloc(bytes + 1);
    assert_ok(tide_to_host(a, data, bytes));
    double tolerance = t == TIDE_F64                     ? 1e-13
                       : t == TIDE_F32                   ? 1e-5
                       : t == TIDE_F16 || t == TIDE_BF16 ? 1e-2
                                                         : 0;
    for (size_t i = 0; i < n; i++) {
        double got = element(data, t, i);
        bool fine = isnan(want[i]) ? isnan(got)
                                   : got == want[i] ||
                                         fabs(got - want[i]) <= tolerance * fmax(1, fabs(want[i]));
        if (!fine) fail_msg("element %zu is %.17g, not %.17g", i, got, want[i]);
    }
    free(data);
}

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

/* The parts of a complex mean are divided by the count each: an infinite one leaves the other as it
** is. */
static void complex_means_divide_each_part(void **state) {
    (void)state;
    const float narrow[] = {8, INFINITY, 6, 3, -INFINITY, 1, 1, 2};
    const double wide[] = {8, INFINITY, 6, 3, -INFINITY, 1, 1, 2};
    float c64[4];
    double c128[4];
    tide_array *a = tide_from_host(rt, TIDE_C64, SHAPE(2, 2), narrow),
               *b = tide_from_host(rt, TIDE_C128, SHAPE(2, 2), wide);
    assert_ok(tide_to_host(tide_map(rt, "(x) -> mean(x, axis=1)", a), c64, sizeof c64));
    assert_ok(tide_to_host(tide_map(rt, "(x) -> mean(x, axis=1)", b), c128, sizeof c128));
    const double want[] = {7, INFINITY, -INFINITY, 1.5};
    for (int i = 0; i < 4; i++) assert_true(c64[i] == want[i] && c128[i] == want[i]);
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

/* ---- folds ---- */

/* A fold over the axes (bits) of a counting array of shape (3, 4, 5), the slow way; returns the
** rank of the result. */
static int slow_fold(int fold, unsigned folded, const double *x, double *out, int64_t *shape) {
    static const int64_t dim[3] = {3, 4, 5};
    int ndim = 0;
    int64_t n = 1;
    for (int d = 0; d < 3; d++)
        if (!(folded >> d & 1)) shape[ndim++] = dim[d], n *= dim[d];
    double best[60];
    int64_t seen[60] = {0};
    for (int64_t i = 0; i < n; i++)
        out[i] = fold == TIDEI_FOLD_PROD || fold == TIDEI_FOLD_ALL ? 1 : 0;
    for (int64_t i = 0; i < 60; i++) {
        int64_t index[3] = {i / 20, i / 5 % 4, i % 5}, at = 0;
        for (int d = 0; d < 3; d++)
            if (!(folded >> d & 1)) at = at * dim[d] + index[d];
        bool first = !seen[at], less = first || x[i] < best[at], more = first || x[i] > best[at];
        switch (fold) {
        case TIDEI_FOLD_SUM:
        case TIDEI_FOLD_MEAN: out[at] += x[i]; break;
        case TIDEI_FOLD_PROD: out[at] *= x[i]; break;
        case TIDEI_FOLD_ANY: out[at] = out[at] != 0 || x[i] != 0; break;
        case TIDEI_FOLD_ALL: out[at] = out[at] != 0 && x[i] != 0; break;
        case TIDEI_FOLD_MIN: out[at] = less ? x[i] : out[at]; break;
        case TIDEI_FOLD_MAX: out[at] = more ? x[i] : out[at]; break;
        case TIDEI_FOLD_ARGMIN: out[at] = less ? (double)seen[at] : out[at]; break;
        default: out[at] = more ? (double)seen[at] : out[at];
        }
        bool wins = fold == TIDEI_FOLD_MIN || fold == TIDEI_FOLD_ARGMIN ? less : more;
        if (wins) best[at] = x[i];
        seen[at]++;
    }
    for (int64_t i = 0; i < n && fold == TIDEI_FOLD_MEAN; i++) out[i] /= (double)seen[i];
    return ndim;
}

typedef tide_array *fold_fn(tide_array *a, const int *axes, int n, int keepdims);
static fold_fn *const fold_fns[] = {NULL,     tide_sum, tide_prod,   tide_min,    tide_max,
                                    tide_any, tide_all, tide_argmin, tide_argmax, tide_mean};

static void folds_reduce_the_axes_they_name(void **state) {
    (void)state;
    double x[60], want[60];
    int64_t shape[3];
    /* with zeros and ties */
    for (int i = 0; i < 60; i++) x[i] = (i * 37 + 11) % 13 % 5 - 1 + 0.5 * (i % 3 == 0);
    tide_array *a = array(TIDE_F64, SHAPE(3, 4, 5), x);
    tide_array *t =
        /* other strides */
        tide_transpose(tide_copy(tide_transpose(a, (int[]){2, 0, 1})), (int[]){1, 2, 0});
    for (int fold = TIDEI_FOLD_SUM; fold <= TIDEI_FOLD_MEAN; fold++)
        for (unsigned folded = 1; folded < 8; folded++) {
            int ndim = slow_fold(fold, folded, x, want, shape), axes[3], n = 0;
            for (int d = 2; d >= 0; d--) /* in any order, from either end */
                if (folded >> d & 1) axes[n++] = d % 2 ? d - 3 : d;
            tide_dtype type = fold == TIDEI_FOLD_ANY || fold == TIDEI_FOLD_ALL         ? TIDE_BOOL
                              : fold == TIDEI_FOLD_ARGMIN || fold == TIDEI_FOLD_ARGMAX ? TIDE_I64
                                                                                       : TIDE_F64;
            holds(fold_fns[fold](a, axes, n, 0), type, ndim, shape, want);
            holds(fold_fns[fold](t, axes, n, 0), type, ndim, shape, want);
            int64_t kept[3] = {folded & 1 ? 1 : 3, folded & 2 ? 1 : 4, folded & 4 ? 1 : 5};
            holds(fold_fns[fold](a, axes, n, 1), type, 3, kept, want);
            if (folded == 7) holds(fold_fns[fold](t, NULL, 0, 0), type, 0, NULL, want);
        }
}

static void folds_have_the_types_of_their_rules(void **state) {
    (void)state;
    tide_array *b = vector(TIDE_BOOL, 4, ITEMS(1, 0, 1, 1)),
               *i8 = vector(TIDE_I8, 3, ITEMS(100, 100, -3)),
               *u8 = vector(TIDE_U8, 2, ITEMS(200, 200)),
               *f16 = vector(TIDE_F16, 2, ITEMS(2048, 1));
    holds(tide_sum(b, NULL, 0, 0), TIDE_I64, 0, NULL, ITEMS(3));
    holds(tide_sum(i8, NULL, 0, 0), TIDE_I64, 0, NULL, ITEMS(197));
    holds(tide_sum(u8, NULL, 0, 0), TIDE_U64, 0, NULL, ITEMS(400));
    holds(tide_mean(i8, NULL, 0, 0), TIDE_F64, 0, NULL, ITEMS(197.0 / 3));
    holds(tide_min(i8, NULL, 0, 0), TIDE_I8, 0, NULL, ITEMS(-3));
    holds(tide_max(b, NULL, 0, 0), TIDE_BOOL, 0, NULL, ITEMS(1));
    holds(tide_mean(f16, NULL, 0, 0), TIDE_F16, 0, NULL, ITEMS(1024.5)); /* the sum is no f16 */
    holds(tide_argmax(f16, NULL, 0, 0), TIDE_I64, 0, NULL, ITEMS(0));
    tide_array *nans = vector(TIDE_F32, 4, ITEMS(1, NAN, -5, NAN));
    holds(tide_min(nans, NULL, 0, 0), TIDE_F32, 0, NULL, ITEMS(NAN));
    holds(tide_max(nans, NULL, 0, 0), TIDE_F32, 0, NULL, ITEMS(NAN));
    holds(tide_argmin(nans, NULL, 0, 0), TIDE_I64, 0, NULL, ITEMS(1));
    holds(tide_all(nans, NULL, 0, 0), TIDE_BOOL, 0, NULL, ITEMS(1));
    assert_null(tide_sum(i8, (int[]){1}, 1, 0));
    assert_string_equal(tide_error_last()->operation, "tide_sum");
    assert_true(strstr(tide_error_last()->message, "axis") != NULL);
    assert_null(tide_sum(i8, (int[]){0, -1}, 2, 0));
    assert_error(TIDE_E_SHAPE, "axis 0 stands twice");
    assert_null(tide_sum(i8, (int[]){0}, -1, 0));
    assert_error(TIDE_E_INVALID, "-1 axes are given");
    tide_error_clear();
}

/* The type that fold f gives for t, and -1 where it is not offered. */
static int type_of_fold(int f, int t) {
    bool whole = t <= TIDE_U64, real = t < TIDE_C64, is_unsigned = t >= TIDE_U8 && t <= TIDE_U64;
    switch (f) {
    case TIDEI_FOLD_SUM:
    case TIDEI_FOLD_PROD: return !whole ? t : is_unsigned ? TIDE_U64 : TIDE_I64;
    case TIDEI_FOLD_MEAN: return whole ? TIDE_F64 : t;
    case TIDEI_FOLD_ANY:
    case TIDEI_FOLD_ALL: return TIDE_BOOL;
    default: return real ? t : -1;
    }
}

/* Over no axes each element is folded by itself: it stays as it is, in the fold's type, in any rank
** and of no elements too. */
static void a_fold_over_no_axes_keeps_each_element(void **state) {
    static const char *const names[] = {"",    "sum", "prod",   "min",    "max",
                                        "any", "all", "argmin", "argmax", "mean"};
    const double v[] = {0, 1, -0.0, 1, 1, 0};
    const int64_t eight[] = {1, 1, 3, 1, 1, 1, 2, 1};
    int none = 0;
    (void)state;
    for (int f = TIDEI_FOLD_SUM; f <= TIDEI_FOLD_MEAN; f++)
        for (int t = 0; t < TIDE_DTYPE_COUNT; t++) {
            char text[64];
            bool arg = f == TIDEI_FOLD_ARGMIN || f == TIDEI_FOLD_ARGMAX;
            snprintf(text, sizeof text, "(x) -> %s(x, axis=(), keepdims=true)", names[f]);
            tide_array *x = array(t, 8, eight, v), *turned = tide_transpose(x, NULL);
            tide_array *made[] = {fold_fns[f](turned, &none, 0, 0),
                                  fold_fns[f](turned, &none, 0, 1), tide_map(rt, text, turned)};
            int want = type_of_fold(f, t);
            for (size_t i = 0; i < TIDEI_COUNT(made); i++) {
                if (arg || want < 0) {
                    assert_null(made[i]);
                    continue;
                }
                tide_array *cast = tide_cast(turned, want);
                unsigned char got[96], same[96];
                size_t bytes = 6 * tide_dtype_size(want);
                assert_array(made[i]);
                assert_int_equal(tide_array_dtype(made[i]), want);
                assert_int_equal(tide_array_ndim(made[i]), 8);
                for (int d = 0; d < 8; d++)
                    assert_int_equal(tide_array_dim(made[i], d), eight[7 - d]);
                assert_ok(tide_to_host(made[i], got, bytes));
                assert_ok(tide_to_host(cast, same, bytes));
                assert_memory_equal(got, same, bytes); /* bit by bit: -0.0 stays */
            }
        }
    tide_array *empty = tide_empty(rt, TIDE_F32, SHAPE(2, 0));
    holds(tide_max(empty, &none, 0, 0), TIDE_F32, SHAPE(2, 0), NULL);
    holds(tide_map(rt, "(x) -> min(x, axis=())", empty), TIDE_F32, SHAPE(2, 0), NULL);
    holds(tide_map(rt, "(x) -> sum(x + 1, axis=()) / sum(x, axis=0)",
                   array(TIDE_I8, SHAPE(2, 1), ITEMS(1, 3))),
          TIDE_F64, SHAPE(2, 1), ITEMS(0.5, 1));
    holds(tide_map(rt, "(x) -> sum(100, axis=()) * x", vector(TIDE_I8, 1, ITEMS(2))), TIDE_I64,
          SHAPE(1), ITEMS(200));
    tide_array *many = counting(TIDE_F64, SHAPE(5000 / 5, 4));
    holds(tide_mean(many, NULL, 7, 0), TIDE_F64, 0, NULL,
          ITEMS(1999.5)); /* all: a count beside NULL is not looked at */
    assert_null(tide_argmax(many, &none, 0, 0));
    assert_error(TIDE_E_INVALID, "argmax folds at least one axis: none is given");
    assert_string_equal(tide_error_last()->operation, "tide_argmax");
    assert_null(tide_map(rt, "(x) -> argmin(x, axis=())", many));
    assert_error(TIDE_E_INVALID, "column 8: argmin folds at least one axis: none is given");
    assert_null(tide_min(tide_zeros(rt, TIDE_C64, SHAPE(2)), &none, 0, 0));
    assert_error(TIDE_E_DTYPE, "min is offered for bool, integers, floats, not for c64");
    tide_error_clear();
}

static void folds_are_fused_with_what_they_fold(void **state) {
    (void)state;
    double x[12], want[12], sum[3], total = 0;
    for (int i = 0; i < 12; i++) x[i] = sin(i) * 3;
    for (int r = 0; r < 3; r++) {
        double top = fmax(fmax(x[4 * r], x[4 * r + 1]), fmax(x[4 * r + 2], x[4 * r + 3]));
        sum[r] = 0;
        for (int i = 0; i < 4; i++) sum[r] += want[4 * r + i] = exp(x[4 * r + i] - top);
        for (int i = 0; i < 4; i++)
            want[4 * r + i] /= sum[r], total += want[4 * r + i] * want[4 * r + i];
    }
    tide_array *a = array(TIDE_F64, SHAPE(3, 4), x);
    const char *softmax = "(x) -> let e = exp(x - max(x, axis=-1, keepdims=true)); e / sum(e, "
                          "axis=-1, keepdims=true)";
    holds(tide_map(rt, softmax, a), TIDE_F64, SHAPE(3, 4), want);
    holds(tide_map(rt,
                   "(x) -> sum((exp(x - max(x, axis=1, keepdims=true)) /"
                   " sum(exp(x - max(x, axis=1, keepdims=true)), axis=1, keepdims=true))**2)",
                   a),
          TIDE_F64, 0, NULL, &total);
    tide_expr *e = tide_expr_new(rt, "(x) -> let s = sum(x, axis=0); (s, s, s/2, x - s, mean(s))");
    tide_array *outs[5];
    tide_arg arg = tide_arg_array(array(TIDE_F32, SHAPE(2, 2), ITEMS(1, 2, 3, 4)));
    assert_ok(tide_expr_apply_many(e, &arg, 1, outs, 5));
    holds(outs[0], TIDE_F32, SHAPE(2), ITEMS(4, 6));
    holds(outs[1], TIDE_F32, SHAPE(2), ITEMS(4, 6)); /* of its own */
    assert_ok(tide_fill(outs[0], tide_arg_int(0)));
    holds(outs[1], TIDE_F32, SHAPE(2), ITEMS(4, 6));
    holds(outs[2], TIDE_F32, SHAPE(2), ITEMS(2, 3));
    holds(outs[3], TIDE_F32, SHAPE(2, 2), ITEMS(-3, -4, -1, -2));
    holds(outs[4], TIDE_F32, 0, NULL, ITEMS(5));
    tide_expr_release(e);
}

/* Broadcasting inside the body decides how often an element counts. */
static void shapes_inside_a_fold_say_what_counts(void **state) {
    (void)state;
    tide_array *x = vector(TIDE_F64, 2, ITEMS(1, 2)),
               *y = array(TIDE_F64, SHAPE(3, 1), ITEMS(10, 20, 30));
    holds(tide_map(rt, "(x, y) -> sum(x + y)", x, y), TIDE_F64, 0, NULL, ITEMS(129));
    holds(tide_map(rt, "(x, y) -> sum(x) + sum(y)", x, y), TIDE_F64, 0, NULL, ITEMS(63));
    holds(tide_map(rt, "(x, y) -> sum(x + y, axis=0)", x, y), TIDE_F64, SHAPE(2), ITEMS(63, 66));
    holds(tide_map(rt, "(x, y) -> y - mean(x + y, axis=1, keepdims=true)", x, y), TIDE_F64,
          SHAPE(3, 1), ITEMS(-1.5, -1.5, -1.5));
    tide_array *z = array(TIDE_I32, 0, NULL, ITEMS(7));
    holds(tide_map(rt, "(z) -> sum(z) + max(z, keepdims=true)", z), TIDE_I64, 0, NULL, ITEMS(14));
    assert_null(tide_map(rt, "(z) -> sum(z, axis=0)", z));
    assert_true(strstr(tide_error_last()->message, "column 8: ") == tide_error_last()->message);
    tide_error_clear();
    tide_array *ones = tide_ones(rt, TIDE_F32, SHAPE(1, 1, 1));
    holds(tide_map(rt, "(x) -> sum(x, axis=1)", ones), TIDE_F32, SHAPE(1, 1), ITEMS(1));
    holds(tide_map(rt, "(x) -> argmax(x, axis=(0, 2))", ones), TIDE_I64, SHAPE(1), ITEMS(0));
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

/* ---- destinations ---- */

static void results_go_into_an_array_that_is_there(void **state) {
    (void)state;
    tide_array *x = vector(TIDE_F32, 4, ITEMS(1, 2, 3, 4)),
               *dst = tide_zeros(rt, TIDE_F64, SHAPE(2, 4));
    /* into a view, a wider float */
    assert_ok(tide_map_into(tide_slice(dst, "1"), "(x) -> x*2", x));
    holds(dst, TIDE_F64, SHAPE(2, 4), ITEMS(0, 0, 0, 0, 2, 4, 6, 8));
    assert_ok(tide_map_into(tide_slice(dst, "0, ::-2"), "(x) -> x", tide_slice(x, "2:")));
    holds(dst, TIDE_F64, SHAPE(2, 4), ITEMS(0, 4, 0, 3, 2, 4, 6, 8));
    /* a fold */
    assert_ok(tide_map_into(tide_slice(dst, "0:1, 0"), "(x) -> sum(x, keepdims=true)", x));
    holds(dst, TIDE_F64, SHAPE(2, 4), ITEMS(10, 4, 0, 3, 2, 4, 6, 8));
    assert_int_equal(tide_map_into(dst, "(x) -> x", x), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "result 1 has shape (4,), its destination (2, 4)");
    assert_int_equal(tide_map_into(tide_zeros(rt, TIDE_I32, SHAPE(4)), "(x) -> x", x),
                     TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE,
                 "result 1 is f32, which is not stored as i32 without a cast: float to integer");
    tide_array *bytes = tide_zeros(rt, TIDE_U8, SHAPE(2));
    assert_int_equal(tide_map_into(bytes, "(x) -> x", vector(TIDE_I64, 2, ITEMS(1, -2))),
                     TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE,
                 "result 1 is i64, which is not stored as u8 without a cast: signed to unsigned");
    /* within its kind */
    assert_ok(tide_map_into(bytes, "(x) -> x", vector(TIDE_U64, 2, ITEMS(1, 2))));
    /* numbers by their value */
    assert_ok(tide_map_into(tide_slice(bytes, "0"), "(n) -> n + 1", 200));
    holds(bytes, TIDE_U8, SHAPE(2), ITEMS(201, 2));
    assert_int_equal(tide_map_into(tide_slice(bytes, "0"), "(n) -> n + 1", -2), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "-1 is out of the range of u8");
    assert_int_equal(tide_map_into(tide_slice(bytes, "0"), "(n) -> n", 3.0), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "result 1 is f64");
    assert_int_equal(
        tide_map_into(tide_zeros(rt, TIDE_F32, 0, NULL), "(n) -> n", tide_arg_complex(1, 0)),
        TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "result 1 is c128");
    assert_ok(tide_map_into(tide_zeros(rt, TIDE_F16, 0, NULL), "(n) -> n", 0.1));
    /* unsigned into signed */
    assert_ok(tide_map_into(tide_zeros(rt, TIDE_I8, SHAPE(2)), "(x) -> x", bytes));
    assert_int_equal(tide_map_into(tide_broadcast_to(tide_zeros(rt, TIDE_F32, 0, NULL), SHAPE(4)),
                                   "(x) -> x", x),
                     TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "destination 1 is a stretched view");
    assert_ok(tide_map_into(tide_empty(rt, TIDE_F32, SHAPE(0)), "(x) -> x",
                            tide_empty(rt, TIDE_F32, SHAPE(0))));
    tide_error_clear();
}

static void a_destination_may_be_an_operand(void **state) {
    (void)state;
    tide_array *x = counting(TIDE_I32, SHAPE(6));
    assert_ok(tide_map_into(x, "(x) -> x*10", x)); /* in place */
    holds(x, TIDE_I32, SHAPE(6), ITEMS(0, 10, 20, 30, 40, 50));
    /* shifted by one */
    assert_ok(tide_map_into(tide_slice(x, "1:"), "(x) -> x + 1", tide_slice(x, ":-1")));
    holds(x, TIDE_I32, SHAPE(6), ITEMS(0, 1, 11, 21, 31, 41));
    assert_ok(tide_map_into(tide_slice(x, ":-1"), "(x, y) -> y - x", tide_slice(x, ":-1"),
                            tide_slice(x, "1:")));
    holds(x, TIDE_I32, SHAPE(6), ITEMS(1, 10, 10, 10, 10, 41));
    assert_ok(tide_map_into(x, "(x) -> x", tide_slice(x, "::-1"))); /* reversed */
    holds(x, TIDE_I32, SHAPE(6), ITEMS(41, 10, 10, 10, 10, 1));
    /* one element against all */
    assert_ok(tide_map_into(x, "(x, first) -> x - first", x, tide_slice(x, "0")));
    holds(x, TIDE_I32, SHAPE(6), ITEMS(0, -31, -31, -31, -31, -40));
    tide_array *y = vector(TIDE_F64, 4, ITEMS(1, 2, 3, 4));
    assert_ok(tide_map_into(y, "(y) -> y / sum(y)", y)); /* folded first */
    holds(y, TIDE_F64, SHAPE(4), ITEMS(0.1, 0.2, 0.3, 0.4));
    assert_ok(tide_map_into(tide_slice(y, "2"), "(y) -> sum(y)", y));
    holds(y, TIDE_F64, SHAPE(4), ITEMS(0.1, 0.2, 1, 0.4));
    tide_array *m = counting(TIDE_I64, SHAPE(3, 3));
    assert_ok(tide_map_into(m, "(a, b) -> a + b", m, tide_transpose(m, NULL)));
    holds(m, TIDE_I64, SHAPE(3, 3), ITEMS(0, 4, 8, 4, 8, 12, 8, 12, 16));
}

static void into(const char *text, const tide_arg *args, size_t n, tide_array *const *dsts,
                 size_t m) {
    tide_expr *e = tide_expr_new(rt, text);
    assert_non_null(e);
    assert_ok(tide_expr_apply_into(dsts, m, e, args, n));
    tide_expr_release(e);
}

static void several_destinations_are_written_at_once(void **state) {
    (void)state;
    double v[3000], w[3000];
    int64_t n = 3000; /* several blocks */
    for (int i = 0; i < 3000; i++) v[i] = i, w[i] = 2 * i + 1;
    tide_array *x = vector(TIDE_F64, n, v), *y = vector(TIDE_F64, n, w);
    tide_arg both[2] = {tide_arg_array(x), tide_arg_array(y)};
    into("(x, y) -> (y, x)", both, 2, (tide_array *[]){x, y}, 2); /* a swap in place */
    holds(x, TIDE_F64, 1, &n, w);
    holds(y, TIDE_F64, 1, &n, v);
    into("(x, y) -> (x + y, x - y)", both, 2, (tide_array *[]){x, y}, 2);
    for (int i = 0; i < 3000; i++) v[i] = 3 * i + 1, w[i] = i + 1;
    holds(x, TIDE_F64, 1, &n, v);
    holds(y, TIDE_F64, 1, &n, w);
    /* different shapes, so several passes, each over operands that another writes */
    tide_array *a = array(TIDE_I32, SHAPE(2, 2), ITEMS(1, 2, 3, 4)),
               *b = vector(TIDE_I32, 2, ITEMS(10, 20));
    tide_arg ab[2] = {tide_arg_array(a), tide_arg_array(b)};
    into("(a, b) -> (a + b, b*2)", ab, 2, (tide_array *[]){a, b}, 2);
    holds(a, TIDE_I32, SHAPE(2, 2), ITEMS(11, 22, 13, 24));
    holds(b, TIDE_I32, SHAPE(2), ITEMS(20, 40));
    into("(b, a) -> (b*2, a + b)", (tide_arg[]){ab[1], ab[0]}, 2, (tide_array *[]){b, a}, 2);
    holds(a, TIDE_I32, SHAPE(2, 2), ITEMS(31, 62, 33, 64));
    /* destinations over each other: the later result wins */
    tide_array *c = tide_zeros(rt, TIDE_I32, SHAPE(4));
    tide_array *head = tide_slice(c, ":3"), *tail = tide_slice(c, "1:");
    tide_arg three = tide_arg_array(vector(TIDE_I32, 3, ITEMS(1, 2, 3)));
    into("(x) -> (x, -x)", &three, 1, (tide_array *[]){head, tail}, 2);
    holds(c, TIDE_I32, SHAPE(4), ITEMS(1, -1, -2, -3));
    into("(x) -> (x, -x)", &three, 1, (tide_array *[]){tail, head}, 2);
    holds(c, TIDE_I32, SHAPE(4), ITEMS(-1, -2, -3, 3));
}

static tide_status try_into(const char *text, const tide_arg *args, size_t n,
                            tide_array *const *dsts, size_t m) {
    tide_expr *e = tide_expr_new(rt, text);
    assert_non_null(e);
    tide_status s = tide_expr_apply_into(dsts, m, e, args, n);
    tide_expr_release(e);
    return s;
}

/* What a later pass refuses leaves the destinations of the earlier ones as they were. */
static void what_is_refused_writes_nothing(void **state) {
    (void)state;
    tide_array *x = vector(TIDE_U8, 4, ITEMS(1, 2, 3, 4)),
               *none = tide_empty(rt, TIDE_U8, SHAPE(0));
    tide_array *zero_d = array(TIDE_U64, 0, NULL, ITEMS(7)),
               *three = vector(TIDE_U8, 3, ITEMS(7, 7, 7)),
               *four = vector(TIDE_U8, 4, ITEMS(7, 7, 7, 7));
    tide_arg xa = tide_arg_array(x), big = tide_arg_int(300), small = tide_arg_array(three);
    assert_int_equal(try_into("(x) -> (sum(x), x + 1)", &xa, 1, (tide_array *[]){zero_d, three}, 2),
                     TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "result 2 has shape (4,), its destination (3,)");
    assert_int_equal(try_into("(x, k) -> (sum(x), x + k)", (tide_arg[]){xa, big}, 2,
                              (tide_array *[]){zero_d, four}, 2),
                     TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "300 is out of the range of u8");
    assert_int_equal(try_into("(x, k) -> (sum(x), sum(x + k))", (tide_arg[]){xa, big}, 2,
                              (tide_array *[]){zero_d, zero_d}, 2),
                     TIDE_E_DTYPE);
    assert_int_equal(try_into("(x, y) -> (sum(x), u64(max(y)))",
                              (tide_arg[]){xa, tide_arg_array(none)}, 2,
                              (tide_array *[]){zero_d, zero_d}, 2),
                     TIDE_E_EMPTY);
    assert_int_equal(try_into("(x, y) -> (sum(x), sum(y, axis=1))", (tide_arg[]){xa, xa}, 2,
                              (tide_array *[]){zero_d, four}, 2),
                     TIDE_E_BOUNDS);
    assert_int_equal(try_into("(x, y, k) -> (x + 1, y + k)", (tide_arg[]){xa, small, big}, 3,
                              (tide_array *[]){four, three}, 2),
                     TIDE_E_DTYPE);
    tide_error_clear();
    holds(zero_d, TIDE_U64, 0, NULL, ITEMS(7));
    holds(three, TIDE_U8, SHAPE(3), ITEMS(7, 7, 7));
    holds(four, TIDE_U8, SHAPE(4), ITEMS(7, 7, 7, 7));
    /* an operand that is a stored result of the same call: the rehearsal knows its shape */
    assert_ok(
        try_into("(x) -> (sum(x), x - u8(sum(x)))", &xa, 1, (tide_array *[]){zero_d, four}, 2));
    holds(zero_d, TIDE_U64, 0, NULL, ITEMS(10));
    holds(four, TIDE_U8, SHAPE(4), ITEMS(247, 248, 249, 250));
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
        CASE(complex_means_divide_each_part),
        CASE(empty_operands_give_empty_results),
        CASE(numbers_alone_give_one_element),
        CASE(written_powers_are_products),
        CASE(folds_reduce_the_axes_they_name),
        CASE(folds_have_the_types_of_their_rules),
        CASE(a_fold_over_no_axes_keeps_each_element),
        CASE(folds_are_fused_with_what_they_fold),
        CASE(shapes_inside_a_fold_say_what_counts),
        CASE(named_operations_compute),
        CASE(results_go_into_an_array_that_is_there),
        CASE(a_destination_may_be_an_operand),
        CASE(several_destinations_are_written_at_once),
        CASE(what_is_refused_writes_nothing),
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
