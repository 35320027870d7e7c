/* indices.h: what kernels do with index arrays: reading an index of any integer type, and reporting
** one that is out of range: text for both back ends, which goes before the kernels' own (gather.h
** and others). The protocol of reports is device.h's. */
#ifndef TIDEI_INDICES_H
#define TIDEI_INDICES_H

typedef long long ga_i64;
typedef unsigned long long ga_u64;

#define GA_WRITING  255ULL /* a report is being written */
#define GA_UNSIGNED 256ULL /* of a report: the index is unsigned */

/* The steps of a report: a thread that claims it has the words to itself until the last step, after
** which others may read them. */
#ifdef __CUDACC_RTC__
#define GA_FN          static __device__ __forceinline__
#define GA_OFFSETS     template <class ga_offset> /* of 32 bits, too */
#define GA_CLAIM(w)    (atomicCAS((w), 0ULL, GA_WRITING) == 0ULL)
#define GA_WRITE(w, v) (*(volatile ga_u64 *)(w) = (v))
#define GA_LAST(w, v)  (__threadfence_system(), GA_WRITE(w, v))
#else
#define GA_FN static inline
#define GA_OFFSETS
typedef ga_i64 ga_offset;
#define GA_WRITE(w, v) __atomic_store_n((w), (v), __ATOMIC_RELAXED)
#define GA_LAST(w, v)  __atomic_store_n((w), (v), __ATOMIC_RELEASE)
static inline int GA_CLAIM(unsigned long long *w) {
    unsigned long long none = 0;
    return __atomic_compare_exchange_n(w, &none, GA_WRITING, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#endif

/* Reports an index, of an axis of `length`; only the first report is kept until the host has taken
** it. `report` is its first word. */
GA_FN void ga_report(ga_u64 fault, ga_u64 report, ga_i64 index, ga_i64 length) {
    ga_u64 *w = (ga_u64 *)fault;
    if (!GA_CLAIM(w)) return;
    GA_WRITE(w + 1, (ga_u64)index);
    GA_WRITE(w + 2, (ga_u64)length);
    GA_LAST(w, report);
}

/* The integer of `size` bytes that is the at-th from an address on. */
GA_FN ga_i64 ga_read(ga_u64 address, ga_i64 at, int size, int is_signed) {
    switch (size) {
    case 1:
        return is_signed ? ((const signed char *)address)[at]
                         : ((const unsigned char *)address)[at];
    case 2: return is_signed ? ((const short *)address)[at] : ((const unsigned short *)address)[at];
    case 4: return is_signed ? ((const int *)address)[at] : (ga_i64)((const unsigned *)address)[at];
    default: return ((const ga_i64 *)address)[at];
    }
}

/* An index as it was given, counted from the start of an axis of `length`; < 0 or >= length where
** it is out of range. An unsigned one of 2^63 or more is so too. */
GA_OFFSETS GA_FN ga_offset ga_from_start(ga_offset given, ga_offset length, int is_signed) {
    return given >= 0 ? given : is_signed ? given + length : length;
}

#ifndef __CUDACC_RTC__
enum { GA_BLOCK = 256 };

#define GA_READ_ALL(type)                                                                          \
    if (step == 1)                                                                                 \
        for (ga_i64 j = 0; j < n; j++) v[j] = (ga_i64)((const type *)address)[at + j];             \
    else                                                                                           \
        for (ga_i64 j = 0; j < n; j++) v[j] = (ga_i64)((const type *)address)[at + j * step]

/* n <= GA_BLOCK indices, `step` elements apart, counted from the start of an axis of `length`.
** Returns whether all are in range; else they are as they were given. */
static inline int ga_read_block(ga_u64 address, ga_i64 at, ga_i64 step, ga_i64 n, int size,
                                int is_signed, ga_i64 length, ga_i64 *v) {
    ga_u64 bad = 0;
    int left = 0;
    if (size == 8) {
        GA_READ_ALL(ga_i64);
    } else if (size == 4 && is_signed) {
        GA_READ_ALL(int);
    } else if (size == 4) {
        GA_READ_ALL(unsigned);
    } else {
        for (ga_i64 j = 0; j < n; j++) v[j] = ga_read(address, at + j * step, size, is_signed);
    }
    /* signs, as vectors compare no unsigned numbers */
    for (ga_i64 j = 0; j < n; j++) bad |= (ga_u64)v[j] | ((ga_u64)length - 1 - (ga_u64)v[j]);
    if (!(bad >> 63)) return 1;
    for (ga_i64 j = 0; j < n; j++)
        left |= (ga_u64)ga_from_start(v[j], length, is_signed) >= (ga_u64)length;
    for (ga_i64 j = 0; !left && j < n; j++) v[j] = ga_from_start(v[j], length, is_signed);
    return !left;
}
#endif

#endif
