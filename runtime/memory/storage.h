/* storage.h: tracked memory: a piece of device memory with its history, shared by the views on it;
** and submitting work.
**
** An operation has three steps:
**   gather  operands' storages are retained, results made. Allocation, collections and the ladder
**           happen here.
**   submit  tidei_submit_begin .. tidei_submit_end: waits inserted, a tick taken, the uses
**           published, work queued. No allocation of device memory, no collection, no ladder,
**           except where two devices meet for the first time (runtime/devices.h).
**   leave   storages are released.
** Example: stream 1 computes y = f(x). The submission takes tick 7 of stream 1: x gets the reading
** stamp (1, 7), y the writing stamp (1, 7). A submission on stream 2 that reads x need not wait for
** (1, 7); one that reads y, or writes x, waits.
** What must stay true: a storage's stamps, and its parts (subranges.h), name every use that a later
** one may have to wait for; a reader waits for writes only; waits happen on the device, never on
** the host. */
#ifndef TIDEI_STORAGE_H
#define TIDEI_STORAGE_H

#include "runtime/base/callback.h"
#include "runtime/base/thread_index.h"
#include "runtime/observe/recorder.h"
#include "runtime/pool/budget.h"
#include "runtime/streams/stream.h"

typedef struct tidei_advised tidei_advised; /* memory_kinds.h */

typedef struct tidei_storage {
    _Atomic uint32_t refs;
    atomic_flag flag;      /* guards stamps; held for a few loads and stores */
    atomic_bool unordered; /* uses wait for none since it is so; changes as the stamps do */
    /* TIDEI_WATCHED_*: who wants to know of its end; fixed once others know the storage */
    uint8_t watched;
    bool placeholder; /* made in a capture, without memory; `priv` is its number (capture.h) */
    tidei_dev *dev;
    tidei_pool *pool; /* the block's; without a block the default pool of the kind */
    tidei_addr addr;  /* 0 when bytes is 0, and while it is spilled (spill.h) */
    size_t bytes;     /* as requested; 0: no block */
    /* the pool's; while it is spilled, the pinned storage that has its bytes */
    void *priv;
    struct tidei_subranges
        *subranges; /* NULL for most; guarded as the stamps are: runtime/memory/subranges.h */
    _Atomic uint32_t pins; /* an address was handed out that many times: it must not move */
    /* the id of the collector on which it weighs; fixed as `watched` is, and valid if that says
    ** so */
    uint32_t owner;
    tidei_stamps stamps;
    /* while a recorder runs, on the system's clock: its last submission; when the last array over
    ** it died, 0: not yet; the lowest bit says that a collection found that */
    _Atomic uint64_t used_ns, died_ns;
} tidei_storage;
typedef struct tidei_subranges tidei_subranges;
enum {
    TIDEI_WATCHED_BY_OBSERVERS = 1,
    /* the recorder or the tracker was told of it */ TIDEI_WATCHED_BY_OWNER = 2
};

/* Records that a thread keeps for its next storages, by its number (thread_index.h); linked by
** `priv`. In tidei_dev. */
typedef struct tidei_storage_free_list {
    tidei_storage *first;
    int n;
    /* storages up to and including the next that is watched; 0: none for a long while */
    uint32_t unwatched;
    char apart[64]; /* keeps this off the next thread's cache line */
} tidei_storage_free_list;
/* What a device keeps of memory. In tidei_dev, as `memory`. */
struct tidei_dev_memory {
    tidei_mem_kind usual; /* of arrays; fixed once open */
    /* what is known of reaching the others' memory, by index */
    _Atomic uint8_t peers[TIDEI_DEVICES_MAX];
    /* of the other kinds; NULL: not opened yet; never changes then */
    _Atomic(tidei_pool *) kinds[TIDEI_MEM_KINDS];
    tidei_advised *advised;
    _Atomic size_t nadvised;                                   /* written under the pools' lock */
    tidei_storage_free_list free_lists[TIDEI_THREADS_INDEXED]; /* each its thread's own */
    _Atomic size_t spilled; /* of its arrays, in pinned memory: not in `live` */
    /* live + request at which the policy wants to be asked at an allocation */
    _Atomic size_t wake_at;
};
void tidei_storage_free_list_drop(tidei_dev *d); /* all threads'; at close */

/* Makes a storage on stream s: drains, asks the policy, takes a block, climbs the ladder when it
** does not fit. Zero bytes are legal and take no block. `op` names the operation in the
** out-of-memory report. refs = 1. */
tide_status tidei_storage_new(tidei_dev *d, size_t bytes, tidei_stream *s, const char *op,
                              tidei_storage **out);
/* The same, from a pool that the caller holds instead of the calling thread's current one. */
tide_status tidei_storage_new_in(tidei_pool *pool, size_t bytes, tidei_stream *s, const char *op,
                                 tidei_storage **out);
