/* test_user_pools.c: pools as users have them (include/tide/pool.h), on the device under test:
** making and releasing them, current pools, attributes. */
#include "tests/doubles/failing_host.h"
#include "tests/support/tidetest.h"
#include "tests/support/clean_environment.h"
#include "runtime/pool/pools.h"
#include <pthread.h>
#include <sched.h>

#define KIB TIDEI_KIB
#define MIB TIDEI_MIB

static int own_environment(void **state) { return (void)state, clear_environment(), 0; }

static tide_runtime *open_with(const char *pool) {
    return test_open(&(tide_config){.collector = "refcount", .pool = pool, .gc_early = TIDE_OFF});
}

static tide_pool *new_pool(tide_runtime *rt, const char *kind) {
    tide_pool_config c = {.struct_size = sizeof c, .kind = kind};
    tide_pool *p;
    assert_ok(tide_pool_new(rt, &c, &p));
    return p;
}

static unsigned pools_of(tide_runtime *rt) {
    unsigned n = 0;
    for (tidei_user_pool *x = test_rt(rt)->devs[0].pools->first; x; x = x->next) n++;
    return n;
}

static size_t live_in(tide_pool *p) {
    tidei_pool_stats s;
    test_user_pool(p)->p->ops->stats(test_user_pool(p)->p, &s);
    return s.live;
}

/* ---- current pools ---- */

struct other {
    tide_runtime *rt;
    tide_pool *its, *seen;
    size_t live;
};
static void *other_thread(void *arg) {
    struct other *o = arg;
    o->seen = tide_pool_current(o->rt);
    assert_ok(tide_pool_set(o->rt, o->its));
    tide_array *a = tide_zeros(o->rt, TIDE_U8, SHAPE(5000));
    o->live = live_in(o->its);
    tide_release(a);
    assert_ok(tide_synchronize(o->rt, NULL));
    return NULL;
}

static void arrays_come_from_the_threads_pool(void **state) {
    (void)state;
    for (unsigned k = 0; k < TEST_POOLS; k++) {
        tide_runtime *rt = open_with("tide");
        tide_pool *usual = tide_pool_default(rt), *mine = new_pool(rt, test_pool(k));
        assert_ptr_equal(tide_pool_current(rt), usual);
        assert_ok(tide_pool_set(rt, mine));
        assert_ptr_equal(tide_pool_current(rt), mine);
        tide_array *a = tide_full(rt, TIDE_U8, SHAPE(3000), tide_arg_int(7));
        assert_array(a);
        assert_int_equal(live_in(mine), 3000);
        assert_int_equal(live_in(usual), 0);

        struct other o = {.rt = rt, .its = mine}; /* another thread has its own */
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, other_thread, &o), 0);
        assert_int_equal(pthread_join(t, NULL), 0);
        assert_ptr_equal(o.seen, usual);
        assert_int_equal(o.live, 8000);

        assert_ok(tide_pool_set(rt, NULL));
        /* used across pools; made in the default one */
        tide_array *b = tide_map(rt, "(a) -> a + a", a);
        assert_array(b);
        assert_int_equal(live_in(usual), 3000);
        assert_int_equal(test_stats(rt).live, 6000);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        tide_array *sum = tide_map(rt, "(b) -> sum(b)", b);
        assert_true(tide_item_f64(sum) == 14 * 3000);
        tide_array *all[] = {a, b, sum};
        for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
        tide_pool_release(mine);
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
        assert_int_equal(pools_of(rt), 1);
        assert_int_equal(test_stats(rt).backed, 0);
        tide_close(rt);
    }
}

/* ---- the end of a pool ---- */

