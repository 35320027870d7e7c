/* pool.h: the pool table: what a pool must do. A pool hands out blocks of device memory and keeps
** freed ones for reuse.
**
** A pool serves one device and one kind of memory. A freed block carries the stamps of every
** stream's last use. `alloc` hands a block to stream s only if each stamp is of s itself; or s has
** seen it (rule TIDEI_REUSE_FOLLOW); or it is done (rule TIDEI_REUSE_DONE). With TIDEI_ALLOC_STEAL,
** and under the rule TIDEI_REUSE_WAIT where the pool sees fit, it also hands out a block with
** pending stamps of other streams: they travel with the block, and its first use waits for them on
** the device. All slots are callable from any thread. A pool never climbs the ladder, never
** collects, and waits for a stream only where a slot says so. It takes memory from the device only
** through tidei_back and returns it through tidei_unback, which keep the limits.
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
    /* From alloc: earlier uses that may still be pending. The allocating stream need not wait for
    ** them, unless the call or the rules allowed that (TIDEI_ALLOC_STEAL, TIDEI_REUSE_WAIT). To
    ** free: the last uses. Moved both ways. */
    tidei_stamps stamps;
} tidei_block;

enum {
    TIDEI_ALLOC_STEAL = 1,   /* the block may have pending stamps of other streams */
    TIDEI_ALLOC_NO_GROW = 2, /* only from what the pool holds; with MOVE, after blocks were moved */
    /* all that was cached has been given back before, so this attempt counts as a retry. With MOVE
    ** the pool tries every way it has */
    TIDEI_ALLOC_FLUSHED = 4,
    /* Other blocks may be moved for the request, whatever that costs, and the host may wait for
    ** streams so that memory can be mapped at other addresses. */
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
    /* rather than grow, the pool may make the stream wait for that work, on the device; and may
    ** wait on the host for the stream itself, to map its free pages elsewhere */
    TIDEI_REUSE_WAIT = 4
};

/* Attributes can be changed while a pool works; call `changed` afterwards. */
typedef struct tidei_pool_attrs {
    _Atomic unsigned reuse; /* TIDEI_REUSE_* */
    /* bytes that sync points leave backed beyond the blocks handed out */
    _Atomic size_t threshold;
    /* pool split: pieces of this size and more stay whole; SIZE_MAX: all are split */
    _Atomic size_t max_split;
    /* addresses depend on the calls alone, never on how far the device has got */
    _Atomic bool deterministic;
    _Atomic bool caches; /* pool tide: threads keep freed blocks in caches of their own */
} tidei_pool_attrs;
#define TIDEI_THRESHOLD_NONE SIZE_MAX /* sync points give nothing back */

/* A block that moves to another place. */
typedef struct tidei_move {
    void *owner;
    void *priv; /* the block's `priv` after the move */
} tidei_move;

