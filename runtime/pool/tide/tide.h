/* tide.h: the pool `tide` inside: its state, and what its parts ask of each other: tide.c (blocks),
** cache.c (threads' caches), zones.c (threads side by side), find.c (which piece), extents.c
** (pieces), compact.c (blocks that move), pages.c (memory), relocate.c (pages that change their
** addresses), choose_pages.c and choose_runs.c (which ones), clear.c (pages for others), figures.c.
**
** Model. One address range, reserved once, tiled by extents in address order: blocks handed out,
** free stretches, holes without memory. All streams share it. Memory comes and goes in pages that
** lie wherever an extent is no hole. Descriptors live in host memory; device memory is never
** touched. A free extent is `ready` (nothing pending), in the size index of the one stream whose
** work is pending on it, or among `mixed`. Free neighbours are one extent wherever at most one
** stream's work is pending on the whole; once several streams are at work, only where that happened
** at about the same time, so that old pieces do not look new to the other streams.
**
**     addresses   0                                                      span
**     pages       | page  | page  |                   | page  | page    |
**     extents     | live | free   | hole              | live | claimed | hole
**
** Extents belong to zones (zones.h), each with a lock of its own; a pool has one until threads get
** in each other's way. "The lock" is all zones' together (tidei_heap_lock); where a function says
** so, that of the extent's zone is enough.
**
** An extent's state, and who changes it (under the lock but for the line marked *):
**
**     HOLE --growth or a relocation reserves--> MAPPING --memory is there--> CLAIMED
**     HOLE <-------------it failed------------- MAPPING
**     FREE --a thread works on it without the lock--> CLAIMED --it is done--> FREE
**     CLAIMED --its pages went elsewhere--> HOLE
**     FREE, CLAIMED --a request takes it--> CACHED --it is handed out--> LIVE
**     LIVE <--a thread's cache has it, or hands it out again *--> CACHED
**     LIVE --its owner is asked--> LOOKED_AT --> LIVE
**     LIVE, CACHED --it is free--> FREE
**     CLAIMED <--a block moves from one to the other--> LIVE
**     all but LOOKED_AT --it is part of a neighbour now--> UNUSED --another extent begins--> any
**     UNUSED <--two zones meet, or no more--> BORDER
**
** What must stay true: nothing is called with the lock held: neither the device, nor the limits,
** nor the runtime's host memory. A thread that needs one of these claims the extents it works on
** (CLAIMED, MAPPING), lets go of the lock, and settles the matter under the lock again. Claimed
** bytes count as cached. Threads keep freed blocks in caches of their own (cache.h), which they use
** without the lock; to what the lock guards those are still used. */
#ifndef TIDEI_HEAP_H
#define TIDEI_HEAP_H

#include "runtime/pool/lock.h"
#include "runtime/pool/pool.h"
#include "runtime/pool/size_index.h"
#include "runtime/pool/tide/cache.h"
#include "runtime/pool/tide/zones.h"
#include "runtime/pool/budget.h"

/* Device memory as the device hands it out: the unit that is mapped, and that trim gives back. It
** belongs at the address `off` and is mapped at `at`. Where these differ it is displaced, which
** only relocate.c makes it. */
typedef struct tidei_page {
    size_t off, bytes;
    size_t at; /* TIDEI_NOWHERE: it is not mapped */
    tidei_dpage *mem;
    struct tidei_page *prev, *next; /* by address */
    bool chosen;                    /* to be mapped elsewhere */
    /* of the first page of a run of chosen ones */
    bool loaded;                /* blocks lie on the run */
    struct tidei_page *last;    /* of the run */
    struct tidei_page *then;    /* the first page of the run that goes behind this one */
    struct tidei_extent *first; /* on the run */
} tidei_page;

#define TIDEI_NOWHERE SIZE_MAX

