/* test_handles_room.c: memory outside the pools is served by moving blocks, over a library that
** only takes memory.
**
** What a library's handle, a loaded kernel or a lower limit wants is whole pages; near the limit
** what is free lies in parts of pages, beside blocks, which have to move. What must stay true:
** where all that lives, what is wanted and two pages to spare fit (and the pages of pinned blocks,
** which stay), it is served; and no block is lost or changed, whatever fails on the way. The cache
** of handles itself: test_handles.c. */
#include "arrays/kernels/kernels.h"
#include "runtime/pool/pools.h"
#include "tests/doubles/failing_host.h"
#include "tests/doubles/fake_library.h"

#define MEMORY (16 * TIDEI_MIB)

/* ---- blocks, of which some go ---- */

enum { BLOCKS = 42, GONE = 16, SPARE = 2 }; /* SPARE: pages beside what lives and the handle */
#define BLOCK (24 * TIDEI_KIB)
_Static_assert((BLOCKS - GONE) * BLOCK + TAKES + SPARE * PAGE <= TIDEI_MIB,
               "a limit of 1 MiB forces nothing");
static tide_array *blocks[BLOCKS];

static void fill_block(unsigned char *at, int i) {
    for (size_t k = 0; k < BLOCK; k++) at[k] = (unsigned char)(k * 7 + (size_t)i);
}
/* Blocks from one number to another; then so many of all go, here and there. */
static void fill(int to, int from) {
    unsigned char bytes[BLOCK];
    for (int i = from; i < to; i++) {
        fill_block(bytes, i);
        assert_array(blocks[i] = tide_from_host(fake.rt->ref, TIDE_U8, SHAPE(BLOCK), bytes));
    }
}
static void thin_out(int n, int gone) {
    assert_ok(tide_device_synchronize(fake.rt->ref));
    for (int i = 0; i < n; i++)
        if (i * gone / n != (i + 1) * gone / n) tide_release(blocks[i]), blocks[i] = NULL;
    assert_int_equal(test_stats(fake.rt->ref).live, (size_t)(n - gone) * BLOCK);
}
static void scatter(int n, int gone) {
    fill(n, 0);
    thin_out(n, gone);
}
static void assert_blocks(void) {
    unsigned char bytes[BLOCK], expected[BLOCK];
    for (int i = 0; i < BLOCKS; i++) {
        if (!blocks[i]) continue;
        fill_block(expected, i);
        assert_ok(tide_to_host(blocks[i], bytes, BLOCK));
        assert_memory_equal(bytes, expected, BLOCK);
    }
    assert_true(tidei_runtime_valid(fake.rt));
}
static void gather_up(void) {
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i]) tide_release(blocks[i]), blocks[i] = NULL;
}

/* ---- room is made ---- */

static void a_handle_is_made_of_parts_of_pages(void **state) {
    teardown(state);
    open_with("1MiB");
    scatter(BLOCKS, GONE);
    assert_ok(call());
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_int_equal(fake.made, 1);
    assert_int_equal(library(), TAKES);
    assert_int_equal(test_stats(fake.rt->ref).climbs, 1);
    tidei_pool_stats ps;
    tidei_pools_stats(&fake.rt->devs[0], &ps);
    assert_true(ps.compactions > 0);
    assert_true(atomic_load(&fake.rt->devs[0].budget->backed) <= TIDEI_MIB - TAKES);
    assert_blocks();
    gather_up();
}

