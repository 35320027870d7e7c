/* matrices.h: operands as matrices: the last two axes, or the last one alone for vectors; what lies
** before them is a batch. What a BLAS can read as it lies, and a copy of what it cannot. */
#ifndef TIDEI_MATRICES_H
#define TIDEI_MATRICES_H

#include "arrays/operand.h"

/* How BLAS would read a matrix with these strides: rows without gaps, or columns without gaps
** (`trans`), `ld` apart. A vector is a matrix of one column, whose `ld` is its step. False: not as
** it is. */
bool tidei_as_stored(int64_t rows, int64_t cols, int64_t row, int64_t col, bool *trans,
                     int64_t *ld);
/* A layout without its last `core` axes. */
tidei_layout tidei_batch_of(const tidei_layout *l, int core);
/* Broadcasts these axes into a batch. Most matrices have none, which changes nothing. */
tide_status tidei_batch_join(const tidei_layout *l, int core, int *nbatch, int64_t *batch,
                             const char *op);
/* Its strides along a batch that it was joined into. */
void tidei_batch_strides(const tidei_layout *l, int core, int nbatch, const int64_t *batch,
                         int64_t *strides);
/* A row-major copy of the elements in type t. Dimensions of the batch, all but the last `core`,
** that only repeat are not copied out, and have length 1. To be put. */
tide_status tidei_matrices_copy(const tidei_operand *o, int core, tide_dtype t, const char *op,
                                tidei_operand *out);

/* An operand as a routine is to have it: the caller's, which stays as long, or a copy. */
typedef struct tidei_readied {
    const tidei_operand *o;
    tidei_operand copy; /* where that is what `o` points to */
} tidei_readied;
/* The operand itself where it `will_do`, else tidei_matrices_copy's. On success to be put. */
tide_status tidei_ready(const tidei_operand *o, bool will_do, int core, tide_dtype t,
                        const char *op, tidei_readied *out);
static inline void tidei_readied_put(tidei_readied *x) {
    if (x->o == &x->copy) tidei_operand_put(&x->copy);
}

/* The type that linear algebra of n operands computes in: the common one of those that are floats
** or complex, f64 where none is. f16 and bf16 are TIDE_E_DTYPE. */
tide_status tidei_linalg_type(const tidei_operand *x, int n, const char *op, tide_dtype *out);

#endif