/* What a pool asks of the blocks' owners when it wants to move blocks: a table that the floor above
** fills. */
typedef struct tidei_mover {
    /* Between begin and end only the caller reads or changes an address. Called without the pool's
    ** lock, by one thread at a time. */
    void (*begin)(tidei_dev *d);
    void (*end)(tidei_dev *d);
    /* Called under the pool's lock, for a block that cannot be freed meanwhile. movable: whether
    ** the block may move. hold: the owner keeps the block until let_go; false: it may not move, or
    ** is about to be freed. */
    bool (*movable)(void *owner);
    bool (*hold)(void *owner);
    /* Whether some of the pool's blocks may not move, beside those that are about to be freed and
    ** those that have no owner yet. Called under the pool's lock. The answer may be over at once: a
    ** block that stays all the same is found when it is to be held. */
    bool (*some_stay)(tidei_pool *p);
    void (*let_go)(void *owner); /* called without the pool's lock: it may free the block */
    /* Writes the stamps of a held block's uses, at most a reading and a writing stamp a stream, and
    ** returns how many. Called between begin and end. */
    unsigned (*uses)(void *owner, tidei_stamp uses[2 * TIDEI_STREAMS_MAX]);
    /* Tells the owner of a held block, of which no use is under way, that the block's contents are
    ** at this address now. */
    void (*readdress)(void *owner, tidei_addr addr);
    /* Queues the moves on s, as if one after the other, after `pending` and all uses, and tells the
    ** owners. places[i]: the old and the new place of moves[i], which may overlap where the new one
    ** is the lower; `apart`: no new place overlaps any old one. For later work the first *moved of
    ** them have happened; the others are still at their old places, though some may have been
    ** written to the new ones too. *tick of s comes after all that was queued; 0: nothing was.
    ** Called without the pool's lock. */
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
    ** the device's. It may wait for a stream only with TIDEI_ALLOC_MOVE, and for s itself under the
    ** rule TIDEI_REUSE_WAIT; but the pool `none` waits where its frees would have to. */
    tide_status (*alloc)(tidei_pool *p, size_t bytes, tidei_stream *s, unsigned flags,
                         tidei_block *out);
    /* Says that the block may be moved, by the pool's mover, and names its owner. NULL: the pool
    ** moves nothing. */
    void (*own)(tidei_pool *p, tidei_block *b, void *owner);
    /* Takes block and stamps. Cannot fail, waits for nothing. */
    void (*free)(tidei_pool *p, tidei_block *b);
    /* Asks which pending blocks are done, and joins those with their neighbours. Returns the bytes
    ** that became cached. */
    size_t (*settle)(tidei_pool *p);
    /* (may be NULL) Like settle, when the host has just waited for all streams: does it even where
    ** the rules forbid settle to ask. */
    size_t (*synced)(tidei_pool *p);
    /* Gives wholly free, done pages back to the device until at most `keep` bytes are backed beyond
    ** the blocks handed out. Returns bytes given back. */
    size_t (*trim)(tidei_pool *p, size_t keep);
    /* (may be NULL: the pool moves nothing) Somebody outside the pool needs so many bytes of the
    ** device. Moves blocks, as for a request with TIDEI_ALLOC_MOVE and FLUSHED, until pages of as
    ** many bytes are wholly free, and gives them back; takes no new memory, and may wait for
    ** streams. Returns bytes given back, which are less where blocks may not move, or where no more
    ** is free. */
    size_t (*clear)(tidei_pool *p, size_t bytes);
    void (*stats)(tidei_pool *p, tidei_pool_stats *out);
    /* (may be NULL: it is as cheap as the rest) Of stats the rounding alone, which policies ask for
    ** at allocations: looks at no index, and leaves threads the blocks that they keep at hand. */
    size_t (*rounding)(tidei_pool *p);
    /* (may be NULL: nobody knows) Of stats the largest alone, which policies ask for at
    ** allocations. Looks among the blocks that threads keep at hand only where no other piece has
    ** the bytes wanted. */
    size_t (*largest)(tidei_pool *p, size_t wanted);
    /* Walks everything: the balance, order, no overlap, bins. For tests and the stress build. */
    bool (*valid)(tidei_pool *p);
    void (*changed)(tidei_pool *p); /* attributes have; NULL: they are read where they matter */
};

struct tidei_pool {
    const struct tidei_pool_ops *ops;
    tidei_dev *dev;
    tidei_mem_kind kind;
    tidei_pool_attrs attrs;
    struct tidei_user_pool *users; /* the record that users' calls refer to: runtime/pool/pools.h */
    /* NULL: nothing moves; set before the first block is handed out */
    const tidei_mover *mover;
};
/* The part that all pools have, with its attributes' defaults. For `open`. */
void tidei_pool_init(tidei_pool *p, const struct tidei_pool_ops *ops, tidei_dev *d,
                     tidei_mem_kind kind);

/* Takes memory straight from the driver, counted against the limits: *bytes, or where that does not
** fit, `least`, which is then in *bytes. The second gives it back. Called without any lock. */
tide_status tidei_pool_back(tidei_pool *p, size_t *bytes, size_t least, tidei_addr *out);
void tidei_pool_unback(tidei_pool *p, tidei_addr addr, size_t bytes);

extern const struct tidei_pool_ops tidei_pool_tide, tidei_pool_driver, tidei_pool_split,
    tidei_pool_binned, tidei_pool_simple, tidei_pool_none;
/* By name (TIDEI_POOL_NAMES in runtime/base/settings.h); NULL if there is none such. */
const struct tidei_pool_ops *tidei_pool_find(const char *name);
/* The least value of max_split: segments that serve several blocks have this size. */
#define TIDEI_SPLIT_SEGMENT (20 * TIDEI_MIB)

#endif
