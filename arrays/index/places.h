/* places.h: elements of an array at the places that index arrays name, taken from it or put into
** it: one text for both back ends (places.c).
**
** As gather.h, which is the same for one index array and one axis.
**
** Of elements that are put into one place the last in the order of iteration wins. The host's
** kernel goes in that order. The device's threads do not, so claims are noted first, over the
** dimensions alone along which places differ (a place stands for a whole row where rows are put):
** for each place the last of its claims. A place has a key, a number made of the indices and of
** where the claim is, in the order of memory, so that what is looked up together lies together.
** There are three ways:
** - of a few claims each block notes all, in a hash table of its own, and puts elements where a
**   claim has won (places_put_few);
** - where there is one index array, along one dimension, over lines of few places, a block notes
**   those of some lines, and goes through their places (places_put_lines);
** - else places_claim notes all in a table in memory: a word for each key or, hashed, for each
**   slot. Single elements, and rows that move as one, are put slot by slot: in the order of memory,
**   where the table is not hashed (places_put_slots); longer rows claim by claim (places_put). Of
**   many small elements a word has the value, too, below the claim's number: that of one key's last
**   claim is the greatest word (places_note, places_put_noted), and the table has room for a slice
**   of them at a time, so that caches hold it (places.c).
*/
#ifndef TIDEI_PLACES_H
#define TIDEI_PLACES_H

#ifndef __CUDACC_RTC__
#include "arrays/index/spots.h"
#endif

/* Claims of which a block notes all, and slots to note them in; places whose last claims a block
** has room for, and lines that these are of, so that several blocks run on a multiprocessor. */
enum { PL_FEW = 3072, PL_FEW_SLOTS = 8192, PL_ROOM = 8192, PL_LINES = 512 };
enum { PL_FEW_THREADS = 1024 }; /* of a block, at most */

#ifdef __CUDACC_RTC__
struct alignas(16) pl_16 { /* moves as one */
    ga_u64 part[2];
};

GA_FN ga_i64 pl_first_slot(ga_i64 key, ga_i64 slots) {
    ga_u64 h = (ga_u64)key * 0x9e3779b97f4a7c15ULL;
    return (ga_i64)((h ^ h >> 32) & (ga_u64)(slots - 1));
}

/* Of a table of wide words that is hashed: the keys, which lie behind the winners. */
GA_FN ga_u64 *pl_keys(const pl_call *p) { return (ga_u64 *)p->winners + p->slots; }

GA_FN void pl_claim_wide(const pl_call *p, ga_i64 key, ga_i64 order) {
    const ga_u64 wanted = (ga_u64)key + 1;
    ga_i64 at = p->hashed ? pl_first_slot(key, p->slots) : key;
    for (; p->hashed; at = (at + 1) & (p->slots - 1)) {
        const ga_u64 there = atomicCAS(&pl_keys(p)[at], 0ULL, wanted);
        if (there == 0 || there == wanted) break;
    }
    atomicMax(&((ga_u64 *)p->winners)[at], (ga_u64)order + 1);
}

/* A word has the key above the winner, so that of one key the last claim is the greatest word. */
GA_FN void pl_claim_hashed(const pl_call *p, ga_i64 key, ga_i64 order) {
    const ga_u64 wanted = (ga_u64)(key + 1) << 32 | (ga_u64)(order + 1);
    for (ga_i64 at = pl_first_slot(key, p->slots);; at = (at + 1) & (p->slots - 1)) {
        ga_u64 *w = (ga_u64 *)p->winners + at;
        ga_u64 there = *w;
        if (there == 0) there = atomicCAS(w, 0ULL, wanted);
        if (there == 0) return;
        if ((there ^ wanted) >> 32) continue;
        if (there < wanted) atomicMax(w, wanted);
        return;
    }
}

