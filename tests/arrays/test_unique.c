/* test_unique.c: places in sorted arrays, sets, and distinct elements, against slow models, on the
** host and by a GPU's kernels, emulated. */
#include "tests/arrays/ordered.h"
#include "tests/doubles/emulated_failures.h"

extern const char tidei_order_steps_text[], tidei_order_distinct_text[];

static size_t size_of(tide_array *a) { return tide_dtype_size(tide_array_dtype(a)); }

/* ---- in sorted arrays ---- */

static void finds_right(tide_array *sorted, tide_array *values, bool right) {
    tide_dtype t = tide_array_dtype(sorted);
    size_t size = size_of(sorted);
    int64_t m = tide_array_size(sorted), n = tide_array_size(values);
    unsigned char *in = elements_of(sorted), *given = elements_of(values);
    int64_t *want = malloc((size_t)n * sizeof *want + 1);
    for (int64_t i = 0; i < n; i++) {
        want[i] = 0;
        for (int64_t j = 0; j < m; j++) {
            int c = compare(t, in + (size_t)j * size, given + (size_t)i * size);
            want[i] += c < 0 || (right && c == 0);
        }
    }
    has(tide_searchsorted(sorted, values, right), TIDE_I64, want, n);
    free(want);
    free(given);
    free(in);
}

static void search(tide_runtime *rt) {
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int round = 0; round < 4; round++) {
            int64_t m = (int64_t[]){0, 1, 2, 77}[round], shape[] = {3, 1 + random_below(20)};
            tide_array *a = random_array(rt, t, 1, &m, PLAIN, round & 1),
                       *sorted = tide_sort(a, 0, round == 3),
                       *up = round == 3 ? tide_slice(sorted, "::-1") : tide_retain(sorted),
                       *values = random_array(rt, t, 2, shape, round, round & 1);
            finds_right(up, values, round & 2);
            tide_release(a), tide_release(sorted), tide_release(up), tide_release(values);
        }
}
static void places_in_sorted_arrays_are_found(void **state) { search(*state); }

static void types_promote_where_places_are_found(void **state) {
    tide_runtime *rt = *state;
    tide_array *sorted = tide_from_host(rt, TIDE_I32, SHAPE(3), (int32_t[]){1, 3, 3}),
               *values = tide_from_host(rt, TIDE_F64, SHAPE(4), (double[]){NAN, 3, 2.5, -1}),
               *unsigned_ones = tide_ones(rt, TIDE_U64, SHAPE(2)),
               *square = tide_zeros(rt, TIDE_I32, SHAPE(2, 2));
    HAS(tide_searchsorted(sorted, values, 0), int64_t, TIDE_I64, 3, 1, 1, 0);
    HAS(tide_searchsorted(sorted, values, 1), int64_t, TIDE_I64, 3, 3, 1, 0);
    assert_null(tide_searchsorted(sorted, unsigned_ones, 0));
    assert_error(TIDE_E_DTYPE, "no common type");
    assert_null(tide_searchsorted(square, values, 0));
    assert_error(TIDE_E_SHAPE, "the sorted array has 2 dimensions; wanted 1");
    tide_release(sorted), tide_release(values), tide_release(unsigned_ones), tide_release(square);
}

/* ---- sets ---- */

static bool is_nan(tide_dtype t, const void *p) {
    tide_arg a = tidei_decode(p, t);
    return (a.kind == TIDE_ARG_FLOAT && isnan(a.value.f)) ||
           (a.kind == TIDE_ARG_COMPLEX && (isnan(a.value.c[0]) || isnan(a.value.c[1])));
}

static void looks_up_right(tide_array *a, tide_array *b) {
    tide_dtype t = tide_array_dtype(a);
    size_t size = size_of(a);
    int64_t n = tide_array_size(a), m = tide_array_size(b);
    unsigned char *x = elements_of(a), *y = elements_of(b), *want = calloc((size_t)n + 1, 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m && !is_nan(t, x + (size_t)i * size); j++)
            want[i] |= compare(t, x + (size_t)i * size, y + (size_t)j * size) == 0;
    has(tide_isin(a, b), TIDE_BOOL, want, n);
    free(x), free(y), free(want);
}

