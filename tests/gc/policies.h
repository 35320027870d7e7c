/* policies.h: the snapshots that the tests of policies begin with, and how a policy is asked and
** told. */
#ifndef TIDE_TESTS_POLICIES_H
#define TIDE_TESTS_POLICIES_H
#include "gc/policy.h"
#include "tests/support/tidetest.h"
#include <math.h>

#define MS  1000000u
#define SEC 1000000000u

/* ---- a snapshot to start from: 1000 bytes of limit, nothing else in the way ---- */

static inline tidei_policy_in in_at(uint64_t now_ns, tidei_where where, uint64_t live) {
    return (tidei_policy_in){.now_ns = now_ns,
                             .where = where,
                             .levels = TIDEI_OFFERS_FULL,
                             .threads = 1,
                             .live = live,
                             .hard = 1000,
                             .soft = TIDEI_NO_LIMIT,
                             .total = 100000,
                             .available = 50000};
}

static inline int level_of(tidei_policy_run *r, tidei_policy_in in) {
    return tidei_policy_ask(r, &in).level;
}

/* A collection of `pause` ns that ends at `end` and leaves `left` of `live`. */
static inline void told(tidei_policy_run *r, uint64_t end, uint64_t pause, uint64_t live,
                        uint64_t left, int level, bool early) {
    tidei_policy_in before = in_at(end - pause, TIDEI_AT_ALLOC, live),
                    after = in_at(end, TIDEI_AT_ALLOC, left);
    tidei_collection c = {
        .level = level, .early = early, .start_ns = end - pause, .pause_ns = pause};
    tidei_policy_told(r, &before, &after, &c);
}

static inline uint64_t next_random(uint64_t *x) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

#endif
