/* select_host.h: the host's kernels that pick elements of rows without sorting these
** (select_host.c). */
#ifndef TIDEI_ORDER_SELECT_HOST_H
#define TIDEI_ORDER_SELECT_HOST_H

#include "arrays/order/keys.h"

/* An od_top: as order_top_* of select.cu. */
void tidei_top_host(const void *params);

#define OD_FEW_RANKS   32                /* quantiles of a row, beyond which a sort is no slower */
#define OD_LONGEST_ROW ((od_i64)1 << 31) /* that is counted */
/* An od_quantiles, whose room is `slots` times od_quantiles_room(space.length) words. */
void tidei_quantiles_host(const void *params);
od_i64 tidei_quantiles_room(od_i64 length);

#endif
