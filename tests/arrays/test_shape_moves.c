/* test_shape_moves.c: the functions of shape.h that hand out several arrays, and those that shift,
** pad, join and repeat, against slow models. */
#include "tests/arrays/shapes.h"

/* ---- several at once ---- */

static void unstack_gives_each_its_own(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I32, 0, 6, 1), SHAPE(2, 3)), *outs[3];
    assert_ok(tide_unstack(a, 0, outs, 2));
    HAS_I32(outs[1], 3, 4, 5);
    assert_ok(tide_unstack(tide_transpose(a, NULL), -2, outs, 3));
    HAS_I32(outs[2], 2, 5);
    assert_ok(tide_fill(outs[2], tide_arg_int(9)));
    HAS_I32(a, 0, 1, 9, 3, 4, 9);
    assert_ok(tide_unstack(tide_slice(a, "0:0"), 0, NULL, 0));
    assert_ok(tide_unstack(tide_slice(a, ":, 0:0"), 0, outs, 2));
    assert_int_equal(tide_array_size(outs[1]), 0);
    outs[0] = NULL;
    assert_int_equal(tide_unstack(a, 0, outs, 3), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "3 results are wanted; there are 2");
    assert_null(outs[0]);
    assert_int_equal(tide_unstack(tide_slice(a, "0, 0"), 0, outs, 1), TIDE_E_BOUNDS);
    assert_int_equal(tide_unstack(a, 0, NULL, 2), TIDE_E_INVALID);
}

/* More of them than stacks have room for, while collections go on. */
static void many_are_handed_out_together(void **state) {
    enum { MANY = 3000 };
    static tide_array *outs[MANY];
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I32, 0, MANY, 1);
    assert_ok(tide_unstack(a, 0, outs, MANY));
    assert_ok(tide_collect(rt));
    for (int i = 0; i < MANY; i += 997) HAS_I32(outs[i], i);
    memset(outs, 0, sizeof outs);
}

static void has_parts(tide_array *const *outs, size_t m, const char *want) {
    char got[256] = "", *at = got;
    for (size_t i = 0; i < m; i++) {
        int32_t v[16];
        assert_array(outs[i]);
        int64_t n = tide_array_size(outs[i]);
        assert_ok(tide_to_host(outs[i], v, (size_t)n * sizeof *v));
        at += sprintf(at, "%s", i ? " |" : "");
        for (int64_t k = 0; k < n; k++) at += sprintf(at, " %d", (int)v[k]);
    }
    assert_string_equal(got, want);
}

static void split_cuts_an_axis(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 7, 1), *outs[8];
    assert_ok(tide_split(a, NULL, 0, 0, outs, 3));
    has_parts(outs, 3, " 0 1 2 | 3 4 | 5 6");
    assert_ok(tide_split(tide_flip(a, NULL, 0), NULL, 0, -1, outs, 7));
    has_parts(outs, 7, " 6 | 5 | 4 | 3 | 2 | 1 | 0");
    assert_ok(tide_split(tide_slice(a, ":2"), NULL, 0, 0, outs, 4));
    has_parts(outs, 4, " 0 | 1 | |");
    assert_ok(tide_split(a, (const int64_t[]){2, 2, -1, 99, 3}, 5, 0, outs, 6));
    has_parts(outs, 6, " 0 1 | | 2 3 4 5 | 6 | | 3 4 5 6");
    assert_ok(tide_split(a, (const int64_t[]){-99, INT64_MIN}, 2, 0, outs, 3));
    has_parts(outs, 3, " | | 0 1 2 3 4 5 6");
    tide_array *b = tide_reshape(tide_slice(a, ":6"), SHAPE(2, 3));
    assert_ok(tide_split(b, NULL, 0, 1, outs, 2));
    has_parts(outs, 2, " 0 1 3 4 | 2 5");
    assert_ok(tide_split(tide_slice(b, "0:0"), NULL, 0, 1, outs, 2));
    assert_int_equal(tide_split(a, (const int64_t[]){1}, 1, 0, outs, 3), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "3 results are wanted; there are 2");
    assert_int_equal(tide_split(a, NULL, 0, 0, outs, 0), TIDE_E_INVALID);
    assert_int_equal(tide_split(a, NULL, 0, 1, outs, 2), TIDE_E_BOUNDS);
    assert_int_equal(tide_split(a, NULL, 0, 0, NULL, 2), TIDE_E_INVALID);
    assert_int_equal(tide_split(a, NULL, 0, 0, outs, SIZE_MAX), TIDE_E_INVALID);
    assert_int_equal(tide_split(a, NULL, 0, 0, outs, INT64_MAX), TIDE_E_HOST_NOMEM);
}

