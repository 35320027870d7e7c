/* types.c: tidei_ast -> tidei_graph: every value gets its element type, casts become nodes.
**
** A value is *strong* (a node of the graph, with an element type) or *weak* (a number computed on
** the host, see weak.c). A weak value that meets a strong one becomes a run-time scalar of the type
** that the rules of promotion give; so numbers never widen arrays. Equal nodes are one node; nodes
** that no result needs are dropped at the end. The only arithmetic that is rewritten is x**2, x**3,
** x**4 with a written exponent. */
#include "arrays/expr/front.h"
#include "arrays/scan/scan.h"
#include "runtime/base/text.h"

#define NONE          UINT16_MAX
#define NODES_PER_AST 5 /* an operation, a cast for each of three operands, one more for a power */
#define WEAKS_PER_AST 4

typedef struct value {
    bool weak;
    uint8_t dtype; /* weak: bool, i64, f64 or c128; what it becomes where no array is */
    uint16_t id;   /* of the node or weak number */
} value;

typedef struct builder {
    const tidei_ast *ast;
    tidei_graph g;
    value *values; /* of the ast's nodes */
    const int8_t *beyond;
    uint16_t *table;
    uint32_t slots; /* of the table; a power of two */
    uint32_t node_cap, weak_cap;
} builder;

/* ---- nodes and weak numbers, each distinct one once ---- */

static uint32_t hash_node(const tidei_gnode *n) {
    uint64_t h = (uint64_t)n->op | (uint64_t)n->dtype << 8 | (uint64_t)n->a << 16 |
                 (uint64_t)n->b << 32 | (uint64_t)n->c << 48;
    h *= 0x9E3779B97F4A7C15u; /* Fibonacci hashing: 2^64 over the golden ratio */
    return (uint32_t)(h >> 32);
}

static bool same_node(const tidei_gnode *x, const tidei_gnode *y) {
    return x->op == y->op && x->dtype == y->dtype && x->a == y->a && x->b == y->b && x->c == y->c;
}

static uint16_t node(builder *b, tidei_gnode n) {
    uint32_t i = hash_node(&n) & (b->slots - 1);
    for (; b->table[i] != NONE; i = (i + 1) & (b->slots - 1))
        if (same_node(&b->g.nodes[b->table[i]], &n)) return b->table[i];
    tidei_check(b->g.nnodes < b->node_cap);
    b->g.nodes[b->g.nnodes] = n;
    return b->table[i] = (uint16_t)b->g.nnodes++;
}

static bool same_number(const tide_arg *x, const tide_arg *y) {
    return x->kind == y->kind &&
           !memcmp(&x->value, &y->value, x->kind == TIDE_ARG_COMPLEX ? 16 : 8);
}

static uint16_t weak(builder *b, const tidei_weak *w) {
    for (uint32_t i = 0; i < b->g.nweaks; i++) {
        const tidei_weak *o = &b->g.weaks[i];
        if (w->constant != o->constant || w->dtype != o->dtype) continue;
        if (w->constant ? same_number(&w->value, &o->value)
                        : w->op == o->op && w->operand == o->operand && w->a == o->a &&
                              w->b == o->b && w->c == o->c)
            return (uint16_t)i;
    }
    tidei_check(b->g.nweaks < b->weak_cap);
    b->g.weaks[b->g.nweaks] = *w;
    return (uint16_t)b->g.nweaks++;
}

static value strong(builder *b, tidei_gnode n) { return (value){false, n.dtype, node(b, n)}; }

static value constant(builder *b, tide_arg v, uint32_t at) {
    tidei_weak w = {.op = TIDEI_OP_SCALAR,
                    .dtype = (uint8_t)tidei_weak_dtype(&v),
                    .constant = true,
                    .at = at,
                    .value = v};
    return (value){true, w.dtype, weak(b, &w)};
}

static tide_status check_natural(builder *b, const tidei_weak *w, uint32_t at) {
    if (w->value.kind != TIDE_ARG_INT || w->value.value.i >= 0) return TIDE_OK;
    return tidei_ast_fail(b->ast, at, TIDE_E_DTYPE,
                          "integers have no power %lld: make the base a float",
                          (long long)w->value.value.i);
}

/* The exponent of integers. */
static tide_status natural(builder *b, value v, uint32_t at) {
    tidei_weak *w = &b->g.weaks[v.id];
    if (v.dtype != TIDE_I64) return TIDE_OK;
    if (w->constant) return check_natural(b, w, at);
    w->natural = true;
    w->at = at;
    return TIDE_OK;
}

