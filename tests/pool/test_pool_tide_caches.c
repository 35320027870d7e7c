/* test_pool_tide_caches.c: what a thread keeps at hand of what it freed in the pool `tide`
** (runtime/pool/tide/cache.h): who gets it, what pushes out what, and that nothing is out of
** others' reach. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "runtime/pool/tide/tide.h"

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (64 * KIB)
#define FEW  (256 * KIB) /* a page with which a thread keeps as little as it ever does */

static tidei_pool *open_tide(void) { return open_pool(&tidei_pool_tide, PAGE, 64 * MIB); }

static tidei_pool *shared_pool;

/* Bytes in caches. */
static int64_t at_hand(tidei_pool *p) { return tidei_heap_tally((const tidei_heap *)p).held; }

static void a_freed_block_is_at_hand(void **state) {
    (void)state;
    tidei_pool *p = open_tide();
    tidei_block a = must(p, 1000, 0), b, c;
    tidei_addr at = a.addr;
    put(p, &a, 0, 5);
    /* another stream: not that one */
    assert_int_equal(get(p, 1024, 1, TIDEI_ALLOC_NO_GROW, &c), TIDE_OK);
    assert_true(c.addr != at);
    b = must(p, 1024, 0); /* as many granules */
    assert_int_equal(b.addr, at);
    assert_int_equal(b.stamps.n, 1);
    assert_int_equal(tidei_stamps_at(&b.stamps)[0].tick, 5);
    drop_stamps(&b);
    put(p, &b, 0, 0);
    put(p, &c, 1, 0);
    tidei_pool_stats s = figures(p); /* empties the caches */
    assert_int_equal(s.live + s.rounding + s.pending, 0);
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

/* Another thread's cache, and the inbox of a thread that is gone, are emptied before memory is
** asked for. */
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
    assert_int_equal(dbl.dev.budget->backed, PAGE);
    assert_int_equal(figures(shared_pool).largest, 0);
    (void)all;
    shared_pool->ops->close(shared_pool);
}

/* What a thread freed earlier, for another stream or of sizes nobody asks for any more, does not
** keep out what it frees now. */
static void what_is_not_asked_for_makes_room(void **state) {
    (void)state;
    static const struct {
        size_t old[4], now;
        unsigned stream;
    } rows[] = {{{64 * KIB, 64 * KIB, 64 * KIB, 64 * KIB}, 64 * KIB, 1},
                {{61 * KIB, 62 * KIB, 63 * KIB, 64 * KIB}, 16 * KIB, 0}};
    for (unsigned r = 0; r < TIDEI_COUNT(rows); r++) {
        tidei_pool *p = open_pool(&tidei_pool_tide, FEW, 64 * MIB);
        tidei_block b[4];
        for (unsigned i = 0; i < 4; i++) b[i] = must(p, rows[r].old[i], 0);
        for (unsigned i = 0; i < 4; i++) put(p, &b[i], 0, 1); /* as much as the cache takes */
        for (uint64_t i = 0; i < 1000; i++) {
            b[0] = must(p, rows[r].now, rows[r].stream);
            drop_stamps(&b[0]);
            int64_t before = at_hand(p);
            put(p, &b[0], rows[r].stream, i + 1);
            if (i >= 900) assert_int_equal(at_hand(p), before + (int64_t)rows[r].now);
        }
        assert_true(balanced(p));
        close_clean(p);
    }
}

enum { MANY = 200 };

static void make_many(tidei_pool *p, tidei_block *b, unsigned n, size_t bytes) {
    for (unsigned i = 0; i < n; i++) {
        b[i] = must(p, bytes, 0);
        drop_stamps(&b[i]);
    }
}

/* As after a collection. What empties the caches takes all of them; then there is room again. */
static void many_of_a_size_are_at_hand(void **state) {
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_tide, 2 * MIB, 64 * MIB);
    tidei_block b[MANY];
    for (unsigned round = 0; round < 3; round++) {
        make_many(p, b, MANY, 1000);
        for (unsigned i = 0; i < MANY; i++) put(p, &b[i], 0, 1 + round);
        assert_int_equal(at_hand(p), MANY * 1024);
        make_many(p, b, MANY, 1000);
        assert_int_equal(at_hand(p), 0);
        for (unsigned i = 0; i < MANY; i++) put(p, &b[i], 0, 1 + round);
        assert_true(balanced(p));
        assert_int_equal(figures(p).pending + figures(p).cached, 2 * MIB);
        assert_int_equal(at_hand(p), 0);
    }
    close_clean(p);
}