/* The same for one that is pinned from its birth to its end, and that nobody else retains: bytes >
** 0. The second ends it; the block goes back with its stamps. */
tide_status tidei_storage_new_fixed(tidei_pool *pool, size_t bytes, tidei_stream *s, const char *op,
                                    tidei_storage **out);
void tidei_storage_drop_fixed(tidei_storage *st);
/* The same for a thread that climbs the ladder already: one plain attempt with these flags; no
** policy is asked, no collector or recorder told. bytes > 0. */
tide_status tidei_storage_try(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                              tidei_storage **out);
/* A placeholder of that number. */
tide_status tidei_storage_placeholder(tidei_pool *pool, size_t bytes, uint64_t number,
                                      const char *op, tidei_storage **out);
void tidei_storage_retain(tidei_storage *st);
void tidei_storage_release(
    tidei_storage *st); /* last: the block goes back to its pool with its stamps; any thread */
/* For the time of a call: a storage that is released, host memory of the runtime's that is freed,
** even where a callback is left meanwhile (callback.h). */
tide_status tidei_scratch_new(tidei_pool *pool, size_t bytes, tidei_stream *s, const char *op,
                              tidei_storage **out);
void tidei_scratch_hold(tidei_storage *st); /* the same for a storage that exists already */
void tidei_scratch_release(tidei_storage *st);
/* not zeroed; NULL: exhausted, with no error set */
void *tidei_scratch_host(tidei_runtime *rt, size_t bytes);
void tidei_scratch_host_free(tidei_runtime *rt, void *p);
/* The two halves of a release, for a caller that releases many: whether it was the last reference,
** and what is to be done then. */
static inline bool tidei_storage_unref(tidei_storage *st) {
    return atomic_fetch_sub_explicit(&st->refs, 1, memory_order_acq_rel) == 1;
}
void tidei_storage_end(tidei_storage *st);
/* Fetches into the processor's cache what a release that comes soon touches of the record. */
static inline void tidei_storage_prefetch(const tidei_storage *st) {
    __builtin_prefetch(st, 1);
    __builtin_prefetch((const char *)st + sizeof *st / 2, 1);
}

/* Between pin and unpin the storage keeps its address. By any thread that holds the storage; pairs
** count. */
void tidei_storage_pin(tidei_storage *st);
void tidei_storage_unpin(tidei_storage *st);

/* Guards the stamps, and the address where the storage is moved. Held for a few loads and
** stores. */
static inline void tidei_stamps_lock(tidei_storage *st) {
    while (atomic_flag_test_and_set_explicit(&st->flag, memory_order_acquire)) tidei_pause();
}
static inline void tidei_stamps_unlock(tidei_storage *st) {
    atomic_flag_clear_explicit(&st->flag, memory_order_release);
}

/* Asked under its flag, or within a submission (storage.c). */
static inline bool tidei_storage_spilled(const tidei_storage *st) {
    return !st->addr && st->bytes && !st->placeholder;
}

/* The slot of a stream that used it last; 0: it is unused, or nobody remembers. Nobody adds a
** use meanwhile. */
static inline unsigned tidei_storage_last_stream(tidei_storage *st) {
    return st->stamps.n ? tidei_stamps_at(&st->stamps)[0].stream : 0;
}

/* What an operation does to one storage. */
typedef struct tidei_use {
    tidei_storage *st;
    size_t offset, bytes; /* the stretch touched, within the storage */
    unsigned mode;        /* TIDEI_READ | TIDEI_WRITE */
} tidei_use;

/* The use as a range for the device table. The address is valid while the storage keeps it. */
static inline tidei_range tidei_use_range(const tidei_use *u) {
    bool unordered = atomic_load_explicit(&u->st->unordered, memory_order_relaxed);
    return (tidei_range){.addr = u->st->addr + u->offset,
                         .bytes = u->bytes,
                         .mode = tidei_unlikely(unordered) ? 0 : u->mode};
}

#define TIDEI_USES_MAX 64
typedef struct tidei_submission {
    tidei_stream *s;
    const tidei_use *uses; /* the caller's, valid until end */
    unsigned n;
    uint64_t tick;
    bool unknown; /* not all uses could be published: end waits for the work */
    const char *op;
    uint64_t began; /* time for the recorder */
    /* the uses as the device table wants them; addresses are valid until end */
    tidei_range *ranges, few[TIDEI_USES_MAX];
} tidei_submission;

/* Orders stream s after what the uses need and begins the submission: the stream's lock is held
** from here to tidei_submit_end, which must follow on success. w->ranges[i].addr is the address of
** uses[i].offset. Queue work with the device table on w->s->ds only. Storages that are spilled are
** brought back first, which takes memory and climbs the ladder: a caller that holds a lock has
** called tidei_uses_return before. Storages of another device are used where it can be reached
** (runtime/devices.h), else TIDE_E_UNSUPPORTED. Refused where the calling thread captures: what can
** be captured is one of the helpers below. */
tide_status tidei_submit_begin(tidei_submission *w, tidei_stream *s, const tidei_use *uses,
                               unsigned n, const char *op);
