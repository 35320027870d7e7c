/* test_host_budget.c: what arrays of each kind take: figures, the limit on the host's memory beside
** the device's, and the garbage that is collected for it. */
#include "tests/doubles/mock_tracer.h"
#include "gc/collector.h"
#include "tests/memory/memory_kinds.h"

/* ---- figures ---- */

static void figures_are_exact(void **state) {
    (void)state;
    tide_config c = config();
    c.pool = "none"; /* which keeps nothing */
    c.pinned_limit = "1GiB";
    tide_runtime *rt = test_open(&c);
    char text[2000];
    tide_runtime_text(rt, text, sizeof text);
    assert_null(strstr(text, "pinned"));
    assert_null(strstr(text, "unified"));
    tide_device_figures before = info(rt);
    assert_int_equal(before.pinned_limit, (size_t)1 << 30);
    assert_int_equal(before.pinned_used, 0);
    assert_true(before.free <= before.total && before.limit <= before.total);
    tide_array *a[3];
    for (int i = 0; i < KINDS; i++)
        assert_array(a[i] = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(1024 << i)));
    tide_device_figures m = info(rt);
    assert_int_equal(m.device.live, 1024);
    assert_int_equal(m.pinned.live, 2048);
    assert_int_equal(m.unified.live, 4096);
    assert_int_equal(m.pinned.backed, 2048);
    assert_int_equal(m.unified.backed, 4096);
    assert_int_equal(m.pinned_used, 2048 + 4096);
    /* what counts against the device's limits */
    assert_int_equal(test_stats(rt).live, 1024 + 4096);
    if (test_on_host()) assert_int_equal(before.free - m.free, 1024 + 4096);
    size_t n = tide_runtime_text(rt, text, sizeof text);
    assert_true(n < sizeof text && n == strlen(text));
    assert_non_null(
        strstr(text, "none pool usage: 1.000 KiB (1.000 KiB allocated, 0 bytes cached)\n"));
    assert_non_null(
        strstr(text, "pinned memory usage: 2.000 KiB (2.000 KiB allocated, 0 bytes cached)\n"));
    assert_non_null(strstr(text, "unified memory usage: 4.000 KiB"));
    assert_true(tide_runtime_text(rt, NULL, 0) == n);
    for (int i = 0; i < KINDS; i++) tide_release(a[i]);
    m = info(rt);
    assert_int_equal(m.device.live + m.pinned.live + m.unified.live + m.pinned_used, 0);
    tide_device_figures old = {.struct_size = offsetof(tide_device_figures, limit), .limit = 77};
    assert_ok(tide_device_info(rt, &old)); /* an older caller's */
    assert_int_equal(old.limit, 77);
    old.struct_size = sizeof old + 1;
    assert_int_equal(tide_device_info(rt, &old), TIDE_E_INVALID);
    assert_int_equal(tide_device_info(rt, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_device_info(NULL, &old), TIDE_E_INVALID);
    close_silent(rt);
}

/* Freed blocks are kept for the next array of that kind alone, and go back when asked for. */
static void blocks_of_a_kind_are_cached(void **state) {
    (void)state;
    tide_config c = config();
    c.pool = "tide";
    tide_runtime *rt = test_open(&c);
    for (int i = 1; i < KINDS; i++) {
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(100000));
        uint64_t driver_allocs = test_stats(rt).driver_allocs;
        size_t cached = info(rt).pinned_used, freed;
        tide_release(a);
        for (int k = 0; k < 100; k++) {
            assert_array(a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(100000)));
            tide_release(a);
        }
        assert_int_equal(test_stats(rt).driver_allocs, driver_allocs);
        assert_int_equal(info(rt).pinned_used, cached);
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, &freed));
        assert_true(freed >= cached);
        assert_int_equal(info(rt).pinned_used, 0);
    }
    close_silent(rt);
}

/* ---- limits ---- */

