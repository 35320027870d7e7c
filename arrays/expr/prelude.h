/* prelude.h: the functions that ops.def builds on, and the casts: one text for both back ends.
**
** The host's interpreter includes this file as C; the build also embeds it as a string
** (tidei_prelude_text), which goes before the generated CUDA text. So it is written in the common
** subset of C17 and CUDA C++, includes nothing, and what differs is confined to the first block.
** With NVRTC functions are overloaded (td_rem), in C they end in the type's name (td_rem_f32).
** Complex functions are there where TD_COMPLEX is defined. functions.h goes on.
**
** Element types have a storage type, td_<name>, and a value type, in which expressions compute: the
** same but for f16 and bf16, which are 16 bits in memory and a float that the type represents as a
** value. */
#ifndef TIDEI_PRELUDE_H
#define TIDEI_PRELUDE_H

#ifdef __CUDACC_RTC__
#pragma nv_diag_suppress 177 /* functions that a text does not use */
typedef signed char td_i8;
typedef short td_i16;
typedef int td_i32;
typedef long long td_i64;
typedef unsigned char td_u8;
typedef unsigned short td_u16;
typedef unsigned td_u32;
typedef unsigned long long td_u64;
#define TD_FN               static __device__ __forceinline__
#define TD_NAME(f, S)       td_##f
#define TD_MATH_f32(f)      f
#define TD_MATH_f64(f)      f
#define td_bits_f32(x)      __float_as_uint(x)
#define td_bits_f64(x)      ((td_u64)__double_as_longlong(x))
#define td_from_bits_f32(x) __uint_as_float(x)
#define td_from_bits_f64(x) __longlong_as_double((td_i64)(x))
#define G(f)                td_##f
#define td_lgamma(x)        lgamma(x)
#define td_erfinv(x)        erfinv(x) /* these two: functions.h has the host's */
#define td_norm_ppf(x)      normcdfinv(x)
#define td_fused(a, b, c)   fma(a, b, c) /* a*b + c, where the bits are not promised */
#define F(f)                td_##f
#define M(f)                f
#define td_apart_f32(x)     (x)
#define td_apart_f64(x)     (x)
#define td_modulus_f32      hypot
#define td_modulus_f64      hypot
#else
typedef int8_t td_i8;
typedef int16_t td_i16;
typedef int32_t td_i32;
typedef int64_t td_i64;
typedef uint8_t td_u8;
typedef uint16_t td_u16;
typedef uint32_t td_u32;
typedef uint64_t td_u64;
#define TD_FN             static inline
#define TD_NAME(f, S)     td_##f##_##S
#define TD_MATH_f32(g)    g##f
#define TD_MATH_f64(g)    g
#define td_fused(a, b, c) ((a) * (b) + (c))
static inline td_u32 td_bits_f32(float x) {
    union {
        float f;
        td_u32 u;
    } v = {x};
    return v.u;
}
static inline td_u64 td_bits_f64(double x) {
    union {
        double f;
        td_u64 u;
    } v = {x};
    return v.u;
}
static inline float td_from_bits_f32(td_u32 x) {
    union {
        td_u32 u;
        float f;
    } v = {x};
    return v.f;
}
static inline double td_from_bits_f64(td_u64 x) {
    union {
        td_u64 u;
        double f;
    } v = {x};
    return v.f;
}
/* lgamma writes to a global variable. */
static inline float td_lgamma_f32(float x) {
    int sign;
    return lgammaf_r(x, &sign);
}
static inline double td_lgamma_f64(double x) {
    int sign;
    return lgamma_r(x, &sign);
}
/* hypot(x, y), which takes as long as ten square roots: within 2 ulp from its square, where that is
** far from overflow and underflow. */
static inline float td_modulus_f32(float x, float y) {
    double n = (double)x * x + (double)y * y;
    return n < 0x1p250 ? (float)__builtin_sqrt(n) : hypotf(x, y);
}
static inline double td_modulus_f64(double x, double y) {
    double n = x * x + y * y;
    return n > 0x1p-960 && n < 0x1p1000 ? __builtin_sqrt(n) : hypot(x, y);
}
/* A product that is rounded by itself. GCC 12 takes alternating sums and differences of products,
** as complex numbers have them, for its fmaddsub pattern even under -ffp-contract=off, where the
** processor has it. */
#if defined(__FMA__) || defined(__AVX512F__)
#define TD_FUSES
#endif
static inline float td_apart_f32(float x) {
#ifdef TD_FUSES
    __asm__("" : "+x"(x));
#endif
    return x;
}
static inline double td_apart_f64(double x) {
#ifdef TD_FUSES
    __asm__("" : "+x"(x));
#endif
    return x;
}
#endif

