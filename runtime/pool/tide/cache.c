/* cache.c: a thread's cache in the pool `tide`: making it, and emptying other threads'. */
#include "runtime/pool/tide/tide.h"

/* The caps of all threads that ever used the pool are together this part of what is backed, or half
** a page, or TIDEI_CACHE_FLOOR each (uncapped ones cost 1.25 to 1.53 times the memory on recorded
** traces). */
#define CAP_PART 256

void tidei_heap_set_cap(tidei_heap *p) {
    size_t all = tidei_max_size(p->backed / CAP_PART, p->page_bytes / 2);
    size_t share = all / (p->ncaches ? p->ncaches : 1);
    bool on = atomic_load_explicit(&p->base.attrs.caches, memory_order_relaxed);
    atomic_store_explicit(&p->cap, on ? tidei_max_size(share, TIDEI_CACHE_FLOOR) : 0,
                          memory_order_relaxed);
}

tidei_cache *tidei_heap_cache_new(tidei_heap *p, unsigned number) {
    tidei_cache *c = tidei_host_alloc(p->base.dev->rt, sizeof *c);
    if (!c) return NULL; /* everything works without a cache, only slower */
    tidei_zone_move_in(c, &p->zone);
    tidei_heap_lock(p);
    atomic_store_explicit(&p->caches[number - 1], c, memory_order_release);
    p->ncaches++;
    if (number > p->caches_end) atomic_store(&p->caches_end, number);
    tidei_heap_set_cap(p);
    tidei_heap_unlock(p);
    return c;
}

bool tidei_cache_chain(tidei_cache *c, tidei_extent *x) {
    const size_t size = x->size; /* read now: once it is in an entry any thread may take it */
    tidei_cache_entry *e = c->entries[tidei_cache_set(size)], *end = e + TIDEI_CACHE_WAYS;
    while (e < end && (e->size != size || e->slot != x->slot)) e++;
    if (e == end) return false;
    tidei_extent *first = atomic_load_explicit(&e->x, memory_order_relaxed);
    x->left = first;
    /* only the owner puts blocks here, so an entry is as it was or empty */
    if (!first || !atomic_compare_exchange_strong_explicit(&e->x, &first, x, memory_order_acq_rel,
                                                           memory_order_relaxed)) {
        tidei_cache_stolen(c, e);
        e->size = size;
        x->left = NULL;
        atomic_store_explicit(&e->x, x, memory_order_release);
    } else {
        e->n++;
    }
    c->in_entries += size;
    return true;
}

/* Puts the blocks from x on, linked by `left`, before a chain; adds their bytes to *bytes. */
static tidei_extent *chained(tidei_extent *x, tidei_extent *chain, size_t *bytes) {
    for (tidei_extent *next; x; x = next) {
        next = x->left;
        *bytes += x->size;
        x->left = chain;
        chain = x;
    }
    return chain;
}

static tidei_extent *steal_from_set(tidei_cache *c, tidei_cache_entry *e, tidei_extent *chain,
                                    size_t *bytes) {
    for (const tidei_cache_entry *end = e + TIDEI_CACHE_WAYS; e < end; e++) {
        if (!atomic_load_explicit(&e->x, memory_order_relaxed)) continue;
        size_t before = *bytes;
        chain = chained(atomic_exchange_explicit(&e->x, NULL, memory_order_acq_rel), chain, bytes);
        atomic_fetch_add_explicit(&c->stolen_from, *bytes - before, memory_order_relaxed);
    }
    return chain;
}

tidei_extent *tidei_cache_steal(tidei_cache *c, tidei_extent *chain, size_t *bytes) {
    uint64_t sets = atomic_load_explicit(&c->sets, memory_order_relaxed);
    for (; sets; sets &= sets - 1)
        chain = steal_from_set(c, c->entries[__builtin_ctzll(sets)], chain, bytes);
    return chained(tidei_cache_receive(c), chain, bytes);
}

