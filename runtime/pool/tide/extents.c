/* extents.c: the pool `tide`'s stretches of addresses: their descriptors, their order by address,
** the size indexes that free ones lie on, and how they fall apart and become one. All of it under
** the pool's lock, or that of the zone, as tide.h says.
**
**     | live | free, 5      | live |    a free piece of 5 granules
**     | live | cut, 2 | 3   | live |    tidei_heap_cut(x, 2): the low end, off the size indexes
**     | live | free, 5      | live |    tidei_heap_release(cut): they are one again
**
** What must stay true: extents tile the range; a free one lies in the size index that its slot
** names; neighbours that are joinable are one. Descriptors come from slabs that live as long as the
** pool, so a pointer to one that is out of date can still be read. */
#include "runtime/pool/tide/tide.h"
#include <stdalign.h>

struct tidei_slab {
    tidei_slab *next;
    void *memory; /* the address that the allocator returned */
    alignas(TIDEI_LINE) tidei_extent extents[TIDEI_SLAB_EXTENTS];
    tidei_stamps many[TIDEI_SLAB_EXTENTS]; /* tidei_heap_many */
};
#define SLAB_BYTES (sizeof(tidei_slab) + TIDEI_LINE - 1)
static_assert(sizeof(tidei_extent) == TIDEI_LINE, "what every step touches lies on one line");
static_assert(sizeof(tidei_stamps) == sizeof(tidei_extent), "as far behind each");

/* ---- descriptors ---- */

/* Zones give each other free descriptors by so many, as a list: to go through it would take a cache
** miss for each. A zone keeps as many aside. */
#define BATCH TIDEI_SLAB_EXTENTS

static void push(tidei_free_list *s, tidei_extent *x) {
    x->left = s->first;
    s->first = x;
    s->n++;
}

static tidei_extent *pop(tidei_free_list *s) {
    tidei_extent *x = s->first;
    tidei_check(x && tidei_extent_is(x) == TIDEI_EXTENT_UNUSED);
    s->first = x->left;
    s->n--;
    return x;
}

static void pass_on(tidei_free_list *from, tidei_free_list *to, size_t n) {
    while (n-- && from->n) push(to, pop(from));
}

static void add_batch(tidei_heap *p, tidei_free_list l) {
    l.first->size = l.n;
    l.first->right = p->batches;
    p->batches = l.first;
}

/* Empty: there is none. */
static tidei_free_list take_batch(tidei_heap *p) {
    tidei_extent *x = p->batches;
    if (!x) return (tidei_free_list){0};
    p->batches = x->right;
    return (tidei_free_list){x, x->size};
}

static void add_slab(tidei_heap *p, void *memory, tidei_free_list *to) {
    tidei_slab *slab = (tidei_slab *)tidei_round_up((uintptr_t)memory, TIDEI_LINE);
    slab->memory = memory;
    slab->next = p->slabs;
    p->slabs = slab;
    for (unsigned i = 0; i < TIDEI_SLAB_EXTENTS; i++) {
        /* xorshift32: any spread will do */
        p->rank ^= p->rank << 13, p->rank ^= p->rank >> 17, p->rank ^= p->rank << 5;
        slab->extents[i].rank = (uint16_t)(p->rank >> 16);
        push(to, &slab->extents[i]);
    }
}

tide_status tidei_heap_restock(tidei_heap *p) { return tidei_heap_restock_to(p, 4); }

tide_status tidei_heap_restock_to(tidei_heap *p, size_t n) {
    tidei_check(tidei_heap_locked(p));
    while (tidei_unlikely(p->free_list.n < n)) {
        tidei_free_list batch = take_batch(p);
        if (batch.n) {
            pass_on(&batch, &p->free_list, batch.n);
            continue;
        }
        tidei_heap_unlock(p);
        void *memory = tidei_host_alloc(p->base.dev->rt, SLAB_BYTES);
        tidei_heap_lock(p);
        if (!memory) return tidei_fail_host_memory("pool tide", SLAB_BYTES);
        add_slab(p, memory, &p->free_list);
    }
    return TIDE_OK;
}

static void use_aside(tidei_zone *z) {
    tidei_check(!z->free_list.n);
    z->free_list = z->aside;
    z->aside = (tidei_free_list){0};
}

bool tidei_heap_refill_zone(tidei_heap *p, tidei_zone *z) {
    use_aside(z);
    if (z->free_list.n) return true;
    tidei_lock_take(&p->free_list_lock);
    z->free_list = take_batch(p);
    if (!z->free_list.n) pass_on(&p->free_list, &z->free_list, BATCH);
    tidei_lock_give(&p->free_list_lock);
    return z->free_list.n;
}

