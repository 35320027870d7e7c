/* scans.c: a benchmark of running folds and of elements picked by a condition, against a copy of
** the same elements. */
#include "bench/bench.h"
#include <tide/tide.h>

#define CALLS 10 /* of a round: tenths of milliseconds each, and one wait */

typedef struct inputs {
    tide_runtime *rt;
    tide_array *f32, *i32, *square, *rows; /* 2^26 elements; the last two 2^13 wide, 2^6 wide */
    tide_array *few, *mask;                /* 2^24 */
} inputs;

typedef bool scan_fn(const inputs *in);
static bool made(tide_array *a) {
    tide_free(a);
    return a != NULL;
}
static bool copy_f32(const inputs *in) { return made(tide_copy(in->f32)); }
static bool cumsum_f32(const inputs *in) { return made(tide_cumsum(in->f32, 0, 0)); }
static bool cumsum_back(const inputs *in) {
    return made(tide_cumsum(in->f32, 0, TIDE_SCAN_REVERSE));
}
static bool cumsum_i32(const inputs *in) { return made(tide_cumsum(in->i32, 0, 0)); }
static bool cummax_i32(const inputs *in) { return made(tide_cummax(in->i32, 0, 0)); }
static bool columns(const inputs *in) { return made(tide_cumsum(in->square, 0, 0)); }
static bool rows(const inputs *in) { return made(tide_cumsum(in->square, 1, 0)); }
static bool short_rows(const inputs *in) { return made(tide_cumsum(in->rows, 1, 0)); }
/* a body that is part of the scan, and the same with the body stored first */
static bool fused(const inputs *in) {
    return made(tide_map(in->rt, "(x) -> cumsum(x*x + 1)", in->f32));
}
static bool fused_columns(const inputs *in) {
    return made(tide_map(in->rt, "(x) -> cumsum(x*x + 1, axis=0)", in->square));
}
static bool fused_rows(const inputs *in) {
    return made(tide_map(in->rt, "(x) -> cumsum(x*x + 1, axis=1)", in->square));
}
static bool stored_first(const inputs *in) {
    tide_array *v = tide_map(in->rt, "(x) -> x*x + 1", in->f32),
               *s = v ? tide_cumsum(v, 0, 0) : NULL;
    tide_free(v);
    return made(s);
}
static bool nonzero(const inputs *in) {
    tide_array *out = NULL;
    return tide_nonzero(in->few, &out, 1) == TIDE_OK && made(out);
}
static bool nonzero_mask(const inputs *in) {
    tide_array *out = NULL;
    return tide_nonzero(in->mask, &out, 1) == TIDE_OK && made(out);
}
static bool masked_select(const inputs *in) { return made(tide_masked_select(in->few, in->mask)); }
static bool masked_put(const inputs *in) {
    tide_array *values = tide_masked_select(in->few, in->mask);
    bool ok = values && tide_masked_put(in->few, in->mask, values) == TIDE_OK;
    return made(values) && ok;
}

static const struct {
    const char *name;
    scan_fn *fn;
} works[] = {{"copy_f32", copy_f32},
             {"cumsum_f32", cumsum_f32},
             {"cumsum_f32_reverse", cumsum_back},
             {"cumsum_i32", cumsum_i32},
             {"cummax_i32", cummax_i32},
             {"cumsum_columns", columns},
             {"cumsum_rows", rows},
             {"cumsum_short_rows", short_rows},
             {"nonzero_f32", nonzero},
             {"nonzero_bool", nonzero_mask},
             {"masked_select", masked_select},
             {"masked_select_put", masked_put},
             {"fused_f32", fused},
             {"fused_columns", fused_columns},
             {"fused_rows", fused_rows},
             {"stored_first_f32", stored_first}};

static bool make(tide_runtime *rt, int64_t n, inputs *in) {
    tide_rng rng = {.seed = 3};
    in->rt = rt;
    in->f32 = tide_random_uniform(rt, &rng, TIDE_F32, 1, &n);
    in->i32 = tide_random_integers(rt, &rng, TIDE_I32, 1, &n, -9, 9);
    in->square = tide_reshape(in->f32, 2, (const int64_t[]){-1, n >> 13});
    in->rows = tide_reshape(in->f32, 2, (const int64_t[]){-1, 64});
    in->few = tide_map(rt, "(x) -> where(x > 0.5, x, 0)",
                       tide_slicef(in->f32, ":%lld", (long long)n / 4));
    in->mask = tide_map(rt, "(x) -> x != 0", in->few);
    return in->square && in->rows && in->mask && tide_synchronize(rt, NULL) == TIDE_OK;
}

static double timed(tide_runtime *rt, scan_fn *fn, const inputs *in) {
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < CALLS; i++)
        if (!fn(in)) return -1;
    if (tide_synchronize(rt, NULL) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start) / CALLS / 1000;
}

int bench_scans(bench *b) {
    static double took[TIDEI_COUNT(works)][BENCH_ROUNDS];
    double ratio[BENCH_ROUNDS];
    inputs in;
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    int64_t n = (int64_t)bench_or(b->n, bench_on_cuda(b) ? (size_t)1 << 26 : (size_t)1 << 22);
    if (!make(b->rt, n, &in)) return bench_failed("the inputs");
    for (int r = -1; r < BENCH_ROUNDS; r++) /* the first one loads */
        for (unsigned w = 0; w < TIDEI_COUNT(works); w++) {
            double us = timed(b->rt, works[w].fn, &in);
            if (us < 0) return bench_failed(works[w].name);
            if (r >= 0) took[w][r] = us;
        }
    /* 4 bytes in and 8 out, where a copy has 4 and 4: its part of a copy's bandwidth */
    for (int r = 0; r < BENCH_ROUNDS; r++) ratio[r] = took[0][r] * 1.5 / took[3][r];
    for (unsigned w = 0; w < TIDEI_COUNT(works); w++)
        bench_note(b, bench_median(took[w], BENCH_ROUNDS), "us", "%s", works[w].name);
    bench_note(b, bench_median(ratio, BENCH_ROUNDS), "", "bandwidth_i32");
    return bench_done(b, "bandwidth_i32");
}
