/* solver_batched.c: many small matrices in one call of cuSOLVER's or cuBLAS's (solver_cuda.h):
** where matrices are small, launching is most of the work, and a singular value decomposition of
** one even waits for the device. A single small matrix is served here as well where that is faster:
** LU (of 32 rows 31 us instead of 51 on an H200, and 5 instead of 24 to queue it) and singular
** values (201 instead of 1200). Cholesky is not (37 against 19). Jacobi's method is a few times
** less exact than gesvd and well within LAPACK's bounds: the ratios of its tests, 30 at most, were
** 10.2 at most over random, graded and deficient matrices, gesvd's 5.8.
**
** What must stay true: sizes are int here, and several routines need matrices without gaps; other
** matrices are factored one after the other. Arrays of addresses are made within the submission,
** which keeps them valid, and copied from ordinary host memory in pieces that the driver sets aside
** without waiting. */
#include "libs/solver_cuda.h"

#define SMALL 128 /* rows: larger matrices keep the device busy one by one */
/* rows: up to here LU of a single matrix is faster this way too; at 128 rows it takes 233 us, not
** 181 */
#define SMALL_ONE 64
#define JACOBI    32 /* rows: what gesvdjBatched takes */
/* matrices: cuSOLVER counts a batch's workspace in ints, and refuses very long ones */
#define AT_ONCE 8192
/* bytes of matrices in one syevBatched, whose workspace is a multiple of them */
#define BATCH_BYTES (32 * TIDEI_MIB)
#define COPY_BYTES  (64 * TIDEI_KIB) /* CUDA sets so much of the host's memory aside at once */
/* addresses that the stack holds, so that a single matrix costs no allocation */
#define FEW  16
#define PART ((size_t)256) /* bytes: what parts of the scratch are aligned to */

static size_t part(size_t bytes) { return tidei_round_up(bytes, PART); }
static size_t addresses_bytes(const tidei_lapack *x) {
    return part((size_t)x->count * sizeof(tidei_addr));
}

/* At most so many rows and columns, and so many matrices that an int counts twice their rows. */
static bool small(const tidei_lapack *x, int64_t rows) {
    return x->m <= rows && x->n <= rows && x->a.ld <= INT32_MAX &&
           x->count <= INT32_MAX / (2 * rows);
}

/* Whether the operand's matrices lie `step` apart; for a single one the step does not matter. */
static bool apart(const tidei_lapack *x, const tidei_mats *v, int64_t step) {
    return x->count == 1 || v->step == step;
}

/* ---- from the host ---- */

static bool copy(tidei_lapack_call *c, void *to, const void *from, size_t bytes) {
    tidei_device *d = c->s->dev->d;
    tidei_copy k = {TIDEI_COPY_H2D, (tidei_addr)(uintptr_t)to, (tidei_addr)(uintptr_t)from, bytes,
                    NULL};
    c->failed = d->ops->copy(d, c->s->ds, &k);
    return c->failed == TIDE_OK;
}

static void *host_memory(tidei_lapack_call *c, size_t bytes) {
    void *p = tidei_host_alloc(c->s->dev->rt, bytes);
    if (!p) c->failed = tidei_fail_host_memory(tidei_lapack_name(c->x), bytes);
    return p;
}

/* The address of each matrix of an operand. */
static bool put_addresses(tidei_lapack_call *c, tidei_addr *to, const void *first, int64_t step) {
    int64_t count = c->x->count, most = COPY_BYTES / sizeof(tidei_addr);
    if (count < most) most = count;
    tidei_addr few[FEW], *piece = most <= FEW ? few : host_memory(c, (size_t)most * sizeof *piece);
    bool ok = piece != NULL;
    for (int64_t done = 0; done < count && ok; done += most) {
        int64_t n = count - done < most ? count - done : most;
        for (int64_t i = 0; i < n; i++)
            piece[i] = (tidei_addr)(uintptr_t)first +
                       (tidei_addr)((done + i) * step) * tide_dtype_size(c->x->dtype);
        ok = copy(c, to + done, piece, (size_t)n * sizeof *piece);
    }
    if (piece && piece != few) tidei_host_free(c->s->dev->rt, piece);
    return ok;
}

