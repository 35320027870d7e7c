/* test_order.c: order among streams as users see it: threads' own streams, hand-overs without a
** call, opting out, and random programs of several threads over several streams, which agree with a
** sequential model. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include "tests/support/random_programs.h"

static tide_runtime *rt;

/* Work of the host device that runs once the gate opens, as one that writes `a` on the calling
** thread's stream. */
static void stand(void *gate) {
    while (!atomic_load((atomic_int *)gate)) sched_yield();
}
static tide_use_scope *scope_on(tide_stream *s, tide_array *a) {
    tide_use use = {.array = a, .mode = TIDE_WRITE};
    tide_use_scope *scope = NULL;
    void *p;
    assert_ok(tide_use_begin(rt, s, &use, 1, &p, &scope));
    return scope;
}
static void hold_back_on(tide_stream *s, tide_array *a, atomic_int *gate) {
    tide_use_scope *scope = scope_on(s, a);
    assert_ok(tide_use_launch(scope, stand, gate));
    assert_ok(tide_use_end(scope));
}
static void hold_back(tide_array *a, atomic_int *gate) { hold_back_on(NULL, a, gate); }
static void on_thread(void *(*fn)(void *), void *arg) {
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, fn, arg), 0);
    pthread_join(t, NULL);
}

/* ---- threads ---- */

static void *my_stream(void *out) {
    tide_stream *s, *mine = tide_stream_current(rt);
    *(tide_stream **)out = mine;
    if (!mine || tide_stream_current(rt) != mine) return NULL;
    tide_stream_release(mine); /* is nobody's to release */
    bool same = tide_stream_current(rt) == mine;
    if (tide_stream_new(rt, &s) != TIDE_OK || tide_stream_set(rt, s) != TIDE_OK) return NULL;
    same = same && tide_stream_current(rt) == s;
    if (tide_stream_set(rt, NULL) != TIDE_OK) return NULL;
    same = same && tide_stream_current(rt) == mine;
    tide_stream_release(s);
    return same ? out : NULL;
}
static void t7_threads_have_streams_of_their_own(void **state) {
    (void)state;
    tide_stream *theirs, *ours;
    pthread_t t;
    void *same;
    rt = test_open(&(tide_config){.collector = "refcount"});
    ours = tide_stream_current(rt);
    pthread_create(&t, NULL, my_stream, &theirs);
    pthread_join(t, &same);
    assert_ptr_equal(same, &theirs);
    assert_ptr_not_equal(theirs, ours);
    assert_ptr_equal(tide_stream_current(rt), ours);
    tide_close(rt);
    rt = test_open(&(tide_config){.collector = "refcount", .thread_streams = TIDE_OFF});
    on_thread(my_stream, &theirs);
    assert_ptr_equal(theirs, tide_stream_current(rt));
    tide_close(rt);
}

static void *make_one(void *arg) {
    tide_array *a = tide_ones(rt, TIDE_I32, SHAPE(100));
    *(tide_status *)arg = a ? TIDE_OK : tide_error_last()->status;
    tide_release(a);
    return NULL;
}
/* More threads one after the other than there are streams, with and without work that is still
** going on as they end, and all streams taken. */
static void a_stream_goes_with_its_thread(void **state) {
    tide_status status;
    (void)state;
    rt = test_open(&(tide_config){.collector = "refcount"});
    for (int i = 0; i < 2 * TIDEI_STREAMS_MAX; i++) {
        on_thread(make_one, &status);
        assert_int_equal(status, TIDE_OK);
        assert_ok(tide_device_synchronize(rt));
    }
    assert_in_range(atomic_load(&test_rt(rt)->streams->n), 1, 4);
    for (int i = 0; i < 2 * TIDEI_STREAMS_MAX; i++) {
        on_thread(make_one, &status);
        assert_int_equal(status, TIDE_OK);
    }
    tide_stream *all[TIDEI_STREAMS_MAX];
    int n = 0;
    while (tide_stream_new(rt, &all[n]) == TIDE_OK) n++;
    on_thread(make_one, &status); /* on the device's default one */
    assert_int_equal(status, TIDE_OK);
    while (n) tide_stream_release(all[--n]);
    tide_close(rt);
}

