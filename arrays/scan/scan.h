/* scan.h: running folds along an axis, for the public functions and for other parts of the
** arrays. */
#ifndef TIDEI_SCAN_H
#define TIDEI_SCAN_H

#include "arrays/kernels/launch.h"
#include "arrays/operand.h"
#include "arrays/scan/scan_params.h"

enum { TIDEI_SCAN_sum, TIDEI_SCAN_prod, TIDEI_SCAN_min, TIDEI_SCAN_max };

/* The kernels for one operation and one type of elements (scan.cu). A host's are all one. */
enum {
    TIDEI_SCAN_ROWS,
    TIDEI_SCAN_TILES,
    TIDEI_SCAN_COLUMNS,
    TIDEI_SCAN_COLUMN_SUMS,
    TIDEI_SCAN_FORMS
};
typedef struct tidei_scan_kind {
    int fold;
    tide_dtype in, acc, out;     /* of elements, accumulators, the result's elements */
    void (*none)(void *element); /* writes the fold of no elements */
    tidei_own_kernel forms[TIDEI_SCAN_FORMS];
} tidei_scan_kind;
/* NULL: the operation is not offered for the type (scan_host.c). */
const tidei_scan_kind *tidei_scan_find(int fold, tide_dtype t);

/* The scan of a into out, which has the kind's type, and its shape (scan.c); flags: TIDE_SCAN_*. */
tide_status tidei_scan_into(const tidei_operand *out, const tidei_operand *a, int fold, int axis,
                            unsigned flags, const char *op);

#endif
