/* test_quantile.c: medians and quantiles, against a slow model, on the host and by a GPU's kernels,
** emulated. */
#include "tests/arrays/every_failure.h"
#include "tests/arrays/ordered.h"

static bool is_complex(tide_dtype t) { return tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX; }

static double number(tide_dtype t, const void *p) {
    tide_arg a = tidei_decode(p, t);
    return a.kind == TIDE_ARG_FLOAT  ? a.value.f
           : a.kind == TIDE_ARG_UINT ? (double)a.value.u
                                     : (double)a.value.i;
}

static double between(tide_dtype t, const unsigned char *row, int64_t n, double q) {
    size_t size = tide_dtype_size(t);
    int64_t *order = malloc((size_t)n * sizeof *order + 1);
    double at = q * (double)(n - 1), x = NAN;
    model_order(t, row, (int64_t)size, n, false, order);
    if (n > 0 && q >= 0 && q <= 1 && !isnan(number(t, row + (size_t)order[n - 1] * size))) {
        int64_t j = (int64_t)at;
        double f = at - (double)j, a = number(t, row + (size_t)order[j] * size),
               b = j + 1 < n ? number(t, row + (size_t)order[j + 1] * size) : a, d = b - a;
        x = a == b || f == 0 ? a
            : isinf(d)       ? a * (1 - f) + b * f
            : f < 0.5        ? a + f * d
                             : b - d * (1 - f);
    }
    free(order);
    return x;
}

/* Quantiles of (rows, n) against those of a. */
static void quantiles_right(tide_array *a, tide_array *got, const double *q, int64_t nq,
                            int64_t rows, int64_t n, const unsigned char *data) {
    tide_dtype t = tide_array_dtype(a);
    tide_dtype out = tidei_dtype_kind(t) == TIDEI_KIND_FLOAT ? t : TIDE_F64;
    size_t size = tide_dtype_size(t), out_size = tide_dtype_size(out);
    unsigned char *want = malloc((size_t)(nq * rows) * out_size + 1), *x = elements_of(got);
    for (int64_t i = 0; i < nq * rows; i++) {
        double d = between(t, data + (size_t)(i % rows * n) * size, n, q[i / rows]);
        assert_ok(tidei_encode(tide_arg_float(d), out, "test", want + (size_t)i * out_size));
        if (isnan(d) && isnan(number(out, x + (size_t)i * out_size)))
            memcpy(x + (size_t)i * out_size, want + (size_t)i * out_size, out_size);
    }
    assert_int_equal(tide_array_dtype(got), out);
    assert_int_equal(tide_array_size(got), nq * rows);
    assert_memory_equal(x, want, (size_t)(nq * rows) * out_size);
    free(want), free(x);
    tide_release(got);
}

static void every_type(tide_runtime *rt, int rounds) {
    const double q[] = {0, 1, 0.25, 0.5, 0.9, 1.5, NAN, 1.0 / 3};
    tide_array *qs = tide_from_host(rt, TIDE_F64, SHAPE(8), q);
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int round = 0; round < rounds && !is_complex(t); round++) {
            int64_t shape[] = {1 + random_below(3), 1 + random_below(3), round % 6 * 5};
            tide_array *a = random_array(rt, t, 3, shape, round % LAYOUTS, round & 1);
            unsigned char *data = elements_of(a);
            int64_t rows = shape[0] * shape[1], n = shape[2];
            const int last = -1, both[] = {2, 1};
            quantiles_right(a, tide_median(a, &last, 1, 0), (double[]){0.5}, 1, rows, n, data);
            quantiles_right(a, tide_quantile(a, tide_arg_array(qs), &last, 1, round & 1), q, 8,
                            rows, n, data);
            quantiles_right(a, tide_quantile(a, tide_arg_float(0.1), both, 2, 0), (double[]){0.1},
                            1, shape[0], shape[1] * n, data);
            quantiles_right(a, tide_quantile(a, tide_arg_array(qs), NULL, 0, 1), q, 8, 1, rows * n,
                            data);
            free(data);
            tide_release(a);
        }
    tide_release(qs);
}
static void quantiles_of_every_type_agree_with_the_model(void **state) { every_type(*state, 10); }
static void a_gpus_kernels_do_the_same(void **state) {
    if (!*state) skip();
    every_type(*state, 2);
}