static void the_hosts_limit_holds(void **state) {
    (void)state;
    for (int i = 1; i < KINDS; i++) {
        tide_config c = config();
        c.pinned_limit = "4MiB";
        c.pool = "none";
        tide_runtime *rt = test_open(&c);
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(3 << 20));
        assert_array(a);
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(2 << 20)));
        assert_error(TIDE_E_HOST_NOMEM, "out of host memory for arrays");
        assert_error(TIDE_E_HOST_NOMEM, kinds[i] == TIDE_MEMORY_PINNED
                                            ? "2.000 MiB of pinned memory wanted by tide_empty_in"
                                            : "2.000 MiB of unified memory wanted by");
        assert_error(TIDE_E_HOST_NOMEM, "limit 4.000 MiB");
        assert_error(TIDE_E_HOST_NOMEM,
                     "a limit of 5.000 MiB or more (5242880 bytes; TIDE_PINNED_LIMIT)");
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(5 << 20))); /* no rung could help */
        assert_error(TIDE_E_HOST_NOMEM, "out of host memory");
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE((int64_t)1 << 60)));
        assert_error(TIDE_E_HOST_NOMEM, "the machine has less than that in all");
        tide_error_clear();
        /* device memory is another budget */
        tide_array *b = tide_empty(rt, TIDE_U8, SHAPE(2 << 20));
        assert_array(b);
        tide_release(a);
        assert_array(a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(2 << 20)));
        assert_int_equal(tide_error_last()->status, TIDE_OK);
        tide_release(a);
        tide_release(b);
        close_silent(rt);
    }
}

/* A run with some arrays held and one that is to fit; returns the limit that the report names, 0 if
** it fits. */
static size_t run_within(const char *pool, tide_memory kind, const char *limit, int64_t last) {
    tide_config c = config();
    size_t wanted = 0;
    c.pool = pool;
    c.pinned_limit = limit;
    tide_runtime *rt = test_open(&c);
    tide_array *a[7];
    for (int i = 0; i < 7; i++)
        assert_array(a[i] = tide_empty_in(rt, kind, TIDE_U8, SHAPE(300001 + 1000 * i)));
    for (int i = 0; i < 6; i += 2) tide_release(a[i]); /* holes that it does not fit into */
    tide_array *b = tide_empty_in(rt, kind, TIDE_U8, SHAPE(last));
    if (!b) {
        const char *remedy = strstr(tide_error_last()->message, "remedy:");
        assert_int_equal(tide_error_last()->status, TIDE_E_HOST_NOMEM);
        assert_non_null(remedy);
        assert_int_equal(sscanf(strstr(remedy, " or more ("), " or more (%zu bytes", &wanted), 1);
        tide_error_clear();
    }
    tide_release(b);
    for (int i = 0; i < 7; i++)
        if (i >= 6 || i % 2) tide_release(a[i]);
    close_silent(rt);
    return wanted;
}

/* A limit as the report says is enough, whether the ladder was climbed or could not help. */
static void the_remedys_limit_is_enough(void **state) {
    static const char *const pools[] = {"tide", "split", "binned", "simple", "none"};
    static const int64_t lasts[] = {2000001, 2999999, 5000000, 12345678};
    (void)state;
    for (unsigned p = 0; p < TIDEI_COUNT(pools); p++)
        for (unsigned k = 0; k < TIDEI_COUNT(lasts); k++)
            for (int i = 1; i < KINDS; i++) {
                char limit[32];
                size_t wanted = run_within(pools[p], kinds[i], "4MiB", lasts[k]);
                if (!wanted) continue; /* fits */
                snprintf(limit, sizeof limit, "%zu", wanted);
                if (run_within(pools[p], kinds[i], limit, lasts[k]))
                    fail_msg("%s: %s of %s memory are not enough", pools[p], limit,
                             names[kinds[i]]);
            }
}

static void unified_memory_keeps_to_the_devices_limit(void **state) {
    (void)state;
    tide_config c = config();
    c.limit = "8MiB";
    c.pool = "none";
    tide_runtime *rt = test_open(&c);
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(5 << 20));
    assert_array(a);
    assert_null(tide_empty(rt, TIDE_U8, SHAPE(4 << 20)));
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_null(tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(4 << 20)));
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_int_equal(info(rt).pinned_used, 5 << 20); /* what was refused counts nowhere */
    tide_error_clear();
    /* not the device's */
    tide_array *b = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, SHAPE(4 << 20));
    assert_array(b);
    tide_release(a);
    assert_array(a = tide_empty(rt, TIDE_U8, SHAPE(4 << 20)));
    tide_release(a);
    tide_release(b);
    close_silent(rt);
}

