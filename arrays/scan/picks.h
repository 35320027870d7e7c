/* picks.h: the places of an array that are not 0, and what is at such places in another: one text
** for both back ends (select.c).
**
** As gather.h: the host includes it as C, the build embeds it as a string (tidei_picks_text) for
** NVRTC. Places are counted row-major, and cut into tiles of PK_TILE: one kernel counts each
** tile's, the others begin where the sums of those counts say. Bits decide, of which `keep` leaves
** out the signs of floats: -0.0 is 0, not-a-number is not. */
#ifndef TIDEI_PICKS_H
#define TIDEI_PICKS_H

#ifndef __CUDACC_RTC__
#include "runtime/device/share.h"
#endif

typedef long long pk_i64;
typedef unsigned long long pk_u64;
typedef struct pk_16 {
    pk_u64 part[2];
} pk_16;

#define PK_RANK       8
#define PK_TILE       4096
#define PK_FILL_AHEAD 4 /* vectors of a thread that fills, whose masks it reads before it looks */

typedef struct pk_dims {
    int ndim; /* >= 1 */
    pk_i64 shape[PK_RANK], strides[PK_RANK];
} pk_dims;

typedef struct pk_pick {
    pk_u64 mask,
        counts; /* addresses: what decides; a tile's number of places, or where it begins */
    pk_u64 keep[2];
    pk_i64 n;   /* places, > 0 */
    pk_dims at; /* strides of `mask` */
    /* where they are: */
    pk_u64 outs[PK_RANK]; /* one for each dimension, or all in the first, `rank` apart */
    int together, rank;
    pk_i64 dims[PK_RANK];
    /* what is there: */
    pk_u64 items, line;      /* an array; and its items one behind the other */
    pk_i64 strides[PK_RANK]; /* of `items`, over at.shape */
    pk_i64 inner;            /* units of an item, which move as one: elements, or several at once */
    pk_dims within;          /* an item */
    pk_i64 parts;            /* into which a tile's items are cut, for blocks of their own; >= 1 */
    int same;                /* the line has one item, for all places; nothing was counted */
} pk_pick;

#ifdef __CUDACC_RTC__
#define PK_FN static __device__ __forceinline__
#else
#define PK_FN static inline
#endif

/* Most numbers are small, and 64 bits take five times as long to divide. */
PK_FN pk_i64 pk_quotient(pk_i64 a, pk_i64 b) {
    return (a | b) >> 32 ? a / b : (pk_i64)((unsigned)a / (unsigned)b);
}
PK_FN pk_i64 pk_offset(const pk_dims *d, const pk_i64 *strides, pk_i64 i) {
    pk_i64 at = 0;
    for (int k = d->ndim - 1; k > 0; k--) {
        pk_i64 q = pk_quotient(i, d->shape[k]);
        at += (i - q * d->shape[k]) * strides[k];
        i = q;
    }
    return at + i * strides[0];
}

/* Place i is number `at` of those that were found. */
PK_FN void pk_tell(const pk_pick *p, pk_i64 i, pk_i64 at) {
    for (int d = p->rank - 1; d >= 0; d--) {
        pk_i64 q = d ? pk_quotient(i, p->dims[d]) : 0, v = i - q * p->dims[d];
        if (p->together)
            ((pk_i64 *)p->outs[0])[at * p->rank + d] = v;
        else
            ((pk_i64 *)p->outs[d])[at] = v;
        i = q;
    }
}

PK_FN int pk_is_1(const pk_pick *p, pk_i64 at) {
    return (((const unsigned char *)p->mask)[at] & p->keep[0]) != 0;
}
PK_FN int pk_is_2(const pk_pick *p, pk_i64 at) {
    return (((const unsigned short *)p->mask)[at] & p->keep[0]) != 0;
}
PK_FN int pk_is_4(const pk_pick *p, pk_i64 at) {
    return (((const unsigned *)p->mask)[at] & p->keep[0]) != 0;
}
PK_FN int pk_is_8(const pk_pick *p, pk_i64 at) {
    return (((const pk_u64 *)p->mask)[at] & p->keep[0]) != 0;
}
PK_FN int pk_is_16(const pk_pick *p, pk_i64 at) {
    const pk_16 v = ((const pk_16 *)p->mask)[at];
    return ((v.part[0] & p->keep[0]) | (v.part[1] & p->keep[1])) != 0;
}

/* Of the units of a tile's `all` items its part number `part` has those from lo to before hi. */
#define PK_PART(p, all, part)                                                                      \
    const pk_i64 units = (all) * (p)->inner, each = (units + (p)->parts - 1) / (p)->parts,         \
                 lo = (part)*each, hi = lo + each < units ? lo + each : units;

#ifdef __CUDACC_RTC__
#define PK_EACH  16 /* places of a thread: lane after lane, 32 apart */
#define PK_WARPS 8

