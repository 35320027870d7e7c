/* slow_graph.h: what an expression means, one element at a time: the model that whole runs of
** expressions are tested against.
**
** The typed graph (front.h) is taken as it is; how it is cut into passes, how shapes are found and
** memory is walked is the library's. A node's value is an array of naive.h's numbers. Where the
** documentation leaves a bit open, the element carries a doubt:
**   SLOW_SIGN   it is zero, of either sign
**   SLOW_NEAR   it is a float sum, product or mean, no further from the number than `within`
**   SLOW_ANY    nothing is known of it
** What must stay true: an element without a doubt is the host's very bits, but for NaN's. */
#ifndef TIDETEST_SLOW_GRAPH_H
#define TIDETEST_SLOW_GRAPH_H

#include "tests/arrays/expr/naive.h"

enum { SLOW_SIGN = 1, SLOW_NEAR = 2, SLOW_ANY = 4 };
enum { SLOW_ELEMENTS_MAX = 1 << 17 }; /* of all nodes together */

typedef struct slow_value {
    int ndim;
    int64_t shape[TIDE_MAX_RANK], n;
    num *v;
    uint8_t *doubt;
    double *within; /* NULL, or of a fold: how far off an element may be that is only near */
} slow_value;

typedef enum slow_outcome {
    SLOW_DONE,
    SLOW_REFUSED, /* the library refuses it too */
    SLOW_EITHER,  /* it may: a number has no form in a type, but perhaps nobody wants the element */
    /* it may: a number that is not known here has no form in a type, perhaps; else it is done */
    SLOW_UNSURE,
    SLOW_TOO_MUCH /* for this model */
} slow_outcome;

typedef struct slow_graph {
    const tidei_ast *ast;
    const tidei_graph *g;
    const tide_arg *args; /* arrays among them are those of `operands` */
    const slow_value *operands;
    slow_value *values; /* of the nodes */
    num *weak;          /* of the weak numbers */
    uint8_t *weak_doubt;
    slow_outcome outcome;
    bool any_empty, unsure;
    int64_t left; /* elements that there is room for */
} slow_graph;

/* ---- elements ---- */

static inline num slow_flip(num a) {
    a.x = -a.x;
    return a;
}

/* One operation on elements without doubts but for the sign of zeros. */
static inline num slow_apply(int op, const num in[3], const uint8_t doubt[3], uint8_t *out) {
    const int arity = tidei_op_infos[op].arity, t = in[arity - 1].t;
    num first = {.t = tidei_op_result(op, (tide_dtype)t)};
    unsigned open = 0;
    *out = 0;
    if (op == TIDEI_OP_WHERE) {
        const int taken = doubt[0] & SLOW_ANY ? 0 : in[0].i ? 1 : 2;
        if (!taken) return *out = SLOW_ANY, first;
        return *out = doubt[taken] & SLOW_NEAR ? SLOW_ANY : doubt[taken], in[taken];
    }
    for (int i = 0; i < arity; i++) {
        if (doubt[i] & (SLOW_ANY | SLOW_NEAR) || (doubt[i] && naive_class(t) == 3))
            return *out = SLOW_ANY, first;
        open |= (doubt[i] ? 1u : 0u) << i;
    }
    const int last = op == TIDEI_OP_COPYSIGN ? 1 : 0; /* whose sign counts */
    if (op == TIDEI_OP_COPYSIGN || op == TIDEI_OP_SIGNBIT) {
        if (isnan(in[last].x)) return *out = SLOW_ANY, first;
    } else if (!naive_exact(op, t))
        return *out = SLOW_ANY, first;
    first = naive_apply(op, in[0], in[1], in[2]);
    /* the same with these zeros' signs turned */
    for (unsigned set = open; set; set = (set - 1) & open) {
        const num other =
            naive_apply(op, set & 1 ? slow_flip(in[0]) : in[0], set & 2 ? slow_flip(in[1]) : in[1],
                        set & 4 ? slow_flip(in[2]) : in[2]);
        if (!naive_equal(first, other)) return *out = SLOW_ANY, first;
        if (!naive_same(first, other)) *out = SLOW_SIGN;
    }
    return first;
}

