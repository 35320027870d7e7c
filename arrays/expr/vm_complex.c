/* vm_complex.c: the interpreter's loops over complex numbers, the same for every instruction set.
**
** Compiled without vectorisation: gcc 12 turns vectors of products that are added and subtracted in
** turn into fused multiply-adds even under -ffp-contract=off, and results would differ between
** machines. */
#include "arrays/expr/vm_common.h"

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

void tidei_vm_kernels_complex(tidei_vm_kernels *k) {
    enlist_c64(k, TIDE_C64);
    enlist_c128(k, TIDE_C128);
}
