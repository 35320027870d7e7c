/* follow.c: bias and activation as a program of the expression engine. */
#include "arrays/linalg/follow.h"
#include "arrays/arrays.h"
#include "arrays/expr/ir.h"

/* A program while it is written; values are nodes by number. */
typedef struct writer {
    tidei_program p;
    tidei_call *call;
    uint8_t type; /* that is computed in */
} writer;

static uint16_t add(writer *w, tidei_op op, uint8_t type, uint16_t a, uint16_t b) {
    w->p.nodes[w->p.nnodes] = (tidei_node){.op = (uint8_t)op, .dtype = type, .a = a, .b = b};
    return w->p.nnodes++;
}
static uint16_t apply(writer *w, tidei_op op, uint16_t a, uint16_t b) {
    return add(w, op, w->type, a, b);
}

static uint16_t cast_from(writer *w, uint16_t x, uint8_t from) {
    return from == w->type ? x : apply(w, TIDEI_OP_CAST, x, 0);
}

static uint16_t input(writer *w, const tidei_operand *o, const tidei_layout *over) {
    uint16_t slot = w->p.ninputs++;
    uint8_t type = (uint8_t)o->lay.dtype;
    tidei_view *v = &w->call->in[slot];
    w->p.input_dtype[slot] = type;
    v->st = o->st;
    v->offset = o->lay.offset;
    tidei_broadcast_strides(&o->lay, over->ndim, over->shape, v->strides);
    return cast_from(w, add(w, TIDEI_OP_INPUT, type, slot, 0), type);
}

static uint16_t number(writer *w, double value) {
    uint16_t slot = w->p.nscalars++;
    float narrow = (float)value;
    w->p.scalar_dtype[slot] = w->type;
    if (w->type == TIDE_F64)
        memcpy(w->call->scalars[slot], &value, sizeof value);
    else
        memcpy(w->call->scalars[slot], &narrow, sizeof narrow);
    return apply(w, TIDEI_OP_SCALAR, slot, 0);
}

/* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
static uint16_t gelu(writer *w, uint16_t x) {
    uint16_t cube = apply(w, TIDEI_OP_MUL, apply(w, TIDEI_OP_MUL, x, x), x);
    uint16_t sum = apply(w, TIDEI_OP_ADD, x, apply(w, TIDEI_OP_MUL, number(w, 0.044715), cube));
    uint16_t bend =
        apply(w, TIDEI_OP_TANH, apply(w, TIDEI_OP_MUL, number(w, 0.79788456080286536), sum), 0);
    return apply(w, TIDEI_OP_MUL, apply(w, TIDEI_OP_MUL, number(w, 0.5), x),
                 apply(w, TIDEI_OP_ADD, number(w, 1), bend));
}

static void write_program(writer *w, tidei_epilogue e, const tidei_operand *c,
                          const tidei_operand *x, const tidei_operand *bias) {
    const uint8_t out = (uint8_t)c->lay.dtype;
    uint16_t first = input(w, x, &c->lay), second = input(w, bias, &c->lay);
    uint16_t y = apply(w, TIDEI_OP_ADD, first, second);
    if (e == TIDEI_EPILOGUE_RELU) y = apply(w, TIDEI_OP_MAXIMUM, y, number(w, 0));
    if (e == TIDEI_EPILOGUE_GELU) y = gelu(w, y);
    if (out != w->type) y = add(w, TIDEI_OP_CAST, out, y, 0);
    w->p.nouts = 1;
    w->p.out_node[0] = y;
    w->p.out_dtype[0] = out;
}

tide_status tidei_follow(tidei_epilogue e, const tidei_operand *c, const tidei_operand *x,
                         const tidei_operand *bias, const char *op) {
    tidei_call call = {.ndim = c->lay.ndim, .out[0] = {.st = c->st, .offset = c->lay.offset}};
    writer w = {.call = &call, .type = c->lay.dtype == TIDE_F64 ? TIDE_F64 : TIDE_F32};
    memcpy(call.shape, c->lay.shape, sizeof call.shape);
    memcpy(call.out[0].strides, c->lay.strides, sizeof c->lay.strides);
    write_program(&w, e, c, x, bias);
    call.prog = tidei_program_shared(c->rt, &w.p);
    if (!call.prog) return tidei_fail_host_memory(op, sizeof w.p);
    tidei_call_collapse(&call);
    tidei_stream *s = tidei_stream_here(c->rt);
    return tidei_backend_of(s->dev)->run(s, &call, op);
}
