/* random.h: counter-based random numbers, Philox 4x32-10 (Salmon et al., "Parallel random numbers:
** as easy as 1, 2, 3", SC 2011). Element i of a draw depends on the seed, the counter at the draw,
** and i alone: the same on every device bit for bit, but for normals of f32, which lie within 6 ulp
** of each other. */
#ifndef TIDE_RANDOM_H
#define TIDE_RANDOM_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* The caller's state: start with {seed, 0}. Each draw advances the counter by what it used. Not for
** two threads at once. */
typedef struct tide_rng {
    uint64_t seed;
    uint64_t counter;
} tide_rng;

/* What the four have in common: `rng` is only read and written by the call itself, on the host;
** NULL is TIDE_E_INVALID. `shape` as for tide_empty. A failed draw leaves the counter as it was. */

/* Uniform in [0, 1), multiples of 2^-24 (f32) or 2^-53 (f64); another type is TIDE_E_DTYPE.
** May collect. Never blocks. */
TIDE_API tide_array *tide_random_uniform(tide_runtime *rt, tide_rng *rng, tide_dtype t, int ndim,
                                         const int64_t *shape);
/* Standard normal, by Box and Muller; f32 or f64, another type is TIDE_E_DTYPE. May collect.
** Never blocks. */
TIDE_API tide_array *tide_random_normal(tide_runtime *rt, tide_rng *rng, tide_dtype t, int ndim,
                                        const int64_t *shape);
/* Integers in [low, high), of any integer type that holds them, else TIDE_E_DTYPE; low >= high is
** TIDE_E_INVALID. Bias below 2^-32 (a 64-bit multiply-shift). May collect. Never blocks. */
TIDE_API tide_array *tide_random_integers(tide_runtime *rt, tide_rng *rng, tide_dtype t, int ndim,
                                          const int64_t *shape, int64_t low, int64_t high);
/* A permutation of 0 .. n-1 as i64 of shape (n), made on the device without a sort: a keyed
** bijection on the next power of two, walked until it lands below n (Mitchell et al.,
** "Bandwidth-optimal random shuffling for GPUs", 2022). n < 0 is TIDE_E_SHAPE. May collect. Never
** blocks. */
TIDE_API tide_array *tide_random_permutation(tide_runtime *rt, tide_rng *rng, int64_t n);

#if defined(__cplusplus)
}
#endif
#endif
