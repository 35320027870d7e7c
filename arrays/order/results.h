/* results.h: results of one call, made before its work and given, or dropped, after it. */
#ifndef TIDEI_ORDER_RESULTS_H
#define TIDEI_ORDER_RESULTS_H

#include "arrays/operand.h"

/* Arrays under way: each is an operand too. Its status is that of the first step that failed. */
typedef struct tidei_results {
    tidei_runtime *rt;
    const char *op;
    tide_status status;
    unsigned n;
    struct tidei_result {
        tide_array *array;
        tide_array **to; /* NULL: it is dropped at the end, whatever comes of the call */
        tidei_operand o;
    } at[8];
} tidei_results;

/* A row-major array that is written to *to at the end; `to` NULL: of use during the call alone.
** NULL where it, or a step before it, failed. */
const tidei_operand *tidei_results_make(tidei_results *r, tide_array **to, tide_dtype t, int ndim,
                                        const int64_t *shape);
/* All or nothing; gives the call's status. */
tide_status tidei_results_end(tidei_results *r);
/* TIDE_E_INVALID for a call whose results through pointers are all NULL. */
tide_status tidei_results_none(const char *op);

#endif
