/* views.c: views that slices do not give: axes backwards and in other places, diagonals, windows.
**
** What must stay true: no element of a view lies outside the elements of its source. A view without
** elements keeps its source's offset, an axis of length 1 a stride that never counts. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/make/view.h"
#include "arrays/shape/diagonal.h"

/* The axes of a list, as bits; each once. */
static tide_status axis_set(const int *axes, int n, int ndim, const char *op, unsigned *out) {
    *out = 0;
    if (n < 0) return tidei_fail(TIDE_E_INVALID, op, "%d axes are given", n);
    for (int i = 0; i < n; i++) {
        int axis;
        tide_status s = tidei_axis(axes[i], ndim, op, &axis);
        if (s != TIDE_OK) return s;
        if (*out >> axis & 1)
            return tidei_fail(TIDE_E_SHAPE, op, "axis %d stands twice in the list", axis);
        *out |= 1u << axis;
    }
    return TIDE_OK;
}

/* ---- flip ---- */

static tide_status flip(tidei_layout *l, const int *axes, int n) {
    unsigned set = (1u << l->ndim) - 1;
    tide_status s = axes ? axis_set(axes, n, l->ndim, "tide_flip", &set) : TIDE_OK;
    for (int i = 0; i < l->ndim && s == TIDE_OK; i++) {
        if (!(set >> i & 1)) continue;
        if (tidei_layout_size(l)) l->offset += (l->shape[i] - 1) * l->strides[i];
        l->strides[i] = -l->strides[i];
    }
    return s;
}

tide_array *tide_flip(tide_array *a, const int *axes, int n) {
    tidei_operand o;
    if (tidei_operand_get(a, "tide_flip", 1, &o) != TIDE_OK) return NULL;
    tidei_layout l = o.lay;
    return tidei_view_over(&o, flip(&l, axes, n), &l, "tide_flip");
}

/* ---- moveaxis ---- */

static tide_status moveaxis(const tidei_layout *l, const int *source, const int *destination, int n,
                            tidei_layout *out) {
    static const char op[] = "tide_moveaxis";
    int from[TIDE_MAX_RANK], at = 0;
    unsigned moved, taken;
    if (n > 0 && (!source || !destination))
        return tidei_fail(TIDE_E_INVALID, op, "%s is NULL", source ? "destination" : "source");
    tide_status s = axis_set(source, n, l->ndim, op, &moved);
    if (s == TIDE_OK) s = axis_set(destination, n, l->ndim, op, &taken);
    if (s != TIDE_OK) return s;
    for (int i = 0; i < n; i++)
        from[destination[i] < 0 ? destination[i] + l->ndim : destination[i]] =
            source[i] < 0 ? source[i] + l->ndim : source[i];
    *out = *l;
    for (int i = 0; i < l->ndim; i++) {
        if (!(taken >> i & 1)) {
            while (moved >> at & 1) at++;
            from[i] = at++;
        }
        out->shape[i] = l->shape[from[i]];
        out->strides[i] = l->strides[from[i]];
    }
    return TIDE_OK;
}

tide_array *tide_moveaxis(tide_array *a, const int *source, const int *destination, int n) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, "tide_moveaxis", 1, &o) != TIDE_OK) return NULL;
    return tidei_view_over(&o, moveaxis(&o.lay, source, destination, n, &l), &l, "tide_moveaxis");
}

/* ---- diagonal ---- */

/* How many elements [i, i + offset] a matrix has. */
static int64_t diagonal_length(int64_t rows, int64_t cols, int64_t offset) {
    if (offset >= cols || offset <= -rows) return 0;
    if (offset < 0)
        rows += offset;
    else
        cols -= offset;
    return rows < cols ? rows : cols;
}

tide_status tidei_layout_diagonal(const tidei_layout *l, int64_t offset, int first, int second,
                                  const char *op, tidei_layout *out) {
    tide_status s = tidei_axis(first, l->ndim, op, &first);
    if (s == TIDE_OK) s = tidei_axis(second, l->ndim, op, &second);
    if (s != TIDE_OK) return s;
    if (first == second) return tidei_fail(TIDE_E_SHAPE, op, "both axes are axis %d", first);
    int64_t count = diagonal_length(l->shape[first], l->shape[second], offset);
    *out = (tidei_layout){.dtype = l->dtype, .offset = l->offset};
    for (int i = 0; i < l->ndim; i++) {
        if (i == first || i == second) continue;
        out->shape[out->ndim] = l->shape[i];
        out->strides[out->ndim++] = l->strides[i];
    }
    out->shape[out->ndim] = count;
    out->strides[out->ndim++] = l->strides[first] + l->strides[second];
    if (tidei_layout_size(out))
        out->offset += offset < 0 ? -offset * l->strides[first] : offset * l->strides[second];
    return TIDE_OK;
}

tide_array *tide_diagonal(tide_array *a, int64_t offset, int axis1, int axis2) {
    static const char op[] = "tide_diagonal";
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    return tidei_view_over(&o, tidei_layout_diagonal(&o.lay, offset, axis1, axis2, op, &l), &l, op);
}

/* ---- windows ---- */

/* Windows along one axis of a layout, whose elements they go through along its new last axis. */
static tide_status add_windows(tidei_layout *l, int axis, int64_t length, int64_t step) {
    int64_t n = l->shape[axis], stride = l->strides[axis];
    if (length < 0 || length > n)
        return tidei_fail(TIDE_E_SHAPE, "tide_windows",
                          "windows of %" PRId64 " elements along axis %d, which has %" PRId64,
                          length, axis, n);
    if (step < 1)
        return tidei_fail(TIDE_E_INVALID, "tide_windows",
                          "a step of %" PRId64 " along axis %d; wanted: at least 1", step, axis);
    int64_t count = (n - length) / step + 1;
    l->shape[axis] = count;
    l->strides[axis] = count > 1 ? stride * step : stride;
    l->shape[l->ndim] = length;
    l->strides[l->ndim++] = stride;
    return TIDE_OK;
}

static tide_status windows(tidei_layout *l, const int *axes, const int64_t *lengths,
                           const int64_t *steps, int n) {
    static const char op[] = "tide_windows";
    static const int firsts[TIDE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    unsigned set;
    int rank = l->ndim;
    if (n > 0 && !lengths) return tidei_fail(TIDE_E_INVALID, op, "lengths is NULL");
    if (n > TIDE_MAX_RANK - rank)
        return tidei_fail(TIDE_E_SHAPE, op,
                          "windows along %d axes of an array with %d dimensions: at most %d are "
                          "possible",
                          n, rank, TIDE_MAX_RANK);
    if (!axes) axes = firsts;
    tide_status s = axis_set(axes, n, rank, op, &set);
    for (int i = 0; i < n && s == TIDE_OK; i++)
        s = add_windows(l, axes[i] < 0 ? axes[i] + rank : axes[i], lengths[i],
                        steps ? steps[i] : 1);
    return s == TIDE_OK ? tidei_view_shape_check(l->dtype, l->ndim, l->shape, op) : s;
}

tide_array *tide_windows(tide_array *a, const int *axes, const int64_t *lengths,
                         const int64_t *steps, int n) {
    tidei_operand o;
    if (tidei_operand_get(a, "tide_windows", 1, &o) != TIDE_OK) return NULL;
    tidei_layout l = o.lay;
    return tidei_view_over(&o, windows(&l, axes, lengths, steps, n), &l, "tide_windows");
}
