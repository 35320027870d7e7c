/* repeat.c: elements along an axis, each several times: tide_repeat, tide_repeat_each.
**
** Each place of the result has the number of the element that it repeats (segment.c), and these are
** taken (places.c). Where all have one count and lie together, a device finds elements by their
** places alone (repeat.h), unless rows are long and such that they move by single bytes. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/index/repeat.h"
#include "arrays/index/segments.h"
#include "arrays/kernels/launch.h"
#include "arrays/scan/scan.h"
#include <tide/index.h>
#include <tide/scan.h>

extern const char tidei_repeat_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_repeat_text, NULL, false }
/* By the logarithm of a unit's bytes. */
static const tidei_own_kernel kernels[] = {KERNEL(repeat_1), KERNEL(repeat_2), KERNEL(repeat_4),
                                           KERNEL(repeat_8), KERNEL(repeat_16)};

/* Rows of more bytes, of units of fewer, move as well by the numbers of their places, which are
** little beside them. */
#define ROW_MOST   32
#define UNIT_LEAST 4

/* Behind the axis; bytes of an element or of such a row. */
static int64_t row_bytes(const tidei_layout *l, int axis) {
    int64_t bytes = (int64_t)tide_dtype_size(l->dtype);
    for (int d = axis + 1; d < l->ndim; d++) bytes *= l->shape[d];
    return bytes;
}

/* The bytes that move as one, at most RP_STORE; 0: rows are not repeated so. Threads store RP_STORE
** bytes at once, so the result begins where its memory does. */
static int64_t unit_of(const tidei_operand *out, const tidei_operand *a, int axis) {
    const tidei_layout *l = &a->lay;
    const int64_t row = row_bytes(l, axis), size = (int64_t)tide_dtype_size(l->dtype);
    if (!(out->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT) || !tidei_layout_contiguous(l) ||
        out->lay.offset)
        return 0;
    const uint64_t all = (uint64_t)row | (uint64_t)(l->offset * size) | RP_STORE;
    const int64_t unit = (int64_t)(all & -all);
    if (tidei_layout_size(&out->lay) * size / unit >= INT32_MAX - RP_STORE) return 0;
    return row < ROW_MOST || unit >= UNIT_LEAST ? unit : 0;
}

static tide_status repeat_rows(const tidei_operand *out, const tidei_operand *a, int axis,
                               int64_t each, int64_t unit, const char *op) {
    const int64_t size = (int64_t)tide_dtype_size(a->lay.dtype), row = row_bytes(&a->lay, axis);
    rp_call c = {.n = tidei_layout_size(&out->lay) * size / unit,
                 .each = (unsigned)each,
                 .row = kt_div_by((unsigned)(row / unit)),
                 .all = kt_div_by((unsigned)(row / unit * each))};
    tidei_uses u = {.params = &c, .bytes = sizeof c};
    tidei_uses_add(&u, out, out->lay.offset, TIDEI_WRITE, offsetof(rp_call, out));
    tidei_uses_add(&u, a, a->lay.offset, TIDEI_READ, offsetof(rp_call, in));
    return tidei_uses_run(&u, a->rt, &kernels[__builtin_ctzll((unsigned long long)unit)],
                          (c.n * unit + RP_STORE - 1) / RP_STORE, op);
}

static tide_status take_into(const tidei_operand *out, const tidei_operand *a, int axis,
                             const tidei_operand *offsets, int64_t each, const char *op) {
    tidei_plan p = {.op = op, .by = TIDEI_FAULT_BY_INDEX};
    tidei_operand ids;
    if (tidei_layout_size(&out->lay) == 0) return TIDE_OK;
    const int64_t unit = offsets ? 0 : unit_of(out, a, axis);
    if (unit) return repeat_rows(out, a, axis, each, unit, op);
    tide_status s =
        tidei_make_ids(a->rt, out->lay.shape[axis], offsets, each, TIDEI_FAULT_BY_INDEX, op, &ids);
    if (s != TIDE_OK) return s;
    s = tidei_scatter_plan(a, &ids, axis, &p);
    if (s == TIDE_OK) s = tidei_plan_take_into(&p, out);
    tidei_operand_put(&ids);
    return s;
}

