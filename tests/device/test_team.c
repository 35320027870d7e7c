/* test_team.c: a host device's team of threads: each part of what a stream's worker shares is done
** once, helpers come, and where there is nobody to share with one thread does all. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/device/host_box.h"
#include "runtime/device/share.h"

static struct box *open_team(int threads) {
    struct box *b = new_box();
    tidei_device_params p = {
        .host_device_memory = 16 * TIDEI_MIB, .host_threads = threads, .rt = &b->rt};
    assert_ok(tidei_host_open(&p, &b->d));
    b->o = b->d->ops;
    for (int i = 0; i < NSTREAMS; i++) assert_ok(b->o->stream_new(b->d, &b->s[i]));
    assert_ok(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, MEMORY, &b->memory));
    return b;
}

/* A call of tidei_share on a stream, which counts how often each part was done. */
#define PARTS_MAX 3000
struct shared {
    size_t n;
    tidei_share_fn *part;
    size_t threads;        /* that may share, as the worker is told, */
    _Atomic size_t inside; /* and as a part is */
    atomic_int done[PARTS_MAX], arrived, gate;
    _Atomic long sum;
};

static void count_part(void *user, size_t i) {
    struct shared *s = user;
    atomic_fetch_add(&s->done[i], 1);
    atomic_store(&s->inside, tidei_share_threads());
}
static void share_it(const void *params) {
    struct shared *s = *(struct shared *const *)params;
    s->threads = tidei_share_threads();
    tidei_share(s->n, s->part, s);
}
static void launch_share(struct box *b, unsigned stream, struct shared *s) {
    assert_ok(launch_fn(b, stream, share_it, &s, sizeof s, 0, 0, 0));
}
static void assert_done(const struct shared *s, int times) {
    for (size_t i = 0; i < s->n; i++) assert_int_equal(atomic_load(&s->done[i]), times);
}

static void each_part_is_done_once(void **state) {
    static const int threads[] = {1, 2, 5, 40};
    static const size_t parts[] = {0, 1, 2, 3, 7, PARTS_MAX};
    (void)state;
    for (size_t t = 0; t < TIDEI_COUNT(threads); t++) {
        struct box *b = open_team(threads[t]);
        for (size_t k = 0; k < TIDEI_COUNT(parts); k++)
            for (int again = 0; again < 20; again++) {
                struct shared s = {.n = parts[k], .part = count_part};
                launch_share(b, 0, &s);
                finish(b, 0);
                assert_done(&s, 1);
                assert_int_equal(s.threads, threads[t]);
                if (s.n) assert_int_equal(atomic_load(&s.inside), 1); /* a part shares no more */
            }
        close_box(b);
    }
}

/* Parts that only end once all have begun, which the library's never do: there is a thread for
** each. */
static void meet(void *user, size_t i) {
    struct shared *s = user;
    atomic_fetch_add(&s->arrived, 1);
    while (atomic_load(&s->arrived) < (int)s->n) sched_yield();
    atomic_fetch_add(&s->done[i], 1);
}
static void as_many_threads_come_as_there_may_be(void **state) {
    (void)state;
    for (int threads = 2; threads <= 9; threads += 7) {
        struct box *b = open_team(threads);
        for (int again = 0; again < 10; again++) {
            struct shared s = {.n = (size_t)threads, .part = meet};
            launch_share(b, 0, &s);
            finish(b, 0);
            assert_done(&s, 1);
            if (again == 5) usleep(20000); /* they go to sleep, and wake again */
        }
        close_box(b);
    }
}

static void share_again(void *user, size_t i) {
    struct shared *s = user;
    (void)i;
    tidei_share(s->n, count_part, s);
}
static void parts_and_other_threads_share_with_nobody(void **state) {
    (void)state;
    struct box *b = open_team(3);
    struct shared s = {.n = 5, .part = share_again};
    launch_share(b, 0, &s);
    finish(b, 0);
    assert_done(&s, 5);
    struct shared mine = {.n = 5, .part = count_part};
    tidei_share(mine.n, mine.part, &mine);
    assert_done(&mine, 1);
    assert_int_equal(tidei_share_threads(), 1);
    close_box(b);
}

