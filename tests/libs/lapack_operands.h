/* lapack_operands.h: what one call of a routine on the double of cuSOLVER works on: how its
** operands lie, and what goes in.
**
** Model. An operand is a piece of memory with the call's matrices in it. Of each there is what
** goes in and, once it was fetched, what was got. Elements before the first matrix, between
** columns, between matrices and behind the last one are nobody's.
** What must stay true: all of it is filled with random numbers, what is nobody's and what will be
** written too, so that nothing is right by chance. */
#ifndef TIDETEST_LAPACK_OPERANDS_H
#define TIDETEST_LAPACK_OPERANDS_H

#include "tests/doubles/cusolver_double.h"

/* Elements behind the last matrix, for what a routine writes that takes it for a larger one. */
#define TAIL 40

enum { A, B, C, D, INFO, OPERANDS };

typedef struct operand {
    int64_t rows, cols; /* of each matrix */
    size_t size, bytes; /* of an element, and of all; 0: the call has no such operand */
    char *in, *got;
    tidei_storage *st;
} operand;

typedef struct problem {
    tidei_lapack x;
    operand op[OPERANDS];
    int again; /* how often its operands were brought back */
} problem;

/* ---- types ---- */

static inline tidei_cuda_data_type type_of(tide_dtype t) {
    return t == TIDE_F32   ? TIDEI_CUDA_R_32F
           : t == TIDE_F64 ? TIDEI_CUDA_R_64F
           : t == TIDE_C64 ? TIDEI_CUDA_C_32F
                           : TIDEI_CUDA_C_64F;
}
/* Bytes of a real number of the call's precision. */
static inline size_t part_of(const tidei_lapack *x) { return width(real_of(type_of(x->dtype))); }
static inline bool is_complex(const tidei_lapack *x) {
    return tide_dtype_size(x->dtype) == 2 * part_of(x);
}
static inline int64_t lesser_side(const tidei_lapack *x) {
    return x->m && x->m < x->n ? x->m : x->n;
}

/* ---- how operands lie ---- */

static inline const tidei_mats *mats_of(const tidei_lapack *x, int i) {
    const tidei_mats *const v[] = {&x->a, &x->b, &x->c, &x->d};
    return v[i];
}
/* Where an element is in its operand, in bytes. */
static inline size_t place_of(const problem *p, int i, int64_t matrix, int64_t row, int64_t col) {
    if (i == INFO) return (size_t)matrix * sizeof(int);
    const tidei_mats *v = mats_of(&p->x, i);
    return (size_t)(v->offset + matrix * v->step + col * v->ld + row) * p->op[i].size;
}

/* `count` matrices with `gap` elements before them, between their columns, and between them. */
static void lay_operand(problem *p, int i, tidei_mats *v, int64_t rows, int64_t cols, size_t size,
                        int64_t gap) {
    *v = (tidei_mats){.offset = gap, .ld = rows + gap, .step = (rows + gap) * cols + gap};
    if (cols == 1) v->step = rows + gap;
    p->op[i] = (operand){.rows = rows,
                         .cols = cols,
                         .size = size,
                         .bytes = (size_t)(v->offset + v->step * p->x.count + TAIL) * size};
}

static void lay_operands(problem *p, int64_t gap) {
    tidei_lapack *x = &p->x;
    size_t wide = tide_dtype_size(x->dtype);
    lay_operand(p, A, &x->a, x->m ? x->m : x->n, x->n, wide, gap);
    switch (x->routine) {
    case TIDEI_GETRF:
    case TIDEI_GETRS: lay_operand(p, B, &x->b, lesser_side(x), 1, x->narrow ? 4 : 8, gap); break;
    case TIDEI_GEQRF:
    case TIDEI_ORGQR: lay_operand(p, B, &x->b, lesser_side(x), 1, wide, gap); break;
    case TIDEI_GESVD:
    case TIDEI_SYEVD: lay_operand(p, B, &x->b, x->n, 1, part_of(x), gap); break;
    default: break;
    }
    if (x->routine == TIDEI_GETRS) lay_operand(p, C, &x->c, x->n, x->k, wide, gap);
    if (x->routine == TIDEI_GESVD && x->job != 'N') {
        lay_operand(p, C, &x->c, x->m, x->job == 'A' ? x->m : x->n, wide, gap);
        lay_operand(p, D, &x->d, x->n, x->n, wide, gap);
    }
    if (x->routine == TIDEI_GETRF || x->routine == TIDEI_POTRF || x->routine == TIDEI_GESVD ||
        x->routine == TIDEI_SYEVD)
        p->op[INFO] = (operand){
            .rows = 1, .cols = 1, .size = sizeof(int), .bytes = (size_t)x->count * sizeof(int)};
}

/* ---- what goes in ---- */

static uint64_t seed;
static double uniform(void) { /* in [-1, 1) */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 11) / (double)(1ll << 52) - 1;
}
static void fill(char *p, size_t bytes, bool wide) {
    for (size_t i = 0; i < bytes / 4; i++) {
        float f = (float)uniform();
        memcpy(p + 4 * i, &f, 4);
    }
    for (size_t i = 0; i < bytes / 8 && wide; i++) {
        double d = uniform();
        memcpy(p + 8 * i, &d, 8);
    }
}

/* Hermitian by the triangle that is read, and positive definite: the diagonal outweighs all. */
static void outweigh(problem *p) {
    const tidei_lapack *x = &p->x;
    const float f[2] = {(float)(2 * x->n), 0};
    const double d[2] = {2.0 * (double)x->n, 0};
    for (int64_t i = 0; i < x->count * x->n; i++)
        memcpy(p->op[A].in + place_of(p, A, i / x->n, i % x->n, i % x->n),
               part_of(x) == 4 ? (const void *)f : d, p->op[A].size);
}

/* LU of one matrix, with pivots as the seam has them. */
static int wide_lu(tidei_cuda_data_type t, int m, int n, void *a, int ld, void *pivots) {
    int narrow[256];
    int info = lu(t, m, n, a, ld, narrow);
    for (int i = 0; i < m && i < n; i++) ((int64_t *)pivots)[i] = narrow[i];
    return info;
}

/* What an earlier routine makes of the numbers, where that is what goes in. */
static void prepare(problem *p) {
    const tidei_lapack *x = &p->x;
    tidei_cuda_data_type t = type_of(x->dtype);
    int m = (int)x->m, n = (int)x->n, ld = (int)x->a.ld;
    if (x->routine == TIDEI_POTRF || x->routine == TIDEI_SYEVD) outweigh(p);
    if (x->routine != TIDEI_GETRS && x->routine != TIDEI_ORGQR) return;
    for (int64_t i = 0; i < x->count; i++) {
        void *a = p->op[A].in + place_of(p, A, i, 0, 0), *b = p->op[B].in + place_of(p, B, i, 0, 0);
        int info = x->routine == TIDEI_GETRS
                       ? wide_lu(t, n, n, a, ld, b)
                       : BY_TYPE(t, sgeqrf, dgeqrf, cgeqrf, zgeqrf, m, n, a, ld, b);
        assert_int_equal(info, 0);
    }
}

static void fill_operands(problem *p) {
    seed = 7;
    for (int i = 0; i < OPERANDS; i++) {
        operand *o = &p->op[i];
        if (!o->bytes) continue;
        o->in = calloc(2, o->bytes);
        assert_non_null(o->in);
        o->got = o->in + o->bytes;
        fill(o->in, o->bytes, i != INFO && part_of(&p->x) == 8);
    }
    prepare(p);
}

#endif
