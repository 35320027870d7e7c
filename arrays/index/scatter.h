/* scatter.h: values combined with what is at their places: one text for both back ends (scatter.c),
** behind prelude.h, indices.h, spots.h and scatter_params.h.
**
** Two ways. Where the result does not depend on the order (integers, the least and the greatest),
** each value is combined at once: scatter_each, with atomics on a device. The least and the
** greatest go by the numbers' order, -0.0 below 0.0, and a NaN that wins has always the same bits.
**
** Where it does (floats: they are rounded), values are folded in an order of their own. Keys say
** for each entry (a row of values) which place it is for; they are sorted, and `places` says where
** each entry was. A chunk is a fixed number of entries, folded by one thread for each column, run
** by run: a run is the entries with one key. A run that lies within its chunk is done with, and
** combined with what is at its place. What it has in this chunk of another is a partial result: an
** entry of the next level, which is folded in the same way, until one chunk has them all. So a
** chunk makes two entries at most, at 2c for the run that it begins in the midst of, at 2c + 1 for
** the one that it does not see the end of. Of a run that fills the chunk the second one is void: it
** has the key, so that entries of one run stay neighbours, and no value.
** Integers that are added can be narrower than their sums. Blocks that have room for all sums add
** in it first (scatter_here). Rows of many columns are sorted as floats are, and what is left of a
** run in each chunk is added at once (scatter_rows).
** Sums of rows of few columns, and those of higher levels, are folded by blocks of a device instead
** (scatter_tile): a tile of entries is a chunk, whose entries are read side by side. Where that
** saves a pass of the sort, keys are sorted without their lowest bit, and a run has two sums
** (scatter_pairs).
** Sums of few entries have a text of their own (scatter_few.h). */
#ifndef TIDEI_SCATTER_H
#define TIDEI_SCATTER_H

#ifndef __CUDACC_RTC__
#include <math.h>
#include "arrays/expr/prelude.h"
#include "arrays/index/scatter_params.h"
#define SC_UNROLL
#else
#define SC_UNROLL _Pragma("unroll")
#endif

/* ---- in any order ---- */

/* The bits at a place, in the low end of a word; signed ones with their sign. */
GA_FN ga_u64 sc_bits(ga_u64 address, ga_i64 at, int size, int is_signed) {
    return (ga_u64)ga_read(address, at, size, is_signed);
}

GA_FN double sc_from_bits(ga_u64 bits) {
    union {
        ga_u64 u;
        double f;
    } v;
    v.u = bits;
    return v.f;
}

GA_FN double sc_number(int type, ga_u64 bits) {
    return type == SC_F16    ? (double)td_load_f16((td_f16)bits)
           : type == SC_BF16 ? (double)td_load_bf16((td_bf16)bits)
           : type == SC_F32  ? (double)td_from_bits_f32((td_u32)bits)
                             : sc_from_bits(bits);
}

/* The sum of floats: f32 in f32. */
GA_FN ga_u64 sc_sum(int type, ga_u64 a, ga_u64 b) {
    if (type == SC_F32)
        return td_bits_f32(td_from_bits_f32((td_u32)a) + td_from_bits_f32((td_u32)b));
    return td_bits_f64(sc_from_bits(a) + sc_from_bits(b));
}

/* The bits of the least or the greatest of two floats, the same in whatever order they come. */
GA_FN ga_u64 sc_extreme(int type, int op, ga_u64 was, ga_u64 value) {
    double a = sc_number(type, was), b = sc_number(type, value);
    if (b != b)
        return type == SC_F16    ? 0x7e00u
               : type == SC_BF16 ? 0x7fc0u
               : type == SC_F32  ? 0x7fc00000u
                                 : 0x7ff8000000000000ULL;
    if (a != a) return was;
    if (a == b) return op == SC_MIN ? was | value : was & value; /* zeros, or the same bits */
    return (op == SC_MIN) == (a < b) ? was : value;
}

GA_FN ga_u64 sc_combine(int type, int op, ga_u64 was, ga_u64 value) {
    if (type > SC_UINT)
        return op == SC_ADD ? sc_sum(type, was, value) : sc_extreme(type, op, was, value);
    if (op == SC_ADD) return was + value;
    if (op == SC_MUL) return was * value;
    int less = type == SC_INT ? (ga_i64)was < (ga_i64)value : was < value;
    return (op == SC_MIN) == less ? was : value;
}

#ifdef __CUDACC_RTC__
/* Where the device has an instruction for it; 0: it has none. */
GA_FN int sc_by_instruction(const pl_call *p, ga_i64 at, ga_u64 value, int size) {
    int is_signed = p->type == SC_INT;
    if (p->type > SC_UINT) {
        if (p->op != SC_ADD) return 0;
        if (p->type == SC_F32)
            atomicAdd(&((float *)p->far)[at], td_from_bits_f32((td_u32)value));
        else
            atomicAdd(&((double *)p->far)[at], sc_from_bits(value));
        return 1;
    }
    if (size < 4 || p->op == SC_MUL) return 0;
    if (p->op == SC_ADD && size == 4)
        atomicAdd(&((unsigned *)p->far)[at], (unsigned)value);
    else if (p->op == SC_ADD)
        atomicAdd(&((ga_u64 *)p->far)[at], value);
    else if (size == 4 && is_signed)
        p->op == SC_MIN ? atomicMin(&((int *)p->far)[at], (int)value)
                        : atomicMax(&((int *)p->far)[at], (int)value);
    else if (size == 4)
        p->op == SC_MIN ? atomicMin(&((unsigned *)p->far)[at], (unsigned)value)
                        : atomicMax(&((unsigned *)p->far)[at], (unsigned)value);
    else if (is_signed)
        p->op == SC_MIN ? atomicMin(&((ga_i64 *)p->far)[at], (ga_i64)value)
                        : atomicMax(&((ga_i64 *)p->far)[at], (ga_i64)value);
    else
        p->op == SC_MIN ? atomicMin(&((ga_u64 *)p->far)[at], value)
                        : atomicMax(&((ga_u64 *)p->far)[at], value);
    return 1;
}

/* Two's complement of W's bits as one of 64, where p's components have signs. */
template <class W> GA_FN ga_u64 sc_extended(const pl_call *p, W bits) {
    const int above = 64 - (int)sizeof(W) * 8;
    return p->type == SC_INT ? (ga_u64)((ga_i64)((ga_u64)bits << above) >> above) : (ga_u64)bits;
}

