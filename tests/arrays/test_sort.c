/* test_sort.c: sorts, partitions and the first k, against a slow model: every type, layout and
** axis, short rows and long ones, on the host and by a GPU's kernels, emulated. */
#include "arrays/order/keys.h"
#include "tests/arrays/sorted.h"
#include "tests/doubles/emulated_failures.h"

extern const char tidei_order_sort_text[], tidei_order_select_text[], tidei_order_bytes_text[];

static void sorts_right(tide_array *a, int axis, bool descending) {
    tide_dtype t = tide_array_dtype(a);
    int given = random_below(2) ? axis : axis - tide_array_ndim(a);
    sorted s = model(a, axis, tide_array_dim(a, axis), descending);
    tide_array *values, *places;
    assert_ok(tide_sort_both(a, given, descending, &values, &places));
    assert_int_equal(tide_array_ndim(values), tide_array_ndim(a));
    assert_int_equal(tide_array_dim(places, axis), tide_array_dim(a, axis));
    has(values, t, s.values, s.n);
    has(places, TIDE_I64, s.places, s.n);
    has(tide_sort(a, given, descending), t, s.values, s.n);
    has(tide_argsort(a, given, descending), TIDE_I64, s.places, s.n);
    drop_model(&s);
}

/* ---- both devices ---- */

static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 33, 100, 257, 600};
static void rows_of_every_kind(tide_runtime *rt, bool thorough) {
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            int64_t n = lengths[random_below((int64_t)TIDEI_COUNT(lengths))];
            for (int axis = 0; axis < 3; axis++) {
                int64_t shape[] = {1 + random_below(4), 1 + random_below(4), 1 + random_below(4)};
                shape[axis] = n;
                if (!thorough && (axis != layout % 3 || (layout + t) % 2)) continue;
                tide_array *a = random_array(rt, t, 3, shape, layout, random_below(2));
                sorts_right(a, axis, random_below(2));
                picks_right(a, axis, random_below(n + 1), random_below(2));
                tide_release(a);
            }
        }
}
static void every_type_layout_and_axis_is_sorted(void **state) { rows_of_every_kind(*state, true); }
static void a_gpus_kernels_sort_the_same(void **state) {
    if (!*state) skip();
    rows_of_every_kind(*state, false);
}

/* Rows of more than a block sorts alone: by passes over tiles. */
static void a_long_row(tide_runtime *rt, tide_dtype t, int64_t n, bool few) {
    tide_array *a = random_array(rt, t, 1, &n, few ? BACKWARD : PLAIN, few);
    both_are_right(a, 0, random_below(2));
    tide_release(a);
}
static void long_rows_are_sorted(void **state) {
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        a_long_row(*state, t, 4096, true);
        a_long_row(*state, t, 70001, t & 1);
    }
}
static void a_gpus_kernels_sort_long_rows(void **state) {
    if (!*state) skip();
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) a_long_row(*state, t, 4097, t & 1);
    if (!test_quick()) a_long_row(*state, TIDE_F32, 66000, true);
}

