/* test_settings.c: configuration and environment: what is read, which one wins, and what a bad
** value does, as the settings hold it and as an opened runtime shows it. */
#include "tests/support/captured.h"
#include "tests/support/fresh_environment.h"
#include "tests/support/works.h"

/* ---- as the settings hold it ---- */

/* The first variable whose value is not understood, and how many there are. */
static tidei_variable bad;
static int warnings;
static tide_status read_settings(const tide_config *c, tidei_settings *out) {
    tidei_variable v;
    warnings = 0;
    for (size_t i = 0; tidei_settings_variable(i, &v); i++)
        if (!v.understood && !warnings++) bad = v;
    return tidei_settings_read(c, out);
}

static int setup(void **state) { return fresh_environment(state); }

/* Where the cache lies is told by two variables of others, too. */
static char *home, *xdg;
static int setup_homeless(void **state) {
    home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    xdg = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    return setup(state);
}
static int restore_home(void **state) {
    if (home) setenv("HOME", home, 1);
    if (xdg)
        setenv("XDG_CACHE_HOME", xdg, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(home);
    free(xdg);
    return restore_environment(state);
}

static void settings_have_their_defaults(void **state) {
    tidei_settings s;
    (void)state;
    assert_ok(read_settings(NULL, &s));
    assert_string_equal(s.device, "");
    assert_string_equal(s.policy, "reserve");
    assert_string_equal(s.pool, "tide");
    assert_true(s.gc_early && s.cache);
    assert_string_equal(s.cache_dir, ""); /* neither XDG_CACHE_HOME nor HOME */
    assert_int_equal(warnings, 0);
    setenv("HOME", "/h", 1);
    assert_ok(read_settings(NULL, &s));
    assert_string_equal(s.cache_dir, "/h/.cache/tidepool");
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored, says its specification */
    assert_ok(read_settings(NULL, &s));
    assert_string_equal(s.cache_dir, "/h/.cache/tidepool");
    setenv("XDG_CACHE_HOME", "/x", 1);
    assert_ok(read_settings(NULL, &s));
    assert_string_equal(s.cache_dir, "/x/tidepool");
}

static void config_wins_over_environment(void **state) {
    tidei_settings s;
    tide_config c = {.struct_size = sizeof c,
                     .limit = "1GiB",
                     .gc_early = TIDE_OFF,
                     .log_level = TIDE_LOG_DEBUG,
                     .host_devices = 3};
    (void)state;
    setenv("TIDE_LIMIT", "50%", 1);
    setenv("TIDE_GC_EARLY", "1", 1);
    setenv("TIDE_LOG", "error", 1);
    setenv("TIDE_POOL", "none", 1);
    setenv("TIDE_HOST_DEVICES", "2", 1);
    assert_ok(read_settings(&c, &s));
    assert_string_equal(s.limit, "1GiB");
    assert_false(s.gc_early);
    assert_int_equal(s.log_level, TIDE_LOG_DEBUG);
    assert_string_equal(s.pool, "none");
    assert_int_equal(s.host_devices, 3);
    assert_ok(read_settings(NULL, &s));
    assert_string_equal(s.limit, "50%");
    assert_true(s.gc_early);
    assert_int_equal(s.log_level, TIDE_LOG_ERROR);
}

/* Each bad value of the environment warns, naming variable and value, and the default stays; in the
** config it fails. */
static void bad_values_are_warned_of_or_refused(void **state) {
    static const char *const rows[][2] = {
        {"TIDE_DEVICE", "gpu"},           {"TIDE_DEVICE", "cuda:x"},
        {"TIDE_DEVICE", "cuda:99999"},    {"TIDE_GC_EARLY", "maybe"},
        {"TIDE_HOST_DEVICE_MEMORY", "1"}, {"TIDE_HOST_DEVICES", "0"},
        {"TIDE_HOST_THREADS", "0"},       {"TIDE_LOG", "loud"},
        {"TIDE_CACHE_DIR", "here"},       {"TIDE_DEBUG", "3"},
        {"TIDE_DEBUG", "sample:0"},       {"TIDE_DEBUG", "sample:"},
        {"TIDE_DEBUG", "sample:9x"},      {"TIDE_DEBUG", "sample: 9"},
        {"TIDE_CACHE_MAX", "big"},        {"TIDE_HANDLE_CACHE", "50%"},
        {"TIDE_MATMUL", "High"}};
    tidei_settings plain, s;
    (void)state;
    assert_ok(read_settings(NULL, &plain));
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        setenv(rows[i][0], rows[i][1], 1);
        assert_ok(read_settings(NULL, &s));
        unsetenv(rows[i][0]);
        assert_int_equal(warnings, 1);
        assert_string_equal(bad.name, rows[i][0]);
        assert_string_equal(bad.value, rows[i][1]);
        assert_false(bad.vital);
        assert_memory_equal(&s, &plain, sizeof s);
    }
    tide_config c = {.struct_size = sizeof c, .limit = "lots"};
    assert_int_equal(read_settings(&c, &s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "lots");
    c = (tide_config){.struct_size = sizeof c, .cache_dir = "below/here"};
    assert_int_equal(read_settings(&c, &s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID,
                 "the field for TIDE_CACHE_DIR is \"below/here\"; wanted: an absolute path");
    c = (tide_config){.struct_size = sizeof c, .gc_early = 7};
    assert_int_equal(read_settings(&c, &s), TIDE_E_INVALID);
    c = (tide_config){.struct_size = sizeof c + 8};
    assert_int_equal(read_settings(&c, &s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "struct_size");
}

/* A level and sampling are one variable, of which the later word counts; a field is one of the
** two. */
static void a_level_and_sampling_are_one_variable(void **state) {
    static const struct {
        const char *text;
        int level, sample;
    } rows[] = {{"0", 0, 0}, {"2", 2, 0}, {"sample:1000", 0, 1000}, {"sample:1", 0, 1}};
    tidei_settings s;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        setenv("TIDE_DEBUG", rows[i].text, 1);
        assert_ok(read_settings(NULL, &s));
        assert_int_equal(s.debug, rows[i].level);
        assert_int_equal(s.debug_sample, rows[i].sample);
    }
    tide_config c = {.struct_size = sizeof c, .debug = 1};
    setenv("TIDE_DEBUG", "sample:9", 1);
    assert_ok(read_settings(&c, &s));
    assert_int_equal(s.debug, 1);
    assert_int_equal(s.debug_sample, 0);
    c.debug_sample = 50;
    assert_ok(read_settings(&c, &s));
    assert_int_equal(s.debug, 1);
    assert_int_equal(s.debug_sample, 50);
    assert_int_equal(warnings, 0);
}

/* Tracking wants its report read: it raises the default, and no level that somebody chose. */
static void tracking_is_heard(void **state) {
    static const struct {
        const char *debug, *log;
        int config, level;
    } rows[] = {{"0", "", 0, TIDE_LOG_SILENT},
                {"1", "", 0, TIDE_LOG_SILENT},
                {"2", "", 0, TIDE_LOG_WARNING},
                {"sample:5", "", 0, TIDE_LOG_WARNING},
                {"2", "silent", 0, TIDE_LOG_SILENT},
                {"sample:5", "error", 0, TIDE_LOG_ERROR},
                {"2", "info", 0, TIDE_LOG_INFO},
                {"2", "silent", TIDE_LOG_ERROR, TIDE_LOG_ERROR},
                {"sample:5", "", TIDE_LOG_ERROR, TIDE_LOG_ERROR}};
    tidei_settings s;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        const tide_config c = {.struct_size = sizeof c, .log_level = rows[i].config};
        setenv("TIDE_DEBUG", rows[i].debug, 1);
        setenv("TIDE_LOG", rows[i].log, 1);
        assert_ok(read_settings(&c, &s));
        assert_int_equal(s.log_level, rows[i].level);
    }
    unsetenv("TIDE_LOG");
    unsetenv("TIDE_DEBUG");
    tide_config c = {.struct_size = sizeof c, .debug = 2};
    assert_ok(read_settings(&c, &s));
    assert_int_equal(s.log_level, TIDE_LOG_WARNING);
    c = (tide_config){.struct_size = sizeof c, .debug_sample = 100};
    assert_ok(read_settings(&c, &s));
    assert_int_equal(s.log_level, TIDE_LOG_WARNING);
    assert_int_equal(warnings, 0);
}

/* A caller built against an older, shorter struct keeps working. */
static void a_shorter_config_is_read_to_its_end(void **state) {
    tidei_settings s;
    tide_config c;
    (void)state;
    memset(&c, 0xff, sizeof c);
    c.struct_size = offsetof(tide_config, limit);
    c.device = "host:1";
    assert_ok(read_settings(&c, &s));
    assert_string_equal(s.device, "host:1");
    assert_string_equal(s.limit, "");
}

/* A limit that is not understood would not be in force, and nobody would know: tide_open fails.
** Where the program names one of its own, the variable's counts for nothing, and is one warning. */
static void bad_limits_fail(void **state) {
    static const struct {
        const char *variable, *value, *wanted;
        size_t field;
    } rows[] = {
        {"TIDE_LIMIT", "lots", "bytes, 4GiB or 50%", offsetof(tide_config, limit)},
        {"TIDE_LIMIT", "120%", "bytes, 4GiB or 50%", offsetof(tide_config, limit)},
        {"TIDE_LIMIT", "-1", "bytes, 4GiB or 50%", offsetof(tide_config, limit)},
        {"TIDE_SOFT_LIMIT", "4 GoB", "bytes, 4GiB or 50%", offsetof(tide_config, soft_limit)},
        {"TIDE_PINNED_LIMIT", "50 percent", "bytes, 4GiB or 25%",
         offsetof(tide_config, pinned_limit)},
        {"TIDE_PINNED_LIMIT", "00000000000000000000000000000001GiB", "bytes, 4GiB or 25%",
         offsetof(tide_config, pinned_limit)},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        char said[200];
        tidei_settings s;
        tide_config c = {.struct_size = sizeof c, .device = test_device(), .log = keep_line};
        tide_runtime *rt = NULL;
        logged.n = 0;
        setenv(rows[i].variable, rows[i].value, 1);
        snprintf(said, sizeof said, "%s=%s is not understood; wanted: %s", rows[i].variable,
                 rows[i].value, rows[i].wanted);
        tide_error_clear();
        assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, said);
        assert_string_equal(tide_error_last()->operation, "tide_open");
        assert_null(rt);
        assert_int_equal(read_settings(NULL, &s), TIDE_E_INVALID);
        assert_true(warnings == 1 && bad.vital);
        *(const char **)((char *)&c + rows[i].field) = "64MiB";
        assert_ok(tide_open(&c, &rt));
        unsetenv(rows[i].variable);
        snprintf(said, sizeof said, "%s=%s is not understood", rows[i].variable, rows[i].value);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, said), 1);
        assert_int_equal(logged.n, 1);
        tide_close(rt);
    }
}

