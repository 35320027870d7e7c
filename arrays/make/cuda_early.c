/* cuda_early.c: a range, and what joins the partial sums of floats that blocks leave: the same
** kernel for all sums of whatever is computed on the way.
** What must stay true: the texts are those that the first such call asks for. */
#include "arrays/make/cuda_early.h"
#include "arrays/expr/cuda_text.h"

static char *text_of(const tidei_program *p, tidei_cuda_class cls) {
    tidei_cuda_traits k;
    tidei_cuda_traits_of(p, &k);
    return tidei_cuda_text(NULL, p, &k, cls, NULL);
}

static char *range_text(void) {
    tidei_program p;
    tidei_arange_program(TIDE_F32, TIDE_F64, false, &p);
    return text_of(&p, TIDEI_CUDA_FLAT);
}

static char *join_text(void) {
    tidei_program p = {.ninputs = 1,
                       .input_dtype = {TIDE_F32},
                       .nnodes = 1,
                       .nodes = {{.op = TIDEI_OP_INPUT, .dtype = TIDE_F32}},
                       .fold = TIDEI_FOLD_SUM,
                       .acc_dtype = TIDE_F32,
                       .nouts = 1,
                       .out_dtype = {TIDE_F32}};
    return text_of(&p, TIDEI_CUDA_FOLD_JOIN);
}

static char *early_text(unsigned i) {
    static char *(*const texts[])(void) = {range_text, join_text};
    return i < TIDEI_COUNT(texts) ? texts[i]() : NULL;
}

tidei_early tidei_early_kernels(void) {
    return (tidei_early){.name = "tide_k", .text = early_text};
}
