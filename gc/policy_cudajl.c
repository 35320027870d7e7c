/* policy_cudajl.c: the rule by which CUDA.jl (5.4 and later) collects early, constant for constant.
**
** Two gates. Pressure: live bytes over the budget, which is the hard limit, else the soft one, else
** what the device could give. Rate: the average pause over the time since the last early collection
** started must stay below an allowance that doubles with every sign that collecting is useful or
** urgent. The first collection always passes this gate. The size of the request is not looked at,
** and only collections that this rule asked for count: both as in the original. */
#include "gc/policy.h"

#define PRESSURE 0.75 /* of the budget, at an allocation */
/* when the host is about to block: the pause may hide behind device work */
#define PRESSURE_BLOCK 0.50
#define RATE           0.05 /* share of the time; doubled for each of: */
#define FREED_WELL     0.10 /* of the budget came back last time */
#define PRESSURE_HIGH  0.90
#define PRESSURE_TOP   0.95 /* (and when the host is about to block) */
#define EWMA_OLD       0.75

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

static tidei_decision decide(void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    const cudajl *st = state;
    double size = (double)budget(in),
           since = in->now_ns > st->last_ns ? (double)(in->now_ns - st->last_ns) : 0;
    double pressure = size > 0 ? (double)in->live / size : 0, allowed = RATE;
    bool blocks = in->where == TIDEI_AT_SYNC;
    (void)h;
    if (pressure < (blocks ? PRESSURE_BLOCK : PRESSURE))
        return (tidei_decision){0, (uint64_t)(PRESSURE * size), "the pressure is low"};
    if ((double)st->freed > FREED_WELL * size) allowed *= 2;
    if (blocks) allowed *= 2;
    if (pressure > PRESSURE_HIGH) allowed *= 2;
    if (pressure > PRESSURE_TOP) allowed *= 2;
    if (st->gc_ns > allowed * since)
        return (tidei_decision){0, 0, "collections took too much of the time"};
    int level = in->levels & TIDEI_OFFERS_MINOR ? TIDE_COLLECT_MINOR : TIDE_COLLECT_FULL;
    return (tidei_decision){level, 0, "the pressure is high"};
}

static void observe(void *state, const tidei_policy_in *before, const tidei_policy_in *after,
                    const tidei_collection *c) {
    cudajl *st = state;
    if (!c->early) return;
    st->last_ns = c->start_ns;
    st->freed = before->live > after->live ? before->live - after->live : 0;
    st->gc_ns = EWMA_OLD * st->gc_ns + (1 - EWMA_OLD) * (double)c->pause_ns;
}

const tidei_policy tidei_policy_cudajl = {
    .name = "cudajl", .decide = decide, .observe = observe, .unguarded = true};