static inline size_t tidei_page_end(const tidei_page *pg) { return pg->off + pg->bytes; }
static inline bool tidei_page_displaced(const tidei_page *pg) { return pg->at != pg->off; }

typedef struct tidei_slab tidei_slab; /* of descriptors */

typedef struct tidei_heap {
    tidei_pool base;
    /* fixed once open */
    tidei_addr addr;
    size_t span;       /* of the address range */
    size_t most;       /* a request for more can never be met */
    size_t page_bytes; /* the device's page_bytes */
    /* sizes of blocks are multiples of it; a power of two */
    size_t granule;
    /* AddressSanitizer is told which bytes are free */
    bool poison;
    /* each thread's, by its number; made once, under lock */
    _Atomic(tidei_cache *) caches[TIDEI_THREADS_INDEXED];
    _Atomic(tidei_zone *) zones[TIDEI_ZONES_MAX]; /* by number; made once, under lock */
    _Atomic unsigned nzones;                      /* written under lock */
    /* what a cache's entries hold depends on it (tidei_cache_has_room); 0: nothing. Written under
    ** lock */
    _Atomic size_t cap;
    /* what follows changes, so it lies on cache lines of its own */
    char apart[64];
    tidei_free_list free_list; /* under lock, or a zone's lock and then this one: */
    tidei_lock free_list_lock;
    tidei_extent *batches; /* lists of free descriptors that zones gave back; likewise */
    uint32_t rank;         /* the latest descriptor's; likewise */
    tidei_slab *slabs;     /* likewise */
    /* added to the caches' figures: what threads without a cache count, and threads that empty
    ** others' caches */
    _Atomic int64_t live, held;
    _Atomic uint64_t allocs, frees; /* likewise */
    /* under lock; what lies at its ends and the links there also under the lock of that zone */
    tidei_extent *first, *last; /* by address */
    tidei_extent *holes;        /* by address */
    tidei_extent *borders;      /* in no order; under lock, or two zones' and then free_list_lock */
    tidei_page *first_page, *last_page;
    size_t backed, claimed;
    unsigned ncaches;
    _Atomic unsigned caches_end; /* the highest number of a thread with one; written under lock */
    /* of streams that have used the pool; slots: read under a zone's lock too */
    bool slots[TIDEI_STREAMS_MAX];
    unsigned nslots;
    bool shared;               /* there are several; read under a zone's lock too */
    unsigned size_indexes_end; /* the highest slot with a size index, + 1 */
    /* a stream of this slot has asked for memory that neither `ready` nor its own size index had */
    bool takes[TIDEI_STREAMS_MAX];
    /* next slot in the streams' turn: after the one whose pending memory was last waited for */
    unsigned turn;
    size_t most_used; /* what tidei_heap_most_used knows beside the zones' own */
    /* smaller blocks are cut from the high ends of free pieces; 0 at first; read under a zone's
    ** lock too */
    size_t small;
    unsigned wholes; /* threads for which all has to stay one zone */
    uint64_t compactions, bytes_moved, bytes_remapped;
    uint64_t compact_after; /* no compaction before the count of frees is this */
    /* frees to wait after the last compaction, which was in vain; 0: it was not */
    size_t compact_pause;
    struct tidei_compaction
        *compaction; /* a thread maps pages elsewhere; only it uses the pages' fields for that */
    bool remapping;  /* a thread is at it, and the pages' marks are its own */
    unsigned growing, awaiting; /* threads that get memory, and that wait for what others get */
    _Atomic uint32_t grown;     /* goes up where a thread has got memory, or none; for awaiting */
    tidei_zone zone;            /* the first one */
} tidei_heap;

#ifndef TIDEI_STRESS
#define TIDEI_SLAB_EXTENTS 63 /* descriptors a slab: 8 KiB */
#else
#define TIDEI_SLAB_EXTENTS 2
#endif
/* The stamps pending on x, where its slot is TIDEI_SLOT_MANY. That is seldom, so they lie apart,
** behind the extents of the slab at the same distance from each. */
static inline tidei_stamps *tidei_heap_many(const tidei_extent *x) {
    return (tidei_stamps *)(x + TIDEI_SLAB_EXTENTS);
}

