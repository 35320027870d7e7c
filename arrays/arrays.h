/* arrays.h: the arrays' floor, and what its files share: operands, results, shapes. */
#ifndef TIDEI_ARRAYS_H
#define TIDEI_ARRAYS_H

#include "runtime/base/dtype.h"
#include "runtime/observe/nvtx.h"
#include "runtime/runtime.h"
#include <tide/adapt.h>
#include <tide/array.h>
#include <tide/batches.h>
#include <tide/expr.h>
#include <tide/linalg.h>
#include <tide/ops.h>
#include <tide/random.h>

/* What hangs off rt->arrays: each part's own state, made and freed by its own open and close. */
typedef struct tidei_arrays {
    struct tidei_exprs *exprs;     /* arrays/expr: parsed expressions, programs */
    struct tidei_kernels *kernels; /* arrays/kernels/kernels.c */
    pthread_mutex_t notes_lock;    /* appending to an array's callbacks of death */
    pthread_mutex_t lent_lock;
    struct tidei_lent *lent; /* under lent_lock: arrays/move/lent.c */
    /* arrays/linalg/matmul.c, f32 and f64: found at the first use */
    _Atomic(struct tidei_program *) vector_product[2];
    pthread_mutex_t adapt_lock; /* guards the next three */
    /* arrays/move/adapt.c: registered, newest first */
    struct tidei_rule *rules;
    uint64_t last_rule;            /* the id given last */
    struct tidei_batches *batches; /* arrays/move/batches.c: open, newest first */
} tidei_arrays;
static inline tidei_arrays *tidei_arrays_of(tidei_runtime *rt) { return rt->arrays; }

/* opens the expression, program and kernel caches */
tide_status tidei_arrays_open(tidei_runtime *rt);
void tidei_arrays_close(tidei_runtime *rt); /* waits for the devices first */
tide_status tidei_exprs_open(tidei_runtime *rt);
void tidei_exprs_close(tidei_runtime *rt); /* all work is complete; before the kernels' */
/* As tide_open, on a device that is already open and that the runtime owns from then on. For
** tests. */
tide_status tidei_open_on(const tide_config *config, tidei_device *device, tide_runtime **out);

/* An operand for the time of one call: its storage is retained, so the array may die meanwhile; and
** held (callback.h). Copies of it are borrowed: one of them all is put. */
typedef struct tidei_operand {
    tidei_runtime *rt;
    tidei_thread *t; /* that holds it; NULL: nobody, for it is kept */
    tidei_storage *st;
    tidei_layout lay;
} tidei_operand;
/* Where an array stands in the call, for errors: the number of the argument, from 1 on; of an array
** in a list that is an argument its index too; or it is what an expression's result goes to. */
typedef size_t tidei_place;
#define TIDEI_LISTED(argument, index) ((tidei_place)(argument) | ((tidei_place)(index) + 1) << 8)
#define TIDEI_DESTINATION(index)      TIDEI_LISTED(0, index)
/* A NULL array (tidei_fail_null), and one of another runtime than the call's. */
tide_status tidei_null_array(const char *op, tidei_place place);
tide_status tidei_foreign_array(const char *op, tidei_place place);
/* Of a call's first n arguments, before anything else is looked at: an earlier error outlives what
** is wrong with the others. */
static inline tide_status tidei_no_nulls(const char *op, tide_array *const *arrays, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tidei_unlikely(!arrays[i])) return tidei_null_array(op, i + 1);
    return TIDE_OK;
}

/* TIDE_E_INVALID for NULL, or the earlier error's status; TIDE_E_FREED, TIDE_E_CLOSED. Enters the
** runtime (tidei_thread_get). */
tide_status tidei_operand_get(tide_array *a, const char *op, tidei_place place, tidei_operand *out);
/* The same of an array that must be of the runtime rt, as the others of the call are:
** TIDE_E_INVALID. */
tide_status tidei_operand_get_of(tidei_runtime *rt, tide_array *a, const char *op,
                                 tidei_place place, tidei_operand *out);
void tidei_operand_put(tidei_operand *o);
/* It stays beyond the call, and is put by whatever thread. */
void tidei_operand_keep(tidei_operand *o);
/* Gives the storage away, with its reference. */
static inline tidei_storage *tidei_operand_give(tidei_operand *o) {
    tidei_operand_keep(o);
    return o->st;
}
/* Only the array's runtime, with the same errors; nothing to put. */
tide_status tidei_operand_runtime(tide_array *a, const char *op, tidei_place place,
                                  tidei_runtime **rt);
/* the extent it spans */
tidei_use tidei_operand_use(const tidei_operand *o, unsigned mode);
bool tidei_operands_overlap(const tidei_operand *a, const tidei_operand *b); /* their extents do */

/* Memory for elements without an array: row-major device memory, on the thread's current stream,
** contents undefined; to be put. The first one's is of that kind. On failure nothing is to be put,
** and the operand undefined; likewise with tidei_array_make. */
tide_status tidei_operand_make_in(tidei_runtime *rt, tide_memory kind, tide_dtype t, int ndim,
                                  const int64_t *shape, const char *op, tidei_operand *out);
/* The same of another one's dtype and shape, on a device that may be another than the thread's, on
** its stream there. */
tide_status tidei_operand_make_like(const tidei_operand *like, tidei_dev *d, const char *op,
                                    tidei_operand *out);
tide_status tidei_operand_make(tidei_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                               const char *op, tidei_operand *out);
/* The elements as row-major host memory, after all work queued on them: a sync point. */
tide_status tidei_operand_read(const tidei_operand *o, void *dst, const char *op);

/* A new array over a storage, whose reference it takes over (also on failure). */
tide_array *tidei_array_over(tidei_runtime *rt, tidei_storage *st, const tidei_layout *lay,
                             const char *op);
