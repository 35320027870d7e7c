/* test_bins.c: histograms, counts of integers, and sorts by several keys, against slow models, on
** the host and by a GPU's kernels, emulated. */
#include "tests/arrays/every_failure.h"
#include "tests/arrays/ordered.h"

static bool is_complex(tide_dtype t) { return tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX; }
static bool is_whole(tide_dtype t) { return tidei_dtype_kind(t) <= TIDEI_KIND_UINT; }
static double number(tide_dtype t, const unsigned char *p) {
    tide_arg a = tidei_decode(p, t);
    return a.kind == TIDE_ARG_FLOAT  ? a.value.f
           : a.kind == TIDE_ARG_UINT ? (double)a.value.u
                                     : (double)a.value.i;
}

/* ---- histograms ---- */

static void counts_right(tide_array *a, int64_t bins, double low, double high) {
    tide_dtype t = tide_array_dtype(a);
    int64_t n = tide_array_size(a), *want = calloc((size_t)bins, 8);
    double *edges = malloc((size_t)(bins + 1) * 8);
    unsigned char *data = elements_of(a);
    tide_array *counts, *ends;
    assert_ok(tide_histogram(a, bins, low, high, &counts, &ends));
    for (int64_t i = 0; i < bins; i++) edges[i] = low + (double)i * ((high - low) / (double)bins);
    edges[bins] = high;
    for (int64_t i = 0; i < n; i++) {
        double x = number(t, data + (size_t)i * tide_dtype_size(t));
        for (int64_t b = 0; b < bins; b++)
            want[b] += x >= edges[b] && (x < edges[b + 1] || (b == bins - 1 && x == high));
    }
    has(counts, TIDE_I64, want, bins);
    has(ends, TIDE_F64, edges, bins + 1);
    free(want), free(edges), free(data);
}

static void histograms(tide_runtime *rt, int rounds) {
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int round = 0; round < rounds && !is_complex(t); round++) {
            int64_t shape[] = {3, 1 + random_below(60)};
            tide_array *a = random_array(rt, t, 2, shape, round % LAYOUTS, round & 1);
            counts_right(a, 1 + random_below(12), -3, 2.75);
            counts_right(a, round & 1 ? 7000 : 3, 0, 0.7);
            tide_release(a);
        }
}

static void the_range_may_be_the_elements_own(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(5), (float[]){1, 5, 2, 3, 5}), *counts,
               *edges, *none = tide_zeros(rt, TIDE_I8, SHAPE(0)),
               *same = tide_full(rt, TIDE_U16, SHAPE(2), tide_arg_int(7));
    assert_ok(tide_histogram(a, 2, NAN, NAN, &counts, &edges));
    HAS(counts, int64_t, TIDE_I64, 2, 3);
    HAS(edges, double, TIDE_F64, 1, 3, 5);
    assert_ok(tide_histogram(none, 1, NAN, NAN, &counts, &edges));
    HAS(counts, int64_t, TIDE_I64, 0);
    HAS(edges, double, TIDE_F64, 0, 1);
    assert_ok(tide_histogram(same, 2, NAN, NAN, &counts, &edges));
    HAS(counts, int64_t, TIDE_I64, 0, 2);
    HAS(edges, double, TIDE_F64, 6.5, 7, 7.5);
    tide_array *far = tide_from_host(rt, TIDE_F64, SHAPE(3), (double[]){-INFINITY, 1, INFINITY}),
               *apart = tide_from_host(rt, TIDE_F64, SHAPE(3), (double[]){-1.7e308, 1, 1.7e308});
    assert_ok(tide_histogram(far, 3, NAN, NAN, &counts, NULL));
    HAS(counts, int64_t, TIDE_I64, 0, 0, 0);
    assert_ok(tide_histogram(apart, 3, NAN, NAN, &counts, &edges));
    HAS(counts, int64_t, TIDE_I64, 1, 1, 1);
    assert_true(tide_item_f64(tide_slice(edges, "0")) == -1.7e308);
    tide_release(edges);
    tide_array *large = tide_full(rt, TIDE_F64, SHAPE(2), tide_arg_float(1e17)),
               *tiny = tide_from_host(rt, TIDE_F64, SHAPE(2), (double[]){0, 5.5e-311});
    assert_ok(tide_histogram(large, 2, NAN, NAN, &counts, NULL));
    HAS(counts, int64_t, TIDE_I64, 0, 2);
    assert_ok(tide_histogram(tiny, 10, 0, 1e-310, &counts, NULL));
    HAS(counts, int64_t, TIDE_I64, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0);
    tide_release(large), tide_release(tiny);
    /* bins narrower than numbers lie apart: of those that begin at the same one the last has it */
    const double at = 0x1p53;
    tide_array *few = tide_from_host(rt, TIDE_F64, SHAPE(4), (double[]){at, at, at + 2, at + 4});
    counts_right(few, 8, at, at + 4);
    counts_right(few, 1000, at, at + 4);
    counts_right(few, 3, at, at + 2);
    tide_release(few);
    assert_ok(tide_histogram(far, 3, 0, 3, &counts, NULL));
    HAS(counts, int64_t, TIDE_I64, 0, 1, 0);
    tide_release(a), tide_release(none), tide_release(same);
    tide_release(far), tide_release(apart);
}

