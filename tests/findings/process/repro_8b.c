/* repro_8b: the usual pattern of a signal thread: all signals are blocked before threads are made;
** then any collection aborted */
#include <tide/tide.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static tide_runtime *rt;
static void *worker(void *v) {
    (void)v;
    tide_array *a = tide_ones(rt, TIDE_F32, 0, NULL);
    (void)tide_item_f64(a);
    sleep(3);
    return a;
}
int main(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    tide_config c = {.struct_size = sizeof c, .device = "host", .host_device_memory = "8MiB"};
    if (tide_open(&c, &rt)) return puts(tide_error_last()->message), 0;
    pthread_t t;
    pthread_create(&t, NULL, worker, NULL);
    usleep(500000);
    printf("collect %s\n", tide_status_name(tide_collect(rt)));
    fflush(stdout);
    pthread_join(t, NULL);
    tide_close(rt);
    puts("closed");
}
