/* test_dtype.c: names, promotion against a written-out table, elements to and from arguments, f16
** and bf16. */
#include <float.h>
#include <math.h>

#include "tests/support/tidetest.h"
#include "tests/support/same_kind.h"

static void types_have_their_names_and_sizes(void **state) {
    static const char *const names[] = {"bool", "i8",  "i16",  "i32", "i64", "u8",  "u16", "u32",
                                        "u64",  "f16", "bf16", "f32", "f64", "c64", "c128"};
    static const size_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
    (void)state;
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        assert_string_equal(tide_dtype_name(t), names[t]);
        assert_int_equal(tide_dtype_size(t), sizes[t]);
    }
    assert_string_equal(tide_dtype_name(-1), "?");
    assert_string_equal(tide_dtype_name(TIDE_DTYPE_COUNT), "?");
    assert_int_equal(tide_dtype_size(99), 0);
}

/* Rows and columns in the order of the enumeration; "-" where there is no common type. */
static const char *const promotions[TIDE_DTYPE_COUNT] = {
    /* bool */ "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128",
    /* i8   */ "i8 i8 i16 i32 i64 i16 i32 i64 - f16 bf16 f32 f64 c64 c128",
    /* i16  */ "i16 i16 i16 i32 i64 i16 i32 i64 - f16 bf16 f32 f64 c64 c128",
    /* i32  */ "i32 i32 i32 i32 i64 i32 i32 i64 - f16 bf16 f32 f64 c64 c128",
    /* i64  */ "i64 i64 i64 i64 i64 i64 i64 i64 - f16 bf16 f32 f64 c64 c128",
    /* u8   */ "u8 i16 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128",
    /* u16  */ "u16 i32 i32 i32 i64 u16 u16 u32 u64 f16 bf16 f32 f64 c64 c128",
    /* u32  */ "u32 i64 i64 i64 i64 u32 u32 u32 u64 f16 bf16 f32 f64 c64 c128",
    /* u64  */ "u64 - - - - u64 u64 u64 u64 f16 bf16 f32 f64 c64 c128",
    /* f16  */ "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c64 c128",
    /* bf16 */ "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 c64 c128",
    /* f32  */ "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c128",
    /* f64  */ "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128",
    /* c64  */ "c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c128 c64 c128",
    /* c128 */ "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128",
};

static void types_are_promoted_as_the_table_says(void **state) {
    (void)state;
    for (tide_dtype a = 0; a < TIDE_DTYPE_COUNT; a++) {
        char row[128], *rest = row;
        snprintf(row, sizeof row, "%s", promotions[a]);
        for (tide_dtype b = 0; b < TIDE_DTYPE_COUNT; b++) {
            const char *want = strtok_r(rest, " ", &rest);
            tide_dtype got = -1;
            tide_status s = tidei_promote(a, b, "test", &got);
            if (strcmp(want, "-") == 0) {
                assert_int_equal(s, TIDE_E_DTYPE);
                assert_int_equal(got, -1);
                assert_error(TIDE_E_DTYPE, tide_dtype_name(a));
                assert_error(TIDE_E_DTYPE, tide_dtype_name(b));
            } else {
                assert_int_equal(s, TIDE_OK);
                if (strcmp(tide_dtype_name(got), want) != 0)
                    fail_msg("%s with %s: %s, not %s", tide_dtype_name(a), tide_dtype_name(b),
                             tide_dtype_name(got), want);
            }
        }
    }
}

static void same_kind_casts_are_those_of_numpy(void **state) {
    (void)state;
    for (tide_dtype a = 0; a < TIDE_DTYPE_COUNT; a++)
        for (tide_dtype b = 0; b < TIDE_DTYPE_COUNT; b++)
            if (!tidei_cast_lost(a, b) != (same_kind[a][b] == '1'))
                fail_msg("%s into %s", tide_dtype_name(a), tide_dtype_name(b));
    assert_string_equal(tidei_cast_lost(TIDE_I8, TIDE_U64), "signed to unsigned");
    assert_string_equal(tidei_cast_lost(TIDE_U8, TIDE_BOOL), "integer to bool");
    assert_string_equal(tidei_cast_lost(TIDE_BF16, TIDE_I64), "float to integer");
    assert_string_equal(tidei_cast_lost(TIDE_F16, TIDE_BOOL), "float to bool");
    assert_string_equal(tidei_cast_lost(TIDE_C64, TIDE_F64), "complex to float");
    assert_string_equal(tidei_cast_lost(TIDE_C128, TIDE_U8), "complex to integer");
}

