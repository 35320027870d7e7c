/* ladder.h: the reclaim ladder, and who can give memory back. */
#ifndef TIDEI_RECLAIM_H
#define TIDEI_RECLAIM_H

#include "runtime/pool/budget.h"
#include "runtime/streams/stream.h"
#include <tide/reclaim.h>

/* A holder of memory that can give it back (a cache of library handles, say). Slots return the
** bytes given back. They are called with no lock held, may call back into the library (a climb from
** inside does nothing), and report failure by setting the thread's error and *failed: it is logged
** and does not stop the others. `purge` may come from a thread of another runtime that is short,
** which this one does not know: it takes no memory of the device. */
typedef struct tidei_reclaimable {
    const char *name;
    size_t (*purge)(void *self, tidei_dev *d, size_t wanted, bool *failed); /* idle resources */
    /* let go of live state too */
    size_t (*drop)(void *self, tidei_dev *d, size_t wanted, bool *failed);
    /* (may be NULL) what it holds now, for texts; calls nothing */
    size_t (*bytes)(void *self, tidei_dev *d);
    void *self;
    bool cheap; /* purging waits for no device, and loses little: it comes before any collection */
    /* the registry's */
    struct tidei_reclaimable *next;
    uint64_t number; /* counted at registration, of all in the process */
    uint64_t told;   /* the climb whose failure was logged last */
    unsigned busy;
    bool by_user, over;
} tidei_reclaimable;
/* Borrowed until unregistered, which waits for a call in progress. */
void tidei_reclaimable_register(tidei_runtime *rt, tidei_reclaimable *r);
void tidei_reclaimable_unregister(tidei_runtime *rt, tidei_reclaimable *r);

/* Calls one slot of all entries, each on its own; returns the bytes. Nothing from inside such a
** call. What fails is logged once an `climb`: a climb, or one reclaim by hand. */
typedef enum { TIDEI_PURGE_CHEAP, TIDEI_PURGE, TIDEI_DROP } tidei_reclaim_slot;
size_t tidei_reclaimables_call(tidei_dev *d, tidei_reclaim_slot which, size_t wanted,
                               uint64_t climb_id);
uint64_t tidei_climb_id_new(tidei_runtime *rt); /* a new one */
/* The number of the entry in such a call of which the thread is, of whatever runtime; 0: of none.
** The second: calls were left, down to one that was made inside of that one. */
uint64_t tidei_inside_reclaimable(void);
void tidei_back_in_reclaimable(uint64_t number);
/* "cuBLAS 64.000 MiB, mine 3.000 MiB, others 1.000 MiB": the largest first; "" where none holds
** anything. Like snprintf. */
size_t tidei_reclaimables_text(tidei_dev *d, char *buf, size_t cap);
void tidei_reclaimables_close(tidei_runtime *rt); /* nobody calls any more */

/* Tries `attempt(arg, flags)`, and while it returns TIDE_E_NOMEM climbs the ladder one rung and
** tries again; any other result ends the climb. flags are TIDEI_ALLOC_* for the pool. `bytes` is
** what is wanted, `what` names it in the report. On the final TIDE_E_NOMEM the error is the
** out-of-memory report; on success an earlier error stands. Beyond the soft limit idle memory is
** given back before the attempt may grow, where that is possible without waiting. One thread leads;
** others wait and try again. Never climbs from inside itself, a drain or a collection: then one
** plain attempt is all. */
typedef tide_status (*tidei_attempt_fn)(void *arg, unsigned flags);
static inline tide_status tidei_with_reclaim(tidei_dev *d, size_t bytes, const char *what,
                                             tidei_attempt_fn attempt, void *arg); /* runtime.h */
/* The same for memory that is no pool's: a library's, the driver's. Of use to it is only what went
** back to the device, so pools clear whole pages for it. */
static inline tide_status tidei_outside_with_reclaim(tidei_dev *d, size_t bytes, const char *what,
                                                     /* runtime.h */
                                                     tidei_attempt_fn attempt, void *arg);
/* Its long ways: from the first attempt on, which was made without flags, where no error stood; and
** all of it, where one does or there is a soft limit. */
typedef struct tidei_attempted {
    tide_status status;
    uint64_t seen; /* climbs that had ended before */
} tidei_attempted;
tide_status tidei_reclaim_after(tidei_dev *d, size_t bytes, bool outside, const char *what,
                                tidei_attempt_fn attempt, void *arg, tidei_attempted first);
tide_status tidei_reclaim_aside(tidei_dev *d, size_t bytes, bool outside, const char *what,
                                tidei_attempt_fn attempt, void *arg);

/* The same for a block of pinned or unified memory, whose attempt may also return
** TIDE_E_HOST_NOMEM: that too is climbed for, and reported if it stays so. */
tide_status tidei_reclaim_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes, const char *what,
                               tidei_attempt_fn attempt, void *arg);

/* Composes the out-of-memory report for a request that nothing could serve; sets and returns
** TIDE_E_NOMEM. The second: of a kind; TIDE_E_HOST_NOMEM where it is the host that has less. */
tide_status tidei_out_of_memory(tidei_dev *d, size_t bytes, const char *what);
tide_status tidei_out_of_memory_in(tidei_dev *d, tidei_mem_kind kind, size_t bytes,
                                   const char *what);

/* What tide_reclaim does at a level, for one device or (NULL) all. Returns the bytes given back to
** the driver; from inside a callback of the ladder's it does nothing. */
size_t tidei_reclaim_by_hand(tidei_runtime *rt, tidei_dev *only, int level);
/* Gives so many bytes back by moving blocks off their pages, where as much is free on those;
** likewise. */
size_t tidei_reclaim_pages(tidei_dev *d, size_t bytes);
#endif
