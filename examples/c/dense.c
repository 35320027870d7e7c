/* dense.c: a toy model that makes a lot of garbage: one dense layer trained by Adam on random data,
** under a memory limit.
**
** Every step copies its batch out of the data and computes the gradients of the weights, the bias
** and the batch itself: two big arrays that are garbage a moment later. Who gives the memory back
** is the choice to be compared:
**   --free=eager   nothing is freed; the policy collects before memory runs out (the default)
**   --free=lazy    nothing is freed; garbage is collected when an allocation no longer fits
**   --free=hand    every temporary is freed by hand
** Other options: --rows N --features N --batch N --epochs N --limit SIZE --policy NAME --wait (once
** an epoch) --quiet --memory FILE (seconds, live and backed bytes after every step) --summary (one
** line of figures at the end). Exit 0, 1 failed, 2 bad input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tide/tide.h>

#define NOINLINE __attribute__((noinline))

struct options {
    int64_t rows, features, batch;
    int epochs, wait, quiet, summary;
    const char *limit, *policy, *free, *memory;
};

struct model {
    tide_runtime *rt;
    int by_hand;
    tide_array *x, *y;             /* the data */
    tide_array *w, *b;             /* the layer */
    tide_array *wm, *wv, *bm, *bv; /* Adam's moments */
    tide_expr *gradients, *adam;
    double c1, c2;    /* 0.9^t, 0.999^t */
    tide_arg args[5]; /* of the gradients, while they are computed */
    tide_array *outs[3];
};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int model_init(struct model *m, tide_runtime *rt, const struct options *o) {
    tide_rng rng = {.seed = 1};
    const int64_t n[] = {o->features}, one[] = {1};
    *m = (struct model){.rt = rt, .by_hand = !strcmp(o->free, "hand"), .c1 = 1, .c2 = 1};
    m->x = tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){o->rows, o->features});
    m->y = tide_random_uniform(rt, &rng, TIDE_F32, 2, (const int64_t[]){o->rows, 1});
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

/* One step on the rows [at, to). */
static int step(struct model *m, int64_t at, int64_t to) {
    tide_array *gw, *gb;
    if (!gradients(m, at, to, &gw, &gb)) return 0;
    m->c1 *= 0.9;
    m->c2 *= 0.999;
    return update(m, &m->w, gw, &m->wm, &m->wv) && update(m, &m->b, gb, &m->bm, &m->bv);
}

static void note_memory(tide_runtime *rt, FILE *f, double start) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    if (f && tide_runtime_info(rt, &s) == TIDE_OK)
        fprintf(f, "%.6f %zu %zu\n", seconds() - start, s.live, s.backed);
}

static int train(struct model *m, const struct options *o, double *times, FILE *memory,
                 double start) {
    int64_t done = 0;
    for (int e = 1; e <= o->epochs; e++) {
        double epoch = seconds();
        for (int64_t at = 0; at < o->rows; at += o->batch) {
            double t = seconds();
            if (!step(m, at, at + o->batch < o->rows ? at + o->batch : o->rows)) return 0;
            times[done++] = seconds() - t;
            note_memory(m->rt, memory, start);
        }
        if (o->wait && tide_synchronize(m->rt, NULL) != TIDE_OK) return 0;
        if (!o->quiet) printf("Epoch %d train time %.3fs\n", e, seconds() - epoch);
    }
    return tide_synchronize(m->rt, NULL) == TIDE_OK;
}

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Steps of the first epoch are left out: they load kernels and libraries. */
static void summarise(tide_runtime *rt, const struct options *o, double *times, int64_t n,
                      double total) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    int64_t per_epoch = (o->rows + o->batch - 1) / o->batch, skip = o->epochs > 1 ? per_epoch : 0;
    qsort(times + skip, (size_t)(n - skip), sizeof *times, by_time);
    if (tide_runtime_info(rt, &s) != TIDE_OK) return;
    printf("summary free=%s total_s=%.4f median_step_us=%.1f worst_step_us=%.1f collections=%llu "
           "climbs=%llu "
           "collected=%zu reclaimed=%zu "
           "peak_live=%zu peak_backed=%zu limit=%zu host_waits=%llu\n",
           o->free, total, 1e6 * times[skip + (n - skip) / 2], 1e6 * times[n - 1],
           (unsigned long long)s.collections, (unsigned long long)s.climbs, s.collected,
           s.reclaimed, s.peak_live, s.peak_backed, s.limit, (unsigned long long)s.host_waits);
}

