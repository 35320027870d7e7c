/* test_cusolver.c: what factorizations ask of cuSOLVER and cuBLAS, over doubles of both and of the driver on the host device. The
** doubles compute by LAPACKE at the addresses they are given, once the stream's work so far is done: results tell whether sizes,
** types, addresses and orders are right, and what is called tells which way was taken. */
#include "libs/cusolver.h"
#include "libs/solver.h"
#include "tests/failing_host.h"
#include "tests/tidetest.h"

#include <cblas.h>
#include <lapacke.h>

#define WORK_BYTES 1000 /* what the double wants on the device: odd on purpose */
#define HOST_BYTES 100
#define AT_ONCE    8192 /* matrices: the longest batch in one call */

static struct {
    tide_runtime *rt;
    int made, blas_made, depth, params; /* handles and options that there are; contexts pushed */
    int calls, batched, copies,
        products; /* of cuSOLVER's routines, of these batches, of cuBLAS's copies and products */
    int grows;    /* so often a question is answered by more than the time before */
    int fail_calls, fail_create,
        fail_after; /* so many calls fail with `fail_with`, once they have spoiled their operands */
    unsigned fail_with;
    bool failing;                   /* over a fault device */
    size_t wants, wants_host, live; /* live: before the call */
    char handle, blas_handle, options, jacobi, context;
} fake;

/* ---- the doubles ---- */

static tidei_device *device(void) { return fake.rt->devs[0].d; }
static void settle(void) { /* the stream's work so far is done */
    tidei_device *d = fake.failing ? tidei_fault_inner(device()) : device();
    assert_int_equal(d->ops->stream_sync(d, fake.rt->devs[0].stream0->ds), TIDE_OK);
}

static tidei_cu_result f_name(tidei_cu_result r, const char **out) { return (void)r, *out = "CUDA_ERROR_X", 0; }
static tidei_cu_result f_context(tidei_cu_stream s, tidei_cu_ctx *out) {
    return (void)s, *out = (tidei_cu_ctx)(void *)&fake.context, 0;
}
static tidei_cu_result f_current(tidei_cu_ctx *c) { return *c = NULL, 0; }
static tidei_cu_result f_push(tidei_cu_ctx c) { return (void)c, fake.depth++, 0; }
static tidei_cu_result f_pop(tidei_cu_ctx *c) { return (void)c, fake.depth--, 0; }
static const tidei_cu driver = {.cuGetErrorName = f_name,
                                .cuStreamGetCtx = f_context,
                                .cuCtxGetCurrent = f_current,
                                .cuCtxPushCurrent = f_push,
                                .cuCtxPopCurrent = f_pop};

static unsigned f_version(int *v) { return *v = 12004, 0; }
static unsigned f_create(tidei_cusolver_handle *out) {
    assert_int_equal(fake.depth, 1);
    if (fake.fail_create > 0) return fake.fail_create--, fake.fail_with;
    return fake.made++, *out = (void *)&fake.handle, 0;
}
static unsigned f_destroy(tidei_cusolver_handle h) { return assert_ptr_equal(h, &fake.handle), fake.made--, 0; }
static unsigned f_stream(tidei_cusolver_handle h, tidei_cu_stream s) {
    tidei_device *d = device();
    assert_ptr_equal(s, d->ops->stream_native(d, fake.rt->devs[0].stream0->ds));
    return assert_ptr_equal(h, &fake.handle), 0;
}
static unsigned f_params(tidei_cusolver_params *out) { return fake.params++, *out = (void *)&fake.options, 0; }
static unsigned f_params_end(tidei_cusolver_params p) {
    return assert_ptr_equal(p, &fake.options), fake.params--, 0;
}
static unsigned f_jacobi(tidei_cusolver_gesvdj *out) { return fake.params++, *out = (void *)&fake.jacobi, 0; }
static unsigned f_jacobi_end(tidei_cusolver_gesvdj p) {
    return assert_ptr_equal(p, &fake.jacobi), fake.params--, 0;
}

/* A question is asked in the context, with a handle and options, and with addresses. */
static unsigned asked(const void *h, const void *p, const void *a) {
    assert_ptr_equal(h, &fake.handle);
    assert_true(p && a && fake.depth == 1);
    if (fake.grows > 0) fake.grows--, fake.wants += 500, fake.wants_host += 50;
    return 0;
}
static unsigned sizes(const void *h, const void *p, const void *a, size_t *work, size_t *host) {
    *work = fake.wants;
    *host = fake.wants_host;
    return asked(h, p, a);
}

/* A call begins: the stream's work so far is done, its workspaces are there and its own to write. True: it shall fail. */
static bool begins(const void *h, const void *p, void *a, size_t a_bytes, void *work, size_t bytes, void *host,
                   size_t host_bytes) {
    assert_ptr_equal(h, &fake.handle);
    assert_true(p && fake.depth == 1);
    assert_true(bytes >= fake.wants && work && (uintptr_t)work % 256 == 0);
    assert_true(host_bytes >= fake.wants_host && (host || !host_bytes));
    assert_true(atomic_load(&fake.rt->devs[0].live) >= fake.live + bytes); /* counted */
    settle();
    memset(work, 0xAB, bytes);
    if (host) memset(host, 0xAB, host_bytes);
    fake.calls++;
    if (fake.fail_calls <= 0) return false;
    if (fake.fail_after-- > 0) return false;
    memset(a, 0xCD, a_bytes);
    return fake.fail_calls--, true;
}

