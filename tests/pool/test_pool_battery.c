/* test_pool_battery.c: one battery over all pools, on the device under test: figures, limits,
** contents, threads, arrays; where work can be held back, on host, who gets what is still in use;
** and what is the pool `driver`'s own: refusals, and the experiments E9 and E16 on release
** thresholds. Pools over doubles are test_pool_tide_requests.c and
** test_split_binned_simple_none.c. */
#include "runtime/pool/pools.h"
#include "tests/support/tidetest.h"
#include "tests/support/clean_environment.h"
#include <sched.h>
#include <unistd.h>

#define KIB TIDEI_KIB
#define MIB TIDEI_MIB

/* Nothing moves here: these tests look at addresses. */
static tidei_runtime *open_with(const char *pool, const char *limit) {
    tidei_runtime *rt = test_open_rt(&(tide_config){
        .collector = "refcount", .pool = pool, .limit = limit, .gc_early = TIDE_OFF});
    rt->devs[0].pool->mover = NULL;
    return rt;
}

static tidei_pool_stats figures(tidei_dev *d) {
    tidei_pool_stats s;
    d->pool->ops->settle(d->pool);
    d->pool->ops->stats(d->pool, &s);
    assert_int_equal(s.live + s.rounding + s.cached + s.pending, s.backed);
    return s;
}

/* All blocks are back: so is all memory. */
static void nothing_is_kept(tidei_dev *d) {
    assert_ok(tidei_streams_wait_all(d, true));
    tidei_pools_synced(d);
    d->pool->ops->trim(d->pool, 0);
    assert_int_equal(figures(d).backed, 0);
    assert_int_equal(d->budget->backed, 0);
    assert_true(tidei_runtime_valid(d->rt));
    if (!test_on_host()) return;
    size_t free_bytes, total;
    assert_ok(d->d->ops->memory(d->d, &free_bytes, &total));
    assert_int_equal(free_bytes, total);
}

static uint32_t dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* ---- figures ---- */

/* Of blocks that live and of those that were given back, whoever keeps them at hand. */
static void the_rounding_is_told_by_itself(void **state) {
    enum { BLOCKS = 12 };
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tidei_runtime *rt = open_with(test_pool(p), "64MiB");
        tidei_dev *d = &rt->devs[0];
        tidei_storage *st[BLOCKS];
        for (unsigned i = 0; i < BLOCKS; i++)
            assert_ok(tidei_storage_new(d, 1 + 777 * i, d->stream0, "test", &st[i]));
        for (unsigned i = 0; i < BLOCKS; i += 2) tidei_storage_release(st[i]);
        size_t told = tidei_pools_rounding(d, TIDEI_KINDS_ON_DEVICE);
        assert_int_equal(told, figures(d).rounding);
        assert_int_equal(tidei_pools_rounding(d, TIDEI_KINDS_ON_DEVICE), told);
        for (unsigned i = 1; i < BLOCKS; i += 2) tidei_storage_release(st[i]);
        assert_int_equal(tidei_pools_rounding(d, TIDEI_KINDS_ON_DEVICE), 0);
        tide_close(rt->ref);
    }
}

/* The largest request that needs no moves: by growth, or from a free piece. */
static void the_largest_request_is_told(void **state) {
    enum { BLOCKS = 64 };
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tidei_runtime *rt = open_with(test_pool(p), "64MiB");
        tidei_dev *d = &rt->devs[0];
        tidei_storage *st[BLOCKS];
        unsigned n = 0;
        bool knows = d->pool->ops->largest;
        assert_true(knows || strcmp(test_pool(p), "tide"));
        assert_int_equal(tidei_pool_largest(d->pool, MIB, tidei_left_to_back(d)),
                         knows ? 64 * MIB : 0);
        while (n < BLOCKS && tidei_storage_new(d, MIB, d->stream0, "test", &st[n]) == TIDE_OK) n++;
        for (unsigned i = 0; i < n; i += 2) tidei_storage_release(st[i]);
        assert_int_equal(tidei_pool_largest(d->pool, 2 * MIB, tidei_left_to_back(d)),
                         knows ? MIB : 0);
        for (unsigned i = 1; i < n; i += 2) tidei_storage_release(st[i]);
        assert_int_equal(tidei_pool_largest(d->pool, 65 * MIB, tidei_left_to_back(d)),
                         knows ? 64 * MIB : 0);
        tide_close(rt->ref);
    }
}