static int run(tide_runtime *rt, const struct options *o) {
    struct model m = {0};
    int64_t steps = (o->rows + o->batch - 1) / o->batch * o->epochs;
    double *times = calloc((size_t)steps, sizeof *times), start;
    FILE *memory = o->memory ? fopen(o->memory, "w") : NULL;
    if (!times || (o->memory && !memory)) perror(times ? o->memory : "dense");
    int ok = times && (!o->memory || memory) && model_init(&m, rt, o) &&
             tide_synchronize(rt, NULL) == TIDE_OK;
    start = seconds();
    if (ok) ok = train(&m, o, times, memory, start);
    if (ok) {
        double total = seconds() - start;
        printf("Total time %.3fs\n", total);
        if (o->summary) summarise(rt, o, times, steps, total);
    }
    if (memory && fclose(memory) != 0) perror(o->memory), ok = 0;
    free(times);
    return ok;
}

static int number(const char *text, int64_t *out) {
    char *end;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || v < 1) return 0;
    *out = v;
    return 1;
}

/* The value of `--name=value` or `--name value`; NULL if the argument is another. */
static const char *value(const char *name, int *i, int argc, char **argv) {
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n)) return NULL;
    if (argv[*i][n] == '=') return argv[*i] + n + 1;
    return argv[*i][n] == 0 && *i + 1 < argc ? argv[++*i] : NULL;
}

static int parse(struct options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *v;
        int64_t epochs;
        if (!strcmp(argv[i], "--wait"))
            o->wait = 1;
        else if (!strcmp(argv[i], "--quiet"))
            o->quiet = 1;
        else if (!strcmp(argv[i], "--summary"))
            o->summary = 1;
        else if ((v = value("--rows", &i, argc, argv)) && number(v, &o->rows))
            continue;
        else if ((v = value("--features", &i, argc, argv)) && number(v, &o->features))
            continue;
        else if ((v = value("--batch", &i, argc, argv)) && number(v, &o->batch))
            continue;
        else if ((v = value("--epochs", &i, argc, argv)) && number(v, &epochs) && epochs < 1000000)
            o->epochs = (int)epochs;
        else if ((v = value("--limit", &i, argc, argv)))
            o->limit = v;
        else if ((v = value("--policy", &i, argc, argv)))
            o->policy = v;
        else if ((v = value("--memory", &i, argc, argv)))
            o->memory = v;
        else if ((v = value("--free", &i, argc, argv)) &&
                 (!strcmp(v, "eager") || !strcmp(v, "lazy") || !strcmp(v, "hand")))
            o->free = v;
        else
            return 0;
    }
    return 1;
}

/* The runtime's own lines: collections and climbs. */
static void log_line(void *user, int level, const char *line) {
    (void)user;
    if (level <= TIDE_LOG_WARNING)
        fprintf(stderr, "dense: %s\n", line);
    else
        printf("%s\n", line);
}

int main(int argc, char **argv) {
    struct options o = {
        .rows = 300000, .features = 1000, .batch = 2048, .epochs = 100, .free = "eager"};
    if (!parse(&o, argc, argv)) {
        fprintf(stderr,
                "usage: dense [--free=eager|lazy|hand] [--rows N] [--features N] [--batch N] "
                "[--epochs N] "
                "[--limit SIZE]\n"
                "             [--policy NAME] [--wait] [--quiet] [--memory FILE] [--summary]\n");
        return 2;
    }
    tide_config c = {
        .struct_size = sizeof c, .limit = o.limit, .policy = o.policy, .log = log_line};
    c.log_level = o.quiet ? TIDE_LOG_WARNING : TIDE_LOG_INFO;
    c.gc_early = strcmp(o.free, "eager") ? TIDE_OFF : TIDE_ON;
    tide_runtime *rt;
    if (tide_open(&c, &rt) != TIDE_OK || !run(rt, &o)) {
        if (tide_error_last()->status)
            fprintf(stderr, "dense: %s\n", tide_error_last()->message); /* else: it was said */
        return 1;
    }
    tide_close(rt);
    return 0;
}
