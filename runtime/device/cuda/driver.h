/* driver.h: our own declarations of NVIDIA's driver, and the table of its functions, opened at run
** time.
**
** No CUDA header is needed to build. Tags of opaque structs are the driver's own, so that the types
** stay compatible; enums are the unsigned integers they are in its ABI.
** tests/device/test_cuda_decl.c compares all of it with a toolkit's headers where there are any.
** Every symbol is asked for by a literal version, never by that of a header: a rebuild must not
** change a signature. */
#ifndef TIDEI_CUDA_DRIVER_H
#define TIDEI_CUDA_DRIVER_H

#include "runtime/base/base.h"

typedef unsigned int tidei_cu_result; /* CUresult */
typedef int tidei_cu_device;
typedef unsigned long long tidei_cu_addr;   /* CUdeviceptr */
typedef unsigned long long tidei_cu_handle; /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *tidei_cu_ctx;
typedef struct CUstream_st *tidei_cu_stream;
/* the stream that NULL means */
#define TIDEI_CU_STREAM_LEGACY     ((tidei_cu_stream)1)
#define TIDEI_CU_STREAM_PER_THREAD ((tidei_cu_stream)2)
typedef struct CUevent_st *tidei_cu_event;
typedef struct CUmod_st *tidei_cu_module;
typedef struct CUfunc_st *tidei_cu_function;
typedef struct CUmemPoolHandle_st *tidei_cu_pool;
typedef struct CUgraph_st *tidei_cu_graph;
typedef struct CUgraphNode_st *tidei_cu_node;
typedef struct CUgraphExec_st *tidei_cu_exec;

typedef struct tidei_cu_location {
    unsigned int type;
    int id;
} tidei_cu_location;

typedef struct tidei_cu_alloc_prop { /* CUmemAllocationProp */
    unsigned int type;
    unsigned int requested_handle_types;
    tidei_cu_location location;
    void *win32_handle_metadata;
    struct {
        unsigned char compression_type;
        unsigned char gpu_direct_rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} tidei_cu_alloc_prop;

typedef struct tidei_cu_access { /* CUmemAccessDesc */
    tidei_cu_location location;
    unsigned int flags;
} tidei_cu_access;

typedef struct tidei_cu_pool_props { /* CUmemPoolProps */
    unsigned int type;
    unsigned int handle_types;
    tidei_cu_location location;
    void *win32_security_attributes;
    size_t max_bytes; /* 0: all that the system allows */
    unsigned short usage;
    unsigned char reserved[54];
} tidei_cu_pool_props;

typedef struct tidei_cu_kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    tidei_cu_function function;
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    void **params;
    void **extra;
    struct CUkern_st *kernel;
    tidei_cu_ctx ctx;
} tidei_cu_kernel_node;

typedef struct tidei_cu_edge { /* CUgraphEdgeData */
    unsigned char from_port, to_port, type, reserved[5];
} tidei_cu_edge;

typedef struct tidei_cu_launch_attribute { /* CUlaunchAttribute */
    unsigned int id;
    char pad[4];
    union {
        char pad[64];
        void *event; /* it has the driver's alignment */
        int programmatic;
    } value;
} tidei_cu_launch_attribute;

typedef struct tidei_cu_config { /* CUlaunchConfig */
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    tidei_cu_stream stream;
    tidei_cu_launch_attribute *attributes;
    unsigned int nattributes;
} tidei_cu_config;

