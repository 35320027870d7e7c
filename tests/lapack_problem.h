/* lapack_problem.h: one call of a routine on the double of cuSOLVER: its operands on the device, what shall come out of it, and
** whether that did.
**
** Of each operand there is what goes in, what is wanted and what was got. Wanted is what LAPACKE makes of each matrix alone.
** Operands are compared whole, with the elements between columns and matrices, which are nobody's and stay as they were: codes and
** pivots to the bit, numbers but for rounding; only a matrix that an SVD destroys is not.
** What must stay true: after a call, failed or not, its workspaces and options are gone and its context is popped. */
#ifndef TIDETEST_LAPACK_PROBLEM_H
#define TIDETEST_LAPACK_PROBLEM_H

#include "tests/cusolver_double.h"

enum { OPERANDS = 5 }; /* a, b, c, d, info */

typedef struct problem {
    tidei_lapack x;
    size_t bytes[OPERANDS];
    char *in[OPERANDS], *want[OPERANDS], *got[OPERANDS];
    tidei_storage *st[OPERANDS];
    int again; /* how often its operands were brought back */
} problem;

static uint64_t seed;
static double number(void) { /* in [-1, 1) */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 11) / (double)(1ll << 52) - 1;
}
static tidei_cuda_data_type type_of(tide_dtype t) {
    return t == TIDE_F32   ? TIDEI_CUDA_R_32F
           : t == TIDE_F64 ? TIDEI_CUDA_R_64F
           : t == TIDE_C64 ? TIDEI_CUDA_C_32F
                           : TIDEI_CUDA_C_64F;
}

static void fill(char *p, size_t bytes, bool wide) {
    for (size_t i = 0; i < bytes / 4; i++) {
        float f = (float)number();
        memcpy(p + 4 * i, &f, 4);
    }
    for (size_t i = 0; i < bytes / 8 && wide; i++) {
        double d = number();
        memcpy(p + 8 * i, &d, 8);
    }
}

/* An operand of `count` matrices with `gap` elements of nobody's before them, between their columns, and between them. */
static void operand(problem *p, int i, tidei_mats *v, int64_t rows, int64_t cols, size_t size, int64_t gap) {
    *v = (tidei_mats){.offset = gap, .ld = rows + gap, .step = (rows + gap) * cols + gap};
    if (cols == 1) v->step = rows + gap;
    p->bytes[i] = (size_t)(v->offset + v->step * p->x.count) * size;
}

static void set_sizes(problem *p, int64_t gap) {
    tidei_lapack *x = &p->x;
    size_t w = tide_dtype_size(x->dtype), r = width(real_of(type_of(x->dtype)));
    int64_t rows = x->m ? x->m : x->n, least = x->m && x->m < x->n ? x->m : x->n;
    operand(p, 0, &x->a, rows, x->n, w, gap);
    switch (x->routine) {
    case TIDEI_GETRF:
    case TIDEI_GETRS: operand(p, 1, &x->b, least, 1, x->narrow ? 4 : 8, gap); break;
    case TIDEI_GEQRF:
    case TIDEI_ORGQR: operand(p, 1, &x->b, least, 1, w, gap); break;
    case TIDEI_GESVD:
    case TIDEI_SYEVD: operand(p, 1, &x->b, x->n, 1, r, gap); break;
    default: break;
    }
    if (x->routine == TIDEI_GETRS) operand(p, 2, &x->c, x->n, x->k, w, gap);
    if (x->routine == TIDEI_GESVD && x->job != 'N') {
        operand(p, 2, &x->c, x->m, x->job == 'A' ? x->m : x->n, w, gap);
        operand(p, 3, &x->d, x->n, x->n, w, gap);
    }
    if (x->routine == TIDEI_GETRF || x->routine == TIDEI_POTRF || x->routine == TIDEI_GESVD ||
        x->routine == TIDEI_SYEVD)
        p->bytes[4] = (size_t)x->count * sizeof(int);
}

/* Hermitian and positive definite: the diagonal is real, and outweighs the rest. */
static void outweigh(problem *p) {
    const tidei_lapack *x = &p->x;
    size_t w = tide_dtype_size(x->dtype), part = width(real_of(type_of(x->dtype)));
    for (int64_t i = 0; i < x->count * x->n; i++) {
        char *at = p->in[0] + (size_t)(x->a.offset + i / x->n * x->a.step + i % x->n * (x->a.ld + 1)) * w;
        const float f[2] = {(float)(2 * x->n), 0};
        const double d[2] = {2.0 * (double)x->n, 0};
        memcpy(at, part == 4 ? (const void *)f : d, w);
    }
}

