/* ops.h: the named operations: elementwise, broadcasting, each one pass; reductions; matrix
** product.
**
** Each elementwise function is the operation of the same name in docs/expressions.md, where the
** bounds on errors stand too. Operands promote to one type, as the Python array API standard says,
** and their shapes broadcast as in NumPy; the result has that type and that shape, but where the
** text says another type. What a comment calls "of ..." are the kinds that the promoted type may
** have: bool, integers, floats, complex. A word alone behind that ("of anything; bool.", "; i64")
** is the type of the result. Another kind is TIDE_E_DTYPE, and so are u64 with a signed type, which
** promote to none. "Of floats" takes bool and integers as f64. Shapes that do not broadcast are
** TIDE_E_SHAPE. NULL in gives NULL out. Results are new row-major arrays, queued on the current
** stream. f16 and bf16 compute in f32, and round after each operation. */
#ifndef TIDE_OPS_H
#define TIDE_OPS_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- arithmetic ---- */

/* a + b, of integers (which wrap), floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_add(tide_array *a, tide_array *b);
/* a - b, of integers (which wrap), floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_sub(tide_array *a, tide_array *b);
/* a * b, of integers (which wrap), floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_mul(tide_array *a, tide_array *b);
/* a / b, of floats, complex; integers and bool give f64. May collect. Never blocks. */
TIDE_API tide_array *tide_div(tide_array *a, tide_array *b);
/* floor(a / b), of integers, floats: towards -inf. Integers: x // 0 is 0, min // -1 is min.
** May collect. Never blocks. */
TIDE_API tide_array *tide_floordiv(tide_array *a, tide_array *b);
/* The remainder of tide_floordiv, of integers, floats: it has the sign of b, zeros too. Integers: x
** % 0 is 0. Floats: x % 0 is NaN; x % inf is x, or inf where the signs differ. May collect.
** Never blocks. */
TIDE_API tide_array *tide_rem(tide_array *a, tide_array *b);
/* trunc(a / b), C's / of integers; of integers, floats: towards zero. Integers: x / 0 is 0, min /
** -1 is min. May collect. Never blocks. */
TIDE_API tide_array *tide_truncdiv(tide_array *a, tide_array *b);
/* C's fmod, and % of integers; of integers, floats: it has the sign of a. Integers: x % 0 is 0.
** Floats: of a divisor 0 NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_fmod(tide_array *a, tide_array *b);
/* a to the power b, of integers, floats, complex: there the principal value. Integers wrap, and a
** negative exponent gives 0. x to the 0 is 1, of NaN too; 1 to the NaN is 1; a complex 0 to what
** has no positive real part is NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_pow(tide_array *a, tide_array *b);
/* The larger one, of bool, integers, floats. NaN wins; of 0.0 and -0.0 either may come.
** May collect. Never blocks. */
TIDE_API tide_array *tide_maximum(tide_array *a, tide_array *b);
/* The smaller one, of bool, integers, floats. NaN wins; of 0.0 and -0.0 either may come.
** May collect. Never blocks. */
TIDE_API tide_array *tide_minimum(tide_array *a, tide_array *b);
/* The angle of the point (b, a), in [-pi, pi], of floats; complex is TIDE_E_DTYPE. May collect.
** Never blocks. */
TIDE_API tide_array *tide_atan2(tide_array *a, tide_array *b);
/* sqrt(a*a + b*b) without overflow on the way, of floats. Of inf and NaN it is inf. May collect.
** Never blocks. */
TIDE_API tide_array *tide_hypot(tide_array *a, tide_array *b);
/* |a| with the sign bit of b, of floats; b's may be that of a zero or NaN too (of a NaN that was
** computed it is the device's choice). May collect. Never blocks. */
TIDE_API tide_array *tide_copysign(tide_array *a, tide_array *b);
/* The number of a's type next to a on the way to b, of floats; where they are equal b. May collect.
** Never blocks. */
TIDE_API tide_array *tide_nextafter(tide_array *a, tide_array *b);
/* a * 2**b, rounded once, of floats; b is a whole number (it is cut off towards 0, and of NaN 0),
** an array of any real type, which takes the common type: there f16 holds whole numbers to 2048,
** bf16 to 256. May collect. Never blocks. */
TIDE_API tide_array *tide_ldexp(tide_array *a, tide_array *b);
/* log(exp(a) + exp(b)) without overflow on the way, of floats. Of -inf and b it is b. May collect.
** Never blocks. */
TIDE_API tide_array *tide_logaddexp(tide_array *a, tide_array *b);
/* The greatest common divisor, of integers; not negative, but where it is the least number's own
** absolute value, which wraps. Of x and 0 it is |x|. May collect. Never blocks. */
TIDE_API tide_array *tide_gcd(tide_array *a, tide_array *b);
/* -a, of integers (which wrap), floats, complex. Of 0.0 it is -0.0. May collect. Never blocks. */
TIDE_API tide_array *tide_neg(tide_array *a);
/* |a|, of integers (of the least one it is that one), floats, complex: there the modulus, real.
** May collect. Never blocks. */
TIDE_API tide_array *tide_abs(tide_array *a);
/* -1, 0 or 1, of integers, floats, complex: there a / |a|. Of -0.0 it is 0.0, of NaN NaN.
** May collect. Never blocks. */
TIDE_API tide_array *tide_sign(tide_array *a);
/* a * a, of integers (which wrap), floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_square(tide_array *a);
/* 1 / a, of floats, complex; integers and bool give f64. May collect. Never blocks. */
TIDE_API tide_array *tide_reciprocal(tide_array *a);
/* The m in [0.5, 1), or its negative, with a = m * 2**e, of floats; 0, inf and NaN are their own.
** tide_exponent gives e. "(x) -> (mantissa(x), exponent(x))" finds both in one pass. May collect.
** Never blocks. */
TIDE_API tide_array *tide_mantissa(tide_array *a);
/* The e of tide_mantissa, of floats; i32. Of 0, inf and NaN it is 0. May collect. Never blocks. */
TIDE_API tide_array *tide_exponent(tide_array *a);