GA_FN void pl_claim(const pl_call *p, ga_i64 i) {
    pl_spot s = pl_find(p, i);
    if (s.bad) return;
    if (p->wide)
        pl_claim_wide(p, s.key, s.order);
    else if (p->hashed)
        pl_claim_hashed(p, s.key, s.order);
    else
        atomicMax(&((unsigned *)p->winners)[s.key], (unsigned)s.order + 1);
}

/* Whose the slot is: the winner, or -1, and its key. */
GA_FN ga_i64 pl_winner(const pl_call *p, ga_i64 slot, ga_i64 *key) {
    *key = slot;
    if (!p->hashed && !p->wide) return (ga_i64)((const unsigned *)p->winners)[slot] - 1;
    const ga_u64 word = ((const ga_u64 *)p->winners)[slot];
    if (p->hashed) *key = p->wide ? (ga_i64)pl_keys(p)[slot] - 1 : (ga_i64)(word >> 32) - 1;
    return (ga_i64)(p->wide ? word : word & 0xffffffffu) - 1;
}

GA_FN int pl_wins(const pl_call *p, const pl_spot *s) {
    if (s->bad) return 0;
    if (!p->winners) return 1;
    ga_i64 at = p->hashed ? pl_first_slot(s->key, p->slots) : s->key, key;
    for (;; at = (at + 1) & (p->slots - 1)) {
        const ga_i64 winner = pl_winner(p, at, &key);
        if (key == s->key) return winner == s->order;
    }
}

/* Where the place of a key lies. */
GA_FN ga_i64 pl_far_of(const pl_call *p, ga_i64 key) {
    ga_i64 far = 0;
    for (int d = 0; d < p->key_ndim - 1; d++) {
        const ga_i64 rest = kt_quotient(key, p->key_shape[d]);
        far += (key - rest * p->key_shape[d]) * p->key_far[d];
        key = rest;
    }
    return far + key * p->key_far[p->key_ndim - 1];
}

GA_FN ga_i64 pl_near_of(const pl_call *p, ga_i64 i) {
    ga_i64 first;
    return pl_place(p, i, &first).near;
}

enum { PL_AT_ONCE = 4 }; /* elements that a thread reads before it writes one */

/* Every element is a claim, so that the winner is its number. */
template <class T> GA_FN void pl_put_slots(const pl_call *p) {
    const ga_i64 threads = (ga_i64)gridDim.x * blockDim.x;
    for (ga_i64 base = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; base < p->slots;
         base += threads * PL_AT_ONCE) {
        ga_i64 winner[PL_AT_ONCE], key[PL_AT_ONCE];
        T value[PL_AT_ONCE];
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
            const ga_i64 slot = base + j * threads;
            winner[j] = pl_winner(p, slot < p->slots ? slot : base, &key[j]);
            if (slot >= p->slots) winner[j] = -1;
        }
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) if (winner[j] >= 0) value[j] =
            ((const T *)p->near)[pl_near_of(p, winner[j])];
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) if (winner[j] >= 0)(
            (T *)p->far)[pl_far_of(p, key[j])] = value[j];
    }
}

/* Notes claims together with their values: W is a word, in whose upper bits the claim is. All
** indices and values of several elements are read before one is noted. */
template <class T, class W> GA_FN void pl_note_words(const pl_call *p) {
    const ga_i64 threads = (ga_i64)gridDim.x * blockDim.x;
    for (ga_i64 base = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; base < p->n;
         base += threads * PL_AT_ONCE) {
        ga_i64 given[PL_AT_ONCE];
        pl_spot at[PL_AT_ONCE];
        T value[PL_AT_ONCE];
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) at[j] =
            pl_place(p, base + j * threads < p->n ? base + j * threads : base, &given[j]);
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
            given[j] = pl_given(&p->lists[0], given[j]);
            value[j] = ((const T *)p->near)[at[j].near];
        }
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
            const ga_i64 i = base + j * threads;
            if (i >= p->n) break;
            pl_follow(p, 0, given[j], &at[j]);
            if (p->nlists > 1) pl_follow_others(p, i, &at[j]);
            if (at[j].bad) continue;
            atomicMax(&((W *)p->winners)[at[j].key],
                      (W)(at[j].order + 1) << 8 * (int)sizeof(T) | (W)value[j]);
        }
    }
}
template <class T> GA_FN void pl_note(const pl_call *p) {
    p->wide ? pl_note_words<T, ga_u64>(p) : pl_note_words<T, unsigned>(p);
}

