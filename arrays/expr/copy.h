/* copy.h: moving elements between operands, and to the host (copy.c). The two operands overlap
** nothing, or are the same view. */
#ifndef TIDEI_COPY_H
#define TIDEI_COPY_H

#include "arrays/operand.h"

/* Copies elements of any strides into any strides, one dtype: through the expression engine. */
tide_status tidei_copy_elements(tidei_runtime *rt, const tidei_operand *dst,
                                const tidei_operand *src, const char *op);
/* The same with src broadcast to dst's shape and cast to its dtype. Complex to real is
** TIDE_E_DTYPE. */
tide_status tidei_store_elements(tidei_runtime *rt, const tidei_operand *dst,
                                 const tidei_operand *src, const char *op);
/* Writes one element of dst's dtype to all of dst. */
tide_status tidei_fill_elements(const tidei_operand *dst, const void *element, const char *op);
/* A fresh copy, cast, in memory of that kind. */
tide_array *tidei_copy_in(const tidei_operand *src, tide_memory kind, tide_dtype t, const char *op);
/* The elements as row-major host memory, after all work queued on them: a sync point. */
tide_status tidei_operand_read(const tidei_operand *o, void *dst, const char *op);

#endif
