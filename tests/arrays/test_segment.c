/* test_segment.c: folds of segments by ids and by offsets, and repeated elements, against slow
** models; the same by a GPU's kernels, emulated. */
#include <math.h>
#include "tests/arrays/indexed.h"
#include "tests/doubles/emulated_failures.h"

extern const char tidei_repeat_text[], tidei_segment_text[];

static double *numbers_of(tide_array *a) { return bytes_of(tide_cast(a, TIDE_F64)); }
static void has_numbers(tide_array *a, const double *want, int64_t n) {
    assert_array(a);
    assert_int_equal(tide_array_size(a), n);
    double *got = numbers_of(a);
    bool narrow = tide_array_dtype(a) == TIDE_F32;
    for (int64_t i = 0; i < n; i++)
        if (got[i] != (narrow ? (float)want[i] : want[i]) && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("element %d: %g, not %g", (int)i, got[i], want[i]);
    free(got);
}
#define HAS(a, ...) has_numbers(a, (double[]){__VA_ARGS__}, TIDEI_COUNT(((double[]){__VA_ARGS__})))

/* ---- segments ---- */

enum { SUM, MEAN, MIN, MAX, FOLDS };

static tide_array *by_ids(int f, tide_array *a, tide_array *ids, int64_t count, int axis) {
    return f == SUM    ? tide_segment_sum(a, ids, count, axis)
           : f == MEAN ? tide_segment_mean(a, ids, count, axis)
           : f == MIN  ? tide_segment_min(a, ids, count, axis)
                       : tide_segment_max(a, ids, count, axis);
}
static tide_array *by_offsets(int f, tide_array *a, tide_array *offsets, int axis) {
    return f == SUM    ? tide_segment_sum_offsets(a, offsets, axis)
           : f == MEAN ? tide_segment_mean_offsets(a, offsets, axis)
           : f == MIN  ? tide_segment_min_offsets(a, offsets, axis)
                       : tide_segment_max_offsets(a, offsets, axis);
}

static void segments_are_folded(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = F32(rt, 1, 2, 3, 4, 6), *ids = I64(rt, 2, 0, 2, -1, 0),
               *offsets = I64(rt, 0, 2, 2, 5);
    HAS(tide_segment_sum(a, ids, 4, 0), 8, 0, 4, 4);
    HAS(tide_segment_mean(a, ids, 4, 0), 4, NAN, 2, 4);
    HAS(tide_segment_min(a, ids, 4, 0), 2, INFINITY, 1, 4);
    HAS(tide_segment_max(a, ids, 4, 0), 6, -INFINITY, 3, 4);
    HAS(tide_segment_sum_offsets(a, offsets, 0), 3, 0, 13);
    HAS(tide_segment_mean_offsets(a, offsets, -1), 1.5, NAN, 13.0 / 3);
    HAS(tide_segment_min_offsets(a, offsets, 0), 1, INFINITY, 3);
    HAS(tide_segment_max_offsets(a, offsets, 0), 2, -INFINITY, 6);
    HAS(tide_segment_max(tide_cast(a, TIDE_I8), ids, 4, 0), 6, -128, 3, 4);
    HAS(tide_segment_min(tide_cast(a, TIDE_U16), ids, 4, 0), 2, 65535, 1, 4);
}

/* Each type's sums have tide_sum's type, means tide_mean's. */
static void results_have_the_types_of_reductions(void **state) {
    tide_runtime *rt = *state;
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        tide_array *a = tide_ones(rt, t, SHAPE(3)), *ids = I64(rt, 0, 0, 0), *one = I64(rt, 0, 3);
        tide_array *s = tide_sum(a, NULL, 0, 0), *m = tide_mean(a, NULL, 0, 0);
        assert_int_equal(tide_array_dtype(tide_segment_sum(a, ids, 1, 0)), tide_array_dtype(s));
        assert_int_equal(tide_array_dtype(tide_segment_mean_offsets(a, one, 0)),
                         tide_array_dtype(m));
        if (tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX) {
            assert_null(tide_segment_max(a, ids, 1, 0));
            assert_error(TIDE_E_DTYPE, "wanted bool, integers or floats");
        } else {
            assert_int_equal(tide_array_dtype(tide_segment_min_offsets(a, one, 0)), t);
            HAS(tide_segment_sum(a, ids, 1, 0), 3);
            HAS(tide_segment_mean(a, ids, 1, 0), 1);
        }
    }
}