static inline num slow_cast(num a, uint8_t doubt, int t, uint8_t *out) {
    const bool keeps = naive_class(t) >= 2;
    *out = doubt & (SLOW_ANY | SLOW_NEAR) ? SLOW_ANY : keeps ? doubt : 0;
    return *out & SLOW_ANY ? (num){.t = t} : naive_cast(a, t);
}

/* ---- weak numbers ---- */

static inline num slow_number(const tide_arg *v, bool *fits) {
    switch (v->kind) {
    case TIDE_ARG_BOOL: return (num){.t = TIDE_BOOL, .i = v->value.i != 0};
    case TIDE_ARG_FLOAT: return (num){.t = TIDE_F64, .x = v->value.f};
    case TIDE_ARG_COMPLEX: return (num){.t = TIDE_C128, .x = v->value.c[0], .y = v->value.c[1]};
    case TIDE_ARG_UINT:
        *fits = v->value.u <= INT64_MAX;
        return (num){.t = TIDE_I64, .i = v->value.u};
    default: return (num){.t = TIDE_I64, .i = v->value.i};
    }
}

/* As an argument again. */
static inline tide_arg slow_argument(num n) {
    switch (n.t) {
    case TIDE_BOOL: return tide_arg_bool(n.i != 0);
    case TIDE_F64: return tide_arg_float(n.x);
    case TIDE_C128: return tide_arg_complex(n.x, n.y);
    default: return n.i > INT64_MAX ? tide_arg_uint((uint64_t)n.i) : tide_arg_int((int64_t)n.i);
    }
}

static inline void slow_refuse(slow_graph *s) {
    if (s->outcome != SLOW_TOO_MUCH) s->outcome = SLOW_REFUSED;
}

static inline void slow_weak(slow_graph *s, unsigned id) {
    const tidei_weak *w = &s->g->weaks[id];
    const uint16_t operands[3] = {w->a, w->b, w->c};
    bool fits = true;
    num in[3] = {{.t = w->operand}, {.t = w->operand}, {.t = w->operand}};
    uint8_t doubt[3] = {0};
    const bool compares = tidei_op_infos[w->op].rule == TIDEI_RULE_COMPARE ||
                          tidei_op_infos[w->op].rule == TIDEI_RULE_COMPARE_EQ;
    if (w->constant || w->op == TIDEI_OP_INPUT) {
        s->weak[id] = slow_number(w->constant ? &w->value : &s->args[w->a], &fits);
    } else {
        for (int i = 0; i < tidei_op_infos[w->op].arity; i++) {
            const num x = s->weak[operands[i]];
            const bool truth = w->op == TIDEI_OP_CAST ||
                               (tidei_op_infos[w->op].rule == TIDEI_RULE_SELECT && i == 0) ||
                               w->operand == TIDE_BOOL;
            /* for i64, which computes */
            const bool large = w->operand == TIDE_I64 && x.i > INT64_MAX;
            if (large && !compares && w->op != TIDEI_OP_CAST) slow_refuse(s);
            in[i] = large && compares ? x : naive_cast(x, truth ? TIDE_BOOL : w->operand);
            doubt[i] = s->weak_doubt[operands[i]];
        }
        s->weak[id] = w->op == TIDEI_OP_CAST
                          ? slow_cast(in[0], doubt[0], TIDE_BOOL, &s->weak_doubt[id])
                          : slow_apply(w->op, in, doubt, &s->weak_doubt[id]);
    }
    if (w->natural && s->weak[id].t == TIDE_I64 && s->weak[id].i < 0) slow_refuse(s);
}

/* ---- nodes ---- */

static inline int64_t slow_size(int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    return n;
}

