/* test_replay.c: the schedule of a replay, its figures, completion held back, patterns that find
** what they should. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/support/tidetest.h"
#include "tools/tide/replay.h"
#include "runtime/device/cuda/nvrtc.h"

#define KIB TIDEI_KIB
#define A(block, size)                                                                             \
    { size, block, TIDEI_EVENT_ALLOC }
#define F(block)                                                                                   \
    { 0, block, TIDEI_EVENT_FREE }
#define S                                                                                          \
    { 0, 0, TIDEI_EVENT_SYNC }

/* A trace of these events; frees get their sizes. */
static tidei_trace made(tidei_event *events, size_t n) {
    tidei_trace t = {.events = events, .n = n};
    for (size_t i = 0; i < n; i++) {
        t.blocks += events[i].op == TIDEI_EVENT_ALLOC;
        for (size_t j = 0; j < i && events[i].op == TIDEI_EVENT_FREE; j++)
            if (events[j].op == TIDEI_EVENT_ALLOC && events[j].block == events[i].block)
                events[i].bytes = events[j].bytes;
    }
    return t;
}
#define TRACE(...)                                                                                 \
    made((tidei_event[]){__VA_ARGS__}, sizeof((tidei_event[]){__VA_ARGS__}) / sizeof(tidei_event))

static tidei_trace recorded(const char *name, uint64_t scale) {
    char path[1024];
    tidei_trace t;
    snprintf(path, sizeof path, "%s/tests/traces/%s.csv.gz", getenv("TIDE_TEST_SOURCE"), name);
    assert_ok(tidei_trace_read(path, &t));
    tidei_trace_scale(&t, scale);
    return t;
}

static tidei_replay *opened(tidei_replay_options o, const tidei_trace *t) {
    tidei_replay *r;
    if (!o.device) o.device = test_device();
    if (!o.streams) o.streams = 1;
    assert_ok(tidei_replay_open(&o, t, &r));
    return r;
}

static tidei_replay_figures pass(tidei_replay *r) {
    tidei_replay_figures f;
    assert_ok(tidei_replay_pass(r, &f));
    assert_true(tidei_runtime_valid(r->rt));
    assert_int_equal(atomic_load(&r->dev->budget->live), 0);
    return f;
}

/* What is counted on the way: pins, and host memory that ends. */
static unsigned pins, unpins;
void __real_tidei_storage_pin(tidei_storage *st);
void __wrap_tidei_storage_pin(tidei_storage *st);
void __wrap_tidei_storage_pin(tidei_storage *st) {
    pins++;
    __real_tidei_storage_pin(st);
}
void __real_tidei_storage_unpin(tidei_storage *st);
void __wrap_tidei_storage_unpin(tidei_storage *st);
void __wrap_tidei_storage_unpin(tidei_storage *st) {
    unpins++;
    __real_tidei_storage_unpin(st);
}

static _Thread_local long mallocs_left = -1; /* -1: no end */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    if (mallocs_left == 0) return NULL;
    if (mallocs_left > 0) mallocs_left--;
    return __real_malloc(bytes);
}

/* ---- figures ---- */

/* The pool none takes each block from the driver and gives it back, so everything can be told
** beforehand. */
static void figures_by_hand(void **state) {
    tidei_trace t = TRACE(A(0, 1000), A(1, 0), A(2, 3000), F(0), S, A(3, 500), F(2), F(1), A(4, 2));
    tidei_replay *r = opened((tidei_replay_options){.pool = "none"}, &t);
    size_t align = r->dev->d->info.align;
    (void)state;
    for (int i = 0; i < 3; i++) {
        tidei_replay_figures f = pass(r);
        assert_int_equal(f.events, 9);
        assert_true(f.ns > 0);
        assert_int_equal(f.peak_live, 4000);
        assert_int_equal(f.peak_reserved,
                         tidei_round_up(1000, align) + tidei_round_up(3000, align));
        assert_int_equal(f.driver_calls,
                         /* four blocks that are not empty, two of them freed when the pass ends */
                         8);
        assert_int_equal(f.failed + f.climbs + f.device_waits + f.compactions + f.bytes_moved, 0);
        assert_int_equal(f.verified + f.mismatches, 0);
    }
    tidei_replay_close(r);
    r = opened((tidei_replay_options){.pool = "tide"}, &t);
    assert_true(pass(r).driver_calls > 0);
    tidei_replay_figures f = pass(r);
    assert_int_equal(f.driver_calls, 0);
    assert_int_equal(f.peak_live, 4000);
    assert_true(f.peak_reserved >= r->dev->d->info.page_bytes);
    tidei_replay_close(r);
}

