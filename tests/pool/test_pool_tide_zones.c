/* test_pool_tide_zones.c: the zones of the pool `tide`, over doubles: when a thread gets one of its
** own, that a free waits for nobody, and that zones keep no memory from each other. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "tests/pool/pool_failures.h"
#include "runtime/pool/tide/tide.h"
#include <sched.h>

#define KIB  TIDEI_KIB
#define MIB  TIDEI_MIB
#define PAGE (64 * KIB)

static tidei_heap *heap(tidei_pool *p) { return (tidei_heap *)p; }

static tidei_cache *cache(tidei_pool *p) {
    tidei_cache *c = tidei_heap_cache_of(heap(p), tidei_thread_number);
    assert_non_null(c);
    return c;
}

static unsigned zone_of(const tidei_block *b) { return tidei_zone_number(b->priv); }

/* Without caches, so that each block comes from a zone; the thread has its (empty) cache. */
static tidei_pool *open_uncached(size_t total) {
    tidei_pool *p = open_pool(&tidei_pool_tide, PAGE, total);
    keep_caches(p, false);
    tidei_block b = must(p, 1, 0);
    put(p, &b, 0, 0);
    return p;
}

static void depart(tidei_pool *p) { assert_true(tidei_zone_depart(heap(p), cache(p))); }

/* So that the thread works in the first zone again. */
static void return_home(tidei_pool *p) { tidei_zone_move_in(cache(p), &heap(p)->zone); }

static void a_pool_has_one_zone_until_threads_part(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    tidei_block a = must(p, 10 * KIB, 0);
    assert_int_equal(tidei_zones(heap(p)), 1);
    depart(p);
    assert_int_equal(tidei_zones(heap(p)), 2);
    assert_int_equal(cache(p)->zone->number, 1);
    depart(p); /* nobody is in the first one any more */
    assert_int_equal(tidei_zones(heap(p)), 2);
    assert_int_equal(cache(p)->zone->number, 0);
    put(p, &a, 0, 0);
    close_clean(p);
}

/* ---- memory goes to whoever wants it ---- */

static void what_one_zone_has_free_serves_all(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    tidei_block a = must(p, 4 * PAGE, 0), wall = must(p, 1, 0), b;
    put(p, &a, 0, 0);
    depart(p);
    size_t backed = figures(p).backed;
    a = must(p, 3 * PAGE, 0);
    b = must(p, PAGE / 2, 0);
    assert_int_equal(zone_of(&a), 0);
    assert_int_equal(figures(p).backed, backed);
    put(p, &a, 0, 0);
    put(p, &b, 0, 0);
    put(p, &wall, 0, 0);
    close_clean(p);
}

static void growth_belongs_to_who_asked(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    tidei_block a = must(p, PAGE, 0), b, c;
    depart(p);
    b = must(p, PAGE, 0);
    assert_int_equal(zone_of(&a), 0);
    assert_int_equal(zone_of(&b), 1);
    return_home(p);
    c = must(p, PAGE, 0);
    assert_int_equal(zone_of(&c), 0);
    assert_true(balanced(p));
    put(p, &a, 0, 0);
    put(p, &b, 0, 0);
    put(p, &c, 0, 0);
    p->ops->trim(p, 0);
    assert_int_equal(figures(p).backed, 0);
    assert_null(heap(p)->borders);
    close_clean(p);
}

/* Free pieces at both sides of a border make one request. */
static void borders_keep_nothing_apart(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    tidei_block a = must(p, PAGE, 0), b, c;
    depart(p);
    b = must(p, PAGE, 0);
    assert_true(a.addr + PAGE == b.addr);
    assert_non_null(heap(p)->borders);
    put(p, &a, 0, 0);
    put(p, &b, 0, 0);
    size_t backed = figures(p).backed;
    c = must(p, 2 * PAGE, 0);
    assert_true(c.addr == a.addr);
    assert_int_equal(figures(p).backed, backed);
    put(p, &c, 0, 0);
    close_clean(p);
}

