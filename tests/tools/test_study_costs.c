/* test_study_costs.c: what recorded runs of a program tell of its times and costs, and what the lab
** makes of them. */
#include "gc/lab/simulate.h"
#include "runtime/observe/recorder.h"
#include "tests/support/few_mallocs.h"
#include "tests/support/tidetest.h"
#include "tools/tide/study_input.h"
#include <sys/mman.h>
#include <unistd.h>

/* ---- recordings ---- */

static void read_trace(const char *text, tidei_trace *t) {
    char path[64];
    int fd = memfd_create("run", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_ok(tidei_trace_read_timed(path, 0, t));
    close(fd);
}

/* A run with exact deaths: two arrays, of which the first dies before the second is made; pauses of
** 10 us, at two arrays each, but for the first. */
#define EXACT_RUN                                                                                  \
    "op,id,bytes,stream,time_us\nv,2,2,0,0\ng,400,1000000,0,0\na,1,1000,0,100\n"                   \
    "h,2,0,0,140\nC,2,0,0,140\nc,2,0,0,145\nx,1,155,1,155\nf,1,1000,0,155\n"                       \
    "h,2,0,0,195\nC,2,0,0,195\nc,2,0,0,205\na,2,500,0,215\ns,0,0,0,265\na,3,8,0,305\n"

/* Runs of another policy: the same makings. */
struct run {
    unsigned slower; /* times */
    /* collections; what they look at, and what takes each of them, at the usual pace, but for the
    ** first, which takes twice that, and one that takes so long */
    unsigned n, arrays, us, long_us;
    const char *second; /* bytes of the second array */
    /* of new memory, told between the first array and the second, and the third; 0: nothing */
    unsigned prices[2];
};

static void timed_run(tidei_trace *t, struct run x) {
    char text[4096];
    unsigned long long us = 100 * x.slower, q = x.slower;
    int n = snprintf(text, sizeof text,
                     "op,id,bytes,stream,time_us\nv,2,0,0,0\ng,400,1000000,0,0\n"
                     "a,1,1000,0,%llu\n",
                     us);
    us += 50 * q;
    for (unsigned i = 0; i < x.n; i++) {
        unsigned long long took = q * (i == 0 ? 2 * x.us : i == 5 ? x.long_us : x.us);
        if (!i) n += snprintf(text + n, sizeof text - (size_t)n, "R,0,8,0,%llu\n", us);
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "q,1,%u,0,%llu\nh,%u,0,0,%llu\nC,2,0,0,%llu\nc,2,0,0,%llu\n", 7000 * i, us,
                      x.arrays, us, us, us + took);
        us += took;
        if (i) continue;
        us += 5 * q; /* a climb, beyond its collection */
        n += snprintf(text + n, sizeof text - (size_t)n, "r,0,8,0,%llu\n", us);
    }
    us += 50 * q;
    if (x.prices[0])
        n += snprintf(text + n, sizeof text - (size_t)n, "g,%u,1000000,0,%llu\n", x.prices[0], us);
    n += snprintf(text + n, sizeof text - (size_t)n, "a,2,%s,0,%llu\n", x.second, us);
    us += 50 * q;
    n += snprintf(text + n, sizeof text - (size_t)n, "s,0,0,0,%llu\nW,5,0,0,%llu\nw,5,0,0,%llu\n",
                  us, us, us + 12 * q);
    us += 40 * q;
    if (x.prices[1])
        n += snprintf(text + n, sizeof text - (size_t)n, "g,%u,1000000,0,%llu\n", x.prices[1], us);
    snprintf(text + n, sizeof text - (size_t)n, "a,3,8,0,%llu\n", us);
    read_trace(text, t);
}

/* Two groups of runs, under a smaller limit and a larger one, the other's median run three times as
** slow. */
struct groups {
    tidei_trace exact, at[2][3];
    tidei_study_runs timed[2];
};

static const struct run small = {1, 9, 200, 109, 327, "500", {0}},
                        large = {3, 9, 400, 309, 309, "500", {0}};

