/* nvrtc.c: finds libnvrtc and compiles with it. Programs are independent: several threads compile
** at once. */
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/loaded.h"
#include "runtime/base/loader.h"
#include "runtime/base/own_thread.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

/* -fmad=false: a*b + c rounds twice, as on the host. No fast math, denormals kept: the same special
** values everywhere. */
/* Newer ones leave out of the language what no kernel of ours has (textures, launches from kernels,
** the runtime's types): a fifth less to do for a small text, and the same code. */
#define MINIMAL_SINCE 12040
static const char *const options[] = {"--std=c++17", "-fmad=false", "--minimal"};
static const char *const options_text[] = {"--std=c++17 -fmad=false",
                                           "--std=c++17 -fmad=false --minimal"};

typedef struct nvrtc {
    int version;
    int oldest, newest; /* compute capabilities it knows */
    int archs[64], narchs;
    char folder[1024];
#define MEMBER(name, params) tidei_nvrtc_result(*name) params;
    TIDEI_NVRTC_FUNCTIONS(MEMBER)
#undef MEMBER
} nvrtc;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvrtc rtc; /* complete once `opened`, constant from then on */
static atomic_bool opened;

static const struct {
    const char *name;
    int version;
} candidates[] = {
    {"libnvrtc.so.13", 13000}, {"libnvrtc.so.12", 12000}, {"libnvrtc.so.11.2", 11020}};

static const tidei_loaded_function functions[] = {
#define FUNCTION(name, params) {#name, #name, 0, true, offsetof(nvrtc, name)},
    TIDEI_NVRTC_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static tide_status fill(void *lib, nvrtc *t) {
    int major, minor;
    Dl_info where;
    const char *missing =
        tidei_loaded_fill(t, functions, TIDEI_COUNT(functions), tidei_loaded_symbol, lib);
    if (missing)
        return tidei_fail(TIDE_E_NODEVICE, "cuda", "NVRTC is too old: it has no %s", missing);
    if (t->nvrtcVersion(&major, &minor) || t->nvrtcGetNumSupportedArchs(&t->narchs) ||
        t->narchs < 1 || t->narchs > (int)TIDEI_COUNT(t->archs) ||
        t->nvrtcGetSupportedArchs(t->archs))
        return tidei_fail(TIDE_E_NODEVICE, "cuda",
                          "NVRTC does not say its version and architectures");
    t->version = major * 1000 + minor * 10;
    t->oldest = t->newest = t->archs[0];
    for (int i = 1; i < t->narchs; i++) {
        if (t->archs[i] < t->oldest) t->oldest = t->archs[i];
        if (t->archs[i] > t->newest) t->newest = t->archs[i];
    }
    if (dladdr((void *)t->nvrtcVersion, &where) && where.dli_fname && where.dli_fname[0] == '/') {
        const char *end = strrchr(where.dli_fname, '/');
        tidei_format(t->folder, sizeof t->folder, "%.*s", (int)(end - where.dli_fname),
                     where.dli_fname);
    }
    return TIDE_OK;
}

/* `path` is the library, or the folder it lies in. */
static void *open_given(const char *path, char *why, size_t cap) {
    char file[4096];
    struct stat st;
    void *lib = NULL;
    tidei_format(why, cap, "%s has no libnvrtc", path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        for (size_t i = 0; !lib && i < TIDEI_COUNT(candidates); i++) {
            if (tidei_format(file, sizeof file, "%s/%s", path, candidates[i].name) <
                    (int)sizeof file &&
                !stat(file, &st))
                lib = tidei_library_open(file, RTLD_NOW | RTLD_LOCAL, why, cap);
        }
        return lib;
    }
    return tidei_library_open(path, RTLD_NOW | RTLD_LOCAL, why, cap);
}

static void *open_any(int driver, char *why, size_t cap) {
    for (int newer = 0; newer <= 1; newer++)
        for (size_t i = 0; i < TIDEI_COUNT(candidates); i++) {
            bool is_newer = driver && candidates[i].version / 1000 > driver / 1000;
            char said[512];
            if (is_newer != newer) continue;
            void *lib = tidei_cuda_library(candidates[i].name, NULL, said, sizeof said);
            if (lib) return lib;
            if (*said) tidei_format(why, cap, "%s", said);
        }
    return NULL;
}

static tide_status open_library(int driver) {
    const char *given = secure_getenv("TIDE_NVRTC_PATH");
    char why[512] = "";
    nvrtc t = {0};
    void *lib =
        given && *given ? open_given(given, why, sizeof why) : open_any(driver, why, sizeof why);
    if (!lib && given && *given)
        return tidei_fail(TIDE_E_NODEVICE, "cuda", "no NVRTC: TIDE_NVRTC_PATH is set, but %s", why);
    if (!lib)
        return tidei_fail(TIDE_E_NODEVICE, "cuda",
                          "no NVRTC: install the CUDA toolkit's libnvrtc.so.13 or .12 (NVIDIA's "
                          "package cuda-nvrtc-13-0; "
                          "pip install nvidia-cuda-nvrtc), or set TIDE_NVRTC_PATH to it%s%s%s",
                          *why ? " (" : "", why, *why ? ")" : "");
    tide_status s = fill(lib, &t);
    if (s != TIDE_OK) {
        tidei_library_close(lib);
        return s;
    }
    rtc = t;
    atomic_store_explicit(&opened, true, memory_order_release);
    return TIDE_OK;
}

tide_status tidei_nvrtc_open(int driver) {
    tide_status s = TIDE_OK;
    if (atomic_load_explicit(&opened, memory_order_acquire)) return TIDE_OK;
    TIDEI_UNCANCELLED;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&opened, memory_order_relaxed)) s = open_library(driver);
    pthread_mutex_unlock(&lock);
    return s;
}

