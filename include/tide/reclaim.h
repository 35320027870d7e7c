/* reclaim.h: giving memory back: by hand, and by caches of the program's own that give way when
** memory is short.
**
** A request that does not fit climbs a ladder: what is dead is found, caches let go of what lies
** idle, collectors run, streams are waited for, memory goes back to the driver, libraries drop
** their state, and where that is asked for (tide_config.spill) arrays that nothing is using go to
** the host; after each rung it is tried again, and the climb stops as soon as it fits. Several
** threads that fail together climb once. What a program keeps for later use takes part in that once
** it is registered here. */
#ifndef TIDE_RECLAIM_H
#define TIDE_RECLAIM_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* How much tide_reclaim does. */
enum {
    TIDE_RECLAIM_PURGE = 0, /* caches let go of what is idle, pools of what is free */
    TIDE_RECLAIM_SYNC = 1,  /* and wait for the streams */
    TIDE_RECLAIM_GC = 2,    /* and collect */
    TIDE_RECLAIM_DROP = 3,  /* and drop library state */
    TIDE_RECLAIM_SPILL = 4  /* and spill the arrays that nothing is using (docs/memory.md) */
};
/* Gives memory back, of all open devices. Each level is complete at its strength and ends with the
** purge and the trim of what it freed. Never necessary before an array operation. `freed` (may be
** NULL) receives the bytes returned to the driver. TIDE_E_INVALID: there is no such level. From
** inside a slot of a tide_reclaimable, or a collection, it does nothing, and gives 0.
** TIDE_RECLAIM_SYNC and above wait for the streams; TIDE_RECLAIM_PURGE waits where pinned or
** unified memory goes back to the driver (tide/memory.h), or a library's handle goes. May collect.
** May block. */
TIDE_API TIDE_NODISCARD tide_status tide_reclaim(tide_runtime *rt, int level, size_t *freed);

/* A cache that can give memory back. Zero everything, set struct_size = sizeof(tide_reclaimable),
** fill in what matters.
**
** The slots are called without any lock of the library, by whatever thread is short, for one device
** at a time; at the same time by several threads, and by a thread of another runtime of the process
** that is short on the same device. They may call the library: to drop arrays, to register and
** unregister, and even to make arrays, for which nothing is reclaimed then. They leave the calling
** thread attached and its streams as they were; a device that they made current is undone. They do
** not close the runtime. A slot runs inside calls that make arrays, so its caller may hold whatever
** the program holds around such a call: a lock that both want must be tried, not waited for.
** A slot that fails returns the reason: the log has one line for it a climb, with the name, and the
** others run all the same. */
typedef struct tide_reclaimable {
    size_t struct_size;
    const char *name; /* in the log, status texts and out-of-memory reports; copied */
    /* (may be NULL) Lets go of what is idle on the device. `wanted`: what is short, SIZE_MAX for
    ** all there is; more may go. *given, 0 at first, receives about how many bytes went. */
    tide_status (*purge)(void *user, int device, size_t wanted, size_t *given);
    /* (may be NULL) Lets go of live state as well, all that can be made again. What thereby becomes
    ** garbage, or idle, is collected and purged afterwards. */
    tide_status (*drop)(void *user, int device, size_t wanted, size_t *given);
    /* (may be NULL) What it holds on the device now, for texts. Calls nothing of the library. Not
    ** asked while the thread is inside a slot. */
    size_t (*bytes)(void *user, int device);
    void *user;
    /* Not 0: what purge lets go of is dear to make again, or letting go waits for the device. Such
    ** a cache is asked only when collections have not helped; others are before any. A soft limit
    ** asks only those others. */
    int32_t dear;
    int32_t reserved;
} tide_reclaimable;

/* Registers a cache: a copy of *r and of its name; what `user` points to lives until it is
** unregistered. Any time, from any thread, also from inside a slot. Each registration is one of its
** own, whoever made one before. *id (may be NULL), never 0, is for tide_reclaimable_unregister;
** tide_close forgets those that are left. TIDE_E_INVALID: r is NULL, struct_size is none, the name
** is NULL, or both of `purge` and `drop` are. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_reclaimable_register(tide_runtime *rt,
                                                              const tide_reclaimable *r,
                                                              uint64_t *id);
/* Afterwards no slot of it runs any more: what others' threads are calling is waited for (so two
** slots do not unregister each other). From inside its own slot, the call that is under way is the
** thread's last. An id that is not registered is TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_reclaimable_unregister(tide_runtime *rt, uint64_t id);

#if defined(__cplusplus)
}
#endif
#endif
