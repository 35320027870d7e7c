/* vm_complex.c: the interpreter's loops over complex numbers. Compiled once for each instruction
** set that has no fused multiply-adds, with VM_SET its name: gcc 12 turns vectors of products that
** are added and subtracted in turn into such even under -ffp-contract=off, and results would differ
** between machines. */
#include "arrays/expr/vm_common.h"

#ifdef TD_FUSES
#error "an instruction set with fused multiply-adds"
#endif

#define T                     td_c64
#define S                     c64
#define PART                  td_f32
#define CLASS(be, ie, fe, ce) ce
#define VM_COMPLEX
#include "arrays/expr/vm_loops.h"
#define T                     td_c128
#define S                     c128
#define PART                  td_f64
#define CLASS(be, ie, fe, ce) ce
#define VM_COMPLEX
#include "arrays/expr/vm_loops.h"

/* The modulus in vectors: td_modulus of all, but where a square is too large or too small for it,
** which is seen afterwards. */
enum { AT_ONCE = 64 };
#define MODULUS(Z, R, LEAST, MOST)                                                                 \
    static void modulus_##Z(void *pd, const void *pa, const void *pb, const void *pc, size_t n) {  \
        const td_##Z *a = pa;                                                                      \
        (void)pb;                                                                                  \
        (void)pc;                                                                                  \
        for (size_t done = 0, m; done < n; done += m, a += m) {                                    \
            double square[AT_ONCE];                                                                \
            td_##R r[AT_ONCE];                                                                     \
            int far = 0;                                                                           \
            m = n - done < AT_ONCE ? n - done : AT_ONCE;                                           \
            LOOP(m) square[i] = (double)a[i].re * a[i].re + (double)a[i].im * a[i].im;             \
            LOOP(m) r[i] = (td_##R)__builtin_sqrt(square[i]);                                      \
            for (size_t i = 0; i < m; i++) far |= !(square[i] > LEAST && square[i] < MOST);        \
            for (size_t i = 0; far && i < m; i++) r[i] = td_modulus_##R(a[i].re, a[i].im);         \
            memcpy((td_##R *)pd + done, r, m * sizeof *r);                                         \
        }                                                                                          \
    }
MODULUS(c64, f32, -1, 0x1p250)
MODULUS(c128, f64, 0x1p-960, 0x1p1000)

void PASTE(tidei_vm_kernels_complex, VM_SET)(tidei_vm_kernels *k) {
    enlist_c64(k, TIDE_C64);
    enlist_c128(k, TIDE_C128);
    k->op[TIDEI_OP_ABS][TIDE_C64] = modulus_c64;
    k->op[TIDEI_OP_ABS][TIDE_C128] = modulus_c128;
}