static void pools_outlive_their_handles(void **state) {
    (void)state;
    for (unsigned k = 0; k < TEST_POOLS; k++) {
        tide_runtime *rt = open_with(test_pool(k));
        tide_pool *p = new_pool(rt, NULL);
        assert_string_equal(test_user_pool(p)->p->ops->name, test_pool(k)); /* as the default one */
        assert_ok(tide_pool_set(rt, p));
        tide_pool_release(p);
        assert_int_equal(pools_of(rt), 2);
        assert_ptr_equal(tide_pool_current(rt), p); /* this thread still has it */
        tide_array *a = tide_full(rt, TIDE_I32, SHAPE(100), tide_arg_int(3));
        assert_ok(tide_pool_set(rt, NULL));
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
        assert_int_equal(pools_of(rt), 2); /* and now the array */
        tide_array *s = tide_map(rt, "(a) -> sum(a)", a);
        assert_true(tide_item_f64(s) == 300);
        tide_release(s);
        tide_release(a);
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
        assert_int_equal(pools_of(rt), 1);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        tide_pool_release(tide_pool_default(rt)); /* does nothing */
        tide_pool_release(NULL);
        assert_int_equal(pools_of(rt), 1);
        p = new_pool(rt, NULL); /* open at the end, with an array in it */
        assert_ok(tide_pool_set(rt, p));
        a = tide_zeros(rt, TIDE_I32, SHAPE(100));
        tide_close(rt);
        assert_true(tide_array_is_freed(a));
        tide_release(a);
    }
}

static atomic_int gate;
static void wait_at_the_gate(const void *params) {
    (void)params;
    while (!atomic_load(&gate)) sched_yield();
}

/* Work on its memory is pending when the last block comes back: it closes once that is done, and
** waits for nothing. */
static void pools_close_behind_their_work(void **state) {
    (void)state;
    if (!test_on_host()) skip(); /* work that waits for a flag */
    for (unsigned k = 0; k < TEST_POOLS; k++) {
        tide_runtime *rt = open_with("tide");
        tidei_dev *d = &test_rt(rt)->devs[0];
        tide_pool *p = new_pool(rt, test_pool(k));
        tidei_launch l = {.name = "gate", .host_fn = wait_at_the_gate};
        tidei_storage *st;
        atomic_store(&gate, 0);
        assert_ok(tidei_storage_new_in(test_user_pool(p)->p, 100 * KIB, d->stream0, "test", &st));
        assert_ok(tidei_submit_launch(d->stream0, &(tidei_use){st, 0, 4096, TIDEI_WRITE}, 1, &l,
                                      NULL, NULL, "test"));
        tide_pool_release(p);
        tidei_storage_release(st);
        tidei_pools_sweep(d);
        assert_int_equal(pools_of(rt), 2);
        atomic_store(&gate, 1);
        assert_ok(tidei_streams_wait_all(d, true));
        tidei_pools_sweep(d);
        assert_int_equal(pools_of(rt), 1);
        tide_close(rt);
    }
}

static void *ends_with_a_pool(void *arg) {
    struct other *o = arg;
    assert_ok(tide_pool_set(o->rt, o->its));
    return NULL;
}

static void a_threads_end_lets_go(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide");
    struct other o = {.rt = rt, .its = new_pool(rt, NULL)};
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, ends_with_a_pool, &o), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    tide_pool_release(o.its);
    assert_int_equal(pools_of(rt), 1);
    tide_close(rt);
}

/* Threads make, use, swap and release pools while others walk over them. */
enum { CROWD = 4 };
static void *crowd(void *arg) {
    tide_runtime *rt = arg;
    for (unsigned i = 0, n = test_quick() ? 20 : 100; i < n; i++) {
        tide_pool *p = new_pool(rt, test_pool(i % TEST_POOLS));
        assert_ok(tide_pool_set(rt, p));
        tide_array *a = tide_full(rt, TIDE_U8, SHAPE(1000), tide_arg_int(1));
        tide_pool_release(p);
        assert_int_equal(test_stats(rt).struct_size, sizeof(tide_runtime_figures));
        if (i % 2) assert_ok(tide_pool_set(rt, NULL));
        if (i % 4 == 0) assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
        tide_release(a);
        assert_ok(tide_synchronize(rt, NULL));
    }
    return NULL;
}
static void pools_come_and_go_in_a_crowd(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide");
    pthread_t t[CROWD];
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&t[i], NULL, crowd, rt), 0);
    for (unsigned i = 0; i < CROWD; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
    assert_int_equal(pools_of(rt), 1);
    assert_int_equal(test_stats(rt).backed, 0);
    tide_close(rt);
}

/* ---- one set of limits ---- */

