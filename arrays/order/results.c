/* results.c: results of one call (results.h). */
#include "arrays/order/results.h"

const tidei_operand *tidei_results_make(tidei_results *r, tide_array **to, tide_dtype t, int ndim,
                                        const int64_t *shape) {
    struct tidei_result *x = &r->at[r->n];
    if (r->status != TIDE_OK) return NULL;
    x->array = tidei_array_make(r->rt, t, ndim, shape, r->op, &x->o);
    if (!x->array) {
        r->status = tidei_last_status();
        return NULL;
    }
    x->to = to;
    r->n++;
    return &x->o;
}

tide_status tidei_results_end(tidei_results *r) {
    for (unsigned i = 0; i < r->n; i++) {
        struct tidei_result *x = &r->at[i];
        tidei_operand_put(&x->o);
        if (r->status == TIDE_OK && x->to)
            *x->to = x->array;
        else
            tidei_array_drop(x->array);
    }
    return r->status;
}

tide_status tidei_results_none(const char *op) {
    return tidei_fail(TIDE_E_INVALID, op, "no result is wanted: every pointer to one is NULL");
}
