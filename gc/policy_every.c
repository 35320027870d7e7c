/* policy_every.c: every n-th question is answered by a collection: for tests, and for recordings
** whose deaths are to be exact. It costs what that costs. */
#include "gc/policy.h"

enum { N, FULL, PARAMS };
static const tidei_param params[PARAMS] = {
    [N] = {"n", TIDEI_WHOLE, 1, 1, 1e9, "one collection in so many questions"},
    [FULL] = {"full", TIDEI_SWITCH, 1, 0, 1, "0: the level that frees more for its time"},
};

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    uint64_t *questions = state;
    if ((double)++*questions < at[N]) return (tidei_decision){0, 0, "its turn has not come"};
    *questions = 0;
    return (tidei_decision){
        at[FULL] > 0 ? tidei_policy_full(in) : tidei_policy_level(h, in->levels), 0, "its turn"};
}

bool tidei_policy_is_always(const tidei_policy_run *r) {
    return r->policy == &tidei_policy_every && r->at[N] <= 1 && r->at[FULL] > 0;
}

const tidei_policy tidei_policy_every = {.name = "every",
                                         .decide = decide,
                                         .unguarded = true,
                                         .summary = "at every n-th question; for tests",
                                         .params = params,
                                         .nparams = PARAMS};