/* From one of the states `was` (TIDEI_WAS, or-ed) to another; the drawing is above. */
#define TIDEI_WAS(state) (1u << TIDEI_EXTENT_##state)
static inline void tidei_extent_become(tidei_extent *x, unsigned was, tidei_extent_state state) {
    tidei_check(was >> tidei_extent_is(x) & 1);
    (void)was;
    tidei_extent_be(x, state);
}

static inline size_t tidei_extent_end(const tidei_extent *x) { return x->off + x->size; }

static inline tidei_stamp tidei_extent_stamp(const tidei_extent *x) {
    /* `write` is set because it is not known whether the pending use wrote */
    return (tidei_stamp){.tick = x->tick, .stream = x->slot, .write = 1};
}

/* zones.c */
static inline tidei_zone *tidei_zone_at(const tidei_heap *p, unsigned number) {
    return atomic_load_explicit(&p->zones[number], memory_order_acquire);
}
static inline unsigned tidei_zone_number(const tidei_extent *x) {
    return atomic_load_explicit(&x->zone, memory_order_relaxed);
}
static inline tidei_zone *tidei_zone_of(const tidei_heap *p, const tidei_extent *x) {
    return tidei_zone_at(p, tidei_zone_number(x));
}
static inline unsigned tidei_zones(const tidei_heap *p) {
    return atomic_load_explicit(&p->nzones, memory_order_acquire);
}
/* All zones' locks: the pool's. */
void tidei_heap_lock(tidei_heap *p);
void tidei_heap_unlock(tidei_heap *p);
bool tidei_heap_locked(const tidei_heap *p); /* for assertions */

/* extents.c */
/* Makes sure that there are four free descriptors (`restock_to`: n); may let go of the lock in
** between. `restock_zone`: one for this zone, under its lock. TIDE_E_HOST_NOMEM. */
tide_status tidei_heap_restock(tidei_heap *p);
tide_status tidei_heap_restock_to(tidei_heap *p, size_t n);
tide_status tidei_heap_restock_zone(tidei_heap *p, tidei_zone *z);
/* The same without host memory; false: there is none to be had. */
bool tidei_heap_refill_zone(tidei_heap *p, tidei_zone *z);
/* Makes sure that there were n free descriptors a moment ago; by the zone's lock alone. False: host
** memory is exhausted. */
bool tidei_heap_restock_apart(tidei_heap *p, tidei_zone *z, size_t n);
tidei_extent *tidei_heap_descriptor(tidei_heap *p); /* takes a free descriptor; there is one */
void tidei_heap_undescribe(tidei_heap *p, tidei_extent *x); /* gives it back as it came */
/* x describes nothing any more. The zone's lock. */
void tidei_heap_drop(tidei_heap *p, tidei_extent *x);
/* Links the extents from x to `last` in between two neighbours (NULL: there is none), or x alone
** before or behind `at`. */
void tidei_heap_link(tidei_heap *p, tidei_extent *x, tidei_extent *last, tidei_extent *prev,
                     tidei_extent *next);
void tidei_heap_link_before(tidei_heap *p, tidei_extent *x, tidei_extent *at);
void tidei_heap_link_behind(tidei_heap *p, tidei_extent *x, tidei_extent *at);
void tidei_heap_unlink(tidei_heap *p, tidei_extent *x);

void tidei_heap_free_descriptors(tidei_heap *p); /* at close */

