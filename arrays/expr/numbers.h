/* numbers.h: the numbers of an expression's application: computed among themselves on the host
** (weak.c), and, within a graph's function, those that are another value at each run of the graph.
**
** Model. A number of a graph is an argument of the kind TIDE_ARG_NUMBER: which number of the run it
** is, and no value. An application takes the value of the run that goes on. Where its work is
** captured, what its numbers were computed from is kept with each node that they go into, and at
** each run of the graph the node's scalars are computed again. The same is kept once for the
** application: whether its program is for these numbers too is asked at each run. */
#ifndef TIDEI_NUMBERS_H
#define TIDEI_NUMBERS_H

#include "arrays/expr/front.h"
#include "runtime/memory/capture.h"

/* ---- computing ---- */

/* The value of number `id`: values[slot] of the computed ones. */
static inline const tide_arg *tidei_number(const tidei_weak *weaks, const tide_arg *values,
                                           uint16_t id) {
    return weaks[id].constant ? &weaks[id].value : &values[weaks[id].slot];
}
typedef enum {
    TIDEI_NUMBER_IS,
    TIDEI_NUMBER_TOO_LARGE,
    TIDEI_NUMBER_NO_POWER
} tidei_number_outcome;
/* Computes number w from the parameters and the numbers before it. */
tidei_number_outcome tidei_number_compute(const tidei_weak *weaks, const tidei_weak *w,
                                          const tide_arg *params, const tide_arg *values,
                                          tide_arg *out);
/* How the number of a limit lies beside its type's range (tidei_beyond). */
static inline int8_t tidei_number_beyond(const tidei_weak *weaks, const tide_arg *values,
                                         const tidei_limit *l) {
    return l->weak == UINT16_MAX
               ? 0
               : (int8_t)tidei_beyond(tidei_number(weaks, values, l->weak), l->dtype);
}

/* ---- those of a graph's run ---- */

/* A run of a graph whose function goes on, in the thread's record. */
typedef struct tidei_graph_call {
    const tide_arg *args;
    size_t n;
    int32_t number; /* numbers have it, so that another run's are told apart */
} tidei_graph_call;

/* Copies n arguments, numbers of the run by their values; *which: their bits. TIDE_E_INVALID: one
** is of another run. */
tide_status tidei_numbers_look_up(const tidei_graph_call *call, const tide_arg *args, size_t n,
                                  const char *op, tide_arg *out, uint32_t *which);
/* Where the calling thread captures: how many nodes there are so far; afterwards, those that came
** since are of the pass, whose scalars are to be computed again at each run. `args`: as they were
** given. */
unsigned tidei_numbers_from(tidei_runtime *rt);
tide_status tidei_numbers_keep(tidei_runtime *rt, unsigned from, const tidei_plan *plan,
                               const tidei_pass *pass, const tide_arg *args, unsigned n,
                               const char *op);
/* Where the calling thread captures: what it did is for runs whose numbers lie beside the limits of
** `first`, the plan of the signature, as those of `ran` did, the plan for them; can be stored as
** that has them; and have no error. */
tide_status tidei_numbers_watch(tidei_runtime *rt, const tidei_plan *first, const tidei_plan *ran,
                                const tide_arg *args, unsigned n, const char *op);
/* Likewise: the application has failed for what its numbers are, and the function may go on: so
** what it does is for no other run. */
void tidei_numbers_failed(tidei_runtime *rt);

#endif
