/* test_rounds.c: collecting as the runtime does it: foreign collectors' table, rounds of several
** threads, collectors bound to a thread, and the early trigger. */
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <unistd.h>
#include "gc/boehm.h"
#include "gc/collector.h"
#include "gc/gc.h"
#include "gc/policy.h"
#include "gc/roots.h"
#include "tests/gc/keeper.h"
#include "tests/support/logged.h"

/* ---- foreign collectors ---- */

static int never_collects(void *self, int level) {
    return (void)self, (void)level, TIDE_COLLECT_DONE;
}

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

/* ---- rounds of several threads ---- */

static sem_t inside, go_on;
static void pause_inside(mock_tracer *m) {
    if (atomic_load(&m->fulls) > 1) return;
    sem_post(&inside);
    sem_wait(&go_on);
}
static void *collect_in_thread(void *rt) {
    assert_ok(tide_collect(rt));
    return NULL;
}
static void *safepoint_in_thread(void *rt) {
    tide_safepoint(rt);
    return NULL;
}

static void one_thread_leads_a_round(void **state) {
    pthread_t leader, follower, asker;
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "256KiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    mock_drop(&m, mock_hold(&m, make(rt, 200 << 10))); /* the policy would collect at once */
    m.during = pause_inside;
    assert_int_equal(pthread_create(&leader, NULL, collect_in_thread, rt), 0);
    sem_wait(&inside);
    assert_int_equal(pthread_create(&follower, NULL, collect_in_thread, rt), 0);
    while (!atomic_load(&m.blocked)) sched_yield(); /* the follower waits, in the blocking region */
    assert_int_equal(pthread_create(&asker, NULL, safepoint_in_thread, rt), 0);
    pthread_join(asker, NULL); /* asking returns at once */
    sem_post(&go_on);
    pthread_join(leader, NULL);
    pthread_join(follower, NULL);
    assert_int_equal(atomic_load(&m.fulls), 1); /* the follower took the leader's for its own */
    assert_int_equal(atomic_load(&m.most_running), 1);
    assert_int_equal(test_stats(rt).collections, 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    assert_int_equal(atomic_load(&m.blocked), 0);
    keeper_close();
    mock_end(&m);
}

static void many_may_collect_at_once(void **state) {
    pthread_t threads[6];
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, MOCK_SHUFFLE);
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 10; i++) mock_drop(&m, mock_hold(&m, make(rt, 64)));
        for (unsigned i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, collect_in_thread, rt), 0);
        for (unsigned i = 0; i < 6; i++) pthread_join(threads[i], NULL);
        assert_int_equal(test_stats(rt).arrays, 0);
    }
    assert_int_equal(atomic_load(&m.most_running), 1);
    keeper_close();
    mock_end(&m);
}

/* A follower that wants a full collection and hears of a minor one's end only when the next round
** runs already: the level of that one is not the finished one's. */
static sem_t held, let_in;
static pthread_t late_thread;
static atomic_int waits, returned;
/* holds up the follower's first wait */
static void blocks_late(void *self, void (*fn)(void *), void *arg) {
    (void)self;
    if (pthread_equal(late_thread, pthread_self()) && atomic_fetch_add(&waits, 1) == 0) {
        sem_post(&held);
        sem_wait(&let_in);
    }
    fn(arg);
}
static void *collect_late(void *rt) {
    late_thread = pthread_self();
    assert_ok(tide_collect(rt));
    atomic_store(&returned, 1);
    return NULL;
}
static void pause_each_time(mock_tracer *m) {
    (void)m;
    sem_post(&inside);
    sem_wait(&go_on);
}
static void *minor_then_full(void *rt) {
    tidei_collect(test_rt(rt), TIDE_COLLECT_MINOR, "test", NULL);
    return collect_in_thread(rt);
}

/* ---- detaching at once ---- */

enum { LEAVERS = 6, LEAVES = 40 };
static struct {
    pthread_barrier_t at_once;
    tide_runtime *rt;
    uint64_t shared; /* the id that all detach */
    atomic_int attached, left, refused;
} leavers;

