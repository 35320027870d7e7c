/* cusolver.h: our own declarations of cuSOLVER's dense part, as driver.h's of the driver. Its
** 64-bit calls (cusolverDnX...) take any type; those that have none are there once a type. */
#ifndef TIDEI_CUSOLVER_H
#define TIDEI_CUSOLVER_H

#include "libs/cublas.h"
#include "libs/handles.h"

typedef unsigned int tidei_cusolver_status; /* cusolverStatus_t */
typedef struct cusolverDnContext *tidei_cusolver_handle;
typedef struct cusolverDnParams *tidei_cusolver_params;
typedef struct gesvdjInfo *tidei_cusolver_gesvdj;
typedef unsigned int tidei_cusolver_mode; /* an enum that only appears as a parameter */

enum {
    TIDEI_CUSOLVER_SUCCESS = 0,
    TIDEI_CUSOLVER_NOT_INITIALIZED = 1,
    TIDEI_CUSOLVER_ALLOC_FAILED = 2,
    TIDEI_CUSOLVER_INVALID_VALUE = 3,
    TIDEI_CUSOLVER_EXECUTION_FAILED = 6,
    TIDEI_CUSOLVER_INTERNAL_ERROR = 7,
    TIDEI_CUSOLVER_NOVECTOR = 0,
    TIDEI_CUSOLVER_VECTOR = 1
};

/* bytes on the device and on the host */
#define TIDEI_CUSOLVER_WORK  size_t *, size_t *
#define TIDEI_CUSOLVER_SPACE void *, size_t, void *, size_t /* the same, given */
#define TIDEI_CUSOLVER_BEGIN tidei_cusolver_handle, tidei_cusolver_params

/* X(name, whether it is always there, parameters): all return a cusolverStatus_t. */
#define TIDEI_CUSOLVER_FUNCTIONS(X)                                                                \
    X(cusolverGetVersion, true, (int *))                                                           \
    X(cusolverDnCreate, true, (tidei_cusolver_handle *))                                           \
    X(cusolverDnDestroy, true, (tidei_cusolver_handle))                                            \
    X(cusolverDnSetStream, true, (tidei_cusolver_handle, tidei_cu_stream))                         \
    X(cusolverDnCreateParams, true, (tidei_cusolver_params *))                                     \
    X(cusolverDnDestroyParams, true, (tidei_cusolver_params))                                      \
    X(cusolverDnXgetrf_bufferSize, true,                                                           \
      (TIDEI_CUSOLVER_BEGIN, int64_t, int64_t, tidei_cuda_data_type, const void *, int64_t,        \
       tidei_cuda_data_type, TIDEI_CUSOLVER_WORK))                                                 \
    X(cusolverDnXgetrf, true,                                                                      \
      (TIDEI_CUSOLVER_BEGIN, int64_t, int64_t, tidei_cuda_data_type, void *, int64_t, int64_t *,   \
       tidei_cuda_data_type, TIDEI_CUSOLVER_SPACE, int *))                                         \
    X(cusolverDnXgetrs, true,                                                                      \
      (TIDEI_CUSOLVER_BEGIN, tidei_cublas_operation, int64_t, int64_t, tidei_cuda_data_type,       \
       const void *, int64_t, const int64_t *, tidei_cuda_data_type, void *, int64_t, int *))      \
    X(cusolverDnXpotrf_bufferSize, true,                                                           \
      (TIDEI_CUSOLVER_BEGIN, tidei_cublas_fill, int64_t, tidei_cuda_data_type, const void *,       \
       int64_t, tidei_cuda_data_type, TIDEI_CUSOLVER_WORK))                                        \
    X(cusolverDnXpotrf, true,                                                                      \
      (TIDEI_CUSOLVER_BEGIN, tidei_cublas_fill, int64_t, tidei_cuda_data_type, void *, int64_t,    \
       tidei_cuda_data_type, TIDEI_CUSOLVER_SPACE, int *))                                         \
    X(cusolverDnXgeqrf_bufferSize, true,                                                           \
      (TIDEI_CUSOLVER_BEGIN, int64_t, int64_t, tidei_cuda_data_type, const void *, int64_t,        \
       tidei_cuda_data_type, const void *, tidei_cuda_data_type, TIDEI_CUSOLVER_WORK))             \
    X(cusolverDnXgeqrf, true,                                                                      \
      (TIDEI_CUSOLVER_BEGIN, int64_t, int64_t, tidei_cuda_data_type, void *, int64_t,              \
       tidei_cuda_data_type, void *, tidei_cuda_data_type, TIDEI_CUSOLVER_SPACE, int *))           \
    X(cusolverDnXgesvd_bufferSize, true,                                                           \
      (TIDEI_CUSOLVER_BEGIN, signed char, signed char, int64_t, int64_t, tidei_cuda_data_type,     \
       const void *, int64_t, tidei_cuda_data_type, const void *, tidei_cuda_data_type,            \
       const void *, int64_t, tidei_cuda_data_type, const void *, int64_t, tidei_cuda_data_type,   \
       TIDEI_CUSOLVER_WORK))                                                                       \
    X(cusolverDnXgesvd, true,                                                                      \
      (TIDEI_CUSOLVER_BEGIN, signed char, signed char, int64_t, int64_t, tidei_cuda_data_type,     \
       void *, int64_t, tidei_cuda_data_type, void *, tidei_cuda_data_type, void *, int64_t,       \
       tidei_cuda_data_type, void *, int64_t, tidei_cuda_data_type, TIDEI_CUSOLVER_SPACE, int *))  \
    X(cusolverDnXsyevd_bufferSize, true,                                                           \
      (TIDEI_CUSOLVER_BEGIN, tidei_cusolver_mode, tidei_cublas_fill, int64_t,                      \
       tidei_cuda_data_type, const void *, int64_t, tidei_cuda_data_type, const void *,            \
       tidei_cuda_data_type, TIDEI_CUSOLVER_WORK))                                                 \
    X(cusolverDnXsyevd, true,                                                                      \
      (TIDEI_CUSOLVER_BEGIN, tidei_cusolver_mode, tidei_cublas_fill, int64_t,                      \
       tidei_cuda_data_type, void *, int64_t, tidei_cuda_data_type, void *, tidei_cuda_data_type,  \
       TIDEI_CUSOLVER_SPACE, int *))                                                               \
    X(cusolverDnXsyevBatched_bufferSize, false,                                                    \
      (TIDEI_CUSOLVER_BEGIN, tidei_cusolver_mode, tidei_cublas_fill, int64_t,                      \
       tidei_cuda_data_type, const void *, int64_t, tidei_cuda_data_type, const void *,            \
       tidei_cuda_data_type, TIDEI_CUSOLVER_WORK, int64_t))                                        \
    X(cusolverDnXsyevBatched, false,                                                               \
      (TIDEI_CUSOLVER_BEGIN, tidei_cusolver_mode, tidei_cublas_fill, int64_t,                      \
       tidei_cuda_data_type, void *, int64_t, tidei_cuda_data_type, void *, tidei_cuda_data_type,  \
       TIDEI_CUSOLVER_SPACE, int *, int64_t))                                                      \
    TIDEI_CUSOLVER_TYPED(X, S, org, float, float)                                                  \
    TIDEI_CUSOLVER_TYPED(X, D, org, double, double)                                                \
    TIDEI_CUSOLVER_TYPED(X, C, ung, tidei_cublas_c64, float)                                       \
    TIDEI_CUSOLVER_TYPED(X, Z, ung, tidei_cublas_c128, double)                                     \
    X(cusolverDnCreateGesvdjInfo, true, (tidei_cusolver_gesvdj *))                                 \
    X(cusolverDnDestroyGesvdjInfo, true, (tidei_cusolver_gesvdj))

