/* cusolver_double.h: a double of cuSOLVER and cuBLAS, and of what they ask of the driver, over a
** runtime on the host device.
**
** A routine computes by LAPACKE or CBLAS at the addresses that it is given, once the stream's work
** so far is done: results tell whether sizes, types, addresses and orders are right, and what was
** called tells which way was taken. cuSOLVER's workspaces are as long as the double says, and are
** written over from end to end. A case says how many calls fail, after how many that do not, and
** with which status; most of them have spoiled an operand by then. It may also have questions
** answered by more each time.
**
** What must stay true: calls come with the handle and the options that were made here, cuSOLVER's
** in the stream's context and with workspaces that are aligned, large enough and counted; and once
** the runtime is closed, no handle is left and no context pushed. */
#ifndef TIDETEST_CUSOLVER_DOUBLE_H
#define TIDETEST_CUSOLVER_DOUBLE_H

#include <cblas.h>
#include <lapacke.h>
#include "libs/cusolver.h"
#include "libs/solver.h"
#include "tests/doubles/context_double.h"

#define WORK_BYTES 1000 /* what the double wants on the device: odd on purpose */
#define HOST_BYTES 100
#define AT_ONCE    8192 /* matrices: the longest batch in one call */

static struct {
    tide_runtime *rt;
    tidei_runtime *inner;
    int made, blas_made, params; /* handles and options that there are */
    int calls, batched, copies,
        products; /* of cuSOLVER's routines, of these batches, of cuBLAS's copies and products */
    int grows;    /* so often a question is answered by more than the time before */
    int fail_calls, fail_create,
        fail_after; /* so many calls fail with `fail_with`, once they have spoiled their operands */
    unsigned fail_with;
    bool failing;                   /* over a fault device */
    size_t wants, wants_host, live; /* live: before the call */
    char handle, blas_handle, options, jacobi;
} fake;

/* ---- the doubles ---- */

static inline tidei_device *device(void) { return fake.inner->devs[0].d; }
static inline void settle(void) { /* the stream's work so far is done */
    tidei_device *d = fake.failing ? tidei_fault_inner(device()) : device();
    assert_int_equal(d->ops->stream_sync(d, fake.inner->devs[0].stream0->ds), TIDE_OK);
}

static unsigned f_version(int *v) { return *v = 12004, 0; }
static unsigned f_create(tidei_cusolver_handle *out) {
    assert_int_equal(contexts.depth, 1);
    if (fake.fail_create > 0) return fake.fail_create--, fake.fail_with;
    return fake.made++, *out = (void *)&fake.handle, 0;
}
static unsigned f_destroy(tidei_cusolver_handle h) {
    return assert_ptr_equal(h, &fake.handle), fake.made--, 0;
}
static unsigned f_stream(tidei_cusolver_handle h, tidei_cu_stream s) {
    tidei_device *d = device();
    assert_ptr_equal(s, d->ops->stream_native(d, fake.inner->devs[0].stream0->ds));
    return assert_ptr_equal(h, &fake.handle), 0;
}
static unsigned f_params(tidei_cusolver_params *out) {
    return fake.params++, *out = (void *)&fake.options, 0;
}
static unsigned f_params_end(tidei_cusolver_params p) {
    return assert_ptr_equal(p, &fake.options), fake.params--, 0;
}
static unsigned f_jacobi(tidei_cusolver_gesvdj *out) {
    return fake.params++, *out = (void *)&fake.jacobi, 0;
}
static unsigned f_jacobi_end(tidei_cusolver_gesvdj p) {
    return assert_ptr_equal(p, &fake.jacobi), fake.params--, 0;
}

/* A question is asked in the context, with a handle and options, and with addresses. */
static unsigned asked(const void *h, const void *p, const void *a) {
    assert_ptr_equal(h, &fake.handle);
    assert_true(p && a && contexts.depth == 1);
    if (fake.grows > 0) fake.grows--, fake.wants += 500, fake.wants_host += 50;
    return 0;
}
static unsigned sizes(const void *h, const void *p, const void *a, size_t *work, size_t *host) {
    *work = fake.wants;
    *host = fake.wants_host;
    return asked(h, p, a);
}