/* ---- contents ---- */

enum { STREAMS = 4, SLOTS = 40 };
typedef struct held {
    tidei_storage *st;
    uint32_t mark; /* every word of it */
} held;

static void make_marked(tidei_dev *d, tidei_stream *const *s, held *h, uint64_t *seed) {
    size_t words = (size_t)1 + (dice(seed) % 400000 >> dice(seed) % 12);
    h->mark = dice(seed);
    assert_ok(tidei_storage_new(d, words * 4, s[dice(seed) % STREAMS], "test", &h->st));
    assert_int_equal(h->st->addr % d->d->info.align, 0);
    assert_ok(tidei_submit_fill(s[dice(seed) % STREAMS], h->st, 0, &h->mark, 4, words, "test"));
}

static void drop_marked(tidei_stream *s, held *h) {
    uint32_t *copy = malloc(h->st->bytes);
    assert_ok(tidei_submit_copy(s, TIDEI_COPY_D2H, NULL, 0, copy, h->st, 0, h->st->bytes, "test"));
    assert_ok(tidei_stream_wait(s, true));
    for (size_t i = 0; i < h->st->bytes / 4; i++)
        if (copy[i] != h->mark) fail_msg("word %zu of %zu bytes is another's", i, h->st->bytes);
    free(copy);
    tidei_storage_release(h->st);
    h->st = NULL;
}

static void contents_stay_intact(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tidei_runtime *rt = open_with(test_pool(p), "64MiB");
        tidei_dev *d = &rt->devs[0];
        tidei_stream *s[STREAMS] = {d->stream0};
        held slots[SLOTS] = {{0}};
        uint64_t seed = p + 1;
        for (unsigned k = 1; k < STREAMS; k++) assert_ok(tidei_stream_open(d, &s[k]));
        for (unsigned i = 0, n = test_quick() ? 200 : 800; i < n; i++) {
            held *h = &slots[dice(&seed) % SLOTS];
            if (h->st)
                drop_marked(s[dice(&seed) % STREAMS], h);
            else
                make_marked(d, s, h, &seed);
            if (i % 16 == 0) assert_true(tidei_runtime_valid(rt));
        }
        for (unsigned k = 0; k < SLOTS; k++)
            if (slots[k].st) drop_marked(s[k % STREAMS], &slots[k]);
        assert_true(d->budget->peak_backed <= 64 * MIB);
        nothing_is_kept(d);
        for (unsigned k = 1; k < STREAMS; k++) tidei_stream_drop(s[k]);
        tide_close(rt->ref);
    }
}

/* ---- limits ---- */

/* Filled up to where nothing fits any more; what does not fit leaves all as it was. */
static void limits_are_kept(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tidei_runtime *rt = open_with(test_pool(p), "96MiB");
        tidei_dev *d = &rt->devs[0];
        tidei_storage *st[200];
        unsigned n = 0;
        uint64_t seed = p + 1;
        for (tide_status got = TIDE_OK; got == TIDE_OK; n += got == TIDE_OK) {
            assert_true(n < TIDEI_COUNT(st));
            got = tidei_storage_new(d, (size_t)1 + dice(&seed) % (3 * MIB), d->stream0, "test",
                                    &st[n]);
            if (got != TIDE_OK) assert_int_equal(got, TIDE_E_NOMEM);
            if (n > 2 && dice(&seed) % 3 == 0) {
                tidei_storage *old = st[n / 2];
                if (old) tidei_storage_release(old);
                st[n / 2] = NULL;
            }
        }
        assert_true(d->budget->peak_backed <= 96 * MIB);
        tidei_pool_stats before = figures(d), after;
        tidei_block b;
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(d->pool->ops->alloc(d->pool, 90 * MIB, d->stream0, 0, &b),
                             TIDE_E_NOMEM);
        after = figures(d);
        assert_memory_equal(&before, &after, sizeof after);
        for (unsigned i = 0; i < n; i++)
            if (st[i]) tidei_storage_release(st[i]);
        tidei_storage *big; /* nothing that lies cached is in the way */
        assert_ok(tidei_storage_new(d, 90 * MIB, d->stream0, "test", &big));
        assert_true(d->budget->peak_backed <= 96 * MIB);
        tidei_storage_release(big);
        nothing_is_kept(d);
        tide_close(rt->ref);
    }
}

