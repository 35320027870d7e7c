#include "common.h"
#include <setjmp.h>
/* a collector's callback that leaves by longjmp (an interpreter's finalizer that raised): no
** collection ever again. argument: tide_close in collect */
static tide_runtime *R;
static tide_array *G[100000];
static int n, calls;
static jmp_buf j;
static int how;
static int collect(void *s, int l) {
    (void)s;
    (void)l;
    calls++;
    for (int i = 0; i < n; i++) tide_release(G[i]);
    n = 0;
    if (calls == 2) {
        if (how)
            tide_close(R);
        else
            longjmp(j, 1);
    }
    return TIDE_COLLECT_DONE;
}
int main(int c, char **v) {
    (void)v;
    how = c > 1;
    setvbuf(stdout, 0, _IONBF, 0);
    tide_config k = {.struct_size = sizeof k, .collector = "refcount", .limit = "1MiB"};
    OK(tide_open(&k, &R));
    tide_collector t = {.struct_size = sizeof t,
                        .name = "mine",
                        .caps = TIDE_COLLECTOR_TRACING,
                        .collect = collect};
    OK(tide_collector_register(R, &t, NULL));
    if (setjmp(j)) printf("raised in call %d; ", calls);
    for (int i = 0; i < 100000; i++) {
        tide_array *a = tide_ones(R, TIDE_F32, 1, S(4096));
        /* once: the next call tells of the longjmp */
        if (!a && tide_error_last()->status == TIDE_E_INVALID) {
            printf("told: %s; ", tide_error_last()->message);
            tide_error_clear();
            a = tide_ones(R, TIDE_F32, 1, S(4096));
        }
        if (!a) {
            printf("at %d, garbage arrays held %d, calls %d: %s\n", i, n, calls,
                   tide_error_last()->message);
            return 1;
        }
        G[n++] = a;
    }
    printf("fine\n");
}