static double model_start(int f, tide_dtype t) {
    double inf = t == TIDE_I32 ? 2147483647.0 : t == TIDE_U8 ? 255 : INFINITY;
    return f == MIN   ? inf
           : f == MAX ? (t == TIDE_I32  ? -2147483648.0
                         : t == TIDE_U8 ? 0
                                        : -inf)
                      : 0;
}

/* (n[0], n[1], n[2]) in `count` segments along axis 1; ids rise where they are made of offsets. */
static void one_case(tide_runtime *rt, int f, tide_dtype t, const int64_t *n, int64_t count,
                     bool offsets) {
    int64_t size = n[0] * n[1] * n[2], all = n[0] * count * n[2];
    double *x = malloc((size_t)size * 8 + 1), *want = malloc((size_t)all * 8 + 1);
    int64_t *id = malloc((size_t)n[1] * 8 + 1), *from = calloc((size_t)count + 1, 8),
            *held = calloc((size_t)count + 1, 8);
    for (int64_t j = 0; j < n[1]; j++)
        id[j] = !offsets ? random_below(count)
                : j      ? id[j - 1] + (random_below(6) == 0 && id[j - 1] < count - 1)
                         : 0;
    for (int64_t j = 0; j < n[1]; j++) held[id[j]]++;
    for (int64_t k = 0; k < count; k++) from[k + 1] = from[k] + held[k];
    for (int64_t i = 0; i < size; i++) x[i] = (double)(1 + random_below(60));
    for (int64_t i = 0; i < all; i++) want[i] = model_start(f, t);
    for (int64_t i = 0; i < size; i++) {
        double *w = &want[(i / n[2] / n[1] * count + id[i / n[2] % n[1]]) * n[2] + i % n[2]];
        *w = f == MIN ? fmin(*w, x[i]) : f == MAX ? fmax(*w, x[i]) : *w + x[i];
    }
    for (int64_t i = 0; i < all && f == MEAN; i++) want[i] /= (double)held[i / n[2] % count];
    tide_array *a = tide_cast(tide_from_host(rt, TIDE_F64, 3, n, x), t), *got;
    a = tide_transpose(tide_copy(tide_transpose(a, NULL)), NULL);
    got = offsets ? by_offsets(f, a, tide_from_host(rt, TIDE_I64, SHAPE(count + 1), from), 1)
                  : by_ids(f, a, tide_from_host(rt, TIDE_I64, SHAPE(n[1]), id), count, -2);
    has_numbers(got, want, all);
    free(x), free(want), free(id), free(from), free(held);
}

static void segments_agree_with_the_model(void **state) {
    static const tide_dtype types[] = {TIDE_U8, TIDE_I32, TIDE_F32, TIDE_F64};
    static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 3, 2, 2}, {1, 200, 1, 7},
                                        {3, 65, 2, 100}, {1, 0, 3, 2}, {2, 500, 3, 2},
                                        {1, 129, 1, 1}};
    for (int f = 0; f < FOLDS; f++)
        for (int t = 0; t < 4; t++)
            for (size_t s = 0; s < TIDEI_COUNT(shapes); s++)
                for (int o = 0; o < 2; o++)
                    one_case(*state, f, types[t], shapes[s], shapes[s][3], o);
    int64_t many = is_emulated(*state) ? 5000 : 70000;
    one_case(*state, SUM, TIDE_F64, (int64_t[]){1, many, 1}, 300, true);
    one_case(*state, SUM, TIDE_F64, (int64_t[]){1, many, 1}, many, true);
    one_case(*state, MEAN, TIDE_F64, (int64_t[]){1, many, 1}, 300, false);
}