/* ---- arrays ---- */

static void arrays_run_on_every_pool(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tidei_runtime *rt = open_with(test_pool(p), NULL);
        const int64_t n = 64;
        tide_array *last = NULL;
        for (int round = 0; round < 20; round++) {
            tide_array *a = tide_full(rt->ref, TIDE_F32, SHAPE(n, n), tide_arg_float(round));
            tide_array *b = tide_map(rt->ref, "(a) -> 2*a + 1", a), *c = tide_matmul(a, b);
            tide_array *s = tide_map(rt->ref, "(c) -> sum(c)", c);
            assert_array(s);
            double x = round, wanted = (double)(n * n) * (double)n * x * (2 * x + 1);
            assert_true(tide_item_f64(s) == wanted);
            tide_array *made[] = {a, b, c, s};
            for (unsigned i = 0; i < TIDEI_COUNT(made); i++) tide_release(made[i]);
            tide_release(last);
            last = tide_zeros(rt->ref, TIDE_U8, SHAPE(100000 + round * 7000));
            assert_array(last);
        }
        assert_true(tidei_runtime_valid(rt));
        tide_close(rt->ref); /* `last` still lives */
        assert_true(tide_array_is_freed(last));
        tide_release(last);
    }
}

/* ---- who gets what is still in use ---- */

#define BIG (12 * MIB) /* a segment of its own in `split` */

static atomic_int gate;
static void wait_at_the_gate(const void *params) {
    (void)params;
    while (!atomic_load(&gate)) sched_yield();
}

enum taker { OWN, FOLLOWER, STRANGER, THIEF, LATECOMER, TAKERS };

/* A block freed with work held back on stream 1: may another have it? LATECOMER: the work is done
** by then. */
static bool gets_it(const char *pool, unsigned rules, bool deterministic, enum taker who) {
    tidei_runtime *rt = open_with(pool, NULL);
    tidei_dev *d = &rt->devs[0];
    tidei_pool *p = d->pool;
    tidei_stream *s[2];
    tidei_storage *st;
    tidei_block b;
    tidei_launch l = {.name = "gate", .host_fn = wait_at_the_gate};
    atomic_store(&p->attrs.reuse, rules);
    atomic_store(&p->attrs.deterministic, deterministic);
    atomic_store(&p->attrs.threshold, TIDEI_THRESHOLD_NONE);
    atomic_store(&gate, 0);
    for (unsigned i = 0; i < 2; i++) assert_ok(tidei_stream_open(d, &s[i]));
    assert_ok(tidei_storage_new(d, BIG, s[0], "test", &st));
    tidei_addr at = st->addr;
    assert_ok(tidei_submit_launch(s[0], &(tidei_use){st, 0, 4096, TIDEI_WRITE}, 1, &l, NULL, NULL,
                                  "test"));
    tidei_storage_release(st);
    if (who == FOLLOWER) assert_ok(tidei_stream_follow(s[1], s[0], s[0]->submitted));
    if (who == LATECOMER) {
        atomic_store(&gate, 1);
        assert_ok(tidei_streams_wait_all(d, true));
    }
    unsigned flags = TIDEI_ALLOC_NO_GROW | (who == THIEF ? TIDEI_ALLOC_STEAL : 0);
    size_t backed = figures(d).backed;
    tide_status got = p->ops->alloc(p, BIG, s[who != OWN], flags, &b);
    assert_true(got == TIDE_OK || got == TIDE_E_NOMEM);
    if (got == TIDE_OK) {
        assert_int_equal(b.addr, at);
        p->ops->free(p, &b);
    }
    assert_int_equal(figures(d).backed, backed);
    atomic_store(&gate, 1);
    nothing_is_kept(d);
    for (unsigned i = 0; i < 2; i++) tidei_stream_drop(s[i]);
    tide_close(rt->ref);
    return got == TIDE_OK;
}

