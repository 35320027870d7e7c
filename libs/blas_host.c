/* blas_host.c: matrix products by OpenBLAS, in a function that the host device's stream runs. */
#include "libs/blas.h"

#include <cblas.h>
#include <limits.h>

/* OpenBLAS counts in int: larger products are done in pieces of this many rows, columns, and
** terms. */
#define PIECE ((int64_t)1 << 30)

/* The call as the stream runs it: with addresses instead of storages. */
typedef struct call {
    tidei_gemm g;
    const char *a, *b;
    char *c;
} call;

static CBLAS_TRANSPOSE operation(const tidei_matrix *x) {
    return !x->trans ? CblasNoTrans : x->conj ? CblasConjTrans : CblasTrans;
}

/* One product of a piece. */
static void product(const tidei_gemm *g, const void *a, const void *b, void *c, int m, int n, int k,
                    const double beta[2]) {
    CBLAS_TRANSPOSE ta = operation(&g->a), tb = operation(&g->b);
    int lda = (int)g->a.ld, ldb = (int)g->b.ld, ldc = (int)g->c.ld;
    tidei_factor p = tidei_factor_of(g->alpha, g->dtype), q = tidei_factor_of(beta, g->dtype);
    switch (g->dtype) {
    case TIDE_F32:
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, p.f[0], a, lda, b, ldb, q.f[0], c, ldc);
        break;
    case TIDE_F64:
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, p.d[0], a, lda, b, ldb, q.d[0], c, ldc);
        break;
    case TIDE_C64:
        cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &p, a, lda, b, ldb, &q, c, ldc);
        break;
    default: cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &p, a, lda, b, ldb, &q, c, ldc);
    }
}

static int piece(int64_t whole, int64_t at) {
    return (int)(whole - at < PIECE ? whole - at : PIECE);
}

static void one_matrix(const tidei_gemm *g, const char *a, const char *b, char *c) {
    static const double one[2] = {1, 0}; /* the pieces of a sum add up */
    int64_t size = (int64_t)tide_dtype_size(g->dtype);
    int64_t a_row = g->a.trans ? 1 : g->a.ld, a_col = g->a.trans ? g->a.ld : 1;
    int64_t b_row = g->b.trans ? 1 : g->b.ld, b_col = g->b.trans ? g->b.ld : 1;
    for (int64_t i = 0; i < g->m; i += PIECE)
        for (int64_t j = 0; j < g->n; j += PIECE)
            for (int64_t p = 0; p < g->k; p += PIECE)
                product(g, a + (i * a_row + p * a_col) * size, b + (p * b_row + j * b_col) * size,
                        c + (i * g->c.ld + j) * size, piece(g->m, i), piece(g->n, j),
                        piece(g->k, p), p == 0 ? g->beta : one);
}

static void run(const void *params) {
    const call *x = params;
    const tidei_gemm *g = &x->g;
    const tidei_matrix *const all[] = {&g->a, &g->b, &g->c};
    int64_t size = (int64_t)tide_dtype_size(g->dtype), index[TIDE_MAX_RANK] = {0}, at[3] = {0};
    do one_matrix(g, x->a + at[0] * size, x->b + at[1] * size, x->c + at[2] * size);
    while (tidei_batch_next(g->nbatch, g->batch, index, all, 3, at));
}

/* Where the first element lies, from the lowest that is touched on: with negative strides that is
** another. */
static void *first_of(const tidei_matrix *x, const tidei_use *use, size_t size) {
    return (void *)((size_t)x->offset * size - use->offset);
}

/* Makes `ld` fit an int. A single row or column does not use its stride between rows, which may be
** any number, also one beyond int. */
static bool fit_ld(tidei_matrix *x, int64_t rows, int64_t cols) {
    int64_t stored_rows = x->trans ? cols : rows, stored_cols = x->trans ? rows : cols;
    if (stored_rows == 1) x->ld = stored_cols < PIECE ? stored_cols : PIECE;
    return x->ld <= INT_MAX;
}

_Static_assert(sizeof(call) <= TIDEI_PARAMS_MAX, "the parameters of a launch are bounded");

tide_status tidei_gemm_host(tidei_stream *s, const tidei_gemm *g, const tidei_use uses[3],
                            const char *op) {
    static const size_t at[] = {offsetof(call, a), offsetof(call, b), offsetof(call, c)};
    const size_t size = tide_dtype_size(g->dtype);
    call x = {.g = *g,
              .a = first_of(&g->a, &uses[0], size),
              .b = first_of(&g->b, &uses[1], size),
              .c = first_of(&g->c, &uses[2], size)};
    if (!fit_ld(&x.g.a, g->m, g->k) || !fit_ld(&x.g.b, g->k, g->n) || !fit_ld(&x.g.c, g->m, g->n))
        return tidei_fail(TIDE_E_UNSUPPORTED, op, "OpenBLAS takes rows of less than 2^31 elements");
    tidei_launch l = {.name = "gemm", .host_fn = run, .params = &x, .params_bytes = sizeof x};
    return tidei_submit_launch(s, uses, 3, &l, &x, at, op);
}
