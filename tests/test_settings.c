/* test_settings.c: configuration and environment: what is read, which one wins, and what a bad value does, as the settings
** hold it and as an opened runtime shows it. */
#include <fcntl.h>
#include <unistd.h>
#include "tests/fresh_environment.h"
#include "tests/works.h"

/* ---- as the settings hold it ---- */

static char warned[8][512];
static int warnings;
static void note_warning(void *user, const char *line) {
    (void)user;
    if (warnings < 8) snprintf(warned[warnings++], sizeof warned[0], "%s", line);
}
static int setup(void **state) {
    warnings = 0;
    return fresh_environment(state);
}

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

static void settings_default(void **state) {
    tidei_settings s;
    (void)state;
    assert_ok(tidei_settings_read(NULL, &s, note_warning, NULL));
    assert_string_equal(s.device, "");
    assert_string_equal(s.policy, "reserve");
    assert_string_equal(s.pool, "tide");
    assert_true(s.gc_early && s.cache);
    assert_string_equal(s.cache_dir, ""); /* neither XDG_CACHE_HOME nor HOME */
    assert_int_equal(warnings, 0);
    setenv("HOME", "/h", 1);
    assert_ok(tidei_settings_read(NULL, &s, note_warning, NULL));
    assert_string_equal(s.cache_dir, "/h/.cache/tidepool");
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored, says its specification */
    assert_ok(tidei_settings_read(NULL, &s, note_warning, NULL));
    assert_string_equal(s.cache_dir, "/h/.cache/tidepool");
    setenv("XDG_CACHE_HOME", "/x", 1);
    assert_ok(tidei_settings_read(NULL, &s, note_warning, NULL));
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
    assert_ok(tidei_settings_read(&c, &s, note_warning, NULL));
    assert_string_equal(s.limit, "1GiB");
    assert_false(s.gc_early);
    assert_int_equal(s.log_level, TIDE_LOG_DEBUG);
    assert_string_equal(s.pool, "none");
    assert_int_equal(s.host_devices, 3);
    assert_ok(tidei_settings_read(NULL, &s, note_warning, NULL));
    assert_string_equal(s.limit, "50%");
    assert_true(s.gc_early);
    assert_int_equal(s.log_level, TIDE_LOG_ERROR);
}

/* Each bad value of the environment warns, naming variable and value, and the default stays; in the config it fails. */
static void bad_values(void **state) {
    static const char *const rows[][2] = {
        {"TIDE_DEVICE", "gpu"},     {"TIDE_DEVICE", "cuda:x"},   {"TIDE_DEVICE", "cuda:99999"},
        {"TIDE_LIMIT", "lots"},     {"TIDE_LIMIT", "120%"},      {"TIDE_GC_EARLY", "maybe"},
        {"TIDE_HOST_MEMORY", "1"},  {"TIDE_HOST_DEVICES", "0"},  {"TIDE_LOG", "loud"},
        {"TIDE_CACHE_DIR", "here"}, {"TIDE_DEBUG", "3"},         {"TIDE_DEBUG", "sample:0"},
        {"TIDE_DEBUG", "sample:"},  {"TIDE_DEBUG", "sample:9x"}, {"TIDE_DEBUG", "sample: 9"},
        {"TIDE_CACHE_MAX", "big"},  {"TIDE_HANDLE_CACHE", "50%"}};
    tidei_settings plain, s;
    (void)state;
    assert_ok(tidei_settings_read(NULL, &plain, note_warning, NULL));
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        warnings = 0;
        setenv(rows[i][0], rows[i][1], 1);
        assert_ok(tidei_settings_read(NULL, &s, note_warning, NULL));
        unsetenv(rows[i][0]);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(warned[0], rows[i][0]));
        assert_non_null(strstr(warned[0], rows[i][1]));
        assert_memory_equal(&s, &plain, sizeof s);
    }
    tide_config c = {.struct_size = sizeof c, .limit = "lots"};
    assert_int_equal(tidei_settings_read(&c, &s, note_warning, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "lots");
    c = (tide_config){.struct_size = sizeof c, .cache_dir = "below/here"};
    assert_int_equal(tidei_settings_read(&c, &s, note_warning, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the field for TIDE_CACHE_DIR is \"below/here\"; wanted: an absolute path");
    c = (tide_config){.struct_size = sizeof c, .gc_early = 7};
    assert_int_equal(tidei_settings_read(&c, &s, note_warning, NULL), TIDE_E_INVALID);
    c = (tide_config){.struct_size = sizeof c + 8};
    assert_int_equal(tidei_settings_read(&c, &s, note_warning, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "struct_size");
}

/* A level and sampling are one variable, of which the later word counts; a field is one of the two. */
static void debug_levels(void **state) {
    static const struct {
        const char *text;
        int level, sample;
    } rows[] = {{"0", 0, 0}, {"2", 2, 0}, {"sample:1000", 0, 1000}, {"sample:1", 0, 1}};
    tidei_settings s;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        setenv("TIDE_DEBUG", rows[i].text, 1);
        assert_ok(tidei_settings_read(NULL, &s, note_warning, NULL));
        assert_int_equal(s.debug, rows[i].level);
        assert_int_equal(s.debug_sample, rows[i].sample);
    }
    tide_config c = {.struct_size = sizeof c, .debug = 1};
    setenv("TIDE_DEBUG", "sample:9", 1);
    assert_ok(tidei_settings_read(&c, &s, note_warning, NULL));
    assert_int_equal(s.debug, 1);
    assert_int_equal(s.debug_sample, 0);
    c.debug_sample = 50;
    assert_ok(tidei_settings_read(&c, &s, note_warning, NULL));
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
        assert_ok(tidei_settings_read(&c, &s, note_warning, NULL));
        assert_int_equal(s.log_level, rows[i].level);
    }
    unsetenv("TIDE_LOG");
    unsetenv("TIDE_DEBUG");
    tide_config c = {.struct_size = sizeof c, .debug = 2};
    assert_ok(tidei_settings_read(&c, &s, note_warning, NULL));
    assert_int_equal(s.log_level, TIDE_LOG_WARNING);
    c = (tide_config){.struct_size = sizeof c, .debug_sample = 100};
    assert_ok(tidei_settings_read(&c, &s, note_warning, NULL));
    assert_int_equal(s.log_level, TIDE_LOG_WARNING);
    assert_int_equal(warnings, 0);
}

