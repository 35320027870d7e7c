/* cuda_say.h: what the writers of kernels' texts share: a text that grows, element types, one node
** of a program as a statement, what folds start from and how they go on.
**
** What must stay true: what is written of a node depends on the node and the types of its operands
** alone, so that an operation gives the same bits in every kernel. */
#ifndef TIDEI_CUDA_SAY_H
#define TIDEI_CUDA_SAY_H

#include "arrays/expr/ir.h"
#include "runtime/base/text.h"

/* The expressions of ops.def (cuda_text.c). */
typedef struct tidei_op_text {
    const char *expr[4]; /* by class: bool, integer, float, complex */
    int arity;
} tidei_op_text;
extern const tidei_op_text tidei_op_texts[TIDEI_OP_COUNT];

/* A text that grows. After a failed allocation nothing more is added. */
typedef struct text {
    tidei_runtime *rt;
    char *at;
    size_t n, cap;
    bool failed;
} text;

static inline bool text_room(text *t, size_t more) {
    if (t->failed) return false;
    if (t->cap - t->n > more) return true;
    size_t cap = tidei_max_size(2 * t->cap, t->n + more + 1);
    char *to = tidei_host_alloc(t->rt, cap);
    if (!to) {
        t->failed = true;
        return false;
    }
    if (t->n) memcpy(to, t->at, t->n);
    tidei_host_free(t->rt, t->at);
    t->at = to;
    t->cap = cap;
    return true;
}

static inline void say(text *t, const char *words) {
    size_t n = strlen(words);
    if (!text_room(t, n)) return;
    memcpy(t->at + t->n, words, n + 1);
    t->n += n;
}

__attribute__((format(printf, 2, 3))) static inline void sayf(text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = tidei_vformat(NULL, 0, fmt, args);
    va_end(args);
    if (!text_room(t, (size_t)n)) return;
    va_start(args, fmt);
    tidei_vformat(t->at + t->n, (size_t)n + 1, fmt, args);
    va_end(args);
    t->n += (size_t)n;
}

/* What all texts begin with, up to cuda_base.cu. */
static inline void say_common(text *t, bool has_complex, bool functions, const char *base) {
    if (has_complex) say(t, "#define TD_COMPLEX\n");
    say(t, tidei_prelude_text);
    if (functions) {
        say(t, "#define TD_WIDTH 32\n");
        say(t, tidei_functions_text);
        say(t, "#undef TD_WIDTH\n#define TD_WIDTH 64\n");
        say(t, tidei_functions_text);
    }
    say(t, base);
}

/* ---- element types ---- Values of f16 and bf16 are floats; everything else is computed as it is
** stored. */
static inline bool is_half(int t) { return t == TIDE_F16 || t == TIDE_BF16; }
static inline const char *value_name(int t) { return is_half(t) ? "f32" : tide_dtype_name(t); }
static inline int class_of(int t) {
    switch (tidei_dtype_kind(t)) {
    case TIDEI_KIND_BOOL: return 0;
    case TIDEI_KIND_FLOAT: return 2;
    case TIDEI_KIND_COMPLEX: return 3;
    default: return 1;
    }
}
static inline const char *wrap_name(int t) {
    return class_of(t) == 1 && tide_dtype_size(t) == 8 ? "u64" : "u32";
}

/* ---- nodes ---- */

static inline bool computes(const tidei_program *p) {
    for (unsigned i = 0; i < p->nnodes; i++)
        if (p->nodes[i].op > TIDEI_OP_CAST) return true;
    return p->fold != TIDEI_FOLD_NONE;
}

/* Where nothing looks at a NaN's sign, the GPU's own conversions do without care for it. Elements
** that are only copied, or converted, keep all of their bits. */
static inline void say_halves(text *t, const tidei_program *p) {
    if (!computes(p)) return;
    for (unsigned i = 0; i < p->nnodes; i++)
        if (p->nodes[i].op == TIDEI_OP_SIGNBIT || p->nodes[i].op == TIDEI_OP_COPYSIGN) return;
    say(t, "#ifdef TD_CONVERTS\n#define td_load_f16(h) td_of_f16(h)\n"
           "#define td_store_f16(f) td_to_f16(f)\n#define td_round_f16(f) td_of_f16(td_to_f16(f))\n"
           "#define td_store_bf16(f) td_to_bf16(f)\n"
           "#define td_round_bf16(f) td_near_bf16(f)\n#define TD_CUTS\n#endif\n");
}

/* The type that the operation of a node computes in. */
static inline int operand_type(const tidei_program *p, const tidei_node *n) {
    return p->nodes[tidei_op_infos[n->op].rule == TIDEI_RULE_SELECT ? n->b : n->a].dtype;
}
static inline bool needs_functions(const tidei_program *p, const tidei_node *n) {
    return n->op > TIDEI_OP_CAST &&
           strstr(tidei_op_texts[n->op].expr[class_of(operand_type(p, n))], "G(");
}

/* Instructions of a node, roughly. */
static inline unsigned node_cost(const tidei_program *p, const tidei_node *n) {
    if (n->op == TIDEI_OP_CAST) return is_half(n->dtype) ? 6 : 2;
    if (n->op < TIDEI_OP_CAST) return is_half(n->dtype) ? 4 : 0;
    int t = operand_type(p, n);
    const char *e = tidei_op_texts[n->op].expr[class_of(t)];
    unsigned cost = needs_functions(p, n)                                  ? 60
                    : tidei_op_infos[n->op].ulps                           ? 20
                    : strstr(e, "F(") || strstr(e, "M(") || strchr(e, '/') ? 8
                                                                           : 1;
    if (t == TIDE_F64 || t == TIDE_C128) cost *= cost > 1 ? 3 : 1;
    return (class_of(t) == 3 ? 4 * cost : cost) + (is_half(n->dtype) ? 4 : 0);
}

