/* test_own_policy.c: policies of one's own: what is registered and what is refused, what they are
** told, shared objects, answers that make no sense, threads, and host memory that ends. How they
** look in a study: tests/own_policy.sh; that they may be left: tests/runtime/test_callbacks.c. */
#include "gc/own_policy.h"
#include "tests/doubles/counted_host.h"
#include "tests/doubles/mock_tracer.h"
#include "tests/support/clean_environment.h"
#include "runtime/runtime.h"
#include <math.h>
#include <tide/policy.h>

#define DOUBLES TIDE_TEST_DOUBLES "/lib"

/* ---- host memory that ends ---- */

static _Atomic long mallocs_left = -1; /* -1: no end */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    if (atomic_load(&mallocs_left) == 0) return NULL;
    if (atomic_load(&mallocs_left) > 0) atomic_fetch_sub(&mallocs_left, 1);
    return __real_malloc(bytes);
}

/* ---- policies ---- */

static struct seen {
    atomic_uint asked, told, inside, most_inside;
    tide_policy_snapshot now, before, after;
    tide_policy_collection collection;
    double params[2];
    unsigned long long state;
    void *user;
} seen;

static void enter(void) {
    unsigned n = atomic_fetch_add(&seen.inside, 1) + 1;
    if (n > atomic_load(&seen.most_inside)) atomic_store(&seen.most_inside, n);
}
static void leave(void) { atomic_fetch_sub(&seen.inside, 1); }

/* Collects beyond a share of the limit. */
static void decide(void *user, void *state, const tide_policy_snapshot *now,
                   tide_policy_decision *out) {
    unsigned long long *count = state;
    enter();
    seen.user = user;
    seen.now = *now;
    seen.state = ++*count;
    memcpy(seen.params, now->params, sizeof seen.params);
    atomic_fetch_add(&seen.asked, 1);
    assert_true(out->struct_size == sizeof *out && !out->level && !out->wake_at && !out->reason);
    uint64_t end = (uint64_t)((double)now->limit * now->params[0]);
    out->level = now->used + now->request > end ? now->level : 0;
    out->wake_at = out->level ? 0 : end + 1;
    out->reason = out->level ? "the share is used" : "there is room";
    leave();
}

static void observe(void *user, void *state, const tide_policy_snapshot *before,
                    const tide_policy_snapshot *after, const tide_policy_collection *c) {
    (void)user, (void)state;
    enter();
    seen.before = *before;
    seen.after = *after;
    seen.collection = *c;
    atomic_fetch_add(&seen.told, 1);
    leave();
}

static const tide_policy_param params[] = {
    {.name = "share", .usual = 0.5, .low = 0.1, .high = 0.9, .meaning = "of the limit"},
    {.name = "pause", .kind = TIDE_PARAM_TIME, .usual = 5e6, .low = 0, .high = 1e9},
};

static tide_policy table(const char *name) {
    return (tide_policy){.struct_size = sizeof(tide_policy),
                         .name = name,
                         .state_bytes = 4096,
                         .params = params,
                         .nparams = 2,
                         .decide = decide};
}

/* Registers it unless an earlier case did. */
static void there_is(tide_policy p) {
    if (!tidei_policy_find(p.name)) assert_ok(tide_policy_register(&p));
}

/* ---- registering ---- */