/* What the library really takes is known once the first one was made, and was one too many: then as
** much is made room for. What the climb before it failed of is no error of the call's, and an
** earlier one stands. */
static void room_is_made_for_what_a_handle_takes(void **state) {
    enum { LIVE = 21 };
    _Static_assert(LIVE * BLOCK + TAKES + 2 * PAGE + SPARE * PAGE <= TIDEI_MIB,
                   "a limit of 1 MiB forces nothing");
    for (int earlier = 0; earlier < 2; earlier++) {
        teardown(state);
        open_with("1MiB");
        scatter(BLOCKS, BLOCKS - LIVE);
        fake.takes = TAKES + 2 * PAGE;
        if (earlier) (void)tidei_fail(TIDE_E_SHAPE, "tide_test", "an earlier one");
        assert_ok(call());
        if (earlier) assert_error(TIDE_E_SHAPE, "an earlier one");
        assert_int_equal(tide_error_last()->status, earlier ? TIDE_E_SHAPE : TIDE_OK);
        tide_error_clear();
        assert_int_equal(fake.made, 2);
        assert_int_equal(library(), TAKES + 2 * PAGE);
        assert_int_equal(test_stats(fake.rt->ref).climbs, 2);
        assert_blocks();
        gather_up();
    }
}

/* Neither is enough, what another handle leaves or what lies between blocks; together they are. */
static void what_is_dropped_counts_too(void **state) {
    teardown(state);
    open_with("1MiB");
    fake.takes = TAKES + 2 * PAGE;
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}));
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_DROP, NULL));
    fake.takes = TAKES;
    assert_ok(call());
    assert_ok(tide_reclaim(fake.rt->ref, TIDE_RECLAIM_PURGE, NULL)); /* the workspace */
    scatter(32, 8);
    fake.takes = TAKES + 2 * PAGE;
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}));
    assert_int_equal(library(), TAKES + 2 * PAGE);
    assert_int_equal(test_stats(fake.rt->ref).climbs, 1);
    assert_blocks();
    gather_up();
}

/* Each pool gives a part. */
static void several_pools_are_cleared(void **state) {
    tide_pool_config c = {.struct_size = sizeof c};
    tide_pool *own;
    teardown(state);
    open_with("1MiB");
    assert_ok(tide_pool_new(fake.rt->ref, &c, &own));
    fill(BLOCKS / 2, 0);
    assert_ok(tide_pool_set(fake.rt->ref, own));
    fill(BLOCKS, BLOCKS / 2);
    assert_ok(tide_pool_set(fake.rt->ref, NULL));
    thin_out(BLOCKS, GONE);
    assert_ok(call());
    assert_blocks();
    gather_up();
    tide_pool_release(test_user_pool(own)->ref);
}

/* A loaded kernel takes memory of the device's as well. */
static struct tidei_device_ops loading_ops;
static tide_status load_in_a_page(tidei_device *d, const tidei_kernel_text *text,
                                  tidei_dkernel **out, void **image, size_t *image_bytes) {
    (void)text, (void)image, (void)image_bytes;
    static tidei_addr at;
    *out = (tidei_dkernel *)(void *)&at;
    return d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, PAGE, &at);
}
static void unload(tidei_device *d, tidei_dkernel *k) {
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, *(tidei_addr *)(void *)k, PAGE);
}
static void a_kernel_is_loaded_where_blocks_were(void **state) {
    (void)state;
    size_t bytes;
    tidei_dkernel *k;
    loading_ops = *device()->ops;
    loading_ops.kernel_new = load_in_a_page;
    loading_ops.kernel_release = unload;
    device()->ops = &loading_ops;
    scatter(BLOCKS, GONE);
    tidei_addr full = fill_device(0, &bytes);
    assert_ok(tidei_kernel_get(&fake.rt->devs[0], "k", "text", "tide_test", &k));
    assert_int_equal(test_stats(fake.rt->ref).climbs, 1);
    assert_blocks();
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
    gather_up();
}

/* It is the device that is short, and no limit. */
static void so_it_is_where_the_device_is_short(void **state) {
    (void)state;
    size_t bytes;
    scatter(BLOCKS, GONE);
    tidei_addr full = fill_device(2 * PAGE, &bytes);
    assert_ok(call());
    assert_int_equal(fake.made, 1);
    assert_blocks();
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
    gather_up();
}