/* A call begins: the stream's work so far is done, its workspaces are there and its own to write.
** True: it shall fail. */
static bool begins(const void *h, const void *p, void *a, size_t a_bytes, void *work, size_t bytes,
                   void *host, size_t host_bytes) {
    assert_ptr_equal(h, &fake.handle);
    assert_true(p && contexts.depth == 1);
    assert_true(bytes >= fake.wants && work && (uintptr_t)work % 256 == 0);
    assert_true(host_bytes >= fake.wants_host && (host || !host_bytes));
    assert_true(atomic_load(&fake.inner->devs[0].budget->live) >= fake.live + bytes); /* counted */
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
#define BY_TYPE(type, S, D, C, Z, ...)                                                             \
    ((type) == TIDEI_CUDA_R_32F   ? LAPACKE_##S(LAPACK_COL_MAJOR, __VA_ARGS__)                     \
     : (type) == TIDEI_CUDA_R_64F ? LAPACKE_##D(LAPACK_COL_MAJOR, __VA_ARGS__)                     \
     : (type) == TIDEI_CUDA_C_32F ? LAPACKE_##C(LAPACK_COL_MAJOR, __VA_ARGS__)                     \
                                  : LAPACKE_##Z(LAPACK_COL_MAJOR, __VA_ARGS__))
static inline size_t width(tidei_cuda_data_type t) {
    return t == TIDEI_CUDA_R_32F ? 4 : t == TIDEI_CUDA_C_64F ? 16 : 8;
}
static inline tidei_cuda_data_type real_of(tidei_cuda_data_type t) {
    return t == TIDEI_CUDA_R_32F || t == TIDEI_CUDA_C_32F ? TIDEI_CUDA_R_32F : TIDEI_CUDA_R_64F;
}

static inline int lu(tidei_cuda_data_type t, int m, int n, void *a, int ld, int *pivots) {
    return BY_TYPE(t, sgetrf, dgetrf, cgetrf, zgetrf, m, n, a, ld, pivots);
}
static inline int solve(tidei_cuda_data_type t, bool trans, int n, int k, const void *a, int ld,
                        const int *pivots, void *b, int ldb) {
    return BY_TYPE(t, sgetrs, dgetrs, cgetrs, zgetrs, trans ? 'T' : 'N', n, k, (void *)(uintptr_t)a,
                   ld, pivots, b, ldb);
}
static inline int cholesky(tidei_cuda_data_type t, bool upper, int n, void *a, int ld) {
    return BY_TYPE(t, spotrf, dpotrf, cpotrf, zpotrf, upper ? 'U' : 'L', n, a, ld);
}
static inline int svd(tidei_cuda_data_type t, char job, int m, int n, void *a, int ld, void *s,
                      void *u, int ldu, void *v, int ldv) {
    double rest[64];
    return BY_TYPE(t, sgesvd, dgesvd, cgesvd, zgesvd, job, job, m, n, a, ld, s, u, ldu, v, ldv,
                   (void *)rest);
}
static inline int eigen(tidei_cuda_data_type t, bool vectors, bool upper, int n, void *a, int ld,
                        void *w) {
    return BY_TYPE(t, ssyevd, dsyevd, cheevd, zheevd, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a,
                   ld, w);
}

static unsigned f_getrf_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m,
                              int64_t n, tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type in, size_t *work, size_t *host) {
    (void)m, (void)n, (void)ld;
    assert_int_equal(t, in);
    return sizes(h, p, a, work, host);
}
static unsigned f_getrf(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m, int64_t n,
                        tidei_cuda_data_type t, void *a, int64_t ld, int64_t *pivots,
                        tidei_cuda_data_type in, void *work, size_t bytes, void *host,
                        size_t host_bytes, int *info) {
    int narrow[256];
    assert_int_equal(t, in);
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = lu(t, (int)m, (int)n, a, (int)ld, narrow);
    for (int64_t i = 0; i < m && i < n; i++) pivots[i] = narrow[i];
    return 0;
}
static unsigned f_getrs(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cublas_operation o,
                        int64_t n, int64_t k, tidei_cuda_data_type t, const void *a, int64_t ld,
                        const int64_t *pivots, tidei_cuda_data_type in, void *b, int64_t ldb,
                        int *info) {
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
static unsigned f_potrf_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cublas_fill f,
                              int64_t n, tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type in, size_t *work, size_t *host) {
    (void)f, (void)n, (void)ld;
    assert_int_equal(t, in);
    return sizes(h, p, a, work, host);
}
static unsigned f_potrf(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cublas_fill f,
                        int64_t n, tidei_cuda_data_type t, void *a, int64_t ld,
                        tidei_cuda_data_type in, void *work, size_t bytes, void *host,
                        size_t host_bytes, int *info) {
    assert_int_equal(t, in);
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = cholesky(t, f == TIDEI_CUBLAS_FILL_UPPER, (int)n, a, (int)ld);
    return 0;
}
static unsigned f_geqrf_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m,
                              int64_t n, tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type tt, const void *tau, tidei_cuda_data_type in,
                              size_t *work, size_t *host) {
    (void)m, (void)n, (void)ld;
    assert_true(t == in && t == tt && tau);
    return sizes(h, p, a, work, host);
}
static unsigned f_geqrf(tidei_cusolver_handle h, tidei_cusolver_params p, int64_t m, int64_t n,
                        tidei_cuda_data_type t, void *a, int64_t ld, tidei_cuda_data_type tt,
                        void *tau, tidei_cuda_data_type in, void *work, size_t bytes, void *host,
                        size_t host_bytes, int *info) {
    assert_true(t == in && t == tt);
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = BY_TYPE(t, sgeqrf, dgeqrf, cgeqrf, zgeqrf, (int)m, (int)n, a, (int)ld, tau);
    return 0;
}
static unsigned f_gesvd_sizes(tidei_cusolver_handle h, tidei_cusolver_params p, signed char ju,
                              signed char jv, int64_t m, int64_t n, tidei_cuda_data_type t,
                              const void *a, int64_t ld, tidei_cuda_data_type ts, const void *s,
                              tidei_cuda_data_type tu, const void *u, int64_t ldu,
                              tidei_cuda_data_type tv, const void *v, int64_t ldv,
                              tidei_cuda_data_type in, size_t *work, size_t *host) {
    assert_true(m >= n && ld >= m && ldu >= m && ldv >= n && ju == jv && s);
    assert_true(tu == t && tv == t && in == t && ts == real_of(t) && !u == (ju == 'N') &&
                !v == (ju == 'N'));
    return sizes(h, p, a, work, host);
}
static unsigned f_gesvd(tidei_cusolver_handle h, tidei_cusolver_params p, signed char ju,
                        signed char jv, int64_t m, int64_t n, tidei_cuda_data_type t, void *a,
                        int64_t ld, tidei_cuda_data_type ts, void *s, tidei_cuda_data_type tu,
                        void *u, int64_t ldu, tidei_cuda_data_type tv, void *v, int64_t ldv,
                        tidei_cuda_data_type in, void *work, size_t bytes, void *host,
                        size_t host_bytes, int *info) {
    assert_true(m >= n && ldu >= m && ldv >= n && ju == jv);
    assert_true(tu == t && tv == t && in == t && ts == real_of(t));
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = svd(t, (char)ju, (int)m, (int)n, a, (int)ld, s, u, (int)ldu, v, (int)ldv);
    return 0;
}
static unsigned f_syevd_sizes(tidei_cusolver_handle h, tidei_cusolver_params p,
                              tidei_cusolver_mode mode, tidei_cublas_fill f, int64_t n,
                              tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type tw, const void *w, tidei_cuda_data_type in,
                              size_t *work, size_t *host) {
    (void)mode, (void)f;
    assert_true(ld >= n && in == t && tw == real_of(t) && w);
    return sizes(h, p, a, work, host);
}
static unsigned f_syevd(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cusolver_mode mode,
                        tidei_cublas_fill f, int64_t n, tidei_cuda_data_type t, void *a, int64_t ld,
                        tidei_cuda_data_type tw, void *w, tidei_cuda_data_type in, void *work,
                        size_t bytes, void *host, size_t host_bytes, int *info) {
    assert_true(in == t && tw == real_of(t));
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    *info = eigen(t, mode == TIDEI_CUSOLVER_VECTOR, f == TIDEI_CUBLAS_FILL_UPPER, (int)n, a,
                  (int)ld, w);
    return 0;
}
static unsigned f_syevs_sizes(tidei_cusolver_handle h, tidei_cusolver_params p,
                              tidei_cusolver_mode mode, tidei_cublas_fill f, int64_t n,
                              tidei_cuda_data_type t, const void *a, int64_t ld,
                              tidei_cuda_data_type tw, const void *w, tidei_cuda_data_type in,
                              size_t *work, size_t *host, int64_t count) {
    assert_in_range(count, 2, AT_ONCE);
    return f_syevd_sizes(h, p, mode, f, n, t, a, ld, tw, w, in, work, host);
}
static unsigned f_syevs(tidei_cusolver_handle h, tidei_cusolver_params p, tidei_cusolver_mode mode,
                        tidei_cublas_fill f, int64_t n, tidei_cuda_data_type t, void *a, int64_t ld,
                        tidei_cuda_data_type tw, void *w, tidei_cuda_data_type in, void *work,
                        size_t bytes, void *host, size_t host_bytes, int *info, int64_t count) {
    assert_in_range(count, 1, AT_ONCE);
    assert_true(in == t && tw == real_of(t));
    fake.batched++;
    if (begins(h, p, a, width(t), work, bytes, host, host_bytes)) return fake.fail_with;
    for (int64_t i = 0; i < count; i++)
        info[i] = eigen(t, mode == TIDEI_CUSOLVER_VECTOR, f == TIDEI_CUBLAS_FILL_UPPER, (int)n,
                        (char *)a + (size_t)(i * ld * n) * width(t), (int)ld,
                        (char *)w + (size_t)(i * n) * width(tw));
    return 0;
}

