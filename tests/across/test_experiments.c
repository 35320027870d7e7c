/* test_experiments.c: what the documents that the project grew out of describe, as counts.
**
** E1: a training run under a hard limit. The program is examples/c/dense.c itself; what it counts
** must depend on its allocations alone, so two doubles stand under it:
** - the host device does no work (launches, copies and fills are accepted and dropped), so no page
**   is ever touched, and a run of 12 GB a second is one of milliseconds under every sanitizer;
** - the collections' clock moves by STEP_NS a step of the training and not otherwise. CUDA.jl's
**   rule compares the time that collections take with the time between them; on a machine of its
**   own speed the rule would leave some of them out.
** E5: the status text of an array that comes and goes. E20: an array of 1 GiB goes: live, cached
** and reserved bytes at every step. */
#include "gc/collector.h"
#include "tests/support/tidetest.h"
#include <math.h>

int dense_main(int argc, char **argv);
#define main dense_main
#include "examples/c/dense.c"
#undef main

#if defined(TIDEI_HAVE_BOEHM) && !defined(__SANITIZE_THREAD__) && !defined(TIDEI_STRESS)
#define BOEHM_RUNS 1
/* bdwgc's signals do not get through to threads under ThreadSanitizer; under stress every
** allocation collects */
#else
#define BOEHM_RUNS 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define STALE 40
/* counts more: its frames have more unwritten room, where addresses of dead arrays stay */
#define STALE_LAZY 12
#else
/* one batch kept by a stale word (compilers lay out frames as they like) makes four collections
** more */
#define STALE      5
#define STALE_LAZY 0
#endif

#define GIB ((double)(1u << 30))

/* ---- a host device that does no work ---- */

static struct tidei_device_ops idle_ops;
static tide_status no_launch(tidei_device *d, tidei_dstream *s, const tidei_launch *l) {
    (void)d, (void)s, (void)l;
    return TIDE_OK;
}
static tide_status no_copy(tidei_device *d, tidei_dstream *s, const tidei_copy *c) {
    (void)d, (void)s, (void)c;
    return TIDE_OK;
}
static tide_status no_fill(tidei_device *d, tidei_dstream *s, tidei_addr dst, const void *pattern,
                           size_t width, size_t count) {
    (void)d, (void)s, (void)dst, (void)pattern, (void)width, (void)count;
    return TIDE_OK;
}

static tide_runtime *open_idle(const tide_config *c) {
    tide_config k = *c;
    k.device = "host";
    k.host_device_memory = "2GiB"; /* counted, never touched */
    tide_runtime *rt = test_open(&k);
    idle_ops = *test_rt(rt)->devs[0].d->ops;
    idle_ops.launch = no_launch;
    idle_ops.copy = no_copy;
    idle_ops.fill = no_fill;
    test_rt(rt)->devs[0].d->ops = &idle_ops;
    return rt;
}

/* ---- E1 ---- */

/* 0.9 s for 100 epochs of 147 steps, the time that the experiment asks for on a GPU */
#define STEP_NS 60000u
static uint64_t clock_now = 1;
static uint64_t still_clock(void) { return clock_now; }

struct outcome {
    tide_runtime_figures s;
    double collected_gib, climbed_gib; /* each time, on average */
};

/* 100 epochs over 30,000 rows of 1000 floats in batches of 2048, under 409.6 MiB. */
static struct outcome train_under_limit(const char *policy, int early) {
    const struct options o = {
        .rows = 30000, .features = 1000, .batch = 2048, .epochs = 100, .free = "eager"};
    tide_config c = {
        .struct_size = sizeof c, .collector = "boehm", .policy = policy, .limit = "409.6MiB"};
    struct outcome out;
    struct model m;
    c.gc_early = early;
    tide_runtime *rt = open_idle(&c);
    test_rt(rt)->gc_counts.clock_ns = still_clock;
    if (!model_init(&m, rt, o.rows, o.features, !strcmp(o.free, "hand")))
        fail_msg("%s", tide_error_last()->message);
    for (int e = 0; e < o.epochs; e++)
        for (int64_t at = 0; at < o.rows; at += o.batch, clock_now += STEP_NS)
            if (!step(&m, at, at + o.batch < o.rows ? at + o.batch : o.rows))
                fail_msg("%s", tide_error_last()->message);
    out.s = test_stats(rt);
    out.collected_gib = (double)out.s.collected / GIB / (double)out.s.collections;
    out.climbed_gib = (double)out.s.reclaimed / GIB / (double)out.s.climbs;
    tide_close(rt);
    return out;
}