/* ---- rows that a GPU's warps and blocks hold ---- */

/* Rows without NaN, but for one; of equals; of zeros of either sign; of keys that differ in few of
** their bits, the first or the last ones. */
enum { HARD, ANY, ONE_NAN, EQUAL, ZEROS, ALIKE, KINDS };
static void held_element(tide_dtype t, int kind, unsigned char *to) {
    static const double hard[] = {0.0, -0.0, INFINITY, -INFINITY, 1, -1, 2.5, 1e-40, -1e-7};
    const tidei_kind what = tidei_dtype_kind(t);
    uint64_t bits = kind == ANY || kind == ONE_NAN ? random_bits() : (uint64_t)random_below(7);
    if (kind == EQUAL) bits = 3;
    if (kind == ALIKE) bits = 0x4142434445464700 >> (64 - 8 * tide_dtype_size(t)) ^ bits;
    if (what == TIDEI_KIND_BOOL) bits &= 1;
    if (what == TIDEI_KIND_FLOAT && (kind == HARD || kind == ZEROS)) {
        const int64_t n = kind == ZEROS ? 2 : (int64_t)TIDEI_COUNT(hard);
        assert_ok(tidei_encode(tide_arg_float(hard[random_below(n)]), t, "test", to));
        return;
    }
    memcpy(to, &bits, tide_dtype_size(t));
    if (what == TIDEI_KIND_FLOAT && isnan(number(t, to)))
        assert_ok(tidei_encode(tide_arg_float(-0.0), t, "test", to));
}
static tide_array *held_array(tide_runtime *rt, tide_dtype t, int kind, int64_t rows, int64_t n,
                              int layout) {
    const int64_t wide = layout == SPARSE ? 2 : 1, all = rows * n * wide * wide;
    const size_t size = tide_dtype_size(t);
    int64_t dims[] = {rows * wide, n * wide};
    if (layout == TURNED) dims[0] = n, dims[1] = rows;
    unsigned char *data = malloc((size_t)all * size + 8);
    for (int64_t i = 0; i < all; i++) held_element(t, kind, data + (size_t)i * size);
    if (kind == ONE_NAN && tidei_dtype_kind(t) == TIDEI_KIND_FLOAT)
        assert_ok(tidei_encode(tide_arg_float(NAN), t, "test", data + (size_t)(all / 2) * size));
    tide_array *base = tide_from_host(rt, t, 2, dims, data), *view = base;
    free(data);
    if (layout == TURNED) view = tide_transpose(base, NULL);
    if (layout == BACKWARD) view = tide_slice(base, "::-1, ::-1");
    if (layout == SPARSE) view = tide_slice(base, "::2, ::2");
    assert_array(view);
    if (view != base) tide_release(base);
    return view;
}

/* The kernel is told where no cast comes behind it. */
static void held_right(tide_runtime *rt, tide_dtype t, int kind, int64_t rows, int64_t n,
                       int layout, const char *kernel) {
    const double q[] = {0.5, 0, 1, 0.3337};
    const int64_t nq = n > 5000 ? 2 : 4;
    const int last = -1;
    tide_array *a = held_array(rt, t, kind, rows, n, layout),
               *qs = tide_from_host(rt, TIDE_F64, 1, &nq, q);
    unsigned char *data = elements_of(a);
    tide_array *got = tide_quantile(a, tide_arg_array(qs), &last, 1, 0);
    if (kernel && tide_array_dtype(got) == TIDE_F64)
        assert_string_equal(atomic_load(&emulated_last), kernel);
    quantiles_right(a, got, q, nq, rows, n, data);
    free(data);
    tide_release(a);
    tide_release(qs);
}