/* Those that are there once a type. Workspaces are counted in elements. */
static unsigned some_items(const void *h, const void *a, tidei_cuda_data_type t, int *items) {
    unsigned r = asked(h, h, a);
    *items = (int)((fake.wants + width(t) - 1) / width(t));
    return r;
}
static bool begins_with_items(const void *h, void *a, tidei_cuda_data_type t, void *work,
                              int items) {
    size_t host = fake.wants_host;
    fake.wants_host = 0;
    bool fails = begins(h, h, a, width(t), work, (size_t)items * width(t), NULL, 0);
    fake.wants_host = host;
    return fails;
}
static unsigned potrfs(const void *h, tidei_cublas_fill f, int n, void *const *a, int ld, int *info,
                       int count, tidei_cuda_data_type t) {
    char nothing[256] __attribute__((aligned(256)));
    size_t wants = fake.wants;
    fake.wants = 0;
    bool fails = begins_with_items(h, nothing, t, nothing, 0);
    fake.wants = wants;
    fake.batched++;
    for (int i = 0; i < count && !fails; i++)
        info[i] = cholesky(t, f == TIDEI_CUBLAS_FILL_UPPER, n, a[i], ld);
    return fails ? fake.fail_with : 0;
}
/* As LAPACK's, and V of V^H; U is m x m. */
static unsigned jacobis(const void *h, tidei_cusolver_mode mode, int m, int n, void *a, int ld,
                        void *s, void *u, int ldu, void *v, int ldv, void *work, int items,
                        int *info, const void *p, int count, tidei_cuda_data_type t) {
    size_t w = width(t), part = width(real_of(t));
    char vh[32 * 32 * 16];
    assert_ptr_equal(p, &fake.jacobi);
    assert_true(u && v && ldu == m && ldv == n && m <= 32 && n <= 32);
    assert_in_range(count, 1, AT_ONCE);
    fake.batched++;
    if (begins_with_items(h, a, t, work, items)) return fake.fail_with;
    for (int i = 0; i < count; i++) {
        char *vi = (char *)v + (size_t)(i * n * n) * w;
        info[i] = svd(t, mode == TIDEI_CUSOLVER_VECTOR ? 'A' : 'N', m, n,
                      (char *)a + (size_t)(i * ld * n) * w, ld, (char *)s + (size_t)(i * n) * part,
                      (char *)u + (size_t)(i * m * m) * w, m, vh, n);
        for (int j = 0; j < n * n && mode == TIDEI_CUSOLVER_VECTOR; j++) {
            memcpy(vi + (size_t)j * w, vh + (size_t)(j % n * n + j / n) * w, w);
            /* conjugate: the sign of the imaginary part is its last byte's highest bit */
            if (w == 2 * part) {
                char *sign = vi + (size_t)(j + 1) * w - 1;
                *sign = (char)(*sign ^ 0x80);
            }
        }
    }
    return 0;
}
#define TYPED(letter, T, R, org, lapack_org, t)                                                    \
    static unsigned f_##letter##orgqr_sizes(tidei_cusolver_handle h, int m, int n, int k,          \
                                            const T *a, int ld, const T *tau, int *items) {        \
        assert_true(m >= n && n >= k && ld >= m && tau);                                           \
        return some_items(h, a, t, items);                                                         \
    }                                                                                              \
    static unsigned f_##letter##orgqr(tidei_cusolver_handle h, int m, int n, int k, T *a, int ld,  \
                                      const T *tau, T *work, int items, int *info) {               \
        if (begins_with_items(h, a, t, work, items)) return fake.fail_with;                        \
        *info = LAPACKE_##lapack_org(LAPACK_COL_MAJOR, m, n, k, (void *)a, ld, (const void *)tau); \
        return 0;                                                                                  \
    }                                                                                              \
    static unsigned f_##letter##potrfs(tidei_cusolver_handle h, tidei_cublas_fill f, int n, T **a, \
                                       int ld, int *info, int count) {                             \
        return potrfs(h, f, n, (void *const *)a, ld, info, count, t);                              \
    }                                                                                              \
    static unsigned f_##letter##jacobis_sizes(tidei_cusolver_handle h, tidei_cusolver_mode mode,   \
                                              int m, int n, const T *a, int ld, const R *s,        \
                                              const T *u, int ldu, const T *v, int ldv,            \
                                              int *items, tidei_cusolver_gesvdj p, int count) {    \
        (void)mode, (void)n;                                                                       \
        assert_true(ld >= m && s && u && v && ldu >= m && ldv >= n && p && count >= 1);            \
        return some_items(h, a, t, items);                                                         \
    }                                                                                              \
    static unsigned f_##letter##jacobis(tidei_cusolver_handle h, tidei_cusolver_mode mode, int m,  \
                                        int n, T *a, int ld, R *s, T *u, int ldu, T *v, int ldv,   \
                                        T *work, int items, int *info, tidei_cusolver_gesvdj p,    \
                                        int count) {                                               \
        return jacobis(h, mode, m, n, a, ld, s, u, ldu, v, ldv, work, items, info, p, count, t);   \
    }                                                                                              \
    static unsigned f_##letter##getrfs(tidei_cublas_handle h, int n, T *const *a, int ld,          \
                                       int *pivots, int *info, int count) {                        \
        return getrfs(h, n, (void *const *)a, ld, pivots, info, count, t);                         \
    }                                                                                              \
    static unsigned f_##letter##getrss(tidei_cublas_handle h, tidei_cublas_operation o, int n,     \
                                       int k, const T *const *a, int ld, const int *pivots,        \
                                       T *const *b, int ldb, int *info, int count) {               \
        return getrss(h, o, n, k, (const void *const *)a, ld, pivots, (void *const *)b, ldb, info, \
                      count, t);                                                                   \
    }

