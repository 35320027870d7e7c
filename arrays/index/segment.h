/* segment.h: which segment each element is of: one text for both back ends (segment.c), behind
** indices.h. */
#ifndef TIDEI_SEGMENT_H
#define TIDEI_SEGMENT_H

#ifndef __CUDACC_RTC__
#include "arrays/make/indices.h"
#include "runtime/device/share.h"
#endif

typedef struct sg_call {
    ga_u64 offsets, ids; /* addresses of the first elements */
    ga_u64 fault, report;
    ga_i64 n, segments; /* ids; segments, whose offsets are one more; 0 offsets where: */
    ga_i64 each;        /* every segment has so many elements; 0: they have offsets */
    ga_i64 stride;      /* of the offsets */
    int size, is_signed;
    int wide; /* ids have 8 bytes, not 4 */
} sg_call;

GA_FN ga_i64 sg_offset(const sg_call *p, ga_i64 k) {
    return ga_read(p->offsets, k * p->stride, p->size, p->is_signed);
}

/* Offsets rise from 0 to n: else the first thread that sees one that does not reports it. An
** unsigned one of 2^63 or more is negative here. */
GA_FN void sg_check(const sg_call *p, ga_i64 k) {
    ga_i64 at = sg_offset(p, k), before = k ? sg_offset(p, k - 1) : 0;
    if (at < before || at > p->n || (k == 0 && at != 0) || (k == p->segments && at != p->n))
        ga_report(p->fault, p->report | (p->is_signed ? 0 : GA_UNSIGNED), at, p->n);
}

/* The last segment that begins at i or before, whatever the offsets are. */
GA_FN ga_i64 sg_segment(const sg_call *p, ga_i64 i) {
    if (p->each) return i / p->each;
    ga_i64 low = 0, high = p->segments; /* segment low begins at i or before, high does not */
    while (high - low > 1) {
        ga_i64 middle = low + (high - low) / 2;
        if (sg_offset(p, middle) <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#ifdef __CUDACC_RTC__
GA_FN void sg_one(const sg_call *p, ga_i64 i) {
    if (!p->each && i <= p->segments) sg_check(p, i);
    if (i >= p->n) return;
    if (p->wide)
        ((ga_i64 *)p->ids)[i] = sg_segment(p, i);
    else
        ((unsigned *)p->ids)[i] = (unsigned)sg_segment(p, i);
}

extern "C" __global__ void segment_ids(const sg_call p) {
    kt_grid_wait();
    ga_i64 all = p.n > p.segments ? p.n : p.segments + 1;
    for (ga_i64 i = (ga_i64)blockIdx.x * blockDim.x + threadIdx.x; i < all;
         i += (ga_i64)gridDim.x * blockDim.x)
        sg_one(&p, i);
}
#else
static void sg_checks(const void *params, size_t first, size_t end) {
    for (size_t k = first; k < end; k++) sg_check(params, (ga_i64)k);
}

/* Where a segment ends that begins at i or before. */
static inline ga_i64 sg_end(const sg_call *p, ga_i64 segment) {
    if (p->each) return (segment + 1) * p->each;
    return segment + 1 < p->segments ? sg_offset(p, segment + 1) : p->n;
}

/* Segment by segment: those that are empty end before they begin. Most are short: so the first few
** are written whatever their number is, and then over what is too much. */
enum { SG_FEW = 4 };
#define SG_FILL(type)                                                                              \
    do {                                                                                           \
        type *ids = (type *)p->ids;                                                                \
        ga_i64 at = i;                                                                             \
        if (at + SG_FEW <= last && at < stop)                                                      \
            for (int j = 0; j < SG_FEW; j++) ids[at++] = (type)segment;                            \
        for (; at < stop; at++) ids[at] = (type)segment;                                           \
    } while (0)
static void sg_fill(const void *params, size_t first, size_t end) {
    const sg_call *p = params;
    ga_i64 i = (ga_i64)first, last = (ga_i64)end, segment = sg_segment(p, i);
    while (i < last) {
        ga_i64 stop = sg_end(p, segment);
        if (stop > last || (!p->each && segment + 1 >= p->segments)) stop = last;
        if (p->wide)
            SG_FILL(ga_i64);
        else
            SG_FILL(unsigned);
        if (stop > i) i = stop;
        segment++;
    }
}

static void segment_ids(const void *params) {
    const sg_call *p = params;
    if (!p->each) tidei_share_items((size_t)p->segments + 1, TIDEI_SHARE_GRAIN, sg_checks, p);
    tidei_share_items((size_t)p->n, TIDEI_SHARE_GRAIN, sg_fill, p);
}
#endif

#endif
