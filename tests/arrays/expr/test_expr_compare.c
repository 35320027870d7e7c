/* Comparisons of arrays with numbers, on the device under test, against exact arithmetic: a number
** beyond the range of the arrays' type compares as mathematics says, one within it as a number of
** the type, which is the nearest there is. */
#include "arrays/expr/front.h"
#include "tests/arrays/expr/scoped.h"
#include <float.h>
#include <math.h>

/* ---- exact values ---- long double holds all integers of 64 bits and all doubles */

_Static_assert(LDBL_MANT_DIG >= 64, "64-bit integers are exact");
typedef long double exact;

static const char *const texts[] = {"==", "!=", "<", "<=", ">", ">="};
enum { EQ, NE, LT, LE, GT, GE, OPS };

static bool compare(int op, exact a, exact b) {
    switch (op) {
    case EQ: return a == b;
    case NE: return a != b;
    case LT: return a < b;
    case LE: return a <= b;
    case GT: return a > b;
    default: return a >= b;
    }
}

static bool is_whole(tide_dtype t) { return t <= TIDE_U64; }
static exact exact_of(const tide_arg *v) {
    switch (v->kind) {
    case TIDE_ARG_FLOAT: return v->value.f;
    case TIDE_ARG_UINT: return (exact)v->value.u;
    default: return (exact)v->value.i;
    }
}
static exact greatest(tide_dtype t) {
    switch (t) {
    case TIDE_F16: return 65504;
    case TIDE_BF16: return 0x1.fep127L;
    case TIDE_F32:
    case TIDE_C64: return FLT_MAX;
    default: return DBL_MAX;
    }
}

/* A real number beside floats of type t (of complex numbers: their parts'). */
static exact beside_floats(tide_dtype t, const tide_arg *v) {
    unsigned char element[16];
    exact x = exact_of(v);
    if (isfinite(x) && fabsl(x) > greatest(t)) return x;
    assert_ok(tidei_encode(*v, t, "test", element));
    tide_arg rounded = tidei_decode(element, t);
    return rounded.kind == TIDE_ARG_COMPLEX ? rounded.value.c[0] : rounded.value.f;
}

static bool wanted(int op, tide_dtype t, const tide_arg *element, const tide_arg *number,
                   bool left) {
    exact x = exact_of(element), n = exact_of(number);
    if (is_whole(t) && number->kind == TIDE_ARG_FLOAT) /* computes in f64 */
        x = (double)x;
    else if (!is_whole(t))
        n = beside_floats(t, number);
    return left ? compare(op, n, x) : compare(op, x, n);
}

/* ---- elements and numbers ---- */

#define F(x)                                                                                       \
    {                                                                                              \
        TIDE_ARG_FLOAT, 0, { .f = (x) }                                                            \
    }
#define I(x)                                                                                       \
    {                                                                                              \
        TIDE_ARG_INT, 0, { .i = (x) }                                                              \
    }
#define U(x)                                                                                       \
    {                                                                                              \
        TIDE_ARG_UINT, 0, { .u = (x) }                                                             \
    }
static const tide_arg numbers[] = {{TIDE_ARG_BOOL, 0, {.i = 0}},
                                   {TIDE_ARG_BOOL, 0, {.i = 1}},
                                   I(0),
                                   I(1),
                                   I(2),
                                   I(-1),
                                   I(127),
                                   I(128),
                                   I(-128),
                                   I(-129),
                                   I(255),
                                   I(256),
                                   I(300),
                                   I(32767),
                                   I(32768),
                                   I(-32768),
                                   I(-32769),
                                   I(65535),
                                   I(65536),
                                   I(65504),
                                   I(65519),
                                   I(65520),
                                   I(-65520),
                                   I(100000),
                                   I(INT32_MAX),
                                   I((int64_t)INT32_MAX + 1),
                                   I(INT32_MIN),
                                   I((int64_t)INT32_MIN - 1),
                                   I(UINT32_MAX),
                                   I((int64_t)UINT32_MAX + 1),
                                   I(INT64_MAX),
                                   I(INT64_MIN),
                                   I(INT64_MIN + 1),
                                   U(7),
                                   U((uint64_t)1 << 63),
                                   U(UINT64_MAX),
                                   F(0.5),
                                   F(-0.0),
                                   F(255.0),
                                   F(255.5),
                                   F(-1e5),
                                   F(65504.0),
                                   F(65519.9),
                                   F(65520.0),
                                   F(-65504.5),
                                   F(0x1.fep127),
                                   F(0x1.feffp127),
                                   F(-0x1.ffp127),
                                   F(0x1.fffffep127),
                                   F(0x1.fffffe1p127),
                                   F(0x1.ffffffp127),
                                   F(-1e39),
                                   F(1e39),
                                   F(1e308),
                                   F(-1.7e308),
                                   F(0x1p63),
                                   F(-0x1p63),
                                   F(0x1p64),
                                   F(1e-320),
                                   F(INFINITY),
                                   F(-INFINITY),
                                   F(NAN)};

