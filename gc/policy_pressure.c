/* policy_pressure.c: a budget for what was added since the last full collection.
** Source: .NET, GCInterface::AddMemoryPressure in src/coreclr/vm/comutilnative.cpp.
**
** The budget is 4 MiB; times what was added over what was removed in the three rounds before, at
** most 10 times, so that programs whose collections free little get more of it; and at least a
** third of the managed heap. Beyond it a full collection comes, unless that would take more than a
** fifth of the time: the time since the last one started must be 5 times as long as it took.
** Here a byte is added when it is in use beyond what the last collection left, so what is freed by
** hand before the next one is taken off again; and it is removed when a collection frees it. */
#include "gc/policy.h"

enum { BUDGET, RATIO, HEAP, DUTY, PARAMS };
static const tidei_param params[PARAMS] = {
    [BUDGET] = {"budget", TIDEI_BYTES, 4 << 20, 1, 0x1p50, "that may be added at least"},
    [RATIO] = {"ratio", TIDEI_NUMBER, 10, 1, 1e6, "by which it grows at most"},
    [HEAP] = {"heap", TIDEI_BYTES, 0, 0, 0x1p50,
              "of the collector's own; a third of it may be added"},
    [DUTY] = {"duty", TIDEI_NUMBER, 0.2, 0.001, 1, "share of the time that collections may take"},
};
#define ROUNDS      3
#define HEAP_SHARES 3

typedef struct rounds {
    uint64_t added[ROUNDS], removed[ROUNDS];
    uint64_t n, start_ns, pause_ns; /* collections so far; the last one */
    uint64_t left;                  /* in use after it */
} rounds;
_Static_assert(sizeof(rounds) <= TIDEI_POLICY_STATE, "room for the state");

static double budget_of(const double *at, const rounds *r) {
    uint64_t added = 0, removed = 0;
    double budget = at[BUDGET];
    for (int i = 0; i < ROUNDS; i++) {
        added += r->added[i];
        removed += r->removed[i];
    }
    if (r->n > ROUNDS) { /* enough to judge by */
        double a = (double)added, b = (double)removed;
        if (a >= b * at[RATIO])
            budget *= at[RATIO];
        else if (a > b)
            budget *= a / b;
    }
    double heap = at[HEAP] / HEAP_SHARES;
    return budget > heap ? budget : heap;
}

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    const rounds *r = state;
    double budget = budget_of(at, r),
           added = (double)tidei_policy_used(in) + (double)in->request - (double)h->base;
    if (in->where != TIDEI_AT_ALLOC || added < budget)
        return (tidei_decision){0, tidei_policy_wake(in, (double)h->base + budget),
                                "within the budget"};
    uint64_t since = in->now_ns - r->start_ns;
    if (r->n && (double)since * at[DUTY] <= (double)r->pause_ns)
        return (tidei_decision){0, 0, "collections took too much of the time"};
    return (tidei_decision){tidei_policy_full(in), 0, "beyond the budget"};
}

static void observe(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c) {
    rounds *r = state;
    uint64_t used = tidei_policy_used(before), left = tidei_policy_used(after);
    (void)at;
    r->added[r->n % ROUNDS] = used > r->left ? used - r->left : 0;
    r->removed[r->n % ROUNDS] = used > left ? used - left : 0;
    r->left = left;
    r->n++;
    r->start_ns = c->start_ns;
    r->pause_ns = c->pause_ns;
}

const tidei_policy tidei_policy_pressure = {
    .name = "pressure",
    .decide = decide,
    .observe = observe,
    .unguarded = true,
    .summary = "once more was added than a budget that collections adjust: .NET",
    .params = params,
    .nparams = PARAMS};
