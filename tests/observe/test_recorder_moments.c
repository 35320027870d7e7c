/* test_recorder_moments.c: what a recording tells of blocks beyond their rows a and f: their last
** uses, when they became unreachable, and how exactly that is known; and what a collection finds:
** the work that is queued, the collector's heap. */
#include "tests/observe/recordings.h"

static tide_runtime *recording_under(const char *path, const char *collector, const char *policy) {
    return test_open(&(tide_config){.log = keep_line,
                                    .log_level = TIDE_LOG_INFO,
                                    .trace = path,
                                    .collector = collector,
                                    .policy = policy});
}

static void read_timed(const char *path, tidei_trace *t) {
    assert_ok(tidei_trace_read_timed(path, 0, t));
}

/* The block of so many bytes, of which there is one. */
static const tidei_block_moments *moments_of(const tidei_trace *t, uint64_t bytes,
                                             uint64_t *freed) {
    const tidei_block_moments *m = NULL;
    for (size_t i = 0; i < t->n; i++) {
        if (t->events[i].bytes != bytes) continue;
        m = &t->moments[t->events[i].block];
        if (t->events[i].op == TIDEI_EVENT_FREE) *freed = t->times[i].ns;
    }
    assert_non_null(m);
    return m;
}

/* A count that goes to nothing says when; the memory may come back later. */
static void counted_deaths_are_exact(void **state) {
    const char *path = in_folder("run.csv");
    tidei_trace t;
    uint64_t freed = 0;
    (void)state;
    tide_runtime *rt = recording_under(path, "refcount", NULL);
    tide_array *a = bytes(rt, 1000), *b = bytes(rt, 2000), *last = bytes(rt, 3000),
               *view = tide_slice(b, "10:20");
    assert_array(view);
    assert_ok(tide_memset(a, 1));
    assert_ok(tide_memset(last, 1));
    tide_release(a);
    tide_release(b); /* its memory is the view's now */
    usleep(2000);
    assert_ok(tide_memset(view, 1));
    tide_free(view);
    usleep(2000);
    tide_free(bytes(rt, 4000)); /* memory comes back where some is wanted */
    assert_ok(tide_synchronize(rt, NULL));
    size_t page = test_rt(rt)->devs[0].d->info.page_bytes;
    tide_close(rt);
    read_timed(path, &t);
    assert_int_equal(t.run.version, 3);
    assert_int_equal(t.run.page_bytes, page);
    assert_int_equal(t.run.how, TIDEI_DEATHS_COUNTED);
    assert_int_equal(t.run.found, 0);
    assert_true(t.run.total > 0);
    const tidei_block_moments *m = moments_of(&t, 1000, &freed);
    assert_true(m->made <= m->used && m->used <= m->died && m->died + 1000000 <= freed);
    const tidei_block_moments *of_view = moments_of(&t, 2000, &freed);
    assert_true(of_view->used >= m->died + 1000000 && of_view->died >= of_view->used);
    assert_true(of_view->died + 1000000 <= freed);
    m = moments_of(&t, 3000, &freed); /* lived until the runtime closed */
    assert_int_equal(m->died, TIDEI_UNTOLD);
    assert_true(m->used >= m->made && m->used <= freed);
    m = moments_of(&t, 4000, &freed);
    assert_true(m->died >= m->made && m->died <= freed);
    assert_int_equal(m->used, TIDEI_UNTOLD);
    tidei_trace_clear(&t);
}

#if defined(TIDEI_HAVE_BOEHM) && !defined(__SANITIZE_THREAD__) && !defined(TIDEI_STRESS)
/* What a tracing collector finds is said to be found, and what is freed by hand is exact there
** too. */
static void found_deaths_are_told_apart(void **state) {
    const char *path = in_folder("run.csv");
    tidei_trace t;
    (void)state;
    tide_runtime *rt = recording_under(path, "boehm", "every");
    for (int i = 0; i < 100; i++) {
        tide_array *a = bytes(rt, 1000);
        assert_array(a);
        if (i % 4 == 0) tide_free(a);
    }
    tide_close(rt);
    read_timed(path, &t);
    assert_int_equal(t.run.how, TIDEI_DEATHS_AT_ONCE);
    assert_int_equal(t.run.exact, 25);
    assert_true(t.run.found >= 60); /* a few may still be on the stack */
    assert_true(t.ncollections >= 100);
    size_t dead = 0;
    for (size_t i = 0; i < t.ncollections; i++) {
        assert_int_equal(t.collections[i].level, TIDE_COLLECT_FULL);
        assert_true(t.collections[i].heap > 0 && t.collections[i].arrays <= 101);
        assert_true(t.collections[i].dead <= t.collections[i].arrays);
        dead += t.collections[i].dead;
    }
    assert_true(dead >= 50);
    tidei_trace_clear(&t);
    const char *usual = in_folder("usual.csv");
    tide_close(recording_under(usual, "boehm", "reserve"));
    read_timed(usual, &t);
    assert_int_equal(t.run.how, TIDEI_DEATHS_FOUND);
    tidei_trace_clear(&t);
}
#endif

