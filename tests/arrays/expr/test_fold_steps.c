/* test_fold_steps.c: folds over several dimensions that do not merge, in two steps: which calls go
** so and which dimension is first, and that a GPU's kernels, emulated where there is none, give
** what the host gives. */
#include "tests/doubles/emulated_device.h"
#include "arrays/expr/cuda_steps.h"
#include "tests/arrays/expr/programs.h"
#include "tests/arrays/expr/unit.h"
#include <math.h>

static int64_t product(int n, const int64_t *shape) {
    int64_t all = 1;
    for (int d = 0; d < n; d++) all *= shape[d];
    return all;
}

/* ---- which go so ---- */

#define NONE (-1)

/* A fold of one input of type t that lies densely, its elements in the order of `shape`; `folded`:
** dimensions (bits). The dimension that is folded first, as the call had it; NONE: no steps. */
static int first_of(int kind, int t, int acc, int ndim, const int64_t *shape, unsigned folded) {
    tidei_program p = {0};
    tidei_cuda_traits k;
    tidei_steps steps;
    int64_t dense[TIDE_MAX_RANK], step = 1;
    int dims[TIDE_MAX_RANK], n = 0;
    fold(&p, kind, input(&p, t), acc, acc);
    tidei_cuda_traits_of(&p, &k);
    for (int d = ndim - 1; d >= 0; d--) {
        dense[d] = step;
        step *= shape[d];
    }
    for (int side = 0; side < 2; side++)
        for (int d = 0; d < ndim; d++)
            if ((int)(folded >> d & 1) == side) dims[n++] = d;
    tidei_call c = {.prog = &p, .ndim = ndim, .nred = __builtin_popcount(folded)};
    step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        c.shape[i] = shape[dims[i]];
        c.in[0].strides[i] = dense[dims[i]];
        if (i >= ndim - c.nred) continue;
        c.out[0].strides[i] = step;
        step *= shape[dims[i]];
    }
    tidei_call_collapse(&c);
    tidei_cuda_order(&c, &k);
    if (!tidei_steps_find(&c, &k, &steps)) return NONE;
    assert_int_equal(steps.partial * c.shape[steps.dim], product(ndim, shape));
    for (int d = 0; d < ndim; d++)
        if (folded >> d & 1 && dense[d] == c.in[0].strides[steps.dim]) return d;
    fail_msg("no dimension lies like the one that is folded first");
    return NONE;
}

static void the_cheaper_dimension_is_first(void **state) {
    static const struct {
        int kind, t, acc, ndim;
        int64_t shape[4];
        unsigned folded;
        int first;
    } cases[] = {
        /* the accumulators are fewer */
        {TIDEI_FOLD_MAX, TIDE_U8, TIDE_U8, 3, {70, 119837, 16}, 5, 0},
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 3, {61, 31, 35488}, 5, 2},
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 3, {299593, 14, 8}, 5, 0},
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 4, {28, 13315, 9, 10}, 5, 0},
        /* few elements lie side by side along the last of them */
        {TIDEI_FOLD_SUM, TIDE_F16, TIDE_F32, 4, {53, 19, 22214, 3}, 5, 0},
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 4, {53, 19, 22214, 64}, 5, 2},
        /* columns are not of whole vectors */
        {TIDEI_FOLD_SUM, TIDE_F16, TIDE_F32, 4, {7895, 34, 5, 50}, 9, 3},
        {TIDEI_FOLD_SUM, TIDE_F16, TIDE_F32, 4, {7895, 34, 4, 50}, 9, 0},
        /* accumulators of eight bytes are too many but along the longer one */
        {TIDEI_FOLD_SUM, TIDE_I8, TIDE_I64, 3, {30, 200, 1000}, 5, 2},
        {TIDEI_FOLD_SUM, TIDE_I8, TIDE_I64, 3, {30, 20000, 31}, 5, NONE},
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 3, {3, 1000000, 3}, 5, NONE},
        /* they take too much memory */
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 3, {4, 44739242, 3}, 5, 0},
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 3, {4, 178956971, 3}, 5, NONE},
        /* neighbours merge; few elements; an index */
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 3, {61, 31, 35488}, 6, NONE},
        {TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, 3, {61, 3, 354}, 5, NONE},
        {TIDEI_FOLD_ARGMAX, TIDE_F32, TIDE_F32, 3, {61, 31, 35488}, 5, NONE},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++)
        if (first_of(cases[i].kind, cases[i].t, cases[i].acc, cases[i].ndim, cases[i].shape,
                     cases[i].folded) != cases[i].first)
            fail_msg("case %zu", i);
}

/* ---- what they compute ---- */

static tide_runtime *rt, *host; /* the GPU, or an emulated one; the host device */

static int open_both(void **state) {
    const tide_config c = {.collector = "refcount", .device = "host"};
    (void)state;
    rt = test_on_host() ? emulated_open(&(tide_config){.collector = "refcount"})
                        : test_open(&(tide_config){.collector = "refcount"});
    host = test_open(&c);
    return 0;
}
static int close_both(void **state) {
    (void)state;
    if (rt) tide_close(rt);
    tide_close(host);
    return 0;
}

/* Small integers, which sums of floats have exactly. */
static unsigned char *small_integers(tide_dtype t, size_t n) {
    const size_t size = tide_dtype_size(t);
    unsigned char *data = malloc(n * size);
    if (!data) abort();
    for (size_t i = 0; i < n; i++)
        set_element(data + i * size, t, floor(unit() * (t == TIDE_BOOL ? 1.001 : 9)));
    return data;
}

