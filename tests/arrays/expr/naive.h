/* naive.h: what programs mean, one element at a time and in the plainest way: the model that back
** ends are tested against.
**
** Written from the table of meanings in the documentation, not from ops.def: integers in 128 bits
** and then wrapped, f16, bf16 and f32 as doubles rounded after every step. A value knows its type.
** Element for element the host's results are these bits, but for NaN's payload and where
** `naive_exact` says otherwise. */
#ifndef NAIVE_H
#define NAIVE_H

#include "tests/support/tidetest.h"
#include "arrays/expr/front.h"
#include <float.h>
#include <math.h>

typedef struct num {
    int t;       /* tide_dtype */
    __int128 i;  /* bool, integers */
    double x, y; /* floats; complex: both parts */
} num;

static inline int naive_class(int t) { /* 0 bool, 1 integer, 2 float, 3 complex */
    return t == TIDE_BOOL ? 0 : t <= TIDE_U64 ? 1 : t <= TIDE_F64 ? 2 : 3;
}
static inline int naive_bits(int t) { return 8 * (int)tide_dtype_size(t); }
static inline bool naive_signed(int t) { return t >= TIDE_I8 && t <= TIDE_I64; }
static inline __int128 naive_max(int t) {
    return t == TIDE_BOOL ? 1 : ((__int128)1 << (naive_bits(t) - naive_signed(t))) - 1;
}
static inline __int128 naive_min(int t) { return naive_signed(t) ? -naive_max(t) - 1 : 0; }
static inline __int128 naive_wrap(int t, unsigned __int128 x) {
    const int bits = naive_bits(t);
    x &= ((unsigned __int128)1 << bits) - 1;
    return naive_signed(t) && x >> (bits - 1) ? (__int128)x - ((__int128)1 << bits) : (__int128)x;
}

/* ---- rounding ---- */
/* To `digits` binary digits, exponents from `least` (of denormals' leading digit), up to `most`; to
** nearest even. */
static inline double naive_round_to(long double x, int digits, int least, double most) {
    long double unit, r;
    int e;
    if (x == 0 || isnan(x) || isinf(x)) return (double)x;
    e = ilogbl(x) < least ? least : ilogbl(x);
    unit = ldexpl(1, e - (digits - 1));
    r = rintl(x / unit) * unit;
    if (fabsl(r) > most) r = copysignl(INFINITY, x);
    return (double)r;
}
static inline double naive_round(int t, long double x) {
    switch (t) {
    case TIDE_F16: return naive_round_to(x, 11, -14, 65504);
    case TIDE_BF16: return naive_round_to(x, 8, -126, 0x1.fep127);
    case TIDE_F32:
    case TIDE_C64: return naive_round_to(x, 24, -126, FLT_MAX);
    default: return naive_round_to(x, 53, -1022, DBL_MAX);
    }
}

