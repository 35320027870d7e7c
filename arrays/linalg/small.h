/* small.h: what the kernels of small.cu are told. The host includes it as C, the build embeds it
** before them.
**
** Matrices are column-major, in batches, as libs/solver.h describes them; sizes and steps are in
** elements of the matrices' type, those of pivots in pivots. */
#ifndef TIDEI_SMALL_H
#define TIDEI_SMALL_H

typedef struct sm_params {
    /* addresses, of what the routine's operands of those letters are in libs/solver.h */
    unsigned long long a, b, c, info;
    long long a_ld, a_step, b_step, c_ld, c_step;
    long long items; /* matrices; GETRS: times `parts` */
    int m, n, k;
    int parts; /* GETRS: of the right sides of a matrix, `sides` in each: whole warps of groups */
    int sides;
    int teams; /* of a block, each with a matrix of its own; a power of 2 */
    int room;  /* bytes of shared memory that each has */
    int group; /* threads that share a column: a power of 2, 32 at most */
    int ld;    /* from a column to the next in shared memory */
    int trans, upper, narrow;
} sm_params;

#endif
