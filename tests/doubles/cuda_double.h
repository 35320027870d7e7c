/* cuda_double.h: a double of the CUDA driver that keeps everything in host memory and does all work
** at once. It counts the calls, refuses where a case says so, and runs kernels whose text a case
** has had emulated. There is one device unless a case says otherwise; with several it knows which
** context belongs to which, and which device may use which memory. NVRTC is a double too
** (nvrtc_double.c), so that this runs on any machine. */
#ifndef TIDETEST_CUDA_DOUBLE_H
#define TIDETEST_CUDA_DOUBLE_H

#include <sys/mman.h>
#include <unistd.h>
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/doubles/emulate.h"
#include "tests/doubles/nvrtc_double.h"
#include "tests/support/tidetest.h"

#define PAGE    ((size_t)2 << 20)
#define DEVICES 34

/* ---- the double ---- */

struct owned { /* device memory that not everybody may use */
    tidei_cu_addr addr;
    size_t bytes;
    enum { OWNED_RAW, OWNED_PAGE, OWNED_BLOCK } kind;
    int owner;
    uint64_t granted; /* of a page: a bit a device */
    int pool;         /* of a block */
};

static struct {
    /* alive */
    int contexts, pinned, allocs, streams, events, handles, modules, reservations, pools;
    /* asked for so far */
    int maps, accesses, syncs, pushes, calls;
    struct CUctx_st *current, *stacked;
    const char *failing; /* the call that fails, after `skip` more that do not; NULL: any call */
    int skip;
    tidei_cu_result error;     /* 0: none fails */
    const char *failed;        /* the call that did, the first one */
    bool once;                 /* only that one */
    int depth;                 /* contexts pushed */
    bool no_name, no_words;    /* nothing is said of errors */
    unsigned lacks[4], nlacks; /* attributes that are 0 */
    size_t total, granule;     /* 0: 1 GiB, a page; else one more than it says */
    bool pinned_source, event_pending, no_pools;
    bool ampere;            /* the GPU is sm_80, not sm_90 */
    tidei_cu_u64 threshold; /* of a pool, like the rest of this line */
    int rules[4];
    size_t pool_bytes, trimmed_to;
    size_t free_bytes;    /* 0: 7 */
    size_t prefetched[2]; /* to the device, to the host */
    unsigned read_mostly, preferred;
    bool no_managed;
    const char *foreign_stream; /* another context's */
    int write_value, capturing;
    int memory; /* memfd behind the pages */
    size_t memory_bytes;
    unsigned grid[3], block[3], shared;
    char params[64];
    size_t params_bytes;
    /* asked for so far; batches: launches of the kernels that copy */
    int loads, copies, batches[2];
    bool no_many; /* the larger one is not found */
    bool no_wide_clusters;
    emu_module emulated; /* those kernels */
    int devices;         /* there are */
    int retained[DEVICES];
    bool no_peers, peers[DEVICES][DEVICES]; /* contexts: may use, whose */
    int peer_calls;
    tidei_cu_alloc_prop created; /* the last page as it was asked for */
    /* pages that other processes, or other machines, may have are refused so */
    tidei_cu_result refuses_descriptors, refuses_rdma;
    int stream_of[TIDEI_STREAMS_MAX], event_of[64]; /* devices */
    int pool_of[8], pools_made;
    uint64_t pool_granted[8];
    struct owned owned[1024];
    int nowned;
    bool runs_texts; /* emulated, where there is a C++ compiler; else kernels do nothing */
    int launches, early_launches; /* early: of those, such as may start early */
    /* alive; asked for so far: nodes that were told other parameters, launches of graphs */
    int graphs, execs, told, graph_launches;
    struct CUgraph_st *finished; /* the last graph that became an executable one */
    struct CUgraph_st *captured; /* what the stream that captures has queued */
    tidei_cu_stream captures;
    bool invalid; /* the capture will end in an error */
} fake;
/* Modules that were loaded, with the texts they were made of, and emulated once one is launched. */
static struct text {
    char *text, name[64];
    emu_module code;
} texts[64];
static char context_storage[DEVICES + 1], stream_storage[TIDEI_STREAMS_MAX], one_event[64];
#define CONTEXT_OF(device) ((struct CUctx_st *)(void *)&context_storage[device])
#define CONTEXT            CONTEXT_OF(0)
#define FOREIGN            CONTEXT_OF(DEVICES)

/* The device whose context is current: an open one of ours. */
static int here(void) {
    for (int i = 0; i < DEVICES; i++)
        if (fake.current == CONTEXT_OF(i) && fake.retained[i]) return i;
    fail_msg("a call without a context of ours");
    return -1;
}
/* A stream that was made here takes work while its own context is current. */
static void assert_at_home(tidei_cu_stream s) {
    for (int i = 0; i < fake.streams; i++)
        if ((char *)(void *)s == &stream_storage[i]) assert_int_equal(fake.stream_of[i], here());
}

