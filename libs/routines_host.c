/* routines_host.c: BLAS's routines besides products by OpenBLAS, in a function that the host
** device's stream runs.
**
** OpenBLAS counts in int: longer vectors, and matrices of more rows or columns, are done in
** pieces. What must stay true: nothing is read behind an operand, where no memory may be mapped
** (reads_on, dot). */
#include "libs/blas.h"

#include <cblas.h>
#include <limits.h>
#include <math.h>

#ifdef TIDEI_STRESS
#define PIECE ((int64_t)5) /* elements, so that every test has several pieces */
#else
#define PIECE ((int64_t)1 << 30)
#endif

/* The call as the stream runs it: addresses beside storages, of a, c, b. */
typedef struct call {
    tidei_blas x;
    char *at[3];
} call;

static int piece(int64_t whole, int64_t at) {
    return (int)(whole - at < PIECE ? whole - at : PIECE);
}

/* ---- one piece, by type ---- */

static void axpy(const tidei_blas *x, int n, const void *a, void *c) {
    tidei_factor p = tidei_factor_of(x->alpha, x->dtype);
    int by = (int)x->a.ld, step = (int)x->c.ld;
    switch (x->dtype) {
    case TIDE_F32: cblas_saxpy(n, p.f[0], a, by, c, step); break;
    case TIDE_F64: cblas_daxpy(n, p.d[0], a, by, c, step); break;
    case TIDE_C64: cblas_caxpy(n, &p, a, by, c, step); break;
    default: cblas_zaxpy(n, &p, a, by, c, step);
    }
}

static bool is_complex(tide_dtype t) { return t == TIDE_C64 || t == TIDE_C128; }

/* conj(a) b of one element. */
static void add_one(tide_dtype t, const void *a, const void *b, double sum[2]) {
    double u[2], v[2];
    for (int i = 0; i < 2; i++) {
        u[i] = t == TIDE_C64 ? (double)((const float *)a)[i] : ((const double *)a)[i];
        v[i] = t == TIDE_C64 ? (double)((const float *)b)[i] : ((const double *)b)[i];
    }
    sum[0] += u[0] * v[0] + u[1] * v[1];
    sum[1] += u[0] * v[1] - u[1] * v[0];
}

/* The sum of a piece is added to those before it. The last element of complex vectors with steps
** goes alone: OpenBLAS's (0.3.21) cdotc and zdotc load one beyond it. */
static void dot(const tidei_blas *x, int n, const void *a, const void *b, double sum[2]) {
    int by = (int)x->a.ld, with = (int)x->b.ld;
    float f[2] = {0, 0};
    double d[2] = {0, 0};
    if (is_complex(x->dtype) && (by != 1 || with != 1)) {
        const int64_t size = (int64_t)tide_dtype_size(x->dtype), last = --n;
        add_one(x->dtype, (const char *)a + last * by * size, (const char *)b + last * with * size,
                sum);
    }
    switch (x->dtype) {
    case TIDE_F32: d[0] = cblas_sdot(n, a, by, b, with); break;
    case TIDE_F64: d[0] = cblas_ddot(n, a, by, b, with); break;
    case TIDE_C64:
        cblas_cdotc_sub(n, a, by, b, with, f);
        d[0] = f[0], d[1] = f[1];
        break;
    default: cblas_zdotc_sub(n, a, by, b, with, d);
    }
    sum[0] += d[0], sum[1] += d[1];
}

static double nrm2(const tidei_blas *x, int n, const void *a) {
    int by = (int)x->a.ld;
    switch (x->dtype) {
    case TIDE_F32: return cblas_snrm2(n, a, by);
    case TIDE_F64: return cblas_dnrm2(n, a, by);
    case TIDE_C64: return cblas_scnrm2(n, a, by);
    default: return cblas_dznrm2(n, a, by);
    }
}

static void gemv(const tidei_blas *x, int m, int n, const void *a, const void *b,
                 const double beta[2], void *c) {
    tidei_factor p = tidei_factor_of(x->alpha, x->dtype), q = tidei_factor_of(beta, x->dtype);
    CBLAS_TRANSPOSE t = x->a.trans ? CblasTrans : CblasNoTrans;
    int rows = x->a.trans ? n : m, cols = x->a.trans ? m : n, ld = (int)x->a.ld, by = (int)x->b.ld,
        step = (int)x->c.ld;
    switch (x->dtype) {
    case TIDE_F32:
        cblas_sgemv(CblasRowMajor, t, rows, cols, p.f[0], a, ld, b, by, q.f[0], c, step);
        break;
    case TIDE_F64:
        cblas_dgemv(CblasRowMajor, t, rows, cols, p.d[0], a, ld, b, by, q.d[0], c, step);
        break;
    case TIDE_C64: cblas_cgemv(CblasRowMajor, t, rows, cols, &p, a, ld, b, by, &q, c, step); break;
    default: cblas_zgemv(CblasRowMajor, t, rows, cols, &p, a, ld, b, by, &q, c, step);
    }
}

