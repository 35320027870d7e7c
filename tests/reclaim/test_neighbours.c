/* test_neighbours.c: runtimes of one process on one device: who is short makes the others give back
** (experiment E12).
**
** Each runtime opens a host device of its own; here these draw on one ceiling, as two contexts do
** on one GPU. */
#include <semaphore.h>
#include <unistd.h>
#include "tests/doubles/told_clock.h"
#include "runtime/device/host/host.h"
#include "runtime/pool/pools.h"
#include <pthread.h>
#include <sched.h>

#define MIB TIDEI_MIB
/* Sizes are an H200's scaled by 1/64. */
#define SCALED(gib) ((gib)*TIDEI_GIB / 64)
#define CEILING     SCALED(10)

/* ---- devices that share a ceiling ---- */

static _Atomic size_t taken;
static const struct tidei_device_ops *inner; /* the host's own */

static tide_status take(size_t bytes) {
    size_t old = atomic_load(&taken);
    do {
        if (bytes > CEILING - old)
            return tidei_fail(TIDE_E_NOMEM, "shared", "%zu bytes asked", bytes);
    } while (!atomic_compare_exchange_weak(&taken, &old, old + bytes));
    return TIDE_OK;
}

static tide_status shared_page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    tide_status status = take(bytes);
    if (status == TIDE_OK && (status = inner->page_new(d, bytes, out)) != TIDE_OK)
        atomic_fetch_sub(&taken, bytes);
    return status;
}
static void shared_page_release(tidei_device *d, tidei_dpage *p) {
    size_t bytes = p->bytes;
    inner->page_release(d, p);
    atomic_fetch_sub(&taken, bytes);
}
static tide_status shared_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                    tidei_addr *out) {
    tide_status status = take(bytes);
    if (status == TIDE_OK && (status = inner->raw_alloc(d, kind, bytes, out)) != TIDE_OK)
        atomic_fetch_sub(&taken, bytes);
    return status;
}
static void shared_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    inner->raw_free(d, kind, addr, bytes);
    atomic_fetch_sub(&taken, bytes);
}
static tide_status shared_memory(tidei_device *d, size_t *free_bytes, size_t *total) {
    (void)d;
    *total = CEILING;
    *free_bytes = CEILING - atomic_load(&taken);
    return TIDE_OK;
}

static struct tidei_device_ops sharing;
static int make_table(void **state) {
    tidei_device_params p = {.host_device_memory = CEILING};
    tidei_device *d;
    (void)state;
    if (tidei_host_open(&p, &d) != TIDE_OK) return 1;
    inner = d->ops;
    sharing = *inner;
    sharing.page_new = shared_page_new;
    sharing.page_release = shared_page_release;
    sharing.raw_alloc = shared_raw_alloc;
    sharing.raw_free = shared_raw_free;
    sharing.memory = shared_memory;
    d->ops->close(d);
    return 0;
}

static tide_runtime *open_shared(const char *pool, const char *limit) {
    tidei_device_params p = {.host_device_memory = CEILING};
    tide_config c = {.struct_size = sizeof c,
                     .collector = "refcount",
                     .pool = pool,
                     .limit = limit,
                     .gc_early = TIDE_OFF,
                     .spill = TIDE_OFF};
    tidei_device *d;
    tide_runtime *rt;
    assert_ok(tidei_host_open(&p, &d));
    d->ops = &sharing;
    assert_ok(tidei_open_on(&c, d, &rt));
    return rt;
}

/* An array of 1 GiB with something in it, between 7 GiB that are free. */
static tide_array *hoard(tide_runtime *rt) {
    tide_array *before = tide_zeros(rt, TIDE_U8, SHAPE(SCALED(3))),
               *data = tide_full(rt, TIDE_I64, SHAPE(SCALED(1) / 8), tide_arg_int(42)),
               *after = tide_zeros(rt, TIDE_U8, SHAPE(SCALED(4)));
    assert_array(data);
    tide_release(before);
    tide_release(after);
    assert_ok(tide_synchronize(rt, NULL));
    return data;
}

