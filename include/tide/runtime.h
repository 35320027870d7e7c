/* runtime.h: opening and closing a runtime, its configuration, figures, streams and sync points. */
#ifndef TIDE_RUNTIME_H
#define TIDE_RUNTIME_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A switch of tide_config; TIDE_DEFAULT: environment, then default. */
enum { TIDE_DEFAULT = 0, TIDE_ON = 1, TIDE_OFF = 2 };
/* Levels of the log; 0, TIDE_DEFAULT, is none of them. Nothing is logged at TIDE_LOG_SILENT. */
enum {
    TIDE_LOG_SILENT = -1,
    TIDE_LOG_ERROR = 1,
    TIDE_LOG_WARNING = 2,
    TIDE_LOG_INFO = 3,
    TIDE_LOG_DEBUG = 4
};

/* Called with one line without its newline. May come from any thread of the program's that is in a
** call, or ends; no lock of the runtime is held. It may call tide_runtime_info and
** tide_runtime_text, nothing else of the library, and must return (no longjmp, no exception, no
** pthread_exit): the call goes on behind the line. */
typedef void (*tide_log_fn)(void *user, int level, const char *line);

/* Host memory for the runtime's own records. `alloc` returns memory aligned for any object, or
** NULL. Both are called from any thread, the library's own too, also with locks of the runtime
** held: they must not call the library, and must return (no longjmp, no exception). */
typedef struct tide_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void (*free)(void *user, void *p);
    void *user;
} tide_allocator;

/* How to open a runtime. Zero everything, set struct_size = sizeof(tide_config), fill in what
** matters. A field left zero or NULL takes the environment variable named beside it, then the
** default. docs/environment.md lists them all. A bad value here fails tide_open, and so does a
** limit in the environment that is not understood (TIDE_E_INVALID): it would not be in force.
** Another bad value in the environment is a warning with the default kept, which is logged, to
** stderr or `log`, even if nobody chose a level. `tide info --env` shows them all. */
typedef struct tide_config {
    size_t struct_size;
    /* TIDE_DEVICE: "cuda", "cuda:N", "host", "host:N". Default: cuda where it opens, else host */
    const char *device;
    /* TIDE_LIMIT: hard limit, "4GiB", "50%", bytes. Default: none (host: its memory) */
    const char *limit;
    const char *soft_limit; /* TIDE_SOFT_LIMIT: start giving back above it. Default: none */
    const char *collector;  /* TIDE_COLLECTOR: "boehm", "refcount". Default: boehm where built */
    /* TIDE_POLICY: "reserve" (default), "cudajl", "never" and others, with parameters as in
    ** "reserve(x0=0.5)": docs/policies.md; one of your own: tide/policy.h */
    const char *policy;
    int gc_early; /* TIDE_GC_EARLY: collect before memory runs out. Default: on */
    /* TIDE_POOL: "tide" (default), "driver", "split", "binned", "simple", "none" */
    const char *pool;
    /* TIDE_RELEASE_THRESHOLD: free memory that sync points leave in a pool: "256MiB", "50%",
    ** "unlimited", "adaptive" (default; "0" for the pool driver) */
    const char *release_threshold;
    /* TIDE_POOL_DETERMINISTIC: the same program gets the same addresses. Default: off */
    int deterministic;
    /* TIDE_HOST_DEVICE_MEMORY: memory of one host device. Default: half of min(RAM, cgroup limit),
    ** or a quarter of the addresses that RLIMIT_AS leaves, where that is less */
    const char *host_device_memory;
    int host_devices; /* TIDE_HOST_DEVICES: how many host devices there are. Default: 1 */
    /* TIDE_LOG: TIDE_LOG_SILENT, TIDE_LOG_ERROR, ... Default: silent but for what is wrong in the
    ** environment; warning where allocations are tracked */
    int log_level;
    tide_log_fn log; /* default: stderr */
    void *log_user;
    /* TIDE_DEBUG: 1 checks more (dead cells are quarantined, host accesses are checked); 2 and
    ** tracks allocations: tide_runtime_text lists what is held, tide_close logs it
    ** (docs/debugging.md) */
    int debug;
    int cache; /* TIDE_CACHE: keep compiled kernels on disk. Default: on */
    /* TIDE_CACHE_DIR, an absolute path. Default: $XDG_CACHE_HOME/tidepool, $HOME/.cache/tidepool */
    const char *cache_dir;
    /* TIDE_CACHE_MAX: bound on that folder. Default: 256MiB */
    const char *cache_max;
    /* default: malloc and free */
    const tide_allocator *allocator;
    /* TIDE_TRACE: a file in which is recorded what the runtime does: .csv for tide replay, .json
    ** for Perfetto (docs/tracing.md). One that cannot be opened is TIDE_E_IO. Where another runtime
    ** of the process has recorded, or another process is recording, the next name is taken:
    ** run.2.csv. Default: nothing is recorded */
    const char *trace;
    /* TIDE_THREAD_STREAMS: threads other than the opening one begin on streams of their own.
    ** Default: on */
    int thread_streams;
    /* TIDE_DEBUG=sample:N: only each thread's every N-th allocation is tracked. Default: as `debug`
    ** says */
    int debug_sample;
    /* TIDE_DEFAULT_MEMORY: the kind of new arrays: "device" (default), "pinned", "unified" */
    const char *default_memory;
    /* TIDE_PINNED_LIMIT: bound on pinned and unified memory, "4GiB", "25%" of RAM. Default:
    ** "50%" */
    const char *pinned_limit;
    /* TIDE_PEERS: which devices may use each other's memory where they can: "all" (default),
    ** "none", or pairs: "0-1,2-3". The others' arrays are copied through the host
    ** (tide/device.h) */
    const char *peers;
    /* TIDE_HANDLE_CACHE: what idle library handles of a device may hold (docs/libraries.md).
    ** Default: 512MiB */
    const char *handle_cache;
    /* TIDE_SPILL: before memory runs out, arrays not in use go to pinned memory (docs/memory.md).
    ** Default: off */
    int spill;
    /* TIDE_COLLECT_WAIT: before memory runs out, how long to wait for collectors that are bound to
    ** other threads: "50ms" (default), "200us", "2s", "0" */
    const char *collect_wait;
    /* TIDE_MATMUL: how exactly a GPU multiplies matrices of f32 and c64: "highest" (default), in
    ** f32; "high": factors rounded to TF32, 10 bits of fraction; "medium": to bf16, 7 bits. Sums
    ** are in f32 (tide/linalg.h). The host is always exact */
    const char *matmul_precision;
    /* TIDE_HOST_THREADS: how many threads share an operation on a host device, 1 to 1024. Results
    ** do not depend on it. Default: the processors that the process may use */
    int host_threads;
} tide_config;

