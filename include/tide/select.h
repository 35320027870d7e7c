/* select.h: the elements of an array that a condition picks.
**
** An element that is not 0 counts, as NaN does; of complex numbers either part. Places are in
** row-major order. Where the size of a result depends on elements, the call waits until the device
** has counted them, once, as tide_synchronize does; the elements themselves are queued on the
** current stream. Any strides in, new row-major arrays out. NULL in gives NULL out. */
#ifndef TIDE_SELECT_H
#define TIDE_SELECT_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Where the elements are that are not 0: outs[d] is a new i64 array of one axis, with the index
** along axis d of each of them. `n` must be the number of axes (TIDE_E_INVALID, as `outs` NULL is);
** an array without axes is TIDE_E_SHAPE. All outs are written together, at success. May collect.
** Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_nonzero(tide_array *a, tide_array **outs, size_t n);
/* The same as one i64 array with a row for each element that is not 0, and a column for each axis
** of `a`. May collect. Blocks. */
TIDE_API tide_array *tide_argwhere(tide_array *a);
/* How many elements are not 0, of anything; i64. Over the axes in `axes`: n of them, each may count
** from the end; NULL: all axes, whatever n is; none (n 0, axes not NULL): each element by itself.
** An axis that the array lacks is TIDE_E_BOUNDS, one that stands twice TIDE_E_SHAPE, n < 0
** TIDE_E_INVALID. Counted axes go, or stay with length 1 if keepdims is not 0. May collect. Never
** blocks. */
TIDE_API tide_array *tide_count_nonzero(tide_array *a, const int *axes, int n, int keepdims);
/* The items of `a` where the mask is true, one behind the other: NumPy's a[mask]. The mask is bool
** (else TIDE_E_DTYPE), and its shape the first dimensions of a's, or all of them (TIDE_E_SHAPE);
** the others are those of an item. The result's first axis counts the items. May collect. Blocks.
** */
TIDE_API tide_array *tide_masked_select(tide_array *a, tide_array *mask);
/* Writes values where the mask is true: NumPy's a[mask] = values; the mask is as in
** tide_masked_select. `values` broadcast to the items, or have a first axis as long as there are
** items: else TIDE_E_SHAPE, and nothing is written. They are cast as in tide_assign (TIDE_E_DTYPE);
** a stretched `a` is TIDE_E_INVALID. May collect. May block: where values have a first axis that is
** not 1 long, which has to be counted. */
TIDE_API TIDE_NODISCARD tide_status tide_masked_put(tide_array *a, tide_array *mask,
                                                    tide_array *values);

#if defined(__cplusplus)
}
#endif
#endif
