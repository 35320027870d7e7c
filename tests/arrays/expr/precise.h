/* precise.h: functions in more digits than any of our types has: what results are compared with
** that need not be the same bits. */
#ifndef PRECISE_H
#define PRECISE_H

#include "arrays/expr/front.h"
#include <math.h>

/* The number whose erf is a, where 1 less a is `rest`. */
static inline long double precise_erfinv(long double a, long double rest) {
    long double lo = 0, hi = 120;
    if (a < 0) return -precise_erfinv(-a, 2 - rest);
    if (!(rest >= 0)) return NAN;
    if (rest == 0) return INFINITY;
    if (a < 1e-8L) return a * 0.886226925452758013649L * (1 + a * a * 0.261799387799149436539L);
    for (int i = 0; i < 120; i++) {
        const long double m = (lo + hi) / 2;
        *((a < 0.5L ? erfl(m) < a : erfcl(m) > rest) ? &lo : &hi) = m;
    }
    return (lo + hi) / 2;
}
static inline long double precise_ppf(long double p) {
    const long double root2 = 1.41421356237309504880L;
    return p < 0.5L ? -root2 * precise_erfinv(1 - 2 * p, 2 * p)
                    : root2 * precise_erfinv(2 * p - 1, 2 * (1 - p));
}
static inline long double precise_turn(long double x) { /* pi/tan(pi*x) */
    const long double r = x - rintl(x);
    return r == 0 ? NAN : M_PIl / tanl(M_PIl * r);
}
/* Its Taylor series at its zero, where all else would cancel. */
static inline long double precise_digamma_at_zero(long double d) {
    static const long double c[] = {0.9676722454476211704274L,  -0.4427631689835921060929L,
                                    0.2584997609556510106244L,  -0.1639427054424065275043L,
                                    0.1078240506912623657572L,  -0.07219956125645471092612L,
                                    0.04880428816414310722509L, -0.03316112647484735929226L,
                                    0.02259764823221810465962L, -0.0154247659049489591388L};
    long double sum = 0;
    for (int i = 9; i >= 0; i--) sum = c[i] + d * sum;
    return d * sum;
}
static inline long double precise_digamma(long double x) {
    long double sum = 0, z;
    if (x == 0) return -1 / x;
    if (isinf(x)) return x > 0 ? x : NAN;
    if (x < 0) return precise_digamma(1 - x) - precise_turn(x);
    z = (x - 1.461632144968362341280917L) + 1.82570963159634842146e-20L;
    if (fabsl(z) < 0.01L) return precise_digamma_at_zero(z);
    for (; x < 60; x += 1) sum -= 1 / x;
    z = 1 / (x * x);
    return sum + logl(x) - 1 / (2 * x) -
           z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z / 132))));
}
static inline long double precise_sinc(long double x) {
    const long double whole = rintl(x), s = sinl(M_PIl * (x - whole)) / (M_PIl * x);
    if (x == 0) return 1;
    if (isnan(x)) return x;
    if (isinf(x) || x == whole) return 0;
    return fmodl(whole, 2) ? -s : s;
}
static inline long double precise_logaddexp(long double a, long double b) {
    if (a == b) return a + M_LN2l;
    return (isnan(a) || a > b ? a : b) + log1pl(expl(-fabsl(a - b)));
}

/* Whose last place counts the ulps of a result, where that is not the result itself. */
static inline long double precise_scale(int op, long double a, long double b) {
    switch (op) {
    case TIDEI_OP_LOGADDEXP: return fmaxl(fabsl(a), fabsl(b));
    case TIDEI_OP_LGAMMA: return a > -12 && a < -2 ? 1 : 0;
    case TIDEI_OP_DIGAMMA: return a < 0 && a != rintl(a) ? fabsl(precise_turn(a)) : 0;
    default: return 0;
    }
}

/* False: there is no such function here. */
static inline bool precise(int op, long double a, long double b, long double *out) {
    switch (op) {
    case TIDEI_OP_EXP: *out = expl(a); break;
    case TIDEI_OP_EXPM1: *out = expm1l(a); break;
    case TIDEI_OP_EXP2: *out = exp2l(a); break;
    case TIDEI_OP_LOG: *out = logl(a); break;
    case TIDEI_OP_LOG1P: *out = log1pl(a); break;
    case TIDEI_OP_LOG2: *out = log2l(a); break;
    case TIDEI_OP_LOG10: *out = log10l(a); break;
    case TIDEI_OP_SIN: *out = sinl(a); break;
    case TIDEI_OP_COS: *out = cosl(a); break;
    case TIDEI_OP_TAN: *out = tanl(a); break;
    case TIDEI_OP_ASIN: *out = asinl(a); break;
    case TIDEI_OP_ACOS: *out = acosl(a); break;
    case TIDEI_OP_ATAN: *out = atanl(a); break;
    case TIDEI_OP_SINH: *out = sinhl(a); break;
    case TIDEI_OP_COSH: *out = coshl(a); break;
    case TIDEI_OP_TANH: *out = tanhl(a); break;
    case TIDEI_OP_ASINH: *out = asinhl(a); break;
    case TIDEI_OP_ACOSH: *out = acoshl(a); break;
    case TIDEI_OP_ATANH: *out = atanhl(a); break;
    case TIDEI_OP_POW: *out = powl(a, b); break;
    case TIDEI_OP_ATAN2: *out = atan2l(a, b); break;
    case TIDEI_OP_HYPOT: *out = hypotl(a, b); break;
    case TIDEI_OP_ANGLE: *out = atan2l(0, a); break;
    case TIDEI_OP_ERF: *out = erfl(a); break;
    case TIDEI_OP_ERFC: *out = erfcl(a); break;
    case TIDEI_OP_ERFINV: *out = precise_erfinv(a, 1 - a); break;
    case TIDEI_OP_NORM_CDF: *out = erfcl(-a / 1.41421356237309504880L) / 2; break;
    case TIDEI_OP_NORM_PPF: *out = precise_ppf(a); break;
    case TIDEI_OP_LGAMMA: *out = lgammal(a); break;
    case TIDEI_OP_DIGAMMA: *out = precise_digamma(a); break;
    case TIDEI_OP_SINC: *out = precise_sinc(a); break;
    case TIDEI_OP_LOGADDEXP: *out = precise_logaddexp(a, b); break;
    default: return false;
    }
    return true;
}

#endif
