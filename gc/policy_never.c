/* policy_never.c: no early collections: garbage waits until memory runs out and the reclaim ladder
** is climbed. */
#include "gc/policy.h"

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    (void)at, (void)state, (void)h, (void)in;
    return (tidei_decision){0, UINT64_MAX, "never"};
}

const tidei_policy tidei_policy_never = {
    .name = "never", .decide = decide, .summary = "only when an allocation fails"};