static void near(const char *what, double wanted, double within, double got) {
    if (!(fabs(got - wanted) <= within))
        fail_msg("%s: %g, not %g +- %g", what, got, wanted, within);
}

static void e01_without_early_collections_training_climbs(void **state) {
    (void)state;
    if (!BOEHM_RUNS) skip();
    struct outcome o = train_under_limit("reserve", TIDE_OFF);
    near("climbs", 78, 3 + STALE_LAZY, (double)o.s.climbs);
    near("GiB a climb", 0.287, 0.01 + 0.001 * STALE, o.climbed_gib);
    assert_int_equal(o.s.early_collections, 0);
}

static void e01_cudajl_collects_at_its_rate(void **state) {
    (void)state;
    if (!BOEHM_RUNS) skip();
    struct outcome o = train_under_limit("cudajl", TIDE_ON);
    near("collections", 116, 3 + STALE, (double)o.s.collections);
    near("GiB a collection", 0.187, 0.01 + 0.001 * STALE, o.collected_gib);
    assert_int_equal(o.s.climbs, 0);
}

static void e01_reserve_never_climbs(void **state) {
    (void)state;
    if (!BOEHM_RUNS) skip();
    struct outcome o = train_under_limit("reserve", TIDE_ON);
    assert_int_equal(o.s.climbs, 0);
    assert_true(o.s.collections > 0);
}

/* ---- E5: the status walk ---- */

/* The first line's percentage is the driver's own within 1 % of the device; it is read between two
** looks at that which say the same, for other processes may use the device. */
static void assert_usage(tide_runtime *rt) {
    size_t before, after, total;
    char text[600];
    double percent;
    tidei_device *d = test_rt(rt)->devs[0].d;
    int looks = 0;
    do {
        assert_ok(d->ops->memory(d, &before, &total));
        tide_runtime_text(rt, text, sizeof text);
        assert_ok(d->ops->memory(d, &after, &total));
    } while (before != after && ++looks < 1000);
    assert_int_equal(sscanf(text, "Effective GPU memory usage: %lf%% (", &percent), 1);
    double drivers = 100.0 * (double)(total - after) / (double)total;
    assert_true(percent >= drivers - 1 && percent <= drivers + 1);
}

/* The second line; `cached` NULL: as much as the pool has beyond what is allocated. */
static void assert_walk(tide_runtime *rt, const char *pool, const char *allocated,
                        const char *cached) {
    tide_runtime_figures s = test_stats(rt);
    char text[500], wanted[200], all[32], rest[32];
    size_t n = tide_runtime_text(rt, text, sizeof text);
    assert_int_equal(n, strlen(text));
    assert_usage(rt);
    tidei_format_bytes(rest, sizeof rest, s.backed - s.live, 3);
    snprintf(wanted, sizeof wanted, "\n%s pool usage: %s (%s allocated, %s cached)\n", pool,
             tidei_format_bytes(all, sizeof all, s.backed, 3), allocated, cached ? cached : rest);
    if (!strstr(text, wanted)) fail_msg("wanted%sgot\n%s", wanted, text);
}

/* In frames of their own. A collector does not see the pointer, but none is asked before the array
** is to go. */
static __attribute__((noinline)) uintptr_t make_hidden(tide_runtime *rt) {
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(8192));
    assert_array(a);
    return ~(uintptr_t)a;
}
static __attribute__((noinline)) void release_hidden(uintptr_t hidden) {
    tide_release((tide_array *)~hidden);
}

