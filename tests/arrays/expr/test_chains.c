/* test_chains.c: chains, folds over rows and what hangs on them: that a GPU's kernels, emulated
** where there is none, give what the host gives value by value, and in one launch. Which forms
** there are is test_chain_plans.c's. */
#include "tests/doubles/emulated_device.h"
#include "arrays/expr/cuda_chain.h"
#include "tests/arrays/expr/programs.h"
#include "tests/arrays/expr/unit.h"
#include <float.h>
#include <math.h>

static tide_runtime *rt, *host; /* the GPU, or an emulated one; the host device */

static int open_both(void **state) {
    const tide_config c = {.collector = "refcount", .device = "host"};
    (void)state;
    rt = test_on_host() ? emulated_open(&(tide_config){.collector = "refcount"})
                        : test_open(&(tide_config){.collector = "refcount"});
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
    return tide_scope_begin(rt) || tide_scope_begin(host);
}
static int end_both(void **state) {
    (void)state;
    emulated_ops.kernel_widen = NULL;
    return tide_scope_end(rt) || tide_scope_end(host);
}

/* ---- arrays on both ---- */

/* How an array lies; SHIFTED: off its boundary. */
enum { PLAIN, TURNED, BACKWARDS, SHIFTED, GAPS, LAYOUTS };

typedef struct pair {
    tide_array *on[2]; /* rt, host */
} pair;

static tide_array *laid(tide_runtime *where, tide_dtype t, int ndim, const int64_t *shape,
                        const void *data, int how) {
    tide_array *x = tide_from_host(where, t, ndim, shape, data);
    if (how == TURNED && ndim) x = tide_transpose(tide_copy(tide_transpose(x, NULL)), NULL);
    if (how == BACKWARDS && ndim)
        x = tide_slice(tide_copy(tide_slice(x, "..., ::-1")), "..., ::-1");
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
        set_element(data + i * tide_dtype_size(t), t, CMPLX(x, t >= TIDE_C64 ? unit() * 2 : 0));
    }
    p.on[0] = laid(rt, t, ndim, shape, data, how);
    p.on[1] = laid(host, t, ndim, shape, data, how);
    free(data);
    return p;
}

static double tolerance_of(int t) {
    return t == TIDE_F16                     ? 0x1p-9
           : t == TIDE_BF16                  ? 0x1p-6
           : t == TIDE_F32 || t == TIDE_C64  ? 0x1p-17
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
        if (!near(creal(x), creal(y), tolerance_of(t)) ||
            !near(cimag(x), cimag(y), tolerance_of(t)))
            fail_msg("%s: result %u, element %zu is %.17g%+.17gi, not %.17g%+.17gi", text, result,
                     i, creal(x), cimag(x), creal(y), cimag(y));
    }
    free(a);
    free(b);
}

/* ---- running on both ---- */

#define MOST_RESULTS 4

/* Runs on both and compares; on the GPU by so many kernels (0: any number). */
static void compare(const char *text, const pair *in, size_t n, size_t m, unsigned launches) {
    tide_array *outs[2][MOST_RESULTS];
    unsigned before = 0;
    for (int side = 1; side >= 0; side--) {
        tide_arg args[8];
        for (size_t i = 0; i < n; i++) args[i] = tide_arg_array(in[i].on[side]);
        tide_expr *e = tide_expr_new(side ? host : rt, text);
        assert_non_null(e);
        before = atomic_load(&emulated_launches);
        assert_ok(tide_expr_apply_many(e, args, n, outs[side], m));
        tide_expr_release(e);
    }
    const unsigned took = atomic_load(&emulated_launches) - before;
    for (size_t i = 0; i < m; i++) check_same(text, (unsigned)i, outs[0][i], outs[1][i]);
    if (launches && is_emulated(rt) && took != launches)
        fail_msg("%s took %u launches, not %u", text, took, launches);
}

static void compare_one(const char *text, tide_dtype t, int ndim, const int64_t *shape, int how,
                        size_t m, unsigned launches) {
    const pair x = pair_of(t, ndim, shape, how);
    compare(text, &x, 1, m, launches);
}

#define SOFTMAX(axis)                                                                              \
    "(x) -> let e = exp(x - max(x, axis=" axis ", keepdims=true)); e / sum(e, axis=" axis          \
    ", keepdims=true)"

/* ---- forms ---- */

/* Lanes of a warp, a block, clusters; vectors where the length is a multiple of 4, and else but for
** a row's ends. */
static void rows_of_any_length(void **state) {
    static const int64_t lengths[] = {1,    2,    3,    7,     8,     24,    31,    32,    33,
                                      100,  128,  260,  1000,  1023,  1024,  1160,  2052,  4097,
                                      8192, 8196, 8193, 20000, 50257, 65536, 65001, 300001};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(lengths); i++) {
        const int64_t shape[] = {lengths[i] > 5000 ? 2 : i % 3 ? 5 : 40, lengths[i]};
        compare_one(SOFTMAX("-1"), TIDE_F32, 2, shape, PLAIN, 1, 1);
    }
    compare_one(SOFTMAX("-1"), TIDE_BF16, 2, (const int64_t[]){2, 50257}, PLAIN, 1, 1);
}