/* Both have the same bits; returns how many kernels there were. */
static unsigned compare(const char *text, tide_dtype t, int ndim, const int64_t *shape,
                        const int *turned) {
    const size_t n = (size_t)product(ndim, shape);
    unsigned char *data = small_integers(t, n), *bytes[2];
    tide_array *of[2];
    unsigned launches = 0;
    for (int i = 0; i < 2; i++) {
        tide_array *x = tide_from_host(i ? host : rt, t, ndim, shape, data);
        if (turned) x = tide_transpose(x, turned);
        launches = i ? launches : atomic_load(&emulated_launches);
        of[i] = tide_map(i ? host : rt, text, x);
        launches = i ? launches : atomic_load(&emulated_launches) - launches;
        assert_array(of[i]);
    }
    const size_t size = (size_t)tide_array_size(of[1]) * tide_dtype_size(tide_array_dtype(of[1]));
    assert_int_equal(tide_array_dtype(of[0]), tide_array_dtype(of[1]));
    assert_int_equal(tide_array_size(of[0]), tide_array_size(of[1]));
    for (int i = 0; i < 2; i++) {
        bytes[i] = malloc(size);
        assert_ok(tide_to_host(of[i], bytes[i], size));
    }
    if (memcmp(bytes[0], bytes[1], size)) fail_msg("%s of %s", text, tide_dtype_name(t));
    free(bytes[0]), free(bytes[1]), free(data);
    return launches;
}

/* Sums of halves are rounded once; means divide once, by how many they are of. */
static void both_steps_give_what_one_gives(void **state) {
    static const int turned[] = {0, 2, 1};
    static const struct {
        const char *text;
        tide_dtype t;
        int ndim;
        int64_t shape[5];
        const int *turned;
    } cases[] = {
        {"(x) -> sum(x, axis=(0, 2))", TIDE_F32, 3, {40, 331, 80}, NULL},
        {"(x) -> max(x, axis=(0, 2))", TIDE_U8, 3, {9, 4, 30001}, NULL},
        {"(x) -> mean(x, axis=(0, 2))", TIDE_BF16, 3, {70, 1500, 10}, NULL},
        {"(x) -> sum(x, axis=(0, 2))", TIDE_F16, 4, {33, 7, 1001, 5}, NULL},
        {"(x) -> mean(x, axis=(1, 3), keepdims=true)", TIDE_I16, 4, {2, 8003, 10, 7}, NULL},
        {"(x) -> any(x, axis=(0, 1))", TIDE_BOOL, 3, {60, 101, 180}, turned},
        {"(x) -> sum(x, axis=(0, 2, 4))", TIDE_F32, 5, {12, 5, 30, 4, 150}, NULL},
        {"(x) -> mean(x + max(x, axis=(0, 2), keepdims=true), axis=(0, 2))",
         TIDE_F32,
         3,
         {64, 300, 64},
         NULL},
    };
    (void)state;
    if (!rt) skip();
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        assert_ok(tide_scope_begin(rt) || tide_scope_begin(host));
        const unsigned launches =
            compare(cases[i].text, cases[i].t, cases[i].ndim, cases[i].shape, cases[i].turned);
        if (is_emulated(rt) && launches < 2) fail_msg("%s: %u kernels", cases[i].text, launches);
        assert_ok(tide_scope_end(rt) || tide_scope_end(host));
    }
}

/* ---- in graphs ---- */

static tide_status scaled_fold(void *text, const tide_arg *args, size_t n, tide_array **outs,
                               size_t m) {
    assert_true(n == 3 && m == 1);
    outs[0] = tide_map_args(rt, text, args, n);
    return outs[0] ? TIDE_OK : tidei_last_status();
}

/* A number of a graph's run goes to the step that computes with it, and to no other. The second
** step of a mean is no chain. */
static void numbers_of_graphs_go_to_the_first_step(void **state) {
    static char sum[] = "(x, a, b) -> sum(x * a + b, axis=(0, 2))",
                mean[] = "(x, a, b) -> mean(x * a + b, axis=(0, 2))";
    const int64_t shape[] = {64, 128, 129};
    float results[128];
    (void)state;
    if (!rt) skip();
    tide_array *x = tide_full(rt, TIDE_F32, 3, shape, tide_arg_int(1));
    assert_array(x);
    for (int means = 0; means < 2; means++) {
        const int64_t of_one = means ? 1 : shape[0] * shape[2];
        tide_graph *g = tide_graph_new(rt, scaled_fold, means ? mean : sum);
        assert_non_null(g);
        for (int run = 1; run < 5; run++) { /* the first is none of a graph's */
            const tide_arg args[] = {tide_arg_array(x), tide_arg_int(run), tide_arg_int(run)};
            tide_array *y;
            assert_ok(tide_graph_run(g, args, 3, &y, 1));
            assert_ok(tide_to_host(y, results, sizeof results));
            for (int i = 0; i < 128; i++) assert_true(results[i] == (float)(2 * run * of_one));
            tide_release(y);
        }
        tide_graph_release(g);
    }
    tide_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheaper_dimension_is_first),
        cmocka_unit_test(both_steps_give_what_one_gives),
        cmocka_unit_test(numbers_of_graphs_go_to_the_first_step),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
