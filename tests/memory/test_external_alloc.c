/* test_external_alloc.c: pools lent to others by address (tide_pool_malloc), streams of others
** (tide_stream_wrap), PyTorch's form. */
#include "tests/doubles/failing_host.h"
#include "tests/support/runtime_half.h"
#include "runtime/pool/pools.h"

#define KIB TIDEI_KIB
#define MIB TIDEI_MIB

static tide_runtime *open_with(const char *pool, const char *limit) {
    return test_open(&(tide_config){
        .collector = "refcount", .pool = pool, .limit = limit, .gc_early = TIDE_OFF});
}

static uint32_t dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* ---- blocks ---- */

/* Many at once: the table grows, and finds each again. */
static void blocks_come_and_go(void **state) {
    (void)state;
    enum { SLOTS = 3000 };
    tide_runtime *rt = open_with("tide", NULL);
    tide_pool *p = tide_pool_default(rt);
    static void *at[SLOTS];
    uint64_t seed = 1;
    memset(at, 0, sizeof at);
    tide_error_clear(); /* another case's; tide_pool_free tells its own this way alone */
    for (unsigned i = 0, n = test_quick() ? 5000 : 20000; i < n; i++) {
        unsigned k = dice(&seed) % SLOTS;
        if (at[k]) {
            tide_pool_free(p, NULL, at[k]);
            at[k] = NULL;
        } else {
            at[k] = tide_pool_malloc(p, NULL, dice(&seed) % 5000); /* zero bytes too */
            assert_non_null(at[k]);
            for (unsigned j = 0; j < 5; j++) { /* nobody else has it */
                unsigned other = dice(&seed) % SLOTS;
                assert_true(other == k || at[other] != at[k]);
            }
        }
    }
    for (unsigned k = 0; k < SLOTS; k++) tide_pool_free(p, NULL, at[k]);
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    tide_pool_figures s = {.struct_size = sizeof s};
    assert_ok(tide_pool_info(p, &s));
    assert_int_equal(s.live + s.pinned, 0);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

enum { CROWD = 4 };
static void *lend_and_return(void *arg) {
    tide_pool *p = arg;
    void *at[20];
    for (unsigned i = 0; i < (test_quick() ? 20u : 100u); i++) {
        for (unsigned k = 0; k < TIDEI_COUNT(at); k++)
            assert_non_null(at[k] = tide_pool_malloc(p, NULL, 100 + k));
        for (unsigned k = 0; k < TIDEI_COUNT(at); k++) tide_pool_free(p, NULL, at[k]);
    }
    return NULL;
}
static void threads_lend_at_once(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide", NULL);
    pthread_t t[CROWD];
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&t[i], NULL, lend_and_return, tide_pool_default(rt)), 0);
    for (unsigned i = 0; i < CROWD; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(test_stats(rt).live, 0);
    tide_close(rt);
}

static void a_lent_block_is_pinned_and_counted(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide", NULL);
    tide_pool *p;
    assert_ok(tide_pool_new(rt, NULL, &p));
    void *a = tide_pool_malloc(p, NULL, 5000);
    tide_pool_figures s = {.struct_size = sizeof s};
    assert_ok(tide_pool_info(p, &s));
    assert_int_equal(s.live, 5000);
    assert_int_equal(s.pinned, 5000);
    tide_pool_free(tide_pool_default(rt), NULL, a); /* the pool names the runtime only */
    assert_ok(tide_pool_info(p, &s));
    assert_int_equal(s.live + s.pinned, 0);
    assert_non_null(tide_pool_malloc(p, NULL, 70)); /* lent when the runtime closes */
    tide_close(rt);
}

/* ---- order ---- */

