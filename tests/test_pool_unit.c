/* test_pool_unit.c: the pools alone, over doubles: which stream gets what, where memory comes from and goes to, and every
** call that can fail failing. What they do on a real device is test_pool.c. */
#include "tests/tidetest.h"
#include "tests/pool_double.h"
#include "runtime/pool/tide_pool.h"
#include <zlib.h>

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (64 * KIB)

static void keep_caches(tidei_pool *p, bool on) {
    atomic_store(&p->attrs.caches, on);
    p->ops->changed(p);
}
static tidei_pool *open_tide(void) { return open_pool(&tidei_pool_tide, PAGE, 64 * MIB); }

/* ---- blocks of one stream ---- */

static void splits_and_merges(void **state) {
    (void)state;
    static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (unsigned o = 0; o < TIDEI_COUNT(orders); o++) {
        tidei_pool *p = open_tide();
        tidei_block b[3];
        for (unsigned i = 0; i < 3; i++) {
            b[i] = must(p, 1000 * (i + 1), 0);
            assert_int_equal(b[i].addr % 256, 0);
        }
        assert_int_equal(b[1].addr - b[0].addr, 1024);
        assert_int_equal(b[2].addr - b[1].addr, 2048);
        tidei_pool_stats s = figures(p);
        assert_int_equal(s.live, 6000);
        assert_int_equal(s.rounding, 144);
        assert_int_equal(s.largest, PAGE - 6144);
        for (unsigned i = 0; i < 3; i++) {
            put(p, &b[orders[o][i]], 0, 1);
            assert_true(balanced(p));
        }
        assert_int_equal(figures(p).largest, PAGE);
        close_clean(p);
    }
}

static void takes_the_best_fit(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    keep_caches(p, false);
    static const size_t sizes[] = {4096, 256, 1024, 256, 2048, 256, 1024, 256};
    tidei_block b[TIDEI_COUNT(sizes)];
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++) b[i] = must(p, sizes[i], 0);
    tidei_addr at[TIDEI_COUNT(sizes)];
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++) at[i] = b[i].addr;
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i += 2) put(p, &b[i], 0, 1);
    assert_int_equal(must(p, 1024, 0).addr, at[2]); /* exact, and the lower of two */
    assert_int_equal(must(p, 900, 0).addr, at[6]);
    assert_int_equal(must(p, 900, 0).addr, at[4]); /* no exact one left: the next larger, not the largest */
    assert_int_equal(must(p, 1024, 0).addr, at[4] + 1024);
    assert_int_equal(must(p, 4096, 0).addr, at[0]);
    close_clean(p);
}

static void refuses_the_absurd(void **state) {
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 255, SIZE_MAX / 2, 257 * MIB, 64 * MIB + 1};
    for (unsigned k = 0; k < 2; k++) {
        tidei_pool *p = open_pool(k ? &tidei_pool_none : &tidei_pool_tide, PAGE, 64 * MIB);
        tidei_block kept = must(p, 5000, 0), b;
        tidei_pool_stats before = figures(p), after;
        atomic_store(&dbl.dev.limit, 64 * MIB);
        for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++)
            assert_int_equal(get(p, sizes[i], 0, 0, &b), TIDE_E_NOMEM);
        after = figures(p);
        assert_memory_equal(&before, &after, sizeof before);
        put(p, &kept, 0, 0);
        close_clean(p);
    }
}

/* What the device has done, and when somebody asked, changes no address of a single stream. */
static void is_deterministic(void **state) {
    (void)state;
    enum { STEPS = 4000, BLOCKS = 200 };
    static tidei_addr trace[2][STEPS];
    for (unsigned run = 0; run < 2; run++) {
        tidei_pool *p = open_tide();
        static tidei_block b[BLOCKS];
        uint64_t seed = 7, tick = 0;
        memset(b, 0, sizeof b);
        for (unsigned i = 0; i < STEPS; i++) {
            tidei_block *x = &b[dice(&seed) % BLOCKS];
            size_t bytes = (size_t)1 + (dice(&seed) % 60000 >> dice(&seed) % 12);
            if (run && i % 3 == 0) double_complete(0, tick);
            if (i % 50 == 0) p->ops->settle(p);
            if (x->priv) {
                put(p, x, 0, ++tick);
                x->priv = NULL;
            } else {
                *x = must(p, bytes, 0);
                trace[run][i] = x->addr;
            }
        }
        assert_int_equal(run, dbl.asks > 0 ? run : 0);
        close_clean(p);
    }
    assert_memory_equal(trace[0], trace[1], sizeof trace[0]);
}

static void one_stream_never_asks(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b[8];
    for (unsigned round = 1; round < 20; round++) {
        for (unsigned i = 0; i < 8; i++) b[i] = must(p, (size_t)round * 3000 * (i + 1), 0);
        for (unsigned i = 0; i < 8; i++) put(p, &b[i], 0, round);
    }
    assert_int_equal(dbl.asks, 0);
    assert_int_equal(figures(p).parked, figures(p).backed);
    close_clean(p);
}

/* ---- who may have a freed block ---- */

static void own_work_needs_no_waiting(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block a = must(p, PAGE, 1), b;
    tidei_addr at = a.addr;
    put(p, &a, 1, 5);
    assert_int_equal(get(p, PAGE, 1, TIDEI_ALLOC_NO_GROW, &b), TIDE_OK);
    assert_int_equal(b.addr, at);
    assert_int_equal(b.stamps.n, 1); /* the history goes with it */
    assert_int_equal(tidei_stamps_at(&b.stamps)[0].tick, 5);
    assert_int_equal(tidei_stamps_at(&b.stamps)[0].stream, 1);
    assert_int_equal(dbl.asks, 0);
    put(p, &b, 0, 0);
    close_clean(p);
}

static void pending_work_of_others_refuses(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block a = must(p, PAGE, 1), b;
    put(p, &a, 1, 5);
    assert_int_equal(get(p, PAGE, 2, TIDEI_ALLOC_NO_GROW, &b), TIDE_E_NOMEM);
    assert_int_equal(figures(p).parked, PAGE);
    double_complete(1, 4);
    assert_int_equal(get(p, PAGE, 2, TIDEI_ALLOC_NO_GROW, &b), TIDE_E_NOMEM);
    double_complete(1, 5); /* found out by asking, before growing */
    assert_int_equal(get(p, PAGE, 2, 0, &b), TIDE_OK);
    assert_int_equal(b.stamps.n, 0);
    assert_int_equal(figures(p).backed, PAGE);
    put(p, &b, 2, 9);
    dbl.streams[3].seen[2] = 9; /* stream 3 has waited for stream 2 */
    dbl.asks = 0;
    assert_int_equal(get(p, PAGE, 3, TIDEI_ALLOC_NO_GROW, &b), TIDE_OK);
    assert_int_equal(dbl.asks, 0);
    assert_int_equal(b.stamps.n, 1);
    put(p, &b, 3, 2);                           /* pending on 2 and 3 */
    atomic_store(&dbl.streams[3].completed, 2); /* somebody else asked */
    assert_int_equal(get(p, PAGE, 1, TIDEI_ALLOC_NO_GROW, &b), TIDE_E_NOMEM);
    atomic_store(&dbl.streams[2].completed, 9);
    assert_int_equal(get(p, PAGE, 1, TIDEI_ALLOC_NO_GROW, &b), TIDE_OK);
    put(p, &b, 0, 0);
    close_clean(p);
}

