/* scan_calls.c: calls of tide/scan.h and tide/select.h. */
#include "tests/calls/calls.h"
#include <tide/scan.h>
#include <tide/select.h>

/* ---- tide/scan.h ---- */

typedef tide_array *scan_fn(tide_array *a, int axis, unsigned flags);

static void scan(world *w, scan_fn *fn) {
    array *x = draw_array(w, VECTOR | (chance(w, 70) ? REAL : 0));
    int axis = draw_axis(w, x->ndim);
    unsigned flags =
        chance(w, 95) ? below(w, 4) : ONE_OF(w, unsigned, 4, 7, 0x80000000, UINT32_MAX);
    calling(w, "%s(%s, %d, %u)", w->frame->c->name, x->name, axis, flags);
    (void)made(w, fn(x->a, axis, flags), NULL, ROW_MAJOR);
}
static void on_cumsum(world *w) { scan(w, tide_cumsum); }
static void on_cumprod(world *w) { scan(w, tide_cumprod); }
static void on_cummin(world *w) { scan(w, tide_cummin); }
static void on_cummax(world *w) { scan(w, tide_cummax); }

/* ---- tide/select.h ---- */

static void on_nonzero(world *w) {
    enum { MOST = 10 };
    tide_array *outs[MOST];
    array *x = draw_array(w, VECTOR);
    size_t n = chance(w, 90) ? (size_t)x->ndim : below(w, MOST);
    bool nowhere = chance(w, 3);
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(outs, sizeof outs);
    calling(w, "tide_nonzero(%s, %s, %zu)", x->name, nowhere ? "NULL" : "outs", n);
    if (!gave(w, tide_nonzero(x->a, nowhere ? NULL : outs, n))) {
        marked(w, outs, sizeof outs);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!made_beside(w, outs[i], NULL, ROW_MAJOR))
            broken(w, "succeeds, and result %zu is NULL", i);
    marked(w, outs + n, sizeof outs - n * sizeof *outs);
}

static void on_argwhere(world *w) {
    array *x = draw_array(w, 0);
    calling(w, "tide_argwhere(%s)", x->name);
    (void)made(w, tide_argwhere(x->a), NULL, ROW_MAJOR);
}

/* A mask for x, if there is one; else anything. */
static array *draw_mask(world *w, const array *x) {
    unsigned from = below(w, ARRAYS);
    for (unsigned i = 0; i < ARRAYS && chance(w, 99); i++) {
        array *y = &w->arrays[(from + i) % ARRAYS];
        if (!y->a || y->rt != x->rt || y->freed || y->in->frozen || y->size > 4096 || y->busy)
            continue;
        if (y->dtype != TIDE_BOOL || y->ndim > x->ndim) continue;
        if (memcmp(y->shape, x->shape, (size_t)y->ndim * sizeof *y->shape) != 0) continue;
        y->valid = true;
        hold(w, &y->busy);
        return y;
    }
    return draw_partner(w, x, INTEGER);
}

static void on_masked_select(world *w) {
    array *x = draw_array(w, 0), *mask = draw_mask(w, x);
    calling(w, "tide_masked_select(%s, %s)", x->name, mask->name);
    (void)made(w, tide_masked_select(x->a, mask->a), NULL, ROW_MAJOR);
}

static void on_masked_put(world *w) {
    array *x = draw_target(w, 0), *mask = draw_mask(w, x), *values = draw_partner(w, x, 0);
    calling(w, "tide_masked_put(%s, %s, %s)", x->name, mask->name, values->name);
    tide_status s = tide_masked_put(x->a, mask->a, values->a);
    wrote(w, x, s);
    (void)gave(w, s);
}

/* ---- the table ---- */

const call scan_calls[] = {
    ROW(cumsum, 0),   ROW(cumprod, 0),       ROW(cummin, 0),     ROW(cummax, 0), ROW(nonzero, 0),
    ROW(argwhere, 0), ROW(masked_select, 0), ROW(masked_put, 0), LAST_ROW,
};
