/* own_thread.c: starting threads, as own_thread.h has it. */
#include "runtime/base/own_thread.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

static void signals_of_others(sigset_t *out) {
    static const int of_a_thread[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigfillset(out);
    for (size_t i = 0; i < TIDEI_COUNT(of_a_thread); i++) sigdelset(out, of_a_thread[i]);
}

#ifdef TIDEI_HAVE_ATTR_SIGMASK

int tidei_own_thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg) {
    pthread_attr_t attr;
    sigset_t blocked;
    int error = pthread_attr_init(&attr);
    if (error) return error;
    signals_of_others(&blocked);
    error = pthread_attr_setsigmask_np(&attr, &blocked);
    if (!error) error = pthread_create(out, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    return error;
}

#else
/* The C library cannot give a thread its mask: the thread takes it itself, with its first step. */

struct start {
    void *(*fn)(void *arg);
    void *arg;
};

static void *begin(void *p) {
    struct start s = *(struct start *)p;
    sigset_t blocked;
    free(p);
    signals_of_others(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    return s.fn(s.arg);
}

int tidei_own_thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg) {
    struct start *s = malloc(sizeof *s);
    if (!s) return ENOMEM;
    *s = (struct start){fn, arg};
    int error = pthread_create(out, NULL, begin, s);
    if (error) free(s);
    return error;
}

#endif

/* EINVAL: there are more than a set has room for, which are more than anything here makes use of.
** */
unsigned tidei_processors(void) {
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof may, &may)) return errno == EINVAL ? CPU_SETSIZE : 1;
    return (unsigned)CPU_COUNT(&may);
}
