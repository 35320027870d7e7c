/* zones.h: the parts of the pool `tide` that threads use side by side.
**
** Model. Each extent that has memory belongs to a zone: a lock, size indexes, free descriptors. A
** pool begins with one zone, and as long as no two threads want it at once that is all there is. A
** thread that finds its zone's lock held again and again goes to a zone of its own.
**
**     zones      |        0        |    1    |   0   |        |    2    |      (| a border)
**     extents    | live | free     | live    | live  |  hole  | live | free
**
** Neighbours that have memory belong to the same zone, or a *border* lies between them, an extent
** without bytes. So a thread that holds its zone's lock may cut, join and link what belongs to the
** zone: of a border, or a hole, it changes only the link on its side.
**   an allocation  takes from its thread's zone; else from another one that has a piece: from one
**                  that is not held at that moment, or else it waits for it; else find.c searches,
**                  under the pool's lock
**   a free         goes to the block's zone; if that is held, onto a list (`freed`) from which the
**                  zone's threads free some whenever they have the lock, and all before they look
**                  elsewhere
**   the pool's lock is all zones' locks, taken in order: under it they are one pool
** So zones keep no memory from each other: nothing grows while any of them has a piece. Memory goes
** where it is used: growth belongs to the zone of the thread that asked, and a thread that often
** has to take from others gets half of the largest free piece there is for its zone, under the
** locks of these two, and of the zone behind the piece, alone. What moves pages wants no borders:
** then all becomes one zone again, until threads part once more.
** What must stay true: an extent's zone changes only under the pool's lock, or that of a free piece
** under the locks of both; a border is there exactly where neighbours with memory belong to
** different zones, and goes and comes under the locks of both. A thread that waits for a lock while
** it holds others takes them in the order of zones' numbers. */
#ifndef TIDEI_TIDE_ZONES_H
#define TIDEI_TIDE_ZONES_H

#include "runtime/pool/lock.h"
#include "runtime/pool/pool.h"
#include "runtime/pool/size_index.h"

#define TIDEI_ZONES_MAX 64

typedef struct tidei_heap tidei_heap;
typedef struct tidei_cache tidei_cache;

/* Free descriptors, linked by `left`. */
typedef struct tidei_free_list {
    tidei_extent *first;
    size_t n;
} tidei_free_list;

typedef struct tidei_zone {
    tidei_lock lock;
    unsigned number;          /* fixed */
    _Atomic unsigned tenants; /* threads whose zone it is */
    /* under lock */
    tidei_free_list free_list, aside; /* aside: for when the other is empty */
    size_t used;                      /* live, rounding, and what caches and `freed` hold */
    size_t most_used;                 /* so far */
    tidei_extent *received;           /* of `freed`, still to be freed */
    tidei_size_index ready, mixed;
    _Atomic(tidei_size_index *) own[TIDEI_STREAMS_MAX]; /* by slot; made once */
    char apart[64];                /* what other threads write is on cache lines of its own */
    _Atomic(tidei_extent *) freed; /* CACHED, linked by `left` */
} tidei_zone;

/* The size index of a stream's slot; NULL: not made yet. `made` makes it, and is called without a
** lock; NULL when host memory is exhausted. */
static inline tidei_size_index *tidei_zone_own(const tidei_zone *z, unsigned slot) {
    return atomic_load_explicit(&z->own[slot], memory_order_acquire);
}
tidei_size_index *tidei_zone_own_made(tidei_heap *p, tidei_zone *z, unsigned slot);

/* ---- for one zone; without a lock before ---- */
/* Takes the lock of the calling thread's zone, which then has a size index for the slot and a free
** descriptor. `c`: the thread's cache, or NULL. TIDE_E_HOST_NOMEM. */
tide_status tidei_zone_enter(tidei_heap *p, tidei_cache *c, uint16_t slot, tidei_zone **out);
/* Enters another zone than the thread's, one that may well have a piece of this size, and has a
** free descriptor: first those whose lock is free, then the others. *at: 0 at first, then as the
** last call left it. NULL: no more. */
tidei_zone *tidei_zone_enter_other(tidei_heap *p, const tidei_cache *c, uint16_t slot, size_t size,
                                   unsigned *at);
/* The same for one whose piece fits a large request better than the thread's own zone has it. NULL:
** there is none, or it is held. */
tidei_zone *tidei_zone_try_tighter(tidei_heap *p, const tidei_cache *c, uint16_t slot, size_t size);
/* Frees all that was left to whoever has the lock next, which is held; false: there was nothing. */
bool tidei_zone_free_all(tidei_heap *p, tidei_zone *z);
static inline void tidei_zone_leave(tidei_zone *z) { tidei_lock_give(&z->lock); }
void tidei_zone_move_in(tidei_cache *c, tidei_zone *z); /* z is the cache's thread's now */
/* The cache's thread goes to a zone that no thread is in; false: host memory is exhausted, or there
** are too many. */
bool tidei_zone_depart(tidei_heap *p, tidei_cache *c);
/* The thread had to go to other zones. Now and then its own gets memory of theirs. */
void tidei_zone_was_short(tidei_heap *p, tidei_cache *c, uint16_t slot);
/* Frees x, which is LIVE or CACHED and nobody else's, with this pending: at once, or with what the
** lock's holder does next. */
void tidei_zone_free(tidei_heap *p, tidei_cache *c, tidei_extent *x, uint16_t slot, uint64_t tick);
/* Frees CACHED extents, linked by `left`, of any zones. */
void tidei_zones_free_chain(tidei_heap *p, tidei_extent *chain);

/* ---- for all; under the pool's lock ---- */
/* What zones' figures add up to; `free`: in all size indexes; `own`: what is ready, and what only
** the stream's work is pending on. */
size_t tidei_heap_used(const tidei_heap *p);
size_t tidei_heap_free_bytes(const tidei_heap *p);
size_t tidei_heap_ready_bytes(const tidei_heap *p);
size_t tidei_heap_own_bytes(const tidei_heap *p, const tidei_stream *s);
/* The most that was used at one time; where there are several zones, of the times when somebody
** asked. */
size_t tidei_heap_most_used(tidei_heap *p);
unsigned tidei_zone_here(const tidei_heap *p); /* the calling thread's, for new memory */
/* x, which is in no size index, belongs to this zone from now on. `bound`: it has memory now, or no
** more. Borders follow; there are two free descriptors. */
void tidei_zone_set(tidei_heap *p, tidei_extent *x, unsigned zone);
void tidei_zone_bound(tidei_heap *p, tidei_extent *x);
/* Free pieces at both sides of a border become one where they may. */
void tidei_zones_join(tidei_heap *p);
/* All is one zone from now on, until `part`; calls nest. */
void tidei_zones_unite(tidei_heap *p);
void tidei_zones_part(tidei_heap *p);
bool tidei_zones_valid(const tidei_heap *p);

void tidei_zones_close(tidei_heap *p); /* frees what belongs to them; without a lock */

#endif
