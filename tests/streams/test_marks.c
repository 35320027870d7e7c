/* test_marks.c: streams that others wait for make events on the way, so that nobody waits for all
** that was submitted since. */
#include "tests/streams/streams.h"
#include "tests/support/no_malloc.h"

/* A wait of a stream of its own for (from, tick); returns it. */
static tidei_stream *follower(tidei_runtime *rt, tidei_stream *from, uint64_t tick) {
    tidei_stream *s = stream(rt);
    assert_ok(tidei_stream_follow(s, from, tick));
    return s;
}
static uint64_t seen(const tidei_stream *s, const tidei_stream *of) {
    return atomic_load(&s->seen[of->slot]);
}

/* `s` makes marks from now on: somebody waited for its first work when there was more behind it. */
static void make_followed(tidei_runtime *rt, tidei_stream *s, tidei_storage *x) {
    for (int i = 0; i < 2; i++) assert_ok(submit_work(s, x, NULL, 0, NULL));
    uint64_t last = atomic_load(&s->submitted);
    tidei_stream *f = follower(rt, s, last - 1);
    assert_int_equal(seen(f, s), last);
    tide_stream_release(f->ref);
}

static void a_wait_is_not_for_later_work(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_stream *a = stream(rt), *b = stream(rt);
    tidei_storage *x = storage(rt, a, BYTES), *later = storage(rt, a, BYTES),
                  *y = storage(rt, b, BYTES);
    atomic_int gate = 0;
    (void)state;
    make_followed(rt, a, x);
    assert_ok(submit_work(a, x, NULL, 3, NULL));
    uint64_t wanted = atomic_load(&a->submitted);
    assert_ok(submit_work(a, later, NULL, 5, &gate));
    assert_ok(submit_work(b, y, x, 4, NULL));
    assert_int_equal(seen(b, a), wanted);
    assert_int_equal(first_byte(y), 7); /* while the later work cannot go on */
    assert_int_equal(atomic_load(&a->completed) > wanted, false);
    atomic_store(&gate, 1);
    assert_int_equal(first_byte(later), 5);
    assert_true(atomic_load(&d->waits->device_waits) >= 2);
    tidei_storage_release(x);
    tidei_storage_release(later);
    tidei_storage_release(y);
    half_close(rt);
}

/* What a stream waited for before a mark comes with it, what it waited for since does not. */
static void a_mark_knows_what_was_seen(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *a = stream(rt), *before = stream(rt), *since = stream(rt), *b = stream(rt);
    tidei_storage *x = storage(rt, a, BYTES), *p = storage(rt, before, BYTES),
                  *q = storage(rt, since, BYTES);
    atomic_int gate = 0;
    (void)state;
    make_followed(rt, a, x);
    assert_ok(submit_work(before, p, NULL, 1, &gate));
    assert_ok(submit_work(since, q, NULL, 1, &gate));
    assert_ok(submit_work(a, x, p, 1, NULL));
    uint64_t wanted = atomic_load(&a->submitted);
    assert_ok(submit_work(a, x, q, 1, NULL));
    assert_ok(tidei_stream_follow(b, a, wanted));
    assert_int_equal(seen(b, a), wanted);
    assert_int_equal(seen(b, before), 1);
    assert_int_equal(seen(b, since), 0);
    atomic_store(&gate, 1);
    tidei_storage_release(x);
    tidei_storage_release(p);
    tidei_storage_release(q);
    half_close(rt);
}

/* Another thread makes the stream wait for a third one just when its event has been recorded, or is
** about to be. */
static struct {
    struct tidei_device_ops ops;
    const struct tidei_device_ops *real;
    tidei_stream *from, *third;
} racing;
static tide_status record_then_wait(tidei_device *d, tidei_devent *e, tidei_dstream *ds) {
    tide_status status = racing.real->event_record(d, e, ds);
    if (status == TIDE_OK && racing.third) {
        tidei_stream *third = racing.third;
        racing.third = NULL;
        status = tidei_stream_follow(racing.from, third, 1);
    }
    return status;
}
static void a_mark_does_not_know_what_comes_after(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_device *d = rt->devs[0].d;
    tidei_stream *a = stream(rt), *third = stream(rt), *b = stream(rt);
    tidei_storage *x = storage(rt, a, BYTES), *q = storage(rt, third, BYTES);
    atomic_int gate = 0;
    (void)state;
    racing.real = d->ops;
    racing.ops = *d->ops;
    racing.ops.event_record = record_then_wait;
    d->ops = &racing.ops;
    assert_ok(submit_work(third, q, NULL, 1, &gate));
    assert_ok(submit_work(a, x, NULL, 1, NULL));
    racing.from = a;
    racing.third = third;
    assert_ok(tidei_stream_follow(b, a, 1));
    assert_int_equal(seen(a, third), 1);
    assert_int_equal(seen(b, third), 0);
    d->ops = racing.real;
    atomic_store(&gate, 1);
    tidei_storage_release(x);
    tidei_storage_release(q);
    half_close(rt);
}

