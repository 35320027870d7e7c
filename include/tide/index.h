/* index.h: elements of an array at the places that index arrays name: taken and put, repeated,
** combined into one place, folded by segments.
**
** What holds for all of them, and is not said again below:
** - Indices are of any integer type (else TIDE_E_DTYPE); negative ones count from the end of their
**   axis. They are looked at on the device. One out of range is told as tide_take tells it: where
**   elements are read, the nearest valid one is; where an array is written, what belongs to that
**   index is left out; and the next sync point fails once with TIDE_E_BOUNDS, whose message names
**   the function, the index that was found first, and how many elements there are.
** - Where the indices go along an axis that has no elements, that is TIDE_E_BOUNDS at once; so is
**   an `axis` that there is not (from the end where negative). More than TIDE_MAX_RANK dimensions
**   are TIDE_E_SHAPE.
** - What writes into `a` writes into what shares memory with it too. A stretched `a`
**   (tide_broadcast_to) is TIDE_E_INVALID. `values` broadcast to the shape that is said
**   (TIDE_E_SHAPE) and are stored as tide_assign stores them (TIDE_E_DTYPE). Where indices or
**   values share memory with `a`, the result is as if they had been copied first. What is refused
**   is refused before anything is written; a failure of memory or of the device may leave `a`
**   written in part.
** - The same bits come in every run on one device, also where several indices are equal; but not
**   where TIDE_SCATTER_ANY_ORDER is given. */
#ifndef TIDE_INDEX_H
#define TIDE_INDEX_H

#include <tide/array.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- several axes at once ---- */

/* What an index does with one axis: a range, or an array of places. */
typedef struct tide_pick {
    int32_t kind; /* TIDE_PICK_* */
    int32_t reserved;
    union {
        tide_range range;
        tide_array *array;
    } value;
} tide_pick;
enum { TIDE_PICK_RANGE = 0, TIDE_PICK_ARRAY = 1 };
/* A range (tide_range_all and its like) as an item. Never collects. Never blocks. */
TIDE_API tide_pick tide_pick_range(tide_range r);
/* An index array as an item; its reference stays the caller's. NULL is told by whoever gets it.
** Never collects. Never blocks. */
TIDE_API tide_pick tide_pick_array(tide_array *a);

/* The elements of `a` at n items, for its axes in order, as NumPy indexes; axes beyond them stay
** whole. Ranges mean what they mean to tide_slice_ranges, and fail as they do there. The index
** arrays broadcast together (TIDE_E_SHAPE where they do not), and their shape replaces the axes
** that they go along: at the place of the first one where they stand side by side, else before all
** other dimensions. Beside an index array, tide_range_index counts as one, of rank 0. A bool
** array, a mask, stands for as many axes as it has, which must be as long (TIDE_E_SHAPE): it is
** the index arrays that tide_nonzero makes of it, side by side. One of rank 0 stands for no axis,
** and beside the others is an index array of length 1 where it is true, else 0. A new row-major
** array of a's dtype; without index arrays the view that tide_slice_ranges gives. An unknown kind
** of item is TIDE_E_INVALID, more items than axes TIDE_E_BOUNDS. With masks the call waits for the
** device, once for each, and is a sync point as tide_to_host. May collect. May block: with
** masks. */
TIDE_API tide_array *tide_index(tide_array *a, size_t n, const tide_pick *picks);
/* Writes `values` to the elements of `a` that tide_index would take; they broadcast to its result's
** shape. Of several values for one element the last in row-major order stays. It waits where
** tide_index does. May collect. May block: with masks. */
TIDE_API TIDE_NODISCARD tide_status tide_index_put(tide_array *a, size_t n, const tide_pick *picks,
                                                   tide_array *values);

/* ---- along one axis ---- */

/* The elements of `a` along `axis` at indices of their own for each position of the other axes: the
** result's element [i, j, k] is a[i, indices[i, j, k], k] where axis is 1. Both have as many axes,
** and all but `axis` broadcast together (TIDE_E_SHAPE). A new row-major array of a's dtype; with
** the indices of tide_argsort it sorts. May collect. Never blocks. */
TIDE_API tide_array *tide_take_along_axis(tide_array *a, tide_array *indices, int axis);
/* Writes `values` to the elements of `a` that tide_take_along_axis would take: a[i, indices[i, j,
** k], k] is values[i, j, k] where axis is 1. The indices' other axes are a's, or 1 (TIDE_E_SHAPE);
** values broadcast to the shape that this gives. Of several values for one element the last in
** row-major order stays. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_put_along_axis(tide_array *a, tide_array *indices,
                                                        int axis, tide_array *values);

/* Each element along `axis` `count` times, one beside the other: (a, b) twice is (a, a, b, b). A
** new row-major array of a's dtype. count < 0 is TIDE_E_INVALID, 2^63 elements TIDE_E_NOMEM. May
** collect. Never blocks. */
TIDE_API tide_array *tide_repeat(tide_array *a, int64_t count, int axis);
/* Element i along `axis` counts[i] times: counts are integers (TIDE_E_DTYPE) of shape (n), n being
** the axis's length, or one for all (TIDE_E_SHAPE). A negative one is TIDE_E_INVALID, a sum of 2^63
** TIDE_E_NOMEM. A new row-major array of a's dtype. Waits for the device, once: the result's shape
** depends on the counts. It is a sync point as tide_to_host. May collect. Blocks. */
TIDE_API tide_array *tide_repeat_each(tide_array *a, tide_array *counts, int axis);

