/* test_pool_tide_moves.c: the pool `tide` alone, over doubles: blocks that move so that a large one
** fits (runtime/pool/tide/compact.c): which, at what cost, and what others do meanwhile. Pages that
** are mapped elsewhere: test_pool_tide_pages.c. Real devices: test_compact.c. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "runtime/pool/tide/tide.h"

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (64 * KIB)

static tidei_pool *open_tide(void) { return open_pool(&tidei_pool_tide, PAGE, 64 * MIB); }

/* Pages that are free, and between them blocks of `kept` bytes that are owned: those of odd
** number. */
enum { CHECKERS = 16 };
static tidei_pool *open_stripes(unsigned n, tidei_block *b, double_owner *o, size_t kept) {
    tidei_pool *p = open_tide();
    p->mover = &double_mover;
    movers.on_move = NULL;
    movers.on_begin = NULL;
    movers.tick = 10;
    movers.blocks = movers.asked = 0;
    atomic_store(&dbl.dev.budget->limit, n / 2 * (PAGE + kept));
    for (unsigned i = 0; i < n; i++) b[i] = must(p, i % 2 ? kept : PAGE, 0);
    for (unsigned i = 0; i < n; i++) {
        o[i] = (double_owner){.b = &b[i]};
        p->ops->own(p, &b[i], &o[i]);
        if (i % 2 == 0) put(p, &b[i], 0, 1);
    }
    return p;
}
static tidei_pool *open_checkered(tidei_block *b, double_owner *o) {
    return open_stripes(CHECKERS, b, o, PAGE);
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
    assert_int_equal(dbl.dev.budget->backed, CHECKERS * PAGE);
    for (unsigned i = 1; i < CHECKERS; i += 2) {
        assert_true(b[i].addr + PAGE <= c.addr || b[i].addr >= c.addr + 8 * PAGE);
        assert_int_equal(o[i].held, 0);
    }
    assert_true(balanced(p));
    put(p, &c, 0, 11);
    drop_owned(p, b);
}

/* Growth by less than a 64th of all is worth what it spares in moves; where the limit leaves none,
** blocks move all the same, and nothing more is asked of the caller. */
static void blocks_move_where_the_limit_leaves_no_growth(void **state) {
    (void)state;
    enum { ALL = 200 };
    for (unsigned limited = 0; limited < 2; limited++) {
        tidei_block b[ALL], c;
        double_owner o[ALL];
        tidei_pool *p = open_tide();
        p->mover = &double_mover;
        movers.tick = 10, movers.blocks = 0;
        for (unsigned i = 0; i < ALL; i++) {
            b[i] = must(p, PAGE, 0);
            o[i] = (double_owner){.b = &b[i]};
            p->ops->own(p, &b[i], &o[i]);
        }
        p->ops->trim(p, 0);
        size_t backed = dbl.dev.budget->backed;
        assert_int_equal(backed, ALL * PAGE);
        if (limited) atomic_store(&dbl.dev.budget->limit, backed);
        put(p, &b[50], 0, 1), put(p, &b[150], 0, 1);
        assert_int_equal(get(p, 2 * PAGE, 0, 0, &c), TIDE_OK);
        assert_int_equal(figures(p).compactions, limited);
        assert_int_equal(movers.blocks, limited);
        assert_int_equal(dbl.dev.budget->backed == backed, limited);
        assert_true(balanced(p));
        put(p, &c, 0, 11);
        for (unsigned i = 0; i < ALL; i++)
            if (i != 50 && i != 150) p->ops->free(p, &b[i]);
        close_clean(p);
    }
}

