/* stream.h: streams, ticks, and which stream has waited for which.
**
** Model. Every piece of work submitted to a stream gets the stream's next tick; (stream, tick)
** names the moment when it is complete. A *stamp* is such a pair, kept with the memory that the
** work used. A stream keeps a row `seen`: for each other stream the last tick that its own future
** work is ordered after; a wait merges the other's whole row, so chains of any length count. A
** stamp that a stream has seen, or that is completed, needs no wait. A *mark* is an event of a
** stream with the tick behind which it was recorded, and what the stream had seen then:
**   stream A   tick 1   tick 2 *mark*   tick 3        the mark is an event behind tick 2
**   array x has the stamp (A, 1), array y (A, 3)
**   stream B uses x: waits for A's mark at 2, not for tick 3; now seen[A] of B is 2
**   stream B uses x again: 1 <= seen[A], no wait; uses y: 3 > seen[A], waits again
** A stream keeps its last marks, so that a stream that needs an earlier tick does not wait for the
** work submitted since. A mark is made when another stream waits and no mark serves. Once other
** streams have been found to wait for work with more submitted behind it, marks are also made from
** time to time behind a submission (`credit`).
** What must stay true: what a mark says was seen is ordered before its event. Ticks of one slot
** only rise, also when a slot is reused by a later stream, so an old stamp never looks pending
** again. `completed` only rises, and `seen` while the slot serves one stream. Slots are the
** runtime's, so that a stamp means the same on all its devices; a slot stays with its device. A
** stream's lock orders its submissions; it is a leaf (no other lock is taken under it but a
** storage's flag). The device's half of a stream stays while a thread holds it; a thread that uses
** it outside the lock must. */
#ifndef TIDEI_STREAM_H
#define TIDEI_STREAM_H

#include "runtime/base/callback.h"
#include "runtime/device/device.h"
#include "runtime/observe/recorder.h"

/* A moment on a device. `write`: the use at that moment wrote (or its history is unknown), so that
** readers wait too. */
typedef struct tidei_stamp {
    uint64_t tick; /* 0: no use, never pending */
    uint16_t stream;
    uint16_t write;
    uint32_t reserved;
} tidei_stamp;

/* A small set of stamps: at most one reading and one writing stamp a stream. Moved, never copied by
** assignment. */
#define TIDEI_STAMPS_INLINE 3
typedef struct tidei_stamps {
    uint16_t n, cap;   /* cap 0: inline */
    tidei_stamp *more; /* malloc'ed array of cap when cap > 0; else the inline ones count */
    tidei_stamp few[TIDEI_STAMPS_INLINE];
} tidei_stamps;

static inline tidei_stamp *tidei_stamps_at(tidei_stamps *s) { return s->cap ? s->more : s->few; }
void tidei_stamps_clear(tidei_stamps *s); /* frees; empty afterwards */
static inline unsigned tidei_stamps_room(const tidei_stamps *s) {
    return s->cap ? s->cap : TIDEI_STAMPS_INLINE;
}
bool tidei_stamps_grow(tidei_stamps *s, unsigned want); /* reserve where there is no room */
/* Room for `room` more; false: host memory exhausted. */
static inline bool tidei_stamps_reserve(tidei_stamps *s, unsigned room) {
    return s->n + room <= tidei_stamps_room(s) || tidei_stamps_grow(s, s->n + room);
}
void tidei_stamps_move_many(tidei_stamps *to, const tidei_stamps *from); /* the long way of move */
/* Into *to, whose content is no more; `from` is no more afterwards. Most sets have one or none. */
static inline void tidei_stamps_move(tidei_stamps *to, const tidei_stamps *from) {
    unsigned n = from->n, cap = from->cap;
    to->n = (uint16_t)n;
    to->cap = (uint16_t)cap;
    if (tidei_unlikely(n > 1 || cap))
        tidei_stamps_move_many(to, from);
    else if (n)
        to->few[0] = from->few[0];
}
/* Adds the stamp, or raises the stream's; the caller has reserved room for one. */
void tidei_stamps_add(tidei_stamps *s, tidei_stamp x);

/* Marks of a stream: they reach back over about the last four times that others waited for it
** (MARKS_A_GAP). */
#define TIDEI_STREAM_MARKS 32

/* An event behind all of a stream's work up to `tick`. */
typedef struct tidei_mark {
    uint64_t tick;
    tidei_devent *event; /* kept for the next mark in this place; NULL: not made yet */
    /* what the stream had seen of the first `n` slots; the array has room for `room` */
    uint64_t *seen;
    unsigned n, room;
} tidei_mark;

