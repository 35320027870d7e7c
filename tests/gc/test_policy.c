/* test_policy.c: policies but the default, each as a table of decisions at its constants; what all
** share, how they are found, and their parameters; that they are functions of what they are
** given. */
#include "tests/gc/policies.h"

/* ---- cudajl ---- */

static void cudajl_acts_at_its_pressures(void **state) {
    static const struct {
        tidei_where where;
        uint64_t live;
        int level;
    } cases[] = {
        {TIDEI_AT_ALLOC, 749, 0},     {TIDEI_AT_ALLOC, 750, TIDE_COLLECT_FULL},
        {TIDEI_AT_SYNC, 499, 0},      {TIDEI_AT_SYNC, 500, TIDE_COLLECT_FULL},
        {TIDEI_AT_SAFEPOINT, 749, 0}, {TIDEI_AT_SAFEPOINT, 750, TIDE_COLLECT_FULL},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_policy_run r;
        tidei_policy_start(&r, &tidei_policy_cudajl);
        assert_int_equal(level_of(&r, in_at(SEC, cases[i].where, cases[i].live)), cases[i].level);
    }
}

static void cudajl_counts_budget_and_request(void **state) {
    tidei_policy_run r;
    tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, 700);
    (void)state;
    tidei_policy_start(&r, &tidei_policy_cudajl);
    in.request = 1 << 20; /* not looked at */
    assert_int_equal(level_of(&r, in), 0);
    assert_int_equal(tidei_policy_ask(&r, &in).wake_at, 750);
    in.hard = TIDEI_NO_LIMIT;
    in.soft = 900;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    in.soft = TIDEI_NO_LIMIT; /* free + live + cached */
    assert_int_equal(tidei_policy_ask(&r, &in).wake_at, 37500);
    in.live = 750;
    in.hard = 1000;
    in.levels |= TIDEI_OFFERS_MINOR;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_MINOR);
}

/* The rate gate: with an average pause of 10 ms, one may follow after 10 / allowed ms. */
static void cudajl_waits_by_its_rate(void **state) {
    static const struct {
        uint64_t freed, live;
        tidei_where where;
        double allowed;
    } cases[] = {
        {100, 760, TIDEI_AT_ALLOC, 0.05}, {101, 760, TIDEI_AT_ALLOC, 0.10},
        {100, 760, TIDEI_AT_SYNC, 0.10},  {100, 900, TIDEI_AT_ALLOC, 0.05},
        {100, 901, TIDEI_AT_ALLOC, 0.10}, {100, 951, TIDEI_AT_ALLOC, 0.20},
        {100, 951, TIDEI_AT_SYNC, 0.40},  {101, 951, TIDEI_AT_SYNC, 0.80},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_policy_run r;
        tidei_policy_start(&r, &tidei_policy_cudajl);
        /* average: 10 ms */
        told(&r, SEC + 40 * MS, 40 * MS, 800, 800 - cases[i].freed, TIDE_COLLECT_FULL, true);
        r.history.guard = 0;
        uint64_t gap = (uint64_t)(10 * MS / cases[i].allowed);
        assert_int_equal(level_of(&r, in_at(SEC + gap - MS / 10, cases[i].where, cases[i].live)),
                         0);
        assert_int_equal(level_of(&r, in_at(SEC + gap + MS / 10, cases[i].where, cases[i].live)),
                         TIDE_COLLECT_FULL);
    }
}