static void freed_memory_goes_by_the_rules(void **state) {
    (void)state;
    enum { FOLLOW = TIDEI_REUSE_FOLLOW, DONE = TIDEI_REUSE_DONE, WAIT = TIDEI_REUSE_WAIT };
    static const struct {
        unsigned rules;
        bool deterministic;
        bool gets[TAKERS];
    } rows[] = {{FOLLOW | DONE, false, {true, true, false, true, true}},
                {FOLLOW, false, {true, true, false, true, false}},
                {DONE, false, {true, false, false, true, true}},
                {0, false, {true, false, false, true, false}},
                {WAIT, false, {true, true, true, true, true}},
                {FOLLOW | DONE, true, {true, true, false, true, false}}};
    static const char *const pools[] = {"tide", "driver", "split", "binned", "simple"};
    if (!test_on_host()) skip(); /* work that waits for a flag */
    for (unsigned p = 0; p < TIDEI_COUNT(pools); p++)
        for (unsigned i = 0; i < TIDEI_COUNT(rows); i++) {
            /* `tide` waits only where it would have to grow */
            if (p == 0 && rows[i].rules & WAIT) continue;
            for (enum taker who = OWN; who < TAKERS; who++)
                if (gets_it(pools[p], rows[i].rules, rows[i].deterministic, who) !=
                    rows[i].gets[who])
                    fail_msg("%s, row %u of rules, taker %d: wanted %d", pools[p], i, who,
                             rows[i].gets[who]);
        }
}

static void *open_the_gate(void *arg) {
    (void)arg;
    usleep(20000);
    atomic_store(&gate, 1);
    return NULL;
}

/* Under a limit of one block: the second one waits, on the device or for it, for the end of the
** work on the first, and nothing is collected for it. */
static void what_is_pending_serves_in_the_end(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    for (unsigned i = 0; i < TEST_POOLS; i++) {
        tidei_runtime *rt =
            open_with(test_pool(i), strcmp(test_pool(i), "split") ? "12MiB" : "20MiB");
        tidei_dev *d = &rt->devs[0];
        tidei_launch l = {.name = "gate", .host_fn = wait_at_the_gate};
        tidei_storage *st;
        pthread_t thread;
        atomic_store(&gate, 0);
        for (unsigned k = 0; k < 2; k++) {
            assert_ok(tidei_storage_new(d, BIG, d->stream0, "test", &st));
            assert_ok(tidei_submit_launch(d->stream0, &(tidei_use){st, 0, 4096, TIDEI_WRITE}, 1, &l,
                                          NULL, NULL, "test"));
            tidei_storage_release(st);
            if (!k) assert_int_equal(pthread_create(&thread, NULL, open_the_gate, NULL), 0);
        }
        pthread_join(thread, NULL);
        assert_int_equal(test_stats(rt->ref).climbs, 0);
        assert_int_equal(test_stats(rt->ref).collections, 0);
        nothing_is_kept(d);
        tide_close(rt->ref);
    }
}

/* ---- the driver's refusals ---- */

