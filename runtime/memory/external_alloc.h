/* external_alloc.h: a runtime's table of external blocks, which tide_pool_malloc hands out by
** address. */
#ifndef TIDEI_EXTERNAL_ALLOC_H
#define TIDEI_EXTERNAL_ALLOC_H

#include "runtime/base/base.h"

typedef struct tidei_external_allocs tidei_external_allocs;

tide_status tidei_external_allocs_open(tidei_runtime *rt);
void tidei_external_allocs_close(
    tidei_runtime *rt); /* returns the external blocks not freed yet; before the pools close */

#endif
