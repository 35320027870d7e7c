/* workload.h: the sequences of allocations that our benchmarks and the peers' programs
** (bench/peers, C and C++) play alike, made before anything is timed. Needs nothing but the C
** library. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* One step: bytes > 0 allocates them into `slot`, 0 frees what is there. */
typedef struct workload_step {
    size_t bytes;
    uint32_t slot;
} workload_step;

typedef struct workload {
    workload_step *steps; /* malloc'ed */
    size_t n, tail;       /* steps that count; behind them frees of what still lives */
    size_t slots;         /* slots are below */
    size_t peak;          /* most bytes that live at one time */
} workload;

/* A cheap generator: Knuth's multiplier, the high bits. */
static inline uint32_t workload_dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}
static inline size_t workload_uniform(uint64_t *seed, size_t most) { /* 1 to most */
    uint64_t high = (uint64_t)workload_dice(seed) << 31;
    return 1 + (size_t)((high | workload_dice(seed)) % most);
}
static inline size_t workload_spread(uint64_t *seed, unsigned low,
                                     unsigned high) { /* 2^low to 2^high, evenly by logarithm */
    size_t top = (size_t)1 << (low + workload_dice(seed) % (high - low));
    return top + workload_dice(seed) % top;
}

/* RMM's RANDOM_ALLOCATIONS: of 2n steps each allocates with probability 0.73 while fewer than n
** allocations are done and less than 16,000 MiB would be live, else frees a random one of those
** that live; sizes are uniform from 1 to `most`. Steps with nothing to do are left out, and slots
** serve again, as RMM keeps what lives packed. Returns 0 where there is no memory. */
static inline int workload_random(size_t n, size_t most, workload *out) {
    const size_t live_most = (size_t)16000 << 20;
    workload_step *steps = (workload_step *)calloc(3 * n, sizeof *steps);
    workload_step *live = (workload_step *)calloc(n, sizeof *live); /* packed */
    uint64_t seed = 1;
    size_t made = 0, taken = 0, slots = 0, bytes = 0, count = 0, peak = 0;
    if (!steps || !live) {
        free(steps);
        free(live);
        return 0;
    }
    for (size_t i = 0; i < 2 * n; i++) {
        size_t size = workload_uniform(&seed, most);
        int wants = !taken || workload_dice(&seed) % 100 < 73;
        if (wants && made < n && bytes + size < live_most) {
            live[taken].bytes = size;
            /* else one that was freed lies there */
            if (taken == slots) live[taken].slot = (uint32_t)slots++;
            made++;
            bytes += size;
            if (bytes > peak) peak = bytes;
            steps[count++] = live[taken++];
        } else if (taken) {
            size_t which = workload_dice(&seed) % taken;
            bytes -= live[which].bytes;
            uint32_t slot = steps[count++].slot = live[which].slot;
            live[which] = live[--taken];
            live[taken].slot = slot;
        }
    }
    for (size_t i = 0; i < taken; i++) steps[count + i].slot = live[i].slot;
    free(live);
    out->steps = steps;
    out->n = count;
    out->tail = taken;
    out->slots = slots;
    out->peak = peak;
    return 1;
}

#endif