/* Of one size, some with work of a stream pending and some with none: another stream gets these. */
static void a_stream_gets_its_own_of_many(void **state) {
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_tide, 2 * MIB, 2 * MIB);
    tidei_block b[MANY], rest = {0};
    make_many(p, b, MANY, 1000);
    rest = must(p, 2 * MIB - MANY * 1024, 0);
    for (unsigned i = 0; i < MANY; i++) put(p, &b[i], 0, i % 2 ? 1 : 0);
    assert_int_equal(at_hand(p), MANY * 1024);
    for (unsigned i = 0; i < MANY / 2; i++) {
        assert_int_equal(get(p, 1000, 1, TIDEI_ALLOC_NO_GROW, &b[i]), TIDE_OK);
        assert_int_equal(b[i].stamps.n, 0);
    }
    assert_int_equal(get(p, 1000, 1, TIDEI_ALLOC_NO_GROW, &b[MANY / 2]), TIDE_E_NOMEM);
    for (unsigned i = 0; i < MANY / 2; i++) put(p, &b[i], 1, 0);
    put(p, &rest, 0, 0);
    close_clean(p);
}

/* Blocks that are large beside the cap take all of it; small ones have half as much beyond, but not
** where the cap is the least one. */
static void large_blocks_leave_room_for_small_ones(void **state) {
    (void)state;
    for (size_t cap = 256 * KIB; cap <= 512 * KIB; cap *= 2) {
        tidei_pool *p = open_pool(&tidei_pool_tide, FEW, 256 * MIB);
        tidei_block all = must(p, cap == 512 * KIB ? 128 * MIB : 64 * MIB, 0), large[4], b[MANY], c;
        const size_t small = cap / 256;
        const int64_t more = cap == 512 * KIB ? 128 : 0;
        const unsigned few = more ? 150 : 50; /* not so many that they push others out */
        put(p, &all, 0, 0);
        for (unsigned i = 0; i < 4; i++) large[i] = must(p, cap / 4, 0);
        make_many(p, b, MANY, small);
        c = must(p, small + 1, 0);
        for (unsigned i = 0; i < 4; i++) put(p, &large[i], 0, 1);
        put(p, &c, 0, 1);
        assert_int_equal(at_hand(p), (int64_t)cap);
        for (unsigned i = 0; i < few; i++) put(p, &b[i], 0, 1);
        assert_int_equal(at_hand(p), (int64_t)cap + more * (int64_t)small);
        for (unsigned i = few; i < MANY; i++) put(p, &b[i], 0, 1);
        assert_true(balanced(p));
        close_clean(p);
    }
}

/* Of little memory a thread that is alone keeps half a page at hand; one of several its share. */
static void half_a_page_is_at_hand(void **state) {
    (void)state;
    tidei_block b[MANY / 2], others[3];
    pthread_t t;
    shared_pool = open_pool(&tidei_pool_tide, 2 * MIB, 64 * MIB);
    for (unsigned threads = 1; threads <= 2; threads++) {
        make_many(shared_pool, b, MANY / 2, 16 * KIB);
        for (unsigned i = 0; i < MANY / 2; i++) put(shared_pool, &b[i], 0, 1);
        assert_int_equal(at_hand(shared_pool), threads == 1 ? MIB : MIB / 2);
        if (threads == 1) pthread_create(&t, NULL, take_and_leave, others), pthread_join(t, NULL);
        assert_true(balanced(shared_pool)); /* empties the caches */
    }
    for (unsigned i = 1; i < 3; i++) put(shared_pool, &others[i], 0, 1);
    close_clean(shared_pool);
}

/* What is freed many at a time pushes out what nobody asks for, too. */
static void many_of_a_size_make_room(void **state) {
    enum { BATCH = 100 };
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_tide, FEW, 64 * MIB);
    tidei_block old[4], b[BATCH];
    for (unsigned i = 0; i < 4; i++) old[i] = must(p, (61 + i) * KIB, 0);
    for (unsigned i = 0; i < 4; i++) put(p, &old[i], 0, 1); /* as much as the cache takes */
    for (unsigned round = 0; round < 50; round++) {
        make_many(p, b, BATCH, 1000);
        for (unsigned i = 0; i < BATCH; i++) put(p, &b[i], 0, 1);
    }
    int64_t before = at_hand(p);
    make_many(p, b, BATCH, 1000);
    assert_int_equal(before - at_hand(p), BATCH * 1024);
    for (unsigned i = 0; i < BATCH; i++) put(p, &b[i], 0, 1);
    assert_true(balanced(p));
    close_clean(p);
}

