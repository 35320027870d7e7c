/* cache.h: compiled kernels on disk: a folder of files, one a kernel, found by the hash of
** their key. */
#ifndef TIDEI_KERNEL_CACHE_H
#define TIDEI_KERNEL_CACHE_H

#include "runtime/runtime.h"

/* The cache that the runtime's settings describe; the folder is made and looked at when it is first
** needed. NULL: host memory exhausted. */
typedef struct tidei_kernel_cache tidei_kernel_cache;
tidei_kernel_cache *tidei_kernel_cache_open(tidei_runtime *rt);
void tidei_kernel_cache_close(tidei_kernel_cache *c); /* NULL is legal */

/* The image kept under exactly this key, malloc'ed; false if there is none that is whole, or none
** that can be had. An entry that is damaged, or that others could write, is removed.
** Any thread; never fails otherwise: whatever the file system refuses is a miss, said at log level
** debug. */
bool tidei_kernel_cache_find(tidei_kernel_cache *c, const char *key, size_t key_bytes, void **image,
                             size_t *bytes);
/* Keeps an image. Readers see it whole or not at all. The folder stays within its bound: the
** entries used longest ago go. Each runtime counts for itself, and again whenever it has added a
** sixteenth: by so much may each be beyond. */
void tidei_kernel_cache_keep(tidei_kernel_cache *c, const char *key, size_t key_bytes,
                             const void *image, size_t bytes);
/* Removes the entry: its image does not load. */
void tidei_kernel_cache_forget(tidei_kernel_cache *c, const char *key, size_t key_bytes);

#endif
