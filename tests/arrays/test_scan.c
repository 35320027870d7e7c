/* test_scan.c: running folds against a slow model, on the host and on a device that runs the GPU's
** kernels; their special values, refusals and failures; the kernels' CUDA text. */
#include <math.h>
#include "runtime/device/cuda/nvrtc.h"
#include "tests/arrays/every_failure.h"
#include "tests/doubles/emulated_device.h"
#include "tests/support/views.h"

extern const char tidei_scan_text[];

static int open_runtime(void **state) {
    seed = 1;
    *state = test_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int open_emulated(void **state) {
    *state = NULL;
    if (!emu_compiler() || !test_on_host()) return 0;
    emulated_device = true;
    (void)open_runtime(state);
    emulated_device = false;
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

typedef tide_array *scan_fn(tide_array *a, int axis, unsigned flags);
static const struct {
    scan_fn *fn;
    bool ordered;
} scans[] = {{tide_cumsum, false}, {tide_cumprod, false}, {tide_cummin, true}, {tide_cummax, true}};
enum { SUM, PROD, MIN, MAX, SCANS };

static bool is_complex(tide_dtype t) { return t == TIDE_C64 || t == TIDE_C128; }

/* ---- the model: numbers that every type adds and multiplies exactly ---- */

static double none_of(int scan, tide_dtype t) {
    static const double most[] = {
        [TIDE_BOOL] = 1,     [TIDE_I8] = 0x1p7,         [TIDE_I16] = 0x1p15,
        [TIDE_I32] = 0x1p31, [TIDE_I64] = 0x1p63,       [TIDE_U8] = 255,
        [TIDE_U16] = 65535,  [TIDE_U32] = 4294967295.0, [TIDE_U64] = 0x1p64};
    bool is_signed = tidei_dtype_kind(t) == TIDEI_KIND_INT;
    if (scan <= PROD) return scan == PROD;
    if (tidei_dtype_kind(t) == TIDEI_KIND_FLOAT) return scan == MIN ? INFINITY : -INFINITY;
    if (scan == MIN) return most[t] - is_signed;
    return is_signed ? -most[t] : 0;
}

static void join(int scan, double *re, double *im, double r, double i) {
    double was = *re;
    switch (scan) {
    case SUM:
        *re += r;
        *im += i;
        break;
    case PROD:
        *re = was * r - *im * i;
        *im = was * i + *im * r;
        break;
    case MIN: *re = fmin(was, r); break;
    default: *re = fmax(was, r);
    }
}

static tide_dtype wide_of(tide_dtype t) {
    tidei_kind k = tidei_dtype_kind(t);
    return k == TIDEI_KIND_UINT ? TIDE_U64 : k <= TIDEI_KIND_INT ? TIDE_I64 : t;
}

static void check(tide_array *a, int scan, int axis, unsigned flags) {
    tide_array *made = scans[scan].fn(a, axis - tide_array_ndim(a), flags);
    assert_array(made);
    numbers in = read_back(a), out = read_back(made);
    bool reverse = flags & TIDE_SCAN_REVERSE, initial = (flags & TIDE_SCAN_INITIAL) != 0;
    int64_t n = in.shape[axis], inner = 1, places = n + initial;
    tide_dtype t = tide_array_dtype(a), wide = wide_of(t);
    assert_int_equal(tide_array_dtype(made), scan <= PROD ? wide : t);
    assert_true(tide_array_is_contiguous(made));
    for (int d = axis + 1; d < in.ndim; d++) inner *= in.shape[d];
    for (int d = 0; d < in.ndim; d++)
        assert_int_equal(out.shape[d], d == axis ? places : in.shape[d]);
    for (int64_t line = 0; line < (places ? out.n / places : 0); line++) {
        int64_t from = line / inner * n * inner + line % inner,
                to = line / inner * places * inner + line % inner;
        double re = none_of(scan, t), im = 0;
        if (initial) assert_true(out.re[to + (reverse ? n : 0) * inner] == re);
        for (int64_t k = 0; k < n; k++) {
            int64_t i = reverse ? n - 1 - k : k, o = to + (i + (initial && !reverse)) * inner;
            join(scan, &re, &im, in.re[from + i * inner], in.im[from + i * inner]);
            if (out.re[o] != re || out.im[o] != im)
                fail_msg("%s, scan %d, flags %u, axis %d of %d, %lld: %g+%gi, wanted %g+%gi",
                         tide_dtype_name(t), scan, flags, axis, in.ndim, (long long)i, out.re[o],
                         out.im[o], re, im);
        }
    }
    drop(&in);
    drop(&out);
    tide_release(made);
}

/* Elements of which no partial sum or product is rounded: -1, 0, 1 for sums (of bf16, which has 8
** digits, seldom but 0), -1, 1 for products, anything small where only the order counts. */
static tide_array *exact(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape, int scan) {
    size_t size = tide_dtype_size(t), n = 1;
    bool below = tidei_dtype_kind(t) != TIDEI_KIND_UINT && t != TIDE_BOOL;
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    unsigned char *raw = malloc(n * size + 1);
    for (size_t i = 0; i < n; i++) {
        int64_t v = scan == SUM    ? ((int64_t)draw(3) - 1) * (t != TIDE_BF16 || !draw(16))
                    : scan == PROD ? (int64_t)draw(2) * 2 - 1
                                   : (int64_t)draw(100) - 50;
        if (!below && v < 0) v = -v;
        if (t == TIDE_BOOL) v = v > 0;
        tide_arg x = tide_arg_int(v);
        if (is_complex(t))
            x = draw(2) ? tide_arg_complex((double)v, 0) : tide_arg_complex(0, (double)v);
        assert_ok(tidei_encode(x, t, "test", raw + i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, raw);
    assert_array(a);
    free(raw);
    return a;
}

/* The array itself, or a view of it. */
static tide_array *view(tide_array *a, unsigned how) {
    static const char *const slices[] = {"...", "::-1, ...", "..., ::2", "..., ::-1", "..., 1:"};
    tide_array *v;
    switch (how) {
    case 5: v = tide_transpose(a, NULL); break;
    case 6: v = tide_expand_dims(a, 0); break;
    default: v = tide_slice(a, slices[how]);
    }
    assert_array(v);
    tide_release(a);
    return v;
}
enum { VIEWS = 7 };

static void try_one(tide_runtime *rt, tide_dtype t, int scan, int ndim, const int64_t *shape,
                    unsigned how, int axis, unsigned flags) {
    if (scans[scan].ordered && is_complex(t)) return;
    tide_array *a = view(exact(rt, t, ndim, shape, scan), how);
    check(a, scan, axis % tide_array_ndim(a), flags);
    tide_release(a);
}

static const tide_dtype types[] = {TIDE_BOOL, TIDE_I8,  TIDE_I16, TIDE_I32, TIDE_I64,
                                   TIDE_U8,   TIDE_U16, TIDE_U32, TIDE_U64, TIDE_F16,
                                   TIDE_BF16, TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};

/* ---- values ---- */

static void scans_agree_with_the_model(void **state) {
    tide_runtime *rt = *state;
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++)
        for (int scan = 0; scan < SCANS; scan++)
            for (unsigned round = 0; round < 24; round++) {
                static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 31, 65};
                int ndim = 1 + (int)draw(4);
                int64_t shape[4];
                for (int d = 0; d < ndim; d++) shape[d] = lengths[draw(d ? 6 : 8)];
                try_one(rt, types[t], scan, ndim, shape, (unsigned)draw(VIEWS), (int)draw(4),
                        (unsigned)draw(4));
            }
}

static void scans_of_long_lines_agree(void **state) {
    tide_runtime *rt = *state;
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++)
        for (int scan = 0; scan < SCANS; scan++) {
            try_one(rt, types[t], scan, 1, (int64_t[]){70001}, t % 5, 0, t % 4);
            try_one(rt, types[t], scan, 2, (int64_t[]){700, 101}, (t + scan) % VIEWS, scan, t % 4);
        }
}

/* Every way that a GPU's kernels have: rows, tiles and groups of tiles, columns whole and in parts;
** of 1 to 16 bytes; vectors and single elements. */
static void a_gpus_kernels_give_the_same(void **state) {
    static const struct {
        tide_dtype t;
        int scan;
    } kinds[] = {{TIDE_F32, SUM}, {TIDE_I32, SUM},  {TIDE_C128, PROD},
                 {TIDE_I8, MAX},  {TIDE_BF16, SUM}, {TIDE_F64, MIN}};
    static const struct {
        int ndim;
        int64_t shape[3];
        int axis;
    } shapes[] = {
        {1, {1}, 0},        {1, {9}, 0},          {1, {1030}, 0},     {2, {3, 5003}, 1},
        {1, {20001}, 0},    {2, {2, 9001}, 1},    {2, {96, 1030}, 1}, {2, {5, 7}, 0},
        {2, {700, 40}, 0},  {3, {3, 300, 33}, 1}, {2, {9000, 3}, 0},  {3, {2, 3, 4}, 1},
        {3, {3, 4, 50}, 2},
    };
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++)
        for (unsigned s = 0; s < TIDEI_COUNT(shapes); s++)
            for (unsigned flags = k ? (s + k) % 4 : 0; flags < 4; flags += k ? 4 : 1)
                try_one(rt, kinds[k].t, kinds[k].scan, shapes[s].ndim, shapes[s].shape,
                        flags ? (s + flags + k) % 5 : 0, shapes[s].axis, flags);
}

