/* test_memory_kinds.c: kinds of memory: copies among them, which kind a result has, prefetch and
** advice, and all of them at once under every pool. The host's views and elements:
** test_host_views.c; its budget: test_host_budget.c. Where a case ports one of another library's
** suite, its number there (T9, T14, T23) is in the name. */
#include "tests/memory/memory_kinds.h"
#include <pthread.h>

/* ---- copies, and the kind of results ---- */

/* By every pool that can be: device memory from it, the other kinds from it or from what stands in
** for it. */
static void T9_copies_among_all_kinds(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tide_config c = config();
        c.pool = test_pool(p);
        tide_runtime *rt = test_open(&c);
        for (int i = 0; i < KINDS; i++)
            for (int j = 0; j < KINDS; j++) {
                tide_array *a = counting(rt, kinds[i], 5000);
                tide_array *b = tide_to_memory(a, kinds[j]);
                assert_array(b);
                assert_int_equal(tide_array_memory(b), kinds[j]);
                assert_counts(b, 5000, 0);
                /* into one there is */
                tide_array *d = tide_empty_in(rt, kinds[j], TIDE_F32, SHAPE(5000));
                assert_ok(tide_assign(d, a));
                assert_counts(d, 5000, 0);
                tide_release(a);
                tide_release(b);
                tide_release(d);
            }
        close_silent(rt);
    }
}

static void T14_copies_keep_the_kind(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    for (int i = 0; i < KINDS; i++) {
        tide_array *flat = counting(rt, kinds[i], 12), *a = tide_reshape(flat, SHAPE(3, 4));
        tide_array *t = tide_transpose(a, NULL);
        tide_array *made[] = {a,
                              t,
                              tide_copy(t),
                              tide_cast(a, TIDE_F64),
                              tide_contiguous(a),
                              tide_contiguous(t),
                              tide_reshape(t, SHAPE(12))};
        for (unsigned k = 0; k < TIDEI_COUNT(made); k++) {
            assert_array(made[k]);
            assert_int_equal(tide_array_memory(made[k]), kinds[i]);
        }
        /* what an operation makes is of the default kind */
        tide_array *sum = tide_map(rt, "(a) -> a + 1", a);
        assert_int_equal(tide_array_memory(sum), TIDE_MEMORY_DEVICE);
        assert_counts(sum, 12, 1);
        for (unsigned k = 0; k < TIDEI_COUNT(made); k++) tide_release(made[k]);
        tide_release(sum);
        tide_release(flat);
    }
    close_silent(rt);
}

static void the_default_kind_is_configured(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++)
        for (int by_config = 0; by_config < 2; by_config++) {
            tide_config c = config();
            if (by_config)
                c.default_memory = names[kinds[i]];
            else
                setenv("TIDE_DEFAULT_MEMORY", names[kinds[i]], 1);
            tide_runtime *rt = test_open(&c);
            unsetenv("TIDE_DEFAULT_MEMORY");
            tide_array *a = tide_arange(rt, TIDE_F32, 0, 300, 1),
                       *b = tide_map(rt, "(a) -> a*2 - a", a);
            tide_array *sum = tide_map(rt, "(a) -> sum(a)", b),
                       *device = tide_to_memory(b, TIDE_MEMORY_DEVICE);
            tide_array *same = tide_copy(device),
                       *usual = tide_to_memory(device, TIDE_MEMORY_DEFAULT);
            assert_int_equal(tide_array_memory(a), kinds[i]);
            assert_int_equal(tide_array_memory(b), kinds[i]);
            assert_int_equal(tide_array_memory(sum), kinds[i]);
            assert_int_equal(tide_array_memory(same), TIDE_MEMORY_DEVICE);
            assert_int_equal(tide_array_memory(usual), kinds[i]);
            assert_counts(usual, 300, 0);
            assert_true(tide_item_f64(sum) == 299 * 150);
            tide_pool *x = NULL; /* a pool that the thread sets goes before the default */
            assert_ok(tide_pool_new(rt, NULL, &x));
            assert_ok(tide_pool_set(rt, x));
            tide_array *there = tide_zeros(rt, TIDE_F32, SHAPE(10));
            assert_int_equal(tide_array_memory(there), TIDE_MEMORY_DEVICE);
            assert_ok(tide_pool_set(rt, NULL));
            tide_pool_release(x);

            tide_array *again = tide_zeros(rt, TIDE_F32, SHAPE(10));
            assert_int_equal(tide_array_memory(again), kinds[i]);
            tide_array *all[] = {a, b, sum, device, same, usual, there, again};
            for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
            close_silent(rt);
        }
}

