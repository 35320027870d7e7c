/* linalg.c: benchmarks of factorizations and of library handles, against cuSOLVER and cuBLAS called
** directly.
**
** Direct calls are made as the libraries' documentation makes them: a handle of one's own, the
** workspace it asks for from cuMemAlloc, column-major matrices; a matrix that the call overwrites
** is copied first, as we leave ours as they are. What is compared takes turns. */
#include "bench/bench.h"
#include "libs/cusolver.h"
#include "libs/handles.h"
#include "libs/libs.h"
#include "runtime/device/cuda/device.h"
#include <stdlib.h>
#include <tide/tide.h>

#define MIB ((double)TIDEI_MIB)

/* ---- the libraries, called directly ---- */

enum { BLOCKS = 8 };
struct direct {
    tidei_cuda *c;
    tidei_cu_stream stream;
    const tidei_cusolver_table *t;
    tidei_cusolver_handle h;
    tidei_cusolver_params params;
    int64_t n;
    tidei_cu_addr from, a, s, u, v, pivots, info, work; /* the order of `blocks` */
    void *host;
    size_t work_bytes, host_bytes;
    bool svd;
};

static void enter(const struct direct *d) { d->c->cu->cuCtxPushCurrent(d->c->ctx); }
static void leave(const struct direct *d) { d->c->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL}); }

static bool direct_sizes(struct direct *d) {
    const tidei_cuda_data_type f = TIDEI_CUDA_R_32F;
    const int64_t n = d->n;
    return (d->svd ? d->t->cusolverDnXgesvd_bufferSize(d->h, d->params, 'S', 'S', n, n, f, NULL, n,
                                                       f, NULL, f, NULL, n, f, NULL, n, f,
                                                       &d->work_bytes, &d->host_bytes)
                   : d->t->cusolverDnXgetrf_bufferSize(d->h, d->params, n, n, f, NULL, n, f,
                                                       &d->work_bytes, &d->host_bytes)) ==
           TIDEI_CUSOLVER_SUCCESS;
}

/* In the context. */
static bool direct_make(struct direct *d) {
    const size_t matrix = (size_t)(d->n * d->n) * sizeof(float);
    if (d->t->cusolverDnCreate(&d->h) || d->t->cusolverDnSetStream(d->h, d->stream) ||
        d->t->cusolverDnCreateParams(&d->params) || !direct_sizes(d))
        return false;
    const size_t bytes[BLOCKS] = {matrix,
                                  matrix,
                                  (size_t)d->n * sizeof(float),
                                  matrix,
                                  matrix,
                                  (size_t)d->n * sizeof(int64_t),
                                  sizeof(int),
                                  d->work_bytes ? d->work_bytes : 1};
    tidei_cu_addr *const blocks[BLOCKS] = {&d->from, &d->a,      &d->s,    &d->u,
                                           &d->v,    &d->pivots, &d->info, &d->work};
    for (int i = 0; i < BLOCKS; i++)
        if (d->c->cu->cuMemAlloc(blocks[i], bytes[i]) != TIDEI_CU_SUCCESS) return false;
    d->host = malloc(d->host_bytes + 1);
    return d->host != NULL;
}

static bool direct_open(tide_runtime *rt, struct direct *d, int64_t n, bool svd) {
    *d = (struct direct){.c = tidei_cuda_of(tidei_runtime_of(rt)->devs[0].d),
                         .stream = tide_stream_native(tide_stream_current(rt)),
                         .n = n,
                         .svd = svd};
    if (tidei_cusolver_load("bench", &d->t) != TIDE_OK) return false;
    enter(d);
    bool ok = direct_make(d);
    leave(d);
    return ok;
}

