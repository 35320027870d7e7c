/* test_nvrtc_failures.c: where NVRTC is looked for and what is said when it is not found or does
** not do; and what becomes of a text when a call of it fails. Over a double (nvrtc_double.c): what
** real NVRTC makes of a text is test_nvrtc.c's. */
#include <sched.h>
#include <sys/stat.h>
#include "tests/support/child.h"
#include "tests/doubles/loader_double.h"
#include "tests/doubles/nvrtc_double.h"

static const char source[] = "extern \"C\" __global__ void scale(float *p) { *p *= 2; }";
/* with empty files of the libraries' names; what they are the loader's double says */
static char folder[64];
static const char *in_folder(const char *name) { /* until it is called again */
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static void touch(const char *name) {
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fclose(f);
}

static nvrtc_double *rtc; /* the double as this process has it */
static void look(const char *file) { rtc = of_double(file, "tidetest_nvrtc"); }

/* ---- host memory ---- */

static long mallocs, no_malloc_at; /* so far, and the one that fails; 0: none */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    return ++mallocs == no_malloc_at ? NULL : __real_malloc(bytes);
}

/* ---- finding it ---- each in a child: the first that opens serves the process */

/* Without a driver that has said its version the newest comes first, else those that are not newer
** than it. Each is looked for in the process before the file is. */
static void looks_in_order(void) {
    must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE,
              "no NVRTC: install the CUDA toolkit's libnvrtc.so.13 or .12");
    must(!strcmp(loader.asked, "?libnvrtc.so.13 libnvrtc.so.13 ?libnvrtc.so.12 libnvrtc.so.12 "
                               "?libnvrtc.so.11.2 libnvrtc.so.11.2 "));
    must(!strchr(tide_error_last()->message, '(') ||
         !strstr(tide_error_last()->message, "No such file"));
    loader.asked[0] = 0;
    must(tidei_nvrtc_open(12080) == TIDE_E_NODEVICE);
    must(!strcmp(loader.asked, "?libnvrtc.so.12 libnvrtc.so.12 ?libnvrtc.so.11.2 libnvrtc.so.11.2 "
                               "?libnvrtc.so.13 libnvrtc.so.13 "));
    must(tidei_nvrtc_version() == 0 && !*tidei_nvrtc_folder());
    must(tidei_nvrtc_serves(90) == TIDE_E_NODEVICE);
    void *image;
    size_t bytes;
    must(tidei_nvrtc_compile(source, "scale", 90, &image, &bytes) == TIDE_E_NODEVICE);
}

/* What is there and does not load is told; what is not there is not. */
static void says_why(void) {
    loader_refuses("libnvrtc.so.12", "libnvrtc.so.12: invalid ELF header");
    must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE,
              "TIDE_NVRTC_PATH to it (libnvrtc.so.12: invalid ELF header)");
}

static void opens_an_older_one(void) {
    loader_refuses("libnvrtc.so.13", "libnvrtc.so.13: wrong ELF class");
    loader_has("libnvrtc.so.12", DOUBLE("nvrtc"));
    look(DOUBLE("nvrtc"));
    rtc->major = 12, rtc->minor = 8;
    must(tidei_nvrtc_open(0) == TIDE_OK);
    must(tidei_nvrtc_version() == 12080);
    must(!strcmp(tidei_nvrtc_folder(), TIDE_TEST_DOUBLES));
    must(tidei_nvrtc_open(13000) == TIDE_OK); /* nothing is looked for again */
    must(!strstr(loader.asked, "11.2"));
}

/* Before 12.4 it does not know how to leave out of the language what nobody uses. */
static void an_old_one_is_asked_for_no_more_than_it_knows(void) {
    void *image;
    size_t bytes;
    loader_has("libnvrtc.so.12", DOUBLE("nvrtc"));
    look(DOUBLE("nvrtc"));
    rtc->major = 12, rtc->minor = 3;
    must(!strcmp(tidei_nvrtc_options(), "--std=c++17 -fmad=false"));
    must(tidei_nvrtc_open(0) == TIDE_OK);
    must(!strcmp(tidei_nvrtc_options(), "--std=c++17 -fmad=false"));
    must(tidei_nvrtc_compile(source, "scale", 90, &image, &bytes) == TIDE_OK);
    must(!strcmp(rtc->option[2], "-fmad=false") && !*rtc->option[3]);
    free(image);
}

