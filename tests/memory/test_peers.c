/* test_peers.c: finding out whether a device reaches another's memory, over doubles of the host
** devices' table: once, with a proof, and again where it failed; use and staged copies in which
** every device call and every host allocation fails in its turn; devices that are lost beside
** others. */
#include "tests/support/clean_environment.h"
#include "tests/support/devices.h"
#include "tests/doubles/hooked_host.h"

/* ---- host devices with access to enable, whose calls can fail, or bring zeros ---- */

enum { N = 4 };
static struct {
    struct tidei_device_ops ops;
    const struct tidei_device_ops *real;
    tidei_device *impossible; /* nobody has peer access to it */
    atomic_int asked, enabled[N][N];
    atomic_int copies;      /* on the device, so far */
    int zeros_at;           /* the one that brings zeros; 0: none */
    _Atomic uint64_t calls; /* of all slots that can fail */
    _Atomic uint64_t fail_at;
} dbl;

static tide_status turn(const char *slot) {
    uint64_t call = atomic_fetch_add(&dbl.calls, 1) + 1;
    if (call != atomic_load(&dbl.fail_at)) return TIDE_OK;
    return tidei_fail(TIDE_E_DEVICE, slot, "call %llu, %s, fails on purpose",
                      (unsigned long long)call, slot);
}
#define FAILING(slot, parameters, ...)                                                             \
    static tide_status dbl_##slot parameters {                                                     \
        tide_status status = turn(#slot);                                                          \
        return status == TIDE_OK ? dbl.real->slot(__VA_ARGS__) : status;                           \
    }
FAILING(page_new, (tidei_device * d, size_t n, tidei_dpage **out), d, n, out)
FAILING(map, (tidei_device * d, tidei_addr a, tidei_dpage *const *p, size_t n), d, a, p, n)
FAILING(raw_alloc, (tidei_device * d, tidei_mem_kind k, size_t n, tidei_addr *out), d, k, n, out)
FAILING(mempool_alloc,
        (tidei_device * d, tidei_dmempool *mp, tidei_dstream *s, size_t n, tidei_addr *out), d, mp,
        s, n, out)
FAILING(stream_new, (tidei_device * d, tidei_dstream **out), d, out)
FAILING(event_new, (tidei_device * d, tidei_devent **out), d, out)
FAILING(event_record, (tidei_device * d, tidei_devent *e, tidei_dstream *s), d, e, s)
FAILING(event_wait, (tidei_device * d, tidei_devent *e, tidei_dstream *s), d, e, s)
FAILING(publish, (tidei_device * d, tidei_dstream *s, uint64_t tick), d, s, tick)
FAILING(launch, (tidei_device * d, tidei_dstream *s, const tidei_launch *l), d, s, l)

/* However it ends, the host's memory is not in use any more. */
static tide_status dbl_stream_sync(tidei_device *d, tidei_dstream *s) {
    tide_status status = dbl.real->stream_sync(d, s);
    return status == TIDE_OK ? turn("stream_sync") : status;
}
static tide_status dbl_copy(tidei_device *d, tidei_dstream *s, const tidei_copy *c) {
    tide_status status = turn("copy");
    if (status != TIDE_OK) return status;
    if (c->kind == TIDEI_COPY_D2D && atomic_fetch_add(&dbl.copies, 1) + 1 == dbl.zeros_at)
        return dbl.real->fill(d, s, c->dst, "", 1, c->bytes);
    return dbl.real->copy(d, s, c);
}
static bool dbl_peer_possible(tidei_device *d, tidei_device *other) {
    atomic_fetch_add(&dbl.asked, 1);
    return d != dbl.impossible && other != dbl.impossible;
}
static tide_status dbl_peer_enable(tidei_device *d, tidei_device *other) {
    tide_status status = turn("peer_enable");
    if (status == TIDE_OK) atomic_fetch_add(&dbl.enabled[d->info.ordinal][other->info.ordinal], 1);
    return status;
}

