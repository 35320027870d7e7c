/* repro_8c (boehm): an attached thread that gets no processor for a while (SCHED_IDLE beside one
** that spins) */
#define _GNU_SOURCE
#include <tide/tide.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
#include <time.h>
static tide_runtime *rt;
static volatile int stop;
static int shared, other; /* the first two processors that it may use; with one, both are that */
static void choose(void) {
    cpu_set_t s;
    CPU_ZERO(&s);
    sched_getaffinity(0, sizeof s, &s);
    while (shared < CPU_SETSIZE - 1 && !CPU_ISSET(shared, &s)) shared++;
    for (other = shared + 1; other < CPU_SETSIZE && !CPU_ISSET(other, &s);) other++;
    if (other == CPU_SETSIZE) other = shared;
}
static void pin(int c) {
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(c, &s);
    sched_setaffinity(0, sizeof s, &s);
}
static void *idle(void *v) {
    (void)v;
    (void)!tide_thread_attach(rt);
    pin(shared);
    struct sched_param p = {0};
    sched_setscheduler(0, SCHED_IDLE, &p);
    volatile long x = 0;
    while (!stop) x++;
    return NULL;
}
static void *hog(void *v) {
    (void)v;
    pin(shared);
    volatile long x = 0;
    while (!stop) x++;
    return NULL;
}
int main(void) {
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "8MiB",
                     .collector = "boehm"};
    if (tide_open(&c, &rt)) return 1;
    choose();
    pthread_t t, h[4];
    for (int i = 0; i < 4; i++) pthread_create(&h[i], NULL, hog, NULL);
    pthread_create(&t, NULL, idle, NULL);
    usleep(300000);
    pin(other);
    for (int i = 0; i < 8; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        tide_status s = tide_collect(rt);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("collect %s %.0f ms\n", tide_status_name(s),
               (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6);
        fflush(stdout);
    }
    stop = 1;
    pthread_join(t, NULL);
    for (int i = 0; i < 4; i++) pthread_join(h[i], NULL);
    tide_close(rt);
    puts("closed");
}
