/* test_locale.c: every text that the library writes and every number that it reads is the same in
** every locale.
**
** A transcript is made of all of them: of the program's locale "C", then of others, for the whole
** process and for one thread. German writes a decimal comma, points between thousands and system
** errors in German; in Turkish I and i are not the same letter. Figures that change from run to run
** are replaced by #. */
#include <locale.h>
#include <unistd.h>
#include "arrays/expr/cuda_text.h"
#include "runtime/device/host/host.h"
#include "runtime/base/text.h"
#include "tests/support/clean_environment.h"
#include "tests/support/folder.h"
#include "tests/arrays/expr/programs.h"

static const char *const locales[] = {"de_DE.UTF-8", "tr_TR.UTF-8"};

/* ---- the transcript ---- */

static struct {
    char text[1 << 18];
    size_t n;
} said;

static void say(const char *text) {
    size_t n = strlen(text);
    assert_true(said.n + n + 2 < sizeof said.text);
    memcpy(said.text + said.n, text, n);
    memcpy(said.text + said.n + n, "\n", 2);
    said.n += n + 1;
}

static void say_error(void) {
    say(tide_status_name(tide_error_last()->status));
    say(tide_error_last()->message);
    tide_error_clear();
}

static void say_number(uint64_t v) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    say(text);
}

/* Runs of digits as #: what is left of "in 1.5 ms" is "in #.# ms". */
static void say_blurred(const char *text) {
    char line[2048];
    size_t n = 0;
    for (; *text && n < sizeof line - 1; text++)
        if (!(*text >= '0' && *text <= '9'))
            line[n++] = *text;
        else if (!n || line[n - 1] != '#')
            line[n++] = '#';
    line[n] = 0;
    say(line);
}

static void say_array(tide_array *a) {
    char text[4096];
    assert_array(a);
    tide_array_text(a, text, sizeof text);
    say(text);
    tide_release(a);
}

static size_t skip_digits(const char *text, size_t at) {
    while (text[at] >= '0' && text[at] <= '9') at++;
    return at;
}

/* A recording's lines differ from run to run; its numbers are written in one way. */
static void check_lines(const char *path, bool csv) {
    char line[1024];
    unsigned numbers = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *time = csv ? strchr("afsdCcRrWw", *line) && line[1] == ',' ? line + 1 : NULL
                               : strstr(line, "\"ts\":");
        size_t at = csv ? 0 : 5;
        if (!time) continue;
        for (int field = 0; csv && field < 4; field++) { /* id, bytes, stream, microseconds */
            assert_int_equal(time[at], ',');
            assert_true(skip_digits(time, at + 1) > at + 1);
            at = skip_digits(time, at + 1);
        }
        size_t whole = skip_digits(time, at);
        if (!csv) { /* microseconds with three digits behind the point */
            assert_true(whole > at && time[whole] == '.');
            at = skip_digits(time, whole + 1);
            assert_int_equal(at - whole, 4);
        }
        assert_true(strchr(csv ? "\n" : ",}", time[at]) != NULL);
        numbers++;
    }
    fclose(f);
    assert_true(numbers >= 2);
}

/* ---- what is in it ---- */

static char folder[64];
static const char *in_folder(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void sizes(void) {
    static const char *const texts[] = {"1.5GiB",   "4GIB",   "4gib",  "12.5MB", "1e3K", "50.5%",
                                        "0.125TiB", "1,5GiB", "1.000", "7kib",   "7KIB", "1.5",
                                        "2 MiB",    "2 miB",  "0,5%",  "1.5 PIB"};
    for (size_t i = 0; i < TIDEI_COUNT(texts); i++) {
        size_t bytes = 0;
        say(texts[i]);
        say(tidei_parse_bytes(texts[i], 1000, &bytes) ? "read" : "refused");
        say_number(bytes);
    }
}

static void keep_log(void *user, int level, const char *line) {
    (void)user, (void)level;
    say_blurred(line);
}

static tide_runtime *open_said(const char *trace) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "1.5GiB",
                     .limit = "50.5%",
                     .soft_limit = "33.3%",
                     .collector = "refcount",
                     .trace = trace,
                     .log = keep_log,
                     .log_level = TIDE_LOG_DEBUG};
    if (tide_open(&c, &rt) != TIDE_OK) say_error();
    return rt;
}

static void settings(void) {
    tide_runtime *rt;
    setenv("TIDE_LIMIT", "50.5%", 1);
    setenv("TIDE_CACHE_MAX", "1.5MIB", 1);
    rt = open_said(NULL);
    assert_non_null(rt);
    say_number(test_rt(rt)->set.cache_max);
    say(test_rt(rt)->set.limit);
    tide_close(rt);
    unsetenv("TIDE_LIMIT");
    unsetenv("TIDE_CACHE_MAX");
}