/* Rows that begin anywhere between vectors: several results, the first of equals, elements that are
** numbered, weights that lie otherwise and are folded or not, types of several widths. */
static void uneven_rows(void **state) {
    static const int64_t lengths[] = {9, 17, 21, 33, 65, 70, 127, 130, 1023, 4097, 9001, 33001};
    static const uint8_t types[] = {TIDE_F32, TIDE_F16, TIDE_BF16, TIDE_F64, TIDE_I8};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(lengths); i++) {
        const int64_t n = lengths[i], shape[] = {n > 4000 ? 3 : 21, n};
        const pair in[] = {pair_of(types[i % 4], 2, shape, PLAIN),
                           pair_of(types[i % 4], 1, &n, PLAIN), pair_of(TIDE_F32, 1, &n, PLAIN)};
        compare("(x, g, b) -> let d = x - mean(x * b, axis=1, keepdims=true);"
                " (d * g + b, argmax(x, axis=1), sum(x * index(1), axis=1), max(d, axis=1))",
                in, 3, 4, 1);
    }
    for (size_t i = 0; i < TIDEI_COUNT(types); i++)
        compare_one("(x) -> (argmin(x, axis=1), x - max(x, axis=1, keepdims=true) + index(0))",
                    types[i], 2, (const int64_t[]){30, 45}, PLAIN, 2, 1);
    const pair masked[] = {pair_of(TIDE_F32, 2, (const int64_t[]){11, 37}, PLAIN),
                           pair_of(TIDE_BOOL, 2, (const int64_t[]){11, 37}, PLAIN)};
    compare("(x, m) -> let y = where(m, x, -9); y - mean(y, axis=1, keepdims=true)", masked, 2, 1,
            1);
}

/* Short rows of odd lengths, which go through shared memory: any number of them, several operands
** of several widths, some the same for all rows or of one element a row, numbers of elements, what
** is written over, and what begins off a boundary, has gaps, or takes too much room. */
static void short_rows(void **state) {
    static const uint8_t types[] = {TIDE_F32, TIDE_F16, TIDE_BF16, TIDE_F64, TIDE_I8};
    static const int64_t rows[] = {2, 33, 300, 1700};
    (void)state;
    for (int64_t n = 3; n <= 17; n += 2) {
        const int64_t shape[] = {rows[n / 2 % 4], n};
        const tide_dtype t = types[n / 2 % 4];
        compare_one(SOFTMAX("-1"), t, 2, shape, PLAIN, 1, 1);
        const pair in[] = {pair_of(t, 2, shape, PLAIN), pair_of(TIDE_F32, 1, &n, PLAIN),
                           pair_of(TIDE_U8, 2, shape, PLAIN),
                           pair_of(TIDE_F32, 2, (const int64_t[]){shape[0], 1}, PLAIN)};
        compare("(x, g, m, h) -> let d = x - mean(x, axis=1, keepdims=true);"
                " (d * g + m * h, argmax(x, axis=1), m + max(m, axis=1, keepdims=true),"
                " sum(x * m + index(1), axis=1))",
                in, 4, 4, 1);
    }
    for (int how = TURNED; how < LAYOUTS; how++)
        compare_one(SOFTMAX("-1"), types[how], 2, (const int64_t[]){50, 7}, how, 1, 1);
    compare_one(
        "(x) -> (x - max(x, axis=1, keepdims=true), f64(x) * min(x, axis=1, keepdims=true))",
        TIDE_I8, 2, (const int64_t[]){90, 15}, PLAIN, 2, 1);
    const pair x = pair_of(TIDE_F32, 2, (const int64_t[]){600, 5}, PLAIN);
    for (int side = 0; side < 2; side++)
        assert_ok(tide_map_into(x.on[side], SOFTMAX("-1"), x.on[side]));
    check_same("in place", 0, x.on[0], x.on[1]);
}

/* Integers of one or two bytes, which lie in words: of any bits, so that signs count, and what lies
** beside an element in its word. */
static void short_integers(void **state) {
    static const uint8_t types[] = {TIDE_I8, TIDE_U8, TIDE_I16, TIDE_U16};
    static const int64_t shapes[][2] = {{7, 100}, {5, 1001}, {6, 64}, {2, 20001}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(types) * TIDEI_COUNT(shapes); i++) {
        const tide_dtype t = types[i / TIDEI_COUNT(shapes)];
        const int64_t *shape = shapes[i % TIDEI_COUNT(shapes)];
        unsigned char data[2 * 20001 * 2];
        for (size_t k = 0; k < sizeof data; k++) data[k] = (unsigned char)(unit() * 256);
        const int how = shape[1] == 64 ? SHIFTED : PLAIN;
        const pair x = {{laid(rt, t, 2, shape, data, how), laid(host, t, 2, shape, data, how)}};
        compare("(x) -> (sum(x, axis=1), max(x, axis=1), argmin(x, axis=1),"
                " x == min(x, axis=1, keepdims=true))",
                &x, 1, 4, 0);
    }
}

/* Views that begin anywhere, read and written; elements beside them keep what they have. */
static void uneven_views(void **state) {
    static const char text[] = "(x) -> x - max(x, axis=1, keepdims=true)";
    (void)state;
    for (int first = 0; first < 5; first++)
        for (int last = 60; last < 64; last++) {
            char range[32];
            const int64_t shape[] = {5, 65};
            const pair x = pair_of(first % 2 ? TIDE_F16 : TIDE_F32, 2, shape, PLAIN),
                       y = pair_of(first % 2 ? TIDE_F16 : TIDE_F32, 2, shape, PLAIN);
            snprintf(range, sizeof range, ":, %d:%d", first, last);
            for (int side = 0; side < 2; side++) {
                tide_array *from = tide_slice(x.on[side], range),
                           *to = tide_slice(y.on[side], range);
                assert_ok(tide_map_into(to, text, from));
                assert_ok(tide_map_into(from, text, from));
            }
            check_same(text, 0, x.on[0], x.on[1]);
            check_same(text, 0, y.on[0], y.on[1]);
        }
}