static void it_is_named_once_it_is_registered(void **state) {
    char name[] = "mine-1.0", summary[] = "sometimes", buf[400];
    tidei_policy_choice c;
    tide_policy p = table(name);
    (void)state;
    p.summary = summary;
    assert_null(tidei_policy_find("mine-1.0"));
    assert_ok(tide_policy_register(&p));
    memset(name, 'x', sizeof name - 1); /* what was given was copied */
    memset(summary, 'x', sizeof summary - 1);
    memset(&p, 0xA5, sizeof p);
    const tidei_policy *mine = tidei_policy_find("mine-1.0");
    assert_non_null(mine);
    assert_string_equal(mine->summary, "sometimes");
    assert_string_equal(mine->params[0].meaning, "of the limit");
    assert_string_equal(mine->params[1].meaning, "");
    assert_non_null(strstr(tidei_policy_names(buf, sizeof buf), ", mine-1.0"));
    assert_true(tidei_policy_choose("mine-1.0(pause=20ms,share=0.25)", &c, buf, sizeof buf));
    assert_true(c.policy == mine && c.at[0] == 0.25 && c.at[1] == 20e6);
    assert_false(tidei_policy_choose("mine-1.0(share=2)", &c, buf, sizeof buf));
    assert_non_null(strstr(buf, "column 16: expected share from 0.1 to 0.9, found '2)'"));
}

static void refuse(tide_policy p, const char *why) {
    tide_error_clear();
    assert_int_equal(tide_policy_register(&p), TIDE_E_INVALID);
    assert_string_equal(tide_error_last()->operation, "tide_policy_register");
    if (!strstr(tide_error_last()->message, why))
        fail_msg("wanted: %s; got: %s", why, tide_error_last()->message);
}

static void bad_names_are_refused(void **state) {
    static const char *const names[] = {"",
                                        "a(b",
                                        "a)",
                                        "a=b",
                                        "a,b",
                                        "./a",
                                        "a b",
                                        "a\n",
                                        "\303",
                                        "a\"b",
                                        "a234567890" /* 41 */ "a234567890a234567890a234567890a"};
    (void)state;
    assert_int_equal(tide_policy_register(NULL), TIDE_E_INVALID);
    for (size_t i = 0; i < TIDEI_COUNT(names); i++) refuse(table(names[i]), "the name \"");
    refuse(table(NULL), "name is NULL");
    refuse(table("reserve"), "there is a policy \"reserve\" already");
    there_is(table("a-name"));
    refuse(table("a-name"), "there is a policy \"a-name\" already");
    assert_null(tidei_policy_find("a("));
}

static void bad_tables_are_refused(void **state) {
    tide_policy p = table("refused");
    (void)state;
    p.decide = NULL, refuse(p, "decide is NULL");
    p = table("refused"), p.struct_size = 0, refuse(p, "struct_size is 0");
    p = table("refused"), p.struct_size--, refuse(p, "inside a field");
    p = table("refused"), p.struct_size += 8, refuse(p, "this library knows up to");
    p = table("refused"), p.state_bytes = TIDE_POLICY_STATE_MAX + 1, refuse(p, "state_bytes");
    p = table("refused"), p.nparams = TIDE_POLICY_PARAMS_MAX + 1, refuse(p, "13 parameters");
    p = table("refused"), p.params = NULL, refuse(p, "params is NULL");
    assert_null(tidei_policy_find("refused"));
}

static void refuse_param(tide_policy_param x, const char *why) {
    tide_policy p = table("refused");
    const tide_policy_param two[] = {params[0], x};
    p.params = two;
    refuse(p, why);
}

static void bad_parameters_are_refused(void **state) {
    (void)state;
    refuse_param((tide_policy_param){.name = NULL}, "parameter 1 has a name");
    refuse_param((tide_policy_param){.name = "a-b"}, "parameter 1 has a name");
    refuse_param((tide_policy_param){.name = "share"}, "two parameters are called share");
    refuse_param((tide_policy_param){.name = "x", .kind = 4}, "parameter x: there is no kind 4");
    refuse_param((tide_policy_param){.name = "x", .kind = -1}, "there is no kind -1");
    refuse_param((tide_policy_param){.name = "x", .low = -1}, "does not hold of -1, 0, 0");
    refuse_param((tide_policy_param){.name = "x", .usual = 2, .high = 1}, "does not hold");
    refuse_param((tide_policy_param){.name = "x", .usual = NAN, .high = 1}, "does not hold");
    refuse_param((tide_policy_param){.name = "x", .high = INFINITY}, "does not hold");
}

