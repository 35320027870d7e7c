/* peers.c: devices use each other's memory.
**
** Model. For each kind of memory another call tells the driver which device may use it. Raw memory:
** one context is opened to the other, for all memory to come. Pages: access is granted each time a
** page is mapped. Pools: once each. So a device knows its mapped pages and its pools, and keeps in
** `who` the devices to grant access to: first itself, then its peers. A device is entered in `who`
** once everything has been granted to it, all under the lock that mapping takes, so nothing is
** mapped in between. Where granting fails half-way, the access already granted stays: nobody counts
** on it, and the next try grants it again. Access is never taken back: the contexts are shared with
** other libraries, which may count on it by now. */
#include "runtime/device/cuda/device.h"

/* ---- what there is to grant ---- */

void tidei_cuda_peers_mapped(tidei_cuda_peers *peers, tidei_cu_addr addr, tidei_dpage *const *pages,
                             size_t n) {
    peers->runs++;
    for (size_t i = 0; i < n; i++) {
        tidei_dpage *p = pages[i];
        p->addr = addr;
        p->run = peers->runs;
        p->before = peers->last;
        p->next = NULL;
        *(p->before ? &p->before->next : &peers->first) = p;
        peers->last = p;
        addr += p->bytes;
    }
}

void tidei_cuda_peers_unmapped(tidei_cuda_peers *peers, tidei_dpage *p) {
    if (!p->addr) return;
    *(p->before ? &p->before->next : &peers->first) = p->next;
    *(p->next ? &p->next->before : &peers->last) = p->before;
    p->addr = 0;
}

/* ---- granting; under the lock ---- */

/* Pages that one call mapped lie in one reservation; those of them that are still side by side are
** granted in one call, since every call costs about the same. */
static tidei_cu_result grant_pages(tidei_cuda *c, const tidei_cu_access *to) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    const tidei_dpage *p = c->peers.first;
    while (p && r == TIDEI_CU_SUCCESS) {
        const tidei_dpage *start = p;
        size_t bytes = 0;
        for (; p && p->run == start->run && p->addr == start->addr + bytes; p = p->next)
            bytes += p->bytes;
        r = c->cu->cuMemSetAccess(start->addr, bytes, to, 1);
    }
    return r;
}

static tidei_cu_result grant_pools(tidei_cuda *c, const tidei_cu_access *to) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    for (tidei_dmempool *mp = c->peers.pools; mp && r == TIDEI_CU_SUCCESS; mp = mp->next)
        r = c->cu->cuMemPoolSetAccess(mp->pool, to, 1);
    return r;
}

static bool has_access(tidei_cuda *c, tidei_cu_device dev) {
    unsigned n = atomic_load(&c->peers.n);
    for (unsigned i = 0; i < n; i++)
        if (c->peers.who[i].location.id == dev) return true;
    return false;
}

static tide_status grant_all(tidei_cuda *c, const tidei_cu_access *to) {
    unsigned n = atomic_load(&c->peers.n);
    if (has_access(c, to->location.id)) return TIDE_OK; /* another thread granted it meanwhile */
    if (n == TIDEI_CUDA_PEERS)
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda",
                          "%s: %d devices can use its memory, and no more", c->d.info.name,
                          TIDEI_CUDA_PEERS);
    tidei_cu_result r = grant_pages(c, to);
    if (r != TIDEI_CU_SUCCESS)
        return tidei_cuda_failed(c, r, "cuMemSetAccess(for cuda:%d)", to->location.id);
    r = grant_pools(c, to);
    if (r != TIDEI_CU_SUCCESS)
        return tidei_cuda_failed(c, r, "cuMemPoolSetAccess(for cuda:%d)", to->location.id);
    c->peers.who[n] = *to;
    atomic_store(&c->peers.n, n + 1);
    return TIDE_OK;
}

/* ---- the slots ---- */

static bool is_unusable(const tidei_device *d) { return atomic_load(&d->lost) || tidei_forked(); }

bool tidei_cuda_peer_possible(tidei_device *d, tidei_device *other) {
    TIDEI_UNCANCELLED;
    tidei_cuda *c = tidei_cuda_of(d);
    int can = 0;
    if (is_unusable(d) || is_unusable(other)) return false;
    return c->cu->cuDeviceCanAccessPeer(&can, c->dev, tidei_cuda_of(other)->dev) ==
               TIDEI_CU_SUCCESS &&
           can;
}

/* Another library in the process may have enabled it before. */
static tide_status enable_raw(tidei_cuda *c, const tidei_cuda *owner) {
    tidei_cuda_visit visit;
    tide_status s = tidei_cuda_enter(c, &visit);
    if (s != TIDE_OK) return s;
    tidei_cu_result r = c->cu->cuCtxEnablePeerAccess(owner->ctx, 0);
    tidei_cuda_leave(c, &visit);
    if (r == TIDEI_CU_PEER_ACCESS_ALREADY_ENABLED) return TIDE_OK;
    if (r == TIDEI_CU_PEER_ACCESS_UNSUPPORTED || r == TIDEI_CU_TOO_MANY_PEERS)
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda", "%s cannot have access to %s: %s",
                          c->d.info.name, owner->d.info.name,
                          r == TIDEI_CU_TOO_MANY_PEERS ? "it has too many peers"
                                                       : "the driver refuses");
    return tidei_cuda_status(c, r, "cuCtxEnablePeerAccess(%s)", owner->d.info.name);
}

tide_status tidei_cuda_peer_enable(tidei_device *d, tidei_device *other) {
    tidei_cuda *c = tidei_cuda_of(d), *owner = tidei_cuda_of(other);
    tidei_cu_access to = tidei_cuda_access(c);
    tidei_cuda_visit visit;
    if (is_unusable(d)) return tidei_cuda_refuse(c);
    if (is_unusable(other)) return tidei_cuda_refuse(owner);
    if (has_access(owner, c->dev)) return TIDE_OK;
    tide_status s = enable_raw(c, owner);
    if (s == TIDE_OK) s = tidei_cuda_enter(owner, &visit);
    if (s != TIDE_OK) return s;
    pthread_mutex_lock(&owner->peers.lock);
    s = grant_all(owner, &to);
    pthread_mutex_unlock(&owner->peers.lock);
    tidei_cuda_leave(owner, &visit);
    return s;
}
