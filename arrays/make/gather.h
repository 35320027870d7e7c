/* gather.h: elements of an array at the places that an index array names: one text for both back
** ends (take.c).
**
** As philox.h: the host includes it as C, the build embeds it as a string (tidei_gather_text,
** behind kernels/text.h and indices.h) for NVRTC. The iteration space is the result's, which is
** row-major; the source and the indices have strides over it. A row is its innermost dimension.
** What is moved are units: elements, or as many of them side by side as move at once. The host's
** kernel loops over parts of rows. A device's thread has several groups of units under way, those
** of its block side by side: a group is one unit, or the neighbouring ones that fill 4 bytes, which
** find their place once where they lie in one row. Rows that begin anywhere but have their elements
** side by side are written in words of 16 bytes, each of which comes from the two words of memory
** that its bytes lie in, or, where a row ends within it, from twice two. A device takes several
** times as long to compute with 64 bits as with 32, so there are kernels for takes whose offsets
** have no more (near).
** What must stay true: n < 2^31, as the host cuts larger takes; near kernels get offsets, lengths
** and steps below 2^31. */
#ifndef TIDEI_GATHER_H
#define TIDEI_GATHER_H

#ifndef __CUDACC_RTC__
#include "arrays/kernels/text.h"
#include "arrays/make/indices.h"
#include "runtime/device/share.h"
#endif

typedef struct ga_16 {
    ga_u64 part[2];
} ga_16;

#define GA_RANK 8

#ifdef __CUDACC_RTC__
#define GA_ROLLED _Pragma("unroll 1") /* most takes have one dimension before a row */
#else
#define GA_ROLLED
#endif

typedef struct ga_take {
    /* addresses of the first elements; where a bad index is reported, */
    ga_u64 out, source, indices, fault;
    ga_u64 report;       /* and the first word of that */
    ga_i64 reach;        /* bytes from the source's address to its memory's end */
    ga_i64 n;            /* units */
    ga_i64 length, step; /* of the axis taken along: elements, stride in units */
    int ndim;            /* of the iteration space, >= 1 */
    int size, is_signed; /* of an index */
    ga_i64 shape[GA_RANK], source_strides[GA_RANK], index_strides[GA_RANK];
    kt_div by[GA_RANK]; /* division by the shape */
} ga_take;

/* Where a row's units come from: offsets of its source and its indices. */
GA_OFFSETS GA_FN void ga_row(const ga_take *p, unsigned row, ga_offset *source, ga_offset *index) {
    *source = *index = 0;
    GA_ROLLED for (int d = p->ndim - 2; d > 0; d--) {
        const unsigned rest = kt_divided(&p->by[d], row);
        const ga_offset i = (ga_offset)(row - rest * p->by[d].d);
        row = rest;
        *source += i * (ga_offset)p->source_strides[d];
        *index += i * (ga_offset)p->index_strides[d];
    }
    if (p->ndim > 1) {
        *source += (ga_offset)row * (ga_offset)p->source_strides[0];
        *index += (ga_offset)row * (ga_offset)p->index_strides[0];
    }
}

#ifdef __CUDACC_RTC__
#define GA_THREADS 256
/* Units of a thread under way: of 16 bytes 64 KiB a multiprocessor where 1,024 threads are at
** work, which hides the way to the indices and from them to the source. */
#define GA_AHEAD 4

template <class T> struct alignas(sizeof(T) < 4 ? 4 : sizeof(T)) ga_group {
    static constexpr int units = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1;
    T x[units];
};

/* Where units lie: offsets (of type O) of their sources and indices, or the sources alone once
** these are read. */
template <class O, int N> struct ga_places { O source[N], index[N]; };

/* The places of the group that begins with unit i; those beyond the end are the last one's. */
template <class O, int N> GA_FN void ga_find(const ga_take &p, unsigned i, ga_places<O, N> &at) {
    const int last = p.ndim - 1;
    const unsigned width = p.by[last].d;
    const O across = (O)p.source_strides[last], across_indices = (O)p.index_strides[last];
    unsigned row = kt_divided(&p.by[last], i), j = i - row * width;
    O source, index;
    ga_row(&p, row, &source, &index);
#pragma unroll
    for (int u = 0; u < N; u++) {
        if (u > 0 && i + u < p.n && ++j == width) {
            j = 0;
            ga_row(&p, ++row, &source, &index);
        }
        at.source[u] = source + (O)j * across;
        at.index[u] = index + (O)j * across_indices;
    }
}

/* An index as an offset: the greatest or the least where it is beyond them, out of range of any
** axis. */
template <class O, class I> GA_FN O ga_within(I raw) {
    const O v = (O)raw, least = (O)((ga_u64)1 << (sizeof(O) * 8 - 1));
    if (sizeof(I) < sizeof(O)) return v;
    return (ga_i64)v == (ga_i64)raw ? v : raw < 0 ? least : (O)~least;
}

