/* cache.h: blocks that a thread keeps at hand for itself: the way in and out of the pool
** `tide` without its lock.
**
** Model. Each thread has, by its number, a cache of its own in the pool: entries for freed blocks,
** found by exact size, and an inbox. A thread frees what it took itself into an entry, and what
** another took into that one's inbox, by one CAS. It empties its own inbox when no entry serves.
** Entries hold at most `cap` bytes a thread; where they are full, a block just freed pushes out
** what is of other sizes or streams, so that what nobody asks for any more does not stay in the
** way. Only the owner fills an entry; anybody empties one, by exchange, so that nothing in a cache
** is out of reach: who misses takes everybody's entries and inboxes before it asks for more memory.
** A thread that ends leaves its cache to the next with its number.
** What must stay true: an extent in a cache is CACHED, and whoever got it out by exchange has it
** alone. The lock of the pool is not needed for any of it but `tidei_cache_flush`. */
#ifndef TIDEI_TIDE_CACHE_H
#define TIDEI_TIDE_CACHE_H

#include "runtime/pool/size_index.h"
#include "runtime/base/thread_index.h"

enum { TIDEI_CACHE_SETS = 64, TIDEI_CACHE_WAYS = 4 };

typedef struct tidei_cache_entry {
    _Atomic(tidei_extent *) x;
    /* of x when it was put here; 0: empty. This and the next are the owner's alone */
    size_t size;
    uint16_t slot; /* likewise */
} tidei_cache_entry;

typedef struct tidei_cache {
    tidei_cache_entry entries[TIDEI_CACHE_SETS][TIDEI_CACHE_WAYS];
    /* Written by the owner alone, read by all. Sums over all caches count; one alone may be below
    ** zero. */
    _Atomic int64_t live; /* requested by blocks handed out */
    _Atomic int64_t held; /* bytes in caches */
    _Atomic uint64_t allocs, frees;
    _Atomic uint64_t sets; /* which sets may hold something */
    size_t in_entries;     /* put there, less what the owner took out */
    /* blocks that found no place; the set from which others were pushed out last */
    unsigned refused, hand;
    char apart[64];                /* what others write is on lines of its own */
    _Atomic size_t stolen_from;    /* bytes that others took out of the entries */
    _Atomic(tidei_extent *) inbox; /* linked by `left` */
} tidei_cache;

/* Sizes that differ little fall into different sets. */
static inline unsigned tidei_cache_set(size_t size) {
    return (unsigned)(((uint64_t)size * 0x9e3779b97f4a7c15u) >> 58);
}

static inline void tidei_cache_add(_Atomic int64_t *to, int64_t n) {
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
                          memory_order_relaxed);
}
static inline void tidei_cache_count(_Atomic uint64_t *to) {
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* A block of exactly that size with nothing pending, or only work of the stream `slot`; NULL if
** there is none. */
static inline tidei_extent *tidei_cache_take(tidei_cache *c, size_t size, uint16_t slot) {
    tidei_cache_entry *e = c->entries[tidei_cache_set(size)], *end = e + TIDEI_CACHE_WAYS;
    for (; e < end; e++) {
        if (e->size != size || (e->slot != slot && e->slot != TIDEI_SLOT_READY)) continue;
        e->size = 0;
        c->in_entries -= size;
        tidei_extent *x = atomic_exchange_explicit(&e->x, NULL, memory_order_acq_rel);
        if (tidei_likely(x != NULL)) return x;
        /* somebody else took it */
        atomic_fetch_sub_explicit(&c->stolen_from, size, memory_order_relaxed);
    }
    return NULL;
}

/* Puts x, which nobody else knows, into an entry. False: none is empty, or that would be more than
** `cap` bytes. */
static inline bool tidei_cache_put(tidei_cache *c, tidei_extent *x, size_t cap) {
    size_t size = x->size,
           there = c->in_entries - atomic_load_explicit(&c->stolen_from, memory_order_relaxed);
    if (there + size > cap) return false;
    unsigned set = tidei_cache_set(size);
    uint64_t sets = atomic_load_explicit(&c->sets, memory_order_relaxed);
    tidei_cache_entry *e = c->entries[set], *end = e + TIDEI_CACHE_WAYS;
    while (e < end && e->size && atomic_load_explicit(&e->x, memory_order_relaxed)) e++;
    if (e == end) return false;
    if (tidei_unlikely(e->size)) { /* stolen from */
        c->in_entries -= e->size;
        atomic_fetch_sub_explicit(&c->stolen_from, e->size, memory_order_relaxed);
    }
    e->size = size;
    e->slot = x->slot;
    c->in_entries += size;
    atomic_store_explicit(&c->sets, sets | (uint64_t)1 << set, memory_order_relaxed);
    atomic_store_explicit(&e->x, x, memory_order_release);
    return true;
}

/* Where nothing is in the entries any more, whoever empties them need not look there. Called by the
** owner. */
static inline void tidei_cache_forget_sets(tidei_cache *c) {
    if (c->in_entries == atomic_load_explicit(&c->stolen_from, memory_order_relaxed))
        atomic_store_explicit(&c->sets, 0, memory_order_relaxed);
}

/* Takes out of the entries, by the owner, what keeps x from finding a place there: of its own set
** and beyond `cap`, but nothing that would serve as x does. Linked by `left`. `bytes` is raised by
** theirs. Not at every call. */
tidei_extent *tidei_cache_push_out(tidei_cache *c, const tidei_extent *x, size_t cap,
                                   size_t *bytes);

/* Into another thread's inbox. */
static inline void tidei_cache_send(tidei_cache *to, tidei_extent *x) {
    tidei_extent *first = atomic_load_explicit(&to->inbox, memory_order_relaxed);
    do {
        x->left = first;
    } while (!atomic_compare_exchange_weak_explicit(&to->inbox, &first, x, memory_order_release,
                                                    memory_order_relaxed));
}

/* All that is in an inbox, linked by `left`. */
static inline tidei_extent *tidei_cache_receive(tidei_cache *c) {
    if (!atomic_load_explicit(&c->inbox, memory_order_relaxed)) return NULL;
    return atomic_exchange_explicit(&c->inbox, NULL, memory_order_acquire);
}

/* Empties everything in it, whosever it is, onto `chain` (by `left`); returns the new chain.
** `bytes` is raised by theirs. */
tidei_extent *tidei_cache_steal(tidei_cache *c, tidei_extent *chain, size_t *bytes);

#endif
