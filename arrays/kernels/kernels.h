/* kernels.h: kernels as CUDA text, compiled once, kept in memory (kernels.c) and on disk
** (cache.c). */
#ifndef TIDEI_KERNELS_H
#define TIDEI_KERNELS_H

#include "runtime/runtime.h"

/* device memory that loading a kernel is assumed to need */
#define TIDEI_LOADED_BYTES (64 * TIDEI_KIB)

/* The kernel `name` of `source` for device d: from memory, else from disk, else compiled;
** single-flight a source. It begins with kt_grid_wait (text.h, which the source begins with). The
** source is copied. The kernel lives as long as the runtime. Loading and compiling climb the
** ladder. */
tide_status tidei_kernel_get(tidei_dev *d, const char *name, const char *source, const char *op,
                             tidei_dkernel **out);
/* The same for a name and a source that neither move nor change while the runtime is open: found by
** their addresses. The source is told which of its kernels is wanted, so that it may leave the
** others out, which all take time to compile: TIDE_WANTS_<name> is 1. */
tide_status tidei_kernel_get_fixed(tidei_dev *d, const char *name, const char *source,
                                   const char *op, tidei_dkernel **out);
/* For who will soon ask for this kernel, and does something else before, such as asking for
** another: if it has to be compiled, that begins now, beside the calling thread (ahead.h). The name
** is static. Nothing fails here. */
void tidei_kernel_ahead(tidei_dev *d, const char *name, const char *source);
void tidei_kernel_ahead_fixed(tidei_dev *d, const char *name, const char *source);
/* Takes over the images of what was compiled while the first device opened: each counts as
** compiled, and goes to the disk, where it is asked for. */
void tidei_kernels_take_early(tidei_runtime *rt, tidei_early *e);
tide_status tidei_kernels_open(tidei_runtime *rt);
void tidei_kernels_close(tidei_runtime *rt); /* all work on the devices is complete */

#endif