/* Values alone, or places alone, leave out what is not needed. */
static void several_long_rows(tide_runtime *rt) {
    static const tide_dtype types[] = {TIDE_I16, TIDE_F32, TIDE_U32, TIDE_C64};
    for (int i = 0; i < (int)TIDEI_COUNT(types); i++) {
        int64_t shape[] = {2, 2}, k = 1 + random_below(1500);
        shape[i & 1] = 4100;
        tide_array *a = random_array(rt, types[i], 2, shape, i & 1 ? PLAIN : TURNED, i & 2);
        sorted s = model(a, i & 1, 4100, i & 2);
        has(tide_sort(a, i & 1, i & 2), types[i], s.values, s.n);
        if (i < 2) has(tide_argsort(a, i & 1, i & 2), TIDE_I64, s.places, s.n);
        drop_model(&s);
        if (i < 2) picks_right(a, i & 1, k, i & 2);
        tide_release(a);
    }
}
/* Floats whose keys tell them, in values alone; and with some that no key tells: zeros, NaN. */
static void floats_of_long_rows(tide_runtime *rt) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_BF16, TIDE_F16};
    static const double last[] = {1.5, -0.0, NAN, 0.0};
    for (int i = 0; i < 4 * (int)TIDEI_COUNT(types); i++) {
        const tide_dtype t = types[i / 4];
        const size_t size = tide_dtype_size(t);
        int64_t shape[] = {1 + (i & 1), i < 8 ? 4300 : 4097}, n = shape[0] * shape[1];
        if (test_quick() && i % 3) continue;
        unsigned char *x = malloc((size_t)n * size);
        for (int64_t j = 0; j < n; j++) {
            double v = (double)(1 + random_below(1000)) * (random_below(2) ? 0.25 : -8);
            if (j == n - 1 || (j == 7 && i % 4)) v = last[i % 4];
            assert_ok(tidei_encode(tide_arg_float(v), t, "test", x + (size_t)j * size));
        }
        tide_array *a = tide_from_host(rt, t, 2, shape, x);
        assert_array(a);
        sorted s = model(a, 1, shape[1], i & 2);
        has(tide_sort(a, 1, i & 2), t, s.values, s.n);
        drop_model(&s);
        tide_release(a);
        free(x);
    }
}
static void floats_are_sorted_by_what_their_keys_tell(void **state) { floats_of_long_rows(*state); }
static void a_gpus_kernels_sort_by_what_keys_tell(void **state) {
    if (!*state) skip();
    floats_of_long_rows(*state);
}
/* Keys whose digits are alike but for one, two or none: the others' passes have nothing to do. */
static void alike_but_for_some_digits(tide_runtime *rt) {
    static const int shifts[][2] = {{0, 0}, {24, 24}, {56, 56}, {8, 40}, {0, 56}};
    enum { N = 4500 };
    static int64_t x[N];
    for (size_t k = 0; k <= TIDEI_COUNT(shifts); k++) {
        for (int i = 0; i < N; i++) {
            x[i] = 0x0102030405060708;
            for (int d = 0; d < 2 && k < TIDEI_COUNT(shifts); d++)
                x[i] ^= (int64_t)((uint64_t)random_below(1 << (7 * d + 1)) << shifts[k][d]);
        }
        tide_array *a = tide_from_host(rt, TIDE_I64, 1, (int64_t[]){N}, x);
        assert_array(a);
        both_are_right(a, 0, k & 1);
        tide_release(a);
    }
}
static void digits_that_all_keys_have_are_passed_over(void **state) {
    alike_but_for_some_digits(*state);
}
static void a_gpus_kernels_pass_over_such_digits(void **state) {
    if (!*state) skip();
    alike_but_for_some_digits(*state);
}
static void rows_beside_each_other_are_sorted_alone(void **state) { several_long_rows(*state); }
static void a_gpus_kernels_keep_long_rows_apart(void **state) {
    if (!*state) skip();
    several_long_rows(*state);
}