/* The indices of places, all read before any is looked at. */
template <class I, class O, int M, int N>
GA_FN void ga_read_as(const ga_take &p, const ga_places<O, N> (&at)[M], O (&given)[M][N]) {
    I raw[M][N];
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int u = 0; u < N; u++)
            raw[m][u] = u > 0 && at[m].index[u] == at[m].index[u - 1]
                            ? raw[m][u - 1]
                            : ((const I *)p.indices)[at[m].index[u]];
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int u = 0; u < N; u++) given[m][u] = ga_within<O>(raw[m][u]);
    }
}
template <class O, int M, int N>
GA_FN void ga_read_all(const ga_take &p, const ga_places<O, N> (&at)[M], O (&given)[M][N]) {
    if (p.size == 8)
        ga_read_as<ga_i64>(p, at, given);
    else if (p.size == 4 && p.is_signed)
        ga_read_as<int>(p, at, given);
    else if (p.size == 4)
        ga_read_as<unsigned>(p, at, given);
    else if (p.size == 2 && p.is_signed)
        ga_read_as<short>(p, at, given);
    else if (p.size == 2)
        ga_read_as<unsigned short>(p, at, given);
    else if (p.is_signed)
        ga_read_as<signed char>(p, at, given);
    else
        ga_read_as<unsigned char>(p, at, given);
}

/* Follows the indices: each is looked at, and of those out of range the last is reported. */
template <class O, int M, int N> GA_FN void ga_follow(const ga_take &p, ga_places<O, N> (&at)[M]) {
    const O length = (O)p.length, step = (O)p.step;
    O given[M][N], bad = 0;
    bool any = false;
    ga_read_all(p, at, given);
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int u = 0; u < N; u++) {
            const O v = ga_from_start(given[m][u], length, p.is_signed);
            if (v < 0 || v >= length) bad = at[m].index[u], any = true;
            at[m].source[u] += (v < 0 ? 0 : v < length ? v : length - 1) * step;
        }
    }
    if (any) ga_report(p.fault, p.report, ga_read(p.indices, bad, p.size, p.is_signed), p.length);
}

template <class T> GA_FN void ga_store(const ga_take &p, unsigned i, const ga_group<T> &x) {
    constexpr int units = ga_group<T>::units;
    T *to = (T *)p.out + i;
    if (units == 1 || (i + units <= p.n && (p.out & 3) == 0)) {
        *(ga_group<T> *)to = x;
        return;
    }
#pragma unroll
    for (int u = 0; u < units; u++)
        if (i + u < p.n) to[u] = x.x[u];
}

template <class T, class O> GA_FN void ga_run(const ga_take &p) {
    constexpr int units = ga_group<T>::units, ahead = units == 4 ? 2 : GA_AHEAD;
    constexpr unsigned tile = GA_THREADS * ahead;
    const unsigned groups = (unsigned)((p.n + units - 1) / units);
    for (unsigned first = blockIdx.x * tile; first < groups; first += gridDim.x * tile) {
        ga_places<O, units> at[ahead];
        ga_group<T> x[ahead];
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            const unsigned g = first + k * GA_THREADS + threadIdx.x;
            ga_find(p, (g < groups ? g : 0) * units, at[k]);
        }
        ga_follow(p, at);
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            if (units == 1) /* as one vector */
                x[k] = *(const ga_group<T> *)((const T *)p.source + at[k].source[0]);
#pragma unroll
            for (int u = 0; units > 1 && u < units; u++)
                x[k].x[u] = ((const T *)p.source)[at[k].source[u]];
        }
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            const unsigned g = first + k * GA_THREADS + threadIdx.x;
            if (g < groups) ga_store(p, g * units, x[k]);
        }
    }
}

/* ---- rows that begin anywhere ---- */

/* Words that a thread has under way: each may have four loads. */
#define GA_WORDS_AHEAD 2
#define GA_WORD        16 /* bytes */

struct alignas(GA_WORD) ga_word {
    unsigned part[4];
};

/* 16 bytes as they lie in two words of memory. */
struct ga_window {
    ga_word low, high;
    unsigned behind; /* the low one's boundary, in bytes */
};

/* A word of memory, of which only the bytes before `limit` are there. */
GA_FN ga_word ga_word_at(ga_u64 at, ga_u64 limit) {
    if (at + GA_WORD <= limit) return *(const ga_word *)at;
    ga_u64 low = 0, high = 0;
#pragma unroll 1
    for (ga_u64 i = limit; i-- > at;) {
        high = high << 8 | low >> 56;
        low = low << 8 | *(const unsigned char *)i;
    }
    return ga_word{{(unsigned)low, (unsigned)(low >> 32), (unsigned)high, (unsigned)(high >> 32)}};
}

