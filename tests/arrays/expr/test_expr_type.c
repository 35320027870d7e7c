/* Typing: promotion over all pairs of element types and numbers, the rules of the operations,
** folds, what is one node, and the programs that plans are made of. Arithmetic is not run here. */
#include "tests/support/tidetest.h"
#include "arrays/expr/front.h"
#include "tests/support/same_kind.h"

enum {
    WB = TIDEI_WEAK + TIDE_BOOL,
    WI = TIDEI_WEAK + TIDE_I64,
    WF = TIDEI_WEAK + TIDE_F64,
    WC = TIDEI_WEAK + TIDE_C128
};

/* The graph of a text for a signature; the caller frees it. False with the error set. */
static bool graph(const char *source, const uint8_t *sig, const uint8_t *dst, tidei_graph *g) {
    tidei_ast a;
    if (tidei_ast_parse(NULL, source, "test", &a) != TIDE_OK)
        fail_msg("%s: %s", source, tide_error_last()->message);
    bool fine = tidei_graph_build(NULL, &a, sig, dst, NULL, g) == TIDE_OK;
    tidei_ast_free(NULL, &a);
    return fine;
}

/* The type of the first result, or -1. */
static int type(const char *source, int a, int b, int c) {
    const uint8_t sig[3] = {(uint8_t)a, (uint8_t)b, (uint8_t)c};
    tidei_graph g;
    if (!graph(source, sig, NULL, &g)) return -1;
    int t = g.nodes[g.results[0]].dtype;
    tidei_graph_free(NULL, &g);
    return t;
}

static void types(const char *source, int a, int b, int c, int want) {
    int t = type(source, a, b, c);
    if (t != want)
        fail_msg("%s for %d, %d, %d: %s, wanted %s%s%s", source, a, b, c, tide_dtype_name(t),
                 tide_dtype_name(want), t < 0 ? ": " : "", t < 0 ? tide_error_last()->message : "");
}

static void refuses(const char *source, int a, int b, int column, const char *part) {
    char place[32];
    if (type(source, a, b, 0) >= 0) fail_msg("%s for %d, %d has a type", source, a, b);
    snprintf(place, sizeof place, "column %d: ", column);
    assert_error(TIDE_E_DTYPE, part);
    if (strncmp(tide_error_last()->message, place, strlen(place)) != 0)
        fail_msg("%s", tide_error_last()->message);
}

static const int I[] = {TIDE_I8, TIDE_I16, TIDE_I32, TIDE_I64};

/* The standard's tables, written once more from their rules. -1: no common type. */
static int promoted(int a, int b) {
    static const int rank[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3};
    if (a == b) return a;
    if (rank[a] > rank[b]) return promoted(b, a);
    if (rank[a] < rank[b]) { /* a real with a complex widens it only from f64 */
        if (rank[b] == 3 && rank[a] == 2 && a == TIDE_F64) return TIDE_C128;
        return b;
    }
    if (rank[a] == 3) return TIDE_C128;
    if (rank[a] == 2) {
        if ((a == TIDE_F16 && b == TIDE_BF16) || (a == TIDE_BF16 && b == TIDE_F16)) return TIDE_F32;
        return a > b ? a : b;
    }
    bool au = a >= TIDE_U8, bu = b >= TIDE_U8;
    if (au == bu) return a > b ? a : b;
    /* log2 of the sizes */
    int s = au ? b - TIDE_I8 : a - TIDE_I8, u = au ? a - TIDE_U8 : b - TIDE_U8;
    if (s > u) return I[s];
    return u == 3 ? -1 : I[u + 1];
}

static void every_pair_of_types_is_promoted(void **state) {
    (void)state;
    for (int a = 0; a < TIDE_DTYPE_COUNT; a++)
        for (int b = 0; b < TIDE_DTYPE_COUNT; b++) {
            int want = promoted(a, b);
            int offered = want == TIDE_BOOL ? -1 : want; /* bool + bool is no addition */
            if (type("(a, b) -> a + b", a, b, 0) != offered)
                fail_msg("%s + %s", tide_dtype_name(a), tide_dtype_name(b));
            if (type("(a, b) -> where(true, a, b)", a, b, 0) != want)
                fail_msg("where of %s, %s", tide_dtype_name(a), tide_dtype_name(b));
            assert_int_equal(type("(a, b) -> a == b", a, b, 0), want < 0 ? -1 : TIDE_BOOL);
            assert_int_equal(type("(a, b) -> a && b", a, b, 0), TIDE_BOOL);
        }
    refuses("(a, b) -> a + b", TIDE_U64, TIDE_I8, 13, "u64 and i8");
    refuses("(a, b) -> 1 + (a < b)", TIDE_U64, TIDE_I64, 18, "u64 and i64");
}

