/* test_bound_collector.c: collectors that are bound to a thread: it answers at its next safe point,
** or while it waits itself; who waits for it does so until it answers, calls again or ends, or the
** time is over. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include "gc/collector.h"
#include "gc/gc.h"
#include "tests/gc/keeper.h"

/* A collection is inside; it may go on. */
static sem_t inside, go_on;

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_collector_answers_later),
        cmocka_unit_test(a_bound_collector_answers_while_waiting),
        cmocka_unit_test(a_leader_waits_until_the_threads_next_call),
        cmocka_unit_test(a_late_answer_is_no_full_round),
        cmocka_unit_test(a_bound_collector_answers_in_a_climb),
        cmocka_unit_test(a_climb_waits_for_a_bound_collector),
        cmocka_unit_test(a_climb_that_waits_in_vain_fails_in_time),
        cmocka_unit_test(who_waits_for_owners_answers_too),
        cmocka_unit_test(nobody_waits_for_a_thread_that_ended),
    };
    return cmocka_run_group_tests_name("bound_collector", tests, NULL, NULL);
}
