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
    ROW(take_along_axis, 0),
    LAST_ROW,
};