/* Halves whose place a value takes that is needed again; and those that are needed themselves. */
static void values_in_the_place_of_inputs(void **state) {
    static const char *const texts[] = {
        SOFTMAX("1"),
        "(x) -> let d = x - mean(x, axis=1, keepdims=true);"
        " d / sqrt(mean(d * d, axis=1, keepdims=true) + 1)",
        "(x) -> let d = x - mean(x, axis=1, keepdims=true);"
        " d / sqrt(mean(d * d, axis=1, keepdims=true) + 1) + x",
        "(x) -> let d = abs(x - mean(x, axis=1, keepdims=true));"
        " let q = d / (1 + max(d, axis=1, keepdims=true));"
        " (q - sum(q, axis=1, keepdims=true), argmax(q, axis=1))",
        "(x) -> let d = sqrt(abs(x)); d - max(d, axis=1, keepdims=true) * x"};
    static const int64_t shapes[][2] = {{9, 7}, {5, 33}, {4, 64}, {3, 1000}};
    (void)state;
    for (size_t k = 0; k < TIDEI_COUNT(texts); k++)
        for (size_t i = 0; i < TIDEI_COUNT(shapes); i++)
            compare_one(texts[k], (i + k) % 2 ? TIDE_BF16 : TIDE_F16, 2, shapes[i],
                        k % 2 ? PLAIN : TURNED, k == 3 ? 2 : 1, 1);
    const pair both[] = {pair_of(TIDE_BF16, 2, shapes[1], PLAIN),
                         pair_of(TIDE_BF16, 2, shapes[1], PLAIN)};
    compare("(x, y) -> let d = x * y; let e = d - max(x, axis=1, keepdims=true);"
            " e / (9 + max(e, axis=1, keepdims=true)) + y",
            both, 2, 1, 1);
}

/* Rows that run across memory. */
static void columns_of_any_length(void **state) {
    static const int64_t shapes[][2] = {{2, 64},   {5, 8},     {40, 12}, {40, 7},
                                        {300, 68}, {1030, 16}, {7, 130}, {33, 12},
                                        {37, 36},  {1000, 10}, {4097, 6}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(shapes); i++)
        compare_one(SOFTMAX("0"), TIDE_F32, 2, shapes[i], PLAIN, 1, 1);
    compare_one(SOFTMAX("1"), TIDE_F32, 3, (const int64_t[]){3, 50, 8}, PLAIN, 1, 1);
    /* bytes: so many columns a block that it has fewer threads than a cluster has columns in all */
    static const int64_t of_bytes[][2] = {{288, 1}, {300, 129}, {575, 3}, {1100, 257}};
    for (size_t i = 0; i < TIDEI_COUNT(of_bytes); i++) {
        compare_one("(x) -> x - max(x, axis=0, keepdims=true)", i % 2 ? TIDE_I8 : TIDE_U8, 2,
                    of_bytes[i], PLAIN, 1, 0);
        compare_one("(x) -> x != any(x, axis=0, keepdims=true)", TIDE_BOOL, 2, of_bytes[i], PLAIN,
                    1, 0);
    }
    const pair weighed[] = {pair_of(TIDE_F32, 2, (const int64_t[]){33, 12}, PLAIN),
                            pair_of(TIDE_F32, 2, (const int64_t[]){33, 1}, PLAIN)};
    compare("(x, g) -> (x - mean(x, axis=0, keepdims=true)) * g", weighed, 2, 1, 1);
    compare_one(SOFTMAX("-1"), TIDE_F32, 2, (const int64_t[]){12, 40}, TURNED, 1, 1);
}

/* Few rows that lie side by side, then other rows' elements: a group of them is a few lanes' of a
** warp, a block's, a cluster's. */
static void few_rows_side_by_side(void **state) {
    static const int64_t shapes[][3] = {{70, 7, 2},  {5, 40, 2},  {300, 9, 3},  {7, 100, 3},
                                        {2, 33, 12}, {3, 700, 2}, {2, 1000, 3}, {2, 6000, 3}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(shapes); i++) {
        if (test_quick() && i % 2) continue;
        compare_one(SOFTMAX("1"), TIDE_F32, 3, shapes[i], PLAIN, 1, 1);
    }
    static const int64_t of_bytes[][3] = {{9, 20, 2}, {5, 300, 6}, {2, 8000, 2}};
    for (size_t i = 0; i < TIDEI_COUNT(of_bytes); i++) {
        compare_one("(x) -> x - max(x, axis=1, keepdims=true)", TIDE_I8, 3, of_bytes[i], PLAIN, 1,
                    1);
        compare_one("(x) -> argmax(x, axis=1)", TIDE_I16, 3, of_bytes[i], PLAIN, 1, 1);
    }
    const int64_t shape[] = {6, 50, 3};
    compare_one("(x) -> let m = mean(x, axis=1, keepdims=true); (m, x - m, argmin(x, axis=1))",
                TIDE_F64, 3, shape, PLAIN, 3, 1);
    const pair weighed[] = {pair_of(TIDE_F32, 3, shape, PLAIN),
                            pair_of(TIDE_F32, 3, (const int64_t[]){1, 50, 1}, PLAIN),
                            pair_of(TIDE_F32, 3, (const int64_t[]){6, 1, 3}, PLAIN)};
    compare("(x, g, h) -> (x - mean(x, axis=1, keepdims=true)) * g + h", weighed, 3, 1, 1);
    /* vectors across rows, of which one input has an element for all */
    const pair splat[] = {pair_of(TIDE_F32, 3, (const int64_t[]){6, 50, 4}, PLAIN),
                          pair_of(TIDE_F32, 3, (const int64_t[]){6, 50, 1}, PLAIN)};
    compare("(x, g) -> (x - mean(x * g, axis=1, keepdims=true)) * g", splat, 2, 1, 1);
}

