/* collecting_work.c: what collecting costs (collecting.py): the same work in turns, in which arrays
** are freed by hand, or found dead by collections that a policy asks for.
**
** Model. The process reads a line for each turn from standard input, does the work, waits for the
** device, and writes a line of figures: what the turn took, and how long work took just before and
** after it that is always the same, which tells the clocks: a loop on the processor's, a kernel on
** a GPU's. Both ways of one process have the same memory: the same data, pool and collector's heap.
** In turns by hand, and between turns, the policy is not asked, and its clock stands still. Before
** each turn bdwgc collects, untimed and untold, what the one before has left; and a turn that is
** not by hand ends with the step in which the policy's collection came: so it does not leave to
** others what it owes. What bdwgc would do of its own accord for cells that were freed by hand is
** nobody's.
** bdwgc's own event times what it does; what else is in a pause (tide_runtime_figures.collect_ns)
** is the drain.
** What must stay true: the work is the same whichever way is chosen; nothing is measured of the
** clocks, of reading and of writing; an array that the work is done with is named nowhere. The
** library is linked into the program, whose data the collector would scan: so all of that is left
** out of the roots, as the shared library's is, and what the work has lies on the stack.
**
**   collecting-work WORK WAY [--limit SIZE] [--rows N] [--features N] [--batch N] [--bytes N]
**     WORK  dense   the example's model; a unit is a step
**           adds    x + 1 on arrays of 2 MiB, each of which replaces the one before
**           small   a view, a sum and a product of arrays of 4 KiB a unit
**     WAY   hand, default, or a policy with its parameters
** A turn is a line "[hand ]UNITS[ NS]": so many units, by hand or in WAY; or, where NS is there,
** fewer, once NS have passed and a collection has come.
** Exit 0, 1 failed, 2 bad input, 77 skipped: a build without bdwgc. */
#include "examples/c/dense.h"
#include "gc/collector.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define LOOPS         2      /* of which the fastest counts: what disturbs one only adds */
#define LOOP_TURNS    100000 /* 0.1 ms */
#define KERNELS       4
#define PATIENCE      100 /* times a turn's time, for a collection that does not come */
#define KERNEL_FLOATS ((int64_t)1 << 20)
/* units from one wait for the device to the next; of dense, an epoch */
#define ADDS   50
#define SMALLS 1000

struct options {
    const char *work, *way, *limit;
    int64_t rows, features, batch, bytes;
};