static tide_runtime *open_doubles(int n, tide_config c) {
    tide_runtime *rt;
    c.device = "host";
    c.log_level = TIDE_LOG_WARNING;
    logged.n = 0;
    assert_ok(tide_open(&c, &rt));
    memset(&dbl, 0, sizeof dbl);
    dbl.real = test_rt(rt)->devs[0].d->ops;
    dbl.ops = *dbl.real;
    dbl.ops.page_new = dbl_page_new;
    dbl.ops.map = dbl_map;
    dbl.ops.raw_alloc = dbl_raw_alloc;
    dbl.ops.mempool_alloc = dbl_mempool_alloc;
    dbl.ops.stream_new = dbl_stream_new;
    dbl.ops.stream_sync = dbl_stream_sync;
    dbl.ops.event_new = dbl_event_new;
    dbl.ops.event_record = dbl_event_record;
    dbl.ops.event_wait = dbl_event_wait;
    dbl.ops.publish = dbl_publish;
    dbl.ops.launch = dbl_launch;
    dbl.ops.copy = dbl_copy;
    dbl.ops.peer_possible = dbl_peer_possible;
    dbl.ops.peer_enable = dbl_peer_enable;
    for (int i = 0; i < n; i++) half(rt, i)->d->ops = &dbl.ops;
    return rt;
}
static tide_runtime *open_doubled(int n, const char *peers) {
    return open_doubles(n, devices_config(n, peers));
}

/* ---- found out once ---- */

static void E3_access_is_enabled_once(void **state) {
    (void)state;
    tide_runtime *rt = open_doubled(3, "0-1");
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 100);
    for (int i = 0; i < 3; i++) {
        on(rt, 1);
        tide_array *b = tide_map(rt, "(a) -> a + 1", a), *c = tide_copy(a);
        assert_counts(b, 100, 1);
        assert_counts(c, 100, 0);
        assert_int_equal(tide_device_reaches(rt, 1, 0), 1);
        on(rt, 2);
        assert_null(tide_map(rt, "(a) -> a + 1", a));
        assert_error(TIDE_E_UNSUPPORTED, "host:0");
        assert_error(TIDE_E_UNSUPPORTED, "host:2");
        assert_error(TIDE_E_UNSUPPORTED, "tide_device_set");
        assert_error(TIDE_E_UNSUPPORTED, "tide_copy");
        tide_release(b);
        tide_release(c);
    }
    assert_int_equal(dbl.enabled[1][0], 1);
    assert_int_equal(dbl.enabled[0][1], 0); /* nobody wanted that */
    on(rt, 1);
    tide_array *there = counting(rt, TIDE_MEMORY_DEVICE, 100);
    on(rt, 0);
    tide_array *sum = tide_add(a, there);
    assert_array(sum);
    assert_int_equal(dbl.enabled[0][1], 1);
    for (int i = 0; i < 2; i++) assert_int_equal(dbl.enabled[2][i] + dbl.enabled[i][2], 0);
    assert_int_equal(dbl.asked, 2); /* what is forbidden is not asked for */
    tide_array *all[] = {a, there, sum};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    tide_error_clear();
    close_devices(rt);
}

enum { THREADS = 8 };
static struct {
    tide_runtime *rt;
    tide_array *a;
    pthread_barrier_t start;
    atomic_int wrong;
} race;

static void *use_it(void *arg) {
    int here = 1 + (int)(uintptr_t)arg % 2;
    pthread_barrier_wait(&race.start);
    bool right = tide_device_set(race.rt, here) == TIDE_OK;
    tide_array *sum = tide_map(race.rt, "(a) -> sum(a)", race.a);
    right = right && sum && tide_item_f64(sum) == 4950;
    tide_release(sum);
    if (!right) atomic_fetch_add(&race.wrong, 1);
    return NULL;
}
static void E3_once_for_threads_at_once(void **state) {
    (void)state;
    for (int round = 0; round < (test_quick() ? 5 : 20); round++) {
        pthread_t t[THREADS];
        race.rt = open_doubled(3, NULL);
        race.a = counting(race.rt, TIDE_MEMORY_DEVICE, 100);
        atomic_store(&race.wrong, 0);
        pthread_barrier_init(&race.start, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, use_it, (void *)(uintptr_t)i);
        for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
        pthread_barrier_destroy(&race.start);
        assert_int_equal(atomic_load(&race.wrong), 0);
        for (int i = 1; i < 3; i++) assert_int_equal(dbl.enabled[i][0], 1);
        tide_release(race.a);
        close_devices(race.rt);
    }
}

static void where_there_is_no_access(void **state) {
    (void)state;
    tide_runtime *rt = open_doubled(3, NULL);
    dbl.impossible = half(rt, 2)->d;
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 100);
    on(rt, 2);
    for (int i = 0; i < 2; i++) {
        assert_null(tide_add(a, a));
        assert_error(TIDE_E_UNSUPPORTED, "the two have no peer access");
    }
    tide_error_clear();
    assert_int_equal(dbl.asked, 1);
    tide_array *b = tide_copy(a);
    assert_counts(b, 100, 0);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) assert_int_equal(dbl.enabled[i][k], 0);
    assert_int_equal(tide_device_reaches(rt, 2, 0), 0);
    assert_int_equal(tide_device_reaches(rt, 2, 2), 1);
    tide_release(a);
    tide_release(b);
    close_devices(rt);
}