static void ger(const tidei_blas *x, int m, int n, const void *a, const void *b, void *c) {
    tidei_factor p = tidei_factor_of(x->alpha, x->dtype);
    int by = (int)x->a.ld, with = (int)x->b.ld, ld = (int)x->c.ld;
    switch (x->dtype) {
    case TIDE_F32: cblas_sger(CblasRowMajor, m, n, p.f[0], a, by, b, with, c, ld); break;
    case TIDE_F64: cblas_dger(CblasRowMajor, m, n, p.d[0], a, by, b, with, c, ld); break;
    case TIDE_C64: cblas_cgeru(CblasRowMajor, m, n, &p, a, by, b, with, c, ld); break;
    default: cblas_zgeru(CblasRowMajor, m, n, &p, a, by, b, with, c, ld);
    }
}

static void trsm(const tidei_blas *x, int n, const void *a, void *c) {
    static const double unity[2] = {1, 0};
    tidei_factor one = tidei_factor_of(unity, x->dtype);
    CBLAS_TRANSPOSE t = x->a.trans ? CblasTrans : CblasNoTrans;
    CBLAS_UPLO half = x->upper != x->a.trans ? CblasUpper : CblasLower; /* of what is stored */
    CBLAS_DIAG unit = x->unit ? CblasUnit : CblasNonUnit;
    int m = (int)x->m, ld = (int)x->a.ld, ldc = (int)x->c.ld;
    switch (x->dtype) {
    case TIDE_F32:
        cblas_strsm(CblasRowMajor, CblasLeft, half, t, unit, m, n, 1, a, ld, c, ldc);
        break;
    case TIDE_F64:
        cblas_dtrsm(CblasRowMajor, CblasLeft, half, t, unit, m, n, 1, a, ld, c, ldc);
        break;
    case TIDE_C64:
        cblas_ctrsm(CblasRowMajor, CblasLeft, half, t, unit, m, n, &one, a, ld, c, ldc);
        break;
    default: cblas_ztrsm(CblasRowMajor, CblasLeft, half, t, unit, m, n, &one, a, ld, c, ldc);
    }
}

/* ---- one index of the batch ---- */

static void store(tide_dtype t, const double v[2], void *out) {
    tidei_factor f = tidei_factor_of(v, t);
    memcpy(out, &f, tide_dtype_size(t));
}

static void set_zero(const tidei_blas *x, char *c, size_t size) {
    for (int64_t i = 0; i < x->m; i++) memset(c + (size_t)(i * x->c.ld) * size, 0, size);
}

/* OpenBLAS's (0.3.21) cgemv and zgemv by columns load an element beyond b's last one. */
static bool reads_on(const tidei_blas *x) { return x->a.trans && is_complex(x->dtype); }

/* With b's last element alone, from where one more may be read. */
static void gemv_last(const tidei_blas *x, int m, const char *a, const char *b,
                      const double beta[2], char *c) {
    double there[4] = {0};
    tidei_blas y = *x;
    y.b.ld = 1;
    memcpy(there, b, tide_dtype_size(x->dtype));
    gemv(&y, m, 1, a, there, beta, c);
}

static void whole_gemv(const tidei_blas *x, const char *a, const char *b, char *c) {
    static const double one[2] = {1, 0}; /* the pieces of a sum add up */
    int64_t size = (int64_t)tide_dtype_size(x->dtype), n = x->n - (x->n > 0 && reads_on(x));
    int64_t row = x->a.trans ? 1 : x->a.ld, col = x->a.trans ? x->a.ld : 1;
    /* some releases of OpenBLAS multiply what is there by 0 (and NaN stays) */
    if (tidei_is_zero(x->beta)) set_zero(x, c, (size_t)size);
    for (int64_t i = 0; i < x->m; i += PIECE) {
        char *to = c + i * x->c.ld * size;
        const char *from = a + i * row * size;
        for (int64_t j = 0; j < n; j += PIECE)
            gemv(x, piece(x->m, i), piece(n, j), from + j * col * size, b + j * x->b.ld * size,
                 j == 0 ? x->beta : one, to);
        if (n < x->n)
            gemv_last(x, piece(x->m, i), from + n * col * size, b + n * x->b.ld * size,
                      n == 0 ? x->beta : one, to);
    }
}

