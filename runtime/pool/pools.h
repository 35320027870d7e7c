/* pools.h: the pools of a device as users know them: a `tidei_user_pool` is a pool with its holders
** and its figures.
**
** Model. A device keeps its pools in a list, which walks visit one by one. The default pool has no
** holders: it lives as long as the device. Every other pool counts its holders: the user's
** tide_pool, the threads whose current pool it is, its blocks. The last holder to let go notes the
** tick that each stream has got to submit and makes the pool an *orphan*; a sweep closes it once
** the streams have completed those ticks. So letting go, which a drain does, calls neither the pool
** nor the device.
** What must stay true: an orphan gets no holder again. A pool on which a walk stands is not
** closed. */
#ifndef TIDEI_POOLS_H
#define TIDEI_POOLS_H

#include "runtime/pool/pool.h"
#include "runtime/pool/trim_policy.h"
#include <tide/pool.h>

/* Counts what was handed out and came back, by size class. A pool has several tallies; a thread's
** number (thread_index.h) chooses its own one. Threads whose number is too high, or that have none,
** share the first. */
#define TIDEI_TALLIES 16
typedef struct tidei_tally {
    struct {
        _Atomic uint64_t made, made_bytes, gone, gone_bytes;
    } of[TIDE_POOL_CLASSES];
} tidei_tally;

/* The pools of a device. In tidei_dev. */
struct tidei_pools {
    /* moves blocks' contents; the floor of memory fills it */
    const tidei_mover *mover;
    pthread_mutex_t lock;
    tidei_user_pool *first;   /* under lock: all of them, the newest first */
    _Atomic size_t orphans;   /* of these, to be closed */
    atomic_flag looking;      /* a thread looks what may go back; no other waits for it */
    _Atomic uint64_t look_ns; /* when it is time again */
    _Atomic size_t own_live;  /* of what lives, in those that are not the default one */
};

/* What a tide_pool refers to. */
struct tidei_user_pool {
    tidei_dev *dev;
    tide_pool *ref; /* the public reference to it */
    tidei_pool *p;
    bool own;             /* not the default pool: its holders are counted */
    atomic_bool released; /* its maker is done with it */
    /* under dev->pools_lock */
    tidei_user_pool *next;
    unsigned walks; /* walks that stand on this pool */
    bool over;      /* an orphan that may be closed once no walk stands here */
    _Atomic size_t holders;
    atomic_bool orphan; /* set by the last holder, as its last step */
    /* orphan: the last tick that each stream's slot had submitted when the pool became one */
    uint64_t ticks[TIDEI_STREAMS_MAX];
    /* figures */
    /* live: counted where `own`; the default pool's is the device's less those */
    _Atomic size_t live, peak_live;
    _Atomic size_t pinned;
    _Atomic uint64_t retries, ooms;
    _Atomic uint64_t peak[TIDE_POOL_CLASSES], peak_bytes[TIDE_POOL_CLASSES]; /* sampled */
    tidei_tally tallies[TIDEI_TALLIES];
    _Atomic size_t window_live; /* the most that was live at once since the last look */
    tidei_trim_policy release;  /* under dev->looking */
    atomic_bool adaptive;       /* the release threshold; if not, it is attrs.threshold */
};

/* the calling thread's current pool; attaches nobody */
tidei_pool *tidei_pool_found(tidei_dev *d); /* the long way */
static inline tidei_pool *tidei_pool_here(tidei_dev *d) {
    const tidei_thread *t = tidei_thread_records;
    bool known = t && atomic_load_explicit(&t->rt, memory_order_relaxed) == d->rt && t->dev == d;
    return tidei_likely(known && !t->here.pool) ? d->pool : tidei_pool_found(d);
}
/* The thread's record leaves its runtime: it lets go of its current pools. */
void tidei_thread_leave_pools(tidei_runtime *rt, tidei_thread *t);

