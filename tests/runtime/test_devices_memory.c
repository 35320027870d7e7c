/* test_devices_memory.c: the memory of several devices: who gives back, limits and garbage of each,
** reports that name the right one, and arrays that move while another device uses them. */
#include "tests/support/devices.h"
#include "tests/doubles/told_clock.h"

/* ---- giving back ---- */

static void *release_it(void *a) { return tide_release(a), NULL; }

static void an_array_dies_on_its_device(void **state) {
    (void)state;
    tide_runtime *rt = open_devices(2, "none");
    tide_array *a[4];
    for (int i = 0; i < 4; i++) {
        on(rt, i % 2);
        assert_array(a[i] = tide_zeros(rt, TIDE_U8, SHAPE(1000 * (i + 1))));
    }
    on(rt, 0);
    assert_int_equal(live_of(rt, 0), 4000);
    assert_int_equal(live_of(rt, 1), 6000);
    tide_release(a[1]); /* while another is current */
    assert_int_equal(live_of(rt, 1), 4000);
    pthread_t t;
    /* one that never made it current */
    assert_int_equal(pthread_create(&t, NULL, release_it, a[3]), 0);
    pthread_join(t, NULL);
    assert_int_equal(live_of(rt, 1), 0);
    assert_int_equal(live_of(rt, 0), 4000);
    on(rt, 1);
    tide_free(a[0]);
    assert_int_equal(live_of(rt, 0), 3000);
    tide_release(a[0]);
    tide_release(a[2]);
    assert_int_equal(live_of(rt, 0), 0);
    close_devices(rt);
}

static void closing_with_arrays_alive(void **state) {
    enum { N = 3 };
    tide_array *a[N], *b[N];
    (void)state;
    tide_runtime *rt = open_devices(test_on_host() ? N : 2, NULL);
    int n = test_on_host() ? N : 2;
    for (int i = 0; i < n; i++) {
        on(rt, i);
        a[i] = counting(rt, kinds[i % KINDS], 5000);
        b[i] = tide_copy(a[0]); /* queued at the end */
    }
    tide_close(rt);
    for (int i = 0; i < n; i++) {
        assert_null(tide_copy(a[i]));
        assert_int_equal(tide_array_device(b[i]), -1);
        assert_error(TIDE_E_CLOSED, "the array's runtime was closed");
        tide_release(a[i]);
        tide_release(b[i]);
    }
    tide_error_clear();
}

/* ---- limits ---- */

static tide_runtime *open_limited(const char *limit, const char *peers, const char *policy) {
    tide_config c = devices_config(2, peers);
    c.limit = limit;
    c.policy = policy;
    c.pool = "tide";
    c.spill = TIDE_OFF;
    return open_configured(&c);
}

static void each_device_has_its_limit(void **state) {
    (void)state;
    tide_runtime *rt = open_limited("16MiB", "all", "never");
    tide_array *full[2];
    on(rt, 1);
    assert_array(full[1] = tide_zeros(rt, TIDE_U8, SHAPE(12 * MIB)));
    assert_null(tide_zeros(rt, TIDE_U8, SHAPE(8 * MIB)));
    char report[64];
    snprintf(report, sizeof report, "out of memory on %s: 8.000 MiB", name(rt, 1));
    assert_error(TIDE_E_NOMEM, report);
    assert_error(TIDE_E_NOMEM, "limit 16.000 MiB");
    assert_error(TIDE_E_NOMEM, "largest holders: 12.000 MiB u8 (12582912)");
    tide_error_clear();
    on(rt, 0); /* is not concerned */
    assert_array(full[0] = tide_zeros(rt, TIDE_U8, SHAPE(10 * MIB)));
    assert_null(tide_copy(full[1]));
    snprintf(report, sizeof report, "out of memory on %s: 12.000 MiB", name(rt, 0));
    assert_error(TIDE_E_NOMEM, report);
    assert_error(TIDE_E_NOMEM, "largest holders: 10.000 MiB u8 (10485760)");
    tide_error_clear();
    assert_ok(tide_device_set_limit(rt, 64 * MIB)); /* of the current one */
    assert_int_equal(test_stats(rt).limit, 64 * MIB);
    assert_int_equal(info(rt).limit, 64 * MIB);
    tide_array *copy = tide_copy(full[1]);
    assert_array(copy);
    on(rt, 1);
    assert_int_equal(test_stats(rt).limit, 16 * MIB);
    assert_null(tide_zeros(rt, TIDE_U8, SHAPE(8 * MIB)));
    tide_error_clear();
    tide_release(full[1]);
    tide_array *fits = tide_zeros(rt, TIDE_U8, SHAPE(8 * MIB));
    assert_array(fits);
    tide_array *all[] = {full[0], copy, fits};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    close_devices(rt);
}

