/* blas_operands.c: what both sides of BLAS ask of a call's operands: how large each is, and where
** those of the next index of a batch lie. */
#include "libs/blas.h"

bool tidei_batch_next(int nbatch, const int64_t *batch, int64_t *index,
                      const tidei_matrix *const *x, int n, int64_t *at) {
    for (int i = nbatch - 1; i >= 0; i--) {
        bool more = ++index[i] < batch[i];
        for (int k = 0; k < n; k++)
            at[k] += more ? x[k]->batch[i] : x[k]->batch[i] * (1 - batch[i]);
        if (more) return true;
        index[i] = 0;
    }
    return false;
}

tidei_extents tidei_blas_extents(const tidei_blas *x, int which) {
    enum { A, C, B };
    const tidei_extents m_by_n = {x->m, x->n}, m_by_1 = {x->m, 1}, n_by_1 = {x->n, 1}, one = {1, 1};
    switch (x->routine) {
    case TIDEI_GEMV: return which == A ? m_by_n : which == C ? m_by_1 : n_by_1;
    case TIDEI_GER: return which == A ? m_by_1 : which == C ? m_by_n : n_by_1;
    case TIDEI_AXPY: return n_by_1;
    case TIDEI_TRSM: return which == A ? (tidei_extents){x->m, x->m} : m_by_n;
    default: return which == C ? one : n_by_1;
    }
}
