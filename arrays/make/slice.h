/* slice.h: views as arithmetic: what a slice or another shape makes of a layout (slice.c). */
#ifndef TIDEI_SLICE_H
#define TIDEI_SLICE_H

#include "arrays/layout.h"
#include <tide/array.h>

#define TIDEI_RANGES_MAX 32 /* items of a slice's text */
/* TIDE_E_PARSE points at the column. */
tide_status tidei_slice_parse(const char *text, const char *op, tide_range *ranges, size_t *n);
tide_status tidei_layout_slice(const tidei_layout *l, size_t n, const tide_range *ranges,
                               const char *op, tidei_layout *out);
/* Checks a new shape for l's elements and resolves its -1. */
tide_status tidei_reshape_shape(const tidei_layout *l, int ndim, const int64_t *shape,
                                const char *op, int64_t *out);
/* The same elements in a resolved shape; false where no strides give that. */
bool tidei_layout_reshape(const tidei_layout *l, int ndim, const int64_t *shape, tidei_layout *out);

#endif
