/* test_array.c: arrays end to end: making, looking, views, copies, assignment, casts, death; and
** the failure loop. */
#include <inttypes.h>
#include <locale.h>
#include <math.h>

#include "tests/arrays/elements.h"

static int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static tide_array *of(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                      const void *data) {
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    assert_array(a);
    return a;
}
static tide_array *counting(tide_runtime *rt, tide_dtype t, int64_t n) { /* 0, 1, ... n-1 */
    tide_array *a = tide_arange(rt, t, 0, (double)n, 1);
    assert_array(a);
    return a;
}
static void has_shape(tide_array *a, int ndim, const int64_t *shape) {
    assert_array(a);
    assert_int_equal(tide_array_ndim(a), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(tide_array_dim(a, i), shape[i]);
}

/* ---- making and reading ---- */

static void arrays_are_made_of_every_type(void **state) {
    tide_runtime *rt = *state;
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        unsigned char one[16], zero[16] = {0}, got[6 * 16], given[6 * 16];
        size_t size = tide_dtype_size(t);
        assert_ok(tidei_encode(tide_arg_int(1), t, "test", one));
        tide_array *z = tide_zeros(rt, t, SHAPE(2, 3)), *o = tide_ones(rt, t, SHAPE(2, 3));
        assert_array(z);
        assert_array(o);
        assert_int_equal(tide_array_dtype(o), t);
        assert_ok(tide_to_host(z, got, 6 * size));
        for (int i = 0; i < 6; i++) assert_memory_equal(got + i * size, zero, size);
        assert_ok(tide_to_host(o, got, 6 * size));
        for (int i = 0; i < 6; i++) assert_memory_equal(got + i * size, one, size);
        for (size_t i = 0; i < 6 * size; i++)
            given[i] = t == TIDE_BOOL ? i & 1 : (unsigned char)(i * 37 + 11);
        has_bytes(of(rt, t, SHAPE(2, 3), given), given, 6 * size);
        has_bytes(tide_copy(of(rt, t, SHAPE(2, 3), given)), given, 6 * size);
        has_shape(tide_empty(rt, t, SHAPE(4, 0, 2)), SHAPE(4, 0, 2));
    }
}

/* Any byte but 0 is true, and one that is kept as such. */
static void any_byte_but_0_is_true(void **state) {
    tide_runtime *rt = *state;
    const unsigned char odd[] = {0, 1, 2, 255, 128, 0};
    tide_array *a = of(rt, TIDE_BOOL, SHAPE(6), odd),
               *b = of(rt, TIDE_BOOL, SHAPE(6), "\1\1\1\1\1\1");
    has_bytes(a, (unsigned char[]){0, 1, 1, 1, 1, 0}, 6);
    has_bytes(tide_map(rt, "(a, b) -> a == b", a, b), (unsigned char[]){0, 1, 1, 1, 1, 0}, 6);
    has_bytes(tide_map(rt, "(a) -> sum(a)", a), (int64_t[]){4}, 8);
    assert_int_equal(odd[2], 2); /* the caller's data are read only */
}

static void full_fills_with_a_number(void **state) {
    tide_runtime *rt = *state;
    HAS_I32(tide_full(rt, TIDE_I32, SHAPE(3), tide_arg_int(-7)), -7, -7, -7);
    HAS_F32(tide_full(rt, TIDE_F32, SHAPE(2), tide_arg_float(0.1)), 0.1f, 0.1f);
    HAS_F64(tide_full(rt, TIDE_C128, SHAPE(2), tide_arg_complex(1, -2)), 1, -2, 1, -2);
    assert_null(tide_full(rt, TIDE_U8, SHAPE(2), tide_arg_int(300)));
    assert_error(TIDE_E_DTYPE, "300 is out of the range of u8");
    assert_string_equal(tide_error_last()->operation, "tide_full");
    assert_null(tide_full(rt, TIDE_I64, SHAPE(2), tide_arg_float(0.5)));
    assert_error(TIDE_E_DTYPE, "0.5 has a fraction");
    assert_null(tide_zeros(rt, TIDE_F32, SHAPE(2, -3)));
    assert_error(TIDE_E_SHAPE, "(2, -3)");
    assert_null(tide_zeros(NULL, TIDE_F32, SHAPE(2)));
    assert_error(TIDE_E_INVALID, "runtime is NULL");
    assert_null(tide_zeros(rt, 42, SHAPE(2)));
    assert_error(TIDE_E_INVALID, "42");
    assert_null(tide_from_host(rt, TIDE_F32, SHAPE(2), NULL));
    assert_error(TIDE_E_INVALID, "data is NULL");
    assert_null(tide_empty(rt, TIDE_F64, SHAPE(INT64_MAX / 4, 4)));
    assert_error(TIDE_E_NOMEM, "16 EiB or more wanted by tide_empty");
    assert_null(tide_empty(rt, TIDE_F64, SHAPE((int64_t)1 << 50)));
    assert_error(TIDE_E_NOMEM, "");
}