/* Bytes first .. end-1 of the 16 from an address on; what is read besides lies in the same words of
** memory as these, before `limit`. */
GA_FN void ga_load(ga_u64 from, unsigned first, unsigned end, ga_u64 limit, ga_window &x) {
    x.behind = (unsigned)from & (GA_WORD - 1);
    const ga_u64 at = from - x.behind;
    const bool low = x.behind + first < GA_WORD;
    x.low = x.high = ga_word_at(low ? at : at + GA_WORD, limit);
    if (low && x.behind + end > GA_WORD) x.high = ga_word_at(at + GA_WORD, limit);
}

GA_FN ga_word ga_bytes(const ga_window &x) {
    const unsigned bits = x.behind % 4 * 8;
    unsigned all[8], by_two[6], by_one[5];
    ga_word y;
#pragma unroll
    for (int k = 0; k < 4; k++) all[k] = x.low.part[k], all[k + 4] = x.high.part[k];
#pragma unroll
    for (int k = 0; k < 6; k++) by_two[k] = x.behind & 8 ? all[k + 2] : all[k];
#pragma unroll
    for (int k = 0; k < 5; k++) by_one[k] = x.behind & 4 ? by_two[k + 1] : by_two[k];
#pragma unroll
    for (int k = 0; k < 4; k++)
        y.part[k] = (unsigned)(((ga_u64)by_one[k + 1] << 32 | by_one[k]) >> bits);
    return y;
}

/* The first bytes of a, and then those of b. */
GA_FN ga_word ga_joined(const ga_word &a, int bytes, const ga_word &b) {
    ga_word y;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int left = bytes - 4 * k;
        const unsigned of_a = left >= 4 ? ~0u : left > 0 ? (1u << left * 8) - 1 : 0u;
        y.part[k] = (a.part[k] & of_a) | (b.part[k] & ~of_a);
    }
    return y;
}

/* Where a word of the result comes from: units up to `first` from one place, those up to `all` from
** where the next row begins. */
struct ga_ends {
    unsigned first, all;
};

/* The word that begins with unit i < n. Where all of it is of one row, both places are the same. */
template <int PER, class O>
GA_FN ga_ends ga_find_word(const ga_take &p, unsigned i, ga_places<O, 2> &at) {
    const unsigned width = p.by[p.ndim - 1].d, row = kt_divided(&p.by[p.ndim - 1], i),
                   j = i - row * width, rest = (unsigned)p.n - i, all = rest < PER ? rest : PER,
                   first = width - j < all ? width - j : all;
    ga_row(&p, row, &at.source[0], &at.index[0]);
    at.source[0] += (O)j;
    at.source[1] = at.source[0];
    at.index[1] = at.index[0];
    if (first < all) ga_row(&p, row + 1, &at.source[1], &at.index[1]);
    return ga_ends{first, all};
}

template <class T> GA_FN void ga_store_word(const ga_take &p, unsigned i, int n, const ga_word &x) {
    constexpr int per = GA_WORD / sizeof(T);
    T *to = (T *)p.out + i;
    if (n == per) {
        *(ga_word *)to = x;
        return;
    }
#pragma unroll
    for (int u = 0; u < per; u++)
        if (u < n) to[u] = reinterpret_cast<const T *>(&x)[u];
}

/* Rows have at least a word's bytes, and the result begins with one. */
template <class T, class O> GA_FN void ga_run_rows(const ga_take &p) {
    constexpr int per = GA_WORD / sizeof(T), ahead = GA_WORDS_AHEAD;
    constexpr unsigned tile = GA_THREADS * ahead;
    const unsigned words = (unsigned)((p.n + per - 1) / per);
    const ga_u64 limit = p.source + (ga_u64)p.reach;
    for (unsigned first = blockIdx.x * tile; first < words; first += gridDim.x * tile) {
        ga_places<O, 2> at[ahead];
        ga_ends of[ahead];
        ga_window x[ahead], next[ahead];
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            const unsigned g = first + k * GA_THREADS + threadIdx.x;
            of[k] = ga_find_word<per>(p, (g < words ? g : 0) * per, at[k]);
        }
        ga_follow(p, at);
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            const unsigned bytes = of[k].first * sizeof(T);
            ga_load((ga_u64)((const T *)p.source + at[k].source[0]), 0, bytes, limit, x[k]);
            if (of[k].first < of[k].all)
                ga_load((ga_u64)((const T *)p.source + at[k].source[1]) - bytes, bytes,
                        of[k].all * sizeof(T), limit, next[k]);
        }
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            const unsigned g = first + k * GA_THREADS + threadIdx.x;
            ga_word y = ga_bytes(x[k]);
            if (of[k].first < of[k].all)
                y = ga_joined(y, of[k].first * sizeof(T), ga_bytes(next[k]));
            if (g < words) ga_store_word<T>(p, g * per, of[k].all, y);
        }
    }
}

