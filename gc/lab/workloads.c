/* workloads.c: the lab's own programs.
**
** The nine are steps of one thread: it makes some arrays, most of which are dead at once, computes
** while the device works, and waits for the device. Their collector takes the same time whatever
** there is to look at, memory costs nothing, and a climb takes 20 ms, as in the simulation for
** which they were made up. */
#include "gc/lab/workloads.h"

#define US     ((uint64_t)1000)
#define MS     (1000 * US)
#define SECOND (1000 * MS)

/* ---- the nine ---- */

#define H      (16 * (uint64_t)TIDEI_GIB) /* their limit */
#define LONG   (20 * SECOND)              /* in the ideal way */
#define STALL  (20 * MS)
#define STARTS 20 /* arrays that are live from the start */

/* Millionths of the limit; for garbage rounded up, so that ten steps of 20000 fill 0.2 of it, and
** not a little less. */
static uint64_t ppm(uint64_t n) { return n * H / 1000000; }
static uint64_t ppm_up(uint64_t n) { return (n * H + 999999) / 1000000; }

static void nine(tidei_lab_program *p, uint64_t pause_ns) {
    p->limit[TIDEI_LAB_DEVICE] = H;
    p->model = (tidei_lab_model){.levels = TIDEI_OFFERS_FULL,
                                 .full_ns = pause_ns,
                                 .spread_low = 800,
                                 .spread_high = 1300,
                                 .stall_ns = STALL,
                                 .total = 80 * (uint64_t)TIDEI_GIB};
}

static void die_at_once(tidei_lab_program *p, unsigned n, uint64_t bytes) {
    while (n--) tidei_lab_die(p, 0, tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, bytes));
}

/* The host computes, the device works, and if it takes longer the host waits for it. */
static void compute(tidei_lab_program *p, uint64_t host_ns, uint64_t device_ns) {
    tidei_lab_add(p, 0, TIDEI_LAB_WORK, device_ns);
    tidei_lab_add(p, 0, TIDEI_LAB_HOST, host_ns);
    if (device_ns > host_ns) tidei_lab_add(p, 0, TIDEI_LAB_SYNC, 0);
    tidei_lab_add(p, 0, TIDEI_LAB_STEP, 0);
}

static void start(tidei_lab_program *p, uint64_t live_ppm) {
    for (int i = 0; i < STARTS; i++) tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, ppm(live_ppm) / STARTS);
    compute(p, 10 * MS, 20 * MS);
}

struct step {
    unsigned n;       /* arrays, dead at once */
    uint64_t ppm;     /* each of them */
    uint64_t host_us; /* of the host */
    uint64_t device_us;
};

static void step(tidei_lab_program *p, const struct step *x) {
    die_at_once(p, x->n, ppm_up(x->ppm));
    compute(p, x->host_us * US, x->device_us * US);
}

/* Steps for 20 s, of which the start took some. */
static void steps(tidei_lab_program *p, const struct step *x) {
    uint64_t us = x->device_us > x->host_us ? x->device_us : x->host_us;
    for (uint64_t t = 20 * MS; t <= LONG; t += us * US) step(p, x);
}

static void write_train(tidei_lab_program *p) {
    nine(p, 5 * MS);
    start(p, 300000);
    steps(p, &(struct step){10, 2000, 2000, 10000});
}

static void write_full_static(tidei_lab_program *p) {
    nine(p, 5 * MS);
    start(p, 955000);
    steps(p, &(struct step){3, 10, 2000, 10000});
}

static void write_full_short(tidei_lab_program *p) {
    nine(p, 20 * MS);
    start(p, 955000);
    steps(p, &(struct step){1, 2, 200, 250});
}

static void write_half(tidei_lab_program *p) {
    nine(p, 5 * MS);
    start(p, 490000);
    steps(p, &(struct step){10, 1000, 2000, 10000});
}

static void write_grow(tidei_lab_program *p) {
    nine(p, 5 * MS);
    start(p, 200000);
    for (int i = 0; i < 1998; i++) {
        if (i < 1500) tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, ppm(500));
        compute(p, 2 * MS, 10 * MS);
    }
}

static void write_short_syncs(tidei_lab_program *p) {
    nine(p, 20 * MS);
    start(p, 400000);
    steps(p, &(struct step){1, 500, 200, 250});
}

/* Half of the limit is made, used for a while, and dropped. */
static void write_old_garbage(tidei_lab_program *p) {
    nine(p, 8 * MS);
    start(p, 100000);
    for (uint64_t t = 20 * MS; t <= LONG; t += 620 * MS) {
        uint32_t old[STARTS];
        for (int i = 0; i < STARTS; i++)
            old[i] = tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, ppm(25000));
        compute(p, 2 * MS, 10 * MS);
        for (int i = 0; i < 60; i++) step(p, &(struct step){4, 500, 2000, 10000});
        for (int i = 0; i < STARTS; i++) tidei_lab_die(p, 0, old[i]);
        compute(p, 2 * MS, 10 * MS);
    }
}

/* The device is well behind at one sync point of twelve. */
static void write_bursty_slack(tidei_lab_program *p) {
    nine(p, 15 * MS);
    start(p, 350000);
    uint64_t t = 20 * MS;
    for (unsigned i = 1; t <= LONG; i++) {
        uint64_t device_us = i % 12 ? 2200 : 32000;
        step(p, &(struct step){4, 4000, 2000, device_us});
        t += device_us * US;
    }
}

static void write_no_sync(tidei_lab_program *p) {
    nine(p, 10 * MS);
    start(p, 300000);
    steps(p, &(struct step){4, 2000, 4000, 0});
}

