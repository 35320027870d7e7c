/* test_cuda_peers.c: `cuda` devices that use each other's memory, over a double of the driver that
** knows who may use what: what there is and what comes later is granted, failures leave nothing
** half done, and work of one goes with events and memory of another. */
#include <sys/wait.h>
#include "runtime/hooks.h"
#include "runtime/device/cuda/device.h"
#include "tests/doubles/cuda_double.h"

/* A device with memory of each kind: two runs of pages side by side, a block of raw memory, and one
** of a pool. */
typedef struct side {
    tidei_device *d;
    tidei_dstream *s;
    tidei_addr range, raw, block;
    /* the first two are mapped in one run, and the third after them in another */
    tidei_dpage *page[6];
    tidei_dmempool *pool;
} side;

static side open_side(int ordinal) {
    side x = {.d = open_ordinal(ordinal)};
    const struct tidei_device_ops *o = x.d->ops;
    assert_ok(o->stream_new(x.d, &x.s));
    assert_ok(o->reserve(x.d, 16 * PAGE, &x.range));
    for (size_t i = 0; i < TIDEI_COUNT(x.page); i++) assert_ok(o->page_new(x.d, PAGE, &x.page[i]));
    assert_ok(o->map(x.d, x.range, x.page, 2));
    assert_ok(o->map(x.d, x.range + 2 * PAGE, x.page + 2, 1));
    assert_ok(o->raw_alloc(x.d, TIDEI_MEM_DEVICE, 100, &x.raw));
    assert_ok(o->mempool_new(x.d, &x.pool));
    assert_ok(o->mempool_alloc(x.d, x.pool, x.s, 100, &x.block));
    return x;
}

static void close_side(side *x) {
    const struct tidei_device_ops *o = x->d->ops;
    if (!atomic_load(&x->d->lost)) assert_ok(o->unmap(x->d, x->range, x->page, 3));
    for (size_t i = 0; i < TIDEI_COUNT(x->page); i++) o->page_release(x->d, x->page[i]);
    o->unreserve(x->d, x->range, 16 * PAGE);
    o->raw_free(x->d, TIDEI_MEM_DEVICE, x->raw, 100);
    assert_ok(o->mempool_free(x->d, x->pool, NULL, x->block));
    o->mempool_release(x->d, x->pool);
    o->stream_release(x->d, x->s);
    o->close(x->d);
}

static int two_devices(void **state) {
    int failed = setup(state);
    fake.devices = 2;
    return failed;
}

/* Whether device `by` may use each kind of what `x` has. */
static void assert_pages(int by, const side *x, bool may) {
    for (size_t i = 0; i < 3; i++) assert_int_equal(may_use(by, x->range + i * PAGE), may);
}
static void assert_all(int by, const side *x, bool may) {
    assert_pages(by, x, may);
    assert_int_equal(may_use(by, x->raw), may);
    assert_int_equal(may_use(by, x->block), may);
}

/* ---- cases ---- */

static void each_device_tells_its_name_and_ordinal(void **state) {
    (void)state;
    fake.devices = 3;
    for (int i = 0; i < 3; i++) {
        char name[24];
        tidei_device *d = open_ordinal(i);
        snprintf(name, sizeof name, "cuda:%d", i);
        assert_string_equal(d->info.name, name);
        assert_int_equal(d->info.ordinal, i);
        assert_int_equal(d->info.count, 3);
        d->ops->close(d);
    }
    assert_nothing_left();
}