/* ---- the parts of complex numbers ---- */

/* The real part, of anything; of what is real itself. May collect. Never blocks. */
TIDE_API tide_array *tide_real(tide_array *a);
/* The imaginary part, of anything; of what is real 0, in its type. May collect. Never blocks. */
TIDE_API tide_array *tide_imag(tide_array *a);
/* The conjugate, of anything; of what is real itself. May collect. Never blocks. */
TIDE_API tide_array *tide_conj(tide_array *a);
/* The complex numbers with the real parts a and the imaginary parts b, of floats; infinities, NaN
** and the signs of zeros stay as they are. f16, bf16 and f32 give c64, other types c128.
** May collect. Never blocks. */
TIDE_API tide_array *tide_complex(tide_array *a, tide_array *b);
/* The angle in [-pi, pi], of floats, complex: there atan2 of the parts, a float; of real numbers 0,
** below zero and of -0.0 pi. May collect. Never blocks. */
TIDE_API tide_array *tide_angle(tide_array *a);

/* ---- comparison ---- */

/* a == b, of anything; bool. NaN equals nothing; 0.0 equals -0.0. May collect. Never blocks. */
TIDE_API tide_array *tide_eq(tide_array *a, tide_array *b);
/* a != b, of anything; bool. NaN differs from everything. May collect. Never blocks. */
TIDE_API tide_array *tide_ne(tide_array *a, tide_array *b);
/* a < b, of bool, integers, floats; bool. False with NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_lt(tide_array *a, tide_array *b);
/* a <= b, of bool, integers, floats; bool. False with NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_le(tide_array *a, tide_array *b);
/* a > b, of bool, integers, floats; bool. False with NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_gt(tide_array *a, tide_array *b);
/* a >= b, of bool, integers, floats; bool. False with NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_ge(tide_array *a, tide_array *b);
/* Whether a is NaN, of complex either part; of floats, complex; bool. May collect. Never blocks. */
TIDE_API tide_array *tide_isnan(tide_array *a);
/* Whether a is an infinity, of complex either part; of floats, complex; bool. May collect.
** Never blocks. */
TIDE_API tide_array *tide_isinf(tide_array *a);
/* Whether a is neither NaN nor an infinity, of complex both parts; of floats, complex; bool.
** May collect. Never blocks. */
TIDE_API tide_array *tide_isfinite(tide_array *a);
/* Whether the sign bit is set, of zeros and NaN too (of a NaN that was computed it is the device's
** choice); of floats; bool. May collect. Never blocks. */
TIDE_API tide_array *tide_signbit(tide_array *a);