/* The first few of rows that fall into parts, and of what is picked from these where that is too
** long again; equals lie in several parts. */
static void rows_in_parts(tide_runtime *rt) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_I8, TIDE_F64, TIDE_U16, TIDE_BOOL, TIDE_BF16};
    for (int i = 0; i < (int)TIDEI_COUNT(types); i++) {
        int64_t n = 8000 + random_below(1500), shape[] = {2, 1, n};
        const int axis = i & 1 ? 2 : 0, layout = random_below(LAYOUTS);
        shape[0] = axis ? 2 : n, shape[2] = axis ? n : 2;
        tide_array *a = random_array(rt, types[i], 3, shape, layout, i & 2);
        picks_right(a, axis, 1 + random_below(9), i % 3);
        tide_release(a);
    }
    int64_t n = 85000;
    tide_array *a = random_array(rt, TIDE_I16, 1, &n, BACKWARD, true);
    picks_right(a, 0, 250, true);
    tide_release(a);
}
/* Rows that a block reads tile by tile, and many that warps hold, or that are sorted where they are
** fewer. */
static void last_is(const char *name) { assert_string_equal(atomic_load(&emulated_last), name); }
static void rows_that_are_read(tide_runtime *rt) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_I16, TIDE_U64};
    for (int i = 0; i < (int)TIDEI_COUNT(types); i++) {
        const int64_t shape[] = {2, 4097 + random_below(5000)};
        tide_array *a = random_array(rt, types[i], 2, shape, i, i & 1);
        picks_right(a, 1, 257 + random_below(OD_TOP - 256), i & 2);
        last_is(tide_dtype_size(types[i]) == 8 ? "order_top_64" : "order_top_32");
        tide_release(a);
    }
}
static void many_short_rows(tide_runtime *rt) {
    for (int i = 0; i < 2; i++) {
        const int64_t shape[] = {1024 - i, 129};
        tide_array *a = random_array(rt, TIDE_BF16, 2, shape, PLAIN, false);
        picks_right(a, 1, 26, i);
        last_is(i ? "order_rows_32" : "order_first_32");
        tide_release(a);
    }
}
static void takes(tide_runtime *rt, int64_t n, int64_t k, unsigned launches) {
    tide_array *a = tide_zeros(rt, TIDE_I8, SHAPE(n)), *places;
    const unsigned before = atomic_load(&emulated_launches);
    assert_ok(tide_topk(a, k, 0, 1, NULL, &places));
    assert_int_equal(atomic_load(&emulated_launches) - before, launches);
    tide_release(a);
    tide_release(places);
}
static void a_gpus_kernels_pick_from_parts_of_rows(void **state) {
    if (!*state) skip();
    rows_in_parts(*state);
    rows_that_are_read(*state);
    many_short_rows(*state);
    takes(*state, 4096, 9, 1);
    takes(*state, 8000, 9, 2);
    takes(*state, 8000, 129, 1); /* a block picks from all of it */
    takes(*state, 85000, 250, 3);
}
static void the_first_of_long_rows(void **state) { rows_in_parts(*state); }

/* Rows of one element, of a view, are copied, and all places are filled: no kernel sorts. */
static void is_copied(tide_runtime *rt) {
    const char *name = atomic_load(&emulated_last);
    if (is_emulated(rt) && name) assert_int_not_equal(strncmp(name, "order_", 6), 0);
}
static void rows_of_one(tide_runtime *rt) {
    static const tide_dtype types[] = {TIDE_U8, TIDE_F32, TIDE_C128};
    for (size_t i = 0; i < TIDEI_COUNT(types); i++)
        for (int axis = 0; axis < 3; axis++) {
            int64_t shape[] = {7, 5, 9};
            shape[axis] = 1;
            tide_array *a = random_array(rt, types[i], 3, shape, axis ? TURNED : BACKWARD, i & 1);
            tide_release(tide_sort(a, axis, axis & 1));
            is_copied(rt);
            tide_release(tide_argsort(a, axis, axis & 1));
            is_copied(rt);
            both_are_right(a, axis, axis & 1);
            tide_release(a);
        }
}
static void rows_of_one_element_are_copied(void **state) { rows_of_one(*state); }
static void a_gpus_kernels_copy_rows_of_one_element(void **state) {
    if (!*state) skip();
    rows_of_one(*state);
}

