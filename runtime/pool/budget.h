/* budget.h: what counts against the limits, of a device and of a runtime.
**
** Two budgets. A device's limits bound what is backed of the kinds that take room on it, device and
** unified memory; unified memory counts as if all of it were on the card, where any kernel may
** bring it. Beside them every runtime bounds what its arrays take of the host, pinned and unified
** memory (TIDE_PINNED_LIMIT): it is not the card that runs out of those.
** Memory is counted before the driver is asked for it, so that a limit is never passed, and threads
** that come at once see each other. */
#ifndef TIDEI_BUDGET_H
#define TIDEI_BUDGET_H

#include "runtime/pool/pool.h"
#include <tide/memory.h>

/* Memory on its way to a pool or back to the driver: it counts against the limits, and nobody can
** have it yet. Device calls take long, so a climb meanwhile would fail for want of what is about to
** be there. Between begin, after tidei_back or before memory is taken from where it could be had,
** and end, once it can be had or no longer counts, a thread takes part in no climb. `changed`:
** something came of it. */
typedef struct tidei_inflight_growth {
    _Atomic unsigned under_way;
    _Atomic uint64_t ended; /* ended growths that changed what can be had */
} tidei_inflight_growth;

/* A device's. In tidei_dev. */
struct tidei_budget {
    /* limit as given, rounded up to pages; SIZE_MAX: none */
    _Atomic size_t backed, library, limit, soft_limit;
    /* of backed; counted before and until after it is */
    _Atomic size_t unified;
    _Atomic size_t live, peak_live, peak_backed;
    _Atomic uint64_t retries, driver_allocs, driver_frees;
    tidei_inflight_growth inflight_growth;
};

/* The host's memory in a runtime's arrays; and what is backed on all its devices. In
** tidei_runtime. */
struct tidei_host_budget {
    _Atomic size_t on_devices;
    size_t limit; /* on `backed`; fixed once open */
    _Atomic size_t backed, live;
    /* live + request at which the policy wants to be asked at an allocation */
    _Atomic size_t wake_at;
};

/* Reads the limit from the settings. */
void tidei_host_budget_init(tidei_runtime *rt);

/* Counts the bytes in all budgets that the kind is part of, before the driver is asked:
** TIDE_E_NOMEM beyond the device's limit, TIDE_E_HOST_NOMEM beyond the host's. The second no longer
** counts them. */
tide_status tidei_back_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes);
void tidei_unback_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes);

/* The most that may be backed, library state included: the hard limit; while there is unified
** memory, no more than the device has. Otherwise the driver would hand out device memory by moving
** unified memory off the card, and then move both back and forth. */
size_t tidei_hard_limit(tidei_dev *d);

/* Counts memory that a pool is about to take from the driver against the limits, before the driver
** is asked. TIDE_E_NOMEM (no report) beyond the hard limit. */
tide_status tidei_back(tidei_dev *d, size_t bytes);
void tidei_unback(tidei_dev *d, size_t bytes);
bool tidei_library_back(tidei_dev *d,
                        /* the same for library state; false, without an error, beyond the limit */
                        size_t bytes);
void tidei_library_unback(tidei_dev *d, size_t bytes);
bool tidei_above_soft(tidei_dev *d, size_t bytes); /* whether so much more would be */
size_t tidei_left_to_back(tidei_dev *d);           /* bytes that the hard limit leaves now */

void tidei_inflight_growth_begin(tidei_dev *d);
void tidei_inflight_growth_end(tidei_dev *d, bool changed);
size_t tidei_library_bytes(tidei_dev *d); /* library state, as counted */

#endif
