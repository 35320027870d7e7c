/* arrays.c: benchmarks of arrays: issuing, bandwidth, products; on the host against plain C.
**
** Every ratio is taken within one run, between rounds in turn. */
#include "arrays/arrays.h"
#include "bench/bench.h"
#include "bench/loop.h"
#include "libs/cublas.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nvrtc.h"
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

#define ROUNDS BENCH_ROUNDS
/* neighbours on a processor take their part of its memory's bandwidth, now and then */
#define HOST_ROUNDS 81

/* ---- dispatch ---- */

#define ISSUES 256 /* below the depth of a launch queue, where issuing would wait for the GPU */

struct bare {
    tidei_cuda *c;
    tidei_cu_function f;
    tidei_cu_stream s;
    bool early; /* as ours: it may start while what is before it runs */
};
static void bare_launch(const struct bare *b) {
    uint64_t params[8] = {0};
    size_t bytes = sizeof params;
    void *extra[] = {(void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_END};
    tidei_cu_launch_attribute early = {.id = TIDEI_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION,
                                       .value.programmatic = 1};
    const tidei_cu_config config = {.grid = {4, 1, 1},
                                    .block = {256, 1, 1},
                                    .stream = b->s,
                                    .attributes = &early,
                                    .nattributes = 1};
    if (b->early && b->c->kernels_wait && b->c->cu->cuLaunchKernelEx)
        b->c->cu->cuLaunchKernelEx(&config, b->f, NULL, extra);
    else
        b->c->cu->cuLaunchKernel(b->f, 4, 1, 1, 256, 1, 1, 0, b->s, NULL, extra);
}

static bool bare_open(tide_runtime *rt, struct bare *b) {
    static const char text[] =
        "struct P { unsigned long long v[8]; };\nextern \"C\" __global__ void bare(P p) {}\n";
    void *cubin;
    size_t bytes;
    tidei_cu_module m;
    *b = (struct bare){.c = tidei_cuda_of(tidei_runtime_of(rt)->devs[0].d)};
    if (tidei_nvrtc_compile(text, "bare", b->c->sm, &cubin, &bytes) != TIDE_OK) return false;
    /* a stream of its own: on one that was lent tide_add would start behind all */
    bool ok = b->c->cu->cuStreamCreate(&b->s, TIDEI_CU_STREAM_NON_BLOCKING) == TIDEI_CU_SUCCESS &&
              b->c->cu->cuModuleLoadData(&m, cubin) == TIDEI_CU_SUCCESS &&
              b->c->cu->cuModuleGetFunction(&b->f, m, "bare") == TIDEI_CU_SUCCESS;
    free(cubin);
    return ok;
}

/* Nanoseconds that queueing one takes. */
static double bare_time(struct bare *k, bool early) {
    k->early = early;
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < ISSUES; i++) bare_launch(k);
    uint64_t end = tidei_now_ns();
    k->c->cu->cuStreamSynchronize(k->s);
    return (double)(end - start) / ISSUES;
}

/* Against a plain launch (the bar), and against one that may start early, as those of tide_add do.
** In the state that a program is in after a while: the memory of earlier rounds' garbage, host
** memory too, is used again. */
static int dispatch(bench *b, int64_t size) {
    tide_runtime *rt = b->rt;
    double ours[ROUNDS], bare[ROUNDS], early[ROUNDS], ratio[ROUNDS], over_early[ROUNDS];
    struct bare k;
    if (!bench_on_cuda(b)) return bench_skipped("a bare launch wants cuda");
    if (!bare_open(rt, &k)) return bench_failed("the bare kernel");
    tide_array *x = tide_ones(rt, TIDE_F32, 1, &size), *y = tide_ones(rt, TIDE_F32, 1, &size);
    for (int r = 0; r < ROUNDS; r++) {
        if (tide_collect(rt) != TIDE_OK) return bench_failed("tide_collect");
        uint64_t t0 = tidei_now_ns();
        for (int i = 0; i < ISSUES; i++)
            if (!tide_add(x, y)) return bench_failed("tide_add");
        uint64_t t1 = tidei_now_ns();
        if (tide_synchronize(rt, NULL) != TIDE_OK) return bench_failed("tide_synchronize");
        if (tide_device_synchronize(rt) != TIDE_OK) return bench_failed("tide_device_synchronize");
        ours[r] = (double)(t1 - t0) / ISSUES;
        bare[r] = bare_time(&k, false);
        early[r] = bare_time(&k, true);
        over_early[r] = ours[r] / early[r];
        ratio[r] = ours[r] / bare[r];
    }
    k.c->cu->cuStreamDestroy(k.s);
    bench_note(b, bench_median(ours, ROUNDS), "ns", "tide_add");
    bench_note(b, bench_median(bare, ROUNDS), "ns", "bare_launch");
    bench_note(b, bench_median(early, ROUNDS), "ns", "early_launch");
    bench_note(b, bench_median(over_early, ROUNDS), "", "over_early");
    bench_note(b, bench_median(ratio, ROUNDS), "", "ratio");
    return bench_done(b, "ratio");
}

