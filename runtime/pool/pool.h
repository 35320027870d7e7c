/* pool.h: the pool table: who hands out device blocks and keeps freed ones for reuse.
**
** A pool serves one device and one kind of memory. A freed block carries the stamps of every
** stream's last use. `alloc` hands a block to stream s only if each stamp is its own, or seen or
** done where these rules are on; with TIDEI_ALLOC_STEAL, and under the rule TIDEI_REUSE_WAIT where
** the pool sees fit, also one with foreign, pending stamps: they travel with the block, and its
** first use waits for them on the device.
** All slots are callable from any thread. A pool never climbs the ladder, never collects, never
** waits for a stream but where a slot says so. It takes memory from the device only through
** tidei_back and returns it through tidei_unback, which keep the limits.
** What must stay true: live + rounding + cached + pending == backed, at any moment outside the
** pool's lock. */
#ifndef TIDEI_POOL_H
#define TIDEI_POOL_H

#include "runtime/streams/stream.h"

typedef struct tidei_pool tidei_pool;

/* A block as its owner holds it. `priv` is the pool's own. */
typedef struct tidei_block {
    tidei_addr addr;
    size_t bytes; /* as requested, > 0 */
    void *priv;
    /* From alloc: history still pending, which the allocating stream need not wait for, unless that
    ** was acceptable (TIDEI_ALLOC_STEAL, the rule TIDEI_REUSE_WAIT). To free: the last uses. Moved
    ** both ways. */
    tidei_stamps stamps;
} tidei_block;

enum {
    TIDEI_ALLOC_STEAL = 1,   /* foreign pending stamps are acceptable */
    TIDEI_ALLOC_NO_GROW = 2, /* only from what the pool holds; with MOVE, once blocks were moved */
    /* all that was cached has been given back before: counted as a retry. With MOVE no way is left
    ** untried */
    TIDEI_ALLOC_FLUSHED = 4,
    /* Other blocks may be moved for it, whatever that costs, and the host may wait for streams so
    ** that memory can be mapped elsewhere. */
    TIDEI_ALLOC_MOVE = 8
};

typedef struct tidei_pool_stats {
    size_t live;     /* requested by blocks handed out */
    size_t rounding; /* lost to granules in those */
    size_t cached;   /* free and done */
    size_t pending;  /* free, with pending stamps as of the last settle */
    size_t backed;
    size_t largest; /* largest request that would be served without growing, stamps aside */
    uint64_t allocs, frees;
    uint64_t compactions;    /* times blocks were moved to make room */
    uint64_t bytes_moved;    /* in them */
    uint64_t bytes_remapped; /* in pages that got other addresses */
} tidei_pool_stats;

/* When a freed block may serve another stream than the one whose work is pending on it (a pool's
** own stream needs no rule). */
enum {
    TIDEI_REUSE_FOLLOW = 1, /* the stream is ordered after that work by a wait; chains count */
    /* the work is known to be done. Depends on timing: off in a deterministic pool */
    TIDEI_REUSE_DONE = 2,
    /* the stream waits for that work, on the device, where a pool sees fit: rather than grow */
    TIDEI_REUSE_WAIT = 4
};

/* What can be changed while a pool works, with a call of `changed` afterwards. */
typedef struct tidei_pool_attrs {
    _Atomic unsigned reuse; /* TIDEI_REUSE_* */
    /* bytes that sync points leave backed beyond the blocks handed out */
    _Atomic size_t threshold;
    /* pool split: pieces of this size and more stay whole; SIZE_MAX: all are split */
    _Atomic size_t max_split;
    /* addresses depend on the calls alone, never on how far the device is */
    _Atomic bool deterministic;
    _Atomic bool caches; /* pool tide: threads keep freed blocks at hand */
} tidei_pool_attrs;
#define TIDEI_THRESHOLD_NONE SIZE_MAX /* sync points give nothing back */

/* A block that goes elsewhere. */
typedef struct tidei_move {
    void *owner;
    void *priv; /* the block's afterwards */
} tidei_move;