/* ---- LU, by cuBLAS ---- Its pivots are ints. Where they are to be twice as wide cublasScopy moves
** words of four bytes with strides, and the other halves are 0. */

static size_t pivots_bytes(const tidei_lapack *x) {
    return part((size_t)(x->count * x->n) * sizeof(int));
}

static bool getrf_takes(const tidei_lapack *x, const tidei_cusolver_table *t) {
    (void)t;
    return small(x, x->count > 1 ? SMALL : SMALL_ONE) && x->m == x->n && apart(x, &x->b, x->n) &&
           x->info;
}
static size_t getrf_scratch(const tidei_lapack *x) {
    return addresses_bytes(x) + (x->narrow ? 0 : pivots_bytes(x));
}

static unsigned getrf_call(const tidei_lapack_call *c, void *matrices, int *pivots) {
    const tidei_cublas_table *t = c->blas;
    int n = (int)c->x->n, ld = (int)c->x->a.ld, count = (int)c->x->count, *info = c->first.info;
    switch (c->x->dtype) {
    case TIDE_F32: return t->cublasSgetrfBatched(c->handle, n, matrices, ld, pivots, info, count);
    case TIDE_F64: return t->cublasDgetrfBatched(c->handle, n, matrices, ld, pivots, info, count);
    case TIDE_C64: return t->cublasCgetrfBatched(c->handle, n, matrices, ld, pivots, info, count);
    default: return t->cublasZgetrfBatched(c->handle, n, matrices, ld, pivots, info, count);
    }
}
static unsigned widen(tidei_lapack_call *c, const void *narrow) {
    tidei_device *d = c->s->dev->d;
    const int64_t zero = 0;
    int pivots = (int)(c->x->count * c->x->n);
    c->failed = d->ops->fill(d, c->s->ds, (tidei_addr)(uintptr_t)c->first.b, &zero, sizeof zero,
                             (size_t)pivots);
    if (c->failed != TIDE_OK) return 0;
    return c->blas->cublasScopy_v2(c->handle, pivots, narrow, 1, c->first.b, 2);
}
static unsigned getrf_all(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    void *narrow = x->narrow ? c->first.b : (char *)c->scratch + addresses_bytes(x);
    if (!put_addresses(c, c->scratch, c->first.a, x->a.step)) return 0;
    unsigned r = getrf_call(c, c->scratch, narrow);
    return r || x->narrow ? r : widen(c, narrow);
}
static const tidei_lapack_way getrf = {
    .by_cublas = true, .takes = getrf_takes, .scratch = getrf_scratch, .all = getrf_all};

bool tidei_lapack_narrow_cuda(const tidei_lapack *x) {
    return x->routine == TIDEI_GETRF && getrf_takes(x, NULL);
}

static bool getrs_takes(const tidei_lapack *x, const tidei_cusolver_table *t) {
    (void)t;
    return x->count > 1 && x->n <= SMALL && x->k <= INT32_MAX && x->a.ld <= INT32_MAX &&
           x->c.ld <= INT32_MAX && x->count <= INT32_MAX / (2 * SMALL) && x->b.step == x->n;
}
static size_t getrs_scratch(const tidei_lapack *x) {
    return 2 * addresses_bytes(x) + pivots_bytes(x);
}

