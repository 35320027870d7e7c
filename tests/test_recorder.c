/* test_recorder.c: recordings: what is in them, against what the statistics say; files that cannot be had or written; several
** runtimes, forks, crashes; and the ranges of a tool.
**
** Some cases need a process of their own: this program again, told what to do (main). */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/ticks.h"
#include "tests/fresh_environment.h"
#include "tests/failing_host.h"
#include "tests/works.h"
#include "tools/tide/replay.h"

#define DISK_BYTES 300001 /* of a disk that is soon full; it ends within a row */

static char folder[64]; /* of the case's files */
static char own[1024];  /* this program */

static char *in_folder(const char *name) {
    static char path[32][400]; /* those of a case stay */
    static unsigned next;
    char *p = path[next++ % 32];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void put_file(const char *name, const char *content) {
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
}

static int setup(void **state) {
    (void)fresh_environment(state);
    strcpy(folder, "/tmp/tide_recorder_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') unlink(in_folder(e->d_name));
    if (d) closedir(d);
    rmdir(folder);
    return restore_environment(state);
}

static tide_runtime *open_recording(const char *path, const char *limit) {
    tide_config c = {
        .log = keep_line, .log_level = TIDE_LOG_INFO, .trace = path, .limit = limit, .collector = "refcount"};
    return test_open(&c);
}

/* ---- a program with a bit of everything ---- */

#define BIG ((size_t)8 << 20)

/* Works on two streams that wait for each other, waits, is short of memory without success, collects. */
static void busy_program(tide_runtime *rt) {
    tide_stream *other;
    assert_ok(tide_stream_new(rt, &other));
    for (int i = 0; i < 50; i++) {
        tide_array *a = tide_arange(rt, TIDE_F32, 0, 1000 + i, 1);
        assert_ok(tide_stream_set(rt, other));
        tide_array *b = tide_map(rt, "(a) -> 2*a + 1", a), *c = tide_map(rt, "(a, b) -> sum(a*b)", a, b);
        assert_ok(tide_stream_set(rt, NULL));
        assert_array(c);
        tide_free(a);
        tide_free(b);
        tide_free(c);
    }
    works(rt);
    assert_ok(tide_synchronize(rt, NULL));
    assert_ok(tide_device_synchronize(rt));
    tide_array *held[3];
    for (int i = 0; i < 3; i++) assert_array(held[i] = bytes(rt, BIG));
    assert_null(bytes(rt, 2 * BIG)); /* of a limit of five */
    assert_error(TIDE_E_NOMEM, "out of memory");
    tide_clear_error();
    for (int i = 0; i < 3; i++) tide_free(held[i]);
    assert_ok(tide_collect(rt));
    tide_stream_release(other);
}
#define BUSY_LIMIT "36MiB"

/* The operations that it calls. */
static const struct {
    const char *name;
    long times;
} busy_calls[] = {
    {"tide_arange ", 51}, {"tide_map ", 101},       {"tide_item_f64 ", 1},          {"tide_empty ", 4},
    {"tide_collect ", 1}, {"tide_synchronize ", 1}, {"tide_device_synchronize ", 1}};

static size_t rows_of(const char *path, char op) {
    char line[300];
    size_t n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) n += line[0] == op && line[1] == ',';
    fclose(f);
    return n;
}

static void read_recording(const char *path, tidei_trace *t) {
    assert_ok(tidei_trace_read(path, t));
    size_t ops[3] = {0};
    for (size_t i = 0; i < t->n; i++) ops[t->events[i].op]++;
    assert_int_equal(ops[TIDEI_EVENT_ALLOC], t->blocks);
    assert_int_equal(ops[TIDEI_EVENT_FREE], t->blocks); /* closing freed what was left */
}

/* What the statistics count is in the file, and it plays. */
static void round_trip(void **state) {
    const char *path = in_folder("run.csv");
    tidei_replay_options o = {.device = test_device(), .streams = 1};
    tidei_replay *r;
    tidei_replay_figures f;
    tidei_trace t;
    (void)state;
    tide_runtime *rt = open_recording(path, BUSY_LIMIT);
    busy_program(rt);
    tide_statistics s = test_stats(rt);
    tide_close(rt);
    read_recording(path, &t);
    assert_int_equal(t.blocks, s.allocations);
    assert_int_equal(tidei_replay_peak(&t, 1), s.peak_live);
    assert_int_equal(rows_of(path, 'R'), rows_of(path, 'r'));
    assert_int_equal(rows_of(path, 'C'), rows_of(path, 'c'));
    assert_int_equal(rows_of(path, 'W'), rows_of(path, 'w'));
    assert_true(rows_of(path, 'W') >= s.host_waits); /* closing waits too */
    assert_int_equal(rows_of(path, 'd'), s.device_waits);
    assert_true(rows_of(path, 'R') >= s.climbs + 11 && s.climbs >= 1);
    assert_true(rows_of(path, 'C') >= 2);
    assert_true(rows_of(path, 's') >= 3);
    assert_ok(tidei_replay_open(&o, &t, &r));
    assert_ok(tidei_replay_pass(r, &f));
    assert_int_equal(f.events, t.n);
    assert_int_equal(f.failed, 0);
    assert_int_equal(f.peak_live, s.peak_live);
    tidei_replay_close(r);
    tidei_trace_clear(&t);
}

/* Fields of all rows are numbers, and the times rise. */
static void rows_in_order(void **state) {
    const char *path = in_folder("run.csv");
    char line[300], op;
    unsigned long long id, n, us, last = 0;
    unsigned stream;
    (void)state;
    tide_runtime *rt = open_recording(path, BUSY_LIMIT);
    busy_program(rt);
    tide_close(rt);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "op,id,bytes,stream,time_us\n");
    while (fgets(line, sizeof line, f)) {
        assert_int_equal(sscanf(line, "%c,%llu,%llu,%u,%llu", &op, &id, &n, &stream, &us), 5);
        assert_true(us >= last);
        last = us;
    }
    fclose(f);
}

