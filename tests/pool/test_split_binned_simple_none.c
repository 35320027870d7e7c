/* test_split_binned_simple_none.c: the pools `split`, `binned`, `simple` and `none` alone, over
** doubles: what they have in common, and what each is for. What they do on a real device is
** test_pool_battery.c. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "tests/pool/pool_failures.h"

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (64 * KIB)

static const struct tidei_pool_ops *const kinds[] = {&tidei_pool_split, &tidei_pool_binned,
                                                     &tidei_pool_simple};
#define KINDS TIDEI_COUNT(kinds)

static tidei_pool *open_kind(unsigned k) { return open_pool(kinds[k], PAGE, (size_t)16 << 30); }
static tidei_pool *open_split(void) { return open_kind(0); }

static void rules(tidei_pool *p, unsigned reuse) { atomic_store(&p->attrs.reuse, reuse); }

/* ---- what they have in common ---- */

static void refuse_the_absurd(void **state) {
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 255, SIZE_MAX / 2, 64 * MIB + 1};
    for (unsigned k = 0; k < KINDS; k++) {
        tidei_pool *p = open_kind(k);
        tidei_block kept = must(p, 5000, 0), b;
        atomic_store(&dbl.dev.budget->limit, 64 * MIB);
        tidei_pool_stats before = figures(p), after;
        for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++)
            assert_int_equal(get(p, sizes[i], 0, 0, &b), TIDE_E_NOMEM);
        after = figures(p);
        assert_memory_equal(&before, &after, sizeof before);
        put(p, &kept, 0, 0);
        close_clean(p);
    }
}

/* Who gets what stream 1 has pending at tick 5: with each rule, and with none. */
static void follow_the_rules(void **state) {
    (void)state;
    enum { FOLLOW = TIDEI_REUSE_FOLLOW, DONE = TIDEI_REUSE_DONE, WAIT = TIDEI_REUSE_WAIT };
    static const struct {
        unsigned rules;
        bool deterministic;
        /* stream 2, which waited; 3, once it is done; the same */
        bool followed, done, known, pending, stolen;
    } rows[] = {{FOLLOW | DONE, false, true, true, true, false, true},
                {FOLLOW, false, true, false, false, false, true},
                {DONE, false, false, true, true, false, true},
                {0, false, false, false, false, false, true},
                {WAIT, false, true, true, true, true, true},
                {FOLLOW | DONE, true, true, false, false, false, true}};
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned i = 0; i < TIDEI_COUNT(rows); i++) {
            tidei_pool *p = open_kind(k);
            tidei_block a = must(p, MIB, 1), b, rest = {0};
            tidei_addr at = a.addr;
            if (k == 0) rest = must(p, MIB, 4); /* of the segment of `split` */
            rules(p, rows[i].rules);
            atomic_store(&p->attrs.deterministic, rows[i].deterministic);
            put(p, &a, 1, 5);
            /* its own, always */
            assert_int_equal(get(p, MIB, 1, TIDEI_ALLOC_NO_GROW, &b), TIDE_OK);
            assert_int_equal(b.addr, at);
            assert_int_equal(b.stamps.n, 1);
            put(p, &b, 1, 0);
#define TAKES(stream, flags, yes)                                                                  \
    do {                                                                                           \
        tide_status got = get(p, MIB, stream, TIDEI_ALLOC_NO_GROW | (flags), &b);                  \
        assert_int_equal(got, (yes) ? TIDE_OK : TIDE_E_NOMEM);                                     \
        if (got == TIDE_OK) {                                                                      \
            assert_int_equal(b.addr, at);                                                          \
            put(p, &b, 1, 5);                                                                      \
        }                                                                                          \
        assert_true(balanced(p));                                                                  \
    } while (0)
            TAKES(3, 0, rows[i].pending);
            TAKES(3, TIDEI_ALLOC_STEAL, rows[i].stolen);
            dbl.streams[2].seen[1] = 5;
            TAKES(2, 0, rows[i].followed);
            double_complete(1, 5); /* found out by asking */
            TAKES(3, 0, rows[i].done);
            p->ops->settle(p);
            TAKES(3, 0, rows[i].known);
            assert_int_equal(figures(p).pending, 0);
            if (rest.priv) put(p, &rest, 4, 0);
            assert_true(p->ops->trim(p, 0) > 0); /* whatever the rules */
            assert_int_equal(figures(p).backed, 0);
            close_clean(p);
        }
}

