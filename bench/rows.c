/* rows.c: folds over rows and what hangs on them: softmax and its like at the size that papers take
** (rows), and bandwidth over axes of any length (sweep).
** bench/peers/rows.py times the same of PyTorch under the same names; bench/rows.sh shows both. */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

#define CALLS  20  /* of a round, and one wait: what waiting takes is a twentieth */
#define ISSUES 256 /* below the depth of a launch queue, where issuing would wait for the GPU */

#define SOFTMAX(axis)                                                                              \
    "(x) -> let e = exp(x - max(x, axis=" axis ", keepdims=true)); e / sum(e, axis=" axis          \
    ", keepdims=true)"
#define LOGSUMEXP "(x) -> max(x, axis=1) + log(sum(exp(x - max(x, axis=1, keepdims=true)), axis=1))"
#define RMS_NORM  "(x) -> x / sqrt(mean(x*x, axis=1, keepdims=true) + 1e-6)"
#define LAYER_NORM                                                                                 \
    "(x, g, b) -> let d = x - mean(x, axis=1, keepdims=true);"                                     \
    " d / sqrt(mean(d*d, axis=1, keepdims=true) + 1e-5) * g + b"
#define MOMENTS                                                                                    \
    "(x) -> let d = x - mean(x, axis=1, keepdims=true); (mean(x, axis=1), mean(d*d, axis=1))"

/* ---- one expression ---- */

typedef struct work {
    tide_expr *e;
    tide_arg args[3];
    size_t nargs, nresults;
} work;

static bool call(const work *w) {
    tide_array *outs[2];
    if (tide_expr_apply_many(w->e, w->args, w->nargs, outs, w->nresults) != TIDE_OK) return false;
    for (size_t i = 0; i < w->nresults; i++) tide_free(outs[i]);
    return true;
}