static unsigned getrs_call(const tidei_lapack_call *c, void *matrices, const int *pivots,
                           void *sides) {
    const tidei_cublas_table *t = c->blas;
    const tidei_lapack *x = c->x;
    tidei_cublas_operation o = x->trans ? TIDEI_CUBLAS_OP_T : TIDEI_CUBLAS_OP_N;
    int n = (int)x->n, k = (int)x->k, ld = (int)x->a.ld, ldc = (int)x->c.ld, count = (int)x->count;
    int wrong = 0; /* the library's answer on the host: the number of a wrong argument */
    switch (x->dtype) {
    case TIDE_F32:
        return t->cublasSgetrsBatched(c->handle, o, n, k, matrices, ld, pivots, sides, ldc, &wrong,
                                      count);
    case TIDE_F64:
        return t->cublasDgetrsBatched(c->handle, o, n, k, matrices, ld, pivots, sides, ldc, &wrong,
                                      count);
    case TIDE_C64:
        return t->cublasCgetrsBatched(c->handle, o, n, k, matrices, ld, pivots, sides, ldc, &wrong,
                                      count);
    default:
        return t->cublasZgetrsBatched(c->handle, o, n, k, matrices, ld, pivots, sides, ldc, &wrong,
                                      count);
    }
}
static unsigned getrs_all(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    char *sides = (char *)c->scratch + addresses_bytes(x), *narrow = sides + addresses_bytes(x);
    if (!put_addresses(c, c->scratch, c->first.a, x->a.step) ||
        !put_addresses(c, (tidei_addr *)(void *)sides, c->first.c, x->c.step))
        return 0;
    unsigned r = c->blas->cublasScopy_v2(c->handle, (int)(x->count * x->n), c->first.b, 2,
                                         (float *)(void *)narrow, 1);
    return r ? r : getrs_call(c, c->scratch, (const int *)(void *)narrow, sides);
}
static const tidei_lapack_way getrs = {
    .by_cublas = true, .takes = getrs_takes, .scratch = getrs_scratch, .all = getrs_all};

/* ---- Cholesky ---- */

static bool potrf_takes(const tidei_lapack *x, const tidei_cusolver_table *t) {
    (void)t;
    return x->count > 1 && x->n <= SMALL && x->a.ld <= INT32_MAX && x->count <= INT32_MAX &&
           x->info;
}
static unsigned potrf_all(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    const tidei_cusolver_table *t = c->solver;
    int n = (int)x->n, ld = (int)x->a.ld, count = (int)x->count, *info = c->first.info;
    void *p = c->scratch;
    if (!put_addresses(c, p, c->first.a, x->a.step)) return 0;
    switch (x->dtype) {
    case TIDE_F32:
        return t->cusolverDnSpotrfBatched(c->handle, tidei_lapack_fill(x), n, p, ld, info, count);
    case TIDE_F64:
        return t->cusolverDnDpotrfBatched(c->handle, tidei_lapack_fill(x), n, p, ld, info, count);
    case TIDE_C64:
        return t->cusolverDnCpotrfBatched(c->handle, tidei_lapack_fill(x), n, p, ld, info, count);
    default:
        return t->cusolverDnZpotrfBatched(c->handle, tidei_lapack_fill(x), n, p, ld, info, count);
    }
}
static const tidei_lapack_way potrf = {
    .takes = potrf_takes, .scratch = addresses_bytes, .all = potrf_all};

/* ---- eigenvalues ---- */

/* Matrices in one call. */
static int64_t syev_batch(const tidei_lapack *x) {
    int64_t bytes = x->a.ld * x->n * (int64_t)tide_dtype_size(x->dtype),
            n = (int64_t)BATCH_BYTES / bytes;
    if (n > AT_ONCE) n = AT_ONCE;
    return n < x->count ? n : x->count;
}
static bool syev_takes(const tidei_lapack *x, const tidei_cusolver_table *t) {
    return t->cusolverDnXsyevBatched && x->n <= (int64_t)BATCH_BYTES &&
           x->a.ld <= (int64_t)BATCH_BYTES / x->n && x->a.step == x->a.ld * x->n &&
           x->b.step == x->n && x->info && syev_batch(x) > 1;
}
static tidei_cusolver_mode syev_mode(const tidei_lapack *x) {
    return x->vectors ? TIDEI_CUSOLVER_VECTOR : TIDEI_CUSOLVER_NOVECTOR;
}
static unsigned syev_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    return c->solver->cusolverDnXsyevBatched_bufferSize(
        c->handle, c->params, syev_mode(x), tidei_lapack_fill(x), x->n, c->type, c->first.a,
        x->a.ld, c->real, c->first.b, c->type, &c->work_bytes, &c->host_bytes, syev_batch(x));
}
static unsigned syev_all(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    int64_t batch = syev_batch(x);
    unsigned r = 0;
    for (int64_t i = 0; i < x->count && !r; i += batch) {
        tidei_lapack_at m = tidei_lapack_nth(c, i);
        r = c->solver->cusolverDnXsyevBatched(
            c->handle, c->params, syev_mode(x), tidei_lapack_fill(x), x->n, c->type, m.a, x->a.ld,
            c->real, m.b, c->type, c->work, c->work_bytes, c->host, c->host_bytes, m.info,
            x->count - i < batch ? x->count - i : batch);
    }
    return r;
}
static const tidei_lapack_way syev = {.takes = syev_takes, .sizes = syev_sizes, .all = syev_all};

