/* test_handles.c: the cache of library handles, over a library that only counts: who gets which
** handle, the cap, what is counted for it, how it gives way, and what a status of the library's
** leads to. E13 ("hoarding") is here: pending threads keep nothing. How room is made for a handle
** between blocks: test_handles_room.c. */
#include "tests/doubles/fake_library.h"

#define MANY 8

static tidei_handle_figures figures(const tidei_handle_kind *k) {
    tidei_handle_figures f;
    tidei_handles_figures(&fake.rt->devs[0], k, &f);
    return f;
}

/* ---- threads that are in calls at once ---- */

typedef struct caller {
    pthread_t thread;
    const tidei_handle_kind *kind;
    step step;
    tide_status status;
    /* (may be NULL) meets there after its call, twice, then calls once more */
    pthread_barrier_t *pending;
} caller;

static void *caller_main(void *p) {
    caller *c = p;
    tidei_thread *t = tidei_thread_get(fake.rt);
    tidei_stream *s = tidei_thread_stream(t);
    c->status = call_on(s, c->kind, &c->step);
    if (c->pending) {
        pthread_barrier_wait(c->pending);
        pthread_barrier_wait(c->pending);
        if (c->status == TIDE_OK) c->status = call_on(s, c->kind, &(step){0});
    }
    tide_thread_detach(fake.rt->ref);
    return NULL;
}
static void start(caller *c) {
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}
static void finish(caller *c) {
    pthread_join(c->thread, NULL);
    assert_int_equal(c->status, TIDE_OK);
}

/* ---- who gets which ---- */

static void one_handle_serves_all_streams(void **state) {
    (void)state;
    tidei_stream *s;
    assert_ok(tidei_stream_open(&fake.rt->devs[0], &s));
    for (int i = 0; i < 5; i++) {
        assert_ok(call());
        assert_ok(call_on(s, &one_kind, &(step){0}));
    }
    tide_stream_release(s->ref);
    assert_int_equal(fake.runs, 10);
    assert_int_equal(fake.made, 1);
    assert_int_equal(library(), TAKES);
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}));
    assert_int_equal(fake.made, 2);
    assert_int_equal(library(), 2 * TAKES);
}

static void calls_at_once_have_handles_of_their_own(void **state) {
    (void)state;
    pthread_barrier_t inside;
    caller c[4];
    pthread_barrier_init(&inside, NULL, TIDEI_COUNT(c) + 1);
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) {
        c[i] = (caller){.kind = &one_kind, .step.inside = &inside};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside);
    assert_int_equal(figures(&one_kind).made, 4);
    assert_int_equal(figures(&one_kind).idle, 0);
    uint64_t climb_id = tidei_climb_id_new(fake.rt);
    assert_int_equal(tidei_reclaimables_call(&fake.rt->devs[0], TIDEI_DROP, SIZE_MAX, climb_id),
                     0); /* those in calls stay */
    assert_int_equal(fake.destroyed, 0);
    pthread_barrier_wait(&inside);
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) finish(&c[i]);
    pthread_barrier_destroy(&inside);
    assert_int_equal(figures(&one_kind).idle, 4);
    assert_int_equal(library(), 4 * TAKES);
}

/* Of threads whose first calls come at once one makes the handle, which the others wait for: nobody
** climbs for a second one. */
static void first_calls_at_once_make_one_handle(void **state) {
    caller c[2] = {{.kind = &one_kind}, {.kind = &one_kind}};
    teardown(state);
    open_with("448KiB"); /* less than two handles */
    fake.await = 2;      /* both have seen that there is none */
    for (unsigned i = 0; i < 2; i++) start(&c[i]);
    for (unsigned i = 0; i < 2; i++) finish(&c[i]);
    assert_int_equal(fake.made, 1);
    assert_int_equal(library(), TAKES);
    assert_int_equal(test_stats(fake.rt->ref).climbs, 0);
}

