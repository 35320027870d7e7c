/* graphs.h: what the tests of graphs share: worlds, in which a function finds its arrays, and a run
** in two of them side by side: one calls the function each time, the other has a graph.
**
** A function is called without a graph's capture by a graph that is new at each run. */
#ifndef TIDETEST_GRAPHS_H
#define TIDETEST_GRAPHS_H

#include "tests/support/tidetest.h"

enum { KEPT = 80, ARGS = 16, OUTS = 8 };

typedef struct world {
    tide_runtime *rt;
    /* arrays that the function finds by itself, and those that are arguments again and again */
    tide_array *kept[KEPT];
    unsigned nkept;
    tide_rng rng;
    int run;
} world;

typedef struct program {
    const char *name;
    void (*begin)(world *w); /* (may be NULL) keeps what there is from the start */
    /* the arguments of run w->run; returns how many */
    size_t (*args)(world *w, tide_arg *args);
    tide_graph_fn fn; /* whose user is the world */
    size_t m;
    /* (may be NULL) what the program does with the results */
    void (*after)(world *w, tide_array **outs);
} program;

/* ---- arrays ---- */

/* Bytes that tell places and runs apart; as floats they are numbers from -1 to 1. */
static inline double number_at(unsigned mark, int64_t i) {
    uint64_t h = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u + mark * 0xd1b54a32d192ed03u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (double)((h >> 40) % 20001) / 10000 - 1;
}