/* More tiles than a group has. */
static void a_gpus_tiles_find_the_groups_before_them(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    try_one(rt, TIDE_F64, SUM, 1, (int64_t[]){4096 * 257 - 1}, 0, 0, TIDE_SCAN_REVERSE);
}

/* Parts of lines side by side, and parts of what those come to. */
static void a_gpus_parts_have_parts(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    try_one(rt, TIDE_BF16, SUM, 2, (int64_t[]){9000, 33}, 0, 0, TIDE_SCAN_INITIAL);
    try_one(rt, TIDE_I8, MAX, 3, (int64_t[]){2, 9000, 33}, 1, 1, TIDE_SCAN_REVERSE);
}

static void floats_come_near_and_the_same_again(void **state) {
    enum { N = 100000 };
    tide_runtime *rt = *state;
    if (!rt) skip();
    float *x = malloc(N * sizeof *x), *got = malloc(N * sizeof *got), *again = malloc(N * 4);
    double sum = 0;
    for (int i = 0; i < N; i++) x[i] = (float)((double)draw(1 << 20) * 0x1p-20 - 0.25);
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(N), x), *s = tide_cumsum(a, 0, 0),
               *t = tide_cumsum(a, 0, 0);
    assert_array(s);
    assert_ok(tide_to_host(s, got, N * 4));
    assert_ok(tide_to_host(t, again, N * 4));
    assert_memory_equal(got, again, N * 4);
    for (int i = 0; i < N; i++) {
        sum += (double)x[i];
        assert_true(fabs(got[i] - sum) <= 1e-3 * (1 + fabs(sum)));
    }
    free(x);
    free(got);
    free(again);
    tide_release(a);
    tide_release(s);
    tide_release(t);
}