/* The first of the proof's copies reads the other's memory, the second writes to it. */
static void what_brings_wrong_bytes_is_not_used(void **state) {
    (void)state;
    for (int wrong = 1; wrong <= 2; wrong++) {
        tide_runtime *rt = open_doubled(2, NULL);
        tide_array *a = patterned(rt, TIDE_MEMORY_DEVICE, 10000, 5);
        on(rt, 1);
        dbl.zeros_at = dbl.copies + wrong;
        int before = dbl.copies;
        assert_null(tide_add(a, a));
        assert_error(TIDE_E_UNSUPPORTED, "brought wrong bytes");
        assert_error(TIDE_E_UNSUPPORTED, "host:0");
        assert_error(TIDE_E_UNSUPPORTED, "host:1");
        assert_int_equal(dbl.copies, before + wrong);
        assert_null(tide_add(a, a));
        assert_int_equal(tide_device_reaches(rt, 1, 0), 0);
        tide_error_clear();
        assert_int_equal(dbl.copies, before + wrong); /* looked at once */
        assert_int_equal(dbl.enabled[1][0], 1);
        assert_int_equal(
            lines_with(TIDE_LOG_WARNING, "host:1 reads and writes host:0's memory wrong"), 1);
        tide_array *b = tide_copy(a);
        assert_array(b);
        /* there and back again, by the host's memory */
        assert_int_equal(dbl.copies, before + wrong + 2);
        assert_pattern(b, 10000, 5);
        assert_int_equal(logged.n, 1);
        tide_release(a);
        tide_release(b);
        close_devices(rt);
    }
}

/* ---- what fails in its turn ---- */

static struct {
    tide_runtime *rt;
    tide_array *a, *made;
} work;

/* Of an array of device 0, device 1 being current. */
static tide_status use_across(void) {
    work.made = tide_map(work.rt, "(a) -> a + 1", work.a);
    return work.made ? tide_synchronize(work.rt, NULL) : tide_error_last()->status;
}
static void check_use(void) { assert_counts(work.made, 1000, 1); }
static tide_status copy_across(void) {
    work.made = tide_copy(work.a);
    return work.made ? tide_synchronize(work.rt, NULL) : tide_error_last()->status;
}
static void check_copy(void) {
    assert_int_equal(tide_array_device(work.made), 1);
    assert_counts(work.made, 1000, 0);
}
static tide_status cast_across(void) {
    tide_array *back = tide_slice(work.a, "::-1");
    if (back) work.made = tide_cast(back, TIDE_F64);
    tide_status status = work.made ? TIDE_OK : tide_error_last()->status;
    tide_release(back);
    return status == TIDE_OK ? tide_synchronize(work.rt, NULL) : status;
}
static double from_the_end(int64_t i) { return (double)(999 - i); }
static void check_cast(void) { assert_values(work.made, 1000, from_the_end); }
static tide_status long_copy(void) { return copy_across(); }
static void check_long(void) { assert_pattern(work.made, 3 * PIECE + 5, 3); }

static const struct task {
    const char *name, *peers;
    tide_status (*run)(void);
    void (*check)(void);
    bool is_long;
} tasks[] = {
    {"use", "all", use_across, check_use, false},
    {"copy", "all", copy_across, check_copy, false},
    {"cast", "all", cast_across, check_cast, false},
    {"staged copy", "none", copy_across, check_copy, false},
    {"staged cast", "none", cast_across, check_cast, false},
    {"pieces", "none", long_copy, check_long, true},
};

