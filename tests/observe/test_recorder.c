/* test_recorder.c: recordings: what is in them, against what the statistics say, from several
** threads at once and with a file that is slow; and the ranges of a tool. Their files are
** test_recorder_files.c's.
**
** Some cases need a process of their own: this program again, told what to do (main). */
#include "tests/observe/recordings.h"

/* ---- rows ---- */

/* What the statistics count is in the file, and it plays. */
static void a_recording_is_read_and_plays(void **state) {
    const char *path = in_folder("run.csv");
    tidei_replay_options o = {.device = test_device(), .streams = 1};
    tidei_replay *r;
    tidei_replay_figures f;
    tidei_trace t;
    (void)state;
    tide_runtime *rt = open_recording(path, BUSY_LIMIT);
    busy_program(rt);
    tide_runtime_figures s = test_stats(rt);
    tide_close(rt);
    read_recording(path, &t);
    assert_int_equal(t.blocks, s.allocations);
    assert_int_equal(tidei_replay_peak(&t, 1), s.peak_live);
    assert_int_equal(rows_of(path, 'R'), rows_of(path, 'r'));
    assert_int_equal(rows_of(path, 'C'), rows_of(path, 'c'));
    assert_int_equal(rows_of(path, 'W'), rows_of(path, 'w'));
    assert_true(rows_of(path, 'W') >= s.host_waits); /* closing waits too */
    assert_int_equal(rows_of(path, 'd'), s.device_waits);
    assert_true(rows_of(path, 'R') >= s.climbs + 12 && s.climbs >= 1);
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

static void perfettos_form_is_read(void **state) {
    const char *path = in_folder("run.json");
    char report[4000];
    (void)state;
    tide_runtime *rt = open_recording(path, BUSY_LIMIT);
    busy_program(rt);
    tide_runtime_figures s = test_stats(rt);
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
    /* where the climb found work in flight, there is something to move */
    long moved = counted(report, "X compaction ");
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
        tide_array *a = tide_arange(w->rt, TIDE_I64, 0, 100, 1),
                   *b = tide_map(w->rt, "(a) -> a + 1", a);
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

static void several_threads_are_recorded(void **state) {
    char report[4000];
    tidei_trace t;
    (void)state;
    const char *json = in_folder("run.json"), *csv = in_folder("run.csv");
    tide_runtime *rt = open_recording(json, NULL);
    work_together(rt);
    tide_runtime_figures s = test_stats(rt);
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

/* more than a recording has blocks: each may have an id of its own */
enum { IDS_BITS = 18, IDS = 1 << IDS_BITS };
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

/* Every block is allocated before it is freed and freed before its id is another's, all are freed
** in the end, and the times never fall. Returns how many were allocated. */
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

enum { EXCHANGERS = 40, PLACES = 16 }; /* more threads than have a buffer of their own */
struct exchange {
    tide_runtime *rt;
    pthread_barrier_t all; /* of a generation: all of its threads live at the same time */
    _Atomic(tide_array *) place[PLACES];
    atomic_uint names; /* of threads */
};

/* Each array goes to a place, and the one that was there is freed: it is another thread's as a
** rule. Each thread has a number before the first of them may end. */
static void *exchange(void *p) {
    struct exchange *x = p;
    tide_free(bytes(x->rt, 16));
    pthread_barrier_wait(&x->all);
    unsigned at = atomic_fetch_add(&x->names, 1), rounds = test_quick() ? 100 : 1500;
    for (unsigned i = 0; i < rounds; i++) {
        tide_array *a = bytes(x->rt, 16 * (1 + (at + i) % 50));
        assert_array(a);
        at = at * 5 + 1;
        a = atomic_exchange(&x->place[at / 8 % PLACES], a);
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
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, exchange, &x), 0);
        for (unsigned i = 0; i < n; i++) pthread_join(thread[i], NULL);
        pthread_barrier_destroy(&x.all);
    }
    for (unsigned i = 0; i < PLACES; i++) tide_free(atomic_load(&x.place[i]));
    tide_runtime_figures s = test_stats(x.rt);
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

/* Where nothing can be written, whoever has something to record waits in the end, and nothing is
** lost. */
static void waits_for_room(void **state) {
    const char *path = in_folder("run.csv");
    pthread_t thread[2];
    (void)state;
    tide_runtime *rt = open_recording(path, NULL);
    atomic_store(&so_far, 0);
    atomic_store(&held, true);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, allocate_many, rt), 0);
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
        atomic_fetch_add(&test_rt(rt)->budget->on_devices, 4096);
        atomic_fetch_sub(&test_rt(rt)->budget->on_devices, 4096);
    }
    return NULL;
}

