/* factor.h: what linear algebra does to matrices besides the library's work: one text for both back
** ends (job.c).
**
** As product.h: the host includes it as C, the build embeds it as a string (tidei_factor_text) for
** NVRTC, behind kernels/text.h. Each kernel is a function of one element (i, j) of matrix w; the
** host loops over all of them, the device's threads share them. Complex elements are two reals.
** Strides and steps are in elements.
** A matrix that is not finite has a flag: it is replaced by ones on the diagonal before a library
** sees it, and what comes of it becomes not-a-number. */
#ifndef TIDEI_FACTOR_H
#define TIDEI_FACTOR_H

typedef long long fa_i64;
typedef unsigned long long fa_u64;

#ifdef __CUDACC_RTC__
#define FA_FN static __device__ __forceinline__
#else
#include <math.h>
#define FA_FN static inline
#endif

/* parts of a matrix, to be or-ed */
enum { FA_LOWER = 1, FA_DIAGONAL = 2, FA_UPPER = 4, FA_ALL = 7 };

/* The loops of all kernels: matrices, and their rows and columns. */
typedef struct fa_space {
    fa_i64 count, rows, cols;
} fa_space;

/* Looks for what is not finite in a part of matrices whose rows lie one behind the other; and
** replaces those. What does both at once may bring them from elsewhere before, and clears flags and
** the infos before them. */
typedef struct fa_screen {
    fa_space space;
    /* addresses; flags: int, one a matrix, behind as many infos; in 0: they are there */
    fa_u64 a, flags, in;
    fa_i64 step, in_row, in_col, in_step;
    int part;
} fa_screen;

/* Copies a part of matrices, from any strides to any, or in place: 0 elsewhere. */
typedef struct fa_carry {
    fa_space space;
    fa_u64 out, in, flags; /* in 0: there is none, `part` is empty; flags 0: none is set */
    fa_i64 out_row, out_col, out_step, in_row, in_col, in_step;
    fa_i64 flag_step; /* 0: one flag for all */
    int part;
    int unit; /* ones on the diagonal */
    int conj;
} fa_carry;

/* Numbers of rows, counted from another number on. */
typedef struct fa_pivots {
    fa_space space;       /* one row a matrix */
    fa_u64 pivots, flags; /* i64 */
    fa_u64 narrow;        /* int: where they are; 0: in place */
    fa_i64 shift;
    fa_i64 bound; /* > 0: a number j beyond j .. bound - 1 sets the flag, and is replaced */
} fa_pivots;

/* From exchanges, which count from 0, to the permutation that they make of 0 .. m-1. One element a
** matrix. */
typedef struct fa_order {
    fa_space space;
    fa_u64 order, pivots;
    fa_i64 m, npivots;
} fa_order;

/* Determinants from factors and pivots, which count from 1. One element a matrix. */
typedef struct fa_det {
    fa_space space;
    fa_u64 lu, pivots, flags, det, logs; /* logs: wanted apart, and then det is the sign */
    fa_i64 n;
    int apart;
} fa_det;

/* Singular vectors become their conjugates divided by their values; those of values up to rcond
** times the first become 0. */
typedef struct fa_cut {
    fa_space space; /* a row for each value */
    fa_u64 vectors, values, rank;
    fa_i64 row, col, step;
    double rcond;
} fa_cut;

FA_FN double fa_nan(void) {
    double zero = 0;
    return zero / zero;
}
FA_FN int fa_part(fa_i64 i, fa_i64 j) { return j < i ? FA_LOWER : j == i ? FA_DIAGONAL : FA_UPPER; }

FA_FN void fa_mark(const fa_screen *p, fa_i64 w, int bad) {
    ((int *)p->flags)[w] = bad;
    ((int *)p->flags)[w - p->space.count] = 0;
}

/* Matrices that a kernel has nothing to do for: those that need no mending, and those carried in
** place as they are. */
FA_FN int fa_fit(const fa_screen *p, fa_i64 w) { return !((const int *)p->flags)[w]; }
FA_FN int fa_stays(const fa_carry *p, fa_i64 w) {
    if (p->in != p->out || p->in_row != p->out_row || p->in_col != p->out_col ||
        p->in_step != p->out_step || p->part != FA_ALL || p->unit || p->conj)
        return 0;
    return !p->flags || !((const int *)p->flags)[w * p->flag_step];
}
#define FA_NONE(p, w) 0

FA_FN void fa_one_pivot(const fa_pivots *p, fa_i64 w, fa_i64 i, fa_i64 j) {
    fa_i64 k = w * p->space.cols + j, *at = (fa_i64 *)p->pivots + k,
           v = p->narrow ? ((int *)p->narrow)[k] : *at;
    (void)i;
    if (p->bound && (v < j || v >= p->bound)) { /* rows above are done */
        ((int *)p->flags)[w] = 1;
        v = j;
    }
    *at = v + p->shift;
}

