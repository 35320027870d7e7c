/* test_bounce.c: large copies between the device and memory that is not pinned: what arrives, that
** the host and the device never have the same part of the ring, that copies of several threads do
** not meet, what is done without room or threads, and what failures leave.
**
** The device is the host's, made to look like one whose driver copies pageable memory itself, with
** the checker on; where a case wants it, each transfer takes its time. */
#include <pthread.h>
#include <unistd.h>
#include "tests/doubles/hooked_host.h"
#include "tests/support/tidetest.h"

#define MIB   ((size_t)1 << 20)
#define LEAST (4 * MIB) /* that goes this way */

/* ---- the double ---- */

static struct {
    const struct tidei_device_ops *inner;
    struct tidei_device_ops ops;
    bool pinned, slow;
    atomic_uint copies[3]; /* by kind */
    tidei_runtime *speaks; /* says something after each piece of work */
} bus;

static bool bus_host_pinned(tidei_device *d, const void *host) {
    (void)d, (void)host;
    return bus.pinned;
}
/* Longer than the caller looks for its end, for some of them. */
static void take_time(const void *params) { usleep(*(const unsigned *)params); }
static tide_status bus_copy(tidei_device *d, tidei_dstream *s, const tidei_copy *c) {
    unsigned us = 50 + atomic_fetch_add(&bus.copies[c->kind], 1) % 7 * 60;
    const tidei_launch l = {
        .name = "slow bus", .host_fn = take_time, .params = &us, .params_bytes = sizeof us};
    if (bus.slow && c->bytes > MIB / 4) assert_ok(bus.inner->launch(d, s, &l));
    return bus.inner->copy(d, s, c);
}
static void bus_speak(tidei_device *d) {
    bus.inner->speak(d);
    if (bus.speaks) tidei_log(bus.speaks, TIDE_LOG_ERROR, "something was found");
}

static tidei_device *open_bus(void) {
    tidei_device *d;
    tidei_device_params p = {.host_device_memory = 1024 * MIB, .host_checker = true};
    memset(&bus, 0, sizeof bus);
    assert_ok(tidei_host_open(&p, &d));
    bus.inner = d->ops;
    bus.ops = *d->ops;
    bus.ops.host_pinned = bus_host_pinned;
    bus.ops.copy = bus_copy;
    bus.ops.speak = bus_speak;
    d->ops = &bus.ops;
    d->info.flags |= TIDEI_DEV_COPIES_WAIT;
    return d;
}

static tide_runtime *open_on(tidei_device *d, const tide_config *given) {
    tide_config c = given ? *given : (tide_config){0};
    tide_runtime *rt = NULL;
    c.struct_size = sizeof c;
    c.collector = "refcount";
    assert_ok(tidei_open_on(&c, d, &rt));
    return rt;
}
static void close_checked(tide_runtime *rt) {
    tidei_device *d = test_rt(rt)->devs[0].d;
    assert_true(tidei_runtime_valid(test_rt(rt)));
    if (d->ops == &bus.ops) assert_int_equal(tidei_host_checker_reports(d), 0);
    tide_close(rt);
}

/* ---- data ---- */

/* 8 bytes at a time, as a sanitizer looks at each access. */
static void number(unsigned char *p, size_t n, unsigned seed) {
    uint64_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i += sizeof x) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        memcpy(p + i, &x, n - i < sizeof x ? n - i : sizeof x);
    }
}

/* There and back; the host's memory begins `shift` bytes behind a boundary. */
static void round_trip(tide_runtime *rt, size_t n, size_t shift, unsigned seed) {
    unsigned char *sent = malloc(n + shift), *got = malloc(n + shift);
    assert_true(sent && got);
    number(sent + shift, n, seed);
    memset(got, 0, n + shift);
    tide_array *a = tide_from_host(rt, TIDE_U8, SHAPE((int64_t)n), sent + shift);
    assert_array(a);
    memset(sent + shift, 0xa5, n); /* it is the caller's again */
    assert_ok(tide_to_host(a, got + shift, n));
    number(sent + shift, n, seed);
    assert_memory_equal(got + shift, sent + shift, n);
    tide_release(a);
    free(sent);
    free(got);
}

/* ---- cases ---- */

static void bytes_arrive(void **state) {
    static const size_t more[] = {0,           1,        255,          MIB,
                                  2 * MIB - 1, 12 * MIB, 12 * MIB + 1, 33 * MIB + 77};
    (void)state;
    for (int slow = 0; slow <= 1; slow++) {
        tide_runtime *rt = open_on(open_bus(), NULL);
        bus.slow = slow;
        for (unsigned i = 0; i < TIDEI_COUNT(more); i++) {
            if (slow && test_quick() && i % 3) continue;
            unsigned before = atomic_load(&bus.copies[TIDEI_COPY_D2D]);
            round_trip(rt, LEAST + more[i], i % 3, i);
            size_t pieces = (LEAST + more[i] + 2 * MIB - 1) / (2 * MIB);
            assert_int_equal(atomic_load(&bus.copies[TIDEI_COPY_D2D]), before + 2 * pieces);
        }
        assert_int_equal(atomic_load(&bus.copies[TIDEI_COPY_H2D]), 0);
        assert_int_equal(atomic_load(&bus.copies[TIDEI_COPY_D2H]), 0);
        close_checked(rt);
    }
}