static void arange_counts_in_steps(void **state) {
    tide_runtime *rt = *state;
    HAS_I32(tide_arange(rt, TIDE_I32, 2, 11, 3), 2, 5, 8);
    HAS_I32(tide_arange(rt, TIDE_I32, 5, -5, -4), 5, 1, -3);
    HAS_I32(tide_arange(rt, TIDE_I32, 0, 5, 1e300), 0); /* a step that is not taken fits any type */
    HAS_I32(tide_arange(rt, TIDE_I32, 5, -1e300, -1e308), 5);
    has_bytes(tide_arange(rt, TIDE_I64, -0x1p63, 0x1p63, 0x1p63), (int64_t[]){INT64_MIN, 0}, 16);
    has_bytes(tide_arange(rt, TIDE_I64, 0x1p62, -0x1p63 - 4096, -0x1.8p63),
              (int64_t[]){1ll << 62, INT64_MIN}, 16);
    HAS_F64(tide_arange(rt, TIDE_F64, 0, 1, 0.25), 0, 0.25, 0.5, 0.75);
    HAS_F32(tide_arange(rt, TIDE_F32, 1, 2, 0.3), 1, (float)(1 + 0.3), (float)(1 + 2 * 0.3),
            (float)(1 + 3 * 0.3));
    HAS_F32(tide_arange(rt, TIDE_C64, 0, 2, 1), 0, 0, 1, 0);
    HAS_F64(tide_arange(rt, TIDE_F64, -0x1.8p1023, 0x1.8p1023, 0x1p1023), -0x1.8p1023, -0x1p1022,
            0x1p1022); /* wider */
    has_shape(tide_arange(rt, TIDE_F64, -1.7e308, 1.7e308, 1e308), SHAPE(4));
    has_shape(tide_arange(rt, TIDE_F64, 1.7e308, -1.7e308, -1e308), SHAPE(4));
    assert_null(tide_arange(rt, TIDE_F64, -1.7e308, 1.7e308, 1));
    assert_error(TIDE_E_NOMEM, "16 EiB or more wanted by tide_arange");
    has_bytes(tide_arange(rt, TIDE_U64, 0x1p63, 0x1p63 + 8192, 4096),
              (uint64_t[]){1ull << 63, (1ull << 63) + 4096}, 16);
    has_bytes(tide_arange(rt, TIDE_BF16, 0, 3, 1), (uint16_t[]){0, 0x3f80, 0x4000}, 6);
    has_bytes(tide_arange(rt, TIDE_I8, -128, 128, 127), (int8_t[]){-128, -1, 126}, 3);
    has_shape(tide_arange(rt, TIDE_F32, 3, 3, 1), SHAPE(0));
    has_shape(tide_arange(rt, TIDE_F32, 3, 0, 1), SHAPE(0));
    assert_null(tide_arange(rt, TIDE_F32, 0, 1, 0));
    assert_error(TIDE_E_INVALID, "step is 0");
    assert_null(tide_arange(rt, TIDE_F32, 0, INFINITY, 1));
    assert_error(TIDE_E_INVALID, "finite");
    assert_null(tide_arange(rt, TIDE_I32, 0, 1, 0.5));
    assert_error(TIDE_E_DTYPE, "integers");
    assert_null(tide_arange(rt, TIDE_I8, 0, 300, 1));
    assert_error(TIDE_E_DTYPE, "299");
    assert_null(tide_arange(rt, TIDE_DTYPE_COUNT, 0, 2, 0)); /* the type first */
    assert_error(TIDE_E_INVALID, "15 is no element type");
    assert_null(tide_arange(rt, TIDE_BOOL, 0, 2, 1));
    assert_error(TIDE_E_DTYPE, "bool");
    assert_null(tide_arange(rt, TIDE_F64, 0, 1e300, 1));
    assert_error(TIDE_E_NOMEM, "16 EiB or more wanted by tide_arange");
}

static void item_gives_the_one_element(void **state) {
    tide_runtime *rt = *state;
    tide_arg v;
    assert_ok(tide_item(tide_full(rt, TIDE_U64, 0, NULL, tide_arg_uint(UINT64_MAX)), &v));
    assert_true(v.kind == TIDE_ARG_UINT && v.value.u == UINT64_MAX);
    assert_ok(tide_item(tide_full(rt, TIDE_I8, SHAPE(1, 1), tide_arg_int(-3)), &v));
    assert_true(v.kind == TIDE_ARG_INT && v.value.i == -3);
    assert_ok(tide_item(tide_full(rt, TIDE_BOOL, 0, NULL, tide_arg_bool(1)), &v));
    assert_true(v.kind == TIDE_ARG_BOOL && v.value.i == 1);
    assert_ok(tide_item(tide_full(rt, TIDE_C64, 0, NULL, tide_arg_complex(1.5, -2)), &v));
    assert_true(v.kind == TIDE_ARG_COMPLEX && v.value.c[0] == 1.5 && v.value.c[1] == -2);
    assert_true(tide_item_f64(tide_full(rt, TIDE_F16, 0, NULL, tide_arg_float(0.5))) == 0.5);
    assert_true(tide_item_f64(tide_full(rt, TIDE_I64, 0, NULL, tide_arg_int(-9))) == -9.0);
    assert_true(isnan(tide_item_f64(tide_zeros(rt, TIDE_C64, 0, NULL))));
    assert_error(TIDE_E_DTYPE, "complex");
    v.kind = 77;
    assert_int_equal(tide_item(tide_zeros(rt, TIDE_F32, SHAPE(3)), &v), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "(3,)");
    assert_int_equal(v.kind, 77);
    assert_true(isnan(tide_item_f64(tide_zeros(rt, TIDE_F32, SHAPE(0)))));
}

