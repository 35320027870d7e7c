/* test_early.c: a program's first start, over doubles of the driver and of the compiler: the
** kernels that are compiled while the device opens are those that the first calls ask for. In
** children, since a process opens the compiler once. */
#include <dlfcn.h>
#include <unistd.h>
#include "tests/doubles/cuda_double.h"
#include "tests/support/child.h"

static nvrtc_double *rtc;
static tidei_cu slow;
static char above[32], folder[64]; /* folder: of kernels, which is not there at first */

/* A context that takes as long as two texts. */
static tidei_cu_result retain(tidei_cu_ctx *out, tidei_cu_device dev) {
    for (int i = 0; i < 20000 && atomic_load(&rtc->compiled) < 2; i++) usleep(1000);
    return driver.cuDevicePrimaryCtxRetain(out, dev);
}
static tidei_cu_result refuse(tidei_cu_ctx *out, tidei_cu_device dev) {
    tidei_cu_result r = retain(out, dev);
    if (r == TIDEI_CU_SUCCESS) driver.cuDevicePrimaryCtxRelease(dev);
    return TIDEI_CU_OUT_OF_MEMORY;
}

static void be_slow(tidei_cu_result (*how)(tidei_cu_ctx *, tidei_cu_device)) {
    rtc = dlsym(dlopen(NVRTC_DOUBLE, RTLD_NOW | RTLD_LOCAL), "tidetest_nvrtc");
    must(rtc);
    slow = driver;
    slow.cuDevicePrimaryCtxRetain = how;
    tidei_cu_use(&slow);
}

static tide_runtime *open_on(const char *device, int cache) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = device,
                     .collector = "refcount",
                     .cache = cache,
                     .cache_dir = folder};
    must_ok(tide_open(&c, &rt));
    return rt;
}

static void has_kernels(tide_runtime *rt, uint64_t compiled, uint64_t loaded) {
    const tide_runtime_figures s = test_stats(rt);
    if (s.kernels_compiled == compiled && s.kernels_loaded == loaded) return;
    fprintf(stderr, "%d compiled, %d loaded; wanted %d, %d\n", (int)s.kernels_compiled,
            (int)s.kernels_loaded, (int)compiled, (int)loaded);
    _exit(1);
}

/* What the program asks for counts as compiled, when it asks; nothing is compiled twice. */
static void first_calls(tide_runtime *rt) {
    must(atomic_load(&rtc->compiled) == 2);
    has_kernels(rt, 0, 0);
    tide_array *x = tide_arange(rt, TIDE_F32, 0, 1 << 20, 1);
    must(x);
    has_kernels(rt, 1, 0);
    tide_array *sum = tide_map(rt, "(x, a) -> sum(sqrt(x*x + a))", x, 2.0);
    must(sum);
    has_kernels(rt, 3, 0); /* the sum itself, and what joins its parts */
    must(atomic_load(&rtc->compiled) == 3);
    tide_free(x), tide_free(sum);
}

static void starts_with_a_cache(void) {
    be_slow(retain);
    tide_runtime *rt = open_on("cuda", TIDE_ON);
    must(access(folder, F_OK) != 0); /* nothing was asked for */
    first_calls(rt);
    tide_close(rt);
    rt = open_on("cuda", TIDE_ON);
    tide_array *x = tide_arange(rt, TIDE_F32, 3, 100, 1);
    must(x);
    has_kernels(rt, 0, 1);
    tide_free(x);
    tide_close(rt);
}

static void starts_without_a_cache(void) {
    be_slow(retain);
    tide_runtime *rt = open_on("cuda", TIDE_OFF);
    first_calls(rt);
    tide_close(rt);
    must(access(folder, F_OK) != 0);
}

static void falls_back_to_a_host_device(void) {
    be_slow(refuse);
    must(!unsetenv("TIDE_DEVICE")); /* nobody has asked for cuda */
    tide_runtime *rt = open_on(NULL, TIDE_ON);
    must(test_rt(rt)->devs[0].d->info.flags & TIDEI_DEV_RUNS_HOST);
    has_kernels(rt, 0, 0);
    tide_close(rt);
    must(access(folder, F_OK) != 0);
}

static void run_part(const void *part) {
    call_part(part);
    assert_nothing_left();
}

static void first_calls_find_their_kernels(void **state) {
    static void (*const parts[])(void) = {starts_with_a_cache, starts_without_a_cache,
                                          falls_back_to_a_host_device};
    char command[128];
    (void)state;
    assert_int_equal(unsetenv("TIDE_CACHE"), 0);
    for (size_t i = 0; i < TIDEI_COUNT(parts); i++) {
        strcpy(above, "/tmp/tide-early-XXXXXX");
        assert_non_null(mkdtemp(above));
        snprintf(folder, sizeof folder, "%s/kernels", above);
        in_child_with(run_part, &parts[i]);
        snprintf(command, sizeof command, "rm -rf '%s'", above);
        assert_int_equal(system(command), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {CASE(first_calls_find_their_kernels)};
    return cmocka_run_group_tests_name("early", tests, NULL, NULL);
}
