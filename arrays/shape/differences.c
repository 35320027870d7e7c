/* differences.c: differences of neighbours, and integrals by trapezoids: expressions over two views
** of one array, which are a place apart. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/expr/front.h"
#include "arrays/make/view.h"
#include "runtime/base/text.h"

/* All but the last element of an axis, and all but the first. */
typedef struct pair {
    tide_array *low, *high;
} pair;

static void drop_pair(pair *p) {
    tidei_temporary_end(p->low);
    tidei_temporary_end(p->high);
    *p = (pair){0};
}

static tide_status make_pair(const tidei_operand *o, int axis, const char *op, pair *p) {
    tidei_layout low = o->lay, high = o->lay;
    int64_t n = o->lay.shape[axis] ? o->lay.shape[axis] - 1 : 0;
    *p = (pair){0};
    tidei_narrow(&low, axis, 0, n);
    tidei_narrow(&high, axis, 1, n);
    if (!tidei_layout_size(&high)) high.offset = o->lay.offset;
    p->low = tidei_temporary(tidei_view_beside(o, &low, op), op);
    if (p->low) p->high = tidei_temporary(tidei_view_beside(o, &high, op), op);
    if (p->high) return TIDE_OK;
    drop_pair(p);
    return tidei_last_status();
}

/* ---- diff ---- */

static tide_array *once(tide_array *a, int axis) {
    static const char op[] = "tide_diff";
    tide_array *made = NULL;
    tidei_operand o;
    pair p;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    if (make_pair(&o, axis, op, &p) == TIDE_OK) {
        const tide_arg args[] = {tide_arg_array(p.low), tide_arg_array(p.high)};
        const char *text = o.lay.dtype == TIDE_BOOL ? "(a, b) -> b ^ a" : "(a, b) -> b - a";
        (void)tidei_expr_map(o.rt, text, op, args, 2, &made, NULL); /* NULL then */
        drop_pair(&p);
    }
    tidei_operand_put(&o);
    return made;
}

static tide_array *diff(tide_array *a, const tidei_operand *o, int order, int axis) {
    static const char op[] = "tide_diff";
    if (order < 0)
        return (void)tidei_fail(TIDE_E_INVALID, op, "differences of order %d", order), NULL;
    if (tidei_axis(axis, o->lay.ndim, op, &axis) != TIDE_OK) return NULL;
    if (order == 0) return tidei_copy_in(o, TIDE_MEMORY_DEFAULT, o->lay.dtype, op);
    if (order > o->lay.shape[axis]) order = o->lay.shape[axis] ? (int)o->lay.shape[axis] : 1;
    tide_array *made = once(a, axis);
    for (int i = 1; i < order && made; i++) {
        tide_array *before = tidei_temporary(made, op);
        made = before ? once(before, axis) : NULL;
        tidei_temporary_end(before);
    }
    return made;
}

tide_array *tide_diff(tide_array *a, int order, int axis) {
    TIDEI_OPERATION("tide_diff");
    tidei_operand o;
    if (tidei_operand_get(a, "tide_diff", 1, &o) != TIDE_OK) return NULL;
    tide_array *made = diff(a, &o, order, axis);
    tidei_operand_put(&o);
    return made;
}

/* ---- trapezoid ---- */

static const char trapezoid_op[] = "tide_trapezoid";

/* The bits of a real part; integers are taken as f64. */
static int part_bits(tide_dtype t) {
    tidei_kind kind = tidei_dtype_kind(t);
    if (kind != TIDEI_KIND_FLOAT && kind != TIDEI_KIND_COMPLEX) return 64;
    return (int)tide_dtype_size(t) * (kind == TIDEI_KIND_COMPLEX ? 4 : 8);
}

/* The cast that elements of type t need before they are added or subtracted, beside those of
** another type: integers would wrap, and narrower floats lose digits that the result has. */
static const char *cast_beside(tide_dtype t, tide_dtype other) {
    tidei_kind kind = tidei_dtype_kind(t);
    int own = part_bits(t), bits = part_bits(other) > own ? part_bits(other) : own;
    if (bits == 16 && t != other) bits = 32;
    if (kind == TIDEI_KIND_COMPLEX) return bits == own ? "" : "c128";
    if (kind == TIDEI_KIND_FLOAT && bits == own) return "";
    return bits == 64 ? "f64" : "f32";
}