/* An older header's table ends with `decide`. */
static void an_older_table_has_no_observe(void **state) {
    union {
        tide_policy p;
        unsigned char bytes[sizeof(tide_policy)];
    } x = {.p = table("older")};
    tidei_policy_run r;
    (void)state;
    x.p.struct_size = offsetof(tide_policy, observe);
    memset(x.bytes + x.p.struct_size, 0xA5, sizeof x - x.p.struct_size); /* no address */
    assert_ok(tide_policy_register(&x.p));
    tidei_policy_start(&r, tidei_policy_find("older"));
    assert_ok(tidei_own_policy_open(&r, NULL, "test"));
    tidei_policy_in in = {.levels = TIDEI_OFFERS_FULL, .hard = 100, .total = 100};
    tidei_policy_told(&r, &in, &in, &(tidei_collection){.level = TIDE_COLLECT_FULL});
    tidei_own_policy_close(&r, NULL);
}

static void *register_many(void *wins) {
    char name[40];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        tide_policy p = table(name);
        if (tide_policy_register(&p) == TIDE_OK) atomic_fetch_add((atomic_uint *)wins, 1);
    }
    return NULL;
}

static void of_threads_that_register_a_name_one_wins(void **state) {
    pthread_t threads[4];
    atomic_uint wins = 0;
    (void)state;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, register_many, &wins);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(wins, 100);
    assert_non_null(tidei_policy_find("many-99"));
}

static void without_host_memory_nothing_is_registered(void **state) {
    tide_policy p = table("short");
    tide_status status;
    long n = 0;
    (void)state;
    do {
        assert_null(tidei_policy_find("short"));
        atomic_store(&mallocs_left, n++);
        status = tide_policy_register(&p);
        atomic_store(&mallocs_left, -1);
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
    } while (status != TIDE_OK);
    assert_true(n > 1);
    assert_non_null(tidei_policy_find("short"));
}

/* ---- what it is told ---- */

static tidei_policy_in in_at(uint64_t live, uint64_t request) {
    return (tidei_policy_in){.now_ns = 1000,
                             .where = TIDEI_AT_SYNC,
                             .levels = TIDEI_OFFERS_FULL | TIDEI_OFFERS_MINOR,
                             .threads = 3,
                             .live = live,
                             .rounding = 100,
                             .request = request,
                             .hard = 10000,
                             .soft = TIDEI_NO_LIMIT,
                             .library = 1000,
                             .total = 20000,
                             .available = 15000,
                             .slack_ns = 7,
                             .backed = 6000,
                             .fresh_ns = 0.5,
                             .largest = 77};
}

static void begin(tidei_policy_run *r, const char *text) {
    tidei_policy_choice c;
    char why[400];
    if (!tidei_policy_choose(text, &c, why, sizeof why)) fail_msg("%s", why);
    tidei_policy_start_with(r, &c);
    assert_ok(tidei_own_policy_open(r, NULL, "test"));
    memset(&seen, 0, sizeof seen);
}