/* Room for the elements of a shape; false: there is none. */
static inline bool slow_room(slow_graph *s, slow_value *v) {
    v->n = slow_size(v->ndim, v->shape);
    s->any_empty |= v->n == 0;
    s->left -= v->n;
    if (s->left < 0) return s->outcome = SLOW_TOO_MUCH, false;
    v->v = calloc((size_t)v->n + 1, sizeof *v->v);
    v->doubt = calloc((size_t)v->n + 1, 1);
    if (!v->v || !v->doubt) abort();
    return true;
}

static inline bool slow_broadcast(slow_value *out, const slow_value *x) {
    const int n = out->ndim > x->ndim ? out->ndim : x->ndim;
    int64_t shape[TIDE_MAX_RANK];
    for (int i = 1; i <= n; i++) {
        const int64_t a = i <= out->ndim ? out->shape[out->ndim - i] : 1;
        const int64_t b = i <= x->ndim ? x->shape[x->ndim - i] : 1;
        if (a != b && a != 1 && b != 1) return false;
        shape[n - i] = a == 1 ? b : a;
    }
    out->ndim = n;
    memcpy(out->shape, shape, sizeof shape);
    return true;
}

/* Where the element of x is that meets number i of `out`. */
static inline int64_t slow_place(const slow_value *out, int64_t i, const slow_value *x) {
    int64_t at = 0, step = 1;
    for (int d = 1; d <= out->ndim && d <= x->ndim; d++) {
        const int64_t index = i % out->shape[out->ndim - d], length = x->shape[x->ndim - d];
        i /= out->shape[out->ndim - d];
        if (length != 1) at += index * step;
        step *= length;
    }
    return at;
}

static inline void slow_map(slow_graph *s, const tidei_gnode *n, slow_value *out) {
    const uint16_t operands[3] = {n->a, n->b, n->c};
    const int arity = tidei_gnode_operands(n);
    out->ndim = 0;
    for (int k = 0; k < arity; k++)
        if (!slow_broadcast(out, &s->values[operands[k]])) return slow_refuse(s);
    if (!slow_room(s, out)) return;
    for (int64_t i = 0; i < out->n; i++) {
        num in[3] = {{0}};
        uint8_t doubt[3] = {0};
        for (int k = 0; k < arity; k++) {
            const slow_value *x = &s->values[operands[k]];
            const int64_t at = slow_place(out, i, x);
            in[k] = x->v[at];
            doubt[k] = x->doubt[at];
        }
        out->v[i] = n->op == TIDEI_OP_CAST ? slow_cast(in[0], doubt[0], n->dtype, &out->doubt[i])
                                           : slow_apply(n->op, in, doubt, &out->doubt[i]);
        assert_int_equal(out->v[i].t, n->dtype);
    }
}

/* ---- folds ---- */

/* The elements that are folded into one, in their order, and what has become of them. */
typedef struct slow_fold {
    int kind, acc;
    int64_t count, best; /* best: of arg folds, whose number */
    num value;
    long double sum[2], sizes[2]; /* of floats: of each part, and of its absolute values */
    bool special;                 /* infinities or NaN among them */
    uint8_t doubt;
} slow_fold;

