/* uncancelled.h: no function of the library is a point at which a thread can be cancelled.
**
** Model. A thread that another one cancels (pthread_cancel) ends in the next call that is a
** cancellation point: a wait, a read, a write, an opening of a file, or whatever a driver or a
** library does within. Ended inside ours it would leave a lock taken or a change half made. So each
** place of ours from which such a point can be reached has cancellation disabled meanwhile, and
** gives the thread back the state that it had: the program's own points decide when it ends. A
** guard costs 10 ns, one inside another less; the ways that reach no such point, the short ones
** above all, have none. The thread counts its guards, since those of calls that a callback's
** longjmp has left do not end by themselves (callback.h): the first one alone knows what the state
** was.
** What must stay true: whatever can block, or is not ours, is called under a guard: waits by the
** functions below, files by files.h, libraries by loader.h and the device's slots, the program's
** callbacks where they are called (tests/symbols.sh, tests/runtime/test_cancel.c). With
** asynchronous cancellation no function of the library may be called. */
#ifndef TIDEI_UNCANCELLED_H
#define TIDEI_UNCANCELLED_H

#include "runtime/base/base.h"

typedef struct tidei_guards {
    unsigned n; /* that the thread is inside of */
    int before; /* its cancel state before the first of them */
} tidei_guards;
extern TIDEI_FAST_TLS tidei_guards tidei_guards_here;

static inline bool tidei_guard_enter(void) {
    if (!tidei_guards_here.n++)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &tidei_guards_here.before);
    return true;
}
/* So many of the thread's guards end. More than there are where they were counted as left, and came
** back after all (tide_thread_detach). */
static inline void tidei_guards_leave(unsigned n) {
    int now;
    if (!n || !tidei_guards_here.n) return;
    tidei_guards_here.n -= n < tidei_guards_here.n ? n : tidei_guards_here.n;
    if (!tidei_guards_here.n) pthread_setcancelstate(tidei_guards_here.before, &now);
}
static inline void tidei_guard_leave(const bool *guard) {
    (void)guard;
    tidei_guards_leave(1);
}

/* To the end of the scope that declares it the thread is not cancelled. */
#define TIDEI_UNCANCELLED                                                                          \
    __attribute__((cleanup(tidei_guard_leave), unused)) const bool tidei_guard = tidei_guard_enter()

/* As pthread_cond_wait, pthread_cond_timedwait, pthread_join; and a sleep of ns, or less where a
** signal comes. */
void tidei_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock);
int tidei_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *until);
void tidei_join(pthread_t thread);
void tidei_nap(uint64_t ns);

#endif