static void it_says_which_devices_may_be_peers(void **state) {
    (void)state;
    tidei_device *a = open_ordinal(0), *b = open_ordinal(1);
    const struct tidei_device_ops *o = a->ops;
    assert_true(o->peer_possible(a, b));
    assert_true(o->peer_possible(b, a));
    assert_false(o->peer_possible(a, a));
    fake.no_peers = true;
    assert_false(o->peer_possible(a, b));
    fake.no_peers = false;
    tidei_fail(TIDE_E_INVALID, "test", "what the caller had before");
    fail_at("cuDeviceCanAccessPeer", 0, TIDEI_CU_INVALID_VALUE);
    assert_false(o->peer_possible(a, b));
    assert_error(TIDE_E_INVALID, "what the caller had before"); /* it is an answer, no failure */
    fail_at(NULL, 0, 0);
    o->lose(b, "the test says so");
    int calls = fake.calls;
    assert_false(o->peer_possible(a, b));
    assert_false(o->peer_possible(b, a));
    assert_int_equal(fake.calls, calls);
    o->close(a);
    o->close(b);
    assert_nothing_left();
}

static void a_peer_gets_all_there_is_and_will_be(void **state) {
    (void)state;
    side a = open_side(0), b = open_side(1);
    const struct tidei_device_ops *o = a.d->ops;
    tidei_dmempool *pool;
    tidei_addr block, raw;
    assert_all(0, &b, false);
    fake.current = FOREIGN;
    assert_ok(o->peer_enable(a.d, b.d));
    assert_ptr_equal(fake.current, FOREIGN);
    assert_all(0, &b, true);
    assert_all(1, &b, true);
    assert_all(1, &a, false); /* it is one-way */

    int accesses = fake.accesses;
    assert_ok(o->map(b.d, b.range + 4 * PAGE, b.page + 3, 2));
    assert_int_equal(fake.accesses, accesses + 1); /* for both devices in one call */
    assert_true(may_use(0, b.range + 4 * PAGE) && may_use(0, b.range + 5 * PAGE));
    assert_true(may_use(1, b.range + 4 * PAGE));
    assert_ok(o->raw_alloc(b.d, TIDEI_MEM_DEVICE, 100, &raw));
    assert_true(may_use(0, raw));
    assert_ok(o->mempool_new(b.d, &pool));
    assert_ok(o->mempool_alloc(b.d, pool, b.s, 100, &block));
    assert_true(may_use(0, block));

    assert_ok(o->unmap(b.d, b.range + 4 * PAGE, b.page + 3, 2));
    assert_ok(o->mempool_free(b.d, pool, b.s, block));
    o->mempool_release(b.d, pool);
    o->raw_free(b.d, TIDEI_MEM_DEVICE, raw, 100);
    close_side(&a);
    close_side(&b);
    assert_nothing_left();
}

/* The double refuses to grant what is not mapped. A call for each run of pages that one map has put
** side by side, and no page of two maps in one: they may lie in different reservations. */
static void only_what_is_mapped_is_granted(void **state) {
    (void)state;
    side a = open_side(0), b = open_side(1);
    const struct tidei_device_ops *o = a.d->ops;
    tidei_dmempool *pool;
    assert_ok(o->map(b.d, b.range + 8 * PAGE, b.page + 3, 3));
    assert_ok(o->unmap(b.d, b.range + 9 * PAGE, b.page + 4, 1)); /* from the middle */
    assert_ok(o->mempool_new(b.d, &pool));
    o->mempool_release(b.d, pool);
    int accesses = fake.accesses;
    assert_ok(o->peer_enable(a.d, b.d));
    /* runs at 0 and 2; the rest of that at 8; the pool */
    assert_int_equal(fake.accesses, accesses + 2 + 2 + 1);
    assert_true(may_use(0, b.range + 8 * PAGE) && may_use(0, b.range + 10 * PAGE));
    assert_ok(o->map(b.d, b.range + 9 * PAGE, b.page + 4, 1));
    assert_true(may_use(0, b.range + 9 * PAGE));
    assert_ok(o->unmap(b.d, b.range + 8 * PAGE, b.page + 3, 3));
    close_side(&a);
    close_side(&b);
    assert_nothing_left();
}