enum { MOST = 24 };
/* Elements of type t at and around its ends, as arguments too. */
static int64_t elements_of(tide_dtype t, unsigned char *data, tide_arg *values) {
    static const double some[] = {0,        -0.0,      1,       -1,       2,          127,
                                  255,      0.5,       -65504,  65504,    0x1.fep127, -0x1.fep127,
                                  FLT_MAX,  -FLT_MAX,  DBL_MAX, -DBL_MAX, 0x1p63,     0x1p64,
                                  INFINITY, -INFINITY, NAN};
    size_t size = tide_dtype_size(t);
    unsigned bits = 8 * (unsigned)size;
    int64_t n = 0;
    for (size_t i = 0; i < TIDEI_COUNT(some); i++) {
        tide_arg v = tide_arg_float(some[i]);
        if (is_whole(t) && (some[i] != trunc(some[i]) || !isfinite(some[i]))) continue;
        if (tidei_encode(v, t, "test", data + (size_t)n * size) == TIDE_OK) n++;
    }
    if (t >= TIDE_I8 && t <= TIDE_U64)
        for (int k = 0; k < 2; k++, n++) { /* the ends */
            uint64_t top = (uint64_t)1 << (bits - 1), v = t <= TIDE_I64 ? (k ? top : top - 1)
                                                          : k           ? 0
                                                                        : UINT64_MAX;
            memcpy(data + (size_t)n * size, &v, size);
        }
    assert_true(n <= MOST);
    for (int64_t i = 0; i < n; i++) values[i] = tidei_decode(data + (size_t)i * size, t);
    tide_error_clear();
    return n;
}

/* The number as text; false where the grammar has none. */
static bool written(const tide_arg *v, char *buf, size_t cap) {
    switch (v->kind) {
    case TIDE_ARG_BOOL: snprintf(buf, cap, "%s", v->value.i ? "true" : "false"); break;
    case TIDE_ARG_INT: snprintf(buf, cap, "%lld", (long long)v->value.i); break;
    case TIDE_ARG_UINT: snprintf(buf, cap, "%llu", (unsigned long long)v->value.u); break;
    default: {
        double f = v->value.f;
        if (isnan(f))
            snprintf(buf, cap, "nan");
        else if (isinf(f))
            snprintf(buf, cap, f > 0 ? "inf" : "-inf");
        else
            snprintf(buf, cap, "%.17e", f);
    }
    }
    return true;
}

static void check(const char *text, tide_array *a, int64_t n, const bool *want,
                  const tide_arg *values) {
    bool got[MOST];
    if (!a) fail_msg("%s: %s", text, tide_error_last()->message);
    assert_int_equal(tide_array_dtype(a), TIDE_BOOL);
    assert_true(tide_array_ndim(a) == 1 && tide_array_dim(a, 0) == n);
    assert_ok(tide_to_host(a, got, (size_t)n));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("%s, x = %Lg: %d", text, exact_of(&values[i]), got[i]);
}

/* Every type, operator, number and side; the number as a parameter, written, and computed from a
** parameter. */
static void every_number_compares_as_it_is(void **state) {
    (void)state;
    for (int t = TIDE_BOOL; t < TIDE_C64; t++) {
        _Alignas(16) unsigned char data[MOST * 8];
        tide_arg values[MOST];
        int64_t n = elements_of(t, data, values);
        tide_array *x = tide_from_host(rt, t, 1, &n, data);
        for (int op = 0; op < OPS; op++)
            for (size_t k = 0; k < TIDEI_COUNT(numbers); k++)
                for (int left = 0; left < 2; left++) {
                    const tide_arg *v = &numbers[k], args[] = {tide_arg_array(x), *v};
                    bool want[MOST];
                    char text[128], number[48];
                    assert_ok(tide_scope_begin(rt));
                    for (int64_t i = 0; i < n; i++) want[i] = wanted(op, t, &values[i], v, left);
                    snprintf(text, sizeof text, left ? "(x, n) -> n %s x" : "(x, n) -> x %s n",
                             texts[op]);
                    check(text, tide_map_args(rt, text, args, 2), n, want, values);
                    if (v->kind != TIDE_ARG_UINT || v->value.u <= INT64_MAX) {
                        snprintf(text, sizeof text, "(x, n) -> %s %s %s",
                                 left ? "where(true, n, n)" : "x", texts[op],
                                 left ? "x" : "where(true, n, n)");
                        check(text, tide_map_args(rt, text, args, 2), n, want, values);
                    }
                    if (written(v, number, sizeof number)) {
                        snprintf(text, sizeof text, "(x) -> %s %s %s", left ? number : "x",
                                 texts[op], left ? "x" : number);
                        check(text, tide_map_args(rt, text, args, 1), n, want, values);
                    }
                    assert_ok(tide_scope_end(rt));
                }
    }
}