/* Puts what has been noted so. */
template <class T, class W> GA_FN void pl_put_words(const pl_call *p) {
    const ga_i64 threads = (ga_i64)gridDim.x * blockDim.x;
    for (ga_i64 base = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; base < p->slots;
         base += threads * PL_AT_ONCE) {
        W word[PL_AT_ONCE];
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
            const ga_i64 slot = base + j * threads;
            word[j] = slot < p->slots ? ((const W *)p->winners)[slot] : 0;
        }
        _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) if (word[j])(
            (T *)p->far)[pl_far_of(p, base + j * threads)] = (T)word[j];
    }
}
template <class T> GA_FN void pl_put_noted(const pl_call *p) {
    p->wide ? pl_put_words<T, ga_u64>(p) : pl_put_words<T, unsigned>(p);
}

/* Rows whose elements lie together on both sides. A warp has a few, whose places and winners its
** lanes find, and goes through a stretch of their elements: all of short rows, a part of a long
** one. */
template <class T> GA_FN void pl_put_spread(const pl_call *p) {
    const ga_i64 rows = p->n / p->units, all = p->by_rows * p->units;
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
        if (row < rows) s = pl_find(p, row * p->units);
        const int wins = pl_wins(p, &s);
        for (ga_i64 base = begin; base < end; base += 32 * PL_AT_ONCE) {
            T value[PL_AT_ONCE];
            T *to[PL_AT_ONCE];
            _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
                const ga_i64 e = base + j * 32 + lane;
                ga_i64 near = s.near, far = s.far, c = e;
                int here = wins;
                if (p->by_rows > 1) {
                    const int r = (int)kt_divided(&p->by_units, (unsigned)e);
                    near = __shfl_sync(~0u, s.near, r % p->by_rows);
                    far = __shfl_sync(~0u, s.far, r % p->by_rows);
                    here = __shfl_sync(~0u, wins, r % p->by_rows);
                    c = e - r * p->units;
                }
                to[j] = here && e < end ? (T *)p->far + far + c : (T *)0;
                if (to[j]) value[j] = ((const T *)p->near)[near + c];
            }
            _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) if (to[j]) * to[j] = value[j];
        }
    }
}

/* The first element of a claim. */
GA_FN ga_i64 pl_first_of(const pl_call *p, ga_i64 claim) {
    ga_i64 i = 0, row = 1;
    for (int d = p->ndim - 1; d >= 0; d--) {
        if (p->order_strides[d]) {
            const ga_i64 rest = kt_quotient(claim, p->shape[d]);
            i += (claim - rest * p->shape[d]) * row;
            claim = rest;
        }
        row *= p->shape[d];
    }
    return i;
}

struct pl_few {
    unsigned key[PL_FEW];        /* of a claim; PL_NO_KEY: its index is bad */
    unsigned last[PL_FEW_SLOTS]; /* hashed by key: 0, or the last claim's number + 1 */
    unsigned char won[PL_FEW];   /* whether it is the last of its key */
};
#define PL_NO_KEY 0xffffffffu