/* By comparing and exchanging, in words of the element's own size: no neighbour is touched. `seen`
** was read there. */
template <class W> GA_FN void sc_by_exchange(const pl_call *p, W *w, ga_u64 value, W seen) {
    W was, becomes;
    do {
        was = seen;
        becomes = (W)sc_combine(p->type, p->op, sc_extended(p, was), value);
    } while (becomes != was && (seen = atomicCAS(w, was, becomes)) != was);
}

/* A byte, by exchanges of the word of four bytes that it lies in: each keeps what its neighbours
** have, whoever writes these meanwhile. */
GA_FN void sc_byte_by_exchange(const pl_call *p, unsigned char *byte, ga_u64 value) {
    unsigned *w = (unsigned *)((ga_u64)byte & ~3ULL);
    const unsigned shift = (unsigned)((ga_u64)byte & 3) * 8;
    unsigned was, becomes, seen = *w;
    do {
        was = seen;
        const ga_u64 x =
            sc_combine(p->type, p->op, sc_extended(p, (unsigned char)(was >> shift)), value);
        becomes = (was & ~(255u << shift)) | (unsigned)(x & 255) << shift;
    } while (becomes != was && (seen = atomicCAS(w, was, becomes)) != was);
}

GA_FN void sc_merge(const pl_call *p, ga_i64 at, ga_u64 value, int size) {
    if (sc_by_instruction(p, at, value, size)) return;
    if (size == 8)
        sc_by_exchange(p, (ga_u64 *)p->far + at, value, ((ga_u64 *)p->far)[at]);
    else if (size == 4)
        sc_by_exchange(p, (unsigned *)p->far + at, value, ((unsigned *)p->far)[at]);
    else if (size == 2)
        sc_by_exchange(p, (unsigned short *)p->far + at, value, ((unsigned short *)p->far)[at]);
    else
        sc_byte_by_exchange(p, (unsigned char *)p->far + at, value);
}
#else
static inline void sc_merge(const pl_call *p, ga_i64 at, ga_u64 value, int size) {
    ga_u64 x = sc_combine(p->type, p->op, sc_bits(p->far, at, size, p->type == SC_INT), value);
    switch (size) {
    case 1: ((unsigned char *)p->far)[at] = (unsigned char)x; break;
    case 2: ((unsigned short *)p->far)[at] = (unsigned short)x; break;
    case 4: ((unsigned *)p->far)[at] = (unsigned)x; break;
    default: ((ga_u64 *)p->far)[at] = x;
    }
}
#endif

/* One element, of p->parts components of `size` bytes. */
GA_FN void sc_one(const pl_call *p, ga_i64 far, ga_i64 near, int size) {
    for (int k = 0; k < p->parts; k++)
        sc_merge(p, far * p->parts + k,
                 sc_bits(p->near, near * p->parts + k, size, p->type == SC_INT), size);
}

#ifdef __CUDACC_RTC__
/* What a lane combines at once: a component, or those of one or two bytes that share a word. */
struct sc_unit {
    ga_i64 far, near; /* of the first component */
    int n;            /* components: SC_SHARE(their size) at most */
    ga_u64 value, seen;
};
#define SC_SHARE(size) ((size) < 4 ? 4 / (size) : 1)

/* Unit u of the row whose first components are at far and near. Units are cut where words are, so
** that the first and the last one may have fewer components than others. */
template <int SIZE> GA_FN sc_unit sc_unit_of(const pl_call *p, ga_i64 far, ga_i64 near, ga_i64 u) {
    const ga_i64 across = p->shape[p->ndim - 1] * p->parts;
    if (SC_SHARE(SIZE) == 1) return {far + u, near + u, u < across};
    const ga_i64 cut = ((ga_i64)(p->far / SIZE) + far) & (SC_SHARE(SIZE) - 1);
    const ga_i64 first = SC_SHARE(SIZE) * u - cut, c = first > 0 ? first : 0;
    const ga_i64 end = first + SC_SHARE(SIZE) < across ? first + SC_SHARE(SIZE) : across;
    return {far + c, near + c, end > c ? (int)(end - c) : 0};
}

template <int SIZE> struct sc_part { typedef td_u16 bits; }; /* that share a word */
template <> struct sc_part<1> { typedef unsigned char bits; };

/* All components of a word. A sum that is carried out of the lower half is taken back from the
** upper one, where sums come to the same in any order. */
template <int SIZE>
GA_FN void sc_merge_word(const pl_call *p, unsigned *w, unsigned values, unsigned seen) {
    typedef typename sc_part<SIZE>::bits part;
    if (SIZE == 2 && p->type <= SC_UINT && p->op == SC_ADD) {
        const unsigned was = atomicAdd(w, values);
        if ((was & 0xffffu) + (values & 0xffffu) > 0xffffu) atomicAdd(w, 0xffff0000u);
        return;
    }
    unsigned was, becomes;
    do {
        was = seen;
        becomes = 0;
        SC_UNROLL for (int at = 0; at < 32; at += 8 * SIZE) {
            const ga_u64 x = sc_combine(p->type, p->op, sc_extended(p, (part)(was >> at)),
                                        sc_extended(p, (part)(values >> at)));
            becomes |= (unsigned)(part)x << at;
        }
    } while (becomes != was && (seen = atomicCAS(w, was, becomes)) != was);
}

template <int SIZE> GA_FN void sc_read_unit(const pl_call *p, sc_unit &u) {
    u.value = u.seen = 0;
    if (!u.n) return;
    if (SC_SHARE(SIZE) == 1)
        u.value = sc_bits(p->near, u.near, SIZE, p->type == SC_INT);
    else
        SC_UNROLL for (int k = 0; k < SC_SHARE(SIZE); k++) if (k < u.n) u.value |=
            sc_bits(p->near, u.near + k, SIZE, false) << 8 * SIZE * k;
    if (p->op == SC_ADD || (SIZE >= 4 && p->type <= SC_UINT && p->op != SC_MUL)) return;
    if (SIZE == 8)
        u.seen = ((const ga_u64 *)p->far)[u.far];
    else if (u.n == SC_SHARE(SIZE))
        u.seen = *(const unsigned *)(p->far + u.far * SIZE);
}

