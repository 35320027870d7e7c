/* test_select.c: elements picked by a condition against slow models, on the host and on a device
** that runs the GPU's kernels; their special values, refusals and failures; the kernels' CUDA
** text. */
#include <math.h>
#include "tests/arrays/compiles.h"
#include "tests/arrays/every_failure.h"
#include "tests/doubles/emulated_device.h"
#include "tests/support/views.h"

extern const char tidei_picks_text[];

static int open_runtime(void **state) {
    seed = 7;
    *state = test_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int open_emulated(void **state) {
    seed = 7;
    *state = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static const tide_dtype types[] = {TIDE_BOOL, TIDE_I8,  TIDE_I16, TIDE_I32, TIDE_I64,
                                   TIDE_U8,   TIDE_U16, TIDE_U32, TIDE_U64, TIDE_F16,
                                   TIDE_BF16, TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};

/* Small numbers, of which `share` in a hundred are not 0. */
static tide_array *numbers_of(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                              unsigned share) {
    size_t size = tide_dtype_size(t), n = 1;
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    unsigned char *raw = malloc(n * size + 1);
    for (size_t i = 0; i < n; i++) {
        int64_t v = draw(100) < share ? 1 + (int64_t)draw(t == TIDE_BOOL ? 1 : 50) : 0;
        tide_arg x = tide_arg_int(v);
        if (tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX)
            x = draw(2) ? tide_arg_complex((double)v, 0) : tide_arg_complex(0, (double)v);
        assert_ok(tidei_encode(x, t, "test", raw + i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, raw);
    assert_array(a);
    free(raw);
    return a;
}

/* The array itself, or a view of it with as many axes. */
static tide_array *view(tide_array *a, unsigned how) {
    static const char *const slices[] = {"...", "::-1, ...", "..., ::2", "..., ::-1", "..., 1:"};
    tide_array *v =
        how == 5 || tide_array_ndim(a) == 0 ? tide_transpose(a, NULL) : tide_slice(a, slices[how]);
    assert_array(v);
    tide_release(a);
    return v;
}
enum { VIEWS = 6 };

static bool is_true(const numbers *x, int64_t i) { return x->re[i] != 0 || x->im[i] != 0; }

/* ---- nonzero, argwhere, count_nonzero ---- */

static void check_places(tide_array *a) {
    numbers x = read_back(a);
    int64_t n = 0, at = 0;
    tide_array *outs[TIDE_MAX_RANK] = {NULL}, *table = tide_argwhere(a);
    numbers got[TIDE_MAX_RANK], rows;
    for (int64_t i = 0; i < x.n; i++) n += is_true(&x, i);
    assert_array(table);
    rows = read_back(table);
    assert_int_equal(tide_array_dtype(table), TIDE_I64);
    assert_int_equal(rows.shape[0], n);
    assert_int_equal(rows.shape[1], x.ndim);
    if (x.ndim) assert_ok(tide_nonzero(a, outs, (size_t)x.ndim));
    for (int d = 0; d < x.ndim; d++) {
        assert_int_equal(tide_array_dtype(outs[d]), TIDE_I64);
        assert_int_equal(tide_array_ndim(outs[d]), 1);
        got[d] = read_back(outs[d]);
        assert_int_equal(got[d].n, n);
    }
    for (int64_t i = 0; i < x.n; i++) {
        int64_t rest = i;
        if (!is_true(&x, i)) continue;
        for (int d = x.ndim - 1; d >= 0; d--) {
            assert_true(got[d].re[at] == (double)(rest % x.shape[d]));
            assert_true(rows.re[at * x.ndim + d] == (double)(rest % x.shape[d]));
            rest /= x.shape[d];
        }
        at++;
    }
    for (int d = 0; d < x.ndim; d++) {
        drop(&got[d]);
        tide_release(outs[d]);
    }
    drop(&x);
    drop(&rows);
    tide_release(table);
}

static void nonzero_agrees_with_the_model(void **state) {
    static const int64_t lengths[] = {1, 2, 3, 7, 33, 0};
    tide_runtime *rt = *state;
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++)
        for (unsigned round = 0; round < 20; round++) {
            int64_t shape[4];
            int ndim = (int)draw(5);
            for (int d = 0; d < ndim; d++) shape[d] = lengths[draw(round < 18 ? 5 : 6)];
            tide_array *a = view(numbers_of(rt, types[t], ndim, shape, (unsigned)draw(4) * 33),
                                 (unsigned)draw(VIEWS));
            check_places(a);
            tide_release(a);
        }
    for (unsigned t = 0; t < TIDEI_COUNT(types); t += 3) {
        tide_array *a = view(numbers_of(rt, types[t], SHAPE(70001), 30), t % 5);
        check_places(a);
        tide_release(a);
    }
}

static void a_gpus_kernels_find_the_same(void **state) {
    static const tide_dtype some[] = {TIDE_BOOL, TIDE_F16, TIDE_F32, TIDE_C64, TIDE_C128};
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (unsigned t = 0; t < TIDEI_COUNT(some); t++)
        for (unsigned how = 0; how < VIEWS; how++) {
            const int64_t shape[] = {3, 37, 50 + how};
            tide_array *a = view(numbers_of(rt, some[t], 3, shape, how * 20), how);
            check_places(a);
            tide_release(a);
            a = view(numbers_of(rt, some[t], SHAPE(4096 + how), 100 - how), how);
            check_places(a);
            tide_release(a);
        }
    tide_array *a = numbers_of(rt, TIDE_BOOL, SHAPE(70001), 50);
    check_places(a);
    tide_release(a);
}

static void signs_and_not_a_number(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    const double x[] = {0.0, -0.0, NAN, -INFINITY, 5e-324};
    const float y[] = {0.0f, -0.0f, -0.0f, 1e-45f, NAN, 0.0f}; /* three complex numbers */
    const uint16_t h[] = {0x8000, 0x0001, 0x7e00, 0};
    int64_t got[3];
    tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(5), x), *out = NULL;
    assert_ok(tide_nonzero(a, &out, 1));
    assert_ok(tide_to_host(out, got, sizeof got));
    assert_memory_equal(got, ((int64_t[]){2, 3, 4}), sizeof got);
    tide_release(a);
    tide_release(out);
    a = tide_from_host(rt, TIDE_C64, SHAPE(3), y);
    assert_ok(tide_nonzero(a, &out, 1));
    assert_ok(tide_to_host(out, got, 16));
    assert_memory_equal(got, ((int64_t[]){1, 2}), 16);
    tide_release(a);
    tide_release(out);
    for (int bf = 0; bf < 2; bf++) {
        a = tide_from_host(rt, bf ? TIDE_BF16 : TIDE_F16, SHAPE(4), h);
        assert_ok(tide_nonzero(a, &out, 1));
        assert_ok(tide_to_host(out, got, 16));
        assert_memory_equal(got, ((int64_t[]){1, 2}), 16);
        tide_release(a);
        tide_release(out);
    }
}

static void count_nonzero_counts_over_axes(void **state) {
    static const struct {
        int n, axes[3], keepdims;
    } ways[] = {{-1, {0}, 0}, {-1, {0}, 1},    {0, {0}, 0},
                {1, {1}, 0},  {2, {0, -1}, 1}, {1, {-3}, 0}};
    tide_runtime *rt = *state;
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++)
        for (unsigned k = 0; k < TIDEI_COUNT(ways); k++) {
            const int64_t shape[] = {3, 4, 5};
            const int *axes = ways[k].n < 0 ? NULL : ways[k].axes;
            int n = ways[k].n < 0 ? 0 : ways[k].n;
            tide_array *a = view(numbers_of(rt, types[t], 3, shape, 50), k),
                       *bits = tide_cast(a, TIDE_BOOL),
                       *want = tide_sum(bits, axes, n, ways[k].keepdims),
                       *made = tide_count_nonzero(a, axes, n, ways[k].keepdims);
            assert_array(made);
            assert_int_equal(tide_array_dtype(made), TIDE_I64);
            numbers x = read_back(want), y = read_back(made);
            assert_int_equal(x.ndim, y.ndim);
            for (int d = 0; d < x.ndim; d++) assert_int_equal(x.shape[d], y.shape[d]);
            assert_memory_equal(x.re, y.re, (size_t)x.n * sizeof *x.re);
            drop(&x);
            drop(&y);
            tide_release(a);
            tide_release(bits);
            tide_release(want);
            tide_release(made);
        }
}

/* ---- by a mask ---- */

/* A mask of the first m dimensions of a, in a layout of its own. */
static tide_array *mask_of(tide_runtime *rt, tide_array *a, int m, unsigned how, unsigned share) {
    int64_t shape[TIDE_MAX_RANK];
    for (int d = 0; d < m; d++) shape[d] = tide_array_dim(a, how == 5 ? m - 1 - d : d);
    tide_array *mask = numbers_of(rt, TIDE_BOOL, m, shape, share);
    return how == 5 || (how == 1 && m) ? view(mask, how) : mask;
}

static void check_select(tide_array *a, tide_array *mask) {
    tide_array *made = tide_masked_select(a, mask);
    assert_array(made);
    numbers x = read_back(a), m = read_back(mask), got = read_back(made);
    int64_t item = 1, n = 0;
    for (int d = m.ndim; d < x.ndim; d++) item *= x.shape[d];
    assert_int_equal(got.ndim, x.ndim - m.ndim + 1);
    for (int d = m.ndim; d < x.ndim; d++) assert_int_equal(got.shape[d - m.ndim + 1], x.shape[d]);
    for (int64_t i = 0; i < m.n; i++) {
        if (m.re[i] == 0) continue;
        for (int64_t k = 0; k < item; k++) {
            assert_true(got.re[n * item + k] == x.re[i * item + k]);
            assert_true(got.im[n * item + k] == x.im[i * item + k]);
        }
        n++;
    }
    assert_int_equal(got.shape[0], n);
    assert_int_equal(tide_array_dtype(made), tide_array_dtype(a));
    drop(&x);
    drop(&m);
    drop(&got);
    tide_release(made);
}

/* values: of a small type, or a's; as many as there are items, one for all, or one for each element
** of an item. */
static const char *last_kernel; /* of check_put's call, emulated */
static void check_put(tide_runtime *rt, tide_array *a, tide_array *mask, unsigned kind) {
    numbers x = read_back(a), m = read_back(mask);
    int64_t item = 1, n = 0, shape[TIDE_MAX_RANK + 1];
    int ndim = x.ndim - m.ndim + 1;
    for (int64_t i = 0; i < m.n; i++) n += m.re[i] != 0;
    shape[0] = n;
    for (int d = m.ndim; d < x.ndim; d++) item *= shape[d - m.ndim + 1] = x.shape[d];
    tide_dtype of = tide_array_dtype(a), t = of == TIDE_BOOL || kind == 1              ? of
                                             : tidei_dtype_kind(of) == TIDEI_KIND_UINT ? TIDE_U8
                                                                                       : TIDE_I8;
    tide_array *values = kind == 2   ? numbers_of(rt, t, 0, NULL, 90)
                         : kind == 3 ? numbers_of(rt, t, ndim - 1, shape + 1, 90)
                                     : numbers_of(rt, t, ndim, shape, 90);
    numbers v = read_back(values);
    assert_ok(tide_masked_put(a, mask, values));
    last_kernel = atomic_load(&emulated_last);
    numbers got = read_back(a);
    n = 0;
    for (int64_t i = 0; i < m.n; i++) {
        for (int64_t k = 0; k < item; k++) {
            bool is = m.re[i] != 0;
            int64_t at = kind == 2 ? 0 : kind == 3 ? k : n * item + k;
            assert_true(got.re[i * item + k] == (is ? v.re[at] : x.re[i * item + k]));
            assert_true(got.im[i * item + k] == (is ? v.im[at] : x.im[i * item + k]));
        }
        n += m.re[i] != 0;
    }
    drop(&x);
    drop(&m);
    drop(&v);
    drop(&got);
    tide_release(values);
}

static void try_masks(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape, int m,
                      unsigned how, unsigned share) {
    tide_array *a = view(numbers_of(rt, t, ndim, shape, 80), how),
               *mask = mask_of(rt, a, m, how, share);
    check_select(a, mask);
    check_put(rt, a, mask, how % 4);
    tide_release(a);
    tide_release(mask);
}

/* One value for all places: of elements side by side, which a GPU fills by vectors where they have
** up to 4 bytes; and of a view that begins within a vector. */
static void is_put_by(tide_runtime *rt, const char *kernel) {
    if (is_emulated(rt)) assert_int_equal(strncmp(last_kernel, kernel, strlen(kernel)), 0);
}
static void try_fills(tide_runtime *rt, tide_dtype t, unsigned share) {
    static const int64_t lengths[] = {1, 15, 16, 17, 4099, 70001};
    for (unsigned i = 0; i < TIDEI_COUNT(lengths); i++) {
        tide_array *a = numbers_of(rt, t, 1, &lengths[i], 80),
                   *mask = numbers_of(rt, TIDE_BOOL, 1, &lengths[i], share);
        check_put(rt, a, mask, 2);
        is_put_by(rt, lengths[i] > 1 && tide_dtype_size(t) <= 4 ? "picks_fill_" : "picks_put_");
        if (lengths[i] > 3) {
            tide_array *part = tide_slice(a, "3:"), *there = tide_slice(mask, "3:");
            check_put(rt, part, there, 2);
            is_put_by(rt, "picks_put_");
            tide_release(part);
            tide_release(there);
        }
        tide_release(a);
        tide_release(mask);
    }
}

static void masks_agree_with_the_model(void **state) {
    static const int64_t lengths[] = {1, 2, 3, 7, 33, 0};
    tide_runtime *rt = *state;
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++)
        for (unsigned round = 0; round < 24; round++) {
            int64_t shape[4];
            int ndim = (int)draw(5);
            for (int d = 0; d < ndim; d++) shape[d] = lengths[draw(round < 20 ? 5 : 6)];
            try_masks(rt, types[t], ndim, shape, (int)draw((uint64_t)ndim + 1), round % VIEWS,
                      (unsigned)draw(5) * 25);
        }
    try_masks(rt, TIDE_F32, 1, (int64_t[]){70001}, 1, 0, 40);
    try_masks(rt, TIDE_F64, 2, (int64_t[]){300, 301}, 2, 5, 60);
    try_masks(rt, TIDE_I16, 2, (int64_t[]){3000, 31}, 1, 1, 60);
    try_fills(rt, TIDE_U8, 50);
    try_fills(rt, TIDE_F64, 0);
    try_masks(rt, TIDE_I8, 2, (int64_t[]){3, 33}, 1, 0, 100); /* memory that ends within a word */
}

