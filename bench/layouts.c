/* layouts.c: work whose speed hangs on how its operands lie: distances of all pairs, a stencil,
** random numbers, rows taken, at the sizes that issues name (layouts); and over lengths and element
** sizes (layout-sweep): bytes that have to be moved, or elements that are folded, over time.
** bench/peers/layouts.py times the same of PyTorch under the same names; bench/layouts.sh shows
** both. */
#include "bench/bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

#define CALLS 20 /* of a round, and one wait: what waiting takes is a twentieth */
#define MI    ((int64_t)1 << 20)

/* What one call works on, and how much it moves: bytes, or elements of a fold. */
typedef struct work {
    tide_runtime *rt;
    tide_array *a, *b;
    tide_dtype t;
    int axis;
    double amount;
} work;
typedef tide_array *call_fn(const work *w);

/* Microseconds of a call, results and all; negative where it fails. */
static double timed(const work *w, call_fn *call) {
    if (tide_synchronize(w->rt, NULL) != TIDE_OK) return -1;
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < CALLS; i++) {
        tide_array *a = call(w);
        if (!a) return -1;
        tide_free(a);
    }
    if (tide_synchronize(w->rt, NULL) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start) / 1000 / CALLS;
}

static double median_of(const work *w, call_fn *call, int rounds) {
    double t[BENCH_ROUNDS];
    for (int r = -2; r < rounds; r++) { /* the first ones compile, and find memory */
        double each = timed(w, call);
        if (each < 0) return -1;
        if (r >= 0) t[r] = each;
    }
    return bench_median(t, (size_t)rounds);
}

static void forget(work *w) {
    tide_free(w->a);
    tide_free(w->b);
}

/* Small numbers of any type. */
static tide_array *numbers(tide_runtime *rt, tide_dtype t, int64_t rows, int64_t n) {
    tide_rng rng = {.seed = 1};
    tide_array *a = tide_random_integers(rt, &rng, TIDE_I8, 2, (const int64_t[]){rows, n}, -9, 10);
    tide_array *b = a ? tide_cast(a, t) : NULL;
    tide_free(a);
    return b;
}
static tide_array *places(tide_runtime *rt, int64_t n, int64_t length) {
    tide_rng rng = {.seed = 2};
    return tide_random_integers(rt, &rng, TIDE_I64, 1, &n, 0, length);
}

/* ---- calls ---- */

static tide_array *distances(const work *w) {
    return tide_map(w->rt, "(x, y) -> sqrt(sum((x - y)**2, axis=2))", w->a, w->b);
}
static tide_array *squares(const work *w) {
    return tide_map(w->rt, "(x, y) -> sum((x - y)**2, axis=2)", w->a, w->b);
}
static tide_array *stencil(const work *w) {
    static const char *const views[] = {"1:-1, 1:-1", ":-2, 1:-1", "2:, 1:-1", "1:-1, :-2",
                                        "1:-1, 2:"};
    tide_array *v[5], *out = NULL;
    for (int i = 0; i < 5; i++) v[i] = tide_slice(w->a, views[i]);
    out = tide_map(w->rt, "(c, n, s, w, e) -> n + s + w + e - 4*c", v[0], v[1], v[2], v[3], v[4]);
    for (int i = 0; i < 5; i++) tide_free(v[i]);
    return out;
}
static tide_array *shifted(const work *w) {
    tide_array *a = tide_slice(w->a, ":, 1:"), *b = tide_slice(w->b, ":, :-1"),
               *out = tide_map(w->rt, "(a, b) -> a + b", a, b);
    tide_free(a);
    tide_free(b);
    return out;
}
static tide_array *take(const work *w) { return tide_take(w->a, w->b, w->axis); }
static tide_array *uniform(const work *w) {
    tide_rng rng = {.seed = 3};
    return tide_random_uniform(w->rt, &rng, w->t, 1, (const int64_t[]){64 * MI});
}
static tide_array *normal(const work *w) {
    tide_rng rng = {.seed = 3};
    return tide_random_normal(w->rt, &rng, w->t, 1, (const int64_t[]){64 * MI});
}
static tide_array *integers(const work *w) {
    tide_rng rng = {.seed = 3};
    return tide_random_integers(w->rt, &rng, w->t, 1, (const int64_t[]){64 * MI}, 0, 100);
}

