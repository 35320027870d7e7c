/* scatter_params.h: what the kernels that combine values at places get, and where they find an
** element of either side: one text for both back ends, behind indices.h and spots.h. */
#ifndef TIDEI_SCATTER_PARAMS_H
#define TIDEI_SCATTER_PARAMS_H

#ifndef __CUDACC_RTC__
#include "arrays/index/spots.h"
#endif

enum { SC_ADD, SC_MUL, SC_MIN, SC_MAX };
enum { SC_INT, SC_UINT, SC_F16, SC_BF16, SC_F32, SC_F64 }; /* of a component */

typedef struct sc_list { /* indices that become keys */
    ga_u64 indices, keys;
    ga_u64 fault, report;
    ga_i64 n, length; /* indices; elements of the axis: the key of what is left out */
    int ndim, size, is_signed;
    int wide; /* keys have 8 bytes, not 4 */
    ga_i64 shape[PL_RANK], strides[PL_RANK];
} sc_list;

typedef struct sc_fold {
    ga_u64 far, near;            /* addresses of the first elements */
    ga_u64 keys, places;         /* of entries; places 0: an entry is where its number says */
    ga_u64 next_keys, next_near; /* entries of the next level; 0: there is none */
    ga_i64 n, chunk, chunks;     /* entries */
    ga_i64 length, step;         /* of far's axis: elements, stride; other keys are left out */
    ga_i64 width;                /* columns */
    int op, level;
    int fresh;       /* far is all 0: it need not be read */
    int pairs;       /* (the host's) entries are in order but for the lowest bit of their keys */
    int wide;        /* keys have 8 bytes; those of higher levels always */
    int places_size; /* bytes of one: 4 or 8 */
    int size, is_signed; /* of integers that are added as they are: of a value */
    int ndim, long_ndim; /* of a column's place; of an entry's */
    ga_i64 shape[PL_RANK], far_strides[PL_RANK], near_strides[PL_RANK];
    ga_i64 long_shape[PL_RANK], long_strides[PL_RANK];
} sc_fold;

/* Integers that blocks of a device add by themselves first (scatter_here). */
typedef struct sc_here {
    sc_list list; /* the indices; their keys go nowhere */
    sc_fold fold; /* places, columns and values; no keys */
    kt_div width;
} sc_here;
/* Sums of few entries (scatter_few.h). */
typedef struct sc_few {
    sc_list list;   /* the indices; their keys go nowhere */
    sc_fold fold;   /* places, columns and values; no keys */
    int by_columns; /* these lie side by side, not entries */
    int together;   /* columns of a thread: SC_TOGETHER, or 1 */
} sc_few;
enum {
    SC_ENTRIES = 512, /* at most: a thread may have to add them all up by itself */
    SC_TOGETHER = 4,
    SC_AHEAD_ALONE = 8 /* entries of one column that are read before one is added */
};

enum { SC_HERE = 12288, SC_HERE_THREADS = 1024 }; /* sums of a block */

enum {
    SC_THREADS = 256,                /* of a block that folds */
    SC_ITEMS = 8,                    /* entries of a thread of a tile, one behind the other */
    SC_TILE = SC_THREADS * SC_ITEMS, /* entries of a block; levels shrink by 1024 */
    SC_CHUNK = 64, /* entries: few enough that a thread is done soon, and levels shrink by 32 */
    SC_FEW = 4     /* columns whose rows a block reads column by column, in tiles */
};

/* The key of entry i: the index, from the axis's start; of a bad one, which is told, its length. */
GA_FN ga_i64 sc_key_of(const sc_list *p, ga_i64 i) {
    ga_i64 at = 0, rest = i;
    for (int d = p->ndim - 1; d >= 0; d--) {
        ga_i64 outer = kt_quotient(rest, p->shape[d]);
        at += (rest - outer * p->shape[d]) * p->strides[d];
        rest = outer;
    }
    ga_i64 given = ga_read(p->indices, at, p->size, p->is_signed);
    ga_i64 v = ga_from_start(given, p->length, p->is_signed);
    if (v >= 0 && v < p->length) return v;
    ga_report(p->fault, p->report | (p->is_signed ? 0 : GA_UNSIGNED), given, p->length);
    return p->length;
}

GA_FN ga_i64 sc_offset(int ndim, const ga_i64 *shape, const ga_i64 *strides, ga_i64 i) {
    ga_i64 at = 0;
    for (int d = ndim - 1; d > 0; d--) {
        ga_i64 rest = kt_quotient(i, shape[d]);
        at += (i - rest * shape[d]) * strides[d];
        i = rest;
    }
    return ndim > 0 ? at + i * strides[0] : 0;
}

typedef struct sc_c32 {
    float re, im;
} sc_c32;
typedef struct sc_c64 {
    double re, im;
} sc_c64;
#define SC_COMPLEX(T)                                                                              \
    GA_FN T sc_plus_##T(T a, T b) {                                                                \
        T r = {a.re + b.re, a.im + b.im};                                                          \
        return r;                                                                                  \
    }                                                                                              \
    GA_FN T sc_times_##T(T a, T b) {                                                               \
        T r = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};                              \
        return r;                                                                                  \
    }
SC_COMPLEX(sc_c32)
SC_COMPLEX(sc_c64)

#endif
