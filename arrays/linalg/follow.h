/* follow.h: what follows a product, as a pass of its own, where the library that multiplied does
** not do it on the way (libs/blas.h). */
#ifndef TIDEI_FOLLOW_H
#define TIDEI_FOLLOW_H

#include "arrays/operand.h"
#include "libs/blas.h"

/* c = the epilogue of x and the bias, which is one for each element of the last axis, dense and of
** c's type. x has c's shape, and its type or f32; it may be c itself. f16 and bf16 are computed in
** f32. Not empty. */
tide_status tidei_follow(tidei_epilogue e, const tidei_operand *c, const tidei_operand *x,
                         const tidei_operand *bias, const char *op);

#endif
