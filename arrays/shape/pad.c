/* pad.c: arrays with borders.
**
** The array is copied into the middle; then axis by axis what lies in front of it and behind it is
** filled, over all that is written by then. So a corner is what its axes make of it one after the
** other. Borders are made of what the result has already: a reflection first from the array, turned
** around; what repeats by ever longer copies (tidei_extend). A constant may fill all before the
** array is copied.
** What must stay true: no copy reads what it writes. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/make/view.h"
#include "arrays/shape/extend.h"

/* `count` elements of the result along an axis, `from` places from where the part begins: in front
** of it for negative ones. All of its other axes. */
static tidei_operand around(const tidei_operand *dst, const tidei_layout *part, int axis,
                            int64_t from, int64_t count) {
    tidei_operand o = *dst;
    o.lay = *part;
    tidei_narrow(&o.lay, axis, from, count);
    return o;
}

static void grow(tidei_layout *part, int axis, int64_t before, int64_t after) {
    part->offset -= before * part->strides[axis];
    part->shape[axis] += before + after;
}

tide_status tidei_extend(const tidei_operand *dst, tidei_layout *part, int axis, int64_t before,
                         int64_t after, int64_t period, const char *op) {
    tide_status s = TIDE_OK;
    while ((before || after) && s == TIDE_OK) {
        int64_t n = part->shape[axis], whole = n - n % period, most = before ? before : after,
                count = most < whole ? most : whole;
        tidei_operand to = around(dst, part, axis, before ? -count : n, count),
                      from = around(dst, part, axis, before ? whole - count : n - whole, count);
        s = tidei_copy_elements(dst->rt, &to, &from, op);
        grow(part, axis, before ? count : 0, before ? 0 : count);
        *(before ? &before : &after) -= count;
    }
    return s;
}

/* ---- one axis, one mode each ---- */

typedef struct border {
    int axis, mode;
    int64_t before, after;
    const void *element; /* of the result's type, for TIDE_PAD_CONSTANT */
} border;

/* One side of a border: a fill, or the edge stretched. */
static tide_status fill_side(const tidei_operand *dst, const tidei_layout *part, const border *b,
                             int64_t from, int64_t count, int64_t edge, const char *op) {
    if (!count) return TIDE_OK;
    tidei_operand to = around(dst, part, b->axis, from, count);
    if (b->mode == TIDE_PAD_CONSTANT) return tidei_fill_elements(&to, b->element, op);
    tidei_operand at = around(dst, part, b->axis, edge, 1);
    return tidei_store_elements(dst->rt, &to, &at, op);
}

static tide_status fill_sides(const tidei_operand *dst, tidei_layout *part, const border *b,
                              const char *op) {
    int64_t n = part->shape[b->axis];
    tide_status s = fill_side(dst, part, b, -b->before, b->before, 0, op);
    if (s == TIDE_OK) s = fill_side(dst, part, b, n, b->after, n - 1, op);
    grow(part, b->axis, b->before, b->after);
    return s;
}

/* `count` elements from `to` on get those from `from` downwards. */
static tide_status mirror(const tidei_operand *dst, const tidei_layout *part, int axis, int64_t to,
                          int64_t from, int64_t count, const char *op) {
    if (!count) return TIDE_OK;
    tidei_operand into = around(dst, part, axis, to, count),
                  turned = around(dst, part, axis, from, count);
    turned.lay.strides[axis] = -turned.lay.strides[axis];
    return tidei_copy_elements(dst->rt, &into, &turned, op);
}

static tide_status reflect(const tidei_operand *dst, tidei_layout *part, const border *b,
                           const char *op) {
    int64_t n = part->shape[b->axis], most = n - 1, before = b->before < most ? b->before : most,
            after = b->after < most ? b->after : most;
    if (n == 1) return fill_sides(dst, part, b, op);
    tide_status s = mirror(dst, part, b->axis, -before, before, before, op);
    if (s == TIDE_OK) s = mirror(dst, part, b->axis, n, n - 2, after, op);
    grow(part, b->axis, before, after);
    if (s != TIDE_OK) return s;
    return tidei_extend(dst, part, b->axis, b->before - before, b->after - after, 2 * most, op);
}

static tide_status pad_axis(const tidei_operand *dst, tidei_layout *part, const border *b,
                            const char *op) {
    if (!b->before && !b->after) return TIDE_OK;
    switch (b->mode) {
    case TIDE_PAD_REFLECT: return reflect(dst, part, b, op);
    case TIDE_PAD_WRAP:
        return tidei_extend(dst, part, b->axis, b->before, b->after, part->shape[b->axis], op);
    default: return fill_sides(dst, part, b, op);
    }
}

/* ---- the whole ---- */

