/* own_policy.c: a table's snapshot and answer; own_policy.h has the model. */
#include "gc/own_policy.h"
#include "runtime/base/text.h"
#include <inttypes.h>
#include <tide/policy.h>

_Static_assert((int)TIDE_POLICY_AT_ALLOC == (int)TIDEI_AT_ALLOC &&
                   (int)TIDE_POLICY_AT_SYNC == (int)TIDEI_AT_SYNC &&
                   (int)TIDE_POLICY_AT_SAFEPOINT == (int)TIDEI_AT_SAFEPOINT,
               "questions come from the same places");
_Static_assert((int)TIDE_POLICY_MINOR == (int)TIDEI_OFFERS_MINOR &&
                   (int)TIDE_POLICY_FULL == (int)TIDEI_OFFERS_FULL,
               "levels have the same bits");

tide_status tidei_own_policy_open(tidei_policy_run *r, tidei_runtime *rt, const char *op) {
    const tide_policy *own = r->policy->own;
    if (!own) return TIDE_OK;
    r->own_state = tidei_host_alloc(rt, tidei_max_size(own->state_bytes, 1));
    return r->own_state ? TIDE_OK : tidei_fail_host_memory(op, own->state_bytes);
}

void tidei_own_policy_close(tidei_policy_run *r, tidei_runtime *rt) {
    tidei_host_free(rt, r->own_state);
    r->own_state = NULL;
}

static tide_policy_snapshot snapshot(const tidei_policy_run *r, const tidei_policy_in *in) {
    const tidei_policy_history *h = &r->history;
    return (tide_policy_snapshot){.struct_size = sizeof(tide_policy_snapshot),
                                  .now_ns = in->now_ns,
                                  .where = (int32_t)in->where,
                                  .levels = in->levels,
                                  .level = tidei_policy_level(h, in->levels),
                                  .threads = in->threads,
                                  .used = tidei_policy_used(in),
                                  .rounding = in->rounding,
                                  .request = in->request,
                                  .limit = tidei_policy_room_end(in),
                                  .hard = in->hard,
                                  .soft = in->soft,
                                  .library = in->library,
                                  .total = in->total,
                                  .available = in->available,
                                  .backed = in->backed,
                                  .slack_ns = in->slack_ns,
                                  .fresh_ns = in->fresh_ns,
                                  .opened_ns = h->opened_ns,
                                  .ended_ns = h->end_ns,
                                  .base = h->base,
                                  .minor_ns = h->gc_ns[0],
                                  .full_ns = h->gc_ns[1],
                                  .minor_freed = h->per_ns[0],
                                  .full_freed = h->per_ns[1],
                                  .yield = h->yield,
                                  .largest = in->largest,
                                  .params = r->at};
}

/* What makes no sense in an answer; false: nothing does. */
static bool wrong(const tidei_policy_in *in, const tide_policy_decision *d, char *buf, size_t cap) {
    uint64_t reached = tidei_policy_used(in) + in->request;
    if (d->level < 0 && d->reason)
        tidei_format(buf, cap, "it could not decide: %s", d->reason);
    else if (d->level != 0 && d->level != TIDE_COLLECT_MINOR && d->level != TIDE_COLLECT_FULL)
        tidei_format(buf, cap, "level is %" PRId32, d->level);
    else if (!d->reason)
        tidei_format(buf, cap, "reason is NULL");
    else if (!d->level && d->wake_at && d->wake_at <= reached)
        tidei_format(buf, cap, "wake_at is %" PRIu64 ", and used + request %" PRIu64, d->wake_at,
                     reached);
    else
        return false;
    return true;
}

tidei_decision tidei_own_policy_ask(tidei_policy_run *r, const tidei_policy_in *in) {
    const tide_policy *own = r->policy->own;
    tide_policy_snapshot s = snapshot(r, in);
    tide_policy_decision d = {.struct_size = sizeof d};
    char buf[sizeof r->nonsense.first];
    own->decide(own->user, r->own_state, &s, &d);
    if (wrong(in, &d, buf, sizeof buf)) {
        if (!r->nonsense.n++) memcpy(r->nonsense.first, buf, sizeof buf);
        return (tidei_decision){0, 0, "the answer makes no sense"};
    }
    uint64_t wake = d.wake_at == UINT64_MAX    ? UINT64_MAX
                    : d.wake_at > in->rounding ? d.wake_at - in->rounding
                                               : 0;
    return (tidei_decision){d.level, wake, d.reason};
}

void tidei_own_policy_told(tidei_policy_run *r, const tidei_policy_in *before,
                           const tidei_policy_in *after, const tidei_collection *c) {
    const tide_policy *own = r->policy->own;
    tide_policy_snapshot was = snapshot(r, before), is = snapshot(r, after);
    tide_policy_collection x = {.struct_size = sizeof x,
                                .level = c->level,
                                .early = c->early,
                                .start_ns = c->start_ns,
                                .pause_ns = c->pause_ns};
    if (own->observe) own->observe(own->user, r->own_state, &was, &is, &x);
}
