/* segments.h: what scatter.c does for segment.c: values combined with the elements at indices along
** an axis. */
#ifndef TIDEI_SEGMENTS_H
#define TIDEI_SEGMENTS_H

#include "arrays/index/plan.h"

/* The places along an axis of `a`; p has its names. */
tide_status tidei_scatter_plan(const tidei_operand *a, const tidei_operand *indices, int axis,
                               tidei_plan *p);
/* Combines values with their places; op: SC_ADD to SC_MAX of scatter.h. */
tide_status tidei_scatter(tidei_plan *p, const tidei_operand *values, int op, bool any_order);
/* Folds floats by keys that are sorted already, i64 or, where the axis has fewer than 2^32 - 1
** elements, u32; `places` says where each entry was, NULL: where it is. */
tide_status tidei_fold_sorted(const tidei_plan *p, const tidei_operand *near,
                              const tidei_operand *keys, const tidei_operand *places, int op);

#endif
