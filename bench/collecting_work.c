/* collecting_work.c: one side of the benchmark of what collecting costs (collecting.py): work whose
** arrays are freed by hand, or found dead by collections that a policy asks for, in turns.
**
** Model. The other sides are processes like this one; whose turn it is reads a number of units of
** work from standard input, does them, waits for the device, and writes a line of figures: what the
** turn took, and how long a loop took just before and after it that is always the same, which tells
** the processor's clock. (The work "kernel" tells a GPU's in the same way: in a process of its own,
** so that its waits are no moments for the others' policies.) The program ends with its input.
** bdwgc's own event times what it does; what else is in a pause (tide_runtime_figures.collect_ns)
** is the drain.
** What must stay true: the work is the same whichever way is chosen; nothing is measured of the
** loops, of reading and of writing; an array that the work is done with is named nowhere.
**
**   collecting-work WORK WAY [--limit SIZE] [--rows N] [--features N] [--batch N] [--bytes N]
**     WORK  dense   the example's model; a unit is an epoch
**           adds    x + 1 on arrays of 2 MiB, each of which replaces the one before; 50 a unit
**           small   views, sums and products of arrays of 4 KiB; 1000 steps of three arrays a unit
**           kernel  a kernel that makes no array, 10 times a unit
**     WAY   hand, default, or a policy with its parameters
** Exit 0, 1 failed, 2 bad input, 77 skipped: a build without bdwgc. */
#include "examples/c/dense.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <tide/device.h>

#define LOOPS      3      /* of which the fastest counts: what disturbs one only adds */
#define LOOP_TURNS 400000 /* 0.3 to 0.6 ms */
/* of a unit: */
#define ADDS    50
#define SMALLS  1000
#define KERNELS 10

struct options {
    const char *work, *way, *limit;
    int64_t rows, features, batch, bytes;
};

struct side {
    tide_runtime *rt;
    const struct options *o;
    bool by_hand;
    struct model model; /* of dense */
    tide_array *x;      /* of the others */
};

/* ---- collections, as bdwgc tells of them ---- */

struct traced { /* ns so far */
    uint64_t in_all, finding, number;
};

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef TIDEI_HAVE_BOEHM
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include <gc/gc_mark.h> /* <gc/gc.h> would be ours */

static struct {
    GC_on_collection_event_proc ours; /* the library's */
    uint64_t began_ns;
    struct traced sum;
} events; /* under bdwgc's allocator lock */

/* The library finds deaths in RECLAIM_START. */
static void GC_CALLBACK hear_event(GC_EventType event) {
    uint64_t at = now_ns(CLOCK_MONOTONIC);
    if (event == GC_EVENT_START) events.began_ns = at;
    if (events.ours) events.ours(event);
    if (event == GC_EVENT_RECLAIM_START) events.sum.finding += now_ns(CLOCK_MONOTONIC) - at;
    if (event == GC_EVENT_END) {
        events.sum.in_all += at - events.began_ns;
        events.sum.number++;
    }
}

/* After tide_open, so that the library's callback is called by ours. */
static void hear_collections(void) {
    events.ours = GC_get_on_collection_event();
    GC_set_on_collection_event(hear_event);
}

static struct traced traced(void) {
    GC_alloc_lock();
    struct traced sum = events.sum;
    GC_alloc_unlock();
    return sum;
}
#define HAVE_BOEHM true
#else
#define HAVE_BOEHM false
static void hear_collections(void) {}
static struct traced traced(void) { return (struct traced){0}; }
#endif

/* ---- the work ---- */

static bool dense(struct side *s) { /* a unit is an epoch */
    for (int64_t at = 0; at < s->o->rows; at += s->o->batch)
        if (!step(&s->model, at, at + s->o->batch < s->o->rows ? at + s->o->batch : s->o->rows))
            return false;
    return tide_synchronize(s->rt, NULL) == TIDE_OK;
}

static void done_with(struct side *s, tide_array *a) {
    if (s->by_hand) tide_free(a);
}