/* ---- a training loop ---- */

#define ROWS    300000
#define ROW     (1000 * 4) /* bytes of a row of f32 */
#define BATCH   2048
#define EPOCHS  100
#define SMALL   6  /* arrays of a loss and of its gradient by row; of a gradient by weight */
#define OPTIMAL 32 /* arrays of the weights and of Adam's moments */

/* One batch: its rows are copied, the loss and the gradient computed. */
static void train_batch(tidei_lab_program *p, uint64_t rows) {
    die_at_once(p, 1, rows * ROW);
    die_at_once(p, SMALL, rows * 2);
    tidei_lab_add(p, 0, TIDEI_LAB_WORK, rows * 90);
    tidei_lab_add(p, 0, TIDEI_LAB_HOST, rows * 70);
    die_at_once(p, 1, rows * ROW);
    die_at_once(p, SMALL, ROW);
    tidei_lab_add(p, 0, TIDEI_LAB_HOST, 10 * US);
    tidei_lab_add(p, 0, TIDEI_LAB_STEP, 0);
}

/* A dense layer under a limit of 4 GiB, the program that CUDA.jl 5.4 was announced with: an epoch
** takes 27 ms there, and 31 with a collection that an allocation forced; how much of these 4 ms is
** the pause is a guess. */
static void write_dense(tidei_lab_program *p) {
    p->limit[TIDEI_LAB_DEVICE] = 4 * (uint64_t)TIDEI_GIB;
    p->model.levels = TIDEI_OFFERS_MINOR | TIDEI_OFFERS_FULL;
    p->model.minor_ns = 1 * MS;
    p->model.full_ns = 2 * MS;
    p->model.stall_ns = 2 * MS;
    tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, (uint64_t)ROWS * ROW);
    tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, (uint64_t)ROWS * 4);
    for (int i = 0; i < OPTIMAL; i++) tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, ROW);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (uint64_t row = 0; row < ROWS; row += BATCH)
            train_batch(p, row + BATCH <= ROWS ? BATCH : ROWS - row);
        tidei_lab_add(p, 0, TIDEI_LAB_SYNC, 0);
    }
}

/* ---- what the nine lack ---- */

#define WORKERS 4

/* Four threads share a device; each waits for its own work. */
static void write_threads(tidei_lab_program *p) {
    nine(p, 5 * MS);
    start(p, 300000);
    for (int i = 0; i < 500; i++)
        for (unsigned t = 0; t < WORKERS; t++) {
            for (int k = 0; k < 5; k++)
                tidei_lab_die(p, t, tidei_lab_make(p, t, TIDEI_LAB_DEVICE, ppm(1000 + 100 * t)));
            tidei_lab_add(p, t, TIDEI_LAB_WORK, (1500 + 200 * t) * US);
            tidei_lab_add(p, t, TIDEI_LAB_HOST, (6 + t) * MS);
            tidei_lab_add(p, t, TIDEI_LAB_SYNC, 0);
            tidei_lab_add(p, t, TIDEI_LAB_STEP, 0);
        }
}

/* Batches come through pinned memory, which is the scarcer of the two. */
static void write_pinned(tidei_lab_program *p) {
    nine(p, 5 * MS);
    p->limit[TIDEI_LAB_PINNED] = TIDEI_GIB;
    start(p, 300000);
    for (int i = 0; i < 1998; i++) {
        tidei_lab_die(p, 0, tidei_lab_make(p, 0, TIDEI_LAB_PINNED, 24 * TIDEI_MIB));
        step(p, &(struct step){4, 500, 2000, 10000});
    }
}

/* ---- the table ---- */

static const tidei_lab_workload workloads[] = {
    {"train", "live 0.30 of the limit, 2 % garbage a step, the host waits 8 of 10 ms", write_train},
    {"full-static", "live 0.955 of the limit and hardly any garbage", write_full_static},
    {"full-short", "the same in steps of 0.25 ms, a collection takes 20", write_full_short},
    {"half", "live 0.49 of the limit, just below the half", write_half},
    {"grow", "what lives grows from 0.20 to 0.95 of the limit, no garbage", write_grow},
    {"short-syncs", "steps of 0.25 ms that wait 50 us, a collection takes 20 ms",
     write_short_syncs},
    {"old-garbage", "half of the limit is made, used for 0.6 s, and dropped", write_old_garbage},
    {"bursty-slack", "the host waits 30 ms at one sync point of twelve, else 0.2",
     write_bursty_slack},
    {"no-sync", "the host never waits", write_no_sync},
    {"dense", "a dense layer trained under 4 GiB: 100 epochs of 147 batches", write_dense},
    {"threads", "four threads on one device", write_threads},
    {"pinned", "batches through pinned memory, 1 GiB of it", write_pinned},
};

const tidei_lab_workload *tidei_lab_workload_at(size_t i) {
    return i < TIDEI_COUNT(workloads) ? &workloads[i] : NULL;
}

const tidei_lab_workload *tidei_lab_workload_find(const char *name) {
    for (size_t i = 0; i < TIDEI_COUNT(workloads); i++)
        if (!strcmp(workloads[i].name, name)) return &workloads[i];
    return NULL;
}

tide_status tidei_lab_write(const tidei_lab_workload *w, tidei_lab_program *out) {
    tidei_lab_begin(out, w->name);
    w->write(out);
    tide_status status = tidei_lab_finish(out);
    if (status != TIDE_OK) tidei_lab_clear(out);
    return status;
}