static void whole_ger(const tidei_blas *x, const char *a, const char *b, char *c) {
    int64_t size = (int64_t)tide_dtype_size(x->dtype);
    for (int64_t i = 0; i < x->m; i += PIECE)
        for (int64_t j = 0; j < x->n; j += PIECE)
            ger(x, piece(x->m, i), piece(x->n, j), a + i * x->a.ld * size, b + j * x->b.ld * size,
                c + (i * x->c.ld + j) * size);
}

/* Routines that go along one dimension of n. */
static void whole_vectors(const tidei_blas *x, const char *a, const char *b, char *c) {
    int64_t size = (int64_t)tide_dtype_size(x->dtype), by = x->a.ld * size;
    double sum[2] = {0, 0};
    for (int64_t i = 0; i < x->n; i += PIECE) {
        int n = piece(x->n, i);
        if (x->routine == TIDEI_AXPY)
            axpy(x, n, a + i * by, c + i * x->c.ld * size);
        else if (x->routine == TIDEI_DOT)
            dot(x, n, a + i * by, b + i * x->b.ld * size, sum);
        else
            sum[0] = i == 0 ? nrm2(x, n, a) : hypot(sum[0], nrm2(x, n, a + i * by));
    }
    if (x->routine == TIDEI_DOT) store(x->dtype, sum, c);
    if (x->routine == TIDEI_NRM2) store(tidei_real_of(x->dtype), sum, c);
}

static void whole_trsm(const tidei_blas *x, const char *a, char *c) {
    for (int64_t j = 0; j < x->n; j += PIECE)
        trsm(x, piece(x->n, j), a, c + (size_t)j * tide_dtype_size(x->dtype));
}

static void run(const void *params) {
    const call *x = params;
    const tidei_matrix *const all[] = {&x->x.a, &x->x.c, &x->x.b};
    tide_dtype result = x->x.routine == TIDEI_NRM2 ? tidei_real_of(x->x.dtype) : x->x.dtype;
    int64_t size = (int64_t)tide_dtype_size(x->x.dtype), wide = (int64_t)tide_dtype_size(result);
    int64_t index[TIDE_MAX_RANK] = {0}, at[3] = {0};
    do {
        const char *a = x->at[0] + at[0] * size, *b = x->at[2] ? x->at[2] + at[2] * size : NULL;
        char *c = x->at[1] + at[1] * wide;
        switch (x->x.routine) {
        case TIDEI_GEMV: whole_gemv(&x->x, a, b, c); break;
        case TIDEI_GER: whole_ger(&x->x, a, b, c); break;
        case TIDEI_TRSM: whole_trsm(&x->x, a, c); break;
        default: whole_vectors(&x->x, a, b, c);
        }
    } while (tidei_batch_next(x->x.nbatch, x->x.batch, index, all, 3, at));
}

/* ---- the launch ---- */

/* Where operand i begins, from the lowest element that is touched on: with negative strides that is
** not the first one. */
static char *first_of(const tidei_blas *x, const tidei_matrix *m, unsigned i,
                      const tidei_use *use) {
    tide_dtype t = i == 1 && x->routine == TIDEI_NRM2 ? tidei_real_of(x->dtype) : x->dtype; /* c */
    return (char *)((size_t)m->offset * tide_dtype_size(t) - use->offset);
}

/* A single row, or a vector of one element, has no step that would count; it may be any number,
** also one beyond int. */
static bool fit_ld(const tidei_blas *x, tidei_matrix *at, int which) {
    tidei_extents e = tidei_blas_extents(x, which);
    int64_t rows = at->trans ? e.cols : e.rows, cols = at->trans ? e.rows : e.cols;
    if (rows == 1) at->ld = cols < PIECE ? cols : PIECE;
    return at->ld <= INT_MAX;
}

_Static_assert(sizeof(call) <= TIDEI_PARAMS_MAX, "the parameters of a launch are bounded");

tide_status tidei_blas_host(tidei_stream *s, const tidei_blas *x, const tidei_use *uses, unsigned n,
                            const char *op) {
    static const size_t at[] = {offsetof(call, at[0]), offsetof(call, at[1]),
                                offsetof(call, at[2])};
    call c = {.x = *x};
    tidei_matrix *const all[] = {&c.x.a, &c.x.c, &c.x.b};
    bool fits = x->routine != TIDEI_TRSM || x->m <= INT_MAX;
    for (unsigned i = 0; i < n; i++) {
        fits = fit_ld(x, all[i], (int)i) && fits;
        c.at[i] = first_of(x, all[i], i, &uses[i]);
    }
    if (!fits)
        return tidei_fail(
            TIDE_E_UNSUPPORTED, op,
            "OpenBLAS takes rows of less than 2^31 elements, and steps of a vector as large");
    tidei_launch l = {.name = "blas", .host_fn = run, .params = &c, .params_bytes = sizeof c};
    return tidei_submit_launch(s, uses, n, &l, &c, at, op);
}
