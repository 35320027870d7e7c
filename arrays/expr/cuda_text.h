/* cuda_text.h: what the files of the CUDA text back end share: classes of layouts, what a program's
** kernels are made of, and the plan of a launch.
**
** A program has one kernel a class, whatever the shapes: cuda_text.c writes the text, cuda_plan.c
** chooses the class of a call and fills the parameters, cuda_run.c keeps the kernels and launches.
** Text and plan agree on struct tide_p, which cuda_text.c declares and cuda_plan.c fills, field by
** field in the same order; the text asserts its size. */
#ifndef TIDEI_CUDA_TEXT_H
#define TIDEI_CUDA_TEXT_H

#include "arrays/expr/ir.h"
#include "arrays/scan/scan.h"

typedef enum {
    TIDEI_CUDA_FLAT,     /* every operand contiguous, on a 16-byte boundary: vectors */
    TIDEI_CUDA_FLAT_ONE, /* contiguous, elements */
    TIDEI_CUDA_ROWS,     /* inner strides 0 or 1, rows of whole vectors on their boundaries */
    TIDEI_CUDA_STRIDED,  /* anything, elements */
    TIDEI_CUDA_UNEVEN,   /* long rows, however they begin and lie */
    /* some input contiguous in another dimension than the results: through shared memory */
    TIDEI_CUDA_TILED,
    TIDEI_CUDA_FOLD_ROW,    /* folds: vectors along the one reduced dimension */
    TIDEI_CUDA_FOLD_COLUMN, /* vectors along the innermost kept dimension */
    TIDEI_CUDA_FOLD_ANY,    /* elements */
    TIDEI_CUDA_FOLD_PAIRS,  /* every row of one operand with every column of another */
    TIDEI_CUDA_FOLD_JOIN,   /* folds the accumulators of blocks that share a result */
    TIDEI_CUDA_SCAN,        /* scans: this and the next, in the order of TIDEI_SCAN_ROWS ... */
    TIDEI_CUDA_SCAN_LAST = TIDEI_CUDA_SCAN + TIDEI_SCAN_FORMS - 1,
    TIDEI_CUDA_CLASSES
} tidei_cuda_class;

#define TIDEI_CUDA_THREADS 256u
/* more inputs than this are not tiled: registers */
#define TIDEI_CUDA_TILED_INPUTS 4
/* bytes that a block gets without asking for more */
#define TIDEI_CUDA_SHARED_MAX ((unsigned)48 << 10)

/* Folds across memory of so many columns, or vectors of them, that each is a thread's alone, as
** without joining what several have a thread does little but read: enough threads of each
** multiprocessor; and no longer than this, so that sums' errors stay small. */
#define TIDEI_ALONE_THREADS 1024
#define TIDEI_ALONE_LONGEST 512
static inline bool tidei_cuda_is_alone(int64_t columns, int64_t length, unsigned sm_count) {
    return columns >= (int64_t)TIDEI_ALONE_THREADS * sm_count && length <= TIDEI_ALONE_LONGEST;
}

/* What is true of a program's kernels in all calls. */
typedef struct tidei_cuda_traits {
    bool linear; /* uses TIDEI_OP_LINEAR */
    bool complex;
    bool functions; /* those of functions.h occur */
    /* the body is long: a function that is called, not a part of each unrolled element */
    bool outline;
    uint8_t vec[TIDEI_CUDA_CLASSES];    /* elements of a group */
    uint8_t unroll[TIDEI_CUDA_CLASSES]; /* groups of a thread */
    uint8_t tile;                       /* side of a tile */
    /* of an accumulator as a block leaves it; 0 without a fold */
    uint16_t acc_bytes;
} tidei_cuda_traits;
void tidei_cuda_traits_of(const tidei_program *p, tidei_cuda_traits *out);

