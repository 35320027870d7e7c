/* vm_walk.h: the walk through an iteration space, block by block (vm_walk.c), along which maps,
** folds and scans are computed (vm_run.c).
**
** A block is a box of the space: along each dimension one index or a stretch (chunk). Its elements,
** in row-major order of the box's dimensions, are the lanes. An operand that lies in memory just as
** the lanes do is used in place; one that is the same in all lanes is splatted, once while its
** address stays; others are gathered, and scattered back.
** What must stay true: nothing here allocates or fails; buffers fit in `scratch` because lanes are
** chosen so. */
#ifndef TIDEI_VM_WALK_H
#define TIDEI_VM_WALK_H

#include "arrays/expr/vm_program.h"

#define TIDEI_WALK_SCRATCH ((size_t)96 << 10) /* bytes, on the thread's stack */
#define TIDEI_WALK_ALIGN   64

/* Dimensions of a box with more than one index, outermost first, in the order of the lanes. */
typedef struct tidei_box {
    int n;
    int dim[TIDE_MAX_RANK];
} tidei_box;

typedef enum { TIDEI_IN_PLACE, TIDEI_SPLAT, TIDEI_PACKED } tidei_placement;

/* Memory used in place, of which the next block's part is fetched while the current one is
** computed. */
typedef struct tidei_fetched {
    unsigned slot;
    int64_t ahead; /* bytes from the current block's part to the next one's */
    size_t bytes;
} tidei_fetched;

typedef struct tidei_walk {
    const tidei_vm_program *p;
    const tidei_vm_kernels *k;
    const tidei_vm_call *c;
    int nd, nk; /* dimensions; the first nk are kept, the others folded */
    int64_t len[TIDE_MAX_RANK];
    int64_t chunk[TIDE_MAX_RANK];  /* the box's greatest stretch along each */
    int64_t at[TIDE_MAX_RANK];     /* the current block's first index ... */
    int64_t now[TIDE_MAX_RANK];    /* ... and stretch */
    int64_t linear[TIDE_MAX_RANK]; /* strides of the row-major index ... */
    int64_t linear_first;          /* ... which is this at the first element */
    tidei_box all, kept;           /* the box, and its kept dimensions (where results are stored) */
    size_t lanes;                  /* of the largest block */
    tidei_placement input[TIDEI_INPUTS_MAX], out[TIDEI_OUTS_MAX];
    unsigned char *input_buffer[TIDEI_INPUTS_MAX], *out_buffer[TIDEI_OUTS_MAX];
    const unsigned char *splatted[TIDEI_INPUTS_MAX]; /* where the splat in the buffer came from */
    void *ptr[VM_SLOTS];
    tidei_fetched fetch[TIDEI_INPUTS_MAX + TIDEI_OUTS_MAX];
    unsigned nfetch;
    size_t fetch_share; /* lines to fetch before each instruction */
    size_t used;
    unsigned char *scratch;
} tidei_walk;

/* ---- in this order: a walk begins, its chunks and boxes are chosen, it is prepared ---- */

void tidei_walk_init(tidei_walk *w, const tidei_vm_program *p, const tidei_vm_call *c,
                     unsigned char *scratch);
/* How many lanes a block may have, by the bytes of each that its instructions touch, and others. */
int64_t tidei_walk_lanes_for(size_t hot, size_t cold);
/* Bytes of a lane in all buffers that a block may need. */
size_t tidei_walk_lane_bytes(const tidei_vm_program *p);
/* A stretch of `len` in even pieces of at most `room`, rounded for the vectors' sake. */
int64_t tidei_walk_even_chunk(int64_t len, int64_t room);
/* Gives dimensions first .. last, the innermost first, stretches within `room` lanes; returns the
** room left (1: none). */
int64_t tidei_walk_stretch(tidei_walk *w, int first, int last, int64_t room);
void tidei_walk_add_dims(tidei_walk *w, tidei_box *b, int first, int end);
/* Once the chunks and the boxes are fixed: buffers, and what does not change from block to
** block. */
void tidei_walk_prepare(tidei_walk *w);
tidei_placement tidei_walk_place(const tidei_walk *w, const tidei_box *b, const int64_t *strides);
unsigned char *tidei_walk_buffer(tidei_walk *w, size_t bytes);
/* The dimension along which the walk goes from block to block, among first .. end-1; -1: one block
** is all. */
int tidei_walk_way(const tidei_walk *w, int first, int end);
/* Decides what is fetched ahead on the way along d. */
void tidei_walk_fetch_prepare(tidei_walk *w, int d, unsigned nouts);

/* ---- from block to block ---- */

size_t tidei_walk_lanes(const tidei_walk *w, const tidei_box *b); /* of the current block */
/* Blocks along a dimension, along dimensions first .. end-1. */
size_t tidei_walk_pieces(const tidei_walk *w, int d);
size_t tidei_walk_blocks(const tidei_walk *w, int first, int end);
/* Goes to a block along these by its number; returns how many of `n` from it on there are. */
size_t tidei_walk_seek(tidei_walk *w, int first, int end, size_t block, size_t n);
/* The next block along these, the last one fastest; false when there is none, and all are at 0. */
bool tidei_walk_advance(tidei_walk *w, int first, int end);
void tidei_walk_bind_inputs(tidei_walk *w);
void tidei_walk_bind_outs(tidei_walk *w);
void tidei_walk_flush_outs(tidei_walk *w);
/* Runs the program's instructions over n lanes. */
void tidei_walk_execute(tidei_walk *w, size_t n);

#endif