static void assert_intact(tide_runtime *rt, tide_array *data) {
    tide_array *s = tide_map(rt, "(a) -> sum(a == 42)", data);
    assert_true(tide_item_f64(s) == (double)(SCALED(1) / 8));
    tide_release(s);
}

/* ---- E12 ---- */

static void e12_good_neighbour(void **state) {
    (void)state;
    static const char *const pools[] = {"tide", "binned", "simple", "split"};
    for (unsigned k = 0; k < TIDEI_COUNT(pools); k++) {
        tide_runtime *one = open_shared(pools[k], NULL), *two = open_shared("tide", NULL);
        tide_array *data = hoard(one);
        tide_runtime_figures before = test_stats(one);
        assert_true(before.backed >= SCALED(8));
        tide_array *big = tide_zeros(two, TIDE_U8, SHAPE(SCALED(6)));
        assert_array(big);
        tide_runtime_figures s = test_stats(one);
        assert_true(s.backed <= SCALED(4));
        assert_int_equal(s.host_waits, before.host_waits);
        assert_int_equal(s.collections + s.climbs, 0);
        assert_int_equal(test_stats(two).climbs, 1);
        assert_intact(one, data);
        tide_release(big);
        tide_release(data);
        tide_close(two);
        tide_close(one);
        assert_int_equal(taken, 0);
    }
}

/* A raw allocation asks nobody: it finds room after tide_reclaim, or once the runtime is seen to be
** idle. */
static void e12_raw_allocations_wait_for_a_trim(void **state) {
    (void)state;
    for (unsigned idle = 0; idle < 2; idle++) {
        tide_runtime *rt = open_shared("tide", NULL);
        tidei_device *d = test_rt(rt)->devs[0].d;
        tidei_addr addr;
        tell_time(rt);
        tide_array *data = hoard(rt);
        assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, SCALED(6), &addr), TIDE_E_NOMEM);
        if (!idle) assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
        for (unsigned i = 0; i < 3 && idle; i++) {
            told_ns += TIDEI_TRIM_WINDOW_NS;
            assert_ok(tide_synchronize(rt, NULL));
        }
        assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, SCALED(6), &addr));
        assert_true(test_stats(rt).backed <= SCALED(4));
        assert_intact(rt, data);
        d->ops->raw_free(d, TIDEI_MEM_DEVICE, addr, SCALED(6));
        tide_release(data);
        tide_close(rt);
    }
}

/* The driver's pools keep nothing beyond a sync point, so nobody has to ask. */
static void e12_the_drivers_pools_need_no_asking(void **state) {
    (void)state;
    tide_runtime *rt =
        test_open(&(tide_config){.collector = "refcount", .pool = "driver", .gc_early = TIDE_OFF});
    tide_array *data = hoard(rt);
    assert_ok(tide_synchronize(rt, NULL));
    assert_true(test_stats(rt).backed <= SCALED(4));
    assert_intact(rt, data);
    tide_release(data);
    tide_close(rt);
}

/* ---- when not to ---- */

static void nobody_is_asked_who_cannot_help(void **state) {
    (void)state;
    tide_runtime *one = open_shared("tide", NULL), *two = open_shared("tide", "32MiB"),
                 *elsewhere = test_open(
                     &(tide_config){.collector = "refcount", .device = "host", .spill = TIDE_OFF});
    tide_array *data = hoard(one);
    size_t backed = test_stats(one).backed;
    assert_null(tide_zeros(two, TIDE_U8, SHAPE(20 * MIB + SCALED(6)))); /* beyond its own limit */
    tide_array *some = tide_zeros(two, TIDE_U8, SHAPE(20 * MIB));
    assert_null(tide_zeros(two, TIDE_U8, SHAPE(20 * MIB)));
    assert_error(TIDE_E_NOMEM, "ask neighbours 0 bytes");
    assert_int_equal(test_stats(one).backed, backed);
    tide_array *held = tide_zeros(elsewhere, TIDE_U8, SHAPE(MIB)); /* a device of its own, full */
    size_t total = test_rt(elsewhere)->devs[0].d->info.total_bytes;
    assert_null(tide_zeros(elsewhere, TIDE_U8, SHAPE((int64_t)(total - MIB / 2))));
    assert_int_equal(test_stats(one).backed, backed);
    tide_array *all[] = {data, some, held};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    tide_close(elsewhere);
    tide_close(two);
    tide_close(one);
}