static void marks_are_for_who_is_waited_for(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *a = stream(rt);
    tidei_storage *x = storage(rt, a, BYTES);
    (void)state;
    for (int i = 0; i < 200; i++) assert_ok(submit_work(a, x, NULL, 1, NULL));
    assert_int_equal(a->nmarks, 0);
    uint64_t last = atomic_load(&a->submitted);
    tide_stream_release(follower(rt, a, last)->ref); /* nothing behind it: no reason for more */
    assert_int_equal(a->nmarks, 1);
    for (int i = 0; i < 200; i++) assert_ok(submit_work(a, x, NULL, 1, NULL));
    assert_int_equal(a->nmarks, 1);
    make_followed(rt, a, x); /* after a long while: the marks are far apart */
    uint64_t gap = a->gap;
    assert_true(gap > 20 && gap <= atomic_load(&a->submitted));
    make_followed(rt, a, x);
    assert_int_equal(a->gap, 1);
    last = atomic_load(&a->submitted);
    for (int i = 0; i < 200; i++) assert_ok(submit_work(a, x, NULL, 1, NULL));
    assert_int_equal(a->nmarks, TIDEI_STREAM_MARKS);
    assert_int_equal(a->credit, 0); /* it has stopped */
    tidei_stream *f = follower(rt, a, last + TIDEI_STREAM_MARKS - 3);
    assert_int_equal(seen(f, a), last + TIDEI_STREAM_MARKS - 3);
    tide_stream_release(f->ref);
    f = follower(rt, a, 1);
    assert_int_equal(seen(f, a), last + 1); /* the earliest there is */
    tide_stream_release(f->ref);
    f = follower(rt, a, last + TIDEI_STREAM_MARKS + 1);
    assert_int_equal(seen(f, a), last + 200);
    tide_stream_release(f->ref);
    assert_ok(tidei_stream_wait(a, true));
    tide_stream_release(a->ref);
    tidei_streams_sweep(&rt->devs[0], false);
    for (unsigned i = 0; i < TIDEI_STREAM_MARKS; i++) assert_null(a->marks[i].event);
    tidei_storage_release(x);
    half_close(rt);
}

/* Waits at random, against what each stream had seen by each of its ticks: who waits for a tick
** gets at least what was seen then, and of what was seen at the tick that it got no more than
** before the next. */
enum { MODEL_STREAMS = 4, MODEL_TICKS = 600 };
static struct {
    uint64_t at[MODEL_STREAMS][MODEL_TICKS][MODEL_STREAMS]; /* when submitted */
    uint64_t by[MODEL_STREAMS][MODEL_TICKS][MODEL_STREAMS]; /* just before the next one */
} rows;
static void model_row(uint64_t *row, tidei_stream *const *s, int of) {
    for (int j = 0; j < MODEL_STREAMS; j++) row[j] = seen(s[of], s[j]);
}
static void model_wait(tidei_stream *const *s, int to, int from, uint64_t wanted) {
    uint64_t before[MODEL_STREAMS], now = atomic_load(&s[from]->submitted);
    model_row(before, s, to);
    model_row(rows.by[from][now], s, from);
    assert_ok(tidei_stream_follow(s[to], s[from], wanted));
    uint64_t got = seen(s[to], s[from]);
    assert_true(got >= wanted && got <= now);
    /* of an earlier wait; this one's mark may have been an earlier one */
    if (got == before[from]) return;
    for (int j = 0; j < MODEL_STREAMS; j++) {
        uint64_t has = seen(s[to], s[j]);
        if (j == from) continue;
        assert_true(has >= rows.at[from][got][j] || j == to);
        assert_true(has <= before[j] || has <= rows.by[from][got][j]);
    }
}
static void marks_match_a_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
        tidei_stream *s[MODEL_STREAMS];
        tidei_storage *x[MODEL_STREAMS];
        uint64_t r = seed * 0x9e3779b97f4a7c15u;
        memset(&rows, 0, sizeof rows);
        for (int i = 0; i < MODEL_STREAMS; i++) {
            s[i] = stream(rt);
            x[i] = storage(rt, s[i], 64);
        }
        for (int i = 0; i < MODEL_TICKS; i++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            int of = (r >> 20) % MODEL_STREAMS, to = (r >> 30) % MODEL_STREAMS;
            uint64_t now = atomic_load(&s[of]->submitted);
            if (to != of && now && (r >> 40) % (seed % 7 + 2) == 0) {
                uint64_t back = (r >> 45) % (seed % 40 + 1);
                model_wait(s, to, of, now > back ? now - back : 1);
                continue;
            }
            model_row(rows.by[of][now], s, of);
            assert_ok(submit_work(s[of], x[of], NULL, 1, NULL));
            model_row(rows.at[of][now + 1], s, of);
        }
        for (int i = 0; i < MODEL_STREAMS; i++) tidei_storage_release(x[i]);
        half_close(rt);
    }
}

