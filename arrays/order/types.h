/* types.h: dtypes as keys.h has them (types.c), and rows along an axis. */
#ifndef TIDEI_ORDER_TYPES_H
#define TIDEI_ORDER_TYPES_H

#include "arrays/operand.h"
#include "arrays/order/keys.h"

od_type tidei_order_type(tide_dtype t, bool descending);
/* Rows of `source` along `axis`, and of row-major results whose axis has out_length elements. */
void tidei_order_rows(const tidei_layout *source, int axis, int64_t out_length, od_rows *out);
/* From the first byte that an operand touches to its first element: what tidei_run_own adds an
** address to. */
uint64_t tidei_order_first(const tidei_operand *o, const tidei_use *use);
/* Whether kernels for the operand's device are CUDA text. */
static inline bool tidei_order_by_text(const tidei_operand *o) {
    return o->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT;
}

#endif
