/* test_collector_table.c: foreign collectors, by the table that each registers: what it may say,
** whose arrays are whose, what each is told of their weight, and what its answers mean; which
** libraries hold no references. */
#include <limits.h>
#include <pthread.h>
#include "gc/collector.h"
#include "gc/gc.h"
#include "gc/roots.h"
#include "tests/gc/keeper.h"
#include "tests/support/logged.h"

static void attach_refuses_wrong_arguments(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){0});
    tide_collector c = {.struct_size = sizeof c, .name = "c", .collect = never_collects};
    uint64_t ids[TIDE_COLLECTOR_TRACING + 8];
    assert_int_equal(tide_collector_register(NULL, &c, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_collector_register(rt, NULL, NULL), TIDE_E_INVALID);
    c.caps = 64;
    assert_int_equal(tide_collector_register(rt, &c, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "0x40");
    c.caps = 0;
    c.struct_size = 8;
    assert_int_equal(tide_collector_register(rt, &c, NULL), TIDE_E_INVALID);
    c.struct_size = sizeof c + 8;
    assert_int_equal(tide_collector_register(rt, &c, NULL), TIDE_E_INVALID);
    c.struct_size = sizeof c;
    c.collect = NULL;
    assert_int_equal(tide_collector_register(rt, &c, NULL), TIDE_E_INVALID);
    c.collect = never_collects;
    /* an older caller: the other slots are NULL */
    c.struct_size = offsetof(tide_collector, may_collect);
    for (int i = 0; i < 8; i++) assert_ok(tide_collector_register(rt, &c, &ids[i]));
    assert_int_equal(tide_collector_register(rt, &c, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "8 collectors");
    assert_ok(tide_collector_unregister(rt, ids[3]));
    tidei_gc *gc = tidei_gc_of(test_rt(rt));
    int next = gc->next_id;
    gc->next_id = INT_MAX; /* as after so many registrations */
    assert_int_equal(tide_collector_register(rt, &c, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "2147483646 collectors have been registered, the most");
    gc->next_id = next;
    assert_int_equal(tide_collector_unregister(rt, ids[3]), TIDE_E_INVALID);
    assert_int_equal(tide_collector_use(rt, ids[3]), TIDE_E_INVALID);
    assert_ok(tide_collector_register(rt, &c, &ids[8]));
    assert_true(ids[8] != ids[3]); /* ids are not used twice */
    assert_int_equal(tide_collector_unregister(rt, 0), TIDE_E_INVALID);
    assert_int_equal(tide_collector_unregister(rt, UINT64_MAX), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "no collector 18446744073709551615 is registered");
    assert_int_equal(tide_collector_unregister(NULL, ids[0]), TIDE_E_INVALID);
    assert_int_equal(tide_collector_use(NULL, 0), TIDE_E_INVALID);
    assert_int_equal(tide_collector_use(rt, UINT64_MAX), TIDE_E_INVALID);
    assert_ok(tide_collector_use(rt, 0));
    keeper_close();
}

static void an_owner_is_fixed_at_birth(void **state) {
    mock_tracer a, b;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    tide_array *own = make(rt, 64);
    mock_open(&a, rt, "a", 0, 0);
    tide_array *of_a = make(rt, 64);
    mock_open(&b, rt, "b", 0, 0);
    tide_array *of_b = make(rt, 64);
    assert_ok(tide_collector_use(rt, a.id));
    tide_array *of_a2 = make(rt, 64);
    assert_ok(tide_collector_use(rt, 0));
    tide_array *own2 = make(rt, 64);
    assert_int_equal(tidei_cell_header(own)->owner, 0);
    assert_int_equal(tidei_cell_header(own2)->owner, 0);
    assert_int_equal(tidei_cell_header(of_a)->owner, (uint32_t)a.id);
    assert_int_equal(tidei_cell_header(of_a2)->owner, (uint32_t)a.id);
    assert_int_equal(tidei_cell_header(of_b)->owner, (uint32_t)b.id);
    mock_drop(&a, mock_hold(&a, of_a));
    mock_drop(&a, mock_hold(&a, of_a2));
    mock_drop(&b, mock_hold(&b, of_b));
    assert_ok(tide_collect(rt)); /* asks both */
    assert_int_equal(atomic_load(&a.fulls), 1);
    assert_int_equal(atomic_load(&b.fulls), 1);
    assert_int_equal(test_stats(rt).arrays, 2);
    assert_ok(tide_collector_use(rt, b.id));
    assert_ok(tide_collector_unregister(rt, b.id));
    assert_int_equal(atomic_load(&b.detached), 1);
    tide_array *orphan = make(rt, 64); /* the thread's collector is gone: the runtime's first */
    assert_int_equal(tidei_cell_header(orphan)->owner, 0);
    tide_release(own);
    tide_release(own2);
    tide_release(orphan);
    assert_int_equal(test_stats(rt).arrays, 0);
    keeper_close();
    assert_int_equal(atomic_load(&a.detached), 1); /* by the close */
    mock_end(&a);
    mock_end(&b);
}

static void arrays_outlive_their_collector(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, 0);
    tide_array *a = make(rt, 64), *b = tide_retain(make(rt, 64));
    assert_ok(tide_collector_unregister(rt, m.id));
    tide_release(a);
    tide_release(b);
    assert_int_equal(test_stats(rt).arrays, 1);
    tide_release(b);
    assert_int_equal(test_stats(rt).arrays, 0);
    mock_end(&m);
    keeper_close();
}

/* The graph, not the order of its parts, says what is dead. */
static void the_graph_says_what_is_dead(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, MOCK_SHUFFLE | MOCK_CROSS);
    size_t o[6];
    for (unsigned i = 0; i < 6; i++) o[i] = mock_hold(&m, make(rt, 64));
    mock_link(&m, o[0], o[1]);
    mock_link(&m, o[1], o[2]);
    mock_link(&m, o[3], o[4]); /* a cycle */
    mock_link(&m, o[4], o[3]);
    for (unsigned i = 1; i < 6; i++) mock_drop(&m, o[i]);
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).arrays, 3);
    keeper_close();
    mock_end(&m);
}