/* ---- rounds in turn ---- */

/* Nanoseconds of `n` calls of fn, the device's work included. */
typedef bool work_fn(void *arg);
static double timed(tide_runtime *rt, work_fn *fn, void *arg, int n) {
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < n; i++)
        if (!fn(arg)) return -1;
    if (tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start) / n;
}

/* ---- products ---- */

#define PRODUCTS 4 /* of a round: milliseconds each */

struct product {
    tide_array *a, *b;
    tidei_operand x, y, z;
    tidei_cuda *c;
    const tidei_cublas_table *t;
    tidei_cublas_handle h;
};

static bool product_ours(void *arg) {
    const struct product *p = arg;
    tide_array *made = tide_matmul(p->a, p->b);
    tide_free(made);
    return made != NULL;
}

/* Row-major a * b is the columns' b' * a'. In the context. */
static bool product_direct(const struct product *p) {
    const float one = 1, zero = 0;
    const int64_t n = p->x.lay.shape[0];
    const void *a = (const void *)(uintptr_t)p->x.st->addr,
               *b = (const void *)(uintptr_t)p->y.st->addr;
    return p->t->cublasGemmEx_64(
               p->h, TIDEI_CUBLAS_OP_N, TIDEI_CUBLAS_OP_N, n, n, n, &one, b, TIDEI_CUDA_R_32F, n, a,
               TIDEI_CUDA_R_32F, n, &zero, (void *)(uintptr_t)p->z.st->addr, TIDEI_CUDA_R_32F, n,
               TIDEI_CUBLAS_COMPUTE_32F, TIDEI_CUBLAS_GEMM_DEFAULT) == TIDEI_CUBLAS_SUCCESS;
}

/* As timed, around the runtime's back. */
static double timed_direct(const struct product *p, tide_stream *s) {
    bool ok = true;
    p->c->cu->cuCtxPushCurrent(p->c->ctx);
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < PRODUCTS && ok; i++) ok = product_direct(p);
    ok = p->c->cu->cuStreamSynchronize(tide_stream_native(s)) == TIDEI_CU_SUCCESS && ok;
    double each = (double)(tidei_now_ns() - start) / PRODUCTS;
    p->c->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL});
    return ok ? each : -1;
}

/* A handle as its documentation makes one, with the workspace that it takes by itself. */
static bool product_open(tide_runtime *rt, struct product *p, int64_t n) {
    const int64_t shape[] = {n, n};
    tide_rng rng = {.seed = 1};
    tide_stream *s = tide_stream_current(rt);
    p->a = tide_random_uniform(rt, &rng, TIDE_F32, 2, shape);
    p->b = tide_random_uniform(rt, &rng, TIDE_F32, 2, shape);
    tide_array *c = tide_zeros(rt, TIDE_F32, 2, shape);
    if (tidei_operand_get(p->a, "bench", 1, &p->x) != TIDE_OK ||
        tidei_operand_get(p->b, "bench", 1, &p->y) != TIDE_OK ||
        tidei_operand_get(c, "bench", 1, &p->z) != TIDE_OK ||
        tidei_cublas_load("bench", &p->t) != TIDE_OK)
        return false;
    p->c = tidei_cuda_of(tidei_runtime_of(rt)->devs[0].d);
    p->c->cu->cuCtxPushCurrent(p->c->ctx);
    bool ok = p->t->cublasCreate_v2(&p->h) == TIDEI_CUBLAS_SUCCESS &&
              p->t->cublasSetStream_v2(p->h, tide_stream_native(s)) == TIDEI_CUBLAS_SUCCESS;
    p->c->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL});
    return ok;
}