/* The size index that a free extent belongs to, by its zone and slot. */
tidei_size_index *tidei_heap_size_index(tidei_heap *p, const tidei_extent *x);
/* Makes x, which is in no size index, free with its slot and tick, and joins it with its neighbours
** where that is allowed. The zone's lock. */
void tidei_heap_release(tidei_heap *p, tidei_extent *x);
/* Puts a FREE extent where its zone and slot belong. */
void tidei_heap_put(tidei_heap *p, tidei_extent *x);
/* Takes x out of its size index and makes it CLAIMED. */
void tidei_heap_claim(tidei_heap *p, tidei_extent *x);
/* May these neighbours be joined? */
bool tidei_heap_joinable(const tidei_heap *p, const tidei_extent *a, const tidei_extent *b);
/* x takes over its neighbour y's stretch and what is pending there; y's descriptor is freed. Both
** are in no size index. */
void tidei_heap_absorb(tidei_heap *p, tidei_extent *x, tidei_extent *y);

/* Cuts the low `size` bytes off the free or claimed extent x, as an extent in no size index, with
** all that is pending. There is a free descriptor. NULL: host memory is exhausted, and x is as it
** was. For a free one the zone's lock is enough; so it is for the next one. */
tidei_extent *tidei_heap_cut(tidei_heap *p, tidei_extent *x, size_t size);
/* The same from the high end of a free piece; from a claimed one, which may lie beside a hole, the
** low end too. */
tidei_extent *tidei_heap_cut_high(tidei_heap *p, tidei_extent *x, size_t size);
/* Cuts the stretch [low, high) out of x, free or claimed, as a claimed extent; the rest is free.
** There are two free descriptors. Where host memory for the stamps of a rest is exhausted, the
** claimed extent is larger than the stretch. */
tidei_extent *tidei_heap_claim_part(tidei_heap *p, tidei_extent *x, size_t low, size_t high);
/* A claimed extent becomes free. */
void tidei_heap_unclaim(tidei_heap *p, tidei_extent *x);
/* Nothing is pending on the claimed extent any more. */
void tidei_heap_be_ready(tidei_heap *p, tidei_extent *x);

/* find.c */
/* Which pieces a stream may have. */
typedef enum tidei_reach {
    /* its work will come after what is pending there, by the pool's rules and without asking */
    TIDEI_REACH_COVERED,
    /* those, and pieces whose pending work is so old that waiting for it on the device costs
    ** nothing */
    TIDEI_REACH_STALE,
    TIDEI_REACH_ANY
} tidei_reach;
bool tidei_heap_reaches(tidei_heap *p, tidei_reach reach, tidei_stream *s, tidei_extent *x);
/* Under the lock: is a piece of at least `size` ready? */
bool tidei_heap_any_ready(tidei_heap *p, size_t size);
/* Under the lock: the best piece of what is ready and of the stream's own; and of what others'
** work is pending on, among the first `looks` of each size index. NULL: none. */
tidei_extent *tidei_heap_best_own(tidei_heap *p, const tidei_stream *s, size_t size);
tidei_extent *tidei_heap_best_foreign(tidei_heap *p, size_t size, tidei_stream *s,
                                      tidei_reach reach, size_t looks);
/* The best piece of the zone that a stream of this slot may have without asking. The zone's
** lock. */
tidei_extent *tidei_zone_fit(tidei_zone *z, uint16_t slot, size_t size);
/* The smallest piece of at least `size` within reach, preferably one whose pending work s is
** ordered after; NULL: none. */
tidei_extent *tidei_heap_fit(tidei_heap *p, size_t size, tidei_stream *s, tidei_reach reach);
/* Finds a piece of at least `size` for s: in a size index, or CLAIMED. There is a free descriptor,
** and still is afterwards. Lets go of the lock where the device is asked, blocks move, or memory is
** got. TIDE_E_NOMEM, TIDE_E_HOST_NOMEM, or the device's error. */
tide_status tidei_heap_find(tidei_heap *p, size_t size, tidei_stream *s, unsigned flags,
                            tidei_extent **out);