/* So many segments that a GPU's sort leaves the lowest bit of their ids to the fold; ids that are
** left out, too. */
static unsigned pairs;
static void note_kernel(char *text) { pairs += strstr(text, "WANTS_scatter_pairs_") != NULL; }
static void segments_are_folded_by_pairs(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_F16};
    tide_runtime *rt = *state;
    emulated_edit = note_kernel;
    for (int t = 0; t < 3; t++)
        for (int64_t count = 256; count < 258; count++) {
            one_case(rt, SUM, types[t], (int64_t[]){1, 4100 + random_below(3000), 1 + t}, count, 0);
            one_case(rt, SUM, types[t], (int64_t[]){1, 9000, 1}, count + 250, 0);
        }
    one_case(rt, SUM, TIDE_F64, (int64_t[]){2, 4100, 1}, 70001, 0);
    one_case(rt, SUM, TIDE_BF16, (int64_t[]){1, 4100, 1}, 131070, 0);
    for (int64_t count = 300; count < 302; count++) {
        int64_t n = 5000, *id = malloc((size_t)n * 8);
        double *want = calloc((size_t)count, 8);
        for (int64_t i = 0; i < n; i++) {
            id[i] = random_below(count + 4);
            if (id[i] < count) want[id[i]]++;
        }
        tide_array *s = tide_segment_sum(tide_ones(rt, TIDE_F32, SHAPE(n)),
                                         tide_from_host(rt, TIDE_I64, 1, &n, id), count, 0);
        assert_array(s);
        assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
        has_numbers(s, want, count);
        free(id), free(want);
    }
    emulated_edit = NULL;
    if (is_emulated(rt)) assert_true(pairs >= 3);
}

/* Sums of integers as they are: by blocks that have room for all sums, by sorted rows; with bad
** ids. */
static tide_array *of_pattern(tide_runtime *rt, tide_dtype t, int64_t rows, int64_t width) {
    int64_t *x = malloc((size_t)(rows * width) * 8);
    for (int64_t i = 0; i < rows * width; i++) x[i] = i * 7919 % 256 - (t == TIDE_U8 ? 0 : 128);
    tide_array *a = tide_cast(tide_from_host(rt, TIDE_I64, 2, (int64_t[]){rows, width}, x), t);
    free(x);
    return a;
}
static void narrow_integers_right(tide_runtime *rt, tide_dtype t, tide_dtype ids, int64_t rows,
                                  int64_t width, int64_t count, const char *kernel) {
    int64_t *want = calloc((size_t)(count * width), 8), *id = malloc((size_t)rows * 8);
    tide_array *a = of_pattern(rt, t, rows, width);
    for (int64_t r = 0; r < rows; r++) {
        id[r] = r == 5 ? count : random_below(count);
        for (int64_t c = 0; c < width && r != 5; c++)
            want[id[r] * width + c] += (r * width + c) * 7919 % 256 - (t == TIDE_U8 ? 0 : 128);
        if (ids == TIDE_I64 && r % 3 == 0 && r != 5) id[r] -= count; /* from the end */
    }
    tide_array *by = tide_cast(tide_from_host(rt, TIDE_I64, 1, &rows, id), ids),
               *sums = tide_segment_sum(a, by, count, 0);
    if (is_emulated(rt)) assert_string_equal(emulated_last, kernel);
    assert_array(sums);
    assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_segment_sum: index ");
    int64_t *got = bytes_of(sums);
    assert_memory_equal(got, want, (size_t)(count * width) * 8);
    free(got), free(want), free(id);
}
static void narrow_integers_are_summed(void **state) {
    tide_runtime *rt = *state;
    narrow_integers_right(rt, TIDE_U8, TIDE_I64, 9001, 2, 40, "scatter_here");
    narrow_integers_right(rt, TIDE_I8, TIDE_I32, 5003, 1, 7, "scatter_here");
    narrow_integers_right(rt, TIDE_I16, TIDE_U32, 150001, 1, 3, "scatter_here");
    narrow_integers_right(rt, TIDE_I8, TIDE_I64, 70003, 15, 3000, "scatter_rows");
    if (is_emulated(rt)) return;
    narrow_integers_right(rt, TIDE_I32, TIDE_U8, 70003, 15, 200, "scatter_rows");
    narrow_integers_right(rt, TIDE_U8, TIDE_I16, 1300, 900, 900, "scatter_rows");
}

/* ---- repeats ---- */

