/* test_take_concat.c: elements by index arrays, and joining, against slow models; bad indices; the
** kernels' CUDA text. */
#include "tests/arrays/compiles.h"
#include "tests/arrays/elements.h"
#include "tests/doubles/emulated_device.h"
#include "tests/support/logged.h"

extern const char tidei_gather_text[];

static int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static int open_emulated(void **state) {
    *state = emulated_open(NULL);
    return 0;
}

/* ---- take ---- */

static void take_picks_rows_and_columns(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I32, 0, 12, 1), SHAPE(3, 4));
    tide_array *i = tide_from_host(rt, TIDE_I64, SHAPE(3), (int64_t[]){2, 0, -1});
    HAS_I32(tide_take(a, i, 0), 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11);
    HAS_I32(tide_take(a, i, -1), 2, 0, 3, 6, 4, 7, 10, 8, 11);
    HAS_I32(tide_take(tide_transpose(a, NULL), i, 1), 8, 0, 8, 9, 1, 9, 10, 2, 10, 11, 3, 11);
    tide_array *one =
        /* a 0-d index drops the axis */
        tide_take(a, tide_full(rt, TIDE_U8, 0, NULL, tide_arg_int(1)), 0);
    assert_int_equal(tide_array_ndim(one), 1);
    HAS_I32(one, 4, 5, 6, 7);
    tide_array *square =
        tide_take(a, tide_from_host(rt, TIDE_I16, SHAPE(2, 2), (int16_t[]){0, 1, 1, 2}), 0);
    assert_int_equal(tide_array_ndim(square), 3);
    assert_int_equal(tide_array_dim(square, 1), 2);
    assert_int_equal(tide_array_dim(square, 2), 4);
}

/* Every element size, every index type, strided sources and indices, one subscript at a time. */
static void take_agrees_with_the_model(void **state) {
    static const tide_dtype types[] = {TIDE_BOOL, TIDE_F16, TIDE_F32, TIDE_C64, TIDE_C128};
    static const tide_dtype indices[] = {TIDE_I8, TIDE_I16, TIDE_I32, TIDE_I64,
                                         TIDE_U8, TIDE_U16, TIDE_U32, TIDE_U64};
    tide_runtime *rt = *state;
    for (int round = 0; round < 120; round++) {
        tide_dtype t = types[round % 5], it = indices[round % 8];
        size_t size = tide_dtype_size(t);
        int64_t n[3] = {1 + random_below(4), 1 + random_below(4), 1 + random_below(4)},
                k = random_below(5);
        int axis = (int)random_below(3);
        unsigned char data[64 * 16], want[5 * 16 * 16], places[10][16];
        int64_t index[10];
        for (size_t b = 0; b < (size_t)(n[0] * n[1] * n[2]) * size; b++)
            data[b] = t == TIDE_BOOL ? b & 1 : (unsigned char)b * 7;
        for (int64_t i = 0; i < 2 * k; i++) {
            index[i] = random_below(n[axis]);
            if (tidei_dtype_kind(it) == TIDEI_KIND_INT && random_below(2)) index[i] -= n[axis];
            assert_ok(tidei_encode(tide_arg_int(index[i]), it, "test",
                                   &places[0][0] + (size_t)i * tide_dtype_size(it)));
        }
        tide_array *a = tide_from_host(rt, t, 3, n, data),
                   *all = tide_from_host(rt, it, 1, (int64_t[]){2 * k}, places);
        bool turned = random_below(2); /* the source upside down, every second index from the end */
        tide_array *source = turned ? tide_slice(a, "::-1, ..., ::-1") : a,
                   *at = turned ? tide_slice(all, "::-2") : tide_slice(all, ":");
        int64_t m = turned ? k : 2 * k, w = 0, r[3], dims[3] = {n[0], n[1], n[2]};
        if (m > 5) m = 5, at = tide_slice(at, ":5");
        dims[axis] = m;
        for (r[0] = 0; r[0] < dims[0]; r[0]++)
            for (r[1] = 0; r[1] < dims[1]; r[1]++)
                for (r[2] = 0; r[2] < dims[2]; r[2]++) {
                    int64_t p[3] = {r[0], r[1], r[2]},
                            v = index[turned ? 2 * k - 1 - 2 * r[axis] : r[axis]];
                    p[axis] = v < 0 ? v + n[axis] : v;
                    if (turned) p[0] = n[0] - 1 - p[0], p[2] = n[2] - 1 - p[2];
                    memcpy(want + (size_t)w++ * size,
                           data + (size_t)((p[0] * n[1] + p[1]) * n[2] + p[2]) * size, size);
                }
        has_bytes(tide_take(source, at, axis), want, (size_t)w * size);
    }
}

