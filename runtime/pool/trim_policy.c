/* trim_policy.c: when pools give back by themselves: the adaptive rule, and the looks at sync
** points. The rule's reasons stand in trim_policy.h. */
#include "runtime/pool/trim_policy.h"
#include "runtime/pool/pools.h"

/* ---- the rule ---- */

static size_t surplus(const tidei_trim_policy *r, const tidei_trim_policy_look *x) {
    size_t beside = x->needed ? x->needed / 8 + 32 * TIDEI_MIB : 0;
    size_t kept = tidei_max_size(x->needed + beside, x->used);
    size_t most = (size_t)(r->window_ns / 100 * TIDEI_TRIM_BYTES_PER_NS);
    return x->backed > kept ? tidei_min_size(x->backed - kept, most) : 0;
}

size_t tidei_trim_policy_keep(tidei_trim_policy *r, const tidei_trim_policy_look *x) {
    bool grew = x->backed > r->backed;
    size_t gives = grew ? 0 : surplus(r, x);
    if (grew && r->lowered)
        r->window_ns = r->window_ns < TIDEI_TRIM_WINDOW_MAX_NS / 2 ? 2 * r->window_ns
                                                                   : TIDEI_TRIM_WINDOW_MAX_NS;
    if (gives && r->lowered)
        r->window_ns =
            r->window_ns / 2 > TIDEI_TRIM_WINDOW_NS ? r->window_ns / 2 : TIDEI_TRIM_WINDOW_NS;
    r->lowered = gives || (r->lowered && !grew);
    r->backed = x->backed - gives;
    r->began_ns = x->now_ns;
    return gives ? x->backed - x->used - gives : SIZE_MAX;
}

/* ---- looks ---- */

static uint64_t now_ns(tidei_runtime *rt) {
    return rt->gc_counts.clock_ns ? rt->gc_counts.clock_ns() : tidei_now_ns();
}

static size_t adaptive_keep(tidei_user_pool *x, const tidei_pool_stats *ps, uint64_t now) {
    tidei_trim_policy_look look = {
        .now_ns = now, .backed = ps->backed, .used = ps->live + ps->rounding};
    look.needed = tidei_max_size(atomic_exchange(&x->window_live, ps->live), ps->live);
    return tidei_trim_policy_keep(&x->release, &look);
}

/* Returns when to look again. */
static uint64_t give_back(tidei_user_pool *x, uint64_t now, bool synced) {
    size_t threshold = atomic_load(&x->p->attrs.threshold);
    bool adaptive = atomic_load(&x->adaptive);
    tidei_pool_stats ps;
    /* the rule goes by the clock, a deterministic pool must not */
    if (adaptive && atomic_load(&x->p->attrs.deterministic)) return UINT64_MAX;
    if (!adaptive && threshold == TIDEI_THRESHOLD_NONE) return UINT64_MAX;
    if (!adaptive && !synced) return 0;
    if (adaptive && now < tidei_trim_policy_due_ns(&x->release))
        return tidei_trim_policy_due_ns(&x->release);
    x->p->ops->stats(x->p, &ps);
    size_t keep = adaptive ? adaptive_keep(x, &ps, now) : threshold;
    if (ps.cached + ps.pending > keep) {
        x->p->ops->trim(x->p, keep);
        x->p->ops->stats(x->p, &ps);
        x->release.backed = ps.backed;
    }
    return adaptive ? tidei_trim_policy_due_ns(&x->release) : 0;
}

static void look_before(tidei_dev *d, uint64_t when) {
    uint64_t old = atomic_load(&d->pools->look_ns);
    while (old > when && !atomic_compare_exchange_weak(&d->pools->look_ns, &old, when)) {}
}

void tidei_pools_look_soon(tidei_dev *d) { atomic_store(&d->pools->look_ns, 0); }

void tidei_pools_look(tidei_dev *d, bool synced) {
    uint64_t now = now_ns(d->rt), next = UINT64_MAX;
    if (tidei_likely(now < atomic_load_explicit(&d->pools->look_ns, memory_order_relaxed))) return;
    if (atomic_flag_test_and_set(&d->pools->looking)) return;
    atomic_store(&d->pools->look_ns, UINT64_MAX); /* a look asked for from here on is another one */
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));) {
        uint64_t again = give_back(x, now, synced);
        if (again < next) next = again;
    }
    tidei_pools_sweep(d);
    look_before(d, atomic_load(&d->pools->orphans) ? 0 : next);
    atomic_flag_clear(&d->pools->looking);
}
