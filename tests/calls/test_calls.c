/* test_calls.c: calls every public function with random arguments: sound ones, and NULL, freed,
** ended, foreign and senseless ones, numbers at the ends of their types, in a runtime whose memory
** is nearly exhausted. What a call may draw, and what is left out, stands in tests/calls/calls.h;
** what is judged in tests/calls/judge.c.
**
**     test_calls             as many worlds as the build is meant to have, one by one, then threads
**     test_calls SEED [N]    one world, of that seed, for N calls; a failure says what to give here
**     test_calls threads SEED [N]    four threads that share a runtime
** TIDE_TEST_TRACE=1 shows each call; TIDE_TEST_TABLE=1 shows at the end how often each function
** worked and failed; TIDE_TEST_LONG=1 makes ten times as many calls.
**
** A failure shows the last calls, numbered, in a form that is nearly C. A "!" stands where an error
** of an earlier call stood in the thread's record. Calls further in are made by callbacks. */
#include "tests/calls/calls.h"
#include "api_table.h"
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tide/pool.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
/* bdwgc scans stacks, and does not see what AddressSanitizer moved to its own. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_stack_use_after_return=0:abort_on_error=1";
}
#endif
#if defined(__SANITIZE_THREAD__)
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "halt_on_error=1:abort_on_error=1"; }
/* OpenBLAS's threads share a matrix by means that ThreadSanitizer does not see. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:libopenblas.so\n"; }
#endif

enum { THREADS = 4, WORLD_CALLS = 10000 };
/* the last one is the main thread's. Static: a collector sees the arrays in it */
static world worlds[THREADS + 1];
static volatile sig_atomic_t ending;
static bool threaded;
static char folder[64];

static bool switched(const char *variable) {
    const char *e = getenv(variable);
    return e && *e && strcmp(e, "0") != 0;
}

/* ---- when it ends badly ---- */

static void show(const world *w) {
    char text[256];
    if (!w->line) return;
    show_world(w, 2);
    int n =
        snprintf(text, sizeof text, "\nto see it again: test_calls %s%" PRIu64 " %" PRIu64 "\n\n",
                 threaded ? "threads " : "", w->seed_given, w->done + 1);
    (void)!write(2, text, (size_t)n);
}