/* ---- memory ---- */
static inline num naive_load(int t, const void *at) {
    num n = {.t = t};
    float f[2] = {0, 0};
    double d[2] = {0, 0};
    uint64_t u = 0;
    if (naive_class(t) <= 1 || t == TIDE_F16 || t == TIDE_BF16) memcpy(&u, at, tide_dtype_size(t));
    if (naive_class(t) <= 1) n.i = naive_wrap(t, u);
    switch (t) {
    case TIDE_F16: n.x = tidei_f16_to_f32((uint16_t)u); break;
    case TIDE_BF16: n.x = tidei_bf16_to_f32((uint16_t)u); break;
    case TIDE_F32:
        memcpy(f, at, 4);
        n.x = f[0];
        break;
    case TIDE_F64: memcpy(&n.x, at, 8); break;
    case TIDE_C64:
        memcpy(f, at, 8);
        n.x = f[0], n.y = f[1];
        break;
    case TIDE_C128:
        memcpy(d, at, 16);
        n.x = d[0], n.y = d[1];
        break;
    default: break;
    }
    return n;
}
static inline void naive_store(num n, void *at) { /* n is a value of its type */
    const float f[2] = {(float)n.x, (float)n.y};
    const double d[2] = {n.x, n.y};
    const uint64_t u = (uint64_t)n.i;
    uint16_t h = n.t == TIDE_F16 ? tidei_f32_to_f16(f[0]) : tidei_f32_to_bf16(f[0]);
    switch (n.t) {
    case TIDE_F16:
    case TIDE_BF16: memcpy(at, &h, 2); break;
    case TIDE_F32: memcpy(at, f, 4); break;
    case TIDE_F64: memcpy(at, d, 8); break;
    case TIDE_C64: memcpy(at, f, 8); break;
    case TIDE_C128: memcpy(at, d, 16); break;
    default: memcpy(at, &u, tide_dtype_size(n.t));
    }
}
static inline bool naive_same_float(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}
static inline bool naive_same(num a, num b) {
    return a.t == b.t && a.i == b.i && naive_same_float(a.x, b.x) && naive_same_float(a.y, b.y);
}
static inline bool naive_equal(num a, num b) { /* the same but for the sign of zeros */
    return naive_same(a, b) || (a.t == b.t && a.i == b.i && a.x == b.x && a.y == b.y);
}
static inline const char *naive_text(num n, char *buf) {
    if (naive_class(n.t) <= 1)
        sprintf(buf, "%s %s%llu", tide_dtype_name(n.t), n.i < 0 ? "-" : "",
                (unsigned long long)(uint64_t)(n.i < 0 ? -n.i : n.i));
    else
        sprintf(buf, "%s (%a, %a)", tide_dtype_name(n.t), n.x, n.y);
    return buf;
}

/* ---- casts ---- */
static inline bool naive_true(num a) {
    return naive_class(a.t) <= 1 ? a.i != 0 : !(a.x == 0 && a.y == 0);
}
static inline bool naive_castable(int from, int to) {
    return naive_class(from) < 3 || naive_class(to) == 3 || to == TIDE_BOOL;
}
static inline num naive_cast(num a, int t) {
    num r = {.t = t};
    if (t == TIDE_BOOL) {
        r.i = naive_true(a);
    } else if (naive_class(t) == 1) {
        if (naive_class(a.t) <= 1)
            r.i = naive_wrap(t, (unsigned __int128)a.i);
        else if (isnan(a.x))
            r.i = 0;
        else if (a.x >= (double)naive_max(t))
            r.i = naive_max(t); /* the double is max or max + 1 */
        else if (a.x <= (double)naive_min(t))
            r.i = naive_min(t);
        else
            r.i = (__int128)a.x;
    } else {
        r.x = naive_round(t, naive_class(a.t) <= 1 ? (long double)a.i : (long double)a.x);
        if (naive_class(t) == 3) r.y = naive_round(t, a.y);
    }
    return r;
}

