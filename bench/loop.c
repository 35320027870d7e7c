/* loop.c: in a file of its own, so that the caller's options and constants have no part in it. */
#include "bench/loop.h"
#include <math.h>

void bench_loop(float *restrict out, const float *restrict a, const float *restrict b,
                const float *restrict c, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = sqrtf(a[i] * a[i] + b[i] * b[i]) * c[i] + a[i];
}