static void a_gpus_kernels_pick_the_same(void **state) {
    static const tide_dtype some[] = {TIDE_I8, TIDE_F16, TIDE_F32, TIDE_F64, TIDE_C128};
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (unsigned t = 0; t < TIDEI_COUNT(some); t++) {
        try_masks(rt, some[t], 1, (int64_t[]){9001}, 1, t, 20 * t);
        try_fills(rt, some[t], 20 * (t + 1));
        try_masks(rt, some[t], 3, (int64_t[]){4, 50, 31}, 2, t % VIEWS, 50);
        try_masks(rt, some[t], 3, (int64_t[]){4, 50, 31}, 3, (t + 1) % VIEWS, 50);
        try_masks(rt, some[t], 2, (int64_t[]){4, 5}, 0, t % 4, 100);
    }
}

/* Items so long that a tile's are cut into parts; of a view whose places no one stride goes over:
** they are not taken by a list; units of one element, of several, and of 16 bytes. */
static void long_items_go_in_parts(void **state) {
    static const tide_dtype some[] = {TIDE_I8, TIDE_F64};
    static const int64_t lengths[] = {30001, 30004, 30016};
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (unsigned t = 0; t < TIDEI_COUNT(some); t++)
        for (unsigned i = 0; i < TIDEI_COUNT(lengths); i++)
            for (unsigned kind = 0; kind < 4; kind++) {
                tide_array *whole = numbers_of(rt, some[t], 3, (int64_t[]){3, 2, lengths[i]}, 80),
                           *a = tide_transpose(whole, (const int[]){1, 0, 2}),
                           *mask = mask_of(rt, a, 2, 0, kind == 3 ? 100 : 60);
                check_select(a, mask);
                check_put(rt, a, mask, kind);
                tide_release(whole), tide_release(a), tide_release(mask);
            }
}