static void a_gpus_kernels_take_the_same(void **state) {
    if (!*state) skip();
    take_agrees_with_the_model(state);
}

static void take_tells_or_clips_a_bad_index(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 4, 1);
    int32_t got[4] = {0};
    const int32_t clipped[] = {3, 0, 1, 3};
    tide_array *t =
        tide_take(a, tide_from_host(rt, TIDE_I64, SHAPE(4), (int64_t[]){4, -5, 1, INT64_MAX}), 0);
    assert_array(t);
    /* said once, at the sync point */
    assert_int_equal(tide_to_host(t, got, sizeof got), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_take: index ");
    assert_error(TIDE_E_BOUNDS, " is out of range for 4 elements");
    assert_string_equal(tide_error_last()->operation, "tide_to_host");
    assert_memory_equal(got, clipped, sizeof got);
    assert_ok(tide_to_host(t, got, sizeof got));
}

/* The index is told as the index array has it. */
static void take_tells_the_index_as_it_was_given(void **state) {
    static const struct {
        tide_dtype t;
        uint64_t bits;
        const char *said;
    } rows[] = {{TIDE_U64, UINT64_MAX, "index 18446744073709551615 is"},
                {TIDE_I64, (uint64_t)-6, "index -6 is"},
                {TIDE_I64, 1ull << 62, "index 4611686018427387904 is"},
                {TIDE_I8, 0x85, "index -123 is"},
                {TIDE_U8, 0x85, "index 133 is"},
                {TIDE_U32, UINT32_MAX, "index 4294967295 is"},
                {TIDE_I32, 4, "index 4 is"}};
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 4, 1);
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        tide_array *t = tide_take(a, tide_from_host(rt, rows[i].t, SHAPE(1), &rows[i].bits), 0);
        assert_array(t);
        assert_int_equal(i % 2 ? tide_synchronize(rt, NULL) : tide_device_synchronize(rt),
                         TIDE_E_BOUNDS);
        assert_error(TIDE_E_BOUNDS, rows[i].said);
        assert_ok(tide_synchronize(rt, NULL));
        HAS_I32(t, strchr(rows[i].said, '-') ? 0 : 3);
    }
}

/* What a kernel found wrong stays apart from what the host does meanwhile: memory is still had, and
** where there is none the report is about memory; the next sync point tells the rest. */
static void t19_an_index_out_of_range_is_no_lack_of_memory(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .limit = "8MiB"});
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 4, 1),
               *i = tide_full(rt, TIDE_I32, SHAPE(1000), tide_arg_int(9));
    tide_array *t = tide_take(a, i, 0), *more = tide_zeros(rt, TIDE_U8, SHAPE(1 << 20));
    (void)state;
    assert_array(t);
    assert_array(more);
    assert_null(tide_zeros(rt, TIDE_U8, SHAPE(64 << 20))); /* climbs, and waits for the kernel */
    assert_error(TIDE_E_NOMEM, "out of memory");
    assert_null(strstr(tide_error_last()->message, "index"));
    tide_error_clear();
    assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_take: index 9 is out of range for 4 elements");
    tide_error_clear();
    assert_ok(tide_synchronize(rt, NULL));
    tide_release(more);
    assert_array(more = tide_zeros(rt, TIDE_U8, SHAPE(1 << 20)));
    tide_close(rt);
}

