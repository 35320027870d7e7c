/* dense.c: a toy model that makes a lot of garbage: one dense layer trained by Adam on random data,
** under a memory limit.
**
** Every step copies its batch out of the data and computes the gradients of the weights, the bias
** and the batch itself: two big arrays that are garbage a moment later. Who gives the memory back
** is the choice to be compared:
**   --free=eager   nothing is freed; the policy collects before memory runs out (the default)
**   --free=lazy    nothing is freed; garbage is collected when an allocation no longer fits
**   --free=hand    every temporary is freed by hand
** With --graph the steps are made by a graph (dense.h), which leaves no garbage. Other options:
** --rows N --features N --batch N --epochs N --limit SIZE --policy NAME --wait (once an epoch)
** --quiet --memory FILE (seconds, live and backed bytes after every step) --summary (one line of
** figures at the end) --weights (what the weights come to). Exit 0, 1 failed, 2 bad input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tide/tide.h>
#include "dense.h"

struct options {
    int64_t rows, features, batch;
    int epochs, wait, quiet, summary, graph, weights;
    const char *limit, *policy, *free, *memory;
};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

static void summarise_graph(tide_graph *g) {
    tide_graph_figures f = {.struct_size = sizeof f};
    if (tide_graph_info(g, &f) != TIDE_OK) return;
    printf("graph runs=%llu calls=%llu launches=%llu nodes=%llu bytes=%zu\n",
           (unsigned long long)f.runs, (unsigned long long)f.calls, (unsigned long long)f.launches,
           (unsigned long long)f.nodes, f.bytes);
}

static double size_of(tide_runtime *rt, tide_array *a) {
    return tide_item_f64(tide_map(rt, "(w) -> sum(abs(w))", a));
}

static int run(tide_runtime *rt, const struct options *o) {
    struct model m = {0};
    int64_t steps = (o->rows + o->batch - 1) / o->batch * o->epochs;
    double *times = calloc((size_t)steps, sizeof *times), start;
    FILE *memory = o->memory ? fopen(o->memory, "w") : NULL;
    if (!times || (o->memory && !memory)) perror(times ? o->memory : "dense");
    int ok = times && (!o->memory || memory) &&
             model_init(&m, rt, o->rows, o->features, !strcmp(o->free, "hand")) &&
             (!o->graph || model_capture(&m)) && tide_synchronize(rt, NULL) == TIDE_OK;
    start = seconds();
    if (ok) ok = train(&m, o, times, memory, start);
    if (ok) {
        double total = seconds() - start;
        printf("Total time %.3fs\n", total);
        if (o->summary) summarise(rt, o, times, steps, total);
        if (o->summary && m.graph) summarise_graph(m.graph);
        if (o->weights) printf("weights %.9g %.9g\n", size_of(rt, m.w), size_of(rt, m.b));
    }
    tide_graph_release(m.graph);
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
        else if (!strcmp(argv[i], "--graph"))
            o->graph = 1;
        else if (!strcmp(argv[i], "--weights"))
            o->weights = 1;
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
        fprintf(
            stderr,
            "usage: dense [--free=eager|lazy|hand] [--rows N] [--features N] [--batch N] "
            "[--epochs N] "
            "[--limit SIZE]\n"
            "             [--policy NAME] [--graph] [--wait] [--quiet] [--memory FILE] [--summary] "
            "[--weights]\n");
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