/* Opens a runtime on a device; others of its kind can be used beside it (tide/device.h). `config`
** may be NULL; it and what it points to are read during the call, and only the functions of
** `allocator` and `log` are called later, until the close. The device is touched here (a CUDA
** context takes about 0.1 s). The environment is read: no other thread changes it meanwhile.
** TIDE_E_INVALID: a value that is not understood; TIDE_E_NODEVICE; TIDE_E_IO: the file of `trace`.
** TIDE_E_FORKED in a fork's child whose parent had called tide_open before, though that failed, or
** the runtime be closed by then: neither CUDA nor bdwgc lives on there, and locks may be held by
** threads that do not. Such a child calls exec first. TIDE_E_UNSUPPORTED with the collector "boehm"
** where this thread blocks the signal by which it stops threads (docs/boehm.md). Never collects.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_open(const tide_config *config, tide_runtime **out);

/* Closes it: waits for its device work, returns all its memory. From then on every use of the
** runtime, and of its arrays, streams, pools, expressions, scopes, views and iterators, is
** TIDE_E_CLOSED (an array whose last reference went is TIDE_E_FREED as before); dropping arrays is
** legal at any later time. Scopes and views that are open end. NULL is legal; closing twice does
** nothing but set the error TIDE_E_CLOSED; a call from inside a callback of the runtime is the
** error TIDE_E_INVALID, and it stays open. No other thread may be inside the runtime; threads may
** end meanwhile. Does nothing in a fork's child. Where allocations are tracked it collects, to list
** what is held. May collect. Blocks. */
TIDE_API void tide_close(tide_runtime *rt);

/* ---- memory ---- */

