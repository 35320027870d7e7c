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
#include <errno.h>
#include <ucontext.h>
#include <unistd.h>
#include <xxhash.h>

static const char emu_language[] =
    "#define __CUDACC_RTC__ 1\n"
    "#define __global__\n#define __device__\n#define __forceinline__ inline\n#define __noinline__\n"
    "#define __launch_bounds__(...)\n#define __grid_constant__\n#define __align__(n) "
    "__attribute__((aligned(n)))\n"
    "#define __shared__ thread_local\n"
    "struct emu_dim { unsigned x, y, z; };\n"
    "static thread_local emu_dim threadIdx, blockIdx, gridDim, blockDim;\n"
    "static thread_local void (*emu_barrier)(void);\n"
    "static thread_local void (*emu_warp)(unsigned lanes);\n"
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
    "ONE(erf) ONE(erfc) ONE(lgamma)\n"
    "static inline float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }\n"
    "static inline double ldexp(double x, int n) { return __builtin_ldexp(x, n); }\n"
    "static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }\n"
    "static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }\n"
    "#undef ONE\n#undef TWO\n"
    /* the number whose erf is a, where 1 less a is `rest`: by halving an interval */
    "static inline long double emu_erfinv(long double a, long double rest) {\n"
    "    long double lo = 0, hi = 120;\n"
    "    if (a < 0) return -emu_erfinv(-a, 2 - rest);\n"
    "    if (!(rest > 0)) return rest == 0 ? __builtin_infl() : __builtin_nanl(\"\");\n"
    "    if (a < 1e-8L) return a * 0.886226925452758013649L;\n"
    "    for (int i = 0; i < 120; i++) {\n"
    "        const long double m = (lo + hi) / 2;\n"
    "        ((a < 0.5L ? __builtin_erfl(m) < a : __builtin_erfcl(m) > rest) ? lo : hi) = m;\n"
    "    }\n"
    "    return lo;\n}\n"
    "static inline long double emu_ppf(long double p) {\n"
    "    const long double s = 1.41421356237309504880L;\n"
    "    return p < 0.5L ? -s * emu_erfinv(1 - 2 * p, 2 * p) : s * emu_erfinv(2 * p - 1, 2 - 2 * "
    "p);\n}\n"
    "static inline float erfinv(float x) { return (float)emu_erfinv(x, 1 - (long double)x); }\n"
    "static inline double erfinv(double x) { return (double)emu_erfinv(x, 1 - (long double)x); }\n"
    "static inline float normcdfinv(float x) { return (float)emu_ppf(x); }\n"
    "static inline double normcdfinv(double x) { return (double)emu_ppf(x); }\n";