static void pools_share_the_limit_and_the_ladder(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){
        .collector = "refcount", .limit = "64MiB", .gc_early = TIDE_OFF, .spill = TIDE_OFF});
    tide_pool *p = new_pool(rt, "tide");
    assert_ok(tide_pool_set(rt, p));
    tide_release(tide_zeros(rt, TIDE_U8, SHAPE(48 * MIB))); /* lies free in p */
    assert_ok(tide_pool_set(rt, NULL));
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(48 * MIB));
    assert_array(a);
    assert_ok(tide_pool_set(rt, p));
    assert_null(tide_zeros(rt, TIDE_U8, SHAPE(48 * MIB)));
    assert_error(TIDE_E_NOMEM, "live 48.000 MiB");
    tide_release(a);
    tide_close(rt);
}

/* ---- attributes ---- */

static uint64_t attribute(tide_pool *p, int which) {
    uint64_t v = 77;
    assert_ok(tide_pool_get_attribute(p, which, &v));
    return v;
}

static void attributes_change_while_it_works(void **state) {
    (void)state;
    tide_runtime *rt = open_with("split:200MiB");
    tide_pool *p = tide_pool_default(rt);
    const struct {
        int which;
        uint64_t first, then;
    } rows[] = {{TIDE_POOL_RELEASE_THRESHOLD, TIDE_POOL_THRESHOLD_ADAPTIVE, 5 * MIB},
                {TIDE_POOL_REUSE_FOLLOW, 1, 0},
                {TIDE_POOL_REUSE_DONE, 1, 0},
                {TIDE_POOL_REUSE_WAIT, 0, 1},
                {TIDE_POOL_MAX_SPLIT, 200 * MIB, 100 * MIB},
                {TIDE_POOL_DETERMINISTIC, 0, 1}};
    for (unsigned i = 0; i < TIDEI_COUNT(rows); i++) {
        assert_int_equal(attribute(p, rows[i].which), rows[i].first);
        assert_ok(tide_pool_set_attribute(p, rows[i].which, rows[i].then));
        assert_int_equal(attribute(p, rows[i].which), rows[i].then);
    }
    assert_int_equal(test_user_pool(p)->p->attrs.threshold, 5 * MIB);
    assert_int_equal(test_user_pool(p)->p->attrs.reuse, TIDEI_REUSE_WAIT);
    assert_int_equal(test_user_pool(p)->p->attrs.max_split, 100 * MIB);
    assert_true(test_user_pool(p)->p->attrs.deterministic);
    tide_close(rt);
}

static void new_pools_take_their_settings(void **state) {
    (void)state;
    tide_config c = {.struct_size = sizeof c, .collector = "refcount", .release_threshold = "3MiB"};
    c.deterministic = TIDE_ON;
    tide_runtime *rt = test_open(&c);
    tide_pool_config k = {.struct_size = sizeof k};
    tide_pool *p;
    assert_int_equal(attribute(tide_pool_default(rt), TIDE_POOL_RELEASE_THRESHOLD), 3 * MIB);
    assert_int_equal(attribute(tide_pool_default(rt), TIDE_POOL_DETERMINISTIC), 1);
    assert_ok(tide_pool_new(rt, NULL, &p));
    assert_int_equal(attribute(p, TIDE_POOL_RELEASE_THRESHOLD), 3 * MIB);
    assert_int_equal(attribute(p, TIDE_POOL_DETERMINISTIC), 1);
    k = (tide_pool_config){.struct_size = sizeof k,
                           .kind = "binned",
                           .release_threshold = "unlimited",
                           .deterministic = TIDE_OFF,
                           .reuse_follow = TIDE_OFF,
                           .reuse_wait = TIDE_ON};
    assert_ok(tide_pool_new(rt, &k, &p));
    assert_string_equal(test_user_pool(p)->p->ops->name, "binned");
    assert_int_equal(attribute(p, TIDE_POOL_RELEASE_THRESHOLD), TIDE_POOL_THRESHOLD_UNLIMITED);
    assert_int_equal(attribute(p, TIDE_POOL_DETERMINISTIC), 0);
    assert_int_equal(test_user_pool(p)->p->attrs.reuse, TIDEI_REUSE_DONE | TIDEI_REUSE_WAIT);
    k = (tide_pool_config){.struct_size = sizeof k, .release_threshold = "50%"};
    assert_ok(tide_pool_new(rt, &k, &p));
    assert_int_equal(attribute(p, TIDE_POOL_RELEASE_THRESHOLD),
                     (size_t)((double)test_rt(rt)->devs[0].d->info.total_bytes * 0.5));
    tide_close(rt);

    setenv("TIDE_RELEASE_THRESHOLD", "7MiB", 1);
    setenv("TIDE_POOL_DETERMINISTIC", "1", 1);
    rt = open_with("driver");
    assert_int_equal(attribute(tide_pool_default(rt), TIDE_POOL_RELEASE_THRESHOLD), 7 * MIB);
    assert_int_equal(attribute(tide_pool_default(rt), TIDE_POOL_DETERMINISTIC), 1);
    tide_close(rt);
    unsetenv("TIDE_RELEASE_THRESHOLD");
    rt = open_with("driver"); /* which by itself keeps nothing */
    assert_int_equal(attribute(tide_pool_default(rt), TIDE_POOL_RELEASE_THRESHOLD), 0);
    tide_close(rt);
}

