/* product.h: matrix products of integers, which no library has: one text for both back ends
** (matmul.c).
**
** As gather.h: the host includes it as C, the build embeds it as a string (tidei_product_text) for
** NVRTC. Products wrap, so signed and unsigned are the same; operands have any strides; the result
** is row-major without gaps. */
#ifndef TIDEI_PRODUCT_H
#define TIDEI_PRODUCT_H

typedef long long pr_i64;
typedef unsigned long long pr_u64;

#ifdef __CUDACC_RTC__
#define PR_FN static __device__ __forceinline__
#else
#define PR_FN static inline
#endif

#define PR_RANK 8
#define PR_TILE 16 /* elements square that a block of 256 threads works on */
/* terms that the host adds before it moves on: their rows of b stay in the cache */
#define PR_STEP 64

typedef struct pr_product {
    pr_u64 out, a, b; /* addresses of the first elements */
    pr_i64 m, n, k;   /* (m, k) by (k, n); all >= 1 */
    pr_i64 count;     /* of products */
    pr_i64 a_row, a_col, b_row, b_col;
    int nbatch;
    pr_i64 shape[PR_RANK], a_batch[PR_RANK], b_batch[PR_RANK];
} pr_product;

/* Offsets of the matrices of product i. */
PR_FN void pr_matrices(const pr_product *p, pr_i64 i, pr_i64 *a, pr_i64 *b) {
    *a = *b = 0;
    for (int d = p->nbatch - 1; d >= 0; d--) {
        pr_i64 at = i % p->shape[d];
        i /= p->shape[d];
        *a += at * p->a_batch[d];
        *b += at * p->b_batch[d];
    }
}

#ifdef __CUDACC_RTC__
#define PR_KERNEL(name, type, wide)                                                                \
    extern "C" __global__ void name(const pr_product p) {                                          \
        kt_grid_wait();                                                                            \
        __shared__ type left[PR_TILE][PR_TILE + 1], right[PR_TILE][PR_TILE + 1];                   \
        pr_i64 across = (p.n + PR_TILE - 1) / PR_TILE, down = (p.m + PR_TILE - 1) / PR_TILE;       \
        int x = threadIdx.x % PR_TILE, y = threadIdx.x / PR_TILE;                                  \
        for (pr_i64 tile = blockIdx.x; tile < p.count * down * across; tile += gridDim.x) {        \
            pr_i64 which = tile / (down * across), in = tile % (down * across), a, b;              \
            pr_i64 i = in / across * PR_TILE + y, j = in % across * PR_TILE + x;                   \
            wide sum = 0;                                                                          \
            pr_matrices(&p, which, &a, &b);                                                        \
            for (pr_i64 q = 0; q < p.k; q += PR_TILE) {                                            \
                left[y][x] = i < p.m && q + x < p.k                                                \
                                 ? ((const type *)p.a)[a + i * p.a_row + (q + x) * p.a_col]        \
                                 : 0;                                                              \
                right[y][x] = j < p.n && q + y < p.k                                               \
                                  ? ((const type *)p.b)[b + (q + y) * p.b_row + j * p.b_col]       \
                                  : 0;                                                             \
                __syncthreads();                                                                   \
                for (int t = 0; t < PR_TILE; t++) sum += (wide)left[y][t] * (wide)right[t][x];     \
                __syncthreads();                                                                   \
            }                                                                                      \
            if (i < p.m && j < p.n) ((type *)p.out)[(which * p.m + i) * p.n + j] = (type)sum;      \
        }                                                                                          \
    }
#else
#define PR_KERNEL(name, type, wide)                                                                \
    static void name(const void *params) {                                                         \
        const pr_product *p = params;                                                              \
        for (pr_i64 which = 0; which < p->count; which++) {                                        \
            pr_i64 a_at, b_at;                                                                     \
            pr_matrices(p, which, &a_at, &b_at);                                                   \
            const type *a = (const type *)p->a + a_at, *b = (const type *)p->b + b_at;             \
            type *out = (type *)p->out + which * p->m * p->n;                                      \
            for (pr_i64 i = 0; i < p->m * p->n; i++) out[i] = 0;                                   \
            for (pr_i64 q = 0; q < p->k; q += PR_STEP)                                             \
                for (pr_i64 i = 0; i < p->m; i++)                                                  \
                    for (pr_i64 t = q; t < p->k && t < q + PR_STEP; t++) {                         \
                        wide factor = (wide)a[i * p->a_row + t * p->a_col];                        \
                        const type *row = b + t * p->b_row;                                        \
                        type *to = out + i * p->n;                                                 \
                        if (p->b_col == 1)                                                         \
                            for (pr_i64 j = 0; j < p->n; j++)                                      \
                                to[j] = (type)(to[j] + factor * row[j]);                           \
                        else                                                                       \
                            for (pr_i64 j = 0; j < p->n; j++)                                      \
                                to[j] = (type)(to[j] + factor * row[j * p->b_col]);                \
                    }                                                                              \
        }                                                                                          \
    }
#endif
PR_KERNEL(product_1, unsigned char, unsigned)
PR_KERNEL(product_2, unsigned short, unsigned)
PR_KERNEL(product_4, unsigned, unsigned)
PR_KERNEL(product_8, pr_u64, pr_u64)

#endif