/* Blocks of two streams, used across them, taken again, given back. What it holds at the end is in
** b. */
static tide_status use_the_driver(tidei_dev *d, tidei_stream *const *s, tidei_block *b,
                                  unsigned n) {
    tidei_pool *p = d->pool;
    tide_status st = TIDE_OK;
    for (unsigned i = 0; i < n && st == TIDE_OK; i++)
        st = p->ops->alloc(p, (i + 1) * 50 * KIB, s[i % 2], 0, &b[i]);
    for (unsigned i = 0; i < n && st == TIDE_OK; i += 2) { /* both streams' last uses */
        for (unsigned k = 0; k < 2; k++) {
            assert_true(tidei_stamps_reserve(&b[i].stamps, 1));
            pthread_mutex_lock(&s[k]->lock);
            tidei_stamps_add(
                &b[i].stamps,
                (tidei_stamp){.tick = tidei_stream_tick(s[k]), .stream = s[k]->slot, .write = 1});
            pthread_mutex_unlock(&s[k]->lock);
        }
        p->ops->free(p, &b[i]);
        b[i].priv = NULL;
    }
    atomic_store(&p->attrs.threshold, MIB);
    if (st == TIDE_OK) st = p->ops->alloc(p, 40 * KIB, s[1], TIDEI_ALLOC_STEAL, &b[0]);
    p->ops->settle(p);
    p->ops->trim(p, 100 * KIB);
    return st;
}

static void every_refusal_of_the_driver_leaves_order(void **state) {
    (void)state;
    static const enum tidei_fault_slot slots[] = {
        TIDEI_FAULT_MEMPOOL_ALLOC, TIDEI_FAULT_MEMPOOL_FREE,    TIDEI_FAULT_MEMPOOL_SET,
        TIDEI_FAULT_MEMPOOL_TRIM,  TIDEI_FAULT_MEMPOOL_FIGURES, TIDEI_FAULT_EVENT_WAIT};
    if (!test_on_host()) skip();
    for (unsigned k = 0; k < 2 * TIDEI_COUNT(slots); k++) {
        enum tidei_fault_slot slot = slots[k / 2];
        bool sticky = k % 2, failed = true;
        for (uint64_t n = 1; failed; n++) {
            tidei_device_params params = {.host_device_memory = 64 * MIB, .host_checker = true};
            tide_config c = {.struct_size = sizeof c, .pool = "driver"};
            tidei_device *inner, *device;
            tidei_runtime *rt;
            tidei_stream *s[2];
            tidei_block b[8] = {{0}};
            assert_ok(tidei_host_open(&params, &inner));
            assert_ok(tidei_fault_open(inner, &device));
            assert_ok(tidei_runtime_open_on(&c, device, &rt));
            tidei_dev *d = &rt->devs[0];
            for (unsigned i = 0; i < 2; i++) assert_ok(tidei_stream_open(d, &s[i]));
            tidei_fault_set(device, slot, n, TIDE_E_DEVICE, sticky);
            uint64_t calls = tidei_fault_calls(device, slot);
            tide_status st = use_the_driver(d, s, b, TIDEI_COUNT(b));
            failed = tidei_fault_calls(device, slot) - calls >= n;
            assert_true(st == TIDE_OK || (failed && st == TIDE_E_DEVICE));
            tidei_fault_set(device, slot, 0, TIDE_OK, false);
            for (unsigned i = 0; i < TIDEI_COUNT(b); i++)
                if (b[i].priv) d->pool->ops->free(d->pool, &b[i]);
            assert_ok(tidei_streams_wait_all(d, true));
            figures(d);
            nothing_is_kept(d);
            assert_int_equal(tidei_host_checker_reports(inner), 0);
            tidei_runtime_close(rt);
        }
    }
}

