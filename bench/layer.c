/* layer.c: a layer of a network, relu(x w + b), as one call, against a product and a pass over it.
** What is compared takes turns. */
#include "bench/bench.h"
#include <tide/tide.h>

#define ROUNDS BENCH_ROUNDS
#define CALLS  10 /* a round */

typedef struct layer {
    tide_runtime *rt;
    tide_array *x, *w, *bias;
} layer;

static tide_array *one_call(const layer *l) { return tide_linear(l->x, l->w, l->bias, TIDE_RELU); }
static tide_array *two_passes(const layer *l) {
    tide_array *product = tide_matmul(l->x, l->w);
    tide_array *out = tide_map(l->rt, "(c, b) -> maximum(c + b, 0)", product, l->bias);
    tide_free(product);
    return out;
}

/* Microseconds of a call; negative where it fails. */
static double timed(const layer *l, tide_array *(*call)(const layer *l)) {
    if (tide_synchronize(l->rt, NULL) != TIDE_OK) return -1;
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < CALLS; i++) {
        tide_array *out = call(l);
        if (!out) return -1;
        tide_free(out);
    }
    if (tide_synchronize(l->rt, NULL) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start) / 1000 / CALLS;
}

static bool measure(bench *b, tide_dtype t, int64_t m, int64_t k, int64_t n) {
    tide_rng rng = {.seed = 7};
    double one[ROUNDS], two[ROUNDS], ratio[ROUNDS];
    layer l = {b->rt, bench_normal(b->rt, &rng, t, 2, (const int64_t[]){m, k}),
               bench_normal(b->rt, &rng, t, 2, (const int64_t[]){k, n}),
               bench_normal(b->rt, &rng, t, 1, &n)};
    for (int r = -1; r < ROUNDS; r++) { /* the first one loads and compiles */
        double o = timed(&l, one_call), w = timed(&l, two_passes);
        if (o < 0 || w < 0) return false;
        if (r >= 0) one[r] = o, two[r] = w, ratio[r] = o / w;
    }
    const char *name = tide_dtype_name(t);
    bench_note(b, bench_median(one, ROUNDS), "us", "linear_%s", name);
    bench_note(b, bench_median(two, ROUNDS), "us", "matmul_and_map_%s", name);
    bench_note(b, bench_median(ratio, ROUNDS), "", "ratio_%s", name);
    tide_free(l.x), tide_free(l.w), tide_free(l.bias);
    return true;
}

int bench_layer(bench *b) {
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("cuBLASLt wants cuda");
    if (!measure(b, TIDE_BF16, 8192, 1024, 4096) || !measure(b, TIDE_F32, 1024, 1024, 1024) ||
        !measure(b, TIDE_F16, 64, 64, 64))
        return bench_failed("tide_linear");
    return bench_done(b, "ratio_bf16");
}