static void numbers_take_the_arrays_type(void **state) {
    (void)state;
    static const uint8_t numbers[] = {WB, WI, WF, WC};
    static const char *const written[] = {"(a) -> a + true", "(a) -> a + 1", "(a) -> a + 1.5",
                                          "(a) -> a + 2i"};
    for (int a = 0; a < TIDE_DTYPE_COUNT; a++)
        for (int k = 0; k < 4; k++) {
            bool real = a < TIDE_C64, floating = a >= TIDE_F16 && real;
            int want = a;
            if (k == 0 && a == TIDE_BOOL) want = -1;
            if (k == 1 && a == TIDE_BOOL) want = TIDE_I64;
            if (k == 2 && a < TIDE_F16) want = TIDE_F64;
            if (k == 3 && real) want = floating && a != TIDE_F64 ? TIDE_C64 : TIDE_C128;
            if (type("(a, b) -> a + b", a, numbers[k], 0) != want)
                fail_msg("%s + number %d", tide_dtype_name(a), k);
            if (type("(a, b) -> b + a", a, numbers[k], 0) != want)
                fail_msg("number %d + %s", k, tide_dtype_name(a));
            if (type(written[k], a, 0, 0) != want)
                fail_msg("%s for %s", written[k], tide_dtype_name(a));
        }
    /* numbers among themselves: alone they are bool, i64, f64, c128; they stay weak beside
    ** arrays */
    types("(a, b) -> a + b", WI, WI, 0, TIDE_I64);
    types("(a, b) -> a + b", WI, WF, 0, TIDE_F64);
    types("(a, b) -> a + b", WC, WI, 0, TIDE_C128);
    types("(a, b) -> a < b", WF, WI, 0, TIDE_BOOL);
    types("(a) -> a / 2", WI, 0, 0, TIDE_F64);
    types("(a) -> a", WB, 0, 0, TIDE_BOOL);
    types("() -> 1", 0, 0, 0, TIDE_I64);
    types("() -> pi", 0, 0, 0, TIDE_F64);
    types("(x) -> x * (1 / 3)", TIDE_F32, 0, 0, TIDE_F32);
    types("(x, n) -> x * exp(-n / 2)", TIDE_F16, WI, 0, TIDE_F16);
    types("(x) -> x * (2 + 3)", TIDE_U8, 0, 0, TIDE_U8);
    types("(x) -> x * f64(2)", TIDE_F32, 0, 0, TIDE_F64); /* a cast makes it strong */
    types("(x) -> where(x > 0, 1, 0)", TIDE_F32, 0, 0, TIDE_I64);
    types("(x) -> where(x > 0, x, 0)", TIDE_F32, 0, 0, TIDE_F32);
    types("(x) -> where(1.5, x, 0)", TIDE_I8, 0, 0, TIDE_I8);
    types("(x) -> sum(2.0) * x", TIDE_F32, 0, 0, TIDE_F64); /* a fold is an array */
}

