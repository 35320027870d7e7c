/* memory.c: addresses, pages and raw memory of the `cuda` device. Which of it other devices may
** use: peers.c. */
#include "runtime/device/cuda/device.h"

tide_status tidei_cuda_reserve(tidei_device *d, size_t bytes, tidei_addr *out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_addr addr = 0;
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    tidei_cu_result r = c->cu->cuMemAddressReserve(&addr, bytes, 0, 0, 0);
    tidei_cuda_leave(c, &visit);
    if (r == TIDEI_CU_SUCCESS) *out = addr;
    return tidei_cuda_status(c, r, "cuMemAddressReserve(%zu bytes)", bytes);
}

void tidei_cuda_unreserve(tidei_device *d, tidei_addr addr, size_t bytes) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!tidei_cuda_enter_release(c, &visit)) return;
    c->cu->cuMemAddressFree(addr, bytes);
    tidei_cuda_leave(c, &visit);
}

tidei_cu_alloc_prop tidei_cuda_page_prop(const tidei_cuda *c, unsigned shares) {
    tidei_cu_alloc_prop prop = c->page_prop;
    if (shares & TIDEI_CUDA_BY_DESCRIPTOR)
        prop.requested_handle_types = TIDEI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.flags.gpu_direct_rdma_capable = !!(shares & TIDEI_CUDA_BY_RDMA);
    return prop;
}

bool tidei_cuda_refuses_sharing(tidei_cu_result r) {
    return r == TIDEI_CU_NOT_SUPPORTED || r == TIDEI_CU_NOT_PERMITTED ||
           r == TIDEI_CU_INVALID_VALUE || r == TIDEI_CU_INVALID_DEVICE;
}

/* Pages can be shared as far as the driver goes along; what it refuses once, and does without, is
** not asked for again. */
static tidei_cu_result create(tidei_cuda *c, tidei_cu_handle *handle, size_t bytes) {
    unsigned shares = atomic_load_explicit(&c->shares, memory_order_relaxed);
    for (;;) {
        tidei_cu_alloc_prop prop = tidei_cuda_page_prop(c, shares);
        tidei_cu_result r = c->cu->cuMemCreate(handle, bytes, &prop, 0);
        if (r == TIDEI_CU_SUCCESS) atomic_store_explicit(&c->shares, shares, memory_order_relaxed);
        if (!shares || !tidei_cuda_refuses_sharing(r)) return r;
        shares &= shares & TIDEI_CUDA_BY_RDMA ? ~(unsigned)TIDEI_CUDA_BY_RDMA : 0;
    }
}

tide_status tidei_cuda_page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    tidei_dpage *p = tidei_host_alloc(c->rt, sizeof *p);
    if (!p) {
        tidei_cuda_leave(c, &visit);
        return tidei_fail_host_memory("cuda", sizeof *p);
    }
    p->bytes = bytes;
    tidei_cu_result r = create(c, &p->handle, bytes);
    tidei_cuda_leave(c, &visit);
    if (r == TIDEI_CU_SUCCESS) {
        *out = p;
        return TIDE_OK;
    }
    tidei_host_free(c->rt, p);
    return tidei_cuda_failed(c, r, "cuMemCreate(%zu bytes)", bytes);
}

void tidei_cuda_page_release(tidei_device *d, tidei_dpage *p) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (tidei_cuda_enter_release(c, &visit)) {
        pthread_mutex_lock(&c->peers.lock);
        tidei_cuda_peers_unmapped(&c->peers, p); /* it may be mapped where unmapping failed */
        pthread_mutex_unlock(&c->peers.lock);
        c->cu->cuMemRelease(p->handle);
        tidei_cuda_leave(c, &visit);
    }
    tidei_host_free(c->rt, p);
}