/* ---- Perfetto's form ---- */

/* What tests/perfetto.py counted under `name`, which is all of the line up to the number. */
static long counted(const char *report, const char *name) {
    const char *at = report;
    size_t n = strlen(name);
    while (at && strncmp(at, name, n) != 0) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    return at ? strtol(at + n, NULL, 10) : 0;
}

/* Runs a command and keeps what it prints; fails the case with that unless it succeeds. */
static void report_of(const char *command, char *report, size_t cap) {
    FILE *p = popen(command, "r");
    assert_non_null(p);
    size_t n = fread(report, 1, cap - 1, p);
    report[n] = 0;
    if (pclose(p)) fail_msg("%s: %s", command, report);
}

static void check_perfetto(const char *path, const char *option, char *report, size_t cap) {
    char command[1400];
    snprintf(command, sizeof command, "python3 '%s/tests/perfetto.py' %s '%s' 2>&1", getenv("TIDE_TEST_SOURCE"),
             option, path);
    report_of(command, report, cap);
}

static void perfetto(void **state) {
    const char *path = in_folder("run.json");
    char report[4000];
    (void)state;
    tide_runtime *rt = open_recording(path, BUSY_LIMIT);
    busy_program(rt);
    tide_statistics s = test_stats(rt);
    tide_close(rt);
    check_perfetto(path, "", report, sizeof report);
    assert_int_equal(counted(report, "C live "), 2 * s.allocations);
    assert_true(counted(report, "C backed ") >= 2);
    assert_true(counted(report, "B climb ") >= (long)s.climbs && s.climbs >= 1);
    assert_int_equal(counted(report, "B trim "), counted(report, "B climb "));
    assert_int_equal(counted(report, "B full collection "), counted(report, "E full collection "));
    assert_true(counted(report, "B full collection ") >= 2);
    assert_true(counted(report, "B wait for a stream ") >= (long)s.host_waits);
    assert_int_equal(counted(report, "i stream waits "), s.device_waits);
    assert_true(counted(report, "i sync point ") >= 3);
    long moved =
        counted(report, "X compaction "); /* where the climb found work in flight, there is something to move */
    assert_int_equal(counted(report, "submitted ") - moved, s.launches + s.copies);
}

/* ---- who writes the file ---- */

static atomic_bool looking, held; /* held: whoever writes waits */
static pthread_t recording;
static atomic_uint writes, own_writes;
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n) {
    if (atomic_load(&looking)) {
        atomic_fetch_add(&writes, 1);
        if (pthread_equal(pthread_self(), recording)) atomic_fetch_add(&own_writes, 1);
    }
    while (atomic_load(&held)) usleep(1000);
    return __real_write(fd, p, n);
}

/* Who records, under a stream's lock too, leaves the text and the file to the recorder's thread. */
static void nobody_waits_for_the_file(void **state) {
    (void)state;
    tide_runtime *rt = open_recording(in_folder("run.json"), NULL);
    tide_array *a = bytes(rt, 100);
    assert_ok(tide_memset(a, 1));
    recording = pthread_self();
    atomic_store(&looking, true);
    for (int i = 0; i < 20000; i++) assert_ok(tide_memset(a, 2));
    atomic_store(&looking, false);
    assert_true(atomic_load(&writes) >= 3);
    assert_int_equal(atomic_load(&own_writes), 0);
    tide_free(a);
    tide_close(rt);
}

/* ---- threads ---- */

enum { THREADS = 4 };
struct worker {
    pthread_t thread;
    tide_runtime *rt;
    tide_stream *shared;
};