/* A caller built against an older, shorter struct keeps working. */
static void shorter_config(void **state) {
    tidei_settings s;
    tide_config c;
    (void)state;
    memset(&c, 0xff, sizeof c);
    c.struct_size = offsetof(tide_config, limit);
    c.device = "host:1";
    assert_ok(tidei_settings_read(&c, &s, note_warning, NULL));
    assert_string_equal(s.device, "host:1");
    assert_string_equal(s.limit, "");
}

/* ---- as a runtime shows it ---- */

static void good_environment(void **state) {
    tide_statistics s;
    char text[400];
    (void)state;
    setenv("TIDE_DEVICE", test_device(), 1);
    setenv("TIDE_LIMIT", "32MiB", 1);
    setenv("TIDE_SOFT_LIMIT", "16MiB", 1);
    setenv("TIDE_COLLECTOR", "refcount", 1);
    setenv("TIDE_POLICY", "cudajl", 1);
    setenv("TIDE_GC_EARLY", "0", 1);
    setenv("TIDE_POOL", "none", 1);
    setenv("TIDE_HOST_MEMORY", "64MiB", 1);
    setenv("TIDE_LOG", "info", 1);
    setenv("TIDE_DEBUG", "1", 1);
    setenv("TIDE_CACHE_MAX", "1MiB", 1);
    tide_runtime *rt = open_logged(true);
    works(rt);
    s = test_stats(rt);
    assert_int_equal(s.limit, 32 * TIDEI_MIB);
    assert_int_equal(s.soft_limit, 16 * TIDEI_MIB);
    tide_memory_status(rt, text, sizeof text);
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
                                          {"TIDE_LIMIT", "lots"},
                                          {"TIDE_LIMIT", "-1"},
                                          {"TIDE_SOFT_LIMIT", "150%"},
                                          {"TIDE_COLLECTOR", "mark"},
                                          {"TIDE_POLICY", "hopeful"},
                                          {"TIDE_POOL", "buddy"},
                                          {"TIDE_POOL", "split:20MiB"},
                                          {"TIDE_GC_EARLY", "often"},
                                          {"TIDE_HOST_MEMORY", "1"},
                                          {"TIDE_HOST_DEVICES", "100"},
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
            fail_msg("%s=%s: %s", rows[i][0], rows[i][1], tide_last_error()->message);
        unsetenv(rows[i][0]);
        snprintf(said, sizeof said, "%s=%s is not understood", rows[i][0], rows[i][1]);
        assert_int_equal(logged.n, 1);
        if (!strcmp(rows[i][0], "TIDE_POOL"))
            assert_int_equal(lines_with(TIDE_LOG_WARNING, "tide, driver, split, binned, simple, none"), 1);
        if (lines_with(TIDE_LOG_WARNING, said) != 1) fail_msg("wanted \"%s\", got %s", said, logged.line[0]);
        works(rt);
        tide_close(rt);
    }
}

