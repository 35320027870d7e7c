/* along.c: one index for each element, along an axis: tide_take_along_axis, tide_put_along_axis. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/index/plan.h"
#include <tide/index.h>

static tide_status do_not_fit(const tidei_plan *p, const tidei_layout *indices, int axis) {
    char one[192], other[192];
    const tidei_layout *a = &p->far->lay;
    return tidei_fail(TIDE_E_SHAPE, p->op,
                      "indices of shape %s do not go along axis %d of an array of shape %s",
                      tidei_shape_text(one, sizeof one, indices->ndim, indices->shape), axis,
                      tidei_shape_text(other, sizeof other, a->ndim, a->shape));
}

/* The plan: the indices' shape, whose other axes broadcast with the array's; into an array they
** must be its own, else one place would have several names. */
static tide_status plan(const tidei_operand *a, const tidei_operand *indices, int axis, bool put,
                        tidei_plan *p) {
    const tidei_layout *l = &a->lay, *at = &indices->lay;
    tide_status s = tidei_axis(axis, l->ndim, p->op, &axis);
    p->far = a;
    if (s == TIDE_OK && at->ndim != l->ndim) s = do_not_fit(p, at, axis);
    for (int d = 0; d < l->ndim && s == TIDE_OK; d++) {
        int64_t n = l->shape[d] == 1 ? at->shape[d] : l->shape[d];
        if (d == axis) {
            s = tidei_plan_add(p, at->shape[d], 0, TIDEI_PLAN_LISTED);
        } else if ((at->shape[d] != n && at->shape[d] != 1) || (put && n != l->shape[d])) {
            s = do_not_fit(p, at, axis);
        } else {
            s = tidei_plan_add(p, n, l->shape[d] == n ? l->strides[d] : 0, TIDEI_PLAN_EACH);
        }
    }
    if (s != TIDE_OK) return s;
    p->lists[p->nlists++] =
        (struct tidei_plan_list){.indices = indices, .axis = axis, .ndim = p->ndim};
    s = tidei_plan_check(p);
    return s == TIDE_OK ? tidei_shape_check(l->dtype, p->ndim, p->shape, p->op) : s;
}

tide_array *tide_take_along_axis(tide_array *a, tide_array *indices, int axis) {
    TIDEI_OPERATION("tide_take_along_axis");
    tidei_plan p = {.op = "tide_take_along_axis", .by = TIDEI_FAULT_BY_TAKE_ALONG};
    tidei_operand o, i;
    tide_array *made = NULL;
    if (tidei_no_nulls(p.op, (tide_array *const[]){a, indices}, 2) != TIDE_OK) return NULL;
    if (tidei_operand_get(a, p.op, 1, &o) != TIDE_OK) return NULL;
    if (tidei_operand_get_of(o.rt, indices, p.op, 2, &i) == TIDE_OK) {
        if (plan(&o, &i, axis, false, &p) == TIDE_OK) made = tidei_plan_take(&p);
        tidei_operand_put(&i);
    }
    tidei_operand_put(&o);
    return made;
}

tide_status tide_put_along_axis(tide_array *a, tide_array *indices, int axis, tide_array *values) {
    TIDEI_OPERATION("tide_put_along_axis");
    tidei_plan p = {.op = "tide_put_along_axis", .by = TIDEI_FAULT_BY_PUT_ALONG};
    tidei_updated u;
    tide_status s = tidei_updated_get(a, indices, values, p.op, &u);
    if (s != TIDE_OK) return s;
    s = plan(&u.a, &u.indices, axis, true, &p);
    if (s == TIDE_OK) s = tidei_plan_put(&p, &u.values);
    tidei_updated_put(&u);
    return s;
}
