/* sort_host.h: the host's kernels of this folder. */
#ifndef TIDEI_ORDER_SORT_HOST_H
#define TIDEI_ORDER_SORT_HOST_H

#include <stdbool.h>
#include "arrays/order/keys.h"

/* An od_sort with room for one row: 64-bit keys and places, twice each. */
void tidei_sort_host(const void *params);

#endif