static void cudajl_goes_by_earlier_pauses(void **state) {
    tidei_policy_run r;
    (void)state;
    tidei_policy_start(&r, &tidei_policy_cudajl);
    told(&r, SEC, 500 * MS, 800, 100, TIDE_COLLECT_FULL, false); /* forced: not counted */
    assert_int_equal(level_of(&r, in_at(SEC + 1, TIDEI_AT_ALLOC, 800)), TIDE_COLLECT_FULL);
    told(&r, SEC, 40 * MS, 800, 750, TIDE_COLLECT_FULL, true);
    /* .75 * 10 + .25 * 20 = 12.5 ms */
    told(&r, 2 * (uint64_t)SEC, 20 * MS, 800, 750, TIDE_COLLECT_FULL, true);
    uint64_t start = 2 * (uint64_t)SEC - 20 * MS;
    assert_int_equal(level_of(&r, in_at(start + 249 * MS, TIDEI_AT_ALLOC, 800)), 0);
    assert_int_equal(level_of(&r, in_at(start + 251 * MS, TIDEI_AT_ALLOC, 800)), TIDE_COLLECT_FULL);
}

/* ---- what they share ---- */

/* Libraries have all that the limit allows: whatever is used is too much, and nothing is no
** reason. */
static void no_room_at_all_is_no_reason(void **state) {
    static const tidei_policy *const all[] = {&tidei_policy_reserve, &tidei_policy_cudajl};
    (void)state;
    tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, 10);
    in.library = 1000;
    assert_int_equal(tidei_policy_room_end(&in), 0);
    in.library = 1500;
    assert_int_equal(tidei_policy_room_end(&in), 0);
    in.library = 300;
    assert_int_equal(tidei_policy_room_end(&in), 700);
    in.library = 1500;
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        tidei_policy_run r;
        tidei_policy_start(&r, all[i]);
        in.live = 0;
        assert_int_equal(level_of(&r, in), 0);
        in.live = 10;
        in.hard = all[i] == &tidei_policy_cudajl ? 0 : 1000; /* it looks at the budget alone */
        assert_int_equal(level_of(&r, in), all[i] == &tidei_policy_cudajl ? 0 : TIDE_COLLECT_FULL);
    }
}

static void never_never_collects(void **state) {
    tidei_policy_run r;
    tidei_policy_in in = in_at(SEC, TIDEI_AT_SYNC, 999);
    (void)state;
    tidei_policy_start(&r, &tidei_policy_never);
    tidei_decision d = tidei_policy_ask(&r, &in);
    assert_int_equal(d.level, 0);
    assert_true(d.wake_at == UINT64_MAX);
}

static void without_a_collector_nothing_is_asked(void **state) {
    (void)state;
    const tidei_policy *p;
    for (size_t i = 0; (p = tidei_policy_at(i)); i++) {
        tidei_policy_run r;
        tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, 999);
        in.levels = 0;
        tidei_policy_start(&r, p);
        tidei_decision d = tidei_policy_ask(&r, &in);
        assert_int_equal(d.level, 0);
        assert_true(d.wake_at == UINT64_MAX);
    }
}

static void the_level_is_what_is_offered(void **state) {
    const unsigned both = TIDEI_OFFERS_MINOR | TIDEI_OFFERS_FULL;
    tidei_policy_run r;
    (void)state;
    tidei_policy_start(&r, &tidei_policy_reserve);
    assert_int_equal(tidei_policy_level(&r.history, TIDEI_OFFERS_FULL), TIDE_COLLECT_FULL);
    assert_int_equal(tidei_policy_level(&r.history, TIDEI_OFFERS_MINOR), TIDE_COLLECT_MINOR);
    /* untried: the cheap one */
    assert_int_equal(tidei_policy_level(&r.history, both), TIDE_COLLECT_MINOR);
    unsigned fulls[4] = {0};
    uint64_t now = SEC;
    for (unsigned k = 0; k < 4; k++) { /* 24 of 100 each time: poor */
        assert_int_equal(tidei_policy_level(&r.history, both), TIDE_COLLECT_MINOR);
        told(&r, now += SEC, MS, 300, 276, TIDE_COLLECT_MINOR, true);
        for (; tidei_policy_level(&r.history, both) == TIDE_COLLECT_FULL; fulls[k]++)
            told(&r, now += SEC, 10 * MS, 300, 200, TIDE_COLLECT_FULL, true);
        r.history.base = 200;
    }
    for (unsigned k = 1; k < 4; k++) assert_int_equal(fulls[k], (2u << k) - 1);
    assert_int_equal(fulls[0], 1);
    told(&r, now += SEC, MS, 300, 200, TIDE_COLLECT_MINOR, true); /* a good one */
    assert_int_equal(r.history.poor, 0);
    assert_int_equal(tidei_policy_level(&r.history, both), TIDE_COLLECT_MINOR);
}