static void stealing_hands_out_the_stamps(void **state) {
    (void)state;
    for (unsigned streams = 1; streams <= 6; streams++) { /* more than three do not fit inline */
        tidei_pool *p = open_tide();
        tidei_block a = must(p, PAGE, 1), b, c;
        for (unsigned s = 1; s <= streams; s++) used_by(&a, s, 10 + s);
        put(p, &a, 0, 0);
        assert_int_equal(get(p, 1000, 7, TIDEI_ALLOC_NO_GROW, &b), TIDE_E_NOMEM);
        if (streams > TIDEI_STAMPS_INLINE) {
            dbl.fail_after[CALL_HOST] = 0; /* for the stamps of the rest */
            assert_int_equal(get(p, 1000, 7, TIDEI_ALLOC_STEAL, &b), TIDE_E_HOST_NOMEM);
            assert_true(balanced(p));
        }
        assert_int_equal(get(p, 1000, 7, TIDEI_ALLOC_STEAL, &b), TIDE_OK); /* rather than growing */
        assert_int_equal(get(p, PAGE - 1024, 7, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_NO_GROW, &c), TIDE_OK);
        assert_int_equal(figures(p).backed, PAGE);
        tidei_block *both[] = {&b, &c};
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(both[k]->stamps.n, streams);
            for (unsigned s = 1; s <= streams; s++) {
                tidei_stamp x = tidei_stamps_at(&both[k]->stamps)[s - 1];
                assert_int_equal(x.stream, s);
                assert_int_equal(x.tick, 10 + s);
                assert_true(x.write);
            }
            put(p, both[k], 7, 1);
        }
        assert_true(balanced(p));
        for (unsigned s = 1; s <= 7; s++) double_complete(s, 20);
        assert_int_equal(p->ops->settle(p), PAGE);
        assert_int_equal(figures(p).largest, PAGE);
        close_clean(p);
    }
}

static void closes_whatever_is_pending(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block a = must(p, 1000, 0), b = must(p, 1000, 0);
    for (unsigned s = 0; s < 6; s++) used_by(&a, s, 1);
    put(p, &a, 0, 0);
    (void)b; /* never comes back */
    close_clean(p);
}

static void neighbours_join_when_one_stream_is_pending(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b[4];
    for (unsigned i = 0; i < 4; i++) b[i] = must(p, PAGE / 4, i % 2);
    put(p, &b[0], 0, 1);
    put(p, &b[1], 1, 1); /* two streams: apart */
    assert_int_equal(figures(p).largest, PAGE / 4);
    used_by(&b[2], 0, 1);
    put(p, &b[2], 1, 2); /* by itself pending on two: apart from both */
    assert_int_equal(figures(p).largest, PAGE / 4);
    double_complete(0, 1);
    assert_int_equal(p->ops->settle(p), PAGE / 4); /* what is ready stays so, until a stream wants it together */
    assert_int_equal(figures(p).largest, PAGE / 4);
    tidei_block c;
    assert_int_equal(get(p, 3 * PAGE / 4, 0, TIDEI_ALLOC_NO_GROW, &c), TIDE_E_NOMEM);
    assert_int_equal(get(p, 3 * PAGE / 4, 1, TIDEI_ALLOC_NO_GROW, &c), TIDE_OK);
    assert_int_equal(tidei_stamps_at(&c.stamps)[0].tick, 2);
    put(p, &c, 1, 3);
    put(p, &b[3], 1, 0);
    double_complete(1, 3);
    assert_int_equal(p->ops->settle(p), 3 * PAGE / 4);
    assert_int_equal(figures(p).largest, PAGE);
    close_clean(p);
}

/* Only one of many foreign pieces is covered, and it lies beyond what is looked at first. */
static void looks_at_all_before_growing(void **state) {
    (void)state;
    enum { N = 96 }; /* three whole pages */
    tidei_pool *p = open_tide();
    static tidei_block b[2 * N];
    for (unsigned i = 0; i < 2 * N; i++) b[i] = must(p, 1024, 1);
    for (unsigned i = 0; i < N; i++) put(p, &b[2 * i], 1, i == N - 1 ? 1 : 2);
    dbl.streams[2].seen[1] = 1;
    tidei_block c;
    assert_int_equal(get(p, 1024, 2, TIDEI_ALLOC_NO_GROW, &c), TIDE_OK);
    assert_int_equal(c.addr, b[2 * (N - 1)].addr);
    drop_stamps(&c);
    close_clean(p);
}

/* ---- what streams keep from each other ---- */

/* Pieces of these sizes, taken together on stream 0 for the work'th time, are used on the next of k streams. At most `limit`
** bytes; 0: any. Work i takes what work i - sets has, and no stream waits for anybody else. */
static void pass_through(unsigned k, const size_t *sizes, unsigned n, size_t kept, size_t limit, unsigned sets) {
    tidei_pool *p = open_tide();
    tidei_block b[4], resident = {0};
    size_t whole = 0;
    keep_caches(p, false);
    if (kept) resident = must(p, kept, 0);
    for (unsigned i = 0; i < n; i++) whole += sizes[i];
    if (limit) atomic_store(&dbl.dev.limit, limit);
    for (unsigned work = 0; work < 8 * (k + 1); work++) {
        unsigned s = 1 + work % k, of = 1 + (work - sets) % k;
        uint64_t tick = work / k + 1;
        for (unsigned i = 0; i < n; i++) {
            b[i] = must(p, sizes[i], 0);
            assert_int_equal(b[i].stamps.n, work >= sets);
            if (work < sets) continue;
            assert_int_equal(tidei_stamps_at(&b[i].stamps)[0].stream, of);
            assert_int_equal(tidei_stamps_at(&b[i].stamps)[0].tick, (work - sets) / k + 1);
            drop_stamps(&b[i]);
        }
        atomic_store(&dbl.streams[s].submitted, tick);
        for (unsigned i = 0; i < n; i++) put(p, &b[i], s, tick);
    }
    assert_int_equal(figures(p).backed, tidei_round_up(kept, PAGE) + sets * whole);
    if (kept) put(p, &resident, 0, 0);
    close_clean(p);
}

static void buffers_pass_through_streams(void **state) {
    (void)state;
    static const size_t one[] = {MIB}, two[] = {12 * PAGE, 4 * PAGE};
    for (unsigned k = 1; k <= 8; k++) {
        pass_through(k, one, 1, 0, 0, k + 1);
        pass_through(k, two, 2, 0, 0, k + 1); /* passed on together */
        pass_through(k, one, 1, 5 * MIB, 0, k + 1);
        pass_through(k, one, 1, 0, (k + 1) * MIB, k + 1);
        pass_through(k, one, 1, 0, k * MIB, k); /* one too few: what is oldest is waited for, at once */
    }
}

/* Temporaries are all that is in use: each stream has its own. */
static void streams_work_side_by_side(void **state) {
    (void)state;
    enum { STREAMS = 4 };
    tidei_pool *p = open_tide();
    keep_caches(p, false);
    for (unsigned round = 1; round < 10; round++) {
        for (unsigned s = 0; s < STREAMS; s++) {
            tidei_block b = must(p, MIB, s);
            for (unsigned i = 0; i < b.stamps.n; i++) assert_int_equal(tidei_stamps_at(&b.stamps)[i].stream, s);
            atomic_store(&dbl.streams[s].submitted, round);
            put(p, &b, s, round);
        }
    }
    assert_int_equal(figures(p).backed, STREAMS * MIB);
    close_clean(p);
}

/* Streams that take memory themselves take turns, for memory is worth more than the wait; but for a small part of all. */
static void who_takes_also_gives(void **state) {
    (void)state;
    for (unsigned takes = 0; takes < 2; takes++) {
        tidei_pool *p = open_tide();
        tidei_block kept = must(p, 20 * MIB, 0), a, b, c;
        keep_caches(p, false);
        if (takes) { /* from memory that is free: what counts is that it wanted some */
            a = must(p, MIB, 1);
            put(p, &a, 0, 0);
        }
        a = must(p, MIB, 0);
        tidei_addr at = a.addr;
        size_t backed = figures(p).backed;
        put(p, &a, 1, 1);
        b = must(p, MIB, 0); /* little is kept */
        assert_int_equal(figures(p).backed, backed += MIB);
        put(p, &b, 2, 1);
        c = must(p, MIB, 0); /* more is: 2 MiB of 21 */
        assert_int_equal(figures(p).backed - backed, takes ? 0 : MIB);
        if (takes) assert_int_equal(c.addr, at);
        drop_stamps(&c);
        put(p, &c, 0, 0);
        put(p, &kept, 0, 0);
        close_clean(p);
    }
}

/* ---- memory ---- */