/* The n-th call, or allocation of host memory, fails. False: that was not reached. */
static bool fails_once(const struct task *t, bool by_hook, uint64_t n) {
    tide_config c = devices_config(2, t->peers);
    c.allocator = &hooked;
    memset(&work, 0, sizeof work);
    work.rt = open_doubles(2, c);
    work.a = t->is_long ? patterned(work.rt, TIDE_MEMORY_DEVICE, 3 * PIECE + 5, 3)
                        : counting(work.rt, TIDE_MEMORY_DEVICE, 1000);
    on(work.rt, 1);
    synchronize_all(work.rt);
    size_t live = live_of(work.rt, 1);
    _Atomic uint64_t *calls = by_hook ? &hook.calls : &dbl.calls,
                     *fail_at = by_hook ? &hook.fail_at : &dbl.fail_at;
    atomic_store(calls, 0);
    atomic_store(fail_at, n);
    tide_error_clear();
    tide_status status = t->run();
    atomic_store(fail_at, 0);
    bool reached = atomic_load(calls) >= n;
    if (status != TIDE_OK) {
        if (status != (by_hook ? TIDE_E_HOST_NOMEM : TIDE_E_DEVICE) ||
            strncmp(tide_error_last()->operation, "tide_", 5))
            if (!strstr(tide_error_last()->operation, "->"))
                fail_msg("%s, %s %llu: %s by \"%s\": %s", t->name, by_hook ? "host memory" : "call",
                         (unsigned long long)n, tide_status_name(status),
                         tide_error_last()->operation, tide_error_last()->message);
        tide_error_clear();
    } else {
        t->check();
    }
    tide_release(work.made);
    work.made = NULL;
    synchronize_all(work.rt);
    assert_int_equal(live_of(work.rt, 1), live);
    assert_true(tidei_runtime_valid(test_rt(work.rt)));
    if (t->run() != TIDE_OK)
        fail_msg("%s, %llu, afterwards: %s", t->name, (unsigned long long)n,
                 tide_error_last()->message);
    t->check();
    if (!strcmp(t->peers, "all")) assert_int_equal(tide_device_reaches(work.rt, 1, 0), 1);
    tide_release(work.made);
    tide_release(work.a);
    close_devices(work.rt);
    assert_int_equal(atomic_load(&hook.held), 0);
    return reached;
}

static void each_failure_is_clean(void **state) {
    const struct task *t = *state;
    if (t->is_long && test_quick()) skip();
    for (int by_hook = 0; by_hook < 2; by_hook++) {
        uint64_t n = 1;
        while (fails_once(t, by_hook, n)) n++;
        assert_true(n > (by_hook ? 1 : 3));
    }
}

/* What could not be found out, for its device had no room, is found out once there is. */
static void a_full_device_finds_out_later(void **state) {
    tide_config c = devices_config(2, NULL);
    (void)state;
    c.limit = "1MiB";
    c.pool = "tide"; /* the limit's last byte is in its pages */
    tide_runtime *rt = open_doubles(2, c);
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 100);
    on(rt, 1);
    tide_array *full = tide_empty(rt, TIDE_U8, SHAPE((int64_t)MIB));
    assert_array(full);
    assert_int_equal(tide_device_reaches(rt, 1, 0), -1);
    assert_error(TIDE_E_NOMEM, "host:1"); /* the report says whose memory is short */
    assert_int_equal(tide_map_into(a, "(a) -> a + 1", a), TIDE_E_NOMEM);
    tide_error_clear();
    tide_release(full);
    assert_int_equal(live_of(rt, 1), 0);
    assert_ok(tide_map_into(a, "(a) -> a + 1", a));
    assert_counts(a, 100, 1);
    assert_int_equal(tide_device_reaches(rt, 1, 0), 1);
    tide_release(a);
    close_devices(rt);
}

/* ---- devices that are lost ---- */

#define LOST(call)                                                                                 \
    do {                                                                                           \
        tide_error_clear();                                                                        \
        assert_true(call);                                                                         \
        assert_error(TIDE_E_LOST, "host:1 is lost: an illegal address");                           \
        assert_int_equal(!strncmp(tide_error_last()->operation, "tide_", 5) ||                     \
                             strstr(tide_error_last()->operation, "->"),                           \
                         1);                                                                       \
    } while (0)

