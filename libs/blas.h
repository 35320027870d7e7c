/* blas.h: BLAS on tracked memory: OpenBLAS on devices that run host functions, cuBLAS on cuda.
** Products (tidei_gemm) and the other routines (tidei_blas): descriptors that both sides take.
** Their operands lie so that a BLAS can read them. */
#ifndef TIDEI_BLAS_H
#define TIDEI_BLAS_H

#include "libs/libs.h"
#include "runtime/base/dtype.h"

/* Matrices of one operand, row-major, one for each index of the batch. Strides and offset in
** elements. */
typedef struct tidei_matrix {
    tidei_storage *st;
    int64_t offset; /* the offset of the first element of the first matrix */
    int64_t ld;     /* from a row to the next, as stored */
    bool trans;     /* stored transposed */
    /* (a product's a and b, with `trans`) elements are conjugated too */
    bool conj;
    /* from a matrix to the next along each batch dimension; 0 repeats it */
    int64_t batch[TIDE_MAX_RANK];
} tidei_matrix;

/* What follows a product: nothing; a vector added to each row; and then an activation. */
typedef enum {
    TIDEI_EPILOGUE_NONE,
    TIDEI_EPILOGUE_BIAS,
    TIDEI_EPILOGUE_RELU,
    TIDEI_EPILOGUE_GELU
} tidei_epilogue;

/* c = alpha * a b + beta * c for every index of the batch: a is m x k, b is k x n, c is m x n and
** not transposed. ld is at least the stored row's length. m, n, k and the batch's dimensions are >=
** 1. Matrices of c overlap nothing. */
typedef struct tidei_gemm {
    tide_dtype dtype; /* one that tidei_gemm_takes */
    int precision;    /* TIDEI_PRECISION_*: of f32 and c64 on cuda */
    int64_t m, n, k;
    int nbatch;
    int64_t batch[TIDE_MAX_RANK];
    double alpha[2], beta[2]; /* the imaginary parts are 0 where the elements have none */
    tidei_matrix a, b, c;
    /* what is to follow, with the n elements of the bias, one behind the other; and whether it
    ** did: where not, it is for the caller to do. NONE needs no bias */
    tidei_epilogue epilogue;
    tidei_storage *bias;
    int64_t bias_offset;
    bool applied;
} tidei_gemm;

/* f32, f64, c64, c128 everywhere; f16 and bf16 (accumulated in f32) on cuda. */
bool tidei_gemm_takes(tidei_dev *d, tide_dtype t);

/* Submits the products to s, between tidei_gemm_begin and end; g is simplified on the way. May
** allocate a workspace and climb. TIDE_E_UNSUPPORTED where the device's library is not installed,
** saying which and how to get it. */
tide_status tidei_gemm_batched(tidei_stream *s, tidei_gemm *g, const char *op);

/* Between the two the reclaim ladder does not take the last handle of the library on d: a product
** is under way that needs it, so its memory would be needed again at once. */
void tidei_gemm_begin(tidei_dev *d);
void tidei_gemm_end(tidei_dev *d);

/* Merges dimensions of the batch that lie one after the other, and drops those of length 1; rows of
** matrices that meet one b become one tall matrix. The products stay the same. */
void tidei_gemm_simplify(tidei_gemm *g);

/* ---- the other routines ---- */

/* A vector is a matrix of one column: ld is the step from an element to the next, >= 1. All sizes
** >= 1; c is not transposed, and what c's of different indices of the batch touch is apart.
**          sizes   a                 b            c
** GEMV     m, n    in: m x n         in: n        y = alpha a b + beta y: m
** GER      m, n    in: m             in: n        += alpha a b^T: m x n
** AXPY     n       in: n             unused       += alpha a: n
** DOT      n       in: n             in: n        out: sum(conj(a) b), one element
** NRM2     n       in: n             unused       out: one element, of the real type
** TRSM     m, n    in: m x m, of     unused       in: B, out: X with a X = B: m x n
**                  which `upper`'s triangle is read, and not its diagonal with `unit` */
typedef enum {
    TIDEI_GEMV,
    TIDEI_GER,
    TIDEI_AXPY,
    TIDEI_DOT,
    TIDEI_NRM2,
    TIDEI_TRSM
} tidei_blas_routine;

typedef struct tidei_blas {
    tidei_blas_routine routine;
    tide_dtype dtype; /* f32, f64, c64, c128 */
    int64_t m, n;
    int nbatch;
    int64_t batch[TIDE_MAX_RANK];
    double alpha[2], beta[2];
    bool upper, unit;
    tidei_matrix a, b, c; /* b.st NULL where it is unused */
    /* (TRSM; may be NULL: B need not survive) Writes B anew, as work on the stream: a library that
    ** ran out of memory half way has spoiled it, and is called again. No submission is open. */
    tide_status (*again)(void *arg);
    void *again_arg;
} tidei_blas;

