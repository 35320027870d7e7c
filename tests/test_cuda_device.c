/* test_cuda_device.c: the `cuda` device over a double of the driver that keeps everything in host memory and does all work at
** once: what the device asks for, in which order, what it does with refusals, and that it gives everything back. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/device/cuda/copy_many.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/emulate.h"
#include "tests/tidetest.h"

#define PAGE ((size_t)2 << 20)

/* ---- the double ---- */

static struct {
    int contexts, pinned, allocs, streams, events, handles, modules, reservations, pools; /* alive */
    int maps, accesses, syncs, pushes, calls;                                             /* asked for so far */
    struct CUctx_st *current, *stacked;
    const char *failing; /* the call that fails, after `skip` more that do not */
    int skip;
    tidei_cu_result error;
    bool pinned_source, event_pending, no_pools;
    tidei_cu_u64 threshold; /* of a pool, like the rest of this line */
    int rules[4];
    size_t pool_bytes, trimmed_to;
    int write_value;
    int memory; /* memfd behind the pages */
    size_t memory_bytes;
    unsigned grid[3], block[3], shared;
    char params[64];
    size_t params_bytes;
    int loads, copies, batches[2]; /* asked for so far; batches: launches of the kernels that copy */
    bool no_many;                  /* the larger one is not found */
    emu_module emulated;           /* those kernels */
} fake;
static char context_storage[2], stream_storage[TIDEI_STREAMS_MAX], one_event[64];
#define CONTEXT ((struct CUctx_st *)(void *)&context_storage[0])
#define FOREIGN ((struct CUctx_st *)(void *)&context_storage[1])

static tidei_cu_result try(const char *call) {
    fake.calls++;
    if (!fake.failing || strcmp(fake.failing, call) != 0) return TIDEI_CU_SUCCESS;
    return fake.skip-- > 0 ? TIDEI_CU_SUCCESS : fake.error;
}
/* As `try`, for a call that needs our context current; returns from the caller on failure. */
#define TRY(call)                                                                                                  \
    do {                                                                                                           \
        assert_ptr_equal(fake.current, CONTEXT);                                                                   \
        tidei_cu_result tried = try(call);                                                                         \
        if (tried != TIDEI_CU_SUCCESS) return tried;                                                               \
    } while (0)
#define PTR(addr) ((void *)(uintptr_t)(addr))

