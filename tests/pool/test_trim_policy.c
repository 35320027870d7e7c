/* test_trim_policy.c: the adaptive release threshold: the rule over told times, and a runtime under
** a told clock. */
#include "tests/doubles/told_clock.h"
#include "runtime/pool/pools.h"

#define MIB    TIDEI_MIB
#define GIB    TIDEI_GIB
#define SECOND ((uint64_t)1000000000)
#define WINDOW TIDEI_TRIM_WINDOW_NS

/* ---- the rule ---- */

/* A pool whose program runs steps of `work` bytes, and what it takes for that from the driver. */
struct model {
    tidei_trim_policy r;
    uint64_t now_ns;
    size_t backed, peak, fragments; /* fragments: beyond what is live, wanted at the peak */
    unsigned growths;
};

static void use(struct model *m, size_t bytes) {
    size_t wanted = bytes + m->fragments;
    m->peak = tidei_max_size(m->peak, bytes);
    if (wanted <= m->backed) return;
    m->backed = wanted;
    m->growths++;
}

/* Time passes; at its end everything is free, and the host has waited. */
static void pass(struct model *m, uint64_t ns) {
    m->now_ns += ns;
    if (m->now_ns < tidei_trim_policy_due_ns(&m->r)) return;
    tidei_trim_policy_look x = {
        .now_ns = m->now_ns, .backed = m->backed, .used = 0, .needed = m->peak};
    size_t keep = tidei_trim_policy_keep(&m->r, &x);
    if (keep < m->backed) m->backed = keep;
    m->peak = 0;
}

static struct model fresh(void) {
    struct model m = {.now_ns = 77};
    tidei_trim_policy_init(&m.r, m.now_ns);
    return m;
}

static void a_steady_loop_keeps_its_memory(void **state) {
    (void)state;
    for (uint64_t step = SECOND / 1000; step <= 5 * SECOND; step *= 10) {
        struct model m = fresh();
        for (uint64_t n = 100 * SECOND / step; n; n--) {
            use(&m, GIB);
            pass(&m, step);
        }
        assert_int_equal(m.growths, 1);
        assert_int_equal(m.backed, GIB);
    }
}

static void what_is_of_no_use_goes_in_two_windows(void **state) {
    (void)state;
    struct model m = fresh();
    use(&m, GIB); /* a peak, once */
    for (unsigned i = 0; i < 25; i++) {
        use(&m, GIB / 8);
        pass(&m, SECOND);
        if (i < 18) assert_int_equal(m.backed, GIB);
    }
    assert_int_equal(m.backed, GIB / 8 + GIB / 64 + 32 * MIB); /* and what stays for rounding */
    for (unsigned i = 0; i < 25; i++) pass(&m, SECOND);        /* nothing at all */
    assert_int_equal(m.backed, 0);
    assert_int_equal(m.growths, 1);
}

/* No more at a time than 1 % of the window pays for. */
static void much_goes_bit_by_bit(void **state) {
    (void)state;
    struct model m = fresh();
    const size_t most = (size_t)(WINDOW / 100 * TIDEI_TRIM_BYTES_PER_NS);
    use(&m, 10 * most);
    pass(&m, WINDOW);
    assert_int_equal(m.backed, 10 * most); /* it had just grown */
    for (unsigned i = 9; i > 0; i--) {
        pass(&m, WINDOW);
        assert_int_equal(m.backed, i * most);
    }
}

/* A loop longer than the window is learnt: after a few regrets nothing is taken or given any
** more. */
static void a_long_loop_is_learnt(void **state) {
    (void)state;
    for (unsigned seconds = 15; seconds <= 1800; seconds *= 4) {
        struct model m = fresh();
        unsigned early = 0;
        for (unsigned round = 0; round < 60; round++) {
            use(&m, GIB);
            for (unsigned i = 0; i < seconds; i++) {
                use(&m, GIB / 16);
                pass(&m, SECOND);
            }
            if (round == 39) early = m.growths;
        }
        assert_true(early <= 12);
        assert_int_equal(m.growths, early);
    }
}

/* What fragments take beside the live bytes was wanted, though no figure says so: regretted, then
** kept. */
static void fragments_are_kept_in_the_end(void **state) {
    (void)state;
    struct model m = fresh();
    m.fragments = GIB / 2;
    unsigned early = 0;
    for (unsigned i = 0; i < 40000; i++) {
        use(&m, GIB);
        pass(&m, SECOND);
        if (i == 20000) early = m.growths;
    }
    assert_true(early <= 12);                           /* windows doubled up to an hour */
    assert_true(m.growths - early <= 20000 / 3600 + 1); /* and then one an hour */
}

static void windows_shrink_again(void **state) {
    (void)state;
    struct model m = fresh();
    m.r.window_ns = 64 * WINDOW;
    use(&m, 300 * GIB);
    for (unsigned i = 0; i < 5000; i++) pass(&m, SECOND);
    assert_int_equal(m.backed, 0);
    /* three windows gave back, the first not knowing yet */
    assert_int_equal(m.r.window_ns, 64 * WINDOW / 4);
}

