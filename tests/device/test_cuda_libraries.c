/* test_cuda_libraries.c: how the driver, cuBLAS and cuSOLVER are found, asked for their functions,
** and begun; and what is said when that does not go well. Over doubles of the loader and of the
** libraries, each part in a child, since what opens serves the process. */
#include <errno.h>
#include <sys/stat.h>
#include "libs/cublas.h"
#include "libs/cusolver.h"
#include "runtime/hooks.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/doubles/driver_double.h"
#include "tests/support/child.h"
#include "tests/doubles/loader_double.h"
#include "tests/doubles/nvrtc_double.h"

static bool says(const char *text) { return strstr(tide_error_last()->message, text) != NULL; }

/* ---- the driver ---- */

static driver_double *driver;
static const tidei_cu *cu;

static void has_driver(const char *file) {
    loader_has("libcuda.so.1", file);
    driver = of_double(file, "tidetest_driver");
}

static void no_driver(void) {
    must_fail(tidei_cu_open(&cu), TIDE_E_NODEVICE, "libcuda.so.1 not found");
    must(!says("No such file"));
    loader_refuses("libcuda.so.1",
                   "libnvidia-x.so: cannot open shared object file: No such file or directory");
    must_fail(tidei_cu_open(&cu), TIDE_E_NODEVICE,
              "libcuda.so.1 does not load: libnvidia-x.so: cannot open shared object file");
    loader.n = 0;
    has_driver(DOUBLE("driver"));
    must(tidei_cu_open(&cu) == TIDE_OK); /* what was not there may come */
}

/* Each function that is needed lacks in its turn; those that are not may be NULL. */
static void each_function_lacks(void) {
    static const struct {
        const char *name, *exported;
        bool needed;
    } all[] = {
#define ENTRY(name, exported, version, needed, params) {#name, #exported, needed},
        TIDEI_CU_FUNCTIONS(ENTRY)
#undef ENTRY
    };
    char wanted[128];
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        if (!all[i].needed) continue;
        driver->lacks = all[i].name;
        snprintf(wanted, sizeof wanted, "the NVIDIA driver is too old: its libcuda.so.1 has no %s",
                 all[i].exported);
        must_fail(tidei_cu_open(&cu), TIDE_E_NODEVICE, wanted);
        must(driver->inits == 0); /* it is not begun */
    }
    driver->lacks = "cuMemMap";
    must(tidei_cu_open(&cu) == TIDE_OK);
    must(!cu->cuMemMap && cu->cuMemUnmap && cu->cuMemAlloc && driver->inits == 1);
    must(cu->version == 12080);
    const tidei_cu *again;
    int asked = driver->asked;
    must(tidei_cu_open(&again) == TIDE_OK && again == cu && driver->asked == asked);
}
static void functions_by_their_version(void) {
    has_driver(DOUBLE("driver"));
    driver->entry = 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
    each_function_lacks();
}
static void functions_where_asking_fails(void) {
    has_driver(DOUBLE("driver"));
    each_function_lacks();
}
static void functions_of_an_older_driver(void) {
    has_driver(DOUBLE("driver_11"));
    each_function_lacks();
}
static void functions_by_the_loader(void) {
    has_driver(DOUBLE("driver_by_loader"));
    must(tidei_cu_open(&cu) == TIDE_OK);
    must(cu->cuMemAlloc && cu->cuMemMap && cu->version == 0);
    must(cu->cuCtxGetCurrent(NULL) == TIDEI_CU_SUCCESS);
}

static void it_does_not_begin(void) {
    static const struct {
        tidei_cu_result r;
        const char *says;
    } all[] = {
        {TIDEI_CU_NO_DEVICE, "cuInit: no device (100)"},
        {TIDEI_CU_STUB_LIBRARY, "is what the CUDA toolkit has for linking, not a driver (34)"},
        {TIDEI_CU_SYSTEM_DRIVER_MISMATCH, "are of different versions (803): reboot"},
        {TIDEI_CU_COMPAT_NOT_SUPPORTED, "are of different versions (804): reboot"},
        {TIDEI_CU_OUT_OF_MEMORY, "cuInit: said in words (2)"},
    };
    has_driver(DOUBLE("driver"));
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        driver->init = all[i].r;
        must_fail(tidei_cu_open(&cu), TIDE_E_NODEVICE, all[i].says);
    }
    driver->no_words = true;
    must_fail(tidei_cu_open(&cu), TIDE_E_NODEVICE, "cuInit: unknown error (2)");
    driver->init = TIDEI_CU_SUCCESS;
    driver->of_version = TIDEI_CU_INVALID_VALUE;
    must(tidei_cu_open(&cu) == TIDE_OK && cu->version == 0);
}