static tidei_cu_result f_name(tidei_cu_result r, const char **out) {
    *out = r == TIDEI_CU_OUT_OF_MEMORY
               ? "CUDA_ERROR_OUT_OF_MEMORY"
               : (r == TIDEI_CU_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_X");
    return 0;
}
static tidei_cu_result f_string(tidei_cu_result r, const char **out) {
    (void)r;
    *out = "said in words";
    return 0;
}
static tidei_cu_result f_count(int *n) { return *n = 1, try("cuDeviceGetCount"); }
static tidei_cu_result f_get(tidei_cu_device *d, int i) { return *d = i, 0; }
static tidei_cu_result f_devname(char *s, int n, tidei_cu_device d) {
    return (void)d, snprintf(s, (size_t)n, "Double"), 0;
}
static tidei_cu_result f_attr(int *v, tidei_cu_attribute a, tidei_cu_device d) {
    (void)d;
    *v = a == TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MAJOR   ? 9
         : a == TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MINOR ? 0
         : a == TIDEI_CU_ATTR_MEMORY_POOLS             ? !fake.no_pools
         : a == TIDEI_CU_ATTR_64_BIT_STREAM_MEM_OPS    ? fake.write_value
                                                       : 1;
    return 0;
}
static tidei_cu_result f_total(size_t *n, tidei_cu_device d) { return (void)d, *n = (size_t)1 << 30, 0; }
static tidei_cu_result f_retain(tidei_cu_ctx *c, tidei_cu_device d) {
    tidei_cu_result r = try("cuDevicePrimaryCtxRetain");
    (void)d;
    if (r) return r;
    fake.contexts++;
    *c = CONTEXT;
    return 0;
}
static tidei_cu_result f_release(tidei_cu_device d) { return (void)d, fake.calls++, fake.contexts--, 0; }
static tidei_cu_result f_current(tidei_cu_ctx *c) { return *c = fake.current, 0; }
static tidei_cu_result f_set(tidei_cu_ctx c) { return fake.current = c, 0; }
static tidei_cu_result f_push(tidei_cu_ctx c) {
    return fake.pushes++, fake.stacked = fake.current, fake.current = c, 0;
}
static tidei_cu_result f_pop(tidei_cu_ctx *c) { return *c = fake.current, fake.current = fake.stacked, 0; }
static tidei_cu_result f_info(size_t *f, size_t *t) {
    TRY("cuMemGetInfo");
    return *f = 7, *t = 9, 0;
}
static tidei_cu_result f_alloc(tidei_cu_addr *a, size_t n) {
    TRY("cuMemAlloc");
    fake.allocs++;
    return *a = (uintptr_t)malloc(n), 0;
}
static tidei_cu_result f_free(tidei_cu_addr a) { return fake.allocs--, free(PTR(a)), 0; }
static tidei_cu_result f_host(void **p, size_t n, unsigned flags) {
    (void)flags;
    TRY("cuMemHostAlloc");
    fake.pinned++;
    return *p = malloc(n), 0;
}
static tidei_cu_result f_free_host(void *p) { return fake.pinned--, free(p), 0; }
static tidei_cu_result f_device_pointer(tidei_cu_addr *a, void *p, unsigned f) {
    return (void)f, *a = (uintptr_t)p, 0;
}
static tidei_cu_result f_attributes(unsigned n, tidei_cu_pointer_attribute *a, void **out, tidei_cu_addr p) {
    (void)p;
    assert_int_equal(n, 1);
    assert_int_equal(a[0], TIDEI_CU_POINTER_MEMORY_TYPE);
    *(unsigned *)out[0] = fake.pinned_source ? TIDEI_CU_MEMORYTYPE_HOST : 0;
    return 0;
}
static tidei_cu_result f_reserve(tidei_cu_addr *a, size_t n, size_t align, tidei_cu_addr hint,
                                 unsigned long long f) {
    (void)align, (void)hint, (void)f;
    TRY("cuMemAddressReserve");
    void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    fake.reservations++;
    return *a = (uintptr_t)p, 0;
}
static tidei_cu_result f_unreserve(tidei_cu_addr a, size_t n) { return fake.reservations--, munmap(PTR(a), n), 0; }
static tidei_cu_result f_granularity(size_t *g, const tidei_cu_alloc_prop *p, tidei_cu_granularity o) {
    return (void)p, (void)o, *g = PAGE, 0;
}
static tidei_cu_result f_create(tidei_cu_handle *h, size_t n, const tidei_cu_alloc_prop *p, unsigned long long f) {
    (void)f;
    assert_int_equal(p->location.type, TIDEI_CU_MEM_LOCATION_TYPE_DEVICE);
    TRY("cuMemCreate");
    *h = fake.memory_bytes;
    fake.memory_bytes += n;
    assert_int_equal(ftruncate(fake.memory, (off_t)fake.memory_bytes), 0);
    return fake.handles++, 0;
}
static tidei_cu_result f_destroy_handle(tidei_cu_handle h) { return (void)h, fake.handles--, 0; }
static tidei_cu_result f_map(tidei_cu_addr a, size_t n, size_t off, tidei_cu_handle h, unsigned long long f) {
    (void)f;
    TRY("cuMemMap");
    fake.maps++;
    void *p = mmap(PTR(a), n, PROT_NONE, MAP_SHARED | MAP_FIXED, fake.memory, (off_t)(h + off));
    assert_ptr_equal(p, PTR(a));
    return 0;
}
static tidei_cu_result f_access(tidei_cu_addr a, size_t n, const tidei_cu_access *d, size_t count) {
    TRY("cuMemSetAccess");
    assert_int_equal(count, 1);
    assert_int_equal(d->flags, TIDEI_CU_MEM_ACCESS_READWRITE);
    assert_int_equal(mprotect(PTR(a), n, PROT_READ | PROT_WRITE), 0);
    return fake.accesses++, 0;
}
static tidei_cu_result f_unmap(tidei_cu_addr a, size_t n) {
    TRY("cuMemUnmap");
    fake.maps -= (int)(n / PAGE);
    void *p = mmap(PTR(a), n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(p, PTR(a));
    return 0;
}
static tidei_cu_result f_stream(tidei_cu_stream *s, unsigned flags) {
    TRY("cuStreamCreate");
    assert_int_equal(flags, TIDEI_CU_STREAM_NON_BLOCKING);
    return *s = (struct CUstream_st *)(void *)&stream_storage[fake.streams++], 0;
}
static tidei_cu_result f_stream_destroy(tidei_cu_stream s) { return (void)s, fake.calls++, fake.streams--, 0; }
static tidei_cu_result f_sync(tidei_cu_stream s) {
    (void)s;
    TRY("cuStreamSynchronize");
    return fake.syncs++, 0;
}
static tidei_cu_result f_wait(tidei_cu_stream s, tidei_cu_event e, unsigned f) {
    (void)s, (void)e, (void)f;
    TRY("cuStreamWaitEvent");
    return 0;
}
static tidei_cu_result f_write(tidei_cu_stream s, tidei_cu_addr a, tidei_cu_u64 v, unsigned f) {
    (void)s, (void)f;
    TRY("cuStreamWriteValue64");
    *(uint64_t *)PTR(a) = v;
    return 0;
}
static tidei_cu_result f_event(tidei_cu_event *e, unsigned flags) {
    TRY("cuEventCreate");
    assert_int_equal(flags, TIDEI_CU_EVENT_DISABLE_TIMING);
    return *e = (struct CUevent_st *)(void *)&one_event[fake.events++], 0;
}
static tidei_cu_result f_event_destroy(tidei_cu_event e) { return (void)e, fake.calls++, fake.events--, 0; }
static tidei_cu_result f_record(tidei_cu_event e, tidei_cu_stream s) {
    (void)e, (void)s;
    TRY("cuEventRecord");
    return 0;
}
static tidei_cu_result f_query(tidei_cu_event e) { return (void)e, fake.event_pending ? TIDEI_CU_NOT_READY : 0; }
static tidei_cu_result f_in(tidei_cu_addr d, const void *h, size_t n, tidei_cu_stream s) {
    (void)s;
    TRY("cuMemcpyHtoDAsync");
    return memcpy(PTR(d), h, n), 0;
}
static tidei_cu_result f_out(void *h, tidei_cu_addr d, size_t n, tidei_cu_stream s) {
    (void)s;
    TRY("cuMemcpyDtoHAsync");
    return memcpy(h, PTR(d), n), 0;
}
static tidei_cu_result f_copy(tidei_cu_addr d, tidei_cu_addr a, size_t n, tidei_cu_stream s) {
    (void)s;
    TRY("cuMemcpyAsync");
    fake.copies++;
    return memcpy(PTR(d), PTR(a), n), 0; /* as on the GPU, the two must not overlap: ASan would say so */
}
static tidei_cu_result f_set8(tidei_cu_addr d, unsigned char v, size_t n, tidei_cu_stream s) {
    (void)s;
    TRY("cuMemsetD8Async");
    return memset(PTR(d), v, n), 0;
}
static tidei_cu_result f_set16(tidei_cu_addr d, unsigned short v, size_t n, tidei_cu_stream s) {
    (void)s;
    TRY("cuMemsetD16Async");
    for (size_t i = 0; i < n; i++) ((unsigned short *)PTR(d))[i] = v;
    return 0;
}
static tidei_cu_result f_set32(tidei_cu_addr d, unsigned v, size_t n, tidei_cu_stream s) {
    (void)s;
    TRY("cuMemsetD32Async");
    for (size_t i = 0; i < n; i++) ((unsigned *)PTR(d))[i] = v;
    return 0;
}
static tidei_cu_result f_set2d(tidei_cu_addr d, size_t pitch, unsigned v, size_t w, size_t h, tidei_cu_stream s) {
    (void)s;
    TRY("cuMemsetD2D32Async");
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) *(unsigned *)PTR(d + y * pitch + x * 4) = v;
    return 0;
}
static tidei_cu_result f_load(tidei_cu_module *m, const void *image) {
    fake.loads++;
    TRY("cuModuleLoadData");
    assert_memory_equal(image, "\177ELF", 4);
    fake.modules++;
    return *m = (struct CUmod_st *)(void *)&fake, 0;
}
static tidei_cu_result f_unload(tidei_cu_module m) { return (void)m, fake.modules--, 0; }
static tidei_cu_result f_function(tidei_cu_function *f, tidei_cu_module m, const char *name) {
    (void)m;
    TRY("cuModuleGetFunction");
    if (!strcmp(name, "tide_copy_few")) return *f = (struct CUfunc_st *)(void *)&fake.batches[0], 0;
    if (!strcmp(name, "tide_copy_many") && fake.no_many) return TIDEI_CU_NOT_FOUND;
    if (!strcmp(name, "tide_copy_many")) return *f = (struct CUfunc_st *)(void *)&fake.batches[1], 0;
    assert_string_equal(name, "nothing");
    return *f = (struct CUfunc_st *)(void *)&fake, 0;
}
static void run_batch(int many, unsigned blocks, unsigned threads, void **params) {
    assert_int_equal(threads, EMU_THREADS);
    emu_launch(&fake.emulated, (unsigned)many, blocks, 1, params[0], false);
    fake.batches[many]++;
}
static tidei_cu_result f_launch(tidei_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                unsigned by, unsigned bz, unsigned shared, tidei_cu_stream s, void **params,
                                void **extra) {
    (void)s;
    TRY("cuLaunchKernel");
    int *of = (int *)(void *)f;
    if (of == &fake.batches[0] || of == &fake.batches[1])
        return run_batch(of == &fake.batches[1], gx, bx, params), 0;
    assert_null(params);
    fake.grid[0] = gx, fake.grid[1] = gy, fake.grid[2] = gz;
    fake.block[0] = bx, fake.block[1] = by, fake.block[2] = bz;
    fake.shared = shared;
    assert_ptr_equal(extra[0], PTR(TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER));
    assert_ptr_equal(extra[2], PTR(TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE));
    assert_ptr_equal(extra[4], PTR(TIDEI_CU_LAUNCH_PARAM_END));
    fake.params_bytes = *(size_t *)extra[3];
    return memcpy(fake.params, extra[1], fake.params_bytes), 0;
}

/* ---- pools: a block bears its size before it ---- */

static tidei_cu_result f_pool(tidei_cu_pool *out, const tidei_cu_pool_props *p) {
    TRY("cuMemPoolCreate");
    assert_int_equal(p->type, TIDEI_CU_MEM_ALLOCATION_TYPE_PINNED);
    assert_int_equal(p->location.type, TIDEI_CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(p->max_bytes, 0);
    fake.pools++;
    return *out = (tidei_cu_pool)(void *)&fake.pools, 0;
}
static tidei_cu_result f_pool_destroy(tidei_cu_pool p) { return (void)p, fake.pools--, 0; }
static tidei_cu_result f_pool_set(tidei_cu_pool p, tidei_cu_pool_attribute a, void *value) {
    TRY("cuMemPoolSetAttribute");
    assert_ptr_equal(p, &fake.pools);
    if (a == TIDEI_CU_POOL_RELEASE_THRESHOLD) return fake.threshold = *(tidei_cu_u64 *)value, 0;
    assert_in_range(a, 1, 3);
    return fake.rules[a] = *(int *)value, 0;
}
static tidei_cu_result f_pool_get(tidei_cu_pool p, tidei_cu_pool_attribute a, void *value) {
    TRY("cuMemPoolGetAttribute");
    assert_ptr_equal(p, &fake.pools);
    size_t reserved = tidei_round_up(fake.pool_bytes, PAGE);
    return *(tidei_cu_u64 *)value = a == TIDEI_CU_POOL_RESERVED_CURRENT ? reserved : fake.pool_bytes, 0;
}
static tidei_cu_result f_pool_trim(tidei_cu_pool p, size_t keep) {
    TRY("cuMemPoolTrimTo");
    return (void)p, fake.trimmed_to = keep, 0;
}
static tidei_cu_result f_pool_alloc(tidei_cu_addr *out, size_t n, tidei_cu_pool p, tidei_cu_stream s) {
    TRY("cuMemAllocFromPoolAsync");
    assert_ptr_equal(p, &fake.pools);
    assert_non_null(s);
    size_t *block = malloc(256 + n);
    *block = n;
    fake.pool_bytes += n;
    fake.allocs++;
    return *out = (tidei_cu_addr)(uintptr_t)block, 0;
}
static tidei_cu_result f_free_async(tidei_cu_addr a, tidei_cu_stream s) {
    TRY("cuMemFreeAsync");
    assert_non_null(s);
    fake.pool_bytes -= *(size_t *)PTR(a);
    return f_free(a);
}

static const tidei_cu driver = {.version = 13000,
                                .cuGetErrorName = f_name,
                                .cuGetErrorString = f_string,
                                .cuDeviceGetCount = f_count,
                                .cuDeviceGet = f_get,
                                .cuDeviceGetName = f_devname,
                                .cuDeviceGetAttribute = f_attr,
                                .cuDeviceTotalMem = f_total,
                                .cuDevicePrimaryCtxRetain = f_retain,
                                .cuDevicePrimaryCtxRelease = f_release,
                                .cuCtxGetCurrent = f_current,
                                .cuCtxSetCurrent = f_set,
                                .cuCtxPushCurrent = f_push,
                                .cuCtxPopCurrent = f_pop,
                                .cuMemGetInfo = f_info,
                                .cuMemAlloc = f_alloc,
                                .cuMemFree = f_free,
                                .cuMemHostAlloc = f_host,
                                .cuMemFreeHost = f_free_host,
                                .cuMemHostGetDevicePointer = f_device_pointer,
                                .cuPointerGetAttributes = f_attributes,
                                .cuMemAddressReserve = f_reserve,
                                .cuMemAddressFree = f_unreserve,
                                .cuMemCreate = f_create,
                                .cuMemRelease = f_destroy_handle,
                                .cuMemMap = f_map,
                                .cuMemUnmap = f_unmap,
                                .cuMemSetAccess = f_access,
                                .cuMemGetAllocationGranularity = f_granularity,
                                .cuMemPoolCreate = f_pool,
                                .cuMemPoolDestroy = f_pool_destroy,
                                .cuMemPoolSetAttribute = f_pool_set,
                                .cuMemPoolGetAttribute = f_pool_get,
                                .cuMemPoolTrimTo = f_pool_trim,
                                .cuMemAllocFromPoolAsync = f_pool_alloc,
                                .cuMemFreeAsync = f_free_async,
                                .cuStreamCreate = f_stream,
                                .cuStreamDestroy = f_stream_destroy,
                                .cuStreamSynchronize = f_sync,
                                .cuStreamWaitEvent = f_wait,
                                .cuStreamWriteValue64 = f_write,
                                .cuEventCreate = f_event,
                                .cuEventDestroy = f_event_destroy,
                                .cuEventRecord = f_record,
                                .cuEventQuery = f_query,
                                .cuMemcpyHtoDAsync = f_in,
                                .cuMemcpyDtoHAsync = f_out,
                                .cuMemcpyAsync = f_copy,
                                .cuMemsetD8Async = f_set8,
                                .cuMemsetD16Async = f_set16,
                                .cuMemsetD32Async = f_set32,
                                .cuMemsetD2D32Async = f_set2d,
                                .cuModuleLoadData = f_load,
                                .cuModuleUnload = f_unload,
                                .cuModuleGetFunction = f_function,
                                .cuLaunchKernel = f_launch};

/* ---- around every case ---- */

static int setup(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.write_value = 1;
    fake.memory = memfd_create("pages", 0);
    tidei_cu_use(&driver);
    return fake.memory < 0;
}

static int teardown(void **state) {
    (void)state;
    tidei_cu_use(NULL);
    close(fake.memory);
    return 0;
}

static void assert_nothing_left(void) {
    assert_int_equal(fake.contexts, 0);
    assert_int_equal(fake.pinned, 0);
    assert_int_equal(fake.allocs, 0);
    assert_int_equal(fake.streams, 0);
    assert_int_equal(fake.events, 0);
    assert_int_equal(fake.handles, 0);
    assert_int_equal(fake.modules, 0);
    assert_int_equal(fake.maps, 0);
    assert_int_equal(fake.reservations, 0);
    assert_int_equal(fake.pools, 0);
    assert_ptr_not_equal(fake.current, CONTEXT);
}

static tidei_device *open_double(void) {
    tidei_device *d = NULL;
    tidei_device_params p = {0};
    if (tidei_nvrtc_open(0) != TIDE_OK) skip(); /* the device is refused without a compiler */
    assert_ok(tidei_cuda_open(&p, &d));
    return d;
}

static void fail_at(const char *call, int skipped, tidei_cu_result r) {
    fake.failing = call;
    fake.skip = skipped;
    fake.error = r;
}

/* ---- cases ---- */

static void test_opens_and_closes(void **state) {
    (void)state;
    tidei_device *d = open_double();
    assert_string_equal(d->info.name, "cuda:0");
    assert_string_equal(d->info.model, "Double");
    assert_int_equal(d->info.flags, TIDEI_DEV_RUNS_TEXT | TIDEI_DEV_PAGES | TIDEI_DEV_COPIES_WAIT);
    assert_int_equal(d->info.page_bytes, PAGE);
    assert_int_equal(d->info.va_bytes % PAGE, 0);
    assert_true(d->info.va_bytes >= d->info.total_bytes);
    assert_int_equal(*d->fault_word, 0);
    assert_int_equal(fake.contexts, 1);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_refuses_with_a_reason(void **state) {
    tidei_device *d = NULL;
    tidei_device_params p = {.ordinal = 3};
    (void)state;
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
    assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_NODEVICE);
    assert_error(TIDE_E_NODEVICE, "there is no cuda:3: the driver shows 1 GPU");
    p.ordinal = 0;
    static const char *const calls[] = {"cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuMemHostAlloc"};
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
        fail_at(calls[i], 0, TIDEI_CU_OUT_OF_MEMORY);
        assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_NOMEM);
        assert_error(TIDE_E_NOMEM, calls[i]);
        assert_null(d);
        assert_nothing_left();
    }
}

