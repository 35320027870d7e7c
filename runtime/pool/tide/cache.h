/* cache.h: freed blocks that a thread keeps for itself: allocating and freeing in the pool `tide`
** without its lock.
**
** Model. Each thread has, by its number, a cache of its own in the pool: entries for freed blocks,
** found by exact size, and an inbox. An entry holds one block; where all that could take a block
** are in use, the one with its like holds a chain of them, since many die at once in a collection.
** A thread frees a block that it allocated itself into an entry, and a block of another thread into
** that thread's inbox, by one CAS:
**   thread 1 frees its own block  -> entry of cache 1
**   thread 2 frees a block of 1   -> inbox of cache 1
**   thread 1 allocates            <- entry; else its inbox; else the pool, under the lock
** It empties its own inbox when no entry serves. Entries hold what there is room for
** (tidei_cache_has_room); where they are full, a block just freed pushes out blocks of other sizes
** or streams, so that sizes which are not asked for any more do not stay in the way. Only the owner
** fills an entry; any thread may empty one, by exchange: a thread that finds no memory takes the
** blocks of all entries and inboxes before it asks the device for more. When a thread ends, its
** cache goes to the next thread with its number.
** What must stay true: an extent in a cache is CACHED, and a thread that took it out by exchange
** has it alone. */
#ifndef TIDEI_TIDE_CACHE_H
#define TIDEI_TIDE_CACHE_H

#include "runtime/pool/size_index.h"
#include "runtime/base/thread_index.h"

enum { TIDEI_CACHE_SETS = 64, TIDEI_CACHE_WAYS = 4 };

typedef struct tidei_cache_entry {
    _Atomic(tidei_extent *) x; /* the first of a chain, linked by `left` */
    /* of each block when it was put here; 0: empty. Only the owner uses this field and the next
    ** two */
    size_t size;
    uint16_t slot;
    uint32_t n; /* blocks behind the first: put here, less those that the owner took out */
} tidei_cache_entry;

typedef struct tidei_cache {
    tidei_cache_entry entries[TIDEI_CACHE_SETS][TIDEI_CACHE_WAYS];
    /* Written by the owner alone, read by all threads. Only sums over all caches mean something; a
    ** single cache's value may be below zero. */
    _Atomic int64_t live; /* requested by blocks handed out */
    _Atomic int64_t held; /* bytes in caches */
    _Atomic uint64_t allocs, frees;
    _Atomic uint64_t sets; /* bits of the sets that may hold something */
    size_t in_entries;     /* bytes put there, less those that the owner took out */
    /* refused: blocks that found no place; hand: the set from which blocks were pushed out last */
    unsigned refused, hand;
    struct tidei_zone *zone; /* where the thread takes blocks that are in no cache */
    /* met: how often its lock was held by others lately; elsewhere: how often others had to help
    ** out, until elsewhere_most */
    unsigned met, elsewhere, elsewhere_most;
    char apart[64];                /* what other threads write is on cache lines of its own */
    _Atomic size_t stolen_from;    /* bytes that other threads took out of the entries */
    _Atomic(tidei_extent *) inbox; /* linked by `left` */
} tidei_cache;

/* Sizes that differ little belong to different sets. */
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

/* Of what the owner put there; 0 if it is empty. */
static inline size_t tidei_cache_bytes(const tidei_cache_entry *e) {
    return (e->n + (size_t)1) * e->size;
}

/* The entry is empty from now on; returns the bytes that it had. */
static inline size_t tidei_cache_clear(tidei_cache *c, tidei_cache_entry *e) {
    size_t bytes = tidei_cache_bytes(e);
    c->in_entries -= bytes;
    e->size = e->n = 0;
    return bytes;
}

/* Called by the owner, who found that another thread took the entry's blocks. */
static inline void tidei_cache_stolen(tidei_cache *c, tidei_cache_entry *e) {
    size_t bytes = tidei_cache_clear(c, e);
    atomic_fetch_sub_explicit(&c->stolen_from, bytes, memory_order_relaxed);
}