static void operations_have_the_types_of_their_rules(void **state) {
    (void)state;
    for (int t = 0; t < TIDE_DTYPE_COUNT; t++) {
        bool integer = t >= TIDE_I8 && t <= TIDE_U64, half = t == TIDE_F16 || t == TIDE_BF16;
        bool floating = half || t == TIDE_F32 || t == TIDE_F64, complex = t >= TIDE_C64;
        int as_float = floating || complex ? t : TIDE_F64;
        types("(a) -> a / a", t, 0, 0, as_float);
        types("(a) -> sqrt(a)", t, 0, 0, as_float);
        types("(a) -> erf(a)", t, 0, 0, complex ? -1 : as_float);
        types("(a) -> real(a) + imag(conj(a))", t, 0, 0,
              t == TIDE_BOOL   ? -1
              : t == TIDE_C64  ? TIDE_F32
              : t == TIDE_C128 ? TIDE_F64
                               : t);
        types("(a) -> real(a)", t, 0, 0, t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t);
        types("(a) -> angle(a)", t, 0, 0,
              t == TIDE_C64    ? TIDE_F32
              : t == TIDE_C128 ? TIDE_F64
                               : as_float);
        types("(a) -> complex(a, 0)", t, 0, 0,
              complex                 ? -1
              : half || t == TIDE_F32 ? TIDE_C64
                                      : TIDE_C128);
        types("(a) -> exponent(a)", t, 0, 0, complex ? -1 : TIDE_I32);
        types("(a) -> popcount(gcd(a, a))", t, 0, 0, integer ? t : -1);
        types("(a) -> round(a)", t, 0, 0, t);
        types("(a) -> hypot(a, a)", t, 0, 0, complex ? -1 : as_float);
        types("(a) -> a // a", t, 0, 0, integer || floating ? t : -1);
        types("(a) -> maximum(a, a)", t, 0, 0, complex ? -1 : t);
        types("(a) -> -a", t, 0, 0, t == TIDE_BOOL ? -1 : t);
        types("(a) -> abs(a)", t, 0, 0,
              t == TIDE_BOOL   ? -1
              : t == TIDE_C64  ? TIDE_F32
              : t == TIDE_C128 ? TIDE_F64
                               : t);
        types("(a) -> a & a", t, 0, 0, integer || t == TIDE_BOOL ? t : -1);
        types("(a) -> a << 1", t, 0, 0, integer ? t : t == TIDE_BOOL ? TIDE_I64 : -1);
        types("(a) -> floor(a)", t, 0, 0, complex ? -1 : t);
        types("(a) -> a < a", t, 0, 0, complex ? -1 : TIDE_BOOL);
        types("(a) -> a != a", t, 0, 0, TIDE_BOOL);
        types("(a) -> isnan(a)", t, 0, 0, TIDE_BOOL);
        types("(a) -> signbit(a)", t, 0, 0, complex ? -1 : TIDE_BOOL);
        types("(a) -> !a", t, 0, 0, TIDE_BOOL);
        types("(a) -> f32(a)", t, 0, 0, complex ? -1 : TIDE_F32);
        types("(a) -> bool(a)", t, 0, 0, TIDE_BOOL);
        types("(a) -> c64(a)", t, 0, 0, TIDE_C64);
        types("(a) -> sum(a)", t, 0, 0, t <= TIDE_I64 ? TIDE_I64 : t <= TIDE_U64 ? TIDE_U64 : t);
        types("(a) -> mean(a)", t, 0, 0, as_float);
        types("(a) -> min(a)", t, 0, 0, complex ? -1 : t);
        types("(a) -> any(a)", t, 0, 0, TIDE_BOOL);
        types("(a) -> argmax(a)", t, 0, 0, complex ? -1 : TIDE_I64);
    }
    refuses("(a, b) -> a & b", TIDE_F32, TIDE_F32, 13,
            "bit_and is offered for bool, integers, not for f32");
    refuses("(a, b) -> b * (a % a)", TIDE_C64, WI, 18,
            "rem is offered for integers, floats, not for c64");
    refuses("(a) -> true + false", 0, 0, 13,
            "add is offered for integers, floats, complex, not for bool");
    refuses("(a) -> i32(a)", TIDE_C64, 0, 8, "c64 is complex and does not become i32");
    refuses("(a) -> 1 + argmin(a)", TIDE_C64, 0, 12,
            "argmin is offered for bool, integers, floats, not for c64");
    refuses("(a) -> erf(2i) * a", TIDE_C64, 0, 8, "erf is offered for floats, not for c128");
}

/* ---- graphs ---- */

static unsigned count(const char *source, int a, int b, int op) {
    const uint8_t sig[2] = {(uint8_t)a, (uint8_t)b};
    unsigned n = 0;
    tidei_graph g;
    if (!graph(source, sig, NULL, &g)) fail_msg("%s: %s", source, tide_error_last()->message);
    for (unsigned i = 0; i < g.nnodes; i++) n += op < 0 || g.nodes[i].op == op;
    tidei_graph_free(NULL, &g);
    return n;
}