static void not_in_a_forks_child(void) {
    int status;
    has_driver(DOUBLE("driver"));
    tidei_threads_prepare(&tidei_threads_above); /* as opening a runtime does */
    pid_t child = fork();
    if (child == 0) {
        must_fail(tidei_cu_open(&cu), TIDE_E_FORKED, "the GPU stays with its parent");
        must(driver->asked == 0);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    must(tidei_cu_open(&cu) == TIDE_OK);
}

/* A table of a test's is taken back: then the real one, opened by then or not, is what there is. */
static void a_tests_table(void) {
    static const tidei_cu own;
    tidei_cu_use(&own);
    must(tidei_cu_open(&cu) == TIDE_OK && cu == &own);
    tidei_cu_use(NULL);
    must(tidei_cu_open(&cu) == TIDE_E_NODEVICE);
    has_driver(DOUBLE("driver"));
    must(tidei_cu_open(&cu) == TIDE_OK && cu != &own);
    const tidei_cu *real = cu;
    tidei_cu_use(&own);
    must(tidei_cu_open(&cu) == TIDE_OK && cu == &own);
    tidei_cu_use(NULL);
    must(tidei_cu_open(&cu) == TIDE_OK && cu == real);
    must(driver->inits == 1);
}

static void the_driver_is_found_asked_and_begun(void **state) {
    static void (*const parts[])(void) = {no_driver,
                                          functions_by_their_version,
                                          functions_where_asking_fails,
                                          functions_of_an_older_driver,
                                          functions_by_the_loader,
                                          it_does_not_begin,
                                          not_in_a_forks_child,
                                          a_tests_table};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(parts); i++) in_child(parts[i]);
}

/* ---- where a library is looked for ---- */