static void the_snapshot_is_what_the_runtime_knows(void **state) {
    tidei_policy_run r;
    tide_policy p = table("told");
    (void)state;
    p.user = &seen;
    p.observe = observe;
    there_is(p);
    begin(&r, "told(share=0.8)");
    tidei_policy_in in = in_at(2000, 50), after = in_at(500, 0);
    tidei_decision d = tidei_policy_ask(&r, &in);
    assert_int_equal(d.level, 0);
    assert_true(d.wake_at == 7201 - 100); /* live + request: without what granules lose */
    const tide_policy_snapshot *s = &seen.now;
    assert_true(seen.user == &seen && seen.state == 1);
    assert_true(seen.params[0] == 0.8 && seen.params[1] == 5e6);
    assert_true(s->struct_size == sizeof *s && s->now_ns == 1000 && s->threads == 3);
    assert_true(s->where == TIDE_POLICY_AT_SYNC &&
                s->levels == (TIDE_POLICY_MINOR | TIDE_POLICY_FULL));
    assert_true(s->level == TIDE_COLLECT_MINOR && s->used == 2100 && s->rounding == 100);
    assert_true(s->request == 50 && s->limit == 9000 && s->hard == 10000 && s->soft == UINT64_MAX);
    assert_true(s->library == 1000 && s->total == 20000 && s->available == 15000);
    assert_true(s->backed == 6000 && s->slack_ns == 7 && s->fresh_ns == 0.5 && s->largest == 77);
    assert_true(s->opened_ns == 1000 && !s->ended_ns && !s->base && !s->minor_ns && !s->yield);

    in = in_at(8000, 0);
    assert_int_equal(tidei_policy_ask(&r, &in).level, TIDE_COLLECT_MINOR);
    after.now_ns = 3000;
    tidei_policy_told(
        &r, &in, &after,
        &(tidei_collection){
            .level = TIDE_COLLECT_MINOR, .early = true, .start_ns = 1500, .pause_ns = 1500});
    assert_int_equal(seen.told, 1);
    assert_true(seen.before.used == 8100 && seen.after.used == 600 && seen.after.base == 600);
    assert_true(seen.after.minor_ns == 1500 && seen.after.minor_freed == 5);
    assert_true(seen.after.ended_ns == 3000 && seen.after.yield > 0.9);
    assert_true(seen.collection.struct_size == sizeof seen.collection);
    assert_true(seen.collection.level == TIDE_COLLECT_MINOR && seen.collection.early == 1);
    assert_true(seen.collection.start_ns == 1500 && seen.collection.pause_ns == 1500);
    assert_int_equal(r.nonsense.n, 0);
    tidei_own_policy_close(&r, NULL);
}

static tide_policy_decision answer;
static void decide_so(void *user, void *state, const tide_policy_snapshot *now,
                      tide_policy_decision *out) {
    (void)user, (void)state, (void)now;
    *out = answer;
}

static void an_answer_without_sense_collects_nothing(void **state) {
    static const struct {
        tide_policy_decision d;
        const char *said;
    } cases[] = {
        {{.level = 3, .reason = "r"}, "level is 3"},
        {{.level = -1, .reason = "r"}, "it could not decide: r"},
        {{.level = -1}, "level is -1"},
        {{.level = 2}, "reason is NULL"},
        {{.level = 0}, "reason is NULL"},
        {{.wake_at = 1, .reason = "r"}, "wake_at is 1, and used + request 2150"},
        {{.wake_at = 2150, .reason = "r"}, "wake_at is 2150, and used + request 2150"},
    };
    (void)state;
    tide_policy p = table("so");
    p.decide = decide_so;
    there_is(p);
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_policy_run r;
        begin(&r, "so");
        tidei_policy_in in = in_at(2000, 50);
        answer = cases[i].d;
        for (unsigned n = 1; n < 4; n++) {
            assert_int_equal(tidei_policy_ask(&r, &in).level, 0);
            assert_int_equal(r.nonsense.n, n);
        }
        assert_string_equal(r.nonsense.first, cases[i].said);
        tidei_own_policy_close(&r, NULL);
    }
}

static void other_answers_have_sense(void **state) {
    static const struct {
        tide_policy_decision d;
        unsigned levels;
        int level;
        uint64_t wake_at;
    } cases[] = {
        {{.reason = ""}, 6, 0, 0},
        {{.wake_at = 2151, .reason = "r"}, 6, 0, 2051},
        {{.wake_at = UINT64_MAX, .reason = "r"}, 6, 0, UINT64_MAX},
        {{.level = TIDE_COLLECT_MINOR, .wake_at = 1, .reason = "r"}, 6, TIDE_COLLECT_MINOR, 0},
        {{.level = TIDE_COLLECT_FULL, .reason = "r"}, 6, TIDE_COLLECT_FULL, 0},
        {{.level = TIDE_COLLECT_MINOR, .reason = "r"}, 4, TIDE_COLLECT_FULL, 0},
    };
    (void)state;
    tide_policy p = table("so");
    p.decide = decide_so;
    there_is(p);
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_policy_run r;
        begin(&r, "so");
        tidei_policy_in in = in_at(2000, 50);
        in.levels = cases[i].levels;
        answer = cases[i].d;
        tidei_decision d = tidei_policy_ask(&r, &in);
        assert_int_equal(r.nonsense.n, 0);
        assert_int_equal(d.level, cases[i].level);
        if (!d.level) assert_true(d.wake_at == cases[i].wake_at);
        tidei_own_policy_close(&r, NULL);
    }
}

