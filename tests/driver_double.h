/* driver_double.h: how a case sets the double of the driver as a library (driver_double.c), and
** what the double has counted: it is found, asked for its functions, and initialised. What the
** driver does afterwards: cuda_double.h. */
#ifndef TIDETEST_DRIVER_DOUBLE_H
#define TIDETEST_DRIVER_DOUBLE_H

#include "runtime/device/cuda/driver.h"

typedef struct driver_double {
    const char *lacks; /* a function that this version does not have */
    /* the status of an answer without a function, where answers have one; 0: the asking fails */
    unsigned entry;
    tidei_cu_result init; /* what cuInit comes to */
    bool no_words;        /* and nothing is said of it */
    tidei_cu_result of_version;
    int asked, inits; /* functions; calls of cuInit */
} driver_double;

#endif
