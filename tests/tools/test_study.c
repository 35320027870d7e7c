/* test_study.c: what a study plays, under which limits, and that its rows depend on neither the
** number of threads nor anything else but what was asked for. What the command prints: study.sh. */
#include "tests/support/few_mallocs.h"
#include "tests/support/tidetest.h"
#include "tools/tide/study.h"
#include "tools/tide/study_input.h"
#include "tools/tide/study_sweep.h"
#include "runtime/observe/recorder.h"
#include <sys/mman.h>
#include <unistd.h>

/* ---- inputs ---- */

static void write_file(char *path, size_t cap, const char *text) {
    int fd = memfd_create("study", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(path, cap, "/proc/self/fd/%d", fd);
}

static void assert_event(const tidei_lab_program *p, size_t i, tidei_lab_op op, uint64_t amount) {
    assert_true(i < p->n);
    assert_int_equal(p->events[i].op, op);
    assert_int_equal(p->events[i].amount, amount);
}

/* Ten us of the host, then six of waiting: the device was busy for sixteen. */
static void a_trace_becomes_a_program(void **state) {
    char path[64];
    tidei_lab_program p;
    (void)state;
    write_file(path, sizeof path,
               "op,id,bytes,stream,time_us\n"
               "a,7,1000,0,100\na,8,500,0,104\nf,7,1000,0,110\ns,0,0,0,110\n"
               "a,9,24,0,116\nf,9,24,0,117\n");
    assert_ok(tidei_study_load(path, &p));
    assert_string_equal(p.name, path);
    assert_int_equal(p.blocks, 3);
    assert_int_equal(p.peak[TIDEI_LAB_DEVICE], 1500);
    assert_int_equal(p.steps, 2);
    assert_event(&p, 0, TIDEI_LAB_MAKE, 1000);
    assert_event(&p, 1, TIDEI_LAB_WORK, 6400); /* 4 of 10 us, of 16 */
    assert_event(&p, 2, TIDEI_LAB_HOST, 4000);
    assert_event(&p, 3, TIDEI_LAB_MAKE, 500);
    assert_event(&p, 4, TIDEI_LAB_WORK, 9600);
    assert_event(&p, 5, TIDEI_LAB_HOST, 6000);
    assert_event(&p, 6, TIDEI_LAB_DIE, 0);
    assert_event(&p, 7, TIDEI_LAB_SYNC, 0);
    assert_event(&p, 8, TIDEI_LAB_STEP, 0);
    assert_event(&p, 9, TIDEI_LAB_MAKE, 24);
    p.model.fresh_mib_ns = 0;
    assert_ok(tidei_lab_finish(&p));
    assert_int_equal(p.ideal_ns, 17000); /* as it was recorded */
    tidei_lab_clear(&p);
}

static void collections_of_the_recorded_run_are_left_out(void **state) {
    char path[64];
    tidei_lab_program p;
    (void)state;
    write_file(path, sizeof path,
               "op,id,bytes,stream,time_us\n"
               "a,1,8,0,10\nR,0,8,0,20\nC,2,0,0,25\nf,1,8,0,40\nc,2,8,0,50\nr,0,8,0,70\n"
               "a,2,8,0,75\n");
    assert_ok(tidei_study_load(path, &p));
    p.model.fresh_mib_ns = 0;
    assert_ok(tidei_lab_finish(&p));
    assert_int_equal(p.ideal_ns, 15000);
    tidei_lab_clear(&p);
}

/* Where a recording says when a block became unreachable, that is its death; what its collections
** took, and what memory costs there, is the program's model. */
static void a_recording_tells_of_deaths_and_costs(void **state) {
    char path[64];
    tidei_lab_program p;
    (void)state;
    write_file(path, sizeof path,
               "op,id,bytes,stream,time_us\nv,3,1,0,0\ng,777,123456789,0,0\np,512,0,0,0\n"
               "a,1,1000,0,10\na,2,500,0,20\nh,2,0,0,30\nC,2,0,0,30\nc,2,0,0,70\n"
               "h,2,0,0,75\nC,2,0,0,75\nc,2,0,0,135\n" /* 40 and 60 us */
               "a,3,4,0,140\nx,1,25,0,145\nf,1,1000,0,145\na,4,8,0,146\n");
    assert_ok(tidei_study_load(path, &p));
    assert_int_equal(p.peak[TIDEI_LAB_DEVICE], 1500); /* block 3 comes when block 1 is dead */
    assert_int_equal(p.model.full_array_ps, 17000);
    assert_int_equal(p.model.full_ns, 50000 - 2 * 17);
    assert_int_equal(p.model.spread_low, 1000);
    assert_int_equal(p.model.spread_high, 1000);
    assert_int_equal(p.model.fresh_mib_ns, 777);
    assert_int_equal(p.model.total, 123456789);
    assert_int_equal(p.model.page_bytes, 512);
    assert_event(&p, 6, TIDEI_LAB_DIE, 0);
    assert_int_equal(p.events[6].block, 0);
    tidei_lab_clear(&p);
}

/* How long the host waits rows tell; what it computes afterwards is no wait. The device works while
** the program stands still, if the host waits for it later: here for as long as that. */
static void waits_that_are_told_are_no_computing(void **state) {
    char path[64];
    tidei_lab_program p;
    (void)state;
    write_file(path, sizeof path,
               "op,id,bytes,stream,time_us\n"
               "a,1,8,0,100\nC,2,0,0,105\nc,2,0,0,135\ns,0,0,0,140\nW,9,0,0,141\nw,9,0,0,161\n"
               "a,2,8,0,170\ns,0,0,0,180\na,3,8,0,190\n");
    assert_ok(tidei_study_load(path, &p));
    assert_event(&p, 0, TIDEI_LAB_MAKE, 8);
    assert_event(&p, 1, TIDEI_LAB_WORK, 10000 + 20000 + 20000);
    assert_event(&p, 2, TIDEI_LAB_HOST, 10000);
    assert_event(&p, 3, TIDEI_LAB_SYNC, 0);
    assert_event(&p, 4, TIDEI_LAB_STEP, 0);
    assert_event(&p, 5, TIDEI_LAB_WORK, 10000); /* from 160, when the wait is over */
    assert_event(&p, 6, TIDEI_LAB_HOST, 10000);
    assert_event(&p, 7, TIDEI_LAB_MAKE, 8);
    assert_event(&p, 8, TIDEI_LAB_WORK, 10000); /* no wait is told of the second sync point */
    assert_event(&p, 9, TIDEI_LAB_HOST, 10000);
    assert_event(&p, 10, TIDEI_LAB_SYNC, 0);
    tidei_lab_clear(&p);
}

/* Where deaths are told, a block without one was nobody's garbage; nor was one that was freed by
** hand where collections find the others. */
static void what_the_program_gives_back_is_no_garbage(void **state) {
    static const struct {
        const char *how;
        tidei_lab_op of_first; /* which died as it was freed, exactly */
    } cases[] = {{"1", TIDEI_LAB_DIE}, {"2", TIDEI_LAB_FREE}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        char path[64], text[512];
        tidei_lab_program p;
        snprintf(text, sizeof text,
                 "op,id,bytes,stream,time_us\nv,2,%s,0,0\na,1,8,0,1\na,2,8,0,1\na,3,8,0,1\n"
                 "x,1,2,0,2\nf,1,8,0,2\nf,2,8,0,3\nx,3,4,1,4\nf,3,8,0,4\n",
                 cases[i].how);
        write_file(path, sizeof path, text);
        assert_ok(tidei_study_load(path, &p));
        tidei_lab_op of[3] = {0};
        for (size_t k = 0; k < p.n; k++)
            if (p.events[k].op == TIDEI_LAB_DIE || p.events[k].op == TIDEI_LAB_FREE)
                of[p.events[k].block] = p.events[k].op;
        assert_int_equal(of[0], cases[i].of_first);
        assert_int_equal(of[1], TIDEI_LAB_FREE);
        assert_int_equal(of[2], TIDEI_LAB_DIE);
        tidei_lab_clear(&p);
    }
}

/* The recordings of our own examples (tests/traces/README.md): what holds of every one. */
static void our_own_recordings_play(void **state) {
    static const char *const names[] = {"dense-collected", "dense-by-hand", "digits", "pca",
                                        "kmeans"};
    (void)state;
    for (size_t k = 0; k < TIDEI_COUNT(names); k++) {
        char path[1024];
        tidei_trace t;
        tidei_lab_program p;
        tidei_lab_figures f;
        uint64_t live = 0, ended = 0;
        snprintf(path, sizeof path, "%s/tests/traces/%s.csv.gz", getenv("TIDE_TEST_SOURCE"),
                 names[k]);
        assert_ok(tidei_trace_read_timed(path, 0, &t));
        assert_int_equal(t.run.version, 2);
        assert_true(t.run.how != TIDEI_DEATHS_FOUND && t.run.used > 0);
        assert_int_equal(t.ncollections > 0, t.run.how == TIDEI_DEATHS_AT_ONCE);
        for (size_t i = 0; i < t.n; i++) {
            const tidei_event *e = &t.events[i];
            if (e->op == TIDEI_EVENT_ALLOC) live += e->bytes;
            if (e->op != TIDEI_EVENT_FREE) continue;
            const tidei_block_moments *m = &t.moments[e->block];
            live -= e->bytes;
            ended++;
            uint64_t died = m->died == TIDEI_UNTOLD ? t.times[i].ns : m->died;
            assert_true(m->made <= died && died <= t.times[i].ns);
            if (m->used != TIDEI_UNTOLD) assert_true(m->made <= m->used && m->used <= died);
        }
        assert_int_equal(live, 0); /* closing freed what was left */
        assert_int_equal(ended, t.blocks);
        assert_ok(tidei_study_load(path, &p));
        assert_int_equal(p.blocks, t.blocks);
        tidei_policy_choice never = tidei_policy_usual(&tidei_policy_never);
        assert_ok(tidei_lab_simulate(
            &p, &(tidei_lab_options){.policy = &never, .limit = {2 * p.peak[0], TIDEI_NO_LIMIT}},
            &f));
        assert_int_equal(f.failed, 0);
        assert_int_equal(f.allocated, f.live + f.dead + f.freed);
        assert_int_equal(f.live, 0);
        tidei_lab_clear(&p);
        tidei_trace_clear(&t);
    }
}

static void a_log_of_rmm_goes_past_midnight(void **state) {
    char path[64];
    tidei_lab_program p;
    (void)state;
    write_file(path, sizeof path,
               "Thread,Time,Action,Pointer,Size,Stream\n"
               "1,23:59:59:999990,allocate,0x10,100,0x0\n"
               "1,00:00:00:000010,free,0x10,100,0x0\n"
               "1,00:01:00.000010,allocate,0x20,100,0x0\n");
    assert_ok(tidei_study_load(path, &p));
    p.model.fresh_mib_ns = 0;
    assert_ok(tidei_lab_finish(&p));
    assert_int_equal(p.ideal_ns, 60000020000);
    tidei_lab_clear(&p);
}

static void what_is_no_input_is_told(void **state) {
    char path[64];
    tidei_lab_program p;
    (void)state;
    assert_int_equal(tidei_study_load("trainn", &p), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "neither a workload nor a file 'trainn'");
    assert_int_equal(tidei_study_load("./none.csv", &p), TIDE_E_IO);
    assert_error(TIDE_E_IO, "./none.csv: cannot be opened");
    write_file(path, sizeof path, "op,id,bytes,stream,time_us\na,1,8,0,0\nf,2,8,0,1\n");
    assert_int_equal(tidei_study_load(path, &p), TIDE_E_FORMAT);
    assert_error(TIDE_E_FORMAT, ":3: expected the id of an allocated block, found '2'");
    write_file(path, sizeof path, "op,id,bytes,stream,time_us\ns,0,0,0,0\n");
    assert_int_equal(tidei_study_load(path, &p), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "nothing is allocated in it");
}

static void the_recorded_traces_play_as_they_were(void **state) {
    static const struct {
        const char *name;
        size_t steps;
        uint64_t us; /* of the last row */
    } traces[] = {{"linalg-mix", 41, 777871},
                  {"lstm-train-unrolled", 11, 352909},
                  {"resnet50-train-varbatch", 25, 769875},
                  {"gpt2-train-varlen", 25, 1183317}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(traces); i++) {
        char path[1024];
        tidei_lab_program p;
        snprintf(path, sizeof path, "%s/tests/traces/%s.csv.gz", getenv("TIDE_TEST_SOURCE"),
                 traces[i].name);
        assert_ok(tidei_study_load(path, &p));
        p.model.fresh_mib_ns = 0;
        assert_ok(tidei_lab_finish(&p));
        assert_int_equal(p.steps, traces[i].steps);
        assert_int_equal(p.ideal_ns, traces[i].us * 1000);
        tidei_lab_clear(&p);
    }
}

/* ---- limits ---- */

static void limits_are_sizes_factors_or_none(void **state) {
    tidei_lab_program p = {.peak = {1000}, .model = TIDEI_LAB_MODEL},
                      own = {.peak = {1000}, .limit = {5000}, .model = TIDEI_LAB_MODEL};
    static const char *const bad[] = {"", "x", "0x", "1.2.3x", "-1x", "lots", "0", "50%"};
    tidei_study_limit l;
    (void)state;
    assert_true(tidei_study_limit_parse("none", &l));
    assert_true(tidei_study_limit_of(&l, &p) == TIDEI_NO_LIMIT);
    assert_true(tidei_study_limit_parse("4KiB", &l));
    assert_int_equal(tidei_study_limit_of(&l, &p), 4096);
    assert_true(tidei_study_limit_parse("1.5x", &l));
    assert_int_equal(tidei_study_limit_of(&l, &p), 1501);
    l = (tidei_study_limit){.text = "own"};
    assert_int_equal(tidei_study_limit_of(&l, &p), 1201);
    assert_int_equal(tidei_study_limit_of(&l, &own), 5000);
    own.model.page_bytes = 512; /* to which a runtime rounds limits up */
    assert_int_equal(tidei_study_limit_of(&l, &own), 5120);
    assert_true(tidei_study_limit_parse("1KiB", &l));
    assert_int_equal(tidei_study_limit_of(&l, &own), 1024);
    assert_true(tidei_study_limit_parse("none", &l));
    assert_true(tidei_study_limit_of(&l, &own) == TIDEI_NO_LIMIT);
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++)
        if (tidei_study_limit_parse(bad[i], &l)) fail_msg("'%s' is taken for a limit", bad[i]);
}