template <int SIZE> GA_FN void sc_merge_unit(const pl_call *p, const sc_unit &u) {
    if (SC_SHARE(SIZE) > 1) {
        if (u.n == SC_SHARE(SIZE))
            sc_merge_word<SIZE>(p, (unsigned *)(p->far + u.far * SIZE), (unsigned)u.value,
                                (unsigned)u.seen);
        else
            for (int k = 0; k < u.n; k++)
                sc_merge(p, u.far + k,
                         sc_extended(p, (typename sc_part<SIZE>::bits)(u.value >> 8 * SIZE * k)),
                         SIZE);
    } else if (!u.n || sc_by_instruction(p, u.far, u.value, SIZE))
        return;
    else if (SIZE == 8)
        sc_by_exchange(p, (ga_u64 *)p->far + u.far, u.value, u.seen);
    else
        sc_by_exchange(p, (unsigned *)p->far + u.far, u.value, (unsigned)u.seen);
}

/* Rows of components that lie together on both sides. A warp has a few rows, whose places its lanes
** find, and goes through a stretch of their units: all of short rows, a part of a long one. It
** reads several units of each lane before it combines one. */
enum { SC_AT_ONCE = 4 };
template <int SIZE> GA_FN void sc_rows(const pl_call *p) {
    const ga_i64 width = p->shape[p->ndim - 1], rows = p->n / width, all = p->by_rows * p->units;
    const ga_i64 stretches = kt_quotient(all + p->stretch - 1, p->stretch);
    const ga_i64 items = (rows + p->by_rows - 1) / p->by_rows * stretches;
    const int lane = (int)threadIdx.x % 32;
    for (ga_i64 i = ((ga_i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; i < items;
         i += (ga_i64)gridDim.x * blockDim.x / 32) {
        const ga_i64 group = kt_quotient(i, stretches),
                     begin = (i - group * stretches) * p->stretch;
        const ga_i64 end = begin + p->stretch < all ? begin + p->stretch : all;
        const ga_i64 row = group * p->by_rows + lane % p->by_rows;
        pl_spot s = {0, 0, 0, 0, 1};
        if (row < rows) s = pl_find(p, row * width);
        for (ga_i64 base = begin; base < end; base += 32 * SC_AT_ONCE) {
            sc_unit units[SC_AT_ONCE];
            SC_UNROLL for (int j = 0; j < SC_AT_ONCE; j++) {
                const ga_i64 u = base + j * 32 + lane;
                pl_spot at = s;
                int r = 0;
                if (p->by_rows > 1) {
                    r = (int)kt_divided(&p->by_units, (unsigned)u);
                    at.far = __shfl_sync(~0u, s.far, r % p->by_rows);
                    at.near = __shfl_sync(~0u, s.near, r % p->by_rows);
                    at.bad = __shfl_sync(~0u, s.bad, r % p->by_rows);
                }
                units[j] =
                    sc_unit_of<SIZE>(p, at.far * p->parts, at.near * p->parts, u - r * p->units);
                if (u >= end || at.bad) units[j].n = 0;
            }
            SC_UNROLL for (int j = 0; j < SC_AT_ONCE; j++) sc_read_unit<SIZE>(p, units[j]);
            SC_UNROLL for (int j = 0; j < SC_AT_ONCE; j++) sc_merge_unit<SIZE>(p, units[j]);
        }
    }
}

#define SC_EACH(name, size)                                                                        \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256, 4)                                          \
         name(const __grid_constant__ pl_call p) {                                                 \
             kt_grid_wait();                                                                       \
             if (p.by_rows)                                                                        \
                 sc_rows<size>(&p);                                                                \
             else                                                                                  \
                 PL_EACH(i) {                                                                      \
                     pl_spot s = pl_find(&p, i);                                                   \
                     if (!s.bad) sc_one(&p, s.far, s.near, size);                                  \
                 }                                                                                 \
         })
#else
#define SC_ONE_1(f, n) sc_one(p, f, n, 1)
#define SC_ONE_2(f, n) sc_one(p, f, n, 2)
#define SC_ONE_4(f, n) sc_one(p, f, n, 4)
#define SC_ONE_8(f, n) sc_one(p, f, n, 8)
#define SC_EACH(name, size)                                                                        \
    static void name(const void *params) {                                                         \
        const pl_call *p = params;                                                                 \
        PL_LOOP(0, p->n, 0, SC_ONE_##size)                                                         \
    }
#endif
SC_EACH(scatter_each_1, 1)
SC_EACH(scatter_each_2, 2)
SC_EACH(scatter_each_4, 4)
SC_EACH(scatter_each_8, 8)

/* ---- keys ---- */

GA_FN void sc_key(const sc_list *p, ga_i64 i) {
    const ga_i64 v = sc_key_of(p, i);
    if (p->wide)
        ((ga_i64 *)p->keys)[i] = v;
    else
        ((unsigned *)p->keys)[i] = (unsigned)v;
}

/* ---- in order ---- */

#define SC_VOID  (1LL << 62) /* in a key: the entry has no value */
#define SC_AHEAD 8           /* entries that are read before they are folded */

GA_FN ga_i64 sc_entry_key(const sc_fold *p, ga_i64 e) {
    return p->wide ? ((const ga_i64 *)p->keys)[e] : (ga_i64)((const unsigned *)p->keys)[e];
}
GA_FN ga_i64 sc_plain(ga_i64 key) { return key < 0 ? key : key & ~SC_VOID; }
GA_FN int sc_void(ga_i64 key) { return key >= 0 && (key & SC_VOID) != 0; }

/* The keys of the entries from e on, void from `last` on, and where their values lie: of a level
** above the first, by their number. All keys are read before one is looked at, and all places. */
GA_FN void sc_read_keys(const sc_fold *p, ga_i64 e, ga_i64 last, ga_i64 *keys, ga_i64 *at) {
    if (p->wide)
        SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) keys[j] =
            e + j < last ? ((const ga_i64 *)p->keys)[e + j] : SC_VOID;
    else
        SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) keys[j] =
            e + j < last ? (ga_i64)((const unsigned *)p->keys)[e + j] : SC_VOID;
    if (p->places && p->places_size == 4)
        SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) at[j] =
            e + j < last ? (ga_i64)((const unsigned *)p->places)[e + j] : 0;
    else if (p->places)
        SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) at[j] =
            e + j < last ? ((const ga_i64 *)p->places)[e + j] : 0;
    else
        SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) at[j] = e + j < last ? e + j : 0;
    if (p->level) return;
    SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) at[j] =
        sc_offset(p->long_ndim, p->long_shape, p->long_strides, at[j]);
}

