/* test_vm.c: the host's interpreter, called on memory: every operation and cast on special values;
** with all instruction sets that this machine has. Programs of many operations, layouts and folds:
** test_vm_programs.c. */
#include "tests/arrays/expr/precise.h"
#include "tests/arrays/expr/vm_calls.h"

/* ---- each operation on special values ---- */

/* Within `ulps` units in the last place of type t, of the number wanted or of `scale`. */
static bool close_to(int t, double got, long double want, int ulps, long double scale) {
    const int digits = t == TIDE_F16 ? 11 : t == TIDE_BF16 ? 8 : t == TIDE_F32 ? 24 : 53;
    const int least = t == TIDE_F16 ? -14 : t == TIDE_F64 ? -1022 : -126;
    const double rounded = naive_round(t, want);
    int e;
    if (isnan(rounded) || isinf(rounded) || isnan(got) || isinf(got))
        return naive_same_float(got, rounded);
    if (got == 0 && rounded == 0 && scale == 0) return signbit(got) == signbit(rounded);
    scale = fmaxl(fabsl(want), scale);
    e = scale == 0 || ilogbl(scale) < least ? least : ilogbl(scale);
    return fabsl(got - want) <= ulps * ldexpl(1, e - (digits - 1));
}

static void check_operation(int op, int t, num got, num a, num b, num c) {
    const int ulps = tidei_op_infos[op].ulps;
    char text[3][80];
    if (naive_class(t) == 2 && ulps > 0) {
        long double want = 0;
        assert_true(precise(op, a.x, b.x, &want));
        if (!close_to(t, got.x, want, ulps, precise_scale(op, a.x, b.x)))
            fail_msg("%s of %s, %s: got %s", tidei_op_infos[op].name, naive_text(a, text[0]),
                     naive_text(b, text[1]), naive_text(got, text[2]));
        return;
    }
    check_num(got, naive_apply(op, a, b, c), false, tidei_op_infos[op].name, a, b, c);
}

static void try_operation(const tidei_vm_kernels *k, int op, int t) {
    enum { PAIRS = NSPECIAL * NSPECIAL };
    static _Alignas(16) unsigned char data[3][PAIRS * 16], out[PAIRS * 16];
    const bool select = tidei_op_infos[op].rule == TIDEI_RULE_SELECT;
    const int arity = tidei_op_infos[op].arity, r = tidei_op_result(op, t),
              ta = select ? TIDE_BOOL : t;
    const int types[3] = {ta, t, t};
    const size_t size = tide_dtype_size(t), step[3] = {tide_dtype_size(ta), size, size},
                 out_size = tide_dtype_size(r);
    tidei_program p = {0};
    tidei_vm_call call = line(PAIRS);
    uint16_t x[3] = {0, 0, 0};
    /* all pairs of the last two operands, and some triples */
    for (unsigned i = 0; i < PAIRS; i++) {
        const unsigned j[3] = {arity == 3 ? i % 5 + i / 7 % 31 : i / NSPECIAL,
                               arity == 3 ? i / NSPECIAL : i % NSPECIAL, i % NSPECIAL};
        for (int o = 0; o < arity; o++) naive_store(special(types[o], j[o]), data[o] + i * step[o]);
    }
    for (int o = 0; o < arity; o++) x[o] = input(&p, types[o]), bind(&call.in[o], data[o]);
    result(&p, node(&p, op, r, x[0], x[1], x[2]));
    bind(&call.out[0], out);
    run(k, &p, &call);
    for (unsigned i = 0; i < PAIRS; i++) {
        num v[3] = {{.t = t}, {.t = t}, {.t = t}};
        for (int o = 0; o < arity; o++) v[o] = naive_load(types[o], data[o] + i * step[o]);
        check_operation(op, t, naive_load(r, out + i * out_size), v[0], v[1], v[2]);
    }
}

static void try_operations(int cls) {
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++)
        for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++)
            for (int t = 0; t < TIDE_DTYPE_COUNT; t++)
                if (naive_class(t) == cls && offered(op, t) && (cls < 3 || naive_exact(op, t)))
                    try_operation(tidei_vm_kernels_at(s), op, t);
}
static void operations_compute_on_bools(void **state) { (void)state, try_operations(0); }
static void operations_compute_on_integers(void **state) { (void)state, try_operations(1); }
static void operations_compute_on_floats(void **state) { (void)state, try_operations(2); }
static void operations_compute_on_complex_numbers(void **state) { (void)state, try_operations(3); }

