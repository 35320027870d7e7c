/* cublas_double.h: a double of cuBLAS that computes what it is asked for as the real one documents
** it, by columns, in memory that the host reads too, by CBLAS and at once. */
#ifndef TIDETEST_CUBLAS_DOUBLE_H
#define TIDETEST_CUBLAS_DOUBLE_H

#include <cblas.h>
#include "libs/cublas.h"
#include "tests/support/tidetest.h"

static struct {
    int made; /* handles that there are */
    /* of the calls that compute, `fails` fail from the failing-th on, counting from 1 */
    int calls, failing, fails;
    int bound; /* workspaces */
    tidei_cublas_status fails_with;
    bool on_device;         /* the pointer mode */
    void (*in_order)(void); /* (may be NULL) waits for what is queued before a call */
    char handle;
} cublas;

static tidei_cublas_status b_create(tidei_cublas_handle *out) {
    return cublas.made++, *out = (tidei_cublas_handle)(void *)&cublas.handle, 0;
}
static tidei_cublas_status b_destroy(tidei_cublas_handle h) { return (void)h, cublas.made--, 0; }
static tidei_cublas_status b_stream(tidei_cublas_handle h, tidei_cu_stream s) {
    return (void)h, (void)s, 0;
}
static tidei_cublas_status b_workspace(tidei_cublas_handle h, void *p, size_t n) {
    assert_ptr_equal(h, &cublas.handle);
    assert_true(p ? n >= 64 * TIDEI_KIB : n == 0);
    return cublas.bound += p != NULL, 0;
}
static tidei_cublas_status b_mode(tidei_cublas_handle h, tidei_cublas_math m) {
    return (void)h, (void)m, 0;
}
static tidei_cublas_status b_pointers(tidei_cublas_handle h, tidei_cublas_pointer_mode m) {
    return (void)h, cublas.on_device = m == TIDEI_CUBLAS_POINTERS_DEVICE, 0;
}

/* Every call that computes. Results go to the device exactly where that is what `sums` wants. */
static tidei_cublas_status b_enter(bool sums) {
    assert_int_equal(cublas.on_device, sums);
    if (cublas.in_order) cublas.in_order();
    bool fails = ++cublas.calls >= cublas.failing && cublas.calls < cublas.failing + cublas.fails;
    return fails ? cublas.fails_with : TIDEI_CUBLAS_SUCCESS;
}
#define B_ENTER(sums)                                                                              \
    do {                                                                                           \
        tidei_cublas_status entered = b_enter(sums);                                               \
        if (entered) return entered;                                                               \
    } while (0)

static CBLAS_TRANSPOSE b_op(tidei_cublas_operation t) {
    return t == TIDEI_CUBLAS_OP_N   ? CblasNoTrans
           : t == TIDEI_CUBLAS_OP_T ? CblasTrans
                                    : CblasConjTrans;
}

static tidei_cublas_status b_gemm(tidei_cublas_handle h, tidei_cublas_operation ta,
                                  tidei_cublas_operation tb, int64_t m, int64_t n, int64_t k,
                                  const void *alpha, const void *a, tidei_cuda_data_type at,
                                  int64_t lda, const void *b, tidei_cuda_data_type bt, int64_t ldb,
                                  const void *beta, void *c, tidei_cuda_data_type ct, int64_t ldc,
                                  tidei_cublas_compute compute, tidei_cublas_algo algo) {
    const CBLAS_TRANSPOSE x = b_op(ta), y = b_op(tb);
    const int M = (int)m, N = (int)n, K = (int)k, p = (int)lda, q = (int)ldb, r = (int)ldc;
    (void)h, (void)algo;
    assert_true(at == bt && bt == ct);
    B_ENTER(false);
    switch (at) {
    case TIDEI_CUDA_R_32F:
        cblas_sgemm(CblasColMajor, x, y, M, N, K, *(const float *)alpha, a, p, b, q,
                    *(const float *)beta, c, r);
        break;
    case TIDEI_CUDA_R_64F:
        cblas_dgemm(CblasColMajor, x, y, M, N, K, *(const double *)alpha, a, p, b, q,
                    *(const double *)beta, c, r);
        break;
    case TIDEI_CUDA_C_32F:
        cblas_cgemm(CblasColMajor, x, y, M, N, K, alpha, a, p, b, q, beta, c, r);
        break;
    default: cblas_zgemm(CblasColMajor, x, y, M, N, K, alpha, a, p, b, q, beta, c, r);
    }
    assert_int_equal(compute, at == TIDEI_CUDA_R_32F || at == TIDEI_CUDA_C_32F
                                  ? TIDEI_CUBLAS_COMPUTE_32F
                                  : TIDEI_CUBLAS_COMPUTE_64F);
    return 0;
}
static size_t b_width(tidei_cuda_data_type t) {
    return t == TIDEI_CUDA_R_32F ? 4 : t == TIDEI_CUDA_C_64F ? 16 : 8;
}
static tidei_cublas_status b_many(tidei_cublas_handle h, tidei_cublas_operation ta,
                                  tidei_cublas_operation tb, int64_t m, int64_t n, int64_t k,
                                  const void *alpha, const void *a, tidei_cuda_data_type at,
                                  int64_t lda, long long sa, const void *b, tidei_cuda_data_type bt,
                                  int64_t ldb, long long sb, const void *beta, void *c,
                                  tidei_cuda_data_type ct, int64_t ldc, long long sc, int64_t count,
                                  tidei_cublas_compute compute, tidei_cublas_algo algo) {
    const long long w = (long long)b_width(at);
    assert_true(sa >= 0 && sb >= 0 && sc > 0);
    for (int64_t i = 0; i < count; i++) {
        tidei_cublas_status s = b_gemm(h, ta, tb, m, n, k, alpha, (const char *)a + i * sa * w, at,
                                       lda, (const char *)b + i * sb * w, bt, ldb, beta,
                                       (char *)c + i * sc * w, ct, ldc, compute, algo);
        if (s) return s;
    }
    return 0;
}