/* The axis last. */
static void put_last(tidei_layout *l, int axis) {
    int64_t n = l->shape[axis], stride = l->strides[axis];
    for (int i = axis; i < l->ndim - 1; i++) {
        l->shape[i] = l->shape[i + 1];
        l->strides[i] = l->strides[i + 1];
    }
    l->shape[l->ndim - 1] = n;
    l->strides[l->ndim - 1] = stride;
}

/* The places along the axis of y, which is last in x then: x is one row of them, or has as many
** axes as y and the same axis. */
static tide_status place_axis(const tidei_layout *y, int axis, tidei_layout *x) {
    char one[192], other[192];
    const tidei_layout given = *x;
    if (x->ndim == y->ndim && x->ndim > 1) put_last(x, axis);
    if (x->ndim && x->ndim <= y->ndim && (x->ndim == 1 || x->ndim == y->ndim) &&
        x->shape[x->ndim - 1] == y->shape[axis])
        return TIDE_OK;
    return tidei_fail(TIDE_E_SHAPE, trapezoid_op,
                      "places of shape %s along axis %d of %s: wanted: as many, in one row or with "
                      "all other axes",
                      tidei_shape_text(one, sizeof one, given.ndim, given.shape), axis,
                      tidei_shape_text(other, sizeof other, y->ndim, y->shape));
}

static tide_array *integrate(const tidei_operand *y, tide_arg x, const tidei_operand *at) {
    pair v, p = {0};
    tide_array *made = NULL;
    int last = y->lay.ndim - 1;
    if (make_pair(y, last, trapezoid_op, &v) != TIDE_OK) return NULL;
    if (!at || make_pair(at, at->lay.ndim - 1, trapezoid_op, &p) == TIDE_OK) {
        const tide_arg args[] = {tide_arg_array(v.low), tide_arg_array(v.high),
                                 at ? tide_arg_array(p.low) : x, tide_arg_array(p.high)};
        char text[96];
        tide_dtype t = y->lay.dtype, u = at ? at->lay.dtype : t;
        const char *of_y = cast_beside(t, u), *of_x = cast_beside(u, t);
        if (at)
            tidei_format(text, sizeof text,
                         "(a, b, p, q) -> sum((%s(q) - %s(p))*(%s(a) + %s(b))/2, axis=-1)", of_x,
                         of_x, of_y, of_y);
        else
            tidei_format(text, sizeof text, "(a, b, d) -> sum(d*(%s(a) + %s(b))/2, axis=-1)", of_y,
                         of_y);
        (void)tidei_expr_map(y->rt, text, trapezoid_op, args, at ? 4 : 3, &made, NULL);
    }
    drop_pair(&p);
    drop_pair(&v);
    return made;
}

static tide_array *trapezoid(tidei_operand *y, tide_arg x, int axis) {
    tide_array *made = NULL;
    tidei_operand at;
    if (tidei_axis(axis, y->lay.ndim, trapezoid_op, &axis) != TIDE_OK) return NULL;
    const tidei_layout given = y->lay;
    put_last(&y->lay, axis);
    if (x.kind != TIDE_ARG_ARRAY) return integrate(y, x, NULL);
    if (tidei_operand_get_of(y->rt, x.value.array, trapezoid_op, 2, &at) != TIDE_OK) return NULL;
    if (place_axis(&given, axis, &at.lay) == TIDE_OK) made = integrate(y, x, &at);
    tidei_operand_put(&at);
    return made;
}

tide_array *tide_trapezoid(tide_array *y, tide_arg x, int axis) {
    TIDEI_OPERATION("tide_trapezoid");
    tidei_operand o;
    tide_status s = tidei_no_nulls(trapezoid_op, &y, 1);
    if (s == TIDE_OK && x.kind == TIDE_ARG_ARRAY && !x.value.array)
        s = tidei_null_array(trapezoid_op, 2);
    if (s != TIDE_OK || tidei_operand_get(y, trapezoid_op, 1, &o) != TIDE_OK) return NULL;
    tide_array *made = trapezoid(&o, x, axis);
    tidei_operand_put(&o);
    return made;
}
