/* study_costs.h: what collections, climbs and new memory took in recorded runs, as a program's
** model.
**
** Model. A single recording tells of its own collections: their mean, and what an array adds, by
** least squares. Where runs of the same program under several limits are there too, collections
** looked at more arrays in each group than in the one before: the middle ones of all groups are the
** points of a curve. A machine's pace is no part of it: each run's times are those that it would
** have had at the pace of the median run, by what the program itself took. The first collection of
** a run, whose code and data are in no cache yet, is apart from the others. What new memory costs
** is what those runs came to know of it as their pools grew. */
#ifndef TIDE_STUDY_COSTS_H
#define TIDE_STUDY_COSTS_H

#include "gc/lab/program.h"
#include "tools/tide/trace.h"

/* Runs of a program under one limit. */
typedef struct tidei_study_runs {
    const tidei_trace *at;
    size_t n;
} tidei_study_runs;

/* How long a run stood still for collections and climbs. */
uint64_t tidei_study_stood_ns(const tidei_trace *t);
/* That of the runs which took the median time of its own; there is at least one. */
const tidei_trace *tidei_study_median(const tidei_study_runs *r);

/* The costs of the program of `t`, from `t` and from n groups of runs, by growing limit, each with
** at least one; how pauses differ, and what new memory costs, as group `of` has it, and all times
** at its pace. TIDE_E_HOST_NOMEM. */
tide_status tidei_study_learn(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                              size_t of, tidei_lab_program *p);

#endif