/* Without a driver (or a device) the answer says which it is. Where there is a GPU, it opens. */
static void test_the_real_driver(void **state) {
    tidei_device *d = NULL;
    tidei_device_params p = {0};
    (void)state;
    tidei_cu_use(NULL);
    if (tidei_cuda_open(&p, &d) == TIDE_OK) {
        assert_true(d->info.sm_count > 0);
        d->ops->close(d);
        return;
    }
    assert_int_equal(tide_last_error()->status, TIDE_E_NODEVICE);
    assert_true(strlen(tide_last_error()->message) > 10);
}

static void test_pools_of_the_driver(void **state) {
    (void)state;
    tidei_device *d = open_double();
    const struct tidei_device_ops *o = d->ops;
    tidei_dmempool *mp = NULL;
    tidei_dstream *s;
    tidei_addr a, b;
    size_t reserved, used;
    assert_ok(o->stream_new(d, &s));
    fake.no_pools = true;
    assert_int_equal(o->mempool_new(d, &mp), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "no stream-ordered memory pools");
    fake.no_pools = false;
    fail_at("cuMemPoolCreate", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(o->mempool_new(d, &mp), TIDE_E_NOMEM);
    assert_null(mp);
    fail_at(NULL, 0, 0);
    assert_ok(o->mempool_new(d, &mp));
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_THRESHOLD, (uint64_t)5 << 32));
    assert_int_equal(fake.threshold, (uint64_t)5 << 32);
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_REUSE_FOLLOW, 1));
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_REUSE_DONE, 0));
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_REUSE_WAIT, 1));
    assert_true(fake.rules[1] == 1 && fake.rules[2] == 0 && fake.rules[3] == 1);
    assert_ok(o->mempool_alloc(d, mp, s, 1000, &a));
    assert_ok(o->mempool_alloc(d, mp, s, 500, &b));
    assert_ok(o->mempool_figures(d, mp, &reserved, &used));
    assert_int_equal(reserved, PAGE);
    assert_int_equal(used, 1500);
    assert_ok(o->mempool_free(d, mp, s, a));
    assert_ok(o->mempool_trim(d, mp, 77));
    assert_int_equal(fake.trimmed_to, 77);
    static const char *const calls[] = {"cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuMemPoolSetAttribute",
                                        "cuMemPoolTrimTo", "cuMemPoolGetAttribute"};
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
        fail_at(calls[i], 0, TIDEI_CU_INVALID_VALUE);
        tide_status got[] = {o->mempool_alloc(d, mp, s, 1, &a), o->mempool_free(d, mp, s, b),
                             o->mempool_set(d, mp, TIDEI_MEMPOOL_THRESHOLD, 0), o->mempool_trim(d, mp, 0),
                             o->mempool_figures(d, mp, &reserved, &used)};
        for (size_t k = 0; k < TIDEI_COUNT(got); k++) assert_int_equal(got[k], k == i ? TIDE_E_DEVICE : TIDE_OK);
        assert_error(TIDE_E_DEVICE, calls[i]);
        fail_at(NULL, 0, 0);
        if (i != 1) assert_ok(o->mempool_alloc(d, mp, s, 1, &b)); /* b was freed */
        if (i) assert_ok(o->mempool_free(d, mp, NULL, a));        /* at once, by cuMemFree */
    }
    fail_at("cuMemAllocFromPoolAsync", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(o->mempool_alloc(d, mp, s, 1, &a), TIDE_E_NOMEM);
    assert_ok(o->mempool_free(d, mp, NULL, b));
    o->mempool_release(d, mp);
    o->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_another_context_is_put_back(void **state) {
    size_t f, t;
    (void)state;
    tidei_device *d = open_double();
    fake.current = NULL;
    assert_ok(d->ops->memory(d, &f, &t));
    assert_ptr_equal(fake.current, CONTEXT); /* nobody's before: ours stays */
    fake.current = FOREIGN;
    assert_ok(d->ops->memory(d, &f, &t));
    assert_ptr_equal(fake.current, FOREIGN);
    assert_int_equal(fake.pushes, 1);
    fail_at("cuMemGetInfo", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->memory(d, &f, &t), TIDE_E_DEVICE);
    assert_ptr_equal(fake.current, FOREIGN);
    d->ops->close(d);
    assert_ptr_equal(fake.current, FOREIGN);
    assert_nothing_left();
}

static void test_pages(void **state) {
    tidei_addr range;
    tidei_dpage *p[3];
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->reserve(d, 8 * PAGE, &range));
    for (int i = 0; i < 3; i++) assert_ok(d->ops->page_new(d, PAGE, &p[i]));
    assert_ok(d->ops->map(d, range, p, 3));
    assert_int_equal(fake.maps, 3);
    assert_int_equal(fake.accesses, 1); /* once a run, whatever its length */
    for (int i = 0; i < 3; i++) *(int *)PTR(range + (size_t)i * PAGE) = 40 + i;
    assert_ok(d->ops->unmap(d, range, p, 3));
    tidei_dpage *turned[] = {p[2], p[0]}; /* contents stay with the page */
    assert_ok(d->ops->map(d, range + PAGE, turned, 2));
    assert_int_equal(*(int *)PTR(range + PAGE), 42);
    assert_int_equal(*(int *)PTR(range + 2 * PAGE), 40);
    assert_ok(d->ops->unmap(d, range + PAGE, turned, 2));
    for (int fail = 0; fail < 4; fail++) { /* nothing stays mapped */
        fail_at(fail == 3 ? "cuMemSetAccess" : "cuMemMap", fail == 3 ? 0 : fail, TIDEI_CU_OUT_OF_MEMORY);
        assert_int_equal(d->ops->map(d, range, p, 3), TIDE_E_NOMEM);
        assert_int_equal(fake.maps, 0);
    }
    tidei_dpage *none = NULL;
    fail_at("cuMemCreate", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->page_new(d, PAGE, &none), TIDE_E_NOMEM);
    assert_null(none);
    for (int i = 0; i < 3; i++) d->ops->page_release(d, p[i]);
    d->ops->unreserve(d, range, 8 * PAGE);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_raw_memory(void **state) {
    tidei_addr a = 0, b = 0;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 100, &a));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_PINNED, 100, &b));
    fail_at("cuMemAlloc", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 100, &a), TIDE_E_NOMEM);
    fail_at("cuMemHostAlloc", 0,
            TIDEI_CU_OUT_OF_MEMORY); /* no device memory is missing: the ladder could not help */
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_PINNED, 100, &b), TIDE_E_HOST_NOMEM);
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, a, 100);
    d->ops->raw_free(d, TIDEI_MEM_PINNED, b, 100);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_words(void **state) {
    tidei_dstream *a, *b, *again;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &a));
    assert_ok(d->ops->stream_new(d, &b));
    assert_int_equal(d->ops->completed(d, a), 0);
    assert_ok(d->ops->publish(d, a, 5));
    assert_int_equal(d->ops->completed(d, a), 5);
    assert_int_equal(d->ops->completed(d, b), 0);
    d->ops->stream_release(d, a);
    assert_ok(d->ops->stream_new(d, &again)); /* in the same place, from the start */
    assert_ptr_equal(again, a);
    assert_int_equal(d->ops->completed(d, again), 0);
    d->ops->stream_release(d, again);
    d->ops->stream_release(d, b);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_words_by_events(void **state) {
    tidei_dstream *s;
    (void)state;
    fake.write_value = 0;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    fake.event_pending = true;
    for (uint64_t tick = 1; tick <= 100; tick++) assert_ok(d->ops->publish(d, s, tick * 10));
    assert_int_equal(d->ops->completed(d, s), 0);
    assert_int_equal(fake.events, 32); /* bounded: the newest moves on */
    fake.event_pending = false;
    assert_int_equal(d->ops->completed(d, s), 1000);
    assert_ok(d->ops->publish(d, s, 1010));
    assert_int_equal(d->ops->completed(d, s), 1010);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_copies(void **state) {
    char buf[64] = "there and back", back[64] = "";
    tidei_dstream *s;
    tidei_addr m;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 128, &m));
    tidei_copy in = {TIDEI_COPY_H2D, m, (uintptr_t)buf, 64, NULL}, across = {TIDEI_COPY_D2D, m + 64, m, 64, NULL},
               out = {TIDEI_COPY_D2H, (uintptr_t)back, m + 64, 64, NULL};
    assert_ok(d->ops->copy(d, s, &in));
    assert_int_equal(fake.syncs, 0);
    assert_ok(d->ops->copy(d, s, &across));
    assert_ok(d->ops->copy(d, s, &out));
    assert_string_equal(back, "there and back");
    fake.pinned_source = true; /* the GPU reads it later, but the caller may reuse it now */
    assert_ok(d->ops->copy(d, s, &in));
    assert_int_equal(fake.syncs, 1);
    bool busy = false; /* unless the caller waits by itself */
    in.busy = out.busy = &busy;
    assert_ok(d->ops->copy(d, s, &in));
    assert_true(busy);
    busy = false;
    assert_ok(d->ops->copy(d, s, &out));
    assert_true(busy);
    fake.pinned_source = false; /* then the driver has waited, or keeps a copy */
    assert_ok(d->ops->copy(d, s, &in));
    assert_false(busy);
    busy = true;
    assert_ok(d->ops->copy(d, s, &out));
    assert_false(busy);
    assert_int_equal(fake.syncs, 1);
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, m, 128);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

