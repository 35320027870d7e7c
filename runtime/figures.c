/* figures.c: figures and texts of a runtime: its memory, its work, its devices. */
#include "runtime/figures.h"
#include "runtime/pool/pools.h"
#include "runtime/runtime.h"
#include "runtime/base/sized.h"
#include "runtime/base/text.h"
#include "runtime/leaks.h"
#include <tide/device.h>

/* Sums over the runtime's devices. */
static void add_device(tidei_dev *d, tide_runtime_figures *s) {
    tidei_pool_stats ps;
    tidei_pools_look(d, false);
    tidei_pools_settle(d);
    tidei_pools_stats(d, &ps);
    s->live += ps.live;
    s->rounding += ps.rounding;
    s->cached += ps.cached;
    s->pending += ps.pending;
    s->backed += ps.backed;
    s->library += atomic_load(&d->budget->library);
    s->spilled += atomic_load(&d->memory->spilled);
    s->peak_live += atomic_load(&d->budget->peak_live);
    s->peak_backed += atomic_load(&d->budget->peak_backed);
    s->allocations += ps.allocs;
    s->frees += ps.frees;
    s->retries += atomic_load(&d->budget->retries);
    s->driver_allocs += atomic_load(&d->budget->driver_allocs);
    s->driver_frees += atomic_load(&d->budget->driver_frees);
    s->host_waits += atomic_load(&d->waits->host_waits);
    s->host_wait_ns += atomic_load(&d->waits->host_wait_ns);
    s->device_waits += atomic_load(&d->waits->device_waits);
    unsigned slot = 0;
    for (tidei_stream *x; (x = tidei_stream_next(d, &slot));) {
        s->launches += atomic_load_explicit(&x->launches, memory_order_relaxed);
        s->copies += atomic_load_explicit(&x->copies, memory_order_relaxed);
    }
}

static void count_live(tidei_header *h, void *user) {
    if (!(atomic_load_explicit(&h->word, memory_order_relaxed) & TIDEI_DEAD)) ++*(uint64_t *)user;
}

#define END(field) TIDEI_END(tide_runtime_figures, field)
static const uint16_t statistics_ends[] = {END(struct_size),
                                           END(live),
                                           END(rounding),
                                           END(cached),
                                           END(pending),
                                           END(backed),
                                           END(library),
                                           END(peak_live),
                                           END(peak_backed),
                                           END(limit),
                                           END(soft_limit),
                                           END(allocations),
                                           END(frees),
                                           END(retries),
                                           END(driver_allocs),
                                           END(driver_frees),
                                           END(collections),
                                           END(early_collections),
                                           END(collect_ns),
                                           END(collect_max_ns),
                                           END(collected),
                                           END(climbs),
                                           END(reclaimed),
                                           END(host_waits),
                                           END(host_wait_ns),
                                           END(device_waits),
                                           END(launches),
                                           END(copies),
                                           END(kernels_compiled),
                                           END(kernels_loaded),
                                           END(kernels),
                                           END(arrays),
                                           END(gc_root_bytes),
                                           END(spilled),
                                           END(spills),
                                           END(returns)};
#undef END
static const tidei_sized statistics_sizes = {"tide_runtime_figures", statistics_ends,
                                             TIDEI_COUNT(statistics_ends),
                                             TIDEI_END(tide_runtime_figures, struct_size)};

tide_status tide_runtime_info(tide_runtime *ref, tide_runtime_figures *out) {
    const tidei_thread *t = tidei_enter(ref, "tide_runtime_info");
    if (!t) return tidei_last_status();
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_runtime_info", "out is NULL");
    tide_status status =
        tidei_sized_check(&statistics_sizes, out->struct_size, "tide_runtime_info");
    if (status != TIDE_OK) return status;
    tidei_runtime *rt = tidei_thread_runtime(t);
    tidei_drain(rt);
    tide_runtime_figures s = {.struct_size = out->struct_size};
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) add_device(d, &s);
    s.limit = atomic_load(&t->dev->budget->limit);
    s.soft_limit = atomic_load(&t->dev->budget->soft_limit);
    s.collections = atomic_load(&rt->gc_counts.collections);
    s.early_collections = atomic_load(&rt->gc_counts.early_collections);
    s.collect_ns = atomic_load(&rt->gc_counts.collect_ns);
    s.collect_max_ns = atomic_load(&rt->gc_counts.collect_max_ns);
    s.collected = atomic_load(&rt->gc_counts.collected);
    s.gc_root_bytes = atomic_load(&rt->gc_counts.gc_root_bytes);
    s.climbs = atomic_load(&rt->reclaim->climbs);
    s.reclaimed = atomic_load(&rt->reclaim->reclaimed);
    s.kernels_compiled = atomic_load(&rt->kernels_compiled);
    s.kernels_loaded = atomic_load(&rt->kernels_loaded);
    s.kernels = atomic_load(&rt->kernels);
    s.spills = atomic_load(&rt->spills->out);
    s.returns = atomic_load(&rt->spills->back);
    tidei_each_header(rt->deaths, count_live, &s.arrays);
    memcpy(out, &s, out->struct_size);
    return TIDE_OK;
}

