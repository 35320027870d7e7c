/* test_take_rows.c: rows and columns of every length, element size and alignment, taken and put
** against a slow model: on the device, and by a GPU's kernels, emulated. take.c is compiled so that
** it cuts takes of more than 700 units into several launches, and calls offsets below 500 near. */
#include "arrays/make/take.h"
#undef TIDEI_TAKE_UNITS_MAX
#undef TIDEI_TAKE_NEAR
#define TIDEI_TAKE_UNITS_MAX 700
#define TIDEI_TAKE_NEAR      500
#include "arrays/make/take.c" /* in place of the library's */
#include "tests/arrays/elements.h"
#include "tests/doubles/emulated_device.h"
#include <tide/index.h>

static int open_runtime(void **state) {
    *state = test_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int open_emulated(void **state) {
    *state = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

/* A source of `rows` rows of `width` elements, the first `skip` elements of each left out: as an
** array, and as it is read. */
typedef struct table {
    tide_array *whole, *a;
    unsigned char *data;
    int64_t rows, width;
    size_t size;
} table;

static table make_table(tide_runtime *rt, tide_dtype t, int64_t rows, int64_t width, int64_t skip) {
    table x = {.rows = rows, .width = width, .size = tide_dtype_size(t)};
    const int64_t wide = width + skip;
    unsigned char *all = malloc((size_t)(rows * wide) * x.size);
    x.data = malloc((size_t)(rows * width) * x.size);
    for (size_t i = 0; i < (size_t)(rows * wide) * x.size; i++)
        all[i] = (unsigned char)random_below(256);
    for (int64_t r = 0; r < rows; r++)
        memcpy(x.data + (size_t)(r * width) * x.size, all + (size_t)(r * wide + skip) * x.size,
               (size_t)width * x.size);
    x.whole = tide_from_host(rt, t, 2, (int64_t[]){rows, wide}, all);
    x.a = tide_slicef(x.whole, ":, %d:", (int)skip);
    free(all);
    assert_array(x.a);
    return x;
}
static void end_table(table *x) {
    tide_free(x->a);
    tide_free(x->whole);
    free(x->data);
}

/* `n` places along an axis of `length`, every second element of an index array. */
static tide_array *make_places(tide_runtime *rt, tide_dtype t, int64_t n, int64_t length,
                               int64_t *places) {
    const size_t size = tide_dtype_size(t);
    unsigned char *all = calloc((size_t)(2 * n), size);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = random_below(length < 128 ? length : 128); /* which the least type holds */
        places[i] = v;
        if (tidei_dtype_kind(t) == TIDEI_KIND_INT && length <= 128 && random_below(2)) v -= length;
        assert_ok(tidei_encode(tide_arg_int(v), t, "test", all + (size_t)(2 * i) * size));
    }
    tide_array *whole = tide_from_host(rt, t, 1, (int64_t[]){2 * n}, all);
    tide_array *a = tide_slice(whole, "::2");
    free(all);
    tide_free(whole);
    assert_array(a);
    return a;
}

static void check_take(const table *x, tide_array *at, const int64_t *places, int64_t n, int axis) {
    const int64_t rows = axis ? x->rows : n, width = axis ? n : x->width;
    unsigned char *want = malloc((size_t)(rows * width) * x->size + 1);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < width; j++) {
            const int64_t from = axis ? r * x->width + places[j] : places[r] * x->width + j;
            memcpy(want + (size_t)(r * width + j) * x->size, x->data + (size_t)from * x->size,
                   x->size);
        }
    tide_array *got = tide_take(x->a, at, axis);
    has_bytes(got, want, (size_t)(rows * width) * x->size);
    tide_free(got);
    free(want);
}