/* ---- singular values ---- gesvdjBatched gives U m x m and V, not V^H, so its vectors lie in the
** scratch, and cuBLAS multiplies them by 1 into their places. */

static size_t u_bytes(const tidei_lapack *x) {
    return part((size_t)(x->count * x->m * x->m) * tide_dtype_size(x->dtype));
}
static size_t v_bytes(const tidei_lapack *x) {
    return part((size_t)(x->count * x->n * x->n) * tide_dtype_size(x->dtype));
}
static size_t gesvdj_scratch(const tidei_lapack *x) {
    return u_bytes(x) + v_bytes(x) + part((size_t)(x->m * x->m) * tide_dtype_size(x->dtype));
}
static bool gesvdj_takes(const tidei_lapack *x, const tidei_cusolver_table *t) {
    (void)t;
    return small(x, JACOBI) && apart(x, &x->a, x->a.ld * x->n) && apart(x, &x->b, x->n) && x->info;
}
static bool gesvdj_takes_values(const tidei_lapack *x, const tidei_cusolver_table *t) {
    return x->job == 'N' && gesvdj_takes(x, t);
}
static tidei_cusolver_mode gesvdj_mode(const tidei_lapack *x) {
    return x->job == 'N' ? TIDEI_CUSOLVER_NOVECTOR : TIDEI_CUSOLVER_VECTOR;
}

#define GESVDJ_SIZES(letter)                                                                       \
    c->solver->cusolverDn##letter##gesvdjBatched_bufferSize(                                       \
        c->handle, gesvdj_mode(x), m, n, c->first.a, (int)x->a.ld, c->first.b, c->first.a, m,      \
        c->first.a, n, &items, p, count)
static unsigned gesvdj_sizes(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    int m = (int)x->m, n = (int)x->n, count = (int)(x->count < AT_ONCE ? x->count : AT_ONCE),
        items = 0;
    tidei_cusolver_gesvdj p;
    unsigned r = c->solver->cusolverDnCreateGesvdjInfo(&p);
    if (r) return r;
    switch (x->dtype) {
    case TIDE_F32: r = GESVDJ_SIZES(S); break;
    case TIDE_F64: r = GESVDJ_SIZES(D); break;
    case TIDE_C64: r = GESVDJ_SIZES(C); break;
    default: r = GESVDJ_SIZES(Z); break;
    }
    c->solver->cusolverDnDestroyGesvdjInfo(p);
    if (items < 0) return TIDEI_CUSOLVER_INVALID_VALUE; /* the library's sizes are ints */
    c->work_bytes = (size_t)items * tide_dtype_size(x->dtype);
    return r;
}

#define GESVDJ(letter)                                                                             \
    c->solver->cusolverDn##letter##gesvdjBatched(c->handle, gesvdj_mode(x), m, n, at.a,            \
                                                 (int)x->a.ld, at.b, u, m, v, n, c->work, items,   \
                                                 at.info, p, count)
static unsigned gesvdj_some(const tidei_lapack_call *c, tidei_cusolver_gesvdj p, int64_t i,
                            int count) {
    const tidei_lapack *x = c->x;
    tidei_lapack_at at = tidei_lapack_nth(c, i);
    size_t size = tide_dtype_size(x->dtype);
    int m = (int)x->m, n = (int)x->n, items = (int)(c->work_bytes / size);
    void *u = (char *)c->scratch + (size_t)(i * m * m) * size;
    void *v = (char *)c->scratch + u_bytes(x) + (size_t)(i * n * n) * size;
    switch (x->dtype) {
    case TIDE_F32: return GESVDJ(S);
    case TIDE_F64: return GESVDJ(D);
    case TIDE_C64: return GESVDJ(C);
    default: return GESVDJ(Z);
    }
}
static unsigned gesvdj_all(tidei_lapack_call *c) {
    int64_t count = c->x->count;
    tidei_cusolver_gesvdj p;
    unsigned r = c->solver->cusolverDnCreateGesvdjInfo(&p);
    if (r) return r;
    for (int64_t i = 0; i < count && !r; i += AT_ONCE)
        r = gesvdj_some(c, p, i, (int)(count - i < AT_ONCE ? count - i : AT_ONCE));
    c->solver->cusolverDnDestroyGesvdjInfo(p);
    return r;
}

