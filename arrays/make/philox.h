/* philox.h: random numbers from a counter: Philox 4x32-10, and what is made of its words: one text
** for both back ends.
**
** The host includes this file as C; the build also embeds it as a string (tidei_philox_text) that
** NVRTC compiles: written in the common subset, including nothing. The unit of work is a block: one
** application of the generator to (counter + b), which gives four 32-bit words and, of them, one,
** two or four elements.
** What must stay true: only additions, multiplications, divisions and square roots, compiled so
** that each rounds by itself (-ffp-contract=off, -fmad=false); so both back ends give the same
** bits. */
#ifndef TIDEI_PHILOX_H
#define TIDEI_PHILOX_H

typedef unsigned ph_u32;
typedef unsigned long long ph_u64;

#ifndef __CUDACC_RTC__
#include "runtime/device/share.h"
#endif

#ifdef __CUDACC_RTC__
#define PH_FN          static __device__ __forceinline__
#define PH_MULHI(a, b) __umul64hi((a), (b))
#define PH_SQRT(a)     sqrt(a)
#define PH_BITS(x)     ((ph_u64)__double_as_longlong(x))
#define PH_DOUBLE(u)   __longlong_as_double((long long)(u))
#else
#define PH_FN          static inline
#define PH_MULHI(a, b) ((ph_u64)((unsigned __int128)(a) * (b) >> 64))
#define PH_SQRT(a)     __builtin_sqrt(a)
static inline ph_u64 PH_BITS(double x) {
    ph_u64 u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
static inline double PH_DOUBLE(ph_u64 u) {
    double x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
#endif

/* Defines `name` in the form of each back end: work(&params, i) for every i below params.items. */
#ifdef __CUDACC_RTC__
#define PH_KERNEL(name, type, work)                                                                \
    extern "C" __global__ void name(const type p) {                                                \
        ph_u64 step = (ph_u64)gridDim.x * blockDim.x;                                              \
        for (ph_u64 i = (ph_u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.items; i += step)     \
            work(&p, i);                                                                           \
    }
#else
#define PH_KERNEL(name, type, work)                                                                \
    static void name##_items(const void *params, size_t first, size_t end) {                       \
        const type *p = params;                                                                    \
        for (ph_u64 i = first; i < end; i++) work(p, i);                                           \
    }                                                                                              \
    static __attribute__((unused)) void name(const void *params) {                                 \
        tidei_share_items(((const type *)params)->items, TIDEI_SHARE_GRAIN, name##_items, params); \
    }
#endif

/* ---- the generator: Salmon et al. 2011, table 2 ---- */

typedef struct ph_words {
    ph_u32 w[4];
} ph_words;

PH_FN ph_words ph_generate(ph_words counter, ph_u32 key0, ph_u32 key1) {
    for (int round = 0; round < 10; round++) {
        ph_u64 a = (ph_u64)0xD2511F53u * counter.w[0], b = (ph_u64)0xCD9E8D57u * counter.w[2];
        ph_words next = {{(ph_u32)(b >> 32) ^ counter.w[1] ^ key0, (ph_u32)b,
                          (ph_u32)(a >> 32) ^ counter.w[3] ^ key1, (ph_u32)a}};
        counter = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

PH_FN ph_words ph_block(ph_u64 seed, ph_u64 counter) {
    ph_words c = {{(ph_u32)counter, (ph_u32)(counter >> 32), 0, 0}};
    return ph_generate(c, (ph_u32)seed, (ph_u32)(seed >> 32));
}
PH_FN ph_u64 ph_word64(ph_words b, int half) {
    return (ph_u64)b.w[2 * half + 1] << 32 | b.w[2 * half];
}

/* ---- a draw: n elements at `out`, made block by block, from block `counter` on ---- */

typedef struct ph_draw {
    ph_u64 items; /* blocks */
    ph_u64 out;   /* address */
    ph_u64 n;     /* elements */
    ph_u64 seed, counter;
    ph_u64 low, range; /* integers: low + [0, range), modulo 2^64 */
    int size;          /* integers: bytes of one, whose lower bits are stored */
} ph_draw;

/* Uniform in [0, 1): the upper bits, scaled. */
PH_FN void ph_uniform_f32(const ph_draw *d, ph_u64 b) {
    ph_words r = ph_block(d->seed, d->counter + b);
    float *out = (float *)d->out + 4 * b;
    for (int i = 0; i < 4 && 4 * b + (ph_u64)i < d->n; i++)
        out[i] = (float)(r.w[i] >> 8) * 0x1p-24f;
}
PH_FN void ph_uniform_f64(const ph_draw *d, ph_u64 b) {
    ph_words r = ph_block(d->seed, d->counter + b);
    double *out = (double *)d->out + 2 * b;
    for (int i = 0; i < 2 && 2 * b + (ph_u64)i < d->n; i++)
        out[i] = (double)(ph_word64(r, i) >> 11) * 0x1p-53;
}
PH_KERNEL(philox_uniform_f32, ph_draw, ph_uniform_f32)
PH_KERNEL(philox_uniform_f64, ph_draw, ph_uniform_f64)

/* ---- normals, by Box and Muller ---- */

/* The natural logarithm of a normal number, within 2 ulp: x = 2^e * m, log m = 2 atanh(s) by its
** series. */
PH_FN double ph_log(double x) {
    ph_u64 bits = PH_BITS(x);
    int e = (int)(bits >> 52) - 1023;
    double m = PH_DOUBLE((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double f = m - 1, s = f / (2 + f), z = s * s;
    double sum = 2.0 / 23; /* |s| < 0.172: the rest is below 2^-60 */
    sum = sum * z + 2.0 / 21;
    sum = sum * z + 2.0 / 19;
    sum = sum * z + 2.0 / 17;
    sum = sum * z + 2.0 / 15;
    sum = sum * z + 2.0 / 13;
    sum = sum * z + 2.0 / 11;
    sum = sum * z + 2.0 / 9;
    sum = sum * z + 2.0 / 7;
    sum = sum * z + 2.0 / 5;
    sum = sum * z + 2.0 / 3;
    /* ln 2 in two parts, the first short enough to be multiplied exactly */
    double tail = sum * z * s + e * 1.90821492927058770002e-10;
    return e * 6.93147180369123816490e-01 + (2 * s + tail);
}

/* The point at u turns on the unit circle, u in [0, 1): the nearest quarter turn, and series for
** what is left of it. */
PH_FN void ph_circle(double u, double *cosine, double *sine) {
    int quarter = (int)(u * 4 + 0.5);
    double x = (u - quarter * 0.25) * 6.283185307179586, z = -(x * x);
    /* |x| <= pi/4: the rest is below 2^-60 */
    double s = 1.0 / 355687428096000, c = 1.0 / 6402373705728000;
    s = s * z + 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z + 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z + 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z + 1.0 / 6;
    s = s * z * x + x;
    c = c * z + 1.0 / 20922789888000;
    c = c * z + 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z + 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z + 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = c * z + 0.5;
    c = c * z + 1.0;
    *cosine = quarter & 1 ? (quarter & 2 ? s : -s) : (quarter & 2 ? -c : c);
    *sine = quarter & 1 ? (quarter & 2 ? -c : c) : (quarter & 2 ? -s : s);
}

/* Two normals, of u in (0, 1] and v in [0, 1). */
PH_FN void ph_pair(double u, double v, double *two) {
    double cosine, sine, r = PH_SQRT(-2 * ph_log(u));
    ph_circle(v, &cosine, &sine);
    two[0] = r * cosine;
    two[1] = r * sine;
}

/* f32: each pair of words a pair of numbers; 32 bits reach |x| = 6.7. */
PH_FN void ph_normal_f32(const ph_draw *d, ph_u64 b) {
    ph_words r = ph_block(d->seed, d->counter + b);
    float *out = (float *)d->out + 4 * b;
    double x[4];
    ph_pair((r.w[0] + 0.5) * 0x1p-32, r.w[1] * 0x1p-32, x);
    ph_pair((r.w[2] + 0.5) * 0x1p-32, r.w[3] * 0x1p-32, x + 2);
    for (int i = 0; i < 4 && 4 * b + (ph_u64)i < d->n; i++) out[i] = (float)x[i];
}
PH_FN void ph_normal_f64(const ph_draw *d, ph_u64 b) {
    ph_words r = ph_block(d->seed, d->counter + b);
    double *out = (double *)d->out + 2 * b;
    double x[2];
    ph_pair((double)((ph_word64(r, 0) >> 11) + 1) * 0x1p-53,
            (double)(ph_word64(r, 1) >> 11) * 0x1p-53, x);
    for (int i = 0; i < 2 && 2 * b + (ph_u64)i < d->n; i++) out[i] = x[i];
}
PH_KERNEL(philox_normal_f32, ph_draw, ph_normal_f32)
PH_KERNEL(philox_normal_f64, ph_draw, ph_normal_f64)

/* ---- integers: a random fraction times the range ---- */

PH_FN void ph_store(const ph_draw *d, ph_u64 i, ph_u64 v) {
    if (i >= d->n) return;
    switch (d->size) {
    case 1: ((unsigned char *)d->out)[i] = (unsigned char)v; break;
    case 2: ((unsigned short *)d->out)[i] = (unsigned short)v; break;
    case 4: ((ph_u32 *)d->out)[i] = (ph_u32)v; break;
    default: ((ph_u64 *)d->out)[i] = v; break;
    }
}
/* Ranges up to 2^32: 64 bits an element, two elements a block. */
PH_FN void ph_integers(const ph_draw *d, ph_u64 b) {
    ph_words r = ph_block(d->seed, d->counter + b);
    ph_store(d, 2 * b, d->low + PH_MULHI(ph_word64(r, 0), d->range));
    ph_store(d, 2 * b + 1, d->low + PH_MULHI(ph_word64(r, 1), d->range));
}
/* Larger ones: the upper 64 bits of a product of 128 and 64. */
PH_FN void ph_integers_wide(const ph_draw *d, ph_u64 b) {
    ph_words r = ph_block(d->seed, d->counter + b);
    ph_u64 high = ph_word64(r, 1), middle = high * d->range,
           sum = middle + PH_MULHI(ph_word64(r, 0), d->range);
    ph_store(d, b, d->low + PH_MULHI(high, d->range) + (sum < middle));
}
PH_KERNEL(philox_integers, ph_draw, ph_integers)
PH_KERNEL(philox_integers_wide, ph_draw, ph_integers_wide)

/* ---- permutations ---- */

#define PH_ROUNDS 24 /* of the Feistel network; fewer leave small permutations uneven */

typedef struct ph_shuffle {
    ph_u64 items;    /* elements */
    ph_u64 out;      /* address */
    int left, right; /* bits of the two halves; 2^(left + right) >= items */
    ph_u64 keys[PH_ROUNDS];
} ph_shuffle;

PH_FN ph_u64 ph_mix(ph_u64 x, ph_u64 key) {
    x = (x ^ key) * 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93ull;
    return x >> 32;
}
/* A bijection of 0 .. 2^(left + right) - 1: each round changes one half by what the other one
** says. */
PH_FN ph_u64 ph_permute(const ph_shuffle *p, ph_u64 x) {
    ph_u64 right_mask = ((ph_u64)1 << p->right) - 1, left_mask = ((ph_u64)1 << p->left) - 1;
    ph_u64 l = x >> p->right, r = x & right_mask;
    for (int i = 0; i < PH_ROUNDS; i += 2) {
        l ^= ph_mix(r, p->keys[i]) & left_mask;
        r ^= ph_mix(l, p->keys[i + 1]) & right_mask;
    }
    return l << p->right | r;
}
/* Following the bijection until it lands below n is a bijection of 0 .. n-1. */
PH_FN void ph_shuffle_one(const ph_shuffle *p, ph_u64 i) {
    ph_u64 x = ph_permute(p, i);
    while (x >= p->items) x = ph_permute(p, x);
    ((long long *)p->out)[i] = (long long)x;
}
PH_KERNEL(philox_permutation, ph_shuffle, ph_shuffle_one)

#endif
