/* memory_kinds.h: memory of other kinds than the device's own, pinned and unified: what it counts
** against, its pools, advice.
**
** Two budgets. A device's limits bound what is backed of the kinds that take room on it, device and
** unified memory; unified memory counts as if all of it were on the card, where any kernel may
** bring it. Beside them every runtime bounds what its arrays take of the host, pinned and unified
** memory (TIDE_PINNED_LIMIT): it is not the card that runs out of those. Each kind has a pool of
** its own on each device, opened at its first use, from which nobody's array moves; blocks of
** different kinds never mix. They serve arrays alone: workspaces are always device memory.
** What must stay true: pinned memory is in no figure of the device's; unified memory is in those of
** both budgets. */
#ifndef TIDEI_MEMORY_KINDS_H
#define TIDEI_MEMORY_KINDS_H

#include "runtime/base/memory_kind.h"
#include "runtime/pool/pool.h"
#include <tide/memory.h>

/* The host's memory in a runtime's arrays. In tidei_runtime. */
typedef struct tidei_host_budget {
    size_t limit; /* on `backed`; fixed once open */
    _Atomic size_t backed, live;
    /* live + request at which the policy wants to be asked at an allocation */
    _Atomic size_t wake_at;
} tidei_host_budget;

/* Reads the limit from the settings. */
void tidei_host_budget_init(tidei_runtime *rt);

/* Counted in all the budgets that the kind is part of, before the driver is asked: TIDE_E_NOMEM
** beyond the device's limit, TIDE_E_HOST_NOMEM beyond the host's. And back. */
tide_status tidei_back_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes);
void tidei_unback_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes);

/* The pool that serves the kind, TIDE_MEMORY_DEFAULT being the runtime's; device memory: the
** calling thread's current pool. Opens it at its first use. TIDE_E_UNSUPPORTED where the device has
** no such memory, TIDE_E_INVALID for a kind that there is not. */
tide_status tidei_kind_pool(tidei_dev *d, tide_memory kind, const char *op, tidei_pool **out);

/* Advice belongs to addresses and outlives a block: what was advised is noted, and the advice taken
** back when a block there is handed out again. `block`: the live block's address. */
typedef struct tidei_advised tidei_advised;
tide_status tidei_advise(tidei_dev *d, tidei_addr block, size_t offset, size_t bytes,
                         tidei_advice advice);
void tidei_unadvise(tidei_dev *d, tidei_addr addr, size_t bytes);
void tidei_advised_free(tidei_dev *d);

#endif
