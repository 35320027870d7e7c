/* stress.h: threads that make and drop arrays of random sizes near the limit, and whether each
** failure was forced. */
#ifndef BENCH_STRESS_H
#define BENCH_STRESS_H

#include "bench/forced.h"
#include <stdbool.h>
#include <tide/tide.h>

typedef struct stress_options {
    const char *device, *collector, *pool; /* NULL: the default */
    double factor;                         /* limit: this times what lives at most, and two pages */
    size_t steps;                          /* of all threads together */
    unsigned threads, seed;                /* threads: 1 to STRESS_THREADS */
} stress_options;
#define STRESS_THREADS 16

typedef struct stress_outcome {
    forced_figures found;
    uint64_t steps, climbs, collections;
    uint64_t too_large; /* requests that were to fail */
    double filled;      /* of what may live at most, what did */
    /* the report of the first failure of a request that was to succeed; or what else went wrong */
    char why[3000];
} stress_outcome;

/* False: something went wrong that is no failed allocation. */
bool stress_run(const stress_options *o, stress_outcome *out);

#endif
