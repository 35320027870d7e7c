/* test_pool_tide_requests.c: the pool `tide` alone, over doubles: which stream gets what, where
** memory comes from and goes to, and every call that can fail failing. What threads keep at hand is
** test_pool_tide_caches.c, what it does on a real device test_pool_handovers.c. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "tests/pool/pool_failures.h"
#include "runtime/pool/tide/tide.h"

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (64 * KIB)

static tidei_pool *open_tide(void) { return open_pool(&tidei_pool_tide, PAGE, 64 * MIB); }

/* ---- blocks of one stream ---- */

static void splits_and_merges(void **state) {
    (void)state;
    static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
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
    /* no exact one left: the next larger, not the largest */
    assert_int_equal(must(p, 900, 0).addr, at[4]);
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
        atomic_store(&dbl.dev.budget->limit, 64 * MIB);
        for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++)
            assert_int_equal(get(p, sizes[i], 0, 0, &b), TIDE_E_NOMEM);
        after = figures(p);
        assert_memory_equal(&before, &after, sizeof before);
        put(p, &kept, 0, 0);
        close_clean(p);
    }
}

/* What the device has done, and when somebody asked, changes no address of a single stream. */
static void one_stream_gets_the_same_addresses(void **state) {
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
    assert_int_equal(figures(p).pending, figures(p).backed);
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
    assert_int_equal(figures(p).pending, PAGE);
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
        assert_int_equal(get(p, PAGE - 1024, 7, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_NO_GROW, &c),
                         TIDE_OK);
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
    /* what is ready stays so, until a stream wants it together */
    assert_int_equal(p->ops->settle(p), PAGE / 4);
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

/* Runs of pieces, each pending with a tick of its own, between blocks that stay: whatever the
** pieces' sizes, a request of the stream makes each run one piece. */
static void all_pieces_of_a_stream_join(void **state) {
    (void)state;
    enum { RUNS = 5, EACH = 8 };
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t roll = seed, tick = 0;
        tidei_pool *p = open_tide();
        keep_caches(p, false);
        tidei_block b[RUNS][EACH], kept[RUNS], other = must(p, 256, 1);
        size_t sum[RUNS] = {0};
        for (unsigned r = 0; r < RUNS; r++) {
            for (unsigned i = 0; i < EACH; i++) {
                size_t size = (size_t)256 * (1 + dice(&roll) % 6);
                b[r][i] = must(p, size, 0);
                sum[r] += size;
            }
            kept[r] = must(p, 256, 0);
        }
        for (unsigned i = 0; i < EACH; i++)
            for (unsigned r = 0; r < RUNS; r++) put(p, &b[r][i], 0, ++tick);
        tidei_block rest = must(p, figures(p).largest, 0), c; /* what lies behind the runs */
        assert_int_equal(get(p, PAGE, 0, TIDEI_ALLOC_NO_GROW, &c), TIDE_E_NOMEM);
        size_t most = 0;
        for (unsigned r = 0; r < RUNS; r++) most = sum[r] > most ? sum[r] : most;
        assert_int_equal(get(p, most, 0, TIDEI_ALLOC_NO_GROW, &c), TIDE_OK);
        for (const tidei_extent *x = ((tidei_heap *)p)->first; x->next; x = x->next)
            assert_false(tidei_extent_is(x) == TIDEI_EXTENT_FREE &&
                         tidei_extent_is(x->next) == TIDEI_EXTENT_FREE);
        put(p, &c, 0, ++tick);
        put(p, &rest, 0, ++tick);
        put(p, &other, 1, 0);
        for (unsigned r = 0; r < RUNS; r++) {
            assert_true(r == 0 || kept[r].addr - kept[r - 1].addr == sum[r] + 256);
            put(p, &kept[r], 0, ++tick);
        }
        close_clean(p);
    }
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

/* Pieces of these sizes, taken together on stream 0 for the work'th time, are used on the next of k
** streams. At most `limit` bytes; 0: any. Work i takes what work i - sets has, and no stream waits
** for anybody else. */
static void pass_through(unsigned k, const size_t *sizes, unsigned n, size_t kept, size_t limit,
                         unsigned sets) {
    tidei_pool *p = open_tide();
    tidei_block b[4], resident = {0};
    size_t whole = 0;
    keep_caches(p, false);
    if (kept) resident = must(p, kept, 0);
    for (unsigned i = 0; i < n; i++) whole += sizes[i];
    if (limit) atomic_store(&dbl.dev.budget->limit, limit);
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
        /* one too few: what is oldest is waited for, at once */
        pass_through(k, one, 1, 0, k * MIB, k);
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
            for (unsigned i = 0; i < b.stamps.n; i++)
                assert_int_equal(tidei_stamps_at(&b.stamps)[i].stream, s);
            atomic_store(&dbl.streams[s].submitted, round);
            put(p, &b, s, round);
        }
    }
    assert_int_equal(figures(p).backed, STREAMS * MIB);
    close_clean(p);
}

