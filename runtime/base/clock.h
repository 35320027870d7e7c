/* clock.h: a clock for those who look at it all the time: the processor's counter where it may
** serve, else the system's clock.
**
** Model. A look at the counter takes less than half as long as one at the system's clock, which
** reads the counter too, but waits for all that stands before it. What ticks are in nanoseconds is
** found out afterwards, by one who compares both clocks now and then: what lies between two
** comparisons is as far between their times, and never outside, so that a counter that jumps,
** stands still or is another one on another processor bends the times since the comparison before,
** and no others. What lies before that one (it took long, or came late) is as good as the counter
** is even.
** What must stay true: who needs an order takes it from something else. Of two threads' ticks the
** later one may be the less, by some nanoseconds; of one thread's too. */
#ifndef TIDEI_CLOCK_H
#define TIDEI_CLOCK_H

#include "runtime/base/base.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct tidei_clock { /* fixed */
    bool counter;            /* it is the processor's; else ticks are the system's nanoseconds */
} tidei_clock;

/* What ticks are, as the two clocks were compared. Who compares has it for himself. */
typedef struct tidei_clock_pace {
    uint64_t start_ns; /* the system's; the other times are since then */
    struct tidei_moment {
        uint64_t ticks, ns;
    } before, now; /* the last comparison but one, and the last */
    double length; /* of a tick between them, in nanoseconds; 0: the counter did not rise */
} tidei_clock_pace;

bool tidei_clock_has_counter(void); /* one that may serve */
void tidei_clock_pace_start(tidei_clock_pace *p, const tidei_clock *t);
void tidei_clock_pace_compare(tidei_clock_pace *p, const tidei_clock *t);
/* a comparison; ns as the system has it */
void tidei_clock_pace_add(tidei_clock_pace *p, uint64_t ticks, uint64_t ns);
/* Since the start; for what was taken before the last comparison. */
uint64_t tidei_clock_pace_ns(const tidei_clock_pace *p, uint64_t ticks);

static inline uint64_t tidei_clock_now(const tidei_clock *t) {
#if defined(__x86_64__)
    if (tidei_likely(t->counter)) return __rdtsc();
#endif
    (void)t;
    return tidei_now_ns();
}

#endif