static void to_host_refuses_a_wrong_size(void **state) {
    tide_runtime *rt = *state;
    float buf[4] = {42};
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3));
    assert_int_equal(tide_to_host(a, buf, 16), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "12 bytes, not 16");
    assert_int_equal(tide_to_host(a, NULL, 12), TIDE_E_INVALID);
    assert_true(buf[0] == 42);
    assert_ok(tide_to_host(tide_zeros(rt, TIDE_F32, SHAPE(0)), NULL, 0));
}

static void an_array_tells_its_shape_and_type(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F64, SHAPE(2, 3, 4)), *t = tide_transpose(a, NULL);
    assert_ptr_equal(tide_array_runtime(a), rt);
    assert_int_equal(tide_array_dtype(a), TIDE_F64);
    assert_int_equal(tide_array_size(a), 24);
    assert_int_equal(tide_array_dim(a, -1), 4);
    assert_int_equal(tide_array_stride(a, 0), 12);
    assert_int_equal(tide_array_stride(t, -1), 12);
    assert_true(tide_array_is_contiguous(a));
    assert_false(tide_array_is_contiguous(t));
    assert_int_equal(tide_array_dim(a, 3), -1);
    assert_error(TIDE_E_BOUNDS, "axis 3");
    tide_error_clear();
    assert_int_equal(tide_array_ndim(NULL), -1);
    assert_error(TIDE_E_INVALID, "NULL");
    assert_int_equal(tide_array_size(NULL), -1);
    assert_int_equal(tide_array_dtype(NULL), -1);
    assert_null(tide_array_runtime(NULL));
}

/* ---- views ---- */

static void slices_share_memory(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(counting(rt, TIDE_I32, 12), SHAPE(3, 4));
    tide_array *v = tide_slice(a, "::-1, 1:3");
    has_shape(v, SHAPE(3, 2));
    HAS_I32(v, 9, 10, 5, 6, 1, 2);
    HAS_I32(tide_slice(v, "0"), 9, 10);
    HAS_I32(tide_slice(a, "..., 0"), 0, 4, 8);
    has_shape(tide_slice(a, "newaxis, ..., newaxis"), SHAPE(1, 3, 4, 1));
    HAS_I32(tide_slice(a, "-1, -1"), 11);
    HAS_I32(tide_slice_ranges(a, 1, &(tide_range){.start = 1, .kind = TIDE_RANGE_INDEX}), 4, 5, 6,
            7);
    assert_ok(tide_fill(v, tide_arg_int(0)));
    HAS_I32(a, 0, 0, 0, 3, 4, 0, 0, 7, 8, 0, 0, 11);
    assert_null(tide_slice(a, "0, x"));
    assert_error(TIDE_E_PARSE, "column 4");
    assert_string_equal(tide_error_last()->operation, "tide_slice");
    assert_null(tide_slice(a, "3"));
    assert_error(TIDE_E_BOUNDS, "index 3 of axis 0, which has 3 elements");
    assert_null(tide_slice(a, NULL));
    assert_error(TIDE_E_INVALID, "NULL");
}

static void ranges_slice_as_texts_do(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(counting(rt, TIDE_I32, 12), SHAPE(3, 4));
#define RANGES(...)                                                                                \
    tide_slice_ranges(a, TIDEI_COUNT(((tide_range[]){__VA_ARGS__})), (tide_range[]){__VA_ARGS__})
    HAS_I32(RANGES(tide_range_index(-1), tide_range_slice(TIDE_NONE, TIDE_NONE, -2)), 11, 9);
    HAS_I32(RANGES(tide_range_slice(1, TIDE_NONE, TIDE_NONE), tide_range_index(2)), 6, 10);
    HAS_I32(RANGES(tide_range_all(), tide_range_slice(-2, -1, TIDE_NONE)), 2, 6, 10);
    HAS_I32(RANGES(tide_range_ellipsis(), tide_range_index(0)), 0, 4, 8);
    has_shape(RANGES(tide_range_newaxis(), tide_range_ellipsis(), tide_range_newaxis()),
              SHAPE(1, 3, 4, 1));
    assert_null(RANGES(tide_range_slice(0, 1, 0)));
    assert_error(TIDE_E_INVALID, "the step of a range is 0 (axis 0)");
    assert_null(RANGES(tide_range_all(), tide_range_index(4)));
    assert_error(TIDE_E_BOUNDS, "index 4 of axis 1, which has 4 elements");
#undef RANGES
}

static void slicef_takes_numbers_for_its_format(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(counting(rt, TIDE_I32, 12), SHAPE(3, 4));
    const char *no_format = NULL;
    static char blanks[3000];
    int64_t from = 1, step = -2;
    HAS_I32(tide_slicef(a, "%" PRId64 ":, ::%" PRId64, from, step), 7, 5, 11, 9);
    HAS_I32(tide_slicef(a, "%d, %s", -1, "1:3"), 9, 10);
    HAS_I32(tide_slicef(a, "0"), 0, 1, 2, 3);
    /* around the room that it has at first, and far beyond */
    for (int width = 120; width < 140; width++) HAS_I32(tide_slicef(a, "1, %*d", width, 2), 6);
    HAS_I32(tide_slicef(a, "1, %*d", 100000, 3), 7);
    assert_null(tide_slicef(a, "%d, %s", 0, "x"));
    assert_error(TIDE_E_PARSE, "column 4: wanted a number, ':', '...' or 'newaxis', found 'x'\n"
                               "  0, x\n     ^");
    assert_string_equal(tide_error_last()->operation, "tide_slicef");
    memset(blanks, ' ', sizeof blanks - 1);
    assert_null(tide_slicef(a, "%s?", blanks));
    assert_error(TIDE_E_PARSE, "column 3000: ");
    assert_null(tide_slicef(a, "%d", 3));
    assert_error(TIDE_E_BOUNDS, "index 3 of axis 0, which has 3 elements");
    assert_string_equal(tide_error_last()->operation, "tide_slicef");
    assert_null(tide_slicef(a, no_format, 1));
    assert_error(TIDE_E_INVALID, "the format is NULL");
    assert_null(tide_slicef(a, "%ls", (const wchar_t[]){0x7fffffff, 0}));
    assert_error(TIDE_E_INVALID, "the format cannot be written: ");
}