int tidei_nvrtc_version(void) {
    return atomic_load_explicit(&opened, memory_order_acquire) ? rtc.version : 0;
}
const char *tidei_nvrtc_folder(void) {
    return atomic_load_explicit(&opened, memory_order_acquire) ? rtc.folder : "";
}
static bool is_minimal(void) { return tidei_nvrtc_version() >= MINIMAL_SINCE; }
const char *tidei_nvrtc_options(void) { return options_text[is_minimal()]; }

/* The architecture to compile for: the GPU's own, or the newest of its generation that is not newer
** (its cubins run there too), or else PTX for the newest of all, which the driver translates. 0:
** none. */
static int arch_of(int sm, bool *ptx) {
    int best = 0;
    for (int i = 0; i < rtc.narchs; i++)
        if (rtc.archs[i] <= sm && rtc.archs[i] / 10 == sm / 10 && rtc.archs[i] > best)
            best = rtc.archs[i];
    *ptx = best == 0;
    for (int i = 0; *ptx && i < rtc.narchs; i++)
        if (rtc.archs[i] <= sm && rtc.archs[i] > best) best = rtc.archs[i];
    return best;
}

int tidei_nvrtc_arch(int sm) {
    bool ptx;
    return atomic_load_explicit(&opened, memory_order_acquire) ? arch_of(sm, &ptx) : 0;
}

static tide_status choose(int sm, char *option, size_t cap, bool *ptx) {
    if (sm < rtc.oldest)
        return tidei_fail(
            TIDE_E_UNSUPPORTED, "cuda",
            "NVRTC %d.%d compiles for sm_%d and newer, this GPU is sm_%d: install an older NVRTC",
            rtc.version / 1000, rtc.version % 1000 / 10, rtc.oldest, sm);
    const int arch = arch_of(sm, ptx);
    tidei_format(option, cap, "-arch=%s_%d", *ptx ? "compute" : "sm", arch);
    return TIDE_OK;
}

tide_status tidei_nvrtc_serves(int sm) {
    char arch[32];
    bool ptx;
    tide_status s = tidei_nvrtc_open(0);
    return s == TIDE_OK ? choose(sm, arch, sizeof arch, &ptx) : s;
}

static tide_status out_of_memory(const char *name) {
    return tidei_fail(TIDE_E_HOST_NOMEM, "cuda",
                      "host memory was exhausted while NVRTC compiled %s", name);
}

static tide_status with_log(tidei_nvrtc_program p, const char *name, const char *arch,
                            tidei_nvrtc_result r) {
    size_t n = 0;
    char *log = NULL;
    if (r == TIDEI_NVRTC_OUT_OF_MEMORY) return out_of_memory(name);
    if (rtc.nvrtcGetProgramLogSize(p, &n) == TIDEI_NVRTC_SUCCESS && n > 1 && (log = malloc(n)))
        if (rtc.nvrtcGetProgramLog(p, log) != TIDEI_NVRTC_SUCCESS) log[0] = 0;
    tide_status s =
        tidei_fail(TIDE_E_DEVICE, "cuda", "NVRTC %d.%d did not compile %s (%s), error %u:\n%s",
                   rtc.version / 1000, rtc.version % 1000 / 10, name, arch, r, log ? log : "");
    free(log);
    return s;
}

