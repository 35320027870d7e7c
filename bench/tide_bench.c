/* tide_bench.c: tide-bench NAME [--device D] [--size N]: one benchmark, its figures, and a last line "figure VALUE" that
** bench/bars.txt holds against a bar. Every ratio is taken within one run, between rounds in turn; medians of the rounds.
**   dispatch   issuing a small tide_add, against a bare launch of a kernel with as many parameters (cuda)
**   fused      sqrt(a*a+b*b)*c+a on 2^28 floats, against a device-to-device copy; bytes read plus written
**   sum, sum0, sum1   sums of 16384 x 16384 floats: all, over axis 0, over axis 1, against the same copy
**   transpose  a contiguous transpose of 8192 x 8192 floats, against the same copy
**   matmul     a product of 8192 x 8192 floats, against cuBLAS called directly
**   host-fused            sqrt(a*a+b*b)*c+a on 2^24 floats, against the same loop compiled by gcc -O3 (bench/loop.c)
**   host-sum0, host-sum1  sums of 4096 x 4096 floats, their bandwidth against memcpy's (bytes read plus written)
** Exit 0, 1 failed, 2 bad input, 77 skipped. */
#include <stdio.h>
#include <stdlib.h>
#include "arrays/arrays.h"
#include "bench/loop.h"
#include "libs/cublas.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nvrtc.h"
#include <tide/tide.h>

#define ROUNDS      21
#define HOST_ROUNDS 81 /* neighbours on a processor take their part of its memory's bandwidth, now and then */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static int failed(const char *what) {
    fprintf(stderr, "tide-bench: %s: %s\n", what, tide_last_error()->message);
    return 1;
}
static int skipped(const char *why) {
    fprintf(stderr, "tide-bench: skipped: %s\n", why);
    return 77;
}
static bool on_cuda(tide_runtime *rt) { return rt->devs[0].d->info.flags & TIDEI_DEV_RUNS_TEXT; }

/* ---- dispatch ---- */

#define ISSUES 256 /* below the depth of a launch queue, where issuing would wait for the GPU */

