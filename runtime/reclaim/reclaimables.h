/* reclaimables.h: the reclaimables, which can give memory back beside the pools. */
#ifndef TIDEI_RECLAIMABLES_H
#define TIDEI_RECLAIMABLES_H

#include "runtime/reclaim/reclaim.h"

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

/* Borrowed until unregistered, which waits for a call in progress. */
void tidei_reclaimable_register(tidei_runtime *rt, tidei_reclaimable *r);
void tidei_reclaimable_unregister(tidei_runtime *rt, tidei_reclaimable *r);

/* Calls one slot of all entries, one after the other; returns the bytes. Does nothing from inside
** such a call. A failure is logged once a climb; a reclaim by hand counts as one. */
typedef enum { TIDEI_PURGE_CHEAP, TIDEI_PURGE, TIDEI_DROP } tidei_reclaim_slot;
size_t tidei_reclaimables_call(tidei_dev *d, tidei_reclaim_slot which, size_t wanted,
                               uint64_t climb_id);
/* The number of the entry in whose slot the thread is, of whatever runtime; 0: in none. The second
** puts it back after a longjmp left slots. */
uint64_t tidei_inside_reclaimable(void);
void tidei_back_in_reclaimable(uint64_t number);
/* "cuBLAS 64.000 MiB, mine 3.000 MiB, others 1.000 MiB": the largest first; "" where no entry holds
** anything. Like snprintf. */
size_t tidei_reclaimables_text(tidei_dev *d, char *buf, size_t cap);
void tidei_reclaimables_close(tidei_runtime *rt); /* nobody calls any more */

#endif
