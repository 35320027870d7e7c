/* scalar.c: B12: the host reads elements one after another: through a view of an array in unified
** and in pinned memory, begin and end counted in, against a plain pointer to malloc'ed memory; and
** what one tide_array_get takes.
**
** The sum is a chain of additions, as a fold is that somebody brings over unchanged. What is
** compared takes turns. */
#include "bench/bench.h"
#include <stdlib.h>
#include <tide/tide.h>

#define ELEMENTS 1024 /* each way */

static double plain_sum(const float *p) {
    float sum = 0;
    for (int64_t i = 0; i < ELEMENTS; i++)
        for (int64_t k = 0; k < ELEMENTS; k++) sum += p[i * ELEMENTS + k];
    return (double)sum;
}

static double view_sum(tide_array *a) {
    tide_host_view v;
    float sum = 0;
    if (tide_host_view_begin(a, TIDE_READ, &v) != TIDE_OK) return -1;
    for (int64_t i = 0; i < v.shape[0]; i++)
        for (int64_t k = 0; k < v.shape[1]; k++) sum += TIDE_AT(float, &v, i, k);
    return tide_host_view_end(&v) == TIDE_OK ? (double)sum : -1;
}

/* Time an element, ns; -1: the sum was wrong. */
static double timed(double (*sum)(const void *), const void *x) {
    uint64_t t0 = tidei_now_ns();
    double got = sum(x);
    uint64_t t1 = tidei_now_ns();
    return got == ELEMENTS * ELEMENTS ? (double)(t1 - t0) / (ELEMENTS * ELEMENTS) : -1;
}
static double sum_plain(const void *x) { return plain_sum(x); }
static double sum_view(const void *x) { return view_sum((tide_array *)(uintptr_t)x); }

static double get_ns(tide_array *a) {
    enum { GETS = 20000 };
    tide_arg item;
    uint64_t t0 = tidei_now_ns();
    for (int i = 0; i < GETS; i++)
        if (tide_array_get(a, (const int64_t[]){i % ELEMENTS, 1}, &item) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - t0) / GETS;
}

int bench_scalar(bench *b) {
    static const struct {
        tide_memory kind;
        const char *name;
    } kinds[] = {{TIDE_MEMORY_UNIFIED, "unified"}, {TIDE_MEMORY_PINNED, "pinned"}};
    double plain[BENCH_ROUNDS], view[BENCH_ROUNDS], get[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    float *p = malloc(sizeof *p * ELEMENTS * ELEMENTS);
    if (!p) return bench_failed("malloc");
    for (size_t i = 0; i < (size_t)ELEMENTS * ELEMENTS; i++) p[i] = 1;
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++) {
        tide_array *a =
            tide_empty_in(b->rt, kinds[k].kind, TIDE_F32, 2, (const int64_t[]){ELEMENTS, ELEMENTS});
        /* the pages are here now */
        bool ok = a && tide_fill(a, tide_arg_int(1)) == TIDE_OK && view_sum(a) > 0;
        for (int r = 0; r < BENCH_ROUNDS && ok; r++) {
            plain[r] = timed(sum_plain, p);
            view[r] = timed(sum_view, a);
            get[r] = get_ns(a);
            ratio[r] = view[r] / plain[r];
            ok = plain[r] > 0 && view[r] > 0 && get[r] > 0;
        }
        if (!ok) {
            free(p);
            return bench_failed(kinds[k].name);
        }
        bench_note(b, bench_median(plain, BENCH_ROUNDS), "ns", "%s_pointer", kinds[k].name);
        bench_note(b, bench_median(view, BENCH_ROUNDS), "ns", "%s_view", kinds[k].name);
        bench_note(b, bench_median(get, BENCH_ROUNDS), "ns", "%s_get", kinds[k].name);
        bench_note(b, bench_median(ratio, BENCH_ROUNDS), "", "%s_ratio", kinds[k].name);
        tide_free(a);
    }
    free(p);
    return bench_done(b, "unified_ratio");
}
