/* loop.h: the fused loop as a C programmer writes it, compiled with gcc -O3: what the host device
** is compared with. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include <stddef.h>

void bench_loop(float *restrict out, const float *restrict a, const float *restrict b,
                const float *restrict c, size_t n);

#endif
