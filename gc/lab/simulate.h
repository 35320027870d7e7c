/* simulate.h: playing a program in virtual time, under a policy.
**
** Model. Each thread has a clock; the event of the thread that is furthest behind comes next. The
** device does what is queued in the order in which it was queued, one piece at a time. At a block's
** making and at a sync point the policy is asked as gc/collect.c asks it (only beyond its wake_at
** at a making), by the same functions. A collection stops every thread that computes; threads that
** wait for the device go on waiting. It frees what has died: a minor one what was made since the
** last collection, and the rest counts as old from then on. What does not fit below the limit
** waits for the device (unless the model says otherwise), collects, takes the price of a climb, and
** tries again, as long as there is anything dead that can be found; then it has failed, and its
** death is nobody's. Freed memory stays with the pool; only what is held beyond that is new, and
** has its price, which is the same in however many pieces (unless the program's times have it
** already). The k-th collection of a run draws the k-th number of the seed's: so runs under other
** policies pay the same, and no place is lucky.
** What must stay true: allocated = live + dead + freed, in bytes, at each moment; time never goes
** back; the result depends on the program, the options and the seed alone: times and bytes are
** integers, and where a policy computes in doubles it adds, multiplies, divides, compares and takes
** square roots, which IEEE 754 fixes to the last bit. The rest of libm is anyone's rounding, and a
** product that is fused with a sum (-ffp-contract) is another number: so no function of libm's but
** sqrt, fmin and fmax, which are exact, and no contraction in the lab or in a policy. */
#ifndef TIDEI_LAB_SIMULATE_H
#define TIDEI_LAB_SIMULATE_H

#include "gc/lab/program.h"

/* What happened, for pictures. */
typedef enum {
    TIDEI_LAB_HELD,      /* `bytes` are held from now on (of the device), `live` of them live */
    TIDEI_LAB_COLLECTED, /* a collection took `ns`, up to now, and freed `bytes` */
    TIDEI_LAB_STALLED    /* what did not fit took `ns`, up to now, with its collections */
} tidei_lab_what;
typedef struct tidei_lab_note {
    tidei_lab_what what;
    uint64_t at_ns, ns, bytes;
    uint64_t live, backed; /* of what is held; 0 otherwise */
    int level;             /* of a collection; 0 otherwise */
    bool early;            /* asked for by the policy */
    const char *reason;    /* the policy's; static text */
} tidei_lab_note;

/* A collection that was decided beforehand. */
typedef struct tidei_lab_planned {
    uint32_t event; /* the program's: a making or a sync point */
    int level;
} tidei_lab_planned;
typedef struct tidei_lab_plan {
    const tidei_lab_planned *at; /* by event; at most one each */
    size_t n;
} tidei_lab_plan;

typedef struct tidei_lab_options {
    const tidei_policy_choice *policy;
    const tidei_lab_plan *plan; /* for a program of one thread: not the policy decides, but this */
    uint64_t limit[TIDEI_LAB_BUDGETS]; /* TIDEI_NO_LIMIT: the model's total */
    const tidei_lab_model *model;      /* NULL: the program's */
    uint64_t seed;
    bool ideal; /* blocks are freed as they die, there is no limit, and nobody collects */
    void (*note)(void *user, const tidei_lab_note *n); /* (may be NULL) */
    void *user;
    tidei_policy_nonsense *nonsense; /* (may be NULL) receives the answers that made no sense */
} tidei_lab_options;

typedef struct tidei_lab_figures {
    uint64_t ns; /* when the last thread ended */
    size_t steps;
    uint64_t worst_step_ns, p99_step_ns;
    uint64_t collections, minor, forced; /* all; the minor ones; those of climbs */
    uint64_t fruitless;                  /* freed less than a hundredth of what was held */
    uint64_t pause_ns, fruitless_ns;     /* of all collections; of the fruitless ones */
    uint64_t stalls, failed;             /* requests that did not fit at once; that never did */
    uint64_t fresh_ns;                   /* spent on memory that was new */
    uint64_t peak_held[TIDEI_LAB_BUDGETS], mean_held[TIDEI_LAB_BUDGETS];
    uint64_t allocated, live, dead, freed; /* bytes, at the end */
    uint64_t near;                         /* 1: an optimum, but perhaps not quite (oracle.h) */
} tidei_lab_figures;

/* TIDE_E_HOST_NOMEM; TIDE_E_UNSUPPORTED: it, or what it leaves queued, comes to more than
** TIDEI_LAB_TIME_MOST. */
#define TIDEI_LAB_TOO_LONG "takes longer than 2^57 ns (4.5 years) of virtual time"
tide_status tidei_lab_simulate(const tidei_lab_program *p, const tidei_lab_options *o,
                               tidei_lab_figures *out);

#endif