/* Each minor collection leaves 20 bytes: they shorten the windows, until that has cost what a full
** collection takes beyond a minor one. Where it finds them live the next waits longer. */
static void what_minor_ones_leave_is_looked_at(void **state) {
    const unsigned both = TIDEI_OFFERS_MINOR | TIDEI_OFFERS_FULL;
    (void)state;
    for (int garbage = 0; garbage <= 1; garbage++) {
        tidei_policy_run r;
        uint64_t now = SEC, left = 200;
        unsigned minors = 0, before = 0;
        tidei_policy_start(&r, &tidei_policy_reserve);
        told(&r, now, 5 * MS, 500, left, TIDE_COLLECT_FULL, true);
        for (int round = 0; round < 3; round++) {
            for (minors = 0; tidei_policy_level(&r.history, both) == TIDE_COLLECT_MINOR; minors++) {
                assert_true(minors < 1000);
                left += 2;
                told(&r, now += SEC, MS, 900, left, TIDE_COLLECT_MINOR, true);
            }
            if (garbage) left = 200;
            told(&r, now += SEC, 5 * MS, left + 10, left, TIDE_COLLECT_FULL, true);
            assert_true(minors > 4);
            assert_true(garbage ? round < 2 || minors <= before : minors > before);
            before = minors;
        }
    }
}

static tidei_decision decide_eagerly(const double *at, void *state, const tidei_policy_history *h,
                                     const tidei_policy_in *in) {
    (void)at, (void)state, (void)h, (void)in;
    return (tidei_decision){TIDE_COLLECT_FULL, 0, "always"};
}
static const tidei_policy eager = {.name = "eager", .decide = decide_eagerly};

/* A collection that took over 5 % of the time and freed under 2 % of the growth is not repeated
** soon, whatever the policy says. */
static void fruitless_collections_are_not_repeated_soon(void **state) {
    tidei_policy_run r;
    (void)state;
    tidei_policy_start(&r, &eager);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 900)), TIDE_COLLECT_FULL);
    told(&r, SEC + 10 * MS, 10 * MS, 900, 900, TIDE_COLLECT_FULL, true);
    tidei_policy_in in = in_at(SEC + 999 * (uint64_t)MS, TIDEI_AT_ALLOC, 909);
    assert_int_equal(tidei_policy_ask(&r, &in).level, 0);
    assert_int_equal(tidei_policy_ask(&r, &in).wake_at, 910); /* a tenth of the 100 left */
    in.live = 910;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    in.live = 901; /* or time passes: 10 ms are 1 % of a second */
    in.now_ns = SEC + 1010 * (uint64_t)MS;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    told(&r, 3 * (uint64_t)SEC, 10 * MS, 920, 915, TIDE_COLLECT_FULL,
         true); /* 0.5 % of the time: cheap, no guard */
    assert_int_equal(r.history.guard, 0);
}

/* cudajl repeats them as the original does: its gate on the rate is what bounds their time. */
static void cudajl_is_not_guarded(void **state) {
    tidei_policy_run r;
    uint64_t collecting = 0;
    (void)state;
    tidei_policy_start(&r, &tidei_policy_cudajl);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 960)), TIDE_COLLECT_FULL);
    told(&r, SEC + 10 * MS, 10 * MS, 960, 960, TIDE_COLLECT_FULL, true);
    assert_true(r.history.guard > 960);
    uint64_t now = SEC + 10 * MS;
    while (now < 21 * (uint64_t)SEC) { /* asked every ms, it collects again, and not all the time */
        now += MS;
        if (!level_of(&r, in_at(now, TIDEI_AT_ALLOC, 960))) continue;
        now += 10 * MS;
        collecting += 10 * MS;
        told(&r, now, 10 * MS, 960, 960, TIDE_COLLECT_FULL, true);
    }
    /* of 20 s: an allowance of 0.05, doubled for each of two pressures; the average pause starts
    ** from 0 */
    assert_in_range(collecting / MS, 2000, 4500);
}