/* ---- runs ---- */

static const char *const names[] = {"full-static", "threads"};
static const char *const texts[] = {"reserve", "cudajl", "reserve(x0=0.9,x1=0.95)"};

struct fixture {
    tidei_lab_program programs[TIDEI_COUNT(names)];
    tidei_study_policy policies[TIDEI_COUNT(texts)];
    tidei_study_limit limits[2];
    tidei_study study;
};

static void set_up(struct fixture *f) {
    char why[256];
    for (size_t i = 0; i < TIDEI_COUNT(names); i++)
        assert_ok(tidei_study_load(names[i], &f->programs[i]));
    for (size_t i = 0; i < TIDEI_COUNT(texts); i++) {
        f->policies[i] = (tidei_study_policy){.text = texts[i]};
        assert_true(tidei_policy_choose(texts[i], &f->policies[i].choice, why, sizeof why));
    }
    assert_true(tidei_study_limit_parse("1.02x", &f->limits[0]));
    assert_true(tidei_study_limit_parse("none", &f->limits[1]));
    f->study = (tidei_study){.programs = f->programs,
                             .limits = f->limits,
                             .policies = f->policies,
                             .nprograms = TIDEI_COUNT(names),
                             .nlimits = 2,
                             .npolicies = TIDEI_COUNT(texts),
                             .seeds = 3,
                             .threads = 1};
}

