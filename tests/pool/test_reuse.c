/* test_reuse.c: who gets freed memory whose last use is not over: the rules of reuse on kernels
** that are held back (E10), and a free that does not wait (E11). A host device's kernels are held
** by a gate; on cuda one runs for a while. */
#include "arrays/kernels/kernels.h"
#include "arrays/kernels/launch.h"
#include "tests/support/tidetest.h"
#include <sched.h>

#define MIB     TIDEI_MIB
#define BLOCK   (2 * MIB) /* a page of a GPU */
#define CHAIN   8
#define HELD_NS 200000000u

/* ---- a kernel that takes its time ---- */

struct held {
    uint64_t at, ns, gate;
};
static atomic_int gate; /* open: 1 */

static void held_host(const void *params) {
    const struct held *p = params;
    while (!atomic_load((atomic_int *)(uintptr_t)p->gate)) sched_yield();
    *(unsigned char *)(uintptr_t)p->at = 1;
}

static const char held_text[] =
    TIDEI_GRID_WAIT_TEXT "typedef unsigned long long u64;\n"
                         "struct P { u64 at, ns, gate; };\n"
                         "static __device__ u64 now() { u64 t; asm volatile(\"mov.u64 %0, "
                         "%%globaltimer;\" : \"=l\"(t)); return t; }\n"
                         "extern \"C\" __global__ void held(const P p) {\n"
                         "    kt_grid_wait();\n"
                         "    u64 start = now();\n"
                         "    while (now() - start < p.ns) {}\n"
                         "    if (!threadIdx.x) *(volatile unsigned char *)p.at = 1;\n"
                         "}\n";
static const tidei_own_kernel held_kernel = {"held", held_text, held_host, false};

static void use_for_long(tidei_stream *s, tidei_storage *st) {
    static const size_t at = offsetof(struct held, at);
    struct held p = {.ns = HELD_NS, .gate = (uint64_t)(uintptr_t)&gate};
    tidei_use use = {st, 0, st->bytes, TIDEI_WRITE};
    assert_ok(tide_stream_set(s->dev->rt->ref, s->ref));
    assert_ok(tidei_run_own(s->dev->rt, &held_kernel, &use, 1, &p, sizeof p, &at, 1, "test"));
    assert_ok(tide_stream_set(s->dev->rt->ref, NULL));
}

/* ---- streams, and a block that one of them used ---- */

static tide_runtime *open_with(const char *pool, size_t limit) {
    char text[32];
    snprintf(text, sizeof text, "%zu", limit);
    tide_config c = {
        .collector = "refcount", .pool = pool, .limit = limit ? text : NULL, .gc_early = TIDE_OFF};
    tide_runtime *rt = test_open(&c);
    tidei_storage *st;
    test_rt(rt)->devs[0].pool->mover = NULL; /* addresses are looked at */
    atomic_store(&gate, 1);
    assert_ok(
        tidei_storage_new(&test_rt(rt)->devs[0], BLOCK, test_rt(rt)->devs[0].stream0, "test", &st));
    /* the kernel is there from now on, and takes no memory later */
    use_for_long(test_rt(rt)->devs[0].stream0, st);
    tidei_storage_release(st);
    assert_ok(tide_device_synchronize(rt));
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
    atomic_store(&gate, 0);
    return rt;
}

static tide_stream *stream(tide_runtime *rt) {
    tide_stream *s;
    assert_ok(tide_stream_new(rt, &s));
    return s;
}

static tidei_storage *block_on(tide_stream *s, size_t bytes) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(test_stream(s)->dev, bytes, test_stream(s), "test", &st));
    return st;
}

static void touch(tide_stream *s, tidei_storage *st) {
    assert_ok(tidei_submit_fill(test_stream(s), st, 0, "", 1, 4096, "test"));
}

/* A block that s used, for as long as the gate is closed where `held`; it is free again. Its
** address. */
static tidei_addr used_and_freed(tide_stream *s, bool held) {
    tidei_storage *st = block_on(s, BLOCK);
    tidei_addr at = st->addr;
    if (held)
        use_for_long(test_stream(s), st);
    else
        touch(s, st);
    tidei_storage_release(st);
    return at;
}

