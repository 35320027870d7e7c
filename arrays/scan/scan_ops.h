/* scan_ops.h: what scans compute with: one text for both back ends, behind prelude.h (with
** TD_COMPLEX).
**
** sc_<op>_<accumulator>(before, next) joins two values; sc_none_<op>_<type> is the accumulator of
** no elements; SC_LOAD and SC_STORE go from an element to the accumulator and back. */
#ifndef TIDEI_SCAN_OPS_H
#define TIDEI_SCAN_OPS_H

typedef td_bool td_truth; /* `bool` is a macro in C */

#define SC_NUMBERS(S, U)                                                                           \
    TD_FN td_##S sc_sum_##S(td_##S a, td_##S b) { return (td_##S)((U)a + (U)b); }                  \
    TD_FN td_##S sc_prod_##S(td_##S a, td_##S b) { return (td_##S)((U)a * (U)b); }
#define SC_ORDERED(S)                                                                              \
    TD_FN td_##S sc_min_##S(td_##S a, td_##S b) { return a < b || a != a ? a : b; }                \
    TD_FN td_##S sc_max_##S(td_##S a, td_##S b) { return a > b || a != a ? a : b; }
#define SC_COMPLEX(S)                                                                              \
    TD_FN td_##S sc_sum_##S(td_##S a, td_##S b) { return TD_NAME(add, S)(a, b); }                  \
    TD_FN td_##S sc_prod_##S(td_##S a, td_##S b) { return TD_NAME(mul, S)(a, b); }
SC_NUMBERS(i64, td_u64)
SC_NUMBERS(u64, td_u64)
SC_NUMBERS(f32, td_f32)
SC_NUMBERS(f64, td_f64)
SC_COMPLEX(c64)
SC_COMPLEX(c128)
SC_ORDERED(i32)
SC_ORDERED(u32)
SC_ORDERED(i64)
SC_ORDERED(u64)
SC_ORDERED(f32)
SC_ORDERED(f64)

#define SC_INF td_from_bits_f32(0x7f800000u)
/* sum and prod of each type; the least and the greatest number, of no elements those of max and
** min */
#define SC_NONE(T, A)                                                                              \
    TD_FN td_##A sc_none_sum_##T(void) { return (td_##A)0; }                                       \
    TD_FN td_##A sc_none_prod_##T(void) { return (td_##A)1; }
#define SC_NONE_COMPLEX(T)                                                                         \
    TD_FN td_##T sc_none_sum_##T(void) { return td_make_##T(0, 0); }                               \
    TD_FN td_##T sc_none_prod_##T(void) { return td_make_##T(1, 0); }
#define SC_ENDS(T, A, LEAST, MOST)                                                                 \
    TD_FN td_##A sc_none_max_##T(void) { return (td_##A)(LEAST); }                                 \
    TD_FN td_##A sc_none_min_##T(void) { return (td_##A)(MOST); }
SC_NONE(truth, i64)
SC_NONE(i8, i64)
SC_NONE(i16, i64)
SC_NONE(i32, i64)
SC_NONE(i64, i64)
SC_NONE(u8, u64)
SC_NONE(u16, u64)
SC_NONE(u32, u64)
SC_NONE(u64, u64)
SC_NONE(f16, f32)
SC_NONE(bf16, f32)
SC_NONE(f32, f32)
SC_NONE(f64, f64)
SC_NONE_COMPLEX(c64)
SC_NONE_COMPLEX(c128)
SC_ENDS(truth, u32, 0, 1)
SC_ENDS(i8, i32, -0x80, 0x7f)
SC_ENDS(i16, i32, -0x8000, 0x7fff)
SC_ENDS(i32, i32, -0x7fffffff - 1, 0x7fffffff)
SC_ENDS(i64, i64, -0x7fffffffffffffffll - 1, 0x7fffffffffffffffll)
SC_ENDS(u8, u32, 0, 0xff)
SC_ENDS(u16, u32, 0, 0xffff)
SC_ENDS(u32, u32, 0, 0xffffffffu)
SC_ENDS(u64, u64, 0, 0xffffffffffffffffull)
SC_ENDS(f16, f32, -SC_INF, SC_INF)
SC_ENDS(bf16, f32, -SC_INF, SC_INF)
SC_ENDS(f32, f32, -SC_INF, SC_INF)
SC_ENDS(f64, f64, -SC_INF, SC_INF)

#define SC_LOAD(T, A, x)    SC_LOAD_##T(A, x)
#define SC_STORE(T, x)      SC_STORE_##T(x)
#define SC_LOAD_truth(A, x) ((td_##A)((x) != 0))
#define SC_LOAD_i8(A, x)    ((td_##A)(x))
#define SC_LOAD_i16(A, x)   ((td_##A)(x))
#define SC_LOAD_i32(A, x)   ((td_##A)(x))
#define SC_LOAD_i64(A, x)   (x)
#define SC_LOAD_u8(A, x)    ((td_##A)(x))
#define SC_LOAD_u16(A, x)   ((td_##A)(x))
#define SC_LOAD_u32(A, x)   ((td_##A)(x))
#define SC_LOAD_u64(A, x)   (x)
#define SC_LOAD_f16(A, x)   td_load_f16(x)
#define SC_LOAD_bf16(A, x)  td_load_bf16(x)
#define SC_LOAD_f32(A, x)   (x)
#define SC_LOAD_f64(A, x)   (x)
#define SC_LOAD_c64(A, x)   (x)
#define SC_LOAD_c128(A, x)  (x)
#define SC_STORE_truth(x)   ((td_bool)(x))
#define SC_STORE_i8(x)      ((td_i8)(x))
#define SC_STORE_i16(x)     ((td_i16)(x))
#define SC_STORE_i32(x)     (x)
#define SC_STORE_i64(x)     (x)
#define SC_STORE_u8(x)      ((td_u8)(x))
#define SC_STORE_u16(x)     ((td_u16)(x))
#define SC_STORE_u32(x)     (x)
#define SC_STORE_u64(x)     (x)
#define SC_STORE_f16(x)     td_store_f16(x)
#define SC_STORE_bf16(x)    td_store_bf16(x)
#define SC_STORE_f32(x)     (x)
#define SC_STORE_f64(x)     (x)
#define SC_STORE_c64(x)     (x)
#define SC_STORE_c128(x)    (x)

#endif