enum { /* CUresult, those that we tell apart */
       TIDEI_CU_SUCCESS = 0,
       TIDEI_CU_INVALID_VALUE = 1,
       TIDEI_CU_OUT_OF_MEMORY = 2,
       TIDEI_CU_DEINITIALIZED = 4,
       TIDEI_CU_STUB_LIBRARY = 34,
       TIDEI_CU_DEVICE_UNAVAILABLE = 46,
       TIDEI_CU_NO_DEVICE = 100,
       TIDEI_CU_INVALID_DEVICE = 101,
       TIDEI_CU_INVALID_IMAGE = 200,
       TIDEI_CU_NO_BINARY_FOR_GPU = 209,
       TIDEI_CU_ECC_UNCORRECTABLE = 214,
       TIDEI_CU_INVALID_PTX = 218,
       TIDEI_CU_NVLINK_UNCORRECTABLE = 220,
       TIDEI_CU_UNSUPPORTED_PTX_VERSION = 222,
       TIDEI_CU_NOT_FOUND = 500,
       TIDEI_CU_NOT_READY = 600,
       TIDEI_CU_ILLEGAL_ADDRESS = 700,
       TIDEI_CU_LAUNCH_TIMEOUT = 702,
       TIDEI_CU_PEER_ACCESS_UNSUPPORTED = 217,
       TIDEI_CU_PEER_ACCESS_ALREADY_ENABLED = 704,
       TIDEI_CU_TOO_MANY_PEERS = 711,
       TIDEI_CU_CONTEXT_IS_DESTROYED = 709,
       TIDEI_CU_ASSERT = 710,
       TIDEI_CU_HARDWARE_STACK_ERROR = 714,
       TIDEI_CU_ILLEGAL_INSTRUCTION = 715,
       TIDEI_CU_MISALIGNED_ADDRESS = 716,
       TIDEI_CU_INVALID_ADDRESS_SPACE = 717,
       TIDEI_CU_INVALID_PC = 718,
       TIDEI_CU_LAUNCH_FAILED = 719,
       TIDEI_CU_TENSOR_MEMORY_LEAK = 721,
       TIDEI_CU_NOT_PERMITTED = 800,
       TIDEI_CU_NOT_SUPPORTED = 801,
       TIDEI_CU_SYSTEM_DRIVER_MISMATCH = 803,
       TIDEI_CU_COMPAT_NOT_SUPPORTED = 804,
       TIDEI_CU_INVALID_CLUSTER_SIZE = 912
};

enum { /* CUdevice_attribute */
       TIDEI_CU_ATTR_MAX_THREADS_PER_BLOCK = 1,
       TIDEI_CU_ATTR_MULTIPROCESSOR_COUNT = 16,
       TIDEI_CU_ATTR_UNIFIED_ADDRESSING = 41,
       TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MAJOR = 75,
       TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MINOR = 76,
       TIDEI_CU_ATTR_CONCURRENT_MANAGED_ACCESS = 89,
       TIDEI_CU_ATTR_VIRTUAL_MEMORY_MANAGEMENT = 102,
       TIDEI_CU_ATTR_POSIX_FILE_DESCRIPTOR = 103,
       TIDEI_CU_ATTR_RDMA_WITH_PAGES = 110,
       TIDEI_CU_ATTR_MEMORY_POOLS = 115,
       TIDEI_CU_ATTR_64_BIT_STREAM_MEM_OPS = 122
};

enum { /* CUfunction_attribute */
       TIDEI_CU_FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
};

enum { /* CUmemPool_attribute */
       TIDEI_CU_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
       TIDEI_CU_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,
       TIDEI_CU_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
       TIDEI_CU_POOL_RELEASE_THRESHOLD = 4,
       TIDEI_CU_POOL_RESERVED_CURRENT = 5,
       TIDEI_CU_POOL_USED_CURRENT = 7
};

enum { /* flags and choices of single calls */
       TIDEI_CU_STREAM_NON_BLOCKING = 1,
       TIDEI_CU_EVENT_DISABLE_TIMING = 2,
       TIDEI_CU_MEMHOSTALLOC_PORTABLE = 1,
       TIDEI_CU_MEMHOSTALLOC_DEVICEMAP = 2,
       TIDEI_CU_MEM_ALLOCATION_TYPE_PINNED = 1,
       TIDEI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
       TIDEI_CU_MEM_LOCATION_TYPE_DEVICE = 1,
       TIDEI_CU_MEM_LOCATION_TYPE_HOST = 2,
       TIDEI_CU_MEM_ATTACH_GLOBAL = 1,
       TIDEI_CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
       TIDEI_CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
       TIDEI_CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
       TIDEI_CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
       TIDEI_CU_MEM_ACCESS_READWRITE = 3,
       TIDEI_CU_MEM_GRANULARITY_MINIMUM = 0,
       TIDEI_CU_POINTER_MEMORY_TYPE = 2,
       TIDEI_CU_CAPTURE_RELAXED = 2,
       TIDEI_CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1,
       TIDEI_CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1,
       TIDEI_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
       TIDEI_CU_MEMORYTYPE_HOST = 1,
       TIDEI_CU_LAUNCH_PARAM_END = 0,
       TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER = 1,
       TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE = 2
};