/* A new array with row-major storage of its own, of the default kind, on the thread's current
** stream, contents undefined, also as an operand (to be put). The array is dropped with
** tidei_array_drop if the operation fails. */
tide_array *tidei_array_make(tidei_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                             const char *op, tidei_operand *o);
tide_array *tidei_array_make_in(tidei_runtime *rt, tide_memory kind, tide_dtype t, int ndim,
                                const int64_t *shape, const char *op, tidei_operand *o);
tide_memory tidei_operand_kind(const tidei_operand *o);
/* ends an array that no user has seen, under any owner; keeps the error */
void tidei_array_drop(tide_array *a);
/* The end of an operation that made `a`: puts the operand; drops the array where the operation
** failed. */
tide_array *tidei_array_done(tide_array *a, tidei_operand *o, tide_status s);

/* A fresh copy, cast, in memory of that kind. */
tide_array *tidei_copy_in(const tidei_operand *src, tide_memory kind, tide_dtype t, const char *op);

/* The calling thread's current stream; the thread has entered (tidei_operand_get,
** tidei_operand_make). */
static inline tidei_stream *tidei_stream_here(tidei_runtime *rt) {
    return tidei_thread_stream(tidei_thread_get(rt));
}
/* The same on the device that the operand belongs to: for what is done where the memory is. */
static inline tidei_stream *tidei_stream_for(const tidei_operand *o) {
    return tidei_thread_stream_on(tidei_thread_get(o->rt), o->st->dev);
}

/* ---- shapes (layout.c) ---- */
/* Row-major strides. TIDE_E_SHAPE for a bad rank or a negative dimension, TIDE_E_NOMEM when the
** bytes overflow. */
tide_status tidei_layout_make(tide_dtype t, int ndim, const int64_t *shape, const char *op,
                              tidei_layout *out);
/* The rules of tidei_layout_make for a shape alone. */
tide_status tidei_shape_check(tide_dtype t, int ndim, const int64_t *shape, const char *op);
/* The same for a view, which takes no memory: a shape that no array can have is TIDE_E_SHAPE. */
tide_status tidei_view_shape_check(tide_dtype t, int ndim, const int64_t *shape, const char *op);
void tidei_row_major(int ndim, const int64_t *shape, int64_t *strides);
/* memcmp is a call, which for the few dimensions of most shapes costs more than they do. */
static inline bool tidei_same_dims(int ndim, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < ndim; i++)
        if (a[i] != b[i]) return false;
    return true;
}
/* elements; layouts are checked at birth, so it fits */
int64_t tidei_layout_size(const tidei_layout *l);
bool tidei_layout_contiguous(const tidei_layout *l);
void tidei_layout_extent(const tidei_layout *l, int64_t *lo,
                         /* element offsets touched: [lo, hi); equal if empty */
                         int64_t *hi);
/* Of a stretched view several elements lie in one place: what writes refuses it. */
bool tidei_layout_repeats(const tidei_layout *l);
#define TIDEI_STRETCHED "a stretched view: several of its elements lie in one place"
/* TIDE_E_INVALID where it is stretched; `name`: of what is to be written, in the message. */
tide_status tidei_writable(const tidei_layout *l, const char *name, const char *op);
bool tidei_layout_same(const tidei_layout *a,
                       const tidei_layout *b); /* every element lies where the other's does */
/* Broadcasts b's shape into shape/ndim (start with ndim 0); room for TIDE_MAX_RANK. TIDE_E_SHAPE
** names both shapes and the axis; TIDE_E_NOMEM when the elements overflow. */
tide_status tidei_broadcast(int *ndim, int64_t *shape, const tidei_layout *b, const char *op);
/* Strides of l against a broadcast shape: 0 where it stretches. */
void tidei_broadcast_strides(const tidei_layout *l, int ndim, const int64_t *strides_shape,
                             int64_t *strides);
/* "(3, 4)", "()", "(5,)" */
const char *tidei_shape_text(char *buf, size_t cap, int ndim, const int64_t *shape);
/* resolves negatives */
tide_status tidei_axis(int axis, int ndim, const char *op, int *out);

/* ---- views as arithmetic (slice.c) ---- */
#define TIDEI_RANGES_MAX 32 /* items of a slice's text */
/* TIDE_E_PARSE points at the column. */
tide_status tidei_slice_parse(const char *text, const char *op, tide_range *ranges, size_t *n);
tide_status tidei_layout_slice(const tidei_layout *l, size_t n, const tide_range *ranges,
                               const char *op, tidei_layout *out);
/* Checks a new shape for l's elements and resolves its -1. */
tide_status tidei_reshape_shape(const tidei_layout *l, int ndim, const int64_t *shape,
                                const char *op, int64_t *out);
/* The same elements in a resolved shape; false where no strides give that. */
bool tidei_layout_reshape(const tidei_layout *l, int ndim, const int64_t *shape, tidei_layout *out);

/* ---- moving elements (copy.c) ---- The two operands overlap nothing, or are the same view. */
/* Copies elements of any strides into any strides, one dtype: through the expression engine. */
tide_status tidei_copy_elements(tidei_runtime *rt, const tidei_operand *dst,
                                const tidei_operand *src, const char *op);
/* The same with src broadcast to dst's shape and cast to its dtype. Complex to real is
** TIDE_E_DTYPE. */
tide_status tidei_store_elements(tidei_runtime *rt, const tidei_operand *dst,
                                 const tidei_operand *src, const char *op);
/* Writes one element of dst's dtype to all of dst. */
tide_status tidei_fill_elements(const tidei_operand *dst, const void *element, const char *op);

#endif
