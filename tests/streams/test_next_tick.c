/* test_next_tick.c: the tick that a stream gives out next, known before there is work of ours: for
** what others have queued there. */
#include "tests/streams/streams.h"
#include "runtime/pool/pools.h"

static tidei_stamp next(tidei_stream *s) {
    return (tidei_stamp){.tick = tidei_stream_next_tick(s), .stream = s->slot, .write = 1};
}

/* The work behind a gate stands for what another library has queued. */
static void it_comes_behind_what_is_queued(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *s = stream(rt);
    tidei_storage *x = storage(rt, s, BYTES);
    atomic_int gate = 0;
    (void)state;
    assert_ok(submit_work(s, x, NULL, 1, &gate));
    tidei_stamp at = next(s);
    assert_int_equal(next(s).tick, at.tick); /* nothing came between */
    assert_int_equal(tidei_stream_last_tick(s), at.tick);
    for (int i = 0; i < 10; i++) assert_false(tidei_stamp_done(s->dev, at));
    assert_int_equal(atomic_load(&s->submitted), at.tick); /* asking gave it out */
    assert_true(next(s).tick > at.tick);
    atomic_store(&gate, 1);
    while (!tidei_stamp_done(s->dev, at)) sched_yield();
    tidei_storage_release(x);
    half_close(rt);
}

/* Our next work has that tick, and its end says as much. */
static void the_next_work_has_it(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *s = stream(rt);
    tidei_storage *x = storage(rt, s, BYTES);
    (void)state;
    tidei_stamp at = next(s);
    assert_ok(submit_work(s, x, NULL, 1, NULL));
    assert_int_equal(atomic_load(&s->submitted), at.tick);
    assert_ok(tidei_stream_wait(s, true));
    assert_true(atomic_load(&s->completed) >= at.tick);
    tidei_storage_release(x);
    half_close(rt);
}

/* Whoever waits for the stream waits for it too. */
static void waits_cover_it(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *s = stream(rt);
    (void)state;
    tidei_stamp at = next(s);
    assert_ok(tidei_stream_wait(s, true));
    assert_true(tidei_stamp_done(s->dev, at));
    at = next(s);
    assert_ok(tidei_stream_finish(s));
    assert_true(atomic_load(&s->completed) >= at.tick);
    at = next(s);
    assert_ok(tidei_stamp_wait(s->dev, at));
    at = next(s);
    assert_ok(tidei_streams_wait_all(s->dev, true));
    assert_true(atomic_load(&s->completed) >= at.tick);
    half_close(rt);
}

/* So does another stream: its work comes behind. */
static void a_stream_that_follows_comes_behind(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *a = stream(rt), *b = stream(rt);
    tidei_storage *x = storage(rt, a, BYTES), *y = storage(rt, b, BYTES);
    atomic_int gate = 0;
    (void)state;
    assert_ok(submit_work(a, x, NULL, 1, &gate));
    tidei_stamp at = next(a);
    assert_ok(tidei_stream_follow(b, a, at.tick));
    assert_true(tidei_stamp_covered(b, at));
    assert_ok(submit_work(b, y, NULL, 2, NULL));
    tidei_stamp behind = {.tick = atomic_load(&b->submitted), .stream = b->slot};
    for (int i = 0; i < 10; i++) assert_false(tidei_stamp_done(b->dev, behind));
    atomic_store(&gate, 1);
    assert_int_equal(first_byte(y), 2);
    tidei_storage_release(x);
    tidei_storage_release(y);
    half_close(rt);
}

/* A stream is not retired before it, nor does a slot's next stream mistake it. */
static void streams_end_behind_it(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *s = stream(rt);
    tidei_storage *x = storage(rt, s, BYTES);
    atomic_int gate = 0;
    (void)state;
    assert_ok(submit_work(s, x, NULL, 1, &gate));
    tidei_stamp at = next(s);
    tidei_stream_drop(s);
    assert_non_null(s->ds);
    atomic_store(&gate, 1);
    while (s->ds) {
        tidei_streams_sweep(s->dev, false);
        sched_yield();
    }
    assert_true(tidei_stamp_done(s->dev, at));
    tidei_stamp late = next(s); /* by somebody who has not heard of its end */
    assert_true(tidei_stamp_done(s->dev, late));
    tidei_stream *other = stream(rt);
    assert_true(atomic_load(&other->submitted) >= at.tick);
    tidei_storage_release(x);
    half_close(rt);
}

/* A pool is not closed while what has such a tick may still use its memory. */
static void orphans_wait_for_it(void **state) {
    tidei_runtime *rt = half_open(NULL, 4 * TIDEI_MIB);
    tidei_stream *s = stream(rt);
    tidei_storage *x = storage(rt, s, BYTES);
    tide_pool *pool;
    atomic_int gate = 0;
    (void)state;
    assert_ok(tide_pool_new(rt->ref, NULL, &pool));
    void *block = tide_pool_malloc(pool, s->ref, BYTES);
    assert_non_null(block);
    assert_ok(submit_work(s, x, NULL, 1, &gate));
    tide_pool_free(pool, s->ref, block);
    tide_pool_release(pool);
    tidei_pools_sweep(s->dev);
    assert_int_equal(atomic_load(&s->dev->pools->orphans), 1);
    atomic_store(&gate, 1);
    assert_ok(tidei_streams_wait_all(s->dev, true));
    tidei_pools_sweep(s->dev);
    assert_int_equal(atomic_load(&s->dev->pools->orphans), 0);
    tidei_storage_release(x);
    half_close(rt);
}

/* Threads that learn it without a lock, beside one that gives ticks out: none is lost. */
static struct {
    tidei_stream *s;
    atomic_bool over;
} race;

static void *learn(void *arg) {
    uint64_t last = 0, *out = arg;
    while (!atomic_load(&race.over)) {
        uint64_t tick = tidei_stream_next_tick(race.s);
        assert_true(tick >= last);
        last = tick;
    }
    *out = last;
    return NULL;
}

static void none_is_lost_in_a_crowd(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_storage *x;
    pthread_t t[2];
    uint64_t last[2];
    (void)state;
    race.s = stream(rt);
    atomic_store(&race.over, false);
    x = storage(rt, race.s, BYTES);
    for (unsigned i = 0; i < 2; i++) pthread_create(&t[i], NULL, learn, &last[i]);
    for (int i = 0; i < (test_quick() ? 100 : 1000); i++) {
        assert_ok(submit_work(race.s, x, x, 1, NULL));
        (void)tidei_stamp_done(race.s->dev, next(race.s));
    }
    atomic_store(&race.over, true);
    for (unsigned i = 0; i < 2; i++) pthread_join(t[i], NULL);
    assert_ok(tidei_stream_wait(race.s, true));
    for (unsigned i = 0; i < 2; i++)
        assert_true(tidei_stamp_done(
            race.s->dev, (tidei_stamp){.tick = last[i], .stream = race.s->slot, .write = 1}));
    tidei_storage_release(x);
    half_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_behind_what_is_queued),
        cmocka_unit_test(the_next_work_has_it),
        cmocka_unit_test(waits_cover_it),
        cmocka_unit_test(a_stream_that_follows_comes_behind),
        cmocka_unit_test(streams_end_behind_it),
        cmocka_unit_test(orphans_wait_for_it),
        cmocka_unit_test(none_is_lost_in_a_crowd),
    };
    return cmocka_run_group_tests_name("next_tick", tests, NULL, NULL);
}
