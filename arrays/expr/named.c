/* named.c: tide_add and its like: each is the expression of one operation, which takes the same way as text. */
#include "arrays/expr/front.h"

static tide_array *apply_op(int op, const char *name, tide_array *a, tide_array *b, tide_array *c) {
    const tide_arg args[3] = {tide_arg_array(a), tide_arg_array(b), tide_arg_array(c)};
    tide_array *out = NULL;
    tidei_runtime *rt;
    if (tidei_no_nulls(name, (tide_array *const[]){a, b, c}, (size_t)tidei_op_infos[op].arity) != TIDE_OK)
        return NULL;
    if (tidei_operand_runtime(a, name, 1, &rt) != TIDE_OK) return NULL;
    tidei_expr *e = tidei_expr_named_op(rt, op, name);
    if (e)
        (void)tidei_expr_run(e, name, args, (size_t)tidei_op_infos[op].arity, NULL, &out, NULL, 1); /* NULL then */
    return out;
}

#define PARAMETERS_1 tide_array *a
#define PARAMETERS_2 tide_array *a, tide_array *b
#define PARAMETERS_3 tide_array *a, tide_array *b, tide_array *c
#define OPERANDS_1   a, NULL, NULL
#define OPERANDS_2   a, b, NULL
#define OPERANDS_3   a, b, c
#define TIDEI_OP(ident, name, arity, ...)                                                                          \
    tide_array *tide_##name(PARAMETERS_##arity) {                                                                  \
        return apply_op(TIDEI_OP_##ident, "tide_" #name, OPERANDS_##arity);                                        \
    }
#include "arrays/expr/ops.def"