/* More than registers hold goes value by value. */
static void rows_that_do_not_fit(void **state) {
    (void)state;
    compare_one(SOFTMAX("-1"), TIDE_F32, 2, (const int64_t[]){1, 600000}, PLAIN, 1, 0);
    compare_one(SOFTMAX("0"), TIDE_F32, 2, (const int64_t[]){30000, 2}, PLAIN, 1, 0);
    /* two folded dimensions that are not one */
    compare_one("(x) -> x - mean(x, axis=(0, 2), keepdims=true)", TIDE_F32, 3,
                (const int64_t[]){3, 4, 5}, PLAIN, 1, 0);
}

/* Four stages of folds, so that blocks of a cluster use their rooms again: of rows, and of columns
** by blocks of several warps and of one. */
#define STAGES(axis)                                                                               \
    "(x) -> let a = x - max(x, axis=" axis ", keepdims=true);"                                     \
    " let b = a / (1 + sum(abs(a), axis=" axis ", keepdims=true));"                                \
    " let c = b - mean(b, axis=" axis ", keepdims=true);"                                          \
    " c / (1 + max(abs(c), axis=" axis ", keepdims=true))"
static void many_stages_of_clusters(void **state) {
    static const int64_t rows[] = {3, 40001}, columns[] = {1500, 70}, few[] = {1100, 3};
    (void)state;
    compare_one(STAGES("-1"), TIDE_F32, 2, rows, PLAIN, 1, 1);
    compare_one(STAGES("0"), TIDE_F32, 2, columns, PLAIN, 1, 1);
    compare_one(STAGES("0"), TIDE_F32, 2, few, PLAIN, 1, 1);
}

static tide_status refuse_wide(tidei_device *d, tidei_dkernel *k, unsigned blocks, unsigned threads,
                               unsigned shared_bytes) {
    (void)k;
    assert_true(blocks > TIDEI_CLUSTER_SURE && threads >= 32 && shared_bytes);
    return tidei_fail(TIDE_E_UNSUPPORTED, "test", "%s takes none", d->info.name);
}
static tide_status no_memory(tidei_device *d, tidei_dkernel *k, unsigned blocks, unsigned threads,
                             unsigned shared_bytes) {
    (void)d, (void)k, (void)blocks, (void)threads, (void)shared_bytes;
    return tidei_fail(TIDE_E_NOMEM, "test", "no memory to widen");
}

/* Clusters of more blocks than all devices take. */
static void wide_clusters(void **state) {
    static const int64_t rows[] = {2, 140001}, middle[] = {2, 132000}, columns[] = {4097, 70};
    (void)state;
    compare_one(SOFTMAX("-1"), TIDE_F32, 2, rows, PLAIN, 1, 1);
    compare_one(SOFTMAX("-1"), TIDE_BF16, 2, middle, PLAIN, 1, 1);
    compare_one(SOFTMAX("0"), TIDE_F32, 2, columns, PLAIN, 1, 1);
}

/* Where they are refused, it goes without them, each time, and nobody hears of it; other kernels
** have them. What is no refusal is told. */
static void wide_clusters_are_refused(void **state) {
    static const int64_t rows[] = {2, 150000}, columns[] = {4111, 6}, other[] = {2, 140001};
    static const char less[] = "(x) -> x - max(x, axis=1, keepdims=true)";
    tide_array *out;
    (void)state;
    if (!is_emulated(rt)) skip();
    emulated_ops.kernel_widen = refuse_wide;
    tide_error_clear();
    for (int again = 0; again < 2; again++) {
        compare_one("(x) -> x - max(x, axis=0, keepdims=true)", TIDE_F32, 2, columns, PLAIN, 1, 1);
        compare_one(less, TIDE_F32, 2, rows, PLAIN, 1, 1);
        assert_int_equal(tide_error_last()->status, TIDE_OK);
    }
    emulated_ops.kernel_widen = no_memory;
    const pair x = pair_of(TIDE_F32, 2, other, PLAIN);
    out = tide_map(rt, "(x) -> x + max(x, axis=1, keepdims=true)", x.on[0]);
    assert_null(out);
    assert_error(TIDE_E_NOMEM, "no memory to widen");
    emulated_ops.kernel_widen = NULL;
    compare("(x) -> x + max(x, axis=1, keepdims=true)", &x, 1, 1, 1);
}

