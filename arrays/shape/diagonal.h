/* diagonal.h: the layout of a diagonal (views.c). */
#ifndef TIDEI_DIAGONAL_H
#define TIDEI_DIAGONAL_H

#include "arrays/layout.h"

/* What tide_diagonal views. */
tide_status tidei_layout_diagonal(const tidei_layout *l, int64_t offset, int first, int second,
                                  const char *op, tidei_layout *out);

#endif