/* ---- the kernels ---- */

#define GA_KERNEL(name, run, type, offset)                                                         \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(GA_THREADS)                                      \
         name(const __grid_constant__ ga_take p) {                                                 \
             kt_grid_wait();                                                                       \
             run<type, offset>(p);                                                                 \
         })
#define GA_TAKE(bytes, type)                                                                       \
    GA_KERNEL(gather_take_##bytes, ga_run, type, ga_i64)                                           \
    GA_KERNEL(gather_near_##bytes, ga_run, type, int)
#define GA_ROWS(bytes, type)                                                                       \
    GA_KERNEL(gather_rows_##bytes, ga_run_rows, type, ga_i64)                                      \
    GA_KERNEL(gather_near_rows_##bytes, ga_run_rows, type, int)
GA_ROWS(1, unsigned char)
GA_ROWS(2, unsigned short)
GA_ROWS(4, unsigned)
GA_ROWS(8, ga_u64)
#else
/* The index at an offset, counted from the start; one out of range is reported, and read as the
** nearest valid one. */
static inline ga_i64 ga_index(const ga_take *p, ga_i64 at) {
    ga_i64 given = ga_read(p->indices, at, p->size, p->is_signed);
    ga_i64 v = ga_from_start(given, p->length, p->is_signed);
    if (v >= 0 && v < p->length) return v;
    ga_report(p->fault, p->report, given, p->length);
    return v < 0 ? 0 : p->length - 1;
}

/* Units first .. last-1 of a row; those that have an index for themselves in blocks. */
#define GA_ROW(name, type)                                                                         \
    static inline void name##_row(const ga_take *p, ga_i64 row, ga_i64 first, ga_i64 last) {       \
        const ga_i64 across = p->source_strides[p->ndim - 1], step = p->step;                      \
        const ga_i64 across_indices = p->index_strides[p->ndim - 1];                               \
        ga_i64 source, index, v[GA_BLOCK];                                                         \
        ga_row(p, (unsigned)row, &source, &index);                                                 \
        type *to = (type *)p->out + row * p->shape[p->ndim - 1];                                   \
        const type *from = (const type *)p->source + source;                                       \
        if (across_indices == 0) from += ga_index(p, index) * step;                                \
        for (ga_i64 j = first, n; j < last; j += n) {                                              \
            n = across_indices == 0 || last - j < GA_BLOCK ? last - j : GA_BLOCK;                  \
            if (across_indices == 0)                                                               \
                for (ga_i64 i = j; i < last; i++) to[i] = from[i * across];                        \
            else if (!ga_read_block(p->indices, index + j * across_indices, across_indices, n,     \
                                    p->size, p->is_signed, p->length, v))                          \
                for (ga_i64 i = j; i < j + n; i++)                                                 \
                    to[i] = from[i * across + ga_index(p, index + i * across_indices) * step];     \
            else if (across == 0 && step == 1)                                                     \
                for (ga_i64 i = 0; i < n; i++) to[j + i] = from[v[i]];                             \
            else                                                                                   \
                for (ga_i64 i = 0; i < n; i++) to[j + i] = from[(j + i) * across + v[i] * step];   \
        }                                                                                          \
    }
/* Units first .. end-1 of the result, which are parts of rows. */
#define GA_TAKE_ROWS(name, type)                                                                   \
    GA_ROW(name, type)                                                                             \
    static void name##_items(const void *params, size_t first, size_t end) {                       \
        const ga_take *p = params;                                                                 \
        const ga_i64 width = p->shape[p->ndim - 1];                                                \
        for (ga_i64 i = (ga_i64)first, stop; i < (ga_i64)end; i = stop) {                          \
            const ga_i64 row = i / width, begin = row * width;                                     \
            stop = begin + width < (ga_i64)end ? begin + width : (ga_i64)end;                      \
            name##_row(p, row, i - begin, stop - begin);                                           \
        }                                                                                          \
    }                                                                                              \
    static void name(const void *params) {                                                         \
        const ga_take *p = params;                                                                 \
        tidei_share_items((size_t)p->n, TIDEI_SHARE_GRAIN, name##_items, p);                       \
    }
#define GA_TAKE(bytes, type) GA_TAKE_ROWS(gather_take_##bytes, type)
#endif
GA_TAKE(1, unsigned char)
GA_TAKE(2, unsigned short)
GA_TAKE(4, unsigned)
GA_TAKE(8, ga_u64)
GA_TAKE(16, ga_16)

#endif
