/* cuda.c: opening and closing the `cuda` device, and what the driver's errors mean. */
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/base/text.h"

#include <unistd.h>

/* ---- errors ---- */

/* Errors after which every call in the context fails. */
static bool is_fatal(tidei_cu_result r) {
    switch (r) {
    case TIDEI_CU_DEINITIALIZED: /* the process is ending */
    case TIDEI_CU_DEVICE_UNAVAILABLE:
    case TIDEI_CU_ECC_UNCORRECTABLE:
    case TIDEI_CU_NVLINK_UNCORRECTABLE:
    case TIDEI_CU_ILLEGAL_ADDRESS:
    case TIDEI_CU_LAUNCH_TIMEOUT:
    case TIDEI_CU_CONTEXT_IS_DESTROYED:
    case TIDEI_CU_ASSERT:
    case TIDEI_CU_HARDWARE_STACK_ERROR:
    case TIDEI_CU_ILLEGAL_INSTRUCTION:
    case TIDEI_CU_MISALIGNED_ADDRESS:
    case TIDEI_CU_INVALID_ADDRESS_SPACE:
    case TIDEI_CU_INVALID_PC:
    case TIDEI_CU_LAUNCH_FAILED:
    case TIDEI_CU_TENSOR_MEMORY_LEAK: return true;
    default: return false;
    }
}

tide_status tidei_cuda_refuse(tidei_cuda *c) {
    const char *since = atomic_load(&c->lost_since);
    if (tidei_forked())
        return tidei_fail(TIDE_E_FORKED, "cuda",
                          "this process is a fork's child; %s stays with its parent",
                          c->d.info.name);
    return tidei_fail(TIDE_E_LOST, "cuda", "%s is unusable since %s", c->d.info.name,
                      since ? since : "an earlier failure");
}

tide_status tidei_cuda_failed(tidei_cuda *c, tidei_cu_result r, const char *what, ...) {
    TIDEI_UNCANCELLED;
    char call[256];
    const char *name = tidei_cu_name(c->cu, r), *text = NULL;
    va_list args;
    va_start(args, what);
    tidei_vformat(call, sizeof call, what, args);
    va_end(args);
    if (r == TIDEI_CU_OUT_OF_MEMORY)
        return tidei_fail(TIDE_E_NOMEM, "cuda", "%s: %s: out of memory", c->d.info.name, call);
    if (c->cu->cuGetErrorString(r, &text) != TIDEI_CU_SUCCESS || !text) text = "";
    if (!is_fatal(r))
        return tidei_fail(TIDE_E_DEVICE, "cuda", "%s: %s: %s (%u): %s", c->d.info.name, call, name,
                          r, text);
    const char *none = NULL;
    atomic_compare_exchange_strong(&c->lost_since, &none, name);
    atomic_store(&c->d.lost, true);
    return tidei_fail(TIDE_E_LOST, "cuda",
                      "%s reported %s (%u: %s) at %s, caused by this work or some queued before "
                      "it; the device cannot be "
                      "used any more",
                      c->d.info.name, name, r, text, call);
}

static void cuda_lose(tidei_device *d, const char *why) {
    const char *none = NULL;
    atomic_compare_exchange_strong(&tidei_cuda_of(d)->lost_since, &none, why);
    atomic_store(&d->lost, true);
}

/* ---- closing ---- */

static void cuda_close(tidei_device *d) {
    TIDEI_UNCANCELLED;
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (c->ctx && tidei_cuda_enter_release(c, &visit)) {
        for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++)
            for (unsigned j = 0; j < TIDEI_CUDA_PENDING; j++)
                if (c->streams[i].pending[j].event)
                    c->cu->cuEventDestroy(c->streams[i].pending[j].event);
        if (c->words) c->cu->cuMemFreeHost(c->words);
        if (c->copier.module) c->cu->cuModuleUnload(c->copier.module);
        tidei_cuda_leave(c, &visit);
        tidei_cu_ctx now = NULL; /* not left current: it may be the last reference that goes */
        if (c->cu->cuCtxGetCurrent(&now) == TIDEI_CU_SUCCESS && now == c->ctx)
            c->cu->cuCtxSetCurrent(NULL);
        c->cu->cuDevicePrimaryCtxRelease(c->dev);
    }
    for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++) pthread_mutex_destroy(&c->streams[i].lock);
    pthread_mutex_destroy(&c->copier.lock);
    pthread_mutex_destroy(&c->peers.lock);
    pthread_mutex_destroy(&c->lock);
    tidei_host_free(c->rt, c);
}