static void stolen_blocks_bear_their_stamps(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) /* more than three do not fit inline */
        for (unsigned streams = 1; streams <= 6; streams++) {
            tidei_pool *p = open_kind(k);
            tidei_block a = must(p, MIB, 1), b;
            if (k == 0) (void)must(p, MIB, 9); /* the rest of the segment of `split` */
            for (unsigned s = 1; s <= streams; s++) used_by(&a, s, 10 + s);
            put(p, &a, 0, 0);
            assert_int_equal(get(p, MIB, 7, TIDEI_ALLOC_NO_GROW | TIDEI_ALLOC_STEAL, &b), TIDE_OK);
            assert_int_equal(b.stamps.n, streams);
            for (unsigned s = 1; s <= streams; s++)
                assert_int_equal(tidei_stamps_at(&b.stamps)[s - 1].tick, 10 + s);
            put(p, &b, 7, 1);
            close_clean(p);
        }
}

/* A piece that is cut leaves its stamps on both parts, which may take memory. */
static void cut_pieces_keep_their_stamps(void **state) {
    (void)state;
    tidei_pool *p = open_split();
    tidei_block a = must(p, MIB, 1), b, c;
    (void)must(p, MIB, 9);
    for (unsigned s = 1; s <= 6; s++) used_by(&a, s, s);
    put(p, &a, 0, 0);
    dbl.fail_after[CALL_HOST] = 0;
    assert_int_equal(get(p, MIB / 2, 7, TIDEI_ALLOC_STEAL, &b), TIDE_E_HOST_NOMEM);
    assert_true(balanced(p));
    assert_int_equal(get(p, MIB / 2, 7, TIDEI_ALLOC_STEAL, &b), TIDE_OK);
    assert_int_equal(get(p, MIB / 2, 8, TIDEI_ALLOC_NO_GROW, &c), TIDE_E_NOMEM);
    assert_int_equal(get(p, MIB / 2, 8, TIDEI_ALLOC_NO_GROW | TIDEI_ALLOC_STEAL, &c), TIDE_OK);
    assert_int_equal(b.stamps.n, 6);
    assert_int_equal(c.stamps.n, 6);
    put(p, &b, 0, 0);
    put(p, &c, 0, 0);
    close_clean(p);
}

enum { STEPS = 3000 };

/* Four streams' blocks; `paced`: the device gets on with its work now and then. */
static void trace_addresses(tidei_pool *p, bool paced, tidei_addr *trace) {
    enum { BLOCKS_OF_TRACE = 100 };
    static tidei_block b[BLOCKS_OF_TRACE];
    uint64_t seed = 7, pace = 1;
    memset(b, 0, sizeof b);
    atomic_store(&p->attrs.deterministic, true);
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned at = dice(&seed) % BLOCKS_OF_TRACE, s = dice(&seed) % 4;
        size_t bytes = (size_t)1 + (dice(&seed) % 6000000 >> dice(&seed) % 12);
        if (paced && i % 3 == 0) double_complete(dice(&pace) % 4, i / 2);
        if (i % 50 == 0) p->ops->settle(p);
        if (i % 70 == 0) dbl.streams[s].seen[(s + 1) % 4] = i;
        if (b[at].priv) {
            put(p, &b[at], s, i + 1);
            b[at].priv = NULL;
        } else {
            b[at] = must(p, bytes, s);
            trace[i] = b[at].addr;
        }
    }
}

/* With completion left out of it, the addresses depend on the calls alone: of several streams
** too. */
static void are_deterministic_when_told(void **state) {
    (void)state;
    static tidei_addr trace[2][STEPS];
    for (unsigned k = 0; k < KINDS; k++) {
        for (unsigned run = 0; run < 2; run++) {
            tidei_pool *p = open_kind(k);
            trace_addresses(p, run, trace[run]);
            close_clean(p);
        }
        assert_memory_equal(trace[0], trace[1], sizeof trace[0]);
    }
}

/* ---- everything fails once ---- */

static void every_failure_leaves_order(void **state) {
    static const struct failure calls[] = {{CALL_HOST, TIDE_E_HOST_NOMEM},
                                           {CALL_BACK, TIDE_E_NOMEM},
                                           {CALL_RAW, TIDE_E_NOMEM},
                                           {CALL_RAW, TIDE_E_DEVICE}};
    (void)state;
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned i = 0; i < TIDEI_COUNT(calls); i++)
            each_failure_leaves_order(&calls[i], open_kind, k, 60, 10000);
}