static void elements_are_repeated(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = F32(rt, 5, 6, 7), *two = tide_reshape(F32(rt, 1, 2, 3, 4), SHAPE(2, 2));
    HAS(tide_repeat(a, 2, 0), 5, 5, 6, 6, 7, 7);
    HAS(tide_repeat(two, 2, 1), 1, 1, 2, 2, 3, 3, 4, 4);
    HAS(tide_repeat(two, 2, -2), 1, 2, 1, 2, 3, 4, 3, 4);
    assert_int_equal(tide_array_size(tide_repeat(two, 0, 0)), 0);
    HAS(tide_repeat_each(a, I64(rt, 2, 0, 3), 0), 5, 5, 7, 7, 7);
    HAS(tide_repeat_each(tide_transpose(two, NULL), ROW(rt, TIDE_U8, uint8_t, 1, 2), 1), 1, 3, 3, 2,
        4, 4);
    HAS(tide_repeat_each(a, tide_full(rt, TIDE_U64, 0, NULL, tide_arg_int(2)), 0), 5, 5, 6, 6, 7,
        7);
    HAS(tide_repeat_each(a, tide_slice(ROW(rt, TIDE_I8, int8_t, 0, 1, 2), "::-1"), 0), 5, 5, 6);
    assert_int_equal(tide_array_size(tide_repeat_each(a, tide_zeros(rt, TIDE_I32, SHAPE(3)), 0)),
                     0);
    tide_array *none = tide_zeros(rt, TIDE_I8, SHAPE(2, 0));
    assert_int_equal(
        tide_array_dim(tide_repeat_each(none, tide_zeros(rt, TIDE_I32, SHAPE(0)), 1), 1), 0);
    assert_int_equal(tide_array_dim(tide_repeat(none, 3, 0), 0), 6);
    tide_array *deep = tide_repeat(tide_ones(rt, TIDE_C128, SHAPE(1, 1, 2, 1, 1, 1, 1, 1)), 3, 2);
    assert_array(deep);
    assert_int_equal(tide_array_dim(deep, 2), 6);
}

/* Of one count, by units of each size on a GPU; views, and long rows of odd bytes, by numbers. */
static void repeats_right(tide_runtime *rt, tide_dtype t, const int64_t *n, int axis, int64_t count,
                          bool view, const char *kernel) {
    int64_t shape[3] = {n[0], n[1], n[2]}, all = n[0] * n[1] * n[2] * count, inner = 1;
    for (int d = axis + 1; d < 3; d++) inner *= n[d];
    shape[axis] *= count;
    const size_t size = tide_dtype_size(t);
    unsigned char *x = malloc((size_t)all * size + 1);
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * (int64_t)size; i++)
        x[i] = (unsigned char)(i * 7919 >> 3);
    tide_array *a = tide_from_host(rt, t, 3, n, x);
    if (view) a = tide_slice(tide_copy(tide_slice(a, "::-1")), "::-1");
    tide_array *r = tide_repeat(a, count, axis);
    const char *last = emulated_last;
    if (is_emulated(rt) && strncmp(last, kernel, strlen(kernel)))
        fail_msg("%s, not %s", last, kernel);
    assert_array(r);
    unsigned char *got = bytes_of(r);
    for (int d = 0; d < 3; d++) assert_int_equal(tide_array_dim(r, d), shape[d]);
    for (int64_t i = 0; i < all; i++) {
        const int64_t from = i / (inner * count) * inner + i % inner;
        assert_memory_equal(got + i * (int64_t)size, x + from * (int64_t)size, size);
    }
    free(got), free(x);
}
static void one_count_agrees_with_the_model(void **state) {
    tide_runtime *rt = *state;
    repeats_right(rt, TIDE_U8, (int64_t[]){7, 11, 13}, 2, 3, false, "repeat_1");
    repeats_right(rt, TIDE_U8, (int64_t[]){1, 1, 1}, 0, 5, false, "repeat_1");
    repeats_right(rt, TIDE_U8, (int64_t[]){5, 3, 31}, 1, 2, false, "repeat_1");
    repeats_right(rt, TIDE_BF16, (int64_t[]){4, 9, 5}, 1, 7, false, "repeat_2");
    repeats_right(rt, TIDE_U8, (int64_t[]){4, 9, 6}, 1, 40, false, "repeat_2");
    repeats_right(rt, TIDE_F32, (int64_t[]){50, 3, 33}, 1, 2, false, "repeat_4");
    repeats_right(rt, TIDE_F64, (int64_t[]){70, 5, 3}, 2, 3, false, "repeat_8");
    repeats_right(rt, TIDE_C128, (int64_t[]){10, 5, 3}, 1, 1, false, "repeat_16");
    repeats_right(rt, TIDE_U8, (int64_t[]){6, 10, 48}, 1, 3, false, "repeat_16");
    repeats_right(rt, TIDE_U8, (int64_t[]){6, 10, 33}, 1, 3, false, "gather_");
    repeats_right(rt, TIDE_F32, (int64_t[]){6, 10, 4}, 1, 3, true, "gather_");
    if (is_emulated(rt)) return;
    repeats_right(rt, TIDE_I16, (int64_t[]){300, 70, 5}, 2, 9, false, "");
}

