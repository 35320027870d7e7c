/* solver_each.c: every routine of cuSOLVER's for one matrix after the other (solver_cuda.h), and
** where the matrices of a batch lie. */
#include "libs/solver_cuda.h"
#include "runtime/base/dtype.h"

/* Bytes of an element of operand b, which may be pivots or real numbers. */
static size_t width_of_b(const tidei_lapack *x) {
    bool pivots = x->routine == TIDEI_GETRF || x->routine == TIDEI_GETRS;
    bool reals = x->routine == TIDEI_GESVD || x->routine == TIDEI_SYEVD;
    if (pivots) return x->narrow ? sizeof(int) : sizeof(int64_t);
    return tide_dtype_size(reals ? tidei_real_of(x->dtype) : x->dtype);
}

static void *step(void *p, size_t width, int64_t step, int64_t i) {
    return p ? (char *)p + i * step * (int64_t)width : NULL;
}
tidei_lapack_at tidei_lapack_nth(const tidei_lapack_call *c, int64_t i) {
    const tidei_lapack *x = c->x;
    const tidei_lapack_at *f = &c->first;
    size_t width = tide_dtype_size(x->dtype);
    return (tidei_lapack_at){step(f->a, width, x->a.step, i),
                             step(f->b, width_of_b(x), x->b.step, i),
                             step(f->c, width, x->c.step, i), step(f->d, width, x->d.step, i),
                             c->one_info ? f->info : f->info + i};
}

/* ---- the routines ---- */

#define BEGIN c->handle, c->params
#define SPACE c->work, c->work_bytes, c->host, c->host_bytes

static unsigned getrf_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXgetrf_bufferSize(BEGIN, x->m, x->n, c->type, c->first.a, x->a.ld,
                                                  c->type, &c->work_bytes, &c->host_bytes);
}
static unsigned getrf(const tidei_lapack_call *c, const tidei_lapack_at *m) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXgetrf(BEGIN, x->m, x->n, c->type, m->a, x->a.ld, m->b, c->type,
                                       SPACE, m->info);
}

static unsigned getrs(const tidei_lapack_call *c, const tidei_lapack_at *m) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXgetrs(BEGIN, x->trans ? TIDEI_CUBLAS_OP_T : TIDEI_CUBLAS_OP_N,
                                       x->n, x->k, c->type, m->a, x->a.ld, m->b, c->type, m->c,
                                       x->c.ld, m->info);
}

static unsigned potrf_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXpotrf_bufferSize(BEGIN, tidei_lapack_fill(x), x->n, c->type,
                                                  c->first.a, x->a.ld, c->type, &c->work_bytes,
                                                  &c->host_bytes);
}
static unsigned potrf(const tidei_lapack_call *c, const tidei_lapack_at *m) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXpotrf(BEGIN, tidei_lapack_fill(x), x->n, c->type, m->a, x->a.ld,
                                       c->type, SPACE, m->info);
}

static unsigned geqrf_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXgeqrf_bufferSize(BEGIN, x->m, x->n, c->type, c->first.a, x->a.ld,
                                                  c->type, c->first.b, c->type, &c->work_bytes,
                                                  &c->host_bytes);
}
static unsigned geqrf(const tidei_lapack_call *c, const tidei_lapack_at *m) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXgeqrf(BEGIN, x->m, x->n, c->type, m->a, x->a.ld, c->type, m->b,
                                       c->type, SPACE, m->info);
}