static void opening_may_fail(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        tidei_pool *p = NULL;
        tidei_dev *d = double_open(PAGE, 64 * MIB);
        dbl.fail_after[CALL_HOST] = 0;
        assert_int_equal(kinds[k]->open(d, TIDEI_MEM_DEVICE, &p), TIDE_E_HOST_NOMEM);
        assert_null(p);
    }
    tidei_pool *p = NULL;
    assert_int_equal(tidei_pool_driver.open(double_open(PAGE, 64 * MIB), TIDEI_MEM_DEVICE, &p),
                     TIDE_E_UNSUPPORTED); /* the double has no pools of its own */
    assert_null(p);
}

/* ---- random traffic ---- */

enum { BLOCKS = 200, STREAMS = 5 };

/* A block that lies in others' way, or comes with work pending that its stream is not ordered
** after. */
static void check_got(const tidei_block *b, unsigned got, unsigned s, bool waits) {
    const tidei_block *x = &b[got];
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i != got && b[i].priv)
            assert_true(x->addr + x->bytes <= b[i].addr || b[i].addr + b[i].bytes <= x->addr);
    for (unsigned i = 0; i < x->stamps.n && !waits; i++) {
        tidei_stamp t = tidei_stamps_at((tidei_stamps *)&x->stamps)[i];
        assert_true(t.stream == s || t.tick <= dbl.streams[s].seen[t.stream] ||
                    t.tick <= dbl.word[t.stream]);
    }
}

static void random_step(tidei_pool *p, tidei_block *b, uint64_t *ticks, uint64_t *seed) {
    unsigned what = dice(seed) % 100, s = dice(seed) % STREAMS, o = dice(seed) % STREAMS,
             at = dice(seed) % BLOCKS;
    if (what < 80 && !b[at].priv) {
        static const unsigned flags[] = {0, 0, TIDEI_ALLOC_NO_GROW, TIDEI_ALLOC_STEAL};
        unsigned f = flags[dice(seed) % TIDEI_COUNT(flags)];
        tide_status st =
            get(p, (size_t)1 + (dice(seed) % 30000000 >> dice(seed) % 14), s, f, &b[at]);
        assert_true(st == TIDE_OK || st == TIDE_E_NOMEM);
        bool waits = f & TIDEI_ALLOC_STEAL || atomic_load(&p->attrs.reuse) & TIDEI_REUSE_WAIT;
        if (st == TIDE_OK) check_got(b, at, s, waits);
    } else if (what < 80) {
        for (unsigned uses = dice(seed) % 3; uses; uses--, s = dice(seed) % STREAMS)
            used_by(&b[at], s, ++ticks[s]);
        p->ops->free(p, &b[at]);
        b[at].priv = NULL;
    } else if (what < 88) {
        double_complete(s, ticks[s] - dice(seed) % (ticks[s] < 20 ? 1 : 20));
    } else if (what < 92) {
        dbl.streams[s].seen[o] = ticks[o];
    } else if (what < 96) {
        p->ops->settle(p);
    } else {
        p->ops->trim(p, dice(seed) % (200 * MIB));
    }
}

static void random_traffic_keeps_blocks_apart(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        tidei_pool *p = open_kind(k);
        tidei_block *b = calloc(BLOCKS, sizeof *b);
        uint64_t seed = k + 1, ticks[STREAMS] = {0};
        if (k == 0) atomic_store(&p->attrs.max_split, 21 * MIB);
        atomic_store(&dbl.dev.budget->limit, 256 * MIB);
        for (unsigned i = 0, n = test_quick() ? 4000 : 20000; i < n; i++) {
            if (i % 5000 == 2500) rules(p, dice(&seed) % 8);
            random_step(p, b, ticks, &seed);
            if (i % 16 == 0) assert_true(balanced(p));
        }
        assert_true(dbl.peak <= 256 * MIB);
        for (unsigned i = 0; i < BLOCKS; i++)
            if (b[i].priv) p->ops->free(p, &b[i]);
        for (unsigned s = 0; s < STREAMS; s++) double_complete(s, ticks[s]);
        p->ops->trim(p, 0);
        assert_int_equal(figures(p).backed, 0);
        close_clean(p);
        free(b);
    }
}

