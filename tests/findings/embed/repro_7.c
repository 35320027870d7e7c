#include "common.h"
/* sum of `pressure` after everything is over, by how it ended */
static long long P;
static int D;
static void pr(void *s, int64_t d) {
    (void)s;
    P += d;
}
static int co(void *s, int l) {
    (void)s;
    (void)l;
    return 0;
}
static void de(void *s) {
    (void)s;
    D = 1;
}
int main(void) {
    for (int how = 0; how < 4; how++) {
        P = 0;
        D = 0;
        tide_config k = {.struct_size = sizeof k, .collector = "refcount"};
        tide_runtime *R;
        OK(tide_open(&k, &R));
        uint64_t id;
        tide_collector t = {.struct_size = sizeof t,
                            .name = "mine",
                            .caps = TIDE_COLLECTOR_TRACING,
                            .collect = co,
                            .pressure = pr,
                            .detach = de};
        OK(tide_collector_register(R, &t, &id));
        tide_array *a[8];
        for (int i = 0; i < 8; i++) a[i] = tide_ones(R, TIDE_F32, 1, S(1 << 18));
        tide_safepoint(R);
        long long mid = P;
        const char *n[] = {"release all, safepoint, close", "release all, close",
                           "close, release all", "detach, release all, close"};
        if (how == 3) OK(tide_collector_unregister(R, id));
        if (how != 2)
            for (int i = 0; i < 8; i++) tide_release(a[i]);
        if (how == 0) tide_safepoint(R);
        tide_close(R);
        if (how == 2)
            for (int i = 0; i < 8; i++) tide_release(a[i]);
        printf("%-32s made %lld, left %lld, detach called %d\n", n[how], mid, P, D);
    }
}
