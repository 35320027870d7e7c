/* test_size_index.c: what a pool's index of free pieces finds, against a list that is searched from
** end to end; and the lock. */
#include "tests/support/tidetest.h"
#include "runtime/pool/lock.h"
#include "runtime/pool/size_index.h"

#define GRANULE_LOG2 8
#define EXTENTS      400
#define STEPS        20000

static uint32_t dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* ---- the model ---- */

typedef struct model {
    tidei_size_index size_index;
    tidei_extent all[EXTENTS]; /* FREE: in the size index */
} model;

static bool in_size_index(const tidei_extent *x) { return tidei_extent_is(x) == TIDEI_EXTENT_FREE; }

/* The first that does not come before (size, off). */
static tidei_extent *searched(model *m, size_t size, size_t off) {
    tidei_extent *best = NULL;
    for (unsigned i = 0; i < EXTENTS; i++) {
        tidei_extent *x = &m->all[i];
        if (!in_size_index(x) || tidei_extent_before(x, size, off)) continue;
        if (!best || tidei_extent_before(x, best->size, best->off)) best = x;
    }
    return best;
}

static void check(model *m) {
    size_t count = 0, on = 0;
    for (unsigned i = 0; i < EXTENTS; i++) on += in_size_index(&m->all[i]);
    assert_true(tidei_size_index_valid(&m->size_index, &count));
    assert_int_equal(count, on);
}

/* Few sizes meet in a bin and few addresses are alike; `spread` of them are large ones. */
static size_t some_size(uint64_t *seed, unsigned spread) {
    size_t granules =
        dice(seed) % 100 < spread ? 1 + dice(seed) % (1 << dice(seed) % 30) : 1 + dice(seed) % 6;
    return granules << GRANULE_LOG2;
}
static size_t some_off(uint64_t *seed) { return (size_t)dice(seed) << GRANULE_LOG2; }

static model *model_new(uint64_t *seed) {
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->size_index.shift = GRANULE_LOG2;
    for (unsigned i = 0; i < EXTENTS; i++) m->all[i].rank = (uint16_t)dice(seed);
    return m;
}

static void put(model *m, tidei_extent *x, uint64_t *seed, unsigned spread) {
    x->size = some_size(seed, spread);
    x->off = some_off(seed);
    tidei_extent_be(x, TIDEI_EXTENT_FREE);
    tidei_size_index_put(&m->size_index, x);
}
static void take(model *m, tidei_extent *x) {
    tidei_size_index_take(&m->size_index, x);
    tidei_extent_be(x, TIDEI_EXTENT_LIVE);
}

static void step(model *m, uint64_t *seed, unsigned spread) {
    tidei_extent *x = &m->all[dice(seed) % EXTENTS];
    size_t size = some_size(seed, spread);
    switch (dice(seed) % 8) {
    case 0:
        assert_ptr_equal(tidei_size_index_fit(&m->size_index, size), searched(m, size, 0));
        break;
    case 1:
        if (in_size_index(x))
            assert_ptr_equal(tidei_size_index_next(&m->size_index, x),
                             searched(m, x->size, x->off + 1));
        break;
    case 2:
        if (in_size_index(x)) tidei_size_index_reshape(&m->size_index, x, some_off(seed), size);
        break;
    case 3: /* as a piece that is taken from both ends and stays in its bin */
        if (in_size_index(x)) tidei_size_index_reshape(&m->size_index, x, some_off(seed), x->size);
        break;
    default:
        if (in_size_index(x))
            take(m, x);
        else
            put(m, x, seed, spread);
    }
}

static void finds_what_a_search_finds(void **state) {
    (void)state;
    for (unsigned spread = 0; spread <= 100; spread += 50) {
        uint64_t seed = spread + 1;
        model *m = model_new(&seed);
        for (unsigned i = 0; i < STEPS; i++) {
            step(m, &seed, spread);
            if (i % 64 == 0) check(m);
        }
        free(m);
    }
}