/* Bit r: whether the thread's place r is one, from `first` on. */
#define PK_LOOK(size)                                                                              \
    PK_FN unsigned pk_look_##size(const pk_pick &p, pk_i64 first) {                                \
        unsigned found = 0;                                                                        \
        const pk_i64 step = p.at.strides[0];                                                       \
        if (p.at.ndim == 1 && first + (PK_EACH - 1) * 32 < p.n) {                                  \
            for (int r = 0; r < PK_EACH; r++)                                                      \
                found |= (unsigned)pk_is_##size(&p, (first + r * 32) * step) << r;                 \
            return found;                                                                          \
        }                                                                                          \
        for (int r = 0; r < PK_EACH; r++)                                                          \
            if (first + r * 32 < p.n)                                                              \
                found |=                                                                           \
                    (unsigned)pk_is_##size(&p, pk_offset(&p.at, p.at.strides, first + r * 32))     \
                    << r;                                                                          \
        return found;                                                                              \
    }
PK_LOOK(1)
PK_LOOK(2)
PK_LOOK(4)
PK_LOOK(8)
PK_LOOK(16)

PK_FN pk_i64 pk_first(pk_i64 tile) {
    return tile * PK_TILE + threadIdx.x / 32 * (PK_TILE / PK_WARPS) + threadIdx.x % 32;
}

/* How many places each of the block's warps found, in `warps` after this. */
PK_FN void pk_warp_counts(unsigned found, unsigned *warps) {
    unsigned n = __popc(found);
    for (int by = 16; by; by /= 2) n += __shfl_down_sync(0xffffffffu, n, by);
    __syncthreads(); /* the last tile's are read */
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = n;
    __syncthreads();
}

/* The places that the block found, counted from the tile's first, in their order; and how many. */
PK_FN unsigned pk_list(unsigned found, unsigned *warps, unsigned short *list) {
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned at = 0, all = 0;
    pk_warp_counts(found, warps);
    for (unsigned k = 0; k < PK_WARPS; k++) {
        if (k == warp) at = all;
        all += warps[k];
    }
    for (int r = 0; r < PK_EACH; r++) {
        const unsigned lanes = __ballot_sync(0xffffffffu, (int)(found >> r & 1));
        if (found >> r & 1)
            list[at + __popc(lanes & ((1u << lane) - 1))] =
                (unsigned short)(warp * (PK_TILE / PK_WARPS) + r * 32 + lane);
        at += __popc(lanes);
    }
    __syncthreads();
    return all;
}

#define PK_KERNEL(name, ...)                                                                       \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const __grid_constant__ pk_pick p) {                          \
        kt_grid_wait();                                                                            \
        __VA_ARGS__                                                                                \
    })
