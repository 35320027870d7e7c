/* collect.h: what the runtime needs of the collectors, as a table that `gc` fills (gc/gc.c) when a
** runtime opens. */
#ifndef TIDEI_COLLECT_H
#define TIDEI_COLLECT_H

#include "runtime/base/base.h"
#include <tide/collector.h>

typedef struct tidei_thread tidei_thread;
typedef struct tidei_dev tidei_dev;
typedef struct tidei_header tidei_header;

typedef enum { TIDEI_AT_ALLOC, TIDEI_AT_SYNC, TIDEI_AT_SAFEPOINT } tidei_where;

struct tidei_pool;

typedef struct tidei_gc_ops {
    /* Asks the policy, and collects if it says so. At TIDEI_AT_ALLOC `request` bytes are wanted
    ** (they are not live yet); at TIDEI_AT_SYNC the host is about to block. Returns at once if
    ** another thread is doing so. Drains after a collection. Never from inside a drain, a
    ** collection or a finalizer. `pool`: of which they are wanted; NULL: of none, or nobody
    ** knows. */
    void (*ask)(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request,
                struct tidei_pool *pool);
    /* (may be NULL) The same at an allocation of host memory in arrays, which has a budget of its
    ** own. */
    void (*ask_host)(tidei_runtime *rt, size_t request);
    /* Collects now, at this level (TIDE_COLLECT_*), by all collectors that offer it; drains; waits
    ** for another thread's collection and counts that as its own. Returns bytes that came back.
    ** `why` is for the log. *ran (may be NULL): whether any collector did. */
    size_t (*collect)(tidei_runtime *rt, int level, const char *why, bool *ran);
    /* Makes a cell for a new header, of the thread's current collector: sets h->owner, h->home,
    ** h->refs. TIDE_E_HOST_NOMEM. */
    tide_status (*new_cell)(tidei_runtime *rt, tidei_thread *t, tidei_header *h);
    /* Memory that weighed `bytes` on collector `owner` is gone. */
    void (*discharge)(tidei_runtime *rt, uint32_t owner, size_t bytes);
    /* tide_retain / tide_release on a live header. release on a tracing owner's array that was not
    ** retained: TIDE_E_INVALID. */
    tide_status (*retain)(tidei_header *h);
    tide_status (*release)(tidei_header *h);
    /* (may be NULL) Whether the header's owner is a tracing collector, which found it dead if its
    ** cell is gone. Of a header that is dead; false where the owner is gone too. */
    bool (*traces)(const tidei_header *h);
    /* A thread enters its first call / leaves. */
    tide_status (*thread_attach)(tidei_runtime *rt, tidei_thread *t);
    void (*thread_detach)(tidei_runtime *rt, tidei_thread *t);
    /* Runs fn(arg) so that no collector waits for this thread meanwhile: it blocks for the
    ** device. */
    void (*blocking)(tidei_runtime *rt, void (*fn)(void *arg), void *arg);
    /* Waits, in the blocking region, until *count is not `seen`; does meanwhile what collectors
    ** bound to this thread are asked for. A thread that changes *count calls `wake` then. */
    void (*wait)(tidei_runtime *rt, const _Atomic uint64_t *count, uint64_t seen);
    void (*wake)(tidei_runtime *rt);
    /* (may be NULL) Collectors bound to other threads may have been asked by the last full
    ** collection, and not have come yet: waits for them, in the blocking region, for at most
    ** *patience_ns, which becomes what is left of it; meanwhile it does what `wait` does. A
    ** collector that has begun is waited for to its end. False: there was none to wait for. */
    bool (*await)(tidei_runtime *rt, uint64_t *patience_ns);
    /* Which collectors could not be reached by the last full collection; "" if all were. For the
    ** report. */
    size_t (*unreached)(tidei_runtime *rt, char *buf, size_t cap);
    void (*close)(
        /* unregisters every collector; no report of theirs comes later but through cells */
        tidei_runtime *rt);
} tidei_gc_ops;

/* What collections came to, of a runtime; and what they are timed by. */
typedef struct tidei_gc_counts {
    _Atomic uint64_t collections, early_collections, collect_ns, collect_max_ns;
    _Atomic size_t collected, gc_root_bytes;
    /* tests: NULL: the system's clock; policies look at rates */
    uint64_t (*clock_ns)(void);
    bool clock_is_real; /* clock_ns tells the machine's time: prices are the machine's too */
} tidei_gc_counts;

/* The collectors' slots, which do nothing while no collector's floor is open. */
/* runs fn in the blocking region */
void tidei_blocking(tidei_runtime *rt, void (*fn)(void *arg), void *arg);
void tidei_ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request);
/* `request` bytes of the device's pool are wanted */
void tidei_ask_alloc(tidei_runtime *rt, tidei_dev *d, struct tidei_pool *pool, size_t request);
void tidei_ask_host(tidei_runtime *rt,
                    /* an array of `request` bytes in the host's memory is wanted */
                    size_t request);
size_t tidei_collect(tidei_runtime *rt, int level, const char *why, bool *ran);

#endif