/* Host memory is short just where a mark notes what was seen: it says less. */
static struct {
    struct tidei_device_ops ops;
    const struct tidei_device_ops *real;
} forgetful;
static tide_status new_then_nothing(tidei_device *d, tidei_devent **out) {
    tide_status status = forgetful.real->event_new(d, out);
    no_malloc = true;
    return status;
}
static tide_status record_with_memory(tidei_device *d, tidei_devent *e, tidei_dstream *ds) {
    no_malloc = false;
    return forgetful.real->event_record(d, e, ds);
}
static void marks_do_without_memory(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_device *d = rt->devs[0].d;
    tidei_stream *a = stream(rt), *b = stream(rt), *c = stream(rt);
    tidei_storage *x = storage(rt, a, BYTES), *y = storage(rt, b, BYTES);
    atomic_int gate = 0;
    (void)state;
    assert_ok(submit_work(a, x, NULL, 1, &gate));
    assert_ok(submit_work(b, y, x, 1, NULL));
    forgetful.real = d->ops;
    forgetful.ops = *d->ops;
    forgetful.ops.event_new = new_then_nothing;
    forgetful.ops.event_record = record_with_memory;
    d->ops = &forgetful.ops;
    assert_ok(tidei_stream_follow(c, b, 1));
    d->ops = forgetful.real;
    assert_int_equal(seen(c, b), 1);
    assert_int_equal(seen(c, a), 0);
    assert_ok(tidei_stream_follow(c, a, 1));
    assert_int_equal(seen(c, a), 1);
    atomic_store(&gate, 1);
    tidei_storage_release(x);
    tidei_storage_release(y);
    half_close(rt);
}

/* Each call about events fails in its turn: work that waits for nobody never does, and what waits
** says so or is in order. */
static bool passes_on(tidei_runtime *rt, tidei_stream *const *s, tidei_storage *const *x) {
    bool all = true;
    for (int i = 0; i < 60; i++) {
        tide_status own = submit_work(s[0], x[0], NULL, i, NULL),
                    own_more = submit_work(s[0], x[1], NULL, i, NULL);
        assert_ok(own);
        assert_ok(own_more);
        tide_status status = submit_work(s[1], x[2], x[0], 1, NULL);
        assert_true(status == TIDE_OK || status == TIDE_E_DEVICE);
        if (status == TIDE_OK) assert_int_equal(first_byte(x[2]), i + 1);
        all = all && status == TIDE_OK;
        /* so that the next ones wait for nobody */
        assert_ok(tidei_streams_wait_all(&rt->devs[0], true));
    }
    return all;
}
static void events_may_fail(void **state) {
    static const enum tidei_fault_slot slots[] = {TIDEI_FAULT_EVENT_NEW, TIDEI_FAULT_EVENT_RECORD,
                                                  TIDEI_FAULT_EVENT_WAIT};
    (void)state;
    for (unsigned k = 0; k < 2 * TIDEI_COUNT(slots); k++) {
        enum tidei_fault_slot slot = slots[k / 2];
        bool sticky = k % 2, failed = true, passed = false;
        for (uint64_t n = 1; failed; n++) {
            tidei_device_params params = {.host_device_memory = TIDEI_MIB, .host_checker = true};
            tide_config c = {.struct_size = sizeof c, .pool = "tide"};
            tidei_device *inner, *device;
            tidei_runtime *rt;
            tidei_stream *s[2];
            tidei_storage *x[3];
            assert_ok(tidei_host_open(&params, &inner));
            assert_ok(tidei_fault_open(inner, &device));
            assert_ok(tidei_runtime_open_on(&c, device, &rt));
            rt->devs[0].pool->mover = NULL;
            for (int i = 0; i < 2; i++) s[i] = stream(rt);
            for (int i = 0; i < 3; i++) x[i] = storage(rt, s[i / 2], 256);
            uint64_t calls = tidei_fault_calls(device, slot);
            tidei_fault_set(device, slot, n, TIDE_E_DEVICE, sticky);
            passed = passes_on(rt, s, x);
            failed = tidei_fault_calls(device, slot) - calls >= n;
            tidei_fault_set(device, slot, 0, TIDE_OK, false);
            /* One event is enough to go on with, as is one record that was to save waiting. */
            if (slot == TIDEI_FAULT_EVENT_NEW && n > 1) assert_true(passed);
            if (slot == TIDEI_FAULT_EVENT_WAIT && failed) assert_false(passed);
            for (int i = 0; i < 3; i++) tidei_storage_release(x[i]);
            assert_ok(tidei_streams_wait_all(&rt->devs[0], true));
            assert_int_equal(tidei_host_checker_reports(inner), 0);
            tidei_runtime_close(rt);
        }
        assert_true(passed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_not_for_later_work),
        cmocka_unit_test(a_mark_knows_what_was_seen),
        cmocka_unit_test(a_mark_does_not_know_what_comes_after),
        cmocka_unit_test(marks_are_for_who_is_waited_for),
        cmocka_unit_test(marks_match_a_model),
        cmocka_unit_test(marks_do_without_memory),
        cmocka_unit_test(events_may_fail),
    };
    return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