static void nan_wins_and_stays(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    const double x[] = {2, INFINITY, -INFINITY, NAN, 5};
    tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(5), x);
    static const double wanted[SCANS][5] = {{2, INFINITY, NAN, NAN, NAN},
                                            {2, INFINITY, -INFINITY, NAN, NAN},
                                            {2, 2, -INFINITY, NAN, NAN},
                                            {2, INFINITY, INFINITY, NAN, NAN}};
    for (int scan = 0; scan < SCANS; scan++) {
        double got[5];
        tide_array *s = scans[scan].fn(a, 0, 0);
        assert_array(s);
        assert_ok(tide_to_host(s, got, sizeof got));
        for (int i = 0; i < 5; i++)
            assert_true(isnan(wanted[scan][i]) ? isnan(got[i]) : got[i] == wanted[scan][i]);
        tide_release(s);
    }
    tide_release(a);
}

/* Nothing is put before the first element: -0.0 stays, and an infinite complex number does. */
static void the_first_element_stays_as_it_is(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    const float x[] = {-0.0f, -0.0f}, z[] = {INFINITY, 1};
    float got[2];
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(2), x), *s = tide_cumsum(a, 0, 0);
    assert_ok(tide_to_host(s, got, sizeof got));
    assert_true(signbit(got[0]) && signbit(got[1]));
    tide_array *c = tide_from_host(rt, TIDE_C64, SHAPE(1), z), *p = tide_cumprod(c, 0, 0);
    assert_ok(tide_to_host(p, got, sizeof got));
    assert_memory_equal(got, z, sizeof z);
    tide_release(a);
    tide_release(s);
    tide_release(c);
    tide_release(p);
}

static void integers_wrap(void **state) {
    tide_runtime *rt = *state;
    const int64_t x[] = {INT64_MAX, 1, INT64_MAX};
    int64_t got[3];
    tide_array *a = tide_from_host(rt, TIDE_I64, SHAPE(3), x), *s = tide_cumsum(a, 0, 0),
               *p = tide_cumprod(a, 0, 0);
    assert_ok(tide_to_host(s, got, sizeof got));
    assert_int_equal(got[1], INT64_MIN);
    assert_int_equal(got[2], -1);
    assert_ok(tide_to_host(p, got, sizeof got));
    assert_int_equal(got[2], 1);
    tide_release(a);
    tide_release(s);
    tide_release(p);
}

