/* emulate.h: runs generated CUDA text on the host: a C++ compiler takes the text behind a few
** definitions that stand for the CUDA language, and a block's threads run as coroutines that change
** places at barriers. For tests: numbers, not speed.
**
** Several kernels make one module, each in a namespace of its own, as compilers are slow to start.
** The same way of putting them together serves NVRTC (emu_source with target EMU_NVRTC). */
#ifndef EMULATE_H
#define EMULATE_H

#include "tests/support/tidetest.h"
#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

static const char emu_language[] =
    "#define __CUDACC_RTC__ 1\n"
    "#define __global__\n#define __device__\n#define __forceinline__ inline\n#define __noinline__\n"
    "#define __launch_bounds__(...)\n#define __grid_constant__\n#define __align__(n) "
    "__attribute__((aligned(n)))\n"
    "#define __shared__ thread_local\n"
    "struct emu_dim { unsigned x, y, z; };\n"
    "static thread_local emu_dim threadIdx, blockIdx, gridDim;\n"
    "static thread_local void (*emu_barrier)(void);\n"
    "static inline void __syncthreads() { emu_barrier(); }\n"
    "static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> "
    "32; }\n"
    "static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {\n"
    "    return (unsigned __int128)a * b >> 64;\n}\n"
    "static inline unsigned __float_as_uint(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); "
    "return u; }\n"
    "static inline float __uint_as_float(unsigned u) { float x; __builtin_memcpy(&x, &u, 4); "
    "return x; }\n"
    "static inline long long __double_as_longlong(double x) { long long u; __builtin_memcpy(&u, "
    "&x, 8); return u; "
    "}\n"
    "static inline double __longlong_as_double(long long u) { double x; __builtin_memcpy(&x, &u, "
    "8); return x; }\n"
    "#define ONE(g) static inline float g(float x) { return __builtin_##g##f(x); } \\\n"
    "               static inline double g(double x) { return __builtin_##g(x); }\n"
    "#define TWO(g) static inline float g(float x, float y) { return __builtin_##g##f(x, y); } \\\n"
    "               static inline double g(double x, double y) { return __builtin_##g(x, y); }\n"
    "ONE(floor) ONE(ceil) ONE(trunc) ONE(rint) ONE(sqrt) ONE(exp) ONE(expm1) ONE(exp2) ONE(log) "
    "ONE(log1p) "
    "ONE(log2)\n"
    "ONE(log10) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) "
    "ONE(tanh) ONE(asinh)\n"
    "ONE(acosh) ONE(atanh) ONE(fabs) TWO(fmod) TWO(pow) TWO(atan2) TWO(hypot) TWO(copysign)\n"
    "#undef ONE\n#undef TWO\n";

/* Called once a launch and OS thread: where to write threadIdx, blockIdx, gridDim and the barrier.
** tide_room is what a launch asks for as shared memory. */
static const char emu_entry[] =
    "extern \"C\" { thread_local char tide_room[48 << 10] __attribute__((aligned(16))); }\n"
    "extern \"C\" void emu_state(emu_dim **t, emu_dim **b, emu_dim **g, void (***barrier)(void)) "
    "{\n"
    "    *t = &threadIdx; *b = &blockIdx; *g = &gridDim; *barrier = &emu_barrier;\n}\n";

typedef struct emu_dim {
    unsigned x, y, z;
} emu_dim;

typedef struct emu_module {
    char *header; /* what all kernels share */
    char *source;
    size_t n, cap;
    unsigned kernels;
    void *library;
    void (*state)(emu_dim **t, emu_dim **b, emu_dim **g, void (***barrier)(void));
} emu_module;

static inline void emu_say(emu_module *m, const char *text) {
    size_t n = strlen(text);
    if (m->n + n + 1 > m->cap) {
        m->cap = 2 * m->cap + n + 4096;
        m->source = realloc(m->source, m->cap);
        if (!m->source) abort();
    }
    memcpy(m->source + m->n, text, n + 1);
    m->n += n;
}

/* Adds a kernel's text, whose common part ends at `body`; returns its number. */
static inline unsigned emu_add(emu_module *m, const char *text, size_t body) {
    char line[128];
    unsigned k = m->kernels++;
    if (!m->header) {
        size_t skip = strncmp(text, "#define TD_COMPLEX\n", 19) == 0 ? 19 : 0;
        m->header = malloc(body - skip + 32);
        if (!m->header) abort();
        sprintf(m->header, "#define TD_COMPLEX\n%.*s", (int)(body - skip), text + skip);
    }
    snprintf(line, sizeof line, "namespace k%u {\n#define tide_k tide_k_%u\n", k, k);
    emu_say(m, line);
    emu_say(m, text + body);
    snprintf(line, sizeof line, "#undef tide_k\n}\n");
    emu_say(m, line);
    return k;
}

/* All kernels of the module as one text for NVRTC; kernel n is tide_k_n. */
static inline char *emu_nvrtc_source(const emu_module *m) {
    char *s = malloc(strlen(m->header) + m->n + 1);
    if (!s) abort();
    strcpy(s, m->header);
    strcat(s, m->source);
    return s;
}

static inline void emu_close(emu_module *m) {
    if (m->library) dlclose(m->library);
    free(m->header);
    free(m->source);
    memset(m, 0, sizeof *m);
}