static void a_bad_default_kind_is_an_error_or_a_warning(void **state) {
    (void)state;
    tide_config c = config();
    tide_runtime *rt;
    c.device = test_device();
    c.default_memory = "managed";
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID,
                 "TIDE_DEFAULT_MEMORY is \"managed\"; wanted: device, pinned or unified");
    c.default_memory = NULL;
    logged.n = 0;
    c.log_level = TIDE_LOG_WARNING;
    setenv("TIDE_DEFAULT_MEMORY", "managed", 1);
    assert_ok(tide_open(&c, &rt));
    unsetenv("TIDE_DEFAULT_MEMORY");
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_DEFAULT_MEMORY=managed is not understood"),
                     1);
    assert_null(tide_empty_in(rt, 4, TIDE_F32, 0, NULL));
    assert_error(TIDE_E_INVALID, "4 is no kind of memory");
    assert_null(tide_empty_in(rt, -1, TIDE_F32, 0, NULL));
    assert_error(TIDE_E_INVALID, "-1 is no kind of memory");
    assert_null(tide_to_memory(NULL, TIDE_MEMORY_PINNED));
    tide_error_clear();
    assert_int_equal(tide_array_memory(NULL), -1);
    tide_close(rt);
}

/* A device that lacks unified memory. */
static void unified_memory_may_be_missing(void **state) {
    tide_runtime *rt;
    (void)state;
    for (int how = 0; how < 3; how++) {
        tidei_device *d;
        tide_config c = config();
        assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 16 * MIB}, &d));
        d->info.flags &= ~TIDEI_DEV_UNIFIED;
        logged.n = 0;
        c.log_level = 0; /* nobody chose one */
        if (how == 1) c.default_memory = "unified";
        if (how == 2) setenv("TIDE_DEFAULT_MEMORY", "unified", 1);
        tide_status s = tidei_open_on(&c, d, &rt);
        unsetenv("TIDE_DEFAULT_MEMORY");
        assert_int_equal(s, how == 1 ? TIDE_E_UNSUPPORTED : TIDE_OK);
        if (how == 1) continue;
        assert_int_equal(lines_with(TIDE_LOG_WARNING,
                                    "TIDE_DEFAULT_MEMORY=unified: host:0 has no unified memory"),
                         how == 2);
        tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3));
        assert_int_equal(tide_array_memory(a), TIDE_MEMORY_DEVICE);
        assert_null(tide_to_memory(a, TIDE_MEMORY_UNIFIED));
        assert_error(TIDE_E_UNSUPPORTED, "no unified memory");
        tide_array *b = tide_to_memory(a, TIDE_MEMORY_PINNED);
        assert_array(b);
        tide_release(a);
        tide_release(b);
        tide_close(rt);
    }
}

/* Operations do not care what kind their operands are. */
static void operations_take_all_kinds(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    for (int i = 0; i < KINDS; i++)
        for (int j = 0; j < KINDS; j++) {
            tide_array *a = counting(rt, kinds[i], 64), *b = counting(rt, kinds[j], 64);
            tide_array *m = tide_reshape(a, SHAPE(8, 8)), *n = tide_reshape(b, SHAPE(8, 8));
            tide_array *product = tide_matmul(m, n),
                       *sum = tide_map(rt, "(a, b) -> sum(a - b + 1)", a, b);
            assert_array(product);
            assert_true(tide_item_f64(sum) == 64);
            assert_ok(tide_map_into(b, "(a, b) -> a + b - b", a, b)); /* into any kind too */
            assert_ok(tide_fill(m, tide_arg_int(2)));
            assert_counts(b, 64, 0);
            tide_array *all[] = {a, b, m, n, product, sum};
            for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
        }
    close_silent(rt);
}

/* ---- where unified memory is ---- */

