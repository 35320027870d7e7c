/* types.c: dtypes and layouts as the kernels of this folder take them. */
#include "arrays/order/types.h"
#include "arrays/layout.h"

_Static_assert(OD_RANK == TIDE_MAX_RANK, "one rank for both back ends");

od_type tidei_order_type(tide_dtype t, bool descending) {
    tidei_kind kind = tidei_dtype_kind(t);
    od_type o = {.kind = kind == TIDEI_KIND_INT     ? OD_SIGNED
                         : kind >= TIDEI_KIND_FLOAT ? OD_FLOAT
                                                    : OD_UNSIGNED,
                 .parts = kind == TIDEI_KIND_COMPLEX ? 2 : 1,
                 .descending = descending};
    o.size = (int)tide_dtype_size(t) / o.parts;
    if (o.kind == OD_FLOAT)
        o.inf = t == TIDE_F16    ? 0x7c00
                : t == TIDE_BF16 ? 0x7f80
                : o.size == 4    ? 0x7f800000
                                 : 0x7ff0000000000000;
    return o;
}

void tidei_order_rows(const tidei_layout *source, int axis, int64_t out_length, od_rows *out) {
    int64_t shape[TIDE_MAX_RANK], strides[TIDE_MAX_RANK];
    memcpy(shape, source->shape, sizeof shape);
    shape[axis] = out_length;
    tidei_row_major(source->ndim, shape, strides);
    *out = (od_rows){.rows = 1,
                     .length = source->shape[axis],
                     .step = source->strides[axis],
                     .out_step = strides[axis]};
    for (int i = 0; i < source->ndim; i++) {
        if (i == axis || shape[i] == 1) continue;
        out->outer[out->ndim] = shape[i];
        out->source_strides[out->ndim] = source->strides[i];
        out->out_strides[out->ndim++] = strides[i];
        out->rows *= shape[i];
    }
}

uint64_t tidei_order_first(const tidei_operand *o, const tidei_use *use) {
    return (uint64_t)o->lay.offset * tide_dtype_size(o->lay.dtype) - use->offset;
}
