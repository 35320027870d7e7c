/* stress.c: threads that make and drop arrays of random sizes near the limit.
**
** Each thread has a budget, and what it holds never exceeds that: so what lives at most is known
** beforehand, however the threads meet, and a limit a little above it forces no failure but those
** of pinned blocks, in whose pages nobody else may lie. What an operation needs at once, its
** workspaces included, is measured before, alone. Every thread writes down what it asks for and
** lets go, in one order for all (forced.h).
** What must stay true: something counts as held from before it is asked for until after it was let
** go. */
#include "bench/stress.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/workload.h"
#include "runtime/runtime.h"

#define LIVE_PAGES 128 /* what all threads hold at most */
/* pages of the largest array: in one piece, and twice what the closest limit leaves */
#define LARGEST    8
#define SMALLEST   1024 /* bytes */
#define CLASSES    24   /* sizes between these */
#define SLOTS      64   /* arrays of a thread, at most */
#define GRANULE    ((size_t)256)
#define PIN_EVERY  64   /* steps; one small array of the thread stays where it is */
#define PIN_FOR    32   /* of these */
#define WANT_EVERY 4096 /* steps; more than there can be is asked for */
/* Libraries' handles go when memory is short, and are made anew, of whole pages: then part of one
** is lost behind the handle, and of another where the free bytes begin that were brought together
** for it. */
#define HANDLE_PAGES 2

typedef struct stress stress;

/* ---- operations: of a square f32 array, of one like it ---- */

static void let_go(const stress *s, tide_array *a);

static tide_array *full(stress *s, tide_array *a, int64_t side);
static tide_array *add(stress *s, tide_array *a, int64_t side) {
    return (void)s, (void)side, tide_add(a, a);
}
static tide_array *fused(stress *s, tide_array *a, int64_t side);
static tide_array *turned(stress *s, tide_array *a, int64_t side) {
    tide_array *t = tide_transpose(a, NULL), *c = tide_contiguous(t);
    (void)side;
    if (t) let_go(s, t);
    return c;
}
static tide_array *drawn(stress *s, tide_array *a, int64_t side);
static tide_array *product(stress *s, tide_array *a, int64_t side) {
    return (void)s, (void)side, tide_matmul(a, a);
}

static tide_array *triangle(stress *s, tide_array *a, int64_t side) {
    tide_array *r = NULL;
    (void)s, (void)side;
    return tide_qr(a, TIDE_REDUCED, NULL, &r) == TIDE_OK ? r : NULL;
}

static const struct operation {
    tide_array *(*run)(stress *s, tide_array *a, int64_t side);
    int64_t most; /* the largest side that does not take too long; 0: any */
} operations[] = {{full, 0},  {add, 0},      {fused, 0},    {turned, 0},
                  {drawn, 0}, {product, 96}, {triangle, 96}};
#define OPERATIONS TIDEI_COUNT(operations)

/* ---- what all threads share ---- */

struct stress {
    const stress_options *o;
    tide_runtime *rt;
    tidei_dev *d;
    bool counted;
    size_t page, budget, limit, apart;
    int64_t side[CLASSES];
    size_t holds[CLASSES]; /* an array of it, in granules */
    size_t needs[OPERATIONS][CLASSES];
    forced_event *events;
    size_t capacity;
    _Atomic size_t n;
    pthread_mutex_t lock; /* why */
    stress_outcome *out;
    atomic_bool go, broken;
};

static tide_array *full(stress *s, tide_array *a, int64_t side) {
    (void)a;
    return tide_full(s->rt, TIDE_F32, 2, (int64_t[]){side, side}, tide_arg_float(0.5));
}
static tide_array *fused(stress *s, tide_array *a, int64_t side) {
    const tide_arg x = tide_arg_array(a);
    (void)side;
    return tide_map_args(s->rt, "(x) -> sqrt(x*x + 1) - max(x, axis=0)", &x, 1);
}
static tide_array *drawn(stress *s, tide_array *a, int64_t side) {
    tide_rng rng = {(uint64_t)side, 0};
    (void)a;
    return tide_random_uniform(s->rt, &rng, TIDE_F32, 2, (int64_t[]){side, side});
}