/* Two free pieces of `hole` bytes with so many blocks of a page between, where the limit leaves no
** growth; none of the blocks finds a place elsewhere. Requests both pieces' bytes. */
static tide_status get_across(unsigned between, size_t hole, unsigned flags) {
    enum { ALL = 200, BEGIN = 20 };
    tidei_block b[ALL], holes[2], rest = {0}, c;
    double_owner o[ALL];
    tidei_pool *p = open_tide();
    p->mover = &double_mover;
    movers.tick = 10, movers.blocks = 0;
    for (unsigned i = 0; i < ALL; i++) {
        if (i == BEGIN) holes[0] = must(p, hole, 0);
        if (i == BEGIN + between) holes[1] = must(p, hole, 0);
        b[i] = must(p, PAGE, 0);
        o[i] = (double_owner){.b = &b[i]};
        p->ops->own(p, &b[i], &o[i]);
    }
    if (2 * hole % PAGE) rest = must(p, PAGE - 2 * hole % PAGE, 0);
    p->ops->trim(p, 0);
    atomic_store(&dbl.dev.budget->limit, dbl.dev.budget->backed);
    put(p, &holes[0], 0, 1), put(p, &holes[1], 0, 1);
    assert_int_equal(figures(p).cached + figures(p).pending, 2 * hole);
    tide_status st = get(p, 2 * hole, 0, flags, &c);
    assert_int_equal(movers.blocks, st == TIDE_OK ? between : 0);
    assert_int_equal(((tidei_heap *)p)->small, 0);
    assert_int_equal(((tidei_heap *)p)->compact_after, 0);
    assert_true(balanced(p));
    if (st == TIDE_OK) put(p, &c, 0, 11);
    if (rest.bytes) p->ops->free(p, &rest);
    for (unsigned i = 0; i < ALL; i++) p->ops->free(p, &b[i]);
    close_clean(p);
    return st;
}

/* ... but no more than 16 times what is wanted, and no block in more than 8 pieces; and a request
** for which that is too little puts nothing off that may cost anything. */
static void moves_in_place_of_growth_are_bounded(void **state) {
    (void)state;
    assert_int_equal(get_across(8, PAGE / 2, 0), TIDE_OK);
    assert_int_equal(get_across(20, PAGE / 2, 0), TIDE_E_NOMEM);
    assert_int_equal(get_across(1, PAGE / 4, 0), TIDE_OK);
    assert_int_equal(get_across(1, PAGE / 16, 0), TIDE_E_NOMEM);
}

/* A block that would slide by less than a 256th of its size stays, but not before a request is
** refused. */
static void by_little_is_the_last_resort(void **state) {
    enum { LARGE = 4 * PAGE, LITTLE = 256 };
    (void)state;
    tidei_pool *p = open_pool(&tidei_pool_tide, LARGE, 16 * LARGE);
    p->mover = &double_mover;
    movers.tick = 10, movers.blocks = 0;
    tidei_block low = must(p, LITTLE, 0), b = must(p, LARGE - 2 * LITTLE, 0),
                high = must(p, LITTLE, 0), c;
    double_owner o = {.b = &b};
    p->ops->own(p, &b, &o);
    atomic_store(&dbl.dev.budget->limit, dbl.dev.budget->backed);
    put(p, &low, 0, 1), put(p, &high, 0, 1);
    assert_int_equal(get(p, 2 * LITTLE, 0, TIDEI_ALLOC_MOVE, &c), TIDE_E_NOMEM);
    assert_int_equal(get(p, 2 * LITTLE, 0, TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED, &c), TIDE_OK);
    assert_int_equal(movers.blocks, 1);
    assert_true(balanced(p));
    put(p, &c, 0, 11);
    p->ops->free(p, &b);
    close_clean(p);
}

/* Between two pins, or a pin and an end, at most seven pages can be had in one piece: the blocks
** there find places behind. More comes from pages on both sides, which change their addresses. */
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
    assert_int_equal(dbl.dev.budget->backed, CHECKERS * PAGE);
    put(p, &c, 0, 12);
    drop_owned(p, b);
}

/* What others do once a stretch was chosen, before windows are closed. */
static struct {
    tidei_pool *p;
    tidei_block *b, taken;
    double_owner *o;
    unsigned at; /* the block that is pinned */
} meanwhile;
static void frees_one(void) { put(meanwhile.p, &meanwhile.b[3], 0, 11); }
static void frees_the_first(void) { put(meanwhile.p, &meanwhile.b[1], 0, 11); }
static void pins_one(void) { meanwhile.o[meanwhile.at].pinned = true; }
static void takes_one(void) { meanwhile.taken = must(meanwhile.p, PAGE, 0); }
static void takes_half_of_one(void) { meanwhile.taken = must(meanwhile.p, PAGE / 2, 0); }

