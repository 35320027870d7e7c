/* test_format.c: exact texts of printed arrays, as NumPy 2 gives them. */
#include <limits.h>
#include <locale.h>
#include <math.h>

#include "tests/support/tidetest.h"

static int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static void prints(tide_array *a, const char *want) {
    static char text[16384];
    assert_array(a);
    size_t n = tide_array_text(a, text, sizeof text);
    if (strcmp(text, want) != 0) fail_msg("wanted\n%s\ngot\n%s", want, text);
    assert_int_equal(n, strlen(want));
}
#define F64(rt, ...)                                                                               \
    tide_from_host(rt, TIDE_F64, SHAPE(TIDEI_COUNT(((double[]){__VA_ARGS__}))),                    \
                   (double[]){__VA_ARGS__})
#define F32(rt, ...) tide_cast(F64(rt, __VA_ARGS__), TIDE_F32)
#define F16(rt, ...) tide_cast(F64(rt, __VA_ARGS__), TIDE_F16)

static void integers_and_bools_align(void **state) {
    tide_runtime *rt = *state;
    prints(tide_reshape(tide_arange(rt, TIDE_I32, -5, 7, 1), SHAPE(3, 4)),
           "[[-5 -4 -3 -2]\n [-1  0  1  2]\n [ 3  4  5  6]]");
    prints(tide_reshape(tide_arange(rt, TIDE_I64, 0, 8, 1), SHAPE(2, 2, 2)),
           "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
    prints(tide_full(rt, TIDE_U64, SHAPE(2), tide_arg_uint(UINT64_MAX)),
           "[18446744073709551615 18446744073709551615]");
    prints(tide_cast(tide_arange(rt, TIDE_I8, 0, 2, 1), TIDE_BOOL), "[False  True]");
    prints(tide_reshape(tide_cast(tide_arange(rt, TIDE_I8, 0, 4, 1), TIDE_BOOL), SHAPE(2, 2)),
           "[[False  True]\n [ True  True]]");
    prints(tide_transpose(tide_reshape(tide_arange(rt, TIDE_I8, 0, 4, 1), SHAPE(2, 2)), NULL),
           "[[0 2]\n [1 3]]");
}

static void floats_have_the_digits_they_need(void **state) {
    tide_runtime *rt = *state;
    prints(F64(rt, 0, 1, 2), "[0. 1. 2.]");
    prints(F64(rt, 1, 2.5, 3.125), "[1.    2.5   3.125]");
    prints(F64(rt, -1.5, 10, 0.25), "[-1.5  10.    0.25]");
    prints(F64(rt, 1.0 / 3, 2.0 / 3), "[0.33333333 0.66666667]");
    prints(F64(rt, 0.1, 0.2, 0.1 + 0.2), "[0.1 0.2 0.3]");
    prints(F64(rt, -0.0, 0), "[-0.  0.]");
    prints(F64(rt, 3.141592653589793, 100), "[  3.14159265 100.        ]");
    prints(F64(rt, 99999999.0, 99999998.5), "[99999999.  99999998.5]");
    prints(F32(rt, 0.1, 0.3, 16.7), "[ 0.1  0.3 16.7]");
    prints(F32(rt, 1.0 / 3, 2), "[0.33333334 2.        ]");
    prints(F16(rt, 0.1, 999.5), "[9.998e-02 9.995e+02]");
    prints(F16(rt, 0.1, 2), "[0.1 2. ]");
    prints(tide_cast(F64(rt, 1.1, 2), TIDE_BF16), "[1.1 2. ]");
}

static void exponents_come_with_the_range(void **state) {
    tide_runtime *rt = *state;
    prints(F64(rt, 1e8, 1), "[1.e+08 1.e+00]");
    prints(F64(rt, 1e-5, 1e-5), "[1.e-05 1.e-05]");
    prints(F64(rt, 1, 1001), "[1.000e+00 1.001e+03]");
    prints(F64(rt, 1, 1000), "[   1. 1000.]");
    prints(F64(rt, 1e100, -1), "[ 1.e+100 -1.e+000]");
    prints(F64(rt, 5e-324, 1.7976931348623157e308), "[4.94065646e-324 1.79769313e+308]");
    prints(F64(rt, 1e9, 0, -0.0), "[ 1.e+09  0.e+00 -0.e+00]");
    prints(F32(rt, 1e6, 2.5), "[1.0e+06 2.5e+00]");
    /* true digits, no zeros */
    prints(F32(rt, 311.5053, 6783186400.0), "[3.1150531e+02 6.7831864e+09]");
    prints(F16(rt, 1000, 1), "[1.e+03 1.e+00]");
}

static void nan_and_inf_are_words(void **state) {
    tide_runtime *rt = *state;
    prints(F64(rt, NAN, 1, INFINITY), "[nan  1. inf]");
    prints(F64(rt, NAN, 1.25, -INFINITY), "[ nan 1.25 -inf]");
    prints(F64(rt, NAN, INFINITY), "[nan inf]");
    prints(F64(rt, INFINITY, -INFINITY), "[ inf -inf]");
    prints(F64(rt, 1e10, NAN), "[1.e+10    nan]");
}

static void complex_parts_align(void **state) {
    tide_runtime *rt = *state;
    const double z[] = {1, 2, 3.5, -4e10}, w[] = {1, 2, NAN, 0}, x[] = {0, 0, -1, 0.5};
    prints(tide_from_host(rt, TIDE_C128, SHAPE(2), z), "[1. +2.e+00j 3.5-4.e+10j]");
    prints(tide_from_host(rt, TIDE_C128, SHAPE(2), w), "[ 1.+2.j nan+0.j]");
    prints(tide_cast(tide_from_host(rt, TIDE_C128, SHAPE(2), x), TIDE_C64), "[ 0.+0.j  -1.+0.5j]");
}

static void a_lone_element_has_no_brackets(void **state) {
    tide_runtime *rt = *state;
    prints(tide_full(rt, TIDE_F64, 0, NULL, tide_arg_float(0.1)), "0.1");
    prints(tide_full(rt, TIDE_F64, 0, NULL, tide_arg_float(1.0 / 3)), "0.3333333333333333");
    prints(tide_full(rt, TIDE_F64, 0, NULL, tide_arg_float(3)), "3.0");
    prints(tide_full(rt, TIDE_F64, 0, NULL, tide_arg_float(1e16)), "1e+16");
    prints(tide_full(rt, TIDE_F64, 0, NULL, tide_arg_float(123456789012345.0)),
           "123456789012345.0");
    prints(tide_full(rt, TIDE_F32, 0, NULL, tide_arg_float(1234567)), "1.234567e+06");
    prints(tide_full(rt, TIDE_F64, 0, NULL, tide_arg_float(-INFINITY)), "-inf");
    prints(tide_full(rt, TIDE_I8, 0, NULL, tide_arg_int(-3)), "-3");
    prints(tide_full(rt, TIDE_BOOL, 0, NULL, tide_arg_bool(1)), "True");
    prints(tide_full(rt, TIDE_C128, 0, NULL, tide_arg_complex(1, 2)), "(1+2j)");
    prints(tide_full(rt, TIDE_C64, 0, NULL, tide_arg_complex(0, -2.5)), "-2.5j");
    prints(tide_full(rt, TIDE_C128, 0, NULL, tide_arg_complex(-0.5, NAN)), "(-0.5+nanj)");
}

static void empty_arrays_are_brackets(void **state) {
    prints(tide_zeros(*state, TIDE_F32, SHAPE(0)), "[]");
    prints(tide_zeros(*state, TIDE_F32, SHAPE(2, 0, 3)), "[]");
}

static void long_rows_wrap(void **state) {
    tide_runtime *rt = *state;
    prints(tide_arange(rt, TIDE_I32, 0, 40, 1),
           "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
           " 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]");
    prints(tide_reshape(tide_arange(rt, TIDE_F64, 0, 6.5, 0.25), SHAPE(2, 13)),
           "[[0.   0.25 0.5  0.75 1.   1.25 1.5  1.75 2.   2.25 2.5  2.75 3.  ]\n"
           " [3.25 3.5  3.75 4.   4.25 4.5  4.75 5.   5.25 5.5  5.75 6.   6.25]]");
    prints(tide_arange(rt, TIDE_F64, 0, 5, 0.25),
           "[0.   0.25 0.5  0.75 1.   1.25 1.5  1.75 2.   2.25 2.5  2.75 3.   3.25\n"
           " 3.5  3.75 4.   4.25 4.5  4.75]");
}

static void large_arrays_are_summarised(void **state) {
    tide_runtime *rt = *state;
    prints(tide_arange(rt, TIDE_I32, 0, 1001, 1), "[   0    1    2 ...  998  999 1000]");
    prints(tide_reshape(tide_arange(rt, TIDE_I32, 0, 2000, 1), SHAPE(40, 50)),
           "[[   0    1    2 ...   47   48   49]\n"
           " [  50   51   52 ...   97   98   99]\n"
           " [ 100  101  102 ...  147  148  149]\n"
           " ...\n"
           " [1850 1851 1852 ... 1897 1898 1899]\n"
           " [1900 1901 1902 ... 1947 1948 1949]\n"
           " [1950 1951 1952 ... 1997 1998 1999]]");
    prints(
        tide_transpose(tide_reshape(tide_arange(rt, TIDE_I32, 0, 2000, 1), SHAPE(2, 1000)), NULL),
        "[[   0 1000]\n [   1 1001]\n [   2 1002]\n ...\n [ 997 1997]\n [ 998 1998]\n [ 999 "
        "1999]]");
    prints(tide_broadcast_to(tide_zeros(rt, TIDE_F32, 0, NULL),
                             SHAPE((int64_t)1 << 40, 2)), /* never brought over whole */
           "[[0. 0.]\n [0. 0.]\n [0. 0.]\n ...\n [0. 0.]\n [0. 0.]\n [0. 0.]]");
    prints(
        tide_broadcast_to(tide_ones(rt, TIDE_I8, 0, NULL), SHAPE(7, 2, 100)),
        "[[[1 1 1 ... 1 1 1]\n  [1 1 1 ... 1 1 1]]\n\n [[1 1 1 ... 1 1 1]\n  [1 1 1 ... 1 1 1]]\n\n"
        " [[1 1 1 ... 1 1 1]\n  [1 1 1 ... 1 1 1]]\n\n ...\n\n [[1 1 1 ... 1 1 1]\n  [1 1 1 ... 1 "
        "1 1]]\n\n"
        " [[1 1 1 ... 1 1 1]\n  [1 1 1 ... 1 1 1]]\n\n [[1 1 1 ... 1 1 1]\n  [1 1 1 ... 1 1 1]]]");
}

static void the_length_is_told_whatever_the_room(void **state) {
    tide_array *a = tide_arange(*state, TIDE_I32, 0, 5, 1);
    char small[6] = "?????";
    assert_int_equal(tide_array_text(a, NULL, 0), 11);
    assert_int_equal(tide_array_text(a, NULL, 5), 11);
    assert_int_equal(tide_array_text_with(a, NULL, NULL, 5), 11);
    assert_int_equal(tide_array_text(a, small, sizeof small), 11);
    assert_string_equal(small, "[0 1 ");
    assert_int_equal(tide_array_text(a, small, 1), 11);
    assert_string_equal(small, "");
    tide_free(a);
    assert_int_equal(tide_array_text(a, small, sizeof small), 0);
    assert_error(TIDE_E_FREED, "freed");
}

/* ---- options ---- */

#define OPTIONS(...)                                                                               \
    &(tide_print_options) { .struct_size = sizeof(tide_print_options), __VA_ARGS__ }

static void prints_with(const tide_print_options *o, tide_array *a, const char *want) {
    static char text[16384];
    assert_array(a);
    size_t n = tide_array_text_with(a, o, text, sizeof text);
    if (strcmp(text, want) != 0) fail_msg("wanted\n%s\ngot\n%s", want, text);
    assert_int_equal(n, strlen(want));
}

static void precision_bounds_the_digits(void **state) {
    tide_array *a = F64(*state, 0.1, 0.123456789, 100.0 / 3);
    prints_with(NULL, a, "[ 0.1         0.12345679 33.33333333]");
    prints_with(OPTIONS(.precision = 0), a, "[ 0.1         0.12345679 33.33333333]");
    prints_with(OPTIONS(.precision = 3), a, "[ 0.1    0.123 33.333]");
    prints_with(OPTIONS(.precision = 12), a, "[ 0.1             0.123456789    33.333333333333]");
    prints_with(OPTIONS(.precision = TIDE_PRINT_NO_DIGITS), a, "[ 0.  0. 33.]");
    prints_with(OPTIONS(.precision = 2), F64(*state, 1e10, 1.5), "[1.0e+10 1.5e+00]");
    prints_with(OPTIONS(.precision = 2),
                tide_full(*state, TIDE_F64, 0, NULL, tide_arg_float(0.125)),
                "0.125"); /* in full, whatever the options */
}

static void float_modes_choose_the_form(void **state) {
    static const char *const want[4][4] = {
        [TIDE_PRINT_MAXPREC] = {"[1.5        0.25       0.33333333]", "[1.0e+10 1.5e+00]",
                                "[0.1 2. ]", "[ 1.5 +2.e+00j -0.25+1.e-03j]"},
        [TIDE_PRINT_MAXPREC_EQUAL] = {"[1.50000000 0.25000000 0.33333333]", "[1.0e+10 1.5e+00]",
                                      "[0.1 2.0]", "[ 1.50+2.e+00j -0.25+1.e-03j]"},
        [TIDE_PRINT_FIXED] = {"[1.50000000 0.25000000 0.33333333]",
                              "[1.00000000e+10 1.50000000e+00]", "[0.10000000 2.00000000]",
                              "[ 1.50000000+2.00000000e+00j -0.25000000+1.00000000e-03j]"},
        [TIDE_PRINT_UNIQUE] = {"[1.5                0.25               0.3333333333333333]",
                               "[1.0e+10 1.5e+00]", "[0.1 2. ]", "[ 1.5 +2.e+00j -0.25+1.e-03j]"},
    };
    const double z[] = {1.5, 2, -0.25, 1e-3};
    tide_runtime *rt = *state;
    for (int mode = 0; mode < 4; mode++) {
        const tide_print_options o = {.struct_size = sizeof o, .float_mode = mode};
        prints_with(&o, F64(rt, 1.5, 0.25, 1.0 / 3), want[mode][0]);
        prints_with(&o, F64(rt, 1e10, 1.5), want[mode][1]);
        prints_with(&o, F32(rt, 0.1, 2), want[mode][2]);
        prints_with(&o, tide_from_host(rt, TIDE_C128, SHAPE(2), z), want[mode][3]);
    }
    prints_with(OPTIONS(.float_mode = TIDE_PRINT_FIXED, .precision = 1),
                F64(rt, 9.96, 0.5, NAN, -INFINITY), "[10.0  0.5  nan -inf]");
    prints_with(OPTIONS(.float_mode = TIDE_PRINT_FIXED, .precision = 5), F64(rt, NAN, INFINITY),
                "[nan inf]");
    prints_with(OPTIONS(.float_mode = TIDE_PRINT_FIXED, .precision = 20), F64(rt, 0.1),
                "[0.10000000000000000555]"); /* true digits */
    prints_with(OPTIONS(.float_mode = TIDE_PRINT_FIXED, .precision = 10), F32(rt, 0.1, 2),
                "[0.1000000015 2.0000000000]");
    prints_with(OPTIONS(.float_mode = TIDE_PRINT_FIXED, .precision = 3), F64(rt, 5e-324),
                "[4.941e-324]");
    prints_with(OPTIONS(.float_mode = TIDE_PRINT_UNIQUE, .precision = 1), F64(rt, 0.123456789),
                "[0.123456789]");
}

static void suppress_small_prints_zeros(void **state) {
    tide_runtime *rt = *state;
    prints_with(OPTIONS(.suppress_small = 1), F64(rt, 1e-10, 1), "[0. 1.]");
    prints_with(OPTIONS(.suppress_small = 1, .float_mode = TIDE_PRINT_UNIQUE), F64(rt, 1e-10, 1),
                "[0.0000000001 1.          ]");
    prints_with(OPTIONS(.suppress_small = 1), F64(rt, 1e-5, 1000.5, 2),
                "[   0.00001 1000.5        2.     ]");
    prints_with(OPTIONS(.suppress_small = 1), F64(rt, 1e8, 1), "[1.e+08 1.e+00]");
}

/* The longest word: all digits of the smallest number, twice, and their rows. */
static void the_longest_words_fit(void **state) {
    const double least[] = {-0x1.fffffffffffffp-1022 / 2, -0x1.fffffffffffffp-1022 / 2};
    tide_array *a = tide_from_host(*state, TIDE_C128, SHAPE(1), least);
    const tide_print_options unique = {.struct_size = sizeof unique,
                                       .float_mode = TIDE_PRINT_UNIQUE,
                                       .suppress_small = 1},
                             fixed = {.struct_size = sizeof fixed,
                                      .float_mode = TIDE_PRINT_FIXED,
                                      .precision = 100};
    char text[2048];
    size_t n = tide_array_text_with(a, &unique, text, sizeof text);
    assert_int_equal(n, strlen(text));
    assert_true(n > 2 * 322);
    assert_memory_equal(text, "[-0.000", 7);
    assert_string_equal(text + n - 2, "j]");
    assert_int_equal(tide_array_text_with(a, &fixed, text, sizeof text), 2 * 108 + 3);
}

static void summary_options_say_when_and_how_much(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I64, 0, 12, 1), SHAPE(3, 4)), *b;
    prints_with(OPTIONS(.threshold = 11, .edge_items = 1), a, "[[ 0 ...  3]\n ...\n [ 8 ... 11]]");
    prints_with(OPTIONS(.threshold = 12, .edge_items = 1), a,
                "[[ 0  1  2  3]\n [ 4  5  6  7]\n [ 8  9 10 11]]");
    prints_with(OPTIONS(.threshold = 1, .edge_items = 2), tide_arange(rt, TIDE_I64, 0, 10, 1),
                "[0 1 ... 8 9]");
    prints_with(OPTIONS(.threshold = 1, .edge_items = INT_MAX), tide_arange(rt, TIDE_I64, 0, 4, 1),
                "[0 1 2 3]");
    b = tide_ones(rt, TIDE_I8, SHAPE(1001));
    prints_with(OPTIONS(.edge_items = 1), b, "[1 ... 1]");
    assert_int_equal(
        tide_array_text_with(b, OPTIONS(.threshold = INT64_MAX, .line_width = INT_MAX), NULL, 0),
        2 * 1001 + 1);
}