/* Where a scanning collector looks for what is held: a process has one run at a time. */
static tide_array *slots[STRESS_THREADS][SLOTS];

typedef struct worker {
    stress *s;
    unsigned id;
    size_t steps, held;
    uint64_t seed;
    uint8_t class[SLOTS];
    unsigned pinned; /* slot + 1 */
    tide_use_scope *scope;
    size_t useless;
    uint64_t too_large;
} worker;

static void note(worker *w, forced_kind kind, uint64_t bytes) {
    stress *s = w->s;
    size_t at = atomic_fetch_add(&s->n, 1);
    if (at < s->capacity) s->events[at] = (forced_event){(uint16_t)kind, (uint16_t)w->id, bytes};
}

static void broken(stress *s, const char *what) {
    pthread_mutex_lock(&s->lock);
    if (!atomic_exchange(&s->broken, true))
        snprintf(s->out->why, sizeof s->out->why, "%s: %s", what, tide_error_last()->message);
    pthread_mutex_unlock(&s->lock);
}

/* Under a collector that traces nobody says anything: it becomes garbage. */
static void let_go(const stress *s, tide_array *a) {
    if (s->counted) tide_release(a);
}

static void drop(worker *w, unsigned slot) {
    tide_array *a = slots[w->id][slot];
    if (!a || w->pinned == slot + 1) return;
    slots[w->id][slot] = NULL;
    let_go(w->s, a);
    w->held -= w->s->holds[w->class[slot]];
    note(w, FORCED_DROP, w->s->holds[w->class[slot]]);
}

/* ---- steps ---- */

#define LIVE "\n  live " /* in an error of lacking memory (runtime/reclaim/report.c) */

/* What lived when the error was written, by its own words, which are rounded to thousandths: at
** least so much. Other threads may have collected it by now. */
static uint64_t lived(const char *message) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
    const char *at = strstr(message, LIVE);
    unsigned whole, thousandths;
    char unit[4];
    if (!at || sscanf(at, LIVE "%u.%3u %3s", &whole, &thousandths, unit) != 3) return 0;
    for (size_t i = 0; i < TIDEI_COUNT(units); i++)
        if (!strcmp(unit, units[i].name))
            return (1000 * (uint64_t)whole + thousandths - 1) * units[i].bytes / 1000;
    return 0;
}

static void failed(worker *w, const char *what) {
    stress *s = w->s;
    uint64_t now = atomic_load(&s->d->budget->live), then = lived(tide_error_last()->message);
    note(w, FORCED_FAILED, then ? then : now);
    if (tide_error_last()->status != TIDE_E_NOMEM || !strstr(tide_error_last()->message, LIVE))
        broken(s, what);
    pthread_mutex_lock(&s->lock);
    if (!*s->out->why && *what)
        snprintf(s->out->why, sizeof s->out->why, "%s: %s", what, tide_error_last()->message);
    pthread_mutex_unlock(&s->lock);
    tide_error_clear();
}

/* In a frame of its own: what it leaves on the stack is the collector's. */
static __attribute__((noinline)) bool make(worker *w, unsigned slot, unsigned op, tide_array *of,
                                           unsigned class) {
    tide_array *a = operations[op].run(w->s, of, w->s->side[class]);
    slots[w->id][slot] = a;
    return a != NULL;
}

static tide_array *one_of(worker *w, unsigned class) {
    unsigned from = workload_dice(&w->seed) % SLOTS;
    for (unsigned i = 0; i < SLOTS; i++) {
        unsigned slot = (from + i) % SLOTS;
        if (slots[w->id][slot] && w->class[slot] == class) return slots[w->id][slot];
    }
    return NULL;
}

