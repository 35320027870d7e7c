/* test_oracle.c: the lab's optimum: that neither trying everything nor any policy finds a better
** one; what it offers, and what it does where host memory ends. */
#include "gc/lab/oracle.h"
#include "gc/lab/random.h"
#include "gc/lab/workloads.h"
#include "tests/support/few_mallocs.h"
#include "tests/support/tidetest.h"

#define US ((uint64_t)1000)

/* ---- small programs ---- */

#define DECISIONS 16
#define SMALL     600 /* programs */

static uint64_t dice;
static uint64_t roll(uint64_t low, uint64_t high) { return tidei_lab_between(&dice, low, high); }
/* 0 in one of two cases. */
static uint64_t perhaps(uint64_t high) { return roll(0, 1) * roll(0, high); }

static tidei_lab_model any_model(unsigned levels) {
    tidei_lab_model m = {.levels = levels,
                         .minor_ns = roll(0, 300),
                         .full_ns = roll(0, 1000),
                         .minor_array_ps = perhaps(50000),
                         .full_array_ps = perhaps(100000),
                         .heap_mib = roll(0, 1),
                         .heap_mib_ns = roll(0, 200),
                         .spread_low = 1000,
                         .spread_high = 1000,
                         .stall_ns = roll(0, 3000),
                         .climbs_at_once = roll(0, 1),
                         .fresh_mib_ns = perhaps(400000),
                         .total = roll(6, 60) * 1024};
    if (roll(0, 2)) {
        m.spread_low = (uint32_t)roll(200, 1000);
        m.spread_high = (uint32_t)roll(1000, 2500);
    }
    return m;
}

struct writer {
    tidei_lab_program p;
    bool dropped[DECISIONS];
};

static void drop_any(struct writer *w) {
    uint32_t b = (uint32_t)roll(0, w->p.blocks);
    if (b == w->p.blocks || w->dropped[b]) return;
    w->dropped[b] = true;
    (roll(0, 3) ? tidei_lab_die : tidei_lab_free)(&w->p, 0, b);
}

/* Now and then it is dropped before it is made. */
static void make_any(struct writer *w) {
    if (!roll(0, 9)) {
        w->dropped[w->p.blocks] = true;
        tidei_lab_die(&w->p, 0, w->p.blocks);
    }
    tidei_lab_make(&w->p, 0, TIDEI_LAB_DEVICE, roll(0, 12) * roll(1, 1024));
}

static void any_program(struct writer *w, unsigned levels, unsigned decisions) {
    *w = (struct writer){.dropped = {false}};
    tidei_lab_begin(&w->p, "small");
    w->p.model = any_model(levels);
    while (decisions) switch (roll(0, 7)) {
        case 0:
        case 1: make_any(w), decisions--; break;
        case 2: tidei_lab_add(&w->p, 0, TIDEI_LAB_SYNC, 0), decisions--; break;
        case 3: tidei_lab_add(&w->p, 0, TIDEI_LAB_WORK, roll(0, 1500)); break;
        case 4: tidei_lab_add(&w->p, 0, TIDEI_LAB_HOST, roll(0, 800)); break;
        default: drop_any(w);
        }
    assert_int_equal(tidei_lab_finish(&w->p), TIDE_OK);
}

/* The least cost of all ways to decide: a number's digits say what to do at each decision. */
static uint64_t brute_force(const tidei_lab_program *p, tidei_lab_options o) {
    tidei_policy_choice never = tidei_policy_usual(&tidei_policy_never);
    tidei_lab_planned at[DECISIONS];
    uint64_t best = UINT64_MAX, ways = 1, base = o.model->levels & TIDEI_OFFERS_MINOR ? 3 : 2;
    for (size_t i = 0; i < p->n; i++)
        if (p->events[i].op == TIDEI_LAB_MAKE || p->events[i].op == TIDEI_LAB_SYNC) ways *= base;
    o.policy = &never;
    for (uint64_t way = 0; way < ways; way++) {
        tidei_lab_plan plan = {at, 0};
        tidei_lab_figures f;
        uint64_t left = way;
        for (size_t i = 0; i < p->n; i++) {
            if (p->events[i].op != TIDEI_LAB_MAKE && p->events[i].op != TIDEI_LAB_SYNC) continue;
            if (left % base)
                at[plan.n++] = (tidei_lab_planned){
                    (uint32_t)i, left % base == 1 ? TIDE_COLLECT_FULL : TIDE_COLLECT_MINOR};
            left /= base;
        }
        o.plan = &plan;
        assert_int_equal(tidei_lab_simulate(p, &o, &f), TIDE_OK);
        if (tidei_lab_cost(&f) < best) best = tidei_lab_cost(&f);
    }
    return best;
}