/* Half of the work is on a stream of its own, half on one that all share. */
static void *work(void *p) {
    struct worker *w = p;
    tide_stream *mine;
    int rounds = test_quick() ? 100 : 1000;
    assert_ok(tide_stream_new(w->rt, &mine));
    for (int i = 0; i < rounds; i++) {
        assert_ok(tide_stream_set(w->rt, i % 2 ? mine : w->shared));
        tide_array *a = tide_arange(w->rt, TIDE_I64, 0, 100, 1), *b = tide_map(w->rt, "(a) -> a + 1", a);
        assert_array(b);
        if (i % 50 == 0) assert_ok(tide_synchronize(w->rt, NULL));
        if (i % 100 == 0) assert_ok(tide_collect(w->rt));
        tide_free(a);
        tide_free(b);
    }
    assert_ok(tide_stream_set(w->rt, NULL));
    tide_stream_release(mine);
    return NULL;
}

static void work_together(tide_runtime *rt) {
    struct worker w[THREADS];
    tide_stream *shared;
    assert_ok(tide_stream_new(rt, &shared));
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.rt = rt, .shared = shared};
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(w[i].thread, NULL);
    tide_stream_release(shared);
}

static void several_threads(void **state) {
    char report[4000];
    tidei_trace t;
    (void)state;
    const char *json = in_folder("run.json"), *csv = in_folder("run.csv");
    tide_runtime *rt = open_recording(json, NULL);
    work_together(rt);
    tide_statistics s = test_stats(rt);
    tide_close(rt);
    check_perfetto(json, "", report, sizeof report);
    assert_int_equal(counted(report, "C live "), 2 * s.allocations);
    rt = open_recording(csv, NULL);
    work_together(rt);
    s = test_stats(rt);
    tide_close(rt);
    read_recording(csv, &t);
    assert_int_equal(t.blocks, s.allocations);
    tidei_trace_clear(&t);
}

/* ---- the order of the rows ---- */

enum { IDS_BITS = 18, IDS = 1 << IDS_BITS }; /* more than a recording has blocks: each may have an id of its own */
struct block {
    unsigned long long id, bytes; /* id 0: none is here */
    bool alive;
};

static struct block *block_of(struct block *all, unsigned long long id) {
    size_t at = (id >> 4) * 0x9e3779b97f4a7c15u >> (64 - IDS_BITS);
    while (all[at].id && all[at].id != id) at = (at + 1) % IDS;
    all[at].id = id;
    return &all[at];
}

/* Every block is allocated before it is freed and freed before its id is another's, all are freed in the end, and the times
** never fall. Returns how many were allocated. */
static size_t check_order(const char *path) {
    struct block *all = calloc(IDS, sizeof *all);
    char line[300], op;
    unsigned long long id, n, us, last = 0;
    unsigned stream;
    size_t allocated = 0, freed = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(all);
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    while (fgets(line, sizeof line, f)) {
        assert_int_equal(sscanf(line, "%c,%llu,%llu,%u,%llu", &op, &id, &n, &stream, &us), 5);
        assert_true(us >= last);
        last = us;
        if (op != 'a' && op != 'f') continue;
        assert_true(allocated < IDS);
        struct block *b = block_of(all, id);
        assert_int_equal(b->alive, op == 'f');
        if (op == 'f') assert_int_equal(b->bytes, n);
        b->bytes = n;
        b->alive = op == 'a';
        op == 'a' ? allocated++ : freed++;
    }
    fclose(f);
    free(all);
    assert_int_equal(allocated, freed);
    return allocated;
}

enum { EXCHANGERS = 40, SHELVES = 16 }; /* more threads than have a buffer of their own */
struct exchange {
    tide_runtime *rt;
    pthread_barrier_t all; /* of a generation: all of its threads live at the same time */
    _Atomic(tide_array *) shelf[SHELVES];
    atomic_uint names; /* of threads */
};

/* Each array goes onto a shelf, and whose place it takes is freed: it is another thread's as a rule. Each thread has a number
** before the first of them may end. */
static void *exchange(void *p) {
    struct exchange *x = p;
    tide_free(bytes(x->rt, 16));
    pthread_barrier_wait(&x->all);
    unsigned at = atomic_fetch_add(&x->names, 1), rounds = test_quick() ? 100 : 1500;
    for (unsigned i = 0; i < rounds; i++) {
        tide_array *a = bytes(x->rt, 16 * (1 + (at + i) % 50));
        assert_array(a);
        at = at * 5 + 1;
        a = atomic_exchange(&x->shelf[at / 8 % SHELVES], a);
        if (a) tide_free(a);
    }
    return NULL;
}