/* Something random into the slot, which is empty; of a smaller size, or after letting others go,
** where the budget wants that. */
static void replace(worker *w, unsigned slot) {
    stress *s = w->s;
    unsigned class = workload_dice(&w->seed) % CLASSES, op = workload_dice(&w->seed) % OPERATIONS;
    if (operations[op].most && s->side[class] > operations[op].most) op = 0;
    bool smaller = workload_dice(&w->seed) % 4;
    while (w->held + s->needs[op][class] > s->budget) {
        if (smaller && class)
            class --;
        else
            drop(w, workload_dice(&w->seed) % SLOTS);
    }
    tide_array *of = one_of(w, class);
    if (!of) op = 0;
    if (w->held + s->needs[op][class] > s->budget) return;
    note(w, FORCED_ASK, s->needs[op][class]);
    if (make(w, slot, op, of, class)) {
        w->class[slot] = (uint8_t) class;
        w->held += s->holds[class];
        note(w, FORCED_GOT, s->holds[class]);
    } else {
        failed(w, "an operation");
    }
}

/* What the thread holds and what it asks for are more than the limit. */
static void want_too_much(worker *w) {
    const int64_t bytes = (int64_t)(w->s->limit - w->held + w->s->page);
    note(w, FORCED_WANT, (uint64_t)bytes);
    tide_array *a = tide_empty(w->s->rt, TIDE_U8, 1, &bytes);
    if (a) {
        broken(w->s, "more than the limit was to be had");
        return;
    }
    w->too_large++;
    failed(w, "");
}

static void unpin(worker *w) {
    if (!w->scope) return;
    if (tide_use_end(w->scope) != TIDE_OK) broken(w->s, "tide_use_end");
    note(w, FORCED_UNPIN, w->useless);
    w->scope = NULL;
    w->pinned = 0;
}

/* A small array stays where it is for a while: it lies in two pages at most. */
static void pin(worker *w) {
    stress *s = w->s;
    unsigned slot = workload_dice(&w->seed) % SLOTS;
    tide_array *a = slots[w->id][slot];
    if (!a || s->holds[w->class[slot]] > s->page) return;
    const tide_use use = {.array = a, .mode = TIDE_READ};
    void *at;
    note(w, FORCED_PIN, 2 * s->page);
    if (tide_use_begin(s->rt, NULL, &use, 1, &at, &w->scope) != TIDE_OK) {
        broken(s, "tide_use_begin");
        return;
    }
    size_t first = (uintptr_t)at / s->page,
           last = ((uintptr_t)at + s->holds[w->class[slot]] - 1) / s->page;
    w->useless = (last - first + 1) * s->page - s->holds[w->class[slot]];
    w->pinned = slot + 1;
    note(w, FORCED_UNPIN, 2 * s->page - w->useless);
}

static void *work(void *p) {
    worker *w = p;
    /* a thread alone near its budget is near no limit */
    while (!atomic_load(&w->s->go)) sched_yield();
    for (size_t i = 0; i < w->steps && !atomic_load(&w->s->broken); i++) {
        unsigned slot = workload_dice(&w->seed) % SLOTS;
        if (i % PIN_EVERY == 0) pin(w);
        if (i % PIN_EVERY == PIN_FOR) unpin(w);
        if (i % WANT_EVERY == WANT_EVERY / 2) want_too_much(w);
        drop(w, slot);
        if (!slots[w->id][slot]) replace(w, slot);
    }
    unpin(w);
    for (unsigned i = 0; i < SLOTS; i++) drop(w, i);
    tide_thread_detach(w->s->rt);
    return NULL;
}

/* ---- before ---- */

static size_t granules(size_t bytes) { return tidei_round_up(bytes, GRANULE); }

/* What an operation takes at once, by the runtime's count, and what its blocks lose to rounding. */
static bool measure(stress *s, unsigned op, unsigned class) {
    tide_runtime_figures before = {.struct_size = sizeof before}, after = before;
    tide_array *of = full(s, NULL, s->side[class]);
    tide_runtime_reset_peaks(s->rt);
    bool good = of && tide_runtime_info(s->rt, &before) == TIDE_OK;
    tide_array *a = good ? operations[op].run(s, of, s->side[class]) : NULL;
    good = a && tide_runtime_info(s->rt, &after) == TIDE_OK;
    s->needs[op][class] = granules(after.peak_live - before.live) +
                          (size_t)(after.allocations - before.allocations) * GRANULE;
    if (a) tide_free(a), let_go(s, a);
    if (of) tide_free(of), let_go(s, of);
    return good;
}

