/* cuda_chain.h: chains (ir.h) as one kernel: folds over rows and what hangs on them, the row kept
** in registers. cuda_chain_plan.c chooses the form of a call and fills the parameters,
** cuda_chain_text.c writes the text of a form around cuda_chain.cu, cuda_run.c keeps the kernels
** and launches. A program with one fold is a chain too (tidei_chain_of), and takes this way where
** a cluster holds its rows.
**
** A form is what the text has as constants; text and plan agree on struct tide_p, as cuda_text.h
** says. What must stay true: a form follows from the call's shape, strides and offsets and the
** device's kind; so do the bits of a row's sums. */
#ifndef TIDEI_CUDA_CHAIN_H
#define TIDEI_CUDA_CHAIN_H

#include "arrays/expr/cuda_text.h"

/* more inputs than this would leave a thread few elements of each */
#define TIDEI_CHAIN_INPUTS 16
/* threads of a block, for which kernels are compiled: at most one of these; so many in the middle
** that a multiprocessor takes four blocks of kernels that keep halves */
#define TIDEI_CHAIN_SMALL  256
#define TIDEI_CHAIN_MIDDLE 320
#define TIDEI_CHAIN_LARGE  512

typedef enum {
    TIDEI_CHAIN_LANES,  /* a row is a few lanes' of a warp */
    TIDEI_CHAIN_BLOCK,  /* a block's, or a cluster's */
    TIDEI_CHAIN_COLUMNS /* rows run across memory: neighbouring threads on neighbouring rows */
} tidei_chain_kind;

/* Compared as bytes. Inputs and outs are bits. */
typedef struct tidei_chain_form {
    uint8_t kind;
    uint8_t vec;     /* elements of a vector */
    uint8_t unroll;  /* vectors that a thread keeps of a row */
    uint8_t in_warp; /* a row is lanes' of one warp: LANES, and COLUMNS of which few lie side by
                     ** side */
    uint8_t lanes;   /* of a row, then; else 1 */
    uint8_t rows;    /* rows of a thread beside each other (LANES) */
    uint8_t blocks;  /* of a cluster */
    uint8_t dense;   /* along a row all elements lie one after the other (not COLUMNS) */
    uint8_t large;   /* blocks of more than TIDEI_CHAIN_SMALL threads */
    uint8_t middle;  /* of these, clusters that keep halves, of up to TIDEI_CHAIN_MIDDLE threads */
    uint8_t single;  /* outs with one element a row */
    uint8_t nested;  /* rows lie along more than one dimension */
    uint8_t uneven;  /* rows begin and end anywhere within vectors (cuda_chain.cu) */
    uint8_t lead;    /* uneven: the input whose boundaries count */
    uint8_t streams; /* so many bytes that no cache keeps them for another kernel (not LANES) */
    uint8_t carried; /* a row is a thread's, and goes through shared memory (LANES) */
    uint16_t flat;   /* inputs with one element a row */
    uint16_t late;   /* inputs that no fold reads and that are the same for all rows */
    uint16_t splat;  /* inputs with one element for a vector (COLUMNS) */
    uint16_t loose;  /* uneven: inputs that lie otherwise, and are loaded by elements */
} tidei_chain_form;

/* Whether elements of a row can lie in words until they are used: integers of one or two bytes. */
static inline bool tidei_chain_in_words(tide_dtype t) {
    return tide_dtype_size(t) == 1 || t == TIDE_I16 || t == TIDE_U16;
}

/* What is true of a program in all calls. */
typedef struct tidei_chain_traits {
    bool fits; /* may be a chain's kernel at all */
    bool linear, complex, functions;
    bool arg;            /* has argmin or argmax, for which the order of elements counts */
    uint8_t value_bytes; /* of the widest value of an element */
    uint8_t stages;      /* of folds: one needs the values of those before */
    uint16_t folded;     /* inputs (bits) that bodies of folds read */
    uint16_t acc_bytes;  /* of the accumulators of a stage, at most */
    uint32_t cost;       /* instructions of an element, roughly */
} tidei_chain_traits;

/* The chain that is a program with a fold; false where it does not fit. */
bool tidei_chain_of(const tidei_program *p, tidei_program *out);
void tidei_chain_traits_of(const tidei_program *chain, tidei_chain_traits *out);

/* For each node of a chain whether it is the same for a whole row, and after how many stages of
** folds it is known; of a fold the stage that computes it. */
typedef struct tidei_chain_levels {
    bool single[TIDEI_NODES_MAX];
    uint8_t stage[TIDEI_NODES_MAX];
} tidei_chain_levels;
void tidei_chain_levels_of(const tidei_program *chain, unsigned flat, tidei_chain_levels *out);

/* A form's text, as tidei_cuda_text gives it. */
char *tidei_chain_text(tidei_runtime *rt, const tidei_program *chain, const tidei_chain_traits *k,
                       const tidei_chain_form *f, size_t *body);
size_t tidei_chain_params_bytes(const tidei_program *chain);

/* Whether the addresses of operand i, inputs first, count vectors. */
static inline bool tidei_chain_by_vectors(const tidei_chain_form *f, unsigned ninputs, unsigned i) {
    return !f->uneven &&
           !(i < ninputs ? (f->flat | f->splat) >> i & 1 : f->single >> (i - ninputs) & 1);
}

/* Threads of a block at most, which the kernel is compiled for. */
static inline unsigned tidei_chain_threads(const tidei_chain_form *f) {
    return f->middle ? TIDEI_CHAIN_MIDDLE : f->large ? TIDEI_CHAIN_LARGE : TIDEI_CHAIN_SMALL;
}

/* One launch. */
typedef struct tidei_chain_plan {
    tidei_chain_form form;
    unsigned grid, threads, shared;
    /* a row's vectors; those of a block of it; log2 of a row's lanes (LANES) or of the rows across
    ** (COLUMNS); rows, in vectors across them (COLUMNS); bytes of shared memory of a stage */
    uint32_t vectors, part, shift, rows, room;
} tidei_chain_plan;

/* Chooses form and launch for a call that tidei_chain_order has been through; false: a row does not
** fit, or lies so that it is not worth it. `folds_alone`: the call is one of a program with a
** fold, for which cuda_fold.cu is there too. `cluster_most`: the device's. */
void tidei_chain_order(tidei_call *c, const tidei_chain_traits *k);
bool tidei_chain_choose(const tidei_call *c, const tidei_chain_traits *k, bool folds_alone,
                        unsigned sm_count, unsigned cluster_most, tidei_chain_plan *out);
/* The parameters, behind the operands' addresses. */
void tidei_chain_params(const tidei_call *c, const tidei_chain_plan *plan, tidei_cuda_plan *out);

#endif
