/* contention.c: whether other threads were at work on a device's memory during a climb.
**
** Other threads may take what a rung gave before the climber tries it. They go on as long as there
** is something to take, so a climber that is slow fails although there was enough; and what they
** are getting or giving back just now nobody can have. */
#include "runtime/pool/budget.h"
#include "runtime/pool/pools.h"
#include "runtime/reclaim/contention.h"
#include "runtime/base/uncancelled.h"
#include <sched.h>

/* Growth in flight is a few calls of the driver, which may take long: so this yields the processor
** after a few looks. */
static void wait_for_inflight_growth(void *p) {
    const tidei_climb *c = p;
    const tidei_inflight_growth *t = &c->d->budget->inflight_growth;
    for (unsigned i = 0; atomic_load(&t->under_way) && atomic_load(&t->ended) == c->inflight_growth;
         i++) {
        if (i < 64)
            sched_yield();
        else
            tidei_nap(50000);
    }
}

/* Whether there was growth in flight during the last attempt. If there still is, waits until one
** ends. */
static bool missed_growth(tidei_climb *c) {
    const tidei_inflight_growth *t = &c->d->budget->inflight_growth;
    bool missed = atomic_load(&t->under_way) || atomic_load(&t->ended) != c->inflight_growth;
    if (missed) tidei_blocking(c->d->rt, wait_for_inflight_growth, c);
    return missed;
}

static uint64_t handed_out(tidei_dev *d) {
    tidei_pool_stats ps;
    tidei_pools_stats_of(d, TIDEI_KINDS_ALL, &ps);
    return ps.allocs;
}

void tidei_contention_begin(tidei_climb *c) { c->handed_out = handed_out(c->d); }

bool tidei_contended(tidei_climb *c) {
    return missed_growth(c) || handed_out(c->d) != c->handed_out;
}