/* LAPACKE's function of the type. */
#define BY_TYPE(type, S, D, C, Z, ...)                                                                             \
    ((type) == TIDEI_CUDA_R_32F   ? LAPACKE_##S(LAPACK_COL_MAJOR, __VA_ARGS__)                                     \
     : (type) == TIDEI_CUDA_R_64F ? LAPACKE_##D(LAPACK_COL_MAJOR, __VA_ARGS__)                                     \
     : (type) == TIDEI_CUDA_C_32F ? LAPACKE_##C(LAPACK_COL_MAJOR, __VA_ARGS__)                                     \
                                  : LAPACKE_##Z(LAPACK_COL_MAJOR, __VA_ARGS__))
static size_t width(tidei_cuda_data_type t) { return t == TIDEI_CUDA_R_32F ? 4 : t == TIDEI_CUDA_C_64F ? 16 : 8; }
static tidei_cuda_data_type real_of(tidei_cuda_data_type t) {
    return t == TIDEI_CUDA_R_32F || t == TIDEI_CUDA_C_32F ? TIDEI_CUDA_R_32F : TIDEI_CUDA_R_64F;
}

static int lu(tidei_cuda_data_type t, int m, int n, void *a, int ld, int *pivots) {
    return BY_TYPE(t, sgetrf, dgetrf, cgetrf, zgetrf, m, n, a, ld, pivots);
}
static int solve(tidei_cuda_data_type t, bool trans, int n, int k, const void *a, int ld, const int *pivots,
                 void *b, int ldb) {
    return BY_TYPE(t, sgetrs, dgetrs, cgetrs, zgetrs, trans ? 'T' : 'N', n, k, (void *)(uintptr_t)a, ld, pivots, b,
                   ldb);
}
static int cholesky(tidei_cuda_data_type t, bool upper, int n, void *a, int ld) {
    return BY_TYPE(t, spotrf, dpotrf, cpotrf, zpotrf, upper ? 'U' : 'L', n, a, ld);
}
static int svd(tidei_cuda_data_type t, char job, int m, int n, void *a, int ld, void *s, void *u, int ldu, void *v,
               int ldv) {
    double rest[64];
    return BY_TYPE(t, sgesvd, dgesvd, cgesvd, zgesvd, job, job, m, n, a, ld, s, u, ldu, v, ldv, (void *)rest);
}
static int eigen(tidei_cuda_data_type t, bool vectors, bool upper, int n, void *a, int ld, void *w) {
    return BY_TYPE(t, ssyevd, dsyevd, cheevd, zheevd, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a, ld, w);
}

static unsigned f_getrf_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m, int64_t n,
                              tidei_cuda_data_type t, const void *a, int64_t ld, tidei_cuda_data_type in,
                              size_t *work, size_t *host) {
    (void)m, (void)n, (void)ld;
    assert_int_equal(t, in);
    return sizes(h, p, a, work, host);
}
static unsigned f_getrf(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m, int64_t n,
                        tidei_cuda_data_type t, void *a, int64_t ld, int64_t *pivots, tidei_cuda_data_type in,
                        void *work, size_t bytes, void *host, size_t host_bytes, int *info) {
    int narrow[256];
    assert_int_equal(t, in);
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = lu(t, (int)m, (int)n, a, (int)ld, narrow);
    for (int64_t i = 0; i < m && i < n; i++) pivots[i] = narrow[i];
    return 0;
}
static unsigned f_getrs(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cublas_operation o, int64_t n,
                        int64_t k, tidei_cuda_data_type t, const void *a, int64_t ld, const int64_t *pivots,
                        tidei_cuda_data_type in, void *b, int64_t ldb, int *info) {
    int narrow[256];
    char work[256] __attribute__((aligned(256)));
    assert_int_equal(t, in);
    size_t wants = fake.wants, wants_host = fake.wants_host;
    fake.wants = fake.wants_host = 0;
    bool fails = begins(h, p, b, width(t), work, 0, NULL, 0);
    fake.wants = wants;
    fake.wants_host = wants_host;
    if (fails) return fake.fail_with;
    for (int64_t i = 0; i < n; i++) narrow[i] = (int)pivots[i];
    *info = solve(t, o == TIDEI_CUBLAS_OP_T, (int)n, (int)k, a, (int)ld, narrow, b, (int)ldb);
    return 0;
}
static unsigned f_potrf_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cublas_fill f, int64_t n,
                              tidei_cuda_data_type t, const void *a, int64_t ld, tidei_cuda_data_type in,
                              size_t *work, size_t *host) {
    (void)f, (void)n, (void)ld;
    assert_int_equal(t, in);
    return sizes(h, p, a, work, host);
}
static unsigned f_potrf(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cublas_fill f, int64_t n,
                        tidei_cuda_data_type t, void *a, int64_t ld, tidei_cuda_data_type in, void *work,
                        size_t bytes, void *host, size_t host_bytes, int *info) {
    assert_int_equal(t, in);
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = cholesky(t, f == TIDEI_CUBLAS_FILL_UPPER, (int)n, a, (int)ld);
    return 0;
}
static unsigned f_geqrf_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m, int64_t n,
                              tidei_cuda_data_type t, const void *a, int64_t ld, tidei_cuda_data_type tt,
                              const void *tau, tidei_cuda_data_type in, size_t *work, size_t *host) {
    (void)m, (void)n, (void)ld;
    assert_true(t == in && t == tt && tau);
    return sizes(h, p, a, work, host);
}
static unsigned f_geqrf(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m, int64_t n,
                        tidei_cuda_data_type t, void *a, int64_t ld, tidei_cuda_data_type tt, void *tau,
                        tidei_cuda_data_type in, void *work, size_t bytes, void *host, size_t host_bytes,
                        int *info) {
    assert_true(t == in && t == tt);
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = BY_TYPE(t, sgeqrf, dgeqrf, cgeqrf, zgeqrf, (int)m, (int)n, a, (int)ld, tau);
    return 0;
}
static unsigned f_gesvd_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, signed char ju, signed char jv,
                              int64_t m, int64_t n, tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type ts, const void *s, tidei_cuda_data_type tu, const void *u,
                              int64_t ldu, tidei_cuda_data_type tv, const void *v, int64_t ldv,
                              tidei_cuda_data_type in, size_t *work, size_t *host) {
    assert_true(m >= n && ld >= m && ldu >= m && ldv >= n && ju == jv && s);
    assert_true(tu == t && tv == t && in == t && ts == real_of(t) && !u == (ju == 'N') && !v == (ju == 'N'));
    return sizes(h, p, a, work, host);
}
static unsigned f_gesvd(tidei_cusolver_handle h, tidei_cusolver_params p, signed char ju, signed char jv, int64_t m,
                        int64_t n, tidei_cuda_data_type t, void *a, int64_t ld, tidei_cuda_data_type ts, void *s,
                        tidei_cuda_data_type tu, void *u, int64_t ldu, tidei_cuda_data_type tv, void *v,
                        int64_t ldv, tidei_cuda_data_type in, void *work, size_t bytes, void *host,
                        size_t host_bytes, int *info) {
    assert_true(m >= n && ldu >= m && ldv >= n && ju == jv);
    assert_true(tu == t && tv == t && in == t && ts == real_of(t));
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = svd(t, (char)ju, (int)m, (int)n, a, (int)ld, s, u, (int)ldu, v, (int)ldv);
    return 0;
}
static unsigned f_syevd_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cusolver_mode mode,
                              tidei_cublas_fill f, int64_t n, tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type tw, const void *w, tidei_cuda_data_type in, size_t *work,
                              size_t *host) {
    (void)mode, (void)f;
    assert_true(ld >= n && in == t && tw == real_of(t) && w);
    return sizes(h, p, a, work, host);
}
static unsigned f_syevd(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cusolver_mode mode,
                        tidei_cublas_fill f, int64_t n, tidei_cuda_data_type t, void *a, int64_t ld,
                        tidei_cuda_data_type tw, void *w, tidei_cuda_data_type in, void *work, size_t bytes,
                        void *host, size_t host_bytes, int *info) {
    assert_true(in == t && tw == real_of(t));
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = eigen(t, mode == TIDEI_CUSOLVER_VECTOR, f == TIDEI_CUBLAS_FILL_UPPER, (int)n, a, (int)ld, w);
    return 0;
}
static unsigned f_syevs_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cusolver_mode mode,
                              tidei_cublas_fill f, int64_t n, tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type tw, const void *w, tidei_cuda_data_type in, size_t *work,
                              size_t *host, int64_t count) {
    assert_in_range(count, 2, AT_ONCE);
    return f_syevd_sizes(h, p, mode, f, n, t, a, ld, tw, w, in, work, host);
}
static unsigned f_syevs(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cusolver_mode mode,
                        tidei_cublas_fill f, int64_t n, tidei_cuda_data_type t, void *a, int64_t ld,
                        tidei_cuda_data_type tw, void *w, tidei_cuda_data_type in, void *work, size_t bytes,
                        void *host, size_t host_bytes, int *info, int64_t count) {
    assert_in_range(count, 1, AT_ONCE);
    assert_true(in == t && tw == real_of(t));
    fake.batched++;
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    for (int64_t i = 0; i < count; i++)
        info[i] =
            eigen(t, mode == TIDEI_CUSOLVER_VECTOR, f == TIDEI_CUBLAS_FILL_UPPER, (int)n,
                  (char *)a + (size_t)(i * ld * n) * width(t), (int)ld, (char *)w + (size_t)(i * n) * width(tw));
    return 0;
}