static struct owned *owned_at(tidei_cu_addr a) {
    for (int i = 0; i < fake.nowned; i++)
        if (a >= fake.owned[i].addr && a - fake.owned[i].addr < fake.owned[i].bytes)
            return &fake.owned[i];
    return NULL;
}
static void own(struct owned o) {
    assert_true(fake.nowned < (int)TIDEI_COUNT(fake.owned));
    fake.owned[fake.nowned++] = o;
}
static void disown(tidei_cu_addr a) {
    struct owned *o = owned_at(a);
    if (o) *o = fake.owned[--fake.nowned];
}
/* May the device's work use what lies there? The host's memory everybody may. */
static bool may_use(int device, tidei_cu_addr a) {
    const struct owned *o = owned_at(a);
    if (!o) return true;
    if (o->kind == OWNED_PAGE) return o->granted >> device & 1;
    if (o->owner == device) return true;
    return o->kind == OWNED_RAW ? fake.peers[device][o->owner]
                                : fake.pool_granted[o->pool] >> device & 1;
}

static tidei_cu_result try(const char *call) {
    fake.calls++;
    if (!fake.error || (fake.failing && strcmp(fake.failing, call) != 0)) return TIDEI_CU_SUCCESS;
    if (fake.skip-- > 0 || (fake.once && fake.failed)) return TIDEI_CU_SUCCESS;
    if (!fake.failed) fake.failed = call;
    return fake.error;
}
/* As `try`, for a call that needs our context current; returns from the caller on failure. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        here();                                                                                    \
        tidei_cu_result tried = try(call);                                                         \
        if (tried != TIDEI_CU_SUCCESS) return tried;                                               \
    } while (0)
#define PTR(addr) ((void *)(uintptr_t)(addr))

static tidei_cu_result f_name(tidei_cu_result r, const char **out) {
    if (fake.no_name) return TIDEI_CU_INVALID_VALUE;
    *out = r == TIDEI_CU_OUT_OF_MEMORY
               ? "CUDA_ERROR_OUT_OF_MEMORY"
               : (r == TIDEI_CU_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_X");
    return 0;
}
static tidei_cu_result f_string(tidei_cu_result r, const char **out) {
    (void)r;
    if (fake.no_words) return TIDEI_CU_INVALID_VALUE;
    *out = "said in words";
    return 0;
}
static tidei_cu_result f_count(int *n) { return *n = fake.devices, try("cuDeviceGetCount"); }
static tidei_cu_result f_get(tidei_cu_device *d, int i) { return *d = i, try("cuDeviceGet"); }
static tidei_cu_result f_devname(char *s, int n, tidei_cu_device d) {
    return (void)d, snprintf(s, (size_t)n, "Double"), try("cuDeviceGetName");
}
static tidei_cu_result f_attr(int *v, tidei_cu_attribute a, tidei_cu_device d) {
    (void)d;
    for (unsigned i = 0; i < fake.nlacks; i++)
        if (fake.lacks[i] == a) return *v = 0, try("cuDeviceGetAttribute");
    *v = a == TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MAJOR    ? (fake.ampere ? 8 : 9)
         : a == TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MINOR  ? 0
         : a == TIDEI_CU_ATTR_MEMORY_POOLS              ? !fake.no_pools
         : a == TIDEI_CU_ATTR_CONCURRENT_MANAGED_ACCESS ? !fake.no_managed
         : a == TIDEI_CU_ATTR_64_BIT_STREAM_MEM_OPS     ? fake.write_value
                                                        : 1;
    return try("cuDeviceGetAttribute");
}
static tidei_cu_result f_total(size_t *n, tidei_cu_device d) {
    return (void)d, *n = fake.total ? fake.total : (size_t)1 << 30, try("cuDeviceTotalMem");
}
static tidei_cu_result f_retain(tidei_cu_ctx *c, tidei_cu_device d) {
    tidei_cu_result r = try("cuDevicePrimaryCtxRetain");
    if (r) return r;
    fake.contexts++;
    fake.retained[d]++;
    *c = CONTEXT_OF(d);
    return 0;
}
static tidei_cu_result f_release(tidei_cu_device d) {
    return fake.calls++, fake.retained[d]--, fake.contexts--, 0;
}
static tidei_cu_result f_can_peer(int *can, tidei_cu_device d, tidei_cu_device other) {
    tidei_cu_result r = try("cuDeviceCanAccessPeer");
    if (r) return r;
    return *can = d != other && !fake.no_peers, 0;
}
static tidei_cu_result f_enable_peer(tidei_cu_ctx c, unsigned flags) {
    TRY("cuCtxEnablePeerAccess");
    int owner = (int)((char *)(void *)c - context_storage);
    assert_int_equal(flags, 0);
    assert_in_range(owner, 0, DEVICES - 1);
    assert_int_not_equal(owner, here());
    assert_true(fake.retained[owner] > 0);
    fake.peer_calls++;
    if (fake.peers[here()][owner]) return TIDEI_CU_PEER_ACCESS_ALREADY_ENABLED;
    return fake.peers[here()][owner] = true, 0;
}
static tidei_cu_result f_current(tidei_cu_ctx *c) { return *c = fake.current, 0; }
static tidei_cu_result f_set(tidei_cu_ctx c) {
    tidei_cu_result r = try("cuCtxSetCurrent");
    if (r) return r;
    return fake.current = c, 0;
}
static tidei_cu_result f_push(tidei_cu_ctx c) {
    tidei_cu_result r = try("cuCtxPushCurrent");
    if (r) return r;
    assert_int_equal(fake.depth++, 0);
    return fake.pushes++, fake.stacked = fake.current, fake.current = c, 0;
}
static tidei_cu_result f_pop(tidei_cu_ctx *c) {
    assert_int_equal(--fake.depth, 0);
    return *c = fake.current, fake.current = fake.stacked, 0;
}
static tidei_cu_result f_info(size_t *f, size_t *t) {
    TRY("cuMemGetInfo");
    return *f = fake.free_bytes ? fake.free_bytes : 7, *t = 9, 0;
}
static tidei_cu_result f_alloc(tidei_cu_addr *a, size_t n) {
    TRY("cuMemAlloc");
    fake.allocs++;
    *a = (uintptr_t)aligned_alloc(256, tidei_round_up(n, 256)); /* as the driver's lie */
    return own((struct owned){*a, n, OWNED_RAW, here(), 0, 0}), 0;
}
static tidei_cu_result f_free(tidei_cu_addr a) { return fake.allocs--, disown(a), free(PTR(a)), 0; }
static tidei_cu_result f_host(void **p, size_t n, unsigned flags) {
    (void)flags;
    TRY("cuMemHostAlloc");
    fake.pinned++;
    return *p = malloc(n), 0;
}
static tidei_cu_result f_managed(tidei_cu_addr *a, size_t n, unsigned flags) {
    assert_int_equal(flags, TIDEI_CU_MEM_ATTACH_GLOBAL);
    TRY("cuMemAllocManaged");
    fake.allocs++;
    return *a = (uintptr_t)malloc(n), 0;
}
static tidei_cu_result f_prefetch(tidei_cu_addr a, size_t n, tidei_cu_location at, unsigned flags,
                                  tidei_cu_stream s) {
    (void)a, (void)flags, (void)s;
    TRY("cuMemPrefetchAsync");
    fake.prefetched[at.type == TIDEI_CU_MEM_LOCATION_TYPE_HOST] += n;
    return 0;
}
static tidei_cu_result f_advise(tidei_cu_addr a, size_t n, tidei_cu_advice advice,
                                tidei_cu_location at) {
    (void)a, (void)n;
    TRY("cuMemAdvise");
    if (advice <= TIDEI_CU_MEM_ADVISE_UNSET_READ_MOSTLY)
        fake.read_mostly = advice == TIDEI_CU_MEM_ADVISE_SET_READ_MOSTLY;
    else
        fake.preferred = advice == TIDEI_CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? at.type : 0;
    return 0;
}
static tidei_cu_result f_free_host(void *p) { return fake.pinned--, free(p), 0; }
static tidei_cu_result f_device_pointer(tidei_cu_addr *a, void *p, unsigned f) {
    return (void)f, *a = (uintptr_t)p, try("cuMemHostGetDevicePointer");
}
static tidei_cu_result f_attributes(unsigned n, tidei_cu_pointer_attribute *a, void **out,
                                    tidei_cu_addr p) {
    (void)p;
    assert_int_equal(n, 1);
    assert_int_equal(a[0], TIDEI_CU_POINTER_MEMORY_TYPE);
    *(unsigned *)out[0] = fake.pinned_source ? TIDEI_CU_MEMORYTYPE_HOST : 0;
    return try("cuPointerGetAttributes");
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
static tidei_cu_result f_unreserve(tidei_cu_addr a, size_t n) {
    return fake.reservations--, munmap(PTR(a), n), 0;
}
static tidei_cu_result f_granularity(size_t *g, const tidei_cu_alloc_prop *p,
                                     tidei_cu_granularity o) {
    return (void)p, (void)o, *g = fake.granule ? fake.granule - 1 : PAGE,
                             try("cuMemGetAllocationGranularity");
}
static tidei_cu_result f_create(tidei_cu_handle *h, size_t n, const tidei_cu_alloc_prop *p,
                                unsigned long long f) {
    (void)f;
    TRY("cuMemCreate");
    assert_int_equal(p->location.type, TIDEI_CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(p->location.id, here());
    fake.created = *p;
    if (p->flags.gpu_direct_rdma_capable && fake.refuses_rdma) return fake.refuses_rdma;
    if (p->requested_handle_types && fake.refuses_descriptors) return fake.refuses_descriptors;
    *h = fake.memory_bytes;
    fake.memory_bytes += n;
    assert_int_equal(ftruncate(fake.memory, (off_t)fake.memory_bytes), 0);
    return fake.handles++, 0;
}
static tidei_cu_result f_destroy_handle(tidei_cu_handle h) { return (void)h, fake.handles--, 0; }
static tidei_cu_result f_map(tidei_cu_addr a, size_t n, size_t off, tidei_cu_handle h,
                             unsigned long long f) {
    (void)f;
    TRY("cuMemMap");
    fake.maps += (int)(n / PAGE);
    void *p = mmap(PTR(a), n, PROT_NONE, MAP_SHARED | MAP_FIXED, fake.memory, (off_t)(h + off));
    assert_ptr_equal(p, PTR(a));
    assert_null(owned_at(a));
    return own((struct owned){a, n, OWNED_PAGE, here(), 0, 0}), 0;
}
/* Of whole pages, all of them mapped. */
static tidei_cu_result f_access(tidei_cu_addr a, size_t n, const tidei_cu_access *d, size_t count) {
    TRY("cuMemSetAccess");
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(d[i].location.type, TIDEI_CU_MEM_LOCATION_TYPE_DEVICE);
        assert_in_range(d[i].location.id, 0, fake.devices - 1);
        assert_int_equal(d[i].flags, TIDEI_CU_MEM_ACCESS_READWRITE);
    }
    for (size_t at = 0; at < n; at += PAGE) {
        struct owned *o = owned_at(a + at);
        assert_true(o && o->kind == OWNED_PAGE && o->owner == here() && o->addr >= a &&
                    o->addr + o->bytes <= a + n);
        for (size_t i = 0; i < count; i++) o->granted |= (uint64_t)1 << d[i].location.id;
    }
    assert_int_equal(mprotect(PTR(a), n, PROT_READ | PROT_WRITE), 0);
    return fake.accesses++, 0;
}
static tidei_cu_result f_unmap(tidei_cu_addr a, size_t n) {
    TRY("cuMemUnmap");
    fake.maps -= (int)(n / PAGE);
    for (size_t at = 0; at < n; at += PAGE) disown(a + at);
    void *p = mmap(PTR(a), n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(p, PTR(a));
    return 0;
}
static tidei_cu_result f_stream(tidei_cu_stream *s, unsigned flags) {
    TRY("cuStreamCreate");
    assert_int_equal(flags, TIDEI_CU_STREAM_NON_BLOCKING);
    fake.stream_of[fake.streams] = here();
    return *s = (struct CUstream_st *)(void *)&stream_storage[fake.streams++], 0;
}
static tidei_cu_result f_stream_destroy(tidei_cu_stream s) {
    return (void)s, fake.calls++, fake.streams--, 0;
}
static tidei_cu_result f_sync(tidei_cu_stream s) {
    TRY("cuStreamSynchronize");
    assert_at_home(s);
    return fake.syncs++, 0;
}
static tidei_cu_result f_capturing(tidei_cu_stream s, tidei_cu_capture *out) {
    (void)s;
    TRY("cuStreamIsCapturing");
    return *out = fake.capturing, 0;
}
static tidei_cu_result f_stream_context(tidei_cu_stream s, tidei_cu_ctx *out) {
    return *out = (char *)(void *)s == fake.foreign_stream ? FOREIGN : CONTEXT,
           try("cuStreamGetCtx");
}
static tidei_cu_result f_wait(tidei_cu_stream s, tidei_cu_event e, unsigned f) {
    (void)e, (void)f; /* the event may be another device's */
    TRY("cuStreamWaitEvent");
    return assert_at_home(s), 0;
}
static tidei_cu_result f_write(tidei_cu_stream s, tidei_cu_addr a, tidei_cu_u64 v, unsigned f) {
    (void)f;
    TRY("cuStreamWriteValue64");
    assert_at_home(s);
    *(uint64_t *)PTR(a) = v;
    return 0;
}
static tidei_cu_result f_event(tidei_cu_event *e, unsigned flags) {
    TRY("cuEventCreate");
    assert_int_equal(flags, TIDEI_CU_EVENT_DISABLE_TIMING);
    fake.event_of[fake.events] = here();
    return *e = (struct CUevent_st *)(void *)&one_event[fake.events++], 0;
}
static tidei_cu_result f_event_destroy(tidei_cu_event e) {
    return (void)e, fake.calls++, fake.events--, 0;
}
static tidei_cu_result f_record(tidei_cu_event e, tidei_cu_stream s) {
    TRY("cuEventRecord");
    assert_int_equal(fake.event_of[(char *)(void *)e - one_event], here());
    return assert_at_home(s), 0;
}
static tidei_cu_result f_query(tidei_cu_event e) {
    tidei_cu_result r = try("cuEventQuery");
    (void)e;
    return r ? r : fake.event_pending ? TIDEI_CU_NOT_READY : 0;
}
static tidei_cu_result f_in(tidei_cu_addr d, const void *h, size_t n, tidei_cu_stream s) {
    TRY("cuMemcpyHtoDAsync");
    assert_at_home(s);
    return memcpy(PTR(d), h, n), 0;
}
static tidei_cu_result f_out(void *h, tidei_cu_addr d, size_t n, tidei_cu_stream s) {
    TRY("cuMemcpyDtoHAsync");
    assert_at_home(s);
    return memcpy(h, PTR(d), n), 0;
}
static tidei_cu_result f_copy(tidei_cu_addr d, tidei_cu_addr a, size_t n, tidei_cu_stream s) {
    TRY("cuMemcpyAsync");
    assert_at_home(s);
    assert_true(may_use(here(), d) && may_use(here(), a));
    fake.copies++;
    /* as on the GPU, the two must not overlap: ASan would say so */
    return memcpy(PTR(d), PTR(a), n), 0;
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
static tidei_cu_result f_set2d(tidei_cu_addr d, size_t pitch, unsigned v, size_t w, size_t h,
                               tidei_cu_stream s) {
    (void)s;
    TRY("cuMemsetD2D32Async");
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) *(unsigned *)PTR(d + y * pitch + x * 4) = v;
    return 0;
}
static tidei_cu_result f_load(tidei_cu_module *m, const void *image) {
    struct text *t = texts;
    fake.loads++;
    TRY("cuModuleLoadData");
    assert_memory_equal(image, "\177ELF", 4);
    while (t->text) assert_true(++t < texts + TIDEI_COUNT(texts));
    t->text = strdup((const char *)image + 4);
    fake.modules++;
    return *m = (struct CUmod_st *)(void *)t, 0;
}
static tidei_cu_result f_unload(tidei_cu_module m) {
    struct text *t = (void *)m;
    emu_close(&t->code);
    free(t->text);
    memset(t, 0, sizeof *t);
    return fake.modules--, 0;
}
static tidei_cu_result f_function(tidei_cu_function *f, tidei_cu_module m, const char *name) {
    struct text *t = (void *)m;
    TRY("cuModuleGetFunction");
    if (!strcmp(name, "tide_copy_few")) return *f = (struct CUfunc_st *)(void *)&fake.batches[0], 0;
    if (!strcmp(name, "tide_copy_many") && fake.no_many) return TIDEI_CU_NOT_FOUND;
    if (!strcmp(name, "tide_copy_many"))
        return *f = (struct CUfunc_st *)(void *)&fake.batches[1], 0;
    snprintf(t->name, sizeof t->name, "%s", name);
    return *f = (struct CUfunc_st *)(void *)t, 0;
}
static tidei_cu_result f_allow(tidei_cu_function f, tidei_cu_function_attribute a, int v) {
    (void)f;
    TRY("cuFuncSetAttribute");
    assert_true(a == TIDEI_CU_FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED && v == 1);
    return 0;
}
static tidei_cu_result f_clusters(int *n, tidei_cu_function f, const tidei_cu_config *c) {
    (void)f;
    TRY("cuOccupancyMaxActiveClusters");
    assert_true(c->grid[0] > 8 && c->block[0] >= 32 && c->shared_bytes && !c->nattributes);
    return *n = !fake.no_wide_clusters, 0;
}
/* As emu_add has it, the text being all there is. */
static void run_text(struct text *t, unsigned gx, unsigned gy, unsigned threads, const void *params,
                     size_t bytes) {
    _Alignas(16) char copy[TIDEI_PARAMS_MAX];
    if (!t->code.library) {
        t->code.header = strdup("");
        emu_say(&t->code, "namespace k0 {\n#define tide_k tide_k_0\n");
        emu_say(&t->code, t->text);
        emu_say(&t->code, "#undef tide_k\n}\n");
        t->code.kernels = 1;
        emu_build(&t->code);
    }
    memcpy(copy, params, bytes);
    emu_launch_of(&t->code, 0, gx, gy, threads, copy, strstr(t->text, "__syncthreads") != NULL);
}
static void run_batch(int many, unsigned blocks, unsigned threads, void **params) {
    assert_int_equal(threads, EMU_THREADS);
    emu_launch(&fake.emulated, (unsigned)many, blocks, 1, params[0], false);
    fake.batches[many]++;
}
/* ---- graphs: lists of nodes, which a launch runs as they were when it was made ready, or told
** ---- */

#define GRAPH_NODES 32
struct CUgraphNode_st { /* a kernel's, or a child */
    tidei_cu_kernel_node k;
    unsigned char params[512];
    size_t bytes;
    struct CUgraph_st *child, *of;
    unsigned behind; /* a bit for each node of the graph */
    unsigned early;  /* those of them while which it may start */
};
struct CUgraph_st {
    struct CUgraphNode_st nodes[GRAPH_NODES];
    size_t n;
};
struct CUgraphExec_st {
    struct CUgraph_st *graph, *from;
};

static struct CUgraph_st *new_graph(void) {
    fake.graphs++;
    return calloc(1, sizeof(struct CUgraph_st));
}
static void drop_graph(struct CUgraph_st *g) {
    for (size_t i = 0; i < g->n; i++)
        if (g->nodes[i].child) drop_graph(g->nodes[i].child);
    fake.graphs--;
    free(g);
}
static struct CUgraph_st *copy_graph(const struct CUgraph_st *g) {
    struct CUgraph_st *copy = new_graph();
    *copy = *g;
    for (size_t i = 0; i < g->n; i++)
        if (g->nodes[i].child) copy->nodes[i].child = copy_graph(g->nodes[i].child);
    return copy;
}
static void set_node(struct CUgraphNode_st *x, const tidei_cu_kernel_node *k) {
    x->k = *k;
    x->bytes = 0;
    assert_null(k->params);
    assert_ptr_equal(k->ctx, fake.current);
    if (!k->extra) return;
    assert_ptr_equal(k->extra[0], PTR(TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER));
    assert_ptr_equal(k->extra[4], PTR(TIDEI_CU_LAUNCH_PARAM_END));
    x->bytes = *(size_t *)k->extra[3];
    assert_true(x->bytes <= sizeof x->params);
    memcpy(x->params, k->extra[1], x->bytes);
    x->k.extra = NULL; /* the driver has copied it */
}
/* Behind nodes of the same graph. */
static struct CUgraphNode_st *add_node(struct CUgraph_st *g, const tidei_cu_node *behind,
                                       size_t n) {
    assert_true(g->n < GRAPH_NODES);
    struct CUgraphNode_st *x = &g->nodes[g->n];
    x->of = g;
    x->behind = x->early = 0;
    for (size_t i = 0; i < n; i++) {
        assert_in_range(behind[i] - g->nodes, 0, g->n - 1);
        x->behind |= 1u << (behind[i] - g->nodes);
    }
    assert_int_equal(__builtin_popcount(x->behind), n); /* each once */
    g->n++;
    return x;
}
static tidei_cu_result f_begin_capture(tidei_cu_stream s, tidei_cu_capture_mode mode) {
    TRY("cuStreamBeginCapture");
    assert_int_equal(mode, TIDEI_CU_CAPTURE_RELAXED);
    assert_null(fake.captured);
    fake.captures = s;
    return fake.captured = new_graph(), 0;
}
static tidei_cu_result f_end_capture(tidei_cu_stream s, tidei_cu_graph *out) {
    *out = NULL;
    assert_ptr_equal(s, fake.captures);
    tidei_cu_result r = try("cuStreamEndCapture");
    if (r || fake.invalid)
        drop_graph(fake.captured);
    else
        *out = fake.captured;
    fake.captured = NULL;
    fake.captures = NULL;
    return r ? r : fake.invalid ? 901 : 0;
}
static tidei_cu_result f_graph(tidei_cu_graph *out, unsigned flags) {
    assert_int_equal(flags, 0);
    TRY("cuGraphCreate");
    return *out = new_graph(), 0;
}
static tidei_cu_result f_graph_destroy(tidei_cu_graph g) { return drop_graph(g), 0; }
static tidei_cu_result f_graph_nodes(tidei_cu_graph g, tidei_cu_node *nodes, size_t *n) {
    TRY("cuGraphGetNodes");
    assert_null(nodes);
    return *n = g->n, 0;
}
static tidei_cu_result f_add_kernel(tidei_cu_node *out, tidei_cu_graph g,
                                    const tidei_cu_node *behind, size_t n,
                                    const tidei_cu_kernel_node *k) {
    TRY("cuGraphAddKernelNode");
    *out = add_node(g, behind, n);
    return set_node(*out, k), 0;
}
/* One edge. Programmatic ones lead from kernels to kernels. */
static tidei_cu_result f_add_edge(tidei_cu_graph g, const tidei_cu_node *from,
                                  const tidei_cu_node *to, const tidei_cu_edge *e, size_t n) {
    static const tidei_cu_edge whole,
        early = {.from_port = TIDEI_CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                 .type = TIDEI_CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    TRY("cuGraphAddDependencies");
    assert_int_equal(n, 1);
    assert_ptr_equal((*from)->of, g);
    assert_ptr_equal((*to)->of, g);
    const unsigned bit = 1u << (*from - g->nodes);
    assert_true(*from < *to && !((*to)->behind & bit)); /* no circles, each once */
    (*to)->behind |= bit;
    if (memcmp(e, &whole, sizeof whole) == 0) return 0;
    assert_memory_equal(e, &early, sizeof early);
    assert_true(!(*from)->child && !(*to)->child);
    (*to)->early |= bit;
    return 0;
}
static tidei_cu_result f_add_child(tidei_cu_node *out, tidei_cu_graph g,
                                   const tidei_cu_node *behind, size_t n, tidei_cu_graph child) {
    TRY("cuGraphAddChildGraphNode");
    *out = add_node(g, behind, n);
    return (*out)->child = copy_graph(child), 0;
}
static tidei_cu_result f_instantiate(tidei_cu_exec *out, tidei_cu_graph g,
                                     unsigned long long flags) {
    assert_int_equal(flags, 0);
    TRY("cuGraphInstantiateWithFlags");
    fake.execs++;
    *out = calloc(1, sizeof **out);
    (*out)->graph = copy_graph(g);
    fake.finished = g;
    return (*out)->from = g, 0;
}
static tidei_cu_result f_exec_destroy(tidei_cu_exec x) {
    drop_graph(x->graph);
    free(x);
    return fake.execs--, 0;
}
static tidei_cu_result f_tell(tidei_cu_exec x, tidei_cu_node node, const tidei_cu_kernel_node *k) {
    TRY("cuGraphExecKernelNodeSetParams");
    assert_ptr_equal(node->of, x->from);
    fake.told++;
    return set_node(&x->graph->nodes[node - x->from->nodes], k), 0;
}
static tidei_cu_result run_kernel(tidei_cu_function f, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                  tidei_cu_stream s, void **params, void **extra);
static void run_nodes(const struct CUgraph_st *g, tidei_cu_stream s) {
    for (size_t i = 0; i < g->n; i++) {
        const struct CUgraphNode_st *x = &g->nodes[i];
        if (x->child) {
            run_nodes(x->child, s);
            continue;
        }
        size_t bytes = x->bytes;
        void *extra[] = {PTR(TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER), (void *)(uintptr_t)x->params,
                         PTR(TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE), &bytes,
                         PTR(TIDEI_CU_LAUNCH_PARAM_END)};
        (void)run_kernel(x->k.function, x->k.grid[0], x->k.grid[1], x->k.grid[2], x->k.block[0],
                         x->k.block[1], x->k.block[2], x->k.shared_bytes, s, NULL,
                         bytes ? extra : NULL);
    }
}
static tidei_cu_result f_graph_launch(tidei_cu_exec x, tidei_cu_stream s) {
    TRY("cuGraphLaunch");
    assert_at_home(s);
    fake.graph_launches++;
    return run_nodes(x->graph, s), 0;
}

static tidei_cu_result queue_kernel(tidei_cu_function f, const unsigned *grid,
                                    const unsigned *block, unsigned shared, tidei_cu_stream s,
                                    void **params, void **extra) {
    if (fake.captured && s == fake.captures) {
        tidei_cu_node last = fake.captured->n ? &fake.captured->nodes[fake.captured->n - 1] : NULL;
        const tidei_cu_kernel_node k = {.function = f,
                                        .grid = {grid[0], grid[1], grid[2]},
                                        .block = {block[0], block[1], block[2]},
                                        .shared_bytes = shared,
                                        .params = params,
                                        .extra = extra,
                                        .ctx = fake.current};
        return set_node(add_node(fake.captured, &last, last != NULL), &k), 0;
    }
    return run_kernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, s, params,
                      extra);
}
static tidei_cu_result f_launch(tidei_cu_function f, unsigned gx, unsigned gy, unsigned gz,
                                unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                tidei_cu_stream s, void **params, void **extra) {
    TRY("cuLaunchKernel");
    return queue_kernel(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, s, params,
                        extra);
}
/* A launch that may start early, and no other. */
static tidei_cu_result f_launch_ex(const tidei_cu_config *c, tidei_cu_function f, void **params,
                                   void **extra) {
    TRY("cuLaunchKernelEx");
    assert_false(fake.ampere); /* which has no such wait */
    assert_int_equal(c->nattributes, 1);
    assert_int_equal(c->attributes->id, TIDEI_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION);
    assert_int_equal(c->attributes->value.programmatic, 1);
    fake.early_launches++;
    return queue_kernel(f, c->grid, c->block, c->shared_bytes, c->stream, params, extra);
}
static tidei_cu_result run_kernel(tidei_cu_function f, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                  tidei_cu_stream s, void **params, void **extra) {
    (void)s;
    fake.launches++;
    int *of = (int *)(void *)f;
    if (of == &fake.batches[0] || of == &fake.batches[1])
        return run_batch(of == &fake.batches[1], gx, bx, params), 0;
    assert_null(params);
    fake.grid[0] = gx, fake.grid[1] = gy, fake.grid[2] = gz;
    fake.block[0] = bx, fake.block[1] = by, fake.block[2] = bz;
    fake.shared = shared;
    fake.params_bytes = 0;
    if (!extra) return 0;
    assert_ptr_equal(extra[0], PTR(TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER));
    assert_ptr_equal(extra[2], PTR(TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE));
    assert_ptr_equal(extra[4], PTR(TIDEI_CU_LAUNCH_PARAM_END));
    fake.params_bytes = *(size_t *)extra[3];
    memcpy(fake.params, extra[1], tidei_min_size(fake.params_bytes, sizeof fake.params));
    struct text *t = (void *)f;
    if (fake.runs_texts && !strcmp(t->name, "tide_k"))
        run_text(t, gx, gy, bx * by * bz, extra[1], fake.params_bytes);
    return 0;
}

/* ---- pools: a block bears its size before it ---- */

static tidei_cu_result f_pool(tidei_cu_pool *out, const tidei_cu_pool_props *p) {
    TRY("cuMemPoolCreate");
    assert_int_equal(p->type, TIDEI_CU_MEM_ALLOCATION_TYPE_PINNED);
    assert_int_equal(p->location.type, TIDEI_CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(p->max_bytes, 0);
    assert_int_equal(p->location.id, here());
    assert_true(fake.pools_made < (int)TIDEI_COUNT(fake.pool_of));
    fake.pools++;
    fake.pool_of[fake.pools_made] = here();
    return *out = (tidei_cu_pool)(void *)&fake.pool_of[fake.pools_made++], 0;
}
static int any_pool_number(tidei_cu_pool p) {
    ptrdiff_t i = (int *)(void *)p - fake.pool_of;
    assert_in_range(i, 0, fake.pools_made - 1);
    return (int)i;
}
static int pool_number(tidei_cu_pool p) {
    assert_int_equal(fake.pool_of[any_pool_number(p)], here());
    return any_pool_number(p);
}
static tidei_cu_result f_pool_destroy(tidei_cu_pool p) {
    fake.pool_of[any_pool_number(p)] = -1;
    if (--fake.pools) return 0;
    fake.pools_made = 0;
    return memset(fake.pool_granted, 0, sizeof fake.pool_granted), 0;
}
static tidei_cu_result f_pool_access(tidei_cu_pool p, const tidei_cu_access *d, size_t count) {
    TRY("cuMemPoolSetAccess");
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(d[i].location.type, TIDEI_CU_MEM_LOCATION_TYPE_DEVICE);
        assert_int_equal(d[i].flags, TIDEI_CU_MEM_ACCESS_READWRITE);
        assert_int_not_equal(d[i].location.id, here());
        fake.pool_granted[pool_number(p)] |= (uint64_t)1 << d[i].location.id;
    }
    return fake.accesses++, 0;
}
static tidei_cu_result f_pool_set(tidei_cu_pool p, tidei_cu_pool_attribute a, void *value) {
    TRY("cuMemPoolSetAttribute");
    pool_number(p);
    if (a == TIDEI_CU_POOL_RELEASE_THRESHOLD) return fake.threshold = *(tidei_cu_u64 *)value, 0;
    assert_in_range(a, 1, 3);
    return fake.rules[a] = *(int *)value, 0;
}
static tidei_cu_result f_pool_get(tidei_cu_pool p, tidei_cu_pool_attribute a, void *value) {
    TRY("cuMemPoolGetAttribute");
    pool_number(p);
    size_t reserved = tidei_round_up(fake.pool_bytes, PAGE);
    return *(tidei_cu_u64 *)value =
               a == TIDEI_CU_POOL_RESERVED_CURRENT ? reserved : fake.pool_bytes,
                          0;
}
static tidei_cu_result f_pool_trim(tidei_cu_pool p, size_t keep) {
    TRY("cuMemPoolTrimTo");
    return (void)p, fake.trimmed_to = keep, 0;
}
static tidei_cu_result f_pool_alloc(tidei_cu_addr *out, size_t n, tidei_cu_pool p,
                                    tidei_cu_stream s) {
    TRY("cuMemAllocFromPoolAsync");
    pool_number(p);
    assert_non_null(s);
    size_t *block = aligned_alloc(256, tidei_round_up(256 + n, 256));
    *block = n;
    own((struct owned){(uintptr_t)block, 256 + n, OWNED_BLOCK, here(), 0, pool_number(p)});
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
                                .cuDeviceCanAccessPeer = f_can_peer,
                                .cuDevicePrimaryCtxRetain = f_retain,
                                .cuDevicePrimaryCtxRelease = f_release,
                                .cuCtxGetCurrent = f_current,
                                .cuCtxSetCurrent = f_set,
                                .cuCtxPushCurrent = f_push,
                                .cuCtxPopCurrent = f_pop,
                                .cuCtxEnablePeerAccess = f_enable_peer,
                                .cuMemGetInfo = f_info,
                                .cuMemAlloc = f_alloc,
                                .cuMemFree = f_free,
                                .cuMemHostAlloc = f_host,
                                .cuMemAllocManaged = f_managed,
                                .cuMemPrefetchAsync = f_prefetch,
                                .cuMemAdvise = f_advise,
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
                                .cuMemPoolSetAccess = f_pool_access,
                                .cuMemPoolTrimTo = f_pool_trim,
                                .cuMemAllocFromPoolAsync = f_pool_alloc,
                                .cuMemFreeAsync = f_free_async,
                                .cuStreamCreate = f_stream,
                                .cuStreamDestroy = f_stream_destroy,
                                .cuStreamSynchronize = f_sync,
                                .cuStreamIsCapturing = f_capturing,
                                .cuStreamGetCtx = f_stream_context,
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
                                .cuFuncSetAttribute = f_allow,
                                .cuOccupancyMaxActiveClusters = f_clusters,
                                .cuLaunchKernel = f_launch,
                                .cuLaunchKernelEx = f_launch_ex,
                                .cuStreamBeginCapture = f_begin_capture,
                                .cuStreamEndCapture = f_end_capture,
                                .cuGraphCreate = f_graph,
                                .cuGraphDestroy = f_graph_destroy,
                                .cuGraphGetNodes = f_graph_nodes,
                                .cuGraphAddKernelNode = f_add_kernel,
                                .cuGraphAddChildGraphNode = f_add_child,
                                .cuGraphAddDependencies = f_add_edge,
                                .cuGraphInstantiateWithFlags = f_instantiate,
                                .cuGraphExecDestroy = f_exec_destroy,
                                .cuGraphExecKernelNodeSetParams = f_tell,
                                .cuGraphLaunch = f_graph_launch};

/* ---- around every case ---- */

#define NVRTC_DOUBLE TIDE_TEST_DOUBLES "/libnvrtc_double.so"

static int setup(void **state) {
    (void)state;
    setenv("TIDE_NVRTC_PATH", NVRTC_DOUBLE, 1);
    setenv("TIDE_CACHE", "0", 1); /* what the double makes of texts stays here */
    memset(&fake, 0, sizeof fake);
    fake.write_value = 1;
    fake.devices = 1;
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
    assert_int_equal(fake.graphs, 0);
    assert_int_equal(fake.execs, 0);
    assert_int_equal(fake.nowned, 0);
    for (int i = 0; i < DEVICES; i++) assert_ptr_not_equal(fake.current, CONTEXT_OF(i));
}

static inline tidei_device *open_ordinal(int ordinal) {
    tidei_device *d = NULL;
    tidei_device_params p = {.ordinal = ordinal};
    assert_ok(tidei_cuda_open(&p, &d));
    return d;
}
#define open_double() open_ordinal(0)

static inline void fail_at(const char *call, int skipped, tidei_cu_result r) {
    fake.failing = call;
    fake.skip = skipped;
    fake.error = call ? r : 0;
    fake.failed = NULL;
    fake.once = false;
}
/* The n-th call fails, from 1, whichever it is; and those after it, or not. */
static inline void fail_nth(int n, tidei_cu_result r, bool once) {
    fail_at("", n - 1, r);
    fake.failing = NULL;
    fake.once = once;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
