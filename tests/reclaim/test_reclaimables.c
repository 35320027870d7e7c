/* test_reclaimables.c: a program's own caches in the registry: any time, any thread, from inside a
** slot; what texts say of them; and that nothing they do in a slot comes back to the caller. Which
** rung asks whom, test_ladder.c tells. */
#include <pthread.h>
#include <sched.h>
#include "runtime/device/host/host.h"
#include "tests/doubles/counted_host.h"
#include "tests/doubles/failing_host.h"
#include "tests/support/logged.h"

#define MIB TIDEI_MIB

static tide_runtime *rt;
static int open_rt(void **state) {
    (void)state;
    logged.n = 0;
    rt = test_open(&(tide_config){.device = "host",
                                  .collector = "refcount",
                                  .limit = "8MiB",
                                  .host_devices = 2,
                                  .log = keep_line,
                                  .log_level = TIDE_LOG_INFO});
    assert_ok(tide_device_set(rt, 1));
    assert_ok(tide_device_set(rt, 0));
    return 0;
}
static int close_rt(void **state) {
    (void)state;
    tide_close(rt);
    tide_error_clear();
    return 0;
}

/* A cache of one array; `in` is what its purge does besides. */
struct cache {
    uint64_t id;
    tide_array *idle;
    size_t held;
    int on; /* the device whose memory that is */
    atomic_uint purges, drops, asked;
    tide_status fails;
    void (*in)(struct cache *c);
    struct cache *other;
};
static tide_status purge(void *user, int device, size_t wanted, size_t *given) {
    struct cache *c = user;
    (void)wanted;
    atomic_fetch_add(&c->purges, 1);
    if (c->idle && tide_array_device(c->idle) == device) {
        *given = (size_t)tide_array_size(c->idle);
        tide_release(c->idle);
        c->idle = NULL;
    }
    if (c->in) c->in(c);
    return c->fails;
}
static tide_status drop(void *user, int device, size_t wanted, size_t *given) {
    struct cache *c = user;
    (void)device, (void)wanted, (void)given;
    atomic_fetch_add(&c->drops, 1);
    return c->fails;
}
static size_t bytes(void *user, int device) {
    struct cache *c = user;
    atomic_fetch_add(&c->asked, 1);
    return device == c->on ? c->held : 0;
}
static tide_status enter(struct cache *c, const char *name) {
    const tide_reclaimable r = {.struct_size = sizeof r,
                                .name = name,
                                .purge = purge,
                                .drop = drop,
                                .bytes = bytes,
                                .user = c};
    return tide_reclaimable_register(rt, &r, &c->id);
}
static void forget(struct cache *c) { assert_ok(tide_reclaimable_unregister(rt, c->id)); }
static tide_array *array(int64_t n) { return tide_empty(rt, TIDE_U8, 1, &n); }

/* ---- registering ---- */

static void what_cannot_be_registered(void **state) {
    tide_reclaimable r = {.struct_size = sizeof r, .name = "x", .purge = purge};
    uint64_t id = 77;
    (void)state;
    assert_int_equal(tide_reclaimable_register(NULL, &r, &id), TIDE_E_INVALID);
    assert_int_equal(tide_reclaimable_register(rt, NULL, &id), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the reclaimable is NULL");
    r.struct_size++;
    assert_int_equal(tide_reclaimable_register(rt, &r, &id), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "struct_size is");
    r.struct_size = sizeof(size_t);
    assert_int_equal(tide_reclaimable_register(rt, &r, &id), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the name is NULL");
    r.struct_size = sizeof r;
    r.purge = NULL;
    assert_int_equal(tide_reclaimable_register(rt, &r, &id), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "neither purge nor drop");
    assert_int_equal(id, 77);
    assert_int_equal(tide_reclaimable_unregister(rt, 0), TIDE_E_INVALID);
    assert_int_equal(tide_reclaimable_unregister(rt, 1), TIDE_E_INVALID); /* the library's own */
    assert_int_equal(tide_reclaimable_unregister(NULL, 1), TIDE_E_INVALID);
}

/* It is there until the runtime's end. */
static void nobody_wants_the_id(void **state) {
    struct cache c = {.held = MIB};
    const tide_reclaimable r = {
        .struct_size = sizeof r, .name = "anonymous", .purge = purge, .bytes = bytes, .user = &c};
    char text[500];
    (void)state;
    assert_ok(tide_reclaimable_register(rt, &r, NULL));
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "anonymous 1.000 MiB"));
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_true(c.purges > 0);
    tide_close(rt); /* before c ends */
    rt = NULL;
}