static char folder[64];                          /* of a toolkit and of NVIDIA's Python packages */
static const char *in_folder(const char *name) { /* until it is called again */
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static void touch(const char *name) {
    FILE *f = fopen(in_folder(name), "w");
    must(f != NULL);
    fclose(f);
}

static void in_the_places_in_turn(void) {
    char why[128], long_folder[4200];
    const char *beside = folder;
    memset(long_folder, 'x', sizeof long_folder - 1);
    long_folder[0] = '/', long_folder[sizeof long_folder - 1] = 0;
    touch("libx.so.1"), touch("lib64/libx.so.1");
    must(!tidei_cuda_library("libx.so.1", NULL, why, sizeof why) && !*why);
    must(!strcmp(loader.asked, "?libx.so.1 libx.so.1 "));
    must(!tidei_cuda_library("libx.so.1", long_folder, why, sizeof why) && !*why);
    must(!tidei_cuda_library("libx.so.1", "relative", why, sizeof why) && !*why);
    loader_refuses(in_folder("libx.so.1"), "not this one");
    must(!tidei_cuda_library("libx.so.1", beside, why, sizeof why) && !strcmp(why, "not this one"));
    setenv("CUDA_PATH", folder, 1);
    loader_has(in_folder("lib64/libx.so.1"), DOUBLE("cublas"));
    must(tidei_cuda_library("libx.so.1", NULL, why, sizeof why) && !*why);
    unsetenv("CUDA_PATH");
    setenv("CUDA_HOME", folder, 1);
    must(tidei_cuda_library("libx.so.1", NULL, why, sizeof why));
    loader.asked[0] = 0;
    loader_has("libx.so.1", DOUBLE("cublas"));
    must(tidei_cuda_library("libx.so.1", beside, why, sizeof why));
    must(!strcmp(loader.asked, "?libx.so.1 libx.so.1 "));
    loader.there[loader.n - 1].loaded = true;
    loader.asked[0] = 0;
    must(tidei_cuda_library("libx.so.1", beside, why, sizeof why));
    must(!strcmp(loader.asked, "?libx.so.1 "));
}

/* ---- cuBLAS and cuSOLVER ---- */

static const tidei_cublas_table *blas;
static const tidei_cusolver_table *solver;

/* NVRTC of this version, in the folder of a Python package of its own. */
static void has_nvrtc(int major) {
    static char path[128];
    snprintf(path, sizeof path, "%s", in_folder("cuda_nvrtc/lib/libnvrtc.so.13"));
    must(symlink(DOUBLE("nvrtc"), path) == 0 || errno == EEXIST);
    loader_has(path, path);
    ((nvrtc_double *)of_double(path, "tidetest_nvrtc"))->major = major;
    setenv("TIDE_NVRTC_PATH", path, 1);
    must(tidei_nvrtc_open(0) == TIDE_OK);
    must(!strcmp(tidei_nvrtc_folder(), in_folder("cuda_nvrtc/lib")));
}

static void no_cublas(void) {
    must_fail(tidei_cublas_load("tide_matmul", &blas), TIDE_E_UNSUPPORTED,
              "linear algebra on cuda needs cuBLAS, and libcublas.so.13 was not found");
    must(!strcmp(tide_error_last()->operation, "tide_matmul") && !says("LD_LIBRARY_PATH ("));
    loader_refuses("libcublas.so.12",
                   "libcublasLt.so.12: cannot open shared object file: No such file or directory");
    must_fail(tidei_cublas_load("tide_matmul", &blas), TIDE_E_UNSUPPORTED,
              "LD_LIBRARY_PATH (libcublasLt.so.12: cannot open shared object file: No such file or "
              "directory)");
    has_nvrtc(12);
    must_fail(tidei_cublas_load("tide_matmul", &blas), TIDE_E_UNSUPPORTED,
              "and libcublas.so.12 was not found");
}
static void cublas_of_nvrtcs_family(void) {
    has_nvrtc(12);
    loader_has("libcublas.so.13", DOUBLE("cublas_without_trsm"));
    loader_has("libcublas.so.12", DOUBLE("cublas"));
    must(tidei_cublas_load("tide_matmul", &blas) == TIDE_OK);
    must(blas->cublasGemmEx_64 && blas->cublasZtrsm_v2_64);
    must(tidei_cublas_has_lt(blas) && blas->cublasLtMatmulAlgoGetHeuristic);
}
/* Of cuBLASLt all functions count or none. */
static void cublas_without_all_of_lt(void) {
    loader_has("libcublas.so.13", DOUBLE("cublas_without_lt"));
    must(tidei_cublas_load("tide_matmul", &blas) == TIDE_OK);
    must(blas->cublasGemmEx_64 && !tidei_cublas_has_lt(blas));
}
static void cublas_of_another_family(void) {
    has_nvrtc(12);
    loader_has("libcublas.so.13", DOUBLE("cublas"));
    must(tidei_cublas_load("tide_matmul", &blas) == TIDE_OK);
    must(strstr(
        loader.asked,
        "?libcublas.so.12 libcublas.so.12 ?libcublas.so.12 libcublas.so.12 ?libcublas.so.13 "));
}
static void cublas_in_a_package(void) {
    char path[256];
    has_nvrtc(12);
    snprintf(path, sizeof path, "%s/../../cublas/lib/libcublas.so.12", tidei_nvrtc_folder());
    loader_has(path, DOUBLE("cublas"));
    touch("cublas/lib/libcublas.so.12");
    must(tidei_cublas_load("tide_matmul", &blas) == TIDE_OK);
}
static void cublas_that_is_too_old(void) {
    loader_has("libcublas.so.13", DOUBLE("cublas_without_trsm"));
    must_fail(tidei_cublas_load("tide_matmul", &blas), TIDE_E_UNSUPPORTED,
              "linear algebra needs cuBLAS 12 or later: this one has no cublasZtrsm_v2_64");
}

static void no_cusolver(void) {
    must_fail(tidei_cusolver_load("tide_lu", &solver), TIDE_E_UNSUPPORTED,
              "factorizations on cuda need cuSOLVER, and libcusolver.so.12 was not found");
    loader_refuses("libcusolver.so.11",
                   "libcusparse.so.12: cannot open shared object file: No such file or directory");
    must_fail(
        tidei_cusolver_load("tide_lu", &solver), TIDE_E_UNSUPPORTED,
        "beside it (libcusparse.so.12: cannot open shared object file: No such file or directory)");
    has_nvrtc(12);
    loader_refuses("libcusolver.so.12", "what is said of another family's");
    must_fail(tidei_cusolver_load("tide_lu", &solver), TIDE_E_UNSUPPORTED,
              "libcusolver.so.11 was not found");
    must(says("(libcusparse.so.12: ")); /* of its own counts most */
}
static int *solver_version(const char *file) {
    return of_double(file, "tidetest_cusolver_version");
}
static void cusolver_of_nvrtcs_family(void) {
    has_nvrtc(12);
    loader_has("libcusolver.so.12", DOUBLE("cusolver_without_potrf"));
    loader_has("libcusolver.so.11", DOUBLE("cusolver"));
    *solver_version(DOUBLE("cusolver")) = 11703;
    must(tidei_cusolver_load("tide_lu", &solver) == TIDE_OK);
    must(solver->cusolverDnXpotrf && solver->cusolverDnXsyevBatched);
}
static void cusolver_of_another_family(void) {
    has_nvrtc(13);
    loader_has("libcusolver.so.11", DOUBLE("cusolver"));
    must(tidei_cusolver_load("tide_lu", &solver) == TIDE_OK);
    must(!solver->cusolverDnXsyevBatched); /* it does not say its version */
}
static void cusolver_in_a_package(void) {
    char path[256];
    has_nvrtc(13);
    snprintf(path, sizeof path, "%s/../../cusolver/lib/libcusolver.so.12", tidei_nvrtc_folder());
    loader_has(path, DOUBLE("cusolver"));
    touch("cusolver/lib/libcusolver.so.12");
    *solver_version(DOUBLE("cusolver")) = 11702;
    must(tidei_cusolver_load("tide_lu", &solver) == TIDE_OK);
    must(!solver->cusolverDnXsyevBatched); /* it is there, and wrong */
}
static void cusolver_without_batches(void) {
    loader_has("libcusolver.so.12", DOUBLE("cusolver_without_batches"));
    *solver_version(DOUBLE("cusolver_without_batches")) = 12000;
    must(tidei_cusolver_load("tide_lu", &solver) == TIDE_OK);
    must(!solver->cusolverDnXsyevBatched && solver->cusolverDnXsyevd);
}
static void cusolver_that_is_too_old(void) {
    loader_has("libcusolver.so.12", DOUBLE("cusolver_without_potrf"));
    must_fail(tidei_cusolver_load("tide_lu", &solver), TIDE_E_UNSUPPORTED,
              "factorizations need cuSOLVER of CUDA 12 or later: this one has no cusolverDnXpotrf");
}

static void libraries_are_found_in_their_places(void **state) {
    static void (*const parts[])(void) = {in_the_places_in_turn,     no_cublas,
                                          cublas_of_nvrtcs_family,   cublas_without_all_of_lt,
                                          cublas_of_another_family,  cublas_in_a_package,
                                          cublas_that_is_too_old,    no_cusolver,
                                          cusolver_of_nvrtcs_family, cusolver_of_another_family,
                                          cusolver_in_a_package,     cusolver_without_batches,
                                          cusolver_that_is_too_old};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(parts); i++) in_child(parts[i]);
}

