/* recordings.h: what the tests of recordings share: a folder of the case's own, a program that does
** a bit of everything, and what is in a file by other readers than ours. */
#ifndef TIDETEST_RECORDINGS_H
#define TIDETEST_RECORDINGS_H

#include <unistd.h>
#include "tests/support/fresh_environment.h"
#include "tests/support/folder.h"
#include "tests/support/works.h"
#include "tools/tide/replay.h"

static char folder[64]; /* of the case's files */
static char own[1024];  /* this program */

static char *in_folder(const char *name) {
    static char path[32][400]; /* those of a case stay */
    static unsigned next;
    char *p = path[next++ % 32];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static inline void put_file(const char *name, const char *content) {
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
}

static inline int setup(void **state) {
    (void)fresh_environment(state);
    strcpy(folder, "/tmp/tide_recorder_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int teardown(void **state) {
    remove_folder(folder);
    return restore_environment(state);
}

static inline tide_runtime *open_recording(const char *path, const char *limit) {
    tide_config c = {.log = keep_line,
                     .log_level = TIDE_LOG_INFO,
                     .trace = path,
                     .limit = limit,
                     .collector = "refcount"};
    return test_open(&c);
}

/* ---- a program with a bit of everything ---- */

#define BIG ((size_t)8 << 20)

/* Works on two streams that wait for each other, waits, is short of memory without success,
** collects. */
static inline void busy_program(tide_runtime *rt) {
    tide_stream *other;
    assert_ok(tide_stream_new(rt, &other));
    for (int i = 0; i < 50; i++) {
        tide_array *a = tide_arange(rt, TIDE_F32, 0, 1000 + i, 1);
        assert_ok(tide_stream_set(rt, other));
        tide_array *b = tide_map(rt, "(a) -> 2*a + 1", a),
                   *c = tide_map(rt, "(a, b) -> sum(a*b)", a, b);
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
    tide_error_clear();
    for (int i = 0; i < 3; i++) tide_free(held[i]);
    assert_ok(tide_collect(rt));
    tide_stream_release(other);
}
#define BUSY_LIMIT "36MiB"

static inline size_t rows_of(const char *path, char op) {
    char line[300];
    size_t n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) n += line[0] == op && line[1] == ',';
    fclose(f);
    return n;
}

/* ---- reading ---- */

static inline void read_recording(const char *path, tidei_trace *t) {
    assert_ok(tidei_trace_read(path, t));
    size_t ops[3] = {0};
    for (size_t i = 0; i < t->n; i++) ops[t->events[i].op]++;
    assert_int_equal(ops[TIDEI_EVENT_ALLOC], t->blocks);
    assert_int_equal(ops[TIDEI_EVENT_FREE], t->blocks); /* closing freed what was left */
}

/* What tests/perfetto.py counted under `name`, which is all of the line up to the number. */
static inline long counted(const char *report, const char *name) {
    const char *at = report;
    size_t n = strlen(name);
    while (at && strncmp(at, name, n) != 0) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    return at ? strtol(at + n, NULL, 10) : 0;
}

/* Runs a command and keeps what it prints; fails the case with that unless it succeeds. */
static inline void report_of(const char *command, char *report, size_t cap) {
    FILE *p = popen(command, "r");
    assert_non_null(p);
    size_t n = fread(report, 1, cap - 1, p);
    report[n] = 0;
    if (pclose(p)) fail_msg("%s: %s", command, report);
}

static inline void check_perfetto(const char *path, const char *option, char *report, size_t cap) {
    char command[1400];
    snprintf(command, sizeof command, "python3 '%s/tests/perfetto.py' %s '%s' 2>&1",
             getenv("TIDE_TEST_SOURCE"), option, path);
    report_of(command, report, cap);
}

/* This program, which cases start again in a process of its own. */
static inline bool find_own(void) { return readlink("/proc/self/exe", own, sizeof own - 1) >= 0; }

/* The busy program, in a process of its own. */
static inline int work_alone(const char *path) {
    setenv("TIDE_LOG", "warning", 1);
    tide_runtime *rt =
        test_open(&(tide_config){.trace = path, .limit = BUSY_LIMIT, .collector = "refcount"});
    busy_program(rt);
    tide_close(rt);
    return 0;
}

#endif
