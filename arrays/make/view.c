/* view.c: arrays that share another's memory: slices, transposes, reshapes, stretched shapes. Each
** is a new layout over the same storage; only reshapes may copy, where no strides give the new
** shape, or where the caller asks for it. */
#include <errno.h>
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/make/slice.h"
#include "arrays/make/view.h"
#include "runtime/base/text.h"

tide_array *tidei_view_over(tidei_operand *o, tide_status s, const tidei_layout *l,
                            const char *op) {
    if (s == TIDE_OK) return tidei_array_over(o->rt, tidei_operand_give(o), l, op);
    tidei_operand_put(o);
    return NULL;
}

tide_array *tidei_view_beside(const tidei_operand *o, const tidei_layout *l, const char *op) {
    tidei_storage_retain(o->st);
    return tidei_array_over(o->rt, o->st, l, op);
}

tide_array *tide_slice_ranges(tide_array *a, size_t n, const tide_range *ranges) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, "tide_slice_ranges", 1, &o) != TIDE_OK) return NULL;
    tide_status s = n && !ranges ? tidei_fail(TIDE_E_INVALID, "tide_slice_ranges", "ranges is NULL")
                                 : tidei_layout_slice(&o.lay, n, ranges, "tide_slice_ranges", &l);
    return tidei_view_over(&o, s, &l, "tide_slice_ranges");
}

tide_range tide_range_all(void) { return tide_range_slice(TIDE_NONE, TIDE_NONE, TIDE_NONE); }
tide_range tide_range_slice(int64_t start, int64_t stop, int64_t step) {
    return (tide_range){.start = start, .stop = stop, .step = step, .kind = TIDE_RANGE_SLICE};
}
tide_range tide_range_index(int64_t i) {
    return (tide_range){.start = i, .stop = TIDE_NONE, .step = TIDE_NONE, .kind = TIDE_RANGE_INDEX};
}
/* without numbers, which their kinds do not look at */
static tide_range range_of_kind(int32_t kind) {
    return (tide_range){.start = TIDE_NONE, .stop = TIDE_NONE, .step = TIDE_NONE, .kind = kind};
}
tide_range tide_range_newaxis(void) { return range_of_kind(TIDE_RANGE_NEWAXIS); }
tide_range tide_range_ellipsis(void) { return range_of_kind(TIDE_RANGE_ELLIPSIS); }

/* ---- slices by text ---- */

static tide_status slice_layout(const tidei_operand *o, const char *text, const char *op,
                                tidei_layout *l) {
    tide_range ranges[TIDEI_RANGES_MAX];
    size_t n;
    tide_status s = tidei_slice_parse(text, op, ranges, &n);
    return s == TIDE_OK ? tidei_layout_slice(&o->lay, n, ranges, op, l) : s;
}

tide_array *tide_slice(tide_array *a, const char *text) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, "tide_slice", 1, &o) != TIDE_OK) return NULL;
    tide_status s = text ? slice_layout(&o, text, "tide_slice", &l)
                         : tidei_fail(TIDE_E_INVALID, "tide_slice", "the text is NULL");
    return tidei_view_over(&o, s, &l, "tide_slice");
}

static const char slicef[] = "tide_slicef";
#define USUAL_TEXT 128 /* bytes: a few ranges with numbers of 64 bits */

/* The slice by what the format makes, in host memory where it is longer than usual. */
__attribute__((format(printf, 2, 0))) static tide_status
slice_formatted(const tidei_operand *o, const char *fmt, va_list args, tidei_layout *l) {
    char usual[USUAL_TEXT], *text = usual;
    va_list again;
    va_copy(again, args);
    errno = 0;
    int n = tidei_vformat(usual, sizeof usual, fmt, args), why = errno;
    size_t room = n < 0 ? 0 : (size_t)n + 1;
    if (room > sizeof usual) {
        text = tidei_host_take(o->rt, room);
        if (text) tidei_vformat(text, room, fmt, again);
    }
    va_end(again);
    if (n < 0)
        return why == ENOMEM
                   ? tidei_fail(TIDE_E_HOST_NOMEM, slicef,
                                "host memory is exhausted: the C library had none to write the "
                                "format with")
                   : tidei_fail(TIDE_E_INVALID, slicef, "the format cannot be written: %s",
                                tidei_errno_text(why));
    tide_status s = text ? slice_layout(o, text, slicef, l) : tidei_fail_host_memory(slicef, room);
    if (text != usual) tidei_host_free(o->rt, text);
    return s;
}

