/* policy_softmax.c: a soft maximum of what is in use, which grows where a collection did not help.
** Source: Torch 7, maybeTriggerGC in lib/TH/THGeneral.c, and the same for the GPU in cutorch.
**
** At an allocation with which more than the soft maximum is in use it collects, fully; if more than
** 0.8 of it is in use afterwards it grows by 1.4. It starts at 300 MB, or, for programs of other
** sizes, at a share of the room. Torch adds up to 1 MB before it looks; here every byte counts.
** A maximum that grew never shrinks, and no limit is known to it. */
#include "gc/policy.h"

enum { START, SHARE, GROW, ABOVE, PARAMS };
static const tidei_param params[PARAMS] = {
    [START] = {"start", TIDEI_BYTES, 3e8, 1, 0x1p50, "the soft maximum at first"},
    [SHARE] = {"share", TIDEI_NUMBER, 0, 0, 1, "above 0: the same, as a share of the limit"},
    [GROW] = {"grow", TIDEI_NUMBER, 1.4, 1.01, 100, "by which it grows"},
    [ABOVE] = {"above", TIDEI_NUMBER, 0.8, 0, 1, "share of it that is left in use, for it to grow"},
};

static double *soft_maximum(const double *at, void *state, const tidei_policy_in *in) {
    double *most = state;
    if (*most <= 0)
        *most = at[SHARE] > 0 ? at[SHARE] * (double)tidei_policy_room_end(in) : at[START];
    return most;
}

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    (void)h;
    double most = *soft_maximum(at, state, in);
    if (in->where == TIDEI_AT_ALLOC && (double)tidei_policy_used(in) + (double)in->request > most)
        return (tidei_decision){tidei_policy_full(in), 0, "more than the soft maximum is in use"};
    return (tidei_decision){0, tidei_policy_wake(in, most), "below the soft maximum"};
}

static void observe(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c) {
    double *most = soft_maximum(at, state, before);
    if (c->early && (double)tidei_policy_used(after) > at[ABOVE] * *most) *most *= at[GROW];
}

const tidei_policy tidei_policy_softmax = {
    .name = "softmax",
    .decide = decide,
    .observe = observe,
    .unguarded = true,
    .summary = "above a soft maximum, which grows where that did not help: Torch 7",
    .params = params,
    .nparams = PARAMS};