/* Those that are there once a type. Workspaces are counted in elements. */
static unsigned some_items(const void *h, const void *a, tidei_cuda_data_type t, int *items) {
    unsigned r = asked(h, h, a);
    *items = (int)((fake.wants + width(t) - 1) / width(t));
    return r;
}
static bool begins_with_items(const void *h, void *a, tidei_cuda_data_type t, void *work, int items) {
    size_t host = fake.wants_host;
    fake.wants_host = 0;
    bool fails = begins(h, h, a, width(t), work, (size_t)items * width(t), NULL, 0);
    fake.wants_host = host;
    return fails;
}
static unsigned potrfs(const void *h, tidei_cublas_fill f, int n, void *const *a, int ld, int *info, int count,
                       tidei_cuda_data_type t) {
    char nothing[256] __attribute__((aligned(256)));
    size_t wants = fake.wants;
    fake.wants = 0;
    bool fails = begins_with_items(h, nothing, t, nothing, 0);
    fake.wants = wants;
    fake.batched++;
    for (int i = 0; i < count && !fails; i++) info[i] = cholesky(t, f == TIDEI_CUBLAS_FILL_UPPER, n, a[i], ld);
    return fails ? fake.fail_with : 0;
}
/* As LAPACK's, and V of V^H; U is m x m. */
static unsigned jacobis(const void *h, tidei_cusolver_mode mode, int m, int n, void *a, int ld, void *s, void *u,
                        int ldu, void *v, int ldv, void *work, int items, int *info, const void *p, int count,
                        tidei_cuda_data_type t) {
    size_t w = width(t), part = width(real_of(t));
    char vh[32 * 32 * 16];
    assert_ptr_equal(p, &fake.jacobi);
    assert_true(u && v && ldu == m && ldv == n && m <= 32 && n <= 32);
    assert_in_range(count, 1, AT_ONCE);
    fake.batched++;
    if (begins_with_items(h, a, t, work, items)) return fake.fail_with;
    for (int i = 0; i < count; i++) {
        char *vi = (char *)v + (size_t)(i * n * n) * w;
        info[i] = svd(t, mode == TIDEI_CUSOLVER_VECTOR ? 'A' : 'N', m, n, (char *)a + (size_t)(i * ld * n) * w, ld,
                      (char *)s + (size_t)(i * n) * part, (char *)u + (size_t)(i * m * m) * w, m, vh, n);
        for (int j = 0; j < n * n && mode == TIDEI_CUSOLVER_VECTOR; j++) {
            memcpy(vi + (size_t)j * w, vh + (size_t)(j % n * n + j / n) * w, w);
            if (w == 2 * part) { /* conjugate: the sign of the imaginary part is its last byte's highest bit */
                char *sign = vi + (size_t)(j + 1) * w - 1;
                *sign = (char)(*sign ^ 0x80);
            }
        }
    }
    return 0;
}
#define TYPED(letter, T, R, org, lapack_org, t)                                                                    \
    static unsigned f_##letter##orgqr_sizes(tidei_cusolver_handle h, int m, int n, int k, const T *a, int ld,      \
                                            const T *tau, int *items) {                                            \
        assert_true(m >= n && n >= k && ld >= m && tau);                                                           \
        return some_items(h, a, t, items);                                                                         \
    }                                                                                                              \
    static unsigned f_##letter##orgqr(tidei_cusolver_handle h, int m, int n, int k, T *a, int ld, const T *tau,    \
                                      T *work, int items, int *info) {                                             \
        if (begins_with_items(h, a, t, work, items)) return fake.fail_with;                                        \
        *info = LAPACKE_##lapack_org(LAPACK_COL_MAJOR, m, n, k, (void *)a, ld, (const void *)tau);                 \
        return 0;                                                                                                  \
    }                                                                                                              \
    static unsigned f_##letter##potrfs(tidei_cusolver_handle h, tidei_cublas_fill f, int n, T **a, int ld,         \
                                       int *info, int count) {                                                     \
        return potrfs(h, f, n, (void *const *)a, ld, info, count, t);                                              \
    }                                                                                                              \
    static unsigned f_##letter##jacobis_sizes(tidei_cusolver_handle h, tidei_cusolver_mode mode, int m, int n,     \
                                              const T *a, int ld, const R *s, const T *u, int ldu, const T *v,     \
                                              int ldv, int *items, tidei_cusolver_gesvdj p, int count) {           \
        (void)mode, (void)n;                                                                                       \
        assert_true(ld >= m && s && u && v && ldu >= m && ldv >= n && p && count >= 1);                            \
        return some_items(h, a, t, items);                                                                         \
    }                                                                                                              \
    static unsigned f_##letter##jacobis(tidei_cusolver_handle h, tidei_cusolver_mode mode, int m, int n, T *a,     \
                                        int ld, R *s, T *u, int ldu, T *v, int ldv, T *work, int items, int *info, \
                                        tidei_cusolver_gesvdj p, int count) {                                      \
        return jacobis(h, mode, m, n, a, ld, s, u, ldu, v, ldv, work, items, info, p, count, t);                   \
    }                                                                                                              \
    static unsigned f_##letter##getrfs(tidei_cublas_handle h, int n, T *const *a, int ld, int *pivots, int *info,  \
                                       int count) {                                                                \
        return getrfs(h, n, (void *const *)a, ld, pivots, info, count, t);                                         \
    }                                                                                                              \
    static unsigned f_##letter##getrss(tidei_cublas_handle h, tidei_cublas_operation o, int n, int k,              \
                                       const T *const *a, int ld, const int *pivots, T *const *b, int ldb,         \
                                       int *info, int count) {                                                     \
        return getrss(h, o, n, k, (const void *const *)a, ld, pivots, (void *const *)b, ldb, info, count, t);      \
    }

