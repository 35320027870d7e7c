/* precise.h: functions in more digits than any of our types has: what results are compared with
** that need not be the same bits. */
#ifndef PRECISE_H
#define PRECISE_H

#include "arrays/expr/front.h"
#include <math.h>

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
    default: return false;
    }
    return true;
}

#endif
