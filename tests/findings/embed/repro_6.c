#define _GNU_SOURCE
#include "common.h"
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
/* tide_release (argument: tide_add) in an asynchronous signal handler */
#ifndef sigev_notify_thread_id /* older C libraries lack the name */
#define sigev_notify_thread_id _sigev_un._tid
#endif
static tide_runtime *R;
static tide_array *X;
static atomic_long hits; /* lock-free: a handler counts */
static int how;
static tide_array *Q[64];
static atomic_int q;
static void h(int s) {
    (void)s;
    hits++;
    if (how)
        (void)tide_add(X, X);
    else if (q)
        tide_release(Q[--q]);
}
int main(int c, char **v) {
    (void)v;
    how = c > 1;
    tide_config k = {.struct_size = sizeof k, .collector = "refcount"};
    OK(tide_open(&k, &R));
    X = tide_ones(R, TIDE_F32, 1, S(64));
    struct sigaction a = {.sa_handler = h, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &a, 0);
    timer_t tm;
    /* This thread alone: OpenBLAS's would take it while it is blocked here. */
    struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID,
                          .sigev_signo = SIGUSR1,
                          .sigev_notify_thread_id = gettid()};
    timer_create(CLOCK_MONOTONIC, &ev, &tm);
    struct itimerspec it = {{0, 100000}, {0, 100000}};
    timer_settime(tm, 0, &it, 0);
    for (int i = 0; i < 300000; i++) {
        tide_array *y = tide_add(X, X);
        if (!how) {
            sigset_t m;
            sigemptyset(&m);
            sigaddset(&m, SIGUSR1);
            sigprocmask(SIG_BLOCK, &m, 0);
            if (q < 64) Q[q++] = y, y = NULL;
            sigprocmask(SIG_UNBLOCK, &m, 0);
        }
        tide_release(y);
    }
    memset(&it, 0, sizeof it);
    timer_settime(tm, 0, &it, 0);
    printf("survived, %ld signals\n", atomic_load(&hits));
}
