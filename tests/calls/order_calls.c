/* order_calls.c: calls of tide/order.h. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <math.h>
#include <tide/order.h>

/* Now and then a result through a pointer is not wanted. */
static bool unwanted(world *w) { return chance(w, 20); }
static const char *said(bool none, const char *name) { return none ? "NULL" : name; }

/* Two results of a call, each of which was marked before. */
enum { MOST = 4 };
static void gave_some(world *w, tide_status s, tide_array **outs, const bool *none, int n) {
    if (!gave(w, s)) return marked(w, outs, MOST * sizeof *outs);
    for (int i = 0; i < n; i++)
        if (none[i])
            marked(w, &outs[i], sizeof *outs);
        else if (!made_beside(w, outs[i], NULL, ROW_MAJOR))
            broken(w, "succeeds, and result %d is NULL", i);
}

/* ---- sorting ---- */

static void sort_one(world *w, tide_array *(*fn)(tide_array *a, int axis, int descending)) {
    array *x = draw_array(w, VECTOR);
    int axis = draw_axis(w, x->ndim), down = ONE_OF(w, int, 0, 1, -3);
    calling(w, "%s(%s, %d, %d)", w->frame->c->name, x->name, axis, down);
    (void)made(w, fn(x->a, axis, down), NULL, ROW_MAJOR);
}
static void on_sort(world *w) { sort_one(w, tide_sort); }
static void on_argsort(world *w) { sort_one(w, tide_argsort); }

static void on_sort_both(world *w) {
    tide_array *outs[MOST];
    array *x = draw_array(w, VECTOR);
    int axis = draw_axis(w, x->ndim), down = ONE_OF(w, int, 0, 1);
    const bool none[] = {unwanted(w), unwanted(w)};
    mark(outs, sizeof outs);
    calling(w, "tide_sort_both(%s, %d, %d, %s, %s)", x->name, axis, down, said(none[0], "&values"),
            said(none[1], "&indices"));
    gave_some(
        w, tide_sort_both(x->a, axis, down, none[0] ? NULL : &outs[0], none[1] ? NULL : &outs[1]),
        outs, none, 2);
}

static void part(world *w, tide_array *(*fn)(tide_array *a, int64_t kth, int axis)) {
    array *x = draw_array(w, VECTOR);
    int axis = draw_axis(w, x->ndim);
    int64_t kth = chance(w, 70) ? 0 : draw_int(w);
    calling(w, "%s(%s, %" PRId64 ", %d)", w->frame->c->name, x->name, kth, axis);
    (void)made(w, fn(x->a, kth, axis), NULL, ROW_MAJOR);
}
static void on_partition(world *w) { part(w, tide_partition); }
static void on_argpartition(world *w) { part(w, tide_argpartition); }

static void on_topk(world *w) {
    tide_array *outs[MOST];
    array *x = draw_array(w, VECTOR);
    int axis = draw_axis(w, x->ndim), largest = ONE_OF(w, int, 0, 1);
    int64_t k = chance(w, 70) ? below(w, 2) : draw_int(w);
    const bool none[] = {unwanted(w), unwanted(w)};
    mark(outs, sizeof outs);
    calling(w, "tide_topk(%s, %" PRId64 ", %d, %d, %s, %s)", x->name, k, axis, largest,
            said(none[0], "&values"), said(none[1], "&indices"));
    gave_some(
        w, tide_topk(x->a, k, axis, largest, none[0] ? NULL : &outs[0], none[1] ? NULL : &outs[1]),
        outs, none, 2);
}

static void on_lexsort(world *w) {
    array *x = draw_array(w, VECTOR), *y = x;
    int axis = draw_axis(w, x->ndim);
    size_t n = 1 + below(w, 2);
    if (n == 2 && chance(w, 50)) y = draw_partner(w, x, VECTOR);
    tide_array *const keys[] = {x->a, y->a};
    calling(w, "tide_lexsort((tide_array *[]){%s, %s}, %zu, %d)", x->name, y->name, n, axis);
    (void)made(w, tide_lexsort(keys, n, axis), NULL, ROW_MAJOR);
}

/* ---- searching ---- */

static void on_searchsorted(world *w) {
    array *x = draw_array(w, VECTOR), *y = draw_partner(w, x, 0);
    int right = ONE_OF(w, int, 0, 1);
    calling(w, "tide_searchsorted(%s, %s, %d)", x->name, y->name, right);
    (void)made(w, tide_searchsorted(x->a, y->a, right), NULL, ROW_MAJOR);
}

static void on_isin(world *w) {
    array *x = draw_array(w, 0), *y = draw_partner(w, x, 0);
    calling(w, "tide_isin(%s, %s)", x->name, y->name);
    (void)made(w, tide_isin(x->a, y->a), NULL, ROW_MAJOR);
}

static void on_unique_values(world *w) {
    array *x = draw_array(w, 0);
    calling(w, "tide_unique_values(%s)", x->name);
    (void)made(w, tide_unique_values(x->a), NULL, ROW_MAJOR);
}