static const struct {
    int64_t n;
    const char *kernels[2];
} holders[] = {
    {64, {"order_quantile", "order_quantile"}},
    {65, {"order_quantiles_32_warp", "order_quantiles_64_warp"}},
    {1024, {"order_quantiles_32_warp", "order_quantiles_64_warp"}},
    {1025, {"order_quantiles_32_256", "order_quantiles_64_256"}},
    {4096, {"order_quantiles_32_256", "order_quantiles_64_256"}},
    {4097, {"order_quantiles_32_512", "order_quantiles_64_512"}},
    {8193, {"order_quantiles_32_1024", "order_quantiles_64_1024"}},
    {16384, {"order_quantiles_32_1024", "order_quantiles_64_1024"}},
    {16385, {"order_quantiles_32_most", "order_quantile"}},
    {32769, {"order_quantile", "order_quantile"}},
};
/* Of zeros, so many quantiles at once. */
static void many_quantiles(tide_runtime *rt, int64_t n, int64_t nq, const char *kernel) {
    const int last = -1;
    tide_array *a = tide_zeros(rt, TIDE_F64, SHAPE(2, n)),
               *q = tide_full(rt, TIDE_F64, SHAPE(nq), tide_arg_float(0.5)),
               *got = tide_quantile(a, tide_arg_array(q), &last, 1, 0);
    assert_array(got);
    assert_string_equal(atomic_load(&emulated_last), kernel);
    tide_release(a);
    tide_release(q);
    tide_release(got);
}
static void rows_are_held_by_warps_and_blocks(void **state) {
    if (!*state) skip();
    many_quantiles(*state, 1000, 4, "order_quantiles_64_warp");
    many_quantiles(*state, 1000, 5, "order_quantile");
    many_quantiles(*state, 5000, 8, "order_quantiles_64_512");
    many_quantiles(*state, 5000, 9, "order_quantile");
    for (size_t i = 0; i < TIDEI_COUNT(holders); i++) {
        const int64_t n = holders[i].n;
        for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
            if (is_complex(t) || (n > 4096 && t != TIDE_F64 && t != TIDE_U32)) continue;
            held_right(*state, t, (int)random_below(KINDS), 3, n, (int)random_below(SPARSE + 1),
                       holders[i].kernels[tide_dtype_size(t) == 8]);
        }
    }
}
static void every_kind_of_row(tide_runtime *rt) {
    static const int64_t lengths[] = {131, 1000, 1500};
    for (int kind = 0; kind < KINDS; kind++)
        for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
            for (int i = 0; i < 3 && !is_complex(t); i++)
                if (!test_quick() || random_below(4) == 0)
                    held_right(rt, t, kind, i == 0 ? 19 : 2, lengths[i], i + kind % 2, NULL);
}
static void every_kind_of_row_is_held(void **state) {
    if (!*state) skip();
    every_kind_of_row(*state);
}
static void every_kind_of_row_on_a_host(void **state) { every_kind_of_row(*state); }

static void shapes_are_numpys(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_F32, 0, 24, 1), SHAPE(2, 3, 4)),
               *q = tide_full(rt, TIDE_F64, SHAPE(5, 6), tide_arg_float(0.5));
    const int axis = 1;
    tide_array *m = tide_quantile(a, tide_arg_array(q), &axis, 1, 0),
               *k = tide_quantile(a, tide_arg_array(q), &axis, 1, 1),
               *none = tide_median(a, &axis, 0, 0), *all = tide_median(a, NULL, 0, 0);
    const int64_t plain[] = {5, 6, 2, 4}, kept[] = {5, 6, 2, 1, 4};
    assert_int_equal(tide_array_ndim(m), 4);
    assert_int_equal(tide_array_ndim(k), 5);
    for (int i = 0; i < 4; i++) assert_int_equal(tide_array_dim(m, i), plain[i]);
    for (int i = 0; i < 5; i++) assert_int_equal(tide_array_dim(k, i), kept[i]);
    assert_int_equal(tide_array_ndim(none), 3);
    assert_true(tide_item_f64(all) == 11.5);
    assert_true(tide_item_f64(tide_slice(m, "4, 5, 1, 2")) == 18);
    assert_true(tide_item_f64(tide_slice(none, "1, 2, 3")) == 23);
}