static void broadcast_arrays_agree(void **state) {
    tide_runtime *rt = *state;
    tide_array *in[] = {tide_arange(rt, TIDE_I32, 0, 3, 1),
                        tide_reshape(tide_arange(rt, TIDE_I32, 5, 7, 1), SHAPE(2, 1)),
                        tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(9))},
               *outs[3] = {NULL};
    assert_ok(tide_broadcast_arrays(in, 3, outs));
    HAS_I32(outs[0], 0, 1, 2, 0, 1, 2);
    HAS_I32(outs[1], 5, 5, 5, 6, 6, 6);
    HAS_I32(outs[2], 9, 9, 9, 9, 9, 9);
    assert_int_equal(tide_fill(outs[0], tide_arg_int(1)), TIDE_E_INVALID);
    in[2] = tide_zeros(rt, TIDE_F32, SHAPE(4));
    assert_int_equal(tide_broadcast_arrays(in, 3, outs), TIDE_E_SHAPE);
    assert_int_equal(tide_broadcast_arrays(in, 0, outs), TIDE_E_INVALID);
    assert_int_equal(tide_broadcast_arrays(in, 2, NULL), TIDE_E_INVALID);
}

static void meshgrid_spans_a_grid(void **state) {
    tide_runtime *rt = *state;
    tide_array *in[9] = {tide_arange(rt, TIDE_I32, 0, 2, 1),
                         tide_slice(tide_arange(rt, TIDE_I32, 0, 5, 1), "::-2"),
                         tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(9))},
               *outs[9];
    assert_ok(tide_meshgrid(in, 2, TIDE_GRID_XY, outs));
    HAS_I32(outs[0], 0, 1, 0, 1, 0, 1);
    HAS_I32(outs[1], 4, 4, 2, 2, 0, 0);
    assert_ok(tide_meshgrid(in, 2, TIDE_GRID_IJ, outs));
    HAS_I32(outs[0], 0, 0, 0, 1, 1, 1);
    HAS_I32(outs[1], 4, 2, 0, 4, 2, 0);
    assert_ok(tide_meshgrid(in, 3, TIDE_GRID_XY, outs));
    assert_int_equal(tide_array_ndim(outs[2]), 3);
    assert_int_equal(tide_array_dim(outs[2], 0), 3);
    assert_int_equal(tide_array_dim(outs[2], 1), 2);
    HAS_I32(outs[2], 9, 9, 9, 9, 9, 9);
    assert_ok(tide_meshgrid(in + 1, 1, TIDE_GRID_XY, outs));
    HAS_I32(outs[0], 4, 2, 0);
    in[2] = tide_zeros(rt, TIDE_F32, SHAPE(2, 2));
    assert_int_equal(tide_meshgrid(in, 3, TIDE_GRID_IJ, outs), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "array 2 has shape (2, 2)");
    assert_int_equal(tide_meshgrid(in, 2, 2, outs), TIDE_E_INVALID);
    for (int i = 0; i < 9; i++) in[i] = in[0];
    assert_int_equal(tide_meshgrid(in, 9, TIDE_GRID_IJ, outs), TIDE_E_SHAPE);
}

/* ---- shifted, padded, joined, repeated ---- */

static void roll_shifts_around_the_ends(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 0);
        int axes[6], n = x.ndim ? (int)random_below(6) : 0;
        int64_t shifts[6], sum[TIDE_MAX_RANK] = {0}, all = 0;
        for (int i = 0; i < n; i++) {
            axes[i] = (int)random_below(x.ndim);
            shifts[i] = random_below(21) - 10;
            sum[axes[i]] += shifts[i];
            all += shifts[i];
            if (i % 2) axes[i] -= x.ndim;
        }
        check_places(tide_roll(x.a, shifts, axes, n), &x, x.ndim, x.shape, rolled, sum, NULL);
        check_places(tide_roll(x.a, shifts, NULL, n), &x, x.ndim, x.shape, rolled_flat, &all, NULL);
        free(x.data);
    }
    tide_array *a = tide_arange(*state, TIDE_I32, 0, 3, 1);
    const int64_t far[] = {INT64_MIN, INT64_MAX, INT64_MAX};
    HAS_I32(tide_roll(a, far, (const int[]){0, 0, 0}, 3), 0, 1, 2); /* -8 + 7 + 7, by thirds */
    assert_null(tide_roll(a, far, (const int[]){1}, 1));
    assert_error(TIDE_E_BOUNDS, "axis 1");
    assert_null(tide_roll(a, NULL, NULL, 1));
    assert_error(TIDE_E_INVALID, "shifts is NULL");
    assert_null(tide_roll(a, far, NULL, -1));
    assert_error(TIDE_E_INVALID, "-1 shifts");
}

