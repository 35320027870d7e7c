/* size_index.h: finds free stretches of a pool's address range by size; used by the pools `tide`
** and `split`.
**
** Model. An extent is a stretch of the range; all extents together tile it, linked by address:
**   range   | LIVE 3 | FREE 2 | LIVE 1 | FREE 5      | HOLE        ...   (sizes in granules)
**   index            bin 2: {2}          bin 5: {5}
** A size index holds FREE extents in bins, 64 to a doubling of size (sizes below 128 granules have
** a bin each), with a bitmap over the bins; a bin is a treap ordered by (size, address). So the
** best fit, lowest address first, is exact and does not depend on the order in which extents came.
** Each step down a treap costs a cache miss and a branch that the processor cannot predict. So
** there are so many bins that most hold one or two extents, and an extent that comes to a bin with
** a treap lies *loose*, in a list, until a search comes to this bin. Many leave before that,
** because they are joined into larger ones.
** What must stay true: an extent is in one size index at most; its place there depends on its size
** and offset, so these change only while it is out of the index, or through
** tidei_size_index_reshape; a bit is set exactly where a bin is not empty, even if it has loose
** extents only. */
#ifndef TIDEI_SIZE_INDEX_H
#define TIDEI_SIZE_INDEX_H

#include "runtime/streams/stream.h"

typedef struct tidei_extent tidei_extent;
struct tidei_page;

typedef enum {
    TIDEI_EXTENT_UNUSED,  /* describes nothing: on the free list of descriptors */
    TIDEI_EXTENT_LIVE,    /* handed out */
    TIDEI_EXTENT_FREE,    /* in a size index */
    TIDEI_EXTENT_HOLE,    /* addresses without memory */
    TIDEI_EXTENT_MAPPING, /* addresses that a thread is getting memory for */
    /* backed, free, and out of the size indexes while a thread works on it without the lock */
    TIDEI_EXTENT_CLAIMED,
    /* freed, in a thread's cache; LIVE and CACHED alternate without the lock */
    TIDEI_EXTENT_CACHED,
    /* LIVE, while a thread that holds the lock asks its owner, so that it is not freed meanwhile */
    TIDEI_EXTENT_LOOKED_AT,
    TIDEI_EXTENT_BORDER /* no bytes: two zones meet here */
} tidei_extent_state;

/* An extent's `slot`: that of the stream whose work is pending on it, or one of these. */
enum {
    TIDEI_SLOT_READY = 0xffff,
    /* nothing is pending */ TIDEI_SLOT_MANY = 0xfffe /* a pool knows which */
};

/* One cache line each: a walk or search costs little more than fetching the extents. */
struct tidei_extent {
    size_t off, size;          /* within the range; multiples of the granule */
    tidei_extent *prev, *next; /* by address */
    union {
        /* FREE: in its bin; HOLE, BORDER: the one before; CLAIMED, CACHED and UNUSED: a chain */
        tidei_extent *left;
        _Atomic(void *) owner; /* LIVE: who may be asked whether it may move; NULL: it may not */
    };
    union {
        tidei_extent *right;      /* FREE: in its bin; HOLE, BORDER: the one behind */
        struct tidei_page *pages; /* CLAIMED by a trim: the first of its pages */
        struct {                  /* LIVE, while moves are planned: */
            bool fixed;           /* it may not move */
            bool leaves;          /* it lies on a page that is to be cleared */
        };
    };
    union {
        uint64_t tick; /* pending on `slot` up to here */
        size_t bytes;  /* LIVE: as requested */
    };
    uint16_t rank; /* in the treap; fixed with the descriptor */
    bool loose;    /* FREE: in its bin's list */
    /* the pool tide's zone that it belongs to, if it has memory; BORDER: that of what lies behind
    ** it (zones.h) */
    _Atomic uint8_t zone;
    uint16_t slot;
    _Atomic uint8_t state;
    union {
        uint8_t home; /* LIVE, CACHED: the number of the thread that took it (tidei_thread_index) */
        bool far;     /* FREE, while a compaction is planned for which some are: out of its reach */
    };
};

static inline tidei_extent_state tidei_extent_is(const tidei_extent *x) {
    return (tidei_extent_state)atomic_load_explicit(&x->state, memory_order_relaxed);
}
static inline void tidei_extent_be(tidei_extent *x, tidei_extent_state state) {
    atomic_store_explicit(&x->state, (uint8_t)state, memory_order_release);
}

enum {
    TIDEI_INDEX_STEPS_LOG2 = 6, /* bins a doubling, in bits */
    TIDEI_INDEX_WORDS = 40,     /* of 64 bins each: sizes of up to 2^45 granules */
    TIDEI_INDEX_BINS = TIDEI_INDEX_WORDS * 64
};

typedef struct tidei_size_index {
    size_t bytes;   /* in all its extents */
    uint64_t tick;  /* the latest tick of any extent when it was put here or reshaped */
    unsigned shift; /* the granule's, in bits */
    /* words: which of `bins` are not zero. Only who may use the index writes them, but all threads
    ** may look (tidei_size_index_look) */
    _Atomic uint64_t words, bins[TIDEI_INDEX_WORDS];
    struct {
        tidei_extent *root, *loose; /* loose: linked by `right` and, back, by `left` */
    } in[TIDEI_INDEX_BINS];
} tidei_size_index;

