/* extend.h: elements that repeat, copied on within one array (pad.c). */
#ifndef TIDEI_EXTEND_H
#define TIDEI_EXTEND_H

#include "arrays/operand.h"

/* `part` is the part of dst that is written, as a layout over its memory. Writes `before` elements
** in front of it and `after` behind it along an axis, which repeat every `period` elements, of
** which the part has at least one; then these are in the part too. Each copy doubles what is
** there. */
tide_status tidei_extend(const tidei_operand *dst, tidei_layout *part, int axis, int64_t before,
                         int64_t after, int64_t period, const char *op);

#endif
