/* blas.c: the way into BLAS: makes of a call fewer, larger products, or products of a routine, says
** what memory they touch, and hands them to the device's side. */
#include "libs/blas.h"

/* ---- batches ---- */

/* The batches of n operands. */
typedef struct batches {
    int *nbatch;
    int64_t *shape;
    tidei_matrix *const *all;
    int n;
} batches;

static void drop_dim(const batches *b, int at) {
    for (int i = at; i + 1 < *b->nbatch; i++) {
        b->shape[i] = b->shape[i + 1];
        for (int x = 0; x < b->n; x++) b->all[x]->batch[i] = b->all[x]->batch[i + 1];
    }
    --*b->nbatch;
}

/* Whether dimension i steps over whole runs of dimension i + 1, in all operands, so that the two
** can be merged. */
static bool continues(const batches *b, int i) {
    for (int x = 0; x < b->n; x++)
        if (b->all[x]->batch[i] != b->all[x]->batch[i + 1] * b->shape[i + 1]) return false;
    return true;
}

static void merge_dims(const batches *b) {
    for (int i = *b->nbatch - 1; i >= 0; i--)
        if (b->shape[i] == 1) drop_dim(b, i);
    for (int i = *b->nbatch - 2; i >= 0; i--) {
        if (!continues(b, i)) continue;
        b->shape[i + 1] *= b->shape[i];
        drop_dim(b, i);
    }
}

/* What an operand's matrices, rows x cols each, span. */
static tidei_use use_of(int nbatch, const int64_t *batch, const tidei_matrix *x, int64_t rows,
                        int64_t cols, tide_dtype t, unsigned mode) {
    size_t size = tide_dtype_size(t);
    int64_t stored_rows = x->trans ? cols : rows, stored_cols = x->trans ? rows : cols;
    int64_t low = x->offset, high = x->offset + (stored_rows - 1) * x->ld + stored_cols;
    for (int i = 0; i < nbatch; i++) {
        int64_t span = x->batch[i] * (batch[i] - 1);
        *(span < 0 ? &low : &high) += span;
    }
    return (tidei_use){.st = x->st,
                       .offset = (size_t)low * size,
                       .bytes = (size_t)(high - low) * size,
                       .mode = mode};
}

static bool on_cuda(const tidei_stream *s) {
    return (s->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT) != 0;
}

/* ---- products ---- */

bool tidei_gemm_takes(tidei_dev *d, tide_dtype t) {
    switch (t) {
    case TIDE_F32:
    case TIDE_F64:
    case TIDE_C64:
    case TIDE_C128: return true;
    case TIDE_F16:
    case TIDE_BF16: return (d->d->info.flags & TIDEI_DEV_RUNS_TEXT) != 0;
    default: return false;
    }
}

void tidei_gemm_simplify(tidei_gemm *g) {
    tidei_matrix *const all[] = {&g->a, &g->b, &g->c};
    merge_dims(&(batches){&g->nbatch, g->batch, all, 3});
    int last = g->nbatch - 1;
    if (last < 0 || g->b.batch[last] != 0 || g->a.trans) return;
    if (g->m == 1) { /* one row has no row stride of its own */
        if (g->a.batch[last] < g->k || g->c.batch[last] < g->n) return;
        g->a.ld = g->a.batch[last];
        g->c.ld = g->c.batch[last];
    }
    if (g->a.batch[last] != g->m * g->a.ld || g->c.batch[last] != g->m * g->c.ld) return;
    g->m *= g->batch[last];
    g->nbatch--;
}

tide_status tidei_gemm_batched(tidei_stream *s, tidei_gemm *g, const char *op) {
    tidei_check(g->m >= 1 && g->n >= 1 && g->k >= 1 && !g->c.trans &&
                tidei_gemm_takes(s->dev, g->dtype));
    g->applied = false;
    tidei_gemm_simplify(g);
    const unsigned update = TIDEI_WRITE | (tidei_is_zero(g->beta) ? 0 : TIDEI_READ);
    const tidei_use uses[3] = {use_of(g->nbatch, g->batch, &g->a, g->m, g->k, g->dtype, TIDEI_READ),
                               use_of(g->nbatch, g->batch, &g->b, g->k, g->n, g->dtype, TIDEI_READ),
                               use_of(g->nbatch, g->batch, &g->c, g->m, g->n, g->dtype, update)};
    return on_cuda(s) ? tidei_gemm_cuda(s, g, uses, op) : tidei_gemm_host(s, g, uses, op);
}

/* ---- the other routines ---- */

