/* repro_6: threads that are cancelled while they are inside the library leave the lock of streams
** locked: threads that end, and new ones, wait for it for ever. Prints "joined" lines, then
** SIGALRM. */
#include <tide/tide.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static tide_runtime *rt;
static void *work(void *v) {
    (void)v;
    for (int i = 0;; i++) {
        tide_array *a = tide_arange(rt, TIDE_F64, 0, 500, 1), *y = tide_map(rt, "(x)->sum(x)", a);
        (void)tide_item_f64(y);
        tide_release(a);
        tide_release(y);
        if (i % 50 == 0) pthread_testcancel();
    }
    return NULL;
}
int main(void) {
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "8MiB",
                     .collector = "refcount"};
    if (tide_open(&c, &rt)) return 1;
    alarm(300); /* against a hang only */
    for (int r = 0; r < 200; r++) {
        pthread_t t[8];
        for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, work, NULL);
        usleep(3000);
        for (int i = 0; i < 8; i++) pthread_cancel(t[i]);
        for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
        printf("joined %d\n", r), fflush(stdout);
    }
    tide_close(rt);
    puts("closed");
}
