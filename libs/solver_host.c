/* solver_host.c: factorizations by LAPACK, in a function that the host device's stream runs.
**
** Model. A routine is asked for its workspace when it is submitted; the stream's function then goes
** over the batch, one matrix after the other in the same workspace. Every LAPACK routine takes one
** struct here, so that types and routines make a table.
** What must stay true: LAPACK counts in int, also within its workspaces: sizes that do not fit
** are refused before the call. Nothing is read behind an operand, where no memory may be mapped.
** OpenBLAS does that (0.3.21): zgemv, as compiled for Haswell, loads an element beyond a
** vector's last one, which is a column further where the vector is a row, and ssymv for older
** processors some bytes behind a matrix. So the matrices of a complex SVD and of eigenvalues lie
** in the workspace meanwhile, before the rest of it. */
#include "libs/solver.h"

#include <lapacke.h>
#include <limits.h>
#include <stdlib.h>

/* One call of LAPACK's. lwork, lrwork and liwork of -1 ask: the answers come in the first elements
** of the three. */
typedef struct one {
    int m, n, k, lda, ldc, ldd;
    char trans, uplo, job;
    void *a, *b, *c, *d; /* as in solver.h, but pivots are in ipiv */
    int *ipiv, *iwork;
    void *work, *rwork;
    int lwork, lrwork, liwork;
} one;

typedef int (*routine)(const one *x); /* returns info */

#define COL LAPACK_COL_MAJOR
#define COMMON(p, or)                                                                              \
    static int p##_getrf(const one *x) {                                                           \
        return LAPACKE_##p##getrf_work(COL, x->m, x->n, x->a, x->lda, x->ipiv);                    \
    }                                                                                              \
    static int p##_getrs(const one *x) {                                                           \
        return LAPACKE_##p##getrs_work(COL, x->trans, x->n, x->k, x->a, x->lda, x->ipiv, x->c,     \
                                       x->ldc);                                                    \
    }                                                                                              \
    static int p##_potrf(const one *x) {                                                           \
        return LAPACKE_##p##potrf_work(COL, x->uplo, x->n, x->a, x->lda);                          \
    }                                                                                              \
    static int p##_geqrf(const one *x) {                                                           \
        return LAPACKE_##p##geqrf_work(COL, x->m, x->n, x->a, x->lda, x->b, x->work, x->lwork);    \
    }                                                                                              \
    static int p##_orgqr(const one *x) {                                                           \
        return LAPACKE_##p## or                                                                    \
               ##gqr_work(COL, x->m, x->n, x->k, x->a, x->lda, x->b, x->work, x->lwork);           \
    }
#define REAL(p)                                                                                    \
    COMMON(p, or)                                                                                  \
    static int p##_gesvd(const one *x) {                                                           \
        return LAPACKE_##p##gesdd_work(COL, x->job, x->m, x->n, x->a, x->lda, x->b, x->c, x->ldc,  \
                                       x->d, x->ldd, x->work, x->lwork, x->iwork);                 \
    }                                                                                              \
    static int p##_syevd(const one *x) {                                                           \
        return LAPACKE_##p##syevd_work(COL, x->job, x->uplo, x->n, x->a, x->lda, x->b, x->work,    \
                                       x->lwork, x->iwork, x->liwork);                             \
    }
#define COMPLEX(p)                                                                                 \
    COMMON(p, un)                                                                                  \
    static int p##_gesvd(const one *x) {                                                           \
        return LAPACKE_##p##gesdd_work(COL, x->job, x->m, x->n, x->a, x->lda, x->b, x->c, x->ldc,  \
                                       x->d, x->ldd, x->work, x->lwork, x->rwork, x->iwork);       \
    }                                                                                              \
    static int p##_syevd(const one *x) {                                                           \
        return LAPACKE_##p##heevd_work(COL, x->job, x->uplo, x->n, x->a, x->lda, x->b, x->work,    \
                                       x->lwork, x->rwork, x->lrwork, x->iwork, x->liwork);        \
    }
REAL(s)
REAL(d)
COMPLEX(c)
COMPLEX(z)
#undef COL

