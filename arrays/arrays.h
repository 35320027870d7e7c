/* arrays.h: the arrays' floor: what it keeps in a runtime, opening and closing it, and what nearly
** all its files share: operands (operand.h) and layouts (layout.h). */
#ifndef TIDEI_ARRAYS_H
#define TIDEI_ARRAYS_H

#include "arrays/layout.h"
#include "arrays/operand.h"
#include "runtime/observe/nvtx.h"
#include <tide/adapt.h>
#include <tide/array.h>
#include <tide/batches.h>
#include <tide/expr.h>
#include <tide/linalg.h>
#include <tide/ops.h>
#include <tide/order.h>
#include <tide/random.h>
#include <tide/shape.h>

/* The state in rt->arrays: each part's own, made and freed by its own open and close. */
typedef struct tidei_arrays {
    struct tidei_exprs *exprs;     /* arrays/expr: parsed expressions, programs */
    struct tidei_kernels *kernels; /* arrays/kernels/kernels.c */
    pthread_mutex_t notes_lock;    /* appending to an array's callbacks of death */
    pthread_mutex_t lent_lock;
    struct tidei_lent *lent; /* under lent_lock: arrays/move/lent.c */
    /* arrays/linalg/matmul.c, of elements and of products, by dtype: found at the first use */
    _Atomic(struct tidei_program *) sums[2][TIDE_DTYPE_COUNT];
    pthread_mutex_t adapt_lock; /* guards the next three */
    /* arrays/move/adapt.c: registered, newest first */
    struct tidei_rule *rules;
    uint64_t last_rule;            /* the id given last */
    struct tidei_batches *batches; /* arrays/move/batches.c: open, newest first */
    struct tidei_graphs *graphs;   /* arrays/graph */
} tidei_arrays;
static inline tidei_arrays *tidei_arrays_of(tidei_runtime *rt) { return rt->arrays; }

/* opens the expression, program and kernel caches */
tide_status tidei_arrays_open(tidei_runtime *rt);
void tidei_arrays_close(tidei_runtime *rt); /* waits for the devices first */
/* As tide_open, on a device that is already open and that the runtime owns from then on. For
** tests. */
tide_status tidei_open_on(const tide_config *config, tidei_device *device, tide_runtime **out);

#endif
