/* bench.h: what the benchmarks share: their options, their figures, and the timing of rounds.
**
** A benchmark opens its runtime, takes turns between what it compares, and notes its figures by
** name; the program shows them as a table and a last line "figure VALUE", or as one JSON object. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "bench/workload.h"
#include "runtime/runtime.h"
#include <tide/random.h>

#define BENCH_ROUNDS  21
#define BENCH_FIGURES 160
#define BENCH_SKIPPED 77

typedef struct bench_figure {
    char name[48];
    const char *unit; /* static */
    double value;
} bench_figure;

typedef struct bench {
    /* options; 0 or NULL: the benchmark's default */
    const char *name, *device, *level, *traces, *chosen;
    size_t size, max, threads, n, rounds, held;
    bool json, staged;
    /* the open runtime, and its device */
    tide_runtime *rt;
    tidei_dev *d;
    /* the figures so far */
    unsigned figures;
    bench_figure figure[BENCH_FIGURES];
    const char *bar; /* the name of the one that a bar is for, unless the user chose another */
} bench;

/* Opens the runtime. `limit` as tide_config has it. With `untouched` memory is never written: a
** host device may then be as large as GPUs are. `collector` NULL: as a program has it. */
bool bench_open(bench *b, const char *collector, const char *limit, bool untouched);
void bench_close(bench *b); /* also where nothing is open */
bool bench_on_cuda(const bench *b);
/* Normal numbers of any floating-point type; those of two bytes are converted. NULL on failure. */
tide_array *bench_normal(tide_runtime *rt, tide_rng *rng, tide_dtype t, int ndim,
                         const int64_t *shape);

__attribute__((format(printf, 4, 5))) void bench_note(bench *b, double value, const char *unit,
                                                      const char *name, ...);
/* Of sweeps: whether the figure wanted is one of this family: "family_LENGTH", "family_worst". */
bool bench_wants_family(const bench *b, const char *family);
/* The figures noted so far are the result, and this is the one that a bar is for. Returns the exit
** status. */
int bench_done(bench *b, const char *bar);
/* Shows what was noted. Returns the exit status. */
int bench_show(const bench *b, const char *device, const char *pool);
int bench_failed(const char *what); /* with the error that stands */
int bench_skipped(const char *why);

double bench_median(double *v, size_t n); /* sorts */
double bench_quantile(double *v, size_t n, double q);

static inline size_t bench_or(size_t given, size_t otherwise) { return given ? given : otherwise; }

/* ---- the pool's table, without what a storage adds ---- */

static inline tide_status bench_take(bench *b, size_t bytes, tidei_stream *s, tidei_block *out) {
    return b->d->pool->ops->alloc(b->d->pool, bytes, s, 0, out);
}
/* A block as a program gives it back: `s` used it last, at its last tick. */
static inline void bench_give(bench *b, tidei_block *x) { b->d->pool->ops->free(b->d->pool, x); }

/* The benchmarks (bench/tide_bench.c lists them). Each returns an exit status. */
int bench_dispatch(bench *b), bench_quiet(bench *b), bench_fused(bench *b), bench_sum(bench *b),
    bench_sum0(bench *b), bench_sum1(bench *b), bench_transpose(bench *b), bench_matmul(bench *b),
    bench_gemm_small(bench *b), bench_host_fused(bench *b), bench_host_sum0(bench *b),
    bench_host_sum1(bench *b);
int bench_pair(bench *b), bench_random(bench *b), bench_holes(bench *b), bench_threads(bench *b),
    bench_trace(bench *b), bench_frontier(bench *b), bench_breaker(bench *b),
    bench_pipeline(bench *b), bench_move(bench *b), bench_handover(bench *b),
    bench_batches(bench *b), bench_debug(bench *b), bench_scalar(bench *b), bench_peer(bench *b),
    bench_stress(bench *b), bench_operations(bench *b), bench_rows(bench *b), bench_sweep(bench *b),
    bench_upload(bench *b), bench_layer(bench *b), bench_graph(bench *b);
int bench_factor(bench *b), bench_factor_small(bench *b), bench_first_use(bench *b),
    bench_hoard(bench *b), bench_workspace(bench *b), bench_rungs(bench *b), bench_scans(bench *b);
int bench_layouts(bench *b), bench_layout_sweep(bench *b);

#endif