static routine routine_of(const tidei_lapack *x) {
#define TABLE(p)                                                                                   \
    {                                                                                              \
        [TIDEI_GETRF] = p##_getrf, [TIDEI_GETRS] = p##_getrs, [TIDEI_POTRF] = p##_potrf,           \
        [TIDEI_GEQRF] = p##_geqrf, [TIDEI_ORGQR] = p##_orgqr, [TIDEI_GESVD] = p##_gesvd,           \
        [TIDEI_SYEVD] = p##_syevd                                                                  \
    }
    static const routine table[4][TIDEI_LAPACK_ROUTINES] = {TABLE(s), TABLE(d), TABLE(c), TABLE(z)};
#undef TABLE
    return table[x->dtype - TIDE_F32][x->routine];
}
_Static_assert(TIDE_F64 == TIDE_F32 + 1 && TIDE_C64 == TIDE_F32 + 2 && TIDE_C128 == TIDE_F32 + 3,
               "the table's order");

/* ---- workspaces ---- */

/* In elements of their types. `copies`: for the operands themselves. */
typedef struct room {
    int64_t work, rwork, iwork, ipiv, copies;
} room;

static bool is_complex(const tidei_lapack *x) {
    return x->dtype == TIDE_C64 || x->dtype == TIDE_C128;
}
static bool is_single(const tidei_lapack *x) {
    return x->dtype == TIDE_F32 || x->dtype == TIDE_C64;
}
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* Columns of u. */
static int64_t left_vectors(const tidei_lapack *x) {
    return x->job == 'N' ? 0 : x->job == 'A' ? x->m : x->n;
}
static int64_t right_vectors(const tidei_lapack *x) { return x->job == 'N' ? 0 : x->n; }

/* What the operands take that have to lie in the workspace: no more than they take elsewhere. */
static int64_t copies_of(const tidei_lapack *x) {
    if (x->routine == TIDEI_SYEVD) return x->n * x->n;
    if (x->routine != TIDEI_GESVD || !is_complex(x)) return 0;
    return x->m * (x->n + left_vectors(x)) + x->n * right_vectors(x);
}

/* The least workspace by LAPACK's documentation. A routine gets this or what it asks for, whichever
** is larger. */
static room least_room(const tidei_lapack *x) {
    /* Sizes beyond int are refused anyway; they are cut down so that nothing overflows here. */
    int64_t m = lesser(x->m, INT_MAX), n = lesser(x->n, INT_MAX), nn = lesser(n * n, INT_MAX);
    bool vectors = x->job != 'N';
    room r = {0};
    switch (x->routine) {
    case TIDEI_GETRF: r.ipiv = m < n ? m : n; break;
    case TIDEI_GETRS: r.ipiv = n; break;
    case TIDEI_GEQRF:
    case TIDEI_ORGQR: r.work = n; break;
    case TIDEI_GESVD:
        r.iwork = 8 * n;
        r.work = vectors ? 4 * nn + 7 * n + m : 10 * n + m;
        if (!is_complex(x)) break;
        r.work = vectors ? nn + 3 * n + m : 2 * n + m;
        r.rwork = vectors ? larger(5 * nn + 5 * n, 2 * m * n + 2 * nn + n) : 7 * n;
        break;
    case TIDEI_SYEVD:
        r.iwork = x->vectors ? 3 + 5 * n : 1;
        r.work = x->vectors ? 1 + 6 * n + 2 * nn : 2 * n + 1;
        if (!is_complex(x)) break;
        r.work = x->vectors ? 2 * n + nn : n + 1;
        r.rwork = x->vectors ? 1 + 5 * n + 2 * nn : n;
        break;
    default: break;
    }
    return r;
}

static tide_status too_large(const tidei_lapack *x, const char *op) {
    return tidei_fail(
        TIDE_E_UNSUPPORTED, op,
        "%s of %lld x %lld with %lld columns more: LAPACK counts in int, its workspaces too",
        tidei_lapack_name(x), (long long)x->m, (long long)x->n, (long long)x->k);
}

static bool fits(int64_t v) { return v <= INT_MAX; }

