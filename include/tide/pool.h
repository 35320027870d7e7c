/* pool.h: memory pools: several a device, each with its attributes and figures, and lending one to
** others.
**
** A pool hands out a device's memory and keeps what comes back for reuse. A runtime opens with one,
** the *default* pool (TIDE_POOL, tide_config.pool); more can be made, say to keep a component's
** memory and figures apart. Every thread has a *current* pool, at first the default one: the arrays
** that it makes come from there, wherever they are used and dropped; where arrays are of another
** kind of memory unless told otherwise (TIDE_DEFAULT_MEMORY), only once it has set one. All pools
** of a device share its limits and the reclaim ladder, and give back what is free when any of them
** is short. */
#ifndef TIDE_POOL_H
#define TIDE_POOL_H

#include <tide/runtime.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct tide_pool tide_pool; /* belongs to its runtime, and ends with it at the latest */

/* Release thresholds: how much free memory a pool keeps when the host has waited for the device
** (sync points). */
#define TIDE_POOL_THRESHOLD_UNLIMITED SIZE_MAX /* all of it */
/* what has been of use lately: docs/pools.md. The default, but 0 for the pool `driver` */
#define TIDE_POOL_THRESHOLD_ADAPTIVE (SIZE_MAX - 1)

/* How to make a pool. Zero everything, set struct_size = sizeof(tide_pool_config), fill in what
** matters; a field left zero or NULL takes what the runtime's default pool was opened with. */
typedef struct tide_pool_config {
    size_t struct_size;
    const char *kind; /* as TIDE_POOL takes it: "tide", "driver", "split:200MiB", ... */
    /* as TIDE_RELEASE_THRESHOLD takes it: "256MiB", "50%", "unlimited", "adaptive" */
    const char *release_threshold;
    int deterministic; /* TIDE_ON, TIDE_OFF; each of these as the attribute below */
    /* default: on, on, and the last one on for "tide" alone */
    int reuse_follow, reuse_done, reuse_wait;
} tide_pool_config;

/* Makes a pool on the calling thread's device. `config` may be NULL. */
TIDE_API TIDE_NODISCARD tide_status tide_pool_new(tide_runtime *rt, const tide_pool_config *config,
                                                  tide_pool **out);
/* The caller is done with it. Arrays that live in it stay valid, and threads whose current pool it
** is go on with it; once the last of both is gone and the device's work on its memory is done, its
** memory goes back at the next sync point, climb or tide_reclaim. NULL is legal; the default pool
** stays. */
TIDE_API void tide_pool_release(tide_pool *pool);

TIDE_API tide_pool *
tide_pool_default(tide_runtime *rt); /* of the thread's device; NULL if the thread cannot enter */
TIDE_API tide_pool *tide_pool_current(tide_runtime *rt);
/* for this thread, on the pool's device; NULL: the current device's default */
TIDE_API TIDE_NODISCARD tide_status tide_pool_set(tide_runtime *rt, tide_pool *pool);

/* What can be changed while a pool works; a change counts from the next call on, a threshold from
** the next sync point. */
enum {
    TIDE_POOL_RELEASE_THRESHOLD = 1, /* bytes, or TIDE_POOL_THRESHOLD_* */
    /* When freed memory may serve another stream than the one whose work is pending on it. 0 or
    ** 1. */
    TIDE_POOL_REUSE_FOLLOW = 2, /* if that stream waits for the work anyway */
    TIDE_POOL_REUSE_DONE = 3,   /* if the work happens to be done */
    /* always, rather than take more from the driver: the stream is made to wait; `tide` leaves a
    ** part alone, so that streams can work side by side */
    TIDE_POOL_REUSE_WAIT = 4,
    TIDE_POOL_MAX_SPLIT =
        5, /* pool `split`: pieces of so many bytes and more stay whole; SIZE_MAX: all are split */
    TIDE_POOL_DETERMINISTIC =
        6 /* 0 or 1: the same program gets the same addresses, however fast the device is. Pool `tide`: nothing goes
             back by the clock, and what is pending once the host has waited for all streams */
};
TIDE_API TIDE_NODISCARD tide_status tide_pool_set_attribute(tide_pool *pool, int attribute,
                                                            uint64_t value);
