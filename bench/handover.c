/* handover.c: what it costs the host that an array goes from stream to stream: small fills of one
** array on two streams in turn, each of which waits on the device for the one before, against fills
** of two arrays, each on its own stream. Few enough at a time that no queue is full. */
#include "bench/bench.h"
#include "runtime/memory/storage.h"

#define TIMES 500 /* between two waits; 10^4 in all rounds */
#define BYTES ((size_t)4096)

typedef struct pair {
    tidei_stream *s[2];
    tidei_storage *st[2];
    uint64_t host_waits; /* in all fills so far */
} pair;

/* Nanoseconds a fill; -1 on failure. `shared`: of one array. */
static double fills(pair *p, bool shared) {
    unsigned char zero = 0;
    tide_status status = TIDE_OK;
    tidei_dev *d = p->s[0]->dev;
    uint64_t waits = atomic_load(&d->waits->host_waits), start = tidei_now_ns();
    for (unsigned i = 0; i < TIMES && status == TIDE_OK; i++)
        status =
            tidei_submit_fill(p->s[i % 2], p->st[shared ? 0 : i % 2], 0, &zero, 1, BYTES, "bench");
    double ns = (double)(tidei_now_ns() - start) / TIMES;
    p->host_waits += atomic_load(&d->waits->host_waits) - waits;
    if (status == TIDE_OK) status = tidei_streams_wait_all(d, true);
    return status == TIDE_OK ? ns : -1;
}

static bool pair_new(bench *b, pair *p) {
    *p = (pair){0};
    for (unsigned i = 0; i < 2; i++)
        if (tidei_stream_open(b->d, &p->s[i]) != TIDE_OK ||
            tidei_storage_new(b->d, BYTES, p->s[i], "bench", &p->st[i]) != TIDE_OK)
            return false;
    return true;
}
static void pair_drop(const pair *p) {
    for (unsigned i = 0; i < 2; i++) {
        if (p->st[i]) tidei_storage_release(p->st[i]);
        if (p->s[i]) tidei_stream_drop(p->s[i]);
    }
}

static bool measure(bench *b, pair *p) {
    double apart[BENCH_ROUNDS], shared[BENCH_ROUNDS];
    uint64_t device_waits = 0;
    for (int r = -1; r < BENCH_ROUNDS; r++) { /* the first one makes events and kernels */
        double x = fills(p, false);
        uint64_t before = atomic_load(&b->d->waits->device_waits);
        double y = fills(p, true);
        if (x < 0 || y < 0) return false;
        device_waits = atomic_load(&b->d->waits->device_waits) - before;
        if (r < 0) continue;
        apart[r] = x;
        shared[r] = y;
    }
    double one = bench_median(apart, BENCH_ROUNDS), two = bench_median(shared, BENCH_ROUNDS);
    bench_note(b, one, "ns", "apart");
    bench_note(b, two, "ns", "handed_over");
    bench_note(b, (two - one) / 1e3, "us", "hand_over");
    bench_note(b, (double)device_waits / TIMES, "", "waits_each");
    bench_note(b, (double)p->host_waits, "", "host_waits");
    return true;
}

int bench_handover(bench *b) {
    pair p;
    if (!bench_open(b, "refcount", NULL, false)) return bench_failed("tide_open");
    bool ok = pair_new(b, &p) && measure(b, &p);
    pair_drop(&p);
    return ok ? bench_done(b, "hand_over") : bench_failed("handover");
}