static void borders_are_padded(void **state) {
    for (int round = 0; round < 2 * rounds(); round++) {
        source x = draw_source(*state, round, 0);
        struct border b = {.mode = (int)random_below(4)};
        int64_t after[TIDE_MAX_RANK] = {0}, shape[TIDE_MAX_RANK];
        unsigned char seven[16];
        tide_arg value = x.t == TIDE_BOOL ? tide_arg_bool(1) : tide_arg_int(7);
        assert_ok(tidei_encode(value, x.t, "test", seven));
        for (int i = 0; i < x.ndim; i++) {
            bool none = !x.shape[i] && b.mode != TIDE_PAD_CONSTANT;
            b.before[i] = none ? 0 : random_below(round % 5 ? 4 : 23);
            after[i] = none ? 0 : random_below(round % 3 ? 4 : 23);
            shape[i] = b.before[i] + x.shape[i] + after[i];
        }
        check_places(tide_pad(x.a, b.before, after, b.mode, value), &x, x.ndim, shape, bordered, &b,
                     seven);
        free(x.data);
    }
}

/* Large ones, of which the borders are a small part or a large one. */
static void large_arrays_are_padded(void **state) {
    static const int64_t shapes[][2] = {{1100, 1100}, {200000, 2}, {2, 600000}};
    static const int64_t before[] = {1, 3}, after[] = {2, 1};
    for (size_t k = 0; k < TIDEI_COUNT(shapes); k++) {
        const int64_t *sh = shapes[k], n = sh[0] * sh[1], rows = sh[0] + 3, cols = sh[1] + 4;
        tide_array *a = tide_reshape(tide_arange(*state, TIDE_I32, 0, (double)n, 1), 2, sh),
                   *padded = tide_pad(a, before, after, TIDE_PAD_CONSTANT, tide_arg_int(-1));
        int32_t *got = malloc((size_t)(rows * cols) * sizeof *got);
        assert_array(padded);
        assert_ok(tide_to_host(padded, got, (size_t)(rows * cols) * sizeof *got));
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                int64_t r = i - 1, c = j - 3;
                bool in = r >= 0 && r < sh[0] && c >= 0 && c < sh[1];
                assert_int_equal(got[i * cols + j], in ? r * sh[1] + c : -1);
            }
        free(got);
    }
}

static void pad_refuses_what_does_not_fit(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(2, 0));
    const int64_t one[] = {0, 1}, none[] = {0, 0}, less[] = {-1, 0}, much[] = {INT64_MAX, 0};
    for (int mode = TIDE_PAD_EDGE; mode <= TIDE_PAD_WRAP; mode++) {
        assert_null(tide_pad(a, one, none, mode, tide_arg_int(1)));
        assert_error(TIDE_E_EMPTY, "axis 1 has no elements");
        assert_array(tide_pad(a, none, none, mode, tide_arg_int(999)));
    }
    assert_null(tide_pad(a, none, less, TIDE_PAD_CONSTANT, tide_arg_int(1)));
    assert_error(TIDE_E_SHAPE, "0 elements before and -1 behind axis 0");
    assert_null(tide_pad(a, none, one, TIDE_PAD_CONSTANT, tide_arg_int(999)));
    assert_error(TIDE_E_DTYPE, "999");
    assert_null(tide_pad(a, none, one, 4, tide_arg_int(1)));
    assert_error(TIDE_E_INVALID, "4 is no mode");
    assert_null(tide_pad(a, much, much, TIDE_PAD_CONSTANT, tide_arg_int(1)));
    assert_error(TIDE_E_NOMEM, "axis 0");
    assert_null(tide_pad(a, NULL, one, TIDE_PAD_CONSTANT, tide_arg_int(1)));
    assert_error(TIDE_E_INVALID, "before is NULL");
}

struct stacked {
    int axis;
    int64_t which;
};
static bool of_stack(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct stacked *s = how;
    for (int i = 0; i < x->ndim; i++) from[i] = index[i + (i >= s->axis)];
    return index[s->axis] == s->which;
}

