/* work.c: copies, fills and kernels of the `cuda` device. */
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/base/text.h"

#include <stdlib.h>

/* ---- copies ---- */

/* Host memory known to the driver (pinned, registered, managed) is read by the GPU whenever it gets
** there; any other host memory the driver has copied when its call returns. */
static unsigned int memory_type(tidei_cuda *c, tidei_addr p) {
    unsigned int type = 0;
    tidei_cu_pointer_attribute which = TIDEI_CU_POINTER_MEMORY_TYPE;
    void *where = &type;
    return c->cu->cuPointerGetAttributes(1, &which, &where, p) == TIDEI_CU_SUCCESS ? type : 0;
}
static bool is_pinned(tidei_cuda *c, tidei_addr p) { return memory_type(c, p) != 0; }

static tidei_cu_result copy_in(tidei_cuda *c, tidei_dstream *s, const tidei_copy *k) {
    tidei_cu_result r =
        c->cu->cuMemcpyHtoDAsync(k->dst, (const void *)(uintptr_t)k->src, k->bytes, s->s);
    bool pinned = r == TIDEI_CU_SUCCESS && is_pinned(c, k->src);
    if (k->busy)
        *k->busy = pinned;
    else if (pinned)
        r = c->cu->cuStreamSynchronize(s->s);
    return r;
}

static tidei_cu_result copy_out(tidei_cuda *c, tidei_dstream *s, const tidei_copy *k) {
    tidei_cu_result r = c->cu->cuMemcpyDtoHAsync((void *)(uintptr_t)k->dst, k->src, k->bytes, s->s);
    if (k->busy) *k->busy = r == TIDEI_CU_SUCCESS && is_pinned(c, k->dst);
    return r;
}

/* Copies that are not between the host's own memory and the device use the driver's call that looks
** at the addresses: D2D may be between two devices, or a device and pinned memory. */
tide_status tidei_cuda_copy(tidei_device *d, tidei_dstream *s, const tidei_copy *k) {
    static const char *const names[] = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyAsync"};
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_result r;
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    switch (k->kind) {
    case TIDEI_COPY_H2D: r = copy_in(c, s, k); break;
    case TIDEI_COPY_D2H: r = copy_out(c, s, k); break;
    default: r = c->cu->cuMemcpyAsync(k->dst, k->src, k->bytes, s->s); break;
    }
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "%s(%zu bytes)", names[k->kind], k->bytes);
}

/* Where the driver cannot be asked it is to do the copy. */
bool tidei_cuda_host_pinned(tidei_device *d, const void *host) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tidei_saved_error e;
    tidei_error_save(&e);
    if (tidei_cuda_enter(c, &visit) != TIDE_OK) return tidei_error_restore(&e), true;
    bool pinned = is_pinned(c, (tidei_addr)(uintptr_t)host);
    tidei_cuda_leave(c, &visit);
    return pinned;
}

/* ---- fills ---- */

/* the first elements are written a 32-bit column at a time; the rest is copied from them */
#define FILL_SEED 4096
/* bytes of one copy; larger ones would not be read from the cache any more */
#define FILL_CHUNK (32 * TIDEI_MIB)

/* The driver fills with up to 32 bits. Wider patterns: the first elements column by column, then
** copies of what already stands, twice as much each time. In the host's memory all elements go
** column by column: a copy from pinned to pinned memory would make the caller wait for the
** stream. */
static tidei_cu_result fill_wide(tidei_cuda *c, tidei_dstream *s, tidei_addr dst,
                                 const void *pattern, size_t width, size_t count) {
    bool columns = count <= FILL_SEED || memory_type(c, dst) == TIDEI_CU_MEMORYTYPE_HOST;
    size_t seed = columns ? count : FILL_SEED, total = count * width;
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    for (size_t at = 0; at < width && r == TIDEI_CU_SUCCESS; at += 4) {
        unsigned int column;
        memcpy(&column, (const char *)pattern + at, 4);
        r = c->cu->cuMemsetD2D32Async(dst + at, width, column, 1, seed, s->s);
    }
    for (size_t done = seed * width, n; done < total && r == TIDEI_CU_SUCCESS; done += n) {
        n = tidei_min_size(tidei_min_size(done, FILL_CHUNK), total - done);
        r = c->cu->cuMemcpyAsync(dst + done, dst, n, s->s);
    }
    return r;
}

