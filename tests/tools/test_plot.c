/* test_plot.c: what is behind a picture: timelines that lose nothing, texts in other languages, and
** a study's pictures while host memory ends. What comes of it all: plot.sh. */
#include "tests/support/few_mallocs.h"
#include "tests/support/tidetest.h"
#include "tools/tide/quote.h"
#include "tools/tide/study_plot.h"
#include "tools/tide/study_input.h"
#include "tools/tide/study_sweep.h"
#include "tools/tide/timeline.h"
#include "gc/lab/random.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- timelines ---- */

#define SAMPLES 5000

struct sample {
    uint64_t at_ns, live, held, backed;
};

/* What a column should have: what stood when it began, and all that came while it lasted. */
static void assert_column(const tidei_timeline *t, size_t i, const struct sample *all) {
    uint64_t begin = i * t->width_ns, end = begin + t->width_ns, backed = 0;
    tidei_timeline_range live = {UINT64_MAX, 0}, held = {UINT64_MAX, 0};
    for (size_t k = 0; k <= SAMPLES; k++) {
        bool before = k < SAMPLES && all[k + 1].at_ns < begin;
        if (before || all[k].at_ns >= end) continue;
        live.low = all[k].live < live.low ? all[k].live : live.low;
        live.high = all[k].live > live.high ? all[k].live : live.high;
        held.low = all[k].held < held.low ? all[k].held : held.low;
        held.high = all[k].held > held.high ? all[k].held : held.high;
        backed = all[k].backed > backed ? all[k].backed : backed;
    }
    assert_int_equal(t->columns[i].live.low, live.low);
    assert_int_equal(t->columns[i].live.high, live.high);
    assert_int_equal(t->columns[i].held.low, held.low);
    assert_int_equal(t->columns[i].held.high, held.high);
    assert_int_equal(t->columns[i].backed, backed);
}

/* Gaps from nothing to many columns. */
static void a_timeline_keeps_the_least_and_the_most_of_each_column(void **state) {
    static struct sample all[SAMPLES + 1]; /* the first is the beginning: nothing */
    static tidei_timeline t;
    uint64_t random = 7, now = 0;
    (void)state;
    tidei_timeline_begin(&t);
    for (size_t i = 1; i <= SAMPLES; i++) {
        now += tidei_lab_between(&random, 0, i % 100 ? 50 : 1000000);
        all[i] = (struct sample){now, tidei_lab_between(&random, 0, 1000),
                                 tidei_lab_between(&random, 1000, 2000), i};
        tidei_timeline_hold(&t, now, all[i].live, all[i].held, all[i].backed);
    }
    assert_ok(tidei_timeline_end(&t, now));
    assert_true(t.n > TIDEI_TIMELINE_COLUMNS / 2 && t.n <= TIDEI_TIMELINE_COLUMNS);
    assert_true(t.width_ns > 1);
    for (size_t i = 0; i < t.n; i++) assert_column(&t, i, all);
    tidei_timeline_clear(&t);
}

static void a_timeline_loses_no_mark(void **state) {
    static tidei_timeline t;
    uint64_t counted[TIDEI_MARKS] = {0};
    (void)state;
    tidei_timeline_begin(&t);
    for (uint64_t i = 0; i < 10000; i++)
        tidei_timeline_mark_it(&t, (tidei_timeline_mark){.end_ns = i * i,
                                                         .ns = i,
                                                         .kind = (int)(i % TIDEI_MARKS),
                                                         .reason = "it was time"});
    assert_ok(tidei_timeline_end(&t, 1));
    assert_int_equal(t.nmarks, 10000);
    for (size_t i = 0; i < t.n; i++)
        for (unsigned k = 0; k < TIDEI_MARKS; k++) counted[k] += t.columns[i].marks[k];
    for (unsigned k = 0; k < TIDEI_MARKS; k++) {
        assert_int_equal(counted[k], t.counts[k]);
        assert_in_range(counted[k], 3333, 3334);
    }
    for (uint64_t i = 0; i < t.nmarks; i++) assert_int_equal(t.marks[i].end_ns, i * i);
    tidei_timeline_clear(&t);
}