/* ---- many threads, and limits that come back for memory ---- */

static struct {
    tidei_pool *p;
    _Atomic(tidei_block *) slots[64];
    _Atomic uint64_t tick;
    atomic_bool bad;
} shared;

static void trim_when_asked_for_memory(size_t bytes) {
    if (bytes % 1024 == 0) shared.p->ops->trim(shared.p, 4 * MIB);
}

static void *thread_main(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t seed = me + 1;
    for (unsigned i = 0; i < 800; i++) {
        tidei_block *b = calloc(1, sizeof *b);
        if (get(shared.p, (size_t)1 + (dice(&seed) % 3000000 >> dice(&seed) % 12), me, 0, b) !=
            TIDE_OK) {
            free(b);
            b = NULL;
        }
        b = atomic_exchange(&shared.slots[dice(&seed) % TIDEI_COUNT(shared.slots)], b);
        if (b) put(shared.p, b, dice(&seed) % 4, atomic_fetch_add(&shared.tick, 1) + 1);
        free(b);
        if (i % 64 == me) shared.p->ops->trim(shared.p, 256 * KIB);
        if (i % 128 == me && !shared.p->ops->valid(shared.p)) shared.bad = true;
        if (i % 16 == me) double_complete(me, atomic_load(&shared.tick) / 2);
    }
    return NULL;
}

static void many_threads_get_blocks_of_their_own(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        pthread_t threads[4];
        memset(&shared, 0, sizeof shared);
        shared.p = open_kind(k);
        atomic_store(&dbl.dev.budget->limit, 24 * MIB);
        dbl.on_back = trim_when_asked_for_memory;
        for (unsigned i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i);
        for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        assert_false(shared.bad);
        assert_true(dbl.peak <= 24 * MIB);
        for (unsigned i = 0; i < TIDEI_COUNT(shared.slots); i++) {
            tidei_block *b = shared.slots[i];
            if (b) shared.p->ops->free(shared.p, b);
            free(b);
        }
        assert_int_equal(figures(shared.p).live, 0);
        close_clean(shared.p);
    }
}

/* ---- binned ---- */

static void binned_rounds_to_powers_of_two(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{1, 256},
                                      {256, 256},
                                      {257, 512},
                                      {3 * MIB, 4 * MIB},
                                      {128 * MIB - 1, 128 * MIB},
                                      {128 * MIB, 128 * MIB},
                                      {128 * MIB + 1, 128 * MIB + 256}};
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++) {
        tidei_pool *p = open_kind(1);
        tidei_block a = must(p, sizes[i][0], 0);
        assert_int_equal(figures(p).backed, sizes[i][1]);
        put(p, &a, 0, 1);
        bool kept = sizes[i][1] <= 128 * MIB;
        assert_int_equal(figures(p).pending, sizes[i][1]);
        assert_int_equal(figures(p).largest, kept ? sizes[i][1] : 0);
        double_complete(0, 1); /* what is too large goes as soon as it is known to be done */
        p->ops->settle(p);
        assert_int_equal(figures(p).backed, kept ? sizes[i][1] : 0);
        close_clean(p);
    }
    tidei_pool *p = open_kind(1);
    tidei_block a = must(p, 200 * MIB, 0);
    put(p, &a, 0, 0);
    assert_int_equal(dbl.raw_blocks, 0);
    close_clean(p);
}

static void binned_falls_back_to_what_is_needed(void **state) {
    (void)state;
    tidei_pool *p = open_kind(1);
    tidei_block a, b;
    atomic_store(&dbl.dev.budget->limit, 100 * MIB);
    assert_int_equal(get(p, 90 * MIB, 0, 0, &a), TIDE_OK);
    assert_int_equal(figures(p).backed, 90 * MIB);
    tidei_addr at = a.addr;
    put(p, &a, 0, 0);
    assert_int_equal(get(p, 91 * MIB, 0, TIDEI_ALLOC_NO_GROW, &b), TIDE_E_NOMEM);
    /* of the same bin, and large enough */
    assert_int_equal(get(p, 70 * MIB, 0, TIDEI_ALLOC_NO_GROW, &b), TIDE_OK);
    assert_int_equal(b.addr, at);
    close_clean(p);
}