/* ---- casts ---- */

/* "!= 0" */
static value weak_truth(builder *b, value v, uint32_t at) {
    const tidei_weak *in = &b->g.weaks[v.id];
    tidei_weak w = {
        .op = TIDEI_OP_CAST, .operand = v.dtype, .dtype = TIDE_BOOL, .a = v.id, .at = at};
    if (v.dtype == TIDE_BOOL) return v;
    if (in->constant) {
        tide_arg zero = tide_arg_bool(0), args[3] = {in->value, zero, zero}, r;
        (void)tidei_weak_eval(TIDEI_OP_CAST, v.dtype, args, &r); /* cannot fail */
        return constant(b, r, at);
    }
    return (value){true, TIDE_BOOL, weak(b, &w)};
}

/* v as a node of type t: promotion's cast, or the user's. A complex number has no real form. */
static tide_status to_node(builder *b, value v, tide_dtype t, uint32_t at, uint16_t *out) {
    if (tidei_rank(v.dtype) == 3 && (tidei_rank(t) == 1 || tidei_rank(t) == 2))
        return tidei_ast_fail(b->ast, at, TIDE_E_DTYPE, "%s is complex and does not become %s",
                              tide_dtype_name(v.dtype), tide_dtype_name(t));
    if (v.weak && t == TIDE_BOOL) v = weak_truth(b, v, at);
    /* within a kind or upwards the number is taken as t; downwards it is cut off as an array would
    ** be */
    if (v.weak) {
        tide_dtype own = tidei_rank(v.dtype) <= tidei_rank(t) ? t : v.dtype;
        v = strong(
            b, (tidei_gnode){.op = TIDEI_OP_SCALAR, .dtype = (uint8_t)own, .a = v.id, .at = at});
    }
    if (v.dtype != t)
        v = strong(b, (tidei_gnode){.op = TIDEI_OP_CAST, .dtype = (uint8_t)t, .a = v.id, .at = at});
    *out = v.id;
    return TIDE_OK;
}

/* ---- operations ---- */

tide_dtype tidei_op_result(int op, tide_dtype t) {
    switch (tidei_op_infos[op].rule) {
    case TIDEI_RULE_COMPARE_EQ:
    case TIDEI_RULE_COMPARE:
    case TIDEI_RULE_LOGIC:
    case TIDEI_RULE_TEST:
    case TIDEI_RULE_TEST_REAL: return TIDE_BOOL;
    case TIDEI_RULE_ABS:
    case TIDEI_RULE_FLOAT_ABS: return t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
    case TIDEI_RULE_COMPLEX: return t == TIDE_F64 ? TIDE_C128 : TIDE_C64;
    case TIDEI_RULE_EXPONENT: return TIDE_I32;
    default: return t;
    }
}

/* The type that `t` (of arrays) becomes in an operation with a number that computes in w. */
static tide_dtype beside_number(tide_dtype t, tide_dtype w) {
    if (tidei_rank(t) >= tidei_rank(w)) return t;
    if (w != TIDE_C128) return w;
    return tidei_rank(t) == 2 && t != TIDE_F64 ? TIDE_C64 : TIDE_C128;
}

/* The common type of operands [from, n): arrays first, then the widest number. */
static tide_status common(builder *b, const value *in, int from, int n, uint32_t at,
                          tide_dtype *out) {
    tide_dtype t = -1, w = -1;
    for (int i = from; i < n; i++) {
        if (in[i].weak) {
            if (w < 0 || tidei_rank(in[i].dtype) > tidei_rank(w)) w = in[i].dtype;
        } else if (t < 0)
            t = in[i].dtype;
        else if (tidei_promote(t, in[i].dtype, b->ast->op, &t) != TIDE_OK)
            return tidei_ast_fail(b->ast, at, TIDE_E_DTYPE, "%s", tide_error_last()->message);
    }
    *out = t < 0 ? w : w < 0 ? t : beside_number(t, w);
    return TIDE_OK;
}

