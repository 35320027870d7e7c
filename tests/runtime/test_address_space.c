/* test_address_space.c: a process that may have few addresses (`ulimit -v`), or few in one piece:
** the runtime makes do with fewer, down to what it cannot do without, and says then what it wanted.
**
** Sanitizers take terabytes of addresses for themselves: under them the limit is a double's. */
#include <sys/resource.h>
#include "runtime/device/host/host.h"
#include "runtime/pool/tide/tide.h"
#include "tests/support/child.h"
#include "tests/support/clean_environment.h"

#define KIB TIDEI_KIB
#define MIB TIDEI_MIB
#define GIB TIDEI_GIB

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITS 0
#else
#define LIMITS 1
#endif

static size_t in_use(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    must(f && fscanf(f, "%zu", &pages) == 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* So many more addresses, and no more. */
static void leave(size_t bytes) {
    const struct rlimit r = {in_use() + bytes, in_use() + bytes};
    must(setrlimit(RLIMIT_AS, &r) == 0);
}

static size_t span_of(tide_runtime *rt) { return ((tidei_heap *)test_rt(rt)->devs[0].pool)->span; }

/* Arrays in which each element is told from the others'; some go, and others come. */
static void works_on(tide_runtime *rt, int64_t elements) {
    tide_array *a[8];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++)
            must(a[i] = tide_arange(rt, TIDE_I64, i * elements, (i + 1) * elements, 1));
        for (int i = 0; i < 8; i++) {
            tide_array *sum = tide_sum(a[i], NULL, 0, 0);
            double n = (double)elements, first = (double)i * n;
            must(tide_item_f64(sum) == n * first + n * (n - 1) / 2);
            tide_release(sum);
            tide_release(a[i]);
        }
        must_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
    }
    must(tidei_runtime_valid(test_rt(rt)));
}

/* ---- a memory that the program asked for ---- */

static const struct room {
    size_t room, memory; /* addresses left; of the host device */
    bool enough;
} rooms[] = {{8 * GIB, GIB, true},       {3 * GIB, GIB, true},        {GIB + 700 * MIB, GIB, true},
             {GIB / 2, GIB, false},      {300 * MIB, 64 * MIB, true}, {20 * GIB, 15 * GIB, true},
             {20 * GIB, 25 * GIB, false}};

static void opens_in(const void *arg) {
    const struct room *r = arg;
    char memory[32], wanted[64];
    tide_runtime *rt;
    snprintf(memory, sizeof memory, "%zu", r->memory);
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = memory,
                     .collector = "refcount",
                     .pool = "tide"};
    leave(r->room);
    tide_status status = tide_open(&c, &rt);
    if (!r->enough) { /* how much was tried, and what would help */
        must(status == TIDE_E_HOST_NOMEM);
        snprintf(wanted, sizeof wanted, "%zu at least", r->memory);
        must(strstr(tide_error_last()->message, wanted));
        must(strstr(tide_error_last()->message, "address space"));
        must(strstr(tide_error_last()->message, "TIDE_HOST_DEVICE_MEMORY"));
        must(strstr(tide_error_last()->message, "ulimit -v"));
        return;
    }
    must_ok(status);
    must(span_of(rt) >= r->memory && span_of(rt) <= 4 * r->memory && span_of(rt) < r->room);
    works_on(rt, 100000);
    tide_stream *s;
    must_ok(tide_stream_new(rt, &s));
    must_ok(tide_stream_set(rt, s));
    works_on(rt, 10000);
    tide_close(rt);
}

static void reserves_what_there_is(void **state) {
    (void)state;
    if (!LIMITS) skip();
    for (size_t i = 0; i < TIDEI_COUNT(rooms); i++) in_child_with(opens_in, &rooms[i]);
}

/* ---- as much memory as there is room for ---- */

static void opens_by_default(const void *arg) {
    size_t room = *(const size_t *)arg;
    leave(room);
    for (unsigned i = 0; i < TEST_POOLS; i++) {
        tide_config c = {.struct_size = sizeof c,
                         .device = "host",
                         .collector = "refcount",
                         .pool = test_pool(i),
                         .trace = NULL};
        tide_runtime *rt;
        must_ok(tide_open(&c, &rt));
        must(test_rt(rt)->devs[0].d->info.total_bytes <= room / 4);
        must(i || span_of(rt) <= room / 2);
        works_on(rt, 10000);
        tide_close(rt);
    }
}

/* Whatever does not fit is an error that says so. */
static void opens_or_tells(const void *arg) {
    size_t room = *(const size_t *)arg;
    tide_config c = {.struct_size = sizeof c, .device = "host", .collector = "refcount"};
    tide_runtime *rt = NULL;
    leave(room);
    tide_status status = tide_open(&c, &rt);
    must(status == TIDE_OK ||
         (status == TIDE_E_HOST_NOMEM && strlen(tide_error_last()->message) > 20) ||
         (status == TIDE_E_DEVICE && strstr(tide_error_last()->message, "thread")));
    must(room > MIB || status != TIDE_OK);
    tide_close(rt);
}

static void the_default_goes_by_the_room(void **state) {
    static const size_t sizes[] = {20 * GIB, 4 * GIB, GIB, 512 * MIB, 256 * MIB};
    (void)state;
    if (!LIMITS) skip();
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) in_child_with(opens_by_default, &sizes[i]);
    for (size_t room = 128 * MIB; room >= 64 * KIB; room /= 2) in_child_with(opens_or_tells, &room);
}