static void changed_before_windows_close(void (*what)(void), size_t kept, bool caches,
                                         bool none_stays) {
    tidei_block b[CHECKERS], c;
    double_owner o[CHECKERS];
    tidei_pool *p = open_stripes(CHECKERS, b, o, kept);
    movers.none_stays = none_stays;
    keep_caches(p, caches);
    meanwhile.p = p, meanwhile.b = b, meanwhile.o = o, meanwhile.at = 3, meanwhile.taken.bytes = 0;
    movers.on_begin = what;
    tidei_addr at = b[3].addr;
    assert_int_equal(get(p, 5 * PAGE, 0, 0, &c), TIDE_OK);
    assert_null(movers.on_begin);
    assert_true(movers.blocks > 0);
    if (what == pins_one) {
        assert_int_equal(b[3].addr, at);
        /* chosen anew before windows open again; to slide blocks is tried second */
        assert_int_equal(movers.begins, kept == PAGE ? 1 : 2);
    }
    assert_true(balanced(p));
    for (unsigned i = 1; i < CHECKERS; i += 2) {
        bool freed = (what == frees_one && i == 3) || (what == frees_the_first && i == 1);
        assert_int_equal(o[i].held, 0);
        assert_true(freed || b[i].addr + kept <= c.addr || b[i].addr >= c.addr + 5 * PAGE);
        if (!freed) p->ops->free(p, &b[i]);
    }
    if (meanwhile.taken.bytes) p->ops->free(p, &meanwhile.taken);
    put(p, &c, 0, 12);
    close_clean(p);
}

/* Pieces of a page between blocks of one page, which are emptied, and of two, which slide. */
static void a_choice_that_is_over_is_made_again(void **state) {
    (void)state;
    void (*const all[])(void) = {frees_one, frees_the_first, pins_one, takes_one,
                                 takes_half_of_one};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++)
        for (unsigned k = 0; k < 8; k++)
            changed_before_windows_close(all[i], k % 2 ? PAGE : 2 * PAGE, k / 2 % 2, k / 4);
}

/* Where nothing stays no block need be asked before it is held; where that was wrong, a block of
** the first choice stays all the same. */
static void blocks_are_asked_where_some_stay(void **state) {
    (void)state;
    for (unsigned wrong = 0; wrong < 2; wrong++) {
        tidei_block b[CHECKERS], c;
        double_owner o[CHECKERS];
        tidei_pool *p = open_checkered(b, o);
        tidei_addr at = b[3].addr;
        movers.none_stays = true;
        o[3].pinned = wrong;
        assert_int_equal(get(p, 5 * PAGE, 0, 0, &c), TIDE_OK);
        assert_true(wrong ? movers.asked > 0 && b[3].addr == at : !movers.asked);
        assert_true(movers.blocks > 0);
        assert_int_equal(movers.begins, 1);
        for (unsigned i = 1; i < CHECKERS; i += 2) assert_int_equal(o[i].held, 0);
        assert_true(balanced(p));
        put(p, &c, 0, 11);
        drop_owned(p, b);
    }
}

/* Blocks are claimed a few at a time: wherever one among them stays, all are as they were. */
static void a_claim_that_fails_on_its_way_leaves_nothing(void **state) {
    enum { MANY = 128 };
    static const unsigned at[] = {1, 5, 13, 15, 17, 31}; /* the first, third, 7th, 8th, 9th, 16th */
    (void)state;
    for (unsigned k = 0; k < 2 * TIDEI_COUNT(at); k++) {
        tidei_block b[MANY], c;
        double_owner o[MANY];
        tidei_pool *p = open_stripes(MANY, b, o, PAGE);
        meanwhile.o = o, meanwhile.at = at[k / 2];
        movers.none_stays = k % 2;
        movers.on_begin = pins_one;
        tidei_addr before = b[meanwhile.at].addr;
        assert_int_equal(get(p, 32 * PAGE, 0, 0, &c), TIDE_OK);
        assert_null(movers.on_begin);
        assert_int_equal(movers.begins, 1);
        assert_true(movers.blocks > 0 && b[meanwhile.at].addr == before);
        assert_true(balanced(p));
        for (unsigned i = 1; i < MANY; i += 2) {
            assert_int_equal(o[i].held, 0);
            p->ops->free(p, &b[i]);
        }
        put(p, &c, 0, 11);
        close_clean(p);
    }
}

static struct {
    tidei_addr low;
    unsigned n;
} rising;
static void rises(tidei_stream *s, const tidei_stamp *pending, unsigned npending,
                  const tidei_move *m, const tidei_piece *at, uint64_t tick) {
    (void)s, (void)pending, (void)npending, (void)tick;
    if (!m) return;
    assert_true(at->dst > rising.low);
    rising.low = at->dst;
    rising.n++;
}