static tide_status fail_class(builder *b, int op, tide_dtype t, uint32_t at) {
    static const char *const names[] = {"bool", "integers", "floats", "complex"};
    const tidei_op_info *info = &tidei_op_infos[op];
    char list[64] = "";
    size_t used = 0;
    for (int i = 0; i < 4; i++)
        if (info->classes >> i & 1)
            used += (size_t)tidei_format(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                         names[i]);
    return tidei_ast_fail(b->ast, at, TIDE_E_DTYPE, "%s is offered for %s, not for %s", info->name,
                          list, tide_dtype_name(t));
}

/* The type T that the operation computes in, by its rule. *identity: the operation returns its
** operand. */
static tide_status operand_type(builder *b, int op, const value *in, uint32_t at, tide_dtype *t,
                                bool *identity) {
    const tidei_op_info *info = &tidei_op_infos[op];
    if (info->rule == TIDEI_RULE_LOGIC)
        *t = TIDE_BOOL;
    else {
        tide_status s = common(b, in, info->rule == TIDEI_RULE_SELECT, info->arity, at, t);
        if (s != TIDE_OK) return s;
    }
    if (tidei_rank(*t) < 2) switch (info->rule) {
        case TIDEI_RULE_FLOAT:
        case TIDEI_RULE_FLOAT_REAL:
        case TIDEI_RULE_FLOAT_ABS:
        case TIDEI_RULE_COMPLEX:
        case TIDEI_RULE_EXPONENT:
        case TIDEI_RULE_TEST:
        case TIDEI_RULE_TEST_REAL: *t = TIDE_F64; break;
        case TIDEI_RULE_KEEP_INT: *identity = true; return TIDE_OK;
        default: break;
        }
    return info->classes & tidei_class(*t) ? TIDE_OK : fail_class(b, op, *t, at);
}

static tide_status weak_op(builder *b, int op, value *in, tide_dtype t, uint32_t at, value *out) {
    const tidei_op_info *info = &tidei_op_infos[op];
    tidei_weak w = {.op = (uint8_t)op,
                    .operand = (uint8_t)t,
                    .dtype = (uint8_t)tidei_op_result(op, t),
                    .constant = true,
                    .at = at};
    tide_arg args[3] = {tide_arg_bool(0), tide_arg_bool(0), tide_arg_bool(0)};
    uint16_t ids[3] = {0};
    if (info->rule == TIDEI_RULE_EXPONENT) w.dtype = TIDE_I64; /* as every weak integer */
    if (info->rule == TIDEI_RULE_SELECT) in[0] = weak_truth(b, in[0], at);
    if (op == TIDEI_OP_POW && t == TIDE_I64) {
        tide_status s = natural(b, in[1], at);
        if (s != TIDE_OK) return s;
    }
    for (int i = 0; i < info->arity; i++) {
        const tidei_weak *x = &b->g.weaks[in[i].id];
        ids[i] = in[i].id;
        args[i] = x->value;
        w.constant &= x->constant;
    }
    w.a = ids[0], w.b = ids[1], w.c = ids[2];
    if (w.constant) {
        if (!tidei_weak_eval(op, t, args, &w.value))
            return tidei_ast_fail(b->ast, at, TIDE_E_DTYPE,
                                  "numbers compute as i64, which one of these does not fit");
        *out = constant(b, w.value, at);
    } else
        *out = (value){true, w.dtype, weak(b, &w)};
    return TIDE_OK;
}

/* The operation on operands of type t, which it is offered for. */
static tide_status apply(builder *b, int op, value *in, tide_dtype t, uint32_t at, value *out) {
    const tidei_op_info *info = &tidei_op_infos[op];
    uint16_t ids[3] = {0};
    tide_status s = TIDE_OK;
    bool all_weak = true;
    for (int i = 0; i < info->arity; i++) all_weak &= in[i].weak;
    if (all_weak) return weak_op(b, op, in, t, at, out);
    if (op == TIDEI_OP_POW && in[1].weak && tidei_rank(t) == 1) s = natural(b, in[1], at);
    for (int i = 0; i < info->arity && s == TIDE_OK; i++)
        s = to_node(b, in[i], info->rule == TIDEI_RULE_SELECT && i == 0 ? TIDE_BOOL : t, at,
                    &ids[i]);
    if (s == TIDE_OK)
        *out = strong(b, (tidei_gnode){(uint8_t)op, (uint8_t)tidei_op_result(op, t), ids[0], ids[1],
                                       ids[2], at});
    return s;
}