static void grows_by_little(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block a = must(p, 100, 0), b = must(p, 100 * KIB, 0); /* the free end of the first page is part of b */
    assert_int_equal(b.addr - a.addr, 256);
    assert_int_equal(figures(p).backed, 2 * PAGE);
    must(p, 8 * MIB, 0);
    assert_true(figures(p).backed <= 8 * MIB + 2 * PAGE);
    close_clean(p);
    p = open_pool(&tidei_pool_tide, 2 * MIB, (size_t)128 << 30);
    must(p, 60 * MIB, 0); /* small pages while little is backed */
    assert_int_equal(dbl.calls[CALL_PAGE_NEW], 30);
    assert_int_equal(dbl.calls[CALL_MAP], 1);
    must(p, 3072 * MIB, 0); /* pages of at most 32 MiB, 64 of them a call */
    assert_int_equal(dbl.calls[CALL_PAGE_NEW], 30 + 96);
    assert_int_equal(dbl.calls[CALL_MAP], 1 + 2);
    close_clean(p);
    p = open_pool(&tidei_pool_tide, 2 * MIB, (size_t)128 << 30);
    atomic_store(&dbl.dev.limit, (size_t)8 << 30); /* 2048 pages have to do */
    must(p, 2048 * MIB, 0);
    assert_int_equal(dbl.calls[CALL_PAGE_NEW], 512);
    close_clean(p);
}

static void fills_holes_first(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b[8], c;
    for (unsigned i = 0; i < 8; i++) b[i] = must(p, PAGE, 0);
    for (unsigned i = 1; i < 8; i += 2) put(p, &b[i], 0, 0);
    assert_int_equal(p->ops->trim(p, 0), 4 * PAGE);
    assert_int_equal(figures(p).backed, 4 * PAGE);
    c = must(p, PAGE / 2, 0); /* the lowest hole */
    assert_int_equal(c.addr, b[1].addr);
    put(p, &b[4], 0, 0);
    c = must(p, 2 * PAGE, 0); /* beside b[4]: needs one page, anywhere else two */
    assert_int_equal(c.addr, b[3].addr);
    assert_int_equal(figures(p).backed, 6 * PAGE);
    put(p, &b[6], 0, 0);
    c = must(p, 3 * PAGE, 0); /* b[5], b[6] and b[7]: holes with a free page between them; or b[6] up to the end */
    assert_int_equal(c.addr, b[6].addr);
    assert_int_equal(figures(p).backed, 8 * PAGE);
    close_clean(p);
}

/* The lower hole would do too, with more new memory. */
static void takes_the_cheapest_hole(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b[8], c;
    for (unsigned i = 0; i < 8; i++) b[i] = must(p, PAGE, 0);
    put(p, &b[1], 0, 0);
    put(p, &b[2], 0, 0);
    put(p, &b[4], 0, 0);
    put(p, &b[6], 0, 0);
    assert_int_equal(p->ops->trim(p, 0), 4 * PAGE);
    put(p, &b[5], 0, 0);
    c = must(p, 2 * PAGE, 0);
    assert_int_equal(c.addr, b[4].addr);
    assert_int_equal(figures(p).backed, 5 * PAGE);
    close_clean(p);
}

/* A hole with free stretches on both sides, both needed. */
static void closes_a_gap(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b[5];
    for (unsigned i = 0; i < 5; i++) b[i] = must(p, PAGE, 0);
    put(p, &b[2], 0, 0);
    assert_int_equal(p->ops->trim(p, 0), PAGE);
    put(p, &b[1], 0, 1);
    put(p, &b[3], 0, 2);
    tidei_block c = must(p, 3 * PAGE, 0);
    assert_int_equal(c.addr, b[1].addr);
    assert_int_equal(tidei_stamps_at(&c.stamps)[0].tick, 2); /* pending on the whole */
    assert_int_equal(figures(p).backed, 5 * PAGE);
    close_clean(p);
}

static void falls_back_to_what_is_needed(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b = must(p, 32 * MIB, 0), c;
    atomic_store(&dbl.dev.limit, 32 * MIB + PAGE); /* a step would be 512 KiB */
    assert_int_equal(get(p, 1000, 0, 0, &c), TIDE_OK);
    assert_int_equal(figures(p).backed, 32 * MIB + PAGE);
    tidei_block d;
    assert_int_equal(get(p, PAGE, 0, 0, &d), TIDE_E_NOMEM);
    assert_int_equal(dbl.peak, 32 * MIB + PAGE);
    assert_true(balanced(p));
    put(p, &b, 0, 0);
    close_clean(p);
}

/* No hole is large enough, but as many pages lie free: once given back they serve at fresh addresses. */
static void moves_pages_to_fresh_addresses(void **state) {
    (void)state;
    enum { N = 64 };
    tidei_pool *p = open_pool(&tidei_pool_tide, PAGE, N * PAGE);
    tidei_block b[N], c;
    atomic_store(&dbl.dev.limit, N * PAGE);
    for (unsigned i = 0; i < N; i++) b[i] = must(p, PAGE, 0);
    for (unsigned i = 0; i < N; i += 2) put(p, &b[i], 0, 0);
    assert_int_equal(get(p, N / 2 * PAGE, 0, 0, &c), TIDE_E_NOMEM);
    assert_int_equal(p->ops->trim(p, 0), N / 2 * PAGE);
    assert_int_equal(get(p, N / 2 * PAGE, 0, 0, &c), TIDE_OK);
    assert_true(c.addr > b[N - 1].addr);
    assert_int_equal(dbl.peak, N * PAGE);
    close_clean(p);
}

static void trims_what_it_may(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b[10];
    for (unsigned i = 0; i < 10; i++) b[i] = must(p, PAGE, 0);
    tidei_block small = must(p, 256, 0);
    for (unsigned i = 0; i < 10; i++) put(p, &b[i], 0, i < 5 ? 0 : 1); /* all one parked piece now */
    size_t free_bytes = 11 * PAGE - 256;
    assert_int_equal(p->ops->trim(p, 0), 0);
    double_complete(0, 1);
    assert_int_equal(p->ops->trim(p, free_bytes), 0);
    assert_int_equal(p->ops->trim(p, free_bytes - 1), PAGE);
    assert_int_equal(p->ops->trim(p, 4 * PAGE),
                     6 * PAGE); /* what the small block pins counts too: 4 pages less 256 */
    assert_int_equal(figures(p).backed, 4 * PAGE);
    tidei_block c = must(p, 3 * PAGE, 0); /* the lowest stayed */
    assert_int_equal(c.addr, b[0].addr);
    assert_true(balanced(p));
    put(p, &c, 0, 0);
    put(p, &small, 0, 0);
    assert_int_equal(p->ops->trim(p, 0), 4 * PAGE);
    assert_int_equal(figures(p).backed, 0);
    close_clean(p);
}

/* More pages than one call of the device takes, and more pieces than one slab has descriptors for. */
static void trims_much(void **state) {
    (void)state;
    enum { N = 600 };
    tidei_pool *p = open_tide();
    static tidei_block b[N];
    for (unsigned i = 0; i < N; i++) b[i] = must(p, PAGE + 256, 0);
    for (unsigned i = 0; i < N; i++)
        if (i % 4) put(p, &b[i], 0, 0);
    size_t before = figures(p).backed;
    size_t given = p->ops->trim(p, 0);
    assert_true(balanced(p));
    assert_int_equal(figures(p).backed, before - given);
    assert_int_equal(p->ops->trim(p, 0), 0);
    for (unsigned i = 0; i < N; i += 4) put(p, &b[i], 0, 0);
    p->ops->trim(p, 0);
    assert_int_equal(figures(p).backed, 0);
    close_clean(p);
}

static tidei_pool *reentered;
static void trim_when_asked_for_memory(size_t bytes) {
    (void)bytes;
    dbl.on_back = NULL;
    reentered->ops->trim(reentered, 0);
    if (!reentered->ops->valid(reentered)) abort();
}

/* The limits may come back to the pool for idle memory while it grows. */
static void may_be_trimmed_while_growing(void **state) {
    (void)state;
    tidei_pool *p = reentered = open_tide();
    tidei_block b[6];
    for (unsigned i = 0; i < 6; i++) b[i] = must(p, PAGE, 0);
    put(p, &b[1], 0, 0);
    put(p, &b[3], 0, 0);
    put(p, &b[5], 0, 0);
    dbl.on_back = trim_when_asked_for_memory;
    tidei_block c = must(p, 3 * PAGE, 0); /* takes b[5] and two pages more; b[1] and b[3] go meanwhile */
    assert_int_equal(c.addr, b[5].addr);
    assert_int_equal(figures(p).backed, 6 * PAGE);
    close_clean(p);
}

/* ---- everything fails once ---- */