static void on_signal(int number) {
    if (!ending) {
        ending = 1;
        for (int i = 0; i <= THREADS; i++) show(&worlds[i]);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals(void) {
    static const int numbers[] = {
        SIGABRT,
        SIGTERM,
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        SIGSEGV,
        SIGBUS,
        SIGFPE,
        SIGILL
#endif
    };
    for (size_t i = 0; i < TIDEI_COUNT(numbers); i++) signal(numbers[i], on_signal);
}

/* ---- files ---- */

static bool is_expected(const char *name) {
    return name[0] == '.' ? !name[1 + (name[1] == '.')]
                          : !strncmp(name, "run.", 4) || !strcmp(name, "cache") ||
                                (name[0] == 'f' && !strcmp(name + 2, ".npy"));
}

/* Nothing of the library's own is left in the folder, such as a file that was to be renamed.
** Empties it. */
static bool clean_folder(void) {
    bool clean = true;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[512];
        if (!is_expected(e->d_name)) {
            fprintf(stderr, "%s is left in the folder\n", e->d_name);
            clean = false;
        }
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.' && unlink(path)) (void)!rmdir(path);
    }
    if (d) closedir(d);
    return clean;
}

/* ---- one thread ---- */

static void begin(world *w, uint64_t seed, unsigned number, bool alone) {
    world_begin(w, seed, number, alone);
    w->traced = switched("TIDE_TEST_TRACE");
    snprintf(w->folder, sizeof w->folder, "%s", folder);
}

static bool run_alone(uint64_t seed, uint64_t calls) {
    world *w = &worlds[THREADS];
    begin(w, seed, 0, true);
    while (w->done < calls) world_step(w);
    world_end(w);
    tide_torch_close();
    here = NULL;
    return clean_folder();
}

/* ---- four threads ---- They share a runtime, streams, pools and arrays that all only read; and
** hand arrays over. */

enum { SHARED = 6, BOXES = 8 };
static struct {
    pthread_mutex_t lock;
    array at[BOXES];
} boxes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static array *give_away(world *w) {
    for (unsigned i = 0, from = below(w, ARRAYS); i < ARRAYS; i++) {
        array *x = &w->arrays[(from + i) % ARRAYS];
        if (x->a && !x->shared && !x->busy && x->rt == 0 && x->counted && !x->scope &&
            x->in->holders == 1 && !x->in->frozen && !x->in->unordered)
            return x;
    }
    return NULL;
}

/* An array of this thread for one that another has given. */
static void hand_over(world *w) {
    array *x = give_away(w), *box = &boxes.at[below(w, BOXES)];
    if (!x) return;
    array given = *x;
    if (given.digested_at != x->in->version) given.digested = false;
    content *in = x->in;
    pthread_mutex_lock(&boxes.lock);
    array got = *box;
    *box = given;
    pthread_mutex_unlock(&boxes.lock);
    *in = (content){.holders = 1};
    *x = got;
    x->in = in;
    x->digested_at = 0;
    if (x->a)
        snprintf(x->name, sizeof x->name, "a%u", ++w->serial);
    else
        in->holders = 0;
}

static uint64_t calls_each;
static void *run_beside(void *arg) {
    world *w = arg;
    here = w;
    while (w->done < calls_each) {
        world_step(w);
        if (w->done % 16 == 0) hand_over(w);
    }
    world_end(w);
    here = NULL;
    return NULL;
}

static void share_arrays(world *m) {
    for (int i = 0; i < SHARED; i++) {
        int64_t dims[] = {3, 4};
        tide_dtype t = (tide_dtype)(i * 2 + 1);
        tide_array *a = tide_from_host(m->runtimes[0].ref, t, 2, dims, m->data);
        if (a) world_add(m, a, 0, NULL)->shared = true;
    }
    for (int i = 0; i < 2; i++) {
        tide_stream *s;
        tide_pool *p;
        if (tide_stream_new(m->runtimes[0].ref, &s) == TIDE_OK)
            world_thing(m, TIDEI_REF_STREAM, s, 0)->shared = true;
        if (tide_pool_new(m->runtimes[0].ref, NULL, &p) == TIDE_OK)
            world_thing(m, TIDEI_REF_POOL, p, 0)->shared = true;
    }
}

static void take_part(world *w, const world *m) {
    runtime *r = &w->runtimes[0];
    const runtime *of = &m->runtimes[0];
    r->ref = of->ref;
    r->shared = true;
    r->devices = of->devices;
    r->memory = of->memory;
    r->checked = of->checked;
    memcpy(r->name, of->name, sizeof r->name);
    for (int i = 0; i < ARRAYS; i++)
        if (m->arrays[i].shared) {
            w->arrays[i] = m->arrays[i];
            w->contents[i] = (content){.holders = 1, .common = true};
            w->arrays[i].in = &w->contents[i];
        }
    for (int i = 0; i < THINGS; i++)
        if (m->things[i].shared) w->things[i] = m->things[i];
}

static void drop_shared(world *m) {
    for (int i = 0; i < BOXES; i++) {
        for (unsigned n = boxes.at[i].refs; n; n--) tide_release(boxes.at[i].a);
        boxes.at[i].a = NULL;
        boxes.at[i].refs = 0;
    }
    for (int i = 0; i < ARRAYS; i++) m->arrays[i].shared = false;
    for (int i = 0; i < THINGS; i++) m->things[i].shared = false;
}

static void look_at_notes(world *w) {
    for (int i = 0; i < NOTES; i++)
        if (w->notes[i].used && w->notes[i].rt == 0 && w->notes[i].told != 1)
            broken(w, "the shared runtime is closed, and a death was told %u times",
                   w->notes[i].told);
    for (int i = 0; i < COLLECTORS; i++)
        if (w->collectors[i].attached)
            broken(w, "the shared runtime is closed, and a collector was not detached");
}

static bool run_threads(uint64_t seed, uint64_t calls) {
    pthread_t t[THREADS];
    world *m = &worlds[THREADS];
    calls_each = calls;
    threaded = true;
    begin(m, seed, THREADS, false);
    while (!m->runtimes[0].ref) run_named(m, "tide_open", NOBODY);
    share_arrays(m);
    for (unsigned i = 0; i < THREADS; i++) {
        begin(&worlds[i], seed, i, false);
        take_part(&worlds[i], m);
    }
    here = m;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, run_beside, &worlds[i])) abort();
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    look_at_runtime(m, &m->runtimes[0], true);
    drop_shared(m);
    world_end(m);
    for (int i = 0; i < THREADS; i++) look_at_notes(&worlds[i]);
    here = NULL;
    threaded = false;
    return clean_folder();
}