/* The driver takes it back only when the device has done all its work; a visit waits for
** nothing. */
static void unified_memory_stays(void **state) {
    (void)state;
    tide_runtime *one = open_shared("tide", NULL), *two = open_shared("tide", NULL);
    tide_release(tide_empty_in(one, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(SCALED(2))));
    tide_release(tide_empty(one, TIDE_U8, SHAPE(SCALED(5))));
    assert_ok(tide_synchronize(one, NULL));
    size_t unified = atomic_load(&test_rt(one)->devs[0].budget->unified);
    assert_true(unified >= SCALED(2));
    tide_array *a = tide_empty(two, TIDE_U8, SHAPE(SCALED(6)));
    assert_array(a);
    assert_int_equal(test_stats(one).backed, unified);
    assert_null(tide_empty(two, TIDE_U8, SHAPE(SCALED(3))));
    tide_error_clear();
    assert_int_equal(atomic_load(&test_rt(one)->devs[0].budget->unified), unified);
    tide_release(a);
    tide_close(two);
    tide_close(one);
}

struct idle_cache {
    tidei_reclaimable r;
    unsigned purged, dropped;
};
static size_t purge(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    struct idle_cache *c = self;
    (void)d, (void)wanted, (void)failed;
    c->purged++;
    return 0;
}
static size_t drop(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    struct idle_cache *c = self;
    (void)d, (void)wanted, (void)failed;
    c->dropped++;
    return 0;
}

static void idle_handles_go_too(void **state) {
    (void)state;
    tide_runtime *one = open_shared("tide", NULL), *two = open_shared("tide", NULL);
    struct idle_cache c = {.r = {.name = "cache", .purge = purge, .drop = drop, .self = &c}};
    tidei_reclaimable_register(test_rt(one), &c.r);
    tide_array *data = hoard(one), *big = tide_zeros(two, TIDE_U8, SHAPE(SCALED(6)));
    assert_array(big);
    assert_int_equal(c.purged, 1);
    assert_int_equal(c.dropped, 0); /* live state stays */
    tidei_reclaimable_unregister(test_rt(one), &c.r);
    tide_release(big);
    tide_release(data);
    tide_close(two);
    tide_close(one);
}

/* ---- all at once ---- */

/* Each has a runtime that comes and goes, hoards, and is short when the others have hoarded. */
enum { CROWD = 3 };
static atomic_int unexpected; /* a status */
static void *come_and_go(void *arg) {
    (void)arg;
    for (unsigned i = 0, n = test_quick() ? 6 : 30; i < n; i++) {
        tide_runtime *rt = open_shared("tide", NULL);
        for (unsigned k = 0; k < 4; k++) {
            tide_array *a = tide_empty(rt, TIDE_U8, SHAPE(SCALED(6) + (int64_t)k * MIB));
            if (!a && tide_error_last()->status != TIDE_E_NOMEM)
                unexpected = tide_error_last()->status;
            tide_release(a);
        }
        tide_close(rt);
    }
    return NULL;
}
static void neighbours_come_and_go(void **state) {
    (void)state;
    pthread_t t[CROWD];
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&t[i], NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < CROWD; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(unexpected, 0);
    assert_int_equal(taken, 0);
}

/* ---- a visit that is left ---- */