/* Many vectors that meet one matrix, and lie in rows: y = alpha a b + beta y for all b is Y = alpha
** B a^T + beta Y. */
static bool as_rows(const tidei_blas *x, tidei_gemm *g) {
    if (x->routine != TIDEI_GEMV || x->nbatch != 1 || x->a.batch[0] != 0) return false;
    if ((x->b.ld != 1 && x->n != 1) || (x->c.ld != 1 && x->m != 1)) return false;
    if (x->b.batch[0] < x->n || x->c.batch[0] < x->m) return false;
    *g = (tidei_gemm){
        .dtype = x->dtype, .m = x->batch[0], .n = x->m, .k = x->n, .a = x->b, .b = x->a, .c = x->c};
    g->a.ld = x->b.batch[0];
    g->b.trans = !x->a.trans;
    g->c.ld = x->c.batch[0];
    memcpy(g->alpha, x->alpha, sizeof g->alpha);
    memcpy(g->beta, x->beta, sizeof g->beta);
    return true;
}

bool tidei_blas_as_gemm(const tidei_blas *x, tidei_gemm *g) {
    if (as_rows(x, g)) return true;
    *g = (tidei_gemm){.dtype = x->dtype, .nbatch = x->nbatch, .a = x->a, .b = x->b, .c = x->c};
    memcpy(g->batch, x->batch, sizeof g->batch);
    memcpy(g->alpha, x->alpha, sizeof g->alpha);
    memcpy(g->beta, x->beta, sizeof g->beta);
    switch (x->routine) {
    case TIDEI_GEMV: g->m = x->m, g->n = 1, g->k = x->n; return true;
    case TIDEI_GER:
        g->m = x->m, g->n = x->n, g->k = 1;
        g->b.trans = true;
        g->beta[0] = 1, g->beta[1] = 0;
        return true;
    case TIDEI_DOT:
        g->m = g->n = 1, g->k = x->n;
        g->a.trans = true;
        g->a.conj = x->dtype == TIDE_C64 || x->dtype == TIDE_C128;
        g->alpha[0] = 1, g->alpha[1] = 0;
        g->beta[0] = g->beta[1] = 0;
        return true;
    default: return false;
    }
}

/* Whether the routine is better done as a product. A matrix that many vectors meet is read only
** once in a product. Otherwise single calls cost nothing in OpenBLAS, while cuBLAS has batches of
** products only; but for two long vectors a product uses a small part of the device. */
static bool goes_as_gemm(const tidei_stream *s, const tidei_blas *x, tidei_gemm *g) {
    int64_t count = 1;
    if (x->nbatch == 0) return false;
    if (!on_cuda(s)) return as_rows(x, g);
    for (int i = 0; i < x->nbatch; i++) count *= x->batch[i];
    return (x->routine != TIDEI_DOT || x->n / TIDEI_DOT_LONG < count) && tidei_blas_as_gemm(x, g);
}

static tidei_use routine_use(const tidei_blas *x, const tidei_matrix *at, int which,
                             unsigned mode) {
    tidei_extents e = tidei_blas_extents(x, which);
    tide_dtype t = x->routine == TIDEI_NRM2 && which == 1 ? tidei_real_of(x->dtype) : x->dtype;
    return use_of(x->nbatch, x->batch, at, e.rows, e.cols, t, mode);
}

tide_status tidei_blas_run(tidei_stream *s, const tidei_blas *given, const char *op) {
    tidei_blas x = *given;
    tidei_matrix *const all[] = {&x.a, &x.c, &x.b};
    tidei_gemm g;
    tidei_use uses[3];
    unsigned n = x.b.st ? 3 : 2, mode = TIDEI_READ | TIDEI_WRITE;
    bool vectors = x.routine == TIDEI_AXPY || x.routine == TIDEI_DOT || x.routine == TIDEI_NRM2;
    tidei_check((vectors || x.m >= 1) && x.n >= 1 && !x.c.trans);
    (void)vectors;
    merge_dims(&(batches){&x.nbatch, x.batch, all, (int)n});
    if (goes_as_gemm(s, &x, &g)) return tidei_gemm_batched(s, &g, op);
    if (x.routine == TIDEI_DOT || x.routine == TIDEI_NRM2 ||
        (x.routine == TIDEI_GEMV && tidei_is_zero(x.beta)))
        mode = TIDEI_WRITE;
    for (unsigned i = 0; i < n; i++)
        uses[i] = routine_use(&x, all[i], (int)i, i == 1 ? mode : TIDEI_READ);
    return on_cuda(s) ? tidei_blas_cuda(s, &x, uses, n, op) : tidei_blas_host(s, &x, uses, n, op);
}
