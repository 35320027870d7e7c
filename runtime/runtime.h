/* runtime.h: the runtime's own structs: one runtime, its devices, its threads. What hangs off them
** has files of its own.
**
** Locks: devs_lock is held while a device opens, and peers_lock while access is enabled: others may
** be taken under them, never the other way. A stream's lock is a leaf; the lock of streams, the
** pool none's lock of settling and the lock of moves may take a stream's, and the last one a
** pool's; the pool driver's lock of growing is held over tidei_back; all others are leaves. None is
** held across a climb, a collection or a callback: who leads one is a flag under a lock, and nobody
** waits for the leader while holding a lock. The recorder's lock may be taken under any other;
** under the tracker's only the process's lock of handles, or a storage's stamps. The lock of spills
** is taken before any of these. */
#ifndef TIDEI_RUNTIME_H
#define TIDEI_RUNTIME_H

#include "runtime/streams/callback.h"
#include "runtime/streams/collect.h"
#include "runtime/devices.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/memory/move.h"
#include "runtime/reclaim/ladder.h"
#include "runtime/observe/recorder.h"
#include "runtime/base/refs.h"
#include "runtime/base/settings.h"
#include "runtime/memory/spill.h"
#include "runtime/memory/storage.h"
#include "runtime/base/thread_index.h"

/* A device of a runtime (runtime/devices.h). */
struct tidei_dev {
    tidei_runtime *rt;
    tidei_device *d; /* NULL: not opened yet */
    unsigned index;
    atomic_bool open; /* what follows is there, to the runtime's end */
    /* work of other devices may use its memory: set before the first does */
    atomic_bool used_elsewhere;
    /* what is known of reaching the others' memory, by index */
    _Atomic uint8_t peers[TIDEI_DEVICES_MAX];
    /* fixed once open */
    tidei_pool *pool;      /* the default one, of device memory */
    tidei_mem_kind usual;  /* of arrays */
    tidei_stream *stream0; /* the default stream */
    /* under pools_lock */
    pthread_mutex_t pools_lock;
    struct tidei_user_pool *pools; /* all of them; the newest first */
    _Atomic size_t orphans;        /* of these, to be closed */
    atomic_flag looking;           /* a thread looks what may go back; nobody waits for it */
    _Atomic uint64_t look_ns;      /* when it is time again */
    _Atomic size_t own_live;       /* of `live`, in those that are not the default one */
    tidei_advised *advised;
    /* of the other kinds; NULL: not opened yet; never changes then */
    _Atomic(tidei_pool *) kinds[TIDEI_MEM_KINDS];
    _Atomic size_t nadvised;                               /* written under pools_lock */
    tidei_storage_free_list spares[TIDEI_THREADS_INDEXED]; /* each its thread's own */
    /* counters */
    /* limit as given, rounded up to pages; SIZE_MAX: none */
    _Atomic size_t backed, library, limit, soft_limit;
    /* of backed; counted before and until after it is */
    _Atomic size_t unified;
    _Atomic size_t live, peak_live, peak_backed;
    _Atomic size_t spilled; /* of its arrays, in pinned memory: not in `live` */
    _Atomic uint64_t retries, driver_allocs, driver_frees;
    tidei_inflight_growth inflight_growth;
    _Atomic uint64_t host_waits, host_wait_ns, device_waits;
    _Atomic uint64_t wait_ewma_ns; /* average wait at sync points */
    /* live + request at which the policy wants to be asked at an allocation */
    _Atomic size_t wake_at;
    _Atomic int loss_state; /* of the loss: 0 none, 1 being written, 2 there */
    char loss_report[640];
};

/* What a thread has chosen on a device. */
typedef struct tidei_thread_device {
    tidei_stream *stream;    /* current stream; NULL: the thread's default one */
    tide_stream *stream_ref; /* stream->ref when it was set */
    /* this thread's default one; NULL: the device's, or not made yet */
    tidei_stream *own_stream;
    bool wants_stream;            /* not made yet */
    struct tidei_user_pool *pool; /* current pool, held; NULL: the device's default */
} tidei_thread_device;

