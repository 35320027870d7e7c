/* cublaslt.h: our own declarations of cuBLASLt, which cuBLAS is built on and brings along: products
** whose kernel the caller chooses, and what may follow them in the same kernel. Versions 12 and
** later. */
#ifndef TIDEI_CUBLASLT_H
#define TIDEI_CUBLASLT_H

#include "runtime/device/cuda/driver.h"

/* A cuBLAS handle serves as one of cuBLASLt. */
typedef struct cublasLtContext *tidei_cublaslt_handle;
/* Enums that only appear as parameters; cuBLAS's own among them. */
typedef unsigned int tidei_cublaslt_compute, tidei_cublaslt_type, tidei_cublaslt_desc_attribute,
    tidei_cublaslt_preference_attribute;

/* Descriptors are made in memory of the caller's, which may be larger than the library needs. */
typedef struct tidei_cublaslt_layout {
    uint64_t data[16];
} tidei_cublaslt_layout;
typedef struct tidei_cublaslt_desc {
    uint64_t data[64];
} tidei_cublaslt_desc;
typedef struct tidei_cublaslt_preference {
    uint64_t data[16];
} tidei_cublaslt_preference;
typedef struct tidei_cublaslt_algo {
    uint64_t data[8];
} tidei_cublaslt_algo;
/* What it answers to who asks for an algorithm. */
typedef struct tidei_cublaslt_result {
    tidei_cublaslt_algo algo;
    size_t workspace;
    unsigned int state; /* success, or the rest is void */
    float waves;
    int reserved[4];
} tidei_cublaslt_result;

enum {
    TIDEI_CUBLASLT_DESC_TRANSA = 3,
    TIDEI_CUBLASLT_DESC_TRANSB = 4,
    TIDEI_CUBLASLT_DESC_EPILOGUE = 7,
    TIDEI_CUBLASLT_DESC_BIAS_POINTER = 8,
    TIDEI_CUBLASLT_EPILOGUE_BIAS = 4,
    TIDEI_CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    TIDEI_CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    TIDEI_CUBLASLT_PREF_MAX_WORKSPACE_BYTES = 1,
    TIDEI_CUBLASLT_PREF_REDUCTION_SCHEME_MASK = 3,
    TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES = 8,
    /* partial sums in the result's memory, or in the type that is computed in: not in a half */
    TIDEI_CUBLASLT_REDUCTION_EXACT = 3
};

/* X(name, parameters): all return a cublasStatus_t. */
#define TIDEI_CUBLASLT_FUNCTIONS(X)                                                                \
    X(cublasLtMatmulDescInit_internal,                                                             \
      (tidei_cublaslt_desc *, size_t, tidei_cublaslt_compute, tidei_cublaslt_type))                \
    X(cublasLtMatmulDescSetAttribute,                                                              \
      (tidei_cublaslt_desc *, tidei_cublaslt_desc_attribute, const void *, size_t))                \
    X(cublasLtMatrixLayoutInit_internal,                                                           \
      (tidei_cublaslt_layout *, size_t, tidei_cublaslt_type, uint64_t, uint64_t, int64_t))         \
    X(cublasLtMatmulPreferenceInit_internal, (tidei_cublaslt_preference *, size_t))                \
    X(cublasLtMatmulPreferenceSetAttribute,                                                        \
      (tidei_cublaslt_preference *, tidei_cublaslt_preference_attribute, const void *, size_t))    \
    X(cublasLtMatmulAlgoGetHeuristic,                                                              \
      (tidei_cublaslt_handle, tidei_cublaslt_desc *, tidei_cublaslt_layout *,                      \
       tidei_cublaslt_layout *, tidei_cublaslt_layout *, tidei_cublaslt_layout *,                  \
       tidei_cublaslt_preference *, int, tidei_cublaslt_result *, int *))                          \
    X(cublasLtMatmul,                                                                              \
      (tidei_cublaslt_handle, tidei_cublaslt_desc *, const void *, const void *,                   \
       tidei_cublaslt_layout *, const void *, tidei_cublaslt_layout *, const void *, const void *, \
       tidei_cublaslt_layout *, void *, tidei_cublaslt_layout *, const tidei_cublaslt_algo *,      \
       void *, size_t, tidei_cu_stream))

#endif