static void equal_parts_are_computed_once(void **state) {
    (void)state;
    assert_int_equal(count("(a, b) -> (a + b) * (a + b)", TIDE_F32, TIDE_F32, -1), 4);
    assert_int_equal(count("(a, b) -> (a + b) * (b + a)", TIDE_F32, TIDE_F32, TIDEI_OP_ADD), 2);
    assert_int_equal(count("(a) -> exp(a) / (1 + exp(a))", TIDE_F64, 0, TIDEI_OP_EXP), 1);
    /* an int and a float */
    assert_int_equal(count("(a) -> a*2 + a*2.0", TIDE_F32, 0, TIDEI_OP_SCALAR), 2);
    assert_int_equal(count("(a) -> a*2 + a/2", TIDE_F32, 0, TIDEI_OP_SCALAR), 1);
    assert_int_equal(count("(a) -> a*0.0 + a*-0.0", TIDE_F32, 0, TIDEI_OP_SCALAR), 2);
    assert_int_equal(count("(a) -> a + nan*a + nan", TIDE_F32, 0, TIDEI_OP_SCALAR), 1);
    assert_int_equal(count("(a, b) -> sum(a*b) + sum(a*b)", TIDE_F32, TIDE_F32, TIDEI_OP_FOLD), 1);
    assert_int_equal(
        count("(a, b) -> sum(a, axis=0) + sum(a, axis=1)", TIDE_F32, TIDE_F32, TIDEI_OP_FOLD), 2);
    assert_int_equal(count("(a, b) -> let dead = exp(b); a", TIDE_F32, TIDE_F32, -1), 1);
    assert_int_equal(count("(a, b) -> a + b", TIDE_I32, TIDE_F64, TIDEI_OP_CAST), 1);
    /* the identity on integers */
    assert_int_equal(count("(a, b) -> floor(a) + trunc(a)", TIDE_I32, 0, -1), 2);
    /* one scalar, computed by the host */
    assert_int_equal(count("(a, n) -> a + (n*2 + 1)", TIDE_F32, WI, -1), 3);
}

static void small_powers_become_products(void **state) {
    (void)state;
    assert_int_equal(count("(a) -> a**2", TIDE_F32, 0, TIDEI_OP_SQUARE), 1);
    assert_int_equal(count("(a) -> a**2", TIDE_F32, 0, -1), 2);
    assert_int_equal(count("(a) -> a**3", TIDE_I32, 0, TIDEI_OP_MUL), 1);
    assert_int_equal(count("(a) -> a**4", TIDE_F64, 0, TIDEI_OP_SQUARE), 2);
    assert_int_equal(count("(a) -> a**5", TIDE_F64, 0, TIDEI_OP_POW), 1);
    assert_int_equal(count("(a) -> a**2.0", TIDE_F64, 0, TIDEI_OP_POW), 1);
    assert_int_equal(count("(a, n) -> a**n", TIDE_F64, WI, TIDEI_OP_POW),
                     1); /* run-time numbers shape no program */
    assert_int_equal(count("(a) -> a**-1", TIDE_F64, 0, TIDEI_OP_POW), 1);
    refuses("(a) -> a**-1", TIDE_I64, 0, 9, "integers have no power -1");
    refuses("(a) -> a * 10**-3", TIDE_F32, 0, 14,
            "integers have no power -3: make the base a float");
}

/* ---- numbers on the host ---- */

static void computes(const char *source, tide_arg want) {
    const uint8_t sig[1] = {TIDE_F64};
    tidei_graph g;
    char text[96];
    snprintf(text, sizeof text, "(x) -> where(true, x, %s)", source);
    if (want.kind == TIDE_ARG_BOOL) snprintf(text, sizeof text, "(x) -> (%s) == bool(x)", source);
    if (!graph(text, sig, NULL, &g)) fail_msg("%s: %s", text, tide_error_last()->message);
    for (unsigned i = 0; i < g.nnodes; i++) {
        if (g.nodes[i].op != TIDEI_OP_SCALAR) continue;
        const tidei_weak *w = &g.weaks[g.nodes[i].a];
        if (want.kind != TIDE_ARG_BOOL && w->dtype == TIDE_BOOL) continue; /* where's condition */
        assert_true(w->constant);
        assert_int_equal(w->value.kind, want.kind);
        if (memcmp(&w->value.value, &want.value, want.kind == TIDE_ARG_COMPLEX ? 16 : 8) != 0)
            fail_msg("%s", source);
    }
    tidei_graph_free(NULL, &g);
}