static unsigned orgqr_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    const tidei_cusolver_table *t = c->solver;
    int m = (int)x->m, n = (int)x->n, k = (int)x->k, ld = (int)x->a.ld, items = 0;
    const void *a = c->first.a, *tau = c->first.b;
    unsigned r;
    switch (x->dtype) {
    case TIDE_F32:
        r = t->cusolverDnSorgqr_bufferSize(c->handle, m, n, k, a, ld, tau, &items);
        break;
    case TIDE_F64:
        r = t->cusolverDnDorgqr_bufferSize(c->handle, m, n, k, a, ld, tau, &items);
        break;
    case TIDE_C64:
        r = t->cusolverDnCungqr_bufferSize(c->handle, m, n, k, a, ld, tau, &items);
        break;
    default: r = t->cusolverDnZungqr_bufferSize(c->handle, m, n, k, a, ld, tau, &items); break;
    }
    if (items < 0) return TIDEI_CUSOLVER_INVALID_VALUE; /* the library's sizes are ints */
    c->work_bytes = (size_t)items * tide_dtype_size(x->dtype);
    return r;
}
static unsigned orgqr(const tidei_lapack_call *c, const tidei_lapack_at *at) {
    const tidei_lapack *x = c->x;
    const tidei_cusolver_table *t = c->solver;
    int m = (int)x->m, n = (int)x->n, k = (int)x->k, ld = (int)x->a.ld;
    int items = (int)(c->work_bytes / tide_dtype_size(x->dtype));
    switch (x->dtype) {
    case TIDE_F32:
        return t->cusolverDnSorgqr(c->handle, m, n, k, at->a, ld, at->b, c->work, items, at->info);
    case TIDE_F64:
        return t->cusolverDnDorgqr(c->handle, m, n, k, at->a, ld, at->b, c->work, items, at->info);
    case TIDE_C64:
        return t->cusolverDnCungqr(c->handle, m, n, k, at->a, ld, at->b, c->work, items, at->info);
    default:
        return t->cusolverDnZungqr(c->handle, m, n, k, at->a, ld, at->b, c->work, items, at->info);
    }
}

/* The leading dimension; an operand that is not wanted needs a valid one all the same. */
static int64_t ld_of(const tidei_lapack *x, const tidei_mats *v, int64_t rows) {
    return x->job == 'N' ? rows : v->ld;
}

static unsigned gesvd_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    signed char job = (signed char)x->job;
    return c->solver->cusolverDnXgesvd_bufferSize(
        BEGIN, job, job, x->m, x->n, c->type, c->first.a, x->a.ld, c->real, c->first.b, c->type,
        c->first.c, ld_of(x, &x->c, x->m), c->type, c->first.d, ld_of(x, &x->d, x->n), c->type,
        &c->work_bytes, &c->host_bytes);
}
static unsigned gesvd(const tidei_lapack_call *c, const tidei_lapack_at *m) {
    const tidei_lapack *x = c->x;
    signed char job = (signed char)x->job;
    return c->solver->cusolverDnXgesvd(BEGIN, job, job, x->m, x->n, c->type, m->a, x->a.ld, c->real,
                                       m->b, c->type, m->c, ld_of(x, &x->c, x->m), c->type, m->d,
                                       ld_of(x, &x->d, x->n), c->type, SPACE, m->info);
}

static tidei_cusolver_mode mode_of(const tidei_lapack *x) {
    return x->vectors ? TIDEI_CUSOLVER_VECTOR : TIDEI_CUSOLVER_NOVECTOR;
}
static unsigned syevd_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXsyevd_bufferSize(BEGIN, mode_of(x), tidei_lapack_fill(x), x->n,
                                                  c->type, c->first.a, x->a.ld, c->real, c->first.b,
                                                  c->type, &c->work_bytes, &c->host_bytes);
}
static unsigned syevd(const tidei_lapack_call *c, const tidei_lapack_at *m) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXsyevd(BEGIN, mode_of(x), tidei_lapack_fill(x), x->n, c->type, m->a,
                                       x->a.ld, c->real, m->b, c->type, SPACE, m->info);
}

const tidei_lapack_way tidei_lapack_each[TIDEI_LAPACK_ROUTINES] = {
    [TIDEI_GETRF] = {.sizes = getrf_sizes, .one = getrf},
    [TIDEI_GETRS] = {.one = getrs},
    [TIDEI_POTRF] = {.sizes = potrf_sizes, .one = potrf},
    [TIDEI_GEQRF] = {.sizes = geqrf_sizes, .one = geqrf},
    [TIDEI_ORGQR] = {.sizes = orgqr_sizes, .one = orgqr},
    [TIDEI_GESVD] = {.sizes = gesvd_sizes, .one = gesvd},
    [TIDEI_SYEVD] = {.sizes = syevd_sizes, .one = syevd}};