/* ---- many copies ---- */

#define PIECES 3000
#define ROOM   ((size_t)16 << 20)

/* Device memory, half of it to be copied from, in pieces that lie apart. */
typedef struct many {
    tidei_device *d;
    tidei_dstream *s;
    unsigned char *src, *dst;
    tidei_piece piece[PIECES];
    size_t n;
} many;

/* Both kernels, each with its own names. */
static void emulate_copies(void) {
    static const char *const names[] = {"few", "many"};
    static const char words[] = "struct uint4 { unsigned x, y, z, w; };\n";
    for (int i = 0; i < 2; i++) {
        char text[16384];
        int n =
            snprintf(text, sizeof text, "%s#undef COPY\n#undef BATCH\n#undef PIECES\n#define tide_copy_%s tide_k\n",
                     words, names[i]);
        n += snprintf(text + n, sizeof text - (size_t)n, "#define %s tide_p\n%s#undef %s\n#undef tide_copy_%s\n",
                      names[i], tidei_cuda_copy_both, names[i], names[i]);
        assert_in_range(n, 1, sizeof text - 1);
        emu_add(&fake.emulated, text, sizeof words - 1);
    }
    emu_build(&fake.emulated);
}

static many *open_many(void) {
    if (!emu_compiler()) skip();
    many *m = calloc(1, sizeof *m);
    tidei_addr at;
    m->d = open_double();
    emulate_copies();
    assert_ok(m->d->ops->stream_new(m->d, &m->s));
    assert_ok(m->d->ops->raw_alloc(m->d, TIDEI_MEM_DEVICE, 2 * ROOM, &at));
    m->src = PTR(at);
    m->dst = m->src + ROOM;
    for (size_t i = 0; i < ROOM; i++) m->src[i] = (unsigned char)(i * 7 + (i >> 8) + (i >> 16));
    return m;
}

