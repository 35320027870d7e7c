/* named.c: tide_add and its like: each is the expression of one operation, run like an expression
** from text. */
#include "arrays/expr/front.h"

/* Inlined for each number of operands. */
static inline tide_array *apply(int op, const char *name, tide_array *const *a, size_t n) {
    tide_arg args[3];
    tide_array *out = NULL;
    tidei_runtime *rt;
    if (tidei_no_nulls(name, a, n) != TIDE_OK) return NULL;
    for (size_t i = 0; i < n; i++)
        args[i] = (tide_arg){.kind = TIDE_ARG_ARRAY, .value = {.array = a[i]}};
    if (tidei_operand_runtime(a[0], name, 1, &rt) != TIDE_OK) return NULL;
    tidei_expr *e = tidei_expr_named_op(rt, op, name);
    if (e) (void)tidei_expr_run(e, name, args, n, NULL, &out, NULL, 1); /* NULL then */
    return out;
}
static tide_array *apply_1(int op, const char *name, tide_array *a) {
    return apply(op, name, (tide_array *[]){a}, 1);
}
static tide_array *apply_2(int op, const char *name, tide_array *a, tide_array *b) {
    return apply(op, name, (tide_array *[]){a, b}, 2);
}
static tide_array *apply_3(int op, const char *name, tide_array *a, tide_array *b, tide_array *c) {
    return apply(op, name, (tide_array *[]){a, b, c}, 3);
}

#define PARAMETERS_1 tide_array *a
#define PARAMETERS_2 tide_array *a, tide_array *b
#define PARAMETERS_3 tide_array *a, tide_array *b, tide_array *c
#define OPERANDS_1   a
#define OPERANDS_2   a, b
#define OPERANDS_3   a, b, c
#define TIDEI_OP(ident, name, arity, ...)                                                          \
    tide_array *tide_##name(PARAMETERS_##arity) {                                                  \
        return apply_##arity(TIDEI_OP_##ident, "tide_" #name, OPERANDS_##arity);                   \
    }
#include "arrays/expr/ops.def"
