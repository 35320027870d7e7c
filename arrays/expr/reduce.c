/* reduce.c: tide_sum and its like: each is the expression of one fold, over axes that are the
** call's argument. */
#include "arrays/expr/copy.h"
#include "arrays/expr/front.h"

/* A fold over no axes: every element by itself. */
static tide_array *keep_elements(int fold, const char *name, tide_array *a) {
    TIDEI_OPERATION(name);
    tide_dtype acc, t;
    tide_array *made = NULL;
    tidei_operand o;
    if (tidei_operand_get(a, name, 1, &o) != TIDE_OK) return NULL;
    if (!tidei_fold_types(fold, o.lay.dtype, &acc, &t))
        tidei_fail(TIDE_E_DTYPE, name, TIDEI_FOLD_OFFERED, tidei_fold_name(fold),
                   tide_dtype_name(o.lay.dtype));
    else if (!tidei_fold_keeps(fold))
        tidei_fail(TIDE_E_INVALID, name, TIDEI_FOLD_NO_AXES, tidei_fold_name(fold));
    else
        made = tidei_copy_in(&o, TIDE_MEMORY_DEFAULT, t, name);
    tidei_operand_put(&o);
    return made;
}

static tide_array *apply_fold(int fold, const char *name, tide_array *a, const int *axes, int n,
                              int keepdims) {
    const tide_arg arg = tide_arg_array(a);
    const tidei_given_axes given = {axes, n, keepdims};
    tide_array *out = NULL;
    tidei_runtime *rt;
    if (axes && n == 0) return keep_elements(fold, name, a);
    if (tidei_operand_runtime(a, name, 1, &rt) != TIDE_OK) return NULL;
    if (axes && n < 0) return (void)tidei_fail(TIDE_E_INVALID, name, "%d axes are given", n), NULL;
    tidei_expr *e = tidei_expr_named_fold(rt, fold, name);
    if (e) (void)tidei_expr_run(e, name, &arg, 1, &given, &out, NULL, 1); /* NULL then */
    return out;
}

#define FOLD(IDENT, name)                                                                          \
    tide_array *tide_##name(tide_array *a, const int *axes, int n, int keepdims) {                 \
        return apply_fold(TIDEI_FOLD_##IDENT, "tide_" #name, a, axes, n, keepdims);                \
    }
FOLD(SUM, sum)
FOLD(PROD, prod)
FOLD(MIN, min)
FOLD(MAX, max)
FOLD(MEAN, mean)
FOLD(ANY, any)
FOLD(ALL, all)
FOLD(ARGMIN, argmin)
FOLD(ARGMAX, argmax)