tide_array *tide_slicef(tide_array *a, const char *fmt, ...) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, slicef, 1, &o) != TIDE_OK) return NULL;
    if (!fmt)
        return tidei_view_over(&o, tidei_fail(TIDE_E_INVALID, slicef, "the format is NULL"), &l,
                               slicef);
    va_list args;
    va_start(args, fmt);
    tide_status s = slice_formatted(&o, fmt, args, &l);
    va_end(args);
    return tidei_view_over(&o, s, &l, slicef);
}

static tide_status transpose(const tidei_layout *l, const int *perm, tidei_layout *out) {
    unsigned used = 0;
    *out = *l;
    for (int i = 0; i < l->ndim; i++) {
        int axis = l->ndim - 1 - i;
        tide_status s = perm ? tidei_axis(perm[i], l->ndim, "tide_transpose", &axis) : TIDE_OK;
        if (s != TIDE_OK) return s;
        if (used >> axis & 1)
            return tidei_fail(TIDE_E_INVALID, "tide_transpose", "axis %d stands twice", axis);
        used |= 1u << axis;
        out->shape[i] = l->shape[axis];
        out->strides[i] = l->strides[axis];
    }
    return TIDE_OK;
}

tide_array *tide_transpose(tide_array *a, const int *perm) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, "tide_transpose", 1, &o) != TIDE_OK) return NULL;
    return tidei_view_over(&o, transpose(&o.lay, perm, &l), &l, "tide_transpose");
}

static tide_array *reshape_copy(tidei_operand *o, int ndim, const int64_t *shape, const char *op) {
    tidei_operand dst, dense;
    tide_array *made =
        tidei_array_make_in(o->rt, tidei_operand_kind(o), o->lay.dtype, ndim, shape, op, &dst);
    if (!made) return NULL;
    dense = dst;
    dense.lay = o->lay; /* the old shape over the new memory */
    dense.lay.offset = 0;
    tidei_row_major(dense.lay.ndim, dense.lay.shape, dense.lay.strides);
    return tidei_array_done(made, &dst, tidei_copy_elements(o->rt, &dense, o, op));
}

static tide_array *reshape(tide_array *a, int ndim, const int64_t *shape, int copy,
                           const char *op) {
    int64_t wanted[TIDE_MAX_RANK];
    char from[192], to[192];
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    tide_status s = copy < TIDE_COPY_IF_NEEDED || copy > TIDE_COPY_ALWAYS
                        ? tidei_fail(TIDE_E_INVALID, op, "%d is no way to copy", copy)
                        : tidei_reshape_shape(&o.lay, ndim, shape, op, wanted);
    if (s != TIDE_OK ||
        (copy != TIDE_COPY_ALWAYS && tidei_layout_reshape(&o.lay, ndim, wanted, &l)))
        return tidei_view_over(&o, s, &l, op);
    tide_array *made = NULL;
    if (copy != TIDE_COPY_NEVER)
        made = reshape_copy(&o, ndim, wanted, op);
    else
        tidei_fail(TIDE_E_SHAPE, op, "no view of this array of shape %s has shape %s: it is a copy",
                   tidei_shape_text(from, sizeof from, o.lay.ndim, o.lay.shape),
                   tidei_shape_text(to, sizeof to, ndim, wanted));
    tidei_operand_put(&o);
    return made;
}

