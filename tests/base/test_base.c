/* test_base.c: errors and byte counts. */
#include "tests/support/tidetest.h"
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
        assert_string_equal(tidei_format_bytes(b, sizeof b, rows[i].bytes, rows[i].digits),
                            rows[i].text);
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
    *(tide_status *)out = tide_error_last()->status;
    return NULL;
}
static void errors_are_the_threads_own(void **state) {
    pthread_t t;
    tide_status other = -1;
    (void)state;
    tide_error_clear();
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_string_equal(tide_error_last()->message, "");
    assert_int_equal(tidei_fail(TIDE_E_SHAPE, "tide_add", "%d and %d", 3, 4), TIDE_E_SHAPE);
    /* The arguments may be the old message itself. */
    tidei_fail(TIDE_E_IO, "outer", "outer: %s", tide_error_last()->message);
    assert_string_equal(tide_error_last()->message, "outer: 3 and 4");
    assert_string_equal(tide_error_last()->operation, "outer");
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
    tide_error_clear();
    tidei_error_restore(&e);
    assert_string_equal(tide_error_last()->message, whole);
    assert_string_equal(tide_status_name(TIDE_E_NOMEM), "TIDE_E_NOMEM");
    assert_string_equal(tide_status_name(-7), "TIDE_E_?");
    assert_string_equal(tide_status_name(TIDE_END), "TIDE_END");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_in_text),
        cmocka_unit_test(bytes_from_text),
        cmocka_unit_test(errors_are_the_threads_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