/* Of complex numbers there is equality: both parts. */
static void complex_numbers_are_only_equal_or_not(void **state) {
    static const double parts[] = {0, -0.0, 1, 3e38, 1e39, -1e200, INFINITY, NAN};
    enum { N = TIDEI_COUNT(parts) };
    (void)state;
    for (int t = TIDE_F16; t <= TIDE_C128; t++) {
        bool complex = t >= TIDE_C64,
             narrow = t == TIDE_F16 || t == TIDE_BF16 || t == TIDE_F32 || t == TIDE_C64;
        tide_dtype part = t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
        for (int a = 0; a < N; a++)
            for (int b = 0; b < (complex ? N : 1); b++) {
                tide_arg z =
                    complex ? tide_arg_complex(parts[a], parts[b]) : tide_arg_float(parts[a]);
                tide_array *x = tide_full(rt, t, 0, NULL, z);
                if (!x) continue; /* it is no number of the type */
                for (int c = 0; c < N; c++)
                    for (int d = 0; d < N; d++) {
                        tide_arg v = tide_arg_complex(parts[c], parts[d]),
                                 pc = tide_arg_float(parts[c]), pd = tide_arg_float(parts[d]),
                                 pa = tide_arg_float(parts[a]),
                                 pb = tide_arg_float(complex ? parts[b] : 0);
                        tide_dtype common = narrow ? TIDE_C64 : TIDE_C128;
                        bool same = beside_floats(part, &pa) == beside_floats(common, &pc) &&
                                    beside_floats(part, &pb) == beside_floats(common, &pd);
                        assert_true(tide_item_f64(tide_map(rt, "(x, n) -> x == n", x, v)) == same);
                        assert_true(tide_item_f64(tide_map(rt, "(x, n) -> n != x", x, v)) == !same);
                    }
            }
    }
    tide_array *z = tide_full(rt, TIDE_C64, 0, NULL, tide_arg_complex(1, INFINITY));
    assert_true(tide_item_f64(tide_map(rt, "(z) -> z == 1e39", z)) == 0);
    assert_true(tide_item_f64(tide_map(rt, "(z) -> z != 1 + 1e39i", z)) == 1);
    tide_error_clear();
}

/* ---- within expressions ---- */

static void is(const char *text, const tide_arg *args, size_t n, double want) {
    tide_array *a = tide_map_args(rt, text, args, n);
    if (!a) fail_msg("%s: %s", text, tide_error_last()->message);
    double got = tide_item_f64(a);
    if (got != want) fail_msg("%s gives %g, not %g", text, got, want);
}