static void read_groups(struct groups *g) {
    read_trace(EXACT_RUN, &g->exact);
    for (unsigned i = 0; i < 3; i++) {
        struct run x = small, y = large;
        if (i == 1) x.slower = 2;
        if (i == 2) y.slower = 1;
        x.prices[0] = 900 + 200 * i; /* 1100 is in the middle */
        x.prices[1] = i ? 0 : 2000;
        timed_run(&g->at[0][i], x);
        timed_run(&g->at[1][i], y);
    }
    for (unsigned k = 0; k < 2; k++) g->timed[k] = (tidei_study_runs){g->at[k], 3};
}

static void clear_groups(struct groups *g) {
    for (unsigned i = 0; i < 6; i++) tidei_trace_clear(&g->at[i / 3][i % 3]);
    tidei_trace_clear(&g->exact);
}

static void convert(const struct groups *g, size_t of, tidei_lab_program *p, bool *same) {
    assert_ok(tidei_study_convert(&g->exact, g->timed, 2, of, "program", p, same));
}

static void assert_event(const tidei_lab_program *p, size_t i, tidei_lab_op op, uint64_t amount) {
    assert_true(i < p->n);
    assert_int_equal(p->events[i].op, op);
    assert_int_equal(p->events[i].amount, amount);
}

static uint64_t pause_of(const tidei_lab_program *p, uint64_t arrays) {
    return tidei_lab_program_pause(p, &p->model, true, arrays);
}

/* To what a few bytes of growth make of a run's pace. */
static void assert_pause(const tidei_lab_program *p, uint64_t arrays, uint64_t ns) {
    assert_in_range(pause_of(p, arrays), ns - 5, ns + 5);
}

/* ---- the cases ---- */

/* Deaths are those of the exact run, times those of the others: of the median run of a group. */
static void other_runs_tell_how_long_it_took(void **state) {
    static const uint64_t step[2] = {50000, 150000};
    struct groups g;
    (void)state;
    read_groups(&g);
    for (size_t of = 0; of < 2; of++) {
        tidei_lab_program p;
        bool same;
        convert(&g, of, &p, &same);
        assert_true(same);
        assert_event(&p, 0, TIDEI_LAB_MAKE, 1000);
        assert_event(&p, 2, TIDEI_LAB_HOST, step[of]); /* half of the way to the second */
        assert_event(&p, 3, TIDEI_LAB_DIE, 0);
        assert_event(&p, 5, TIDEI_LAB_HOST, step[of]);
        assert_event(&p, 6, TIDEI_LAB_MAKE, 500);
        assert_event(&p, 8, TIDEI_LAB_HOST, step[of]);
        assert_event(&p, 9, TIDEI_LAB_SYNC, 0);
        assert_int_equal(p.ntold, 9); /* all before the second making */
        assert_int_equal(p.told[0].event, 6);
        assert_int_equal(p.told[0].slack_ns, 0);
        assert_int_equal(p.told[8].event, 6);
        assert_int_equal(p.told[8].slack_ns, 56000);
        tidei_lab_clear(&p);
    }
    clear_groups(&g);
}

/* Each group is a point of the curve, which goes on as the last two have it; it begins half way
** between the exact run and where the first two lead, if not below a half. A run's pace is no part
** of what it tells. */
static void groups_tell_what_arrays_add_to_a_pause(void **state) {
    static const struct {
        uint64_t arrays, ns[2]; /* at the pace of either group */
    } at[] = {{0, {32250, 86750}},     {2, {32250, 86750}},     {101, {70625, 206875}},
              {200, {109000, 327000}}, {300, {209000, 627000}}, {400, {309000, 927000}},
              {500, {409000, 1227000}}};
    struct groups g;
    (void)state;
    read_groups(&g);
    for (size_t of = 0; of < 2; of++) {
        tidei_lab_program p;
        bool same;
        uint64_t sum = 0;
        convert(&g, of, &p, &same);
        for (size_t i = 0; i < TIDEI_COUNT(at); i++) assert_pause(&p, at[i].arrays, at[i].ns[of]);
        assert_in_range(p.model.stall_ns, of ? 14999 : 4999, of ? 15001 : 5001);
        assert_int_equal(p.first_part[1], 2000);
        /* of all but the firsts, at whatever pace they ran */
        assert_int_equal(p.nspread, 24);
        for (uint32_t i = 0; i < p.nspread; i++) sum += p.spread[i];
        assert_int_equal(sum, of ? 24 * 1000 : 21 * 1000 + 3 * 3000);
        tidei_lab_clear(&p);
    }
    clear_groups(&g);
}