/* ---- garbage ---- by a collector that finds all that is not kept */

static struct {
    tide_array *dead[64];
    unsigned n, rounds;
} heap;

static int collect(void *self, int level) {
    (void)self, (void)level;
    heap.rounds++;
    while (heap.n) tide_release(heap.dead[--heap.n]);
    return TIDE_COLLECT_DONE;
}
static void make_garbage(tide_runtime *rt, size_t n) {
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE((int64_t)n));
    assert_array(a);
    assert_true(heap.n < TIDEI_COUNT(heap.dead));
    heap.dead[heap.n++] = a;
}

enum { TIME_OF_ONE = 1000000 }; /* ns that pass with each array */

static void garbage_of_any_device_is_found(void **state) {
    static const char *const policies[] = {"never", "reserve", "cudajl"};
    const tide_collector table = {.struct_size = sizeof table,
                                  .name = "heap",
                                  .caps = TIDE_COLLECTOR_TRACING,
                                  .collect = collect};
    (void)state;
    for (unsigned p = 0; p < TIDEI_COUNT(policies); p++) {
        tide_runtime *rt = open_limited("16MiB", "none", policies[p]);
        uint64_t id;
        memset(&heap, 0, sizeof heap);
        assert_ok(tide_collector_register(rt, &table, &id));
        on(rt, 1);
        tide_array *target = tide_zeros(rt, TIDE_U8, SHAPE(MIB)),
                   *back = tide_slice(target, "::-1");
        for (int i = 0; i < 15; i++) make_garbage(rt, MIB); /* fills it */
        on(rt, 0);
        tide_array *source = patterned(rt, TIDE_MEMORY_DEVICE, MIB, 1);
        assert_ok(tide_assign(back, source)); /* a copy beside the target is made first */
        if (!strcmp(policies[p], "never")) assert_int_equal(heap.rounds, 1);
        assert_true(heap.rounds > 0);
        assert_int_equal(live_of(rt, 1), MIB + heap.n * MIB);
        tide_array *as_sent = tide_slice(target, "::-1");
        assert_pattern(as_sent, MIB, 1);
        tide_array *all[] = {target, back, source, as_sent};
        for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
        collect(NULL, 0);
        assert_ok(tide_collector_unregister(rt, id));
        close_devices(rt);
    }
}

/* Garbage on one device is a reason to collect, whatever is free on the others. By the clock told
** here collections take no time: cudajl collects less if they take much, as they may on a busy
** machine. */
static void policies_look_at_each_device(void **state) {
    static const char *const policies[] = {"reserve", "cudajl"};
    const tide_collector table = {.struct_size = sizeof table,
                                  .name = "heap",
                                  .caps = TIDE_COLLECTOR_TRACING,
                                  .collect = collect};
    (void)state;
    for (unsigned p = 0; p < TIDEI_COUNT(policies); p++)
        for (int here = 0; here < 2; here++) {
            tide_runtime *rt = open_limited("16MiB", "none", policies[p]);
            uint64_t id;
            tell_time(rt);
            memset(&heap, 0, sizeof heap);
            assert_ok(tide_collector_register(rt, &table, &id));
            on(rt, 1 - here);
            tide_array *kept = tide_zeros(rt, TIDE_U8, SHAPE(MIB));
            on(rt, here);
            for (int i = 0; i < 60; i++, told_ns += TIME_OF_ONE) make_garbage(rt, MIB);
            tide_runtime_figures s = test_stats(rt);
            assert_true(s.early_collections > 0);
            assert_int_equal(s.climbs, 0);
            assert_int_equal(live_of(rt, 1 - here), MIB);
            tide_release(kept);
            collect(NULL, 0);
            assert_ok(tide_collector_unregister(rt, id));
            close_devices(rt);
        }
}

/* ---- moves ---- */

enum { ROWS = 32, ROW = 64 << 10 };

