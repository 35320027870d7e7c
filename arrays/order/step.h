/* step.h: running the steps of steps.h (step.c), and operands as these want them. */
#ifndef TIDEI_ORDER_STEP_H
#define TIDEI_ORDER_STEP_H

#include "arrays/order/results.h"
#include "arrays/order/types.h"

typedef enum {
    TIDEI_STEP_FIND,
    TIDEI_STEP_IS_IN,
    TIDEI_STEP_BEGINS,
    TIDEI_STEP_TELL,
    TIDEI_STEP_INVERT,
    TIDEI_STEP_ALONG,
    TIDEI_STEP_QUANTILE,
    TIDEI_STEP_EDGES,
    TIDEI_STEP_BINS,
    TIDEI_STEP_STARTS,
    TIDEI_STEP_WEIGH
} tidei_step_name;

/* The arrays of a step, as od_steps names them; NULL: there is none. */
typedef struct tidei_step {
    tidei_step_name name;
    const tidei_operand *sorted, *given, *order, *starts, *least, *greatest;
    const tidei_operand *values, *places, *inverse, *counts;
    int64_t n, m, length, inner;
    bool right, whole;
    double low, high;
    tide_dtype type; /* of sorted, given */
} tidei_step;
/* Nothing is done for n = 0. */
tide_status tidei_step_run(const tidei_step *s, const char *op);

/* The operand as one row-major axis, of type t: itself where it is that, else a copy among the
** results. With `strided`, one of one axis may have any stride. */
tide_status tidei_step_flat(tidei_results *r, const tidei_operand *a, tide_dtype t, bool strided,
                            tidei_operand *flat);

#endif
