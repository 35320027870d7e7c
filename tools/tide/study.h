/* study.h: many runs of the lab: each program under each limit, policy and seed.
**
** Model. The runs are numbered; threads take the next one until there is none, and each writes its
** figures into its own place. So the results do not depend on how many threads there are, or on
** who was first. A row sums up the runs of one program, limit and policy over the seeds. Runs of a
** policy that is somebody else's (gc/own_policy.h) are each in a process of their own, and what
** went wrong there is kept beside the figures. */
#ifndef TIDE_STUDY_H
#define TIDE_STUDY_H

#include "gc/lab/simulate.h"
#include "tools/tide/child.h"

typedef struct tidei_study_limit {
    enum { TIDEI_LIMIT_OWN, TIDEI_LIMIT_NONE, TIDEI_LIMIT_BYTES, TIDEI_LIMIT_FACTOR } kind;
    uint64_t bytes;
    double factor;    /* of the program's peak */
    const char *text; /* as it was given */
} tidei_study_limit;

typedef struct tidei_study_policy {
    tidei_policy_choice choice;
    const char *text; /* as it was given */
    bool oracle;      /* no policy: the optimum (gc/lab/oracle.h) */
} tidei_study_policy;

/* What is wrong with a run, or a row. */
typedef struct tidei_study_trouble {
    tidei_child_end end; /* not done: there are no figures */
    tidei_policy_nonsense nonsense;
    bool too_long; /* there are no figures either */
} tidei_study_trouble;

typedef struct tidei_study {
    const tidei_lab_program *programs;
    const tidei_study_limit *limits;
    const tidei_study_policy *policies;
    size_t nprograms, nlimits, npolicies;
    unsigned seeds, threads; /* at least 1 */
    unsigned patience;       /* seconds that a run of somebody else's policy may take; at least 1 */
    bool shows_progress;     /* on stderr */
    tidei_lab_figures *runs; /* by program, limit, policy, seed: made by tidei_study_run */
    tidei_study_trouble *troubles; /* likewise */
} tidei_study;

typedef struct tidei_study_row {
    uint64_t limit;    /* TIDEI_NO_LIMIT */
    const char *lacks; /* why there is no such row; the figures are 0 then. NULL: there is */
    bool near;         /* an optimum of some seed may be a little better */
    /* percent of the ideal time; overhead + a tenth of the share; behind each half of its 95 %
    ** interval over the seeds */
    double overhead, overhead_off, cost, cost_off;
    double share, fruitless_share; /* the collector's time, percent of the ideal time */
    /* where `failed` is not 0, the runs did less than they were to, and their times are no measure
    ** of the policy */
    double collections, minor, fruitless, forced, stalls, failed;
    uint64_t worst_step_ns; /* of all seeds; the other figures are means */
    double p99_step_ns, peak_held, mean_held;
} tidei_study_row;

/* "4GiB", "1.2x", "none", bytes. False: none of these. */
bool tidei_study_limit_parse(const char *text, tidei_study_limit *out);
/* What the limit comes to for that program, in bytes of the device, of which it has no more than it
** has: `none` apart, which is TIDEI_NO_LIMIT. A program that is meant for no
** limit in particular has 1.2 times its peak as its own. */
uint64_t tidei_study_limit_of(const tidei_study_limit *l, const tidei_lab_program *p);

/* A run of the study; its seeds count from 0. */
tidei_lab_options tidei_study_options_of(const tidei_study *s, size_t program, size_t limit,
                                         size_t policy, unsigned seed);
/* Student's t for 95 %, by degrees of freedom: never less than it is, for those between two. */
double tidei_study_student(unsigned freedom);

tide_status tidei_study_run(tidei_study *s); /* TIDE_E_HOST_NOMEM */
tidei_study_row tidei_study_row_of(const tidei_study *s, size_t program, size_t limit,
                                   size_t policy);
/* The first run of a row that did not end, and the answers of all that made no sense. False: all is
** well with it. */
bool tidei_study_trouble_of(const tidei_study *s, size_t program, size_t limit, size_t policy,
                            tidei_study_trouble *out);
void tidei_study_clear(tidei_study *s); /* the runs */

#endif