static void peaks_are_the_last_passes(void **state) {
    tidei_trace big = TRACE(A(0, 1024 * KIB), F(0)), small = TRACE(A(0, 64 * KIB), F(0));
    tidei_replay *r = opened((tidei_replay_options){.pool = "none"}, &big);
    (void)state;
    assert_int_equal(pass(r).peak_live, 1024 * KIB);
    r->trace = &small;
    tidei_replay_figures f = pass(r);
    assert_int_equal(f.peak_live, 64 * KIB);
    assert_int_equal(f.peak_reserved, 64 * KIB);
    tidei_replay_close(r);
}

static void nothing_to_play(void **state) {
    tidei_trace t = {0};
    tidei_replay *r = opened((tidei_replay_options){.streams = 3}, &t);
    (void)state;
    assert_int_equal(tidei_replay_peak(&t, 3), 0);
    tidei_replay_figures f = pass(r);
    assert_int_equal(f.events, 0);
    assert_int_equal(f.peak_live, 0);
    tidei_replay_close(r);
}

/* ---- the schedule ---- */

static void copies_start_late(void **state) {
    /* lives for four of eight events */
    tidei_trace t = TRACE(A(0, 4096), S, S, S, F(0), S, S, S);
    static const struct {
        /* at the worst moment; a copy that frees comes before a later one that allocates */
        unsigned copies, alive;
    } known[] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}, {8, 4}, {16, 8}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(known); i++) {
        unsigned copies = known[i].copies;
        tidei_replay *r = opened((tidei_replay_options){.streams = copies, .pool = "none"}, &t);
        assert_int_equal(tidei_replay_peak(&t, copies), 4096 * known[i].alive);
        tidei_replay_figures f = pass(r);
        assert_int_equal(f.peak_live, 4096 * known[i].alive);
        assert_int_equal(f.events, 8 * copies);
        /* an event is a tick, and one that ended stays ended */
        for (unsigned j = 0; j < copies; j++)
            assert_int_equal(atomic_load(&r->copies[j].s->submitted), 8);
        tidei_replay_close(r);
    }
    /* Begins at 8 * 1 / 3 = 2 and 8 * 2 / 3 = 5: from the fifth on (4 comes before 5), the second
    ** and third overlap. */
    t = TRACE(A(0, 1), S, F(0), S, S, S, S, S);
    assert_int_equal(tidei_replay_peak(&t, 3), 1);
    t = TRACE(A(0, 1), S, S, F(0), S, S, S, S);
    assert_int_equal(tidei_replay_peak(&t, 3), 2);
}

static void a_replay_has_the_recorded_peaks(void **state) {
    tidei_trace t = recorded("linalg-mix", 64);
    (void)state;
    for (unsigned copies = 1; copies <= 4; copies += 3) {
        tidei_replay *r =
            opened((tidei_replay_options){.streams = copies, .lag = copies == 4 ? 256 : 0}, &t);
        for (int i = 0; i < 2; i++) {
            tidei_replay_figures f = pass(r);
            assert_int_equal(f.events, copies * t.n);
            assert_int_equal(f.peak_live, tidei_replay_peak(&t, copies));
            assert_true(f.peak_reserved >= f.peak_live);
            assert_int_equal(f.failed, 0);
        }
        tidei_replay_close(r);
    }
    tidei_trace_clear(&t);
}

/* ---- limits, failures ---- */

