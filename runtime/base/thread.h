/* thread.h: a thread's record in a runtime, made at its first call there.
**
** A record belongs to its thread, which alone frees it; closing a runtime only cuts the tie
** (record->rt = NULL). So a thread's look-up reads memory of its own, and a runtime that reuses the
** address of a closed one is told apart by its serial number. */
#ifndef TIDEI_THREAD_H
#define TIDEI_THREAD_H

#include "runtime/base/instance.h"

/* What the floors above do with a record, and with what its calls have left undone. Filled once a
** process, by the root (runtime/hooks.c). */
typedef struct tidei_thread_hooks {
    /* The record leaves its runtime, on its own thread, and gives back what it holds there:
    ** streams, pools. No lock is held. */
    void (*leave)(tidei_runtime *rt, tidei_thread *t);
    /* The record is about to be freed; its runtime may be gone. Calls nothing of a runtime. */
    void (*end)(tidei_thread *t);
    /* A storage that an abandoned call had a reference on. Calls nobody back. */
    void (*release)(tidei_storage *st);
    /* What the thread is inside of, whatever the runtime: ranges that a tool was told of, and the
    ** call of a reclaimable's slot; and back to what it was inside of before. They call nobody. */
    unsigned (*ranges)(void);
    void (*unwind_ranges)(unsigned left);
    uint64_t (*slot)(void);
    void (*back_in_slot)(uint64_t slot);
} tidei_thread_hooks;
extern const tidei_thread_hooks *tidei_thread_above;

/* The calling thread's record; attaches it at first use. NULL with the error set (forked, host
** memory). Every public function that takes a runtime begins with tidei_enter, one that finds it in
** an array with tidei_thread_get. */
static inline tidei_thread *tidei_enter(tide_runtime *ref, const char *op);
static inline tidei_runtime *tidei_entered(tide_runtime *ref,
                                           const char *op); /* the same for who wants the runtime */
static inline tidei_thread *tidei_thread_get(tidei_runtime *rt);
/* the same where there is one already; else NULL, and no error */
tidei_thread *tidei_thread_look(tidei_runtime *rt);
/* of the calling thread in the process; not used again */
uint64_t tidei_thread_serial(void);
/* Before the first record of the process: the first `above` stays. */
tide_status tidei_threads_prepare(const tidei_thread_hooks *above);
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
void tidei_thread_hide(bool hide);         /* its records from the short ways, or no more */
void tidei_threads_cut(tidei_runtime *rt); /* the last step: all records lose it */
/* Calls fn for each record of the runtime; under the process's lock of threads, so that fn takes
** no lock and calls nobody back. */
void tidei_threads_each(tidei_runtime *rt, void (*fn)(tidei_thread *t, void *user), void *user);

/* ---- the short way to a thread's record (thread.c): every operation takes it several times
** ---- */

extern TIDEI_FAST_TLS tidei_thread *tidei_thread_records;
tidei_thread *tidei_thread_find(tidei_runtime *rt); /* the long ways */
tidei_thread *tidei_thread_find_by_ref(tide_runtime *ref, const char *op);

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

#endif