/* The element comes back as the very argument that decoding gives for its kind. */
static void round_trip(tide_arg v, tide_dtype t) {
    unsigned char buf[16];
    assert_ok(tidei_encode(v, t, "test", buf));
    tide_arg w = tidei_decode(buf, t);
    assert_int_equal(w.kind, v.kind);
    assert_memory_equal(&w.value, &v.value, v.kind == TIDE_ARG_COMPLEX ? 16 : 8);
}
static void refused(tide_arg v, tide_dtype t, const char *part) {
    unsigned char buf[16];
    memset(buf, 0xa5, sizeof buf);
    assert_int_equal(tidei_encode(v, t, "test", buf), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, part);
    assert_error(TIDE_E_DTYPE, t == TIDE_BOOL ? "bool" : tide_dtype_name(t));
    for (size_t i = 0; i < sizeof buf; i++) assert_int_equal(buf[i], 0xa5);
}

static void integers_fit_up_to_their_limits(void **state) {
    static const tide_dtype s[] = {TIDE_I8, TIDE_I16, TIDE_I32, TIDE_I64},
                            u[] = {TIDE_U8, TIDE_U16, TIDE_U32, TIDE_U64};
    (void)state;
    for (int i = 0; i < 4; i++) {
        int64_t max = (int64_t)(INT64_MAX >> (64 - (8 << i)));
        uint64_t umax = UINT64_MAX >> (64 - (8 << i));
        round_trip(tide_arg_int(max), s[i]);
        round_trip(tide_arg_int(-max - 1), s[i]);
        round_trip(tide_arg_int(-1), s[i]);
        round_trip(tide_arg_uint(umax), u[i]);
        round_trip(tide_arg_uint(0), u[i]);
        refused(tide_arg_uint((uint64_t)max + 1), s[i], "out of the range");
        refused(tide_arg_int(-1), u[i], "-1");
        if (i < 3) {
            refused(tide_arg_int(-max - 2), s[i], "out of the range");
            refused(tide_arg_uint(umax + 1), u[i], "out of the range");
        }
    }
    refused(tide_arg_int(300), TIDE_U8, "300");
    refused(tide_arg_float(0x1p64), TIDE_U64, "out of the range");
    refused(tide_arg_float(0x1p63), TIDE_I64, "out of the range");
}

static void numbers_of_each_kind_meet_each_type(void **state) {
    unsigned char b[16];
    (void)state;
    round_trip(tide_arg_bool(1), TIDE_BOOL);
    refused(tide_arg_int(2), TIDE_BOOL, "2");
    refused(tide_arg_float(1.5), TIDE_I32, "fraction");
    refused(tide_arg_float(NAN), TIDE_I32, "nan");
    refused(tide_arg_float(-INFINITY), TIDE_U64, "-inf");
    refused(tide_arg_complex(1, 0), TIDE_F64, "complex");
    assert_ok(tidei_encode(tide_arg_float(-3.0), TIDE_I16, "test", b));
    assert_int_equal(tidei_decode(b, TIDE_I16).value.i, -3);
    assert_ok(tidei_encode(tide_arg_float(-0x1p63), TIDE_I64, "test", b));
    assert_true(tidei_decode(b, TIDE_I64).value.i == INT64_MIN);
    assert_ok(tidei_encode(tide_arg_bool(7), TIDE_F32, "test", b));
    assert_true(tidei_decode(b, TIDE_F32).value.f == 1.0);
    assert_ok(tidei_encode(tide_arg_int(-5), TIDE_C64, "test", b));
    assert_true(tidei_decode(b, TIDE_C64).value.c[0] == -5.0 &&
                tidei_decode(b, TIDE_C64).value.c[1] == 0.0);
    round_trip(tide_arg_complex(1.25, -0.5), TIDE_C64);
    round_trip(tide_arg_complex(1e300, -1e-300), TIDE_C128);
    round_trip(tide_arg_float(-0.0), TIDE_F16);
    assert_int_equal(tidei_encode((tide_arg){.kind = 77}, TIDE_F32, "test", b), TIDE_E_INVALID);
    assert_int_equal(tidei_encode(tide_arg_array(NULL), TIDE_F32, "test", b), TIDE_E_INVALID);
    assert_int_equal(tidei_encode(tide_arg_int(1), 15, "test", b), TIDE_E_INVALID);
}

static void floats_fit_up_to_their_range(void **state) {
    static const tide_dtype floats[] = {TIDE_F16, TIDE_BF16, TIDE_F32, TIDE_F64};
    (void)state;
    for (int i = 0; i < 4; i++) {
        unsigned char b[16];
        round_trip(tide_arg_float(INFINITY), floats[i]);
        round_trip(tide_arg_float(-INFINITY), floats[i]);
        assert_ok(tidei_encode(tide_arg_float(NAN), floats[i], "test", b));
        assert_true(isnan(tidei_decode(b, floats[i]).value.f));
    }
    round_trip(tide_arg_float(65504), TIDE_F16);
    refused(tide_arg_float(65520), TIDE_F16, "out of the range");
    refused(tide_arg_int(70000), TIDE_F16, "70000");
    refused(tide_arg_float(-1e39), TIDE_F32, "out of the range");
    refused(tide_arg_complex(0, 1e39), TIDE_C64, "1e+39");
}