/* ---- the sizes that are named ---- */

static bool make_pairs(work *w, int64_t rows, int64_t columns, int64_t n) {
    tide_array *a = numbers(w->rt, w->t, rows, n), *b = numbers(w->rt, w->t, columns, n);
    w->a = a ? tide_expand_dims(a, 1) : NULL;
    w->b = b ? tide_expand_dims(b, 0) : NULL;
    w->amount = (double)rows * (double)columns * (double)n;
    tide_free(a);
    tide_free(b);
    return w->a && w->b;
}
static bool make_distances(work *w) { return make_pairs(w, 2048, 2048, 64); }
static bool make_plane(work *w) { return (w->a = numbers(w->rt, w->t, 4096, 4096)) != NULL; }
static bool make_taken(work *w) {
    w->a = numbers(w->rt, w->t, 100000, 64);
    w->b = places(w->rt, 1000000, 100000);
    return w->a && w->b;
}
static bool make_nothing(work *w) {
    (void)w;
    return true;
}

int bench_layouts(bench *b) {
    static const struct {
        const char *name;
        bool (*make)(work *w);
        call_fn *call;
        tide_dtype t;
    } cases[] = {{"distances", make_distances, distances, TIDE_F32},
                 {"stencil", make_plane, stencil, TIDE_F32},
                 {"uniform", make_nothing, uniform, TIDE_F32},
                 {"normal", make_nothing, normal, TIDE_F32},
                 {"take_rows", make_taken, take, TIDE_F32},
                 {"distances_without_root", make_distances, squares, TIDE_F32},
                 {"uniform_f64", make_nothing, uniform, TIDE_F64},
                 {"normal_f64", make_nothing, normal, TIDE_F64},
                 {"integers_i32", make_nothing, integers, TIDE_I32},
                 {"integers_i8", make_nothing, integers, TIDE_I8}};
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("these sizes are a GPU's");
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        work w = {.rt = b->rt, .t = cases[i].t};
        if (b->chosen && strcmp(b->chosen, cases[i].name) != 0) continue;
        if (!cases[i].make(&w)) return bench_failed(cases[i].name);
        double us = median_of(&w, cases[i].call, BENCH_ROUNDS);
        if (us < 0) return bench_failed(cases[i].name);
        bench_note(b, us, "us", "%s", cases[i].name);
        forget(&w);
    }
    return bench_done(b, "distances");
}

/* ---- the sweep ---- */

#define BYTES (128 * MI) /* of each operand: more than caches hold */
#define TABLE (16 * MI)  /* of what is taken from: less */
#define PAIRS (256 * MI) /* elements that are folded */

static double size_of(const work *w) { return (double)tide_dtype_size(w->t); }

/* Rows of n, one operand's begin one element in. */
static bool make_shifted(work *w, int64_t n) {
    const int64_t rows = BYTES / (n * (int64_t)tide_dtype_size(w->t));
    w->a = numbers(w->rt, w->t, rows ? rows : 1, n + 1);
    w->b = numbers(w->rt, w->t, rows ? rows : 1, n + 1);
    w->amount = (double)(rows ? rows : 1) * (double)(3 * n + 2) * size_of(w); /* lines are whole */
    return w->a && w->b;
}
#define SECTOR 32 /* bytes: the least that a GPU reads */