static inline unsigned floor_pow2(unsigned n, unsigned lo, unsigned hi) {
    unsigned p = lo;
    while (2 * p <= n && 2 * p <= hi) p *= 2;
    return p;
}

/* The value of operation `op` on names a, b, c of type t, as a statement that sets n. */
static inline void say_operation(text *t, int op, int type, int result, const char *n,
                                 const char *const *operands) {
    sayf(t, "    td_%s %s;\n    {\n        typedef td_%s T;\n        typedef td_%s U;\n",
         value_name(result), n, value_name(type), wrap_name(type));
    for (int i = 0; i < tidei_op_texts[op].arity; i++) {
        if (tidei_op_infos[op].rule == TIDEI_RULE_SELECT && i == 0)
            sayf(t, "        const td_bool a = %s;\n", operands[0]);
        else
            sayf(t, "        const T %c = %s;\n", "abc"[i], operands[i]);
    }
    sayf(t, "        %s = ", n);
    const char *expr = tidei_op_texts[op].expr[class_of(type)];
    if (is_half(type) && op == TIDEI_OP_NEXTAFTER)
        sayf(t, "td_nextafter_%s(a, b);\n    }\n", tide_dtype_name(type));
    else if (is_half(result))
        sayf(t, "td_round_%s(%s);\n    }\n", tide_dtype_name(result), expr);
    else if (class_of(result) == 3)
        say(t, expr), say(t, ";\n    }\n");
    else
        sayf(t, "(td_%s)(%s);\n    }\n", value_name(result), expr);
}

static inline void say_node(text *t, const tidei_program *p, unsigned i) {
    const tidei_node *n = &p->nodes[i];
    const char *name = tide_dtype_name(n->dtype), *value = value_name(n->dtype);
    char self[8], operand[3][8];
    switch (n->op) {
    case TIDEI_OP_INPUT:
        if (is_half(n->dtype))
            sayf(t, "    const td_f32 n%u = td_load_%s(x%u);\n", i, name, n->a);
        else
            sayf(t, "    const td_%s n%u = x%u;\n", value, i, n->a);
        return;
    case TIDEI_OP_SCALAR:
        if (class_of(n->dtype) == 3)
            sayf(t, "    const td_%s n%u = td_make_%s(p.s[%u].%s[0], p.s[%u].%s[1]);\n", value, i,
                 name, n->a, name, n->a, name);
        else if (is_half(n->dtype))
            sayf(t, "    const td_%s n%u = td_load_%s(p.s[%u].%s);\n", value, i, name, n->a, name);
        else
            sayf(t, "    const td_%s n%u = p.s[%u].%s;\n", value, i, n->a,
                 n->dtype == TIDE_BOOL ? "b" : name);
        return;
    case TIDEI_OP_LINEAR: sayf(t, "    const td_i64 n%u = linear;\n", i); return;
    case TIDEI_OP_CAST:
        sayf(t, "    const td_%s n%u = TD_CAST(%s, %s, n%u);\n", value, i,
             tide_dtype_name(p->nodes[n->a].dtype), name, n->a);
        return;
    default: break;
    }
    const uint16_t slots[3] = {n->a, n->b, n->c};
    for (int k = 0; k < 3; k++) tidei_format(operand[k], sizeof operand[k], "n%u", slots[k]);
    tidei_format(self, sizeof self, "n%u", i);
    say_operation(t, n->op, operand_type(p, n), n->dtype, self,
                  (const char *const[]){operand[0], operand[1], operand[2]});
}

/* ---- folds ---- */

static inline bool is_arg(int fold) {
    return fold == TIDEI_FOLD_ARGMIN || fold == TIDEI_FOLD_ARGMAX;
}

/* What an accumulator starts from: the operation's identity. Sums of floats start at -0.0, so that
** a sum of -0.0 is one. */
static inline const char *start_of(int fold, int t) {
    static const char *const least[] = {
        "0", "-0x80", "-0x8000", "-0x7fffffff - 1", "-0x7fffffffffffffffll - 1", "0",
        "0", "0",     "0"};
    static const char *const greatest[] = {
        "1",    "0x7f",   "0x7fff",      "0x7fffffff",           "0x7fffffffffffffffll",
        "0xff", "0xffff", "0xffffffffu", "0xffffffffffffffffull"};
    bool is_float = class_of(t) >= 2;
    switch (fold) {
    case TIDEI_FOLD_SUM:
    case TIDEI_FOLD_MEAN: return is_float ? "td_from_bits_f32(0x80000000u)" : "0";
    case TIDEI_FOLD_MIN: return is_float ? "td_from_bits_f32(0x7f800000u)" : greatest[t];
    case TIDEI_FOLD_MAX: return is_float ? "td_from_bits_f32(0xff800000u)" : least[t];
    case TIDEI_FOLD_ANY: return "0";
    default: return "1"; /* prod, all */
    }
}

static inline int operation_of(int fold) {
    switch (fold) {
    case TIDEI_FOLD_PROD: return TIDEI_OP_MUL;
    case TIDEI_FOLD_MIN: return TIDEI_OP_MINIMUM;
    case TIDEI_FOLD_MAX: return TIDEI_OP_MAXIMUM;
    case TIDEI_FOLD_ANY: return TIDEI_OP_LOGICAL_OR;
    case TIDEI_FOLD_ALL: return TIDEI_OP_LOGICAL_AND;
    default: return TIDEI_OP_ADD;
    }
}

#endif
