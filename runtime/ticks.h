/* ticks.h: a clock for those who look at it all the time: the processor's counter where it may serve, else the system's clock.
**
** Model. A look at the counter takes less than half as long as one at the system's clock, which reads the counter too, but waits
** for all that stands before it. What ticks are in nanoseconds is found out afterwards: by both clocks at the start, and both now. So
** times are right where the clocks were last compared, and before that as good as the counter is even.
** What must stay true: who needs an order takes it from something else. Of two threads' ticks the later one may be the less, by
** some nanoseconds; of one thread's too. */
#ifndef TIDEI_TICKS_H
#define TIDEI_TICKS_H

#include "runtime/base.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct tidei_ticks { /* fixed */
    bool counter;            /* it is the processor's; else ticks are the system's nanoseconds */
    uint64_t start, start_ns;
} tidei_ticks;

void tidei_ticks_start(tidei_ticks *t);
/* A tick's nanoseconds, by both clocks since the start: for what was taken before now. */
double tidei_ticks_length(const tidei_ticks *t);

static inline uint64_t tidei_ticks_now(const tidei_ticks *t) {
#if defined(__x86_64__)
    if (tidei_likely(t->counter)) return __rdtsc();
#endif
    (void)t;
    return tidei_now_ns();
}

/* Since the start; 0 for what was taken before it. */
static inline uint64_t tidei_ticks_ns(const tidei_ticks *t, uint64_t ticks, double length) {
    return ticks > t->start ? (uint64_t)((double)(ticks - t->start) * length) : 0;
}

#endif