/* A host device that notes what it is told. */
static struct {
    const struct tidei_device_ops *inner;
    struct tidei_device_ops ops;
    size_t prefetched[2];
    unsigned advised, undone;
    bool refuses;
    tidei_addr from;
    size_t bytes;
} told;
static tide_status note_prefetch(tidei_device *d, tidei_dstream *s, tidei_addr addr, size_t bytes,
                                 bool to_host) {
    (void)d, (void)s;
    told.from = addr;
    told.prefetched[to_host] += bytes;
    return TIDE_OK;
}
static tide_status note_advice(tidei_device *d, tidei_addr addr, size_t bytes,
                               tidei_advice advice) {
    (void)d;
    told.from = addr;
    told.bytes = bytes;
    if (told.refuses) return tidei_fail(TIDE_E_DEVICE, "told", "no advice today");
    if (advice == TIDEI_ADVICE_NONE)
        told.undone++;
    else
        told.advised++;
    return TIDE_OK;
}
static tide_runtime *open_told(void) {
    tidei_device *d;
    tide_runtime *rt;
    tide_config c = config();
    c.pool = "tide"; /* what stands in for it keeps what is freed */
    memset(&told, 0, sizeof told);
    assert_ok(tidei_host_open(
        &(tidei_device_params){.host_device_memory = 64 * MIB, .host_checker = true}, &d));
    told.inner = d->ops;
    told.ops = *d->ops;
    told.ops.prefetch = note_prefetch;
    told.ops.advise = note_advice;
    d->ops = &told.ops;
    assert_ok(tidei_open_on(&c, d, &rt));
    return rt;
}