/* tide.c */
/* Asks which pending pieces are done, and joins them. Called without the lock. Returns the bytes
** that became ready. */
size_t tidei_heap_settle(tidei_heap *p);

/* compact.c */
/* Moves at most `moves` blocks (SIZE_MAX: all, by as little as there is), at a cost of less than
** `most` (bytes moved, and TIDEI_MOVE_COST for each block; SIZE_MAX: whatever it costs), to make
** a free piece of `size` bytes out of free pieces within reach; *out is CLAIMED, and the moves on
** s are pending on it. TIDE_E_NOMEM: moving does not help, but with *lost more free bytes it may.
** Lets go of the lock meanwhile. */
tide_status tidei_heap_compact(tidei_heap *p, size_t size, size_t moves, size_t most,
                               tidei_stream *s, tidei_reach reach, size_t *lost,
                               tidei_extent **out);
/* The most moves of a compaction; more would take too long to be worth while. */
#define TIDEI_MOVES_MAX 4096

/* choose_pages.c */
/* Makes one piece of `size` bytes by mapping whole pages from anywhere side by side, after clearing
** them of blocks where needed; with `grow` also new pages, within the limit. *out is CLAIMED, with
** nothing pending. The host waits for the work that is pending on the pages. Lets go of the lock
** meanwhile. TIDE_E_NOMEM: not possible; or the device's error. */
tide_status tidei_heap_remap(tidei_heap *p, size_t size, tidei_stream *s, bool grow,
                             tidei_extent **out);
/* Of the bytes wanted vacant pages have to be at least this part, or it is not worth unmapping and
** mapping them: 60 us each on a GPU, where new ones cost 100; and each cuts free memory up. */
#define TIDEI_VACANT_PART 2
/* The same of idle pages, on which nothing lies and nothing is pending, and new memory: no block
** moves, and nobody waits. What s has pending beside them stays pending on *out. TIDE_E_NOMEM also
** where few pages are idle. For both all is one zone (tidei_zones_unite). */
tide_status tidei_heap_remap_idle(tidei_heap *p, size_t size, tidei_stream *s, tidei_extent **out);

/* choose_runs.c */
/* Maps runs of pages, with the blocks that lie on them, side by side, until blocks need only slide
** to make a piece of `size` bytes; with `grow` also new pages, within the limit. The host waits for
** the work that is pending on them. Lets go of the lock meanwhile. TIDE_E_NOMEM: not possible even
** so; or the device's error. */
tide_status tidei_heap_gather(tidei_heap *p, size_t size, tidei_stream *s, bool grow);

/* clear.c */
size_t tidei_heap_clear(tidei_pool *pool, size_t bytes);

/* cache.c */
/* The thread's cache, if it has one in this pool already. */
static inline tidei_cache *tidei_heap_cache_of(const tidei_heap *p, int number) {
    return tidei_likely(number > 0)
               ? atomic_load_explicit(&p->caches[number - 1], memory_order_acquire)
               : NULL;
}
/* Makes the calling thread's cache; `number` is its tidei_thread_index, not 0. NULL: host memory is
** exhausted. */
tidei_cache *tidei_heap_cache_new(tidei_heap *p, unsigned number);
void tidei_heap_set_cap(tidei_heap *p); /* what is backed, or the number of caches, has changed */
void tidei_heap_flush(tidei_heap *p);   /* all threads' cached blocks go to the size indexes */
/* The same without the lock, by zones' locks, one at a time. False: there was none. */
bool tidei_heap_flush_apart(tidei_heap *p);
/* Empties the calling thread's inbox, which is not empty, and returns a block from it that serves,
** if there is one; without a lock. */
tidei_extent *tidei_heap_from_inbox(tidei_heap *p, tidei_cache *c, size_t size, uint16_t slot);
/* Where the entries have no place for x, which nobody else knows: pushes out other blocks, which go
** to the size indexes, and puts x there. False: there is still no place. Takes zones' locks. */
bool tidei_heap_cache_anew(tidei_heap *p, tidei_cache *c, tidei_extent *x);
/* The pool's figures that threads count for themselves, summed: exact if no other thread is at
** work. */
typedef struct tidei_heap_sums {
    int64_t live, held;
    uint64_t allocs, frees;
} tidei_heap_sums;
tidei_heap_sums tidei_heap_tally(const tidei_heap *p);

