/* blas_cuda.c: matrix products by cuBLAS: one handle a device, made at its first use, given up when memory is short.
**
** What must stay true: cuBLAS's workspace is a block of our pool that the product uses like an operand, set anew at every
** call because setting the stream resets it. What a handle itself takes is measured and counted against the limits; what its
** kernels take when the first call of a kind loads them is not. A call that fails for want of memory leaves, climbs, and comes
** again. While products are under way the ladder leaves the handle alone: they could not go on without it.
** Locks: a handle's lock is taken before its stream's and held while the handle is made and the call is queued; nothing climbs
** under it. */
#include "libs/blas.h"
#include "libs/cublas.h"

/* What cuBLAS needs to run at all, and what it takes by default on GPUs since Hopper; more makes nothing faster. */
#define WORKSPACE_MIN ((size_t)64 << 10)
#define WORKSPACE_MAX (32 * TIDEI_MIB)
/* It splits long sums over this many partial results at most, so small products need no more than that. */
#define WORKSPACE_SPLITS 16
#define WORKSPACE_PART   64               /* of what the hard limit leaves for arrays */
#define HANDLE_BYTES     (64 * TIDEI_MIB) /* about what a handle takes, as measured; for the report and for PLENTY */
#define HANDLE_MOST      (2 * HANDLE_BYTES) /* more than this no handle takes */
#define PLENTY           (4 * HANDLE_BYTES) /* free on the device: a handle that fails then lacks something else */

typedef struct handle {
    pthread_mutex_t lock;
    tidei_cublas_handle h; /* NULL: none now */
    size_t held;           /* device memory the first one took; the next ones take as much */
    atomic_uint users;     /* products under way */
} handle;

typedef struct tidei_cublas {
    tide_runtime *rt;
    tidei_reclaimable reclaim;
    unsigned n;
    handle *handles; /* one a device */
} tidei_cublas;

/* ---- the context ---- cuBLAS works in the calling thread's current one. */

typedef struct context {
    const tidei_cu *cu;
    tidei_cu_ctx ctx;
} context;

static tide_status enter_context(tide_stream *s, context *c, const char *op) {
    tide_stream *own = s->dev->stream0; /* not s, which may be CUDA's default one, of whatever context is current */
    tidei_dstream *ds = own->ds;
    if (!ds) return tidei_lost(s->dev, op); /* only a lost device's default stream goes before its libraries */
    tidei_cu_stream native = s->dev->d->ops->stream_native(s->dev->d, ds);
    tide_status status = tidei_cu_open(&c->cu);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuStreamGetCtx(native, &c->ctx);
    if (r == TIDEI_CU_SUCCESS) r = c->cu->cuCtxPushCurrent(c->ctx);
    return r == TIDEI_CU_SUCCESS
               ? TIDE_OK
               : tidei_fail(TIDE_E_DEVICE, op, "the stream's context: %s (%u)", tidei_cu_name(c->cu, r), r);
}

static void leave_context(const context *c) {
    tidei_cu_ctx ours;
    c->cu->cuCtxPopCurrent(&ours);
}

/* ---- handles ---- */

/* What the device has free, as far as others than our pools change it. */
static size_t free_but_ours(tidei_dev *d) {
    size_t free_bytes = 0, total;
    if (d->d->ops->memory(d->d, &free_bytes, &total) != TIDE_OK) return 0;
    return free_bytes + atomic_load(&d->backed);
}

/* A status of cublasCreate. It says "not initialized" where memory was short, so the figures decide. */
static tide_status create_failed(tidei_dev *d, tidei_cublas_status r, const char *op) {
    size_t free_bytes = 0, total = 0;
    if (d->d->ops->memory(d->d, &free_bytes, &total) != TIDE_OK) return tidei_last_status();
    if ((r == TIDEI_CUBLAS_NOT_INITIALIZED || r == TIDEI_CUBLAS_ALLOC_FAILED) && free_bytes < PLENTY)
        return tidei_fail(TIDE_E_NOMEM, op, "cublasCreate: error %u with %zu bytes free on %s", r, free_bytes,
                          d->d->info.name);
    return tidei_fail(
        TIDE_E_DEVICE, op,
        "cublasCreate: error %u; %s has %zu bytes free, so memory is not the reason: do driver and cuBLAS fit "
        "together?",
        r, d->d->info.name, free_bytes);
}

/* Whether `more` bytes would exceed the limit. */
static bool above_limit(tidei_dev *d, size_t more) {
    size_t limit = atomic_load(&d->limit), used = atomic_load(&d->backed) + atomic_load(&d->library);
    return used > limit || more > limit - used;
}

