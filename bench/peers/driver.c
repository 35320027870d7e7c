/* driver.c: peer-driver NAME max|default|raw [--traces DIR]: CUDA's stream-ordered pools on the
** workloads of tide-bench pair, random, threads and trace: a pool of its own with the release
** threshold at its maximum or at its default of 0; raw is cuMemAlloc and cuMemFree. One JSON object
** with the figures' names as tide-bench has them. Exit 0, 1 failed, 2 bad input, 77 skipped: there
** is no GPU. */
#include "bench/bench.h"
#include "runtime/device/cuda/driver.h"
#include "tools/tide/replay.h"
#include <stdio.h>

#define RESERVED_HIGH 6 /* CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH; writing 0 resets it */
#define ROUNDS        5

typedef struct peer {
    const tidei_cu *cu;
    tidei_cu_ctx ctx;
    tidei_cu_pool pool; /* NULL: raw */
    tidei_cu_stream s;
    const char *traces;
} peer;

static bool ok(const peer *p, tidei_cu_result r, const char *what) {
    if (r == TIDEI_CU_SUCCESS) return true;
    fprintf(stderr, "peer-driver: %s: %s\n", what, tidei_cu_name(p->cu, r));
    return false;
}

static inline bool take(const peer *p, size_t bytes, tidei_cu_stream s, tidei_cu_addr *out) {
    tidei_cu_result r = p->pool ? p->cu->cuMemAllocFromPoolAsync(out, bytes, p->pool, s)
                                : p->cu->cuMemAlloc(out, bytes);
    return tidei_likely(r == TIDEI_CU_SUCCESS) || ok(p, r, "allocating");
}
static inline bool give(const peer *p, tidei_cu_addr at, tidei_cu_stream s) {
    tidei_cu_result r = p->pool ? p->cu->cuMemFreeAsync(at, s) : p->cu->cuMemFree(at);
    return tidei_likely(r == TIDEI_CU_SUCCESS) || ok(p, r, "freeing");
}
static bool settle(const peer *p, tidei_cu_stream s) {
    return ok(p, p->cu->cuStreamSynchronize(s), "cuStreamSynchronize");
}

/* ---- B1 ---- */

static bool pairs(const peer *p, size_t bytes, size_t n, tidei_cu_stream s) {
    tidei_cu_addr at;
    for (size_t i = 0; i < n; i++)
        if (!take(p, bytes, s, &at) || !give(p, at, s)) return false;
    return true;
}

static bool run_pair(const peer *p, bench *b) {
    static const struct {
        size_t bytes;
        const char *name;
    } sizes[] = {{256, "256B"},       {4 * TIDEI_KIB, "4KiB"},   {64 * TIDEI_KIB, "64KiB"},
                 {TIDEI_MIB, "1MiB"}, {16 * TIDEI_MIB, "16MiB"}, {256 * TIDEI_MIB, "256MiB"},
                 {TIDEI_GIB, "1GiB"}};
    size_t n = p->pool ? 10000 : 50;
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        double ns[ROUNDS];
        for (unsigned r = 0; r < ROUNDS; r++) {
            if (!pairs(p, sizes[i].bytes, 1, p->s)) return false; /* grows */
            uint64_t start = tidei_now_ns();
            if (!pairs(p, sizes[i].bytes, n, p->s)) return false;
            ns[r] = (double)(tidei_now_ns() - start) / (double)n;
            if (!settle(p, p->s)) return false;
        }
        bench_note(b, bench_median(ns, ROUNDS), "ns", "%s", sizes[i].name);
    }
    return true;
}

/* ---- B2 ---- */

static bool steps(const peer *p, const workload_step *x, size_t n, tidei_cu_addr *at) {
    for (size_t i = 0; i < n; i++)
        if (x[i].bytes ? !take(p, x[i].bytes, p->s, &at[x[i].slot]) : !give(p, at[x[i].slot], p->s))
            return false;
    return true;
}

static bool random_set(const peer *p, bench *b, size_t n) {
    workload w;
    double ns[ROUNDS];
    if (!workload_random(n, 4 * TIDEI_MIB, &w)) return false;
    tidei_cu_addr *at = calloc(w.slots, sizeof *at);
    bool fine = at != NULL;
    for (int r = -1; r < ROUNDS && fine; r++) { /* the first one grows */
        uint64_t start = tidei_now_ns();
        fine = steps(p, w.steps, w.n, at);
        if (r >= 0) ns[r] = (double)(tidei_now_ns() - start) / (double)w.n;
        fine = fine && steps(p, w.steps + w.n, w.tail, at) && settle(p, p->s);
    }
    free(at);
    free(w.steps);
    if (fine) bench_note(b, bench_median(ns, ROUNDS), "ns", "n%zu", n);
    return fine;
}

static bool run_random(const peer *p, bench *b) {
    return random_set(p, b, 1000) && random_set(p, b, 10000) &&
           (!p->pool || random_set(p, b, 100000));
}

/* ---- B4 ---- */

#define THREADS_MAX 16
#define LIVE        1000