#define SC_SAME(x)          (x)
#define SC_PLUS(T, a, b)    ((a) + (b))
#define SC_TIMES(T, a, b)   ((a) * (b))
#define SC_C_PLUS(T, a, b)  sc_plus_##T(a, b)
#define SC_C_TIMES(T, a, b) sc_times_##T(a, b)
/* What is known of the run that a chunk is at. */
#define SC_RUN(name, acc)                                                                          \
    typedef struct sc_run_##name {                                                                 \
        ga_i64 key;                                                                                \
        int begins, has; /* it begins in this chunk; it has a value yet */                         \
        acc value;                                                                                 \
    } sc_run_##name;

/* The end of a run's part in chunk c: `ends` where that is the run's end too. The keys of what is
** left for the next level go to head and tail. */
#define SC_END(name, elem, acc, LOAD, STORE, PLUS, TIMES)                                          \
    GA_FN acc sc_none_##name(void) {                                                               \
        acc none = {0};                                                                            \
        return none;                                                                               \
    }                                                                                              \
    GA_FN acc sc_join_##name(const sc_fold *p, acc a, acc b) {                                     \
        return p->op == SC_MUL ? TIMES(acc, a, b) : PLUS(acc, a, b);                               \
    }                                                                                              \
    GA_FN void sc_end_##name(const sc_fold *p, const sc_run_##name *r, int ends, ga_i64 c,         \
                             ga_i64 col, ga_i64 far, ga_i64 *head, ga_i64 *tail) {                 \
        if (r->key < 0 || r->key >= p->length) return;                                             \
        if (r->begins && ends) {                                                                   \
            elem *to = (elem *)p->far + far + r->key * p->step;                                    \
            if (!r->has) return;                                                                   \
            *to = STORE(sc_join_##name(p, p->fresh ? sc_none_##name() : LOAD(*to), r->value));     \
        } else {                                                                                   \
            ga_i64 slot = 2 * c + r->begins;                                                       \
            *(r->begins ? tail : head) = r->has ? r->key : r->key | SC_VOID;                       \
            if (r->has) ((acc *)p->next_near)[slot * p->width + col] = r->value;                   \
            if (!r->begins && !ends) *tail = r->key | SC_VOID;                                     \
        }                                                                                          \
    }

/* Folds column `col` of chunk c. */
#define SC_CHUNK_FOLD(name, elem, acc, LOAD, STORE, PLUS, TIMES)                                   \
    GA_FN void sc_chunk_##name(const sc_fold *p, ga_i64 c, ga_i64 col) {                           \
        ga_i64 first = c * p->chunk, last = first + p->chunk < p->n ? first + p->chunk : p->n;     \
        ga_i64 far = sc_offset(p->ndim, p->shape, p->far_strides, col), head = -1, tail = -1;      \
        ga_i64 across = sc_offset(p->ndim, p->shape, p->near_strides, col);                        \
        ga_i64 keys[SC_AHEAD], at[SC_AHEAD];                                                       \
        acc values[SC_AHEAD];                                                                      \
        sc_run_##name r = {0};                                                                     \
        r.key = sc_plain(sc_entry_key(p, first));                                                  \
        r.begins = first == 0 || sc_plain(sc_entry_key(p, first - 1)) != r.key;                    \
        r.has = 0;                                                                                 \
        r.value = sc_none_##name();                                                                \
        for (ga_i64 e = first; e < last; e += SC_AHEAD) {                                          \
            sc_read_keys(p, e, last, keys, at);                                                    \
            SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) {                                         \
                const int none = sc_void(keys[j]) || keys[j] < 0;                                  \
                const elem *element = (const elem *)p->near + across + at[j];                      \
                const acc *partial = (const acc *)p->near + at[j] * p->width + col;                \
                values[j] = none ? sc_none_##name() : p->level ? *partial : LOAD(*element);        \
            }                                                                                      \
            SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) {                                         \
                ga_i64 key = sc_plain(keys[j]);                                                    \
                if (e + j >= last) break;                                                          \
                if (key != r.key) {                                                                \
                    sc_end_##name(p, &r, 1, c, col, far, &head, &tail);                            \
                    r.key = key;                                                                   \
                    r.begins = 1;                                                                  \
                    r.has = 0;                                                                     \
                }                                                                                  \
                if (sc_void(keys[j]) || keys[j] < 0) continue;                                     \
                r.value = r.has ? sc_join_##name(p, r.value, values[j]) : values[j];               \
                r.has = 1;                                                                         \
            }                                                                                      \
        }                                                                                          \
        sc_end_##name(p, &r, last == p->n || sc_plain(sc_entry_key(p, last)) != r.key, c, col,     \
                      far, &head, &tail);                                                          \
        if (!p->next_keys || col) return;                                                          \
        ((ga_i64 *)p->next_keys)[2 * c] = head;                                                    \
        ((ga_i64 *)p->next_keys)[2 * c + 1] = tail;                                                \
    }

#ifdef __CUDACC_RTC__
/* ---- in order: tiles ---- */

enum { SC_ROOM = SC_TILE + SC_THREADS };
/* A thread's items lie apart from the next one's, so that threads use different banks. */
GA_FN int sc_slot(int i) { return i + i / SC_ITEMS; }

/* The sum of an open run, and whether it begins in what has been looked at. */
template <class A> struct sc_open {
    A sum;
    int begins;
};
template <class OPS> struct sc_tile {
    typename OPS::acc value[SC_ROOM];
    int key[SC_ROOM]; /* -1: nobody's */
    sc_open<typename OPS::acc> warps[SC_THREADS / 32];
    ga_i64 left[2]; /* keys of the runs that the tile does not see the begin, or the end, of */
};

GA_FN float sc_up(float x, unsigned d) { return __shfl_up_sync(~0u, x, d); }
GA_FN double sc_up(double x, unsigned d) { return __shfl_up_sync(~0u, x, d); }
GA_FN sc_c32 sc_up(sc_c32 x, unsigned d) { return {sc_up(x.re, d), sc_up(x.im, d)}; }
GA_FN sc_c64 sc_up(sc_c64 x, unsigned d) { return {sc_up(x.re, d), sc_up(x.im, d)}; }