/* One generation of threads after the other: who comes later has an earlier one's number. */
static void hand_over(const char *path) {
    pthread_t thread[EXCHANGERS];
    struct exchange x = {.rt = open_recording(path, NULL)};
    for (unsigned n = EXCHANGERS; n; n /= 2) {
        assert_int_equal(pthread_barrier_init(&x.all, NULL, n), 0);
        for (unsigned i = 0; i < n; i++) assert_int_equal(pthread_create(&thread[i], NULL, exchange, &x), 0);
        for (unsigned i = 0; i < n; i++) pthread_join(thread[i], NULL);
        pthread_barrier_destroy(&x.all);
    }
    for (unsigned i = 0; i < SHELVES; i++) tide_free(atomic_load(&x.shelf[i]));
    tide_statistics s = test_stats(x.rt);
    tide_close(x.rt);
    if (strstr(path, ".csv")) {
        assert_int_equal(check_order(path), s.allocations);
    } else {
        char report[4000];
        check_perfetto(path, "", report, sizeof report);
        assert_int_equal(counted(report, "C live "), 2 * s.allocations);
    }
}

static void freed_by_others(void **state) {
    (void)state;
    hand_over(in_folder("run.csv"));
    hand_over(in_folder("run.json"));
}

/* ---- a file that is slow ---- */

enum { MANY = 20000 }; /* allocations: more than there is room for their records */
static atomic_uint so_far;

static void *allocate_many(void *rt) {
    for (unsigned i = 0; i < MANY; i++) {
        tide_free(bytes(rt, 100));
        atomic_fetch_add(&so_far, 1);
    }
    return NULL;
}

/* Where nothing can be written, whoever has something to record waits in the end, and nothing is lost. */
static void waits_for_room(void **state) {
    const char *path = in_folder("run.csv");
    pthread_t thread[2];
    (void)state;
    tide_runtime *rt = open_recording(path, NULL);
    atomic_store(&so_far, 0);
    atomic_store(&held, true);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, allocate_many, rt), 0);
    for (unsigned before = 1, now = 0; now != before; now = atomic_load(&so_far)) {
        before = now;
        usleep(200000);
    }
    unsigned held_at = atomic_load(&so_far);
    atomic_store(&held, false);
    for (unsigned i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert_true(held_at < 2 * MANY);
    tide_close(rt);
    assert_int_equal(check_order(path), 2 * MANY);
}

static atomic_bool changing;

static void *change_backed(void *p) {
    tide_runtime *rt = p;
    while (atomic_load(&changing)) {
        atomic_fetch_add(&rt->backed, 4096);
        atomic_fetch_sub(&rt->backed, 4096);
    }
    return NULL;
}

/* However often what is backed changes while a span is added, its entries find room: none is written over. */
static void spans_while_backing_changes(void **state) {
    static const tidei_span span = {TIDEI_SPAN_COLLECTION, 1, "made-up collection", NULL};
    const char *path = in_folder("run.json");
    const unsigned spans = test_quick() ? 10000 : 60000; /* they fill a thread's room dozens of times */
    char report[4000];
    pthread_t thread;
    (void)state;
    tide_runtime *rt = open_recording(path, NULL);
    atomic_store(&changing, true);
    assert_int_equal(pthread_create(&thread, NULL, change_backed, rt), 0);
    for (unsigned i = 0; i < spans; i++) {
        tidei_span_begin(rt, &span, 1);
        tidei_span_end(rt, &span, 1);
    }
    atomic_store(&changing, false);
    pthread_join(thread, NULL);
    tide_close(rt);
    check_perfetto(path, "", report, sizeof report);
    assert_int_equal(counted(report, "B made-up collection "), spans);
    assert_int_equal(counted(report, "E made-up collection "), spans);
}

/* What was recorded gets into the file though nothing follows it. */
static void written_in_time(void **state) {
    const char *path = in_folder("run.csv");
    (void)state;
    tide_runtime *rt = open_recording(path, NULL);
    works(rt);
    for (unsigned i = 0; i < 3000 && !rows_of(path, 'a'); i++) usleep(10000);
    assert_true(rows_of(path, 'a') > 0);
    tide_close(rt);
}

/* In microseconds, of the last row of the kind. */
static unsigned long long time_of(const char *path, char op) {
    char line[300];
    unsigned long long us = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (line[0] == op && line[1] == ',') us = strtoull(strrchr(line, ',') + 1, NULL, 10);
    fclose(f);
    return us;
}

/* As the system's clock has them, up to what two looks at a clock are apart. */
static void times_are_right(void **state) {
    const char *path = in_folder("run.csv");
    const uint64_t pause_us = 50000, apart_us = 1000;
    (void)state;
    uint64_t start = tidei_now_ns();
    tide_runtime *rt = open_recording(path, NULL);
    tide_array *a = bytes(rt, 100);
    usleep((useconds_t)pause_us);
    tide_free(a);
    tide_close(rt);
    uint64_t all_us = (tidei_now_ns() - start) / 1000;
    assert_true(time_of(path, 'f') + apart_us >= time_of(path, 'a') + pause_us);
    assert_true(time_of(path, 'f') <= all_us + apart_us);
}