static void runs_in_region(void *self, void (*fn)(void *arg), void *arg) {
    (void)self;
    fn(arg);
}
static uint64_t attach_one(void) {
    const tide_collector c = {.struct_size = sizeof c,
                              .name = "short",
                              .collect = never_collects,
                              .blocking = runs_in_region};
    uint64_t id = 0;
    if (tide_collector_register(leavers.rt, &c, &id) == TIDE_OK)
        atomic_fetch_add(&leavers.attached, 1);
    return id;
}
static void *come_and_go(void *first) {
    for (int i = 0; i < LEAVES; i++) {
        uint64_t id = attach_one();
        pthread_barrier_wait(&leavers.at_once);
        if (tide_collector_unregister(leavers.rt, id) == TIDE_OK)
            atomic_fetch_add(&leavers.left, 1);
        if (first) leavers.shared = attach_one();
        pthread_barrier_wait(&leavers.at_once);
        tide_status s = tide_collector_unregister(leavers.rt, leavers.shared);
        if (s == TIDE_OK) atomic_fetch_add(&leavers.left, 1);
        if (s == TIDE_E_INVALID) atomic_fetch_add(&leavers.refused, 1);
    }
    return NULL;
}

static void threads_may_detach_at_once(void **state) {
    pthread_t threads[LEAVERS];
    (void)state;
    atomic_store(&leavers.attached, 0), atomic_store(&leavers.left, 0),
        atomic_store(&leavers.refused, 0);
    leavers.rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    pthread_barrier_init(&leavers.at_once, NULL, LEAVERS);
    for (int i = 0; i < LEAVERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, i == 0 ? &leavers : NULL),
                         0);
    for (int i = 0; i < LEAVERS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&leavers.at_once);
    assert_int_equal(atomic_load(&leavers.attached), (LEAVERS + 1) * LEAVES);
    assert_int_equal(atomic_load(&leavers.left), (LEAVERS + 1) * LEAVES);
    assert_int_equal(atomic_load(&leavers.refused), (LEAVERS - 1) * LEAVES);
    keeper_close();
}

static void a_follower_may_want_a_full_round(void **state) {
    pthread_t leader, follower;
    mock_tracer m;
    (void)state;
    sem_init(&inside, 0, 0), sem_init(&go_on, 0, 0), sem_init(&held, 0, 0), sem_init(&let_in, 0, 0);
    atomic_store(&waits, 0), atomic_store(&returned, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", TIDE_COLLECTOR_MINOR, 0);
    tide_collector late = {.struct_size = sizeof late,
                           .name = "late",
                           .collect = never_collects,
                           .blocking = blocks_late};
    assert_ok(tide_collector_register(rt, &late, NULL));
    m.during = pause_each_time;
    assert_int_equal(pthread_create(&leader, NULL, minor_then_full, rt), 0);
    sem_wait(&inside); /* the minor round runs */
    assert_int_equal(pthread_create(&follower, NULL, collect_late, rt), 0);
    sem_wait(&held); /* the follower is about to wait for it */
    sem_post(&go_on);
    sem_wait(&inside); /* the full round runs */
    sem_post(&let_in);
    while (!atomic_load(&returned) && atomic_load(&waits) < 2) sched_yield();
    assert_int_equal(atomic_load(&returned), 0); /* it waits for this one too */
    sem_post(&go_on);
    pthread_join(leader, NULL);
    pthread_join(follower, NULL);
    assert_int_equal(atomic_load(&m.fulls), 1);
    keeper_close();
    mock_end(&m);
}

/* A bound collector whose thread is elsewhere is asked, and answers at its thread's next safe
** point. */
static void *collect_and_look(void *p) {
    tide_runtime *rt = p;
    static char names[64];
    assert_ok(tide_collect(rt));
    test_rt(rt)->gc_ops->unreached(test_rt(rt), names, sizeof names);
    return names;
}

static void a_bound_collector_answers_later(void **state) {
    pthread_t other;
    void *names;
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "lua", TIDE_COLLECTOR_BOUND, 0);
    mock_drop(&m, mock_hold(&m, make(rt, 64)));
    assert_int_equal(pthread_create(&other, NULL, collect_and_look, rt), 0);
    pthread_join(other, &names);
    assert_string_equal(names, "lua (its thread is elsewhere)");
    assert_int_equal(atomic_load(&m.fulls), 0);
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&m.fulls), 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    assert_int_equal(test_stats(rt).collections, 1);
    tide_safepoint(rt); /* once is enough */
    assert_int_equal(atomic_load(&m.fulls), 1);
    mock_drop(&m, mock_hold(&m, make(rt, 64)));
    assert_int_equal(pthread_create(&other, NULL, collect_and_look, rt), 0);
    pthread_join(other, &names);
    tide_release(make(rt, 64)); /* an allocation is a safe point too, although the policy sleeps */
    assert_int_equal(atomic_load(&m.fulls), 2);
    assert_int_equal(atomic_load(&m.elsewhere), 0);
    keeper_close();
    mock_end(&m);
}