static void sets(tide_runtime *rt) {
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int round = 0; round < 3; round++) {
            int64_t shape[] = {3, 1 + random_below(9)}, m = round * 11;
            tide_array *a = random_array(rt, t, 2, shape, (int)random_below(LAYOUTS), true),
                       *b = random_array(rt, t, 1, &m, round, true);
            looks_up_right(a, b);
            tide_release(a), tide_release(b);
        }
}
static void elements_are_looked_up_in_sets(void **state) { sets(*state); }

/* ---- distinct elements ---- */

static void distinct_right(tide_array *a) {
    tide_dtype t = tide_array_dtype(a);
    size_t size = size_of(a);
    int64_t n = tide_array_size(a), u = 0;
    unsigned char *x = elements_of(a), *values = malloc((size_t)n * size + 1);
    int64_t *order = malloc((size_t)n * 8 + 8), *first = malloc((size_t)n * 8 + 8),
            *inverse = malloc((size_t)n * 8 + 8), *counts = calloc((size_t)n + 1, 8);
    model_order(t, x, (int64_t)size, n, false, order);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *e = x + (size_t)order[i] * size;
        if (i == 0 || is_nan(t, e) || compare(t, x + (size_t)order[i - 1] * size, e)) {
            memcpy(values + (size_t)u * size, e, size);
            first[u++] = order[i];
        }
        inverse[order[i]] = u - 1;
        counts[u - 1]++;
    }
    tide_array *out[4];
    assert_ok(tide_unique_all(a, &out[0], &out[1], &out[2], &out[3]));
    assert_int_equal(tide_array_ndim(out[2]), tide_array_ndim(a));
    has(out[0], t, values, u), has(out[1], TIDE_I64, first, u);
    has(out[2], TIDE_I64, inverse, n), has(out[3], TIDE_I64, counts, u);
    has(tide_unique_values(a), t, values, u);
    assert_ok(tide_unique_counts(a, &out[0], &out[1]));
    has(out[0], t, values, u), has(out[1], TIDE_I64, counts, u);
    assert_ok(tide_unique_inverse(a, NULL, &out[1]));
    has(out[1], TIDE_I64, inverse, n);
    free(x), free(values), free(order), free(first), free(inverse), free(counts);
}

static void distinct(tide_runtime *rt, int rounds) {
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int round = 0; round < rounds; round++) {
            int64_t shape[] = {round % 3, 1 + random_below(30)};
            tide_array *a =
                random_array(rt, t, round ? 2 : 0, shape, round % LAYOUTS, random_below(4));
            distinct_right(a);
            tide_release(a);
        }
}
static void distinct_elements_are_told(void **state) {
    distinct(*state, 12);
    int64_t n = 70000;
    tide_array *a = random_array(*state, TIDE_U16, 1, &n, BACKWARD, false);
    distinct_right(a);
    tide_release(a);
}

/* n values in m sorted ones: what is before a place comes before the value, and what is there does
** not. */
static void many_are_found(tide_runtime *rt, tide_dtype t, int64_t m, int64_t n, bool right) {
    tide_array *a = random_array(rt, t, 1, &m, PLAIN, m & 1), *sorted = tide_sort(a, 0, 0),
               *values = random_array(rt, t, 1, &n, PLAIN, m & 1),
               *places = tide_searchsorted(sorted, values, right);
    const bool found = !is_emulated(rt) || !strcmp(emulated_last, "order_find_by_tree");
    tide_array *held = tide_isin(values, a);
    const bool looked_up = !is_emulated(rt) || !strcmp(emulated_last, "order_is_in_by_tree");
    size_t size = tide_dtype_size(t);
    unsigned char *in = elements_of(sorted), *given = elements_of(values), *is = elements_of(held);
    int64_t *at = (int64_t *)elements_of(places);
    assert_true(found && looked_up);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *x = given + (size_t)i * size;
        bool equals = false;
        assert_in_range(at[i], 0, m);
        for (int64_t j = at[i] - 1; j <= at[i]; j++) {
            if (j < 0 || j >= m) continue;
            int c = compare(t, in + (size_t)j * size, x);
            assert_int_equal(c < 0 || (right && c == 0), j < at[i]);
            equals |= c == 0 && !is_nan(t, x);
        }
        assert_int_equal(is[i], equals);
    }
    free(in), free(given), free(is), free(at);
    tide_release(a), tide_release(sorted), tide_release(values);
    tide_release(places), tide_release(held);
}