/* ---- figures ---- */

static tide_pool_figures stats_of(tide_pool *p) {
    tide_pool_figures s = {.struct_size = sizeof s};
    assert_ok(tide_pool_info(p, &s));
    assert_int_equal(s.live + s.rounding + s.cached + s.pending, s.backed);
    return s;
}

static void assert_class(const tide_pool_class *c, size_t bytes, const uint64_t count[4],
                         const uint64_t sum[4]) {
    const uint64_t n[] = {c->current, c->peak, c->allocated, c->freed},
                   b[] = {c->current_bytes, c->peak_bytes, c->allocated_bytes, c->freed_bytes};
    assert_int_equal(c->bytes, bytes);
    assert_memory_equal(n, count, sizeof n);
    assert_memory_equal(b, sum, sizeof b);
}

static void blocks_are_counted_by_size(void **state) {
    (void)state;
    for (unsigned own = 0; own < 2; own++) {
        tide_runtime *rt = open_with("tide");
        tide_pool *p = own ? new_pool(rt, NULL) : tide_pool_default(rt);
        tide_array *a[5];
        const int64_t sizes[5] = {1, 256, 257, 512, 100000};
        assert_ok(tide_pool_set(rt, p));
        for (unsigned i = 0; i < 5; i++)
            assert_array(a[i] = tide_zeros(rt, TIDE_U8, SHAPE(sizes[i])));
        tide_release(a[0]);
        tide_release(a[4]);
        tide_pool_figures s = stats_of(p);
        assert_class(&s.classes[0], 256, (uint64_t[]){1, 2, 2, 1}, (uint64_t[]){256, 257, 257, 1});
        assert_class(&s.classes[1], 512, (uint64_t[]){2, 2, 2, 0}, (uint64_t[]){769, 769, 769, 0});
        assert_class(&s.classes[9], 131072, (uint64_t[]){0, 1, 1, 1},
                     (uint64_t[]){0, 100000, 100000, 100000});
        assert_class(&s.classes[31], SIZE_MAX, (uint64_t[4]){0}, (uint64_t[4]){0});
        assert_int_equal(s.live, 256 + 257 + 512);
        assert_int_equal(s.peak_live, 1 + 256 + 257 + 512 + 100000);
        assert_int_equal(s.allocations, 5);
        assert_int_equal(s.frees, 2);
        tide_runtime_reset_peaks(rt);
        s = stats_of(p);
        assert_class(&s.classes[9], 131072, (uint64_t[]){0, 0, 1, 1},
                     (uint64_t[]){0, 0, 100000, 100000});
        assert_int_equal(s.peak_live, s.live);
        for (unsigned i = 1; i < 4; i++) tide_release(a[i]);
        if (own) assert_int_equal(stats_of(tide_pool_default(rt)).peak_live, 0);
        tide_close(rt);
    }
}

/* The default pool's peak is what is left of the device's. */
static void each_pool_has_its_peak(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide");
    tide_pool *usual = tide_pool_default(rt), *mine = new_pool(rt, NULL);
    assert_ok(tide_pool_set(rt, mine));
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(1000));
    assert_ok(tide_pool_set(rt, NULL));
    tide_array *b = tide_zeros(rt, TIDE_U8, SHAPE(300));
    assert_int_equal(stats_of(mine).peak_live, 1000);
    assert_int_equal(stats_of(usual).peak_live, 300);
    tide_release(a);
    tide_release(b);
    assert_int_equal(stats_of(usual).peak_live, 300);
    tide_close(rt);
}

