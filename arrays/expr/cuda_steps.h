/* cuda_steps.h: folds over several dimensions that do not merge, in two steps: which dimension is
** folded first, and the programs and calls of both steps. cuda_run.c runs them. */
#ifndef TIDEI_CUDA_STEPS_H
#define TIDEI_CUDA_STEPS_H

#include "arrays/expr/cuda_text.h"

/* Which dimension of a call that tidei_cuda_order has been through the first step folds. */
typedef struct tidei_steps {
    int dim;
    int64_t partial; /* accumulators that the first step leaves */
    int64_t count;   /* elements of a result */
} tidei_steps;

/* Whether a fold goes faster in two steps. */
bool tidei_steps_find(const tidei_call *c, const tidei_cuda_traits *k, tidei_steps *out);
/* The programs: the first leaves accumulators as they are, the second folds these. Where the fold
** is a mean, the first is a sum, and the second's divisor is `count`, which its caller sees to. */
void tidei_steps_programs(const tidei_program *p, tidei_program *first, tidei_program *second);
/* The calls but for their programs and the accumulators' storage, in which these begin at 0. */
void tidei_steps_calls(const tidei_call *c, const tidei_steps *s, tidei_call *first,
                       tidei_call *second);

#endif