/* Nobody is to blame: the blocks must not move. */
static void pinned_blocks_leave_no_room(void **state) {
    tide_use uses[BLOCKS - GONE];
    void *at[BLOCKS - GONE];
    unsigned n = 0;
    tide_use_scope *scope;
    teardown(state);
    open_with("1MiB");
    scatter(BLOCKS, GONE);
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i]) uses[n++] = (tide_use){.array = blocks[i], .mode = TIDE_READ};
    assert_ok(tide_use_begin(fake.rt->ref, NULL, uses, n, at, &scope));
    size_t backed = atomic_load(&fake.rt->devs[0].budget->backed);
    assert_int_equal(call(), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_error(TIDE_E_NOMEM, "256.000 KiB wanted by tide_test");
    assert_error(TIDE_E_NOMEM, "(pinned 624.000 KiB)");
    assert_error(TIDE_E_NOMEM, "a libone handle takes 262144 bytes, more than the limit leaves");
    tide_error_clear();
    assert_int_equal(library(), 0);
    assert_true(atomic_load(&fake.rt->devs[0].budget->backed) <= backed);
    assert_ok(tide_use_end(scope));
    assert_blocks();
    assert_ok(call());
    assert_blocks();
    gather_up();
}

/* Pools that move nothing: whatever comes of it, nothing is lost. */
static void other_pools_keep_what_they_have(void **state) {
    for (unsigned k = 0; k < TEST_POOLS; k++) {
        teardown(state);
        open_pool(NULL, test_pool(k));
        scatter(BLOCKS, GONE);
        assert_ok(
            tide_device_set_limit(fake.rt->ref, atomic_load(&fake.rt->devs[0].budget->backed)));
        tide_status status = call();
        assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
        tide_error_clear();
        assert_blocks();
        gather_up();
    }
}

/* A large handle among blocks of all sizes, some of which are pinned. A pinned block is a small
** one, on two pages at most, on which nothing else may be counted on. */
enum { PINNED = 4, LARGEST = 8 * PAGE, MEMORY_PAGES = 128, LARGE_PAGES = 48 };
static size_t takes_up(const tidei_storage *st) { return tidei_round_up(st->bytes, 256); }
static void random_blocks(unsigned seed, tidei_storage **st, unsigned n, tidei_storage **pinned) {
    size_t most = (MEMORY_PAGES - LARGE_PAGES - 2 - 2 * PINNED) * PAGE, live = 0;
    uint32_t dice = seed * 2654435761u + 1;
    for (unsigned i = 0; i < n && live < (MEMORY_PAGES - 2) * PAGE - LARGEST; i++) {
        dice = dice * 1664525 + 1013904223;
        size_t bytes = ((size_t)1024 << (dice >> 8) % 10) * (4 + (dice >> 20) % 4) / 4;
        live += takes_up(st[i] = hold(tidei_min_size(bytes, LARGEST)));
    }
    for (unsigned k = 0; k < PINNED || live > most;) {
        dice = dice * 1664525 + 1013904223;
        tidei_storage **one = &st[(dice >> 8) % n];
        if (!*one || (k < PINNED && (*one)->bytes > PAGE)) continue;
        if (k < PINNED) {
            tidei_storage_pin(pinned[k++] = *one);
        } else {
            live -= takes_up(*one);
            tidei_storage_release(*one);
        }
        *one = NULL;
    }
}
static void pinned_blocks_cost_their_pages_alone(void **state) {
    enum { MANY_BLOCKS = 400 };
    unsigned failed = 0;
    for (unsigned seed = 0; seed < (test_quick() ? 30u : 200u); seed++) {
        tidei_storage *st[MANY_BLOCKS] = {NULL}, *pinned[PINNED];
        teardown(state);
        open_with("8MiB");
        fake.takes = LARGE_PAGES * PAGE;
        random_blocks(seed, st, MANY_BLOCKS, pinned);
        tide_status status = call_on(fake.rt->devs[0].stream0, &large_kind, &(step){0});
        failed += status != TIDE_OK;
        for (unsigned i = 0; i < PINNED; i++) {
            tidei_storage_unpin(pinned[i]);
            tidei_storage_release(pinned[i]);
        }
        for (unsigned i = 0; i < MANY_BLOCKS; i++)
            if (st[i]) tidei_storage_release(st[i]);
    }
    assert_int_equal(failed, 0);
}

