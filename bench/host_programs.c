/* host_programs.c: one side of the comparison with NumPy (host_numpy.py): the programs of
** examples/c/numpy on arrays so large that their time is no start-up's, in turns.
**
** Model. A turn is a program's name on standard input; its answer is a line of the program's result
** and of what it took, the device's work included: on the wall's clock, and of all processors. The
** program ends with its input. Nothing is freed by hand.
** What must stay true: each is what its page computes, with the sizes of host_numpy.py.
** Exit 0, 1 failed, 2 bad input. */
#include "examples/c/numpy/begin.h"
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __GNUC__ /* what a turn leaves on the stack, collections would find */
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE
#endif

static NOINLINE double black_scholes(tide_runtime *rt) {
    const char prices[] =
        "(s, k, r, v, t) -> let d1 = (log(s/k) + (r + v*v/2)*t) / (v*sqrt(t));"
        " let d2 = d1 - v*sqrt(t); let q = sqrt(0.5); let discounted = k*exp(-r*t);"
        " (0.5*(s*erfc(-d1*q) - discounted*erfc(-d2*q)),"
        "  0.5*(discounted*erfc(d2*q) - s*erfc(d1*q)))";
    double k = 100, r = 0.05, v = 0.2, t = 1;
    tide_array *s = tide_linspace(rt, TIDE_F64, 50, 150, 1000001, 1), *price[2];
    expect(tide_map_many(rt, price, 2, prices, s, k, r, v, t) == TIDE_OK, "prices");
    tide_array *off = tide_map(rt, "(c, p, s, k, r, t) -> max(abs(c - p - (s - k*exp(-r*t))))",
                               price[0], price[1], s, k, r, t);
    expect(tide_item_f64(off) < 1e-9, "calls less puts");
    return tide_item_f64(tide_slice(price[0], "500000"));
}

static NOINLINE double kmeans(tide_runtime *rt) {
    tide_rng rng = {.seed = 1};
    const int64_t n = 400000;
    tide_array *around =
        tide_from_host(rt, TIDE_F64, SHAPE(4, 2), (double[]){0, 0, 8, 0, 0, 8, 8, 8});
    tide_array *which = tide_rem(tide_arange(rt, TIDE_I64, 0, (double)n, 1),
                                 tide_full(rt, TIDE_I64, SHAPE(1), tide_arg_int(4)));
    tide_array *x =
        tide_add(tide_take(around, which, 0), tide_random_normal(rt, &rng, TIDE_F64, SHAPE(n, 2)));
    tide_array *centre = tide_slice(x, ":4");
    for (int i = 0; i < 10; i++) {
        tide_array *near =
            tide_map(rt, "(x, c) -> sum((x - c)**2, axis=2)", tide_expand_dims(x, 1), centre);
        centre = tide_segment_mean(x, tide_argmin(near, AXES(1), 0), 4, 0);
    }
    return tide_item_f64(tide_map(rt, "(c, t) -> max(abs(c - t))", centre, around));
}

static tide_array *rolled(tide_array *a, int64_t by, int axis) {
    return tide_roll(a, &by, &axis, 1);
}
static tide_array *three(tide_runtime *rt, tide_array *a, int axis) {
    return tide_map(rt, "(up, a, down) -> up + a + down", rolled(a, 1, axis), a,
                    rolled(a, -1, axis));
}
static NOINLINE double life(tide_runtime *rt) {
    const unsigned char glider[] = {0, 1, 0, 0, 0, 1, 1, 1, 1};
    tide_array *now = tide_zeros(rt, TIDE_U8, SHAPE(2048, 2048));
    expect(tide_assign(tide_slice(now, ":3, :3"),
                       tide_from_host(rt, TIDE_U8, SHAPE(3, 3), glider)) == TIDE_OK,
           "the glider");
    for (int i = 0; i < 32; i++)
        now = tide_map(rt, "(s, g) -> u8((s == 3) | ((s == 4) & (g == 1)))",
                       three(rt, three(rt, now, 0), 1), now);
    return tide_item_f64(tide_sum(now, NULL, 0, 0));
}

static NOINLINE double mandelbrot(tide_runtime *rt) {
    tide_array *x = tide_linspace(rt, TIDE_F64, -2, 0.5, 1000, 1);
    tide_array *y = tide_linspace(rt, TIDE_F64, -1.25, 1.25, 1000, 1);
    tide_array *c = tide_complex(x, tide_expand_dims(y, 1));
    tide_array *z = tide_zeros_like(c), *inside = tide_map(rt, "(z) -> abs(z) <= 2", z);
    for (int i = 0; i < 50; i++) {
        z = tide_map(rt, "(inside, z, c) -> where(inside, z*z + c, z)", inside, z, c);
        inside = tide_map(rt, "(z) -> abs(z) <= 2", z);
    }
    return tide_item_f64(tide_mean(inside, NULL, 0, 0)) * 2.5 * 2.5;
}