struct tidei_thread {            /* per thread and runtime */
    _Atomic(tidei_runtime *) rt; /* NULL once the runtime closed or the thread detached */
    _Atomic(tide_runtime *) ref; /* as users know the runtime; NULL too once it is closed to them */
    uint64_t serial;             /* of the runtime */
    tidei_thread *next_of_thread;
    tidei_thread *next_of_rt, **prev_of_rt;
    bool taken;                   /* tidei_thread_take; under the process's lock of threads */
    tidei_dev *dev;               /* current device */
    tidei_thread_device here;     /* on it */
    int collector;                /* of new arrays; 0: the runtime's own */
    unsigned unsampled;           /* allocations since the last that the tracker looked at */
    bool scalar;                  /* may get and set elements of device memory one by one */
    struct tidei_scope *scope;    /* innermost (refcount) */
    tidei_header_free_list spare; /* free handles */
    /* odd while the thread returns the storages of arrays that it drained */
    _Atomic uint64_t finishing;

    int depth_drain, depth_climb, depth_collect; /* inside which: recursion guards */
    /* inside what does without the memory it asks for, if need be: nothing is spilled for it */
    int depth_optional;
    /* callback.h: what the thread's calls hold, and the callbacks it is in. Its own, or of who
    ** closes the runtime */
    uintptr_t *held, *held_first, *held_end; /* the next free word, the first, behind the last */
    struct tidei_note *notes;
    unsigned nnotes, notes_room;
    /* its thread said that a callback was left, which does not show: it stays to the thread's
    ** end */
    bool doubtful;
    tidei_header *dead; /* drained, whose callbacks of death are still to come; linked by `next` */
    void *gc;           /* gc's own per-thread state */
    tidei_thread_device away[]; /* on the other devices, by index */
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
    pthread_mutex_t devs_lock;  /* held by who opens one */
    pthread_mutex_t peers_lock; /* held by who finds out whether one reaches another */
    tidei_deaths *deaths;
    tidei_streams streams;
    /* streams wait for work that is over too: a pool is, or was, deterministic */
    atomic_bool waits_anyway;
    tidei_moves moves;
    tidei_spills spills;
    tidei_host_budget host_budget;
    struct tidei_external_allocs *external_allocs; /* runtime/memory/external_alloc.c */
    tidei_recorder *recorder;                      /* NULL: nothing is recorded; fixed once open */
    bool ranges;                                   /* a tool is told of spans */
    struct tidei_tracker *tracker;                 /* NULL: nothing is tracked; fixed once open */
    /* of so many storages the recorder or the tracker is told of one; 0: of none; fixed once
    ** open */
    uint32_t watch_every;
    const tidei_gc_ops *gc_ops;
    void *gc;     /* gc/gc.c */
    void *libs;   /* libs/ */
    void *arrays; /* arrays/ */
    /* under the process's lock of threads (thread.c), like the next */
    tidei_thread *threads;
    unsigned taken;               /* of these records */
    bool closing;                 /* somebody is in tide_close; under open.c's lock */
    uint64_t opener;              /* tidei_thread_serial of the thread that opened it */
    _Atomic unsigned own_streams; /* of threads */
    /* under the process's lock of runtimes (neighbours.c), like the next */
    struct tidei_runtime *next_open;
    unsigned visitors; /* threads of other runtimes that make the pools give back */
    pthread_mutex_t reclaimables_lock;
    pthread_cond_t reclaimables_idle;
    tidei_reclaimable *reclaimables; /* newest first */
    _Atomic uint64_t climb_ids;
    pthread_mutex_t climb_lock;
    pthread_cond_t climb_done;
    bool climbing;
    _Atomic uint64_t climb_count; /* climbs that ended; written under climb_lock */
    _Atomic size_t backed;        /* on all devices */
    _Atomic uint64_t climbs;
    _Atomic size_t reclaimed;
    _Atomic uint64_t collections, early_collections, collect_ns, collect_max_ns;
    _Atomic size_t collected, gc_root_bytes;
    _Atomic uint64_t kernels_compiled, kernels_loaded, kernels;
    /* test doubles */
    bool skip_waits; /* plants missing waits: nothing is ordered across streams */
    uint64_t (*clock_ns)(
        void); /* what collections are timed by, NULL: the system's clock; policies look at rates */
};