/* As many calls at once as there are places; then their handles are idle, and another kind's is
** made in place of one. */
static void idle_handles_leave_another_kind_its_place(void **state) {
    enum { PLACES = 64 };
    (void)state;
    pthread_barrier_t inside;
    caller c[PLACES];
    fake.takes = PAGE;
    pthread_barrier_init(&inside, NULL, PLACES + 1);
    for (unsigned i = 0; i < PLACES; i++) {
        c[i] = (caller){.kind = &one_kind, .step.inside = &inside};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside);
    caller other = {.kind = &other_kind}; /* waits, there being no place at all */
    start(&other);
    pthread_barrier_wait(&inside);
    for (unsigned i = 0; i < PLACES; i++) finish(&c[i]);
    finish(&other);
    pthread_barrier_destroy(&inside);
    assert_int_equal(figures(&one_kind).idle, PLACES - 1);
    assert_int_equal(figures(&other_kind).idle, 1);
    assert_int_equal(library(), PLACES * PAGE);
    assert_ok(call());
    fake.no_context = true; /* nor does anybody wait for ever where none can go */
    assert_int_equal(call_on(fake.rt->devs[0].stream0, &third_kind, &(step){0}), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE,
                 "no place for a libthree handle: one of 64 others could not be destroyed");
    fake.no_context = false;
    assert_ok(call_on(fake.rt->devs[0].stream0, &third_kind, &(step){0}));
}

/* Under a limit that two handles do not fit into, the second caller waits for the first one's, and
** nobody climbs. */
static void a_duplicate_is_not_climbed_for(void **state) {
    (void)state;
    teardown(state);
    open_with("512KiB");
    pthread_barrier_t inside;
    caller first = {.kind = &one_kind, .step.inside = &inside}, second = {.kind = &one_kind};
    pthread_barrier_init(&inside, NULL, 2);
    start(&first);
    pthread_barrier_wait(&inside);
    start(&second);
    while (fake.runs == 0 && atomic_load(&fake.rt->devs[0].budget->live) < 2 * PAGE)
        sched_yield(); /* it has its workspace */
    pthread_barrier_wait(&inside);
    finish(&first);
    finish(&second);
    pthread_barrier_destroy(&inside);
    assert_int_equal(fake.made, 1);
    assert_ptr_equal(first.step.had, second.step.had);
    assert_int_equal(test_stats(fake.rt->ref).climbs, 0);
}

/* Workers that have used a handle and now sleep for ever hold none: all of it can be had, by
** whoever wants it. */
static void e13_sleeping_workers_hold_no_handle(void **state) {
    (void)state;
    pthread_barrier_t inside, pending;
    caller c[MANY];
    size_t before = device_free();
    pthread_barrier_init(&inside, NULL, MANY + 1);
    pthread_barrier_init(&pending, NULL, MANY + 1);
    for (unsigned i = 0; i < MANY; i++) {
        c[i] = (caller){
            .kind = i % 2 ? &one_kind : &other_kind, .step.inside = &inside, .pending = &pending};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside); /* all are in calls: as many handles as can be */
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&pending);
    assert_int_equal(library(), MANY * TAKES);
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(library(), 0);
    assert_int_equal(fake.destroyed, MANY);
    assert_int_equal(device_free(), before); /* the driver's figure and ours agree */
    pthread_barrier_wait(&pending);          /* who wakes up is served */
    for (unsigned i = 0; i < MANY; i++) finish(&c[i]);
    pthread_barrier_destroy(&pending);
    pthread_barrier_destroy(&inside);
    assert_int_equal(fake.runs, 2 * MANY);
}

/* ---- the cap ---- */

/* So many calls at once, each with a handle. */
static void calls_at_once(unsigned n) {
    pthread_barrier_t inside;
    caller c[MANY];
    pthread_barrier_init(&inside, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        c[i] = (caller){.kind = &one_kind, .step.inside = &inside};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside);
    assert_int_equal(figures(NULL).made, n);
    pthread_barrier_wait(&inside);
    for (unsigned i = 0; i < n; i++) finish(&c[i]);
    pthread_barrier_destroy(&inside);
}

static void the_least_recently_used_goes_beyond_the_cap(void **state) {
    (void)state;
    tidei_handles_set_cap(fake.rt, 2 * TAKES);
    calls_at_once(4);
    assert_int_equal(figures(NULL).idle, 2);
    assert_ok(call());
    /* a third: the older of the two goes */
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}));
    assert_int_equal(figures(&one_kind).idle, 1);
    assert_ok(call());
    assert_int_equal(fake.made, 5);    /* the one used last was not the one to go */
    tidei_handles_set_cap(fake.rt, 0); /* but for the last one of each kind */
    assert_int_equal(figures(NULL).idle, 2);
}