/* ---- as a runtime shows it ---- */

static void the_environment_is_read(void **state) {
    tide_runtime_figures s;
    char text[400];
    (void)state;
    setenv("TIDE_DEVICE", test_device(), 1);
    setenv("TIDE_LIMIT", "32MiB", 1);
    setenv("TIDE_SOFT_LIMIT", "16MiB", 1);
    setenv("TIDE_COLLECTOR", "refcount", 1);
    setenv("TIDE_POLICY", "cudajl", 1);
    setenv("TIDE_GC_EARLY", "0", 1);
    setenv("TIDE_POOL", "none", 1);
    setenv("TIDE_HOST_DEVICE_MEMORY", "64MiB", 1);
    setenv("TIDE_LOG", "info", 1);
    setenv("TIDE_DEBUG", "1", 1);
    setenv("TIDE_CACHE_MAX", "1MiB", 1);
    tide_runtime *rt = open_logged(true);
    works(rt);
    s = test_stats(rt);
    assert_int_equal(s.limit, 32 * TIDEI_MIB);
    assert_int_equal(s.soft_limit, 16 * TIDEI_MIB);
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "none pool usage"));
    tide_device_text(rt, text, sizeof text);
    if (test_on_host()) assert_non_null(strstr(text, "64.0 MiB"));
    assert_int_equal(lines_with(TIDE_LOG_INFO, "runs on "), 1);
    assert_int_equal(lines_with(TIDE_LOG_INFO, text), 1);
    assert_int_equal(lines_with(TIDE_LOG_WARNING, ""), 0);
    tide_close(rt);
}

