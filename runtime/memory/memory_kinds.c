/* memory_kinds.c: the second budget, pools by kind, advice, and figures by kind. The model stands
** in memory_kinds.h. */
#include "runtime/memory/memory_kinds.h"
#include "runtime/pool/pools.h"
#include "runtime/memory/storage.h"
#include "runtime/memory/header.h"
#include "runtime/streams/loss.h"
#include "runtime/base/sized.h"
#include <tide/device.h>

/* ---- pools by kind ---- */

/* Two threads may open one at once: one of the pools stays. */
static tide_status open_pool(tidei_dev *d, tidei_mem_kind kind, tidei_pool **out) {
    tidei_user_pool *x;
    tidei_pool *none = NULL;
    tide_status status = tidei_pools_open_kind(d, kind, &x);
    if (status != TIDE_OK) return status;
    if (atomic_compare_exchange_strong(&d->memory->kinds[kind], &none, x->p)) {
        tidei_pools_enlist(x);
        *out = x->p;
    } else {
        tidei_pools_discard(x);
        *out = none;
    }
    return TIDE_OK;
}

tide_status tidei_kind_pool(tidei_dev *d, tide_memory kind, const char *op, tidei_pool **out) {
    if (kind < TIDE_MEMORY_DEFAULT || kind > TIDE_MEMORY_UNIFIED)
        return tidei_fail(TIDE_E_INVALID, op, "%d is no kind of memory", (int)kind);
    if (kind == TIDE_MEMORY_DEFAULT) kind = tidei_kind_public(d->memory->usual);
    if (kind == TIDE_MEMORY_DEVICE) return *out = tidei_pool_here(d), TIDE_OK;
    if (kind == TIDE_MEMORY_UNIFIED && !(d->d->info.flags & TIDEI_DEV_UNIFIED))
        return tidei_fail(TIDE_E_UNSUPPORTED, op,
                          "%s has no unified memory that host and device may use at once",
                          d->d->info.name);
    tidei_mem_kind k = kind == TIDE_MEMORY_PINNED ? TIDEI_MEM_PINNED : TIDEI_MEM_UNIFIED;
    tidei_pool *p = atomic_load_explicit(&d->memory->kinds[k], memory_order_acquire);
    if (p) return *out = p, TIDE_OK;
    tide_status status = open_pool(d, k, out);
    return status == TIDE_OK ? TIDE_OK : tidei_fail_as(op);
}

/* Opens the pool of the default kind of memory, which arrays get unless another is asked for. */
tide_status tidei_memory_kinds_open(tidei_dev *d) {
    const tidei_settings *set = &d->rt->set;
    bool first = d->index == 0; /* others need not repeat what is wrong in the environment */
    if (set->default_memory == TIDEI_MEM_DEVICE) return TIDE_OK;
    tidei_pool *p;
    tide_status status =
        tidei_kind_pool(d, tidei_kind_public(set->default_memory), "tide_open", &p);
    if (status == TIDE_OK) d->memory->usual = set->default_memory;
    if (status != TIDE_E_UNSUPPORTED || set->default_memory_given) return status;
    if (first)
        tidei_warn_environment(d->rt, "TIDE_DEFAULT_MEMORY", tidei_kind_name(set->default_memory),
                               ": %s; device memory serves", tide_error_last()->message);
    tide_error_clear();
    return TIDE_OK;
}

/* Their pools are closed with the others of the device. */
void tidei_memory_kinds_close(tidei_dev *d) {
    d->memory->usual = TIDEI_MEM_DEVICE;
    for (int k = 0; k < TIDEI_MEM_KINDS; k++) atomic_store(&d->memory->kinds[k], NULL);
    tidei_advised_free(d);
}

/* ---- advice ---- Notes and their number are under pools_lock. A block has one note at most: the
** range that its advice spans, which is needed to take the advice back. So there are no more notes
** than blocks, however often and in whatever pieces they are advised. */

struct tidei_advised {
    tidei_advised *next;
    tidei_addr block;
    tidei_addr from, to; /* all advised ranges of the block lie in between */
};

/* Where the pointer to the block's note is; it points to NULL if there is none. */
static tidei_advised **find_advised(tidei_dev *d, tidei_addr block) {
    tidei_advised **at = &d->memory->advised;
    while (*at && (*at)->block != block) at = &(*at)->next;
    return at;
}

/* Enters `fresh`, or widens the block's note and returns `fresh`, which was not needed. */
static tidei_advised *note_advice(tidei_dev *d, tidei_advised *fresh) {
    pthread_mutex_lock(&d->pools->lock);
    tidei_advised **at = find_advised(d, fresh->block), *x = *at;
    if (x) {
        x->from = fresh->from < x->from ? fresh->from : x->from;
        x->to = fresh->to > x->to ? fresh->to : x->to;
    } else {
        *at = fresh;
        fresh = NULL;
        atomic_fetch_add(&d->memory->nadvised, 1);
    }
    pthread_mutex_unlock(&d->pools->lock);
    return fresh;
}

