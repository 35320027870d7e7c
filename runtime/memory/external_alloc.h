/* external_alloc.h: what a runtime keeps for memory lent by address (tide_pool_malloc). */
#ifndef TIDEI_LEND_H
#define TIDEI_LEND_H

#include "runtime/base/base.h"

typedef struct tidei_loans tidei_loans;

tide_status tidei_loans_open(tidei_runtime *rt);
void tidei_loans_close(tidei_runtime *rt); /* returns what is still lent; before the pools close */

#endif