static NOINLINE bool add(struct side *s) {
    tide_array *y = tide_map(s->rt, "(x) -> x + 1", s->x);
    if (!y) return false;
    done_with(s, s->x);
    s->x = y;
    return true;
}

static bool adds(struct side *s) {
    for (int i = 0; i < ADDS; i++)
        if (!add(s)) return false;
    return tide_synchronize(s->rt, NULL) == TIDE_OK;
}

/* Temporaries of a view, an operation and what is made of it; x stays. */
static NOINLINE bool small_step(struct side *s) {
    tide_array *view = tide_expand_dims(s->x, 0), *sum = tide_add(view, s->x);
    tide_array *product = tide_mul(sum, view);
    done_with(s, view), done_with(s, sum), done_with(s, product);
    return product != NULL;
}

static bool small(struct side *s) {
    for (int i = 0; i < SMALLS; i++)
        if (!small_step(s)) return false;
    return tide_synchronize(s->rt, NULL) == TIDE_OK;
}

/* 64 roots of each element, which stay in place. */
#define ROOT8(x)  "sqrt(sqrt(sqrt(sqrt(sqrt(sqrt(sqrt(sqrt(" x "))))))))"
#define ROOT64(x) ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(x))))))))

static bool kernel(struct side *s) {
    for (int i = 0; i < KERNELS; i++)
        if (tide_map_into(s->x, "(x) -> " ROOT64("x"), s->x) != TIDE_OK) return false;
    return tide_synchronize(s->rt, NULL) == TIDE_OK;
}

static const struct work {
    const char *name;
    bool (*unit)(struct side *s);
    int64_t bytes; /* of an array, unless the user chose others */
} works[] = {{"dense", dense, 0},
             {"adds", adds, 2 << 20},
             {"small", small, 4 << 10},
             {"kernel", kernel, 16 << 20}};

static const struct work *work_named(const char *name) {
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (!strcmp(works[i].name, name)) return &works[i];
    return NULL;
}

/* ---- a turn ---- */

static uint64_t loop_ns(void) {
    uint64_t best = UINT64_MAX;
    for (int k = 0; k < LOOPS; k++) {
        uint64_t x = 1, start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < LOOP_TURNS; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            __asm__ volatile("" : "+r"(x)); /* each turn is made */
        }
        uint64_t took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        if (took < best) best = took;
    }
    return best;
}

struct reading {
    uint64_t wall_ns, processor_ns, thread_ns;
    struct rusage used;
    struct traced traced;
    tide_runtime_figures figures;
};

static struct reading read_all(tide_runtime *rt) {
    struct reading r = {.figures.struct_size = sizeof r.figures};
    getrusage(RUSAGE_SELF, &r.used);
    r.traced = traced();
    if (tide_runtime_info(rt, &r.figures) != TIDE_OK) r.figures = (tide_runtime_figures){0};
    r.wall_ns = now_ns(CLOCK_MONOTONIC);
    r.processor_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    r.thread_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    return r;
}

static uint64_t us(struct timeval t) { return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec; }

/* Every figure's name says its unit; what has none is a count. */
static void write_turn(const struct reading *a, const struct reading *b, uint64_t loop) {
    const tide_runtime_figures *f = &a->figures, *g = &b->figures;
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"wall_ns", b->wall_ns - a->wall_ns},
        {"processor_ns", b->processor_ns - a->processor_ns},
        {"thread_ns", b->thread_ns - a->thread_ns},
        {"user_us", us(b->used.ru_utime) - us(a->used.ru_utime)},
        {"system_us", us(b->used.ru_stime) - us(a->used.ru_stime)},
        {"loop_ns", loop},
        {"collections", g->collections - f->collections},
        {"climbs", g->climbs - f->climbs},
        {"pauses_ns", g->collect_ns - f->collect_ns},
        {"traced_ns", b->traced.in_all - a->traced.in_all},
        {"finding_ns", b->traced.finding - a->traced.finding},
        {"traced", b->traced.number - a->traced.number},
        {"host_waits", g->host_waits - f->host_waits},
        {"peak_live_bytes", g->peak_live},
        {"peak_backed_bytes", g->peak_backed},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        printf("%s%s=%llu", i ? " " : "", figures[i].name, (unsigned long long)figures[i].value);
    printf("\n");
    fflush(stdout);
}