/* The calling thread's record; attaches it at first use. NULL with the error set (forked, host
** memory). Every public function that takes a runtime begins with tidei_enter, one that finds it in
** an array with tidei_thread_get. */
static inline tidei_thread *tidei_enter(tide_runtime *ref, const char *op);
static inline tidei_runtime *tidei_entered(tide_runtime *ref,
                                           const char *op); /* the same for who wants the runtime */
static inline tidei_thread *tidei_thread_get(tidei_runtime *rt);
/* the same where there is one already; else NULL, and no error */
tidei_thread *tidei_thread_look(tidei_runtime *rt);
tidei_stream *tidei_thread_stream(tidei_thread *t); /* the current one */
/* the same for a device that may be another */
tidei_stream *tidei_thread_stream_on(tidei_thread *t, tidei_dev *d);
/* What the reference refers to; NULL where it is closed. Attaches nobody, sets no error. */
static inline tidei_runtime *tidei_runtime_of(const tide_runtime *ref) {
    return tidei_ref_look(TIDEI_REF_RUNTIME, ref);
}
/* A user's stream; NULL with the error set. The second one is of the thread's runtime; NULL stands
** for its current one. */
static inline tidei_stream *tidei_stream_find(tide_stream *ref, const char *op) {
    return tidei_ref_find(TIDEI_REF_STREAM, ref, op);
}
tidei_stream *tidei_stream_of(tidei_thread *t, tide_stream *ref, const char *op);
static inline tidei_thread_device *tidei_thread_device_of(tidei_thread *t, const tidei_dev *d);
/* makes it the current device; it is open */
void tidei_thread_go(tidei_thread *t, tidei_dev *d);
/* of the calling thread in the process; not used again */
uint64_t tidei_thread_serial(void);
/* the calling thread's current pool; attaches nobody */
static inline tidei_pool *tidei_pool_here(tidei_dev *d);
/* before the first record of the process */
tide_status tidei_threads_prepare(void);
/* The runtime closes to users: no reference to it, nor to what belongs to it, is valid any more. */
void tidei_runtime_end_refs(tidei_runtime *rt);
/* The runtime closes: the other threads' records lose it, and those that are about to leave have
** left; what their calls held that were left inside callbacks is undone. After it no thread's end
** touches the runtime. */
void tidei_threads_part(tidei_runtime *rt);
/* The record's runtime stays open until it is given back, and nobody else works on the record.
** NULL: the runtime was closed, or is about to be. */
tidei_runtime *tidei_thread_take(tidei_thread *t);
void tidei_thread_give(tidei_thread *t, tidei_runtime *rt);
/* of the calling thread's records; NULL: the first one */
tidei_thread *tidei_thread_next(tidei_thread *t);
void tidei_thread_hide(bool hide); /* its records from the short ways, or no more */
/* Waits until other threads have returned the storages of what they were draining: no drain of ours
** finds those. */
void tidei_threads_finish_deaths(tidei_runtime *rt);
void tidei_threads_cut(tidei_runtime *rt); /* the last step: all records lose it */
/* this process is a fork's child and the runtimes are the parent's */
static inline bool tidei_forked(void);

/* The collectors' slots, which do nothing while no collector's floor is open. */
/* runs fn in the blocking region */
void tidei_blocking(tidei_runtime *rt, void (*fn)(void *arg), void *arg);
void tidei_ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request);
void tidei_ask_host(tidei_runtime *rt,
                    /* an array of `request` bytes in the host's memory is wanted */
                    size_t request);