static void close_many(many *m) {
    m->d->ops->raw_free(m->d, TIDEI_MEM_DEVICE, (uintptr_t)m->src, 2 * ROOM);
    m->d->ops->stream_release(m->d, m->s);
    m->d->ops->close(m->d);
    emu_close(&fake.emulated);
    free(m);
    assert_nothing_left();
}

static void prepare(many *m) {
    m->d->ops->copy_many_prepare(m->d);
    assert_int_equal(fake.loads, 0); /* nobody needs it yet */
    tidei_piece *p = calloc(1000, sizeof *p);
    for (size_t i = 0; i < 1000; i++)
        p[i] = (tidei_piece){(uintptr_t)m->dst + 16 * i, (uintptr_t)m->src + 16 * i, 16};
    assert_ok(m->d->ops->copy_many(m->d, m->s, p, 1000));
    free(p);
    m->d->ops->copy_many_prepare(m->d);
    fake.copies = 0;
}

/* Piece by piece, from the source's low end to the target's high end. */
static void add_piece(many *m, size_t bytes, size_t shift) {
    tidei_piece *last = m->n ? &m->piece[m->n - 1] : NULL;
    tidei_addr src = last ? tidei_round_up(last->src + last->bytes + 16, 256) : (uintptr_t)m->src;
    tidei_addr end = last ? last->dst - 16 : (uintptr_t)m->dst + ROOM;
    m->piece[m->n++] = (tidei_piece){(end - bytes) / 256 * 256 - 256 + shift, src, bytes};
    assert_true(src + bytes <= (uintptr_t)m->dst && m->piece[m->n - 1].dst > (uintptr_t)m->dst);
}