static void layouts_and_types(void **state) {
    static const uint8_t types[] = {TIDE_F32, TIDE_F16, TIDE_BF16, TIDE_F64, TIDE_F32};
    (void)state;
    for (int how = 0; how < LAYOUTS; how++)
        compare_one(SOFTMAX("-1"), types[how], 2, (const int64_t[]){6, 56}, how, 1, 1);
    compare_one("(x) -> (x * 2 - sum(x, axis=1, keepdims=true), prod(x, axis=1), max(x, axis=1))",
                TIDE_I32, 2, (const int64_t[]){9, 20}, PLAIN, 3, 1);
    compare_one("(x) -> (x - mean(x, axis=1, keepdims=true), sum(x, axis=1))", TIDE_U8, 2,
                (const int64_t[]){9, 48}, PLAIN, 2, 1);
    compare_one("(x) -> x / sum(x, axis=-1, keepdims=true)", TIDE_C64, 2, (const int64_t[]){3, 300},
                PLAIN, 1, 1);
    compare_one("(x) -> x - mean(x, axis=0, keepdims=true)", TIDE_C128, 2, (const int64_t[]){30, 6},
                PLAIN, 1, 1);
    compare_one("(x) -> (any(x, axis=-1), all(x, axis=-1), x ^ any(x, axis=-1, keepdims=true))",
                TIDE_BOOL, 2, (const int64_t[]){7, 40}, PLAIN, 3, 1);
}

/* ---- what hangs on folds ---- */

static void several_results(void **state) {
    static const int64_t shape[] = {12, 96};
    (void)state;
    compare_one("(x) -> let m = max(x, axis=1, keepdims=true); let e = exp(x - m);"
                " let s = sum(e, axis=1, keepdims=true); (e / s, m + log(s))",
                TIDE_F32, 2, shape, PLAIN, 2, 1);
    compare_one("(x) -> let d = x - mean(x, axis=1, keepdims=true);"
                " (mean(x, axis=1), mean(d*d, axis=1), argmax(x, axis=1), min(x, axis=1))",
                TIDE_F32, 2, shape, PLAIN, 4, 1);
    /* with and without keepdims they are one fold */
    compare_one("(x) -> log(sum(exp(x - max(x, axis=1, keepdims=true)), axis=1)) + max(x, axis=1)",
                TIDE_F32, 2, shape, PLAIN, 1, 1);
}

static void other_inputs(void **state) {
    static const int64_t rows[] = {10, 64}, weights[] = {64}, each[] = {10, 1}, columns[] = {10};
    (void)state;
    const pair norm[] = {pair_of(TIDE_F32, 2, rows, PLAIN), pair_of(TIDE_F32, 1, weights, PLAIN),
                         pair_of(TIDE_F32, 1, weights, PLAIN)};
    compare("(x, g, b) -> let d = x - mean(x, axis=-1, keepdims=true);"
            " d / sqrt(mean(d*d, axis=-1, keepdims=true) + 1e-5) * g + b",
            norm, 3, 1, 1);
    const pair scaled[] = {norm[0], pair_of(TIDE_F32, 2, each, PLAIN)};
    compare("(x, s) -> x * s / (1 + sum(abs(x * s), axis=1, keepdims=true))", scaled, 2, 1, 1);
    const pair masked[] = {norm[0], pair_of(TIDE_BOOL, 2, rows, PLAIN)};
    compare("(x, m) -> let y = where(m, x, -inf); let e = exp(y - max(y, axis=1, keepdims=true));"
            " e / sum(e, axis=1, keepdims=true)",
            masked, 2, 1, 1);
    /* along columns: one element a column, and one a row of memory */
    const pair across[] = {pair_of(TIDE_F32, 2, (const int64_t[]){10, 8}, PLAIN),
                           pair_of(TIDE_F32, 1, (const int64_t[]){8}, PLAIN),
                           pair_of(TIDE_F32, 2, each, PLAIN)};
    compare("(x, a, w) -> (x - a) * w / (1 + sum(abs(x * w), axis=0))", across, 3, 1, 1);
    const pair sums[] = {norm[0], pair_of(TIDE_F32, 1, columns, PLAIN)};
    compare("(x, y) -> y + sum(x, axis=1) / max(x, axis=1)", sums, 2, 1, 1);
}

static void positions(void **state) {
    (void)state;
    compare_one(
        "(x) -> let y = where(index(1) <= index(0), x, -inf);"
        " let e = exp(y - max(y, axis=1, keepdims=true)); e / sum(e, axis=1, keepdims=true)",
        TIDE_F32, 2, (const int64_t[]){20, 20}, PLAIN, 1, 1);
    compare_one("(x) -> let y = x * index(0) + index(1); y - mean(y, axis=0)", TIDE_F32, 2,
                (const int64_t[]){20, 8}, PLAIN, 1, 1);
    /* an index of the result, which has fewer dimensions than the rows */
    compare_one("(x) -> sum(x, axis=1) + max(x, axis=1) * index(0)", TIDE_F32, 2,
                (const int64_t[]){6, 8}, PLAIN, 1, 0);
}

/* A fold without keepdims meets the last dimensions, in a square others than its own. */
static void folds_that_lie_across(void **state) {
    static const int64_t square[] = {16, 16};
    (void)state;
    compare_one("(x) -> x - sum(x, axis=1)", TIDE_F32, 2, square, PLAIN, 1, 2);
    compare_one("(x) -> x - sum(x, axis=0)", TIDE_F32, 2, square, PLAIN, 1, 1);
    compare_one("(x) -> x / sum(x)", TIDE_F32, 2, square, PLAIN, 1, 1);
    const pair two[] = {pair_of(TIDE_F32, 2, square, PLAIN), pair_of(TIDE_F32, 1, square, PLAIN)};
    /* y along the rows, and along the sums */
    compare("(x, y) -> (x * y - max(x, axis=1, keepdims=true), sum(x, axis=1) + y)", two, 2, 2, 0);
    compare("(x, y) -> (sum(x, axis=1) + y, x * y - max(x, axis=1, keepdims=true))", two, 2, 2, 0);
}