static void many_counts_agree_with_the_model(void **state) {
    tide_runtime *rt = *state;
    int64_t n = is_emulated(*state) ? 3000 : 70000, total = 0;
    int32_t *count = malloc((size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        total += count[i] = random_below(50) ? (int32_t)random_below(3) : 40;
    int64_t *want = malloc((size_t)total * 8), at = 0;
    for (int64_t i = 0; i < n; i++)
        for (int32_t k = 0; k < count[i]; k++) want[at++] = i;
    tide_array *r = tide_repeat_each(tide_arange(rt, TIDE_I64, 0, (double)n, 1),
                                     tide_from_host(rt, TIDE_I32, SHAPE(n), count), 0);
    assert_array(r);
    assert_int_equal(tide_array_size(r), total);
    int64_t *got = bytes_of(r);
    assert_memory_equal(got, want, (size_t)total * 8);
    free(got), free(want), free(count);
}

/* ---- what is wrong ---- */

static void bad_ids_and_offsets_are_told(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = F32(rt, 1, 2, 3), *s = tide_segment_sum(a, I64(rt, 0, 2, 1), 2, 0);
    assert_array(s);
    assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_segment_sum: index 2 is out of range for 2 elements");
    assert_error(TIDE_E_BOUNDS, "its element was left out");
    HAS(s, 1, 3);
    const int64_t bad[][3] = {{0, 2, 1}, {1, 2, 3}, {0, 4, 3}, {0, 1, 2}, {0, -1, 3}};
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        assert_array(
            tide_segment_mean_offsets(a, tide_from_host(rt, TIDE_I64, SHAPE(3), bad[i]), 0));
        assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
        assert_error(TIDE_E_BOUNDS, "tide_segment_mean_offsets: offset ");
        assert_error(TIDE_E_BOUNDS, "segments are wrong");
    }
}

static void what_does_not_fit_is_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = F32(rt, 1, 2, 3), *ids = I64(rt, 0, 1, 0);
    assert_null(tide_segment_sum(a, ids, -1, 0));
    assert_error(TIDE_E_INVALID, "the number of segments is -1");
    assert_null(tide_segment_sum(a, ids, 0, 0));
    assert_error(TIDE_E_BOUNDS, "3 indices into axis 0, which has no elements");
    assert_null(tide_segment_sum(a, I64(rt, 0, 1), 2, 0));
    assert_error(TIDE_E_SHAPE, "ids of shape (2,) for an axis of 3 elements");
    assert_null(tide_segment_mean(a, a, 2, 0));
    assert_error(TIDE_E_DTYPE, "indices are f32");
    assert_null(tide_segment_min(a, ids, 2, 1));
    assert_error(TIDE_E_BOUNDS, "axis 1");
    assert_null(tide_segment_sum_offsets(a, tide_zeros(rt, TIDE_I64, SHAPE(0)), 0));
    assert_error(TIDE_E_SHAPE, "offsets of shape (0,)");
    assert_null(tide_segment_sum_offsets(a, I64(rt, 0), 0));
    assert_error(TIDE_E_BOUNDS, "one offset");
    assert_null(tide_segment_sum_offsets(a, a, 0));
    assert_error(TIDE_E_DTYPE, "offsets are f32");
    assert_null(tide_repeat(a, -1, 0));
    assert_error(TIDE_E_INVALID, "the count is -1");
    assert_null(tide_repeat(a, INT64_MAX / 2, 0));
    assert_error(TIDE_E_NOMEM, "2^63 elements");
    assert_null(tide_repeat_each(a, I64(rt, 1, -3, 1), 0));
    assert_error(TIDE_E_INVALID, "a count is -3");
    assert_null(tide_repeat_each(a, I64(rt, INT64_MAX, 1, 0), 0));
    assert_error(TIDE_E_NOMEM, "the counts add up to 2^63 or more");
    assert_null(tide_repeat_each(a, I64(rt, INT64_MAX, INT64_MAX, 5), 0));
    assert_error(TIDE_E_NOMEM, "the counts add up to 2^63 or more");
    const uint64_t huge[] = {INT64_MAX, UINT64_MAX, 2};
    assert_null(tide_repeat_each(a, tide_from_host(rt, TIDE_U64, SHAPE(3), huge), 0));
    assert_error(TIDE_E_NOMEM, "the counts add up to 2^63 or more");
    tide_array *none = tide_repeat(tide_zeros(rt, TIDE_F32, SHAPE(2, 0)), (int64_t)1 << 40, 0);
    assert_array(none);
    assert_int_equal(tide_array_dim(none, 0), (int64_t)1 << 41);
    assert_null(tide_repeat_each(a, I64(rt, 1, 2), 0));
    assert_error(TIDE_E_SHAPE, "counts of shape (2,) for 3 elements");
    assert_null(tide_repeat_each(a, a, 0));
    assert_error(TIDE_E_DTYPE, "counts are f32");
}

