/* index(axis) in expressions: where an element stands in what its pass runs over, whatever the
** layouts; on the device under test, and with a GPU's kernels, emulated. */
#include "tests/doubles/emulated_device.h"
#include "tests/arrays/expr/scoped.h"

static int open_emulated(void **state) {
    (void)state;
    rt = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}

#define SIZE ((size_t)1 << 17)
static int64_t got[SIZE];
static void take(tide_array *a, int64_t n) {
    assert_array(a);
    assert_int_equal(tide_array_dtype(a), TIDE_I64);
    assert_int_equal(tide_array_size(a), n);
    assert_ok(tide_to_host(a, got, (size_t)n * 8));
}

/* Arrays of zeros of shape (3, 4, 5), lying differently. */
static tide_array *lying(int how) {
    static const int back[3][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    static const int64_t there[3][3] = {{3, 4, 5}, {5, 4, 3}, {5, 3, 4}};
    tide_array *a = tide_zeros(rt, TIDE_I64, 3, there[how % 3]);
    a = tide_transpose(a, back[how % 3]);
    if (how == 3) a = tide_slice(tide_zeros(rt, TIDE_I64, SHAPE(3, 8, 5)), ":, ::-2, ::-1");
    if (how == 4) a = tide_broadcast_to(tide_zeros(rt, TIDE_I64, SHAPE(4, 1)), SHAPE(3, 4, 5));
    assert_true(a && tide_array_ndim(a) == 3 && tide_array_size(a) == 60);
    return a;
}

static void positions_are_those_of_the_result(void **state) {
    (void)state;
    if (!rt) skip();
    for (int how = 0; how < 5; how++) {
        take(tide_map(rt, "(x) -> x + index(0)*100 + index(1)*10 + index(-1)", lying(how)), 60);
        for (int64_t i = 0; i < 60; i++)
            assert_int_equal(got[i], i / 20 * 100 + i / 5 % 4 * 10 + i % 5);
        /* the first and the last axis by both names */
        take(tide_map(rt, "(x) -> x + index(-3)*100 + index(-2)*10 + index(2)", lying(how)), 60);
        for (int64_t i = 0; i < 60; i++)
            assert_int_equal(got[i], i / 20 * 100 + i / 5 % 4 * 10 + i % 5);
    }
    /* written through a view that is turned, and from operands that stretch */
    tide_array *to = tide_zeros(rt, TIDE_I64, SHAPE(5, 4));
    assert_ok(tide_map_into(tide_transpose(to, NULL), "(x, y) -> 10*index(0) + index(1) + x + y",
                            tide_zeros(rt, TIDE_I64, SHAPE(4, 1)),
                            tide_zeros(rt, TIDE_I64, SHAPE(5))));
    take(to, 20);
    for (int64_t i = 0; i < 20; i++) assert_int_equal(got[i], i % 4 * 10 + i / 4);
}

static void positions_in_a_fold_are_those_of_its_body(void **state) {
    (void)state;
    if (!rt) skip();
    static const char *const texts[] = {
        "(x) -> sum(x + index(0)*100 + index(1)*10 + index(2), axis=0)",
        "(x) -> sum(x + index(0)*100 + index(1)*10 + index(2), axis=1)",
        "(x) -> sum(x + index(0)*100 + index(1)*10 + index(2), axis=2)"};
    static const int64_t dim[3] = {3, 4, 5};
    for (int how = 0; how < 5; how++)
        for (int axis = 0; axis < 3; axis++) {
            int64_t want[20] = {0}, n = 0;
            for (int64_t i = 0; i < 60; i++) {
                const int64_t at[3] = {i / 20, i / 5 % 4, i % 5};
                int64_t k = 0;
                for (int d = 0; d < 3; d++)
                    if (d != axis) k = k * dim[d] + at[d];
                want[k] += at[0] * 100 + at[1] * 10 + at[2];
                if (k >= n) n = k + 1;
            }
            take(tide_map(rt, texts[axis], lying(how)), n);
            for (int64_t k = 0; k < n; k++) assert_int_equal(got[k], want[k]);
        }
}

/* Each result has its own shape, and each pass its own space. */
static void each_pass_has_its_own_positions(void **state) {
    (void)state;
    if (!rt) skip();
    tide_array *x = tide_zeros(rt, TIDE_I64, SHAPE(3, 4)), *y = tide_zeros(rt, TIDE_I64, SHAPE(4)),
               *outs[3];
    assert_ok(tide_map_many(rt, outs, 3,
                            "(x, y) -> (y + index(0), x + y + index(0), "
                            "sum(x + index(0), axis=0) + index(0))",
                            x, y));
    take(outs[0], 4);
    for (int64_t i = 0; i < 4; i++) assert_int_equal(got[i], i);
    take(outs[1], 12);
    for (int64_t i = 0; i < 12; i++) assert_int_equal(got[i], i / 4);
    take(outs[2], 4);
    for (int64_t i = 0; i < 4; i++) assert_int_equal(got[i], 3 + i);
}

static void positions_of_many_elements(void **state) {
    (void)state;
    if (!rt) skip();
    const int64_t n = 70001;
    take(tide_map(rt, "(x) -> x + index(0)", tide_zeros(rt, TIDE_I64, 1, &n)), n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(got[i], i);
    take(tide_map(rt, "(x) -> argmax(where(index(0) == 65537, 1, x))",
                  tide_zeros(rt, TIDE_I64, 1, &n)),
         1);
    assert_int_equal(got[0], 65537);
    take(tide_map(rt, "(x) -> x + index(0)*1000 + index(1)",
                  tide_zeros(rt, TIDE_I64, SHAPE(257, 301))),
         257 * 301);
    for (int64_t i = 0; i < 257 * 301; i++) assert_int_equal(got[i], i / 301 * 1000 + i % 301);
}

static void a_position_is_an_i64_array_like_others(void **state) {
    (void)state;
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(2, 3));
    tide_array *y = tide_map(rt, "(x) -> where(index(0) <= index(1), x, 0)", x); /* triu */
    assert_int_equal(tide_array_dtype(y), TIDE_F32);
    float v[6];
    assert_ok(tide_to_host(y, v, sizeof v));
    assert_true(v[0] == 1 && v[2] == 1 && v[3] == 0 && v[4] == 1);
    assert_int_equal(tide_array_dtype(tide_map(rt, "(x) -> u8(x) + index(-1)", x)), TIDE_I64);
    assert_true(tide_item_f64(tide_map(rt, "(index) -> sum(index + index(0)*0)", x)) == 6);
}

static void what_has_no_such_axis_is_refused(void **state) {
    (void)state;
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(4));
    assert_null(tide_map(rt, "(x) -> x + index(1)", x));
    assert_error(TIDE_E_BOUNDS, "column 12: axis 1 of an array with 1 dimension");
    assert_null(tide_map(rt, "() -> index(0)"));
    assert_error(TIDE_E_BOUNDS, "axis 0 of an array with 0 dimensions");
    assert_null(tide_map(rt, "(x) -> sum(x*index(-2))", x));
    assert_error(TIDE_E_BOUNDS, "column 14: axis -2");
    assert_null(tide_map(rt, "(x) -> x + index(x)", x));
    assert_error(TIDE_E_PARSE, "expected an axis");
    assert_null(tide_map(rt, "(x) -> x + index(9)", x));
    assert_error(TIDE_E_PARSE, "an axis lies in");
    assert_null(tide_map(rt, "(x) -> x + index", x));
    assert_error(TIDE_E_PARSE, "\"index\" is a function");
    /* a destination is not written when a later result is refused */
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(4)), *b = tide_zeros(rt, TIDE_F32, SHAPE(4));
    tide_expr *e = tide_expr_new(rt, "(x) -> (x + sum(x), x + f32(index(3)))");
    const tide_arg arg = tide_arg_array(x);
    tide_status s = tide_expr_apply_into((tide_array *[]){a, b}, 2, e, &arg, 1);
    assert_int_equal(s, TIDE_E_BOUNDS);
    tide_expr_release(e);
    assert_true(tide_item_f64(tide_sum(a, NULL, 0, 0)) == 0);
}