struct bare {
    tidei_cuda *c;
    tidei_cu_function f;
    tidei_cu_stream s;
};
static void bare_launch(struct bare *b) {
    uint64_t params[8] = {0};
    size_t bytes = sizeof params;
    void *extra[] = {(void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER, params,
                     (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_END};
    b->c->cu->cuLaunchKernel(b->f, 4, 1, 1, 256, 1, 1, 0, b->s, NULL, extra);
}

static bool bare_open(tide_runtime *rt, struct bare *b) {
    static const char text[] =
        "struct P { unsigned long long v[8]; };\nextern \"C\" __global__ void bare(P p) {}\n";
    void *cubin;
    size_t bytes;
    tidei_cu_module m;
    *b = (struct bare){tidei_cuda_of(rt->devs[0].d), NULL, tide_stream_native(tide_stream_current(rt))};
    if (tidei_nvrtc_compile(text, "bare", b->c->sm, &cubin, &bytes) != TIDE_OK) return false;
    bool ok = b->c->cu->cuModuleLoadData(&m, cubin) == TIDEI_CU_SUCCESS &&
              b->c->cu->cuModuleGetFunction(&b->f, m, "bare") == TIDEI_CU_SUCCESS;
    free(cubin);
    return ok;
}

/* In the state that a program is in after a while: the memory of earlier rounds' garbage, host memory too, is used again. */
static int dispatch(tide_runtime *rt, int64_t size) {
    double ours[ROUNDS], bare[ROUNDS], ratio[ROUNDS];
    struct bare b;
    if (!on_cuda(rt)) return skipped("a bare launch wants cuda");
    if (!bare_open(rt, &b)) return failed("the bare kernel");
    tide_array *x = tide_ones(rt, TIDE_F32, 1, &size), *y = tide_ones(rt, TIDE_F32, 1, &size);
    for (int r = 0; r < ROUNDS; r++) {
        if (tide_collect(rt) != TIDE_OK) return failed("tide_collect");
        uint64_t t0 = tidei_now_ns();
        for (int i = 0; i < ISSUES; i++)
            if (!tide_add(x, y)) return failed("tide_add");
        uint64_t t1 = tidei_now_ns();
        if (tide_synchronize(rt, NULL) != TIDE_OK) return failed("tide_synchronize");
        uint64_t t2 = tidei_now_ns();
        for (int i = 0; i < ISSUES; i++) bare_launch(&b);
        uint64_t t3 = tidei_now_ns();
        if (tide_device_synchronize(rt) != TIDE_OK) return failed("tide_device_synchronize");
        b.c->cu->cuStreamSynchronize(b.s);
        ours[r] = (double)(t1 - t0) / ISSUES;
        bare[r] = (double)(t3 - t2) / ISSUES;
        ratio[r] = ours[r] / bare[r];
    }
    printf("tide_add of %lld floats: %.0f ns to issue; a bare launch: %.0f ns\nfigure %.3f\n", (long long)size,
           median(ours, ROUNDS), median(bare, ROUNDS), median(ratio, ROUNDS));
    return 0;
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

/* Row-major a * b is the columns' b' * a'. */
static bool product_direct(const struct product *p) {
    const float one = 1, zero = 0;
    const int64_t n = p->x.lay.shape[0];
    const void *a = (const void *)(uintptr_t)p->x.st->addr, *b = (const void *)(uintptr_t)p->y.st->addr;
    p->c->cu->cuCtxPushCurrent(p->c->ctx);
    tidei_cublas_status r =
        p->t->cublasGemmEx_64(p->h, TIDEI_CUBLAS_OP_N, TIDEI_CUBLAS_OP_N, n, n, n, &one, b, TIDEI_CUDA_R_32F, n, a,
                              TIDEI_CUDA_R_32F, n, &zero, (void *)(uintptr_t)p->z.st->addr, TIDEI_CUDA_R_32F, n,
                              TIDEI_CUBLAS_COMPUTE_32F, TIDEI_CUBLAS_GEMM_DEFAULT);
    p->c->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL});
    return r == TIDEI_CUBLAS_SUCCESS;
}

/* As timed, around the runtime's back. */
static double timed_direct(const struct product *p, tide_stream *s) {
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < PRODUCTS; i++)
        if (!product_direct(p)) return -1;
    p->c->cu->cuCtxPushCurrent(p->c->ctx);
    tidei_cu_result r = p->c->cu->cuStreamSynchronize(tide_stream_native(s));
    p->c->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL});
    return r == TIDEI_CU_SUCCESS ? (double)(tidei_now_ns() - start) / PRODUCTS : -1;
}

/* A handle as its documentation makes one, with the workspace that it takes by itself. */
static bool product_open(tide_runtime *rt, struct product *p, int64_t n) {
    const int64_t shape[] = {n, n};
    tide_rng rng = {.seed = 1};
    tide_stream *s = tide_stream_current(rt);
    p->a = tide_random_uniform(rt, &rng, TIDE_F32, 2, shape);
    p->b = tide_random_uniform(rt, &rng, TIDE_F32, 2, shape);
    tide_array *c = tide_zeros(rt, TIDE_F32, 2, shape);
    if (tidei_operand_get(p->a, "bench", &p->x) != TIDE_OK || tidei_operand_get(p->b, "bench", &p->y) != TIDE_OK ||
        tidei_operand_get(c, "bench", &p->z) != TIDE_OK || tidei_cublas_load("bench", &p->t) != TIDE_OK)
        return false;
    p->c = tidei_cuda_of(rt->devs[0].d);
    p->c->cu->cuCtxPushCurrent(p->c->ctx);
    bool ok = p->t->cublasCreate_v2(&p->h) == TIDEI_CUBLAS_SUCCESS &&
              p->t->cublasSetStream_v2(p->h, tide_stream_native(s)) == TIDEI_CUBLAS_SUCCESS;
    p->c->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL});
    return ok;
}