/* A length that came as a number of the routine's type. One of 2^24 and more may have been rounded
** down to f32. */
static int64_t answer(const tidei_lapack *x, const void *at) {
    if (!is_single(x)) return (int64_t) * (const double *)at;
    float f = *(const float *)at;
    return f < 16777216.0f ? (int64_t)f : (int64_t)((double)f * (1 + 1e-7)) + 1;
}

/* Asks the routine what it works best with. */
static void ask(const tidei_lapack *x, const one *like, room *r) {
    double work[2] = {0}, rwork[2] = {0};
    int iwork[1] = {0};
    one q = *like;
    if (!r->work) return;
    q.work = work;
    q.rwork = rwork;
    q.iwork = iwork;
    q.lwork = q.lrwork = q.liwork = -1;
    (void)routine_of(x)(&q);
    r->work = larger(r->work, answer(x, work));
    if (x->routine != TIDEI_SYEVD) return; /* gesdd does not tell the other lengths */
    r->rwork = larger(r->rwork, is_complex(x) ? answer(x, rwork) : 0);
    r->iwork = larger(r->iwork, iwork[0]);
}

/* ---- the call ---- as the stream runs it, with addresses instead of storages. */

typedef struct call {
    tidei_lapack x;
    one first;
    routine fn;
    char *at[4];
    int32_t *info;
    char *space;
    room room;
} call;

static size_t aligned(size_t bytes) { return tidei_round_up(bytes, 64); }

/* Cuts the workspace up; returns its size. */
static size_t lay_out(const call *c, one *to) {
    size_t size = tide_dtype_size(c->x.dtype), real = is_single(&c->x) ? 4 : 8;
    size_t copies = aligned((size_t)c->room.copies * size),
           work = aligned((size_t)c->room.work * size),
           rwork = aligned((size_t)c->room.rwork * real);
    size_t iwork = aligned((size_t)c->room.iwork * sizeof(int)),
           ipiv = aligned((size_t)c->room.ipiv * sizeof(int));
    if (to && c->space) {
        to->work = c->space + copies;
        to->rwork = c->space + copies + work;
        to->iwork = (int *)(void *)(c->space + copies + work + rwork);
        to->ipiv = (int *)(void *)(c->space + copies + work + rwork + iwork);
    }
    return copies + work + rwork + iwork + ipiv;
}

/* Columns of a matrix from one place to another. */
static void copy_columns(const call *c, char *to, int64_t to_ld, const char *from, int64_t from_ld,
                         int64_t rows, int64_t columns) {
    const size_t size = tide_dtype_size(c->x.dtype);
    for (int64_t k = 0; k < columns; k++)
        memcpy(to + (size_t)(k * to_ld) * size, from + (size_t)(k * from_ld) * size,
               (size_t)rows * size);
}

/* The routine on matrices in the workspace. */
static int run_in_workspace(const call *c, const one *x) {
    const size_t size = tide_dtype_size(c->x.dtype);
    const bool eigen = c->x.routine == TIDEI_SYEVD;
    const int64_t m = eigen ? x->n : x->m, n = x->n, cu = eigen ? 0 : left_vectors(&c->x),
                  cv = eigen ? 0 : right_vectors(&c->x);
    one y = *x;
    char *a = c->space, *u = a + (size_t)(m * n) * size, *vh = u + (size_t)(m * cu) * size;
    y.a = a, y.lda = (int)m;
    y.c = u, y.ldc = (int)m;
    y.d = vh, y.ldd = (int)n;
    copy_columns(c, a, m, x->a, x->lda, m, n);
    int info = c->fn(&y);
    if (eigen) copy_columns(c, x->a, x->lda, a, m, m, n); /* of an SVD nobody wants it back */
    copy_columns(c, x->c, x->ldc, u, m, m, cu);
    copy_columns(c, x->d, x->ldd, vh, n, n, cv);
    return info;
}

