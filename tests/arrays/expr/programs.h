/* programs.h: programs of the expression engine, node by node, and elements of any type: for tests
** of the back ends. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "arrays/expr/ir.h"
#include "tests/support/tidetest.h"
#include <complex.h>

/* ---- programs ---- */

static inline uint16_t node(tidei_program *p, int op, int t, int a, int b, int c) {
    assert_true(p->nnodes < TIDEI_NODES_MAX);
    p->nodes[p->nnodes] =
        (tidei_node){(uint8_t)op, (uint8_t)t, (uint16_t)a, (uint16_t)b, (uint16_t)c};
    return p->nnodes++;
}
static inline uint16_t input(tidei_program *p, int t) {
    p->input_dtype[p->ninputs] = (uint8_t)t;
    return node(p, TIDEI_OP_INPUT, t, p->ninputs++, 0, 0);
}
static inline uint16_t scalar(tidei_program *p, int t) {
    p->scalar_dtype[p->nscalars] = (uint8_t)t;
    return node(p, TIDEI_OP_SCALAR, t, p->nscalars++, 0, 0);
}
static inline uint16_t cast(tidei_program *p, int t, uint16_t a) {
    return p->nodes[a].dtype == t ? a : node(p, TIDEI_OP_CAST, t, a, 0, 0);
}
static inline void result(tidei_program *p, uint16_t a) {
    p->out_node[p->nouts] = a;
    p->out_dtype[p->nouts++] = p->nodes[a].dtype;
}
static inline void fold(tidei_program *p, int fold_kind, uint16_t a, int acc, int out) {
    p->fold = (uint8_t)fold_kind;
    p->acc_dtype = (uint8_t)acc;
    p->out_node[0] = cast(p, acc, a);
    p->out_dtype[0] = (uint8_t)out;
    p->nouts = 1;
}

/* ---- elements ---- as complex double, which holds small values of every type */

static inline double complex element(const void *at, int t) {
    float f[2];
    double d[2];
    switch (t) {
    case TIDE_BOOL:
    case TIDE_U8: return *(const uint8_t *)at;
    case TIDE_I8: return *(const int8_t *)at;
    case TIDE_I16: return *(const int16_t *)at;
    case TIDE_U16: return *(const uint16_t *)at;
    case TIDE_I32: return *(const int32_t *)at;
    case TIDE_U32: return *(const uint32_t *)at;
    case TIDE_I64: return (double)*(const int64_t *)at;
    case TIDE_U64: return (double)*(const uint64_t *)at;
    case TIDE_F16: return tidei_f16_to_f32(*(const uint16_t *)at);
    case TIDE_BF16: return tidei_bf16_to_f32(*(const uint16_t *)at);
    case TIDE_F32: return *(const float *)at;
    case TIDE_F64: return *(const double *)at;
    case TIDE_C64: memcpy(f, at, 8); return CMPLX(f[0], f[1]);
    default: memcpy(d, at, 16); return CMPLX(d[0], d[1]);
    }
}

static inline void set_element(void *at, int t, double complex v) {
    double x = creal(v);
    float f[2] = {(float)x, (float)cimag(v)};
    double d[2] = {x, cimag(v)};
    switch (t) {
    case TIDE_BOOL: *(uint8_t *)at = x != 0; break;
    case TIDE_U8: *(uint8_t *)at = (uint8_t)x; break;
    case TIDE_I8: *(int8_t *)at = (int8_t)x; break;
    case TIDE_I16: *(int16_t *)at = (int16_t)x; break;
    case TIDE_U16: *(uint16_t *)at = (uint16_t)x; break;
    case TIDE_I32: *(int32_t *)at = (int32_t)x; break;
    case TIDE_U32: *(uint32_t *)at = (uint32_t)x; break;
    case TIDE_I64: *(int64_t *)at = (int64_t)x; break;
    case TIDE_U64: *(uint64_t *)at = (uint64_t)x; break;
    case TIDE_F16: *(uint16_t *)at = tidei_f32_to_f16(f[0]); break;
    case TIDE_BF16: *(uint16_t *)at = tidei_f32_to_bf16(f[0]); break;
    case TIDE_F32: *(float *)at = f[0]; break;
    case TIDE_F64: *(double *)at = x; break;
    case TIDE_C64: memcpy(at, f, 8); break;
    default: memcpy(at, d, 16); break;
    }
}

/* ---- operations ---- */

static inline bool operation_takes(int op, int t) {
    static const unsigned bits[] = {TIDEI_CLASS_BOOL, TIDEI_CLASS_INT, TIDEI_CLASS_INT,
                                    TIDEI_CLASS_FLOAT, TIDEI_CLASS_COMPLEX};
    return (tidei_op_infos[op].classes & bits[tidei_dtype_kind(t)]) != 0;
}

/* The result's type, of operands of type t that the operation takes. */
static inline int result_dtype(int op, int t) {
    switch (tidei_op_infos[op].rule) {
    case TIDEI_RULE_COMPARE_EQ:
    case TIDEI_RULE_COMPARE:
    case TIDEI_RULE_LOGIC:
    case TIDEI_RULE_TEST:
    case TIDEI_RULE_TEST_REAL: return TIDE_BOOL;
    case TIDEI_RULE_COMPLEX: return t == TIDE_F64 ? TIDE_C128 : TIDE_C64;
    case TIDEI_RULE_EXPONENT: return TIDE_I32;
    case TIDEI_RULE_FLOAT_ABS:
    case TIDEI_RULE_ABS: return t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
    default: return t;
    }
}

#endif