size_t tidei_collect(tidei_runtime *rt, int level, const char *why, bool *ran);

/* The parts tide_open puts together (open.c): the runtime's own half. */
tide_status tidei_runtime_open(const tide_config *c, tidei_runtime **out);
void tidei_runtime_close(tidei_runtime *rt);
/* Tests: opens on a given device, already open, that the runtime owns from then on (a fault double,
** say). */
tide_status tidei_runtime_open_on(const tide_config *c, tidei_device *device, tidei_runtime **out);

/* What a kernel reported since the last question: TIDE_E_BOUNDS for a bad index; the message names
** the operation that raised it. For sync points, whose own name is `op`. */
tide_status tidei_take_fault(tidei_runtime *rt, const char *op);
/* The device is lost. Both set and return TIDE_E_LOST with the loss report: the device's own words,
** and the last operation of the stream on which the loss was noticed first. The first is for a call
** on stream s that just returned TIDE_E_LOST. */
tide_status tidei_lost_on(tidei_stream *s, const char *op);
tide_status tidei_lost(tidei_dev *d, const char *op);
/* A failure of the device table on stream s under the operation's name; a loss with its loss
** report. */
tide_status tidei_device_failed(tidei_stream *s, tide_status status, const char *op);

/* pools, counters, streams; for tests */
bool tidei_runtime_valid(tidei_runtime *rt);

/* ---- the short way to a thread's record (thread.c): every operation takes it several times
** ---- */

extern TIDEI_FAST_TLS tidei_thread *tidei_thread_records;
extern _Atomic int *tidei_parent_mark;              /* points to 0 in a fork's child */
tidei_thread *tidei_thread_find(tidei_runtime *rt); /* the long ways */
tidei_thread *tidei_thread_find_by_ref(tide_runtime *ref, const char *op);

static inline bool tidei_forked(void) {
    return tidei_unlikely(!atomic_load_explicit(tidei_parent_mark, memory_order_relaxed));
}
static inline tidei_thread *tidei_enter(tide_runtime *ref, const char *op) {
    tidei_thread *t = tidei_thread_records;
    if (tidei_likely(t && ref && !tidei_forked() &&
                     atomic_load_explicit(&t->ref, memory_order_relaxed) == ref))
        return t;
    return tidei_thread_find_by_ref(ref, op);
}
/* Of a record that tidei_enter or tidei_thread_get gave. */
static inline tidei_runtime *tidei_thread_runtime(const tidei_thread *t) {
    return atomic_load_explicit(&t->rt, memory_order_relaxed);
}
static inline tidei_runtime *tidei_entered(tide_runtime *ref, const char *op) {
    tidei_thread *t = tidei_enter(ref, op);
    return t ? tidei_thread_runtime(t) : NULL;
}
static inline tidei_thread *tidei_thread_get(tidei_runtime *rt) {
    tidei_thread *t = tidei_thread_records;
    if (tidei_likely(t && !tidei_forked() &&
                     atomic_load_explicit(&t->rt, memory_order_relaxed) == rt &&
                     t->serial == rt->serial))
        return t;
    return tidei_thread_find(rt);
}
/* ---- the short ways around callbacks (callback.c): the thread is inside none, and has room
** ---- */

