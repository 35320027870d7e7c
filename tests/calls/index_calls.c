/* index_calls.c: calls of tide/index.h. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <stdio.h>

enum { PICKS = 12 };
typedef struct picks {
    tide_pick at[PICKS];
    size_t n;
    const char *text;
} picks;

static tide_pick draw_range(world *w) {
    switch (below(w, 6)) {
    case 0: return tide_pick_range(tide_range_index(draw_axis(w, 4)));
    case 1: return tide_pick_range(tide_range_newaxis());
    case 2: return tide_pick_range(tide_range_ellipsis());
    case 3: return tide_pick_range(tide_range_slice(draw_int(w), TIDE_NONE, draw_int(w)));
    default: return tide_pick_range(tide_range_all());
    }
}

/* Items for an array, mostly fewer than it has axes. */
static void draw_picks(world *w, const array *x, picks *p) {
    char text[SAYING] = "";
    size_t at = 0;
    p->n = below(w, chance(w, 90) ? (unsigned)(x->ndim > 0 ? x->ndim : 0) + 1 : PICKS);
    for (size_t i = 0; i < p->n; i++) {
        array *list = chance(w, 60) ? draw_partner(w, x, INTEGER | SMALL) : NULL;
        bool odd = !list && chance(w, 2);
        p->at[i] = list ? tide_pick_array(list->a) : draw_range(w);
        if (odd) p->at[i].kind = 2, expect(w, TIDE_E_INVALID);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "",
                               list  ? list->name
                               : odd ? "odd"
                                     : "range");
        if (at >= sizeof text) at = sizeof text - 1;
    }
    may(w, TIDE_E_INVALID);
    p->text = say(w, "%zu, (tide_pick[]){%s}", p->n, text);
}

static void on_index(world *w) {
    picks p;
    array *x = draw_array(w, SMALL);
    draw_picks(w, x, &p);
    calling(w, "tide_index(%s, %s)", x->name, p.text);
    tide_array *a = tide_index(x->a, p.n, p.at);
    bool list = false;
    for (size_t i = 0; i < p.n; i++) list = list || p.at[i].kind == TIDE_PICK_ARRAY;
    (void)made(w, a, list ? NULL : x, list ? ROW_MAJOR : 0);
}

static void on_index_put(world *w) {
    picks p;
    array *x = draw_target(w, SMALL);
    draw_picks(w, x, &p);
    array *y = draw_partner(w, x, SMALL);
    calling(w, "tide_index_put(%s, %s, %s)", x->name, p.text, y->name);
    tide_status s = tide_index_put(x->a, p.n, p.at, y->a);
    wrote(w, x, s);
    (void)gave(w, s);
}

static void on_take_along_axis(world *w) {
    array *x = draw_array(w, VECTOR), *at = draw_partner(w, x, INTEGER);
    int axis = draw_axis(w, x->ndim);
    calling(w, "tide_take_along_axis(%s, %s, %d)", x->name, at->name, axis);
    (void)made(w, tide_take_along_axis(x->a, at->a, axis), NULL, ROW_MAJOR);
}

typedef tide_status update_fn(tide_array *a, tide_array *indices, int axis, tide_array *values);

static void update(world *w, update_fn *fn) {
    array *x = draw_target(w, VECTOR), *at = draw_partner(w, x, INTEGER | VECTOR),
          *y = draw_partner(w, x, 0);
    int axis = draw_axis(w, x->ndim);
    calling(w, "%s(%s, %s, %d, %s)", w->frame->c->name, x->name, at->name, axis, y->name);
    tide_status s = fn(x->a, at->a, axis, y->a);
    wrote(w, x, s);
    (void)gave(w, s);
}
static void on_put_along_axis(world *w) { update(w, tide_put_along_axis); }

static void on_scatter_put(world *w) { update(w, tide_scatter_put); }
static void on_scatter_mul(world *w) { update(w, tide_scatter_mul); }
static void on_scatter_min(world *w) { update(w, tide_scatter_min); }
static void on_scatter_max(world *w) { update(w, tide_scatter_max); }

/* In an order that the indices alone decide, or integers: another order would be other bits. */
static void on_scatter_add(world *w) {
    array *x = draw_target(w, VECTOR), *at = draw_partner(w, x, INTEGER | VECTOR),
          *y = draw_partner(w, x, 0);
    int axis = draw_axis(w, x->ndim);
    unsigned flags = chance(w, 90) ? below(w, 2) : ONE_OF(w, unsigned, 2, 3, UINT32_MAX);
    if (flags > 1) expect(w, TIDE_E_INVALID);
    calling(w, "tide_scatter_add(%s, %s, %d, %s, %u)", x->name, at->name, axis, y->name, flags);
    tide_status s = tide_scatter_add(x->a, at->a, axis, y->a, flags);
    wrote(w, x, s);
    (void)gave(w, s);
}

