/* take.c: elements along an axis at the places that an index array names (gather.h does the work).
**
** The result's dimensions are the source's before the axis, then the indices', then the source's
** after the axis; over them the source has strides of 0 on the indices' dimensions, and the indices
** on the source's. Indices are looked at on the device, so nothing waits here. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/make/gather.h"
#include "arrays/kernels/launch.h"

_Static_assert(GA_RANK == TIDE_MAX_RANK, "one rank for both back ends");
_Static_assert(TIDEI_FAULT_WRITING == GA_WRITING, "one protocol of reports");

extern const char tidei_gather_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_gather_text, name }

/* elements are only moved, so their size decides */
static const tidei_own_kernel *kernel_for(tide_dtype t) {
    static const tidei_own_kernel by_log2[] = {KERNEL(gather_take_1), KERNEL(gather_take_2),
                                               KERNEL(gather_take_4), KERNEL(gather_take_8),
                                               KERNEL(gather_take_16)};
    return &by_log2[__builtin_ctzll(tide_dtype_size(t))];
}

static void add_dimension(ga_take *p, int64_t n, int64_t source_stride, int64_t index_stride) {
    p->shape[p->ndim] = n;
    p->source_strides[p->ndim] = source_stride;
    p->index_strides[p->ndim++] = index_stride;
}

/* The iteration space, still with every dimension of the result. */
static tide_status plan(const tidei_layout *a, const tidei_layout *indices, int axis, ga_take *p) {
    tidei_kind kind = tidei_dtype_kind(indices->dtype);
    int ndim = a->ndim - 1 + indices->ndim;
    if (kind != TIDEI_KIND_INT && kind != TIDEI_KIND_UINT)
        return tidei_fail(TIDE_E_DTYPE, "tide_take", "indices are %s; wanted an integer type",
                          tide_dtype_name(indices->dtype));
    if (ndim > TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, "tide_take",
                          "the result has %d dimensions; at most %d are possible", ndim,
                          TIDE_MAX_RANK);
    if (a->shape[axis] == 0 && tidei_layout_size(indices) > 0)
        return tidei_fail(TIDE_E_BOUNDS, "tide_take",
                          "%" PRId64 " indices into axis %d, which has no elements",
                          tidei_layout_size(indices), axis);
    *p = (ga_take){.length = a->shape[axis],
                   .step = a->strides[axis],
                   .size = (int)tide_dtype_size(indices->dtype),
                   .is_signed = kind == TIDEI_KIND_INT};
    for (int i = 0; i < axis; i++) add_dimension(p, a->shape[i], a->strides[i], 0);
    for (int i = 0; i < indices->ndim; i++)
        add_dimension(p, indices->shape[i], 0, indices->strides[i]);
    for (int i = axis + 1; i < a->ndim; i++) add_dimension(p, a->shape[i], a->strides[i], 0);
    return TIDE_OK;
}

/* Joins neighbouring dimensions where both strides allow it, drops those of length 1, and leaves at
** least one. */
static void collapse(ga_take *p) {
    int kept = 0;
    for (int i = 0; i < p->ndim; i++) {
        int last = kept - 1;
        if (p->shape[i] == 1) continue;
        if (kept && p->source_strides[last] == p->source_strides[i] * p->shape[i] &&
            p->index_strides[last] == p->index_strides[i] * p->shape[i]) {
            p->shape[last] *= p->shape[i];
        } else {
            p->shape[kept++] = p->shape[i];
            last++;
        }
        p->source_strides[last] = p->source_strides[i];
        p->index_strides[last] = p->index_strides[i];
    }
    p->ndim = 0;
    if (kept == 0)
        add_dimension(p, 1, 0, 0);
    else
        p->ndim = kept;
    p->rows = 1;
    for (int i = 0; i < p->ndim - 1; i++) p->rows *= p->shape[i];
}

/* From the first byte that an operand touches to its first element. */
static uint64_t first_element(const tidei_operand *o, const tidei_use *use) {
    return (uint64_t)o->lay.offset * tide_dtype_size(o->lay.dtype) - use->offset;
}

static tide_status run(const tidei_operand *out, const tidei_operand *a,
                       const tidei_operand *indices, ga_take *p) {
    static const size_t at[] = {offsetof(ga_take, out), offsetof(ga_take, source),
                                offsetof(ga_take, indices)};
    tidei_use uses[] = {tidei_operand_use(out, TIDEI_WRITE), tidei_operand_use(a, TIDEI_READ),
                        tidei_operand_use(indices, TIDEI_READ)};
    if (tidei_layout_size(&out->lay) == 0) return TIDE_OK;
    collapse(p);
    p->out = first_element(out, &uses[0]);
    p->source = first_element(a, &uses[1]);
    p->indices = first_element(indices, &uses[2]);
    p->fault = out->st->dev->d->fault_addr; /* of the device where the kernel runs */
    p->report = tidei_fault_report(TIDEI_FAULT_INDEX, !p->is_signed, TIDEI_FAULT_BY_TAKE);
    return tidei_run_own(out->rt, kernel_for(a->lay.dtype), uses, 3, p, sizeof *p, at,
                         (uint64_t)tidei_layout_size(&out->lay), "tide_take");
}

static tide_array *take(const tidei_operand *a, const tidei_operand *indices, int axis) {
    tidei_operand out;
    ga_take p;
    int64_t shape[TIDE_MAX_RANK];
    if (tidei_axis(axis, a->lay.ndim, "tide_take", &axis) != TIDE_OK) return NULL;
    if (plan(&a->lay, &indices->lay, axis, &p) != TIDE_OK) return NULL;
    for (int i = 0; i < p.ndim; i++) shape[i] = p.shape[i];
    tide_array *made = tidei_array_make(a->rt, a->lay.dtype, p.ndim, shape, "tide_take", &out);
    return made ? tidei_array_done(made, &out, run(&out, a, indices, &p)) : NULL;
}

tide_array *tide_take(tide_array *a, tide_array *indices, int axis) {
    TIDEI_OPERATION("tide_take");
    tidei_operand o, i;
    tide_array *made = NULL;
    if (tidei_no_nulls("tide_take", (tide_array *const[]){a, indices}, 2) != TIDE_OK) return NULL;
    if (tidei_operand_get(a, "tide_take", 1, &o) != TIDE_OK) return NULL;
    if (tidei_operand_get_of(o.rt, indices, "tide_take", 2, &i) == TIDE_OK) {
        made = take(&o, &i, axis);
        tidei_operand_put(&i);
    }
    tidei_operand_put(&o);
    return made;
}