static void the_order_is_complete(void **state) {
    (void)state;
    uint64_t seed = 7;
    model *m = model_new(&seed);
    for (unsigned i = 0; i < EXTENTS; i++) put(m, &m->all[i], &seed, 50);
    tidei_extent *x = tidei_size_index_fit(&m->size_index, 1), *last = NULL;
    unsigned n = 0;
    for (; x; x = tidei_size_index_next(&m->size_index, x), n++) {
        assert_true(!last || tidei_extent_before(last, x->size, x->off));
        last = x;
    }
    assert_int_equal(n, EXTENTS);
    assert_ptr_equal(tidei_size_index_largest(&m->size_index), last);
    for (unsigned i = 0; i < EXTENTS; i++) take(m, &m->all[i]);
    check(m);
    assert_int_equal(m->size_index.bytes, 0);
    assert_null(tidei_size_index_fit(&m->size_index, 1));
    assert_null(tidei_size_index_largest(&m->size_index));
    free(m);
}

/* Which piece a request gets does not depend on the order in which pieces came, nor on who looked
** in between. */
static void the_order_of_coming_does_not_matter(void **state) {
    (void)state;
    uint64_t seed = 9;
    model *a = model_new(&seed), *b = model_new(&seed);
    for (unsigned i = 0; i < EXTENTS; i++) put(a, &a->all[i], &seed, 10);
    for (unsigned i = EXTENTS; i-- > 0;) {
        b->all[i].size = a->all[i].size;
        b->all[i].off = a->all[i].off;
        tidei_extent_be(&b->all[i], TIDEI_EXTENT_FREE);
        tidei_size_index_put(&b->size_index, &b->all[i]);
        if (i % 3 == 0) (void)tidei_size_index_fit(&b->size_index, b->all[i].size);
    }
    for (unsigned i = 0; i < EXTENTS; i++) {
        size_t size = some_size(&seed, 10);
        tidei_extent *x = tidei_size_index_fit(&a->size_index, size),
                     *y = tidei_size_index_fit(&b->size_index, size);
        assert_int_equal(x ? x - a->all : -1, y ? y - b->all : -1);
        if (x) take(a, x), take(b, y);
    }
    free(a);
    free(b);
}

/* Each once, wherever it lay; what is put back is found again. */
static void all_come_out(void **state) {
    (void)state;
    uint64_t seed = 11;
    model *m = model_new(&seed);
    for (unsigned i = 0; i < EXTENTS; i++) {
        put(m, &m->all[i], &seed, 50);
        if (i % 3 == 0) (void)tidei_size_index_fit(&m->size_index, m->all[i].size);
    }
    unsigned n = 0;
    for (tidei_extent *x = tidei_size_index_take_all(&m->size_index), *next; x; x = next) {
        next = x->right;
        assert_true(in_size_index(x) && !x->loose);
        tidei_extent_be(x, TIDEI_EXTENT_LIVE);
        n++;
    }
    assert_int_equal(n, EXTENTS);
    check(m);
    assert_int_equal(m->size_index.bytes, 0);
    assert_null(tidei_size_index_take_all(&m->size_index));
    for (unsigned i = 0; i < EXTENTS; i += 2) put(m, &m->all[i], &seed, 50);
    check(m);
    assert_ptr_equal(tidei_size_index_fit(&m->size_index, 1), searched(m, 1, 0));
    free(m);
}

/* ---- the lock ---- */

#define THREADS 6
#define TURNS   20000

static struct guarded {
    tidei_lock lock;
    uint64_t count; /* not atomic */
} guarded;

static void *count_up(void *arg) {
    for (unsigned i = 0; i < TURNS; i++) {
        tidei_lock_take(&guarded.lock);
        guarded.count++;
        if (arg && i % 1000 == 0) sched_yield(); /* so that the others fall asleep */
        tidei_lock_give(&guarded.lock);
    }
    return NULL;
}

static void the_lock_lets_one_in(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (unsigned held_long = 0; held_long < 2; held_long++) {
        guarded.count = 0;
        for (unsigned i = 0; i < THREADS; i++)
            assert_int_equal(
                pthread_create(&threads[i], NULL, count_up, held_long ? &guarded : NULL), 0);
        for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        assert_int_equal(guarded.count, (uint64_t)THREADS * TURNS);
    }
    assert_true(tidei_lock_try(&guarded.lock));
    assert_false(tidei_lock_try(&guarded.lock));
    tidei_lock_give(&guarded.lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_search_finds),
        cmocka_unit_test(the_order_is_complete),
        cmocka_unit_test(the_order_of_coming_does_not_matter),
        cmocka_unit_test(all_come_out),
        cmocka_unit_test(the_lock_lets_one_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
