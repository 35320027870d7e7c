/* cuda_programs.h: programs that tests of generated CUDA text share, and their text as kernels of
** an emulated module. */
#ifndef CUDA_PROGRAMS_H
#define CUDA_PROGRAMS_H

#include "arrays/expr/cuda_pairs.h"
#include "arrays/expr/cuda_text.h"
#include "tests/doubles/emulate.h"
#include "tests/arrays/expr/programs.h"

/* The text of a class, of pairs for inputs on such sides. */
static inline unsigned add_kernel(emu_module *m, const tidei_program *p, tidei_cuda_class cls,
                                  uint32_t sides) {
    tidei_cuda_traits k;
    size_t body;
    tidei_cuda_traits_of(p, &k);
    char *text = cls == TIDEI_CUDA_FOLD_PAIRS ? tidei_cuda_pairs_text(NULL, p, &k, sides, &body)
                                              : tidei_cuda_text(NULL, p, &k, cls, &body);
    assert_non_null(text);
    unsigned number = emu_add(m, text, body);
    tidei_host_free(NULL, text);
    return number;
}

/* Maps of several types and results. */
static inline void build_maps(tidei_program p[6]) {
    memset(p, 0, 6 * sizeof *p);
    uint16_t a = input(&p[0], TIDE_F32), b = input(&p[0], TIDE_F32), c = input(&p[0], TIDE_F32);
    result(&p[0],
           node(&p[0], TIDEI_OP_ADD, TIDE_F32, node(&p[0], TIDEI_OP_MUL, TIDE_F32, a, b, 0), c, 0));
    result(&p[0], node(&p[0], TIDEI_OP_LT, TIDE_BOOL, a, b, 0));
    result(&p[1], cast(&p[1], TIDE_F64, input(&p[1], TIDE_U8)));
    a = input(&p[2], TIDE_I64);
    result(&p[2], node(&p[2], TIDEI_OP_ADD, TIDE_I64, a,
                       node(&p[2], TIDEI_OP_LINEAR, TIDE_I64, 0, 0, 0), 0));
    a = input(&p[3], TIDE_F16);
    result(&p[3], node(&p[3], TIDEI_OP_ADD, TIDE_F16, a, scalar(&p[3], TIDE_F16), 0));
    a = input(&p[4], TIDE_BOOL);
    b = input(&p[4], TIDE_C64);
    c = scalar(&p[4], TIDE_C128);
    result(&p[4], node(&p[4], TIDEI_OP_WHERE, TIDE_C128, a, cast(&p[4], TIDE_C128, b), c));
    result(&p[4], b);
    result(&p[5], input(&p[5], TIDE_I8)); /* a copy */
}

#endif
