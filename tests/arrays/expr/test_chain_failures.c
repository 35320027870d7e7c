/* test_chain_failures.c: chains on a device that takes text (text_host.h), where the n-th
** allocation of host memory or the n-th call of the device fails, until none does: an error each
** time, and nothing is left behind. */
#include "tests/doubles/text_host.h"
#include "tests/doubles/failing_host.h"
#include "runtime/device/device.h"
#include "tests/support/tidetest.h"

static unsigned chains; /* whose text was compiled; without memory for one the passes do it */
static void text_host_saw(const char *source) { chains += strstr(source, "tide_stage") != NULL; }

/* A public function, or an expression's text: what a user called. */
static bool is_public(const char *operation) {
    return !strncmp(operation, "tide_", 5) || strstr(operation, "->");
}

/* Two chains of which one value is stored, and one with an out over its operand. */
static tide_status work(tide_runtime *rt) {
    static const char text[] = "(x) -> let e = exp(x - max(x, axis=1, keepdims=true));"
                               " let s = sum(e, axis=1, keepdims=true); (e / s, mean(log(s), "
                               "axis=(0, 1)), min(x, axis=1))";
    tide_array *outs[3];
    tide_status s = tide_scope_begin(rt);
    if (s != TIDE_OK) return s;
    tide_array *x = tide_zeros(rt, TIDE_F32, 2, (const int64_t[]){8, 64});
    s = x ? tide_map_many(rt, outs, 3, text, x) : tidei_last_status();
    if (s == TIDE_OK) s = tide_map_into(x, "(x) -> x - mean(x, axis=1, keepdims=true)", x);
    /* a fold by itself, of a cluster that the device has to be asked for */
    tide_array *y = s == TIDE_OK ? tide_zeros(rt, TIDE_F64, 1, (const int64_t[]){70000}) : NULL;
    if (s == TIDE_OK) s = y && tide_mean(y, NULL, 0, 0) ? TIDE_OK : tidei_last_status();
    /* one in two steps */
    tide_array *z =
        s == TIDE_OK ? tide_zeros(rt, TIDE_U8, 3, (const int64_t[]){64, 128, 129}) : NULL;
    if (s == TIDE_OK)
        s = z && tide_mean(z, (const int[]){0, 2}, 2, 0) ? TIDE_OK : tidei_last_status();
    assert_true(s == TIDE_OK || is_public(tide_error_last()->operation));
    assert_ok(tide_scope_end(rt));
    return s;
}

static tide_status open_text(const tide_config *c, tidei_device **device, tide_runtime **rt) {
    tidei_device *inner;
    assert_ok(text_host_open(16 << 20, &inner));
    assert_ok(tidei_fault_open(inner, device));
    return tidei_open_on(c, *device, rt);
}

static void host_memory_fails(void **state) {
    const tide_allocator memory = {failing_alloc, plain_free, NULL};
    bool failed = true;
    long n = 1;
    (void)state;
    for (; failed; n++) {
        const tide_config c = {.struct_size = sizeof c,
                               .collector = "refcount",
                               .allocator = &memory,
                               .cache = TIDE_OFF};
        tidei_device *device;
        tide_runtime *rt;
        host_fails = 0;
        assert_ok(open_text(&c, &device, &rt));
        host_calls = 0, host_fails = n;
        tide_status s = work(rt);
        failed = host_calls >= n; /* some are done without */
        host_fails = 0;
        assert_true(s == TIDE_OK || s == TIDE_E_HOST_NOMEM);
        assert_ok(tide_device_synchronize(rt));
        assert_int_equal(test_stats(rt).live, 0);
        assert_ok(work(rt));
        tide_close(rt);
        assert_true(n < 2000);
    }
    assert_true(n > 20 && chains > 20);
}

static void device_calls_fail(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        bool failed = true;
        for (uint64_t n = 1; failed; n++) {
            const tide_config c = {
                .struct_size = sizeof c, .collector = "refcount", .cache = TIDE_OFF};
            tidei_device *device;
            tide_runtime *rt;
            assert_ok(open_text(&c, &device, &rt));
            const uint64_t before = tidei_fault_calls(device, TIDEI_FAULT_ANY);
            tidei_fault_set(device, TIDEI_FAULT_ANY, n, kind ? TIDE_E_DEVICE : TIDE_E_NOMEM,
                            kind == 0);
            tide_status s = work(rt);
            failed = tidei_fault_calls(device, TIDEI_FAULT_ANY) - before >= n;
            tidei_fault_set(device, TIDEI_FAULT_ANY, 0, TIDE_OK, false);
            /* some are done without: who asks whether the device takes clusters */
            assert_true(s == TIDE_OK || s == TIDE_E_NOMEM || s == TIDE_E_DEVICE);
            assert_ok(tide_device_synchronize(rt));
            assert_true(tidei_runtime_valid(test_rt(rt)));
            assert_int_equal(test_stats(rt).live, 0);
            tide_close(rt);
            assert_true(n < 2000);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory_fails),
        cmocka_unit_test(device_calls_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