static void what_is_in_use_stays(void **state) {
    (void)state;
    tidei_trim_policy r;
    tidei_trim_policy_init(&r, 0);
    r.backed = GIB;
    tidei_trim_policy_look x = {
        .now_ns = WINDOW, .backed = GIB, .used = GIB - MIB, .needed = GIB / 4};
    assert_int_equal(tidei_trim_policy_keep(&r, &x), 0); /* the free MiB may go */
    x.now_ns *= 2;
    x.backed = x.used;
    assert_int_equal(tidei_trim_policy_keep(&r, &x), SIZE_MAX);
}

/* ---- a runtime ---- */

static tide_runtime *open_told(const char *pool) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount",
                                                .pool = pool,
                                                .release_threshold = "adaptive",
                                                .gc_early = TIDE_OFF});
    tell_time(rt);
    return rt;
}

static void use_bytes(tide_runtime *rt, size_t bytes) {
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE((int64_t)bytes));
    assert_array(a);
    tide_release(a);
}

/* Nobody allocates: noticed at sync points, by the figures, by the status text. */
static void an_idle_runtime_gives_back(void **state) {
    (void)state;
    for (unsigned k = 0; k < TEST_POOLS; k++)
        for (unsigned by = 0; by < 3; by++) {
            tide_runtime *rt = open_told(test_pool(k));
            tidei_dev *d = &test_rt(rt)->devs[0];
            char text[500];
            use_bytes(rt, 10 * MIB);
            for (unsigned i = 0; i < 25; i++) {
                if (by == 0) assert_ok(tide_synchronize(rt, NULL));
                if (by == 1) test_stats(rt);
                if (by == 2) assert_true(tide_runtime_text(rt, text, sizeof text) > 0);
                if (k == 0 && i < 19) assert_true(d->budget->backed >= 10 * MIB);
                told_ns += SECOND;
            }
            assert_ok(tidei_streams_wait_all(d, true));
            told_ns += WINDOW;
            test_stats(rt);
            assert_int_equal(d->budget->backed, 0);
            assert_true(tidei_runtime_valid(test_rt(rt)));
            tide_close(rt);
        }
}

/* Time passes differently each time the same program runs. */
static void a_deterministic_pool_keeps_what_it_has(void **state) {
    (void)state;
    tide_runtime *rt = open_told("tide");
    tidei_dev *d = &test_rt(rt)->devs[0];
    assert_ok(tide_pool_set_attribute(tide_pool_default(rt), TIDE_POOL_DETERMINISTIC, 1));
    use_bytes(rt, 10 * MIB);
    for (unsigned i = 0; i < 50; i++) {
        assert_ok(tide_synchronize(rt, NULL));
        told_ns += SECOND;
    }
    assert_true(d->budget->backed >= 10 * MIB);
    assert_ok(tide_pool_set_attribute(tide_pool_default(rt), TIDE_POOL_DETERMINISTIC, 0));
    for (unsigned i = 0; i < 50; i++) {
        assert_ok(tide_synchronize(rt, NULL));
        told_ns += SECOND;
    }
    assert_int_equal(d->budget->backed, 0);
    tide_close(rt);
}

/* A loop with sync points reaches 0 driver calls, whatever time its steps take. */
static void a_loop_reaches_no_driver_calls(void **state) {
    (void)state;
    for (unsigned k = 0; k < TEST_POOLS; k++) {
        if (!strcmp(test_pool(k), "none")) continue;
        tide_runtime *rt = open_told(test_pool(k));
        tidei_dev *d = &test_rt(rt)->devs[0];
        uint64_t calls = 0;
        for (unsigned i = 0; i < 60; i++) {
            if (i == 10) calls = d->budget->driver_allocs + d->budget->driver_frees;
            tide_array *held = tide_zeros(rt, TIDE_U8, SHAPE(3 * MIB));
            for (unsigned n = 0; n < 4; n++) use_bytes(rt, (n + 1) * MIB);
            tide_release(held);
            assert_ok(tide_synchronize(rt, NULL));
            told_ns += SECOND;
        }
        assert_int_equal(d->budget->driver_allocs + d->budget->driver_frees, calls);
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_loop_keeps_its_memory),
        cmocka_unit_test(what_is_of_no_use_goes_in_two_windows),
        cmocka_unit_test(much_goes_bit_by_bit),
        cmocka_unit_test(a_long_loop_is_learnt),
        cmocka_unit_test(fragments_are_kept_in_the_end),
        cmocka_unit_test(windows_shrink_again),
        cmocka_unit_test(what_is_in_use_stays),
        cmocka_unit_test(an_idle_runtime_gives_back),
        cmocka_unit_test(a_deterministic_pool_keeps_what_it_has),
        cmocka_unit_test(a_loop_reaches_no_driver_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