/* ---- all functions ---- */

static bool is_row(const char *name) {
    for (unsigned i = 0; i < calls_count(); i++)
        if (!strcmp(calls_at(i)->name, name)) return true;
    return false;
}

static bool rows_are_functions(void) {
    bool all = true;
    for (size_t i = 0; i < API_FUNCTIONS; i++) {
        if (is_row(api_functions[i].name)) continue;
        fprintf(stderr, "%s is called by no row of tests/calls\n", api_functions[i].name);
        all = false;
    }
    if (API_FUNCTIONS == calls_count()) return all;
    fprintf(stderr, "%zu functions and %u rows\n", API_FUNCTIONS, calls_count());
    return false;
}

/* Each function has worked, and failed if it can. */
static bool all_were_tried(void) {
    bool all = true;
    for (unsigned i = 0; i < calls_count(); i++) {
        const call *c = calls_at(i);
        uint64_t worked = calls_tally(i)->worked, failed = calls_tally(i)->failed;
        if (switched("TIDE_TEST_TABLE"))
            printf("# %-28s %8" PRIu64 " %8" PRIu64 "\n", c->name, worked, failed);
        if (!(worked || c->flags & NEVER_WORKS) || !(failed || c->flags & NEVER_FAILS)) {
            fprintf(stderr, "%s worked %" PRIu64 " times and failed %" PRIu64 " times\n", c->name,
                    worked, failed);
            all = false;
        }
    }
    return all;
}

/* ---- the program ---- */

static int cases, failures;
static void tell(bool good, const char *what) {
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++cases, what);
    fflush(stdout);
    failures += !good;
}

static uint64_t calls_alone(void) {
#if defined(__SANITIZE_THREAD__)
    return WORLD_CALLS / 2;
#endif
    return switched("TIDE_TEST_LONG") ? 1000000 : 100000;
}

static uint64_t calls_beside(void) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return switched("TIDE_TEST_LONG") ? 20000 : 3000;
#endif
    return switched("TIDE_TEST_LONG") ? 100000 : 6000;
}

static void run_all(void) {
    const char *given = getenv("TIDE_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1, calls = calls_alone();
    bool clean = true;
    tell(rows_are_functions(), "every function has a row");
    for (uint64_t n = 0; n < calls; n += WORLD_CALLS)
        clean = run_alone(seed++, WORLD_CALLS) && clean;
    tell(clean, "one thread");
    clean = true;
    for (int round = 0; round < 3; round++)
        clean = run_threads(seed++, calls_beside() / 3) && clean;
    tell(clean, "four threads");
    /* fewer miss some */
    if (calls >= 100000) tell(all_were_tried(), "every function worked, and failed");
}

int main(int argc, char **argv) {
    bool beside = argc > 1 && !strcmp(argv[1], "threads");
    char **rest = argv + 1 + beside;
    snprintf(folder, sizeof folder, "/tmp/tide-calls-XXXXXX");
    if (!mkdtemp(folder)) return perror(folder), 1;
    /* for what has no configuration, or that of an older caller */
    setenv("TIDE_HOST_DEVICE_MEMORY", "4MiB", 1);
    setenv("TIDE_PINNED_LIMIT", "4MiB", 1);
    setenv("TIDE_DEVICE", "host", 1);
    unsetenv("TIDE_POOL");
    catch_signals();
    calls_begin();
    if (*rest) {
        uint64_t seed = strtoull(rest[0], NULL, 0),
                 calls = rest[1] ? strtoull(rest[1], NULL, 0) : WORLD_CALLS;
        tell((beside ? run_threads : run_alone)(seed, calls),
             beside ? "four threads" : "one thread");
        (void)(switched("TIDE_TEST_TABLE") && all_were_tried());
    } else {
        run_all();
    }
    printf("1..%d\n", cases);
    rmdir(folder);
    return failures != 0;
}