/* A shape that no size_t holds is reported by kind too. */
static void absurd_shapes_are_reported_by_kind(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    const int64_t most = INT64_MAX;
    for (int i = 0; i < KINDS; i++) {
        tide_status status = kinds[i] == TIDE_MEMORY_DEVICE ? TIDE_E_NOMEM : TIDE_E_HOST_NOMEM;
        assert_null(tide_empty_in(rt, kinds[i], TIDE_F64, SHAPE(most, most)));
        assert_error(status, "16 EiB or more");
        if (kinds[i] != TIDE_MEMORY_DEVICE) assert_error(status, names[kinds[i]]);
    }
    assert_null(tide_empty_in(rt, 99, TIDE_F64, SHAPE(most, most)));
    assert_error(TIDE_E_INVALID, "99 is no kind of memory");
    tide_error_clear();
    close_silent(rt);
}

/* The pool `none` waits for what is pending, whichever budget it fills, before anything is climbed
** for it. */
static void none_waits_for_what_is_parked(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    for (int i = 0; i < KINDS; i++) {
        tide_config c = config();
        c.pool = "none";
        if (i)
            c.pinned_limit = "4MiB";
        else
            c.limit = "4MiB";
        tide_runtime *rt = test_open(&c);
        struct gated g = {0};
        pthread_t opener;
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_F32, SHAPE(3 << 18)), *b;
        assert_array(a);
        queue_gated(rt, NULL, a, false, &g);
        tide_release(a);
        /* would not fit then either */
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE((4 << 20) + 1)));
        tide_error_clear();
        assert_int_equal(atomic_load(&g.done), 0);
        assert_int_equal(pthread_create(&opener, NULL, open_gate, &g), 0);
        assert_array(b = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(3 << 20)));
        assert_int_equal(tide_error_last()->status, TIDE_OK);
        assert_int_equal(test_stats(rt).climbs, 0);
        pthread_join(opener, NULL);
        tide_release(b);
        close_silent(rt);
    }
}

/* The driver waits for the device before it takes other kinds back, and the soft limit waits for
** nothing. */
static void the_soft_limit_leaves_other_kinds_alone(void **state) {
    (void)state;
    tide_config c = config();
    c.soft_limit = "16MiB";
    c.pool = "tide";
    tide_runtime *rt = test_open(&c);
    for (int i = 1; i < KINDS; i++)
        tide_release(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(12 << 20)));
    tide_release(tide_empty(rt, TIDE_U8, SHAPE(6 << 20)));
    tide_device_figures before = info(rt);
    tide_array *a = tide_empty(rt, TIDE_U8, SHAPE(10 << 20));
    assert_array(a);
    assert_int_equal(info(rt).pinned_used, before.pinned_used);
    assert_true(before.pinned_used >= 24 << 20);
    tide_release(a);
    close_silent(rt);
}

/* A GPU's driver gives more unified memory than there is room for, and device memory beside it
** though the card is full of the other. */
static tide_status unlimited_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                       tidei_addr *out) {
    (void)d, (void)kind;
    return *out = (uintptr_t)malloc(bytes), *out ? TIDE_OK : TIDE_E_NOMEM;
}
static void unlimited_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr,
                               size_t bytes) {
    (void)d, (void)kind, (void)bytes;
    free((void *)(uintptr_t)addr);
}
static tide_status nothing_taken(tidei_device *d, size_t *free_bytes, size_t *total) {
    return *free_bytes = *total = d->info.total_bytes, TIDE_OK;
}
static tide_runtime *open_unlimited(tide_config c) {
    static struct tidei_device_ops ops;
    tidei_device *d;
    tide_runtime *rt;
    assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 16 * MIB}, &d));
    ops = *d->ops;
    ops.raw_alloc = unlimited_raw_alloc;
    ops.raw_free = unlimited_raw_free;
    ops.memory = nothing_taken;
    d->ops = &ops;
    assert_ok(tidei_open_on(&c, d, &rt));
    return rt;
}

