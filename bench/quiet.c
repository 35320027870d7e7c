/* quiet.c: what the machine adds to steps that call nothing, and are as many and as long as those
** of examples/c/dense: no figure for a worst step can be better than this one (1.2c of
** bars.txt). */
#include "bench/bench.h"
#include <stdlib.h>

#define STEPS   14553 /* of epochs 2 to 100 */
#define STEP_NS 36000
#define ROUNDS  5

/* So many turns of a loop that touches no memory. */
static uint64_t turn(uint64_t n) {
    uint64_t x = 1;
    for (uint64_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        tidei_keep((const void *)(uintptr_t)x);
    }
    return x;
}

static double timed(uint64_t n) {
    uint64_t start = tidei_now_ns();
    (void)turn(n);
    return (double)(tidei_now_ns() - start);
}

/* Turns that take STEP_NS where nothing comes in between. */
static uint64_t turns_of_a_step(void) {
    enum { TURNS = 10000, TRIES = 100 };
    double ns[TRIES];
    for (unsigned i = 0; i < TRIES; i++) ns[i] = timed(TURNS);
    return (uint64_t)(TURNS * STEP_NS / bench_median(ns, TRIES));
}

int bench_quiet(bench *b) {
    double *ns = calloc(STEPS, sizeof *ns), median[ROUNDS], worst[ROUNDS], ratio[ROUNDS];
    if (!ns) return tidei_fail_host_memory("bench", STEPS * sizeof *ns), bench_failed("quiet");
    if (!bench_open(b, "refcount", NULL, true)) return free(ns), bench_failed("tide_open");
    uint64_t turns = turns_of_a_step();
    for (unsigned r = 0; r < ROUNDS; r++) {
        for (unsigned i = 0; i < STEPS; i++) ns[i] = timed(turns);
        median[r] = bench_median(ns, STEPS);
        worst[r] = ns[STEPS - 1]; /* sorted */
        ratio[r] = worst[r] / median[r];
    }
    free(ns);
    bench_note(b, bench_median(median, ROUNDS) / 1e3, "us", "median_step");
    bench_note(b, bench_median(worst, ROUNDS) / 1e3, "us", "worst_step");
    bench_note(b, bench_median(ratio, ROUNDS), "", "worst_over_median");
    return bench_done(b, "worst_over_median");
}
