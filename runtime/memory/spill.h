/* spill.h: moves arrays that no operation uses just now from their device to pinned host memory,
** and back when they are used: the last rung of the reclaim ladder.
**
** Model. A spilled storage has no address; its `priv` is a storage of the device's pinned pool that
** has its bytes. So spilled bytes count against the host's budget, and where that has no room a
** storage stays. A copy brings the bytes out, in stream order behind all uses; the block goes back
** to its pool with that copy's stamp. Coming back is the same the other way round. Both are moves
** (move.h): no submission is open meanwhile. A submission that finds a spilled storage stops, and
** begins again once the storage is back. What is spilled: storages of device memory, in whatever
** pool, that are not pinned and that live arrays alone refer to. An operation retains the operands
** it has gathered, which the count of references shows; so no climb spills its own operands, nor
** those of an operation under way elsewhere. A storage that no work has touched yet is not spilled
** either: it is about to be used, and has no contents to keep. The coldest go first: those after
** whose last use the most work was submitted to its stream. The stamps tell that, and it depends on
** no clock. Of the same age the largest goes first. Small ones go last, since each costs a copy and
** a block. No more go than are needed.
** What must stay true: pinned storages, and others than device memory, never leave. A storage that
** cannot come back, for want of memory or because its device fails, stays spilled, with its bytes
** as they were. While nothing is spilled this costs little: the beginning of a submission reads one
** count. `spills.lock` is held over one round of spilling: under it the lock of headers, a pool's,
** and that of moves are taken, and no callback is called. */
#ifndef TIDEI_SPILL_H
#define TIDEI_SPILL_H

#include "runtime/memory/recovery.h"
#include "runtime/memory/storage.h"

/* In tidei_runtime. */
struct tidei_spills {
    pthread_mutex_t lock;       /* held by a thread that spills */
    _Atomic uint64_t out, back; /* numbers of storages spilled and brought back */
};

/* Spills until `wanted` bytes went, or there are no more. Returns the bytes that went back to the
** device's pools, where they may be pending. For the leader of a climb: asks no policy and calls no
** callback. What fails is logged. */
size_t tidei_spill(tidei_dev *d, size_t wanted);

/* A storage gets a block, and loses it (storage.c), counted as at its making and end. Taking one
** drains, asks the policy and climbs as making a storage does, around the caller's attempt. */
tide_status tidei_block_take(tidei_pool *pool, size_t bytes, tidei_attempt_fn attempt, void *arg,
                             const char *op);
void tidei_block_counted(tidei_pool *pool, size_t bytes);
void tidei_block_discounted(tidei_pool *pool, size_t bytes);

/* The last reference to a spilled storage is gone: gives back the pinned storage that has its
** bytes. */
void tidei_spilled_end(tidei_storage *st);

#endif
