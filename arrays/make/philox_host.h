/* philox_host.h: the host's kernels of random numbers, for each instruction set (philox_host.c). */
#ifndef TIDEI_PHILOX_HOST_H
#define TIDEI_PHILOX_HOST_H

#include "arrays/make/philox.h"

/* They take a ph_draw, as the functions of philox.h that have their names. */
typedef struct tidei_philox_host {
    void (*uniform_f32)(const void *params), (*uniform_f64)(const void *params);
    void (*normal_f32)(const void *params), (*normal_f64)(const void *params);
    void (*integers_i8)(const void *params), (*integers_i16)(const void *params);
    void (*integers_i32)(const void *params), (*integers_i64)(const void *params);
} tidei_philox_host;
extern const tidei_philox_host tidei_philox_host_base, tidei_philox_host_avx2;

#endif