/* With several streams' work pending on what is left and right, as within a zone. */
static void borders_keep_apart_what_streams_do(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    tidei_block a = must(p, PAGE, 0), b, c;
    depart(p);
    b = must(p, PAGE, 1);
    put(p, &a, 0, 1);
    put(p, &b, 1, 1);
    c = must(p, 2 * PAGE, 0);
    assert_true(c.addr != a.addr);
    put(p, &c, 0, 0);
    close_clean(p);
}

/* A thread that always has to take from another zone gets memory of its own. */
static void a_zone_that_is_short_gets_memory_of_others(void **state) {
    (void)state;
    enum { TAKEN = 64 };
    tidei_block a, wall, taken[TAKEN];
    unsigned mine = 0;
    tidei_pool *p = open_uncached(64 * MIB);
    a = must(p, 64 * PAGE, 0);
    wall = must(p, 1, 0);
    put(p, &a, 0, 0);
    depart(p);
    size_t backed = figures(p).backed;
    for (unsigned i = 0; i < TAKEN; i++) {
        taken[i] = must(p, KIB, 0);
        mine += zone_of(&taken[i]) == 1;
    }
    assert_true(zone_of(&taken[0]) == 0 && zone_of(&taken[TAKEN - 1]) == 1);
    assert_true(mine > 0 && heap(p)->borders);
    assert_true(balanced(p));
    assert_int_equal(figures(p).backed, backed);
    for (unsigned i = 0; i < TAKEN; i++) put(p, &taken[i], 0, 0);
    a = must(p, 64 * PAGE, 0); /* and what it got is no less everybody's */
    assert_int_equal(figures(p).backed, backed);
    put(p, &a, 0, 0);
    put(p, &wall, 0, 0);
    close_clean(p);
}

/* One thread works in four zones in turn, and each gets memory of the others. */
static void borders_come_and_go(void **state) {
    (void)state;
    enum { ZONES = 4, BLOCKS = 96, STEPS = 6000, STAY = 48 };
    tidei_pool *p = open_uncached(64 * MIB);
    tidei_block b[BLOCKS] = {{0}};
    tidei_zone *zones[ZONES] = {&heap(p)->zone};
    uint64_t seed = 7;
    for (unsigned i = 1; i < ZONES; i++) {
        depart(p);
        zones[i] = cache(p)->zone;
        atomic_fetch_add(&zones[i]->tenants, 1);
        atomic_fetch_add(&zones[0]->tenants, i == 1);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        if (i % STAY == 0) tidei_zone_move_in(cache(p), zones[dice(&seed) % ZONES]);
        /* little lives at times, so that large pieces come */
        tidei_block *x = &b[dice(&seed) % (i / 512 % 2 ? BLOCKS : 8)];
        if (x->priv) put(p, x, 0, 0);
        x->priv = NULL;
        if (dice(&seed) % 4) *x = must(p, KIB << dice(&seed) % 9, i / 1024 % 2);
        if (dice(&seed) % 8 == 0) {
            cache(p)->elsewhere = cache(p)->elsewhere_most;
            tidei_zone_was_short(heap(p), cache(p), (uint16_t)(i / 1024 % 2));
        }
        if (i % 4 == 0) assert_true(p->ops->valid(p));
    }
    assert_non_null(heap(p)->borders);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (b[i].priv) put(p, &b[i], 0, 0);
    p->ops->trim(p, 0);
    assert_int_equal(figures(p).backed, 0);
    assert_null(heap(p)->borders);
    close_clean(p);
}