static void compare_with_brute_force(uint64_t seed, unsigned levels, unsigned decisions) {
    struct writer w;
    tidei_lab_figures f;
    dice = seed;
    any_program(&w, levels, decisions);
    tidei_lab_options o = {
        .limit = {roll(0, 3) ? roll(4, 30) * 512 : TIDEI_NO_LIMIT, TIDEI_NO_LIMIT},
        .model = &w.p.model,
        .seed = seed};
    assert_int_equal(tidei_lab_oracle(&w.p, &o, NULL, &f), TIDE_OK);
    assert_int_equal(f.near, 0);
    uint64_t best = brute_force(&w.p, o);
    if (tidei_lab_cost(&f) != best)
        fail_msg("seed %llu, levels %u, %u decisions: the oracle costs %llu, brute force %llu",
                 (unsigned long long)seed, levels, decisions,
                 (unsigned long long)tidei_lab_cost(&f), (unsigned long long)best);
    tidei_lab_clear(&w.p);
}

static void nothing_is_better_than_the_oracle(void **state) {
    unsigned both = TIDEI_OFFERS_MINOR | TIDEI_OFFERS_FULL;
    const uint64_t small = test_quick() ? SMALL / 10 : SMALL, large = test_quick() ? 1 : 4;
    (void)state;
    for (uint64_t seed = 1; seed <= small; seed++) {
        compare_with_brute_force(seed, TIDEI_OFFERS_FULL, (unsigned)(1 + seed % 11));
        compare_with_brute_force(seed, both, (unsigned)(1 + seed % 7));
    }
    for (uint64_t seed = 1; seed <= large; seed++) {
        compare_with_brute_force(seed, TIDEI_OFFERS_FULL, DECISIONS);
        compare_with_brute_force(seed, both, 10);
    }
}

/* ---- policies ---- */

#define SWEEP 5 /* values of a parameter */

/* The cost under a policy whose k-th parameter is changed; k beyond them: the usual ones. */
static uint64_t cost_under(const tidei_lab_program *p, tidei_lab_options o,
                           const tidei_policy *policy, size_t k, int step) {
    tidei_policy_choice c = tidei_policy_usual(policy);
    tidei_lab_figures f;
    if (k < policy->nparams) {
        const tidei_param *x = &policy->params[k];
        double high = x->high < 4 * x->usual || x->kind == TIDEI_SWITCH ? x->high : 4 * x->usual;
        c.at[k] = x->low + (high - x->low) * step / (SWEEP - 1);
    }
    o.policy = &c;
    assert_int_equal(tidei_lab_simulate(p, &o, &f), TIDE_OK);
    return tidei_lab_cost(&f);
}

static void assert_no_policy_is_better(const tidei_lab_program *p, double factor, uint64_t seed) {
    const tidei_policy *policy;
    tidei_lab_figures f;
    uint64_t limit = factor > 0 ? (uint64_t)(factor * (double)p->peak[TIDEI_LAB_DEVICE])
                                : p->limit[TIDEI_LAB_DEVICE];
    tidei_lab_options o = {.limit = {limit, TIDEI_NO_LIMIT}, .seed = seed};
    assert_int_equal(tidei_lab_oracle(p, &o, NULL, &f), TIDE_OK);
    for (size_t i = 0; (policy = tidei_policy_at(i)); i++)
        for (size_t k = 0; k <= policy->nparams; k++)
            for (int step = 0; step < (k < policy->nparams ? SWEEP : 1); step++) {
                uint64_t cost = cost_under(p, o, policy, k, step);
                if (cost < tidei_lab_cost(&f))
                    fail_msg("%s, %gx, seed %llu: the oracle costs %llu (%s), %s %llu, its "
                             "parameter %zu at step %d",
                             p->name, factor, (unsigned long long)seed,
                             (unsigned long long)tidei_lab_cost(&f), f.near ? "near" : "exact",
                             policy->name, (unsigned long long)cost, k, step);
            }
}

/* Of the long ones the optimum alone takes seconds; a study that compares policies has them. */
static void no_policy_is_better_with_any_parameters(void **state) {
    static const char *const names[] = {"train", "full-static", "half",
                                        "grow",  "old-garbage", "bursty-slack"};
    (void)state;
    for (size_t i = 0; i < (test_quick() ? 2 : TIDEI_COUNT(names)); i++) {
        tidei_lab_program p;
        assert_int_equal(tidei_lab_write(tidei_lab_workload_find(names[i]), &p), TIDE_OK);
        assert_no_policy_is_better(&p, 0, 1);
        assert_no_policy_is_better(&p, 1.1, 2);
        tidei_lab_clear(&p);
    }
}

/* ---- a longer program by hand ---- */