/* Warps: lanes are threads in a row, of blocks of one dimension. A lane that a call's mask names,
** and that never comes, is found as a barrier that was left behind. */
static const char emu_warps[] =
    "static thread_local unsigned long long emu_given[32][32];\n"
    "static inline unsigned emu_lane() { return threadIdx.x % 32; }\n"
    "static inline void __syncwarp(unsigned lanes = ~0u) { emu_warp(lanes); }\n"
    "template <class T> static inline void emu_give(T v) {\n"
    "    static_assert(sizeof v <= 8, \"shuffled values have 8 bytes at most\");\n"
    "    __builtin_memcpy(&emu_given[threadIdx.x / 32][emu_lane()], &v, sizeof v);\n}\n"
    "template <class T> static inline T emu_taken(unsigned lane) {\n"
    "    T v; __builtin_memcpy(&v, &emu_given[threadIdx.x / 32][lane], sizeof v); return v;\n}\n"
    "template <class T> static inline T emu_shuffle(unsigned lanes, T v, int from, bool there) {\n"
    "    emu_give(v); emu_warp(lanes);\n"
    "    T got = there ? emu_taken<T>((unsigned)from) : v;\n"
    "    emu_warp(lanes); return got;\n}\n"
    "template <class T> static inline T __shfl_sync(unsigned m, T v, int from, int width = 32) {\n"
    "    int l = emu_lane(); return emu_shuffle(m, v, (l & ~(width - 1)) + (from & (width - 1)), "
    "true);\n}\n"
    "template <class T> static inline T __shfl_up_sync(unsigned m, T v, unsigned by, int width = "
    "32) {\n"
    "    int l = emu_lane(), at = l - (int)by; return emu_shuffle(m, v, at, at >= (l & ~(width - "
    "1)));\n}\n"
    "template <class T> static inline T __shfl_down_sync(unsigned m, T v, unsigned by, int width = "
    "32) {\n"
    "    int l = emu_lane(), at = l + (int)by;\n"
    "    return emu_shuffle(m, v, at, at < (l & ~(width - 1)) + width);\n}\n"
    "template <class T> static inline T __shfl_xor_sync(unsigned m, T v, int with, int width = 32) "
    "{\n"
    "    int l = emu_lane(), at = l ^ with; return emu_shuffle(m, v, at, at < (l & ~(width - 1)) + "
    "width);\n}\n"
    "template <class T> static inline unsigned __match_any_sync(unsigned lanes, T v) {\n"
    "    unsigned same = 0; emu_give(v); emu_warp(lanes);\n"
    "    for (unsigned i = 0; i < 32; i++) {\n"
    "        if (!(lanes >> i & 1)) continue;\n"
    "        T other = emu_taken<T>(i);\n"
    "        if (!__builtin_memcmp(&other, &v, sizeof v)) same |= 1u << i;\n    }\n"
    "    emu_warp(lanes); return same;\n}\n"
    "static inline unsigned __ballot_sync(unsigned lanes, int said) {\n"
    "    unsigned yes = 0; emu_give(said); emu_warp(lanes);\n"
    "    for (unsigned i = 0; i < 32; i++)\n"
    "        if (lanes >> i & 1 && emu_taken<int>(i)) yes |= 1u << i;\n"
    "    emu_warp(lanes); return yes;\n}\n"
    "static inline int __any_sync(unsigned m, int said) { return __ballot_sync(m, said) != 0; }\n"
    "static inline int __all_sync(unsigned m, int said) { return __ballot_sync(m, said) == m; }\n"
    "#define EMU_REDUCE(name, op) static inline unsigned __reduce_##name##_sync(unsigned m, "
    "unsigned v) { \\\n"
    "    unsigned r = v; emu_give(v); emu_warp(m); \\\n"
    "    for (unsigned i = 0; i < 32; i++) if (m >> i & 1 && i != emu_lane()) { \\\n"
    "        unsigned o = emu_taken<unsigned>(i); r = op; } \\\n"
    "    emu_warp(m); return r; }\n"
    "EMU_REDUCE(add, r + o) EMU_REDUCE(min, o < r ? o : r) EMU_REDUCE(max, o > r ? o : r)\n"
    "EMU_REDUCE(or, r | o) EMU_REDUCE(and, r & o)\n"
    "#undef EMU_REDUCE\n"
    "static inline int __syncthreads_count(int said) {\n"
    "    static thread_local int count; __syncthreads(); if (!threadIdx.x) count = 0;\n"
    "    __syncthreads(); count += said != 0; __syncthreads(); int all = count; __syncthreads(); "
    "return all;\n}\n"
    "static inline int __syncthreads_or(int said) { return __syncthreads_count(said) != 0; }\n"
    "static inline int __syncthreads_and(int said) { return __syncthreads_count(!said) == 0; }\n";

/* Threads of a block take turns, and blocks run one after the other: nothing is really atomic. */
static const char emu_atomics[] =
    "static inline void __threadfence() {}\n"
    "static inline void __threadfence_block() {}\n"
    "static inline void __threadfence_system() {}\n"
    "extern \"C\" int sched_yield(void);\n"
    "static inline void __nanosleep(unsigned) { sched_yield(); }\n"
    "#define ATOMIC(name, now) template <class T, class U> static inline T name(T *p, U given) { "
    "\\\n"
    "    T was = *p, v = (T)given; *p = now; return was; }\n"
    "ATOMIC(atomicAdd, was + v) ATOMIC(atomicSub, was - v) ATOMIC(atomicExch, v)\n"
    /* by which blocks of a cluster, threads of the system, count for each other */
    "static inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {\n"
    "    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);\n}\n"
    "ATOMIC(atomicMin, v < was ? v : was) ATOMIC(atomicMax, v > was ? v : was)\n"
    "ATOMIC(atomicOr, was | v) ATOMIC(atomicAnd, was & v) ATOMIC(atomicXor, was ^ v)\n"
    "#undef ATOMIC\n"
    "template <class T, class U, class V> static inline T atomicCAS(T *p, U is, V becomes) {\n"
    "    T was = *p; if (was == (T)is) *p = (T)becomes; return was;\n}\n"
    "template <class T> static inline T __ldg(const T *p) { return *p; }\n"
    "template <class T> static inline T __ldcs(const T *p) { return *p; }\n"
    "template <class T> static inline T __ldcg(const T *p) { return *p; }\n"
    "template <class T> static inline void __stcs(T *p, T v) { *p = v; }\n"
    "template <class T> static inline void __stcg(T *p, T v) { *p = v; }\n"
    "static inline int __popc(unsigned x) { return __builtin_popcount(x); }\n"
    "static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }\n"
    "static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }\n"
    "static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : "
    "64; }\n"
    "static inline int __ffs(int x) { return __builtin_ffs(x); }\n"
    "static inline int __ffsll(long long x) { return __builtin_ffsll(x); }\n"
    "static inline unsigned __brev(unsigned x) {\n"
    "    unsigned r = 0; for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i); return r;\n}\n"
    "template <class T> static inline T min(T a, T b) { return b < a ? b : a; }\n"
    "template <class T> static inline T max(T a, T b) { return a < b ? b : a; }\n"
    "struct alignas(8) uint2 { unsigned x, y; };\n"
    "struct alignas(16) uint4 { unsigned x, y, z, w; };\n"
    "struct alignas(16) ulonglong2 { unsigned long long x, y; };\n"
    "static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }\n"
    "static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {\n"
    "    return {x, y, z, w};\n}\n"
    "static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) {\n"
    "    return {x, y};\n}\n";

