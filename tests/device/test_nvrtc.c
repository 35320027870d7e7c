/* test_nvrtc.c: the run-time compiler: machine code for the GPU asked for, PTX for one newer than
** it knows, messages. */
#include "runtime/device/cuda/nvrtc.h"
#include "tests/support/tidetest.h"
#include <sys/wait.h>
#include <unistd.h>

static const char source[] =
    "extern \"C\" __global__ void scale(float *p, float by, unsigned n) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) p[i] = p[i] * by + 1.0f;\n"
    "}\n";

static void need_nvrtc(void) {
    if (tidei_nvrtc_open(0) != TIDE_OK) {
        assert_error(TIDE_E_NODEVICE, "NVRTC");
        skip();
    }
}

/* In a child, and the first case: the first library that opens serves the process. */
static void a_wrong_path_is_told(void **state) {
    int status;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("TIDE_NVRTC_PATH", "/nowhere/libnvrtc.so.13", 1);
        if (tidei_nvrtc_open(0) != TIDE_E_NODEVICE) _exit(1);
        if (!strstr(tide_error_last()->message, "/nowhere/libnvrtc.so.13")) _exit(2);
        setenv("TIDE_NVRTC_PATH", "/", 1);
        if (tidei_nvrtc_open(0) != TIDE_E_NODEVICE) _exit(3);
        if (!strstr(tide_error_last()->message, "/ has no libnvrtc")) _exit(4);
        _exit(tidei_nvrtc_version() == 0 ? 0 : 5);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void it_tells_version_and_options(void **state) {
    (void)state;
    need_nvrtc();
    assert_in_range(tidei_nvrtc_version(), 11020, 99999);
    assert_non_null(strstr(tidei_nvrtc_options(), "-fmad=false"));
    assert_null(strstr(tidei_nvrtc_options(), "fast"));
}

static void a_known_gpu_gets_machine_code(void **state) {
    void *image = NULL;
    size_t bytes = 0;
    (void)state;
    need_nvrtc();
    assert_ok(tidei_nvrtc_compile(source, "scale", 90, &image, &bytes));
    assert_true(bytes > 64);
    assert_memory_equal(image, "\177ELF", 4);
    assert_int_equal(((unsigned char *)image)[4], 2);    /* 64-bit */
    assert_int_equal(((unsigned char *)image)[18], 190); /* EM_CUDA */
    free(image);
}

/* A GPU of a generation that the compiler has not heard of gets PTX, which is text. */
static void a_newer_gpu_gets_ptx(void **state) {
    void *image = NULL;
    size_t bytes = 0;
    (void)state;
    need_nvrtc();
    assert_ok(tidei_nvrtc_compile(source, "scale", 990, &image, &bytes));
    assert_int_equal(((char *)image)[bytes - 1], 0);
    assert_non_null(strstr(image, ".visible .entry scale("));
    /* no product and sum in one rounding */
    assert_non_null(strstr(image, "mul"));
    assert_null(strstr(image, "fma"));
    free(image);
}

static void a_text_with_an_error_is_told(void **state) {
    void *image = &image;
    size_t bytes = 17;
    (void)state;
    need_nvrtc();
    assert_int_equal(tidei_nvrtc_compile("__global__ void f() { int i = nonsense; }", "broken", 90,
                                         &image, &bytes),
                     TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "broken(1): error");
    assert_error(TIDE_E_DEVICE, "nonsense");
    assert_int_equal(tidei_nvrtc_compile(source, "scale", 10, &image, &bytes), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "this GPU is sm_10");
    assert_ptr_equal(image, &image);
    assert_int_equal(bytes, 17);
}

typedef struct job {
    tide_status status;
    void *image;
    size_t bytes;
} job;

static void *compile(void *arg) {
    job *j = arg;
    j->status = tidei_nvrtc_compile(source, "scale", 90, &j->image, &j->bytes);
    return NULL;
}

static void several_threads_compile(void **state) {
    pthread_t threads[4];
    job jobs[4] = {{0}};
    (void)state;
    need_nvrtc();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile, &jobs[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(jobs[i].status, TIDE_OK);
        assert_int_equal(jobs[i].bytes, jobs[0].bytes);
        assert_memory_equal(jobs[i].image, jobs[0].image, jobs[0].bytes);
    }
    for (int i = 0; i < 4; i++) free(jobs[i].image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_path_is_told),
        cmocka_unit_test(it_tells_version_and_options),
        cmocka_unit_test(a_known_gpu_gets_machine_code),
        cmocka_unit_test(a_newer_gpu_gets_ptx),
        cmocka_unit_test(a_text_with_an_error_is_told),
        cmocka_unit_test(several_threads_compile),
    };
    return cmocka_run_group_tests_name("nvrtc", tests, NULL, NULL);
}