/* X(name, exported, version, needed, parameters): the name to ask cuGetProcAddress for, the symbol
** that dlsym knows it by, the version whose signature this is, whether the device is refused
** without it. All return a CUresult. */
#define TIDEI_CU_FUNCTIONS(X)                                                                      \
    X(cuGetErrorName, cuGetErrorName, 6000, 1, (tidei_cu_result, const char **))                   \
    X(cuGetErrorString, cuGetErrorString, 6000, 1, (tidei_cu_result, const char **))               \
    X(cuInit, cuInit, 2000, 1, (unsigned int))                                                     \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, 1, (int *))                                    \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, 1, (int *))                                        \
    X(cuDeviceGet, cuDeviceGet, 2000, 1, (tidei_cu_device *, int))                                 \
    X(cuDeviceGetName, cuDeviceGetName, 2000, 1, (char *, int, tidei_cu_device))                   \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, 1,                                         \
      (int *, tidei_cu_attribute, tidei_cu_device))                                                \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, 1, (size_t *, tidei_cu_device))                 \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, 1,                                       \
      (int *, tidei_cu_device, tidei_cu_device))                                                   \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, 1,                                 \
      (tidei_cu_ctx *, tidei_cu_device))                                                           \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, 1, (tidei_cu_device))        \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, 1, (tidei_cu_ctx *))                                 \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, 1, (tidei_cu_ctx))                                   \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, 1, (tidei_cu_ctx))                              \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, 1, (tidei_cu_ctx *))                              \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, 1, (tidei_cu_ctx, unsigned int))         \
    X(cuMemGetInfo, cuMemGetInfo_v2, 3020, 1, (size_t *, size_t *))                                \
    X(cuMemAlloc, cuMemAlloc_v2, 3020, 1, (tidei_cu_addr *, size_t))                               \
    X(cuMemFree, cuMemFree_v2, 3020, 1, (tidei_cu_addr))                                           \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, 0, (tidei_cu_addr *, size_t, unsigned int))      \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, 12020, 0,                                         \
      (tidei_cu_addr, size_t, tidei_cu_location, unsigned int, tidei_cu_stream))                   \
    X(cuMemAdvise, cuMemAdvise_v2, 12020, 0,                                                       \
      (tidei_cu_addr, size_t, tidei_cu_advice, tidei_cu_location))                                 \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, 1, (void **, size_t, unsigned int))                    \
    X(cuMemFreeHost, cuMemFreeHost, 2000, 1, (void *))                                             \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, 1,                            \
      (tidei_cu_addr *, void *, unsigned int))                                                     \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, 1,                                     \
      (unsigned int, tidei_cu_pointer_attribute *, void **, tidei_cu_addr))                        \
    X(cuMemAddressReserve, cuMemAddressReserve, 10020, 0,                                          \
      (tidei_cu_addr *, size_t, size_t, tidei_cu_addr, unsigned long long))                        \
    X(cuMemAddressFree, cuMemAddressFree, 10020, 0, (tidei_cu_addr, size_t))                       \
    X(cuMemCreate, cuMemCreate, 10020, 0,                                                          \
      (tidei_cu_handle *, size_t, const tidei_cu_alloc_prop *, unsigned long long))                \
    X(cuMemRelease, cuMemRelease, 10020, 0, (tidei_cu_handle))                                     \
    X(cuMemMap, cuMemMap, 10020, 0,                                                                \
      (tidei_cu_addr, size_t, size_t, tidei_cu_handle, unsigned long long))                        \
    X(cuMemUnmap, cuMemUnmap, 10020, 0, (tidei_cu_addr, size_t))                                   \
    X(cuMemSetAccess, cuMemSetAccess, 10020, 0,                                                    \
      (tidei_cu_addr, size_t, const tidei_cu_access *, size_t))                                    \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, 0,                      \
      (size_t *, const tidei_cu_alloc_prop *, tidei_cu_granularity))                               \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020, 0, (tidei_cu_pool *, const tidei_cu_pool_props *))  \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, 0, (tidei_cu_pool))                               \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, 0,                                      \
      (tidei_cu_pool, tidei_cu_pool_attribute, void *))                                            \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, 0,                                      \
      (tidei_cu_pool, tidei_cu_pool_attribute, void *))                                            \
    X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, 0,                                            \
      (tidei_cu_pool, const tidei_cu_access *, size_t))                                            \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, 0, (tidei_cu_pool, size_t))                         \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 0,                                  \
      (tidei_cu_addr *, size_t, tidei_cu_pool, tidei_cu_stream))                                   \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, 0, (tidei_cu_addr, tidei_cu_stream))                  \
    X(cuStreamCreate, cuStreamCreate, 2000, 1, (tidei_cu_stream *, unsigned int))                  \
    X(cuStreamDestroy, cuStreamDestroy_v2, 4000, 1, (tidei_cu_stream))                             \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, 1, (tidei_cu_stream))                        \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, 1,                                               \
      (tidei_cu_stream, tidei_cu_event, unsigned int))                                             \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, 1, (tidei_cu_stream, tidei_cu_ctx *))                  \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, 1, (tidei_cu_stream, tidei_cu_capture *))   \
    X(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, 0,                                     \
      (tidei_cu_stream, tidei_cu_addr, tidei_cu_u64, unsigned int))                                \
    X(cuEventCreate, cuEventCreate, 2000, 1, (tidei_cu_event *, unsigned int))                     \
    X(cuEventDestroy, cuEventDestroy_v2, 4000, 1, (tidei_cu_event))                                \
    X(cuEventRecord, cuEventRecord, 2000, 1, (tidei_cu_event, tidei_cu_stream))                    \
    X(cuEventQuery, cuEventQuery, 2000, 1, (tidei_cu_event))                                       \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, 1,                                            \
      (tidei_cu_addr, const void *, size_t, tidei_cu_stream))                                      \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, 1,                                            \
      (void *, tidei_cu_addr, size_t, tidei_cu_stream))                                            \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, 1,                                                       \
      (tidei_cu_addr, tidei_cu_addr, size_t, tidei_cu_stream))                                     \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, 0,                                               \
      (tidei_cu_addr, tidei_cu_ctx, tidei_cu_addr, tidei_cu_ctx, size_t, tidei_cu_stream))         \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, 1,                                                   \
      (tidei_cu_addr, unsigned char, size_t, tidei_cu_stream))                                     \
    X(cuMemsetD16Async, cuMemsetD16Async, 3020, 1,                                                 \
      (tidei_cu_addr, unsigned short, size_t, tidei_cu_stream))                                    \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020, 1,                                                 \
      (tidei_cu_addr, unsigned int, size_t, tidei_cu_stream))                                      \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, 1,                                             \
      (tidei_cu_addr, size_t, unsigned int, size_t, size_t, tidei_cu_stream))                      \
    X(cuModuleLoadData, cuModuleLoadData, 2000, 1, (tidei_cu_module *, const void *))              \
    X(cuModuleUnload, cuModuleUnload, 2000, 1, (tidei_cu_module))                                  \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, 1,                                           \
      (tidei_cu_function *, tidei_cu_module, const char *))                                        \
    X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, 0,                                             \
      (tidei_cu_function, tidei_cu_function_attribute, int))                                       \
    X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070, 0,                        \
      (int *, tidei_cu_function, const tidei_cu_config *))                                         \
    X(cuLaunchKernel, cuLaunchKernel, 4000, 1,                                                     \
      (tidei_cu_function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,    \
       unsigned int, unsigned int, tidei_cu_stream, void **, void **))                             \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, 0,                                                \
      (const tidei_cu_config *, tidei_cu_function, void **, void **))                              \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, 0,                                     \
      (tidei_cu_stream, tidei_cu_capture_mode))                                                    \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, 0, (tidei_cu_stream, tidei_cu_graph *))       \
    X(cuGraphCreate, cuGraphCreate, 10000, 0, (tidei_cu_graph *, unsigned int))                    \
    X(cuGraphDestroy, cuGraphDestroy, 10000, 0, (tidei_cu_graph))                                  \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000, 0, (tidei_cu_graph, tidei_cu_node *, size_t *))     \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000, 0,                                     \
      (tidei_cu_node *, tidei_cu_graph, const tidei_cu_node *, size_t,                             \
       const tidei_cu_kernel_node *))                                                              \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, 0,                                \
      (tidei_cu_node *, tidei_cu_graph, const tidei_cu_node *, size_t, tidei_cu_graph))            \
    X(cuGraphAddDependencies, cuGraphAddDependencies_v2, 12030, 0,                                 \
      (tidei_cu_graph, const tidei_cu_node *, const tidei_cu_node *, const tidei_cu_edge *,        \
       size_t))                                                                                    \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, 0,                          \
      (tidei_cu_exec *, tidei_cu_graph, unsigned long long))                                       \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, 0, (tidei_cu_exec))                           \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, 12000, 0,                 \
      (tidei_cu_exec, tidei_cu_node, const tidei_cu_kernel_node *))                                \
    X(cuGraphLaunch, cuGraphLaunch, 10000, 0, (tidei_cu_exec, tidei_cu_stream))

