/* batches.c: how much of the upload of batches is hidden behind work on the batch before.
**
** Three loops over the same batches, in turn: got and not used; used but not got (one batch that
** stays); got and used. The work is repeated until it takes about as long as the upload, since only
** then both could be hidden, and all the waiting of one for the other shows: (upload + work - both)
** / min(upload, work). What the upload takes, the copy into pinned memory by this thread included,
** is for whoever measures the machine: here it is one side of a ratio. */
#include "arrays/arrays.h"
#include "bench/bench.h"
#include <stdlib.h>
#include <tide/tide.h>

#define SAMPLE     (64 * TIDEI_KIB) /* bytes */
#define CUDA_BATCH (64 * TIDEI_MIB)
#define HOST_BATCH (4 * TIDEI_MIB)
#define DATA       8 /* batches in memory: more than the processor's caches hold on cuda */
/* an epoch: the first two uploads and the last work have nothing beside them */
#define BATCHES     96
#define ROUNDS      7
#define REPEATS_MAX 4096

/* One step of work: on a GPU some hundred operations an element, so that launches take none of the
** host's time to speak of. */
#define SIN4(x) "sin(sin(sin(sin(" x "))))"
static const char cuda_step[] = "(x) -> " SIN4(SIN4(SIN4(SIN4("x"))));
static const char host_step[] = "(x) -> sqrt(x*x + 1)";

struct epoch {
    bench *b;
    tide_batches *batches;
    tide_array *stays, *out;
    tide_expr *step;
    int repeats;
};

/* out = step(step(... step(x))) */
static bool work(struct epoch *e, tide_array *x) {
    for (int i = 0; i < e->repeats; i++) {
        tide_arg a = tide_arg_array(i ? e->out : x);
        if (tide_expr_apply_into(&e->out, 1, e->step, &a, 1) != TIDE_OK) return false;
    }
    return true;
}

/* Seconds of an epoch; negative: it failed. */
static double epoch(struct epoch *e, bool get, bool use) {
    tide_data batch = {.array = e->stays};
    if (get) tide_batches_rewind(e->batches);
    if (tide_device_synchronize(e->b->rt) != TIDE_OK) return -1;
    uint64_t start = tidei_now_ns();
    for (int i = 0; i < BATCHES; i++) {
        if (get && tide_batches_next(e->batches, &batch) != TIDE_OK) return -1;
        if (use && !work(e, batch.array)) return -1;
    }
    if (tide_device_synchronize(e->b->rt) != TIDE_OK) return -1;
    return (double)(tidei_now_ns() - start) * 1e-9;
}

static bool open_epoch(struct epoch *e, float *data, int64_t *order, size_t bytes) {
    tide_runtime *rt = e->b->rt;
    int64_t width = (int64_t)(SAMPLE / sizeof(float)), samples = (int64_t)(bytes / SAMPLE);
    int64_t shape[] = {samples, width};
    for (int64_t i = 0; i < DATA * samples * width; i++) data[i] = (float)(i % 1000) * 1e-3f;
    for (int64_t i = 0; i < BATCHES * samples; i++) order[i] = i % (DATA * samples);
    tide_data all = tide_data_host(TIDE_F32, 2, (int64_t[]){DATA * samples, width}, data);
    tide_batches_config c = {.struct_size = sizeof c,
                             .arrays = &all,
                             .narrays = 1,
                             .batch = samples,
                             .order = order,
                             .norder = BATCHES * samples};
    e->stays = tide_ones(rt, TIDE_F32, 2, shape);
    e->out = tide_ones(rt, TIDE_F32, 2, shape);
    e->step = tide_expr_new(rt, bench_on_cuda(e->b) ? cuda_step : host_step);
    return e->stays && e->out && e->step && tide_batches_new(rt, &c, &e->batches) == TIDE_OK;
}

/* As much work as upload, as near as whole steps come. */
static bool calibrate(struct epoch *e) {
    e->repeats = 1;
    if (epoch(e, true, true) < 0) return false; /* kernels are compiled, memory is backed */
    double copy = epoch(e, true, false), once = epoch(e, false, true);
    if (copy < 0 || once < 0) return false;
    double repeats = copy / once + 0.5;
    e->repeats = repeats < 1 ? 1 : repeats > REPEATS_MAX ? REPEATS_MAX : (int)repeats;
    return true;
}

static int run(struct epoch *e, size_t bytes) {
    double copy[ROUNDS], compute[ROUNDS], both[ROUNDS], overlap[ROUNDS];
    tide_runtime_figures before = {.struct_size = sizeof before}, after = before;
    uint64_t waits = 0, climbs = 0;
    if (!calibrate(e)) return bench_failed("batches");
    for (int r = 0; r < ROUNDS; r++) {
        copy[r] = epoch(e, true, false);
        compute[r] = epoch(e, false, true);
        if (tide_runtime_info(e->b->rt, &before) != TIDE_OK)
            return bench_failed("tide_runtime_info");
        both[r] = epoch(e, true, true);
        if (tide_runtime_info(e->b->rt, &after) != TIDE_OK)
            return bench_failed("tide_runtime_info");
        if (copy[r] < 0 || compute[r] < 0 || both[r] < 0) return bench_failed("batches");
        double least = copy[r] < compute[r] ? copy[r] : compute[r];
        overlap[r] = 100 * (copy[r] + compute[r] - both[r]) / least;
        waits += after.host_waits - before.host_waits;
        climbs += after.climbs - before.climbs;
    }
    bench_note(e->b, 1e3 * bench_median(copy, ROUNDS) / BATCHES, "ms", "upload_of_a_batch");
    bench_note(e->b, 1e3 * bench_median(compute, ROUNDS) / BATCHES, "ms", "work_on_a_batch");
    bench_note(e->b, 1e3 * bench_median(both, ROUNDS) / BATCHES, "ms", "both");
    bench_note(e->b, (double)bytes * BATCHES / bench_median(copy, ROUNDS) * 1e-9, "GB/s", "upload");
    bench_note(e->b, (double)waits / ROUNDS, "an epoch", "host_waits");
    bench_note(e->b, (double)climbs, "", "climbs");
    bench_note(e->b, bench_median(overlap, ROUNDS), "%", "overlap");
    return bench_done(e->b, "overlap");
}

int bench_batches(bench *b) {
    struct epoch e = {.b = b};
    if (!bench_open(b, "refcount", NULL, false)) return bench_failed("tide_open");
    size_t bytes = bench_or(b->size, bench_on_cuda(b) ? CUDA_BATCH : HOST_BATCH);
    bytes = tidei_round_up(bytes, SAMPLE);
    float *data = malloc(DATA * bytes);
    int64_t *order = malloc(BATCHES * (bytes / SAMPLE) * sizeof *order);
    int status = data && order && open_epoch(&e, data, order, bytes)
                     ? run(&e, bytes)
                     : bench_failed("tide_batches_new");
    tide_batches_release(e.batches);
    tide_expr_release(e.step);
    free(data);
    free(order);
    return status;
}