/* What a tide_stream refers to. */
typedef struct tidei_stream tidei_stream;
struct tidei_stream {
    tidei_dev *dev;
    _Atomic(tidei_dstream *) ds; /* NULL: retired, all its work is complete; changes under lock */
    uint16_t slot;
    atomic_bool released;
    /* the public reference; NULL: released. The struct serves the slot's next stream too */
    _Atomic(tide_stream *) ref;
    const char *last_op; /* for the report when the device is lost; under lock */
    pthread_mutex_t lock;
    _Atomic uint64_t submitted; /* last tick given out */
    atomic_bool begun;          /* somebody knows the next one already: tidei_stream_next_tick */
    /* the tick from which after_work has something to do; under lock */
    uint64_t due;
    _Atomic uint64_t published; /* a write of the word up to here is queued */
    /* last known; a reused slot starts where the earlier stream ended */
    _Atomic uint64_t completed;
    /* counts of all streams that had the slot; written under lock */
    _Atomic uint64_t launches, copies;
    /* the time and tick of the last look that found work incomplete; 0: none */
    _Atomic uint64_t looked_ns, looked_tick;
    _Atomic uint64_t tick_ns; /* ns a tick, the device's pace at that look */
    _Atomic uint64_t seen[TIDEI_STREAMS_MAX];
    _Atomic uint64_t retirements; /* of the slot */
    atomic_bool of_thread;        /* a thread's default stream: released with the thread */
    /* around a native stream of the program's, which also puts work there that has no ticks */
    atomic_bool adopted;
    unsigned holders; /* under lock: waits and open scopes, which need ds outside it */
    /* The rest under lock. */
    tidei_mark marks[TIDEI_STREAM_MARKS]; /* a ring, ticks rising from `first` on */
    unsigned first, nmarks;
    unsigned credit; /* so many marks are still made in advance; others that wait raise it again */
    uint64_t gap;    /* ticks between two marks made in advance */
    /* the last tick submitted when another stream began to wait for an earlier one */
    uint64_t followed;
};

/* What the streams ask of the floors above; the root fills it (runtime/hooks.c). They may be
** called with no lock held. */
typedef struct tidei_stream_hooks {
    /* The host has waited for all streams of the device: blocks that wait for nothing else are
    ** free. */
    void (*all_done)(tidei_dev *d);
    /* It has waited anyway: what takes its time, and can be given back, may be now. */
    void (*waited)(tidei_dev *d);
} tidei_stream_hooks;

/* The streams of a runtime. In tidei_runtime. */
struct tidei_streams {
    const tidei_stream_hooks *above;
    /* streams wait for work that is over too: a pool is, or was, deterministic */
    atomic_bool waits_anyway;
    _Atomic unsigned own_streams; /* of threads */
    /* tests: plants missing waits: nothing is ordered across streams */
    bool skip_waits;
    /* guards what follows; entries are written once and stay */
    pthread_mutex_t lock;
    _Atomic(tidei_stream *) at[TIDEI_STREAMS_MAX]; /* by slot */
    _Atomic unsigned n;                            /* slots in use so far */
};

/* What a device knows of waits. In tidei_dev. */
struct tidei_waits {
    /* work of other devices may use its memory: set before the first does */
    atomic_bool used_elsewhere;
    _Atomic uint64_t host_waits, host_wait_ns, device_waits;
    _Atomic uint64_t wait_ewma_ns; /* average wait at sync points */
};

