/* ahead.h: texts that are compiled before their kernels are asked for, each on a thread of its own:
** who needs several kernels names those that come later, then asks for the first.
**
** Only the compiling is done ahead, which needs neither device nor memory of it; images are loaded
** where the kernel is asked for. What fails here fails again there, and is told there. */
#ifndef TIDEI_KERNEL_AHEAD_H
#define TIDEI_KERNEL_AHEAD_H

#include "runtime/runtime.h"

typedef struct tidei_aheads tidei_aheads;
tidei_aheads *tidei_aheads_open(tidei_runtime *rt); /* NULL: host memory exhausted */
void tidei_aheads_close(tidei_aheads *a);           /* waits for what is compiling; NULL is legal */

/* Begins to compile the text under this key, which is taken over (malloc'ed; it ends with the
** source) as is the name (static). Does nothing where the key is there, or one compiles for each
** processor beside the caller's. */
void tidei_ahead_begin(tidei_aheads *a, tidei_device *d, const char *name, const char *source,
                       char *key, size_t key_bytes);
/* What somebody has compiled under this key: takes both over, which are malloc'ed. False: host
** memory is exhausted, and both are the caller's still. */
bool tidei_ahead_give(tidei_aheads *a, char *key, size_t key_bytes, void *image, size_t bytes);
/* What was compiled under exactly this key, malloc'ed: waits for that. False: nothing was begun, or
** it failed. */
bool tidei_ahead_take(tidei_aheads *a, const char *key, size_t key_bytes, void **image,
                      size_t *image_bytes);

#endif