/* ---- the clock ---- */

#define BATCH_NS ((uint64_t)1000000) /* from one comparison of the clocks to the next */
#define COUNTED                                                                                                    \
    ((uint64_t)1 << 50) /* where the made-up counter stands at the start; it has two ticks a nanosecond */

static void assert_close(uint64_t ns, uint64_t expected, uint64_t apart) {
    assert_in_range(ns, expected > apart ? expected - apart : 0, expected + apart);
}

/* The counter is `jump` ticks further in the middle of batch 3. Times of that batch stay in it, those of others are right. */
static void check_jump(uint64_t jump) {
    const uint64_t start_ns = 12345;
    tidei_pace p = {.start_ns = start_ns, .before = {COUNTED, 0}, .now = {COUNTED, 0}};
    uint64_t zero = COUNTED;
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t begin = i * BATCH_NS, end = begin + BATCH_NS, early = begin + BATCH_NS / 4,
                 late = end - BATCH_NS / 4;
        uint64_t early_ticks = zero + 2 * early;
        if (i == 3) zero += jump;
        uint64_t late_ticks = zero + 2 * late;
        tidei_pace_add(&p, zero + 2 * end, start_ns + end);
        if (i == 3) {
            assert_in_range(tidei_pace_ns(&p, early_ticks), begin, end);
            assert_in_range(tidei_pace_ns(&p, late_ticks), begin, end);
        } else {
            assert_close(tidei_pace_ns(&p, early_ticks), early, 1);
            assert_close(tidei_pace_ns(&p, late_ticks), late, 1);
            assert_close(tidei_pace_ns(&p, zero + 2 * begin), begin, 1);
        }
        assert_in_range(tidei_pace_ns(&p, 0), 0, end);
        assert_int_equal(tidei_pace_ns(&p, UINT64_MAX), i == 3 && (int64_t)jump < 0 ? begin : end);
    }
}

static void counter_jumps(void **state) {
    (void)state;
    check_jump(0);
    check_jump(BATCH_NS);
    check_jump((uint64_t)1 << 62);
    check_jump(-2 * BATCH_NS); /* it stood still */
    check_jump(-COUNTED);      /* it began anew */
}

/* An entry that comes late, or began long ago, has its time all the same. */
static void times_from_before(void **state) {
    tidei_pace p = {.before = {COUNTED, 0}, .now = {COUNTED, 0}};
    (void)state;
    for (uint64_t i = 1; i <= 5; i++) tidei_pace_add(&p, COUNTED + 2 * i * BATCH_NS, i * BATCH_NS);
    for (uint64_t ns = 0; ns <= 5 * BATCH_NS; ns += BATCH_NS / 10)
        assert_close(tidei_pace_ns(&p, COUNTED + 2 * ns), ns, 1);
}

/* Where there is no counter ticks are the system's nanoseconds. With one they are as far apart. */
static void both_clocks(void **state) {
    const uint64_t apart_ns = 1000000;
    (void)state;
    for (int counter = 0; counter <= tidei_ticks_have_counter(); counter++) {
        const tidei_ticks t = {.counter = counter};
        tidei_pace p;
        tidei_pace_start(&p, &t);
        for (int i = 0; i < 3; i++) {
            usleep(1000);
            uint64_t ns = tidei_now_ns(), ticks = tidei_ticks_now(&t);
            if (!counter) assert_in_range(ticks, ns, tidei_now_ns());
            usleep(1000);
            tidei_pace_compare(&p, &t);
            assert_close(tidei_pace_ns(&p, ticks), ns - p.start_ns, apart_ns);
            assert_true(tidei_pace_ns(&p, ticks) < p.now.ns);
        }
    }
}

/* ---- files ---- */

static void bad_names(void **state) {
    static const char *const bad[] = {"run", "run.txt", ".csv", "runs/.json", "run.csv.gz"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        tide_config c = {.struct_size = sizeof c, .device = test_device(), .trace = bad[i]};
        tide_runtime *rt = NULL;
        assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "the field for TIDE_TRACE is \"");
        assert_error(TIDE_E_INVALID, "a file's name that ends in .csv or .json");
        tide_clear_error();
        logged.n = 0;
        setenv("TIDE_TRACE", bad[i], 1);
        setenv("TIDE_LOG", "warning", 1);
        rt = open_logged(false);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_TRACE"), 1);
        works(rt);
        tide_close(rt);
        unsetenv("TIDE_TRACE");
    }
}

