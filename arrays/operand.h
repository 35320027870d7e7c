/* operand.h: operands and results: what a call reads and writes, for the time of the call.
**
** Model. An operand is a view of a storage: where its elements lie, and a reference that keeps the
** memory while the call runs, whatever becomes of the array. A result is an array that no user has
** seen yet, and its operand.
** What must stay true: every operand that was got or made is put, kept or given away, once. */
#ifndef TIDEI_OPERAND_H
#define TIDEI_OPERAND_H

#include "runtime/runtime.h"

/* An operand for the time of one call: its storage is retained, so the array may die meanwhile; and
** noted, to be released if a longjmp leaves the call (callback.h). Copies of the struct borrow the
** reference: only one of them is put. */
typedef struct tidei_operand {
    tidei_runtime *rt;
    tidei_thread *t; /* the thread whose record notes it; NULL: none, after tidei_operand_keep */
    tidei_storage *st;
    tidei_layout lay;
} tidei_operand;
/* An array's place in the call, for error messages: the number of the argument, from 1 on; for an
** array in a list its index too; or the destination of an expression's result. */
typedef size_t tidei_place;
#define TIDEI_LISTED(argument, index) ((tidei_place)(argument) | ((tidei_place)(index) + 1) << 8)
#define TIDEI_DESTINATION(index)      TIDEI_LISTED(0, index)
/* The errors for a NULL array (tidei_fail_null), and for one of another runtime than the call's. */
tide_status tidei_null_array(const char *op, tidei_place place);
tide_status tidei_foreign_array(const char *op, tidei_place place);
/* Checks a call's first n arguments for NULL before anything else: an earlier error is kept,
** whatever is wrong with the others. */
static inline tide_status tidei_no_nulls(const char *op, tide_array *const *arrays, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tidei_unlikely(!arrays[i])) return tidei_null_array(op, i + 1);
    return TIDE_OK;
}

/* TIDE_E_INVALID for NULL, or the earlier error's status; TIDE_E_FREED, TIDE_E_CLOSED. Enters the
** runtime (tidei_thread_get). */
tide_status tidei_operand_get(tide_array *a, const char *op, tidei_place place, tidei_operand *out);
/* The same for an array that must be of the runtime rt, as the call's other arrays are; else
** TIDE_E_INVALID. */
tide_status tidei_operand_get_of(tidei_runtime *rt, tide_array *a, const char *op,
                                 tidei_place place, tidei_operand *out);
void tidei_operand_put(tidei_operand *o);
/* A list of n >= 1 arrays of one runtime (TIDE_E_INVALID for none of them), the call's first
** argument: as host memory of that runtime, to be put. */
tide_status tidei_operands_get(tide_array *const *arrays, size_t n, const char *op,
                               tidei_operand **out);
void tidei_operands_put(tidei_operand *o, size_t n);
/* Keeps the operand beyond the call; any thread may put it. */
void tidei_operand_keep(tidei_operand *o);
/* Passes the storage on to the caller, with its reference. */
static inline tidei_storage *tidei_operand_give(tidei_operand *o) {
    tidei_operand_keep(o);
    return o->st;
}
/* Finds only the array's runtime, with the same errors; nothing is to be put. */
tide_status tidei_operand_runtime(tide_array *a, const char *op, tidei_place place,
                                  tidei_runtime **rt);
/* the bytes that the operand spans, as a use */
tidei_use tidei_operand_use(const tidei_operand *o, unsigned mode);
bool tidei_operands_overlap(const tidei_operand *a, const tidei_operand *b); /* their extents do */

/* Memory for elements without an array: row-major device memory, on the thread's current stream,
** contents undefined; to be put. The first one's is of that kind. On failure nothing is to be put,
** and the operand undefined; likewise with tidei_array_make. */
tide_status tidei_operand_make_in(tidei_runtime *rt, tide_memory kind, tide_dtype t, int ndim,
                                  const int64_t *shape, const char *op, tidei_operand *out);
/* The same with the dtype and shape of `like`, on a device that need not be the thread's current
** one, on its stream there. */
tide_status tidei_operand_make_like(const tidei_operand *like, tidei_dev *d, const char *op,
                                    tidei_operand *out);
tide_status tidei_operand_make(tidei_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                               const char *op, tidei_operand *out);
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
/* The same by a thread's record, in a layout that an earlier array of the call's form had. */
tide_array *tidei_array_make_as(tidei_thread *t, const tidei_layout *lay, const char *op,
                                tidei_operand *o);
/* A new array over a storage, whose reference it takes over (also on failure), and an operand of
** it, to be put, as tidei_array_make gives both. */
tide_array *tidei_array_make_over(tidei_runtime *rt, tidei_storage *st, const tidei_layout *lay,
                                  const char *op, tidei_operand *o);
tide_memory tidei_operand_kind(const tidei_operand *o);
/* ends an array that no user has seen, under any owner; keeps the error */
void tidei_array_drop(tide_array *a);
/* An array that an operation makes for itself, kept from now on whatever is collected on the way;
** returned, or NULL with the error set (the array is dropped), as for NULL. It is ended by
** tidei_temporary_end (NULL is legal), or where a callback leaves the operation. */
tide_array *tidei_temporary(tide_array *a, const char *op);
void tidei_temporary_end(tide_array *a);
/* The end of an operation that made `a`: puts the operand; drops the array where the operation
** failed. */
tide_array *tidei_array_done(tide_array *a, tidei_operand *o, tide_status s);

/* The calling thread's current stream; the thread has entered (tidei_operand_get,
** tidei_operand_make). */
static inline tidei_stream *tidei_stream_here(tidei_runtime *rt) {
    return tidei_thread_stream(tidei_thread_get(rt));
}
/* The thread's stream on the device that the operand belongs to: for work that is done where the
** memory is. */
static inline tidei_stream *tidei_stream_for(const tidei_operand *o) {
    return tidei_thread_stream_on(tidei_thread_get(o->rt), o->st->dev);
}

#endif
