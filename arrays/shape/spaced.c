/* spaced.c: numbers at equal distances, and powers at equal ratios: one pass over the elements'
** numbers, in f64.
**
** The last element is not computed but given: rounding on the way must not move it. Where stop -
** start is beyond f64, all is computed in halves, which are exact there, as tide_arange does it. */
#include <inttypes.h>
#include <math.h>

#include "arrays/arrays.h"
#include "arrays/expr/ir.h"

typedef struct spacing {
    const char *op;
    double start, stop; /* by halves where that is wide */
    int64_t count;
    bool endpoint, wide;
    double base; /* 0: the numbers themselves */
} spacing;

/* Scalars of the program. */
enum { START, STEP, LAST, STOP, BASE, SCALARS };

static int node(tidei_program *p, tidei_op op, tide_dtype t, int a, int b, int c) {
    p->nodes[p->nnodes] = (tidei_node){.op = (uint8_t)op,
                                       .dtype = (uint8_t)t,
                                       .a = (uint16_t)a,
                                       .b = (uint16_t)b,
                                       .c = (uint16_t)c};
    return p->nnodes++;
}

static int scalar(tidei_program *p, int which, tide_dtype t) {
    p->scalar_dtype[which] = (uint8_t)t;
    if (p->nscalars <= which) p->nscalars = (uint16_t)(which + 1);
    return node(p, TIDEI_OP_SCALAR, t, which, 0, 0);
}

/* where(i == last, stop, start + i*step), or of that the power. */
static void spaced_program(const spacing *x, tide_dtype t, tidei_program *p) {
    memset(p, 0, sizeof *p);
    int i = node(p, TIDEI_OP_LINEAR, TIDE_I64, 0, 0, 0), start = scalar(p, START, TIDE_F64),
        step = scalar(p, STEP, TIDE_F64), last = scalar(p, LAST, TIDE_I64),
        stop = scalar(p, STOP, TIDE_F64);
    int v = node(p, TIDEI_OP_CAST, TIDE_F64, i, 0, 0);
    v = node(p, TIDEI_OP_MUL, TIDE_F64, v, step, 0);
    v = node(p, TIDEI_OP_ADD, TIDE_F64, v, start, 0);
    if (x->wide) v = node(p, TIDEI_OP_ADD, TIDE_F64, v, v, 0);
    if (x->base > 0) v = node(p, TIDEI_OP_POW, TIDE_F64, scalar(p, BASE, TIDE_F64), v, 0);
    int at_end = node(p, TIDEI_OP_EQ, TIDE_BOOL, i, last, 0);
    v = node(p, TIDEI_OP_WHERE, TIDE_F64, at_end, stop, v);
    tidei_kind kind = tidei_dtype_kind(t);
    if (!(x->base > 0) && (kind == TIDEI_KIND_INT || kind == TIDEI_KIND_UINT))
        v = node(p, TIDEI_OP_FLOOR, TIDE_F64, v, 0, 0);
    if (t != TIDE_F64) v = node(p, TIDEI_OP_CAST, t, v, 0, 0);
    p->nouts = 1;
    p->out_node[0] = (uint16_t)v;
    p->out_dtype[0] = (uint8_t)t;
}

static double number(const spacing *x, double v) { return x->base > 0 ? pow(x->base, v) : v; }

static tide_status run(const spacing *x, const tidei_operand *o) {
    tidei_program p;
    tidei_call c = {.ndim = 1, .shape = {x->count}, .out[0] = {.st = o->st, .strides = {1}}};
    if (!x->count) return TIDE_OK;
    double half = x->wide ? 0.5 : 1, steps = (double)(x->count - x->endpoint),
           start = half * x->start,
           step = x->count > 1 ? (half * x->stop - half * x->start) / steps : 0,
           stop = number(x, x->stop);
    int64_t last = x->endpoint && x->count > 1 ? x->count - 1 : -1; /* of one the start counts */
    spaced_program(x, o->lay.dtype, &p);
    c.prog = tidei_program_shared(o->rt, &p);
    if (!c.prog) return tidei_fail_host_memory(x->op, sizeof p);
    memcpy(c.scalars[START], &start, sizeof start);
    memcpy(c.scalars[STEP], &step, sizeof step);
    memcpy(c.scalars[LAST], &last, sizeof last);
    memcpy(c.scalars[STOP], &stop, sizeof stop);
    memcpy(c.scalars[BASE], &x->base, sizeof x->base);
    return tidei_backend_of(o->st->dev)->run(tidei_stream_here(o->rt), &c, x->op);
}

/* Whether t has the number, rounded as the elements are. */
static tide_status fits(const spacing *x, tide_dtype t, double v) {
    unsigned char element[16];
    tidei_kind kind = tidei_dtype_kind(t);
    v = number(x, v);
    if (kind == TIDEI_KIND_INT || kind == TIDEI_KIND_UINT) v = x->base > 0 ? trunc(v) : floor(v);
    return tidei_encode(tide_arg_float(v), t, x->op, element);
}

static tide_status check(const spacing *x, tide_dtype t, int endpoint) {
    if (tidei_dtype_check(t, x->op) != TIDE_OK) return TIDE_E_INVALID;
    if (x->count < 0)
        return tidei_fail(TIDE_E_INVALID, x->op, "%" PRId64 " numbers are wanted", x->count);
    if (!isfinite(x->start) || !isfinite(x->stop))
        return tidei_fail(TIDE_E_INVALID, x->op, "from %g to %g: both must be finite", x->start,
                          x->stop);
    if (!isfinite(x->base) || x->base < 0)
        return tidei_fail(TIDE_E_INVALID, x->op, "the base is %g; wanted: above 0, finite",
                          x->base);
    if (endpoint != 0 && endpoint != 1)
        return tidei_fail(TIDE_E_INVALID, x->op, "endpoint is %d; wanted: 0 or 1", endpoint);
    if (t == TIDE_BOOL)
        return tidei_fail(TIDE_E_DTYPE, x->op, "%s has no ranges", tide_dtype_name(t));
    tide_status s = x->count ? fits(x, t, x->start) : TIDE_OK;
    return s == TIDE_OK && x->count > 1 ? fits(x, t, x->stop) : s;
}

static tide_array *spaced(tide_runtime *ref, const spacing *x, tide_dtype t, int endpoint) {
    TIDEI_OPERATION(x->op);
    tidei_operand o;
    tidei_runtime *rt = tidei_entered(ref, x->op);
    if (!rt || check(x, t, endpoint) != TIDE_OK) return NULL;
    tide_array *a = tidei_array_make(rt, t, 1, &x->count, x->op, &o);
    return a ? tidei_array_done(a, &o, run(x, &o)) : NULL;
}

tide_array *tide_linspace(tide_runtime *rt, tide_dtype t, double start, double stop, int64_t count,
                          int endpoint) {
    const spacing x = {"tide_linspace", start, stop, count, endpoint != 0, isinf(stop - start), 0};
    return spaced(rt, &x, t, endpoint);
}

tide_array *tide_logspace(tide_runtime *rt, tide_dtype t, double start, double stop, int64_t count,
                          int endpoint, double base) {
    const spacing x = {"tide_logspace",      start, stop, count, endpoint != 0, isinf(stop - start),
                       base == 0 ? -1 : base};
    return spaced(rt, &x, t, endpoint);
}
