/* graph.c: a step of ten small kernels, each of which needs what the one before it made: by calls,
** and by a graph (include/tide/graph.h), which queues them as one. What is compared takes turns. */
#include "bench/bench.h"
#include <tide/tide.h>

#define ROUNDS  BENCH_ROUNDS
#define STEPS   200 /* a round */
#define KERNELS 10  /* a step */
#define SIZE    1000

typedef struct side {
    tide_runtime *rt;
    tide_expr *e;
    tide_graph *g; /* NULL: by calls */
    tide_array *x; /* what the next step begins with */
    bool moves;    /* that is what the last one came to; else the same array each time */
    bool counts;   /* each kernel has another number at each step */
} side;

static tide_status step_fn(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    const side *s = user;
    tide_array *a = args[0].value.array;
    (void)n, (void)m;
    for (int i = 0; i < KERNELS; i++) {
        const tide_arg in[] = {tide_arg_array(a), args[1]};
        tide_array *next = tide_expr_apply(s->e, in, 2);
        if (!next) return tide_error_last()->status;
        if (i) tide_free(a);
        a = next;
    }
    outs[0] = a;
    return TIDE_OK;
}

static bool one_step(side *s, int i) {
    const tide_arg args[] = {tide_arg_array(s->x), tide_arg_float(s->counts ? i % 8 : 0.5)};
    tide_array *out = NULL;
    tide_status status =
        s->g ? tide_graph_run(s->g, args, 2, &out, 1) : step_fn(s, args, 2, &out, 1);
    if (status != TIDE_OK) return false;
    tide_free(s->moves ? s->x : out);
    if (s->moves) s->x = out;
    return true;
}

/* Microseconds a kernel: of the host until all are queued, and until all are done. */
typedef struct times {
    double issue, done;
} times;

static bool timed(side *s, times *out) {
    if (tide_synchronize(s->rt, NULL) != TIDE_OK) return false;
    const uint64_t start = tidei_now_ns();
    for (int i = 0; i < STEPS; i++)
        if (!one_step(s, i)) return false;
    out->issue = (double)(tidei_now_ns() - start) / 1000 / STEPS / KERNELS;
    if (tide_synchronize(s->rt, NULL) != TIDE_OK) return false;
    out->done = (double)(tidei_now_ns() - start) / 1000 / STEPS / KERNELS;
    return true;
}

enum { CALLS, GRAPH, GRAPH_SAME, GRAPH_NUMBERS, SIDES };
static const struct {
    const char *name;
    bool graph, moves, counts;
} ways[SIDES] = {{"calls", false, true, true},
                 {"graph", true, true, false},
                 {"graph_same_input", true, false, false},
                 {"graph_other_numbers", true, true, true}};

static bool side_open(side *s, tide_runtime *rt, int way) {
    *s = (side){.rt = rt,
                .e = tide_expr_new(rt, "(x, a) -> x*0.5 + a"),
                .x = tide_zeros(rt, TIDE_F32, 1, (const int64_t[]){SIZE}),
                .moves = ways[way].moves,
                .counts = ways[way].counts};
    if (ways[way].graph) s->g = tide_graph_new(rt, step_fn, s);
    return s->e && s->x && (s->g || !ways[way].graph);
}

static void note(bench *b, times (*all)[ROUNDS], int which) {
    double v[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) v[r] = all[which][r].done;
    bench_note(b, bench_median(v, ROUNDS), "us", "%s", ways[which].name);
    for (int r = 0; r < ROUNDS; r++) v[r] = all[which][r].issue;
    bench_note(b, bench_median(v, ROUNDS), "us", "%s_issue", ways[which].name);
}

int bench_graph(bench *b) {
    static side sides[SIDES]; /* the graphs' functions have them until the runtime closes */
    times all[SIDES][ROUNDS], unused;
    if (!bench_open(b, "refcount", NULL, false)) return bench_failed("tide_open");
    for (int i = 0; i < SIDES; i++)
        if (!side_open(&sides[i], b->rt, i) ||
            !timed(&sides[i], &unused)) /* which compiles, and captures */
            return bench_failed("a step");
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < SIDES; i++)
            if (!timed(&sides[i], &all[i][r])) return bench_failed("a step");
    for (int i = 0; i < SIDES; i++) note(b, all, i);
    return bench_done(b, "graph");
}