static void rows_of_any_length_are_taken(void **state) {
    static const tide_dtype types[] = {TIDE_U8, TIDE_U16, TIDE_F32, TIDE_C64, TIDE_C128};
    static const tide_dtype indices[] = {TIDE_I64, TIDE_U8, TIDE_I32, TIDE_I16, TIDE_U32, TIDE_I8};
    static const int64_t widths[] = {1, 2, 3, 4, 7, 8, 12, 16, 17, 64, 100, 101, 333};
    tide_runtime *rt = *state;
    int64_t places[40];
    if (!rt) skip();
    for (size_t w = 0; w < TIDEI_COUNT(widths); w++)
        for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
            const int64_t skipped[] = {0, 1, 2, 3, 4, 8};
            const tide_dtype it = indices[(w + t) % TIDEI_COUNT(indices)];
            table x = make_table(rt, types[t], 13, widths[w], skipped[(w + 2 * t) % 6]);
            for (int axis = 0; axis < 2; axis++) {
                const int64_t n = 1 + random_below(40);
                tide_array *at = make_places(rt, it, n, axis ? widths[w] : 13, places);
                check_take(&x, at, places, n, axis);
                tide_free(at);
            }
            end_table(&x);
        }
}

/* Rows put at places that are named once or several times: the last value stays. And rows taken by
** two index arrays. */
static void rows_of_any_length_are_put(void **state) {
    static const tide_dtype types[] = {TIDE_U8, TIDE_U16, TIDE_F32, TIDE_C64, TIDE_C128};
    static const int64_t widths[] = {1, 3, 4, 16, 18, 64, 101};
    tide_runtime *rt = *state;
    enum { ROWS = 13, PUT = 9 };
    int64_t places[PUT];
    if (!rt) skip();
    for (size_t w = 0; w < TIDEI_COUNT(widths); w++)
        for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
            const int64_t skipped[] = {0, 1, 2, 4};
            table x = make_table(rt, types[t], ROWS, widths[w], skipped[(w + t) % 4]);
            table values = make_table(rt, types[t], PUT, widths[w], skipped[(w + 3 * t) % 4]);
            tide_array *at = make_places(rt, TIDE_I32, PUT, ROWS, places);
            const size_t row = (size_t)widths[w] * x.size;
            for (int i = 0; i < PUT; i++)
                memcpy(x.data + (size_t)places[i] * row, values.data + (size_t)i * row, row);
            const tide_pick picks[] = {tide_pick_array(at)};
            assert_ok(tide_index_put(x.a, 1, picks, values.a));
            has_bytes(x.a, x.data, ROWS * row);
            tide_array *lines = tide_expand_dims(x.a, 0); /* (1, ROWS, width) */
            const tide_pick two[] = {tide_pick_array(tide_zeros(rt, TIDE_U8, SHAPE(1))),
                                     tide_pick_array(at)};
            tide_array *taken = tide_index(lines, 2, two), *again = tide_take(x.a, at, 0);
            unsigned char *want = malloc(PUT * row);
            assert_ok(tide_to_host(again, want, PUT * row));
            has_bytes(taken, want, PUT * row);
            free(want);
            tide_free(two[0].value.array), tide_free(lines), tide_free(taken), tide_free(again);
            tide_free(at);
            end_table(&values), end_table(&x);
        }
}

/* Indices of two dimensions, along the middle one of three. */
static void an_axis_in_the_middle_is_taken_along(void **state) {
    tide_runtime *rt = *state;
    float data[5 * 7 * 6], want[5 * 2 * 3 * 6];
    const int32_t at[] = {6, 0, -1, 3, -7, 2};
    size_t n = 0;
    if (!rt) skip();
    for (int i = 0; i < 5 * 7 * 6; i++) data[i] = (float)i;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 6; k++)
            for (int j = 0; j < 6; j++) want[n++] = data[(i * 7 + (at[k] + 7) % 7) * 6 + j];
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(5, 7, 6), data),
               *i = tide_from_host(rt, TIDE_I32, SHAPE(2, 3), at), *got = tide_take(a, i, 1);
    has_bytes(got, want, sizeof want);
    tide_free(got), tide_free(i), tide_free(a);
}