static void bad_config_fails(void **state) {
    const tide_host_memory half = {.free = (void (*)(void *, void *))(void (*)(void))free};
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
        {{.pool = "buddy"}, TIDE_E_INVALID, {"pool \"buddy\"", "tide, driver, split, binned, simple, none"}},
        {{.pool = "tide:1GiB"}, TIDE_E_INVALID, {"pool \"tide:1GiB\"", "split:SIZE"}},
        {{.pool = "split:20MiB"}, TIDE_E_INVALID, {"pool \"split:20MiB\"", "above 20MiB"}},
        {{.pool = "split:"}, TIDE_E_INVALID, {"pool \"split:\"", "split:SIZE"}},
        {{.release_threshold = "some"}, TIDE_E_INVALID, {"TIDE_RELEASE_THRESHOLD", "\"some\""}},
        {{.deterministic = 5}, TIDE_E_INVALID, {"TIDE_POOL_DETERMINISTIC", "0 or 1"}},
        {{.gc_early = 3}, TIDE_E_INVALID, {"TIDE_GC_EARLY", "0 or 1"}},
        {{.cache = -1}, TIDE_E_INVALID, {"TIDE_CACHE", "0 or 1"}},
        {{.host_memory = "12"}, TIDE_E_INVALID, {"TIDE_HOST_MEMORY", "64KiB"}},
        {{.host_devices = 17}, TIDE_E_INVALID, {"TIDE_HOST_DEVICES", "17"}},
        {{.log_level = 9}, TIDE_E_INVALID, {"TIDE_LOG", "debug"}},
        {{.debug = 3}, TIDE_E_INVALID, {"TIDE_DEBUG", "\"3\""}},
        {{.debug_sample = -1}, TIDE_E_INVALID, {"tide_config.debug_sample is -1", "wanted: 1 to"}},
        {{.cache_max = "big"}, TIDE_E_INVALID, {"TIDE_CACHE_MAX", "\"big\""}},
        {{.handle_cache = "some"}, TIDE_E_INVALID, {"TIDE_HANDLE_CACHE", "\"some\""}},
        {{.host = &half}, TIDE_E_INVALID, {"tide_config.host", "alloc and free"}},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        tide_config c = rows[i].c;
        tide_runtime *rt = (tide_runtime *)&c;
        c.struct_size = sizeof c;
        if (!c.device) c.device = "host";
        tide_clear_error();
        assert_int_equal(tide_open(&c, &rt), rows[i].status);
        for (int k = 0; k < 2; k++) assert_error(rows[i].status, rows[i].part[k]);
        assert_true(strlen(tide_last_error()->message) > 10);
        assert_string_equal(tide_last_error()->operation, "tide_open");
        assert_ptr_equal(rt, (tide_runtime *)&c); /* out is untouched */
    }
    assert_int_equal(tide_open(NULL, NULL), TIDE_E_INVALID);
}

/* A caller built against an older tide_config gives a shorter one, behind which lie bytes of others. */
static void older_config(void **state) {
    static const size_t sizes[] = {offsetof(tide_config, limit), offsetof(tide_config, log_level),
                                   offsetof(tide_config, log), offsetof(tide_config, host)};
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
        setenv("TIDE_LOG", "info", 1);
        int err = dup(2), null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        tide_status status = tide_open(&whole, &rt); /* logs to stderr, not through bytes of others */
        dup2(err, 2);
        close(err), close(null);
        unsetenv("TIDE_LOG");
        assert_int_equal(status, TIDE_OK);
        tide_close(rt);
    }
}

int main(void) {
#define HELD(f) cmocka_unit_test_setup_teardown(f, setup_homeless, restore_home)
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, restore_environment)
    const struct CMUnitTest tests[] = {
        HELD(settings_default), HELD(config_wins_over_environment),
        HELD(bad_values),       HELD(shorter_config),
        HELD(debug_levels),     HELD(tracking_is_heard),
        CASE(good_environment), CASE(bad_environment_warns),
        CASE(bad_config_fails), CASE(older_config),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