/* The width of the shortest pattern that repeats to the same bytes: zeros of any type have width
** 1. */
static size_t narrow(const void *pattern, size_t width) {
    const char *p = pattern;
    while (width > 1 && memcmp(p, p + width / 2, width / 2) == 0) width /= 2;
    return width;
}

static tidei_cu_result fill(tidei_cuda *c, tidei_dstream *s, tidei_addr dst, const void *pattern,
                            size_t width, size_t count) {
    size_t w = narrow(pattern, width);
    unsigned short half;
    unsigned int word;
    count *= width / w;
    switch (w) {
    case 1: return c->cu->cuMemsetD8Async(dst, *(const unsigned char *)pattern, count, s->s);
    case 2: memcpy(&half, pattern, 2); return c->cu->cuMemsetD16Async(dst, half, count, s->s);
    case 4: memcpy(&word, pattern, 4); return c->cu->cuMemsetD32Async(dst, word, count, s->s);
    default: return fill_wide(c, s, dst, pattern, w, count);
    }
}

tide_status tidei_cuda_fill(tidei_device *d, tidei_dstream *s, tidei_addr dst, const void *pattern,
                            size_t width, size_t count) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (count == 0) return TIDE_OK;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = fill(c, s, dst, pattern, width, count);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "filling %zu elements of %zu bytes", count, width);
}

/* ---- kernels ---- */

static tide_status load(tidei_cuda *c, const tidei_kernel_text *t, const void *code,
                        tidei_dkernel **out) {
    tidei_cu_result r;
    tidei_cuda_visit visit;
    tidei_dkernel *k = tidei_host_alloc(c->rt, sizeof *k);
    if (!k) return tidei_fail_host_memory("cuda", sizeof *k);
    k->waits = t->waits && c->kernels_wait;
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) {
        tidei_host_free(c->rt, k);
        return status;
    }
    r = c->cu->cuModuleLoadData(&k->module, code);
    status = tidei_cuda_status(c, r, "cuModuleLoadData(%s)", t->name);
    if (status == TIDE_OK) {
        r = c->cu->cuModuleGetFunction(&k->function, k->module, t->name);
        status = tidei_cuda_status(c, r, "cuModuleGetFunction(%s)", t->name);
        if (status != TIDE_OK) c->cu->cuModuleUnload(k->module);
    }
    tidei_cuda_leave(c, &visit);
    if (status == TIDE_OK)
        *out = k;
    else
        tidei_host_free(c->rt, k);
    return status;
}

tide_status tidei_cuda_kernel_new(tidei_device *d, const tidei_kernel_text *t, tidei_dkernel **out,
                                  void **image, size_t *image_bytes) {
    TIDEI_IN_C_LOCALE; /* the image may be text that the driver compiles */
    tidei_cuda *c = tidei_cuda_of(d);
    void *made = NULL;
    size_t bytes = 0;
    if (tidei_unlikely(atomic_load(&d->lost) || tidei_forked())) return tidei_cuda_refuse(c);
    tide_status status =
        t->image ? TIDE_OK : tidei_nvrtc_compile(t->source, t->name, c->sm, &made, &bytes);
    if (status == TIDE_OK) status = load(c, t, t->image ? t->image : made, out);
    if (made && image) {
        *image = made;
        *image_bytes = bytes;
    } else
        free(made);
    return status;
}

tide_status tidei_cuda_kernel_compile(tidei_device *d, const tidei_kernel_text *t, void **image,
                                      size_t *image_bytes) {
    return tidei_nvrtc_compile(t->source, t->name, tidei_cuda_of(d)->sm, image, image_bytes);
}

