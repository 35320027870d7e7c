/* weak.c: computing with numbers alone, on the host, by the expressions of ops.def. A number is a
** bool, an i64, an f64 or a c128; what comes out is one again. */
#include "arrays/expr/front.h"
#include <math.h>
#define TD_COMPLEX
#include "arrays/expr/prelude.h"
#define TD_WIDTH 64
#include "arrays/expr/functions.h"

tide_dtype tidei_weak_dtype(const tide_arg *v) {
    switch (v->kind) {
    case TIDE_ARG_BOOL: return TIDE_BOOL;
    case TIDE_ARG_FLOAT: return TIDE_F64;
    case TIDE_ARG_COMPLEX: return TIDE_C128;
    default: return TIDE_I64;
    }
}

static double to_f64(const tide_arg *v) {
    switch (v->kind) {
    case TIDE_ARG_FLOAT: return v->value.f;
    case TIDE_ARG_UINT: return (double)v->value.u;
    default: return (double)v->value.i;
    }
}

static td_c128 to_c128(const tide_arg *v) {
    return v->kind == TIDE_ARG_COMPLEX ? td_make_c128(v->value.c[0], v->value.c[1])
                                       : td_make_c128(to_f64(v), 0);
}

static bool to_bool(const tide_arg *v) {
    switch (v->kind) {
    case TIDE_ARG_FLOAT: return v->value.f != 0;
    case TIDE_ARG_UINT: return v->value.u != 0;
    case TIDE_ARG_COMPLEX: return v->value.c[0] != 0 || v->value.c[1] != 0;
    default: return v->value.i != 0;
    }
}

static bool gives_bool(int op) {
    switch (tidei_op_infos[op].rule) {
    case TIDEI_RULE_COMPARE_EQ:
    case TIDEI_RULE_COMPARE:
    case TIDEI_RULE_LOGIC:
    case TIDEI_RULE_TEST:
    case TIDEI_RULE_TEST_REAL: return true;
    default: return false;
    }
}

/* The expression, or 0 where the class is not offered (which typing has ruled out). */
#define OR_ZERO(...) (__VA_OPT__(1 ? (__VA_ARGS__) :) 0)

#define F(f)                   td_##f##_f64
#define G(f)                   F(f)
#define M(f)                   f
#define td_complex_f64(re, im) 0 /* no f64: tidei_weak_eval has it */
static double eval_f64(int op, double a, double b, double c) {
    typedef double T;
    switch (op) {
#define TIDEI_OP(ident, name, arity, rule, bool_expr, int_expr, float_expr, complex_expr, ulps,    \
                 notes)                                                                            \
    case TIDEI_OP_##ident:                                                                         \
        return OR_ZERO(float_expr);
#include "arrays/expr/ops.def"
#undef TIDEI_OP
    default: return (T)0;
    }
}
#undef F
#undef td_complex_f64

#define F(f) td_##f##_i64
static int64_t eval_i64(int op, int64_t a, int64_t b, int64_t c) {
    typedef int64_t T;
    typedef uint64_t U;
    switch (op) {
#define TIDEI_OP(ident, name, arity, rule, bool_expr, int_expr, float_expr, complex_expr, ulps,    \
                 notes)                                                                            \
    case TIDEI_OP_##ident:                                                                         \
        return OR_ZERO(int_expr);
#include "arrays/expr/ops.def"
#undef TIDEI_OP
    default: return (T)(U)0;
    }
}
#undef F
#undef M

static bool eval_bool(int op, bool a, bool b, bool c) {
    switch (op) {
#define TIDEI_OP(ident, name, arity, rule, bool_expr, int_expr, float_expr, complex_expr, ulps,    \
                 notes)                                                                            \
    case TIDEI_OP_##ident:                                                                         \
        return OR_ZERO(bool_expr);
#include "arrays/expr/ops.def"
#undef TIDEI_OP
    default: return false;
    }
}

#define FUNCTION(IDENT, name)                                                                      \
    case TIDEI_OP_##IDENT: *out = td_##name##_c128(a); return true;
static bool eval_function(int op, td_c128 a, td_c128 *out) {
    switch (op) {
        FUNCTION(NEG, neg)
        FUNCTION(SIGN, sign)
        FUNCTION(RECIPROCAL, reciprocal)
        FUNCTION(CONJ, conj)
        FUNCTION(ROUND, round)
        FUNCTION(SQRT, sqrt)
        FUNCTION(EXP, exp)
        FUNCTION(EXPM1, expm1)
        FUNCTION(EXP2, exp2)
        FUNCTION(LOG, log)
        FUNCTION(LOG1P, log1p)
        FUNCTION(LOG2, log2)
        FUNCTION(LOG10, log10)
        FUNCTION(SIN, sin)
        FUNCTION(COS, cos)
        FUNCTION(TAN, tan)
        FUNCTION(ASIN, asin)
        FUNCTION(ACOS, acos)
        FUNCTION(ATAN, atan)
        FUNCTION(SINH, sinh)
        FUNCTION(COSH, cosh)
        FUNCTION(TANH, tanh)
        FUNCTION(ASINH, asinh)
        FUNCTION(ACOSH, acosh)
        FUNCTION(ATANH, atanh)
    default: return false;
    }
}