/* ---- logic, and bits ---- */

/* Whether both differ from 0, as NaN does; of anything; bool. May collect. Never blocks. */
TIDE_API tide_array *tide_logical_and(tide_array *a, tide_array *b);
/* Whether one at least differs from 0, as NaN does; of anything; bool. May collect.
** Never blocks. */
TIDE_API tide_array *tide_logical_or(tide_array *a, tide_array *b);
/* Whether exactly one differs from 0, as NaN does; of anything; bool. May collect. Never blocks. */
TIDE_API tide_array *tide_logical_xor(tide_array *a, tide_array *b);
/* Whether a is 0, which NaN is not; of anything; bool. May collect. Never blocks. */
TIDE_API tide_array *tide_logical_not(tide_array *a);
/* The bits that both have, of bool, integers. May collect. Never blocks. */
TIDE_API tide_array *tide_bit_and(tide_array *a, tide_array *b);
/* The bits that one at least has, of bool, integers. May collect. Never blocks. */
TIDE_API tide_array *tide_bit_or(tide_array *a, tide_array *b);
/* The bits that exactly one has, of bool, integers. May collect. Never blocks. */
TIDE_API tide_array *tide_bit_xor(tide_array *a, tide_array *b);
/* The bits that a has not, of bool (not a), integers. May collect. Never blocks. */
TIDE_API tide_array *tide_bit_not(tide_array *a);
/* a with its bits b places up, of integers. A count outside [0, bits) gives 0. May collect.
** Never blocks. */
TIDE_API tide_array *tide_shl(tide_array *a, tide_array *b);
/* a with its bits b places down, of integers; signed ones keep their sign. A count of bits or more
** leaves 0, of a negative a -1; a negative count gives 0. May collect. Never blocks. */
TIDE_API tide_array *tide_shr(tide_array *a, tide_array *b);
/* How many bits are set, of integers; of negative ones in two's complement. May collect.
** Never blocks. */
TIDE_API tide_array *tide_popcount(tide_array *a);

/* ---- rounding ---- Integers and bool stay as they are. */

/* The nearest whole number that is not above a, of floats; keeps -0.0. May collect.
** Never blocks. */
TIDE_API tide_array *tide_floor(tide_array *a);
/* The nearest whole number that is not below a, of floats; keeps -0.0, and of -0.5 it is -0.0.
** May collect. Never blocks. */
TIDE_API tide_array *tide_ceil(tide_array *a);
/* The nearest whole number towards 0, of floats; keeps -0.0. May collect. Never blocks. */
TIDE_API tide_array *tide_trunc(tide_array *a);
/* The nearest whole number, of two the even one; of floats, complex (each part); keeps -0.0.
** May collect. Never blocks. */
TIDE_API tide_array *tide_round(tide_array *a);

/* ---- exponentials, logarithms, trigonometry ---- Angles are in radians. Complex functions have
** the cuts and special values of C17, Annex G. */

/* The square root, of floats, complex. Of -0.0 it is -0.0, below zero NaN. May collect.
** Never blocks. */
TIDE_API tide_array *tide_sqrt(tide_array *a);
/* e to the a, of floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_exp(tide_array *a);
/* e to the a, less 1, exact near 0; of floats, complex; keeps -0.0. May collect. Never blocks. */
TIDE_API tide_array *tide_expm1(tide_array *a);
/* 2 to the a, of floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_exp2(tide_array *a);
/* The natural logarithm, of floats, complex. Of 0 it is -inf, below zero NaN. May collect.
** Never blocks. */
TIDE_API tide_array *tide_log(tide_array *a);
/* log(1 + a), exact near 0; of floats, complex; keeps -0.0. Of -1 it is -inf, below NaN.
** May collect. Never blocks. */
TIDE_API tide_array *tide_log1p(tide_array *a);
/* The logarithm to base 2, of floats, complex. Of 0 it is -inf, below zero NaN. May collect.
** Never blocks. */
TIDE_API tide_array *tide_log2(tide_array *a);
/* The logarithm to base 10, of floats, complex. Of 0 it is -inf, below zero NaN. May collect.
** Never blocks. */
TIDE_API tide_array *tide_log10(tide_array *a);
/* The sine, of floats, complex. Of an infinity NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_sin(tide_array *a);
/* The cosine, of floats, complex. Of an infinity NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_cos(tide_array *a);
/* The tangent, of floats, complex. Of an infinity NaN. May collect. Never blocks. */
TIDE_API tide_array *tide_tan(tide_array *a);
/* The angle whose sine is a, in [-pi/2, pi/2], of floats, complex. NaN outside [-1, 1].
** May collect. Never blocks. */
TIDE_API tide_array *tide_asin(tide_array *a);
/* The angle whose cosine is a, in [0, pi], of floats, complex. NaN outside [-1, 1]. May collect.
** Never blocks. */
TIDE_API tide_array *tide_acos(tide_array *a);
/* The angle whose tangent is a, in [-pi/2, pi/2], of floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_atan(tide_array *a);
/* The hyperbolic sine, of floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_sinh(tide_array *a);
/* The hyperbolic cosine, of floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_cosh(tide_array *a);
/* The hyperbolic tangent, of floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_tanh(tide_array *a);
/* The number whose hyperbolic sine is a, of floats, complex. May collect. Never blocks. */
TIDE_API tide_array *tide_asinh(tide_array *a);
/* The number, not negative, whose hyperbolic cosine is a, of floats, complex. NaN below 1.
** May collect. Never blocks. */
TIDE_API tide_array *tide_acosh(tide_array *a);
/* The number whose hyperbolic tangent is a, of floats, complex. Of 1 it is inf, NaN outside [-1,
** 1]. May collect. Never blocks. */
TIDE_API tide_array *tide_atanh(tide_array *a);

