/* job.h: what the functions of linear algebra share: one call as a job, its batches, working
** copies and outcomes.
**
** Model. A job holds the operands of one call: inputs, working memory, results. Its status is that
** of the first step that failed; steps after it do nothing, so that a function reads as the list of
** its steps, and tidei_job_end looks after the rest. Libraries overwrite matrices in place, column
** by column. A row-major matrix is its transpose's column-major one, so most work is done on plain
** copies; a copy that is stored column by column is `turned`.
** What must stay true: what a library sees is finite: each copy is screened, and a matrix that is
** not finite is replaced and marked. Nothing here waits but tidei_job_check. */
#ifndef TIDEI_JOB_H
#define TIDEI_JOB_H

#include "arrays/arrays.h"
#include "arrays/linalg/factor.h"
#include "arrays/kernels/launch.h"
#include "libs/blas.h"
#include "libs/solver.h"

/* inputs, results and working memory of one call; the most is lstsq's 11 */
#define TIDEI_JOB_OPERANDS 12
#define TIDEI_JOB_RESULTS  3

typedef struct tidei_batch {
    int ndim;
    int64_t shape[TIDE_MAX_RANK];
    int64_t count; /* of matrices */
} tidei_batch;

typedef struct tidei_job {
    const char *op;
    tidei_runtime *rt;
    tidei_stream *stream;
    tide_status status;
    tide_dtype wide, real; /* what is computed in, and its real counterpart */
    bool floats;           /* an input's type decided that */
    tidei_operand held[TIDEI_JOB_OPERANDS];
    unsigned nheld, nmade;
    tide_array *made[TIDEI_JOB_RESULTS];
} tidei_job;

/* A matrix operand: its last two axes, and those before. */
typedef struct tidei_input {
    tidei_operand *o;
    tidei_batch batch;
    int64_t m, n;
} tidei_input;

/* Begins with its first operand; ends with the operands put, and, where the status is not TIDE_OK,
** the results dropped. */
void tidei_job_begin(tidei_job *j, const char *op, tide_array *first, tidei_input *a);
tide_status tidei_job_end(tidei_job *j);
/* Writes result `number` to *to, where it is one and the job ended well. */
void tidei_job_give(const tidei_job *j, tide_array **to, int number);
/* One more operand, at that place in the call; `vector` says whether it had one axis and so became
** a column. */
void tidei_job_input(tidei_job *j, tide_array *a, tidei_place place, tidei_input *x, bool *vector);
/* Widens what is computed in by another input's type. TIDE_E_DTYPE for f16 and bf16. */
void tidei_job_types(tidei_job *j, tide_dtype t);
void tidei_job_square(tidei_job *j, const tidei_input *a); /* TIDE_E_SHAPE where it is not */

/* `tail` dimensions behind the batch's. Memory of its own, row-major; NULL where the job has
** failed. */
tidei_operand *tidei_job_work(tidei_job *j, tide_dtype t, const tidei_batch *b, int ntail,
                              const int64_t *tail);
/* The same as a result, whose number is j->nmade before the call. */
tidei_operand *tidei_job_result(tidei_job *j, tide_dtype t, const tidei_batch *b, int ntail,
                                const int64_t *tail);
/* A result where it is wanted (`to` not NULL), else working memory; *number is -1 then. */
tidei_operand *tidei_job_place(tidei_job *j, const void *to, int *number, tide_dtype t,
                               const tidei_batch *b, int ntail, const int64_t *tail);

/* How a working copy is made, and made again. */
typedef struct tidei_load {
    tidei_job *j;
    const tidei_operand *from; /* NULL: ones on the diagonal */
    tidei_operand to;          /* in the shape of the source: borrowed */
    const tidei_operand *marks;
    int64_t count, rows, cols, step; /* as stored */
    bool turned;
    int part; /* what of it is screened, where there are marks */
} tidei_load;