static inline void tidei_hold_storage(tidei_thread *t, tidei_storage *st) {
    if (tidei_unlikely(t->held == t->held_end) && !tidei_held_grow(t)) return;
    *t->held++ = (uintptr_t)st;
}
static inline void tidei_let_storage(tidei_thread *t, const tidei_storage *st) {
    if (tidei_likely(t->held[-1] == (uintptr_t)st))
        t->held--;
    else if (tidei_likely(t->held[-1] == ((uintptr_t)st | TIDEI_HELD_MARK)))
        t->held -= 3;
    else
        tidei_let(t, st);
}
static inline void tidei_hold(tidei_thread *t, tidei_undo undo, const void *what, uintptr_t of) {
    tidei_check(!((uintptr_t)what & TIDEI_HELD_MARK));
    if (tidei_unlikely(!t) || (tidei_unlikely(t->held_end - t->held < 3) && !tidei_held_grow(t)))
        return;
    t->held[0] = of;
    t->held[1] = (uintptr_t)undo;
    t->held[2] = (uintptr_t)what | TIDEI_HELD_MARK;
    t->held += 3;
}
static inline bool tidei_may_make(tidei_runtime *rt, const char *op) {
    return tidei_likely(tidei_thread_records != NULL) || tidei_may_make_here(rt, op);
}

tidei_pool *tidei_pool_found(tidei_dev *d); /* the long way */
static inline tidei_pool *tidei_pool_here(tidei_dev *d) {
    const tidei_thread *t = tidei_thread_records;
    bool known = t && atomic_load_explicit(&t->rt, memory_order_relaxed) == d->rt && t->dev == d;
    return tidei_likely(known && !t->here.pool) ? d->pool : tidei_pool_found(d);
}
static inline tidei_thread_device *tidei_thread_device_of(tidei_thread *t, const tidei_dev *d) {
    return t->dev == d ? &t->here : &t->away[d->index];
}

/* ---- the short way past the recorder (recorder.c) and the tracker (tracker.c): nobody wants to
** know ---- */

/* once both are open that want to be told */
void tidei_watch_open(tidei_runtime *rt);
void tidei_watch_made(tidei_storage *st, const tidei_stream *s); /* the long ways (storage.c) */
void tidei_watch_gone(tidei_storage *st);
static inline void tidei_record_alloc(tidei_storage *st, const tidei_stream *s) {
    if (tidei_unlikely(st->watched)) tidei_watch_made(st, s);
}
static inline void tidei_record_free(tidei_storage *st) {
    if (tidei_unlikely(st->watched)) tidei_watch_gone(st);
}
static inline void tidei_record_sync(const tidei_stream *s) {
    tidei_recorder *r = s->dev->rt->recorder;
    if (tidei_unlikely(r)) tidei_recorder_sync(r, s->slot);
}
static inline void tidei_record_follow(const tidei_stream *s, const tidei_stream *from) {
    tidei_recorder *r = s->dev->rt->recorder;
    if (tidei_unlikely(r)) tidei_recorder_follow(r, s->slot, from->slot);
}
/* Under s->lock, before and after work is queued: when it began, 0 for nobody who wants to know;
** and that it is queued. */
static inline uint64_t tidei_record_begin(const tidei_stream *s) {
    tidei_recorder *r = s->dev->rt->recorder;
    return tidei_unlikely(r) ? tidei_recorder_moment(r) : 0;
}
static inline void tidei_record_submit(const tidei_stream *s, uint64_t began, const char *op) {
    if (tidei_unlikely(began)) tidei_recorder_submit(s->dev->rt->recorder, s->slot, began, op);
}

/* ---- the short way through the ladder (reclaim.c): nobody is short ---- */

static inline tide_status tidei_reclaimed(tidei_dev *d, size_t bytes, bool outside,
                                          const char *what, tidei_attempt_fn attempt, void *arg) {
    bool soft = atomic_load_explicit(&d->soft_limit, memory_order_relaxed) != SIZE_MAX;
    if (tidei_unlikely(soft || tidei_last_status() != TIDE_OK))
        return tidei_reclaim_aside(d, bytes, outside, what, attempt, arg);
    tidei_attempted first = {.seen =
                                 atomic_load_explicit(&d->rt->climb_count, memory_order_acquire)};
    first.status = attempt(arg, 0);
    return tidei_likely(first.status == TIDE_OK)
               ? TIDE_OK
               : tidei_reclaim_after(d, bytes, outside, what, attempt, arg, first);
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