static tide_status plan(const tidei_layout *l, const int64_t *before, const int64_t *after,
                        int mode, int64_t *shape) {
    static const char op[] = "tide_pad";
    if (mode < TIDE_PAD_CONSTANT || mode > TIDE_PAD_WRAP)
        return tidei_fail(TIDE_E_INVALID, op, "%d is no mode", mode);
    if (l->ndim && (!before || !after))
        return tidei_fail(TIDE_E_INVALID, op, "%s is NULL", before ? "after" : "before");
    for (int i = 0; i < l->ndim; i++) {
        if (before[i] < 0 || after[i] < 0)
            return tidei_fail(TIDE_E_SHAPE, op,
                              "%" PRId64 " elements before and %" PRId64 " behind axis %d",
                              before[i], after[i], i);
        if (mode != TIDE_PAD_CONSTANT && !l->shape[i] && (before[i] || after[i]))
            return tidei_fail(TIDE_E_EMPTY, op, "axis %d has no elements that a border could have",
                              i);
        if (__builtin_add_overflow(before[i], after[i], &shape[i]) ||
            __builtin_add_overflow(shape[i], l->shape[i], &shape[i]))
            return tidei_fail(TIDE_E_NOMEM, op, "axis %d of the result has 2^63 elements or more",
                              i);
    }
    return TIDE_OK;
}

#define SMALL  ((int64_t)(4 * TIDEI_MIB)) /* bytes that are filled while a launch is made */
#define SECTOR ((int64_t)32)              /* bytes that memory reads or writes at once */

/* The bytes moved to fill the borders of axis i, side by side: in pieces, and with each the
** sectors of which it has a part. */
static int64_t bytes_of_sides(const tidei_layout *dst, int i, int64_t before, int64_t after) {
    int64_t pieces = 1, inner = (int64_t)tide_dtype_size(dst->dtype);
    for (int d = 0; d < i; d++) pieces *= dst->shape[d];
    for (int d = i + 1; d < dst->ndim; d++) inner *= dst->shape[d];
    return pieces * (inner * (before + after) + 2 * SECTOR * ((before > 0) + (after > 0)));
}

/* Whether all is filled before the array is copied into it: one launch in place of one for each
** side where the result is small, and less to move where rows are short (16777216 x 1 with a column
** at each side: three passes over all lines otherwise). */
static bool is_filled_first(const tidei_layout *dst, const int64_t *before, const int64_t *after) {
    const int64_t bytes = tidei_layout_size(dst) * (int64_t)tide_dtype_size(dst->dtype);
    int64_t sides = 0;
    int n = 0;
    for (int i = 0; i < dst->ndim; i++) {
        n += (before[i] > 0) + (after[i] > 0);
        sides += bytes_of_sides(dst, i, before[i], after[i]);
    }
    return (n > 1 && bytes <= SMALL) || bytes < sides;
}

static tide_status fill(const tidei_operand *dst, const tidei_operand *src, const int64_t *before,
                        const int64_t *after, int mode, const void *element) {
    tidei_operand middle = *dst;
    tide_status s = TIDE_OK;
    if (!tidei_layout_size(&dst->lay)) return TIDE_OK;
    if (!tidei_layout_size(&src->lay)) return tidei_fill_elements(dst, element, "tide_pad");
    for (int i = 0; i < src->lay.ndim; i++)
        tidei_narrow(&middle.lay, i, before[i], src->lay.shape[i]);
    const bool filled = mode == TIDE_PAD_CONSTANT && is_filled_first(&dst->lay, before, after);
    if (filled) s = tidei_fill_elements(dst, element, "tide_pad");
    if (s == TIDE_OK) s = tidei_copy_elements(dst->rt, &middle, src, "tide_pad");
    for (int i = 0; i < src->lay.ndim && s == TIDE_OK && !filled; i++) {
        border b = {i, mode, before[i], after[i], element};
        s = pad_axis(dst, &middle.lay, &b, "tide_pad");
    }
    return s;
}

static tide_array *pad(const tidei_operand *o, const int64_t *before, const int64_t *after,
                       int mode, tide_arg value) {
    unsigned char element[16];
    int64_t shape[TIDE_MAX_RANK];
    tidei_operand out;
    if (plan(&o->lay, before, after, mode, shape) != TIDE_OK) return NULL;
    if (mode == TIDE_PAD_CONSTANT &&
        tidei_encode(value, o->lay.dtype, "tide_pad", element) != TIDE_OK)
        return NULL;
    tide_array *made = tidei_array_make(o->rt, o->lay.dtype, o->lay.ndim, shape, "tide_pad", &out);
    return made ? tidei_array_done(made, &out, fill(&out, o, before, after, mode, element)) : NULL;
}

tide_array *tide_pad(tide_array *a, const int64_t *before, const int64_t *after, int mode,
                     tide_arg value) {
    TIDEI_OPERATION("tide_pad");
    tidei_operand o;
    if (tidei_operand_get(a, "tide_pad", 1, &o) != TIDE_OK) return NULL;
    tide_array *made = pad(&o, before, after, mode, value);
    tidei_operand_put(&o);
    return made;
}