/* ---- integers ---- */

static void integers_right(tide_array *a, tide_array *weights, int64_t bins) {
    tide_dtype t = tide_array_dtype(a), wt = weights ? tide_array_dtype(weights) : TIDE_F64;
    size_t size = tide_dtype_size(t), weight_size = tide_dtype_size(wt);
    int64_t n = tide_array_size(a), room = bins < 0 ? 300 : bins, most = 0;
    int64_t *want = calloc((size_t)room + 1, 8);
    double *sums = calloc((size_t)room + 1, 8);
    unsigned char *data = elements_of(a), *w = weights ? elements_of(weights) : NULL;
    for (int64_t i = 0; i < n; i++) {
        double x = number(t, data + (size_t)i * size);
        if (bins < 0 && x + 1 > (double)most) most = (int64_t)x + 1;
        if (!(x >= 0 && x < (double)room)) continue;
        want[(int64_t)x]++;
        if (w) sums[(int64_t)x] += number(wt, w + (size_t)i * weight_size);
    }
    if (bins < 0) bins = most;
    has(tide_bincount(a, weights, bins), w ? TIDE_F64 : TIDE_I64, w ? (void *)sums : want, bins);
    free(want), free(sums), free(data), free(w);
}

/* Weights are small integers: their sums are exact in any order. */
static void integers(tide_runtime *rt) {
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int round = 0; round < 4 && is_whole(t); round++) {
            int64_t shape[] = {2, 1 + random_below(40)};
            tide_array *a = random_array(rt, t, 2, shape, round, true),
                       *w = random_array(rt, round & 1 ? TIDE_I8 : TIDE_U8, 2, shape, round, true);
            integers_right(a, NULL, random_below(9));
            integers_right(a, w, random_below(9));
            if (tide_dtype_size(t) == 1) integers_right(a, NULL, -1);
            tide_release(a), tide_release(w);
        }
}

static void many_elements_are_counted(void **state) {
    int64_t n = 70001;
    tide_array *a = random_array(*state, TIDE_U8, 1, &n, SPARSE, false),
               *w = random_array(*state, TIDE_I16, 1, &n, PLAIN, false);
    integers_right(a, NULL, 256);
    integers_right(a, w, -1);
    counts_right(w, 100, -30000, 30000);
    tide_release(a), tide_release(w);
}

/* Whether a GPU's blocks count by themselves first goes by how many elements there are for a
** bin. */
static void a_kernel(tide_runtime *rt, const char *name) {
    if (is_emulated(rt)) assert_string_equal(emulated_last, name);
}
static void many_numbers_are_counted(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_U8, TIDE_I32, TIDE_I64, TIDE_F16};
    tide_runtime *rt = *state;
    for (size_t k = 0; k < TIDEI_COUNT(types); k++) {
        int64_t n = 9001;
        tide_array *a = random_array(rt, types[k], 1, &n, PLAIN, k & 1), *counts;
        counts_right(a, 1 + (int64_t)k * 47, -3, 2.75); /* 32 counts side by side, and 16 */
        assert_ok(tide_histogram(a, 280, 0, 100, &counts, NULL));
        a_kernel(rt, "order_bins_here");
        tide_release(counts);
        counts_right(a, 400, -2, 300);
        assert_ok(tide_histogram(a, 400, 0, 100, &counts, NULL));
        a_kernel(rt, "order_bins");
        tide_release(counts), tide_release(a);
    }
    /* one count a bin: each bin has what is between its edges */
    enum { BINS = 10000, OF_EACH = 33 };
    int64_t *want = malloc(BINS * sizeof *want);
    for (int i = 0; i < BINS; i++) want[i] = OF_EACH;
    tide_array *a = tide_arange(rt, TIDE_F32, 0, BINS * OF_EACH, 1), *counts;
    assert_ok(tide_histogram(a, BINS, 0, BINS * OF_EACH, &counts, NULL));
    a_kernel(rt, "order_bins_here");
    has(counts, TIDE_I64, want, BINS);
    tide_release(a), free(want);
}

/* ---- several keys ---- */

