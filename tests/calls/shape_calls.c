/* shape_calls.c: calls of tide/shape.h. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- lists of numbers ---- mostly small ones */

static int64_t few(world *w) {
    return chance(w, 94) ? (int64_t)below(w, 4)
                         : ONE_OF(w, int64_t, -1, 17, (int64_t)1 << 40, INT64_MAX, INT64_MIN);
}

static const char *draw_list(world *w, int n, int64_t *list) {
    for (int i = 0; i < n; i++) list[i] = few(w);
    return say_dims(w, n, list);
}

/* Of an array's axes each once, unless by chance; *n of them. */
static const char *draw_axes(world *w, const array *x, int *axes, int *n) {
    char text[96] = "";
    size_t at = 0;
    *n = x->ndim ? (int)below(w, (unsigned)x->ndim + 1) : 0;
    for (int i = 0; i < *n; i++) {
        axes[i] = chance(w, 90) ? i : draw_axis(w, x->ndim);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", i ? ", " : "", axes[i]);
    }
    if (chance(w, 3)) *n = -(int)below(w, 9);
    return say(w, "(int[]){%s}", text);
}

/* ---- views ---- */

static void on_flip(world *w) {
    int axes[TIDE_MAX_RANK], n;
    array *x = draw_array(w, VAST);
    const char *text = draw_axes(w, x, axes, &n);
    bool all = chance(w, 30);
    calling(w, "tide_flip(%s, %s, %d)", x->name, all ? "NULL" : text, n);
    (void)made(w, tide_flip(x->a, all ? NULL : axes, n), x, 0);
}

static void on_moveaxis(world *w) {
    int from[TIDE_MAX_RANK], to[TIDE_MAX_RANK], n, m;
    array *x = draw_array(w, VAST);
    const char *one = draw_axes(w, x, from, &n), *other = draw_axes(w, x, to, &m);
    if (m < n) n = m;
    bool none = chance(w, 3);
    if (none && n > 0) expect(w, TIDE_E_INVALID);
    calling(w, "tide_moveaxis(%s, %s, %s, %d)", x->name, one, none ? "NULL" : other, n);
    (void)made(w, tide_moveaxis(x->a, from, none ? NULL : to, n), x, 0);
}

static void on_diagonal(world *w) {
    array *x = draw_array(w, VAST | MATRIX);
    int64_t offset = draw_int(w);
    int one = draw_axis(w, x->ndim), other = draw_axis(w, x->ndim);
    calling(w, "tide_diagonal(%s, %" PRId64 ", %d, %d)", x->name, offset, one, other);
    (void)made(w, tide_diagonal(x->a, offset, one, other), x, 0);
}

static void on_windows(world *w) {
    int64_t lengths[TIDE_MAX_RANK], steps[TIDE_MAX_RANK];
    int axes[TIDE_MAX_RANK], n;
    array *x = draw_array(w, SMALL);
    const char *text = draw_axes(w, x, axes, &n);
    for (int i = 0; i < TIDE_MAX_RANK; i++) lengths[i] = few(w), steps[i] = few(w);
    bool ones = chance(w, 60), first = chance(w, 40);
    calling(w, "tide_windows(%s, %s, %s, %s, %d)", x->name, first ? "NULL" : text,
            say_dims(w, TIDE_MAX_RANK, lengths), ones ? "NULL" : say_dims(w, TIDE_MAX_RANK, steps),
            n);
    (void)made(w, tide_windows(x->a, first ? NULL : axes, lengths, ones ? NULL : steps, n), x, 0);
}

static void on_reshape_with(world *w) {
    array *x = draw_array(w, 0);
    const int64_t flat[] = {-1, 1};
    int copy = draw_enum(w, TIDE_COPY_IF_NEEDED, TIDE_COPY_ALWAYS), ndim = 1 + (int)below(w, 2);
    calling(w, "tide_reshape_with(%s, %d, (int64_t[]){-1, 1}, %d)", x->name, ndim, copy);
    (void)made(w, tide_reshape_with(x->a, ndim, flat, copy), x, 0);
}

/* ---- several at once ---- */

enum { MOST = 12 };

/* Of a call that gives m results in `outs`, which were marked before; `of` is whose memory they
** share, or, as a list, each one's. */
static void gave_views(world *w, tide_status s, tide_array **outs, size_t m, array *const *of,
                       size_t nof) {
    if (!gave(w, s)) return marked(w, outs, MOST * sizeof *outs);
    for (size_t i = 0; i < m; i++)
        if (!made_beside(w, outs[i], of[nof == 1 ? 0 : i], 0))
            broken(w, "succeeds, and result %zu is NULL", i);
    marked(w, outs + m, (MOST - m) * sizeof *outs);
}

static void on_unstack(world *w) {
    tide_array *outs[MOST];
    array *x = draw_array(w, VECTOR);
    int axis = draw_axis(w, x->ndim);
    int64_t n = axis >= -x->ndim && axis < x->ndim ? x->shape[axis < 0 ? axis + x->ndim : axis] : 0;
    size_t m = n <= MOST && chance(w, 95) ? (size_t)n : below(w, MOST);
    mark(outs, sizeof outs);
    calling(w, "tide_unstack(%s, %d, outs, %zu)", x->name, axis, m);
    gave_views(w, tide_unstack(x->a, axis, outs, m), outs, m, &x, 1);
}

