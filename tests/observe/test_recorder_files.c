/* test_recorder_files.c: the files of recordings: names, files that cannot be had or written,
** several runtimes and processes at one name, forks, crashes, and host memory that runs out.
**
** Some cases need a process of their own: this program again, told what to do (main). */
#include "tests/observe/recordings.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "tests/doubles/failing_host.h"

#define DISK_BYTES 300001 /* of a disk that is soon full; it ends within a row */

static void bad_names_are_refused(void **state) {
    static const char *const bad[] = {"run", "run.txt", ".csv", "runs/.json", "run.csv.gz"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        tide_config c = {.struct_size = sizeof c, .device = test_device(), .trace = bad[i]};
        tide_runtime *rt = NULL;
        assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "the field for TIDE_TRACE is \"");
        assert_error(TIDE_E_INVALID, "a file's name that ends in .csv or .json");
        tide_error_clear();
        logged.n = 0;
        setenv("TIDE_TRACE", bad[i], 1);
        rt = open_logged(false);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_TRACE"), 1);
        works(rt);
        tide_close(rt);
        unsetenv("TIDE_TRACE");
    }
}

/* A folder that is not there, one in place of the file, and a pipe. */
static void a_file_that_cannot_be_had_is_told(void **state) {
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
        tide_error_clear();
        logged.n = 0;
        setenv("TIDE_TRACE", bad[i], 1);
        rt = open_logged(false);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_TRACE"), 1);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "nothing is recorded"), 1);
        assert_int_equal(tide_error_last()->status, TIDE_OK);
        works(rt);
        tide_close(rt);
        unsetenv("TIDE_TRACE");
    }
    close(reader);
    rmdir(bad[1]);
}

/* tide_config's wins, and the environment's serves without one. */
static void the_environment_names_a_file(void **state) {
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
static void a_full_disk_is_warned_of_once(void **state) {
    (void)state;
    for (int json = 0; json < 2; json++) {
        const char *path = in_folder(json ? "full.json" : "full.csv");
        assert_int_equal(symlink("/dev/full", path), 0);
        logged.n = 0;
        tide_runtime *rt = open_recording(path, BUSY_LIMIT);
        busy_program(rt);
        assert_int_equal(tide_error_last()->status, TIDE_OK);
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

/* Whoever comes later to a name takes the next one, at the same time or afterwards, and by whatever
** name it goes. */
static void several_runtimes_take_names_in_turn(void **state) {
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

/* A numbered name is nobody's wish: what lies there, and is no recording of that form, is left
** alone. */
static void files_of_others(void **state) {
    (void)state;
    static const char *const others[] = {"op,id,bytes", "id,op\n1,2\n",
                                         "op,id,bytes,stream,time_ns\n", "[]\n", "\n"};
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
static void a_removed_file_is_nobodys(void **state) {
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
static void another_process_keeps_its_file(void **state) {
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
static void a_forked_child_adds_nothing(void **state) {
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
        bool refused = !b && tide_error_last()->status == TIDE_E_FORKED;
        tide_free(a);
        tide_close(rt);
        exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tide_free(a);
    works(rt);
    tide_runtime_figures s = test_stats(rt);
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
    const tide_allocator host = {failing_alloc, plain_free, NULL};
    tide_status status = TIDE_E_HOST_NOMEM;
    (void)state;
    for (long turn = 1; status != TIDE_OK; turn++) {
        tide_config c = {.struct_size = sizeof c,
                         .device = test_device(),
                         .collector = "refcount",
                         .allocator = &host,
                         .trace = in_folder("run.csv")};
        tide_runtime *rt = NULL;
        host_calls = 0;
        host_fails = turn;
        status = tide_open(&c, &rt);
        host_fails = 0;
        assert_true(turn < 1000 && (status == TIDE_OK || status == TIDE_E_HOST_NOMEM));
        tide_error_clear();
        if (status == TIDE_OK) works(rt);
        tide_close(rt);
    }
}

/* ---- processes of their own ---- */

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
    if (!find_own()) return 1;
    if (argc == 3 && !strcmp(argv[1], "--work")) return work_alone(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--crash")) return crash(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--fill")) return fill(argv[2]);
    if (argc > 1) return 2;
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(bad_names_are_refused),
        CASE(a_file_that_cannot_be_had_is_told),
        CASE(the_environment_names_a_file),
        CASE(a_full_disk_is_warned_of_once),
        CASE(disk_that_fills),
        CASE(several_runtimes_take_names_in_turn),
        CASE(a_removed_file_is_nobodys),
        CASE(files_of_others),
        CASE(another_process_keeps_its_file),
        CASE(a_forked_child_adds_nothing),
        CASE(after_a_crash),
        CASE(host_memory_ends),
    };
    return cmocka_run_group_tests_name("recorder_files", cases, NULL, NULL);
}
