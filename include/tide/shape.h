/* shape.h: other shapes of the same elements: views beyond those of array.h, arrays shifted,
** padded, joined and repeated, grids and diagonals, and differences of neighbours.
**
** Names and meanings are NumPy's where it has them. Axes count from the end where they are
** negative. What is called a view shares the memory of `a` and queues no work, as tide_slice's; all
** else is a new row-major array on the current stream. Every element type is taken where the text
** names none. */
#ifndef TIDE_SHAPE_H
#define TIDE_SHAPE_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- views ----
** An axis that the array lacks is TIDE_E_BOUNDS, one that stands twice in a list TIDE_E_SHAPE, a
** negative number of axes TIDE_E_INVALID. */

/* The view in which the n axes in `axes` run backwards; NULL: all of them, whatever n is. May
** collect. Never blocks. */
TIDE_API tide_array *tide_flip(tide_array *a, const int *axes, int n);
/* The view in which the n axes source[i] are the axes destination[i] of the result, and the others
** follow in their order. May collect. Never blocks. */
TIDE_API tide_array *tide_moveaxis(tide_array *a, const int *source, const int *destination, int n);
/* The view of a diagonal: elements [..., i, i + offset] of axes axis1 and axis2 (for a negative
** offset [..., i - offset, i]), along a new last axis in the place of both; of length 0 where there
** are none. The same axis twice is TIDE_E_SHAPE. It may be written: tide_fill(tide_diagonal(a, 0,
** 0, 1), ...). May collect. Never blocks. */
TIDE_API tide_array *tide_diagonal(tide_array *a, int64_t offset, int axis1, int axis2);
/* The view of windows that slide along n axes: lengths[i] elements along axes[i] (NULL: the first n
** axes), from one to the next steps[i] elements on (NULL: 1). Those axes count the windows,
** (length of the axis - lengths[i]) / steps[i] + 1 of them, rounded down, and new last axes go
** through each, in the order of the list: NumPy's sliding_window_view. Windows that overlap have
** elements in one place, so that what writes refuses them as it does a stretched view
** (tide_broadcast_to); those that do not (steps[i] >= lengths[i]) may be written. A length that is
** negative, or more than the axis has, is TIDE_E_SHAPE, as are more than TIDE_MAX_RANK dimensions;
** a step below 1 is TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API tide_array *tide_windows(tide_array *a, const int *axes, const int64_t *lengths,
                                  const int64_t *steps, int n);
/* What tide_reshape_with may do: as tide_reshape; only a view; only a copy. */
enum { TIDE_COPY_IF_NEEDED = 0, TIDE_COPY_NEVER = 1, TIDE_COPY_ALWAYS = 2 };
/* tide_reshape, `copy` saying whether the elements may or must be copied (another one is
** TIDE_E_INVALID). TIDE_COPY_NEVER is TIDE_E_SHAPE where no strides give the shape. Waits
** where tide_copy does. May collect. May block. */
TIDE_API tide_array *tide_reshape_with(tide_array *a, int ndim, const int64_t *shape, int copy);

/* ---- several at once ---- Written to outs[0], outs[1], ..., together, at success. */

/* The views a[i] along `axis` (TIDE_E_BOUNDS), which they lack; m must be its length, else
** TIDE_E_SHAPE. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_unstack(tide_array *a, int axis, tide_array **outs,
                                                 size_t m);
/* Views of m parts along `axis` (TIDE_E_BOUNDS), one after the other. `indices` says where each but
** the first begins, n = m - 1 of them (TIDE_E_SHAPE), as the numbers of a slice do: from the end
** where negative, and clipped. NULL: the parts are as long as each other, or the first ones by 1
** longer: NumPy's array_split. No part at all is TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_split(tide_array *a, const int64_t *indices, size_t n,
                                               int axis, tide_array **outs, size_t m);
/* The views of n >= 1 arrays (TIDE_E_INVALID) stretched to the shape that all broadcast to
** (TIDE_E_SHAPE), as by tide_broadcast_to. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_broadcast_arrays(tide_array *const *arrays, size_t n,
                                                          tide_array **outs);
/* Which axis of a grid belongs to the first of its arrays. */
enum {
    TIDE_GRID_XY = 0, /* the second, and the first to the second array: NumPy's default */
    TIDE_GRID_IJ = 1  /* the first; each has its own, in their order */
};
/* The coordinates of a grid: of n >= 1 arrays (TIDE_E_INVALID) of rank 1 or 0, at most
** TIDE_MAX_RANK (TIDE_E_SHAPE), each stretched along the axes of the others, all of rank n. Views,
** stretched as by tide_broadcast_to: tide_copy one to write to it. Another `indexing` is
** TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_meshgrid(tide_array *const *arrays, size_t n, int indexing,
                                                  tide_array **outs);

/* ---- shifted, padded, joined, repeated ---- */

