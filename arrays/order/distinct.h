/* distinct.h: distinct elements of types that have few values (distinct.c). */
#ifndef TIDEI_ORDER_DISTINCT_H
#define TIDEI_ORDER_DISTINCT_H

#include "arrays/operand.h"

/* What tide_unique_* are to tell; NULL: it is not wanted. */
typedef struct tidei_wanted {
    tide_array **values, **indices, **inverse, **counts;
} tidei_wanted;

/* Whether the array's values are so few that each has a mark, where kernels are text. */
bool tidei_has_marks(const tidei_operand *a);
/* As tide_unique_all, of an array that has marks. */
tide_status tidei_distinct(const tidei_operand *a, const tidei_wanted *w, const char *op);

#endif
