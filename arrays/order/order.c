/* order.c: tide_sort and its like: arguments to a sort (sort.c), and its results. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/order/results.h"
#include "arrays/order/sort.h"

/* The results that are wanted, of a's shape. */
static tide_status sort(const tidei_operand *a, int axis, int descending, tide_array **values,
                        tide_array **indices, const char *op) {
    const tidei_layout *l = &a->lay;
    tidei_results r = {.rt = a->rt, .op = op};
    tidei_sorting s = {.source = a, .descending = descending};
    r.status = tidei_axis(axis, l->ndim, op, &s.axis);
    if (values) s.values = tidei_results_make(&r, values, l->dtype, l->ndim, l->shape);
    if (indices) s.indices = tidei_results_make(&r, indices, TIDE_I64, l->ndim, l->shape);
    if (r.status == TIDE_OK) r.status = tidei_sort(&s, op);
    return tidei_results_end(&r);
}

static tide_status sort_array(tide_array *a, int axis, int descending, tide_array **values,
                              tide_array **indices, const char *op) {
    tidei_operand o;
    tide_status s = tidei_operand_get(a, op, 1, &o);
    if (s != TIDE_OK) return s;
    s = sort(&o, axis, descending, values, indices, op);
    tidei_operand_put(&o);
    return s;
}

tide_array *tide_sort(tide_array *a, int axis, int descending) {
    TIDEI_OPERATION("tide_sort");
    tide_array *out = NULL;
    (void)sort_array(a, axis, descending, &out, NULL, "tide_sort"); /* NULL then */
    return out;
}

tide_array *tide_argsort(tide_array *a, int axis, int descending) {
    TIDEI_OPERATION("tide_argsort");
    tide_array *out = NULL;
    (void)sort_array(a, axis, descending, NULL, &out, "tide_argsort"); /* NULL then */
    return out;
}

tide_status tide_sort_both(tide_array *a, int axis, int descending, tide_array **values,
                           tide_array **indices) {
    TIDEI_OPERATION("tide_sort_both");
    if (a && !values && !indices) return tidei_results_none("tide_sort_both");
    return sort_array(a, axis, descending, values, indices, "tide_sort_both");
}

/* ---- partitions ---- */

static tide_status check_place(const tidei_operand *o, int64_t kth, int axis, const char *op) {
    tide_status s = tidei_axis(axis, o->lay.ndim, op, &axis);
    if (s != TIDE_OK) return s;
    int64_t n = o->lay.shape[axis];
    if (kth >= -n && kth < n) return TIDE_OK;
    return tidei_fail(TIDE_E_BOUNDS, op,
                      "place %" PRId64 " along axis %d, which has %" PRId64 " elements", kth, axis,
                      n);
}

static tide_status partition(tide_array *a, int64_t kth, int axis, tide_array **values,
                             tide_array **indices, const char *op) {
    tidei_operand o;
    tide_status s = tidei_operand_get(a, op, 1, &o);
    if (s != TIDE_OK) return s;
    s = check_place(&o, kth, axis, op);
    if (s == TIDE_OK) s = sort(&o, axis, 0, values, indices, op);
    tidei_operand_put(&o);
    return s;
}

tide_array *tide_partition(tide_array *a, int64_t kth, int axis) {
    TIDEI_OPERATION("tide_partition");
    tide_array *out = NULL;
    (void)partition(a, kth, axis, &out, NULL, "tide_partition"); /* NULL then */
    return out;
}

tide_array *tide_argpartition(tide_array *a, int64_t kth, int axis) {
    TIDEI_OPERATION("tide_argpartition");
    tide_array *out = NULL;
    (void)partition(a, kth, axis, NULL, &out, "tide_argpartition"); /* NULL then */
    return out;
}