/* Maps page by page and grants access to the whole range at once, to all devices that have access:
** granting is what costs (35 us for 2 MiB). Under the peers' lock. */
static tidei_cu_result map_all(tidei_cuda *c, tidei_addr addr, tidei_dpage *const *pages,
                               size_t n) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    size_t mapped = 0;
    for (size_t i = 0; i < n && r == TIDEI_CU_SUCCESS; i++) {
        r = c->cu->cuMemMap(addr + mapped, pages[i]->bytes, 0, pages[i]->handle, 0);
        if (r == TIDEI_CU_SUCCESS) mapped += pages[i]->bytes;
    }
    if (r == TIDEI_CU_SUCCESS)
        r = c->cu->cuMemSetAccess(addr, mapped, c->peers.who, atomic_load(&c->peers.n));
    if (r == TIDEI_CU_SUCCESS)
        tidei_cuda_peers_mapped(&c->peers, addr, pages, n);
    else if (mapped)
        c->cu->cuMemUnmap(addr, mapped);
    return r;
}

tide_status tidei_cuda_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (n == 0) return TIDE_OK;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    pthread_mutex_lock(&c->peers.lock);
    tidei_cu_result r = map_all(c, addr, pages, n);
    pthread_mutex_unlock(&c->peers.lock);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuMemMap(%zu pages)", n);
}

tide_status tidei_cuda_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                             size_t n) {
    tidei_cuda *c = tidei_cuda_of(d);
    size_t bytes = 0;
    tidei_cuda_visit visit;
    if (n == 0) return TIDE_OK;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    for (size_t i = 0; i < n; i++) bytes += pages[i]->bytes;
    pthread_mutex_lock(&c->peers.lock);
    tidei_cu_result r = c->cu->cuMemUnmap(addr, bytes);
    for (size_t i = 0; i < n && r == TIDEI_CU_SUCCESS; i++)
        tidei_cuda_peers_unmapped(&c->peers, pages[i]);
    pthread_mutex_unlock(&c->peers.lock);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuMemUnmap(%zu pages)", n);
}

/* ---- raw memory ---- */

/* Unified memory takes room on the card as it is touched there, not when it is made, so the driver
** would give any amount; a kernel that touches more than there is room for can stop the GPU. The
** driver does not tell how much of ours is on the card already, so all of it counts as if it were
** still to come. */
static tide_status admit_managed(tidei_cuda *c, size_t bytes) {
    size_t free_bytes = 0, total = 0, all = atomic_fetch_add(&c->managed, bytes) + bytes;
    tidei_cu_result r = c->cu->cuMemGetInfo(&free_bytes, &total);
    if (r == TIDEI_CU_SUCCESS && all >= bytes && all <= free_bytes) return TIDE_OK;
    atomic_fetch_sub(&c->managed, bytes);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuMemGetInfo");
    return tidei_fail(TIDE_E_NOMEM, "cuda",
                      "%s: %zu bytes of unified memory beside %zu, and %zu are free on the card",
                      c->d.info.name, bytes, all - bytes, free_bytes);
}

static tide_status managed_alloc(tidei_cuda *c, size_t bytes, tidei_cu_addr *out) {
    if (!(c->d.info.flags & TIDEI_DEV_UNIFIED))
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda",
                          "%s has no unified memory that host and device may use at once",
                          c->d.info.name);
    tide_status s = admit_managed(c, bytes);
    if (s != TIDE_OK) return s;
    tidei_cu_result r = c->cu->cuMemAllocManaged(out, bytes, TIDEI_CU_MEM_ATTACH_GLOBAL);
    if (r != TIDEI_CU_SUCCESS) atomic_fetch_sub(&c->managed, bytes);
    return tidei_cuda_status(c, r, "cuMemAllocManaged(%zu bytes)", bytes);
}