static void direct_close(struct direct *d) {
    const tidei_cu_addr blocks[BLOCKS] = {d->from, d->a,      d->s,    d->u,
                                          d->v,    d->pivots, d->info, d->work};
    enter(d);
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i]) d->c->cu->cuMemFree(blocks[i]);
    if (d->params) d->t->cusolverDnDestroyParams(d->params);
    if (d->h) d->t->cusolverDnDestroy(d->h);
    leave(d);
    free(d->host);
}

static bool direct_call(struct direct *d) {
    const tidei_cuda_data_type f = TIDEI_CUDA_R_32F;
    const int64_t n = d->n;
    void *a = (void *)(uintptr_t)d->a, *work = (void *)(uintptr_t)d->work;
    int *info = (int *)(uintptr_t)d->info;
    enter(d);
    bool ok = d->c->cu->cuMemcpyAsync(d->a, d->from, (size_t)(n * n) * sizeof(float), d->stream) ==
              TIDEI_CU_SUCCESS;
    unsigned r = !ok ? 1
                 : d->svd
                     ? d->t->cusolverDnXgesvd(d->h, d->params, 'S', 'S', n, n, f, a, n, f,
                                              (void *)(uintptr_t)d->s, f, (void *)(uintptr_t)d->u,
                                              n, f, (void *)(uintptr_t)d->v, n, f, work,
                                              d->work_bytes, d->host, d->host_bytes, info)
                     : d->t->cusolverDnXgetrf(d->h, d->params, n, n, f, a, n,
                                              (int64_t *)(uintptr_t)d->pivots, f, work,
                                              d->work_bytes, d->host, d->host_bytes, info);
    leave(d);
    return r == TIDEI_CUSOLVER_SUCCESS;
}

static bool direct_wait(const struct direct *d) {
    enter(d);
    tidei_cu_result r = d->c->cu->cuStreamSynchronize(d->stream);
    leave(d);
    return r == TIDEI_CU_SUCCESS;
}

/* The same matrix for both: random, with a diagonal that keeps it from being close to singular. */
static tide_array *matrix(tide_runtime *rt, int64_t n, uint64_t seed) {
    tide_rng rng = {.seed = seed};
    return tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){n, n});
}

static bool direct_fill(struct direct *d, tide_array *a) {
    tide_use use = {.array = a, .mode = TIDE_READ};
    tide_runtime *rt = tide_array_runtime(a);
    tide_use_scope *scope;
    void *at;
    if (tide_use_begin(rt, NULL, &use, 1, &at, &scope) != TIDE_OK) return false;
    enter(d);
    tidei_cu_result r = d->c->cu->cuMemcpyAsync(d->from, (tidei_cu_addr)(uintptr_t)at,
                                                (size_t)(d->n * d->n) * sizeof(float), d->stream);
    leave(d);
    return tide_use_end(scope) == TIDE_OK && r == TIDEI_CU_SUCCESS;
}

/* ---- ours ---- */

static bool ours_lu(tide_array *a) {
    tide_array *lu = NULL, *pivots = NULL;
    if (tide_lu_factor(a, &lu, &pivots) != TIDE_OK) return false;
    tide_free(lu);
    tide_free(pivots);
    return true;
}

static bool ours_svd(tide_array *a) {
    tide_array *u = NULL, *s = NULL, *vh = NULL;
    if (tide_svd(a, TIDE_REDUCED, &u, &s, &vh) != TIDE_OK) return false;
    tide_free(u);
    tide_free(s);
    tide_free(vh);
    return true;
}

/* ---- large ones, and small ones ---- */

/* Nanoseconds a call; with `issue` until the last one is queued, else until it is done. Negative:
** one failed. */
static double timed_ours(tide_runtime *rt, bool (*fn)(tide_array *), tide_array *a, int calls,
                         bool issue) {
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < calls; i++)
        if (!fn(a)) return -1;
    double queued = (double)(tidei_now_ns() - start) / calls;
    if (tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    return issue ? queued : (double)(tidei_now_ns() - start) / calls;
}

