/* cublas_double.h: a double of cuBLAS that computes what it is asked for as the real one documents
** it, by columns, in memory that the host reads too, by CBLAS and at once. */
#ifndef TIDETEST_CUBLAS_DOUBLE_H
#define TIDETEST_CUBLAS_DOUBLE_H

#include <cblas.h>
#include <math.h>
#include "libs/cublas.h"
#include "tests/support/tidetest.h"

static struct {
    int made; /* handles that there are */
    /* of the calls that compute, `fails` fail from the failing-th on, counting from 1 */
    int calls, failing, fails;
    int bound; /* workspaces */
    tidei_cublas_status fails_with;
    bool on_device;              /* the pointer mode */
    tidei_cublas_compute narrow; /* how products of f32 and c64 are to compute; 0: in f32 */
    /* cuBLASLt: has no kernel; says so with a status; asked for kernels, products so far */
    bool lt_has_none, lt_refuses;
    int lt_asked, lt_products, lt_epilogues;
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
    if (at == TIDEI_CUDA_R_32F || at == TIDEI_CUDA_C_32F)
        assert_int_equal(compute, cublas.narrow ? cublas.narrow : TIDEI_CUBLAS_COMPUTE_32F);
    else
        assert_int_equal(compute, TIDEI_CUBLAS_COMPUTE_64F);
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

/* ---- cuBLASLt ---- What a descriptor says lies in its words: a layout's are the type, rows,
** columns and what lies between columns; a description's what it was told, by attribute, behind how
** it computes and in which type factors are; a preference's likewise. An algorithm's word is a sum
** of all that was asked, which the product must be given again. */
enum { B_COMPUTE = 0, B_SCALE = 1, B_TOLD = 16 };

static tidei_cublas_status b_lt_desc(tidei_cublaslt_desc *d, size_t bytes, unsigned compute,
                                     unsigned scale) {
    assert_true(bytes >= 256);
    memset(d, 0, bytes);
    d->data[B_COMPUTE] = compute;
    d->data[B_SCALE] = scale;
    return 0;
}
static tidei_cublas_status b_lt_set(tidei_cublaslt_desc *d, unsigned which, const void *p,
                                    size_t bytes) {
    assert_true(which < 32 && bytes <= 8);
    assert_int_equal(bytes, which == TIDEI_CUBLASLT_DESC_BIAS_POINTER ? 8 : 4);
    return memcpy(&d->data[B_TOLD + which], p, bytes), 0;
}
static tidei_cublas_status b_lt_layout(tidei_cublaslt_layout *l, size_t bytes, unsigned type,
                                       uint64_t rows, uint64_t cols, int64_t ld) {
    assert_true(bytes >= 64 && ld >= (int64_t)rows);
    memset(l, 0, bytes);
    l->data[0] = type, l->data[1] = rows, l->data[2] = cols, l->data[3] = (uint64_t)ld;
    return 0;
}
static tidei_cublas_status b_lt_preference(tidei_cublaslt_preference *p, size_t bytes) {
    assert_true(bytes >= 64);
    return memset(p, 0, bytes), 0;
}
static tidei_cublas_status b_lt_prefer(tidei_cublaslt_preference *p, unsigned which, const void *at,
                                       size_t bytes) {
    assert_true(which < 16 && bytes <= 8);
    return memcpy(&p->data[which], at, bytes), 0;
}

static uint64_t b_lt_told(const tidei_cublaslt_desc *d, unsigned which) {
    return d->data[B_TOLD + which];
}
/* All but addresses. */
static uint64_t b_lt_sum(const tidei_cublaslt_desc *d, const tidei_cublaslt_layout *a,
                         const tidei_cublaslt_layout *b, const tidei_cublaslt_layout *c) {
    const tidei_cublaslt_layout *const all[] = {a, b, c};
    uint64_t sum = d->data[B_COMPUTE] + 3 * b_lt_told(d, TIDEI_CUBLASLT_DESC_TRANSA) +
                   5 * b_lt_told(d, TIDEI_CUBLASLT_DESC_TRANSB) +
                   7 * b_lt_told(d, TIDEI_CUBLASLT_DESC_EPILOGUE);
    for (size_t i = 0; i < TIDEI_COUNT(all); i++)
        for (size_t k = 0; k < 4; k++) sum = sum * 31 + all[i]->data[k];
    return sum;
}

static tidei_cublas_status b_lt_ask(tidei_cublaslt_handle h, tidei_cublaslt_desc *d,
                                    tidei_cublaslt_layout *a, tidei_cublaslt_layout *b,
                                    tidei_cublaslt_layout *c, tidei_cublaslt_layout *out,
                                    tidei_cublaslt_preference *p, int n,
                                    tidei_cublaslt_result *found, int *nfound) {
    assert_ptr_equal(h, &cublas.handle);
    assert_ptr_equal(c, out);
    assert_int_equal(n, 1);
    assert_int_equal(p->data[TIDEI_CUBLASLT_PREF_REDUCTION_SCHEME_MASK], 3);
    for (unsigned i = TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES;
         i <= TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES; i++)
        assert_in_range(p->data[i], 2, 256);
    cublas.lt_asked++;
    *nfound = !cublas.lt_has_none;
    if (cublas.lt_refuses) return TIDEI_CUBLAS_NOT_SUPPORTED;
    memset(found, 0, sizeof *found);
    found->algo.data[0] = b_lt_sum(d, a, b, c);
    found->workspace = p->data[TIDEI_CUBLASLT_PREF_MAX_WORKSPACE_BYTES];
    return 0;
}

/* One element of a product, with what follows it. */
static double b_lt_follow(uint64_t epilogue, double x, double bias) {
    if (epilogue) x += bias;
    if (epilogue == TIDEI_CUBLASLT_EPILOGUE_RELU_BIAS) return x > 0 ? x : 0;
    if (epilogue == TIDEI_CUBLASLT_EPILOGUE_GELU_BIAS)
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    return x;
}

static tidei_cublas_status b_lt_matmul(tidei_cublaslt_handle h, tidei_cublaslt_desc *d,
                                       const void *alpha, const void *a, tidei_cublaslt_layout *la,
                                       const void *b, tidei_cublaslt_layout *lb, const void *beta,
                                       const void *c, tidei_cublaslt_layout *lc, void *out,
                                       tidei_cublaslt_layout *lout, const tidei_cublaslt_algo *algo,
                                       void *workspace, size_t bytes, tidei_cu_stream s) {
    const uint64_t ta = b_lt_told(d, TIDEI_CUBLASLT_DESC_TRANSA),
                   epilogue = b_lt_told(d, TIDEI_CUBLASLT_DESC_EPILOGUE);
    const tidei_cuda_data_type t = (tidei_cuda_data_type)la->data[0];
    (void)s;
    assert_true(c == out && lc == lout && (workspace != NULL) == (bytes != 0));
    assert_true(algo->data[0] == b_lt_sum(d, la, lb, lc));
    assert_true(t == TIDEI_CUDA_R_32F || t == TIDEI_CUDA_R_64F);
    assert_int_equal(d->data[B_SCALE], t);
    tidei_cublas_status r =
        b_gemm((tidei_cublas_handle)(void *)h, (tidei_cublas_operation)ta,
               (tidei_cublas_operation)b_lt_told(d, TIDEI_CUBLASLT_DESC_TRANSB),
               (int64_t)lc->data[1], (int64_t)lc->data[2], (int64_t)la->data[ta ? 1 : 2], alpha, a,
               t, (int64_t)la->data[3], b, t, (int64_t)lb->data[3], beta, out, t,
               (int64_t)lc->data[3], (tidei_cublas_compute)d->data[B_COMPUTE], 0);
    if (r) return r;
    cublas.lt_products++;
    cublas.lt_epilogues += epilogue != 0;
    const float *bias = (const float *)(uintptr_t)b_lt_told(d, TIDEI_CUBLASLT_DESC_BIAS_POINTER);
    for (uint64_t j = 0; epilogue && j < lc->data[2]; j++)
        for (uint64_t i = 0; i < lc->data[1]; i++) {
            float *x = (float *)out + j * lc->data[3] + i;
            *x = (float)b_lt_follow(epilogue, (double)*x, (double)bias[i]);
        }
    return 0;
}

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
                                                .cublasZtrsm_v2_64 = b_ztrsm,
                                                .cublasLtMatmulDescInit_internal = b_lt_desc,
                                                .cublasLtMatmulDescSetAttribute = b_lt_set,
                                                .cublasLtMatrixLayoutInit_internal = b_lt_layout,
                                                .cublasLtMatmulPreferenceInit_internal =
                                                    b_lt_preference,
                                                .cublasLtMatmulPreferenceSetAttribute = b_lt_prefer,
                                                .cublasLtMatmulAlgoGetHeuristic = b_lt_ask,
                                                .cublasLtMatmul = b_lt_matmul};

#endif