/* A folder that is not there, one in place of the file, and a pipe. */
static void no_file(void **state) {
    const char *pipe = in_folder("pipe.csv");
    const char *bad[] = {in_folder("absent/run.csv"), in_folder("folder.json"), pipe};
    (void)state;
    assert_int_equal(mkfifo(pipe, 0600), 0);
    int reader = open(pipe, O_RDONLY | O_NONBLOCK);
    assert_int_equal(mkdir(bad[1], 0700), 0);
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        tide_config c = {.struct_size = sizeof c, .device = test_device(), .trace = bad[i]};
        tide_runtime *rt = NULL;
        assert_int_equal(tide_open(&c, &rt), TIDE_E_IO);
        assert_error(TIDE_E_IO, bad[i]);
        assert_error(TIDE_E_IO, "cannot be recorded into");
        tide_clear_error();
        logged.n = 0;
        setenv("TIDE_TRACE", bad[i], 1);
        setenv("TIDE_LOG", "warning", 1);
        rt = open_logged(false);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_TRACE"), 1);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "nothing is recorded"), 1);
        assert_int_equal(tide_last_error()->status, TIDE_OK);
        works(rt);
        tide_close(rt);
        unsetenv("TIDE_TRACE");
    }
    close(reader);
    rmdir(bad[1]);
}

/* tide_config's wins, and the environment's serves without one. */
static void by_environment(void **state) {
    (void)state;
    setenv("TIDE_TRACE", in_folder("environment.csv"), 1);
    tide_runtime *rt = open_recording(in_folder("config.csv"), NULL);
    tide_close(rt);
    assert_int_equal(access(in_folder("config.csv"), F_OK), 0);
    assert_int_equal(access(in_folder("environment.csv"), F_OK), -1);
    rt = test_open(NULL);
    works(rt);
    tide_close(rt);
    assert_true(rows_of(in_folder("environment.csv"), 'a') > 0);
}

/* A full disk: one warning, and everything goes on. The device has that in place of a disk. */
static void full_disk(void **state) {
    (void)state;
    for (int json = 0; json < 2; json++) {
        const char *path = in_folder(json ? "full.json" : "full.csv");
        assert_int_equal(symlink("/dev/full", path), 0);
        logged.n = 0;
        tide_runtime *rt = open_recording(path, BUSY_LIMIT);
        busy_program(rt);
        assert_int_equal(tide_last_error()->status, TIDE_OK);
        tide_close(rt);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "recording ends here"), 1);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "No space left"), 1);
    }
}

/* Of two recordings that were cut off, each with thousands of allocations. */
static void can_be_read(const char *csv, const char *json, const char *option) {
    char report[4000];
    tidei_trace t;
    assert_ok(tidei_trace_read(csv, &t));
    assert_true(t.blocks > 1000);
    tidei_trace_clear(&t);
    check_perfetto(json, option, report, sizeof report);
    assert_true(counted(report, "C live ") > 1000);
}

/* A disk that becomes full: what was written before can be read. */
static void disk_that_fills(void **state) {
    char command[1400], report[4000];
    struct stat s;
    (void)state;
    test_needs_children();
    const char *csv = in_folder("run.csv"), *json = in_folder("run.json");
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "'%s' --fill '%s' 2>&1", own, i ? json : csv);
        report_of(command, report, sizeof report);
        assert_non_null(strstr(report, "recording ends here"));
    }
    assert_int_equal(stat(csv, &s), 0);
    assert_true(s.st_size > DISK_BYTES / 2 && s.st_size <= DISK_BYTES);
    can_be_read(csv, json, "--cut");
}

/* Whoever comes later to a name takes the next one, at the same time or afterwards, and by whatever name it goes. */
static void several_runtimes(void **state) {
    const char *path = in_folder("run.csv");
    tide_runtime *rt[4];
    (void)state;
    put_file("run.2.csv", "op,id,bytes,stream,time_us\na,1,2,3,4\n"); /* of an earlier process */
    rt[0] = open_recording(path, NULL);
    rt[1] = open_recording(path, NULL);
    works(rt[0]);
    tide_close(rt[0]);
    rt[2] = open_recording(path, NULL);
    char other[200];
    snprintf(other, sizeof other, "%s/../%s/run.csv", folder, strrchr(folder, '/') + 1);
    rt[3] = open_recording(other, NULL);
    assert_int_equal(lines_with(TIDE_LOG_INFO, "records into "), 4);
    assert_int_equal(lines_with(TIDE_LOG_INFO, "run.4.csv"), 1);
    for (int i = 1; i < 4; i++) {
        for (int k = 0; k <= i; k++) works(rt[i]);
        tide_close(rt[i]);
    }
    size_t one = rows_of(path, 'a');
    assert_true(one > 0);
    assert_int_equal(rows_of(in_folder("run.2.csv"), 'a'), 2 * one);
    assert_int_equal(rows_of(in_folder("run.3.csv"), 'a'), 3 * one);
    assert_int_equal(rows_of(in_folder("run.4.csv"), 'a'), 4 * one);
}