/* What new memory is known to cost stands before the block that is made first with that knowledge,
** and once. */
static void prices_are_told_as_they_change(void **state) {
    static const double known[] = {1, 1, 2, 2, 2, 1};
    static const tidei_trace_price expected[] = {
        {0, TIDEI_MIB}, {2, 2 * TIDEI_MIB}, {5, TIDEI_MIB}};
    enum { MADE = TIDEI_COUNT(known), CHANGES = TIDEI_COUNT(expected) };
    static _Atomic double fresh_ns;
    const char *path = in_folder("run.csv");
    tide_array *x[MADE];
    tidei_trace t;
    (void)state;
    tide_runtime *rt = recording_under(path, "refcount", NULL);
    test_rt(rt)->devs[0].d->fresh_ns = &fresh_ns;
    for (size_t i = 0; i < MADE; i++) {
        atomic_store(&fresh_ns, known[i]);
        x[i] = bytes(rt, 1000);
        assert_array(x[i]);
    }
    for (size_t i = 0; i < MADE; i++) tide_free(x[i]);
    atomic_store(&fresh_ns, 7); /* as the runtime closes more is known */
    tide_close(rt);
    read_timed(path, &t);
    assert_int_equal(t.nprices,
                     CHANGES + 1); /* what the device knew before any block is not kept */
    for (size_t i = 0; i < CHANGES; i++) {
        assert_int_equal(t.prices[i].place, expected[i].place);
        assert_int_equal(t.prices[i].mib_ns, expected[i].mib_ns);
    }
    assert_int_equal(t.run.fresh_mib_ns, 7 * TIDEI_MIB);
    tidei_trace_clear(&t);
}

/* Perfetto's form has no use for any of it. */
static void other_forms_have_none(void **state) {
    const char *path = in_folder("run.json");
    char report[4000];
    (void)state;
    tide_runtime *rt = recording_under(path, "refcount", NULL);
    tide_free(bytes(rt, 1000));
    assert_ok(tide_collect(rt));
    tide_close(rt);
    check_perfetto(path, "", report, sizeof report);
    assert_int_equal(counted(report, "C live "), 2);
}

/* In a program with a bit of everything each block is made, used, dead and freed in this order; and
** as many are told of as were made. */
static void moments_are_in_order(void **state) {
    const char *path = in_folder("run.csv");
    tidei_trace t;
    (void)state;
    tide_runtime *rt = open_recording(path, BUSY_LIMIT);
    busy_program(rt);
    tide_close(rt);
    read_timed(path, &t);
    size_t used = 0, died = 0;
    for (size_t i = 0; i < t.n; i++) {
        if (t.events[i].op != TIDEI_EVENT_FREE) continue;
        const tidei_block_moments *m = &t.moments[t.events[i].block];
        if (m->used != TIDEI_UNTOLD)
            used++, assert_true(m->used >= m->made && m->used <= t.times[i].ns);
        if (m->died != TIDEI_UNTOLD)
            died++, assert_true(m->died >= m->made && m->died <= t.times[i].ns);
    }
    assert_int_equal(used, t.run.used);
    assert_int_equal(died, t.run.exact);
    assert_int_equal(t.run.found, 0);
    assert_true(used > 100 && died > 100);
    assert_int_equal(rows_of(path, 'u'), used);
    assert_int_equal(rows_of(path, 'x'), died);
    assert_int_equal(rows_of(path, 'q'), rows_of(path, 'C'));
    assert_int_equal(rows_of(path, 'h'), rows_of(path, 'C'));
    tidei_trace_clear(&t);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(counted_deaths_are_exact),
#if defined(TIDEI_HAVE_BOEHM) && !defined(__SANITIZE_THREAD__) && !defined(TIDEI_STRESS)
        CASE(found_deaths_are_told_apart),
#endif
        CASE(prices_are_told_as_they_change),
        CASE(other_forms_have_none),
        CASE(moments_are_in_order),
    };
    return cmocka_run_group_tests_name("recorder_moments", cases, NULL, NULL);
}