/* A bit of everything; stops at the first refusal and returns it. What it got is in `b`. */
static tide_status everything(tidei_pool *p, tidei_block *b, unsigned n) {
    tide_status st;
    uint64_t tick = 0;
    for (unsigned i = 0; i < n; i++)
        if ((st = get(p, 3000 * (i + 1), i % 3, 0, &b[i])) != TIDE_OK) return st;
    for (unsigned i = 0; i < n; i += 2) {
        for (unsigned s = 0; s <= i % 6; s++) {
            if (!tidei_stamps_reserve(&b[i].stamps, 1)) return TIDE_E_HOST_NOMEM;
            tidei_stamps_add(&b[i].stamps, (tidei_stamp){.tick = ++tick, .stream = (uint16_t)s, .write = 1});
        }
        p->ops->free(p, &b[i]);
        b[i].priv = NULL;
    }
    for (unsigned s = 0; s < 3; s++) double_complete(s, tick / 2);
    for (unsigned i = 0; i < n; i += 2)
        if ((st = get(p, 2000 * (i + 1), 4, i % 4 ? TIDEI_ALLOC_STEAL : 0, &b[i])) != TIDE_OK) return st;
    p->ops->trim(p, 0);
    for (unsigned i = 1; i < n; i += 2) {
        p->ops->free(p, &b[i]);
        b[i].priv = NULL;
    }
    for (unsigned s = 0; s < TIDEI_STREAMS_MAX; s++) double_complete(s, tick);
    p->ops->trim(p, 0);
    return get(p, 5 * MIB, 5, 0, &b[1]);
}

static void every_failure_leaves_order(void **state) {
    (void)state;
    enum { N = 90 };
    static const struct {
        enum double_call call;
        tide_status with;
    } kinds[] = {{CALL_HOST, TIDE_E_HOST_NOMEM}, {CALL_BACK, TIDE_E_NOMEM}, {CALL_PAGE_NEW, TIDE_E_DEVICE},
                 {CALL_PAGE_NEW, TIDE_E_NOMEM},  {CALL_MAP, TIDE_E_DEVICE}, {CALL_MAP, TIDE_E_NOMEM},
                 {CALL_UNMAP, TIDE_E_DEVICE},    {CALL_RAW, TIDE_E_NOMEM}};
    for (unsigned pool = 0; pool < 2; pool++) {
        const struct tidei_pool_ops *ops = pool ? &tidei_pool_none : &tidei_pool_tide;
        for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++) {
            bool failed = true;
            for (long after = 0; failed; after++) {
                static tidei_block b[N];
                memset(b, 0, sizeof b);
                tidei_pool *p = open_pool(ops, 12 * KIB, 64 * MIB);
                dbl.fail_with = kinds[k].with;
                dbl.fail_after[kinds[k].call] = after;
                tide_status st = everything(p, b, N);
                failed = dbl.fail_after[kinds[k].call] < 0;
                assert_true(st == TIDE_OK || (failed && st == kinds[k].with));
                dbl.fail_after[kinds[k].call] = -1;
                assert_true(balanced(p));
                for (unsigned i = 0; i < N; i++)
                    if (b[i].priv)
                        p->ops->free(p, &b[i]);
                    else
                        drop_stamps(&b[i]);
                assert_int_equal(figures(p).live, 0);
                close_clean(p);
            }
        }
    }
}

/* More pages than one call maps: what was mapped before the refusal is unmapped again. */
static void mapping_may_fail_half_way(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b;
    dbl.fail_after[CALL_MAP] = 1;
    assert_int_equal(get(p, 100 * PAGE, 0, 0, &b), TIDE_E_DEVICE);
    assert_int_equal(dbl.calls[CALL_MAP], 2);
    assert_int_equal(figures(p).backed, 0);
    assert_true(balanced(p));
    assert_int_equal(get(p, 100 * PAGE, 0, 0, &b), TIDE_OK);
    close_clean(p);
}

static void opening_may_fail(void **state) {
    (void)state;
    static const enum double_call calls[] = {CALL_HOST, CALL_RESERVE};
    for (unsigned k = 0; k < TIDEI_COUNT(calls); k++) {
        tide_status st = TIDE_E_DEVICE;
        for (long after = 0; st != TIDE_OK; after++) {
            tidei_pool *p = NULL;
            tidei_dev *d = double_open(PAGE, 64 * MIB);
            dbl.fail_after[calls[k]] = after;
            st = tidei_pool_tide.open(d, TIDEI_MEM_DEVICE, &p);
            dbl.fail_after[calls[k]] = -1;
            if (st == TIDE_OK)
                p->ops->close(p);
            else
                assert_null(p);
            assert_int_equal(dbl.host_blocks, 0);
        }
    }
    tidei_pool *p = NULL;
    tidei_dev *d = double_open(PAGE, 64 * MIB);
    assert_int_equal(tidei_pool_tide.open(d, TIDEI_MEM_PINNED, &p), TIDE_E_UNSUPPORTED);
    d->d->info.flags &= ~(unsigned)TIDEI_DEV_PAGES;
    assert_int_equal(tidei_pool_tide.open(d, TIDEI_MEM_DEVICE, &p), TIDE_E_UNSUPPORTED);
}

/* ---- against a slow model ---- */

enum { MODEL_STREAMS = 5, MODEL_GRANULE = 256, MODEL_BLOCKS = 300, MODEL_LIMIT = 900 };

/* For every granule of the range: whose it is, and the last tick of each stream that touched it. */
typedef struct model {
    unsigned *owner;
    uint64_t (*touched)[MODEL_STREAMS];
    uint64_t tick[MODEL_STREAMS];
    tidei_block b[MODEL_BLOCKS];
    double_owner owners[MODEL_BLOCKS];
    struct follow { /* from `tick` on, work of the stream comes after these ticks of the others */
        unsigned stream;
        uint64_t tick, seen[MODEL_STREAMS];
    } * follows;
    size_t nfollows;
} model;
static model *moving_model;

/* The last tick of stream o that the stamp comes after. */
static uint64_t model_implied(const model *m, tidei_stamp x, unsigned o) {
    uint64_t t = x.stream == o ? x.tick : 0;
    for (size_t i = 0; i < m->nfollows; i++) {
        const struct follow *f = &m->follows[i];
        if (f->stream == x.stream && f->tick <= x.tick && f->seen[o] > t) t = f->seen[o];
    }
    return t;
}

static void model_check_got(const model *m, const tidei_block *b, unsigned s, unsigned flags) {
    size_t first = (b->addr - dbl.base) / MODEL_GRANULE, n = (b->bytes + MODEL_GRANULE - 1) / MODEL_GRANULE;
    for (size_t g = first; g < first + n; g++) {
        assert_int_equal(m->owner[g], 0);
        assert_non_null(dbl.table[g * MODEL_GRANULE / dbl.device.info.page_bytes]);
        for (unsigned o = 0; o < MODEL_STREAMS; o++) {
            uint64_t t = m->touched[g][o], named = 0;
            if (t <= dbl.word[o]) continue;
            if (!(flags & TIDEI_ALLOC_STEAL)) assert_true(o == s || t <= dbl.streams[s].seen[o]);
            for (unsigned i = 0; i < b->stamps.n; i++) {
                tidei_stamp x = tidei_stamps_at((tidei_stamps *)&b->stamps)[i];
                uint64_t implied = model_implied(m, x, o);
                if (implied > named) named = implied;
            }
            assert_true(named >= t);
        }
    }
}

static void model_own(model *m, const tidei_block *b, unsigned id) {
    size_t first = (b->addr - dbl.base) / MODEL_GRANULE, n = (b->bytes + MODEL_GRANULE - 1) / MODEL_GRANULE;
    for (size_t g = first; g < first + n; g++) {
        m->owner[g] = id;
        for (unsigned i = 0; i < b->stamps.n && !id; i++) {
            tidei_stamp x = tidei_stamps_at((tidei_stamps *)&b->stamps)[i];
            if (x.tick > m->touched[g][x.stream]) m->touched[g][x.stream] = x.tick;
        }
    }
}

/* Stream s waits for x, and so for all that that came after. */
static void model_follow(const model *m, unsigned s, tidei_stamp x) {
    for (unsigned o = 0; o < MODEL_STREAMS; o++) {
        uint64_t t = model_implied(m, x, o);
        if (dbl.streams[s].seen[o] < t) dbl.streams[s].seen[o] = t;
    }
}