typedef unsigned char td_bool;
typedef unsigned short td_f16;
typedef unsigned short td_bf16;
typedef float td_f32;
typedef double td_f64;

/* ---- integers ---- Nothing traps: x/0 is 0, min/-1 is min; arithmetic wraps. TB: bits of T. */
#define TD_INTEGER(T, U, S, TB)                                                                    \
    TD_FN T TD_NAME(shl, S)(T a, T b) { return (td_u64)b < TB ? (T)((U)a << b) : (T)0; }           \
    TD_FN T TD_NAME(clip, S)(T a, T lo, T hi) {                                                    \
        T x = a > lo ? a : lo;                                                                     \
        return x < hi ? x : hi;                                                                    \
    }                                                                                              \
    /* sums of neighbouring bits: in pairs, fours, bytes, then all bytes */                        \
    TD_FN T TD_NAME(popcount, S)(T a) {                                                            \
        const U ones = (U)-1;                                                                      \
        U x = (U)a & ones >> (sizeof(U) * 8 - TB);                                                 \
        x -= x >> 1 & ones / 3;                                                                    \
        x = (x & ones / 5) + (x >> 2 & ones / 5);                                                  \
        x = (x + (x >> 4)) & ones / 17;                                                            \
        return (T)(x * (ones / 255) >> (sizeof(U) * 8 - 8));                                       \
    }
#define TD_SIGNED(T, U, S, TB)                                                                     \
    TD_INTEGER(T, U, S, TB)                                                                        \
    TD_FN T TD_NAME(shr, S)(T a, T b) {                                                            \
        return b < 0 ? (T)0 : b < TB ? (T)(a >> b) : a < 0 ? (T)-1 : (T)0;                         \
    }                                                                                              \
    TD_FN T TD_NAME(truncdiv, S)(T a, T b) {                                                       \
        return b == 0 ? (T)0 : b == -1 ? (T)(0 - (U)a) : (T)(a / b);                               \
    }                                                                                              \
    TD_FN T TD_NAME(fmod, S)(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); }           \
    TD_FN T TD_NAME(floordiv, S)(T a, T b) {                                                       \
        if (b == 0) return 0;                                                                      \
        if (b == -1) return (T)(0 - (U)a);                                                         \
        return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));                                    \
    }                                                                                              \
    TD_FN T TD_NAME(rem, S)(T a, T b) {                                                            \
        T r = b == 0 || b == -1 ? (T)0 : (T)(a % b);                                               \
        return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                      \
    }                                                                                              \
    TD_FN T TD_NAME(pow, S)(T a, T b) {                                                            \
        U x = (U)a, p = 1;                                                                         \
        if (b < 0) return 0;                                                                       \
        for (U n = (U)b; n; n >>= 1, x *= x)                                                       \
            if (n & 1) p *= x;                                                                     \
        return (T)p;                                                                               \
    }                                                                                              \
    TD_FN T TD_NAME(abs, S)(T a) { return a < 0 ? (T)(0 - (U)a) : a; }                             \
    TD_FN T TD_NAME(gcd, S)(T a, T b) {                                                            \
        U x = a < 0 ? 0 - (U)a : (U)a, y = b < 0 ? 0 - (U)b : (U)b, z;                             \
        while (y) z = x % y, x = y, y = z;                                                         \
        return (T)x;                                                                               \
    }                                                                                              \
    TD_FN T TD_NAME(sign, S)(T a) { return (T)((a > 0) - (a < 0)); }
