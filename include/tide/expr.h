/* expr.h: expressions over arrays, fused into one pass.
**
** Text: "(a, x, y) -> a*x + y", several results "(a, b) -> (a + b, a - b)", "let", reductions over
** a fused body "(x, y) -> sum((x - y)**2, axis=1)". The grammar and every operation:
** docs/expressions.md. Operands broadcast as in NumPy (TIDE_E_SHAPE where they do not); result
** types follow the Python array API standard (TIDE_E_DTYPE where it has none); C numbers are weak.
** Programs in C and C++ use tide_map, tide_map_many and tide_map_into, at the end; the others are
** for who applies one expression often, and for other languages.
**
** What holds for all that apply one, and is not said again below:
** - `args` has n arguments, n being the expression's number of parameters, and the expression m
**   results: other numbers are TIDE_E_INVALID. Of the arguments that are arrays none is NULL
**   (tide/base.h), freed (TIDE_E_FREED) or of another runtime (TIDE_E_INVALID).
** - Results are new row-major arrays on the calling thread's current stream, of the runtime's
**   default kind of memory. The work is ordered after all earlier writes of the operands, and
**   nobody waits for it.
** - A reduction without an identity over no elements is TIDE_E_EMPTY. An error of the text, or of
**   applying it, names the text as its operation.
** - All or nothing: where one result cannot be made, none is. */
#ifndef TIDE_EXPR_H
#define TIDE_EXPR_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define TIDE_MAX_ARGS    32 /* parameters of an expression */
#define TIDE_MAX_RESULTS 8

/* Parses `text`, which is copied. TIDE_E_PARSE points at the column. An expression belongs to its
** runtime and may be used by several threads at once; it is the caller's until tide_expr_release,
** or the runtime's close. NULL on failure. Never collects. Never blocks. */
TIDE_API tide_expr *tide_expr_new(tide_runtime *rt, const char *text);
/* Ends an expression that no call is using; work that it queued goes on. NULL is legal, and one
** that was released is TIDE_E_INVALID in the error record. Never collects. Never blocks. */
TIDE_API void tide_expr_release(tide_expr *e);
/* How many results an expression has, 1 to TIDE_MAX_RESULTS; -1 on failure. Never collects. Never
** blocks. */
TIDE_API int tide_expr_results(tide_expr *e);

/* Applies an expression of one result, which is returned; NULL on failure. May collect. Never
** blocks. */
TIDE_API tide_array *tide_expr_apply(tide_expr *e, const tide_arg *args, size_t n);
/* Applies an expression of m results to n arguments; they are written to outs[0] to outs[m - 1], in
** order. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_expr_apply_many(tide_expr *e, const tide_arg *args,
                                                         size_t n, tide_array **outs, size_t m);
/* Writes the m results into existing arrays (views too), whose shape must be the results' own
** (TIDE_E_SHAPE); a stretched one (tide_broadcast_to) is TIDE_E_INVALID. A value is stored in
** another type as tide_assign would, else it is TIDE_E_DTYPE. A number that no array met is stored
** so too, where it is a float as an f64, a complex one as a c128; an integer is stored where the
** type has it (300 is not stored as i8). Where destinations and operands overlap, the result is as
** if the operands had been copied first; where destinations do, the later result wins. What is
** refused is refused before anything is written; a failure of memory or of the device may leave
** them written in part. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_expr_apply_into(tide_array *const *dsts, size_t m,
                                                         tide_expr *e, const tide_arg *args,
                                                         size_t n);

/* ---- by text ----
** The parsed expression is found by the text's content; up to 4096 texts are remembered, others are
** parsed at each call. Errors are those of tide_expr_new too. */

/* tide_expr_apply by text: tide_map for other languages than C and C++. May collect. Never
** blocks. */
TIDE_API tide_array *tide_map_args(tide_runtime *rt, const char *text, const tide_arg *args,
                                   size_t n);
/* tide_expr_apply_many by text: m results, to outs[0] to outs[m - 1]. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_map_many_args(tide_runtime *rt, const char *text,
                                                       const tide_arg *args, size_t n,
                                                       tide_array **outs, size_t m);
/* tide_expr_apply_into by text, of one result into dst, whose runtime it is. May collect. Never
** blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_map_into_args(tide_array *dst, const char *text,
                                                       const tide_arg *args, size_t n);

#if defined(__cplusplus)
}
#endif

/* ---- by text, from C and C++ ----
** The three below take the arguments themselves: up to TIDE_MAX_ARGS in C++, up to 16 in C (more by
** tide_map_args and its like), each an array, a C number, or a tide_arg. They are macros in C and
** templates in C++, which tide/box.h defines; no other pointer than an array's compiles. */

/* tide_array *tide_map(tide_runtime *rt, const char *text, ...)
** As tide_map_args: tide_map(rt, "(a, x, y) -> a*x + y", 2.0, x, y). May collect. Never blocks. */

/* tide_status tide_map_many(tide_runtime *rt, tide_array **outs, size_t m, const char *text, ...)
** As tide_map_many_args: tide_map_many(rt, outs, 2, "(a, b) -> (a + b, a - b)", a, b). May collect.
** Never blocks. */

/* tide_status tide_map_into(tide_array *dst, const char *text, ...)
** As tide_map_into_args: tide_map_into(x, "(x) -> x*2", x). May collect. Never blocks. */

#include <tide/box.h>
#endif