static void busy_and_unsupported_are_answers(void **state) {
    char names[64];
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", TIDE_COLLECTOR_MINOR, 0);
    mock_drop(&m, mock_hold(&m, make(rt, 64)));
    m.busy = true;
    assert_ok(tide_collect(rt));
    assert_int_equal(atomic_load(&m.fulls), 0);
    assert_int_equal(test_stats(rt).collections, 0);
    test_rt(rt)->gc_ops->unreached(test_rt(rt), names, sizeof names);
    assert_string_equal(names, "m (busy)");
    m.busy = false;
    m.deaf = true; /* no full collection: the minor one then */
    assert_ok(tide_collect(rt));
    assert_int_equal(atomic_load(&m.minors), 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    test_rt(rt)->gc_ops->unreached(test_rt(rt), names, sizeof names);
    assert_string_equal(names, "");
    bool ran;
    test_rt(rt)->gc_ops->collect(test_rt(rt), TIDE_COLLECT_MINOR, "test", &ran);
    assert_true(ran);
    assert_int_equal(atomic_load(&m.minors), 2);
    keeper_close();
    mock_end(&m);
}

static void a_collector_is_told_what_its_objects_hold(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    tide_array *own = make(rt, 5000);
    mock_open(&m, rt, "m", 0, 0);
    size_t o = mock_hold(&m, make(rt, 1000));
    tide_array *view = tide_slice(m.objects[o].array, "1:2"); /* weighs nothing more */
    /* small growth is told at safe points */
    assert_int_equal(atomic_load(&m.pressure), 0);
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&m.pressure), 1000);
    size_t big = mock_hold(&m, make(rt, 3 << 20));
    assert_int_equal(atomic_load(&m.pressure), 1000 + (3 << 20));
    tide_release(view);
    mock_drop(&m, o);
    mock_drop(&m, big);
    assert_ok(tide_collect(rt)); /* what comes back in its drain is told at its end */
    assert_int_equal(atomic_load(&m.pressure), 0);
    tide_release(own);
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&m.pressure), 0);
    keeper_close();
    mock_end(&m);
}

