/* vm_kernels.c: the interpreter's vector loops. Compiled once for each instruction set, with VM_SET
** its name, and VM_COMPLEX_SET that of its loops over complex numbers (vm_complex.c).
**
** What must stay true: every set gives the same bits (no contraction, no reassociation, fixed lanes
** in folds). A loop's destination may be one of its operands, element for element: so a loop
** carries nothing from one element to another (LOOP says so to the compiler), and memory may change
** its type between two loops (-fno-strict-aliasing). */
#include "arrays/expr/vm_common.h"

/* ---- the operations and folds, a value type at a time ---- */
#define T                     td_bool
#define S                     bool
#define PART                  td_bool
#define CLASS(be, ie, fe, ce) be
#define VM_BOOL
#include "arrays/expr/vm_loops.h"
#define T                     td_i8
#define S                     i8
#define U                     td_u32
#define PART                  td_i8
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_i16
#define S                     i16
#define U                     td_u32
#define PART                  td_i16
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_i32
#define S                     i32
#define U                     td_u32
#define PART                  td_i32
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_i64
#define S                     i64
#define U                     td_u64
#define PART                  td_i64
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_u8
#define S                     u8
#define U                     td_u32
#define PART                  td_u8
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_u16
#define S                     u16
#define U                     td_u32
#define PART                  td_u16
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_u32
#define S                     u32
#define U                     td_u32
#define PART                  td_u32
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_u64
#define S                     u64
#define U                     td_u64
#define PART                  td_u64
#define CLASS(be, ie, fe, ce) ie
#include "arrays/expr/vm_loops.h"
#define T                     td_f32
#define S                     f32
#define M(f)                  TD_MATH_f32(f)
#define PART                  td_f32
#define PAIR                  td_c64
#define CLASS(be, ie, fe, ce) fe
#define VM_FLOAT
#include "arrays/expr/vm_loops.h"
#define T                     td_f64
#define S                     f64
#define M(f)                  TD_MATH_f64(f)
#define PART                  td_f64
#define PAIR                  td_c128
#define CLASS(be, ie, fe, ce) fe
#define VM_FLOAT
#include "arrays/expr/vm_loops.h"

/* ---- casts ---- Between value types; f16 and bf16 as sources are floats, as targets rounded
** floats. */
#define V_bool td_bool
#define V_i8   td_i8
#define V_i16  td_i16
#define V_i32  td_i32
#define V_i64  td_i64
#define V_u8   td_u8
#define V_u16  td_u16
#define V_u32  td_u32
#define V_u64  td_u64
#define V_f16  td_f32
#define V_bf16 td_f32
#define V_f32  td_f32
#define V_f64  td_f64
#define V_c64  td_c64
#define V_c128 td_c128

/* X(from, to, ...) for the targets of a source. */
#define EACH_REAL_TARGET(X, from)                                                                  \
    X(from, bool)                                                                                  \
    X(from, i8)                                                                                    \
    X(from, i16)                                                                                   \
    X(from, i32)                                                                                   \
    X(from, i64)                                                                                   \
    X(from, u8)                                                                                    \
    X(from, u16) X(from, u32) X(from, u64) X(from, f16) X(from, bf16) X(from, f32) X(from, f64)
#define EACH_TARGET(X, from)         EACH_REAL_TARGET(X, from) X(from, c64) X(from, c128)
#define EACH_COMPLEX_TARGET(X, from) X(from, bool) X(from, c64) X(from, c128)
#define EACH_CAST(X)                                                                               \
    EACH_TARGET(X, bool)                                                                           \
    EACH_TARGET(X, i8)                                                                             \
    EACH_TARGET(X, i16)                                                                            \
    EACH_TARGET(X, i32)                                                                            \
    EACH_TARGET(X, i64)                                                                            \
    EACH_TARGET(X, u8)                                                                             \
    EACH_TARGET(X, u16)                                                                            \
    EACH_TARGET(X, u32)                                                                            \
    EACH_TARGET(X, u64)                                                                            \
    EACH_TARGET(X, f32)                                                                            \
    EACH_TARGET(X, f64)                                                                            \
    EACH_COMPLEX_TARGET(X, c64)                                                                    \
    EACH_COMPLEX_TARGET(X, c128)