struct side {
    tide_runtime *rt;
    const struct options *o;
    bool by_hand;
    int64_t at;         /* units since the last wait */
    struct model model; /* of dense */
    tide_array *x;      /* of the others */
    tide_array *kernel; /* on a GPU: what its clock is told by */
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

extern char __data_start[], _end[]; /* the linker's */

/* After tide_open, so that the library's callback is called by ours. */
static void meet_collector(void) {
    events.ours = GC_get_on_collection_event();
    GC_set_on_collection_event(hear_event);
    GC_exclude_static_roots(__data_start, _end);
}

static struct traced traced(void) {
    GC_alloc_lock();
    struct traced sum = events.sum;
    GC_alloc_unlock();
    return sum;
}

/* What the last turn left, which no policy is told of. */
static void tidy(tidei_runtime *rt) {
    GC_gcollect();
    tidei_drain(rt);
}
#define HAVE_BOEHM true
#else
#define HAVE_BOEHM false
static void meet_collector(void) {}
static struct traced traced(void) { return (struct traced){0}; }
static void tidy(tidei_runtime *rt) { (void)rt; }
#endif

/* ---- whose turn it is ---- */

/* The policy's clock, which stands still while the policy is not asked. */
static struct { uint64_t stood_ns, since_ns; /* in all; 0: it goes */ } clock_of_policy;

static uint64_t policy_ns(void) {
    uint64_t now = clock_of_policy.since_ns ? clock_of_policy.since_ns : tidei_now_ns();
    return now - clock_of_policy.stood_ns;
}

static void choose(struct side *s, bool by_hand) {
    tidei_runtime *rt = tidei_runtime_of(s->rt);
    if (by_hand && !clock_of_policy.since_ns) clock_of_policy.since_ns = tidei_now_ns();
    if (!by_hand && clock_of_policy.since_ns) {
        clock_of_policy.stood_ns += tidei_now_ns() - clock_of_policy.since_ns;
        clock_of_policy.since_ns = 0;
    }
    s->by_hand = by_hand;
    s->model.by_hand = by_hand;
    rt->set.gc_early = !by_hand;
    tidei_gc_changed(tidei_gc_of(rt));
}

/* ---- the work ---- */

/* Waits after so many units. */
static bool wait_now_and_then(struct side *s, int64_t units) {
    if (++s->at < units) return true;
    s->at = 0;
    return tide_synchronize(s->rt, NULL) == TIDE_OK;
}

static bool dense(struct side *s) {
    const struct options *o = s->o;
    int64_t from = s->at * o->batch, to = from + o->batch < o->rows ? from + o->batch : o->rows;
    return step(&s->model, from, to) && wait_now_and_then(s, (o->rows + o->batch - 1) / o->batch);
}

static void done_with(struct side *s, tide_array *a) {
    if (s->by_hand) tide_free(a);
}

static NOINLINE bool add(struct side *s) {
    tide_array *y = tide_map(s->rt, "(x) -> x + 1", s->x);
    if (!y) return false;
    done_with(s, s->x);
    s->x = y;
    return wait_now_and_then(s, ADDS);
}

/* Temporaries of a view, an operation and what is made of it; x stays. */
static NOINLINE bool small(struct side *s) {
    tide_array *view = tide_expand_dims(s->x, 0), *sum = tide_add(view, s->x);
    tide_array *product = tide_mul(sum, view);
    done_with(s, view), done_with(s, sum), done_with(s, product);
    return product && wait_now_and_then(s, SMALLS);
}

static const struct work {
    const char *name;
    bool (*unit)(struct side *s);
    int64_t bytes; /* of an array, unless the user chose others */
} works[] = {{"dense", dense, 0}, {"adds", add, 2 << 20}, {"small", small, 4 << 10}};

static const struct work *work_named(const char *name) {
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (!strcmp(works[i].name, name)) return &works[i];
    return NULL;
}

/* ---- the clocks ---- */

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

/* 64 roots of each element, which stay in place. */
#define ROOT8(x)  "sqrt(sqrt(sqrt(sqrt(sqrt(sqrt(sqrt(sqrt(" x "))))))))"
#define ROOT64(x) ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(ROOT8(x))))))))

/* 0: there is no GPU, or the kernel failed. */
static uint64_t kernel_ns(struct side *s) {
    uint64_t start = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; s->kernel && i < KERNELS; i++)
        if (tide_map_into(s->kernel, "(x) -> " ROOT64("x"), s->kernel) != TIDE_OK) return 0;
    if (!s->kernel || tide_synchronize(s->rt, NULL) != TIDE_OK) return 0;
    return now_ns(CLOCK_MONOTONIC) - start;
}

struct clocks {
    uint64_t loop_ns, kernel_ns;
};
static struct clocks clocks_now(struct side *s) { return (struct clocks){loop_ns(), kernel_ns(s)}; }

/* ---- a turn ---- */

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

struct turn {
    bool by_hand;
    long units;
    uint64_t ns; /* 0: all of the units */
};

static uint64_t us(struct timeval t) { return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec; }

/* Every figure's name says its unit; what has none is a count. */
static void write_turn(const struct reading *a, const struct reading *b, const struct clocks *c,
                       const struct clocks *d, long units) {
    const tide_runtime_figures *f = &a->figures, *g = &b->figures;
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"units", (uint64_t)units},
        {"wall_ns", b->wall_ns - a->wall_ns},
        {"processor_ns", b->processor_ns - a->processor_ns},
        {"thread_ns", b->thread_ns - a->thread_ns},
        {"user_us", us(b->used.ru_utime) - us(a->used.ru_utime)},
        {"system_us", us(b->used.ru_stime) - us(a->used.ru_stime)},
        {"loop_ns", (c->loop_ns + d->loop_ns) / 2},
        {"kernel_ns", (c->kernel_ns + d->kernel_ns) / 2},
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

static bool is_over(const struct turn *t, long n, uint64_t took_ns, bool collected) {
    if (n >= t->units) return true;
    if (!t->ns || took_ns < t->ns) return false;
    return t->by_hand || collected || took_ns > PATIENCE * t->ns;
}