/* Another thread's stream as one's current one, until that thread ends. */
static void *lend_stream(void *out) {
    *(tide_stream **)out = tide_stream_current(rt);
    if (tide_stream_set(rt, NULL) != TIDE_OK) *(tide_stream **)out = NULL;
    return NULL;
}
static struct {
    pthread_barrier_t lent, used;
    tide_stream *s;
} guest;
static void *be_host(void *arg) {
    lend_stream(&guest.s);
    pthread_barrier_wait(&guest.lent);
    pthread_barrier_wait(&guest.used);
    return arg;
}
static void a_stream_that_goes_is_nobodys(void **state) {
    pthread_t t;
    tide_stream *next;
    (void)state;
    rt = test_open(&(tide_config){.collector = "refcount"});
    tide_stream *mine = tide_stream_current(rt);
    pthread_barrier_init(&guest.lent, NULL, 2);
    pthread_barrier_init(&guest.used, NULL, 2);
    pthread_create(&t, NULL, be_host, NULL);
    pthread_barrier_wait(&guest.lent);
    assert_ok(tide_stream_set(rt, guest.s));
    tide_array *a = tide_ones(rt, TIDE_I32, SHAPE(10));
    assert_array(a);
    assert_ptr_equal(tide_stream_current(rt), guest.s);
    pthread_barrier_wait(&guest.used);
    pthread_join(t, NULL);
    on_thread(lend_stream, &next); /* has the slot now */
    assert_ptr_equal(tide_stream_current(rt), mine);
    assert_ok(tide_fill(a, tide_arg_int(2)));
    pthread_barrier_destroy(&guest.lent);
    pthread_barrier_destroy(&guest.used);
    tide_close(rt);
}

/* Idle threads do not take all the streams there are. */
static pthread_barrier_t crowd;
static void *be_idle(void *arg) {
    make_one(arg);
    pthread_barrier_wait(&crowd);
    pthread_barrier_wait(&crowd);
    return NULL;
}
static void idle_threads_leave_streams(void **state) {
    enum { IDLE = 160 };
    pthread_t t[IDLE];
    tide_status status[IDLE];
    (void)state;
    if (test_quick() || !test_on_host()) skip(); /* many threads */
    rt = test_open(&(tide_config){.collector = "refcount"});
    pthread_barrier_init(&crowd, NULL, IDLE + 1);
    for (int i = 0; i < IDLE; i++)
        assert_int_equal(pthread_create(&t[i], NULL, be_idle, &status[i]), 0);
    pthread_barrier_wait(&crowd);
    tide_stream *s[64];
    for (int i = 0; i < 64; i++) assert_ok(tide_stream_new(rt, &s[i]));
    pthread_barrier_wait(&crowd);
    for (int i = 0; i < IDLE; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(status[i], TIDE_OK);
    }
    pthread_barrier_destroy(&crowd);
    tide_close(rt);
}

static void *own_work(void *arg) {
    tide_array *a = tide_ones(rt, TIDE_I32, SHAPE(10));
    *(double *)arg = tide_item_f64(tide_sum(a, NULL, 0, 0));
    return NULL;
}
/* What another thread computes does not wait for what this one has queued. */
static void threads_do_not_wait_for_each_other(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    rt = test_open(&(tide_config){.collector = "refcount"});
    atomic_int gate = 0;
    double sum = 0;
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(10));
    hold_back(a, &gate);
    on_thread(own_work, &sum);
    assert_true(sum == 10);
    atomic_store(&gate, 1);
    tide_close(rt);
}

/* ---- hand-overs ---- */

/* 10^4 times from stream to stream, forth and back: the host waits for nothing. */
static void hand_overs_do_not_block(void **state) {
    enum { TIMES = 10000 };
    tide_stream *s[2];
    (void)state;
    rt = test_open(&(tide_config){.collector = "refcount"});
    for (int i = 0; i < 2; i++) assert_ok(tide_stream_new(rt, &s[i]));
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(16)), *one = tide_ones(rt, TIDE_I32, 0, NULL);
    assert_ok(tide_device_synchronize(rt));
    uint64_t waits = test_stats(rt).host_waits;
    for (int i = 0; i < TIMES; i++) {
        assert_ok(tide_stream_set(rt, s[i % 2]));
        tide_array *next = tide_add(a, one);
        assert_array(next);
        tide_release(a);
        a = next;
    }
    assert_int_equal(test_stats(rt).host_waits, waits);
    assert_true(test_stats(rt).device_waits >= 1);
    tide_array *total = tide_sum(a, NULL, 0, 0);
    assert_true(tide_item_f64(total) == 16.0 * TIMES);
    tide_close(rt);
}