static void policies_are_found_by_name(void **state) {
    char buf[128];
    (void)state;
    assert_string_equal(tidei_policy_names(buf, sizeof buf),
                        "reserve, cudajl, never, priced, headroom, sqrt, pressure, softmax, rates, "
                        "every");
    assert_ptr_equal(tidei_policy_find("cudajl"), &tidei_policy_cudajl);
    assert_null(tidei_policy_find("cuda"));
    assert_string_equal(tidei_policy_names(buf, 9), "reserve,");
    assert_ptr_equal(tidei_policy_names(buf, 0), buf); /* nothing is written */
    assert_string_equal(buf, "reserve,");
}

/* ---- parameters ---- */

static void parameters_are_read_by_name(void **state) {
    static const struct {
        const char *text;
        size_t i;
        double value;
    } cases[] = {
        {"reserve", 0, 0.35},
        {"reserve()", 0, 0.35},
        {"reserve(x0=0.5)", 0, 0.5},
        {"reserve( x1 = 0.9 , x0=.25 )", 0, 0.25},
        {"reserve(x0=0.5,x0=0.75)", 0, 0.75},
        {"reserve(floor=20us)", 2, 20e3},
        {"reserve(stall=1.5ms)", 3, 1.5e6},
        {"reserve(stall=2s)", 3, 2e9},
        {"reserve(garbage=64MiB)", 6, 64 << 20},
        {"reserve(garbage=12345)", 6, 12345},
        {"cudajl(request=1)", 3, 1},
    };
    char why[256];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_policy_choice c;
        assert_true(tidei_policy_choose(cases[i].text, &c, why, sizeof why));
        assert_true(c.at[cases[i].i] == cases[i].value);
    }
}

static void a_wrong_parameter_is_told_with_its_place(void **state) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"cuda", "there is no policy \"cuda\"; there are: reserve, cudajl, never"},
        {"", "there is no policy \"\""},
        {"cuda(x0=1)", "there is no policy \"cuda(x0=1)\""},
        {"reserve(x2=1)", "column 9: expected one of x0, x1, floor, "},
        {"reserve(x2=1)", "found 'x2=1)'"},
        {"reserve(x0=2)", "column 12: expected x0 from 0.01 to 1, found '2)'"},
        {"reserve(x0=nan)", "column 12: expected x0 from"},
        {"reserve(x0=-1)", "column 12: expected x0 from"},
        {"reserve(x0=0x1)", "column 12: expected x0 from"},
        {"reserve(x0=)", "column 12: expected x0 from 0.01 to 1, found ')'"},
        {"reserve(x0)", "column 11: expected '=', found ')'"},
        {"reserve(x0=0.5", "column 15: expected ',' or ')', found the end"},
        {"reserve(", "column 9: expected one of"},
        {"reserve(x0=0.5,)", "column 16: expected one of"},
        {"reserve(x0=0.5;x1=1)", "column 15: expected ',' or ')', found ';x1=1)'"},
        {"reserve(x0=0.5) ", "column 16: expected nothing more, found ' '"},
        {"reserve(floor=20)", "column 15: expected floor from 1ns to 1s, found '20)'"},
        {"reserve(floor=20min)", "column 15: expected floor from"},
        {"reserve(garbage=lots)", "column 17: expected garbage from 0 to 1PiB, found 'lots)'"},
        {"cudajl(request=2)", "column 16: expected request to be 0 or 1, found '2)'"},
        {"never(x=1)", "column 7: expected no parameter, for there is none, found 'x=1)'"},
        {"reserve(x0=0.55555555555555555555555555555555555555555555555555)", "column 12: "},
    };
    char why[1024];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_policy_choice c;
        assert_false(tidei_policy_choose(cases[i].text, &c, why, sizeof why));
        if (!strstr(why, cases[i].why)) fail_msg("%s: %s", cases[i].text, why);
        for (size_t cap = 0; cap < 40; cap++) { /* as much as there is room for */
            why[cap] = '!';
            assert_false(tidei_policy_choose(cases[i].text, &c, why, cap));
            assert_true(why[cap] == '!');
        }
    }
}

