/* test_shape.c: what shape.h makes: triangles, spaced numbers, differences of neighbours; and of
** all that it has, larger arrays, a GPU's kernels, emulated, and failures. */
#include <math.h>
#include "tests/arrays/compiles.h"
#include "tests/arrays/every_failure.h"
#include "tests/arrays/shapes.h"
#include "tests/doubles/emulated_device.h"

extern const char tidei_roll_text[];

static int open_emulated(void **state) {
    *state = emulated_open(NULL);
    return 0;
}

/* ---- triangles and diagonals ---- */

struct triangle {
    int64_t k;
    bool lower;
};
static bool in_triangle(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct triangle *t = how;
    int64_t above = index[x->ndim - 1] - index[x->ndim - 2];
    memcpy(from, index, (size_t)x->ndim * sizeof *from);
    return t->lower ? above <= t->k : above >= t->k;
}

static void triangles_keep_their_side(void **state) {
    static const unsigned char zero[16];
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 2);
        struct triangle t = {.k = random_below(15) - 7};
        if (round % 50 == 0) t.k = round % 100 ? INT64_MAX : INT64_MIN;
        check_places(tide_triu(x.a, t.k), &x, x.ndim, x.shape, in_triangle, &t, zero);
        t.lower = true;
        check_places(tide_tril(x.a, t.k), &x, x.ndim, x.shape, in_triangle, &t, zero);
        free(x.data);
    }
    assert_null(tide_tril(tide_zeros(*state, TIDE_F32, SHAPE(3)), 0));
    assert_error(TIDE_E_SHAPE, "1 dimension has no matrices");
    tide_array *odd = tide_full(*state, TIDE_F64, SHAPE(2, 2), tide_arg_float(NAN));
    tide_array *low = tide_map(*state, "(x) -> where(isnan(x), 1, x)", tide_tril(odd, 0));
    HAS_F64(low, 1, 0, 1, 1);
}

static void eye_has_ones_on_its_diagonal(void **state) {
    static const int64_t sizes[] = {0, 1, 2, 5, 7};
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int r = 0; r < 5; r++)
            for (int c = 0; c < 5; c++)
                for (int64_t k = -6; k <= 6; k += 2) {
                    unsigned char want[49 * 16] = {0};
                    size_t size = tide_dtype_size(t);
                    for (int64_t i = 0; i < sizes[r]; i++)
                        if (i + k >= 0 && i + k < sizes[c])
                            assert_ok(tidei_encode(tide_arg_int(1), t, "test",
                                                   want + (size_t)(i * sizes[c] + i + k) * size));
                    has_bytes(tide_eye(*state, t, sizes[r], sizes[c], k), want,
                              (size_t)(sizes[r] * sizes[c]) * size);
                }
    assert_null(tide_eye(*state, TIDE_F32, -1, 2, 0));
    assert_error(TIDE_E_SHAPE, "negative");
    assert_null(tide_eye(*state, 77, 2, 2, 0));
    assert_int_equal(tide_error_last()->status, TIDE_E_INVALID);
}

static void arrays_are_made_like_others(void **state) {
    tide_runtime *rt = *state;
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        source x = make_source(rt, t, STEPS, 3, (int64_t[]){2, 1, 3});
        unsigned char want[6 * 16] = {0}, one[16];
        assert_ok(tidei_encode(tide_arg_bool(1), t, "test", one));
        has_bytes(tide_zeros_like(x.a), want, 6 * x.size);
        for (size_t i = 0; i < 6; i++) memcpy(want + i * x.size, one, x.size);
        has_bytes(tide_ones_like(x.a), want, 6 * x.size);
        has_bytes(tide_full_like(x.a, tide_arg_bool(1)), want, 6 * x.size);
        tide_array *e = tide_empty_like(x.a);
        assert_array(e);
        assert_int_equal(tide_array_dtype(e), t);
        assert_int_equal(tide_array_ndim(e), 3);
        assert_true(tide_array_is_contiguous(e));
        free(x.data);
    }
    tide_array *pinned = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, SHAPE(3));
    assert_int_equal(tide_array_memory(tide_zeros_like(pinned)), TIDE_MEMORY_PINNED);
    assert_null(tide_full_like(pinned, tide_arg_int(256)));
    assert_error(TIDE_E_DTYPE, "256");
    assert_int_equal(tide_array_size(tide_ones_like(tide_slice(pinned, "0:0"))), 0);
}