static void *many_blocks(void *arg) {
    tide_runtime *rt = arg;
    for (unsigned i = 0; i < 500; i++) tide_release(tide_zeros(rt, TIDE_U8, SHAPE(1000 + i % 24)));
    return NULL;
}
static void counts_of_threads_add_up(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide");
    pthread_t t[CROWD];
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&t[i], NULL, many_blocks, rt), 0);
    for (unsigned i = 0; i < CROWD; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    tide_pool_figures s = stats_of(tide_pool_default(rt));
    tide_pool_class *c = &s.classes[2];
    assert_int_equal(c->allocated, 500 * CROWD);
    assert_int_equal(c->freed, 500 * CROWD);
    assert_int_equal(c->current, 0);
    assert_true(c->peak >= 1 && c->peak <= 500 * CROWD);
    assert_int_equal(c->allocated_bytes, c->freed_bytes);
    tide_close(rt);
}

static void refusals_and_pins_are_counted(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){
        .collector = "refcount", .limit = "16MiB", .gc_early = TIDE_OFF, .spill = TIDE_OFF});
    tide_pool *usual = tide_pool_default(rt), *mine = new_pool(rt, NULL);
    assert_ok(tide_pool_set(rt, mine));
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(10 * MIB));
    assert_int_equal(stats_of(mine).largest, 6 * MIB);
    assert_null(tide_zeros(rt, TIDE_U8, SHAPE(12 * MIB)));
    tide_pool_figures s = stats_of(mine);
    assert_int_equal(s.ooms, 1);
    assert_true(s.retries >= 1);
    assert_int_equal(s.retries, test_stats(rt).retries);
    assert_int_equal(stats_of(usual).ooms + stats_of(usual).retries, 0);
    assert_int_equal(s.pinned, 0);
    tide_use_scope *scope[2];
    tide_use use = {a, TIDE_READ, 0};
    void *ptr;
    for (unsigned i = 0; i < 2; i++) assert_ok(tide_use_begin(rt, NULL, &use, 1, &ptr, &scope[i]));
    assert_int_equal(stats_of(mine).pinned, 10 * MIB); /* once */
    for (unsigned i = 0; i < 2; i++) assert_ok(tide_use_end(scope[i]));
    assert_int_equal(stats_of(mine).pinned, 0);
    tide_release(a);
    tide_close(rt);
}

static void a_summary_is_printed(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide");
    tide_pool *p = tide_pool_default(rt);
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(300)), *b = tide_zeros(rt, TIDE_U8, SHAPE(7));
    char text[2000], part[60];
    size_t n = tide_pool_text(p, text, sizeof text);
    assert_int_equal(n, strlen(text));
    static const char *const parts[] = {
        "pool tide on ", "live 1.179 KiB (at most 1.179 KiB)",
        "2 allocations, 0 frees, 0 retries, 0 out of memory",
        "     256 bytes          1          1            1            0",
        "         2 KiB          1          1            1            0"};
    for (unsigned i = 0; i < TIDEI_COUNT(parts); i++)
        if (!strstr(text, parts[i])) fail_msg("no \"%s\" in\n%s", parts[i], text);
    assert_int_equal(tide_pool_text(p, part, sizeof part), n);
    assert_int_equal(strlen(part), sizeof part - 1);
    assert_memory_equal(part, text, sizeof part - 1);
    assert_int_equal(tide_pool_text(p, NULL, 0), n);
    assert_int_equal(tide_pool_text(p, NULL, 9), n);
    assert_int_equal(tide_pool_text(NULL, text, sizeof text), 0);
    tide_release(a);
    tide_release(b);
    tide_pool_figures s = {.struct_size = 2};
    assert_int_equal(tide_pool_info(p, &s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "struct_size is 2");
    assert_int_equal(tide_pool_info(NULL, &s), TIDE_E_INVALID);
    s = (tide_pool_figures){.struct_size = offsetof(tide_pool_figures, rounding), .rounding = 55};
    assert_ok(tide_pool_info(p, &s)); /* an older caller's */
    assert_int_equal(s.rounding, 55);
    tide_close(rt);
}

/* ---- what is refused ---- */

