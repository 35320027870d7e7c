/* blas.h: matrix products of tracked memory: OpenBLAS on devices that run host functions, cuBLAS on cuda. */
#ifndef TIDEI_BLAS_H
#define TIDEI_BLAS_H

#include "libs/libs.h"

/* Matrices of one operand, row-major, one for each index of the batch. Strides and offset in elements. */
typedef struct tidei_matrix {
    tidei_storage *st;
    int64_t offset;               /* of the first element of the first matrix */
    int64_t ld;                   /* from a row to the next, as stored */
    bool trans;                   /* stored transposed */
    int64_t batch[TIDE_MAX_RANK]; /* from a matrix to the next along each batch dimension; 0 repeats it */
} tidei_matrix;

/* c = alpha * a b + beta * c for every index of the batch: a is m x k, b is k x n, c is m x n and not transposed. ld is at
** least the stored row's length. m, n, k and the batch's dimensions are >= 1. Matrices of c overlap nothing. */
typedef struct tidei_gemm {
    tide_dtype dtype; /* one that tidei_gemm_takes */
    int64_t m, n, k;
    int nbatch;
    int64_t batch[TIDE_MAX_RANK];
    double alpha, beta;
    tidei_matrix a, b, c;
} tidei_gemm;

/* f32, f64, c64, c128 everywhere; f16 and bf16 (accumulated in f32) on cuda. */
bool tidei_gemm_takes(tidei_dev *d, tide_dtype t);

/* Submits the products to s. May allocate a workspace and climb. TIDE_E_UNSUPPORTED where the device's library is not
** installed, saying which and how to get it. */
tide_status tidei_gemm_batched(tide_stream *s, const tidei_gemm *g, const char *op);

/* Between the two the reclaim ladder leaves one handle of the library's on d alone: a product is under way that needs it, so
** what letting go of it gave would be wanted back at once. */
void tidei_gemm_begin(tidei_dev *d);
void tidei_gemm_end(tidei_dev *d);

/* Merges dimensions of the batch that lie one after the other, and drops those of length 1; rows of matrices that meet one
** b become one tall matrix. The products stay the same. */
void tidei_gemm_simplify(tidei_gemm *g);
/* The extent that a's, b's or c's matrices (rows x cols as stored) span: offset of the lowest element, and how many. */
void tidei_matrix_extent(const tidei_gemm *g, const tidei_matrix *x, int64_t rows, int64_t cols, int64_t *lo,
                         int64_t *n);

/* ---- the two sides (blas_host.c, blas_cuda.c) ---- */
tide_status tidei_gemm_host(tide_stream *s, const tidei_gemm *g, const tidei_use uses[3], const char *op);
tide_status tidei_gemm_cuda(tide_stream *s, const tidei_gemm *g, const tidei_use uses[3], const char *op);

#endif
