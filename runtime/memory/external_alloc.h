/* external_alloc.h: external allocations: another allocator (PyTorch, say) takes memory of a pool,
** by address and in the order of a stream.
**
** Model. An external block is a storage that is pinned from its birth to its end; the runtime keeps
** a table from addresses to these storages. We do not see the work that uses it. So an allocation
** orders the block's stream after all earlier uses; and a free says that the uses end with what is
** queued on its stream by then, by the tick that the stream gives out next. */
#ifndef TIDEI_EXTERNAL_ALLOC_H
#define TIDEI_EXTERNAL_ALLOC_H

#include "runtime/pool/pool.h"

typedef struct tidei_external_allocs tidei_external_allocs;

tide_status tidei_external_allocs_open(tidei_runtime *rt);
void tidei_external_allocs_close(
    tidei_runtime *rt); /* returns the external blocks not freed yet; before the pools close */

/* A block that what is queued on s from now on may use; NULL on failure, with the error set. The
** thread is attached to the runtime, the stream the pool's device's. `kept`: it is not released
** meanwhile. */
void *tidei_external_alloc(tidei_pool *pool, tidei_stream *s, bool kept, size_t bytes,
                           const char *op);
/* Its uses end with what is queued on s by now. False: there is no external block
** at that address. */
bool tidei_external_free(tidei_runtime *rt, tidei_stream *s, void *ptr);

#endif
