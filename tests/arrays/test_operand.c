/* test_operand.c: arrays that an operation makes for itself (tidei_temporary): kept whatever is
** collected on the way, and ended once: by the operation, or where a callback leaves it. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include "arrays/operand.h"
#include "tests/gc/keeper.h"

/* Memory that bdwgc has not: --wrap. */
#ifdef TIDEI_HAVE_BOEHM
static bool no_roots;
void *__real_GC_malloc_uncollectable(size_t n), *__wrap_GC_malloc_uncollectable(size_t n);
void *__wrap_GC_malloc_uncollectable(size_t n) {
    return no_roots ? NULL : __real_GC_malloc_uncollectable(n);
}
#endif

/* ---- collections ---- */

enum { MANY = 40, BYTES = 64 };

/* Words that no collector takes for addresses: arrays that nothing but their operation knows. */
static uintptr_t *hidden;
static tide_array *seen(int i) { return (tide_array *)~hidden[i]; }

static __attribute__((noinline)) void make_many(tide_runtime *rt, bool temporary) {
    for (int i = 0; i < MANY; i++) {
        tide_array *a = tide_full(rt, TIDE_U8, SHAPE(BYTES), tide_arg_int(i));
        assert_array(a);
        if (temporary) assert_ptr_equal(tidei_temporary(a, "test"), a);
        hidden[i] = ~(uintptr_t)a;
    }
}
static __attribute__((noinline)) void look_at_many(void) {
    unsigned char got[BYTES];
    for (int i = 0; i < MANY; i++) {
        assert_ok(tide_to_host(seen(i), got, sizeof got));
        assert_int_equal(got[0], i);
        assert_int_equal(got[BYTES - 1], i);
    }
}
static __attribute__((noinline)) void end_many(void) {
    for (int i = MANY; i-- > 0;) tidei_temporary_end(seen(i));
}

static void a_temporary_lives_through_collections(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        hidden = malloc(MANY * sizeof *hidden);
        make_many(rt, true);
        for (int i = 0; i < 3; i++) collect_all();
        assert_int_equal(test_stats(rt).arrays, MANY);
        look_at_many();
        end_many();
        assert_int_equal(test_stats(rt).arrays, 0); /* whether anything was collected or not */
        assert_true(tidei_runtime_valid(test_rt(rt)));
        free(hidden);
        keeper_close();
    }
}

/* That these collections end arrays that are no temporaries: under "boehm", which finds them. */
static void others_do_not_live_through_them(void **state) {
    (void)state;
    EACH_KIND(k) {
        if (!k->spare) continue;
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        hidden = malloc(MANY * sizeof *hidden);
        make_many(rt, false);
        collect_all();
        assert_arrays(rt, 0, BYTES);
        free(hidden);
        keeper_close();
    }
}

/* ---- its end ---- */

static void a_temporary_is_ended_once(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_error_clear();
    assert_null(tidei_temporary(NULL, "test")); /* what failed before it is left as it is */
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    tidei_temporary_end(NULL);
    for (int scoped = 0; scoped < 2; scoped++) {
        if (scoped) assert_ok(tide_scope_begin(rt));
        tide_array *a = tidei_temporary(make(rt, 5000), "test"),
                   *b = tidei_temporary(make(rt, 64), "test");
        assert_true(a && b);
        tidei_temporary_end(a); /* not the last one */
        assert_int_equal(test_stats(rt).arrays, 1);
        tidei_fail(TIDE_E_IO, "somebody", "what went wrong");
        tidei_temporary_end(b);
        assert_int_equal(test_stats(rt).live, 0);
        assert_error(TIDE_E_IO, "what went wrong");
        if (scoped) assert_ok(tide_scope_end(rt));
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_true(tidei_runtime_valid(test_rt(rt)));
    }
    tide_close(rt);
}