/* The pool tide takes whole pages; what of them is not allocated is cached. */
static void e05_status_walk(void **state) {
    (void)state;
    static const char *const pools[] = {"binned", "simple", "tide"};
    for (unsigned k = 0; k < TIDEI_COUNT(pools); k++)
        for (int boehm = 0; boehm <= BOEHM_RUNS; boehm++) {
            bool pages = k == 2;
            tide_runtime *rt = test_open(&(tide_config){
                .collector = boehm ? "boehm" : "refcount", .pool = pools[k], .gc_early = TIDE_OFF});
            assert_walk(rt, pools[k], "0 bytes", "0 bytes");
            uintptr_t a = make_hidden(rt);
            assert_walk(rt, pools[k], "8.000 KiB", pages ? NULL : "0 bytes");
            if (!boehm) release_hidden(a);
            tidei_clear_stack();
            assert_ok(tide_collect(rt));
            assert_walk(rt, pools[k], "0 bytes", pages ? NULL : "8.000 KiB");
            assert_true(test_stats(rt).backed >= 8192);
            assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
            assert_walk(rt, pools[k], "0 bytes", "0 bytes");
            assert_int_equal(test_stats(rt).backed, 0);
            tide_close(rt);
        }
}

/* ---- E20 ---- */

static tide_runtime *open_for_one(const char *collector, const char *limit) {
    tide_config c = {
        .struct_size = sizeof c, .collector = collector, .pool = "tide", .limit = limit};
    c.host_device_memory = "2GiB";
    c.gc_early = TIDE_OFF; /* each step is the test's own */
    return test_open(&c);
}

/* In a frame of its own, which leaves no pointer behind. On host its memory is never touched. */
static __attribute__((noinline)) void make_and_drop(tide_runtime *rt, bool release) {
    const int64_t n = 1 << 30;
    tide_array *a = tide_empty(rt, TIDE_U8, 1, &n);
    assert_array(a);
    if (release) tide_release(a);
}

static void assert_gib(tide_runtime *rt, size_t live, size_t cached, size_t reserved) {
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.live, live << 30);
    assert_int_equal(s.cached, cached << 30);
    assert_int_equal(s.backed, reserved << 30);
}

static void e20_boehm_gives_everything_back(void **state) {
    (void)state;
    if (!BOEHM_RUNS) skip();
    tide_runtime *rt = open_for_one("boehm", NULL);
    make_and_drop(rt, false);
    tidei_clear_stack();
    assert_gib(rt, 1, 0, 1);
    assert_ok(tide_collect(rt));
    assert_gib(rt, 0, 1, 1);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_gib(rt, 0, 0, 0);
    tide_close(rt);
}

static void e20_refcount_gives_everything_back(void **state) {
    (void)state;
    tide_runtime *rt = open_for_one("refcount", NULL);
    make_and_drop(rt, true);
    assert_gib(rt, 0, 1, 1);
    assert_ok(tide_collect(rt));
    assert_gib(rt, 0, 1, 1);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_gib(rt, 0, 0, 0);
    tide_close(rt);
}

static void e20_never_by_hand(void **state) {
    (void)state;
    for (int boehm = 0; boehm <= BOEHM_RUNS; boehm++) {
        tide_runtime *rt = open_for_one(boehm ? "boehm" : "refcount", "1GiB");
        for (int i = 0; i < 3; i++) {
            make_and_drop(rt, !boehm);
            tidei_clear_stack();
        }
        assert_int_equal(test_stats(rt).climbs, boehm ? 2 : 0);
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e05_status_walk),
        cmocka_unit_test(e01_without_early_collections_training_climbs),
        cmocka_unit_test(e01_cudajl_collects_at_its_rate),
        cmocka_unit_test(e01_reserve_never_climbs),
        cmocka_unit_test(e20_boehm_gives_everything_back),
        cmocka_unit_test(e20_refcount_gives_everything_back),
        cmocka_unit_test(e20_never_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