/* A large request takes the piece that fits, wherever that is, and leaves large ones whole. */
static void large_requests_look_into_all_zones(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(64 * MIB);
    tidei_block a = must(p, 2 * PAGE, 0), wall = must(p, PAGE, 0), b, c;
    put(p, &a, 0, 0);
    depart(p);
    b = must(p, 6 * PAGE, 0);
    put(p, &b, 0, 0);
    c = must(p, 2 * PAGE, 0);
    assert_true(c.addr == a.addr);
    put(p, &c, 0, 0);
    put(p, &wall, 0, 0);
    close_clean(p);
}

/* ---- where locks are held ---- */

/* Frees 16 blocks while the lock of their zone is held, with another thread in that zone. */
static void free_while_held(tidei_pool *p) {
    tidei_block b[16];
    depart(p); /* so that there is a second zone: making one takes all locks */
    return_home(p);
    for (unsigned i = 0; i < TIDEI_COUNT(b); i++) b[i] = must(p, KIB << i % 4, 0);
    atomic_fetch_add(&heap(p)->zone.tenants, 1);
    tidei_lock_take(&heap(p)->zone.lock);
    for (unsigned i = 0; i < TIDEI_COUNT(b); i++) put(p, &b[i], 0, 0);
    tidei_lock_give(&heap(p)->zone.lock);
}

/* Each goes on, and after some such meetings the thread leaves the zone. What was freed is there
** for whoever comes next. */
static void a_free_waits_for_nobody(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    free_while_held(p);
    assert_int_equal(cache(p)->zone->number, 1);
    assert_non_null(atomic_load(&heap(p)->zone.freed));
    tidei_block all = must(p, figures(p).backed, 0);
    assert_null(atomic_load(&heap(p)->zone.freed));
    assert_int_equal(figures(p).live, figures(p).backed);
    put(p, &all, 0, 0);
    close_clean(p);
}

/* With so many blocks alive that at one time or another the zone has just put all its free
** descriptors aside when it needs one. */
static void freeing_what_was_left_keeps_a_descriptor(void **state) {
    (void)state;
    enum { LEFT = PAGE / KIB + 1 };
    static tidei_block alive[TIDEI_SLAB_EXTENTS + 1], left[LEFT];
    for (unsigned n = 0; n < TIDEI_COUNT(alive); n++) {
        tidei_pool *p = open_uncached(16 * MIB);
        depart(p); /* so that there is a second zone */
        return_home(p);
        for (unsigned i = 0; i < n; i++) alive[i] = must(p, KIB, 0);
        for (unsigned i = 0; i < LEFT; i++) left[i] = must(p, KIB, 0);
        tidei_lock_take(&heap(p)->zone.lock);
        for (unsigned i = 0; i < LEFT; i++) put(p, &left[i], 0, 0);
        tidei_lock_give(&heap(p)->zone.lock);
        left[0] = must(p, LEFT * KIB - KIB / 2, 0);
        assert_true(balanced(p));
        put(p, &left[0], 0, 0);
        for (unsigned i = 0; i < n; i++) put(p, &alive[i], 0, 0);
        close_clean(p);
    }
}

static void a_deterministic_pool_stays_one_zone(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    atomic_store(&p->attrs.deterministic, true);
    free_while_held(p);
    assert_int_equal(cache(p)->zone->number, 0);
    close_clean(p);
}

static struct other {
    tidei_pool *p;
    pthread_barrier_t ready;
    tidei_block b;
} other;

static void *take_one(void *arg) {
    struct other *o = arg;
    o->b = must(o->p, 1, 0); /* it has its cache now */
    put(o->p, &o->b, 0, 0);
    pthread_barrier_wait(&o->ready);
    o->b = must(o->p, PAGE, 0);
    return NULL;
}

