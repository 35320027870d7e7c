/* figures.c: a pool's figures: what is counted where storages are made and returned, summed on
** demand.
**
** The counting is on the way of every array: a thread adds to one tally of several, chosen by its
** number, and touches what threads share only where a peak rises, or the pool is not the default
** one. */
#include "runtime/pool/pools.h"
#include "runtime/pool/budget.h"
#include "runtime/base/thread_index.h"
#include "runtime/base/sized.h"
#include "runtime/base/text.h"

/* ---- counting ---- */

#define SMALLEST 256 /* bytes; the largest request of class 0 */
/* the peak is compared at every SAMPLE_EVERY-th allocation of a class in a tally, and at each of
** the first SAMPLE_EVERY */
#define SAMPLE_EVERY 64

static unsigned class_of(size_t bytes) {
    if (bytes <= SMALLEST) return 0;
    unsigned k = (unsigned)(64 - __builtin_clzll((unsigned long long)bytes - 1)) - 8;
    return k < TIDE_POOL_CLASSES ? k : TIDE_POOL_CLASSES - 1;
}

/* The calling thread's own tally, or 0: the shared one. */
static inline unsigned tally_here(void) {
    unsigned number = tidei_thread_index();
    return tidei_likely(number < TIDEI_TALLIES) ? number : 0;
}

/* A tally that is not shared is written by its thread alone, which needs no atomic addition. */
static inline uint64_t count_in(unsigned tally, _Atomic uint64_t *x, uint64_t n) {
    if (tidei_unlikely(!tally)) return atomic_fetch_add_explicit(x, n, memory_order_relaxed) + n;
    n += atomic_load_explicit(x, memory_order_relaxed);
    atomic_store_explicit(x, n, memory_order_relaxed);
    return n;
}

static uint64_t get(_Atomic uint64_t *x) { return atomic_load_explicit(x, memory_order_relaxed); }
/* sums of moving counters may cross */
static uint64_t beyond(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void raise_count(_Atomic uint64_t *x, uint64_t v) {
    uint64_t old = get(x);
    while (old < v && !atomic_compare_exchange_weak(x, &old, v)) {}
}

/* Sums all tallies of a class. What came back is summed before what was made, so that each block
** counted as back is also counted as made. */
static void sum_class(tidei_user_pool *x, unsigned k, tide_pool_class *c) {
    *c = (tide_pool_class){.bytes = k + 1 < TIDE_POOL_CLASSES ? (size_t)SMALLEST << k : SIZE_MAX};
    for (unsigned i = 0; i < TIDEI_TALLIES; i++) {
        c->freed += get(&x->tallies[i].of[k].gone);
        c->freed_bytes += get(&x->tallies[i].of[k].gone_bytes);
    }
    for (unsigned i = 0; i < TIDEI_TALLIES; i++) {
        c->allocated += get(&x->tallies[i].of[k].made);
        c->allocated_bytes += get(&x->tallies[i].of[k].made_bytes);
    }
    c->current = beyond(c->allocated, c->freed);
    c->current_bytes = beyond(c->allocated_bytes, c->freed_bytes);
    raise_count(&x->peak[k], c->current);
    raise_count(&x->peak_bytes[k], c->current_bytes);
    c->peak = get(&x->peak[k]);
    c->peak_bytes = get(&x->peak_bytes[k]);
}

static size_t live_with(tidei_user_pool *x, size_t bytes, size_t live) {
    tidei_dev *d = x->dev;
    if (!x->own)
        return beyond(live, atomic_load_explicit(&d->pools->own_live, memory_order_relaxed));
    if (tidei_on_device(x->p->kind))
        atomic_fetch_add_explicit(&d->pools->own_live, bytes, memory_order_relaxed);
    return atomic_fetch_add_explicit(&x->live, bytes, memory_order_relaxed) + bytes;
}

void tidei_pool_made(tidei_user_pool *x, size_t bytes, size_t live) {
    unsigned k = class_of(bytes);
    unsigned t = tally_here();
    tide_pool_class c;
    tidei_pool_hold(x);
    live = live_with(x, bytes, live);
    tidei_raise_size(&x->peak_live, live);
    tidei_raise_size(&x->window_live, live);
    count_in(t, &x->tallies[t].of[k].made_bytes, bytes);
    uint64_t n = count_in(t, &x->tallies[t].of[k].made, 1);
    if (tidei_unlikely(n < SAMPLE_EVERY || n % SAMPLE_EVERY == 0)) sum_class(x, k, &c);
}

void tidei_pool_gone(tidei_user_pool *x, size_t bytes) {
    unsigned k = class_of(bytes);
    unsigned t = tally_here();
    count_in(t, &x->tallies[t].of[k].gone, 1);
    count_in(t, &x->tallies[t].of[k].gone_bytes, bytes);
    if (!x->own) return;
    if (tidei_on_device(x->p->kind))
        atomic_fetch_sub_explicit(&x->dev->pools->own_live, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&x->live, bytes, memory_order_relaxed);
    tidei_pool_let_go(x);
}

static void reset_peaks(tidei_user_pool *x) {
    tidei_pool_stats ps;
    tide_pool_class c;
    x->p->ops->stats(x->p, &ps);
    atomic_store(&x->peak_live, ps.live);
    for (unsigned k = 0; k < TIDE_POOL_CLASSES; k++) {
        atomic_store(&x->peak[k], 0);
        atomic_store(&x->peak_bytes[k], 0);
        sum_class(x, k, &c);
    }
}

void tidei_pools_reset_peaks(tidei_dev *d) {
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));) reset_peaks(x);
}

/* ---- asking ---- */

/* How much the pool could take from the driver now, in whole pages. */
static size_t room(tidei_dev *d) {
    size_t more = tidei_left_to_back(d), free_bytes, total;
    tidei_saved_error e;
    tidei_error_save(&e);
    if (d->d->ops->memory(d->d, &free_bytes, &total) == TIDE_OK)
        more = tidei_min_size(more, free_bytes);
    else
        more = 0;
    tidei_error_restore(&e);
    return more / d->d->info.page_bytes * d->d->info.page_bytes;
}

void tidei_pool_figures_of(tidei_user_pool *x, tide_pool_figures *s) {
    tidei_pool_stats ps;
    tidei_pools_look(x->dev, false);
    x->p->ops->settle(x->p);
    x->p->ops->stats(x->p, &ps);
    s->live = ps.live;
    s->peak_live = tidei_max_size(atomic_load(&x->peak_live), ps.live);
    s->rounding = ps.rounding;
    s->cached = ps.cached;
    s->pending = ps.pending;
    s->backed = ps.backed;
    s->largest = tidei_max_size(ps.largest, room(x->dev));
    s->pinned = atomic_load(&x->pinned);
    s->allocations = ps.allocs;
    s->frees = ps.frees;
    s->retries = atomic_load(&x->retries);
    s->ooms = atomic_load(&x->ooms);
    s->compactions = ps.compactions;
    s->bytes_moved = ps.bytes_moved;
    s->bytes_remapped = ps.bytes_remapped;
    for (unsigned k = 0; k < TIDE_POOL_CLASSES; k++) sum_class(x, k, &s->classes[k]);
}
