/* order.h: sorting, and what follows from it: the largest, places in sorted arrays, distinct
** elements, medians, histograms.
**
** The order is NumPy's. Numbers ascend; 0.0 and -0.0 are equal; NaN is greater than all, and any
** two are equal, so ascending they come last and descending first. false is less than true. Complex
** numbers are compared by their real parts, then by their imaginary ones; those with NaN are
** greater than those without, in the order (x, NaN), (NaN, y), (NaN, NaN). Descending is the order
** turned round. Every sort is stable: equal elements stay in the order in which they stood,
** descending too. So results do not depend on the device.
** Arrays are of any type unless a text says otherwise, of any strides, and are left as they are;
** results are new row-major arrays, queued on the current stream. `axis` counts from the end where
** negative; one that the array lacks, as every one of an array of rank 0, is TIDE_E_BOUNDS. Places
** are i64 and count from 0 along the axis. Rows of length 0 are legal unless a text says otherwise.
** Workspaces are of the device's pool: up to four elements and places for each element. Results
** through pointers are written together, at success; each may be NULL where it is not wanted, but
** not all (TIDE_E_INVALID). */
#ifndef TIDE_ORDER_H
#define TIDE_ORDER_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- sorting ---- */

/* `a` with its elements sorted along `axis`, ascending, or descending where that is not 0. Of equal
** elements that differ in bits (zeros, NaN) each stays itself. May collect. Never blocks. */
TIDE_API tide_array *tide_sort(tide_array *a, int axis, int descending);
/* The places along `axis` from which tide_sort takes its elements: i64, of the shape of `a`.
** May collect. Never blocks. */
TIDE_API tide_array *tide_argsort(tide_array *a, int axis, int descending);
/* Both from one sort: `values` as tide_sort, `indices` as tide_argsort. May collect.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_sort_both(tide_array *a, int axis, int descending,
                                                   tide_array **values, tide_array **indices);
/* `a` partitioned along `axis`: at place kth is the element that a sort puts there, none before it
** is greater, none after it less. The others' order is not promised; today it is a sort's, which
** keeps this promise. kth counts from the end where negative; out of range it is TIDE_E_BOUNDS.
** May collect. Never blocks. */
TIDE_API tide_array *tide_partition(tide_array *a, int64_t kth, int axis);
/* The places along `axis` from which such a partition takes its elements: i64, of the shape of `a`;
** errors as of tide_partition. May collect. Never blocks. */
TIDE_API tide_array *tide_argpartition(tide_array *a, int64_t kth, int axis);
/* The k greatest along `axis`, from the greatest on, or the k least where largest is 0, from the
** least on; of equals those at the lowest places, in their order: what the first k of a sort are,
** descending or ascending. So NaN is among the greatest. The axis has k elements in `values`, of
** the type of `a`, and in `indices`, i64. k < 0, or more than there are, is TIDE_E_BOUNDS.
** May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_topk(tide_array *a, int64_t k, int axis, int largest,
                                              tide_array **values, tide_array **indices);

#if defined(__cplusplus)
}
#endif
#endif