/* Whether the other thread comes while the lock is held or later. */
static void nothing_grows_while_a_zone_is_held(void **state) {
    (void)state;
    pthread_t thread;
    other.p = open_uncached(16 * MIB);
    tidei_block a = must(other.p, PAGE / 2, 0), b;
    depart(other.p);
    b = must(other.p, PAGE, 0);
    put(other.p, &b, 0, 0);
    size_t backed = figures(other.p).backed;
    pthread_barrier_init(&other.ready, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, take_one, &other), 0);
    pthread_barrier_wait(&other.ready);
    tidei_lock_take(&cache(other.p)->zone->lock);
    for (unsigned i = 0; i < 1000; i++) sched_yield();
    tidei_lock_give(&cache(other.p)->zone->lock);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&other.ready);
    assert_int_equal(zone_of(&other.b), 1);
    assert_int_equal(figures(other.p).backed, backed);
    put(other.p, &a, 0, 0);
    put(other.p, &other.b, 0, 0);
    close_clean(other.p);
}

/* Of all held zones a request waits for the one that has a piece: it comes to an end while another
** zone's lock is held all the time. */
static void a_request_waits_for_one_zone(void **state) {
    (void)state;
    pthread_t thread;
    other.p = open_uncached(16 * MIB);
    tidei_block a = must(other.p, PAGE / 2, 0), b;
    depart(other.p);
    b = must(other.p, PAGE, 0);
    put(other.p, &b, 0, 0);
    tidei_zone *has_piece = cache(other.p)->zone, *first = &heap(other.p)->zone;
    atomic_fetch_add(&first->tenants, 1); /* it is not vacant */
    depart(other.p);
    tidei_zone *has_none = cache(other.p)->zone;
    assert_int_equal(tidei_zones(heap(other.p)), 3);
    atomic_fetch_sub(&first->tenants, 1);
    pthread_barrier_init(&other.ready, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, take_one, &other), 0);
    pthread_barrier_wait(&other.ready);
    tidei_lock_take(&has_none->lock);
    tidei_lock_take(&has_piece->lock);
    for (unsigned i = 0; i < 1000; i++) sched_yield();
    tidei_lock_give(&has_piece->lock);
    pthread_join(thread, NULL);
    tidei_lock_give(&has_none->lock);
    pthread_barrier_destroy(&other.ready);
    assert_int_equal(zone_of(&other.b), has_piece->number);
    put(other.p, &a, 0, 0);
    put(other.p, &other.b, 0, 0);
    close_clean(other.p);
}

static void *take_one_later(void *arg) {
    struct other *o = arg;
    o->b = must(o->p, 1, 0);
    put(o->p, &o->b, 0, 0);
    pthread_barrier_wait(&o->ready);
    pthread_barrier_wait(&o->ready);
    o->b = must(o->p, PAGE, 0);
    return NULL;
}

/* What another thread's cache holds serves a request while a zone's lock is held all the time. */
static void caches_are_emptied_zone_by_zone(void **state) {
    (void)state;
    pthread_t thread;
    other.p = open_pool(&tidei_pool_tide, PAGE, 16 * MIB);
    tidei_block a = must(other.p, PAGE, 0);
    tidei_zone *first = cache(other.p)->zone;
    atomic_fetch_add(&first->tenants, 1);
    depart(other.p);
    tidei_zone *has_none = cache(other.p)->zone;
    return_home(other.p);
    atomic_fetch_sub(&first->tenants, 1);
    pthread_barrier_init(&other.ready, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, take_one_later, &other), 0);
    pthread_barrier_wait(&other.ready);
    put(other.p, &a, 0, 0);
    assert_int_equal(tidei_extent_is(a.priv), TIDEI_EXTENT_CACHED);
    size_t backed = heap(other.p)->backed;
    tidei_lock_take(&has_none->lock);
    pthread_barrier_wait(&other.ready);
    pthread_join(thread, NULL);
    tidei_lock_give(&has_none->lock);
    pthread_barrier_destroy(&other.ready);
    assert_int_equal(heap(other.p)->backed, backed);
    put(other.p, &other.b, 0, 0);
    close_clean(other.p);
}

/* ---- threads that grow ---- */

static struct {
    pthread_barrier_t begun, may_end;
    _Atomic bool first;
} growth;