/* A kernel's text, to be freed with tidei_host_free; NULL: host memory is exhausted. The kernel is
** called "tide_k". The text before *body (may be NULL) is the same for all programs, but for one
** line where complex numbers occur, and functions.h where its functions do. */
char *tidei_cuda_text(tidei_runtime *rt, const tidei_program *p, const tidei_cuda_traits *k,
                      tidei_cuda_class cls, size_t *body);
/* That of TIDEI_CUDA_FOLD_PAIRS for inputs on such sides. */
char *tidei_cuda_pairs_text(tidei_runtime *rt, const tidei_program *p, const tidei_cuda_traits *k,
                            uint32_t sides, size_t *body);
size_t tidei_cuda_params_bytes(const tidei_program *p, const tidei_cuda_traits *k,
                               tidei_cuda_class cls);

/* Where TIDEI_OP_LINEAR starts and how it grows along the dimensions of a (permuted, cut) call. */
typedef struct tidei_cuda_linear {
    int64_t base, steps[TIDE_MAX_RANK];
} tidei_cuda_linear;

#define TIDEI_CUDA_OPERANDS_MAX (TIDEI_INPUTS_MAX + TIDEI_OUTS_MAX)

/* n < 2^31 divided by 1 <= d < 2^31 (tide_div of cuda_base.cu): the high half of n * mul, plus n,
** shifted. */
typedef struct tidei_cuda_divisor {
    uint32_t d, mul, shift;
} tidei_cuda_divisor;
tidei_cuda_divisor tidei_cuda_divisor_of(int64_t d);

/* One launch. The parameters begin with the operands' addresses, inputs first, which the launch
** fills in. */
typedef struct tidei_cuda_plan {
    tidei_cuda_class cls;
    uint32_t sides; /* of pairs: the inputs that go with columns (cuda_pairs.h); else 0 */
    unsigned grid[2], shared;
    size_t params_bytes, scalars_at; /* where the call's scalars lie; 0: nowhere */
    unsigned noperands;
    size_t count_at; /* folds: where in the parameters a mean's divisor lies, as an i64 */
    /* folds: blocks that share a result; beyond 1 the launch leaves
    ** accumulators[splits][results] */
    int64_t splits;
    int64_t results;
    union {
        uint64_t addresses[TIDEI_CUDA_OPERANDS_MAX];
        unsigned char bytes[TIDEI_PARAMS_MAX];
    } params;
} tidei_cuda_plan;

/* Brings dimensions into the order in which memory lies, where that is free, and merges them. */
void tidei_cuda_order(tidei_call *c, const tidei_cuda_traits *k);
/* The operand by which the order of memory goes: the input that moves the most bytes; the first
** result where there are no inputs. */
const tidei_view *tidei_cuda_lead(const tidei_call *c);
/* Whether the call is to be cut in two before it is planned, its offsets not fitting 32 bits; and
** along which dimension. */
bool tidei_cuda_too_large(const tidei_call *c, int *dim);
void tidei_cuda_plan_map(const tidei_call *c, const tidei_cuda_traits *k,
                         const tidei_cuda_linear *lin, tidei_cuda_plan *out);
void tidei_cuda_plan_fold(const tidei_call *c, const tidei_cuda_traits *k,
                          const tidei_cuda_linear *lin, unsigned sm_count, tidei_cuda_plan *out);
/* A form of a scan over p, which has `items` pieces of work. Its operands are the inputs, whose
** addresses come behind p. */
void tidei_cuda_plan_scan(const tidei_call *c, const tidei_cuda_traits *k,
                          const tidei_cuda_linear *lin, const sc_scan *p, int form, uint64_t items,
                          unsigned sm_count, tidei_cuda_plan *out);
/* The launch that follows `first` when its splits exceed 1. Its operands: the accumulators, the
** result. */
void tidei_cuda_plan_join(const tidei_call *c, const tidei_cuda_traits *k,
                          const tidei_cuda_plan *first, tidei_cuda_plan *out);

#endif