/* ---- cuBLAS ---- */

static unsigned f_blas_create(tidei_cublas_handle *out) {
    return fake.blas_made++, *out = (void *)&fake.blas_handle, 0;
}
static unsigned f_blas_destroy(tidei_cublas_handle h) {
    return assert_ptr_equal(h, &fake.blas_handle), fake.blas_made--, 0;
}
static unsigned f_blas_stream(tidei_cublas_handle h, tidei_cu_stream s) { return (void)h, (void)s, 0; }
static unsigned f_blas_workspace(tidei_cublas_handle h, void *p, size_t n) { return (void)h, (p && n) ? 0 : 1; }
static unsigned f_blas_mode(tidei_cublas_handle h, tidei_cublas_math m) { return (void)h, (void)m, 0; }

static bool blas_begins(const void *h) {
    assert_ptr_equal(h, &fake.blas_handle);
    settle();
    return fake.fail_calls > 0 && fake.fail_after-- <= 0 && fake.fail_calls-- > 0;
}
static unsigned f_copy(tidei_cublas_handle h, int n, const float *x, int incx, float *y, int incy) {
    if (blas_begins(h)) return fake.fail_with;
    for (int i = 0; i < n; i++) memcpy(y + (ptrdiff_t)i * incy, x + (ptrdiff_t)i * incx, sizeof *y);
    return fake.copies++, 0;
}
static unsigned getrfs(const void *h, int n, void *const *a, int ld, int *pivots, int *info, int count,
                       tidei_cuda_data_type t) {
    bool fails = blas_begins(h);
    fake.batched++;
    if (fails) memset(a[0], 0xCD, width(t));
    for (int i = 0; i < count && !fails; i++) info[i] = lu(t, n, n, a[i], ld, pivots + (ptrdiff_t)i * n);
    return fails ? fake.fail_with : 0;
}
static unsigned getrss(const void *h, tidei_cublas_operation o, int n, int k, const void *const *a, int ld,
                       const int *pivots, void *const *b, int ldb, int *info, int count, tidei_cuda_data_type t) {
    bool fails = blas_begins(h);
    fake.batched++;
    *info = 0; /* the host's */
    for (int i = 0; i < count && !fails; i++)
        *info |= solve(t, o == TIDEI_CUBLAS_OP_T, n, k, a[i], ld, pivots + (ptrdiff_t)i * n, b[i], ldb);
    return fails ? fake.fail_with : 0;
}
static unsigned f_gemms(tidei_cublas_handle h, tidei_cublas_operation ta, tidei_cublas_operation tb, int64_t m,
                        int64_t n, int64_t k, const void *alpha, const void *a, tidei_cuda_data_type at,
                        int64_t lda, long long sa, const void *b, tidei_cuda_data_type bt, int64_t ldb,
                        long long sb, const void *beta, void *c, tidei_cuda_data_type ct, int64_t ldc, long long sc,
                        int64_t count, tidei_cublas_compute compute, tidei_cublas_algo algo) {
    CBLAS_TRANSPOSE o = ta == TIDEI_CUBLAS_OP_C ? CblasConjTrans : CblasNoTrans;
    int M = (int)m, N = (int)n, K = (int)k, A = (int)lda, B = (int)ldb, C = (int)ldc;
    assert_true(at == bt && at == ct && tb == TIDEI_CUBLAS_OP_N && algo == TIDEI_CUBLAS_GEMM_DEFAULT);
    assert_int_equal(compute,
                     real_of(at) == TIDEI_CUDA_R_64F ? TIDEI_CUBLAS_COMPUTE_64F : TIDEI_CUBLAS_COMPUTE_32F);
    if (blas_begins(h)) return fake.fail_with;
    for (int64_t i = 0; i < count; i++) {
        const char *x = (const char *)a + (size_t)(i * sa) * width(at),
                   *y = (const char *)b + (size_t)(i * sb) * width(at);
        void *z = (char *)c + (size_t)(i * sc) * width(at);
        switch (at) {
        case TIDEI_CUDA_R_32F:
            cblas_sgemm(CblasColMajor, o, CblasNoTrans, M, N, K, *(const float *)alpha, (const void *)x, A,
                        (const void *)y, B, *(const float *)beta, z, C);
            break;
        case TIDEI_CUDA_R_64F:
            cblas_dgemm(CblasColMajor, o, CblasNoTrans, M, N, K, *(const double *)alpha, (const void *)x, A,
                        (const void *)y, B, *(const double *)beta, z, C);
            break;
        case TIDEI_CUDA_C_32F:
            cblas_cgemm(CblasColMajor, o, CblasNoTrans, M, N, K, alpha, x, A, y, B, beta, z, C);
            break;
        default: cblas_zgemm(CblasColMajor, o, CblasNoTrans, M, N, K, alpha, x, A, y, B, beta, z, C); break;
        }
    }
    return fake.products++, 0;
}