static void figures(tide_runtime *rt) {
    char text[8192];
    tide_device_text(rt, text, sizeof text);
    say_blurred(text);
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(1000, 1000));
    assert_array(a);
    tide_runtime_text(rt, text, sizeof text);
    say(text);
    tide_pool_text(tide_pool_default(rt), text, sizeof text);
    say_blurred(text);
    tide_release(a);
}

static void arrays(tide_runtime *rt) {
    static const double values[] = {1.0 / 3, -2.5, 1e-9, 1.5e300, 12345.678, 0.1};
    for (int t = TIDE_F16; t <= TIDE_C128; t++) {
        tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(6), values), *b = tide_cast(a, t);
        say_array(tide_slice(b, " -4 : , "));
        say_array(tide_slice(b, "0"));
        say_array(b);
        tide_release(a);
    }
    tide_array *n = tide_arange(rt, TIDE_I64, 0, 3e9, 1e9);
    say_array(n);
}

static void expressions(tide_runtime *rt) {
    tide_array *x = tide_arange(rt, TIDE_F64, 0, 3, 1);
    say_array(tide_map(rt, "(x) -> x * 1.5e-3 + .25", x));
    say_array(tide_map(rt, "(x) -> x + 2.5i", x));
    static const char *const wrong[] = {"(x) -> x * 1,5", "(x) -> x * 1.5e999", "(\xc4\xb1) -> 1",
                                        "(x) -> SIN(x)",  "(x) -> x +",         "(x) -> x * 1.5.5"};
    for (size_t i = 0; i < TIDEI_COUNT(wrong); i++) {
        assert_null(tide_map(rt, wrong[i], x));
        say_error();
    }
    static const char *const slices[] = {"1,5:", "\xc4\xb1", "NEWAXIS", "1.5"};
    for (size_t i = 0; i < TIDEI_COUNT(slices); i++) {
        assert_null(tide_slice(x, slices[i]));
        say_error();
    }
    tide_release(x);
}

static void failures(tide_runtime *rt) {
    assert_null(tide_npy_read(rt, "/nowhere/at/all.npy"));
    say_error();
    tide_array *a = tide_arange(rt, TIDE_F64, 0, 3, 1);
    assert_int_equal(tide_npy_write(a, "/nowhere/at/all.npy"), TIDE_E_IO);
    say_error();
    assert_null(tide_zeros(rt, TIDE_F64, SHAPE(100000, 100000)));
    say_error(); /* the report */
    tide_release(a);
    assert_null(open_said("/nowhere/at/all.csv"));
}

static void files(tide_runtime *rt) {
    char bytes[512];
    char path[400];
    snprintf(path, sizeof path, "%s", in_folder("a.npy"));
    tide_array *a = tide_zeros(rt, TIDE_F64, SHAPE(1234, 2));
    assert_ok(tide_npy_write(a, path));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, 128, f), 128);
    fclose(f);
    bytes[128] = 0;
    say(bytes + 10);
    tide_release(a);
    a = tide_npy_read(rt, path);
    assert_array(a);
    say_number((uint64_t)tide_array_dim(a, 0));
    tide_release(a);
}

static void recordings(void) {
    static const char *const names[] = {"run.csv", "run.json"};
    for (size_t i = 0; i < TIDEI_COUNT(names); i++) {
        char path[400];
        snprintf(path, sizeof path, "%s", in_folder(names[i]));
        unlink(path);
        tide_runtime *rt = open_said(path);
        assert_non_null(rt);
        tide_array *x = tide_arange(rt, TIDE_F64, 0, 3, 1);
        assert_ok(tide_synchronize(rt, NULL));
        tide_release(x);
        assert_ok(tide_collect(rt));
        tide_close(rt);
        check_lines(path, i == 0);
    }
}

static void kernel_text(tide_runtime *rt) {
    tidei_program p = {0};
    uint16_t a = input(&p, TIDE_F32), b = scalar(&p, TIDE_F32);
    result(&p, node(&p, TIDEI_OP_MUL, TIDE_F32, a, b, 0));
    tidei_cuda_traits k;
    tidei_cuda_traits_of(&p, &k);
    char *text = tidei_cuda_text(test_rt(rt), &p, &k, TIDEI_CUDA_FLAT, NULL);
    assert_non_null(text);
    say(text);
    tidei_host_free(test_rt(rt), text);
}

static void system_files(void) {
    char self[400], limit[400];
    snprintf(self, sizeof self, "%s", in_folder("self"));
    snprintf(limit, sizeof limit, "%s", in_folder("memory.max"));
    FILE *f = fopen(self, "w");
    fputs("0::/\n", f);
    fclose(f);
    f = fopen(limit, "w");
    fputs("1234567890\n", f);
    fclose(f);
    say_number(tidei_host_cgroup_limit(self, folder));
}