static void numbers_are_computed_on_the_host(void **state) {
    (void)state;
    computes("2 + 3*4", tide_arg_int(14));
    computes("7 / 2", tide_arg_float(3.5));
    computes("-7 // 2", tide_arg_int(-4));
    computes("-7 % 3", tide_arg_int(2));
    computes("truncdiv(-7, 2)", tide_arg_int(-3));
    computes("2**10", tide_arg_int(1024));
    computes("2.0**-1", tide_arg_float(0.5));
    computes("1 << 40", tide_arg_int((int64_t)1 << 40));
    computes("~5 & 0xff", tide_arg_int(250));
    computes("sqrt(2)", tide_arg_float(1.4142135623730951));
    computes("minimum(3, 2.5)", tide_arg_float(2.5));
    computes("where(1 < 2, 3, 4.5)", tide_arg_float(3));
    computes("floor(3)", tide_arg_int(3));
    computes("floor(-2.5)", tide_arg_float(-3));
    computes("-0.0", tide_arg_float(-0.0));
    computes("-(0.0)", tide_arg_float(-0.0));
    computes("3 > 2 && !false", tide_arg_bool(1));
    computes("isnan(nan)", tide_arg_bool(1));
    computes("true ^ true", tide_arg_bool(0));
    computes("(1 + 2i)*(3 - 1i)", tide_arg_complex(5, 5));
    computes("abs(3 + 4i)", tide_arg_float(5));
    computes("1i == 1i", tide_arg_bool(1));
    computes("9223372036854775807 + 1", tide_arg_int(INT64_MIN)); /* wraps as an i64 array does */
    refuses("(a) -> a + (18446744073709551615 - 1)", TIDE_U64, 0, 34, "does not fit");
}

/* Numbers compute whatever the table offers for their type. */
static void numbers_have_every_operation_of_their_type(void **state) {
    (void)state;
    static const tide_dtype alone[] = {TIDE_BOOL, TIDE_I64, TIDE_F64, TIDE_C128};
    tide_arg in[3], out;
    for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++)
        for (int k = 0; k < 4; k++) {
            if (!(tidei_op_infos[op].classes >> k & 1)) continue;
            for (int i = 0; i < 3; i++)
                in[i] = k == 0   ? tide_arg_bool(1)
                        : k == 1 ? tide_arg_int(1)
                        : k == 2 ? tide_arg_float(1)
                                 : tide_arg_complex(1, 1);
            assert_true(tidei_weak_eval(op, alone[k], in, &out));
            tide_dtype t = tidei_op_result(op, alone[k]);
            assert_int_equal(tidei_weak_dtype(&out), t == TIDE_I32 ? TIDE_I64 : t);
        }
}

static void too_many_numbers_are_refused(void **state) {
    (void)state;
    char *s = malloc(1 << 16), *p = s;
    uint8_t sig[2] = {TIDE_F64, WF};
    tidei_graph g;
    if (!s) abort();
    p += sprintf(p, "(x, n) -> x");
    for (int i = 0; i < 300; i++) p += sprintf(p, "*(n + %d)", i);
    assert_false(graph(s, sig, NULL, &g));
    assert_error(TIDE_E_UNSUPPORTED, "more than 256 computations with numbers alone");
    sig[1] = TIDE_F64; /* an array: no number is computed */
    assert_true(graph(s, sig, NULL, &g));
    tidei_graph_free(NULL, &g);
    free(s);
}

static void a_destination_takes_what_it_can_hold(void **state) {
    (void)state;
    for (int from = 0; from < TIDE_DTYPE_COUNT; from++)
        for (int to = 0; to < TIDE_DTYPE_COUNT; to++) {
            const uint8_t sig[1] = {(uint8_t)from}, dst[1] = {(uint8_t)to};
            tidei_graph g;
            bool fine = graph("(a) -> a", sig, dst, &g);
            assert_int_equal(fine, same_kind[from][to] == '1');
            if (!fine) {
                assert_error(TIDE_E_DTYPE, "result 1 is ");
                continue;
            }
            assert_int_equal(g.nodes[g.results[0]].dtype, to);
            tidei_graph_free(NULL, &g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_types_is_promoted),
        cmocka_unit_test(numbers_take_the_arrays_type),
        cmocka_unit_test(operations_have_the_types_of_their_rules),
        cmocka_unit_test(equal_parts_are_computed_once),
        cmocka_unit_test(small_powers_become_products),
        cmocka_unit_test(numbers_are_computed_on_the_host),
        cmocka_unit_test(numbers_have_every_operation_of_their_type),
        cmocka_unit_test(too_many_numbers_are_refused),
        cmocka_unit_test(a_destination_takes_what_it_can_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
