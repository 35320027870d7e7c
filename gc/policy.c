/* policy.c: what policies share: a question, and what a collection brought.
**
** What must stay true: `base` is what was in use after the drain of the last collection, or less if
** the program gave back more since, so use - base bounds the garbage that a collection can find; an
** expensive collection that freed nothing is not repeated before the program has used a tenth of
** the room that is left, or a hundred times its pause has passed, unless the policy bounds the time
** itself. */
#include "gc/own_policy.h"
#include <math.h>

#define EWMA_OLD 0.75 /* weight of the past in the averages */
/* a minor collection that freed less of the growth was poor: the rest is old, so a full one is
** next; after the k-th poor one in a row 2^k - 1 of them */
#define MINOR_POOR 0.25
#define POOR_MOST  6
#define FRUITLESS  0.02 /* of the growth freed, and ... */
/* ... of the time spent: such a collection is not worth repeating soon */
#define FRUITLESS_DUTY 0.05
#define FRUITLESS_STEP 0.10 /* of the remaining room must be used before the next one, ... */
/* least yield assumed, so that collections are tried again after fruitless ones, after ever more
** growth */
#define YIELD_LEAST (1.0 / 64)
/* ... or so little of the time since then is what another one would take */
#define FORGIVEN 0.01

uint64_t tidei_policy_room_end(const tidei_policy_in *in) {
    uint64_t end = in->hard != TIDEI_NO_LIMIT   ? in->hard
                   : in->soft != TIDEI_NO_LIMIT ? in->soft
                                                : in->total;
    return end > in->library ? end - in->library : 0;
}

double tidei_policy_room(const tidei_policy_history *h, const tidei_policy_in *in) {
    uint64_t end = tidei_policy_room_end(in);
    return end > h->base ? (double)(end - h->base) : 1;
}

double tidei_policy_room_used(const tidei_policy_history *h, const tidei_policy_in *in) {
    uint64_t used = tidei_policy_used(in);
    return used > h->base ? (double)(used - h->base) / tidei_policy_room(h, in) : 0;
}

uint64_t tidei_policy_wake(const tidei_policy_in *in, double use) {
    double at = use - (double)in->rounding;
    return at <= 0 ? 0 : at < (double)(UINT64_MAX / 2) ? (uint64_t)at : UINT64_MAX;
}

int tidei_policy_full(const tidei_policy_in *in) {
    return in->levels & TIDEI_OFFERS_FULL ? TIDE_COLLECT_FULL : TIDE_COLLECT_MINOR;
}

int tidei_policy_level(const tidei_policy_history *h, unsigned levels) {
    if (!(levels & TIDEI_OFFERS_FULL)) return levels & TIDEI_OFFERS_MINOR ? TIDE_COLLECT_MINOR : 0;
    if (!(levels & TIDEI_OFFERS_MINOR) || h->fulls_due) return TIDE_COLLECT_FULL;
    if (h->gc_ns[0] == 0) return TIDE_COLLECT_MINOR; /* untried: the cheap one */
    double more_ns = h->gc_ns[1] == 0 ? h->gc_ns[0] : h->gc_ns[1] - h->gc_ns[0];
    return h->lost_ns >= more_ns ? TIDE_COLLECT_FULL : TIDE_COLLECT_MINOR;
}

tidei_policy_choice tidei_policy_usual(const tidei_policy *p) {
    tidei_policy_choice c = {.policy = p};
    tidei_params_usual(p->params, p->nparams, c.at);
    return c;
}

void tidei_policy_start_with(tidei_policy_run *r, const tidei_policy_choice *c) {
    memset(r, 0, sizeof *r);
    r->policy = c->policy;
    memcpy(r->at, c->at, sizeof r->at);
}

void tidei_policy_start(tidei_policy_run *r, const tidei_policy *p) {
    tidei_policy_choice c = tidei_policy_usual(p);
    tidei_policy_start_with(r, &c);
}

/* A policy may be anybody's: what it answers is none, or a level that is offered. */
static int sound_level(const tidei_policy_history *h, const tidei_policy_in *in, int level) {
    if (level != TIDE_COLLECT_MINOR && level != TIDE_COLLECT_FULL) return 0;
    return in->levels & (1u << level) ? level : tidei_policy_level(h, in->levels);
}

bool tidei_policy_guards(const tidei_policy_history *h, const tidei_policy_in *in, int level) {
    return tidei_policy_used(in) + in->request < h->guard &&
           h->gc_ns[level == TIDE_COLLECT_FULL] > FORGIVEN * (double)(in->now_ns - h->end_ns);
}