/* Beside what its caller does meanwhile: what comes of it is told at the end, the driver's version
** and the GPU are considered. */
static void opens_beside(void) {
    tidei_nvrtc_opening o;
    tidei_nvrtc_begin(&o, 12080, 90, NULL);
    must_fail(tidei_nvrtc_finish(&o), TIDE_E_NODEVICE, "no NVRTC: install the CUDA toolkit's");
    must(!strncmp(loader.asked, "?libnvrtc.so.12 ", 16));
    loader_has("libnvrtc.so.12", DOUBLE("nvrtc"));
    look(DOUBLE("nvrtc"));
    tidei_nvrtc_begin(&o, 12080, 90, NULL);
    must(tidei_nvrtc_finish(&o) == TIDE_OK);
    must(rtc->compiled == 0);
    tidei_nvrtc_begin(&o, 12080, 72, NULL); /* it is open: nothing is to be done beside */
    must_fail(tidei_nvrtc_finish(&o), TIDE_E_UNSUPPORTED, "this GPU is sm_72");
}
/* Texts that are given are compiled, those that can be, until finish is called. */
static atomic_bool asked_for_all;
static char *early_text(unsigned i) {
    static const char *const texts[] = {"the first", "nonsense", "the third"};
    if (i < TIDEI_COUNT(texts)) return strdup(texts[i]);
    atomic_store(&asked_for_all, true);
    return NULL;
}
static void compiles_what_is_given_beside(void) {
    tidei_early e = {.name = "early", .text = early_text};
    tidei_nvrtc_opening o;
    loader_has("libnvrtc.so.12", DOUBLE("nvrtc"));
    look(DOUBLE("nvrtc"));
    tidei_nvrtc_begin(&o, 12080, 90, &e);
    while (!atomic_load(&asked_for_all)) sched_yield();
    must(tidei_nvrtc_finish(&o) == TIDE_OK);
    must(e.n == 2 && !strcmp(e.made[0].text, "the first") && !strcmp(e.made[1].text, "the third"));
    must(rtc->programs == 0);
    for (unsigned i = 0; i < e.n; i++) {
        must(e.made[i].image && e.made[i].bytes);
        free(e.made[i].text);
        free(e.made[i].image);
    }
}

static void opens_beside_and_compiles_nothing(void) {
    tidei_nvrtc_opening o;
    loader_has("libnvrtc.so.13", DOUBLE("nvrtc"));
    look(DOUBLE("nvrtc"));
    rtc->archs[0] = 100, rtc->archs[1] = rtc->archs[2] = rtc->archs[3] = 120;
    tidei_nvrtc_begin(&o, 0, 90, NULL);
    must_fail(tidei_nvrtc_finish(&o), TIDE_E_UNSUPPORTED, "sm_100 and newer, this GPU is sm_90");
    tidei_nvrtc_begin(&o, 0, 100, NULL);
    must(tidei_nvrtc_finish(&o) == TIDE_OK && rtc->compiled == 0);
}

static void is_in_the_process(void) {
    loader_has("libnvrtc.so.13", DOUBLE("nvrtc"));
    loader.there[0].loaded = true;
    must(tidei_nvrtc_open(13000) == TIDE_OK);
    must(!strcmp(loader.asked, "?libnvrtc.so.13 "));
}

static void in_a_toolkit(void) {
    setenv("CUDA_HOME", "not/from/the/root", 1);
    setenv("CUDA_PATH", folder, 1);
    loader_has(in_folder("lib64/libnvrtc.so.12"), DOUBLE("nvrtc"));
    loader_refuses(in_folder("lib64/libnvrtc.so.13"), "the text of what is wrong");
    touch("lib64/libnvrtc.so.13");
    must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE, "(the text of what is wrong)");
    setenv("CUDA_HOME", folder, 1);
    touch("lib64/libnvrtc.so.12");
    must(tidei_nvrtc_open(0) == TIDE_OK);
    unlink(in_folder("lib64/libnvrtc.so.12"));
}

static void at_a_path(void) {
    static char long_path[5000];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = '/';
    loader_has("libnvrtc.so.13", DOUBLE("nvrtc")); /* which nobody asks for */
    setenv("TIDE_NVRTC_PATH", "/nowhere/libnvrtc.so.13", 1);
    must_fail(
        tidei_nvrtc_open(0), TIDE_E_NODEVICE,
        "TIDE_NVRTC_PATH is set, but /nowhere/libnvrtc.so.13: cannot open shared object file");
    setenv("TIDE_NVRTC_PATH", long_path, 1);
    must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE, "TIDE_NVRTC_PATH is set, but /xxx");
    setenv("TIDE_NVRTC_PATH", folder, 1);
    must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE, "has no libnvrtc");
    touch("libnvrtc.so.13");
    loader_refuses(in_folder("libnvrtc.so.13"), "it is empty");
    must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE, "TIDE_NVRTC_PATH is set, but it is empty");
    touch("libnvrtc.so.12");
    loader_has(in_folder("libnvrtc.so.12"), DOUBLE("nvrtc_without_ptx"));
    must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE, "NVRTC is too old: it has no nvrtcGetPTXSize");
    setenv("TIDE_NVRTC_PATH", DOUBLE("nvrtc"), 1);
    loader_has(DOUBLE("nvrtc"), DOUBLE("nvrtc"));
    must(tidei_nvrtc_open(0) == TIDE_OK);
    must(!strstr(loader.asked, "?"));
}