static const char *transcript(void) {
    said.n = 0;
    said.text[0] = 0;
    sizes();
    settings();
    tide_runtime *rt = open_said(NULL);
    assert_non_null(rt);
    figures(rt);
    arrays(rt);
    expressions(rt);
    failures(rt);
    files(rt);
    kernel_text(rt);
    tide_close(rt);
    recordings();
    system_files();
    return said.text;
}

/* ---- the cases ---- */

static char *wanted;

static int setup(void **state) {
    (void)state;
    tide_error_clear();
    clear_environment();
    strcpy(folder, "/tmp/tide_locale_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    setlocale(LC_ALL, "C");
    wanted = strdup(transcript());
    return wanted ? 0 : -1;
}

static int teardown(void **state) {
    remove_folder(folder);
    free(wanted);
    setlocale(LC_ALL, "C");
    return restore_environment(state);
}

/* The first line in which the transcript differs. */
static void same_text(const char *name) {
    const char *a = wanted, *b = transcript();
    while (*a) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n))
            fail_msg("in %s: \"%.*s\"\nin C: \"%.*s\"", name, (int)m, b, (int)n, a);
        a += n + 1;
        b += m + 1;
    }
    assert_int_equal(*b, 0);
}

static void in_a_locale_with_a_comma(void) {
    char text[16];
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
}

static void the_locale_of_the_process_changes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(locales); i++) {
        test_need_locale(setlocale(LC_ALL, locales[i]), locales[i]);
        same_text(locales[i]);
        in_a_locale_with_a_comma(); /* the program's own stays */
        setlocale(LC_ALL, "C");
    }
}

static void the_locale_of_a_thread_changes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(locales); i++) {
        locale_t l = newlocale(LC_ALL_MASK, locales[i], (locale_t)0);
        test_need_locale(l, locales[i]);
        locale_t before = uselocale(l);
        same_text(locales[i]);
        in_a_locale_with_a_comma();
        assert_ptr_equal(uselocale((locale_t)0), l);
        uselocale(before);
        freelocale(l);
    }
}

/* One that was made from several: its thousands are grouped, its letters are German, its errors
** English. */
static void a_locale_of_several_parts_changes_nothing(void **state) {
    (void)state;
    test_need_locale(setlocale(LC_NUMERIC, locales[0]) && setlocale(LC_CTYPE, locales[1]),
                     locales[0]);
    same_text("parts");
    setlocale(LC_ALL, "C");
}

static void digits_are_read(void **state) {
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
        size_t taken;
    } texts[] = {{"0", true, 0, 1},
                 {"12a", true, 12, 2},
                 {"007", true, 7, 3},
                 {"", false, 0, 0},
                 {"-1", false, 0, 0},
                 {" 1", false, 0, 0},
                 {"18446744073709551615", true, UINT64_MAX, 20},
                 {"18446744073709551616", false, 0, 0}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(texts); i++) {
        const char *at = texts[i].text;
        uint64_t v = 0;
        assert_int_equal(tidei_read_digits(&at, &v), texts[i].good);
        assert_int_equal(v, texts[i].value);
        assert_int_equal(at - texts[i].text, texts[i].taken);
    }
}

static void integers_are_read(void **state) {
    int64_t v = 99;
    (void)state;
    assert_true(tidei_parse_int(" -5", -5, 5, &v) && v == -5);
    assert_true(tidei_parse_int("+5", -5, 5, &v) && v == 5);
    assert_true(tidei_parse_int("9223372036854775807", 0, INT64_MAX, &v) && v == INT64_MAX);
    static const char *const wrong[] = {"", "-", "6", "-6", "5 ", "5.0", "9223372036854775808",
                                        "x"};
    for (size_t i = 0; i < TIDEI_COUNT(wrong); i++)
        assert_false(tidei_parse_int(wrong[i], -5, 5, &v));
    assert_true(v == INT64_MAX);
}

static void words_are_compared_in_ascii(void **state) {
    (void)state;
    assert_true(tidei_same_word("GiB", "gIB") && tidei_same_word("", ""));
    assert_false(tidei_same_word("gi", "gib") || tidei_same_word("gib", "gi") ||
                 tidei_same_word("@", "`"));
    assert_false(tidei_same_word("\xc4\xb1", "I"));
}

static void long_texts_are_written(void **state) {
    (void)state;
    char *text = tidei_format_new("%0999d %s", 7, "end");
    assert_non_null(text);
    assert_int_equal(strlen(text), 1003);
    assert_string_equal(text + 998, "7 end");
    free(text);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(the_locale_of_the_process_changes_nothing),
        CASE(the_locale_of_a_thread_changes_nothing),
        CASE(a_locale_of_several_parts_changes_nothing),
        cmocka_unit_test(digits_are_read),
        cmocka_unit_test(integers_are_read),
        cmocka_unit_test(words_are_compared_in_ascii),
        cmocka_unit_test(long_texts_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
