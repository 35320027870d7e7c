/* tide_bench.c: tide-bench NAME [OPTION VALUE...] [--json]: one benchmark, its figures, and a last
** line "figure VALUE" that bench/bars.txt holds against a bar (--figure names another one of them).
** With --json: all figures in one object. Exit 0, 1 failed, 2 bad input, 77 skipped. */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

static const struct {
    const char *name;
    int (*run)(bench *b);
    const char *what;
} benches[] = {
    {"dispatch", bench_dispatch, "issuing a small tide_add, against a bare launch (cuda)"},
    {"quiet", bench_quiet,
     "what the machine adds to steps that call nothing: the floor under any worst step"},
    {"fused", bench_fused,
     "sqrt(a*a+b*b)*c+a on 2^28 floats, against a device-to-device copy; bytes read plus written"},
    {"sum", bench_sum, "the sum of 16384 x 16384 floats, against the same copy"},
    {"sum0", bench_sum0, "the same over axis 0"},
    {"sum1", bench_sum1, "the same over axis 1"},
    {"transpose", bench_transpose,
     "a contiguous transpose of 8192 x 8192 floats, against the same copy"},
    {"matmul", bench_matmul, "a product of 8192 x 8192 floats, against cuBLAS called directly"},
    {"gemm-small", bench_gemm_small,
     "what the host spends on a product of 32 x 32 floats beyond cuBLAS called directly (--size: "
     "n)"},
    {"layer", bench_layer,
     "relu(x w + b) by tide_linear, against a product and a pass over it (cuda)"},
    {"host-fused", bench_host_fused,
     "the chain on 2^24 floats on the host, against gcc -O3 (bench/loop.c)"},
    {"host-sum0", bench_host_sum0,
     "the sum of 4096 x 4096 floats on the host, against memcpy's bandwidth"},
    {"host-sum1", bench_host_sum1, "the same over axis 1"},
    {"pair", bench_pair,
     "B1: taking and giving back one block, by size (--level pool, storage, array)"},
    {"random", bench_random,
     "B2: a random live set, by the rules of RMM's RANDOM_ALLOCATIONS (--n, --max)"},
    {"holes", bench_holes, "B3: pairs while thousands of holes lie free"},
    {"threads", bench_threads,
     "B4: pairs by many threads; blocks that another thread gives back (--threads)"},
    {"trace", bench_trace,
     "B5: the recorded traces: time an event, memory reserved over live (--traces DIR)"},
    {"frontier", bench_frontier, "B6: how little memory the traces need, with pinned blocks too"},
    {"breaker", bench_breaker,
     "B6: a quarter of the limit in one piece, when every second small block is free"},
    {"pipeline", bench_pipeline,
     "B7: streams passing buffers on, one more than streams; against static buffers"},
    {"handover", bench_handover, "what it costs the host that an array goes from stream to stream"},
    {"batches", bench_batches,
     "how much of the upload of batches hides behind work on the one before (--size: of a batch)"},
    {"peer", bench_peer,
     "an array copied to another device, against the driver (--size; --staged: through the host)"},
    {"factor", bench_factor,
     "LU of 4096 and 8192 squared, an SVD of 2048 squared, against cuSOLVER called directly"},
    {"factor-small", bench_factor_small,
     "issuing the LU and the SVD of 32 x 32 floats, against the same"},
    {"first-use", bench_first_use,
     "the first and the second call of each library, and what its handle takes"},
    {"hoard", bench_hoard,
     "8 threads with 4 streams use all libraries and are pending: what stays in use"},
    {"workspace", bench_workspace,
     "the workspace of an SVD of 8192 squared (--n), and what is left of it"},
    {"rungs", bench_rungs, "what each rung of the reclaim ladder gives, and the time it takes"},
    {"move", bench_move, "the speed at which blocks of 64 KiB are moved to make room"},
    {"debug", bench_debug,
     "small operations with TIDE_DEBUG=sample:1000, against the same without"},
    {"scans", bench_scans,
     "running sums, nonzero and masks, against a copy: how much of its bandwidth (--n: elements)"},
    {"stress", bench_stress,
     "threads near the limit: failed allocations that arithmetic did not force (--n: steps; "
     "--threads)"},
    {"operations", bench_operations,
     "scans, sorts, selections, scatters: microseconds of each (cuda)"},
    {"rows", bench_rows,
     "softmax, logsumexp, norms and argmax of 8192 x 4096 floats, microseconds of each; issuing a "
     "small softmax (cuda)"},
    {"sweep", bench_sweep,
     "bandwidth of folds over axes of 7 to 2^25 elements, and what hangs on them; worst over best "
     "(cuda)"},
    {"layouts", bench_layouts,
     "distances of all pairs, a stencil, random numbers, rows taken: microseconds of each (cuda)"},
    {"layout-sweep", bench_layout_sweep,
     "shifted views, taken rows and columns, folds of pairs over lengths and types: bandwidth, "
     "worst over best (cuda)"},
    {"upload", bench_upload,
     "arrays from memory that is not pinned and back, against the driver's copies (cuda)"},
    {"scalar", bench_scalar,
     "B12: the host reads elements of unified and pinned arrays, against a plain pointer"},
};