/* ---- spaced numbers ---- */

static void has_numbers(tide_array *a, int64_t n, const double *want) {
    double got[64];
    assert_array(a);
    assert_int_equal(tide_array_size(a), n);
    assert_int_equal(tide_array_ndim(a), 1);
    assert_ok(tide_to_host(tide_cast(a, TIDE_F64), got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("element %d: %.17g, wanted %.17g", (int)i, got[i], want[i]);
}

static void linspace_ends_where_it_is_told(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < rounds(); round++) {
        double start = (double)(random_below(2001) - 1000) / 7,
               stop = (double)(random_below(2001) - 1000) / 3, want[40];
        int64_t n = random_below(40);
        int end = (int)random_below(2);
        for (int64_t i = 0; i < n; i++) {
            want[i] = start;
            if (n > 1) want[i] = (double)i * ((stop - start) / (double)(n - end)) + start;
            if (end && n > 1 && i == n - 1) want[i] = stop;
        }
        has_numbers(tide_linspace(rt, TIDE_F64, start, stop, n, end), n, want);
        for (int64_t i = 0; i < n; i++) want[i] = (float)want[i];
        has_numbers(tide_linspace(rt, TIDE_F32, start, stop, n, end), n, want);
        for (int64_t i = 0; i < n; i++) {
            want[i] = start;
            if (n > 1) want[i] = (double)i * ((stop - start) / (double)(n - end)) + start;
            if (end && n > 1 && i == n - 1) want[i] = stop;
            want[i] = floor(want[i]);
        }
        has_numbers(tide_linspace(rt, TIDE_I16, start, stop, n, end), n, want);
    }
    const double wide[] = {-1.5e308, 0, 1.5e308};
    has_numbers(tide_linspace(rt, TIDE_F64, -1.5e308, 1.5e308, 3, 1), 3, wide);
    has_numbers(tide_linspace(rt, TIDE_U8, 0, 255, 2, 1), 2, (double[]){0, 255});
}

static void logspace_has_the_powers(void **state) {
    tide_runtime *rt = *state;
    has_numbers(tide_logspace(rt, TIDE_F64, 0, 4, 5, 1, 2), 5, (double[]){1, 2, 4, 8, 16});
    has_numbers(tide_logspace(rt, TIDE_I32, 0, 3, 3, 0, 2), 3, (double[]){1, 2, 4});
    has_numbers(tide_logspace(rt, TIDE_I32, 0, 1, 3, 1, 10), 3, (double[]){1, 3, 10});
    has_numbers(tide_logspace(rt, TIDE_F64, -2, -2, 1, 1, 2), 1, (double[]){0.25});
    has_numbers(tide_logspace(rt, TIDE_F32, 5, 5, 0, 1, 2), 0, NULL);
    double got[7];
    assert_ok(tide_to_host(tide_logspace(rt, TIDE_F64, -1, 1.3, 7, 1, 10), got, sizeof got));
    for (int i = 0; i < 7; i++) {
        double want = pow(10, -1 + i * (2.3 / 6));
        assert_true(fabs(got[i] - want) <= 1e-14 * want);
    }
    assert_true(got[6] == pow(10, 1.3));
}

static void spaced_numbers_are_refused_where_there_are_none(void **state) {
    tide_runtime *rt = *state;
    assert_null(tide_linspace(rt, TIDE_F32, 0, 1, -1, 1));
    assert_error(TIDE_E_INVALID, "-1 numbers");
    assert_null(tide_linspace(rt, TIDE_F32, 0, INFINITY, 2, 1));
    assert_error(TIDE_E_INVALID, "finite");
    assert_null(tide_linspace(rt, TIDE_F32, 0, 1, 2, 2));
    assert_error(TIDE_E_INVALID, "endpoint is 2");
    assert_null(tide_linspace(rt, TIDE_BOOL, 0, 1, 2, 1));
    assert_error(TIDE_E_DTYPE, "bool");
    assert_null(tide_linspace(rt, TIDE_U8, 0, 256, 2, 1));
    assert_error(TIDE_E_DTYPE, "256");
    assert_null(tide_linspace(rt, 77, 0, 1, 2, 1));
    assert_int_equal(tide_error_last()->status, TIDE_E_INVALID);
    const double bases[] = {0, -2, INFINITY, NAN};
    for (int i = 0; i < 4; i++) {
        assert_null(tide_logspace(rt, TIDE_F32, 0, 1, 2, 1, bases[i]));
        assert_error(TIDE_E_INVALID, "the base is");
    }
    assert_null(tide_logspace(rt, TIDE_I8, 0, 3, 2, 1, 10));
    assert_error(TIDE_E_DTYPE, "1000");
}

/* ---- neighbours ---- */

static int64_t as_integer(const source *x, int64_t at) {
    tide_arg v = tidei_decode(x->data + (size_t)at * x->size, x->t);
    return v.kind == TIDE_ARG_FLOAT     ? (int64_t)v.value.f
           : v.kind == TIDE_ARG_COMPLEX ? (int64_t)v.value.c[0]
                                        : v.value.i;
}

/* The elements of every type are small integers here; unsigned types wrap. */
static void check_difference(const source *x, int axis) {
    int64_t inner = 1, n = x->shape[axis], shape[TIDE_MAX_RANK], k = 0;
    unsigned char *want = malloc((size_t)x->n * x->size + 1);
    for (int i = axis + 1; i < x->ndim; i++) inner *= x->shape[i];
    for (int64_t at = 0; at < x->n; at++) {
        if (at / inner % n == n - 1) continue;
        int64_t d = as_integer(x, at + inner) - as_integer(x, at);
        unsigned char *to = want + (size_t)k++ * x->size;
        if (x->t == TIDE_BOOL)
            *to = d != 0;
        else if (tidei_dtype_kind(x->t) == TIDEI_KIND_UINT)
            memcpy(to, &d, x->size);
        else
            assert_ok(tidei_encode(tide_arg_int(d), x->t, "test", to));
    }
    tide_array *got = tide_diff(x->a, 1, axis);
    assert_array(got);
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = n ? n - 1 : 0;
    for (int i = 0; i < x->ndim; i++) assert_int_equal(tide_array_dim(got, i), shape[i]);
    assert_int_equal(tide_array_dtype(got), x->t);
    has_bytes(got, want, (size_t)k * x->size);
    free(want);
}

static void diff_subtracts_neighbours(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(rt, round, 1);
        check_difference(&x, (int)random_below(x.ndim));
        free(x.data);
    }
    tide_array *squares = tide_map(rt, "(x) -> x*x*x", tide_arange(rt, TIDE_F64, 0, 6, 1));
    HAS_F64(tide_diff(squares, 0, 0), 0, 1, 8, 27, 64, 125);
    HAS_F64(tide_diff(squares, 2, -1), 6, 12, 18, 24);
    HAS_F64(tide_diff(squares, 5, 0), 0);
    assert_int_equal(tide_array_dim(tide_diff(squares, 6, 0), 0), 0);
    assert_int_equal(tide_array_dim(tide_diff(squares, INT32_MAX, 0), 0), 0);
    assert_null(tide_diff(squares, -1, 0));
    assert_error(TIDE_E_INVALID, "order -1");
    assert_null(tide_diff(squares, 1, 1));
    assert_error(TIDE_E_BOUNDS, "axis 1");
}