/* figures.c */
void tidei_heap_stats(tidei_pool *pool, tidei_pool_stats *out);
size_t tidei_heap_rounding(tidei_pool *pool);
size_t tidei_heap_largest(tidei_pool *pool, size_t wanted);
bool tidei_heap_valid(tidei_pool *pool);
bool tidei_heap_valid_locked(tidei_heap *p);

/* The most pages in a device call: bounds an array on the stack. */
#define TIDEI_CALL_PAGES 64
/* pages.c, of its chain of pages: links a chain in by address; takes the pages of [first->off, end)
** out as a chain. */
void tidei_pages_link(tidei_heap *p, tidei_page *first);
tidei_page *tidei_pages_unlink(tidei_heap *p, tidei_page *first, size_t end);

/* pages.c; all but the last two let go of the lock meanwhile */
/* Gets memory so that there is one piece of `size` bytes that s may use; gets more than needed, if
** that is to be had. *out is CLAIMED. */
tide_status tidei_heap_grow(tidei_heap *p, size_t size, tidei_stream *s, tidei_extent **out);
/* Gets so much new memory (rounded up to pages) in one piece, beside free memory below it; *out is
** CLAIMED and the new memory alone. */
tide_status tidei_heap_add(tidei_heap *p, size_t bytes, tidei_stream *s, tidei_extent **out);
/* Cuts `bytes` (whole pages) off a hole's low or high end, as a MAPPING extent. There is a free
** descriptor. */
tidei_extent *tidei_heap_reserve(tidei_heap *p, tidei_extent *hole, size_t bytes, bool high);
/* Gets new memory for such a part of a hole. There are three free descriptors. *out is CLAIMED. */
tide_status tidei_heap_add_at(tidei_heap *p, tidei_extent *hole, bool high, size_t bytes,
                              tidei_extent **out);
/* Where another thread gets memory, and more than this request needs, waits for it for a moment
** without the lock. False: there is nothing to be waited for. */
bool tidei_heap_await_growth(tidei_heap *p, size_t size);
size_t tidei_heap_trim(tidei_heap *p, size_t keep); /* without the lock */
void tidei_heap_unmap_all(tidei_heap *p);           /* at close */
/* whether pages lie exactly where extents are backed, and their sum is `backed` */
bool tidei_heap_pages_valid(tidei_heap *p);
/* makes x a hole, joined with holes beside it */
void tidei_heap_hole(tidei_heap *p, tidei_extent *x);

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define TIDEI_HEAP_POISONS 1
#else
#define TIDEI_HEAP_POISONS                0
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* Tells AddressSanitizer that nobody may touch these bytes; or that the first of them may be used.
** Only on a host device, whose memory the host can touch. */
static inline void tidei_heap_poison(const tidei_heap *p, size_t off, size_t bytes) {
    if (p->poison) ASAN_POISON_MEMORY_REGION((void *)(uintptr_t)(p->addr + off), bytes);
}
static inline void tidei_heap_unpoison(const tidei_heap *p, size_t off, size_t bytes) {
    if (p->poison) ASAN_UNPOISON_MEMORY_REGION((void *)(uintptr_t)(p->addr + off), bytes);
}

/* Drops the stamps known to be done, if that `counts`. Returns the slot of what is left; *tick is
** the last tick if it is a single stream's. */
uint16_t tidei_heap_reduce(tidei_dev *d, tidei_stamps *stamps, bool counts, uint64_t *tick);

#endif