/* A block goes where nobody is but itself, once all that touched the place is waited for. */
static void model_move(tide_stream *s, const tidei_stamp *pending, unsigned npending, const tidei_move *m,
                       const tidei_piece *place, uint64_t tick) {
    model *w = moving_model;
    if (!m) { /* it waits for all that, and what that came after */
        for (unsigned i = 0; i < npending; i++) model_follow(w, s->slot, pending[i]);
        w->follows = realloc(w->follows, (w->nfollows + 1) * sizeof *w->follows);
        w->follows[w->nfollows] = (struct follow){.stream = s->slot, .tick = tick};
        memcpy(w->follows[w->nfollows++].seen, (void *)dbl.streams[s->slot].seen, MODEL_STREAMS * sizeof(uint64_t));
        w->tick[s->slot] = tick;
        return;
    }
    tidei_stamps *uses = &((double_owner *)m->owner)->b->stamps; /* an owner waits for these */
    struct follow *f = &w->follows[w->nfollows - 1];
    for (unsigned i = 0; i < uses->n; i++) model_follow(w, s->slot, tidei_stamps_at(uses)[i]);
    for (unsigned o = 0; o < MODEL_STREAMS; o++) f->seen[o] = dbl.streams[s->slot].seen[o];
    unsigned id = (unsigned)((double_owner *)m->owner - w->owners) + 1;
    size_t n = (place->bytes + MODEL_GRANULE - 1) / MODEL_GRANULE, to = (place->dst - dbl.base) / MODEL_GRANULE,
           from = (place->src - dbl.base) / MODEL_GRANULE;
    for (size_t g = to; g < to + n; g++) {
        assert_true(w->owner[g] == 0 || w->owner[g] == id);
        for (unsigned o = 0; o < MODEL_STREAMS && w->owner[g] == 0; o++) {
            uint64_t t = w->touched[g][o];
            assert_true(o == s->slot || t <= dbl.word[o] || t <= dbl.streams[s->slot].seen[o]);
        }
    }
    for (size_t g = from; g < from + n; g++) w->owner[g] = 0, w->touched[g][s->slot] = tick;
    for (size_t g = to; g < to + n; g++) w->owner[g] = id, w->touched[g][s->slot] = tick;
}

/* Work is done only when what it came after is. */
static void model_complete(const model *m, unsigned s, uint64_t tick) {
    double_complete(s, tick);
    for (size_t i = m->nfollows; i--;) {
        const struct follow *f = &m->follows[i];
        for (unsigned o = 0; o < MODEL_STREAMS; o++)
            if (f->tick <= dbl.word[f->stream] && f->seen[o] > dbl.word[o]) model_complete(m, o, f->seen[o]);
    }
}

static void model_step(model *m, tidei_pool *p, uint64_t *seed) {
    unsigned what = dice(seed) % 100, s = dice(seed) % MODEL_STREAMS, o = dice(seed) % MODEL_STREAMS;
    unsigned id = dice(seed) % MODEL_BLOCKS;
    tidei_block *b = &m->b[id];
    if (what < 80 && !b->priv) {
        static const unsigned flags[] = {0,
                                         0,
                                         TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE,
                                         TIDEI_ALLOC_NO_GROW,
                                         TIDEI_ALLOC_STEAL,
                                         TIDEI_ALLOC_STEAL | TIDEI_ALLOC_NO_GROW};
        unsigned f = flags[dice(seed) % TIDEI_COUNT(flags)];
        size_t bytes = (size_t)1 + (dice(seed) % 60000 >> dice(seed) % 10);
        tide_status st = get(p, bytes, s, f, b);
        assert_true(st == TIDE_OK || st == TIDE_E_NOMEM);
        if (st != TIDE_OK) return;
        model_check_got(m, b, s, f);
        model_own(m, b, id + 1);
        m->owners[id] = (double_owner){.b = b, .pinned = dice(seed) % 8 == 0};
        if (dice(seed) % 8) p->ops->own(p, b, &m->owners[id]);
    } else if (what < 80) {
        for (unsigned uses = dice(seed) % 3; uses; uses--, s = dice(seed) % MODEL_STREAMS)
            used_by(b, s, m->tick[s] = ++movers.tick);
        model_own(m, b, 0);
        p->ops->free(p, b);
        assert_int_equal(b->stamps.n, 0);
        b->priv = NULL;
    } else if (what < 88) {
        model_complete(m, s, m->tick[s] - dice(seed) % (m->tick[s] < 20 ? 1 : 20));
    } else if (what < 92) {
        model_follow(m, s, (tidei_stamp){.tick = m->tick[o], .stream = (uint16_t)o});
    } else if (what < 96) {
        p->ops->settle(p);
    } else {
        p->ops->trim(p, dice(seed) % (MODEL_LIMIT * KIB));
    }
}

static void random_against_a_model(void **state) {
    (void)state;
    static const size_t pages[] = {4 * KIB, 12 * KIB, 64 * KIB};
    uint64_t remapped = 0;
    for (unsigned round = 0; round < 6; round++) {
        tidei_pool *p = open_pool(&tidei_pool_tide, pages[round % 3], 1536 * KIB);
        model *m = calloc(1, sizeof *m);
        m->owner = calloc(dbl.span / MODEL_GRANULE, sizeof *m->owner);
        m->touched = calloc(dbl.span / MODEL_GRANULE, sizeof *m->touched);
        atomic_store(&dbl.dev.limit, MODEL_LIMIT * KIB);
        atomic_store(&p->attrs.reuse,
                     TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE); /* the model knows when streams steal */
        p->mover = &double_mover;
        moving_model = m;
        movers.on_move = model_move;
        movers.tick = 0;
        movers.blocks = 0;
        uint64_t seed = round + 1;
        for (unsigned i = 0; i < 12000; i++) {
            model_step(m, p, &seed);
            if (i % 32 == 0) assert_true(balanced(p));
        }
        assert_true(dbl.peak <= MODEL_LIMIT * KIB);
        assert_true(movers.blocks > 30);
        assert_true(figures(p).compactions > 0 && figures(p).bytes_moved > 0);
        remapped += figures(p).bytes_remapped;
        movers.on_move = NULL;
        for (unsigned i = 0; i < MODEL_BLOCKS; i++)
            if (m->b[i].priv) p->ops->free(p, &m->b[i]);
        for (unsigned s = 0; s < MODEL_STREAMS; s++) double_complete(s, m->tick[s]);
        p->ops->trim(p, 0);
        assert_int_equal(figures(p).backed, 0);
        close_clean(p);
        free(m->owner);
        free(m->touched);
        free(m->follows);
        free(m);
    }
    assert_true(remapped > 0);
}

/* ---- moving ---- */

static tidei_pool *shared_pool;

/* Blocks of one page each from `first` on, every second one free; the others owned. */
enum { CHECKERS = 16 };
static tidei_pool *open_checkered(tidei_block *b, double_owner *o) {
    tidei_pool *p = open_tide();
    p->mover = &double_mover;
    movers.on_move = NULL;
    movers.tick = 10;
    movers.blocks = 0;
    atomic_store(&dbl.dev.limit, CHECKERS * PAGE);
    for (unsigned i = 0; i < CHECKERS; i++) b[i] = must(p, PAGE, 0);
    for (unsigned i = 0; i < CHECKERS; i++) {
        o[i] = (double_owner){.b = &b[i]};
        p->ops->own(p, &b[i], &o[i]);
        if (i % 2 == 0) put(p, &b[i], 0, 1);
    }
    return p;
}
static void drop_owned(tidei_pool *p, tidei_block *b) {
    for (unsigned i = 1; i < CHECKERS; i += 2) p->ops->free(p, &b[i]);
    close_clean(p);
}

static void moves_what_is_in_the_way(void **state) {
    (void)state;
    tidei_block b[CHECKERS], c;
    double_owner o[CHECKERS];
    tidei_pool *p = open_checkered(b, o);
    assert_int_equal(get(p, 8 * PAGE, 0, 0, &c), TIDE_OK);
    assert_true(movers.blocks > 0 && movers.blocks <= CHECKERS / 2);
    assert_int_equal(figures(p).compactions, 1);
    assert_int_equal(figures(p).bytes_moved, (size_t)movers.blocks * PAGE);
    assert_int_equal(dbl.dev.backed, CHECKERS * PAGE);
    for (unsigned i = 1; i < CHECKERS; i += 2) {
        assert_true(b[i].addr + PAGE <= c.addr || b[i].addr >= c.addr + 8 * PAGE);
        assert_int_equal(o[i].held, 0);
    }
    assert_true(balanced(p));
    put(p, &c, 0, 11);
    drop_owned(p, b);
}