/* A block for s, and its first use: has it the address `at`, and is so much waited for on the
** device? */
static void expect(tide_stream *s, tidei_addr at, bool same, unsigned waits) {
    uint64_t before = atomic_load(&test_stream(s)->dev->waits->device_waits);
    tidei_storage *st = block_on(s, BLOCK);
    touch(s, st);
    assert_int_equal(st->addr == at, same);
    assert_int_equal(atomic_load(&test_stream(s)->dev->waits->device_waits) - before, waits);
    tidei_storage_release(st);
}

static void wait_until_done(tide_stream *s) {
    tidei_stamp last = {.tick = atomic_load(&test_stream(s)->submitted),
                        .stream = test_stream(s)->slot,
                        .write = 1};
    atomic_store(&gate, 1);
    while (!tidei_stamp_done(test_stream(s)->dev, last)) sched_yield();
}

/* s[1] waits for s[0], s[2] for s[1], and so on up to s[n]: each one writes what the one before
** wrote. */
static void chain(tide_stream *const *s, unsigned n, tidei_storage *link) {
    for (unsigned i = 0; i <= n; i++) touch(s[i], link);
}

enum { OFF_FOLLOW = 1, OFF_DONE = 2, OFF_WAIT = 4 };
static tide_runtime *open_rules(unsigned off, size_t limit, tide_stream **s, unsigned n) {
    tide_runtime *rt = open_with("tide", limit);
    tide_pool *pool = tide_pool_default(rt);
    assert_ok(tide_pool_set_attribute(pool, TIDE_POOL_REUSE_FOLLOW, !(off & OFF_FOLLOW)));
    assert_ok(tide_pool_set_attribute(pool, TIDE_POOL_REUSE_DONE, !(off & OFF_DONE)));
    assert_ok(tide_pool_set_attribute(pool, TIDE_POOL_REUSE_WAIT, !(off & OFF_WAIT)));
    for (unsigned i = 0; i < n; i++) s[i] = stream(rt);
    return rt;
}