/* Its thread waits for another's round: it answers, and the leader waits for that. */
static mock_tracer leading;
static bool somebody_waits(tidei_gc *gc) {
    unsigned n = 0;
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++) n += gc->at[i].waits;
    pthread_mutex_unlock(&gc->lock);
    return n > 0;
}
static void wait_for_bound_follower(mock_tracer *m) {
    if (atomic_load(&m->minors) + atomic_load(&m->fulls) > 1) return;
    sem_post(&inside);
    while (!somebody_waits(tidei_gc_of(test_rt(m->rt)))) sched_yield();
}

static void answers_while_waiting(bool busy) {
    pthread_t other;
    void *names;
    mock_tracer bound;
    sem_init(&inside, 0, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&leading, rt, "first", 0, 0); /* holds up the leader until the follower waits */
    mock_open(&bound, rt, "bound", TIDE_COLLECTOR_BOUND, 0);
    leading.during = wait_for_bound_follower;
    mock_drop(&bound, mock_hold(&bound, make(rt, 64)));
    assert_int_equal(pthread_create(&other, NULL, collect_and_look, rt), 0);
    sem_wait(&inside);
    bound.busy = busy;
    assert_ok(tide_collect(rt)); /* follows */
    assert_int_equal(atomic_load(&bound.fulls), !busy);
    assert_int_equal(atomic_load(&bound.elsewhere), 0);
    assert_int_equal(test_stats(rt).arrays, busy);
    pthread_join(other, &names);
    assert_string_equal(names, busy ? "bound (busy)" : "");
    keeper_close();
    mock_end(&leading);
    mock_end(&bound);
}

static void a_bound_collector_answers_while_waiting(void **state) {
    (void)state;
    answers_while_waiting(false);
    answers_while_waiting(true); /* which is an answer too */
}

/* It was asked while it waited, and its blocking region is left by longjmp before it answered. */
static struct {
    pthread_t thread;
    jmp_buf catcher;
    unsigned left;
    bool goes_on; /* with another call */
} quitter;
static void quit_after_waiting(void *self, void (*fn)(void *arg), void *arg) {
    (void)self;
    fn(arg);
    if (!pthread_equal(pthread_self(), quitter.thread) || quitter.left) return;
    quitter.left++;
    longjmp(quitter.catcher, 1);
}
static __attribute__((noinline)) void collect_deep(tide_runtime *rt) {
    volatile char room[16384];
    room[0] = room[sizeof room - 1] = 0;
    assert_ok(tide_collect(rt));
    __asm__ __volatile__("" : : "r"(room) : "memory");
}
static void *wait_and_quit(void *p) {
    tide_runtime *rt = p;
    tide_collector c = {.struct_size = sizeof c,
                        .name = "left",
                        .caps = TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_BOUND,
                        .collect = never_collects,
                        .blocking = quit_after_waiting};
    quitter.thread = pthread_self();
    quitter.left = 0;
    assert_ok(tide_collector_register(rt, &c, NULL));
    sem_post(&go_on); /* the leader may begin */
    sem_wait(&inside);
    if (!setjmp(quitter.catcher)) collect_deep(rt);
    if (quitter.goes_on) {
        tide_safepoint(rt);
        assert_error(TIDE_E_INVALID, "was left without a return");
        sem_wait(&go_on);
    }
    return NULL;
}

