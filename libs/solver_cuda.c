/* solver_cuda.c: factorizations by cuSOLVER: which way serves a call, the call and its workspaces.
**
** What must stay true: what the library wants is asked for with the addresses it will work at, in
** the window, and only then is it run; before, it was asked to know what to allocate. Where it
** wants more by then, nothing is queued, the workspace goes, a larger one comes, and the call comes
** again. Host workspaces are ordinary memory, so the library is done with them when its call
** returns. */
#include "libs/solver_cuda.h"
#include "runtime/base/text.h"

/* to find a workspace that is large enough: the answer changes with the free memory, but not
** often */
#define ATTEMPTS       4
#define PART           256             /* bytes: what parts of workspaces are aligned to */
#define BLAS_WORKSPACE (4 * TIDEI_MIB) /* what cuBLAS allocates by default, except on Hopper */

/* ORGQR has no 64-bit form. */
static bool fits(const tidei_lapack *x) {
    return x->routine != TIDEI_ORGQR ||
           (x->m <= INT32_MAX && x->n <= INT32_MAX && x->a.ld <= INT32_MAX);
}

static const tidei_lapack_way *way_of(const tidei_lapack *x, const tidei_cusolver_table *t) {
    const tidei_lapack_way *const *w = tidei_lapack_batched[x->routine];
    for (; *w; w++)
        if ((*w)->takes(x, t)) return *w;
    return &tidei_lapack_each[x->routine];
}

/* ---- a job ---- */

enum { A, B, C, D, INFO, OPERANDS };

typedef struct job {
    const tidei_lapack *x;
    const char *op;
    tidei_stream *s;
    const tidei_cusolver_table *solver;
    const tidei_cublas_table *blas; /* NULL: not needed */
    const tidei_lapack_way *way;    /* the present one */
    tidei_use uses[OPERANDS + 2];   /* the operands', the scratch's, the workspace's */
    int what[OPERANDS];             /* which operand each of the first uses is */
    unsigned operands;
    tidei_storage *scratch, *work; /* NULL: none */
    void *host;
    size_t work_bytes, host_bytes; /* bytes that are allocated */
    size_t want, want_host;        /* bytes that the library wanted when it was last asked */
    bool ran;                      /* false: it wanted more than there was, and has done nothing */
    tide_status failed;            /* our own failure within the submission; its message is set */
    tidei_saved_error words;
} job;

static bool is_complex(tide_dtype t) { return t == TIDE_C64 || t == TIDE_C128; }
static bool is_wide(tide_dtype t) { return t == TIDE_F64 || t == TIDE_C128; }

static tidei_lapack_call call_of(const job *j, void *handle) {
    const tidei_lapack *x = j->x;
    tidei_cuda_data_type real = is_wide(x->dtype) ? TIDEI_CUDA_R_64F : TIDEI_CUDA_R_32F;
    tidei_cuda_data_type wide = is_wide(x->dtype) ? TIDEI_CUDA_C_64F : TIDEI_CUDA_C_32F;
    return (tidei_lapack_call){.x = x,
                               .solver = j->solver,
                               .blas = j->blas,
                               .s = j->s,
                               .handle = handle,
                               .type = is_complex(x->dtype) ? wide : real,
                               .real = real};
}

static void set_operand(tidei_lapack_at *at, int operand, tidei_addr address) {
    void *p = (void *)(uintptr_t)address;
    switch (operand) {
    case A: at->a = p; break;
    case B: at->b = p; break;
    case C: at->c = p; break;
    case D: at->d = p; break;
    default: at->info = p; break;
    }
}

/* Reads where the operands are now; they may be moved before the work is queued. */
static void look_where(const job *j, tidei_lapack_call *c) {
    for (unsigned i = 0; i < j->operands; i++) {
        tidei_storage *st = j->uses[i].st;
        tidei_stamps_lock(st);
        set_operand(&c->first, j->what[i], st->addr + j->uses[i].offset);
        tidei_stamps_unlock(st);
    }
}

/* Makes the library's options, with defaults. */
static unsigned open_params(tidei_lapack_call *c, const tidei_lapack_way *w) {
    return w->by_cublas ? 0 : c->solver->cusolverDnCreateParams(&c->params);
}
static void close_params(const tidei_lapack_call *c) {
    if (c->params) c->solver->cusolverDnDestroyParams(c->params);
}

