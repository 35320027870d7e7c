/* cublas.h: our own declarations of cuBLAS, as driver.h's of the driver. Calls with 64-bit sizes:
** cuBLAS 12 and later. */
#ifndef TIDEI_CUBLAS_H
#define TIDEI_CUBLAS_H

#include "libs/cublaslt.h"
#include "libs/handles.h"
#include "runtime/device/cuda/driver.h"

typedef unsigned int tidei_cublas_status; /* cublasStatus_t */
typedef struct cublasContext *tidei_cublas_handle;
/* Enums that only appear as parameters. */
typedef unsigned int tidei_cublas_operation, tidei_cublas_math, tidei_cublas_compute,
    tidei_cuda_data_type, tidei_cublas_side, tidei_cublas_fill, tidei_cublas_diag,
    tidei_cublas_pointer_mode;
typedef int tidei_cublas_algo;
/* cuComplex, cuDoubleComplex: only their addresses are given. */
typedef struct tidei_cublas_c64 tidei_cublas_c64;
typedef struct tidei_cublas_c128 tidei_cublas_c128;

enum {
    TIDEI_CUBLAS_SUCCESS = 0,
    TIDEI_CUBLAS_NOT_INITIALIZED = 1,
    TIDEI_CUBLAS_ALLOC_FAILED = 3,
    TIDEI_CUBLAS_INTERNAL_ERROR = 14,
    TIDEI_CUBLAS_NOT_SUPPORTED = 15,
    TIDEI_CUBLAS_OP_N = 0,
    TIDEI_CUBLAS_OP_T = 1,
    TIDEI_CUBLAS_OP_C = 2,
    TIDEI_CUBLAS_SIDE_RIGHT = 1,
    TIDEI_CUBLAS_FILL_LOWER = 0,
    TIDEI_CUBLAS_FILL_UPPER = 1,
    TIDEI_CUBLAS_DIAG_NON_UNIT = 0,
    TIDEI_CUBLAS_DIAG_UNIT = 1,
    /* a new handle's mode: factors and results of a call are in the host's memory */
    TIDEI_CUBLAS_POINTERS_HOST = 0,
    TIDEI_CUBLAS_POINTERS_DEVICE = 1,
    TIDEI_CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION =
        16, /* with the default: no TF32, and sums in the wide type */
    TIDEI_CUBLAS_COMPUTE_32F = 68,
    TIDEI_CUBLAS_COMPUTE_64F = 70,
    /* factors are rounded, sums are in f32 */
    TIDEI_CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    TIDEI_CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    TIDEI_CUBLAS_GEMM_DEFAULT = -1,
    TIDEI_CUDA_R_32F = 0,
    TIDEI_CUDA_R_64F = 1,
    TIDEI_CUDA_R_16F = 2,
    TIDEI_CUDA_C_32F = 4,
    TIDEI_CUDA_C_64F = 5,
    TIDEI_CUDA_R_16BF = 14
};

/* A routine's functions of the four types; T is the element. */
#define TIDEI_CUBLAS_GEMV(X, name, T)                                                              \
    X(name, (tidei_cublas_handle, tidei_cublas_operation, int64_t, int64_t, const T *, const T *,  \
             int64_t, const T *, int64_t, const T *, T *, int64_t))
#define TIDEI_CUBLAS_GER(X, name, T)                                                               \
    X(name, (tidei_cublas_handle, int64_t, int64_t, const T *, const T *, int64_t, const T *,      \
             int64_t, T *, int64_t))
#define TIDEI_CUBLAS_TRSM(X, name, T)                                                              \
    X(name, (tidei_cublas_handle, tidei_cublas_side, tidei_cublas_fill, tidei_cublas_operation,    \
             tidei_cublas_diag, int64_t, int64_t, const T *, const T *, int64_t, T *, int64_t))