/* ---- several values for one place ----
** Values are combined in place with the elements of `a` at `indices` along `axis`: a[i, indices[j],
** k] with values[i, j, k] where axis is 1. Indices are of any rank; values broadcast to the shape
** of tide_take(a, indices, axis). Of bool is TIDE_E_DTYPE where sums and products are meant, of
** complex where the least and the greatest are. On a GPU arrays of one byte an
** element are combined as i32, which takes four times the room of `a` meanwhile. */

enum { TIDE_SCATTER_ANY_ORDER = 1 };
/* a[indices] = values: of several values for one place the last in row-major order stays. Of
** anything. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scatter_put(tide_array *a, tide_array *indices, int axis,
                                                     tide_array *values);
/* a[indices] += values, of integers (which wrap), floats, complex; each value counts, whatever the
** others' indices. Floats are added in an order that the indices alone decide; f16 and bf16 in f32,
** and rounded once. With TIDE_SCATTER_ANY_ORDER f32, f64 and complex numbers may be added in any
** order, another one in each run, which takes no sort; other flags are TIDE_E_INVALID. May collect.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scatter_add(tide_array *a, tide_array *indices, int axis,
                                                     tide_array *values, unsigned flags);
/* a[indices] *= values, as tide_scatter_add without flags. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scatter_mul(tide_array *a, tide_array *indices, int axis,
                                                     tide_array *values);
/* a[indices] = minimum(a[indices], values), of bool, integers, floats. NaN wins; -0.0 is less than
** 0.0. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scatter_min(tide_array *a, tide_array *indices, int axis,
                                                     tide_array *values);
/* a[indices] = maximum(a[indices], values), as tide_scatter_min. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scatter_max(tide_array *a, tide_array *indices, int axis,
                                                     tide_array *values);

/* ---- segments ----
** Folds of the elements along `axis` that are of one segment; the segments take the axis's place in
** the result, a new row-major array. A segment without elements has the fold of none. Floats are
** added in an order that the segments alone decide; f16 and bf16 in f32, and rounded once. */

/* The sum of the elements whose id is k, for each k from 0 to count - 1, of anything; the result's
** types are tide_sum's. ids has the shape (n), n being the axis's length (TIDE_E_SHAPE), in any
** order; it is a list of indices into the segments. Of no elements 0. count < 0 is TIDE_E_INVALID.
** May collect. Never blocks. */
TIDE_API tide_array *tide_segment_sum(tide_array *a, tide_array *ids, int64_t count, int axis);
/* The mean, as tide_segment_sum; types are tide_mean's. Of no elements NaN. May collect.
** Never blocks. */
TIDE_API tide_array *tide_segment_mean(tide_array *a, tide_array *ids, int64_t count, int axis);
/* The least, as tide_segment_sum, of bool, integers, floats (else TIDE_E_DTYPE), in its own type.
** NaN wins; -0.0 is less than 0.0. Of no elements inf, or the type's largest number. May collect.
** Never blocks. */
TIDE_API tide_array *tide_segment_min(tide_array *a, tide_array *ids, int64_t count, int axis);
/* The largest, as tide_segment_min. Of no elements -inf, or the type's least number. May collect.
** Never blocks. */
TIDE_API tide_array *tide_segment_max(tide_array *a, tide_array *ids, int64_t count, int axis);

/* As tide_segment_sum, of segments that lie one behind the other: segment k has the elements from
** offsets[k] to before offsets[k + 1]. Offsets are integers (TIDE_E_DTYPE) of one axis, not empty
** (TIDE_E_SHAPE), one more than there are segments, and rise from 0 to the axis's length. That is
** looked at on the device: where it is not so the result is wrong, and the next sync point fails
** with TIDE_E_BOUNDS, naming the function and the offset. One offset for an axis with elements is
** that at once. May collect. Never blocks. */
TIDE_API tide_array *tide_segment_sum_offsets(tide_array *a, tide_array *offsets, int axis);
/* As tide_segment_mean, by offsets as tide_segment_sum_offsets. May collect. Never blocks. */
TIDE_API tide_array *tide_segment_mean_offsets(tide_array *a, tide_array *offsets, int axis);
/* As tide_segment_min, by offsets as tide_segment_sum_offsets. May collect. Never blocks. */
TIDE_API tide_array *tide_segment_min_offsets(tide_array *a, tide_array *offsets, int axis);
/* As tide_segment_max, by offsets as tide_segment_sum_offsets. May collect. Never blocks. */
TIDE_API tide_array *tide_segment_max_offsets(tide_array *a, tide_array *offsets, int axis);

#if defined(__cplusplus)
}
#endif
#endif