/* Clusters: each block of one has a thread of the system, so that each has its own shared memory,
** which others find as far from their anchor as from its own. */
static const char emu_clusters[] =
    "#define __cluster_dims__(...)\n"
    "static thread_local void (*emu_meet)(void);\n"
    "static thread_local char emu_anchor, *emu_anchors[16];\n"
    "static inline void __cluster_barrier_arrive() {}\n"
    "static inline void __cluster_barrier_wait() {\n"
    "    emu_barrier(); if (!threadIdx.x) emu_meet(); emu_barrier();\n}\n"
    "template <class T> static inline void *__cluster_map_shared_rank(T *p, unsigned rank) {\n"
    "    return (char *)p - &emu_anchor + emu_anchors[rank];\n}\n";

/* Called once a launch and OS thread: where a launch writes what its threads see. tide_room is what
** it asks for as shared memory. */
static const char emu_entry[] =
    "extern \"C\" { thread_local char tide_room[48 << 10] __attribute__((aligned(16))); }\n"
    "struct emu_state_of {\n"
    "    emu_dim *thread, *block, *grid, *block_size;\n"
    "    void (**barrier)(void);\n    void (**warp)(unsigned lanes);\n"
    "    void (**meet)(void);\n    char *anchor, **anchors;\n};\n"
    "extern \"C\" void emu_state(emu_state_of *s) {\n"
    "    *s = {&threadIdx, &blockIdx, &gridDim, &blockDim, &emu_barrier, &emu_warp, &emu_meet,\n"
    "          &emu_anchor, emu_anchors};\n}\n";

typedef struct emu_dim {
    unsigned x, y, z;
} emu_dim;

typedef struct emu_state_of {
    emu_dim *thread, *block, *grid, *block_size;
    void (**barrier)(void);
    void (**warp)(unsigned lanes);
    void (**meet)(void);
    char *anchor, **anchors;
} emu_state_of;

typedef struct emu_module {
    char *header; /* what all kernels share */
    char *source;
    size_t n, cap;
    unsigned kernels;
    void *library;
    void (*state)(emu_state_of *s);
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
    if (!m->header || body > strlen(m->header)) { /* the one with most functions */
        free(m->header);
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

/* What the compiler is given: the language, the kernels, an entry for each. To be freed. */
static inline char *emu_whole_text(const emu_module *m) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) abort();
    fprintf(f, "%s%s%s%s%s%s", emu_language, emu_warps, emu_atomics, emu_clusters, m->header,
            m->source);
    for (unsigned k = 0; k < m->kernels; k++)
        fprintf(f,
                "extern \"C\" void emu_run_%u(const void *p) { k%u::tide_k_%u(*(const k%u::tide_p "
                "*)p); }\n",
                k, k, k, k);
    fputs(emu_entry, f);
    if (fclose(f)) abort();
    return text;
}

/* Where the library of a text is kept that is compiled by the command `how`: in the folder
** TIDE_TEST_EMULATED, so that a further run does not wait for the compiler; "" without one. */
static inline void emu_kept_at(const char *text, const char *how, char *path, size_t room) {
    const char *folder = getenv("TIDE_TEST_EMULATED");
    *path = 0;
    if (!folder || !*folder) return;
    XXH128_hash_t h = XXH3_128bits_withSeed(text, strlen(text), XXH3_64bits(how, strlen(how)));
    int n = snprintf(path, room, "%s/%016llx%016llx.so", folder, (unsigned long long)h.high64,
                     (unsigned long long)h.low64);
    if (n < 0 || (size_t)n >= room) fail_msg("TIDE_TEST_EMULATED is too long: %s", folder);
}