static tidei_cublas_status b_axpy(tidei_cublas_handle h, int64_t n, const void *alpha,
                                  tidei_cuda_data_type t, const void *x, tidei_cuda_data_type tx,
                                  int64_t by, void *y, tidei_cuda_data_type ty, int64_t step,
                                  tidei_cuda_data_type compute) {
    (void)h;
    assert_true(t == tx && tx == ty && ty == compute);
    B_ENTER(false);
    switch (t) {
    case TIDEI_CUDA_R_32F:
        cblas_saxpy((int)n, *(const float *)alpha, x, (int)by, y, (int)step);
        break;
    case TIDEI_CUDA_R_64F:
        cblas_daxpy((int)n, *(const double *)alpha, x, (int)by, y, (int)step);
        break;
    case TIDEI_CUDA_C_32F: cblas_caxpy((int)n, alpha, x, (int)by, y, (int)step); break;
    default: cblas_zaxpy((int)n, alpha, x, (int)by, y, (int)step);
    }
    return 0;
}
static tidei_cublas_status b_dot(tidei_cublas_handle h, int64_t n, const void *x,
                                 tidei_cuda_data_type tx, int64_t by, const void *y,
                                 tidei_cuda_data_type ty, int64_t with, void *out,
                                 tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    (void)h;
    assert_true(tx == ty && ty == to && to == compute);
    B_ENTER(true);
    if (tx == TIDEI_CUDA_R_32F) *(float *)out = cblas_sdot((int)n, x, (int)by, y, (int)with);
    if (tx == TIDEI_CUDA_R_64F) *(double *)out = cblas_ddot((int)n, x, (int)by, y, (int)with);
    assert_true(tx == TIDEI_CUDA_R_32F || tx == TIDEI_CUDA_R_64F);
    return 0;
}
static tidei_cublas_status b_dotc(tidei_cublas_handle h, int64_t n, const void *x,
                                  tidei_cuda_data_type tx, int64_t by, const void *y,
                                  tidei_cuda_data_type ty, int64_t with, void *out,
                                  tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    (void)h;
    assert_true(tx == ty && ty == to && to == compute);
    B_ENTER(true);
    if (tx == TIDEI_CUDA_C_32F) cblas_cdotc_sub((int)n, x, (int)by, y, (int)with, out);
    if (tx == TIDEI_CUDA_C_64F) cblas_zdotc_sub((int)n, x, (int)by, y, (int)with, out);
    assert_true(tx == TIDEI_CUDA_C_32F || tx == TIDEI_CUDA_C_64F);
    return 0;
}
static tidei_cublas_status b_nrm2(tidei_cublas_handle h, int64_t n, const void *x,
                                  tidei_cuda_data_type t, int64_t by, void *out,
                                  tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    (void)h;
    assert_int_equal(to, compute);
    assert_int_equal(to, t == TIDEI_CUDA_R_32F || t == TIDEI_CUDA_C_32F ? TIDEI_CUDA_R_32F
                                                                        : TIDEI_CUDA_R_64F);
    B_ENTER(true);
    switch (t) {
    case TIDEI_CUDA_R_32F: *(float *)out = cblas_snrm2((int)n, x, (int)by); break;
    case TIDEI_CUDA_R_64F: *(double *)out = cblas_dnrm2((int)n, x, (int)by); break;
    case TIDEI_CUDA_C_32F: *(float *)out = cblas_scnrm2((int)n, x, (int)by); break;
    default: *(double *)out = cblas_dznrm2((int)n, x, (int)by);
    }
    return 0;
}

