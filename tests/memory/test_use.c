/* test_use.c: memory lent to others' kernels (tide_use_begin, tide_use_end): addresses, order among
** streams, errors. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include "runtime/device/host/host.h"
#include "tests/doubles/failing_host.h"
#include "tests/support/works.h"

static void lent_memory_is_ordered_and_comes_back(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_stream *s, *other;
    tide_use_scope *scope;
    void *p[2];
    unsigned char out[64];
    (void)state;
    assert_ok(tide_stream_new(rt, &s));
    assert_ok(tide_stream_new(rt, &other));
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(64)),
               *row = tide_slice(tide_reshape(a, SHAPE(8, 8)), "3");
    tide_use uses[] = {{.array = a, .mode = TIDE_WRITE},
                       {.array = tide_slice(a, "::-1"), .mode = TIDE_READ}};
    assert_ok(tide_use_begin(rt, s, uses, 2, p, &scope));
    /* of the first element, which is the last byte */
    assert_int_equal((char *)p[1] - (char *)p[0], 63);
    own_fill(test_stream(s), p[0], 7, 64);
    assert_ok(tide_use_end(scope));
    /* The scope's work is the array's history: others wait for it, on the device. */
    uint64_t waits = test_stats(rt).host_waits;
    assert_ok(tide_stream_set(rt, other));
    tide_array *b = tide_map(rt, "(a) -> a + 1", row);
    assert_array(b);
    assert_int_equal(test_stats(rt).host_waits, waits);
    assert_ok(tide_to_host(b, out, 8));
    for (int i = 0; i < 8; i++) assert_int_equal(out[i], 8);
    /* NULL: the current stream. Freed inside the scope: it stays usable until the end, and its
    ** memory is its own. */
    size_t live = test_stats(rt).live;
    tide_array *c = tide_zeros(rt, TIDE_U8, SHAPE(64)), *copy = tide_zeros(rt, TIDE_U8, SHAPE(64));
    tide_use more[] = {{.array = c, .mode = TIDE_READ | TIDE_WRITE},
                       {.array = copy, .mode = TIDE_WRITE}};
    assert_ok(tide_use_begin(rt, NULL, more, 2, p, &scope));
    tide_free(c);
    tide_array *later = tide_zeros(rt, TIDE_U8, SHAPE(64));
    assert_int_equal(test_stats(rt).live, live + 3 * 64);
    own_fill(test_stream(other), p[0], 9, 64);
    own_fill(test_stream(other), p[1], 4, 64);
    assert_ok(tide_use_end(scope));
    assert_int_equal(test_stats(rt).live, live + 2 * 64);
    assert_ok(tide_to_host(later, out, 64));
    for (int i = 0; i < 64; i++) assert_int_equal(out[i], 0);
    assert_ok(tide_to_host(copy, out, 64));
    for (int i = 0; i < 64; i++) assert_int_equal(out[i], 4);
    assert_ok(tide_device_synchronize(rt));
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

/* A stream that is released inside a scope serves it to its end, and what the scope used is done
** afterwards. */
static void a_scope_keeps_its_stream(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_stream *s;
    tide_use_scope *scope;
    void *p;
    unsigned char out[64];
    (void)state;
    assert_ok(tide_stream_new(rt, &s));
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(64));
    tide_use use = {.array = a, .mode = TIDE_WRITE};
    assert_ok(tide_device_synchronize(rt));
    tidei_stream *inner = test_stream(s);
    assert_ok(tide_use_begin(rt, s, &use, 1, &p, &scope));
    tide_stream_release(s);
    assert_non_null(inner->ds);
    own_fill(inner, p, 7, 64);
    assert_ok(tide_use_end(scope));
    assert_ok(tide_to_host(a, out, 64));
    assert_int_equal(out[0], 7);
    tide_free(a);
    assert_ok(tide_device_synchronize(rt));
    assert_int_equal(test_stats(rt).pending, 0);
    tidei_streams_sweep(&test_rt(rt)->devs[0], false);
    assert_null(inner->ds);
    tide_close(rt);
}

/* Functions on the host device, the first of which stands at a gate: who depends on it waits on the
** device, who does not is done meanwhile, and the host goes on. */
struct step {
    atomic_int *gate;
    unsigned char *to;
    const unsigned char *from;
    int add;
};
static void run_step(void *arg) {
    struct step *x = arg;
    while (x->gate && !atomic_load(x->gate)) sched_yield();
    for (int i = 0; i < 64; i++) x->to[i] = (unsigned char)((x->from ? x->from[i] : 0) + x->add);
}