/* Rows of pairs are not kept: each operand would be read as often as there are rows. */
static void folds_of_pairs(void **state) {
    (void)state;
    const pair two[] = {pair_of(TIDE_F32, 3, (const int64_t[]){6, 1, 8}, PLAIN),
                        pair_of(TIDE_F32, 3, (const int64_t[]){1, 5, 8}, PLAIN)};
    compare("(x, y) -> sqrt(sum((x - y)**2, axis=2))", two, 2, 1, 2);
    compare("(x, y) -> (x - y) / sum((x - y)**2, axis=2, keepdims=true)", two, 2, 1, 1);
}

/* What reads a chain's values without being one of it. */
static void chains_among_other_values(void **state) {
    static const int64_t shape[] = {8, 24};
    (void)state;
    compare_one("(x) -> mean(log(sum(exp(x - max(x, axis=1, keepdims=true)), axis=1)))", TIDE_F32,
                2, shape, PLAIN, 1, 2);
    compare_one("(x) -> let r = x / sum(x, axis=1, keepdims=true);"
                " let c = x / sum(x, axis=0, keepdims=true); (r, c, r * c)",
                TIDE_F32, 2, shape, PLAIN, 3, 0);
    compare_one("(x) -> let s = cumsum(x, axis=1); (s / max(s, axis=1, keepdims=true),"
                " sum(s, axis=1))",
                TIDE_F32, 2, shape, PLAIN, 2, 2);
}

/* ---- values ---- */

static void special_values(void **state) {
    static const float v[] = {1,    INFINITY,  2,         3,         NAN,       4,    1,
                              1,    -INFINITY, -INFINITY, -INFINITY, -INFINITY, 0.0f, -0.0f,
                              0.0f, -0.0f,     5,         5,         5,         5};
    static const int64_t shape[] = {5, 4};
    (void)state;
    pair x;
    x.on[0] = tide_from_host(rt, TIDE_F32, 2, shape, v);
    x.on[1] = tide_from_host(host, TIDE_F32, 2, shape, v);
    compare(SOFTMAX("-1"), &x, 1, 1, 1);
    compare("(x) -> (max(x, axis=1), min(x, axis=1), argmax(x, axis=1), argmin(x, axis=1))", &x, 1,
            4, 1);
    /* all elements of a row meet the same maximum, of 0.0 and -0.0 too */
    tide_array *inverse = tide_map(rt, "(x) -> 1 / (x*0 + max(x, axis=1, keepdims=true))", x.on[0]);
    float got[20];
    assert_ok(tide_to_host(inverse, got, sizeof got));
    for (int i = 13; i < 16; i++) assert_true(got[i] == got[12]);
    const float zeros[] = {-0.0f, -0.0f, -0.0f};
    tide_array *z = tide_from_host(rt, TIDE_F32, SHAPE(1, 3), zeros), *s[2];
    assert_ok(tide_map_many(rt, s, 2, "(x) -> (sum(x, axis=1), max(x, axis=1))", z));
    assert_true(signbit(tide_item_f64(s[0])));
}

/* ---- quotients by a value of the row ---- */

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* x with x / d as near as there is one to the middle between two floats: where x is 2^shift times
** as large in units of d's last place, x = odd * d / 2 + `residue` of these. Both of 24 digits; 0:
** there is none. */
static uint32_t hard_dividend(uint32_t d, int shift, int residue) {
    uint64_t x = (uint64_t)((int64_t)d + residue) % d;
    for (int i = 0; i < shift; i++) x = (x & 1 ? x + d : x) / 2; /* d is odd */
    if (x < 1u << 23) x += d;
    return x >= 1u << 23 && x < 1u << 24 && (x >= d) == (shift == 24) ? (uint32_t)x : 0;
}

/* Rows of 64: all of one divisor. */
static void fill_quotients(float *x, float *d, int row) {
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                       0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0x0d800000, 0x0d7fffff, 0x717fffff, 0x71800000, 0x3f800000};
    const uint32_t digits = (uint32_t)(unit() * 0x1p22) * 2 + (1u << 23) + 1,
                   near = row % 3 ? digits : (1u << 24) - 1 - 2 * (uint32_t)(row % 64);
    const int scale = (int)(unit() * 60) - 30;
    const uint32_t bits = (uint32_t)(unit() * 0x1p24) << 8 | (uint32_t)(unit() * 256);
    const float by = row % 5 == 4   ? float_of(row % 2 ? bits : special[row / 5 % 15])
                     : row % 5 == 3 ? ldexpf(1, scale)
                                    : ldexpf((float)near, scale - 23);
    for (int i = 0; i < 64; i++) {
        const uint32_t hard =
            near > 1u << 23 ? hard_dividend(near, 24 + i % 2, (i / 2 % 8) - 4 + (i / 2 % 8 > 3))
                            : 0;
        d[i] = by;
        x[i] = i < 32 && hard ? ldexpf((float)hard, (int)(unit() * 140) - 70)
               : i < 48       ? (float)((unit() - 0.5) * exp2(unit() * 240 - 120))
                              : float_of(special[(i + row) % 15]);
    }
}

