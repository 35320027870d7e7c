/* instance.h: one runtime, its devices, its threads' records, as all floors know them.
**
** A floor that keeps something for each runtime or device has a struct of its own for it, in a
** header of its own; here stands a pointer to it, which only that floor and those above it can look
** behind. The parts are made with the runtime, and with a device, in one piece (runtime/runtime.c,
** runtime/devices.c), and stay as long. What stands here by value is base's own, or so small that
** a part of its own would hide it.
**
** Locks: devs_lock is held while a device opens, and peers_lock while access is enabled: others may
** be taken under them, never the other way. A stream's lock is a leaf; the lock of streams, the
** pool none's lock of settling and the lock of moves may take a stream's, and the last one a
** pool's; the pool driver's lock of growing is held over tidei_back; all others are leaves. None is
** held across a climb, a collection or a callback: the leader of one is a flag under a lock, and no
** thread waits for the leader while it holds a lock. The recorder's lock may be taken under any
** other; under the tracker's only the process's lock of headers, or a storage's stamps. The lock of
** spills is taken before any of these. */
#ifndef TIDEI_INSTANCE_H
#define TIDEI_INSTANCE_H

#include "runtime/base/collect.h"
#include "runtime/base/fork.h"
#include "runtime/base/limits.h"
#include "runtime/base/refs.h"
#include "runtime/base/settings.h"

/* What the floors above keep; each is defined by its floor. */
typedef struct tidei_device tidei_device;                   /* device/device.h */
typedef struct tidei_stream tidei_stream;                   /* streams/stream.h */
typedef struct tidei_streams tidei_streams;                 /* of a runtime */
typedef struct tidei_waits tidei_waits;                     /* of a device */
typedef struct tidei_loss tidei_loss;                       /* streams/loss.h */
typedef struct tidei_pool tidei_pool;                       /* pool/pool.h */
typedef struct tidei_user_pool tidei_user_pool;             /* pool/pools.h */
typedef struct tidei_pools tidei_pools;                     /* of a device */
typedef struct tidei_budget tidei_budget;                   /* pool/budget.h */
typedef struct tidei_host_budget tidei_host_budget;         /* of a runtime */
typedef struct tidei_storage tidei_storage;                 /* memory/storage.h */
typedef struct tidei_dev_memory tidei_dev_memory;           /* of a device */
typedef struct tidei_deaths tidei_deaths;                   /* memory/header.h */
typedef struct tidei_moves tidei_moves;                     /* memory/move.h */
typedef struct tidei_spills tidei_spills;                   /* memory/spill.h */
typedef struct tidei_bounces tidei_bounces;                 /* memory/bounce.h */
typedef struct tidei_external_allocs tidei_external_allocs; /* memory/external_alloc.c */
typedef struct tidei_recovery tidei_recovery;               /* memory/recovery.h */
typedef struct tidei_reclaim tidei_reclaim;                 /* reclaim/reclaim.h */
typedef struct tidei_recorder tidei_recorder;               /* observe/recorder.h */
typedef struct tidei_tracker tidei_tracker;                 /* observe/tracker.h */

/* A device of a runtime (runtime/devices.h). */
struct tidei_dev {
    tidei_runtime *rt;
    tidei_device *d; /* NULL: not opened yet */
    unsigned index;
    atomic_bool open; /* what follows is there, to the runtime's end */
    /* fixed once open */
    tidei_pool *pool;      /* the default one, of device memory */
    tidei_stream *stream0; /* the default stream */
    /* the floors' parts; there from the start */
    tidei_waits *waits;
    tidei_loss *loss;
    tidei_pools *pools;
    tidei_budget *budget;
    tidei_dev_memory *memory;
};

/* What a thread has chosen on a device. */
typedef struct tidei_thread_device {
    tidei_stream *stream;    /* current stream; NULL: the thread's default one */
    tide_stream *stream_ref; /* stream->ref when it was set */
    /* this thread's default one; NULL: the device's, or not made yet */
    tidei_stream *own_stream;
    bool wants_stream;     /* not made yet */
    tidei_user_pool *pool; /* current pool, held; NULL: the device's default */
} tidei_thread_device;

/* Headers that a thread keeps for its next arrays (memory/header.h). */
typedef struct tidei_header_free_list {
    tidei_header *first;
    unsigned n;
} tidei_header_free_list;

