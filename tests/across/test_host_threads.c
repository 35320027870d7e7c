/* test_host_threads.c: whatever a host device's threads share has the same bits however many they
** are: each way of sharing on large arrays, with 1, 2 and 5 threads. */
#include "tests/support/tidetest.h"
#include <tide/expr.h>

#define N 300007 /* elements; a prime, so that no cut is even */

typedef struct results {
    int n;
    tide_array *a[12];
} results;
static void add(results *r, tide_array *a) {
    assert_array(a);
    assert_true(r->n < (int)TIDEI_COUNT(r->a));
    r->a[r->n++] = a;
}

/* ---- inputs: the same in every runtime ---- */

static tide_array *noise(tide_runtime *rt, tide_dtype t, int64_t rows, int64_t cols) {
    tide_rng rng = {.seed = 7};
    tide_array *x = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(rows, cols));
    return t == TIDE_F64 ? x : tide_cast(tide_map(rt, "(x) -> 100 * x", x), t);
}
static tide_array *some_indices(tide_runtime *rt, tide_dtype t, int64_t n, int64_t below) {
    tide_rng rng = {.seed = 8};
    return tide_random_integers(rt, &rng, t, SHAPE(n), 0, below);
}

/* ---- what is shared ---- */

static void maps(tide_runtime *rt, results *r) {
    tide_array *x = noise(rt, TIDE_F32, 1, N), *y = noise(rt, TIDE_F64, 617, 501);
    tide_array *both[2];
    add(r, tide_map(rt, "(x) -> exp(x / 100) * sin(x) + x**3", x));
    add(r, tide_map(rt, "(x) -> 2 * x + 1", tide_transpose(y, NULL)));
    add(r, tide_map(rt, "(x, y) -> x - y", tide_slice(y, "1:, :500:2"), tide_slice(y, ":1, 1::2")));
    assert_ok(tide_map_many(rt, both, 2, "(x) -> (x < 0, floor(x * 10))", y));
    add(r, both[0]), add(r, both[1]);
    add(r, tide_map(rt, "(x) -> x + index(0) * 1000 + index(1)", y));
}
static void complex_maps(tide_runtime *rt, results *r) {
    tide_array *x = noise(rt, TIDE_F64, 1, N), *y = tide_map(rt, "(x) -> x * x - 1", x);
    tide_array *wide = tide_complex(x, y), *narrow = tide_cast(wide, TIDE_C64);
    add(r, tide_map(rt, "(z) -> abs(z * z + z)", wide));
    add(r, tide_map(rt, "(z) -> z / (z - 3) * z", narrow));
    add(r, tide_map(rt, "(z) -> sum(z)", wide));
    add(r, tide_map(rt, "(z) -> prod(z / abs(z))", narrow));
}
static void folds_of_all(tide_runtime *rt, results *r) {
    tide_array *x = noise(rt, TIDE_F32, 1, N), *h = noise(rt, TIDE_F16, 1, N),
               *i = noise(rt, TIDE_I32, 1, N);
    add(r, tide_map(rt, "(x) -> sum(x)", x));
    add(r, tide_map(rt, "(x) -> mean(x)", h));
    add(r, tide_map(rt, "(x) -> prod(1 + x * 0.000001)", x));
    add(r, tide_map(rt, "(x) -> max(exp(x / 100))", x));
    add(r, tide_map(rt, "(x) -> sum(x)", i));
    add(r, tide_map(rt, "(x) -> argmax(x)", x));
    add(r, tide_map(rt, "(x) -> argmin(abs(x))", i)); /* many are equal: the first one */
    add(r, tide_map(rt, "(x) -> any(x > 1e30)", x));
}
static void folds_of_rows_and_columns(tide_runtime *rt, results *r) {
    tide_array *x = noise(rt, TIDE_F64, 613, 509), *tall = noise(rt, TIDE_F32, 60013, 5);
    add(r, tide_map(rt, "(x) -> sum(x, axis=0)", x));
    add(r, tide_map(rt, "(x) -> sum(sqrt(abs(x)), axis=1)", x));
    add(r, tide_map(rt, "(x) -> argmax(x, axis=0)", x));
    add(r, tide_map(rt, "(x) -> argmin(x, axis=1)", x));
    add(r, tide_map(rt, "(x) -> mean(x, axis=0)", tall));
    add(r, tide_map(rt, "(x) -> argmax(x, axis=0)", tall));
    add(r, tide_map(rt, "(x) -> sum(x, axis=1)", tall));
    add(r, tide_map(rt, "(x) -> exp(x / 100) / sum(exp(x / 100), axis=1, keepdims=true)", tall));
}
static void scans(tide_runtime *rt, results *r) {
    tide_array *x = noise(rt, TIDE_F64, 613, 509);
    add(r, tide_cumsum(x, 0, 0));
    add(r, tide_cumsum(x, 1, 0));
    add(r, tide_cumsum(tide_reshape(x, SHAPE(-1)), 0, 0));
}
static void random_numbers(tide_runtime *rt, results *r) {
    tide_rng rng = {.seed = 9};
    for (tide_dtype t = TIDE_F32; t <= TIDE_F64; t++) {
        add(r, tide_random_uniform(rt, &rng, t, SHAPE(N)));
        add(r, tide_random_normal(rt, &rng, t, SHAPE(N)));
    }
    add(r, tide_random_integers(rt, &rng, TIDE_I8, SHAPE(N), -100, 100));
    add(r, tide_random_integers(rt, &rng, TIDE_U64, SHAPE(N), 0, 1000003));
    add(r, tide_random_integers(rt, &rng, TIDE_I64, SHAPE(N), INT64_MIN, INT64_MAX));
    add(r, tide_random_permutation(rt, &rng, N));
}
static void takes(tide_runtime *rt, results *r) {
    tide_array *x = noise(rt, TIDE_F32, 1000, 7), *i = some_indices(rt, TIDE_I64, N, 1000),
               *j = some_indices(rt, TIDE_U16, 4001, 7);
    tide_array *flat = tide_slice(noise(rt, TIDE_F64, 1, 1000), "0");
    add(r, tide_take(x, i, 0));
    add(r, tide_take(x, j, 1));
    add(r, tide_take(flat, i, 0));
    add(r, tide_index(flat, 1, (tide_pick[]){tide_pick_array(i)}));
    add(r,
        tide_index(x, 2, (tide_pick[]){tide_pick_array(i), tide_pick_range(tide_range_index(3))}));
    add(r, tide_take_along_axis(x, tide_reshape(tide_slice(j, ":4000"), SHAPE(1000, 4)), 1));
}
static void sums_at_places(tide_runtime *rt, results *r) {
    static const tide_dtype types[] = {TIDE_F16, TIDE_F32, TIDE_F64, TIDE_I64, TIDE_C128};
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        tide_array *x = noise(rt, types[t], N, 1), *few = tide_zeros(rt, types[t], SHAPE(9, 1)),
                   *many = tide_zeros(rt, types[t], SHAPE(100000, 1));
        assert_ok(tide_scatter_add(few, some_indices(rt, TIDE_I32, N, 9), 0, x, 0));
        assert_ok(tide_scatter_add(many, some_indices(rt, TIDE_I64, N, 100000), 0, x, 0));
        add(r, few), add(r, many);
    }
    add(r, tide_bincount(some_indices(rt, TIDE_I32, N, 50), NULL, 50));
    add(r, tide_segment_mean(noise(rt, TIDE_F32, 90001, 3), some_indices(rt, TIDE_I64, 90001, 17),
                             17, 0));
}
static void selections(tide_runtime *rt, results *r) {
    tide_array *x = noise(rt, TIDE_F32, 1, N), *rows = noise(rt, TIDE_F64, 900, 350), *found[2];
    tide_array *q = tide_linspace(rt, TIDE_F64, 0, 1, 11, 1);
    const int last = 1;
    assert_ok(tide_topk(rows, 7, 1, 1, &found[0], &found[1]));
    add(r, found[0]), add(r, found[1]);
    add(r, tide_median(x, NULL, 0, 0));
    add(r, tide_quantile(x, tide_arg_array(q), NULL, 0, 0));
    add(r, tide_quantile(rows, tide_arg_array(q), &last, 1, 0));
    add(r, tide_median(tide_map(rt, "(x) -> where(x > 0, x * 0, x * 0)", x), NULL, 0, 0));
}