/* ---- refusals of another cause ---- */

static const size_t *refused_above; /* reservations of more bytes than this are */
static unsigned refused;
static const struct tidei_device_ops *under;
static tide_status refuse_large(tidei_device *d, size_t bytes, tidei_addr *out) {
    if (bytes <= *refused_above) return under->reserve(d, bytes, out);
    refused++;
    return tidei_fail(TIDE_E_HOST_NOMEM, "reserve", "%zu bytes are too much", bytes);
}

/* Fewer and fewer, and as many as there is memory at least. */
static void the_addresses_wanted_step_down(void **state) {
    static const struct {
        size_t most, span;
        unsigned refusals;
    } rows[] = {{256 * MIB, 256 * MIB, 0}, {200 * MIB, 128 * MIB, 1}, {128 * MIB, 128 * MIB, 1},
                {100 * MIB, 80 * MIB, 2},  {80 * MIB, 80 * MIB, 2},   {79 * MIB, 0, 3}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        tidei_device *d;
        assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 80 * MIB}, &d));
        d->info.va_bytes = 256 * MIB;
        struct tidei_device_ops ops = *d->ops;
        under = d->ops;
        ops.reserve = refuse_large;
        d->ops = &ops;
        refused_above = &rows[i].most;
        refused = 0;
        tide_runtime *rt = NULL;
        tide_config c = {.struct_size = sizeof c, .collector = "refcount", .pool = "tide"};
        tide_status status = tidei_open_on(&c, d, &rt);
        assert_int_equal(refused, rows[i].refusals);
        if (!rows[i].span) {
            assert_int_equal(status, TIDE_E_HOST_NOMEM);
            /* the last one's words */
            assert_error(TIDE_E_HOST_NOMEM, "83886080 bytes are too much");
            assert_error(TIDE_E_HOST_NOMEM,
                         "wanted 268435456 bytes at first, and 83886080 at least");
            continue;
        }
        assert_ok(status);
        assert_int_equal(span_of(rt), rows[i].span);
        tide_close(rt);
    }
}

/* ---- no address to spare ---- */

static uint32_t seed;
static unsigned below(unsigned n) { return (seed = seed * 1664525 + 1013904223) / 65536 % n; }

/* The pool has as many addresses as memory: blocks of all sizes come and go, some pinned, up to the
** last page; what is in them stays right, and nothing but memory runs out. */
static void works_without_a_spare_address(void **state) {
    enum { BLOCKS = 60 };
    (void)state;
    for (seed = 1; seed <= (test_quick() ? 3 : 12); seed++) {
        tidei_device *d;
        tide_runtime *rt;
        tide_array *a[BLOCKS] = {0};
        tide_use_scope *pin[BLOCKS] = {0};
        unsigned refusals = 0;
        uint32_t start = seed;
        assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 8 * MIB}, &d));
        d->info.va_bytes = d->info.total_bytes;
        tide_config c = {.struct_size = sizeof c, .collector = "refcount", .pool = "tide"};
        assert_ok(tidei_open_on(&c, d, &rt));
        assert_int_equal(span_of(rt), 8 * MIB);
        for (int step = 0; step < 600; step++) {
            unsigned i = below(BLOCKS);
            int64_t n = 1 + (int64_t)below(below(4) ? 5000 : 300000);
            if (pin[i]) assert_ok(tide_use_end(pin[i]));
            if (a[i]) {
                assert_true(tide_item_f64(tide_min(a[i], NULL, 0, 0)) == i);
                assert_true(tide_item_f64(tide_max(a[i], NULL, 0, 0)) == i);
            }
            tide_release(a[i]);
            pin[i] = NULL;
            a[i] = tide_full(rt, TIDE_F32, 1, &n, tide_arg_int((int64_t)i));
            if (!a[i]) {
                assert_error(TIDE_E_NOMEM, "out of memory");
                tide_error_clear();
                refusals++;
            } else if (!below(5)) {
                tide_use use = {.array = a[i], .mode = TIDE_READ};
                void *p;
                assert_ok(tide_use_begin(rt, NULL, &use, 1, &p, &pin[i]));
            }
            if (step % 100 == 0) assert_true(tidei_runtime_valid(test_rt(rt)));
        }
        assert_true(refusals < 500);
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (pin[i]) assert_ok(tide_use_end(pin[i]));
            tide_release(a[i]);
        }
        assert_true(tidei_runtime_valid(test_rt(rt)));
        int64_t all = 7 * (int64_t)MIB;
        tide_array *whole = tide_zeros(rt, TIDE_U8, 1, &all);
        assert_array(whole);
        tide_release(whole);
        tide_close(rt);
        seed = start;
    }
}

static int setup(void **state) { return (void)state, clear_environment(), 0; }

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, restore_environment)
    const struct CMUnitTest tests[] = {
        CASE(reserves_what_there_is),
        CASE(the_default_goes_by_the_room),
        CASE(the_addresses_wanted_step_down),
        CASE(works_without_a_spare_address),
    };
    return cmocka_run_group_tests_name("address_space", tests, NULL, NULL);
}
