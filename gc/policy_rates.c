/* policy_rates.c: three rates, looked at whenever the pool would have to grow.
** Source: torch for R (mlverse/torch), whose CUDA allocator calls R's collector when no cached
** block fits; vignettes/articles/memory-management.Rmd.
**
** Nothing while less than 0.2 of the device is reserved; a full collection where more than 0.8 of
** it is allocated, or more than 0.8 of what is reserved; else a minor one. The device is here what
** the limit leaves. Each allocation that finds no free block pays for a collection, however little
** the last one freed: programs whose live data is most of what is reserved spend most of their time
** so. It stays as it is, and has no guard. */
#include "gc/policy.h"

enum { RESERVED, ALLOCATED, ALLOCATED_RESERVED, PARAMS };
static const tidei_param params[PARAMS] = {
    [RESERVED] = {"reserved", TIDEI_NUMBER, 0.2, 0, 1, "share of the device that may be reserved"},
    [ALLOCATED] = {"allocated", TIDEI_NUMBER, 0.8, 0, 1,
                   "share of the device in use, for a full collection"},
    [ALLOCATED_RESERVED] = {"allocated_reserved", TIDEI_NUMBER, 0.8, 0, 1,
                            "share of what is reserved in use, for a full collection"},
};

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    (void)state, (void)h;
    double used = (double)tidei_policy_used(in), reserved = (double)in->backed,
           whole = (double)tidei_policy_room_end(in), floor = at[RESERVED] * whole;
    /* a budget whose pools tell nothing of what they hold */
    if (in->backed < tidei_policy_used(in)) reserved = used;
    double next = reserved > floor ? reserved : floor;
    if (in->where != TIDEI_AT_ALLOC || used + (double)in->request <= reserved)
        return (tidei_decision){0, tidei_policy_wake(in, next), "a free block may fit"};
    if (reserved < floor) return (tidei_decision){0, tidei_policy_wake(in, next), "little is held"};
    bool full = used > at[ALLOCATED] * whole || used > at[ALLOCATED_RESERVED] * reserved;
    return (tidei_decision){full ? TIDE_COLLECT_FULL : TIDE_COLLECT_MINOR, 0,
                            "the pool would have to grow"};
}

const tidei_policy tidei_policy_rates = {
    .name = "rates",
    .decide = decide,
    .unguarded = true,
    .summary = "where the pool would have to grow, once a fifth is reserved: torch for R",
    .params = params,
    .nparams = PARAMS};