/* Work stays queued on the stream that a block was freed on: another stream may not have it, that
** stream may. */
static void blocks_come_back_in_the_streams_order(void **state) {
    (void)state;
    tide_runtime *rt =
        half_open(&(tide_config){.struct_size = sizeof(tide_config), .limit = "2MiB"}, 64 * MIB)
            ->ref;
    tidei_dev *d = &test_rt(rt)->devs[0];
    tide_stream *s[2];
    atomic_int gate = 0;
    tidei_storage *held;
    for (unsigned i = 0; i < 2; i++) assert_ok(tide_stream_new(rt, &s[i]));
    assert_ok(tidei_storage_new(d, 64 * KIB, test_stream(s[0]), "test", &held));
    char *a = tide_pool_malloc(tide_pool_default(rt), s[0], MIB);
    /* stands for work on a's memory */
    assert_ok(submit_work(test_stream(s[0]), held, NULL, 1, &gate));
    tide_pool_free(tide_pool_default(rt), s[0], a);
    char *b = tide_pool_malloc(tide_pool_default(rt), s[1], 512 * KIB);
    assert_true(b && (b >= a + MIB || b + 512 * KIB <= a));
    char *c = tide_pool_malloc(tide_pool_default(rt), s[0], MIB);
    assert_ptr_equal(c, a);
    tide_pool_free(tide_pool_default(rt), s[0], c);
    uint64_t waits = d->waits->device_waits;
    char *e =
        /* the limit leaves only that one: s[1] waits for it */
        tide_pool_malloc(tide_pool_default(rt), s[1], MIB);
    assert_ptr_equal(e, a);
    assert_int_equal(d->waits->device_waits, waits + 1);
    assert_true(test_stream(s[1])->seen[test_stream(s[0])->slot] >=
                test_stream(s[0])->submitted - 1);
    atomic_store(&gate, 1);
    tide_pool_free(tide_pool_default(rt), s[1], b);
    tide_pool_free(tide_pool_default(rt), s[1], e);
    tidei_storage_release(held);
    half_close(test_rt(rt));
}

/* ---- short of memory, and failures ---- */

static void malloc_climbs_and_reports(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide", "16MiB");
    tide_pool *p = tide_pool_default(rt), *mine;
    assert_ok(tide_pool_new(rt, NULL, &mine));
    tide_pool_free(p, NULL, tide_pool_malloc(p, NULL, 12 * MIB));
    void *a = tide_pool_malloc(mine, NULL, 12 * MIB); /* what p holds free is given back */
    assert_non_null(a);
    assert_null(tide_pool_malloc(p, NULL, 12 * MIB));
    assert_error(TIDE_E_NOMEM, "wanted by tide_pool_malloc");
    assert_null(tide_pool_malloc(p, NULL, SIZE_MAX));
    assert_error(TIDE_E_NOMEM, "16 EiB");
    tide_pool_free(mine, NULL, a);
    tide_close(rt);
}

static void bad_input_is_named(void **state) {
    (void)state;
    tide_runtime *rt = open_with("tide", NULL), *two = open_with("tide", NULL);
    tide_pool *p = tide_pool_default(rt);
    tide_stream *foreign = tide_stream_current(two), *s = NULL;
    int here;
    assert_null(tide_pool_malloc(NULL, NULL, 1));
    assert_error(TIDE_E_INVALID, "the pool is NULL");
    assert_null(tide_pool_malloc(p, foreign, 1));
    assert_error(TIDE_E_INVALID, "another device's");
    tide_error_clear();
    tide_pool_free(p, NULL, NULL);
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    tide_pool_free(p, NULL, &here); /* nothing was lent yet */
    assert_error(TIDE_E_INVALID, "is lent at 0x");
    char *a = tide_pool_malloc(p, NULL, 1000);
    tide_error_clear();
    tide_pool_free(p, NULL, a + 1);
    assert_error(TIDE_E_INVALID, "is lent at 0x");
    tide_pool_free(p, NULL, a);
    tide_error_clear();
    tide_pool_free(p, NULL, a);
    assert_error(TIDE_E_INVALID, "is lent at 0x");
    if (test_on_host()) assert_int_equal(tide_stream_wrap(rt, NULL, &s), TIDE_E_UNSUPPORTED);
    assert_int_equal(tide_stream_wrap(NULL, NULL, &s), TIDE_E_INVALID);
    tide_close(two);
    tide_close(rt);
}

static void every_host_allocation_may_fail(void **state) {
    (void)state;
    tide_allocator hook = {failing_alloc, plain_free, NULL};
    void *a = NULL;
    for (long n = 1; !a; n++) {
        host_fails = 0;
        tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .allocator = &hook});
        tide_pool *p = tide_pool_default(rt);
        host_calls = 0;
        host_fails = n;
        a = tide_pool_malloc(p, NULL, 1000);
        host_fails = 0;
        if (!a) assert_int_equal(tide_error_last()->status, TIDE_E_HOST_NOMEM);
        assert_int_equal(test_stats(rt).live, a ? 1000 : 0);
        assert_int_equal(test_user_pool(p)->pinned, a ? 1000 : 0);
        tide_pool_free(p, NULL, a);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        tide_close(rt);
    }
}