/* The C++ compiler that emulation takes; NULL if there is none, or a sanitizer would not follow
** coroutines. */
static inline const char *emu_compiler(void) {
#if defined(__SANITIZE_THREAD__)
    return NULL;
#else
    const char *cxx = getenv("TIDE_TEST_CXX");
    if (cxx) return *cxx ? cxx : NULL;
    return system("command -v c++ >/dev/null 2>&1") == 0 ? "c++" : NULL;
#endif
}

/* Compiles and opens the module. */
static inline void emu_build(emu_module *m) {
    char dir[] = "/tmp/tide-emulate-XXXXXX", path[64], lib[64], command[512];
    const char *cxx = emu_compiler();
    if (!cxx) { /* callers ask before */
        fail_msg("no C++ compiler to emulate with");
        return;
    }
    if (!mkdtemp(dir)) fail_msg("mkdtemp: %s", dir);
    snprintf(path, sizeof path, "%s/k.cc", dir);
    snprintf(lib, sizeof lib, "%s/k.so", dir);
    FILE *f = fopen(path, "w");
    if (!f) fail_msg("cannot write %s", path);
    fprintf(f, "%s%s%s", emu_language, m->header, m->source);
    for (unsigned k = 0; k < m->kernels; k++)
        fprintf(f,
                "extern \"C\" void emu_run_%u(const void *p) { k%u::tide_k_%u(*(const k%u::tide_p "
                "*)p); }\n",
                k, k, k, k);
    fputs(emu_entry, f);
    fclose(f);
    snprintf(command, sizeof command,
             "%s -std=c++17 -O0 -w -fPIC -shared -ffp-contract=off -fwrapv -o %s %s -lm", cxx, lib,
             path);
    int rc = system(command);
    if (rc == 0) m->library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (rc != 0) fail_msg("the emulated kernels do not compile: %s", command);
    if (!m->library) fail_msg("%s", dlerror());
    *(void **)&m->state = dlsym(m->library, "emu_state");
    unlink(lib);
    unlink(path);
    rmdir(dir);
}

/* ---- running ---- */
#define EMU_THREADS 256
#define EMU_STACK   ((size_t)64 << 10)

typedef struct emu_block { /* one block under way: its threads as coroutines */
    ucontext_t scheduler, threads[EMU_THREADS];
    bool done[EMU_THREADS], waiting[EMU_THREADS];
    unsigned current;
    void (*kernel)(const void *params);
    const void *params;
    char *stacks;
} emu_block;
static _Thread_local emu_block *emu_now;

static inline void emu_wait(void) {
    emu_block *b = emu_now;
    b->waiting[b->current] = true;
    swapcontext(&b->threads[b->current], &b->scheduler);
}

static inline void emu_thread(void) {
    emu_block *b = emu_now;
    b->kernel(b->params);
    b->done[b->current] = true;
    swapcontext(&b->threads[b->current], &b->scheduler);
}

/* getcontext may return twice: so in a frame of its own */
static inline void emu_start(emu_block *b, unsigned t) {
    getcontext(&b->threads[t]);
    b->threads[t].uc_stack.ss_sp = b->stacks + t * EMU_STACK;
    b->threads[t].uc_stack.ss_size = EMU_STACK;
    b->threads[t].uc_link = NULL;
    makecontext(&b->threads[t], emu_thread, 0);
}

/* Runs one block to its end; threads that wait at a barrier go on when all do. */
static inline void emu_run_block(emu_block *b, emu_dim *thread) {
    memset(b->done, 0, sizeof b->done);
    for (unsigned t = 0; t < EMU_THREADS; t++) emu_start(b, t);
    for (unsigned left = EMU_THREADS, pass = 0; left; pass++) {
        unsigned waiting = 0, ended = 0;
        for (unsigned i = 0; i < EMU_THREADS; i++) {
            /* an order that a missing barrier would not survive */
            unsigned t = pass % 2 ? i : EMU_THREADS - 1 - i;
            if (b->done[t]) continue;
            b->current = t;
            b->waiting[t] = false;
            *thread = (emu_dim){t, 0, 0};
            swapcontext(&b->scheduler, &b->threads[t]);
            waiting += b->waiting[t];
            ended += b->done[t];
        }
        if (ended && waiting)
            fail_msg("%u threads wait at a barrier that %u left behind", waiting, ended);
        left -= ended;
    }
}

static inline void emu_launch(emu_module *m, unsigned k, unsigned gx, unsigned gy,
                              const void *params, bool barriers) {
    emu_dim *thread, *block, *grid;
    void (**barrier)(void);
    char name[32];
    void (*kernel)(const void *);
    snprintf(name, sizeof name, "emu_run_%u", k);
    *(void **)&kernel = dlsym(m->library, name);
    if (!kernel) fail_msg("no %s", name);
    m->state(&thread, &block, &grid, &barrier);
    *barrier = emu_wait;
    *grid = (emu_dim){gx, gy, 1};
    emu_block *b = barriers ? calloc(1, sizeof *b) : NULL;
    if (b) {
        *b = (emu_block){
            .kernel = kernel, .params = params, .stacks = malloc(EMU_THREADS * EMU_STACK)};
        emu_now = b;
    }
    for (unsigned y = 0; y < gy; y++)
        for (unsigned x = 0; x < gx; x++) {
            *block = (emu_dim){x, y, 0};
            if (b)
                emu_run_block(b, thread);
            else
                for (unsigned t = 0; t < EMU_THREADS; t++) {
                    *thread = (emu_dim){t, 0, 0};
                    kernel(params);
                }
        }
    if (b) free(b->stacks);
    free(b);
}

#endif