static void factor_of_the_peak(void **state) {
    tidei_trace t = TRACE(A(0, 1000 * KIB), A(1, 1001), F(0), F(1));
    tidei_replay *r = opened((tidei_replay_options){.limit_factor = 1.5, .streams = 4}, &t);
    size_t page = r->dev->d->info.page_bytes, peak = 2 * (1000 * KIB + 1001);
    (void)state;
    assert_int_equal(tidei_replay_peak(&t, 4), peak);
    assert_int_equal(atomic_load(&r->dev->budget->limit),
                     tidei_round_up(peak + peak / 2 + 2 * page, page));
    tidei_replay_close(r);
    tidei_replay_options o = {.limit_factor = 1e40, .streams = 1, .device = test_device()};
    assert_int_equal(tidei_replay_open(&o, &t, &r), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "beyond any device");
}

static void what_does_not_fit(void **state) {
    tidei_trace t =
        TRACE(A(0, 8 << 20), A(1, 16 << 20), A(2, 4 << 20), F(1), F(0), A(3, 16 << 20), F(3));
    tidei_replay *r = opened((tidei_replay_options){.limit = "16MiB"}, &t);
    (void)state;
    for (int i = 0; i < 2; i++) {
        tidei_replay_figures f = pass(r);
        assert_int_equal(f.failed, 2);
        assert_true(f.climbs >= 1);
        assert_int_equal(f.events, 7);
        assert_int_equal(f.peak_live, 12 << 20);
    }
    assert_int_equal(r->failure.status, TIDE_E_NOMEM);
    assert_non_null(strstr(r->failure.text, "16.000 MiB wanted by tide replay"));
    assert_non_null(strstr(r->failure.text, "live 8.000 MiB")); /* of the first one that failed */
    tidei_replay_close(r);
}

static void options_nobody_serves(void **state) {
    tidei_trace t = TRACE(A(0, 1), F(0));
    tidei_replay *r;
    tidei_replay_options o = {.streams = 1, .device = "host", .pool = "puddle"};
    (void)state;
    assert_int_equal(tidei_replay_open(&o, &t, &r), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "puddle");
    o = (tidei_replay_options){.streams = 1, .device = "abacus"};
    assert_int_equal(tidei_replay_open(&o, &t, &r), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "abacus");
    o = (tidei_replay_options){.streams = 1, .device = "host:99"};
    assert_int_equal(tidei_replay_open(&o, &t, &r), TIDE_E_NODEVICE);
    assert_error(TIDE_E_NODEVICE, "host:99");
}

/* ---- pins ---- */

static void a_share_is_pinned(void **state) {
    tidei_trace t = recorded("linalg-mix", 1024);
    (void)state;
    static const unsigned percents[] = {0, 25, 50, 100};
    for (size_t i = 0; i < TIDEI_COUNT(percents); i++) {
        tidei_replay *r = opened((tidei_replay_options){.streams = 2, .pinned = percents[i]}, &t);
        unsigned wanted = 0, seen[2];
        for (unsigned j = 0; j < 2; j++)
            for (uint32_t b = 0; b < t.blocks; b++) wanted += tidei_replay_pins(percents[i], j, b);
        for (int k = 0; k < 2; k++) {
            pins = unpins = 0;
            pass(r);
            assert_int_equal(pins, unpins);
            seen[k] = pins;
        }
        assert_int_equal(seen[0], wanted);
        assert_int_equal(seen[1], wanted);
        assert_in_range(100 * wanted, (percents[i] < 3 ? 0 : percents[i] - 3) * 2 * t.blocks,
                        (percents[i] ? percents[i] + 3 : 0) * 2 * t.blocks);
        tidei_replay_close(r);
    }
    tidei_trace_clear(&t);
}