/* ---- special functions ---- Of floats, f16 and bf16 too. */

/* The error function, of floats; keeps -0.0. May collect. Never blocks. */
TIDE_API tide_array *tide_erf(tide_array *a);
/* 1 - erf(a), exact for large a too; of floats. May collect. Never blocks. */
TIDE_API tide_array *tide_erfc(tide_array *a);
/* The number whose erf is a, of floats; keeps -0.0. Of -1 and 1 an infinity, NaN outside.
** May collect. Never blocks. */
TIDE_API tide_array *tide_erfinv(tide_array *a);
/* The probability that a normally distributed number, of mean 0 and variance 1, is at most a; exact
** for large -a too; of floats. May collect. Never blocks. */
TIDE_API tide_array *tide_norm_cdf(tide_array *a);
/* The number whose tide_norm_cdf is a, of floats. Of 0 and 1 an infinity, NaN outside. May collect.
** Never blocks. */
TIDE_API tide_array *tide_norm_ppf(tide_array *a);
/* log(|gamma(a)|), of floats. Of 0, -1, -2, ... it is inf. May collect. Never blocks. */
TIDE_API tide_array *tide_lgamma(tide_array *a);
/* The derivative of tide_lgamma, of floats. Of 0.0 it is -inf, of -1, -2, ... NaN. May collect.
** Never blocks. */
TIDE_API tide_array *tide_digamma(tide_array *a);
/* sin(pi*a) / (pi*a), of floats; of 0 it is 1, of other whole numbers and infinities 0.
** May collect. Never blocks. */
TIDE_API tide_array *tide_sinc(tide_array *a);

/* ---- choice ---- */

/* a where cond is true, or any number but 0, else b. The type is what a and b promote to, of
** anything. May collect. Never blocks. */
TIDE_API tide_array *tide_where(tide_array *cond, tide_array *a, tide_array *b);
/* minimum(maximum(a, lo), hi), of bool, integers, floats. NaN in any operand wins; hi wins over lo.
** May collect. Never blocks. */
TIDE_API tide_array *tide_clip(tide_array *a, tide_array *lo, tide_array *hi);

/* ---- reductions ----
** Over the axes in `axes`: n of them, each may count from the end; NULL: all axes, whatever n is.
** An axis that the array lacks is TIDE_E_BOUNDS, one that stands twice TIDE_E_SHAPE, n < 0
** TIDE_E_INVALID. Over no axes (n 0, axes not NULL) every element is reduced by itself: it stays,
** in the result's type; argmin and argmax are TIDE_E_INVALID then. Reduced axes go, or stay with
** length 1 if keepdims is not 0. The same bits come in every run on one device. f16 and bf16
** accumulate in f32. */

