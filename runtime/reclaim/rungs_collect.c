/* rungs_collect.c: what the collectors can give a climb: the memory of arrays that nobody can reach
** any more. */
#include "runtime/memory/header.h"
#include "runtime/reclaim/rungs.h"

static size_t minor(const tidei_climb *c) {
    return tidei_collect(c->d->rt, TIDE_COLLECT_MINOR, "reclaim", NULL);
}

static size_t full(const tidei_climb *c) {
    return tidei_collect(c->d->rt, TIDE_COLLECT_FULL, "reclaim", NULL);
}

/* Waits for collectors of other threads, which the full collection only asked. */
static size_t await(const tidei_climb *c) {
    tidei_runtime *rt = c->d->rt;
    size_t before = tidei_climb_occupied(c);
    if (!rt->gc_ops || !rt->gc_ops->await || !rt->gc_ops->await(rt, c->patience_ns)) return 0;
    tidei_drain(rt);
    tidei_climb_settle(c);
    return tidei_climb_given_since(c, before, 0);
}

const tidei_rung tidei_collect_rungs[] = {
    {.name = "minor collection", .place = TIDEI_RUNG_MINOR, .give = minor},
    {.name = "full collection", .place = TIDEI_RUNG_FULL, .give = full},
    {.name = "wait for collectors", .place = TIDEI_RUNG_AWAIT, .give = await},
    {.name = NULL},
};