/* A part of an expression that is stored because it is too large stands in a pass of its own; one
** with positions cannot. */
static void large_expressions_keep_their_positions(void **state) {
    (void)state;
    tide_array *x = tide_ones(rt, TIDE_I64, SHAPE(4)), *y = tide_ones(rt, TIDE_I64, SHAPE(3, 4));
    char *s = malloc(1 << 16), *p = s;
    if (!s) abort();
    p += sprintf(p, "(x, y) -> (y*0 + index(0)) + x*0");
    for (int i = 0; i < 400; i++) p += sprintf(p, "%s(x ^ %d)", i % 2 ? " - " : " + ", i % 64);
    /* the sum is one chain over its first term */
    assert_null(tide_map_args(rt, s, (tide_arg[]){tide_arg_array(x), tide_arg_array(y)}, 2));
    assert_error(TIDE_E_UNSUPPORTED, "what holds index() is too large for one pass");
    p = s + sprintf(s, "(x, y) -> let a = x*0");
    for (int i = 0; i < 400; i++) p += sprintf(p, "%s(x ^ %d)", i % 2 ? " - " : " + ", i % 64);
    sprintf(p, "; a*0 + y*0 + index(0)*10 + index(1)");
    take(tide_map_args(rt, s, (tide_arg[]){tide_arg_array(x), tide_arg_array(y)}, 2), 12);
    for (int64_t i = 0; i < 12; i++) assert_int_equal(got[i], i / 4 * 10 + i % 4);
    free(s);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(positions_are_those_of_the_result),
        CASE(positions_in_a_fold_are_those_of_its_body),
        CASE(each_pass_has_its_own_positions),
        CASE(positions_of_many_elements),
        CASE(a_position_is_an_i64_array_like_others),
        CASE(what_has_no_such_axis_is_refused),
        CASE(large_expressions_keep_their_positions),
    };
    const struct CMUnitTest again[] = {
        cmocka_unit_test(positions_are_those_of_the_result),
        cmocka_unit_test(positions_in_a_fold_are_those_of_its_body),
        cmocka_unit_test(each_pass_has_its_own_positions),
        cmocka_unit_test(positions_of_many_elements),
    };
    int failed = cmocka_run_group_tests_name("here", tests, open_rt, close_rt);
    return failed + cmocka_run_group_tests_name("emulated", again, open_emulated, close_rt);
}