/* The exponent of x**2, x**3 or x**4 where it is written; else 0. */
static int written_power(const builder *b, int op, const value *in) {
    if (op != TIDEI_OP_POW || !in[1].weak) return 0;
    const tidei_weak *w = &b->g.weaks[in[1].id];
    bool small = w->constant && w->value.kind == TIDE_ARG_INT && w->value.value.i >= 2 &&
                 w->value.value.i <= 4;
    return small ? (int)w->value.value.i : 0;
}

/* Makes the power of products. */
static tide_status power_by_products(builder *b, int n, const value *in, uint32_t at, value *out) {
    tide_dtype t;
    tide_status s = common(b, in, 0, 2, at, &t);
    if (s == TIDE_OK) s = apply(b, TIDEI_OP_SQUARE, (value[]){in[0]}, t, at, out);
    if (s == TIDE_OK && n == 3) s = apply(b, TIDEI_OP_MUL, (value[]){*out, in[0]}, t, at, out);
    if (s == TIDE_OK && n == 4) s = apply(b, TIDEI_OP_SQUARE, (value[]){*out}, t, at, out);
    return s;
}

/* ---- comparisons with numbers ---- */

/* Whether number v is in the range of t (tidei_beyond): a constant's own value decides, else what
** the builder was told. */
static int beyond_of(builder *b, value v, tide_dtype t) {
    const tidei_weak *w = &b->g.weaks[v.id];
    if (w->constant) return tidei_beyond(&w->value, t);
    if (t == TIDE_BOOL || t == TIDE_F64 || t == TIDE_C128) return 0;
    uint32_t i = 0;
    while (i < b->g.nlimits && !(b->g.limits[i].weak == v.id && b->g.limits[i].dtype == t)) i++;
    if (i == b->g.nlimits) b->g.limits[b->g.nlimits++] = (tidei_limit){v.id, (uint8_t)t};
    return b->beyond ? b->beyond[i] : 0;
}

/* x op n, for a finite n above all that t has, or below. */
static tide_status compare_beyond(builder *b, int op, value x, bool above, tide_dtype t,
                                  uint32_t at, value *out) {
    const double inf = __builtin_inf();
    bool holds = op == TIDEI_OP_NE || (above ? op == TIDEI_OP_LT || op == TIDEI_OP_LE
                                             : op == TIDEI_OP_GT || op == TIDEI_OP_GE);
    if (tidei_rank(t) < 2) /* all elements alike */
        return apply(b, holds ? TIDEI_OP_EQ : TIDEI_OP_NE, (value[]){x, x}, x.dtype, at, out);
    if (op == TIDEI_OP_EQ || op == TIDEI_OP_NE)
        return apply(b, op, (value[]){x, constant(b, tide_arg_float(__builtin_nan("")), at)}, t, at,
                     out);
    /* Infinities lie beyond n, and NaN compares with nothing. */
    static const uint8_t as[2][2] = {{TIDEI_OP_GT, TIDEI_OP_LE}, {TIDEI_OP_GE, TIDEI_OP_LT}};
    bool less = op == TIDEI_OP_LT || op == TIDEI_OP_LE;
    return apply(b, as[above][less],
                 (value[]){x, constant(b, tide_arg_float(above ? inf : -inf), at)}, t, at, out);
}

static int turned(int op) {
    switch (op) {
    case TIDEI_OP_LT: return TIDEI_OP_GT;
    case TIDEI_OP_LE: return TIDEI_OP_GE;
    case TIDEI_OP_GT: return TIDEI_OP_LT;
    case TIDEI_OP_GE: return TIDEI_OP_LE;
    default: return op;
    }
}

static bool is_comparison(int op) {
    return tidei_op_infos[op].rule == TIDEI_RULE_COMPARE ||
           tidei_op_infos[op].rule == TIDEI_RULE_COMPARE_EQ;
}

static tide_status type_op(builder *b, int op, const uint16_t *operands, uint32_t at, value *out) {
    value in[3];
    bool identity = false;
    tide_dtype t = TIDE_BOOL;
    for (int i = 0; i < tidei_op_infos[op].arity; i++) in[i] = b->values[operands[i]];
    int n = written_power(b, op, in);
    if (n) return power_by_products(b, n, in, at, out);
    tide_status s = operand_type(b, op, in, at, &t, &identity);
    if (s != TIDE_OK) return s;
    if (identity) return *out = in[0], TIDE_OK;
    if (is_comparison(op) && in[0].weak != in[1].weak) {
        bool left = in[0].weak; /* the number */
        int side = beyond_of(b, in[left ? 0 : 1], t);
        if (side) return compare_beyond(b, left ? turned(op) : op, in[left], side > 0, t, at, out);
    }
    return apply(b, op, in, t, at, out);
}