/* Blocks that a stream freed before it was released, and blocks of a stream that is gone. */
static void blocks_outlive_their_streams(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tidei_runtime *rt = open_with(test_pool(p), NULL);
        tidei_dev *d = &rt->devs[0];
        for (unsigned i = 0; i < 20; i++) {
            tidei_stream *s;
            tidei_storage *st;
            uint32_t word = i;
            assert_ok(tidei_stream_open(d, &s));
            assert_ok(tidei_storage_new(d, 100 * KIB, s, "test", &st));
            assert_ok(tidei_submit_fill(s, st, 0, &word, 4, 1000, "test"));
            tidei_stream_drop(s);
            if (i % 2) assert_ok(tidei_streams_wait_all(d, true));
            tidei_streams_sweep(d, false);
            tidei_storage_release(st);
        }
        nothing_is_kept(d);
        tide_close(rt->ref);
    }
}

/* ---- choosing one ---- */

static void max_split_stands_behind_the_name(void **state) {
    (void)state;
    tidei_runtime *rt = open_with("split:200MiB", NULL);
    assert_string_equal(rt->devs[0].pool->ops->name, "split");
    assert_int_equal(rt->devs[0].pool->attrs.max_split, 200 * MIB);
    tide_close(rt->ref);
    rt = open_with("split", NULL);
    assert_int_equal(rt->devs[0].pool->attrs.max_split, SIZE_MAX);
    tide_close(rt->ref);
}

static char said[300];
static void keep_line(void *user, int level, const char *line) {
    (void)user;
    if (level == TIDE_LOG_WARNING) snprintf(said, sizeof said, "%s", line);
}

static int own_environment(void **state) { return (void)state, clear_environment(), 0; }

/* A device without pools of its own. Asked for by the environment, it is a warning. */
static void driver_wants_a_driver_that_has_them(void **state) {
    (void)state;
    for (unsigned given = 0; given < 2; given++) {
        tidei_device_params params = {.host_device_memory = 64 * MIB};
        tide_config c = {.struct_size = sizeof c, .log = keep_line};
        tidei_device *d;
        tidei_runtime *rt;
        assert_ok(tidei_host_open(&params, &d));
        struct tidei_device_ops without = *d->ops;
        without.mempool_new = NULL;
        d->ops = &without;
        *said = 0;
        if (given) {
            c.pool = "driver";
            assert_int_equal(tidei_runtime_open_on(&c, d, &rt), TIDE_E_UNSUPPORTED);
            assert_error(TIDE_E_UNSUPPORTED, "host:0 has no pools");
        } else {
            setenv("TIDE_POOL", "driver", 1);
            assert_ok(tidei_runtime_open_on(&c, d, &rt));
            unsetenv("TIDE_POOL");
            assert_string_equal(rt->devs[0].pool->ops->name, "tide");
            assert_non_null(strstr(said, "TIDE_POOL=driver: host:0 has no pools"));
            tidei_runtime_close(rt);
        }
    }
}

/* ---- experiments: release thresholds ---- */

/* Sizes are an H200's; a host device's are 1/64 of them. */
static size_t scaled(size_t bytes) { return test_on_host() ? bytes / 64 : bytes; }

/* What NVIDIA's text calls a stream synchronisation: the device's own, also where the work is known
** to be done; then ours. */
static void synchronize(tidei_dev *d) {
    assert_ok(d->d->ops->stream_sync(d->d, d->stream0->ds));
    assert_ok(tide_synchronize(d->rt->ref, d->stream0->ref));
}

static void set_threshold(tidei_runtime *rt, size_t bytes) {
    assert_ok(
        tide_pool_set_attribute(tide_pool_default(rt->ref), TIDE_POOL_RELEASE_THRESHOLD, bytes));
}

static tidei_storage *used_block(tidei_dev *d, size_t bytes) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(d, bytes, d->stream0, "test", &st));
    assert_ok(tidei_submit_fill(d->stream0, st, 0, "", 1, 4096, "test"));
    return st;
}