/* Pages of four times the device's, which large requests got: a handle needs them whole as well. */
static void larger_pages_are_cleared_too(void **state) {
    enum { LARGE = 4 * PAGE, PIECE = 5 * PAGE / 2, PIECES = 64 * TIDEI_MIB / PIECE, LET_GO = 7 };
    static tidei_storage *pieces[PIECES];
    teardown(state);
    begin();
    fake.rt = test_open_rt(&(tide_config){.device = "host",
                                          .collector = "refcount",
                                          .pool = "tide",
                                          .limit = "64MiB",
                                          .host_device_memory = "64MiB"});
    _Static_assert(LET_GO * PIECE >= 2 * TAKES + 2 * LARGE, "it fits, with two pages to spare");
    fake.takes = 2 * TAKES;
    tidei_storage_release(hold(64 * TIDEI_MIB));
    for (int i = 0; i < PIECES; i++) pieces[i] = hold(PIECE);
    for (int i = 0; i < LET_GO; i++)
        tidei_storage_release(pieces[i * 40 + 1]), pieces[i * 40 + 1] = NULL;
    assert_ok(call());
    assert_int_equal(library(), 2 * TAKES);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i]) tidei_storage_release(pieces[i]);
}

/* ---- what fails on the way ---- */

enum way { MEMORY_ENDS, CALL_FAILS, HOST_FAILS, WAYS };

/* A runtime whose device and host memory can be made to fail. */
static tidei_device *open_faulty(void) {
    static const tide_allocator host = {.alloc = failing_alloc, .free = plain_free};
    const tide_config c = {.struct_size = sizeof c,
                           .collector = "refcount",
                           .limit = "1MiB",
                           .pool = "tide",
                           .allocator = &host};
    tidei_device *inner, *faulty;
    begin();
    assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = MEMORY}, &inner));
    assert_ok(tidei_fault_open(inner, &faulty));
    tide_runtime *rt;
    assert_ok(tidei_open_on(&c, faulty, &rt));
    fake.rt = test_rt(rt);
    return faulty;
}

/* A lower limit, for which room has to be made likewise; one that is refused is as it was. */
static tide_status lower(void) {
    size_t before = atomic_load(&fake.rt->devs[0].budget->limit),
           wanted = (BLOCKS - GONE) * BLOCK + SPARE * PAGE;
    tide_status status = tide_device_set_limit(fake.rt->ref, wanted);
    size_t limit = atomic_load(&fake.rt->devs[0].budget->limit);
    assert_int_equal(limit, status == TIDE_OK ? tidei_round_up(wanted, PAGE) : before);
    if (status == TIDE_OK) assert_true(atomic_load(&fake.rt->devs[0].budget->backed) <= limit);
    return status;
}

/* What room has to be made for, and of all that it asks the n-th fails; false: it does not ask so
** often. */
static bool fails_at(tide_status (*wants_room)(void), tidei_device *faulty, enum way way, long n) {
    uint64_t before = tidei_fault_calls(faulty, TIDEI_FAULT_ANY);
    host_calls = 0;
    if (way == HOST_FAILS)
        host_fails = n;
    else
        tidei_fault_set(faulty, TIDEI_FAULT_ANY, (uint64_t)n,
                        way == CALL_FAILS ? TIDE_E_DEVICE : TIDE_E_NOMEM, way == MEMORY_ENDS);
    tide_status status = wants_room();
    uint64_t calls = way == HOST_FAILS ? (uint64_t)host_calls
                                       : tidei_fault_calls(faulty, TIDEI_FAULT_ANY) - before;
    host_fails = 0;
    tidei_fault_set(faulty, TIDEI_FAULT_ANY, 0, TIDE_OK, false);
    assert_true(status == TIDE_OK || status == TIDE_E_NOMEM || status == TIDE_E_DEVICE ||
                status == TIDE_E_HOST_NOMEM);
    tide_error_clear();
    return calls >= (uint64_t)n;
}

