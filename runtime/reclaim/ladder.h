/* ladder.h: the reclaim ladder, and the reclaimables, which can give memory back. */
#ifndef TIDEI_RECLAIM_H
#define TIDEI_RECLAIM_H

#include "runtime/memory/recovery.h"
#include <tide/reclaim.h>

/* A holder of memory that can give it back (a cache of library handles, say). Slots return the
** bytes given back. They are called with no lock held, may call back into the library (a climb from
** inside does nothing), and report failure by setting the thread's error and *failed: it is logged
** and does not stop the others. `purge` may be called by a thread of another runtime that is short,
** a thread unknown to this runtime: it takes no memory of the device. */
typedef struct tidei_reclaimable {
    const char *name;
    size_t (*purge)(void *self, tidei_dev *d, size_t wanted, bool *failed); /* idle resources */
    /* lets go of live state too */
    size_t (*drop)(void *self, tidei_dev *d, size_t wanted, bool *failed);
    /* (may be NULL) the bytes it holds now, for reports; calls nothing */
    size_t (*bytes)(void *self, tidei_dev *d);
    void *self;
    bool cheap; /* purging waits for no device, and loses little: it comes before any collection */
    /* the registry's */
    struct tidei_reclaimable *next;
    uint64_t number; /* order of registration, in the whole process */
    uint64_t told;   /* the last climb for which a failure was logged */
    unsigned busy;
    bool by_user, over;
} tidei_reclaimable;
/* In tidei_runtime. */
struct tidei_reclaim {
    tidei_recovery recovery;
    pthread_mutex_t reclaimables_lock;
    pthread_cond_t reclaimables_idle;
    tidei_reclaimable *reclaimables; /* newest first */
    _Atomic uint64_t climb_ids;
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

/* Borrowed until unregistered, which waits for a call in progress. */
void tidei_reclaimable_register(tidei_runtime *rt, tidei_reclaimable *r);
void tidei_reclaimable_unregister(tidei_runtime *rt, tidei_reclaimable *r);

/* Calls one slot of all entries, one after the other; returns the bytes. Does nothing from inside
** such a call. A failure is logged once a climb; a reclaim by hand counts as one. */
typedef enum { TIDEI_PURGE_CHEAP, TIDEI_PURGE, TIDEI_DROP } tidei_reclaim_slot;
size_t tidei_reclaimables_call(tidei_dev *d, tidei_reclaim_slot which, size_t wanted,
                               uint64_t climb_id);
uint64_t tidei_climb_id_new(tidei_runtime *rt); /* a new one */
/* The number of the entry in whose slot the thread is, of whatever runtime; 0: in none. The second
** puts it back after a longjmp left slots. */
uint64_t tidei_inside_reclaimable(void);
void tidei_back_in_reclaimable(uint64_t number);
/* "cuBLAS 64.000 MiB, mine 3.000 MiB, others 1.000 MiB": the largest first; "" where no entry holds
** anything. Like snprintf. */
size_t tidei_reclaimables_text(tidei_dev *d, char *buf, size_t cap);
void tidei_reclaimables_close(tidei_runtime *rt); /* nobody calls any more */

/* What tide_reclaim does at a level, for one device or (NULL) all. Returns the bytes given back to
** the driver; from inside a callback of the ladder's it does nothing. */
size_t tidei_reclaim_by_hand(tidei_runtime *rt, tidei_dev *only, int level);
/* Gives so many bytes back by moving blocks off their pages, where as much is free on pages; from
** inside a callback of the ladder's it does nothing. */
size_t tidei_reclaim_pages(tidei_dev *d, size_t bytes);
#endif
