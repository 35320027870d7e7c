/* test_early.c: a program's first start, over doubles of the driver and of the compiler: the
** kernels that are compiled while the device opens are those that the first calls ask for. One
** case: a process opens the compiler once. */
#include <dlfcn.h>
#include <unistd.h>
#include "tests/doubles/cuda_double.h"

static nvrtc_double *rtc;
static tidei_cu slow;

/* A context that takes as long as two texts. */
static tidei_cu_result retain(tidei_cu_ctx *out, tidei_cu_device dev) {
    for (int i = 0; i < 20000 && *(volatile int *)&rtc->compiled < 2; i++) usleep(1000);
    return driver.cuDevicePrimaryCtxRetain(out, dev);
}

static tide_runtime *open_in(const char *folder) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = "cuda",
                     .collector = "refcount",
                     .cache = 1,
                     .cache_dir = folder};
    assert_ok(tide_open(&c, &rt));
    return rt;
}

static void has_kernels(tide_runtime *rt, uint64_t compiled, uint64_t loaded) {
    const tide_runtime_figures s = test_stats(rt);
    if (s.kernels_compiled != compiled || s.kernels_loaded != loaded)
        fail_msg("%d compiled, %d loaded; wanted %d, %d", (int)s.kernels_compiled,
                 (int)s.kernels_loaded, (int)compiled, (int)loaded);
}

static void first_calls_find_their_kernels(void **state) {
    char above[] = "/tmp/tide-early-XXXXXX", folder[64], command[128];
    (void)state;
    rtc = dlsym(dlopen(NVRTC_DOUBLE, RTLD_NOW | RTLD_LOCAL), "tidetest_nvrtc");
    assert_non_null(rtc);
    assert_non_null(mkdtemp(above));
    snprintf(folder, sizeof folder, "%s/kernels", above);
    slow = driver;
    slow.cuDevicePrimaryCtxRetain = retain;
    tidei_cu_use(&slow);
    assert_int_equal(unsetenv("TIDE_CACHE"), 0);

    tide_runtime *rt = open_in(folder);
    has_kernels(rt, 2, 0);
    tide_array *x = tide_arange(rt, TIDE_F32, 0, 1 << 20, 1);
    assert_array(x);
    has_kernels(rt, 2, 1);
    tide_array *sum = tide_map(rt, "(x, a) -> sum(sqrt(x*x + a))", x, 2.0);
    assert_array(sum);
    has_kernels(rt, 3, 2); /* the sum itself, and what joins its parts */
    tide_free(x), tide_free(sum);
    tide_close(rt);

    rt = open_in(folder); /* they are there now */
    has_kernels(rt, 0, 0);
    x = tide_arange(rt, TIDE_F32, 3, 100, 1);
    assert_array(x);
    has_kernels(rt, 0, 1);
    tide_free(x);
    tide_close(rt);
    assert_nothing_left();
    snprintf(command, sizeof command, "rm -rf '%s'", above);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {CASE(first_calls_find_their_kernels)};
    return cmocka_run_group_tests_name("early", tests, NULL, NULL);
}