TYPED(S, float, float, org, sorgqr, TIDEI_CUDA_R_32F)
TYPED(D, double, double, org, dorgqr, TIDEI_CUDA_R_64F)
TYPED(C, tidei_cublas_c64, float, ung, cungqr, TIDEI_CUDA_C_32F)
TYPED(Z, tidei_cublas_c128, double, ung, zungqr, TIDEI_CUDA_C_64F)

#define SOLVER_OF(letter, org)                                                                                     \
    .cusolverDn##letter##org##qr_bufferSize = f_##letter##orgqr_sizes,                                             \
    .cusolverDn##letter##org##qr = f_##letter##orgqr, .cusolverDn##letter##potrfBatched = f_##letter##potrfs,      \
    .cusolverDn##letter##gesvdjBatched_bufferSize = f_##letter##jacobis_sizes,                                     \
    .cusolverDn##letter##gesvdjBatched = f_##letter##jacobis
#define SOLVER_WITHOUT_SYEVS                                                                                       \
    .cusolverGetVersion = f_version, .cusolverDnCreate = f_create, .cusolverDnDestroy = f_destroy,                 \
    .cusolverDnSetStream = f_stream, .cusolverDnCreateParams = f_params, .cusolverDnDestroyParams = f_params_end,  \
    .cusolverDnXgetrf_bufferSize = f_getrf_sizes, .cusolverDnXgetrf = f_getrf, .cusolverDnXgetrs = f_getrs,        \
    .cusolverDnXpotrf_bufferSize = f_potrf_sizes, .cusolverDnXpotrf = f_potrf,                                     \
    .cusolverDnXgeqrf_bufferSize = f_geqrf_sizes, .cusolverDnXgeqrf = f_geqrf,                                     \
    .cusolverDnXgesvd_bufferSize = f_gesvd_sizes, .cusolverDnXgesvd = f_gesvd,                                     \
    .cusolverDnXsyevd_bufferSize = f_syevd_sizes, .cusolverDnXsyevd = f_syevd, SOLVER_OF(S, org),                  \
    SOLVER_OF(D, org), SOLVER_OF(C, ung), SOLVER_OF(Z, ung), .cusolverDnCreateGesvdjInfo = f_jacobi,               \
    .cusolverDnDestroyGesvdjInfo = f_jacobi_end
static const tidei_cusolver_table old_table = {SOLVER_WITHOUT_SYEVS};
static const tidei_cusolver_table table = {SOLVER_WITHOUT_SYEVS, .cusolverDnXsyevBatched_bufferSize = f_syevs_sizes,
                                           .cusolverDnXsyevBatched = f_syevs};
#define BLAS_OF(letter)                                                                                            \
    .cublas##letter##getrfBatched = f_##letter##getrfs, .cublas##letter##getrsBatched = f_##letter##getrss
static const tidei_cublas_table blas = {.cublasCreate_v2 = f_blas_create,
                                        .cublasDestroy_v2 = f_blas_destroy,
                                        .cublasSetStream_v2 = f_blas_stream,
                                        .cublasSetWorkspace_v2 = f_blas_workspace,
                                        .cublasSetMathMode = f_blas_mode,
                                        .cublasScopy_v2 = f_copy,
                                        .cublasGemmStridedBatchedEx_64 = f_gemms,
                                        BLAS_OF(S),
                                        BLAS_OF(D),
                                        BLAS_OF(C),
                                        BLAS_OF(Z)};