static tide_status step_on(tide_runtime *rt, tide_stream *s, struct step *x, tide_array *to,
                           tide_array *from) {
    tide_use uses[] = {{.array = to, .mode = TIDE_WRITE}, {.array = from, .mode = TIDE_READ}};
    tide_use_scope *scope;
    void *p[2] = {NULL, NULL};
    tide_status status = tide_use_begin(rt, s, uses, from ? 2 : 1, p, &scope);
    if (status != TIDE_OK) return status;
    x->to = p[0];
    x->from = p[1];
    status = tide_use_launch(scope, run_step, x);
    tide_status end = tide_use_end(scope);
    return status == TIDE_OK ? end : status;
}

static void scopes_order_streams(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
    tide_stream *s[3];
    atomic_int gate = 0;
    (void)state;
    if (!test_on_host()) {
        tide_array *a = bytes(rt, 64);
        tide_use use = {.array = a, .mode = TIDE_READ};
        tide_use_scope *scope;
        void *p;
        assert_ok(tide_use_begin(rt, NULL, &use, 1, &p, &scope));
        assert_int_equal(tide_use_launch(scope, run_step, &gate), TIDE_E_UNSUPPORTED);
        assert_error(TIDE_E_UNSUPPORTED, "tide_stream_native");
        assert_ok(tide_use_end(scope));
        tide_close(rt);
        return;
    }
    for (int i = 0; i < 3; i++) assert_ok(tide_stream_new(rt, &s[i]));
    tide_array *a = bytes(rt, 64), *b = bytes(rt, 64), *c = bytes(rt, 64), *d = bytes(rt, 64);
    struct step first = {.gate = &gate, .add = 1}, second = {.add = 2}, third = {.add = 3},
                apart = {.add = 9};
    tide_runtime_figures before = test_stats(rt);
    assert_ok(step_on(rt, s[0], &first, a, NULL));
    assert_ok(step_on(rt, s[1], &second, b, a)); /* waits, on the device */
    assert_ok(step_on(rt, s[2], &third, c, b));
    assert_ok(step_on(rt, NULL, &apart, d, NULL));
    assert_ok(tide_synchronize(rt, NULL)); /* the default stream has nothing to wait for */
    tide_runtime_figures after = test_stats(rt);
    assert_int_equal(after.device_waits - before.device_waits, 2);
    assert_int_equal(after.launches - before.launches, 4);
    assert_true(after.host_waits - before.host_waits <= 1);
    atomic_store(&gate, 1);
    unsigned char out[64];
    assert_ok(tide_to_host(c, out, 64));
    assert_int_equal(out[63], 6);
    /* Readers of one array do not wait for each other. */
    assert_ok(tide_device_synchronize(rt));
    before = test_stats(rt);
    atomic_store(&gate, 0);
    first.add = 1;
    assert_ok(step_on(rt, s[0], &first, b, a));
    assert_ok(step_on(rt, s[1], &second, d, a));
    assert_ok(tide_synchronize(rt, s[1]));
    assert_int_equal(test_stats(rt).device_waits - before.device_waits, 0);
    atomic_store(&gate, 1);
    assert_ok(tide_device_synchronize(rt));
    assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    tide_close(rt);
}