/* Makes the library `lib` of the text, or copies the one that is kept. `path`: a file for the text,
** which is gone afterwards. */
static inline void emu_compile(const char *text, const char *path, const char *lib) {
    char how[1024], kept[512], command[2048];
    snprintf(how, sizeof how, "%s -std=c++17 -O0 -w -fPIC -shared -ffp-contract=off -fwrapv",
             emu_compiler());
    emu_kept_at(text, how, kept, sizeof kept);
    snprintf(command, sizeof command, "cp '%s' %s 2>/dev/null", kept, lib);
    if (*kept && system(command) == 0) return;
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) fail_msg("cannot write %s", path);
    snprintf(command, sizeof command, "%s -o %s %s -lm", how, lib, path);
    if (system(command) != 0) fail_msg("the emulated kernels do not compile: %s", command);
    unlink(path);
    /* By a name of its own first: another program may look for it now. */
    snprintf(
        command, sizeof command,
        "own=$(mktemp '%s.XXXXXX') && { cp %s \"$own\" && mv \"$own\" '%s' || rm -f \"$own\"; }",
        kept, lib, kept);
    if (*kept && system(command) != 0) fprintf(stderr, "cannot keep %s\n", kept);
}

/* Compiles and opens the module. Each has a file of its own, even of the same text: a file that is
** opened twice is one library, whose state blocks of two streams would share. */
static inline void emu_build(emu_module *m) {
    char dir[] = "/tmp/tide-emulate-XXXXXX", path[64], lib[64];
    if (!emu_compiler()) { /* callers ask before */
        fail_msg("no C++ compiler to emulate with");
        return;
    }
    if (!mkdtemp(dir)) fail_msg("mkdtemp: %s", dir);
    snprintf(path, sizeof path, "%s/k.cc", dir);
    snprintf(lib, sizeof lib, "%s/k.so", dir);
    char *text = emu_whole_text(m);
    emu_compile(text, path, lib);
    free(text);
    m->library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) fail_msg("%s", dlerror());
    *(void **)&m->state = dlsym(m->library, "emu_state");
    unlink(lib);
    rmdir(dir);
}

/* ---- running ---- */
#define EMU_THREADS 256 /* a block's, where nothing else is said */
#define EMU_MOST    1024
#define EMU_STACK   ((size_t)64 << 10)

typedef enum { EMU_RUNS, EMU_AT_BARRIER, EMU_AT_WARP, EMU_DONE } emu_place;

/* How a thread leaves for another: swapcontext would ask the system for the signal mask each time,
** and longjmp, which AddressSanitizer puts its own in place of, would take the frames between for
** ended. So the compiler's own (GCC's; clang's on x86-64). noipa: else callers keep values in
** registers that these functions leave alone, and the threads that run in between do not.
** no_sanitize: else AddressSanitizer takes the jump for a return past all frames. */
#if __has_attribute(noipa)
#define EMU_SWITCHES __attribute__((noipa, no_sanitize("address")))
#else
#define EMU_SWITCHES __attribute__((noinline, no_sanitize("address")))
#endif
typedef void *emu_return_point[5];

typedef struct emu_block { /* one block under way: its threads as coroutines */
    ucontext_t threads[EMU_MOST];
    emu_return_point scheduler_at, at[EMU_MOST]; /* where each goes on, once it has begun */
    bool begun[EMU_MOST];
    emu_place place[EMU_MOST];
    unsigned lanes[EMU_MOST]; /* of those at a warp's barrier: whom they wait for */
    unsigned current, size;
    void (*kernel)(const void *params);
    const void *params;
    char *stacks;
} emu_block;
static _Thread_local emu_block *emu_now;

/* A launch may run on a device's thread, which no case can leave. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void emu_die(const char *format,
                                                                           ...) {
    va_list ap;
    va_start(ap, format);
    fputs("emulation: ", stderr);
    vfprintf(stderr, format, ap);
    fputs("\n", stderr);
    va_end(ap);
    abort();
}

/* In a function of its own: a compiler takes for granted that none jumps to itself. */
static EMU_SWITCHES void emu_jump(emu_return_point to) { __builtin_longjmp(to, 1); }