/* ---- making room: by the owner ---- */

/* One in so many blocks that find no place pushes others out. That is often enough for sizes that a
** thread asks for again and again, and where it asks for ever new sizes pushing gains nothing.
** (Pushing at each of them: 10 % more instructions an event on a recorded trace, none saved.) */
#define PUSHING_EVERY 64
/* A block of more than this part of the cap takes the place of too many others. */
#define PUSHING_PART 4
/* Blocks that are pushed out at once, at most: each is freed under its zone's lock, and 60 of them
** kept a thread for 10 us. */
#define PUSHED_MOST 8

/* Whether the entry's blocks do not serve requests that x serves. */
static bool differs(const tidei_cache_entry *e, const tidei_extent *x) {
    return e->size != x->size || (e->slot != x->slot && e->slot != TIDEI_SLOT_READY);
}

/* What is pushed out: blocks linked by `left`, their bytes, how many more may be. */
typedef struct pushed {
    tidei_extent *chain;
    size_t bytes;
    uint32_t left;
} pushed;

static void push_out(tidei_cache *c, tidei_cache_entry *e, pushed *out) {
    if (!e->size || !out->left) return;
    tidei_extent *x = atomic_exchange_explicit(&e->x, NULL, memory_order_acq_rel), *next;
    if (!x) {
        tidei_cache_stolen(c, e);
        return;
    }
    uint32_t n = 0;
    for (; x && n < out->left; x = next, n++) {
        next = x->left;
        x->left = out->chain;
        out->chain = x;
    }
    out->left -= n;
    out->bytes += n * e->size;
    c->in_entries -= n * e->size;
    if (x) { /* the owner alone puts blocks here, so the entry is empty still */
        e->n -= n;
        atomic_store_explicit(&e->x, x, memory_order_release);
    } else {
        e->size = e->n = 0;
    }
}

/* Whether x could be chained, if there were room. */
static bool has_like(const tidei_cache *c, const tidei_extent *x) {
    const tidei_cache_entry *set = c->entries[tidei_cache_set(x->size)];
    for (unsigned i = 0; i < TIDEI_CACHE_WAYS; i++)
        if (set[i].size == x->size && set[i].slot == x->slot) return true;
    return false;
}

/* An entry of x's set that is empty, or of those whose blocks differ from x the one with the least
** bytes; NULL: all hold blocks that serve as well. */
static tidei_cache_entry *place_for(tidei_cache *c, const tidei_extent *x) {
    tidei_cache_entry *set = c->entries[tidei_cache_set(x->size)], *found = NULL;
    for (unsigned i = 0; i < TIDEI_CACHE_WAYS; i++) {
        tidei_cache_entry *e = &set[(c->refused / PUSHING_EVERY + i) % TIDEI_CACHE_WAYS];
        if (!e->size) return e;
        if (differs(e, x) && (!found || tidei_cache_bytes(e) < tidei_cache_bytes(found))) found = e;
    }
    return found;
}

tidei_extent *tidei_cache_push_out(tidei_cache *c, const tidei_extent *x, size_t cap,
                                   size_t *bytes) {
    pushed out = {.left = PUSHED_MOST};
    if (++c->refused % PUSHING_EVERY || x->size > cap / PUSHING_PART) return NULL;
    if (!has_like(c, x)) {
        tidei_cache_entry *place = place_for(c, x);
        if (!place) return NULL;
        push_out(c, place, &out);
    }
    for (unsigned i = 0; i < TIDEI_CACHE_SETS && out.left && !tidei_cache_has_room(c, x->size, cap);
         i++) {
        tidei_cache_entry *set = c->entries[++c->hand % TIDEI_CACHE_SETS];
        for (unsigned k = 0; k < TIDEI_CACHE_WAYS; k++)
            if (differs(&set[k], x)) push_out(c, &set[k], &out);
    }
    *bytes += out.bytes;
    return out.chain;
}