/* How many segments, or repetitions. */
static int64_t draw_count(world *w) {
    return chance(w, 90) ? below(w, 9) : ONE_OF(w, int64_t, -1, INT64_MIN, INT64_MAX, 1 << 20);
}

typedef tide_array *segment_fn(tide_array *a, tide_array *ids, int64_t count, int axis);
static void segment(world *w, segment_fn *fn) {
    array *x = draw_array(w, VECTOR), *ids = draw_partner(w, x, INTEGER | VECTOR);
    int axis = draw_axis(w, x->ndim);
    int64_t count = draw_count(w);
    if (count < 0) expect(w, TIDE_E_INVALID);
    calling(w, "%s(%s, %s, %" PRId64 ", %d)", w->frame->c->name, x->name, ids->name, count, axis);
    (void)made(w, fn(x->a, ids->a, count, axis), NULL, ROW_MAJOR);
}
static void on_segment_sum(world *w) { segment(w, tide_segment_sum); }
static void on_segment_mean(world *w) { segment(w, tide_segment_mean); }
static void on_segment_min(world *w) { segment(w, tide_segment_min); }
static void on_segment_max(world *w) { segment(w, tide_segment_max); }

typedef tide_array *offsets_fn(tide_array *a, tide_array *offsets, int axis);
static void offsets(world *w, offsets_fn *fn) {
    array *x = draw_array(w, VECTOR), *at = draw_partner(w, x, INTEGER | VECTOR);
    int axis = draw_axis(w, x->ndim);
    calling(w, "%s(%s, %s, %d)", w->frame->c->name, x->name, at->name, axis);
    (void)made(w, fn(x->a, at->a, axis), NULL, ROW_MAJOR);
}
static void on_segment_sum_offsets(world *w) { offsets(w, tide_segment_sum_offsets); }
static void on_segment_mean_offsets(world *w) { offsets(w, tide_segment_mean_offsets); }
static void on_segment_min_offsets(world *w) { offsets(w, tide_segment_min_offsets); }
static void on_segment_max_offsets(world *w) { offsets(w, tide_segment_max_offsets); }

static void on_repeat(world *w) {
    array *x = draw_array(w, VECTOR);
    int axis = draw_axis(w, x->ndim);
    int64_t count = draw_count(w);
    if (count < 0) expect(w, TIDE_E_INVALID);
    calling(w, "tide_repeat(%s, %" PRId64 ", %d)", x->name, count, axis);
    (void)made(w, tide_repeat(x->a, count, axis), NULL, ROW_MAJOR);
}
static void on_repeat_each(world *w) { /* by few: arrays have all sorts of numbers */
    array *x = draw_array(w, VECTOR | SMALL), *counts = draw_partner(w, x, INTEGER | SMALL);
    int axis = draw_axis(w, x->ndim);
    may(w, TIDE_E_INVALID);
    calling(w, "tide_repeat_each(%s, %s, %d)", x->name, counts->name, axis);
    (void)made(w, tide_repeat_each(x->a, counts->a, axis), NULL, ROW_MAJOR);
}

static void on_pick_range(world *w) {
    tide_range r = tide_range_slice(draw_int(w), draw_int(w), draw_int(w));
    calling(w, "tide_pick_range(range)");
    tide_pick p = tide_pick_range(r);
    done(w);
    if (p.kind != TIDE_PICK_RANGE || p.value.range.start != r.start || p.value.range.step != r.step)
        broken(w, "is another range");
}
static void on_pick_array(world *w) {
    array *x = draw_array(w, ANY);
    w->frame->must_fail = w->frame->null_array = false;
    calling(w, "tide_pick_array(%s)", x->name);
    tide_pick p = tide_pick_array(x->a);
    done(w);
    if (p.kind != TIDE_PICK_ARRAY || p.value.array != x->a) broken(w, "is another array");
}

const call index_calls[] = {
    ROW(index, 0),
    ROW(index_put, 0),
    ROW(pick_array, NEVER_FAILS),
    ROW(pick_range, NEVER_FAILS),
    ROW(put_along_axis, 0),
    ROW(repeat, 0),
    ROW(repeat_each, 0),
    ROW(scatter_add, 0),
    ROW(scatter_max, 0),
    ROW(scatter_min, 0),
    ROW(scatter_mul, 0),
    ROW(scatter_put, 0),
    ROW(segment_max, 0),
    ROW(segment_max_offsets, 0),
    ROW(segment_mean, 0),
    ROW(segment_mean_offsets, 0),
    ROW(segment_min, 0),
    ROW(segment_min_offsets, 0),
    ROW(segment_sum, 0),
    ROW(segment_sum_offsets, 0),
    ROW(take_along_axis, 0),
    LAST_ROW,
};
