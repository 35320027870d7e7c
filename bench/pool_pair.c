/* pool_pair.c: B1: taking one block and giving it back, again and again, on one stream.
**
** At level `pool` through the pool's table alone; `storage` adds the record with the history;
** `array` the handle and the cell. A large block is held meanwhile: what the caches of pool tide
** may hold is a part of what is backed. */
#include "bench/bench.h"
#include <stdio.h>
#include <tide/tide.h>

#define PAIRS      100000
#define CACHE_PART 256 /* blocks up to this part of what is backed are cached by pool tide */

typedef bool pairs_fn(bench *b, tidei_stream *s, size_t bytes, size_t n);

static bool pool_pairs(bench *b, tidei_stream *s, size_t bytes, size_t n) {
    tidei_block x;
    for (size_t i = 0; i < n; i++) {
        if (bench_take(b, bytes, s, &x) != TIDE_OK) return false;
        bench_give(b, &x);
    }
    return true;
}

static bool storage_pairs(bench *b, tidei_stream *s, size_t bytes, size_t n) {
    tidei_storage *st;
    for (size_t i = 0; i < n; i++) {
        if (tidei_storage_new(b->d, bytes, s, "bench", &st) != TIDE_OK) return false;
        tidei_storage_release(st);
    }
    return true;
}

static bool array_pairs(bench *b, tidei_stream *s, size_t bytes, size_t n) {
    const int64_t shape = (int64_t)bytes;
    (void)s;
    for (size_t i = 0; i < n; i++) {
        tide_array *a = tide_empty(b->rt, TIDE_U8, 1, &shape);
        if (!a) return false;
        tide_release(a);
    }
    return true;
}

static pairs_fn *pairs_at(const char *level) {
    if (!level || !strcmp(level, "pool")) return pool_pairs;
    if (!strcmp(level, "storage")) return storage_pairs;
    return strcmp(level, "array") ? NULL : array_pairs;
}

static const struct {
    size_t bytes;
    const char *name;
} sizes[] = {{256, "256B"},       {4 * TIDEI_KIB, "4KiB"},   {64 * TIDEI_KIB, "64KiB"},
             {TIDEI_MIB, "1MiB"}, {16 * TIDEI_MIB, "16MiB"}, {256 * TIDEI_MIB, "256MiB"},
             {TIDEI_GIB, "1GiB"}};

/* The median of the rounds, in nanoseconds a pair; < 0: it failed. */
static double time_pairs(bench *b, pairs_fn *pairs, size_t bytes) {
    double ns[1000];
    size_t n = bench_or(b->n, PAIRS),
           rounds = tidei_min_size(bench_or(b->rounds, BENCH_ROUNDS), TIDEI_COUNT(ns));
    if (!pairs(b, b->d->stream0, bytes, 1)) return -1; /* grows */
    for (size_t r = 0; r < rounds; r++) {
        uint64_t start = tidei_now_ns();
        if (!pairs(b, b->d->stream0, bytes, n)) return -1;
        ns[r] = (double)(tidei_now_ns() - start) / (double)n;
    }
    return bench_median(ns, rounds);
}

/* All sizes, the slowest of those that caches hold, and of the others. */
static int all_sizes(bench *b, pairs_fn *pairs) {
    double cached = 0, above = 0;
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        double ns = time_pairs(b, pairs, sizes[i].bytes);
        if (ns < 0) return bench_failed("pairs");
        double *worst =
            sizes[i].bytes <= atomic_load(&b->d->budget->backed) / CACHE_PART ? &cached : &above;
        if (ns > *worst) *worst = ns;
        bench_note(b, ns, "ns", "%s", sizes[i].name);
    }
    bench_note(b, cached, "ns", "cached");
    bench_note(b, above, "ns", "above");
    return bench_done(b, "cached");
}

int bench_pair(bench *b) {
    pairs_fn *pairs = pairs_at(b->level);
    tidei_block held;
    if (!pairs) {
        fprintf(stderr, "tide-bench: --level wants pool, storage or array, not '%s'\n", b->level);
        return 2;
    }
    if (!bench_open(b, "refcount", NULL, true)) return bench_failed("tide_open");
    if (bench_take(b, bench_or(b->held, 16 * TIDEI_GIB), b->d->stream0, &held) != TIDE_OK)
        return bench_failed("the block that is held (--held)");
    int status = 0;
    if (b->size) {
        double ns = time_pairs(b, pairs, b->size);
        status = ns < 0 ? bench_failed("pairs") : bench_done(b, "pair");
        bench_note(b, ns, "ns", "pair");
    } else {
        status = all_sizes(b, pairs);
    }
    bench_give(b, &held);
    return status;
}