/* Each row of each table: a usual value within its range, told as it would be written. */
static void tables_of_parameters_are_sound(void **state) {
    const tidei_policy *p;
    (void)state;
    for (size_t i = 0; (p = tidei_policy_at(i)); i++) {
        assert_true(p->nparams <= TIDEI_POLICY_PARAMS);
        assert_true(p->summary && *p->summary);
        for (size_t k = 0; k < p->nparams; k++) {
            const tidei_param *x = &p->params[k];
            char value[TIDEI_PARAM_TEXT], text[128], why[256];
            tidei_policy_choice c;
            assert_true(x->usual >= x->low && x->usual <= x->high);
            snprintf(text, sizeof text, "%s(%s=%s)", p->name, x->name,
                     tidei_param_show(x, x->usual, value, sizeof value));
            assert_true(tidei_policy_choose(text, &c, why, sizeof why));
            assert_true(fabs(c.at[k] - x->usual) <= 1e-5 * x->usual);
        }
    }
}

/* ---- the others ---- */

static tidei_policy_run started(const char *text) {
    tidei_policy_choice c;
    tidei_policy_run r;
    char why[256];
    if (!tidei_policy_choose(text, &c, why, sizeof why)) fail_msg("%s", why);
    tidei_policy_start_with(&r, &c);
    return r;
}

static void softmax_grows_where_it_did_not_help(void **state) {
    tidei_policy_run r = started("softmax(start=500)");
    (void)state;
    tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, 400);
    in.request = 100;
    assert_int_equal(level_of(&r, in), 0);
    assert_int_equal(tidei_policy_ask(&r, &in).wake_at, 500);
    in.request = 101;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_SYNC, 900)), 0);
    told(&r, 2 * (uint64_t)SEC, MS, 501, 400, TIDE_COLLECT_FULL, true); /* 0.8: it helped */
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    told(&r, 3 * (uint64_t)SEC, MS, 501, 401, TIDE_COLLECT_FULL, true);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 700)), 0);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 701)), TIDE_COLLECT_FULL);
    r = started("softmax(share=0.3)");
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 300)), 0);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 301)), TIDE_COLLECT_FULL);
}

static void rates_look_where_the_pool_would_grow(void **state) {
    static const struct {
        uint64_t live, backed;
        int level;
    } cases[] = {
        {100, 199, 0},                 /* less than 0.2 is reserved */
        {100, 201, 0},                 /* a free block may fit */
        {190, 200, TIDE_COLLECT_FULL}, /* 0.95 of what is reserved */
        {450, 600, 0},                 /* 150 are free */
        {450, 500, TIDE_COLLECT_FULL}, /* 0.9 of it */
        {405, 505, TIDE_COLLECT_FULL}, /* 0.802 of it */
        {404, 505, 0},                 /* 101 are free */
        {810, 820, TIDE_COLLECT_FULL},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_policy_run r = started("rates");
        tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, cases[i].live);
        in.levels |= TIDEI_OFFERS_MINOR;
        in.request = 101;
        in.backed = cases[i].backed;
        assert_int_equal(level_of(&r, in), cases[i].level);
        in.where = TIDEI_AT_SYNC;
        assert_int_equal(level_of(&r, in), 0);
    }
    tidei_policy_run r = started("rates"); /* between the rates: a minor one */
    tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, 300);
    in.levels |= TIDEI_OFFERS_MINOR;
    in.request = 201;
    in.backed = 500;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_MINOR);
    in.levels = TIDEI_OFFERS_FULL; /* where there is none, a full one */
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
}

