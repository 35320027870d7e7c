/* run.h: a call of an expression under way: what run.c and run_chains.c share. */
#ifndef TIDEI_RUN_H
#define TIDEI_RUN_H

#include "arrays/expr/numbers.h"

/* not inlined, because its variables would make the caller's frame larger */
#define TIDEI_OWN_FRAME __attribute__((noinline))

typedef struct tidei_shortcut tidei_shortcut;
typedef struct tidei_lesson tidei_lesson;

typedef struct tidei_run {
    tidei_expr *e;
    tidei_runtime *rt;
    const tidei_ast *ast;
    tidei_plan *plan;
    const char *op;
    tidei_thread *t;
    tidei_stream *stream;
    const tide_arg *args;
    /* the run of a graph whose function calls this; NULL: none */
    const tidei_graph_call *call;
    const tide_arg *as_given; /* args, as they were before the run's numbers were looked up */
    uint32_t of_run;          /* arguments (bits) that are such numbers */
    const tidei_given_axes *given;
    tide_array *const *dsts;
    uint64_t used;        /* parameters (bits) whose operand is held */
    uint64_t stored_held; /* stored values (bits) whose operand is held */
    unsigned out_held, dst_held,
        copied;       /* results (bits): operand held; its destination held; to be copied there */
    unsigned chained; /* results (bits) that a chain has written */
    uint8_t sig[TIDEI_SIG_MAX];
    tidei_operand *arg;
    tidei_operand *stored; /* that of a value which is a result is borrowed from `out` */
    /* where result r is written: its array, its destination, or a temporary */
    tidei_operand *out;
    tidei_operand *dst;
    tide_array *made[TIDE_MAX_RESULTS];
    tide_arg *numbers;
    tidei_lesson *lesson; /* what is learnt of this call; NULL: nothing */
} tidei_run;

typedef struct tidei_shape {
    int ndim;
    int64_t dim[TIDE_MAX_RANK];
} tidei_shape;

static inline int64_t tidei_shape_elements(const tidei_shape *s) {
    int64_t n = 1;
    for (int i = 0; i < s->ndim; i++) n *= s->dim[i];
    return n;
}
static inline bool tidei_shape_is(const tidei_shape *a, int ndim, const int64_t *dim) {
    return a->ndim == ndim && tidei_same_dims(ndim, a->dim, dim);
}
static inline const tidei_operand *tidei_run_source(const tidei_run *r, unsigned s) {
    return s < TIDEI_SOURCE_STORED ? &r->arg[s] : &r->stored[s - TIDEI_SOURCE_STORED];
}

/* Finds the shape that all sources broadcast to. */
tide_status tidei_run_broadcast(const tidei_run *r, const uint8_t *sources, unsigned n,
                                tidei_shape *out);
/* The numbers of a pass over s, whose dimensions come in this order in the call (NULL: in their
** own). */
tide_status tidei_run_encode_scalars(const tidei_run *r, const tidei_pass *pass,
                                     const tidei_shape *s, const int *order, tidei_call *c);
/* Runs a call that is collapsed, with the numbers of a graph's run where it has some. */
tide_status tidei_run_submit(const tidei_run *r, tidei_call *c);
/* Which dimensions (bits) a fold folds, and whether they stay with length 1. */
tide_status tidei_run_fold_axes(const tidei_run *r, const tidei_stored *v, int ndim,
                                unsigned *folded, bool *keepdims);
void tidei_run_fold_shape(const tidei_shape *body, unsigned folded, bool keepdims,
                          tidei_shape *out);
/* The order of dimensions in the call: kept ones, then folded ones; returns how many are kept. */
int tidei_run_fold_order(int ndim, unsigned folded, int *order);
/* Whether writing destination i early could be seen: by an operand still to be read, or by an
** earlier destination. `group`: one kernel reads all that is read and writes all that is written,
** and may write this result over the very view that it reads. */
bool tidei_run_is_read_under(const tidei_run *r, unsigned i, bool group);
/* Decides where result i, of shape s, is written: to a temporary where it is read under. */
tide_status tidei_run_place_result(tidei_run *r, unsigned i, const tidei_shape *s, bool group);
/* The same of stored value k. */
tide_status tidei_run_place_stored(tidei_run *r, unsigned k, const tidei_shape *s, bool group);

/* ---- shortcuts.c ---- */

struct tidei_lesson {
    tidei_listener listener; /* comes first */
    tidei_run *r;
    const tidei_call *call; /* that the back end runs */
    unsigned calls, launches;
    tidei_shortcut *made; /* held; NULL: none */
};
/* The shortcut of a call whose plan is found; NULL: it has none. It may then be learnt: where the
** run has the lesson, calls go through tidei_shortcut_run, and tidei_shortcut_learnt ends it;
** `whole`: all was queued. */
const tidei_shortcut *tidei_shortcut_find(tidei_run *r, tidei_lesson *lesson);
tide_status tidei_shortcut_run(tidei_lesson *x, tidei_call *c);
void tidei_shortcut_learnt(tidei_lesson *x, bool whole);
/* Makes the results and queues the launch. */
tide_status tidei_shortcut_take(tidei_run *r, const tidei_shortcut *x);

/* Runs a chain as one kernel where shapes and device permit; else *done is false and nothing has
** been done. */
tide_status tidei_run_chain(tidei_run *r, const tidei_chain *ch, bool *done);

#endif