/* `number`: how CBLAS takes a factor of the type. */
#define B_DOUBLES(letter, T, number, ger_name)                                                     \
    static tidei_cublas_status b_##letter##gemv(                                                   \
        tidei_cublas_handle h, tidei_cublas_operation t, int64_t m, int64_t n, const T *alpha,     \
        const T *a, int64_t ld, const T *x, int64_t by, const T *beta, T *y, int64_t step) {       \
        (void)h;                                                                                   \
        B_ENTER(false);                                                                            \
        cblas_##letter##gemv(CblasColMajor, b_op(t), (int)m, (int)n, number alpha,                 \
                             (const void *)a, (int)ld, (const void *)x, (int)by, number beta,      \
                             (void *)y, (int)step);                                                \
        return 0;                                                                                  \
    }                                                                                              \
    static tidei_cublas_status b_##letter##ger(tidei_cublas_handle h, int64_t m, int64_t n,        \
                                               const T *alpha, const T *x, int64_t by, const T *y, \
                                               int64_t with, T *a, int64_t ld) {                   \
        (void)h;                                                                                   \
        B_ENTER(false);                                                                            \
        ger_name(CblasColMajor, (int)m, (int)n, number alpha, (const void *)x, (int)by,            \
                 (const void *)y, (int)with, (void *)a, (int)ld);                                  \
        return 0;                                                                                  \
    }                                                                                              \
    static tidei_cublas_status b_##letter##trsm(                                                   \
        tidei_cublas_handle h, tidei_cublas_side side, tidei_cublas_fill half,                     \
        tidei_cublas_operation t, tidei_cublas_diag unit, int64_t m, int64_t n, const T *alpha,    \
        const T *a, int64_t ld, T *b, int64_t ldb) {                                               \
        (void)h;                                                                                   \
        B_ENTER(false);                                                                            \
        cblas_##letter##trsm(CblasColMajor,                                                        \
                             side == TIDEI_CUBLAS_SIDE_RIGHT ? CblasRight : CblasLeft,             \
                             half == TIDEI_CUBLAS_FILL_UPPER ? CblasUpper : CblasLower, b_op(t),   \
                             unit == TIDEI_CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit, (int)m,    \
                             (int)n, number alpha, (const void *)a, (int)ld, (void *)b, (int)ldb); \
        return 0;                                                                                  \
    }
B_DOUBLES(s, float, *, cblas_sger)
B_DOUBLES(d, double, *, cblas_dger)
B_DOUBLES(c, tidei_cublas_c64, (const void *), cblas_cgeru)
B_DOUBLES(z, tidei_cublas_c128, (const void *), cblas_zgeru)

static const tidei_cublas_table cublas_table = {.cublasCreate_v2 = b_create,
                                                .cublasDestroy_v2 = b_destroy,
                                                .cublasSetStream_v2 = b_stream,
                                                .cublasSetWorkspace_v2 = b_workspace,
                                                .cublasSetMathMode = b_mode,
                                                .cublasSetPointerMode_v2 = b_pointers,
                                                .cublasGemmEx_64 = b_gemm,
                                                .cublasGemmStridedBatchedEx_64 = b_many,
                                                .cublasAxpyEx_64 = b_axpy,
                                                .cublasDotEx_64 = b_dot,
                                                .cublasDotcEx_64 = b_dotc,
                                                .cublasNrm2Ex_64 = b_nrm2,
                                                .cublasSgemv_v2_64 = b_sgemv,
                                                .cublasDgemv_v2_64 = b_dgemv,
                                                .cublasCgemv_v2_64 = b_cgemv,
                                                .cublasZgemv_v2_64 = b_zgemv,
                                                .cublasSger_v2_64 = b_sger,
                                                .cublasDger_v2_64 = b_dger,
                                                .cublasCgeru_v2_64 = b_cger,
                                                .cublasZgeru_v2_64 = b_zger,
                                                .cublasStrsm_v2_64 = b_strsm,
                                                .cublasDtrsm_v2_64 = b_dtrsm,
                                                .cublasCtrsm_v2_64 = b_ctrsm,
                                                .cublasZtrsm_v2_64 = b_ztrsm};

#endif