/* ---- operations ---- */
static inline __int128 naive_floordiv(__int128 a, __int128 b) {
    __int128 q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
static inline unsigned __int128 naive_power(unsigned __int128 a, uint64_t n) {
    if (n == 0) return 1;
    const unsigned __int128 half = naive_power(a, n / 2), square = half * half;
    return n % 2 ? square * a : square;
}
static inline __int128 naive_gcd(__int128 a, __int128 b) { return b ? naive_gcd(b, a % b) : a; }
static inline int naive_popcount(int bits, unsigned __int128 a) {
    int n = 0;
    for (int i = 0; i < bits; i++) n += (int)(a >> i & 1);
    return n;
}
/* The integer (or bool) that the operation gives, before it is wrapped. */
static inline __int128 naive_integer(int op, int t, __int128 a, __int128 b, __int128 c) {
    const unsigned __int128 ua = (unsigned __int128)a, ub = (unsigned __int128)b;
    const int bits = naive_bits(t);
    switch (op) {
    case TIDEI_OP_ADD: return a + b;
    case TIDEI_OP_SUB: return a - b;
    case TIDEI_OP_MUL: return (__int128)(ua * ub);
    case TIDEI_OP_FLOORDIV: return b == 0 ? 0 : naive_floordiv(a, b);
    case TIDEI_OP_REM: return b == 0 ? 0 : a - naive_floordiv(a, b) * b;
    case TIDEI_OP_TRUNCDIV: return b == 0 ? 0 : a / b;
    case TIDEI_OP_FMOD: return b == 0 ? 0 : a % b;
    case TIDEI_OP_POW: return b < 0 ? 0 : (__int128)naive_power(ua, (uint64_t)b);
    case TIDEI_OP_MAXIMUM: return a < b ? b : a;
    case TIDEI_OP_MINIMUM: return b < a ? b : a;
    case TIDEI_OP_NEG: return -a;
    case TIDEI_OP_ABS: return a < 0 ? -a : a;
    case TIDEI_OP_SIGN: return a == 0 ? 0 : a < 0 ? -1 : 1;
    case TIDEI_OP_SQUARE: return (__int128)(ua * ua);
    case TIDEI_OP_EQ: return a == b;
    case TIDEI_OP_NE: return a != b;
    case TIDEI_OP_LT: return a < b;
    case TIDEI_OP_LE: return a <= b;
    case TIDEI_OP_GT: return a > b;
    case TIDEI_OP_GE: return a >= b;
    case TIDEI_OP_LOGICAL_AND:
    case TIDEI_OP_BIT_AND: return a & b;
    case TIDEI_OP_LOGICAL_OR:
    case TIDEI_OP_BIT_OR: return a | b;
    case TIDEI_OP_LOGICAL_XOR:
    case TIDEI_OP_BIT_XOR: return a ^ b;
    case TIDEI_OP_LOGICAL_NOT: return 1 - a;
    case TIDEI_OP_BIT_NOT: return t == TIDE_BOOL ? 1 - a : ~a;
    case TIDEI_OP_SHL: return b < 0 || b >= bits ? 0 : (__int128)(ua << b);
    case TIDEI_OP_SHR: return b < 0 ? 0 : a >> (b >= bits ? 127 : b);
    case TIDEI_OP_GCD: return naive_gcd(a < 0 ? -a : a, b < 0 ? -b : b);
    case TIDEI_OP_POPCOUNT: return naive_popcount(bits, ua);
    case TIDEI_OP_REAL:
    case TIDEI_OP_CONJ: return a;
    case TIDEI_OP_IMAG: return 0;
    case TIDEI_OP_WHERE: return a ? b : c;
    case TIDEI_OP_CLIP: return (a < b ? b : a) > c ? c : (a < b ? b : a);
    default: fail_msg("no integer %s", tidei_op_infos[op].name); return 0;
    }
}

/* Floats. `t` is f32 (for f16 and bf16 too) or f64. */
#define NAIVE_LIBM_1(g) (t == TIDE_F32 ? (double)g##f((float)a) : g(a))
#define NAIVE_LIBM_2(g) (t == TIDE_F32 ? (double)g##f((float)a, (float)b) : g(a, b))
static inline double naive_larger(double a, double b) {
    return isnan(a) ? a : isnan(b) ? b : a > b ? a : b;
}
static inline double naive_smaller(double a, double b) {
    return isnan(a) ? a : isnan(b) ? b : a < b ? a : b;
}
static inline double naive_rem(int t, double a, double b) {
    const double r = fmod(a, b); /* exact */
    if (isnan(r)) return r;
    if (r == 0) return copysign(0.0, b);
    return signbit(r) == signbit(b) ? r : t == TIDE_F32 ? (double)((float)r + (float)b) : r + b;
}
/* The number of type t next to a, by the numbers that its neighbours' rounding gives. */
static inline double naive_next(int t, double a, double b) {
    int e, least = t == TIDE_F16 ? -24 : t == TIDE_BF16 ? -133 : t == TIDE_F32 ? -149 : -1074;
    const int digits = t == TIDE_F16 ? 11 : t == TIDE_BF16 ? 8 : t == TIDE_F32 ? 24 : 53;
    const double most = t == TIDE_F16    ? 65504
                        : t == TIDE_BF16 ? 0x1.fep127
                        : t == TIDE_F32  ? FLT_MAX
                                         : DBL_MAX;
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return b;
    if (isinf(a)) return copysign(most, a);
    if (a == 0) return copysign(ldexp(1, least), b);
    const double m = fabs(frexp(a, &e)); /* between numbers of a's exponent, or of the one below */
    const bool inwards = (b < a) == (a > 0);
    e -= digits + (inwards && m == 0.5);
    const long double r =
        (long double)fabs(a) + (inwards ? -1 : 1) * ldexpl(1, e < least ? least : e);
    return copysign(r > most ? INFINITY : (double)r, a);
}
static inline int naive_whole(double b) {
    return naive_cast((num){.t = TIDE_F64, .x = b}, TIDE_I32).i;
}
static inline double naive_float(int op, int t, double a, double b, double c) {
    int e;
    switch (op) {
    case TIDEI_OP_ADD: return t == TIDE_F32 ? (double)((float)a + (float)b) : a + b;
    case TIDEI_OP_SUB: return t == TIDE_F32 ? (double)((float)a - (float)b) : a - b;
    case TIDEI_OP_MUL: return t == TIDE_F32 ? (double)((float)a * (float)b) : a * b;
    case TIDEI_OP_DIV: return t == TIDE_F32 ? (double)((float)a / (float)b) : a / b;
    case TIDEI_OP_FLOORDIV: return floor(t == TIDE_F32 ? (double)((float)a / (float)b) : a / b);
    case TIDEI_OP_TRUNCDIV: return trunc(t == TIDE_F32 ? (double)((float)a / (float)b) : a / b);
    case TIDEI_OP_REM: return naive_rem(t, a, b);
    case TIDEI_OP_FMOD: return fmod(a, b);
    case TIDEI_OP_MAXIMUM: return naive_larger(a, b);
    case TIDEI_OP_MINIMUM: return naive_smaller(a, b);
    case TIDEI_OP_COPYSIGN: return signbit(b) ? -fabs(a) : fabs(a);
    case TIDEI_OP_NEG: return -a;
    case TIDEI_OP_ABS: return fabs(a);
    case TIDEI_OP_SIGN: return isnan(a) ? a : a == 0 ? 0 : a < 0 ? -1 : 1;
    case TIDEI_OP_SQUARE: return t == TIDE_F32 ? (double)((float)a * (float)a) : a * a;
    case TIDEI_OP_RECIPROCAL: return t == TIDE_F32 ? (double)(1 / (float)a) : 1 / a;
    case TIDEI_OP_FLOOR: return floor(a);
    case TIDEI_OP_CEIL: return ceil(a);
    case TIDEI_OP_TRUNC: return trunc(a);
    case TIDEI_OP_ROUND: return nearbyint(a);
    case TIDEI_OP_SQRT: return NAIVE_LIBM_1(sqrt);
    case TIDEI_OP_EXP: return NAIVE_LIBM_1(exp);
    case TIDEI_OP_EXPM1: return NAIVE_LIBM_1(expm1);
    case TIDEI_OP_EXP2: return NAIVE_LIBM_1(exp2);
    case TIDEI_OP_LOG: return NAIVE_LIBM_1(log);
    case TIDEI_OP_LOG1P: return NAIVE_LIBM_1(log1p);
    case TIDEI_OP_LOG2: return NAIVE_LIBM_1(log2);
    case TIDEI_OP_LOG10: return NAIVE_LIBM_1(log10);
    case TIDEI_OP_SIN: return NAIVE_LIBM_1(sin);
    case TIDEI_OP_COS: return NAIVE_LIBM_1(cos);
    case TIDEI_OP_TAN: return NAIVE_LIBM_1(tan);
    case TIDEI_OP_ASIN: return NAIVE_LIBM_1(asin);
    case TIDEI_OP_ACOS: return NAIVE_LIBM_1(acos);
    case TIDEI_OP_ATAN: return NAIVE_LIBM_1(atan);
    case TIDEI_OP_SINH: return NAIVE_LIBM_1(sinh);
    case TIDEI_OP_COSH: return NAIVE_LIBM_1(cosh);
    case TIDEI_OP_TANH: return NAIVE_LIBM_1(tanh);
    case TIDEI_OP_ASINH: return NAIVE_LIBM_1(asinh);
    case TIDEI_OP_ACOSH: return NAIVE_LIBM_1(acosh);
    case TIDEI_OP_ATANH: return NAIVE_LIBM_1(atanh);
    case TIDEI_OP_POW: return NAIVE_LIBM_2(pow);
    case TIDEI_OP_ATAN2: return NAIVE_LIBM_2(atan2);
    case TIDEI_OP_HYPOT: return NAIVE_LIBM_2(hypot);
    case TIDEI_OP_ERF: return NAIVE_LIBM_1(erf);
    case TIDEI_OP_ERFC: return NAIVE_LIBM_1(erfc);
    case TIDEI_OP_LGAMMA: return NAIVE_LIBM_1(lgamma);
    case TIDEI_OP_ANGLE: return t == TIDE_F32 ? (double)atan2f(0, (float)a) : atan2(0, a);
    case TIDEI_OP_LDEXP:
        return t == TIDE_F32 ? (double)ldexpf((float)a, naive_whole(b)) : ldexp(a, naive_whole(b));
    case TIDEI_OP_MANTISSA: return isfinite(a) ? frexp(a, &e) : a;
    case TIDEI_OP_REAL:
    case TIDEI_OP_CONJ: return a;
    case TIDEI_OP_IMAG: return 0;
    case TIDEI_OP_CLIP: return naive_smaller(naive_larger(a, b), c);
    default: fail_msg("no float %s", tidei_op_infos[op].name); return 0;
    }
}
/* Comparisons and tests of floats: a truth value; -1: the operation is none. */
static inline int naive_truth(int op, double a, double b) {
    switch (op) {
    case TIDEI_OP_EQ: return a == b;
    case TIDEI_OP_NE: return !(a == b);
    case TIDEI_OP_LT: return a < b;
    case TIDEI_OP_LE: return a <= b;
    case TIDEI_OP_GT: return a > b;
    case TIDEI_OP_GE: return a >= b;
    case TIDEI_OP_ISNAN: return isnan(a) != 0;
    case TIDEI_OP_ISINF: return isinf(a) != 0;
    case TIDEI_OP_ISFINITE: return isfinite(a) != 0;
    case TIDEI_OP_SIGNBIT: return signbit(a) != 0;
    default: return -1;
    }
}

/* Complex, with the textbook's formulas; those that back ends may do better are not exact
** (naive_exact). */
static inline num naive_complex(int op, num a, num b) {
    const int t = a.t, s = t == TIDE_C64 ? TIDE_F32 : TIDE_F64;
    num r = {.t = t};
    switch (op) {
    case TIDEI_OP_ADD:
        r.x = naive_float(op, s, a.x, b.x, 0), r.y = naive_float(op, s, a.y, b.y, 0);
        break;
    case TIDEI_OP_SUB:
        r.x = naive_float(op, s, a.x, b.x, 0), r.y = naive_float(op, s, a.y, b.y, 0);
        break;
    case TIDEI_OP_SQUARE: b = a; /* fall through */
    case TIDEI_OP_MUL:
        r.x = naive_float(TIDEI_OP_SUB, s, naive_float(TIDEI_OP_MUL, s, a.x, b.x, 0),
                          naive_float(TIDEI_OP_MUL, s, a.y, b.y, 0), 0);
        r.y = naive_float(TIDEI_OP_ADD, s, naive_float(TIDEI_OP_MUL, s, a.x, b.y, 0),
                          naive_float(TIDEI_OP_MUL, s, a.y, b.x, 0), 0);
        break;
    case TIDEI_OP_NEG: r.x = -a.x, r.y = -a.y; break;
    case TIDEI_OP_REAL: r = (num){.t = s, .x = a.x}; break;
    case TIDEI_OP_IMAG: r = (num){.t = s, .x = a.y}; break;
    case TIDEI_OP_CONJ: r.x = a.x, r.y = -a.y; break;
    case TIDEI_OP_ROUND: r.x = nearbyint(a.x), r.y = nearbyint(a.y); break;
    case TIDEI_OP_ABS: r = (num){.t = s, .x = naive_float(TIDEI_OP_HYPOT, s, a.x, a.y, 0)}; break;
    case TIDEI_OP_EQ: r = (num){.t = TIDE_BOOL, .i = a.x == b.x && a.y == b.y}; break;
    case TIDEI_OP_NE: r = (num){.t = TIDE_BOOL, .i = !(a.x == b.x && a.y == b.y)}; break;
    case TIDEI_OP_ISNAN: r = (num){.t = TIDE_BOOL, .i = isnan(a.x) || isnan(a.y)}; break;
    case TIDEI_OP_ISINF: r = (num){.t = TIDE_BOOL, .i = isinf(a.x) || isinf(a.y)}; break;
    case TIDEI_OP_ISFINITE: r = (num){.t = TIDE_BOOL, .i = isfinite(a.x) && isfinite(a.y)}; break;
    default: fail_msg("no complex %s", tidei_op_infos[op].name);
    }
    return r;
}

/* Whether the model gives the host's very bits whatever the operands: not where NaN's sign matters,
** nor for the complex operations that it lacks. */
static inline bool naive_exact(int op, int t) {
    switch (op) {
    case TIDEI_OP_SIGNBIT:
    case TIDEI_OP_COPYSIGN: return naive_class(t) == 3;
    case TIDEI_OP_LOGADDEXP:
    case TIDEI_OP_ERFINV:
    case TIDEI_OP_NORM_CDF:
    case TIDEI_OP_NORM_PPF:
    case TIDEI_OP_DIGAMMA:
    case TIDEI_OP_SINC: return false;
    default: break;
    }
    if (naive_class(t) < 3) return true;
    return op != TIDEI_OP_DIV && op != TIDEI_OP_RECIPROCAL && op != TIDEI_OP_SIGN &&
           op != TIDEI_OP_POW && op != TIDEI_OP_ANGLE &&
           tidei_op_infos[op].rule != TIDEI_RULE_FLOAT;
}

static inline num naive_apply(int op, num a, num b, num c) {
    const int t = tidei_op_infos[op].arity == 3 ? c.t : a.t; /* WHERE's a is a bool */
    num r = {.t = t};
    if (op == TIDEI_OP_WHERE) return a.i ? b : c;
    if (naive_class(t) == 3) return naive_complex(op, a, b);
    if (naive_class(t) == 2) {
        const int truth = naive_truth(op, a.x, b.x);
        int e = 0;
        if (truth >= 0) return (num){.t = TIDE_BOOL, .i = truth};
        if (op == TIDEI_OP_COMPLEX)
            return (num){.t = t == TIDE_F64 ? TIDE_C128 : TIDE_C64, .x = a.x, .y = b.x};
        if (op == TIDEI_OP_EXPONENT) {
            if (isfinite(a.x)) (void)frexp(a.x, &e);
            return (num){.t = TIDE_I32, .i = e};
        }
        if (op == TIDEI_OP_NEXTAFTER) return (num){.t = t, .x = naive_next(t, a.x, b.x)};
        r.x = naive_round(t, naive_float(op, t == TIDE_F64 ? TIDE_F64 : TIDE_F32, a.x, b.x, c.x));
        return r;
    }
    r.t = tidei_op_result(op, t);
    r.i = naive_wrap(r.t, (unsigned __int128)naive_integer(op, t, a.i, b.i, c.i));
    return r;
}

/* ---- programs ---- All values of a program at one index. inputs, scalars: by slot. */
static inline void naive_values(const tidei_program *p, const num *inputs, const num *scalars,
                                int64_t linear, num *values) {
    for (unsigned i = 0; i < p->nnodes; i++) {
        const tidei_node *n = &p->nodes[i];
        switch (n->op) {
        case TIDEI_OP_INPUT: values[i] = inputs[n->a]; break;
        case TIDEI_OP_SCALAR: values[i] = scalars[n->a]; break;
        case TIDEI_OP_LINEAR: values[i] = (num){.t = TIDE_I64, .i = linear}; break;
        case TIDEI_OP_CAST: values[i] = naive_cast(values[n->a], n->dtype); break;
        default: values[i] = naive_apply(n->op, values[n->a], values[n->b], values[n->c]);
        }
        assert_int_equal(values[i].t, n->dtype);
    }
}

#endif