/* Runtime-wide figures. Sizes in bytes. live + rounding + cached + pending = backed. Of the
** device's memory, and unified memory; pinned memory is told by tide_device_info. */
typedef struct tide_runtime_figures {
    size_t struct_size; /* set by the caller to sizeof(tide_runtime_figures) */
    /* requested by arrays and workspaces not yet returned (garbage not yet found included) */
    size_t live;
    size_t rounding;               /* lost to granules */
    size_t cached;                 /* free in the pool, ready for anyone */
    size_t pending;                /* freed, with device work pending */
    size_t backed;                 /* taken from the driver */
    size_t library;                /* held by library state (handles), as measured */
    size_t peak_live, peak_backed; /* since open or tide_runtime_reset_peaks */
    /* effective, of the thread's device; SIZE_MAX where there is none */
    size_t limit, soft_limit;
    uint64_t allocations, frees; /* device blocks handed out, returned */
    uint64_t retries;            /* driver attempts after everything cached was given back */
    /* driver calls that took memory, gave memory back */
    uint64_t driver_allocs, driver_frees;
    uint64_t collections;       /* all collections asked for by the runtime */
    uint64_t early_collections; /* of these, asked for by the policy before memory ran out */
    uint64_t collect_ns, collect_max_ns;
    size_t collected;    /* bytes that came back in the drains after collections */
    uint64_t climbs;     /* times the reclaim ladder was climbed */
    size_t reclaimed;    /* bytes that came back in climbs */
    uint64_t host_waits; /* times the host blocked for device work, once a call */
    uint64_t host_wait_ns;
    uint64_t device_waits;                     /* waits of one stream for another, on the device */
    uint64_t launches, copies;                 /* submitted to the device */
    uint64_t kernels_compiled, kernels_loaded; /* compiled; found in the disk cache */
    uint64_t kernels;                          /* distinct kernels in memory */
    uint64_t arrays;                           /* arrays not yet found dead */
    /* static data of the process that the collector boehm scanned at its last collection */
    size_t gc_root_bytes;
    /* of arrays that are in pinned memory until they are used; none of the figures above has
    ** them */
    size_t spilled;
    uint64_t spills, returns; /* arrays' memory that went there; that came back */
} tide_runtime_figures;

/* The runtime's figures, summed over its devices, but the limits, which are the thread's device's.
** Drains first, so that arrays known dead no longer count. TIDE_E_INVALID: out is NULL, or
** out->struct_size is none. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_runtime_info(tide_runtime *rt, tide_runtime_figures *out);
/* Sets the peaks, those of pools too, to what is live and backed now. Drains first. Never collects.
** Never blocks. */
TIDE_API void tide_runtime_reset_peaks(tide_runtime *rt);

/* Status text, for people:
**   Effective GPU memory usage: 10.51% (1.654 GiB/15.744 GiB)
**   tide pool usage: 8.000 KiB (8.000 KiB allocated, 0 bytes cached)
** once a device that is open. What caches hold that can be reclaimed (tide/reclaim.h) is a line of
** its own. At debug level 2, or with sampling, the arrays held follow, with the backtraces of their
** allocations: docs/debugging.md. Returns the length the whole text has, like snprintf; `buf` may
** be NULL, which counts as `cap` 0. 0 on failure. Drains first. Never collects. Never blocks. */
TIDE_API size_t tide_runtime_text(tide_runtime *rt, char *buf, size_t cap);

/* Asks the collectors for a full collection, then drains. Single-flight: a second thread waits for
** the first one's. TIDE_OK also where no collector traces, or none could collect now. May collect.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_collect(tide_runtime *rt);

/* ---- streams ----
** Work on one stream runs in order. Every thread has a current stream, at first its default one:
** for the thread that opened the runtime the device's default stream, for each other thread one of
** its own, made at its first operation and released when it ends (the device's default one where
** 128 threads have theirs, or tide_config.thread_streams is TIDE_OFF, or the runtime is
** deterministic).
** An array made on one stream may be used on another without any call: the second stream waits on
** the device. Readers never wait for readers, nor views that share no byte for each other (by the
** stretch of memory that a view spans from its first element to its last; of a few such stretches
** an array). tide_array_set_ordered opts an array out. */

