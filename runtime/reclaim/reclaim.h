/* reclaim.h: what a runtime keeps for giving memory back, and giving it back by hand. */
#ifndef TIDEI_RECLAIM_H
#define TIDEI_RECLAIM_H

#include "runtime/memory/recovery.h"
#include "runtime/reclaim/rung.h"
#include <tide/reclaim.h>

/* In tidei_runtime. */
struct tidei_reclaim {
    tidei_recovery recovery;
    pthread_mutex_t reclaimables_lock;
    pthread_cond_t reclaimables_idle;
    struct tidei_reclaimable *reclaimables; /* newest first */
    _Atomic uint64_t climb_ids;
    const tidei_rung *rungs[TIDEI_RUNGS_MOST]; /* by place; fixed once open */
    unsigned nrungs;
    pthread_mutex_t climb_lock;
    pthread_cond_t climb_done;
    bool climbing; /* under climb_lock, as recovery.climbs_ended is written */
    _Atomic uint64_t climbs;
    _Atomic size_t reclaimed;
    /* under the process's lock of runtimes (neighbours.c), like the next */
    tidei_runtime *next_open;
    unsigned visitors; /* threads of other runtimes that make the pools give back */
};
void tidei_reclaim_init(tidei_runtime *rt);
void tidei_reclaim_end(tidei_runtime *rt);

/* A new number that names a climb, or a reclaim by hand, where failures are logged. */
static inline uint64_t tidei_climb_id_new(tidei_runtime *rt) {
    return atomic_fetch_add(&rt->reclaim->climb_ids, 1) + 1;
}

/* What tide_reclaim does at a level, for one device or (NULL) all. Returns the bytes given back to
** the driver; from inside a callback of the ladder's it does nothing. */
size_t tidei_reclaim_by_hand(tidei_runtime *rt, tidei_dev *only, int level);
/* Gives so many bytes back by moving blocks off their pages, where as much is free on pages; from
** inside a callback of the ladder's it does nothing. */
size_t tidei_reclaim_pages(tidei_dev *d, size_t bytes);
#endif
