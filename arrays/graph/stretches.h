/* stretches.h: what a graph does to bytes between operations: copies them, and fills with a
** pattern. One text for both back ends: C for the host, and a string for NVRTC. As kernels, since
** the addresses of a kernel in a graph can be changed at each launch; stretches do not overlap. */
#ifndef TIDEI_STRETCHES_H
#define TIDEI_STRETCHES_H

typedef unsigned long long gs_u64;

typedef struct gs_copy {
    gs_u64 dst, src; /* addresses */
    gs_u64 bytes;
} gs_copy;

typedef struct gs_fill {
    gs_u64 dst;
    gs_u64 bytes;
    gs_u64 pattern[2]; /* 16 bytes, repeated from dst on */
} gs_fill;

#ifdef __CUDACC_RTC__

typedef struct __align__(16) gs_16 {
    gs_u64 part[2];
}
gs_16;

/* Threads take elements in turn, several under way at once; the last bytes one by one. */
template <class E> static __device__ __forceinline__ void gs_copy_as(const gs_copy &p) {
    const gs_u64 n = p.bytes / sizeof(E), step = (gs_u64)gridDim.x * blockDim.x,
                 first = (gs_u64)blockIdx.x * blockDim.x + threadIdx.x;
    const E *src = (const E *)p.src;
    E *dst = (E *)p.dst;
    gs_u64 i = first;
    for (; i + 3 * step < n; i += 4 * step) {
        const E a = src[i], b = src[i + step], c = src[i + 2 * step], d = src[i + 3 * step];
        dst[i] = a;
        dst[i + step] = b;
        dst[i + 2 * step] = c;
        dst[i + 3 * step] = d;
    }
    for (; i < n; i += step) dst[i] = src[i];
    for (i = n * sizeof(E) + first; i < p.bytes; i += step)
        ((char *)p.dst)[i] = ((const char *)p.src)[i];
}

#if WANTS(graph_copy)
extern "C" __global__ void graph_copy(const gs_copy p) {
    kt_grid_wait();
    const gs_u64 low = (p.dst | p.src) & 15;
    if (!low)
        gs_copy_as<gs_16>(p);
    else if (!(low & 7))
        gs_copy_as<gs_u64>(p);
    else if (!(low & 3))
        gs_copy_as<unsigned>(p);
    else
        gs_copy_as<char>(p);
}
#endif

template <class E> static __device__ __forceinline__ void gs_fill_as(const gs_fill &p) {
    const gs_u64 n = p.bytes / sizeof(E), step = (gs_u64)gridDim.x * blockDim.x,
                 first = (gs_u64)blockIdx.x * blockDim.x + threadIdx.x;
    const E *pattern = (const E *)p.pattern;
    for (gs_u64 i = first; i < n; i += step) ((E *)p.dst)[i] = pattern[i % (16 / sizeof(E))];
    for (gs_u64 i = n * sizeof(E) + first; i < p.bytes; i += step)
        ((char *)p.dst)[i] = ((const char *)p.pattern)[i % 16];
}

#if WANTS(graph_fill)
extern "C" __global__ void graph_fill(const __grid_constant__ gs_fill p) {
    kt_grid_wait();
    if (!(p.dst & 15))
        gs_fill_as<gs_16>(p);
    else if (!(p.dst & 7))
        gs_fill_as<gs_u64>(p);
    else if (!(p.dst & 3))
        gs_fill_as<unsigned>(p);
    else
        gs_fill_as<char>(p);
}
#endif

#else
#include <string.h>

static __attribute__((unused)) void graph_copy(const void *params) {
    const gs_copy *p = params;
    memmove((void *)p->dst, (const void *)p->src, p->bytes);
}

static __attribute__((unused)) void graph_fill(const void *params) {
    const gs_fill *p = params;
    const char *pattern = (const char *)p->pattern;
    char *dst = (char *)p->dst;
    gs_u64 done = p->bytes < 16 ? p->bytes : 16;
    memcpy(dst, pattern, done);
    while (done < p->bytes) { /* what stands already, in pieces that stay in the cache */
        gs_u64 n = done < 8192 ? done : 8192;
        if (n > p->bytes - done) n = p->bytes - done;
        memcpy(dst + done, dst, n);
        done += n;
    }
}
#endif

#endif
