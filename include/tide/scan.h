/* scan.h: running sums, products, least and largest elements along an axis.
**
** The element at place i of the result is the fold of the first i + 1 elements along the axis,
** which counts from the end where it is negative; an axis that the array lacks, as one without axes
** does, is TIDE_E_BOUNDS. With TIDE_SCAN_REVERSE the fold begins at the other end: the element at
** place i is that of those from i on. With TIDE_SCAN_INITIAL the result has one place more along
** the axis, the fold of no elements: before the first, and with TIDE_SCAN_REVERSE behind the last.
** Other flags are TIDE_E_INVALID. Any strides in, a new row-major array out, queued on the current
** stream; the result's shape is that of `a`, but for that place. f16 and bf16 accumulate in f32.
** The same bits come in every run on one device; floats and complex numbers are joined in an order
** that the shape fixes, not one after the other. A shape with too many elements is TIDE_E_NOMEM.
** NULL in gives NULL out. */
#ifndef TIDE_SCAN_H
#define TIDE_SCAN_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

enum { TIDE_SCAN_REVERSE = 1, TIDE_SCAN_INITIAL = 2 };

/* Running sums, of anything; bool and signed integers give i64, unsigned ones u64, which wrap. Of
** no elements 0. May collect. Never blocks. */
TIDE_API tide_array *tide_cumsum(tide_array *a, int axis, unsigned flags);
/* Running products, of anything; bool and signed integers give i64, unsigned ones u64, which wrap.
** Of no elements 1. May collect. Never blocks. */
TIDE_API tide_array *tide_cumprod(tide_array *a, int axis, unsigned flags);
/* The least element so far, of bool, integers, floats (else TIDE_E_DTYPE), in its own type; NaN
** wins, and of 0.0 and -0.0 either may come. Of no elements inf, or the type's largest number. May
** collect. Never blocks. */
TIDE_API tide_array *tide_cummin(tide_array *a, int axis, unsigned flags);
/* The largest element so far, of bool, integers, floats (else TIDE_E_DTYPE), in its own type; NaN
** wins, and of 0.0 and -0.0 either may come. Of no elements -inf, or the type's least number. May
** collect. Never blocks. */
TIDE_API tide_array *tide_cummax(tide_array *a, int axis, unsigned flags);

#if defined(__cplusplus)
}
#endif
#endif
