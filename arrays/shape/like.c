/* like.c: arrays of the shape, the type and the kind of memory of another. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"

/* Filled with one element of its type, unless that is NULL. */
static tide_array *like(const tidei_operand *o, const void *element, const char *op) {
    tidei_operand made;
    tide_array *a = tidei_array_make_in(o->rt, tidei_operand_kind(o), o->lay.dtype, o->lay.ndim,
                                        o->lay.shape, op, &made);
    if (!a) return NULL;
    return tidei_array_done(a, &made, element ? tidei_fill_elements(&made, element, op) : TIDE_OK);
}

static tide_array *full_like(tide_array *a, tide_arg value, const char *op) {
    TIDEI_OPERATION(op);
    unsigned char element[16];
    tide_array *made = NULL;
    tidei_operand o;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    if (tidei_encode(value, o.lay.dtype, op, element) == TIDE_OK) made = like(&o, element, op);
    tidei_operand_put(&o);
    return made;
}

tide_array *tide_empty_like(tide_array *a) {
    TIDEI_OPERATION("tide_empty_like");
    tidei_operand o;
    if (tidei_operand_get(a, "tide_empty_like", 1, &o) != TIDE_OK) return NULL;
    tide_array *made = like(&o, NULL, "tide_empty_like");
    tidei_operand_put(&o);
    return made;
}

tide_array *tide_zeros_like(tide_array *a) {
    return full_like(a, tide_arg_bool(0), "tide_zeros_like");
}
tide_array *tide_ones_like(tide_array *a) {
    return full_like(a, tide_arg_bool(1), "tide_ones_like");
}
tide_array *tide_full_like(tide_array *a, tide_arg value) {
    return full_like(a, value, "tide_full_like");
}