typedef struct worker {
    const peer *p;
    tidei_cu_stream s;
    size_t pairs;
    bool mixed, ok;
    uint64_t seed;
    pthread_barrier_t *start;
    uint64_t began_ns, ended_ns;
} worker;

static bool mixed_pairs(worker *w) {
    tidei_cu_addr *live = calloc(LIVE, sizeof *live);
    bool fine = live != NULL;
    for (size_t i = 0; i < w->pairs && fine; i++) {
        tidei_cu_addr *x = &live[workload_dice(&w->seed) % LIVE];
        fine =
            (!*x || give(w->p, *x, w->s)) && take(w->p, workload_spread(&w->seed, 8, 20), w->s, x);
    }
    for (size_t i = 0; live && i < LIVE; i++)
        fine = (!live[i] || give(w->p, live[i], w->s)) && fine;
    free(live);
    return fine;
}

static void *thread_main(void *arg) {
    worker *w = arg;
    bool current = ok(w->p, w->p->cu->cuCtxSetCurrent(w->p->ctx), "cuCtxSetCurrent");
    pthread_barrier_wait(w->start);
    w->began_ns = tidei_now_ns();
    w->ok = current && (w->mixed ? mixed_pairs(w) : pairs(w->p, 64 * TIDEI_KIB, w->pairs, w->s));
    w->ended_ns = tidei_now_ns();
    return NULL;
}

