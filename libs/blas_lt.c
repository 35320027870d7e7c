/* blas_lt.c: single products by cuBLASLt: those that something follows in the same kernel, and
** small ones, for which cuBLAS takes longer to choose a kernel than the kernel takes.
**
** Model. A problem is all that the choice of a kernel depends on: sizes, how the matrices lie, how
** their addresses are aligned, what follows, how much workspace there is. cuBLASLt is asked once;
** its answer, also that it has none, is kept in a table of few places by the problem's hash, where
** a new one takes the place of one that was kept longer. The table is the runtime's, of all its
** devices, under a lock that is held for a copy of it.
** What must stay true: the same problem gets the same kernel while the table knows it, and cuBLASLt
** answers the same when it is asked again; so results repeat. */
#include "libs/blas.h"
#include "libs/cublas.h"

#include <xxhash.h>

#define SETS    32 /* a program has tens of problems, more where sizes change with its data */
#define WAYS    4
#define ALIGNED 256 /* bytes; more makes no difference to cuBLASLt */

/* Without gaps: compared and hashed as bytes. */
typedef struct problem {
    int64_t m, n, k, lda, ldb, ldc;
    uint64_t workspace;
    uint32_t device, type, compute;
    uint16_t a_align, b_align, c_align, bias_align;
    uint8_t ta, tb, epilogue, unused;
} problem;
_Static_assert(sizeof(problem) == 7 * 8 + 3 * 4 + 4 * 2 + 4, "no gaps");

typedef struct known {
    problem p;
    bool there, serves; /* serves: cuBLASLt has a kernel for it */
    tidei_cublaslt_algo algo;
} known;

typedef struct tidei_lt_known {
    pthread_mutex_t lock;
    unsigned next[SETS]; /* the way that goes next */
    known at[SETS][WAYS];
} tidei_lt_known;

tide_status tidei_lt_open(tidei_runtime *rt, tidei_lt_known **out) {
    tidei_lt_known *k = tidei_host_alloc(rt, sizeof *k);
    if (!k) return tidei_fail_host_memory("tide_open", sizeof *k);
    pthread_mutex_init(&k->lock, NULL);
    return *out = k, TIDE_OK;
}

void tidei_lt_close(tidei_runtime *rt, tidei_lt_known *k) {
    if (!k) return;
    pthread_mutex_destroy(&k->lock);
    tidei_host_free(rt, k);
}

/* ---- what is known ---- */

static known *set_of(tidei_lt_known *all, const problem *p, unsigned *set) {
    *set = (unsigned)(XXH3_64bits(p, sizeof *p) % SETS);
    return all->at[*set];
}

static bool find(tidei_lt_known *all, const problem *p, known *out) {
    unsigned set;
    known *ways = set_of(all, p, &set);
    bool found = false;
    pthread_mutex_lock(&all->lock);
    for (unsigned i = 0; i < WAYS && !found; i++)
        if (ways[i].there && !memcmp(&ways[i].p, p, sizeof *p)) {
            *out = ways[i];
            found = true;
        }
    pthread_mutex_unlock(&all->lock);
    return found;
}

static void keep(tidei_lt_known *all, const known *x) {
    unsigned set;
    known *ways = set_of(all, &x->p, &set);
    pthread_mutex_lock(&all->lock);
    ways[all->next[set]++ % WAYS] = *x;
    pthread_mutex_unlock(&all->lock);
}

/* ---- a problem in cuBLASLt's words ---- cuBLAS counts by columns: our rows are its columns, so
** the product is b' a' = c', and the bias, one element for each of our columns, is one for each of
** its rows. */

static uint16_t align_of(tidei_addr x) { return (uint16_t)(x % ALIGNED ? x & (~x + 1) : ALIGNED); }

static problem problem_of(const tidei_dev *d, const tidei_gemm *g, const tidei_lt_call *x) {
    return (problem){.m = g->m,
                     .n = g->n,
                     .k = g->k,
                     .lda = g->a.ld,
                     .ldb = g->b.ld,
                     .ldc = g->c.ld,
                     .workspace = x->workspace_bytes,
                     .device = d->index,
                     .type = tidei_cuda_type(g->dtype),
                     .compute = tidei_cublas_compute_of(g),
                     .a_align = align_of(x->a),
                     .b_align = align_of(x->b),
                     .c_align = align_of(x->c),
                     .bias_align = g->epilogue ? align_of(x->bias) : 0,
                     .ta = g->a.trans,
                     .tb = g->b.trans,
                     .epilogue = (uint8_t)g->epilogue};
}

typedef struct words {
    tidei_cublaslt_desc desc;
    tidei_cublaslt_layout a, b, c; /* of our a, b and c */
} words;

static tidei_cublas_status describe_epilogue(const tidei_cublas_table *t, const tidei_gemm *g,
                                             const tidei_lt_call *x, words *w) {
    static const uint32_t names[] = {[TIDEI_EPILOGUE_BIAS] = TIDEI_CUBLASLT_EPILOGUE_BIAS,
                                     [TIDEI_EPILOGUE_RELU] = TIDEI_CUBLASLT_EPILOGUE_RELU_BIAS,
                                     [TIDEI_EPILOGUE_GELU] = TIDEI_CUBLASLT_EPILOGUE_GELU_BIAS};
    const void *bias = (const void *)(uintptr_t)x->bias;
    if (!g->epilogue) return TIDEI_CUBLAS_SUCCESS;
    tidei_cublas_status r = t->cublasLtMatmulDescSetAttribute(
        &w->desc, TIDEI_CUBLASLT_DESC_EPILOGUE, &names[g->epilogue], sizeof names[g->epilogue]);
    return r ? r
             : t->cublasLtMatmulDescSetAttribute(&w->desc, TIDEI_CUBLASLT_DESC_BIAS_POINTER, &bias,
                                                 sizeof bias);
}