/* Notes all claims, in p->slots slots; called by the whole block. */
GA_FN void pl_note_few(const pl_call *p, pl_few &s) {
    const int threads = (int)blockDim.x, claims = (int)p->claims;
    for (int i = (int)threadIdx.x; i < (int)p->slots; i += threads) s.last[i] = 0;
    for (int c = (int)threadIdx.x; c < claims; c += threads) {
        const pl_spot found = pl_find(p, pl_first_of(p, c));
        s.key[c] = found.bad ? PL_NO_KEY : (unsigned)found.key;
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < claims; c += threads) {
        if (s.key[c] == PL_NO_KEY) continue;
        ga_i64 at = pl_first_slot(s.key[c], p->slots);
        for (;; at = (at + 1) & (p->slots - 1)) {
            const unsigned there = atomicCAS(&s.last[at], 0u, (unsigned)c + 1);
            if (there == 0) break;
            if (s.key[there - 1] != s.key[c]) continue;
            atomicMax(&s.last[at], (unsigned)c + 1);
            break;
        }
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < claims; c += threads) {
        s.won[c] = 0;
        if (s.key[c] == PL_NO_KEY) continue;
        ga_i64 at = pl_first_slot(s.key[c], p->slots);
        while (s.key[s.last[at] - 1] != s.key[c]) at = (at + 1) & (p->slots - 1);
        s.won[c] = s.last[at] == (unsigned)c + 1;
    }
    __syncthreads();
}

template <class T> GA_FN void pl_put_few(const pl_call *p, pl_few &s) {
    pl_note_few(p, s);
    const ga_i64 threads = (ga_i64)gridDim.x * blockDim.x;
    for (ga_i64 i = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p->n; i += threads) {
        const pl_spot at = pl_find(p, i);
        if (s.won[at.order]) ((T *)p->far)[at.far] = ((const T *)p->near)[at.near];
    }
}

struct pl_room {
    unsigned last[PL_ROOM]; /* of each place of the lines: 0, or its last claim's number + 1 */
    ga_i64 list[PL_LINES], near[PL_LINES], far[PL_LINES]; /* where a line begins */
};

/* Puts p->tile lines at a time, which the iteration has as rows; called by the whole block. Threads
** side by side have claims or places of one line that do so or, by columns, the same ones of lines
** that do. */
template <class T> GA_FN void pl_put_lines(const pl_call *p, pl_room &s) {
    const int last = p->ndim - 1, places = (int)p->lists[0].length, tile = (int)p->tile;
    const ga_i64 lines = p->n / p->shape[last];
    const int claims = (int)p->shape[last];
    for (ga_i64 line = (ga_i64)blockIdx.x * tile; line < lines; line += (ga_i64)gridDim.x * tile) {
        const int here = lines - line < tile ? (int)(lines - line) : tile;
        const int room = (p->by_columns ? tile : here) * places,
                  all = (p->by_columns ? tile : here) * claims;
        for (int i = (int)threadIdx.x; i < room; i += (int)blockDim.x) s.last[i] = 0;
        for (int r = (int)threadIdx.x; r < here; r += (int)blockDim.x) {
            const pl_spot at = pl_place(p, (line + r) * claims, &s.list[r]);
            s.near[r] = at.near;
            s.far[r] = at.far;
        }
        __syncthreads();
        for (int base = (int)threadIdx.x; base < all; base += (int)blockDim.x * PL_AT_ONCE) {
            ga_i64 given[PL_AT_ONCE];
            int claim[PL_AT_ONCE], r[PL_AT_ONCE];
            _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
                const int e = base + j * (int)blockDim.x < all ? base + j * (int)blockDim.x : base;
                const int q = (int)kt_divided(&p->by_claims, (unsigned)e),
                          rest = e - q * (int)p->by_claims.d;
                claim[j] = p->by_columns ? q : rest;
                r[j] = p->by_columns ? rest : q;
                given[j] = pl_given(&p->lists[0], s.list[r[j] < here ? r[j] : 0] +
                                                      claim[j] * p->lists[0].strides[last]);
            }
            _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
                if (base + j * (int)blockDim.x >= all) break;
                if (r[j] >= here) continue;
                pl_spot at = {0, 0, 0, 0, 0};
                pl_follow(p, 0, given[j], &at);
                const int place = (int)at.key,
                          slot = p->by_columns ? place * tile + r[j] : r[j] * places + place;
                if (!at.bad) atomicMax(&s.last[slot], (unsigned)claim[j] + 1);
            }
        }
        __syncthreads();
        for (int base = (int)threadIdx.x; base < room; base += (int)blockDim.x * PL_AT_ONCE) {
            T value[PL_AT_ONCE], *to[PL_AT_ONCE];
            _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) {
                const int i = base + j * (int)blockDim.x;
                const unsigned won = i < room ? s.last[i] : 0;
                to[j] = (T *)0;
                if (!won) continue;
                const int q = (int)kt_divided(&p->by_room, (unsigned)i),
                          rest = i - q * (int)p->by_room.d;
                const int r = p->by_columns ? rest : q, place = p->by_columns ? q : rest;
                to[j] = (T *)p->far + s.far[r] + place * p->lists[0].step;
                value[j] = ((const T *)p->near)[s.near[r] + (won - 1) * p->near_strides[last]];
            }
            _Pragma("unroll") for (int j = 0; j < PL_AT_ONCE; j++) if (to[j]) * to[j] = value[j];
        }
        __syncthreads();
    }
}