static void tear_down(struct fixture *f) {
    tidei_study_clear(&f->study);
    for (size_t i = 0; i < TIDEI_COUNT(names); i++) tidei_lab_clear(&f->programs[i]);
}

static void rows_are_the_same_on_any_number_of_threads(void **state) {
    struct fixture f;
    (void)state;
    set_up(&f);
    assert_ok(tidei_study_run(&f.study));
    size_t n = TIDEI_COUNT(names) * 2 * TIDEI_COUNT(texts) * 3;
    for (unsigned threads = 2; threads <= 64; threads *= 2) {
        tidei_study again = f.study;
        again.threads = threads;
        assert_ok(tidei_study_run(&again));
        assert_memory_equal(again.runs, f.study.runs, n * sizeof *again.runs);
        tidei_study_clear(&again);
    }
    tear_down(&f);
}

/* A row is of its own program, limit and policy. */
static void rows_are_found_in_their_place(void **state) {
    struct fixture f;
    (void)state;
    set_up(&f);
    assert_ok(tidei_study_run(&f.study));
    for (size_t i = 0; i < TIDEI_COUNT(names); i++)
        for (size_t l = 0; l < 2; l++)
            for (size_t k = 0; k < TIDEI_COUNT(texts); k++) {
                tidei_study_row r = tidei_study_row_of(&f.study, i, l, k);
                uint64_t limit = tidei_study_limit_of(&f.limits[l], &f.programs[i]), worst = 0;
                double collections = 0;
                for (uint64_t seed = 1; seed <= 3; seed++) {
                    tidei_lab_figures x;
                    tidei_lab_options o = {.policy = &f.policies[k].choice,
                                           .limit = {limit, TIDEI_NO_LIMIT},
                                           .seed = seed};
                    assert_ok(tidei_lab_simulate(&f.programs[i], &o, &x));
                    collections += (double)x.collections / 3;
                    if (x.worst_step_ns > worst) worst = x.worst_step_ns;
                }
                assert_true(r.limit == limit);
                assert_true(r.collections - collections < 1e-6 &&
                            collections - r.collections < 1e-6);
                assert_int_equal(r.worst_step_ns, worst);
            }
    tear_down(&f);
}