#define TD_UNSIGNED(T, U, S, TB)                                                                   \
    TD_INTEGER(T, U, S, TB)                                                                        \
    TD_FN T TD_NAME(shr, S)(T a, T b) { return b < TB ? (T)(a >> b) : (T)0; }                      \
    TD_FN T TD_NAME(truncdiv, S)(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }                  \
    TD_FN T TD_NAME(fmod, S)(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }                      \
    TD_FN T TD_NAME(floordiv, S)(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }                  \
    TD_FN T TD_NAME(rem, S)(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }                       \
    TD_FN T TD_NAME(pow, S)(T a, T b) {                                                            \
        U x = (U)a, p = 1;                                                                         \
        for (U n = (U)b; n; n >>= 1, x *= x)                                                       \
            if (n & 1) p *= x;                                                                     \
        return (T)p;                                                                               \
    }                                                                                              \
    TD_FN T TD_NAME(abs, S)(T a) { return a; }                                                     \
    TD_FN T TD_NAME(gcd, S)(T a, T b) {                                                            \
        T z;                                                                                       \
        while (b) z = (T)(a % b), a = b, b = z;                                                    \
        return a;                                                                                  \
    }                                                                                              \
    TD_FN T TD_NAME(sign, S)(T a) { return (T)(a != 0); }
TD_SIGNED(td_i8, td_u32, i8, 8)
TD_SIGNED(td_i16, td_u32, i16, 16)
TD_SIGNED(td_i32, td_u32, i32, 32)
TD_SIGNED(td_i64, td_u64, i64, 64)
TD_UNSIGNED(td_u8, td_u32, u8, 8)
TD_UNSIGNED(td_u16, td_u32, u16, 16)
TD_UNSIGNED(td_u32, td_u32, u32, 32)
TD_UNSIGNED(td_u64, td_u64, u64, 64)

