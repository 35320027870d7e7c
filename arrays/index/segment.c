/* segment.c: folds of segments: of the elements along an axis that have one id, or that lie between
** two offsets, from which ids are made.
**
** A result begins with the fold of no elements, and the elements are combined with it (scatter.c).
** */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/index/segment.h"
#include "arrays/index/segments.h"
#include "arrays/kernels/launch.h"
#include "arrays/scan/scan.h"
#include <tide/index.h>

extern const char tidei_segment_text[];

static const tidei_own_kernel ids_kernel = {"segment_ids", tidei_segment_text, segment_ids,
                                            .tells = true};

tide_status tidei_make_ids(tidei_runtime *rt, int64_t n, const tidei_operand *offsets, int64_t each,
                           unsigned by, const char *op, tidei_operand *ids) {
    sg_call c = {.n = n, .each = each, .report = tidei_fault_report(TIDEI_FAULT_OFFSET, false, by)};
    if (offsets) {
        const tidei_layout *l = &offsets->lay;
        c.segments = l->shape[0] - 1;
        c.stride = l->strides[0];
        c.size = (int)tide_dtype_size(l->dtype);
        c.is_signed = tidei_dtype_kind(l->dtype) == TIDEI_KIND_INT;
    }
    /* Each id is below the number of segments. */
    int64_t length = offsets ? c.segments : n;
    tide_status s = tidei_operand_make(rt, tidei_ids_type(length), 1, &n, op, ids);
    if (s != TIDE_OK) return s;
    c.wide = ids->lay.dtype == TIDE_I64;
    c.fault = tidei_stream_here(rt)->dev->d->fault_addr;
    tidei_uses u = {.params = &c, .bytes = sizeof c};
    tidei_uses_add(&u, ids, 0, TIDEI_WRITE, offsetof(sg_call, ids));
    if (offsets)
        tidei_uses_add(&u, offsets, offsets->lay.offset, TIDEI_READ, offsetof(sg_call, offsets));
    int64_t items = n > c.segments ? n : c.segments + 1;
    if (n > 0 || offsets) s = tidei_uses_run(&u, rt, &ids_kernel, items, op);
    if (s != TIDE_OK) tidei_operand_put(ids);
    return s;
}

/* ---- a fold ---- */

enum fold { SUM, MEAN, MIN, MAX };

typedef struct segments {
    const char *op;
    unsigned by;
    enum fold fold;
    const tidei_operand *a, *ids;
    bool sorted; /* the ids were made of offsets */
    int axis;
    int64_t count;
} segments;

/* The result's type, and the one that is folded in: tide_sum's or tide_mean's, f16 and bf16 in f32
** where they are divided. */
static tide_dtype result_type(const segments *x, tide_dtype *folded) {
    tide_dtype t = x->a->lay.dtype;
    tidei_kind kind = tidei_dtype_kind(t);
    if (x->fold == SUM && kind < TIDEI_KIND_FLOAT)
        t = kind == TIDEI_KIND_UINT ? TIDE_U64 : TIDE_I64;
    if (x->fold == MEAN && kind < TIDEI_KIND_FLOAT) t = TIDE_F64;
    *folded = x->fold == MEAN && (t == TIDE_F16 || t == TIDE_BF16) ? TIDE_F32 : t;
    return t;
}

/* Combines the values with `out`, which has the segments along `axis`. */
static tide_status fold_into(const segments *x, const tidei_operand *out, int axis,
                             const tidei_operand *values, int op) {
    struct tidei_scatter_how how = {
        .op = op, .sorted = x->sorted, .fresh = op == TIDEI_SCATTER_ADD};
    return tidei_scatter(out, x->ids, axis, values, how, x->op, x->by);
}

/* A new array of t with the folds. */
static tide_array *fold(const segments *x, tide_dtype t) {
    static const int ops[] = {[SUM] = TIDEI_SCATTER_ADD,
                              [MEAN] = TIDEI_SCATTER_ADD,
                              [MIN] = TIDEI_SCATTER_MIN,
                              [MAX] = TIDEI_SCATTER_MAX};
    unsigned char none[16] = {0};
    int64_t shape[TIDE_MAX_RANK];
    tidei_operand out;
    memcpy(shape, x->a->lay.shape, sizeof shape);
    shape[x->axis] = x->count;
    if (x->fold >= MIN) {
        const tidei_scan_kind *k =
            tidei_scan_find(x->fold == MIN ? TIDEI_SCAN_min : TIDEI_SCAN_max, t);
        if (!k)
            return (void)tidei_fail(TIDE_E_DTYPE, x->op, "%s; wanted bool, integers or floats",
                                    tide_dtype_name(t)),
                   NULL;
        k->none(none);
    }
    tide_array *made = tidei_array_make(x->a->rt, t, x->a->lay.ndim, shape, x->op, &out);
    if (!made) return NULL;
    tide_status s = tidei_fill_elements(&out, none, x->op);
    if (s == TIDE_OK) s = fold_into(x, &out, x->axis, x->a, ops[x->fold]);
    return tidei_array_done(made, &out, s);
}