/* The same of any number of uses; the caller has room for as many ranges, until the end. Threads
** that use the same storage at once are otherwise the program's to order; where they are the
** library's, `lock` (may be NULL) does: it is taken here, let go of where storages are waited for
** or brought back, and held on success, for the caller to give once the work is queued. */
tide_status tidei_submit_begin_under(tidei_submission *w, tidei_stream *s, const tidei_use *uses,
                                     unsigned n, tidei_range *ranges, pthread_mutex_t *lock,
                                     const char *op);
/* `result`: what queueing gave; returned (a lost device is reported with the stream's last
** operation). The uses count as having happened either way. */
tide_status tidei_submit_end(tidei_submission *w, tide_status result);
/* The host waits for all of s's work, which no stamp names, or which uses the caller's memory: also
** where a longjmp leaves the wait. */
tide_status tidei_submit_wait(tidei_stream *s, bool quiet);

/* Brings back the uses' storages that are spilled, by work on s where s is of their device.
** Storages that the caller retains then stay on the device, except in rare cases that
** tidei_submit_begin handles. No lock held. */
tide_status tidei_uses_return(tidei_stream *s, const tidei_use *uses, unsigned n, const char *op);

/* One-operation helpers: a whole submission each, or where the calling thread captures a node
** (capture.h), which copies from and to the host are not. Zero bytes or counts do nothing. After a
** copy from or to the host its memory is the caller's again, whatever the status: the copy waits
** for that, as tidei_stream_wait does. */
tide_status tidei_submit_copy(tidei_stream *s, tidei_copy_kind kind, tidei_storage *dst,
                              size_t dst_offset, void *host, tidei_storage *src, size_t src_offset,
                              size_t bytes, const char *op);
/* Copies from storage to storage, on whatever devices. Where the destination's device reaches the
** source: on the calling thread's stream there. Where all devices reach the destination: on the
** thread's stream of the source's device. Else through two pinned buffers in turn, on streams of
** both. The host waits for none of it. May collect, for the buffers. */
tide_status tidei_submit_transfer(tidei_thread *t, tidei_storage *dst, size_t dst_offset,
                                  tidei_storage *src, size_t src_offset, size_t bytes,
                                  const char *op);
/* Queues a copy from pinned host memory and waits for nothing: that memory is the device's until
** the stream's work so far is complete (tidei_stream_wait), whatever the status. */
tide_status tidei_submit_upload(tidei_stream *s, tidei_storage *dst, size_t dst_offset,
                                tidei_storage *pinned, size_t offset, size_t bytes, const char *op);
tide_status tidei_submit_fill(tidei_stream *s, tidei_storage *dst, size_t offset,
                              const void *pattern, size_t width, size_t count, const char *op);
/* Launch: `l->ranges` is filled from the uses. `params` are l->params, to be written to: within the
** submission the address of uses[i] is added to their word at at[i], a multiple of 8 (at NULL: they
** begin with these words, in order). NULL: the work needs no addresses. */
tide_status tidei_submit_launch(tidei_stream *s, const tidei_use *uses, unsigned n, tidei_launch *l,
                                void *params, const size_t *at, const char *op);

/* The two halves of a submission, for scopes in which others queue the work (tide_use_begin): order
** s after what the uses need; and afterwards, under s->lock, publish the uses with the stamp (s,
** tick). The caller holds s. False: host memory is exhausted and not all uses are published; the
** caller waits for s once it has let go of the lock. */
tide_status tidei_order(tidei_stream *s, const tidei_use *uses, unsigned n, const char *op);
bool tidei_publish_uses(tidei_stream *s, const tidei_use *uses, unsigned n, uint64_t tick);

/* The host waits for all pending uses that a reader (or a writer, mode TIDEI_WRITE) must wait for;
** the second, for those that the use must. */
tide_status tidei_storage_wait(tidei_storage *st, unsigned mode);
tide_status tidei_use_wait(const tidei_use *u);
/* whether the use has anything to wait for; asks the device */
bool tidei_use_pending(const tidei_use *u);

/* ---- the short way past the recorder (recorder.c) and the tracker (tracker.c): nobody wants to
** know ---- */

/* once both are open that want to be told */
void tidei_watch_open(tidei_runtime *rt);
/* Tells the recorder, which is there, what new memory of the first device is known to cost. */
void tidei_watch_growth(tidei_runtime *rt);
void tidei_watch_made(tidei_storage *st, const tidei_stream *s); /* the long ways (storage.c) */
void tidei_watch_gone(tidei_storage *st);
static inline void tidei_record_alloc(tidei_storage *st, const tidei_stream *s) {
    if (tidei_unlikely(st->watched)) tidei_watch_made(st, s);
}
static inline void tidei_record_free(tidei_storage *st) {
    if (tidei_unlikely(st->watched)) tidei_watch_gone(st);
}

#endif