static void on_split(world *w) {
    tide_array *outs[MOST];
    int64_t indices[MOST];
    array *x = draw_array(w, VECTOR);
    int axis = draw_axis(w, x->ndim);
    size_t m = below(w, MOST), n = m ? m - 1 : 0;
    for (int i = 0; i < MOST; i++) indices[i] = draw_int(w);
    bool equal = chance(w, 50);
    if (chance(w, 4)) n = below(w, MOST);
    if (!m) expect(w, TIDE_E_INVALID), may(w, TIDE_E_BOUNDS);
    mark(outs, sizeof outs);
    calling(w, "tide_split(%s, %s, %zu, %d, outs, %zu)", x->name,
            equal ? "NULL" : say_dims(w, (int)n, indices), n, axis, m);
    gave_views(w, tide_split(x->a, equal ? NULL : indices, n, axis, outs, m), outs, m, &x, 1);
}

/* A list of arrays for a call. */
typedef struct listed {
    tide_array *a[MOST];
    array *of[MOST];
    size_t n;
    const char *text;
} listed;

static void draw_listed(world *w, unsigned wanted, listed *l) {
    char text[SAYING] = "";
    size_t at = 0;
    array *x = draw_array(w, wanted);
    l->n = chance(w, 97) ? 1 + below(w, 4) : 0;
    for (size_t i = 0; i < l->n; i++) {
        l->of[i] = i && chance(w, 50) ? draw_partner(w, x, wanted) : x;
        l->a[i] = l->of[i]->a;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "", l->of[i]->name);
    }
    if (!l->n) expect(w, TIDE_E_INVALID), w->frame->null_array = false; /* none is seen there */
    l->text = say(w, "(tide_array *[]){%s}", text);
}

static void on_broadcast_arrays(world *w) {
    tide_array *outs[MOST];
    listed l;
    draw_listed(w, 0, &l);
    mark(outs, sizeof outs);
    calling(w, "tide_broadcast_arrays(%s, %zu, outs)", l.text, l.n);
    tide_status s = tide_broadcast_arrays(l.a, l.n, outs);
    gave_views(w, s, outs, l.n, l.of, l.n);
}

static void on_meshgrid(world *w) {
    tide_array *outs[MOST];
    listed l;
    draw_listed(w, chance(w, 50) ? ONE : SMALL, &l);
    int indexing = draw_enum(w, TIDE_GRID_XY, TIDE_GRID_IJ);
    mark(outs, sizeof outs);
    calling(w, "tide_meshgrid(%s, %zu, %d, outs)", l.text, l.n, indexing);
    tide_status s = tide_meshgrid(l.a, l.n, indexing, outs);
    gave_views(w, s, outs, l.n, l.of, l.n);
}

/* ---- shifted, padded, joined, repeated ---- */

static void on_roll(world *w) {
    int64_t shifts[TIDE_MAX_RANK];
    int axes[TIDE_MAX_RANK], n;
    array *x = draw_array(w, 0);
    const char *text = draw_axes(w, x, axes, &n);
    for (int i = 0; i < TIDE_MAX_RANK; i++) shifts[i] = draw_int(w);
    bool flat = chance(w, 30);
    calling(w, "tide_roll(%s, %s, %s, %d)", x->name, say_dims(w, TIDE_MAX_RANK, shifts),
            flat ? "NULL" : text, n);
    (void)made(w, tide_roll(x->a, shifts, flat ? NULL : axes, n), NULL, ROW_MAJOR);
}

static void on_pad(world *w) {
    int64_t before[TIDE_MAX_RANK], after[TIDE_MAX_RANK];
    array *x = draw_array(w, SMALL);
    int mode = draw_enum(w, TIDE_PAD_CONSTANT, TIDE_PAD_WRAP);
    tide_arg value = mode == TIDE_PAD_CONSTANT ? draw_number(w, x->dtype) : tide_arg_int(0);
    const char *one = draw_list(w, x->ndim, before), *other = draw_list(w, x->ndim, after);
    may(w, TIDE_E_SHAPE);
    calling(w, "tide_pad(%s, %s, %s, %d, %s)", x->name, one, other, mode, say_number(w, value));
    (void)made(w, tide_pad(x->a, before, after, mode, value), NULL, ROW_MAJOR);
}

static void on_stack(world *w) {
    listed l;
    draw_listed(w, 0, &l);
    int axis = draw_axis(w, l.n ? l.of[0]->ndim + 1 : 1);
    calling(w, "tide_stack(%s, %zu, %d)", l.text, l.n, axis);
    (void)made(w, tide_stack(l.a, l.n, axis), NULL, ROW_MAJOR);
}