/* How many elements each segment has, so that it broadcasts along the axis. */
static tide_array *count_elements(const segments *x) {
    const int64_t zero = 0, one = 1;
    const uint8_t small = 1;
    const unsigned flags = tidei_stream_here(x->a->rt)->dev->d->info.flags;
    const bool few = flags & TIDEI_DEV_RUNS_TEXT && x->count <= TIDEI_SCATTER_FEW;
    int64_t shape[TIDE_MAX_RANK];
    tidei_operand counts, ones, flat;
    for (int d = 0; d < x->a->lay.ndim; d++) shape[d] = d == x->axis ? x->count : 1;
    tide_array *made = tidei_array_make(x->a->rt, TIDE_I64, x->a->lay.ndim, shape, x->op, &counts);
    if (!made) return NULL;
    tide_status s = tidei_operand_make(x->a->rt, few ? TIDE_U8 : TIDE_I64, 0, NULL, x->op, &ones);
    if (s == TIDE_OK) {
        flat = counts;
        flat.lay.ndim = 1;
        flat.lay.shape[0] = x->count;
        flat.lay.strides[0] = 1;
        s = tidei_fill_elements(&counts, &zero, x->op);
        if (s == TIDE_OK) s = tidei_fill_elements(&ones, few ? (const void *)&small : &one, x->op);
        if (s == TIDE_OK) s = fold_into(x, &flat, 0, &ones, TIDEI_SCATTER_ADD);
        tidei_operand_put(&ones);
    }
    return tidei_array_done(made, &counts, s);
}

/* Their sums over their counts, in type t. */
static tide_array *mean(const segments *x, tide_dtype folded, tide_dtype t) {
    tide_array *sums = tidei_temporary(fold(x, folded), x->op),
               *counts = sums ? tidei_temporary(count_elements(x), x->op) : NULL,
               *made = counts ? tide_div(sums, counts) : NULL;
    if (made && tide_array_dtype(made) != t) {
        tide_array *quotient = tidei_temporary(made, x->op);
        made = quotient ? tide_cast(quotient, t) : NULL;
        tidei_temporary_end(quotient);
    }
    tidei_temporary_end(sums);
    tidei_temporary_end(counts);
    return made;
}

static tide_array *fold_segments(const segments *x) {
    tide_dtype folded, t = result_type(x, &folded);
    return x->fold == MEAN ? mean(x, folded, t) : fold(x, folded);
}

/* ---- by ids ---- */

static tide_status check_ids(segments *x, const tidei_operand *ids) {
    const tidei_layout *l = &x->a->lay;
    char text[192];
    tide_status s = tidei_axis(x->axis, l->ndim, x->op, &x->axis);
    if (s != TIDE_OK) return s;
    if (x->count < 0)
        return tidei_fail(TIDE_E_INVALID, x->op, "the number of segments is %" PRId64, x->count);
    if (ids->lay.ndim == 1 && ids->lay.shape[0] == l->shape[x->axis]) return TIDE_OK;
    return tidei_fail(
        TIDE_E_SHAPE, x->op, "ids of shape %s for an axis of %" PRId64 " elements: each needs one",
        tidei_shape_text(text, sizeof text, ids->lay.ndim, ids->lay.shape), l->shape[x->axis]);
}

/* The array and its ids or offsets; both are put by the caller. */
static tide_status get_both(tide_array *a, tide_array *by, const char *op, tidei_operand *o,
                            tidei_operand *second) {
    tide_status s = tidei_no_nulls(op, (tide_array *const[]){a, by}, 2);
    if (s == TIDE_OK) s = tidei_operand_get(a, op, 1, o);
    if (s != TIDE_OK) return s;
    s = tidei_operand_get_of(o->rt, by, op, 2, second);
    if (s != TIDE_OK) tidei_operand_put(o);
    return s;
}