/* ---- policies ---- */

static void assert_sweep(const char *text, size_t n, const char *const *wanted) {
    tidei_study_sweep_list l = {.n = 0};
    char why[256];
    assert_true(tidei_study_sweep(&l, text, why, sizeof why));
    assert_int_equal(l.n, n);
    for (size_t i = 0; i < n; i++) assert_string_equal(l.at[i].text, wanted[i]);
    tidei_study_sweep_clear(&l);
}

static void a_sweep_is_each_of_its_policies(void **state) {
    static const char
        *const one[] = {"reserve(x0=0.5)"},
               *const three[] = {"reserve(x0=0.1)", "reserve(x0=0.2)", "reserve(x0=0.3)"},
               *const four[] = {"priced(x0=0.2,stall=5ms)", "priced(x0=0.2,stall=10ms)",
                                "priced(x0=0.7,stall=5ms)", "priced(x0=0.7,stall=10ms)"},
               *const bytes[] = {"pressure(budget=4194304)", "pressure(budget=8388608)"},
               *const digits[] = {"every(n=1234567)", "every(n=1234568)", "every(n=1234569)"},
               *const small[] = {"reserve(x0=0.123456789)", "reserve(x0=0.123456799)"};
    (void)state;
    assert_sweep(one[0], 1, one);
    assert_sweep("pressure(budget=4194304:8388608:4194304)", 2, bytes);
    assert_sweep("every(n=1234567:1234569:1)", 3, digits);
    assert_sweep("reserve(x0=0.123456789:0.1234568:0.00000001)", 2, small);
    assert_sweep("reserve(x0=0.1:0.3:0.1)", 3, three);
    assert_sweep("priced(x0=0.2:0.7:0.5,stall=5ms:14ms:5ms)", 4, four);
}