static void device_memory_leaves_room_for_unified(void **state) {
    (void)state;
    tide_config c = config();
    c.pool = "none";
    c.debug = 0;
    tide_runtime *rt = open_unlimited(c);
    assert_int_equal(info(rt).limit, 16 * MIB);
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(10 << 20));
    assert_array(a);
    assert_null(tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(7 << 20)));
    assert_error(TIDE_E_NOMEM, "would exceed the limit of 16777216 (10485760 backed)");
    tide_error_clear();
    tide_array *b = tide_empty(rt, TIDE_U8, SHAPE(6 << 20)); /* all there is */
    assert_array(b);
    assert_null(tide_empty(rt, TIDE_U8, SHAPE(1)));
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_true(test_stats(rt).climbs > 0);
    tide_error_clear();
    tide_release(a);
    assert_array(a = tide_empty(rt, TIDE_U8, SHAPE(10 << 20)));
    tide_release(a);
    tide_release(b);
    close_silent(rt);
}

/* Where unified memory is not on the card, what is free there and what is backed are more than it
** has. */
static void what_is_available_is_no_more_than_the_device_has(void **state) {
    (void)state;
    tide_config c = config();
    c.debug = 0;
    tide_runtime *rt = open_unlimited(c);
    mock_tracer m;
    mock_open(&m, rt, "mock", TIDE_COLLECTOR_MINOR, 0);
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(10 << 20));
    assert_array(a);
    tidei_gc_dev *g = &tidei_gc_of(test_rt(rt))->devs[0];
    atomic_store(&g->available_ns, 0); /* the driver is asked again */
    assert_ok(tide_device_synchronize(rt));
    tide_host_view v;
    assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
    assert_ok(tide_host_view_end(&v));
    assert_true(atomic_load(&g->available_ns) > 0);
    assert_int_equal(atomic_load(&g->available), 16 * MIB);
    tide_release(a);
    tide_close(rt);
    mock_end(&m);
}

/* The driver pins no more: what is cached goes back to it, then it does. */
static void a_driver_that_refuses_is_asked_again(void **state) {
    tidei_device *inner, *d;
    tide_runtime *rt;
    (void)state;
    for (int i = 1; i < KINDS; i++) {
        tide_config c = config();
        tide_status refused = kinds[i] == TIDE_MEMORY_PINNED ? TIDE_E_HOST_NOMEM : TIDE_E_NOMEM;
        assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 64 * MIB}, &inner));
        assert_ok(tidei_fault_open(inner, &d));
        assert_ok(tidei_open_on(&c, d, &rt));
        tidei_fault_set(d, TIDEI_FAULT_RAW_ALLOC, 1, refused, false);
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(5 << 20));
        assert_array(a);
        tide_release(a);
        tidei_fault_set(d, TIDEI_FAULT_RAW_ALLOC, 1, refused, true);
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(30 << 20)));
        assert_int_equal(tide_error_last()->status, refused);
        assert_error(refused, "call ");
        assert_true(test_stats(rt).climbs > 0);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        tide_close(rt);
    }
}

/* ---- garbage ---- */

#define SOME (1 << 20)

/* With `m` NULL the collector is boehm. */
static __attribute__((noinline)) void make_garbage(tide_runtime *rt, mock_tracer *m,
                                                   tide_memory kind, int n) {
    for (int i = 0; i < n; i++) {
        tide_array *a = tide_empty_in(rt, kind, TIDE_U8, SHAPE(SOME));
        assert_array(a);
        assert_ok(tide_fill(a, tide_arg_int(i % 200)));
        if (m) mock_drop(m, mock_hold(m, a));
        size_t backed = atomic_load(&test_rt(rt)->budget->backed);
        if (backed > 32 * MIB) fail_msg("%zu bytes are backed", backed);
    }
}