/* Real programs need little more than what they hold, though half of it cannot be moved: at 2 % and
** two pages more all fits. */
static void half_pinned_fits(void **state) {
    static const char *const names[] = {"linalg-mix", "lstm-train-unrolled", "gpt2-train-varlen",
                                        "resnet50-train-varbatch"};
    (void)state;
    if (!test_on_host()) skip(); /* a matter of the device's pages */
    for (size_t i = 0; i < (test_quick() ? 2 : TIDEI_COUNT(names)); i++) {
        tidei_trace t = recorded(names[i], 1);
        tidei_replay *r =
            opened((tidei_replay_options){.pool = "tide", .pinned = 50, .limit_factor = 1.02}, &t);
        uint64_t remapped = 0;
        for (int k = 0; k < 3; k++) {
            tidei_replay_figures f = pass(r);
            assert_int_equal(f.failed, 0);
            remapped += f.bytes_remapped;
        }
        if (i < 2) assert_true(remapped > 0);
        tidei_replay_close(r);
        tidei_trace_clear(&t);
    }
}

/* ---- the gauge ---- */

static tidei_runtime *gauged(tidei_gauge *g, bool ticks_only, uint64_t lag) {
    tide_config c = {.struct_size = sizeof c, .collector = "refcount", .pool = "tide"};
    tidei_device_params p = {.host_device_memory = 64 * TIDEI_MIB};
    tidei_device *d;
    tide_runtime *rt;
    assert_ok(tidei_host_open(&p, &d));
    tidei_gauge_put(g, d, ticks_only, lag);
    assert_ok(tidei_open_on(&c, d, &rt));
    return test_rt(rt);
}

static void memory_calls_are_counted(void **state) {
    tidei_gauge g;
    tidei_runtime *rt = gauged(&g, true, 0);
    tidei_device *d = rt->devs[0].d;
    size_t page = d->info.page_bytes, a, b;
    uint64_t before = tidei_gauge_calls(&g);
    tidei_addr addr, raw;
    tidei_dpage *p;
    (void)state;
    assert_ok(d->ops->reserve(d, page, &addr));
    assert_ok(d->ops->page_new(d, page, &p));
    assert_ok(d->ops->map(d, addr, &p, 1));
    assert_ok(d->ops->unmap(d, addr, &p, 1));
    d->ops->page_release(d, p);
    d->ops->unreserve(d, addr, page);
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, page, &raw));
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, raw, page);
    assert_ok(d->ops->memory(d, &a, &b));
    assert_int_equal(tidei_gauge_calls(&g) - before, 9);
    tidei_dmempool *mp;
    assert_ok(d->ops->mempool_new(d, &mp));
    assert_ok(d->ops->mempool_alloc(d, mp, atomic_load(&rt->devs[0].stream0->ds), page, &raw));
    assert_ok(d->ops->mempool_free(d, mp, NULL, raw));
    assert_ok(d->ops->mempool_trim(d, mp, 0));
    d->ops->mempool_release(d, mp);
    assert_int_equal(tidei_gauge_calls(&g) - before, 14);
    tide_close(rt->ref);
}

/* A device without pools of its own seems to have none. */
static void missing_slots_stay_missing(void **state) {
    tidei_gauge g;
    tidei_device *d;
    (void)state;
    assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 64 * TIDEI_MIB}, &d));
    struct tidei_device_ops bare = *d->ops;
    bare.mempool_new = NULL;
    bare.mempool_release = NULL;
    bare.mempool_alloc = NULL;
    bare.mempool_free = NULL;
    bare.mempool_trim = NULL;
    d->ops = &bare;
    tidei_gauge_put(&g, d, true, 0);
    assert_null(d->ops->mempool_new);
    assert_null(d->ops->mempool_release);
    assert_null(d->ops->mempool_alloc);
    assert_null(d->ops->mempool_free);
    assert_null(d->ops->mempool_trim);
    d->ops = g.inner;
    d->ops->close(d);
}

static void tick_once(tidei_stream *s) {
    pthread_mutex_lock(&s->lock);
    (void)tidei_stream_tick(s);
    tidei_stream_after_work(s);
    pthread_mutex_unlock(&s->lock);
}