static tide_status take(tidei_nvrtc_program p, bool ptx, const char *name, void **image,
                        size_t *bytes) {
    size_t n = 0;
    tidei_nvrtc_result r = ptx ? rtc.nvrtcGetPTXSize(p, &n) : rtc.nvrtcGetCUBINSize(p, &n);
    if (r != TIDEI_NVRTC_SUCCESS || n == 0)
        return tidei_fail(TIDE_E_DEVICE, "cuda", "NVRTC gave no code for %s, error %u", name, r);
    char *code = malloc(n);
    if (!code) return tidei_fail_host_memory("cuda", n);
    r = ptx ? rtc.nvrtcGetPTX(p, code) : rtc.nvrtcGetCUBIN(p, code);
    if (r != TIDEI_NVRTC_SUCCESS) {
        free(code);
        return tidei_fail(TIDE_E_DEVICE, "cuda", "NVRTC gave no code for %s, error %u", name, r);
    }
    *image = code;
    *bytes = n;
    return TIDE_OK;
}

tide_status tidei_nvrtc_compile(const char *source, const char *name, int sm, void **image,
                                size_t *bytes) {
    TIDEI_UNCANCELLED;
    TIDEI_IN_C_LOCALE; /* a compiler reads numbers, and writes some */
    char arch[32];
    const char *given[TIDEI_COUNT(options) + 1];
    tidei_nvrtc_program p = NULL;
    bool ptx = false;
    tide_status s = tidei_nvrtc_open(0);
    if (s == TIDE_OK) s = choose(sm, arch, sizeof arch, &ptx);
    if (s != TIDE_OK) return s;
    given[0] = arch;
    memcpy(given + 1, options, sizeof options);
    const int n = (int)TIDEI_COUNT(given) - !is_minimal();
    tidei_nvrtc_result r = rtc.nvrtcCreateProgram(&p, source, name, 0, NULL, NULL);
    if (r == TIDEI_NVRTC_OUT_OF_MEMORY) return out_of_memory(name);
    if (r != TIDEI_NVRTC_SUCCESS)
        return tidei_fail(TIDE_E_DEVICE, "cuda", "NVRTC took no program %s, error %u", name, r);
    r = rtc.nvrtcCompileProgram(p, n, given);
    s = r == TIDEI_NVRTC_SUCCESS ? take(p, ptx, name, image, bytes) : with_log(p, name, arch, r);
    rtc.nvrtcDestroyProgram(&p);
    return s;
}

/* ---- beside the driver ---- */

static tide_status open_for(const tidei_nvrtc_opening *o) {
    tide_status s = tidei_nvrtc_open(o->driver);
    return s == TIDE_OK ? tidei_nvrtc_serves(o->sm) : s;
}

void tidei_early_drop(tidei_early *e) {
    for (; e->n; e->n--) {
        free(e->made[e->n - 1].text);
        free(e->made[e->n - 1].image);
    }
}

/* One that does not compile is left out: whoever asks for it is told. */
static void compile_early(tidei_nvrtc_opening *o) {
    tidei_early *e = o->early;
    char *text;
    for (unsigned i = 0; e->n < TIDEI_EARLY_MAX && !atomic_load(&o->enough) && (text = e->text(i));
         i++) {
        void *image = NULL;
        size_t bytes;
        if (tidei_nvrtc_compile(text, e->name, o->sm, &image, &bytes) != TIDE_OK) {
            free(text);
            continue;
        }
        e->made[e->n].text = text;
        e->made[e->n].image = image;
        e->made[e->n++].bytes = bytes;
    }
}

static void *beside(void *arg) {
    tidei_nvrtc_opening *o = arg;
    if (open_for(o) != TIDE_OK)
        tidei_error_save(&o->error);
    else if (o->early)
        compile_early(o);
    return NULL;
}

void tidei_nvrtc_begin(tidei_nvrtc_opening *o, int driver, int sm, tidei_early *early) {
    o->driver = driver;
    o->sm = sm;
    o->early = early;
    o->error.status = TIDE_OK;
    atomic_init(&o->enough, false);
    o->beside = !atomic_load_explicit(&opened, memory_order_acquire) &&
                tidei_own_thread_start(&o->thread, beside, o) == 0;
}

tide_status tidei_nvrtc_finish(tidei_nvrtc_opening *o) {
    if (!o->beside) return open_for(o);
    atomic_store(&o->enough, true);
    tidei_join(o->thread);
    if (o->error.status != TIDE_OK) tidei_error_restore(&o->error);
    return o->error.status;
}