/* ---- floats ---- */
#define TD_FLOAT(T, S, TOP)                                                                        \
    TD_FN T TD_NAME(rem, S)(T a, T b) {                                                            \
        T r = TD_MATH_##S(fmod)(a, b);                                                             \
        if (r == 0) return TD_MATH_##S(copysign)((T)0, b);                                         \
        return (r < 0) != (b < 0) ? r + b : r;                                                     \
    }                                                                                              \
    TD_FN T TD_NAME(sign, S)(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a == 0 ? (T)0 : a; }     \
    TD_FN td_bool TD_NAME(isinf, S)(T a) { return a == a && a - a != 0; }                          \
    TD_FN td_bool TD_NAME(signbit, S)(T a) { return (td_bool)(td_bits_##S(a) >> TOP); }            \
    TD_FN T TD_NAME(clip, S)(T a, T lo, T hi) {                                                    \
        T x = a > lo ? a : lo, y = x < hi ? x : hi;                                                \
        return a != a ? a : lo != lo ? lo : y;                                                     \
    }
TD_FLOAT(td_f32, f32, 31)
TD_FLOAT(td_f64, f64, 63)

/* By bits. B: the unsigned type as wide; DIGITS: the fraction's; BIAS: the exponent's of numbers in
** [0.5, 1); LEAST: the least normal number. */
#define TD_FLOAT_BITS(T, S, B, DIGITS, BIAS, LEAST)                                                \
    TD_FN T TD_NAME(nextafter, S)(T a, T b) {                                                      \
        B x = td_bits_##S(a), sign = td_bits_##S(b) & (B)1 << (sizeof(B) * 8 - 1);                 \
        if (a != a || b != b) return a + b;                                                        \
        if (a == b) return b;                                                                      \
        return td_from_bits_##S(a == 0 ? sign | 1 : (a < b) == (a > 0) ? x + 1 : x - 1);           \
    }                                                                                              \
    TD_FN T TD_NAME(ldexp, S)(T a, T b) { return TD_MATH_##S(ldexp)(a, td_sat_##S##_i32(b)); }     \
    /* of any finite number but 0: normal, by 2^64 for those that are not */                       \
    TD_FN td_bool TD_NAME(small, S)(T a) { return a < LEAST && a > -LEAST; }                       \
    TD_FN B TD_NAME(normal, S)(T a) {                                                              \
        return td_bits_##S(TD_NAME(small, S)(a) ? a * (T)0x1p64 : a);                              \
    }                                                                                              \
    TD_FN T TD_NAME(mantissa, S)(T a) {                                                            \
        const B exponent = (2 * (B)BIAS + 3) << DIGITS;                                            \
        B x = TD_NAME(normal, S)(a);                                                               \
        return a == 0 || a - a != 0 ? a : td_from_bits_##S((x & ~exponent) | (B)BIAS << DIGITS);   \
    }                                                                                              \
    TD_FN td_i32 TD_NAME(exponent, S)(T a) {                                                       \
        B x = TD_NAME(normal, S)(a) << 1 >> (DIGITS + 1);                                          \
        if (a == 0 || a - a != 0) return 0;                                                        \
        return (td_i32)x - BIAS - (TD_NAME(small, S)(a) ? 64 : 0);                                 \
    }

/* f16 and bf16: 16 bits <-> float, to nearest even. A GPU has instructions that do it for all but
** NaN, whose sign and payload they drop. */
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
#define TD_CONVERTS
TD_FN td_f16 td_to_f16(td_f32 f) {
    td_f16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
TD_FN td_f32 td_of_f16(td_f16 h) {
    td_f32 f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
/* bf16 by twos, of which one is 0: by ones it takes a unit that converts much less at a time. */
TD_FN td_bf16 td_to_bf16(td_f32 f) {
    td_u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f));
    return (td_bf16)both;
}
/* Of a float that bf16 represents. */
TD_FN td_bf16 td_cut_bf16(td_f32 f) {
    td_bf16 h;
    asm("{\n.reg .b16 low;\nmov.b32 {low, %0}, %1;\n}" : "=h"(h) : "f"(f));
    return h;
}
TD_FN td_f32 td_near_bf16(td_f32 f) {
    td_u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(f), "f"(0.0f));
    return td_from_bits_f32(both);
}
#endif
TD_FN td_f32 td_load_f16(td_f16 h) {
    td_u32 x = (td_u32)(h & 0x7fff) << 13, sign = (td_u32)(h & 0x8000) << 16;
    /* moves the exponent's bias, of denormals too */
    td_u32 finite = td_bits_f32(td_from_bits_f32(x) * 0x1p112f);
    return td_from_bits_f32(sign | (x >= 0x0f800000u ? x | 0x7f800000u : finite));
}
TD_FN td_f16 td_store_f16(td_f32 f) {
    td_u32 x = td_bits_f32(f), a = x & 0x7fffffffu;
    td_u32 normal = (a + 0xfffu + (a >> 13 & 1) - (112u << 23)) >> 13;
    /* 0.5's last place is f16's smallest number */
    td_u32 tiny = td_bits_f32(td_from_bits_f32(a) + 0.5f) - 0x3f000000u;
    td_u32 nan = 0x7e00u | (a >> 13 & 0x3ffu);
#ifdef TD_CONVERTS
    return (td_f16)(f != f ? (x >> 16 & 0x8000u) | nan : td_to_f16(f));
#endif
    td_u32 r = a > 0x7f800000u ? nan : a >= 0x477ff000u ? 0x7c00u : a < 0x38800000u ? tiny : normal;
    return (td_f16)((x >> 16 & 0x8000u) | r);
}
TD_FN td_f32 td_load_bf16(td_bf16 h) { return td_from_bits_f32((td_u32)h << 16); }
TD_FN td_bf16 td_store_bf16(td_f32 f) {
    td_u32 x = td_bits_f32(f);
#ifdef TD_CONVERTS
    return (td_bf16)(f != f ? x >> 16 | 0x40u : td_to_bf16(f));
#endif
    return (td_bf16)(f != f ? x >> 16 | 0x40u : (x + 0x7fffu + (x >> 16 & 1)) >> 16);
}
/* The value of the element type that is nearest to f: what ends every operation on f16 and bf16. */
#ifdef TD_CONVERTS
TD_FN td_f32 td_round_f16(td_f32 f) { return f != f ? f : td_of_f16(td_to_f16(f)); }
TD_FN td_f32 td_round_bf16(td_f32 f) { return f != f ? f : td_near_bf16(f); }
#else
TD_FN td_f32 td_round_f16(td_f32 f) { return td_load_f16(td_store_f16(f)); }
TD_FN td_f32 td_round_bf16(td_f32 f) { return td_load_bf16(td_store_bf16(f)); }
#endif

/* ---- casts: TD_CAST(from, to, a) ---- The rule of tide_cast, from the value type of `from` to
** that of `to`. */

/* Float to integer: towards zero, saturating, NaN is 0. LO and HI: min and max + 1 as floats. */
#define TD_SAT(to, MIN, MAX, LO, HI)                                                               \
    TD_FN td_##to td_sat_f32_##to(td_f32 a) {                                                      \
        return a >= HI##f ? (td_##to)MAX : a > LO##f ? (td_##to)a : a == a ? (td_##to)MIN : 0;     \
    }                                                                                              \
    TD_FN td_##to td_sat_f64_##to(td_f64 a) {                                                      \
        return a >= HI ? (td_##to)MAX : a > LO ? (td_##to)a : a == a ? (td_##to)MIN : (td_##to)0;  \
    }
TD_SAT(i8, -0x80, 0x7f, -0x1p7, 0x1p7)
TD_SAT(i16, -0x8000, 0x7fff, -0x1p15, 0x1p15)
TD_SAT(i32, (-0x7fffffff - 1), 0x7fffffff, -0x1p31, 0x1p31)
TD_SAT(i64, (-0x7fffffffffffffffll - 1), 0x7fffffffffffffffll, -0x1p63, 0x1p63)
TD_SAT(u8, 0, 0xff, 0x0p0, 0x1p8)
TD_SAT(u16, 0, 0xffff, 0x0p0, 0x1p16)
TD_SAT(u32, 0, 0xffffffffu, 0x0p0, 0x1p32)
TD_SAT(u64, 0, 0xffffffffffffffffull, 0x0p0, 0x1p64)

TD_FLOAT_BITS(td_f32, f32, td_u32, 23, 126, 0x1p-126f)
TD_FLOAT_BITS(td_f64, f64, td_u64, 52, 1022, 0x1p-1022)
/* f16 and bf16 compute in f32, but next to a number is another number of the type itself. */
#define TD_NEXT(S)                                                                                 \
    TD_FN td_f32 td_nextafter_##S(td_f32 a, td_f32 b) {                                            \
        td_##S x = td_store_##S(a);                                                                \
        if (a != a || b != b) return a + b;                                                        \
        if (a == b) return b;                                                                      \
        if (a == 0)                                                                                \
            x = (td_##S)(b < 0 ? 0x8001 : 1);                                                      \
        else                                                                                       \
            x = (td_##S)((a < b) == (a > 0) ? x + 1 : x - 1);                                      \
        return td_load_##S(x);                                                                     \
    }
TD_NEXT(f16)
TD_NEXT(bf16)

/* To a narrower type "to odd": cut off, with the last bit set if anything was lost. A further
** rounding to a type at least two bits narrower then gives what one rounding would. */
TD_FN td_f32 td_odd_f64(td_f64 d) {
    td_f32 f = (td_f32)d;
    td_u32 x = td_bits_f32(f);
    if (d != d) return f;
    if ((f < 0 ? -(td_f64)f : (td_f64)f) > (d < 0 ? -d : d)) x -= 1;
    return td_from_bits_f32((td_f64)f == d ? x : x | 1u);
}
TD_FN td_f64 td_odd_u64(td_u64 v) {
    return (td_f64)(v >> 53 ? (v & ~(td_u64)0x7ff) | ((v & 0x7ff) ? (td_u64)0x800 : (td_u64)0) : v);
}
TD_FN td_f64 td_odd_i64(td_i64 v) {
    return v < 0 ? -td_odd_u64(0 - (td_u64)v) : td_odd_u64((td_u64)v);
}

#ifdef TD_COMPLEX
typedef struct td_c64 {
    td_f32 re, im;
} td_c64;
typedef struct td_c128 {
    td_f64 re, im;
} td_c128;
/* S: the complex type's name, R: its parts', RS: theirs. BIG: from there on the sum of two parts
** could overflow. */
#define TD_COMPLEX_TYPE(T, S, R, RS, BIG)                                                          \
    TD_FN T td_make_##S(R re, R im) {                                                              \
        T z;                                                                                       \
        z.re = re;                                                                                 \
        z.im = im;                                                                                 \
        return z;                                                                                  \
    }                                                                                              \
    TD_FN T TD_NAME(add, S)(T a, T b) { return td_make_##S(a.re + b.re, a.im + b.im); }            \
    TD_FN T TD_NAME(sub, S)(T a, T b) { return td_make_##S(a.re - b.re, a.im - b.im); }            \
    TD_FN T TD_NAME(mul, S)(T a, T b) {                                                            \
        return td_make_##S(td_apart_##RS(a.re * b.re) - td_apart_##RS(a.im * b.im),                \
                           td_apart_##RS(a.re * b.im) + td_apart_##RS(a.im * b.re));               \
    }                                                                                              \
    /* Smith's, over parts scaled so that no sum overflows: only the result may. By 0: each. */    \
    TD_FN R td_scale_##S(T a) {                                                                    \
        return TD_MATH_##RS(fabs)(a.re) >= BIG || TD_MATH_##RS(fabs)(a.im) >= BIG ? (R)0.25        \
                                                                                  : (R)1;          \
    }                                                                                              \
    TD_FN T td_times_##S(T a, R by) { return td_make_##S(a.re * by, a.im * by); }                  \
    TD_FN T td_smith_##S(T a, T b) {                                                               \
        R q, d;                                                                                    \
        if (TD_MATH_##RS(fabs)(b.re) >= TD_MATH_##RS(fabs)(b.im)) {                                \
            q = b.im / b.re;                                                                       \
            d = b.re + b.im * q;                                                                   \
            return td_make_##S((a.re + td_apart_##RS(a.im * q)) / d,                               \
                               (a.im - td_apart_##RS(a.re * q)) / d);                              \
        }                                                                                          \
        q = b.re / b.im;                                                                           \
        d = b.re * q + b.im;                                                                       \
        return td_make_##S((td_apart_##RS(a.re * q) + a.im) / d,                                   \
                           (td_apart_##RS(a.im * q) - a.re) / d);                                  \
    }                                                                                              \
    TD_FN T TD_NAME(div, S)(T a, T b) {                                                            \
        R above = td_scale_##S(a), below = td_scale_##S(b);                                        \
        if (b.re == 0 && b.im == 0) return td_make_##S(a.re / b.re, a.im / b.re);                  \
        if (below < above) above = below;                                                          \
        return td_times_##S(td_smith_##S(td_times_##S(a, above), td_times_##S(b, below)),          \
                            below / above);                                                        \
    }                                                                                              \
    TD_FN T TD_NAME(reciprocal, S)(T a) { return TD_NAME(div, S)(td_make_##S(1, 0), a); }          \
    TD_FN T TD_NAME(neg, S)(T a) { return td_make_##S(-a.re, -a.im); }                             \
    TD_FN R TD_NAME(abs, S)(T a) { return td_modulus_##RS(a.re, a.im); }                           \
    TD_FN R TD_NAME(angle, S)(T a) { return TD_MATH_##RS(atan2)(a.im, a.re); }                     \
    TD_FN T TD_NAME(complex, RS)(R re, R im) { return td_make_##S(re, im); }                       \
    TD_FN T TD_NAME(conj, S)(T a) { return td_make_##S(a.re, -a.im); }                             \
    TD_FN T TD_NAME(round, S)(T a) {                                                               \
        return td_make_##S(TD_MATH_##RS(rint)(a.re), TD_MATH_##RS(rint)(a.im));                    \
    }                                                                                              \
    TD_FN T TD_NAME(sign, S)(T a) {                                                                \
        T z = td_times_##S(a, td_scale_##S(a));                                                    \
        R r = TD_NAME(abs, S)(z);                                                                  \
        return r == 0 ? td_make_##S(0, 0) : td_make_##S(z.re / r, z.im / r);                       \
    }                                                                                              \
    TD_FN td_bool TD_NAME(eq, S)(T a, T b) { return a.re == b.re && a.im == b.im; }                \
    TD_FN td_bool TD_NAME(isnan, S)(T a) { return a.re != a.re || a.im != a.im; }                  \
    TD_FN td_bool TD_NAME(isinf, S)(T a) {                                                         \
        return TD_NAME(isinf, RS)(a.re) || TD_NAME(isinf, RS)(a.im);                               \
    }                                                                                              \
    TD_FN td_bool TD_NAME(isfinite, S)(T a) { return a.re - a.re == 0 && a.im - a.im == 0; }       \
    TD_FN td_bool td_true_##S(T a) { return a.re != 0 || a.im != 0; }
TD_COMPLEX_TYPE(td_c64, c64, td_f32, f32, 0x1p126f)
TD_COMPLEX_TYPE(td_c128, c128, td_f64, f64, 0x1p1022)
TD_FN td_c128 td_widen_c64(td_c64 a) { return td_make_c128(a.re, a.im); }
TD_FN td_c64 td_narrow_c128(td_c128 a) { return td_make_c64((td_f32)a.re, (td_f32)a.im); }
#endif

/* Kinds of casts' sides. B bool, I integers to 32 bits, L i64, V u64, H f16, G bf16, F f32, D f64,
** C c64, Z c128. */
#define TD_KIND_bool kB
#define TD_KIND_i8   kI
#define TD_KIND_i16  kI
#define TD_KIND_i32  kI
#define TD_KIND_i64  kL
#define TD_KIND_u8   kI
#define TD_KIND_u16  kI
#define TD_KIND_u32  kI
#define TD_KIND_u64  kV
#define TD_KIND_f16  kH
#define TD_KIND_bf16 kG
#define TD_KIND_f32  kF
#define TD_KIND_f64  kD
#define TD_KIND_c64  kC
#define TD_KIND_c128 kZ

#define TD_CAST(from, to, a)     TD_CAST_1(TD_KIND_##from, TD_KIND_##to, to, a)
#define TD_CAST_1(kf, kt, to, a) TD_CAST_2(kf, kt, to, a)
#define TD_CAST_2(kf, kt, to, a) TD_CAST_TO_##kt(kf, to, a)
#define TD_CAST_TO_kB(kf, to, a) TD_CAST_##kf##_B(a)
#define TD_CAST_TO_kI(kf, to, a) TD_CAST_##kf##_INT(to, a)
#define TD_CAST_TO_kL(kf, to, a) TD_CAST_##kf##_INT(to, a)
#define TD_CAST_TO_kV(kf, to, a) TD_CAST_##kf##_INT(to, a)
#define TD_CAST_TO_kH(kf, to, a) td_round_f16(TD_CAST_##kf##_ODD(a))
#define TD_CAST_TO_kG(kf, to, a) td_round_bf16(TD_CAST_##kf##_ODD(a))
#define TD_CAST_TO_kF(kf, to, a) ((td_f32)(a))
#define TD_CAST_TO_kD(kf, to, a) ((td_f64)(a))
#define TD_CAST_TO_kC(kf, to, a) TD_CAST_##kf##_C(a)
#define TD_CAST_TO_kZ(kf, to, a) TD_CAST_##kf##_Z(a)

#define TD_CAST_kB_B(a) ((td_bool)(a))
#define TD_CAST_kI_B(a) ((td_bool)((a) != 0))
#define TD_CAST_kL_B(a) ((td_bool)((a) != 0))
#define TD_CAST_kV_B(a) ((td_bool)((a) != 0))
#define TD_CAST_kH_B(a) ((td_bool)((a) != 0))
#define TD_CAST_kG_B(a) ((td_bool)((a) != 0))
#define TD_CAST_kF_B(a) ((td_bool)((a) != 0))
#define TD_CAST_kD_B(a) ((td_bool)((a) != 0))
#define TD_CAST_kC_B(a) td_true_c64(a)
#define TD_CAST_kZ_B(a) td_true_c128(a)

#define TD_CAST_kB_INT(to, a) ((td_##to)(a))
#define TD_CAST_kI_INT(to, a) ((td_##to)(a))
#define TD_CAST_kL_INT(to, a) ((td_##to)(a))
#define TD_CAST_kV_INT(to, a) ((td_##to)(a))
#define TD_CAST_kH_INT(to, a) td_sat_f32_##to(a)
#define TD_CAST_kG_INT(to, a) td_sat_f32_##to(a)
#define TD_CAST_kF_INT(to, a) td_sat_f32_##to(a)
#define TD_CAST_kD_INT(to, a) td_sat_f64_##to(a)

#define TD_CAST_kB_ODD(a) ((td_f32)(a))
#define TD_CAST_kI_ODD(a) td_odd_f64((td_f64)(a))
#define TD_CAST_kL_ODD(a) td_odd_f64(td_odd_i64(a))
#define TD_CAST_kV_ODD(a) td_odd_f64(td_odd_u64(a))
#define TD_CAST_kH_ODD(a) (a)
#define TD_CAST_kG_ODD(a) (a)
#define TD_CAST_kF_ODD(a) (a)
#define TD_CAST_kD_ODD(a) td_odd_f64(a)

#define TD_CAST_kB_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kI_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kL_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kV_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kH_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kG_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kF_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kD_C(a) td_make_c64((td_f32)(a), 0)
#define TD_CAST_kC_C(a) (a)
#define TD_CAST_kZ_C(a) td_narrow_c128(a)
#define TD_CAST_kB_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kI_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kL_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kV_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kH_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kG_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kF_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kD_Z(a) td_make_c128((td_f64)(a), 0)
#define TD_CAST_kC_Z(a) td_widen_c64(a)
#define TD_CAST_kZ_Z(a) (a)

#endif
