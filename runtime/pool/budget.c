/* budget.c: the device's budget, the host's, and growth in flight. The model stands in budget.h. */
#include "runtime/pool/budget.h"
#include "runtime/base/instance.h"

/* ---- the device's budget ---- */

size_t tidei_library_bytes(tidei_dev *d) {
    return atomic_load_explicit(&d->budget->library, memory_order_relaxed);
}

/* A thread that backs unified memory counts it first, in d->unified. So of two threads the one that
** comes second in d->backed sees the other, and keeps to the device's size. */
size_t tidei_hard_limit(tidei_dev *d) {
    size_t limit = atomic_load_explicit(&d->budget->limit, memory_order_relaxed);
    return atomic_load(&d->budget->unified) ? tidei_min_size(limit, d->d->info.total_bytes) : limit;
}

static tide_status beyond_limit(size_t bytes, size_t limit, size_t backed) {
    return tidei_fail(TIDE_E_NOMEM, "tidei_back",
                      "%zu bytes more would exceed the limit of %zu (%zu backed)", bytes, limit,
                      backed);
}

size_t tidei_left_to_back(tidei_dev *d) {
    size_t limit = tidei_hard_limit(d), library = tidei_library_bytes(d),
           backed = atomic_load_explicit(&d->budget->backed, memory_order_relaxed);
    return backed < limit && library < limit - backed ? limit - backed - library : 0;
}

tide_status tidei_back(tidei_dev *d, size_t bytes) {
    size_t limit, old = atomic_load(&d->budget->backed), now;
    do {
        limit = tidei_hard_limit(d);
        now = old + bytes;
        if (now < old || now > limit || tidei_library_bytes(d) > limit - now)
            return beyond_limit(bytes, limit, old);
    } while (!atomic_compare_exchange_weak(&d->budget->backed, &old, now));
    /* a library's handle was counted meanwhile */
    if (tidei_unlikely(atomic_load(&d->budget->library) > limit - now)) {
        atomic_fetch_sub(&d->budget->backed, bytes);
        return beyond_limit(bytes, limit, old);
    }
    atomic_fetch_add_explicit(&d->rt->budget->on_devices, bytes, memory_order_relaxed);
    size_t peak = atomic_load_explicit(&d->budget->peak_backed, memory_order_relaxed);
    while (peak < now && !atomic_compare_exchange_weak(&d->budget->peak_backed, &peak, now)) {}
    atomic_fetch_add_explicit(&d->budget->driver_allocs, 1, memory_order_relaxed);
    return TIDE_OK;
}

void tidei_unback(tidei_dev *d, size_t bytes) {
    atomic_fetch_sub_explicit(&d->budget->backed, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&d->rt->budget->on_devices, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->budget->driver_frees, 1, memory_order_relaxed);
}

/* Counts library state first and reads the backed bytes then; tidei_back does it the other way
** round. So of two threads that come at once, one sees the other's bytes. */
bool tidei_library_back(tidei_dev *d, size_t bytes) {
    size_t limit = tidei_hard_limit(d),
           library = atomic_fetch_add(&d->budget->library, bytes) + bytes,
           backed = atomic_load(&d->budget->backed);
    if (library >= bytes && backed <= limit && library <= limit - backed) return true;
    atomic_fetch_sub(&d->budget->library, bytes);
    return false;
}

void tidei_library_unback(tidei_dev *d, size_t bytes) {
    atomic_fetch_sub(&d->budget->library, bytes);
}

void tidei_inflight_growth_begin(tidei_dev *d) {
    atomic_fetch_add(&d->budget->inflight_growth.under_way, 1);
}

void tidei_inflight_growth_end(tidei_dev *d, bool changed) {
    if (changed)
        atomic_fetch_add(&d->budget->inflight_growth.ended, 1); /* before the waiters look */
    atomic_fetch_sub(&d->budget->inflight_growth.under_way, 1);
}

bool tidei_above_soft(tidei_dev *d, size_t bytes) {
    size_t soft = atomic_load_explicit(&d->budget->soft_limit, memory_order_relaxed);
    size_t used =
        atomic_load_explicit(&d->budget->backed, memory_order_relaxed) + tidei_library_bytes(d);
    return used > soft || bytes > soft - used;
}

/* ---- the host's budget ---- */

void tidei_host_budget_init(tidei_runtime *rt) {
    size_t half = tidei_host_default_memory();
    rt->budget->limit = half;
    if (*rt->set.pinned_limit)
        tidei_parse_bytes(rt->set.pinned_limit, 2 * half, &rt->budget->limit);
}

static tide_status back_host(tidei_dev *d, size_t bytes) {
    tidei_host_budget *b = d->rt->budget;
    size_t old = atomic_load_explicit(&b->backed, memory_order_relaxed);
    do {
        if (old > b->limit || bytes > b->limit - old)
            return tidei_fail(TIDE_E_HOST_NOMEM, "tidei_back",
                              "%zu bytes more would exceed the limit of %zu on host memory in "
                              "arrays (%zu backed)",
                              bytes, b->limit, old);
    } while (!atomic_compare_exchange_weak(&b->backed, &old, old + bytes));
    return TIDE_OK;
}

tide_status tidei_back_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes) {
    tide_status status = tidei_on_host(kind) ? back_host(d, bytes) : TIDE_OK;
    if (status != TIDE_OK || !tidei_on_device(kind)) return status;
    if (kind == TIDEI_MEM_UNIFIED) atomic_fetch_add(&d->budget->unified, bytes);
    status = tidei_back(d, bytes);
    if (status == TIDE_OK || kind != TIDEI_MEM_UNIFIED) return status;
    atomic_fetch_sub(&d->budget->unified, bytes);
    atomic_fetch_sub_explicit(&d->rt->budget->backed, bytes, memory_order_relaxed);
    return status;
}

void tidei_unback_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes) {
    if (tidei_on_host(kind))
        atomic_fetch_sub_explicit(&d->rt->budget->backed, bytes, memory_order_relaxed);
    if (tidei_on_device(kind)) tidei_unback(d, bytes);
    if (kind == TIDEI_MEM_UNIFIED) atomic_fetch_sub(&d->budget->unified, bytes);
}