#define PK_COUNT(size)                                                                             \
    PK_KERNEL(                                                                                     \
        picks_count_##size, __shared__ unsigned warps[PK_WARPS];                                   \
        for (pk_i64 tile = blockIdx.x; tile * PK_TILE < p.n; tile += gridDim.x) {                  \
            pk_warp_counts(pk_look_##size(p, pk_first(tile)), warps);                              \
            if (threadIdx.x == 0) {                                                                \
                pk_i64 all = 0;                                                                    \
                for (int k = 0; k < PK_WARPS; k++) all += warps[k];                                \
                ((pk_i64 *)p.counts)[tile] = all;                                                  \
            }                                                                                      \
        })
/* `...`: what part number `part` of a tile does with the `all` places in `list`, counted from
** `first`; the number of the first is `from`. */
#define PK_TILES(name, size, ...)                                                                  \
    PK_KERNEL(                                                                                     \
        name, __shared__ unsigned warps[PK_WARPS]; __shared__ unsigned short list[PK_TILE];        \
        for (pk_i64 at = blockIdx.x; at / p.parts * PK_TILE < p.n; at += gridDim.x) {              \
            const pk_i64 tile = at / p.parts, part = at % p.parts, first = tile * PK_TILE,         \
                         from = p.same ? 0 : ((const pk_i64 *)p.counts)[tile],                     \
                         all = pk_list(pk_look_##size(p, pk_first(tile)), warps, list);            \
            __VA_ARGS__                                                                            \
        })
#define PK_WHERE(size)                                                                             \
    PK_TILES(picks_where_##size, size,                                                             \
             for (pk_i64 j = threadIdx.x; j < all; j += PK_WARPS * 32)                             \
                 pk_tell(&p, first + list[j], from + j);)
/* Unit k of the line is unit k % inner of item k / inner. */
#define PK_MOVE(name, type, to, is)                                                                \
    PK_TILES(                                                                                      \
        name, 1,                                                                                   \
        PK_PART(&p, all, part) for (pk_i64 k = lo + threadIdx.x; k < hi; k += PK_WARPS * 32) {     \
            const pk_i64 j = p.inner == 1 ? k : pk_quotient(k, p.inner),                           \
                         within = p.inner == 1 ? 0 : k - j * p.inner;                              \
            type *item = (type *)p.items + pk_offset(&p.at, p.strides, first + list[j]) +          \
                         pk_offset(&p.within, p.within.strides, within),                           \
                 *line = (type *)p.line + (p.same ? within : from * p.inner + k);                  \
            *to = *is;                                                                             \
        })

/* One value for all places, of a mask and an array whose elements lie side by side and begin at
** whole vectors: a thread has vectors of the array, and touches those alone that have a place. */
struct alignas(16) pk_vector {
    unsigned word[4];
};
/* The flags of a vector of T, in words of which the lowest bytes count. */
template <class T> struct alignas(16 / sizeof(T)) pk_flags { unsigned word[4 / sizeof(T)]; };

/* Bytes that are not 0 as 255. */
PK_FN unsigned pk_set_bytes(unsigned x) {
    return ((((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) >> 7 & 0x01010101u) * 255;
}

/* Which bits of a vector's word w have a place, by its flags, whose bytes are 0 or 255. */
template <class T> PK_FN unsigned pk_bits(const pk_flags<T> &set, int w) {
    if (sizeof(T) == 1) return set.word[w % (4 / sizeof(T))];
    if (sizeof(T) == 4) return (set.word[0] >> 8 * w & 255) * 0x01010101u;
    const unsigned two = set.word[w / 2 % (4 / sizeof(T))] >> w % 2 * 16;
    return (two & 255) * 0x101u | (two >> 8 & 255) * 0x1010000u;
}

template <class T> PK_FN void pk_fill_vector(pk_vector *to, pk_flags<T> is, unsigned value) {
    unsigned any = 0, all = ~0u;
    for (unsigned &f : is.word) {
        f = pk_set_bytes(f);
        any |= f, all &= f;
    }
    if (!any) return;
    pk_vector x = {{value, value, value, value}};
    if (~all) {
        x = *to;
        for (int w = 0; w < 4; w++) {
            const unsigned bits = pk_bits<T>(is, w);
            x.word[w] = (x.word[w] & ~bits) | (value & bits);
        }
    }
    *to = x;
}

template <class T> PK_FN void pk_fill(const pk_pick &p) {
    constexpr int V = 16 / sizeof(T);
    const T value = *(const T *)p.line;
    const unsigned word = sizeof(T) == 1   ? value * 0x01010101u
                          : sizeof(T) == 2 ? value * 0x10001u
                                           : value;
    const pk_i64 threads = (pk_i64)gridDim.x * blockDim.x, vectors = p.n / V,
                 thread = (pk_i64)blockIdx.x * blockDim.x + threadIdx.x;
    for (pk_i64 i = thread; i < vectors; i += threads * PK_FILL_AHEAD) {
        pk_flags<T> is[PK_FILL_AHEAD];
#pragma unroll
        for (int k = 0; k < PK_FILL_AHEAD; k++)
            is[k] = i + k * threads < vectors ? ((const pk_flags<T> *)p.mask)[i + k * threads]
                                              : pk_flags<T>{};
#pragma unroll
        for (int k = 0; k < PK_FILL_AHEAD; k++)
            pk_fill_vector<T>((pk_vector *)p.items + i + k * threads, is[k], word);
    }
    const pk_i64 i = vectors * V + thread; /* fewer than a vector */
    if (i < p.n && ((const unsigned char *)p.mask)[i]) ((T *)p.items)[i] = value;
}
#define PK_FILL(size, type) PK_KERNEL(picks_fill_##size, pk_fill<type>(p);)
PK_FILL(1, unsigned char)
PK_FILL(2, unsigned short)
PK_FILL(4, unsigned)
#else
/* The place beyond the last one of a tile. */
static inline pk_i64 pk_end(const pk_pick *p, pk_i64 tile) {
    const pk_i64 end = (tile + 1) * PK_TILE;
    return end < p->n ? end : p->n;
}
/* The places of a tile, from `first` to `end`, row by row of the innermost dimension: a run from
** place i to `stop`, of which the first is `at` in the mask. */
#define PK_RUNS(p, first, end, ...)                                                                \
    const pk_i64 width = p->at.shape[p->at.ndim - 1], step = p->at.strides[p->at.ndim - 1];        \
    for (pk_i64 i = first, stop; i < end; i = stop) {                                              \
        const pk_i64 row = pk_quotient(i, width) * width,                                          \
                     at = pk_offset(&p->at, p->at.strides, row) + (i - row) * step;                \
        stop = row + width < end ? row + width : end;                                              \
        __VA_ARGS__                                                                                \
    }

/* Parts begin .. end-1 of tiles, and all of them, shared. */
#define PK_KERNEL(name)                                                                            \
    static void name(const void *params) {                                                         \
        const pk_pick *p = params;                                                                 \
        tidei_share_items((size_t)((p->n + PK_TILE - 1) / PK_TILE * p->parts),                     \
                          TIDEI_SHARE_GRAIN / PK_TILE, name##_tiles, p);                           \
    }
/* Counts; and pk_list_<size>: the places of a tile that are one, counted from its first, and how
** many these are, without a branch for each, which nobody could foresee. */
#define PK_COUNT(size)                                                                             \
    static void picks_count_##size##_tiles(const void *params, size_t begin, size_t end) {         \
        const pk_pick *p = params;                                                                 \
        for (pk_i64 tile = (pk_i64)begin; tile < (pk_i64)end; tile++) {                            \
            pk_i64 found = 0;                                                                      \
            PK_RUNS(p, tile *PK_TILE, pk_end(p, tile), {                                           \
                if (step == 1)                                                                     \
                    for (pk_i64 k = 0; k < stop - i; k++) found += pk_is_##size(p, at + k);        \
                else                                                                               \
                    for (pk_i64 k = 0; k < stop - i; k++) found += pk_is_##size(p, at + k * step); \
            })                                                                                     \
            ((pk_i64 *)p->counts)[tile] = found;                                                   \
        }                                                                                          \
    }                                                                                              \
    PK_KERNEL(picks_count_##size)                                                                  \
    static inline pk_i64 pk_list_##size(const pk_pick *p, pk_i64 tile, unsigned short *list) {     \
        const pk_i64 first = tile * PK_TILE;                                                       \
        pk_i64 n = 0;                                                                              \
        PK_RUNS(                                                                                   \
            p, first, pk_end(p, tile), for (pk_i64 k = 0; k < stop - i; k++) {                     \
                list[n] = (unsigned short)(i + k - first);                                         \
                n += pk_is_##size(p, at + k * step);                                               \
            })                                                                                     \
        return n;                                                                                  \
    }
#define PK_WHERE(size)                                                                             \
    static void picks_where_##size##_tiles(const void *params, size_t begin, size_t end) {         \
        const pk_pick *p = params;                                                                 \
        unsigned short list[PK_TILE];                                                              \
        for (pk_i64 tile = (pk_i64)begin; tile < (pk_i64)end; tile++) {                            \
            const pk_i64 from = ((const pk_i64 *)p->counts)[tile],                                 \
                         all = pk_list_##size(p, tile, list);                                      \
            for (pk_i64 j = 0; j < all; j++) pk_tell(p, tile *PK_TILE + list[j], from + j);        \
        }                                                                                          \
    }                                                                                              \
    PK_KERNEL(picks_where_##size)
#define PK_MOVE(name, type, to, is)                                                                \
    static void name##_tiles(const void *params, size_t begin, size_t end) {                       \
        const pk_pick *p = params;                                                                 \
        unsigned short list[PK_TILE];                                                              \
        for (pk_i64 at = (pk_i64)begin; at < (pk_i64)end; at++) {                                  \
            const pk_i64 tile = at / p->parts, all = pk_list_1(p, tile, list);                     \
            PK_PART(p, all, at % p->parts)                                                         \
            type *begin_line = (type *)p->line;                                                    \
            if (!p->same) begin_line += ((const pk_i64 *)p->counts)[tile] * p->inner;              \
            for (pk_i64 k = lo, stop; k < hi; k = stop) {                                          \
                const pk_i64 j = pk_quotient(k, p->inner), row = j * p->inner;                     \
                type *items =                                                                      \
                    (type *)p->items + pk_offset(&p->at, p->strides, tile * PK_TILE + list[j]);    \
                type *line = begin_line + (p->same ? k - row : k);                                 \
                stop = row + p->inner < hi ? row + p->inner : hi;                                  \
                for (; k < stop; k++, line++) {                                                    \
                    type *item = items + pk_offset(&p->within, p->within.strides, k - row);        \
                    *to = *is;                                                                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    PK_KERNEL(name)
#endif
#define PK_MOVES(size, type)                                                                       \
    PK_MOVE(picks_get_##size, type, line, item)                                                    \
    PK_MOVE(picks_put_##size, type, item, line)
PK_COUNT(1)
PK_COUNT(2)
PK_COUNT(4)
PK_COUNT(8)
PK_COUNT(16)
PK_WHERE(1)
PK_WHERE(2)
PK_WHERE(4)
PK_WHERE(8)
PK_WHERE(16)
PK_MOVES(1, unsigned char)
PK_MOVES(2, unsigned short)
PK_MOVES(4, unsigned)
PK_MOVES(8, pk_u64)
PK_MOVES(16, pk_16)

#endif
