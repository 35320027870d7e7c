/* places.h: elements of an array at the places that index arrays name, taken from it or put into
** it: one text for both back ends (places.c).
**
** As gather.h, which is the same for one index array and one axis.
**
** Of elements that are put into one place the last in the order of iteration wins. The host's
** kernel goes in that order. The device's threads do not, so a first kernel, places_claim, notes
** for each place the last of its claims: over the dimensions alone along which places differ (a
** place stands for a whole row where rows are put). A place has a key, a number made of the indices
** and of where the claim is; `winners` has a word for each key or, with `keys`, is a hash table.
** Then those elements alone are written whose claim is the winner. */
#ifndef TIDEI_PLACES_H
#define TIDEI_PLACES_H

#ifndef __CUDACC_RTC__
#include "arrays/index/spots.h"
#endif

#ifdef __CUDACC_RTC__
struct alignas(16) pl_16 { /* moves as one */
    ga_u64 part[2];
};

GA_FN ga_i64 pl_first_slot(const pl_call *p, ga_i64 key) {
    ga_u64 h = (ga_u64)key * 0x9e3779b97f4a7c15ULL;
    return (ga_i64)((h ^ h >> 32) & (ga_u64)(p->slots - 1));
}

/* A key's slot, which is taken for it if it has none. */
GA_FN ga_i64 pl_take_slot(const pl_call *p, ga_i64 key) {
    if (!p->keys) return key;
    ga_u64 *keys = (ga_u64 *)p->keys, wanted = (ga_u64)key + 1;
    ga_i64 at = pl_first_slot(p, key);
    for (;; at = (at + 1) & (p->slots - 1)) {
        ga_u64 there = atomicCAS(&keys[at], 0ULL, wanted);
        if (there == 0 || there == wanted) return at;
    }
}

/* The slot that a key has. */
GA_FN ga_i64 pl_slot(const pl_call *p, ga_i64 key) {
    if (!p->keys) return key;
    const ga_u64 *keys = (const ga_u64 *)p->keys;
    ga_i64 at = pl_first_slot(p, key);
    while (keys[at] != (ga_u64)key + 1) at = (at + 1) & (p->slots - 1);
    return at;
}

GA_FN int pl_wins(const pl_call *p, const pl_spot *s) {
    if (s->bad) return 0;
    return !p->winners || ((const ga_u64 *)p->winners)[pl_slot(p, s->key)] == (ga_u64)s->order + 1;
}

GA_FN void pl_claim(const pl_call *p, ga_i64 i) {
    pl_spot s = pl_find(p, i);
    if (!s.bad) atomicMax(&((ga_u64 *)p->winners)[pl_take_slot(p, s.key)], (ga_u64)s.order + 1);
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
    (extern "C" __global__ void name(const __grid_constant__ pl_call p) {                          \
        kt_grid_wait();                                                                            \
        PL_EACH(i) {                                                                               \
            pl_spot s = pl_find(&p, i);                                                            \
            if (pl_wins(&p, &s)) ((type *)p.far)[s.far] = ((const type *)p.near)[s.near];          \
        }                                                                                          \
    })
#else
typedef struct pl_16 {
    ga_u64 part[2];
} pl_16;

/* The host puts in order, so nobody claims. */
static inline void places_claim(const void *params) { (void)params; }

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

#endif