/* i32: a library's info for each matrix, and behind them a flag for each: it was not finite. A load
** with them clears them. */
tidei_operand *tidei_job_marks(tidei_job *j, const tidei_batch *b);
/* Copies x (its m x n matrices, or NULL: ones on the diagonal) into `to`, over the batch b. Where
** `marks` is given, they are cleared, and `part` (FA_*, of the matrices as they are stored) is
** screened. step 0: m * n. */
void tidei_job_load(tidei_job *j, tidei_load *l, const tidei_input *x, const tidei_operand *to,
                    const tidei_batch *b, int64_t m, int64_t n, bool turned, int64_t step,
                    const tidei_operand *marks, int part);
tide_status tidei_load_again(void *load); /* for tidei_lapack.again */

void tidei_job_lapack(tidei_job *j, const tidei_lapack *x);
/* (small.c) Whether kernels of our own serve a routine on this stream's device in the library's
** place: a batch of small matrices on a GPU. */
bool tidei_small_takes(tidei_stream *s, const tidei_lapack *x);
void tidei_job_small(tidei_job *j, const tidei_lapack *x); /* queues it then */
/* A descriptor of the job's type over the whole of `a`, without anything that the routine takes
** besides. */
tidei_lapack tidei_job_routine(const tidei_job *j, tidei_lapack_routine r, int64_t m, int64_t n,
                               int64_t count);
static inline tidei_mats tidei_mats_of(const tidei_operand *o, int64_t ld, int64_t step) {
    return (tidei_mats){.st = o ? o->st : NULL, .offset = 0, .ld = ld, .step = step};
}

/* ---- steps by kernels of our own ---- (factor.h); `k` has all but addresses. */
extern const char tidei_factor_text[];
#define TIDEI_FACTOR_KERNEL(name)                                                                  \
    { #name, tidei_factor_text, name, false }
/* The four forms of a kernel, by what a job computes in. */
#define TIDEI_FACTOR_KERNELS(name)                                                                 \
    {                                                                                              \
        TIDEI_FACTOR_KERNEL(name##_f32), TIDEI_FACTOR_KERNEL(name##_f64),                          \
            TIDEI_FACTOR_KERNEL(name##_c64), TIDEI_FACTOR_KERNEL(name##_c128)                      \
    }
static inline const tidei_own_kernel *tidei_factor_kernel(const tidei_own_kernel forms[4],
                                                          tide_dtype wide) {
    return &forms[wide - TIDE_F32];
}
void tidei_job_carry(tidei_job *j, fa_carry *k, const tidei_operand *out, const tidei_operand *in,
                     const tidei_operand *marks);
/* From a turned copy (columns ld apart, matrices `step`) to row-major rows x cols, of which `part`
** is kept. */
void tidei_job_unturn(tidei_job *j, const tidei_operand *out, const tidei_operand *in,
                      int64_t count, int64_t rows, int64_t cols, int64_t ld, int64_t step, int part,
                      const tidei_operand *marks);
void tidei_job_identity(tidei_job *j, const tidei_operand *out, int64_t count, int64_t n);
/* `narrow`: the pivots as i32, or NULL: they are in place already. */
void tidei_job_pivots(tidei_job *j, const tidei_operand *pivots, const tidei_operand *narrow,
                      const tidei_operand *marks, int64_t count, int64_t n, int64_t shift,
                      int64_t bound);
void tidei_job_own(tidei_job *j, const tidei_own_kernel *k, const tidei_use *uses, unsigned n,
                   void *params, size_t bytes, const size_t *at, const fa_space *space);
void tidei_job_zero(tidei_job *j, const tidei_operand *o);

/* ---- singular values, for those who go on with them (factorize.c) ---- */
typedef struct tidei_svd {
    tidei_input a; /* not empty */
    tidei_load load;
    tidei_operand *marks, *copy;
} tidei_svd;
/* job as GESVD's; s row-major. U and V^H are row-major where a has no more rows than columns, else
** column-major. */
void tidei_job_svd(tidei_job *j, tidei_svd *f, char job, const tidei_operand *u,
                   const tidei_operand *s, const tidei_operand *vh);
void tidei_say_no_values(char *buf, size_t cap, int info);

/* The one step that waits: reads the marks. `say` writes what info means: "is singular: U(5, 5) is
** 0". */
void tidei_job_check(tidei_job *j, const tidei_operand *marks, const tidei_batch *b,
                     tide_status failure, void (*say)(char *buf, size_t cap, int info));

#endif