static void an_empty_path_is_none(void) {
    setenv("TIDE_NVRTC_PATH", "", 1);
    loader_has("libnvrtc.so.13", DOUBLE("nvrtc"));
    must(tidei_nvrtc_open(0) == TIDE_OK);
}

/* It must say which version it is and for what it compiles; one that did not is asked again. */
static void does_not_introduce_itself(void) {
    static const char *const calls[] = {"nvrtcVersion", "nvrtcGetNumSupportedArchs",
                                        "nvrtcGetSupportedArchs"};
    loader_has("libnvrtc.so.13", DOUBLE("nvrtc"));
    look(DOUBLE("nvrtc"));
    rtc->error = 11;
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
        rtc->failing = calls[i];
        must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE,
                  "NVRTC does not say its version and architectures");
    }
    rtc->failing = NULL;
    const int n = rtc->narchs;
    for (rtc->narchs = 0; rtc->narchs <= 65; rtc->narchs += 65)
        must_fail(tidei_nvrtc_open(0), TIDE_E_NODEVICE,
                  "NVRTC does not say its version and architectures");
    must(tidei_nvrtc_version() == 0);
    rtc->narchs = n;
    must(tidei_nvrtc_open(0) == TIDE_OK);
}

static pthread_barrier_t together;
static void *open_together(void *status) {
    pthread_barrier_wait(&together);
    *(tide_status *)status = tidei_nvrtc_open(0);
    return NULL;
}
static void once_for_all_threads(void) {
    pthread_t t[4];
    tide_status status[4];
    loader_has("libnvrtc.so.13", DOUBLE("nvrtc"));
    pthread_barrier_init(&together, NULL, 4);
    for (int i = 0; i < 4; i++) must(pthread_create(&t[i], NULL, open_together, &status[i]) == 0);
    for (int i = 0; i < 4; i++) must(pthread_join(t[i], NULL) == 0 && status[i] == TIDE_OK);
    must(!strcmp(loader.asked, "?libnvrtc.so.13 libnvrtc.so.13 "));
}

static void it_is_looked_for_in_its_places(void **state) {
    static void (*const parts[])(void) = {looks_in_order,
                                          says_why,
                                          opens_an_older_one,
                                          an_old_one_is_asked_for_no_more_than_it_knows,
                                          opens_beside,
                                          compiles_what_is_given_beside,
                                          opens_beside_and_compiles_nothing,
                                          is_in_the_process,
                                          in_a_toolkit,
                                          at_a_path,
                                          an_empty_path_is_none,
                                          does_not_introduce_itself,
                                          once_for_all_threads};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(parts); i++) in_child(parts[i]);
}

/* ---- compiling ---- */

static void open_it(void) {
    if (rtc) return;
    loader_has("libnvrtc.so.13", DOUBLE("nvrtc"));
    look(DOUBLE("nvrtc"));
    assert_ok(tidei_nvrtc_open(0));
}

/* The double compiles for sm_75, 80, 86 and 90. */
static void the_nearest_gpu_is_compiled_for(void **state) {
    static const struct {
        int sm;
        const char *option;
        bool ptx;
    } all[] = {{75, "-arch=sm_75", false},     {80, "-arch=sm_80", false},
               {86, "-arch=sm_86", false},     {89, "-arch=sm_86", false},
               {90, "-arch=sm_90", false},     {100, "-arch=compute_90", true},
               {121, "-arch=compute_90", true}};
    (void)state;
    open_it();
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        void *image = NULL;
        size_t bytes = 0;
        assert_ok(tidei_nvrtc_serves(all[i].sm));
        assert_ok(tidei_nvrtc_compile(source, "scale", all[i].sm, &image, &bytes));
        assert_string_equal(rtc->option[0], all[i].option);
        assert_string_equal(rtc->option[2], "-fmad=false");
        assert_int_equal(bytes, sizeof source + (all[i].ptx ? 0 : 4));
        assert_string_equal((char *)image + (all[i].ptx ? 0 : 4), source);
        free(image);
    }
    assert_string_equal(rtc->option[3], "--minimal");
    assert_int_equal(tidei_nvrtc_serves(72), TIDE_E_UNSUPPORTED);
    assert_error(
        TIDE_E_UNSUPPORTED,
        "NVRTC 13.0 compiles for sm_75 and newer, this GPU is sm_72: install an older NVRTC");
    assert_int_equal(rtc->programs, 0);
}

