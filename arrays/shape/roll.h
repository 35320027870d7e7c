/* roll.h: short rows of a dense array, each shifted around its end, on a device whose kernels are
** text (roll.c): what the kernel gets, and the kernel. A unit is what moves as one: so many bytes
** that rows and shifts are made of whole ones. */
#ifndef TIDEI_ROLL_H
#define TIDEI_ROLL_H

#ifndef __CUDACC_RTC__
#include "arrays/kernels/text.h"
#endif

enum { RL_STORE = 16 }; /* bytes that a thread stores at once */

typedef struct rl_call {
    unsigned long long out, in; /* addresses of the first units, out of a multiple of RL_STORE */
    long long n;                /* units, fewer than 2^31 - RL_STORE */
    kt_div row;                 /* divides by the units of a row */
    unsigned shift;             /* in units: above 0, and below a row's */
} rl_call;

#ifdef __CUDACC_RTC__
/* A thread finds where its first unit comes from, and goes on from there. All are loaded before one
** is stored. */
template <class U> struct alignas(RL_STORE) rl_units {
    enum { N = RL_STORE / sizeof(U) };
    U unit[N];
};
template <class U> KT_FN void rl_store(const rl_call &p, unsigned first) {
    enum { N = rl_units<U>::N };
    const U *in = (const U *)p.in;
    U *out = (U *)p.out;
    rl_units<U> x;
    const unsigned whole = kt_divided(&p.row, first), place = first - whole * p.row.d;
    unsigned row = whole * p.row.d; /* its first unit */
    unsigned at = place < p.shift ? place + p.row.d - p.shift : place - p.shift;
#pragma unroll
    for (int k = 0; k < N; k++) {
        x.unit[k] = in[first + k < p.n ? row + at : 0];
        if (++at == p.row.d) at = 0;
        if (at == p.row.d - p.shift) row += p.row.d;
    }
    if (first + N <= p.n) {
        *(rl_units<U> *)(out + first) = x;
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (first + k < p.n) out[first + k] = x.unit[k];
}

struct alignas(16) rl_16 { /* moves as one */
    unsigned long long part[2];
};
#define RL_ROLL(name, U)                                                                           \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const __grid_constant__ rl_call p) {                          \
        kt_grid_wait();                                                                            \
        enum { N = rl_units<U>::N };                                                               \
        for (long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * N; i < p.n;        \
             i += (long long)gridDim.x * blockDim.x * N)                                           \
            rl_store<U>(p, (unsigned)i);                                                           \
    })
RL_ROLL(roll_1, unsigned char)
RL_ROLL(roll_2, unsigned short)
RL_ROLL(roll_4, unsigned)
RL_ROLL(roll_8, unsigned long long)
RL_ROLL(roll_16, rl_16)
#endif

#endif