static inline void slow_fold_add(slow_fold *f, num x, uint8_t doubt) {
    const bool least = f->kind == TIDEI_FOLD_MIN || f->kind == TIDEI_FOLD_ARGMIN;
    const int64_t number = f->count++;
    if (doubt) f->doubt |= doubt == SLOW_SIGN && naive_class(x.t) == 2 ? SLOW_SIGN : SLOW_ANY;
    f->sum[0] += x.x, f->sum[1] += x.y;
    f->sizes[0] += fabsl(x.x), f->sizes[1] += fabsl(x.y);
    f->special |= !isfinite(x.x) || !isfinite(x.y);
    if (number == 0) {
        f->value = x;
        return;
    }
    switch (f->kind) {
    case TIDEI_FOLD_MEAN:
    case TIDEI_FOLD_SUM: f->value = naive_apply(TIDEI_OP_ADD, f->value, x, x); break;
    case TIDEI_FOLD_PROD: f->value = naive_apply(TIDEI_OP_MUL, f->value, x, x); break;
    case TIDEI_FOLD_ANY: f->value.i |= x.i; break;
    case TIDEI_FOLD_ALL: f->value.i &= x.i; break;
    default: {
        const bool wins = isnan(f->value.x)                ? false
                          : isnan(x.x)                     ? true
                          : naive_class(x.t) == 2 && least ? x.x < f->value.x
                          : naive_class(x.t) == 2          ? x.x > f->value.x
                          : least                          ? x.i < f->value.i
                                                           : x.i > f->value.i;
        if (wins) f->value = x, f->best = number;
    }
    }
}

/* What a fold of nothing gives; false: an error. */
static inline bool slow_fold_nothing(const slow_fold *f, int out, num *value) {
    const int class = naive_class(out);
    *value = (num){.t = out};
    switch (f->kind) {
    case TIDEI_FOLD_SUM:
    case TIDEI_FOLD_ANY: return true;
    case TIDEI_FOLD_ALL: return value->i = 1, true;
    case TIDEI_FOLD_PROD: return class >= 2 ? (value->x = 1) : (value->i = 1), true;
    case TIDEI_FOLD_MEAN: return value->x = NAN, value->y = class == 3 ? (double)NAN : 0, true;
    default: return false;
    }
}

/* Half a unit of the last place of 1. */
static inline double slow_half_unit(int t) {
    return t == TIDE_F16                    ? 0x1p-11
           : t == TIDE_BF16                 ? 0x1p-8
           : t == TIDE_F32 || t == TIDE_C64 ? 0x1p-24
                                            : 0x1p-53;
}

/* Sums of more than two floats may be added in any order: of finite ones each addition is off by
** half a unit of what has been added at most. */
static inline void slow_fold_near(const slow_fold *f, int out, num *value, uint8_t *doubt,
                                  double *within) {
    const double most = out == TIDE_F16                                  ? 65504
                        : naive_bits(f->acc) == 32 || f->acc == TIDE_C64 ? FLT_MAX
                                                                         : DBL_MAX;
    const bool mean = f->kind == TIDEI_FOLD_MEAN;
    const double count = mean ? (double)f->count : 1;
    const long double size = (f->sizes[0] > f->sizes[1] ? f->sizes[0] : f->sizes[1]);
    if (f->kind == TIDEI_FOLD_PROD || f->special || size * 2 > most) {
        *doubt = SLOW_ANY;
        return;
    }
    value->x = (double)(f->sum[0] / count);
    value->y = (double)(f->sum[1] / count);
    *within = (double)(size * (f->count + 2) * slow_half_unit(f->acc) / count +
                       size / count * 2 * slow_half_unit(out)) +
              0x1p-24 * (out == TIDE_F16) + 0x1p-133;
    *doubt = SLOW_NEAR;
}

static inline bool slow_fold_end(slow_fold *f, int out, num *value, uint8_t *doubt,
                                 double *within) {
    const bool place = f->kind == TIDEI_FOLD_ARGMIN || f->kind == TIDEI_FOLD_ARGMAX;
    const bool extreme = f->kind == TIDEI_FOLD_MIN || f->kind == TIDEI_FOLD_MAX;
    const bool floats = naive_class(f->acc) >= 2, sums = floats && !place && !extreme;
    const int real = f->acc == TIDE_C64 ? TIDE_F32 : f->acc == TIDE_C128 ? TIDE_F64 : f->acc;
    if (!f->count) return slow_fold_nothing(f, out, value);
    *value = place ? (num){.t = TIDE_I64, .i = f->best} : f->value;
    *doubt = f->doubt & SLOW_ANY;
    if (!*doubt && floats && !place && value->x == 0 && (f->doubt || (extreme && f->count > 1)))
        *doubt = SLOW_SIGN;
    if (!(*doubt & SLOW_ANY) && sums && f->count > 2) {
        slow_fold_near(f, out, value, doubt, within);
    } else if (f->kind == TIDEI_FOLD_MEAN) {
        value->x = naive_float(TIDEI_OP_DIV, real, value->x, (double)f->count, 0);
        if (naive_class(f->acc) == 3)
            value->y = naive_float(TIDEI_OP_DIV, real, value->y, (double)f->count, 0);
    }
    if (*doubt & (SLOW_ANY | SLOW_NEAR))
        value->t = out;
    else if (value->t != out)
        *value = naive_cast(*value, out);
    return true;
}

