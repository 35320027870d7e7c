/* cusolver.c: finds libcusolver and fills the table of its functions; describes its handles to the
** cache (handles.h). */
#include "libs/cusolver.h"
#include "runtime/device/cuda/loaded.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/base/loader.h"
#include "runtime/base/text.h"

/* The first version whose cusolverDnXsyevBatched is known to be right. The first that has one,
** 11.7.1, reads workspace that it did not write, and gets c64 matrices wrong. */
#define SYEV_BATCHED_SINCE 11703

static const tidei_loaded_function functions[] = {
#define FUNCTION(name, needed, params)                                                             \
    {#name, #name, 0, needed, offsetof(tidei_cusolver_table, name)},
    TIDEI_CUSOLVER_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* Removes functions that this version has but that do not work. */
static void leave_out(tidei_cusolver_table *t) {
    int version = 0;
    bool known = t->cusolverGetVersion(&version) == TIDEI_CUSOLVER_SUCCESS;
    if (known && version >= SYEV_BATCHED_SINCE && t->cusolverDnXsyevBatched_bufferSize) return;
    t->cusolverDnXsyevBatched = NULL;
}

/* The library's version differs from CUDA's: libcusolver.so.12 belongs to CUDA 13. */
static const struct family { int cuda, so; } families[] = {{13, 12}, {12, 11}};

/* Beside NVRTC, or where NVIDIA's Python packages put it, a folder beside NVRTC's. */
static void *open_version(int so, char *why, size_t cap) {
    char name[32], beside[1200];
    const char *nvrtc = tidei_nvrtc_folder();
    tidei_format(name, sizeof name, "libcusolver.so.%d", so);
    void *lib = tidei_cuda_library(name, nvrtc, why, cap);
    if (lib || !*nvrtc) return lib;
    tidei_format(beside, sizeof beside, "%s/../../cusolver/lib", nvrtc);
    return tidei_cuda_library(name, beside, why, cap);
}

/* NVRTC's own family first. Of several failures the message about this family is kept: the file may
** be there and lack a library that it needs itself. */
static void *open_any(const struct family *own, char *why, size_t cap) {
    char said[512];
    void *lib = own ? open_version(own->so, why, cap) : NULL;
    for (size_t i = 0; i < TIDEI_COUNT(families) && !lib; i++) {
        if (&families[i] == own) continue;
        lib = open_version(families[i].so, said, sizeof said);
        if (!lib && *said && !*why) tidei_format(why, cap, "%s", said);
    }
    return lib;
}

static tide_status open_table(void *table, const char *op) {
    char why[512] = "";
    const struct family *own = NULL;
    for (size_t i = 0; i < TIDEI_COUNT(families); i++)
        if (families[i].cuda == tidei_nvrtc_version() / 1000) own = &families[i];
    void *lib = open_any(own, why, sizeof why);
    if (!lib)
        return tidei_fail(
            TIDE_E_UNSUPPORTED, op,
            "factorizations on cuda need cuSOLVER, and libcusolver.so.%d was not found: install it "
            "with the CUDA "
            "toolkit (NVIDIA's package libcusolver-13-0; pip install nvidia-cusolver), or put its "
            "folder into "
            "LD_LIBRARY_PATH; it needs cuBLAS, cuSPARSE and nvJitLink beside it%s%s%s",
            own ? own->so : families[0].so, *why ? " (" : "", why, *why ? ")" : "");
    tidei_cusolver_table t = {0};
    const char *missing =
        tidei_loaded_fill(&t, functions, TIDEI_COUNT(functions), tidei_loaded_symbol, lib);
    if (missing) {
        tidei_library_close(lib);
        return tidei_fail(TIDE_E_UNSUPPORTED, op,
                          "factorizations need cuSOLVER of CUDA 12 or later: this one has no %s",
                          missing);
    }
    leave_out(&t);
    memcpy(table, &t, sizeof t);
    return TIDE_OK;
}

static tidei_cusolver_table table;
static tidei_loaded library = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .open = open_table, .table = &table};

tide_status tidei_cusolver_load(const char *op, const tidei_cusolver_table **out) {
    const void *t;
    tide_status s = tidei_loaded_get(&library, op, &t);
    if (s == TIDE_OK) *out = t;
    return s;
}

void tidei_cusolver_use(const tidei_cusolver_table *t) { tidei_loaded_use(&library, t); }

/* ---- handles ---- */

static const void *loaded(void) { return tidei_loaded_now(&library); }
static unsigned create(const void *lib, void **out) {
    const tidei_cusolver_table *t = lib;
    tidei_cusolver_handle h = NULL;
    tidei_cusolver_status r = t->cusolverDnCreate(&h);
    *out = h;
    return r;
}
static unsigned destroy(const void *lib, void *handle) {
    return ((const tidei_cusolver_table *)lib)->cusolverDnDestroy(handle);
}
static unsigned set_stream(const void *lib, void *handle, void *native) {
    return ((const tidei_cusolver_table *)lib)->cusolverDnSetStream(handle, native);
}

/* Statuses that it has returned where memory was short. */
static const unsigned short_codes[] = {TIDEI_CUSOLVER_NOT_INITIALIZED, TIDEI_CUSOLVER_ALLOC_FAILED,
                                       TIDEI_CUSOLVER_INTERNAL_ERROR};
#define HANDLE_BYTES (96 * TIDEI_MIB) /* about, with the cuBLAS inside it */

const tidei_handle_kind tidei_cusolver_kind = {.name = "cuSOLVER",
                                               .about = HANDLE_BYTES,
                                               .most = 2 * HANDLE_BYTES,
                                               .lib = loaded,
                                               .create = create,
                                               .destroy = destroy,
                                               .set_stream = set_stream,
                                               .short_codes = short_codes,
                                               .nshort = TIDEI_COUNT(short_codes)};