static void each_registration_is_its_own(void **state) {
    struct cache c = {0};
    char name[] = "mine";
    uint64_t first;
    (void)state;
    assert_ok(enter(&c, name));
    first = c.id;
    assert_ok(enter(&c, name));
    strcpy(name, "gone");
    assert_true(first && c.id && first != c.id);
    c.held = MIB;
    char text[500];
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(
        strstr(text, "\nheld by what can be reclaimed: mine 1.000 MiB, mine 1.000 MiB\n"));
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(c.purges, 4); /* of two devices */
    forget(&c);
    assert_int_equal(tide_reclaimable_unregister(rt, c.id), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "no reclaimable ");
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(c.drops, 2);
    assert_int_equal(c.purges, 6);
    (void)first; /* the runtime's end forgets it */
}

/* An older program's shorter struct: what it does not know is as if 0. */
static void shorter_ones_are_known(void **state) {
    struct cache c = {.held = MIB};
    tide_reclaimable r = {
        .struct_size = offsetof(tide_reclaimable, dear), .name = "old", .purge = purge, .user = &c};
    r.dear = 1;
    (void)state;
    assert_ok(tide_reclaimable_register(rt, &r, &c.id));
    assert_ok(tide_device_set_soft_limit(rt, MIB));
    tide_array *a = array(2 * MIB);
    assert_int_equal(c.purges, 2); /* by tide_device_set_soft_limit, and as one that is not dear */
    tide_release(a);
    forget(&c);
}

/* ---- arrays in a cache ---- */

/* What purge releases is there for the next attempt, before anything is collected or waited for. */
static void what_purge_releases_is_there(void **state) {
    struct cache c = {.idle = array(5 * MIB)};
    (void)state;
    assert_ok(enter(&c, "arrays"));
    tide_array *a = array(6 * MIB);
    assert_array(a);
    assert_int_equal(
        lines_with(TIDE_LOG_INFO, "reclaim: freed 5.000 MiB at rung purge idle caches"), 1);
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.reclaimed, 5 * MIB); /* once */
    assert_int_equal(s.collections + s.host_waits, 0);
    tide_release(a);
    forget(&c);
}

/* ---- from inside ---- */

static void leaves(struct cache *c) { forget(c); }
static void one_may_leave_from_inside(void **state) {
    struct cache c = {.in = leaves, .fails = TIDE_E_IO}, after = {0};
    (void)state;
    assert_ok(enter(&after, "after"));
    assert_ok(enter(&c, "leaving"));
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(c.purges, 1);
    assert_int_equal(c.drops, 2);
    assert_int_equal(after.purges, 4); /* two devices, two reclaims */
    assert_int_equal(
        lines_with(TIDE_LOG_WARNING, "drop of leaving failed: it returned TIDE_E_IO (26)"), 1);
    forget(&after);
}

static void joins(struct cache *c) {
    if (!c->other->id) assert_ok(enter(c->other, "new"));
}
static void takes_out(struct cache *c) {
    if (c->other->id) forget(c->other);
    c->other->id = 0;
}
static void others_may_come_and_go_from_inside(void **state) {
    struct cache newcomer = {0}, old = {0}, c = {.in = joins, .other = &newcomer};
    (void)state;
    assert_ok(enter(&old, "old"));
    assert_ok(enter(&c, "busy"));
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_true(newcomer.id != 0);
    /* it is newer than where that round stood; the second device's met it */
    unsigned before = newcomer.purges;
    assert_int_equal(before, 1);
    c.in = takes_out;
    c.other = &old; /* which comes after it */
    unsigned met = old.purges;
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(old.purges, met);
    assert_int_equal(newcomer.purges, before + 2);
    forget(&c);
    forget(&newcomer);
}

