/* test_scan.c: running folds against a slow model, on the host and on a device that runs the GPU's
** kernels; their special values, refusals and failures; the kernels' CUDA text. */
#include "tests/arrays/compiles.h"
#include "tests/arrays/scans.h"
#include "tests/doubles/emulated_failures.h"

extern const char tidei_scan_text[];

static int open_runtime(void **state) {
    seed = 1;
    *state = test_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int open_emulated(void **state) {
    seed = 1;
    *state = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static void check(tide_array *a, int scan, int axis, unsigned flags) {
    tide_array *made = scans[scan].fn(a, axis - tide_array_ndim(a), flags);
    check_scan(a, made, scan, axis, flags);
    tide_release(made);
}

static void try_one(tide_runtime *rt, tide_dtype t, int scan, int ndim, const int64_t *shape,
                    unsigned how, int axis, unsigned flags) {
    if (scans[scan].ordered && is_complex(t)) return;
    tide_array *a = view(exact(rt, t, ndim, shape, scan), how);
    check(a, scan, axis % tide_array_ndim(a), flags);
    tide_release(a);
}

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
        {1, {1}, 0},         {1, {9}, 0},          {1, {1030}, 0},       {2, {3, 5003}, 1},
        {1, {20001}, 0},     {2, {2, 9001}, 1},    {2, {96, 1030}, 1},   {2, {5, 7}, 0},
        {2, {700, 40}, 0},   {3, {3, 300, 33}, 1}, {2, {9000, 3}, 0},    {3, {2, 3, 4}, 1},
        {3, {3, 4, 50}, 2},  {2, {700, 9}, 1},     {2, {77, 16}, 1},     {2, {33, 33}, 1},
        {3, {3, 300, 9}, 1}, {2, {700, 12}, 0},    {3, {3, 100, 9}, 1},  {3, {200, 5, 8}, 1},
        {2, {40, 128}, 1},   {3, {30, 21, 3}, 1},  {2, {9, 129}, 1},     {2, {3, 513}, 1},
        {2, {9001, 2}, 0},   {2, {9000, 7}, 0},    {3, {3, 600, 29}, 1}, {2, {700, 65}, 0},
        {2, {500, 131}, 0},  {3, {9, 7, 41}, 1},   {3, {30, 8, 5}, 1},
    };
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++)
        for (unsigned s = 0; s < TIDEI_COUNT(shapes); s++)
            for (unsigned flags = k ? (s + k) % 4 : 0; flags < 4; flags += k ? 4 : 1)
                try_one(rt, kinds[k].t, kinds[k].scan, shapes[s].ndim, shapes[s].shape,
                        flags ? (s + flags + k) % 5 : 0, shapes[s].axis, flags);
}

