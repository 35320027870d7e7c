#include "common.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
/* a bound collector whose thread reaches a safe point every 0.2 ms; a worker's request is refused
** at once although all is garbage */
static tide_runtime *R;
static uint64_t id;
static tide_array *G[100000];
static int n;
static pthread_mutex_t M = PTHREAD_MUTEX_INITIALIZER;
static atomic_int done, calls;
static int collect(void *s, int l) {
    (void)s;
    (void)l;
    calls++;
    for (int i = 0; i < n; i++) tide_release(G[i]);
    n = 0;
    return TIDE_COLLECT_DONE;
}
static void *w(void *p) {
    (void)p;
    OK(tide_collector_use(R, id));
    int f = 0;
    for (int i = 0; i < 5000; i++) {
        tide_array *a = tide_ones(R, TIDE_F32, 1, S(4096));
        if (!a) {
            if (!f++) puts(tide_error_last()->message);
            usleep(1000);
            continue;
        }
        pthread_mutex_lock(&M);
        G[n++] = a;
        pthread_mutex_unlock(&M);
    }
    printf("refused %d of 5000, collections %d\n", f, atomic_load(&calls));
    done = 1;
    return 0;
}
int main(void) {
    tide_config k = {.struct_size = sizeof k, .collector = "refcount", .limit = "1MiB"};
    OK(tide_open(&k, &R));
    tide_collector t = {.struct_size = sizeof t,
                        .name = "mine",
                        .caps = TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_BOUND,
                        .collect = collect};
    OK(tide_collector_register(R, &t, &id));
    pthread_t p;
    pthread_create(&p, 0, w, 0);
    while (!done) {
        pthread_mutex_lock(&M);
        tide_safepoint(R);
        pthread_mutex_unlock(&M);
        usleep(200);
    }
    pthread_join(p, 0);
    tide_close(R);
}
