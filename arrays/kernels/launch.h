/* launch.h: our own kernels outside the expression engine, in both forms: a host function, and the
** CUDA text of the same name. Both take one struct of parameters by value. */
#ifndef TIDEI_LAUNCH_H
#define TIDEI_LAUNCH_H

#include "runtime/runtime.h"

typedef struct tidei_own_kernel {
    const char *name; /* both are constants, found again by their address */
    const char *text; /* CUDA C that defines `name`, which begins with kt_grid_wait (text.h) */
    tidei_host_fn host_fn;
    bool tells; /* may write the device's fault word, beside what its uses say */
} tidei_own_kernel;

/* kt_grid_wait for texts that are written as strings, without text.h. It waits only: nothing starts
** behind such a kernel before that ends. */
#define TIDEI_GRID_WAIT_TEXT                                                                       \
    "static __device__ void kt_grid_wait() {\n"                                                    \
    "#if __CUDA_ARCH__ >= 900\n"                                                                   \
    "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"                                 \
    "#endif\n"                                                                                     \
    "}\n"

#define TIDEI_OWN_BLOCK        256 /* threads, which kernels may count on */
#define TIDEI_OWN_BLOCKS_AN_SM 8   /* which fill it */

/* Runs k on the thread's current stream: `items` > 0 independent pieces of work, over which the
** kernel loops with any grid. The address of uses[i]'s first byte is added to the 64-bit field of
** the parameters at at[i], which holds how far from there the kernel's own first element lies. */
tide_status tidei_run_own(tidei_runtime *rt, const tidei_own_kernel *k, const tidei_use *uses,
                          unsigned n, void *params, size_t params_bytes, const size_t *at,
                          uint64_t items, const char *op);
/* The same by `blocks` > 0 blocks of `threads` threads: for kernels that begin or end with work for
** the whole block, and want few of them. */
tide_status tidei_run_own_blocks(tidei_runtime *rt, const tidei_own_kernel *k,
                                 const tidei_use *uses, unsigned n, void *params,
                                 size_t params_bytes, const size_t *at, unsigned threads,
                                 unsigned blocks, const char *op);
/* The same with `room` bytes of dynamic shared memory a block, 48 KiB at most. */
tide_status tidei_run_own_room(tidei_runtime *rt, const tidei_own_kernel *k, const tidei_use *uses,
                               unsigned n, void *params, size_t params_bytes, const size_t *at,
                               unsigned threads, unsigned blocks, unsigned room, const char *op);

/* k is run soon, and before it another kernel: where both have to be compiled, that happens side by
** side. */
void tidei_own_ahead(tidei_runtime *rt, const tidei_own_kernel *k);

#endif