FA_FN void fa_one_order(const fa_order *p, fa_i64 w, fa_i64 i, fa_i64 j) {
    fa_i64 *order = (fa_i64 *)p->order + w * p->m;
    const fa_i64 *pivots = (const fa_i64 *)p->pivots + w * p->npivots;
    (void)i, (void)j;
    for (fa_i64 k = 0; k < p->m; k++) order[k] = k;
    for (fa_i64 k = 0; k < p->npivots; k++) {
        fa_i64 other = pivots[k], was = order[k];
        order[k] = order[other];
        order[other] = was;
    }
}

/* `parts` reals an element. */
#define FA_TYPE(t, real, parts)                                                                    \
    FA_FN int fa_unfit_##t(const fa_screen *p, fa_i64 w, fa_i64 i, fa_i64 j) {                     \
        const real *x = (const real *)p->a + (w * p->step + i * p->space.cols + j) * parts;        \
        real re = x[0],                                                                            \
             im = x[parts -                                                                        \
                    1]; /* read in any case: loads that depend on nothing run side by side */      \
        return ((re - re != 0) | (im - im != 0)) && (p->part & fa_part(i, j));                     \
    }                                                                                              \
    FA_FN void fa_bring_##t(const fa_screen *p, fa_i64 w, fa_i64 i, fa_i64 j) {                    \
        const real *from =                                                                         \
            (const real *)p->in + (w * p->in_step + i * p->in_row + j * p->in_col) * parts;        \
        real *to = (real *)p->a + (w * p->step + i * p->space.cols + j) * parts;                   \
        to[0] = from[0];                                                                           \
        to[parts - 1] = from[parts - 1];                                                           \
    }                                                                                              \
    FA_FN void fa_unit_##t(const fa_screen *p, fa_i64 w, fa_i64 i, fa_i64 j) {                     \
        real *x = (real *)p->a + (w * p->step + i * p->space.cols + j) * parts;                    \
        x[parts - 1] = 0;                                                                          \
        x[0] = (real)(i == j);                                                                     \
    }                                                                                              \
    FA_FN void fa_put_##t(const fa_carry *p, fa_i64 w, fa_i64 i, fa_i64 j, const real *from) {     \
        real *to = (real *)p->out + (w * p->out_step + i * p->out_row + j * p->out_col) * parts;   \
        int part = fa_part(i, j);                                                                  \
        real re = 0, im = 0;                                                                       \
        if (p->flags && ((const int *)p->flags)[w * p->flag_step]) {                               \
            re = im = (real)fa_nan();                                                              \
        } else if (part == FA_DIAGONAL && p->unit) {                                               \
            re = 1;                                                                                \
        } else if (p->part & part) {                                                               \
            if (to == from && !p->conj) return;                                                    \
            re = from[0];                                                                          \
            im = p->conj ? -from[parts - 1] : from[parts - 1];                                     \
        }                                                                                          \
        to[parts - 1] = im;                                                                        \
        to[0] = re;                                                                                \
    }                                                                                              \
    FA_FN void fa_carry_##t(const fa_carry *p, fa_i64 w, fa_i64 i, fa_i64 j) {                     \
        fa_put_##t(p, w, i, j,                                                                     \
                   (const real *)p->in +                                                           \
                       (w * p->in_step + i * p->in_row + j * p->in_col) * parts);                  \
    }                                                                                              \
    FA_FN void fa_det_##t(const fa_det *p, fa_i64 w, fa_i64 i, fa_i64 j) {                         \
        const real *lu = (const real *)p->lu + w * p->n * p->n * parts;                            \
        const fa_i64 *pivots = (const fa_i64 *)p->pivots + w * p->n;                               \
        real *det = (real *)p->det + w * parts;                                                    \
        double re = 1, im = 0, logs = 0;                                                           \
        int zero = 0;                                                                              \
        (void)i, (void)j;                                                                          \
        for (fa_i64 k = 0; k < p->n; k++) {                                                        \
            double x = lu[k * (p->n + 1) * parts],                                                 \
                   y = parts == 2 ? lu[k * (p->n + 1) * parts + parts - 1] : 0;                    \
            double size = parts == 2 ? hypot(x, y) : fabs(x), was = re;                            \
            double turn = pivots[k] == k + 1 ? 1 : -1;                                             \
            if (size == 0) {                                                                       \
                zero = 1;                                                                          \
                continue;                                                                          \
            }                                                                                      \
            logs += p->apart ? log(size) : 0;                                                      \
            x = p->apart ? x / size * turn                                                         \
                         : x * turn; /* not by a reciprocal: it may round, or be infinite */       \
            y = p->apart ? y / size * turn : y * turn;                                             \
            re = parts == 2 ? re * x - im * y : re * x;                                            \
            im = parts == 2 ? was * y + im * x : 0;                                                \
        }                                                                                          \
        if (zero && re == re && im == im && logs == logs) {                                        \
            re = im = 0;                                                                           \
            logs = log(0.0);                                                                       \
        }                                                                                          \
        if (((const int *)p->flags)[w]) re = im = logs = fa_nan();                                 \
        det[parts - 1] = (real)im;                                                                 \
        det[0] = (real)re;                                                                         \
        if (p->apart) ((real *)p->logs)[w] = (real)logs;                                           \
    }                                                                                              \
    FA_FN void fa_cut_##t(const fa_cut *p, fa_i64 w, fa_i64 i, fa_i64 j) {                         \
        real *x = (real *)p->vectors + (w * p->step + i * p->row + j * p->col) * parts;            \
        const real *s = (const real *)p->values + w * p->space.rows;                               \
        double least = p->rcond * s[0];                                                            \
        int counts = s[i] > least;                                                                 \
        real im = counts && parts == 2 ? -x[parts - 1] / s[i] : 0;                                 \
        real re = counts ? x[0] / s[i] : 0;                                                        \
        x[parts - 1] = im;                                                                         \
        x[0] = re;                                                                                 \
        if (i == 0 && j == 0) {                                                                    \
            fa_i64 rank = 0;                                                                       \
            while (rank < p->space.rows && s[rank] > least) rank++;                                \
            ((fa_i64 *)p->rank)[w] = rank;                                                         \
        }                                                                                          \
    }                                                                                              \
    FA_LOOK(factor_look_##t, fa_unfit_##t)                                                         \
    FA_KERNEL_BUT(factor_mend_##t, fa_screen, fa_fit, fa_unit_##t)                                 \
    FA_SCREEN(factor_screen_##t, fa_bring_##t, fa_unfit_##t, fa_unit_##t)                          \
    FA_CARRY(factor_carry_##t, fa_carry_##t, fa_put_##t, real, parts)                              \
    FA_KERNEL(factor_det_##t, fa_det, fa_det_##t)                                                  \
    FA_KERNEL(factor_cut_##t, fa_cut, fa_cut_##t)

#ifdef __CUDACC_RTC__

/* A warp a row: neighbours in a row are neighbours in memory, and no element costs a division. */
#define FA_ROWS(p, but, ...)                                                                       \
    fa_i64 warps = (fa_i64)gridDim.x * blockDim.x / 32, rows = p.space.count * p.space.rows;       \
    for (fa_i64 r = ((fa_i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; r < rows; r += warps) {  \
        fa_i64 w = kt_quotient(r, p.space.rows), i = r - w * p.space.rows;                         \
        if (but(&p, w)) continue;                                                                  \
        __VA_ARGS__                                                                                \
    }
#define FA_EACH(fn)                                                                                \
    for (fa_i64 j = threadIdx.x % 32; j < p.space.cols; j += 32) fn(&p, w, i, j);
#define FA_KERNEL_BUT(name, params, but, fn)                                                       \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const params p) {                                             \
        kt_grid_wait();                                                                            \
        FA_ROWS(p, but, FA_EACH(fn))                                                               \
    })
/* At most one store a row: one between the loads would keep them in order. */
#define FA_LOOK(name, unfit)                                                                       \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const fa_screen p) {                                          \
        kt_grid_wait();                                                                            \
        FA_ROWS(p, FA_NONE, int bad = 0;                                                           \
                _Pragma("unroll 8") FA_EACH(bad |= unfit) if (bad)((int *)p.flags)[w] = 1;)        \
    })
/* A block a matrix: where there are few and small ones, launches take longer than their work. */
#define FA_SCREEN(name, bring, unfit, unit)                                                        \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const fa_screen p) {                                          \
        kt_grid_wait();                                                                            \
        __shared__ int bad;                                                                        \
        fa_i64 n = p.space.rows * p.space.cols;                                                    \
        for (fa_i64 w = blockIdx.x; w < p.space.count; w += gridDim.x) {                           \
            if (threadIdx.x == 0) bad = 0;                                                         \
            __syncthreads();                                                                       \
            for (fa_i64 e = threadIdx.x; e < n; e += blockDim.x) {                                 \
                fa_i64 i = kt_quotient(e, p.space.cols);                                           \
                if (p.in) bring(&p, w, i, e - i * p.space.cols);                                   \
                if (unfit(&p, w, i, e - i * p.space.cols)) bad = 1;                                \
            }                                                                                      \
            __syncthreads();                                                                       \
            for (fa_i64 e = threadIdx.x; bad && e < n; e += blockDim.x) {                          \
                fa_i64 i = kt_quotient(e, p.space.cols);                                           \
                unit(&p, w, i, e - i * p.space.cols);                                              \
            }                                                                                      \
            if (threadIdx.x == 0) fa_mark(&p, w, bad);                                             \
            __syncthreads();                                                                       \
        }                                                                                          \
    })
/* What lies column by column goes through tiles, so that both reading and writing touch
** neighbours. */
#define FA_TILE 32
#define FA_PASS 8 /* rows of a tile that a block takes at once: it has 256 threads (launch.c) */
#define FA_CARRY(name, fn, put, real, parts)                                                       \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void name(const fa_carry p) {                                           \
        kt_grid_wait();                                                                            \
        __shared__ real tile[FA_TILE][(FA_TILE + 1) * parts];                                      \
        fa_i64 m = p.space.rows, n = p.space.cols;                                                 \
        fa_i64 across = (n + FA_TILE - 1) / FA_TILE, each = (m + FA_TILE - 1) / FA_TILE * across;  \
        if (p.in_row != 1 || p.in_col == 1 || p.out_col != 1 || !p.part) {                         \
            FA_ROWS(p, fa_stays, FA_EACH(fn))                                                      \
            return;                                                                                \
        }                                                                                          \
        int x = threadIdx.x % FA_TILE, y = threadIdx.x / FA_TILE;                                  \
        for (fa_i64 t = blockIdx.x; t < p.space.count * each; t += gridDim.x) {                    \
            fa_i64 w = kt_quotient(t, each), down = kt_quotient(t - w * each, across);             \
            fa_i64 i = down * FA_TILE, j = (t - w * each - down * across) * FA_TILE;               \
            const real *in = (const real *)p.in + w * p.in_step * parts;                           \
            for (int k = 0; k < FA_TILE; k += FA_PASS)                                             \
                if (i + x < m && j + k + y < n && (p.part & fa_part(i + x, j + k + y)))            \
                    for (int c = 0; c < parts; c++)                                                \
                        tile[x][(k + y) * parts + c] =                                             \
                            in[(i + x + (j + k + y) * p.in_col) * parts + c];                      \
            __syncthreads();                                                                       \
            for (int k = 0; k < FA_TILE; k += FA_PASS)                                             \
                if (i + k + y < m && j + x < n)                                                    \
                    put(&p, w, i + k + y, j + x, &tile[k + y][x * parts]);                         \
            __syncthreads();                                                                       \
        }                                                                                          \
    })