static inline tide_array *numbers(tide_runtime *rt, tide_dtype t, unsigned mark, int ndim,
                                  const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    size_t size = tide_dtype_size(t);
    char *data = malloc((size_t)n * size + 1);
    bool real =
        tidei_dtype_kind(t) == TIDEI_KIND_FLOAT || tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX;
    for (int64_t i = 0; i < n; i++) {
        double x = number_at(mark, i);
        tide_arg v = real ? tide_arg_float(x) : tide_arg_int((int64_t)((x + 1) * 50));
        if (t == TIDE_BOOL) v = tide_arg_bool(x > 0);
        assert_ok(tidei_encode(v, t, "numbers", data + (size_t)i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    free(data);
    assert_array(a);
    return a;
}

/* Keeps it under every collector. */
static inline tide_array *keep(world *w, tide_array *a) {
    assert_array(a);
    assert_true(w->nkept < KEPT);
    assert_array(tide_retain(a));
    return w->kept[w->nkept++] = a;
}
static inline void replace(world *w, unsigned i, tide_array *a) {
    assert_array(tide_retain(a));
    tide_release(w->kept[i]);
    w->kept[i] = a;
}

static inline void same_layout(tide_array *a, tide_array *b) {
    assert_int_equal(tide_array_dtype(a), tide_array_dtype(b));
    assert_int_equal(tide_array_ndim(a), tide_array_ndim(b));
    assert_int_equal(tide_array_memory(a), tide_array_memory(b));
    for (int i = 0; i < tide_array_ndim(a); i++) {
        assert_int_equal(tide_array_dim(a, i), tide_array_dim(b, i));
        assert_int_equal(tide_array_stride(a, i), tide_array_stride(b, i));
    }
}

/* Bit for bit, and in the same form. */
static inline void same_arrays(const char *what, unsigned which, int run, tide_array *a,
                               tide_array *b) {
    if (!a != !b) fail_msg("%s, run %d: %s %u is none of one", what, run, "array", which);
    if (!a) return;
    same_layout(a, b);
    size_t n = (size_t)tide_array_size(a) * tide_dtype_size(tide_array_dtype(a));
    char *x = malloc(n + 1), *y = malloc(n + 1);
    assert_ok(tide_to_host(a, x, n));
    assert_ok(tide_to_host(b, y, n));
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            fail_msg("%s, run %d: byte %zu of array %u (%s) differs", what, run, i, which,
                     tide_dtype_name(tide_array_dtype(a)));
    free(x);
    free(y);
}

/* ---- graphs ---- */

static inline tide_graph_figures figures_of(tide_graph *g) {
    tide_graph_figures f = {.struct_size = sizeof f};
    assert_ok(tide_graph_info(g, &f));
    return f;
}

static inline void begin_world(world *w, tide_runtime *rt, const program *p) {
    *w = (world){.rt = rt, .rng = {.seed = 11}};
    assert_ok(tide_scope_begin(rt));
    if (p->begin) p->begin(w);
    assert_ok(tide_scope_end(rt));
}
static inline void end_world(world *w) {
    while (w->nkept) tide_release(w->kept[--w->nkept]);
}

/* A run of the graph g in w; NULL: of a new one. */
static inline tide_status run_in(world *w, const program *p, tide_graph *g, const tide_arg *args,
                                 size_t n, tide_array **outs) {
    tide_graph *own = g ? NULL : tide_graph_new(w->rt, p->fn, w);
    tide_status s = tide_graph_run(g ? g : own, args, n, outs, p->m);
    if (own) tide_graph_release(own);
    return s;
}

static inline void compare(const program *p, const world *a, const world *b, int run,
                           const tide_arg *x, const tide_arg *y, size_t n, tide_array **outs,
                           tide_array **graphed) {
    for (size_t i = 0; i < p->m; i++)
        same_arrays(p->name, 100 + (unsigned)i, run, outs[i], graphed[i]);
    for (size_t i = 0; i < n; i++)
        if (x[i].kind == TIDE_ARG_ARRAY)
            same_arrays(p->name, 200 + (unsigned)i, run, x[i].value.array, y[i].value.array);
    for (unsigned i = 0; i < a->nkept; i++) same_arrays(p->name, i, run, a->kept[i], b->kept[i]);
    assert_int_equal(a->rng.counter, b->rng.counter);
}

/* What a test does ahead of each run of the graph, and behind it. */
typedef struct circumstance {
    const char *name;
    tide_config config;
    void (*before)(world *w, tide_graph *g);
    void (*behind)(world *w, tide_graph *g);
    /* (may be NULL: run_in) the run itself */
    tide_status (*run)(world *w, const program *p, tide_graph *g, const tide_arg *args, size_t n,
                       tide_array **outs);
    bool disturbs; /* the graph need not be launched at all */
} circumstance;

static inline void one_run(const program *p, const circumstance *c, world *plain, world *graphed,
                           tide_graph *g, int run) {
    tide_array *outs[2][OUTS] = {{NULL}};
    tide_arg args[2][ARGS];
    plain->run = graphed->run = run;
    assert_ok(tide_scope_begin(plain->rt));
    const size_t n = p->args ? p->args(plain, args[0]) : 0;
    if (p->args) assert_int_equal(p->args(graphed, args[1]), n);
    tide_status s = run_in(plain, p, NULL, args[0], n, outs[0]);
    if (s != TIDE_OK) fail_msg("%s, run %d: %s", p->name, run, tide_error_last()->message);
    if (c->before) c->before(graphed, g);
    s = (c->run ? c->run : run_in)(graphed, p, g, args[1], n, outs[1]);
    if (s != TIDE_OK)
        fail_msg("%s, %s, run %d: %s", c->name, p->name, run, tide_error_last()->message);
    if (c->behind) c->behind(graphed, g);
    compare(p, plain, graphed, run, args[0], args[1], n, outs[0], outs[1]);
    if (p->after) {
        p->after(plain, outs[0]);
        p->after(graphed, outs[1]);
    }
    assert_ok(tide_scope_end(plain->rt));
}

/* The program under these circumstances; a graph that is not disturbed is launched from the second
** run on. */
static inline void run_program(tide_runtime *rt, const program *p, const circumstance *c,
                               int runs) {
    world plain, graphed;
    begin_world(&plain, rt, p);
    begin_world(&graphed, rt, p);
    tide_graph *g = tide_graph_new(rt, p->fn, &graphed);
    for (int run = 0; run < runs; run++) one_run(p, c, &plain, &graphed, g, run);
    tide_graph_figures f = figures_of(g);
    assert_int_equal(f.runs, runs);
    if (!c->disturbs && (f.launches == 0 || f.calls >= (uint64_t)runs))
        fail_msg("%s: %d runs, %d calls, %d launches", p->name, runs, (int)f.calls,
                 (int)f.launches);
    tide_graph_release(g);
    end_world(&plain);
    end_world(&graphed);
}

#endif
