/* view.h: arrays over the memory of operands (view.c). */
#ifndef TIDEI_VIEW_H
#define TIDEI_VIEW_H

#include "arrays/operand.h"

/* The view of an operand under a layout, where s is TIDE_OK; takes over the operand. */
tide_array *tidei_view_over(tidei_operand *o, tide_status s, const tidei_layout *l, const char *op);
/* The same of an operand that stays the caller's. */
tide_array *tidei_view_beside(const tidei_operand *o, const tidei_layout *l, const char *op);
/* `count` elements of an axis from `from` on, as part of the same operand or layout. */
static inline void tidei_narrow(tidei_layout *l, int axis, int64_t from, int64_t count) {
    l->offset += count ? from * l->strides[axis] : 0;
    l->shape[axis] = count;
}
/* The layout l stretched to a shape; TIDE_E_SHAPE where it does not. */
tide_status tidei_layout_stretch(const tidei_layout *l, int ndim, const int64_t *shape,
                                 const char *op, tidei_layout *out);
/* The layout l (which may be *out) with a further axis of length 1: tide_expand_dims. */
tide_status tidei_layout_expand(const tidei_layout *l, int axis, const char *op, tidei_layout *out);

#endif