/* A numbered name is nobody's wish: what lies there, and is no recording of that form, is left alone. */
static void files_of_others(void **state) {
    (void)state;
    static const char *const others[] = {"op,id,bytes", "id,op\n1,2\n", "op,id,bytes,stream,time_ns\n", "[]\n",
                                         "\n"};
    char name[32], got[64];
    for (unsigned json = 0; json < 2; json++) {
        const char *suffix = json ? "json" : "csv";
        snprintf(name, sizeof name, "run.%s", suffix);
        put_file(name, others[1]); /* what was asked for is written over */
        tide_runtime *first = open_recording(in_folder(name), NULL);
        for (unsigned i = 0; i < TIDEI_COUNT(others); i++) {
            snprintf(name, sizeof name, "run.%u.%s", i + 2, suffix);
            put_file(name, others[i]);
        }
        snprintf(name, sizeof name, "run.%u.%s", (unsigned)TIDEI_COUNT(others) + 2, suffix);
        put_file(name, "");
        logged.n = 0;
        snprintf(got, sizeof got, "run.%s", suffix);
        tide_runtime *second = open_recording(in_folder(got), NULL);
        assert_int_equal(lines_with(TIDE_LOG_INFO, name), 1);
        works(second);
        tide_close(second);
        tide_close(first);
        for (unsigned i = 0; i < TIDEI_COUNT(others); i++) {
            snprintf(name, sizeof name, "run.%u.%s", i + 2, suffix);
            FILE *f = fopen(in_folder(name), "r");
            assert_non_null(f);
            got[fread(got, 1, sizeof got - 1, f)] = 0;
            fclose(f);
            assert_string_equal(got, others[i]);
        }
    }
}

/* A file that was removed is no longer anybody's, though the next one may get its number. */
static void removed_file(void **state) {
    const char *path = in_folder("run.csv");
    (void)state;
    for (int i = 0; i < 5; i++) {
        tide_runtime *rt = open_recording(path, NULL);
        works(rt);
        tide_close(rt);
        assert_true(rows_of(path, 'a') > 0);
        assert_int_equal(unlink(path), 0);
    }
}

/* A file that another process records into is left to it. */
static void another_process(void **state) {
    const char *path = in_folder("run.csv");
    char command[1400], report[2000];
    tidei_trace t;
    (void)state;
    test_needs_children();
    tide_runtime *rt = open_recording(path, NULL);
    works(rt);
    snprintf(command, sizeof command, "'%s' --work '%s' 2>&1", own, path);
    report_of(command, report, sizeof report);
    works(rt);
    tide_close(rt);
    read_recording(path, &t);
    tidei_trace_clear(&t);
    assert_true(rows_of(in_folder("run.2.csv"), 'a') > 0);
}

/* A fork's child adds nothing, whatever it tries. */
static void forked_child(void **state) {
    const char *path = in_folder("run.json");
    char report[4000];
    (void)state;
    test_needs_children();
    tide_runtime *rt = open_recording(path, NULL);
    tide_array *a = bytes(rt, 1000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        tide_array *b = bytes(rt, 1000);
        bool refused = !b && tide_last_error()->status == TIDE_E_FORKED;
        tide_free(a);
        tide_close(rt);
        exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tide_free(a);
    works(rt);
    tide_statistics s = test_stats(rt);
    tide_close(rt);
    check_perfetto(path, "", report, sizeof report);
    assert_int_equal(counted(report, "C live "), 2 * s.allocations);
}

/* The end of a process may come in the middle of a write. */
static void drop_torn_row(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    long whole = 0, at = 0;
    for (int c; (c = getc(f)) != EOF;) {
        at++;
        if (c == '\n') whole = at;
    }
    fclose(f);
    assert_true(whole > 0 && at - whole < 300);
    assert_int_equal(truncate(path, whole), 0);
}

/* What was written before a crash can be read, but for a last row that was cut short. */
static void after_a_crash(void **state) {
    char command[1400], report[4000];
    (void)state;
    test_needs_children();
    const char *csv = in_folder("crash.csv"), *json = in_folder("crash.json");
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "'%s' --crash '%s' 2>&1", own, i ? json : csv);
        report_of(command, report, sizeof report);
    }
    drop_torn_row(csv);
    can_be_read(csv, json, "--torn");
}

/* Each allocation of host memory gets its turn to fail: no leak, a clear error. */
static void host_memory_ends(void **state) {
    const tide_host_memory host = {failing_alloc, plain_free, NULL};
    tide_status status = TIDE_E_HOST_NOMEM;
    (void)state;
    for (long turn = 1; status != TIDE_OK; turn++) {
        tide_config c = {.struct_size = sizeof c,
                         .device = test_device(),
                         .collector = "refcount",
                         .host = &host,
                         .trace = in_folder("run.csv")};
        tide_runtime *rt = NULL;
        host_calls = 0;
        host_fails = turn;
        status = tide_open(&c, &rt);
        host_fails = 0;
        assert_true(turn < 1000 && (status == TIDE_OK || status == TIDE_E_HOST_NOMEM));
        tide_clear_error();
        if (status == TIDE_OK) works(rt);
        tide_close(rt);
    }
}