static void *detach_in_thread(void *p) {
    mock_tracer *m = p;
    assert_ok(tide_collector_unregister(m->rt, m->id));
    return NULL;
}

/* Whoever detaches it tells it the rest: there is no other time. */
static void a_leaving_collector_is_told_the_rest(void **state) {
    pthread_t other;
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", TIDE_COLLECTOR_BOUND, 0);
    tide_array *told = make(rt, 3 << 20), *untold = make(rt, 1000);
    assert_int_equal(atomic_load(&m.pressure), 3 << 20);
    assert_int_equal(pthread_create(&other, NULL, detach_in_thread, &m), 0);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&m.detached), 1);
    assert_int_equal(atomic_load(&m.pressure), 0);
    tide_release(told);
    tide_release(untold);
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&m.pressure), 0);
    keeper_close();
    mock_end(&m);
}

/* Collectors come and go in one place, each of them told on its own thread, while another thread
** makes arrays of whichever is there and drops them: none is told of what was another's. */
static struct takers {
    tide_runtime *rt;
    _Atomic uint64_t id;
    atomic_bool over;
} takers;
static void *make_for_whoever_is_there(void *p) {
    struct takers *x = p;
    while (!atomic_load(&x->over))
        if (tide_collector_use(x->rt, atomic_load(&x->id)) == TIDE_OK)
            tide_release(make(x->rt, 1000));
    return NULL;
}

static void weight_stays_with_its_collector(void **state) {
    pthread_t maker;
    (void)state;
    takers.rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    atomic_store(&takers.over, false), atomic_store(&takers.id, UINT64_MAX);
    assert_int_equal(pthread_create(&maker, NULL, make_for_whoever_is_there, &takers), 0);
    for (int i = 0; i < (test_quick() ? 2000 : 20000); i++) {
        mock_tracer m;
        mock_open(&m, takers.rt, "m", TIDE_COLLECTOR_BOUND, 0);
        atomic_store(&takers.id, m.id);
        for (int k = 0; k < 3; k++) {
            tide_safepoint(takers.rt);
            if (atomic_load(&m.pressure) < 0)
                fail_msg("collector %llu: told of %lld bytes", (unsigned long long)m.id,
                         (long long)atomic_load(&m.pressure));
        }
        assert_ok(tide_collector_unregister(takers.rt, m.id));
        assert_int_equal(atomic_load(&m.pressure), 0);
        mock_end(&m);
    }
    atomic_store(&takers.over, true);
    pthread_join(maker, NULL);
    keeper_close();
}

/* Who is about to add to a collector's weight when that one leaves adds it in its place: which is
** not the next one's. */
static void weight_never_goes_to_the_next_collector(void **state) {
    mock_tracer gone, next, third;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&gone, rt, "gone", 0, 0);
    tidei_collector *place = &tidei_gc_of(test_rt(rt))->at[1];
    assert_int_equal(atomic_load(&place->id), gone.id);
    atomic_fetch_add(&place->weighing, 1); /* as that thread says */
    assert_ok(tide_collector_unregister(rt, gone.id));
    mock_open(&next, rt, "next", 0, 0);
    atomic_fetch_add(&place->weight, 1000);
    atomic_fetch_sub(&place->weighing, 1);
    mock_open(&third, rt, "third", 0, 0);
    assert_int_equal(atomic_load(&place->id), third.id);
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&gone.pressure) | atomic_load(&next.pressure) |
                         atomic_load(&third.pressure),
                     0);
    keeper_close();
    mock_end(&gone), mock_end(&next), mock_end(&third);
}

static void detach_itself(mock_tracer *m) {
    assert_int_equal(tide_collector_unregister(m->rt, m->id), TIDE_E_INVALID);
    assert_ok(tide_collect(m->rt)); /* inside a collection: does nothing */
    tidei_fail(TIDE_E_IO, "mock", "an error of the collector's own");
}

