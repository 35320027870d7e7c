/* repro_8 (boehm): one attached thread that does not run for over a second (its signals blocked: a
** program with a signal thread; or starved) while another collects: bdwgc aborts the process,
** "Signals delivery fails constantly" */
#include <tide/tide.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static tide_runtime *rt;
static void *shy(void *v) {
    sigset_t all;
    (void)v;
    (void)!tide_thread_attach(rt);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    sleep(3);
    return NULL;
}
int main(void) {
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "8MiB",
                     .collector = "boehm"};
    if (tide_open(&c, &rt)) return 1;
    pthread_t t;
    pthread_create(&t, NULL, shy, NULL);
    usleep(300000);
    printf("collect %s\n", tide_status_name(tide_collect(rt)));
    fflush(stdout);
    pthread_join(t, NULL);
    tide_close(rt);
    puts("closed");
}