/* A block freed on one stream is another's once `lag` further ticks were given out there, and no
** earlier. */
static void last_ticks_stay_incomplete(void **state) {
    enum { LAG = 70 }; /* more than the ticks between two publications */
    tidei_gauge g;
    tidei_runtime *rt = gauged(&g, true, LAG);
    tidei_pool *pool = rt->devs[0].pool;
    tidei_stream *one, *two;
    tidei_storage *st;
    tidei_block b;
    (void)state;
    assert_ok(tidei_stream_open(&rt->devs[0], &one));
    assert_ok(tidei_stream_open(&rt->devs[0], &two));
    tidei_gauge_watch(&g, one);
    tidei_gauge_watch(&g, two);
    size_t page = rt->devs[0].d->info.page_bytes;
    for (int round = 0; round < 3; round++) {
        assert_ok(tidei_storage_new(&rt->devs[0], page, one, "test", &st));
        tick_once(one);
        uint64_t last = atomic_load(&one->submitted);
        tidei_use use = {st, 0, page, TIDEI_WRITE};
        assert_true(tidei_publish_uses(one, &use, 1, last));
        tidei_storage_release(st);
        for (int i = 0; i < LAG; i++) {
            assert_false(
                tidei_stamp_done(&rt->devs[0], (tidei_stamp){.tick = last, .stream = one->slot}));
            assert_int_equal(pool->ops->alloc(pool, page, two, TIDEI_ALLOC_NO_GROW, &b),
                             TIDE_E_NOMEM);
            tick_once(one);
        }
        assert_ok(pool->ops->alloc(pool, page, two, TIDEI_ALLOC_NO_GROW, &b));
        assert_int_equal(b.stamps.n, 0);
        pool->ops->free(pool, &b);
    }
    tide_close(rt->ref);
}

/* With work behind the ticks, both count: that it is done, and that it is old enough. */
static void spin(const void *p) {
    atomic_int *gate = *(atomic_int *const *)p;
    while (!atomic_load(gate)) sched_yield();
}
static void launch_gate(tidei_stream *s, atomic_int *gate) {
    tidei_launch l = {
        .name = "gate", .host_fn = spin, .params = &gate, .params_bytes = sizeof gate};
    assert_ok(tidei_submit_launch(s, NULL, 0, &l, NULL, NULL, "gate"));
}
static void work_is_done_when_it_is_old_and_over(void **state) {
    tidei_gauge g;
    tidei_runtime *rt = gauged(&g, false, 2);
    tidei_dev *d = &rt->devs[0];
    tidei_stream *s;
    atomic_int gate = 0;
    (void)state;
    assert_ok(tidei_stream_open(&rt->devs[0], &s));
    tidei_gauge_watch(&g, s);
    launch_gate(s, &gate);
    for (int i = 0; i < 4; i++) tick_once(s);
    /* old, but under way */
    assert_false(tidei_stamp_done(d, (tidei_stamp){.tick = 1, .stream = s->slot}));
    atomic_store(&gate, 1);
    while (!tidei_stamp_done(d, (tidei_stamp){.tick = 3, .stream = s->slot})) sched_yield();
    /* done, but young */
    assert_false(tidei_stamp_done(d, (tidei_stamp){.tick = 4, .stream = s->slot}));
    assert_ok(tidei_stream_wait(s, true));
    assert_true(tidei_stamp_done(d, (tidei_stamp){.tick = 5, .stream = s->slot})); /* waited for */
    tide_close(rt->ref);
}

/* ---- patterns ---- */

static void patterns_are_intact_at_the_end(void **state) {
    const char *name = test_quick() ? "linalg-mix" : "lstm-train-unrolled";
    tidei_trace t = recorded(name, 256);
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        tidei_replay *r = opened(
            (tidei_replay_options){
                .touch = true, .streams = i ? 3 : 1, .lag = 16 * i, .pinned = 20},
            &t);
        size_t blocks = 0;
        for (size_t k = 0; k < t.n; k++)
            blocks += t.events[k].op == TIDEI_EVENT_ALLOC && t.events[k].bytes;
        for (int k = 0; k < 2; k++) {
            tidei_replay_figures f = pass(r);
            assert_int_equal(f.verified, r->o.streams * blocks);
            assert_int_equal(f.mismatches, 0);
        }
        tidei_replay_close(r);
    }
    tidei_trace_clear(&t);
}