static void hold_first_growth(size_t bytes) {
    (void)bytes;
    if (!atomic_exchange(&growth.first, false)) return;
    pthread_barrier_wait(&growth.begun);
    pthread_barrier_wait(&growth.may_end);
}

static void *grow_first(void *arg) {
    tidei_block *b = arg;
    *b = must(other.p, KIB, 0);
    return NULL;
}

/* A thread that finds no memory while another one gets some waits for that, but not for ever: the
** other may need something that this thread holds. */
static void a_growth_that_does_not_end_holds_nobody_up(void **state) {
    (void)state;
    pthread_t thread;
    tidei_block a, b;
    other.p = open_pool(&tidei_pool_tide, PAGE, 16 * MIB);
    pthread_barrier_init(&growth.begun, NULL, 2);
    pthread_barrier_init(&growth.may_end, NULL, 2);
    atomic_store(&growth.first, true);
    dbl.on_back = hold_first_growth;
    assert_int_equal(pthread_create(&thread, NULL, grow_first, &a), 0);
    pthread_barrier_wait(&growth.begun);
    b = must(other.p, KIB, 0);
    pthread_barrier_wait(&growth.may_end);
    pthread_join(thread, NULL);
    dbl.on_back = NULL;
    pthread_barrier_destroy(&growth.begun);
    pthread_barrier_destroy(&growth.may_end);
    assert_int_equal(heap(other.p)->growing, 0);
    assert_int_equal(heap(other.p)->awaiting, 0);
    assert_true(balanced(other.p));
    put(other.p, &a, 0, 0);
    put(other.p, &b, 0, 0);
    close_clean(other.p);
}

/* ---- what moves ---- */

/* Blocks between free pieces of several zones are moved, or their pages mapped elsewhere, for a
** request of all that is free. */
static void for_what_moves_all_is_one_zone(void **state) {
    (void)state;
    enum { BLOCKS = 24 };
    static tidei_block b[BLOCKS];
    static double_owner owners[BLOCKS];
    tidei_pool *p = open_uncached(64 * MIB);
    tidei_block large;
    p->mover = &double_mover;
    movers.tick = 0;
    movers.on_move = NULL;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % 4 == 0) depart(p);
        b[i] = must(p, PAGE / 2, 0);
        owners[i] = (double_owner){.b = &b[i]};
        p->ops->own(p, &b[i], &owners[i]);
    }
    assert_non_null(heap(p)->borders);
    for (unsigned i = 0; i < BLOCKS; i += 2) put(p, &b[i], 0, 0);
    atomic_store(&dbl.dev.budget->limit, figures(p).backed);
    size_t free = figures(p).cached;
    assert_int_equal(
        get(p, free, 0, TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED | TIDEI_ALLOC_STEAL, &large),
        TIDE_OK);
    assert_null(heap(p)->borders);
    assert_int_equal(heap(p)->wholes, 0);
    assert_true(balanced(p));
    put(p, &large, 0, 0);
    for (unsigned i = 1; i < BLOCKS; i += 2) p->ops->free(p, &b[i]);
    close_clean(p);
}

/* Pieces of half a page each stay free between blocks that may not move, in two zones. */
static void a_request_in_vain_leaves_zones_as_they_are(void **state) {
    (void)state;
    enum { BLOCKS = 24 };
    tidei_block b[BLOCKS], large;
    tidei_pool *p = open_uncached(64 * MIB);
    p->mover = &double_mover;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i == BLOCKS / 2) depart(p);
        b[i] = must(p, PAGE / 2, 0);
    }
    for (unsigned i = 0; i < BLOCKS; i += 2) put(p, &b[i], 0, 0);
    large = must(p, PAGE, 0);
    assert_non_null(heap(p)->borders);
    assert_int_equal(zone_of(&b[1]), 0);
    assert_int_equal(zone_of(&b[BLOCKS - 1]), 1);
    put(p, &large, 0, 0);
    for (unsigned i = 1; i < BLOCKS; i += 2) put(p, &b[i], 0, 0);
    close_clean(p);
}

