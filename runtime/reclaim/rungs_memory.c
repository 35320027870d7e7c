/* rungs_memory.c: what arrays can give a climb: those that are dead are ended, and those that no
** operation uses just now are spilled to the host's memory. */
#include "runtime/device/device.h"
#include "runtime/memory/header.h"
#include "runtime/memory/spill.h"
#include "runtime/pool/budget.h"
#include "runtime/pool/pools.h"
#include "runtime/reclaim/rungs.h"

static size_t drain(const tidei_climb *c) { return tidei_drain(c->d->rt); }

/* Spills what would be lacking if free memory were in one piece; if that was not enough, as much
** again as was spilled so far. */
static size_t spill(const tidei_climb *c) {
    tidei_dev *d = c->d;
    tidei_pool_stats ps;
    if (!d->rt->set.spill || c->by_host || !tidei_on_device(c->kind) ||
        tidei_thread_get(d->rt)->depth_optional)
        return 0;
    tidei_pools_stats(d, &ps);
    size_t limit = tidei_min_size(tidei_hard_limit(d), d->d->info.total_bytes);
    size_t want = ps.live + ps.rounding + tidei_library_bytes(d) + c->bytes,
           lacking = want > limit ? want - limit : 1;
    size_t given = tidei_spill(d, tidei_max_size(lacking, c->given[c->rung]));
    if (!given) return 0;
    tidei_climb_wait(c);
    tidei_climb_to_driver(c);
    return given;
}

const tidei_rung tidei_memory_rungs[] = {
    {.name = "drain", .place = TIDEI_RUNG_DRAIN, .give = drain, .give_gently = drain},
    {.name = "spill", .place = TIDEI_RUNG_SPILL, .again = true, .give = spill},
    {.name = NULL},
};