/* Of three arrays the second is looked at; where the others stand the result is zero. */
static void stack_makes_an_axis(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(rt, round, 0);
        static const unsigned char zero[16];
        struct stacked s = {.axis = (int)random_below(x.ndim + 1), .which = 1};
        tide_array *none = tide_zeros(rt, x.t, x.ndim, x.shape);
        int64_t shape[TIDE_MAX_RANK];
        for (int i = 0; i <= x.ndim; i++) shape[i] = i == s.axis ? 3 : x.shape[i - (i > s.axis)];
        check_places(tide_stack((tide_array *[]){none, x.a, none}, 3,
                                round % 2 ? s.axis : s.axis - x.ndim - 1),
                     &x, x.ndim + 1, shape, of_stack, &s, zero);
        free(x.data);
    }
    tide_array *a = tide_zeros(rt, TIDE_I8, SHAPE(2)), *b = tide_ones(rt, TIDE_U8, SHAPE(2)),
               *deep = tide_zeros(rt, TIDE_I8, SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
    assert_int_equal(tide_array_dtype(tide_stack((tide_array *[]){a, b}, 2, 0)), TIDE_I16);
    assert_null(tide_stack((tide_array *[]){a, deep}, 2, 0));
    assert_error(TIDE_E_SHAPE, "array 1 has shape (1, 1, 1, 1, 1, 1, 1, 1), the first has (2,)");
    assert_null(tide_stack(&deep, 1, 0));
    assert_error(TIDE_E_SHAPE, "8 dimensions already");
    assert_null(tide_stack(&a, 1, 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_stack(&a, 0, 0));
    assert_error(TIDE_E_INVALID, "no arrays");
    tide_array *i = tide_zeros(rt, TIDE_I64, SHAPE(1)), *u = tide_zeros(rt, TIDE_U64, SHAPE(1));
    assert_null(tide_stack((tide_array *[]){i, u}, 2, 0));
    assert_error(TIDE_E_DTYPE, "no common type");
}

static void tile_repeats_the_whole(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 0);
        bool deep = round % 4 == 0; /* more axes than one pass has */
        int n = deep ? TIDE_MAX_RANK : (int)random_below(6), rank = n > x.ndim ? n : x.ndim,
            more = rank - x.ndim;
        int64_t reps[TIDE_MAX_RANK], shape[TIDE_MAX_RANK];
        for (int i = 0; i < n; i++) reps[i] = deep ? 1 + random_below(2) : random_below(5);
        for (int i = 0; i < rank; i++)
            shape[i] = (i < more ? 1 : x.shape[i - more]) * (i < rank - n ? 1 : reps[i - rank + n]);
        check_places(tide_tile(x.a, reps, n), &x, rank, shape, tiled, &more, NULL);
        free(x.data);
    }
    /* eight axes, each longer than one element, and repeated */
    source x =
        make_source(*state, TIDE_I16, PLAIN, TIDE_MAX_RANK, (int64_t[]){2, 2, 2, 2, 2, 2, 2, 2});
    const int64_t reps[] = {1, 2, 1, 3, 2, 1, 2, 3};
    int64_t shape[TIDE_MAX_RANK];
    int more = 0;
    for (int i = 0; i < TIDE_MAX_RANK; i++) shape[i] = 2 * reps[i];
    check_places(tide_tile(x.a, reps, 8), &x, 8, shape, tiled, &more, NULL);
    free(x.data);
    assert_null(tide_tile(x.a, (int64_t[]){-1}, 1));
    assert_error(TIDE_E_SHAPE, "axis 7 is repeated -1 times");
    assert_null(tide_tile(x.a, (int64_t[]){INT64_MAX}, 1));
    assert_error(TIDE_E_NOMEM, "axis 7");
    assert_null(tide_tile(x.a, reps, 9));
    assert_error(TIDE_E_SHAPE, "9 repetitions");
    assert_null(tide_tile(x.a, reps, -1));
    assert_error(TIDE_E_INVALID, "-1 repetitions");
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(unstack_gives_each_its_own),
        CASE(many_are_handed_out_together),
        CASE(split_cuts_an_axis),
        CASE(broadcast_arrays_agree),
        CASE(meshgrid_spans_a_grid),
        CASE(roll_shifts_around_the_ends),
        CASE(borders_are_padded),
        CASE(large_arrays_are_padded),
        CASE(pad_refuses_what_does_not_fit),
        CASE(stack_makes_an_axis),
        CASE(tile_repeats_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
