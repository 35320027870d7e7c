/* upload.c: arrays made from memory that is not pinned, and read back into it, against the driver's
** own copies of the same; by size. What is compared takes turns. */
#include "bench/bench.h"
#include "runtime/device/cuda/device.h"
#include <stdlib.h>
#include <tide/tide.h>

#define ROUNDS BENCH_ROUNDS

typedef struct transfers {
    bench *b;
    tidei_cuda *c;
    size_t bytes;
    void *host;
    tidei_cu_addr at; /* the driver's side */
} transfers;

static double us_since(uint64_t start) { return (double)(tidei_now_ns() - start) / 1000; }

/* Microseconds each way; negative where it fails. */
static double ours(const transfers *x, double *down) {
    const int64_t n = (int64_t)x->bytes;
    if (tide_synchronize(x->b->rt, NULL) != TIDE_OK) return -1;
    uint64_t start = tidei_now_ns();
    tide_array *a = tide_from_host(x->b->rt, TIDE_U8, 1, &n, x->host);
    if (!a || tide_synchronize(x->b->rt, NULL) != TIDE_OK) return -1;
    double up = us_since(start);
    start = tidei_now_ns();
    if (tide_to_host(a, x->host, x->bytes) != TIDE_OK) return -1;
    *down = us_since(start);
    tide_free(a);
    return up;
}

static double drivers(const transfers *x, double *down) {
    const tidei_cu *cu = x->c->cu;
    uint64_t start = tidei_now_ns();
    if (cu->cuMemcpyHtoDAsync(x->at, x->host, x->bytes, NULL) || cu->cuStreamSynchronize(NULL))
        return -1;
    double up = us_since(start);
    start = tidei_now_ns();
    if (cu->cuMemcpyDtoHAsync(x->host, x->at, x->bytes, NULL) || cu->cuStreamSynchronize(NULL))
        return -1;
    *down = us_since(start);
    return up;
}

static bool measure(const transfers *x) {
    double t[4][ROUNDS];
    static const char *const names[] = {"up", "down", "driver_up", "driver_down"};
    size_t mib = x->bytes / TIDEI_MIB;
    for (int r = -2; r < ROUNDS; r++) { /* the first ones make the ring */
        int at = r < 0 ? 0 : r;
        t[0][at] = ours(x, &t[1][at]);
        t[2][at] = drivers(x, &t[3][at]);
        if (t[0][at] < 0 || t[2][at] < 0) return false;
    }
    for (size_t i = 0; i < TIDEI_COUNT(names); i++)
        bench_note(x->b, bench_median(t[i], ROUNDS), "us", "%s_%zuMiB", names[i], mib);
    return true;
}

/* In the context. */
static bool measure_all(bench *b, tidei_cuda *c) {
    static const size_t sizes[] = {4, 16, 64, 256};
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        transfers x = {.b = b, .c = c, .bytes = sizes[i] * TIDEI_MIB};
        if (!(x.host = malloc(x.bytes))) return false;
        memset(x.host, 1, x.bytes);
        bool done = !c->cu->cuMemAlloc(&x.at, x.bytes) && measure(&x);
        if (x.at) c->cu->cuMemFree(x.at);
        free(x.host);
        if (!done) return false;
    }
    return true;
}

int bench_upload(bench *b) {
    if (!bench_open(b, "refcount", NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("host memory is copied by the host");
    tidei_cuda *c = tidei_cuda_of(b->d->d);
    tidei_cu_ctx ours;
    c->cu->cuCtxPushCurrent(c->ctx);
    bool done = measure_all(b, c);
    c->cu->cuCtxPopCurrent(&ours);
    return done ? bench_done(b, "up_256MiB") : bench_failed("copies");
}
