/* unit.h: random numbers for a test program's inputs, the same in each run. */
#ifndef UNIT_H
#define UNIT_H

#include <stdint.h>

/* From 0 on, below 1. */
static inline double unit(void) {
    static uint64_t random_state = 7;
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (double)((z ^ z >> 27) >> 40) * 0x1p-24;
}

#endif
