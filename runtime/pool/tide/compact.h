/* compact.h: what moving blocks needs, shared by the ways to a large piece: compact.c (a stretch is
** cleared), choose_pages.c (pages are cleared, and mapped elsewhere) and choose_runs.c (pages are
** mapped elsewhere with their blocks).
**
** Model. Who moves opens a compaction, asks what may move, unless nothing has a reason to stay, and
** chooses. Then windows are closed, the choice is made again where it is over by then, blocks are
** held and free pieces claimed, the moves are queued, windows open, and the blocks are let go.
** What must stay true: while windows are closed the runtime's host memory is not asked for and no
** block let go of: both may be the embedder's code. (What sorts and what keeps histories takes the
** C library's.) */
#ifndef TIDEI_TIDE_COMPACT_H
#define TIDEI_TIDE_COMPACT_H

#include "runtime/pool/tide/tide.h"

/* A move costs as much as copying this many bytes: a launch, and what the host does for it. */
#define TIDEI_MOVE_COST (16 * TIDEI_KIB)

/* Kept for the next compaction unless it is larger than usual. */
struct tidei_compaction {
    size_t size; /* size of the piece that is wanted */
    tidei_stream *s;
    tidei_reach reach;
    bool waits;    /* some free pieces may be beyond its reach: each one's `far` says so */
    bool some_far; /* free pieces may be beyond it: each was told */
    bool asks;     /* what stays has to be known before a stretch is chosen, not only once it is */
    bool last;     /* there is nothing else to try: blocks slide in as many pieces as they need */
    size_t most;   /* cost of what is moved at most, in bytes; SIZE_MAX: whatever it costs */
    size_t lost;   /* free bytes between blocks that cannot slide */
    tidei_stamp pending[TIDEI_STREAMS_MAX]; /* on the free pieces, one a stream */
    unsigned npending;
    size_t cap, n, nheld;      /* n: blocks to move */
    tidei_move *moves;         /* moves and places: room for `cap` each */
    tidei_piece *places;       /* of the moves */
    tidei_extent **from, **to; /* to: emptying */
    void **held;               /* owners to let go of */
};
typedef struct tidei_compaction tidei_compaction;

static inline bool tidei_extent_is_free(const tidei_extent *x) {
    return tidei_extent_is(x) == TIDEI_EXTENT_FREE;
}

/* Room for so many moves; NULL: host memory is exhausted. Both let go of the lock meanwhile where
** they need host memory. */
tidei_compaction *tidei_compaction_open(tidei_heap *p, size_t moves, size_t size, tidei_stream *s,
                                        tidei_reach reach);
void tidei_compaction_close(tidei_heap *p, tidei_compaction *c);
/* begin stops submissions; end lets them go on, and lets go of what was held. Both let go of the
** lock meanwhile. */
void tidei_compaction_begin(tidei_heap *p);
void tidei_compaction_end(tidei_heap *p, tidei_compaction *c);

/* Asks each block's owner whether it may move, and marks the block (`fixed`). */
void tidei_compaction_ask(tidei_heap *p);
/* Holds the block of x until the end; false: it may not move after all, and is marked so. */
bool tidei_compaction_hold(tidei_heap *p, tidei_compaction *c, tidei_extent *x);
/* Notes that the moves have to wait for what is pending on the free piece x. */
void tidei_compaction_note_pending(tidei_compaction *c, tidei_extent *x);
static inline void tidei_compaction_note(tidei_compaction *c, tidei_extent *x) {
    if (x->slot != TIDEI_SLOT_READY) tidei_compaction_note_pending(c, x);
}

/* Finds a place for each block of `from`, the largest first. Blocks without a place are marked as
** fixed; false: there are some, and no place is taken. */
bool tidei_compaction_find_places(tidei_heap *p, tidei_compaction *c);
/* Gives places back, from the i-th on. */
void tidei_compaction_vacate(tidei_heap *p, tidei_compaction *c, size_t i);
/* Moves the blocks, which are held, to their places; claimed free pieces are left where they were,
** with the moves on s pending. A block whose move fails stays. *tick is 0 where nothing was queued.
** Lets go of the lock meanwhile. */
tide_status tidei_compaction_move_out(tidei_heap *p, tidei_compaction *c, uint64_t *tick);

#endif
