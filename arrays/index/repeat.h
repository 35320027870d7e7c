/* repeat.h: rows of a dense array, each written several times, on a device whose kernels are text
** (repeat.c): what the kernel gets, and the kernel, behind indices.h. A unit is what moves as one:
** so many bytes that rows are made of whole ones. */
#ifndef TIDEI_REPEAT_H
#define TIDEI_REPEAT_H

#ifndef __CUDACC_RTC__
#include "arrays/kernels/text.h"
#include "arrays/make/indices.h"
#endif

enum { RP_STORE = 16 }; /* bytes that a thread stores at once */

typedef struct rp_call {
    ga_u64 out, in;  /* addresses of the first units; the result begins at a multiple of RP_STORE */
    ga_i64 n;        /* units of the result, fewer than 2^31 - RP_STORE */
    unsigned each;   /* repetitions of a row */
    kt_div row, all; /* divide by the units of a row, of all its repetitions */
} rp_call;

#ifdef __CUDACC_RTC__
/* A thread finds where its first unit comes from, and goes on from there. All are loaded before one
** is stored. */
template <class U> struct alignas(RP_STORE) rp_units {
    enum { N = RP_STORE / sizeof(U) };
    U unit[N];
};
template <class U> GA_FN void rp_store(const rp_call &p, unsigned first) {
    enum { N = rp_units<U>::N };
    const U *in = (const U *)p.in;
    U *out = (U *)p.out;
    rp_units<U> x;
    const unsigned whole = kt_divided(&p.all, first), rest = first - whole * p.all.d,
                   times = kt_divided(&p.row, rest);
    unsigned from = whole * p.row.d, at = rest - times * p.row.d, left = p.each - times;
#pragma unroll
    for (int k = 0; k < N; k++) {
        x.unit[k] = in[first + k < p.n ? from + at : 0];
        if (++at < p.row.d) continue;
        at = 0;
        if (--left) continue;
        left = p.each;
        from += p.row.d;
    }
    if (first + N <= p.n) {
        *(rp_units<U> *)(out + first) = x;
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (first + k < p.n) out[first + k] = x.unit[k];
}

struct alignas(16) rp_16 { /* moves as one */
    ga_u64 part[2];
};
#define RP_REPEAT(name, U)                                                                         \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const __grid_constant__ rp_call p) {                          \
        kt_grid_wait();                                                                            \
        enum { N = rp_units<U>::N };                                                               \
        for (ga_i64 i = ((ga_i64)blockIdx.x * blockDim.x + threadIdx.x) * N; i < p.n;              \
             i += (ga_i64)gridDim.x * blockDim.x * N)                                              \
            rp_store<U>(p, (unsigned)i);                                                           \
    })
RP_REPEAT(repeat_1, unsigned char)
RP_REPEAT(repeat_2, unsigned short)
RP_REPEAT(repeat_4, unsigned)
RP_REPEAT(repeat_8, ga_u64)
RP_REPEAT(repeat_16, rp_16)
#endif

#endif
