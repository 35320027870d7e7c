/* concat.c: arrays joined along an axis, which may be a new one: each is cast and copied into its
** own slice of the result. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/make/view.h"

/* The result's type and shape. */
static tide_status plan(const tidei_operand *parts, size_t n, int axis, const char *op,
                        tide_dtype *t, int64_t *shape) {
    const tidei_layout *first = &parts[0].lay;
    char one[192], other[192];
    *t = first->dtype;
    memcpy(shape, first->shape, sizeof first->shape);
    for (size_t i = 1; i < n; i++) {
        const tidei_layout *l = &parts[i].lay;
        tide_status s = tidei_promote(*t, l->dtype, op, t);
        if (s != TIDE_OK) return s;
        bool fits = l->ndim == first->ndim;
        for (int d = 0; fits && d < l->ndim; d++)
            fits = d == axis || l->shape[d] == first->shape[d];
        if (!fits)
            return tidei_fail(
                TIDE_E_SHAPE, op, "array %zu has shape %s, which does not join %s along axis %d", i,
                tidei_shape_text(one, sizeof one, l->ndim, l->shape),
                tidei_shape_text(other, sizeof other, first->ndim, first->shape), axis);
        if (__builtin_add_overflow(shape[axis], l->shape[axis], &shape[axis]))
            return tidei_fail(TIDE_E_NOMEM, op, "axis %d of the result has 2^63 elements or more",
                              axis);
    }
    return TIDE_OK;
}

static tide_status fill_parts(const tidei_operand *out, const tidei_operand *parts, size_t n,
                              int axis, const char *op) {
    tidei_operand slot = *out;
    tide_status s = TIDE_OK;
    for (size_t i = 0; i < n && s == TIDE_OK; i++) {
        slot.lay.shape[axis] = parts[i].lay.shape[axis];
        s = tidei_store_elements(out->rt, &slot, &parts[i], op);
        slot.lay.offset += slot.lay.shape[axis] * slot.lay.strides[axis];
    }
    return s;
}

static tide_array *join(const tidei_operand *parts, size_t n, int axis, const char *op) {
    int64_t shape[TIDE_MAX_RANK];
    tidei_operand out;
    tide_dtype t;
    if (tidei_axis(axis, parts[0].lay.ndim, op, &axis) != TIDE_OK) return NULL;
    if (plan(parts, n, axis, op, &t, shape) != TIDE_OK) return NULL;
    tide_array *a = tidei_array_make(parts[0].rt, t, parts[0].lay.ndim, shape, op, &out);
    return a ? tidei_array_done(a, &out, fill_parts(&out, parts, n, axis, op)) : NULL;
}

tide_array *tide_concat(tide_array *const *arrays, size_t n, int axis) {
    TIDEI_OPERATION("tide_concat");
    tidei_operand *parts;
    if (tidei_operands_get(arrays, n, "tide_concat", &parts) != TIDE_OK) return NULL;
    tide_array *made = join(parts, n, axis, "tide_concat");
    tidei_operands_put(parts, n);
    return made;
}

/* Gives each array the new axis, in place. */
static tide_status add_axis(tidei_operand *parts, size_t n, int axis) {
    const tidei_layout first = parts[0].lay;
    char one[192], other[192];
    tide_status s = TIDE_OK;
    for (size_t i = 0; i < n && s == TIDE_OK; i++) {
        tidei_layout *l = &parts[i].lay;
        if (l->ndim != first.ndim || !tidei_same_dims(l->ndim, l->shape, first.shape))
            return tidei_fail(TIDE_E_SHAPE, "tide_stack",
                              "array %zu has shape %s, the first has %s", i,
                              tidei_shape_text(one, sizeof one, l->ndim, l->shape),
                              tidei_shape_text(other, sizeof other, first.ndim, first.shape));
        s = tidei_layout_expand(&parts[i].lay, axis, "tide_stack", l);
    }
    return s;
}

tide_array *tide_stack(tide_array *const *arrays, size_t n, int axis) {
    TIDEI_OPERATION("tide_stack");
    tide_array *made = NULL;
    tidei_operand *parts;
    if (tidei_operands_get(arrays, n, "tide_stack", &parts) != TIDE_OK) return NULL;
    int last = parts[0].lay.ndim + 1;
    if (add_axis(parts, n, axis) == TIDE_OK)
        made = join(parts, n, axis < 0 ? axis + last : axis, "tide_stack");
    tidei_operands_put(parts, n);
    return made;
}