static jmp_buf caught;
static bool leaves;
static tide_status leave_purge(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted, (void)given;
    if (leaves) longjmp(caught, 1);
    return TIDE_OK;
}

static __attribute__((noinline)) void want_more_than_there_is(tide_runtime *rt) {
    volatile char room[16384]; /* the calls after it come from nearer to the stack's beginning */
    room[0] = 0;
    tide_release(tide_empty(rt, TIDE_U8, SHAPE(SCALED(6))));
    __asm__ __volatile__("" : : "r"(room) : "memory");
}

/* A neighbour's callback is left by longjmp: so are the visit, and the climb of the runtime that
** was short. */
static void leave_a_visit(bool knows_both) {
    tide_runtime *volatile one = open_shared("tide", NULL), *volatile two =
                                                                open_shared("tide", NULL);
    tide_reclaimable r = {.struct_size = sizeof r, .name = "cache", .purge = leave_purge};
    uint64_t id;
    assert_ok(tide_reclaimable_register(one, &r, &id));
    tide_array *volatile full = tide_zeros(one, TIDE_U8, SHAPE(SCALED(7)));
    assert_array(full);
    assert_ok(tide_synchronize(one, NULL));
    if (!knows_both) tide_thread_detach(one);
    leaves = true;
    if (!setjmp(caught)) {
        want_more_than_there_is(two);
        fail_msg("nobody was visited");
    }
    leaves = false;
    tide_error_clear();
    assert_null(tide_zeros(two, TIDE_U8, SHAPE(16)));
    assert_error(TIDE_E_INVALID, "purge of the reclaimable \"cache\" was left without a return");
    assert_null(tide_empty(two, TIDE_U8, SHAPE(SCALED(6)))); /* it climbs, and asks again */
    assert_error(TIDE_E_NOMEM, "out of memory");
    tide_release(full);
    assert_ok(tide_synchronize(one, NULL));
    tide_array *a = tide_zeros(two, TIDE_U8, SHAPE(SCALED(6)));
    assert_array(a);
    tide_release(a);
    assert_true(tidei_runtime_valid(test_rt(one)) && tidei_runtime_valid(test_rt(two)));
    tide_close(one); /* which waits for visitors: there is none */
    tide_close(two);
    assert_int_equal(taken, 0);
}

static void a_visit_is_left(void **state) {
    (void)state;
    leave_a_visit(false); /* the thread that visits does not know the other runtime */
    leave_a_visit(true);
}

static tide_runtime *scoped[2];
static tide_status begin_scopes_and_leave(void *user, int device, size_t wanted, size_t *given) {
    for (unsigned i = 0; i < 2 && leaves; i++)
        for (unsigned n = 0; n <= i; n++) assert_ok(tide_scope_begin(scoped[i]));
    return leave_purge(user, device, wanted, given);
}

/* Scopes of the visited runtime, and of the one that was short, are the thread's, each in its
** runtime; the first call after the error is the one that unwinds them. */
static void unwind_after_a_visit(bool knows_both, unsigned first) {
    tide_reclaimable r = {
        .struct_size = sizeof r, .name = "cache", .purge = begin_scopes_and_leave};
    uint64_t id;
    for (unsigned i = 0; i < 2; i++) scoped[i] = open_shared("tide", NULL);
    assert_ok(tide_reclaimable_register(scoped[0], &r, &id));
    assert_array(tide_zeros(scoped[0], TIDE_U8, SHAPE(SCALED(7))));
    assert_ok(tide_synchronize(scoped[0], NULL));
    assert_ok(tide_scope_begin(scoped[1]));
    if (!knows_both) tide_thread_detach(scoped[0]);
    leaves = true;
    if (!setjmp(caught)) {
        want_more_than_there_is(scoped[1]);
        fail_msg("nobody was visited");
    }
    leaves = false;
    assert_ok(tide_scope_unwind(scoped[first], (int)first));
    assert_int_equal(tide_scope_depth(scoped[!first]), first ? 1 : 3);
    assert_ok(tide_scope_unwind(scoped[!first], (int)!first));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(tide_scope_depth(scoped[i]), i);
        assert_true(tidei_runtime_valid(test_rt(scoped[i])));
    }
    for (unsigned i = 0; i < 2; i++) tide_close(scoped[i]);
    assert_int_equal(taken, 0);
}

