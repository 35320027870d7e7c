/* mempool.c: the driver's stream-ordered memory pools. */
#include "runtime/device/cuda/device.h"

/* Drivers from 11.2 on have them; not every GPU does. */
static bool has_pools(tidei_cuda *c) {
    const tidei_cu *cu = c->cu;
    int supported = 0;
    if (!cu->cuMemPoolCreate || !cu->cuMemPoolDestroy || !cu->cuMemPoolSetAttribute ||
        !cu->cuMemPoolGetAttribute || !cu->cuMemPoolTrimTo || !cu->cuMemPoolSetAccess ||
        !cu->cuMemAllocFromPoolAsync || !cu->cuMemFreeAsync)
        return false;
    return cu->cuDeviceGetAttribute(&supported, TIDEI_CU_ATTR_MEMORY_POOLS, c->dev) ==
               TIDEI_CU_SUCCESS &&
           supported;
}

/* Makes the pool, open to all devices that may use this device's memory. */
static tidei_cu_result make(tidei_cuda *c, tidei_dmempool *mp) {
    tidei_cu_pool_props props = {.type = TIDEI_CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {TIDEI_CU_MEM_LOCATION_TYPE_DEVICE, c->dev}};
    tidei_cu_result r = c->cu->cuMemPoolCreate(&mp->pool, &props);
    if (r != TIDEI_CU_SUCCESS) return r;
    pthread_mutex_lock(&c->peers.lock);
    unsigned others = atomic_load(&c->peers.n) - 1;
    if (others) r = c->cu->cuMemPoolSetAccess(mp->pool, c->peers.who + 1, others);
    if (r == TIDEI_CU_SUCCESS) {
        mp->next = c->peers.pools;
        c->peers.pools = mp;
    }
    pthread_mutex_unlock(&c->peers.lock);
    if (r != TIDEI_CU_SUCCESS) c->cu->cuMemPoolDestroy(mp->pool);
    return r;
}

tide_status tidei_cuda_mempool_new(tidei_device *d, tidei_dmempool **out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    if (!has_pools(c)) {
        tidei_cuda_leave(c, &visit);
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda",
                          "%s or its driver has no stream-ordered memory pools", d->info.name);
    }
    tidei_dmempool *mp = tidei_host_alloc(c->rt, sizeof *mp);
    tidei_cu_result r = mp ? make(c, mp) : TIDEI_CU_SUCCESS;
    tidei_cuda_leave(c, &visit);
    if (!mp) return tidei_fail_host_memory("cuda", sizeof *mp);
    if (r == TIDEI_CU_SUCCESS) {
        *out = mp;
        return TIDE_OK;
    }
    tidei_host_free(c->rt, mp);
    return tidei_cuda_failed(c, r, "cuMemPoolCreate");
}

void tidei_cuda_mempool_release(tidei_device *d, tidei_dmempool *mp) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (tidei_cuda_enter_release(c, &visit)) {
        pthread_mutex_lock(&c->peers.lock);
        tidei_dmempool **at = &c->peers.pools;
        while (*at != mp) at = &(*at)->next;
        *at = mp->next;
        pthread_mutex_unlock(&c->peers.lock);
        c->cu->cuMemPoolDestroy(mp->pool);
        tidei_cuda_leave(c, &visit);
    }
    tidei_host_free(c->rt, mp);
}

tide_status tidei_cuda_mempool_alloc(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                     size_t bytes, tidei_addr *out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_addr addr = 0;
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuMemAllocFromPoolAsync(&addr, bytes, mp->pool, s->s);
    tidei_cuda_leave(c, &visit);
    if (r == TIDEI_CU_SUCCESS) *out = addr;
    return tidei_cuda_status(c, r, "cuMemAllocFromPoolAsync(%zu bytes)", bytes);
}

/* Without a stream nothing uses the block any more, so the driver's plain free, which takes such
** memory too, has nothing to wait for. */
tide_status tidei_cuda_mempool_free(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                    tidei_addr addr) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    (void)mp;
    if (!s) {
        if (tidei_cuda_enter_release(c, &visit)) {
            c->cu->cuMemFree(addr);
            tidei_cuda_leave(c, &visit);
        }
        return TIDE_OK;
    }
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuMemFreeAsync(addr, s->s);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuMemFreeAsync");
}

tide_status tidei_cuda_mempool_set(tidei_device *d, tidei_dmempool *mp, tidei_mempool_attr attr,
                                   uint64_t value) {
    static const unsigned theirs[] = {
        [TIDEI_MEMPOOL_THRESHOLD] = TIDEI_CU_POOL_RELEASE_THRESHOLD,
        [TIDEI_MEMPOOL_REUSE_FOLLOW] = TIDEI_CU_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES,
        [TIDEI_MEMPOOL_REUSE_DONE] = TIDEI_CU_POOL_REUSE_ALLOW_OPPORTUNISTIC,
        [TIDEI_MEMPOOL_REUSE_WAIT] = TIDEI_CU_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
    };
    tidei_cuda *c = tidei_cuda_of(d);
    int choice = value != 0; /* the rules are ints, the threshold a cuuint64_t */
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    void *at = attr == TIDEI_MEMPOOL_THRESHOLD ? (void *)&value : (void *)&choice;
    tidei_cu_result r = c->cu->cuMemPoolSetAttribute(mp->pool, theirs[attr], at);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuMemPoolSetAttribute(%u)", theirs[attr]);
}

tide_status tidei_cuda_mempool_trim(tidei_device *d, tidei_dmempool *mp, size_t keep) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    tidei_cu_result r = c->cu->cuMemPoolTrimTo(mp->pool, keep);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuMemPoolTrimTo(%zu bytes)", keep);
}

tide_status tidei_cuda_mempool_figures(tidei_device *d, tidei_dmempool *mp, size_t *reserved,
                                       size_t *used) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_u64 now[2] = {0, 0};
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    tidei_cu_result r =
        c->cu->cuMemPoolGetAttribute(mp->pool, TIDEI_CU_POOL_RESERVED_CURRENT, &now[0]);
    if (r == TIDEI_CU_SUCCESS)
        r = c->cu->cuMemPoolGetAttribute(mp->pool, TIDEI_CU_POOL_USED_CURRENT, &now[1]);
    tidei_cuda_leave(c, &visit);
    *reserved = now[0];
    *used = now[1];
    return tidei_cuda_status(c, r, "cuMemPoolGetAttribute");
}