/* Device calls that fail on the way, from the n-th on with a lack of memory or that one otherwise,
** and host allocations: nothing is lost, and what could not be had then can be had later. */
static void try_failures(void **state, tide_status (*wants_room)(void)) {
    for (enum way way = 0; way < WAYS; way++) {
        bool failed = true;
        for (long n = 1; failed; n++) {
            teardown(state);
            tidei_device *faulty = open_faulty();
            scatter(BLOCKS, GONE);
            failed = fails_at(wants_room, faulty, way, n);
            assert_blocks();
            assert_ok(wants_room());
            assert_blocks();
            gather_up();
            assert_true(n < 10000);
        }
    }
}
static void no_failure_on_the_way_loses_anything(void **state) { try_failures(state, call); }
static void nor_does_one_in_lowering_the_limit(void **state) { try_failures(state, lower); }

/* Where the moves themselves lose the device that is what is said, and not that memory is short. */
static void a_device_lost_on_the_way_is_said_to_be(void **state) {
    tide_status (*const wants_room[])(void) = {call, lower};
    for (unsigned i = 0; i < TIDEI_COUNT(wants_room); i++) {
        teardown(state);
        tidei_device *faulty = open_faulty();
        scatter(BLOCKS, GONE);
        tidei_fault_set(faulty, TIDEI_FAULT_COPY_MANY, 1, TIDE_E_LOST, true);
        assert_int_equal(wants_room[i](), TIDE_E_LOST);
        assert_int_equal(tide_error_last()->status, TIDE_E_LOST);
        assert_true(atomic_load(&device()->lost));
        assert_true(tidei_runtime_valid(fake.rt));
        tide_error_clear();
        gather_up();
    }
}

/* ---- all at once ---- */

/* Threads that make and drop arrays, each within its budget, while the handle comes and goes: with
** all budgets, the handle, its workspace and two pages no more than the limit, nothing fails. While
** the handle is gone budgets are larger, so that each time it comes back what is free lies between
** blocks. */
enum { MAKERS = 3, MAKES = 32 };
#define BUDGET (192 * TIDEI_KIB)
#define LARGER (BUDGET + TAKES / 4)

typedef struct maker {
    pthread_t thread;
    unsigned seed;
    atomic_bool *stop;
    _Atomic size_t budget, held;
    _Atomic unsigned steps;
    _Atomic tide_status status;
    tide_array *arrays[MAKES];
    size_t bytes[MAKES];
} maker;

static bool maker_drops(maker *x, unsigned at) {
    unsigned char back[LARGER / 4];
    if (!x->arrays[at]) return true;
    bool good = tide_to_host(x->arrays[at], back, x->bytes[at]) == TIDE_OK;
    for (size_t k = 0; good && k < x->bytes[at]; k++)
        good = back[k] == (unsigned char)(x->seed * MAKES + at);
    tide_release(x->arrays[at]);
    x->arrays[at] = NULL;
    atomic_fetch_sub(&x->held, tidei_round_up(x->bytes[at], 256));
    return good;
}
static bool maker_makes(maker *x, unsigned at, size_t bytes) {
    unsigned char data[LARGER / 4];
    size_t whole = tidei_round_up(bytes, 256);
    if (atomic_load(&x->held) + whole > atomic_load(&x->budget)) return true;
    memset(data, (int)(x->seed * MAKES + at), bytes);
    atomic_fetch_add(&x->held, whole);
    x->bytes[at] = bytes;
    return (x->arrays[at] = tide_from_host(fake.rt->ref, TIDE_U8, SHAPE((int64_t)bytes), data)) !=
           NULL;
}
static void *maker_main(void *p) {
    maker *x = p;
    bool good = true;
    for (unsigned i = x->seed * 1000; good && !atomic_load(x->stop); i++) {
        uint32_t dice = i * 2654435761u >> 8;
        good =
            maker_drops(x, dice % MAKES) &&
            maker_makes(x, dice % MAKES, 1 + dice / MAKES % (dice % 5 ? LARGER / 16 : LARGER / 4));
        for (unsigned k = 0; good && atomic_load(&x->held) > atomic_load(&x->budget); k++)
            good = maker_drops(x, (dice + k) % MAKES);
        atomic_fetch_add(&x->steps, 1);
    }
    if (!good)
        atomic_store(&x->status,
                     tide_error_last()->status ? tide_error_last()->status : TIDE_E_DEVICE);
    for (unsigned i = 0; i < MAKES; i++) maker_drops(x, i);
    tide_thread_detach(fake.rt->ref);
    return NULL;
}