static void comparisons_compute_inside_expressions(void **state) {
    (void)state;
    tide_arg x = tide_arg_array(tide_arange(rt, TIDE_U8, 250, 256, 1)), big = tide_arg_int(300),
             small = tide_arg_int(-1), in = tide_arg_int(253);
    is("(x, n) -> sum(x < n)", (tide_arg[]){x, big}, 2, 6);
    is("(x, n) -> sum(where(x < n, x, 0))", (tide_arg[]){x, in}, 2, 250 + 251 + 252);
    is("(x, n, m) -> sum(i32(n < x && x <= m) + 10*i32(x == n))", (tide_arg[]){x, small, big}, 3,
       6);
    is("(x, n, m) -> sum(i32(n < x && x <= m) + 10*i32(x == n))", (tide_arg[]){x, in, big}, 3,
       2 + 10);
    is("(x, n) -> sum(x < n) + 100*sum(x > n) + 10000*sum(x != n)", (tide_arg[]){x, big}, 2, 60006);
    is("(x, n) -> sum((x < n) == (x < n/2))", (tide_arg[]){x, tide_arg_int(600)}, 2, 6);
    is("(x, n) -> sum(x < 1000 || u8(x - 1) < n)", (tide_arg[]){x, in}, 2, 6);
    is("(x) -> sum(x >= -1) + sum(x == 1e9) + sum(0x100 > x)", &x, 1, 12);
    is("(n) -> i64(n) < 18446744073709551615", &in, 1, 1); /* of rank 0 */
    is("(n) -> u64(n) >= -1", &in, 1, 1);
    is("() -> -1 < 18446744073709551615", NULL, 0, 1); /* numbers among themselves */
    is("() -> 18446744073709551615 == 18446744073709551615", NULL, 0, 1);
    is("(n) -> 9223372036854775808 <= n", &in, 1, 0);
    tide_array *bits = tide_zeros(rt, TIDE_BOOL, SHAPE(6)),
               *wide = tide_zeros(rt, TIDE_BOOL, SHAPE(2, 6));
    assert_ok(tide_map_into_args(bits, "(x, n) -> x != n", (tide_arg[]){x, big}, 2));
    assert_true(tide_item_f64(tide_sum(bits, NULL, 0, 0)) == 6);
    tide_expr *e = tide_expr_new(rt, "(x, y, n) -> (x < n, sum(x), (y | y) == (x > n))");
    tide_array *outs[3];
    assert_ok(tide_expr_apply_many(e, (tide_arg[]){x, tide_arg_array(wide), big}, 3, outs, 3));
    assert_true(tide_array_ndim(outs[0]) == 1 && tide_array_ndim(outs[2]) == 2); /* shapes stay */
    assert_true(tide_item_f64(tide_sum(outs[2], NULL, 0, 0)) == 12);
    tide_expr_release(e);
    /* What is no comparison stays an error. */
    static const char *const refused[] = {"(x, n) -> minimum(x, n)", "(x, n) -> clip(x, 0, n)",
                                          "(x, n) -> x + n", "(x, n) -> where(x < n, x, n)",
                                          "(x, n) -> (x < n) && (x & n) == 0"};
    for (size_t i = 0; i < TIDEI_COUNT(refused); i++) {
        assert_null(tide_map_args(rt, refused[i], (tide_arg[]){x, big}, 2));
        assert_error(TIDE_E_DTYPE, "300 is out of the range of u8");
    }
    tide_error_clear();
}

/* ---- what it costs ---- */

static _Atomic uint64_t host_allocations;
static void *counting_alloc(void *user, size_t bytes) {
    (void)user;
    atomic_fetch_add(&host_allocations, 1);
    return malloc(bytes);
}
static void counting_free(void *user, void *p) {
    (void)user;
    free(p);
}

/* Numbers within and beyond the range make few programs, and a warm call allocates what its result
** does: but for a few of 149, since under ThreadSanitizer a stream takes new memory for its
** commands where it reuses what it has else. */
static void numbers_of_any_range_make_few_programs(void **state) {
    const tide_allocator host = {counting_alloc, counting_free, NULL};
    tide_runtime *r = test_open(&(tide_config){.collector = "refcount", .allocator = &host});
    uint32_t programs = 0, dearer = 0;
    (void)state;
    tide_array *x = tide_ones(r, TIDE_U8, SHAPE(8));
    tide_expr *e = tide_expr_new(r, "(x, n, m) -> n < x || x <= m");
    for (int i = 0; i < 300; i++) { /* the second half counts */
        tide_arg args[3] = {tide_arg_array(x), tide_arg_int(i % 3 * 200 - 100),
                            tide_arg_int(i % 5 * 100)};
        uint64_t t0 = atomic_load(&host_allocations);
        tide_array *a = tide_empty(r, TIDE_BOOL, SHAPE(8));
        uint64_t t1 = atomic_load(&host_allocations);
        tide_array *b = tide_expr_apply(e, args, 3);
        uint64_t t2 = atomic_load(&host_allocations);
        assert_array(b);
        tide_release(a);
        tide_release(b);
        assert_ok(tide_synchronize(r, NULL));
        if (i == 150) programs = atomic_load(&tidei_exprs_of(test_rt(r))->nprograms);
        if (i > 150) dearer += t2 - t1 > t1 - t0;
    }
    assert_true(dearer <= 3);
    assert_int_equal(atomic_load(&tidei_exprs_of(test_rt(r))->nprograms), programs);
    assert_true(programs <= 9); /* each number below, within, above */
    tide_expr_release(e);
    tide_release(x);
    tide_close(r);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(every_number_compares_as_it_is),
        CASE(complex_numbers_are_only_equal_or_not),
        CASE(comparisons_compute_inside_expressions),
        cmocka_unit_test(numbers_of_any_range_make_few_programs),
    };
    return cmocka_run_group_tests(tests, open_rt, close_rt);
}