static tide_array *by_ids(tide_array *a, tide_array *ids, int64_t count, int axis, segments x) {
    tidei_operand o, i;
    tide_array *made = NULL;
    if (get_both(a, ids, x.op, &o, &i) != TIDE_OK) return NULL;
    x.a = &o;
    x.ids = &i;
    x.axis = axis;
    x.count = count;
    if (check_ids(&x, &i) == TIDE_OK) made = fold_segments(&x);
    tidei_operand_put(&i);
    tidei_operand_put(&o);
    return made;
}

#define BY_IDS(name, fold_, by_)                                                                   \
    tide_array *tide_##name(tide_array *a, tide_array *ids, int64_t count, int axis) {             \
        TIDEI_OPERATION("tide_" #name);                                                            \
        return by_ids(a, ids, count, axis,                                                         \
                      (segments){.op = "tide_" #name, .by = by_, .fold = fold_});                  \
    }
BY_IDS(segment_sum, SUM, TIDEI_FAULT_BY_SEGMENT_SUM)
BY_IDS(segment_mean, MEAN, TIDEI_FAULT_BY_SEGMENT_MEAN)
BY_IDS(segment_min, MIN, TIDEI_FAULT_BY_SEGMENT_MIN)
BY_IDS(segment_max, MAX, TIDEI_FAULT_BY_SEGMENT_MAX)

/* ---- by offsets ---- */

static tide_status check_offsets(segments *x, const tidei_operand *offsets) {
    const tidei_layout *l = &offsets->lay;
    tidei_kind kind = tidei_dtype_kind(l->dtype);
    char text[192];
    tide_status s = tidei_axis(x->axis, x->a->lay.ndim, x->op, &x->axis);
    if (s != TIDE_OK) return s;
    if (kind != TIDEI_KIND_INT && kind != TIDEI_KIND_UINT)
        return tidei_fail(TIDE_E_DTYPE, x->op, "offsets are %s; wanted an integer type",
                          tide_dtype_name(l->dtype));
    if (l->ndim != 1 || l->shape[0] == 0)
        return tidei_fail(TIDE_E_SHAPE, x->op, "offsets of shape %s; wanted one axis, not empty",
                          tidei_shape_text(text, sizeof text, l->ndim, l->shape));
    x->count = l->shape[0] - 1;
    if (x->count == 0 && x->a->lay.shape[x->axis] > 0)
        return tidei_fail(TIDE_E_BOUNDS, x->op,
                          "one offset, which makes no segment, for %" PRId64 " elements",
                          x->a->lay.shape[x->axis]);
    return TIDE_OK;
}

static tide_array *by_offsets(tide_array *a, tide_array *offsets, int axis, segments x) {
    tidei_operand o, at, ids;
    tide_array *made = NULL;
    if (get_both(a, offsets, x.op, &o, &at) != TIDE_OK) return NULL;
    x.a = &o;
    x.ids = &ids;
    x.axis = axis;
    x.sorted = true;
    if (check_offsets(&x, &at) == TIDE_OK &&
        tidei_make_ids(o.rt, o.lay.shape[x.axis], &at, 0, x.by, x.op, &ids) == TIDE_OK) {
        made = fold_segments(&x);
        tidei_operand_put(&ids);
    }
    tidei_operand_put(&at);
    tidei_operand_put(&o);
    return made;
}

#define BY_OFFSETS(name, fold_, by_)                                                               \
    tide_array *tide_##name(tide_array *a, tide_array *offsets, int axis) {                        \
        TIDEI_OPERATION("tide_" #name);                                                            \
        return by_offsets(a, offsets, axis,                                                        \
                          (segments){.op = "tide_" #name, .by = by_, .fold = fold_});              \
    }
BY_OFFSETS(segment_sum_offsets, SUM, TIDEI_FAULT_BY_SEGMENT_SUM_OFFSETS)
BY_OFFSETS(segment_mean_offsets, MEAN, TIDEI_FAULT_BY_SEGMENT_MEAN_OFFSETS)
BY_OFFSETS(segment_min_offsets, MIN, TIDEI_FAULT_BY_SEGMENT_MIN_OFFSETS)
BY_OFFSETS(segment_max_offsets, MAX, TIDEI_FAULT_BY_SEGMENT_MAX_OFFSETS)