static void line_width_says_where_rows_wrap(void **state) {
    tide_runtime *rt = *state;
    prints_with(OPTIONS(.line_width = 20), tide_arange(rt, TIDE_I64, 0, 12, 1),
                "[ 0  1  2  3  4  5\n  6  7  8  9 10 11]");
    prints_with(OPTIONS(.line_width = 1), tide_arange(rt, TIDE_I64, 0, 3, 1), "[0\n 1\n 2]");
}

static void bad_options_are_refused(void **state) {
    static const struct {
        const char *want;
        tide_print_options o;
    } bad[] = {
        {"precision is -2; wanted: 1 to 100, 0 (for 8), or TIDE_PRINT_NO_DIGITS",
         {.precision = -2}},
        {"precision is 101", {.precision = 101}},
        {"float_mode is -1", {.float_mode = -1}},
        {"float_mode is 4", {.float_mode = 4}},
        {"threshold is -1", {.threshold = -1}},
        {"edge_items is -3", {.edge_items = -3}},
        {"line_width is -75", {.line_width = -75}},
        {"suppress_small is 2", {.suppress_small = 2}},
        {"suppress_small is -1", {.suppress_small = -1}},
    };
    tide_array *a = tide_ones(*state, TIDE_F32, SHAPE(2));
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        tide_print_options o = bad[i].o;
        char text[8] = "as it is", want[128];
        o.struct_size = sizeof o;
        assert_int_equal(tide_array_text_with(a, &o, text, sizeof text), 0);
        snprintf(want, sizeof want, "tide_print_options.%s", bad[i].want);
        assert_error(TIDE_E_INVALID, want);
        assert_string_equal(tide_error_last()->operation, "tide_array_text_with");
        assert_memory_equal(text, "as it is", sizeof text);
    }
}

