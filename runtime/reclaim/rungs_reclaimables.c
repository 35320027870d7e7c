/* rungs_reclaimables.c: what the reclaimables can give a climb: their idle resources, in the end
** live state too. */
#include "runtime/memory/header.h"
#include "runtime/reclaim/reclaimables.h"
#include "runtime/reclaim/rungs.h"

/* Calls the reclaimables, and drains: arrays that they let go of are dead, and in the queue. */
static size_t purge_by(const tidei_climb *c, tidei_reclaim_slot which) {
    size_t before = tidei_climb_occupied(c),
           said = tidei_reclaimables_call(c->d, which, c->bytes, c->climb_id);
    tidei_drain(c->d->rt);
    tidei_climb_settle(c);
    return tidei_climb_given_since(c, before, said);
}

static size_t purge_cheap(const tidei_climb *c) { return purge_by(c, TIDEI_PURGE_CHEAP); }
static size_t purge(const tidei_climb *c) { return purge_by(c, TIDEI_PURGE); }

/* Makes reclaimables drop live state, and then gives back all that this leaves dead, idle or
** pending. */
static size_t drop(const tidei_climb *c) {
    size_t before = tidei_climb_occupied(c),
           said = tidei_reclaimables_call(c->d, TIDEI_DROP, c->bytes, c->climb_id);
    tidei_collect(c->d->rt, TIDE_COLLECT_FULL, "reclaim", NULL);
    tidei_drain(c->d->rt);
    said += tidei_reclaimables_call(c->d, TIDEI_PURGE, c->bytes, c->climb_id);
    tidei_drain(c->d->rt);
    tidei_climb_wait(c);
    size_t given = tidei_climb_given_since(c, before, said), to_driver = tidei_climb_to_driver(c);
    return c->outside ? tidei_max_size(given, to_driver) : given;
}

const tidei_rung tidei_reclaimable_rungs[] = {
    {.name = "purge idle caches",
     .place = TIDEI_RUNG_PURGE_CHEAP,
     .give = purge_cheap,
     .give_gently = purge_cheap},
    {.name = "purge idle handles", .place = TIDEI_RUNG_PURGE, .give = purge},
    {.name = "drop library state", .place = TIDEI_RUNG_DROP, .give = drop},
    {.name = NULL},
};