/* ---- shared objects ---- */

static void a_shared_object_is_one_policy(void **state) {
    tidei_policy_choice a, b;
    char why[1000];
    (void)state;
    if (!tidei_policy_choose(DOUBLES "policy_double.so", &a, why, sizeof why)) fail_msg("%s", why);
    assert_string_equal(a.policy->name, "half");
    assert_null(tidei_policy_find("half")); /* it is named by its file */
    assert_true(tidei_policy_choose(DOUBLES "policy_double.so(share=0.25)", &b, why, sizeof why));
    assert_true(a.policy == b.policy && a.at[0] == 0.5 && b.at[0] == 0.25);
    assert_false(tidei_policy_choose(DOUBLES "policy_double.so(part=1)", &b, why, sizeof why));
    assert_non_null(strstr(why, "expected one of share, found 'part=1)'"));
}

static void what_is_no_policy_is_told(void **state) {
    static const struct {
        const char *path, *file, *why;
    } cases[] = {
        {"./no/such.so", "./no/such.so", "cannot open shared object file"},
        {DOUBLES "driver_double.so", "libdriver_double.so", "has no symbol tide_policy_entry"},
        {DOUBLES "policy_tall_double.so", "libpolicy_tall_double.so",
         "is refused: tide_policy.struct_size is 4096; this library knows up to"},
        {DOUBLES "policy_nameless_double.so", "libpolicy_nameless_double.so",
         "is refused: the name \"\" is not of letters"},
        {"/dev/null", "/dev/null", "file too short"},
    };
    tidei_policy_choice c;
    char why[1000], path[5000];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tide_error_clear();
        assert_false(tidei_policy_choose(cases[i].path, &c, why, sizeof why));
        if (!strstr(why, cases[i].why) || !strstr(why, cases[i].file))
            fail_msg("%s: %s", cases[i].path, why);
        assert_int_equal(tide_error_last()->status, TIDE_OK); /* whose it is says it */
    }
    memset(path, '/', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_false(tidei_policy_choose(path, &c, why, sizeof why));
    assert_string_equal(why, "a path of 4999 bytes is too long");
}

/* ---- live ---- */

static char lines[10000];
static void keep_line(void *user, int level, const char *line) {
    (void)user;
    size_t n = strlen(lines);
    if (level <= TIDE_LOG_WARNING) snprintf(lines + n, sizeof lines - n, "%s\n", line);
}

static tide_runtime *open_in(const char *pool, const char *policy, mock_tracer *m) {
    *lines = 0;
    tide_runtime *rt = test_open(&(tide_config){.device = "host",
                                                .collector = "refcount",
                                                .policy = policy,
                                                .pool = pool,
                                                .limit = "1MiB",
                                                .log = keep_line,
                                                .log_level = TIDE_LOG_WARNING,
                                                .allocator = &counted_memory});
    mock_open(m, rt, "mock", TIDE_COLLECTOR_MINOR, 0);
    return rt;
}

static tide_runtime *open_with(const char *policy, mock_tracer *m) {
    return open_in(NULL, policy, m);
}

static void make_garbage(tide_runtime *rt, mock_tracer *m, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        tide_array *a = tide_empty(rt, TIDE_U8, SHAPE(4096));
        assert_array(a);
        mock_drop(m, mock_hold(m, a));
    }
}

static void close_with(tide_runtime *rt, mock_tracer *m) {
    tide_close(rt);
    mock_end(m);
    assert_int_equal(host_held, 0);
}