/* So many that a GPU makes a tree of the sorted ones: with all of them, with a few between its own,
** with many. */
static void many_places_are_found(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_I32, TIDE_U64, TIDE_F16, TIDE_I8};
    static const int64_t lengths[] = {16, 129, 1000, 4097, 30001};
    for (size_t k = 0; k < TIDEI_COUNT(types); k++)
        for (size_t i = 0; i < TIDEI_COUNT(lengths); i++)
            if (!is_emulated(*state) || i == k % 5 || k == 0)
                many_are_found(*state, types[k], lengths[i], 13001, (i ^ k) & 1);
    many_are_found(*state, TIDE_F32, 9000, 50000, false); /* trees of all levels */
    many_are_found(*state, TIDE_F64, 4500, 50000, true);
}

static void a_gpus_kernels_do_the_same(void **state) {
    if (!*state) skip();
    search(*state);
    many_places_are_found(state);
    sets(*state);
    distinct(*state, 4);
}

/* Types of few values are not sorted: many tiles, on which blocks agree; more distinct ones than a
** block counts at once; one alone, or NaN alone. */
static void many_of_few_values(tide_runtime *rt) {
    static const tide_dtype types[] = {TIDE_U8, TIDE_I8, TIDE_BOOL, TIDE_I16, TIDE_F16, TIDE_BF16};
    for (size_t i = 0; i < TIDEI_COUNT(types); i++) {
        int64_t n = 4096 * (1 + random_below(5)) + random_below(4096);
        tide_array *a = random_array(rt, types[i], 1, &n, i & 1 ? BACKWARD : PLAIN, i & 4);
        distinct_right(a);
        tide_release(a);
    }
    int64_t n = 40000; /* so many distinct ones that blocks share them */
    tide_array *a = random_array(rt, TIDE_U16, 1, &n, SPARSE, false);
    distinct_right(a);
    tide_release(a);
    n = 135000; /* a thread sums the NaN of two stretches */
    a = random_array(rt, TIDE_BF16, 1, &n, PLAIN, true);
    distinct_right(a);
    tide_release(a);
    static const double alone[] = {0, -0.0, NAN, INFINITY};
    for (size_t i = 0; i < TIDEI_COUNT(alone); i++) {
        a = tide_full(rt, TIDE_BF16, SHAPE(5000), tide_arg_float(alone[i]));
        distinct_right(a);
        tide_release(a);
    }
}
static void few_values_are_marked(void **state) {
    if (!*state) skip();
    many_of_few_values(*state);
    tide_array *a = tide_zeros(*state, TIDE_U8, SHAPE(9));
    const unsigned before = atomic_load(&emulated_launches);
    tide_release(tide_unique_values(a));
    assert_int_equal(atomic_load(&emulated_launches) - before, 3);
    assert_string_equal(atomic_load(&emulated_last), "order_tell_marks");
    tide_release(a);
}

/* A last tile with few stretches, where the room for their NaN is full to the end, and lies in a
** hole between live arrays. */
static void what_lies_beside_marks_stays(void **state) {
    enum { HOLES = 8, N = 28673 + 2 * 512, EACH = 64 };
    tide_runtime *rt = *state;
    tide_array *hole[HOLES], *live[HOLES];
    if (!rt) skip();
    tide_array *a = tide_full(rt, TIDE_F16, SHAPE(N), tide_arg_float(1));
    for (int i = 0; i < HOLES; i++) {
        hole[i] = tide_zeros(rt, TIDE_U8, SHAPE(25088));
        live[i] = tide_full(rt, TIDE_U64, SHAPE(EACH), tide_arg_float(7));
    }
    assert_ok(tide_synchronize(rt, NULL));
    for (int i = 0; i < HOLES; i++) tide_release(hole[i]);
    tide_release(tide_unique_values(a));
    for (int i = 0; i < HOLES; i++) {
        uint64_t *x = (uint64_t *)elements_of(live[i]);
        for (int k = 0; k < EACH; k++) assert_true(x[k] == 7);
        free(x);
        tide_release(live[i]);
    }
    tide_release(a);
}