static int usage(void) {
    fprintf(stderr, "usage: tide-bench NAME [--device D] [--size BYTES] [--max BYTES] [--held "
                    "BYTES] [--threads N] [--n N]\n"
                    "                  [--rounds N] [--level pool|storage|array] [--traces DIR] "
                    "[--figure NAME]\n"
                    "                  [--staged] [--json]\n");
    for (size_t i = 0; i < TIDEI_COUNT(benches); i++)
        fprintf(stderr, "  %-12s %s\n", benches[i].name, benches[i].what);
    return 2;
}

/* ---- the runtime ---- */

/* Pages that nobody writes are numbers. Well below the address space; what TIDE_HOST_DEVICE_MEMORY
** says wins. */
#define UNTOUCHED_HOST "256GiB"

bool bench_open(bench *b, const char *collector, const char *limit, bool untouched) {
    tide_config c = {.struct_size = sizeof c,
                     .device = b->device,
                     .collector = collector,
                     .policy = collector ? "never" : NULL,
                     .limit = limit,
                     .peers = b->staged ? "none" : NULL,
                     .host_device_memory =
                         untouched && !getenv("TIDE_HOST_DEVICE_MEMORY") ? UNTOUCHED_HOST : NULL};
    if (tide_open(&c, &b->rt) != TIDE_OK) return false;
    b->d = &tidei_runtime_of(b->rt)->devs[0];
    return true;
}

void bench_close(bench *b) {
    tide_close(b->rt);
    b->rt = NULL;
    b->d = NULL;
}

bool bench_on_cuda(const bench *b) { return b->d->d->info.flags & TIDEI_DEV_RUNS_TEXT; }

tide_array *bench_normal(tide_runtime *rt, tide_rng *rng, tide_dtype t, int ndim,
                         const int64_t *shape) {
    const bool drawn = t == TIDE_F32 || t == TIDE_F64;
    tide_array *x = tide_random_normal(rt, rng, drawn ? t : TIDE_F32, ndim, shape);
    if (drawn || !x) return x;
    tide_array *out = tide_cast(x, t);
    tide_free(x);
    return out;
}

/* ---- the command ---- */

static bool option(bench *b, const char *flag, const char *text) {
    const struct {
        const char *flag, **out;
    } texts[] = {{"--device", &b->device},
                 {"--level", &b->level},
                 {"--traces", &b->traces},
                 {"--figure", &b->chosen}};
    const struct {
        const char *flag;
        size_t *out;
    } counts[] = {{"--size", &b->size}, {"--max", &b->max},   {"--threads", &b->threads},
                  {"--n", &b->n},       {"--held", &b->held}, {"--rounds", &b->rounds}};
    for (size_t i = 0; i < TIDEI_COUNT(texts); i++)
        if (!strcmp(flag, texts[i].flag)) return *texts[i].out = text, true;
    for (size_t i = 0; i < TIDEI_COUNT(counts); i++)
        if (!strcmp(flag, counts[i].flag))
            return tidei_parse_bytes(text, 0, counts[i].out) && *counts[i].out;
    return false;
}

int main(int argc, char **argv) {
    bench b = {.name = argc > 1 ? argv[1] : ""};
    size_t which = 0;
    while (which < TIDEI_COUNT(benches) && strcmp(benches[which].name, b.name)) which++;
    if (which == TIDEI_COUNT(benches)) return usage();
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            b.json = true;
        else if (!strcmp(argv[i], "--staged"))
            b.staged = true;
        else if (i + 1 == argc || !option(&b, argv[i], argv[i + 1]))
            return usage();
        else
            i++;
    }
    int status = benches[which].run(&b);
    if (status == 0) {
        char device[160];
        tide_device_text(b.rt, device, sizeof device);
        *strchrnul(device, ';') = 0;
        status = bench_show(&b, device, b.d->pool->ops->name);
    }
    bench_close(&b);
    return status;
}