/* The program's locale may group digits: "1.000". */
static void slicef_is_the_same_in_every_locale(void **state) {
    tide_array *a = counting(*state, TIDE_I32, 1200);
    char kept[64];
    snprintf(kept, sizeof kept, "%s", setlocale(LC_NUMERIC, NULL));
    test_need_locale(setlocale(LC_NUMERIC, "de_DE.UTF-8"), "de_DE.UTF-8");
    HAS_I32(tide_slicef(a, "%'d:%'d", 1000, 1002), 1000, 1001);
    setlocale(LC_NUMERIC, kept);
}

static void transpose_permutes_axes(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(counting(rt, TIDE_I32, 6), SHAPE(1, 2, 3));
    has_shape(tide_transpose(a, NULL), SHAPE(3, 2, 1));
    HAS_I32(tide_transpose(a, NULL), 0, 3, 1, 4, 2, 5);
    has_shape(tide_transpose(a, (int[]){-1, 0, 1}), SHAPE(3, 1, 2));
    assert_null(tide_transpose(a, (int[]){0, 0, 1}));
    assert_error(TIDE_E_INVALID, "axis 0 stands twice");
    assert_null(tide_transpose(a, (int[]){0, 1, 3}));
    assert_error(TIDE_E_BOUNDS, "axis 3");
    has_shape(tide_transpose(tide_zeros(rt, TIDE_F32, 0, NULL), NULL), 0, NULL);
}

static void reshape_is_a_view_where_it_can_be(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counting(rt, TIDE_I32, 6), *view = tide_reshape(a, SHAPE(2, -1));
    has_shape(view, SHAPE(2, 3));
    assert_ok(tide_fill(tide_slice(view, "1, 1"), tide_arg_int(-1)));
    HAS_I32(a, 0, 1, 2, 3, -1, 5); /* a view */
    tide_array *copy = tide_reshape(tide_transpose(view, NULL), SHAPE(6));
    HAS_I32(copy, 0, 3, 1, -1, 2, 5);
    assert_ok(tide_fill(copy, tide_arg_int(9)));
    HAS_I32(a, 0, 1, 2, 3, -1, 5); /* not a view */
    HAS_I32(tide_reshape(tide_slice(a, "::-1"), SHAPE(3, 2)), 5, -1, 3, 2, 1, 0);
    has_shape(tide_reshape(tide_zeros(rt, TIDE_F32, SHAPE(1, 1)), 0, NULL), 0, NULL);
    assert_null(tide_reshape(a, SHAPE(4, 2)));
    assert_error(TIDE_E_SHAPE, "(6,) with 6 elements does not reshape to (4, 2)");
    assert_null(tide_reshape(tide_slice(a, ":0"), SHAPE(0, INT64_MAX / 4, 2)));
    assert_error(TIDE_E_SHAPE, "(0, 2305843009213693951, 2) of i32 is 2^63 bytes or more");
}

