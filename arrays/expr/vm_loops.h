/* vm_loops.h: the operations and folds of one value type as vector loops: a part of vm_kernels.c,
** included once a type.
**
** Takes T (the value type), S (its name), CLASS(be, ie, fe, ce) (its column of ops.def), and where
** they apply U and NAN handling: U (integers), M and PAIR (floats), PART (complex). Undefines them.
** Defines enlist_S(), which puts the loops into a table. An empty expression gives no loop. */

#define F(f) PASTE(td_##f, S)
#define G(f) F(f)

/* By rule: the result's type and operand a's (b's and c's is T). */
#define TYPES_ARITH      T, T
#define TYPES_REAL       T, T
#define TYPES_ORDER      T, T
#define TYPES_FLOAT      T, T
#define TYPES_FLOAT_REAL T, T
#define TYPES_INT        T, T
#define TYPES_BITS       T, T
#define TYPES_KEEP_INT   T, T
#define TYPES_SELECT     T, td_bool
#define TYPES_COMPARE_EQ td_bool, T
#define TYPES_COMPARE    td_bool, T
#define TYPES_LOGIC      td_bool, T
#define TYPES_TEST       td_bool, T
#define TYPES_TEST_REAL  td_bool, T
#define TYPES_ABS        PART, T
#define TYPES_ARITH_BOOL T, T
#define TYPES_FLOAT_ABS  PART, T
#define TYPES_COMPLEX    PAIR, T
#define TYPES_EXPONENT   td_i32, T

