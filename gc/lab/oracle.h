/* oracle.h: the best that could have been done: an optimum that knows the whole program.
**
** Model. At each safe point of the program (a block's making, a sync point) there is a decision:
** collect, at a level that is offered, or not. What does not fit is collected for in any case, as
** simulate.h has it. The cost of a run is its time, and a tenth of the time of its collections on
** top. The oracle finds decisions of the least cost, by dynamic programming, and the figures are
** those of a run that follows them in simulate.c.
** A label stands for a way to come to a point of the program: x and y are the thread's time and the
** device's, each with the collector's tenth; what it freed; how far its pool has grown; how many
** collections it has had, on which the next ones' luck depends. What lives does not depend on
** decisions. Labels that differ in nothing else are compared by x and y: everything that follows
** adds to x, or raises one to the other, so what is less in both stays less. One that collected
** later may do whatever an earlier one does, with no more to look at. And what cannot come below a
** cost that was reached is dropped: the way from there without a pause, and the collections without
** which what is made from there on does not fit, each as short as one can be and hidden as far as
** the device is ever behind.
** What must stay true: an optimum is exact, or `near` is 1. It is exact where all labels that might
** lead to it could be looked at, which WORK_MOST bounds: memory that has a price makes too many of
** them, since how far a pool has grown is one more thing by which they differ. Then `near` is the
** best of some passes that compare labels whatever their luck will be, keep the most promising ones
** (the ways by x and y to the end, and a guess at what held bytes will cost), and of all policies
** with their usual parameters: a run that is possible, no worse than those, and not proved to be
** the best; nor worse than the rivals that a caller names. */
#ifndef TIDEI_LAB_ORACLE_H
#define TIDEI_LAB_ORACLE_H

#include "gc/lab/simulate.h"

/* Ten times the cost in ns. */
static inline uint64_t tidei_lab_cost(const tidei_lab_figures *f) {
    return 10 * f->ns + f->pause_ns;
}

/* Why there is no oracle for that program and model (NULL: the program's own); NULL: there is. */
const char *tidei_lab_oracle_lacks(const tidei_lab_program *p, const tidei_lab_model *m);
/* Policies with parameters of their own, of ours: the optimum is to be no worse than these. */
typedef struct tidei_lab_rivals {
    const tidei_policy_choice *const *at;
    size_t n;
} tidei_lab_rivals;
/* The options' limits, model, seed and note; its policy is not looked at. `rivals` may be NULL.
** TIDE_E_HOST_NOMEM; and TIDE_E_UNSUPPORTED with what it lacks. */
tide_status tidei_lab_oracle(const tidei_lab_program *p, const tidei_lab_options *o,
                             const tidei_lab_rivals *rivals, tidei_lab_figures *out);

#endif