/* A block of exactly that size with nothing pending, or only work of the stream `slot`; NULL if
** there is none. Its `left` is NULL, and so is its owner, which lies there. */
static inline tidei_extent *tidei_cache_take(tidei_cache *c, size_t size, uint16_t slot) {
    tidei_cache_entry *e = c->entries[tidei_cache_set(size)], *end = e + TIDEI_CACHE_WAYS;
    for (; e < end; e++) {
        if (e->size != size || (e->slot != slot && e->slot != TIDEI_SLOT_READY)) continue;
        tidei_extent *x = atomic_exchange_explicit(&e->x, NULL, memory_order_acq_rel);
        if (tidei_unlikely(!x)) {
            tidei_cache_stolen(c, e);
            continue;
        }
        c->in_entries -= size;
        if (tidei_likely(!x->left)) {
            e->size = 0;
        } else {
            e->n--;
            atomic_store_explicit(&e->x, x->left, memory_order_release);
            x->left = NULL;
        }
        return x;
    }
    return NULL;
}

/* A thread's cap is this much at least, where threads keep blocks at all. */
#define TIDEI_CACHE_FLOOR (256 * TIDEI_KIB)
/* Blocks of at most this part of the cap are small beside it. */
#define TIDEI_CACHE_SMALL_PART 256

/* Whether there is room in the entries for so many bytes more: below the cap, and for small blocks
** half of it more, so that a few large ones do not keep all of them out; but not where the cap is
** the least, as with several threads and little memory. */
static inline bool tidei_cache_has_room(const tidei_cache *c, size_t size, size_t cap) {
    size_t then =
        c->in_entries - atomic_load_explicit(&c->stolen_from, memory_order_relaxed) + size;
    if (tidei_likely(then <= cap)) return true;
    return cap > TIDEI_CACHE_FLOOR && size <= cap / TIDEI_CACHE_SMALL_PART && then <= cap + cap / 2;
}

/* Puts x onto the chain of an entry with its like. Called by the owner, where none of the set is
** empty. False: there is none. */
bool tidei_cache_chain(tidei_cache *c, tidei_extent *x);

/* Puts x, which no other thread knows, into an entry. False: there is none for it, or no room. */
static inline bool tidei_cache_put(tidei_cache *c, tidei_extent *x, size_t cap) {
    size_t size = x->size;
    if (!tidei_cache_has_room(c, size, cap)) return false;
    unsigned set = tidei_cache_set(size);
    uint64_t sets = atomic_load_explicit(&c->sets, memory_order_relaxed);
    tidei_cache_entry *e = c->entries[set], *end = e + TIDEI_CACHE_WAYS;
    while (e < end && e->size && atomic_load_explicit(&e->x, memory_order_relaxed)) e++;
    if (tidei_unlikely(e == end)) return tidei_cache_chain(c, x);
    if (tidei_unlikely(e->size)) tidei_cache_stolen(c, e);
    e->size = size;
    e->slot = x->slot;
    c->in_entries += size;
    atomic_store_explicit(&c->sets, sets | (uint64_t)1 << set, memory_order_relaxed);
    x->left = NULL;
    atomic_store_explicit(&e->x, x, memory_order_release);
    return true;
}

/* If the entries are empty, notes that, so that a thread that empties caches need not look there.
** Called by the owner. */
static inline void tidei_cache_forget_sets(tidei_cache *c) {
    if (c->in_entries == atomic_load_explicit(&c->stolen_from, memory_order_relaxed))
        atomic_store_explicit(&c->sets, 0, memory_order_relaxed);
}

/* Called by the owner: takes blocks out of the entries so that x finds a place there, from x's set
** and until there is room, but none that serves the same requests as x. They are linked by `left`;
** their bytes are added to *bytes. Does nothing at most calls (PUSHING_EVERY), and takes a few at a
** time (PUSHED_MOST): x may find no place yet. */
tidei_extent *tidei_cache_push_out(tidei_cache *c, const tidei_extent *x, size_t cap,
                                   size_t *bytes);

/* Puts x into another thread's inbox. */
static inline void tidei_cache_send(tidei_cache *to, tidei_extent *x) {
    tidei_extent *first = atomic_load_explicit(&to->inbox, memory_order_relaxed);
    do {
        x->left = first;
    } while (!atomic_compare_exchange_weak_explicit(&to->inbox, &first, x, memory_order_release,
                                                    memory_order_relaxed));
}

/* Empties an inbox; the blocks are linked by `left`. */
static inline tidei_extent *tidei_cache_receive(tidei_cache *c) {
    if (!atomic_load_explicit(&c->inbox, memory_order_relaxed)) return NULL;
    return atomic_exchange_explicit(&c->inbox, NULL, memory_order_acquire);
}

/* Empties any thread's cache onto `chain` (linked by `left`) and returns the new chain. The bytes
** are added to *bytes. */
tidei_extent *tidei_cache_steal(tidei_cache *c, tidei_extent *chain, size_t *bytes);

#endif
