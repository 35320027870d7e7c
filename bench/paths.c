/* paths.c: the long ways, N times each, for bench/paths_ir.sh to count instructions:
**   climb N     requests that fit nowhere: the whole reclaim ladder, and the report
**   collect N   full collections, with 100,000 arrays that live (boehm where there is one)
**   operation N maps of 4096 elements by the host's interpreter, waited for each time */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tide/tide.h>

#define ARRAYS   100000
#define ELEMENTS 4096

static void stop(const char *what) {
    fprintf(stderr, "paths: %s: %s\n", what, tide_error_last()->message);
    exit(1);
}

static void climb(tide_runtime *rt, long n) {
    const int64_t bytes[] = {12 << 20};
    tide_array *most = tide_empty(rt, TIDE_U8, 1, bytes);
    if (!most) stop("climb");
    for (long i = 0; i < n; i++)
        if (tide_empty(rt, TIDE_U8, 1, bytes)) stop("a request that cannot fit does");
    tide_free(most);
}

static void collect(tide_runtime *rt, long n) {
    const int64_t one[] = {1};
    static tide_array *held[ARRAYS]; /* static data is scanned */
    tide_array *x = tide_ones(rt, TIDE_F32, 1, one);
    if (!x) stop("collect");
    for (long i = 0; i < ARRAYS; i++)
        if (!(held[i] = tide_expand_dims(x, 0))) stop("collect");
    for (long i = 0; i < n; i++)
        if (tide_collect(rt) != TIDE_OK) stop("collect");
    for (long i = 0; i < ARRAYS; i++) tide_free(held[i]);
}

static void operation(tide_runtime *rt, long n) {
    const int64_t shape[] = {ELEMENTS};
    tide_array *x = tide_ones(rt, TIDE_F32, 1, shape);
    tide_expr *e = tide_expr_new(rt, "(x) -> sqrt(x * x + 1.0) * 0.5");
    for (long i = 0; i < n; i++) {
        tide_array *y = tide_expr_apply(e, (tide_arg[]){tide_arg_array(x)}, 1);
        if (!y || tide_synchronize(rt, NULL) != TIDE_OK) stop("operation");
        tide_free(y);
        tide_release(y);
    }
    tide_expr_release(e);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(tide_runtime *rt, long n);
    } paths[] = {{"climb", climb}, {"collect", collect}, {"operation", operation}};
    long n = argc == 3 ? strtol(argv[2], NULL, 10) : -1;
    for (size_t i = 0; n >= 0 && i < sizeof paths / sizeof *paths; i++) {
        if (strcmp(argv[1], paths[i].name) != 0) continue;
        tide_config c = {.struct_size = sizeof c, .device = "host", .limit = "16MiB"};
        if (strcmp(argv[1], "collect") != 0) c.collector = "refcount";
        tide_runtime *rt = NULL;
        if (tide_open(&c, &rt) != TIDE_OK) stop("tide_open");
        paths[i].run(rt, n);
        tide_close(rt);
        return 0;
    }
    fprintf(stderr, "usage: paths climb|collect|operation N\n");
    return 2;
}
