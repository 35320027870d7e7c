/* text.h: what the texts of our own kernels share: how they begin, which kernel is wanted, and
** divisions. The host includes it as C; the build embeds it before the texts that use it. */
#ifndef TIDEI_KERNEL_TEXT_H
#define TIDEI_KERNEL_TEXT_H

#ifdef __CUDACC_RTC__
#define KT_FN static __device__ __forceinline__

/* What each kernel does first (tests/kernels.py looks): it lets the grids that depend on it start,
** so far as there is room, and waits until those that it depends on are complete, and what they
** wrote is seen. Ours start so, behind one another, on streams (runtime/device/cuda/work.c) and in
** graphs (graph.c): what a launch takes is over by then. Others start early only where who launches
** them asks for it. */
#if __CUDA_ARCH__ >= 900
KT_FN void kt_grid_wait() {
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
}
#else
KT_FN void kt_grid_wait() {}
#endif

/* WANTED(name)(text) is the text where the kernel is the wanted one, as kernels.h defines it, or
** all are, else nothing: each takes a while to compile. For texts that a macro makes; others ask
** #if WANTS(name). WANTED_COMMA_1 has a comma, so that another argument comes second. */
#define WANTS(name) (TIDE_WANTS_ALL || TIDE_WANTS_##name)
#define WANTED_0(...)
#define WANTED_1(...) __VA_ARGS__
#ifdef TIDE_WANTS_ALL
#define WANTED(name) WANTED_1
#else
#define WANTED_COMMA_1           0,
#define WANTED_SECOND(a, b, ...) b
#define WANTED_PICK_3(comma)     WANTED_SECOND(comma 1, 0, 0)
#define WANTED_PICK_2(wants)     WANTED_PICK_3(WANTED_COMMA_##wants)
#define WANTED_PICK_1(wants)     WANTED_PICK_2(wants)
#define WANTED_JOIN_2(a, b)      a##b
#define WANTED_JOIN_1(a, b)      WANTED_JOIN_2(a, b)
#define WANTED(name)             WANTED_JOIN_1(WANTED_, WANTED_PICK_1(TIDE_WANTS_##name))
#endif
#else
#define KT_FN       static inline
#define WANTS(name) 1
#endif

/* Division of n < 2^31 by 1 <= d < 2^31 that the host has prepared: a high product, an addition and
** a shift. */
typedef struct kt_div {
    unsigned d, mul, shift;
} kt_div;
KT_FN unsigned kt_divided(const kt_div *by, unsigned n) {
    return ((unsigned)((unsigned long long)n * by->mul >> 32) + n) >> by->shift;
}
#ifndef __CUDACC_RTC__
static inline kt_div kt_div_by(unsigned d) {
    const unsigned shift = d > 1 ? 32u - (unsigned)__builtin_clz(d - 1) : 0;
    const unsigned long long one = (unsigned long long)1 << 32;
    return (kt_div){d, (unsigned)(one * (((unsigned long long)1 << shift) - d) / d + 1), shift};
}
#endif

/* a / b, of a >= 0 and b > 0: most numbers are small, and devices take five times as long to divide
** 64 bits. */
KT_FN long long kt_quotient(long long a, long long b) {
    return (a | b) >> 32 ? a / b : (long long)((unsigned)a / (unsigned)b);
}

#endif