/* ---- folds ---- */

bool tidei_fold_types(int fold, tide_dtype t, tide_dtype *acc, tide_dtype *out) {
    int rank = tidei_rank(t);
    bool half = t == TIDE_F16 || t == TIDE_BF16;
    *acc = half ? TIDE_F32 : t;
    *out = t;
    if (tidei_is_scan(fold)) {
        const tidei_scan_kind *kind = tidei_scan_find(fold - TIDEI_FOLD_CUMSUM, t);
        return *acc = t, kind && (*out = kind->out, true);
    }
    switch (fold) {
    case TIDEI_FOLD_SUM:
    case TIDEI_FOLD_PROD:
        if (rank < 2) *acc = *out = tidei_dtype_kind(t) == TIDEI_KIND_UINT ? TIDE_U64 : TIDE_I64;
        return true;
    case TIDEI_FOLD_MEAN:
        if (rank < 2) *acc = *out = TIDE_F64;
        return true;
    case TIDEI_FOLD_ANY:
    case TIDEI_FOLD_ALL: *acc = *out = TIDE_BOOL; return true;
    case TIDEI_FOLD_ARGMIN:
    case TIDEI_FOLD_ARGMAX: *out = TIDE_I64; return rank < 3;
    default: return rank < 3;
    }
}

static tide_status type_fold(builder *b, const tidei_ast_node *n, value *out) {
    value body = b->values[n->a];
    tide_dtype acc, res;
    uint16_t id;
    bool none = b->ast->folds[n->b].n == 0;
    if (!tidei_fold_types(n->what, body.dtype, &acc, &res))
        return tidei_ast_fail(b->ast, n->at, TIDE_E_DTYPE, TIDEI_FOLD_OFFERED,
                              tidei_fold_name(n->what), tide_dtype_name(body.dtype));
    if (none && !tidei_fold_keeps(n->what))
        return tidei_ast_fail(b->ast, n->at, TIDE_E_INVALID, TIDEI_FOLD_NO_AXES,
                              tidei_fold_name(n->what));
    tide_status s = to_node(b, body, none ? res : acc, n->at, &id);
    if (s == TIDE_OK && none)
        *out = (value){false, (uint8_t)res, id}; /* strong, as what a fold gives is */
    else if (s == TIDE_OK)
        *out = strong(b, (tidei_gnode){TIDEI_OP_FOLD, (uint8_t)res, id, n->b, n->what, n->at});
    return s;
}

/* ---- positions ---- */

static uint16_t of_shape(builder *b, int what, uint16_t axis, uint32_t at) {
    return node(
        b, (tidei_gnode){
               .op = TIDEI_OP_SCALAR, .dtype = TIDE_I64, .a = (uint16_t)(what + axis), .at = at});
}

/* index(axis): how often the axis' step goes into the row-major index, beyond whole lengths. */
static value type_index(builder *b, uint16_t axis, uint32_t at) {
    const uint8_t t = TIDE_I64;
    uint16_t i = node(b, (tidei_gnode){.op = TIDEI_OP_LINEAR, .dtype = t, .at = at}),
             step = of_shape(b, TIDEI_AXIS_STEP, axis, at),
             length = of_shape(b, TIDEI_AXIS_LENGTH, axis, at);
    i = node(b, (tidei_gnode){TIDEI_OP_TRUNCDIV, t, i, step, 0, at});
    return strong(b, (tidei_gnode){TIDEI_OP_FMOD, t, i, length, 0, at});
}

/* ---- the whole ---- */