/* Between two pins, or a pin and an end, at most seven pages can be had in one piece: the blocks there find places behind. More comes
** from pages on both sides, which change their addresses. */
static void pins_stay(void **state) {
    (void)state;
    tidei_block b[CHECKERS], c;
    double_owner o[CHECKERS];
    tidei_pool *p = open_checkered(b, o);
    tidei_addr at = b[7].addr;
    o[7].pinned = o[11].pinned = true;
    assert_int_equal(get(p, 9 * PAGE, 0, TIDEI_ALLOC_MOVE, &c), TIDE_E_NOMEM);
    assert_int_equal(movers.blocks, 0);
    assert_true(balanced(p));
    assert_int_equal(get(p, 5 * PAGE, 0, TIDEI_ALLOC_MOVE, &c),
                     TIDE_OK); /* emptied: the blocks find places behind the pin */
    assert_int_equal(b[7].addr, at);
    put(p, &c, 0, 11);
    assert_int_equal(dbl.calls[CALL_UNMAP], 0);
    assert_int_equal(get(p, 8 * PAGE, 0, TIDEI_ALLOC_MOVE, &c), TIDE_OK);
    assert_true(dbl.calls[CALL_UNMAP] > 0);
    assert_int_equal(b[7].addr, at);
    assert_int_equal(dbl.dev.backed, CHECKERS * PAGE);
    put(p, &c, 0, 12);
    drop_owned(p, b);
}

static struct {
    tidei_pool *p;
    tidei_block b;
} freed_late;
static void free_late(void) {
    dbl.on_wait = NULL;
    put(freed_late.p, &freed_late.b, 0, 99);
}

/* A block beside pages that go elsewhere is freed while the host waits for them: nobody has waited for its own last use. */
static void what_is_freed_meanwhile_keeps_its_history(void **state) {
    (void)state;
    tidei_pool *p = freed_late.p = open_tide();
    tidei_block held[3], far, near, c, other[400];
    unsigned n = 0;
    p->mover = &double_mover;
    atomic_store(&p->attrs.caches, false);
    p->ops->changed(p);
    held[0] = must(p, PAGE, 0);
    far = must(p, 100 * PAGE + PAGE / 2, 0);
    freed_late.b = must(p, PAGE / 2, 0);
    held[1] = must(p, PAGE, 0);
    near = must(p, 40 * PAGE, 0);
    held[2] = must(p, PAGE, 0);
    tidei_addr at = freed_late.b.addr;
    dbl.dev.limit = dbl.dev.backed;
    put(p, &far, 0, 5);
    put(p, &near, 0, 5);
    dbl.on_wait = free_late;
    assert_int_equal(get(p, 120 * PAGE, 0, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE, &c), TIDE_OK);
    assert_null(dbl.on_wait);
    assert_true(figures(p).bytes_remapped > 0);
    atomic_store(&p->attrs.reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE);
    while (n < TIDEI_COUNT(other) && get(p, PAGE / 2, 1, TIDEI_ALLOC_NO_GROW, &other[n]) == TIDE_OK)
        assert_int_not_equal(other[n++].addr, at);
    assert_in_range(n, 0, TIDEI_COUNT(other) - 1);
    assert_true(balanced(p));
    double_complete(0, 99);
    for (unsigned i = 0; i < 3; i++) p->ops->free(p, &held[i]);
    while (n) p->ops->free(p, &other[--n]);
    p->ops->free(p, &c);
    close_clean(p);
}

static void on_one_stream(tide_stream *s, const tidei_stamp *pending, unsigned npending, const tidei_move *m,
                          const tidei_piece *at, uint64_t tick) {
    (void)m, (void)at, (void)tick;
    for (unsigned i = 0; i < npending; i++) assert_int_equal(pending[i].stream, s->slot);
}

/* Where streams are not to wait for each other blocks do not move over what others' work is pending on: five pages lie between. */
static void no_moves_beyond_reach(void **state) {
    (void)state;
    for (unsigned pages = 4; pages <= 6; pages += 2) {
        tidei_block b[CHECKERS], c;
        double_owner o[CHECKERS];
        tidei_pool *p = open_checkered(b, o);
        atomic_store(&p->attrs.reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE);
        movers.on_move = on_one_stream;
        put(p, &b[5], 1, 50);
        put(p, &b[11], 1, 51);
        assert_int_equal(get(p, pages * PAGE, 0, 0, &c), pages < 5 ? TIDE_OK : TIDE_E_NOMEM);
        assert_int_equal(movers.blocks > 0, pages < 5);
        movers.on_move = NULL;
        if (pages < 5) put(p, &c, 0, 11);
        for (unsigned i = 1; i < CHECKERS; i += 2)
            if (i != 5 && i != 11) p->ops->free(p, &b[i]);
        close_clean(p);
    }
}

/* A low hole that is too small for all that is wanted is left alone. */
static void adds_in_one_piece(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_tide *t = (tidei_tide *)p;
    tidei_block b[3];
    tidei_extent *x = NULL;
    for (unsigned i = 0; i < 3; i++) b[i] = must(p, PAGE, 0);
    put(p, &b[1], 0, 0);
    assert_int_equal(p->ops->trim(p, 0), PAGE);
    tidei_lock_take(&t->lock);
    assert_int_equal(tidei_tide_add(t, 3 * PAGE, &dbl.streams[0], &x), TIDE_OK);
    assert_int_equal(x->size, 3 * PAGE);
    tidei_tide_unclaim(t, x);
    tidei_lock_give(&t->lock);
    put(p, &b[0], 0, 0);
    put(p, &b[2], 0, 0);
    close_clean(p);
}

static void a_move_that_fails_loses_nothing(void **state) {
    (void)state;
    tide_status st = TIDE_E_DEVICE;
    for (long after = 0; st != TIDE_OK; after++) {
        tidei_block b[CHECKERS], c;
        double_owner o[CHECKERS];
        tidei_pool *p = open_checkered(b, o);
        dbl.fail_after[CALL_MOVE] = after;
        st = get(p, 8 * PAGE, 0, TIDEI_ALLOC_MOVE, &c);
        dbl.fail_after[CALL_MOVE] = -1;
        assert_true(st == TIDE_OK || st == TIDE_E_DEVICE);
        assert_int_equal(movers.blocks, st == TIDE_OK ? movers.blocks : after);
        assert_true(balanced(p));
        for (unsigned i = 1; i < CHECKERS; i += 2) assert_int_equal(o[i].held, 0);
        if (st != TIDE_OK) assert_int_equal(get(p, 8 * PAGE, 0, TIDEI_ALLOC_MOVE, &c), TIDE_OK);
        put(p, &c, 0, 11);
        drop_owned(p, b);
    }
}

/* ---- mapping elsewhere ---- */

/* Two blocks a page. On every fourth page one stays and the other is free; of the other pages' blocks every second one is free, with
** work of stream 1 pending. */
enum { HALVES = 32 };
static tidei_pool *open_pinned(tidei_block *b, double_owner *o) {
    tidei_pool *p = open_tide();
    p->mover = &double_mover;
    movers.on_move = NULL;
    movers.tick = 10;
    movers.blocks = 0;
    keep_caches(p, false);
    atomic_store(&dbl.dev.limit, HALVES / 2 * PAGE);
    for (unsigned i = 0; i < HALVES; i++) b[i] = must(p, PAGE / 2, 0);
    for (unsigned i = 0; i < HALVES; i++) {
        o[i] = (double_owner){.b = &b[i], .pinned = i % 8 == 1};
        p->ops->own(p, &b[i], &o[i]);
    }
    for (unsigned i = 0; i < HALVES; i += 2) put(p, &b[i], 1, 5);
    return p;
}
static void drop_pinned(tidei_pool *p, tidei_block *b, const double_owner *o) {
    for (unsigned i = 1; i < HALVES; i += 2) {
        assert_int_equal(o[i].held, 0);
        p->ops->free(p, &b[i]);
    }
    close_clean(p);
}