static double timed_direct(struct direct *d, int calls, bool issue) {
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < calls; i++)
        if (!direct_call(d)) return -1;
    double queued = (double)(tidei_now_ns() - start) / calls;
    if (!direct_wait(d)) return -1;
    return issue ? queued : (double)(tidei_now_ns() - start) / calls;
}

struct factor {
    const char *name;
    int64_t n;
    bool (*ours)(tide_array *);
    bool svd, issue;
    int calls, rounds;
};

/* Ours and theirs in turn; the figure is a ratio, or for what is issued the difference in
** microseconds. */
static bool compare(bench *b, const struct factor *f) {
    double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], figure[BENCH_ROUNDS];
    struct direct d;
    tide_array *a = matrix(b->rt, f->n, 1);
    bool ok = a && direct_open(b->rt, &d, f->n, f->svd);
    if (ok) ok = direct_fill(&d, a);
    for (int r = -1; r < f->rounds && ok; r++) { /* the first one loads */
        double o = timed_ours(b->rt, f->ours, a, f->calls, f->issue),
               t = timed_direct(&d, f->calls, f->issue);
        ok = o > 0 && t > 0;
        if (r >= 0) ours[r] = o, theirs[r] = t, figure[r] = f->issue ? (o - t) / 1e3 : o / t;
    }
    if (a) direct_close(&d);
    if (!ok) return false;
    size_t n = (size_t)f->rounds;
    bench_note(b, bench_median(ours, n) / 1e3, "us", "%s", f->name);
    bench_note(b, bench_median(theirs, n) / 1e3, "us", "%s_direct", f->name);
    bench_note(b, bench_median(figure, n), f->issue ? "us" : "", "%s_%s", f->name,
               f->issue ? "more" : "ratio");
    return true;
}

int bench_factor(bench *b) {
    static const struct factor large[] = {{"lu_4096", 4096, ours_lu, false, false, 4, 11},
                                          {"lu_8192", 8192, ours_lu, false, false, 2, 7},
                                          /* more rounds: half of it is the host's */
                                          {"svd_2048", 2048, ours_svd, true, false, 1, 15}};
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("cuSOLVER wants cuda");
    for (size_t i = 0; i < TIDEI_COUNT(large); i++)
        if (!compare(b, &large[i])) return bench_failed(large[i].name);
    return bench_done(b, "lu_8192_ratio");
}

int bench_factor_small(bench *b) {
    static const struct factor small[] = {{"lu_32", 32, ours_lu, false, true, 64, BENCH_ROUNDS},
                                          {"svd_32", 32, ours_svd, true, true, 16, BENCH_ROUNDS}};
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("cuSOLVER wants cuda");
    for (size_t i = 0; i < TIDEI_COUNT(small); i++)
        if (!compare(b, &small[i])) return bench_failed(small[i].name);
    return bench_done(b, "lu_32_more");
}

/* ---- first use ---- */

static double first_product(tide_runtime *rt) {
    uint64_t start = tidei_now_ns();
    tide_array *a = matrix(rt, 64, 1), *p = tide_matmul(a, a);
    return p && tide_synchronize(rt, NULL) == TIDE_OK ? (double)(tidei_now_ns() - start) / 1e6 : -1;
}
static double first_solve(tide_runtime *rt) {
    tide_array *a = matrix(rt, 64, 2);
    uint64_t start = tidei_now_ns();
    return a && ours_lu(a) && tide_synchronize(rt, NULL) == TIDE_OK
               ? (double)(tidei_now_ns() - start) / 1e6
               : -1;
}

