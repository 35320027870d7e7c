/* ops.h: the named operations: elementwise, broadcasting, each one pass; reductions; matrix
** product.
**
** Each elementwise function is the operation of the same name in docs/expressions.md, where its
** types and special values stand. NULL in gives NULL out. Results are new row-major arrays on the
** caller's current stream. May collect. */
#ifndef TIDE_OPS_H
#define TIDE_OPS_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* arithmetic */
TIDE_API tide_array *tide_add(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_sub(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_mul(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_div(tide_array *a, tide_array *b); /* integers give f64 */
/* towards -inf; integer x/0 is 0 */
TIDE_API tide_array *tide_floordiv(tide_array *a, tide_array *b);
/* sign of the divisor; integer x%0 is 0 */
TIDE_API tide_array *tide_rem(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_truncdiv(tide_array *a, tide_array *b); /* C's / */
TIDE_API tide_array *tide_fmod(tide_array *a, tide_array *b);     /* C's %, fmod */
TIDE_API tide_array *tide_pow(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_maximum(tide_array *a, tide_array *b); /* NaN wins */
TIDE_API tide_array *tide_minimum(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_atan2(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_hypot(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_copysign(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_neg(tide_array *a);
TIDE_API tide_array *tide_abs(tide_array *a);
TIDE_API tide_array *tide_sign(tide_array *a);
TIDE_API tide_array *tide_square(tide_array *a);
TIDE_API tide_array *tide_reciprocal(tide_array *a);
/* comparison: bool results */
TIDE_API tide_array *tide_eq(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_ne(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_lt(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_le(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_gt(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_ge(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_isnan(tide_array *a);
TIDE_API tide_array *tide_isinf(tide_array *a);
TIDE_API tide_array *tide_isfinite(tide_array *a);
TIDE_API tide_array *tide_signbit(tide_array *a);
/* logic: operands are "!= 0", bool results; bits: integers and bool */
TIDE_API tide_array *tide_logical_and(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_logical_or(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_logical_xor(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_logical_not(tide_array *a);
TIDE_API tide_array *tide_bit_and(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_bit_or(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_bit_xor(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_bit_not(tide_array *a);
/* a count of bits or more shifts everything out, a negative one gives 0 */
TIDE_API tide_array *tide_shl(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_shr(tide_array *a, tide_array *b); /* arithmetic for signed types */
/* rounding: identity on integers */
TIDE_API tide_array *tide_floor(tide_array *a);
TIDE_API tide_array *tide_ceil(tide_array *a);
TIDE_API tide_array *tide_trunc(tide_array *a);
TIDE_API tide_array *tide_round(tide_array *a); /* half to even */
/* exponentials, logarithms, trigonometry: integers give f64 */
TIDE_API tide_array *tide_sqrt(tide_array *a);
TIDE_API tide_array *tide_exp(tide_array *a);
TIDE_API tide_array *tide_expm1(tide_array *a);
TIDE_API tide_array *tide_exp2(tide_array *a);
TIDE_API tide_array *tide_log(tide_array *a);
TIDE_API tide_array *tide_log1p(tide_array *a);
TIDE_API tide_array *tide_log2(tide_array *a);
TIDE_API tide_array *tide_log10(tide_array *a);
TIDE_API tide_array *tide_sin(tide_array *a);
TIDE_API tide_array *tide_cos(tide_array *a);
TIDE_API tide_array *tide_tan(tide_array *a);
TIDE_API tide_array *tide_asin(tide_array *a);
TIDE_API tide_array *tide_acos(tide_array *a);
TIDE_API tide_array *tide_atan(tide_array *a);
TIDE_API tide_array *tide_sinh(tide_array *a);
TIDE_API tide_array *tide_cosh(tide_array *a);
TIDE_API tide_array *tide_tanh(tide_array *a);
TIDE_API tide_array *tide_asinh(tide_array *a);
TIDE_API tide_array *tide_acosh(tide_array *a);
TIDE_API tide_array *tide_atanh(tide_array *a);
/* choice */
TIDE_API tide_array *tide_where(tide_array *cond, tide_array *a, tide_array *b);
TIDE_API tide_array *tide_clip(tide_array *a, tide_array *lo, tide_array *hi);

/* Reductions over the axes in `axes` (n of them, each may count from the end, no axis twice; NULL:
** all axes, whatever n is). Over no axes (n 0, axes not NULL) every element is reduced by itself:
** it stays, in the result's type; argmin and argmax are TIDE_E_INVALID then. keepdims != 0 leaves
** reduced axes with length 1. Same results in every run on one device. Sums of integers and bool
** are i64 or u64; f16 and bf16 accumulate in f32. Over no elements: sum 0, prod 1, mean NaN, any
** false, all true; min, max, argmin, argmax are TIDE_E_EMPTY. NaN wins in min and max; the arg
** forms give the first of equals (i64), counting row-major within the reduced axes. */
TIDE_API tide_array *tide_sum(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_prod(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_min(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_max(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_mean(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_any(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_all(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_argmin(tide_array *a, const int *axes, int n, int keepdims);
TIDE_API tide_array *tide_argmax(tide_array *a, const int *axes, int n, int keepdims);

/* Matrix product over the last two axes, batched and broadcast over the others; a vector operand is
** a row on the left, a column on the right, and its axis is dropped. Any strides in, row-major out.
** f32 and f64 by cuBLAS or OpenBLAS, their workspace from the pool; integers wrap. 0-d operands are
** TIDE_E_SHAPE; an empty inner axis gives zeros. */
TIDE_API tide_array *tide_matmul(tide_array *a, tide_array *b);

#if defined(__cplusplus)
}
#endif
#endif