static const struct tidei_device_ops ops = {
    .name = "cuda",
    .reserve = tidei_cuda_reserve,
    .unreserve = tidei_cuda_unreserve,
    .page_new = tidei_cuda_page_new,
    .page_release = tidei_cuda_page_release,
    .map = tidei_cuda_map,
    .unmap = tidei_cuda_unmap,
    .raw_alloc = tidei_cuda_raw_alloc,
    .raw_free = tidei_cuda_raw_free,
    .prefetch = tidei_cuda_prefetch,
    .advise = tidei_cuda_advise,
    .peer_possible = tidei_cuda_peer_possible,
    .peer_enable = tidei_cuda_peer_enable,
    .memory = tidei_cuda_memory,
    .mempool_new = tidei_cuda_mempool_new,
    .mempool_release = tidei_cuda_mempool_release,
    .mempool_alloc = tidei_cuda_mempool_alloc,
    .mempool_free = tidei_cuda_mempool_free,
    .mempool_set = tidei_cuda_mempool_set,
    .mempool_trim = tidei_cuda_mempool_trim,
    .mempool_figures = tidei_cuda_mempool_figures,
    .stream_new = tidei_cuda_stream_new,
    .stream_adopt = tidei_cuda_stream_adopt,
    .stream_usable = tidei_cuda_stream_usable,
    .stream_release = tidei_cuda_stream_release,
    .stream_sync = tidei_cuda_stream_sync,
    .stream_native = tidei_cuda_stream_native,
    .stream_lend = tidei_cuda_stream_lend,
    .event_new = tidei_cuda_event_new,
    .event_release = tidei_cuda_event_release,
    .event_record = tidei_cuda_event_record,
    .event_wait = tidei_cuda_event_wait,
    .publish = tidei_cuda_publish,
    .completed = tidei_cuda_completed,
    .copy = tidei_cuda_copy,
    .host_pinned = tidei_cuda_host_pinned,
    .copy_many = tidei_cuda_copy_many,
    .copy_many_prepare = tidei_cuda_copy_many_prepare,
    .fill = tidei_cuda_fill,
    .kernel_new = tidei_cuda_kernel_new,
    .kernel_compile = tidei_cuda_kernel_compile,
    .kernel_release = tidei_cuda_kernel_release,
    .kernel_widen = tidei_cuda_kernel_widen,
    .launch = tidei_cuda_launch,
    .graph_new = tidei_cuda_graph_new,
    .graph_add = tidei_cuda_graph_add,
    .graph_capture_begin = tidei_cuda_graph_capture_begin,
    .graph_capture_end = tidei_cuda_graph_capture_end,
    .graph_finish = tidei_cuda_graph_finish,
    .graph_launch = tidei_cuda_graph_launch,
    .graph_release = tidei_cuda_graph_release,
    .lose = cuda_lose,
    .close = cuda_close,
};

/* ---- opening ---- */

/* ns a byte: a page of 2 MiB is made, mapped and opened to the device in 50 us */
#define FRESH_NS 0.025
/* Pageable memory up to this size the driver copies aside and returns; larger pieces wait for the
** stream's work first (measured: 1 MiB in 0.1 ms, 4 MiB after the 54 ms that were queued). */
#define STAGED TIDEI_MIB
/* A kernel node takes about so much (10 KB were seen: NVIDIA/cccl#3768). */
#define NODE_BYTES (10 * TIDEI_KIB)
#define ALIGN      256 /* bytes; what cuMemAlloc promises and cuBLAS wants of a workspace */
/* addresses to reserve, as a multiple of the device's memory: a pool's range has holes between
** pinned blocks */
#define VA_MULTIPLE 8

static tide_status find_device(tidei_cuda *c, int ordinal) {
    int n = 0;
    tidei_cu_result r = c->cu->cuDeviceGetCount(&n);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuDeviceGetCount");
    if (ordinal < 0 || ordinal >= n)
        return tidei_fail(TIDE_E_NODEVICE, "cuda", "there is no cuda:%d: the driver shows %d GPU%s",
                          ordinal, n, n == 1 ? "" : "s");
    c->d.info.ordinal = ordinal;
    c->d.info.count = n;
    return tidei_cuda_status(c, c->cu->cuDeviceGet(&c->dev, ordinal), "cuDeviceGet(%d)", ordinal);
}

/* An attribute of the device; 0 where the driver does not answer, for a driver that does not know
** an ability does not have it. */
static int attribute(tidei_cuda *c, unsigned which) {
    int v = 0;
    return c->cu->cuDeviceGetAttribute(&v, which, c->dev) == TIDEI_CU_SUCCESS ? v : 0;
}

/* Larger clusters have to be allowed kernel by kernel, where the driver can; H100s, H200s and B200s
** take them, other devices need not be asked. */
static unsigned cluster_most(const tidei_cuda *c, int sm_major) {
    if (sm_major < 9) return 1;
    return c->cu->cuFuncSetAttribute && c->cu->cuOccupancyMaxActiveClusters &&
                   (sm_major == 9 || sm_major == 10)
               ? 2 * TIDEI_CLUSTER_SURE
               : TIDEI_CLUSTER_SURE;
}

