/* whole.h: pools of whole blocks: a block is what the driver gave in one piece, and stays that: it
** is never split, never joined with another. Shared by the pools `simple` and `binned`, which
** differ in sizes (tidei_whole_rules).
**
** Model. A block is handed out, free in one of the bins, or leaving: freed, too large to be kept,
** and not done yet. A free block carries the stamps of its last uses until it is handed out again.
** `done`: nothing was pending on it when that was last asked. Blocks that are done are cached and
** may go back to the driver; the others are pending.
** What must stay true: with the lock held only the rules are called, neither the device nor the
** limits, which may come back here to trim. free takes no memory. */
#ifndef TIDEI_WHOLE_H
#define TIDEI_WHOLE_H

#include "runtime/pool/reuse.h"

typedef struct tidei_whole tidei_whole;
typedef struct tidei_whole_block tidei_whole_block;

#define TIDEI_WHOLE_BINS    32
#define TIDEI_WHOLE_LEAVING TIDEI_WHOLE_BINS /* the bin of blocks that are not kept */

/* Pure functions. */
typedef struct tidei_whole_rules {
    /* What to ask of the driver for a request, a multiple of the granule; bytes is so small that
    ** one granule more does not wrap. Where that does not fit, the pool asks for the request
    ** rounded up to granules. */
    size_t (*size)(size_t bytes, size_t granule);
    /* The bin of a free block of this size: below TIDEI_WHOLE_BINS, or TIDEI_WHOLE_LEAVING. */
    unsigned (*bin)(size_t size);
    /* May a block of the size `held` serve a request of so many bytes? Only asked of blocks in the
    ** bin of the request's size. */
    bool (*serves)(size_t held, size_t bytes);
} tidei_whole_rules;

struct tidei_whole {
    tidei_pool base;
    /* fixed once open */
    const tidei_whole_rules *rules;
    size_t granule;
    pthread_mutex_t lock;
    /* under lock */
    tidei_whole_block *live;
    tidei_whole_block *bins[TIDEI_WHOLE_BINS + 1]; /* the latest freed first */
    size_t live_bytes, used, held,
        pending; /* requested; of the blocks handed out, of the others, of those not done */
    uint64_t allocs, frees;
};

/* The slots of the table. `open` is each pool's own and calls this: */
tide_status tidei_whole_open(const struct tidei_pool_ops *ops, const tidei_whole_rules *rules,
                             tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out);
void tidei_whole_close(tidei_pool *pool);
tide_status tidei_whole_alloc(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                              tidei_block *out);
void tidei_whole_free(tidei_pool *pool, tidei_block *b);
size_t tidei_whole_settle(tidei_pool *pool);
size_t tidei_whole_trim(tidei_pool *pool, size_t keep);
void tidei_whole_stats(tidei_pool *pool, tidei_pool_stats *out);
bool tidei_whole_valid(tidei_pool *pool);

#endif