tide_status tidei_heap_restock_zone(tidei_heap *p, tidei_zone *z) {
    while (!z->free_list.n && !tidei_heap_refill_zone(p, z)) {
        tidei_lock_give(&z->lock);
        void *memory = tidei_host_alloc(p->base.dev->rt, SLAB_BYTES);
        tidei_lock_take(&z->lock);
        if (!memory) return tidei_fail_host_memory("pool tide", SLAB_BYTES);
        tidei_lock_take(&p->free_list_lock);
        add_slab(p, memory, &z->free_list);
        tidei_lock_give(&p->free_list_lock);
    }
    return TIDE_OK;
}

bool tidei_heap_restock_apart(tidei_heap *p, tidei_zone *z, size_t n) {
    for (void *memory = NULL;;) {
        tidei_lock_take(&z->lock);
        tidei_lock_take(&p->free_list_lock);
        if (memory) add_slab(p, memory, &p->free_list);
        for (tidei_free_list l; p->free_list.n < n && (l = take_batch(p)).n;)
            pass_on(&l, &p->free_list, l.n);
        bool enough = p->free_list.n >= n;
        tidei_lock_give(&p->free_list_lock);
        tidei_lock_give(&z->lock);
        if (enough) return true;
        if (!(memory = tidei_host_alloc(p->base.dev->rt, SLAB_BYTES))) return false;
    }
}

#ifndef NDEBUG
static bool has_free_list(const tidei_heap *p) {
    return tidei_lock_held(&p->free_list_lock) || tidei_heap_locked(p);
}
#endif

tidei_extent *tidei_heap_descriptor(tidei_heap *p) {
    tidei_check(has_free_list(p));
    return pop(&p->free_list);
}

void tidei_heap_undescribe(tidei_heap *p, tidei_extent *x) {
    tidei_check(has_free_list(p));
    tidei_extent_be(x, TIDEI_EXTENT_UNUSED);
    push(&p->free_list, x);
}

/* For a part of an extent of the zone. */
static tidei_extent *descriptor_for(tidei_heap *p, tidei_zone *z) {
    if (tidei_unlikely(!z->free_list.n)) use_aside(z);
    return tidei_likely(z->free_list.n) ? pop(&z->free_list) : tidei_heap_descriptor(p);
}

__attribute__((noinline)) static void put_aside(tidei_heap *p, tidei_zone *z) {
    if (z->aside.n) {
        tidei_lock_take(&p->free_list_lock);
        add_batch(p, z->aside);
        tidei_lock_give(&p->free_list_lock);
    }
    z->aside = z->free_list;
    z->free_list = (tidei_free_list){0};
}

static inline void drop_in(tidei_heap *p, tidei_zone *z, tidei_extent *x) {
    tidei_check(tidei_extent_is(x) != TIDEI_EXTENT_LOOKED_AT);
    tidei_extent_be(x, TIDEI_EXTENT_UNUSED);
    push(&z->free_list, x);
    if (tidei_unlikely(z->free_list.n >= BATCH)) put_aside(p, z);
}

void tidei_heap_drop(tidei_heap *p, tidei_extent *x) { drop_in(p, tidei_zone_of(p, x), x); }

void tidei_heap_link(tidei_heap *p, tidei_extent *x, tidei_extent *last, tidei_extent *prev,
                     tidei_extent *next) {
    x->prev = prev;
    last->next = next;
    if (prev)
        prev->next = x;
    else
        p->first = x;
    if (next)
        next->prev = last;
    else
        p->last = last;
}

void tidei_heap_link_before(tidei_heap *p, tidei_extent *x, tidei_extent *at) {
    tidei_heap_link(p, x, x, at->prev, at);
}

void tidei_heap_link_behind(tidei_heap *p, tidei_extent *x, tidei_extent *at) {
    tidei_heap_link(p, x, x, at, at->next);
}

void tidei_heap_unlink(tidei_heap *p, tidei_extent *x) {
    if (x->prev)
        x->prev->next = x->next;
    else
        p->first = x->next;
    if (x->next)
        x->next->prev = x->prev;
    else
        p->last = x->prev;
}

void tidei_heap_free_descriptors(tidei_heap *p) {
    for (tidei_slab *slab = p->slabs, *next; slab; slab = next) {
        next = slab->next;
        tidei_host_free(p->base.dev->rt, slab->memory);
    }
}

/* ---- size indexes ---- */

static inline tidei_size_index *index_in(tidei_zone *z, const tidei_extent *x) {
    if (x->slot == TIDEI_SLOT_READY) return &z->ready;
    return x->slot == TIDEI_SLOT_MANY ? &z->mixed : tidei_zone_own(z, x->slot);
}

tidei_size_index *tidei_heap_size_index(tidei_heap *p, const tidei_extent *x) {
    return index_in(tidei_zone_of(p, x), x);
}