/* Sync points of several threads: one report each, however many find it. */
enum { LOOKERS = 4 };
static void *look_for_faults(void *p) {
    long told = 0;
    for (int n = test_quick() ? 200 : 2000; n; n--)
        if (tide_synchronize(p, NULL) == TIDE_E_BOUNDS) {
            told++;
            if (!strstr(tide_error_last()->message, "index 7 is out of range for 4 elements"))
                told = -1000000;
        }
    return (void *)told;
}
static void a_bad_index_is_told_once(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    pthread_t threads[LOOKERS];
    long told = 0, taken = 0;
    (void)state;
    for (int i = 0; i < LOOKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_for_faults, rt), 0);
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 4, 1),
               *at = tide_full(rt, TIDE_U8, SHAPE(3), tide_arg_int(7));
    for (; taken < 300; taken++) tide_release(tide_take(a, at, 0));
    for (int i = 0; i < LOOKERS; i++) {
        void *n;
        pthread_join(threads[i], &n);
        told += (long)n;
    }
    told += (long)look_for_faults(rt);
    assert_true(told >= 1 && told <= taken);
    tide_release(a);
    tide_release(at);
    tide_close(rt);
}

/* One that no sync point told is a warning at the end, and no error of tide_close's caller. */
static void closing_warns_of_a_bad_index(void **state) {
    logged.n = 0;
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.log = keep_line, .log_level = TIDE_LOG_WARNING});
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 4, 1);
    assert_array(tide_take(a, tide_full(rt, TIDE_I32, SHAPE(1), tide_arg_int(-5)), 0));
    tide_error_clear();
    tide_close(rt);
    assert_int_equal(
        lines_with(TIDE_LOG_WARNING, "tide_take: index -5 is out of range for 4 elements"), 1);
    assert_int_equal(tide_error_last()->status, TIDE_OK);
}

static void take_refuses_what_does_not_fit(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3)),
               *none = tide_zeros(rt, TIDE_I64, SHAPE(0));
    tide_array *i = tide_zeros(rt, TIDE_I64, SHAPE(2)),
               *empty = tide_zeros(rt, TIDE_F32, SHAPE(0, 3));
    assert_null(tide_take(a, tide_zeros(rt, TIDE_F32, SHAPE(2)), 0));
    assert_error(TIDE_E_DTYPE, "indices are f32");
    assert_null(tide_take(a, tide_zeros(rt, TIDE_BOOL, SHAPE(2)), 0));
    assert_error(TIDE_E_DTYPE, "bool");
    assert_null(tide_take(a, i, 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_take(tide_zeros(rt, TIDE_F32, 0, NULL), i, 0));
    assert_error(TIDE_E_BOUNDS, "axis 0");
    assert_null(tide_take(empty, i, 0));
    assert_error(TIDE_E_BOUNDS, "2 indices into axis 0, which has no elements");
    assert_null(tide_take(a, tide_zeros(rt, TIDE_I64, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0));
    assert_error(TIDE_E_SHAPE, "9 dimensions");
    assert_null(tide_take(a, NULL, 0));
    assert_int_equal(tide_array_dim(tide_take(a, none, 0), 0), 0);
    assert_int_equal(tide_array_dim(tide_take(empty, none, 0), 1), 3);
    assert_int_equal(tide_array_dim(tide_take(empty, i, 1), 1), 2);
}

/* ---- concat ---- */

static void concat_joins_along_an_axis(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I32, 0, 4, 1), SHAPE(2, 2));
    tide_array *row = tide_reshape(tide_arange(rt, TIDE_I32, 9, 7, -1), SHAPE(1, 2)),
               *none = tide_zeros(rt, TIDE_I32, SHAPE(0, 2));
    HAS_I32(tide_concat((tide_array *[]){a, none, row, a}, 4, 0), 0, 1, 2, 3, 9, 8, 0, 1, 2, 3);
    HAS_I32(tide_concat((tide_array *[]){a, tide_transpose(a, NULL)}, 2, -1), 0, 1, 0, 2, 2, 3, 1,
            3);
    HAS_I32(tide_concat((tide_array *[]){tide_slice(a, ":, ::-1")}, 1, 0), 1, 0, 3, 2);
    assert_int_equal(tide_array_size(tide_concat((tide_array *[]){none, none}, 2, 0)), 0);
}

