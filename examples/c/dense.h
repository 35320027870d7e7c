/* dense.h: the model of dense.c: one dense layer, its gradients by an expression, Adam. Arrays that
** are done with go to let_go, which frees them where that is the way chosen; else they are left to
** the collector. bench/collecting_work.c trains it too. */
#ifndef EXAMPLES_DENSE_H
#define EXAMPLES_DENSE_H

#include <string.h>
#include <tide/tide.h>

#define NOINLINE __attribute__((noinline))

struct model {
    tide_runtime *rt;
    int by_hand;
    tide_array *x, *y;             /* the data */
    tide_array *w, *b;             /* the layer */
    tide_array *wm, *wv, *bm, *bv; /* Adam's moments */
    tide_expr *gradients, *adam;
    tide_graph *graph; /* NULL: steps are made by calls */
    double c1, c2;     /* 0.9^t, 0.999^t */
    tide_arg args[5];  /* of the gradients, while they are computed */
    tide_array *outs[3];
};

static int model_init(struct model *m, tide_runtime *rt, int64_t rows, int64_t features,
                      int by_hand) {
    tide_rng rng = {.seed = 1};
    const int64_t n[] = {features}, one[] = {1};
    *m = (struct model){.rt = rt, .by_hand = by_hand, .c1 = 1, .c2 = 1};
    m->x = tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){rows, features});
    m->y = tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){rows, 1});
    m->w = tide_zeros(rt, TIDE_F32, 1, n);
    m->wm = tide_zeros(rt, TIDE_F32, 1, n);
    m->wv = tide_zeros(rt, TIDE_F32, 1, n);
    m->b = tide_zeros(rt, TIDE_F32, 1, one);
    m->bm = tide_zeros(rt, TIDE_F32, 1, one);
    m->bv = tide_zeros(rt, TIDE_F32, 1, one);
    /* The mean squared error's gradients by the weights, the bias and the batch. s = 2 / rows of
    ** the batch */
    m->gradients = tide_expr_new(
        rt, "(x, y, w, b, s) -> let g = (sum(x * w, axis=1, keepdims=true) + b - y) * s;"
            " (sum(x * g, axis=0), sum(g, axis=0), g * w)");
    m->adam = tide_expr_new(
        rt, "(w, g, m, v, rate, c1, c2) -> let m1 = 0.9*m + 0.1*g; let v1 = 0.999*v + 0.001*g*g;"
            " (w - rate * (m1*c1) / (sqrt(v1*c2) + 1e-8), m1, v1)");
    return m->x && m->y && m->w && m->wm && m->wv && m->b && m->bm && m->bv && m->gradients &&
           m->adam;
}

/* Where freeing by hand is the way chosen. */
static void let_go(struct model *m, tide_array *a) {
    if (m->by_hand) tide_free(a);
}

static int update(struct model *m, tide_array **w, tide_array *g, tide_array **moment1,
                  tide_array **moment2) {
    const tide_arg args[] = {tide_arg_array(*w),
                             tide_arg_array(g),
                             tide_arg_array(*moment1),
                             tide_arg_array(*moment2),
                             tide_arg_float(1e-3),
                             tide_arg_float(1 / (1 - m->c1)),
                             tide_arg_float(1 / (1 - m->c2))};
    tide_array *outs[3];
    if (tide_expr_apply_many(m->adam, args, 7, outs, 3) != TIDE_OK) return 0;
    let_go(m, *w), let_go(m, g), let_go(m, *moment1), let_go(m, *moment2);
    *w = outs[0];
    *moment1 = outs[1];
    *moment2 = outs[2];
    return 1;
}

/* The rows [at, to), copied. */
static tide_array *batch(struct model *m, tide_array *data, int64_t at, int64_t to) {
    const tide_range range = tide_range_slice(at, to, TIDE_NONE);
    tide_array *rows = tide_slice_ranges(data, 1, &range);
    tide_array *copy = tide_copy(rows);
    let_go(m, rows);
    return copy;
}