tidei_decision tidei_policy_guarded(const tidei_policy_history *h, const tidei_policy_in *in) {
    return (tidei_decision){0, h->guard - in->rounding, "the last collection freed nothing"};
}

tidei_decision tidei_policy_ask(tidei_policy_run *r, const tidei_policy_in *in) {
    tidei_policy_history *h = &r->history;
    uint64_t used = tidei_policy_used(in);
    if (!h->opened_ns) h->opened_ns = in->now_ns;
    if (used < h->base) h->base = used;
    if (used < h->full_left) h->full_left = used;
    if (!in->levels) return (tidei_decision){0, UINT64_MAX, "no collector can be asked"};
    tidei_decision d =
        r->policy->own ? tidei_own_policy_ask(r, in) : r->policy->decide(r->at, r->state, h, in);
    d.level = sound_level(h, in, d.level);
    if (d.level && !r->policy->unguarded && tidei_policy_guards(h, in, d.level))
        return tidei_policy_guarded(h, in);
    return d;
}

static double average(double old, double now) {
    return old == 0 ? now : EWMA_OLD * old + (1 - EWMA_OLD) * now;
}

/* The end of the room of which the guard wants a part used. Where memory that is new costs time
** that is what the pool has, or three times `left`: a limit that is far off says nothing there. */
static uint64_t guarded_end(const tidei_policy_in *in, uint64_t left, uint64_t end) {
    uint64_t pool = in->backed > 2 * left ? in->backed : 3 * left;
    return in->fresh_ns > 0 && pool < end ? pool : end;
}

/* A minor collection left `left` in use, of room up to `end`. What of it is garbage makes each
** window shorter. */
static void told_minor(tidei_policy_history *h, uint64_t left, uint64_t end, bool was_poor) {
    double stayed = left > h->full_left ? (double)(left - h->full_left) : 0,
           garbage = stayed * (1 - h->old_kept), room = end > left ? (double)(end - left) : 0;
    if (garbage > 0) h->lost_ns += h->gc_ns[0] * garbage / (garbage + room);
    h->poor = was_poor ? h->poor + (h->poor < POOR_MOST) : 0;
    h->fulls_due = (1u << h->poor) - 1;
}

/* A full one left `left`; minor ones had left h->base. */
static void told_full(tidei_policy_history *h, uint64_t left) {
    double stayed = h->base > h->full_left ? (double)(h->base - h->full_left) : 0,
           found = left < h->base ? fmin((double)(h->base - left), stayed) : 0;
    if (stayed > 0) h->old_kept = (h->old_kept + 1 - found / stayed) / 2;
    if (h->fulls_due) h->fulls_due--;
    h->full_left = left;
    h->lost_ns = 0;
}

void tidei_policy_told(tidei_policy_run *r, const tidei_policy_in *before,
                       const tidei_policy_in *after, const tidei_collection *c) {
    tidei_policy_history *h = &r->history;
    uint64_t used = tidei_policy_used(before), left = tidei_policy_used(after),
             end = tidei_policy_room_end(after);
    double freed = used > left ? (double)(used - left) : 0,
           growth = used > h->base ? (double)(used - h->base) : 0;
    /* a clock's tick may be longer than the pause */
    double pause = c->pause_ns ? (double)c->pause_ns : 1;
    uint64_t last = h->end_ns ? h->end_ns : h->opened_ns;
    double since = after->now_ns > last ? (double)(after->now_ns - last) : 1;
    int k = c->level == TIDE_COLLECT_FULL;
    h->gc_ns[k] = average(h->gc_ns[k], pause);
    h->per_ns[k] = average(h->per_ns[k], freed / pause);
    if (growth > 0) h->yield = average(h->yield, fmax(freed / growth, YIELD_LEAST));
    if (k)
        told_full(h, left);
    else
        told_minor(h, left, end, freed < MINOR_POOR * growth);
    bool fruitless = freed <= FRUITLESS * growth && pause > FRUITLESS_DUTY * since;
    uint64_t guarded = guarded_end(after, left, end);
    h->guard =
        fruitless && end > left ? left + (uint64_t)(FRUITLESS_STEP * (double)(guarded - left)) : 0;
    h->base = left;
    h->end_ns = after->now_ns;
    if (r->policy->own) tidei_own_policy_told(r, before, after, c);
    if (r->policy->observe) r->policy->observe(r->at, r->state, before, after, c);
}