static void axes_are_stretched_added_and_dropped(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counting(rt, TIDE_I32, 3), *b = tide_broadcast_to(a, SHAPE(2, 3));
    HAS_I32(b, 0, 1, 2, 0, 1, 2);
    HAS_I32(tide_copy(tide_transpose(b, NULL)), 0, 0, 1, 1, 2, 2);
    has_shape(tide_broadcast_to(tide_zeros(rt, TIDE_F32, 0, NULL), SHAPE(0, 5)), SHAPE(0, 5));
    assert_null(tide_broadcast_to(a, SHAPE(3, 2)));
    assert_error(TIDE_E_SHAPE, "(3,)");
    assert_null(tide_broadcast_to(b, SHAPE(3)));
    assert_error(TIDE_E_SHAPE, "(2, 3) does not stretch to (3,)");
    /* a view takes no memory: it is the shape */
    assert_null(tide_broadcast_to(a, SHAPE(INT64_MAX, 3)));
    assert_error(TIDE_E_SHAPE, "(9223372036854775807, 3) of i32 is 2^63 bytes or more");
    assert_null(tide_broadcast_to(a, SHAPE(INT64_MAX / 8, 3)));
    assert_error(TIDE_E_SHAPE, "(1152921504606846975, 3) of i32 is 2^63 bytes or more");
    assert_null(
        tide_broadcast_to(tide_broadcast_to(a, SHAPE(1 << 30, 3)), SHAPE((int64_t)1 << 50, 1, 3)));
    assert_error(TIDE_E_SHAPE, "(1073741824, 3) does not stretch to (1125899906842624, 1, 3)");
    /* nothing writes to it, and what is refused leaves it alone */
    assert_int_equal(tide_assign(b, a), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the destination is a stretched view: several");
    assert_int_equal(tide_fill(b, tide_arg_int(4)), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the destination is a stretched view: several");
    assert_int_equal(tide_memset(b, 0), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the destination is a stretched view: several");
    assert_int_equal(
        tide_memset(tide_broadcast_to(tide_zeros(rt, TIDE_C128, SHAPE(1)), SHAPE(2)), 0),
        TIDE_E_INVALID);
    HAS_I32(a, 0, 1, 2);
    /* what has no elements, or none twice, is not stretched */
    tide_array *row = tide_zeros(rt, TIDE_I32, SHAPE(1, 0)),
               *none = tide_broadcast_to(row, SHAPE(5, 0)),
               *once = tide_broadcast_to(a, SHAPE(1, 3));
    assert_ok(tide_assign(none, row));
    assert_ok(tide_fill(none, tide_arg_int(4)));
    assert_ok(tide_memset(none, 4));
    assert_ok(tide_map_into(none, "(x) -> x", none));
    assert_ok(tide_memset(once, 0));
    assert_ok(tide_assign(once, a));
    assert_ok(tide_fill(once, tide_arg_int(4)));
    HAS_I32(a, 4, 4, 4);
    has_shape(tide_expand_dims(a, 0), SHAPE(1, 3));
    has_shape(tide_expand_dims(a, -1), SHAPE(3, 1));
    has_shape(tide_squeeze(tide_expand_dims(a, 1), 1), SHAPE(3));
    assert_null(tide_expand_dims(a, 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_squeeze(a, 0));
    assert_error(TIDE_E_SHAPE, "axis 0 has 3 elements");
    assert_null(tide_expand_dims(tide_zeros(rt, TIDE_F32, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0));
    assert_error(TIDE_E_SHAPE, "8 dimensions");
}

/* ---- copies, casts, assignment ---- */

static void contiguous_copies_only_where_it_must(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(counting(rt, TIDE_I32, 4), SHAPE(2, 2)),
               *same = tide_contiguous(a);
    tide_array *turned = tide_contiguous(tide_transpose(a, NULL));
    assert_true(tide_array_is_contiguous(turned));
    HAS_I32(turned, 0, 2, 1, 3);
    assert_ok(tide_fill(tide_slice(a, "0, 1"), tide_arg_int(7)));
    HAS_I32(same, 0, 7, 2, 3);
    HAS_I32(turned, 0, 2, 1, 3);
}

static void casts_convert_every_value(void **state) {
    tide_runtime *rt = *state;
    const double f[] = {1.9, -1.9, NAN, 1e300, -1e300, -0.0, 255.5, INFINITY};
    tide_array *a = of(rt, TIDE_F64, SHAPE(8), f);
    has_bytes(tide_cast(a, TIDE_U8), (uint8_t[]){1, 0, 0, 255, 0, 0, 255, 255}, 8);
    HAS_I32(tide_cast(a, TIDE_I32), 1, -1, 0, INT32_MAX, INT32_MIN, 0, 255, INT32_MAX);
    has_bytes(tide_cast(a, TIDE_I64),
              (int64_t[]){1, -1, 0, INT64_MAX, INT64_MIN, 0, 255, INT64_MAX}, 64);
    has_bytes(tide_cast(a, TIDE_BOOL), (uint8_t[]){1, 1, 1, 1, 1, 0, 1, 1}, 8);
    const double ties[] = {1.0 + 0x1p-11, 1.0 + 0x1p-11 + 0x1p-40, 65520, 0x1p-25};
    tide_array *t = of(rt, TIDE_F64, SHAPE(4), ties);
    has_bytes(tide_cast(t, TIDE_F16), (uint16_t[]){0x3c00, 0x3c01, 0x7c00, 0}, 8);
    const double btie[] = {1.0 + 0x1p-8, 1.0 + 0x1p-8 + 0x1p-40, -3, 0};
    has_bytes(tide_cast(of(rt, TIDE_F64, SHAPE(4), btie), TIDE_BF16),
              (uint16_t[]){0x3f80, 0x3f81, 0xc040, 0}, 8);
    HAS_F32(tide_cast(counting(rt, TIDE_I32, 2), TIDE_C64), 0, 0, 1, 0);
    assert_null(tide_cast(tide_zeros(rt, TIDE_C64, SHAPE(2)), TIDE_F32));
    assert_error(TIDE_E_DTYPE, "c64 has no cast to f32");
    has_bytes(tide_cast(of(rt, TIDE_C64, SHAPE(2), (float[]){0, 0, 0, 2}), TIDE_BOOL),
              (uint8_t[]){0, 1}, 2);
    HAS_I32(tide_cast(tide_transpose(tide_reshape(counting(rt, TIDE_F32, 4), SHAPE(2, 2)), NULL),
                      TIDE_I32),
            0, 2, 1, 3);
    has_bytes(tide_cast(of(rt, TIDE_I32, SHAPE(3), (int32_t[]){-1, 256, 257}), TIDE_U8),
              (uint8_t[]){255, 0, 1}, 3);
}

static void assign_stretches_and_converts(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3));
    assert_ok(tide_assign(a, counting(rt, TIDE_I32, 3))); /* stretched and cast */
    HAS_F32(a, 0, 1, 2, 0, 1, 2);
    assert_ok(
        tide_assign(tide_slice(a, ":, ::2"), tide_full(rt, TIDE_BOOL, 0, NULL, tide_arg_bool(1))));
    HAS_F32(a, 1, 1, 1, 1, 1, 1);
    assert_int_equal(tide_assign(a, tide_zeros(rt, TIDE_F32, SHAPE(3, 2))), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "(2, 3)");
    assert_int_equal(tide_assign(a, tide_zeros(rt, TIDE_F32, SHAPE(4, 2, 3))), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "(4, 2, 3) does not stretch to the destination's (2, 3)");
    assert_int_equal(tide_assign(tide_slice(a, ":1"), a), TIDE_E_SHAPE);
    assert_int_equal(tide_assign(counting(rt, TIDE_I32, 3), a), TIDE_E_SHAPE);
    assert_int_equal(tide_assign(tide_zeros(rt, TIDE_I32, SHAPE(2, 3)), a), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "f32 into i32: float to integer; tide_cast first");
    assert_ok(tide_assign(a, a));
    HAS_F32(a, 1, 1, 1, 1, 1, 1);
}

/* A random stretch of `count` elements of n, some steps apart, forwards or backwards. */
static tide_range random_stretch(int64_t n, int64_t count) {
    int64_t most = count > 1 ? (n - 1) / (count - 1) : 3,
            step = 1 + random_below(most < 3 ? most : 3);
    int64_t first = random_below(n - (count - 1) * step), last = first + (count - 1) * step;
    if (random_below(2)) return (tide_range){first, last + 1, step, TIDE_RANGE_SLICE, 0};
    return (tide_range){last, first ? first - 1 : TIDE_NONE, -step, TIDE_RANGE_SLICE, 0};
}
static int64_t at(const tide_range *r, int64_t i) { return r->start + i * r->step; }

/* Overlapping parts of one array behave as if the source were copied first. */
static void assign_reads_before_it_writes(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < 150; round++) {
        enum { N = 24 };
        int32_t model[N], before[N];
        int64_t count = 1 + random_below(12);
        tide_range to = random_stretch(N, count), from = random_stretch(N, count);
        tide_array *a = counting(rt, TIDE_I32, N);
        for (int i = 0; i < N; i++) model[i] = before[i] = i;
        for (int64_t i = 0; i < count; i++) model[at(&to, i)] = before[at(&from, i)];
        tide_array *dst = tide_slice_ranges(a, 1, &to), *src = tide_slice_ranges(a, 1, &from);
        has_shape(dst, SHAPE(count));
        has_shape(src, SHAPE(count));
        assert_ok(tide_assign(dst, src));
        has_bytes(a, model, sizeof model);
        tide_release(dst), tide_release(src), tide_release(a);
    }
}

static void an_array_takes_its_own_transpose(void **state) {
    tide_array *a = tide_reshape(counting(*state, TIDE_I32, 9), SHAPE(3, 3));
    assert_ok(tide_assign(a, tide_transpose(a, NULL)));
    HAS_I32(a, 0, 3, 6, 1, 4, 7, 2, 5, 8);
}

static void fill_writes_a_views_elements(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_C64, SHAPE(2, 2)), *h = tide_zeros(rt, TIDE_F16, SHAPE(4));
    assert_ok(tide_fill(tide_slice(a, ":, 1"), tide_arg_complex(1, 2)));
    HAS_F32(a, 0, 0, 1, 2, 0, 0, 1, 2);
    assert_ok(tide_fill(tide_slice(h, "::-2"), tide_arg_float(1.5)));
    has_bytes(h, (uint16_t[]){0, 0x3e00, 0, 0x3e00}, 8);
    assert_int_equal(tide_fill(h, tide_arg_int(100000)), TIDE_E_DTYPE);
    assert_int_equal(tide_fill(h, tide_arg_array(a)), TIDE_E_INVALID);
}

/* Each byte of a view's elements and none beside them, whatever numbers they make. */
static void memset_writes_a_views_bytes_alone(void **state) {
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xa5, 0xff};
    tide_runtime *rt = *state;
    unsigned char want[24 * 16], got[24 * 16];
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (size_t k = 0; k < TIDEI_COUNT(values); k++) {
            size_t size = tide_dtype_size(t);
            int v = t == TIDE_BOOL ? values[k] != 0 : values[k],
                other = t == TIDE_BOOL ? !v : v ^ 0x11;
            tide_array *a = tide_empty(rt, t, SHAPE(4, 6));
            assert_ok(tide_memset(a, (unsigned char)other));
            tide_array *view = tide_slice(a, "::-2, 1::2"); /* rows 3 and 1 */
            assert_ok(tide_memset(view, values[k]));
            assert_ok(
                tide_memset(tide_broadcast_to(tide_slice(a, "0, 5"), SHAPE(1, 1)), values[k]));
            for (size_t i = 0; i < 24; i++) {
                bool in = (i / 6 % 2 == 1 && i % 2 == 1) || i == 5;
                memset(want + i * size, in ? v : other, size);
            }
            assert_ok(tide_to_host(a, got, 24 * size));
            assert_memory_equal(got, want, 24 * size);
            tide_free(view);
            tide_free(a);
        }
    tide_array *none = tide_zeros(rt, TIDE_F32, SHAPE(0, 3)),
               *one = tide_zeros(rt, TIDE_U16, 0, NULL);
    assert_ok(tide_memset(none, 1));
    assert_ok(tide_memset(one, 1));
    has_bytes(one, (uint16_t[]){0x0101}, 2);
    tide_free(one);
    assert_int_equal(tide_memset(one, 1), TIDE_E_FREED);
    tide_error_clear();
    assert_int_equal(tide_memset(NULL, 1), TIDE_E_INVALID);
    assert_string_equal(tide_error_last()->operation, "tide_memset");
}

