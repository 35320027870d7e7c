/* callback.h: calling code of the embedder's: a collector's slots, caches that give way, callbacks
** of deaths, of batches, structures and graphs, the log. Such code may do what it must not, and may
** leave by longjmp, except the log's.
**
** Model. An interpreter's error may leave a callback by longjmp (or as an exception): the library's
** calls below it, down to where the error is caught, are gone without notice. So each caller of a
** callback notes it in the calling thread's record, with the place on the stack that stays as it is
** until the callback returns; and what a call has taken and gives back before it returns, or has
** changed and changes back, is *held* in that record from then on. While a thread is noted in a
** callback, tidei_thread_records is NULL, so each of its calls takes the slow path
** (tidei_thread_find) and checks that the places are still there: if one is not, all that was held
** since is undone, and the call fails once, saying so. A thread's end, and the runtime's, undo what
** is left too. Where the place lies on a stack that is not the thread's own (a coroutine's), that
** it was left does not show; then the embedder says so by tide_thread_detach.
** What must stay true: no lock of ours is held across a callback. What is held names nothing on the
** stack. Undoing calls no callback but the log's, and may be done by another thread: one that
** closes the runtime. The log's callback is never left, so what a call has taken need not be held
** across it.
** A thread outside of any call holds nothing (tidei_runtime_valid). */
#ifndef TIDEI_CALLBACK_H
#define TIDEI_CALLBACK_H

#include "runtime/base/thread.h"

/* ---- what calls hold ---- */

typedef void (*tidei_undo)(tidei_runtime *rt, tidei_thread *t, void *what, uintptr_t of);
/* tidei_hold(t, undo, what, of), below: from here on `what`, an even address or number, is
** given back by `undo` if the call does not come to it; `of` is whatever else `undo` wants. t NULL:
** nobody is there to do it. What there is no host memory to write down is not undone. Of a storage
** that the call has a reference on, tidei_hold_storage(t, st) is enough. */
#define TIDEI_HELD_MARK ((uintptr_t)1) /* in the last of three words that are held */
/* The call has given `what` back, or away: removes the latest note of it. */
void tidei_let(tidei_thread *t, const void *what);
/* Of a storage, however it is held: tidei_let_storage(t, st), below; t is not NULL. */
bool tidei_held_grow(tidei_thread *t); /* the long way; false: there is no host memory */
/* The usual ones: a counter in the thread's record that goes up and down, and host memory of the
** runtime's. */
void tidei_deepen(tidei_thread *t, int *depth);
void tidei_rise(tidei_thread *t, int *depth);
void tidei_undo_host(tidei_runtime *rt, tidei_thread *t, void *p, uintptr_t of);

/* ---- callbacks ---- */

typedef enum tidei_callback_kind {
    TIDEI_IN_COLLECT,
    TIDEI_IN_FINALIZERS, /* the collector boehm's, of whatever program */
    TIDEI_IN_MAY_COLLECT,
    TIDEI_IN_PRESSURE,
    TIDEI_IN_BLOCKING,
    TIDEI_IN_DETACH,
    TIDEI_IN_DECIDE,
    TIDEI_IN_OBSERVE,
    TIDEI_IN_PURGE,
    TIDEI_IN_DROP,
    TIDEI_IN_BYTES,
    TIDEI_IN_VISIT, /* a runtime that is short makes another one's give way */
    TIDEI_IN_FILL,
    TIDEI_IN_MOVED,
    TIDEI_IN_GRAPH,
    TIDEI_IN_DEATH,
    TIDEI_IN_LOG
} tidei_callback_kind;

/* A callback's note, on the frame of its caller; the callback is called between begin and end.
** `name` (may be NULL): the owner's, copied. */
typedef struct tidei_callback {
    tidei_thread *t; /* NULL: the thread has no record to note it in */
    unsigned place;
    uint64_t mark[2]; /* says that the frame is still there */
} tidei_callback;
#define tidei_callback_begin(c, rt, kind, name)                                                    \
    tidei_callback_note((c), (rt), (kind), (name), __builtin_frame_address(0))
void tidei_callback_note(tidei_callback *c, tidei_runtime *rt, tidei_callback_kind kind,
                         const char *name, const void *frame);
void tidei_callback_end(tidei_callback *c);
/* The record in which what the thread does in that runtime is noted and held: the thread's own
** there; on a visit from another runtime (neighbours.c) its record in that one, as another thread
** may close the visited one meanwhile. NULL: there is none. */
tidei_thread *tidei_callbacks_record(tidei_runtime *rt);

/* The calling thread is about to make an array, or memory for elements. False with the error set:
** it is inside a callback that makes none. The short way, tidei_may_make, stands below. */
bool tidei_may_make_here(tidei_runtime *rt, const char *op);
/* The same for callers that unregister a collector, close the runtime, or end the thread's record.
** Closing is also refused on a thread of the runtime's own. Ending a record: where the stack does
** not tell, the callback counts as left. */
bool tidei_may_unregister(tidei_thread *t, const char *op);
bool tidei_may_close(tidei_runtime *rt, const char *op);
bool tidei_may_leave(tidei_thread *t, const char *op);

/* inside a callback in which no collection and no climb begins */
bool tidei_is_quiet(const tidei_thread *t);
/* The runtime whose own thread this is, of a host device say; NULL: it is a program's. */
extern TIDEI_FAST_TLS tidei_runtime *tidei_serves;

/* ---- for thread.c ---- */

/* Looks whether the callbacks that the thread is noted in are still there. False: one was not; what
** was held is undone, and the error of operation `op` says so. rt (may be NULL): whose log has a
** line, too. */
bool tidei_callbacks_look(tidei_runtime *rt, const char *op);
/* The thread ends: it is inside nothing any more. */
void tidei_callbacks_end(tidei_thread *t);
void tidei_callbacks_init(tidei_thread *t);
void tidei_callbacks_free(tidei_thread *t);
/* Undoes all that the record holds from there on; called by the thread itself or by one that closes
** the runtime. */
size_t tidei_held_here(const tidei_thread *t); /* 0: nothing is held */
void tidei_held_undo(tidei_runtime *rt, tidei_thread *t, size_t down_to);

/* ---- the short ways around callbacks : the thread is inside none, and has room
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

#endif