/* ---- cuBLAS ---- */

static unsigned f_blas_create(tidei_cublas_handle *out) {
    return fake.blas_made++, *out = (void *)&fake.blas_handle, 0;
}
static unsigned f_blas_destroy(tidei_cublas_handle h) {
    return assert_ptr_equal(h, &fake.blas_handle), fake.blas_made--, 0;
}
static unsigned f_blas_stream(tidei_cublas_handle h, tidei_cu_stream s) {
    return (void)h, (void)s, 0;
}
static unsigned f_blas_workspace(tidei_cublas_handle h, void *p, size_t n) {
    return (void)h, (p && n) ? 0 : 1;
}
static unsigned f_blas_mode(tidei_cublas_handle h, tidei_cublas_math m) {
    return (void)h, (void)m, 0;
}

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
static unsigned getrfs(const void *h, int n, void *const *a, int ld, int *pivots, int *info,
                       int count, tidei_cuda_data_type t) {
    bool fails = blas_begins(h);
    fake.batched++;
    if (fails) memset(a[0], 0xCD, width(t));
    for (int i = 0; i < count && !fails; i++)
        info[i] = lu(t, n, n, a[i], ld, pivots + (ptrdiff_t)i * n);
    return fails ? fake.fail_with : 0;
}
static unsigned getrss(const void *h, tidei_cublas_operation o, int n, int k, const void *const *a,
                       int ld, const int *pivots, void *const *b, int ldb, int *info, int count,
                       tidei_cuda_data_type t) {
    bool fails = blas_begins(h);
    fake.batched++;
    *info = 0; /* the host's */
    for (int i = 0; i < count && !fails; i++)
        *info |=
            solve(t, o == TIDEI_CUBLAS_OP_T, n, k, a[i], ld, pivots + (ptrdiff_t)i * n, b[i], ldb);
    return fails ? fake.fail_with : 0;
}
static unsigned f_gemms(tidei_cublas_handle h, tidei_cublas_operation ta, tidei_cublas_operation tb,
                        int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                        tidei_cuda_data_type at, int64_t lda, long long sa, const void *b,
                        tidei_cuda_data_type bt, int64_t ldb, long long sb, const void *beta,
                        void *c, tidei_cuda_data_type ct, int64_t ldc, long long sc, int64_t count,
                        tidei_cublas_compute compute, tidei_cublas_algo algo) {
    CBLAS_TRANSPOSE o = ta == TIDEI_CUBLAS_OP_C ? CblasConjTrans : CblasNoTrans;
    int M = (int)m, N = (int)n, K = (int)k, A = (int)lda, B = (int)ldb, C = (int)ldc;
    assert_true(at == bt && at == ct && tb == TIDEI_CUBLAS_OP_N &&
                algo == TIDEI_CUBLAS_GEMM_DEFAULT);
    assert_int_equal(compute, real_of(at) == TIDEI_CUDA_R_64F ? TIDEI_CUBLAS_COMPUTE_64F
                                                              : TIDEI_CUBLAS_COMPUTE_32F);
    if (blas_begins(h)) return fake.fail_with;
    for (int64_t i = 0; i < count; i++) {
        const char *x = (const char *)a + (size_t)(i * sa) * width(at),
                   *y = (const char *)b + (size_t)(i * sb) * width(at);
        void *z = (char *)c + (size_t)(i * sc) * width(at);
        switch (at) {
        case TIDEI_CUDA_R_32F:
            cblas_sgemm(CblasColMajor, o, CblasNoTrans, M, N, K, *(const float *)alpha,
                        (const void *)x, A, (const void *)y, B, *(const float *)beta, z, C);
            break;
        case TIDEI_CUDA_R_64F:
            cblas_dgemm(CblasColMajor, o, CblasNoTrans, M, N, K, *(const double *)alpha,
                        (const void *)x, A, (const void *)y, B, *(const double *)beta, z, C);
            break;
        case TIDEI_CUDA_C_32F:
            cblas_cgemm(CblasColMajor, o, CblasNoTrans, M, N, K, alpha, x, A, y, B, beta, z, C);
            break;
        default:
            cblas_zgemm(CblasColMajor, o, CblasNoTrans, M, N, K, alpha, x, A, y, B, beta, z, C);
            break;
        }
    }
    return fake.products++, 0;
}