/* Streams that take memory themselves take turns, for memory is worth more than the wait; but for a
** small part of all. */
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
    /* the free end of the first page is part of b */
    tidei_block a = must(p, 100, 0), b = must(p, 100 * KIB, 0);
    assert_int_equal(b.addr - a.addr, 256);
    assert_int_equal(figures(p).backed, 2 * PAGE);
    must(p, 8 * MIB, 0);
    assert_true(figures(p).backed <= 8 * MIB + 2 * PAGE);
    close_clean(p);
    p = open_pool(&tidei_pool_tide, 2 * MIB, (size_t)128 << 30);
    must(p, 60 * MIB, 0); /* eight pages or little more for one request */
    assert_int_equal(dbl.calls[CALL_PAGE_NEW], 10);
    assert_int_equal(dbl.calls[CALL_MAP], 1);
    must(p, 3072 * MIB, 0); /* pages of at most 32 MiB, 64 of them a call */
    assert_int_equal(dbl.calls[CALL_PAGE_NEW], 10 + 96);
    assert_int_equal(dbl.calls[CALL_MAP], 1 + 2);
    close_clean(p);
    p = open_pool(&tidei_pool_tide, 2 * MIB, (size_t)128 << 30);
    /* in one piece no page beyond 1/256 of the limit */
    atomic_store(&dbl.dev.budget->limit, (size_t)2 << 30);
    must(p, 1024 * MIB, 0);
    assert_int_equal(dbl.calls[CALL_PAGE_NEW], 128);
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
    /* b[5], b[6] and b[7]: holes with a free page between them; or b[6] up to the end */
    c = must(p, 3 * PAGE, 0);
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
    atomic_store(&dbl.dev.budget->limit, 32 * MIB + PAGE); /* a step would be 512 KiB */
    assert_int_equal(get(p, 1000, 0, 0, &c), TIDE_OK);
    assert_int_equal(figures(p).backed, 32 * MIB + PAGE);
    tidei_block d;
    assert_int_equal(get(p, PAGE, 0, 0, &d), TIDE_E_NOMEM);
    assert_int_equal(dbl.peak, 32 * MIB + PAGE);
    assert_true(balanced(p));
    put(p, &b, 0, 0);
    close_clean(p);
}

