/* philox.h: random numbers from a counter: Philox 4x32-10, and what is made of its words: one text
** for both back ends.
**
** The host includes this file as C; the build also embeds it as a string (tidei_philox_text, behind
** kernels/text.h) that NVRTC compiles: written in the common subset. The unit of the generator is a
** block: one application of it to (counter + b), which gives four 32-bit words and, of them, one,
** two or four elements. The unit of work is a vector: the blocks of 16 bytes of elements, which a
** device's thread stores at once; threads that stored element by element would send each sector of
** memory four times.
** What must stay true: only additions, multiplications, divisions, square roots and PH_FMAF,
** compiled so that each rounds by itself (-ffp-contract=off, -fmad=false); so both back ends give
** the same bits, but for normals of f32, which devices make in floats. */
#ifndef TIDEI_PHILOX_H
#define TIDEI_PHILOX_H

#ifndef __CUDACC_RTC__
#include "arrays/kernels/text.h"
#include "runtime/device/share.h"
#endif

typedef unsigned ph_u32;
typedef unsigned long long ph_u64;

#ifdef __CUDACC_RTC__
#define PH_FN            static __device__ __forceinline__
#define PH_16            __align__(16)
#define PH_MULHI(a, b)   __umul64hi((a), (b))
#define PH_SQRT(a)       sqrt(a)
#define PH_SQRTF(a)      sqrt(a)
#define PH_FMAF(a, b, c) fma((a), (b), (c))
#define PH_CLZ(x)        __clz((int)(x))
#define PH_BITS(x)       ((ph_u64)__double_as_longlong(x))
#define PH_DOUBLE(u)     __longlong_as_double((long long)(u))
#define PH_FLOAT(u)      __uint_as_float(u)
#define PH_PAIR_F32      ph_pair_floats
#define PH_BITSF(x)      __float_as_uint(x)
#else
#define PH_FN            static inline
#define PH_16            /* arrays of tests are where they are */
#define PH_MULHI(a, b)   ((ph_u64)((unsigned __int128)(a) * (b) >> 64))
#define PH_SQRT(a)       __builtin_sqrt(a)
#define PH_SQRTF(a)      __builtin_sqrtf(a)
#define PH_FMAF(a, b, c) __builtin_fmaf((a), (b), (c))
#define PH_CLZ(x)        ((x) ? __builtin_clz(x) : 32)
#define PH_PAIR_F32      ph_pair_words
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
static inline ph_u32 PH_BITSF(float x) {
    ph_u32 u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
static inline float PH_FLOAT(ph_u32 u) {
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
#endif

/* Defines `name` in the form of each back end: work(&params, i) for every i below params.items. */
#ifdef __CUDACC_RTC__
#define PH_KERNEL(name, type, work)                                                                \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ type p) {      \
        kt_grid_wait();                                                                            \
        ph_u64 step = (ph_u64)gridDim.x * blockDim.x;                                              \
        for (ph_u64 i = (ph_u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.items; i += step)     \
            work(&p, i);                                                                           \
    })
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

#define PH_GENERATOR_ROUNDS 10

typedef struct ph_words {
    ph_u32 w[4];
} ph_words;
typedef struct ph_keys { /* of each round: launch constants */
    ph_u32 first[PH_GENERATOR_ROUNDS], second[PH_GENERATOR_ROUNDS];
} ph_keys;

PH_FN ph_keys ph_schedule(ph_u32 key0, ph_u32 key1) {
    ph_keys k;
    for (int round = 0; round < PH_GENERATOR_ROUNDS; round++) {
        k.first[round] = key0 + (ph_u32)round * 0x9E3779B9u;
        k.second[round] = key1 + (ph_u32)round * 0xBB67AE85u;
    }
    return k;
}

PH_FN ph_words ph_generate(ph_words counter, const ph_keys *k) {
    for (int round = 0; round < PH_GENERATOR_ROUNDS; round++) {
        ph_u64 a = (ph_u64)0xD2511F53u * counter.w[0], b = (ph_u64)0xCD9E8D57u * counter.w[2];
        ph_words next = {{(ph_u32)(b >> 32) ^ counter.w[1] ^ k->first[round], (ph_u32)b,
                          (ph_u32)(a >> 32) ^ counter.w[3] ^ k->second[round], (ph_u32)a}};
        counter = next;
    }
    return counter;
}

PH_FN ph_words ph_block_of(const ph_keys *k, ph_u64 counter) {
    ph_words c = {{(ph_u32)counter, (ph_u32)(counter >> 32), 0, 0}};
    return ph_generate(c, k);
}
PH_FN ph_words ph_block(ph_u64 seed, ph_u64 counter) {
    ph_keys k = ph_schedule((ph_u32)seed, (ph_u32)(seed >> 32));
    return ph_block_of(&k, counter);
}
PH_FN ph_u64 ph_word64(ph_words b, int half) {
    return (ph_u64)b.w[2 * half + 1] << 32 | b.w[2 * half];
}

/* ---- a draw: n elements at `out`, made block by block, from block `counter` on ---- */

typedef struct ph_draw {
    ph_u64 items; /* vectors */
    ph_u64 out;   /* address, of 16 bytes' alignment */
    ph_u64 n;     /* elements */
    ph_u64 counter;
    ph_u64 low, range; /* integers: low + [0, range), modulo 2^64 */
    ph_keys keys;
} ph_draw;

#define PH_VECTOR 16 /* bytes */

/* ph_<name>, a vector of elements, and ph_put_<name>, which stores vector i. */
#define PH_ELEMENTS(name, type)                                                                    \
    typedef struct PH_16 ph_##name {                                                               \
        type x[PH_VECTOR / sizeof(type)];                                                          \
    } ph_##name;                                                                                   \
    PH_FN void ph_put_##name(const ph_draw *d, ph_u64 i, const ph_##name *v) {                     \
        const ph_u64 m = PH_VECTOR / sizeof(type), left = d->n - i * m;                            \
        if (left >= m) {                                                                           \
            ((ph_##name *)d->out)[i] = *v;                                                         \
            return;                                                                                \
        }                                                                                          \
        for (ph_u64 j = 0; j < m; j++) /* counted by a constant: registers have no numbers */      \
            if (j < left) ((type *)d->out)[i * m + j] = v->x[j];                                   \
    }
PH_ELEMENTS(f32, float)
PH_ELEMENTS(f64, double)
PH_ELEMENTS(i8, unsigned char)
PH_ELEMENTS(i16, unsigned short)
PH_ELEMENTS(i32, ph_u32)
PH_ELEMENTS(i64, ph_u64)

/* Uniform in [0, 1): the upper bits, scaled. */
PH_FN void ph_uniform_f32(const ph_draw *d, ph_u64 i) {
    ph_words r = ph_block_of(&d->keys, d->counter + i);
    ph_f32 out;
    for (int j = 0; j < 4; j++) out.x[j] = (float)(r.w[j] >> 8) * 0x1p-24f;
    ph_put_f32(d, i, &out);
}
PH_FN void ph_uniform_f64(const ph_draw *d, ph_u64 i) {
    ph_words r = ph_block_of(&d->keys, d->counter + i);
    ph_f64 out;
    for (int j = 0; j < 2; j++) out.x[j] = (double)(ph_word64(r, j) >> 11) * 0x1p-53;
    ph_put_f64(d, i, &out);
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
PH_FN void ph_pair_words(ph_u32 w, ph_u32 turn, float *two) {
    double x[2];
    ph_pair((w + 0.5) * 0x1p-32, turn * 0x1p-32, x);
    two[0] = (float)x[0];
    two[1] = (float)x[1];
}

/* The same in floats, within 6 ulp of it: for devices, whose units for doubles are few. The
** constants are those of the least relative error, rounded one after the other. */

/* -2 log((w + 0.5) / 2^32). A float of that number has lost what tells it from 1. So it is
** 2^-n (1 - g / 2) with g in (0, 1], made of the integer whose upper bit is set; of
** -2 log(1 - g / 2) = g + g^2 q(g) the first part is as good as exact. */
PH_FN float ph_log_words(ph_u32 w) {
    const int n = PH_CLZ(w);
    const ph_u32 m = (ph_u32)(((ph_u64)w << 32 | 0x80000000u) << n >> 32);
    const float g = PH_FMAF((float)(int)m, -0x1p-31f, -0x1p-32f);
    float q = 0x1.6a0ecap-8f;
    q = PH_FMAF(q, g, -0x1.a39864p-7f);
    q = PH_FMAF(q, g, 0x1.354f78p-6f);
    q = PH_FMAF(q, g, -0x1.722738p-8f);
    q = PH_FMAF(q, g, 0x1.0df6b6p-6f);
    q = PH_FMAF(q, g, 0x1.f313e8p-6f);
    q = PH_FMAF(q, g, 0x1.55a384p-4f);
    q = PH_FMAF(q, g, 0x1.fffecp-3f);
    return PH_FMAF(g * g, q, PH_FMAF((float)n, 0x1.62e43p+0f, g));
}

/* The point at w / 2^32 turns: the nearest quarter turn are the upper bits of w + 2^29, what is
** left the lower 30, signed. x lacks 0x1.de12cap-26 of itself, as its constant is rounded. */
PH_FN void ph_circle_words(ph_u32 w, float *cosine, float *sine) {
    const float x = (float)(int)(w << 2) * 0x1.921fb6p-32f, z = x * x;
    const ph_u32 turned = w + 0x20000000u, odd = turned & 0x40000000u;
    float s = -0x1.99517ep-13f, c = 0x1.9940b0p-16f;
    s = PH_FMAF(s, z, 0x1.11076cp-7f);
    s = PH_FMAF(s, z, -0x1.555544p-3f);
    s = PH_FMAF(PH_FMAF(s, z, -0x1.de12cap-26f), x, x);
    c = PH_FMAF(c, z, -0x1.6c08f8p-10f);
    c = PH_FMAF(c, z, 0x1.55553ep-5f);
    c = PH_FMAF(c, z, -0x1.fffffep-2f);
    c = PH_FMAF(c, z, 1.0f);
    *cosine = PH_FLOAT(PH_BITSF(odd ? s : c) ^ ((turned + 0x40000000u) & 0x80000000u));
    *sine = PH_FLOAT(PH_BITSF(odd ? c : s) ^ (turned & 0x80000000u));
}

/* A reciprocal square root that may err by an ulp or two, and the square root that is made of it:
** to nearest for numbers that are neither small nor large, as the device's own goes on once it has
** found out that they are so. */
#ifdef __CUDA_ARCH__
PH_FN float ph_rsqrt(float x) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
#else
PH_FN float ph_rsqrt(float x) { return (float)(1 / PH_SQRT((double)x)); }
#endif
PH_FN float ph_root(float x) {
    const float r = ph_rsqrt(x), root = x * r;
    return PH_FMAF(PH_FMAF(-root, root, x), 0.5f * r, root);
}

PH_FN void ph_pair_floats(ph_u32 w, ph_u32 turn, float *two) {
    float cosine, sine, r = ph_root(ph_log_words(w));
    ph_circle_words(turn, &cosine, &sine);
    two[0] = r * cosine;
    two[1] = r * sine;
}

PH_FN void ph_normal_f32(const ph_draw *d, ph_u64 i) {
    ph_words r = ph_block_of(&d->keys, d->counter + i);
    ph_f32 out;
    PH_PAIR_F32(r.w[0], r.w[1], out.x);
    PH_PAIR_F32(r.w[2], r.w[3], out.x + 2);
    ph_put_f32(d, i, &out);
}
PH_FN void ph_normal_f64(const ph_draw *d, ph_u64 i) {
    ph_words r = ph_block_of(&d->keys, d->counter + i);
    ph_f64 out;
    ph_pair((double)((ph_word64(r, 0) >> 11) + 1) * 0x1p-53,
            (double)(ph_word64(r, 1) >> 11) * 0x1p-53, out.x);
    ph_put_f64(d, i, &out);
}
PH_KERNEL(philox_normal_f32, ph_draw, ph_normal_f32)
PH_KERNEL(philox_normal_f64, ph_draw, ph_normal_f64)

/* ---- integers: a random fraction times the range ---- */

/* Ranges up to 2^32: 64 bits an element, two elements a block. What is above 64 bits of a product
** of 64 and 33 bits. */
PH_FN ph_u64 ph_scaled(ph_u32 low, ph_u32 high, ph_u64 range) {
    return (high * range + (low * range >> 32)) >> 32;
}
#define PH_INTEGERS(name, type)                                                                    \
    PH_FN void ph_integers_##name(const ph_draw *d, ph_u64 i) {                                    \
        ph_##name out;                                                                             \
        const int blocks = PH_VECTOR / sizeof(type) / 2;                                           \
        for (int b = 0; b < blocks; b++) {                                                         \
            ph_words r = ph_block_of(&d->keys, d->counter + i * blocks + b);                       \
            out.x[2 * b] = (type)(d->low + ph_scaled(r.w[0], r.w[1], d->range));                   \
            out.x[2 * b + 1] = (type)(d->low + ph_scaled(r.w[2], r.w[3], d->range));               \
        }                                                                                          \
        ph_put_##name(d, i, &out);                                                                 \
    }                                                                                              \
    PH_KERNEL(philox_integers_##name, ph_draw, ph_integers_##name)
PH_INTEGERS(i8, unsigned char)
PH_INTEGERS(i16, unsigned short)
PH_INTEGERS(i32, ph_u32)
PH_INTEGERS(i64, ph_u64)

/* Larger ones, of 64 bits: the upper 64 bits of a product of 128 and 64, a block each. */
PH_FN ph_u64 ph_wide(const ph_draw *d, ph_u64 b) {
    ph_words r = ph_block_of(&d->keys, d->counter + b);
    ph_u64 high = ph_word64(r, 1), middle = high * d->range,
           sum = middle + PH_MULHI(ph_word64(r, 0), d->range);
    return d->low + PH_MULHI(high, d->range) + (sum < middle);
}
PH_FN void ph_integers_wide(const ph_draw *d, ph_u64 i) {
    ph_i64 out = {{ph_wide(d, 2 * i), ph_wide(d, 2 * i + 1)}};
    ph_put_i64(d, i, &out);
}
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
