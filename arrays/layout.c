/* layout.c: the arithmetic of shapes and strides: row-major layouts, extents, broadcasting, axes.
**
** What must stay true: the elements of every layout, times their size, fit into int64_t, stretched
** (stride 0) dimensions counted in full; so no later product of dimensions overflows. Dimensions of
** zero are legal and make everything empty. */
#include <inttypes.h>

#include "arrays/layout.h"
#include "runtime/base/text.h"

#define SHAPE_TEXT 192 /* bytes: eight dimensions of 19 digits, with punctuation */

tide_status tidei_shape_check(tide_dtype t, int ndim, const int64_t *shape, const char *op) {
    char text[SHAPE_TEXT];
    if (tidei_dtype_check(t, op) != TIDE_OK) return TIDE_E_INVALID;
    if (ndim < 0 || ndim > TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, op, "an array has 0 to %d dimensions, not %d",
                          TIDE_MAX_RANK, ndim);
    if (ndim && !shape)
        return tidei_fail(TIDE_E_INVALID, op, "shape is NULL with %d dimensions", ndim);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return tidei_fail(TIDE_E_SHAPE, op, "dimension %d of %s is negative", i,
                              tidei_shape_text(text, sizeof text, ndim, shape));
    }
    /* of the dimensions that are not zero, so that strides fit as well */
    int64_t bytes = (int64_t)tidei_dtype_size(t);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] && __builtin_mul_overflow(bytes, shape[i], &bytes))
            return tidei_fail(TIDE_E_NOMEM, op, "%s of %s is 2^63 bytes or more",
                              tidei_shape_text(text, sizeof text, ndim, shape), tide_dtype_name(t));
    }
    return TIDE_OK;
}

tide_status tidei_view_shape_check(tide_dtype t, int ndim, const int64_t *shape, const char *op) {
    tide_status s = tidei_shape_check(t, ndim, shape, op);
    return s == TIDE_E_NOMEM ? tidei_fail(TIDE_E_SHAPE, op, "%s", tide_error_last()->message) : s;
}

void tidei_row_major(int ndim, const int64_t *shape, int64_t *strides) {
    int64_t step = 1;
    for (int i = ndim; i-- > 0;) {
        strides[i] = step;
        if (shape[i]) step *= shape[i];
    }
}

tide_status tidei_layout_make(tide_dtype t, int ndim, const int64_t *shape, const char *op,
                              tidei_layout *out) {
    tide_status s = tidei_shape_check(t, ndim, shape, op);
    if (s != TIDE_OK) return s;
    out->dtype = t; /* and no more than is used: to clear all would take longer */
    out->ndim = ndim;
    out->offset = 0;
    tidei_row_major(ndim, shape, out->strides);
    for (int i = 0; i < ndim; i++) out->shape[i] = shape[i];
    return TIDE_OK;
}

int64_t tidei_layout_size(const tidei_layout *l) {
    int64_t n = 1;
    for (int i = 0; i < l->ndim; i++) {
        if (l->shape[i] == 0) return 0;
        n *= l->shape[i];
    }
    return n;
}

bool tidei_layout_contiguous(const tidei_layout *l) {
    int64_t step = 1;
    bool dense = true;
    for (int i = l->ndim; i-- > 0;) {
        if (l->shape[i] == 0) return true;
        /* go on: a later dimension may be zero */
        if (l->shape[i] != 1 && l->strides[i] != step) dense = false;
        step *= l->shape[i];
    }
    return dense;
}

void tidei_layout_extent(const tidei_layout *l, int64_t *lo, int64_t *hi) {
    *lo = *hi = l->offset;
    if (tidei_layout_size(l) == 0) return;
    for (int i = 0; i < l->ndim; i++) {
        int64_t reach = (l->shape[i] - 1) * l->strides[i];
        *(reach < 0 ? lo : hi) += reach;
    }
    ++*hi;
}

