/* blas_cuda.c: matrix products by cuBLAS, with a handle from the cache (libs/handles.h). A single
** one goes to cuBLASLt (blas_lt.c) where something follows it, and where it is small.
**
** What must stay true: cuBLAS's workspace is a block of our pool that the product uses like an
** operand, or none; it is set anew at every call because setting the stream resets it. A call that
** fails because memory is short ends its submission, climbs, and is made again; it goes on where it
** failed, since a product that adds to its result must not do so twice. While products are under
** way the ladder leaves one handle, without which they could not go on. */
#include "libs/blas.h"
#include "libs/cublas.h"
#include "runtime/memory/capture.h"
#include "runtime/base/text.h"

/* The least and the most workspace: all of cuBLAS runs with the least; the most is what it takes by
** default on GPUs since Hopper, and more makes nothing faster. */
#define WORKSPACE_MIN ((size_t)64 << 10)
#define WORKSPACE_MAX (32 * TIDEI_MIB)
/* cuBLAS splits sums into partial results, so small products need no more workspace than for
** those. Others have all of it: cuBLAS picks its kernels by what it gets, not by what they need. On
** an H200, us, with 8 MiB and with 32: f16, 69 x 3034 by 3034 x 265, 546 and 21; bf16, 1001 x 1001
** by its like, 39 and 31; f16, 2 x 5598 by 5598 x 152, 36 and 22. Of one row or column it picks
** worse ones then: f16, 177068 by 177068 x 379, 55 and 130. These have room for a partial result
** for so many terms. */
#define WORKSPACE_SPLITS 16
#define SPLIT_TERMS      64
#define SMALL_PRODUCT    (1 << 20) /* multiplications: fewer make a small one */
#define WORKSPACE_PART   64        /* of what the hard limit leaves for arrays */
/* Few results of sums of so few terms are not split, and need none. Tried with cuBLAS 13.1: 177,000
** shapes, in six types. */
#define SHORT_SUM 128

void tidei_gemm_begin(tidei_dev *d) { tidei_library_keep(d, &tidei_cublas_kind); }
void tidei_gemm_end(tidei_dev *d) { tidei_library_unkeep(d, &tidei_cublas_kind); }

typedef struct job {
    const tidei_gemm *given; /* NULL: `own`, where the call is captured */
    tidei_gemm own;
    const tidei_cublas_table *t;
    tidei_use uses[5]; /* a, b, c, the bias if something follows, the workspace */
    int64_t done;      /* calls that were queued */
    bool lt;           /* it goes to cuBLASLt, unless that has no kernel for it */
    bool refused;      /* one that was to do without a workspace did not: it may do with one */
} job;

static const tidei_gemm *gemm_of(const job *j) { return j->given ? j->given : &j->own; }

unsigned int tidei_cublas_compute_of(const tidei_gemm *g) {
    static const tidei_cublas_compute narrow[] = {
        [TIDEI_PRECISION_HIGHEST] = TIDEI_CUBLAS_COMPUTE_32F,
        [TIDEI_PRECISION_HIGH] = TIDEI_CUBLAS_COMPUTE_32F_FAST_TF32,
        [TIDEI_PRECISION_MEDIUM] = TIDEI_CUBLAS_COMPUTE_32F_FAST_16BF};
    if (g->dtype == TIDE_F64 || g->dtype == TIDE_C128) return TIDEI_CUBLAS_COMPUTE_64F;
    bool rounds = g->dtype == TIDE_F32 || g->dtype == TIDE_C64;
    return narrow[rounds ? g->precision : TIDEI_PRECISION_HIGHEST];
}

static tidei_cublas_operation operation(const tidei_matrix *x) {
    return !x->trans ? TIDEI_CUBLAS_OP_N : x->conj ? TIDEI_CUBLAS_OP_C : TIDEI_CUBLAS_OP_T;
}