/* Which dimensions are folded (bits), by the ast; false: an axis is wrong. */
static inline bool slow_axes(const tidei_axes *x, int ndim, unsigned *folded) {
    *folded = x->n < 0 ? (1u << ndim) - 1 : 0;
    for (int i = 0; i < x->n; i++) {
        const int axis = x->axis[i] + (x->axis[i] < 0 ? ndim : 0);
        if (axis < 0 || axis >= ndim || *folded >> axis & 1) return false;
        *folded |= 1u << axis;
    }
    return true;
}

static inline void slow_reduce(slow_graph *s, const tidei_gnode *n, slow_value *out) {
    const slow_value *body = &s->values[n->a];
    const tidei_axes *axes = &s->ast->folds[n->b];
    unsigned folded;
    if (!slow_axes(axes, body->ndim, &folded)) return slow_refuse(s);
    out->ndim = 0;
    for (int d = 0; d < body->ndim; d++)
        if (!(folded >> d & 1) || axes->keepdims)
            out->shape[out->ndim++] = folded >> d & 1 ? 1 : body->shape[d];
    if (!slow_room(s, out)) return;
    slow_fold *folds = calloc((size_t)out->n + 1, sizeof *folds);
    out->within = calloc((size_t)out->n + 1, sizeof *out->within);
    if (!folds || !out->within) abort();
    for (int64_t i = 0; i < out->n; i++)
        folds[i] = (slow_fold){.kind = n->c, .acc = s->g->nodes[n->a].dtype};
    for (int64_t i = 0; i < body->n; i++) {
        int64_t at = 0, step = 1, rest = i;
        for (int d = body->ndim; d-- > 0;) {
            if (!(folded >> d & 1)) at += rest % body->shape[d] * step, step *= body->shape[d];
            rest /= body->shape[d];
        }
        slow_fold_add(&folds[at], body->v[i], body->doubt[i]);
    }
    for (int64_t i = 0; i < out->n; i++)
        if (!slow_fold_end(&folds[i], n->dtype, &out->v[i], &out->doubt[i], &out->within[i]))
            slow_refuse(s);
    free(folds);
}

/* ---- scans ---- */

/* What a scan accumulates of a body of type t: as a fold of its kind does. */
static inline int slow_scan_acc(int kind, int t) {
    const bool adds = kind == TIDEI_FOLD_SUM || kind == TIDEI_FOLD_PROD;
    if (t == TIDE_F16 || t == TIDE_BF16) return TIDE_F32;
    if (!adds || naive_class(t) >= 2) return t;
    return t == TIDE_BOOL || naive_signed(t) ? TIDE_I64 : TIDE_U64;
}

/* The fold of no elements: of extremes the type's last number on the other side. */
static inline num slow_scan_nothing(int kind, int t) {
    num none = {.t = t};
    const bool least = kind == TIDEI_FOLD_MAX;
    if (kind == TIDEI_FOLD_SUM) return none;
    if (kind == TIDEI_FOLD_PROD) {
        none.i = naive_class(t) < 2;
        none.x = naive_class(t) >= 2;
    } else if (naive_class(t) == 2)
        none.x = least ? -INFINITY : INFINITY;
    else
        none.i = least ? naive_min(t) : naive_max(t);
    return none;
}

