/* select.h: elements picked by a condition, for other parts of the arrays (select.c). All find on
** the device how many there are, and wait for that number. */
#ifndef TIDEI_SELECT_H
#define TIDEI_SELECT_H

#include "arrays/operand.h"

/* As tide_nonzero and tide_masked_select, under the name `op`; outs: one for each dimension. */
tide_status tidei_nonzero(const tidei_operand *a, tide_array **outs, const char *op);
tide_array *tidei_masked_select(const tidei_operand *a, const tidei_operand *mask, const char *op);

#endif