/* E9: 20 times: allocate 1 GiB, a kernel, free, synchronise. */
static void threshold_loop(const char *pool) {
    const size_t block = scaled(TIDEI_GIB), part = scaled(256 * MIB);
    const struct {
        size_t threshold, least, most; /* reserved after each synchronisation */
        /* from the second iteration on the driver is not asked for memory */
        bool settles;
    } rows[] = {{0, 0, 0, false},
                {part, 0, part, false},
                {TIDE_POOL_THRESHOLD_UNLIMITED, block, SIZE_MAX, true}};
    for (unsigned r = 0; r < TIDEI_COUNT(rows); r++) {
        tidei_runtime *rt = open_with(pool, NULL);
        tidei_dev *d = &rt->devs[0];
        /* the driver's by default: 0 */
        if (r || strcmp(pool, "driver")) set_threshold(rt, rows[r].threshold);
        for (unsigned i = 0; i < 20; i++) {
            uint64_t driver_allocs = d->budget->driver_allocs;
            tidei_storage_release(used_block(d, block));
            synchronize(d);
            size_t reserved = figures(d).backed;
            if (reserved < rows[r].least || reserved > rows[r].most)
                fail_msg("%s, threshold %zu, iteration %u: %zu bytes reserved", pool,
                         rows[r].threshold, i, reserved);
            if (rows[r].settles && i)
                assert_int_equal(d->budget->driver_allocs, driver_allocs);
            else
                assert_true(d->budget->driver_allocs > driver_allocs);
        }
        nothing_is_kept(d);
        tide_close(rt->ref);
    }
}

static void e09_threshold_loop(void **state) {
    (void)state;
    threshold_loop("driver");
    threshold_loop("tide");
}

/* E16: 1.5 GiB of temporaries at the peak, 0.5 GiB kept: a cap of 64 MiB on what is held gives the
** rest back at the next synchronisation. Kept ones come last, or first, so that pages in use lie at
** either end. */
static void threshold_cap(const char *pool, bool kept_first) {
    enum { TEMPORARIES = 12, KEPT = 4 };
    const size_t piece = scaled(128 * MIB), cap = scaled(64 * MIB);
    tidei_runtime *rt = open_with(pool, NULL);
    tidei_dev *d = &rt->devs[0];
    tidei_storage *st[TEMPORARIES + KEPT], **left = kept_first ? st : st + TEMPORARIES,
                                           **temporaries = kept_first ? st + KEPT : st;
    set_threshold(rt, TIDE_POOL_THRESHOLD_UNLIMITED);
    for (unsigned i = 0; i < TEMPORARIES + KEPT; i++) st[i] = used_block(d, piece);
    for (unsigned i = 0; i < TEMPORARIES; i++) tidei_storage_release(temporaries[i]);
    synchronize(d);
    tidei_pool_stats s = figures(d);
    assert_int_equal(s.live, KEPT * piece);
    assert_true(s.backed >= s.live + TEMPORARIES * piece);
    set_threshold(rt, cap);
    synchronize(d);
    s = figures(d);
    assert_int_equal(s.live, KEPT * piece);
    assert_true(s.backed <= s.live + cap);
    size_t free_bytes, total;
    assert_ok(d->d->ops->memory(d->d, &free_bytes, &total));
    /* the driver's own figure */
    if (test_on_host()) assert_int_equal(total - free_bytes, s.backed);
    for (unsigned i = 0; i < KEPT; i++) tidei_storage_release(left[i]);
    nothing_is_kept(d);
    tide_close(rt->ref);
}

static void e16_threshold_cap(void **state) {
    (void)state;
    threshold_cap("driver", false);
    threshold_cap("tide", false);
    threshold_cap("tide", true);
}

/* ---- threads ---- */

enum { CROWD = 16, CROWD_SLOTS = 64, WORK_EVERY = 50 /* steps */ };

/* Storages lie in slots that all threads take from: made here, given back there. The lowest bit:
** marked. */
static struct crowd {
    tidei_dev *d;
    unsigned steps; /* of each thread */
    _Atomic uintptr_t slots[CROWD_SLOTS];
    _Atomic unsigned bad;
} crowd;
typedef struct member {
    tidei_stream *s;
    unsigned number;
} member;