/* All matrices along one dimension of the batch in one call (`dim` < 0: one matrix). cuBLAS counts
** by columns: our rows are its columns, so the product is b' a' = c', and no operand changes
** whether it is transposed. */
static tidei_cublas_status one_call(const job *j, tidei_cublas_handle h, int dim, tidei_addr a,
                                    tidei_addr b, tidei_addr c) {
    const tidei_gemm *g = gemm_of(j);
    tidei_cuda_data_type type = tidei_cuda_type(g->dtype);
    tidei_cublas_compute compute = tidei_cublas_compute_of(g);
    tidei_cublas_operation ta = operation(&g->a), tb = operation(&g->b);
    tidei_factor alpha = tidei_factor_of(g->alpha, g->dtype),
                 beta = tidei_factor_of(g->beta, g->dtype);
    const void *pa = (const void *)(uintptr_t)a, *pb = (const void *)(uintptr_t)b;
    void *pc = (void *)(uintptr_t)c;
    if (dim < 0)
        return j->t->cublasGemmEx_64(h, tb, ta, g->n, g->m, g->k, &alpha, pb, type, g->b.ld, pa,
                                     type, g->a.ld, &beta, pc, type, g->c.ld, compute,
                                     TIDEI_CUBLAS_GEMM_DEFAULT);
    return j->t->cublasGemmStridedBatchedEx_64(
        h, tb, ta, g->n, g->m, g->k, &alpha, pb, type, g->b.ld, g->b.batch[dim], pa, type, g->a.ld,
        g->a.batch[dim], &beta, pc, type, g->c.ld, g->c.batch[dim], g->batch[dim], compute,
        TIDEI_CUBLAS_GEMM_DEFAULT);
}

/* The longest dimension of the batch that one call can take; -1: none. */
static int inner_dim(const tidei_gemm *g) {
    int best = -1;
    for (int i = 0; i < g->nbatch; i++)
        if (g->a.batch[i] >= 0 && g->b.batch[i] >= 0 && g->c.batch[i] > 0 &&
            (best < 0 || g->batch[i] > g->batch[best]))
            best = i;
    return best;
}

/* The first elements of a, b and c: a range begins at the lowest address touched, which with
** negative strides is not the first element. */
static void first_elements(const job *j, const tidei_submission *w, tidei_addr at[3]) {
    const tidei_gemm *g = gemm_of(j);
    const tidei_matrix *const x[3] = {&g->a, &g->b, &g->c};
    size_t size = tide_dtype_size(g->dtype);
    for (int i = 0; i < 3; i++)
        at[i] = w->ranges[i].addr + (size_t)x[i]->offset * size - j->uses[i].offset;
}

static tidei_lt_call lt_call_of(const job *j, const tidei_library_call *c,
                                const tidei_submission *w) {
    tidei_addr at[3];
    first_elements(j, w, at);
    tidei_lt_call x = {
        .a = at[0], .b = at[1], .c = at[2], .bias = gemm_of(j)->epilogue ? w->ranges[3].addr : 0};
    if (c->workspace) {
        x.workspace = w->ranges[c->n - 1].addr;
        x.workspace_bytes = w->ranges[c->n - 1].bytes;
    }
    return x;
}

static tidei_cublas_status lt_call(const job *j, const tidei_library_call *c, void *handle,
                                   void *stream, const tidei_submission *w) {
    tidei_lt_call x = lt_call_of(j, c, w);
    x.stream = stream;
    return tidei_lt_product(c->s->dev, j->t, handle, gemm_of(j), &x);
}

static tidei_cublas_status all_calls(job *j, tidei_cublas_handle h, const tidei_submission *w) {
    const tidei_gemm *g = gemm_of(j);
    size_t size = tide_dtype_size(g->dtype);
    const tidei_matrix *const x[3] = {&g->a, &g->b, &g->c};
    int64_t index[TIDE_MAX_RANK] = {0}, call = 0;
    int inner = inner_dim(g);
    tidei_addr at[3];
    first_elements(j, w, at);
    for (;;) {
        if (call++ >= j->done) {
            tidei_cublas_status r = one_call(j, h, inner, at[0], at[1], at[2]);
            if (r != TIDEI_CUBLAS_SUCCESS) return r;
            j->done = call;
        }
        int i = g->nbatch - 1;
        for (; i >= 0; i--) {
            if (i == inner) continue;
            bool more = ++index[i] < g->batch[i];
            int64_t steps = more ? 1 : 1 - g->batch[i];
            for (int k = 0; k < 3; k++)
                at[k] += (tidei_addr)(x[k]->batch[i] * steps * (int64_t)size);
            if (more) break;
            index[i] = 0;
        }
        if (i < 0) return TIDEI_CUBLAS_SUCCESS;
    }
}