static void pressure_adjusts_its_budget(void **state) {
    tidei_policy_run r = started("pressure(budget=100)");
    uint64_t now = SEC;
    (void)state;
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, 99)), 0);
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_SYNC, 900)), 0);
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, 100)), TIDE_COLLECT_FULL);
    /* four rounds in which half of what was added is removed: the budget doubles */
    uint64_t left = 0;
    for (int i = 0; i < 4; i++) {
        now += SEC;
        told(&r, now, MS, left + 100, left + 50, TIDE_COLLECT_FULL, true);
        left += 50;
    }
    now += SEC;
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, left + 199)), 0);
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, left + 200)), TIDE_COLLECT_FULL);
    /* not within five times the pause since the last one began */
    told(&r, now, 100 * MS, left + 200, left + 100, TIDE_COLLECT_FULL, true);
    left += 100;
    assert_int_equal(level_of(&r, in_at(now + 399 * (uint64_t)MS, TIDEI_AT_ALLOC, left + 500)), 0);
    assert_int_equal(level_of(&r, in_at(now + 401 * (uint64_t)MS, TIDEI_AT_ALLOC, left + 500)),
                     TIDE_COLLECT_FULL);
    /* nothing removed at all: ten times, not more */
    r = started("pressure(budget=10)");
    for (uint64_t i = 0; i < 5; i++)
        told(&r, now += SEC, MS, 100 * (i + 1), 100 * (i + 1), TIDE_COLLECT_FULL, true);
    assert_int_equal(level_of(&r, in_at(now + SEC, TIDEI_AT_ALLOC, 599)), 0);
    assert_int_equal(level_of(&r, in_at(now + SEC, TIDEI_AT_ALLOC, 600)), TIDE_COLLECT_FULL);
}

/* 100 bytes of garbage a s and pauses of 20 ms; holding 1000 bytes for a s costs 0.04 s: what is
** worth it are sqrt(2 * 0.02 * 100 * 1000 / 0.04) = 316 bytes. */
static void sqrt_weighs_growth_against_pauses(void **state) {
    tidei_policy_run r = started("sqrt");
    (void)state;
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 199)), 0);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 200)), TIDE_COLLECT_FULL);
    uint64_t now = SEC;
    for (int i = 0; i < 3; i++)
        told(&r, now += SEC + 20 * MS, 20 * MS, 300, 200, TIDE_COLLECT_FULL, true);
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, 515)), 0);
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, 517)), TIDE_COLLECT_FULL);
    told(&r, now += SEC, 20 * MS, 900, 800, TIDE_COLLECT_FULL, true); /* the room bounds it */
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, 989)), 0);
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, 990)), TIDE_COLLECT_FULL);
}

static void headroom_uses_a_share_of_the_room(void **state) {
    tidei_policy_run r = started("headroom");
    (void)state;
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 799)), 0);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 800)), TIDE_COLLECT_FULL);
    told(&r, 2 * (uint64_t)SEC, MS / 10, 800, 600, TIDE_COLLECT_FULL, true);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_SYNC, 919)), 0);
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_SYNC, 920)), TIDE_COLLECT_FULL);
}

