/* test_overrun.c: a planted overrun, one byte past an array's end, is reported: on host by
** AddressSanitizer (in its build), on cuda by compute-sanitizer (where it is installed). With the
** pool `none`: inside a pool's pages a checker sees no ends. The program runs itself with --plant;
** that process is the one to be reported. */
#include "runtime/memory/storage.h"
#include "tests/support/tidetest.h"
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 1000

static char self[4096];

/* ---- the child ---- */

static void write_past_the_end(void *end) { *(volatile char *)end = 1; }

static tide_status plant_on_host(tide_runtime *rt, tide_array *a) {
    const tide_use use = {.array = a, .mode = TIDE_WRITE};
    tide_use_scope *scope;
    void *at;
    tide_status s = tide_use_begin(rt, NULL, &use, 1, &at, &scope);
    if (s == TIDE_OK) s = tide_use_launch(scope, write_past_the_end, (char *)at + BYTES);
    return s == TIDE_OK ? tide_use_end(scope) : s;
}

static tide_status plant_on_cuda(tide_runtime *rt, tide_array *a) {
    static const char text[] = "extern \"C\" __global__ void overrun(char *end) { *end = 1; }\n";
    const tide_use use = {.array = a, .mode = TIDE_WRITE};
    tidei_device *d = test_rt(rt)->devs[0].d;
    tidei_dkernel *k;
    tide_use_scope *scope;
    void *at;
    tide_status s = d->ops->kernel_new(d, &(tidei_kernel_text){.name = "overrun", .source = text},
                                       &k, NULL, NULL);
    if (s == TIDE_OK) s = tide_use_begin(rt, NULL, &use, 1, &at, &scope);
    if (s != TIDE_OK) return s;
    char *end = (char *)at + BYTES;
    const tidei_launch l = {.name = "overrun",
                            .kernel = k,
                            .params = &end,
                            .params_bytes = sizeof end,
                            .grid = {1, 1, 1},
                            .block = {1, 1, 1}};
    s = d->ops->launch(d, test_rt(rt)->devs[0].stream0->ds, &l);
    tide_status ended = tide_use_end(scope);
    return s == TIDE_OK ? ended : s;
}

static int plant(void) {
    tide_config c = {
        .struct_size = sizeof c, .device = test_device(), .collector = "refcount", .pool = "none"};
    const int64_t n = BYTES;
    tide_runtime *rt;
    if (tide_open(&c, &rt) != TIDE_OK) return 3;
    tide_array *a = tide_empty(rt, TIDE_U8, 1, &n);
    tide_status s = !a               ? TIDE_E_NOMEM
                    : test_on_host() ? plant_on_host(rt, a)
                                     : plant_on_cuda(rt, a);
    if (s == TIDE_OK) s = tide_device_synchronize(rt);
    if (s != TIDE_OK) fprintf(stderr, "%s\n", tide_error_last()->message);
    tide_close(rt);
    return 0;
}

/* ---- the cases ---- */

/* Runs the child behind `before`: its exit status, and whether a line of its output has `part`. */
static int run(const char *before, const char *part, bool *seen) {
    char command[4400], line[1024];
    snprintf(command, sizeof command, "%s '%s' --plant 2>&1", before, self);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    *seen = false;
    while (fgets(line, sizeof line, f)) *seen |= strstr(line, part) != NULL;
    int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void host_overrun_is_reported(void **state) {
    bool seen;
    (void)state;
#if !defined(__SANITIZE_ADDRESS__)
    skip();
#endif
    if (!test_on_host()) skip();
    assert_int_not_equal(run("", "heap-buffer-overflow", &seen), 0);
    assert_true(seen);
}

/* Where compute-sanitizer is; "" if it is not here. */
static const char *checker(void) {
    if (system("command -v compute-sanitizer >/dev/null 2>&1") == 0) return "compute-sanitizer";
    return access("/usr/local/cuda/bin/compute-sanitizer", X_OK) == 0
               ? "/usr/local/cuda/bin/compute-sanitizer"
               : "";
}

static void cuda_overrun_is_reported(void **state) {
    const char *inside = getenv("TIDE_TEST_MEMCHECK");
    char command[256];
    bool seen;
    (void)state;
    /* Under compute-sanitizer itself another one cannot run: tools/check.sh runs this case by
    ** itself then. */
    if (test_on_host() || !*checker() || (inside && *inside)) skip();
    snprintf(command, sizeof command, "%s --tool memcheck --error-exitcode 33", checker());
    assert_int_equal(run(command, "Invalid __global__ write", &seen), 33);
    assert_true(seen);
}

int main(int argc, char **argv) {
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return 1;
    if (argc == 2 && !strcmp(argv[1], "--plant")) return plant();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_overrun_is_reported),
        cmocka_unit_test(cuda_overrun_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
