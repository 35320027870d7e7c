/* uncancelled.c: waits that are no cancellation points. The model stands in uncancelled.h. */
#include "runtime/base/uncancelled.h"
#include <time.h>

TIDEI_FAST_TLS tidei_guards tidei_guards_here;

void tidei_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock) {
    TIDEI_UNCANCELLED;
    pthread_cond_wait(c, lock);
}

int tidei_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *until) {
    TIDEI_UNCANCELLED;
    return pthread_cond_timedwait(c, lock, until);
}

void tidei_join(pthread_t thread) {
    TIDEI_UNCANCELLED;
    pthread_join(thread, NULL);
}

void tidei_nap(uint64_t ns) {
    TIDEI_UNCANCELLED;
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                                 .tv_nsec = (long)(ns % 1000000000u)},
              NULL);
}