/* ---- a tool ---- */

static void tool_report(const char *tool, const char *kind, char *report, size_t cap) {
    char command[2600];
    snprintf(command, sizeof command, "NVTX_INJECTION64_PATH='%s' TIDE_TEST_NVTX='%s' '%s' --work '%s' 2>&1", tool,
             kind, own, in_folder("run.csv"));
    report_of(command, report, cap);
}

/* Ranges are what the recording has and what was called, and end where they began. */
static void ranges(void **state) {
    static const char *const kinds[] = {"domains", "core"};
    char report[4000];
    (void)state;
    test_needs_children();
    for (size_t i = 0; i < TIDEI_COUNT(kinds); i++) {
        unlink(in_folder("run.csv"));
        tool_report(TIDE_TEST_NVTX_TOOL, kinds[i], report, sizeof report);
        const char *path = in_folder("run.csv");
        long spans = (long)(rows_of(path, 'C') + rows_of(path, 'R') + rows_of(path, 'W')), calls = 0;
        for (size_t k = 0; k < TIDEI_COUNT(busy_calls); k++) {
            if (counted(report, busy_calls[k].name) != busy_calls[k].times)
                fail_msg("%s: not %ld in %s", busy_calls[k].name, busy_calls[k].times, report);
            calls += busy_calls[k].times;
        }
        long all = spans + calls;
        assert_true(spans > 12);
        assert_int_equal(counted(report, "begun "), all);
        assert_int_equal(counted(report, "ended "), all);
        assert_int_equal(counted(report, "strays "), 0);
        assert_true(counted(report, "climb ") >= 1);
        assert_int_equal(counted(report, "settle "), counted(report, "climb "));
        assert_int_equal(counted(report, "wait for a stream "), rows_of(path, 'W'));
        assert_true(counted(report, "full collection ") >= 2);
    }
}

/* A tool that does not want to, and what is none, are warnings. */
static void no_tool(void **state) {
    char report[4000];
    (void)state;
    test_needs_children();
    tool_report(TIDE_TEST_NVTX_TOOL, "refuse", report, sizeof report);
    assert_non_null(strstr(report, "NVTX_INJECTION64_PATH="));
    assert_non_null(strstr(report, "it refused"));
    assert_int_equal(counted(report, "begun "), 0);
    tool_report("/absent/tool.so", "", report, sizeof report);
    assert_non_null(strstr(report, "is of no use: /absent/tool.so"));
}

/* ---- processes of their own ---- */

static int work_alone(const char *path) {
    setenv("TIDE_LOG", "warning", 1);
    tide_runtime *rt = test_open(&(tide_config){.trace = path, .limit = BUSY_LIMIT, .collector = "refcount"});
    busy_program(rt);
    tide_close(rt);
    return 0;
}

static tide_runtime *allocate_a_lot(const char *path) {
    tide_runtime *rt = test_open(&(tide_config){.trace = path, .collector = "refcount"});
    for (int i = 0; i < 20000; i++) tide_free(bytes(rt, 100));
    return rt;
}

static int crash(const char *path) {
    allocate_a_lot(path);
    _exit(0); /* without tide_close */
}

static int fill(const char *path) {
    struct rlimit most = {DISK_BYTES, DISK_BYTES};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &most)) return 1;
    setenv("TIDE_LOG", "warning", 1);
    tide_close(allocate_a_lot(path));
    return 0;
}

int main(int argc, char **argv) {
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n < 0) return 1;
    if (argc == 3 && !strcmp(argv[1], "--work")) return work_alone(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--crash")) return crash(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--fill")) return fill(argv[2]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(round_trip),
        CASE(rows_in_order),
        CASE(perfetto),
        CASE(several_threads),
        CASE(freed_by_others),
        CASE(waits_for_room),
        CASE(spans_while_backing_changes),
        CASE(written_in_time),
        CASE(times_are_right),
        CASE(counter_jumps),
        CASE(times_from_before),
        CASE(both_clocks),
        CASE(bad_names),
        CASE(no_file),
        CASE(by_environment),
        CASE(full_disk),
        CASE(disk_that_fills),
        CASE(several_runtimes),
        CASE(removed_file),
        CASE(files_of_others),
        CASE(nobody_waits_for_the_file),
        CASE(another_process),
        CASE(forked_child),
        CASE(after_a_crash),
        CASE(host_memory_ends),
        CASE(ranges),
        CASE(no_tool),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