/* Where the zone has no size index for the stream, x counts as pending on several. */
static inline void have_index(tidei_zone *z, tidei_extent *x) {
    if (tidei_likely(x->slot >= TIDEI_STREAMS_MAX || tidei_zone_own(z, x->slot))) return;
    *tidei_heap_many(x) = (tidei_stamps){.n = 1, .few = {tidei_extent_stamp(x)}};
    x->slot = TIDEI_SLOT_MANY;
}

void tidei_heap_put(tidei_heap *p, tidei_extent *x) {
    tidei_zone *z = tidei_zone_of(p, x);
    have_index(z, x);
    tidei_size_index_put(index_in(z, x), x);
}

bool tidei_heap_joinable(const tidei_heap *p, const tidei_extent *a, const tidei_extent *b) {
    if (a->slot == TIDEI_SLOT_MANY || b->slot == TIDEI_SLOT_MANY) return false;
    if (a->slot == b->slot) return a->slot == TIDEI_SLOT_READY || !p->shared || a->tick == b->tick;
    return !p->shared && (a->slot == TIDEI_SLOT_READY || b->slot == TIDEI_SLOT_READY);
}

static void join_pending(tidei_extent *x, const tidei_extent *y) {
    if (y->slot == TIDEI_SLOT_READY) return;
    if (x->slot == TIDEI_SLOT_READY || x->tick < y->tick) x->tick = y->tick;
    x->slot = y->slot;
}

void tidei_heap_absorb(tidei_heap *p, tidei_extent *x, tidei_extent *y) {
    tidei_check(tidei_extent_end(x) == y->off || tidei_extent_end(y) == x->off);
    if (y->off < x->off) x->off = y->off;
    x->size += y->size;
    join_pending(x, y);
    tidei_heap_unlink(p, y);
    tidei_heap_drop(p, y);
}

static bool joins(const tidei_heap *p, const tidei_extent *x, const tidei_extent *neighbour) {
    return neighbour && tidei_extent_is(neighbour) == TIDEI_EXTENT_FREE &&
           tidei_heap_joinable(p, x, neighbour);
}

/* The free neighbour y takes over x, stays in its size index and mostly keeps its place there; x's
** descriptor is freed. */
static void give_to(tidei_heap *p, tidei_zone *z, tidei_extent *y, tidei_extent *x) {
    size_t off = y->off < x->off ? y->off : x->off;
    tidei_size_index *sh = index_in(z, y);
    join_pending(y, x);
    tidei_heap_unlink(p, x);
    tidei_size_index_reshape(sh, y, off, y->size + x->size);
    drop_in(p, z, x);
}

void tidei_heap_release(tidei_heap *p, tidei_extent *x) {
    tidei_zone *z = tidei_zone_of(p, x);
    tidei_check(tidei_lock_held(&z->lock));
    have_index(z, x);
    tidei_extent *prev = joins(p, x, x->prev) ? x->prev : NULL;
    if (prev) join_pending(x, prev);
    tidei_extent *next = joins(p, x, x->next) ? x->next : NULL;
    if (prev && next) {
        tidei_size_index_take(index_in(z, prev), prev);
        tidei_heap_absorb(p, x, prev);
    }
    tidei_extent *heir = next ? next : prev;
    if (heir && (x->slot == heir->slot || x->slot == TIDEI_SLOT_READY)) {
        give_to(p, z, heir, x);
        return;
    }
    if (heir) {
        tidei_size_index_take(index_in(z, heir), heir);
        tidei_heap_absorb(p, x, heir);
    }
    tidei_extent_become(x, TIDEI_WAS(LIVE) | TIDEI_WAS(CACHED) | TIDEI_WAS(CLAIMED),
                        TIDEI_EXTENT_FREE);
    tidei_size_index_put(index_in(z, x), x);
}

void tidei_heap_claim(tidei_heap *p, tidei_extent *x) {
    tidei_check(tidei_heap_locked(p));
    tidei_size_index_take(tidei_heap_size_index(p, x), x);
    tidei_extent_become(x, TIDEI_WAS(FREE), TIDEI_EXTENT_CLAIMED);
    p->claimed += x->size;
}

void tidei_heap_unclaim(tidei_heap *p, tidei_extent *x) {
    tidei_check(tidei_heap_locked(p) && tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED);
    p->claimed -= x->size;
    tidei_heap_release(p, x);
}

void tidei_heap_be_ready(tidei_heap *p, tidei_extent *x) {
    tidei_check(tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED);
    if (x->slot == TIDEI_SLOT_MANY) tidei_stamps_clear(tidei_heap_many(x));
    x->slot = TIDEI_SLOT_READY;
    x->tick = 0;
    tidei_heap_poison(p, x->off, x->size);
}

/* ---- cutting ---- */