static void concat_promotes(void **state) {
    tide_runtime *rt = *state;
    tide_array *parts[] = {tide_ones(rt, TIDE_BOOL, SHAPE(1)),
                           tide_full(rt, TIDE_I8, SHAPE(1), tide_arg_int(-2)),
                           tide_full(rt, TIDE_U8, SHAPE(1), tide_arg_int(200)),
                           tide_full(rt, TIDE_F32, SHAPE(1), tide_arg_float(0.5))};
    tide_array *small = tide_concat(parts, 3, 0), *all = tide_concat(parts, 4, 0);
    assert_int_equal(tide_array_dtype(small), TIDE_I16);
    has_bytes(small, (int16_t[]){1, -2, 200}, 6);
    assert_int_equal(tide_array_dtype(all), TIDE_F32);
    has_bytes(all, (float[]){1, -2, 200, 0.5f}, 16);
}

static void concat_refuses_what_does_not_fit(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3)),
               *b = tide_zeros(rt, TIDE_F32, SHAPE(3, 2));
    tide_array *i = tide_zeros(rt, TIDE_I64, SHAPE(1)), *u = tide_zeros(rt, TIDE_U64, SHAPE(1)),
               *zero = tide_zeros(rt, TIDE_F32, 0, NULL);
    assert_null(tide_concat((tide_array *[]){a, b}, 2, 0));
    assert_error(TIDE_E_SHAPE, "array 1 has shape (3, 2), which does not join (2, 3) along axis 0");
    assert_null(tide_concat((tide_array *[]){a, i}, 2, 0));
    assert_error(TIDE_E_SHAPE, "(1,)");
    assert_null(tide_concat((tide_array *[]){i, u}, 2, 0));
    assert_error(TIDE_E_DTYPE, "no common type");
    assert_null(tide_concat((tide_array *[]){zero, zero}, 2, 0));
    assert_error(TIDE_E_BOUNDS, "0 dimensions");
    assert_null(tide_concat(NULL, 0, 0));
    assert_error(TIDE_E_INVALID, "no arrays");
    assert_null(tide_concat((tide_array *[]){a, NULL}, 2, 0));
    tide_free(b);
    assert_null(tide_concat((tide_array *[]){a, b}, 2, 0));
    assert_error(TIDE_E_FREED, "freed");
}

/* Arrays of two runtimes do not meet, and the message says so, whatever their devices. */
static void arrays_of_two_runtimes_do_not_meet(void **state) {
    tide_runtime *rt = *state, *other = test_open(NULL);
    const int64_t zero = 0;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3)), *b = tide_zeros(other, TIDE_F32, SHAPE(3)),
               *i = tide_from_host(other, TIDE_I64, SHAPE(1), &zero);
    tide_use_scope *scope;
    void *p;
    assert_null(tide_take(a, i, 0));
    assert_error(TIDE_E_INVALID, "another runtime");
    assert_null(tide_concat((tide_array *[]){a, a, b}, 3, 0));
    assert_error(TIDE_E_INVALID, "another runtime");
    assert_int_equal(tide_assign(a, b), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "another runtime");
    assert_int_equal(
        tide_use_begin(rt, NULL, &(tide_use){.array = b, .mode = TIDE_READ}, 1, &p, &scope),
        TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "another runtime");
    tide_close(other);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_gather_text, "gather.h", "ALL", 90);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(take_picks_rows_and_columns),
        CASE(take_agrees_with_the_model),
        cmocka_unit_test_setup_teardown(a_gpus_kernels_take_the_same, open_emulated, close_runtime),
        CASE(take_tells_or_clips_a_bad_index),
        CASE(take_tells_the_index_as_it_was_given),
        cmocka_unit_test(t19_an_index_out_of_range_is_no_lack_of_memory),
        cmocka_unit_test(a_bad_index_is_told_once),
        cmocka_unit_test(closing_warns_of_a_bad_index),
        CASE(take_refuses_what_does_not_fit),
        CASE(concat_joins_along_an_axis),
        CASE(concat_promotes),
        CASE(concat_refuses_what_does_not_fit),
        CASE(arrays_of_two_runtimes_do_not_meet),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