static void a_lost_device_is_lost_alone(void **state) {
    static const char *const peers[] = {"all", "none"};
    (void)state;
    for (int known = 0; known < 2; known++)
        for (int p = 0; p < 2; p++) {
            float out[100];
            tide_runtime *rt = open_hosts(3, peers[p]);
            tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 100),
                       *b = counting(rt, TIDE_MEMORY_DEVICE, 100);
            on(rt, 1);
            tide_array *x = counting(rt, TIDE_MEMORY_DEVICE, 100),
                       *pinned = counting(rt, TIDE_MEMORY_PINNED, 100);
            on(rt, 0);
            if (known && !p) { /* each has used the other's */
                assert_ok(tide_map_into(a, "(a, x) -> a + x - x", a, x));
                assert_int_equal(tide_device_reaches(rt, 1, 0), 1);
            }
            tidei_host_lose(test_rt(rt)->devs[1].d, "an illegal address");
            for (int here = 0; here < 3; here += 2) {
                on(rt, here);
                LOST(!tide_map(rt, "(x) -> x + 1", x));
                LOST(!tide_map(rt, "(x) -> sum(x)", pinned));
                LOST(!tide_copy(x));
                LOST(!tide_cast(x, TIDE_F64));
                LOST(!tide_copy(pinned));
                LOST(tide_assign(a, x) == TIDE_E_LOST);
                LOST(tide_assign(x, a) == TIDE_E_LOST);
                LOST(tide_fill(x, tide_arg_int(1)) == TIDE_E_LOST);
                LOST(tide_to_host(x, out, sizeof out) == TIDE_E_LOST);
                tide_error_clear();
                tide_array *fine = here ? tide_copy(a) : tide_map(rt, "(a) -> a*1", a);
                assert_array(fine);
                assert_counts(fine, 100, 0);
                tide_release(fine);
            }
            on(rt, 1);
            LOST(!tide_zeros(rt, TIDE_F32, SHAPE(3)));
            LOST(!tide_copy(a));
            LOST(!tide_map(rt, "(a) -> a + 1", a));
            LOST(tide_device_synchronize(rt) == TIDE_E_LOST);
            tide_error_clear();
            on(rt, 0);
            assert_ok(tide_assign(b, a));
            assert_ok(tide_device_synchronize(rt));
            tide_array *all[] = {a, b, x, pinned};
            for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
            assert_int_equal(test_stats(rt).live, 0);
            assert_true(tidei_runtime_valid(test_rt(rt)));
            assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
            tide_close(rt);
        }
}

/* Work of the host device that runs once its gate opens, and tells when it begins and ends. */
struct guard {
    atomic_int began, open, ended;
};
static void stand(void *arg) {
    struct guard *g = arg;
    atomic_store(&g->began, 1);
    while (!atomic_load(&g->open)) sched_yield();
    atomic_store(&g->ended, 1);
}

/* A stream of device 0 waits for one of device 1, whose work stands at a gate when that one is
** lost. */
static void what_waited_for_it_ends(void **state) {
    (void)state;
    tide_runtime *rt = open_hosts(2, NULL);
    tide_array *a = tide_ones(rt, TIDE_F32, SHAPE(100));
    struct guard g = {0};
    tidei_stream *here = half(rt, 0)->stream0, *there = half(rt, 1)->stream0;
    on(rt, 1);
    /* nothing of that device's is given back meanwhile */
    tide_array *x = tide_zeros(rt, TIDE_F32, SHAPE(100));
    tide_use use = {.array = x, .mode = TIDE_WRITE};
    tide_use_scope *scope;
    void *p;
    assert_ok(tide_use_begin(rt, there->ref, &use, 1, &p, &scope));
    assert_ok(tide_use_launch(scope, stand, &g));
    assert_ok(tide_use_end(scope));
    while (!atomic_load(&g.began)) sched_yield();
    on(rt, 0);
    assert_ok(tidei_stream_follow(here, there, atomic_load(&there->submitted)));
    assert_ok(tide_fill(a, tide_arg_int(7))); /* behind the wait */
    tidei_host_lose(test_rt(rt)->devs[1].d, "an illegal address");
    assert_ok(tide_device_synchronize(rt)); /* the gate is closed */
    assert_int_equal(atomic_load(&g.ended), 0);
    /* what a lost device gives back waits for the program's functions on it */
    atomic_store(&g.open, 1);
    tide_array *least = tide_map(rt, "(a) -> min(a)", a);
    assert_true(tide_item_f64(least) == 7);
    tide_array *all[] = {a, x, least};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    tide_close(rt);
    assert_int_equal(atomic_load(&g.ended), 1);
}

