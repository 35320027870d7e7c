/* gather.h: elements of an array at the places that an index array names: one text for both back
** ends (take.c).
**
** As philox.h: the host includes it as C, the build embeds it as a string (tidei_gather_text,
** behind indices.h) for NVRTC. The iteration space is the result's, which is row-major; the source
** and the indices have strides over it. A row is its innermost dimension: the host's kernel loops
** over rows, the device's threads over single elements. */
#ifndef TIDEI_GATHER_H
#define TIDEI_GATHER_H

#ifndef __CUDACC_RTC__
#include "arrays/make/indices.h"
#include "runtime/device/share.h"
#endif

typedef struct ga_16 {
    ga_u64 part[2];
} ga_16;

#define GA_RANK 8

typedef struct ga_take {
    /* addresses of the first elements; where a bad index is reported, */
    ga_u64 out, source, indices, fault;
    ga_u64 report; /* and the first word of that */
    ga_i64 rows;
    ga_i64 length, step; /* of the axis taken along: elements, stride */
    int ndim;            /* of the iteration space, >= 1 */
    int size, is_signed; /* of an index */
    ga_i64 shape[GA_RANK], source_strides[GA_RANK], index_strides[GA_RANK];
} ga_take;

/* The index at an offset, counted from the start; one out of range is reported, and read as the
** nearest valid one. */
GA_FN ga_i64 ga_index(const ga_take *p, ga_i64 at) {
    ga_i64 given = ga_read(p->indices, at, p->size, p->is_signed);
    ga_i64 v = ga_from_start(given, p->length, p->is_signed);
    if (v >= 0 && v < p->length) return v;
    ga_report(p->fault, p->report, given, p->length);
    return v < 0 ? 0 : p->length - 1;
}

/* Where a row's elements come from: offsets of its source and its indices. */
GA_FN void ga_row(const ga_take *p, ga_i64 row, ga_i64 *source, ga_i64 *index) {
    *source = *index = 0;
    for (int d = p->ndim - 2; d >= 0; d--) {
        ga_i64 i = row % p->shape[d];
        row /= p->shape[d];
        *source += i * p->source_strides[d];
        *index += i * p->index_strides[d];
    }
}

#ifdef __CUDACC_RTC__
#define GA_TAKE(name, type)                                                                        \
    extern "C" __global__ void name(const ga_take p) {                                             \
        ga_i64 width = p.shape[p.ndim - 1], n = p.rows * width,                                    \
               all = (ga_i64)gridDim.x * blockDim.x;                                               \
        ga_i64 across = p.source_strides[p.ndim - 1],                                              \
               across_indices = p.index_strides[p.ndim - 1];                                       \
        for (ga_i64 i = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all) {          \
            ga_i64 row = i / width, j = i - row * width, source, index;                            \
            ga_row(&p, row, &source, &index);                                                      \
            ga_i64 at = ga_index(&p, index + j * across_indices);                                  \
            ((type *)p.out)[i] = ((const type *)p.source)[source + j * across + at * p.step];      \
        }                                                                                          \
    }
#else
/* Elements first .. last-1 of a row; those that have an index for themselves in blocks. */
#define GA_ROW(name, type)                                                                         \
    static inline void name##_row(const ga_take *p, ga_i64 row, ga_i64 first, ga_i64 last) {       \
        const ga_i64 across = p->source_strides[p->ndim - 1], step = p->step;                      \
        const ga_i64 across_indices = p->index_strides[p->ndim - 1];                               \
        ga_i64 source, index, v[GA_BLOCK];                                                         \
        ga_row(p, row, &source, &index);                                                           \
        type *to = (type *)p->out + row * p->shape[p->ndim - 1];                                   \
        const type *from = (const type *)p->source + source;                                       \
        if (across_indices == 0) from += ga_index(p, index) * step;                                \
        for (ga_i64 j = first, n; j < last; j += n) {                                              \
            n = across_indices == 0 || last - j < GA_BLOCK ? last - j : GA_BLOCK;                  \
            if (across_indices == 0)                                                               \
                for (ga_i64 i = j; i < last; i++) to[i] = from[i * across];                        \
            else if (ga_read_block(p->indices, index + j * across_indices, across_indices, n,      \
                                   p->size, p->is_signed, p->length, v))                           \
                for (ga_i64 i = 0; i < n; i++) to[j + i] = from[(j + i) * across + v[i] * step];   \
            else                                                                                   \
                for (ga_i64 i = j; i < j + n; i++)                                                 \
                    to[i] = from[i * across + ga_index(p, index + i * across_indices) * step];     \
        }                                                                                          \
    }
/* Elements first .. end-1 of the result, which are parts of rows. */
#define GA_TAKE(name, type)                                                                        \
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
        tidei_share_items((size_t)(p->rows * p->shape[p->ndim - 1]), TIDEI_SHARE_GRAIN,            \
                          name##_items, p);                                                        \
    }
#endif
GA_TAKE(gather_take_1, unsigned char)
GA_TAKE(gather_take_2, unsigned short)
GA_TAKE(gather_take_4, unsigned)
GA_TAKE(gather_take_8, ga_u64)
GA_TAKE(gather_take_16, ga_16)

#endif
