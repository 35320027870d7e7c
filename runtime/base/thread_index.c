/* thread_index.c: handing out the threads' numbers, the lowest free one first. */
#include "runtime/base/thread_index.h"

TIDEI_FAST_TLS int tidei_thread_number;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool taken[TIDEI_THREADS_INDEXED]; /* under lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static bool prepared;

static void give_back(void *number) {
    tidei_thread_number = -1; /* destructors that run after this one go without */
    pthread_mutex_lock(&lock);
    taken[(uintptr_t)number - 1] = false;
    pthread_mutex_unlock(&lock);
}

static void prepare(void) { prepared = pthread_key_create(&at_exit, give_back) == 0; }

int tidei_thread_number_take(void) {
    unsigned n = 0;
    pthread_once(&once, prepare);
    tidei_thread_number = -1;
    if (!prepared) return 0;
    pthread_mutex_lock(&lock);
    while (n < TIDEI_THREADS_INDEXED && taken[n]) n++;
    if (n < TIDEI_THREADS_INDEXED) taken[n] = true;
    pthread_mutex_unlock(&lock);
    if (n == TIDEI_THREADS_INDEXED) return 0;
    if (pthread_setspecific(at_exit, (void *)((uintptr_t)n + 1))) { /* nobody would give it back */
        pthread_mutex_lock(&lock);
        taken[n] = false;
        pthread_mutex_unlock(&lock);
        return 0;
    }
    tidei_thread_number = (int)n + 1;
    return tidei_thread_number;
}