/* From the current thread to the scheduler, until that goes on with it. */
static EMU_SWITCHES void emu_pause(emu_block *b) {
    if (!__builtin_setjmp(b->at[b->current])) emu_jump(b->scheduler_at);
}

/* From the scheduler to a thread, until that pauses. */
static EMU_SWITCHES void emu_go_on(emu_block *b, unsigned t) {
    bool begun = b->begun[t];
    b->current = t;
    b->begun[t] = true;
    if (__builtin_setjmp(b->scheduler_at)) return;
    if (begun) emu_jump(b->at[t]);
    setcontext(&b->threads[t]);
    emu_die("setcontext: %s", strerror(errno));
}

static inline void emu_leave(emu_place place) {
    emu_block *b = emu_now;
    b->place[b->current] = place;
    emu_pause(b);
}
static inline void emu_wait(void) { emu_leave(EMU_AT_BARRIER); }

/* The last lane that comes goes on, and so may the others. */
static inline void emu_wait_warp(unsigned lanes) {
    emu_block *b = emu_now;
    unsigned first = b->current / 32 * 32;
    if (!(lanes >> b->current % 32 & 1)) emu_die("a lane waits for %x, and is not in it", lanes);
    b->lanes[b->current] = lanes;
    b->place[b->current] = EMU_AT_WARP;
    for (unsigned i = 0; i < 32 && first + i < b->size; i++)
        if (lanes >> i & 1 && b->place[first + i] != EMU_DONE &&
            (b->place[first + i] != EMU_AT_WARP || b->lanes[first + i] != lanes)) {
            emu_pause(b);
            return;
        }
    for (unsigned i = 0; i < 32 && first + i < b->size; i++)
        if (lanes >> i & 1 && b->place[first + i] == EMU_AT_WARP) b->place[first + i] = EMU_RUNS;
}

static inline void emu_thread(void) {
    emu_block *b = emu_now;
    b->kernel(b->params);
    emu_leave(EMU_DONE);
}

/* getcontext may return twice: so in a frame of its own */
static inline void emu_start(emu_block *b, unsigned t) {
    getcontext(&b->threads[t]);
    b->threads[t].uc_stack.ss_sp = b->stacks + t * EMU_STACK;
    b->threads[t].uc_stack.ss_size = EMU_STACK;
    b->threads[t].uc_link = NULL;
    makecontext(&b->threads[t], emu_thread, 0);
    b->place[t] = EMU_RUNS;
    b->begun[t] = false;
}

/* Has each thread that can go on do so, in an order that a missing barrier would not survive;
** returns how many did. */
static inline unsigned emu_pass(emu_block *b, emu_dim *thread, bool upwards) {
    unsigned ran = 0;
    for (unsigned i = 0; i < b->size; i++) {
        unsigned t = upwards ? i : b->size - 1 - i;
        if (b->place[t] != EMU_RUNS) continue;
        *thread = (emu_dim){t, 0, 0};
        emu_go_on(b, t);
        ran++;
    }
    return ran;
}

/* Runs one block to its end; threads that wait at the block's barrier go on when all do. */
static inline void emu_run_block(emu_block *b, emu_dim *thread) {
    for (unsigned t = 0; t < b->size; t++) emu_start(b, t);
    for (unsigned pass = 0;; pass++) {
        unsigned at[EMU_DONE + 1] = {0};
        if (emu_pass(b, thread, pass % 2)) continue;
        for (unsigned t = 0; t < b->size; t++) at[b->place[t]]++;
        if (at[EMU_DONE] == b->size) return;
        if (at[EMU_AT_BARRIER] != b->size)
            emu_die("%u threads wait at a barrier and %u at a warp's, that %u left behind",
                    at[EMU_AT_BARRIER], at[EMU_AT_WARP], at[EMU_DONE]);
        for (unsigned t = 0; t < b->size; t++) b->place[t] = EMU_RUNS;
    }
}

static inline void emu_run_plain(void (*kernel)(const void *params), const void *params,
                                 unsigned threads, emu_dim *thread) {
    for (unsigned t = 0; t < threads; t++) {
        *thread = (emu_dim){t, 0, 0};
        kernel(params);
    }
}

