/* study_costs.h: what collections, climbs and new memory took in recorded runs, as a program's
** model.
**
** Model. A single recording tells of its own collections: their mean, and what an array adds, by
** least squares. Where groups of runs of the same program under several limits are there too, the
** middle collection of each group is a point of a curve, by how many arrays it looked at. A
** machine's pace is no part of it: each run's times are those that it would have had at the pace of
** one run, by what the program itself took beside new memory. The first collection of a run, whose
** code and data are in no cache yet, is apart from the others. What new memory costs is what those
** runs came to know of it as their pools grew. */
#ifndef TIDE_STUDY_COSTS_H
#define TIDE_STUDY_COSTS_H

#include "gc/lab/program.h"
#include "tools/tide/trace.h"

/* Runs of a program under one limit. */
typedef struct tidei_study_runs {
    const tidei_trace *at;
    size_t n;
} tidei_study_runs;

/* Whether there was a collection, which a climb may have asked for in vain. */
bool tidei_study_collected(const tidei_trace_collection *c);
/* How long a run stood still for collections and climbs. */
uint64_t tidei_study_stood_ns(const tidei_trace *t);
/* That of the runs which took the median time of its own; there is at least one. */
const tidei_trace *tidei_study_median(const tidei_study_runs *r);

/* The costs of the program of `t`, from `t` and from n groups of runs, fewer than TIDEI_LAB_CURVE
** and each with at least one; how pauses differ, and what new memory costs, as group `of` has it,
** and all times at the pace of `run`, whose times the program has. TIDE_E_HOST_NOMEM. */
tide_status tidei_study_learn(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                              size_t of, const tidei_trace *run, tidei_lab_program *p);

#endif