static void close_with(tide_runtime *rt, tide_stream *const *s, unsigned n) {
    atomic_store(&gate, 1);
    for (unsigned i = 0; i < n; i++) tide_stream_release(s[i]);
    assert_ok(tide_device_synchronize(rt));
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

/* ---- E10 ---- */

static void e10_the_same_stream(void **state) {
    tide_stream *s[1];
    (void)state;
    tide_runtime *rt = open_rules(OFF_FOLLOW | OFF_DONE | OFF_WAIT, 0, s, 1);
    expect(s[0], used_and_freed(s[0], true), true, 0);
    close_with(rt, s, 1);
}

/* The kernel is held, and the block can be had where its stream is waited for anyway, over any
** number of streams. */
static void e10_waited_for_anyway(void **state) {
    (void)state;
    for (unsigned off = 0; off < 2; off++)
        for (unsigned n = 1; n <= CHAIN; n++) {
            tide_stream *s[CHAIN + 1];
            tide_runtime *rt =
                open_rules(off ? OFF_FOLLOW | OFF_WAIT : OFF_DONE | OFF_WAIT, 0, s, n + 1);
            tidei_storage *link = block_on(s[0], BLOCK);
            tidei_addr at = used_and_freed(s[0], true);
            chain(s, n, link);
            expect(s[n], at, !off, 0);
            tidei_storage_release(link);
            close_with(rt, s, n + 1);
        }
}

static void e10_done_by_now(void **state) {
    (void)state;
    for (unsigned off = 0; off < 2; off++) {
        tide_stream *s[2];
        tide_runtime *rt = open_rules(off ? OFF_DONE | OFF_WAIT : OFF_FOLLOW | OFF_WAIT, 0, s, 2);
        tidei_addr at = used_and_freed(s[0], true);
        wait_until_done(s[0]);
        expect(s[1], at, !off, 0);
        close_with(rt, s, 2);
    }
}

/* There is no other memory: then the first use waits, on the device. With the rule off the pool
** takes more where it may. */
static void e10_a_wait_is_inserted(void **state) {
    (void)state;
    for (unsigned off = 0; off < 2; off++) {
        tide_stream *s[2];
        tide_runtime *rt = open_rules(off ? OFF_WAIT : 0, off ? 0 : BLOCK, s, 2);
        expect(s[1], used_and_freed(s[0], true), !off, !off);
        close_with(rt, s, 2);
    }
}

/* A program on two streams that frees, and lets some of its work end, or not. What it got, as
** distances from its first address, summed up. */
static tidei_addr program(tide_runtime *rt, bool waits) {
    tide_stream *s[2] = {stream(rt), stream(rt)};
    tidei_addr sum = 0, first = 0;
    for (unsigned i = 0; i < 24; i++) {
        tidei_storage *st = block_on(s[i * 7 % 5 % 2], (1 + i * 5 % 3) * BLOCK);
        if (!i) first = st->addr;
        sum = sum * 31 + (st->addr - first);
        touch(s[i % 2], st);
        if (i % 6 == 5)
            assert_ok(tidei_stream_follow(test_stream(s[1]), test_stream(s[0]),
                                          atomic_load(&test_stream(s[0])->submitted)));
        tidei_storage_release(st);
        if (waits && i % 4 == 3) wait_until_done(s[0]);
    }
    for (unsigned i = 0; i < 2; i++) tide_stream_release(s[i]);
    return sum;
}

/* However fast the device is, the same program gets the same addresses. */
static void e10_a_program_gets_the_same_addresses(void **state) {
    (void)state;
    tidei_addr first = 0;
    for (unsigned i = 0; i < 100; i++) {
        tide_runtime *rt = open_rules(0, 0, NULL, 0);
        assert_ok(tide_pool_set_attribute(tide_pool_default(rt), TIDE_POOL_DETERMINISTIC, 1));
        atomic_store(&gate, 1);
        tidei_addr sum = program(rt, i % 2);
        if (!i) first = sum;
        assert_int_equal(sum, first);
        close_with(rt, NULL, 0);
    }
}

/* What a stream has waited for is its own to use, whether there was anything to wait for or not.
** Each program makes s[1] come after all of s[0]'s work, and returns what block of s[0]'s is free
** then. */
static tidei_addr through_a_block(tide_stream *const *s, bool done) {
    tidei_storage *link = block_on(s[0], BLOCK), *x = block_on(s[0], BLOCK);
    tidei_addr at = x->addr;
    touch(s[0], x);
    touch(s[0], link);
    if (done) wait_until_done(s[0]);
    touch(s[1], link);
    tidei_storage_release(link);
    tidei_storage_release(x);
    return at;
}
static tidei_addr through_memory(tide_stream *const *s, bool done) {
    tidei_storage *x = block_on(s[0], BLOCK), *before = block_on(s[0], BLOCK);
    tidei_addr at = x->addr;
    touch(s[0], x);
    touch(s[0], before);
    tidei_storage_release(before);
    if (done) wait_until_done(s[0]);
    tidei_storage *link = block_on(s[0], BLOCK); /* the same memory */
    touch(s[1], link);
    tidei_storage_release(x);
    tidei_storage_release(link);
    return at;
}
static tidei_addr from_who_is_gone(tide_stream *const *s, bool done) {
    tidei_storage *link = block_on(s[0], BLOCK), *x = block_on(s[0], BLOCK);
    tidei_addr at = x->addr;
    touch(s[0], x);
    use_for_long(test_stream(s[0]), link);
    if (done) wait_until_done(s[0]);
    tide_stream_release(s[0]);
    touch(s[1], link);
    tidei_storage_release(link);
    tidei_storage_release(x);
    return at;
}

static void e10_deterministic_after_a_wait(void **state) {
    static tidei_addr (*const programs[])(tide_stream *const *s, bool done) = {
        through_a_block, through_memory, from_who_is_gone};
    (void)state;
    for (unsigned i = 0; i < 2 * TIDEI_COUNT(programs); i++) {
        tide_stream *s[2];
        tide_runtime *rt = open_rules(OFF_WAIT, 0, s, 2);
        assert_ok(tide_pool_set_attribute(tide_pool_default(rt), TIDE_POOL_DETERMINISTIC, 1));
        tidei_addr at = programs[i / 2](s, i % 2);
        tidei_storage *y = block_on(s[1], BLOCK), *z = block_on(s[1], BLOCK);
        assert_true(y->addr == at || z->addr == at);
        tidei_storage_release(y);
        tidei_storage_release(z);
        bool gone = programs[i / 2] == from_who_is_gone;
        close_with(rt, s + gone, 2 - gone);
    }
}

/* Where it does not count that work is done, giving back waits for nobody all the same. (If it did,
** this would not end on a host device.) */
static void giving_back_does_not_wait(void **state) {
    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        tide_stream *s[2];
        tide_runtime *rt = open_rules(OFF_DONE | OFF_WAIT, 0, s, 2);
        tidei_dev *d = &test_rt(rt)->devs[0];
        if (how == 0)
            assert_ok(
                tide_pool_set_attribute(tide_pool_default(rt), TIDE_POOL_RELEASE_THRESHOLD, 0));
        tidei_storage *x = block_on(s[0], BLOCK), *y = block_on(s[1], BLOCK);
        use_for_long(test_stream(s[0]), x);
        touch(s[1], y);
        tidei_storage_release(x);
        if (how == 0) assert_ok(tide_synchronize(rt, s[1]));
        if (how == 1) assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
        if (how == 2) assert_ok(tide_device_set_soft_limit(rt, BLOCK));
        if (how == 3) test_stats(rt);
        tidei_storage *z = block_on(s[1], BLOCK);
        assert_true(d->budget->backed >= 3 * BLOCK);
        tidei_storage_release(y);
        tidei_storage_release(z);
        atomic_store(&gate, 1);
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL)); /* which waits, and then it goes */
        assert_int_equal(d->budget->backed, 0);
        close_with(rt, s, 2);
    }
}

