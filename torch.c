/* torch.c: the default pools as PyTorch's pluggable allocator: two functions of its signature, on
** runtimes of the process.
**
** One runtime a GPU, opened at its first allocation, with reference counting: nothing of a
** collector comes into the process. PyTorch names streams by their native handles; each is wrapped
** once and kept. */
#include "runtime/runtime.h"
#include "runtime/base/text.h"
#include <stdlib.h>
#include <tide/pool.h>

#define GPUS 64

typedef struct wrapped {
    void *native;
    tide_stream *s;
} wrapped;

static struct {
    pthread_mutex_t lock;
    struct gpu {
        tide_runtime *rt; /* NULL: not open */
        /* room for TIDEI_STREAMS_MAX; not in the process's static data, which collectors scan */
        wrapped *streams;
        unsigned n;
    } gpus[GPUS];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tide_status open_one(const char *kind, int device, tide_runtime **out) {
    char name[16];
    tide_config c = {
        .struct_size = sizeof c, .device = name, .collector = "refcount", .host_devices = GPUS / 4};
    tidei_format(name, sizeof name, "%s:%d", kind, device);
    return tide_open(&c, out);
}

/* Where there is no GPU, a host device. Under the lock. */
static tide_status open_gpu(struct gpu *g, int device) {
    if (g->rt) return TIDE_OK;
    if (!g->streams) g->streams = calloc(TIDEI_STREAMS_MAX, sizeof *g->streams);
    if (!g->streams)
        return tidei_fail_host_memory("tide_torch_malloc", TIDEI_STREAMS_MAX * sizeof *g->streams);
    tidei_saved_error earlier;
    tidei_error_save(&earlier);
    tide_status status = open_one("cuda", device, &g->rt);
    if (status != TIDE_E_NODEVICE) return status;
    tidei_error_restore(&earlier); /* that there is none is no failure */
    return open_one("host", device, &g->rt);
}

/* Host devices have no native streams: the calling thread's current one serves. Under the lock. */
static tide_status find_stream(struct gpu *g, void *native, tide_stream **out) {
    *out = NULL;
    if (tidei_runtime_of(g->rt)->devs[0].d->info.flags & TIDEI_DEV_RUNS_HOST) return TIDE_OK;
    for (unsigned i = 0; i < g->n && !*out; i++)
        if (g->streams[i].native == native) *out = g->streams[i].s;
    if (*out) return TIDE_OK;
    tide_status status = tide_stream_wrap(g->rt, native, out);
    /* a device has as many streams as fit */
    if (status == TIDE_OK) g->streams[g->n++] = (wrapped){native, *out};
    return status;
}

static tide_status find(int device, void *native, bool opens, tide_runtime **rt, tide_stream **s) {
    const char *op = opens ? "tide_torch_malloc" : "tide_torch_free";
    if (device < 0 || device >= GPUS)
        return tidei_fail(TIDE_E_INVALID, op, "there is no device %d", device);
    struct gpu *g = &all.gpus[device];
    pthread_mutex_lock(&all.lock);
    tide_status status = opens ? open_gpu(g, device) : g->rt ? TIDE_OK : TIDE_E_CLOSED;
    if (status == TIDE_OK) status = find_stream(g, native, s);
    *rt = g->rt;
    pthread_mutex_unlock(&all.lock);
    return status;
}

void *tide_torch_malloc(ptrdiff_t size, int device, void *stream) {
    tide_runtime *rt = NULL;
    tide_stream *s;
    if (size < 0) {
        tidei_fail(TIDE_E_INVALID, "tide_torch_malloc", "%td bytes asked", size);
        return NULL;
    }
    void *p = find(device, stream, true, &rt, &s) == TIDE_OK
                  ? tide_pool_malloc(tide_pool_default(rt), s, (size_t)size)
                  : NULL;
    if (!p) tidei_fail_as("tide_torch_malloc");
    return p;
}

void tide_torch_free(void *ptr, ptrdiff_t size, int device, void *stream) {
    tide_runtime *rt = NULL;
    tide_stream *s;
    (void)size;
    if (ptr && find(device, stream, false, &rt, &s) == TIDE_OK)
        tide_pool_free(tide_pool_default(rt), s, ptr);
}

void tide_torch_close(void) {
    pthread_mutex_lock(&all.lock);
    for (unsigned i = 0; i < GPUS; i++) {
        tide_close(all.gpus[i].rt);
        free(all.gpus[i].streams);
        all.gpus[i].streams = NULL;
        all.gpus[i].rt = NULL;
        all.gpus[i].n = 0;
    }
    pthread_mutex_unlock(&all.lock);
}