/* A program that makes nothing but garbage in the host's memory, and frees none: the second budget
** has it collected, by the policy before it is used up, or by the ladder. */
static void garbage_in_host_memory_is_collected(void **state) {
    (void)state;
    for (int mock = !TEST_BOEHM; mock < 2; mock++)
        for (int i = 1; i < KINDS; i++)
            for (int early = TIDE_ON; early <= TIDE_OFF; early++) {
                mock_tracer m;
                tide_config c = config();
                c.collector = mock ? "refcount" : "boehm";
                c.pinned_limit = "32MiB";
                c.gc_early = early;
                tide_runtime *rt = test_open(&c);
                if (mock) mock_open(&m, rt, "mock", TIDE_COLLECTOR_MINOR, 0);
                make_garbage(rt, mock ? &m : NULL, kinds[i], test_quick() ? 100 : 300);
                tide_runtime_figures s = test_stats(rt);
                if (early == TIDE_ON)
                    assert_true(s.early_collections > 0);
                else
                    assert_true(s.climbs > 0 && s.collections > s.early_collections);
                assert_true(tidei_runtime_valid(test_rt(rt)));
                tide_close(rt);
                if (mock) mock_end(&m);
            }
}

static void *collect_elsewhere(void *rt) {
    assert_ok(tide_collect(rt));
    tide_thread_detach(rt);
    return NULL;
}

/* An allocation of host memory is a place where a collector bound to the thread answers what it was
** asked for meanwhile. */
static void a_bound_collector_answers_there_too(void **state) {
    (void)state;
#ifdef TIDEI_STRESS
    skip(); /* every allocation makes a round */
#endif
    for (int early = TIDE_ON; early <= TIDE_OFF; early++) {
        mock_tracer m;
        pthread_t other;
        tide_config c = config();
        c.gc_early = early;
        c.policy = "never";
        tide_runtime *rt = test_open(&c);
        mock_open(&m, rt, "lua", TIDE_COLLECTOR_BOUND, 0);
        /* from now on the policy sleeps */
        tide_release(tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(9)));
        mock_drop(&m, mock_hold(&m, tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(9))));
        assert_int_equal(pthread_create(&other, NULL, collect_elsewhere, rt), 0);
        pthread_join(other, NULL);
        int before = atomic_load(&m.fulls);
        tide_release(tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(9)));
        assert_int_equal(atomic_load(&m.fulls), before + 1);
        tide_close(rt);
        mock_end(&m);
    }
}

/* What lives in one budget does not make the policy collect for the other. */
static void budgets_are_apart(void **state) {
    (void)state;
#if TEST_BOEHM
    if (!test_on_host()) skip();
#ifdef TIDEI_STRESS
    skip(); /* which collects all the time */
#endif
    static tide_array *kept[20];
    tide_config c = config();
    c.collector = "boehm";
    c.host_device_memory = "256MiB";
    c.pinned_limit = "256MiB";
    tide_runtime *rt = test_open(&c);
    for (int i = 0; i < 20; i++)
        assert_array(kept[i] = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, SHAPE(2 << 20)));
    for (int i = 0; i < 20; i++) tide_release(tide_empty(rt, TIDE_U8, SHAPE(1000)));
    tide_error_clear();
    assert_int_equal(test_stats(rt).collections, 0);
    assert_int_equal(test_stats(rt).live, 20 * 1000);
    memset(kept, 0, sizeof kept);
    tide_close(rt);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_exact),
        cmocka_unit_test(blocks_of_a_kind_are_cached),
        cmocka_unit_test(the_hosts_limit_holds),
        cmocka_unit_test(the_remedys_limit_is_enough),
        cmocka_unit_test(unified_memory_keeps_to_the_devices_limit),
        cmocka_unit_test(none_waits_for_what_is_parked),
        cmocka_unit_test(absurd_shapes_are_reported_by_kind),
        cmocka_unit_test(the_soft_limit_leaves_other_kinds_alone),
        cmocka_unit_test(device_memory_leaves_room_for_unified),
        cmocka_unit_test(what_is_available_is_no_more_than_the_device_has),
        cmocka_unit_test(a_driver_that_refuses_is_asked_again),
        cmocka_unit_test(garbage_in_host_memory_is_collected),
        cmocka_unit_test(a_bound_collector_answers_there_too),
        cmocka_unit_test(budgets_are_apart),
    };
    return cmocka_run_group_tests_name("host_budget", tests, NULL, NULL);
}