#define TIDEI_CUSOLVER_TYPED(X, letter, org, T, R)                                                 \
    X(cusolverDn##letter##org##qr_bufferSize, true,                                                \
      (tidei_cusolver_handle, int, int, int, const T *, int, const T *, int *))                    \
    X(cusolverDn##letter##org##qr, true,                                                           \
      (tidei_cusolver_handle, int, int, int, T *, int, const T *, T *, int, int *))                \
    X(cusolverDn##letter##potrfBatched, true,                                                      \
      (tidei_cusolver_handle, tidei_cublas_fill, int, T **, int, int *, int))                      \
    X(cusolverDn##letter##gesvdjBatched_bufferSize, true,                                          \
      (tidei_cusolver_handle, tidei_cusolver_mode, int, int, const T *, int, const R *, const T *, \
       int, const T *, int, int *, tidei_cusolver_gesvdj, int))                                    \
    X(cusolverDn##letter##gesvdjBatched, true,                                                     \
      (tidei_cusolver_handle, tidei_cusolver_mode, int, int, T *, int, R *, T *, int, T *, int,    \
       T *, int, int *, tidei_cusolver_gesvdj, int))

typedef struct tidei_cusolver_table {
#define TIDEI_CUSOLVER_MEMBER(name, needed, params) tidei_cusolver_status(*name) params;
    TIDEI_CUSOLVER_FUNCTIONS(TIDEI_CUSOLVER_MEMBER)
#undef TIDEI_CUSOLVER_MEMBER
} tidei_cusolver_table;

/* cuSOLVER of the same family as NVRTC, else another, opened at the first call that succeeds; the
** process keeps it. A function that is not there, or does not work in this version, is NULL.
** TIDE_E_UNSUPPORTED that says how to get it. */
tide_status tidei_cusolver_load(const char *op, const tidei_cusolver_table **out);
/* Tests: from now on tidei_cusolver_load gives this table; NULL: the real one again. */
void tidei_cusolver_use(const tidei_cusolver_table *table);

extern const tidei_handle_kind tidei_cusolver_kind;

#endif