/* No hole is large enough, but as many pages lie free: once given back they serve at fresh
** addresses. */
static void moves_pages_to_fresh_addresses(void **state) {
    (void)state;
    enum { N = 64 };
    tidei_pool *p = open_pool(&tidei_pool_tide, PAGE, N * PAGE);
    tidei_block b[N], c;
    atomic_store(&dbl.dev.budget->limit, N * PAGE);
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
    /* all one pending piece now */
    for (unsigned i = 0; i < 10; i++) put(p, &b[i], 0, i < 5 ? 0 : 1);
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

/* Where it does not count that work is done, what a trim gives depends on where the host waited,
** not on how far the device is. */
static void a_trim_gives_what_was_waited_for(void **state) {
    (void)state;
    for (unsigned done = 0; done < 2; done++) {
        tidei_pool *p = open_tide();
        atomic_store(&p->attrs.reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_WAIT);
        tidei_block a = must(p, PAGE, 0), b = must(p, PAGE, 1);
        put(p, &a, 0, 5);
        put(p, &b, 1, 7);
        if (done) double_complete(0, 5);
        assert_int_equal(p->ops->settle(p), 0);
        assert_int_equal(p->ops->trim(p, 0), 0);
        double_complete(0, 5);
        double_complete(1, 7);
        assert_int_equal(p->ops->trim(p, 0), 0);
        assert_int_equal(p->ops->synced(p), 2 * PAGE);
        assert_int_equal(p->ops->trim(p, 0), 2 * PAGE);
        assert_int_equal(figures(p).backed, 0);
        close_clean(p);
    }
}

/* More pages than one call of the device takes, and more pieces than one slab has descriptors
** for. */
static void it_trims_more_pages_than_one_call_takes(void **state) {
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
    /* takes b[5] and two pages more; b[1] and b[3] go meanwhile */
    tidei_block c = must(p, 3 * PAGE, 0);
    assert_int_equal(c.addr, b[5].addr);
    assert_int_equal(figures(p).backed, 6 * PAGE);
    close_clean(p);
}

/* ---- everything fails once ---- */

static tidei_pool *open_tide_or_none(unsigned k) {
    return open_pool(k ? &tidei_pool_none : &tidei_pool_tide, 12 * KIB, 64 * MIB);
}

static void every_failure_leaves_order(void **state) {
    static const struct failure kinds[] = {
        {CALL_HOST, TIDE_E_HOST_NOMEM}, {CALL_BACK, TIDE_E_NOMEM}, {CALL_PAGE_NEW, TIDE_E_DEVICE},
        {CALL_PAGE_NEW, TIDE_E_NOMEM},  {CALL_MAP, TIDE_E_DEVICE}, {CALL_MAP, TIDE_E_NOMEM},
        {CALL_UNMAP, TIDE_E_DEVICE},    {CALL_RAW, TIDE_E_NOMEM}};
    (void)state;
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < TIDEI_COUNT(kinds); i++)
            each_failure_leaves_order(&kinds[i], open_tide_or_none, k, FAILURE_BLOCKS, 1000);
}

/* More pages than one call maps: what was mapped before the refusal is unmapped again. */
static void mapping_may_fail_half_way(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block b;
    dbl.fail_after[CALL_MAP] = 1;
    assert_int_equal(get(p, 300 * PAGE, 0, 0, &b), TIDE_E_DEVICE);
    assert_int_equal(dbl.calls[CALL_MAP], 2);
    assert_int_equal(figures(p).backed, 0);
    assert_true(balanced(p));
    assert_int_equal(get(p, 300 * PAGE, 0, 0, &b), TIDE_OK);
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

/* ---- sanitizers see through it ---- */

#if TIDEI_HEAP_POISONS
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_and_merges),
        cmocka_unit_test(takes_the_best_fit),
        cmocka_unit_test(refuses_the_absurd),
        cmocka_unit_test(one_stream_gets_the_same_addresses),
        cmocka_unit_test(one_stream_never_asks),
        cmocka_unit_test(own_work_needs_no_waiting),
        cmocka_unit_test(pending_work_of_others_refuses),
        cmocka_unit_test(stealing_hands_out_the_stamps),
        cmocka_unit_test(closes_whatever_is_pending),
        cmocka_unit_test(neighbours_join_when_one_stream_is_pending),
        cmocka_unit_test(all_pieces_of_a_stream_join),
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
        cmocka_unit_test(a_trim_gives_what_was_waited_for),
        cmocka_unit_test(it_trims_more_pages_than_one_call_takes),
        cmocka_unit_test(may_be_trimmed_while_growing),
        cmocka_unit_test(every_failure_leaves_order),
        cmocka_unit_test(mapping_may_fail_half_way),
        cmocka_unit_test(opening_may_fail),
#if TIDEI_HEAP_POISONS
        cmocka_unit_test(poisons_what_is_free),
#endif
    };
    return cmocka_run_group_tests_name("pool_tide_requests", tests, NULL, NULL);
}
