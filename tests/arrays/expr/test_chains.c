/* test_chains.c: chains, folds over rows and what hangs on them: which there are in a plan, and that a
** GPU's kernels, emulated, give what the host gives value by value. */
#include "tests/doubles/emulated_device.h"
#include "arrays/expr/front.h"
#include "tests/arrays/expr/programs.h"
#include <float.h>
#include <math.h>

static tide_runtime *rt, *host; /* the emulated device; the host device */

static int open_both(void **state) {
    const tide_config c = {.collector = "refcount", .device = "host"};
    (void)state;
    rt = emulated_open(&(tide_config){.collector = "refcount"});
    host = test_open(&c);
    return 0;
}
static int close_both(void **state) {
    (void)state;
    tide_close(rt);
    tide_close(host);
    return 0;
}
static int begin_both(void **state) {
    (void)state;
    if (!rt) skip();
    return tide_scope_begin(rt) || tide_scope_begin(host);
}
static int end_both(void **state) {
    (void)state;
    return rt ? tide_scope_end(rt) || tide_scope_end(host) : 0;
}

/* ---- arrays on both ---- */

static uint64_t seed = 7;
static double unit(void) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (double)((z ^ z >> 27) >> 40) * 0x1p-24;
}

/* How an array lies; SHIFTED: off its boundary. */
enum { PLAIN, TURNED, BACKWARDS, SHIFTED, GAPS, LAYOUTS };

typedef struct pair {
    tide_array *on[2]; /* rt, host */
} pair;

static tide_array *laid(tide_runtime *where, tide_dtype t, int ndim, const int64_t *shape,
                        const void *data, int how) {
    tide_array *x = tide_from_host(where, t, ndim, shape, data);
    if (how == TURNED && ndim) x = tide_transpose(tide_copy(tide_transpose(x, NULL)), NULL);
    if (how == BACKWARDS && ndim) x = tide_slice(tide_copy(tide_slice(x, "..., ::-1")), "..., ::-1");
    if (how == SHIFTED || how == GAPS) { /* within a larger one */
        int64_t wider[TIDE_MAX_RANK], n = ndim ? shape[ndim - 1] : 1;
        char range[64];
        for (int d = 0; d < ndim; d++) wider[d] = shape[d];
        if (ndim) wider[ndim - 1] = how == SHIFTED ? n + 1 : 2 * n + 1;
        tide_array *y = tide_zeros(where, t, ndim, wider);
        snprintf(range, sizeof range, how == SHIFTED ? "..., 1:" : "..., 1::2");
        if (ndim) {
            y = tide_slice(y, range);
            assert_ok(tide_assign(y, x));
            x = y;
        }
    }
    assert_array(x);
    return x;
}

static pair pair_of(tide_dtype t, int ndim, const int64_t *shape, int how) {
    pair p;
    size_t n = 1;
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    unsigned char *data = calloc(n + 1, 16);
    if (!data) abort();
    for (size_t i = 0; i < n; i++) {
        const double x = t < TIDE_F16 ? floor(unit() * (t == TIDE_BOOL ? 2 : 9)) : unit() * 8 - 3;
        set_element(data + i * tide_dtype_size(t), t,
                    CMPLX(x, t >= TIDE_C64 ? unit() * 2 : 0));
    }
    p.on[0] = laid(rt, t, ndim, shape, data, how);
    p.on[1] = laid(host, t, ndim, shape, data, how);
    free(data);
    return p;
}

static double tolerance_of(int t) {
    return t == TIDE_F16                      ? 0x1p-9
           : t == TIDE_BF16                   ? 0x1p-6
           : t == TIDE_F32 || t == TIDE_C64   ? 0x1p-17
           : t == TIDE_F64 || t == TIDE_C128 ? 0x1p-45
                                              : 0;
}

static bool near(double a, double b, double tolerance) {
    return isnan(a) || isnan(b) ? isnan(a) && isnan(b)
                                : a == b || fabs(a - b) <= tolerance * fmax(1, fabs(b));
}

/* Both hold the same, but for what rounding in another order makes of it. */
static void check_same(const char *text, unsigned result, tide_array *got, tide_array *want) {
    assert_array(got);
    assert_array(want);
    const int t = tide_array_dtype(want);
    assert_int_equal(tide_array_dtype(got), t);
    assert_int_equal(tide_array_ndim(got), tide_array_ndim(want));
    for (int d = 0; d < tide_array_ndim(want); d++)
        assert_int_equal(tide_array_dim(got, d), tide_array_dim(want, d));
    const size_t n = (size_t)tide_array_size(want), size = tide_dtype_size((tide_dtype)t);
    unsigned char *a = malloc(n * size + 1), *b = malloc(n * size + 1);
    assert_ok(tide_to_host(got, a, n * size));
    assert_ok(tide_to_host(want, b, n * size));
    for (size_t i = 0; i < n; i++) {
        const double complex x = element(a + i * size, t), y = element(b + i * size, t);
        if (!near(creal(x), creal(y), tolerance_of(t)) || !near(cimag(x), cimag(y), tolerance_of(t)))
            fail_msg("%s: result %u, element %zu is %.17g%+.17gi, not %.17g%+.17gi", text, result, i,
                     creal(x), cimag(x), creal(y), cimag(y));
    }
    free(a);
    free(b);
}

/* ---- running on both ---- */

#define MOST_RESULTS 4
/* Runs on both and compares; on the GPU as one kernel, which is seen by its being the only one that
** is new, if `fresh`. */
static void compare(const char *text, const pair *in, size_t n, size_t m) {
    tide_array *outs[2][MOST_RESULTS];
    for (int side = 0; side < 2; side++) {
        tide_arg args[8];
        for (size_t i = 0; i < n; i++) args[i] = tide_arg_array(in[i].on[side]);
        tide_expr *e = tide_expr_new(side ? host : rt, text);
        assert_non_null(e);
        assert_ok(tide_expr_apply_many(e, args, n, outs[side], m));
        tide_expr_release(e);
    }
    for (size_t i = 0; i < m; i++) check_same(text, (unsigned)i, outs[0][i], outs[1][i]);
}

#define SOFTMAX "(x) -> let e = exp(x - max(x, axis=-1, keepdims=true)); e / sum(e, axis=-1, keepdims=true)"

static void softmax_of_rows_of_any_length(void **state) {
    static const int64_t lengths[] = {1, 2, 3, 7, 8, 31, 32, 33, 100, 128, 260, 1000, 1024, 2052};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(lengths); i++) {
        const int64_t shape[] = {i % 3 ? 5 : 40, lengths[i]};
        const pair x = pair_of(TIDE_F32, 2, shape, PLAIN);
        compare(SOFTMAX, &x, 1, 1);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_both, end_both)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(softmax_of_rows_of_any_length),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
