/* policy_sqrt.c: growth whose price is that of the collections it saves.
** Source: MemBalancer (Kirisame, Shenoy, Panchekha, "Optimal heap limits for reducing browser
** memory use", OOPSLA 2022), derived anew for a pause g that does not depend on what lives: of
** garbage that comes at a rate r, and of a price p for a byte held for a second, g*r/E + p*E/2 is
** least at E = sqrt(2*g*r/p).
**
** p is given as the share of a second that holding the whole limit for one costs. It is the rule
** for memory that others want too: shared, pinned, unified. Below the limit of a device of one's
** own bytes cost nothing, and it collects too often there. Julia's experience: the rate must be
** smoothed, and E bounded. */
#include "gc/policy.h"
#include <math.h>

enum { PRICE, MOST, FIRST, PARAMS };
static const tidei_param params[PARAMS] = {
    [PRICE] = {"price", TIDEI_NUMBER, 0.04, 1e-9, 1e6, "seconds that holding the limit costs each"},
    [MOST] = {"most", TIDEI_NUMBER, 0.95, 0.01, 1, "share of the room that growth may use"},
    [FIRST] = {"first", TIDEI_NUMBER, 0.2, 0.01, 1,
               "share of the limit before the first collection"},
};
#define SMOOTH 0.5 /* weight of the past in the rate */

typedef struct flow {
    double rate; /* bytes a ns */
    uint64_t last_ns, left;
} flow;
_Static_assert(sizeof(flow) <= TIDEI_POLICY_STATE, "room for the state");

/* The growth that is worth it. */
static double growth_of(const double *at, const flow *f, const tidei_policy_history *h,
                        const tidei_policy_in *in) {
    double limit = (double)tidei_policy_room_end(in), most = at[MOST] * tidei_policy_room(h, in);
    double pause = h->gc_ns[tidei_policy_level(h, in->levels) == TIDE_COLLECT_FULL];
    double growth = f->rate > 0 && pause > 0
                        ? sqrt(2 * pause / 1e9 * (f->rate * 1e9) * limit / at[PRICE])
                        : at[FIRST] * limit;
    return fmin(growth, most);
}

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    double growth = growth_of(at, state, h, in), use = (double)h->base + growth;
    if ((double)tidei_policy_used(in) >= use)
        return (tidei_decision){tidei_policy_level(h, in->levels), 0, "growth costs as much"};
    return (tidei_decision){0, tidei_policy_wake(in, use), "growth is cheaper"};
}

static void observe(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c) {
    flow *f = state;
    uint64_t used = tidei_policy_used(before);
    double grown = used > f->left ? (double)(used - f->left) : 0,
           since = f->last_ns && c->start_ns > f->last_ns ? (double)(c->start_ns - f->last_ns) : 0;
    (void)at;
    if (since > 0)
        f->rate = f->rate > 0 ? SMOOTH * f->rate + (1 - SMOOTH) * grown / since : grown / since;
    f->last_ns = after->now_ns;
    f->left = tidei_policy_used(after);
}

const tidei_policy tidei_policy_sqrt = {.name = "sqrt",
                                        .decide = decide,
                                        .observe = observe,
                                        .summary =
                                            "once growth costs as much as collecting: MemBalancer",
                                        .params = params,
                                        .nparams = PARAMS};