/* What a process pays for its first call of each library: loading it, a handle, its kernels; and
** for the second call. */
int bench_first_use(bench *b) {
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("the libraries want cuda");
    tidei_dev *d = b->d;
    for (int i = 0; i < 2; i++) {
        double ms = first_product(b->rt);
        if (ms < 0) return bench_failed("tide_matmul");
        bench_note(b, ms, "ms", "cublas_%s", i ? "second" : "first");
    }
    size_t blas = atomic_load(&d->budget->library);
    for (int i = 0; i < 2; i++) {
        double ms = first_solve(b->rt);
        if (ms < 0) return bench_failed("tide_lu_factor");
        bench_note(b, ms, "ms", "cusolver_%s", i ? "second" : "first");
    }
    bench_note(b, (double)blas / MIB, "MiB", "cublas_handle");
    bench_note(b, (double)(atomic_load(&d->budget->library) - blas) / MIB, "MiB",
               "cusolver_handle");
    return bench_done(b, "cusolver_first");
}

/* ---- hoarding ---- */

enum { WORKERS = 8, STREAMS = 4 };
#define SOLVE   4096
#define SVD     2048
#define PRODUCT 2048

typedef struct worker {
    pthread_t thread;
    tide_runtime *rt;
    pthread_barrier_t *pending; /* NULL: ends */
    unsigned number;
    bool ok;
} worker;

static bool work_on(worker *w, unsigned stream) {
    tide_array *a = matrix(w->rt, SOLVE, w->number + 1), *b = matrix(w->rt, PRODUCT, stream + 1);
    tide_array *x = tide_solve(a, a), *p = tide_matmul(b, b);
    bool ok = x && p && (stream != w->number % STREAMS || ours_svd(b));
    tide_free(a);
    tide_free(b);
    tide_free(x);
    tide_free(p);
    return ok;
}

/* Works on four streams, then is pending, as a worker of a server is that nobody asks anything. */
static void *worker_main(void *p) {
    worker *w = p;
    w->ok = true;
    for (unsigned i = 0; i < STREAMS && w->ok; i++) {
        tide_stream *s;
        w->ok = tide_stream_new(w->rt, &s) == TIDE_OK;
        if (!w->ok) break;
        w->ok = tide_stream_set(w->rt, s) == TIDE_OK && work_on(w, i) &&
                tide_synchronize(w->rt, NULL) == TIDE_OK;
        if (tide_stream_set(w->rt, NULL) != TIDE_OK) w->ok = false;
        tide_stream_release(s);
    }
    if (!w->ok) (void)bench_failed("a worker");
    if (w->pending) {
        pthread_barrier_wait(w->pending);
        pthread_barrier_wait(w->pending);
    }
    tide_thread_detach(w->rt);
    return NULL;
}

/* Makes, uses and destroys as many handles as there are workers; directly. */
static bool control(bench *b) {
    struct direct d[WORKERS];
    int opened = 0;
    bool ok = true;
    for (; opened < WORKERS && ok; opened++)
        ok = direct_open(b->rt, &d[opened], opened ? SOLVE : SVD, opened == 0) &&
             direct_call(&d[opened]) && direct_wait(&d[opened]);
    for (int i = 0; i < opened; i++) direct_close(&d[i]);
    return ok;
}

static double used(bench *b) {
    size_t free_bytes = 0, total = 0;
    return b->d->d->ops->memory(b->d->d, &free_bytes, &total) == TIDE_OK
               ? (double)(total - free_bytes) / MIB
               : -1;
}

struct cycle {
    double before, after; /* MiB, the driver's figure; around tide_reclaim */
    size_t library_before, library_after;
    bool ok;
};

static struct cycle cycle(bench *b) {
    struct cycle c = {.ok = true};
    worker w[WORKERS];
    pthread_barrier_t pending;
    pthread_barrier_init(&pending, NULL, WORKERS + 1);
    for (unsigned i = 0; i < WORKERS; i++) {
        w[i] = (worker){.rt = b->rt, .pending = &pending, .number = i};
        if (pthread_create(&w[i].thread, NULL, worker_main, &w[i])) abort();
    }
    pthread_barrier_wait(&pending);
    c.before = used(b);
    c.library_before = atomic_load(&b->d->budget->library);
    c.ok = tide_reclaim(b->rt, TIDE_RECLAIM_DROP, NULL) == TIDE_OK;
    c.after = used(b);
    c.library_after = atomic_load(&b->d->budget->library);
    pthread_barrier_wait(&pending);
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(w[i].thread, NULL);
        c.ok &= w[i].ok;
    }
    pthread_barrier_destroy(&pending);
    return c;
}

