/* graph_calls.c: calls of tide/graph.h. A graph's function makes no calls of the table: what is
** captured is not done yet, so nothing that it made could be looked at. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- functions ---- */

static const enum function {
    COPIES,
    FAILS,
    WAITS_FOR_IT,
    NOTHING,
    FUNCTIONS
} functions[] = {COPIES, FAILS, WAITS_FOR_IT, NOTHING};

static tide_array *first_array(const tide_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (args[i].kind == TIDE_ARG_ARRAY) return args[i].value.array;
    return NULL;
}

static tide_status function(void *user, const tide_arg *args, size_t n, tide_array **outs,
                            size_t m) {
    const enum function *what = user;
    tide_array *x = first_array(args, n);
    tide_status s = *what == FAILS ? TIDE_E_IO : TIDE_OK;
    if (*what == WAITS_FOR_IT && x) s = tide_synchronize(tide_array_runtime(x), NULL);
    for (size_t i = 0; i < m && x && *what == COPIES && s == TIDE_OK; i++)
        if (!(outs[i] = tide_copy(x))) s = tide_error_last()->status;
    for (size_t i = 0; i < m && s != TIDE_OK; i++) {
        if (outs[i]) tide_release(outs[i]);
        outs[i] = NULL;
    }
    return s;
}

static void on_graph_new(world *w) {
    runtime *r = draw_runtime(w);
    const unsigned what = below(w, FUNCTIONS);
    const bool none = chance(w, 5);
    if (none) expect(w, TIDE_E_INVALID);
    calling(w, "tide_graph_new(%s, %s, (void *)&functions[%u])", r->name,
            none ? "NULL" : "function", what);
    tide_graph *g = tide_graph_new(r->ref, none ? NULL : function, (void *)&functions[what]);
    if (!told(w, !g)) return;
    thing *t = world_thing(w, TIDEI_REF_GRAPH, g, w->frame->rt);
    t->params = (int)what;
}

/* ---- runs ---- */

enum { ARGS = 6, OUTS = 4 };

static void on_graph_run(world *w) {
    tide_arg args[ARGS];
    tide_array *outs[OUTS];
    char text[SAYING] = "";
    array *first = NULL;
    thing *g = draw_thing(w, TIDEI_REF_GRAPH, 0);
    size_t n = below(w, ARGS), m = below(w, OUTS), at = 0;
    for (size_t i = 0; i < n; i++) {
        array *x = chance(w, 70) ? draw_array(w, SMALL) : NULL;
        const bool must = w->frame->must_fail;
        if (!x) { /* an array is none where a number is wanted, but here */
            args[i] = draw_number(w, (tide_dtype)below(w, TIDE_DTYPE_COUNT));
            w->frame->must_fail = must;
        }
        if (!x && args[i].kind == TIDE_ARG_ARRAY && !args[i].value.array)
            w->frame->null_array = true;
        if (x) args[i] = tide_arg_array(x->a);
        if (x && !first) first = x;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "",
                               x ? x->name : say_number(w, args[i]));
        if (at >= sizeof text) at = sizeof text - 1;
    }
    const int what = g->params;
    may(w, TIDE_E_INVALID);
    may(w, TIDE_E_UNSUPPORTED);
    may(w, TIDE_E_BOUNDS); /* of a sync point */
    if (what == FAILS) may(w, TIDE_E_IO);
    w->frame->subject = what == WAITS_FOR_IT ? "tide_synchronize" : "tide_copy";
    mark(outs, sizeof outs);
    calling(w, "tide_graph_run(%s, (tide_arg[]){%s}, %zu, outs, %zu)", g->name, text, n, m);
    tide_status s = tide_graph_run(g->ref, n ? args : NULL, n, m ? outs : NULL, m);
    if (!gave(w, s)) return marked(w, outs, sizeof outs);
    const bool any = what == COPIES && first;
    for (size_t i = 0; i < m; i++) {
        if ((outs[i] != NULL) != any) broken(w, "gives a wrong number of results");
        if (outs[i]) (void)made_beside(w, outs[i], NULL, ROW_MAJOR);
    }
    marked(w, outs + m, sizeof outs - m * sizeof *outs);
}

static void on_graph_reset(world *w) {
    thing *g = draw_thing(w, TIDEI_REF_GRAPH, 0);
    calling(w, "tide_graph_reset(%s)", g->name);
    (void)gave(w, tide_graph_reset(g->ref));
}

static void on_graph_info(world *w) {
    thing *g = draw_thing(w, TIDEI_REF_GRAPH, 0);
    tide_graph_figures f;
    const bool nowhere = chance(w, 3);
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(&f, sizeof f);
    f.struct_size = draw_struct_size(w, sizeof f, sizeof f.struct_size);
    const tide_graph_figures before = f;
    calling(w, "tide_graph_info(%s, %s)", g->name, nowhere ? "NULL" : "&f");
    if (!gave(w, tide_graph_info(g->ref, nowhere ? NULL : &f))) {
        if (memcmp(&f, &before, sizeof f) != 0) broken(w, "fails, and writes figures");
        return;
    }
    if (f.struct_size == sizeof f && (f.launches > f.runs || f.captures > f.calls))
        broken(w, "counts more launches than runs, or more captures than calls");
}

static void on_graph_release(world *w) {
    thing *g = draw_thing(w, TIDEI_REF_GRAPH, ABSENT);
    w->frame->must_fail = w->frame->must_fail && g->ref;
    calling(w, "tide_graph_release(%s)", g->name);
    tide_graph_release(g->ref);
    done(w);
    if (g->valid) world_ended(g);
}

const call graph_calls[] = {
    ROW(graph_new, OFTEN), ROW(graph_run, OFTEN), ROW(graph_reset, 0),
    ROW(graph_info, 0),    ROW(graph_release, 0), LAST_ROW,
};