static void what_is_not_retained_is_dropped(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        tide_array *a = make(rt, 64);
        tide_free(a);
        assert_null(tidei_temporary(a, "tide_sum"));
        assert_error(TIDE_E_FREED, "freed");
        assert_string_equal(tide_error_last()->operation, "tide_sum");
        assert_int_equal(test_stats(rt).arrays, 0);
#ifdef TIDEI_HAVE_BOEHM
        if (k->spare) {
            a = make(rt, 64);
            no_roots = true;
            assert_null(tidei_temporary(a, "tide_sum"));
            no_roots = false;
            assert_int_equal(tide_error_last()->status, TIDE_E_HOST_NOMEM);
            assert_string_equal(tide_error_last()->operation, "tide_sum");
            assert_int_equal(test_stats(rt).arrays, 0);
        }
#endif
        assert_true(tidei_runtime_valid(test_rt(rt)));
        keeper_close();
    }
}

/* ---- callbacks that leave ---- */

static jmp_buf catcher;
static bool leaves;
static int collect_and_leave(void *self, int level) {
    (void)self, (void)level;
    if (!leaves) return TIDE_COLLECT_DONE;
    leaves = false;
    longjmp(catcher, 1);
}
static tide_runtime *open_leaving(void) {
    const tide_collector c = {.struct_size = sizeof c,
                              .name = "host",
                              .caps = TIDE_COLLECTOR_TRACING,
                              .collect = collect_and_leave};
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .gc_early = TIDE_OFF});
    assert_ok(tide_collector_register(rt, &c, NULL));
    return rt;
}

/* An operation that has a collection in its middle. */
static __attribute__((noinline)) void operate(tide_runtime *rt) {
    volatile char room[16384]; /* so that the next call is not as deep */
    room[0] = room[sizeof room - 1] = 0;
    tide_array *a = tidei_temporary(make(rt, 5000), "test"),
               *b = tidei_temporary(make(rt, 64), "test");
    (void)!tide_collect(rt);
    tidei_temporary_end(b);
    tidei_temporary_end(a);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}
static __attribute__((noinline)) void operate_and_leave(tide_runtime *rt) {
    leaves = true;
    if (setjmp(catcher)) return;
    operate(rt);
    fail_msg("it came back");
}

static void a_callback_that_leaves_ends_it(void **state) {
    (void)state;
    tide_runtime *rt = open_leaving();
    operate(rt);
    assert_int_equal(test_stats(rt).arrays, 0);
    for (int i = 0; i < 3; i++) {
        operate_and_leave(rt);
        tide_safepoint(rt);
        assert_error(TIDE_E_INVALID, "was left without a return");
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_int_equal(test_stats(rt).live, 0);
        assert_true(tidei_runtime_valid(test_rt(rt)));
    }
    tide_close(rt);
}

static sem_t left, closed;
static void *leave_and_sleep(void *rt) {
    operate_and_leave(rt);
    sem_post(&left);
    sem_wait(&closed);
    return NULL;
}

/* Or its thread's end, or the runtime's, by another thread. */
static void whoever_closes_ends_it(void **state) {
    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        pthread_t other;
        tide_runtime *rt = open_leaving();
        sem_init(&left, 0, 0), sem_init(&closed, 0, 0);
        assert_int_equal(pthread_create(&other, NULL, leave_and_sleep, rt), 0);
        sem_wait(&left);
        if (closes) tide_close(rt);
        sem_post(&closed);
        pthread_join(other, NULL);
        if (closes) continue;
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_temporary_lives_through_collections),
        cmocka_unit_test(others_do_not_live_through_them),
        cmocka_unit_test(a_temporary_is_ended_once),
        cmocka_unit_test(what_is_not_retained_is_dropped),
        cmocka_unit_test(a_callback_that_leaves_ends_it),
        cmocka_unit_test(whoever_closes_ends_it),
    };
    return cmocka_run_group_tests_name("operand", tests, NULL, NULL);
}