/* Where what follows was promised to whoever captured the call, cuBLASLt makes it or nobody. */
static bool is_promised(const job *j) { return !j->given && j->own.applied; }

static unsigned run(const tidei_library_call *c, void *handle, void *stream,
                    const tidei_submission *w) {
    job *j = c->arg;
    tidei_cublas_status r = j->lt ? lt_call(j, c, handle, stream, w) : TIDEI_CUBLAS_NOT_SUPPORTED;
    if (r == TIDEI_CUBLAS_NOT_SUPPORTED && !is_promised(j)) {
        j->lt = false;
        r = all_calls(j, handle, w);
    }
    j->refused = r != TIDEI_CUBLAS_SUCCESS && !c->workspace;
    if (j->refused && c->bare_first) j->done = 0; /* what was captured by then is dropped */
    return j->refused && !c->bare_first ? TIDEI_CUBLAS_SUCCESS : r;
}

static void describe(const tidei_library_call *c, char *buf, size_t cap) {
    const tidei_gemm *g = gemm_of(c->arg);
    tidei_format(buf, cap, "a product of (%lld, %lld) by (%lld, %lld)", (long long)g->m,
                 (long long)g->k, (long long)g->k, (long long)g->n);
}

/* The same size for the same call, so that results repeat; a small one where memory is short. Under
** a limit it is a small part of the limit: a workspace makes a product a little faster, which is
** not worth a climb. */
tide_status tidei_cublas_workspace(tidei_stream *s, double results, const char *op,
                                   tidei_storage **out) {
    const double want = WORKSPACE_SPLITS * results;
    size_t limit = atomic_load(&s->dev->budget->limit),
           library = atomic_load(&s->dev->budget->library),
           most = (limit > library ? limit - library : 0) / WORKSPACE_PART / WORKSPACE_MIN *
                  WORKSPACE_MIN;
    most = tidei_min_size(WORKSPACE_MAX, tidei_max_size(most, WORKSPACE_MIN));
    size_t bytes = want >= (double)most
                       ? most
                       : tidei_round_up(tidei_max_size((size_t)want, 1), WORKSPACE_MIN);
    tidei_saved_error before;
    tidei_error_save(&before);
    tidei_thread *t = tidei_thread_get(s->dev->rt);
    bool optional = bytes > WORKSPACE_MIN;
    if (optional) tidei_deepen(t, &t->depth_optional);
    tide_status status = tidei_storage_new(s->dev, bytes, s, op, out);
    if (optional) tidei_rise(t, &t->depth_optional);
    if (status == TIDE_E_NOMEM && optional) {
        status = tidei_storage_new(s->dev, WORKSPACE_MIN, s, op, out);
        if (status == TIDE_OK) tidei_error_restore(&before);
    }
    if (status == TIDE_OK) tidei_scratch_hold(*out);
    return status;
}

static double result_bytes(const tidei_gemm *g) {
    double bytes = (double)g->m * (double)g->n * (double)tide_dtype_size(g->dtype);
    for (int i = 0; i < g->nbatch; i++) bytes *= (double)g->batch[i];
    return bytes;
}

/* Asks whether cuBLASLt makes a product whose operands lie where those of a graph will: all memory
** begins at addresses of the device's alignment, so for cuBLASLt offsets are as good. */
static unsigned ask_lt(const tidei_library_call *c, void *handle) {
    job *j = c->arg;
    tidei_submission w;
    for (unsigned i = 0; i < c->n; i++)
        w.few[i] = (tidei_range){.addr = j->uses[i].offset, .bytes = j->uses[i].bytes};
    w.ranges = w.few;
    const tidei_lt_call x = lt_call_of(j, c, &w);
    return tidei_lt_serves(c->s->dev, j->t, handle, gemm_of(j), &x, &j->lt);
}