static void what_is_no_sweep_is_told(void **state) {
    static const char *const bad[] = {"reserve(x0=0.1:)",
                                      "reserve(x0=:0.3:0.1)",
                                      "reserve(x0=0.1:0.3:0)",
                                      "reserve(x0=0.3:0.1:0.1)",
                                      "reserve(stall=5ms:20:5ms)",
                                      "reserve(x0=0.1:0.3:0.1:1)",
                                      ":",
                                      "reserve:1:2:3"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(bad); i++) {
        tidei_study_sweep_list l = {.n = 0};
        char why[256];
        if (tidei_study_sweep(&l, bad[i], why, sizeof why)) fail_msg("'%s' is a sweep", bad[i]);
        assert_non_null(strstr(why, "expected FROM:TO:STEP"));
        tidei_study_sweep_clear(&l);
    }
}

/* ---- the optimum ---- */

/* A mean over three seeds, and Student's t of two degrees of freedom. */
static void costs_have_intervals_over_the_seeds(void **state) {
    tidei_lab_figures runs[3] = {{.ns = 1010, .pause_ns = 100},
                                 {.ns = 1020, .pause_ns = 100},
                                 {.ns = 1030, .pause_ns = 100}};
    tidei_study_trouble none_at_all[3] = {{.too_long = false}};
    tidei_lab_program p = {.ideal_ns = 1000, .peak = {1}, .threads = 1};
    tidei_study_limit none = {.kind = TIDEI_LIMIT_NONE};
    tidei_study_policy policy = {.text = "any"};
    tidei_study s = {.programs = &p,
                     .limits = &none,
                     .policies = &policy,
                     .nprograms = 1,
                     .nlimits = 1,
                     .npolicies = 1,
                     .seeds = 3,
                     .runs = runs,
                     .troubles = none_at_all};
    (void)state;
    tidei_study_row r = tidei_study_row_of(&s, 0, 0, 0);
    assert_true(r.overhead > 1.9999 && r.overhead < 2.0001);
    assert_true(r.cost > 2.9999 && r.cost < 3.0001);
    assert_true(r.cost_off > 2.4843 && r.cost_off < 2.4844); /* 4.303 / sqrt(3) */
    assert_true(r.overhead_off > 2.4843 && r.overhead_off < 2.4844);
    s.seeds = 1;
    assert_true(tidei_study_row_of(&s, 0, 0, 0).cost_off == 0);
}