/* Written out, because the results' types differ. False where ops.def has no complex expression. */
static bool eval_c128(int op, const tide_arg *in, tide_arg *out) {
    td_c128 a = to_c128(&in[0]), b = to_c128(&in[1]), r;
    switch (op) {
    case TIDEI_OP_ADD: r = td_add_c128(a, b); break;
    case TIDEI_OP_SUB: r = td_sub_c128(a, b); break;
    case TIDEI_OP_MUL: r = td_mul_c128(a, b); break;
    case TIDEI_OP_DIV: r = td_div_c128(a, b); break;
    case TIDEI_OP_SQUARE: r = td_mul_c128(a, a); break;
    case TIDEI_OP_POW: r = td_pow_c128(a, b); break;
    case TIDEI_OP_WHERE: r = to_bool(&in[0]) ? b : to_c128(&in[2]); break;
    case TIDEI_OP_ABS: return *out = tide_arg_float(td_abs_c128(a)), true;
    case TIDEI_OP_ANGLE: return *out = tide_arg_float(td_angle_c128(a)), true;
    case TIDEI_OP_REAL: return *out = tide_arg_float(a.re), true;
    case TIDEI_OP_IMAG: return *out = tide_arg_float(a.im), true;
    case TIDEI_OP_EQ: return *out = tide_arg_bool(td_eq_c128(a, b)), true;
    case TIDEI_OP_NE: return *out = tide_arg_bool(!td_eq_c128(a, b)), true;
    case TIDEI_OP_ISNAN: return *out = tide_arg_bool(td_isnan_c128(a)), true;
    case TIDEI_OP_ISINF: return *out = tide_arg_bool(td_isinf_c128(a)), true;
    case TIDEI_OP_ISFINITE: return *out = tide_arg_bool(td_isfinite_c128(a)), true;
    default:
        if (!eval_function(op, a, &r)) return false;
    }
    *out = tide_arg_complex(r.re, r.im);
    return true;
}

/* -1, 0 or 1 as one is less than, equal to or greater than the other, of integers of any sign. */
static int64_t order_of(const tide_arg *a, const tide_arg *b) {
    bool high_a = a->kind == TIDE_ARG_UINT && a->value.u > INT64_MAX,
         high_b = b->kind == TIDE_ARG_UINT && b->value.u > INT64_MAX;
    if (high_a != high_b) return high_a ? 1 : -1;
    return high_a ? (a->value.u > b->value.u) - (a->value.u < b->value.u)
                  : (a->value.i > b->value.i) - (a->value.i < b->value.i);
}

bool tidei_weak_eval(int op, tide_dtype t, const tide_arg *in, tide_arg *out) {
    if (op == TIDEI_OP_CAST) return *out = tide_arg_bool(to_bool(&in[0])), true;
    if (t == TIDE_C128) return eval_c128(op, in, out);
    if (op == TIDEI_OP_COMPLEX)
        *out = tide_arg_complex(to_f64(&in[0]), to_f64(&in[1]));
    else if (t == TIDE_F64) {
        double v = eval_f64(op, to_f64(&in[0]), to_f64(&in[1]), to_f64(&in[2]));
        *out = gives_bool(op)            ? tide_arg_bool(v != 0)
               : op == TIDEI_OP_EXPONENT ? tide_arg_int((int64_t)v)
                                         : tide_arg_float(v);
    } else if (t == TIDE_I64 && (tidei_op_infos[op].rule == TIDEI_RULE_COMPARE ||
                                 tidei_op_infos[op].rule == TIDEI_RULE_COMPARE_EQ)) {
        *out = tide_arg_bool(eval_i64(op, order_of(&in[0], &in[1]), 0, 0) != 0);
    } else if (t == TIDE_I64) {
        for (int i = 0; i < tidei_op_infos[op].arity; i++)
            if (in[i].kind == TIDE_ARG_UINT && in[i].value.u > INT64_MAX) return false;
        int64_t v = eval_i64(op, in[0].value.i, in[1].value.i, in[2].value.i);
        *out = gives_bool(op) ? tide_arg_bool(v != 0) : tide_arg_int(v);
    } else
        *out = tide_arg_bool(eval_bool(op, to_bool(&in[0]), to_bool(&in[1]), to_bool(&in[2])));
    return true;
}
