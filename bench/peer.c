/* peer.c: how fast an array gets from one device to another, against what the driver does with as
** many bytes.
**
** With peer access: against one cuMemcpyPeerAsync between blocks that the driver gave. Staged
** (--staged: the devices are kept from each other's memory): against the slower of the two ways
** through the host, pinned memory to or from a device by itself, which is what a copy in two steps
** could reach if both went on at once. What is compared takes turns. */
#include "bench/bench.h"
#include "runtime/device/cuda/device.h"
#include <tide/tide.h>

#define ARRAY  TIDEI_GIB
#define COPIES 4 /* of a round: milliseconds each */
#define ROUNDS BENCH_ROUNDS

/* The driver's side: a stream and a block on each device, pinned memory between them. */
struct rig {
    tidei_cuda *c[2];
    const tidei_cu *cu;
    tidei_cu_stream stream[2];
    tidei_cu_addr block[2];
    void *pinned;
    size_t bytes;
};

static void enter(const struct rig *g, int device) { g->cu->cuCtxPushCurrent(g->c[device]->ctx); }
static void leave(const struct rig *g) { g->cu->cuCtxPopCurrent(&(tidei_cu_ctx){NULL}); }

static bool rig_open(struct rig *g, bench *b, size_t bytes) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    *g = (struct rig){.c = {tidei_cuda_of(b->d->rt->devs[0].d), tidei_cuda_of(b->d->rt->devs[1].d)},
                      .bytes = bytes};
    g->cu = g->c[0]->cu;
    for (int i = 0; i < 2 && r == TIDEI_CU_SUCCESS; i++) {
        enter(g, i);
        r = g->cu->cuStreamCreate(&g->stream[i], TIDEI_CU_STREAM_NON_BLOCKING);
        if (r == TIDEI_CU_SUCCESS) r = g->cu->cuMemAlloc(&g->block[i], bytes);
        if (r == TIDEI_CU_SUCCESS && !i && b->staged)
            r = g->cu->cuMemHostAlloc(&g->pinned, bytes, TIDEI_CU_MEMHOSTALLOC_PORTABLE);
        leave(g);
    }
    return r == TIDEI_CU_SUCCESS;
}

static void rig_close(const struct rig *g) {
    for (int i = 0; i < 2; i++) {
        enter(g, i);
        if (g->block[i]) g->cu->cuMemFree(g->block[i]);
        if (g->stream[i]) g->cu->cuStreamDestroy(g->stream[i]);
        if (g->pinned && !i) g->cu->cuMemFreeHost(g->pinned);
        leave(g);
    }
}

typedef tidei_cu_result copy_fn(const struct rig *g);
static tidei_cu_result across(const struct rig *g) {
    return g->cu->cuMemcpyPeerAsync(g->block[1], g->c[1]->ctx, g->block[0], g->c[0]->ctx, g->bytes,
                                    g->stream[1]);
}
static tidei_cu_result to_host(const struct rig *g) {
    return g->cu->cuMemcpyDtoHAsync(g->pinned, g->block[0], g->bytes, g->stream[0]);
}
static tidei_cu_result from_host(const struct rig *g) {
    return g->cu->cuMemcpyHtoDAsync(g->block[1], g->pinned, g->bytes, g->stream[1]);
}

/* Nanoseconds of a copy on a device's stream; negative: it failed. */
static double timed(const struct rig *g, int device, copy_fn *copy) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    enter(g, device);
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < COPIES && r == TIDEI_CU_SUCCESS; i++) r = copy(g);
    if (r == TIDEI_CU_SUCCESS) r = g->cu->cuStreamSynchronize(g->stream[device]);
    double ns = (double)(tidei_now_ns() - start) / COPIES;
    leave(g);
    return r == TIDEI_CU_SUCCESS ? ns : -1;
}

/* The same of tide_copy; this thread is on device 1. */
static double timed_ours(tide_runtime *rt, tide_array *a) {
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < COPIES; i++) {
        tide_array *made = tide_copy(a);
        bool there = made && tide_array_device(made) == 1;
        tide_free(made);
        if (!there) return -1;
    }
    if (tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start) / COPIES;
}

/* What the driver takes for as much: of two ways, which are noted, the slower one. */
struct theirs {
    double across[ROUNDS], to_host[ROUNDS], from_host[ROUNDS];
};
static double timed_theirs(const struct rig *g, struct theirs *t, int round) {
    if (!g->pinned) return t->across[round] = timed(g, 1, across);
    double down = t->to_host[round] = timed(g, 0, to_host),
           up = t->from_host[round] = timed(g, 1, from_host);
    return down < 0 || up < 0 ? -1 : down > up ? down : up;
}

static void note_rate(bench *b, double *ns, size_t bytes, const char *name) {
    bench_note(b, (double)bytes / bench_median(ns, ROUNDS), "GB/s", "%s", name);
}

static int run(bench *b, const struct rig *g, tide_array *a) {
    double ours[ROUNDS], ratio[ROUNDS];
    struct theirs t;
    for (int r = -1; r < ROUNDS; r++) { /* the first one takes memory, and makes staging ready */
        int at = r < 0 ? 0 : r;
        ours[at] = timed_ours(b->rt, a);
        double theirs = timed_theirs(g, &t, at);
        if (ours[at] < 0) return bench_failed("tide_copy");
        if (theirs < 0) return bench_failed("the driver's copy");
        ratio[at] = theirs / ours[at];
    }
    note_rate(b, ours, g->bytes, "tide_copy");
    if (g->pinned) {
        note_rate(b, t.to_host, g->bytes, "to_host");
        note_rate(b, t.from_host, g->bytes, "from_host");
    } else
        note_rate(b, t.across, g->bytes, "cuMemcpyPeerAsync");
    bench_note(b, bench_median(ratio, ROUNDS), "", "ratio");
    return bench_done(b, "ratio");
}

/* Also for the driver's blocks, and both ways: without it its copy would go through the host. */
static bool enable(bench *b) {
    tidei_device *from = b->d->rt->devs[0].d, *to = b->d->rt->devs[1].d;
    return to->ops->peer_enable(to, from) == TIDE_OK && from->ops->peer_enable(from, to) == TIDE_OK;
}

static bool possible(bench *b) {
    tidei_device *from = b->d->rt->devs[0].d, *to = b->d->rt->devs[1].d;
    return to->ops->peer_possible(to, from) && from->ops->peer_possible(from, to);
}

int bench_peer(bench *b) {
    size_t bytes = tidei_round_up(bench_or(b->size, ARRAY), sizeof(float));
    int64_t floats = (int64_t)(bytes / sizeof(float));
    struct rig g;
    if (!bench_open(b, "refcount", NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b) || tide_device_count(b->rt) < 2)
        return bench_skipped("it wants two cuda devices");
    if (tide_device_set(b->rt, 0) != TIDE_OK) return bench_failed("tide_device_set");
    tide_array *a = tide_ones(b->rt, TIDE_F32, 1, &floats);
    if (!a || tide_synchronize(b->rt, NULL) != TIDE_OK || tide_device_set(b->rt, 1) != TIDE_OK)
        return bench_failed("an array on device 0");
    if (!b->staged && !possible(b))
        return bench_skipped("the devices cannot use each other's memory");
    if (!b->staged && !enable(b)) return bench_failed("peer_enable");
    int status = rig_open(&g, b, bytes) ? run(b, &g, a) : bench_failed("the driver's blocks");
    rig_close(&g);
    tide_free(a);
    return status;
}
