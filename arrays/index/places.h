/* places.h: elements of an array at the places that index arrays name, taken from it or put into
** it: one text for both back ends (places.c).
**
** As gather.h, which is the same for one index array and one axis. The iteration space is that of
** what is taken or put (`near`), row-major; the array that is indexed (`far`), the index arrays and
** `near` have strides over it, 0 where they do not vary.
**
** Of elements that are put into one place the last in the order of iteration wins. The host's kernel
** goes in that order. The device's threads do not, so a first kernel, places_claim, notes for each
** place the last of its claims: over the dimensions alone along which places differ (a place stands
** for a whole row where rows are put). A place has a key, a number made of the indices and of where
** the claim is; `winners` has a word for each key or, with `keys`, is a hash table. Then those
** elements alone are written whose claim is the winner. */
#ifndef TIDEI_PLACES_H
#define TIDEI_PLACES_H

#ifndef __CUDACC_RTC__
#include "arrays/make/indices.h"
#endif

#define PL_RANK 8

typedef struct pl_16 {
    ga_u64 part[2];
} pl_16;

typedef struct pl_list { /* an index array */
    ga_u64 at;           /* address of its first element */
    ga_i64 length, step; /* of the axis that it goes along: elements, stride */
    ga_i64 key_step;     /* what an index is worth in a key */
    ga_i64 strides[PL_RANK];
    int size, is_signed; /* of an index */
} pl_list;

typedef struct pl_call {
    ga_u64 far, near;     /* addresses of the first elements */
    ga_u64 winners, keys; /* tables, zero at first; winners 0: no two elements have one place */
    ga_u64 fault, report; /* where a bad index is reported, and the report's first word */
    ga_i64 n;             /* of the iteration space */
    ga_i64 slots;         /* of the hash table, a power of two */
    int ndim, nlists;     /* ndim >= 1 */
    ga_i64 shape[PL_RANK], far_strides[PL_RANK], near_strides[PL_RANK];
    ga_i64 key_strides[PL_RANK], order_strides[PL_RANK];
    pl_list lists[PL_RANK];
} pl_call;

typedef struct pl_spot {
    ga_i64 far, near; /* offsets */
    ga_i64 key, order;
    int bad; /* an index was out of range; `far` goes by the nearest valid one */
} pl_spot;

/* Where element i of the iteration space lies. */
GA_FN pl_spot pl_find(const pl_call *p, ga_i64 i) {
    pl_spot s = {0, 0, 0, 0, 0};
    ga_i64 at[PL_RANK];
    for (int l = 0; l < p->nlists; l++) at[l] = 0;
    for (int d = p->ndim - 1; d >= 0; d--) {
        ga_i64 rest = i / p->shape[d], x = i - rest * p->shape[d];
        i = rest;
        s.far += x * p->far_strides[d];
        s.near += x * p->near_strides[d];
        s.key += x * p->key_strides[d];
        s.order += x * p->order_strides[d];
        for (int l = 0; l < p->nlists; l++) at[l] += x * p->lists[l].strides[d];
    }
    for (int l = 0; l < p->nlists; l++) {
        const pl_list *list = &p->lists[l];
        ga_i64 given = ga_read(list->at, at[l], list->size, list->is_signed);
        ga_i64 v = ga_from_start(given, list->length, list->is_signed);
        if (v < 0 || v >= list->length) {
            ga_report(p->fault, p->report | (list->is_signed ? 0 : GA_UNSIGNED), given,
                      list->length);
            v = v < 0 ? 0 : list->length - 1;
            s.bad = 1;
        }
        s.far += v * list->step;
        s.key += v * list->key_step;
    }
    return s;
}

#ifdef __CUDACC_RTC__
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

#define PL_EACH(i)                                                                                 \
    for (ga_i64 i = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n;                        \
         i += (ga_i64)gridDim.x * blockDim.x)

extern "C" __global__ void places_claim(const pl_call p) {
    PL_EACH(i) {
        pl_spot s = pl_find(&p, i);
        if (!s.bad) atomicMax(&((ga_u64 *)p.winners)[pl_take_slot(&p, s.key)], (ga_u64)s.order + 1);
    }
}
#define PL_TAKE(name, type)                                                                        \
    extern "C" __global__ void name(const pl_call p) {                                             \
        PL_EACH(i) {                                                                               \
            pl_spot s = pl_find(&p, i);                                                            \
            ((type *)p.near)[s.near] = ((const type *)p.far)[s.far];                               \
        }                                                                                          \
    }
#define PL_PUT(name, type)                                                                         \
    extern "C" __global__ void name(const pl_call p) {                                             \
        PL_EACH(i) {                                                                               \
            pl_spot s = pl_find(&p, i);                                                            \
            if (pl_wins(&p, &s)) ((type *)p.far)[s.far] = ((const type *)p.near)[s.near];          \
        }                                                                                          \
    }
#else
/* Whether an index is good for a whole row, the innermost dimension. */
static inline int pl_rows(const pl_call *p) {
    for (int l = 0; l < p->nlists; l++)
        if (p->lists[l].strides[p->ndim - 1]) return 0;
    return 1;
}

/* The host puts in order, so nobody claims. */
static inline void places_claim(const void *params) { (void)params; }

/* Calls MOVE(far, near), the offsets of one element, for each in order; those with a bad index only
** where BAD. */
#define PL_LOOP(BAD, MOVE)                                                                         \
    ga_i64 across = pl_rows(p) ? p->shape[p->ndim - 1] : 1;                                        \
    ga_i64 far_step = p->far_strides[p->ndim - 1], near_step = p->near_strides[p->ndim - 1];       \
    for (ga_i64 i = 0; i < p->n; i += across) {                                                    \
        pl_spot s = pl_find(p, i);                                                                 \
        for (ga_i64 j = 0; j < across && (BAD || !s.bad); j++)                                     \
            MOVE((s.far + j * far_step), (s.near + j * near_step));                                \
    }
#define PL_TAKE(name, type)                                                                        \
    static void name(const void *params) {                                                         \
        const pl_call *p = params;                                                                 \
        type *near = (type *)p->near;                                                              \
        const type *far = (const type *)p->far;                                                    \
        PL_LOOP(1, PL_TAKE_ONE)                                                                    \
    }
#define PL_PUT(name, type)                                                                         \
    static void name(const void *params) {                                                         \
        const pl_call *p = params;                                                                 \
        type *far = (type *)p->far;                                                                \
        const type *near = (const type *)p->near;                                                  \
        PL_LOOP(0, PL_PUT_ONE)                                                                     \
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