static void the_cap_is_a_setting(void **state) {
    teardown(state);
    setenv("TIDE_HANDLE_CACHE", "768KiB", 1);
    open_with(NULL);
    unsetenv("TIDE_HANDLE_CACHE");
    calls_at_once(MANY);
    assert_int_equal(figures(NULL).idle, 3);
}

/* ---- what is counted ---- */

static void bytes_are_reserved_before_and_measured_after(void **state) {
    (void)state;
    fake.takes = TAKES - PAGE;
    fake.expected = TAKES;
    assert_ok(call());
    assert_int_equal(library(), fake.takes);
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(library(), 0);
    fake.expected = fake.takes; /* from now on it is known */
    assert_ok(call());
    assert_int_equal(library(), fake.takes);
}

static void what_takes_more_than_expected_is_counted_so(void **state) {
    (void)state;
    fake.takes = TAKES + PAGE;
    assert_ok(call());
    assert_int_equal(library(), fake.takes);
}

/* What another process takes at the same moment is not the handle's, nor does a later handle take
** another amount. */
static void what_others_take_is_not_counted(void **state) {
    (void)state;
    fake.others_take = 4 * TAKES;
    assert_ok(call());
    assert_int_equal(library(), TAKES);
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, fake.others, fake.others_take);
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    fake.others_take = TAKES / 2;
    assert_ok(call());
    assert_int_equal(library(), TAKES);
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, fake.others, fake.others_take);
}

/* Beyond the soft limit what the pools hold idle goes before a handle is made. */
static void a_handle_keeps_to_the_soft_limit(void **state) {
    (void)state;
    assert_ok(tide_device_set_soft_limit(fake.rt->ref, 8 * TAKES));
    tidei_storage_release(hold(8 * TAKES)); /* cached */
    assert_int_equal(atomic_load(&fake.rt->devs[0].budget->backed), 8 * TAKES);
    assert_ok(call());
    assert_true(atomic_load(&fake.rt->devs[0].budget->backed) + library() <= 8 * TAKES);
    assert_int_equal(test_stats(fake.rt->ref).climbs, 0);
}

static void a_handle_keeps_to_the_limit(void **state) {
    (void)state;
    teardown(state);
    open_with("1MiB");
    tidei_storage *rest = hold(TIDEI_MIB - TAKES);
    fake.takes = TAKES + PAGE;
    assert_int_equal(call(), TIDE_E_NOMEM); /* it was made, and was more than expected */
    assert_error(TIDE_E_NOMEM, "a libone handle takes 327680 bytes, more than the limit leaves");
    assert_true(fake.made >= 1 && fake.made == fake.destroyed);
    int made = fake.made;
    assert_int_equal(call(), TIDE_E_NOMEM); /* which is known now */
    assert_int_equal(fake.made, made);
    assert_int_equal(library(), 0);
    tidei_storage_release(rest);
    assert_ok(call()); /* having trimmed what was let go */
    assert_int_equal(library(), fake.takes);
}

/* ---- giving way ---- */

/* Two kinds, two handles each. */
static void two_of_each(void) {
    const tidei_handle_kind *const kinds[] = {&one_kind, &other_kind};
    for (unsigned k = 0; k < 2; k++) {
        pthread_barrier_t inside;
        caller c[2];
        pthread_barrier_init(&inside, NULL, 3);
        for (unsigned i = 0; i < 2; i++) {
            c[i] = (caller){.kind = kinds[k], .step.inside = &inside};
            start(&c[i]);
        }
        pthread_barrier_wait(&inside);
        pthread_barrier_wait(&inside);
        for (unsigned i = 0; i < 2; i++) finish(&c[i]);
        pthread_barrier_destroy(&inside);
    }
    assert_int_equal(figures(NULL).idle, 4);
}

static void purge_leaves_what_was_used_last(void **state) {
    (void)state;
    two_of_each();
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(fake.destroyed, 2);
    assert_ok(call());
    assert_int_equal(fake.made, 4);
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 4);
    assert_int_equal(library(), 0);
}

