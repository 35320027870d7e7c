/* memory.c: addresses, pages and raw memory of the `cuda` device. */
#include "runtime/device/cuda/device.h"

struct tidei_dpage {
    tidei_cu_handle handle;
    size_t bytes;
};

tide_status tidei_cuda_reserve(tidei_device *d, size_t bytes, tidei_addr *out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_addr addr = 0;
    bool pushed;
    tide_status s = tidei_cuda_enter(c, &pushed);
    if (s != TIDE_OK) return s;
    tidei_cu_result r = c->cu->cuMemAddressReserve(&addr, bytes, 0, 0, 0);
    tidei_cuda_leave(c, pushed);
    if (r == TIDEI_CU_SUCCESS) *out = addr;
    return tidei_cuda_status(c, r, "cuMemAddressReserve(%zu bytes)", bytes);
}

void tidei_cuda_unreserve(tidei_device *d, tidei_addr addr, size_t bytes) {
    tidei_cuda *c = tidei_cuda_of(d);
    bool pushed;
    if (!tidei_cuda_enter_release(c, &pushed)) return;
    c->cu->cuMemAddressFree(addr, bytes);
    tidei_cuda_leave(c, pushed);
}

tide_status tidei_cuda_page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    tidei_cuda *c = tidei_cuda_of(d);
    bool pushed;
    tide_status s = tidei_cuda_enter(c, &pushed);
    if (s != TIDE_OK) return s;
    tidei_dpage *p = tidei_host_alloc(c->rt, sizeof *p);
    if (!p) {
        tidei_cuda_leave(c, pushed);
        return tidei_fail_host_memory("cuda", sizeof *p);
    }
    p->bytes = bytes;
    tidei_cu_result r = c->cu->cuMemCreate(&p->handle, bytes, &c->page_prop, 0);
    tidei_cuda_leave(c, pushed);
    if (r == TIDEI_CU_SUCCESS) {
        *out = p;
        return TIDE_OK;
    }
    tidei_host_free(c->rt, p);
    return tidei_cuda_failed(c, r, "cuMemCreate(%zu bytes)", bytes);
}

void tidei_cuda_page_release(tidei_device *d, tidei_dpage *p) {
    tidei_cuda *c = tidei_cuda_of(d);
    bool pushed;
    if (tidei_cuda_enter_release(c, &pushed)) {
        c->cu->cuMemRelease(p->handle);
        tidei_cuda_leave(c, pushed);
    }
    tidei_host_free(c->rt, p);
}

/* Maps page by page and grants access to the whole run at once: granting is what costs (35 us for 2 MiB). */
static tidei_cu_result map_all(tidei_cuda *c, tidei_addr addr, tidei_dpage *const *pages, size_t n) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    size_t mapped = 0;
    for (size_t i = 0; i < n && r == TIDEI_CU_SUCCESS; i++) {
        r = c->cu->cuMemMap(addr + mapped, pages[i]->bytes, 0, pages[i]->handle, 0);
        if (r == TIDEI_CU_SUCCESS) mapped += pages[i]->bytes;
    }
    if (r == TIDEI_CU_SUCCESS) r = c->cu->cuMemSetAccess(addr, mapped, &c->page_access, 1);
    if (r != TIDEI_CU_SUCCESS && mapped) c->cu->cuMemUnmap(addr, mapped);
    return r;
}

tide_status tidei_cuda_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n) {
    tidei_cuda *c = tidei_cuda_of(d);
    bool pushed;
    tide_status s = tidei_cuda_enter(c, &pushed);
    if (s != TIDE_OK || n == 0) return s;
    tidei_cu_result r = map_all(c, addr, pages, n);
    tidei_cuda_leave(c, pushed);
    return tidei_cuda_status(c, r, "cuMemMap(%zu pages)", n);
}

tide_status tidei_cuda_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n) {
    tidei_cuda *c = tidei_cuda_of(d);
    size_t bytes = 0;
    bool pushed;
    tide_status s = tidei_cuda_enter(c, &pushed);
    if (s != TIDE_OK || n == 0) return s;
    for (size_t i = 0; i < n; i++) bytes += pages[i]->bytes;
    tidei_cu_result r = c->cu->cuMemUnmap(addr, bytes);
    tidei_cuda_leave(c, pushed);
    return tidei_cuda_status(c, r, "cuMemUnmap(%zu pages)", n);
}

tide_status tidei_cuda_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes, tidei_addr *out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_addr addr = 0;
    void *host = NULL;
    tidei_cu_result r;
    bool pushed;
    tide_status s = tidei_cuda_enter(c, &pushed);
    if (s != TIDE_OK) return s;
    if (kind == TIDEI_MEM_PINNED)
        r = c->cu->cuMemHostAlloc(&host, bytes, TIDEI_CU_MEMHOSTALLOC_PORTABLE | TIDEI_CU_MEMHOSTALLOC_DEVICEMAP);
    else
        r = c->cu->cuMemAlloc(&addr, bytes);
    tidei_cuda_leave(c, pushed);
    if (r == TIDEI_CU_SUCCESS) *out = kind == TIDEI_MEM_PINNED ? (tidei_addr)(uintptr_t)host : addr;
    if (r == TIDEI_CU_OUT_OF_MEMORY && kind == TIDEI_MEM_PINNED) return tidei_fail_host_memory("cuda", bytes);
    return tidei_cuda_status(c, r, "%s(%zu bytes)", kind == TIDEI_MEM_PINNED ? "cuMemHostAlloc" : "cuMemAlloc",
                             bytes);
}

void tidei_cuda_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    tidei_cuda *c = tidei_cuda_of(d);
    bool pushed;
    (void)bytes;
    if (!tidei_cuda_enter_release(c, &pushed)) return;
    if (kind == TIDEI_MEM_PINNED)
        c->cu->cuMemFreeHost((void *)(uintptr_t)addr);
    else
        c->cu->cuMemFree(addr);
    tidei_cuda_leave(c, pushed);
}

tide_status tidei_cuda_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes) {
    tidei_cuda *c = tidei_cuda_of(d);
    size_t f = 0, t = 0;
    bool pushed;
    tide_status s = tidei_cuda_enter(c, &pushed);
    if (s != TIDE_OK) return s;
    tidei_cu_result r = c->cu->cuMemGetInfo(&f, &t);
    tidei_cuda_leave(c, pushed);
    if (r != TIDEI_CU_SUCCESS) return tidei_cuda_failed(c, r, "cuMemGetInfo");
    *free_bytes = f;
    *total_bytes = t;
    return TIDE_OK;
}
