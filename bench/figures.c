/* figures.c: figures by name, and how they are shown (bench.h). */
#include "bench/bench.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
double bench_quantile(double *v, size_t n, double q) {
    qsort(v, n, sizeof *v, by_value);
    size_t i = (size_t)(q * (double)n);
    return v[i < n ? i : n - 1];
}
double bench_median(double *v, size_t n) { return bench_quantile(v, n, 0.5); }

bool bench_wants_family(const bench *b, const char *family) {
    const size_t n = strlen(family);
    return !b->chosen || (!strncmp(b->chosen, family, n) && b->chosen[n] == '_' &&
                          (!strcmp(b->chosen + n, "_worst") || atoi(b->chosen + n + 1)));
}

void bench_note(bench *b, double value, const char *unit, const char *name, ...) {
    va_list ap;
    if (b->figures == BENCH_FIGURES) {
        fprintf(stderr, "%s: more than %d figures\n", program_invocation_short_name, BENCH_FIGURES);
        abort();
    }
    bench_figure *f = &b->figure[b->figures++];
    f->value = value;
    f->unit = unit;
    va_start(ap, name);
    vsnprintf(f->name, sizeof f->name, name, ap);
    va_end(ap);
}

int bench_done(bench *b, const char *bar) {
    b->bar = bar;
    return 0;
}

int bench_failed(const char *what) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
            tide_error_last()->message);
    return 1;
}

int bench_skipped(const char *why) {
    fprintf(stderr, "%s: skipped: %s\n", program_invocation_short_name, why);
    return BENCH_SKIPPED;
}

static const bench_figure *figure_named(const bench *b, const char *name) {
    for (unsigned i = 0; i < b->figures; i++)
        if (!strcmp(b->figure[i].name, name)) return &b->figure[i];
    return NULL;
}

static void print_json(const bench *b, const char *device, const char *pool) {
    printf("{\"bench\": \"%s%s%s\", \"device\": \"%s\", \"pool\": \"%s\"", b->name,
           b->level ? ":" : "", b->level ? b->level : "", device, pool);
    for (unsigned i = 0; i < b->figures; i++)
        printf(", \"%s\": %.6g", b->figure[i].name, b->figure[i].value);
    printf("}\n");
}

int bench_show(const bench *b, const char *device, const char *pool) {
    const char *chosen = b->chosen ? b->chosen : b->bar;
    const bench_figure *f = figure_named(b, chosen);
    if (!f) {
        fprintf(stderr, "%s: %s has no figure %s here; it has", program_invocation_short_name,
                b->name, chosen);
        for (unsigned i = 0; i < b->figures; i++) fprintf(stderr, " %s", b->figure[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    if (b->json) {
        print_json(b, device, pool);
        return 0;
    }
    printf("%s on %s, pool %s\n", b->name, device, pool);
    for (unsigned i = 0; i < b->figures; i++)
        printf("  %-28s %14.6g %s\n", b->figure[i].name, b->figure[i].value, b->figure[i].unit);
    printf("figure %.6g\n", f->value);
    return 0;
}
