/* spots.h: where an operation with index arrays finds each element: text for both back ends, which
** goes before that of the kernels (places.h, scatter.h).
**
** The iteration space is that of what is taken or put (`near`), row-major; the array that is
** indexed (`far`), the index arrays and `near` have strides over it, 0 where they do not vary. A
** row is its innermost dimension: the host's kernels loop over rows, the device's threads over
** elements. */
#ifndef TIDEI_SPOTS_H
#define TIDEI_SPOTS_H

#ifndef __CUDACC_RTC__
#include "arrays/kernels/text.h"
#include "arrays/make/indices.h"
#include "runtime/device/share.h"
#endif

#define PL_RANK 8

typedef struct pl_list { /* an index array */
    ga_u64 at;           /* address of its first element */
    ga_i64 length, step; /* of the axis that it goes along: elements, stride */
    ga_i64 key_step;     /* what an index is worth in a key */
    ga_i64 strides[PL_RANK];
    int size, is_signed; /* of an index */
} pl_list;

typedef struct pl_call {
    ga_u64 far, near;     /* addresses of the first elements */
    ga_u64 winners;       /* a table, zero at first (places.h); 0: no two elements have one place */
    ga_u64 fault, report; /* where a bad index is reported, and the report's first word */
    ga_i64 n, claims;     /* of the iteration space; of these, that differ in their places */
    ga_i64 slots;         /* of the table: one for each key, or, hashed, a power of two */
    int hashed, wide;     /* the table; wide: its words have 8 bytes for each number */
    int key_ndim;         /* what a key is made of, from the fastest dimension on: */
    ga_i64 key_shape[PL_RANK], key_far[PL_RANK];
    ga_i64 tile;    /* lines that a block puts at once */
    int by_columns; /* lines lie side by side, not their elements */
    /* divide by the places of a line, and by its claims; by columns, by the lines of a tile */
    kt_div by_room, by_claims;
    int ndim, nlists;    /* ndim >= 1 */
    int op, type, parts; /* what a scatter does, to what (scatter.h) */
    int by_rows;         /* rows lie together on both sides, each with one index: a warp's; or 0 */
    ga_i64 units;        /* of one of these rows: elements, or a sc_unit each */
    ga_i64 stretch;      /* units that a warp goes through */
    kt_div by_units;     /* divides a warp's units by a row's, where it has several rows */
    int small;           /* n < 2^31: `by` divides by the shape */
    kt_div by[PL_RANK];
    ga_i64 shape[PL_RANK], far_strides[PL_RANK], near_strides[PL_RANK];
    ga_i64 key_strides[PL_RANK], order_strides[PL_RANK];
    pl_list lists[PL_RANK];
} pl_call;

typedef struct pl_spot {
    ga_i64 far, near; /* offsets */
    ga_i64 key, order;
    int bad; /* an index was out of range; `far` goes by the nearest valid one */
} pl_spot;

GA_FN ga_i64 pl_given(const pl_list *list, ga_i64 at) {
    return ga_read(list->at, at, list->size, list->is_signed);
}

/* Goes where index array l says, of which `given` was read. */
GA_FN void pl_follow(const pl_call *p, int l, ga_i64 given, pl_spot *s) {
    const pl_list *list = &p->lists[l];
    ga_i64 v = ga_from_start(given, list->length, list->is_signed);
    if (v < 0 || v >= list->length) {
        ga_report(p->fault, p->report | (list->is_signed ? 0 : GA_UNSIGNED), given, list->length);
        v = v < 0 ? 0 : list->length - 1;
        s->bad = 1;
    }
    s->far += v * list->step;
    s->key += v * list->key_step;
}

GA_FN ga_i64 pl_over(const pl_call *p, int d, ga_i64 i) {
    return p->small ? (ga_i64)kt_divided(&p->by[d], (unsigned)i) : kt_quotient(i, p->shape[d]);
}

/* Where element i of the iteration space lies as far as its own place says, and where the first
** index array has its index. */
GA_FN pl_spot pl_place(const pl_call *p, ga_i64 i, ga_i64 *first) {
    pl_spot s = {0, 0, 0, 0, 0};
    *first = 0;
    for (int d = p->ndim - 1; d >= 0; d--) {
        ga_i64 rest = d > 0 ? pl_over(p, d, i) : 0, x = i - rest * p->shape[d];
        i = rest;
        s.far += x * p->far_strides[d];
        s.near += x * p->near_strides[d];
        s.key += x * p->key_strides[d];
        s.order += x * p->order_strides[d];
        *first += x * p->lists[0].strides[d];
    }
    return s;
}

/* Goes where element i's indices of all index arrays but the first say. Each goes through the
** dimensions for itself: there are seldom any but the first, and a device has no registers that can
** be counted through. */
GA_FN void pl_follow_others(const pl_call *p, ga_i64 i, pl_spot *s) {
    for (int l = 1; l < p->nlists; l++) {
        ga_i64 left = i, at = 0;
        for (int d = p->ndim - 1; d >= 0; d--) {
            ga_i64 rest = d > 0 ? pl_over(p, d, left) : 0;
            at += (left - rest * p->shape[d]) * p->lists[l].strides[d];
            left = rest;
        }
        pl_follow(p, l, pl_given(&p->lists[l], at), s);
    }
}

/* Where element i lies. */
GA_FN pl_spot pl_find(const pl_call *p, ga_i64 i) {
    ga_i64 at;
    pl_spot s = pl_place(p, i, &at);
    if (p->nlists > 0) pl_follow(p, 0, pl_given(&p->lists[0], at), &s);
    pl_follow_others(p, i, &s);
    return s;
}

#ifdef __CUDACC_RTC__
#define PL_EACH(i)                                                                                 \
    for (ga_i64 i = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n;                        \
         i += (ga_i64)gridDim.x * blockDim.x)

#else
/* Whether an index is good for a whole row, the innermost dimension. */
static inline int pl_rows(const pl_call *p) {
    for (int l = 0; l < p->nlists; l++)
        if (p->lists[l].strides[p->ndim - 1]) return 0;
    return 1;
}

/* Elements that are moved together: a row, or one. */
static inline ga_i64 pl_across(const pl_call *p) { return pl_rows(p) ? p->shape[p->ndim - 1] : 1; }

/* Calls MOVE(far, near), the offsets of one element, for each of FIRST .. END-1 in order, which are
** whole rows; those with a bad index only where BAD. */
#define PL_LOOP(FIRST, END, BAD, MOVE)                                                             \
    ga_i64 across = pl_across(p);                                                                  \
    ga_i64 far_step = p->far_strides[p->ndim - 1], near_step = p->near_strides[p->ndim - 1];       \
    for (ga_i64 i = FIRST; i < END; i += across) {                                                 \
        pl_spot s = pl_find(p, i);                                                                 \
        for (ga_i64 j = 0; j < across && (BAD || !s.bad); j++)                                     \
            MOVE((s.far + j * far_step), (s.near + j * near_step));                                \
    }
#endif

#endif