/* Two halves of an array that nobody uses: s[0] is held back at one and writes 1 to it, while s[1]
** writes 2 to the other. */
static void write_halves(tide_stream *const *s, tide_array *low, tide_array *high,
                         atomic_int *gate) {
    assert_ok(tide_device_synchronize(rt));
    assert_ok(tide_stream_set(rt, s[0]));
    hold_back(low, gate);
    assert_ok(tide_fill(low, tide_arg_int(1)));
    assert_ok(tide_stream_set(rt, s[1]));
    assert_ok(tide_fill(high, tide_arg_int(2)));
}

/* Two halves of one array on two streams: neither waits for the other, and who reads the whole
** waits for both. */
static void t17_views_of_one_storage(void **state) {
    int32_t out[20];
    tide_stream *s[2];
    (void)state;
    if (!test_on_host()) skip();
    rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
    for (int i = 0; i < 2; i++) assert_ok(tide_stream_new(rt, &s[i]));
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(20)), *low = tide_slice(a, ":10"),
               *high = tide_slice(a, "10:");
    atomic_int gate = 0;
    write_halves(s, low, high, &gate);
    assert_ok(tide_synchronize(rt, s[1])); /* the gate is closed */
    assert_ok(tide_to_host(high, out, 40));
    assert_int_equal(out[9], 2);
    tide_release(low); /* the storage stays with the other views */
    atomic_store(&gate, 1);
    assert_ok(tide_to_host(a, out, 80));
    assert_int_equal(out[9], 1);
    assert_int_equal(out[10], 2);
    assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    tide_close(rt);
}

static void *open_late(void *gate) {
    usleep(5000);
    atomic_store((atomic_int *)gate, 1);
    return NULL;
}
/* The host's views wait for what touches their stretch, and for that alone. */
static void the_hosts_view_is_of_a_stretch(void **state) {
    tide_stream *s[2];
    tide_host_view v;
    pthread_t t;
    (void)state;
    if (!test_on_host()) skip();
    rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
    for (int i = 0; i < 2; i++) assert_ok(tide_stream_new(rt, &s[i]));
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_I32, SHAPE(20)),
               *low = tide_slice(a, ":10"), *high = tide_slice(a, "10:");
    atomic_int gate = 0;
    assert_ok(tide_fill(a, tide_arg_int(0)));
    write_halves(s, low, high, &gate);
    assert_ok(tide_host_view_begin(high, TIDE_READ, &v)); /* the gate is closed */
    assert_int_equal(TIDE_AT(int32_t, &v, 0), 2);
    assert_ok(tide_host_view_end(&v));
    pthread_create(&t, NULL, open_late, &gate);
    assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
    assert_int_equal(TIDE_AT(int32_t, &v, 9), 1);
    assert_ok(tide_host_view_end(&v));
    pthread_join(t, NULL);
    atomic_store(&gate, 0); /* and for all that is queued where streams do not wait */
    assert_ok(tide_array_set_ordered(a, 0));
    hold_back(low, &gate);
    pthread_create(&t, NULL, open_late, &gate);
    assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
    assert_int_equal(atomic_load(&gate), 1);
    assert_ok(tide_host_view_end(&v));
    pthread_join(t, NULL);
    assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    tide_close(rt);
}