/* ---- what is computed ---- */

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

static tide_stream *stream(void) { return fake.rt->devs[0].stream0; }
static tide_status bring_back(void *arg) {
    problem *p = arg;
    tide_status status = TIDE_OK;
    p->again++;
    for (int i = 0; i < OPERANDS && status == TIDE_OK; i++)
        if (p->st[i])
            status =
                tidei_submit_copy(stream(), TIDEI_COPY_H2D, p->st[i], 0, p->in[i], NULL, 0, p->bytes[i], "test");
    return status;
}

static void make(problem *p, int64_t gap) {
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
        assert_ok(tidei_storage_new(&fake.rt->devs[0], p->bytes[i], stream(), "test", &p->st[i]));
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
static void unmake(problem *p) {
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
static void check(problem *p) {
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

static tide_status run(problem *p) {
    fake.live = atomic_load(&fake.rt->devs[0].live);
    tide_status status = tidei_lapack_cuda(stream(), &p->x, "tide_test");
    assert_int_equal(atomic_load(&fake.rt->devs[0].live), fake.live); /* the workspaces are gone */
    assert_int_equal(fake.params, 0);
    assert_int_equal(fake.depth, 0);
    return status;
}
static void run_whole(tidei_lapack x, int64_t gap, bool batched) {
    problem p = {.x = x};
    int before = fake.batched;
    make(&p, gap);
    assert_ok(run(&p));
    check(&p);
    assert_int_equal(fake.batched > before, batched);
    assert_int_equal(p.again, 0);
    unmake(&p);
}

/* ---- a runtime ---- */

static void open_with(const char *memory) {
    memset(&fake, 0, sizeof fake);
    fake.wants = WORK_BYTES;
    fake.wants_host = HOST_BYTES;
    tidei_cu_use(&driver);
    tidei_cublas_use(&blas);
    tidei_cusolver_use(&table);
    fake.rt = test_open(&(tide_config){.device = "host", .collector = "refcount", .host_memory = memory});
}
static int setup(void **state) {
    (void)state;
    open_with("128MiB"); /* so little that what may mean a lack of memory does */
    return 0;
}
static int teardown(void **state) {
    (void)state;
    tide_close(fake.rt);
    assert_int_equal(fake.made, 0);
    assert_int_equal(fake.blas_made, 0);
    assert_int_equal(fake.depth, 0);
    tidei_cusolver_use(NULL);
    tidei_cublas_use(NULL);
    tidei_cu_use(NULL);
    return 0;
}

/* ---- cases ---- */

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};
#define EACH_TYPE(t) for (const tide_dtype *t = types; t < types + TIDEI_COUNT(types); t++)

/* One matrix, several that lie close and several that do not, and whether calls for batches take them; others go one by one. */
static void all_layouts(tidei_lapack x, bool one, bool batch, bool batch_with_gaps) {
    EACH_TYPE(t) {
        x.dtype = *t;
        x.count = 1;
        run_whole(x, 0, one);
        run_whole(x, 3, one);
        x.count = 3;
        run_whole(x, 0, batch);
        run_whole(x, 3, batch_with_gaps);
    }
}

static void lu_and_solving(void **state) {
    (void)state;
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 5, .n = 5}, true, true, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 64, .n = 64}, true, true, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 65, .n = 65}, false, true, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 4, .n = 7}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 200, .n = 200}, false, false, false);
    for (int trans = 0; trans < 2; trans++) {
        all_layouts((tidei_lapack){.routine = TIDEI_GETRS, .n = 5, .k = 2, .trans = trans}, false, true, false);
        all_layouts((tidei_lapack){.routine = TIDEI_GETRS, .n = 150, .k = 1, .trans = trans}, false, false, false);
    }
    assert_true(fake.copies > 0);
}

/* Pivots as cuBLAS gives them, where it is the one that is asked. */
static void narrow_pivots(void **state) {
    tidei_lapack x = {.routine = TIDEI_GETRF, .m = 5, .n = 5, .narrow = true};
    tidei_storage info = {0};
    tidei_lapack other = {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 64, .n = 64, .count = 1, .info = &info};
    int before = fake.copies;
    (void)state;
    EACH_TYPE(t) {
        x.dtype = *t;
        x.count = 1;
        run_whole(x, 0, true);
        run_whole(x, 3, true);
        x.count = 3;
        run_whole(x, 0, true);
    }
    assert_int_equal(fake.copies, before);
    assert_true(tidei_lapack_narrow_cuda(&other));
    assert_false(tidei_lapack_narrow(stream(), &other)); /* on the host */
    other.n = 63;
    assert_false(tidei_lapack_narrow_cuda(&other));
    other.m = other.n = 200;
    assert_false(tidei_lapack_narrow_cuda(&other));
}

static void cholesky_and_qr(void **state) {
    (void)state;
    for (int upper = 0; upper < 2; upper++) {
        all_layouts((tidei_lapack){.routine = TIDEI_POTRF, .n = 6, .upper = upper}, false, true, true);
        all_layouts((tidei_lapack){.routine = TIDEI_POTRF, .n = 150, .upper = upper}, false, false, false);
    }
    all_layouts((tidei_lapack){.routine = TIDEI_GEQRF, .m = 7, .n = 4}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GEQRF, .m = 4, .n = 7}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_ORGQR, .m = 7, .n = 4, .k = 4}, false, false, false);
}

