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
    TIDEI_SCAN_SHORT,
    TIDEI_SCAN_TILES,
    TIDEI_SCAN_COLUMNS,
    TIDEI_SCAN_COLUMN_SUMS,
    TIDEI_SCAN_BANDS,
    TIDEI_SCAN_FORMS
};
/* `n` steps of `lines` lines, values as the interpreter of expressions has them (f16 and bf16 are
** floats): value i of line j is x[i * step + j * apart], and y, of the result's elements, lies as x
** does. so_far[j] is the accumulator of line j, which `begins` with this step or goes on. */
typedef struct tidei_scan_lanes {
    void *so_far, *y;
    const void *x;
    bool begins;
    size_t lines, apart, n, step;
} tidei_scan_lanes;
typedef struct tidei_scan_kind {
    int fold;
    tide_dtype in, acc, out;     /* of elements, accumulators, the result's elements */
    void (*none)(void *element); /* writes the fold of no elements */
    void (*lanes)(const tidei_scan_lanes *l);
    tidei_own_kernel forms[TIDEI_SCAN_FORMS];
} tidei_scan_kind;
/* NULL: the operation is not offered for the type (scan_host.c). */
const tidei_scan_kind *tidei_scan_find(int fold, tide_dtype t);

/* A scan that is laid out but for where its elements come from, on the thread's current stream.
** p.ndim and p.shape are those of the lines; p.n, p.lines, p.inner, p.chunks = 1 and p.chunk = p.n
** hold; `launch` runs a form over p as it stands then. state: what that form keeps, or NULL. */
typedef struct tidei_scan {
    const tidei_scan_kind *kind;
    const char *op;
    tidei_runtime *rt;
    tide_status (*launch)(const struct tidei_scan *x, int form, const tidei_operand *state,
                          uint64_t items);
    sc_scan p;
} tidei_scan;
/* Chooses the forms, by the shape and the device alone, and launches them. */
tide_status tidei_scan_run(tidei_scan *x);

/* The scan of a into out, which has the kind's type, and its shape (scan.c); flags: TIDE_SCAN_*. */
tide_status tidei_scan_into(const tidei_operand *out, const tidei_operand *a, int fold, int axis,
                            unsigned flags, const char *op);

#endif