static void a_collection_does_not_begin_another(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, 0);
    m.during = detach_itself;
    tide_error_clear();
    assert_ok(tide_collect(rt));
    assert_int_equal(atomic_load(&m.fulls), 1);
    assert_int_equal(tide_error_last()->status, TIDE_OK); /* the caller's record is as it was */
    keeper_close();
    mock_end(&m);
}

/* What an answer means that is none: nothing was collected. It is told once, and listed. */
static int answers_seven(void *self, int level) { return ++*(int *)self, (void)level, 7; }
static int knows_nothing(void *self, int level) {
    return ++*(int *)self, (void)level, TIDE_COLLECT_UNSUPPORTED;
}
static int is_busy(void *self, int level) { return ++*(int *)self, (void)level, TIDE_COLLECT_BUSY; }

static void every_answer_is_told_or_counted(void **state) {
    int sevens = 0, nothings = 0, busies = 0;
    char names[200], little[12];
    (void)state;
    logged.n = 0;
    tide_runtime *rt = keeper_open(
        &kinds[0],
        (tide_config){.gc_early = TIDE_OFF, .log_level = TIDE_LOG_WARNING, .log = keep_line});
    const uint32_t traces = TIDE_COLLECTOR_TRACING;
    tide_collector odd = {.struct_size = sizeof odd,
                          .name = "odd",
                          .caps = traces,
                          .user = &sevens,
                          .collect = answers_seven};
    tide_collector blank = odd, busy = odd;
    blank.name = "blank", blank.caps |= TIDE_COLLECTOR_MINOR;
    blank.user = &nothings, blank.collect = knows_nothing;
    busy.name = NULL;
    busy.user = &busies, busy.collect = is_busy;
    assert_ok(tide_collector_register(rt, &odd, NULL));
    assert_ok(tide_collector_register(rt, &blank, NULL));
    assert_ok(tide_collector_register(rt, &busy, NULL));
    for (int i = 0; i < 2; i++) assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).collections, 0);
    assert_int_equal(sevens, 2);
    assert_int_equal(nothings, 2); /* either level once: who knows neither is not asked again */
    assert_int_equal(busies, 2);
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "collect of the collector \"odd\" answered 7"),
                     1);
    size_t n = test_rt(rt)->gc_ops->unreached(test_rt(rt), names, sizeof names);
    assert_string_equal(names, "odd (answered 7), blank (cannot), unnamed (busy)");
    assert_int_equal(n, strlen(names));
    /* as snprintf */
    assert_int_equal(test_rt(rt)->gc_ops->unreached(test_rt(rt), little, sizeof little), n);
    assert_string_equal(little, "odd (answer");
    assert_int_equal(test_rt(rt)->gc_ops->unreached(test_rt(rt), NULL, 0), n);
    keeper_close();
}

static void an_unknown_collector_is_told(void **state) {
    tide_config c = {.struct_size = sizeof c, .device = "host", .collector = "stop-and-copy"};
    tide_runtime *rt;
    (void)state;
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "refcount");
    assert_error(TIDE_E_INVALID, "stop-and-copy");
    c.collector = "refcount";
    c.policy = "hopeful";
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "reserve, cudajl, never");
#ifndef TIDEI_HAVE_BOEHM
    c.policy = NULL;
    c.collector = "boehm";
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "bdw-gc");
#endif
}