/* ---- the comparison ---- */

typedef void program(tide_runtime *rt, results *r);

static tide_runtime *open_with(int threads) {
    return test_open(&(tide_config){
        .struct_size = sizeof(tide_config), .device = "host", .host_threads = threads});
}

typedef struct bytes {
    size_t n[12];
    void *p[12];
    int arrays;
} bytes;

static bytes run(program *p, int threads) {
    tide_runtime *rt = open_with(threads);
    results r = {0};
    bytes b = {0};
    p(rt, &r);
    assert_true(r.n > 0);
    for (int i = 0; i < r.n; i++) {
        b.n[i] = (size_t)tide_array_size(r.a[i]) * tide_dtype_size(tide_array_dtype(r.a[i]));
        b.p[i] = malloc(b.n[i] + 1);
        assert_ok(tide_to_host(r.a[i], b.p[i], b.n[i]));
    }
    b.arrays = r.n;
    tide_close(rt);
    return b;
}

static void compare(program *p) {
    static const int threads[] = {2, 5};
    bytes one = run(p, 1);
    for (size_t t = 0; t < TIDEI_COUNT(threads); t++) {
        bytes other = run(p, threads[t]);
        assert_int_equal(other.arrays, one.arrays);
        for (int i = 0; i < one.arrays; i++) {
            assert_int_equal(other.n[i], one.n[i]);
            assert_memory_equal(other.p[i], one.p[i], one.n[i]);
            free(other.p[i]);
        }
    }
    for (int i = 0; i < one.arrays; i++) free(one.p[i]);
}

#define CASES(X)                                                                                   \
    X(maps)                                                                                        \
    X(complex_maps)                                                                                \
    X(folds_of_all)                                                                                \
    X(folds_of_rows_and_columns)                                                                   \
    X(scans)                                                                                       \
    X(random_numbers)                                                                              \
    X(takes)                                                                                       \
    X(sums_at_places)                                                                              \
    X(selections)
#define CASE_OF(name)                                                                              \
    static void name##_have_the_same_bits(void **state) {                                          \
        (void)state;                                                                               \
        compare(name);                                                                             \
    }
CASES(CASE_OF)

int main(void) {
#define TEST_OF(name) cmocka_unit_test(name##_have_the_same_bits),
    const struct CMUnitTest tests[] = {CASES(TEST_OF)};
    return cmocka_run_group_tests_name("host_threads", tests, NULL, NULL);
}