static void keys_right(tide_runtime *rt, int axis, int count) {
    static const tide_dtype types[] = {TIDE_BOOL, TIDE_F16, TIDE_I8, TIDE_F32, TIDE_C64};
    int64_t shape[] = {2, 2, 1}, n, order[64], inner = 1;
    tide_array *keys[3];
    unsigned char *data[3];
    tide_dtype t[3];
    shape[axis] = n = 1 + random_below(60);
    for (int i = axis + 1; i < 3; i++) inner *= shape[i];
    for (int k = 0; k < count; k++) {
        t[k] = types[random_below((int64_t)TIDEI_COUNT(types))];
        keys[k] = random_array(rt, t[k], 3, shape, (int)random_below(LAYOUTS), true);
        data[k] = elements_of(keys[k]);
    }
    tide_array *got = tide_lexsort(keys, (size_t)count, axis - 3);
    int64_t *places = (int64_t *)elements_of(got);
    for (int64_t r = 0; r < tide_array_size(got) / n; r++) {
        int64_t base = r / inner * n * inner + r % inner;
        for (int64_t i = 0; i < n; i++) { /* by insertion */
            int64_t j = i;
            for (; j > 0; j--) {
                int c = 0;
                for (int k = 0; k < count && c == 0; k++) {
                    size_t size = tide_dtype_size(t[k]);
                    c = compare(t[k], data[k] + (size_t)(base + order[j - 1] * inner) * size,
                                data[k] + (size_t)(base + i * inner) * size);
                }
                if (c <= 0) break;
                order[j] = order[j - 1];
            }
            order[j] = i;
        }
        for (int64_t i = 0; i < n; i++) assert_int_equal(places[base + i * inner], order[i]);
    }
    free(places);
    tide_release(got);
    for (int k = 0; k < count; k++) tide_release(keys[k]), free(data[k]);
}

static void everything(tide_runtime *rt, int rounds) {
    histograms(rt, rounds);
    integers(rt);
    for (int i = 0; i < 4 * rounds; i++) keys_right(rt, i % 3, 1 + i % 3);
}
static void bins_and_keys_agree_with_the_model(void **state) { everything(*state, 10); }
static void a_gpus_kernels_do_the_same(void **state) {
    if (!*state) skip();
    everything(*state, 2);
    many_elements_are_counted(state);
    many_numbers_are_counted(state);
    the_range_may_be_the_elements_own(state);
}

static void the_first_key_counts_most(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_from_host(rt, TIDE_I32, SHAPE(4), (int32_t[]){2, 1, 2, 1}),
               *b = tide_from_host(rt, TIDE_F32, SHAPE(4), (float[]){4, 3, 2, 3});
    HAS(tide_lexsort((tide_array *[]){a, b}, 2, 0), int64_t, TIDE_I64, 1, 3, 2, 0);
    HAS(tide_lexsort((tide_array *[]){b, a}, 2, 0), int64_t, TIDE_I64, 2, 1, 3, 0);
    tide_release(a), tide_release(b);
}

static void senseless_arguments_are_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3)), *z = tide_zeros(rt, TIDE_C64, SHAPE(2)),
               *i = tide_zeros(rt, TIDE_I32, SHAPE(2)), *out = NULL;
    assert_int_equal(tide_histogram(a, 0, 0, 1, &out, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "0 bins; wanted 1 or more");
    assert_int_equal(tide_histogram(a, 2, 1, 1, &out, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "bins from 1 to 1");
    assert_int_equal(tide_histogram(a, 2, NAN, 1, &out, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_histogram(z, 2, 0, 1, &out, NULL), TIDE_E_DTYPE);
    assert_int_equal(tide_histogram(a, 2, 0, 1, NULL, NULL), TIDE_E_INVALID);
    assert_null(out);
    assert_null(tide_bincount(a, NULL, 3));
    assert_error(TIDE_E_DTYPE, "f32; wanted bool or integers");
    assert_null(tide_bincount(i, a, 3));
    assert_error(TIDE_E_SHAPE, "weights have shape (2, 3); the array has (2,)");
    assert_null(tide_bincount(i, z, 3));
    assert_error(TIDE_E_DTYPE, "weights are c64");
    assert_null(tide_lexsort((tide_array *[]){i, a}, 2, 0));
    assert_error(TIDE_E_SHAPE, "key 1 has shape (2, 3); the first has (2,)");
    assert_null(tide_lexsort(NULL, 0, 0));
    assert_error(TIDE_E_INVALID, "no keys");
    assert_null(tide_lexsort(&i, 1, 1));
    assert_error(TIDE_E_BOUNDS, "axis 1");
    tide_release(a), tide_release(z), tide_release(i);
}

static void counting_in_a_scope(tide_runtime *rt, tide_status *status) {
    tide_array *a, *out[2];
    assert_ok(tide_scope_begin(rt));
    bool ok = (a = tide_ones(rt, TIDE_I16, SHAPE(3, 5))) &&
              tide_histogram(a, 3, NAN, NAN, &out[0], &out[1]) == TIDE_OK &&
              tide_bincount(a, a, -1) && tide_lexsort((tide_array *[]){a, a, a}, 3, 1);
    *status = ok ? TIDE_OK : tide_error_last()->status;
    assert_ok(tide_scope_end(rt));
}
static void each_call_of_the_device_may_fail(void **state) {
    (void)state;
    each_call_fails(counting_in_a_scope);
}

int main(void) {
#define CASE(f)     cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
#define EMULATED(f) cmocka_unit_test_setup_teardown(f, open_emulated, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(bins_and_keys_agree_with_the_model),
        CASE(many_elements_are_counted),
        CASE(many_numbers_are_counted),
        EMULATED(a_gpus_kernels_do_the_same),
        CASE(the_range_may_be_the_elements_own),
        CASE(the_first_key_counts_most),
        CASE(senseless_arguments_are_refused),
        cmocka_unit_test(each_call_of_the_device_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
