/* model.h: what things cost in the lab: collections, memory that is new, a climb.
**
** Whole nanoseconds, bytes and parts of a thousand. A model belongs to a workload, which knows what
** its program is; a study may change single figures. */
#ifndef TIDEI_LAB_MODEL_H
#define TIDEI_LAB_MODEL_H

#include "gc/params.h"

typedef struct tidei_lab_model {
    unsigned levels; /* TIDEI_OFFERS_* : what the collector offers */
    /* A collection takes so long, ... */
    uint64_t minor_ns, full_ns;
    /* ... so much more for each array that it looks at (a minor one: those made since the last
    ** collection; in thousandths of a ns), ... */
    uint64_t minor_array_ps, full_array_ps;
    /* ... for each MiB of the program's other heap (full ones only), ... */
    uint64_t heap_mib, heap_mib_ns;
    /* ... and for each other thread, which is stopped; all that times a random number of
    ** thousandths. */
    uint64_t thread_ns;
    uint32_t spread_low, spread_high;
    uint64_t stall_ns;     /* of a climb, beyond its collection: map, trim, try again */
    bool climbs_at_once;   /* else it waits for the device before it collects */
    uint64_t fresh_mib_ns; /* of a MiB that the pool takes from the driver */
    uint64_t total;        /* bytes of the device, and of the second budget */
    uint64_t page_bytes;   /* limits are rounded up to pages of so many bytes; 0: they are not */
} tidei_lab_model;

/* What was measured of bdwgc 8.2.2 with a table of its own for arrays, one marker (an array of 64
** bytes: 12 ns at 1e5, 17 ns at 1e6 live ones; 0.02 ms for an empty heap; 23 us for each thread
** that is stopped), and of pages of a GPU (50 us for 2 MiB). A climb waits, trims and maps anew;
** results hardly move from 2 to 100 ms. */
#define TIDEI_LAB_MODEL                                                                            \
    {                                                                                              \
        .levels = TIDEI_OFFERS_FULL, .minor_ns = 20000, .full_ns = 20000, .minor_array_ps = 17000, \
        .full_array_ps = 17000, .heap_mib_ns = 150000, .thread_ns = 23000, .spread_low = 800,      \
        .spread_high = 1300, .stall_ns = 20000000, .fresh_mib_ns = 25000,                          \
        .total = (uint64_t)80 << 30                                                                \
    }

/* No run takes longer, in ns: four years and a half. Eleven times that, in which costs are
** reckoned, and sums of a few such times are far from 2^64. */
#define TIDEI_LAB_TIME_MOST ((uint64_t)1 << 57)
/* What a single thing costs at most: it ends a run that comes to it. */
#define TIDEI_LAB_COST_MOST ((uint64_t)1 << 60)

static inline uint64_t tidei_lab_at_most(uint64_t ns) {
    return ns < TIDEI_LAB_COST_MOST ? ns : TIDEI_LAB_COST_MOST;
}
/* a * b / by, at most TIDEI_LAB_COST_MOST; a product beyond 64 bits is rare, and then exact too. */
static inline uint64_t tidei_lab_part(uint64_t a, uint64_t b, uint64_t by) {
    uint64_t all;
    if (!__builtin_mul_overflow(a, b, &all)) return tidei_lab_at_most(all / by);
    unsigned __int128 ns = (unsigned __int128)a * b / by;
    return ns < TIDEI_LAB_COST_MOST ? (uint64_t)ns : TIDEI_LAB_COST_MOST;
}

/* A collection that looks at so many arrays, as it takes a single thread, before the spread. */
static inline uint64_t tidei_lab_pause(const tidei_lab_model *m, bool full, uint64_t arrays) {
    return full ? tidei_lab_at_most(m->full_ns) + tidei_lab_part(arrays, m->full_array_ps, 1000) +
                      tidei_lab_part(m->heap_mib, m->heap_mib_ns, 1)
                : tidei_lab_at_most(m->minor_ns) + tidei_lab_part(arrays, m->minor_array_ps, 1000);
}
/* What the first `bytes` that a pool takes cost together. */
static inline uint64_t tidei_lab_price(const tidei_lab_model *m, uint64_t bytes) {
    return tidei_lab_part(bytes, m->fresh_mib_ns, TIDEI_MIB);
}

/* A limit as a runtime with such pages takes it. */
static inline uint64_t tidei_lab_limit(const tidei_lab_model *m, uint64_t limit) {
    uint64_t over = m->page_bytes ? limit % m->page_bytes : 0,
             more = over ? m->page_bytes - over : 0;
    return limit > UINT64_MAX - more ? limit : limit + more;
}

/* The figures that can be changed by name. Returns how many. */
size_t tidei_lab_model_params(const tidei_param **table);
/* "full=5ms,fresh=100us": changes those. False: what is wrong, and where, is in `why`. */
bool tidei_lab_model_change(tidei_lab_model *m, const char *text, char *why, size_t cap);

#endif