/* The climb takes as many as the request needs, and of what is in use the last one only where
** nothing else helps. */
static void the_ladder_takes_what_it_needs(void **state) {
    (void)state;
    teardown(state);
    open_with("4MiB");
    two_of_each();
    /* the workspaces; and of each kind one */
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_SYNC, NULL));
    assert_int_equal(fake.destroyed, 2);
    tidei_storage *rest = hold(4 * TIDEI_MIB - 2 * TAKES);
    assert_int_equal(fake.destroyed, 2);
    tidei_storage *more = hold(PAGE);
    assert_int_equal(library(), TAKES); /* one kind's: the older one */
    assert_int_equal(figures(&one_kind).made, 0);
    tidei_storage *most = hold(2 * TAKES - PAGE);
    assert_int_equal(library(), 0);
    assert_int_equal(call(), TIDE_E_NOMEM);
    tidei_storage_release(most);
    assert_ok(call());
    tidei_storage_release(more);
    tidei_storage_release(rest);
}

/* A call in progress keeps the handle that it is about to use, while it makes room for what it
** needs besides. */
static void a_call_in_progress_keeps_a_handle(void **state) {
    (void)state;
    teardown(state);
    open_with("1MiB");
    assert_ok(call());
    tidei_storage *rest = hold(TIDEI_MIB - TAKES), *more;
    tidei_dev *d = &fake.rt->devs[0];
    assert_int_equal(call(), TIDE_E_NOMEM); /* no room for its workspace */
    assert_int_equal(fake.destroyed, 0);
    tidei_library_keep(d, &one_kind);
    assert_int_equal(tidei_storage_new(d, PAGE, d->stream0, "test", &more), TIDE_E_NOMEM);
    tidei_library_unkeep(d, &one_kind);
    assert_int_equal(fake.destroyed, 0);
    assert_ok(tidei_storage_new(d, PAGE, d->stream0, "test", &more));
    assert_int_equal(fake.destroyed, 1);
    tidei_storage_release(more);
    tidei_storage_release(rest);
}

static void one_that_fails_does_not_stop_the_others(void **state) {
    (void)state;
    two_of_each();
    fake.fail_destroy = 1;
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 4);
    assert_int_equal(figures(NULL).made, 0);
    assert_int_equal(library(), TAKES); /* what did not come back, as far as anybody knows */
    assert_true(lines_with(TIDE_LOG_WARNING, "error 9 in destroying a handle of 262144 bytes") >=
                1);
    assert_ok(call());
}

/* What cannot be destroyed now stays whole, and counted. */
static void without_a_context_nothing_is_lost(void **state) {
    (void)state;
    two_of_each();
    fake.no_context = true;
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 0);
    assert_int_equal(library(), 4 * TAKES);
    fake.no_context = false;
    assert_ok(call());
    assert_int_equal(fake.made, 4);
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(library(), 0);
}

/* ---- statuses ---- */

static void a_call_that_lacks_memory_climbs_and_repeats(void **state) {
    (void)state;
    size_t bytes;
    assert_ok(call());
    tidei_addr full = fill_device(2 * PAGE, &bytes);
    step x = {0};
    fake.fail_run = NO_MEMORY;
    fake.fail_runs = 2;
    assert_ok(call_on(fake.rt->devs[0].stream0, &one_kind, &x));
    assert_int_equal(x.again, 2); /* its operands were brought back each time */
    assert_int_equal(test_stats(fake.rt->ref).climbs, 1);
    fake.fail_runs = 1000;
    assert_int_equal(call(), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "libone: error 3 in a call of the test's with");
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
    fake.fail_runs = 0;
    assert_ok(call());
}

/* The same status with memory in plenty is something else, as are other statuses: nothing is
** collected for them. */
static void other_failures_do_not_climb(void **state) {
    (void)state;
    static const unsigned statuses[] = {NO_MEMORY, BROKEN};
    size_t bytes;
    for (int full = 0; full < 2; full++)
        for (unsigned i = 0; i < 2; i++) {
            if (full && statuses[i] == NO_MEMORY) continue;
            assert_ok(call());
            tidei_addr at = full ? fill_device(2 * PAGE, &bytes) : 0;
            step x = {0};
            fake.fail_run = statuses[i];
            fake.fail_runs = 1;
            assert_int_equal(call_on(fake.rt->devs[0].stream0, &one_kind, &x), TIDE_E_DEVICE);
            assert_error(TIDE_E_DEVICE, "in a call of the test's");
            assert_int_equal(x.again, 0);
            if (full) device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, at, bytes);
        }
    fake.fail_create = NO_MEMORY;
    assert_int_equal(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "memory is not the reason");
    assert_int_equal(test_stats(fake.rt->ref).climbs, 0);
    assert_int_equal(test_stats(fake.rt->ref).collections, 0);
}