static char *at(const problem *p, char *const which[OPERANDS], int i, int64_t matrix) {
    const tidei_mats *v[] = {&p->x.a, &p->x.b, &p->x.c, &p->x.d};
    size_t size = tide_dtype_size(p->x.dtype);
    if (i == 4) return which[i] + (size_t)matrix * sizeof(int);
    if (i == 1 && (p->x.routine == TIDEI_GETRF || p->x.routine == TIDEI_GETRS)) size = p->x.narrow ? 4 : 8;
    if (i == 1 && (p->x.routine == TIDEI_GESVD || p->x.routine == TIDEI_SYEVD))
        size = width(real_of(type_of(p->x.dtype)));
    return which[i] + (size_t)(v[i]->offset + matrix * v[i]->step) * size;
}

/* LU of one matrix, with pivots as the seam has them. */
static int wide_lu(tidei_cuda_data_type t, int m, int n, void *a, int ld, void *pivots) {
    int narrow[256];
    int info = lu(t, m, n, a, ld, narrow);
    for (int i = 0; i < m && i < n; i++) ((int64_t *)pivots)[i] = narrow[i];
    return info;
}

/* What shall come out, by LAPACKE on the host, one matrix after the other. */
static int one_reference(const problem *p, int64_t i) {
    const tidei_lapack *x = &p->x;
    tidei_cuda_data_type t = type_of(x->dtype);
    int m = (int)x->m, n = (int)x->n, k = (int)x->k, ld = (int)x->a.ld, narrow[256];
    void *a = at(p, p->want, 0, i), *b = at(p, p->want, 1, i);
    switch (x->routine) {
    case TIDEI_GETRF: return x->narrow ? lu(t, m, n, a, ld, b) : wide_lu(t, m, n, a, ld, b);
    case TIDEI_GETRS:
        for (int j = 0; j < n; j++) narrow[j] = (int)((const int64_t *)b)[j];
        return solve(t, x->trans, n, k, a, ld, narrow, at(p, p->want, 2, i), (int)x->c.ld);
    case TIDEI_POTRF: return cholesky(t, x->upper, n, a, ld);
    case TIDEI_GEQRF: return BY_TYPE(t, sgeqrf, dgeqrf, cgeqrf, zgeqrf, m, n, a, ld, b);
    case TIDEI_ORGQR: return BY_TYPE(t, sorgqr, dorgqr, cungqr, zungqr, m, n, k, a, ld, b);
    case TIDEI_GESVD: {
        bool none = x->job == 'N';
        return svd(t, x->job, m, n, a, ld, b, none ? NULL : at(p, p->want, 2, i), none ? m : (int)x->c.ld,
                   none ? NULL : at(p, p->want, 3, i), none ? n : (int)x->d.ld);
    }
    default: return eigen(t, x->vectors, x->upper, n, a, ld, b);
    }
}

/* What goes in: numbers, or what an earlier routine made of them. */
static void prepare(problem *p) {
    const tidei_lapack *x = &p->x;
    tidei_cuda_data_type t = type_of(x->dtype);
    if (x->routine == TIDEI_POTRF || x->routine == TIDEI_SYEVD) outweigh(p);
    for (int64_t i = 0; i < x->count; i++) {
        void *a = at(p, p->in, 0, i), *b = at(p, p->in, 1, i);
        if (x->routine == TIDEI_GETRS) wide_lu(t, (int)x->n, (int)x->n, a, (int)x->a.ld, b);
        if (x->routine == TIDEI_ORGQR)
            assert_int_equal(BY_TYPE(t, sgeqrf, dgeqrf, cgeqrf, zgeqrf, (int)x->m, (int)x->n, a, (int)x->a.ld, b),
                             0);
    }
}