static void a_registered_policy_decides_in_a_runtime(void **state) {
    mock_tracer m;
    tide_policy p = table("live");
    (void)state;
    p.observe = observe;
    there_is(p);
    memset(&seen, 0, sizeof seen);
    tide_runtime *rt = open_with("live(share=0.25)", &m);
    make_garbage(rt, &m, 1000);
    tide_runtime_figures s = test_stats(rt);
    assert_true(seen.asked > 10 && seen.told > 10 && s.early_collections > 10);
#ifndef TIDEI_STRESS
    assert_int_equal(s.climbs, 0);
    assert_in_range(s.peak_live, 200000, 300000);              /* a quarter of the limit */
    assert_in_range(seen.asked, seen.told, 3 * seen.told + 3); /* wake_at is heeded */
#endif
    assert_true(seen.state > 10 && seen.params[0] == 0.25);
    close_with(rt, &m);
    assert_string_equal(lines, "");
}

/* Asks to be asked at each array, and never collects. */
static void listen(void *user, void *state, const tide_policy_snapshot *now,
                   tide_policy_decision *out) {
    (void)user, (void)state;
    seen.now = *now;
    out->reason = "listening";
}

/* The limit is in use, and all that is free lies in pieces of 64 KiB. */
static void a_policy_is_told_what_needs_no_moves(void **state) {
    enum { PIECES = 16, PIECE = 1 << 16 };
    tide_array *a[PIECES];
    mock_tracer m;
    (void)state;
    there_is(
        (tide_policy){.struct_size = sizeof(tide_policy), .name = "listening", .decide = listen});
    tide_runtime *rt = open_in("tide", "listening", &m);
    for (unsigned i = 0; i < PIECES; i++)
        assert_array(a[i] = tide_empty(rt, TIDE_U8, SHAPE(PIECE)));
    for (unsigned i = 0; i < PIECES; i += 2) tide_free(a[i]);
    tide_array *small = tide_empty(rt, TIDE_U8, SHAPE(PIECE));
    assert_array(small);
    assert_true(seen.now.request == PIECE && seen.now.largest == PIECE);
    tide_array *large = tide_empty(rt, TIDE_U8, SHAPE(2 * PIECE));
    assert_array(large); /* blocks were moved */
    assert_true(seen.now.request == 2 * PIECE && seen.now.largest == PIECE);
    assert_int_equal(test_stats(rt).climbs, 0);
    for (unsigned i = 1; i < PIECES; i += 2) tide_free(a[i]);
    tide_free(small), tide_free(large);
    close_with(rt, &m);
}

static void a_loaded_policy_decides_in_a_runtime(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = open_with(DOUBLES "policy_double.so(share=0.25)", &m);
    make_garbage(rt, &m, 1000);
    assert_true(test_stats(rt).early_collections > 10);
    close_with(rt, &m);
    setenv("TIDE_POLICY", DOUBLES "policy_double.so", 1);
    rt = open_with(NULL, &m);
    make_garbage(rt, &m, 1000);
    assert_true(test_stats(rt).early_collections > 2);
    close_with(rt, &m);
    unsetenv("TIDE_POLICY");
    assert_string_equal(lines, "");
}

static void a_file_that_is_none_fails_or_is_a_warning(void **state) {
    tide_runtime *rt = NULL;
    mock_tracer m;
    (void)state;
    tide_config c = {.struct_size = sizeof c, .device = "host", .policy = "./none.so"};
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "./none.so: cannot open shared object file");
    setenv("TIDE_POLICY", "./none.so", 1);
    rt = open_with(NULL, &m);
    close_with(rt, &m);
    unsetenv("TIDE_POLICY");
    assert_non_null(strstr(lines, "TIDE_POLICY=./none.so is not understood"));
    assert_non_null(strstr(lines, "the default stays"));
}