static void empty_arrays_pass_everywhere(void **state) {
    tide_runtime *rt = *state;
    tide_array *e = tide_zeros(rt, TIDE_F32, SHAPE(0, 3));
    has_shape(tide_copy(e), SHAPE(0, 3));
    has_shape(tide_cast(e, TIDE_I8), SHAPE(0, 3));
    has_shape(tide_transpose(e, NULL), SHAPE(3, 0));
    has_shape(tide_reshape(e, SHAPE(2, 0, 7)), SHAPE(2, 0, 7));
    has_shape(tide_contiguous(tide_transpose(e, NULL)), SHAPE(3, 0));
    has_shape(tide_slice(tide_zeros(rt, TIDE_F32, SHAPE(5)), "5:2"), SHAPE(0));
    assert_ok(tide_fill(e, tide_arg_int(1)));
    assert_ok(tide_assign(e, tide_zeros(rt, TIDE_F32, SHAPE(3))));
    assert_ok(tide_assign(e, e));
    assert_int_equal(tide_array_size(e), 0);
    assert_true(tide_array_is_contiguous(e));
    assert_ok(tide_to_host(tide_transpose(e, NULL), NULL, 0));
}

static void an_error_passes_through_a_chain(void **state) {
    tide_array *a = tide_full(*state, TIDE_U8, SHAPE(2), tide_arg_int(-1));
    assert_null(a);
    assert_null(
        tide_transpose(tide_copy(tide_cast(tide_slice(tide_take(a, a, 0), "0"), TIDE_F32)), NULL));
    assert_int_equal(tide_assign(a, a), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "-1 is out of the range of u8");
    assert_string_equal(tide_error_last()->operation, "tide_full");
    tide_error_clear();
    assert_null(tide_copy(NULL));
    assert_error(TIDE_E_INVALID, "argument 1 is NULL");
    tide_free(NULL);
    tide_release(NULL);
}