/* Sums and differences have the digits of the result. */
static void trapezoids_of_two_types_lose_nothing(void **state) {
    tide_runtime *rt = *state;
    tide_array *large = tide_from_host(rt, TIDE_F64, SHAPE(2), (double[]){16777216, 1}),
               *ends = tide_from_host(rt, TIDE_F64, SHAPE(2), (double[]){0, 2});
    HAS_F64(tide_trapezoid(tide_cast(large, TIDE_F32), tide_arg_array(ends), 0), 16777217);
    HAS_F64(tide_trapezoid(ends, tide_arg_array(tide_cast(large, TIDE_F32)), 0), -16777215);
    HAS_F64(tide_trapezoid(tide_cast(large, TIDE_F32), tide_arg_array(tide_cast(ends, TIDE_U8)), 0),
            16777217);
    HAS_F64(tide_real(tide_trapezoid(tide_cast(large, TIDE_C64), tide_arg_array(ends), 0)),
            16777217);
    HAS_F64(tide_real(tide_trapezoid(tide_cast(ends, TIDE_C128),
                                     tide_arg_array(tide_cast(large, TIDE_F32)), 0)),
            -16777215);
    tide_array *half = tide_from_host(rt, TIDE_F32, SHAPE(2), (float[]){2048, 1});
    assert_true(tide_item_f64(tide_trapezoid(tide_cast(half, TIDE_F16),
                                             tide_arg_array(tide_cast(ends, TIDE_BF16)), 0)) ==
                2049);
}