/* The mask and the values may lie in the array's own memory. */
static void what_shares_memory_is_copied_first(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    const bool bits[] = {1, 0, 1, 1};
    bool got[4];
    int32_t numbers_got[4];
    tide_array *a = tide_from_host(rt, TIDE_BOOL, SHAPE(2, 2), bits),
               *turned = tide_transpose(a, NULL), *no = tide_zeros(rt, TIDE_BOOL, 0, NULL);
    assert_ok(tide_masked_put(a, turned, no));
    assert_ok(tide_to_host(a, got, sizeof got));
    assert_memory_equal(got, ((bool[]){0, 0, 1, 0}), 4);
    tide_array *b = tide_arange(rt, TIDE_I32, 0, 4, 1), *back = tide_slice(b, "::-1"),
               *yes = tide_ones(rt, TIDE_BOOL, SHAPE(4));
    assert_ok(tide_masked_put(b, yes, back));
    assert_ok(tide_to_host(b, numbers_got, sizeof numbers_got));
    assert_memory_equal(numbers_got, ((int32_t[]){3, 2, 1, 0}), 16);
    tide_release(a), tide_release(turned), tide_release(no);
    tide_release(b), tide_release(back), tide_release(yes);
}

static void items_without_elements_are_counted(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3, 0)),
               *mask = tide_ones(rt, TIDE_BOOL, SHAPE(3)), *made = tide_masked_select(a, mask),
               *scalar = tide_ones(rt, TIDE_BOOL, 0, NULL), *rows = tide_argwhere(scalar);
    assert_int_equal(tide_array_dim(made, 0), 3);
    assert_int_equal(tide_array_dim(made, 1), 0);
    assert_int_equal(tide_array_dim(rows, 0), 1);
    assert_int_equal(tide_array_dim(rows, 1), 0);
    tide_release(a), tide_release(mask), tide_release(made), tide_release(scalar);
    tide_release(rows);
}