TYPED(S, float, float, org, sorgqr, TIDEI_CUDA_R_32F)
TYPED(D, double, double, org, dorgqr, TIDEI_CUDA_R_64F)
TYPED(C, tidei_cublas_c64, float, ung, cungqr, TIDEI_CUDA_C_32F)
TYPED(Z, tidei_cublas_c128, double, ung, zungqr, TIDEI_CUDA_C_64F)

#define SOLVER_OF(letter, org)                                                                     \
    .cusolverDn##letter##org##qr_bufferSize = f_##letter##orgqr_sizes,                             \
    .cusolverDn##letter##org##qr = f_##letter##orgqr,                                              \
    .cusolverDn##letter##potrfBatched = f_##letter##potrfs,                                        \
    .cusolverDn##letter##gesvdjBatched_bufferSize = f_##letter##jacobis_sizes,                     \
    .cusolverDn##letter##gesvdjBatched = f_##letter##jacobis
#define SOLVER_WITHOUT_SYEVS                                                                       \
    .cusolverGetVersion = f_version, .cusolverDnCreate = f_create, .cusolverDnDestroy = f_destroy, \
    .cusolverDnSetStream = f_stream, .cusolverDnCreateParams = f_params,                           \
    .cusolverDnDestroyParams = f_params_end, .cusolverDnXgetrf_bufferSize = f_getrf_sizes,         \
    .cusolverDnXgetrf = f_getrf, .cusolverDnXgetrs = f_getrs,                                      \
    .cusolverDnXpotrf_bufferSize = f_potrf_sizes, .cusolverDnXpotrf = f_potrf,                     \
    .cusolverDnXgeqrf_bufferSize = f_geqrf_sizes, .cusolverDnXgeqrf = f_geqrf,                     \
    .cusolverDnXgesvd_bufferSize = f_gesvd_sizes, .cusolverDnXgesvd = f_gesvd,                     \
    .cusolverDnXsyevd_bufferSize = f_syevd_sizes, .cusolverDnXsyevd = f_syevd, SOLVER_OF(S, org),  \
    SOLVER_OF(D, org), SOLVER_OF(C, ung), SOLVER_OF(Z, ung),                                       \
    .cusolverDnCreateGesvdjInfo = f_jacobi, .cusolverDnDestroyGesvdjInfo = f_jacobi_end