static void singular_and_eigenvalues(void **state) {
    (void)state;
    for (const char *job = "NSA"; *job; job++) {
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 6, .n = 5, .job = *job}, true, true, false);
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 5, .n = 5, .job = *job}, true, true, false);
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 40, .n = 33, .job = *job}, false, false, false);
    }
    for (int i = 0; i < 4; i++) {
        tidei_lapack x = {.routine = TIDEI_SYEVD, .n = 6, .upper = i & 1, .vectors = i & 2};
        all_layouts(x, false, true, false);
        tidei_cusolver_use(&old_table); /* one that has no batches, or none that are right */
        all_layouts(x, false, false, false);
        tidei_cusolver_use(&table);
    }
    assert_true(fake.products > 0);
}

/* What does not work for a matrix is told by its code, in order, and is no failure. */
static void codes_are_the_callers(void **state) {
    problem p = {.x = {.routine = TIDEI_POTRF, .dtype = TIDE_F64, .n = 4, .count = 5}};
    int info[5];
    (void)state;
    make(&p, 0);
    memset(p.in[0] + 2 * 16 * 8 + 5 * 8, 0, 8); /* the third one's second diagonal element */
    assert_ok(bring_back(&p));
    assert_ok(run(&p));
    assert_ok(tidei_submit_copy(stream(), TIDEI_COPY_D2H, NULL, 0, info, p.st[4], 0, sizeof info, "test"));
    assert_ok(tide_device_synchronize(fake.rt));
    for (int i = 0; i < 5; i++) assert_int_equal(info[i], i == 2 ? 2 : 0);
    unmake(&p);
}

/* More addresses than are copied at once, more matrices than are asked for at once. */
static void long_batches(void **state) {
    (void)state;
    const int64_t count = AT_ONCE + 5;
    run_whole((tidei_lapack){.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 2, .n = 2, .count = count}, 0, true);
    run_whole((tidei_lapack){.routine = TIDEI_POTRF, .dtype = TIDE_C64, .n = 2, .count = count}, 1, true);
    fake.batched = 0;
    run_whole((tidei_lapack){.routine = TIDEI_SYEVD, .dtype = TIDE_F32, .n = 2, .count = count}, 0, true);
    assert_int_equal(fake.batched, 2);
    run_whole((tidei_lapack){.routine = TIDEI_GESVD, .dtype = TIDE_F64, .m = 3, .n = 2, .job = 'S', .count = count},
              0, true);
    assert_int_equal(fake.batched, 4);
}

static const tidei_lapack lu_of_one = {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 200, .n = 200, .count = 2};

static void one_handle_serves_all(void **state) {
    tidei_handle_figures f;
    (void)state;
    for (int i = 0; i < 3; i++) run_whole(lu_of_one, 0, false);
    assert_int_equal(fake.made, 1);
    assert_int_equal(fake.blas_made, 0); /* it was not needed */
    tidei_handles_figures(&fake.rt->devs[0], &tidei_cusolver_kind, &f);
    assert_int_equal(f.made, 1);
    assert_int_equal(f.idle, 1);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.made, 0);
}

/* The library may want more in the window than it did before; not for ever. */
static void another_workspace_is_wanted(void **state) {
    (void)state;
    fake.grows = 3;
    run_whole(lu_of_one, 0, false);
    assert_int_equal(fake.grows, 0);
    run_whole((tidei_lapack){.routine = TIDEI_ORGQR, .dtype = TIDE_C64, .m = 7, .n = 4, .k = 4, .count = 1}, 0,
              false);
    problem p = {.x = lu_of_one};
    make(&p, 0);
    fake.grows = 1000;
    assert_int_equal(run(&p), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "another workspace");
    fake.grows = 0;
    assert_ok(run(&p));
    check(&p);
    assert_int_equal(p.again, 0); /* nothing was spoiled */
    unmake(&p);
}

/* ---- failures ---- */

/* A status that may mean a lack of memory, where there is one: climbed for, and the spoiled operands brought back. */
static void memory_that_is_short(void **state) {
    static const tidei_lapack all[] = {
        {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 200, .n = 200, .count = 2},
        {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 5, .n = 5, .count = 2},
        {.routine = TIDEI_SYEVD, .dtype = TIDE_C64, .n = 5, .count = 2, .vectors = true},
        {.routine = TIDEI_GESVD, .dtype = TIDE_F32, .m = 40, .n = 33, .job = 'S', .count = 1},
    };
    static const unsigned statuses[] = {TIDEI_CUSOLVER_NOT_INITIALIZED, TIDEI_CUSOLVER_INTERNAL_ERROR};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(all) * 2; i++) {
        problem p = {.x = all[i / 2]};
        make(&p, 0);
        uint64_t climbs = test_stats(fake.rt).climbs;
        fake.fail_with =
            all[i / 2].n == 5 && p.x.routine == TIDEI_GETRF ? TIDEI_CUBLAS_ALLOC_FAILED : statuses[i % 2];
        fake.fail_after =
            all[i / 2].count == 2 && p.x.n > 5 ? (int)(i % 2) : 0; /* the first matrix is done by then */
        fake.fail_calls = 1;
        assert_ok(run(&p));
        check(&p);
        assert_int_equal(p.again, 1);
        assert_int_equal(test_stats(fake.rt).climbs, climbs + 1);
        unmake(&p);
    }
}

/* The second library's part is repeated alone. */
static void the_second_part_is_repeated_alone(void **state) {
    problem p = {.x = {.routine = TIDEI_GESVD, .dtype = TIDE_C128, .m = 6, .n = 5, .job = 'S', .count = 3}};
    (void)state;
    make(&p, 0);
    fake.fail_with = TIDEI_CUBLAS_ALLOC_FAILED;
    fake.fail_after = 1;
    fake.fail_calls = 1;
    assert_ok(run(&p));
    check(&p);
    assert_int_equal(fake.fail_calls, 0);
    assert_int_equal(fake.calls, 1);
    assert_int_equal(p.again, 0);
    unmake(&p);
}