static const char *const folders[] = {"lib64",      "cuda_nvrtc", "cuda_nvrtc/lib", "cublas",
                                      "cublas/lib", "cusolver",   "cusolver/lib"};
static int make_folders(void **state) {
    int failed = 0;
    (void)state;
    unsetenv("TIDE_NVRTC_PATH"), unsetenv("CUDA_HOME"), unsetenv("CUDA_PATH");
    snprintf(folder, sizeof folder, "/tmp/tide-libraries-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    for (size_t i = 0; i < TIDEI_COUNT(folders); i++) failed |= mkdir(in_folder(folders[i]), 0700);
    return failed;
}
static int remove_folders(void **state) {
    static const char *const files[] = {
        "libx.so.1", "lib64/libx.so.1", "cublas/lib/libcublas.so.12",
        "cusolver/lib/libcusolver.so.12", "cuda_nvrtc/lib/libnvrtc.so.13"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(files); i++) unlink(in_folder(files[i]));
    for (size_t i = TIDEI_COUNT(folders); i-- > 0;) rmdir(in_folder(folders[i]));
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_is_found_asked_and_begun),
        cmocka_unit_test(libraries_are_found_in_their_places),
    };
    return cmocka_run_group_tests_name("cuda_libraries", tests, make_folders, remove_folders);
}