/* What people get wrong, with the numbers written out. */
static double apply_f(const char *name, int t, double a, double b) {
    unsigned char in[2][16], out[16];
    tidei_program p = {0};
    tidei_vm_call call = line(1);
    int op = 0;
    uint16_t x, y;
    while (op < TIDEI_OP_COUNT && strcmp(tidei_op_infos[op].name, name) != 0) op++;
    x = input(&p, t), y = input(&p, t);
    result(&p, node(&p, op, tidei_op_result(op, t), x, y, 0));
    for (int o = 0; o < 2; o++) {
        const double v = o ? b : a;
        naive_store(naive_class(t) == 2 ? (num){.t = t, .x = v} : (num){.t = t, .i = (__int128)v},
                    in[o]);
        bind(&call.in[o], in[o]);
    }
    bind(&call.out[0], out);
    run(tidei_vm_kernels_at(0), &p, &call);
    const num r = naive_load(tidei_op_result(op, t), out);
    return naive_class(r.t) == 2 ? r.x : (double)r.i;
}
static void results_are_those_worked_out_by_hand(void **state) {
    (void)state;
    assert_true(apply_f("floordiv", TIDE_I32, -7, 2) == -4);
    assert_true(apply_f("rem", TIDE_I32, -7, 2) == 1);
    assert_true(apply_f("rem", TIDE_I32, 7, -2) == -1);
    assert_true(apply_f("truncdiv", TIDE_I32, -7, 2) == -3);
    assert_true(apply_f("fmod", TIDE_I32, -7, 2) == -1);
    assert_true(apply_f("floordiv", TIDE_I64, 5, 0) == 0);
    assert_true(apply_f("rem", TIDE_U8, 5, 0) == 0);
    assert_true(apply_f("floordiv", TIDE_I32, -2147483648.0, -1) == -2147483648.0);
    assert_true(apply_f("rem", TIDE_I32, -2147483648.0, -1) == 0);
    assert_true(apply_f("add", TIDE_I8, 127, 1) == -128);
    assert_true(apply_f("mul", TIDE_U16, 65535, 65535) == 1);
    assert_true(apply_f("abs", TIDE_I8, -128, 0) == -128);
    assert_true(apply_f("pow", TIDE_I32, 3, 4) == 81);
    assert_true(apply_f("pow", TIDE_I32, 2, -1) == 0);
    assert_true(apply_f("pow", TIDE_U8, 2, 8) == 0);
    assert_true(apply_f("pow", TIDE_F32, NAN, 0) == 1);
    assert_true(apply_f("shl", TIDE_I8, 1, 8) == 0);
    assert_true(apply_f("shl", TIDE_I32, 1, -1) == 0);
    assert_true(apply_f("shr", TIDE_I16, -5, 16) == -1);
    assert_true(apply_f("shr", TIDE_I16, -5, -1) == 0);
    assert_true(apply_f("shr", TIDE_U16, 65535, 16) == 0);
    assert_true(is(apply_f("rem", TIDE_F64, 5, -INFINITY), -INFINITY));
    assert_true(is(apply_f("rem", TIDE_F64, -0.0, 3), 0.0));
    assert_true(is(apply_f("rem", TIDE_F64, 6, -3), -0.0));
    assert_true(is(apply_f("rem", TIDE_F32, 5, 0), NAN));
    assert_true(is(apply_f("floordiv", TIDE_F32, -7, 2), -4));
    assert_true(is(apply_f("round", TIDE_F32, 2.5, 0), 2));
    assert_true(is(apply_f("round", TIDE_F64, -0.5, 0), -0.0));
    assert_true(is(apply_f("ceil", TIDE_F64, -0.5, 0), -0.0));
    assert_true(is(apply_f("sign", TIDE_F32, -0.0, 0), 0.0));
    assert_true(is(apply_f("sign", TIDE_F32, NAN, 0), NAN));
    assert_true(is(apply_f("neg", TIDE_F32, 0.0, 0), -0.0));
    assert_true(is(apply_f("abs", TIDE_F64, -0.0, 0), 0.0));
    assert_true(is(apply_f("maximum", TIDE_F32, 1, NAN), NAN));
    assert_true(is(apply_f("minimum", TIDE_F64, NAN, 1), NAN));
    assert_true(is(apply_f("hypot", TIDE_F32, INFINITY, NAN), INFINITY));
    assert_true(is(apply_f("add", TIDE_F16, 2048, 1), 2048)); /* a tie, to even */
    assert_true(is(apply_f("mul", TIDE_F16, 65504, 2), INFINITY));
    assert_true(is(apply_f("add", TIDE_BF16, 256, 1), 256));
}

