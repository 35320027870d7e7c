/* pool_pipeline.c: B7: buffers that pass through k streams, under a limit of k+1 of them.
**
** A producer takes a buffer on its stream, work of fixed length on the next of k consumers' streams uses it, and it is given
** back at once: the host runs far ahead. The same with k+1 buffers that are never given back tells what could be reached:
** work i takes buffer i mod (k+1), so it waits for work i-k-1, whose stream has gone on since. */
#include "arrays/launch.h"
#include "bench/bench.h"
#include <stdio.h>
#include <time.h>

#define CUDA_BUFFER  (64 * TIDEI_MIB)
#define CUDA_WORK_NS 100000
#define HOST_BUFFER  TIDEI_MIB
#define HOST_WORK_NS 2000000 /* a scheduler's slips do not count beside it */
#define WORKS        400     /* a round */
#define PIPE_ROUNDS  5
#define STREAMS_MOST 8

struct spin {
    uint64_t at, ns;
};

/* A host device's streams are threads: more of them than processors can sleep at one time. */
static void spin_host(const void *params) {
    const struct spin *p = params;
    const struct timespec t = {.tv_nsec = (long)p->ns};
    *(volatile uint64_t *)(uintptr_t)p->at = p->ns;
    nanosleep(&t, NULL);
}

static const char spin_text[] =
    "typedef unsigned long long u64;\n"
    "struct P { u64 at, ns; };\n"
    "static __device__ u64 now() { u64 t; asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(t)); return t; }\n"
    "extern \"C\" __global__ void spin(const P p) {\n"
    "    u64 start = now();\n"
    "    if (!threadIdx.x) *(volatile u64 *)p.at = start;\n"
    "    while (now() - start < p.ns) {}\n"
    "}\n";
static const tidei_own_kernel spin_kernel = {"spin", spin_text, spin_host};

struct pipe {
    bench *b;
    unsigned k;
    size_t bytes;
    uint64_t work_ns;
    tide_stream *producer, *consumers[STREAMS_MOST];
    tidei_storage *fixed[STREAMS_MOST + 1];
    uint64_t failed;
};

static bool use_buffer(struct pipe *p, tidei_storage *st, unsigned i) {
    static const size_t at = offsetof(struct spin, at);
    tidei_use use = {st, 0, st->bytes, TIDEI_WRITE};
    struct spin params = {.ns = p->work_ns};
    return tide_stream_set(p->b->rt, p->consumers[i % p->k]) == TIDE_OK &&
           tidei_run_own(p->b->rt, &spin_kernel, &use, 1, &params, sizeof params, &at, 1, "bench") == TIDE_OK;
}

static bool pass_buffer(struct pipe *p, unsigned i) {
    tidei_storage *st;
    tide_status status = tidei_storage_new(p->b->d, p->bytes, p->producer, "bench", &st);
    if (status == TIDE_E_NOMEM) p->failed++;
    if (status != TIDE_OK) return status == TIDE_E_NOMEM;
    bool ok = use_buffer(p, st, i);
    tidei_storage_release(st);
    return ok;
}

static bool reuse_buffer(struct pipe *p, unsigned i) { return use_buffer(p, p->fixed[i % (p->k + 1)], i); }

/* Nanoseconds of all works; < 0: it failed. */
static double run(struct pipe *p, bool (*step)(struct pipe *p, unsigned i)) {
    uint64_t start = tidei_now_ns();
    for (unsigned i = 0; i < WORKS; i++)
        if (!step(p, i)) return -1;
    return tidei_streams_wait_all(p->b->d, true) == TIDE_OK ? (double)(tidei_now_ns() - start) : -1;
}

static bool fixed_make(struct pipe *p) {
    for (unsigned i = 0; i <= p->k; i++)
        if (tidei_storage_new(p->b->d, p->bytes, p->producer, "bench", &p->fixed[i]) != TIDE_OK) return false;
    return true;
}
static void fixed_drop(struct pipe *p) {
    for (unsigned i = 0; i <= STREAMS_MOST; i++) {
        if (p->fixed[i]) tidei_storage_release(p->fixed[i]);
        p->fixed[i] = NULL;
    }
}

struct outcome {
    double overlap, fixed_ns, ns, waits;
};

/* The two in turn. Waits of the host are those of our way alone, while it issues. */
static bool rounds(struct pipe *p, struct outcome *out) {
    double ours[PIPE_ROUNDS], fixed[PIPE_ROUNDS], overlap[PIPE_ROUNDS];
    uint64_t waits = 0;
    for (int r = -1; r < PIPE_ROUNDS; r++) { /* the first one loads and grows */
        bool ok = fixed_make(p);
        double f = ok ? run(p, reuse_buffer) : -1;
        fixed_drop(p);
        uint64_t before = atomic_load(&p->b->d->host_waits);
        double o = f < 0 ? -1 : run(p, pass_buffer);
        if (o < 0) return false;
        if (r < 0) continue;
        /* the end of `run` waits once for each stream that has work left */
        uint64_t more = atomic_load(&p->b->d->host_waits) - before;
        waits += more > p->k ? more - p->k : 0;
        ours[r] = o;
        fixed[r] = f;
        overlap[r] = f / o;
    }
    *out = (struct outcome){bench_median(overlap, PIPE_ROUNDS), bench_median(fixed, PIPE_ROUNDS),
                            bench_median(ours, PIPE_ROUNDS), (double)waits};
    return true;
}

static bool open_pipe(bench *b, struct pipe *p) {
    char limit[32];
    if (!bench_open(b, "refcount", NULL, false)) return false;
    bool cuda = bench_on_cuda(b);
    p->bytes = tidei_round_up(bench_or(b->size, cuda ? CUDA_BUFFER : HOST_BUFFER), b->d->d->info.page_bytes);
    p->work_ns = cuda ? CUDA_WORK_NS : HOST_WORK_NS;
    bench_close(b);
    snprintf(limit, sizeof limit, "%zu", (p->k + 1) * p->bytes);
    if (!bench_open(b, "refcount", limit, false)) return false;
    if (tide_stream_new(b->rt, &p->producer) != TIDE_OK) return false;
    for (unsigned i = 0; i < p->k; i++)
        if (tide_stream_new(b->rt, &p->consumers[i]) != TIDE_OK) return false;
    return true;
}

int bench_pipeline(bench *b) {
    static const unsigned streams[] = {2, 4, 8};
    double overlap = 1e9, waits = 0, failed = 0;
    for (size_t i = 0; i < TIDEI_COUNT(streams); i++) {
        struct pipe p = {.b = b, .k = streams[i]};
        struct outcome x;
        if (b->rt) bench_close(b);
        if (!open_pipe(b, &p)) return bench_failed("tide_open");
        bool ok = rounds(&p, &x);
        fixed_drop(&p);
        if (!ok) return bench_failed("pipeline");
        bench_note(b, x.fixed_ns / WORKS / 1e3, "us/work", "k%u_fixed", p.k);
        bench_note(b, x.ns / WORKS / 1e3, "us/work", "k%u_passed_on", p.k);
        bench_note(b, 100 * x.overlap, "%", "k%u_overlap", p.k);
        bench_note(b, x.waits, "", "k%u_host_waits", p.k);
        bench_note(b, (double)p.failed, "", "k%u_failed", p.k);
        if (x.overlap < overlap) overlap = x.overlap;
        waits += x.waits;
        failed += (double)p.failed;
    }
    bench_note(b, waits, "", "host_waits");
    bench_note(b, failed, "", "failed");
    bench_note(b, 100 * overlap, "%", "overlap");
    return bench_done(b, "overlap");
}