/* Each is a warning that names the variable and its value; the default stays. */
static void bad_environment_warns(void **state) {
    static const char *const rows[][2] = {{"TIDE_DEVICE", "gpu"},
                                          {"TIDE_COLLECTOR", "mark"},
                                          {"TIDE_POLICY", "hopeful"},
                                          {"TIDE_POOL", "buddy"},
                                          {"TIDE_POOL", "split:20MiB"},
                                          {"TIDE_GC_EARLY", "often"},
                                          {"TIDE_HOST_DEVICE_MEMORY", "1"},
                                          {"TIDE_HOST_DEVICES", "100"},
                                          {"TIDE_HOST_THREADS", "1025"},
                                          {"TIDE_DEBUG", "3"},
                                          {"TIDE_DEBUG", "sample:-5"},
                                          {"TIDE_DEBUG", "sample:2000000000"},
                                          {"TIDE_RELEASE_THRESHOLD", "some"},
                                          {"TIDE_POOL_DETERMINISTIC", "perhaps"},
                                          {"TIDE_CACHE", "perhaps"},
                                          {"TIDE_CACHE_MAX", "big"},
                                          {"TIDE_LOG", "loud"}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        char said[128];
        logged.n = 0;
        setenv("TIDE_LOG", "warning", 1);
        setenv(rows[i][0], rows[i][1], 1);
        tide_config c = {.struct_size = sizeof c, .log = keep_line, .log_level = TIDE_LOG_WARNING};
        tide_runtime *rt = NULL;
        c.device = strcmp(rows[i][0], "TIDE_DEVICE") ? test_device() : NULL;
        if (tide_open(&c, &rt) != TIDE_OK)
            fail_msg("%s=%s: %s", rows[i][0], rows[i][1], tide_error_last()->message);
        unsetenv(rows[i][0]);
        snprintf(said, sizeof said, "%s=%s is not understood", rows[i][0], rows[i][1]);
        assert_int_equal(logged.n, 1);
        if (!strcmp(rows[i][0], "TIDE_POOL"))
            assert_int_equal(
                lines_with(TIDE_LOG_WARNING, "tide, driver, split, binned, simple, none"), 1);
        if (lines_with(TIDE_LOG_WARNING, said) != 1)
            fail_msg("wanted \"%s\", got %s", said, logged.line[0]);
        works(rt);
        tide_close(rt);
    }
}