/* Nothing is reclaimed from inside; above the soft limit neither: there is no end otherwise. */
static void allocates(struct cache *c) {
    tide_runtime_figures s = test_stats(rt);
    unsigned asked = c->asked;
    size_t freed = 9;
    char text[300];
    tide_array *a = array(2 * MIB); /* fits, beyond the soft limit */
    assert_array(a);
    tide_release(a);
    assert_null(array(8 * MIB));
    assert_error(TIDE_E_NOMEM, "out of memory");
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, &freed));
    assert_int_equal(freed, 0);
    assert_int_equal(test_stats(rt).climbs, s.climbs);
    tide_runtime_text(rt, text, sizeof text);
    assert_int_equal(c->asked, asked); /* the slot may hold a lock that `bytes` takes */
}
static void nothing_is_reclaimed_from_inside(void **state) {
    struct cache c = {.in = allocates, .held = 1};
    (void)state;
    assert_ok(enter(&c, "hungry"));
    tide_array *base = array(MIB);
    assert_ok(tide_device_set_soft_limit(rt, 2 * MIB));
    assert_int_equal(c.purges, 1);
    tide_array *a = array(4 * MIB);
    assert_array(a);
    assert_int_equal(c.purges, 2);
    assert_null(array(4 * MIB));
    assert_error(TIDE_E_NOMEM, "out of memory");
    assert_int_equal(c.purges,
                     /* for the soft limit, and three in a climb, of four: memory was taken in
                     ** each */
                     3 + 3 * 4);
    tide_release(a);
    tide_release(base);
    forget(&c);
}

/* Slots are told a device by its number, wherever the runtime was opened. */
static void slots_get_the_devices_number(void **state) {
    struct cache c = {.held = MIB};
    (void)state;
    tide_close(rt);
    rt = test_open(&(tide_config){.device = "host:1", .collector = "refcount", .host_devices = 2});
    assert_int_equal(tide_device_current(rt), 1);
    assert_ok(enter(&c, "mine"));
    c.idle = array(MIB);
    assert_array(c.idle);
    assert_int_equal(tide_array_device(c.idle), 1);
    char text[500];
    tide_runtime_text(rt, text, sizeof text);
    assert_null(strstr(text, "mine")); /* it holds something on device 0 alone */
    c.on = 1;
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "\nheld by what can be reclaimed: mine 1.000 MiB\n"));
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(c.purges, 1); /* of the one that is open */
    assert_null(c.idle);
    forget(&c);
}

static void moves_away(struct cache *c) {
    (void)c;
    assert_ok(tide_device_set(rt, 1));
}
static void the_device_is_put_back(void **state) {
    struct cache c = {.in = moves_away};
    (void)state;
    assert_ok(enter(&c, "restless"));
    tide_array *a = array(5 * MIB);
    tide_error_clear();
    assert_null(array(5 * MIB));
    assert_int_equal(tide_device_current(rt), 0);
    assert_true(c.purges > 0);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(tide_device_current(rt), 0);
    tide_release(a);
    forget(&c);
}

/* ---- texts ---- */

static void the_largest_come_first(void **state) {
    struct cache c[10] = {{0}};
    char name[10][32], text[900];
    (void)state;
    for (int i = 0; i < 10; i++) {
        snprintf(name[i], sizeof name[i], "cache %d", i);
        c[i].held = (size_t)(i + 1) << 10;
        assert_ok(enter(&c[i], name[i]));
    }
    static const char all[] = "held by what can be reclaimed: cache 9 10.000 KiB, cache 8 9.000 "
                              "KiB, cache 7 8.000 KiB, cache 6 7.000 "
                              "KiB, cache 5 6.000 KiB, cache 4 5.000 KiB, cache 3 4.000 KiB, cache "
                              "2 3.000 KiB, others 3.000 KiB";
    tide_runtime_text(rt, text, sizeof text);
    if (!strstr(text, all)) fail_msg("%s", text);
    size_t whole = tide_runtime_text(rt, text, sizeof text);
    for (size_t cap = 0; cap < whole; cap += 7)
        assert_int_equal(tide_runtime_text(rt, text, cap), whole);
    assert_null(array(9 * MIB));
    assert_error(TIDE_E_NOMEM, all);
    for (int i = 0; i < 10; i++) forget(&c[i]);
}

