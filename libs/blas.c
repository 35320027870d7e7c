/* blas.c: what both sides of a matrix product share: fewer, larger products, and what memory they touch. */
#include "libs/blas.h"

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

static void drop_batch_dim(tidei_gemm *g, int at) {
    tidei_matrix *const all[] = {&g->a, &g->b, &g->c};
    for (int i = at; i + 1 < g->nbatch; i++) {
        g->batch[i] = g->batch[i + 1];
        for (int x = 0; x < 3; x++) all[x]->batch[i] = all[x]->batch[i + 1];
    }
    g->nbatch--;
}

/* Dimension i goes over whole rows of dimension i + 1. */
static bool continues(const tidei_matrix *x, int i, int64_t inner) {
    return x->batch[i] == x->batch[i + 1] * inner;
}

void tidei_gemm_simplify(tidei_gemm *g) {
    for (int i = g->nbatch - 1; i >= 0; i--)
        if (g->batch[i] == 1) drop_batch_dim(g, i);
    for (int i = g->nbatch - 2; i >= 0; i--) {
        int64_t inner = g->batch[i + 1];
        if (!continues(&g->a, i, inner) || !continues(&g->b, i, inner) || !continues(&g->c, i, inner)) continue;
        g->batch[i + 1] *= g->batch[i];
        drop_batch_dim(g, i);
    }
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

void tidei_matrix_extent(const tidei_gemm *g, const tidei_matrix *x, int64_t rows, int64_t cols, int64_t *lo,
                         int64_t *n) {
    int64_t low = x->offset, high = x->offset + (rows - 1) * x->ld + cols;
    for (int i = 0; i < g->nbatch; i++) {
        int64_t span = x->batch[i] * (g->batch[i] - 1);
        if (span < 0)
            low += span;
        else
            high += span;
    }
    *lo = low;
    *n = high - low;
}

static tidei_use use_of(const tidei_gemm *g, const tidei_matrix *x, int64_t rows, int64_t cols, unsigned mode) {
    int64_t lo, n;
    size_t size = tide_dtype_size(g->dtype);
    tidei_matrix_extent(g, x, x->trans ? cols : rows, x->trans ? rows : cols, &lo, &n);
    return (tidei_use){.st = x->st, .offset = (size_t)lo * size, .bytes = (size_t)n * size, .mode = mode};
}

tide_status tidei_gemm_batched(tide_stream *s, const tidei_gemm *given, const char *op) {
    tidei_gemm g = *given;
    tidei_check(g.m >= 1 && g.n >= 1 && g.k >= 1 && !g.c.trans && tidei_gemm_takes(s->dev, g.dtype));
    tidei_gemm_simplify(&g);
    const tidei_use uses[3] = {use_of(&g, &g.a, g.m, g.k, TIDEI_READ), use_of(&g, &g.b, g.k, g.n, TIDEI_READ),
                               use_of(&g, &g.c, g.m, g.n, TIDEI_WRITE | (g.beta != 0 ? TIDEI_READ : 0))};
    bool cuda = (s->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT) != 0;
    return cuda ? tidei_gemm_cuda(s, &g, uses, op) : tidei_gemm_host(s, &g, uses, op);
}