/* ---- refusals ---- */

static void what_does_not_fit_is_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3)), *zero = tide_ones(rt, TIDE_F32, 0, NULL),
               *mask = tide_ones(rt, TIDE_BOOL, SHAPE(2)),
               *wrong = tide_ones(rt, TIDE_BOOL, SHAPE(3)),
               *three = tide_ones(rt, TIDE_F32, SHAPE(3, 3)), *z = tide_ones(rt, TIDE_C64, 0, NULL),
               *four = tide_ones(rt, TIDE_F32, SHAPE(4)), *cell = tide_ones(rt, TIDE_F32, SHAPE(1)),
               *stretched = tide_broadcast_to(cell, SHAPE(2, 3)), *outs[2] = {NULL};
    assert_int_equal(tide_nonzero(zero, outs, 0), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "no axes");
    assert_int_equal(tide_nonzero(a, outs, 1), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "room for 1 results; the array has 2 axes");
    assert_int_equal(tide_nonzero(a, NULL, 2), TIDE_E_INVALID);
    assert_null(tide_count_nonzero(a, (int[]){2}, 1, 0));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_count_nonzero(a, (int[]){1, -1}, 2, 0));
    assert_error(TIDE_E_SHAPE, "axis 1 is given twice");
    assert_null(tide_count_nonzero(a, (int[]){1}, -1, 0));
    assert_error(TIDE_E_INVALID, "-1 axes");
    assert_null(tide_masked_select(a, wrong));
    assert_error(TIDE_E_SHAPE, "the mask has shape (3,), which does not begin the array's, (2, 3)");
    assert_null(tide_masked_select(a, a));
    assert_error(TIDE_E_DTYPE, "the mask is f32; wanted bool");
    assert_int_equal(tide_masked_put(a, mask, three), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "3 values for 2 places where the mask is true");
    assert_int_equal(tide_masked_put(a, mask, four), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "values of shape (4,) do not broadcast to items of shape (3,)");
    assert_int_equal(tide_masked_put(a, mask, z), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "c64 into f32");
    assert_int_equal(tide_masked_put(stretched, mask, zero), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "stretched");
    tide_array *const all[] = {a, zero, mask, wrong, three, z, four, cell, stretched};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
}