/* cuBLAS's dot products of many vectors are one call of products, which gives each pair one block
** of threads: DOT is not done so where a pair has this many terms or more. An estimate: a block
** reads about 20 GB/s, a call of its own costs 5 us. */
#define TIDEI_DOT_LONG 8192

/* Submits the routine to s, for every index of the batch. As tidei_gemm_batched; routines that
** never become a product (AXPY, NRM2, TRSM) need not be called between begin and end. */
tide_status tidei_blas_run(tidei_stream *s, const tidei_blas *x, const char *op);
/* Expresses the routine as products where that is possible (GEMV, GER, DOT), for sides that have
** batches of products only. */
bool tidei_blas_as_gemm(const tidei_blas *x, tidei_gemm *g);

/* ---- for the sides (blas_operands.c) ---- */

/* The size of an operand's matrix: x->a, x->c, x->b for `which` 0, 1, 2, the order of uses. */
typedef struct tidei_extents {
    int64_t rows, cols; /* without `trans`, not as stored */
} tidei_extents;
tidei_extents tidei_blas_extents(const tidei_blas *x, int which);

/* A factor in the type that BLAS computes in, as it is read by address. */
typedef union tidei_factor {
    float f[2];
    double d[2];
} tidei_factor;
static inline tidei_factor tidei_factor_of(const double v[2], tide_dtype t) {
    tidei_factor x = {.d = {v[0], v[1]}};
    if (t != TIDE_F64 && t != TIDE_C128) x = (tidei_factor){.f = {(float)v[0], (float)v[1]}};
    return x;
}
static inline bool tidei_is_zero(const double v[2]) { return v[0] == 0 && v[1] == 0; }

/* The next index of a batch, the last dimension fastest: at[i], an offset in elements, moves along
** x[i]. Begin with all indices zero; false: that was the last one, and all indices are zero
** again. */
bool tidei_batch_next(int nbatch, const int64_t *batch, int64_t *index,
                      const tidei_matrix *const *x, int n, int64_t *at);

/* ---- the two sides (blas_host.c, blas_cuda.c, routines_host.c, routines_cuda.c) ---- uses: of a,
** c, b, those that there are, in tidei_blas's; of a, b, c in tidei_gemm's, which stands between
** tidei_gemm_begin and end. */
tide_status tidei_gemm_host(tidei_stream *s, const tidei_gemm *g, const tidei_use uses[3],
                            const char *op);
tide_status tidei_gemm_cuda(tidei_stream *s, tidei_gemm *g, const tidei_use uses[3],
                            const char *op);
tide_status tidei_blas_host(tidei_stream *s, const tidei_blas *x, const tidei_use *uses, unsigned n,
                            const char *op);
tide_status tidei_blas_cuda(tidei_stream *s, const tidei_blas *x, const tidei_use *uses, unsigned n,
                            const char *op);
/* How a product computes, by cuBLAS's numbers. */
unsigned int tidei_cublas_compute_of(const tidei_gemm *g);
/* One product by cuBLASLt (blas_lt.c), with what follows it, in the workspace (0, 0: in none), as
** work on the native stream; addresses of first elements. Its status, or that of asking it;
** TIDEI_CUBLAS_NOT_SUPPORTED: it has no kernel for that, and nothing was queued. */
typedef struct tidei_lt_call {
    tidei_addr a, b, c, bias, workspace;
    size_t workspace_bytes;
    void *stream;
} tidei_lt_call;
struct tidei_cublas_table;
unsigned int tidei_lt_product(tidei_dev *d, const struct tidei_cublas_table *t, void *handle,
                              const tidei_gemm *g, const tidei_lt_call *x);
/* Whether it has a kernel for that, where addresses are aligned as these; asks the library where
** nobody did before. */
unsigned int tidei_lt_serves(tidei_dev *d, const struct tidei_cublas_table *t, void *handle,
                             const tidei_gemm *g, const tidei_lt_call *x, bool *serves);
/* Which kernels it chose; in rt->libs. */
struct tidei_lt_known;
tide_status tidei_lt_open(tidei_runtime *rt, struct tidei_lt_known **out);
void tidei_lt_close(tidei_runtime *rt, struct tidei_lt_known *k); /* NULL is legal */
/* A workspace for a call of cuBLAS whose results take so many bytes. */
tide_status tidei_cublas_workspace(tidei_stream *s, double results, const char *op,
                                   tidei_storage **out);

#endif