/* The expression as a function of one element, and its loop. */
#define SCALARS_1(A)                      const A a
#define SCALARS_2(A)                      const A a, const T b
#define SCALARS_3(A)                      const A a, const T b, const T c
#define LOADS_1(A)                        ((const A *)pa)[i]
#define LOADS_2(A)                        ((const A *)pa)[i], ((const T *)pb)[i]
#define LOADS_3(A)                        ((const A *)pa)[i], ((const T *)pb)[i], ((const T *)pc)[i]
#define LOOP_FN(ident, arity, types, ...) LOOP_FN_(ident, arity, types, __VA_ARGS__)
#define LOOP_FN_(ident, arity, R, A, ...)                                                          \
    __VA_OPT__(                                                                                    \
        static inline R PASTE(one_##ident, S)(SCALARS_##arity(A)) {                                \
            return (__VA_ARGS__);                                                                  \
        } static void PASTE(op_##ident, S)(void *pd, const void *pa, const void *pb,               \
                                           const void *pc, size_t n) {                             \
            (void)pb;                                                                              \
            (void)pc;                                                                              \
            LOOP(n)((R *)pd)[i] = PASTE(one_##ident, S)(LOADS_##arity(A));                         \
        })
#define TIDEI_OP(ident, name, arity, rule, be, ie, fe, ce, ulps, notes)                            \
    LOOP_FN(ident, arity, TYPES_##rule, CLASS(be, ie, fe, ce))
#include "arrays/expr/ops.def"
#undef TIDEI_OP

/* ---- folds ---- A row in ROW_LANES sums that take turns, which are then folded in halves; short
** rows one by one. */
#define ROWS_FN(fold, ident)                                                                       \
    static inline T PASTE(row_##fold, S)(const T *x, size_t n) {                                   \
        T r[ROW_LANES];                                                                            \
        size_t i = ROW_LANES;                                                                      \
        if (n < ROW_LANES) {                                                                       \
            r[0] = x[0];                                                                           \
            for (i = 1; i < n; i++) r[0] = PASTE(one_##ident, S)(r[0], x[i]);                      \
            return r[0];                                                                           \
        }                                                                                          \
        for (size_t j = 0; j < ROW_LANES; j++) r[j] = x[j];                                        \
        for (; i + ROW_LANES <= n; i += ROW_LANES)                                                 \
            for (size_t j = 0; j < ROW_LANES; j++) r[j] = PASTE(one_##ident, S)(r[j], x[i + j]);   \
        for (size_t j = 0; i + j < n; j++) r[j] = PASTE(one_##ident, S)(r[j], x[i + j]);           \
        for (size_t j = 0; j < 16; j++) r[j] = PASTE(one_##ident, S)(r[j], r[j + 16]);             \
        for (size_t j = 0; j < 8; j++) r[j] = PASTE(one_##ident, S)(r[j], r[j + 8]);               \
        for (size_t j = 0; j < 4; j++) r[j] = PASTE(one_##ident, S)(r[j], r[j + 4]);               \
        return PASTE(one_##ident, S)(PASTE(one_##ident, S)(r[0], r[2]),                            \
                                     PASTE(one_##ident, S)(r[1], r[3]));                           \
    }                                                                                              \
    static void PASTE(rows_##fold, S)(void *dst, const void *src, size_t rows, size_t n) {         \
        for (size_t k = 0; k < rows; k++)                                                          \
            ((T *)dst)[k] = PASTE(row_##fold, S)((const T *)src + k * n, n);                       \
    }
/* Whether y beats the best x so far: NaN beats all but NaN. */
#define ARG_FNS(which, LESS)                                                                       \
    static inline int PASTE(beats_##which, S)(T y, T x) {                                          \
        return y LESS x || (ISNAN(y) && !ISNAN(x));                                                \
    }                                                                                              \
    static void PASTE(argstep_##which, S)(void *best, int64_t *at, const void *px, int64_t now,    \
                                          size_t n) {                                              \
        LOOP(n) {                                                                                  \
            const T y = ((const T *)px)[i], x = ((T *)best)[i];                                    \
            const int wins = PASTE(beats_##which, S)(y, x);                                        \
            ((T *)best)[i] = wins ? y : x;                                                         \
            at[i] = wins ? now : at[i];                                                            \
        }                                                                                          \
    }                                                                                              \
    static int64_t PASTE(argpick_##which, S)(const void *px, const int64_t *at, size_t n,          \
                                             size_t step) {                                        \
        const T *x = px;                                                                           \
        T best = x[0];                                                                             \
        int64_t found = at ? at[0] : 0;                                                            \
        for (size_t i = 1; i < n; i++) {                                                           \
            const T y = x[i * step];                                                               \
            const int64_t here = (at ? at[i * step] : 0) + (int64_t)i;                             \
            if (PASTE(beats_##which, S)(y, best) ||                                                \
                (here < found && !PASTE(beats_##which, S)(best, y))) {                             \
                best = y;                                                                          \
                found = here;                                                                      \
            }                                                                                      \
        }                                                                                          \
        return found;                                                                              \
    }

#if defined(VM_BOOL)
ROWS_FN(ANY, LOGICAL_OR)
ROWS_FN(ALL, LOGICAL_AND)
#else
ROWS_FN(SUM, ADD)
ROWS_FN(PROD, MUL)
#endif
#if !defined(VM_COMPLEX)
ROWS_FN(MIN, MINIMUM)
ROWS_FN(MAX, MAXIMUM)
#if defined(VM_FLOAT)
#define ISNAN(x) ((x) != (x))
#else
#define ISNAN(x) 0
#endif
ARG_FNS(min, <)
ARG_FNS(max, >)
#undef ISNAN
#endif

/* ---- the table ---- */
#define ENTRY(ident, ...) __VA_OPT__(k->op[TIDEI_OP_##ident][t] = PASTE(op_##ident, S);)
static void PASTE(enlist, S)(tidei_vm_kernels *k, tide_dtype t) {
#define TIDEI_OP(ident, name, arity, rule, be, ie, fe, ce, ulps, notes)                            \
    ENTRY(ident, CLASS(be, ie, fe, ce))
#include "arrays/expr/ops.def"
#undef TIDEI_OP
#if defined(VM_BOOL)
    k->rows[TIDEI_FOLD_ANY][t] = PASTE(rows_ANY, S);
    k->rows[TIDEI_FOLD_ALL][t] = PASTE(rows_ALL, S);
#else
    k->rows[TIDEI_FOLD_SUM][t] = PASTE(rows_SUM, S);
    k->rows[TIDEI_FOLD_PROD][t] = PASTE(rows_PROD, S);
#endif
#if !defined(VM_COMPLEX)
    k->rows[TIDEI_FOLD_MIN][t] = PASTE(rows_MIN, S);
    k->rows[TIDEI_FOLD_MAX][t] = PASTE(rows_MAX, S);
    k->argstep[0][t] = PASTE(argstep_min, S);
    k->argstep[1][t] = PASTE(argstep_max, S);
    k->argpick[0][t] = PASTE(argpick_min, S);
    k->argpick[1][t] = PASTE(argpick_max, S);
#endif
}
#undef ENTRY

#undef T
#undef S
#undef U
#undef M
#undef F
#undef G
#undef PART
#undef PAIR
#undef CLASS
#undef VM_BOOL
#undef VM_FLOAT
#undef VM_COMPLEX
