/* move.h: storages change their place in device memory, so that a pool can make one large stretch
** of many small ones.
**
** Model. Who moves closes all windows first: it sets `moving`, and waits for the window that is
** open on each stream, of all devices: any may use what is moved. Windows that want to open, and
** scopes that lend addresses, wait until it is done. Until then a storage's address is the mover's
** to change. Nobody pays while nobody moves: a window's opening reads one flag. A pool may also map
** a storage's memory at other addresses, once no use is under way: then only the address changes.
** Moves whose places are apart from each other are queued by one call of the device (`copy_many`),
** which is for it to make fast. Who spills a storage, or brings it back, is a mover too (spill.h).
** What must stay true: a pinned storage stays. A move is work on a stream like any other: it comes
** after the uses of what it reads and of what it overwrites, on the device, and later uses come
** after it. The host never waits for the device here. */
#ifndef TIDEI_MOVE_H
#define TIDEI_MOVE_H

#include "runtime/pool/pool.h"

/* The movers of a runtime, one at a time. In tidei_runtime. */
struct tidei_moves {
    pthread_mutex_t lock; /* held by who moves; streams' locks are taken under it */
    atomic_bool moving;
    _Atomic uint64_t done; /* moves so far: what was learnt of a storage before may be over */
    /* storages that are spilled; changes while somebody moves, and where one ends */
    _Atomic size_t spilled;
};

/* Waits until nobody moves: for who has pinned a storage and is about to read its address. No lock
** held. */
void tidei_moves_wait(tidei_moves *m);

/* Between them no window is open, and nobody but the caller changes an address. No lock held. */
void tidei_moves_begin(tidei_runtime *rt);
void tidei_moves_end(tidei_runtime *rt);
/* For who moves: s comes after all of them, or after all uses of the storage, on the device. The
** caller holds s. */
tide_status tidei_moves_follow(tidei_stream *s, const tidei_stamp *x, unsigned n);
tide_status tidei_moves_follow_uses(tidei_stream *s, tidei_storage *st);
/* The storage's history is x alone, which came after the rest of it: a move, or a try that failed
** and may still read it. Under the storage's flag. */
void tidei_moves_be_after(tidei_storage *st, tidei_stamp x);

extern const tidei_mover tidei_storage_mover;

#endif