static int product(bench *b, int64_t n) {
    tide_runtime *rt = b->rt;
    struct product p;
    double ours[ROUNDS], direct[ROUNDS], ratio[ROUNDS];
    if (!bench_on_cuda(b)) return bench_skipped("cuBLAS wants cuda");
    if (!product_open(rt, &p, n)) return bench_failed("the product");
    for (int r = -1; r < ROUNDS; r++) { /* the first one loads */
        double o = timed(rt, product_ours, &p, PRODUCTS),
               d = timed_direct(&p, tide_stream_current(rt));
        if (o < 0 || d < 0) return bench_failed("tide_matmul");
        if (r >= 0) ours[r] = o, direct[r] = d, ratio[r] = o / d;
    }
    bench_note(b, bench_median(ours, ROUNDS) / 1e6, "ms", "tide_matmul");
    bench_note(b, bench_median(direct, ROUNDS) / 1e6, "ms", "cublas");
    bench_note(b, bench_median(ratio, ROUNDS), "", "ratio");
    return bench_done(b, "ratio");
}

/* ---- small products ---- What the host spends on one: the device's work is not waited for. */

struct small {
    struct product of;
    tide_array *out;
};

static bool small_direct(void *arg) {
    const struct small *p = arg;
    return product_direct(&p->of);
}
static bool small_ours(void *arg) {
    struct small *p = arg;
    return product_ours(&p->of);
}
static bool small_into(void *arg) {
    const struct small *p = arg;
    return tide_gemm(p->out, tide_arg_int(1), p->of.a, p->of.b, tide_arg_int(0)) == TIDE_OK;
}

/* Nanoseconds that a call takes to return; what it queues is over before and after. */
static double issued(tide_runtime *rt, work_fn *fn, void *arg) {
    if (tide_device_synchronize(rt) != TIDE_OK) return -1;
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < ISSUES; i++)
        if (!fn(arg)) return -1;
    double each = (double)(tidei_now_ns() - start) / ISSUES;
    return tide_device_synchronize(rt) == TIDE_OK ? each : -1;
}

/* The library's call alone: the context is current, the stream set, and the workspace none, as
** ours. With the one that a handle has by itself cuBLAS 13.1 takes 1.5 us more for a call. */
static double issued_direct(tide_runtime *rt, struct small *p) {
    p->of.c->cu->cuCtxPushCurrent(p->of.c->ctx);
    bool ok = p->of.t->cublasSetWorkspace_v2(p->of.h, NULL, 0) == TIDEI_CUBLAS_SUCCESS;
    double each = ok ? issued(rt, small_direct, p) : -1;
    p->of.c->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL});
    return each;
}

static int small(bench *b, int64_t n) {
    tide_runtime *rt = b->rt;
    struct small p = {0};
    double ours[ROUNDS], into[ROUNDS], direct[ROUNDS], more[ROUNDS], more_into[ROUNDS];
    if (!bench_on_cuda(b)) return bench_skipped("cuBLAS wants cuda");
    p.out = tide_zeros(rt, TIDE_F32, 2, (const int64_t[]){n, n});
    if (!product_open(rt, &p.of, n) || !p.out) return bench_failed("the product");
    for (int r = -1; r < ROUNDS; r++) { /* the first one loads */
        double o = issued(rt, small_ours, &p), i = issued(rt, small_into, &p),
               d = issued_direct(rt, &p);
        if (o < 0 || i < 0 || d < 0) return bench_failed("a small product");
        if (r >= 0)
            ours[r] = o, into[r] = i, direct[r] = d, more[r] = (o - d) / 1e3,
            more_into[r] = (i - d) / 1e3;
    }
    bench_note(b, bench_median(ours, ROUNDS) / 1e3, "us", "tide_matmul");
    bench_note(b, bench_median(into, ROUNDS) / 1e3, "us", "tide_gemm");
    bench_note(b, bench_median(direct, ROUNDS) / 1e3, "us", "cublas");
    bench_note(b, bench_median(more_into, ROUNDS), "us", "tide_gemm_more");
    bench_note(b, bench_median(more, ROUNDS), "us", "tide_matmul_more");
    return bench_done(b, "tide_matmul_more");
}

/* ---- bandwidth ---- */

struct timing {
    double ours[ROUNDS], copy[ROUNDS];
};

struct copy {
    tide_array *dst, *src;
};
static bool copy_work(void *arg) {
    struct copy *c = arg;
    return tide_assign(c->dst, c->src) == TIDE_OK;
}