static void trapezoids_are_summed(void **state) {
    tide_runtime *rt = *state;
    const double places[] = {0, 1, 4, 6};
    tide_array *y = tide_reshape(tide_arange(rt, TIDE_F64, 0, 8, 1), SHAPE(2, 4)),
               *x = tide_from_host(rt, TIDE_F64, SHAPE(4), places),
               *bytes = tide_full(rt, TIDE_U8, SHAPE(3), tide_arg_int(200));
    HAS_F64(tide_trapezoid(y, tide_arg_float(0.5), 1), 2.25, 8.25);
    HAS_F64(tide_trapezoid(y, tide_arg_array(x), -1), 10, 34);
    HAS_F64(tide_trapezoid(tide_transpose(y, NULL), tide_arg_array(x), 0), 10, 34);
    HAS_F64(tide_trapezoid(y, tide_arg_array(tide_broadcast_to(x, SHAPE(2, 4))), 1), 10, 34);
    tide_array *columns = tide_transpose(tide_broadcast_to(x, SHAPE(2, 4)), NULL);
    HAS_F64(tide_trapezoid(tide_transpose(y, NULL), tide_arg_array(columns), 0), 10, 34);
    HAS_F64(tide_trapezoid(y, tide_arg_array(tide_slice(x, "newaxis")), 1), 10, 34);
    HAS_F64(tide_trapezoid(bytes, tide_arg_int(1), 0), 400); /* nothing wraps on the way */
    tide_array *down = tide_from_host(rt, TIDE_U8, SHAPE(3), (unsigned char[]){9, 5, 4});
    HAS_F64(tide_trapezoid(bytes, tide_arg_array(down), 0), -1000);
    HAS_F64(tide_trapezoid(tide_slice(y, ":, 0:1"), tide_arg_int(1), 1), 0, 0);
    HAS_F64(tide_trapezoid(tide_slice(y, ":, 0:0"), tide_arg_int(1), 1), 0, 0);
    assert_int_equal(tide_array_dtype(tide_trapezoid(tide_cast(y, TIDE_F16), tide_arg_int(1), 1)),
                     TIDE_F16);
    assert_int_equal(tide_array_dtype(tide_trapezoid(tide_cast(y, TIDE_C64), tide_arg_int(1), 1)),
                     TIDE_C64);
    assert_null(tide_trapezoid(y, tide_arg_array(bytes), 1));
    assert_error(TIDE_E_SHAPE, "places of shape (3,) along axis 1 of (2, 4)");
    assert_null(tide_trapezoid(y, tide_arg_array(tide_transpose(y, NULL)), 0));
    assert_error(TIDE_E_SHAPE, "places of shape (4, 2) along axis 0 of (2, 4)");
    assert_null(tide_trapezoid(y, tide_arg_int(1), 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_trapezoid(tide_zeros(rt, TIDE_F32, 0, NULL), tide_arg_int(1), 0));
    assert_null(tide_trapezoid(y, (tide_arg){.kind = 77}, 1));
    assert_error(TIDE_E_INVALID, "77 is no kind of argument");
    tide_error_clear();
    assert_null(tide_trapezoid(y, tide_arg_array(NULL), 1));
    assert_error(TIDE_E_INVALID, "argument 2 is NULL");
}

/* ---- larger ones, and failures ---- */

/* Some of each kind, of one source. */
static void check_some(const source *x, int64_t far) {
    static const unsigned char zero[16];
    const int64_t rows = x->shape[0], cols = x->shape[1], shift[] = {-7, 100},
                  tall[] = {3 * rows, cols}, after[] = {far, 1}, two[] = {2, 2};
    struct border b = {TIDE_PAD_REFLECT, {10, 2}};
    const int64_t wide[] = {rows + 10 + far, cols + 3}, flat = 12345;
    struct triangle t = {5, true};
    struct windows w = {2, {0, 1}, {2, 2}, {2, 2}};
    const int64_t windows[] = {rows / 2, cols / 2, 2, 2};
    int more = 0;
    check_places(tide_roll(x->a, shift, (const int[]){0, 1}, 2), x, 2, x->shape, rolled, shift,
                 NULL);
    check_places(tide_roll(x->a, &flat, NULL, 1), x, 2, x->shape, rolled_flat, &flat, NULL);
    check_places(tide_pad(x->a, b.before, after, b.mode, tide_arg_int(0)), x, 2, wide, bordered, &b,
                 NULL);
    b.mode = TIDE_PAD_WRAP;
    check_places(tide_pad(x->a, b.before, after, b.mode, tide_arg_int(0)), x, 2, wide, bordered, &b,
                 NULL);
    check_places(tide_tile(x->a, (const int64_t[]){3, 1}, 2), x, 2, tall, tiled, &more, NULL);
    check_places(tide_tril(x->a, 5), x, 2, x->shape, in_triangle, &t, zero);
    check_places(tide_windows(x->a, NULL, two, two, 2), x, 4, windows, in_window, &w, NULL);
    check_difference(x, 0);
}

/* Beyond a block, a word's bits, and 2^16 elements. */
static void larger_arrays_are_no_different(void **state) {
    for (int layout = 0; layout < LAYOUTS; layout++) {
        source x = make_source(*state, TIDE_I32, layout, 2, (int64_t[]){301, 259});
        check_some(&x, 690);
        free(x.data);
    }
}

/* Short rows of one shifted axis, by units of each size; others in parts. */
static void short_rows_are_rolled_at_once(void **state) {
    static const struct {
        tide_dtype t;
        int64_t shape[3], shift;
        int axis;
        const char *kernel; /* NULL: in parts */
    } cases[] = {{TIDE_U8, {7, 5, 11}, 4, 2, "roll_1"},    {TIDE_U8, {1, 1, 3}, -1, 2, "roll_1"},
                 {TIDE_U8, {30, 4, 6}, 3, 1, "roll_2"},    {TIDE_F32, {200, 3, 6}, 1, 2, "roll_4"},
                 {TIDE_F32, {200, 3, 6}, -2, 2, "roll_8"}, {TIDE_F32, {50, 7, 3}, 5, 1, "roll_4"},
                 {TIDE_C128, {40, 9, 2}, 7, 1, "roll_16"}, {TIDE_F64, {3, 70, 2}, 69, 1, "roll_16"},
                 {TIDE_F32, {3, 5, 2048}, 1, 2, NULL},     {TIDE_U8, {3, 5, 257}, 1, 2, NULL}};
    tide_runtime *rt = *state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        const int64_t *n = cases[i].shape, size = (int64_t)tide_dtype_size(cases[i].t);
        int64_t inner = size;
        for (int d = cases[i].axis + 1; d < 3; d++) inner *= n[d];
        const int64_t row = n[cases[i].axis] * inner, all = n[0] * n[1] * n[2] * size;
        unsigned char *x = malloc((size_t)all), *want = malloc((size_t)all);
        for (int64_t k = 0; k < all; k++) x[k] = (unsigned char)(k * 7919 >> 3);
        for (int64_t k = 0; k < all; k++)
            want[k] = x[k / row * row + modulo(k % row - cases[i].shift * inner, row)];
        tide_array *a = tide_from_host(rt, cases[i].t, 3, n, x);
        const unsigned before = atomic_load(&emulated_launches);
        tide_array *r = tide_roll(a, &cases[i].shift, &cases[i].axis, 1);
        if (is_emulated(rt))
            assert_int_equal(atomic_load(&emulated_launches) - before, cases[i].kernel ? 1 : 2);
        if (is_emulated(rt) && cases[i].kernel)
            assert_string_equal(atomic_load(&emulated_last), cases[i].kernel);
        has_bytes(r, want, (size_t)all);
        free(x), free(want);
    }
}