void tide_runtime_reset_peaks(tide_runtime *ref) {
    tidei_runtime *rt = tidei_entered(ref, "tide_runtime_reset_peaks");
    if (!rt) return;
    tidei_drain(rt);
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) {
        atomic_store(&d->budget->peak_live, atomic_load(&d->budget->live));
        atomic_store(&d->budget->peak_backed, atomic_load(&d->budget->backed));
        tidei_pools_reset_peaks(d);
    }
}

static size_t usage_line(tidei_dev *d, char *buf, size_t cap) {
    size_t free_bytes, total;
    char used[32], whole[32];
    if (d->d->ops->memory(d->d, &free_bytes, &total) != TIDE_OK)
        return (size_t)tidei_format(buf, cap, "Effective GPU memory usage: unknown\n");
    return (size_t)tidei_format(buf, cap, "Effective GPU memory usage: %.2f%% (%s/%s)\n",
                                total ? 100.0 * (double)(total - free_bytes) / (double)total : 0,
                                tidei_format_bytes(used, sizeof used, total - free_bytes, 3),
                                tidei_format_bytes(whole, sizeof whole, total, 3));
}

static size_t pool_line(tidei_dev *d, char *buf, size_t cap) {
    tidei_pool_stats ps;
    char all[32], live[32], cached[32];
    tidei_pools_look(d, false);
    tidei_pools_settle(d);
    tidei_pools_stats_of(d, TIDEI_KIND_BIT(TIDEI_MEM_DEVICE), &ps);
    return (size_t)tidei_format(buf, cap, "%s pool usage: %s (%s allocated, %s cached)\n",
                                d->pool->ops->name,
                                tidei_format_bytes(all, sizeof all, ps.backed, 3),
                                tidei_format_bytes(live, sizeof live, ps.live, 3),
                                tidei_format_bytes(cached, sizeof cached, ps.backed - ps.live, 3));
}

/* One for each further kind that is in use. */
static size_t kind_line(tidei_dev *d, tidei_mem_kind kind, char *buf, size_t cap) {
    tidei_pool_stats ps;
    char all[32], live[32], cached[32];
    tidei_pools_stats_of(d, TIDEI_KIND_BIT(kind), &ps);
    if (!ps.backed) return 0;
    return (size_t)tidei_format(buf, cap, "%s memory usage: %s (%s allocated, %s cached)\n",
                                tidei_kind_name(kind),
                                tidei_format_bytes(all, sizeof all, ps.backed, 3),
                                tidei_format_bytes(live, sizeof live, ps.live, 3),
                                tidei_format_bytes(cached, sizeof cached, ps.backed - ps.live, 3));
}

/* One where caches that can be reclaimed say what they hold. */
static size_t reclaimables_line(tidei_dev *d, char *buf, size_t cap) {
    char list[640];
    if (!tidei_reclaimables_text(d, list, sizeof list)) return 0;
    return (size_t)tidei_format(buf, cap, "held by what can be reclaimed: %s\n", list);
}

/* Where arrays are spilled. */
static size_t spilled_line(tidei_dev *d, char *buf, size_t cap) {
    char spilled[32];
    size_t bytes = atomic_load(&d->memory->spilled);
    if (!bytes) return 0;
    return (size_t)tidei_format(buf, cap, "spilled to pinned memory: %s\n",
                                tidei_format_bytes(spilled, sizeof spilled, bytes, 3));
}

size_t tide_runtime_text(tide_runtime *ref, char *buf, size_t cap) {
    tidei_runtime *rt = tidei_entered(ref, "tide_runtime_text");
    if (!rt) return 0;
    size_t n = 0;
    cap = tidei_text_room(buf, cap);
    tidei_drain(rt);
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) {
        n += usage_line(d, n < cap ? buf + n : NULL, n < cap ? cap - n : 0);
        n += pool_line(d, n < cap ? buf + n : NULL, n < cap ? cap - n : 0);
        for (int k = TIDEI_MEM_PINNED; k < TIDEI_MEM_KINDS; k++)
            n += kind_line(d, (tidei_mem_kind)k, n < cap ? buf + n : NULL, n < cap ? cap - n : 0);
        n += reclaimables_line(d, n < cap ? buf + n : NULL, n < cap ? cap - n : 0);
        n += spilled_line(d, n < cap ? buf + n : NULL, n < cap ? cap - n : 0);
    }
    n += tidei_leaks_text(rt, n < cap ? buf + n : NULL, n < cap ? cap - n : 0);
    return n;
}

size_t tidei_device_text(const tidei_dev *d, char *buf, size_t cap) {
    const tidei_device_info *info = &d->d->info;
    const char *note = d->rt->device_note;
    char total[32];
    tidei_format_bytes(total, sizeof total, info->total_bytes, 1);
    return (size_t)tidei_format(buf, cap, "%s (%s%s%s)%s%s", info->name, info->model,
                                *info->model ? ", " : "", total, *note ? "; no cuda: " : "", note);
}

size_t tide_device_text(tide_runtime *ref, char *buf, size_t cap) {
    const tidei_thread *t = tidei_enter(ref, "tide_device_text");
    return t ? tidei_device_text(t->dev, buf, tidei_text_room(buf, cap)) : 0;
}