/* The units of a turn; how many there were, or -1. */
static long play(struct side *s, const struct work *w, const struct turn *t, uint64_t start) {
    const _Atomic uint64_t *collections = &tidei_runtime_of(s->rt)->gc_counts.collections;
    bool over = false;
    long n = 0;
    while (!over) {
        uint64_t before = atomic_load(collections);
        if (!w->unit(s)) return -1;
        over = is_over(t, ++n, now_ns(CLOCK_MONOTONIC) - start, atomic_load(collections) != before);
    }
    return tide_synchronize(s->rt, NULL) == TIDE_OK ? n : -1;
}

static bool take_turn(struct side *s, const struct work *w, const struct turn *t) {
    tidy(tidei_runtime_of(s->rt));
    tide_runtime_reset_peaks(s->rt);
    struct clocks clocks = clocks_now(s);
    choose(s, t->by_hand);
    struct reading before = read_all(s->rt);
    long units = play(s, w, t, before.wall_ns);
    struct reading after = read_all(s->rt);
    choose(s, true);
    if (units < 0) return false;
    struct clocks then = clocks_now(s);
    write_turn(&before, &after, &clocks, &then, units);
    return true;
}

/* ---- the program ---- */

static bool begin(struct side *s, const struct work *w) {
    const struct options *o = s->o;
    const int64_t floats[] = {(o->bytes ? o->bytes : w->bytes) / (int64_t)sizeof(float)};
    bool hand = !strcmp(o->way, "hand");
    tide_config c = {.struct_size = sizeof c,
                     .collector = "boehm",
                     .limit = o->limit,
                     .policy = hand                        ? "never"
                               : strcmp(o->way, "default") ? o->way
                                                           : NULL,
                     .gc_early = TIDE_ON};
    if (tide_open(&c, &s->rt) != TIDE_OK) return false;
    tidei_runtime_of(s->rt)->gc_counts.clock_ns = policy_ns;
    tidei_runtime_of(s->rt)->gc_counts.clock_is_real = true;
    choose(s, true);
    meet_collector();
    if (w->unit == dense) return model_init(&s->model, s->rt, o->rows, o->features, true);
    return (s->x = tide_ones(s->rt, TIDE_F32, 1, floats)) != NULL;
}

static bool begin_kernel(struct side *s, const char *device) {
    const int64_t n[] = {KERNEL_FLOATS};
    if (strncmp(device, "cuda", 4)) return true;
    s->kernel = tide_ones(s->rt, TIDE_F32, 1, n);
    return kernel_ns(s) != 0; /* compiles it */
}

/* "[hand ]UNITS[ NS]" */
static bool read_turn(const char *line, const struct options *o, struct turn *t) {
    char *end;
    *t = (struct turn){.by_hand = !strncmp(line, "hand ", 5)};
    t->units = strtol(line + (t->by_hand ? 5 : 0), &end, 10);
    if (*end == ' ') t->ns = strtoull(end + 1, &end, 10);
    t->by_hand |= !strcmp(o->way, "hand");
    return t->units >= 1 && *end == '\n';
}

/* Says that it is there, and then takes turns. */
static bool take_turns(struct side *s, const struct work *w) {
    char device[160], line[64];
    struct turn t;
    if (!begin(s, w) || tide_synchronize(s->rt, NULL) != TIDE_OK) return false;
    tide_device_text(s->rt, device, sizeof device);
    if (!begin_kernel(s, device)) return false;
    printf("%s\n", device);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!read_turn(line, s->o, &t)) {
            fprintf(stderr, "collecting-work: a turn wants a number of units, not %s", line);
            exit(2);
        }
        if (!take_turn(s, w, &t)) return false;
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
    struct side s = {.o = &o}; /* on the stack: where the collector looks */
    bool understood = argc >= 3 && argc % 2 && work_named(argv[1]);
    for (int i = 3; understood && i < argc; i += 2) understood = option(&o, argv[i], argv[i + 1]);
    if (!understood) {
        fprintf(stderr, "usage: collecting-work dense|adds|small hand|POLICY [--limit SIZE] "
                        "[--rows N] [--features N]\n"
                        "                       [--batch N] [--bytes N]\n");
        return 2;
    }
    if (!HAVE_BOEHM) return fprintf(stderr, "collecting-work: this build has no bdwgc\n"), 77;
    o.way = argv[2];
    if (!take_turns(&s, work_named(argv[1]))) {
        fprintf(stderr, "collecting-work: %s\n", tide_error_last()->message);
        return 1;
    }
    tide_close(s.rt);
    return 0;
}
