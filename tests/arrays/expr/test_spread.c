/* tide_var and tide_std against a slow model, on the device under test, and with a GPU's kernels,
** emulated: types, layouts, axes, sizes about 0 and beyond 2^16, large means. */
#include "tests/doubles/emulated_device.h"
#include "tests/arrays/expr/programs.h"
#include "tests/arrays/expr/unit.h"
#include "tests/arrays/expr/scoped.h"
#include <float.h>
#include <math.h>

static int open_emulated(void **state) {
    (void)state;
    rt = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}

/* ---- the model ---- */

static bool is_complex(tide_dtype t) { return t >= TIDE_C64; }
static tide_dtype result_of(tide_dtype t) {
    return t < TIDE_F16 ? TIDE_F64 : t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
}
static double epsilon(tide_dtype t) {
    return t == TIDE_F16    ? 0x1p-10
           : t == TIDE_BF16 ? 0x1p-7
           : t == TIDE_F32  ? FLT_EPSILON
                            : DBL_EPSILON;
}

enum { MOST = 4096 };
typedef struct slow {
    int ndim;
    int64_t shape[3], n;
    double complex v[MOST]; /* row-major */
} slow;

/* The variance over the axes (bits) of the elements whose other indices are those of `out`, counted
** row-major. */
static double slow_var(const slow *a, unsigned folded, int64_t out, double correction) {
    long double complex sum = 0;
    long double squares = 0;
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < a->n; i++) {
            int64_t at = 0, rest = i, index[3];
            for (int d = a->ndim; d-- > 0; rest /= a->shape[d]) index[d] = rest % a->shape[d];
            for (int d = 0; d < a->ndim; d++)
                if (!(folded >> d & 1)) at = at * a->shape[d] + index[d];
            if (at != out) continue;
            if (!pass) {
                sum += a->v[i];
                count++;
                continue;
            }
            const long double complex e = a->v[i] - sum / count;
            squares += creall(e) * creall(e) + cimagl(e) * cimagl(e);
        }
    const double by = (double)count - correction;
    return count ? (double)(squares / (by > 0 ? by : 0)) : NAN;
}

/* ---- one array ---- */

/* An array of type t with random elements, lying in one of several ways; *a has its values. */
static tide_array *random_array(tide_dtype t, int ndim, const int64_t *shape, int how, slow *a) {
    unsigned char *data = calloc(MOST + 1, 16);
    if (!data) abort();
    a->ndim = ndim;
    a->n = 1;
    for (int d = 0; d < ndim; d++) a->n *= a->shape[d] = shape[d];
    assert_true(a->n <= MOST);
    for (int64_t i = 0; i < a->n; i++) {
        unsigned char *at = data + (size_t)i * tide_dtype_size(t);
        double x = t < TIDE_F16 ? floor(unit() * (t == TIDE_BOOL ? 2 : 100)) : unit() * 8 - 3;
        set_element(at, t, CMPLX(x, is_complex(t) ? unit() * 2 : 0));
        a->v[i] = element(at, t);
    }
    tide_array *x = tide_from_host(rt, t, ndim, shape, data);
    free(data);
    if (how == 1 && ndim) x = tide_slice(tide_copy(tide_slice(x, "::-1")), "::-1");
    if (how == 2) x = tide_transpose(tide_copy(tide_transpose(x, NULL)), NULL);
    assert_array(x);
    return x;
}