/* Under the lock that guards the counter's writers: no need of an atomic addition. */
static inline void tidei_count_locked(_Atomic uint64_t *x) {
    atomic_store_explicit(x, atomic_load_explicit(x, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* True when the moment is past: reads the completion word, and publishes first if the tick was not
** published yet. Never waits. */
bool tidei_stamp_done(tidei_dev *d, tidei_stamp x);
/* The same for callers that ask often and can do with a late answer: while an earlier publication
** is under way it does not add another, which the stream's work would wait for (2 us on a GPU). So
** it may return true only a few publications later. */
bool tidei_stamp_asked(tidei_dev *d, tidei_stamp x);
/* Drops the stamps that are done. */
static inline void tidei_stamps_prune(tidei_dev *d, tidei_stamps *s) {
    tidei_stamp *a = tidei_stamps_at(s);
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (!tidei_stamp_done(d, a[i])) a[n++] = a[i];
    s->n = (uint16_t)n;
    if (!n) tidei_stamps_clear(s);
}
/* True when work queued on `s` from now on is ordered after x: its own, seen, or known to be done,
** which does not count where a pool of the device is deterministic. No driver call. */
bool tidei_stamp_covered(tidei_stream *s, tidei_stamp x);
bool tidei_stamps_covered(tidei_stream *s, tidei_stamps *xs);
/* The host waits until x is past (in the collector's blocking region; counts a host wait). */
tide_status tidei_stamp_wait(tidei_dev *d, tidei_stamp x);

/* s waits on the device for (from, tick), and for as little later work as the marks allow; it takes
** over what `from` had seen there. Takes from->lock only: two threads may queue waits on s in
** either order, as both waits come before their work. The caller holds s. */
tide_status tidei_stream_follow(tidei_stream *s, tidei_stream *from, uint64_t tick);
/* The tick that comes behind what is queued on s by now, by whomever, with a lock or without: that
** of our next work there, or, where somebody asks before that, one that is given out for it. Takes
** no lock, and queues nothing. */
static inline uint64_t tidei_stream_next_tick(tidei_stream *s) {
    /* In this order: who gives ticks out looks at `begun` first. */
    uint64_t tick = atomic_load_explicit(&s->submitted, memory_order_acquire) + 1;
    atomic_store_explicit(&s->begun, true, memory_order_release);
    return tick;
}
/* The last tick that anybody may know by now, which is given out. Takes s->lock. */
uint64_t tidei_stream_last_tick(tidei_stream *s);
/* Both under s->lock. Returns the next tick; the second, once the tick's work is queued, publishes
** or makes a mark where that is due. */
uint64_t tidei_stream_tick(tidei_stream *s);
void tidei_stream_after_work(tidei_stream *s);

/* Whether work may be queued on an adopted stream now, which its owner may forbid; asked before
** anything is queued. The caller holds s or its lock. */
tide_status tidei_stream_usable_now(tidei_stream *s);
static inline tide_status tidei_stream_usable(tidei_stream *s) {
    bool adopted = atomic_load_explicit(&s->adopted, memory_order_relaxed);
    return tidei_likely(!adopted) ? TIDE_OK : tidei_stream_usable_now(s);
}

tide_status tidei_stream_open(tidei_dev *d, tidei_stream **out);
/* The same around a native stream of the program's; NULL is the device's default one. */
tide_status tidei_stream_adopt(tidei_dev *d, void *native, tidei_stream **out);
/* Marks it released; its struct and slot live on until its work is complete
** (tidei_streams_sweep). */
void tidei_stream_drop(tidei_stream *s);
void tidei_streams_sweep(tidei_dev *d, bool all);
/* Keeps the stream from being retired until let go, and returns the device's half; NULL (and
** nothing to let go) if it is retired. */
tidei_dstream *tidei_stream_hold(tidei_stream *s);
void tidei_stream_let_go(tidei_stream *s);
void tidei_undo_stream(tidei_runtime *rt, tidei_thread *t, void *s,
                       uintptr_t of); /* for tidei_hold: lets go of the stream */
/* The host waits for all work submitted to s so far; publishes. Unless `quiet` the policy is asked
** before the wait, and after it the pools give back what they are not to keep. Called without any
** lock. */
tide_status tidei_stream_wait(tidei_stream *s, bool quiet);
/* Waits for all that was submitted, on the spot: no callback is called meanwhile, so no longjmp out
** of one can leave the caller while the device still uses the caller's memory (callback.h). For
** work that takes no longer than a copy, when the work before it has been waited for. */
tide_status tidei_stream_finish(tidei_stream *s);
/* the last tick known to be complete, also on a lost device, where all looks complete */
uint64_t tidei_stream_got_to(tidei_stream *s);
/* the caller has learnt that the tick is complete */
void tidei_stream_reached(tidei_stream *s, uint64_t tick);
tide_status tidei_streams_wait_all(tidei_dev *d, bool quiet); /* the device's */
/* The host waits for all work that may use the device's memory, on whatever device it is. */
tide_status tidei_streams_wait_users(tidei_dev *d);
tidei_stream *tidei_stream_at(tidei_dev *d, unsigned slot);
/* The device's next stream; NULL: there are no more. Begin with *slot = 0. */
tidei_stream *tidei_stream_next(tidei_dev *d, unsigned *slot);
/* Rough device time still queued on the device's streams, for the policies: by the pace at which
** they complete, and, where the host is about to wait (`waits`), by past waits. */
uint64_t tidei_slack_ns(tidei_dev *d, bool waits);
/* Submissions on the device's streams that are not known to be complete. */
uint64_t tidei_streams_pending(tidei_dev *d);

/* ---- the short way past the recorder: nothing is recorded ---- */

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

#endif