/* Small copies, memory that the device reads itself, and arrays in pinned memory go directly. */
static void what_gains_nothing_goes_directly(void **state) {
    (void)state;
    tide_runtime *rt = open_on(open_bus(), NULL);
    round_trip(rt, LEAST - 1, 0, 1);
    bus.pinned = true;
    round_trip(rt, 2 * LEAST, 0, 2);
    bus.pinned = false;
    unsigned char *got = malloc(LEAST);
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, SHAPE((int64_t)LEAST));
    assert_ok(tide_memset(a, 7));
    assert_ok(tide_to_host(a, got, LEAST));
    assert_true(got[0] == 7 && got[LEAST - 1] == 7);
    assert_int_equal(atomic_load(&bus.copies[TIDEI_COPY_D2D]), 0);
    free(got);
    close_checked(rt);
}

/* Parts of a larger array, in both directions, and work before and after on the same stream. */
static void parts_of_arrays_and_work_around_them(void **state) {
    const int64_t n = (int64_t)(3 * LEAST / sizeof(float));
    float *host = malloc((size_t)n * sizeof *host);
    (void)state;
    tide_runtime *rt = open_on(open_bus(), NULL);
    bus.slow = true;
    for (int64_t i = 0; i < n; i++) host[i] = (float)(i % 1000);
    tide_array *a = tide_from_host(rt, TIDE_F32, SHAPE(n), host);
    tide_array *b = tide_map(rt, "(a) -> a * 2 + 1", a);
    tide_array *middle = tide_slice(b, "100:-100");
    assert_array(middle);
    assert_ok(tide_to_host(middle, host, (size_t)(n - 200) * sizeof *host));
    for (int64_t i = 0; i < n - 200; i++)
        if (host[i] != (float)((i + 100) % 1000 * 2 + 1)) fail_msg("element %d", (int)i);
    tide_release(a), tide_release(b), tide_release(middle);
    free(host);
    close_checked(rt);
}

/* The ring is a free block of the pinned pool afterwards, which serves the next copy, and gives
** way. */
static void the_ring_counts_and_gives_way(void **state) {
    tide_device_figures f = {.struct_size = sizeof f};
    (void)state;
    tide_runtime *rt = open_on(open_bus(), &(tide_config){.pool = "tide"});
    round_trip(rt, 40 * MIB, 0, 1);
    assert_ok(tide_device_info(rt, &f));
    size_t backed = f.pinned.backed;
    assert_true(backed >= 16 * MIB && backed <= 18 * MIB);
    assert_int_equal(f.pinned.live, 0);
    assert_int_equal(f.pinned_used, backed);
    round_trip(rt, 40 * MIB, 0, 2);
    assert_ok(tide_device_info(rt, &f));
    assert_int_equal(f.pinned.backed, backed);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
    assert_ok(tide_device_info(rt, &f));
    assert_int_equal(f.pinned.backed, 0);
    close_checked(rt);
}

static void without_room_the_driver_copies(void **state) {
    (void)state;
    tide_runtime *rt = open_on(open_bus(), &(tide_config){.pinned_limit = "1MiB"});
    tide_error_clear();
    round_trip(rt, 2 * LEAST, 0, 1);
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_int_equal(atomic_load(&bus.copies[TIDEI_COPY_D2D]), 0);
    assert_int_equal(atomic_load(&bus.copies[TIDEI_COPY_H2D]), 1);
    assert_int_equal(atomic_load(&bus.copies[TIDEI_COPY_D2H]), 1);
    /* an error that stands stays */
    assert_null(tide_slice(NULL, "0"));
    round_trip(rt, 2 * LEAST, 0, 1);
    assert_string_equal(tide_error_last()->operation, "tide_slice");
    close_checked(rt);
}

/* ---- several threads ---- */

struct program {
    tide_runtime *rt;
    unsigned number;
};
static void *copy_much(void *arg) {
    const struct program *p = arg;
    for (unsigned i = 0; i < (test_quick() ? 2 : 4); i++)
        round_trip(p->rt, LEAST + (p->number * 7 + i * 3) * MIB + i, 0, 10 * p->number + i);
    tide_thread_detach(p->rt);
    return NULL;
}