/* ---- threads ---- */

static struct { atomic_int inside, leave; } gate;
static void dwells(struct cache *c) {
    (void)c;
    atomic_store(&gate.inside, 1);
    while (!atomic_load(&gate.leave)) sched_yield();
}
static void *reclaim_all(void *p) {
    (void)p;
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    return NULL;
}
static void *forget_it(void *p) {
    struct cache *c = p;
    forget(c);
    assert_int_equal(atomic_load(&gate.leave), 1); /* not before the call was over */
    c->id = 0;
    return NULL;
}
static void unregistering_waits_for_a_call(void **state) {
    struct cache c = {.in = dwells, .held = 1};
    pthread_t a, b;
    char text[300];
    (void)state;
    atomic_store(&gate.inside, 0);
    atomic_store(&gate.leave, 0);
    assert_ok(enter(&c, "slow"));
    assert_int_equal(pthread_create(&a, NULL, reclaim_all, NULL), 0);
    while (!atomic_load(&gate.inside)) sched_yield();
    assert_int_equal(pthread_create(&b, NULL, forget_it, &c), 0);
    do {
        sched_yield();
        tide_runtime_text(rt, text, sizeof text);
    } while (strstr(text, "slow")); /* until it is out of the list */
    assert_int_equal(tide_reclaimable_unregister(rt, c.id), TIDE_E_INVALID);
    atomic_store(&gate.leave, 1);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert_int_equal(c.id, 0);
}

/* Caches come and go while all are short. */
static atomic_int unexpected;
static void *come_and_go(void *p) {
    (void)p;
    for (int i = 0; i < (test_quick() ? 20 : 100); i++) {
        struct cache c = {.fails = i % 3 ? TIDE_OK : TIDE_E_DEVICE};
        if (enter(&c, "guest") != TIDE_OK) atomic_store(&unexpected, 1);
        tide_array *a = array(3 * MIB), *b = array(3 * MIB);
        if (!a && tide_error_last()->status != TIDE_E_NOMEM) atomic_store(&unexpected, 2);
        tide_release(a);
        tide_release(b);
        if (i % 8 == 0 && tide_reclaim(rt, i % 4, NULL) != TIDE_OK) atomic_store(&unexpected, 3);
        if (tide_reclaimable_unregister(rt, c.id) != TIDE_OK) atomic_store(&unexpected, 4);
        memset(&c, 0xff, sizeof c); /* nobody looks any more */
    }
    return NULL;
}
static void caches_come_and_go_while_all_are_short(void **state) {
    pthread_t t[4];
    (void)state;
    atomic_store(&unexpected, 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&unexpected), 0);
    assert_true(tidei_runtime_valid(test_rt(rt)));
}

/* ---- leaving ---- */

static jmp_buf caught;
static tide_status leave_slot(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted, (void)given;
    longjmp(caught, 1);
}
/* Deeper on the stack than the calls that come after it. */
static __attribute__((noinline)) void reclaim_deep(tide_runtime *x) {
    volatile char room[16384];
    room[0] = 0;
    (void)!tide_reclaim(x, TIDE_RECLAIM_PURGE, NULL);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}
static void *close_other(void *x) {
    tide_close(x);
    return NULL;
}

