/* relocate.h: pages of the pool `tide` change their addresses, with all that lies on them: nothing
** is copied. choose_pages.c and choose_runs.c say which pages, and where to.
**
** Model. A run is a stretch of neighbouring chosen pages, which go together. Its free parts are
** CLAIMED, its blocks are held by the caller, and nothing is pending on either. Runs go to the
** target, a part of a hole that is reserved for them; each leaves a hole:
**
**     before   | run a  | block that stays | run b  | target          | hole   |
**     after    | hole   | block that stays | hole   | run a  | run b  | hole   |
**
** All runs of one call are unmapped; then all of them are mapped, as many whole runs in one call
** of the device as it takes.
** What a refused call leaves. A page belongs at `off` and is mapped at `at`; where these differ it
** is displaced, and only this file displaces pages. After a refusal each run that is not yet whole
** at its new place goes back: what is mapped at the target is unmapped, what is mapped nowhere is
** mapped at `off`. So a run lies whole at its new place or where it was, and the runs behind one
** that was refused stay. Where the way back is refused too:
**   - a run without blocks that is mapped nowhere leaves the pool: its pages go back to the device,
**     and a hole stays behind;
**   - else the device is lost, for nobody can reach what the run's blocks hold. Its pages stay
**     displaced until the pool closes, which unmaps them where they are. (So it is as well with a
**     run without blocks that is longer than a call of the device, and is mapped in part.)
** What must stay true: nothing queued uses the pages; one thread at a time relocates (`remapping`),
** and the fields of pages below `chosen` are its own. */
#ifndef TIDEI_TIDE_RELOCATE_H
#define TIDEI_TIDE_RELOCATE_H

#include "runtime/pool/tide/tide.h"

typedef struct tidei_relocation {
    tidei_extent *target; /* what is left of it: MAPPING; NULL: nothing */
    bool high;            /* runs go to its high end, one a call; else to its low end */
    tidei_extent *holes;  /* descriptors of the holes that runs will leave, chained by `left` */
} tidei_relocation;

/* ---- chosen pages; under the lock ---- */
void tidei_pages_choose_none(tidei_heap *p);
/* The first page of the next run, at pg or behind; of neighbouring chosen pages `most` at most are
** one. Its `last` is set. NULL: there is none. */
tidei_page *tidei_run_next(tidei_page *pg, size_t most);
static inline size_t tidei_run_end(const tidei_page *run) { return tidei_page_end(run->last); }
/* What is CLAIMED on chosen pages is free again, and no page is chosen. */
void tidei_pages_unclaim(tidei_heap *p);

/* ---- a relocation; under the lock ---- */
/* Reserves the low (or `high`) bytes of a hole, whole pages. There is a free descriptor. */
void tidei_relocation_reserve(tidei_heap *p, tidei_relocation *r, tidei_extent *hole, size_t bytes,
                              bool high);
/* Takes the descriptors of the holes: there is a free one for each run of the chain (`then`). */
void tidei_relocation_stock(tidei_heap *p, tidei_relocation *r, tidei_page *runs);
/* The runs, chained by `then`, go to the target; each knows `last`, `first` and `loaded`. TIDE_OK:
** they lie there one behind the other, their free parts are CLAIMED with nothing pending, and the
** owners of their blocks know the new addresses. Else the device's error: runs that have arrived
** all the same are free, those that stay are CLAIMED still. Lets go of the lock meanwhile. */
tide_status tidei_relocate(tidei_heap *p, tidei_relocation *r, tidei_page *runs);
/* What is CLAIMED on a run that has arrived is free. */
void tidei_run_release(tidei_heap *p, const tidei_page *run);
/* What is left of the target becomes a hole, and what is still chosen is unclaimed. */
void tidei_relocation_close(tidei_heap *p, tidei_relocation *r);

#endif