/* Makes a stream on the thread's current device; *out is the caller's until tide_stream_release.
** TIDE_E_INVALID: the runtime has no more of them (256 for all its devices). Never collects.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_stream_new(tide_runtime *rt, tide_stream **out);
/* The caller is done with it: queued work still runs, and a thread whose current stream it is goes
** back to its default one. NULL is legal; default streams stay. Never collects. Never blocks. */
TIDE_API void tide_stream_release(tide_stream *s);
/* The calling thread's current stream on its current device, borrowed; NULL on failure.
** Never collects. Never blocks. */
TIDE_API tide_stream *tide_stream_current(tide_runtime *rt);
/* Makes a stream the calling thread's current one, and its device the current one; NULL: the
** current device's default stream of the thread. A stream of another runtime is TIDE_E_INVALID.
** Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_stream_set(tide_runtime *rt, tide_stream *s);
/* Makes a stream of the current device of one there that somebody else has made: a CUstream (NULL:
** CUDA's legacy default stream). Work that others queue on it may use memory of ours between
** tide_use_begin and tide_use_end, or from tide_pool_malloc. The native stream stays theirs; it
** lives until tide_stream_release. One of another device or context is TIDE_E_INVALID.
** TIDE_E_UNSUPPORTED on a host device; and of any operation on it while its owner captures a graph
** there, which would repeat the work at moments of its own. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_stream_wrap(tide_runtime *rt, void *native,
                                                     tide_stream **out);
/* The stream as the driver has it, borrowed: a CUstream on cuda, NULL on host, and on failure.
** Where it was asked for, as on a stream that was wrapped, our kernels start once all that is
** queued before them is complete; elsewhere they start early, a microsecond sooner. A
** kernel that is launched there with programmatic stream serialization may start while ours before
** it run: what these write it reads, or writes over, behind its own wait (griddepcontrol.wait).
** Never collects. Never blocks. */
TIDE_API void *tide_stream_native(tide_stream *s);

/* Waits until the work queued on the stream (NULL: the current one) is complete; the policy may
** collect before that. Drains first. TIDE_E_BOUNDS: an index out of range in work done so far
** (tide_take), told once. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_synchronize(tide_runtime *rt, tide_stream *s);

/* ---- one's own kernels and library calls ----
** Between begin and end the arrays' addresses are lent: their memory is pinned, and everything
** queued on the native stream (tide_stream_native) in between is ordered after their earlier
** uses; later uses anywhere are ordered after it. A released or freed array stays usable until
** end. Scopes whose arrays overlap end in the order in which they began. */
enum { TIDE_READ = 1, TIDE_WRITE = 2 };
typedef struct tide_use {
    tide_array *array;
    int32_t mode; /* TIDE_READ | TIDE_WRITE */
    int32_t reserved;
} tide_use;
typedef struct tide_use_scope tide_use_scope;
/* Opens a scope on a stream (NULL: the current one) for n uses, 64 at most. `ptrs[i]` receives the
** device address of the first element of uses[i], NULL where it has none. *out is the caller's
** until tide_use_end. TIDE_E_INVALID: more uses, a mode that is none, or a stretched view
** (tide_broadcast_to) that is to be written. What is spilled comes back first. May collect.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_use_begin(tide_runtime *rt, tide_stream *s,
                                                   const tide_use *uses, size_t n, void **ptrs,
                                                   tide_use_scope **out);
/* Ends the scope: its uses are over with what is queued on the stream by now. An ended one is
** TIDE_E_INVALID; it is ended whatever is returned. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_use_end(tide_use_scope *scope);
/* On a host device: queues `fn(user)` on the scope's stream, to run when the work before it is
** done, on a thread of the library's, which no collector knows. It may drop arrays, calls nothing
** else of the library, and must return. It does not run if the device is lost; tide_close waits for
** it. TIDE_E_INVALID: fn is NULL, or the scope was ended; TIDE_E_UNSUPPORTED on a GPU.
** Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_use_launch(tide_use_scope *scope, void (*fn)(void *user),
                                                    void *user);

/* ---- threads ---- A thread is attached at its first call. Before that, arrays it got from
** elsewhere must be retained by somebody (tide_retain), because a collector does not see its
** stack. */

/* Attaches the calling thread, which each call that names the runtime does besides; once is enough.
** TIDE_E_HOST_NOMEM; TIDE_E_UNSUPPORTED with the collector "boehm" where the thread blocks the
** signal by which that stops threads (docs/boehm.md); TIDE_E_INVALID in a function of
** tide_use_launch. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_thread_attach(tide_runtime *rt);
/* Detaches it, which is also done when the thread ends: its scopes end, its own streams and its
** hold on a pool go. One that is not attached, and NULL, are legal; from inside a callback it is
** the error TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API void tide_thread_detach(tide_runtime *rt);

#if defined(__cplusplus)
}
#endif
#endif
