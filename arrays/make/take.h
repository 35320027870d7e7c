/* take.h: the taking of elements at the places of one index array, for whoever plans one (take.c,
** arrays/index). */
#ifndef TIDEI_TAKE_H
#define TIDEI_TAKE_H

#include "arrays/operand.h"

/* Over the dimensions of the result: how the source lies, without the axis taken along, and how the
** indices do. */
typedef struct tidei_taking {
    const tidei_operand *out; /* row-major, not empty */
    const tidei_operand *source, *indices;
    const char *op;
    unsigned by;          /* TIDEI_FAULT_BY_* */
    int64_t length, step; /* of the axis: elements, stride */
    int ndim;
    int64_t shape[TIDE_MAX_RANK];
    int64_t source_strides[TIDE_MAX_RANK], index_strides[TIDE_MAX_RANK];
} tidei_taking;

/* Units of one launch, which kernels count in 32 bits, with room for a tile beyond the end. */
#define TIDEI_TAKE_UNITS_MAX (((int64_t)1 << 31) - ((int64_t)1 << 16))

/* Offsets of less, in units, are computed in 32 bits. */
#define TIDEI_TAKE_NEAR ((int64_t)1 << 31)

void tidei_taking_add(tidei_taking *t, int64_t n, int64_t source_stride, int64_t index_stride);
/* One launch, or several where the result is large; t is changed. */
tide_status tidei_taking_run(tidei_taking *t);

#endif