template <class OPS>
GA_FN sc_open<typename OPS::acc> sc_append(const sc_open<typename OPS::acc> &a,
                                           const sc_open<typename OPS::acc> &b) {
    return {b.begins ? b.sum : OPS::plus(a.sum, b.sum), a.begins | b.begins};
}

/* What the threads before this one have of the run that is open where it begins. Always in the same
** order. */
template <class OPS>
GA_FN sc_open<typename OPS::acc> sc_open_before(sc_tile<OPS> &s, sc_open<typename OPS::acc> mine) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int d = 1; d < 32; d *= 2) {
        const sc_open<typename OPS::acc> other = {sc_up(mine.sum, (unsigned)d),
                                                  __shfl_up_sync(~0u, mine.begins, (unsigned)d)};
        if (lane >= d) mine = sc_append<OPS>(other, mine);
    }
    if (lane == 31) s.warps[warp] = mine;
    sc_open<typename OPS::acc> before = {sc_up(mine.sum, 1), __shfl_up_sync(~0u, mine.begins, 1)};
    if (lane == 0) before = {OPS::nothing(), 0};
    __syncthreads();
    sc_open<typename OPS::acc> open = {OPS::nothing(), 0};
    for (int w = 0; w < warp; w++) open = sc_append<OPS>(open, s.warps[w]);
    return sc_append<OPS>(open, before);
}

/* A run, or a tile's part of one, as sc_end does it; of a pair, the key is the lower one's. */
template <class OPS>
GA_FN void sc_tell(const sc_fold *p, ga_i64 tile, ga_i64 col, ga_i64 far, int key,
                   const sc_open<typename OPS::acc> &run, bool ends, ga_i64 *head, ga_i64 *tail) {
    if (key < 0 || key >= p->length) return;
    if (run.begins && ends) {
        OPS::put(p, (typename OPS::elem *)p->far + far, key, run.sum);
        return;
    }
    ((typename OPS::acc *)p->next_near)[(2 * tile + run.begins) * p->width + col] = run.sum;
    if (run.begins)
        *tail = key;
    else
        *head = key;
    if (!run.begins && !ends) *tail = key | SC_VOID;
}

/* Reads the thread's entries of a tile that begins at `first` and has n: every SC_THREADS-th. All
** keys are read before one is looked at, then all places, then all values; no load hangs on a
** condition: where there is no entry, or none with a value, that of another is read. */
template <class T> GA_FN void sc_read_each(const void *from, ga_i64 first, int n, ga_i64 *to) {
    SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) {
        const int i = j * SC_THREADS + (int)threadIdx.x;
        to[j] = (ga_i64)((const T *)from)[first + (i < n ? i : n - 1)];
    }
}
template <class OPS>
GA_FN void sc_read_tile(const sc_fold *p, ga_i64 first, int n, ga_i64 col, int (&key)[SC_ITEMS],
                        typename OPS::acc (&value)[SC_ITEMS]) {
    typedef typename OPS::elem elem;
    typedef typename OPS::acc acc;
    const ga_i64 across = p->level ? col : sc_offset(p->ndim, p->shape, p->near_strides, col);
    const int t = (int)threadIdx.x;
    ga_i64 at[SC_ITEMS];
    bool none[SC_ITEMS];
    int which[SC_ITEMS];
    if (p->wide)
        sc_read_each<ga_i64>((const void *)p->keys, first, n, at);
    else
        sc_read_each<unsigned>((const void *)p->keys, first, n, at);
    SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) {
        const bool there = j * SC_THREADS + t < n;
        none[j] = !there || at[j] < 0 || sc_void(at[j]);
        key[j] = there ? (int)sc_plain(at[j]) : -1;
        which[j] = key[j] & 1;
        if (OPS::paired && key[j] >= p->length) none[j] = true;
        if (OPS::paired && key[j] > 0) key[j] &= ~1;
    }
    if (p->places && p->places_size == 4)
        sc_read_each<unsigned>((const void *)p->places, first, n, at);
    else if (p->places)
        sc_read_each<ga_i64>((const void *)p->places, first, n, at);
    else
        SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) at[j] =
            first + (none[j] ? 0 : j * SC_THREADS + t);
    if (p->level) {
        const acc *from = (const acc *)p->near + across;
        SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) value[j] = from[at[j] * p->width];
    } else {
        if (p->long_ndim == 1)
            SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) at[j] *= p->long_strides[0];
        else
            for (int j = 0; j < SC_ITEMS; j++)
                at[j] = sc_offset(p->long_ndim, p->long_shape, p->long_strides, at[j]);
        const elem *from = (const elem *)p->near + across;
        SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) value[j] = OPS::place(from[at[j]], which[j]);
    }
    SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) if (none[j]) value[j] = OPS::nothing();
}

