/* debug.c: what sampling costs: a program that makes many small arrays, with TIDE_DEBUG=sample:1000
** and without, in turns.
**
** Each has a runtime of its own, and both are open all the time; their rounds are short and take
** turns, so that both see the same processor clock. A round has a whole number of samples, and each
** is compared with its neighbour: so what a sample costs is in the figure, which is the median of
** these ratios. Beside the small operations: bare pairs of an allocation and its release, where the
** tracker's part is as large as it can be. */
#include "bench/bench.h"
#include <tide/tide.h>
#include <time.h>

#define ROUNDS 301
#define STEPS  2000 /* a round: of three allocations each, so that six are sampled */
#define PAIRS  4000 /* a round: four are sampled */
#define SAMPLE 1000
_Static_assert(3 * STEPS % SAMPLE == 0 && PAIRS % SAMPLE == 0, "every round has as many samples");
#define ROUNDS_MOST 1000

struct side {
    tide_runtime *rt;
    tide_array *x, *w;
};

static bool make_operands(struct side *s) {
    const int64_t shape[] = {32, 32};
    s->x = tide_ones(s->rt, TIDE_F32, 2, shape);
    s->w = tide_ones(s->rt, TIDE_F32, 2, shape);
    return s->x && s->w;
}

/* As a layer does: temporaries that die at once, and the next one's operand. */
static bool step(const struct side *s) {
    tide_array *sum = tide_add(s->x, s->w), *product = sum ? tide_mul(sum, s->x) : NULL;
    tide_array *out = product ? tide_tanh(product) : NULL;
    bool done = out != NULL;
    tide_release(sum);
    tide_release(product);
    tide_release(out);
    return done;
}

static bool steps(const struct side *s) {
    for (int i = 0; i < STEPS; i++)
        if (!step(s)) return false;
    return true;
}

static bool pairs(const struct side *s) {
    const int64_t shape[] = {32, 32};
    for (int i = 0; i < PAIRS; i++) {
        tide_array *a = tide_empty(s->rt, TIDE_F32, 2, shape);
        if (!a) return false;
        tide_release(a);
    }
    return true;
}

/* What the calling thread has worked, whatever else the machine does: sampling costs that thread
** alone. */
static uint64_t worked_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Of a round's time with sampling to one without: the median over rounds in turn; < 0: it
** failed. */
static double ratio_of(const struct side side[2], bool (*fn)(const struct side *s), size_t rounds) {
    double ratio[ROUNDS_MOST];
    if (!fn(&side[0]) || !fn(&side[1])) return -1;
    for (size_t r = 0; r < rounds; r++) {
        double ns[2];
        for (unsigned k = 0; k < 2; k++) {
            unsigned which = (r + k) % 2; /* who comes first changes */
            uint64_t start = worked_ns();
            if (!fn(&side[which])) return -1;
            ns[which] = (double)(worked_ns() - start);
            if (tide_synchronize(side[which].rt, NULL) != TIDE_OK) return -1;
        }
        ratio[r] = ns[1] / ns[0];
    }
    return bench_median(ratio, rounds);
}

int bench_debug(bench *b) {
    const tide_config sampled = {.struct_size = sizeof sampled,
                                 .device = b->device,
                                 .collector = "refcount",
                                 .policy = "never",
                                 .debug_sample = SAMPLE};
    struct side side[2] = {{0}};
    size_t rounds = tidei_min_size(bench_or(b->rounds, ROUNDS), ROUNDS_MOST);
    double small = -1, bare = -1;
    if (!bench_open(b, "refcount", NULL, false)) return bench_failed("tide_open");
    side[0].rt = b->rt;
    if (tide_open(&sampled, &side[1].rt) != TIDE_OK) return bench_failed("tide_open with sampling");
    if (make_operands(&side[0]) && make_operands(&side[1])) small = ratio_of(side, steps, rounds);
    if (small >= 0) bare = ratio_of(side, pairs, rounds);
    int status = bare < 0 ? bench_failed("rounds in turn") : 0;
    tide_close(side[1].rt);
    if (status) return status;
    bench_note(b, bare, "", "pairs");
    bench_note(b, small, "", "steps");
    return bench_done(b, "steps");
}