/* Groups that looked at about as many arrays as another are one point, in whatever order they come.
** Beside one point only the exact run is another, where it looked at fewer. */
static void points_are_apart_and_in_order(void **state) {
    static const struct run at[] = {{1, 9, 400, 300, 300, "500", {0}},
                                    {1, 9, 100, 50, 50, "500", {0}},
                                    {1, 9, 401, 340, 340, "500", {0}}};
    static const char exact_of_many[] = "op,id,bytes,stream,time_us\nv,2,2,0,0\na,1,1000,0,100\n"
                                        "h,5000,0,0,140\nC,2,0,0,140\nc,2,0,0,1140\n"
                                        "h,5000,0,0,1195\nC,2,0,0,1195\nc,2,0,0,2195\n"
                                        "a,2,500,0,2205\ns,0,0,0,2255\na,3,8,0,2305\n";
    tidei_trace exact, few, run[3];
    tidei_study_runs timed[3];
    tidei_lab_program p;
    bool same;
    (void)state;
    read_trace(exact_of_many, &exact);
    read_trace(EXACT_RUN, &few);
    for (size_t i = 0; i < 3; i++) {
        timed_run(&run[i], at[i]);
        timed[i] = (tidei_study_runs){&run[i], 1};
    }
    const tidei_trace *const of[] = {&exact, &few};
    for (size_t k = 0; k < 2; k++) {
        assert_ok(tidei_study_convert(of[k], timed, 3, 0, "program", &p, &same));
        assert_int_equal(p.pauses[1].n, 2 + k); /* with that of the exact run */
        assert_pause(&p, 2, k ? 17500 : 50000);
        assert_pause(&p, 100, 50000);
        assert_pause(&p, 400, 300000);
        assert_pause(&p, 10000, 300000 + 32 * 250000);
        tidei_lab_clear(&p);
        assert_ok(tidei_study_convert(of[k], timed, 1, 0, "program", &p, &same));
        assert_int_equal(p.pauses[1].n, 1 + k);
        assert_pause(&p, 2, k ? 10000 : 300000);
        assert_pause(&p, 201, k ? 155000 : 300000);
        assert_pause(&p, 400, 300000);
        tidei_lab_clear(&p);
    }
    for (size_t i = 0; i < 3; i++) tidei_trace_clear(&run[i]);
    tidei_trace_clear(&few);
    tidei_trace_clear(&exact);
}

/* What new memory took is no part of a run's pace. */
static void growth_is_no_pace(void **state) {
    static const struct run usual = {1, 9, 200, 100, 100, "500", {0}};
    static const char exact_run[] = "op,id,bytes,stream,time_us\nv,2,2,0,0\na,1,1000,0,100\n"
                                    "a,2,500,0,200\ns,0,0,0,250\na,3,8,0,290\n";
    tidei_trace exact, run[2];
    tidei_lab_program p;
    bool same;
    (void)state;
    read_trace(exact_run, &exact);
    for (size_t i = 0; i < 2; i++) timed_run(&run[i], usual);
    /* as if 90 us of 290 had been growth */
    run[1].run.growth_ns = 90000;
    const tidei_study_runs timed[] = {{&run[0], 1}, {&run[1], 1}};
    for (size_t i = 0; i < 9; i++) run[1].collections[i].arrays = 400;
    for (int found = 0; found < 2; found++) { /* a price that is found out is not relied on */
        run[1].nprices += (size_t)found;
        assert_ok(tidei_study_convert(&exact, timed, 2, 0, "program", &p, &same));
        run[1].nprices -= (size_t)found;
        assert_pause(&p, 200, 100000);
        assert_pause(&p, 400, found ? 100000 : 145000); /* 100 at the pace of 290 for 200 */
        tidei_lab_clear(&p);
    }
    tidei_trace_clear(&exact);
    for (size_t i = 0; i < 2; i++) tidei_trace_clear(&run[i]);
}