/* Enums that only appear as parameters. */
typedef unsigned int tidei_cu_attribute, tidei_cu_pointer_attribute, tidei_cu_granularity,
    tidei_cu_pool_attribute, tidei_cu_advice, tidei_cu_capture_mode, tidei_cu_function_attribute;
typedef unsigned int tidei_cu_capture; /* CUstreamCaptureStatus: 0 is none */
typedef uint64_t tidei_cu_u64;         /* cuuint64_t */

typedef tidei_cu_result (*tidei_cu_get_proc_v2)(const char *, void **, int, tidei_cu_u64,
                                                unsigned int *);
typedef tidei_cu_result (*tidei_cu_get_proc)(const char *, void **, int, tidei_cu_u64);

typedef struct tidei_cu {
    int version; /* of the driver: 13000 for CUDA 13.0 */
#define TIDEI_CU_MEMBER(name, exported, version, needed, params) tidei_cu_result(*name) params;
    TIDEI_CU_FUNCTIONS(TIDEI_CU_MEMBER)
#undef TIDEI_CU_MEMBER
} tidei_cu;

/* The driver, opened and initialised at the first call that succeeds; the process keeps it.
** TIDE_E_NODEVICE with a message that stands by itself ("libcuda.so.1 not found", "cuInit: no
** device (100)"). Never in a forked child. */
tide_status tidei_cu_open(const tidei_cu **out);
/* "CUDA_ERROR_OUT_OF_MEMORY"; static. */
const char *tidei_cu_name(const tidei_cu *cu, tidei_cu_result r);
/* Tests: from now on tidei_cu_open gives this table; NULL: the real one again. */
void tidei_cu_use(const tidei_cu *table);

/* Opens a library of the CUDA toolkit by its versioned name: one that the process has opened
** already, else where the loader looks, else in the folder `beside` (may be NULL), $CUDA_HOME,
** $CUDA_PATH, /usr/local/cuda. NULL when it is nowhere; `why` then says what the loader said about
** a file that is there but does not open, else "". */
void *tidei_cuda_library(const char *name, const char *beside, char *why, size_t cap);

#endif
