/* bins.c: histograms, and how often small integers occur. Integers are counted by atomics, whose
** order does not matter; weights are summed over elements that were sorted by their bin. */
#include <inttypes.h>
#include <math.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/expr/front.h"
#include "arrays/order/results.h"
#include "arrays/order/sort.h"
#include "arrays/order/step.h"

static tide_status zero(const tidei_operand *o, const char *op) {
    return tidei_fill_elements(o, &(uint64_t){0}, op);
}

/* ---- histograms ---- */

typedef struct histogram {
    tide_array *array;
    const tidei_operand *a;
    tidei_operand flat, least, greatest;
    int64_t bins;
    double low, high;
    tidei_results r;
} histogram;

static tide_status check_histogram(const histogram *h) {
    const char *op = h->r.op;
    if (tidei_dtype_kind(h->a->lay.dtype) == TIDEI_KIND_COMPLEX)
        return tidei_fail(TIDE_E_DTYPE, op, "the array is %s; wanted a real type",
                          tide_dtype_name(h->a->lay.dtype));
    if (h->bins < 1)
        return tidei_fail(TIDE_E_INVALID, op, "%" PRId64 " bins; wanted 1 or more", h->bins);
    if (h->bins == INT64_MAX)
        return tidei_fail(TIDE_E_NOMEM, op, "%" PRId64 " bins have 2^63 edges", h->bins);
    if (isnan(h->low) && isnan(h->high)) return TIDE_OK;
    if (isfinite(h->low) && isfinite(h->high) && h->low < h->high) return TIDE_OK;
    return tidei_fail(TIDE_E_INVALID, op, "bins from %g to %g; wanted finite numbers that ascend",
                      h->low, h->high);
}

/* The array's least or greatest element as f64: an operand among the results. */
static void find_end(histogram *h, const char *text, tidei_operand *end) {
    const tide_arg arg = tide_arg_array(h->array);
    tide_array *found = NULL;
    tidei_operand o;
    if (h->r.status != TIDE_OK) return;
    h->r.status = tidei_expr_map(h->a->rt, text, h->r.op, &arg, 1, &found, NULL);
    if (!(found = tidei_temporary(found, h->r.op))) h->r.status = tidei_last_status();
    if (h->r.status != TIDE_OK) return;
    const tidei_operand *wide = tidei_results_make(&h->r, NULL, TIDE_F64, 1, (const int64_t[]){1});
    if (wide) h->r.status = tidei_operand_get(found, h->r.op, 1, &o);
    if (h->r.status == TIDE_OK) {
        *end = *wide;
        h->r.status = tidei_store_elements(h->a->rt, wide, &o, h->r.op);
        tidei_operand_put(&o);
    }
    tidei_temporary_end(found);
}

static void find_range(histogram *h, tidei_step *s) {
    if (!isnan(h->low) || tidei_layout_size(&h->a->lay) == 0) {
        s->low = isnan(h->low) ? 0 : h->low;
        s->high = isnan(h->high) ? 1 : h->high;
        return;
    }
    find_end(h, "(x) -> min(x)", &h->least);
    find_end(h, "(x) -> max(x)", &h->greatest);
    s->least = &h->least;
    s->greatest = &h->greatest;
}

static void run_histogram(histogram *h, tide_array **counts, tide_array **edges) {
    tide_dtype t = h->a->lay.dtype;
    if (t == TIDE_F16 || t == TIDE_BF16) t = TIDE_F32;
    tidei_step s = {.m = h->bins, .type = t, .given = &h->flat};
    if (h->r.status == TIDE_OK) h->r.status = check_histogram(h);
    if (h->r.status == TIDE_OK) find_range(h, &s);
    (void)tidei_step_flat(&h->r, h->a, t, false, &h->flat); /* in its status */
    if (h->r.status != TIDE_OK) return;
    if (edges) {
        tidei_step e = s;
        e.name = TIDEI_STEP_EDGES;
        e.n = h->bins + 1;
        e.values = tidei_results_make(&h->r, edges, TIDE_F64, 1, &e.n);
        if (e.values) h->r.status = tidei_step_run(&e, h->r.op);
    }
    if (!counts) return;
    s.name = TIDEI_STEP_BINS;
    s.n = h->flat.lay.shape[0];
    s.counts = tidei_results_make(&h->r, counts, TIDE_I64, 1, &h->bins);
    if (s.counts) h->r.status = zero(s.counts, h->r.op);
    if (h->r.status == TIDE_OK) h->r.status = tidei_step_run(&s, h->r.op);
}

