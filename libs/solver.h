/* solver.h: factorizations of tracked memory: LAPACKE on devices that run host functions, cuSOLVER
** on cuda.
**
** Model. One descriptor for all routines, as LAPACK has them: batches of column-major matrices that
** are overwritten where they lie. What order the elements have for users, copies, and what a code
** of failure means to them: arrays/linalg/job.c. Each side runs a batch in one submission where the
** library can, else matrix by matrix on the stream.
** What must stay true: the matrices that a routine factors are finite (arrays/linalg/job.c replaces
** those that are not), so that no iteration meets not-a-number but where something overflows on the
** way. Workspaces come from the device's pool (host memory that a library wants besides:
** tidei_host_alloc); nothing here waits for the device but what the library itself does; codes go
** to `info`, never to the status. */
#ifndef TIDEI_SOLVER_H
#define TIDEI_SOLVER_H

#include "libs/libs.h"

/* `count` column-major matrices in one storage, or vectors (ld unused). In elements of their type.
** count >= 1. */
typedef struct tidei_mats {
    tidei_storage *st;
    int64_t offset; /* of the first element of the first one */
    int64_t ld;     /* from a column to the next, >= the rows */
    int64_t step;   /* from a matrix to the next, >= what one spans */
} tidei_mats;

/* All sizes >= 1. `wide` is the dtype, `real` its real counterpart (f32 for c64). In, out: what
** happens to each matrix.
**        sizes              a                          b                         c              d
** GETRF  m, n, narrow       in: A, out: L and U        out: pivots (i64), min(m,n)
** GETRS  n, k, trans        in: L and U                in: pivots                in: n x k, out: X
** POTRF  n, upper           in: A, out: its factor
** GEQRF  m, n               in: A, out: R, reflectors  out: tau (wide), min(m,n)
** ORGQR  m, n <= m, k <= n  in: k reflectors, out: Q   in: tau
** GESVD  m >= n, job        destroyed                  out: s (real), n          out: U    out: V^H
** SYEVD  n, upper, vectors  in: A, out: V or rubbish   out: w (real), n, ascending
** POTRF leaves the other triangle as it is, or fills it with anything. ORGQR is UNGQR where the
** type is complex. GESVD's job: 'N' no vectors (c, d unused), 'S' U is m x n, 'A' U is m x m; V^H
** is n x n. Pivots count from 1, as LAPACK's do. GETRF's pivots are i32 where that is asked for,
** and tidei_lapack_narrow says whether it can be. `info`: i32, one a matrix, LAPACK's: 0, or > 0:
** GETRF's U(i,i) is exactly 0, POTRF's leading minor i is not positive, GESVD's and SYEVD's did not
** converge. Always written, by the stream; ignored where a routine cannot fail (GETRS, GEQRF,
** ORGQR: st may be NULL). */
typedef enum {
    TIDEI_GETRF,
    TIDEI_GETRS,
    TIDEI_POTRF,
    TIDEI_GEQRF,
    TIDEI_ORGQR,
    TIDEI_GESVD,
    TIDEI_SYEVD,
    TIDEI_LAPACK_ROUTINES
} tidei_lapack_routine;

typedef struct tidei_lapack {
    tidei_lapack_routine routine;
    tide_dtype dtype; /* f32, f64, c64, c128 */
    int64_t m, n, k, count;
    bool narrow;  /* GETRF */
    bool trans;   /* GETRS: of A^T */
    bool upper;   /* the triangle that is read and written */
    bool vectors; /* SYEVD */
    char job;     /* GESVD */
    tidei_mats a, b, c, d;
    tidei_storage *info; /* at offset 0 */
    /* (may be NULL: what is overwritten need not survive) Writes the matrices that the routine
    ** overwrites anew, as work on the stream: a library that ran out of memory half way has spoiled
    ** them, and is called again. No submission is open. */
    tide_status (*again)(void *arg);
    void *again_arg;
} tidei_lapack;

/* Submits the routine to s. May allocate workspaces and climb. TIDE_E_UNSUPPORTED where the
** device's library is not installed, saying which and how to get it, or where sizes are beyond what
** it counts in; TIDE_E_INVALID where the descriptor is not valid: a size, a step or an operand that
** the routine cannot have. */
tide_status tidei_lapack_run(tidei_stream *s, const tidei_lapack *x, const char *op);

/* TIDE_OK, or why nobody may run the routine: the thread's work is being captured, or the
** descriptor is not valid. tidei_lapack_run asks it itself; a caller that serves a routine in the
** library's place asks before. */
tide_status tidei_lapack_allowed(tidei_stream *s, const tidei_lapack *x, const char *op);

/* Whether GETRF's pivots come as i32 in this library: a caller that can take them so saves the
** stream the widening. */
bool tidei_lapack_narrow(tidei_stream *s, const tidei_lapack *x);

/* ---- for the sides (solver_operands.c) ---- */
const char *tidei_lapack_name(const tidei_lapack *x); /* "getrf" */
/* Whether the descriptor is valid: sizes, steps, and the operands that the routine needs. */
bool tidei_lapack_valid(const tidei_lapack *x);
/* What each matrix operand spans, for both: uses[0..3] of a, b, c, d and uses[4] of info; those
** unused are left out. Returns how many. `at` (may be NULL) receives which operand each is, 0 to
** 4. */
unsigned tidei_lapack_uses(const tidei_lapack *x, tidei_use uses[5], int at[5]);

/* ---- the two sides (solver_host.c, solver_cuda.c) ---- */
tide_status tidei_lapack_host(tidei_stream *s, const tidei_lapack *x, const char *op);
tide_status tidei_lapack_cuda(tidei_stream *s, const tidei_lapack *x, const char *op);
bool tidei_lapack_narrow_cuda(const tidei_lapack *x);

#endif