static NOINLINE double nearest(tide_runtime *rt) {
    static const char same_sign[] = "(x, y) -> x * y > 0";
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(4000, 2));
    tide_array *label = tide_map(rt, same_sign, tide_slice(x, ":, 0"), tide_slice(x, ":, 1"));
    tide_array *q = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(1000, 2));
    tide_array *d = tide_map(rt, "(q, x) -> sum((q - x)**2, axis=2)", tide_expand_dims(q, 1), x);
    tide_array *distances, *near;
    expect(tide_topk(d, 9, 1, 0, &distances, &near) == TIDE_OK, "the nearest");
    tide_array *vote =
        tide_map(rt, "(near) -> mean(near, axis=1) > 0.5", tide_take(label, near, 0));
    tide_array *truth = tide_map(rt, same_sign, tide_slice(q, ":, 0"), tide_slice(q, ":, 1"));
    return tide_item_f64(tide_mean(tide_eq(vote, truth), NULL, 0, 0));
}

static NOINLINE double pagerank(tide_runtime *rt) {
    enum { N = 100000, LINKS = 1000000 };
    tide_rng rng = {.seed = 1};
    tide_array *source = tide_random_integers(rt, &rng, TIDE_I64, SHAPE(LINKS), 0, N);
    tide_array *target = tide_random_integers(rt, &rng, TIDE_I64, SHAPE(LINKS), 0, N / 10);
    tide_array *out = tide_bincount(source, NULL, N);
    tide_array *rank = tide_full(rt, TIDE_F64, SHAPE(N), tide_arg_float(1.0 / N));
    for (int i = 0; i < 20; i++) {
        tide_array *share =
            tide_map(rt, "(rank, out) -> where(out > 0, rank / maximum(out, 1), 0)", rank, out);
        tide_array *lost = tide_map(rt, "(rank, out) -> sum(where(out == 0, rank, 0))", rank, out);
        tide_array *got = tide_segment_sum(tide_take(share, source, 0), target, N, 0);
        rank = tide_map(rt, "(got, lost, n) -> 0.15/n + 0.85*(got + lost/n)", got, lost, (double)N);
    }
    double least = tide_item_f64(tide_min(tide_slicef(rank, ":%d", N / 10), NULL, 0, 0));
    double most = tide_item_f64(tide_max(tide_slicef(rank, "%d:", N / 10), NULL, 0, 0));
    expect(least > most, "who is linked to ranks before who is not");
    return tide_item_f64(tide_sum(rank, NULL, 0, 0));
}

static NOINLINE double quantiles(tide_runtime *rt) {
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(4000000));
    tide_arg at = tide_arg_array(tide_linspace(rt, TIDE_F64, 0.25, 0.75, 3, 1));
    tide_array *counts, *edges;
    int64_t n[20];
    double e[21], q[3];
    expect(tide_histogram(x, 20, -4, 4, &counts, &edges) == TIDE_OK &&
               tide_to_host(counts, n, sizeof n) == TIDE_OK &&
               tide_to_host(edges, e, sizeof e) == TIDE_OK,
           "the histogram");
    expect(tide_to_host(tide_quantile(x, at, NULL, 0, 0), q, sizeof q) == TIDE_OK, "the quartiles");
    return q[2] - q[0];
}

static NOINLINE double runs(tide_runtime *rt) {
    enum { EACH = 400000, N = 10 * EACH };
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_mul(tide_random_integers(rt, &rng, TIDE_I64, SHAPE(N), 0, 2),
                             tide_repeat(tide_arange(rt, TIDE_I64, 0, 10, 1), EACH, 0));
    tide_array *first = tide_zeros(rt, TIDE_I64, SHAPE(1)), *before;
    expect(tide_nonzero(tide_diff(x, 1, 0), &before, 1) == TIDE_OK, "where runs end");
    tide_array *last = tide_full(rt, TIDE_I64, SHAPE(1), tide_arg_int(N));
    tide_array *edges =
        tide_concat((tide_array *[]){first, tide_map(rt, "(i) -> i + 1", before), last}, 3, 0);
    tide_array *values = tide_take(x, tide_slice(edges, ":-1"), 0);
    tide_array *same = tide_eq(tide_repeat_each(values, tide_diff(edges, 1, 0), 0), x);
    expect(tide_item_f64(tide_all(same, NULL, 0, 0)) == 1, "there and back");
    return (double)tide_array_size(values);
}

static const struct program {
    const char *name;
    double (*run)(tide_runtime *rt);
} programs[] = {
    {"black_scholes", black_scholes}, {"kmeans", kmeans},   {"life", life},
    {"mandelbrot", mandelbrot},       {"nearest", nearest}, {"pagerank", pagerank},
    {"quantiles", quantiles},         {"runs", runs},
};

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void turn(tide_runtime *rt, const struct program *p) {
    uint64_t wall = now_ns(CLOCK_MONOTONIC), processor = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    double result = p->run(rt);
    expect(tide_synchronize(rt, NULL) == TIDE_OK, p->name);
    wall = now_ns(CLOCK_MONOTONIC) - wall;
    processor = now_ns(CLOCK_PROCESS_CPUTIME_ID) - processor;
    printf("%.17g %llu %llu\n", result, (unsigned long long)wall, (unsigned long long)processor);
    fflush(stdout);
}

static const struct program *program_named(const char *line) {
    size_t n = strcspn(line, "\n");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strlen(programs[i].name) == n && !strncmp(programs[i].name, line, n))
            return &programs[i];
    return NULL;
}

int main(void) {
    char line[64];
    tide_runtime *rt = begin();
    while (fgets(line, sizeof line, stdin)) {
        const struct program *p = program_named(line);
        if (!p) return fprintf(stderr, "host-programs: there is no program %s", line), 2;
        turn(rt, p);
    }
    return end(rt);
}