/* A thread leaves a slot of one runtime, and somebody else closes that: in other runtimes it is
** inside no slot any more. */
static void who_left_a_slot_reclaims_elsewhere(void **state) {
    const tide_reclaimable r = {.struct_size = sizeof r, .name = "left", .purge = leave_slot};
    tide_runtime *volatile other =
        test_open(&(tide_config){.device = "host", .collector = "refcount"});
    struct cache c = {0};
    pthread_t t;
    uint64_t id;
    (void)state;
    assert_ok(tide_reclaimable_register(other, &r, &id));
    assert_ok(enter(&c, "here"));
    if (!setjmp(caught)) {
        reclaim_deep(other);
        fail_msg("nobody left");
    }
    assert_int_equal(pthread_create(&t, NULL, close_other, other), 0);
    pthread_join(t, NULL);
    tide_safepoint(rt);
    assert_error(TIDE_E_INVALID, "purge of the reclaimable \"left\" was left without a return");
    tide_error_clear();
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(c.purges, 2); /* of two devices */
    tide_array *a = array(5 * MIB);
    tide_release(a);
    assert_array(a = array(7 * MIB)); /* what is free is given back for it */
    tide_release(a);
    forget(&c);
}

static _Thread_local bool leaves_waits;
static void wait_or_leave(void *self, void (*fn)(void *arg), void *arg) {
    (void)self;
    if (leaves_waits) longjmp(caught, 1);
    fn(arg);
}
static int collect_nothing(void *self, int level) {
    return (void)self, (void)level, TIDE_COLLECT_DONE;
}
static __attribute__((noinline)) void forget_deep(uint64_t id) {
    volatile char room[16384];
    room[0] = 0;
    (void)!tide_reclaimable_unregister(rt, id);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}

/* Who unregisters waits for a call of another thread, and leaves that wait: the entry is nobody's,
** and goes when it can, whether the call returns before that is found out or after. */
static void unregistering_is_left(void **state) {
    (void)state;
    for (volatile int returns_first = 0; returns_first < 2; returns_first++) {
        struct cache c = {.in = dwells};
        pthread_t other;
        uint64_t id;
        assert_int_equal(host_held, 0);
        rt = test_open(&(tide_config){
            .device = "host", .collector = "refcount", .allocator = &counted_memory});
        const tide_collector table = {.struct_size = sizeof table,
                                      .name = "host",
                                      .collect = collect_nothing,
                                      .blocking = wait_or_leave};
        assert_ok(tide_collector_register(rt, &table, &id));
        atomic_store(&gate.inside, 0);
        atomic_store(&gate.leave, 0);
        assert_ok(enter(&c, "slow"));
        assert_int_equal(pthread_create(&other, NULL, reclaim_all, NULL), 0);
        while (!atomic_load(&gate.inside)) sched_yield();
        leaves_waits = true;
        if (!setjmp(caught)) {
            forget_deep(c.id);
            fail_msg("nobody left");
        }
        leaves_waits = false;
        atomic_store(&gate.leave, returns_first);
        if (returns_first) pthread_join(other, NULL);
        tide_safepoint(rt);
        assert_error(TIDE_E_INVALID,
                     "blocking of the collector \"host\" was left without a return");
        atomic_store(&gate.leave, 1);
        if (!returns_first) pthread_join(other, NULL);
        assert_int_equal(tide_reclaimable_unregister(rt, c.id), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "no reclaimable ");
        tide_close(rt);
        assert_int_equal(host_held, 0);
        tide_error_clear();
    }
}

/* ---- a neighbour ---- */