/* The gradients on the rows [at, to); the batch's own, which nobody wants, is garbage at once.
** Nothing that names its temporaries may stay behind when the next step begins, or a conservative
** collector keeps them: so this is a function of its own, and the lists of arrays are emptied. */
static NOINLINE int gradients(struct model *m, int64_t at, int64_t to, tide_array **gw,
                              tide_array **gb) {
    tide_array *x = batch(m, m->x, at, to), *y = batch(m, m->y, at, to);
    if (!x || !y) return 0;
    m->args[0] = tide_arg_array(x);
    m->args[1] = tide_arg_array(y);
    m->args[2] = tide_arg_array(m->w);
    m->args[3] = tide_arg_array(m->b);
    m->args[4] = tide_arg_float(2.0 / (double)(to - at));
    if (tide_expr_apply_many(m->gradients, m->args, 5, m->outs, 3) != TIDE_OK) return 0;
    *gw = m->outs[0];
    *gb = m->outs[1];
    let_go(m, x), let_go(m, y), let_go(m, m->outs[2]);
    memset(m->args, 0, sizeof m->args);
    memset(m->outs, 0, sizeof m->outs);
    return 1;
}

/* ---- by a graph ---- */

static tide_status update_in_place(struct model *m, tide_array *w, tide_array *g,
                                   tide_array *moment1, tide_array *moment2, const tide_arg *c) {
    tide_array *const into[] = {w, moment1, moment2};
    const tide_arg args[] = {tide_arg_array(w),
                             tide_arg_array(g),
                             tide_arg_array(moment1),
                             tide_arg_array(moment2),
                             tide_arg_float(1e-3),
                             c[0],
                             c[1]};
    tide_status s = tide_expr_apply_into(into, 3, m->adam, args, 7);
    let_go(m, g);
    return s;
}

/* What is captured: a step on args: the batch's x and y, s, 1 / (1 - c1), 1 / (1 - c2). */
static tide_status captured_step(void *user, const tide_arg *args, size_t n, tide_array **outs,
                                 size_t nouts) {
    struct model *m = user;
    const tide_arg in[] = {args[0], args[1], tide_arg_array(m->w), tide_arg_array(m->b), args[2]};
    tide_array *g[3];
    (void)n, (void)outs, (void)nouts;
    tide_status s = tide_expr_apply_many(m->gradients, in, 5, g, 3);
    if (s != TIDE_OK) return s;
    let_go(m, g[2]);
    s = update_in_place(m, m->w, g[0], m->wm, m->wv, args + 3);
    return s == TIDE_OK ? update_in_place(m, m->b, g[1], m->bm, m->bv, args + 3) : s;
}

/* From now on steps are made so. */
static inline int model_capture(struct model *m) {
    return (m->graph = tide_graph_new(m->rt, captured_step, m)) != NULL;
}

static int step_by_graph(struct model *m, int64_t at, int64_t to) {
    const tide_range range = tide_range_slice(at, to, TIDE_NONE);
    tide_array *x = tide_slice_ranges(m->x, 1, &range), *y = tide_slice_ranges(m->y, 1, &range);
    if (!x || !y) return 0;
    m->c1 *= 0.9;
    m->c2 *= 0.999;
    const tide_arg args[] = {tide_arg_array(x), tide_arg_array(y),
                             tide_arg_float(2.0 / (double)(to - at)),
                             tide_arg_float(1 / (1 - m->c1)), tide_arg_float(1 / (1 - m->c2))};
    tide_status s = tide_graph_run(m->graph, args, 5, NULL, 0);
    let_go(m, x), let_go(m, y);
    return s == TIDE_OK;
}

/* ---- a step ---- */

/* One step on the rows [at, to). */
static int step(struct model *m, int64_t at, int64_t to) {
    if (m->graph) return step_by_graph(m, at, to);
    tide_array *gw, *gb;
    if (!gradients(m, at, to, &gw, &gb)) return 0;
    m->c1 *= 0.9;
    m->c2 *= 0.999;
    return update(m, &m->w, gw, &m->wm, &m->wv) && update(m, &m->b, gb, &m->bm, &m->bv);
}

#endif