static void a_timeline_says_that_marks_are_missing(void **state) {
    static tidei_timeline t;
    (void)state;
    tidei_timeline_begin(&t);
    atomic_store(&mallocs_left, 0);
    tidei_timeline_mark_it(&t, (tidei_timeline_mark){.end_ns = 5, .reason = "it was time"});
    atomic_store(&mallocs_left, -1);
    tidei_timeline_mark_it(&t, (tidei_timeline_mark){.end_ns = 6, .reason = "it was time"});
    assert_int_equal(tidei_timeline_end(&t, 7), TIDE_E_HOST_NOMEM);
    tidei_timeline_clear(&t);
}

/* A run's notes say what lives at each death too, and never more than is held. */
static void notes_add_up(void *user, const tidei_lab_note *n) {
    uint64_t *last = user;
    assert_true(n->at_ns >= *last);
    *last = n->at_ns;
    if (n->what == TIDEI_LAB_HELD) {
        assert_true(n->live <= n->bytes);
        assert_true(n->bytes <= n->backed);
    }
    if (n->what != TIDEI_LAB_HELD) assert_int_equal(n->live, 0);
}

static void what_a_run_tells_adds_up(void **state) {
    static const char *const names[] = {"train", "threads", "pinned"};
    tidei_policy_choice choice;
    char why[200];
    (void)state;
    assert_true(tidei_policy_choose("cudajl", &choice, why, sizeof why));
    for (size_t i = 0; i < TIDEI_COUNT(names); i++) {
        tidei_lab_program p;
        tidei_lab_figures with, without;
        uint64_t last = 0;
        assert_ok(tidei_study_load(names[i], &p));
        tidei_lab_options o = {.policy = &choice,
                               .limit = {p.limit[0] ? p.limit[0] : TIDEI_NO_LIMIT, TIDEI_NO_LIMIT},
                               .seed = 1};
        assert_ok(tidei_lab_simulate(&p, &o, &without));
        o.note = notes_add_up;
        o.user = &last;
        assert_ok(tidei_lab_simulate(&p, &o, &with));
        assert_memory_equal(&with, &without, sizeof with); /* being looked at changes nothing */
        assert_true(last <= with.ns);
        tidei_lab_clear(&p);
    }
}

/* ---- texts ---- */

static void assert_written(void (*write)(FILE *to, const char *text), const char *text,
                           const char *wanted) {
    char *got = NULL;
    size_t bytes;
    FILE *f = open_memstream(&got, &bytes);
    assert_non_null(f);
    write(f, text);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(got, wanted);
    free(got);
}

static void texts_are_one_string_of_the_other_language(void **state) {
    (void)state;
    assert_written(tidei_quote_html, "a<b>&\"c'", "a&lt;b&gt;&amp;&quot;c&#39;");
    assert_written(tidei_quote_gnuplot, "it's `id` \\n \"x\"", "'it''s `id` \\n \"x\"'");
    assert_written(tidei_quote_shell, "reserve", "reserve");
    assert_written(tidei_quote_shell, "", "''");
    assert_written(tidei_quote_shell, "reserve(x0=1)", "'reserve(x0=1)'");
    assert_written(tidei_quote_shell, "it's $HOME", "'it'\\''s $HOME'");
    assert_written(tidei_quote_field, "a\tb\nc", "a?b?c");
    assert_written(tidei_quote_json, "a\"b\\c\x1b\x7f\xff\xc3\xa4\xc2\x85",
                   "\"a\\\"b\\\\c\\u001b??\xc3\xa4??\"");
}

