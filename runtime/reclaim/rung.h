/* rung.h: what a part registers with the reclaim ladder: its rungs, and what they are told of the
** climb.
**
** A rung gives memory back that its part holds, and returns the bytes it gave: to the pool, or to
** the driver. Each part has a table of its rungs (rungs.h), which a runtime registers when it opens
** (tidei_rungs_register). The ladder knows of a rung only what stands here. */
#ifndef TIDEI_RUNG_H
#define TIDEI_RUNG_H

#include "runtime/base/instance.h"
#include "runtime/base/memory_kind.h"

#define TIDEI_RUNGS_MOST 16 /* 14 there are */

/* A request for memory that did not fit, as it climbs. */
typedef struct tidei_climb {
    tidei_dev *d;
    size_t bytes;
    const char *what;
    tidei_mem_kind kind;
    bool outside;                   /* the memory wanted is for no pool */
    bool by_host;                   /* the last attempt lacked the host's memory */
    uint64_t climb_id;              /* names the climb where failures of reclaimables are logged */
    uint64_t *patience_ns;          /* time left to wait for collectors of other threads */
    unsigned rung;                  /* the one that gives now */
    size_t given[TIDEI_RUNGS_MOST]; /* by each so far */
    /* the ladder's */
    unsigned climbed;         /* rungs that ran */
    uint64_t inflight_growth; /* growths that had ended before the last attempt */
    uint64_t handed_out;      /* blocks, before the first rung */
} tidei_climb;

/* The order of the rungs: what costs the program least comes first. Each rung has a place of its
** own. */
typedef enum tidei_rung_place {
    TIDEI_RUNG_DRAIN,  /* ends arrays that are dead already */
    TIDEI_RUNG_SETTLE, /* only asks whether work is done */
    TIDEI_RUNG_PURGE_CHEAP,
    TIDEI_RUNG_MINOR,
    TIDEI_RUNG_STEAL, /* the block's first use waits, on the device */
    TIDEI_RUNG_FULL,
    TIDEI_RUNG_PURGE, /* destroying a library's handle syncs the device */
    TIDEI_RUNG_WAIT,
    TIDEI_RUNG_COMPACT, /* other blocks may be moved for the request */
    TIDEI_RUNG_TRIM,    /* what goes to the driver must be asked of it again */
    TIDEI_RUNG_DROP,    /* libraries set their state up again */
    TIDEI_RUNG_NEIGHBOURS,
    TIDEI_RUNG_SPILL, /* arrays come back by a copy each when they are used */
    TIDEI_RUNG_AWAIT  /* for threads of the program, which may be long */
} tidei_rung_place;

/* No slot is called with a lock held. From inside one a request for memory does not climb. */
typedef struct tidei_rung {
    const char *name; /* for the report, the log and recordings; NULL: the end of a table */
    tidei_rung_place place;
    /* TIDEI_ALLOC_*, added to those of the rungs before it: of the attempts from this rung on */
    unsigned flags;
    /* Gives to the driver: mostly what the rungs before it gave to the pools, so that it does not
    ** count twice. */
    bool to_driver;
    bool again; /* climbed again as long as it gives */
    /* NULL: all it does is to add its flags */
    size_t (*give)(const tidei_climb *c);
    /* (may be NULL) What it can give without waiting for the device or a collection, before the
    ** soft limit is passed. */
    size_t (*give_gently)(const tidei_climb *c);
} tidei_rung;

#endif