static void a_gpus_kernels_do_the_same(void **state) {
    static const tide_dtype types[] = {TIDE_I32, TIDE_BOOL, TIDE_C64};
    if (!*state) skip();
    for (int i = 0; i < 3; i++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            source x = make_source(*state, types[i], layout, 2, (int64_t[]){9, 13});
            check_some(&x, 40);
            free(x.data);
        }
    const double spaced[] = {-1, -0.25, 0.5, 1.25, 2};
    has_numbers(tide_linspace(*state, TIDE_F64, -1, 2, 5, 1), 5, spaced);
    HAS_I32(tide_eye(*state, TIDE_I32, 2, 3, 1), 0, 1, 0, 0, 0, 1);
    trapezoids_are_summed(state);
    short_rows_are_rolled_at_once(state);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_roll_text, "roll.h", "ALL", 90);
}

/* How many kernels a pad with a border of one constant takes; a fill of all is none. */
static unsigned kernels_of_pad(tide_runtime *rt, int64_t rows, int64_t cols) {
    const int64_t one[] = {1, 1};
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(rows, cols)), *padded;
    const unsigned before = atomic_load(&emulated_launches);
    assert_array(padded = tide_pad(a, one, one, TIDE_PAD_CONSTANT, tide_arg_int(1)));
    const unsigned took = atomic_load(&emulated_launches) - before;
    tide_free(padded);
    tide_free(a);
    return took;
}
static void a_constant_fills_all_where_that_is_less(void **state) {
    if (!*state) skip();
    assert_int_equal(kernels_of_pad(*state, 9, 13), 1);     /* small: the array is copied */
    assert_int_equal(kernels_of_pad(*state, 400000, 1), 1); /* wide borders */
    assert_true(kernels_of_pad(*state, 1100, 1100) > 1);    /* a side each */
}