/* The leader waits for it until the thread's next call, or its end, and no longer. */
static void a_leader_waits_until_the_threads_next_call(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        pthread_t other;
        char names[64];
        sem_init(&inside, 0, 0), sem_init(&go_on, 0, 0);
        quitter.goes_on = i;
        tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
        mock_open(&leading, rt, "first", 0, 0);
        leading.during = wait_for_bound_follower;
        assert_int_equal(pthread_create(&other, NULL, wait_and_quit, rt), 0);
        sem_wait(&go_on);
        assert_ok(tide_collect(rt));
        assert_int_equal(quitter.left, 1);
        test_rt(rt)->gc_ops->unreached(test_rt(rt), names, sizeof names);
        assert_string_equal(names, "left (its thread is elsewhere)");
        sem_post(&go_on);
        pthread_join(other, NULL);
        keeper_close();
        mock_end(&leading);
    }
}

/* What a bound collector does as it was asked to is its own round, but not everybody's. */
static void wait_for_a_follower(mock_tracer *m) {
    if (atomic_load(&m->fulls) > 1) return;
    sem_post(&inside);
    while (!atomic_load(&leading.blocked)) sched_yield();
}
static void *attach_and_answer_late(void *p) {
    mock_tracer *bound = p;
    mock_open(bound, keeper.rt, "bound", TIDE_COLLECTOR_BOUND, 0);
    bound->during = wait_for_a_follower;
    sem_post(&inside);
    sem_wait(&go_on);
    tide_safepoint(keeper.rt);
    return NULL;
}

static void a_late_answer_is_no_full_round(void **state) {
    pthread_t other;
    mock_tracer bound;
    (void)state;
    sem_init(&inside, 0, 0), sem_init(&go_on, 0, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&leading, rt, "first", 0, 0);
    assert_int_equal(pthread_create(&other, NULL, attach_and_answer_late, &bound), 0);
    sem_wait(&inside);
    assert_ok(tide_collect(rt)); /* asks it */
    assert_int_equal(atomic_load(&leading.fulls), 1);
    sem_post(&go_on);
    sem_wait(&inside);
    assert_ok(tide_collect(rt)); /* waits for its end, and has a round of its own */
    assert_int_equal(atomic_load(&leading.fulls), 2);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&bound.elsewhere), 0);
    keeper_close();
    mock_end(&leading);
    mock_end(&bound);
}

/* Its thread waits for another's climb, with a request of its own: it answers too, and the climb
** succeeds. */
/* Percent of the limit, which is as much as a page on some devices. */
static size_t part_of_limit(tide_runtime *rt, unsigned percent) {
    return atomic_load(&test_rt(rt)->devs[0].budget->limit) / 100 * percent;
}
static void *climb_in_thread(void *rt) {
    tide_array *a = make(rt, part_of_limit(rt, 60));
    if (!a) return (void *)1;
    tide_release(a);
    return NULL;
}