/* All are at work within this budget now, and have made so many arrays, or one has failed. */
static bool makers_keep_to(maker *m, size_t budget, unsigned steps) {
    bool good = true;
    for (unsigned i = 0; i < MAKERS; i++) atomic_store(&m[i].budget, budget);
    for (unsigned i = 0; i < MAKERS; i++)
        for (unsigned seen = atomic_load(&m[i].steps);
             (good = good && atomic_load(&m[i].status) == TIDE_OK) &&
             (atomic_load(&m[i].steps) - seen < steps || atomic_load(&m[i].held) > budget);)
            sched_yield();
    return good;
}

static void a_handle_comes_and_goes_among_arrays(void **state) {
    static maker m[MAKERS];
    atomic_bool stop = false;
    _Static_assert(MAKERS * BUDGET + TAKES + PAGE + 2 * PAGE <= TIDEI_MIB,
                   "a limit of 1 MiB forces nothing");
    _Static_assert(MAKERS * LARGER + 2 * PAGE <= TIDEI_MIB, "nor does it without the handle");
    teardown(state);
    open_with("1MiB");
    memset(m, 0, sizeof m);
    for (unsigned i = 0; i < MAKERS; i++) {
        m[i].seed = i + 1, m[i].stop = &stop;
        assert_int_equal(pthread_create(&m[i].thread, NULL, maker_main, &m[i]), 0);
    }
    tide_status status = TIDE_OK;
    int rounds = test_quick() ? 20 : 100;
    for (int i = 0; i < rounds && status == TIDE_OK; i++) {
        uint64_t climb_id = tidei_climb_id_new(fake.rt);
        tidei_reclaimables_call(&fake.rt->devs[0], TIDEI_DROP, SIZE_MAX, climb_id);
        if (!makers_keep_to(m, LARGER, MAKES) || !makers_keep_to(m, BUDGET, 1)) break;
        status = call();
    }
    if (status != TIDE_OK) print_message("%s\n", tide_error_last()->message);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < MAKERS; i++) {
        pthread_join(m[i].thread, NULL);
        assert_int_equal(m[i].status, TIDE_OK);
    }
    assert_int_equal(status, TIDE_OK);
    assert_true(test_stats(fake.rt->ref).climbs > 0);
    assert_int_equal(library(), TAKES);
    print_message("%u climbs\n", (unsigned)test_stats(fake.rt->ref).climbs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_handle_is_made_of_parts_of_pages),
        CASE(room_is_made_for_what_a_handle_takes),
        CASE(what_is_dropped_counts_too),
        CASE(several_pools_are_cleared),
        CASE(a_kernel_is_loaded_where_blocks_were),
        CASE(so_it_is_where_the_device_is_short),
        CASE(pinned_blocks_leave_no_room),
        CASE(other_pools_keep_what_they_have),
        CASE(larger_pages_are_cleared_too),
        CASE(pinned_blocks_cost_their_pages_alone),
        CASE(no_failure_on_the_way_loses_anything),
        CASE(nor_does_one_in_lowering_the_limit),
        CASE(a_device_lost_on_the_way_is_said_to_be),
        CASE(a_handle_comes_and_goes_among_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