/* Of sixteen pages four are pinned, and half of the others is what there is. */
static void pages_go_elsewhere_once_work_is_done(void **state) {
    (void)state;
    tidei_block b[HALVES], c;
    double_owner o[HALVES];
    tidei_pool *p = open_pinned(b, o);
    const unsigned flags = TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE;
    assert_int_equal(get(p, 9 * PAGE, 0, flags, &c), TIDE_E_NOMEM);
    assert_true(balanced(p));
    assert_int_equal(get(p, 8 * PAGE, 0, flags, &c), TIDE_OK);
    assert_true(movers.blocks > 0);
    assert_int_equal(figures(p).bytes_remapped, 8 * PAGE);
    assert_true(dbl.word[1] >= 5 && dbl.word[0] >= movers.tick); /* waited for */
    assert_int_equal(c.stamps.n, 0);
    assert_int_equal(dbl.dev.backed, HALVES / 2 * PAGE);
    assert_false(movers.closed);
    put(p, &c, 0, 0);
    drop_pinned(p, b, o);
}

/* Each call of each kind fails in turn, alone or with all that follow; then the same is asked for again. */
static void remapping_that_fails_loses_nothing(void **state) {
    (void)state;
    static const enum double_call kinds[] = {CALL_HOST,  CALL_BACK, CALL_PAGE_NEW, CALL_MAP,
                                             CALL_UNMAP, CALL_MOVE, CALL_WAIT};
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++) {
        bool failed = true;
        for (long after = 0; failed; after++) {
            tidei_block b[HALVES], c;
            double_owner o[HALVES];
            tidei_pool *p = open_pinned(b, o);
            atomic_store(&dbl.dev.limit, (HALVES / 2 + 1) * PAGE);
            dbl.fail_after[kinds[k]] = after;
            tide_status st = get(p, 9 * PAGE, 0, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE, &c);
            failed = dbl.fail_after[kinds[k]] < 0;
            dbl.fail_after[kinds[k]] = -1;
            assert_true(failed || st == TIDE_OK);
            assert_true(balanced(p));
            assert_false(movers.closed);
            if (st != TIDE_OK)
                assert_int_equal(get(p, 9 * PAGE, 0, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE, &c), TIDE_OK);
            put(p, &c, 0, 0);
            drop_pinned(p, b, o);
        }
    }
}

/* ---- caches ---- */

static void a_freed_block_is_at_hand(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block a = must(p, 1000, 0), b, c;
    tidei_addr at = a.addr;
    put(p, &a, 0, 5);
    assert_int_equal(get(p, 1024, 1, TIDEI_ALLOC_NO_GROW, &c), TIDE_OK); /* another stream: not that one */
    assert_true(c.addr != at);
    b = must(p, 1024, 0); /* as many granules */
    assert_int_equal(b.addr, at);
    assert_int_equal(b.stamps.n, 1);
    assert_int_equal(tidei_stamps_at(&b.stamps)[0].tick, 5);
    drop_stamps(&b);
    put(p, &b, 0, 0);
    put(p, &c, 1, 0);
    tidei_pool_stats s = figures(p); /* empties the caches */
    assert_int_equal(s.live + s.rounding + s.parked, 0);
    assert_int_equal(s.largest, PAGE);
    assert_int_equal(s.allocs, 3);
    assert_int_equal(s.frees, 3);
    close_clean(p);
}

static void *take_and_leave(void *arg) {
    tidei_block *b = arg;
    for (unsigned i = 0; i < 3; i++) b[i] = must(shared_pool, 4096, 0);
    put(shared_pool, &b[0], 0, 0); /* in the cache of a thread that ends */
    return NULL;
}

/* Another thread's cache, and the inbox of a thread that is gone, are emptied before memory is asked for. */
static void nothing_is_out_of_reach(void **state) {
    (void)state;
    tidei_block b[3];
    pthread_t t;
    shared_pool = open_tide();
    pthread_create(&t, NULL, take_and_leave, b);
    pthread_join(t, NULL);
    tidei_block all = must(shared_pool, PAGE - 3 * 4096, 0);
    put(shared_pool, &b[1], 0, 0);
    put(shared_pool, &b[2], 0, 0);
    assert_int_equal(must(shared_pool, 3 * 4096, 0).bytes, 3 * 4096);
    assert_int_equal(dbl.dev.backed, PAGE);
    assert_int_equal(figures(shared_pool).largest, 0);
    (void)all;
    shared_pool->ops->close(shared_pool);
}

/* ---- many threads ---- */

enum { THREADS = 4, SLOTS = 64 };
static struct {
    tidei_pool *p;
    _Atomic(tidei_block *) slots[SLOTS];
    _Atomic uint64_t tick;
    atomic_bool bad;
} shared;

/* Blocks go through slots that all threads take from, so most are freed by another thread than took them. */
static void *thread_main(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t seed = me + 1;
    for (unsigned i = 0; i < 1500; i++) {
        tidei_block *b = calloc(1, sizeof *b);
        size_t bytes = (size_t)1 + (dice(&seed) % 200000 >> dice(&seed) % 10);
        if (get(shared.p, bytes, me, 0, b) != TIDE_OK) {
            free(b);
            b = NULL;
        }
        b = atomic_exchange(&shared.slots[dice(&seed) % SLOTS], b);
        if (b) put(shared.p, b, dice(&seed) % THREADS, atomic_fetch_add(&shared.tick, 1) + 1);
        free(b);
        if (i % 64 == me) shared.p->ops->trim(shared.p, 256 * KIB);
        if (i % 256 == me && !shared.p->ops->valid(shared.p)) shared.bad = true;
        if (i % 16 == me) double_complete(me, atomic_load(&shared.tick) / 2);
    }
    return NULL;
}

static void many_threads(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    memset(&shared, 0, sizeof shared);
    shared.p = open_pool(&tidei_pool_tide, 16 * KIB, 16 * MIB);
    atomic_store(&dbl.dev.limit, 3 * MIB);
    for (unsigned i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_false(shared.bad);
    assert_true(dbl.peak <= 3 * MIB);
    for (unsigned i = 0; i < SLOTS; i++) {
        tidei_block *b = shared.slots[i];
        if (b) shared.p->ops->free(shared.p, b);
        free(b);
    }
    assert_int_equal(figures(shared.p).live, 0);
    close_clean(shared.p);
}

/* ---- real programs ---- */

typedef struct event {
    char op;
    unsigned id;
    size_t bytes;
} event;

static event *read_trace(const char *name, size_t *n, unsigned *ids) {
    char path[512], line[128];
    const char *root = getenv("TIDE_TEST_SOURCE");
    size_t cap = 1 << 16;
    snprintf(path, sizeof path, "%s/tests/traces/%s.csv.gz", root ? root : ".", name);
    gzFile f = gzopen(path, "rb");
    if (!f) fail_msg("cannot read %s", path);
    event *e = malloc(cap * sizeof *e);
    *n = *ids = 0;
    gzgets(f, line, sizeof line);
    while (gzgets(f, line, sizeof line)) {
        unsigned long long bytes = 0;
        event x = {.op = line[0]};
        if (x.op != 's') sscanf(line + 2, "%u,%llu", &x.id, &bytes);
        x.bytes = bytes;
        if (x.op != 's' && x.id >= *ids) *ids = x.id + 1;
        if (*n == cap) e = realloc(e, (cap *= 2) * sizeof *e);
        e[(*n)++] = x;
    }
    gzclose(f);
    return e;
}

/* Peak backed over peak live, of one stream whose work nobody ever asks after. */
static double replay(const char *name, size_t page_bytes) {
    size_t n, live = 0, peak = 0;
    unsigned ids;
    event *e = read_trace(name, &n, &ids);
    tidei_pool *p = open_pool(&tidei_pool_tide, page_bytes, (size_t)16 << 30);
    tidei_block *b = calloc(ids, sizeof *b);
    double_owner *owners = calloc(ids, sizeof *owners);
    p->mover = &double_mover;
    movers.tick = 0;
    for (size_t i = 0; i < n; i++) {
        tidei_block *x = &b[e[i].id];
        if (e[i].op == 'a' && e[i].bytes) {
            *x = must(p, e[i].bytes, 0);
            owners[e[i].id] = (double_owner){.b = x};
            p->ops->own(p, x, &owners[e[i].id]);
            live += x->bytes;
            peak = tidei_max_size(peak, live);
        } else if (e[i].op == 'f' && x->priv) {
            live -= x->bytes;
            put(p, x, 0, ++movers.tick);
            x->priv = NULL;
        }
    }
    double ratio = (double)dbl.peak / (double)peak;
    print_message("# %s, pages of %zu KiB: %.4f of %.1f MiB live, %ld growths\n", name, page_bytes / KIB, ratio,
                  (double)peak / (double)MIB, dbl.calls[CALL_MAP]);
    close_clean(p);
    free(owners);
    free(b);
    free(e);
    return ratio;
}

static void wastes_little_on_real_programs(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double bar[2]; /* with pages of 2 MiB, as on a GPU, and of 64 KiB, as on a host */
    } traces[] = {{"gpt2-train-varlen", {1.02, 1.02}},
                  {"resnet50-train-varbatch", {1.03, 1.03}},
                  {"lstm-train-unrolled", {1.05, 1.03}},
                  {"linalg-mix", {1.05, 1.03}}};
    for (unsigned i = 0; i < TIDEI_COUNT(traces); i++) {
        assert_true(replay(traces[i].name, 2 * MIB) <= traces[i].bar[0]);
        assert_true(replay(traces[i].name, 64 * KIB) <= traces[i].bar[1]);
    }
}