/* The device's default pool, as its settings say; later ones are made by tide_pool_new. */
tide_status tidei_pools_open(tidei_dev *d);
/* Closes all, whatever is still in them: work is complete. */
void tidei_pools_close(tidei_dev *d);

/* Opens a kind's pool, as the settings say; the caller then enlists or discards it. */
tide_status tidei_pools_open_kind(tidei_dev *d, tidei_mem_kind kind, tidei_user_pool **out);
void tidei_pools_enlist(tidei_user_pool *x);
void tidei_pools_discard(tidei_user_pool *x);

/* A user's pool; NULL with the error set. */
tidei_user_pool *tidei_user_pool_find(tide_pool *ref, const char *op);

/* Does nothing for the default pool. */
static inline void tidei_pool_hold(tidei_user_pool *x) {
    if (x->own) atomic_fetch_add_explicit(&x->holders, 1, memory_order_relaxed);
}
void tidei_pool_orphaned(tidei_user_pool *x);
static inline void tidei_pool_let_go(tidei_user_pool *x) {
    if (x->own && atomic_fetch_sub_explicit(&x->holders, 1, memory_order_acq_rel) == 1)
        tidei_pool_orphaned(x);
}

/* Counts a block that a storage got from the pool; the device has `live` bytes with it. The second
** counts the block as given back; afterwards a pool other than the default one may be gone. */
void tidei_pool_made(tidei_user_pool *x, size_t bytes, size_t live);
void tidei_pool_gone(tidei_user_pool *x, size_t bytes);
/* Its figures now; nothing is drained. */
void tidei_pool_figures_of(tidei_user_pool *x, tide_pool_figures *s);
void tidei_pools_reset_peaks(tidei_dev *d);
static inline void tidei_raise_size(_Atomic size_t *x, size_t v) {
    size_t old = atomic_load_explicit(x, memory_order_relaxed);
    while (old < v && !atomic_compare_exchange_weak(x, &old, v)) {}
}

/* Leaves x and returns the walk's next pool (x NULL: the first); NULL at the end. A walk must go to
** its end. */
tidei_user_pool *tidei_pools_next(tidei_dev *d, tidei_user_pool *x);

/* Each does its part for all pools of the device: settle, trim, figures; and closes orphans whose
** work is done. Called without any lock. */
size_t tidei_pools_settle(tidei_dev *d);
/* the host has just waited for all streams */
size_t tidei_pools_synced(tidei_dev *d);
size_t tidei_pools_trim(tidei_dev *d, unsigned kinds); /* TIDEI_KINDS_*, like the next ones */
/* Gives back so many bytes more by moving blocks off their pages, in pools that can. */
size_t tidei_pools_clear(tidei_dev *d, unsigned kinds, size_t bytes);
void tidei_pools_stats_of(tidei_dev *d, unsigned kinds, tidei_pool_stats *sum);
/* of what counts against the device's limits */
void tidei_pools_stats(tidei_dev *d, tidei_pool_stats *sum);
size_t tidei_pools_rounding(tidei_dev *d, unsigned kinds); /* of tidei_pools_stats_of; cheaper */
/* The largest request for which no block would have to be moved, at least: a free piece has its
** size, or the pages of `growth`, bytes that the pool can grow by (what grows beside a free piece
** may be larger). 0: none, or the pool does not know. */
size_t tidei_pool_largest(tidei_pool *p, size_t wanted, size_t growth);
size_t tidei_pools_pinned(tidei_dev *d); /* of live: must not move */
void tidei_pools_sweep(tidei_dev *d);

/* Pools give back what their thresholds do not let them keep (trim_policy.c); cheap where no look
** is due. `synced`: the host has just waited for the device; else only pools with the adaptive rule
** are asked. Called without any lock. */
void tidei_pools_look(tidei_dev *d, bool synced);
void tidei_pools_look_soon(tidei_dev *d); /* something has changed: the next sync point looks */

#endif
