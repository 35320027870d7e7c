/* external_alloc.h: what a runtime keeps for memory lent by address (tide_pool_malloc). */
#ifndef TIDEI_EXTERNAL_ALLOC_H
#define TIDEI_EXTERNAL_ALLOC_H

#include "runtime/base/base.h"

typedef struct tidei_external_allocs tidei_external_allocs;

tide_status tidei_external_allocs_open(tidei_runtime *rt);
void tidei_external_allocs_close(
    tidei_runtime *rt); /* returns what is still lent; before the pools close */

#endif