/* They have the bits of division, whatever is divided. */
static void quotients_are_exact(void **state) {
    enum { ROWS = 600 };
    static float x[ROWS][64], d[ROWS][64], got[ROWS][64];
    static const int64_t shape[] = {ROWS, 64};
    (void)state;
    for (int row = 0; row < ROWS; row++) fill_quotients(x[row], d[row], row);
    tide_array *quotients = tide_map(rt, "(x, d) -> x / max(d, axis=1, keepdims=true)",
                                     tide_from_host(rt, TIDE_F32, 2, shape, x),
                                     tide_from_host(rt, TIDE_F32, 2, shape, d));
    assert_ok(tide_to_host(quotients, got, sizeof got));
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 64; i++) {
            const float want = x[row][i] / d[row][i];
            if (memcmp(&want, &got[row][i], 4) && !(isnan(want) && isnan(got[row][i])))
                fail_msg("%a / %a is %a, not %a", x[row][i], d[row][i], got[row][i], want);
        }
}

/* Zeros of both signs among what is divided, by divisors of both, also 0 and infinity: by rows that
** begin anywhere, by columns, of halves. One over a quotient tells the sign of a zero. */
static void quotients_of_zeros(void **state) {
    enum { ROWS = 40, N = 45 };
    static const uint8_t types[] = {TIDE_F32, TIDE_F16, TIDE_BF16};
    static const float divisors[] = {3, -3, 0.7f, -0.7f, 0, -0.0f, INFINITY, -INFINITY};
    static const int64_t shape[] = {ROWS, N};
    static float x[ROWS][N], rows[ROWS][N], columns[ROWS][N];
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < N; k++) {
            x[i][k] = k % 3 == 0 ? 0.0f : k % 3 == 1 ? -0.0f : (float)unit() - 0.5f;
            rows[i][k] = divisors[i % 8];
            columns[i][k] = divisors[k % 8];
        }
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++) {
        pair in[3];
        for (int side = 0; side < 2; side++) {
            const void *const data[] = {x, rows, columns};
            for (int i = 0; i < 3; i++)
                in[i].on[side] =
                    tide_cast(tide_from_host(side ? host : rt, TIDE_F32, 2, shape, data[i]),
                              (tide_dtype)types[t]);
        }
        compare("(x, d) -> 1 / (x / max(d, axis=1, keepdims=true))", in, 2, 1, 1);
        in[1] = in[2];
        compare("(x, d) -> 1 / (x / max(d, axis=0, keepdims=true))", in, 2, 1, 1);
    }
}

static void nothing_and_one(void **state) {
    static const int64_t shapes[][2] = {{0, 4}, {3, 0}, {1, 1}, {4, 1}, {1, 8}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(shapes); i++)
        compare_one("(x) -> (x - mean(x, axis=1, keepdims=true), sum(x, axis=1))", TIDE_F32, 2,
                    shapes[i], PLAIN, 2, 0);
    compare_one("(x) -> (x - mean(x), sum(x))", TIDE_F32, 0, NULL, PLAIN, 2, 0);
    tide_array *none = tide_zeros(rt, TIDE_F32, SHAPE(3, 0));
    assert_null(tide_map(rt, SOFTMAX("-1"), none));
    assert_error(TIDE_E_EMPTY, "max of no elements has no value");
}

/* The bits of a row are its own: where there are more than a few rows, no other row changes them,
** nor does another run. */
static void a_rows_bits_are_its_own(void **state) {
    static const int64_t lengths[] = {24, 33, 100, 1023, 3000, 9000, 9001};
    (void)state;
    for (size_t i = 0; i < 2 * TIDEI_COUNT(lengths); i++) {
        const int64_t n = lengths[i / 2];
        tide_array *x = pair_of(TIDE_F32, 2 + i % 2, (const int64_t[]){7, n, 3}, PLAIN).on[0];
        tide_array *all = tide_map(rt, SOFTMAX("1"), x), *again = tide_map(rt, SOFTMAX("1"), x),
                   *some = tide_map(rt, SOFTMAX("1"), tide_slice(x, "4:6"));
        assert_true(tide_item_f64(tide_map(rt, "(a, b) -> sum(i64(a != b))", all, again)) == 0);
        assert_true(tide_item_f64(tide_map(rt, "(a, b) -> sum(i64(a != b))", tide_slice(all, "4:6"),
                                           some)) == 0);
    }
}

/* ---- destinations ---- */

static void into(const char *text, pair x, pair y, pair dst, unsigned launches) {
    for (int side = 1; side >= 0; side--) {
        const unsigned before = atomic_load(&emulated_launches);
        assert_ok(tide_map_into(dst.on[side], text, x.on[side], y.on[side]));
        if (!side && is_emulated(rt))
            assert_int_equal(atomic_load(&emulated_launches) - before, launches);
    }
    check_same(text, 0, dst.on[0], dst.on[1]);
}