#define CAST_FN(from, to)                                                                          \
    static void cast_##from##_##to(void *pd, const void *pa, const void *pb, const void *pc,       \
                                   size_t n) {                                                     \
        (void)pb;                                                                                  \
        (void)pc;                                                                                  \
        LOOP(n) {                                                                                  \
            const V_##from a = ((const V_##from *)pa)[i];                                          \
            ((V_##to *)pd)[i] = TD_CAST(from, to, a);                                              \
        }                                                                                          \
    }
EACH_CAST(CAST_FN)

/* ---- f16 and bf16 in memory ---- */
#define HALF_FNS(S)                                                                                \
    static void load_##S(void *pd, const void *pa, const void *pb, const void *pc, size_t n) {     \
        (void)pb;                                                                                  \
        (void)pc;                                                                                  \
        LOOP(n)((td_f32 *)pd)[i] = td_load_##S(((const td_##S *)pa)[i]);                           \
    }                                                                                              \
    static void store_##S(void *pd, const void *pa, const void *pb, const void *pc, size_t n) {    \
        (void)pb;                                                                                  \
        (void)pc;                                                                                  \
        LOOP(n)((td_##S *)pd)[i] = td_store_##S(((const td_f32 *)pa)[i]);                          \
    }
HALF_FNS(f16)
HALF_FNS(bf16)
#define NEXT_FN(S)                                                                                 \
    static void next_##S(void *pd, const void *pa, const void *pb, const void *pc, size_t n) {     \
        (void)pc;                                                                                  \
        LOOP(n)                                                                                    \
        ((td_f32 *)pd)[i] = td_nextafter_##S(((const td_f32 *)pa)[i], ((const td_f32 *)pb)[i]);    \
    }
NEXT_FN(f16)
NEXT_FN(bf16)

/* ---- moving elements, by width ---- */
typedef struct pair {
    td_u64 lo, hi;
} pair;

#define MOVE_FNS(W, E)                                                                             \
    static void copy_##W(void *pd, const void *pa, const void *pb, const void *pc, size_t n) {     \
        (void)pb;                                                                                  \
        (void)pc;                                                                                  \
        LOOP(n)((E *)pd)[i] = ((const E *)pa)[i];                                                  \
    }                                                                                              \
    static void splat_##W(void *pd, const void *pa, const void *pb, const void *pc, size_t n) {    \
        const E x = *(const E *)pa;                                                                \
        (void)pb;                                                                                  \
        (void)pc;                                                                                  \
        LOOP(n)((E *)pd)[i] = x;                                                                   \
    }                                                                                              \
    static void gather_##W(void *packed, const void *at, size_t n1, int64_t s1, size_t n0,         \
                           int64_t s0) {                                                           \
        E *d = packed;                                                                             \
        const E *x = at;                                                                           \
        for (size_t j = 0; j < n1; j++, d += n0, x += s1) {                                        \
            if (s0 == 1)                                                                           \
                LOOP(n0) d[i] = x[i];                                                              \
            else if (s0 == 0)                                                                      \
                splat_##W(d, x, NULL, NULL, n0);                                                   \
            else                                                                                   \
                LOOP(n0) d[i] = x[(int64_t)i * s0];                                                \
        }                                                                                          \
    }                                                                                              \
    static void scatter_##W(void *at, const void *packed, size_t n1, int64_t s1, size_t n0,        \
                            int64_t s0) {                                                          \
        E *d = at;                                                                                 \
        const E *x = packed;                                                                       \
        for (size_t j = 0; j < n1; j++, d += s1, x += n0) {                                        \
            if (s0 == 1)                                                                           \
                LOOP(n0) d[i] = x[i];                                                              \
            else                                                                                   \
                LOOP(n0) d[(int64_t)i * s0] = x[i];                                                \
        }                                                                                          \
    }
