/* sort.h: sorting for the other files of the arrays' floor: operands in, operands out (sort.c). */
#ifndef TIDEI_ORDER_SORT_H
#define TIDEI_ORDER_SORT_H

#include "arrays/operand.h"

/* Rows along `axis` of the source, each sorted stably: as tide_sort, tide_argsort. Results that are
** wanted are row-major arrays or workspaces of the source's shape, or of `kept` elements along the
** axis; they overlap nothing. */
typedef struct tidei_sorting {
    const tidei_operand *source;
    int axis; /* >= 0 */
    bool descending;
    /* Of integers: those that differ do so in their lowest `bits`; 0: anywhere. Whoever sorts
    ** indices knows how many there are. */
    unsigned bits;
    int64_t
        kept; /* the first so many of each row are results; 0: all. Only where tidei_sort_keeps */
    const tidei_operand *values;  /* of the source's dtype; may be NULL */
    const tidei_operand *indices; /* i64, places along the axis; may be NULL */
    /* Where tidei_sort_carries: indices may be u32; or `carried` has an element for each of the
    ** source's, one behind the other, of 2, 4 or 8 bytes, which come in the sorted order in place
    ** of places: indices have their type. NULL: none */
    const tidei_operand *carried;
    unsigned low; /* keys that differ in so many of their lowest bits alone count as equal */
} tidei_sorting;
/* Elements of a row whose places fit into 32 bits. */
#define TIDEI_NEAR ((int64_t)1 << 32)
tide_status tidei_sort(const tidei_sorting *s, const char *op);
/* Whether it can leave the rest of such rows out: short ones, where kernels are text. */
bool tidei_sort_keeps(const tidei_operand *source, int axis);
/* Whether it does so of rows that it sorts by counting, for which it reads them twice. */
bool tidei_sort_counts(const tidei_operand *source, int axis);
/* Whether it can carry something beside the elements: one row of u32, too long to be a short one
** and of at most TIDEI_NEAR elements, where kernels are text. */
bool tidei_sort_carries(const tidei_operand *source);

#endif