/* ---- death ---- */

static void a_freed_array_is_gone_and_its_views_live(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counting(rt, TIDE_I32, 4), *v = tide_slice(a, "1:3");
    size_t live = test_stats(rt).live;
    assert_false(tide_array_is_freed(a));
    tide_free(a);
    tide_free(a);
    assert_true(tide_array_is_freed(a));
    assert_null(tide_copy(a));
    assert_error(TIDE_E_FREED, "freed");
    assert_int_equal(tide_array_ndim(a), -1);
    assert_error(TIDE_E_FREED, "freed");
    assert_null(tide_retain(a));
    HAS_I32(v, 1, 2); /* the view keeps the memory */
    assert_int_equal(test_stats(rt).live, live);
    tide_free(v);
    assert_int_equal(test_stats(rt).live, live - 16);
}

static void closing_frees_what_is_left(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    (void)state;
    tide_array *a = counting(rt, TIDE_I32, 4);
    tide_close(rt);
    assert_true(tide_array_is_freed(a));
    assert_null(tide_copy(a));
    assert_error(TIDE_E_CLOSED, "closed");
    tide_error_clear();
    assert_null(tide_retain(a));
    assert_error(TIDE_E_CLOSED, "closed");
    tide_free(a);
    tide_release(a);
}

static void note_death(void *user) {
    char **end = user;
    *(*end)++ = 'x';
}
struct order {
    int n, seen[4];
};
struct note {
    struct order *order;
    int id;
};
static void note_order(void *user) {
    struct note *n = user;
    n->order->seen[n->order->n++] = n->id;
}

static void on_death_calls_each_callback(void **state) {
    tide_runtime *rt = *state;
    struct order order = {0};
    struct note first = {&order, 1}, second = {&order, 2};
    char text[4] = "", *end = text;
    tide_array *a = counting(rt, TIDE_I32, 4), *b = counting(rt, TIDE_I32, 2);
    assert_ok(tide_array_on_death(a, note_order, &first));
    assert_ok(tide_array_on_death(a, note_order, &second));
    assert_ok(tide_array_on_death(b, note_death, &end));
    assert_int_equal(tide_array_on_death(a, NULL, NULL), TIDE_E_INVALID);
    tide_free(a);
    assert_int_equal(order.n, 0); /* not before a safe point */
    test_stats(rt);
    assert_int_equal(order.n, 2);
    assert_true(order.seen[0] == 1 && order.seen[1] == 2);
    assert_int_equal(tide_array_on_death(a, note_order, &first), TIDE_E_FREED);
    tide_free(b);
    test_stats(rt);
    assert_string_equal(text, "x");
}

/* ---- every allocation and every device call gets its turn to fail ---- */

static struct { uint64_t calls, fail_at; } host_hook;
static void *hook_alloc(void *user, size_t bytes) {
    (void)user;
    return ++host_hook.calls == host_hook.fail_at ? NULL : malloc(bytes);
}
static void hook_free(void *user, void *p) {
    (void)user;
    free(p);
}

static int deaths;
static void count_death(void *user) { ++*(int *)user; }