static void priced_pays_more_as_the_room_shrinks(void **state) {
    tidei_policy_run r = started("priced");
    (void)state;
    told(&r, SEC, 10 * MS, 500, 0, TIDE_COLLECT_FULL, false); /* g = 10 ms, all of it was garbage */
    tidei_policy_in in = in_at(2 * (uint64_t)SEC, TIDEI_AT_SYNC, 349);
    in.slack_ns = 10 * MS;
    assert_int_equal(level_of(&r, in), 0);
    in.live = 350; /* a hidden pause is taken as soon as it is looked at */
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    in.slack_ns = 0; /* 50 us * 600^z >= 10 ms: from z = 0.83 on, 0.888 of the room */
    in.live = 885;
    assert_int_equal(level_of(&r, in), 0);
    in.live = 892;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    /* the bucket: 250 ms, after which a twentieth of the time is what there is */
    r = started("priced(stall=1s)");
    told(&r, SEC, 100 * MS, 500, 0, TIDE_COLLECT_FULL, false);
    uint64_t now = 2 * (uint64_t)SEC;
    int taken = 0;
    for (; now < 12 * (uint64_t)SEC; now += MS) {
        if (!level_of(&r, in_at(now, TIDEI_AT_ALLOC, 960))) continue;
        told(&r, now + 100 * MS, 100 * MS, 960, 0, TIDE_COLLECT_FULL, true);
        taken++;
    }
    assert_in_range(taken, 5, 8); /* 0.25 + 0.05 * 10 s, of 0.1 s each */
    assert_int_equal(level_of(&r, in_at(now, TIDEI_AT_ALLOC, 970)), TIDE_COLLECT_FULL);
}

static void every_counts_questions(void **state) {
    tidei_policy_run r = started("every(n=3)");
    (void)state;
    for (int i = 1; i <= 9; i++)
        assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 1)),
                         i % 3 ? 0 : TIDE_COLLECT_FULL);
}

/* What each switch of cudajl mends. */
static void defects_of_cudajl_are_switches(void **state) {
    (void)state;
    tidei_policy_run r = started("cudajl(request=1)");
    tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, 700);
    in.request = 50;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    r = started("cudajl(backoff=1)");
    assert_int_equal(level_of(&r, in_at(SEC, TIDEI_AT_ALLOC, 960)), TIDE_COLLECT_FULL);
    told(&r, SEC + 10 * MS, 10 * MS, 960, 960, TIDE_COLLECT_FULL, true);
    in = in_at(2 * (uint64_t)SEC, TIDEI_AT_ALLOC, 960);
    assert_int_equal(level_of(&r, in), 0);
    in.live = 964; /* a tenth of the 40 that are left */
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    r = started("cudajl(level=1)");
    in.levels |= TIDEI_OFFERS_MINOR;
    told(&r, SEC, MS, 800, 799, TIDE_COLLECT_MINOR, true);
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
    r = started("cudajl(average=1)"); /* 40 ms, not 10: at 0.05 of the time after 800 ms */
    told(&r, SEC + 40 * MS, 40 * MS, 800, 780, TIDE_COLLECT_FULL, true);
    assert_int_equal(level_of(&r, in_at(SEC + 799 * (uint64_t)MS, TIDEI_AT_ALLOC, 800)), 0);
    assert_int_equal(level_of(&r, in_at(SEC + 801 * (uint64_t)MS, TIDEI_AT_ALLOC, 800)),
                     TIDE_COLLECT_FULL);
    r = started("cudajl(forced=1)");
    told(&r, SEC + 40 * MS, 40 * MS, 800, 780, TIDE_COLLECT_FULL, false);
    assert_int_equal(level_of(&r, in_at(SEC + 199 * MS, TIDEI_AT_ALLOC, 800)), 0);
    r = started("cudajl(slack=1)"); /* all of the 10 ms are hidden */
    told(&r, SEC + 40 * MS, 40 * MS, 800, 780, TIDE_COLLECT_FULL, true);
    in = in_at(SEC + 50 * MS, TIDEI_AT_ALLOC, 800);
    assert_int_equal(level_of(&r, in), 0);
    in.slack_ns = 10 * MS;
    assert_int_equal(level_of(&r, in), TIDE_COLLECT_FULL);
}