static void infinities_meet_only_their_equals(void **state) {
    tide_runtime *rt = *state;
    const double data[] = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(4), data);
    assert_true(tide_item_f64(tide_quantile(a, tide_arg_float(0.9), NULL, 0, 0)) == INFINITY);
    assert_true(isnan(tide_item_f64(tide_median(a, NULL, 0, 0))));
    const double up[] = {1, INFINITY}, down[] = {-INFINITY, 1};
    tide_array *u = tide_from_host(rt, TIDE_F64, SHAPE(2), up),
               *d = tide_from_host(rt, TIDE_F64, SHAPE(2), down);
    assert_true(tide_item_f64(tide_median(u, NULL, 0, 0)) == INFINITY);
    assert_true(tide_item_f64(tide_median(d, NULL, 0, 0)) == -INFINITY);
    tide_array *far = tide_from_host(rt, TIDE_F64, SHAPE(2), (double[]){-1.7e308, 1.7e308});
    assert_true(tide_item_f64(tide_median(far, NULL, 0, 0)) == 0);
    tide_error_clear();
}

static void senseless_arguments_are_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3)), *z = tide_zeros(rt, TIDE_C64, SHAPE(2)),
               *deep = tide_zeros(rt, TIDE_F64, SHAPE(1, 1, 1, 1, 1, 1, 1));
    const int twice[] = {0, -2}, far = 2;
    assert_null(tide_median(a, twice, 2, 0));
    assert_error(TIDE_E_SHAPE, "axis 0 is given twice");
    assert_null(tide_median(a, &far, 1, 0));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_median(a, &far, -1, 0));
    assert_error(TIDE_E_INVALID, "-1 axes");
    assert_null(tide_median(z, NULL, 0, 0));
    assert_error(TIDE_E_DTYPE, "c64");
    assert_null(tide_quantile(a, tide_arg_float(1.5), NULL, 0, 0));
    assert_error(TIDE_E_INVALID, "q is 1.5; wanted 0 to 1");
    assert_null(tide_quantile(a, tide_arg_complex(1, 1), NULL, 0, 0));
    assert_error(TIDE_E_DTYPE, "");
    assert_null(tide_quantile(a, tide_arg_array(z), NULL, 0, 0));
    assert_error(TIDE_E_DTYPE, "");
    assert_null(tide_quantile(a, tide_arg_array(deep), NULL, 0, 1));
    assert_error(TIDE_E_SHAPE, "9 dimensions");
}

static void quantiles_in_a_scope(tide_runtime *rt, tide_status *status) {
    const int axis = 0;
    tide_array *a;
    assert_ok(tide_scope_begin(rt));
    bool ok = (a = tide_zeros(rt, TIDE_F16, SHAPE(3, 5))) && tide_median(a, &axis, 1, 0) &&
              tide_quantile(a, tide_arg_array(a), NULL, 0, 0);
    *status = ok ? TIDE_OK : tide_error_last()->status;
    assert_ok(tide_scope_end(rt));
}
static void each_call_of_the_device_may_fail(void **state) {
    (void)state;
    each_call_fails(quantiles_in_a_scope);
}

extern const char tidei_order_quantile_text[];
static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_order_quantile_text, "quantile.cu", "ALL", 90);
}

int main(void) {
#define CASE(f)     cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
#define SCOPED(f)   cmocka_unit_test_setup_teardown(f, open_collected, close_runtime)
#define EMULATED(f) cmocka_unit_test_setup_teardown(f, open_emulated, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(quantiles_of_every_type_agree_with_the_model),
        EMULATED(a_gpus_kernels_do_the_same),
        EMULATED(rows_are_held_by_warps_and_blocks),
        EMULATED(every_kind_of_row_is_held),
        CASE(every_kind_of_row_on_a_host),
        SCOPED(shapes_are_numpys),
        SCOPED(infinities_meet_only_their_equals),
        SCOPED(senseless_arguments_are_refused),
        cmocka_unit_test(each_call_of_the_device_may_fail),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
