/* test_base.c: errors, byte counts, configuration and environment. */
#include "tidetest.h"
#include <pthread.h>

static void bytes_in_text(void **state) {
    static const struct {
        size_t bytes;
        int digits;
        const char *text;
    } rows[] = {{0, 3, "0 bytes"},
                {1023, 3, "1023 bytes"},
                {1024, 3, "1.000 KiB"},
                {8192, 3, "8.000 KiB"},
                {1048575, 3, "1023.999 KiB"},
                {1073741823, 3, "1.000 GiB"},
                {3076295000u, 3, "2.865 GiB"},
                {1932735283u, 1, "1.8 GiB"},
                {SIZE_MAX, 1, "16.0 EiB"}};
    char b[32];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++)
        assert_string_equal(tidei_format_bytes(b, sizeof b, rows[i].bytes, rows[i].digits), rows[i].text);
}

static void bytes_from_text(void **state) {
    static const struct {
        const char *text;
        size_t whole, bytes;
    } good[] = {{"0", 0, 0},
                {"1024", 0, 1024},
                {"4GiB", 0, 4 * TIDEI_GIB},
                {"4G", 0, 4 * TIDEI_GIB},
                {"4gib", 0, 4 * TIDEI_GIB},
                {"4GB", 0, 4000000000u},
                {"1.5 KiB", 0, 1536},
                {"512MB", 0, 512000000u},
                {"10B", 0, 10},
                {"50%", 1000, 500},
                {"100%", 1000, 1000},
                {" 7", 0, 7},
                {"9007199254740993", 0, 9007199254740993u}}; /* 2^53 + 1: not through a double */
    static const char *const bad[] = {"",    "x",   "-1",   "+1",   "1X",  "1GiBs",
                                      "nan", "inf", "0x10", "101%", "1 2", "99999999999999999999",
                                      "16E", "%"};
    size_t out;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(good); i++) {
        assert_true(tidei_parse_bytes(good[i].text, good[i].whole, &out));
        assert_int_equal(out, good[i].bytes);
    }
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        out = 42;
        if (tidei_parse_bytes(bad[i], 1000, &out)) fail_msg("\"%s\" was taken as %zu", bad[i], out);
        assert_int_equal(out, 42);
    }
    assert_false(tidei_parse_bytes("50%", 0, &out));
}

static void *clean_thread(void *out) {
    *(tide_status *)out = tide_last_error()->status;
    return NULL;
}
static void errors_are_the_threads_own(void **state) {
    pthread_t t;
    tide_status other = -1;
    (void)state;
    tide_clear_error();
    assert_int_equal(tide_last_error()->status, TIDE_OK);
    assert_string_equal(tide_last_error()->message, "");
    assert_int_equal(tidei_fail(TIDE_E_SHAPE, "tide_add", "%d and %d", 3, 4), TIDE_E_SHAPE);
    /* The arguments may be the old message itself. */
    tidei_fail(TIDE_E_IO, "outer", "outer: %s", tide_last_error()->message);
    assert_string_equal(tide_last_error()->message, "outer: 3 and 4");
    assert_string_equal(tide_last_error()->operation, "outer");
    pthread_create(&t, NULL, clean_thread, &other);
    pthread_join(t, NULL);
    assert_int_equal(other, TIDE_OK);
    tidei_saved_error e;
    tidei_error_save(&e);
    tidei_fail(TIDE_E_LOST, "x", "y");
    tidei_error_restore(&e);
    assert_error(TIDE_E_IO, "outer: 3 and 4");
    char whole[3500]; /* a compiler's log, say: nothing of it is lost */
    memset(whole, 'x', sizeof whole);
    whole[sizeof whole - 1] = 0;
    tidei_fail(TIDE_E_DEVICE, "x", "%s", whole);
    tidei_error_save(&e);
    tide_clear_error();
    tidei_error_restore(&e);
    assert_string_equal(tide_last_error()->message, whole);
    assert_string_equal(tide_status_name(TIDE_E_NOMEM), "TIDE_E_NOMEM");
    assert_string_equal(tide_status_name(-7), "TIDE_E_?");
}

/* ---- settings ---- */

static char warned[8][512];
static int warnings;
static void note_warning(void *user, const char *line) {
    (void)user;
    if (warnings < 8) snprintf(warned[warnings++], sizeof warned[0], "%s", line);
}
static const char *const variables[] = {
    "TIDE_DEVICE",       "TIDE_LIMIT",     "TIDE_SOFT_LIMIT", "TIDE_COLLECTOR",
    "TIDE_POLICY",       "TIDE_GC_EARLY",  "TIDE_POOL",       "TIDE_HOST_MEMORY",
    "TIDE_HOST_DEVICES", "TIDE_LOG",       "TIDE_DEBUG",      "TIDE_CACHE",
    "TIDE_CACHE_DIR",    "TIDE_CACHE_MAX", "XDG_CACHE_HOME",  "HOME"};
static char *kept[TIDEI_COUNT(variables)];
static int clear_environment(void **state) {
    (void)state;
    warnings = 0;
    for (size_t i = 0; i < TIDEI_COUNT(variables); i++) {
        const char *v = getenv(variables[i]);
        kept[i] = v ? strdup(v) : NULL;
        unsetenv(variables[i]);
    }
    return 0;
}
static int restore_environment(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(variables); i++) {
        if (kept[i])
            setenv(variables[i], kept[i], 1);
        else
            unsetenv(variables[i]);
        free(kept[i]);
    }
    return 0;
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
        {"TIDE_DEVICE", "gpu"},     {"TIDE_DEVICE", "cuda:x"},  {"TIDE_DEVICE", "cuda:99999"},
        {"TIDE_LIMIT", "lots"},     {"TIDE_LIMIT", "120%"},     {"TIDE_GC_EARLY", "maybe"},
        {"TIDE_HOST_MEMORY", "1"},  {"TIDE_HOST_DEVICES", "0"}, {"TIDE_LOG", "loud"},
        {"TIDE_CACHE_DIR", "here"}, {"TIDE_DEBUG", "2"},        {"TIDE_CACHE_MAX", "big"}};
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

int main(void) {
#define SETTINGS(f) cmocka_unit_test_setup_teardown(f, clear_environment, restore_environment)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_in_text),
        cmocka_unit_test(bytes_from_text),
        cmocka_unit_test(errors_are_the_threads_own),
        SETTINGS(settings_default),
        SETTINGS(config_wins_over_environment),
        SETTINGS(bad_values),
        SETTINGS(shorter_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
