/* test_layouts.c: expressions whose operands lie so that a GPU has kernels of their own for them,
** against slow models, on the device under test and with a GPU's kernels, emulated: shifted and
** strided views of long rows, folds of pairs. Elements are small integers, which all types hold
** exactly. */
#include "tests/doubles/emulated_device.h"
#include "tests/arrays/expr/programs.h"
#include "tests/arrays/expr/scoped.h"
#include <math.h>

/* Which kernels' texts have been compiled. */
static bool uneven_seen, pairs_seen;
static void note_kernel(char *text) {
    uneven_seen |= strstr(text, "/* cuda_uneven.cu") != NULL;
    pairs_seen |= strstr(text, "/* cuda_pair.cu") != NULL;
}

static int open_emulated(void **state) {
    (void)state;
    emulated_edit = note_kernel;
    rt = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}

static uint64_t random_state = 1;
static int pick(int n) { /* 0 .. n - 1 */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (unsigned)n);
}

/* An array of such numbers, and they themselves. */
static tide_array *numbers(tide_dtype t, int ndim, const int64_t *shape, double *v) {
    size_t n = 1, size = tide_dtype_size(t);
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    unsigned char *data = malloc(n * size);
    for (size_t i = 0; i < n; i++) {
        v[i] = t == TIDE_BOOL ? pick(2) : t == TIDE_U8 ? pick(9) : pick(17) - 8;
        set_element(data + i * size, t, v[i]);
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    free(data);
    assert_array(a);
    return a;
}

static void holds(tide_array *a, int64_t n, const double *want, double tolerance) {
    assert_array(a);
    const tide_dtype t = tide_array_dtype(a);
    const size_t size = tide_dtype_size(t);
    assert_int_equal(tide_array_size(a), n);
    unsigned char *data = malloc((size_t)n * size);
    assert_ok(tide_to_host(a, data, (size_t)n * size));
    for (int64_t i = 0; i < n; i++) {
        double got = creal(element(data + (size_t)i * size, t));
        if (!(fabs(got - want[i]) <= tolerance * fmax(1, fabs(want[i]))))
            fail_msg("%s, element %lld is %.9g, not %.9g", tide_dtype_name(t), (long long)i, got,
                     want[i]);
    }
    free(data);
}

/* ---- uneven rows ---- */

enum { ROWS = 21, WIDTH = 1031 };
static double plane[ROWS * WIDTH], wanted[ROWS * WIDTH];

/* What is around each inner element less four times itself: five views, each begins elsewhere. */
static void a_stencil(tide_dtype t) {
    tide_array *x = numbers(t, SHAPE(ROWS, WIDTH), plane);
    double *w = wanted;
    for (int i = 1; i < ROWS - 1; i++)
        for (int j = 1; j < WIDTH - 1; j++) {
            const double *at = &plane[i * WIDTH + j];
            *w++ = at[-WIDTH] + at[WIDTH] + at[-1] + at[1] - 4 * at[0];
        }
    tide_array *y =
        tide_map(rt, "(c, n, s, w, e) -> n + s + w + e - c - c - c - c",
                 tide_slice(x, "1:-1, 1:-1"), tide_slice(x, ":-2, 1:-1"), tide_slice(x, "2:, 1:-1"),
                 tide_slice(x, "1:-1, :-2"), tide_slice(x, "1:-1, 2:"));
    holds(y, w - wanted, wanted, 0);
}

/* Of one dimension, shifted against each other. */
static void a_difference(tide_dtype t, int by) {
    tide_array *x = numbers(t, SHAPE(ROWS * WIDTH), plane);
    const int64_t n = ROWS * WIDTH - by;
    for (int64_t i = 0; i < n; i++) wanted[i] = plane[i + by] + plane[i];
    holds(tide_map(rt, "(a, b) -> a + b", tide_slicef(x, "%d:", by), tide_slicef(x, ":-%d", by)), n,
          wanted, 0);
}

/* Every second element, backwards, beside one element a row. */
static void steps(tide_dtype t) {
    tide_array *x = numbers(t, SHAPE(ROWS, WIDTH), plane);
    const int64_t half = (WIDTH + 1) / 2;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < half; j++)
            wanted[i * half + j] = plane[i * WIDTH + WIDTH - 1 - 2 * j] + plane[i * WIDTH + 3];
    holds(tide_map(rt, "(a, b) -> a + b", tide_slice(x, ":, ::-2"), tide_slice(x, ":, 3:4")),
          ROWS * half, wanted, 0);
}

/* Into a view that begins anywhere: what is around it stays. */
static void into_a_view(tide_dtype t) {
    tide_array *x = numbers(t, SHAPE(ROWS, WIDTH), plane);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++)
            wanted[i * WIDTH + j] = plane[i * WIDTH + j] * (i && j > 2 && j < WIDTH - 1 ? 2 : 1);
    tide_array *inner = tide_slice(x, "1:, 3:-1");
    assert_ok(tide_map_into(inner, "(a) -> a + a", inner));
    holds(x, ROWS * WIDTH, wanted, 0);
}