/* Copies the pending stamps to the rest of a piece that is split. False: host memory is
** exhausted. */
static bool copy_pending(tidei_extent *to, tidei_extent *from) {
    to->slot = from->slot;
    to->tick = from->tick;
    if (from->slot != TIDEI_SLOT_MANY) return true;
    *tidei_heap_many(to) = (tidei_stamps){0};
    if (!tidei_stamps_reserve(tidei_heap_many(to), tidei_heap_many(from)->n)) return false;
    for (unsigned i = 0; i < tidei_heap_many(from)->n; i++)
        tidei_stamps_add(tidei_heap_many(to), tidei_stamps_at(tidei_heap_many(from))[i]);
    return true;
}

/* A descriptor for a part of x, with all that is pending. NULL: host memory is exhausted. */
static tidei_extent *part_of(tidei_heap *p, tidei_zone *z, tidei_extent *x) {
    tidei_extent *part = descriptor_for(p, z);
    if (tidei_likely(copy_pending(part, x))) {
        atomic_store_explicit(&part->zone, (uint8_t)z->number, memory_order_relaxed);
        return part;
    }
    drop_in(p, z, part);
    return NULL;
}

/* Cuts the low `size` bytes off x, which is larger, as an extent of its own; the rest is free.
** There is a free descriptor. NULL: host memory is exhausted. */
static tidei_extent *split(tidei_heap *p, tidei_extent *x, size_t size) {
    tidei_zone *z = tidei_zone_of(p, x);
    tidei_extent *low = part_of(p, z, x);
    if (!low) return NULL;
    low->off = x->off;
    low->size = size;
    tidei_heap_link_before(p, low, x);
    if (tidei_extent_is(x) == TIDEI_EXTENT_FREE) {
        tidei_size_index_reshape(index_in(z, x), x, x->off + size, x->size - size);
    } else {
        p->claimed -= x->size;
        x->off += size;
        x->size -= size;
        tidei_heap_release(p, x);
    }
    return low;
}

/* What a piece is cut off. */
#define CUTTABLE (TIDEI_WAS(FREE) | TIDEI_WAS(CLAIMED))

static tidei_extent *whole(tidei_heap *p, tidei_extent *x) {
    if (tidei_extent_is(x) == TIDEI_EXTENT_FREE)
        tidei_size_index_take(tidei_heap_size_index(p, x), x);
    else
        p->claimed -= x->size;
    return x;
}

tidei_extent *tidei_heap_cut(tidei_heap *p, tidei_extent *x, size_t size) {
    tidei_check(CUTTABLE >> tidei_extent_is(x) & 1);
    return x->size > size ? split(p, x, size) : whole(p, x);
}

tidei_extent *tidei_heap_cut_high(tidei_heap *p, tidei_extent *x, size_t size) {
    if (x->size == size || tidei_extent_is(x) != TIDEI_EXTENT_FREE)
        return tidei_heap_cut(p, x, size);
    tidei_zone *z = tidei_zone_of(p, x);
    tidei_extent *high = part_of(p, z, x);
    if (!high) return NULL;
    high->off = tidei_extent_end(x) - size;
    high->size = size;
    tidei_heap_link_behind(p, high, x);
    tidei_size_index_reshape(index_in(z, x), x, x->off, x->size - size);
    return high;
}

static tidei_extent *claimed(tidei_heap *p, tidei_extent *x) {
    tidei_extent_become(x, TIDEI_WAS(UNUSED) | TIDEI_WAS(FREE) | TIDEI_WAS(CLAIMED),
                        TIDEI_EXTENT_CLAIMED);
    p->claimed += x->size;
    return x;
}

tidei_extent *tidei_heap_claim_part(tidei_heap *p, tidei_extent *x, size_t low, size_t high) {
    tidei_extent *rest = NULL;
    tidei_check(tidei_heap_locked(p) && x->off <= low && high <= tidei_extent_end(x));
    tidei_check(CUTTABLE >> tidei_extent_is(x) & 1);
    if (x->off < low &&
        /* x is in no size index, so its rest may have to be joined with what lies behind it */
        tidei_extent_is(x) != TIDEI_EXTENT_FREE) {
        p->claimed -= x->size;
        tidei_extent_become(x, TIDEI_WAS(CLAIMED), TIDEI_EXTENT_FREE);
        tidei_heap_put(p, x);
    }
    if (x->off < low) rest = tidei_heap_cut(p, x, low - x->off);
    if (tidei_extent_is(x) == TIDEI_EXTENT_FREE) tidei_heap_claim(p, x);
    if (rest) tidei_heap_unclaim(p, claimed(p, rest));
    tidei_extent *part = tidei_extent_end(x) > high ? tidei_heap_cut(p, x, high - x->off) : NULL;
    return part ? claimed(p, part) : x;
}
