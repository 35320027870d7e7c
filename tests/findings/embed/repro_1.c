#include "common.h"
#include <sys/resource.h>
/* 1000 temporaries of 2 MiB, nothing freed, the collector's and the policy's defaults */
int main(void) {
    tide_runtime *rt = opn();
    tide_array *x = tide_zeros(rt, TIDE_F64, 1, S(262144));
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    clock_t c = clock();
    for (int i = 0; i < 1000; i++) {
        x = tide_map(rt, "(x)->x+1", x);
        NN(x);
    }
    double v = tide_item_f64(tide_slice(x, "0"));
    clock_gettime(CLOCK_MONOTONIC, &b);
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    tide_runtime_figures s = {.struct_size = sizeof s};
    OK(tide_runtime_info(rt, &s));
    printf("value %g: wall %.3f s, cpu %.3f s (sys %.3f), minor faults %ld, peak backed %zu MiB, "
           "collections %lu\n",
           v, (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) * 1e-9,
           (double)(clock() - c) / CLOCKS_PER_SEC, r.ru_stime.tv_sec + r.ru_stime.tv_usec * 1e-6,
           r.ru_minflt, s.peak_backed >> 20, s.collections);
    tide_close(rt);
}
