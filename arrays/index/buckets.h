/* buckets.h: floats of few columns added to many places, on a device whose kernels are text: what
** its kernels get (buckets.cu), and how they are run (buckets.c). Behind indices.h.
**
** A bucket is 2^low places that lie together. Entries (rows of components, one for each index)
** are parted by buckets first, stably: each block counts, for a stretch of the entries, how many
** each bucket has of them, and then writes them one behind the other where its share of the bucket
** begins. A piece is BU_PIECE entries of a bucket, and one block's: it goes over them tile by tile,
** gives those of a tile their order by places, adds up those of each place, and adds that to the
** piece's sums. At last the sums of a bucket's pieces are added up, and combined with what is at
** the places. One bucket alone need not be parted.
**
** What must stay true: the order of all additions hangs on the indices alone, not on how many
** blocks there are. */
#ifndef TIDEI_BUCKETS_H
#define TIDEI_BUCKETS_H

#ifndef __CUDACC_RTC__
#include "arrays/index/plan.h"
#include "arrays/make/indices.h"
#endif

enum {
    BU_THREADS = 256,
    BU_WARPS = BU_THREADS / 32,
    BU_ITEMS = 8, /* entries of a thread */
    BU_TILE = BU_THREADS * BU_ITEMS,
    BU_PIECE = 4 * BU_TILE, /* entries of a bucket that a block adds up */
    BU_DIGITS = 1024,       /* buckets, at most */
    BU_PARTS = 4,           /* components of an entry, at most */
    BU_ENTRY = 16           /* bytes of them, at most */
};
/* Places of a bucket of such entries, at most: their sums lie in shared memory, beside a tile. */
#define BU_PLACES(entry_bytes) ((entry_bytes) > 8 ? 512 : 1024)

typedef struct bu_call {
    ga_u64 indices, near, far; /* addresses of the first ones */
    ga_u64 counts;             /* u32, for each bucket and stretch: entries, then those before it */
    ga_u64 bounds;             /* u32: see bu_totals, bu_firsts and bu_pieces */
    ga_u64 keys, rows;         /* entries in their order by buckets: places in theirs, as u16 */
    ga_u64 sums;               /* for each piece, component and place of its bucket */
    ga_u64 fault, report;      /* of a bad index */
    ga_i64 n, length;          /* entries; places */
    ga_i64 index_step, near_step, far_step;     /* from one to the next; of components */
    ga_i64 near_at[BU_PARTS], far_at[BU_PARTS]; /* a component's, from the first */
    int index_size, is_signed;
    int parts;            /* components */
    int fresh;            /* far is all 0: it need not be read */
    int buckets;          /* 1: entries are taken from where they are given */
    int bits;             /* of a bucket's number */
    int low;              /* of a place's in its bucket */
    int stretches, tiles; /* tiles of a stretch */
    int pieces;           /* of one bucket */
    int put;              /* places that a block of the last kernel puts: 32, or BU_THREADS */
} bu_call;

#ifndef __CUDACC_RTC__
/* Whether values, of the type of p's places, are added to these here: floats or complex numbers
** that are to be added in order; `parts` components for each entry, whose indices and values have
** one stride each. */
bool tidei_buckets_suit(const tidei_plan *p, int64_t n, int64_t parts);
/* Adds them. The call has what is known of entries, values and places: all but addresses, and what
** kernels tell each other. */
tide_status tidei_buckets_add(const tidei_plan *p, const tidei_operand *near, bu_call *c);
#endif

#endif
