/* philox_host.c: the host's kernels of random numbers: blocks side by side, in vectors. Compiled
** once for each instruction set, with PH_SET its name.
**
** What must stay true: each number is what philox.h makes of its block, to the last bit. */
#include "arrays/make/philox_host.h"

enum { LANES = 16 }; /* blocks side by side */

typedef struct lanes {
    ph_u64 w[2][LANES]; /* the two halves of each block */
} lanes;

/* Of v < 2^53, by its halves, since processors have no vectors of such conversions. */
static inline double exact(ph_u64 v) {
    return (PH_DOUBLE(0x4530000000000000ull | v >> 32) - 0x1p84) +
           (PH_DOUBLE(0x4330000000000000ull | (v & 0xffffffffull)) - 0x1p52);
}

static inline lanes generate(const ph_draw *d, ph_u64 b) {
    lanes l;
    for (int k = 0; k < LANES; k++) {
        const ph_words r = ph_block_of(&d->keys, d->counter + b + (ph_u64)k);
        l.w[0][k] = ph_word64(r, 0);
        l.w[1][k] = ph_word64(r, 1);
    }
    return l;
}

/* ---- LANES blocks, all of whose elements there are ---- */

static void uniform_f32(const ph_draw *d, ph_u64 b) {
    const lanes l = generate(d, b);
    float *out = (float *)d->out + 4 * b;
    for (int k = 0; k < LANES; k++)
        for (int i = 0; i < 4; i++)
            out[4 * k + i] = (float)(int)((ph_u32)(l.w[i / 2][k] >> i % 2 * 32) >> 8) * 0x1p-24f;
}

static void uniform_f64(const ph_draw *d, ph_u64 b) {
    const lanes l = generate(d, b);
    double *out = (double *)d->out + 2 * b;
    for (int k = 0; k < LANES; k++)
        for (int i = 0; i < 2; i++) out[2 * k + i] = exact(l.w[i][k] >> 11) * 0x1p-53;
}

/* The pair of normals of u and v in each lane. */
static inline void pairs(const double *u, const double *v, double *one, double *other) {
    double r[LANES], cosine[LANES], sine[LANES];
    for (int k = 0; k < LANES; k++) r[k] = PH_SQRT(-2 * ph_log(u[k]));
    for (int k = 0; k < LANES; k++) ph_circle(v[k], &cosine[k], &sine[k]);
    for (int k = 0; k < LANES; k++) one[k] = r[k] * cosine[k], other[k] = r[k] * sine[k];
}

static void normal_f32(const ph_draw *d, ph_u64 b) {
    const lanes l = generate(d, b);
    float *out = (float *)d->out + 4 * b;
    for (int i = 0; i < 2; i++) {
        double u[LANES], v[LANES], one[LANES], other[LANES];
        for (int k = 0; k < LANES; k++) {
            u[k] = (exact(l.w[i][k] & 0xffffffffull) + 0.5) * 0x1p-32;
            v[k] = exact(l.w[i][k] >> 32) * 0x1p-32;
        }
        pairs(u, v, one, other);
        for (int k = 0; k < LANES; k++) {
            out[4 * k + 2 * i] = (float)one[k];
            out[4 * k + 2 * i + 1] = (float)other[k];
        }
    }
}

static void normal_f64(const ph_draw *d, ph_u64 b) {
    const lanes l = generate(d, b);
    double *out = (double *)d->out + 2 * b;
    double u[LANES], v[LANES], one[LANES], other[LANES];
    for (int k = 0; k < LANES; k++) {
        u[k] = exact((l.w[0][k] >> 11) + 1) * 0x1p-53;
        v[k] = exact(l.w[1][k] >> 11) * 0x1p-53;
    }
    pairs(u, v, one, other);
    for (int k = 0; k < LANES; k++) out[2 * k] = one[k], out[2 * k + 1] = other[k];
}

/* The upper half of w * range, by halves of w: range is at most 2^32. */
static inline ph_u64 fraction_of(ph_u64 w, ph_u64 range) {
    return ((w >> 32) * range + ((w & 0xffffffffull) * range >> 32)) >> 32;
}

#define INTEGERS(name, type)                                                                       \
    static void integers_##name(const ph_draw *d, ph_u64 b) {                                      \
        const lanes l = generate(d, b);                                                            \
        const ph_u64 range = d->range;                                                             \
        type *out = (type *)d->out + 2 * b;                                                        \
        for (int k = 0; k < LANES; k++)                                                            \
            for (int i = 0; i < 2; i++)                                                            \
                out[2 * k + i] = (type)(d->low + fraction_of(l.w[i][k], range));                   \
    }
INTEGERS(i8, unsigned char)
INTEGERS(i16, unsigned short)
INTEGERS(i32, ph_u32)
INTEGERS(i64, ph_u64)

/* ---- the kernels ---- The last vector may have fewer elements than the others: so the last ones
** go one by one. */

#define KERNEL(name, blocks) /* of a vector */                                                     \
    static void name##_items(const void *params, size_t first, size_t end) {                       \
        const ph_draw *d = params;                                                                 \
        ph_u64 i = first, last = end < d->items ? end : d->items - 1;                              \
        for (; i + LANES / blocks <= last; i += LANES / blocks) name(d, i *blocks);                \
        for (; i < end; i++) ph_##name(d, i);                                                      \
    }                                                                                              \
    static void name##_all(const void *params) {                                                   \
        tidei_share_items(((const ph_draw *)params)->items, TIDEI_SHARE_GRAIN, name##_items,       \
                          params);                                                                 \
    }
KERNEL(uniform_f32, 1)
KERNEL(uniform_f64, 1)
KERNEL(normal_f32, 1)
KERNEL(normal_f64, 1)
KERNEL(integers_i8, 8)
KERNEL(integers_i16, 4)
KERNEL(integers_i32, 2)
KERNEL(integers_i64, 1)

#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
const tidei_philox_host PASTE(tidei_philox_host, PH_SET) = {
    .uniform_f32 = uniform_f32_all,
    .uniform_f64 = uniform_f64_all,
    .normal_f32 = normal_f32_all,
    .normal_f64 = normal_f64_all,
    .integers_i8 = integers_i8_all,
    .integers_i16 = integers_i16_all,
    .integers_i32 = integers_i32_all,
    .integers_i64 = integers_i64_all,
};
