/* move.h: moves storages to other places in device memory, so that a pool can make one large free
** stretch of many small ones.
**
** Model. A submission (tidei_submit_begin .. tidei_submit_end, storage.h) uses storages' addresses.
** So a thread that moves storages, the mover, stops all submissions first: it sets `moving`, and
** waits for the submission that is open on each stream, of all devices, as any may use what is
** moved. Submissions that want to begin, and scopes that hand out addresses, wait until it is done.
** Until then only the mover changes storages' addresses. While nothing moves this costs little: the
** beginning of a submission reads one flag. A pool may also map a storage's memory at other
** addresses, once no use is under way: then only the address changes. Moves whose places do not
** overlap are queued by one call of the device (`copy_many`), which is fast. A thread that spills a
** storage, or brings it back, is a mover too (spill.h).
** What must stay true: a pinned storage stays. A move is work on a stream like any other: it comes
** after the uses of what it reads and of what it overwrites, on the device, and later uses come
** after it. The host never waits for the device here. */
#ifndef TIDEI_MOVE_H
#define TIDEI_MOVE_H

#include "runtime/pool/pool.h"

/* The movers of a runtime, one at a time. In tidei_runtime. */
struct tidei_moves {
    pthread_mutex_t lock; /* held by the mover; streams' locks are taken under it */
    atomic_bool moving;
    _Atomic uint64_t done; /* moves so far: what was learnt of a storage before may be over */
    /* storages that are spilled; changes while somebody moves, and where one ends */
    _Atomic size_t spilled;
};

/* Waits until no thread moves: for a caller that has pinned a storage and is about to read its
** address. No lock held. */
void tidei_moves_wait(tidei_moves *m);

/* Between begin and end no submission is open, and only the caller changes addresses. No lock
** held. */
void tidei_moves_begin(tidei_runtime *rt);
void tidei_moves_end(tidei_runtime *rt);
/* For the mover: orders s after all of the stamps, or after all uses of the storage, on the device.
** The caller holds s. */
tide_status tidei_moves_follow(tidei_stream *s, const tidei_stamp *x, unsigned n);
tide_status tidei_moves_follow_uses(tidei_stream *s, tidei_storage *st);
/* Makes x the storage's only stamp. x came after all the others: it is a move, or an attempt that
** failed and may still read the storage. Under the storage's flag. */
void tidei_moves_be_after(tidei_storage *st, tidei_stamp x);

extern const tidei_mover tidei_storage_mover;

#endif
