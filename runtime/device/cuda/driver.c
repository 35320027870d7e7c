/* driver.c: finds libcuda and fills the table of its functions. */
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/loaded.h"
#include "runtime/base/loader.h"
#include "runtime/base/fork.h"
#include "runtime/base/text.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct finder {
    void *lib;
    tidei_cu_get_proc_v2 v2;
    tidei_cu_get_proc v1;
} finder;

static void *find(void *from, const tidei_loaded_function *f) {
    const finder *by = from;
    void *p = NULL;
    unsigned int status = 0; /* CU_GET_PROC_ADDRESS_SUCCESS */
    if (by->v2)
        return by->v2(f->name, &p, f->version, 0, &status) == TIDEI_CU_SUCCESS && status == 0
                   ? p
                   : NULL;
    if (by->v1) return by->v1(f->name, &p, f->version, 0) == TIDEI_CU_SUCCESS ? p : NULL;
    return tidei_loaded_symbol(by->lib, f);
}

static const tidei_loaded_function functions[] = {
#define FUNCTION(name, exported, version, needed, params)                                          \
    {#name, #exported, version, needed, offsetof(tidei_cu, name)},
    TIDEI_CU_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

const char *tidei_cu_name(const tidei_cu *cu, tidei_cu_result r) {
    const char *name = NULL;
    return cu->cuGetErrorName(r, &name) == TIDEI_CU_SUCCESS && name ? name : "unknown error";
}

/* Opens the library. NULL: `why` has what the loader said, unless that is "no such file": then
** `why` stays as it was. */
static void *open_noting(const char *name, char *why, size_t cap) {
    char said[512];
    void *lib = tidei_library_open(name, RTLD_NOW | RTLD_LOCAL, said, sizeof said);
    bool not_here = !lib && strstr(said, "No such file") && strncmp(said, name, strlen(name)) == 0;
    if (!lib && !not_here) tidei_format(why, cap, "%s", said);
    return lib;
}

static tide_status init_failed(const tidei_cu *t, tidei_cu_result r) {
    const char *text = NULL;
    switch (r) {
    case TIDEI_CU_NO_DEVICE: return tidei_fail(TIDE_E_NODEVICE, "cuda", "cuInit: no device (100)");
    case TIDEI_CU_STUB_LIBRARY:
        return tidei_fail(TIDE_E_NODEVICE, "cuda",
                          "libcuda.so.1 is what the CUDA toolkit has for linking, not a driver "
                          "(34): install the NVIDIA driver");
    case TIDEI_CU_SYSTEM_DRIVER_MISMATCH:
    case TIDEI_CU_COMPAT_NOT_SUPPORTED:
        return tidei_fail(TIDE_E_NODEVICE, "cuda",
                          "cuInit: libcuda.so.1 and the kernel's NVIDIA driver are of different "
                          "versions (%u): reboot, or "
                          "install matching ones",
                          r);
    default:
        if (t->cuGetErrorString(r, &text) != TIDEI_CU_SUCCESS || !text) text = "unknown error";
        return tidei_fail(TIDE_E_NODEVICE, "cuda", "cuInit: %s (%u)", text, r);
    }
}

/* Under the lock. A library that was opened is never closed: its threads and handlers live on in
** the process. */
static tide_status open_table(void *table, const char *op) {
    tidei_cu t = {0};
    finder f = {0};
    const char *missing;
    tidei_cu_result r;
    char why[256] = "";
    f.lib = open_noting("libcuda.so.1", why, sizeof why);
    if (!f.lib) {
        if (!*why) return tidei_fail(TIDE_E_NODEVICE, op, "libcuda.so.1 not found");
        return tidei_fail(TIDE_E_NODEVICE, op, "libcuda.so.1 does not load: %s", why);
    }
    f.v2 = (tidei_cu_get_proc_v2)tidei_library_symbol(f.lib, "cuGetProcAddress_v2");
    f.v1 = (tidei_cu_get_proc)tidei_library_symbol(f.lib, "cuGetProcAddress");
    if ((missing = tidei_loaded_fill(&t, functions, TIDEI_COUNT(functions), find, &f)))
        return tidei_fail(TIDE_E_NODEVICE, op,
                          "the NVIDIA driver is too old: its libcuda.so.1 has no %s", missing);
    if ((r = t.cuInit(0)) != TIDEI_CU_SUCCESS) return init_failed(&t, r);
    if (t.cuDriverGetVersion(&t.version) != TIDEI_CU_SUCCESS) t.version = 0;
    memcpy(table, &t, sizeof t);
    return TIDE_OK;
}

static tidei_cu table;
static tidei_loaded library = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .open = open_table, .table = &table};

tide_status tidei_cu_open(const tidei_cu **out) {
    static const char op[] = "cuda";
    const void *t;
    if (tidei_forked())
        return tidei_fail(TIDE_E_FORKED, op,
                          "this process is a fork's child; the GPU stays with its parent");
    tide_status s = tidei_loaded_get(&library, op, &t);
    if (s == TIDE_OK) *out = t;
    return s;
}

void tidei_cu_use(const tidei_cu *t) { tidei_loaded_use(&library, t); }

static void *open_in(const char *folder, const char *sub, const char *name, char *why, size_t cap) {
    char path[4096];
    if (!folder || folder[0] != '/') return NULL;
    if (tidei_format(path, sizeof path, "%s%s/%s", folder, sub, name) >= (int)sizeof path)
        return NULL;
    if (access(path, F_OK)) return NULL;
    return open_noting(path, why, cap);
}

void *tidei_cuda_library(const char *name, const char *beside, char *why, size_t cap) {
    void *lib = tidei_library_open(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, NULL, 0);
    why[0] = 0;
    if (!lib) lib = open_noting(name, why, cap);
    if (!lib) lib = open_in(beside, "", name, why, cap);
    if (!lib) lib = open_in(secure_getenv("CUDA_HOME"), "/lib64", name, why, cap);
    if (!lib) lib = open_in(secure_getenv("CUDA_PATH"), "/lib64", name, why, cap);
    if (!lib) lib = open_in("/usr/local/cuda", "/lib64", name, why, cap);
    return lib;
}