/* Near the limit, with half of the blocks pinned. */
static void patterns_hold_where_pages_move(void **state) {
    tidei_trace t = recorded("linalg-mix", 8);
    uint64_t remapped = 0;
    (void)state;
    if (!test_on_host()) skip();
    tidei_replay *r = opened(
        (tidei_replay_options){.pool = "tide", .touch = true, .pinned = 50, .limit_factor = 1.02},
        &t);
    for (int k = 0; k < 3; k++) {
        tidei_replay_figures f = pass(r);
        assert_int_equal(f.failed, 0);
        assert_int_equal(f.mismatches, 0);
        remapped += f.bytes_remapped;
    }
    assert_true(remapped > 0);
    tidei_replay_close(r);
    tidei_trace_clear(&t);
}

static void every_byte_is_compared(void **state) {
    tidei_trace t = {0};
    tidei_replay *r = opened((tidei_replay_options){.touch = true, .device = "host"}, &t);
    tidei_stream *s = r->copies[0].s;
    uint64_t wrong = 0;
    (void)state;
    for (size_t n = 1; n <= 40; n++) {
        tidei_storage *st;
        assert_ok(tidei_storage_new(r->dev, n, s, "test", &st));
        unsigned char *p = (unsigned char *)(uintptr_t)st->addr;
        for (size_t i = 0; i <= n; i++) { /* the last round leaves all as it is */
            assert_ok(tidei_touch_write(&r->touch, s, st, 0x0123456789abcdefu * n));
            assert_ok(tidei_stream_wait(s, true));
            if (i < n) p[i] ^= 0x40;
            assert_ok(tidei_touch_check(&r->touch, s, st, 0x0123456789abcdefu * n));
            assert_ok(tidei_stream_wait(s, true));
            wrong += i < n;
            assert_int_equal(tidei_touch_mismatches(&r->touch), wrong);
        }
        tidei_storage_release(st);
    }
    tidei_replay_close(r);
}

/* Holds back the first comparison on the first stream until the second stream has all its work and
** both blocks are freed; or, where that work does not wait for the first, until it is done. Not
** earlier, or the pool would find the last free's work done, and poison bytes that AddressSanitizer
** then sees the planted mistake read. */
static struct held {
    tidei_replay *r; /* NULL: nothing is held back */
    atomic_int gate;
} held;
static void *open_late(void *unused) {
    tidei_stream *second = held.r->copies[1].s;
    while (atomic_load(&second->submitted) < 2 || atomic_load(&held.r->dev->budget->live))
        sched_yield();
    if (held.r->rt->streams->skip_waits) tidei_stream_wait(second, true);
    atomic_store(&held.gate, 1);
    return unused;
}
tide_status __real_tidei_touch_check(tidei_touch *t, tidei_stream *s, tidei_storage *st,
                                     uint64_t pattern);
tide_status __wrap_tidei_touch_check(tidei_touch *t, tidei_stream *s, tidei_storage *st,
                                     uint64_t pattern);
tide_status __wrap_tidei_touch_check(tidei_touch *t, tidei_stream *s, tidei_storage *st,
                                     uint64_t pattern) {
    if (held.r && s == held.r->copies[0].s) {
        assert_ok(tidei_stream_wait(s, true)); /* the pattern stands */
        launch_gate(s, &held.gate);
    }
    return __real_tidei_touch_check(t, s, st, pattern);
}

/* One block of memory for two copies: the second takes it while the first's comparison is
** pending. */
static tidei_replay_figures take_over(bool touch, bool planted) {
    tidei_trace t = TRACE(A(0, 1 << 20), F(0));
    tidei_replay *r = opened((tidei_replay_options){.touch = touch,
                                                    .streams = 2,
                                                    .lag = 1000,
                                                    .device = "host",
                                                    .pool = "tide",
                                                    .limit = "1MiB"},
                             &t);
    pthread_t thread;
    r->rt->streams->skip_waits = planted;
    held.r = r;
    atomic_store(&held.gate, 0);
    assert_int_equal(pthread_create(&thread, NULL, open_late, NULL), 0);
    tidei_replay_figures f = pass(r);
    pthread_join(thread, NULL);
    held.r = NULL;
    assert_int_equal(f.failed, 0);
    tidei_replay_close(r);
    return f;
}