static void bad_input_is_named(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide"), *two = open_with("tide");
    tide_pool *p = tide_pool_default(rt), *out = NULL;
    uint64_t v;
    const struct {
        tide_pool_config c;
        const char *part;
    } rows[] = {{{.struct_size = sizeof(tide_pool_config), .kind = "puddle"}, "pool \"puddle\""},
                {{.struct_size = sizeof(tide_pool_config), .kind = "split:1MiB"}, "split:SIZE"},
                {{.struct_size = sizeof(tide_pool_config), .release_threshold = "some"},
                 "threshold is \"some\""},
                {{.struct_size = sizeof(tide_pool_config), .reuse_done = 3},
                 "reuse_done is 3; wanted: TIDE_DEFAULT"},
                {{.struct_size = 3}, "struct_size is 3"},
                {{.struct_size = 4096}, "struct_size is 4096"}};
    for (unsigned i = 0; i < TIDEI_COUNT(rows); i++) {
        assert_int_equal(tide_pool_new(rt, &rows[i].c, &out), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, rows[i].part);
        assert_null(out);
    }
    assert_int_equal(tide_pool_new(NULL, NULL, &out), TIDE_E_INVALID);
    assert_int_equal(tide_pool_new(rt, NULL, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_pool_set(two, p), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "another runtime");
    assert_int_equal(tide_pool_set_attribute(p, 0, 0), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "no attribute 0");
    assert_int_equal(tide_pool_set_attribute(p, TIDE_POOL_REUSE_DONE, 2), TIDE_E_INVALID);
    assert_int_equal(tide_pool_set_attribute(p, TIDE_POOL_MAX_SPLIT, SIZE_MAX), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "this one is tide");
    assert_int_equal(tide_pool_set_attribute(NULL, TIDE_POOL_REUSE_DONE, 1), TIDE_E_INVALID);
    assert_int_equal(tide_pool_get_attribute(p, TIDE_POOL_REUSE_DONE, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_pool_get_attribute(p, 99, &v), TIDE_E_INVALID);
    out = new_pool(rt, "split");
    assert_int_equal(tide_pool_set_attribute(out, TIDE_POOL_MAX_SPLIT, MIB), TIDE_E_INVALID);
    assert_null(tide_pool_default(NULL));
    assert_null(tide_pool_current(NULL));
    assert_int_equal(pools_of(rt), 2); /* what failed left nothing */
    tide_close(two);
    tide_close(rt);
}

/* Every host allocation and device call of making a pool has its turn to fail. */
static void making_one_fails_cleanly(void **state) {
    (void)state;
    tide_allocator hook = {failing_alloc, plain_free, NULL};
    for (unsigned k = 0; k < TEST_POOLS; k++) {
        host_fails = 0;
        tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .allocator = &hook});
        tide_pool_config c = {.struct_size = sizeof c, .kind = test_pool(k)};
        tide_pool *p = NULL;
        for (long n = 1; !p; n++) {
            host_calls = 0;
            host_fails = n;
            tide_status got = tide_pool_new(rt, &c, &p);
            host_fails = 0;
            if (got != TIDE_OK) assert_int_equal(got, TIDE_E_HOST_NOMEM);
            assert_true(tidei_runtime_valid(test_rt(rt)));
            assert_int_equal(pools_of(rt), got == TIDE_OK ? 2 : 1);
        }
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_come_from_the_threads_pool),
        cmocka_unit_test(pools_outlive_their_handles),
        cmocka_unit_test(pools_close_behind_their_work),
        cmocka_unit_test(a_threads_end_lets_go),
        cmocka_unit_test(pools_come_and_go_in_a_crowd),
        cmocka_unit_test(pools_share_the_limit_and_the_ladder),
        cmocka_unit_test_setup_teardown(attributes_change_while_it_works, own_environment,
                                        restore_environment),
        cmocka_unit_test_setup_teardown(new_pools_take_their_settings, own_environment,
                                        restore_environment),
        cmocka_unit_test(blocks_are_counted_by_size),
        cmocka_unit_test(each_pool_has_its_peak),
        cmocka_unit_test(counts_of_threads_add_up),
        cmocka_unit_test(refusals_and_pins_are_counted),
        cmocka_unit_test(a_summary_is_printed),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(making_one_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