struct tidei_thread {            /* per thread and runtime */
    _Atomic(tidei_runtime *) rt; /* NULL once the runtime closed or the thread detached */
    _Atomic(tide_runtime *) ref; /* as users know the runtime; NULL too once it is closed to them */
    uint64_t serial;             /* of the runtime */
    tidei_thread *next_of_thread;
    tidei_thread *next_of_rt, **prev_of_rt;
    bool taken;                       /* tidei_thread_take; under the process's lock of threads */
    tidei_dev *dev;                   /* current device */
    tidei_thread_device here;         /* on it */
    int collector;                    /* of new arrays; 0: the runtime's own */
    unsigned unsampled;               /* allocations since the last that the tracker looked at */
    bool scalar;                      /* may get and set elements of device memory one by one */
    struct tidei_scope *scope;        /* innermost (refcount) */
    tidei_header_free_list free_list; /* of headers */
    /* odd while the thread returns the storages of arrays that it drained */
    _Atomic uint64_t finishing;

    int depth_drain, depth_climb, depth_collect; /* inside which: recursion guards */
    /* inside what does without the memory it asks for, if need be: nothing is spilled for it */
    int depth_optional;
    /* callback.h: what the thread's calls hold, and the callbacks it is in. Its own, or of the
    ** thread that closes the runtime */
    uintptr_t *held, *held_first, *held_end; /* the next free word, the first, behind the last */
    struct tidei_note *notes;
    unsigned nnotes, notes_room;
    /* its thread said that a callback was left, which does not show: it stays to the thread's
    ** end */
    bool doubtful;
    tidei_header *dead; /* drained, whose callbacks of death are still to come; linked by `next` */
    void *gc;           /* gc's own per-thread state */
    tidei_thread_device elsewhere[]; /* on the other devices, by index */
};

struct tidei_runtime {
    uint64_t serial;   /* distinguishes runtimes at one address */
    tide_runtime *ref; /* as users know it; fixed once open */
    tide_allocator host;
    tide_log_fn log;
    void *log_user;
    tidei_settings set;
    char device_note[512]; /* why not cuda; "" if it is */
    unsigned ndevs;        /* that there are, open or not */
    tidei_dev *devs;
    void *dev_parts;            /* what their pointers to parts lead to */
    pthread_mutex_t devs_lock;  /* held by the thread that opens one */
    pthread_mutex_t peers_lock; /* held by the thread that finds out whether one reaches another */
    /* the floors' parts; there from the start */
    tidei_streams *streams;
    tidei_host_budget *budget;
    tidei_moves *moves;
    tidei_spills *spills;
    tidei_bounces *bounces;
    tidei_reclaim *reclaim;
    tidei_recovery *recovery; /* what a request does that does not fit */
    /* NULL: not open yet */
    tidei_deaths *deaths;
    tidei_external_allocs *external_allocs;
    tidei_recorder *recorder; /* NULL: nothing is recorded; fixed once open */
    bool ranges;              /* a tool is told of spans */
    tidei_tracker *tracker;   /* NULL: nothing is tracked; fixed once open */
    /* of so many storages the recorder or the tracker is told of one; 0: of none; fixed once
    ** open */
    uint32_t watch_every;
    const tidei_gc_ops *gc_ops;
    tidei_gc_counts gc_counts;
    void *gc;     /* gc/gc.c */
    void *libs;   /* libs/ */
    void *arrays; /* arrays/ */
    /* under the process's lock of threads (thread.c), like the next */
    tidei_thread *threads;
    unsigned taken;  /* of these records */
    bool closing;    /* somebody is in tide_close; under open.c's lock */
    uint64_t opener; /* tidei_thread_serial of the thread that opened it */
    _Atomic uint64_t kernels_compiled, kernels_loaded, kernels;
};

/* The next open device, from NULL on; NULL: there are no more. */
static inline tidei_dev *tidei_dev_next(tidei_runtime *rt, const tidei_dev *after) {
    for (unsigned i = after ? after->index + 1 : 0; i < rt->ndevs; i++)
        if (atomic_load_explicit(&rt->devs[i].open, memory_order_acquire)) return &rt->devs[i];
    return NULL;
}
/* What the reference refers to; NULL where it is closed. Attaches no thread, sets no error. */
static inline tidei_runtime *tidei_runtime_of(const tide_runtime *ref) {
    return tidei_ref_look(TIDEI_REF_RUNTIME, ref);
}

#endif