/* Halves of pairs, long forms, what is cut short, beyond the last, C1 controls. */
static void what_is_no_character_shows_as_a_question_mark(void **state) {
    (void)state;
    assert_written(tidei_quote_html, "a\x01\x1f\x7f", "a???");
    assert_written(tidei_quote_html, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8a",
                   "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8a");
    assert_written(tidei_quote_html, "\xed\xa0\x80", "???");
    assert_written(tidei_quote_html, "\xc0\xaf\xe0\x80\xaf", "?????");
    assert_written(tidei_quote_html, "\xe2\x82", "??");
    assert_written(tidei_quote_html, "\xf4\x90\x80\x80", "????");
    assert_written(tidei_quote_html, "\xc2\x85<", "??&lt;");
    assert_written(tidei_quote_gnuplot, "\xff'", "'?'''");
}

static void files_have_safe_names(void **state) {
    static const char *const names[][2] = {{"reserve(x0=0.5,x1=0.9)", "reserve_x0_0.5_x1_0.9"},
                                           {"../../etc/passwd", "etc_passwd"},
                                           {".hidden", "hidden"},
                                           {"-rf", "rf"},
                                           {"///", "_"},
                                           {"", "_"},
                                           {"a b\tc\xc3\xa4", "a_b_c"}};
    char buf[40];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(names); i++)
        assert_string_equal(tidei_quote_file(buf, sizeof buf, names[i][0]), names[i][1]);
    assert_string_equal(tidei_quote_file(buf, 6, "abcdefgh"), "abcde");
}

/* ---- a study ---- */

static void remove_all(const char *dir) {
    char path[600];
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (*e->d_name != '.') assert_int_equal(unlink(path), 0);
    }
    closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

/* There is no gnuplot in a PATH that is empty: all else is written first. */
static void host_memory_may_end(void **state) {
    char dir[] = "/tmp/tidepool-plot-XXXXXX", why[200];
    static tidei_study_sweep_list sweep;
    tidei_study_limit limit;
    tidei_lab_program p;
    tidei_plot plot;
    tide_status status = TIDE_OK;
    (void)state;
    test_needs_children();
    assert_non_null(mkdtemp(dir));
    assert_ok(tidei_study_load("pinned", &p));
    assert_true(tidei_study_limit_parse("1.2x", &limit));
    assert_true(tidei_study_sweep(&sweep, "never", why, sizeof why));
    tidei_study s = {.programs = &p,
                     .nprograms = 1,
                     .limits = &limit,
                     .nlimits = 1,
                     .policies = sweep.at,
                     .npolicies = 1,
                     .seeds = 1,
                     .threads = 1,
                     .patience = 60};
    assert_ok(tidei_study_run(&s));
    assert_ok(tidei_plot_open(&plot, "tide study", dir));
    setenv("PATH", "/nowhere", 1);
    for (long n = 0; n == 0 || status == TIDE_E_HOST_NOMEM; n++) {
        atomic_store(&mallocs_left, n);
        status = tidei_study_plot(&s, &plot, "tide study pinned");
        atomic_store(&mallocs_left, -1);
    }
    assert_int_equal(status, TIDE_E_UNSUPPORTED);
    assert_non_null(strstr(tide_error_last()->message, "install the package gnuplot-nox"));
    tidei_plot_close(&plot);
    tidei_study_clear(&s);
    tidei_study_sweep_clear(&sweep);
    tidei_lab_clear(&p);
    remove_all(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeline_keeps_the_least_and_the_most_of_each_column),
        cmocka_unit_test(a_timeline_loses_no_mark),
        cmocka_unit_test(a_timeline_says_that_marks_are_missing),
        cmocka_unit_test(what_a_run_tells_adds_up),
        cmocka_unit_test(texts_are_one_string_of_the_other_language),
        cmocka_unit_test(what_is_no_character_shows_as_a_question_mark),
        cmocka_unit_test(files_have_safe_names),
        cmocka_unit_test(host_memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