/* Another bin's blocks do not serve; the last freed of the right one does; the largest go back
** first. */
static void binned_keeps_to_its_bins(void **state) {
    (void)state;
    tidei_pool *p = open_kind(1);
    tidei_block a = must(p, 3 * MIB, 0), b = must(p, 4 * MIB, 0), c = must(p, 500, 0);
    tidei_addr at = b.addr;
    put(p, &a, 0, 0);
    put(p, &b, 0, 0);
    put(p, &c, 0, 0);
    assert_int_equal(get(p, 2 * MIB, 0, TIDEI_ALLOC_NO_GROW, &a), TIDE_E_NOMEM);
    assert_int_equal(get(p, 2 * MIB + 1, 0, TIDEI_ALLOC_NO_GROW, &a), TIDE_OK);
    assert_int_equal(a.addr, at);
    assert_int_equal(figures(p).rounding, 2 * MIB - 1);
    put(p, &a, 0, 0);
    assert_int_equal(p->ops->trim(p, 5 * MIB), 4 * MIB);
    /* not the small one alone: largest first */
    assert_int_equal(p->ops->trim(p, 4 * MIB), 4 * MIB);
    assert_int_equal(figures(p).backed, 512);
    close_clean(p);
}

/* ---- simple ---- */

static void simple_bounds_the_waste(void **state) {
    (void)state;
    static const struct {
        size_t held, asked;
        bool served;
    } rows[] = {{MIB, 256, true},
                {MIB + 256, 1, true},
                {MIB + 512, 1, false},
                {33 * MIB, 32 * MIB, true},
                {33 * MIB + 256, 32 * MIB, false},
                {37 * MIB, 33 * MIB, true},
                {37 * MIB + 256, 33 * MIB, false},
                {256, 257, false}};
    for (unsigned i = 0; i < TIDEI_COUNT(rows); i++) {
        tidei_pool *p = open_kind(2);
        tidei_block a = must(p, rows[i].held, 0), b;
        tidei_addr at = a.addr;
        put(p, &a, 0, 1);
        tide_status st = get(p, rows[i].asked, 0, TIDEI_ALLOC_NO_GROW, &b);
        assert_int_equal(st, rows[i].served ? TIDE_OK : TIDE_E_NOMEM);
        if (rows[i].served) {
            assert_int_equal(b.addr, at);
            assert_int_equal(figures(p).rounding, rows[i].held - rows[i].asked);
            put(p, &b, 0, 2);
        }
        close_clean(p);
    }
}

static void simple_takes_the_closest(void **state) {
    (void)state;
    tidei_pool *p = open_kind(2);
    tidei_block b[4], c;
    for (unsigned i = 0; i < 4; i++) b[i] = must(p, (4 - i) * 100 * KIB, 0);
    tidei_addr second = b[2].addr, third = b[1].addr;
    for (unsigned i = 0; i < 4; i++) put(p, &b[i], 0, 0);
    c = must(p, 150 * KIB, 0);
    assert_int_equal(c.addr, second);
    c = must(p, 150 * KIB, 0);
    assert_int_equal(c.addr, third);
    close_clean(p);
}

/* ---- split ---- */

static void split_takes_segments(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{1, 2 * MIB},
                                      {MIB, 2 * MIB},
                                      {MIB + 1, 20 * MIB},
                                      {10 * MIB - 512, 20 * MIB},
                                      {10 * MIB, 10 * MIB},
                                      {10 * MIB + 1, 12 * MIB},
                                      {300 * MIB - 1, 300 * MIB}};
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++) {
        tidei_pool *p = open_split();
        must(p, sizes[i][0], 0);
        assert_int_equal(figures(p).backed, sizes[i][1]);
        close_clean(p);
    }
}

static void split_cuts_and_joins(void **state) {
    (void)state;
    static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (unsigned o = 0; o < TIDEI_COUNT(orders); o++) {
        tidei_pool *p = open_split();
        tidei_block b[3];
        for (unsigned i = 0; i < 3; i++) b[i] = must(p, 1000 * (i + 1), 0);
        assert_int_equal(b[1].addr - b[0].addr, 1024);
        assert_int_equal(b[2].addr - b[1].addr, 2048);
        assert_int_equal(figures(p).live, 6000);
        assert_int_equal(figures(p).rounding, 1024 + 2048 + 3072 - 6000);
        for (unsigned i = 0; i < 3; i++) {
            put(p, &b[orders[o][i]], 0, 1);
            assert_true(balanced(p));
        }
        b[0] = must(p, MIB, 0);
        b[1] = must(p, MIB, 0); /* all of the segment is one piece again */
        assert_int_equal(figures(p).backed, 2 * MIB);
        close_clean(p);
    }
}

