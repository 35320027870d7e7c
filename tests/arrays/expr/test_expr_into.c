/* test_expr_into.c: results that go into arrays that are there: of another type or layout, operands
** themselves, several at once; what is refused writes nothing. */
#include "tests/arrays/expr/holds.h"

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

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(results_go_into_an_array_that_is_there),
        CASE(a_destination_may_be_an_operand),
        CASE(several_destinations_are_written_at_once),
        CASE(what_is_refused_writes_nothing),
    };
    return cmocka_run_group_tests(tests, open_rt, close_rt);
}
