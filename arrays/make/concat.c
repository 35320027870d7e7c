/* concat.c: arrays joined along an axis: each is cast and copied into its own slice of the
** result. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"

/* The result's type and shape. */
static tide_status plan(const tidei_operand *parts, size_t n, int axis, tide_dtype *t,
                        int64_t *shape) {
    const tidei_layout *first = &parts[0].lay;
    char one[192], other[192];
    *t = first->dtype;
    memcpy(shape, first->shape, sizeof first->shape);
    for (size_t i = 1; i < n; i++) {
        const tidei_layout *l = &parts[i].lay;
        tide_status s = tidei_promote(*t, l->dtype, "tide_concat", t);
        if (s != TIDE_OK) return s;
        bool fits = l->ndim == first->ndim;
        for (int d = 0; fits && d < l->ndim; d++)
            fits = d == axis || l->shape[d] == first->shape[d];
        if (!fits)
            return tidei_fail(TIDE_E_SHAPE, "tide_concat",
                              "array %zu has shape %s, which does not join %s along axis %d", i,
                              tidei_shape_text(one, sizeof one, l->ndim, l->shape),
                              tidei_shape_text(other, sizeof other, first->ndim, first->shape),
                              axis);
        if (__builtin_add_overflow(shape[axis], l->shape[axis], &shape[axis]))
            return tidei_fail(TIDE_E_NOMEM, "tide_concat",
                              "axis %d of the result has 2^63 elements or more", axis);
    }
    return TIDE_OK;
}

static tide_status fill_parts(const tidei_operand *out, const tidei_operand *parts, size_t n,
                              int axis) {
    tidei_operand slot = *out;
    tide_status s = TIDE_OK;
    for (size_t i = 0; i < n && s == TIDE_OK; i++) {
        slot.lay.shape[axis] = parts[i].lay.shape[axis];
        s = tidei_store_elements(out->rt, &slot, &parts[i], "tide_concat");
        slot.lay.offset += slot.lay.shape[axis] * slot.lay.strides[axis];
    }
    return s;
}

static tide_array *concat(const tidei_operand *parts, size_t n, int axis) {
    int64_t shape[TIDE_MAX_RANK];
    tidei_operand out;
    tide_dtype t;
    if (tidei_axis(axis, parts[0].lay.ndim, "tide_concat", &axis) != TIDE_OK) return NULL;
    if (plan(parts, n, axis, &t, shape) != TIDE_OK) return NULL;
    tide_array *a = tidei_array_make(parts[0].rt, t, parts[0].lay.ndim, shape, "tide_concat", &out);
    return a ? tidei_array_done(a, &out, fill_parts(&out, parts, n, axis)) : NULL;
}

tide_array *tide_concat(tide_array *const *arrays, size_t n, int axis) {
    TIDEI_OPERATION("tide_concat");
    tide_array *made = NULL;
    tidei_operand first;
    size_t got = 0;
    if (n == 0 || !arrays) {
        tidei_fail(TIDE_E_INVALID, "tide_concat",
                   n ? "arrays is NULL" : "there are no arrays to join");
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (!arrays[i]) return (void)tidei_null_array("tide_concat", TIDEI_LISTED(1, i)), NULL;
    if (tidei_operand_get(arrays[0], "tide_concat", TIDEI_LISTED(1, 0), &first) != TIDE_OK)
        return NULL;
    tidei_runtime *rt = first.rt;
    tidei_operand *parts =
        n <= SIZE_MAX / sizeof *parts ? tidei_scratch_host(rt, n * sizeof *parts) : NULL;
    if (parts) {
        while (got < n && tidei_operand_get_of(rt, arrays[got], "tide_concat", TIDEI_LISTED(1, got),
                                               &parts[got]) == TIDE_OK)
            got++;
        if (got == n) made = concat(parts, n, axis);
        while (got > 0) tidei_operand_put(&parts[--got]);
    } else
        tidei_fail_host_memory("tide_concat", n * sizeof *parts);
    tidei_scratch_host_free(rt, parts);
    tidei_operand_put(&first);
    return made;
}