/* Small pieces and large ones have segments of their own; a rest of at most 1 MiB stays with a
** large piece. */
static void split_keeps_small_and_large_apart(void **state) {
    (void)state;
    tidei_pool *p = open_split();
    tidei_block a = must(p, 9 * MIB + 1, 0), b = must(p, 10 * MIB - 512, 0), c;
    tidei_addr at = a.addr;
    assert_int_equal(b.addr - at, 9 * MIB + 512);
    assert_int_equal(figures(p).backed, 20 * MIB);
    assert_int_equal(figures(p).rounding, 511 + MIB);
    put(p, &a, 0, 0);
    assert_int_equal(get(p, MIB, 0, TIDEI_ALLOC_NO_GROW, &c), TIDE_E_NOMEM);
    assert_int_equal(figures(p).largest, 9 * MIB + 512);
    must(p, MIB, 0);
    assert_int_equal(figures(p).backed, 22 * MIB);
    assert_int_equal(get(p, MIB + 1, 0, TIDEI_ALLOC_NO_GROW, &c), TIDE_OK);
    assert_int_equal(c.addr, at);
    close_clean(p);
}

static void split_takes_the_best_fit(void **state) {
    (void)state;
    tidei_pool *p = open_split();
    static const size_t sizes[] = {4096, 512, 1024, 512, 2048, 512, 1024, 512};
    tidei_block b[TIDEI_COUNT(sizes)];
    tidei_addr at[TIDEI_COUNT(sizes)];
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++)
        b[i] = must(p, sizes[i], 0), at[i] = b[i].addr;
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i += 2) put(p, &b[i], 0, 1);
    assert_int_equal(must(p, 1024, 0).addr, at[2]);
    assert_int_equal(must(p, 900, 0).addr, at[6]);
    assert_int_equal(must(p, 900, 0).addr, at[4]);
    close_clean(p);
}

/* Pieces of max_split and more stay whole, and only such requests get them, of nearly that size. */
static void split_spares_the_large(void **state) {
    (void)state;
    tidei_pool *p = open_split();
    tidei_block a, b;
    atomic_store(&p->attrs.max_split, 64 * MIB);
    a = must(p, 100 * MIB, 0);
    tidei_addr at = a.addr;
    put(p, &a, 0, 0);
    assert_int_equal(get(p, 60 * MIB, 0, TIDEI_ALLOC_NO_GROW, &b), TIDE_E_NOMEM);
    /* 20 MiB would lie idle */
    assert_int_equal(get(p, 80 * MIB, 0, TIDEI_ALLOC_NO_GROW, &b), TIDE_E_NOMEM);
    assert_int_equal(get(p, 80 * MIB + 512, 0, TIDEI_ALLOC_NO_GROW, &b), TIDE_OK);
    assert_int_equal(b.addr, at);
    assert_int_equal(figures(p).rounding, 20 * MIB - 512); /* not cut */
    put(p, &b, 0, 0);
    atomic_store(&p->attrs.max_split, SIZE_MAX);
    assert_int_equal(get(p, 60 * MIB, 0, TIDEI_ALLOC_NO_GROW, &b), TIDE_OK);
    assert_int_equal(figures(p).largest, 40 * MIB);
    close_clean(p);
}

static void split_falls_back_to_what_is_needed(void **state) {
    (void)state;
    tidei_pool *p = open_split();
    tidei_block b;
    atomic_store(&dbl.dev.budget->limit, MIB);
    assert_int_equal(get(p, 1000, 0, 0, &b), TIDE_OK);
    assert_int_equal(figures(p).backed, 1024);
    assert_int_equal(get(p, MIB - 1024, 0, 0, &b), TIDE_OK);
    assert_int_equal(get(p, 1, 0, 0, &b), TIDE_E_NOMEM);
    assert_int_equal(dbl.peak, MIB);
    close_clean(p);
}