static void wrong_lending_is_refused(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_use many[65], use = {.array = bytes(rt, 64), .mode = TIDE_READ};
    tide_use_scope *scope = NULL;
    void *p[65] = {NULL};
    (void)state;
    for (int i = 0; i < 65; i++) many[i] = use;
    size_t live = test_stats(rt).live;
    assert_int_equal(tide_use_begin(NULL, NULL, &use, 1, p, &scope), TIDE_E_INVALID);
    assert_int_equal(tide_use_begin(rt, NULL, NULL, 1, p, &scope), TIDE_E_INVALID);
    assert_int_equal(tide_use_begin(rt, NULL, &use, 1, NULL, &scope), TIDE_E_INVALID);
    assert_int_equal(tide_use_begin(rt, NULL, &use, 1, p, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_use_begin(rt, NULL, many, 65, p, &scope), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "65 uses");
    many[3].mode = 0;
    assert_int_equal(tide_use_begin(rt, NULL, many, 64, p, &scope), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "use 3");
    many[3].mode = 4;
    assert_int_equal(tide_use_begin(rt, NULL, many, 64, p, &scope), TIDE_E_INVALID);
    tide_array *stretched = tide_broadcast_to(use.array, SHAPE(2, 64));
    many[3] = (tide_use){.array = stretched, .mode = TIDE_READ | TIDE_WRITE};
    assert_int_equal(tide_use_begin(rt, NULL, many, 64, p, &scope), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID,
                 "use 3 writes a stretched view: several of its elements lie in one place");
    many[3].mode = TIDE_READ;
    assert_ok(tide_use_begin(rt, NULL, many, 4, p, &scope));
    assert_ok(tide_use_end(scope));
    p[0] = scope = NULL;
    tide_release(stretched);
    many[3] = (tide_use){.array = bytes(rt, 8), .mode = TIDE_WRITE};
    tide_free(many[3].array);
    assert_int_equal(tide_use_begin(rt, NULL, many, 64, p, &scope), TIDE_E_FREED);
    tide_error_clear();
    many[3].array = NULL;
    assert_int_equal(tide_use_begin(rt, NULL, many, 64, p, &scope), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "NULL");
    assert_null(scope);
    assert_null(p[0]);
    many[3] = use;
    assert_ok(tide_use_begin(rt, NULL, many, 64, p, &scope)); /* 64 uses, of one array */
    for (int i = 0; i < 64; i++) assert_ptr_equal(p[i], p[0]);
    assert_int_equal(tide_use_launch(scope, NULL, NULL), TIDE_E_INVALID);
    assert_ok(tide_use_end(scope));
    /* nothing lent: a tick all the same */
    assert_ok(tide_use_begin(rt, NULL, NULL, 0, NULL, &scope));
    assert_ok(tide_use_end(scope));
    assert_int_equal(tide_use_end(NULL), TIDE_E_INVALID);
    assert_int_equal(tide_use_launch(NULL, run_step, NULL), TIDE_E_INVALID);
    tide_stream *s;
    assert_ok(tide_stream_new(rt, &s));
    tide_stream_release(s);
    assert_int_equal(tide_use_begin(rt, s, &use, 1, p, &scope), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "released");
    assert_int_equal(test_stats(rt).live, live);
    works(rt);
    tide_close(rt);
}

/* ---- an end that is left ---- */

static jmp_buf caught;
static bool leaves;
static void wait_or_leave(void *self, void (*fn)(void *arg), void *arg) {
    (void)self;
    if (leaves) longjmp(caught, 1);
    fn(arg);
}
static int collect_nothing(void *self, int level) {
    return (void)self, (void)level, TIDE_COLLECT_DONE;
}
static struct { atomic_int gate, done; } work;
static void stand_at_the_gate(void *unused) {
    (void)unused;
    while (!atomic_load(&work.gate)) sched_yield();
    usleep(20000);
    atomic_store(&work.done, 1);
}
/* Deeper on the stack than the call that comes after it. */
static __attribute__((noinline)) void end_deep(tide_use_scope *scope) {
    volatile char room[16384];
    room[0] = 0;
    (void)!tide_use_end(scope);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}

/* There is no host memory for the history of a part, so the end waits; left there, it gives back
** all that the scope had, once the work is over. */
static void an_end_that_waits_is_left(void **state) {
    static const tide_allocator host = {failing_alloc, plain_free, NULL};
    tide_stream *second;
    tide_use_scope *scope;
    void *p;
    uint64_t id;
    (void)state;
    if (!test_on_host()) skip();
    tide_runtime *volatile rt =
        test_open(&(tide_config){.collector = "refcount", .allocator = &host});
    const tide_collector table = {.struct_size = sizeof table,
                                  .name = "host",
                                  .collect = collect_nothing,
                                  .blocking = wait_or_leave};
    assert_ok(tide_collector_register(rt, &table, &id));
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(64)), *half = tide_slice(a, ":32");
    tide_use use = {.array = half, .mode = TIDE_WRITE};
    assert_ok(tide_use_begin(rt, NULL, &use, 1, &p, &scope));
    assert_ok(tide_use_launch(scope, stand_at_the_gate, NULL));
    tide_release(half);
    tide_release(a);
    assert_ok(tide_stream_new(rt, &second)); /* from here on parts are told apart */
    host_fails = host_calls + 1;
    leaves = true;
    if (!setjmp(caught)) {
        end_deep(scope);
        fail_msg("nobody waited");
    }
    leaves = false;
    host_fails = 0;
    atomic_store(&work.gate, 1);
    tide_safepoint(rt);
    assert_error(TIDE_E_INVALID, "blocking of the collector \"host\" was left without a return");
    assert_int_equal(atomic_load(&work.done), 1);
    assert_int_equal(tide_use_end(scope), TIDE_E_INVALID);
    tide_error_clear();
    tide_safepoint(rt);
    tide_pool_figures s = {.struct_size = sizeof s};
    assert_ok(tide_pool_info(tide_pool_default(rt), &s));
    assert_int_equal(s.live + s.pinned, 0);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lent_memory_is_ordered_and_comes_back),
        cmocka_unit_test(a_scope_keeps_its_stream),
        cmocka_unit_test(scopes_order_streams),
        cmocka_unit_test(wrong_lending_is_refused),
        cmocka_unit_test(an_end_that_waits_is_left),
    };
    return cmocka_run_group_tests_name("use", tests, NULL, NULL);
}
