/* spill.h: arrays that nobody uses just now leave their device for pinned host memory, and come
** back when they are used: the last thing that the reclaim ladder does.
**
** Model. A spilled storage has no address; in its `priv` it has a storage of the device's pinned
** pool, with its bytes. So what is spilled counts against the host's budget, and where that has no
** room it stays. A copy brings the bytes out, in stream order behind all uses; the block goes back
** to its pool with that copy's stamp. Coming back is the same the other way round. Both are moves
** (move.h): no window is open meanwhile. A window that meets a spilled storage is left, and opened
** again once it is back. What is spilled: storages of device memory, in whatever pool, that are not
** pinned and that live arrays alone refer to. What an operation has gathered it retains, which the
** count of references shows; so no climb takes away its own operands, nor those of an operation
** under way elsewhere. Not what no work has touched yet, which is about to be used, and has nothing
** to keep. The coldest go first: those whose last use lies back longest, in submissions of its
** stream, which the stamps say, and which depends on no clock; of the same age the largest. Little
** ones go last, since each costs a copy and a block. No more go than are wanted.
** What must stay true: pinned storages, and others than device memory, never leave. A storage that
** cannot come back, for want of memory or because its device fails, stays spilled, with its bytes
** as they were. Nobody pays while nothing is spilled: a window's opening reads one count.
** `spills.lock` is held over one round of spilling: under it the handles' lock, a pool's, and that
** of moves are taken, and nobody is called back. */
#ifndef TIDEI_SPILL_H
#define TIDEI_SPILL_H

#include "runtime/memory/recovery.h"
#include "runtime/memory/storage.h"

/* In tidei_runtime. */
struct tidei_spills {
    pthread_mutex_t lock;       /* held by who spills */
    _Atomic uint64_t out, back; /* storages, so far */
};

/* Spills until `wanted` bytes went, or there are no more. Returns the bytes that went back to the
** device's pools, where they may be parked. For who climbs: asks and calls nobody. What fails is
** logged. */
size_t tidei_spill(tidei_dev *d, size_t wanted);

/* A storage's block comes and goes (storage.c), counted as at its birth and end. Taking one drains,
** asks the policy and climbs as a new storage does, around the caller's attempt. */
tide_status tidei_block_take(tidei_pool *pool, size_t bytes, tidei_attempt_fn attempt, void *arg,
                             const char *op);
void tidei_block_counted(tidei_pool *pool, size_t bytes);
void tidei_block_discounted(tidei_pool *pool, size_t bytes);

/* The last reference to a spilled storage is gone: gives back what it has. */
void tidei_spilled_end(tidei_storage *st);

#endif