static void T9_prefetch_and_advice_by_range(void **state) {
    (void)state;
    tide_runtime *rt = open_told();
    tide_array *a = counting(rt, TIDE_MEMORY_UNIFIED, 1000), *part = tide_slice(a, "100:300:2");
    tide_host_view v;
    assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
    tidei_addr at = (uintptr_t)v.data;
    assert_ok(tide_host_view_end(&v));
    assert_ok(tide_array_prefetch(a, 0, 1000, TIDE_TO_DEVICE));
    assert_ok(tide_array_prefetch(a, 1000, 0, TIDE_TO_DEVICE)); /* of nothing */
    assert_ok(tide_array_prefetch(a, 10, 20, TIDE_TO_HOST));
    assert_int_equal(told.prefetched[0], 4000);
    assert_int_equal(told.prefetched[1], 80);
    assert_int_equal(told.from, at + 40);
    assert_ok(tide_array_prefetch(part, 1, 198, TIDE_TO_HOST)); /* of the stretch that it spans */
    assert_int_equal(told.from, at + 404);
    assert_ok(tide_array_advise(a, 250, 250, TIDE_ADVISE_READ_MOSTLY));
    assert_int_equal(told.from, at + 1000);
    assert_int_equal(told.bytes, 1000);
    assert_int_equal(tide_array_prefetch(a, 0, 1001, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "1001 elements from 0 on reach beyond the 1000");
    assert_int_equal(tide_array_prefetch(a, 1001, 0, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_array_prefetch(a, INT64_MAX, INT64_MAX, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_array_prefetch(a, -1, 1, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_array_prefetch(part, 0, 200, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_array_advise(a, 999, 2, TIDE_ADVISE_HOST), TIDE_E_BOUNDS);
    assert_int_equal(tide_array_prefetch(a, 0, 1, 2), TIDE_E_INVALID);
    assert_int_equal(tide_array_advise(a, 0, 1, 4), TIDE_E_INVALID);
    tide_array *pinned = counting(rt, TIDE_MEMORY_PINNED, 10),
               *device = counting(rt, TIDE_MEMORY_DEVICE, 10);
    assert_int_equal(tide_array_prefetch(pinned, 0, 1, TIDE_TO_DEVICE), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "in pinned memory");
    assert_int_equal(tide_array_advise(device, 0, 1, TIDE_ADVISE_HOST), TIDE_E_UNSUPPORTED);
    tide_array *all[] = {a, part, pinned, device};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    tide_close(rt);
}

/* Advice belongs to addresses: the next array there did not ask for it. */
static void advice_ends_with_the_array(void **state) {
    (void)state;
    tide_runtime *rt = open_told();
    tide_array *a = counting(rt, TIDE_MEMORY_UNIFIED, 1000);
    assert_ok(tide_array_advise(a, 0, 1000, TIDE_ADVISE_READ_MOSTLY));
    assert_ok(tide_array_advise(a, 0, 1000, TIDE_ADVISE_DEVICE));
    assert_ok(tide_array_advise(a, 10, 10, TIDE_ADVISE_HOST));
    assert_int_equal(told.advised, 3);
    tide_release(a);
    assert_ok(tide_device_synchronize(rt));
    assert_int_equal(told.undone, 0); /* whoever lets go does no device work */
    tide_array *b = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(1000));
    assert_int_equal(told.undone, 1); /* what was advised of it, at once */
    assert_int_equal(told.bytes, 4000);
    tide_array *other = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(1000));
    assert_int_equal(told.undone, 1);
    assert_ok(tide_array_advise(b, 0, 1000, TIDE_ADVISE_DEVICE)); /* still noted at the end */
    tide_release(b);
    tide_release(other);
    tide_close(rt);
}

/* However an array is advised, what is noted of it is one stretch; advice that was taken back, or
** refused, is not noted. */
static void notes_of_advice_stay_few(void **state) {
    (void)state;
    tide_runtime *rt = open_told();
    _Atomic size_t *notes = &test_rt(rt)->devs[0].memory->nadvised;
    tide_array *a = counting(rt, TIDE_MEMORY_UNIFIED, 1000),
               *b = counting(rt, TIDE_MEMORY_UNIFIED, 1000);
    tide_array *late = tide_slice(b, "600:");
    for (int64_t i = 0; i < 1000; i++) {
        assert_ok(tide_array_advise(a, i, 1, i % 3 ? TIDE_ADVISE_DEVICE : TIDE_ADVISE_READ_MOSTLY));
        assert_int_equal(atomic_load(notes), 1);
    }
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(atomic_load(notes), 1);
        assert_ok(tide_array_advise(a, i, 1, TIDE_ADVISE_NONE));
    }
    assert_int_equal(atomic_load(notes), 0);
    assert_ok(tide_array_advise(a, 0, 1000, TIDE_ADVISE_NONE)); /* of what was not advised */
    told.refuses = true;
    assert_int_equal(tide_array_advise(a, 0, 1000, TIDE_ADVISE_HOST), TIDE_E_DEVICE);
    assert_int_equal(atomic_load(notes), 0);
    told.refuses = false;
    assert_ok(tide_array_advise(a, 100, 200, TIDE_ADVISE_HOST));
    assert_ok(tide_array_advise(b, 100, 200, TIDE_ADVISE_HOST));
    assert_ok(tide_array_advise(late, 0, 10, TIDE_ADVISE_HOST)); /* of the same block */
    assert_int_equal(atomic_load(notes), 2);
    told.refuses = true;
    assert_int_equal(tide_array_advise(a, 0, 1000, TIDE_ADVISE_NONE),
                     TIDE_E_DEVICE); /* it still holds */
    assert_int_equal(atomic_load(notes), 2);
    told.refuses = false;
    assert_ok(tide_array_advise(a, 150, 50, TIDE_ADVISE_NONE)); /* leaves something on both sides */
    assert_ok(tide_array_advise(a, 250, 750, TIDE_ADVISE_NONE));
    assert_int_equal(atomic_load(notes), 2);
    tide_release(a);
    unsigned undone = told.undone;
    a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(1000));
    assert_int_equal(told.undone, undone + 1);
    assert_int_equal(told.bytes, 150 * 4);
    assert_int_equal(atomic_load(notes), 1); /* the other's stays */
    tide_array *all[] = {a, b, late};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    tide_close(rt);
}

/* ---- several at once ---- */

static uint64_t dice(uint64_t *seed) {
    return (*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33;
}

/* Arrays of all kinds under every pool, used on several streams and by the host, in random order:
** nothing mixes, all is in order. */
static void all_kinds_under_every_pool(void **state) {
    enum { HELD = 12, STREAMS = 3 };
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tide_config c = config();
        c.pool = test_pool(p);
        tide_runtime *rt = test_open(&c);
        tide_stream *s[STREAMS] = {NULL};
        tide_array *a[HELD] = {NULL};
        float value[HELD] = {0};
        uint64_t seed = 7 + p;
        for (int i = 1; i < STREAMS; i++) assert_ok(tide_stream_new(rt, &s[i]));
        for (int round = 0; round < (test_quick() ? 300 : 1500); round++) {
            unsigned i = (unsigned)(dice(&seed) % HELD);
            assert_ok(tide_stream_set(rt, s[dice(&seed) % STREAMS]));
            if (!a[i]) {
                int64_t n = (int64_t)(1 + dice(&seed) % 60000);
                assert_array(a[i] = tide_empty_in(rt, kinds[dice(&seed) % KINDS], TIDE_F32, 1, &n));
                value[i] = (float)(dice(&seed) % 1000);
                assert_ok(tide_fill(a[i], tide_arg_float(value[i])));
            } else if (tide_array_memory(a[i]) != TIDE_MEMORY_DEVICE && dice(&seed) % 2) {
                tide_host_view v;
                assert_ok(tide_host_view_begin(a[i], TIDE_READ | TIDE_WRITE, &v));
                for (int64_t k = 0; k < v.shape[0]; k++) {
                    if (TIDE_AT(float, &v, k) != value[i])
                        fail_msg("%s: element %d of array %u", c.pool, (int)k, i);
                    TIDE_AT(float, &v, k) += 1;
                }
                value[i] += 1;
                assert_ok(tide_host_view_end(&v));
            } else if (dice(&seed) % 2) {
                assert_ok(tide_map_into(a[i], "(a) -> a + 1", a[i]));
                value[i] += 1;
            } else {
                tide_array *least = tide_map(rt, "(a) -> min(a)", a[i]);
                assert_true(tide_item_f64(least) == (double)value[i]);
                tide_release(least);
                tide_release(a[i]);
                a[i] = NULL;
            }
            if (round % 100 == 0) assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
        }
        assert_ok(tide_stream_set(rt, NULL));
        for (int i = 0; i < HELD; i++) tide_release(a[i]);
        for (int i = 1; i < STREAMS; i++) tide_stream_release(s[i]);
        close_silent(rt);
    }
}

static void *make_some(void *arg) {
    tide_runtime *rt = arg;
    for (int k = 0; k < 50; k++) {
        tide_array *a = tide_empty_in(rt, kinds[1 + k % 2], TIDE_F32, SHAPE(1000));
        assert_array(a);
        assert_ok(tide_array_set(a, (const int64_t[]){5}, tide_arg_int(k)));
        tide_host_view v;
        assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
        assert_true(TIDE_AT(float, &v, 5) == (float)k);
        assert_ok(tide_host_view_end(&v));
        tide_release(a);
    }
    tide_thread_detach(rt);
    return NULL;
}

/* Threads that come at once to a kind that has no pool yet. */
static void threads_share_a_kinds_pool(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        pthread_t thread[4];
        tide_runtime *rt = open_plain();
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, make_some, rt), 0);
        for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
        unsigned pools = 0;
        for (tidei_user_pool *x = NULL; (x = tidei_pools_next(&test_rt(rt)->devs[0], x));) pools++;
        assert_int_equal(pools, 3);
        close_silent(rt);
    }
}