static void t17_opting_out(void **state) {
    tide_stream *s;
    (void)state;
    if (!test_on_host()) skip();
    rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(20)), *view = tide_slice(a, "5:");
    atomic_int gate = 0;
    assert_ok(tide_stream_new(rt, &s));
    assert_ok(tide_device_synchronize(rt));
    assert_ok(tide_array_set_ordered(a, 0));
    hold_back(a, &gate);
    assert_ok(tide_stream_set(rt, s));
    tide_array *b = tide_add(view, view); /* of what is there */
    assert_array(b);
    assert_ok(tide_synchronize(rt, s));
    assert_ok(tide_array_set_ordered(view, 1)); /* a switch of the memory, not of the view */
    uint64_t waits = test_stats(rt).device_waits;
    tide_array *c = tide_add(a, a);
    assert_array(c);
    assert_int_equal(test_stats(rt).device_waits, waits + 1);
    atomic_store(&gate, 1);
    assert_ok(tide_device_synchronize(rt));
    assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    assert_int_equal(tide_array_set_ordered(a, 7), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "`on` is 7; wanted: 0 or 1");
    tide_free(a);
    assert_int_equal(tide_array_set_ordered(a, 0), TIDE_E_FREED);
    tide_error_clear();
    assert_int_equal(tide_array_set_ordered(NULL, 0), TIDE_E_INVALID);
    tide_error_clear();
    tide_close(rt);
}

/* A scope on one stream, a write on another meanwhile: whoever comes later waits for both, though
** the scope's end is told last. */
static void what_is_told_late_hides_nothing(void **state) {
    static const struct {
        const char *first, *second; /* stretches that overlap; "": all */
        bool unordered;             /* while both are at it */
    } rows[] = {{"::2", "1::2", false}, {"", "", true}, {":12", "8:", true}, {"", "1::2", true}};
    (void)state;
    if (!test_on_host()) skip();
    for (size_t r = 0; r < TIDEI_COUNT(rows); r++) {
        tide_stream *s[3];
        atomic_int gate = 0;
        rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
        for (int i = 0; i < 3; i++) assert_ok(tide_stream_new(rt, &s[i]));
        tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(21)),
                   *first = *rows[r].first ? tide_slice(a, rows[r].first) : a,
                   *second = *rows[r].second ? tide_slice(a, rows[r].second) : a;
        assert_ok(tide_device_synchronize(rt));
        if (rows[r].unordered) assert_ok(tide_array_set_ordered(a, 0));
        tide_use_scope *scope = scope_on(s[0], first);
        hold_back_on(s[1], second, &gate);
        if (rows[r].unordered) assert_ok(tide_array_set_ordered(a, 1));
        assert_ok(tide_use_end(scope));
        uint64_t waits = test_stats(rt).device_waits;
        assert_ok(tide_stream_set(rt, s[2]));
        assert_ok(tide_fill(a, tide_arg_int(1)));
        assert_int_equal(test_stats(rt).device_waits - waits, 2);
        atomic_store(&gate, 1);
        tide_close(rt);
    }
}

/* A block lent on one thread's stream and given back on another's still belongs to what is pending
** on it. */
static struct {
    void *block;
    tidei_addr addr;
    bool early;
} external_alloc;
static void *give_back(void *arg) {
    (void)arg;
    tide_pool_free(tide_pool_default(rt), NULL, external_alloc.block);
    tide_array *y = tide_empty(rt, TIDE_U8, SHAPE(300000));
    uint64_t waits = test_stats(rt).device_waits;
    external_alloc.early = !y || tide_fill(y, tide_arg_int(1)) != TIDE_OK ||
                           (tidei_cell_header(y)->st->addr == external_alloc.addr &&
                            test_stats(rt).device_waits == waits);
    tide_release(y);
    return NULL;
}
static void an_external_block_keeps_its_history(void **state) {
    atomic_int gate = 0;
    (void)state;
    if (!test_on_host()) skip();
    rt = test_open(&(tide_config){.collector = "refcount", .pool = "tide"});
    tide_array *a = tide_empty(rt, TIDE_U8, SHAPE(300000));
    external_alloc.addr = tidei_cell_header(a)->st->addr;
    hold_back(a, &gate);
    tide_release(a);
    external_alloc.block = tide_pool_malloc(tide_pool_default(rt), NULL, 300000);
    /* the stream's own pending block */
    assert_int_equal((tidei_addr)(uintptr_t)external_alloc.block, external_alloc.addr);
    on_thread(give_back, NULL);
    assert_false(external_alloc.early);
    atomic_store(&gate, 1);
    tide_close(rt);
}