/* Rows of n, by indices of 8 bytes. */
static bool make_rows(work *w, int64_t n) {
    const int64_t row = n * (int64_t)tide_dtype_size(w->t);
    w->a = numbers(w->rt, w->t, TABLE / row, n);
    w->b = places(w->rt, BYTES / row, TABLE / row);
    w->amount = (double)(BYTES / row) * (double)(row + (row > SECTOR ? row : SECTOR) + 8);
    return w->a && w->b;
}
#define COLUMNS 1000
/* n of so many columns, by chance: some sectors of a row have several of them, some none. */
static bool make_columns(work *w, int64_t n) {
    const int64_t rows = BYTES / (n * (int64_t)tide_dtype_size(w->t)) / 8;
    const double sectors = COLUMNS * size_of(w) / SECTOR,
                 read = sectors * (1 - pow(1 - 1 / sectors, (double)n));
    w->axis = 1;
    w->a = numbers(w->rt, w->t, rows, COLUMNS);
    w->b = places(w->rt, n, COLUMNS);
    w->amount = (double)rows * (read * SECTOR + (double)n * size_of(w));
    return w->a && w->b;
}
/* Squares of rows and columns, n elements folded. */
static bool make_squares(work *w, int64_t n) {
    const int64_t side = (int64_t)sqrt((double)PAIRS / (double)n);
    return make_pairs(w, side, side, n);
}

typedef struct family {
    const char *name, *unit;
    tide_dtype t;
    bool (*make)(work *w, int64_t n);
    call_fn *call;
    int64_t lengths[9]; /* up to the first 0 */
} family;
static const family families[] = {
    {"views_f32",
     "GB/s",
     TIDE_F32,
     make_shifted,
     shifted,
     {3, 33, 100, 257, 1000, 4095, 65537, 33554433}},
    {"views_f64",
     "GB/s",
     TIDE_F64,
     make_shifted,
     shifted,
     {3, 33, 100, 257, 1000, 4095, 65537, 16777217}},
    {"views_f16",
     "GB/s",
     TIDE_F16,
     make_shifted,
     shifted,
     {3, 33, 100, 257, 1000, 4095, 65537, 67108865}},
    {"views_i8",
     "GB/s",
     TIDE_I8,
     make_shifted,
     shifted,
     {3, 33, 100, 257, 1000, 4095, 65537, 134217729}},
    {"take_f32", "GB/s", TIDE_F32, make_rows, take, {1, 3, 16, 64, 1000, 1001}},
    {"take_f64", "GB/s", TIDE_F64, make_rows, take, {1, 3, 16, 64, 1000, 1001}},
    {"take_f16", "GB/s", TIDE_F16, make_rows, take, {1, 3, 16, 64, 1000, 1001}},
    {"take_i8", "GB/s", TIDE_I8, make_rows, take, {1, 3, 16, 64, 1000, 1001}},
    {"take_columns_f32", "GB/s", TIDE_F32, make_columns, take, {64, 250, 1000, 1001}},
    {"pairs_f32", "G/s", TIDE_F32, make_squares, squares, {16, 64, 100, 256, 1024, 4096}},
    {"pairs_f64", "G/s", TIDE_F64, make_squares, squares, {16, 64, 100, 256, 1024, 4096}},
    {"pairs_f16", "G/s", TIDE_F16, make_squares, squares, {16, 64, 100, 256, 1024, 4096}},
};

static bool sweep(bench *b, const family *f) {
    double best = 0, worst = 0;
    for (size_t i = 0; i < TIDEI_COUNT(f->lengths) && f->lengths[i]; i++) {
        work w = {.rt = b->rt, .t = f->t};
        if (!f->make(&w, f->lengths[i])) return false;
        double us = median_of(&w, f->call, 3), each = w.amount / us / 1000;
        forget(&w);
        if (us < 0) return false;
        bench_note(b, each, f->unit, "%s_%lld", f->name, (long long)f->lengths[i]);
        if (each > best) best = each;
        if (i == 0 || each < worst) worst = each;
    }
    bench_note(b, worst / best, "", "%s_worst", f->name);
    return true;
}

int bench_layout_sweep(bench *b) {
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("these sizes are a GPU's");
    for (size_t i = 0; i < TIDEI_COUNT(families); i++)
        if (bench_wants_family(b, families[i].name) && !sweep(b, &families[i]))
            return bench_failed(families[i].name);
    return bench_done(b, "views_f32_worst");
}
