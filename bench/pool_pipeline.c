/* pool_pipeline.c: B7: buffers that pass through k streams, under a limit of k+1 of them.
**
** A producer takes a buffer on its stream, work of fixed length on the next of k consumers' streams
** uses it, and it is given back at once: the host runs far ahead. What could be reached is told by
** k+1 buffers that stay, with an event behind each work: work i takes buffer i mod (k+1), so it
** waits for work i-k-1 and no other. */
#include "arrays/kernels/kernels.h"
#include "arrays/kernels/launch.h"
#include "bench/bench.h"
#include <stdio.h>
#include <time.h>

#define CUDA_BUFFER  (64 * TIDEI_MIB)
#define CUDA_WORK_NS 100000
#define HOST_BUFFER  TIDEI_MIB
#define HOST_WORK_NS 2000000 /* a scheduler's slips do not count beside it */
#define WORKS        640     /* a round; the first few fill the pipe */
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
    TIDEI_GRID_WAIT_TEXT "typedef unsigned long long u64;\n"
                         "struct P { u64 at, ns; };\n"
                         "static __device__ u64 now() { u64 t; asm volatile(\"mov.u64 %0, "
                         "%%globaltimer;\" : \"=l\"(t)); return t; }\n"
                         "extern \"C\" __global__ void spin(const P p) {\n"
                         "    kt_grid_wait();\n"
                         "    u64 start = now();\n"
                         "    if (!threadIdx.x) *(volatile u64 *)p.at = start;\n"
                         "    while (now() - start < p.ns) {}\n"
                         "}\n";
static const tidei_own_kernel spin_kernel = {"spin", spin_text, spin_host, false};

struct pipe {
    bench *b;
    unsigned k, works; /* works: a round */
    size_t bytes;
    uint64_t work_ns;
    tidei_stream *producer, *consumers[STREAMS_MOST];
    uint64_t failed, waits; /* allocations; of the host, while it issued */
    uint64_t climbs;        /* of the reclaim ladder */
    /* the other way: streams, buffers and events around the runtime's back */
    tidei_dkernel *kernel; /* NULL on a host device */
    tidei_dstream *streams[STREAMS_MOST];
    tidei_addr buffers[STREAMS_MOST + 1];
    tidei_devent *used[STREAMS_MOST + 1]; /* each buffer's last use */
};

/* ---- buffers from the pool ---- */

static bool use_buffer(struct pipe *p, tidei_storage *st, unsigned i) {
    static const size_t at = offsetof(struct spin, at);
    tidei_use use = {st, 0, st->bytes, TIDEI_WRITE};
    struct spin params = {.ns = p->work_ns};
    return tide_stream_set(p->b->rt, p->consumers[i % p->k]->ref) == TIDE_OK &&
           tidei_run_own(p->b->d->rt, &spin_kernel, &use, 1, &params, sizeof params, &at, 1,
                         "bench") == TIDE_OK;
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

/* Nanoseconds of all works; < 0: it failed. */
static double run_passed(struct pipe *p) {
    uint64_t start = tidei_now_ns(), waits = atomic_load(&p->b->d->waits->host_waits),
             climbs = atomic_load(&p->b->d->rt->reclaim->climbs);
    for (unsigned i = 0; i < p->works; i++)
        if (!pass_buffer(p, i)) return -1;
    p->waits += atomic_load(&p->b->d->waits->host_waits) - waits;
    p->climbs += atomic_load(&p->b->d->rt->reclaim->climbs) - climbs;
    return tidei_streams_wait_all(p->b->d, true) == TIDE_OK ? (double)(tidei_now_ns() - start) : -1;
}

/* ---- buffers that stay ---- */

static bool reuse_buffer(struct pipe *p, unsigned i) {
    tidei_device *d = p->b->d->d;
    unsigned which = i % (p->k + 1);
    tidei_dstream *s = p->streams[i % p->k];
    struct spin params = {p->buffers[which], p->work_ns};
    tidei_range range = {p->buffers[which], p->bytes, TIDEI_WRITE};
    tidei_launch l = {.name = "spin",
                      .kernel = p->kernel,
                      .host_fn = spin_host,
                      .params = &params,
                      .params_bytes = sizeof params,
                      .grid = {1, 1, 1},
                      .block = {256, 1, 1},
                      .ranges = &range,
                      .nranges = 1};
    if (i > p->k && d->ops->event_wait(d, p->used[which], s) != TIDE_OK) return false;
    return d->ops->launch(d, s, &l) == TIDE_OK &&
           d->ops->event_record(d, p->used[which], s) == TIDE_OK;
}

static double run_fixed(struct pipe *p) {
    tidei_device *d = p->b->d->d;
    uint64_t start = tidei_now_ns();
    for (unsigned i = 0; i < p->works; i++)
        if (!reuse_buffer(p, i)) return -1;
    for (unsigned i = 0; i < p->k; i++)
        if (d->ops->stream_sync(d, p->streams[i]) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start);
}

static bool fixed_make(struct pipe *p) {
    tidei_device *d = p->b->d->d;
    if (bench_on_cuda(p->b) && tidei_kernel_get_fixed(p->b->d, spin_kernel.name, spin_kernel.text,
                                                      "bench", &p->kernel) != TIDE_OK)
        return false;
    for (unsigned i = 0; i < p->k; i++)
        if (d->ops->stream_new(d, &p->streams[i]) != TIDE_OK) return false;
    for (unsigned i = 0; i <= p->k; i++)
        if (d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, p->bytes, &p->buffers[i]) != TIDE_OK ||
            d->ops->event_new(d, &p->used[i]) != TIDE_OK)
            return false;
    return true;
}

