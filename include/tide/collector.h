/* collector.h: for embedders: how a garbage collector of one's own looks after arrays.
**
** The runtime counts references; a collector only reports deaths. An embedder's object holds a
** tide_array; its finalizer calls tide_release (or tide_free): one atomic step and one push on a
** lock-free list, legal in any finalizer, on any thread, while the world is stopped, in a signal's
** handler. In return the runtime asks the collector for a collection when device memory makes it
** worth one.
** A host with a collector of its own opens its runtimes with collector = "refcount": then no other
** is there, and bdwgc is not touched. */
#ifndef TIDE_COLLECTOR_H
#define TIDE_COLLECTOR_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

enum { TIDE_COLLECT_MINOR = 1, TIDE_COLLECT_FULL = 2 };
enum {
    /* every array unreachable before the call has been reported (or, if not exact, most) */
    TIDE_COLLECT_DONE = 0,
    TIDE_COLLECT_BUSY = 1,       /* not now: inside a finalizer, or a collection */
    TIDE_COLLECT_UNSUPPORTED = 2 /* this collector knows no such collection */
};
enum {
    TIDE_COLLECTOR_TRACING = 1, /* collect finds garbage; without it, only reference counts do */
    TIDE_COLLECTOR_MINOR = 2,   /* offers TIDE_COLLECT_MINOR */
    /* collect may run on the registering thread only; others ask it through a flag */
    TIDE_COLLECTOR_BOUND = 4
};

/* Every slot but `collect` may be NULL. No lock of the runtime is held in any of them. What each
** may call, and what becomes of one that is left by longjmp: docs/embedding.md. */
typedef struct tide_collector {
    size_t struct_size;
    const char *name; /* for logs and reports; borrowed while registered */
    uint32_t caps;
    uint32_t reserved;
    void *user;
    /* Collects now, and returns how it went. Called at safe points only: allocation, sync points,
    ** tide_collect; by one thread at a time; never from a finalizer of ours. May drop arrays, must
    ** make none. */
    int (*collect)(void *user, int level);
    /* (optional) False while a collection is out of the question (inside a finalizer). Cheap; any
    ** thread. */
    int (*may_collect)(void *user);
    /* (optional) Signed change, since the last call, of the device bytes that its arrays keep alive
    ** (views weigh nothing). Accounting only: must not collect, must not block. Called when an
    ** array is made after a MiB of growth, else at sync and safe points and after collections, and
    ** before `detach`; by several threads at once, for a bound collector on its own thread only.
    ** But the call before `detach` comes on the thread of `detach`; after it all that was told adds
    ** up to 0. */
    void (*pressure)(void *user, int64_t delta_bytes);
    /* (optional) Runs fn(wait), once, on the calling thread; it touches no object of the collector:
    ** the thread may be treated as stopped meanwhile. Called by any thread that is about to wait,
    ** for a bound collector too; by several at once, and inside `blocking` of other collectors. */
    void (*blocking)(void *user, void (*fn)(void *wait), void *wait);
    /* (optional) The runtime closes or the collector is unregistered: the last call, on the thread
    ** that does it. If `blocking` or `pressure` is left by longjmp before that, the collector is
    ** still registered. */
    void (*detach)(void *user);
} tide_collector;

/* Registers a copy of the table; its name and what `user` points to live until it is unregistered,
** or the runtime closed. Arrays that this thread makes from now on are its own (their maker holds
** one reference, as under "refcount"); other threads choose with tide_collector_use. *id (may be
** NULL) names it from then on, and is never 0, which is the runtime's own. TIDE_E_INVALID: c or
** `collect` is NULL, struct_size is none, `caps` has an unknown bit, or there are 8 in the runtime,
** or have been 2^31 - 2. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_collector_register(tide_runtime *rt,
                                                            const tide_collector *c, uint64_t *id);
/* Takes a collector out. Arrays it owns stay reference-counted. Waits until no thread is inside its
** slots, in the blocking regions: so no thread that holds what these want (an interpreter's lock)
** may wait meanwhile for this one. Threads that unregister at once take turns; of two with the same
** id one is TIDE_E_INVALID. So are 0, an id that is not registered, and a call from inside a
** callback that may not (docs/embedding.md). Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_collector_unregister(tide_runtime *rt, uint64_t id);
/* Arrays this thread makes from now on belong to collector `id`; 0: the runtime's own. An id that
** is not registered is TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_collector_use(tide_runtime *rt, uint64_t id);
/* A safe point of the embedder's own (a loop's back edge): drains, answers a pending request to
** collect, asks the policy. May collect. Never blocks. */
TIDE_API void tide_safepoint(tide_runtime *rt);

/* For a host of bdwgc: 1 if a data segment of this library (a path or base name) belongs to CUDA
** and should be kept out of the roots (cuBLAS alone makes a collection 40 ms longer), else 0, for
** NULL too. The collector "boehm" installs such a filter when the first runtime opens with it; the
** slot is single, so a host with a filter of its own installs that afterwards. Never collects.
** Never blocks. */
TIDE_API int tide_collector_is_device_library(const char *name);

#if defined(__cplusplus)
}
#endif
#endif