/* The unit matrix, m x m: ones of the type, from whose first bytes its real part is read. */
static bool put_unit(tidei_lapack_call *c, void *to) {
    const tidei_lapack *x = c->x;
    size_t size = tide_dtype_size(x->dtype), bytes = (size_t)(x->m * x->m) * size;
    const float one = 1;
    const double wide_one = 1;
    bool wide = c->real == TIDEI_CUDA_R_64F;
    char *unit = host_memory(c, bytes);
    if (!unit) return false;
    memset(unit, 0, bytes);
    for (int64_t i = 0; i < x->m; i++)
        memcpy(unit + (size_t)(i * x->m + i) * size, wide ? (const void *)&wide_one : &one,
               wide ? sizeof wide_one : sizeof one);
    bool ok = copy(c, to, unit, bytes);
    tidei_host_free(c->s->dev->rt, unit);
    return ok;
}

/* to = op(from) 1 for all matrices: `from` has `rows` rows and as many columns, of which the first
** `cols` count. */
static unsigned times_unit(const tidei_lapack_call *c, tidei_cublas_operation o, const void *from,
                           int64_t rows, int64_t cols, void *to, const tidei_mats *out) {
    const tidei_lapack *x = c->x;
    bool wide = c->real == TIDEI_CUDA_R_64F;
    const float one[2] = {1, 0}, zero[2] = {0, 0};
    const double wide_one[2] = {1, 0}, wide_zero[2] = {0, 0};
    const char *unit = (const char *)c->scratch + u_bytes(x) + v_bytes(x);
    return c->blas->cublasGemmStridedBatchedEx_64(
        c->handle, o, TIDEI_CUBLAS_OP_N, rows, cols, cols, wide ? (const void *)wide_one : one,
        from, c->type, rows, rows * rows, unit, c->type, x->m, 0,
        wide ? (const void *)wide_zero : zero, to, c->type, out->ld, out->step, x->count,
        wide ? TIDEI_CUBLAS_COMPUTE_64F : TIDEI_CUBLAS_COMPUTE_32F, TIDEI_CUBLAS_GEMM_DEFAULT);
}
static unsigned place_vectors(tidei_lapack_call *c) {
    const tidei_lapack *x = c->x;
    const char *u = c->scratch, *v = u + u_bytes(x);
    if (!put_unit(c, (char *)c->scratch + u_bytes(x) + v_bytes(x))) return 0;
    unsigned r =
        times_unit(c, TIDEI_CUBLAS_OP_N, u, x->m, x->job == 'A' ? x->m : x->n, c->first.c, &x->c);
    return r ? r : times_unit(c, TIDEI_CUBLAS_OP_C, v, x->n, x->n, c->first.d, &x->d);
}

static const tidei_lapack_way vectors = {.by_cublas = true, .all = place_vectors};
static const tidei_lapack_way gesvdj_values = {.takes = gesvdj_takes_values,
                                               .scratch = gesvdj_scratch,
                                               .sizes = gesvdj_sizes,
                                               .all = gesvdj_all};
static const tidei_lapack_way gesvdj = {.takes = gesvdj_takes,
                                        .scratch = gesvdj_scratch,
                                        .sizes = gesvdj_sizes,
                                        .all = gesvdj_all,
                                        .then = &vectors};

const tidei_lapack_way *const tidei_lapack_batched[TIDEI_LAPACK_ROUTINES][3] = {
    [TIDEI_GETRF] = {&getrf},
    [TIDEI_GETRS] = {&getrs},
    [TIDEI_POTRF] = {&potrf},
    [TIDEI_GESVD] = {&gesvdj_values, &gesvdj},
    [TIDEI_SYEVD] = {&syev}};