static void unique(world *w, tide_status (*fn)(tide_array *a, tide_array **x, tide_array **y)) {
    tide_array *outs[MOST];
    array *x = draw_array(w, 0);
    const bool none[] = {unwanted(w), unwanted(w)};
    mark(outs, sizeof outs);
    calling(w, "%s(%s, %s, %s)", w->frame->c->name, x->name, said(none[0], "&values"),
            said(none[1], "&others"));
    gave_some(w, fn(x->a, none[0] ? NULL : &outs[0], none[1] ? NULL : &outs[1]), outs, none, 2);
}
static void on_unique_counts(world *w) { unique(w, tide_unique_counts); }
static void on_unique_inverse(world *w) { unique(w, tide_unique_inverse); }

static void on_unique_all(world *w) {
    tide_array *outs[MOST];
    array *x = draw_array(w, 0);
    const bool none[] = {unwanted(w), unwanted(w), unwanted(w), unwanted(w)};
    mark(outs, sizeof outs);
    calling(w, "tide_unique_all(%s, %s, %s, %s, %s)", x->name, said(none[0], "&values"),
            said(none[1], "&indices"), said(none[2], "&inverse"), said(none[3], "&counts"));
    gave_some(w,
              tide_unique_all(x->a, none[0] ? NULL : &outs[0], none[1] ? NULL : &outs[1],
                              none[2] ? NULL : &outs[2], none[3] ? NULL : &outs[3]),
              outs, none, 4);
}

/* ---- statistics ---- */

static void on_quantile(world *w) {
    array *x = draw_array(w, REAL), *many = chance(w, 30) ? draw_partner(w, x, SMALL) : NULL;
    const tide_arg q = many            ? tide_arg_array(many->a)
                       : chance(w, 90) ? tide_arg_float(below(w, 11) / 10.0)
                                       : ONE_OF(w, tide_arg, tide_arg_float(draw_double(w)),
                                                tide_arg_int(draw_int(w)), tide_arg_bool(1),
                                                tide_arg_complex(0.5, 0));
    int axis = draw_axis(w, x->ndim), keep = ONE_OF(w, int, 0, 1);
    bool all = chance(w, 40);
    calling(w, "tide_quantile(%s, %s, %s, 1, %d)", x->name, many ? many->name : say_number(w, q),
            all ? "NULL" : say(w, "(int[]){%d}", axis), keep);
    (void)made(w, tide_quantile(x->a, q, all ? NULL : &axis, 1, keep), NULL, ROW_MAJOR);
}

static void on_median(world *w) {
    array *x = draw_array(w, chance(w, 80) ? REAL : 0);
    int axis = draw_axis(w, x->ndim), n = ONE_OF(w, int, 0, 1, 1, -1);
    bool all = chance(w, 40);
    calling(w, "tide_median(%s, %s, %d, 0)", x->name, all ? "NULL" : say(w, "(int[]){%d}", axis),
            n);
    (void)made(w, tide_median(x->a, all ? NULL : &axis, n, 0), NULL, ROW_MAJOR);
}

static void on_histogram(world *w) {
    tide_array *outs[MOST];
    array *x = draw_array(w, chance(w, 80) ? REAL : 0);
    int64_t bins = chance(w, 80) ? 1 + below(w, 20) : draw_int(w);
    double low = chance(w, 50) ? NAN : draw_double(w), high = low != low ? NAN : low + 3;
    if (chance(w, 5)) high = draw_double(w);
    const bool none[] = {unwanted(w), unwanted(w)};
    mark(outs, sizeof outs);
    calling(w, "tide_histogram(%s, %" PRId64 ", %.17g, %.17g, %s, %s)", x->name, bins, low, high,
            said(none[0], "&counts"), said(none[1], "&edges"));
    gave_some(
        w,
        tide_histogram(x->a, bins, low, high, none[0] ? NULL : &outs[0], none[1] ? NULL : &outs[1]),
        outs, none, 2);
}

static void on_bincount(world *w) {
    array *x = draw_array(w, INTEGER);
    const bool must = w->frame->must_fail, null = w->frame->null_array;
    array *y = chance(w, 50) ? draw_partner(w, x, REAL) : NULL;
    if (y && !y->a) w->frame->must_fail = must, w->frame->null_array = null; /* it is legal */
    int64_t bins = chance(w, 80) ? (int64_t)below(w, 20) : draw_int(w);
    calling(w, "tide_bincount(%s, %s, %" PRId64 ")", x->name, y ? y->name : "NULL", bins);
    (void)made(w, tide_bincount(x->a, y ? y->a : NULL, bins), NULL, ROW_MAJOR);
}

/* ---- the table ---- */

const call order_calls[] = {
    ROW(sort, 0),           ROW(argsort, 0),      ROW(sort_both, 0),
    ROW(partition, 0),      ROW(argpartition, 0), ROW(topk, 0),
    ROW(lexsort, 0),        ROW(searchsorted, 0), ROW(isin, 0),
    ROW(unique_values, 0),  ROW(unique_all, 0),   ROW(unique_counts, 0),
    ROW(unique_inverse, 0), ROW(quantile, 0),     ROW(median, 0),
    ROW(histogram, 0),      ROW(bincount, 0),     LAST_ROW,
};