static void a_bound_collector_answers_in_a_climb(void **state) {
    pthread_t other;
    void *failed;
    mock_tracer bound;
    (void)state;
    COUNTS_ROUNDS();
    sem_init(&inside, 0, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB", .policy = "never"});
    mock_open(&leading, rt, "first", TIDE_COLLECTOR_MINOR, 0);
    mock_open(&bound, rt, "bound", TIDE_COLLECTOR_BOUND, 0);
    leading.during = wait_for_bound_follower;
    mock_drop(&bound, mock_hold(&bound, make(rt, part_of_limit(rt, 60))));
    assert_int_equal(pthread_create(&other, NULL, climb_in_thread, rt), 0);
    sem_wait(&inside);                                  /* the climb is at its minor collection */
    tide_array *mine = make(rt, part_of_limit(rt, 70)); /* waits for its end */
    pthread_join(other, &failed);
    assert_null(failed);
    assert_int_equal(atomic_load(&bound.elsewhere), 0);
    assert_true(atomic_load(&bound.fulls) > 0);
    if (!mine) mine = make(rt, part_of_limit(rt, 70)); /* the other one was still there */
    assert_array(mine);
    tide_release(mine);
    keeper_close();
    mock_end(&leading);
    mock_end(&bound);
}

/* A climb waits for a bound collector whose thread is elsewhere, as long as TIDE_COLLECT_WAIT
** says. */
typedef struct climber {
    tide_runtime *rt;
    atomic_bool done;
    tide_status status;
    char message[2000];
} climber;
static void *climb_and_tell(void *p) {
    climber *c = p;
    tide_array *a = make(c->rt, part_of_limit(c->rt, 60));
    c->status = a ? TIDE_OK : tide_error_last()->status;
    snprintf(c->message, sizeof c->message, "%s", tide_error_last()->message);
    tide_release(a);
    atomic_store(&c->done, true);
    return NULL;
}
static tide_runtime *open_waiting(mock_tracer *bound, const char *wait) {
    tide_runtime *rt = keeper_open(
        &kinds[0], (tide_config){.limit = "1MiB", .policy = "never", .collect_wait = wait});
    mock_open(bound, rt, "bound", TIDE_COLLECTOR_BOUND, 0);
    mock_drop(bound, mock_hold(bound, make(rt, part_of_limit(rt, 60))));
    return rt;
}

static void a_climb_waits_for_a_bound_collector(void **state) {
    pthread_t other;
    mock_tracer bound;
    climber c = {0};
    (void)state;
    COUNTS_ROUNDS();
    c.rt = open_waiting(&bound, "3600s"); /* whatever it takes */
    assert_int_equal(pthread_create(&other, NULL, climb_and_tell, &c), 0);
    while (!atomic_load(&c.done)) {
        tide_safepoint(c.rt);
        sched_yield();
    }
    pthread_join(other, NULL);
    assert_int_equal(c.status, TIDE_OK);
    /* The pool tide hands a dead array's block on at once, pending or not. Others have to see that
    ** its work is done, and a later rung may collect again before that. */
    bool at_once = test_rt(c.rt)->devs[0].pool->ops == &tidei_pool_tide;
    int fulls = atomic_load(&bound.fulls);
    assert_true(at_once ? fulls == 1 : fulls >= 1);
    assert_int_equal(atomic_load(&bound.elsewhere), 0);
    assert_int_equal(test_stats(c.rt).arrays, 0);
    keeper_close();
    mock_end(&bound);
}

/* Its thread waits for the climbing one, and so for itself: the request fails once the time is
** over, and says so. */
static void a_climb_that_waits_in_vain_fails_in_time(void **state) {
    static const struct {
        const char *wait, *said;
    } cases[] = {{"1ms", "bound (its thread is elsewhere, waited 1000 us)"},
                 {"0", "bound (its thread is elsewhere)"}};
    (void)state;
    COUNTS_ROUNDS();
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        pthread_t other;
        mock_tracer bound;
        climber c = {0};
        c.rt = open_waiting(&bound, cases[i].wait);
        assert_int_equal(pthread_create(&other, NULL, climb_and_tell, &c), 0);
        pthread_join(other, NULL);
        assert_int_equal(c.status, TIDE_E_NOMEM);
        if (!strstr(c.message, cases[i].said))
            fail_msg("no \"%s\" in: %s", cases[i].said, c.message);
        assert_int_equal(atomic_load(&bound.fulls), 0);
        /* what it was asked for it does now */
        tide_array *mine = make(c.rt, part_of_limit(c.rt, 60));
        assert_array(mine);
        assert_int_equal(atomic_load(&bound.fulls), 1);
        tide_release(mine);
        keeper_close();
        mock_end(&bound);
    }
}

/* Two threads with a bound collector each: while one climbs and waits for the other's, it answers
** what a third one asks. */
typedef struct owner {
    climber c;
    mock_tracer bound;
} owner;
static void *own_and_climb(void *p) {
    owner *o = p;
    mock_open(&o->bound, o->c.rt, "theirs", TIDE_COLLECTOR_BOUND, 0);
    climb_and_tell(&o->c);
    return NULL;
}