/* Many rows of bytes, which warps count: at any distance from a multiple of 4 bytes; all of
** them or the first few; more places than there is room for are sorted. */
static void rows_of_bytes(tide_runtime *rt) {
    static const tide_dtype types[] = {TIDE_U8, TIDE_I8, TIDE_BOOL};
    static const int64_t most[] = {1206, 64, 333, 95, 70, 2049, 2048};
    for (int i = 0; i < (test_quick() ? 5 : 7); i++) {
        const tide_dtype t = types[i % 3];
        const int64_t n = most[i], shape[] = {2, n > 2000 ? 128 : 130, n};
        tide_array *a = random_array(rt, t, 3, shape, i == 4 ? STRETCHED : PLAIN, i & 1);
        sorts_right(a, 2, i % 4 > 1);
        picks_right(a, 2, i % 2 ? n : 1 + random_below(40), i % 4 > 1);
        if (n <= 2048) last_is("order_bytes");
        tide_array *values = tide_sort(a, 2, 0);
        last_is("order_bytes");
        tide_array *places = tide_argsort(a, 2, 0);
        last_is(n > 2048 ? "order_rows_32" : "order_bytes");
        tide_release(values);
        tide_release(places);
        tide_release(a);
    }
    tide_array *a = random_array(rt, TIDE_U8, 2, (int64_t[]){256, 63}, PLAIN, false);
    sorts_right(a, 1, false);
    last_is("order_rows_32");
    tide_release(a);
}
static void a_gpus_kernels_count_rows_of_bytes(void **state) {
    if (!*state) skip();
    rows_of_bytes(*state);
}

/* ---- words of the contract ---- */

static void equals_keep_their_order_both_ways(void **state) {
    tide_runtime *rt = *state;
    const float data[] = {1, NAN, 0.0f, -0.0f, -INFINITY, NAN, 0.0f, INFINITY};
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(8), data);
    HAS(tide_argsort(a, 0, 0), int64_t, TIDE_I64, 4, 2, 3, 6, 0, 7, 1, 5);
    HAS(tide_argsort(a, 0, 1), int64_t, TIDE_I64, 1, 5, 7, 0, 2, 3, 6, 4);
    tide_array *s = tide_sort(a, -1, 0);
    float *got = (float *)elements_of(s);
    assert_true(!signbit(got[1]) && signbit(got[2]) && !signbit(got[3]));
    free(got);
    tide_release(s);
    tide_release(a);
}

static void complex_numbers_are_compared_as_numpy_does(void **state) {
    tide_runtime *rt = *state;
    const float data[][2] = {{NAN, NAN}, {NAN, 1}, {5, NAN}, {1, 2}, {1, -2}, {-1, NAN}, {NAN, 0}};
    tide_array *a = tide_from_host(rt, TIDE_C64, SHAPE(7), data);
    HAS(tide_argsort(a, 0, 0), int64_t, TIDE_I64, 4, 3, 5, 2, 6, 1, 0);
    HAS(tide_argsort(a, 0, 1), int64_t, TIDE_I64, 0, 1, 6, 2, 5, 3, 4);
    tide_release(a);
}

static void a_partition_parts(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_from_host(rt, TIDE_I32, SHAPE(2, 4), (int32_t[]){4, 1, 3, 2, 9, 9, 0, 5});
    HAS(tide_slice(tide_partition(a, 2, 1), ":, 2"), int32_t, TIDE_I32, 3, 9);
    tide_array *p = tide_argpartition(a, -4, -1);
    HAS(tide_slice(p, ":, 0"), int64_t, TIDE_I64, 1, 2);
    tide_release(p);
    assert_null(tide_partition(a, 4, 1));
    assert_error(TIDE_E_BOUNDS, "place 4 along axis 1, which has 4 elements");
    assert_null(tide_argpartition(a, -3, 0));
    assert_error(TIDE_E_BOUNDS, "place -3 along axis 0, which has 2 elements");
    tide_release(a);
}