static void scopes_of_a_visit_unwind(void **state) {
    (void)state;
    for (unsigned first = 0; first < 2; first++) {
        unwind_after_a_visit(false, first);
        unwind_after_a_visit(true, first);
    }
}

/* ---- closing beside a visit ---- */

static struct {
    tide_runtime *one, *two;
    sem_t inside;
    atomic_bool closed, closed_inside;
} visited;
static tide_status look_while_inside(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted, (void)given;
    sem_post(&visited.inside);
    /* time to do it wrong */
    for (int i = 0; i < 50 && !atomic_load(&visited.closed); i++) usleep(2000);
    atomic_store(&visited.closed_inside, atomic_load(&visited.closed));
    return TIDE_OK;
}
static void *want_much(void *unused) {
    (void)unused;
    bool ours = tide_thread_attach(visited.two) == TIDE_OK;
    tide_release(tide_empty(visited.one, TIDE_U8, SHAPE(SCALED(6))));
    return ours ? &visited : NULL;
}

/* A runtime that closes waits for another one's thread in a slot of its own, though that has a
** record here too. */
static void closing_waits_for_visitors(void **state) {
    pthread_t visitor;
    void *attached;
    uint64_t id;
    (void)state;
    visited.one = open_shared("tide", NULL), visited.two = open_shared("tide", NULL);
    sem_init(&visited.inside, 0, 0);
    atomic_store(&visited.closed, false), atomic_store(&visited.closed_inside, false);
    const tide_reclaimable r = {
        .struct_size = sizeof r, .name = "cache", .purge = look_while_inside};
    assert_ok(tide_reclaimable_register(visited.two, &r, &id));
    assert_array(tide_zeros(visited.two, TIDE_U8, SHAPE(SCALED(7))));
    assert_ok(tide_synchronize(visited.two, NULL));
    assert_int_equal(pthread_create(&visitor, NULL, want_much, NULL), 0);
    sem_wait(&visited.inside);
    tide_close(visited.two);
    atomic_store(&visited.closed, true);
    pthread_join(visitor, &attached);
    assert_non_null(attached);
    assert_false(atomic_load(&visited.closed_inside));
    tide_close(visited.one);
    assert_int_equal(taken, 0);
}

/* ---- a third runtime, which closes in a visit ---- */

static tide_runtime *third;
static unsigned looked;
static tide_status look_at_third(void *user, int device, size_t wanted, size_t *given) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    (void)user, (void)device, (void)wanted, (void)given;
    looked++;
    return third ? tide_runtime_info(third, &s) : TIDE_OK;
}
static tide_status close_third_and_leave(void *user, int device, size_t wanted, size_t *given) {
    tide_runtime *rt = third;
    third = NULL;
    if (rt) tide_close(rt);
    return leave_purge(user, device, wanted, given);
}