static void who_waits_for_owners_answers_too(void **state) {
    pthread_t other, third;
    mock_tracer mine;
    void *names;
    static owner o;
    (void)state;
    COUNTS_ROUNDS();
    memset(&o, 0, sizeof o);
    tide_runtime *rt = o.c.rt = open_waiting(&mine, "3600s");
    assert_int_equal(pthread_create(&other, NULL, own_and_climb, &o), 0);
    while (!somebody_waits(tidei_gc_of(test_rt(rt)))) sched_yield();
    int before = atomic_load(&o.bound.fulls);
    assert_int_equal(pthread_create(&third, NULL, collect_and_look, rt), 0);
    pthread_join(third, &names);
    assert_string_equal(names, "bound (its thread is elsewhere)");
    assert_int_equal(atomic_load(&o.bound.fulls), before + 1);
    assert_false(atomic_load(&o.c.done)); /* it waits on for mine */
    while (!atomic_load(&o.c.done)) {
        tide_safepoint(rt);
        sched_yield();
    }
    pthread_join(other, NULL);
    assert_int_equal(o.c.status, TIDE_OK);
    assert_int_equal(test_stats(rt).arrays, 0);
    assert_int_equal(atomic_load(&mine.elsewhere) + atomic_load(&o.bound.elsewhere), 0);
    keeper_close();
    mock_end(&mine);
    mock_end(&o.bound);
}

static void *attach_and_end(void *m) {
    mock_open(m, keeper.rt, "gone", TIDE_COLLECTOR_BOUND, 0);
    return NULL;
}

/* Nobody is waited for who has ended. */
static void nobody_waits_for_a_thread_that_ended(void **state) {
    pthread_t other;
    mock_tracer m;
    void *names;
    (void)state;
    tide_runtime *rt =
        keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF, .collect_wait = "3600s"});
    assert_int_equal(pthread_create(&other, NULL, attach_and_end, &m), 0);
    pthread_join(other, NULL);
    names = collect_and_look(rt);
    assert_string_equal(names, "gone (its thread has ended)");
    uint64_t patience = 1;
    assert_false(tidei_gc_await(test_rt(rt), &patience));
    assert_int_equal(patience, 1);
    assert_ok(tide_collector_unregister(rt, m.id));
    assert_string_equal(collect_and_look(rt), "");
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

/* ---- the early trigger ---- */

static void the_log_tells_each_round(void **state) {
    mock_tracer m;
    double ms;
    char rest[8];
    (void)state;
    COUNTS_ROUNDS();
    logged.n = 0;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB",
                                                            .policy = "cudajl",
                                                            .log = keep_line,
                                                            .log_level = TIDE_LOG_DEBUG});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 3; i++) mock_drop(&m, mock_hold(&m, make(rt, 1 << 20)));
    mock_hold(&m, make(rt, 64)); /* at 3 of 4 MiB */
    assert_int_equal(test_stats(rt).early_collections, 1);
    assert_int_equal(lines_with(TIDE_LOG_INFO, "early: collected 3.0 MiB in "), 1);
    for (unsigned i = 0; i < logged.n; i++)
        if (!strncmp(logged.line[i], "early", 5)) {
            assert_int_equal(
                sscanf(logged.line[i], "early: collected 3.0 MiB in %lf %7s", &ms, rest), 2);
            assert_string_equal(rest, "ms");
        }
    assert_ok(tide_collect(rt));
    assert_int_equal(lines_with(TIDE_LOG_INFO, "tide_collect: collected 0 bytes in "), 1);
    /* A climb has its line, and each collection in it, also where they bring nothing. */
    assert_null(make(rt, (4 << 20) - 1));
    assert_int_equal(lines_with(TIDE_LOG_INFO, ", which was not enough"), 1);
    unsigned lines = lines_with(TIDE_LOG_INFO, "reclaim: collected 0 bytes in ") +
                     lines_with(TIDE_LOG_INFO, "early: collected") +
                     lines_with(TIDE_LOG_INFO, "tide_collect: collected");
    assert_true(lines_with(TIDE_LOG_INFO, "reclaim: collected 0 bytes in ") > 0);
    assert_int_equal(lines, test_stats(rt).collections);
    keeper_close();
    mock_end(&m);
}

/* Below its pressure the policy sleeps; asked at a sync point it acts at half. */
static void the_policy_acts_early_at_sync_points(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 40; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    assert_int_equal(test_stats(rt).early_collections, 0); /* 2.46 of 4 MiB */
    assert_int_equal(test_rt(rt)->devs[0].memory->wake_at, 3 << 20);
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    assert_int_equal(test_stats(rt).early_collections, 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    keeper_close();
    mock_end(&m);
}

/* A round that ends while the policy's snapshot is taken: the policy is asked anew, not with
** figures from before it. */
static tide_runtime *asked;
static atomic_bool collects_once;
static uint64_t collecting_clock(void) {
    if (atomic_exchange(&collects_once, false)) {
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, collect_in_thread, asked), 0);
        pthread_join(other, NULL);
    }
    return tidei_now_ns();
}