/* The call becomes a node; what follows is the caller's to do unless cuBLASLt will. */
static tide_status note(const tidei_library_call *given, job *j, bool bare) {
    tidei_library_call c = *given, asked = *given;
    if (bare) asked.n--, asked.workspace = false;
    tide_status status = j->lt ? tidei_library_ask(&asked, ask_lt) : TIDE_OK;
    j->own.applied = j->lt && j->own.epilogue;
    c.arg_bytes = sizeof *j;
    c.bare_first = bare;
    return status == TIDE_OK ? tidei_library_run(&c) : status;
}

/* The results' bytes, or more where more room is wanted. */
static double room_for(const tidei_gemm *g, double results) {
    const double products = results / (double)tide_dtype_size(g->dtype) * (double)g->k,
                 splits = (double)(g->k / SPLIT_TERMS);
    if (g->m == 1 || g->n == 1)
        return splits > WORKSPACE_SPLITS ? results * (splits / WORKSPACE_SPLITS) : results;
    return products < SMALL_PRODUCT ? results : (double)WORKSPACE_MAX;
}

/* `bare`: only where the call is captured, in which case it may do without. */
static tide_status run_in_workspace(const tidei_library_call *given, job *j, double results,
                                    bool bare) {
    tidei_library_call c = *given;
    tidei_storage *workspace;
    tide_status status =
        tidei_cublas_workspace(c.s, room_for(gemm_of(j), results), c.op, &workspace);
    if (status != TIDE_OK) return status;
    j->uses[c.n++] = (tidei_use){
        .st = workspace, .offset = 0, .bytes = workspace->bytes, .mode = TIDEI_READ | TIDEI_WRITE};
    c.workspace = true;
    status = j->given ? tidei_library_run(&c) : note(&c, j, bare);
    tidei_scratch_release(workspace);
    return status;
}

/* Of one row or column cuBLAS has kernels that cuBLASLt has not. */
static bool goes_to_lt(const job *j, bool bare) {
    const tidei_gemm *g = gemm_of(j);
    bool narrow = g->dtype == TIDE_F32 || g->dtype == TIDE_F16 || g->dtype == TIDE_BF16;
    if (!tidei_cublas_has_lt(j->t) || g->nbatch) return false;
    return g->epilogue ? narrow : bare && (narrow || g->dtype == TIDE_F64) && g->m > 1 && g->n > 1;
}

/* Makes sure of a handle first: the workspace takes of the memory that is left. */
tide_status tidei_gemm_cuda(tidei_stream *s, tidei_gemm *g, const tidei_use uses[3],
                            const char *op) {
    job j;
    unsigned n = 3;
    size_t size = tide_dtype_size(g->dtype);
    memcpy(j.uses, uses, 3 * sizeof *uses);
    if (g->epilogue)
        j.uses[n++] =
            (tidei_use){g->bias, (size_t)g->bias_offset * size, (size_t)g->n * size, TIDEI_READ};
    j.given = g;
    j.done = 0;
    j.refused = false;
    tide_status status = tidei_cublas_load(op, &j.t);
    for (unsigned i = 0; i < n && status == TIDE_OK;
         i++) /* this may climb, so it comes before any lock is taken */
        if (j.uses[i].st->dev != s->dev) status = tidei_peer_need(s->dev, j.uses[i].st, op);
    if (status == TIDE_OK) status = tidei_uses_return(s, j.uses, n, op);
    if (status != TIDE_OK) return status;
    const tidei_library_call c = {.kind = &tidei_cublas_kind,
                                  .lib = j.t,
                                  .s = s,
                                  .uses = j.uses,
                                  .n = n,
                                  .run = run,
                                  .describe = describe,
                                  .arg = &j,
                                  .op = op};
    const double results = result_bytes(g);
    const bool bare = g->k <= SHORT_SUM && results <= (double)WORKSPACE_MIN;
    j.lt = goes_to_lt(&j, bare);
    status = tidei_library_provide(&c);
    if (status == TIDE_OK && tidei_capturing(s->dev->rt)) {
        j.own = *g;
        j.given = NULL;
        status = run_in_workspace(&c, &j, results, bare);
        g->applied = j.own.applied;
        return status;
    }
    if (status == TIDE_OK && bare) status = tidei_library_run(&c);
    if (status == TIDE_OK && (!bare || j.refused))
        status = run_in_workspace(&c, &j, results, false);
    g->applied = j.lt && g->epilogue;
    return status;
}