/* Another runtime of the process is short: its thread, which this runtime may not know, is in the
** slot, and makes an array here. */
static tide_runtime *open_beside(tidei_device *d) {
    tide_config c = {
        .struct_size = sizeof c, .collector = "refcount", .pool = "tide", .gc_early = TIDE_OFF};
    tide_runtime *x;
    assert_ok(tidei_open_on(&c, d, &x));
    return x;
}
static const struct tidei_device_ops *inner;
static struct tidei_device_ops sharing;
static _Atomic size_t shared;
#define CEILING (8 * MIB)
static tide_status shared_page_new(tidei_device *d, size_t n, tidei_dpage **out) {
    if (atomic_fetch_add(&shared, n) + n <= CEILING) return inner->page_new(d, n, out);
    atomic_fetch_sub(&shared, n);
    return tidei_fail(TIDE_E_NOMEM, "double", "the ceiling is reached");
}
static void shared_page_release(tidei_device *d, tidei_dpage *p) {
    atomic_fetch_sub(&shared, p->bytes);
    inner->page_release(d, p);
}
static tide_status shared_memory(tidei_device *d, size_t *free_bytes, size_t *total) {
    (void)d;
    *total = CEILING;
    *free_bytes = CEILING - atomic_load(&shared);
    return TIDE_OK;
}
static void makes_an_array_here(struct cache *c) {
    int64_t n = 5 * MIB;
    tide_array *a = tide_empty(rt, TIDE_U8, 1, &n);
    assert_null(a); /* does not fit, and nobody is asked for it */
    assert_error(TIDE_E_NOMEM, "out of memory");
    assert_int_equal(test_stats(rt).climbs, 0);
    assert_int_equal(c->purges, 1);
}
static void a_neighbours_thread_climbs_nowhere(void **state) {
    tidei_device_params p = {.host_device_memory = CEILING};
    tidei_device *d[2];
    (void)state;
    for (int i = 0; i < 2; i++) assert_ok(tidei_host_open(&p, &d[i]));
    inner = d[0]->ops;
    sharing = *inner;
    sharing.page_new = shared_page_new;
    sharing.page_release = shared_page_release;
    sharing.memory = shared_memory;
    d[0]->ops = d[1]->ops = &sharing;
    atomic_store(&shared, 0);
    rt = open_beside(d[0]);
    tide_runtime *two = open_beside(d[1]);
    struct cache c = {.in = makes_an_array_here};
    assert_ok(enter(&c, "neighbour's"));
    const int64_t half = 4 * MIB, more = 2 * MIB;
    tide_array *a = tide_empty(rt, TIDE_U8, 1, &half), *b = tide_empty(rt, TIDE_U8, 1, &more);
    assert_array(b);
    tide_release(b);
    tide_array *x = tide_empty(two, TIDE_U8, 1, &half);
    assert_array(x);
    assert_int_equal(c.purges, 1);
    tide_release(x);
    tide_release(a);
    tide_close(two);
    tide_close(rt);
}

/* ---- host memory ends ---- */

static void registering_may_fail(void **state) {
    static const tide_allocator host = {failing_alloc, plain_free, NULL};
    struct cache c = {0};
    (void)state;
    rt = test_open(&(tide_config){.device = "host", .collector = "refcount", .allocator = &host});
    host_calls = 0;
    host_fails = 1;
    assert_int_equal(enter(&c, "none"), TIDE_E_HOST_NOMEM);
    assert_string_equal(tide_error_last()->operation, "tide_reclaimable_register");
    assert_int_equal(c.id, 0);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(c.purges + c.drops, 0);
    host_fails = 0;
    assert_ok(enter(&c, "one"));
    tide_close(rt);
    host_calls = host_fails = 0;
}

#define with_rt(f) cmocka_unit_test_setup_teardown(f, open_rt, close_rt)
int main(void) {
    const struct CMUnitTest tests[] = {
        with_rt(what_cannot_be_registered),
        with_rt(nobody_wants_the_id),
        with_rt(each_registration_is_its_own),
        with_rt(shorter_ones_are_known),
        with_rt(what_purge_releases_is_there),
        with_rt(one_may_leave_from_inside),
        with_rt(others_may_come_and_go_from_inside),
        with_rt(nothing_is_reclaimed_from_inside),
        with_rt(slots_get_the_devices_number),
        with_rt(the_device_is_put_back),
        with_rt(the_largest_come_first),
        with_rt(unregistering_waits_for_a_call),
        with_rt(caches_come_and_go_while_all_are_short),
        with_rt(who_left_a_slot_reclaims_elsewhere),
        cmocka_unit_test(unregistering_is_left),
        cmocka_unit_test(a_neighbours_thread_climbs_nowhere),
        cmocka_unit_test(registering_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