/* ---- failures: all of tide/index.h ---- */

enum { MADE = 16 };
#define MAKE(a)                                                                                    \
    do {                                                                                           \
        if (!(made[n] = (a))) return tide_error_last()->status;                                    \
        n++;                                                                                       \
    } while (0)
#define DO(call)                                                                                   \
    do {                                                                                           \
        tide_status s_ = (call);                                                                   \
        if (s_ != TIDE_OK) return s_;                                                              \
    } while (0)
static tide_status do_all(tide_runtime *rt, tide_array **made) {
    int n = 0;
    MAKE(tide_ones(rt, TIDE_F32, SHAPE(200, 3)));
    MAKE(tide_arange(rt, TIDE_I64, 0, 200, 1));
    const tide_pick picks[] = {tide_pick_array(made[1]), tide_pick_range(tide_range_index(1))};
    MAKE(tide_index(made[0], 2, picks)); /* (200) */
    DO(tide_index_put(made[0], 2, picks, made[2]));
    MAKE(tide_zeros(rt, TIDE_F32, SHAPE(4000)));
    DO(tide_put_along_axis(made[3], made[1], 0, made[1])); /* cast; by a hash table */
    MAKE(tide_floordiv(made[1], made[1]));
    DO(tide_scatter_add(made[3], made[4], 0, made[2], 0)); /* of several levels */
    DO(tide_scatter_max(made[3], made[1], 0, made[2]));
    MAKE(tide_repeat(made[0], 2, 1));
    MAKE(tide_repeat_each(made[2], made[4], 0));
    MAKE(tide_segment_mean(made[0], made[4], 5, 0));
    MAKE(tide_from_host(rt, TIDE_I64, SHAPE(3), (int64_t[]){0, 90, 200}));
    MAKE(tide_segment_mean_offsets(made[0], made[8], 0));
    MAKE(tide_segment_min_offsets(made[0], made[8], 0));
    MAKE(tide_gt(made[1], made[4]));
    const tide_pick mask = tide_pick_array(made[11]);
    MAKE(tide_index(made[0], 1, &mask));
    return tide_synchronize(rt, NULL);
}
static void all_of_it(tide_runtime *rt, tide_status *status) {
    tide_array *made[MADE] = {NULL};
    *status = do_all(rt, made);
    for (int i = 0; i < MADE; i++) tide_release(made[i]);
}
static void a_failure_leaves_nothing(void **state) {
    (void)state;
    each_call_fails(all_of_it);
}
static void a_gpus_failure_leaves_nothing(void **state) {
    (void)state;
    each_emulated_call_fails(all_of_it);
}

static void a_gpus_kernels_do_the_same(void **state) {
    if (!*state) skip();
    segments_are_folded(state);
    segments_agree_with_the_model(state);
    narrow_integers_are_summed(state);
    segments_are_folded_by_pairs(state);
    elements_are_repeated(state);
    one_count_agrees_with_the_model(state);
    many_counts_agree_with_the_model(state);
    bad_ids_and_offsets_are_told(state);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_segment_text, "segment.h", "ALL", 90);
    compiles(tidei_repeat_text, "repeat.h", "ALL", 90);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(segments_are_folded),
        CASE(results_have_the_types_of_reductions),
        CASE(segments_agree_with_the_model),
        CASE(narrow_integers_are_summed),
        CASE(segments_are_folded_by_pairs),
        CASE(elements_are_repeated),
        CASE(one_count_agrees_with_the_model),
        CASE(many_counts_agree_with_the_model),
        CASE(bad_ids_and_offsets_are_told),
        CASE(what_does_not_fit_is_refused),
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(a_gpus_failure_leaves_nothing),
        cmocka_unit_test_setup_teardown(a_gpus_kernels_do_the_same, open_emulated, close_runtime),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
