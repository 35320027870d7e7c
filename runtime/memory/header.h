/* header.h: arrays' headers and the death queue.
**
** A user holds a cell (`tide_array *`): one word, the inverted address of the array's header, so
** that a conservative collector that scans cells keeps nothing alive through it. The header owns
** one reference on a storage:
**   tide_array *a -> cell: ~address .. header: word (generation, flags), layout -> storage -> block
** A header's word holds a generation (upper 56 bits) and flags. A thread that finds the array dead
** sets DEAD (its memory may go) or DEAD and GONE (and nobody will touch the cell again), and pushes
** the header on its runtime's queue unless it is QUEUED already. That is all a report does: no
** lock, no allocation, no device call; it is legal on any thread, in a stopped world, twice, after
** tide_close, in a forked child. Drain, at a safe point, does the rest: releases the storage, runs
** the death callbacks, and recycles the header once it is GONE; the header then serves another
** array, under the next generation.
**
** A thread that looks for storages to spill sets HELD on live headers for a moment: while it is set
** a drain does not let go of their storages. Headers lie in slabs that the process never gives
** back, so a late or repeated report reads valid memory, and the generation tells it that it is
** late. */
#ifndef TIDEI_HEADER_H
#define TIDEI_HEADER_H

#include "runtime/memory/storage.h"
#include <stdalign.h>

struct tide_array {
    uintptr_t hidden; /* ~address of the header; 0: quarantined or recycled */
};

enum {
    TIDEI_DEAD = 1,
    TIDEI_GONE = 2,
    TIDEI_QUEUED = 4,
    TIDEI_DRAINED = 8,
    TIDEI_HELD = 16,
    TIDEI_WORD_FLAGS = 255
};
#define TIDEI_WORD_GENERATION ((uint64_t)256)

/* How the elements lie in the storage; `arrays` works with it. Strides and offset in elements. */
typedef struct tidei_layout {
    tide_dtype dtype;
    int32_t ndim;
    int64_t shape[TIDE_MAX_RANK];
    int64_t strides[TIDE_MAX_RANK];
    int64_t offset;
} tidei_layout;

typedef struct tidei_death_note { /* a callback of tide_array_on_death */
    struct tidei_death_note *next;
    void (*fn)(void *user);
    void *user;
} tidei_death_note;

/* A runtime's death queue. Outlives the runtime: reports may come later. */
typedef struct tidei_deaths {
    _Atomic(struct tidei_header *) head; /* push by CAS, taken whole by exchange */
    _Atomic(tidei_runtime *) rt;         /* NULL once closed */
    /* headers not yet recycled, or more: a drain subtracts those it recycled at its end */
    _Atomic uint64_t headers;
    /* in the process's list of queues, which only grows; reused when headers == 0 */
    struct tidei_deaths *next;
    /* a thread is emptying it, to use it again; under the process's lock of headers */
    bool claimed;
    atomic_bool timed; /* a recorder wants to know when deaths were reported */
} tidei_deaths;

typedef struct tidei_header {
    /* A death touches this one cache line, and `cell` where the owner has no heap of its own. */
    alignas(TIDEI_LINE) _Atomic uint64_t word;
    struct tidei_header *next; /* queue or free list */
    _Atomic(tidei_deaths *) deaths;
    tidei_storage *st; /* NULL once drained */
    tidei_death_note *notes;
    tide_array *home; /* where the cell is */
    uint32_t owner;   /* index of the collector, fixed at birth */
    /* count of tide_retain, which starts at 1 under reference-counted owners; | TIDEI_SCOPED */
    _Atomic uint32_t refs;
    /* The rest. */
    tide_array cell; /* the cell, for owners that have none in a heap of their own */
    void *root;      /* the owner's: what keeps the cell while refs > 0 (boehm) */
    /* the storage's device and size, for tidei_header_look, which must not follow st */
    tidei_dev *dev;
    size_t bytes;
    _Atomic(struct tidei_scope *)
        scope; /* refcount: the scope that holds the header, or NULL; written by its thread only */
    uint32_t scope_index;
    /* where the queue is timed: when its death was reported, on the system's clock; the lowest bit:
    ** the cell went with it. 0: it was not, and at birth */
    uint64_t died_ns;
    tidei_layout lay;
} tidei_header;