/* ---- E11 ---- */

/* One stream: 1 GiB is used for long and freed, 2 GiB asked for and used. Neither call waits, nor
** does a request that cannot be met cost anything. The sizes are parts of these. */
static void e11_a_free_that_does_not_wait(void **state) {
    static const char *const pools[] = {"tide", "none"};
    const size_t gib = test_on_host() ? 16 * MIB : TIDEI_GIB;
    (void)state;
    for (unsigned p = 0; p < TIDEI_COUNT(pools); p++) {
        tide_runtime *rt = open_with(pools[p], 0);
        tidei_dev *d = &test_rt(rt)->devs[0];
        tidei_storage *a = block_on(d->stream0->ref, gib), *none;
        tide_runtime_reset_peaks(rt);
        use_for_long(d->stream0, a);
        tidei_stamp held = {
            .tick = atomic_load(&d->stream0->submitted), .stream = d->stream0->slot, .write = 1};
        uint64_t waits = atomic_load(&d->waits->host_waits);
        tidei_storage_release(a);
        tidei_storage *b = block_on(d->stream0->ref, 2 * gib);
        assert_int_equal(tidei_storage_new(d, (size_t)1 << 60, d->stream0, "test", &none),
                         TIDE_E_NOMEM);
        /* All that while the kernel was held; the driver's own allocation may wait for it. */
        if (test_on_host() || p == 0) assert_false(tidei_stamp_done(d, held));
        assert_int_equal(atomic_load(&d->waits->host_waits), waits);
        atomic_store(&gate, 1);
        touch(d->stream0->ref, b);
        tidei_storage_release(b);
        assert_ok(tide_device_synchronize(rt));
        if (p == 0) assert_true((double)test_stats(rt).peak_backed <= 1.03 * 2 * (double)gib);
        close_with(rt, NULL, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e10_the_same_stream),
        cmocka_unit_test(e10_waited_for_anyway),
        cmocka_unit_test(e10_done_by_now),
        cmocka_unit_test(e10_a_wait_is_inserted),
        cmocka_unit_test(e10_a_program_gets_the_same_addresses),
        cmocka_unit_test(e10_deterministic_after_a_wait),
        cmocka_unit_test(giving_back_does_not_wait),
        cmocka_unit_test(e11_a_free_that_does_not_wait),
    };
    return cmocka_run_group_tests_name("reuse", tests, NULL, NULL);
}
