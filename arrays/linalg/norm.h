/* norm.h: the norm of a long vector of doubles, on a device whose kernels are text (blas.c): what
** the kernels get, and the kernels.
**
** Blue's algorithm (ACM TOMS 4, 1978), with LAPACK's bounds: large numbers and small ones are
** scaled before they are squared, each kind into a sum of its own, so that no square overflows or
** loses digits. Each block leaves its three sums; one more block joins them, in the order of the
** blocks. */
#ifndef TIDEI_NORM_H
#define TIDEI_NORM_H

#ifndef __CUDACC_RTC__
#include "arrays/kernels/text.h"
#endif

enum {
    NM_THREADS = 256, /* of a block */
    NM_AT_ONCE = 8,   /* elements that a thread has under way: 64 bytes */
    NM_SUMS = 3
};

typedef struct nm_call {
    unsigned long long out, parts, x; /* addresses: the norm, the blocks' sums, the vector */
    long long n, blocks;              /* elements; that leave sums */
} nm_call;

#ifdef __CUDACC_RTC__
#define NM_SMALL   0x1p-511
#define NM_LARGE   0x1p486
#define NM_ENLARGE 0x1p537
#define NM_REDUCE  0x1p-538

/* Of squares: of what is in between as it is, of what is enlarged, of what is reduced. */
struct nm_sums {
    double in_between, enlarged, reduced;
};
/* NaN goes in between, and stays. */
KT_FN void nm_add(nm_sums &s, double x) {
    const double a = fabs(x);
    if (a > NM_LARGE)
        s.reduced = fma(a * NM_REDUCE, a * NM_REDUCE, s.reduced);
    else if (a < NM_SMALL)
        s.enlarged = fma(a * NM_ENLARGE, a * NM_ENLARGE, s.enlarged);
    else
        s.in_between = fma(a, a, s.in_between);
}
KT_FN void nm_join(nm_sums &s, const nm_sums &other) {
    s.in_between += other.in_between;
    s.enlarged += other.enlarged;
    s.reduced += other.reduced;
}
/* The block's sums: thread 0 gets them. */
KT_FN nm_sums nm_gather(nm_sums s) {
    __shared__ nm_sums all[NM_THREADS];
    const unsigned t = threadIdx.x;
    all[t] = s;
    for (unsigned half = NM_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (t < half) {
            nm_join(s, all[t + half]);
            all[t] = s;
        }
    }
    return s;
}
/* Beside numbers that were reduced those that were enlarged are nothing. These are joined with what
** is in between by their roots, which neither overflow nor vanish. */
KT_FN double nm_norm(const nm_sums &s) {
    const double a = sqrt(s.in_between), b = sqrt(s.enlarged) / NM_ENLARGE;
    if (s.reduced > 0) return sqrt(fma(a * NM_REDUCE, a * NM_REDUCE, s.reduced)) / NM_REDUCE;
    if (!(a > 0)) return a == 0 ? b : a;
    const double most = a > b ? a : b, q = (a > b ? b : a) / most;
    return most * sqrt(fma(q, q, 1.0));
}

#if WANTS(norm_parts)
extern "C" __global__ void __launch_bounds__(NM_THREADS)
    norm_parts(const __grid_constant__ nm_call p) {
    kt_grid_wait();
    const double *x = (const double *)p.x;
    const long long apart = (long long)gridDim.x * NM_THREADS;
    nm_sums s = {0, 0, 0};
    for (long long i = (long long)blockIdx.x * NM_THREADS + threadIdx.x; i < p.n;
         i += apart * NM_AT_ONCE) {
        double some[NM_AT_ONCE];
#pragma unroll
        for (int k = 0; k < NM_AT_ONCE; k++) some[k] = i + k * apart < p.n ? x[i + k * apart] : 0;
#pragma unroll
        for (int k = 0; k < NM_AT_ONCE; k++) nm_add(s, some[k]);
    }
    s = nm_gather(s);
    if (threadIdx.x == 0) ((nm_sums *)p.parts)[blockIdx.x] = s;
}
#endif

#if WANTS(norm_join)
extern "C" __global__ void __launch_bounds__(NM_THREADS)
    norm_join(const __grid_constant__ nm_call p) {
    kt_grid_wait();
    const nm_sums *parts = (const nm_sums *)p.parts;
    nm_sums s = {0, 0, 0};
    for (long long i = threadIdx.x; i < p.blocks; i += NM_THREADS) nm_join(s, parts[i]);
    s = nm_gather(s);
    if (threadIdx.x == 0) *(double *)p.out = nm_norm(s);
}
#endif
#endif

#endif