/* Folds column `col` of a tile; called by the whole block. */
template <class OPS>
GA_FN void sc_fold_tile(const sc_fold *p, sc_tile<OPS> &s, ga_i64 tile, ga_i64 col) {
    typedef typename OPS::acc acc;
    const int t = (int)threadIdx.x;
    const ga_i64 first = tile * SC_TILE;
    const ga_i64 far = sc_offset(p->ndim, p->shape, p->far_strides, col);
    int key[SC_ITEMS];
    acc value[SC_ITEMS];
    sc_read_tile<OPS>(p, first, p->n - first < SC_TILE ? (int)(p->n - first) : SC_TILE, col, key,
                      value);
    int before = -2, after = -2; /* no key */
    if (t == 0 && tile > 0) before = (int)sc_plain(sc_entry_key(p, first - 1));
    if (t == SC_THREADS - 1 && first + SC_TILE < p->n)
        after = (int)sc_plain(sc_entry_key(p, first + SC_TILE));
    if (OPS::paired && before > 0) before &= ~1;
    if (OPS::paired && after > 0) after &= ~1;
    __syncthreads(); /* the tile before this one is done with */
    SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) {
        const int at = sc_slot(j * SC_THREADS + t);
        s.key[at] = key[j];
        s.value[at] = value[j];
    }
    if (t < 2) s.left[t] = -1;
    __syncthreads();
    SC_UNROLL for (int j = 0; j < SC_ITEMS; j++) {
        key[j] = s.key[sc_slot(t * SC_ITEMS) + j];
        value[j] = s.value[sc_slot(t * SC_ITEMS) + j];
    }
    /* The thread's first run, and the last one, which may be the same. Those between them are
    ** over. */
    const bool begins = key[0] != (t ? s.key[sc_slot(t * SC_ITEMS - 1)] : before);
    const int next = t < SC_THREADS - 1 ? s.key[sc_slot((t + 1) * SC_ITEMS)] : after;
    sc_open<acc> head, run = {value[0], begins};
    bool parted = false;
    SC_UNROLL for (int j = 1; j < SC_ITEMS; j++) {
        if (key[j] == key[j - 1]) {
            run.sum = OPS::plus(run.sum, value[j]);
            continue;
        }
        if (parted)
            sc_tell<OPS>(p, tile, col, far, key[j - 1], run, true, &s.left[0], &s.left[1]);
        else
            head = run;
        parted = true;
        run = {value[j], 1};
    }
    const sc_open<acc> open = sc_open_before<OPS>(s, run);
    if (parted)
        sc_tell<OPS>(p, tile, col, far, key[0], sc_append<OPS>(open, head), true, &s.left[0],
                     &s.left[1]);
    else
        run = sc_append<OPS>(open, run);
    if (next != key[SC_ITEMS - 1])
        sc_tell<OPS>(p, tile, col, far, key[SC_ITEMS - 1], run, true, &s.left[0], &s.left[1]);
    else if (t == SC_THREADS - 1)
        sc_tell<OPS>(p, tile, col, far, key[SC_ITEMS - 1], run, false, &s.left[0], &s.left[1]);
    __syncthreads();
    if (t < 2 && p->next_keys && !col) ((ga_i64 *)p->next_keys)[2 * tile + t] = s.left[t];
}

/* ---- in order: rows of many columns ---- */

enum {
    SC_CHUNKS = SC_THREADS / (SC_FEW + 1) + 2, /* that a block's threads are at */
    SC_AT = SC_CHUNKS * SC_CHUNK
};
/* Of the entries from one before the block's first chunk to one behind its last: keys, and where
** their values lie. Chunks lie apart, so that threads of several ones use different banks. */
struct sc_chunks {
    int key[SC_AT + SC_CHUNKS + 4]; /* -2: there is no entry */
    unsigned place[SC_AT + SC_CHUNKS + 4];
};
GA_FN int sc_chunk_slot(int e) { return e + 1 + (e + 1) / SC_CHUNK; }

/* No load hangs on a condition, so that several are under way: where there is no entry, that of
** another is read. */
GA_FN ga_i64 sc_within(ga_i64 e, ga_i64 n) { return e < 0 ? 0 : e < n ? e : n - 1; }
template <class T> GA_FN void sc_read_places(const sc_fold *p, sc_chunks &s, ga_i64 first, int n) {
    _Pragma("unroll 4") for (int e = (int)threadIdx.x; e < n; e += SC_THREADS)
        s.place[sc_chunk_slot(e)] = (unsigned)((const T *)p->places)[sc_within(first + e, p->n)];
}
GA_FN void sc_read_chunks(const sc_fold *p, sc_chunks &s, ga_i64 first, int n) {
    _Pragma("unroll 4") for (int e = (int)threadIdx.x - 1; e <= n; e += SC_THREADS) {
        const int key = ((const int *)p->keys)[sc_within(first + e, p->n)];
        s.key[sc_chunk_slot(e)] = first + e < 0 || first + e >= p->n ? -2 : key;
    }
    if (p->places && p->places_size == 4)
        sc_read_places<unsigned>(p, s, first, n);
    else if (p->places)
        sc_read_places<ga_i64>(p, s, first, n);
    else
        for (int e = (int)threadIdx.x; e < n; e += SC_THREADS)
            s.place[sc_chunk_slot(e)] = (unsigned)sc_within(first + e, p->n);
}

/* Folds a column of a chunk, as sc_chunk does; its first entry is the block's e-th. */
template <class OPS>
GA_FN void sc_fold_row(const sc_fold *p, const sc_chunks &s, ga_i64 c, ga_i64 col, int e) {
    typedef typename OPS::acc acc;
    const int last = e + (p->n - c * SC_CHUNK < SC_CHUNK ? (int)(p->n - c * SC_CHUNK) : SC_CHUNK);
    const ga_i64 far = sc_offset(p->ndim, p->shape, p->far_strides, col);
    const typename OPS::near *near =
        (const typename OPS::near *)p->near + sc_offset(p->ndim, p->shape, p->near_strides, col);
    int key = s.key[sc_chunk_slot(e)];
    sc_open<acc> run = {OPS::nothing(), s.key[sc_chunk_slot(e - 1)] != key};
    ga_i64 head = -1, tail = -1;
    for (; e < last; e += SC_AHEAD) {
        acc value[SC_AHEAD];
        SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) value[j] =
            OPS::load(near[s.place[sc_chunk_slot(e + j)] * p->long_strides[0]]);
        SC_UNROLL for (int j = 0; j < SC_AHEAD; j++) {
            if (e + j >= last) break;
            const int next = s.key[sc_chunk_slot(e + j)];
            if (next != key) {
                OPS::tell(p, c, col, far, key, run, true, &head, &tail);
                key = next;
                run = {value[j], 1};
            } else
                run.sum = OPS::plus(run.sum, value[j]);
        }
    }
    OPS::tell(p, c, col, far, key, run, s.key[sc_chunk_slot(last)] != key, &head, &tail);
    if (!p->next_keys || col) return;
    ((ga_i64 *)p->next_keys)[2 * c] = head;
    ((ga_i64 *)p->next_keys)[2 * c + 1] = tail;
}

template <class OPS> GA_FN void sc_fold_rows(const sc_fold *p, sc_chunks &s) {
    const ga_i64 all = p->chunks * p->width;
    for (ga_i64 i = (ga_i64)blockIdx.x * SC_THREADS; i < all; i += (ga_i64)gridDim.x * SC_THREADS) {
        const ga_i64 mine = i + threadIdx.x, last = all - i < SC_THREADS ? all : i + SC_THREADS;
        const ga_i64 first = kt_quotient(i, p->width), c = kt_quotient(mine, p->width);
        const int chunks = (int)(kt_quotient(last - 1, p->width) - first) + 1;
        __syncthreads();
        sc_read_chunks(p, s, first * SC_CHUNK, chunks * SC_CHUNK);
        __syncthreads();
        if (mine < all) sc_fold_row<OPS>(p, s, c, mine - c * p->width, (int)(c - first) * SC_CHUNK);
    }
}
#define SC_ROWS(NAME, ...)                                                                         \
    WANTED(NAME)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ sc_fold p) {   \
        kt_grid_wait();                                                                            \
        __shared__ sc_chunks s;                                                                    \
        __VA_ARGS__;                                                                               \
    })