TIDE_API TIDE_NODISCARD tide_status tide_pool_get_attribute(tide_pool *pool, int attribute,
                                                            uint64_t *value);

/* Blocks by size: class 0 holds requests up to 256 bytes, each next one those up to twice as many,
** the last all larger. */
#define TIDE_POOL_CLASSES 32
typedef struct tide_pool_class {
    /* the largest request of the class; SIZE_MAX in the last */
    size_t bytes;
    /* blocks: handed out now, at most, so far, come back */
    uint64_t current, peak, allocated, freed;
    uint64_t current_bytes, peak_bytes, allocated_bytes, freed_bytes; /* as requested */
} tide_pool_class;

/* Sizes in bytes. live + rounding + cached + pending = backed. Peaks are since the pool was made or
** tide_runtime_reset_peaks. Those of classes are samples, taken when somebody asks, and at allocations: a
** thread's first 64 of a class, then every 64th. */
typedef struct tide_pool_figures {
    size_t struct_size;     /* set by the caller to sizeof(tide_pool_figures) */
    size_t live, peak_live; /* requested by arrays and workspaces not yet returned */
    size_t rounding;        /* lost to granules */
    size_t cached;          /* free, ready for anyone */
    size_t pending;         /* freed, with device work pending */
    size_t backed;          /* taken from the driver */
    /* the largest request that fits now, without collecting, waiting or giving anything back */
    size_t largest;
    size_t pinned; /* of live: an address was handed out, so it must not move */
    uint64_t allocations, frees;
    /* driver attempts after a full flush: everything cached had been given back */
    uint64_t retries;
    uint64_t ooms; /* requests that failed with the out-of-memory report */
    /* times blocks were moved to make room, and how much in them */
    uint64_t compactions, bytes_moved;
    /* free memory that got other addresses, as pinned blocks stood between it */
    uint64_t bytes_remapped;
    tide_pool_class classes[TIDE_POOL_CLASSES];
} tide_pool_figures;

/* Drains first, so that arrays known dead no longer count. Never collects. */
TIDE_API TIDE_NODISCARD tide_status tide_pool_info(tide_pool *pool, tide_pool_figures *out);
/* The same for people: some lines of figures, then a table of the classes in use. Returns the
** length that the whole text has, like snprintf. */
TIDE_API size_t tide_pool_text(tide_pool *pool, char *buf, size_t cap);

/* ---- lending a pool ----
** Memory by address, in the order of a stream (NULL: the thread's current one on the pool's
** device), for allocators of others. What is queued on the stream's native handle after malloc may
** use the block at once; free says that its uses end with what is queued on the stream by then, and
** returns at once. A block used on several streams: the caller makes the stream given to free wait
** for the others. Malloc climbs the reclaim ladder as arrays do; NULL on failure, with the error
** set. Zero bytes are served as one. Free takes blocks of any pool of the runtime (`pool` names the
** runtime); NULL is legal, an unknown address an error that changes nothing. A lent block is
** pinned. */
TIDE_API void *tide_pool_malloc(tide_pool *pool, size_t bytes, tide_stream *s);
TIDE_API void tide_pool_free(tide_pool *pool, void *ptr, tide_stream *s);

/* The same in the form that PyTorch's torch.cuda.memory.CUDAPluggableAllocator asks for
** (docs/pools.md), on a runtime a GPU that the first call opens; the environment configures it.
** `stream` is a CUstream. Where no GPU is to be had, a host device serves. Close returns all their
** memory; nobody may use it or call these any more. */
TIDE_API void *tide_torch_malloc(ptrdiff_t size, int device, void *stream);
TIDE_API void tide_torch_free(void *ptr, ptrdiff_t size, int device, void *stream);
TIDE_API void tide_torch_close(void);

#if defined(__cplusplus)
}
#endif
#endif