static void a_round_may_end_while_the_policy_is_asked(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 40; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    assert_int_equal(test_stats(rt).collections, 0);
    asked = rt;
    atomic_store(&collects_once, true);
    test_rt(rt)->gc_counts.clock_ns = collecting_clock;
    /* 2.46 of 4 MiB: it would collect */
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    assert_int_equal(test_stats(rt).collections, 1);
    assert_int_equal(test_stats(rt).early_collections, 0);
    assert_int_equal(test_rt(rt)->devs[0].memory->wake_at, 0);
    keeper_close();
    mock_end(&m);
}

/* Early collections keep the ladder unclimbed, and are counted. */
static void early_collections_spare_the_ladder(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "reserve"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 400; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    tide_runtime_figures s = test_stats(rt);
    assert_in_range(s.early_collections, 6, 18); /* every 97 to 35 % of the limit */
    assert_int_equal(s.climbs, 0);
    assert_int_equal(s.collections, s.early_collections);
    assert_true(s.collect_max_ns <= s.collect_ns);
    assert_int_equal(s.collected, s.frees * (63 << 10));
    keeper_close();
    mock_end(&m);
}

static void early_collections_can_be_switched_off(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB", .gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 100; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.early_collections, 0);
    assert_true(s.climbs > 0); /* and yet nothing failed */
    keeper_close();
    mock_end(&m);
}

/* Data that really are live: collections that free nothing die out as the room shrinks. */
static void fruitless_collections_die_out(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "reserve"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 62; i++) mock_hold(&m, make(rt, 63 << 10));
    for (unsigned i = 0; i < 2000; i++) {
        tide_release(make(rt, 1024));
        tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    }
    assert_in_range(test_stats(rt).collections, 1, 12);
    keeper_close();
    mock_end(&m);
}

/* Without a tracing collector there is nobody to ask, and nothing is lost by asking. */
static void without_a_tracing_collector_nobody_is_asked(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB"});
    for (unsigned i = 0; i < 10; i++) hold(i, make(rt, 63 << 10));
    assert_true(test_rt(rt)->devs[0].memory->wake_at == SIZE_MAX);
    tidei_ask(test_rt(rt), &test_rt(rt)->devs[0], TIDEI_AT_SYNC, 0);
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).collections, 0);
    for (unsigned i = 0; i < 10; i++) drop(i);
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
        cmocka_unit_test(one_thread_leads_a_round),
        cmocka_unit_test(many_may_collect_at_once),
        cmocka_unit_test(threads_may_detach_at_once),
        cmocka_unit_test(a_follower_may_want_a_full_round),
        cmocka_unit_test(a_bound_collector_answers_later),
        cmocka_unit_test(a_bound_collector_answers_while_waiting),
        cmocka_unit_test(a_leader_waits_until_the_threads_next_call),
        cmocka_unit_test(a_late_answer_is_no_full_round),
        cmocka_unit_test(a_bound_collector_answers_in_a_climb),
        cmocka_unit_test(a_climb_waits_for_a_bound_collector),
        cmocka_unit_test(a_climb_that_waits_in_vain_fails_in_time),
        cmocka_unit_test(who_waits_for_owners_answers_too),
        cmocka_unit_test(nobody_waits_for_a_thread_that_ended),
        cmocka_unit_test(every_answer_is_told_or_counted),
        cmocka_unit_test(the_log_tells_each_round),
        cmocka_unit_test(the_policy_acts_early_at_sync_points),
        cmocka_unit_test(a_round_may_end_while_the_policy_is_asked),
        cmocka_unit_test(early_collections_spare_the_ladder),
        cmocka_unit_test(early_collections_can_be_switched_off),
        cmocka_unit_test(fruitless_collections_die_out),
        cmocka_unit_test(without_a_tracing_collector_nobody_is_asked),
        cmocka_unit_test(an_unknown_collector_is_told),
        cmocka_unit_test(libraries_of_the_device_are_known),
        cmocka_unit_test(libraries_without_roots_are_known),
    };
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
