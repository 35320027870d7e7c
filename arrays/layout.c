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

/* ---- whether elements meet ---- */

/* An axis with more than one element: a step between them that is not negative, and how far all go
** together. */
typedef struct stride {
    int64_t step, reach;
} stride;

#define MEETINGS_TRIED 4096

/* Whether steps along the first n axes, at most as many to and fro as each has, lead from `from` to
** 0. Where that takes more than `tries` it is taken to be so. */
static bool leads_back(const stride *axes, int n, int64_t from, int *tries) {
    int64_t rest = 0;
    if (n == 0 || from == 0) return from == 0;
    if (--*tries < 0) return true;
    const stride *last = &axes[n - 1];
    for (int i = 0; i < n - 1; i++) rest += axes[i].reach;
    /* the others lead as far as `rest` */
    int64_t low = -from - rest, high = rest - from;
    if (low < -last->reach) low = -last->reach;
    if (high > last->reach) high = last->reach;
    low = low / last->step + (low % last->step > 0);
    high = high / last->step - (high % last->step < 0);
    for (int64_t k = low; k <= high; k++)
        if (leads_back(axes, n - 1, from + k * last->step, tries)) return true;
    return false;
}

/* Whether two elements meet that are apart along the last of n axes, and the others of them. */
static bool meet_along(const stride *axes, int n, int *tries) {
    const stride *last = &axes[n - 1];
    int64_t rest = 0;
    for (int i = 0; i < n - 1; i++) rest += axes[i].reach;
    for (int64_t at = last->step; at <= last->reach && at <= rest; at += last->step)
        if (leads_back(axes, n - 1, at, tries)) return true;
    return false;
}

/* The axes that have more than one element, by their steps. */
static int sort_strides(const tidei_layout *l, stride *axes) {
    int n = 0;
    for (int i = 0; i < l->ndim; i++) {
        int64_t s = l->strides[i] < 0 ? -l->strides[i] : l->strides[i];
        int at = n;
        if (l->shape[i] <= 1) continue;
        for (n++; at > 0 && axes[at - 1].step > s; at--) axes[at] = axes[at - 1];
        axes[at] = (stride){s, (l->shape[i] - 1) * s};
    }
    return n;
}

/* Elements lie apart where each step is beyond all that the smaller steps reach: so in every view
** that slices, diagonals, and other orders and shapes make of a row-major array. Where one is not,
** as of windows, ways from one element back to itself are looked for. */
bool tidei_layout_repeats(const tidei_layout *l) {
    stride axes[TIDE_MAX_RANK];
    int64_t far = 0;
    int n = sort_strides(l, axes), tries = MEETINGS_TRIED;
    if (tidei_layout_size(l) == 0) return false;
    if (n && axes[0].step == 0) return true;
    for (int i = 0; i < n; far += axes[i++].reach)
        if (axes[i].step <= far && meet_along(axes, i + 1, &tries)) return true;
    return false;
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
