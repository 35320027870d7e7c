/* test_rounds.c: rounds that several threads want at once: one leads, the others follow, and
** collectors leave meanwhile. */
#include <pthread.h>
#include <semaphore.h>
#include "tests/gc/keeper.h"

/* A collection is inside; it may go on. */
static sem_t inside, go_on;
static void pause_inside(mock_tracer *m) {
    if (atomic_load(&m->fulls) > 1) return;
    sem_post(&inside);
    sem_wait(&go_on);
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

/* ---- leaving at once ---- */

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_leads_a_round),
        cmocka_unit_test(many_may_collect_at_once),
        cmocka_unit_test(threads_may_detach_at_once),
        cmocka_unit_test(a_follower_may_want_a_full_round),
    };
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