static void senseless_arguments_are_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3)),
               *zero = tide_zeros(rt, TIDE_F32, 0, NULL), *out = NULL;
    assert_null(tide_sort(a, 2, 0));
    assert_error(TIDE_E_BOUNDS, "axis 2 of an array with 2 dimensions");
    assert_null(tide_argsort(zero, -1, 0));
    assert_error(TIDE_E_BOUNDS, "axis -1 of an array with 0 dimensions");
    assert_int_equal(tide_sort_both(a, 0, 0, NULL, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "no result is wanted");
    assert_int_equal(tide_topk(a, 4, 1, 1, &out, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "4 elements of axis 1, which has 3");
    assert_int_equal(tide_topk(a, -1, 1, 1, &out, NULL), TIDE_E_BOUNDS);
    assert_int_equal(tide_topk(a, 1, -3, 1, &out, NULL), TIDE_E_BOUNDS);
    assert_null(out);
    assert_null(tide_sort(NULL, 0, 0));
    tide_release(a);
    tide_release(zero);
}

/* ---- failures ---- */

static void sorting_in_a_scope(tide_runtime *rt, tide_status *status) {
    tide_array *a, *out[2];
    assert_ok(tide_scope_begin(rt));
    bool ok = (a = tide_zeros(rt, TIDE_C64, SHAPE(3, 50))) && tide_sort(a, 1, 0) &&
              tide_sort_both(a, 0, 1, &out[0], &out[1]) == TIDE_OK &&
              tide_topk(a, 2, 1, 1, &out[0], &out[1]) == TIDE_OK && tide_argpartition(a, 2, 1);
    *status = ok ? TIDE_OK : tide_error_last()->status;
    assert_ok(tide_scope_end(rt));
}
static void picking_in_a_scope(tide_runtime *rt, tide_status *status) {
    tide_array *a, *out[2];
    assert_ok(tide_scope_begin(rt));
    bool ok = (a = tide_zeros(rt, TIDE_U8, SHAPE(4200, 1))) &&
              tide_topk(a, 2, 0, 1, &out[0], &out[1]) == TIDE_OK;
    *status = ok ? TIDE_OK : tide_error_last()->status;
    assert_ok(tide_scope_end(rt));
}
static void each_call_of_the_device_may_fail(void **state) {
    (void)state;
    each_call_fails(sorting_in_a_scope);
}
static void each_call_may_fail_under_a_gpus_kernels(void **state) {
    (void)state;
    each_emulated_call_fails(sorting_in_a_scope);
    each_emulated_call_fails(picking_in_a_scope);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_order_sort_text, "sort.cu", "ALL", 90);
    compiles(tidei_order_bytes_text, "bytes.cu", "ALL", 90);
    compiles(tidei_order_select_text, "select.cu", "ALL", 90);
}

int main(void) {
#define CASE(f)     cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
#define EMULATED(f) cmocka_unit_test_setup_teardown(f, open_emulated, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(every_type_layout_and_axis_is_sorted),
        EMULATED(a_gpus_kernels_sort_the_same),
        CASE(long_rows_are_sorted),
        EMULATED(a_gpus_kernels_sort_long_rows),
        CASE(digits_that_all_keys_have_are_passed_over),
        EMULATED(a_gpus_kernels_pass_over_such_digits),
        CASE(floats_are_sorted_by_what_their_keys_tell),
        EMULATED(a_gpus_kernels_sort_by_what_keys_tell),
        CASE(rows_of_one_element_are_copied),
        EMULATED(a_gpus_kernels_copy_rows_of_one_element),
        CASE(rows_beside_each_other_are_sorted_alone),
        EMULATED(a_gpus_kernels_keep_long_rows_apart),
        CASE(the_first_of_long_rows),
        EMULATED(a_gpus_kernels_pick_from_parts_of_rows),
        EMULATED(a_gpus_kernels_count_rows_of_bytes),
        CASE(equals_keep_their_order_both_ways),
        CASE(complex_numbers_are_compared_as_numpy_does),
        CASE(a_partition_parts),
        CASE(senseless_arguments_are_refused),
        cmocka_unit_test(each_call_of_the_device_may_fail),
        cmocka_unit_test(each_call_may_fail_under_a_gpus_kernels),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