/* A segment goes back when all of it is free and done, be it in one piece or not. */
static void split_trims_whole_segments(void **state) {
    (void)state;
    tidei_pool *p = open_split();
    tidei_block a = must(p, MIB, 0), b = must(p, MIB, 1), c = must(p, 10 * MIB, 0);
    put(p, &a, 0, 1);
    put(p, &c, 0, 2);
    assert_int_equal(p->ops->trim(p, 0), 0);
    double_complete(0, 2);
    assert_int_equal(p->ops->trim(p, 0), 10 * MIB);
    put(p, &b, 1, 1);
    assert_int_equal(p->ops->trim(p, 0), 0);
    rules(p, 0); /* pieces of two streams do not join then */
    double_complete(1, 1);
    assert_int_equal(p->ops->trim(p, 2 * MIB), 0);
    assert_int_equal(p->ops->trim(p, 2 * MIB - 1), 2 * MIB);
    assert_int_equal(figures(p).backed, 0);
    close_clean(p);
}

/* ---- the pool `none` ---- */

static void none_keeps_nothing(void **state) {
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_none, PAGE, 64 * MIB);
    tidei_block a = must(p, 1000, 0), b = must(p, 5000, 1), c;
    assert_int_equal(figures(p).live, 6000);
    assert_int_equal(figures(p).backed, 1024 + 5120);
    assert_int_equal(get(p, 1, 0, TIDEI_ALLOC_NO_GROW, &c), TIDE_E_NOMEM);
    assert_true(balanced(p));
    /* the driver may hand it on at once, so it stays until its last use is done */
    put(p, &a, 2, 7);
    assert_int_equal(figures(p).pending, 1024);
    assert_int_equal(p->ops->trim(p, 0), 0);
    double_complete(2, 7);
    assert_int_equal(p->ops->trim(p, 0), 1024);
    assert_int_equal(figures(p).backed, 5120);
    atomic_store(&dbl.dev.budget->limit, 5120);
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
    assert_int_equal(figures(p).pending, 1024);
    assert_true(balanced(p));
    assert_int_equal(p->ops->settle(p), 0);
    double_complete(2, 7);
    assert_int_equal(p->ops->settle(p), 1024);
    assert_int_equal(dbl.raw_blocks, 2);
    assert_int_equal(figures(p).pending, 0);
    put(p, &b, 2, 8);
    assert_int_equal(dbl.raw_blocks, 2);
    double_complete(2, 8);
    d = must(p, 100, 0);
    assert_int_equal(dbl.raw_blocks, 2); /* c and d */
    put(p, &c, 2, 9);
    assert_int_equal(figures(p).pending, 256);
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
    for (char *rest = NULL, *name = strtok_r(names, ", ", &rest); name;
         name = strtok_r(NULL, ", ", &rest), n++) {
        assert_non_null(tidei_pool_find(name));
        assert_string_equal(tidei_pool_find(name)->name, name);
    }
    assert_int_equal(n, 6);
    assert_null(tidei_pool_find("tid"));
    assert_null(tidei_pool_find(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuse_the_absurd),
        cmocka_unit_test(follow_the_rules),
        cmocka_unit_test(stolen_blocks_bear_their_stamps),
        cmocka_unit_test(cut_pieces_keep_their_stamps),
        cmocka_unit_test(are_deterministic_when_told),
        cmocka_unit_test(every_failure_leaves_order),
        cmocka_unit_test(opening_may_fail),
        cmocka_unit_test(random_traffic_keeps_blocks_apart),
        cmocka_unit_test(many_threads_get_blocks_of_their_own),
        cmocka_unit_test(binned_rounds_to_powers_of_two),
        cmocka_unit_test(binned_falls_back_to_what_is_needed),
        cmocka_unit_test(binned_keeps_to_its_bins),
        cmocka_unit_test(simple_bounds_the_waste),
        cmocka_unit_test(simple_takes_the_closest),
        cmocka_unit_test(split_takes_segments),
        cmocka_unit_test(split_cuts_and_joins),
        cmocka_unit_test(split_keeps_small_and_large_apart),
        cmocka_unit_test(split_takes_the_best_fit),
        cmocka_unit_test(split_spares_the_large),
        cmocka_unit_test(split_falls_back_to_what_is_needed),
        cmocka_unit_test(split_trims_whole_segments),
        cmocka_unit_test(none_keeps_nothing),
        cmocka_unit_test(none_keeps_what_may_be_in_use),
        cmocka_unit_test(found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