static void nonsense_is_one_warning_and_climbs_collect(void **state) {
    mock_tracer m;
    tide_policy p = table("so");
    (void)state;
    p.decide = decide_so;
    there_is(p);
    answer = (tide_policy_decision){.level = 77, .reason = "r"};
    tide_runtime *rt = open_with("so", &m);
    make_garbage(rt, &m, 1000);
    tide_runtime_figures s = test_stats(rt);
    assert_true(s.collections > 0);
#ifndef TIDEI_STRESS
    assert_int_equal(s.early_collections, 0);
    assert_true(s.climbs > 0);
#endif
    close_with(rt, &m);
    char *one = strstr(lines, "the policy \"so\" answers what makes no sense: level is 77");
    assert_non_null(one);
    assert_null(strstr(one + 1, "the policy"));
}

static void a_state_of_no_number_harms_nobody(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = open_with(DOUBLES "policy_nan_double.so", &m);
    make_garbage(rt, &m, 1000);
    assert_true(test_stats(rt).collections > 0);
    close_with(rt, &m);
}

/* ---- threads ---- */

static void *make_some(void *p) {
    mock_tracer *m = p;
    make_garbage(m->rt, m, test_quick() ? 300 : 2000);
    tide_thread_detach(m->rt);
    return NULL;
}

/* One state is one thread's at a time; the two devices and the host's budget are three. */
static void one_thread_at_a_time_is_inside(void **state) {
    pthread_t threads[4];
    mock_tracer m;
    tide_policy p = table("threads");
    (void)state;
    p.observe = observe;
    there_is(p);
    memset(&seen, 0, sizeof seen);
    tide_runtime *rt = open_with("threads(share=0.2)", &m);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, make_some, &m);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_true(seen.asked > 0 && seen.told > 0);
    assert_int_equal(seen.most_inside, 1); /* nothing takes the host's budget */
    assert_int_equal(seen.inside, 0);
    close_with(rt, &m);
}

static void without_host_memory_no_runtime_opens(void **state) {
    tide_policy p = table("large");
    tide_status status;
    (void)state;
    p.state_bytes = TIDE_POLICY_STATE_MAX;
    there_is(p);
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .collector = "refcount",
                     .policy = "large",
                     .host_device_memory = "1MiB"};
    long n = 0;
    do {
        tide_runtime *rt = NULL;
        atomic_store(&mallocs_left, n++);
        status = tide_open(&c, &rt);
        atomic_store(&mallocs_left, -1);
        if (status == TIDE_OK) tide_close(rt);
    } while (status != TIDE_OK && n < 10000);
    assert_int_equal(status, TIDE_OK);
}

static int set_up(void **state) {
    (void)state;
    clear_environment();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_named_once_it_is_registered),
        cmocka_unit_test(bad_names_are_refused),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(bad_parameters_are_refused),
        cmocka_unit_test(an_older_table_has_no_observe),
        cmocka_unit_test(of_threads_that_register_a_name_one_wins),
        cmocka_unit_test(without_host_memory_nothing_is_registered),
        cmocka_unit_test(the_snapshot_is_what_the_runtime_knows),
        cmocka_unit_test(an_answer_without_sense_collects_nothing),
        cmocka_unit_test(other_answers_have_sense),
        cmocka_unit_test(a_shared_object_is_one_policy),
        cmocka_unit_test(what_is_no_policy_is_told),
        cmocka_unit_test(a_registered_policy_decides_in_a_runtime),
        cmocka_unit_test(a_policy_is_told_what_needs_no_moves),
        cmocka_unit_test(a_loaded_policy_decides_in_a_runtime),
        cmocka_unit_test(a_file_that_is_none_fails_or_is_a_warning),
        cmocka_unit_test(nonsense_is_one_warning_and_climbs_collect),
        cmocka_unit_test(a_state_of_no_number_harms_nobody),
        cmocka_unit_test(one_thread_at_a_time_is_inside),
        cmocka_unit_test(without_host_memory_no_runtime_opens),
    };
    return cmocka_run_group_tests(tests, set_up, restore_environment);
}
