/* gauge.c: counting a device's memory calls, holding completion back. The model stands in
** gauge.h. */
#include "tools/tide/gauge.h"

static tidei_gauge *gauge_of(const tidei_device *d) { return (tidei_gauge *)(uintptr_t)d->ops; }

/* ---- memory ---- */

static const struct tidei_device_ops *counted(tidei_device *d) {
    tidei_gauge *g = gauge_of(d);
    atomic_fetch_add_explicit(&g->calls, 1, memory_order_relaxed);
    return g->inner;
}

static tide_status gauge_reserve(tidei_device *d, size_t bytes, tidei_addr *out) {
    return counted(d)->reserve(d, bytes, out);
}
static void gauge_unreserve(tidei_device *d, tidei_addr addr, size_t bytes) {
    counted(d)->unreserve(d, addr, bytes);
}
static tide_status gauge_page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    return counted(d)->page_new(d, bytes, out);
}
static void gauge_page_release(tidei_device *d, tidei_dpage *p) { counted(d)->page_release(d, p); }
static tide_status gauge_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                             size_t n) {
    return counted(d)->map(d, addr, pages, n);
}
static tide_status gauge_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                               size_t n) {
    return counted(d)->unmap(d, addr, pages, n);
}
static tide_status gauge_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                   tidei_addr *out) {
    return counted(d)->raw_alloc(d, kind, bytes, out);
}
static void gauge_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    counted(d)->raw_free(d, kind, addr, bytes);
}
static tide_status gauge_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes) {
    return counted(d)->memory(d, free_bytes, total_bytes);
}
static tide_status gauge_mempool_new(tidei_device *d, tidei_dmempool **out) {
    return counted(d)->mempool_new(d, out);
}
static void gauge_mempool_release(tidei_device *d, tidei_dmempool *mp) {
    counted(d)->mempool_release(d, mp);
}
static tide_status gauge_mempool_alloc(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                       size_t bytes, tidei_addr *out) {
    return counted(d)->mempool_alloc(d, mp, s, bytes, out);
}
static tide_status gauge_mempool_free(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                      tidei_addr addr) {
    return counted(d)->mempool_free(d, mp, s, addr);
}
static tide_status gauge_mempool_trim(tidei_device *d, tidei_dmempool *mp, size_t keep) {
    return counted(d)->mempool_trim(d, mp, keep);
}

/* ---- the completion word ---- */

static const _Atomic uint64_t *submitted_on(const tidei_gauge *g, const tidei_dstream *ds) {
    for (unsigned i = 0; i < g->n; i++)
        if (g->watched[i].ds == ds) return g->watched[i].submitted;
    return NULL;
}

static tide_status gauge_publish(tidei_device *d, tidei_dstream *ds, uint64_t tick) {
    const tidei_gauge *g = gauge_of(d);
    return g->ticks_only && submitted_on(g, ds) ? TIDE_OK : g->inner->publish(d, ds, tick);
}

static uint64_t gauge_completed(tidei_device *d, tidei_dstream *ds) {
    const tidei_gauge *g = gauge_of(d);
    const _Atomic uint64_t *submitted = submitted_on(g, ds);
    if (!submitted) return g->inner->completed(d, ds);
    uint64_t last = atomic_load_explicit(submitted, memory_order_acquire),
             may = last > g->lag ? last - g->lag : 0;
    if (g->ticks_only) return may;
    uint64_t done = g->inner->completed(d, ds);
    return done < may ? done : may;
}

/* ---- putting it there ---- */

/* With ticks alone blocks hold nothing. And the words that say so early would let pages go while
** the device still copied. */
static tide_status gauge_copy_many(tidei_device *d, tidei_dstream *ds, const tidei_piece *pieces,
                                   size_t n) {
    const tidei_gauge *g = gauge_of(d);
    return g->ticks_only ? TIDE_OK : g->inner->copy_many(d, ds, pieces, n);
}

void tidei_gauge_put(tidei_gauge *g, tidei_device *d, bool ticks_only, uint64_t lag) {
    *g = (tidei_gauge){.ops = *d->ops, .inner = d->ops, .ticks_only = ticks_only, .lag = lag};
    g->ops.reserve = gauge_reserve;
    g->ops.unreserve = gauge_unreserve;
    g->ops.page_new = gauge_page_new;
    g->ops.page_release = gauge_page_release;
    g->ops.map = gauge_map;
    g->ops.unmap = gauge_unmap;
    g->ops.raw_alloc = gauge_raw_alloc;
    g->ops.raw_free = gauge_raw_free;
    g->ops.memory = gauge_memory;
    if (g->inner->mempool_new) { /* a device has all of these or none */
        g->ops.mempool_new = gauge_mempool_new;
        g->ops.mempool_release = gauge_mempool_release;
        g->ops.mempool_alloc = gauge_mempool_alloc;
        g->ops.mempool_free = gauge_mempool_free;
        g->ops.mempool_trim = gauge_mempool_trim;
    }
    g->ops.copy_many = gauge_copy_many;
    g->ops.publish = gauge_publish;
    g->ops.completed = gauge_completed;
    d->ops = &g->ops;
}

void tidei_gauge_watch(tidei_gauge *g, const tidei_stream *s) {
    tidei_check(g->n < TIDEI_GAUGE_STREAMS);
    g->watched[g->n].ds = atomic_load(&s->ds);
    g->watched[g->n++].submitted = &s->submitted;
}

uint64_t tidei_gauge_calls(const tidei_gauge *g) { return atomic_load(&g->calls); }