/* The sum, of anything; bool and signed integers give i64, unsigned ones u64, which wrap. Of no
** elements 0. May collect. Never blocks. */
TIDE_API tide_array *tide_sum(tide_array *a, const int *axes, int n, int keepdims);
/* The product, of anything; bool and signed integers give i64, unsigned ones u64, which wrap. Of no
** elements 1. May collect. Never blocks. */
TIDE_API tide_array *tide_prod(tide_array *a, const int *axes, int n, int keepdims);
/* The least element, of bool, integers, floats; NaN wins. Of no elements TIDE_E_EMPTY, but where
** the result has none either. May collect. Never blocks. */
TIDE_API tide_array *tide_min(tide_array *a, const int *axes, int n, int keepdims);
/* The largest element, of bool, integers, floats; NaN wins. Of no elements TIDE_E_EMPTY, but where
** the result has none either. May collect. Never blocks. */
TIDE_API tide_array *tide_max(tide_array *a, const int *axes, int n, int keepdims);
/* The mean, of anything; bool and integers give f64. Of no elements NaN. May collect.
** Never blocks. */
TIDE_API tide_array *tide_mean(tide_array *a, const int *axes, int n, int keepdims);
/* Whether an element differs from 0, as NaN does; of anything; bool. Of no elements false.
** May collect. Never blocks. */
TIDE_API tide_array *tide_any(tide_array *a, const int *axes, int n, int keepdims);
/* Whether all elements differ from 0, as NaN does; of anything; bool. Of no elements true.
** May collect. Never blocks. */
TIDE_API tide_array *tide_all(tide_array *a, const int *axes, int n, int keepdims);
/* Where the least element is: its number, counting row-major within the reduced axes; of bool,
** integers, floats; i64. Of equals the first, and the first NaN wins. Of no elements TIDE_E_EMPTY,
** but where the result has none either. May collect. Never blocks. */
TIDE_API tide_array *tide_argmin(tide_array *a, const int *axes, int n, int keepdims);
/* Where the largest element is: as tide_argmin. May collect. Never blocks. */
TIDE_API tide_array *tide_argmax(tide_array *a, const int *axes, int n, int keepdims);

/* The variance: the mean of the squared distances from the mean, in two passes over a, which lose
** nothing where the mean is large; of anything, of complex numbers by |.|, real. It is divided by
** the number of elements less `correction`, or by 0 where that is negative: 0 gives the variance of
** the elements themselves, 1 what they tell of a population that they were drawn from. bool and
** integers give f64. Of no elements it is NaN, but 0 where `correction` is below 0. May collect.
** Never blocks. */
TIDE_API tide_array *tide_var(tide_array *a, const int *axes, int n, double correction,
                              int keepdims);
/* The standard deviation, the square root of tide_var. May collect. Never blocks. */
TIDE_API tide_array *tide_std(tide_array *a, const int *axes, int n, double correction,
                              int keepdims);

/* ---- matrix product ---- */

/* The matrix product over the last two axes, the others being a batch that broadcasts: (..., m, k)
** with (..., k, n) gives (..., m, n). An operand of one axis is a row on the left, a column on the
** right, and that axis is dropped. Any strides. Types promote; bool alone is TIDE_E_DTYPE. Floats
** and complex by cuBLAS or OpenBLAS, their workspace from the pool; f16 and bf16 round once, at the
** end; integers wrap. An operand without axes, or inner lengths that differ, are TIDE_E_SHAPE; an
** inner length of 0 gives zeros. May collect. Never blocks. */
TIDE_API tide_array *tide_matmul(tide_array *a, tide_array *b);
/* What follows a product and its bias: nothing; max(x, 0); 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715
** x^3))). Of not-a-number max(x, 0) is that or 0. */
enum { TIDE_IDENTITY = 0, TIDE_RELU = 1, TIDE_GELU = 2 };
/* activation(a b + bias): a layer of a network. a and b as for tide_matmul, b a matrix or more;
** bias (n) is added to each row of the product, else TIDE_E_SHAPE. Of floats, in the common type of
** the three; else TIDE_E_DTYPE. `activation`: TIDE_IDENTITY, TIDE_RELU, TIDE_GELU; else
** TIDE_E_INVALID. One pass where cuBLAS has it so (single matrices of f16, bf16, f32), else a
** second one over the product; f16 and bf16 are rounded once in the first case, and on the host.
** May collect. Never blocks. */
TIDE_API tide_array *tide_linear(tide_array *a, tide_array *b, tide_array *bias, int activation);

#if defined(__cplusplus)
}
#endif
#endif