static bool prepare(stress *s) {
    double most = (double)(LARGEST * s->page), ratio = most / SMALLEST;
    for (unsigned c = 0; c < CLASSES; c++) {
        s->side[c] =
            (int64_t)sqrt(SMALLEST * pow(ratio, (double)c / (CLASSES - 1)) / sizeof(float));
        s->holds[c] = granules((size_t)(s->side[c] * s->side[c]) * sizeof(float));
        for (unsigned op = 0; op < OPERATIONS; op++)
            if ((!operations[op].most || s->side[c] <= operations[op].most) && !measure(s, op, c))
                return false;
    }
    size_t library = atomic_load(&s->d->budget->library);
    s->apart = library ? tidei_round_up(library, s->page) + HANDLE_PAGES * s->page : 0;
    s->budget = LIVE_PAGES * s->page / s->o->threads;
    s->limit =
        tidei_round_up((size_t)(s->o->factor * (double)(s->budget * s->o->threads)), s->page) +
        2 * s->page + s->apart;
    return tide_device_set_limit(s->rt, s->limit) == TIDE_OK;
}

static bool stress_open(stress *s, const stress_options *o, stress_outcome *out) {
    memset(s, 0, sizeof *s);
    memset(out, 0, sizeof *out);
    memset(slots, 0, sizeof slots);
    s->o = o;
    s->out = out;
    pthread_mutex_init(&s->lock, NULL);
    tide_config c = {.struct_size = sizeof c,
                     .device = o->device,
                     .collector = o->collector,
                     .pool = o->pool,
                     .spill = TIDE_OFF}; /* what is more than the limit is to fail */
    if (tide_open(&c, &s->rt) != TIDE_OK) return false;
    s->d = &tidei_runtime_of(s->rt)->devs[0];
    s->page = s->d->d->info.page_bytes;
    s->counted = o->collector && strcmp(o->collector, "refcount") == 0;
    s->capacity = 5 * o->steps + 1000 * o->threads;
    s->events = malloc(s->capacity * sizeof *s->events);
    return s->events && prepare(s);
}

static void stress_close(stress *s) {
    tide_close(s->rt);
    free(s->events);
    pthread_mutex_destroy(&s->lock);
}

/* ---- the run ---- */

static void run_threads(stress *s, worker *w) {
    pthread_t thread[STRESS_THREADS];
    unsigned made = 0;
    for (; made < s->o->threads; made++) {
        w[made] = (worker){.s = s,
                           .id = made,
                           .steps = s->o->steps / s->o->threads,
                           .seed = (uint64_t)s->o->seed * 1000003 + made + 1};
        if (pthread_create(&thread[made], NULL, work, &w[made])) {
            broken(s, "no thread");
            break;
        }
    }
    atomic_store(&s->go, true);
    while (made--) {
        pthread_join(thread[made], NULL);
        s->out->steps += w[made].steps;
        s->out->too_large += w[made].too_large;
    }
}

bool stress_run(const stress_options *o, stress_outcome *out) {
    stress s;
    worker w[STRESS_THREADS];
    tide_runtime_figures t = {.struct_size = sizeof t};
    bool good = stress_open(&s, o, out);
    if (good) {
        run_threads(&s, w);
        good = !atomic_load(&s.broken) && tide_runtime_info(s.rt, &t) == TIDE_OK &&
               tidei_runtime_valid(s.d->rt);
        size_t n = atomic_load(&s.n);
        if (n > s.capacity) good = false;
        if (good) forced_check(s.events, n, s.limit, s.apart, !s.counted, &out->found);
        out->climbs = t.climbs;
        out->collections = t.collections;
        out->filled = (double)out->found.peak / (double)(s.budget * o->threads);
    }
    if (!good && !*out->why) snprintf(out->why, sizeof out->why, "%s", tide_error_last()->message);
    stress_close(&s);
    return good;
}