/* Pinned arrays of changing sizes come and go while the device still copies from those before: each
** has its own bytes. */
static void t10_pinned_arrays_come_and_go(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_array *total = tide_zeros(rt, TIDE_I64, 0, NULL);
    int64_t wanted = 0;
    for (int64_t i = 0; i < 1900; i++) {
        int64_t n = 1 + i * 37 % 1000;
        tide_host_view v;
        tide_array *a = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_I64, SHAPE(n));
        assert_array(a);
        assert_ok(tide_host_view_begin(a, TIDE_WRITE, &v));
        for (int64_t k = 0; k < n; k++) TIDE_AT(int64_t, &v, k) = i + k;
        assert_ok(tide_host_view_end(&v));
        tide_array *b = tide_to_memory(a, TIDE_MEMORY_DEVICE),
                   *next = tide_map(rt, "(t, b) -> t + sum(b)", total, b);
        assert_array(next);
        tide_array *gone[] = {a, b, total};
        for (unsigned k = 0; k < TIDEI_COUNT(gone); k++) tide_release(gone[k]);
        total = next;
        wanted += n * i + n * (n - 1) / 2;
    }
    int64_t got;
    assert_ok(tide_to_host(total, &got, sizeof got));
    assert_true(got == wanted);
    tide_release(total);
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T9_copies_among_all_kinds),
        cmocka_unit_test(T14_copies_keep_the_kind),
        cmocka_unit_test(the_default_kind_is_configured),
        cmocka_unit_test(a_bad_default_kind_is_an_error_or_a_warning),
        cmocka_unit_test(unified_memory_may_be_missing),
        cmocka_unit_test(operations_take_all_kinds),
        cmocka_unit_test(T9_prefetch_and_advice_by_range),
        cmocka_unit_test(advice_ends_with_the_array),
        cmocka_unit_test(notes_of_advice_stay_few),
        cmocka_unit_test(all_kinds_under_every_pool),
        cmocka_unit_test(threads_share_a_kinds_pool),
        cmocka_unit_test(t10_pinned_arrays_come_and_go),
    };
    return cmocka_run_group_tests_name("kinds", tests, NULL, NULL);
}