/* A thread visits a runtime that it does not know, closes a third one there, with which the visit
** has nothing to do, and leaves. */
static void a_third_runtime_closes_in_a_visit(void **state) {
    tide_reclaimable looks = {.struct_size = sizeof looks, .name = "looks", .purge = look_at_third},
                     closes = {.struct_size = sizeof closes,
                               .name = "closes",
                               .purge = close_third_and_leave};
    tide_runtime *volatile one = open_shared("tide", NULL), *volatile two =
                                                                open_shared("tide", NULL);
    uint64_t id, newer;
    (void)state;
    third = open_shared("tide", NULL);
    assert_ok(tide_reclaimable_register(one, &closes, &id));
    assert_ok(tide_reclaimable_register(one, &looks, &newer)); /* first: third was used last */
    tide_array *volatile full = tide_zeros(one, TIDE_U8, SHAPE(SCALED(7)));
    assert_array(full);
    assert_ok(tide_synchronize(one, NULL));
    tide_thread_detach(one);
    leaves = true;
    if (!setjmp(caught)) {
        want_more_than_there_is(two);
        fail_msg("nobody was visited");
    }
    leaves = false;
    assert_null(third);
    tide_safepoint(two);
    assert_error(TIDE_E_INVALID, "purge of the reclaimable \"closes\" was left without a return");
    tide_error_clear();
    looked = 0;
    assert_ok(tide_reclaim(one, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(looked, 1); /* the thread is in no slot any more */
    assert_ok(tide_reclaimable_unregister(one, id));
    tide_release(full);
    assert_true(tidei_runtime_valid(test_rt(one)) && tidei_runtime_valid(test_rt(two)));
    tide_close(one);
    tide_close(two);
    assert_int_equal(taken, 0);
}

/* ---- graphs ---- */

static tide_status add_twice(void *user, const tide_arg *args, size_t n, tide_array **outs,
                             size_t m) {
    tide_array *a = tide_map(user, "(a) -> a + 1", args[0].value.array);
    (void)n, (void)m;
    if (!a) return tide_error_last()->status;
    tide_array *sum = tide_map(user, "(a) -> sum(a + 1)", a);
    tide_release(a);
    return (outs[0] = sum) ? TIDE_OK : tide_error_last()->status;
}
static void run_graph(tide_graph *g, tide_array *a, double wanted) {
    const tide_arg arg = tide_arg_array(a);
    tide_array *out;
    assert_ok(tide_graph_run(g, &arg, 1, &out, 1));
    assert_true(tide_item_f64(out) == wanted);
    tide_release(out);
}

/* The arenas of a neighbour's graphs give way, but for the one used last. */
static void a_neighbours_graphs_give_way(void **state) {
    (void)state;
    tide_runtime *one = open_shared("tide", NULL), *two = open_shared("tide", NULL);
    tide_graph *g[3];
    const int64_t n = SCALED(2) / 8;
    tide_array *a = tide_zeros(one, TIDE_I64, SHAPE(n));
    for (int i = 0; i < 3; i++) {
        g[i] = tide_graph_new(one, add_twice, one);
        for (int run = 0; run < 2; run++) run_graph(g[i], a, 2.0 * (double)n);
    }
    tide_array *want = tide_zeros(two, TIDE_U8, SHAPE(SCALED(5)));
    assert_array(want);
    tide_graph_figures f = {.struct_size = sizeof f};
    assert_ok(tide_graph_info(g[0], &f));
    assert_int_equal(f.bytes, 0);
    tide_release(want);
    for (int i = 0; i < 3; i++) {
        run_graph(g[i], a, 2.0 * (double)n);
        tide_graph_release(g[i]);
    }
    tide_release(a);
    tide_close(one);
    tide_close(two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_waits_for_visitors),
        cmocka_unit_test(e12_good_neighbour),
        cmocka_unit_test(e12_raw_allocations_wait_for_a_trim),
        cmocka_unit_test(e12_the_drivers_pools_need_no_asking),
        cmocka_unit_test(nobody_is_asked_who_cannot_help),
        cmocka_unit_test(unified_memory_stays),
        cmocka_unit_test(idle_handles_go_too),
        cmocka_unit_test(neighbours_come_and_go),
        cmocka_unit_test(a_visit_is_left),
        cmocka_unit_test(scopes_of_a_visit_unwind),
        cmocka_unit_test(a_third_runtime_closes_in_a_visit),
        cmocka_unit_test(a_neighbours_graphs_give_way),
    };
    return cmocka_run_group_tests(tests, make_table, NULL);
}