static void one_matrix(const call *c, one *x, int64_t i) {
    size_t size = tide_dtype_size(c->x.dtype), real = is_single(&c->x) ? 4 : 8;
    bool values = c->x.routine == TIDEI_GESVD || c->x.routine == TIDEI_SYEVD; /* b is real */
    int64_t *pivots = (int64_t *)(void *)c->at[1] + i * c->x.b.step;
    if (c->at[0]) x->a = c->at[0] + (size_t)(i * c->x.a.step) * size;
    if (c->at[1]) x->b = c->at[1] + (size_t)(i * c->x.b.step) * (values ? real : size);
    if (c->at[2]) x->c = c->at[2] + (size_t)(i * c->x.c.step) * size;
    if (c->at[3]) x->d = c->at[3] + (size_t)(i * c->x.d.step) * size;
    if (c->x.routine == TIDEI_GETRS)
        for (int64_t k = 0; k < c->room.ipiv; k++) x->ipiv[k] = (int)pivots[k];
    int info = c->room.copies ? run_in_workspace(c, x) : c->fn(x);
    if (c->x.routine == TIDEI_GETRF)
        for (int64_t k = 0; k < c->room.ipiv; k++) pivots[k] = x->ipiv[k];
    /* a negative info means a wrong argument, which we never pass */
    if (c->info) c->info[i] = abs(info);
}

static void run(const void *params) {
    const call *c = params;
    one x = c->first;
    lay_out(c, &x);
    for (int64_t i = 0; i < c->x.count; i++) one_matrix(c, &x, i);
}

_Static_assert(sizeof(call) <= TIDEI_PARAMS_MAX, "the parameters of a launch are bounded");

static tide_status fill_in(call *c, const char *op) {
    const tidei_lapack *x = &c->x;
    room r = least_room(x);
    bool eigen = x->routine == TIDEI_SYEVD;
    if (!fits(x->m) || !fits(x->n) || !fits(x->k) || !fits(x->a.ld) || !fits(x->c.ld) ||
        !fits(x->d.ld) || !fits(r.work) || !fits(r.rwork) || !fits(r.iwork))
        return too_large(x, op);
    c->first = (one){.m = (int)x->m,
                     .n = (int)x->n,
                     .k = (int)x->k,
                     .lda = (int)x->a.ld,
                     /* an unused one must still be at least 1 */
                     .ldc = x->c.ld ? (int)x->c.ld : 1,
                     .ldd = x->d.ld ? (int)x->d.ld : 1,
                     .trans = x->trans ? 'T' : 'N',
                     .uplo = x->upper ? 'U' : 'L',
                     .job = eigen ? (x->vectors ? 'V' : 'N') : x->job};
    ask(x, &c->first, &r);
    if (!fits(r.work) || !fits(r.rwork) || !fits(r.iwork)) return too_large(x, op);
    c->fn = routine_of(x);
    r.copies = copies_of(x);
    c->room = r;
    c->first.lwork = (int)r.work;
    c->first.lrwork = (int)r.rwork;
    c->first.liwork = (int)r.iwork;
    return TIDE_OK;
}

tide_status tidei_lapack_host(tidei_stream *s, const tidei_lapack *x, const char *op) {
    /* of the operands, info and the workspace */
    static const size_t places[] = {offsetof(call, at[0]), offsetof(call, at[1]),
                                    offsetof(call, at[2]), offsetof(call, at[3]),
                                    offsetof(call, info),  offsetof(call, space)};
    call c = {.x = *x};
    tidei_use uses[6];
    size_t at[6];
    int operand[6];
    tidei_storage *space = NULL;
    tide_status status = fill_in(&c, op);
    if (status != TIDE_OK) return status;
    unsigned n = tidei_lapack_uses(x, uses, operand);
    size_t bytes = lay_out(&c, NULL);
    if (bytes) {
        status = tidei_scratch_new(tidei_pool_here(s->dev), bytes, s, op, &space);
        if (status != TIDE_OK) return status;
        operand[n] = 5;
        uses[n++] = (tidei_use){space, 0, bytes, TIDEI_READ | TIDEI_WRITE};
    }
    for (unsigned i = 0; i < n; i++) at[i] = places[operand[i]];
    tidei_launch l = {
        .name = tidei_lapack_name(x), .host_fn = run, .params = &c, .params_bytes = sizeof c};
    status = tidei_submit_launch(s, uses, n, &l, &c, at, op);
    if (space) tidei_scratch_release(space);
    return status;
}