/* A limit beyond the device's memory is that memory; what is recorded nowhere is large enough. */
static void a_device_has_no_more_than_it_has(void **state) {
    static const struct {
        const char *head, *bytes;
        uint64_t total;
    } cases[] = {{"v,3,1,0,0\ng,0,3000,0,0\n", "1000", 3000},
                 {"v,3,1,0,0\n", "1000", (uint64_t)80 << 30},
                 {"", "1000", (uint64_t)80 << 30},
                 {"", "72057594037927936", (uint64_t)1 << 58}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        char path[64], text[200];
        tidei_lab_program p;
        tidei_study_limit l;
        snprintf(text, sizeof text, "op,id,bytes,stream,time_us\n%sa,1,%s,0,5\n", cases[i].head,
                 cases[i].bytes);
        write_file(path, sizeof path, text);
        assert_ok(tidei_study_load(path, &p));
        assert_int_equal(p.model.total, cases[i].total);
        assert_true(tidei_study_limit_parse("1.5x", &l));
        assert_int_equal(tidei_study_limit_of(&l, &p), p.peak[TIDEI_LAB_DEVICE] * 3 / 2 + 1);
        assert_true(tidei_study_limit_parse("4611686018427387904", &l)); /* 2^62 */
        assert_int_equal(tidei_study_limit_of(&l, &p), cases[i].total);
        assert_true(tidei_study_limit_parse("18446744073709551614", &l));
        assert_int_equal(l.bytes, (uint64_t)1 << 62);
        assert_int_equal(tidei_study_limit_of(&l, &p), cases[i].total);
        assert_true(tidei_study_limit_parse("none", &l));
        assert_int_equal(tidei_study_limit_of(&l, &p), TIDEI_NO_LIMIT);
        tidei_lab_clear(&p);
    }
}