/* The elements of `a` at n places: by offsets, or `each` times. The result is made first: what is
** large finds room before work is queued on what is small, which cannot be moved then. */
static tide_array *take_repeated(const tidei_operand *a, int axis, int64_t n,
                                 const tidei_operand *offsets, int64_t each, const char *op) {
    int64_t shape[TIDE_MAX_RANK];
    tidei_operand out;
    for (int d = 0; d < a->lay.ndim; d++) shape[d] = d == axis ? n : a->lay.shape[d];
    tide_array *made = tidei_array_make(a->rt, a->lay.dtype, a->lay.ndim, shape, op, &out);
    if (!made) return NULL;
    return tidei_array_done(made, &out, take_into(&out, a, axis, offsets, each, op));
}

static tide_array *repeat(const tidei_operand *a, int64_t count, int axis, const char *op) {
    int64_t n;
    if (tidei_axis(axis, a->lay.ndim, op, &axis) != TIDE_OK) return NULL;
    if (count < 0)
        return (void)tidei_fail(TIDE_E_INVALID, op, "the count is %" PRId64, count), NULL;
    if (__builtin_mul_overflow(a->lay.shape[axis], count, &n))
        return (void)tidei_fail(TIDE_E_NOMEM, op, "axis %d of the result has 2^63 elements or more",
                                axis),
               NULL;
    return take_repeated(a, axis, n, NULL, count, op);
}

tide_array *tide_repeat(tide_array *a, int64_t count, int axis) {
    TIDEI_OPERATION("tide_repeat");
    tidei_operand o;
    if (tidei_operand_get(a, "tide_repeat", 1, &o) != TIDE_OK) return NULL;
    tide_array *made = repeat(&o, count, axis, "tide_repeat");
    tidei_operand_put(&o);
    return made;
}

/* ---- a count for each ---- */

static const char each[] = "tide_repeat_each";

/* The counts, one for each of n elements: one alone is stretched. */
static tide_status check_counts(const tidei_operand *given, int64_t n, tidei_operand *counts) {
    const tidei_layout *l = &given->lay;
    tidei_kind kind = tidei_dtype_kind(l->dtype);
    char text[192];
    *counts = *given;
    if (kind != TIDEI_KIND_INT && kind != TIDEI_KIND_UINT)
        return tidei_fail(TIDE_E_DTYPE, each, "counts are %s; wanted an integer type",
                          tide_dtype_name(l->dtype));
    if (l->ndim > 1 || (l->ndim == 1 && l->shape[0] != n && l->shape[0] != 1))
        return tidei_fail(TIDE_E_SHAPE, each,
                          "counts of shape %s for %" PRId64 " elements: each needs one, or all one",
                          tidei_shape_text(text, sizeof text, l->ndim, l->shape), n);
    counts->lay.ndim = 1;
    counts->lay.shape[0] = n;
    counts->lay.strides[0] = l->ndim && l->shape[0] == n ? l->strides[0] : 0;
    return TIDE_OK;
}

/* What is read back, at once: the sum of the counts, the least of them, and the least sum of the
** first ones, which is negative where sums went beyond 2^63 on the way. */
enum { TOTAL, LEAST, LEAST_SUM, READ };

/* Unsigned numbers as signed ones: those from 2^63 on are negative. */
static tidei_operand as_signed(const tidei_operand *o) {
    tidei_operand s = *o;
    if (s.lay.dtype == TIDE_U64) s.lay.dtype = TIDE_I64;
    return s;
}

/* Where the elements' repetitions begin, and where the last one's end: `offsets`. */
static tide_status add_up(const tidei_operand *counts, int64_t n, tidei_operand *offsets,
                          tidei_operand *least) {
    int64_t ends = n + 1;
    bool is_signed = tidei_dtype_kind(counts->lay.dtype) == TIDEI_KIND_INT;
    tide_status s =
        tidei_operand_make(counts->rt, is_signed ? TIDE_I64 : TIDE_U64, 1, &ends, each, offsets);
    if (s != TIDE_OK) return s;
    const tidei_operand plain = as_signed(counts);
    s = tidei_operand_make(counts->rt, plain.lay.dtype, 1, &n, each, least);
    if (s == TIDE_OK) {
        s = tidei_scan_into(offsets, counts, TIDEI_SCAN_sum, 0, TIDE_SCAN_INITIAL, each);
        if (s == TIDE_OK) s = tidei_scan_into(least, &plain, TIDEI_SCAN_min, 0, 0, each);
        if (s != TIDE_OK) tidei_operand_put(least);
    }
    if (s != TIDE_OK) tidei_operand_put(offsets);
    return s;
}

