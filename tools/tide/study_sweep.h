/* study_sweep.h: the policies of a study, from their texts.
**
** "reserve(x0=0.1:0.9:0.1,stall=5ms:20ms:5ms)" stands for each policy whose figures go from the
** first up to the second in steps of the third; several such parameters for each combination. A
** step counts from the first, in whole multiples, so that no error adds up; the last one is within
** a thousandth of a step. "oracle" is the optimum, which is no policy. */
#ifndef TIDE_STUDY_SWEEP_H
#define TIDE_STUDY_SWEEP_H

#include "tools/tide/study.h"

#define TIDEI_STUDY_ORACLE   "oracle"
#define TIDEI_STUDY_POLICIES 256

typedef struct tidei_study_sweep_list {
    tidei_study_policy at[TIDEI_STUDY_POLICIES]; /* their texts belong to the list */
    size_t n;
} tidei_study_sweep_list;

/* Adds them. False: what is wrong, and where, is in `why`; some may have been added. */
bool tidei_study_sweep(tidei_study_sweep_list *l, const char *text, char *why, size_t cap);
void tidei_study_sweep_clear(tidei_study_sweep_list *l);

#endif
