/* ops.c: the static facts of the operations, from ops.def. */
#include "arrays/expr/ir.h"

#define CLASS(expr, bit) (sizeof #expr > 1 ? (bit) : 0)

const tidei_op_info tidei_op_infos[TIDEI_OP_COUNT] = {
    [TIDEI_OP_INPUT] = {"input", 0, TIDEI_RULE_LEAF, TIDEI_CLASS_ANY, 0, ""},
    [TIDEI_OP_SCALAR] = {"scalar", 0, TIDEI_RULE_LEAF, TIDEI_CLASS_ANY, 0, ""},
    [TIDEI_OP_LINEAR] = {"linear", 0, TIDEI_RULE_LEAF, TIDEI_CLASS_INT, 0, ""},
    [TIDEI_OP_CAST] = {"cast", 1, TIDEI_RULE_CAST, TIDEI_CLASS_ANY, 0, ""},
#define TIDEI_OP(ident, name, arity, rule, bool_expr, int_expr, float_expr, complex_expr, ulps,    \
                 notes)                                                                            \
    [TIDEI_OP_##ident] = {#name,                                                                   \
                          arity,                                                                   \
                          TIDEI_RULE_##rule,                                                       \
                          CLASS(bool_expr, TIDEI_CLASS_BOOL) | CLASS(int_expr, TIDEI_CLASS_INT) |  \
                              CLASS(float_expr, TIDEI_CLASS_FLOAT) |                               \
                              CLASS(complex_expr, TIDEI_CLASS_COMPLEX),                            \
                          ulps,                                                                    \
                          notes},
#include "arrays/expr/ops.def"
#undef TIDEI_OP
};

int tidei_op_ulps(int op, tide_dtype t) {
    if (tidei_dtype_kind(t) != TIDEI_KIND_COMPLEX) return tidei_op_infos[op].ulps;
    switch (op) {
    case TIDEI_OP_ANGLE: return tidei_op_infos[op].ulps;
    case TIDEI_OP_ABS: return tidei_op_infos[TIDEI_OP_HYPOT].ulps;
    /* by that; ulps differ by 2 in size */
    case TIDEI_OP_SIGN: return 2 * tidei_op_infos[TIDEI_OP_HYPOT].ulps + 2;
    case TIDEI_OP_POW: /* beside what grows with its exponent */
    case TIDEI_OP_TAN:
    case TIDEI_OP_TANH: return 20;
    default: return tidei_op_infos[op].ulps || op == TIDEI_OP_SQRT ? 16 : 0;
    }
}