/* X(name, parameters): all return a cublasStatus_t. */
#define TIDEI_CUBLAS_FUNCTIONS(X)                                                                  \
    X(cublasCreate_v2, (tidei_cublas_handle *))                                                    \
    X(cublasDestroy_v2, (tidei_cublas_handle))                                                     \
    X(cublasGetVersion_v2, (tidei_cublas_handle, int *))                                           \
    X(cublasSetStream_v2, (tidei_cublas_handle, tidei_cu_stream))                                  \
    X(cublasSetWorkspace_v2, (tidei_cublas_handle, void *, size_t))                                \
    X(cublasSetMathMode, (tidei_cublas_handle, tidei_cublas_math))                                 \
    X(cublasScopy_v2, (tidei_cublas_handle, int, const float *, int, float *, int))                \
    TIDEI_CUBLAS_BATCHED_LU(X, S, float)                                                           \
    TIDEI_CUBLAS_BATCHED_LU(X, D, double)                                                          \
    TIDEI_CUBLAS_BATCHED_LU(X, C, tidei_cublas_c64)                                                \
    TIDEI_CUBLAS_BATCHED_LU(X, Z, tidei_cublas_c128)                                               \
    X(cublasGemmStridedBatchedEx_64,                                                               \
      (tidei_cublas_handle, tidei_cublas_operation, tidei_cublas_operation, int64_t, int64_t,      \
       int64_t, const void *, const void *, tidei_cuda_data_type, int64_t, long long,              \
       const void *, tidei_cuda_data_type, int64_t, long long, const void *, void *,               \
       tidei_cuda_data_type, int64_t, long long, int64_t, tidei_cublas_compute,                    \
       tidei_cublas_algo))                                                                         \
    X(cublasGemmEx_64,                                                                             \
      (tidei_cublas_handle, tidei_cublas_operation, tidei_cublas_operation, int64_t, int64_t,      \
       int64_t, const void *, const void *, tidei_cuda_data_type, int64_t, const void *,           \
       tidei_cuda_data_type, int64_t, const void *, void *, tidei_cuda_data_type, int64_t,         \
       tidei_cublas_compute, tidei_cublas_algo))                                                   \
    X(cublasSetPointerMode_v2, (tidei_cublas_handle, tidei_cublas_pointer_mode))                   \
    X(cublasAxpyEx_64, (tidei_cublas_handle, int64_t, const void *, tidei_cuda_data_type,          \
                        const void *, tidei_cuda_data_type, int64_t, void *, tidei_cuda_data_type, \
                        int64_t, tidei_cuda_data_type))                                            \
    X(cublasDotEx_64,                                                                              \
      (tidei_cublas_handle, int64_t, const void *, tidei_cuda_data_type, int64_t, const void *,    \
       tidei_cuda_data_type, int64_t, void *, tidei_cuda_data_type, tidei_cuda_data_type))         \
    X(cublasDotcEx_64,                                                                             \
      (tidei_cublas_handle, int64_t, const void *, tidei_cuda_data_type, int64_t, const void *,    \
       tidei_cuda_data_type, int64_t, void *, tidei_cuda_data_type, tidei_cuda_data_type))         \
    X(cublasNrm2Ex_64, (tidei_cublas_handle, int64_t, const void *, tidei_cuda_data_type, int64_t, \
                        void *, tidei_cuda_data_type, tidei_cuda_data_type))                       \
    TIDEI_CUBLAS_GEMV(X, cublasSgemv_v2_64, float)                                                 \
    TIDEI_CUBLAS_GEMV(X, cublasDgemv_v2_64, double)                                                \
    TIDEI_CUBLAS_GEMV(X, cublasCgemv_v2_64, tidei_cublas_c64)                                      \
    TIDEI_CUBLAS_GEMV(X, cublasZgemv_v2_64, tidei_cublas_c128)                                     \
    TIDEI_CUBLAS_GER(X, cublasSger_v2_64, float)                                                   \
    TIDEI_CUBLAS_GER(X, cublasDger_v2_64, double)                                                  \
    TIDEI_CUBLAS_GER(X, cublasCgeru_v2_64, tidei_cublas_c64)                                       \
    TIDEI_CUBLAS_GER(X, cublasZgeru_v2_64, tidei_cublas_c128)                                      \
    TIDEI_CUBLAS_TRSM(X, cublasStrsm_v2_64, float)                                                 \
    TIDEI_CUBLAS_TRSM(X, cublasDtrsm_v2_64, double)                                                \
    TIDEI_CUBLAS_TRSM(X, cublasCtrsm_v2_64, tidei_cublas_c64)                                      \
    TIDEI_CUBLAS_TRSM(X, cublasZtrsm_v2_64, tidei_cublas_c128)

/* Many small matrices: arrays of addresses, in the device's memory. The second one's info is the
** host's. */
#define TIDEI_CUBLAS_BATCHED_LU(X, letter, T)                                                      \
    X(cublas##letter##getrfBatched,                                                                \
      (tidei_cublas_handle, int, T *const *, int, int *, int *, int))                              \
    X(cublas##letter##getrsBatched,                                                                \
      (tidei_cublas_handle, tidei_cublas_operation, int, int, const T *const *, int, const int *,  \
       T *const *, int, int *, int))

typedef struct tidei_cublas_table {
#define TIDEI_CUBLAS_MEMBER(name, params) tidei_cublas_status(*name) params;
    TIDEI_CUBLAS_FUNCTIONS(TIDEI_CUBLAS_MEMBER)
    /* all of them, or NULLs: cuBLAS has no cuBLASLt that is known here */
    TIDEI_CUBLASLT_FUNCTIONS(TIDEI_CUBLAS_MEMBER)
#undef TIDEI_CUBLAS_MEMBER
} tidei_cublas_table;
static inline bool tidei_cublas_has_lt(const tidei_cublas_table *t) { return t->cublasLtMatmul; }

/* cuBLAS of the same family as NVRTC, else another, opened at the first call that succeeds; the
** process keeps it. TIDE_E_UNSUPPORTED that says how to get it. */
tide_status tidei_cublas_load(const char *op, const tidei_cublas_table **out);
/* Describes its handles to the cache. They compute without TF32, and sum in the wide type. */
extern const tidei_handle_kind tidei_cublas_kind;
/* The type of elements by cuBLAS's number. */
static inline tidei_cuda_data_type tidei_cuda_type(tide_dtype t) {
    switch (t) {
    case TIDE_F16: return TIDEI_CUDA_R_16F;
    case TIDE_BF16: return TIDEI_CUDA_R_16BF;
    case TIDE_F64: return TIDEI_CUDA_R_64F;
    case TIDE_C64: return TIDEI_CUDA_C_32F;
    case TIDE_C128: return TIDEI_CUDA_C_64F;
    default: return TIDEI_CUDA_R_32F;
    }
}
/* Tests: from now on tidei_cublas_load gives this table; NULL: the real one again. */
void tidei_cublas_use(const tidei_cublas_table *table);

#endif