/* The form that a shape takes, and how many launches that is, on a device of three multiprocessors,
** which have 6144 threads at once. */
static void a_gpus_forms_are_chosen_by_the_shape(void **state) {
    static const struct {
        tide_dtype t;
        int ndim;
        int64_t shape[3];
        int axis;
        const char *form;
        unsigned launches;
    } cases[] = {
        /* of one element: a copy, and one that converts */
        {TIDE_F32, 2, {9, 1}, 1, NULL, 0},
        {TIDE_I8, 2, {9, 1}, 1, "flat map", 1},
        {TIDE_F32, 2, {9, 2}, 1, "scan_short_sum_f32", 1},
        {TIDE_F32, 2, {9, 128}, 1, "scan_short_sum_f32", 1},
        {TIDE_F32, 2, {9, 129}, 1, "scan_rows_sum_f32", 1},
        {TIDE_F16, 2, {9, 3}, 1, "scan_columns_sum_f16", 1},
        {TIDE_F16, 2, {9, 4}, 1, "scan_short_sum_f16", 1},
        {TIDE_F16, 2, {9, 256}, 1, "scan_short_sum_f16", 1},
        {TIDE_F16, 2, {9, 257}, 1, "scan_rows_sum_f16", 1},
        {TIDE_I8, 2, {9, 64}, 1, "scan_short_sum_i8", 1}, /* its sums have 8 bytes */
        {TIDE_I8, 2, {9, 65}, 1, "scan_rows_sum_i8", 1},
        /* side by side: enough of them; enough elements; neither; too few */
        {TIDE_F32, 3, {3, 4, 32}, 1, "scan_columns_sum_f32", 1},
        {TIDE_F32, 3, {3, 256, 8}, 1, "scan_columns_sum_f32", 3},
        {TIDE_F32, 3, {96, 8, 8}, 1, "scan_columns_sum_f32", 1},
        {TIDE_F32, 3, {3, 255, 8}, 1, "scan_rows_sum_f32", 1},
        {TIDE_F32, 3, {20, 100, 7}, 1, "scan_short_sum_f32", 1},
        {TIDE_F32, 3, {20, 9, 2}, 1, "scan_short_sum_f32", 1},
        /* as many as are loaded at once, of few lines half as many */
        {TIDE_F32, 3, {20, 8, 8}, 1, "scan_columns_sum_f32", 1},
        {TIDE_F32, 3, {20, 9, 8}, 1, "scan_short_sum_f32", 1},
        {TIDE_F32, 3, {20, 4, 2}, 1, "scan_columns_sum_f32", 1},
        {TIDE_F32, 3, {20, 5, 2}, 1, "scan_short_sum_f32", 1},
        /* or up to 64, of many lines of which five to seven lie side by side */
        {TIDE_I8, 3, {1229, 9, 5}, 1, "scan_columns_sum_i8", 1},
        {TIDE_I8, 3, {1228, 9, 5}, 1, "scan_short_sum_i8", 1},
        {TIDE_I8, 3, {1536, 9, 4}, 1, "scan_short_sum_i8", 1},
        {TIDE_I8, 3, {1229, 64, 5}, 1, "scan_columns_sum_i8", 1},
        {TIDE_I8, 3, {1229, 65, 5}, 1, "scan_rows_sum_i8", 1},
        {TIDE_F32, 2, {6144, 9}, 1, "scan_short_sum_f32", 1},
        /* bands: full tiles, or a quarter of one; of up to 64 lines; not of many */
        {TIDE_F32, 3, {1, 1056, 2}, 1, "scan_bands_sum_f32", 1},
        {TIDE_F32, 3, {1, 1055, 2}, 1, "scan_tiles_sum_f32", 1},
        {TIDE_I8, 3, {1, 544, 2}, 1, "scan_bands_sum_i8", 1}, /* its sums have 8 bytes */
        {TIDE_C128, 2, {36, 64}, 0, "scan_bands_sum_c128", 1},
        {TIDE_F32, 2, {231, 65}, 0, "scan_bands_sum_f32", 1},
        {TIDE_F32, 2, {230, 65}, 0, "scan_columns_sum_f32", 3},
        {TIDE_F16,
         2,
         {231, 65},
         0,
         "scan_columns_sum_f16",
         3}, /* of small elements few lines alone */
        {TIDE_F16, 2, {1200, 7}, 0, "scan_bands_sum_f16", 1},
        {TIDE_C64, 2, {1400 * 68, 64}, 0, "scan_bands_sum_c64", 1},
        {TIDE_C64, 2, {1400 * 68 + 1, 64}, 0, "scan_columns_sum_c64", 3}, /* too long a chain */
        {TIDE_F32, 3, {24, 132, 128}, 1, "scan_bands_sum_f32", 1},
        {TIDE_F32, 3, {25, 132, 128}, 1, "scan_columns_sum_f32", 1},
    };
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        tide_array *a = tide_ones(rt, cases[i].t, cases[i].ndim, cases[i].shape);
        const unsigned before = atomic_load(&emulated_launches);
        tide_array *s = tide_cumsum(a, cases[i].axis, 0);
        assert_array(s);
        assert_int_equal(atomic_load(&emulated_launches) - before, cases[i].launches);
        if (cases[i].form) assert_string_equal(atomic_load(&emulated_last), cases[i].form);
        tide_release(s);
        tide_release(a);
    }
}

/* More tiles than a group has. */
static void a_gpus_tiles_find_the_groups_before_them(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    try_one(rt, TIDE_F64, SUM, 1, (int64_t[]){4096 * 257 - 1}, 0, 0, TIDE_SCAN_REVERSE);
}

/* Bands of more tiles than a group has. */
static void a_gpus_bands_find_the_groups_before_them(void **state) {
    tide_runtime *rt = *state;
    if (!rt) skip();
    try_one(rt, TIDE_BF16, SUM, 2, (int64_t[]){9000, 33}, 0, 0, TIDE_SCAN_INITIAL);
    try_one(rt, TIDE_I8, MAX, 3, (int64_t[]){2, 9000, 33}, 1, 1, TIDE_SCAN_REVERSE);
    try_one(rt, TIDE_C64, PROD, 3, (int64_t[]){2, 3000, 64}, 3, 1, 0);
    try_one(rt, TIDE_C128, SUM, 3, (int64_t[]){2, 2000, 64}, 0, 1, TIDE_SCAN_REVERSE);
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
    each_emulated_call_fails(scan_all);
}

static void kernels_compile(void **state) {
    static const char *const some[] = {
        "scan_rows_sum_f16",        "scan_short_max_f16",   "scan_short_sum_i8",
        "scan_tiles_sum_c128",      "scan_tiles_max_truth", "scan_columns_prod_bf16",
        "scan_column_sums_min_i16", "scan_tiles_sum_i32",   "scan_columns_prod_c64",
        "scan_tiles_sum_f32",       "scan_bands_prod_c128", "scan_bands_sum_u8",
        "scan_bands_min_bf16"};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(some); i++)
        compiles(tidei_scan_text, "scan.cu", some[i], i % 2 ? 90 : 75);
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
        GPU_CASE(a_gpus_forms_are_chosen_by_the_shape),
        GPU_CASE(a_gpus_tiles_find_the_groups_before_them),
        GPU_CASE(a_gpus_bands_find_the_groups_before_them),
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