static void copy_all(many *m) {
    fake.batches[0] = fake.batches[1] = fake.copies = 0;
    memset(m->dst, 0xEE, ROOM);
    assert_ok(m->d->ops->copy_many(m->d, m->s, m->piece, m->n));
    for (size_t i = 0; i < m->n; i++) {
        const unsigned char *p = PTR(m->piece[i].dst);
        size_t n = m->piece[i].bytes;
        if (memcmp(p, PTR(m->piece[i].src), n) || p[-1] != 0xEE || p[n] != 0xEE)
            fail_msg("piece %zu of %zu bytes", i, n);
    }
}

static void test_many_copies(void **state) {
    static const size_t sizes[] = {0,     1,     15,    16,    17,    4095,  4096,   4097,
                                   16383, 16384, 16385, 49152, 65536, 65537, 262144, (1 << 20) + 5};
    (void)state;
    many *m = open_many();
    copy_all(m); /* none */
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) add_piece(m, sizes[i], 0);
    copy_all(m); /* nobody has prepared for them */
    assert_int_equal(fake.copies, TIDEI_COUNT(sizes) - 1);
    assert_int_equal(fake.batches[0] + fake.batches[1], 0);
    prepare(m);
    copy_all(m);
    assert_int_equal(fake.copies, 0);
    assert_int_equal(fake.batches[0], 1);
    add_piece(m, 1000, 3); /* not aligned */
    copy_all(m);
    assert_int_equal(fake.copies, 1);
    while (m->n < PIECES) add_piece(m, 1 + m->n * m->n % 3001, 0);
    copy_all(m);
    assert_int_equal(fake.copies, 1);
    assert_int_equal(fake.batches[0], ((PIECES - 2) % 1364 <= 170));
    assert_int_equal(fake.batches[0] + fake.batches[1], (PIECES - 2 + 1363) / 1364);
    m->d->ops->copy_many_prepare(m->d); /* once is enough */
    assert_int_equal(fake.loads, 1);
    close_many(m);
}