/* What a pool asks of the owners of blocks when it wants to move them: a table that the floor above
** fills. */
typedef struct tidei_mover {
    /* Between them nobody reads or changes an address; without the pool's lock, by one thread at a
    ** time. */
    void (*begin)(tidei_dev *d);
    void (*end)(tidei_dev *d);
    /* Under the pool's lock, of a block that cannot be freed meanwhile. `hold`: the owner keeps the
    ** block until let_go; false: it may not move, or is about to be freed. */
    bool (*movable)(void *owner);
    bool (*hold)(void *owner);
    void (*let_go)(void *owner); /* without the pool's lock: it may free the block */
    /* Of a block that is held, between `begin` and `end`: its history, a reading and a writing
    ** stamp a stream at most. Returns how many. */
    unsigned (*uses)(void *owner, tidei_stamp uses[2 * TIDEI_STREAMS_MAX]);
    /* Of such a block of which no use is under way: what it holds is at this address now. */
    void (*readdress)(void *owner, tidei_addr addr);
    /* Queues the moves on s, as if one after the other, after `pending` and all uses, and tells the
    ** owners. places[i]: the old and the new one of moves[i], which may overlap where the new one
    ** is the lower; `apart`: no new place overlaps any old one. The first *moved of them have
    ** happened as far as later work is concerned; of the others some may have been written to their
    ** new places, and are at the old ones. All queued is before *tick of s; 0: nothing is. Without
    ** the pool's lock. */
    tide_status (*move)(tidei_stream *s, const tidei_stamp *pending, unsigned npending,
                        const tidei_move *moves, const tidei_piece *places, size_t n, bool apart,
                        size_t *moved, uint64_t *tick);
} tidei_mover;

struct tidei_pool_ops {
    const char *name;
    tide_status (*open)(tidei_dev *d, tidei_mem_kind kind, tidei_pool **out);
    /* All blocks are back, or the device is lost or closing: everything is returned whatever its
    ** state. Work is complete. */
    void (*close)(tidei_pool *p);
    /* bytes > 0. TIDE_E_NOMEM (without composing a report) when it does not fit; other errors are
    ** the device's. Only with TIDEI_ALLOC_MOVE may it wait for a stream, but for the pool `none`,
    ** which does where its frees would have to. */
    tide_status (*alloc)(tidei_pool *p, size_t bytes, tidei_stream *s, unsigned flags,
                         tidei_block *out);
    /* The block may be moved, by the pool's mover, and this is its owner. NULL: the pool moves
    ** nothing. */
    void (*own)(tidei_pool *p, tidei_block *b, void *owner);
    /* Takes block and stamps. Cannot fail, waits for nothing. */
    void (*free)(tidei_pool *p, tidei_block *b);
    /* Looks which pending blocks are done, and joins them with their neighbours. Returns bytes that
    ** became cached. */
    size_t (*settle)(tidei_pool *p);
    /* (may be NULL) The host has just waited for all streams: the same where the rules forbid
    ** `settle` to look. */
    size_t (*synced)(tidei_pool *p);
    /* Gives wholly free, done pages back to the device until at most `keep` bytes are backed beyond
    ** the blocks handed out. Returns bytes given back. */
    size_t (*trim)(tidei_pool *p, size_t keep);
    /* (may be NULL: the pool moves nothing) Others want so many bytes of the device. Moves blocks,
    ** as for a request with TIDEI_ALLOC_MOVE and FLUSHED, until pages of as much are wholly free,
    ** and gives them back; takes no new memory, and may wait for streams. Returns bytes given back,
    ** which are less where blocks may not move, or where no more is free. */
    size_t (*clear)(tidei_pool *p, size_t bytes);
    void (*stats)(tidei_pool *p, tidei_pool_stats *out);
    /* Walks everything: the balance, order, no overlap, bins. For tests and the stress build. */
    bool (*valid)(tidei_pool *p);
    void (*changed)(tidei_pool *p); /* attributes have; NULL: they are read where they matter */
};

struct tidei_pool {
    const struct tidei_pool_ops *ops;
    tidei_dev *dev;
    tidei_mem_kind kind;
    tidei_pool_attrs attrs;
    struct tidei_user_pool *users; /* as users know it: runtime/pool/pools.h */
    /* NULL: nothing moves; set before the first block is handed out */
    const tidei_mover *mover;
};
/* The part that all pools have, with its attributes' defaults. For `open`. */
void tidei_pool_init(tidei_pool *p, const struct tidei_pool_ops *ops, tidei_dev *d,
                     tidei_mem_kind kind);

/* Memory straight from the driver, counted against the limits: *bytes, or where that does not fit,
** `least`, which is then in *bytes. And back. Without any lock. */
tide_status tidei_pool_back(tidei_pool *p, size_t *bytes, size_t least, tidei_addr *out);
void tidei_pool_unback(tidei_pool *p, tidei_addr addr, size_t bytes);

extern const struct tidei_pool_ops tidei_pool_tide, tidei_pool_driver, tidei_pool_split,
    tidei_pool_binned, tidei_pool_simple, tidei_pool_none;
/* By name (TIDEI_POOL_NAMES in runtime/base/settings.h); NULL if there is none such. */
const struct tidei_pool_ops *tidei_pool_find(const char *name);
/* Where max_split may begin: segments that serve several blocks have this size. */
#define TIDEI_SPLIT_SEGMENT (20 * TIDEI_MIB)

#endif