static void copies_of_several_threads(void **state) {
    pthread_t threads[4];
    struct program programs[4];
    (void)state;
    tide_runtime *rt = open_on(open_bus(), NULL);
    for (unsigned i = 0; i < 4; i++) {
        programs[i] = (struct program){rt, i};
        assert_int_equal(pthread_create(&threads[i], NULL, copy_much, &programs[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    close_checked(rt);
}

/* ---- failures ---- */

/* What can fail of it is copied in vain, or by the driver. */
static bool try_round_trip(tide_runtime *rt, unsigned char *p, size_t n) {
    tide_array *a = tide_from_host(rt, TIDE_U8, SHAPE((int64_t)n), p);
    bool done = a && tide_to_host(a, p, n) == TIDE_OK;
    tide_release(a);
    return done;
}

static void a_call_of_the_device_fails(void **state) {
    const size_t n = 20 * MIB;
    unsigned char *p = malloc(n), *wanted = malloc(n);
    static const tide_status results[] = {TIDE_E_DEVICE, TIDE_E_LOST};
    (void)state;
    number(wanted, n, 3);
    for (unsigned r = 0; r < TIDEI_COUNT(results); r++) {
        bool done = false;
        unsigned failures = 0;
        for (unsigned at = 1; !done; at += test_quick() ? 5 : 1) {
            tidei_device *d;
            assert_ok(tidei_fault_open(open_bus(), &d));
            tide_runtime *rt = open_on(d, NULL);
            memcpy(p, wanted, n);
            tidei_fault_set(d, TIDEI_FAULT_COPY, at, results[r], false);
            tide_error_clear();
            done = try_round_trip(rt, p, n);
            if (!done) {
                assert_int_equal(tide_error_last()->status, results[r]);
                failures++;
            } else
                assert_memory_equal(p, wanted, n);
            tidei_fault_set(d, TIDEI_FAULT_COPY, 0, TIDE_OK, false);
            memcpy(p, wanted, n); /* nobody reads or writes it any more */
            if (results[r] != TIDE_E_LOST) {
                assert_true(try_round_trip(rt, p, n));
                assert_memory_equal(p, wanted, n);
                assert_true(tidei_runtime_valid(test_rt(rt)));
            }
            tide_close(rt);
        }
        assert_true(failures >= (test_quick() ? 3 : 18));
    }
    free(p);
    free(wanted);
}

static void host_memory_is_refused(void **state) {
    const size_t n = 6 * MIB;
    unsigned char *p = malloc(n), *wanted = malloc(n);
    (void)state;
    number(wanted, n, 5);
    bool refused = true;
    for (uint64_t at = 1; refused; at++) {
        memset(&hook, 0, sizeof hook);
        tide_runtime *rt = open_on(open_bus(), &(tide_config){.allocator = &hooked});
        uint64_t opened = atomic_load(&hook.calls);
        memcpy(p, wanted, n);
        atomic_store(&hook.fail_at, opened + at);
        tide_error_clear();
        bool done = try_round_trip(rt, p, n);
        refused = atomic_load(&hook.calls) >= opened + at;
        atomic_store(&hook.fail_at, 0);
        if (done)
            assert_memory_equal(p, wanted, n);
        else
            assert_int_equal(tide_error_last()->status, TIDE_E_HOST_NOMEM);
        close_checked(rt);
        assert_int_equal(atomic_load(&hook.held), 0);
    }
    free(p);
    free(wanted);
}

/* ---- a longjmp ---- */

static struct {
    jmp_buf catcher;
    unsigned at, said;
} leaver;

static void leave_log(void *user, int level, const char *line) {
    (void)user, (void)level;
    if (strstr(line, "something was found") && ++leaver.said == leaver.at)
        longjmp(leaver.catcher, 1);
}

static __attribute__((noinline)) bool copy_and_leave(tide_runtime *rt, unsigned char *p, size_t n) {
    if (setjmp(leaver.catcher)) return true;
    (void)try_round_trip(rt, p, n);
    return false;
}

/* Out of a callback in the middle: at the next call no thread works on that copy any more. */
static void a_callback_leaves_the_copy(void **state) {
    const size_t n = 24 * MIB;
    (void)state;
    bool left = true;
    for (unsigned at = 1; left; at += test_quick() ? 13 : 3) {
        unsigned char *p = malloc(n), *wanted = malloc(n);
        tide_runtime *rt =
            open_on(open_bus(), &(tide_config){.log = leave_log, .log_level = TIDE_LOG_ERROR});
        number(wanted, n, at);
        memcpy(p, wanted, n);
        leaver.at = at;
        leaver.said = 0;
        bus.speaks = test_rt(rt);
        left = copy_and_leave(rt, p, n);
        bus.speaks = NULL;
        tide_safepoint(rt); /* notices */
        if (left) assert_error(TIDE_E_INVALID, "was left without a return");
        memcpy(p, wanted, n); /* nobody reads or writes it any more */
        assert_true(try_round_trip(rt, p, n));
        assert_memory_equal(p, wanted, n);
        tide_device_figures f = {.struct_size = sizeof f};
        assert_ok(tide_device_info(rt, &f));
        assert_int_equal(f.pinned.live, 0); /* the ring went back */
        free(p);
        free(wanted);
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive),
        cmocka_unit_test(what_gains_nothing_goes_directly),
        cmocka_unit_test(parts_of_arrays_and_work_around_them),
        cmocka_unit_test(the_ring_counts_and_gives_way),
        cmocka_unit_test(without_room_the_driver_copies),
        cmocka_unit_test(copies_of_several_threads),
        cmocka_unit_test(a_call_of_the_device_fails),
        cmocka_unit_test(host_memory_is_refused),
        cmocka_unit_test(a_callback_leaves_the_copy),
    };
    return cmocka_run_group_tests_name("bounce", tests, NULL, NULL);
}