/* Copies element i of a vector into a slot, which is an i64. */
static tide_status store_element(const tidei_operand *to, int64_t slot, const tidei_operand *from,
                                 int64_t i) {
    tidei_operand dst = *to, src = *from;
    dst.lay.ndim = src.lay.ndim = 0;
    dst.lay.offset += slot;
    src.lay.offset += i;
    return tidei_store_elements(to->rt, &dst, &src, each);
}

static tide_status read_back(const tidei_operand *offsets, const tidei_operand *least, int64_t n,
                             int64_t read[READ]) {
    const int64_t three = READ, ends = n + 1;
    const tidei_operand sums = as_signed(offsets);
    tidei_operand all, lowest;
    tide_status s = tidei_operand_make(offsets->rt, TIDE_I64, 1, &three, each, &all);
    if (s != TIDE_OK) return s;
    s = tidei_operand_make(offsets->rt, TIDE_I64, 1, &ends, each, &lowest);
    if (s == TIDE_OK) {
        s = tidei_scan_into(&lowest, &sums, TIDEI_SCAN_min, 0, 0, each);
        if (s == TIDE_OK) s = store_element(&all, LEAST_SUM, &lowest, n);
        if (s == TIDE_OK) s = store_element(&all, TOTAL, &sums, n);
        if (s == TIDE_OK) s = store_element(&all, LEAST, least, n - 1);
        tidei_operand_put(&lowest);
    }
    if (s == TIDE_OK) s = tidei_operand_read(&all, read, each);
    tidei_operand_put(&all);
    return s;
}

static tide_status check_read(const tidei_operand *counts, const int64_t read[READ]) {
    if (read[LEAST] < 0 && tidei_dtype_kind(counts->lay.dtype) == TIDEI_KIND_INT)
        return tidei_fail(TIDE_E_INVALID, each, "a count is %" PRId64, read[LEAST]);
    if (read[LEAST] < 0 || read[LEAST_SUM] < 0)
        return tidei_fail(TIDE_E_NOMEM, each, "the counts add up to 2^63 or more");
    return TIDE_OK;
}

static tide_array *repeat_counted(const tidei_operand *a, int axis, const tidei_operand *counts) {
    tidei_operand offsets, least;
    int64_t n = a->lay.shape[axis], read[READ];
    tide_array *made = NULL;
    if (n == 0) return take_repeated(a, axis, 0, NULL, 1, each);
    if (add_up(counts, n, &offsets, &least) != TIDE_OK) return NULL;
    tide_status s = read_back(&offsets, &least, n, read);
    tidei_operand_put(&least);
    if (s == TIDE_OK && check_read(counts, read) == TIDE_OK)
        made = take_repeated(a, axis, read[TOTAL], &offsets, 0, each);
    tidei_operand_put(&offsets);
    return made;
}

tide_array *tide_repeat_each(tide_array *a, tide_array *counts, int axis) {
    TIDEI_OPERATION("tide_repeat_each");
    tidei_operand o, c, all;
    tide_array *made = NULL;
    if (tidei_no_nulls(each, (tide_array *const[]){a, counts}, 2) != TIDE_OK) return NULL;
    if (tidei_operand_get(a, each, 1, &o) != TIDE_OK) return NULL;
    if (tidei_operand_get_of(o.rt, counts, each, 2, &c) == TIDE_OK) {
        if (tidei_axis(axis, o.lay.ndim, each, &axis) == TIDE_OK &&
            check_counts(&c, o.lay.shape[axis], &all) == TIDE_OK)
            made = repeat_counted(&o, axis, &all);
        tidei_operand_put(&c);
    }
    tidei_operand_put(&o);
    return made;
}
