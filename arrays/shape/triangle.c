/* triangle.c: matrices of which a triangle counts, and ones on a diagonal.
**
** A triangle is one pass over the matrices beside the numbers of their rows and columns, which are
** two small arrays that broadcast. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/expr/front.h"
#include "arrays/shape/diagonal.h"

/* ---- triangles ---- */

/* 0 to n - 1, as a column or a row: a temporary. */
static tide_array *places(const tidei_operand *o, int axis, const char *op) {
    int64_t n = o->lay.shape[axis];
    tide_array *row = tide_arange(o->rt->ref, n > INT32_MAX ? TIDE_I64 : TIDE_I32, 0, (double)n, 1);
    if (!row) return (void)tidei_fail_as(op), NULL;
    row = tidei_temporary(row, op);
    if (!row || axis == o->lay.ndim - 1) return row;
    tide_array *column = tide_expand_dims(row, 1);
    if (!column) tidei_fail_as(op);
    tidei_temporary_end(row);
    return tidei_temporary(column, op);
}

static tide_array *triangle(tide_array *a, int64_t k, const char *text, const char *op) {
    TIDEI_OPERATION(op);
    tidei_operand o;
    tide_array *made = NULL, *rows = NULL, *cols = NULL;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    if (o.lay.ndim < 2)
        tidei_fail(TIDE_E_SHAPE, op, "an array with %d dimension%s has no matrices", o.lay.ndim,
                   o.lay.ndim == 1 ? "" : "s");
    else if ((rows = places(&o, o.lay.ndim - 2, op)) && (cols = places(&o, o.lay.ndim - 1, op))) {
        const tide_arg args[] = {tide_arg_array(a), tide_arg_array(rows), tide_arg_array(cols),
                                 tide_arg_int(k)};
        (void)tidei_expr_map(o.rt, text, op, args, 4, &made, NULL); /* NULL then */
    }
    tidei_temporary_end(rows);
    tidei_temporary_end(cols);
    tidei_operand_put(&o);
    return made;
}

tide_array *tide_tril(tide_array *a, int64_t k) {
    return triangle(a, k, "(a, i, j, k) -> where(j - i <= k, a, false)", "tide_tril");
}
tide_array *tide_triu(tide_array *a, int64_t k) {
    return triangle(a, k, "(a, i, j, k) -> where(j - i >= k, a, false)", "tide_triu");
}

/* ---- eye ---- */

static tide_status fill_eye(const tidei_operand *o, int64_t k) {
    static const char op[] = "tide_eye";
    unsigned char zero[16] = {0}, one[16];
    tidei_operand d = *o;
    tide_status s = tidei_fill_elements(o, zero, op);
    if (s == TIDE_OK) s = tidei_encode(tide_arg_bool(1), o->lay.dtype, op, one);
    if (s == TIDE_OK) s = tidei_layout_diagonal(&o->lay, k, 0, 1, op, &d.lay);
    return s == TIDE_OK ? tidei_fill_elements(&d, one, op) : s;
}

tide_array *tide_eye(tide_runtime *ref, tide_dtype t, int64_t rows, int64_t cols, int64_t k) {
    TIDEI_OPERATION("tide_eye");
    const int64_t shape[] = {rows, cols};
    tidei_operand o;
    tidei_runtime *rt = tidei_entered(ref, "tide_eye");
    tide_array *a = rt ? tidei_array_make(rt, t, 2, shape, "tide_eye", &o) : NULL;
    return a ? tidei_array_done(a, &o, fill_eye(&o, k)) : NULL;
}