static const tidei_cusolver_table old_table = {SOLVER_WITHOUT_SYEVS};
static const tidei_cusolver_table table = {SOLVER_WITHOUT_SYEVS,
                                           .cusolverDnXsyevBatched_bufferSize = f_syevs_sizes,
                                           .cusolverDnXsyevBatched = f_syevs};
#define BLAS_OF(letter)                                                                            \
    .cublas##letter##getrfBatched = f_##letter##getrfs,                                            \
    .cublas##letter##getrsBatched = f_##letter##getrss
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

/* ---- a runtime over it ---- */

static inline void open_with(const char *memory) {
    memset(&fake, 0, sizeof fake);
    fake.wants = WORK_BYTES;
    fake.wants_host = HOST_BYTES;
    tidei_cu_use(&driver);
    tidei_cublas_use(&blas);
    tidei_cusolver_use(&table);
    fake.rt = test_open(
        &(tide_config){.device = "host", .collector = "refcount", .host_device_memory = memory});
    fake.inner = test_rt(fake.rt);
}
static inline int setup(void **state) {
    (void)state;
    open_with("128MiB"); /* so little that what may mean a lack of memory does */
    return 0;
}
static inline int teardown(void **state) {
    (void)state;
    tide_close(fake.rt);
    assert_int_equal(fake.made, 0);
    assert_int_equal(fake.blas_made, 0);
    assert_int_equal(contexts.depth, 0);
    tidei_cusolver_use(NULL);
    tidei_cublas_use(NULL);
    tidei_cu_use(NULL);
    return 0;
}

#endif