static tide_status compile_for(int sm, const char *text) {
    void *image = &image;
    size_t bytes = 17;
    tide_status s = tidei_nvrtc_compile(text, "scale", sm, &image, &bytes);
    if (s == TIDE_OK)
        free(image);
    else
        assert_true(image == (void *)&image && bytes == 17); /* left alone */
    assert_int_equal(rtc->programs, 0);
    return s;
}

static void calls_that_fail_are_told(void **state) {
    static const struct {
        const char *call;
        int sm;
        tide_status of_memory; /* what it comes to when it is for want of host memory */
        const char *says;
    } all[] = {
        {"nvrtcCreateProgram", 90, TIDE_E_HOST_NOMEM, "NVRTC took no program scale, error 11"},
        {"nvrtcCompileProgram", 90, TIDE_E_HOST_NOMEM,
         "did not compile scale (-arch=sm_90), error 11:\nscale(1): "},
        {"nvrtcGetCUBINSize", 90, TIDE_E_DEVICE, "NVRTC gave no code for scale, error 11"},
        {"nvrtcGetCUBIN", 90, TIDE_E_DEVICE, "NVRTC gave no code for scale, error 11"},
        {"nvrtcGetPTXSize", 100, TIDE_E_DEVICE, "NVRTC gave no code for scale, error 11"},
        {"nvrtcGetPTX", 100, TIDE_E_DEVICE, "NVRTC gave no code for scale, error 11"},
    };
    (void)state;
    open_it();
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        rtc->failing = all[i].call;
        rtc->error = 11;
        assert_int_equal(compile_for(all[i].sm, source), TIDE_E_DEVICE);
        assert_error(TIDE_E_DEVICE, all[i].says);
        rtc->error = TIDEI_NVRTC_OUT_OF_MEMORY;
        assert_int_equal(compile_for(all[i].sm, source), all[i].of_memory);
        if (all[i].of_memory == TIDE_E_HOST_NOMEM)
            assert_error(TIDE_E_HOST_NOMEM, "host memory was exhausted while NVRTC compiled scale");
        rtc->failing = NULL;
        assert_ok(compile_for(all[i].sm, source));
    }
    rtc->no_code = true;
    assert_int_equal(compile_for(90, source), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "NVRTC gave no code for scale, error 0");
    rtc->no_code = false;
}

/* What the compiler has to say is told as far as there is something. */
static void without_a_log_the_status_is_told(void **state) {
    static const char *const calls[] = {"nvrtcGetProgramLogSize", "nvrtcGetProgramLog"};
    (void)state;
    open_it();
    assert_int_equal(compile_for(90, "nonsense"), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "error 6:\nscale(1): error: nobody knows what this means");
    rtc->error = 11;
    for (size_t i = 0; i <= TIDEI_COUNT(calls); i++) {
        rtc->no_log = i == TIDEI_COUNT(calls);
        rtc->failing = rtc->no_log ? NULL : calls[i];
        assert_int_equal(compile_for(90, "nonsense"), TIDE_E_DEVICE);
        assert_error(TIDE_E_DEVICE, "error 6:\n");
        assert_null(strstr(tide_error_last()->message, "nobody"));
    }
    rtc->no_log = false;
    no_malloc_at = mallocs + 1;
    assert_int_equal(compile_for(90, "nonsense"), TIDE_E_DEVICE);
    assert_null(strstr(tide_error_last()->message, "nobody"));
    assert_int_equal(no_malloc_at <= mallocs, true);
}

static void missing_host_memory_is_told(void **state) {
    (void)state;
    open_it();
    for (int sm = 90; sm <= 100; sm += 10) {
        no_malloc_at = mallocs + 1;
        assert_int_equal(compile_for(sm, source), TIDE_E_HOST_NOMEM);
        no_malloc_at = 0;
        assert_ok(compile_for(sm, source));
    }
}

static int make_folder(void **state) {
    (void)state;
    unsetenv("TIDE_NVRTC_PATH"), unsetenv("CUDA_HOME"), unsetenv("CUDA_PATH");
    snprintf(folder, sizeof folder, "/tmp/tide-nvrtc-XXXXXX");
    return !mkdtemp(folder) || mkdir(in_folder("lib64"), 0700);
}
static int remove_folder(void **state) {
    static const char *const files[] = {"libnvrtc.so.13", "libnvrtc.so.12", "lib64/libnvrtc.so.13"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(files); i++) unlink(in_folder(files[i]));
    rmdir(in_folder("lib64"));
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_looked_for_in_its_places),
        cmocka_unit_test(the_nearest_gpu_is_compiled_for),
        cmocka_unit_test(calls_that_fail_are_told),
        cmocka_unit_test(without_a_log_the_status_is_told),
        cmocka_unit_test(missing_host_memory_is_told),
    };
    return cmocka_run_group_tests_name("nvrtc_failures", tests, make_folder, remove_folder);
}
