/* random.h: the lab's own random numbers: the same on every machine, from a seed alone.
**
** SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
** 2014): a counter that goes up by an odd constant, and a mix of it. */
#ifndef TIDEI_LAB_RANDOM_H
#define TIDEI_LAB_RANDOM_H

#include <stdint.h>

static inline uint64_t tidei_lab_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* From low to high, both included; high - low is below 2^32, so that the bias is below 2^-32. */
static inline uint64_t tidei_lab_between(uint64_t *state, uint64_t low, uint64_t high) {
    return low + tidei_lab_random(state) % (high - low + 1);
}

#endif