/* Pairs a second of all threads together; < 0: it failed. */
static double crowd(const peer *p, unsigned n, bool mixed, tidei_cu_stream *streams) {
    worker w[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    pthread_barrier_t start;
    uint64_t first = UINT64_MAX, last = 0;
    size_t each = 64000 / n;
    bool fine = true;
    pthread_barrier_init(&start, NULL, n);
    for (unsigned i = 0; i < n; i++) {
        w[i] = (worker){
            .p = p, .s = streams[i], .pairs = each, .mixed = mixed, .seed = i + 1, .start = &start};
        /* the others wait for it */
        if (pthread_create(&threads[i], NULL, thread_main, &w[i])) exit(1);
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        fine = fine && w[i].ok;
        first = w[i].began_ns < first ? w[i].began_ns : first;
        last = w[i].ended_ns > last ? w[i].ended_ns : last;
    }
    pthread_barrier_destroy(&start);
    return fine ? (double)(each * n) * 1e9 / (double)(last - first) : -1;
}

static bool run_threads(const peer *p, bench *b) {
    tidei_cu_stream streams[THREADS_MAX];
    for (unsigned i = 0; i < THREADS_MAX; i++)
        if (!ok(p, p->cu->cuStreamCreate(&streams[i], TIDEI_CU_STREAM_NON_BLOCKING),
                "cuStreamCreate"))
            return false;
    for (unsigned n = 1; n <= THREADS_MAX; n *= 2)
        for (int mixed = 0; mixed < 2; mixed++) {
            double rate[ROUNDS];
            for (int r = -1; r < ROUNDS; r++) {
                double one = crowd(p, n, mixed, streams);
                if (one < 0) return false;
                if (r >= 0) rate[r] = one;
            }
            bench_note(b, bench_median(rate, ROUNDS), "pairs/s", mixed ? "mixed_t%u" : "own_t%u",
                       n);
        }
    return true;
}

/* ---- B5 ---- */

#define COPIES_MAX 4

static bool event(const peer *p, const tidei_event *e, tidei_cu_addr *blocks, tidei_cu_stream s) {
    tidei_cu_addr *at = &blocks[e->block];
    if (e->op == TIDEI_EVENT_SYNC) return settle(p, s);
    if (e->op == TIDEI_EVENT_ALLOC) return !e->bytes || take(p, e->bytes, s, at);
    if (*at && !give(p, *at, s)) return false;
    *at = 0;
    return true;
}

/* Copies that start one after the other and take turns event by event, as in
** tools/tide/replay.h. */
static bool turns(const peer *p, const tidei_trace *t, unsigned copies, tidei_cu_addr **blocks,
                  tidei_cu_stream *s) {
    for (size_t at = 0; at < t->n + t->n * (copies - 1) / copies; at++)
        for (unsigned j = 0; j < copies; j++) {
            size_t i = at - t->n * j / copies; /* wraps for one that has not started */
            if (i < t->n && !event(p, &t->events[i], blocks[j], s[j])) return false;
        }
    return true;
}

static bool empty(const peer *p, const tidei_trace *t, unsigned copies, tidei_cu_addr **blocks,
                  tidei_cu_stream *s) {
    for (unsigned j = 0; j < copies; j++) {
        for (size_t i = 0; i < t->blocks; i++) {
            if (blocks[j][i] && !give(p, blocks[j][i], s[j])) return false;
            blocks[j][i] = 0;
        }
        if (!settle(p, s[j])) return false;
    }
    return true;
}

static bool play(const peer *p, bench *b, const char *name, const tidei_trace *t, unsigned copies) {
    tidei_cu_addr *blocks[COPIES_MAX] = {0};
    tidei_cu_stream s[COPIES_MAX];
    uint64_t high = 0, zero = 0;
    double ns[ROUNDS];
    bool fine = true;
    for (unsigned j = 0; j < copies && fine; j++) {
        blocks[j] = calloc(t->blocks + 1, sizeof *blocks[j]);
        fine = blocks[j] &&
               ok(p, p->cu->cuStreamCreate(&s[j], TIDEI_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    }
    for (int r = -1; r < ROUNDS && fine; r++) {
        if (p->pool)
            fine = ok(p, p->cu->cuMemPoolSetAttribute(p->pool, RESERVED_HIGH, &zero), "resetting");
        uint64_t start = tidei_now_ns();
        fine = fine && turns(p, t, copies, blocks, s);
        if (r >= 0) ns[r] = (double)(tidei_now_ns() - start) / (double)(t->n * copies);
        fine = fine && empty(p, t, copies, blocks, s);
    }
    if (fine && p->pool)
        fine = ok(p, p->cu->cuMemPoolGetAttribute(p->pool, RESERVED_HIGH, &high), "reading");
    for (unsigned j = 0; j < COPIES_MAX; j++) free(blocks[j]);
    if (!fine) return false;
    bench_note(b, bench_median(ns, ROUNDS), "ns/event", "%s_x%u_ns", name, copies);
    if (p->pool)
        bench_note(b, (double)high / (double)tidei_replay_peak(t, copies), "", "%s_x%u_ratio", name,
                   copies);
    return !p->pool || ok(p, p->cu->cuMemPoolTrimTo(p->pool, 0), "cuMemPoolTrimTo");
}

static bool run_trace(const peer *p, bench *b) {
    static const struct {
        const char *name, *file;
    } traces[] = {{"gpt2", "gpt2-train-varlen"},
                  {"resnet50", "resnet50-train-varbatch"},
                  {"lstm", "lstm-train-unrolled"},
                  {"linalg", "linalg-mix"}};
    for (size_t i = 0; i < TIDEI_COUNT(traces); i++) {
        char path[4096];
        tidei_trace t;
        snprintf(path, sizeof path, "%s/%s.csv.gz", p->traces, traces[i].file);
        if (tidei_trace_read(path, &t) != TIDE_OK) return bench_failed("--traces") == 0;
        bool fine = play(p, b, traces[i].name, &t, 1) && play(p, b, traces[i].name, &t, COPIES_MAX);
        tidei_trace_clear(&t);
        if (!fine) return false;
    }
    return true;
}

/* ---- the program ---- */

static bool open_pool(peer *p, const char *kind) {
    tidei_cu_pool_props props = {.type = TIDEI_CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {TIDEI_CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    uint64_t threshold = strcmp(kind, "max") ? 0 : UINT64_MAX;
    if (!strcmp(kind, "raw")) return true;
    return ok(p, p->cu->cuMemPoolCreate(&p->pool, &props), "cuMemPoolCreate") &&
           ok(p, p->cu->cuMemPoolSetAttribute(p->pool, TIDEI_CU_POOL_RELEASE_THRESHOLD, &threshold),
              "the threshold");
}

static bool open_peer(peer *p, const char *kind) {
    tidei_cu_device d;
    return ok(p, p->cu->cuDeviceGet(&d, 0), "cuDeviceGet") &&
           ok(p, p->cu->cuDevicePrimaryCtxRetain(&p->ctx, d), "cuDevicePrimaryCtxRetain") &&
           ok(p, p->cu->cuCtxSetCurrent(p->ctx), "cuCtxSetCurrent") &&
           ok(p, p->cu->cuStreamCreate(&p->s, TIDEI_CU_STREAM_NON_BLOCKING), "cuStreamCreate") &&
           open_pool(p, kind);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        bool (*run)(const peer *p, bench *b);
    } runs[] = {
        {"pair", run_pair}, {"random", run_random}, {"threads", run_threads}, {"trace", run_trace}};
    size_t which = 0;
    bool traces = argc == 5 && !strcmp(argv[3], "--traces");
    const char *kind = argc > 2 ? argv[2] : "";
    bool known = !strcmp(kind, "max") || !strcmp(kind, "default") || !strcmp(kind, "raw");
    while (which < TIDEI_COUNT(runs) && argc > 1 && strcmp(runs[which].name, argv[1])) which++;
    if (argc < 3 || which == TIDEI_COUNT(runs) || !known || (argc > 3 && !traces)) {
        fprintf(stderr,
                "usage: peer-driver pair|random|threads|trace max|default|raw [--traces DIR]\n");
        return 2;
    }
    peer p = {.traces = traces ? argv[4] : "tests/traces"};
    bench b = {.name = argv[1], .json = true};
    if (tidei_cu_open(&p.cu) != TIDE_OK) return bench_skipped(tide_error_last()->message);
    if (!open_peer(&p, kind) || !runs[which].run(&p, &b)) return 1;
    b.bar = b.figure[0].name;
    return bench_show(&b, "cuda:0", kind);
}