/* Reads the attributes that every device must have. */
static tide_status read_attributes(tidei_cuda *c, int *unified_addressing) {
    tidei_device_info *info = &c->d.info;
    const struct {
        unsigned which;
        int *at;
    } all[] = {{TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MAJOR, &info->sm_major},
               {TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MINOR, &info->sm_minor},
               {TIDEI_CU_ATTR_MULTIPROCESSOR_COUNT, &info->sm_count},
               {TIDEI_CU_ATTR_MAX_THREADS_PER_BLOCK, &info->max_threads},
               {TIDEI_CU_ATTR_UNIFIED_ADDRESSING, unified_addressing}};
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        tidei_cu_result r = c->cu->cuDeviceGetAttribute(all[i].at, all[i].which, c->dev);
        if (r != TIDEI_CU_SUCCESS)
            return tidei_cuda_failed(c, r, "cuDeviceGetAttribute(%u)", all[i].which);
    }
    c->sm = info->sm_major * 10 + info->sm_minor;
    info->cluster_most = cluster_most(c, info->sm_major);
    return TIDE_OK;
}

static tide_status read_info(tidei_cuda *c, int ordinal) {
    tidei_device_info *info = &c->d.info;
    size_t total = 0;
    int unified_addressing = 0;
    tidei_cu_result r = c->cu->cuDeviceTotalMem(&total, c->dev);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuDeviceTotalMem");
    r = c->cu->cuDeviceGetName(info->model, (int)sizeof info->model, c->dev);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuDeviceGetName");
    info->flags = TIDEI_DEV_RUNS_TEXT | TIDEI_DEV_COPIES_WAIT;
    if (c->cu->cuMemAllocManaged && attribute(c, TIDEI_CU_ATTR_CONCURRENT_MANAGED_ACCESS))
        info->flags |= TIDEI_DEV_UNIFIED;
    if (tidei_cuda_has_graphs(c->cu)) info->flags |= TIDEI_DEV_GRAPHS;
    info->graph_node_bytes = NODE_BYTES;
    info->staged_bytes = STAGED;
    info->align = ALIGN;
    info->total_bytes = total;
    info->va_bytes = total > SIZE_MAX / VA_MULTIPLE ? total : total * VA_MULTIPLE;
    c->write_value =
        c->cu->cuStreamWriteValue64 && attribute(c, TIDEI_CU_ATTR_64_BIT_STREAM_MEM_OPS);
    tide_status s = read_attributes(c, &unified_addressing);
    if (s != TIDE_OK) return s;
    if (!unified_addressing)
        return tidei_fail(TIDE_E_NODEVICE, "cuda",
                          "cuda:%d (%s) shares no address space with the host", ordinal,
                          info->model);
    return TIDE_OK;
}

/* The size of pages that can be shared so. */
static tidei_cu_result read_granule(const tidei_cuda *c, unsigned shares, size_t *out) {
    tidei_cu_alloc_prop prop = tidei_cuda_page_prop(c, shares);
    *out = 0;
    return c->cu->cuMemGetAllocationGranularity(out, &prop, TIDEI_CU_MEM_GRANULARITY_MINIMUM);
}

/* Reads the size of pages that can be mapped anywhere, where the driver has such pages, and how
** they may be shared. */
static tide_status read_pages(tidei_cuda *c) {
    const tidei_cu *cu = c->cu;
    size_t granule = 0;
    unsigned shares = 0;
    c->d.info.fresh_ns = FRESH_NS;
    /* limits are rounded to this even where there are no pages */
    c->d.info.page_bytes = 2 * TIDEI_MIB;
    c->page_prop.type = TIDEI_CU_MEM_ALLOCATION_TYPE_PINNED;
    c->page_prop.location = (tidei_cu_location){TIDEI_CU_MEM_LOCATION_TYPE_DEVICE, c->dev};
    c->peers.who[0] = tidei_cuda_access(c);
    atomic_store(&c->peers.n, 1);
    if (!attribute(c, TIDEI_CU_ATTR_VIRTUAL_MEMORY_MANAGEMENT) || !cu->cuMemAddressReserve ||
        !cu->cuMemAddressFree || !cu->cuMemCreate || !cu->cuMemRelease || !cu->cuMemMap ||
        !cu->cuMemUnmap || !cu->cuMemSetAccess || !cu->cuMemGetAllocationGranularity)
        return TIDE_OK;
    if (attribute(c, TIDEI_CU_ATTR_POSIX_FILE_DESCRIPTOR)) shares |= TIDEI_CUDA_BY_DESCRIPTOR;
    if (attribute(c, TIDEI_CU_ATTR_RDMA_WITH_PAGES)) shares |= TIDEI_CUDA_BY_RDMA;
    tidei_cu_result r = read_granule(c, shares, &granule);
    if (shares && tidei_cuda_refuses_sharing(r)) r = read_granule(c, shares = 0, &granule);
    atomic_store(&c->shares, shares);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuMemGetAllocationGranularity");
    if (granule) c->d.info.page_bytes = granule;
    c->d.info.va_bytes = tidei_round_up(c->d.info.va_bytes, c->d.info.page_bytes);
    c->d.info.flags |= TIDEI_DEV_PAGES;
    return TIDE_OK;
}