static void destroy(const tidei_cublas_table *t, tidei_dev *d, tidei_cublas_handle h, size_t held) {
    t->cublasDestroy_v2(h);
    atomic_fetch_sub(&d->library, held);
}

static tide_status too_large(size_t held, const char *op) {
    return tidei_fail(TIDE_E_NOMEM, op, "cuBLAS takes %zu bytes, more than the limit leaves", held);
}

/* What a first handle takes, from what the device had free before and after. That is everybody's: what another process took at the
** same time is not the handle's. */
static size_t taken(size_t before, size_t after) {
    size_t bytes = before > after ? before - after : 0;
    return bytes > HANDLE_MOST ? HANDLE_BYTES : bytes;
}

/* In the context, under the handle's lock: makes it and counts it. Beyond the limit it is given up again, so that the climb
** can make room; once it is known what it takes, it is not even made. */
static tide_status create(handle *x, tidei_dev *d, const tidei_cublas_table *t, const char *op) {
    tidei_cublas_handle h = NULL;
    if (above_limit(d, x->held)) return too_large(x->held, op);
    size_t before = free_but_ours(d);
    tidei_cublas_status r = t->cublasCreate_v2(&h);
    if (r != TIDEI_CUBLAS_SUCCESS) return create_failed(d, r, op);
    size_t after = free_but_ours(d);
    t->cublasSetMathMode(h, TIDEI_CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION);
    if (!x->held) x->held = taken(before, after);
    atomic_fetch_add(&d->library, x->held);
    if (above_limit(d, 0)) {
        destroy(t, d, h, x->held);
        return too_large(x->held, op);
    }
    x->h = h;
    return TIDE_OK;
}

typedef struct job {
    tide_stream *s;
    const tidei_gemm *g;
    const tidei_cublas_table *t;
    handle *handle;
    tidei_use uses[4]; /* a, b, c, the workspace */
    const char *op;
} job;

/* Makes sure that there is a handle. */
static tide_status provide(void *arg, unsigned flags) {
    const job *j = arg;
    context c;
    tide_status status = TIDE_OK;
    (void)flags;
    pthread_mutex_lock(&j->handle->lock);
    if (!j->handle->h && (status = enter_context(j->s, &c, j->op)) == TIDE_OK) {
        status = create(j->handle, j->s->dev, j->t, j->op);
        leave_context(&c);
    }
    pthread_mutex_unlock(&j->handle->lock);
    return status;
}

static bool has_handle(handle *x) {
    pthread_mutex_lock(&x->lock);
    bool there = x->h != NULL;
    pthread_mutex_unlock(&x->lock);
    return there;
}

/* The handle goes; the next product makes another. Destroying it waits for the device. */
static size_t give_up(handle *x, tidei_dev *d, bool *failed) {
    const tidei_cublas_table *t;
    context c;
    if (!has_handle(x)) return 0;
    if (tidei_cublas_load("tide_reclaim", &t) != TIDE_OK ||
        enter_context(d->stream0, &c, "tide_reclaim") != TIDE_OK) {
        *failed = true;
        return 0;
    }
    pthread_mutex_lock(&x->lock);
    tidei_cublas_handle h = x->h;
    size_t held = h ? x->held : 0;
    x->h = NULL;
    pthread_mutex_unlock(&x->lock);
    if (h) destroy(t, d, h, held);
    leave_context(&c);
    return held;
}

/* The ladder's rung. */
static size_t drop(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    tidei_cublas *b = self;
    handle *x = &b->handles[d->index];
    (void)wanted;
    return atomic_load(&x->users) ? 0 : give_up(x, d, failed);
}

static handle *handle_of(tidei_dev *d) { return &tidei_libs_of(d->rt)->cublas->handles[d->index]; }
void tidei_gemm_begin(tidei_dev *d) { atomic_fetch_add(&handle_of(d)->users, 1); }
void tidei_gemm_end(tidei_dev *d) { atomic_fetch_sub(&handle_of(d)->users, 1); }

tide_status tidei_cublas_open(tide_runtime *rt, tidei_cublas **out) {
    tidei_cublas *b = tidei_host_alloc(rt, sizeof *b + rt->ndevs * sizeof *b->handles);
    if (!b) return tidei_fail_host_memory("tide_open", sizeof *b);
    b->rt = rt;
    b->n = rt->ndevs;
    b->handles = (handle *)(b + 1);
    for (unsigned i = 0; i < b->n; i++) pthread_mutex_init(&b->handles[i].lock, NULL);
    b->reclaim = (tidei_reclaimable){.name = "cuBLAS", .drop = drop, .self = b};
    tide_status s = tidei_reclaimable_register(rt, &b->reclaim);
    if (s != TIDE_OK) {
        tidei_host_free(rt, b);
        return s;
    }
    *out = b;
    return TIDE_OK;
}