/* Blocks of one size go to pieces as long as they are, in order of address, before a longer one is
** cut. */
static void equal_pieces_are_filled_from_below(void **state) {
    (void)state;
    tidei_block b[CHECKERS], c;
    double_owner o[CHECKERS];
    tidei_pool *p = open_checkered(b, o);
    put(p, &b[9], 0, 1);
    put(p, &b[11], 0, 1);
    o[7].pinned = true; /* seven pages below it, five of them in one piece above */
    rising.low = rising.n = 0;
    movers.on_move = rises;
    assert_int_equal(get(p, 6 * PAGE, 0, 0, &c), TIDE_OK);
    movers.on_move = NULL;
    assert_in_range(rising.n, 1, 3);
    for (unsigned i = 1; i < CHECKERS; i += 2)
        if (i != 9 && i != 11) p->ops->free(p, &b[i]);
    put(p, &c, 0, 12);
    close_clean(p);
}

enum { UNIT = 4096, ASKED = 96, SPARSE = 128, DENSE_MOST = 2 * 1024 };

/* So many blocks, every second one free, and behind them as many bytes as are asked for with one
** block among them. True: there is where room was made. */
static bool looked_on(unsigned dense) {
    static tidei_block b[DENSE_MOST + SPARSE];
    static double_owner o[DENSE_MOST + SPARSE];
    tidei_block c;
    tidei_pool *p = open_tide();
    p->mover = &double_mover;
    movers.tick = 10, movers.blocks = movers.asked = 0;
    for (unsigned i = 0; i < dense + SPARSE; i++) b[i] = must(p, UNIT, 0);
    for (unsigned i = 0; i < dense + SPARSE; i++) {
        bool kept = i < dense ? i % 2 : i == dense + SPARSE / 2;
        o[i] = (double_owner){.b = &b[i]};
        p->ops->own(p, &b[i], &o[i]);
        if (!kept) put(p, &b[i], 0, 1);
    }
    atomic_store(&dbl.dev.budget->limit, dbl.dev.budget->backed);
    assert_int_equal(get(p, ASKED * UNIT, 0, 0, &c), TIDE_OK);
    bool far = movers.blocks == 1;
    assert_true(far || movers.blocks == ASKED / 2);
    assert_in_range(movers.asked, ASKED / 2, ASKED); /* the others cannot save anything */
    for (unsigned i = 1; i < dense; i += 2) p->ops->free(p, &b[i]);
    p->ops->free(p, &b[dense + SPARSE / 2]);
    put(p, &c, 0, 11);
    close_clean(p);
    return far;
}

/* To look for what is cheaper to move costs time too. */
static void looking_for_a_cheaper_move_ends(void **state) {
    (void)state;
    assert_true(looked_on(DENSE_MOST / 4));
    assert_false(looked_on(DENSE_MOST));
}

static void on_one_stream(tidei_stream *s, const tidei_stamp *pending, unsigned npending,
                          const tidei_move *m, const tidei_piece *at, uint64_t tick) {
    (void)m, (void)at, (void)tick;
    for (unsigned i = 0; i < npending; i++) assert_int_equal(pending[i].stream, s->slot);
}

/* Where streams are not to wait for each other blocks do not move over what others' work is pending
** on: five pages lie between. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_what_is_in_the_way),
        cmocka_unit_test(blocks_move_where_the_limit_leaves_no_growth),
        cmocka_unit_test(moves_in_place_of_growth_are_bounded),
        cmocka_unit_test(by_little_is_the_last_resort),
        cmocka_unit_test(pins_stay),
        cmocka_unit_test(a_choice_that_is_over_is_made_again),
        cmocka_unit_test(blocks_are_asked_where_some_stay),
        cmocka_unit_test(a_claim_that_fails_on_its_way_leaves_nothing),
        cmocka_unit_test(equal_pieces_are_filled_from_below),
        cmocka_unit_test(looking_for_a_cheaper_move_ends),
        cmocka_unit_test(no_moves_beyond_reach),
        cmocka_unit_test(a_move_that_fails_loses_nothing),
    };
    return cmocka_run_group_tests_name("pool_tide_moves", tests, NULL, NULL);
}
