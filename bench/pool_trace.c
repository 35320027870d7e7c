/* pool_trace.c: B5, the recorded traces, and B6, how little memory they need; both play them as
** `tide replay` does (tools/tide/replay.h): ticks without work, memory that nobody writes. */
#include "bench/bench.h"
#include "tools/tide/replay.h"
#include <math.h>
#include <stdio.h>

static const struct {
    const char *name, *file;
} traces[] = {{"gpt2", "gpt2-train-varlen"},
              {"resnet50", "resnet50-train-varbatch"},
              {"lstm", "lstm-train-unrolled"},
              {"linalg", "linalg-mix"}};
enum { TRACES = TIDEI_COUNT(traces) };

struct recorded {
    tidei_trace trace[TRACES];
    unsigned n; /* read so far */
};

static bool read_all(const bench *b, struct recorded *x) {
    for (x->n = 0; x->n < TRACES; x->n++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.csv.gz", b->traces ? b->traces : "tests/traces",
                 traces[x->n].file);
        if (tidei_trace_read(path, &x->trace[x->n]) != TIDE_OK) return false;
    }
    return true;
}
static void drop_all(struct recorded *x) {
    while (x->n) tidei_trace_clear(&x->trace[--x->n]);
}

/* A runtime of its own stays open beside: opening those of the replays is then cheap where a
** context takes long. */
static int with_traces(bench *b, int (*run)(bench *b, struct recorded *x)) {
    struct recorded x;
    if (!bench_open(b, "refcount", NULL, true)) return bench_failed("tide_open");
    int status = read_all(b, &x) ? run(b, &x) : bench_failed("--traces");
    drop_all(&x);
    return status;
}

/* ---- B5 ---- */

#define PASSES 7

struct played {
    double ns; /* an event; the median of the passes */
    tidei_replay_figures last;
};

/* Plays all passes behind a first one, in which the pool grows. */
static bool play(const tidei_replay_options *o, const tidei_trace *trace, unsigned passes,
                 struct played *out) {
    tidei_replay *r;
    double ns[PASSES];
    if (tidei_replay_open(o, trace, &r) != TIDE_OK) return false;
    tide_status status = tidei_replay_pass(r, &out->last);
    for (unsigned i = 0; i < passes && status == TIDE_OK; i++) {
        status = tidei_replay_pass(r, &out->last);
        ns[i] = (double)out->last.ns / (double)out->last.events;
    }
    if (status == TIDE_OK && passes) out->ns = bench_median(ns, passes);
    tidei_replay_close(r);
    return status == TIDE_OK;
}

static int play_traces(bench *b, struct recorded *x) {
    static const unsigned streams[] = {1, 4};
    double worst = 0, ratio = 0;
    for (size_t k = 0; k < TIDEI_COUNT(streams); k++) {
        tidei_replay_options o = {.device = b->device, .streams = streams[k]};
        for (unsigned i = 0; i < TRACES; i++) {
            struct played p;
            if (!play(&o, &x->trace[i], PASSES, &p)) return bench_failed(traces[i].name);
            if (p.ns > worst) worst = p.ns;
            const char *name = traces[i].name;
            double reserved = (double)p.last.peak_reserved / (double)p.last.peak_live;
            if (streams[k] > 1 && reserved > ratio) ratio = reserved;
            bench_note(b, p.ns, "ns/event", "%s_x%u_ns", name, streams[k]);
            bench_note(b, reserved, "", "%s_x%u_ratio", name, streams[k]);
            bench_note(b, (double)p.last.driver_calls, "", "%s_x%u_driver_calls", name, streams[k]);
        }
    }
    bench_note(b, ratio, "", "x4_ratio");
    bench_note(b, worst, "ns/event", "ns");
    return bench_done(b, "ns");
}

int bench_trace(bench *b) { return with_traces(b, play_traces); }

/* ---- B6 ---- */

#define FACTOR_MOST 2.0 /* of the peak */
#define FACTOR_STEP 0.001
static const unsigned pinned[] = {0, 10, 50};

/* Whether nothing fails in two passes under a limit of so many times the peak, and two pages. */
static bool completes(const bench *b, const tidei_trace *trace, unsigned percent, double factor,
                      struct played *p, bool *ok) {
    tidei_replay_options o = {
        .device = b->device, .streams = 1, .limit_factor = factor, .pinned = percent};
    *ok = play(&o, trace, 1, p);
    return *ok && !p->last.failed;
}

/* The smallest factor, to FACTOR_STEP; FACTOR_MOST where that is not enough. */
static bool smallest(const bench *b, const tidei_trace *trace, unsigned percent, double *out) {
    double low = 1, high = FACTOR_MOST;
    struct played p;
    bool ok = true;
    if (completes(b, trace, percent, low, &p, &ok)) high = low;
    while (ok && high - low > FACTOR_STEP) {
        double middle = (low + high) / 2;
        if (completes(b, trace, percent, middle, &p, &ok))
            high = middle;
        else
            low = middle;
    }
    *out = high;
    return ok;
}

#define SPEED_ROUNDS 7
struct limited {
    double speed; /* of the second pass, of what the same program has without a limit */
    uint64_t failed;
};

/* Under 1.02 times the peak. Medians of rounds that take turns: the processor's clock changes. */
static bool play_limited(const bench *b, const tidei_trace *trace, unsigned percent,
                         struct limited *out) {
    tidei_replay_options o = {.device = b->device, .streams = 1, .pinned = percent}, at_limit = o;
    double without[SPEED_ROUNDS], with[SPEED_ROUNDS];
    struct played p;
    at_limit.limit_factor = 1.02;
    out->failed = 0;
    for (unsigned i = 0; i < SPEED_ROUNDS; i++) {
        if (!play(&o, trace, 1, &p)) return false;
        without[i] = p.ns;
        if (!play(&at_limit, trace, 1, &p)) return false;
        with[i] = p.ns;
        out->failed = p.last.failed;
    }
    out->speed = bench_median(without, SPEED_ROUNDS) / bench_median(with, SPEED_ROUNDS);
    return true;
}

static int find_frontier(bench *b, struct recorded *x) {
    double failures = 0, worst = 0, slowest = INFINITY;
    for (unsigned i = 0; i < TRACES; i++)
        for (size_t k = 0; k < TIDEI_COUNT(pinned); k++) {
            double factor;
            struct limited at_limit;
            if (!smallest(b, &x->trace[i], pinned[k], &factor) ||
                !play_limited(b, &x->trace[i], pinned[k], &at_limit))
                return bench_failed(traces[i].name);
            bench_note(b, factor, "of the peak", "%s_pinned%u_smallest", traces[i].name, pinned[k]);
            bench_note(b, (double)at_limit.failed, "", "%s_pinned%u_failed_at_1.02", traces[i].name,
                       pinned[k]);
            bench_note(b, at_limit.speed, "of the speed", "%s_pinned%u_speed_at_1.02",
                       traces[i].name, pinned[k]);
            failures += (double)at_limit.failed;
            if (factor > worst) worst = factor;
            if (at_limit.speed < slowest) slowest = at_limit.speed;
        }
    bench_note(b, worst, "of the peak", "smallest");
    bench_note(b, slowest, "of the speed", "speed");
    bench_note(b, failures, "", "failed");
    return bench_done(b, "failed");
}

int bench_frontier(bench *b) { return with_traces(b, find_frontier); }