/* Elements lie apart where each step is beyond all that the smaller steps reach. So it is in every
** view that slices, diagonals, and other orders and shapes make of a row-major array; not where a
** step is 0, or less than the windows that it goes between. */
bool tidei_layout_repeats(const tidei_layout *l) {
    int64_t step[TIDE_MAX_RANK], reach[TIDE_MAX_RANK], far = 0;
    int n = 0;
    for (int i = 0; i < l->ndim; i++) {
        int64_t s = l->strides[i] < 0 ? -l->strides[i] : l->strides[i];
        int at = n;
        if (l->shape[i] == 0) return false;
        if (l->shape[i] == 1) continue;
        for (n++; at > 0 && step[at - 1] > s; at--) {
            step[at] = step[at - 1];
            reach[at] = reach[at - 1];
        }
        step[at] = s;
        reach[at] = (l->shape[i] - 1) * s;
    }
    bool apart = true;
    for (int i = 0; i < n; far += reach[i++]) apart &= step[i] > far;
    return !apart;
}

tide_status tidei_writable(const tidei_layout *l, const char *name, const char *op) {
    if (!tidei_layout_repeats(l)) return TIDE_OK;
    return tidei_fail(TIDE_E_INVALID, op, "%s is " TIDEI_STRETCHED, name);
}

bool tidei_layout_same(const tidei_layout *a, const tidei_layout *b) {
    if (a->offset != b->offset || a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->strides[i] != b->strides[i]))
            return false;
    }
    return true;
}

tide_status tidei_broadcast(int *ndim, int64_t *shape, const tidei_layout *b, const char *op) {
    int64_t joined[TIDE_MAX_RANK], count = 1;
    char left[SHAPE_TEXT], right[SHAPE_TEXT];
    /* the common case */
    if (*ndim == b->ndim && tidei_same_dims(b->ndim, shape, b->shape)) return TIDE_OK;
    if (*ndim == 0) {
        *ndim = b->ndim;
        memcpy(shape, b->shape, sizeof b->shape);
        return TIDE_OK;
    }
    int n = *ndim > b->ndim ? *ndim : b->ndim;
    for (int i = 1; i <= n; i++) { /* from the last axis */
        int64_t x = i <= *ndim ? shape[*ndim - i] : 1, y = i <= b->ndim ? b->shape[b->ndim - i] : 1;
        if (x != y && x != 1 && y != 1)
            return tidei_fail(TIDE_E_SHAPE, op,
                              "shapes %s and %s do not broadcast: axis %d is %" PRId64
                              " against %" PRId64,
                              tidei_shape_text(left, sizeof left, *ndim, shape),
                              tidei_shape_text(right, sizeof right, b->ndim, b->shape), -i, x, y);
        joined[n - i] = x == 1 ? y : x;
        if (joined[n - i] && __builtin_mul_overflow(count, joined[n - i], &count))
            return tidei_fail(TIDE_E_NOMEM, op,
                              "shapes %s and %s broadcast to 2^63 elements or more",
                              tidei_shape_text(left, sizeof left, *ndim, shape),
                              tidei_shape_text(right, sizeof right, b->ndim, b->shape));
    }
    *ndim = n;
    if (n) memcpy(shape, joined, (size_t)n * sizeof *shape);
    return TIDE_OK;
}

void tidei_broadcast_strides(const tidei_layout *l, int ndim, const int64_t *strides_shape,
                             int64_t *strides) {
    for (int i = 1; i <= ndim; i++) {
        bool stretched =
            i > l->ndim || (l->shape[l->ndim - i] == 1 && strides_shape[ndim - i] != 1);
        strides[ndim - i] = stretched ? 0 : l->strides[l->ndim - i];
    }
}

const char *tidei_shape_text(char *buf, size_t cap, int ndim, const int64_t *shape) {
    size_t at = 0;
    if (cap == 0) return buf;
    buf[0] = 0;
    for (int i = 0; i <= ndim && at < cap; i++) {
        int n = i < ndim ? tidei_format(buf + at, cap - at, "%s%" PRId64, i ? ", " : "(", shape[i])
                         : tidei_format(buf + at, cap - at, "%s",
                                        ndim == 0   ? "()"
                                        : ndim == 1 ? ",)"
                                                    : ")");
        at += (size_t)(n > 0 ? n : 0);
    }
    return buf;
}

tide_status tidei_axis(int axis, int ndim, const char *op, int *out) {
    if (axis < -ndim || axis >= ndim)
        return tidei_fail(TIDE_E_BOUNDS, op, "axis %d of an array with %d dimension%s", axis, ndim,
                          ndim == 1 ? "" : "s");
    *out = axis < 0 ? axis + ndim : axis;
    return TIDE_OK;
}