/* The share of a copy's bandwidth that `fn`, moving `bytes`, reaches. */
static int against_copy(bench *b, work_fn *fn, void *arg, double bytes, const char *name,
                        int64_t floats) {
    tide_runtime *rt = b->rt;
    struct timing t;
    struct copy c = {tide_zeros(rt, TIDE_F32, 1, &floats), tide_zeros(rt, TIDE_F32, 1, &floats)};
    int n = bench_on_cuda(b) ? 10 : 1;
    if (!c.dst || !c.src || timed(rt, fn, arg, 2) < 0 || timed(rt, copy_work, &c, 2) < 0)
        return bench_failed(name);
    for (int r = 0; r < ROUNDS; r++) {
        t.ours[r] = timed(rt, fn, arg, n);
        t.copy[r] = timed(rt, copy_work, &c, n);
        if (t.ours[r] < 0 || t.copy[r] < 0) return bench_failed(name);
    }
    double ours = bytes / bench_median(t.ours, ROUNDS),
           copy = 8.0 * (double)floats / bench_median(t.copy, ROUNDS);
    bench_note(b, ours, "GB/s", "%s", name);
    bench_note(b, copy, "GB/s", "copy");
    bench_note(b, ours / copy, "", "ratio");
    return bench_done(b, "ratio");
}

struct chain {
    tide_expr *e;
    tide_array *a, *b, *c, *out;
};
static bool chain_work(void *arg) {
    struct chain *x = arg;
    const tide_arg args[] = {tide_arg_array(x->a), tide_arg_array(x->b), tide_arg_array(x->c)};
    return tide_expr_apply_into(&x->out, 1, x->e, args, 3) == TIDE_OK;
}
static int fused(bench *b, int64_t n) {
    tide_runtime *rt = b->rt;
    tide_rng rng = {.seed = 3};
    struct chain x = {tide_expr_new(rt, "(a, b, c) -> sqrt(a*a + b*b)*c + a"),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_zeros(rt, TIDE_F32, 1, &n)};
    if (!x.e || !x.a || !x.b || !x.c || !x.out) return bench_failed("fused");
    return against_copy(b, chain_work, &x, 16.0 * (double)n, "sqrt_chain", n);
}

struct reduction {
    tide_array *a;
    const int *axes;
};
static bool sum_work(void *arg) {
    struct reduction *x = arg;
    tide_array *s = tide_sum(x->a, x->axes, x->axes ? 1 : 0, 0);
    tide_free(s);
    return s != NULL;
}
static int sum_along(bench *b, int64_t n, int axis) {
    tide_runtime *rt = b->rt;
    tide_rng rng = {.seed = 4};
    int axes[1] = {axis};
    struct reduction x = {tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){n, n}),
                          axis < 0 ? NULL : axes};
    if (!x.a) return bench_failed("sum");
    char name[64];
    snprintf(name, sizeof name, axis < 0 ? "sum" : "sum_axis_%d", axis);
    return against_copy(b, sum_work, &x, 4.0 * (double)n * (double)n, name, n * n);
}
static int sum_all(bench *b, int64_t n) { return sum_along(b, n, -1); }
static int sum_0(bench *b, int64_t n) { return sum_along(b, n, 0); }
static int sum_1(bench *b, int64_t n) { return sum_along(b, n, 1); }

static int transpose(bench *b, int64_t n) {
    tide_runtime *rt = b->rt;
    tide_rng rng = {.seed = 5};
    struct copy c = {
        tide_zeros(rt, TIDE_F32, 2, (const int64_t[]){n, n}),
        tide_transpose(tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){n, n}), NULL)};
    if (!c.dst || !c.src) return bench_failed("transpose");
    return against_copy(b, copy_work, &c, 8.0 * (double)n * (double)n, "transpose", n * n);
}

/* ---- the host against plain C, both on one thread ---- */

struct plain { /* host memory */
    const float *a, *b, *c;
    float *out;
    size_t n;
};
static double timed_loop(const struct plain *p) {
    uint64_t start = tidei_now_ns();
    bench_loop(p->out, p->a, p->b, p->c, p->n);
    return (double)(tidei_now_ns() - start);
}
static double timed_memcpy(const struct plain *p) {
    uint64_t start = tidei_now_ns();
    memcpy(p->out, p->a, p->n * sizeof *p->out);
    __asm__ __volatile__("" : : "r"(p->out) : "memory");
    return (double)(tidei_now_ns() - start);
}