static void early_reuse_is_found(void **state) {
    (void)state;
    tidei_replay_figures f = take_over(true, false);
    assert_int_equal(f.verified, 2);
    assert_int_equal(f.mismatches, 0);
    assert_true(f.device_waits >= 1);
#if !defined(__SANITIZE_THREAD__) /* which would find it first */
    f = take_over(true, true);
    assert_int_equal(f.verified, 2);
    assert_int_equal(f.mismatches, (1 << 20) / 8);
#endif
}

/* Waits are inserted as in real use also where there is nothing to wait for but ticks. */
static void waits_without_work(void **state) {
    (void)state;
    assert_true(take_over(false, false).device_waits >= 1);
}

extern const char tidei_pattern_text[];
static int compile_patterns(void) {
    static const char *const kernels[] = {"pattern_write", "pattern_check"};
    if (tidei_nvrtc_open(0) != TIDE_OK) return 77;
    for (size_t i = 0; i < TIDEI_COUNT(kernels); i++) {
        void *image;
        size_t bytes;
        if (tidei_nvrtc_compile(tidei_pattern_text, kernels[i], 90, &image, &bytes) != TIDE_OK) {
            fprintf(stderr, "%s\n", tide_error_last()->message);
            return 1;
        }
        free(image);
    }
    return 0;
}

/* In a child: LeakSanitizer takes memory that the compiler's library keeps for its threads for
** something else, now and then, and dies of it. */
static void patterns_compile_for_gpus(void **state) {
    int status;
    (void)state;
    test_needs_children();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(compile_patterns());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- no host memory ---- */

/* Each allocation of host memory on this thread gets its turn to fail, in opening and in
** playing. */
static void no_host_memory(void **state) {
    static const char *const pools[] = {"tide", "none"};
    tidei_trace t = TRACE(A(0, 5000), A(1, 70000), F(0), S, A(2, 100), F(1));
    (void)state;
    for (size_t k = 0; k < TIDEI_COUNT(pools); k++) {
        const tidei_replay_options o = {
            .streams = 2, .device = "host", .pool = pools[k], .touch = true};
        tide_status status = TIDE_E_HOST_NOMEM;
        long budget = 0;
        for (; status != TIDE_OK; budget++) {
            tidei_replay_figures f = {0};
            tidei_replay *r = NULL;
            mallocs_left = budget;
            status = tidei_replay_open(&o, &t, &r);
            if (status == TIDE_OK) status = tidei_replay_pass(r, &f);
            mallocs_left = -1;
            if (status != TIDE_OK) assert_error(TIDE_E_HOST_NOMEM, "memory");
            assert_int_equal(f.mismatches, 0);
            tidei_replay_close(r);
        }
        assert_true(budget > 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_compile_for_gpus), /* first: it forks */
        cmocka_unit_test(figures_by_hand),
        cmocka_unit_test(peaks_are_the_last_passes),
        cmocka_unit_test(nothing_to_play),
        cmocka_unit_test(copies_start_late),
        cmocka_unit_test(a_replay_has_the_recorded_peaks),
        cmocka_unit_test(factor_of_the_peak),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(options_nobody_serves),
        cmocka_unit_test(a_share_is_pinned),
        cmocka_unit_test(half_pinned_fits),
        cmocka_unit_test(memory_calls_are_counted),
        cmocka_unit_test(missing_slots_stay_missing),
        cmocka_unit_test(last_ticks_stay_incomplete),
        cmocka_unit_test(work_is_done_when_it_is_old_and_over),
        cmocka_unit_test(patterns_are_intact_at_the_end),
        cmocka_unit_test(patterns_hold_where_pages_move),
        cmocka_unit_test(every_byte_is_compared),
        cmocka_unit_test(early_reuse_is_found),
        cmocka_unit_test(waits_without_work),
        cmocka_unit_test(no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
