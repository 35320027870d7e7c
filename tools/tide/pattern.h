/* pattern.h: writing a pattern into a block, and comparing the block with it: one text for both
** back ends (touch.c).
**
** As arrays/make/gather.h: the host includes it as C, the build embeds it as a string
** (tidei_pattern_text) for NVRTC. Word i of a block is the pattern plus i, so two blocks at one
** place differ in every word; the last bytes are those of one more word. */
#ifndef TIDE_PATTERN_H
#define TIDE_PATTERN_H

typedef unsigned long long pa_u64;

#ifdef __CUDACC_RTC__
#define PA_FN           static __device__ __forceinline__
#define PA_COUNT(to, n) atomicAdd((pa_u64 *)(to), (n))
#else
#define PA_FN           static inline
#define PA_COUNT(to, n) __atomic_fetch_add((pa_u64 *)(to), (n), __ATOMIC_RELAXED)
#endif

typedef struct pa_block {
    pa_u64 at, bytes, pattern; /* at: an address that words can lie at */
    pa_u64 mismatches;         /* address of a counter of words that differ */
} pa_block;

/* Words from `first` on, each `step`-th; the last one may be a part of one. */
PA_FN void pa_write(const pa_block *p, pa_u64 first, pa_u64 step) {
    pa_u64 whole = p->bytes / 8, rest = p->bytes % 8;
    for (pa_u64 i = first; i < whole; i += step) ((pa_u64 *)p->at)[i] = p->pattern + i;
    if (whole % step != first % step) return;
    for (pa_u64 b = 0; b < rest; b++)
        ((unsigned char *)p->at)[whole * 8 + b] = (unsigned char)((p->pattern + whole) >> 8 * b);
}

PA_FN void pa_check(const pa_block *p, pa_u64 first, pa_u64 step) {
    pa_u64 whole = p->bytes / 8, rest = p->bytes % 8, differ = 0, tail = 0;
    for (pa_u64 i = first; i < whole; i += step)
        differ += ((const pa_u64 *)p->at)[i] != p->pattern + i;
    if (whole % step == first % step)
        for (pa_u64 b = 0; b < rest; b++)
            tail |= ((const unsigned char *)p->at)[whole * 8 + b] ^
                    (unsigned char)((p->pattern + whole) >> 8 * b);
    differ += tail != 0;
    if (differ) PA_COUNT(p->mismatches, differ);
}

#ifdef __CUDACC_RTC__
#define PA_KERNEL(name, work)                                                                      \
    extern "C" __global__ void name(const pa_block p) {                                            \
        kt_grid_wait();                                                                            \
        work(&p, (pa_u64)blockIdx.x *blockDim.x + threadIdx.x, (pa_u64)gridDim.x * blockDim.x);    \
    }
#else
#define PA_KERNEL(name, work)                                                                      \
    static void name(const void *params) { work(params, 0, 1); }
#endif
PA_KERNEL(pattern_write, pa_write)
PA_KERNEL(pattern_check, pa_check)

#endif
