/* nvrtc_double.h: how a case sets the double of NVRTC (nvrtc_double.c), a library of its own, and
** what the double has counted. A process has one NVRTC: the first that opens. So programs either
** open the double before anything else, or leave it to children. */
#ifndef TIDETEST_NVRTC_DOUBLE_H
#define TIDETEST_NVRTC_DOUBLE_H

#include "runtime/device/cuda/nvrtc.h"

typedef struct nvrtc_double {
    int major, minor;
    int narchs, archs[80];
    int programs;         /* alive */
    _Atomic int compiled; /* asked for so far */
    char option[4][32];   /* what the last one was compiled with */
    const char *failing;  /* the call that fails with `error` */
    tidei_nvrtc_result error;
    bool no_code, no_log; /* none comes of it; of what does not compile nothing is said */
} nvrtc_double;

#endif