/* ---- sanitizers see through it ---- */

#if TIDEI_TIDE_POISONS
static void poisons_what_is_free(void **state) {
    (void)state;
    tidei_dev *d = double_open(PAGE, 64 * MIB);
    tidei_pool *p = NULL;
    dbl.real = true;
    d->d->info.flags |= TIDEI_DEV_RUNS_HOST;
    assert_int_equal(tidei_pool_tide.open(d, TIDEI_MEM_DEVICE, &p), TIDE_OK);
    tidei_block b = must(p, 1000, 0);
    char *at = (char *)(uintptr_t)b.addr;
    assert_null(__asan_region_is_poisoned(at, 1000));
    assert_true(__asan_address_is_poisoned(at + 1000)); /* slack */
    assert_true(__asan_address_is_poisoned(at + 1024)); /* free */
    memset(at, 1, 1000);
    put(p, &b, 0, 1); /* queued work may still use it */
    assert_null(__asan_region_is_poisoned(at, 1000));
    b = must(p, 10, 0); /* nor may the rest be poisoned under that work */
    assert_null(__asan_region_is_poisoned(at, 1000));
    put(p, &b, 0, 2);
    double_complete(0, 2);
    p->ops->settle(p);
    assert_true(__asan_address_is_poisoned(at));
    b = must(p, PAGE, 0);
    assert_null(__asan_region_is_poisoned(at, PAGE));
    put(p, &b, 0, 0);
    assert_true(__asan_address_is_poisoned(at + PAGE - 1));
    close_clean(p);
    assert_false(__asan_address_is_poisoned(at)); /* others may get these addresses */
}
#endif

/* ---- the pool `none` ---- */

static void none_keeps_nothing(void **state) {
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_none, PAGE, 64 * MIB);
    tidei_block a = must(p, 1000, 0), b = must(p, 5000, 1), c;
    assert_int_equal(figures(p).live, 6000);
    assert_int_equal(figures(p).backed, 1024 + 5120);
    assert_int_equal(get(p, 1, 0, TIDEI_ALLOC_NO_GROW, &c), TIDE_E_NOMEM);
    assert_true(balanced(p));
    put(p, &a, 2, 7); /* the driver may hand it on at once, so it stays until its last use is done */
    assert_int_equal(figures(p).parked, 1024);
    assert_int_equal(p->ops->trim(p, 0), 0);
    double_complete(2, 7);
    assert_int_equal(p->ops->trim(p, 0), 1024);
    assert_int_equal(figures(p).backed, 5120);
    atomic_store(&dbl.dev.limit, 5120);
    assert_int_equal(get(p, 1, 0, 0, &c), TIDE_E_NOMEM);
    assert_int_equal(dbl.raw_blocks, 1);
    close_clean(p); /* b goes with it */
    (void)b;
}

/* A block stays until its last uses are done, which an allocation looks for as a settle does. */
static void none_keeps_what_may_be_in_use(void **state) {
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_none, PAGE, 64 * MIB);
    tidei_block a = must(p, 1000, 0), b = must(p, 5000, 0), c = must(p, 100, 0), d;
    put(p, &a, 2, 7);
    assert_int_equal(dbl.raw_blocks, 3);
    assert_int_equal(figures(p).live, 5100);
    assert_int_equal(figures(p).parked, 1024);
    assert_true(balanced(p));
    assert_int_equal(p->ops->settle(p), 0);
    double_complete(2, 7);
    assert_int_equal(p->ops->settle(p), 1024);
    assert_int_equal(dbl.raw_blocks, 2);
    assert_int_equal(figures(p).parked, 0);
    put(p, &b, 2, 8);
    assert_int_equal(dbl.raw_blocks, 2);
    double_complete(2, 8);
    d = must(p, 100, 0);
    assert_int_equal(dbl.raw_blocks, 2); /* c and d */
    put(p, &c, 2, 9);
    assert_int_equal(figures(p).parked, 256);
    assert_true(balanced(p));
    close_clean(p); /* c and d go with it */
    (void)d;
}

static void found_by_name(void **state) {
    (void)state;
    assert_ptr_equal(tidei_pool_find("tide"), &tidei_pool_tide);
    assert_ptr_equal(tidei_pool_find("none"), &tidei_pool_none);
    char names[] = TIDEI_POOL_NAMES;
    unsigned n = 0;
    for (char *rest = NULL, *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest), n++) {
        assert_non_null(tidei_pool_find(name));
        assert_string_equal(tidei_pool_find(name)->name, name);
    }
    assert_int_equal(n, 6);
    assert_null(tidei_pool_find("tid"));
    assert_null(tidei_pool_find(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_and_merges),
        cmocka_unit_test(takes_the_best_fit),
        cmocka_unit_test(refuses_the_absurd),
        cmocka_unit_test(is_deterministic),
        cmocka_unit_test(one_stream_never_asks),
        cmocka_unit_test(own_work_needs_no_waiting),
        cmocka_unit_test(pending_work_of_others_refuses),
        cmocka_unit_test(stealing_hands_out_the_stamps),
        cmocka_unit_test(closes_whatever_is_pending),
        cmocka_unit_test(neighbours_join_when_one_stream_is_pending),
        cmocka_unit_test(looks_at_all_before_growing),
        cmocka_unit_test(buffers_pass_through_streams),
        cmocka_unit_test(streams_work_side_by_side),
        cmocka_unit_test(who_takes_also_gives),
        cmocka_unit_test(grows_by_little),
        cmocka_unit_test(fills_holes_first),
        cmocka_unit_test(takes_the_cheapest_hole),
        cmocka_unit_test(closes_a_gap),
        cmocka_unit_test(falls_back_to_what_is_needed),
        cmocka_unit_test(moves_pages_to_fresh_addresses),
        cmocka_unit_test(trims_what_it_may),
        cmocka_unit_test(trims_much),
        cmocka_unit_test(may_be_trimmed_while_growing),
        cmocka_unit_test(every_failure_leaves_order),
        cmocka_unit_test(mapping_may_fail_half_way),
        cmocka_unit_test(opening_may_fail),
        cmocka_unit_test(random_against_a_model),
        cmocka_unit_test(moves_what_is_in_the_way),
        cmocka_unit_test(pins_stay),
        cmocka_unit_test(what_is_freed_meanwhile_keeps_its_history),
        cmocka_unit_test(no_moves_beyond_reach),
        cmocka_unit_test(adds_in_one_piece),
        cmocka_unit_test(a_move_that_fails_loses_nothing),
        cmocka_unit_test(pages_go_elsewhere_once_work_is_done),
        cmocka_unit_test(remapping_that_fails_loses_nothing),
        cmocka_unit_test(a_freed_block_is_at_hand),
        cmocka_unit_test(nothing_is_out_of_reach),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(wastes_little_on_real_programs),
#if TIDEI_TIDE_POISONS
        cmocka_unit_test(poisons_what_is_free),
#endif
        cmocka_unit_test(none_keeps_nothing),
        cmocka_unit_test(none_keeps_what_may_be_in_use),
        cmocka_unit_test(found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