/* Smith's division and what follows from it: close, and exact at the axes; only the result itself
** may overflow. */
static void complex_division_is_close_and_overflows_last(void **state) {
    static const double v[] = {0.0,    1.0,     -2.0,     0.5,    3e20,
                               -1e-20, 1.7e308, -1.5e308, 4e-308, INFINITY};
    (void)state;
    for (unsigned i = 0; i < 10 * 10; i++) {
        for (unsigned j = 0; j < 9 * 9; j++) {
            double in[2][2] = {{v[i / 10], v[i % 10]}, {v[j / 9], v[j % 9]}}, out[2];
            const long double a = in[0][0], b = in[0][1], c = in[1][0], d = in[1][1],
                              n = c * c + d * d;
            tidei_program p = {0};
            tidei_vm_call call = line(1);
            const uint16_t x = input(&p, TIDE_C128), y = input(&p, TIDE_C128);
            result(&p, node(&p, TIDEI_OP_DIV, TIDE_C128, x, y, 0));
            bind(&call.in[0], in[0]);
            bind(&call.in[1], in[1]);
            bind(&call.out[0], out);
            run(tidei_vm_kernels_at(0), &p, &call);
            if (n == 0) {
                assert_false(isfinite(out[0]) || isfinite(out[1]));
            } else if (isfinite(a) && isfinite(b)) {
                const long double re = (a * c + b * d) / n, im = (b * c - a * d) / n,
                                  size = hypotl(re, im);
                if (size > DBL_MAX) continue;
                /* of results below the normal ones */
                const long double off = fmaxl(4e-16L * size, 5e-324L);
                assert_true(fabsl(out[0] - re) <= off && fabsl(out[1] - im) <= off);
            }
        }
    }
}

/* z/|z| where |z| itself is beyond the type. */
static void a_complex_sign_survives_a_large_modulus(void **state) {
    static const double v[] = {0.0, 1.7e308, -1.7e308, 1.0, -3e-308};
    (void)state;
    for (unsigned i = 0; i < 5 * 5; i++) {
        double in[2] = {v[i / 5], v[i % 5]}, out[2];
        const long double size = hypotl(in[0], in[1]);
        tidei_program p = {0};
        tidei_vm_call call = line(1);
        result(&p, node(&p, TIDEI_OP_SIGN, TIDE_C128, input(&p, TIDE_C128), 0, 0));
        bind(&call.in[0], in);
        bind(&call.out[0], out);
        run(tidei_vm_kernels_at(0), &p, &call);
        for (int k = 0; k < 2; k++)
            assert_true(fabsl(out[k] - (size ? in[k] / size : 0)) <= 1e-15L);
    }
}

/* ---- casts ---- */
static void try_cast(const tidei_vm_kernels *k, int from, int to) {
    enum { N = 4 * NSPECIAL + 300 };
    static _Alignas(16) unsigned char data[N * 16], out[N * 16];
    const size_t size = tide_dtype_size(from), out_size = tide_dtype_size(to);
    tidei_program p = {0};
    tidei_vm_call call = line(N);
    for (unsigned i = 0; i < N; i++) {
        num n = special(from, i % NSPECIAL);
        if (i >= 4 * NSPECIAL) { /* anything: ties and edges of the narrower types among them */
            const uint64_t bits = random_bits();
            if (naive_class(from) <= 1)
                n.i = naive_wrap(from, from == TIDE_BOOL ? bits & 1 : bits >> pick(60));
            else
                n.x = naive_round(from, ldexp((double)(bits >> 40), (int)pick(60) - 45));
            /* about the edges of integers and of f16 */
        } else if (naive_class(from) >= 2 && i >= NSPECIAL) {
            n.x = naive_round(from, ldexp(1.0, (int)(i % 65)) + (double)(i / NSPECIAL) - 2);
            if (i % 3 == 0) n.x = -n.x;
        }
        naive_store(n, data + i * size);
    }
    result(&p, node(&p, TIDEI_OP_CAST, to, input(&p, from), 0, 0));
    bind(&call.in[0], data);
    bind(&call.out[0], out);
    run(k, &p, &call);
    for (unsigned i = 0; i < N; i++) {
        const num a = naive_load(from, data + i * size);
        check_num(naive_load(to, out + i * out_size), naive_cast(a, to), false, "cast", a, a, a);
    }
}
static void casts_agree_with_the_model(void **state) {
    (void)state;
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++)
        for (int from = 0; from < TIDE_DTYPE_COUNT; from++)
            for (int to = 0; to < TIDE_DTYPE_COUNT; to++)
                if (naive_castable(from, to)) try_cast(tidei_vm_kernels_at(s), from, to);
}

/* ---- what it refuses ---- */

static void what_is_not_offered_is_refused(void **state) {
    tidei_program p = {0};
    tidei_vm_program *vp = NULL;
    const uint16_t x = input(&p, TIDE_C64);
    (void)state;
    result(&p, node(&p, TIDEI_OP_FLOOR, TIDE_C64, x, 0, 0));
    assert_int_equal(tidei_vm_compile(NULL, &p, tidei_vm_kernels_at(0), "tide_floor", &vp),
                     TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "floor of c64");
    assert_null(vp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_compute_on_bools),
        cmocka_unit_test(operations_compute_on_integers),
        cmocka_unit_test(operations_compute_on_floats),
        cmocka_unit_test(operations_compute_on_complex_numbers),
        cmocka_unit_test(results_are_those_worked_out_by_hand),
        cmocka_unit_test(complex_division_is_close_and_overflows_last),
        cmocka_unit_test(a_complex_sign_survives_a_large_modulus),
        cmocka_unit_test(casts_agree_with_the_model),
        cmocka_unit_test(what_is_not_offered_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
