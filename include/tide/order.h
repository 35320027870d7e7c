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

/* The places that sort n >= 1 keys at once along `axis` (TIDE_E_INVALID for none): arrays of one
** shape (TIDE_E_SHAPE), of any types. The first key counts most, and each further one where those
** before it are equal: i64, of their shape. (NumPy's lexsort takes keys from the last on.)
** May collect. Never blocks. */
TIDE_API tide_array *tide_lexsort(tide_array *const *keys, size_t n, int axis);

/* ---- in sorted arrays, and sets ---- */

/* Where `values` go in `sorted`, which has one axis (TIDE_E_SHAPE) and is sorted ascending: before
** the elements that equal them, or behind where `right` is not 0. i64, of the shape of `values`;
** what comes of an array that is not sorted is not promised. Types promote (TIDE_E_DTYPE). Each
** value takes log2 of the length looks. May collect. Never blocks. */
TIDE_API tide_array *tide_searchsorted(tide_array *sorted, tide_array *values, int right);
/* Whether each element of `a` is among those of `b`, of any shape: bool, of the shape of `a`. NaN
** is in nothing. Types promote (TIDE_E_DTYPE). May collect. Never blocks. */
TIDE_API tide_array *tide_isin(tide_array *a, tide_array *b);

/* ---- distinct elements ---- The four take an array of any shape as one row, in row-major order.
** Distinct elements come sorted; each NaN is one of its own, and so is each complex number with
** NaN; of 0.0 and -0.0 the one that stands first. As their number is the result's size, each call
** waits until the device has counted them, once. */

/* The distinct elements of `a`: one axis. May collect. Blocks. */
TIDE_API tide_array *tide_unique_values(tide_array *a);
/* The same, and how often each occurs (i64). May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_unique_counts(tide_array *a, tide_array **values,
                                                       tide_array **counts);
/* The same, and for each element of `a` its place among the distinct ones: i64, of the shape of
** `a`. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_unique_inverse(tide_array *a, tide_array **values,
                                                        tide_array **inverse);
/* All of these, and in `indices` where each distinct element first stands in `a` (i64, counted
** row-major). May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_unique_all(tide_array *a, tide_array **values,
                                                    tide_array **indices, tide_array **inverse,
                                                    tide_array **counts);

/* ---- medians and quantiles ----
** Over the axes in `axes`, n and keepdims as in the reductions of ops.h: NULL is all axes; an axis
** that the array lacks is TIDE_E_BOUNDS, one that stands twice TIDE_E_SHAPE, n < 0 TIDE_E_INVALID.
** Of bool and integers, which give f64, and floats, which keep their type; complex is TIDE_E_DTYPE.
** A row with NaN, or without elements, has the quantile NaN. Computed in f64 and rounded once. */

/* The middle element, or the mean of the two in the middle: the quantile 0.5. May collect.
** Never blocks. */
TIDE_API tide_array *tide_median(tide_array *a, const int *axes, int n, int keepdims);
/* NumPy's linear quantile: of a sorted row x of length k, with j the whole part of q * (k - 1), t
** the rest, and d = x[j + 1] - x[j]: x[j] + t * d, from t = 0.5 on x[j + 1] - (1 - t) * d; x[j]
** where t is 0 or the two are equal, infinities too, and the infinite one where one is (where NumPy
** has NaN, but for its median). q is a number from 0 to 1 (else TIDE_E_INVALID), or an array of
** them, of real type (TIDE_E_DTYPE): then its axes come first in the result, of at most
** TIDE_MAX_RANK (TIDE_E_SHAPE), and what is not from 0 to 1 gives NaN. May collect. Never
** blocks. */
TIDE_API tide_array *tide_quantile(tide_array *a, tide_arg q, const int *axes, int n, int keepdims);

/* ---- counts ---- */

/* How many elements of `a`, of any shape, lie in each of `bins` >= 1 bins (TIDE_E_INVALID) from
** low to high: `counts` (bins), i64, and the bins' `edges` (bins + 1), f64: edge i is low + i * w,
** where w is (high - low) / bins, and the last one high. A bin has its lower edge, the last one
** both. What lies outside, and NaN, is not counted. low and high NaN: the least and the greatest
** element, of no elements 0 and 1; where they are equal they are moved apart by a half each.
** Otherwise low must be below high, both finite (TIDE_E_INVALID). Where the least or the greatest
** element is not finite nothing is counted. Real types only (TIDE_E_DTYPE), compared as f64.
** May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_histogram(tide_array *a, int64_t bins, double low,
                                                   double high, tide_array **counts,
                                                   tide_array **edges);
/* How often each number from 0 to bins - 1 is among the elements of `a`, of bool or integers
** (TIDE_E_DTYPE) and any shape: i64, of one axis; others are not counted. `weights` (may be NULL)
** of the shape of `a` (TIDE_E_SHAPE), real (TIDE_E_DTYPE): their sums instead, in f64, in the same
** bits in every run. bins < 0: as many as the greatest element wants, for which the call waits.
** May collect. May block. */
TIDE_API tide_array *tide_bincount(tide_array *a, tide_array *weights, int64_t bins);

#if defined(__cplusplus)
}
#endif
#endif