static void enabling_twice_asks_once(void **state) {
    (void)state;
    side a = open_side(0), b = open_side(1);
    const struct tidei_device_ops *o = a.d->ops;
    assert_ok(o->peer_enable(a.d, b.d));
    int accesses = fake.accesses, calls = fake.calls;
    assert_ok(o->peer_enable(a.d, b.d));
    assert_ok(o->peer_enable(a.d, a.d)); /* its own memory it can use */
    assert_int_equal(fake.accesses, accesses);
    assert_int_equal(fake.calls, calls);
    fake.peers[1][0] = true; /* by another library of the process */
    assert_ok(o->peer_enable(b.d, a.d));
    assert_all(1, &a, true);
    assert_int_equal(fake.peer_calls, 2);
    close_side(&a);
    close_side(&b);
    assert_nothing_left();
}

/* Every call of the driver fails in its turn. Nobody is then among those that later memory is
** granted to, which goes on as before, and the next try gives it all. */
static void every_call_of_granting_may_fail(void **state) {
    static const char *const calls[] = {"cuCtxEnablePeerAccess", "cuMemSetAccess",
                                        "cuMemPoolSetAccess"};
    int failures = 0;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++)
        for (int skip = 0, failed = 1; failed; skip++) {
            side a = open_side(0), b = open_side(1);
            const struct tidei_device_ops *o = a.d->ops;
            tidei_dmempool *pool;
            fail_at(calls[i], skip, skip % 2 ? TIDEI_CU_INVALID_VALUE : TIDEI_CU_OUT_OF_MEMORY);
            tide_status s = o->peer_enable(a.d, b.d);
            failed = s != TIDE_OK;
            if (failed) {
                failures++;
                assert_int_equal(s, skip % 2 ? TIDE_E_DEVICE : TIDE_E_NOMEM);
                assert_error(s, calls[i]);
                assert_false(atomic_load(&a.d->lost) || atomic_load(&b.d->lost));
                fail_at(NULL, 0, 0);
                assert_ok(o->map(b.d, b.range + 4 * PAGE, b.page + 3, 1));
                assert_false(may_use(0, b.range + 4 * PAGE));
                assert_ok(o->mempool_new(b.d, &pool));
                assert_int_equal(fake.pool_granted[fake.pools_made - 1], 0);
                assert_ok(o->peer_enable(a.d, b.d));
                assert_true(may_use(0, b.range + 4 * PAGE));
                assert_int_equal(fake.pool_granted[fake.pools_made - 1], 1);
                o->mempool_release(b.d, pool);
                assert_ok(o->unmap(b.d, b.range + 4 * PAGE, b.page + 3, 1));
            }
            fail_at(NULL, 0, 0);
            assert_all(0, &b, true);
            close_side(&a);
            close_side(&b);
            assert_nothing_left();
            memset(fake.peers, 0, sizeof fake.peers);
            memset(fake.pool_granted, 0, sizeof fake.pool_granted);
            fake.pools_made = 0;
        }
    assert_int_equal(failures, 1 + 2 + 1); /* the runs are two, the pool is one */
}

