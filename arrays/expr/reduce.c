/* reduce.c: tide_sum and its like: each is the expression of one fold, over axes that the call brings. */
#include "arrays/expr/front.h"

static tide_array *apply_fold(int fold, const char *name, tide_array *a, const int *axes, int n, int keepdims) {
    const tide_arg arg = tide_arg_array(a);
    const tidei_given_axes given = {axes, n, keepdims};
    tide_array *out = NULL;
    tidei_runtime *rt;
    if (tidei_operand_runtime(a, name, 1, &rt) != TIDE_OK) return NULL;
    tidei_expr *e = tidei_expr_named_fold(rt, fold, name);
    if (e) (void)tidei_expr_run(e, name, &arg, 1, &given, &out, NULL, 1); /* NULL then */
    return out;
}

#define FOLD(IDENT, name)                                                                                          \
    tide_array *tide_##name(tide_array *a, const int *axes, int n, int keepdims) {                                 \
        return apply_fold(TIDEI_FOLD_##IDENT, "tide_" #name, a, axes, n, keepdims);                                \
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