static int product(tide_runtime *rt, int64_t n) {
    struct product p;
    double ours[ROUNDS], direct[ROUNDS], ratio[ROUNDS];
    if (!on_cuda(rt)) return skipped("cuBLAS wants cuda");
    if (!product_open(rt, &p, n)) return failed("the product");
    for (int r = -1; r < ROUNDS; r++) { /* the first one loads */
        double o = timed(rt, product_ours, &p, PRODUCTS), d = timed_direct(&p, tide_stream_current(rt));
        if (o < 0 || d < 0) return failed("tide_matmul");
        if (r >= 0) ours[r] = o, direct[r] = d, ratio[r] = o / d;
    }
    printf("a product of %lld x %lld: %.3f ms; cuBLAS directly: %.3f ms\nfigure %.4f\n", (long long)n, (long long)n,
           median(ours, ROUNDS) / 1e6, median(direct, ROUNDS) / 1e6, median(ratio, ROUNDS));
    return 0;
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
static int against_copy(tide_runtime *rt, work_fn *fn, void *arg, double bytes, const char *name, int64_t floats) {
    struct timing t;
    struct copy c = {tide_zeros(rt, TIDE_F32, 1, &floats), tide_zeros(rt, TIDE_F32, 1, &floats)};
    int n = on_cuda(rt) ? 10 : 1;
    if (!c.dst || !c.src || timed(rt, fn, arg, 2) < 0 || timed(rt, copy_work, &c, 2) < 0) return failed(name);
    for (int r = 0; r < ROUNDS; r++) {
        t.ours[r] = timed(rt, fn, arg, n);
        t.copy[r] = timed(rt, copy_work, &c, n);
        if (t.ours[r] < 0 || t.copy[r] < 0) return failed(name);
    }
    double ours = bytes / median(t.ours, ROUNDS), copy = 8.0 * (double)floats / median(t.copy, ROUNDS);
    printf("%s: %.1f GB/s; a copy: %.1f GB/s\nfigure %.3f\n", name, ours, copy, ours / copy);
    return 0;
}

struct chain {
    tide_expr *e;
    tide_array *a, *b, *c, *out;
};
static bool chain_work(void *arg) {
    struct chain *x = arg;
    const tide_arg args[] = {tide_arg_array(x->a), tide_arg_array(x->b), tide_arg_array(x->c)};
    return tide_apply_into(x->e, args, 3, &x->out, 1) == TIDE_OK;
}
static int fused(tide_runtime *rt, int64_t n) {
    tide_rng rng = {.seed = 3};
    struct chain x = {tide_expr_new(rt, "(a, b, c) -> sqrt(a*a + b*b)*c + a"),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n), tide_zeros(rt, TIDE_F32, 1, &n)};
    if (!x.e || !x.a || !x.b || !x.c || !x.out) return failed("fused");
    return against_copy(rt, chain_work, &x, 16.0 * (double)n, "sqrt(a*a+b*b)*c+a", n);
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
static int sum_along(tide_runtime *rt, int64_t n, int axis) {
    tide_rng rng = {.seed = 4};
    int axes[1] = {axis};
    struct reduction x = {tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){n, n}),
                          axis < 0 ? NULL : axes};
    if (!x.a) return failed("sum");
    char name[64];
    snprintf(name, sizeof name, axis < 0 ? "sum" : "sum over axis %d", axis);
    return against_copy(rt, sum_work, &x, 4.0 * (double)n * (double)n, name, n * n);
}
static int sum_all(tide_runtime *rt, int64_t n) { return sum_along(rt, n, -1); }
static int sum_0(tide_runtime *rt, int64_t n) { return sum_along(rt, n, 0); }
static int sum_1(tide_runtime *rt, int64_t n) { return sum_along(rt, n, 1); }