MOVE_FNS(1, td_u8)
MOVE_FNS(2, td_u16)
MOVE_FNS(4, td_u32)
MOVE_FNS(8, td_u64)
MOVE_FNS(16, pair)

static void linear(int64_t *packed, int64_t first, size_t n1, int64_t s1, size_t n0, int64_t s0) {
    for (size_t j = 0; j < n1; j++, packed += n0, first += s1)
        LOOP(n0) packed[i] = first + (int64_t)i * s0;
}

/* ---- the table ---- */
#define DTYPE_bool TIDE_BOOL
#define DTYPE_i8   TIDE_I8
#define DTYPE_i16  TIDE_I16
#define DTYPE_i32  TIDE_I32
#define DTYPE_i64  TIDE_I64
#define DTYPE_u8   TIDE_U8
#define DTYPE_u16  TIDE_U16
#define DTYPE_u32  TIDE_U32
#define DTYPE_u64  TIDE_U64
#define DTYPE_f16  TIDE_F16
#define DTYPE_bf16 TIDE_BF16
#define DTYPE_f32  TIDE_F32
#define DTYPE_f64  TIDE_F64
#define DTYPE_c64  TIDE_C64
#define DTYPE_c128 TIDE_C128

#define CAST_ENTRY(from, to) k->cast[DTYPE_##from][DTYPE_##to] = cast_##from##_##to;
static void enlist_casts(tidei_vm_kernels *k) {
    EACH_CAST(CAST_ENTRY)
    memcpy(k->cast[TIDE_F16], k->cast[TIDE_F32], sizeof k->cast[TIDE_F32]);
    memcpy(k->cast[TIDE_BF16], k->cast[TIDE_F32], sizeof k->cast[TIDE_F32]);
    k->load[TIDE_F16] = load_f16;
    k->load[TIDE_BF16] = load_bf16;
    k->store[TIDE_F16] = store_f16;
    k->store[TIDE_BF16] = store_bf16;
}

#define MOVE_ENTRY(W, index)                                                                       \
    k->copy[index] = copy_##W;                                                                     \
    k->splat[index] = splat_##W;                                                                   \
    k->gather[index] = gather_##W;                                                                 \
    k->scatter[index] = scatter_##W;

#define NAME_(set) #set
#define NAME(set)  NAME_(set)
void PASTE(tidei_vm_kernels, VM_SET)(tidei_vm_kernels *k) {
    k->name = NAME(VM_SET);
    enlist_bool(k, TIDE_BOOL);
    enlist_i8(k, TIDE_I8);
    enlist_i16(k, TIDE_I16);
    enlist_i32(k, TIDE_I32);
    enlist_i64(k, TIDE_I64);
    enlist_u8(k, TIDE_U8);
    enlist_u16(k, TIDE_U16);
    enlist_u32(k, TIDE_U32);
    enlist_u64(k, TIDE_U64);
    enlist_f32(k, TIDE_F16);
    enlist_f32(k, TIDE_BF16);
    k->op[TIDEI_OP_NEXTAFTER][TIDE_F16] = next_f16;
    k->op[TIDEI_OP_NEXTAFTER][TIDE_BF16] = next_bf16;
    enlist_f32(k, TIDE_F32);
    enlist_f64(k, TIDE_F64);
    PASTE(tidei_vm_kernels_complex, VM_COMPLEX_SET)(k);
    enlist_casts(k);
    MOVE_ENTRY(1, 0)
    MOVE_ENTRY(2, 1)
    MOVE_ENTRY(4, 2)
    MOVE_ENTRY(8, 3)
    MOVE_ENTRY(16, 4)
    k->linear = linear;
}
