/* test_expr_folds.c: folds of expressions and by name: which axes, in which types, over what; fused
** with what they fold. */
#include "arrays/expr/front.h"
#include "tests/arrays/expr/holds.h"

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

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(complex_means_divide_each_part),      CASE(folds_reduce_the_axes_they_name),
        CASE(folds_have_the_types_of_their_rules), CASE(a_fold_over_no_axes_keeps_each_element),
        CASE(folds_are_fused_with_what_they_fold), CASE(shapes_inside_a_fold_say_what_counts),
    };
    return cmocka_run_group_tests(tests, open_rt, close_rt);
}
