/* vm.h: the host's blocked interpreter: what its files share, and the seam its tests use.
**
** A program becomes a list of instructions over registers of a block of elements ("lanes"). The
** walk cuts the iteration space into blocks; for each block every instruction runs one vector loop
** over all lanes. Inputs and outputs that lie contiguously in a block are read and written in
** place; others go through a buffer. */
#ifndef TIDEI_VM_H
#define TIDEI_VM_H

#include "arrays/expr/ir.h"

/* One vector loop: dst[i] = f(a[i], b[i], c[i]) for i < n. dst may be an operand itself. Operands
** beyond the function's arity are ignored. */
typedef void tidei_vm_fn(void *dst, const void *a, const void *b, const void *c, size_t n);
/* Between `packed` elements, row by row without gaps, and elements at strides (in elements) in n1
** rows of n0. */
typedef void tidei_vm_gather_fn(void *packed, const void *at, size_t n1, int64_t s1, size_t n0,
                                int64_t s0);
typedef void tidei_vm_scatter_fn(void *at, const void *packed, size_t n1, int64_t s1, size_t n0,
                                 int64_t s0);
/* packed[j * n0 + i] = first + j * s1 + i * s0 */
typedef void tidei_vm_linear_fn(int64_t *packed, int64_t first, size_t n1, int64_t s1, size_t n0,
                                int64_t s0);
/* dst[r] = the fold of row r; rows of n >= 1 elements one after the other. */
typedef void tidei_vm_rows_fn(void *dst, const void *src, size_t rows, size_t n);
/* Where x[i] beats best[i] (smaller or greater, NaN beats all): best[i] = x[i], at[i] = now. */
typedef void tidei_vm_argstep_fn(void *best, int64_t *at, const void *x, int64_t now, size_t n);
/* Of x[0], x[step], ... (n of them): the index of the winner, its at[] (NULL: 0) plus its number;
** the lowest of equals. */
typedef int64_t tidei_vm_argpick_fn(const void *x, const int64_t *at, size_t n, size_t step);

#define TIDEI_VM_WIDTHS 5 /* 1, 2, 4, 8, 16 bytes; index: log2 */

/* The loops, compiled once for each instruction set. Indexed by tide_dtype, as the value type of
** the operands: f16 and bf16 have the loops of f32, without the rounding. NULL where not
** offered. */
typedef struct tidei_vm_kernels {
    const char *name;
    tidei_vm_fn *op[TIDEI_OP_COUNT][TIDE_DTYPE_COUNT];
    /* [from][to]; to f16 and bf16: a float, rounded */
    tidei_vm_fn *cast[TIDE_DTYPE_COUNT][TIDE_DTYPE_COUNT];
    /* f16, bf16: 16 bits to and from values */
    tidei_vm_fn *load[TIDE_DTYPE_COUNT], *store[TIDE_DTYPE_COUNT];
    tidei_vm_fn *copy[TIDEI_VM_WIDTHS], *splat[TIDEI_VM_WIDTHS]; /* splat: dst[i] = a[0] */
    tidei_vm_gather_fn *gather[TIDEI_VM_WIDTHS];
    tidei_vm_scatter_fn *scatter[TIDEI_VM_WIDTHS];
    tidei_vm_linear_fn *linear;
    tidei_vm_rows_fn *rows[TIDEI_FOLD_ALL + 1][TIDE_DTYPE_COUNT]; /* SUM to ALL, by accumulator */
    tidei_vm_argstep_fn *argstep[2][TIDE_DTYPE_COUNT];            /* [0]: min, [1]: max */
    tidei_vm_argpick_fn *argpick[2][TIDE_DTYPE_COUNT];
} tidei_vm_kernels;

/* Fill a zeroed table; one for each compilation of vm_kernels.c. */
void tidei_vm_kernels_base(tidei_vm_kernels *k);
void tidei_vm_kernels_avx2(tidei_vm_kernels *k);
void tidei_vm_kernels_avx512(tidei_vm_kernels *k);
/* The loops over complex numbers: those of avx2 are avx512's too. */
void tidei_vm_kernels_complex_base(tidei_vm_kernels *k);
void tidei_vm_kernels_complex_avx2(tidei_vm_kernels *k);

/* The sets that this machine can run, best first; NULL beyond the last. */
const tidei_vm_kernels *tidei_vm_kernels_at(unsigned i);

typedef struct tidei_vm_program tidei_vm_program;
/* Compiles p for k. TIDE_E_UNSUPPORTED where p uses what k does not offer, TIDE_E_HOST_NOMEM. rt
** may be NULL. */
tide_status tidei_vm_compile(tidei_runtime *rt, const tidei_program *p, const tidei_vm_kernels *k,
                             const char *op, tidei_vm_program **out);
void tidei_vm_release(tidei_runtime *rt, tidei_vm_program *vp);

/* A tidei_call with its addresses. `base` is the address of the element at index 0, strides are in
** elements. */
typedef struct tidei_vm_operand {
    unsigned char *base;
    int64_t strides[TIDE_MAX_RANK];
} tidei_vm_operand;
typedef struct tidei_vm_call {
    int ndim, nred;
    bool backwards; /* scans, as in tidei_call */
    int64_t shape[TIDE_MAX_RANK];
    tidei_vm_operand in[TIDEI_INPUTS_MAX], out[TIDEI_OUTS_MAX];
    unsigned char scalars[TIDEI_SCALARS_MAX][16];
} tidei_vm_call;
/* Executes on the calling thread, and on others of its team where there is much to do; the same
** bits come however many there are. Never fails. Needs 384 KiB of stack. */
void tidei_vm_run(const tidei_vm_program *vp, const tidei_vm_call *c);

#endif