#if WANTS(places_claim)
extern "C" __global__ void places_claim(const __grid_constant__ pl_call p) {
    kt_grid_wait();
    PL_EACH(i) pl_claim(&p, i);
}
#endif
#define PL_TAKE(name, type)                                                                        \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const __grid_constant__ pl_call p) {                          \
        kt_grid_wait();                                                                            \
        PL_EACH(i) {                                                                               \
            pl_spot s = pl_find(&p, i);                                                            \
            ((type *)p.near)[s.near] = ((const type *)p.far)[s.far];                               \
        }                                                                                          \
    })
#define PL_PUT(name, type)                                                                         \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256, 4)                                          \
         name(const __grid_constant__ pl_call p) {                                                 \
             kt_grid_wait();                                                                       \
             if (p.by_rows)                                                                        \
                 pl_put_spread<type>(&p);                                                          \
             else                                                                                  \
                 PL_EACH(i) {                                                                      \
                     pl_spot s = pl_find(&p, i);                                                   \
                     if (pl_wins(&p, &s)) ((type *)p.far)[s.far] = ((const type *)p.near)[s.near]; \
                 }                                                                                 \
         })
#define PL_TABLE(name, type, work)                                                                 \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256, 4)                                          \
         name(const __grid_constant__ pl_call p) {                                                 \
             kt_grid_wait();                                                                       \
             work<type>(&p);                                                                       \
         })
#define PL_PUT_SLOTS(name, type) PL_TABLE(name, type, pl_put_slots)
/* Registers of so few threads leave room for several blocks, as their memory does. */
#define PL_PUT_BLOCKS(name, type, struct, put, ...)                                                \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                                     \
         name(const __grid_constant__ pl_call p) {                                                 \
             kt_grid_wait();                                                                       \
             __shared__ struct s;                                                                  \
             put<type>(&p, s);                                                                     \
         })
#define PL_PUT_FEW(name, type)   PL_PUT_BLOCKS(name, type, pl_few, pl_put_few, PL_FEW_THREADS)
#define PL_PUT_LINES(name, type) PL_PUT_BLOCKS(name, type, pl_room, pl_put_lines, 256, 4)
#else
typedef struct pl_16 {
    ga_u64 part[2];
} pl_16;