static void wait_for_gate(void *user, size_t i) {
    struct shared *s = user;
    atomic_fetch_add(&s->arrived, 1);
    while (!atomic_load(&s->gate)) sched_yield();
    atomic_fetch_add(&s->done[i], 1);
}
static void streams_do_not_wait_for_each_others_parts(void **state) {
    (void)state;
    struct box *b = open_team(3);
    struct shared held = {.n = 3, .part = wait_for_gate};
    launch_share(b, 0, &held);
    while (atomic_load(&held.arrived) < 3) sched_yield(); /* the whole team is busy */
    for (unsigned stream = 1; stream < NSTREAMS; stream++) {
        struct shared s = {.n = 100, .part = count_part};
        launch_share(b, stream, &s);
        finish(b, stream);
        assert_done(&s, 1);
    }
    atomic_store(&held.gate, 1);
    finish(b, 0);
    assert_done(&held, 1);
    close_box(b);
}

static void streams_take_turns_with_the_team(void **state) {
    enum { CALLS = 100 };
    (void)state;
    struct box *b = open_team(4);
    struct shared *s = calloc(NSTREAMS, sizeof *s);
    for (unsigned i = 0; i < NSTREAMS; i++) s[i].n = 50 + i, s[i].part = count_part;
    for (int call = 0; call < CALLS; call++)
        for (unsigned i = 0; i < NSTREAMS; i++) launch_share(b, i, &s[i]);
    for (unsigned i = 0; i < NSTREAMS; i++) {
        finish(b, i);
        assert_done(&s[i], CALLS);
    }
    free(s);
    close_box(b);
}

static void add_stretch(const void *user, size_t first, size_t end) {
    struct shared *s = (struct shared *)(uintptr_t)user;
    long sum = 0;
    for (size_t i = first; i < end; i++) sum += (long)i;
    if (end - first > 7 || first >= end || first % 7) atomic_store(&s->gate, 1);
    atomic_fetch_add(&s->sum, sum);
}
static void share_items(const void *params) {
    struct shared *s = *(struct shared *const *)params;
    tidei_share_items(s->n, 7, add_stretch, s);
}
static void items_are_shared_by_stretches(void **state) {
    (void)state;
    struct box *b = open_team(3);
    for (size_t n = 0; n < 60; n++) {
        struct shared s = {.n = n}, *at = &s;
        assert_ok(launch_fn(b, 0, share_items, &at, sizeof at, 0, 0, 0));
        finish(b, 0);
        assert_int_equal(atomic_load(&s.sum), (long)n * ((long)n - 1) / 2);
        assert_int_equal(atomic_load(&s.gate), 0); /* stretches are what they should be */
    }
    close_box(b);
}

static void look_at_signals(void *user, size_t i) {
    struct shared *s = user;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    atomic_fetch_add(&s->sum, sigismember(&mask, SIGINT) && sigismember(&mask, SIGPROF));
    meet(s, i);
}
static void helpers_leave_signals_to_the_program(void **state) {
    (void)state;
    struct box *b = open_team(3);
    struct shared s = {.n = 3, .part = look_at_signals};
    launch_share(b, 0, &s);
    finish(b, 0);
    assert_int_equal(atomic_load(&s.sum), 3);
    close_box(b);
}

static void a_forks_child_closes_without_the_team(void **state) {
    (void)state;
    struct box *b = open_team(3);
    struct shared s = {.n = 3, .part = meet};
    launch_share(b, 0, &s);
    finish(b, 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120);
        for (int i = 0; i < NSTREAMS; i++) b->o->stream_release(b->d, b->s[i]);
        b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
        b->o->close(b->d);
        _exit(atomic_load(&b->allocations) != 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    atomic_store(&s.arrived, 0);
    launch_share(b, 0, &s); /* the parent's goes on */
    finish(b, 0);
    assert_done(&s, 2);
    close_box(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_done_once),
        cmocka_unit_test(as_many_threads_come_as_there_may_be),
        cmocka_unit_test(parts_and_other_threads_share_with_nobody),
        cmocka_unit_test(streams_do_not_wait_for_each_others_parts),
        cmocka_unit_test(streams_take_turns_with_the_team),
        cmocka_unit_test(items_are_shared_by_stretches),
        cmocka_unit_test(helpers_leave_signals_to_the_program),
        cmocka_unit_test(a_forks_child_closes_without_the_team),
    };
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