static tidei_decision decide_nonsense(const double *at, void *state, const tidei_policy_history *h,
                                      const tidei_policy_in *in) {
    (void)at, (void)state, (void)h;
    return (tidei_decision){(int)in->request - 3, 0, "nonsense"};
}
static const tidei_policy nonsense = {.name = "nonsense", .decide = decide_nonsense};

static void an_answer_that_is_none_collects_nothing(void **state) {
    tidei_policy_run r;
    tidei_policy_in in = in_at(SEC, TIDEI_AT_ALLOC, 900);
    (void)state;
    tidei_policy_start(&r, &nonsense);
    for (in.request = 0; in.request < 80; in.request++) {
        int asked = (int)in.request - 3, level = level_of(&r, in);
        bool sound = asked == TIDE_COLLECT_MINOR || asked == TIDE_COLLECT_FULL;
        assert_int_equal(level, sound ? TIDE_COLLECT_FULL : 0); /* only full ones are offered */
    }
}

/* The same questions and news give the same answers and state, whatever else happened in
** between. */
static void the_same_questions_get_the_same_answers(void **state) {
    const tidei_policy *p;
    uint64_t x = 88172645463325252u;
    (void)state;
    for (size_t i = 0; (p = tidei_policy_at(i)); i++) {
        tidei_policy_run a, b;
        uint64_t now = SEC, level[2];
        tidei_policy_start(&a, p);
        for (int k = 0; k < 2000; k++) {
            tidei_policy_in in = in_at(now += next_random(&x) % (20 * MS),
                                       (tidei_where)(next_random(&x) % 3), next_random(&x) % 1200);
            in.levels = (unsigned)(next_random(&x) % 4) << 1;
            in.slack_ns = next_random(&x) % (10 * MS);
            tidei_policy_in same = in;
            b = a;
            level[0] = (uint64_t)tidei_policy_ask(&a, &in).level;
            level[1] = (uint64_t)tidei_policy_ask(&b, &in).level;
            assert_int_equal(level[0], level[1]);
            assert_memory_equal(&a, &b, sizeof a);
            assert_memory_equal(&in, &same, sizeof in);
            if (next_random(&x) % 4) continue;
            told(&a, now + MS, MS, in.live, in.live / 2, TIDE_COLLECT_FULL, next_random(&x) & 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudajl_acts_at_its_pressures),
        cmocka_unit_test(cudajl_counts_budget_and_request),
        cmocka_unit_test(cudajl_waits_by_its_rate),
        cmocka_unit_test(cudajl_goes_by_earlier_pauses),
        cmocka_unit_test(no_room_at_all_is_no_reason),
        cmocka_unit_test(never_never_collects),
        cmocka_unit_test(without_a_collector_nothing_is_asked),
        cmocka_unit_test(the_level_is_what_is_offered),
        cmocka_unit_test(what_minor_ones_leave_is_looked_at),
        cmocka_unit_test(fruitless_collections_are_not_repeated_soon),
        cmocka_unit_test(cudajl_is_not_guarded),
        cmocka_unit_test(policies_are_found_by_name),
        cmocka_unit_test(parameters_are_read_by_name),
        cmocka_unit_test(a_wrong_parameter_is_told_with_its_place),
        cmocka_unit_test(tables_of_parameters_are_sound),
        cmocka_unit_test(softmax_grows_where_it_did_not_help),
        cmocka_unit_test(rates_look_where_the_pool_would_grow),
        cmocka_unit_test(pressure_adjusts_its_budget),
        cmocka_unit_test(sqrt_weighs_growth_against_pauses),
        cmocka_unit_test(headroom_uses_a_share_of_the_room),
        cmocka_unit_test(priced_pays_more_as_the_room_shrinks),
        cmocka_unit_test(every_counts_questions),
        cmocka_unit_test(defects_of_cudajl_are_switches),
        cmocka_unit_test(an_answer_that_is_none_collects_nothing),
        cmocka_unit_test(the_same_questions_get_the_same_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