static void test_many_copies_with_large_ones(void **state) {
    (void)state;
    many *m = open_many();
    size_t large = 64 * TIDEI_MIB;
    tidei_addr at;
    prepare(m);
    assert_ok(m->d->ops->raw_alloc(m->d, TIDEI_MEM_DEVICE, 2 * large, &at));
    *(int *)PTR(at + large - 4) = 5;
    tidei_piece p[] = {{(uintptr_t)m->dst, (uintptr_t)m->src, 256}, {at + large, at, large}};
    assert_ok(m->d->ops->copy_many(m->d, m->s, p, 2));
    assert_int_equal(*(int *)PTR(at + 2 * large - 4), 5);
    assert_memory_equal(m->dst, m->src, 256);
    assert_int_equal(fake.copies, 1);
    assert_int_equal(fake.batches[0], 1);
    m->d->ops->raw_free(m->d, TIDEI_MEM_DEVICE, at, 2 * large);
    close_many(m);
}

/* Older drivers take small parameters. */
static void test_many_copies_on_an_old_driver(void **state) {
    (void)state;
    tidei_cu old = driver;
    old.version = 12000;
    tidei_cu_use(&old);
    many *m = open_many();
    prepare(m);
    for (int i = 0; i < 400; i++) add_piece(m, 100, 0);
    copy_all(m);
    assert_int_equal(fake.batches[0], 3);
    assert_int_equal(fake.batches[1], 0);
    close_many(m);
}

/* Without the kernels, pieces are copied one by one, and nobody hears of it. */
static void test_many_copies_without_the_kernels(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        many *m = open_many();
        for (int i = 0; i < 5; i++) add_piece(m, 1000, 0);
        tidei_fail(TIDE_E_INVALID, "test", "what the caller had before");
        fake.loads = 0;
        fail_at("cuModuleLoadData", 0, way ? TIDEI_CU_OUT_OF_MEMORY : TIDEI_CU_INVALID_IMAGE);
        prepare(m);
        for (int i = 1; i < 7; i++) m->d->ops->copy_many_prepare(m->d);
        assert_error(TIDE_E_INVALID, "what the caller had before");
        assert_int_equal(fake.loads, way ? 3 : 2); /* calls 1, 2, 4; or both texts, once and for all */
        copy_all(m);
        assert_int_equal(fake.copies, 5);
        fail_at(NULL, 0, 0);
        m->d->ops->copy_many_prepare(m->d);
        copy_all(m);
        assert_int_equal(fake.copies, way ? 0 : 5); /* memory may come back */
        close_many(m);
    }
}

static void test_many_copies_without_the_large_kernel(void **state) {
    (void)state;
    many *m = open_many();
    for (int i = 0; i < 400; i++) add_piece(m, 100, 0);
    fake.no_many = true;
    prepare(m);
    copy_all(m);
    assert_int_equal(fake.copies, 0);
    assert_int_equal(fake.batches[0], 3);
    assert_int_equal(fake.modules, 1);
    close_many(m);
}