/* What a lost device had still to write elsewhere is not there, whether its stream is, or was
** released since. */
static void what_was_not_written_is_an_error(void **state) {
    (void)state;
    for (int released = 0; released < 2; released++) {
        tide_runtime *rt = open_hosts(2, NULL);
        tide_array *late = counting(rt, TIDE_MEMORY_PINNED, 100),
                   *done = counting(rt, TIDE_MEMORY_PINNED, 100);
        struct guard g = {0};
        tide_stream *s;
        on(rt, 1);
        assert_ok(tide_stream_new(rt, &s));
        assert_ok(tide_stream_set(rt, s));
        tide_use uses[] = {{.array = done, .mode = TIDE_WRITE},
                           {.array = late, .mode = TIDE_WRITE}};
        tide_use_scope *scope;
        void *p;
        for (int i = 0; i < 2; i++) {
            atomic_store(&g.open, !i);
            atomic_store(&g.began, 0);
            assert_ok(tide_use_begin(rt, s, &uses[i], 1, &p, &scope));
            assert_ok(tide_use_launch(scope, stand, &g));
            assert_ok(tide_use_end(scope));
            if (!i) assert_ok(tide_synchronize(rt, s));
        }
        while (!atomic_load(&g.began)) sched_yield();
        on(rt, 0);
        tidei_host_lose(half(rt, 1)->d, "an illegal address");
        atomic_store(&g.open, 1);
        if (released) tide_stream_release(s);
        tide_host_view v;
        LOST(tide_host_view_begin(late, TIDE_READ, &v) == TIDE_E_LOST);
        tide_error_clear();
        assert_ok(tide_host_view_begin(done, TIDE_READ, &v));
        assert_ok(tide_host_view_end(&v));
        tide_release(late);
        tide_release(done);
        tide_close(rt);
    }
}

/* ---- the setting ---- */

static void peers_as_text(void **state) {
    static const char *const good[] = {"",        "all",        "none", "0-1",  "1-0",
                                       "0-1,2-3", "0-31,31-30", "5-5",  "00-01"},
                             *const bad[] = {"0",    "0-",       "-1",
                                             "0-1,", ",0-1",     "0-1;2-3",
                                             "0-32", "a-b",      "0 -1",
                                             "0- 1", "0-1 ",     " 0-1",
                                             "ALL",  "0-1-2",    "0--1",
                                             "+0-1", "0-+1",     "all,",
                                             "any",  "0-1,,2-3", "99999999999999999999-0",
                                             "0-1,x"};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(good); i++) assert_true(tidei_peers_parse(good[i]));
    for (unsigned i = 0; i < TIDEI_COUNT(bad); i++) {
        tide_runtime *rt;
        tide_config c = devices_config(2, bad[i]);
        if (tidei_peers_parse(bad[i])) fail_msg("\"%s\" is taken", bad[i]);
        c.device = "host";
        assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "all, none, or pairs of devices: 0-1,2-3");
    }
    tide_error_clear();
}

static int alone(void **state) { return (void)state, clear_environment(), 0; }
static void peers_by_the_environment(void **state) {
    static const struct {
        const char *value, *config;
        bool reached, warned;
    } rows[] = {{"none", NULL, false, false},  {"0-1", NULL, true, false},
                {"1-2", NULL, false, false},   {"none", "all", true, false},
                {"all", "none", false, false}, {"nobody", NULL, true, true}};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(rows); i++) {
        tide_config c = devices_config(3, rows[i].config);
        tide_runtime *rt;
        c.device = "host";
        c.log_level = TIDE_LOG_WARNING;
        logged.n = 0;
        setenv("TIDE_PEERS", rows[i].value, 1);
        assert_ok(tide_open(&c, &rt));
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_PEERS"), rows[i].warned);
        assert_int_equal(tide_device_reaches(rt, 0, 1), rows[i].reached);
        assert_int_equal(tide_device_reaches(rt, 1, 0), rows[i].reached);
        close_devices(rt);
    }
}

int main(void) {
    static struct CMUnitTest tests[TIDEI_COUNT(tasks) + 10] = {
        cmocka_unit_test(E3_access_is_enabled_once),
        cmocka_unit_test(E3_once_for_threads_at_once),
        cmocka_unit_test(where_there_is_no_access),
        cmocka_unit_test(what_brings_wrong_bytes_is_not_used),
        cmocka_unit_test(a_full_device_finds_out_later),
        cmocka_unit_test(a_lost_device_is_lost_alone),
        cmocka_unit_test(what_waited_for_it_ends),
        cmocka_unit_test(what_was_not_written_is_an_error),
        cmocka_unit_test(peers_as_text),
        cmocka_unit_test_setup_teardown(peers_by_the_environment, alone, restore_environment),
    };
    for (size_t i = 0; i < TIDEI_COUNT(tasks); i++)
        tests[10 + i] = (struct CMUnitTest){tasks[i].name, each_failure_is_clean, NULL, NULL,
                                            (void *)(uintptr_t)&tasks[i]};
    return _cmocka_run_group_tests("peers", tests, TIDEI_COUNT(tests), NULL, NULL);
}
