/* stress_bench.c: `tide-bench stress`: the figure is how many allocations failed that arithmetic
** did not force, over collectors and limits from 1.02 times what lives at most, and two pages, to
** 1.2 times. */
#include "bench/bench.h"
#include "bench/stress.h"
#include <stdio.h>

#define STRESS_STEPS 1000000 /* of all runs together */

static const double factors[] = {1.02, 1.05, 1.1, 1.2};
static const char *const collectors[] = {
    "refcount",
#if defined(TIDEI_HAVE_BOEHM)
    "boehm",
#endif
};
#define RUNS (TIDEI_COUNT(factors) * TIDEI_COUNT(collectors))

static bool run_one(bench *b, size_t i, stress_outcome *sum) {
    stress_outcome r;
    const stress_options o = {.device = b->device,
                              .collector = collectors[i / TIDEI_COUNT(factors)],
                              .factor = factors[i % TIDEI_COUNT(factors)],
                              .steps = bench_or(b->n, STRESS_STEPS) / RUNS,
                              .threads =
                                  (unsigned)tidei_min_size(bench_or(b->threads, 4), STRESS_THREADS),
                              .seed = (unsigned)i + 1};
    if (!stress_run(&o, &r)) {
        fprintf(stderr, "tide-bench: %s, %.2f: %s\n", o.collector, o.factor, r.why);
        return false;
    }
    if (*r.why) fprintf(stderr, "%s, %.2f: %s\n", o.collector, o.factor, r.why);
    bench_note(b, (double)r.found.unforced, "", "%s_%.2f_unforced", o.collector, o.factor);
    bench_note(b, 100 * r.filled, "%", "%s_%.2f_filled", o.collector, o.factor);
    bench_note(b, (double)r.climbs, "", "%s_%.2f_climbs", o.collector, o.factor);
    sum->steps += r.found.asked;
    sum->too_large += r.too_large;
    sum->found.failures += r.found.failures;
    sum->found.unforced += r.found.unforced;
    sum->found.kept += r.found.kept;
    return true;
}

int bench_stress(bench *b) {
    stress_outcome sum = {.steps = 0};
    for (size_t i = 0; i < RUNS; i++)
        if (!run_one(b, i, &sum)) return 1;
    if (!bench_open(b, "refcount", NULL, true)) return bench_failed("tide_open"); /* its name */
    bench_note(b, (double)sum.steps, "", "asked");
    bench_note(b, (double)sum.too_large, "", "too_large");
    bench_note(b, (double)sum.found.failures, "", "failures");
    bench_note(b, (double)sum.found.kept, "", "kept");
    bench_note(b, (double)sum.found.unforced, "", "unforced");
    return bench_done(b, "unforced");
}
