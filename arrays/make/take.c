/* take.c: elements along an axis at the places that an index array names (gather.h does the work).
**
** The result's dimensions are the source's before the axis, then the indices', then the source's
** after the axis; over them the source has strides of 0 on the indices' dimensions, and the indices
** on the source's. Indices are looked at on the device, so nothing waits here.
** Where rows lie together and all that they begin at is a multiple of some elements, so many of
** them are moved as one unit, of at most 16 bytes. Longer rows that do not begin at multiples of 16
** bytes are written in words of 16 bytes all the same. */
#include <inttypes.h>
#include <stdlib.h>

#include "arrays/arrays.h"
#include "arrays/make/gather.h"
#include "arrays/make/take.h"
#include "arrays/kernels/launch.h"

_Static_assert(GA_RANK == TIDE_MAX_RANK, "one rank for both back ends");
_Static_assert(TIDEI_FAULT_WRITING == GA_WRITING, "one protocol of reports");

extern const char tidei_gather_text[];

#define KERNEL(prefix, bytes)                                                                      \
    { prefix #bytes, tidei_gather_text, gather_take_##bytes, .tells = true }
/* For any offsets, and for near ones. */
#define BOTH(far, near, bytes)                                                                     \
    { KERNEL(far, bytes), KERNEL(near, bytes) }

#define UNIT_MAX  16 /* bytes: what one access moves, and storages' alignment */
#define ROW_LEAST 32 /* bytes: of a row that is moved in words */

/* By the logarithm of a unit's bytes. */
#define TAKE(bytes) BOTH("gather_take_", "gather_near_", bytes)
static const tidei_own_kernel kernels[][2] = {TAKE(1), TAKE(2), TAKE(4), TAKE(8), TAKE(16)};
/* For rows that lie together, in words. The host copies rows as they are in any case. */
#define ROWS(bytes) BOTH("gather_rows_", "gather_near_rows_", bytes)
static const tidei_own_kernel row_kernels[][2] = {ROWS(1), ROWS(2), ROWS(4), ROWS(8)};

void tidei_taking_add(tidei_taking *t, int64_t n, int64_t source_stride, int64_t index_stride) {
    t->shape[t->ndim] = n;
    t->source_strides[t->ndim] = source_stride;
    t->index_strides[t->ndim++] = index_stride;
}

/* Joins neighbouring dimensions where both strides allow it, drops those of length 1, and leaves at
** least one. */
static void collapse(tidei_taking *t) {
    int kept = 0;
    for (int i = 0; i < t->ndim; i++) {
        int last = kept - 1;
        if (t->shape[i] == 1) continue;
        if (kept && t->source_strides[last] == t->source_strides[i] * t->shape[i] &&
            t->index_strides[last] == t->index_strides[i] * t->shape[i]) {
            t->shape[last] *= t->shape[i];
        } else {
            t->shape[kept++] = t->shape[i];
            last++;
        }
        t->source_strides[last] = t->source_strides[i];
        t->index_strides[last] = t->index_strides[i];
    }
    t->ndim = 0;
    if (kept == 0)
        tidei_taking_add(t, 1, 0, 0);
    else
        t->ndim = kept;
}

/* Whether rows lie together, with one index each. */
static bool rows_lie_together(const tidei_taking *t) {
    const int last = t->ndim - 1;
    return t->index_strides[last] == 0 && t->source_strides[last] == 1;
}

/* How many elements move as one: rows lie together, and begin at multiples of so many. */
static int64_t elements_of_unit(const tidei_taking *t) {
    const int last = t->ndim - 1;
    const int64_t size = (int64_t)tide_dtype_size(t->out->lay.dtype);
    uint64_t all =
        (uint64_t)(t->shape[last] | t->step | t->source->lay.offset | t->out->lay.offset);
    if (!rows_lie_together(t)) return 1;
    for (int d = 0; d < last; d++) all |= (uint64_t)t->source_strides[d];
    int64_t most = UNIT_MAX / size, least = all ? (int64_t)(all & -all) : most;
    return least < most ? least : most;
}

/* Whether all offsets, in units, and the axis have less than 32 bits. */
static bool is_near(const ga_take *p) {
    int64_t source = (p->length - 1) * llabs(p->step), index = 0;
    for (int d = 0; d < p->ndim; d++) {
        source += (p->shape[d] - 1) * llabs(p->source_strides[d]);
        index += (p->shape[d] - 1) * llabs(p->index_strides[d]);
    }
    return source < TIDEI_TAKE_NEAR && index < TIDEI_TAKE_NEAR && p->length < TIDEI_TAKE_NEAR &&
           llabs(p->step) < TIDEI_TAKE_NEAR;
}

/* The same in units of w elements. */
static void widen(tidei_taking *t, int64_t w) {
    const int last = t->ndim - 1;
    t->shape[last] /= w;
    t->step /= w;
    for (int d = 0; d < last; d++) t->source_strides[d] /= w;
}

/* From the first byte that an operand touches to its first element. */
static uint64_t first_element(const tidei_operand *o, const tidei_use *use) {
    return (uint64_t)o->lay.offset * tide_dtype_size(o->lay.dtype) - use->offset;
}

typedef struct job {
    const tidei_taking *t;
    tidei_use uses[3];
    size_t unit; /* bytes */
    bool words;  /* rows are moved in words where they are written to whole ones */
} job;

static void begin(const tidei_taking *t, job *j, ga_take *p) {
    const tidei_kind kind = tidei_dtype_kind(t->indices->lay.dtype);
    *p = (ga_take){.n = 1,
                   .length = t->length,
                   .step = t->step,
                   .ndim = t->ndim,
                   .size = (int)tide_dtype_size(t->indices->lay.dtype),
                   .is_signed = kind == TIDEI_KIND_INT};
    j->uses[0] = tidei_operand_use(t->out, TIDEI_WRITE);
    j->uses[1] = tidei_operand_use(t->source, TIDEI_READ);
    j->uses[2] = tidei_operand_use(t->indices, TIDEI_READ);
    p->out = first_element(t->out, &j->uses[0]);
    p->source = first_element(t->source, &j->uses[1]);
    p->reach = (ga_i64)(j->uses[1].bytes - p->source);
    p->indices = first_element(t->indices, &j->uses[2]);
    p->fault = t->out->st->dev->d->fault_addr; /* of the device where the kernel runs */
    p->report = tidei_fault_report(TIDEI_FAULT_INDEX, !p->is_signed, t->by);
    for (int d = 0; d < t->ndim; d++) {
        p->n *= p->shape[d] = t->shape[d];
        p->source_strides[d] = t->source_strides[d];
        p->index_strides[d] = t->index_strides[d];
    }
}

static tide_status launch(const job *j, ga_take p) {
    static const size_t at[] = {offsetof(ga_take, out), offsetof(ga_take, source),
                                offsetof(ga_take, indices)};
    const unsigned log2 = (unsigned)__builtin_ctzll(j->unit);
    const bool words = j->words && (j->uses[0].offset + p.out) % UNIT_MAX == 0;
    for (int d = 0; d < p.ndim; d++) p.by[d] = kt_div_by((unsigned)p.shape[d]);
    return tidei_run_own(j->t->out->rt, &(words ? row_kernels : kernels)[log2][is_near(&p)],
                         j->uses, 3, &p, sizeof p, at, (uint64_t)p.n, j->t->op);
}

/* Launches both halves along the outermost dimension where the whole is too large. */
static tide_status launch_parts(const job *j, const ga_take *p) {
    ga_take part = *p;
    int d = 0;
    if (p->n <= TIDEI_TAKE_UNITS_MAX) return launch(j, *p);
    while (p->shape[d] == 1) d++;
    const int64_t half = p->shape[d] / 2, inner = p->n / p->shape[d];
    part.shape[d] = half;
    part.n = half * inner;
    tide_status s = launch_parts(j, &part);
    part.shape[d] = p->shape[d] - half;
    part.n = p->n - half * inner;
    part.out += (ga_u64)(half * inner) * j->unit;
    part.source += (ga_u64)(half * p->source_strides[d]) * j->unit;
    part.reach -= half * p->source_strides[d] * (ga_i64)j->unit;
    part.indices += (ga_u64)(half * p->index_strides[d] * p->size);
    return s == TIDE_OK ? launch_parts(j, &part) : s;
}

tide_status tidei_taking_run(tidei_taking *t) {
    ga_take p;
    job j = {.t = t, .unit = tide_dtype_size(t->out->lay.dtype)};
    collapse(t);
    const int64_t w = elements_of_unit(t);
    widen(t, w);
    j.unit *= (size_t)w;
    j.words = rows_lie_together(t) && j.unit < UNIT_MAX &&
              (size_t)t->shape[t->ndim - 1] * j.unit >= ROW_LEAST;
    begin(t, &j, &p);
    return launch_parts(&j, &p);
}

/* The iteration space, still with every dimension of the result. */
static tide_status plan(const tidei_operand *source, const tidei_operand *places, int axis,
                        tidei_taking *t) {
    const tidei_layout *a = &source->lay, *indices = &places->lay;
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
    *t = (tidei_taking){.source = source,
                        .indices = places,
                        .op = "tide_take",
                        .by = TIDEI_FAULT_BY_TAKE,
                        .length = a->shape[axis],
                        .step = a->strides[axis]};
    for (int i = 0; i < axis; i++) tidei_taking_add(t, a->shape[i], a->strides[i], 0);
    for (int i = 0; i < indices->ndim; i++)
        tidei_taking_add(t, indices->shape[i], 0, indices->strides[i]);
    for (int i = axis + 1; i < a->ndim; i++) tidei_taking_add(t, a->shape[i], a->strides[i], 0);
    return TIDE_OK;
}

static tide_array *take(const tidei_operand *a, const tidei_operand *indices, int axis) {
    tidei_operand out;
    tidei_taking t;
    if (tidei_axis(axis, a->lay.ndim, "tide_take", &axis) != TIDE_OK) return NULL;
    if (plan(a, indices, axis, &t) != TIDE_OK) return NULL;
    tide_array *made = tidei_array_make(a->rt, a->lay.dtype, t.ndim, t.shape, "tide_take", &out);
    if (!made) return NULL;
    t.out = &out;
    tide_status s = tidei_layout_size(&out.lay) ? tidei_taking_run(&t) : TIDE_OK;
    return tidei_array_done(made, &out, s);
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
