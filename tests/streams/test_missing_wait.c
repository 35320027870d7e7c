/* test_missing_wait.c: a planted missing wait (runtime.skip_waits orders nothing across streams) is
** found: by the host device's checker in every run, whatever the schedule; and, in a
** ThreadSanitizer build, by ThreadSanitizer. */
#include "tests/support/tidetest.h"
#include "runtime/memory/header.h"
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

static tide_runtime *rt;
static tide_array *a; /* 32 x 32 floats, written on the first stream */

static tide_array *by_map(void) { return tide_map(rt, "(a) -> a + 1.0", a); }
static tide_array *by_copy(void) { return tide_copy(a); }
static tide_array *by_matmul(void) { return tide_matmul(a, a); }
static const struct {
    const char *name;
    tide_array *(*use)(void);
} uses[] = {{"map", by_map}, {"copy", by_copy}, {"matmul", by_matmul}};

/* Writes on one stream, uses the array on another; the wait between them is left out if
** `planted`. */
static void hand_over(tide_array *(*use)(void), bool planted) {
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .collector = "refcount",
                     .debug = 1,
                     .host_device_memory = "16MiB"};
    tide_stream *first, *second;
    assert_ok(tide_open(&c, &rt));
    assert_ok(tide_scope_begin(rt));
    assert_ok(tide_stream_new(rt, &first));
    assert_ok(tide_stream_new(rt, &second));
    assert_ok(tide_stream_set(rt, first));
    a = tide_full(rt, TIDE_F32, 2, (const int64_t[]){32, 32}, tide_arg_float(1));
    assert_array(a);
    assert_ok(tide_stream_set(rt, second));
    test_rt(rt)->streams->skip_waits = planted;
    assert_array(use());
    test_rt(rt)->streams->skip_waits = false;
    assert_ok(tide_scope_end(rt));
}

static uint64_t reports(void) {
    uint64_t n = tidei_host_checker_reports(test_rt(rt)->devs[0].d);
    tide_close(rt);
    return n;
}

static void checker_finds_it(void **state) {
    if (UNDER_TSAN) skip(); /* ThreadSanitizer would find it first: that is the other case */
    for (int i = 0; i < 100; i++) {
        hand_over(uses[(size_t)*state].use, true);
        assert_true(reports() >= 1);
    }
}
static void checker_is_quiet_otherwise(void **state) {
    (void)state;
    for (size_t k = 0; k < TIDEI_COUNT(uses); k++)
        for (int i = 0; i < 10; i++) {
            hand_over(uses[k].use, false);
            assert_int_equal(reports(), 0);
        }
}

/* The line comes from the thread that made the mistake, at the end of its call: from a callback
** that may call back. */
static pthread_t spoke;
static int spoken;
static void ask_for_statistics(void *user, int level, const char *line) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    (void)user;
    if (level != TIDE_LOG_WARNING || !strstr(line, "unordered access")) return;
    spoke = pthread_self();
    spoken++;
    assert_ok(
        tide_runtime_info(rt, &s)); /* drains, and with the pool "none" that waits for streams */
}
/* The first write, on a worker that may begin late, has happened; the checker does not know that
** anybody looked. It must not come after the planted use, whose moment replaces its own in the
** history: the block would be given back before it. */
static void wait_until_written(const tide_array *x) {
    const volatile unsigned char *p =
        (const volatile unsigned char *)(uintptr_t)tidei_cell_header(x)->st->addr;
    for (int i = 0; i < 1000; i++)
        while (p[i] != 7) sched_yield();
}
static void the_log_may_call_back(void **state) {
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .collector = "refcount",
                     .pool = "none",
                     .debug = 1,
                     .host_device_memory = "16MiB",
                     .log = ask_for_statistics,
                     .log_level = TIDE_LOG_WARNING};
    tide_stream *second;
    (void)state;
    if (UNDER_TSAN) skip(); /* it would see the planted race itself */
    assert_ok(tide_open(&c, &rt));
    assert_ok(tide_stream_new(rt, &second));
    a = tide_full(rt, TIDE_U8, 1, (const int64_t[]){1000}, tide_arg_int(7));
    tide_array *garbage = tide_full(rt, TIDE_U8, 1, (const int64_t[]){1000}, tide_arg_int(7));
    wait_until_written(a);
    wait_until_written(garbage);
    assert_ok(tide_stream_set(rt, second));
    test_rt(rt)->streams->skip_waits = true;
    assert_ok(tide_fill(garbage, tide_arg_int(3)));
    tide_release(garbage);
    assert_ok(tide_fill(a, tide_arg_int(3)));
    test_rt(rt)->streams->skip_waits = false;
    assert_int_equal(spoken, 2);
    assert_true(pthread_equal(spoke, pthread_self()));
    tide_release(a);
    (void)reports();
}

/* In a program of its own, because ThreadSanitizer's verdict is the exit status. It sees the race
** when no lock happened to hand the order over: in some of the rounds. */
static const char *self;
static void thread_sanitizer_finds_it(void **state) {
    char out[200000];
    if (!UNDER_TSAN) skip();
    int pipe_ends[2], status = 0;
    const char *name = uses[(size_t)*state].name;
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (!child) {
        dup2(pipe_ends[1], 2);
        dup2(pipe_ends[1], 1);
        close(pipe_ends[0]);
        setenv("TSAN_OPTIONS", "exitcode=66", 1);
        execl(self, self, "--race", name, (char *)NULL);
        _exit(1);
    }
    close(pipe_ends[1]);
    size_t n = 0;
    for (ssize_t k;
         n < sizeof out - 1 && (k = read(pipe_ends[0], out + n, sizeof out - 1 - n)) > 0;)
        n += (size_t)k;
    out[n] = 0;
    close(pipe_ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 66);
    assert_non_null(strstr(out, "data race"));
}

static int race(const char *name) {
    for (size_t k = 0; k < TIDEI_COUNT(uses); k++)
        for (int i = 0; i < 40 && !strcmp(name, uses[k].name); i++) {
            hand_over(uses[k].use, true);
            tide_close(rt);
        }
    return 0;
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc == 3 && !strcmp(argv[1], "--race")) return race(argv[2]);
    const struct CMUnitTest tests[] = {
        {"checker_finds_it_in_map", checker_finds_it, NULL, NULL, (void *)0},
        {"checker_finds_it_in_copy", checker_finds_it, NULL, NULL, (void *)1},
        {"checker_finds_it_in_matmul", checker_finds_it, NULL, NULL, (void *)2},
        cmocka_unit_test(checker_is_quiet_otherwise),
        cmocka_unit_test(the_log_may_call_back),
        {"thread_sanitizer_finds_it_in_map", thread_sanitizer_finds_it, NULL, NULL, (void *)0},
        {"thread_sanitizer_finds_it_in_copy", thread_sanitizer_finds_it, NULL, NULL, (void *)1},
        {"thread_sanitizer_finds_it_in_matmul", thread_sanitizer_finds_it, NULL, NULL, (void *)2},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
