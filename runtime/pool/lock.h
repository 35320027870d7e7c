/* lock.h: the lock of a pool: held for a few hundred nanoseconds, mostly without another thread
** that wants it.
**
** Model. Taking it is one compare-and-swap, giving it one plain store: an atomic exchange would
** cost as much as all the rest of a short section. A thread that finds it held spins for about as
** long as a dozen sections take, then sleeps on the word.
** What must stay true: the thread that gives the lock may read `asleep` before its store is seen,
** and so miss a thread that falls asleep at that moment; therefore a sleep ends by itself. `asleep`
** is set whenever a thread may be asleep: a thread that wakes up sets it again, as others may still
** be asleep. */
#ifndef TIDEI_LOCK_H
#define TIDEI_LOCK_H

#include "runtime/base/base.h"

typedef struct tidei_lock {
    _Atomic uint32_t held, asleep; /* zeroed: free */
#ifndef NDEBUG
    _Atomic(const void *) holder; /* the holding thread's tidei_lock_thread; NULL: nobody's */
#endif
} tidei_lock;

/* Assertions alone ask who holds it: each entry of code that lets go of the lock in the middle says
** whether it is held. */
#ifndef NDEBUG
extern TIDEI_FAST_TLS char tidei_lock_thread; /* its address tells threads apart */
static inline void tidei_lock_note(tidei_lock *l, const void *holder) {
    atomic_store_explicit(&l->holder, holder, memory_order_relaxed);
}
/* Whether the calling thread holds it. */
static inline bool tidei_lock_held(const tidei_lock *l) {
    return atomic_load_explicit(&l->holder, memory_order_relaxed) == &tidei_lock_thread;
}
#else
#define tidei_lock_note(l, holder) ((void)(l))
#endif

/* What these do where the lock is held, or a thread may be asleep. */
void tidei_lock_wait(tidei_lock *l);
void tidei_lock_wake(tidei_lock *l);

/* Waits until *word is not `seen` any more, but for 20 ms at most; `wake` ends all waits for it. */
void tidei_word_wait(_Atomic uint32_t *word, uint32_t seen);
void tidei_word_wake(_Atomic uint32_t *word);

static inline bool tidei_lock_try(tidei_lock *l) {
    uint32_t held = 0;
    bool taken = atomic_compare_exchange_strong_explicit(&l->held, &held, 1, memory_order_acquire,
                                                         memory_order_relaxed);
    if (taken) tidei_lock_note(l, &tidei_lock_thread);
    return taken;
}
static inline void tidei_lock_take(tidei_lock *l) {
    if (tidei_unlikely(!tidei_lock_try(l))) tidei_lock_wait(l);
}
static inline void tidei_lock_give(tidei_lock *l) {
    tidei_check(tidei_lock_held(l));
    tidei_lock_note(l, NULL);
    atomic_store_explicit(&l->held, 0, memory_order_release);
    if (tidei_unlikely(atomic_load_explicit(&l->asleep, memory_order_relaxed))) tidei_lock_wake(l);
}

#endif