static int transpose(tide_runtime *rt, int64_t n) {
    tide_rng rng = {.seed = 5};
    struct copy c = {tide_zeros(rt, TIDE_F32, 2, (const int64_t[]){n, n}),
                     tide_transpose(tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){n, n}), NULL)};
    if (!c.dst || !c.src) return failed("transpose");
    return against_copy(rt, copy_work, &c, 8.0 * (double)n * (double)n, "transpose", n * n);
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
static int against_plain(tide_runtime *rt, work_fn *fn, void *arg, plain_fn *other, size_t n, double bytes,
                         double other_bytes, const char *name, const char *other_name) {
    double ours[HOST_ROUNDS], theirs[HOST_ROUNDS], ratio[HOST_ROUNDS];
    struct plain p;
    if (on_cuda(rt)) return skipped("this is about the host device");
    if (!plain_new(&p, n)) return failed("memory");
    bool ok = timed(rt, fn, arg, 2) >= 0;
    other(&p);
    for (int r = 0; r < HOST_ROUNDS && ok; r++) {
        ours[r] = timed(rt, fn, arg, 1);
        theirs[r] = other(&p);
        ratio[r] = bytes / ours[r] / (other_bytes / theirs[r]);
        ok = ours[r] >= 0;
    }
    free(p.out);
    if (!ok) return failed(name);
    printf("%s: %.1f GB/s; %s: %.1f GB/s\nfigure %.3f\n", name, bytes / median(ours, HOST_ROUNDS), other_name,
           other_bytes / median(theirs, HOST_ROUNDS), median(ratio, HOST_ROUNDS));
    return 0;
}

static int host_fused(tide_runtime *rt, int64_t n) {
    tide_rng rng = {.seed = 3};
    struct chain x = {tide_expr_new(rt, "(a, b, c) -> sqrt(a*a + b*b)*c + a"),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n),
                      tide_random_uniform(rt, &rng, TIDE_F32, 1, &n), tide_zeros(rt, TIDE_F32, 1, &n)};
    if (!x.e || !x.a || !x.b || !x.c || !x.out) return failed("host-fused");
    double bytes = 16.0 * (double)n;
    return against_plain(rt, chain_work, &x, timed_loop, (size_t)n, bytes, bytes, "sqrt(a*a+b*b)*c+a", "gcc -O3");
}

static int host_sum(tide_runtime *rt, int64_t n, int axis) {
    tide_rng rng = {.seed = 4};
    struct reduction x = {tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){n, n}), &axis};
    char name[64];
    if (!x.a) return failed("host-sum");
    snprintf(name, sizeof name, "sum over axis %d", axis);
    double bytes = 4.0 * (double)n * (double)n;
    return against_plain(rt, sum_work, &x, timed_memcpy, (size_t)(n * n), bytes, 2 * bytes, name, "memcpy");
}
static int host_sum_0(tide_runtime *rt, int64_t n) { return host_sum(rt, n, 0); }
static int host_sum_1(tide_runtime *rt, int64_t n) { return host_sum(rt, n, 1); }

/* ---- the table ---- */

static const struct {
    const char *name;
    int (*run)(tide_runtime *rt, int64_t size);
    int64_t cuda, host; /* default sizes */
} benches[] = {
    {"dispatch", dispatch, 1024, 1024}, {"fused", fused, (int64_t)1 << 28, (int64_t)1 << 22},
    {"sum", sum_all, 16384, 2048},      {"sum0", sum_0, 16384, 2048},
    {"sum1", sum_1, 16384, 2048},       {"transpose", transpose, 8192, 2048},
    {"matmul", product, 8192, 1},       {"host-fused", host_fused, 1, (int64_t)1 << 24},
    {"host-sum0", host_sum_0, 1, 4096}, {"host-sum1", host_sum_1, 1, 4096},
};

static int usage(void) {
    fprintf(stderr, "usage: tide-bench NAME [--device D] [--size N]; names:");
    for (size_t i = 0; i < TIDEI_COUNT(benches); i++) fprintf(stderr, " %s", benches[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv) {
    tide_config config = {.struct_size = sizeof config};
    long long size = 0;
    size_t which = 0;
    if (argc < 2) return usage();
    while (which < TIDEI_COUNT(benches) && strcmp(benches[which].name, argv[1])) which++;
    if (which == TIDEI_COUNT(benches)) return usage();
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 < argc && !strcmp(argv[i], "--device"))
            config.device = argv[i + 1];
        else if (i + 1 >= argc || strcmp(argv[i], "--size") || (size = atoll(argv[i + 1])) < 1)
            return usage();
    }
    tide_runtime *rt;
    if (tide_open(&config, &rt) != TIDE_OK) return failed("tide_open");
    int status = benches[which].run(rt, size ? size : on_cuda(rt) ? benches[which].cuda : benches[which].host);
    tide_close(rt);
    return status;
}