/* The advice within [from, to) was taken back. Returns the block's note if nothing is left of
** it. */
static tidei_advised *cut_advice(tidei_dev *d, tidei_addr block, tidei_addr from, tidei_addr to) {
    pthread_mutex_lock(&d->pools->lock);
    tidei_advised **at = find_advised(d, block), *x = *at;
    if (x && from <= x->from && to > x->from) x->from = to;
    if (x && to >= x->to && from < x->to) x->to = from;
    if (x && x->from >= x->to) {
        *at = x->next;
        atomic_fetch_sub(&d->memory->nadvised, 1);
    } else
        x = NULL;
    pthread_mutex_unlock(&d->pools->lock);
    return x;
}

static tide_status tell_advice(tidei_dev *d, tidei_addr addr, size_t bytes, tidei_advice advice) {
    return d->d->ops->advise ? d->d->ops->advise(d->d, addr, bytes, advice) : TIDE_OK;
}

tide_status tidei_advise(tidei_dev *d, tidei_addr block, size_t offset, size_t bytes,
                         tidei_advice advice) {
    tidei_addr from = block + offset;
    tidei_advised *x = NULL;
    if (advice != TIDEI_ADVICE_NONE) { /* before the driver: what it was told must be noted */
        x = tidei_host_alloc(d->rt, sizeof *x);
        if (!x) return tidei_fail_host_memory("tide_array_advise", sizeof *x);
        *x = (tidei_advised){.block = block, .from = from, .to = from + bytes};
    }
    tide_status status = tell_advice(d, from, bytes, advice);
    if (status == TIDE_OK) x = x ? note_advice(d, x) : cut_advice(d, block, from, from + bytes);
    tidei_host_free(d->rt, x);
    return status;
}

/* Takes a note that overlaps the range out of the list; NULL: there is none. */
static tidei_advised *take_advised(tidei_dev *d, tidei_addr addr, size_t bytes) {
    pthread_mutex_lock(&d->pools->lock);
    tidei_advised **at = &d->memory->advised, *x;
    while ((x = *at) && (x->from >= addr + bytes || addr >= x->to)) at = &x->next;
    if (x) {
        *at = x->next;
        atomic_fetch_sub(&d->memory->nadvised, 1);
    }
    pthread_mutex_unlock(&d->pools->lock);
    return x;
}

void tidei_unadvise(tidei_dev *d, tidei_addr addr, size_t bytes) {
    if (tidei_likely(!atomic_load_explicit(&d->memory->nadvised, memory_order_relaxed))) return;
    tidei_saved_error e; /* memory that has gone back meanwhile has no advice any more */
    tidei_error_save(&e);
    for (tidei_advised *x; (x = take_advised(d, addr, bytes)); tidei_host_free(d->rt, x))
        (void)tell_advice(d, x->from, x->to - x->from, TIDEI_ADVICE_NONE);
    tidei_error_restore(&e);
}

void tidei_advised_free(tidei_dev *d) {
    for (tidei_advised *x = d->memory->advised, *next; x; x = next) {
        next = x->next;
        tidei_host_free(d->rt, x);
    }
    d->memory->advised = NULL;
}

/* ---- figures ---- */

static void kind_figures(tidei_dev *d, tidei_mem_kind kind, tide_kind_figures *f) {
    tidei_pool_stats ps;
    tidei_pools_stats_of(d, TIDEI_KIND_BIT(kind), &ps);
    f->live += ps.live;
    f->backed += ps.backed;
}

#define END(field) TIDEI_END(tide_device_figures, field)
static const uint16_t information_ends[] = {
    END(struct_size),  END(free),   END(total),  END(limit),   END(library), END(pinned_used),
    END(pinned_limit), END(device), END(pinned), END(unified), END(spilled)};
#undef END
static const tidei_sized information_sizes = {"tide_device_figures", information_ends,
                                              TIDEI_COUNT(information_ends),
                                              TIDEI_END(tide_device_figures, struct_size)};

tide_status tide_device_info(tide_runtime *ref, tide_device_figures *out) {
    tidei_thread *t = tidei_enter(ref, "tide_device_info");
    if (!t) return tidei_last_status();
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_device_info", "out is NULL");
    tide_status status =
        tidei_sized_check(&information_sizes, out->struct_size, "tide_device_info");
    if (status != TIDE_OK) return status;
    tidei_dev *d = t->dev;
    tidei_runtime *rt = d->rt;
    tidei_drain(rt);
    tidei_pools_look(d, false);
    tidei_pools_settle(d);
    tide_device_figures m = {.struct_size = out->struct_size};
    status = d->d->ops->memory(d->d, &m.free, &m.total);
    if (status != TIDE_OK) return tidei_device_failed(d->stream0, status, "tide_device_info");
    kind_figures(d, TIDEI_MEM_DEVICE, &m.device);
    kind_figures(d, TIDEI_MEM_PINNED, &m.pinned);
    kind_figures(d, TIDEI_MEM_UNIFIED, &m.unified);
    m.library = atomic_load(&d->budget->library);
    m.limit = tidei_min_size(atomic_load(&d->budget->limit), m.total);
    m.pinned_used = atomic_load(&rt->budget->backed);
    m.pinned_limit = rt->budget->limit;
    m.spilled = atomic_load(&d->memory->spilled);
    memcpy(out, &m, out->struct_size);
    return TIDE_OK;
}