tide_status tide_histogram(tide_array *a, int64_t bins, double low, double high,
                           tide_array **counts, tide_array **edges) {
    TIDEI_OPERATION("tide_histogram");
    static const char op[] = "tide_histogram";
    tidei_operand o;
    histogram h = {.array = a, .a = &o, .bins = bins, .low = low, .high = high, .r = {.op = op}};
    if (a && !counts && !edges) return tidei_results_none(op);
    h.r.status = tidei_operand_get(a, op, 1, &o);
    if (h.r.status != TIDE_OK) return h.r.status;
    h.r.rt = o.rt;
    run_histogram(&h, counts, edges);
    (void)tidei_results_end(&h.r); /* its status */
    tidei_operand_put(&o);
    return h.r.status;
}

/* ---- integers ---- */

/* A call: the elements as one axis of i64. */
typedef struct count {
    tide_array *array;
    const tidei_operand *a, *weights; /* weights: NULL, or given */
    tidei_operand flat;
    int64_t bins;
    tidei_results r;
} count;

static tide_status check_count(const count *c) {
    char one[192], other[192];
    const tidei_layout *a = &c->a->lay, *w = c->weights ? &c->weights->lay : a;
    if (tidei_dtype_kind(a->dtype) > TIDEI_KIND_UINT)
        return tidei_fail(TIDE_E_DTYPE, c->r.op, "the array is %s; wanted bool or integers",
                          tide_dtype_name(a->dtype));
    if (tidei_dtype_kind(w->dtype) == TIDEI_KIND_COMPLEX)
        return tidei_fail(TIDE_E_DTYPE, c->r.op, "weights are %s; wanted a real type",
                          tide_dtype_name(w->dtype));
    if (w->ndim == a->ndim && tidei_same_dims(a->ndim, w->shape, a->shape)) return TIDE_OK;
    return tidei_fail(TIDE_E_SHAPE, c->r.op, "weights have shape %s; the array has %s",
                      tidei_shape_text(one, sizeof one, w->ndim, w->shape),
                      tidei_shape_text(other, sizeof other, a->ndim, a->shape));
}

/* As many bins as the greatest element wants; waits for it. */
static void count_bins(count *c) {
    const tide_arg arg = tide_arg_array(c->array);
    tide_array *found = NULL;
    tidei_operand o;
    unsigned char most[16];
    if (c->r.status != TIDE_OK || c->bins >= 0) return;
    c->bins = 0;
    if (tidei_layout_size(&c->a->lay) == 0) return;
    c->r.status = tidei_expr_map(c->a->rt, "(x) -> max(x)", c->r.op, &arg, 1, &found, NULL);
    if (!(found = tidei_temporary(found, c->r.op))) c->r.status = tidei_last_status();
    if (c->r.status != TIDE_OK) return;
    c->r.status = tidei_operand_get(found, c->r.op, 1, &o);
    if (c->r.status == TIDE_OK) {
        c->r.status = tidei_operand_read(&o, most, c->r.op);
        tide_arg v = tidei_decode(most, o.lay.dtype);
        bool below = v.kind == TIDE_ARG_INT && v.value.i < 0;
        if (c->r.status == TIDE_OK)
            c->bins = below ? 0 : v.value.u >= INT64_MAX ? INT64_MAX : v.value.i + 1;
        tidei_operand_put(&o);
    }
    tidei_temporary_end(found);
}