#else
#define FA_KERNEL_BUT(name, params, but, fn)                                                       \
    static inline void name(const void *given) {                                                   \
        const params *p = given;                                                                   \
        for (fa_i64 w = 0; w < p->space.count; w++)                                                \
            for (fa_i64 i = 0; i < p->space.rows && !but(p, w); i++)                               \
                for (fa_i64 j = 0; j < p->space.cols; j++) fn(p, w, i, j);                         \
    }
#define FA_LOOK(name, unfit)                                                                       \
    static inline void name(const void *given) {                                                   \
        const fa_screen *p = given;                                                                \
        for (fa_i64 w = 0; w < p->space.count; w++)                                                \
            for (fa_i64 i = 0; i < p->space.rows; i++)                                             \
                for (fa_i64 j = 0; j < p->space.cols; j++)                                         \
                    if (unfit(p, w, i, j)) ((int *)p->flags)[w] = 1;                               \
    }
#define FA_SCREEN(name, bring, unfit, unit)                                                        \
    static inline void name(const void *given) {                                                   \
        const fa_screen *p = given;                                                                \
        fa_i64 n = p->space.rows * p->space.cols, cols = p->space.cols;                            \
        for (fa_i64 w = 0; w < p->space.count; w++) {                                              \
            int bad = 0;                                                                           \
            for (fa_i64 e = 0; e < n; e++) {                                                       \
                if (p->in) bring(p, w, e / cols, e % cols);                                        \
                bad |= unfit(p, w, e / cols, e % cols);                                            \
            }                                                                                      \
            for (fa_i64 e = 0; bad && e < n; e++) unit(p, w, e / cols, e % cols);                  \
            fa_mark(p, w, bad);                                                                    \
        }                                                                                          \
    }
#define FA_CARRY(name, fn, put, real, parts) FA_KERNEL_BUT(name, fa_carry, fa_stays, fn)
#endif
#define FA_KERNEL(name, params, fn) FA_KERNEL_BUT(name, params, FA_NONE, fn)
FA_KERNEL(factor_pivots, fa_pivots, fa_one_pivot)
FA_KERNEL(factor_order, fa_order, fa_one_order)
FA_TYPE(f32, float, 1)
FA_TYPE(f64, double, 1)
FA_TYPE(c64, float, 2)
FA_TYPE(c128, double, 2)

#endif
