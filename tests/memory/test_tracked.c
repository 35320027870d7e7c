/* test_tracked.c: the experiments about tracked memory that no other file has: two threads without
** a synchronisation between them (E2), single elements and folds by the host (E4), freeing early
** (E6). */
#include "tests/memory/memory_kinds.h"
#include <pthread.h>
#include <sched.h>

/* ---- E2 ---- */

#define ROUNDS (test_quick() || test_memcheck() ? 100 : 1000)
enum { SIDE = 64 };

static struct {
    tide_runtime *rt;
    tide_array *a, *b, *c;
    atomic_int produced, taken;
    atomic_int gate; /* rounds whose products may end */
    int rounds;
    bool wrong;
} two;

static void stand(void *round) {
    while (atomic_load(&two.gate) < (int)(intptr_t)round) sched_yield();
}

/* On its own stream; on a host device each tenth product waits behind a function that the other
** thread lets go. */
static void *produce(void *unused) {
    for (int i = 1; i <= two.rounds; i++) {
        tide_array *c = tide_matmul(two.a, two.b);
        if (!c) return two.wrong = true, unused;
        if (test_on_host() && i % 10 == 0) {
            tide_use use = {.array = c, .mode = TIDE_READ | TIDE_WRITE};
            tide_use_scope *scope;
            void *p;
            if (tide_use_begin(two.rt, NULL, &use, 1, &p, &scope) != TIDE_OK ||
                tide_use_launch(scope, stand, (void *)(intptr_t)i) != TIDE_OK ||
                tide_use_end(scope) != TIDE_OK)
                return two.wrong = true, unused;
        }
        two.c = c;
        atomic_store(&two.produced, i);
        while (atomic_load(&two.taken) < i) sched_yield();
    }
    return unused;
}

static void e02_two_threads_and_no_synchronisation(void **state) {
    float host[SIDE * SIDE];
    pthread_t t;
    (void)state;
    for (int i = 0; i < SIDE * SIDE; i++) host[i] = (float)(i * 37 % 11);
    two.rounds = ROUNDS;
    two.wrong = false;
    atomic_store(&two.produced, 0);
    atomic_store(&two.taken, 0);
    atomic_store(&two.gate, 0);
    two.rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
    two.a = tide_from_host(two.rt, TIDE_F32, SHAPE(SIDE, SIDE), host);
    two.b = tide_copy(two.a);
    tide_array *right = tide_matmul(two.a, two.b),
               *off = tide_zeros(two.rt, TIDE_F32, SHAPE(SIDE, SIDE));
    assert_array(off);
    assert_ok(tide_device_synchronize(two.rt));
    tide_runtime_figures before = test_stats(two.rt);
    assert_int_equal(pthread_create(&t, NULL, produce, NULL), 0);
    for (int i = 1; i <= two.rounds; i++) {
        while (atomic_load(&two.produced) < i) sched_yield();
        uint64_t waits = test_stats(two.rt).device_waits;
        /* at once, on this thread's stream: how far is the product off? */
        tide_array *next =
            tide_map(two.rt, "(off, c, right) -> off + abs(c - right)", off, two.c, right);
        assert_array(next);
        if (test_on_host() && i % 10 == 0) assert_true(test_stats(two.rt).device_waits > waits);
        atomic_store(&two.gate, i);
        tide_release(off);
        tide_release(two.c);
        off = next;
        atomic_store(&two.taken, i);
    }
    pthread_join(t, NULL);
    assert_false(two.wrong);
    tide_runtime_figures after = test_stats(two.rt);
    assert_int_equal(after.host_waits, before.host_waits);
    assert_true(after.device_waits > before.device_waits);
    tide_array *sum = tide_sum(off, NULL, 0, 0);
    assert_true(tide_item_f64(sum) == 0);
    tide_array *all[] = {two.a, two.b, right, off, sum};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(test_rt(two.rt)->devs[0].d), 0);
    tide_close(two.rt);
}

/* ---- E4 ---- */

/* However many elements are read in between, the host waits once. */
static void e04_a_fold_waits_once(void **state) {
    enum { N = 1 << 20 };
    static const tide_memory reached[] = {TIDE_MEMORY_PINNED, TIDE_MEMORY_UNIFIED};
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    for (unsigned k = 0; k < TIDEI_COUNT(reached); k++) {
        tide_array *a = tide_empty_in(rt, reached[k], TIDE_F32, SHAPE(N));
        if (!a) { /* there is no unified memory here */
            assert_error(TIDE_E_UNSUPPORTED, "unified");
            tide_error_clear();
            continue;
        }
        assert_ok(tide_fill(a, tide_arg_int(3)));
        uint64_t waits = test_stats(rt).host_waits;
        tide_host_view v;
        double sum = 0;
        assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
        for (int64_t i = 0; i < N; i++) sum += (double)TIDE_AT(float, &v, i);
        assert_ok(tide_host_view_end(&v));
        assert_true(sum == 3.0 * N);
        assert_true(test_stats(rt).host_waits <= waits + 1);
        tide_release(a);
    }
    tide_close(rt);
}

static void e04_device_memory_names_its_remedies(void **state) {
    tide_arg x;
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_array *a = tide_full(rt, TIDE_F32, SHAPE(10), tide_arg_int(7));
    assert_int_equal(tide_array_get(a, (int64_t[]){3}, &x), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "tide_to_host");
    assert_error(TIDE_E_UNSUPPORTED, "tide_to_memory");
    tide_error_clear();
    assert_int_equal(tide_thread_allow_scalar(rt, 1), 0);
    assert_ok(tide_array_get(a, (int64_t[]){3}, &x));
    assert_true(x.value.f == 7);
    tide_release(a);
    tide_close(rt);
}

/* ---- E6 ---- */

static void e06_freed_early(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
    tide_array *a = tide_zeros(rt, TIDE_F64, SHAPE(1));
    tide_free(a);
    tide_free(a); /* nothing more */
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_int_equal(test_stats(rt).live, 0);
    assert_null(tide_copy(a));
    assert_error(TIDE_E_FREED, "the array was freed");
    tide_error_clear();
    tide_release(a);
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e02_two_threads_and_no_synchronisation),
        cmocka_unit_test(e04_a_fold_waits_once),
        cmocka_unit_test(e04_device_memory_names_its_remedies),
        cmocka_unit_test(e06_freed_early),
    };
    return cmocka_run_group_tests_name("tracked", tests, NULL, NULL);
}