/* One bad index among many rows: told, and read as the nearest valid one; all others are right. */
static void a_bad_index_among_many_is_told(void **state) {
    tide_runtime *rt = *state;
    enum { ROWS = 300, WIDTH = 6 };
    int16_t data[4 * WIDTH], got[ROWS * WIDTH];
    int64_t at[ROWS];
    if (!rt) skip();
    for (int i = 0; i < 4 * WIDTH; i++) data[i] = (int16_t)(100 + i);
    for (int i = 0; i < ROWS; i++) at[i] = i % 4;
    at[217] = 4;
    tide_array *a = tide_from_host(rt, TIDE_I16, SHAPE(4, WIDTH), data),
               *i = tide_from_host(rt, TIDE_I64, SHAPE(ROWS), at), *taken = tide_take(a, i, 0);
    assert_array(taken);
    assert_int_equal(tide_to_host(taken, got, sizeof got), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_take: index 4 is out of range for 4 elements");
    at[217] = 3;
    for (int k = 0; k < ROWS * WIDTH; k++)
        assert_int_equal(got[k], data[at[k / WIDTH] * WIDTH + k % WIDTH]);
    tide_free(taken), tide_free(i), tide_free(a);
}

/* Indices far out of range, of every type that holds them, near and far: told as they are, and read
** as the nearest valid ones. */
static void indices_beyond_all_bounds_are_told(void **state) {
    static const struct {
        tide_dtype t;
        int64_t bits;
        const char *told;
        int nearest;
    } cases[] = {{TIDE_I64, ((int64_t)1 << 32) + 1, "4294967297", 2},
                 {TIDE_I64, -((int64_t)1 << 32) - 1, "-4294967297", 0},
                 {TIDE_I64, INT64_MIN, "-9223372036854775808", 0},
                 {TIDE_I64, INT64_MAX, "9223372036854775807", 2},
                 {TIDE_I64, (int64_t)1 << 31, "2147483648", 2},
                 {TIDE_U64, -1, "18446744073709551615", 2},
                 {TIDE_U64, ((int64_t)1 << 32) + 1, "4294967297", 2},
                 {TIDE_U32, -1, "4294967295", 2},
                 {TIDE_U32, INT32_MIN, "2147483648", 2},
                 {TIDE_I32, INT32_MIN, "-2147483648", 0},
                 {TIDE_I32, INT32_MAX, "2147483647", 2},
                 {TIDE_U16, -1, "65535", 2},
                 {TIDE_I8, -4, "-4", 0},
                 {TIDE_U8, 3, "3", 2}};
    /* units, and words; near ones, and far ones */
    static const struct {
        tide_dtype t;
        int width;
    } rows[] = {{TIDE_U8, 1}, {TIDE_U8, 3}, {TIDE_U8, 40}, {TIDE_U8, 201}, {TIDE_C128, 201}};
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (size_t k = 0; k < TIDEI_COUNT(cases) * TIDEI_COUNT(rows); k++) {
        const size_t r = k % TIDEI_COUNT(rows), c = k / TIDEI_COUNT(rows),
                     size = tide_dtype_size(cases[c].t);
        table x = make_table(rt, rows[r].t, 3, rows[r].width, 0);
        const size_t width = (size_t)rows[r].width * x.size;
        unsigned char at[3 * 8] = {0}, got[3 * 201 * 16];
        char told[100];
        memcpy(at + size, &cases[c].bits, size); /* little-endian */
        tide_array *i = tide_from_host(rt, cases[c].t, SHAPE(3), at), *taken = tide_take(x.a, i, 0);
        assert_array(taken);
        assert_int_equal(tide_to_host(taken, got, 3 * width), TIDE_E_BOUNDS);
        snprintf(told, sizeof told, "tide_take: index %s is out of range for 3 elements",
                 cases[c].told);
        assert_error(TIDE_E_BOUNDS, told);
        for (size_t n = 0; n < 3; n++)
            assert_memory_equal(got + n * width,
                                x.data + (n == 1 ? (size_t)cases[c].nearest : 0) * width, width);
        tide_free(taken), tide_free(i);
        end_table(&x);
    }
}

int main(void) {
#define CASE(f)                                                                                    \
    cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime),                               \
        cmocka_unit_test_setup_teardown(f, open_emulated, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(rows_of_any_length_are_taken),         CASE(rows_of_any_length_are_put),
        CASE(an_axis_in_the_middle_is_taken_along), CASE(a_bad_index_among_many_is_told),
        CASE(indices_beyond_all_bounds_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