void tidei_cuda_kernel_release(tidei_device *d, tidei_dkernel *k) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (tidei_cuda_enter_release(c, &visit)) {
        c->cu->cuModuleUnload(k->module);
        tidei_cuda_leave(c, &visit);
    }
    tidei_host_free(c->rt, k);
}

tide_status tidei_cuda_kernel_widen(tidei_device *d, tidei_dkernel *k, unsigned blocks,
                                    unsigned threads, unsigned shared_bytes) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    const tidei_cu_config config = {
        .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .shared_bytes = shared_bytes};
    int fit = 0; /* clusters at once */
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r =
        c->cu->cuFuncSetAttribute(k->function, TIDEI_CU_FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    if (r == TIDEI_CU_SUCCESS) r = c->cu->cuOccupancyMaxActiveClusters(&fit, k->function, &config);
    tidei_cuda_leave(c, &visit);
    if ((r == TIDEI_CU_SUCCESS && fit <= 0) || r == TIDEI_CU_INVALID_VALUE ||
        r == TIDEI_CU_NOT_SUPPORTED || r == TIDEI_CU_INVALID_CLUSTER_SIZE)
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda",
                          "%s takes no clusters of %u blocks of %u threads", d->info.name, blocks,
                          threads);
    return tidei_cuda_status(c, r, "asking for clusters of %u blocks", blocks);
}

/* A kernel that waits by itself starts as soon as the one before it leaves room, if that is ours,
** and ends: a microsecond less between two, and the driver takes a fifth less to queue it
** (bench/RESULTS.md). It waits for the grid before it alone. One of ours ends behind its own wait,
** so that all before it is complete, too; what others queue may not wait, and end first. */
static tidei_cu_result launch_early(tidei_cuda *c, tidei_dstream *s, const tidei_launch *l,
                                    void **extra) {
    static const tidei_cu_launch_attribute early = {
        .id = TIDEI_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION, .value.programmatic = 1};
    const tidei_cu_config config = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
                                    .block = {l->block[0], l->block[1], l->block[2]},
                                    .shared_bytes = l->shared_bytes,
                                    .stream = s->s,
                                    .attributes = (tidei_cu_launch_attribute *)(uintptr_t)&early,
                                    .nattributes = 1};
    return c->cu->cuLaunchKernelEx(&config, l->kernel->function, NULL, extra);
}

static tidei_cu_result launch(tidei_cuda *c, tidei_dstream *s, const tidei_launch *l,
                              void **extra) {
    int others = atomic_load_explicit(&s->others, memory_order_relaxed);
    if (tidei_likely(others == TIDEI_CUDA_NOBODY && l->kernel->waits && c->cu->cuLaunchKernelEx))
        return launch_early(c, s, l, extra);
    tidei_cu_result r =
        c->cu->cuLaunchKernel(l->kernel->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                              l->block[1], l->block[2], l->shared_bytes, s->s, NULL, extra);
    if (r == TIDEI_CU_SUCCESS && others == TIDEI_CUDA_ONCE)
        atomic_compare_exchange_strong(&s->others, &others, TIDEI_CUDA_NOBODY);
    return r;
}

tide_status tidei_cuda_launch(tidei_device *d, tidei_dstream *s, const tidei_launch *l) {
    tidei_cuda *c = tidei_cuda_of(d);
    size_t bytes = l->params_bytes;
    void *extra[] = {(void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER,
                     (void *)(uintptr_t)l->params,
                     (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_END};
    tidei_cuda_visit visit;
    if (tidei_unlikely(!l->kernel))
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda", "%s runs no host functions (%s)",
                          d->info.name, l->name);
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = launch(c, s, l, bytes ? extra : NULL);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(
        c, r, "launching %s (grid %u, %u, %u, block %u, %u, %u, shared %u bytes)", l->name,
        l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared_bytes);
}
