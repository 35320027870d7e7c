/* lock.c: waiting for a pool's lock. The model stands in lock.h. */
#include "runtime/pool/lock.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef NDEBUG
TIDEI_FAST_TLS char tidei_lock_thread;
#endif

#ifndef TIDEI_STRESS
/* about 25 us with the pauses between them: falling asleep and being woken costs about as much */
#define LOOKS 40
#else
#define LOOKS 1
#endif
/* between two looks, so that many waiting threads do not keep the word's cache line from the thread
** that gives the lock */
#define PAUSES_MAX  16
#define NAP_NS      1000000  /* a sleep's end where the wake was missed, which is rare */
#define PATIENCE_NS 20000000 /* tidei_word_wait's end */

static bool spun(tidei_lock *l) {
    unsigned pauses = 1;
    for (unsigned i = 0; i < LOOKS; i++) {
        if (!atomic_load_explicit(&l->held, memory_order_relaxed) && tidei_lock_try(l)) return true;
        for (unsigned k = 0; k < pauses; k++) tidei_pause();
        if (pauses < PAUSES_MAX) pauses *= 2;
    }
    return false;
}

void tidei_lock_wait(tidei_lock *l) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int before = errno; /* allocating and freeing must not change it */
    if (spun(l)) return;
    do {
        atomic_store_explicit(&l->asleep, 1, memory_order_relaxed);
        syscall(SYS_futex, &l->held, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0);
    } while (!spun(l));
    atomic_store_explicit(&l->asleep, 1, memory_order_relaxed);
    errno = before;
}

void tidei_word_wait(_Atomic uint32_t *word, uint32_t seen) {
    const struct timespec nap = {.tv_nsec = PATIENCE_NS};
    int before = errno;
    for (unsigned i = 0; i < LOOKS * PAUSES_MAX; i++) {
        if (atomic_load_explicit(word, memory_order_relaxed) != seen) return;
        tidei_pause();
    }
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &nap, NULL, 0);
    errno = before;
}

void tidei_word_wake(_Atomic uint32_t *word) {
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = before;
}

void tidei_lock_wake(tidei_lock *l) {
    int before = errno;
    atomic_store_explicit(&l->asleep, 0, memory_order_relaxed);
    syscall(SYS_futex, &l->held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = before;
}