/* Whether there is one index array, which says for each element where it is. */
static inline int pl_is_list(const pl_call *p) {
    return p->ndim == 1 && p->nlists == 1 && p->lists[0].strides[0];
}
#define PL_TAKE_BLOCKS                                                                             \
    const pl_list *l = &p->lists[0];                                                               \
    const ga_i64 far_step = p->far_strides[0], near_step = p->near_strides[0];                     \
    ga_i64 v[GA_BLOCK];                                                                            \
    for (ga_i64 i = (ga_i64)first, n; i < (ga_i64)end; i += n) {                                   \
        n = (ga_i64)end - i < GA_BLOCK ? (ga_i64)end - i : GA_BLOCK;                               \
        if (ga_read_block(l->at, i * l->strides[0], l->strides[0], n, l->size, l->is_signed,       \
                          l->length, v)) {                                                         \
            for (ga_i64 j = 0; j < n; j++)                                                         \
                near[(i + j) * near_step] = far[(i + j) * far_step + v[j] * l->step];              \
        } else {                                                                                   \
            for (ga_i64 j = i; j < i + n; j++) {                                                   \
                pl_spot s = pl_find(p, j);                                                         \
                near[s.near] = far[s.far];                                                         \
            }                                                                                      \
        }                                                                                          \
    }
#define PL_TAKE(name, type)                                                                        \
    static void name##_list(const pl_call *p, type *near, const type *far, size_t first,           \
                            size_t end) {                                                          \
        PL_TAKE_BLOCKS                                                                             \
    }                                                                                              \
    static void name##_rows(const void *params, size_t first, size_t end) {                        \
        const pl_call *p = params;                                                                 \
        type *near = (type *)p->near;                                                              \
        const type *far = (const type *)p->far;                                                    \
        if (pl_is_list(p)) {                                                                       \
            name##_list(p, near, far, first, end);                                                 \
            return;                                                                                \
        }                                                                                          \
        PL_LOOP((ga_i64)first *pl_across(p), (ga_i64)end *pl_across(p), 1, PL_TAKE_ONE)            \
    }                                                                                              \
    static void name(const void *params) {                                                         \
        const pl_call *p = params;                                                                 \
        const ga_i64 across = pl_across(p);                                                        \
        tidei_share_items((size_t)(p->n / across), TIDEI_SHARE_GRAIN / (size_t)across + 1,         \
                          name##_rows, p);                                                         \
    }
#define PL_PUT(name, type)                                                                         \
    static void name(const void *params) {                                                         \
        const pl_call *p = params;                                                                 \
        type *far = (type *)p->far;                                                                \
        const type *near = (const type *)p->near;                                                  \
        PL_LOOP(0, p->n, 0, PL_PUT_ONE)                                                            \
    }
#define PL_TAKE_ONE(f, n) near[n] = far[f]
#define PL_PUT_ONE(f, n)  far[f] = near[n]
#endif
PL_TAKE(places_take_1, unsigned char)
PL_TAKE(places_take_2, unsigned short)
PL_TAKE(places_take_4, unsigned)
PL_TAKE(places_take_8, ga_u64)
PL_TAKE(places_take_16, pl_16)
PL_PUT(places_put_1, unsigned char)
PL_PUT(places_put_2, unsigned short)
PL_PUT(places_put_4, unsigned)
PL_PUT(places_put_8, ga_u64)
PL_PUT(places_put_16, pl_16)
#ifdef __CUDACC_RTC__
#define PL_OF_ANY_SIZE(kernel, name)                                                               \
    kernel(name##_1, unsigned char) kernel(name##_2, unsigned short) kernel(name##_4, unsigned)    \
        kernel(name##_8, ga_u64) kernel(name##_16, pl_16)
PL_OF_ANY_SIZE(PL_PUT_SLOTS, places_put_slots)
PL_OF_ANY_SIZE(PL_PUT_FEW, places_put_few)
PL_OF_ANY_SIZE(PL_PUT_LINES, places_put_lines)
#define PL_OF_SMALL_SIZE(name, work)                                                               \
    PL_TABLE(name##_1, unsigned char, work) PL_TABLE(name##_2, unsigned short, work)
PL_OF_SMALL_SIZE(places_note, pl_note)
PL_OF_SMALL_SIZE(places_put_noted, pl_put_noted)
#endif

#endif
