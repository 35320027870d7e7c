/* plan.h: which elements an operation with index arrays takes or puts, dimension by dimension, and
** the running of that (places.c).
**
** Model. A plan is a list of dimensions, those of what is taken or put. Along each of them the
** array that is indexed has a stride (0 where an index array says where), and so have the index
** arrays. */
#ifndef TIDEI_PLAN_H
#define TIDEI_PLAN_H

#include "arrays/kernels/launch.h"
#include "arrays/operand.h"

enum tidei_plan_kind {
    TIDEI_PLAN_WHOLE, /* a part of each place: elements along it never meet */
    TIDEI_PLAN_EACH,  /* places differ along it, whatever their indices */
    TIDEI_PLAN_LISTED /* index arrays vary along it, and say alone where */
};
typedef struct tidei_plan {
    const char *op;
    unsigned by;              /* TIDEI_FAULT_BY_* */
    const tidei_operand *far; /* the array that is indexed */
    bool as_given;            /* of an update: values are not cast */
    int ndim, nlists;
    int64_t shape[TIDE_MAX_RANK];
    int64_t far_strides[TIDE_MAX_RANK];
    enum tidei_plan_kind kind[TIDE_MAX_RANK];
    struct tidei_plan_list {
        const tidei_operand *indices;
        int axis;        /* of `far` */
        int first, ndim; /* the plan's dimensions that it is broadcast over */
    } lists[TIDE_MAX_RANK];
} tidei_plan;

/* TIDE_E_SHAPE where there are too many. */
tide_status tidei_plan_add(tidei_plan *p, int64_t n, int64_t far_stride, enum tidei_plan_kind kind);
/* The shape that index arrays broadcast to becomes the plan's next dimensions. The lists have their
** operands and axes. */
tide_status tidei_plan_add_lists(tidei_plan *p, int ndim, const int64_t *shape);
/* TIDE_E_DTYPE where indices are no integers; TIDE_E_BOUNDS where there are some for an axis that
** has no elements. */
tide_status tidei_plan_check(const tidei_plan *p);
/* A new array of the elements. */
tide_array *tidei_plan_take(const tidei_plan *p);
/* The same into a new array of the plan's shape. */
tide_status tidei_plan_take_into(const tidei_plan *p, const tidei_operand *out);
/* Puts values, broadcast to the plan's shape and cast as tide_assign does, into the places; of
** those for one place the last in row-major order. */
tide_status tidei_plan_put(const tidei_plan *p, const tidei_operand *values);

/* Whether values stretch to the places' shape, and `far` can be written. */
tide_status tidei_plan_check_values(const tidei_plan *p, const tidei_operand *values);
/* What both do before: checks values against the plan, and calls `update` with these cast and apart
** from `far`, and a plan whose index arrays are so too; not where there are no places. */
tide_status tidei_plan_update(const tidei_plan *p, const tidei_operand *values,
                              tide_status (*update)(const tidei_plan *p, const tidei_operand *near,
                                                    void *user),
                              void *user);
/* Combines each value with what its place has, by kernel k of scatter.h; for `update`. */
tide_status tidei_plan_combine(const tidei_plan *p, const tidei_operand *near,
                               const tidei_own_kernel *k, int op, int type, int parts);

/* The operands of an update in place: (a, indices, axis, values), so that these are arguments 1, 2
** and 4. */
typedef struct tidei_updated {
    tidei_operand a, indices, values;
} tidei_updated;
tide_status tidei_updated_get(tide_array *a, tide_array *indices, tide_array *values,
                              const char *op, tidei_updated *u);
void tidei_updated_put(tidei_updated *u);

/* `src` as it can be read while dst is written: cast to t, and apart from dst. *made: `out` is a
** copy, and to be put. */
tide_status tidei_apart(const tidei_operand *dst, const tidei_operand *src, tide_dtype t,
                        const char *op, tidei_operand *out, bool *made);
/* What a kernel reads and writes, and where its parameters have the addresses (tidei_run_own). */
#define TIDEI_USES_PARAMS 2048
typedef struct tidei_uses {
    void *params;
    size_t bytes; /* of them, at most TIDEI_USES_PARAMS */
    unsigned n;
    tidei_use uses[TIDE_MAX_RANK + 4];
    size_t at[TIDE_MAX_RANK + 4];
} tidei_uses;
/* The parameter at `at` becomes the address of o's element at `offset`. */
void tidei_uses_add(tidei_uses *u, const tidei_operand *o, int64_t offset, unsigned mode,
                    size_t at);
/* The parameters stay as they are, and may be used again. */
tide_status tidei_uses_run(const tidei_uses *u, tidei_runtime *rt, const tidei_own_kernel *k,
                           int64_t items, const char *op);
/* The same by so many blocks, as tidei_run_own_blocks. */
tide_status tidei_uses_run_blocks(const tidei_uses *u, tidei_runtime *rt, const tidei_own_kernel *k,
                                  unsigned threads, unsigned blocks, const char *op);

#endif