/* ---- failures ---- */

static tidei_pool *open_parted(unsigned k) {
    tidei_pool *p = open_pool(&tidei_pool_tide, 16 * KIB, 16 * MIB);
    keep_caches(p, k % 2);
    tidei_block a = must(p, 3 * 16 * KIB, 0), b;
    depart(p);
    b = must(p, 2 * 16 * KIB, 0);
    put(p, &a, 0, 0);
    put(p, &b, 0, 0);
    if (k / 2 % 2) return_home(p);
    return p;
}

static void every_failure_leaves_order(void **state) {
    (void)state;
    static const struct failure failures[] = {{CALL_HOST, TIDE_E_HOST_NOMEM},
                                              {CALL_BACK, TIDE_E_NOMEM},
                                              {CALL_PAGE_NEW, TIDE_E_DEVICE},
                                              {CALL_MAP, TIDE_E_DEVICE},
                                              {CALL_UNMAP, TIDE_E_DEVICE}};
    for (unsigned i = 0; i < TIDEI_COUNT(failures); i++)
        for (unsigned k = 0; k < 4; k++)
            each_failure_leaves_order(&failures[i], open_parted, k, 30, KIB);
}

/* A thread that cannot get a zone stays where it is. */
static void without_host_memory_threads_stay(void **state) {
    (void)state;
    tidei_pool *p = open_uncached(16 * MIB);
    dbl.fail_after[CALL_HOST] = 0;
    assert_false(tidei_zone_depart(heap(p), cache(p)));
    dbl.fail_after[CALL_HOST] = -1;
    for (unsigned i = 0; i < TIDEI_ZONES_MAX + 3; i++) {
        bool there = tidei_zone_depart(heap(p), cache(p));
        assert_true(there);
        atomic_fetch_add(&cache(p)->zone->tenants, 1); /* others stay there */
        if (tidei_zones(heap(p)) == TIDEI_ZONES_MAX) break;
    }
    assert_int_equal(tidei_zones(heap(p)), TIDEI_ZONES_MAX);
    atomic_fetch_add(&heap(p)->zone.tenants, 1);
    assert_false(tidei_zone_depart(heap(p), cache(p)));
    tidei_block b = must(p, KIB, 0);
    put(p, &b, 0, 0);
    close_clean(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_has_one_zone_until_threads_part),
        cmocka_unit_test(what_one_zone_has_free_serves_all),
        cmocka_unit_test(growth_belongs_to_who_asked),
        cmocka_unit_test(borders_keep_nothing_apart),
        cmocka_unit_test(borders_keep_apart_what_streams_do),
        cmocka_unit_test(a_zone_that_is_short_gets_memory_of_others),
        cmocka_unit_test(borders_come_and_go),
        cmocka_unit_test(large_requests_look_into_all_zones),
        cmocka_unit_test(a_free_waits_for_nobody),
        cmocka_unit_test(freeing_what_was_left_keeps_a_descriptor),
        cmocka_unit_test(a_deterministic_pool_stays_one_zone),
        cmocka_unit_test(nothing_grows_while_a_zone_is_held),
        cmocka_unit_test(a_request_waits_for_one_zone),
        cmocka_unit_test(caches_are_emptied_zone_by_zone),
        cmocka_unit_test(a_growth_that_does_not_end_holds_nobody_up),
        cmocka_unit_test(for_what_moves_all_is_one_zone),
        cmocka_unit_test(a_request_in_vain_leaves_zones_as_they_are),
        cmocka_unit_test(every_failure_leaves_order),
        cmocka_unit_test(without_host_memory_threads_stay),
    };
    return cmocka_run_group_tests_name("pool_tide_zones", tests, NULL, NULL);
}