static tide_status type_node(builder *b, const uint8_t *sig, const tidei_ast_node *n, value *out) {
    uint16_t operands[3] = {n->a, n->b, n->c}, id;
    tide_status s = TIDE_OK;
    switch (n->kind) {
    case TIDEI_AST_PARAM:
        if (sig[n->a] < TIDEI_WEAK)
            *out = strong(
                b, (tidei_gnode){.op = TIDEI_OP_INPUT, .dtype = sig[n->a], .a = n->a, .at = n->at});
        else {
            tidei_weak w = {.op = TIDEI_OP_INPUT,
                            .dtype = (uint8_t)(sig[n->a] - TIDEI_WEAK),
                            .a = n->a,
                            .at = n->at};
            *out = (value){true, w.dtype, weak(b, &w)};
        }
        return TIDE_OK;
    case TIDEI_AST_NUMBER: *out = constant(b, b->ast->numbers[n->a], n->at); return TIDE_OK;
    case TIDEI_AST_OP: return type_op(b, n->what, operands, n->at, out);
    case TIDEI_AST_CAST:
        s = to_node(b, b->values[n->a], n->what, n->at, &id);
        if (s == TIDE_OK) *out = (value){false, n->what, id};
        return s;
    case TIDEI_AST_INDEX: *out = type_index(b, n->a, n->at); return TIDE_OK;
    default: return type_fold(b, n, out);
    }
}

static tide_status type_result(builder *b, uint32_t i, const uint8_t *dst) {
    uint16_t n = b->ast->results[i];
    value v = b->values[n];
    uint32_t at = b->ast->nodes[n].at;
    tide_dtype t = dst ? dst[i] : v.dtype;
    const char *lost = tidei_cast_lost(v.dtype, t);
    /* numbers of a kind go by their values */
    if (lost && !(v.weak && tidei_rank(v.dtype) <= tidei_rank(t)))
        return tidei_ast_fail(b->ast, at, TIDE_E_DTYPE,
                              "result %u is %s, which is not stored as %s without a cast: %s",
                              i + 1, tide_dtype_name(v.dtype), tide_dtype_name(t), lost);
    return to_node(b, v, t, at, &b->g.results[i]);
}

int tidei_gnode_operands(const tidei_gnode *n) {
    if (n->op == TIDEI_OP_INPUT || n->op == TIDEI_OP_SCALAR || n->op == TIDEI_OP_LINEAR) return 0;
    return n->op == TIDEI_OP_FOLD ? 1 : tidei_op_infos[n->op].arity;
}

/* Drops nodes that no result needs, and renumbers; `map` has room for all. */
static void keep_live_nodes(tidei_graph *g, uint32_t nresults, uint16_t *map) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->nnodes; i++) map[i] = NONE;
    for (uint32_t i = 0; i < nresults; i++) map[g->results[i]] = 0;
    for (uint32_t i = g->nnodes; i-- > 0;) {
        const uint16_t operands[3] = {g->nodes[i].a, g->nodes[i].b, g->nodes[i].c};
        for (int k = 0; map[i] != NONE && k < tidei_gnode_operands(&g->nodes[i]); k++)
            map[operands[k]] = 0;
    }
    for (uint32_t i = 0; i < g->nnodes; i++) {
        if (map[i] == NONE) continue;
        tidei_gnode n = g->nodes[i];
        uint16_t *operands[3] = {&n.a, &n.b, &n.c};
        for (int k = 0; k < tidei_gnode_operands(&n); k++) *operands[k] = map[*operands[k]];
        map[i] = (uint16_t)kept;
        g->nodes[kept++] = n;
    }
    g->nnodes = kept;
    for (uint32_t i = 0; i < nresults; i++) g->results[i] = map[g->results[i]];
}

static int weak_operands_of(const tidei_weak *w) {
    return w->constant || w->op == TIDEI_OP_INPUT ? 0 : tidei_op_infos[w->op].arity;
}

static bool is_weak_scalar(const tidei_gnode *n) {
    return n->op == TIDEI_OP_SCALAR && n->a < TIDEI_AXIS_LENGTH;
}

/* The same for weak numbers, which SCALAR nodes need; computed ones get their slots. */
static void keep_live_weaks(tidei_graph *g, uint16_t *map) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->nweaks; i++) map[i] = NONE;
    for (uint32_t i = 0; i < g->nnodes; i++)
        if (is_weak_scalar(&g->nodes[i])) map[g->nodes[i].a] = 0;
    for (uint32_t i = g->nweaks; i-- > 0;) {
        const uint16_t operands[3] = {g->weaks[i].a, g->weaks[i].b, g->weaks[i].c};
        for (int k = 0; map[i] != NONE && k < weak_operands_of(&g->weaks[i]); k++)
            map[operands[k]] = 0;
    }
    for (uint32_t i = 0; i < g->nweaks; i++) {
        if (map[i] == NONE) continue;
        tidei_weak w = g->weaks[i];
        uint16_t *operands[3] = {&w.a, &w.b, &w.c};
        for (int k = 0; k < weak_operands_of(&w); k++) *operands[k] = map[*operands[k]];
        if (!w.constant) w.slot = (uint16_t)g->nslots++;
        map[i] = (uint16_t)kept;
        g->weaks[kept++] = w;
    }
    g->nweaks = kept;
    for (uint32_t i = 0; i < g->nnodes; i++)
        if (is_weak_scalar(&g->nodes[i])) g->nodes[i].a = map[g->nodes[i].a];
    for (uint32_t i = 0; i < g->nlimits; i++) g->limits[i].weak = map[g->limits[i].weak];
}

