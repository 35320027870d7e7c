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

/* all of it */
#define TIDE_POOL_THRESHOLD_UNLIMITED SIZE_MAX
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

/* Makes a pool on the calling thread's current device; *out is the caller's until
** tide_pool_release. `config` may be NULL. TIDE_E_INVALID: what it says is not understood, as the
** message says; TIDE_E_UNSUPPORTED: the device has no such pool. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_pool_new(tide_runtime *rt, const tide_pool_config *config,
                                                  tide_pool **out);
/* The caller is done with it. Arrays that live in it stay valid, and threads whose current pool it
** is go on with it; once the last of both is gone and the device's work on its memory is done, its
** memory goes back at the next sync point, climb or tide_reclaim. NULL is legal; the default pool
** stays; a second time is the error TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API void tide_pool_release(tide_pool *pool);

/* The default pool of the thread's current device, borrowed; NULL on failure. Never collects.
** Never blocks. */
TIDE_API tide_pool *tide_pool_default(tide_runtime *rt);
/* The calling thread's current pool on its current device, borrowed; NULL on failure.
** Never collects. Never blocks. */
TIDE_API tide_pool *tide_pool_current(tide_runtime *rt);
/* Makes a pool the calling thread's current one on that pool's device; NULL: the current device's
** default. A pool of another runtime is TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_pool_set(tide_runtime *rt, tide_pool *pool);

/* What can be changed while a pool works; a change counts from the next call on, a threshold from
** the next sync point. */
enum {
    TIDE_POOL_RELEASE_THRESHOLD = 1, /* bytes, or TIDE_POOL_THRESHOLD_* */
    /* 0 or 1: when freed memory may serve another stream than that whose work is pending on it */
    TIDE_POOL_REUSE_FOLLOW = 2, /* if that stream waits for the work anyway */
    TIDE_POOL_REUSE_DONE = 3,   /* if the work happens to be done */
    /* always, rather than take more from the driver: the stream is made to wait; `tide` leaves a
    ** part alone, so that streams can work side by side. Where that much is free for the stream
    ** itself, in pieces between blocks that may not move, `tide` waits for its work, and brings
    ** the free pages together (only with TIDE_POOL_REUSE_DONE) */
    TIDE_POOL_REUSE_WAIT = 4,
    /* pool `split`: pieces of so many bytes and more stay whole; SIZE_MAX: all are split */
    TIDE_POOL_MAX_SPLIT = 5,
    /* 0 or 1: the same program gets the same addresses, however fast the device is. Pool `tide`:
    ** nothing goes back by the clock, and what is pending once the host has waited for all
    ** streams */
    TIDE_POOL_DETERMINISTIC = 6
};
/* Changes an attribute. TIDE_E_INVALID: there is none of that number, or none of its values is this
** one (a switch is 0 or 1; TIDE_POOL_MAX_SPLIT is more than 20 MiB); TIDE_E_UNSUPPORTED:
** TIDE_POOL_MAX_SPLIT of another pool than `split`. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_pool_set_attribute(tide_pool *pool, int attribute,
                                                            uint64_t value);
/* Reads an attribute into *value; errors as tide_pool_set_attribute, and TIDE_E_INVALID where value
** is NULL. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_pool_get_attribute(tide_pool *pool, int attribute,
                                                            uint64_t *value);

/* Blocks by size: class 0 holds requests up to 256 bytes, each next one those up to twice as many,
** the last all larger. */
#define TIDE_POOL_CLASSES 32
typedef struct tide_pool_class {
    size_t bytes; /* the largest request of the class; SIZE_MAX in the last */
    /* blocks: handed out now, at most, so far, come back */
    uint64_t current, peak, allocated, freed;
    uint64_t current_bytes, peak_bytes, allocated_bytes, freed_bytes; /* as requested */
} tide_pool_class;

/* Sizes in bytes. live + rounding + cached + pending = backed. Peaks are since the pool was made or
** tide_runtime_reset_peaks. Those of classes are samples, taken when somebody asks, and at
** allocations: a thread's first 64 of a class, then every 64th. */
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

/* The pool's figures. Drains first, so that arrays known dead no longer count. TIDE_E_INVALID: out
** is NULL, or out->struct_size is none. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_pool_info(tide_pool *pool, tide_pool_figures *out);
/* The same for people: some lines of figures, then a table of the classes in use. Returns the
** length that the whole text has, like snprintf; `buf` may be NULL, which counts as `cap` 0. 0 on
** failure. Drains first. Never collects. Never blocks. */
TIDE_API size_t tide_pool_text(tide_pool *pool, char *buf, size_t cap);

/* ---- lending a pool ----
** Memory by address, in the order of a stream (NULL: the thread's current one on the pool's device;
** another device's is TIDE_E_INVALID), for allocators of others. A lent block is pinned. */

/* A block that what is queued on the native stream from now on may use at once. Climbs the reclaim
** ladder as arrays do; NULL on failure, with the error set. Zero bytes are served as one.
** It is the caller's until tide_pool_free, or tide_close. May collect. Never blocks. */
TIDE_API void *tide_pool_malloc(tide_pool *pool, tide_stream *s, size_t bytes);
/* Gives a block back: its uses end with what is queued on the stream by now. A block used on
** several streams: the caller makes this one wait for the others. Takes blocks of any pool of the
** runtime (`pool` names the runtime); NULL is legal, an unknown address is the error TIDE_E_INVALID
** and changes nothing. Never collects. Never blocks. */
TIDE_API void tide_pool_free(tide_pool *pool, tide_stream *s, void *ptr);

/* The same in the form that PyTorch's torch.cuda.memory.CUDAPluggableAllocator asks for
** (docs/pools.md), on one runtime for each GPU, which the first call opens; the environment
** configures it. `device` is 0 to 63, `stream` a CUstream. Where no GPU is to be had, a host device
** serves. */

/* tide_pool_malloc of the default pool of the device's runtime; NULL on failure, with the error set
** (size < 0 and a device that cannot be are TIDE_E_INVALID). May collect. Never blocks. */
TIDE_API void *tide_torch_malloc(ptrdiff_t size, int device, void *stream);
/* tide_pool_free of such a block; NULL is legal, `size` is not looked at. Never collects.
** Never blocks. */
TIDE_API void tide_torch_free(void *ptr, ptrdiff_t size, int device, void *stream);
/* Closes the runtimes, as tide_close: all their memory goes back. Nobody may use it or call these
** any more. May collect. Blocks. */
TIDE_API void tide_torch_close(void);

#if defined(__cplusplus)
}
#endif
#endif