/* Figures of no machine are taken as far as there is room for them. */
static void figures_without_measure_are_survived(void **state) {
    static const char exact_run[] =
        "op,id,bytes,stream,time_us\nv,2,2,0,0\ng,18446744073709551615,1000000,0,0\n"
        "a,1,1000,0,100\nh,18446744073709551615,0,0,100\nC,2,0,0,100\n"
        "c,2,0,0,9000000000000000\nh,0,0,0,9000000000000000\nC,2,0,0,9000000000000000\n"
        "c,2,0,0,18000000000000000\na,2,500,0,18000000000000000\n";
    tidei_trace t;
    tidei_lab_program p;
    bool same;
    (void)state;
    read_trace(exact_run, &t);
    const tidei_study_runs timed = {&t, 1};
    for (size_t n = 0; n < 2; n++) {
        tide_status status = tidei_study_convert(&t, n ? &timed : NULL, n, 0, "run", &p, &same);
        assert_true(status == TIDE_OK || status == TIDE_E_UNSUPPORTED);
        if (status == TIDE_OK) tidei_lab_clear(&p);
    }
    tidei_trace_clear(&t);
}

/* Collections that are first ones are no point, but tell what a first one takes; where there are
** none the exact run tells. */
static void a_group_of_first_collections_tells_of_these_only(void **state) {
    struct groups g;
    tidei_lab_program p;
    bool same;
    (void)state;
    read_groups(&g);
    for (unsigned i = 0; i < 3; i++) {
        struct run x = large;
        x.n = 1;
        tidei_trace_clear(&g.at[1][i]);
        timed_run(&g.at[1][i], x);
    }
    convert(&g, 1, &p, &same);
    assert_int_equal(p.pauses[1].n, 2);
    assert_int_equal(p.pauses[0].n, 0); /* there are no minor ones */
    assert_pause(&p, 200, 327000);
    assert_int_equal(p.nspread, 0);
    double part = 2 * 927000 * 1000.0 / (double)pause_of(&p, 400);
    assert_in_range(p.first_part[1], part - 1, part + 1);
    tidei_lab_clear(&p);
    for (unsigned i = 0; i < 3; i++) {
        struct run x = large;
        x.n = 0;
        tidei_trace_clear(&g.at[1][i]);
        timed_run(&g.at[1][i], x);
    }
    convert(&g, 1, &p, &same);
    assert_pause(&p, 2, 10000);
    assert_int_equal(p.first_part[1], 500);
    tidei_lab_clear(&p);
    clear_groups(&g);
}

/* Runs that make something else tell what collections took all the same. */
static void runs_of_another_course_give_no_times(void **state) {
    struct groups g;
    tidei_lab_program p;
    bool same;
    (void)state;
    read_groups(&g);
    struct run x = small;
    x.second = "501";
    tidei_trace_clear(&g.at[0][1]);
    timed_run(&g.at[0][1], x);
    convert(&g, 1, &p, &same);
    assert_false(same);
    assert_event(&p, 2, TIDEI_LAB_HOST, 50000);
    assert_pause(&p, 200, 109000); /* at the exact run's pace, as all else */
    assert_int_equal(p.ntold, 0);
    tidei_lab_clear(&p);
    clear_groups(&g);
}

/* What new memory is known to cost changes as the pool grows: the middle one of what runs knew once
** they had so much, of which some were told nothing new. */
static void prices_are_those_that_runs_came_to_know(void **state) {
    static const tidei_lab_told_price expected[] = {{0, 400}, {1500, 1100}, {1508, 1300}};
    struct groups g;
    tidei_lab_program p;
    bool same;
    (void)state;
    read_groups(&g);
    convert(&g, 0, &p, &same);
    assert_int_equal(p.nprices, TIDEI_COUNT(expected));
    for (size_t i = 0; i < TIDEI_COUNT(expected); i++) {
        assert_int_equal(p.prices[i].backed, expected[i].backed);
        assert_int_equal(p.prices[i].mib_ns, expected[i].mib_ns);
    }
    assert_int_equal(p.model.fresh_mib_ns, 1300);
    tidei_lab_clear(&p);
    convert(&g, 1, &p, &same); /* where nobody came to know anything */
    assert_int_equal(p.nprices, 1);
    assert_int_equal(p.model.fresh_mib_ns, 400);
    tidei_lab_clear(&p);
    clear_groups(&g);
}

/* ---- the lab ---- */

#define ASKED 8
static struct {
    double fresh_ns[ASKED];
    size_t n;
} seen;