/* Device 0's memory is fragments; its blocks are moved for a large one while device 1's stream,
** held back, still uses them. */
static void blocks_move_while_another_device_uses_them(void **state) {
    (void)state;
    tide_config c = devices_config(2, NULL);
    c.limit = "2MiB";
    c.pool = "tide";
    c.policy = "never";
    c.device = "host";
    tide_runtime *rt = test_open(&c);
    assert_int_equal(tide_device_reaches(rt, 1, 0), 1); /* while there is room to find it out */
    for (int round = 0; round < 4; round++) {
        tide_array *a[ROWS], *sum[ROWS];
        pthread_t t;
        on(rt, 0);
        for (int i = 0; i < ROWS; i++)
            assert_array(a[i] = tide_full(rt, TIDE_I32, SHAPE(ROW / 4), tide_arg_int(i)));
        on(rt, 1);
        tide_array *gate = tide_zeros(rt, TIDE_F32, SHAPE(10));
        struct gated g = {.add = 1};
        queue_gated(rt, NULL, gate, true, &g);
        for (int i = 0; i < ROWS; i += 2) assert_ok(tide_map_into(a[i], "(a) -> a + 100", a[i]));
        on(rt, 0);
        for (int i = 1; i < ROWS; i += 2) tide_release(a[i]);
        assert_int_equal(pthread_create(&t, NULL, open_gate, &g), 0);
        tide_array *big = tide_full(rt, TIDE_I32, SHAPE(10 * ROW / 4), tide_arg_int(-1));
        assert_array(big);
        on(rt, 1);
        for (int i = 0; i < ROWS; i += 2)
            assert_array(sum[i] = tide_map(rt, "(a) -> min(a) + max(a)", a[i]));
        for (int i = 0; i < ROWS; i += 2) assert_true(tide_item_f64(sum[i]) == 2 * (100 + i));
        pthread_join(t, NULL);
        for (int i = 0; i < ROWS; i += 2) tide_release(a[i]), tide_release(sum[i]);
        tide_release(big);
        tide_release(gate);
    }
    tidei_pool_stats s;
    test_rt(rt)->devs[0].pool->ops->stats(test_rt(rt)->devs[0].pool, &s);
    assert_true(s.compactions > 0);
    close_devices(rt);
}

/* The host's memory is one budget for all devices, so what one's pool keeps of it goes back for
** another. */
static void the_hosts_memory_is_shared(void **state) {
    tide_config c = devices_config(2, NULL);
    (void)state;
    c.pinned_limit = "4MiB";
    c.pool = "split"; /* keeps what is freed */
    c.release_threshold = "unlimited";
    tide_runtime *rt = open_configured(&c);
    for (int i = 0; i < 4; i++) {
        on(rt, i % 2);
        tide_array *a = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, 1, (int64_t[]){3 * MIB});
        assert_array(a);
        tide_release(a);
    }
    close_devices(rt);
}

/* A limit is one device's: what others keep stays with them. */
static void a_limit_leaves_others_alone(void **state) {
    tide_config c = devices_config(2, NULL);
    (void)state;
    c.release_threshold = "unlimited";
    tide_runtime *rt = open_configured(&c);
    for (int i = 0; i < 2; i++) {
        on(rt, i);
        tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(8 * MIB));
        assert_array(a);
        tide_release(a);
        assert_ok(tide_device_synchronize(rt));
    }
    bool keeps = atomic_load(&half(rt, 0)->budget->backed) > 0; /* the pool none does not */
    assert_ok(tide_device_set_limit(rt, 4 * MIB));
    assert_true(atomic_load(&half(rt, 1)->budget->backed) <= 4 * MIB);
    assert_int_equal(atomic_load(&half(rt, 0)->budget->backed) > 0, keeps);
    close_devices(rt);
}

/* A device that could not be opened is one that was not: the next try begins anew. */
static void what_failed_to_open_opens_later(void **state) {
    tide_config c = devices_config(2, NULL);
    tide_stream *s[TIDEI_STREAMS_MAX];
    int n = 0;
    (void)state;
    c.default_memory = "pinned";
    tide_runtime *rt = open_configured(&c);
    while (tide_stream_new(rt, &s[n]) == TIDE_OK) n++;
    assert_error(TIDE_E_INVALID, "release some of its own");
    tide_error_clear();
    on(rt, 1); /* a place was kept for its default one */
    tide_array *a = counting(rt, TIDE_MEMORY_PINNED, 100);
    assert_counts(a, 100, 0);
    tide_release(a);
    while (n) tide_stream_release(s[--n]);
    close_devices(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_dies_on_its_device),
        cmocka_unit_test(closing_with_arrays_alive),
        cmocka_unit_test(each_device_has_its_limit),
        cmocka_unit_test(garbage_of_any_device_is_found),
        cmocka_unit_test(policies_look_at_each_device),
        cmocka_unit_test(blocks_move_while_another_device_uses_them),
        cmocka_unit_test(the_hosts_memory_is_shared),
        cmocka_unit_test(a_limit_leaves_others_alone),
        cmocka_unit_test(what_failed_to_open_opens_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