/* Asks how much memory the way wants. The library may want none, and an address all the same. */
static unsigned ask_sizes(job *j, tidei_lapack_call *c) {
    const tidei_lapack_way *w = j->way;
    unsigned r = w->sizes ? w->sizes(c) : 0;
    j->want = w->by_cublas ? BLAS_WORKSPACE : w->sizes ? tidei_max_size(c->work_bytes, PART) : 0;
    j->want_host = c->host_bytes;
    return r;
}

static unsigned ask(const tidei_library_call *lc, void *handle) {
    job *j = lc->arg;
    tidei_lapack_call c = call_of(j, handle);
    unsigned r = open_params(&c, j->way);
    if (r) return r;
    look_where(j, &c);
    r = ask_sizes(j, &c);
    close_params(&c);
    return r;
}

static unsigned queue(const tidei_lapack_way *w, tidei_lapack_call *c) {
    if (w->all) return w->all(c);
    for (int64_t i = 0; i < c->x->count; i++) {
        tidei_lapack_at m = tidei_lapack_nth(c, i);
        unsigned r = w->one(c, &m);
        if (r) return r;
    }
    return 0;
}

/* Sets the addresses for this submission. */
static void set_where(const job *j, const tidei_submission *w, tidei_lapack_call *c) {
    unsigned next = j->operands;
    for (unsigned i = 0; i < j->operands; i++)
        set_operand(&c->first, j->what[i], w->ranges[i].addr);
    if (j->scratch) c->scratch = (void *)(uintptr_t)(w->ranges[next].addr + PART);
    c->one_info = !c->first.info;
    if (c->one_info) c->first.info = (void *)(uintptr_t)w->ranges[next].addr;
    if (j->work) c->work = (void *)(uintptr_t)w->ranges[next + (j->scratch ? 1 : 0)].addr;
    c->host = j->host;
}

static unsigned run(const tidei_library_call *lc, void *handle, void *stream,
                    const tidei_submission *w) {
    job *j = lc->arg;
    (void)stream;
    tidei_lapack_call c = call_of(j, handle);
    unsigned r = open_params(&c, j->way);
    if (r) return r;
    set_where(j, w, &c);
    r = ask_sizes(j, &c);
    j->ran = r || (j->want <= j->work_bytes && j->want_host <= j->host_bytes);
    if (!r && j->ran) {
        c.work_bytes = j->work_bytes;
        c.host_bytes = j->host_bytes;
        r = queue(j->way, &c);
    }
    j->failed = c.failed;
    if (j->failed != TIDE_OK) tidei_error_save(&j->words);
    close_params(&c);
    return r;
}

static tide_status again(const tidei_library_call *lc) {
    const tidei_lapack *x = ((const job *)lc->arg)->x;
    return x->again(x->again_arg);
}

static void describe(const tidei_library_call *lc, char *buf, size_t cap) {
    const tidei_lapack *x = ((const job *)lc->arg)->x;
    bool square =
        x->routine == TIDEI_GETRS || x->routine == TIDEI_POTRF || x->routine == TIDEI_SYEVD;
    long long m = square ? x->n : x->m, n = x->n, count = x->count;
    tidei_format(buf, cap, "%s of %lld matri%s of (%lld, %lld)", tidei_lapack_name(x), count,
                 count == 1 ? "x" : "ces", m, n);
}

/* ---- workspaces ---- */

static void release(tidei_storage **st) {
    if (*st) tidei_scratch_release(*st);
    *st = NULL;
}
static void release_host(job *j) {
    tidei_scratch_host_free(j->s->dev->rt, j->host);
    j->host = NULL;
    j->host_bytes = 0;
}
static void release_workspaces(job *j) {
    release(&j->work);
    j->work_bytes = 0;
    release_host(j);
}

/* Allocates the workspaces wanted; one that is too small is released first. */
static tide_status make_workspaces(job *j) {
    tide_status status = TIDE_OK;
    if (j->want_host > j->host_bytes) {
        release_host(j);
        j->host = tidei_scratch_host(j->s->dev->rt, j->want_host);
        if (!j->host) return tidei_fail_host_memory(j->op, j->want_host);
        j->host_bytes = j->want_host;
    }
    if (j->want > j->work_bytes) {
        release(&j->work);
        j->work_bytes = 0;
        status = tidei_scratch_new(tidei_pool_here(j->s->dev), j->want, j->s, j->op, &j->work);
        if (status == TIDE_OK) j->work_bytes = j->want;
    }
    return status;
}