/* Counted by themselves. */
static void count_plain(count *c, tide_array **out) {
    tidei_step s = {.name = TIDEI_STEP_BINS,
                    .given = &c->flat,
                    .n = c->flat.lay.shape[0],
                    .m = c->bins,
                    .whole = true,
                    .type = TIDE_I64};
    s.counts = tidei_results_make(&c->r, out, TIDE_I64, 1, &c->bins);
    if (s.counts) c->r.status = zero(s.counts, c->r.op);
    if (c->r.status == TIDE_OK && c->bins) c->r.status = tidei_step_run(&s, c->r.op);
}

/* Where each bin begins among the sorted elements, and the last one ends. */
static const tidei_operand *find_bins(count *c, const tidei_operand *sorted) {
    tidei_step s = {.name = TIDEI_STEP_STARTS,
                    .sorted = sorted,
                    .n = c->bins + 1,
                    .m = c->flat.lay.shape[0],
                    .type = TIDE_I64};
    s.places = tidei_results_make(&c->r, NULL, TIDE_I64, 1, &s.n);
    if (s.places) c->r.status = tidei_step_run(&s, c->r.op);
    return s.places;
}

/* Sorted by their bin, then summed bin by bin. */
static void count_weights(count *c, tide_array **out) {
    const int64_t n = c->flat.lay.shape[0];
    tidei_operand weights;
    (void)tidei_step_flat(&c->r, c->weights, TIDE_F64, false, &weights); /* in its status */
    const tidei_operand *sorted = tidei_results_make(&c->r, NULL, TIDE_I64, 1, &n),
                        *order = tidei_results_make(&c->r, NULL, TIDE_I64, 1, &n);
    const tidei_sorting by_bin = {.source = &c->flat, .values = sorted, .indices = order};
    if (c->r.status == TIDE_OK) c->r.status = tidei_sort(&by_bin, c->r.op);
    tidei_step s = {.name = TIDEI_STEP_WEIGH,
                    .given = &weights,
                    .order = order,
                    .starts = find_bins(c, sorted),
                    .n = c->bins,
                    .type = TIDE_F64};
    s.values = tidei_results_make(&c->r, out, TIDE_F64, 1, &c->bins);
    if (s.values) c->r.status = tidei_step_run(&s, c->r.op);
}

/* With operands there. */
static void run_count(count *c, tide_array **out) {
    if (c->r.status == TIDE_OK) c->r.status = check_count(c);
    count_bins(c);
    if (c->r.status == TIDE_OK && c->bins == INT64_MAX)
        c->r.status = tidei_fail(TIDE_E_NOMEM, c->r.op, "there would be 2^63 bins or more");
    (void)tidei_step_flat(&c->r, c->a, TIDE_I64, false, &c->flat); /* in its status */
    if (c->r.status != TIDE_OK) return;
    if (c->weights)
        count_weights(c, out);
    else
        count_plain(c, out);
}

tide_array *tide_bincount(tide_array *a, tide_array *weights, int64_t bins) {
    TIDEI_OPERATION("tide_bincount");
    tidei_operand o, w;
    tide_array *out = NULL;
    count c = {.array = a, .a = &o, .bins = bins, .r = {.op = "tide_bincount"}};
    if (tidei_operand_get(a, c.r.op, 1, &o) != TIDE_OK) return NULL;
    c.r.rt = o.rt;
    if (weights) {
        c.r.status = tidei_operand_get_of(o.rt, weights, c.r.op, 2, &w);
        if (c.r.status == TIDE_OK) c.weights = &w;
    }
    run_count(&c, &out);
    (void)tidei_results_end(&c.r); /* NULL then */
    if (c.weights) tidei_operand_put(&w);
    tidei_operand_put(&o);
    return out;
}