/* ---- failures ---- */

static void select_all(tide_runtime *rt, tide_status *status) {
    tide_array *a = tide_ones(rt, TIDE_F32, SHAPE(300, 50)), *turned = NULL, *outs[2] = {NULL},
               *mask = tide_ones(rt, TIDE_BOOL, SHAPE(300)), *got = NULL, *table = NULL, *n = NULL;
    *status = a && mask ? TIDE_OK : tide_error_last()->status;
    if (*status == TIDE_OK) *status = tide_nonzero(a, outs, 2);
    if (*status == TIDE_OK && !(got = tide_masked_select(a, mask)))
        *status = tide_error_last()->status;
    if (*status == TIDE_OK) {
        turned = tide_slice(got, "::-1");
        *status = turned ? tide_masked_put(a, mask, turned) : tide_error_last()->status;
    }
    if (*status == TIDE_OK && !(table = tide_argwhere(mask))) *status = tide_error_last()->status;
    if (*status == TIDE_OK && !(n = tide_count_nonzero(a, NULL, 0, 0)))
        *status = tide_error_last()->status;
    tide_array *const all[] = {a, mask, got, turned, table, n, outs[0], outs[1]};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++)
        if (all[i]) tide_release(all[i]);
}
static void a_failure_leaves_nothing(void **state) {
    (void)state;
    each_call_fails(select_all);
}

