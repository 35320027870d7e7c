/* policy_headroom.c: collect once a share of the room is used that the last collection left.
**
** Source: the project's research on when to collect. Where what lives stays the same, there are at
** most 1/share times as many collections as the least possible; where nothing is garbage, each one
** shrinks the room by that share, so that they die out. It looks at no price, and so pays any. */
#include "gc/policy.h"

enum { SHARE, PARAMS };
static const tidei_param params[PARAMS] = {
    [SHARE] = {"share", TIDEI_NUMBER, 0.8, 0.01, 1, "of the room"},
};

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    (void)state;
    if (tidei_policy_room_used(h, in) >= at[SHARE])
        return (tidei_decision){tidei_policy_level(h, in->levels), 0, "the headroom is used"};
    double use = (double)h->base + at[SHARE] * tidei_policy_room(h, in);
    return (tidei_decision){0, tidei_policy_wake(in, use), "there is headroom"};
}

const tidei_policy tidei_policy_headroom = {.name = "headroom",
                                            .decide = decide,
                                            .summary = "once a share of the room is used",
                                            .params = params,
                                            .nparams = PARAMS};
