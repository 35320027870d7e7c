/* segments.h: what the files of this folder do for each other: values combined with the elements at
** indices along an axis (scatter.c), and which segment each element is of (segment.c). */
#ifndef TIDEI_SEGMENTS_H
#define TIDEI_SEGMENTS_H

#include "arrays/index/plan.h"

/* The places along an axis of `a`; p has its names. */
tide_status tidei_scatter_plan(const tidei_operand *a, const tidei_operand *indices, int axis,
                               tidei_plan *p);
/* Combines values with the elements of `a` at indices along an axis, as `op`, whose reports are
** those of `by`. */
enum { TIDEI_SCATTER_ADD, TIDEI_SCATTER_MUL, TIDEI_SCATTER_MIN, TIDEI_SCATTER_MAX };
/* Up to so many places, values of one and two bytes are added to i64 without a cast. */
#define TIDEI_SCATTER_FEW 12288
struct tidei_scatter_how {
    int op;
    bool any_order; /* floats too */
    bool sorted;    /* the indices rise, and are of tidei_ids_type */
    bool fresh;     /* `a` is all 0 */
};
tide_status tidei_scatter(const tidei_operand *a, const tidei_operand *indices, int axis,
                          const tidei_operand *values, struct tidei_scatter_how how, const char *op,
                          unsigned by);

/* The type of keys for an axis of so many elements. */
tide_dtype tidei_ids_type(int64_t length);
/* Writes to `ids`, a new operand of n elements, the number of the segment that each is of: by
** offsets, of which there is one more than segments, or, where `offsets` is NULL, `each` by `each`.
** Bad offsets are reported as by `by`. */
tide_status tidei_make_ids(tidei_runtime *rt, int64_t n, const tidei_operand *offsets, int64_t each,
                           unsigned by, const char *op, tidei_operand *ids);

#endif