static inline tidei_stream *stream(void) { return fake.inner->devs[0].stream0; }
static inline tide_status bring_back(void *arg) {
    problem *p = arg;
    tide_status status = TIDE_OK;
    p->again++;
    for (int i = 0; i < OPERANDS && status == TIDE_OK; i++)
        if (p->st[i])
            status =
                tidei_submit_copy(stream(), TIDEI_COPY_H2D, p->st[i], 0, p->in[i], NULL, 0, p->bytes[i], "test");
    return status;
}

static inline void make(problem *p, int64_t gap) {
    tidei_lapack *x = &p->x;
    tidei_mats *const v[] = {&x->a, &x->b, &x->c, &x->d};
    seed = 7;
    set_sizes(p, gap);
    for (int i = 0; i < OPERANDS; i++) {
        if (!p->bytes[i]) continue;
        p->in[i] = calloc(3, p->bytes[i]);
        assert_non_null(p->in[i]);
        p->want[i] = p->in[i] + p->bytes[i];
        p->got[i] = p->want[i] + p->bytes[i];
        fill(p->in[i], p->bytes[i], i < 4 && width(real_of(type_of(x->dtype))) == 8);
        assert_ok(tidei_storage_new(&fake.inner->devs[0], p->bytes[i], stream(), "test", &p->st[i]));
        if (i < 4) v[i]->st = p->st[i];
    }
    x->info = p->st[4];
    prepare(p);
    for (int i = 0; i < OPERANDS; i++)
        if (p->bytes[i]) memcpy(p->want[i], p->in[i], p->bytes[i]);
    for (int64_t i = 0; i < x->count; i++) {
        int info = one_reference(p, i);
        if (x->info) memcpy(at(p, p->want, 4, i), &info, sizeof info);
    }
    assert_ok(bring_back(p));
    p->again = 0;
    x->again = bring_back;
    x->again_arg = p;
}
static inline void unmake(problem *p) {
    for (int i = 0; i < OPERANDS; i++) {
        if (p->st[i]) tidei_storage_release(p->st[i]);
        free(p->in[i]);
    }
}

static double real_at(const char *p, size_t i, size_t real) {
    float f;
    double d;
    if (real == 8) return memcpy(&d, p + 8 * i, 8), d;
    return memcpy(&f, p + 4 * i, 4), (double)f;
}

/* But for rounding. */
static bool same(const char *got, const char *want, size_t bytes, size_t real) {
    double most = real == 8 ? 1e-11 : 1e-3;
    for (size_t i = 0; i < bytes / real; i++) {
        double off = real_at(got, i, real) - real_at(want, i, real);
        if (!(off <= most && -off <= most)) return false;
    }
    return true;
}
static inline void check(problem *p) {
    const tidei_lapack *x = &p->x;
    bool pivots = x->routine == TIDEI_GETRF || x->routine == TIDEI_GETRS;
    for (int i = 0; i < OPERANDS; i++) {
        if (!p->st[i] || (i == 0 && x->routine == TIDEI_GESVD)) continue; /* destroyed */
        assert_ok(
            tidei_submit_copy(stream(), TIDEI_COPY_D2H, NULL, 0, p->got[i], p->st[i], 0, p->bytes[i], "test"));
        assert_ok(tide_device_synchronize(fake.rt));
        bool exact = i == 4 || (i == 1 && pivots);
        if (exact ? memcmp(p->got[i], p->want[i], p->bytes[i])
                  : !same(p->got[i], p->want[i], p->bytes[i], width(real_of(type_of(x->dtype)))))
            fail_msg("%s of type %d, %d matrices of (%d, %d): operand %d is wrong", tidei_lapack_name(x),
                     (int)x->dtype, (int)x->count, (int)x->m, (int)x->n, i);
    }
}

static inline tide_status run(problem *p) {
    fake.live = atomic_load(&fake.inner->devs[0].live);
    tide_status status = tidei_lapack_cuda(stream(), &p->x, "tide_test");
    assert_int_equal(atomic_load(&fake.inner->devs[0].live), fake.live); /* the workspaces are gone */
    assert_int_equal(fake.params, 0);
    assert_int_equal(contexts.depth, 0);
    return status;
}
static inline void run_whole(tidei_lapack x, int64_t gap, bool batched) {
    problem p = {.x = x};
    int before = fake.batched;
    make(&p, gap);
    assert_ok(run(&p));
    check(&p);
    assert_int_equal(fake.batched > before, batched);
    assert_int_equal(p.again, 0);
    unmake(&p);
}

#endif