static void over_what_is_read(void **state) {
    static const int64_t shape[] = {8, 8};
    (void)state;
    const pair x = pair_of(TIDE_F32, 2, shape, PLAIN), y = pair_of(TIDE_F32, 1, shape, PLAIN);
    into("(x, y) -> x - mean(x, axis=1, keepdims=true) + y", x, y, x, 1);
    /* the sums are written where another row's y is read: a temporary, and a copy */
    into("(x, y) -> sum(x * y, axis=1) / max(x, axis=1)", x, y, y, 1);
    /* a view with gaps */
    const pair wide = pair_of(TIDE_F32, 2, (const int64_t[]){8, 16}, PLAIN);
    pair gaps;
    for (int side = 0; side < 2; side++) gaps.on[side] = tide_slice(wide.on[side], ":, ::2");
    into("(x, y) -> x - mean(x, axis=1, keepdims=true) + y", x, y, gaps, 1);
    into("(x, y) -> x - mean(x, axis=1, keepdims=true) + y", gaps, y, gaps, 1);
    /* a turned one of the operand: a temporary */
    pair turned;
    for (int side = 0; side < 2; side++) turned.on[side] = tide_transpose(x.on[side], NULL);
    into("(x, y) -> x - mean(x, axis=1, keepdims=true) + y", x, y, turned, 2);
}

static void two_destinations(void **state) {
    static const int64_t shape[] = {6, 12}, rows[] = {6};
    (void)state;
    const pair x = pair_of(TIDE_F32, 2, shape, PLAIN);
    pair a = pair_of(TIDE_F32, 2, shape, PLAIN), b = pair_of(TIDE_F32, 1, rows, PLAIN);
    for (int side = 1; side >= 0; side--) {
        tide_expr *e = tide_expr_new(side ? host : rt, "(x) -> (x / max(x, axis=1, keepdims=true),"
                                                       " sum(x, axis=1))");
        tide_array *const dsts[] = {a.on[side], b.on[side]};
        const tide_arg arg = tide_arg_array(x.on[side]);
        assert_ok(tide_expr_apply_into(dsts, 2, e, &arg, 1));
        tide_expr_release(e);
    }
    check_same("two destinations", 0, a.on[0], a.on[1]);
    check_same("two destinations", 1, b.on[0], b.on[1]);
}

/* ---- folds alone ---- */

static void folds_of_short_rows(void **state) {
    static const char *const texts[] = {"(x) -> sum(x, axis=1)", "(x) -> argmax(x, axis=1)",
                                        "(x) -> mean(x, axis=0)"};
    static const int64_t shapes[][2] = {{600, 3},  {9, 100}, {5, 4096},
                                        {4, 2051}, {40, 64}, {1000, 36}};
    (void)state;
    for (size_t k = 0; k < TIDEI_COUNT(texts); k++)
        for (size_t i = 0; i < TIDEI_COUNT(shapes); i++)
            compare_one(texts[k], k == 2 ? TIDE_F16 : TIDE_F32, 2, shapes[i],
                        i == 4 ? TURNED : PLAIN, 1, 1);
}

/* Of rows that a cluster holds: one launch, however few they are. */
static void folds_of_long_rows(void **state) {
    static const int64_t rows[][2] = {{1, 200000}, {2, 70001}, {3, 40000}},
                         columns[][2] = {{2048, 40}, {3000, 5}, {5000, 1}, {1500, 33}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        compare_one("(x) -> max(x, axis=1)", TIDE_F32, 2, rows[i], PLAIN, 1, 1);
        compare_one("(x) -> argmin(x, axis=1)", TIDE_F16, 2, rows[i], PLAIN, 1, 1);
    }
    compare_one("(x) -> mean(x)", TIDE_F32, 2, (const int64_t[]){500, 256}, PLAIN, 1, 1);
    for (size_t i = 0; i < TIDEI_COUNT(columns); i++) {
        compare_one("(x) -> sum(x, axis=0)", TIDE_F32, 2, columns[i], PLAIN, 1, 1);
        compare_one("(x) -> argmax(x, axis=0)", TIDE_BF16, 2, columns[i], PLAIN, 1, 1);
    }
    const pair weighed[] = {pair_of(TIDE_F32, 2, columns[0], PLAIN),
                            pair_of(TIDE_F32, 2, (const int64_t[]){2048, 1}, PLAIN)};
    compare("(x, g) -> sum(x * g, axis=0)", weighed, 2, 1, 1);
    /* of bytes, and of more than a cluster holds: two */
    compare_one("(x) -> max(x)", TIDE_I8, 1, (const int64_t[]){400000}, PLAIN, 1, 2);
    compare_one("(x) -> max(x)", TIDE_F32, 1, (const int64_t[]){1200000}, PLAIN, 1, 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_both, end_both)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(rows_of_any_length),
        CASE(uneven_rows),
        CASE(uneven_views),
        CASE(short_rows),
        CASE(short_integers),
        CASE(values_in_the_place_of_inputs),
        CASE(columns_of_any_length),
        CASE(few_rows_side_by_side),
        CASE(rows_that_do_not_fit),
        CASE(many_stages_of_clusters),
        CASE(wide_clusters),
        CASE(wide_clusters_are_refused),
        CASE(layouts_and_types),
        CASE(several_results),
        CASE(other_inputs),
        CASE(positions),
        CASE(folds_that_lie_across),
        CASE(folds_of_pairs),
        CASE(chains_among_other_values),
        CASE(special_values),
        CASE(quotients_are_exact),
        CASE(quotients_of_zeros),
        CASE(nothing_and_one),
        CASE(a_rows_bits_are_its_own),
        CASE(over_what_is_read),
        CASE(two_destinations),
        CASE(folds_of_short_rows),
        CASE(folds_of_long_rows),
    };
    if (test_on_host() && !can_emulate()) return 0; /* no kernel runs here */
    return cmocka_run_group_tests_name("emulated", tests, open_both, close_both);
}