/* Element by element: each is a fold of its own, of those up to it. */
static inline void slow_scan(slow_graph *s, const tidei_gnode *n, slow_value *out) {
    static const int kinds[] = {TIDEI_FOLD_SUM, TIDEI_FOLD_PROD, TIDEI_FOLD_MIN, TIDEI_FOLD_MAX};
    const slow_value *body = &s->values[n->a];
    const tidei_axes *x = &s->ast->folds[n->b];
    const int kind = kinds[n->c - TIDEI_FOLD_CUMSUM], acc = slow_scan_acc(kind, n->dtype),
              axis = x->n < 0 ? 0 : x->axis[0] + (x->axis[0] < 0 ? body->ndim : 0);
    if ((x->n < 0 && body->ndim != 1) || axis < 0 || axis >= body->ndim) return slow_refuse(s);
    out->ndim = body->ndim;
    memcpy(out->shape, body->shape, sizeof out->shape);
    out->shape[axis] += x->initial;
    if (!slow_room(s, out)) return;
    out->within = calloc((size_t)out->n + 1, sizeof *out->within);
    if (!out->within) abort();
    int64_t inner = 1, places = body->shape[axis], all = out->shape[axis];
    for (int d = axis + 1; d < body->ndim; d++) inner *= body->shape[d];
    for (int64_t line = 0; all && line < out->n / all; line++) {
        const int64_t from = line / inner * places * inner + line % inner,
                      to = line / inner * all * inner + line % inner;
        slow_fold f = {.kind = kind, .acc = acc};
        if (x->initial)
            out->v[to + (x->reverse ? places : 0) * inner] = slow_scan_nothing(kind, n->dtype);
        for (int64_t k = 0; k < places; k++) {
            const int64_t i = x->reverse ? places - 1 - k : k, at = from + i * inner,
                          o = to + (i + (x->initial && !x->reverse)) * inner;
            num v = body->v[at];
            if (body->doubt[at] & SLOW_ANY)
                v.t = acc;
            else if (v.t != acc)
                v = naive_cast(v, acc);
            slow_fold_add(&f, v, body->doubt[at]);
            slow_fold so_far = f;
            (void)slow_fold_end(&so_far, n->dtype, &out->v[o], &out->doubt[o], &out->within[o]);
        }
    }
}

/* ---- the whole ---- */

static inline void slow_scalar(slow_graph *s, const tidei_gnode *n, slow_value *out) {
    unsigned char bytes[16];
    out->ndim = 0;
    if (!slow_room(s, out)) return;
    out->doubt[0] = s->weak_doubt[n->a] & SLOW_ANY;
    out->v[0].t = n->dtype;
    if (out->doubt[0]) {
        s->unsure = true;
        return;
    }
    if (tidei_encode(slow_argument(s->weak[n->a]), (tide_dtype)n->dtype, "test", bytes) !=
        TIDE_OK) {
        if (s->outcome == SLOW_DONE) s->outcome = SLOW_EITHER;
        return;
    }
    out->v[0] = naive_load(n->dtype, bytes);
    if (s->weak_doubt[n->a] && naive_class(n->dtype) >= 2) out->doubt[0] = SLOW_SIGN;
}

static inline void slow_node(slow_graph *s, unsigned i) {
    const tidei_gnode *n = &s->g->nodes[i];
    slow_value *out = &s->values[i];
    switch (n->op) {
    case TIDEI_OP_INPUT:
        *out = s->operands[n->a];
        s->any_empty |= out->n == 0;
        break;
    case TIDEI_OP_LINEAR: s->outcome = SLOW_TOO_MUCH; break; /* it depends on the pass */
    case TIDEI_OP_SCALAR: slow_scalar(s, n, out); break;
    case TIDEI_OP_FOLD:
        if (tidei_is_scan(n->c))
            slow_scan(s, n, out);
        else
            slow_reduce(s, n, out);
        break;
    default: slow_map(s, n, out);
    }
}