/* ---- streams of others ---- */

/* A host device that has native streams: the name of one is where it keeps what it got. */
static const struct tidei_device_ops *inner;
static void *adopted;
static tide_status adopt(tidei_device *d, void *native, tidei_dstream **out) {
    adopted = native;
    return inner->stream_new(d, out);
}

static void streams_of_others_are_wrapped(void **state) {
    (void)state;
    tidei_device_params params = {.host_device_memory = 64 * MIB, .host_checker = true};
    tide_config c = {.struct_size = sizeof c, .pool = "tide"};
    tidei_device *device, *d;
    tidei_runtime *opened;
    tide_stream *s;
    tidei_storage *st;
    assert_ok(tidei_host_open(&params, &d));
    inner = d->ops;
    struct tidei_device_ops with = *d->ops;
    with.stream_adopt = adopt;
    d->ops = &with;
    assert_ok(tidei_fault_open(d, &device));
    assert_ok(tidei_runtime_open_on(&c, device, &opened));
    tide_runtime *rt = opened->ref;
    assert_ok(tide_stream_wrap(rt, &params, &s));
    assert_ptr_equal(adopted, &params);
    assert_ok(
        /* a stream as any other */
        tidei_storage_new(&test_rt(rt)->devs[0], 1000, test_stream(s), "test", &st));
    assert_ok(submit_work(test_stream(s), st, NULL, 5, NULL));
    assert_int_equal(first_byte(st), 5);
    tidei_storage_release(st);
    tide_stream_release(s);
    tidei_fault_set(device, TIDEI_FAULT_STREAM_NEW, 1, TIDE_E_DEVICE, false);
    assert_int_equal(tide_stream_wrap(rt, NULL, &s), TIDE_E_DEVICE);
    assert_ok(tidei_streams_wait_all(&test_rt(rt)->devs[0], true));
    tidei_runtime_close(opened);
}

/* ---- PyTorch's form ---- */

static void torch_gets_memory(void **state) {
    (void)state;
    for (unsigned round = 0; round < 2; round++) { /* open again after a close */
        tide_error_clear();
        char *a = tide_torch_malloc(1000, 0, NULL), *b = tide_torch_malloc(3 * MIB, 0, NULL);
        assert_true(a && b && a != b);
        assert_int_equal(tide_error_last()->status, TIDE_OK); /* though there may be no GPU */
        tide_torch_free(a, 1000, 0, NULL);
        tide_torch_free(b, 3 * MIB, 0, NULL);
        char *again = tide_torch_malloc(1000, 0, NULL);
        assert_non_null(again);
        const char *pool = getenv("TIDE_POOL");
        if (!pool || strcmp(pool, "tide") == 0) assert_ptr_equal(again, a); /* the same stream's */
        a = again;
        tide_torch_free(a, 1000, 0, NULL);
        tide_torch_free(NULL, 0, 0, NULL);
        assert_null(tide_torch_malloc(-1, 0, NULL));
        assert_error(TIDE_E_INVALID, "-1 bytes");
        assert_null(tide_torch_malloc(1, 64, NULL));
        assert_error(TIDE_E_INVALID, "no device 64");
        assert_string_equal(tide_error_last()->operation, "tide_torch_malloc");
        tide_torch_free(a, 1000, 64, NULL);
        assert_error(TIDE_E_INVALID, "no device 64");
        assert_string_equal(tide_error_last()->operation, "tide_torch_free");
        assert_null(tide_torch_malloc((ptrdiff_t)1 << 60, 0, NULL));
        assert_error(TIDE_E_NOMEM, "out of memory");
        assert_string_equal(tide_error_last()->operation, "tide_torch_malloc");
        if (test_on_host()) {
            void *other = tide_torch_malloc(10, 3, NULL); /* another device, another runtime */
            assert_non_null(other);
            tide_torch_free(other, 10, 3, NULL);
        }
        tide_torch_close();
        tide_torch_free(a, 1000, 0, NULL); /* nothing is open: nothing happens */
    }
    tide_torch_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_and_go),
        cmocka_unit_test(threads_lend_at_once),
        cmocka_unit_test(a_lent_block_is_pinned_and_counted),
        cmocka_unit_test(blocks_come_back_in_the_streams_order),
        cmocka_unit_test(malloc_climbs_and_reports),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(every_host_allocation_may_fail),
        cmocka_unit_test(streams_of_others_are_wrapped),
        cmocka_unit_test(torch_gets_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