/* The address is the same for host and device, as all share one space
** (TIDEI_CU_ATTR_UNIFIED_ADDRESSING). */
static tide_status pinned_alloc(tidei_cuda *c, size_t bytes, tidei_cu_addr *out) {
    void *host = NULL;
    tidei_cu_result r = c->cu->cuMemHostAlloc(
        &host, bytes, TIDEI_CU_MEMHOSTALLOC_PORTABLE | TIDEI_CU_MEMHOSTALLOC_DEVICEMAP);
    if (r == TIDEI_CU_OUT_OF_MEMORY) return tidei_fail_host_memory("cuda", bytes);
    *out = (uintptr_t)host;
    return tidei_cuda_status(c, r, "cuMemHostAlloc(%zu bytes)", bytes);
}

static tide_status device_alloc(tidei_cuda *c, size_t bytes, tidei_cu_addr *out) {
    return tidei_cuda_status(c, c->cu->cuMemAlloc(out, bytes), "cuMemAlloc(%zu bytes)", bytes);
}

tide_status tidei_cuda_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                 tidei_addr *out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_addr addr = 0;
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    s = kind == TIDEI_MEM_PINNED    ? pinned_alloc(c, bytes, &addr)
        : kind == TIDEI_MEM_UNIFIED ? managed_alloc(c, bytes, &addr)
                                    : device_alloc(c, bytes, &addr);
    tidei_cuda_leave(c, &visit);
    if (s == TIDE_OK) *out = addr;
    return s;
}

void tidei_cuda_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!tidei_cuda_enter_release(c, &visit)) return;
    if (kind == TIDEI_MEM_PINNED)
        c->cu->cuMemFreeHost((void *)(uintptr_t)addr);
    else
        c->cu->cuMemFree(addr);
    if (kind == TIDEI_MEM_UNIFIED) atomic_fetch_sub(&c->managed, bytes);
    tidei_cuda_leave(c, &visit);
}

/* ---- where unified memory is ---- */

static tidei_cu_location place(const tidei_cuda *c, bool host) {
    return host ? (tidei_cu_location){TIDEI_CU_MEM_LOCATION_TYPE_HOST, 0}
                : (tidei_cu_location){TIDEI_CU_MEM_LOCATION_TYPE_DEVICE, c->dev};
}

tide_status tidei_cuda_prefetch(tidei_device *d, tidei_dstream *s, tidei_addr addr, size_t bytes,
                                bool to_host) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!c->cu->cuMemPrefetchAsync) return TIDE_OK; /* before driver 12.2: pages go when touched */
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuMemPrefetchAsync(addr, bytes, place(c, to_host), 0, s->s);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuMemPrefetchAsync(%zu bytes)", bytes);
}

tide_status tidei_cuda_advise(tidei_device *d, tidei_addr addr, size_t bytes, tidei_advice advice) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_location at = place(c, advice == TIDEI_ADVICE_HOST);
    tidei_cuda_visit visit;
    if (!c->cu->cuMemAdvise) return TIDE_OK;
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuMemAdvise(addr, bytes,
                                           advice == TIDEI_ADVICE_READ_MOSTLY
                                               ? TIDEI_CU_MEM_ADVISE_SET_READ_MOSTLY
                                               : TIDEI_CU_MEM_ADVISE_UNSET_READ_MOSTLY,
                                           at);
    if (r == TIDEI_CU_SUCCESS)
        r = c->cu->cuMemAdvise(addr, bytes,
                               advice == TIDEI_ADVICE_DEVICE || advice == TIDEI_ADVICE_HOST
                                   ? TIDEI_CU_MEM_ADVISE_SET_PREFERRED_LOCATION
                                   : TIDEI_CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
                               at);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuMemAdvise(%zu bytes)", bytes);
}

tide_status tidei_cuda_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes) {
    tidei_cuda *c = tidei_cuda_of(d);
    size_t f = 0, t = 0;
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    tidei_cu_result r = c->cu->cuMemGetInfo(&f, &t);
    tidei_cuda_leave(c, &visit);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuMemGetInfo");
    *free_bytes = f;
    *total_bytes = t;
    return TIDE_OK;
}