static void nan_and_zeros(tide_runtime *rt) {
    const float data[] = {NAN, -0.0f, 0.0f, NAN, 2, 0.0f};
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(2, 3), data), *values, *indices, *counts;
    assert_ok(tide_unique_all(a, &values, &indices, NULL, &counts));
    HAS(indices, int64_t, TIDE_I64, 1, 4, 0, 3);
    HAS(counts, int64_t, TIDE_I64, 3, 1, 1, 1);
    has(values, TIDE_F32, (float[]){-0.0f, 2, NAN, NAN}, 4);
    assert_int_equal(tide_unique_counts(a, NULL, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "no result is wanted");
    tide_release(a);
    static const uint16_t bits[] = {0x7f81, 0x8000, 0, 0xffc1, 0x4000, 0, 0xff80, 0x8001};
    a = tide_from_host(rt, TIDE_BF16, SHAPE(8), bits);
    assert_ok(tide_unique_all(a, &values, &indices, NULL, &counts));
    HAS(indices, int64_t, TIDE_I64, 6, 7, 1, 4, 0, 3);
    HAS(counts, int64_t, TIDE_I64, 1, 1, 3, 1, 1, 1);
    has(values, TIDE_BF16, (uint16_t[]){0xff80, 0x8001, 0x8000, 0x4000, 0x7f81, 0xffc1}, 6);
    tide_release(a);
}
static void each_nan_is_distinct_and_zeros_are_one(void **state) { nan_and_zeros(*state); }
static void a_gpus_kernels_tell_nan_and_zeros(void **state) {
    if (!*state) skip();
    nan_and_zeros(*state);
}

/* ---- failures ---- */

static void finding_in_a_scope(tide_runtime *rt, tide_status *status) {
    tide_array *a, *b, *out[4];
    assert_ok(tide_scope_begin(rt));
    bool ok = (a = tide_zeros(rt, TIDE_I32, SHAPE(3, 5))) &&
              (b = tide_broadcast_to(a, 3, (int64_t[]){2, 3, 5})) && tide_isin(a, b) &&
              tide_unique_values(b) &&
              tide_unique_all(b, &out[0], &out[1], &out[2], &out[3]) == TIDE_OK &&
              tide_searchsorted(out[0], a, 1);
    *status = ok ? TIDE_OK : tide_error_last()->status;
    assert_ok(tide_scope_end(rt));
}
static void each_call_of_the_device_may_fail(void **state) {
    (void)state;
    each_call_fails(finding_in_a_scope);
}

static void marking_in_a_scope(tide_runtime *rt, tide_status *status) {
    tide_array *a, *out[4];
    assert_ok(tide_scope_begin(rt));
    bool ok = (a = tide_full(rt, TIDE_F16, SHAPE(3, 5), tide_arg_float(NAN))) &&
              tide_unique_all(a, &out[0], &out[1], &out[2], &out[3]) == TIDE_OK;
    *status = ok ? TIDE_OK : tide_error_last()->status;
    assert_ok(tide_scope_end(rt));
}
static void each_call_may_fail_under_a_gpus_kernels(void **state) {
    (void)state;
    each_emulated_call_fails(marking_in_a_scope);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_order_steps_text, "steps.h", "ALL", 90);
    compiles(tidei_order_distinct_text, "distinct.cu", "ALL", 90);
}

int main(void) {
#define CASE(f)     cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
#define EMULATED(f) cmocka_unit_test_setup_teardown(f, open_emulated, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(places_in_sorted_arrays_are_found),
        CASE(types_promote_where_places_are_found),
        CASE(many_places_are_found),
        CASE(elements_are_looked_up_in_sets),
        CASE(distinct_elements_are_told),
        EMULATED(a_gpus_kernels_do_the_same),
        EMULATED(few_values_are_marked),
        EMULATED(what_lies_beside_marks_stays),
        CASE(each_nan_is_distinct_and_zeros_are_one),
        EMULATED(a_gpus_kernels_tell_nan_and_zeros),
        cmocka_unit_test(each_call_of_the_device_may_fail),
        cmocka_unit_test(each_call_may_fail_under_a_gpus_kernels),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
