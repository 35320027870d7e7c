/* pool_random.c: B2, a random live set (bench/workload.h has its rules), and B3, pairs among many
** holes. */
#include "bench/bench.h"
#include <stdio.h>

/* ---- B2 ---- */

#define RANDOM_ROUNDS 7
#define RANDOM_MOST   (4 * TIDEI_MIB)
static const size_t random_counts[] = {1000, 10000, 100000, 1000000};

struct random_run {
    workload w;
    tidei_block *blocks;
    double ns[RANDOM_ROUNDS];
};

static bool play(bench *b, const workload_step *steps, size_t n, tidei_block *blocks) {
    tidei_stream *s = b->d->stream0;
    for (size_t i = 0; i < n; i++) {
        tidei_block *x = &blocks[steps[i].slot];
        if (!steps[i].bytes)
            bench_give(b, x);
        else if (bench_take(b, steps[i].bytes, s, x) != TIDE_OK)
            return false;
    }
    return true;
}

/* One round: nanoseconds a step; < 0: it failed. */
static double play_random(bench *b, struct random_run *x) {
    uint64_t start = tidei_now_ns();
    if (!play(b, x->w.steps, x->w.n, x->blocks)) return -1;
    double ns = (double)(tidei_now_ns() - start) / (double)x->w.n;
    return play(b, x->w.steps + x->w.n, x->w.tail, x->blocks) ? ns : -1;
}

static bool random_new(bench *b, struct random_run *x, size_t n) {
    if (!workload_random(n, bench_or(b->max, RANDOM_MOST), &x->w)) return false;
    if ((x->blocks = malloc(x->w.slots * sizeof *x->blocks))) return true;
    free(x->w.steps);
    return false;
}

static void random_drop(struct random_run *x) {
    free(x->w.steps);
    free(x->blocks);
}

/* What the runs are, in turn; the first round grows the pool. */
static bool random_rounds(bench *b, struct random_run *runs, size_t n) {
    for (size_t r = 0; r <= RANDOM_ROUNDS; r++)
        for (size_t i = 0; i < n; i++) {
            double ns = play_random(b, &runs[i]);
            if (ns < 0) return false;
            if (r) runs[i].ns[r - 1] = ns;
        }
    return true;
}

int bench_random(bench *b) {
    struct random_run runs[TIDEI_COUNT(random_counts)];
    size_t n = b->n ? 1 : TIDEI_COUNT(random_counts), made = 0, peak = 0;
    int status = 0;
    if (!bench_open(b, "refcount", NULL, true)) return bench_failed("tide_open");
    while (made < n && random_new(b, &runs[made], bench_or(b->n, random_counts[made]))) made++;
    if (made < n) {
        fprintf(stderr, "tide-bench: no host memory for the steps\n");
        status = 1;
    } else if (!random_rounds(b, runs, n)) {
        status = bench_failed("a block");
    }
    for (size_t i = 0; i < made; i++) {
        if (status == 0) {
            bench_note(b, bench_median(runs[i].ns, RANDOM_ROUNDS), "ns", "n%zu",
                       bench_or(b->n, random_counts[i]));
            peak = tidei_max_size(peak, runs[i].w.peak);
        }
        random_drop(&runs[i]);
    }
    if (status) return status;
    if (!b->n) bench_note(b, b->figure[2].value / b->figure[0].value, "", "n100000_over_n1000");
    bench_note(b, (double)atomic_load(&b->d->budget->peak_backed) / (double)peak, "",
               "reserved_over_live");
    return bench_done(b, b->n ? b->figure[0].name : "n100000");
}

/* ---- B3 ---- */

#define HOLE_BYTES  (4 * TIDEI_KIB)
#define HOLE_PAIRS  20000
#define HOLE_ROUNDS 11
static const size_t hole_counts[] = {0, 4096, 16384, 65536};
static const size_t hole_sizes[] = {TIDEI_KIB, TIDEI_MIB};

struct holes {
    tidei_block *blocks; /* every second one of them a hole */
    double ns[TIDEI_COUNT(hole_counts)][TIDEI_COUNT(hole_sizes)][HOLE_ROUNDS];
};

/* Holes with blocks between them. */
static bool holes_make(bench *b, struct holes *h, size_t n) {
    for (size_t i = 0; i < 2 * n; i++)
        if (bench_take(b, HOLE_BYTES, b->d->stream0, &h->blocks[i]) != TIDE_OK) return false;
    for (size_t i = 0; i < n; i++) bench_give(b, &h->blocks[2 * i]);
    return true;
}
static void holes_fill(bench *b, struct holes *h, size_t n) {
    for (size_t i = 0; i < n; i++) bench_give(b, &h->blocks[2 * i + 1]);
}

static double hole_pairs(bench *b, size_t bytes) {
    tidei_block x;
    uint64_t start = tidei_now_ns();
    for (size_t i = 0; i < HOLE_PAIRS; i++) {
        if (bench_take(b, bytes, b->d->stream0, &x) != TIDE_OK) return -1;
        bench_give(b, &x);
    }
    return (double)(tidei_now_ns() - start) / HOLE_PAIRS;
}

static bool hole_round(bench *b, struct holes *h, size_t r) {
    for (size_t i = 0; i < TIDEI_COUNT(hole_counts); i++) {
        if (!holes_make(b, h, hole_counts[i])) return false;
        for (size_t k = 0; k < TIDEI_COUNT(hole_sizes); k++)
            if ((h->ns[i][k][r] = hole_pairs(b, hole_sizes[k])) < 0) return false;
        holes_fill(b, h, hole_counts[i]);
    }
    return true;
}

int bench_holes(bench *b) {
    struct holes h;
    double worst = 0;
    bool ok = true;
    if (!bench_open(b, "refcount", NULL, true)) return bench_failed("tide_open");
    if (!(h.blocks = malloc(2 * hole_counts[TIDEI_COUNT(hole_counts) - 1] * sizeof *h.blocks)))
        return bench_failed("host memory");
    for (size_t r = 0; r < HOLE_ROUNDS && ok; r++) ok = hole_round(b, &h, r);
    free(h.blocks);
    if (!ok) return bench_failed("a block");
    for (size_t k = 0; k < TIDEI_COUNT(hole_sizes); k++) {
        double none = bench_median(h.ns[0][k], HOLE_ROUNDS), ns = none;
        for (size_t i = 0; i < TIDEI_COUNT(hole_counts); i++) {
            if (i) ns = bench_median(h.ns[i][k], HOLE_ROUNDS);
            bench_note(b, ns, "ns", "%zuKiB_holes%zu", hole_sizes[k] / TIDEI_KIB, hole_counts[i]);
        }
        if (ns / none > worst) worst = ns / none;
    }
    bench_note(b, worst, "", "slower");
    return bench_done(b, "slower");
}