/* A walk through everything of this topic; the status of the first failure. */
static tide_status walk(tide_runtime *rt) {
    char text[256];
    tide_rng rng = {1, 0};
    int32_t host[12] = {0};
    tide_error_clear();
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I32, 0, 12, 1), SHAPE(3, 4));
    tide_array *t = tide_contiguous(tide_transpose(a, NULL)),
               *f = tide_cast(tide_slice(a, ":, ::-2"), TIDE_F16);
    tide_array *p = tide_take(a, tide_random_permutation(rt, &rng, 3), 0);
    tide_array *parts[] = {f, f}, *joined = tide_concat(parts, 2, 1);
    tide_array *n = tide_random_normal(rt, &rng, TIDE_F32, SHAPE(5));
    if (tide_error_last()->status != TIDE_OK) return tide_error_last()->status;
    tide_status s = tide_assign(tide_slice(a, "1:"), tide_slice(a, ":2"));
    if (s == TIDE_OK) s = tide_array_on_death(a, count_death, &deaths);
    if (s == TIDE_OK) s = tide_fill(tide_slice(t, "0"), tide_arg_int(1));
    if (s == TIDE_OK) s = tide_to_host(p, host, sizeof host);
    if (s == TIDE_OK && tide_array_text(joined, text, sizeof text) == 0)
        s = tide_error_last()->status;
    if (s == TIDE_OK && tide_array_text(n, text, sizeof text) == 0) s = tide_error_last()->status;
    return s;
}

static void walk_in_scope(tide_runtime *rt, tide_status *out) {
    if (tide_scope_begin(rt) != TIDE_OK) {
        *out = tide_error_last()->status;
        return;
    }
    *out = walk(rt);
    assert_ok(tide_scope_end(rt));
}

/* After a failure nothing is lost and everything works. */
static void check_after(tide_runtime *rt) {
    tide_status s;
    tide_runtime_figures after = test_stats(rt);
    assert_int_equal(after.live, 0);
    assert_int_equal(after.arrays, 0);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    walk_in_scope(rt, &s);
    assert_int_equal(s, TIDE_OK);
}

static void every_host_allocation_may_fail(void **state) {
    const tide_allocator hook = {.alloc = hook_alloc, .free = hook_free};
    uint64_t n = 0;
    (void)state;
    for (bool reached = true; reached;) {
        tide_status s;
        host_hook.fail_at = 0;
        tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .allocator = &hook});
        host_hook.calls = 0;
        host_hook.fail_at = ++n;
        walk_in_scope(rt, &s);
        reached = host_hook.calls >= n;
        host_hook.fail_at = 0;
        if (s != TIDE_OK && s != TIDE_E_HOST_NOMEM)
            fail_msg("allocation %d: %s", (int)n, tide_error_last()->message);
        check_after(rt);
        tide_close(rt);
    }
    assert_true(n > 30);
}

static void every_device_call_may_fail(void **state) {
    uint64_t n = 0;
    (void)state;
    for (bool reached = true; reached;) {
        tidei_device *inner, *device;
        tide_runtime *rt;
        tide_status s;
        assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = (size_t)64 << 20},
                                  &inner));
        assert_ok(tidei_fault_open(inner, &device));
        assert_ok(tidei_open_on(
            &(tide_config){.struct_size = sizeof(tide_config), .collector = "refcount"}, device,
            &rt));
        tidei_fault_set(device, TIDEI_FAULT_ANY, ++n, TIDE_E_DEVICE, false);
        uint64_t before = tidei_fault_calls(device, TIDEI_FAULT_ANY);
        walk_in_scope(rt, &s);
        reached = tidei_fault_calls(device, TIDEI_FAULT_ANY) - before >= n;
        tidei_fault_set(device, TIDEI_FAULT_ANY, 0, TIDE_OK, false);
        if (s != TIDE_OK && s != TIDE_E_DEVICE)
            fail_msg("call %d: %s", (int)n, tide_error_last()->message);
        check_after(rt);
        tide_close(rt);
    }
    assert_true(n > 15); /* about 20, some of them only where the device is slow to finish */
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(arrays_are_made_of_every_type),
        CASE(full_fills_with_a_number),
        CASE(any_byte_but_0_is_true),
        CASE(arange_counts_in_steps),
        CASE(item_gives_the_one_element),
        CASE(to_host_refuses_a_wrong_size),
        CASE(an_array_tells_its_shape_and_type),
        CASE(slices_share_memory),
        CASE(ranges_slice_as_texts_do),
        CASE(slicef_takes_numbers_for_its_format),
        CASE(slicef_is_the_same_in_every_locale),
        CASE(transpose_permutes_axes),
        CASE(reshape_is_a_view_where_it_can_be),
        CASE(axes_are_stretched_added_and_dropped),
        CASE(contiguous_copies_only_where_it_must),
        CASE(casts_convert_every_value),
        CASE(assign_stretches_and_converts),
        CASE(assign_reads_before_it_writes),
        CASE(an_array_takes_its_own_transpose),
        CASE(fill_writes_a_views_elements),
        CASE(memset_writes_a_views_bytes_alone),
        CASE(empty_arrays_pass_everywhere),
        CASE(an_error_passes_through_a_chain),
        CASE(a_freed_array_is_gone_and_its_views_live),
        cmocka_unit_test(closing_frees_what_is_left),
        CASE(on_death_calls_each_callback),
        cmocka_unit_test(every_host_allocation_may_fail),
        cmocka_unit_test(every_device_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