/* Sizes below 128 granules have bins of their own; above, a doubling has 64. */
static inline unsigned tidei_size_index_bin(const tidei_size_index *sh, size_t size) {
    uint64_t g = (uint64_t)size >> sh->shift;
    unsigned e =
        63 - (unsigned)__builtin_clzll(g | 1u << TIDEI_INDEX_STEPS_LOG2) - TIDEI_INDEX_STEPS_LOG2;
    return (e << TIDEI_INDEX_STEPS_LOG2) + (unsigned)(g >> e);
}

static inline bool tidei_extent_before(const tidei_extent *a, size_t size, size_t off) {
    return a->size != size ? a->size < size : a->off < off;
}

static inline void tidei_size_index_mark(tidei_size_index *sh, unsigned bin) {
    _Atomic uint64_t *bits = &sh->bins[bin / 64];
    uint64_t set = atomic_load_explicit(bits, memory_order_relaxed) | (uint64_t)1 << bin % 64,
             words = atomic_load_explicit(&sh->words, memory_order_relaxed);
    atomic_store_explicit(bits, set, memory_order_relaxed);
    atomic_store_explicit(&sh->words, words | (uint64_t)1 << bin / 64, memory_order_relaxed);
}
static inline void tidei_size_index_unmark(tidei_size_index *sh, unsigned bin) {
    _Atomic uint64_t *bits = &sh->bins[bin / 64];
    uint64_t left = atomic_load_explicit(bits, memory_order_relaxed) & ~((uint64_t)1 << bin % 64),
             words = atomic_load_explicit(&sh->words, memory_order_relaxed);
    atomic_store_explicit(bits, left, memory_order_relaxed);
    if (!left)
        atomic_store_explicit(&sh->words, words & ~((uint64_t)1 << bin / 64), memory_order_relaxed);
}

/* Takes x out of a treap that holds others too. */
void tidei_size_index_take_among(tidei_extent **root, tidei_extent *x);

static inline void tidei_size_index_loosen(tidei_size_index *sh, unsigned bin, tidei_extent *x) {
    x->loose = true;
    x->left = NULL;
    x->right = sh->in[bin].loose;
    if (x->right) x->right->left = x;
    sh->in[bin].loose = x;
}
static inline void tidei_size_index_take_loose(tidei_size_index *sh, unsigned bin,
                                               tidei_extent *x) {
    x->loose = false;
    if (x->right) x->right->left = x->left;
    if (x->left)
        x->left->right = x->right;
    else
        sh->in[bin].loose = x->right;
}

static inline void tidei_size_index_put(tidei_size_index *sh, tidei_extent *x) {
    unsigned bin = tidei_size_index_bin(sh, x->size);
    sh->bytes += x->size;
    if (x->tick > sh->tick) sh->tick = x->tick;
    if (sh->in[bin].root) {
        tidei_size_index_loosen(sh, bin, x);
    } else {
        x->left = x->right = NULL;
        sh->in[bin].root = x;
        tidei_size_index_mark(sh, bin);
    }
}

static inline bool tidei_size_index_alone(const tidei_size_index *sh, unsigned bin,
                                          const tidei_extent *x) {
    return sh->in[bin].root == x && !x->left && !x->right;
}

static inline void tidei_size_index_take(tidei_size_index *sh, tidei_extent *x) {
    unsigned bin = tidei_size_index_bin(sh, x->size);
    sh->bytes -= x->size;
    if (x->loose)
        tidei_size_index_take_loose(sh, bin, x);
    else if (tidei_size_index_alone(sh, bin, x))
        sh->in[bin].root = NULL;
    else
        tidei_size_index_take_among(&sh->in[bin].root, x);
    if (!sh->in[bin].root && !sh->in[bin].loose) tidei_size_index_unmark(sh, bin);
}

/* Gives an extent in the size index another offset and size. If it is loose, or alone in its bin,
** and stays in that bin, nothing else is touched. */
static inline void tidei_size_index_reshape(tidei_size_index *sh, tidei_extent *x, size_t off,
                                            size_t size) {
    unsigned bin = tidei_size_index_bin(sh, size);
    if (x->loose ? tidei_size_index_bin(sh, x->size) == bin : tidei_size_index_alone(sh, bin, x)) {
        sh->bytes += size - x->size;
        if (x->tick > sh->tick) sh->tick = x->tick;
        x->off = off, x->size = size;
        return;
    }
    tidei_size_index_take(sh, x);
    x->off = off, x->size = size;
    tidei_size_index_put(sh, x);
}

/* The lowest bin from `bin` on that is not empty; TIDEI_INDEX_BINS: there is none. Any thread may
** look, at any moment. */
unsigned tidei_size_index_look(const tidei_size_index *sh, unsigned bin);
unsigned tidei_size_index_look_last(const tidei_size_index *sh); /* the highest one; likewise */
/* The next three put loose extents of the bins they search into the treaps. Returns the smallest
** extent of at least `size`, of equal ones the lowest; NULL if there is none. */
tidei_extent *tidei_size_index_fit(tidei_size_index *sh, size_t size);
/* The next one in the order (size, address); x is in the size index. */
tidei_extent *tidei_size_index_next(tidei_size_index *sh, const tidei_extent *x);
tidei_extent *tidei_size_index_largest(tidei_size_index *sh);
/* Takes all extents out; they are linked by `right`, in no order. */
tidei_extent *tidei_size_index_take_all(tidei_size_index *sh);
/* Checks order, ranks, lists, bitmaps and sums. Adds the number of extents to *count. */
bool tidei_size_index_valid(const tidei_size_index *sh, size_t *count);

#endif