static bool turn(struct side *s, const struct work *w, long units) {
    uint64_t loop = loop_ns();
    struct reading before = read_all(s->rt);
    for (long i = 0; i < units; i++)
        if (!w->unit(s)) return false;
    struct reading after = read_all(s->rt);
    write_turn(&before, &after, (loop + loop_ns()) / 2);
    return true;
}

/* ---- the program ---- */

static bool begin(struct side *s, const struct work *w) {
    const struct options *o = s->o;
    const int64_t floats[] = {(o->bytes ? o->bytes : w->bytes) / (int64_t)sizeof(float)};
    s->by_hand = !strcmp(o->way, "hand");
    tide_config c = {.struct_size = sizeof c,
                     .collector = "boehm",
                     .limit = o->limit,
                     .policy = s->by_hand                  ? "never"
                               : strcmp(o->way, "default") ? o->way
                                                           : NULL,
                     .gc_early = s->by_hand ? TIDE_OFF : TIDE_ON};
    if (tide_open(&c, &s->rt) != TIDE_OK) return false;
    hear_collections();
    if (w->unit == dense) return model_init(&s->model, s->rt, o->rows, o->features, s->by_hand);
    return (s->x = tide_ones(s->rt, TIDE_F32, 1, floats)) != NULL;
}

/* Says that it is there, and then takes turns. */
static bool take_turns(struct side *s, const struct work *w) {
    char device[160], line[64], *end;
    if (!begin(s, w) || tide_synchronize(s->rt, NULL) != TIDE_OK) return false;
    tide_runtime_reset_peaks(s->rt);
    tide_device_text(s->rt, device, sizeof device);
    printf("%s\n", device);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long units = strtol(line, &end, 10);
        if (units < 1 || *end != '\n') {
            fprintf(stderr, "collecting-work: a turn wants a number of units, not %s", line);
            exit(2);
        }
        if (!turn(s, w, units)) return false;
    }
    return true;
}

static bool number(const char *text, int64_t *out) {
    char *end;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || v < 1) return false;
    *out = v;
    return true;
}

static bool option(struct options *o, const char *flag, const char *text) {
    const struct {
        const char *flag;
        int64_t *out;
    } numbers[] = {{"--rows", &o->rows},
                   {"--features", &o->features},
                   {"--batch", &o->batch},
                   {"--bytes", &o->bytes}};
    if (!strcmp(flag, "--limit")) return o->limit = text, true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(flag, numbers[i].flag)) return number(text, numbers[i].out);
    return false;
}

int main(int argc, char **argv) {
    struct options o = {.rows = 300000, .features = 1000, .batch = 2048};
    static struct side s; /* where the collector looks */
    bool understood = argc >= 3 && argc % 2 && work_named(argv[1]);
    for (int i = 3; understood && i < argc; i += 2) understood = option(&o, argv[i], argv[i + 1]);
    if (!understood) {
        fprintf(stderr, "usage: collecting-work dense|adds|small|kernel hand|POLICY [--limit SIZE] "
                        "[--rows N] [--features N]\n"
                        "                       [--batch N] [--bytes N]\n");
        return 2;
    }
    if (!HAVE_BOEHM) return fprintf(stderr, "collecting-work: this build has no bdwgc\n"), 77;
    o.way = argv[2];
    s.o = &o;
    if (!take_turns(&s, work_named(argv[1]))) {
        fprintf(stderr, "collecting-work: %s\n", tide_error_last()->message);
        return 1;
    }
    tide_close(s.rt);
    return 0;
}