/* ---- refusals ---- */

static void what_cannot_be_scanned_is_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(2, 3)),
               *zero = tide_zeros(rt, TIDE_F32, 0, NULL), *z = tide_zeros(rt, TIDE_C64, SHAPE(2));
    tide_array *one = tide_zeros(rt, TIDE_BOOL, SHAPE(1)),
               *vast = tide_broadcast_to(one, SHAPE(INT64_MAX));
    assert_null(tide_cumsum(a, 2, 0));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_cumprod(a, -3, 0));
    assert_error(TIDE_E_BOUNDS, "axis -3");
    assert_null(tide_cummin(zero, 0, 0));
    assert_error(TIDE_E_BOUNDS, "0 dimensions");
    assert_null(tide_cummax(a, 0, 5));
    assert_error(TIDE_E_INVALID, "flags are 0x5, of which 0x4 are none");
    assert_null(tide_cummax(z, 0, 0));
    assert_error(TIDE_E_DTYPE, "cummax is offered for bool, integers, floats, not for c64");
    assert_null(tide_cumsum(NULL, 0, 0));
    if (vast) {
        assert_null(tide_cummax(vast, 0, TIDE_SCAN_INITIAL));
        assert_error(TIDE_E_NOMEM, "axis 0");
        tide_release(vast);
    }
    tide_error_clear();
    tide_release(a);
    tide_release(zero);
    tide_release(z);
    tide_release(one);
}

/* ---- failures ---- */

static void scan_all(tide_runtime *rt, tide_status *status) {
    tide_array *a = tide_ones(rt, TIDE_F32, SHAPE(3, 5000)), *made[3] = {NULL};
    *status = TIDE_OK;
    if (a) {
        made[0] = tide_cumsum(a, 1, 0);
        made[1] = made[0] ? tide_cummax(made[0], 0, TIDE_SCAN_INITIAL) : NULL;
        made[2] = made[1] ? tide_cumprod(made[1], 1, TIDE_SCAN_REVERSE) : NULL;
    }
    if (!made[2]) *status = tide_error_last()->status;
    for (int i = 0; i < 3; i++)
        if (made[i]) tide_release(made[i]);
    if (a) tide_release(a);
}
static void a_failure_leaves_nothing(void **state) {
    (void)state;
    each_call_fails(scan_all);
}
static void a_gpus_failure_leaves_nothing(void **state) {
    (void)state;
    if (!emu_compiler()) skip();
    emulated_device = true;
    each_call_fails(scan_all);
    emulated_device = false;
}

static void kernels_compile(void **state) {
    static const char *const some[] = {"scan_rows_sum_f16",        "scan_tiles_sum_c128",
                                       "scan_tiles_max_truth",     "scan_columns_prod_bf16",
                                       "scan_column_sums_min_i16", "scan_tiles_sum_i32",
                                       "scan_columns_prod_c64",    "scan_tiles_sum_f32"};
    void *image;
    size_t bytes;
    (void)state;
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
    for (unsigned i = 0; i < TIDEI_COUNT(some); i++) {
        char *text = malloc(strlen(tidei_scan_text) + 100);
        sprintf(text, "#define TIDE_WANTS_%s 1\n%s", some[i], tidei_scan_text);
        assert_ok(tidei_nvrtc_compile(text, "scan.cu", i % 2 ? 90 : 75, &image, &bytes));
        assert_true(bytes > 0);
        free(image);
        free(text);
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
#define GPU_CASE(f)                                                                                \
    { "a_gpu: " #f, f, open_emulated, close_runtime, NULL }
    const struct CMUnitTest tests[] = {
        CASE(scans_agree_with_the_model),
        CASE(scans_of_long_lines_agree),
        CASE(a_gpus_kernels_give_the_same),
        GPU_CASE(a_gpus_kernels_give_the_same),
        GPU_CASE(a_gpus_tiles_find_the_groups_before_them),
        GPU_CASE(a_gpus_parts_have_parts),
        CASE(floats_come_near_and_the_same_again),
        GPU_CASE(floats_come_near_and_the_same_again),
        CASE(nan_wins_and_stays),
        GPU_CASE(nan_wins_and_stays),
        CASE(the_first_element_stays_as_it_is),
        GPU_CASE(the_first_element_stays_as_it_is),
        CASE(integers_wrap),
        CASE(what_cannot_be_scanned_is_refused),
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(a_gpus_failure_leaves_nothing),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
