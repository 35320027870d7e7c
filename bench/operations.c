/* operations.c: scans, sorts, selections and scatters at sizes that programs have, each alone, or
** one of them (--figure): from a quiet device until its results are there.
** bench/peers/operations.py times the same of PyTorch under the same names; bench/operations.sh
** holds one against the other. */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

#define ROUNDS BENCH_ROUNDS
#define MI     ((int64_t)1 << 20)

/* What an operation works on. */
typedef struct inputs {
    tide_array *a, *b, *c;
    tide_runtime *rt;
    void *host;
} inputs;

typedef struct operation {
    const char *name;
    bool (*make)(tide_runtime *rt, inputs *in);
    bool (*run)(const inputs *in);
} operation;

static tide_array *floats(tide_runtime *rt, int ndim, const int64_t *shape) {
    tide_rng rng = {.seed = 1};
    return tide_random_normal(rt, &rng, TIDE_F32, ndim, shape);
}
static tide_array *integers(tide_runtime *rt, tide_dtype t, int64_t n, int64_t high) {
    tide_rng rng = {.seed = 2};
    return tide_random_integers(rt, &rng, t, 1, &n, 0, high);
}

static bool gave(tide_array *a) {
    tide_free(a);
    return a != NULL;
}
static bool gave_two(tide_status s, tide_array *const *outs) {
    if (s != TIDE_OK) return false;
    tide_free(outs[0]);
    tide_free(outs[1]);
    return true;
}

/* ---- order ---- */

static bool make_line(tide_runtime *rt, inputs *in) {
    return (in->a = floats(rt, 1, (const int64_t[]){16 * MI})) != NULL;
}
static bool make_short_rows(tide_runtime *rt, inputs *in) {
    return (in->a = floats(rt, 2, (const int64_t[]){MI / 16, 256})) != NULL;
}
static bool make_rows(tide_runtime *rt, inputs *in) {
    return (in->a = floats(rt, 2, (const int64_t[]){8192, 4096})) != NULL;
}
static bool make_four_mi(tide_runtime *rt, inputs *in) {
    return (in->a = floats(rt, 1, (const int64_t[]){4 * MI})) != NULL;
}
static bool make_repeated(tide_runtime *rt, inputs *in) {
    return (in->a = integers(rt, TIDE_I64, 1000000, 100000)) != NULL;
}
static bool run_sort(const inputs *in) {
    tide_array *outs[2];
    return gave_two(tide_sort_both(in->a, -1, 0, &outs[0], &outs[1]), outs);
}
static bool run_topk(const inputs *in) {
    tide_array *outs[2];
    return gave_two(tide_topk(in->a, 10, -1, 1, &outs[0], &outs[1]), outs);
}
static bool run_unique(const inputs *in) { return gave(tide_unique_values(in->a)); }
static bool run_quantile(const inputs *in) {
    return gave(tide_quantile(in->a, tide_arg_float(0.3), NULL, 0, 0));
}

/* ---- scans and selections ---- */

static bool make_long(tide_runtime *rt, inputs *in) {
    return (in->a = floats(rt, 1, (const int64_t[]){64 * MI})) != NULL;
}
static bool make_long_integers(tide_runtime *rt, inputs *in) {
    return (in->a = integers(rt, TIDE_I32, 64 * MI, 100)) != NULL;
}
static bool make_masked(tide_runtime *rt, inputs *in) {
    return make_line(rt, in) && (in->b = tide_map(rt, "(x) -> x > 0", in->a)) != NULL;
}
static bool run_cumsum(const inputs *in) { return gave(tide_cumsum(in->a, 0, 0)); }
static bool run_nonzero(const inputs *in) {
    tide_array *at;
    return tide_nonzero(in->b, &at, 1) == TIDE_OK && gave(at);
}
static bool run_select(const inputs *in) { return gave(tide_masked_select(in->a, in->b)); }

/* ---- scatter ---- */

static bool make_scatter(tide_runtime *rt, inputs *in) {
    in->a = tide_zeros(rt, TIDE_F32, 2, (const int64_t[]){100000, 64});
    in->b = integers(rt, TIDE_I64, 1000000, 100000);
    in->c = floats(rt, 2, (const int64_t[]){1000000, 64});
    return in->a && in->b && in->c;
}
static bool run_scatter(const inputs *in) {
    return tide_scatter_add(in->a, in->b, 0, in->c, 0) == TIDE_OK;
}
static bool run_scatter_free(const inputs *in) {
    return tide_scatter_add(in->a, in->b, 0, in->c, TIDE_SCATTER_ANY_ORDER) == TIDE_OK;
}

/* ---- from the host ---- */

static bool make_host(tide_runtime *rt, inputs *in) {
    in->rt = rt;
    in->host = malloc(256 * TIDEI_MIB);
    return in->host && memset(in->host, 1, 256 * TIDEI_MIB);
}
static bool run_upload(const inputs *in) {
    return gave(tide_from_host(in->rt, TIDE_F32, 1, (const int64_t[]){64 * MI}, in->host));
}

static const operation operations[] = {
    {"sort", make_line, run_sort},
    {"sort_rows", make_short_rows, run_sort},
    {"cumsum_f32", make_long, run_cumsum},
    {"cumsum_i32", make_long_integers, run_cumsum},
    {"nonzero", make_masked, run_nonzero},
    {"masked_select", make_masked, run_select},
    {"topk", make_rows, run_topk},
    {"index_add", make_scatter, run_scatter_free},
    {"index_add_ordered", make_scatter, run_scatter},
    {"unique", make_repeated, run_unique},
    {"quantile", make_four_mi, run_quantile},
    {"upload", make_host, run_upload},
};

/* Microseconds; negative where it fails. */
static double once(tide_runtime *rt, const operation *o, const inputs *in) {
    if (tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    uint64_t start = tidei_now_ns();
    if (!o->run(in) || tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start) / 1000;
}

static bool measure(bench *b, const operation *o) {
    double t[ROUNDS];
    inputs in = {0};
    if (!o->make(b->rt, &in)) return false;
    for (int r = -2; r < ROUNDS; r++) { /* the first ones compile, and find memory */
        double each = once(b->rt, o, &in);
        if (each < 0) return false;
        if (r >= 0) t[r] = each;
    }
    bench_note(b, bench_median(t, ROUNDS), "us", "%s", o->name);
    tide_free(in.a);
    tide_free(in.b);
    tide_free(in.c);
    free(in.host);
    return true;
}

int bench_operations(bench *b) {
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("these sizes are a GPU's");
    for (size_t i = 0; i < TIDEI_COUNT(operations); i++)
        if ((!b->chosen || !strcmp(b->chosen, operations[i].name)) && !measure(b, &operations[i]))
            return bench_failed(operations[i].name);
    return bench_done(b, "sort");
}
