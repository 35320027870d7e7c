/* test_cuda_decl.c: our declarations of driver, NVRTC, cuBLAS, cuSOLVER and NVTX against a
** toolkit's headers. The proof is that this file compiles; it is built where there is a toolkit. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cusolverDn.h>
#include <nvrtc.h>
#define NVTX_NO_IMPL /* its declarations alone */
#include <nvtx3/nvToolsExt.h>
#include "tests/support/tidetest.h"
#include "runtime/device/cuda/driver.h"
#include "libs/cusolver.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/observe/nvtx.h"

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)

SAME(TIDEI_CU_SUCCESS, CUDA_SUCCESS);
SAME(TIDEI_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(TIDEI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(TIDEI_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(TIDEI_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(TIDEI_CU_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(TIDEI_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(TIDEI_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(TIDEI_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(TIDEI_CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(TIDEI_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(TIDEI_CU_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(TIDEI_CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(TIDEI_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(TIDEI_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(TIDEI_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(TIDEI_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(TIDEI_CU_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(TIDEI_CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(TIDEI_CU_ASSERT, CUDA_ERROR_ASSERT);
SAME(TIDEI_CU_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(TIDEI_CU_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(TIDEI_CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(TIDEI_CU_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(TIDEI_CU_INVALID_PC, CUDA_ERROR_INVALID_PC);
SAME(TIDEI_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(TIDEI_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(TIDEI_CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(TIDEI_CU_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(TIDEI_CU_COMPAT_NOT_SUPPORTED, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(TIDEI_CU_INVALID_CLUSTER_SIZE, CUDA_ERROR_INVALID_CLUSTER_SIZE);
#if CUDA_VERSION >= 12030
SAME(TIDEI_CU_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif

SAME(TIDEI_CU_ATTR_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(TIDEI_CU_ATTR_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(TIDEI_CU_ATTR_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(TIDEI_CU_ATTR_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
SAME(TIDEI_CU_ATTR_VIRTUAL_MEMORY_MANAGEMENT,
     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(TIDEI_CU_ATTR_POSIX_FILE_DESCRIPTOR,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(TIDEI_CU_ATTR_RDMA_WITH_PAGES, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(TIDEI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(TIDEI_CU_ATTR_MEMORY_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
#if CUDA_VERSION >= 12000
SAME(TIDEI_CU_ATTR_64_BIT_STREAM_MEM_OPS, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
#endif

SAME(TIDEI_CU_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES,
     CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME(TIDEI_CU_POOL_REUSE_ALLOW_OPPORTUNISTIC, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
SAME(TIDEI_CU_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
     CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME(TIDEI_CU_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME(TIDEI_CU_POOL_RESERVED_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME(TIDEI_CU_POOL_USED_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

SAME(TIDEI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(TIDEI_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(TIDEI_CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(TIDEI_CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(TIDEI_CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(TIDEI_CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(TIDEI_CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST);
SAME(TIDEI_CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(TIDEI_CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_SET_READ_MOSTLY);
SAME(TIDEI_CU_MEM_ADVISE_UNSET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
SAME(TIDEI_CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
SAME(TIDEI_CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
SAME(TIDEI_CU_MEM_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(TIDEI_CU_MEM_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(TIDEI_CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(TIDEI_CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST);
SAME(sizeof(unsigned int), sizeof(CUmemorytype));
SAME(TIDEI_CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
SAME(TIDEI_CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
SAME(TIDEI_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(TIDEI_CU_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_END_AS_INT);
SAME(TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT);
SAME(TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);

SAME(TIDEI_NVRTC_SUCCESS, NVRTC_SUCCESS);
SAME(TIDEI_NVRTC_OUT_OF_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY);
SAME(TIDEI_NVRTC_COMPILATION, NVRTC_ERROR_COMPILATION);

SAME(TIDEI_CUBLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(TIDEI_CUBLAS_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(TIDEI_CUBLAS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(TIDEI_CUBLAS_OP_N, CUBLAS_OP_N);
SAME(TIDEI_CUBLAS_OP_T, CUBLAS_OP_T);
SAME(TIDEI_CUBLAS_OP_C, CUBLAS_OP_C);
SAME(TIDEI_CUBLAS_SIDE_RIGHT, CUBLAS_SIDE_RIGHT);
SAME(TIDEI_CUBLAS_FILL_LOWER, CUBLAS_FILL_MODE_LOWER);
SAME(TIDEI_CUBLAS_FILL_UPPER, CUBLAS_FILL_MODE_UPPER);
SAME(TIDEI_CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_NON_UNIT);
SAME(TIDEI_CUBLAS_DIAG_UNIT, CUBLAS_DIAG_UNIT);
SAME(TIDEI_CUBLAS_POINTERS_HOST, CUBLAS_POINTER_MODE_HOST);
SAME(TIDEI_CUBLAS_POINTERS_DEVICE, CUBLAS_POINTER_MODE_DEVICE);
SAME(TIDEI_CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION,
     CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
SAME(TIDEI_CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(TIDEI_CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(TIDEI_CUBLAS_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT);
SAME(TIDEI_CUDA_R_32F, CUDA_R_32F);
SAME(TIDEI_CUDA_R_64F, CUDA_R_64F);
SAME(TIDEI_CUDA_R_16F, CUDA_R_16F);
SAME(TIDEI_CUDA_C_32F, CUDA_C_32F);
SAME(TIDEI_CUDA_C_64F, CUDA_C_64F);
SAME(TIDEI_CUDA_R_16BF, CUDA_R_16BF);

SAME(TIDEI_CUBLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(TIDEI_CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_16BF);
SAME(TIDEI_CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(TIDEI_CUBLASLT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(TIDEI_CUBLASLT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(TIDEI_CUBLASLT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(TIDEI_CUBLASLT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(TIDEI_CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(TIDEI_CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(TIDEI_CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME(TIDEI_CUBLASLT_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(TIDEI_CUBLASLT_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(TIDEI_CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(TIDEI_CUBLASLT_REDUCTION_EXACT,
     CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
/* Ours may be larger: they are memory for theirs. */
_Static_assert(sizeof(tidei_cublaslt_desc) >= sizeof(cublasLtMatmulDescOpaque_t), "room");
_Static_assert(sizeof(tidei_cublaslt_layout) >= sizeof(cublasLtMatrixLayoutOpaque_t), "room");
_Static_assert(sizeof(tidei_cublaslt_preference) >= sizeof(cublasLtMatmulPreferenceOpaque_t),
               "room");

SAME(TIDEI_CUSOLVER_SUCCESS, CUSOLVER_STATUS_SUCCESS);
SAME(TIDEI_CUSOLVER_NOT_INITIALIZED, CUSOLVER_STATUS_NOT_INITIALIZED);
SAME(TIDEI_CUSOLVER_ALLOC_FAILED, CUSOLVER_STATUS_ALLOC_FAILED);
SAME(TIDEI_CUSOLVER_INVALID_VALUE, CUSOLVER_STATUS_INVALID_VALUE);
SAME(TIDEI_CUSOLVER_EXECUTION_FAILED, CUSOLVER_STATUS_EXECUTION_FAILED);
SAME(TIDEI_CUSOLVER_INTERNAL_ERROR, CUSOLVER_STATUS_INTERNAL_ERROR);
SAME(TIDEI_CUSOLVER_NOVECTOR, CUSOLVER_EIG_MODE_NOVECTOR);
SAME(TIDEI_CUSOLVER_VECTOR, CUSOLVER_EIG_MODE_VECTOR);
SAME(TIDEI_CUBLAS_FILL_LOWER, CUBLAS_FILL_MODE_LOWER);
SAME(TIDEI_CUBLAS_FILL_UPPER, CUBLAS_FILL_MODE_UPPER);

#define SAME_FIELD(ours, f, theirs, g)                                                             \
    SAME(offsetof(ours, f), offsetof(theirs, g));                                                  \
    SAME(sizeof((ours *)0)->f, sizeof((theirs *)0)->g)
SAME(sizeof(tidei_cu_location), sizeof(CUmemLocation));
SAME_FIELD(tidei_cu_location, type, CUmemLocation, type);
SAME_FIELD(tidei_cu_location, id, CUmemLocation, id);
SAME(sizeof(tidei_cu_alloc_prop), sizeof(CUmemAllocationProp));
SAME_FIELD(tidei_cu_alloc_prop, type, CUmemAllocationProp, type);
SAME_FIELD(tidei_cu_alloc_prop, requested_handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(tidei_cu_alloc_prop, location, CUmemAllocationProp, location);
SAME_FIELD(tidei_cu_alloc_prop, win32_handle_metadata, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(tidei_cu_alloc_prop, flags.compression_type, CUmemAllocationProp,
           allocFlags.compressionType);
SAME_FIELD(tidei_cu_alloc_prop, flags.gpu_direct_rdma_capable, CUmemAllocationProp,
           allocFlags.gpuDirectRDMACapable);
SAME_FIELD(tidei_cu_alloc_prop, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME(sizeof(tidei_cu_access), sizeof(CUmemAccessDesc));
SAME_FIELD(tidei_cu_access, location, CUmemAccessDesc, location);
SAME_FIELD(tidei_cu_access, flags, CUmemAccessDesc, flags);
SAME(sizeof(tidei_cublaslt_algo), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(tidei_cublaslt_result), sizeof(cublasLtMatmulHeuristicResult_t));
SAME_FIELD(tidei_cublaslt_result, algo, cublasLtMatmulHeuristicResult_t, algo);
SAME_FIELD(tidei_cublaslt_result, workspace, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_FIELD(tidei_cublaslt_result, state, cublasLtMatmulHeuristicResult_t, state);
SAME_FIELD(tidei_cublaslt_result, waves, cublasLtMatmulHeuristicResult_t, wavesCount);
SAME(sizeof(tidei_cu_pool_props), sizeof(CUmemPoolProps));
SAME_FIELD(tidei_cu_pool_props, type, CUmemPoolProps, allocType);
SAME_FIELD(tidei_cu_pool_props, handle_types, CUmemPoolProps, handleTypes);
SAME_FIELD(tidei_cu_pool_props, location, CUmemPoolProps, location);
SAME_FIELD(tidei_cu_pool_props, win32_security_attributes, CUmemPoolProps, win32SecurityAttributes);
#if CUDA_VERSION >= 12040 /* before, both were reserved and zero */
SAME_FIELD(tidei_cu_pool_props, max_bytes, CUmemPoolProps, maxSize);
SAME_FIELD(tidei_cu_pool_props, usage, CUmemPoolProps, usage);
#endif

SAME(sizeof(tidei_cu_kernel_node), sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
SAME_FIELD(tidei_cu_kernel_node, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
SAME(offsetof(tidei_cu_kernel_node, grid), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
SAME(offsetof(tidei_cu_kernel_node, grid[2]), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimZ));
SAME(offsetof(tidei_cu_kernel_node, block), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
SAME_FIELD(tidei_cu_kernel_node, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
SAME_FIELD(tidei_cu_kernel_node, params, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
SAME_FIELD(tidei_cu_kernel_node, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra);
SAME_FIELD(tidei_cu_kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
SAME_FIELD(tidei_cu_kernel_node, ctx, CUDA_KERNEL_NODE_PARAMS_v2, ctx);

SAME(sizeof(tidei_cu_edge), sizeof(CUgraphEdgeData));
SAME_FIELD(tidei_cu_edge, from_port, CUgraphEdgeData, from_port);
SAME_FIELD(tidei_cu_edge, to_port, CUgraphEdgeData, to_port);
SAME_FIELD(tidei_cu_edge, type, CUgraphEdgeData, type);

SAME(sizeof(tidei_cu_config), sizeof(CUlaunchConfig));
SAME(offsetof(tidei_cu_config, grid[2]), offsetof(CUlaunchConfig, gridDimZ));
SAME(offsetof(tidei_cu_config, block), offsetof(CUlaunchConfig, blockDimX));
SAME_FIELD(tidei_cu_config, shared_bytes, CUlaunchConfig, sharedMemBytes);
SAME_FIELD(tidei_cu_config, stream, CUlaunchConfig, hStream);
SAME_FIELD(tidei_cu_config, attributes, CUlaunchConfig, attrs);
SAME_FIELD(tidei_cu_config, nattributes, CUlaunchConfig, numAttrs);
SAME(sizeof(tidei_cu_launch_attribute), sizeof(CUlaunchAttribute));
SAME(_Alignof(tidei_cu_launch_attribute), _Alignof(CUlaunchAttribute));
SAME_FIELD(tidei_cu_launch_attribute, id, CUlaunchAttribute, id);
SAME(offsetof(tidei_cu_launch_attribute, value.programmatic),
     offsetof(CUlaunchAttribute, value.programmaticStreamSerializationAllowed));
SAME(TIDEI_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION,
     CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(TIDEI_CU_FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
     CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);

/* From here on our names of structs and enums in parameters stand for the toolkit's, whose sizes
** were compared above, so that whole function types can be. */
SAME(sizeof(tidei_cu_attribute), sizeof(CUdevice_attribute));
SAME(sizeof(tidei_cu_result), sizeof(CUresult));
#define tidei_cu_alloc_prop                 CUmemAllocationProp
#define tidei_cu_access                     CUmemAccessDesc
#define tidei_cu_location                   CUmemLocation
#define tidei_cu_kernel_node                CUDA_KERNEL_NODE_PARAMS
#define tidei_cu_config                     CUlaunchConfig
#define tidei_cu_edge                       CUgraphEdgeData
#define tidei_cu_capture_mode               CUstreamCaptureMode
#define tidei_cu_advice                     CUmem_advise
#define tidei_cu_pool_props                 CUmemPoolProps
#define tidei_cu_pool_attribute             CUmemPool_attribute
#define tidei_cu_result                     CUresult
#define tidei_cu_attribute                  CUdevice_attribute
#define tidei_cu_pointer_attribute          CUpointer_attribute
#define tidei_cu_function_attribute         CUfunction_attribute
#define tidei_cu_granularity                CUmemAllocationGranularity_flags
#define tidei_nvrtc_result                  nvrtcResult
#define tidei_cublas_operation              cublasOperation_t
#define tidei_cublas_math                   cublasMath_t
#define tidei_cublas_compute                cublasComputeType_t
#define tidei_cublas_algo                   cublasGemmAlgo_t
#define tidei_cublas_side                   cublasSideMode_t
#define tidei_cublas_fill                   cublasFillMode_t
#define tidei_cublas_diag                   cublasDiagType_t
#define tidei_cublas_pointer_mode           cublasPointerMode_t
#define tidei_cublas_c64                    cuComplex
#define tidei_cublas_c128                   cuDoubleComplex
#define tidei_cuda_data_type                cudaDataType
#define tidei_cublaslt_compute              cublasComputeType_t
#define tidei_cublaslt_type                 cudaDataType
#define tidei_cublaslt_desc                 cublasLtMatmulDescOpaque_t
#define tidei_cublaslt_layout               cublasLtMatrixLayoutOpaque_t
#define tidei_cublaslt_preference           cublasLtMatmulPreferenceOpaque_t
#define tidei_cublaslt_algo                 cublasLtMatmulAlgo_t
#define tidei_cublaslt_result               cublasLtMatmulHeuristicResult_t
#define tidei_cublaslt_desc_attribute       cublasLtMatmulDescAttributes_t
#define tidei_cublaslt_preference_attribute cublasLtMatmulPreferenceAttributes_t
#define tidei_cusolver_mode                 cusolverEigMode_t

#define CHECK_CU(name, exported, version, needed, params)                                          \
    _Static_assert(__builtin_types_compatible_p(__typeof__(exported), CUresult params), #exported);
TIDEI_CU_FUNCTIONS(CHECK_CU)
#define CHECK_NVRTC(name, params)                                                                  \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), nvrtcResult params), #name);
TIDEI_NVRTC_FUNCTIONS(CHECK_NVRTC)
#define CHECK_CUBLAS(name, params)                                                                 \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), cublasStatus_t params), #name);
TIDEI_CUBLAS_FUNCTIONS(CHECK_CUBLAS)
TIDEI_CUBLASLT_FUNCTIONS(CHECK_CUBLAS)
#if CUSOLVER_VERSION >= 11701 /* has them all */
#define CHECK_CUSOLVER(name, needed, params)                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), cusolverStatus_t params), #name);
TIDEI_CUSOLVER_FUNCTIONS(CHECK_CUSOLVER)
#endif

/* NVTX: a tool reads our tables as its own declarations say. */
SAME(TIDEI_NVTX_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(TIDEI_NVTX_VERSION_INFO, NVTX_ETID_VERSIONINFO);
SAME(TIDEI_NVTX_CORE, NVTX_CB_MODULE_CORE);
SAME(TIDEI_NVTX_CORE2, NVTX_CB_MODULE_CORE2);
SAME(TIDEI_NVTX_CORE_SIZE, NVTX_CBID_CORE_SIZE);
SAME(TIDEI_NVTX_CORE2_SIZE, NVTX_CBID_CORE2_SIZE);
SAME(TIDEI_NVTX_RANGE_PUSH_A, NVTX_CBID_CORE_RangePushA);
SAME(TIDEI_NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
SAME(TIDEI_NVTX_DOMAIN_RANGE_PUSH, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(TIDEI_NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(TIDEI_NVTX_DOMAIN_CREATE_A, NVTX_CBID_CORE2_DomainCreateA);
SAME(TIDEI_NVTX_VERSION, NVTX_VERSION);
SAME(TIDEI_NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(sizeof(tidei_nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME(offsetof(tidei_nvtx_callbacks, module_table),
     offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
SAME(sizeof(tidei_nvtx_version_info), sizeof(NvtxExportTableVersionInfo));
SAME(offsetof(tidei_nvtx_version_info, version), offsetof(NvtxExportTableVersionInfo, version));
SAME(offsetof(tidei_nvtx_version_info, set_tool_version),
     offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
SAME(sizeof(tidei_nvtx_attributes), sizeof(nvtxEventAttributes_t));
SAME(offsetof(tidei_nvtx_attributes, message_type), offsetof(nvtxEventAttributes_t, messageType));
SAME(offsetof(tidei_nvtx_attributes, message), offsetof(nvtxEventAttributes_t, message));

/* What the assertions cannot see: that the versions asked for are not above the headers', which
** carry each signature. */
static void versions_asked_for_are_in_the_headers(void **state) {
    (void)state;
#define CHECK_VERSION(name, exported, version, needed, params)                                     \
    assert_in_range(version, 2000, CUDA_VERSION);
    TIDEI_CU_FUNCTIONS(CHECK_VERSION)
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(versions_asked_for_are_in_the_headers)};
    return cmocka_run_group_tests_name("cuda_decl", tests, NULL, NULL);
}