/* With a peer, memory that cannot be granted is not there at all. */
static void later_memory_that_cannot_be_granted_is_not_there(void **state) {
    (void)state;
    side a = open_side(0), b = open_side(1);
    const struct tidei_device_ops *o = a.d->ops;
    tidei_dmempool *pool = NULL;
    assert_ok(o->peer_enable(a.d, b.d));
    int maps = fake.maps, pools = fake.pools;
    fail_at("cuMemSetAccess", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(o->map(b.d, b.range + 4 * PAGE, b.page + 3, 2), TIDE_E_NOMEM);
    assert_int_equal(fake.maps, maps);
    fail_at("cuMemPoolSetAccess", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(o->mempool_new(b.d, &pool), TIDE_E_NOMEM);
    assert_null(pool);
    assert_int_equal(fake.pools, pools);
    fail_at("cuMemUnmap", 0, TIDEI_CU_INVALID_VALUE); /* it stays, and is granted to the next, */
    assert_int_equal(o->unmap(b.d, b.range, b.page, 2), TIDE_E_DEVICE);
    fail_at(NULL, 0, 0);
    assert_ok(o->map(b.d, b.range + 4 * PAGE, b.page + 3, 1));
    o->page_release(b.d, b.page[3]); /* but what is given up is not, mapped or not */
    fake.devices = 3;
    tidei_device *c = open_ordinal(2);
    assert_ok(o->peer_enable(c, b.d));
    assert_all(2, &b, true);
    assert_false(may_use(2, b.range + 4 * PAGE));
    fake.current = CONTEXT_OF(1);
    f_unmap(b.range + 4 * PAGE, PAGE);
    assert_ok(o->page_new(b.d, PAGE, &b.page[3]));
    o->close(c);
    close_side(&a);
    close_side(&b);
    assert_nothing_left();
}

static void more_peers_than_fit_are_refused(void **state) {
    (void)state;
    tidei_device *d[TIDEI_CUDA_PEERS + 1];
    tidei_addr at;
    tidei_dpage *p;
    fake.devices = TIDEI_CUDA_PEERS + 1;
    for (int i = 0; i <= TIDEI_CUDA_PEERS; i++) d[i] = open_ordinal(i);
    for (int i = 1; i < TIDEI_CUDA_PEERS; i++) assert_ok(d[0]->ops->peer_enable(d[i], d[0]));
    assert_int_equal(d[0]->ops->peer_enable(d[TIDEI_CUDA_PEERS], d[0]), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "cuda:0: 32 devices can use its memory");
    assert_ok(d[0]->ops->peer_enable(d[1], d[0]));
    assert_ok(d[0]->ops->reserve(d[0], PAGE, &at));
    assert_ok(d[0]->ops->page_new(d[0], PAGE, &p));
    assert_ok(d[0]->ops->map(d[0], at, &p, 1));
    for (int i = 0; i <= TIDEI_CUDA_PEERS; i++)
        assert_int_equal(may_use(i, at), i < TIDEI_CUDA_PEERS);
    assert_ok(d[0]->ops->unmap(d[0], at, &p, 1));
    d[0]->ops->page_release(d[0], p);
    d[0]->ops->unreserve(d[0], at, PAGE);
    for (int i = 0; i <= TIDEI_CUDA_PEERS; i++) d[i]->ops->close(d[i]);
    assert_nothing_left();
}

/* Which of the two is lost is told by who was asked, and the other one is none the worse. */
static void a_lost_device_is_told_by_who_was_asked(void **state) {
    static const struct {
        const char *call, *lost;
    } ways[] = {{"cuCtxEnablePeerAccess", "cuda:0"},
                {"cuMemSetAccess", "cuda:1"},
                {"cuMemPoolSetAccess", "cuda:1"}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(ways); i++) {
        side a = open_side(0), b = open_side(1);
        const struct tidei_device_ops *o = a.d->ops;
        fail_at(ways[i].call, 0, TIDEI_CU_ILLEGAL_ADDRESS);
        assert_int_equal(o->peer_enable(a.d, b.d), TIDE_E_LOST);
        assert_error(TIDE_E_LOST, ways[i].lost);
        assert_int_equal(atomic_load(&a.d->lost), i == 0);
        assert_int_equal(atomic_load(&b.d->lost), i != 0);
        fail_at(NULL, 0, 0);
        int calls = fake.calls;
        assert_int_equal(o->peer_enable(a.d, b.d), TIDE_E_LOST);
        assert_error(TIDE_E_LOST, ways[i].lost);
        assert_int_equal(o->peer_enable(b.d, a.d), TIDE_E_LOST);
        assert_error(TIDE_E_LOST, ways[i].lost);
        assert_int_equal(fake.calls, calls);
        /* the device's own list still has them when they are given back */
        fake.current = CONTEXT_OF(i ? 1 : 0);
        f_unmap(i ? b.range : a.range, 3 * PAGE);
        close_side(&a);
        close_side(&b);
        fake.current = NULL;
        assert_nothing_left();
        memset(fake.peers, 0, sizeof fake.peers);
        fake.pools_made = 0;
    }
}

static void a_forks_child_makes_no_calls(void **state) {
    int status;
    (void)state;
    tidei_threads_prepare(&tidei_threads_above); /* as opening a runtime does */
    side a = open_side(0), b = open_side(1);
    pid_t child = fork();
    if (child == 0) {
        int calls = fake.calls;
        if (a.d->ops->peer_possible(a.d, b.d)) _exit(1);
        if (a.d->ops->peer_enable(a.d, b.d) != TIDE_E_FORKED) _exit(2);
        b.d->ops->page_release(b.d, b.page[1]);
        b.d->ops->mempool_release(b.d, b.pool);
        _exit(fake.calls == calls ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_side(&a);
    close_side(&b);
    assert_nothing_left();
}

/* Drivers without the call have no pools that could be shared, and so none. */
static void without_access_to_pools_there_are_none(void **state) {
    (void)state;
    tidei_cu old = driver;
    tidei_dmempool *pool;
    old.cuMemPoolSetAccess = NULL;
    tidei_cu_use(&old);
    tidei_device *a = open_ordinal(0), *b = open_ordinal(1);
    assert_int_equal(b->ops->mempool_new(b, &pool), TIDE_E_UNSUPPORTED);
    assert_ok(a->ops->peer_enable(a, b));
    a->ops->close(a);
    b->ops->close(b);
    assert_nothing_left();
}

/* Work of one with an event and memory of the other: the double takes a stream's work in its own
** context only, an event's record too, and a copy where its device may use both ends. */
static void work_goes_across_devices(void **state) {
    (void)state;
    side a = open_side(0), b = open_side(1);
    const struct tidei_device_ops *o = a.d->ops;
    tidei_devent *e;
    tidei_addr pinned;
    assert_ok(o->raw_alloc(a.d, TIDEI_MEM_PINNED, 64, &pinned));
    assert_ok(o->event_new(b.d, &e));
    assert_ok(o->peer_enable(a.d, b.d));
    strcpy(PTR(b.range), "on the other device");
    assert_ok(o->event_record(b.d, e, b.s));
    assert_ok(o->event_wait(a.d, e, a.s));
    assert_ok(o->copy(a.d, a.s, &(tidei_copy){TIDEI_COPY_D2D, a.range + 64, b.range, 32, NULL}));
    assert_ok(o->copy(a.d, a.s, &(tidei_copy){TIDEI_COPY_D2D, b.raw, a.range + 64, 32, NULL}));
    assert_ok(o->copy_many(a.d, a.s, &(tidei_piece){a.range + 128, b.raw, 32}, 1));
    /* the other one's */
    assert_ok(o->copy(b.d, b.s, &(tidei_copy){TIDEI_COPY_D2D, pinned, b.raw, 32, NULL}));
    assert_ok(o->copy(a.d, a.s, &(tidei_copy){TIDEI_COPY_D2D, a.range + 192, pinned, 32, NULL}));
    assert_int_equal(fake.copies, 5);
    assert_string_equal(PTR(a.range + 128), "on the other device");
    assert_string_equal(PTR(a.range + 192), "on the other device");
    assert_ok(o->publish(a.d, a.s, 7));
    assert_int_equal(o->completed(a.d, a.s), 7);
    assert_int_equal(o->completed(b.d, b.s), 0);
    o->event_release(b.d, e);
    o->raw_free(a.d, TIDEI_MEM_PINNED, pinned, 64);
    close_side(&a);
    close_side(&b);
    assert_nothing_left();
}

/* ---- threads ---- */

/* What the threads call keeps its own context each, and grants nothing: it is about locks, and the
** lists under them. */
static _Thread_local tidei_cu_ctx mine;
static atomic_int together;
static tidei_cu_result t_current(tidei_cu_ctx *c) { return *c = mine, 0; }
static tidei_cu_result t_set(tidei_cu_ctx c) { return mine = c, 0; }
static tidei_cu_result t_pop(tidei_cu_ctx *c) { return *c = mine, mine = NULL, 0; }
static tidei_cu_result t_enable(tidei_cu_ctx c, unsigned flags) { return (void)c, (void)flags, 0; }
static tidei_cu_result t_map(tidei_cu_addr a, size_t n, size_t off, tidei_cu_handle h,
                             unsigned long long f) {
    return (void)a, (void)n, (void)off, (void)h, (void)f, 0;
}
static tidei_cu_result t_unmap(tidei_cu_addr a, size_t n) { return (void)a, (void)n, 0; }
static tidei_cu_result t_access(tidei_cu_addr a, size_t n, const tidei_cu_access *d, size_t count) {
    return (void)a, (void)n, (void)d, (void)count, 0;
}

typedef struct party {
    tidei_device *d, *other;
    tidei_dpage *page[3];
    int failed;
} party;

static void *party_runs(void *arg) {
    party *p = arg;
    const struct tidei_device_ops *o = p->d->ops;
    atomic_fetch_add(&together, 1);
    while (atomic_load(&together) < 4) sched_yield();
    for (int i = 0; i < 20; i++) {
        p->failed += o->map(p->d, (tidei_addr)1 << 40, p->page, 3) != TIDE_OK;
        p->failed += o->peer_enable(p->d, p->other) != TIDE_OK;
        p->failed += o->unmap(p->d, (tidei_addr)1 << 40, p->page, 3) != TIDE_OK;
    }
    return NULL;
}

/* Two threads a device; both devices enable each other while they map. */
static void two_devices_may_enable_each_other_at_once(void **state) {
    (void)state;
    tidei_cu t = driver;
    t.cuCtxGetCurrent = t_current;
    t.cuCtxSetCurrent = t.cuCtxPushCurrent = t_set;
    t.cuCtxPopCurrent = t_pop;
    t.cuCtxEnablePeerAccess = t_enable;
    t.cuMemMap = t_map;
    t.cuMemUnmap = t_unmap;
    t.cuMemSetAccess = t_access;
    for (int round = 0; round < 20; round++) {
        tidei_device *d[2] = {open_ordinal(0), open_ordinal(1)};
        party p[4] = {0};
        pthread_t thread[4];
        for (int i = 0; i < 4; i++) {
            p[i].d = d[i % 2];
            p[i].other = d[1 - i % 2];
            for (int k = 0; k < 3; k++)
                assert_ok(p[i].d->ops->page_new(p[i].d, PAGE, &p[i].page[k]));
        }
        for (int i = 0; i < 2; i++) tidei_cuda_of(d[i])->cu = &t;
        atomic_store(&together, 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, party_runs, &p[i]), 0);
        for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
        for (int i = 0; i < 2; i++) {
            tidei_cuda *c = tidei_cuda_of(d[i]);
            c->cu = &driver;
            assert_int_equal(atomic_load(&c->peers.n), 2);
            assert_null(c->peers.first);
            assert_null(c->peers.last);
        }
        for (int i = 0; i < 4; i++) {
            assert_int_equal(p[i].failed, 0);
            for (int k = 0; k < 3; k++) p[i].d->ops->page_release(p[i].d, p[i].page[k]);
        }
        for (int i = 0; i < 2; i++) d[i]->ops->close(d[i]);
        assert_nothing_left();
    }
}

#define PAIR(f) cmocka_unit_test_setup_teardown(f, two_devices, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        PAIR(each_device_tells_its_name_and_ordinal),
        PAIR(it_says_which_devices_may_be_peers),
        PAIR(a_peer_gets_all_there_is_and_will_be),
        PAIR(only_what_is_mapped_is_granted),
        PAIR(enabling_twice_asks_once),
        PAIR(every_call_of_granting_may_fail),
        PAIR(later_memory_that_cannot_be_granted_is_not_there),
        PAIR(more_peers_than_fit_are_refused),
        PAIR(a_lost_device_is_told_by_who_was_asked),
        PAIR(a_forks_child_makes_no_calls),
        PAIR(without_access_to_pools_there_are_none),
        PAIR(work_goes_across_devices),
        PAIR(two_devices_may_enable_each_other_at_once),
    };
    return cmocka_run_group_tests_name("cuda_peers", tests, NULL, NULL);
}