/* A handle that the library has no memory for is made of what the pool holds free. */
static void making_a_handle_climbs(void **state) {
    (void)state;
    size_t bytes;
    tidei_storage_release(hold(4 * TAKES)); /* cached */
    tidei_addr full = fill_device(2 * PAGE, &bytes);
    assert_ok(call());
    assert_int_equal(fake.made, 1);
    assert_int_equal(test_stats(fake.rt->ref).climbs, 1);
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
}

/* ---- all at once ---- */

typedef struct storm {
    pthread_t thread;
    unsigned seed;
    atomic_bool *stop;
    tide_status status;
} storm;

static void *storm_main(void *p) {
    storm *x = p;
    tidei_stream *s = tidei_thread_stream(tidei_thread_get(fake.rt));
    int rounds = test_quick() ? 100 : 400;
    for (int i = 0; i < rounds && x->status == TIDE_OK; i++)
        x->status = call_on(s, (x->seed + (unsigned)i) % 3 ? &one_kind : &other_kind, &(step){0});
    tide_thread_detach(fake.rt->ref);
    return NULL;
}
static void *reclaimer_main(void *p) {
    storm *x = p;
    while (!atomic_load(x->stop) && x->status == TIDE_OK)
        x->status = tide_reclaim(fake.rt->ref,
                                 x->seed++ % 2 ? TIDE_RECLAIM_PURGE : TIDE_RECLAIM_DROP, NULL);
    tide_thread_detach(fake.rt->ref);
    return NULL;
}

/* Callers and a reclaimer: each call has a handle to itself, whole; what is counted is what is
** there. */
static void callers_and_a_reclaimer(void **state) {
    (void)state;
    atomic_bool stop = false;
    storm c[4], r = {.stop = &stop};
    tidei_handles_set_cap(fake.rt, 3 * TAKES);
    assert_int_equal(pthread_create(&r.thread, NULL, reclaimer_main, &r), 0);
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) {
        c[i] = (storm){.seed = i};
        assert_int_equal(pthread_create(&c[i].thread, NULL, storm_main, &c[i]), 0);
    }
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].status, TIDE_OK);
    }
    atomic_store(&stop, true);
    pthread_join(r.thread, NULL);
    assert_int_equal(r.status, TIDE_OK);
    assert_int_equal(library(), (size_t)(fake.made - fake.destroyed) * TAKES);
    assert_int_equal(figures(NULL).idle, figures(NULL).made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(one_handle_serves_all_streams),
        CASE(calls_at_once_have_handles_of_their_own),
        CASE(first_calls_at_once_make_one_handle),
        CASE(idle_handles_leave_another_kind_its_place),
        CASE(a_duplicate_is_not_climbed_for),
        CASE(e13_sleeping_workers_hold_no_handle),
        CASE(the_least_recently_used_goes_beyond_the_cap),
        CASE(the_cap_is_a_setting),
        CASE(bytes_are_reserved_before_and_measured_after),
        CASE(what_takes_more_than_expected_is_counted_so),
        CASE(what_others_take_is_not_counted),
        CASE(a_handle_keeps_to_the_soft_limit),
        CASE(a_handle_keeps_to_the_limit),
        CASE(purge_leaves_what_was_used_last),
        CASE(the_ladder_takes_what_it_needs),
        CASE(a_call_in_progress_keeps_a_handle),
        CASE(one_that_fails_does_not_stop_the_others),
        CASE(without_a_context_nothing_is_lost),
        CASE(a_call_that_lacks_memory_climbs_and_repeats),
        CASE(other_failures_do_not_climb),
        CASE(making_a_handle_climbs),
        CASE(callers_and_a_reclaimer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