/* However often what is backed changes while a span is added, its entries find room: none is
** written over. */
static void spans_while_backing_changes(void **state) {
    static const tidei_span span = {TIDEI_SPAN_COLLECTION, 1, "made-up collection", NULL};
    const char *path = in_folder("run.json");
    /* they fill a thread's room dozens of times */
    const unsigned spans = test_quick() ? 10000 : 60000;
    char report[4000];
    pthread_t thread;
    (void)state;
    tide_runtime *rt = open_recording(path, NULL);
    atomic_store(&changing, true);
    assert_int_equal(pthread_create(&thread, NULL, change_backed, rt), 0);
    for (unsigned i = 0; i < spans; i++) {
        tidei_span_begin(test_rt(rt), &span, 1);
        tidei_span_end(test_rt(rt), &span, 1);
    }
    atomic_store(&changing, false);
    pthread_join(thread, NULL);
    tide_close(rt);
    check_perfetto(path, "", report, sizeof report);
    assert_int_equal(counted(report, "B made-up collection "), spans);
    assert_int_equal(counted(report, "E made-up collection "), spans);
}

/* What was recorded gets into the file though nothing follows it; otherwise this would not end. */
static void written_in_time(void **state) {
    const char *path = in_folder("run.csv");
    (void)state;
    tide_runtime *rt = open_recording(path, NULL);
    works(rt);
    while (!rows_of(path, 'a')) usleep(10000);
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

/* ---- a tool ---- */

/* The operations that the busy program calls. */
static const struct {
    const char *name;
    long times;
} busy_calls[] = {{"tide_arange ", 51},           {"tide_map ", 101},
                  {"tide_item_f64 ", 1},          {"tide_empty ", 4},
                  {"tide_collect ", 1},           {"tide_synchronize ", 1},
                  {"tide_device_synchronize ", 1}};

static void tool_report(const char *tool, const char *kind, char *report, size_t cap) {
    char command[2600];
    snprintf(command, sizeof command,
             "NVTX_INJECTION64_PATH='%s' TIDE_TEST_NVTX='%s' '%s' --work '%s' 2>&1", tool, kind,
             own, in_folder("run.csv"));
    report_of(command, report, cap);
}

/* Ranges are what the recording has and what was called, and end where they began. */
static void ranges_end_where_they_began(void **state) {
    static const char *const kinds[] = {"domains", "core"};
    char report[4000];
    (void)state;
    test_needs_children();
    for (size_t i = 0; i < TIDEI_COUNT(kinds); i++) {
        unlink(in_folder("run.csv"));
        tool_report(TIDE_TEST_NVTX_TOOL, kinds[i], report, sizeof report);
        const char *path = in_folder("run.csv");
        long spans = (long)(rows_of(path, 'C') + rows_of(path, 'R') + rows_of(path, 'W')),
             calls = 0;
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
static void what_is_no_tool_is_warned_of(void **state) {
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

int main(int argc, char **argv) {
    if (!find_own()) return 1;
    if (argc == 3 && !strcmp(argv[1], "--work")) return work_alone(argv[2]);
    if (argc > 1) return 2;
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(a_recording_is_read_and_plays),
        CASE(rows_in_order),
        CASE(perfettos_form_is_read),
        CASE(several_threads_are_recorded),
        CASE(freed_by_others),
        CASE(waits_for_room),
        CASE(spans_while_backing_changes),
        CASE(written_in_time),
        CASE(times_are_right),
        CASE(nobody_waits_for_the_file),
        CASE(ranges_end_where_they_began),
        CASE(what_is_no_tool_is_warned_of),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