/* Nobody chose a level: what the environment says wrong is told all the same, in one line, on
** stderr or to the program's callback, by the table as by the parts that look names and files up
** later. A level below warnings keeps it quiet. */
static void bad_environment_is_heard(void **state) {
    static const char *const rows[][2] = {{"TIDE_POOL", "foo"},
                                          {"TIDE_POOL", "split:1"},
                                          {"TIDE_COLLECTOR", "mark"},
                                          {"TIDE_POLICY", "hopeful"},
                                          {"TIDE_TRACE", "foo.txt"},
                                          {"TIDE_TRACE", "/absent/foo.csv"},
                                          {"TIDE_LOG", "loud"},
                                          {"TIDE_GC_EARLY", "perhaps"},
                                          {"TIDE_DEFAULT_MEMORY", "clay"},
                                          {"TIDE_HOST_DEVICE_MEMORY", "few"},
                                          {"TIDE_POOL", "two\nlines\t"},
                                          {"NVTX_INJECTION64_PATH", "/absent/tool.so"}};
    static const struct {
        int level;
        const char *environment;
        bool heard;
    } levels[] = {{0, NULL, true},
                  {TIDE_LOG_SILENT, NULL, false},
                  {TIDE_LOG_ERROR, NULL, false},
                  {0, "silent", false},
                  {0, "error", false},
                  {TIDE_LOG_WARNING, "silent", true}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++)
        for (size_t k = 0; k < TIDEI_COUNT(levels); k++)
            for (int callback = 0; callback < 2; callback++) {
                char text[4000], begins[100];
                tide_runtime *rt = NULL;
                tide_config c = {.struct_size = sizeof c,
                                 .device = test_device(),
                                 .log = callback ? keep_line : NULL,
                                 .log_level = levels[k].level};
                bool tool = !strncmp(rows[i][0], "NVTX", 4);
                /* it is looked for once a process, and compute-sanitizer has one of its own */
                if (tool && (k || callback || test_memcheck())) continue;
                if (!strcmp(rows[i][0], "TIDE_LOG") && levels[k].environment) continue;
                if (levels[k].environment) setenv("TIDE_LOG", levels[k].environment, 1);
                setenv(rows[i][0], rows[i][1], 1);
                logged.n = 0;
                captured_begin();
                tide_status status = tide_open(&c, &rt);
                tide_close(rt);
                captured_end(text, sizeof text);
                unsetenv(rows[i][0]);
                unsetenv("TIDE_LOG");
                assert_int_equal(status, TIDE_OK);
                assert_int_equal(logged.n, callback && levels[k].heard);
                if (logged.n) assert_int_equal(logged.level[0], TIDE_LOG_WARNING);
                if (callback || !levels[k].heard) {
                    assert_string_equal(text, "");
                    continue;
                }
                snprintf(begins, sizeof begins, "tidepool warning: %s=", rows[i][0]);
                if (strncmp(text, begins, strlen(begins)))
                    fail_msg("wanted \"%s...\", got \"%s\"", begins, text);
                assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
                assert_null(strchr(text, '\t'));
            }
}

