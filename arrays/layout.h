/* layout.h: the arithmetic of shapes and strides (layout.c). */
#ifndef TIDEI_LAYOUT_H
#define TIDEI_LAYOUT_H

#include "runtime/base/dtype.h"
#include "runtime/memory/header.h"

/* Row-major strides. TIDE_E_SHAPE for a bad rank or a negative dimension, TIDE_E_NOMEM when the
** bytes overflow. */
tide_status tidei_layout_make(tide_dtype t, int ndim, const int64_t *shape, const char *op,
                              tidei_layout *out);
/* The rules of tidei_layout_make for a shape alone. */
tide_status tidei_shape_check(tide_dtype t, int ndim, const int64_t *shape, const char *op);
/* The same for a view, which takes no memory: a shape that no array can have is TIDE_E_SHAPE. */
tide_status tidei_view_shape_check(tide_dtype t, int ndim, const int64_t *shape, const char *op);
void tidei_row_major(int ndim, const int64_t *shape, int64_t *strides);
/* memcmp is a call, which for the few dimensions of most shapes costs more than they do. */
static inline bool tidei_same_dims(int ndim, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < ndim; i++)
        if (a[i] != b[i]) return false;
    return true;
}
/* elements; layouts are checked at birth, so it fits */
int64_t tidei_layout_size(const tidei_layout *l);
bool tidei_layout_contiguous(const tidei_layout *l);
void tidei_layout_extent(const tidei_layout *l, int64_t *lo,
                         /* element offsets touched: [lo, hi); equal if empty */
                         int64_t *hi);
/* Whether several elements lie in one place, as in a stretched view and in windows that overlap;
** operations that write refuse such a layout. */
bool tidei_layout_repeats(const tidei_layout *l);
#define TIDEI_STRETCHED "a stretched view: several of its elements lie in one place"
/* TIDE_E_INVALID where it is stretched; `name`: of what is to be written, in the message. */
tide_status tidei_writable(const tidei_layout *l, const char *name, const char *op);
bool tidei_layout_same(const tidei_layout *a,
                       const tidei_layout *b); /* every element lies where the other's does */
/* Broadcasts b's shape into shape/ndim (start with ndim 0); room for TIDE_MAX_RANK. TIDE_E_SHAPE
** names both shapes and the axis; TIDE_E_NOMEM when the elements overflow. */
tide_status tidei_broadcast(int *ndim, int64_t *shape, const tidei_layout *b, const char *op);
/* Strides of l against a broadcast shape: 0 where it stretches. */
void tidei_broadcast_strides(const tidei_layout *l, int ndim, const int64_t *strides_shape,
                             int64_t *strides);
/* "(3, 4)", "()", "(5,)" */
const char *tidei_shape_text(char *buf, size_t cap, int ndim, const int64_t *shape);
/* resolves negatives */
tide_status tidei_axis(int axis, int ndim, const char *op, int *out);

#endif