void tidei_cublas_close(tidei_cublas *b) {
    if (!b) return;
    tidei_reclaimable_unregister(b->rt, &b->reclaim);
    for (unsigned i = 0; i < b->n; i++) {
        bool failed = false;
        if (!tidei_forked()) give_up(&b->handles[i], &b->rt->devs[i], &failed);
        pthread_mutex_destroy(&b->handles[i].lock);
    }
    tidei_host_free(b->rt, b);
}

/* ---- products ---- */

static tidei_cublas_operation operation(const tidei_matrix *x) {
    return !x->trans ? TIDEI_CUBLAS_OP_N : x->conj ? TIDEI_CUBLAS_OP_C : TIDEI_CUBLAS_OP_T;
}

/* All matrices along one dimension of the batch in one call (`dim` < 0: one matrix). cuBLAS counts by columns: our rows are
** its columns, so the product is b' a' = c', and nothing is transposed that was not. */
static tidei_cublas_status one_call(const job *j, tidei_cublas_handle h, int dim, tidei_addr a, tidei_addr b,
                                    tidei_addr c) {
    const tidei_gemm *g = j->g;
    tidei_cuda_data_type type = tidei_cuda_type(g->dtype);
    bool wide = g->dtype == TIDE_F64 || g->dtype == TIDE_C128;
    tidei_cublas_compute compute = wide ? TIDEI_CUBLAS_COMPUTE_64F : TIDEI_CUBLAS_COMPUTE_32F;
    tidei_cublas_operation ta = operation(&g->a), tb = operation(&g->b);
    tidei_factor alpha = tidei_factor_of(g->alpha, g->dtype), beta = tidei_factor_of(g->beta, g->dtype);
    const void *pa = (const void *)(uintptr_t)a, *pb = (const void *)(uintptr_t)b;
    void *pc = (void *)(uintptr_t)c;
    if (dim < 0)
        return j->t->cublasGemmEx_64(h, tb, ta, g->n, g->m, g->k, &alpha, pb, type, g->b.ld, pa, type, g->a.ld,
                                     &beta, pc, type, g->c.ld, compute, TIDEI_CUBLAS_GEMM_DEFAULT);
    return j->t->cublasGemmStridedBatchedEx_64(
        h, tb, ta, g->n, g->m, g->k, &alpha, pb, type, g->b.ld, g->b.batch[dim], pa, type, g->a.ld, g->a.batch[dim],
        &beta, pc, type, g->c.ld, g->c.batch[dim], g->batch[dim], compute, TIDEI_CUBLAS_GEMM_DEFAULT);
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

static tidei_cublas_status all_calls(const job *j, tidei_cublas_handle h, const tidei_window *w) {
    const tidei_gemm *g = j->g;
    size_t size = tide_dtype_size(g->dtype);
    const tidei_matrix *const x[3] = {&g->a, &g->b, &g->c};
    int64_t index[TIDE_MAX_RANK] = {0};
    int inner = inner_dim(g);
    tidei_addr
        at[3]; /* a range begins at the lowest element touched, which with negative strides is not the first */
    for (int i = 0; i < 3; i++) at[i] = w->ranges[i].addr + (size_t)x[i]->offset * size - j->uses[i].offset;
    for (;;) {
        tidei_cublas_status r = one_call(j, h, inner, at[0], at[1], at[2]);
        if (r != TIDEI_CUBLAS_SUCCESS) return r;
        int i = g->nbatch - 1;
        for (; i >= 0; i--) {
            if (i == inner) continue;
            bool more = ++index[i] < g->batch[i];
            int64_t steps = more ? 1 : 1 - g->batch[i];
            for (int k = 0; k < 3; k++) at[k] += (tidei_addr)(x[k]->batch[i] * steps * (int64_t)size);
            if (more) break;
            index[i] = 0;
        }
        if (i < 0) return r;
    }
}

static tide_status call_failed(const job *j, tidei_cublas_status r) {
    tidei_dev *d = j->s->dev;
    size_t free_bytes = 0, total = 0;
    if (d->d->ops->memory(d->d, &free_bytes, &total) != TIDE_OK) return tidei_last_status(); /* lost */
    if (free_bytes < PLENTY) /* loading its kernels takes memory, and it has many words for the lack of it */
        return tidei_fail(TIDE_E_NOMEM, j->op, "cuBLAS: error %u with %zu bytes free on %s", r, free_bytes,
                          d->d->info.name);
    return tidei_fail(TIDE_E_DEVICE, j->op, "cuBLAS: error %u in a product of (%lld, %lld) by (%lld, %lld)", r,
                      (long long)j->g->m, (long long)j->g->k, (long long)j->g->k, (long long)j->g->n);
}

/* Under the handle's lock. */
static tide_status queue(const job *j, tidei_cublas_handle h) {
    tidei_window w;
    context c;
    tide_status status = enter_context(j->s, &c, j->op);
    if (status != TIDE_OK) return status;
    status = tidei_submit_begin(&w, j->s, j->uses, 4, j->op);
    if (status == TIDE_OK) {
        tidei_device *d = j->s->dev->d;
        tidei_cublas_status r = j->t->cublasSetStream_v2(h, d->ops->stream_native(d, j->s->ds));
        if (r == TIDEI_CUBLAS_SUCCESS)
            r = j->t->cublasSetWorkspace_v2(h, (void *)(uintptr_t)w.ranges[3].addr, j->uses[3].bytes);
        if (r == TIDEI_CUBLAS_SUCCESS) r = all_calls(j, h, &w);
        tidei_count_locked(&j->s->launches);
        status = tidei_submit_end(&w, TIDE_OK);
        if (r != TIDEI_CUBLAS_SUCCESS) status = call_failed(j, r);
    }
    leave_context(&c);
    return status;
}

static tide_status attempt(void *arg, unsigned flags) {
    const job *j = arg;
    for (;;) {
        tide_status status = provide(arg, flags);
        if (status != TIDE_OK) return status;
        pthread_mutex_lock(&j->handle->lock);
        tidei_cublas_handle h = j->handle->h;
        if (h) status = queue(j, h);
        pthread_mutex_unlock(&j->handle->lock);
        if (h) return status; /* else a climb that began before the product took it in between */
    }
}

/* Always the same for the same wish, so that results repeat; a small one where memory is short. Under a limit it is a small part
** of that: what makes a product a little faster must not make anything climb. */
tide_status tidei_cublas_workspace(tide_stream *s, double results, const char *op, tidei_storage **out) {
    double want = WORKSPACE_SPLITS * results;
    size_t limit = atomic_load(&s->dev->limit), library = atomic_load(&s->dev->library),
           most = (limit > library ? limit - library : 0) / WORKSPACE_PART / WORKSPACE_MIN * WORKSPACE_MIN;
    most = tidei_min_size(WORKSPACE_MAX, tidei_max_size(most, WORKSPACE_MIN));
    size_t bytes = want >= (double)most ? most : tidei_round_up(tidei_max_size((size_t)want, 1), WORKSPACE_MIN);
    tidei_saved_error before;
    tidei_error_save(&before);
    tide_status status = tidei_storage_new(s->dev, bytes, s, op, out);
    if (status != TIDE_E_NOMEM || bytes <= WORKSPACE_MIN) return status;
    status = tidei_storage_new(s->dev, WORKSPACE_MIN, s, op, out);
    if (status == TIDE_OK) tidei_error_restore(&before);
    return status;
}

static tide_status make_workspace(tide_stream *s, const tidei_gemm *g, const char *op, tidei_storage **out) {
    double bytes = (double)g->m * (double)g->n * (double)tide_dtype_size(g->dtype);
    for (int i = 0; i < g->nbatch; i++) bytes *= (double)g->batch[i];
    return tidei_cublas_workspace(s, bytes, op, out);
}

/* The handle first: a workspace takes what it leaves. */
static tide_status multiply(job *j, const tidei_use uses[3]) {
    tidei_dev *d = j->s->dev;
    tidei_storage *workspace = NULL;
    size_t about = tidei_min_size(HANDLE_BYTES, atomic_load(&d->limit));
    tide_status status = tidei_with_reclaim(d, about, j->op, provide, j);
    if (status == TIDE_OK) status = make_workspace(j->s, j->g, j->op, &workspace);
    if (status != TIDE_OK) return status;
    memcpy(j->uses, uses, 3 * sizeof *uses);
    j->uses[3] =
        (tidei_use){.st = workspace, .offset = 0, .bytes = workspace->bytes, .mode = TIDEI_READ | TIDEI_WRITE};
    status = tidei_with_reclaim(d, about, j->op, attempt, j);
    tidei_storage_release(workspace);
    return status;
}

tide_status tidei_gemm_cuda(tide_stream *s, const tidei_gemm *g, const tidei_use uses[3], const char *op) {
    job j = {.s = s, .g = g, .op = op, .handle = handle_of(s->dev)};
    tide_status status = tidei_cublas_load(op, &j.t);
    for (unsigned i = 0; i < 3 && status == TIDE_OK; i++) /* which may climb: before any lock */
        if (uses[i].st->dev != s->dev) status = tidei_peer_need(s->dev, uses[i].st, op);
    if (status != TIDE_OK) return status;
    tidei_gemm_begin(s->dev);
    status = multiply(&j, uses);
    tidei_gemm_end(s->dev);
    return status;
}
