/* torch.c: the default pools as PyTorch's pluggable allocator: two functions of its signature, on
** runtimes of the process.
**
** One runtime a GPU, opened at its first allocation, with reference counting: nothing of a
** collector comes into the process. PyTorch names streams by their native handles; each is wrapped
** once and kept. So who asks for a stream that was asked for before takes no lock: entries are
** written once, and stay until nobody calls any more. */
#include "runtime/memory/external_alloc.h"
#include "runtime/observe/nvtx.h"
#include "runtime/runtime.h"
#include "runtime/base/text.h"
#include "runtime/pool/pools.h"
#include "runtime/streams/thread_device.h"
#include <stdlib.h>
#include <tide/pool.h>

#define GPUS 64

typedef struct wrapped {
    void *native;
    tidei_stream *s;
} wrapped;

typedef struct gpu {
    tide_runtime *rt; /* NULL: not open */
    tidei_pool *pool; /* its default one */
    /* room for TIDEI_STREAMS_MAX; not in the process's static data, which collectors scan */
    wrapped *streams;
    _Atomic unsigned n; /* the entries below are written */
} gpu;

static struct {
    pthread_mutex_t lock; /* for what writes */
    gpu gpus[GPUS];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tide_status open_one(const char *kind, int device, tide_runtime **out) {
    char name[16];
    tide_config c = {
        .struct_size = sizeof c, .device = name, .collector = "refcount", .host_devices = GPUS / 4};
    tidei_format(name, sizeof name, "%s:%d", kind, device);
    return tide_open(&c, out);
}

/* Where there is no GPU, a host device. */
static tide_status open_runtime(int device, tide_runtime **out) {
    tidei_saved_error earlier;
    tidei_error_save(&earlier);
    tide_status status = open_one("cuda", device, out);
    if (status != TIDE_E_NODEVICE) return status;
    tidei_error_restore(&earlier); /* that there is none is no failure */
    return open_one("host", device, out);
}

/* Under the lock. */
static tide_status open_gpu(gpu *g, int device) {
    if (g->rt) return TIDE_OK;
    if (!g->streams) g->streams = calloc(TIDEI_STREAMS_MAX, sizeof *g->streams);
    if (!g->streams)
        return tidei_fail_host_memory("tide_torch_malloc", TIDEI_STREAMS_MAX * sizeof *g->streams);
    tide_status status = open_runtime(device, &g->rt);
    if (status == TIDE_OK) g->pool = tidei_runtime_of(g->rt)->devs[0].pool;
    return status;
}

/* Host devices have no native streams: one serves all. */
static tide_status wrap(gpu *g, void *native, tidei_stream **out) {
    tide_stream *ref;
    *out = g->pool->dev->stream0;
    if (g->pool->dev->d->info.flags & TIDEI_DEV_RUNS_HOST) return TIDE_OK;
    tide_status status = tide_stream_wrap(g->rt, native, &ref);
    if (status == TIDE_OK && !(*out = tidei_stream_find(ref, "tide_torch_malloc")))
        status = tidei_last_status();
    return status;
}

/* The stream's entry, if it has one. */
static inline const wrapped *look(const gpu *g, void *native) {
    unsigned n = atomic_load_explicit(&g->n, memory_order_acquire);
    for (unsigned i = 0; i < n; i++)
        if (g->streams[i].native == native) return &g->streams[i];
    return NULL;
}

/* A device has as many streams as fit; host devices' are not counted there. Under the lock. */
static tide_status add(gpu *g, void *native) {
    unsigned n = atomic_load_explicit(&g->n, memory_order_relaxed);
    tidei_stream *s;
    if (n == TIDEI_STREAMS_MAX)
        return tidei_fail(TIDE_E_INVALID, "tide_torch_malloc", "more than %d streams", n);
    tide_status status = wrap(g, native, &s);
    if (status != TIDE_OK) return status;
    g->streams[n] = (wrapped){native, s};
    atomic_store_explicit(&g->n, n + 1, memory_order_release);
    return TIDE_OK;
}

/* Makes the entry; with `opens` the runtime too. */
__attribute__((noinline)) static tide_status enter(int device, void *native, bool opens) {
    const char *op = opens ? "tide_torch_malloc" : "tide_torch_free";
    if (device < 0 || device >= GPUS)
        return tidei_fail(TIDE_E_INVALID, op, "there is no device %d", device);
    gpu *g = &all.gpus[device];
    pthread_mutex_lock(&all.lock);
    tide_status status = opens ? open_gpu(g, device) : g->rt ? TIDE_OK : TIDE_E_CLOSED;
    if (status == TIDE_OK && !look(g, native)) status = add(g, native);
    pthread_mutex_unlock(&all.lock);
    return status;
}

/* NULL with the error set. */
static inline const wrapped *find(int device, void *native, bool opens) {
    const wrapped *x =
        tidei_likely((unsigned)device < GPUS) ? look(&all.gpus[device], native) : NULL;
    if (tidei_likely(x != NULL)) return x;
    return enter(device, native, opens) == TIDE_OK ? look(&all.gpus[device], native) : NULL;
}

static void *allocate(int device, void *native, size_t bytes) {
    const wrapped *x = find(device, native, true);
    if (!x) return NULL;
    tidei_pool *pool = all.gpus[device].pool;
    if (!tidei_thread_get(pool->dev->rt)) return NULL;
    if (!tidei_may_make(pool->dev->rt, "tide_torch_malloc")) return NULL;
    return tidei_external_alloc(pool, x->s, true, bytes, "tide_torch_malloc");
}

void *tide_torch_malloc(ptrdiff_t size, int device, void *stream) {
    TIDEI_OPERATION("tide_torch_malloc");
    if (size < 0) {
        tidei_fail(TIDE_E_INVALID, "tide_torch_malloc", "%td bytes asked", size);
        return NULL;
    }
    void *p = allocate(device, stream, (size_t)size);
    if (tidei_unlikely(!p)) tidei_fail_as("tide_torch_malloc");
    return p;
}

void tide_torch_free(void *ptr, ptrdiff_t size, int device, void *stream) {
    TIDEI_OPERATION("tide_torch_free");
    (void)size;
    const wrapped *x = ptr && !tidei_forked() ? find(device, stream, false) : NULL;
    if (!x || !tidei_thread_get(x->s->dev->rt)) return;
    if (tidei_unlikely(!tidei_external_free(x->s->dev->rt, x->s, ptr)))
        tidei_fail(TIDE_E_INVALID, "tide_torch_free", "no block of device %d is lent at %p", device,
                   ptr);
}

void tide_torch_close(void) {
    pthread_mutex_lock(&all.lock);
    for (unsigned i = 0; i < GPUS; i++) {
        gpu *g = &all.gpus[i];
        atomic_store(&g->n, 0);
        tide_close(g->rt);
        free(g->streams);
        g->streams = NULL;
        g->rt = NULL;
        g->pool = NULL;
    }
    pthread_mutex_unlock(&all.lock);
}