static void check(tide_array *r, const slow *a, tide_dtype t, unsigned folded, double correction,
                  bool root, bool keep) {
    int64_t n = 1;
    int ndim = 0;
    assert_array(r);
    assert_int_equal(tide_array_dtype(r), result_of(t));
    for (int d = 0; d < a->ndim; d++) {
        const bool gone = folded >> d & 1;
        if (gone && !keep) continue;
        assert_int_equal(tide_array_dim(r, ndim++), gone ? 1 : a->shape[d]);
        if (!gone) n *= a->shape[d];
    }
    assert_int_equal(tide_array_ndim(r), ndim);
    double *got = malloc(((size_t)n + 1) * sizeof *got);
    if (!got) abort();
    assert_ok(tide_to_host(tide_cast(r, TIDE_F64), got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++) {
        double want = slow_var(a, folded, i, correction);
        if (root) want = sqrt(want);
        const double eps = epsilon(result_of(t)), most = result_of(t) == TIDE_F16 ? 1e4 : 1e6;
        if (isnan(want) || isinf(want)
                ? !(isnan(want) ? isnan(got[i]) : got[i] == want)
                : !(fabs(got[i] - want) <= 40 * eps * fmin(want, most) + eps * eps * 1e3))
            fail_msg("%s of %s, folded %u: element %lld is %.17g, not %.17g", root ? "std" : "var",
                     tide_dtype_name(t), folded, (long long)i, got[i], want);
    }
    free(got);
}

static void try_axes(tide_array *x, const slow *a, tide_dtype t, unsigned folded) {
    int axes[3], n = 0;
    const double correction = folded % 3 * 0.5;
    const bool keep = folded & 1;
    for (int d = 0; d < a->ndim; d++)
        if (folded >> d & 1) axes[n] = n % 2 ? d - a->ndim : d, n++;
    check(tide_var(x, axes, n, correction, keep), a, t, folded, correction, false, keep);
    check(tide_std(x, axes, n, correction, !keep), a, t, folded, correction, true, !keep);
    if (folded == (1u << a->ndim) - 1)
        check(tide_var(x, NULL, 99, 1, keep), a, t, folded, 1, false, keep);
}

static const int64_t shapes[][3] = {{3, 4, 5}, {1, 2, 1}, {2, 33, 7}, {0, 3, 2}, {3, 0, 2}};

static void every_type_axis_and_layout(void **state) {
    static slow a;
    (void)state;
    for (int t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (size_t s = 0; s < TIDEI_COUNT(shapes); s++)
            for (int how = 0; how < 3; how++) {
                assert_ok(tide_scope_begin(rt));
                tide_array *x = random_array((tide_dtype)t, 3, shapes[s], how, &a);
                for (unsigned folded = 0; folded < 8; folded++)
                    try_axes(x, &a, (tide_dtype)t, folded);
                assert_ok(tide_scope_end(rt));
            }
}

static void few_and_many_elements(void **state) {
    static slow a;
    (void)state;
    for (int64_t n = 0; n < 4; n++) try_axes(random_array(TIDE_F32, 1, &n, 0, &a), &a, TIDE_F32, 1);
    try_axes(random_array(TIDE_F64, 0, NULL, 0, &a), &a, TIDE_F64, 0);
    const int64_t n = 100003;
    tide_array *x =
        tide_map(rt, "(x) -> f32(x % 1000)", tide_arange(rt, TIDE_I64, 0, (double)n, 1));
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)(i % 1000);
    for (int64_t i = 0; i < n; i++) squares += pow((double)(i % 1000) - sum / (double)n, 2);
    const double want = squares / (double)(n - 1);
    const double got = tide_item_f64(tide_var(x, NULL, 0, 1, 0));
    assert_true(fabs(got - want) <= 1e-6 * want);
    for (int i = 0; i < 3; i++) /* the same bits */
        assert_true(tide_item_f64(tide_var(x, NULL, 0, 1, 0)) == got);
}

static void a_large_mean_takes_no_digits(void **state) {
    (void)state;
    tide_array *x = tide_map(rt, "(i) -> 1e9 + f64(i % 3)", tide_arange(rt, TIDE_I64, 0, 30000, 1));
    assert_true(fabs(tide_item_f64(tide_var(x, NULL, 0, 0, 0)) - 2 / 3.0) <= 1e-12);
    tide_array *y =
        tide_map(rt, "(i) -> f32(1e6) + f32(i % 3)", tide_arange(rt, TIDE_I64, 0, 30000, 1));
    assert_true(fabs(tide_item_f64(tide_var(y, NULL, 0, 0, 0)) - 2 / 3.0) <= 2e-3);
    /* f16 adds in f32 */
    tide_array *h = tide_full(rt, TIDE_F16, SHAPE(5000), tide_arg_float(1000));
    assert_true(tide_item_f64(tide_std(h, NULL, 0, 0, 0)) == 0);
}

static void special_values_and_corrections(void **state) {
    static const double v[] = {1, 2, INFINITY};
    (void)state;
    tide_array *x = tide_from_host(rt, TIDE_F64, SHAPE(3), v);
    assert_true(isnan(tide_item_f64(tide_var(x, NULL, 0, 0, 0))));
    assert_true(isnan(tide_item_f64(tide_var(tide_ones(rt, TIDE_F32, SHAPE(2)), NULL, 0, 2, 0))));
    assert_true(isinf(tide_item_f64(tide_std(tide_slice(x, ":2"), NULL, 0, 5, 0))));
    assert_true(tide_item_f64(tide_var(tide_slice(x, ":2"), NULL, 0, -2, 0)) == 0.125);
    assert_true(isnan(tide_item_f64(tide_var(tide_slice(x, ":0"), NULL, 0, 0, 0))));
    assert_true(tide_item_f64(tide_var(tide_slice(x, ":0"), NULL, 0, -1, 0)) == 0);
}

static void what_is_wrong_is_refused(void **state) {
    (void)state;
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(2, 3));
    assert_null(tide_var(x, (const int[]){2}, 1, 0, 0));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_string_equal(tide_error_last()->operation, "tide_var");
    assert_null(tide_std(x, (const int[]){1, -1}, 2, 0, 0));
    assert_error(TIDE_E_SHAPE, "axis 1 stands twice");
    assert_null(tide_std(x, (const int[]){1}, -1, 0, 0));
    assert_error(TIDE_E_INVALID, "-1 axes are given");
    assert_null(tide_var(NULL, NULL, 0, 0, 0));
    tide_error_clear();
}

/* Each program takes a compiler there: few. */
static void a_gpus_kernels_do_the_same(void **state) {
    static slow a;
    static const uint8_t types[] = {TIDE_I32, TIDE_F16, TIDE_F32, TIDE_C128};
    (void)state;
    if (!rt) skip();
    for (size_t i = 0; i < TIDEI_COUNT(types); i++) {
        tide_array *x = random_array(types[i], 3, shapes[2], (int)i % 3, &a);
        try_axes(x, &a, types[i], 2);
    }
    few_and_many_elements(state);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_axis_and_layout),
        CASE(few_and_many_elements),
        CASE(a_large_mean_takes_no_digits),
        CASE(special_values_and_corrections),
        CASE(what_is_wrong_is_refused),
    };
    const struct CMUnitTest again[] = {cmocka_unit_test(a_gpus_kernels_do_the_same)};
    int failed = cmocka_run_group_tests_name("here", tests, open_rt, close_rt);
    return failed + cmocka_run_group_tests_name("emulated", again, open_emulated, close_rt);
}
