/* told_clock.h: a runtime's clock that stands until the test says how much later it is.
**
** Policies and the return of free memory go by the time; by this one they do the same on a busy
** machine. */
#ifndef TIDETEST_TOLD_CLOCK_H
#define TIDETEST_TOLD_CLOCK_H

#include "tests/support/tidetest.h"

static uint64_t told_ns; /* the test adds to it */
static inline uint64_t told_clock(void) { return told_ns; }

/* From now on; the runtime may have looked at the system's clock before. */
static inline void tell_time(tide_runtime *rt) {
    told_ns = tidei_now_ns();
    test_rt(rt)->gc_counts.clock_ns = told_clock;
}

#endif