/* The program's locale may write another point. */
static void the_point_is_a_point_in_every_locale(void **state) {
    char *old = setlocale(LC_NUMERIC, NULL), kept[64];
    snprintf(kept, sizeof kept, "%s", old);
    test_need_locale(setlocale(LC_NUMERIC, "de_DE.UTF-8"), "de_DE.UTF-8");
    prints(F64(*state, 1.0 / 3, 0.5, 1e-3), "[0.33333333 0.5        0.001     ]");
    prints(F64(*state, 1e-9, 1.5), "[1.0e-09 1.5e+00]");
    prints_with(OPTIONS(.float_mode = TIDE_PRINT_FIXED, .precision = 2), F64(*state, 0.5),
                "[0.50]");
    setlocale(LC_NUMERIC, kept);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(integers_and_bools_align),
        CASE(floats_have_the_digits_they_need),
        CASE(exponents_come_with_the_range),
        CASE(nan_and_inf_are_words),
        CASE(complex_parts_align),
        CASE(a_lone_element_has_no_brackets),
        CASE(empty_arrays_are_brackets),
        CASE(long_rows_wrap),
        CASE(large_arrays_are_summarised),
        CASE(the_length_is_told_whatever_the_room),
        CASE(precision_bounds_the_digits),
        CASE(float_modes_choose_the_form),
        CASE(suppress_small_prints_zeros),
        CASE(the_longest_words_fit),
        CASE(summary_options_say_when_and_how_much),
        CASE(line_width_says_where_rows_wrap),
        CASE(bad_options_are_refused),
        CASE(the_point_is_a_point_in_every_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
