/* solver_cuda.h: the ways of cuSOLVER and cuBLAS to do a routine, between solver_cuda.c (what
** stands around a call) and those that know the ways: solver_each.c (one matrix after the other)
** and solver_batched.c (small ones, many in one call).
**
** Model. A way says what it can serve, what memory it wants, and queues the work. Most are
** cuSOLVER's; some are cuBLAS's, which has batches of its own; and one needs both, as two ways in
** turn. */
#ifndef TIDEI_SOLVER_CUDA_H
#define TIDEI_SOLVER_CUDA_H

#include "libs/cusolver.h"
#include "libs/solver.h"

/* Addresses on the device: one matrix of each operand (NULL where there is none). */
typedef struct tidei_lapack_at {
    void *a, *b, *c, *d;
    int *info; /* never NULL in a run */
} tidei_lapack_at;

/* The arguments of a way. */
typedef struct tidei_lapack_call {
    const tidei_lapack *x;
    const tidei_cusolver_table *solver;
    const tidei_cublas_table *blas;
    tidei_stream *s;
    void *handle;                 /* of the way's library */
    tidei_cusolver_params params; /* NULL for cuBLAS */
    tidei_cuda_data_type type, real;
    size_t work_bytes, host_bytes; /* `sizes` writes them; in a run they are what there is */
    /* of the batch. In a question they are what they were a moment ago */
    tidei_lapack_at first;
    void *work, *host, *scratch; /* set in a run alone, like the next ones */
    bool one_info;               /* all matrices share one info, which nobody reads */
    /* our own failure, with its message set; the way then returns 0 */
    tide_status failed;
} tidei_lapack_call;

typedef struct tidei_lapack_way {
    bool by_cublas;
    bool (*takes)(const tidei_lapack *x, const tidei_cusolver_table *t); /* NULL: all */
    size_t (*scratch)(
        /* (may be NULL) bytes of ours on the device, for this way and the next */
        const tidei_lapack *x);
    unsigned (*sizes)(tidei_lapack_call *c); /* (may be NULL) what the library wants */
    unsigned (*one)(const tidei_lapack_call *c, const tidei_lapack_at *m); /* queues one matrix, */
    unsigned (*all)(tidei_lapack_call *c);                                 /* or all of them */
    /* (may be NULL) the rest of the work; it can be repeated */
    const struct tidei_lapack_way *then;
} tidei_lapack_way;

/* The way that serves any matrices of a routine, one after the other. */
extern const tidei_lapack_way tidei_lapack_each[TIDEI_LAPACK_ROUTINES];
/* The ways for small matrices of a routine, ended by NULL; the first that takes x serves it. */
extern const tidei_lapack_way *const tidei_lapack_batched[TIDEI_LAPACK_ROUTINES][3];

/* the i-th matrix of each operand */
tidei_lapack_at tidei_lapack_nth(const tidei_lapack_call *c, int64_t i);
static inline tidei_cublas_fill tidei_lapack_fill(const tidei_lapack *x) {
    return x->upper ? TIDEI_CUBLAS_FILL_UPPER : TIDEI_CUBLAS_FILL_LOWER;
}

#endif