/* Computes the weak numbers of the graph. operands: by parameter, those of numbers unused; their
** elements stay the caller's. Ends with slow_clear, however it went. */
static inline void slow_begin(slow_graph *s, const tidei_ast *ast, const tidei_graph *g,
                              const tide_arg *args, const slow_value *operands) {
    *s = (slow_graph){
        .ast = ast, .g = g, .args = args, .operands = operands, .left = SLOW_ELEMENTS_MAX};
    s->values = calloc(g->nnodes + 1, sizeof *s->values);
    s->weak = calloc(g->nweaks + 1, sizeof *s->weak);
    s->weak_doubt = calloc(g->nweaks + 1, 1);
    if (!s->values || !s->weak || !s->weak_doubt) abort();
    for (unsigned i = 0; i < g->nweaks; i++) slow_weak(s, i);
}

/* Then all nodes of it. */
static inline slow_outcome slow_run(slow_graph *s) {
    for (unsigned i = 0; i < s->g->nnodes && (s->outcome == SLOW_DONE || s->outcome == SLOW_EITHER);
         i++)
        slow_node(s, i);
    if (s->outcome == SLOW_EITHER && !s->any_empty) s->outcome = SLOW_REFUSED;
    if (s->outcome == SLOW_DONE && s->unsure) s->outcome = SLOW_UNSURE;
    return s->outcome;
}

/* Where a number lies beside the finite values of type t: -1 below all of them, 1 above. */
static inline int slow_side(num n, int t) {
    const int real = t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
    const double most = real == TIDE_F16    ? 65504
                        : real == TIDE_BF16 ? 0x1.fep127
                        : real == TIDE_F32  ? FLT_MAX
                                            : DBL_MAX;
    if (t == TIDE_BOOL) return 0;
    if (naive_class(t) == 1)
        return naive_class(n.t) > 1 ? 0 : (n.i > naive_max(t)) - (n.i < naive_min(t));
    const double part[2] = {naive_class(n.t) > 1 ? n.x : (double)n.i,
                            naive_class(n.t) == 3 ? n.y : 0};
    for (int i = 0; i < 2; i++)
        if (isfinite(part[i]) && fabs(part[i]) > most) return part[i] > 0 ? 1 : -1;
    return 0;
}

/* Where the numbers of the graph's limits lie. False: one of them is not known. */
static inline bool slow_beyond(const slow_graph *s, int8_t *out, bool *any) {
    *any = false;
    for (unsigned i = 0; i < s->g->nlimits; i++) {
        const tidei_limit *l = &s->g->limits[i];
        out[i] = 0;
        if (l->weak == UINT16_MAX) continue;
        if (s->weak_doubt[l->weak] & SLOW_ANY) return false;
        out[i] = (int8_t)slow_side(s->weak[l->weak], l->dtype);
        *any |= out[i] != 0;
    }
    return true;
}

static inline void slow_clear(slow_graph *s) {
    for (unsigned i = 0; i < s->g->nnodes; i++) {
        if (s->g->nodes[i].op == TIDEI_OP_INPUT) continue;
        free(s->values[i].v);
        free(s->values[i].doubt);
        free(s->values[i].within);
    }
    free(s->values);
    free(s->weak);
    free(s->weak_doubt);
}

/* Whether an element of the result i is what the library gave. */
static inline bool slow_agrees(const slow_value *x, int64_t i, num got) {
    const num want = x->v[i];
    if (got.t != want.t) return false;
    if (x->doubt[i] & SLOW_ANY) return true;
    if (x->doubt[i] & SLOW_NEAR)
        return fabs(got.x - want.x) <= x->within[i] && fabs(got.y - want.y) <= x->within[i];
    return x->doubt[i] & SLOW_SIGN ? naive_equal(got, want) : naive_same(got, want);
}

#endif