static unsigned all_uses(job *j) {
    unsigned n = j->operands;
    tidei_storage *const ours[] = {j->scratch, j->work};
    for (size_t i = 0; i < TIDEI_COUNT(ours); i++)
        if (ours[i])
            j->uses[n++] = (tidei_use){ours[i], 0, ours[i]->bytes, TIDEI_READ | TIDEI_WRITE};
    return n;
}

/* Asks, allocates and runs, until what was allocated is enough. A way without `sizes` is not
** asked. */
static tide_status run_in_workspaces(job *j, tidei_library_call *c) {
    tide_status status = TIDE_OK;
    if (j->way->sizes) { /* the library may look at addresses */
        status = tidei_uses_return(j->s, j->uses, j->operands, j->op);
        if (status == TIDE_OK) status = tidei_library_ask(c, ask);
    } else {
        (void)ask_sizes(j, &(tidei_lapack_call){0});
    }
    for (int i = 0; i < ATTEMPTS && status == TIDE_OK; i++) {
        status = make_workspaces(j);
        if (status != TIDE_OK) return status;
        c->n = all_uses(j);
        status = tidei_library_run(c);
        if (status == TIDE_OK && j->failed != TIDE_OK) {
            tidei_error_restore(&j->words);
            return tidei_device_failed(j->s, j->failed, j->op);
        }
        if (status != TIDE_OK || j->ran) return status;
    }
    if (status != TIDE_OK) return status;
    return tidei_fail(
        TIDE_E_DEVICE, j->op,
        "%s wants another workspace at each call, now of %zu bytes and %zu of the host's",
        c->kind->name, j->want, j->want_host);
}

/* Our own scratch on the device: what the ways want, and before it a word for infos that nobody
** reads. */
static tide_status make_scratch(job *j) {
    size_t bytes = j->way->scratch ? j->way->scratch(j->x) : 0;
    bool has_info = false;
    for (unsigned i = 0; i < j->operands; i++) has_info |= j->what[i] == INFO;
    if (!bytes && has_info) return TIDE_OK;
    return tidei_scratch_new(tidei_pool_here(j->s->dev), PART + bytes, j->s, j->op, &j->scratch);
}

/* One library's part. Makes sure of a handle first: everything else takes of the memory that is
** left. */
static tide_status run_way(job *j, const tidei_lapack_way *way, bool first) {
    tidei_library_call c = {.kind = way->by_cublas ? &tidei_cublas_kind : &tidei_cusolver_kind,
                            .lib = way->by_cublas ? (const void *)j->blas : j->solver,
                            .s = j->s,
                            .uses = j->uses,
                            .workspace = way->by_cublas,
                            .run = run,
                            .again = first && j->x->again ? again : NULL,
                            .describe = describe,
                            .arg = j,
                            .op = j->op};
    j->way = way;
    tide_status status = tidei_library_begin(&c);
    if (status != TIDE_OK) return status;
    if (first) status = make_scratch(j);
    if (status == TIDE_OK) status = run_in_workspaces(j, &c);
    release_workspaces(j);
    tidei_library_end(&c);
    return status;
}

tide_status tidei_lapack_cuda(tidei_stream *s, const tidei_lapack *x, const char *op) {
    job j = {.x = x, .op = op, .s = s};
    tide_status status = tidei_cusolver_load(op, &j.solver);
    if (status != TIDE_OK) return status;
    if (!fits(x))
        return tidei_fail(TIDE_E_UNSUPPORTED, op,
                          "cuSOLVER counts in 32 bits here: matrices of (%lld, %lld) are too large",
                          (long long)x->m, (long long)x->n);
    const tidei_lapack_way *way = way_of(x, j.solver);
    if (way->by_cublas || way->then) status = tidei_cublas_load(op, &j.blas);
    j.operands = tidei_lapack_uses(x, j.uses, j.what);
    /* this may climb, so it comes before any lock is taken */
    for (unsigned i = 0; i < j.operands && status == TIDE_OK; i++)
        if (j.uses[i].st->dev != s->dev) status = tidei_peer_need(s->dev, j.uses[i].st, op);
    for (bool first = true; way && status == TIDE_OK; way = way->then, first = false)
        status = run_way(&j, way, first);
    release(&j.scratch);
    return status;
}
