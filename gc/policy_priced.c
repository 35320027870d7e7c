/* policy_priced.c: the less room there is, the more a collection may cost.
** Source: the project's research on when to collect.
**
** The price of an offer is the part of the pause that queued device work does not hide. From x0 of
** the room on a price is taken that is not above m*(M/m)^z, where z goes from 0 at x0 to 1 at the
** whole room, m is a pause that does not matter and M that of a climb; times the root of the share
** of growth that collections have freed of late. And not above what is left in a bucket, into which
** a share of the time runs: so voluntary pauses take at most burst + rho*T of any time T. From x1
** on everything is taken.
** The power is made of square roots, which are the same on every machine (gc/lab/simulate.h). */
#include "gc/policy.h"
#include <math.h>

enum { X0, X1, FLOOR, STALL, RHO, BURST, PARAMS };
static const tidei_param params[PARAMS] = {
    [X0] = {"x0", TIDEI_NUMBER, 0.35, 0.01, 0.99,
            "share of the room from which offers are looked at"},
    [X1] = {"x1", TIDEI_NUMBER, 0.97, 0.01, 1, "share of the room from which any offer is taken"},
    [FLOOR] = {"floor", TIDEI_TIME, 50e3, 1, 1e9, "a pause that does not matter"},
    [STALL] = {"stall", TIDEI_TIME, 20e6, 1e3, 60e9, "what a climb takes beyond its collection"},
    [RHO] = {"rho", TIDEI_NUMBER, 0.05, 0, 1, "share of the time that runs into the bucket"},
    [BURST] = {"burst", TIDEI_TIME, 250e6, 0, 60e9, "what the bucket holds at most"},
};
#define FIRST_NS   5e6 /* assumed pause while there was no collection */
#define YIELD_MIN  0.05
#define POWER_BITS 20
#define STEP       (1.0 / 64) /* of the room, between questions while offers are too dear */

typedef struct bucket {
    double ns;
    uint64_t at_ns;  /* when it held that; 0: it was never looked at */
    double slack_ns; /* at the last question */
} bucket;
_Static_assert(sizeof(bucket) <= TIDEI_POLICY_STATE, "room for the state");

/* x to the z, for z from 0 to 1: the roots of x that z's binary digits stand for. */
static double power(double x, double z) {
    double y = 1;
    if (z >= 1) return x;
    for (int i = 0; i < POWER_BITS; i++) {
        x = sqrt(x);
        z *= 2;
        if (z < 1) continue;
        y *= x;
        z -= 1;
    }
    return y;
}

static void fill(const double *at, bucket *b, uint64_t now_ns) {
    double since = b->at_ns && now_ns > b->at_ns ? (double)(now_ns - b->at_ns) : 0;
    b->ns = b->at_ns ? fmin(at[BURST], b->ns + at[RHO] * since) : at[BURST];
    b->at_ns = now_ns;
}

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    bucket *b = state;
    int level = tidei_policy_level(h, in->levels);
    double x = tidei_policy_room_used(h, in), room = tidei_policy_room(h, in),
           pause = h->gc_ns[level == TIDE_COLLECT_FULL];
    fill(at, b, in->now_ns);
    b->slack_ns = (double)in->slack_ns;
    if (pause <= 0) pause = FIRST_NS;
    if (x >= at[X1]) return (tidei_decision){level, 0, "the room is used up"};
    if (x < at[X0])
        return (tidei_decision){0, tidei_policy_wake(in, (double)h->base + at[X0] * room),
                                "there is room"};
    double price = fmax(at[FLOOR], pause - b->slack_ns),
           most = at[FLOOR] * power((pause + at[STALL]) / at[FLOOR], (x - at[X0]) / (1 - at[X0])),
           gain = sqrt(fmax(YIELD_MIN, h->yield > 0 ? h->yield : 1));
    if (price <= most * gain && price <= b->ns)
        return (tidei_decision){level, 0, "the price is right"};
    return (tidei_decision){0, tidei_policy_wake(in, (double)tidei_policy_used(in) + STEP * room),
                            "the price is too high"};
}

static void observe(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c) {
    bucket *b = state;
    (void)before, (void)after;
    fill(at, b, c->start_ns);
    if (c->early) b->ns -= fmax(0, (double)c->pause_ns - b->slack_ns);
}

const tidei_policy tidei_policy_priced = {
    .name = "priced",
    .decide = decide,
    .observe = observe,
    .summary = "at a price that grows as the room shrinks, within a share of the time",
    .params = params,
    .nparams = PARAMS};