/* A grid of blocks of `threads` threads in a row. The blocks run in order, or from the last to the
** first. Threads of a kernel without barriers need no coroutines. */
static inline void emu_run_grid(emu_module *m, void (*kernel)(const void *params),
                                const unsigned grid[3], unsigned threads, const void *params,
                                bool barriers, bool backwards) {
    emu_state_of at;
    emu_block *b = barriers ? calloc(1, sizeof *b) : NULL;
    unsigned n = grid[0] * grid[1] * grid[2];
    m->state(&at);
    *at.barrier = emu_wait;
    *at.warp = emu_wait_warp;
    *at.grid = (emu_dim){grid[0], grid[1], grid[2]};
    *at.block_size = (emu_dim){threads, 1, 1};
    if (b) {
        b->kernel = kernel, b->params = params, b->size = threads;
        b->stacks = malloc(threads * EMU_STACK);
        emu_now = b;
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned k = backwards ? n - 1 - i : i;
        *at.block = (emu_dim){k % grid[0], k / grid[0] % grid[1], k / grid[0] / grid[1]};
        if (b)
            emu_run_block(b, at.thread);
        else
            emu_run_plain(kernel, params, threads, at.thread);
    }
    if (b) free(b->stacks);
    free(b);
}

/* ---- clusters ---- */

#define EMU_CLUSTER_MOST 16

typedef struct emu_cluster {
    pthread_barrier_t all;
    unsigned size, first, threads,
        grid; /* the first block; threads of a block; blocks of the grid */
    emu_module *m;
    void (*kernel)(const void *params);
    const void *params;
    char *anchors[EMU_CLUSTER_MOST];
} emu_cluster;
typedef struct emu_member {
    emu_cluster *of;
    unsigned rank;
    pthread_t thread;
} emu_member;
static _Thread_local emu_cluster *emu_mine;

static inline void emu_meet_cluster(void) { pthread_barrier_wait(&emu_mine->all); }

static inline void *emu_run_member(void *arg) {
    const emu_member *member = arg;
    emu_cluster *c = member->of;
    emu_block *b = calloc(1, sizeof *b);
    emu_state_of at;
    if (!b) abort();
    emu_mine = c;
    c->m->state(&at);
    *at.barrier = emu_wait;
    *at.warp = emu_wait_warp;
    *at.meet = emu_meet_cluster;
    *at.grid = (emu_dim){c->grid, 1, 1};
    *at.block_size = (emu_dim){c->threads, 1, 1};
    *at.block = (emu_dim){c->first + member->rank, 0, 0};
    c->anchors[member->rank] = at.anchor;
    emu_meet_cluster();
    memcpy(at.anchors, c->anchors, sizeof c->anchors);
    b->kernel = c->kernel, b->params = c->params, b->size = c->threads;
    b->stacks = malloc(c->threads * EMU_STACK);
    emu_now = b;
    emu_run_block(b, at.thread);
    free(b->stacks);
    free(b);
    return NULL;
}

/* A grid of one dimension, of clusters of `size` blocks, from the last one to the first. */
static inline void emu_run_clusters(emu_module *m, void (*kernel)(const void *params),
                                    unsigned size, unsigned grid, unsigned threads,
                                    const void *params) {
    emu_member members[EMU_CLUSTER_MOST];
    emu_cluster c = {
        .size = size, .threads = threads, .grid = grid, .m = m, .kernel = kernel, .params = params};
    if (size > EMU_CLUSTER_MOST || grid % size) emu_die("a grid of %u blocks by %u", grid, size);
    pthread_barrier_init(&c.all, NULL, size);
    for (c.first = grid; c.first > 0;) {
        c.first -= size;
        for (unsigned i = 0; i < size; i++) {
            members[i] = (emu_member){.of = &c, .rank = i};
            if (pthread_create(&members[i].thread, NULL, emu_run_member, &members[i])) abort();
        }
        for (unsigned i = 0; i < size; i++) pthread_join(members[i].thread, NULL);
    }
    pthread_barrier_destroy(&c.all);
}

static inline void emu_launch_of(emu_module *m, unsigned k, unsigned gx, unsigned gy,
                                 unsigned threads, const void *params, bool barriers) {
    char name[32];
    void (*kernel)(const void *);
    snprintf(name, sizeof name, "emu_run_%u", k);
    *(void **)&kernel = dlsym(m->library, name);
    if (!kernel) emu_die("no %s", name);
    emu_run_grid(m, kernel, (const unsigned[]){gx, gy, 1}, threads, params, barriers, false);
}
static inline void emu_launch(emu_module *m, unsigned k, unsigned gx, unsigned gy,
                              const void *params, bool barriers) {
    emu_launch_of(m, k, gx, gy, EMU_THREADS, params, barriers);
}

#endif