static void f16_and_bf16_come_back_the_same(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        bool nan16 = (h & 0x7fff) > 0x7c00, nanb = (h & 0x7fff) > 0x7f80;
        if (nan16) {
            assert_true(isnan(tidei_f16_to_f32((uint16_t)h)));
            assert_true((tidei_f32_to_f16(tidei_f16_to_f32((uint16_t)h)) & 0x7fff) > 0x7c00);
        } else {
            assert_int_equal(tidei_f32_to_f16(tidei_f16_to_f32((uint16_t)h)), h);
            assert_int_equal(tidei_f64_to_f16(tidei_f16_to_f32((uint16_t)h)), h);
        }
        if (nanb) {
            assert_true(isnan(tidei_bf16_to_f32((uint16_t)h)));
            assert_true((tidei_f32_to_bf16(tidei_bf16_to_f32((uint16_t)h)) & 0x7fff) > 0x7f80);
        } else {
            assert_int_equal(tidei_f32_to_bf16(tidei_bf16_to_f32((uint16_t)h)), h);
            assert_int_equal(tidei_f64_to_bf16(tidei_bf16_to_f32((uint16_t)h)), h);
        }
    }
    assert_true(tidei_f16_to_f32(0x0001) == 0x1p-24f);
    assert_true(tidei_f16_to_f32(0x3c00) == 1.0f);
    assert_true(tidei_f16_to_f32(0xfbff) == -65504.0f);
    assert_true(tidei_bf16_to_f32(0x3f80) == 1.0f);
}

/* Between each two neighbours: below the middle goes down, above goes up, the middle to the even
** one. */
static void check_middles(uint16_t (*from64)(double), uint16_t (*from32)(float),
                          float (*to)(uint16_t), uint16_t infinity) {
    for (uint16_t h = 0; h + 1 < infinity; h++) {
        double lo = to(h), hi = to((uint16_t)(h + 1)), middle = lo + (hi - lo) / 2;
        uint16_t even = h & 1 ? (uint16_t)(h + 1) : h;
        assert_int_equal(from64(middle), even);
        assert_int_equal(from64(-middle), even | 0x8000);
        assert_int_equal(from64(nextafter(middle, 0)), h);
        assert_int_equal(from64(nextafter(middle, INFINITY)), h + 1);
        if ((double)(float)middle == middle) {
            assert_int_equal(from32((float)middle), even);
            assert_int_equal(from32(nextafterf((float)middle, 0)), h);
            assert_int_equal(from32(nextafterf((float)middle, INFINITY)), h + 1);
        }
    }
}
static void halves_round_to_even(void **state) {
    (void)state;
    check_middles(tidei_f64_to_f16, tidei_f32_to_f16, tidei_f16_to_f32, 0x7c00);
    check_middles(tidei_f64_to_bf16, tidei_f32_to_bf16, tidei_bf16_to_f32, 0x7f80);
    assert_int_equal(tidei_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(tidei_f32_to_f16(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(tidei_f64_to_bf16(-DBL_MAX), 0xff80);
    assert_int_equal(tidei_f64_to_f16(DBL_TRUE_MIN), 0);
    assert_int_equal(tidei_f64_to_bf16(-DBL_TRUE_MIN), 0x8000);
}

/* A 64-bit integer just above a tie must not be rounded to the tie on its way. */
static void integers_round_once(void **state) {
    unsigned char b[16];
    uint64_t above_tie = ((uint64_t)1 << 62) + ((uint64_t)1 << 54) + 1;
    (void)state;
    assert_ok(tidei_encode(tide_arg_uint(above_tie), TIDE_BF16, "test", b));
    assert_true(tidei_decode(b, TIDE_BF16).value.f == 0x1p62 + 0x1p55);
    assert_ok(tidei_encode(tide_arg_uint(above_tie - 1), TIDE_BF16, "test", b));
    assert_true(tidei_decode(b, TIDE_BF16).value.f == 0x1p62);
    assert_ok(tidei_encode(tide_arg_int(-(int64_t)(((uint64_t)1 << 62) + ((uint64_t)1 << 38) + 1)),
                           TIDE_F32, "test", b));
    assert_true(tidei_decode(b, TIDE_F32).value.f == -(0x1p62 + 0x1p39));
    assert_ok(tidei_encode(tide_arg_uint(UINT64_MAX), TIDE_F64, "test", b));
    assert_true(tidei_decode(b, TIDE_F64).value.f == 0x1p64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_their_names_and_sizes),
        cmocka_unit_test(types_are_promoted_as_the_table_says),
        cmocka_unit_test(same_kind_casts_are_those_of_numpy),
        cmocka_unit_test(integers_fit_up_to_their_limits),
        cmocka_unit_test(numbers_of_each_kind_meet_each_type),
        cmocka_unit_test(floats_fit_up_to_their_range),
        cmocka_unit_test(f16_and_bf16_come_back_the_same),
        cmocka_unit_test(halves_round_to_even),
        cmocka_unit_test(integers_round_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