/* However many are wrong, each is told. */
static void all_bad_values_are_heard(void **state) {
    static const char *const names[] = {"TIDE_GC_EARLY",
                                        "TIDE_THREAD_STREAMS",
                                        "TIDE_SPILL",
                                        "TIDE_HOST_DEVICES",
                                        "TIDE_HOST_THREADS",
                                        "TIDE_PEERS",
                                        "TIDE_LOG",
                                        "TIDE_DEBUG",
                                        "TIDE_CACHE",
                                        "TIDE_CACHE_DIR",
                                        "TIDE_CACHE_MAX",
                                        "TIDE_HANDLE_CACHE",
                                        "TIDE_DEFAULT_MEMORY",
                                        "TIDE_HOST_DEVICE_MEMORY",
                                        "TIDE_TRACE",
                                        "TIDE_POOL",
                                        "TIDE_POLICY",
                                        "TIDE_COLLECTOR",
                                        "TIDE_RELEASE_THRESHOLD",
                                        "TIDE_MATMUL"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(names); i++) setenv(names[i], "?", 1);
    tide_close(test_open(&(tide_config){.log = keep_line}));
    for (size_t i = 0; i < TIDEI_COUNT(names); i++) {
        char said[64];
        snprintf(said, sizeof said, "%s=? ", names[i]);
        assert_int_equal(lines_with(TIDE_LOG_WARNING, said), 1);
        unsetenv(names[i]);
    }
    assert_int_equal(logged.n, TIDEI_COUNT(names));
}

/* A value goes into a line as far as it fits there, in whole characters. */
static void long_values_are_cut(void **state) {
    char value[1001];
    (void)state;
    for (int shift = 0; shift < 2; shift++) {
        memset(value, 'x', sizeof value - 1);
        for (size_t i = (size_t)shift; i + 2 <= sizeof value - 1; i += 2)
            memcpy(value + i, "\xc3\xa9", 2);
        value[sizeof value - 1] = 0;
        logged.n = 0;
        setenv("TIDE_POOL", value, 1);
        tide_close(test_open(&(tide_config){.log = keep_line}));
        unsetenv("TIDE_POOL");
        assert_int_equal(logged.n, 1);
        const char *from = strchr(logged.line[0], '=') + 1,
                   *to = strstr(from, "... is not understood");
        assert_non_null(to);
        assert_true(to - from > 150);
        assert_int_equal((to - from - shift) % 2, 0);
    }
}