static void note_cycle(bench *b, const struct cycle *c, const char *name) {
    bench_note(b, (double)c->library_before / MIB, "MiB", "%s_library", name);
    bench_note(b, c->before, "MiB", "%s_before", name);
    bench_note(b, c->after, "MiB", "%s_after", name);
}

/* Less than a handle for every thread and stream would take, beside what the work itself needs. */
#define TIGHT "3GiB"

/* 8 threads with 4 streams each solve, take an SVD and multiply, and are pending; what is in use on
** the device once all is dropped, against handles that are made, used and destroyed directly. The
** first cycle loads all kernels. The figure is how much more, in MiB, two cycles together leave. */
int bench_hoard(bench *b) {
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("the libraries want cuda");
    struct cycle c[3];
    if (!(c[0] = cycle(b)).ok || !control(b)) return bench_failed("the control");
    double base = used(b);
    bench_note(b, base, "MiB", "control");
    for (int i = 1; i < 3; i++) {
        c[i] = cycle(b);
        if (!c[i].ok) return bench_failed("a cycle");
        note_cycle(b, &c[i], i == 1 ? "first" : "second");
        if (c[i].library_after || c[i].library_before > b->d->rt->set.handle_cache)
            return bench_failed("the cap");
    }
    if (tide_device_set_limit(b->rt, (size_t)3 << 30) != TIDE_OK || !(c[0] = cycle(b)).ok)
        return bench_failed(TIGHT);
    bench_note(b, (double)c[0].library_before / MIB, "MiB", "limited_library");
    double more = c[2].after - base;
    bench_note(b, c[2].after - c[1].after, "MiB", "second_adds");
    bench_note(b, more > 0 ? more : 0, "MiB", "more");
    return bench_done(b, "more");
}

/* ---- workspaces ---- */

/* The singular values of 8192 x 8192 floats: how much of the pool was live at most beyond what
** arrays are, and what is left of it. */
int bench_workspace(bench *b) {
    const int64_t n = (int64_t)bench_or(b->n, 8192);
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("cuSOLVER wants cuda");
    tide_array *a = matrix(b->rt, n, 1), *s = NULL;
    tide_runtime_figures before = {.struct_size = sizeof before}, after = before, end = before;
    if (!a || tide_runtime_info(b->rt, &before) != TIDE_OK) return bench_failed("the matrix");
    tide_runtime_reset_peaks(b->rt);
    uint64_t start = tidei_now_ns();
    if (tide_svd(a, TIDE_REDUCED, NULL, &s, NULL) != TIDE_OK) return bench_failed("tide_svd");
    bench_note(b, (double)(tidei_now_ns() - start) / 1e9, "s", "svd_%lld", (long long)n);
    tide_free(s);
    if (tide_runtime_info(b->rt, &after) != TIDE_OK ||
        tide_reclaim(b->rt, TIDE_RECLAIM_SYNC, NULL) != TIDE_OK ||
        tide_runtime_info(b->rt, &end) != TIDE_OK)
        return bench_failed("tide_runtime_info");
    double copy = (double)n * (double)n * sizeof(float) / MIB;
    bench_note(b, (double)(after.peak_live - before.live) / MIB - copy, "MiB", "workspace");
    bench_note(b, ((double)end.live - (double)before.live) / MIB, "MiB", "left_live");
    bench_note(b, ((double)end.backed - (double)before.live) / MIB, "MiB", "left_backed");
    return bench_done(b, "left_live");
}