/* Microseconds of a call; negative where it fails. `wait`: until its results are there, else until
** it is queued. */
static double timed(tide_runtime *rt, const work *w, int calls, bool wait) {
    if (tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    uint64_t start = tidei_now_ns(), queued;
    for (int i = 0; i < calls; i++)
        if (!call(w)) return -1;
    queued = tidei_now_ns();
    if (tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    return (double)((wait ? tidei_now_ns() : queued) - start) / 1000 / calls;
}

static double median_of(tide_runtime *rt, const work *w, int rounds, int calls, bool wait) {
    double t[BENCH_ROUNDS];
    for (int r = -2; r < rounds; r++) { /* the first ones compile, and find memory */
        double each = timed(rt, w, calls, wait);
        if (each < 0) return -1;
        if (r >= 0) t[r] = each;
    }
    return bench_median(t, (size_t)rounds);
}

static tide_array *normal(tide_runtime *rt, tide_dtype t, int ndim, int64_t rows, int64_t n) {
    tide_rng rng = {.seed = 1};
    const int64_t shape[] = {rows, n};
    return bench_normal(rt, &rng, t, ndim, ndim == 1 ? shape + 1 : shape);
}

/* `text` over x of this shape; the other arrays it wants have an element for each column. */
static bool prepare(tide_runtime *rt, const char *text, tide_dtype t, int64_t rows, int64_t n,
                    size_t nargs, size_t nresults, work *w) {
    tide_array *a[3] = {normal(rt, t, 2, rows, n)};
    for (size_t i = 1; i < nargs; i++) a[i] = normal(rt, t, 1, 1, n);
    *w = (work){.e = tide_expr_new(rt, text), .nargs = nargs, .nresults = nresults};
    for (size_t i = 0; i < nargs; i++) {
        if (!a[i]) return false;
        w->args[i] = tide_arg_array(a[i]);
    }
    return w->e != NULL;
}

static void forget(work *w) {
    for (size_t i = 0; i < w->nargs; i++) tide_free(w->args[i].value.array);
    tide_expr_release(w->e);
}

/* ---- rows ---- */

int bench_rows(bench *b) {
    static const struct {
        const char *name, *text;
        int64_t rows, n;
        size_t nargs;
        bool issue;
    } cases[] = {{"softmax", SOFTMAX("-1"), 8192, 4096, 1, false},
                 {"logsumexp", LOGSUMEXP, 8192, 4096, 1, false},
                 {"rms_norm", RMS_NORM, 8192, 4096, 1, false},
                 {"layer_norm", LAYER_NORM, 8192, 4096, 3, false},
                 {"argmax_rows", "(x) -> argmax(x, axis=1)", 8192, 4096, 1, false},
                 {"copy", "(x) -> x", 8192, 4096, 1, false},
                 {"softmax_small_issue", SOFTMAX("-1"), 32, 32, 1, true}};
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("these sizes are a GPU's");
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        work w;
        if (b->chosen && strcmp(b->chosen, cases[i].name) != 0) continue;
        if (!prepare(b->rt, cases[i].text, TIDE_F32, cases[i].rows, cases[i].n, cases[i].nargs, 1,
                     &w))
            return bench_failed(cases[i].name);
        double us =
            median_of(b->rt, &w, BENCH_ROUNDS, cases[i].issue ? ISSUES : CALLS, !cases[i].issue);
        if (us < 0) return bench_failed(cases[i].name);
        bench_note(b, us, "us", "%s", cases[i].name);
        forget(&w);
    }
    return bench_done(b, "softmax");
}

/* ---- the sweep ---- */

/* Elements of each array: 128 MiB of floats, more than caches hold. */
#define ELEMENTS ((int64_t)1 << 25)

/* Short, odd, of one block, of several, huge. Beyond what registers hold, a fold that needs the one
** before it reads its elements again: such lengths are shown and count for no bar. */
static const int64_t lengths[] = {7,    32,   33,    100,   256,    1000,    1023,
                                  4096, 4097, 16384, 50257, 131072, 1 << 20, 1 << 25};

typedef struct family {
    const char *name, *text;
    tide_dtype t;
    bool columns;  /* the axis goes across memory */
    int64_t kept;  /* the greatest length at which each element is read once */
    size_t passes; /* arrays of all elements that have to be moved: read, written */
    size_t nargs, nresults;
} family;
#define ANY INT64_MAX
static const family families[] = {
    {"sum_f32", "(x) -> sum(x, axis=1)", TIDE_F32, false, ANY, 1, 1, 1},
    {"sum_f16", "(x) -> sum(x, axis=1)", TIDE_F16, false, ANY, 1, 1, 1},
    {"sum_columns_f32", "(x) -> sum(x, axis=0)", TIDE_F32, true, ANY, 1, 1, 1},
    {"moments_f32", MOMENTS, TIDE_F32, false, 131072, 1, 1, 2},
    {"softmax_f32", SOFTMAX("-1"), TIDE_F32, false, 131072, 2, 1, 1},
    {"softmax_bf16", SOFTMAX("-1"), TIDE_BF16, false, 131072, 2, 1, 1},
    {"softmax_columns_f32", SOFTMAX("0"), TIDE_F32, true, 4097, 2, 1, 1},
    {"layer_norm_f32", LAYER_NORM, TIDE_F32, false, 131072, 2, 3, 1},
};

/* GB/s at one length; negative where it fails. */
static double bandwidth(tide_runtime *rt, const family *f, int64_t length) {
    const int64_t others = ELEMENTS / length, rows = f->columns ? length : others,
                  n = f->columns ? others : length;
    work w;
    if (!prepare(rt, f->text, f->t, rows, n, f->nargs, f->nresults, &w)) return -1;
    double us = median_of(rt, &w, 5, CALLS, true);
    forget(&w);
    const double bytes = (double)(rows * n) * (double)(tide_dtype_size(f->t) * f->passes);
    return us < 0 ? -1 : bytes / us / 1000;
}

static bool sweep(bench *b, const family *f) {
    double best = 0, worst = 0;
    for (size_t i = 0; i < TIDEI_COUNT(lengths); i++) {
        double each = bandwidth(b->rt, f, lengths[i]);
        if (each < 0) return false;
        bench_note(b, each, "GB/s", "%s_%lld", f->name, (long long)lengths[i]);
        if (lengths[i] > f->kept) continue;
        if (each > best) best = each;
        if (i == 0 || each < worst) worst = each;
    }
    bench_note(b, worst / best, "", "%s_worst", f->name);
    return true;
}

int bench_sweep(bench *b) {
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("these sizes are a GPU's");
    for (size_t i = 0; i < TIDEI_COUNT(families); i++)
        if (bench_wants_family(b, families[i].name) && !sweep(b, &families[i]))
            return bench_failed(families[i].name);
    return bench_done(b, "softmax_f32_worst");
}