/* Of work that is complete, or never began. */
static void fixed_drop(struct pipe *p) {
    tidei_device *d = p->b->d->d;
    for (unsigned i = 0; i < STREAMS_MOST; i++)
        if (p->streams[i]) d->ops->stream_release(d, p->streams[i]);
    for (unsigned i = 0; i <= STREAMS_MOST; i++) {
        if (p->used[i]) d->ops->event_release(d, p->used[i]);
        if (p->buffers[i]) d->ops->raw_free(d, TIDEI_MEM_DEVICE, p->buffers[i], p->bytes);
    }
}

/* ---- the two in turn ---- */

struct outcome {
    /* ideal: memory reserved, of that of the buffers that stay */
    double overlap, fixed_ns, ns, ideal;
};

static bool rounds(struct pipe *p, struct outcome *out) {
    double ours[PIPE_ROUNDS], fixed[PIPE_ROUNDS], overlap[PIPE_ROUNDS];
    for (int r = -1; r < PIPE_ROUNDS; r++) { /* the first one loads and grows */
        double f = run_fixed(p), o = f < 0 ? -1 : run_passed(p);
        if (o < 0) return false;
        if (r < 0) {
            p->failed = p->waits = p->climbs = 0;
            continue;
        }
        ours[r] = o;
        fixed[r] = f;
        overlap[r] = f / o;
    }
    *out = (struct outcome){bench_median(overlap, PIPE_ROUNDS), bench_median(fixed, PIPE_ROUNDS),
                            bench_median(ours, PIPE_ROUNDS),
                            (double)atomic_load(&p->b->d->budget->peak_backed) /
                                (double)((p->k + 1) * p->bytes)};
    return true;
}

static bool open_pipe(bench *b, struct pipe *p) {
    char limit[32];
    if (!bench_open(b, "refcount", NULL, false)) return false;
    bool cuda = bench_on_cuda(b);
    p->bytes = tidei_round_up(bench_or(b->size, cuda ? CUDA_BUFFER : HOST_BUFFER),
                              b->d->d->info.page_bytes);
    p->work_ns = cuda ? CUDA_WORK_NS : HOST_WORK_NS;
    bench_close(b);
    snprintf(limit, sizeof limit, "%zu", (p->k + 1) * p->bytes);
    if (!bench_open(b, "refcount", limit, false)) return false;
    if (tidei_stream_open(b->d, &p->producer) != TIDE_OK) return false;
    for (unsigned i = 0; i < p->k; i++)
        if (tidei_stream_open(b->d, &p->consumers[i]) != TIDE_OK) return false;
    return true;
}

int bench_pipeline(bench *b) {
    static const unsigned streams[] = {2, 4, 8};
    double overlap = 1e9, waits = 0, failed = 0;
    for (size_t i = 0; i < TIDEI_COUNT(streams); i++) {
        struct pipe p = {.b = b, .k = streams[i], .works = (unsigned)bench_or(b->n, WORKS)};
        struct outcome x = {0};
        bench_close(b);
        if (!open_pipe(b, &p)) return bench_failed("tide_open");
        bool ok = fixed_make(&p) && rounds(&p, &x);
        fixed_drop(&p);
        if (!ok) return bench_failed("pipeline");
        bench_note(b, x.fixed_ns / p.works / 1e3, "us/work", "k%u_fixed", p.k);
        bench_note(b, x.ns / p.works / 1e3, "us/work", "k%u_passed_on", p.k);
        bench_note(b, 100 * x.overlap, "%", "k%u_overlap", p.k);
        bench_note(b, x.ideal, "of k+1 buffers", "k%u_reserved", p.k);
        bench_note(b, (double)p.waits, "", "k%u_host_waits", p.k);
        bench_note(b, (double)p.climbs, "", "k%u_climbs", p.k);
        bench_note(b, (double)p.failed, "", "k%u_failed", p.k);
        if (x.overlap < overlap) overlap = x.overlap;
        waits += (double)p.waits;
        failed += (double)p.failed;
    }
    bench_note(b, waits, "", "host_waits");
    bench_note(b, failed, "", "failed");
    bench_note(b, 100 * overlap, "%", "overlap");
    return bench_done(b, "overlap");
}