/* Empties all threads' caches; the blocks are linked by `left`. */
static tidei_extent *steal_all(tidei_heap *p) {
    tidei_extent *chain = NULL;
    size_t bytes = 0;
    for (unsigned i = 0; i < atomic_load(&p->caches_end); i++) {
        tidei_cache *c = atomic_load_explicit(&p->caches[i], memory_order_acquire);
        if (c) chain = tidei_cache_steal(c, chain, &bytes);
    }
    atomic_fetch_sub_explicit(&p->held, (int64_t)bytes, memory_order_relaxed);
    return chain;
}

bool tidei_heap_flush_apart(tidei_heap *p) {
    tidei_extent *chain = steal_all(p);
    if (chain) tidei_zones_free_chain(p, chain);
    return chain;
}

void tidei_heap_flush(tidei_heap *p) {
    tidei_check(tidei_heap_locked(p));
    for (tidei_extent *chain = steal_all(p), *next; chain; chain = next) {
        next = chain->left;
        tidei_check(tidei_extent_is(chain) == TIDEI_EXTENT_CACHED);
        tidei_zone_of(p, chain)->used -= chain->size;
        tidei_heap_release(p, chain);
    }
}

bool tidei_heap_cache_anew(tidei_heap *p, tidei_cache *c, tidei_extent *x) {
    size_t bytes = 0, cap = atomic_load_explicit(&p->cap, memory_order_relaxed);
    tidei_extent *chain = tidei_cache_push_out(c, x, cap, &bytes);
    if (!chain) return false;
    tidei_cache_add(&c->held, -(int64_t)bytes);
    tidei_zones_free_chain(p, chain);
    return tidei_cache_put(c, x, cap);
}

/* Returns a block that fits the request; the others go to the entries, or onto *rest. */
static tidei_extent *sort_inbox(tidei_cache *c, size_t size, uint16_t slot, size_t cap,
                                tidei_extent **rest) {
    tidei_extent *found = NULL;
    *rest = NULL;
    for (tidei_extent *x = tidei_cache_receive(c), *next; x; x = next) {
        next = x->left;
        if (!found && x->size == size && (x->slot == slot || x->slot == TIDEI_SLOT_READY)) {
            found = x;
        } else if (!tidei_cache_put(c, x, cap)) {
            x->left = *rest;
            *rest = x;
        }
    }
    return found;
}

tidei_extent *tidei_heap_from_inbox(tidei_heap *p, tidei_cache *c, size_t size, uint16_t slot) {
    tidei_extent *rest;
    tidei_extent *x =
        sort_inbox(c, size, slot, atomic_load_explicit(&p->cap, memory_order_relaxed), &rest);
    if (!rest) return x;
    for (const tidei_extent *y = rest; y; y = y->left) tidei_cache_add(&c->held, -(int64_t)y->size);
    tidei_zones_free_chain(p, rest);
    return x;
}

tidei_heap_sums tidei_heap_tally(const tidei_heap *p) {
    tidei_heap_sums t = {.live = atomic_load_explicit(&p->live, memory_order_relaxed),
                         .held = atomic_load_explicit(&p->held, memory_order_relaxed),
                         .allocs = atomic_load_explicit(&p->allocs, memory_order_relaxed),
                         .frees = atomic_load_explicit(&p->frees, memory_order_relaxed)};
    for (unsigned i = 0; i < p->caches_end; i++) {
        const tidei_cache *c = atomic_load_explicit(&p->caches[i], memory_order_acquire);
        if (!c) continue;
        t.live += atomic_load_explicit(&c->live, memory_order_relaxed);
        t.held += atomic_load_explicit(&c->held, memory_order_relaxed);
        t.allocs += atomic_load_explicit(&c->allocs, memory_order_relaxed);
        t.frees += atomic_load_explicit(&c->frees, memory_order_relaxed);
    }
    return t;
}