/* In refs: a scope holds the header, which is therefore not GONE even if the count is 0. It shares
** the word with the count, so that the last release and the scope's end agree on which of them
** reports what. */
#define TIDEI_SCOPED ((uint32_t)1 << 31)

/* A thread's own free headers, so that making and ending an array takes no lock of the process. */
#define TIDEI_FREE_LIST_MOST 32
/* gives all of them to the process, before the thread's record goes */
void tidei_header_free_list_give(tidei_header_free_list *free_list);

/* Makes a live header with a new generation; it has no cell yet. Takes over the storage reference.
** NULL: host memory exhausted. */
tidei_header *tidei_header_new(tidei_runtime *rt, tidei_header_free_list *free_list,
                               tidei_storage *st, const tidei_layout *lay);
static inline tidei_header *tidei_cell_header(const tide_array *cell) {
    return (tidei_header *)~cell->hidden;
}
static inline uint64_t tidei_header_generation(tidei_header *h) {
    return atomic_load_explicit(&h->word, memory_order_relaxed) & ~(uint64_t)TIDEI_WORD_FLAGS;
}

/* The report of a death. `generation` as read when the header was live. flags: TIDEI_DEAD, perhaps
** | TIDEI_GONE. Where a recorder runs it also looks at the system's clock. */
void tidei_report(tidei_header *h, uint64_t generation, unsigned flags);
typedef struct tidei_death {
    tidei_header *header;
    uint64_t generation;
} tidei_death;
void tidei_report_many(const tidei_death *at, size_t n, unsigned flags); /* in their order */

/* Empties the queue: storages back to their pools, callbacks run. Returns bytes whose storages were
** released. At safe points only; does nothing when called from inside itself. */
size_t tidei_drain(tidei_runtime *rt);
static inline bool tidei_deaths_pending(tidei_deaths *q) {
    return atomic_load_explicit(&q->head, memory_order_relaxed) != NULL;
}
/* Calls fn for every header of the queue whose storage is not yet returned. The process's lock of
** headers is held: fn may look at the header and report it, nothing else. Other threads go on
** meanwhile: the header may end, and then serve another array. */
void tidei_each_header(tidei_deaths *q, void (*fn)(tidei_header *h, void *user), void *user);
/* What a header holds that other threads use meanwhile; false: it ended while it was looked at. */
bool tidei_header_look(tidei_header *h, tidei_dev **dev, size_t *bytes, tidei_layout *lay);
/* The same, for a caller that keeps storages with an origin from ending meanwhile (tracker.h): the
** storage of a live array; NULL: the header is no live array's. Storages without an origin must not
** be followed. */
tidei_storage *tidei_header_holds(tidei_header *h, size_t *bytes, tidei_layout *lay);
/* Finds storages on device d that live arrays alone refer to: no operation under way, scope or view
** does just then. Looks at no more than `room` arrays. at[i].st is retained for the caller,
** at[i].arrays of the queue's arrays share it. Returns how many there are. */
typedef struct tidei_idle {
    tidei_storage *st;
    tidei_header *header; /* used within the search only */
    uint32_t arrays;
} tidei_idle;
bool tidei_header_spilled(
    /* within tidei_each_header: whether it is a live array whose storage is spilled */
    tidei_header *h);
size_t tidei_headers_idle(tidei_deaths *q, const tidei_dev *d, tidei_idle *at, size_t room);
tidei_deaths *tidei_deaths_open(tidei_runtime *rt);
/* Every header left loses its storage, and its callbacks run, as in any drain. Called while the
** runtime still has all its floors, so that a callback may call what it may call elsewhere. */
void tidei_deaths_end(tidei_deaths *q);
void tidei_deaths_close(tidei_deaths *q); /* the same; late reports only recycle from now on */

/* Waits until other threads have returned the storages of what they were draining: no drain of ours
** finds those. */
void tidei_threads_finish_deaths(tidei_runtime *rt);

#endif