/* Of ten blocks that die at once four fit; a pause hides behind work at each third sync point. */
static void it_waits_for_what_hides_a_pause(void **state) {
    tidei_lab_program p;
    tidei_lab_figures f;
    (void)state;
    tidei_lab_begin(&p, "by hand");
    p.model = (tidei_lab_model){.levels = TIDEI_OFFERS_FULL,
                                .full_ns = 1000,
                                .spread_low = 1000,
                                .spread_high = 1000,
                                .stall_ns = 5000,
                                .total = TIDEI_GIB};
    for (int i = 0; i < 10; i++) {
        tidei_lab_die(&p, 0, tidei_lab_make(&p, 0, TIDEI_LAB_DEVICE, 100));
        tidei_lab_add(&p, 0, TIDEI_LAB_WORK, i % 3 == 2 ? 1500 : 10);
        tidei_lab_add(&p, 0, TIDEI_LAB_SYNC, 0);
    }
    assert_int_equal(tidei_lab_finish(&p), TIDE_OK);
    tidei_lab_options o = {.limit = {400, TIDEI_NO_LIMIT}, .seed = 1};
    assert_int_equal(tidei_lab_oracle(&p, &o, NULL, &f), TIDE_OK);
    assert_int_equal(f.collections, 2);
    assert_int_equal(f.forced, 0);
    assert_int_equal(f.ns, p.ideal_ns);
    assert_int_equal(f.near, 0);
    tidei_lab_clear(&p);
}

/* Only minor collections, and what is dead is old: a climb ends all the same. */
static void a_climb_ends_where_nothing_can_be_found(void **state) {
    tidei_lab_program p;
    tidei_lab_figures f;
    tidei_policy_choice every = tidei_policy_usual(&tidei_policy_every);
    (void)state;
    tidei_lab_begin(&p, "old");
    p.model.levels = TIDEI_OFFERS_MINOR;
    uint32_t old = tidei_lab_make(&p, 0, TIDEI_LAB_DEVICE, 100);
    tidei_lab_add(&p, 0, TIDEI_LAB_SYNC, 0);
    tidei_lab_die(&p, 0, old);
    tidei_lab_make(&p, 0, TIDEI_LAB_DEVICE, 50);
    assert_int_equal(tidei_lab_finish(&p), TIDE_OK);
    tidei_lab_options o = {.policy = &every, .limit = {100, TIDEI_NO_LIMIT}, .seed = 1};
    assert_int_equal(tidei_lab_simulate(&p, &o, &f), TIDE_OK);
    assert_int_equal(f.failed, 1);
    assert_int_equal(f.dead, 100);
    tidei_lab_clear(&p);
}

/* ---- what is offered ---- */

static void what_it_lacks_is_told(void **state) {
    tidei_lab_program p;
    tidei_lab_figures f;
    tidei_lab_options o = {.limit = {TIDEI_NO_LIMIT, TIDEI_NO_LIMIT}};
    (void)state;
    assert_int_equal(tidei_lab_write(tidei_lab_workload_find("threads"), &p), TIDE_OK);
    assert_int_equal(tidei_lab_oracle(&p, &o, NULL, &f), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "threads: no oracle: the program has several threads");
    tidei_lab_clear(&p);
    assert_int_equal(tidei_lab_write(tidei_lab_workload_find("pinned"), &p), TIDE_OK);
    assert_int_equal(tidei_lab_oracle(&p, &o, NULL, &f), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "pinned: no oracle: the program has a second budget");
    tidei_lab_clear(&p);
    assert_int_equal(tidei_lab_write(tidei_lab_workload_find("train"), &p), TIDE_OK);
    p.model.levels = TIDEI_OFFERS_MINOR;
    assert_string_equal(tidei_lab_oracle_lacks(&p, NULL), "there are no full collections");
    p.model.levels = TIDEI_OFFERS_FULL;
    p.model.heap_mib = (uint64_t)1 << 20;
    p.model.heap_mib_ns = 60000000000;
    assert_string_equal(tidei_lab_oracle_lacks(&p, NULL),
                        "some run of it may take longer than 2^57 ns (4.5 years)");
    tidei_lab_clear(&p);
}

static void it_is_no_policy(void **state) {
    tidei_policy_choice c;
    char why[256];
    (void)state;
    assert_false(tidei_policy_choose("oracle", &c, why, sizeof why));
    assert_non_null(strstr(why, "\"oracle\" is no policy: it knows the whole program"));
}

static void host_memory_may_end(void **state) {
    struct writer w;
    tide_status status = TIDE_OK;
    (void)state;
    dice = 5;
    any_program(&w, TIDEI_OFFERS_MINOR | TIDEI_OFFERS_FULL, 12);
    for (long n = 0; n == 0 || status != TIDE_OK; n++) {
        tidei_lab_figures f;
        tidei_lab_options o = {.limit = {9000, TIDEI_NO_LIMIT}, .seed = 1};
        mallocs_left = n;
        status = tidei_lab_oracle(&w.p, &o, NULL, &f);
        mallocs_left = -1;
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
    }
    tidei_lab_clear(&w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_better_than_the_oracle),
        cmocka_unit_test(no_policy_is_better_with_any_parameters),
        cmocka_unit_test(it_waits_for_what_hides_a_pause),
        cmocka_unit_test(a_climb_ends_where_nothing_can_be_found),
        cmocka_unit_test(what_it_lacks_is_told),
        cmocka_unit_test(it_is_no_policy),
        cmocka_unit_test(host_memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