static tidei_decision look(const double *at, void *state, const tidei_policy_history *h,
                           const tidei_policy_in *in) {
    (void)at, (void)state, (void)h;
    if (seen.n < ASKED) seen.fresh_ns[seen.n++] = in->fresh_ns;
    return (tidei_decision){TIDE_COLLECT_FULL, 0, "always"};
}

static void forget(const double *at, void *state, const tidei_policy_in *before,
                   const tidei_policy_in *after, const tidei_collection *c) {
    (void)at, (void)state, (void)before, (void)after, (void)c;
}

static const tidei_policy looker = {
    .name = "looker", .decide = look, .observe = forget, .unguarded = true, .summary = "looks"};

/* Policies are told the price of what is backed by then; the first collection takes what a first
** one does, and the others what the curve says. */
static void the_lab_tells_prices_and_takes_pauses_from_the_curve(void **state) {
    tidei_lab_program p;
    tidei_lab_figures f;
    tidei_lab_told_price *prices = tidei_host_alloc(NULL, 3 * sizeof *prices);
    (void)state;
    assert_non_null(prices);
    tidei_lab_begin(&p, "program");
    p.model.spread_low = p.model.spread_high = 1000;
    p.model.fresh_mib_ns = TIDEI_MIB; /* which the program's times have */
    p.pauses[1].n = 2;
    p.pauses[1].at[0].arrays = 1;
    p.pauses[1].at[0].ns = 1000;
    p.pauses[1].at[1].arrays = 3;
    p.pauses[1].at[1].ns = 500; /* measured so: it need not rise */
    p.first_part[1] = 3000;
    prices[0] = (tidei_lab_told_price){0, TIDEI_MIB};
    prices[1] = (tidei_lab_told_price){100, 2 * TIDEI_MIB};
    prices[2] = (tidei_lab_told_price){250, 5 * TIDEI_MIB};
    p.prices = prices;
    p.nprices = 3;
    for (int i = 0; i < 5; i++) tidei_lab_make(&p, 0, TIDEI_LAB_DEVICE, 100);
    assert_ok(tidei_lab_finish(&p));
    tidei_policy_choice choice = tidei_policy_usual(&looker);
    seen.n = 0;
    assert_ok(tidei_lab_simulate(
        &p, &(tidei_lab_options){.policy = &choice, .limit = {TIDEI_NO_LIMIT, TIDEI_NO_LIMIT}},
        &f));
    static const double told[] = {1, 2, 2, 5, 5};
    assert_int_equal(seen.n, TIDEI_COUNT(told));
    for (size_t i = 0; i < seen.n; i++) assert_true(seen.fresh_ns[i] == told[i]);
    /* of 0, 1, 2, 3 and 4 arrays */
    assert_int_equal(f.pause_ns, 3000 + 1000 + 750 + 500 + 500);
    assert_int_equal(f.fresh_ns, 0);
    assert_int_equal(f.ns, f.pause_ns);
    tidei_lab_clear(&p);
}

static void host_memory_may_end_at_any_place(void **state) {
    struct groups g;
    tide_status status = TIDE_E_HOST_NOMEM;
    (void)state;
    read_groups(&g);
    for (long n = 0; status != TIDE_OK; n++) {
        tidei_lab_program p;
        bool same;
        atomic_store(&mallocs_left, n);
        status = tidei_study_convert(&g.exact, g.timed, 2, 0, "program", &p, &same);
        atomic_store(&mallocs_left, -1);
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
        if (status == TIDE_OK) tidei_lab_clear(&p);
    }
    clear_groups(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_runs_tell_how_long_it_took),
        cmocka_unit_test(groups_tell_what_arrays_add_to_a_pause),
        cmocka_unit_test(points_are_apart_and_in_order),
        cmocka_unit_test(growth_is_no_pace),
        cmocka_unit_test(figures_without_measure_are_survived),
        cmocka_unit_test(a_group_of_first_collections_tells_of_these_only),
        cmocka_unit_test(runs_of_another_course_give_no_times),
        cmocka_unit_test(prices_are_those_that_runs_came_to_know),
        cmocka_unit_test(the_lab_tells_prices_and_takes_pauses_from_the_curve),
        cmocka_unit_test(host_memory_may_end_at_any_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