static void uneven_rows(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_I8, TIDE_F16, TIDE_F64, TIDE_I32, TIDE_I16};
    (void)state;
    if (!rt) skip();
    for (size_t i = 0; i < TIDEI_COUNT(types); i++) {
        a_stencil(types[i]);
        for (int by = 1; by < 4; by++) a_difference(types[i], by);
        steps(types[i]);
        into_a_view(types[i]);
    }
}

/* ---- pairs ---- */

enum { MOST = 300 };
static double left[MOST * 80], right[MOST * 80], met[MOST * MOST];

static double step(const char *fold, double a, double x, bool first) {
    if (!strcmp(fold, "sum") || !strcmp(fold, "mean")) return first ? x : a + x;
    if (!strcmp(fold, "any")) return first ? x != 0 : a != 0 || x != 0;
    return first || (!strcmp(fold, "min") ? x < a : x > a) ? x : a;
}

/* fold((x - y)^2 + x) over `count` elements of rows and columns. */
static void meet(tide_dtype t, const char *fold, int rows, int columns, int count) {
    tide_array *x = numbers(t, SHAPE(rows, count), left),
               *y = numbers(t, SHAPE(count, columns), right); /* turned */
    char text[96];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double a = 0;
            for (int k = 0; k < count; k++) {
                const double p = left[i * count + k], d = p - right[k * columns + j];
                a = step(fold, a, d * d + p, k == 0);
            }
            met[i * columns + j] = !strcmp(fold, "mean") ? a / count : a;
        }
    snprintf(text, sizeof text, "(x, y) -> %s((x - y)**2 + x, axis=2)", fold);
    tide_array *z =
        tide_map(rt, text, tide_expand_dims(x, 1), tide_expand_dims(tide_transpose(y, NULL), 0));
    holds(z, (int64_t)rows * columns, met, t == TIDE_F16 ? 2e-3 : 1e-6);
}

static void distances(int rows, int columns, int count) {
    tide_array *x = numbers(TIDE_F32, SHAPE(rows, count), left),
               *y = numbers(TIDE_F32, SHAPE(columns, count), right);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double a = 0;
            for (int k = 0; k < count; k++) {
                const double d = left[i * count + k] - right[j * count + k];
                a += d * d;
            }
            met[i * columns + j] = sqrt(a);
        }
    holds(tide_map(rt, "(x, y) -> sqrt(sum((x - y)**2, axis=2))", tide_expand_dims(x, 1),
                   tide_expand_dims(y, 0)),
          (int64_t)rows * columns, met, 1e-6);
}

static void folds_of_pairs(void **state) {
    static const char *const folds[] = {"sum", "max", "min", "mean", "any"};
    static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_I32, TIDE_F16};
    (void)state;
    if (!rt) skip();
    distances(200, 300, 64);
    distances(131, 77, 3);
    distances(40, 40, 80);
    for (size_t i = 0; i < TIDEI_COUNT(folds); i++) {
        const tide_dtype t = types[i % TIDEI_COUNT(types)];
        meet(t, folds[i], 100, 70, 20);
        meet(t, folds[i], 33, 290, 33);
    }
}

/* The nearest column of each row: a fold of pairs inside another fold. */
static void the_nearest(void **state) {
    enum { POINTS = 150, CENTRES = 64, AXES = 5 };
    double nearest[POINTS];
    (void)state;
    if (!rt) skip();
    tide_array *x = numbers(TIDE_F32, SHAPE(POINTS, AXES), left),
               *y = numbers(TIDE_F32, SHAPE(CENTRES, AXES), right);
    for (int i = 0; i < POINTS; i++) {
        double least = INFINITY;
        for (int j = 0; j < CENTRES; j++) {
            double a = 0;
            for (int k = 0; k < AXES; k++) a += pow(left[i * AXES + k] - right[j * AXES + k], 2);
            if (a < least) least = a, nearest[i] = j;
        }
    }
    holds(tide_map(rt, "(x, y) -> argmin(sum((x - y)**2, axis=2), axis=1)", tide_expand_dims(x, 1),
                   tide_expand_dims(y, 0)),
          POINTS, nearest, 0);
}

static void a_gpus_kernels_were_those_meant(void **state) {
    (void)state;
    if (!rt) skip();
    assert_true(uneven_seen && pairs_seen);
}

static int begin_if(void **state) { return rt ? begin(state) : 0; }
static int end_if(void **state) { return rt ? end(state) : 0; }

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_if, end_if)
    const struct CMUnitTest tests[] = {CASE(uneven_rows), CASE(folds_of_pairs), CASE(the_nearest)};
    const struct CMUnitTest again[] = {CASE(uneven_rows), CASE(folds_of_pairs), CASE(the_nearest),
                                       CASE(a_gpus_kernels_were_those_meant)};
    int failed = cmocka_run_group_tests_name("here", tests, open_rt, close_rt);
    return failed + cmocka_run_group_tests_name("emulated", again, open_emulated, close_rt);
}