static tidei_cublas_status describe_side(const tidei_cublas_table *t, words *w,
                                         tidei_cublaslt_layout *layout, unsigned attribute,
                                         const tidei_matrix *x, tidei_cuda_data_type type,
                                         int64_t rows, int64_t cols) {
    const int32_t transposed = TIDEI_CUBLAS_OP_T;
    tidei_cublas_status r = t->cublasLtMatrixLayoutInit_internal(
        layout, sizeof *layout, type, (uint64_t)(x->trans ? rows : cols),
        (uint64_t)(x->trans ? cols : rows), x->ld);
    if (r || !x->trans) return r;
    return t->cublasLtMatmulDescSetAttribute(&w->desc, attribute, &transposed, sizeof transposed);
}

static tidei_cublas_status describe(const tidei_cublas_table *t, const tidei_gemm *g,
                                    const tidei_lt_call *x, words *w) {
    const tidei_cuda_data_type type = tidei_cuda_type(g->dtype),
                               scale = g->dtype == TIDE_F64 ? TIDEI_CUDA_R_64F : TIDEI_CUDA_R_32F;
    tidei_cublas_status r = t->cublasLtMatmulDescInit_internal(&w->desc, sizeof w->desc,
                                                               tidei_cublas_compute_of(g), scale);
    if (!r) r = describe_side(t, w, &w->b, TIDEI_CUBLASLT_DESC_TRANSA, &g->b, type, g->k, g->n);
    if (!r) r = describe_side(t, w, &w->a, TIDEI_CUBLASLT_DESC_TRANSB, &g->a, type, g->m, g->k);
    if (!r)
        r = t->cublasLtMatrixLayoutInit_internal(&w->c, sizeof w->c, type, (uint64_t)g->n,
                                                 (uint64_t)g->m, g->c.ld);
    return r ? r : describe_epilogue(t, g, x, w);
}

/* ---- asking ---- */

static tidei_cublas_status prefer(const tidei_cublas_table *t, const problem *p,
                                  tidei_cublaslt_preference *out) {
    const uint32_t reductions = TIDEI_CUBLASLT_REDUCTION_EXACT, a = p->a_align, b = p->b_align,
                   c = p->c_align,
                   d = p->bias_align && p->bias_align < p->c_align ? p->bias_align : p->c_align;
    const struct {
        unsigned which;
        const void *at;
        size_t bytes;
    } all[] = {{TIDEI_CUBLASLT_PREF_MAX_WORKSPACE_BYTES, &p->workspace, sizeof p->workspace},
               {TIDEI_CUBLASLT_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
               {TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof b},
               {TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof a},
               {TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
               {TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d}};
    tidei_cublas_status r = t->cublasLtMatmulPreferenceInit_internal(out, sizeof *out);
    for (size_t i = 0; i < TIDEI_COUNT(all) && !r; i++)
        r = t->cublasLtMatmulPreferenceSetAttribute(out, all[i].which, all[i].at, all[i].bytes);
    return r;
}

/* Fills in the rest of what is known of x->p. That there is no kernel is an answer, too. */
static tidei_cublas_status ask(const tidei_cublas_table *t, void *handle, words *w, known *x) {
    tidei_cublaslt_preference preference;
    tidei_cublaslt_result result;
    int n = 0;
    tidei_cublas_status r = prefer(t, &x->p, &preference);
    if (r) return r;
    r = t->cublasLtMatmulAlgoGetHeuristic(handle, &w->desc, &w->b, &w->a, &w->c, &w->c, &preference,
                                          1, &result, &n);
    if (r && r != TIDEI_CUBLAS_NOT_SUPPORTED) return r;
    x->there = true;
    x->serves = !r && n == 1 && result.state == TIDEI_CUBLAS_SUCCESS;
    if (x->serves) x->algo = result.algo;
    return TIDEI_CUBLAS_SUCCESS;
}

unsigned int tidei_lt_product(tidei_dev *d, const tidei_cublas_table *t, void *handle,
                              const tidei_gemm *g, const tidei_lt_call *x) {
    tidei_lt_known *all = tidei_libs_of(d->rt)->lt;
    const problem p = problem_of(d, g, x);
    known found = {.p = p};
    words w;
    tidei_cublas_status r = describe(t, g, x, &w);
    if (!r && !find(all, &p, &found)) {
        r = ask(t, handle, &w, &found);
        if (!r) keep(all, &found);
    }
    if (r || !found.serves) return r ? r : TIDEI_CUBLAS_NOT_SUPPORTED;
    tidei_factor alpha = tidei_factor_of(g->alpha, g->dtype),
                 beta = tidei_factor_of(g->beta, g->dtype);
    void *c = (void *)(uintptr_t)x->c;
    return t->cublasLtMatmul(handle, &w.desc, &alpha, (const void *)(uintptr_t)x->b, &w.b,
                             (const void *)(uintptr_t)x->a, &w.a, &beta, c, &w.c, c, &w.c,
                             &found.algo, (void *)(uintptr_t)x->workspace, x->workspace_bytes,
                             x->stream);
}
