/* cuda_pairs.h: folds whose operands each lack one of two kept dimensions (cuda_pair.cu): which
** calls are such, and what of their kernels' texts depends on the operands' sides. */
#ifndef TIDEI_CUDA_PAIRS_H
#define TIDEI_CUDA_PAIRS_H

#include "arrays/expr/cuda_text.h"

enum { TIDEI_PAIRS_ROWS, TIDEI_PAIRS_COLUMNS };
#define TIDEI_PAIRS_VALUES 8 /* of a side: more would not fit registers */

/* A program whose inputs' sides are known. */
typedef struct tidei_pairs_traits {
    uint32_t columns;   /* a bit for each input that goes with the columns */
    uint8_t tile[2];    /* rows and columns of a thread */
    uint8_t staged;     /* reduced elements that are staged at once */
    uint8_t unroll;     /* of the loop over them */
    uint8_t blocks;     /* of a multiprocessor at once */
    uint16_t pays;      /* what an element of a tile takes (cuda_pairs.c) */
    uint8_t nvalues[2]; /* of each side: what is staged of an element, */
    uint16_t bytes[2];  /* how many bytes in all, and which nodes */
    uint16_t values[2][TIDEI_PAIRS_VALUES];
} tidei_pairs_traits;

/* How a call is divided. */
typedef struct tidei_pairs {
    tidei_pairs_traits traits;
    int dim[2];       /* along the rows and the columns */
    unsigned cshift;  /* log2 of a block's threads along a column */
    int64_t tiles[2]; /* along the rows' and the columns' dimension */
    int64_t blocks;   /* of one stretch of the reduced elements */
    int64_t chunk, splits;
} tidei_pairs;

/* False where too much would be staged. */
bool tidei_pairs_traits_of(const tidei_program *p, uint32_t columns, tidei_pairs_traits *out);
/* Whether the fold is one of pairs, and goes faster as one. */
bool tidei_pairs_find(const tidei_call *c, const tidei_cuda_traits *k, unsigned sm_count,
                      tidei_pairs *out);
size_t tidei_pairs_shared(const tidei_pairs_traits *t, unsigned cshift);
/* The program's own part, from tide_row_x to tide_pair. */
struct text; /* cuda_say.h */
void tidei_pairs_say(struct text *t, const tidei_program *p, const tidei_pairs_traits *s);

#endif