/* A stream whose owner says that nothing may be queued there (it captures a graph). */
static tide_status captured(tidei_device *d, tidei_dstream *s) {
    (void)d, (void)s;
    return tidei_fail(TIDE_E_UNSUPPORTED, "test", "the stream is being captured");
}
static void t12_a_captured_stream_takes_nothing(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    rt = test_open(&(tide_config){.collector = "refcount"});
    tidei_device *d = test_rt(rt)->devs[0].d;
    const struct tidei_device_ops *real = d->ops;
    struct tidei_device_ops ops = *real;
    ops.stream_usable = captured;
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(10));
    tide_stream *s;
    tide_use_scope *scope;
    void *p;
    assert_ok(tide_stream_new(rt, &s));
    atomic_store(&test_stream(s)->adopted, true);
    d->ops = &ops;
    assert_ok(tide_stream_set(rt, s));
    assert_int_equal(tide_fill(a, tide_arg_int(1)), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "the stream is being captured");
    assert_int_equal(
        tide_use_begin(rt, s, &(tide_use){.array = a, .mode = TIDE_WRITE}, 1, &p, &scope),
        TIDE_E_UNSUPPORTED);
    assert_null(tide_pool_malloc(tide_pool_default(rt), s, 100));
    assert_int_equal(tide_error_last()->status, TIDE_E_UNSUPPORTED);
    tide_error_clear();
    assert_ok(tide_stream_set(rt, NULL));
    uint64_t waits = test_stats(rt).device_waits;
    assert_ok(tide_fill(a, tide_arg_int(1))); /* as if nobody had tried */
    assert_int_equal(test_stats(rt).device_waits, waits);
    d->ops = real;
    tide_close(rt);
}

/* ---- random programs ---- */

enum { STREAMS = 3 };
static tide_stream *streams[STREAMS];

static bool step_compute(unsigned d, unsigned f, unsigned g) {
    tide_array *a = tide_map(rt, "(a, b) -> a - 2*b", world.x[f], world.x[g]);
    if (!a) return false;
    be_computed(d, f, g, a);
    return true;
}
static bool step(void) {
    unsigned d = dice(ARRAYS), f = dice(ARRAYS), g = dice(ARRAYS), on = dice(STREAMS + 1);
    if (tide_stream_set(rt, on < STREAMS ? streams[on] : NULL) != TIDE_OK)
        return false; /* NULL: the thread's own */
    switch (dice(10)) {
    case 0: return step_read(d);
    case 1:
    case 2:
    case 3: return step_fill(d);
    case 4:
    case 5:
    case 6: return step_assign(d, f);
    default: return step_compute(d, f, g);
    }
}
static void random_programs(void **state) {
    const char *collector = *state;
    for (uint64_t seed = 1; seed <= (test_quick() ? 4 : 12); seed++) {
        rt = test_open(&(tide_config){.collector = collector, .debug = 1});
        begin_program(rt, seed, step, 400, !strcmp(collector, "refcount"));
        for (int i = 0; i < STREAMS; i++) assert_ok(tide_stream_new(rt, &streams[i]));
        for (int i = 0; i < ARRAYS; i++) {
            assert_array(world.x[i] = tide_retain(tide_zeros(rt, TIDE_I32, SHAPE(LENGTH))));
            tide_release(world.x[i]);
        }
        run_program(seed);
        if (test_on_host()) assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t7_threads_have_streams_of_their_own),
        cmocka_unit_test(a_stream_goes_with_its_thread),
        cmocka_unit_test(a_stream_that_goes_is_nobodys),
        cmocka_unit_test(idle_threads_leave_streams),
        cmocka_unit_test(threads_do_not_wait_for_each_other),
        cmocka_unit_test(hand_overs_do_not_block),
        cmocka_unit_test(t17_views_of_one_storage),
        cmocka_unit_test(the_hosts_view_is_of_a_stretch),
        cmocka_unit_test(t17_opting_out),
        cmocka_unit_test(what_is_told_late_hides_nothing),
        cmocka_unit_test(an_external_block_keeps_its_history),
        cmocka_unit_test(t12_a_captured_stream_takes_nothing),
        {"random_programs_refcount", random_programs, NULL, NULL, (void *)(uintptr_t) "refcount"},
#if TEST_BOEHM
        {"random_programs_boehm", random_programs, NULL, NULL, (void *)(uintptr_t) "boehm"},
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