/* What nothing is pending on may be written by the host at once, where it can: ThreadSanitizer
** looks on. */
static bool mark(tidei_storage *st) {
    if (!test_on_host() || st->stamps.n) return false;
    uint64_t *p = (uint64_t *)(uintptr_t)st->addr;
    p[0] = p[st->bytes / 8 - 1] = (uintptr_t)st;
    return true;
}
static bool marked_still(const tidei_storage *st) {
    const uint64_t *p = (const uint64_t *)(uintptr_t)st->addr;
    return p[0] == (uintptr_t)st && p[st->bytes / 8 - 1] == (uintptr_t)st;
}

static void give_back(uintptr_t box) {
    tidei_storage *st = (tidei_storage *)(box & ~(uintptr_t)1);
    if (!st) return;
    if (box & 1 && !marked_still(st)) crowd.bad++;
    tidei_storage_release(st);
}

static void *crowd_main(void *arg) {
    const member *m = arg;
    uint64_t seed = m->number + 1;
    for (unsigned i = 0; i < crowd.steps; i++) {
        tidei_storage *st;
        size_t words = (size_t)2 + (dice(&seed) % 8192 >> dice(&seed) % 12);
        if (tidei_storage_new(crowd.d, words * 8, m->s, "test", &st) != TIDE_OK) {
            crowd.bad++;
            break;
        }
        uintptr_t box = (uintptr_t)st;
        if (i % WORK_EVERY == m->number) {
            uint64_t value = i;
            if (tidei_submit_fill(m->s, st, 0, &value, 8, words, "test") != TIDE_OK) crowd.bad++;
        } else if (mark(st)) {
            box |= 1;
        }
        give_back(atomic_exchange(&crowd.slots[dice(&seed) % CROWD_SLOTS], box));
    }
    return NULL;
}

/* 10^7 pairs in the long run of the default pool. */
static unsigned crowd_steps(unsigned pool) {
    if (test_long() && !strcmp(test_pool(pool), "tide")) return 10000000 / CROWD;
    return test_quick() ? 300 : 1500;
}

static void many_threads_mixed(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tidei_runtime *rt = open_with(test_pool(p), NULL);
        pthread_t threads[CROWD];
        member members[CROWD];
        memset(&crowd, 0, sizeof crowd);
        crowd.d = &rt->devs[0];
        crowd.steps = crowd_steps(p);
        for (unsigned k = 0; k < CROWD; k++) {
            members[k].number = k;
            assert_ok(tidei_stream_open(crowd.d, &members[k].s));
        }
        for (unsigned k = 0; k < CROWD; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, crowd_main, &members[k]), 0);
        for (unsigned k = 0; k < CROWD; k++) pthread_join(threads[k], NULL);
        for (unsigned k = 0; k < CROWD_SLOTS; k++) give_back(crowd.slots[k]);
        assert_int_equal(crowd.bad, 0);
        assert_int_equal(figures(crowd.d).live, 0);
        for (unsigned k = 0; k < CROWD; k++) tidei_stream_drop(members[k].s);
        nothing_is_kept(crowd.d);
        tide_close(rt->ref);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rounding_is_told_by_itself),
        cmocka_unit_test(the_largest_request_is_told),
        cmocka_unit_test(contents_stay_intact),
        cmocka_unit_test(many_threads_mixed),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(arrays_run_on_every_pool),
        cmocka_unit_test(freed_memory_goes_by_the_rules),
        cmocka_unit_test(what_is_pending_serves_in_the_end),
        cmocka_unit_test(every_refusal_of_the_driver_leaves_order),
        cmocka_unit_test(blocks_outlive_their_streams),
        cmocka_unit_test(max_split_stands_behind_the_name),
        cmocka_unit_test_setup_teardown(driver_wants_a_driver_that_has_them, own_environment,
                                        restore_environment),
        cmocka_unit_test(e09_threshold_loop),
        cmocka_unit_test(e16_threshold_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