/* ---- integers, as they are ---- */

/* Adds the run's part to its place. */
GA_FN void sc_add_whole(const sc_fold *p, ga_i64 far, ga_i64 key, ga_u64 sum) {
    if (key >= 0 && key < p->length && sum)
        atomicAdd(&((ga_u64 *)p->far)[far + key * p->step], sum);
}

/* Its values are not read again, so what is left of a run goes to its place at once. */
template <class T> struct sc_whole {
    typedef T near;
    typedef ga_u64 acc;
    static __device__ __forceinline__ acc load(T x) { return (acc)x; }
    static __device__ __forceinline__ acc plus(acc a, acc b) { return a + b; }
    static __device__ __forceinline__ acc nothing() { return 0; }
    static __device__ __forceinline__ void tell(const sc_fold *p, ga_i64, ga_i64, ga_i64 far,
                                                int key, const sc_open<acc> &run, bool, ga_i64 *,
                                                ga_i64 *) {
        sc_add_whole(p, far, key, run.sum);
    }
};
GA_FN void sc_whole_rows(const sc_fold *p, sc_chunks &s) {
    if (p->size == 1)
        p->is_signed ? sc_fold_rows<sc_whole<signed char>>(p, s)
                     : sc_fold_rows<sc_whole<unsigned char>>(p, s);
    else if (p->size == 2)
        p->is_signed ? sc_fold_rows<sc_whole<short>>(p, s)
                     : sc_fold_rows<sc_whole<unsigned short>>(p, s);
    else if (p->size == 4)
        p->is_signed ? sc_fold_rows<sc_whole<int>>(p, s) : sc_fold_rows<sc_whole<unsigned>>(p, s);
    else
        sc_fold_rows<sc_whole<ga_i64>>(p, s);
}

/* All indices of some elements are read before one is looked at, and all values. */
template <class INDEX, class T> GA_FN void sc_add_here(const sc_here *p, unsigned *sums) {
    enum { AHEAD = 4 };
    const sc_fold *f = &p->fold;
    const unsigned all = (unsigned)(f->n * f->width), threads = gridDim.x * SC_HERE_THREADS;
    for (unsigned first = blockIdx.x * SC_HERE_THREADS + threadIdx.x; first < all;
         first += AHEAD * threads) {
        INDEX given[AHEAD];
        T value[AHEAD];
        unsigned col[AHEAD];
        SC_UNROLL for (int j = 0; j < AHEAD; j++) {
            const unsigned i = first + (unsigned)j * threads;
            const unsigned e = i < all ? kt_divided(&p->width, i) : 0;
            col[j] = i < all ? i - e * (unsigned)f->width : 0;
            given[j] = ((const INDEX *)p->list.indices)[e * p->list.strides[0]];
            value[j] = ((const T *)f->near)[e * f->long_strides[0] + col[j] * f->near_strides[0]];
        }
        SC_UNROLL for (int j = 0; j < AHEAD; j++) {
            if (first + (unsigned)j * threads >= all) break;
            const ga_i64 at = ga_from_start((ga_i64)given[j], f->length, p->list.is_signed);
            if (at >= 0 && at < f->length)
                atomicAdd(&sums[(unsigned)at * (unsigned)f->width + col[j]], (unsigned)value[j]);
            else
                ga_report(p->list.fault, p->list.report | (p->list.is_signed ? 0 : GA_UNSIGNED),
                          (ga_i64)given[j], f->length);
        }
    }
}
template <class INDEX> GA_FN void sc_add_each_here(const sc_here *p, unsigned *sums) {
    if (p->fold.size == 1)
        p->fold.is_signed ? sc_add_here<INDEX, signed char>(p, sums)
                          : sc_add_here<INDEX, unsigned char>(p, sums);
    else
        p->fold.is_signed ? sc_add_here<INDEX, short>(p, sums)
                          : sc_add_here<INDEX, unsigned short>(p, sums);
}
#if WANTS(scatter_here)
extern "C" __global__ void __launch_bounds__(SC_HERE_THREADS)
    scatter_here(const __grid_constant__ sc_here p) {
    kt_grid_wait();
    __shared__ unsigned sums[SC_HERE];
    const unsigned width = (unsigned)p.fold.width, n = (unsigned)p.fold.length * width;
    for (unsigned i = threadIdx.x; i < n; i += SC_HERE_THREADS) sums[i] = 0;
    __syncthreads();
    if (p.list.size == 8)
        sc_add_each_here<ga_i64>(&p, sums);
    else if (p.list.is_signed)
        sc_add_each_here<int>(&p, sums);
    else
        sc_add_each_here<unsigned>(&p, sums);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += SC_HERE_THREADS) {
        const unsigned key = i / width, col = i - key * width;
        const ga_u64 sum = p.fold.is_signed ? (ga_u64)(int)sums[i] : (ga_u64)sums[i];
        sc_add_whole(&p.fold, col * p.fold.far_strides[0], key, sum);
    }
}
#endif

/* Two sums of one kind, that of the lower key first. */
template <class OPS, class PAIR> struct sc_pairs {
    typedef typename OPS::elem elem;
    typedef PAIR acc;
    enum { paired = 1 };
    static __device__ __forceinline__ acc place(elem x, int which) {
        const typename OPS::acc value = OPS::load(x), none = OPS::nothing();
        return {which ? none : value, which ? value : none};
    }
    static __device__ __forceinline__ acc plus(acc a, acc b) {
        return {OPS::plus(a.re, b.re), OPS::plus(a.im, b.im)};
    }
    static __device__ __forceinline__ acc nothing() { return {OPS::nothing(), OPS::nothing()}; }
    static __device__ __forceinline__ void put(const sc_fold *p, elem *far, int key, acc sum) {
        OPS::put(p, far, key, sum.re);
        if (key + 1 < p->length) OPS::put(p, far, key + 1, sum.im);
    }
};
#define SC_TILE_KERNEL(NAME, ...)                                                                  \
    WANTED(NAME)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ sc_fold p) {   \
        kt_grid_wait();                                                                            \
        typedef __VA_ARGS__ ops;                                                                   \
        __shared__ sc_tile<ops> s;                                                                 \
        const ga_i64 all = p.chunks * p.width;                                                     \
        for (ga_i64 i = blockIdx.x; i < all; i += gridDim.x) {                                     \
            const ga_i64 tile = kt_quotient(i, p.width);                                           \
            sc_fold_tile<ops>(&p, s, tile, i - tile * p.width);                                    \
        }                                                                                          \
    })