tide_array *tide_reshape(tide_array *a, int ndim, const int64_t *shape) {
    return reshape(a, ndim, shape, TIDE_COPY_IF_NEEDED, "tide_reshape");
}

tide_array *tide_reshape_with(tide_array *a, int ndim, const int64_t *shape, int copy) {
    return reshape(a, ndim, shape, copy, "tide_reshape_with");
}

tide_status tidei_layout_stretch(const tidei_layout *l, int ndim, const int64_t *shape,
                                 const char *op, tidei_layout *out) {
    char from[192], to[192];
    int n = ndim;
    tide_status s = tidei_view_shape_check(l->dtype, ndim, shape, op);
    if (s != TIDE_OK) return s;
    *out = (tidei_layout){.dtype = l->dtype, .ndim = ndim, .offset = l->offset};
    if (ndim) memcpy(out->shape, shape, (size_t)ndim * sizeof *shape);
    s = tidei_broadcast(&n, out->shape, l, op);
    if (s != TIDE_OK && s != TIDE_E_NOMEM) return s;
    if (s != TIDE_OK || n != ndim ||
        (ndim && memcmp(out->shape, shape, (size_t)ndim * sizeof *shape) != 0))
        return tidei_fail(TIDE_E_SHAPE, op, "shape %s does not stretch to %s",
                          tidei_shape_text(from, sizeof from, l->ndim, l->shape),
                          tidei_shape_text(to, sizeof to, ndim, shape));
    tidei_broadcast_strides(l, ndim, out->shape, out->strides);
    return TIDE_OK;
}

tide_array *tide_broadcast_to(tide_array *a, int ndim, const int64_t *shape) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, "tide_broadcast_to", 1, &o) != TIDE_OK) return NULL;
    return tidei_view_over(&o, tidei_layout_stretch(&o.lay, ndim, shape, "tide_broadcast_to", &l),
                           &l, "tide_broadcast_to");
}

tide_status tidei_layout_expand(const tidei_layout *l, int axis, const char *op,
                                tidei_layout *out) {
    if (l->ndim == TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, op, "the array has %d dimensions already", TIDE_MAX_RANK);
    tide_status s = tidei_axis(axis, l->ndim + 1, op, &axis);
    if (s != TIDE_OK) return s;
    *out = *l;
    for (int i = out->ndim++; i > axis; i--) {
        out->shape[i] = out->shape[i - 1];
        out->strides[i] = out->strides[i - 1];
    }
    out->shape[axis] = 1;
    out->strides[axis] = 1;
    return TIDE_OK;
}

tide_array *tide_expand_dims(tide_array *a, int axis) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, "tide_expand_dims", 1, &o) != TIDE_OK) return NULL;
    return tidei_view_over(&o, tidei_layout_expand(&o.lay, axis, "tide_expand_dims", &l), &l,
                           "tide_expand_dims");
}

static tide_status squeeze(const tidei_layout *l, int axis, tidei_layout *out) {
    tide_status s = tidei_axis(axis, l->ndim, "tide_squeeze", &axis);
    if (s != TIDE_OK) return s;
    if (l->shape[axis] != 1)
        return tidei_fail(TIDE_E_SHAPE, "tide_squeeze", "axis %d has %" PRId64 " elements, not 1",
                          axis, l->shape[axis]);
    *out = *l;
    out->ndim--;
    for (int i = axis; i < out->ndim; i++) {
        out->shape[i] = l->shape[i + 1];
        out->strides[i] = l->strides[i + 1];
    }
    return TIDE_OK;
}

tide_array *tide_squeeze(tide_array *a, int axis) {
    tidei_operand o;
    tidei_layout l;
    if (tidei_operand_get(a, "tide_squeeze", 1, &o) != TIDE_OK) return NULL;
    return tidei_view_over(&o, squeeze(&o.lay, axis, &l), &l, "tide_squeeze");
}
