/* reclaim.c: what a runtime keeps for giving memory back, and giving it back by hand
** (tide_reclaim), without a request that waits for it. */
#include "runtime/memory/header.h"
#include "runtime/memory/spill.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/budget.h"
#include "runtime/pool/pools.h"
#include "runtime/reclaim/ladder.h"
#include "runtime/reclaim/reclaim.h"
#include "runtime/reclaim/reclaimables.h"
#include "runtime/reclaim/rungs.h"
#include "runtime/streams/thread_device.h"

void tidei_reclaim_init(tidei_runtime *rt) {
    tidei_reclaim *r = rt->reclaim;
    tidei_ladder_open(rt);
    pthread_mutex_init(&r->reclaimables_lock, NULL);
    pthread_cond_init(&r->reclaimables_idle, NULL);
    pthread_mutex_init(&r->climb_lock, NULL);
    pthread_cond_init(&r->climb_done, NULL);
}

void tidei_reclaim_end(tidei_runtime *rt) {
    tidei_reclaim *r = rt->reclaim;
    pthread_mutex_destroy(&r->reclaimables_lock);
    pthread_cond_destroy(&r->reclaimables_idle);
    pthread_mutex_destroy(&r->climb_lock);
    pthread_cond_destroy(&r->climb_done);
}

/* ---- by hand ---- */

/* Walks the devices meant: one, or (NULL) all. */
static tidei_dev *next_of(tidei_runtime *rt, tidei_dev *only, const tidei_dev *after) {
    return !only ? tidei_dev_next(rt, after) : after ? NULL : only;
}

static void give_back(tidei_dev *d, int level, uint64_t climb_id) {
    if (level >= TIDE_RECLAIM_SYNC) tidei_streams_wait_users(d);
    tidei_reclaimables_call(d, TIDEI_PURGE, SIZE_MAX, climb_id);
    tidei_drain(d->rt);
    if (level >= TIDE_RECLAIM_SYNC && tidei_streams_wait_users(d) == TIDE_OK) tidei_pools_synced(d);
    tidei_pools_settle(d);
    tidei_pools_trim(d, TIDEI_KINDS_ALL);
}

static void reclaim(tidei_runtime *rt, tidei_dev *only, int level) {
    uint64_t climb_id = tidei_climb_id_new(rt);
    for (tidei_dev *d = NULL; level >= TIDE_RECLAIM_DROP && (d = next_of(rt, only, d));)
        tidei_reclaimables_call(d, TIDEI_DROP, SIZE_MAX, climb_id);
    if (level >= TIDE_RECLAIM_GC) tidei_collect(rt, TIDE_COLLECT_FULL, "tide_reclaim", NULL);
    tidei_drain(rt);
    for (tidei_dev *d = NULL; level >= TIDE_RECLAIM_SPILL && (d = next_of(rt, only, d));)
        tidei_spill(d, SIZE_MAX);
    for (tidei_dev *d = NULL; (d = next_of(rt, only, d));) give_back(d, level, climb_id);
}

/* The bytes taken from the driver, host memory included, spilled storages not. */
static size_t taken(tidei_dev *d) {
    tidei_pool_stats pinned;
    tidei_pools_stats_of(d, TIDEI_KIND_BIT(TIDEI_MEM_PINNED), &pinned);
    size_t spilled = tidei_min_size(atomic_load(&d->memory->spilled), pinned.backed);
    return atomic_load(&d->budget->backed) + tidei_library_bytes(d) + pinned.backed - spilled;
}

size_t tidei_reclaim_by_hand(tidei_runtime *rt, tidei_dev *only, int level) {
    tidei_thread *t = tidei_thread_get(rt);
    size_t before = 0, after = 0;
    if (!tidei_may_climb(t)) return 0;
    tidei_deepen(t, &t->depth_climb);
    for (tidei_dev *d = NULL; (d = next_of(rt, only, d));) before += taken(d);
    reclaim(rt, only, level);
    for (tidei_dev *d = NULL; (d = next_of(rt, only, d));) after += taken(d);
    tidei_rise(t, &t->depth_climb);
    return before > after ? before - after : 0;
}

size_t tidei_reclaim_pages(tidei_dev *d, size_t bytes) {
    tidei_thread *t = tidei_thread_get(d->rt);
    tidei_saved_error before;
    if (!tidei_may_climb(t)) return 0;
    tidei_error_save(&before);
    tidei_deepen(t, &t->depth_climb);
    size_t given = tidei_clear_pages(d, TIDEI_KINDS_ON_DEVICE, bytes);
    tidei_rise(t, &t->depth_climb);
    tidei_error_restore(&before);
    return given;
}

tide_status tide_reclaim(tide_runtime *ref, int level, size_t *freed) {
    TIDEI_OPERATION("tide_reclaim");
    tidei_runtime *rt = tidei_entered(ref, "tide_reclaim");
    if (!rt) return tidei_last_status();
    if (level < TIDE_RECLAIM_PURGE || level > TIDE_RECLAIM_SPILL)
        return tidei_fail(TIDE_E_INVALID, "tide_reclaim",
                          "level %d is none of TIDE_RECLAIM_PURGE (0) to TIDE_RECLAIM_SPILL (4)",
                          level);
    size_t given = tidei_reclaim_by_hand(rt, NULL, level);
    if (freed) *freed = given;
    return TIDE_OK;
}
