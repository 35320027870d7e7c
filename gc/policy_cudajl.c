/* policy_cudajl.c: the rule by which CUDA.jl (5.4 and later) collects early, constant for constant.
** Source: JuliaGPU/CUDA.jl, maybe_collect in src/memory.jl (since 6.0 CUDACore/src/memory.jl).
**
** Two gates. Pressure: live bytes over the budget, which is the hard limit, else the soft one, else
** what the device could give. Rate: the average pause over the time since the last early collection
** started must stay below an allowance that doubles with every sign that collecting is useful or
** urgent. The first collection always passes this gate.
** Its defects stay unless a switch mends one: the size of the request is not looked at, nothing
** backs off where collections free nothing, only minor ones are asked for, the average begins at 0,
** only collections that this rule asked for count, and the pause is priced in full though device
** work hides it. Two are not here: the byte too much that its account grows by with each
** allocation, which a snapshot does not show, and that it looks at one device alone. */
#include "gc/policy.h"

enum { ALLOC, BLOCK, RATE, REQUEST, BACKOFF, LEVEL, AVERAGE, FORCED, SLACK, PARAMS };
static const tidei_param params[PARAMS] = {
    [ALLOC] = {"alloc", TIDEI_NUMBER, 0.75, 0, 1, "pressure from which it acts at an allocation"},
    [BLOCK] = {"block", TIDEI_NUMBER, 0.50, 0, 1, "the same where the host is about to wait"},
    [RATE] = {"rate", TIDEI_NUMBER, 0.05, 0, 1, "share of the time, before it is doubled"},
    [REQUEST] = {"request", TIDEI_SWITCH, 0, 0, 1, "1: counts the request as live"},
    [BACKOFF] = {"backoff", TIDEI_SWITCH, 0, 0, 1,
                 "1: is not repeated soon where it freed nothing"},
    [LEVEL] = {"level", TIDEI_SWITCH, 0, 0, 1, "1: full collections where they free more"},
    [AVERAGE] = {"average", TIDEI_SWITCH, 0, 0, 1, "1: the average begins at the first pause"},
    [FORCED] = {"forced", TIDEI_SWITCH, 0, 0, 1, "1: collections of climbs count too"},
    [SLACK] = {"slack", TIDEI_SWITCH, 0, 0, 1, "1: what device work hides of a pause is free"},
};
#define FREED_WELL    0.10 /* of the budget came back last time */
#define PRESSURE_HIGH 0.90
#define PRESSURE_TOP  0.95
#define EWMA_OLD      0.75

typedef struct cudajl {
    uint64_t last_ns; /* start of the last early collection */
    double gc_ns;     /* average pause, from 0 */
    uint64_t freed;   /* by the last one */
} cudajl;
_Static_assert(sizeof(cudajl) <= TIDEI_POLICY_STATE, "a policy's state has a fixed place");

static uint64_t budget(const tidei_policy_in *in) {
    return in->hard != TIDEI_NO_LIMIT   ? in->hard
           : in->soft != TIDEI_NO_LIMIT ? in->soft
                                        : in->available;
}

/* Share of the time that collecting may take: the base, doubled for each of four signs. */
static double allowance(const double *at, const cudajl *st, double size, double pressure,
                        bool blocks) {
    double allowed = at[RATE];
    if ((double)st->freed > FREED_WELL * size) allowed *= 2;
    if (blocks) allowed *= 2;
    if (pressure > PRESSURE_HIGH) allowed *= 2;
    if (pressure > PRESSURE_TOP) allowed *= 2;
    return allowed;
}

static double pause_of(const double *at, const cudajl *st, const tidei_policy_in *in) {
    double slack = at[SLACK] > 0 ? (double)in->slack_ns : 0;
    return st->gc_ns > slack ? st->gc_ns - slack : 0;
}

static int level_of(const double *at, const tidei_policy_history *h, const tidei_policy_in *in) {
    if (at[LEVEL] > 0) return tidei_policy_level(h, in->levels);
    return in->levels & TIDEI_OFFERS_MINOR ? TIDE_COLLECT_MINOR : TIDE_COLLECT_FULL;
}

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    const cudajl *st = state;
    double size = (double)budget(in),
           since = in->now_ns > st->last_ns ? (double)(in->now_ns - st->last_ns) : 0;
    uint64_t live = in->live + (at[REQUEST] > 0 ? in->request : 0);
    double pressure = size > 0 ? (double)live / size : 0;
    bool blocks = in->where == TIDEI_AT_SYNC;
    if (pressure < at[blocks ? BLOCK : ALLOC])
        return (tidei_decision){0, (uint64_t)(at[ALLOC] * size), "the pressure is low"};
    if (pause_of(at, st, in) > allowance(at, st, size, pressure, blocks) * since)
        return (tidei_decision){0, 0, "collections took too much of the time"};
    if (at[BACKOFF] > 0 && tidei_policy_used(in) + in->request < h->guard)
        return tidei_policy_guarded(h, in);
    return (tidei_decision){level_of(at, h, in), 0, "the pressure is high"};
}

static void observe(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c) {
    cudajl *st = state;
    if (!c->early && at[FORCED] <= 0) return;
    bool first = at[AVERAGE] > 0 && st->gc_ns <= 0;
    st->last_ns = c->start_ns;
    st->freed = before->live > after->live ? before->live - after->live : 0;
    st->gc_ns =
        first ? (double)c->pause_ns : EWMA_OLD * st->gc_ns + (1 - EWMA_OLD) * (double)c->pause_ns;
}

const tidei_policy tidei_policy_cudajl = {
    .name = "cudajl",
    .decide = decide,
    .observe = observe,
    .unguarded = true,
    .summary =
        "above 3/4 of the budget (1/2 before a wait) while the rate of pauses is low: CUDA.jl",
    .params = params,
    .nparams = PARAMS};