static tide_status build(builder *b, const uint8_t *sig, const uint8_t *dst) {
    const tidei_ast *ast = b->ast;
    tide_status s = TIDE_OK;
    for (uint32_t i = 0; i < ast->nnodes && s == TIDE_OK; i++)
        s = type_node(b, sig, &ast->nodes[i], &b->values[i]);
    for (uint32_t i = 0; i < ast->nresults && s == TIDE_OK; i++) s = type_result(b, i, dst);
    if (s != TIDE_OK) return s;
    keep_live_nodes(&b->g, ast->nresults, b->table); /* the table is no longer needed */
    keep_live_weaks(&b->g, b->table);
    if (b->g.nslots > TIDEI_WEAK_SLOTS_MAX)
        return tidei_ast_fail(
            ast, 0, TIDE_E_UNSUPPORTED,
            "more than %d computations with numbers alone: do them before the call",
            TIDEI_WEAK_SLOTS_MAX);
    return TIDE_OK;
}

/* The graph alone, in a block of its own size. */
static tide_status keep_graph(tidei_runtime *rt, const builder *b, tidei_graph *out) {
    size_t weaks = b->g.nweaks * sizeof(tidei_weak), nodes = b->g.nnodes * sizeof(tidei_gnode),
           limits = b->g.nlimits * sizeof(tidei_limit);
    char *block = tidei_host_alloc(rt, weaks + nodes + limits);
    if (!block) return tidei_fail_host_memory(b->ast->op, weaks + nodes + limits);
    *out = b->g;
    out->weaks = (tidei_weak *)block;
    out->nodes = (tidei_gnode *)(block + weaks);
    out->limits = (tidei_limit *)(block + weaks + nodes);
    if (weaks) memcpy(out->weaks, b->g.weaks, weaks);
    memcpy(out->nodes, b->g.nodes, nodes);
    if (limits) memcpy(out->limits, b->g.limits, limits);
    return TIDE_OK;
}

tide_status tidei_graph_build(tidei_runtime *rt, const tidei_ast *ast, const uint8_t *sig,
                              const uint8_t *dst, const int8_t *beyond, tidei_graph *out) {
    builder b = {.ast = ast, .beyond = beyond, .slots = 64};
    b.node_cap = ast->nnodes * NODES_PER_AST + 2 * TIDE_MAX_RESULTS;
    b.weak_cap = ast->nnodes * WEAKS_PER_AST + 2 * TIDE_MAX_RESULTS;
    while (b.slots < 2 * b.node_cap) b.slots *= 2; /* at most half full */
    size_t bytes = b.weak_cap * sizeof *b.g.weaks + b.node_cap * sizeof *b.g.nodes +
                   ast->nnodes * (sizeof *b.values + sizeof *b.g.limits) +
                   b.slots * sizeof *b.table;
    char *block = tidei_host_alloc(rt, bytes);
    if (!block) return tidei_fail_host_memory(ast->op, bytes);
    b.g.weaks = (tidei_weak *)block;
    b.g.nodes = (tidei_gnode *)(b.g.weaks + b.weak_cap);
    b.values = (value *)(b.g.nodes + b.node_cap);
    b.g.limits = (tidei_limit *)(b.values + ast->nnodes); /* at most one an operation */
    b.table = (uint16_t *)(b.g.limits + ast->nnodes);
    memset(b.table, 0xff, b.slots * sizeof *b.table); /* NONE */
    tide_status s = build(&b, sig, dst);
    if (s == TIDE_OK) s = keep_graph(rt, &b, out);
    tidei_host_free(rt, block);
    return s;
}

void tidei_graph_free(tidei_runtime *rt, tidei_graph *g) {
    tidei_host_free(rt, g->weaks);
    g->weaks = NULL;
}