/* However many there are to push out, few are at once: each is freed under a lock, and takes its
** time. */
static void few_are_pushed_out_at_once(void **state) {
    enum { N = 250, LARGE = 60 * KIB, MOST = 8, END = 100000 };
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_tide, FEW, 64 * MIB);
    tidei_block b[N], c = must(p, LARGE, 0);
    make_many(p, b, N, 1000);
    for (unsigned i = 0; i < N; i++) put(p, &b[i], 0, 1);
    int64_t most = at_hand(p), pushed = 0, before;
    assert_int_equal(most, N * 1024);
    for (unsigned i = 0; i < END; i++) {
        before = at_hand(p);
        put(p, &c, 0, 1);
        int64_t gone = before - at_hand(p);
        if (gone < 0) gone += LARGE, i = END; /* it found a place */
        assert_in_range(gone, 0, MOST * 1024);
        pushed += gone;
        if (i < END) c = must(p, LARGE, 0);
    }
    assert_in_range(pushed, 2 * MOST * 1024, most);
    assert_int_equal(at_hand(p), most - pushed + LARGE);
    assert_true(balanced(p));
    close_clean(p);
}

static atomic_bool chains_are_over;
static atomic_uint given_back; /* of the owner */

/* Now and then: were the caches always empty, nothing would be pushed out. */
static void *empty_caches(void *arg) {
    unsigned next = 0;
    (void)arg;
    while (!atomic_load(&chains_are_over)) {
        unsigned now = atomic_load(&given_back);
        if (now < next) continue;
        next = now + 777;
        tidei_heap_flush_apart((tidei_heap *)shared_pool);
    }
    return NULL;
}

/* While their owner puts blocks onto chains, takes them from there and pushes some out, others take
** whole chains. */
static void chains_are_taken_meanwhile(void **state) {
    (void)state;
    tidei_block b[MANY];
    pthread_t t;
    shared_pool = open_pool(&tidei_pool_tide, 2 * MIB, 64 * MIB);
    const tidei_heap *heap = (const tidei_heap *)shared_pool;
    atomic_store(&chains_are_over, false);
    atomic_store(&given_back, 0);
    make_many(shared_pool, b, MANY, 1000); /* two sizes in turn; of the other not all find room */
    assert_int_equal(pthread_create(&t, NULL, empty_caches, NULL), 0);
    for (unsigned round = 0; round < (test_quick() ? 200 : 1000); round++) {
        for (unsigned i = 0; i < MANY; i++) {
            put(shared_pool, &b[i], 0, 1);
            atomic_fetch_add(&given_back, 1);
        }
        make_many(shared_pool, b, MANY, round / 4 % 2 ? 1000 : 9000);
    }
    atomic_store(&chains_are_over, true);
    pthread_join(t, NULL);
    for (unsigned i = 0; i < MANY; i++) put(shared_pool, &b[i], 0, 1);
    assert_true(balanced(shared_pool));
    tidei_heap_flush_apart((tidei_heap *)shared_pool);
    const tidei_cache *c = tidei_heap_cache_of(heap, tidei_thread_number);
    assert_int_equal(at_hand(shared_pool), 0);
    assert_int_equal(c->in_entries, atomic_load(&c->stolen_from));
    assert_true(c->hand > 0); /* some were pushed out */
    close_clean(shared_pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_freed_block_is_at_hand),
        cmocka_unit_test(nothing_is_out_of_reach),
        cmocka_unit_test(what_is_not_asked_for_makes_room),
        cmocka_unit_test(many_of_a_size_are_at_hand),
        cmocka_unit_test(a_stream_gets_its_own_of_many),
        cmocka_unit_test(large_blocks_leave_room_for_small_ones),
        cmocka_unit_test(half_a_page_is_at_hand),
        cmocka_unit_test(many_of_a_size_make_room),
        cmocka_unit_test(few_are_pushed_out_at_once),
        cmocka_unit_test(chains_are_taken_meanwhile),
    };
    return cmocka_run_group_tests_name("pool_tide_caches", tests, NULL, NULL);
}