static void test_many_copies_that_fail(void **state) {
    (void)state;
    many *m = open_many();
    prepare(m);
    for (int i = 0; i < 2000; i++) add_piece(m, 100, 0);
    fail_at("cuLaunchKernel", 1, TIDEI_CU_OUT_OF_MEMORY); /* the second */
    copy_all(m);
    assert_int_equal(fake.batches[1], 1);
    assert_int_equal(fake.copies, 2000 - 1364);
    m->piece[0].src++; /* not the kernel's */
    fail_at("cuMemcpyAsync", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(m->d->ops->copy_many(m->d, m->s, m->piece, 3), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "copying 3 pieces");
    assert_false(atomic_load(&m->d->lost));
    fail_at("cuMemcpyAsync", 0, TIDEI_CU_ILLEGAL_ADDRESS);
    assert_int_equal(m->d->ops->copy_many(m->d, m->s, m->piece, 3), TIDE_E_LOST);
    assert_true(atomic_load(&m->d->lost));
    m->d->ops->copy_many_prepare(m->d);
    assert_int_equal(m->d->ops->copy_many(m->d, m->s, m->piece, 0), TIDE_E_LOST);
    fail_at(NULL, 0, 0);
    close_many(m);
}

/* Every width, patterns that repeat at every shorter width and none, counts around the seed and the chunk. */
static void test_fills(void **state) {
    static const size_t counts[] = {1, 2, 3, 100, 4095, 4096, 4097, 10000, (5u << 20) + 3};
    tidei_dstream *s;
    tidei_addr m;
    size_t room = 16 * ((5u << 20) + 4);
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, room, &m));
    for (size_t width = 1; width <= 16; width *= 2)
        for (size_t repeats = 1; repeats <= width; repeats *= 2)
            for (size_t i = 0; i < TIDEI_COUNT(counts); i++) {
                unsigned char pattern[16], *p = PTR(m);
                size_t bytes = width * counts[i];
                if (i + 1 == TIDEI_COUNT(counts) && (width != 16 || repeats < 8))
                    continue; /* a large one is slow */
                for (size_t j = 0; j < width; j++) pattern[j] = (unsigned char)(j % repeats * 37 + 11);
                memset(p, 0xee, bytes + 16);
                assert_ok(d->ops->fill(d, s, m, pattern, width, counts[i]));
                for (size_t j = 0; j < bytes; j++)
                    if (p[j] != pattern[j % width]) fail_msg("width %zu, byte %zu of %zu", width, j, bytes);
                for (size_t j = bytes; j < bytes + 16; j++) assert_int_equal(p[j], 0xee);
            }
    fail_at("cuMemcpyAsync", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->fill(d, s, m, "0123456789abcdef", 16, 5000), TIDE_E_DEVICE);
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, m, room);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_kernels(void **state) {
    tidei_kernel_text t = {.name = "nothing", .source = "extern \"C\" __global__ void nothing(int i) {}"};
    tidei_dkernel *k = NULL, *again = NULL;
    tidei_dstream *s;
    void *image = NULL, *kept = NULL;
    size_t bytes = 0;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    /* Loading fails: what was compiled is not lost. */
    fail_at("cuModuleLoadData", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->kernel_new(d, &t, &k, &image, &bytes), TIDE_E_NOMEM);
    assert_null(k);
    assert_non_null(image);
    fail_at(NULL, 0, 0);
    t.image = image;
    t.image_bytes = bytes;
    assert_ok(d->ops->kernel_new(d, &t, &k, &kept, &bytes));
    assert_null(kept); /* nothing was compiled */
    t.image = NULL;
    assert_ok(d->ops->kernel_new(d, &t, &again, NULL, NULL));
    fail_at("cuModuleGetFunction", 0, TIDEI_CU_NOT_FOUND);
    tidei_dkernel *none = NULL;
    assert_int_equal(d->ops->kernel_new(d, &t, &none, NULL, NULL), TIDE_E_DEVICE);
    assert_int_equal(fake.modules, 2);
    t.source = "nonsense";
    assert_int_equal(d->ops->kernel_new(d, &t, &none, NULL, NULL), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "nothing(1): error");

    int params[3] = {1, 2, 3};
    tidei_launch l = {.name = "nothing",
                      .kernel = k,
                      .params = params,
                      .params_bytes = sizeof params,
                      .grid = {1, 2, 3},
                      .block = {4, 5, 6},
                      .shared_bytes = 100};
    assert_ok(d->ops->launch(d, s, &l));
    assert_memory_equal(fake.params, params, sizeof params);
    assert_int_equal(fake.params_bytes, sizeof params);
    assert_memory_equal(fake.grid, l.grid, sizeof l.grid);
    assert_memory_equal(fake.block, l.block, sizeof l.block);
    assert_int_equal(fake.shared, 100);
    fail_at("cuLaunchKernel", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->launch(d, s, &l), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "launching nothing (grid 1, 2, 3, block 4, 5, 6");
    l.kernel = NULL;
    assert_int_equal(d->ops->launch(d, s, &l), TIDE_E_UNSUPPORTED);
    free(image);
    d->ops->kernel_release(d, k);
    d->ops->kernel_release(d, again);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_a_lost_device(void **state) {
    tidei_dstream *s;
    tidei_devent *e;
    tidei_addr a = 17;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->event_new(d, &e));
    assert_ok(d->ops->event_record(d, e, s));
    assert_ok(d->ops->event_wait(d, e, s));
    fail_at("cuStreamSynchronize", 0, TIDEI_CU_ILLEGAL_ADDRESS);
    assert_int_equal(d->ops->stream_sync(d, s), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS (700: said in words)");
    assert_true(d->lost);
    int calls = fake.calls;
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 100, &a), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "cuda:0 is unusable since CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(d->ops->publish(d, s, 1), TIDE_E_LOST);
    assert_int_equal(a, 17);
    assert_int_equal(fake.calls, calls); /* the driver is not asked any more, */
    assert_int_equal(d->ops->stream_sync(d, s), TIDE_E_LOST);
    assert_int_equal(fake.calls, calls + 1); /* but for the end of what may still use the host's memory */
    d->ops->event_release(d, e);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void test_a_declared_loss(void **state) {
    (void)state;
    tidei_device *d = open_double();
    size_t n;
    d->ops->lose(d, "what a caller saw");
    d->ops->lose(d, "something else"); /* the first reason stands */
    assert_int_equal(d->ops->memory(d, &n, &n), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "unusable since what a caller saw");
    d->ops->close(d);
    assert_nothing_left();
}

static void test_in_a_forks_child(void **state) {
    tidei_dstream *s;
    int status;
    (void)state;
    tidei_threads_prepare(); /* as opening a runtime does */
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    pid_t child = fork();
    if (child == 0) {
        int calls = fake.calls;
        if (d->ops->stream_sync(d, s) != TIDE_E_FORKED) _exit(1);
        d->ops->stream_release(d, s);
        d->ops->close(d);
        if (fake.calls != calls) _exit(2);
        _exit(fake.streams == 1 && fake.contexts == 1 ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_opens_and_closes),
        CASE(test_refuses_with_a_reason),
        CASE(test_the_real_driver),
        CASE(test_pools_of_the_driver),
        CASE(test_another_context_is_put_back),
        CASE(test_pages),
        CASE(test_raw_memory),
        CASE(test_words),
        CASE(test_words_by_events),
        CASE(test_copies),
        CASE(test_many_copies),
        CASE(test_many_copies_with_large_ones),
        CASE(test_many_copies_on_an_old_driver),
        CASE(test_many_copies_without_the_kernels),
        CASE(test_many_copies_without_the_large_kernel),
        CASE(test_many_copies_that_fail),
        CASE(test_fills),
        CASE(test_kernels),
        CASE(test_a_lost_device),
        CASE(test_a_declared_loss),
        CASE(test_in_a_forks_child),
    };
    return cmocka_run_group_tests_name("cuda_device", tests, NULL, NULL);
}
