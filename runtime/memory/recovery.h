/* recovery.h: what a request for memory does that does not fit: the one way from here up to the
** reclaim ladder (reclaim/ladder.c), which fills the table. */
#ifndef TIDEI_RECOVERY_H
#define TIDEI_RECOVERY_H

#include "runtime/pool/budget.h"

typedef tide_status (*tidei_attempt_fn)(void *arg, unsigned flags);
typedef struct tidei_attempted {
    tide_status status;
    uint64_t seen; /* number of climbs that had ended before the attempt */
} tidei_attempted;

/* In tidei_runtime, as `recovery`; the ladder's own. No slot is called with a lock held. */
struct tidei_recovery {
    _Atomic uint64_t climbs_ended;
    /* From the first attempt on, which was made without flags, where no error stood. */
    tide_status (*after)(tidei_dev *d, size_t bytes, bool outside, const char *what,
                         tidei_attempt_fn attempt, void *arg, tidei_attempted first);
    /* All of it, where an error stands or there is a soft limit. */
    tide_status (*aside)(tidei_dev *d, size_t bytes, bool outside, const char *what,
                         tidei_attempt_fn attempt, void *arg);
    /* A block of pinned or unified memory. */
    tide_status (*of_kind)(tidei_dev *d, tidei_mem_kind kind, size_t bytes, const char *what,
                           tidei_attempt_fn attempt, void *arg);
    /* The out-of-memory report. */
    tide_status (*report)(tidei_dev *d, tidei_mem_kind kind, size_t bytes, const char *what);
};

/* Tries `attempt(arg, flags)`, and while it returns TIDE_E_NOMEM climbs the ladder one rung and
** tries again; any other result ends the climb. flags are TIDEI_ALLOC_* for the pool. `bytes` is
** what is wanted, `what` names it in the report. On the final TIDE_E_NOMEM the error is the
** out-of-memory report; on success an earlier error stands. Beyond the soft limit idle memory is
** given back before the attempt may grow, where that is possible without waiting. One thread leads;
** others wait and try again. Never climbs from inside itself, a drain or a collection: then one
** plain attempt is all. */
static inline tide_status tidei_with_reclaim(tidei_dev *d, size_t bytes, const char *what,
                                             tidei_attempt_fn attempt, void *arg);
/* The same for memory that no pool takes: a library's, the driver's. Only memory that went back to
** the device is of use to it, so pools clear whole pages. */
static inline tide_status tidei_outside_with_reclaim(tidei_dev *d, size_t bytes, const char *what,
                                                     tidei_attempt_fn attempt, void *arg);
/* The same for a block of pinned or unified memory, whose attempt may also return
** TIDE_E_HOST_NOMEM: for that it climbs too, and reports it in the end. */
static inline tide_status tidei_reclaim_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes,
                                             const char *what, tidei_attempt_fn attempt,
                                             void *arg) {
    return d->rt->recovery->of_kind(d, kind, bytes, what, attempt, arg);
}
/* Composes the out-of-memory report for a request that nothing could serve; sets and returns
** TIDE_E_NOMEM. The second: for a kind of memory; TIDE_E_HOST_NOMEM where the host's limit is the
** tighter one. */
static inline tide_status tidei_out_of_memory(tidei_dev *d, size_t bytes, const char *what) {
    return d->rt->recovery->report(d, TIDEI_MEM_DEVICE, bytes, what);
}
static inline tide_status tidei_out_of_memory_in(tidei_dev *d, tidei_mem_kind kind, size_t bytes,
                                                 const char *what) {
    return d->rt->recovery->report(d, kind, bytes, what);
}

/* ---- the short way through the ladder: nobody is short ---- */

static inline tide_status tidei_reclaimed(tidei_dev *d, size_t bytes, bool outside,
                                          const char *what, tidei_attempt_fn attempt, void *arg) {
    bool soft = atomic_load_explicit(&d->budget->soft_limit, memory_order_relaxed) != SIZE_MAX;
    if (tidei_unlikely(soft || tidei_last_status() != TIDE_OK))
        return d->rt->recovery->aside(d, bytes, outside, what, attempt, arg);
    tidei_attempted first = {
        .seen = atomic_load_explicit(&d->rt->recovery->climbs_ended, memory_order_acquire)};
    first.status = attempt(arg, 0);
    return tidei_likely(first.status == TIDE_OK)
               ? TIDE_OK
               : d->rt->recovery->after(d, bytes, outside, what, attempt, arg, first);
}
static inline tide_status tidei_with_reclaim(tidei_dev *d, size_t bytes, const char *what,
                                             tidei_attempt_fn attempt, void *arg) {
    return tidei_reclaimed(d, bytes, false, what, attempt, arg);
}
static inline tide_status tidei_outside_with_reclaim(tidei_dev *d, size_t bytes, const char *what,
                                                     tidei_attempt_fn attempt, void *arg) {
    return tidei_reclaimed(d, bytes, true, what, attempt, arg);
}

#endif