static void bad_config_fails(void **state) {
    const tide_allocator half = {.free = (void (*)(void *, void *))(void (*)(void))free};
    const struct {
        tide_config c;
        tide_status status;
        const char *part[2]; /* of the message: what, and where */
    } rows[] = {
        {{.device = "gpu"}, TIDE_E_INVALID, {"TIDE_DEVICE", "\"gpu\""}},
        {{.device = "host:7"}, TIDE_E_NODEVICE, {"no host:7", "TIDE_HOST_DEVICES"}},
        {{.device = "cuda:999"}, TIDE_E_NODEVICE, {"", ""}},
        {{.limit = "lots"}, TIDE_E_INVALID, {"TIDE_LIMIT", "\"lots\""}},
        {{.soft_limit = "1X"}, TIDE_E_INVALID, {"TIDE_SOFT_LIMIT", "\"1X\""}},
        {{.collector = "mark"}, TIDE_E_INVALID, {"collector \"mark\"", "refcount"}},
        {{.policy = "hopeful"}, TIDE_E_INVALID, {"policy \"hopeful\"", "reserve, cudajl, never"}},
        {{.policy = "reserve(x0=2)"}, TIDE_E_INVALID, {"reserve(x0=2)", "column 12: expected x0"}},
        {{.pool = "buddy"},
         TIDE_E_INVALID,
         {"pool \"buddy\"", "tide, driver, split, binned, simple, none"}},
        {{.pool = "tide:1GiB"}, TIDE_E_INVALID, {"pool \"tide:1GiB\"", "split:SIZE"}},
        {{.pool = "split:20MiB"}, TIDE_E_INVALID, {"pool \"split:20MiB\"", "above 20MiB"}},
        {{.pool = "split:"}, TIDE_E_INVALID, {"pool \"split:\"", "split:SIZE"}},
        {{.release_threshold = "some"}, TIDE_E_INVALID, {"TIDE_RELEASE_THRESHOLD", "\"some\""}},
        {{.deterministic = 5}, TIDE_E_INVALID, {"TIDE_POOL_DETERMINISTIC", "0 or 1"}},
        {{.gc_early = 3}, TIDE_E_INVALID, {"TIDE_GC_EARLY", "0 or 1"}},
        {{.cache = -1}, TIDE_E_INVALID, {"TIDE_CACHE", "0 or 1"}},
        {{.host_device_memory = "12"}, TIDE_E_INVALID, {"TIDE_HOST_DEVICE_MEMORY", "64KiB"}},
        {{.host_devices = 17}, TIDE_E_INVALID, {"TIDE_HOST_DEVICES", "17"}},
        {{.host_threads = -1}, TIDE_E_INVALID, {"TIDE_HOST_THREADS", "-1"}},
        {{.log_level = 9}, TIDE_E_INVALID, {"TIDE_LOG", "debug"}},
        {{.debug = 3}, TIDE_E_INVALID, {"TIDE_DEBUG", "\"3\""}},
        {{.debug_sample = -1}, TIDE_E_INVALID, {"tide_config.debug_sample is -1", "wanted: 1 to"}},
        {{.cache_max = "big"}, TIDE_E_INVALID, {"TIDE_CACHE_MAX", "\"big\""}},
        {{.handle_cache = "some"}, TIDE_E_INVALID, {"TIDE_HANDLE_CACHE", "\"some\""}},
        {{.matmul_precision = "low"}, TIDE_E_INVALID, {"TIDE_MATMUL", "highest, high or medium"}},
        {{.allocator = &half}, TIDE_E_INVALID, {"tide_config.allocator", "alloc and free"}},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        tide_config c = rows[i].c;
        tide_runtime *rt = (tide_runtime *)&c;
        c.struct_size = sizeof c;
        if (!c.device) c.device = "host";
        tide_error_clear();
        assert_int_equal(tide_open(&c, &rt), rows[i].status);
        for (int k = 0; k < 2; k++) assert_error(rows[i].status, rows[i].part[k]);
        assert_true(strlen(tide_error_last()->message) > 10);
        assert_string_equal(tide_error_last()->operation, "tide_open");
        assert_ptr_equal(rt, (tide_runtime *)&c); /* out is untouched */
    }
    assert_int_equal(tide_open(NULL, NULL), TIDE_E_INVALID);
}

/* A caller built against an older tide_config gives a shorter one, behind which lie bytes of
** others. */
static void an_older_config_opens_a_runtime(void **state) {
    static const size_t sizes[] = {offsetof(tide_config, limit), offsetof(tide_config, log_level),
                                   offsetof(tide_config, log), offsetof(tide_config, allocator)};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        tide_config whole, *c = malloc(sizes[i]);
        tide_runtime *rt = NULL;
        memset(&whole, 0, sizeof whole);
        whole.struct_size = sizes[i];
        whole.device = test_device();
        memcpy(c, &whole, sizes[i]);
        assert_ok(tide_open(c, &rt));
        works(rt);
        tide_close(rt);
        free(c);
        memset((char *)&whole + sizes[i], 0xA5, sizeof whole - sizes[i]); /* not looked at */
        char text[2000];
        setenv("TIDE_LOG", "info", 1);
        captured_begin();
        /* logs to stderr, not through bytes of others */
        tide_status status = tide_open(&whole, &rt);
        captured_end(text, sizeof text);
        unsetenv("TIDE_LOG");
        assert_int_equal(status, TIDE_OK);
        tide_close(rt);
    }
}

int main(void) {
#define HELD(f) cmocka_unit_test_setup_teardown(f, setup_homeless, restore_home)
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, restore_environment)
    const struct CMUnitTest tests[] = {
        HELD(settings_have_their_defaults),
        HELD(config_wins_over_environment),
        HELD(bad_values_are_warned_of_or_refused),
        HELD(a_shorter_config_is_read_to_its_end),
        HELD(a_level_and_sampling_are_one_variable),
        HELD(tracking_is_heard),
        CASE(the_environment_is_read),
        CASE(bad_environment_warns),
        CASE(bad_config_fails),
        CASE(an_older_config_opens_a_runtime),
        HELD(bad_limits_fail),
        CASE(bad_environment_is_heard),
        CASE(all_bad_values_are_heard),
        CASE(long_values_are_cut),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