static void a_study_says_what_has_no_oracle(void **state) {
    struct fixture f;
    (void)state;
    set_up(&f);
    f.policies[1] = (tidei_study_policy){.text = "oracle", .oracle = true};
    f.study.seeds = 2;
    assert_ok(tidei_study_run(&f.study));
    tidei_study_row best = tidei_study_row_of(&f.study, 0, 0, 1);
    assert_null(best.lacks);
    assert_false(best.near);
    for (size_t k = 0; k < TIDEI_COUNT(texts); k++)
        assert_true(tidei_study_row_of(&f.study, 0, 0, k).cost >= best.cost);
    assert_string_equal(tidei_study_row_of(&f.study, 1, 0, 1).lacks,
                        "the program has several threads");
    tear_down(&f);
}

static void host_memory_may_end(void **state) {
    struct fixture f;
    tide_status status = TIDE_OK;
    (void)state;
    set_up(&f);
    f.study.threads = 2;
    f.study.seeds = 1;
    for (long n = 0; n == 0 || status != TIDE_OK; n++) {
        atomic_store(&mallocs_left, n);
        status = tidei_study_run(&f.study);
        atomic_store(&mallocs_left, -1);
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
        tidei_study_clear(&f.study);
    }
    for (long n = 0; n == 0 || status != TIDE_OK; n++) {
        char path[1024];
        tidei_lab_program p;
        snprintf(path, sizeof path, "%s/tests/traces/linalg-mix.csv.gz",
                 getenv("TIDE_TEST_SOURCE"));
        atomic_store(&mallocs_left, n);
        status = tidei_study_load(path, &p);
        atomic_store(&mallocs_left, -1);
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
        if (status == TIDE_OK) tidei_lab_clear(&p);
    }
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_tells_of_deaths_and_costs),
        cmocka_unit_test(waits_that_are_told_are_no_computing),
        cmocka_unit_test(what_the_program_gives_back_is_no_garbage),
        cmocka_unit_test(our_own_recordings_play),
        cmocka_unit_test(a_trace_becomes_a_program),
        cmocka_unit_test(collections_of_the_recorded_run_are_left_out),
        cmocka_unit_test(a_log_of_rmm_goes_past_midnight),
        cmocka_unit_test(what_is_no_input_is_told),
        cmocka_unit_test(the_recorded_traces_play_as_they_were),
        cmocka_unit_test(limits_are_sizes_factors_or_none),
        cmocka_unit_test(rows_are_the_same_on_any_number_of_threads),
        cmocka_unit_test(rows_are_found_in_their_place),
        cmocka_unit_test(a_sweep_is_each_of_its_policies),
        cmocka_unit_test(what_is_no_sweep_is_told),
        cmocka_unit_test(costs_have_intervals_over_the_seeds),
        cmocka_unit_test(a_device_has_no_more_than_it_has),
        cmocka_unit_test(a_study_says_what_has_no_oracle),
        cmocka_unit_test(host_memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