static void on_tile(world *w) {
    int64_t reps[TIDE_MAX_RANK];
    array *x = draw_array(w, SMALL);
    int n = (int)below(w, 4);
    const char *text = draw_list(w, n, reps);
    if (chance(w, 3)) n = -1, expect(w, TIDE_E_INVALID);
    calling(w, "tide_tile(%s, %s, %d)", x->name, text, n);
    (void)made(w, tide_tile(x->a, reps, n), NULL, ROW_MAJOR);
}

/* ---- triangles and diagonals, arrays like others ---- */

static void on_triangle(world *w) {
    array *x = draw_array(w, MATRIX);
    int64_t k = draw_int(w);
    bool lower = !strcmp(w->frame->c->name, "tide_tril");
    calling(w, "%s(%s, %" PRId64 ")", w->frame->c->name, x->name, k);
    (void)made(w, lower ? tide_tril(x->a, k) : tide_triu(x->a, k), NULL, ROW_MAJOR);
}

static void on_eye(world *w) {
    runtime *r = draw_runtime(w);
    tide_dtype t = draw_dtype(w);
    int64_t rows = few(w), cols = few(w), k = draw_int(w);
    may(w, TIDE_E_SHAPE);
    calling(w, "tide_eye(%s, %d, %" PRId64 ", %" PRId64 ", %" PRId64 ")", r->name, t, rows, cols,
            k);
    (void)made(w, tide_eye(r->ref, t, rows, cols, k), NULL, ROW_MAJOR);
}

static void on_like(world *w) {
    array *x = draw_array(w, 0);
    calling(w, "%s(%s)", w->frame->c->name, x->name);
    (void)made(w, w->frame->c->fn.unary(x->a), NULL, ROW_MAJOR);
}

static void on_full_like(world *w) {
    array *x = draw_array(w, 0);
    tide_arg v = draw_number(w, x->dtype);
    calling(w, "tide_full_like(%s, %s)", x->name, say_number(w, v));
    (void)made(w, tide_full_like(x->a, v), NULL, ROW_MAJOR);
}

/* ---- spaced numbers, neighbours ---- */

static void on_spaced(world *w) {
    runtime *r = draw_runtime(w);
    tide_dtype t = draw_dtype(w);
    double start = draw_double(w), stop = draw_double(w), base = chance(w, 90) ? 2 : draw_double(w);
    int64_t count = few(w);
    int endpoint = draw_enum(w, 0, 1);
    bool log = !strcmp(w->frame->c->name, "tide_logspace");
    may(w, TIDE_E_INVALID);
    calling(w, "%s(%s, %d, %.17g, %.17g, %" PRId64 ", %d, %.17g)", w->frame->c->name, r->name, t,
            start, stop, count, endpoint, base);
    (void)made(w,
               log ? tide_logspace(r->ref, t, start, stop, count, endpoint, base)
                   : tide_linspace(r->ref, t, start, stop, count, endpoint),
               NULL, ROW_MAJOR);
}

static void on_diff(world *w) {
    array *x = draw_array(w, VECTOR);
    int order = chance(w, 95) ? (int)below(w, 4) : ONE_OF(w, int, -1, INT32_MIN, 70),
        axis = draw_axis(w, x->ndim);
    if (order < 0) expect(w, TIDE_E_INVALID);
    calling(w, "tide_diff(%s, %d, %d)", x->name, order, axis);
    (void)made(w, tide_diff(x->a, order, axis), NULL, ROW_MAJOR);
}

static void on_trapezoid(world *w) {
    array *y = draw_array(w, VECTOR);
    int axis = draw_axis(w, y->ndim);
    bool places = chance(w, 50);
    array *x = places ? draw_partner(w, y, VECTOR) : NULL;
    tide_arg at = x ? tide_arg_array(x->a) : tide_arg_float(draw_double(w));
    calling(w, "tide_trapezoid(%s, %s, %d)", y->name, x ? x->name : say_number(w, at), axis);
    (void)made(w, tide_trapezoid(y->a, at, axis), NULL, ROW_MAJOR);
}

const call shape_calls[] = {
    ROW(flip, 0),
    ROW(moveaxis, 0),
    ROW(diagonal, 0),
    ROW(windows, 0),
    ROW(reshape_with, 0),
    ROW(unstack, 0),
    ROW(split, 0),
    ROW(broadcast_arrays, 0),
    ROW(meshgrid, 0),
    ROW(roll, 0),
    ROW(pad, MAY_EMPTY),
    ROW(stack, 0),
    ROW(tile, 0),
    {"tide_tril", on_triangle, {NULL}, 0},
    {"tide_triu", on_triangle, {NULL}, 0},
    ROW(eye, 0),
    ROW_OF(empty_like, on_like, unary, 0),
    ROW_OF(zeros_like, on_like, unary, 0),
    ROW_OF(ones_like, on_like, unary, 0),
    ROW(full_like, 0),
    {"tide_linspace", on_spaced, {NULL}, 0},
    {"tide_logspace", on_spaced, {NULL}, 0},
    ROW(diff, 0),
    ROW(trapezoid, 0),
    LAST_ROW,
};
