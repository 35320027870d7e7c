/* memory_kinds.h: pinned and unified memory, the kinds beside the device's own: the budgets that
** they count against, their pools, advice.
**
** Two budgets. A device's limits bound what is backed of the kinds that take room on it, device and
** unified memory; unified memory counts as if all of it were on the card, as any kernel may bring
** it there. Beside them every runtime bounds what its arrays take of the host's memory, pinned and
** unified memory (TIDE_PINNED_LIMIT).
**   kind      device's limits   host's limit
**   device    counts            -
**   unified   counts            counts
**   pinned    -                 counts
** Each kind has a pool of its own on each device, opened at its first use, whose blocks never move;
** blocks of different kinds never mix. These pools serve arrays alone: workspaces are always device
** memory.
** What must stay true: pinned memory is in no figure of the device's; unified memory is in those of
** both budgets. */
#ifndef TIDEI_MEMORY_KINDS_H
#define TIDEI_MEMORY_KINDS_H

#include "runtime/pool/budget.h"
#include <tide/memory.h>

/* The pool that serves the kind, TIDE_MEMORY_DEFAULT being the runtime's; device memory: the
** calling thread's current pool. Opens it at its first use. TIDE_E_UNSUPPORTED where the device has
** no such memory, TIDE_E_INVALID for a value that is no kind. */
tide_status tidei_kind_pool(tidei_dev *d, tide_memory kind, const char *op, tidei_pool **out);

/* Opens the pool of the kind that the settings name for arrays; and forgets what the device has of
** kinds, once its pools are closed. */
tide_status tidei_memory_kinds_open(tidei_dev *d);
void tidei_memory_kinds_close(tidei_dev *d);

/* Advice belongs to addresses and outlives a block: so advice is noted, and taken back when a block
** at these addresses is handed out again. `block`: the live block's address. */
typedef struct tidei_advised tidei_advised;
tide_status tidei_advise(tidei_dev *d, tidei_addr block, size_t offset, size_t bytes,
                         tidei_advice advice);
void tidei_unadvise(tidei_dev *d, tidei_addr addr, size_t bytes);
void tidei_advised_free(tidei_dev *d);

#endif