/* The elements shifted by shifts[i] along axes[i] (TIDE_E_BOUNDS), n of them (negative:
** TIDE_E_INVALID), those beyond the end coming in at the beginning; an axis may stand twice, and
** its shifts add up. Axes NULL: by the sum of the shifts in the row-major order of all elements.
** Waits where tide_copy does. May collect. May block. */
TIDE_API tide_array *tide_roll(tide_array *a, const int64_t *shifts, const int *axes, int n);
/* What stands in a border. */
enum {
    TIDE_PAD_CONSTANT = 0, /* the value that is given */
    TIDE_PAD_EDGE = 1,     /* the nearest element of the array */
    TIDE_PAD_REFLECT = 2, /* the array mirrored in its first and last elements: c b | a b c | b a */
    TIDE_PAD_WRAP = 3     /* the array again: b c | a b c | a b */
};
/* The array with before[i] elements in front of it and after[i] behind it along axis i; each has as
** many entries as `a` axes, none negative (TIDE_E_SHAPE). A border may be longer than the array:
** what it repeats goes on. `value`, as in tide_full, counts for TIDE_PAD_CONSTANT alone; the other
** modes fail with TIDE_E_EMPTY where an axis without elements is to be padded. Another mode is
** TIDE_E_INVALID. Waits where tide_copy does. May collect. May block. */
TIDE_API tide_array *tide_pad(tide_array *a, const int64_t *before, const int64_t *after, int mode,
                              tide_arg value);
/* n >= 1 arrays (TIDE_E_INVALID) of one shape (TIDE_E_SHAPE) along a new axis of the result, which
** is its axis `axis` (TIDE_E_BOUNDS); dtypes promote as in expressions (TIDE_E_DTYPE where they do
** not). Waits where tide_copy does. May collect. May block. */
TIDE_API tide_array *tide_stack(tide_array *const *arrays, size_t n, int axis);
/* The array repeated as a whole reps[i] times along axis i, n of them; of fewer than the array has
** axes they are the last ones, and to more of them axes are added in front. Negative ones, or a
** result of more than TIDE_MAX_RANK dimensions, are TIDE_E_SHAPE, a negative n TIDE_E_INVALID.
** Waits where tide_copy does. May collect. May block. */
TIDE_API tide_array *tide_tile(tide_array *a, const int64_t *reps, int n);

/* ---- triangles and diagonals ---- */

/* The matrices in the last two axes (fewer are TIDE_E_SHAPE) with zeros above the diagonal k: above
** the main one for k = 0, more stays for k > 0. May collect. Never blocks. */
TIDE_API tide_array *tide_tril(tide_array *a, int64_t k);
/* As tide_tril, with zeros below the diagonal k. May collect. Never blocks. */
TIDE_API tide_array *tide_triu(tide_array *a, int64_t k);
/* A matrix of zeros with ones on the diagonal k, above the main one for k > 0. Errors are those of
** tide_zeros. May collect. Never blocks. */
TIDE_API tide_array *tide_eye(tide_runtime *rt, tide_dtype t, int64_t rows, int64_t cols,
                              int64_t k);

/* ---- filled arrays like others ---- In the kind of memory that `a` has. */

/* An array of the shape and type of `a`, whose elements have no value yet. May collect. Never
** blocks. */
TIDE_API tide_array *tide_empty_like(tide_array *a);
/* The same of zeros (bool: false). May collect. Never blocks. */
TIDE_API tide_array *tide_zeros_like(tide_array *a);
/* The same of ones (bool: true). May collect. Never blocks. */
TIDE_API tide_array *tide_ones_like(tide_array *a);
/* The same whose every element is `value`: errors are those of tide_full. May collect. Never
** blocks. */
TIDE_API tide_array *tide_full_like(tide_array *a, tide_arg value);

/* ---- spaced numbers ---- */

/* `count` numbers from start to stop, all as far apart: start + i * step, computed in f64; with
** `endpoint` (1) the last is stop itself, without (0) one step before it. Integers are rounded down
** (bool is TIDE_E_DTYPE, as are bounds that t does not have). A count below 0, bounds that are not
** finite, or another `endpoint`, is TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API tide_array *tide_linspace(tide_runtime *rt, tide_dtype t, double start, double stop,
                                   int64_t count, int endpoint);
/* base to the power of each of tide_linspace's numbers, in f64, rounded towards zero for integers;
** the last one as C's pow has it. Errors are tide_linspace's, of the numbers themselves; a base
** that is not finite, or not above 0, is TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API tide_array *tide_logspace(tide_runtime *rt, tide_dtype t, double start, double stop,
                                   int64_t count, int endpoint, double base);

/* ---- neighbours ---- */

/* The differences a[i + 1] - a[i] along `axis` (TIDE_E_BOUNDS), taken `order` times (negative:
** TIDE_E_INVALID), so that the axis is so much shorter, or empty; of the type of `a`, in which
** integers wrap; of bool whether the two differ. Order 0 is a copy, which waits where tide_copy
** does. May collect. May block. */
TIDE_API tide_array *tide_diff(tide_array *a, int order, int axis);
/* The integral of y along `axis` (TIDE_E_BOUNDS) by trapezoids, 0 of fewer than two values:
** sum((x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2). `x` is a number, the distance of all neighbours,
** or an array of the places, as many as the axis is long: of rank 1, or of y's rank and with other
** axes that broadcast with y's (TIDE_E_SHAPE). Floats and complex in their common type, integers
** and bool as f64. May collect. Never blocks. */
TIDE_API tide_array *tide_trapezoid(tide_array *y, tide_arg x, int axis);

#if defined(__cplusplus)
}
#endif
#endif