static void it_stays_short(void **state) {
    problem p = {.x = lu_of_one};
    (void)state;
    make(&p, 0);
    fake.fail_with = TIDEI_CUSOLVER_ALLOC_FAILED;
    fake.fail_calls = 1000;
    assert_int_equal(run(&p), TIDE_E_NOMEM);
    assert_true(fake.fail_calls < 999); /* more than once */
    fake.fail_calls = 0;
    assert_ok(bring_back(&p));
    assert_ok(run(&p));
    check(&p);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    fake.fail_create = 1; /* a handle's */
    assert_ok(run(&p));
    assert_int_equal(fake.fail_create, 0);
    unmake(&p);
}

/* Reported as it is, and nothing is climbed for: a status that means something else, or would mean it where memory is plenty. */
static void what_is_not_about_memory(void **state) {
    static const unsigned statuses[] = {TIDEI_CUSOLVER_INVALID_VALUE, TIDEI_CUSOLVER_EXECUTION_FAILED,
                                        TIDEI_CUSOLVER_INTERNAL_ERROR};
    for (unsigned i = 0; i < TIDEI_COUNT(statuses); i++) {
        problem p = {.x = lu_of_one};
        teardown(state);
        open_with(i == 2 ? "4GiB" : "128MiB");
        make(&p, 0);
        tide_statistics before = test_stats(fake.rt);
        fake.fail_with = statuses[i];
        fake.fail_calls = 1;
        assert_int_equal(run(&p), TIDE_E_DEVICE);
        assert_error(TIDE_E_DEVICE, "cuSOLVER");
        assert_error(TIDE_E_DEVICE, "getrf of 2 matrices of (200, 200)");
        assert_int_equal(p.again, 0);
        assert_int_equal(test_stats(fake.rt).climbs, before.climbs);
        assert_int_equal(test_stats(fake.rt).collections, before.collections);
        unmake(&p);
    }
}

static void too_large_for_ints(void **state) {
    problem p = {.x = {.routine = TIDEI_ORGQR, .dtype = TIDE_F32, .m = 7, .n = 4, .k = 4, .count = 1}};
    (void)state;
    make(&p, 0);
    p.x.m = p.x.a.ld = 1ll << 31;
    assert_int_equal(tidei_lapack_cuda(stream(), &p.x, "tide_test"), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "2147483648");
    assert_int_equal(fake.made, 0);
    unmake(&p);
}

/* Everything that a call takes from the device or the host fails in its turn; nothing stays behind, and what was asked for works
** afterwards. */
static void open_failing(void) {
    static const tide_host_memory memory = {.alloc = failing_alloc, .free = plain_free};
    tidei_device *inner, *d;
    tide_config c = {.struct_size = sizeof c, .collector = "refcount", .host = &memory};
    host_fails = 0;
    assert_ok(tidei_host_open(&(tidei_device_params){.host_memory = 128 << 20}, &inner));
    assert_ok(tidei_fault_open(inner, &d));
    assert_ok(tidei_open_on(&c, d, &fake.rt));
    fake.failing = true;
}
static void fail_each(tidei_lapack x, bool of_host) {
    tide_status s = TIDE_E_DEVICE;
    long n = 1;
    for (; s != TIDE_OK; n++) {
        problem p = {.x = x};
        open_failing();
        make(&p, 0);
        if (of_host)
            host_fails = host_calls + n;
        else
            tidei_fault_set(device(), TIDEI_FAULT_ANY, (uint64_t)n, TIDE_E_DEVICE, false);
        s = run(&p);
        host_fails = 0;
        tidei_fault_set(device(), TIDEI_FAULT_ANY, 0, TIDE_OK, false);
        assert_true(s == TIDE_OK || s == (of_host ? TIDE_E_HOST_NOMEM : TIDE_E_DEVICE));
        if (s != TIDE_OK) assert_string_equal(tide_last_error()->operation, "tide_test");
        assert_true(tidei_runtime_valid(fake.rt));
        assert_ok(bring_back(&p));
        assert_ok(run(&p));
        check(&p);
        unmake(&p);
        tide_close(fake.rt);
        assert_int_equal(fake.made + fake.blas_made, 0);
        assert_true(n < 1000);
    }
    assert_true(n > 2 || !of_host); /* else nothing failed. A pool may have all that a device gives */
}
static void each_failure(void **state) {
    static const tidei_lapack all[] = {
        {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 5, .n = 5, .count = 3},
        {.routine = TIDEI_GETRS, .dtype = TIDE_F64, .n = 5, .k = 2, .count = 3},
        {.routine = TIDEI_GEQRF, .dtype = TIDE_F64, .m = 5, .n = 5, .count = 3},
        {.routine = TIDEI_GESVD, .dtype = TIDE_C64, .m = 5, .n = 5, .job = 'A', .count = 3},
    };
    tide_close(fake.rt);
    for (size_t i = 0; i < 2 * TIDEI_COUNT(all); i++) fail_each(all[i / 2], i % 2);
    (void)state;
    open_with(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lu_and_solving, setup, teardown),
        cmocka_unit_test_setup_teardown(narrow_pivots, setup, teardown),
        cmocka_unit_test_setup_teardown(cholesky_and_qr, setup, teardown),
        cmocka_unit_test_setup_teardown(singular_and_eigenvalues, setup, teardown),
        cmocka_unit_test_setup_teardown(codes_are_the_callers, setup, teardown),
        cmocka_unit_test_setup_teardown(long_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(one_handle_serves_all, setup, teardown),
        cmocka_unit_test_setup_teardown(another_workspace_is_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_that_is_short, setup, teardown),
        cmocka_unit_test_setup_teardown(the_second_part_is_repeated_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(it_stays_short, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_about_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(too_large_for_ints, setup, teardown),
        cmocka_unit_test_setup_teardown(each_failure, setup, teardown),
    };
    openblas_set_num_threads(1); /* ThreadSanitizer does not see how its own threads are ordered */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
