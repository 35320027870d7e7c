/* cublas.c: finds libcublas and fills the table of its functions; describes its handles to the
** cache (handles.h). */
#include "libs/cublas.h"
#include "runtime/device/cuda/loaded.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/base/loader.h"
#include "runtime/base/text.h"

static const tidei_loaded_function functions[] = {
#define FUNCTION(name, params) {#name, #name, 0, true, offsetof(tidei_cublas_table, name)},
    TIDEI_CUBLAS_FUNCTIONS(FUNCTION)
#undef FUNCTION
};
/* The loader finds them through cuBLAS, which needs their library. */
static const tidei_loaded_function lt_functions[] = {
#define FUNCTION(name, params) {#name, #name, 0, true, offsetof(tidei_cublas_table, name)},
    TIDEI_CUBLASLT_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* Beside NVRTC, or where NVIDIA's Python packages put it, a folder beside NVRTC's. */
static void *open_version(int version, char *why, size_t cap) {
    char name[32], beside[1200];
    const char *nvrtc = tidei_nvrtc_folder();
    tidei_format(name, sizeof name, "libcublas.so.%d", version);
    void *lib = tidei_cuda_library(name, nvrtc, why, cap);
    if (lib || !*nvrtc) return lib;
    tidei_format(beside, sizeof beside, "%s/../../cublas/lib", nvrtc);
    return tidei_cuda_library(name, beside, why, cap);
}

static tide_status open_table(void *table, const char *op) {
    static const int versions[] = {13, 12};
    char why[512] = "", said[512];
    int family = tidei_nvrtc_version() / 1000;
    void *lib = family >= 12 ? open_version(family, why, sizeof why) : NULL;
    for (size_t i = 0; i < TIDEI_COUNT(versions) && !lib; i++) {
        lib = open_version(versions[i], said, sizeof said);
        if (!lib && *said) tidei_format(why, sizeof why, "%s", said);
    }
    if (!lib)
        return tidei_fail(TIDE_E_UNSUPPORTED, op,
                          "linear algebra on cuda needs cuBLAS, and libcublas.so.%d was not found: "
                          "install it with the CUDA "
                          "toolkit (NVIDIA's package libcublas-13-0; pip install nvidia-cublas), "
                          "or put its folder into "
                          "LD_LIBRARY_PATH%s%s%s",
                          family >= 12 ? family : versions[0], *why ? " (" : "", why,
                          *why ? ")" : "");
    tidei_cublas_table t = {0};
    const char *missing =
        tidei_loaded_fill(&t, functions, TIDEI_COUNT(functions), tidei_loaded_symbol, lib);
    if (missing) {
        tidei_library_close(lib);
        return tidei_fail(TIDE_E_UNSUPPORTED, op,
                          "linear algebra needs cuBLAS 12 or later: this one has no %s", missing);
    }
    if (tidei_loaded_fill(&t, lt_functions, TIDEI_COUNT(lt_functions), tidei_loaded_symbol, lib))
        t.cublasLtMatmul = NULL;
    memcpy(table, &t, sizeof t);
    return TIDE_OK;
}

static tidei_cublas_table table;
static tidei_loaded library = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .open = open_table, .table = &table};

tide_status tidei_cublas_load(const char *op, const tidei_cublas_table **out) {
    const void *t;
    tide_status s = tidei_loaded_get(&library, op, &t);
    if (s == TIDE_OK) *out = t;
    return s;
}

void tidei_cublas_use(const tidei_cublas_table *t) { tidei_loaded_use(&library, t); }

/* ---- handles ---- */

static const void *known(void) { return tidei_loaded_now(&library); }

static unsigned create(const void *lib, void **out) {
    const tidei_cublas_table *t = lib;
    tidei_cublas_handle h = NULL;
    tidei_cublas_status r = t->cublasCreate_v2(&h);
    if (r == TIDEI_CUBLAS_SUCCESS) {
        r = t->cublasSetMathMode(h, TIDEI_CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION);
        if (r != TIDEI_CUBLAS_SUCCESS) t->cublasDestroy_v2(h);
    }
    *out = h;
    return r;
}
static unsigned destroy(const void *lib, void *handle) {
    return ((const tidei_cublas_table *)lib)->cublasDestroy_v2(handle);
}
static unsigned set_stream(const void *lib, void *handle, void *native) {
    return ((const tidei_cublas_table *)lib)->cublasSetStream_v2(handle, native);
}
static unsigned set_workspace(const void *lib, void *handle, void *at, size_t bytes) {
    return ((const tidei_cublas_table *)lib)->cublasSetWorkspace_v2(handle, at, bytes);
}

/* Where memory is short cublasCreate returns "not initialized", and calls whose kernels do not load
** "internal error". */
static const unsigned short_codes[] = {TIDEI_CUBLAS_NOT_INITIALIZED, TIDEI_CUBLAS_ALLOC_FAILED,
                                       TIDEI_CUBLAS_INTERNAL_ERROR};

const tidei_handle_kind tidei_cublas_kind = {.name = "cuBLAS",
                                             .about = 64 * TIDEI_MIB,
                                             .most = 128 * TIDEI_MIB,
                                             .lib = known,
                                             .create = create,
                                             .destroy = destroy,
                                             .set_stream = set_stream,
                                             .set_workspace = set_workspace,
                                             .short_codes = short_codes,
                                             .nshort = TIDEI_COUNT(short_codes)};