static void kernels_compile(void **state) {
    static const char *const some[] = {"picks_count_1", "picks_count_16", "picks_where_2",
                                       "picks_where_8", "picks_get_4",    "picks_put_16"};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(some); i++)
        compiles(tidei_picks_text, "picks.h", some[i], i % 2 ? 90 : 75);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
#define GPU_CASE(f)                                                                                \
    { "a_gpu: " #f, f, open_emulated, close_runtime, NULL }
    const struct CMUnitTest tests[] = {
        CASE(nonzero_agrees_with_the_model),
        CASE(a_gpus_kernels_find_the_same),
        GPU_CASE(a_gpus_kernels_find_the_same),
        CASE(signs_and_not_a_number),
        GPU_CASE(signs_and_not_a_number),
        CASE(count_nonzero_counts_over_axes),
        CASE(masks_agree_with_the_model),
        CASE(a_gpus_kernels_pick_the_same),
        GPU_CASE(a_gpus_kernels_pick_the_same),
        CASE(long_items_go_in_parts),
        GPU_CASE(long_items_go_in_parts),
        CASE(what_shares_memory_is_copied_first),
        GPU_CASE(what_shares_memory_is_copied_first),
        CASE(items_without_elements_are_counted),
        CASE(what_does_not_fit_is_refused),
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