static tide_status make_words(tidei_cuda *c) {
    size_t bytes = (1 + TIDEI_STREAMS_MAX) * TIDEI_CUDA_LINE;
    tidei_cu_addr addr = 0;
    void *p = NULL;
    tidei_cu_result r = c->cu->cuMemHostAlloc(
        &p, bytes, TIDEI_CU_MEMHOSTALLOC_PORTABLE | TIDEI_CU_MEMHOSTALLOC_DEVICEMAP);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuMemHostAlloc(%zu bytes)", bytes);
    c->words = p;
    memset(c->words, 0, bytes);
    r = c->cu->cuMemHostGetDevicePointer(&addr, c->words, 0);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuMemHostGetDevicePointer");
    c->d.fault_word = (_Atomic uint64_t *)(void *)c->words;
    c->d.fault_addr = addr;
    for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++) {
        size_t at = (i + 1) * TIDEI_CUDA_LINE;
        c->streams[i].word = (_Atomic uint64_t *)(void *)(c->words + at);
        c->streams[i].word_addr = addr + at;
    }
    return TIDE_OK;
}

static tide_status open_context(tidei_cuda *c) {
    tidei_cuda_visit visit;
    tidei_cu_result r = c->cu->cuDevicePrimaryCtxRetain(&c->ctx, c->dev);
    if (r != TIDEI_CU_SUCCESS) {
        c->ctx = NULL;
        return tidei_cuda_failed(c, r, "cuDevicePrimaryCtxRetain");
    }
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    s = read_pages(c);
    if (s == TIDE_OK) s = make_words(c);
    tidei_cuda_leave(c, &visit);
    return s;
}

/* Whether the program's first kernel is compiled for certain, as none was ever kept. */
static bool compiles(const tidei_runtime *rt) {
    if (!rt) return false;
    const tidei_settings *set = &rt->set;
    return !set->cache || !set->cache_max || !*set->cache_dir || access(set->cache_dir, F_OK);
}

/* The architecture whose kernels wait by themselves: kt_grid_wait in arrays/kernels/text.h. */
#define WAITING_SINCE 90

/* The compiler is opened, and compiles what is wanted early, while the driver makes the context,
** which takes 130 ms. */
static tide_status open_both(tidei_cuda *c, tidei_early *early) {
    tidei_nvrtc_opening compiler;
    tidei_saved_error e;
    tidei_nvrtc_begin(&compiler, c->cu->version, c->sm, compiles(c->rt) ? early : NULL);
    tide_status s = open_context(c);
    tidei_error_save(&e);
    tide_status compiler_s = tidei_nvrtc_finish(&compiler);
    if (compiler_s == TIDE_OK && s != TIDE_OK) tidei_error_restore(&e);
    c->kernels_wait = tidei_nvrtc_arch(c->sm) >= WAITING_SINCE;
    return compiler_s == TIDE_OK ? s : compiler_s;
}

tide_status tidei_cuda_open(const tidei_device_params *p, tidei_device **out) {
    TIDEI_UNCANCELLED;
    const tidei_cu *cu;
    tide_status s = tidei_cu_open(&cu);
    if (s != TIDE_OK) return s;
    tidei_cuda *c = tidei_host_alloc(p->rt, sizeof *c);
    if (!c) return tidei_fail_host_memory("tide_open", sizeof *c);
    c->d.ops = &ops;
    c->cu = cu;
    c->rt = p->rt;
    c->stays = !p->rt || !p->rt->devs; /* this is the runtime's first device */
    tidei_format(c->d.info.name, sizeof c->d.info.name, "cuda:%d", p->ordinal);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->copier.lock, NULL);
    pthread_mutex_init(&c->peers.lock, NULL);
    for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++) pthread_mutex_init(&c->streams[i].lock, NULL);
    s = find_device(c, p->ordinal);
    if (s == TIDE_OK) s = read_info(c, p->ordinal);
    if (s == TIDE_OK) s = open_both(c, p->early);
    if (s != TIDE_OK) {
        tidei_saved_error e;
        tidei_error_save(&e);
        cuda_close(&c->d);
        tidei_error_restore(&e);
        return s;
    }
    *out = &c->d;
    return TIDE_OK;
}