static void libraries_of_the_device_are_known(void **state) {
    static const char *const yes[] = {"libcuda.so.1",
                                      "/usr/lib/libcuda.so.580.65.06",
                                      "libcudart.so.13",
                                      "libcublas.so",
                                      "/opt/x/libcublasLt.so.13",
                                      "libcusolverMg.so.12",
                                      "libcusparse.so.12",
                                      "libcufftw.so.12",
                                      "libcurand.so.10",
                                      "libcudnn_ops.so.9",
                                      "libnccl.so.2",
                                      "libnvrtc.so.13",
                                      "libnvJitLink.so.13",
                                      "libnvidia-ml.so.1",
                                      "libcupti.so.13"};
    static const char *const no[] = {"",
                                     "libc.so.6",
                                     "libtidepool.so.0",
                                     "/usr/lib/libcuda/libm.so.6",
                                     "libcudacpp.so",
                                     "libopenblas.so.0",
                                     "mylibcublas.so",
                                     "libcurandom.so"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(yes); i++)
        assert_int_equal(tide_collector_is_device_library(yes[i]), 1);
    for (size_t i = 0; i < TIDEI_COUNT(no); i++)
        assert_int_equal(tide_collector_is_device_library(no[i]), 0);
    assert_int_equal(tide_collector_is_device_library(NULL), 0);
}

static void libraries_without_roots_are_known(void **state) {
    static const char *const yes[] = {"libcuda.so.1",
                                      "libcuda",
                                      "/usr/lib/libtidepool.so.0.1.0",
                                      "libopenblas.so.0",
                                      "/usr/lib/openblas-pthread/libopenblasp-r0.3.21.so",
                                      "libopenblas-r0.3.26.so",
                                      "libopenblaso.so.0",
                                      "libopenblas64.so",
                                      "libopenblas64_.so.0",
                                      "libopenblaso64_.so",
                                      "libopenblasp64-r0.3.21.so",
                                      "libopenblas64_p-r0-0cf96a72.3.23.dev.so",
                                      "libopenblas",
                                      "/lib/x86_64-linux-gnu/libasan.so.8",
                                      "liblsan.so.0",
                                      "/usr/lib/openblas-pthread/libblas.so.3",
                                      "liblapack.so.3",
                                      "liblapacke.so.3",
                                      "/lib/x86_64-linux-gnu/libdw.so.1",
                                      "libelf.so.1",
                                      "libubsan.so.1"};
    static const char *const no[] = {"",
                                     "/usr/lib/libtidepool/program",
                                     "libtidepools.so",
                                     "libc.so.6",
                                     "/usr/lib/libopenblas/program",
                                     "libopenblas_wrapper.so",
                                     "libopenblas-wrapper.so",
                                     "libopenblas-runner.so",
                                     "libopenblas-r.so",
                                     "libopenblaspp.so",
                                     "libopenblasplus.so",
                                     "libasana.so.1",
                                     "li",
                                     "lib",
                                     "libblaster.so.3",
                                     "liblapackext.so",
                                     "libdwarf.so.1",
                                     "/usr/lib/libelf/program",
                                     "dw.so",
                                     "libopenblas6.so",
                                     "libopenblas64s.so",
                                     "libopenblasify.so",
                                     "mylibopenblas.so"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(yes); i++) assert_true(tidei_has_no_roots(yes[i]));
    for (size_t i = 0; i < TIDEI_COUNT(no); i++) assert_false(tidei_has_no_roots(no[i]));
    assert_false(tidei_has_no_roots(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attach_refuses_wrong_arguments),
        cmocka_unit_test(an_owner_is_fixed_at_birth),
        cmocka_unit_test(arrays_outlive_their_collector),
        cmocka_unit_test(the_graph_says_what_is_dead),
        cmocka_unit_test(busy_and_unsupported_are_answers),
        cmocka_unit_test(a_collector_is_told_what_its_objects_hold),
        cmocka_unit_test(a_leaving_collector_is_told_the_rest),
        cmocka_unit_test(weight_stays_with_its_collector),
        cmocka_unit_test(weight_never_goes_to_the_next_collector),
        cmocka_unit_test(a_collection_does_not_begin_another),
        cmocka_unit_test(every_answer_is_told_or_counted),
        cmocka_unit_test(an_unknown_collector_is_told),
        cmocka_unit_test(libraries_of_the_device_are_known),
        cmocka_unit_test(libraries_without_roots_are_known),
    };
    return cmocka_run_group_tests_name("collector_table", tests, NULL, NULL);
}