#define TRY(a)                                                                                     \
    do {                                                                                           \
        if (!(a)) {                                                                                \
            *status = tide_error_last()->status;                                                   \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)
#define DO(call)                                                                                   \
    do {                                                                                           \
        if ((*status = (call)) != TIDE_OK) goto out;                                               \
    } while (0)

static void everything(tide_runtime *rt, tide_status *status) {
    const int64_t two[] = {2, 2}, one[] = {1, 1};
    const int axes[] = {0, 1};
    tide_array *a, *outs[4];
    assert_ok(tide_scope_begin(rt));
    TRY(a = tide_reshape(tide_arange(rt, TIDE_F32, 0, 12, 1), SHAPE(3, 4)));
    TRY(a = tide_transpose(a, NULL));
    TRY(tide_flip(a, NULL, 0));
    TRY(tide_moveaxis(a, axes, axes, 2));
    TRY(tide_diagonal(a, 0, 0, 1));
    TRY(tide_windows(a, NULL, two, NULL, 2));
    TRY(tide_reshape_with(a, SHAPE(12), TIDE_COPY_ALWAYS));
    DO(tide_unstack(a, 0, outs, 4));
    DO(tide_split(a, NULL, 0, 0, outs, 3));
    DO(tide_meshgrid((tide_array *[]){tide_slice(a, ":, 0"), tide_slice(a, "0")}, 2, TIDE_GRID_IJ,
                     outs));
    DO(tide_broadcast_arrays((tide_array *[]){a, a}, 2, outs));
    TRY(tide_roll(a, two, axes, 2));
    TRY(tide_roll(a, two, NULL, 1));
    TRY(tide_pad(a, two, one, TIDE_PAD_REFLECT, tide_arg_int(0)));
    TRY(tide_pad(a, two, one, TIDE_PAD_CONSTANT, tide_arg_int(0)));
    TRY(tide_stack((tide_array *[]){a, a}, 2, 0));
    TRY(tide_tile(a, two, 2));
    TRY(tide_tril(a, 0));
    TRY(tide_eye(rt, TIDE_F32, 3, 3, 0));
    TRY(tide_ones_like(a));
    TRY(tide_linspace(rt, TIDE_F32, 0, 1, 5, 1));
    TRY(tide_logspace(rt, TIDE_F32, 0, 1, 5, 1, 10));
    TRY(tide_diff(a, 2, 0));
    TRY(tide_trapezoid(a, tide_arg_array(tide_slice(a, ":, 0")), 0));
    *status = TIDE_OK;
out:
    assert_ok(tide_scope_end(rt));
}

static void nothing_is_lost_on_failure(void **state) {
    (void)state;
    each_call_fails(everything);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(triangles_keep_their_side),
        CASE(eye_has_ones_on_its_diagonal),
        CASE(arrays_are_made_like_others),
        CASE(linspace_ends_where_it_is_told),
        CASE(logspace_has_the_powers),
        CASE(spaced_numbers_are_refused_where_there_are_none),
        CASE(diff_subtracts_neighbours),
        CASE(trapezoids_are_summed),
        CASE(trapezoids_of_two_types_lose_nothing),
        CASE(larger_arrays_are_no_different),
        CASE(short_rows_are_rolled_at_once),
        cmocka_unit_test(kernels_compile),
        cmocka_unit_test_setup_teardown(a_gpus_kernels_do_the_same, open_emulated, close_runtime),
        cmocka_unit_test_setup_teardown(a_constant_fills_all_where_that_is_less, open_emulated,
                                        close_runtime),
        cmocka_unit_test(nothing_is_lost_on_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