#define SC_TILES(name, ELEM, ACC, LOAD, STORE, PLUS, ...)                                          \
    struct sc_ops_##name {                                                                         \
        typedef ELEM elem, near;                                                                   \
        typedef ACC acc;                                                                           \
        enum { paired = 0 };                                                                       \
        static __device__ __forceinline__ acc load(elem x) { return LOAD(x); }                     \
        static __device__ __forceinline__ acc place(elem x, int) { return load(x); }               \
        static __device__ __forceinline__ void put(const sc_fold *p, elem *far, int key,           \
                                                   acc sum) {                                      \
            elem *to = far + key * p->step;                                                        \
            const acc none = {0};                                                                  \
            *to = store(plus(p->fresh ? none : load(*to), sum));                                   \
        }                                                                                          \
        static __device__ __forceinline__ elem store(acc x) { return STORE(x); }                   \
        static __device__ __forceinline__ acc plus(acc a, acc b) { return PLUS(ACC, a, b); }       \
        static __device__ __forceinline__ acc nothing() { return __VA_ARGS__; }                    \
        static __device__ __forceinline__ void tell(const sc_fold *p, ga_i64 c, ga_i64 col,        \
                                                    ga_i64 far, int key, const sc_open<acc> &run,  \
                                                    bool ends, ga_i64 *head, ga_i64 *tail) {       \
            sc_tell<sc_ops_##name>(p, c, col, far, key, run, ends, head, tail);                    \
        }                                                                                          \
    };                                                                                             \
    SC_ROWS(scatter_rows_##name, sc_fold_rows<sc_ops_##name>(&p, s))                               \
    SC_TILE_KERNEL(scatter_tile_##name, sc_ops_##name)

WANTED(scatter_keys)
(extern "C" __global__ void scatter_keys(const __grid_constant__ sc_list p) {
    kt_grid_wait();
    PL_EACH(i) sc_key(&p, i);
})
#define SC_KERNEL(name)                                                                            \
    WANTED(scatter_fold_##name)                                                                    \
    (extern "C" __global__ void scatter_fold_##name(const __grid_constant__ sc_fold p) {           \
        kt_grid_wait();                                                                            \
        ga_i64 all = p.chunks * p.width;                                                           \
        for (ga_i64 i = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; i < all;                    \
             i += (ga_i64)gridDim.x * blockDim.x) {                                                \
            ga_i64 c = kt_quotient(i, p.width);                                                    \
            sc_chunk_##name(&p, c, i - c * p.width);                                               \
        }                                                                                          \
    })
#else
static void scatter_keys(const void *params) {
    const sc_list *p = params;
    for (ga_i64 i = 0; i < p->n; i++) sc_key(p, i);
}
#define SC_KERNEL(name)                                                                            \
    static void scatter_fold_##name(const void *params) {                                          \
        const sc_fold *p = params;                                                                 \
        for (ga_i64 c = 0; c < p->chunks; c++)                                                     \
            for (ga_i64 col = 0; col < p->width; col++) sc_chunk_##name(p, c, col);                \
    }
#endif
#define SC_FOLD(name, elem, acc, LOAD, STORE, PLUS, TIMES)                                         \
    SC_RUN(name, acc)                                                                              \
    SC_END(name, elem, acc, LOAD, STORE, PLUS, TIMES)                                              \
    SC_CHUNK_FOLD(name, elem, acc, LOAD, STORE, PLUS, TIMES)                                       \
    SC_KERNEL(name)
    SC_FOLD(f16, td_f16, float, td_load_f16, td_store_f16, SC_PLUS, SC_TIMES)
        SC_FOLD(bf16, td_bf16, float, td_load_bf16, td_store_bf16, SC_PLUS, SC_TIMES)
            SC_FOLD(f32, float, float, SC_SAME, SC_SAME, SC_PLUS, SC_TIMES)
                SC_FOLD(f64, double, double, SC_SAME, SC_SAME, SC_PLUS, SC_TIMES)
                    SC_FOLD(c64, sc_c32, sc_c32, SC_SAME, SC_SAME, SC_C_PLUS, SC_C_TIMES)
                        SC_FOLD(c128, sc_c64, sc_c64, SC_SAME, SC_SAME, SC_C_PLUS, SC_C_TIMES)
#ifdef __CUDACC_RTC__
                            SC_ROWS(scatter_rows, sc_whole_rows(&p, s))
    /* -0.0 is the sum that changes none. */
    SC_TILES(f16, td_f16, float, td_load_f16, td_store_f16, SC_PLUS,
             -0.0f) SC_TILES(bf16, td_bf16, float, td_load_bf16, td_store_bf16, SC_PLUS, -0.0f)
        SC_TILES(f32, float, float, SC_SAME, SC_SAME, SC_PLUS, -0.0f)
            SC_TILES(f64, double, double, SC_SAME, SC_SAME, SC_PLUS, -0.0)
                SC_TILES(c64, sc_c32, sc_c32, SC_SAME, SC_SAME, SC_C_PLUS, sc_c32{-0.0f, -0.0f})
                    SC_TILES(c128, sc_c64, sc_c64, SC_SAME, SC_SAME, SC_C_PLUS, sc_c64{-0.0, -0.0})
                        SC_TILE_KERNEL(scatter_pairs_f16, sc_pairs<sc_ops_f16, sc_c32>)
                            SC_TILE_KERNEL(scatter_pairs_bf16, sc_pairs<sc_ops_bf16, sc_c32>)
                                SC_TILE_KERNEL(scatter_pairs_f32, sc_pairs<sc_ops_f32, sc_c32>)
                                    SC_TILE_KERNEL(scatter_pairs_f64, sc_pairs<sc_ops_f64, sc_c64>)
#endif

#endif
