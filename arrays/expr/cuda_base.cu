/* cuda_base.cu: what every generated kernel begins with, after prelude.h: vectors, scalars,
** division by launch constants. Embedded as text (tidei_cuda_base_text). Blocks have 256
** threads. */

#define TD_MEMBER __device__ __forceinline__ /* of a struct */

/* N elements that move together: one load or store of up to 16 bytes. */
template <class E, int N> struct alignas(sizeof(E) * N) tide_vec { E v[N]; };
/* The same of integers of one or two bytes that are only read, as words: compilers give each of an
** array a register of its own, and then have too few. */
template <class E, int N> struct tide_in_words {
    enum { EACH = 4 / sizeof(E) }; /* elements of a word */
    td_u32 w[N / EACH];
    TD_MEMBER E operator[](int i) const { return (E)(w[i / EACH] >> i % EACH * 8 * sizeof(E)); }
};
template <class E, int N> struct alignas(sizeof(E) * N) tide_packed { tide_in_words<E, N> v; };
template <int N, class E> TD_FN tide_vec<E, N> tide_array_get(const E *p) {
    return *reinterpret_cast<const tide_vec<E, N> *>(p);
}
/* `flat`: the operand stretches along the vector, one element serves it all. */
template <int N, class E> TD_FN tide_vec<E, N> tide_array_get(const E *p, bool flat) {
    if (N == 1 || !flat) return tide_array_get<N>(p);
    tide_vec<E, N> x;
    const E e = *p;
#pragma unroll
    for (int k = 0; k < N; k++) x.v[k] = e;
    return x;
}
/* Elements that lie anywhere. */
template <int N, class E> TD_FN tide_vec<E, N> tide_elements(const E *p) {
    tide_vec<E, N> x;
#pragma unroll
    for (int k = 0; k < N; k++) x.v[k] = p[k];
    return x;
}
template <int N, class E> TD_FN void tide_put(E *p, const tide_vec<E, N> &x) {
    *reinterpret_cast<tide_vec<E, N> *>(p) = x;
}

/* Elements as an array of vectors: only so do compilers see that what is computed one by one is
** stored at once. */
template <int N, class E> TD_FN tide_vec<E, N> *tide_vectors(E *p) {
    return reinterpret_cast<tide_vec<E, N> *>(p);
}
template <int N, class E> TD_FN const tide_vec<E, N> *tide_vectors(const E *p) {
    return reinterpret_cast<const tide_vec<E, N> *>(p);
}

/* Vectors that no cache need keep. */
template <int BYTES> struct tide_word { typedef uint4 type; };
template <> struct tide_word<8> { typedef uint2 type; };
template <> struct tide_word<4> { typedef td_u32 type; };
template <> struct tide_word<2> { typedef td_u16 type; };
template <> struct tide_word<1> { typedef td_u8 type; };
template <class X> union tide_worded {
    typename tide_word<sizeof(X)>::type w;
    X x;
};
template <class X> TD_FN X tide_stream_get(const X *p) {
    tide_worded<X> u;
    u.w = __ldcs(reinterpret_cast<const decltype(u.w) *>(p));
    return u.x;
}
template <class X> TD_FN void tide_stream_put(X *p, const X &x) {
    tide_worded<X> u;
    u.x = x;
    __stcs(reinterpret_cast<decltype(u.w) *>(p), u.w);
}

/* The greater one and the lesser one: NaN wins, 0.0 is greater than -0.0, so that the order of many
** does not matter. */
TD_FN td_f32 tide_most(td_f32 a, td_f32 b) {
#if __CUDA_ARCH__ >= 800
    td_f32 r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return a == b ? td_from_bits_f32(td_bits_f32(a) & td_bits_f32(b)) : a > b || a != a ? a : b;
#endif
}
TD_FN td_f32 tide_least(td_f32 a, td_f32 b) {
#if __CUDA_ARCH__ >= 800
    td_f32 r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return a == b ? td_from_bits_f32(td_bits_f32(a) | td_bits_f32(b)) : a < b || a != a ? a : b;
#endif
}
TD_FN td_f64 tide_most(td_f64 a, td_f64 b) {
    return a == b ? td_from_bits_f64(td_bits_f64(a) & td_bits_f64(b)) : a > b || a != a ? a : b;
}
TD_FN td_f64 tide_least(td_f64 a, td_f64 b) {
    return a == b ? td_from_bits_f64(td_bits_f64(a) | td_bits_f64(b)) : a < b || a != a ? a : b;
}

/* What many are divided by: its reciprocal, correctly rounded, and whether quotients by it may be
** had from that. A product with the reciprocal, corrected once by what it leaves, is the quotient
** as division rounds it, where nothing on the way overflows or loses digits: for dividends from
** 2^-100 to 2^100 and divisors from 2^-24 to 2^24, roughly. (The product is less than 1.5 last
** places off, and the correction less than 2^-23 of that; a quotient comes no nearer to the middle
** between two floats than 1/2D of a last place, D the divisor's 24 digits. All pairs that come so
** near that this does not decide give the quotient: tests go through some.) */
struct tide_divisor {
    td_f32 reciprocal;
    td_u32 span;
};
TD_FN tide_divisor tide_divisor_of(td_f32 d) {
    const td_u32 exponent = td_bits_f32(d) << 1 >> 24;
    return {1.0f / d, exponent - 103 <= 48 ? 200u << 24 : 0};
}
/* `divides` becomes false where the quotient may be another one. */
TD_FN td_f32 tide_divided(td_f32 x, td_f32 d, const tide_divisor &by, bool &divides) {
    const td_f32 near = x * by.reciprocal;
    divides &= (td_bits_f32(x) << 1) - (27u << 24) < by.span;
    return fma(fma(-near, d, x), by.reciprocal, near);
}
/* Any quotient. Where many values are 0.0, what does not divide above comes here, and the division
** of a GPU takes long for these. */
TD_FN td_f32 tide_divided_whole(td_f32 x, td_f32 d, const tide_divisor &by) {
    const bool nothing = x == 0 && by.span;
    const td_f32 q = (nothing ? 1.0f : x) / d;
    return nothing ? x * by.reciprocal : q;
}

/* A scalar parameter. */
union tide_slot {
    td_i8 i8;
    td_i16 i16;
    td_i32 i32;
    td_i64 i64;
    td_u8 u8;
    td_u16 u16;
    td_u32 u32;
    td_u64 u64;
    td_bool b;
    td_f16 f16;
    td_bf16 bf16;
    td_f32 f32;
    td_f64 f64;
    td_f32 c64[2];
    td_f64 c128[2];
};

/* Division of n < 2^31 by a d < 2^31 that the host has prepared: a high product, an addition and a
** shift. */
struct tide_div {
    td_u32 d, mul, shift;
};
TD_FN td_u32 tide_quotient(const tide_div &d, td_u32 n) {
    return (__umulhi(n, d.mul) + n) >> d.shift;
}