static bool plain_new(struct plain *p, size_t n) {
    float *all = malloc(4 * n * sizeof *all);
    if (!all) return false;
    for (size_t i = 0; i < 4 * n; i++) all[i] = (float)(i % 1000) * 0.001f;
    *p = (struct plain){all + n, all + 2 * n, all + 3 * n, all, n};
    return true;
}

typedef double plain_fn(const struct plain *p);
/* Medians of our time and plain C's, in rounds that take turns. */
static int against_plain(bench *b, work_fn *fn, void *arg, plain_fn *other, size_t n, double bytes,
                         double other_bytes, const char *name, const char *other_name) {
    tide_runtime *rt = b->rt;
    double ours[HOST_ROUNDS], theirs[HOST_ROUNDS], ratio[HOST_ROUNDS];
    struct plain p;
    if (bench_on_cuda(b)) return bench_skipped("this is about the host device");
    if (!plain_new(&p, n)) return bench_failed("memory");
    bool ok = timed(rt, fn, arg, 2) >= 0;
    other(&p);
    for (int r = 0; r < HOST_ROUNDS && ok; r++) {
        ours[r] = timed(rt, fn, arg, 1);
        theirs[r] = other(&p);
        ratio[r] = bytes / ours[r] / (other_bytes / theirs[r]);
        ok = ours[r] >= 0;
    }
    free(p.out);
    if (!ok) return bench_failed(name);
    bench_note(b, bytes / bench_median(ours, HOST_ROUNDS), "GB/s", "%s", name);
    bench_note(b, other_bytes / bench_median(theirs, HOST_ROUNDS), "GB/s", "%s", other_name);
    bench_note(b, bench_median(ratio, HOST_ROUNDS), "", "ratio");
    return bench_done(b, "ratio");
}

static int host_fused(bench *b, int64_t n) {
    tide_runtime *rt = b->rt;
    tide_rng rng = {.seed = 3};
    struct chain x = {tide_expr_new(rt, "(a, b, c) -> sqrt(a*a + b*b)*c + a"),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_zeros(rt, TIDE_F32, 1, &n)};
    if (!x.e || !x.a || !x.b || !x.c || !x.out) return bench_failed("host-fused");
    double bytes = 16.0 * (double)n;
    return against_plain(b, chain_work, &x, timed_loop, (size_t)n, bytes, bytes, "sqrt_chain",
                         "gcc_O3");
}

static int host_sum(bench *b, int64_t n, int axis) {
    tide_runtime *rt = b->rt;
    tide_rng rng = {.seed = 4};
    struct reduction x = {tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){n, n}),
                          &axis};
    char name[64];
    if (!x.a) return bench_failed("host-sum");
    snprintf(name, sizeof name, "sum_axis_%d", axis);
    double bytes = 4.0 * (double)n * (double)n;
    return against_plain(b, sum_work, &x, timed_memcpy, (size_t)(n * n), bytes, 2 * bytes, name,
                         "memcpy");
}
static int host_sum_0(bench *b, int64_t n) { return host_sum(b, n, 0); }
static int host_sum_1(bench *b, int64_t n) { return host_sum(b, n, 1); }

/* ---- with the sizes that a device is worth ---- */

static int on_arrays(bench *b, int (*run)(bench *b, int64_t size), int64_t cuda, int64_t host) {
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    return run(b, b->size ? (int64_t)b->size : bench_on_cuda(b) ? cuda : host);
}
int bench_dispatch(bench *b) { return on_arrays(b, dispatch, 1024, 1024); }
int bench_fused(bench *b) { return on_arrays(b, fused, (int64_t)1 << 28, (int64_t)1 << 22); }
int bench_sum(bench *b) { return on_arrays(b, sum_all, 16384, 2048); }
int bench_sum0(bench *b) { return on_arrays(b, sum_0, 16384, 2048); }
int bench_sum1(bench *b) { return on_arrays(b, sum_1, 16384, 2048); }
int bench_transpose(bench *b) { return on_arrays(b, transpose, 8192, 2048); }
int bench_matmul(bench *b) { return on_arrays(b, product, 8192, 1); }
int bench_gemm_small(bench *b) { return on_arrays(b, small, 32, 32); }
int bench_host_fused(bench *b) { return on_arrays(b, host_fused, 1, (int64_t)1 << 24); }
int bench_host_sum0(bench *b) { return on_arrays(b, host_sum_0, 1, 4096); }
int bench_host_sum1(bench *b) { return on_arrays(b, host_sum_1, 1, 4096); }
