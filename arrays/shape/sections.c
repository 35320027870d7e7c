/* sections.c: what gives several views at once: parts along an axis, arrays stretched to one shape,
** the coordinates of grids. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/make/view.h"
#include "arrays/shape/several.h"

static tide_status add_view(tidei_several *l, const tidei_operand *o, const tidei_layout *lay,
                            const char *op) {
    return tidei_several_add(l, tidei_view_beside(o, lay, op));
}

/* ---- parts along an axis ---- */

static tide_status check_count(int64_t wanted, size_t m, tide_array **outs, const char *op) {
    if (m && !outs) return tidei_fail(TIDE_E_INVALID, op, "outs is NULL");
    if (wanted == (int64_t)m) return TIDE_OK;
    return tidei_fail(TIDE_E_SHAPE, op, "%zu results are wanted; there are %" PRId64, m, wanted);
}

static void drop_axis(tidei_layout *l, int axis) {
    l->ndim--;
    for (int i = axis; i < l->ndim; i++) {
        l->shape[i] = l->shape[i + 1];
        l->strides[i] = l->strides[i + 1];
    }
}

static tide_status unstack(const tidei_operand *o, int axis, tide_array **outs, size_t m) {
    static const char op[] = "tide_unstack";
    tide_status s = tidei_axis(axis, o->lay.ndim, op, &axis);
    if (s == TIDE_OK) s = check_count(o->lay.shape[axis], m, outs, op);
    if (s != TIDE_OK) return s;
    tidei_several *l = tidei_several_begin(o->rt, m, op);
    if (!l) return tidei_last_status();
    for (size_t i = 0; i < m && s == TIDE_OK; i++) {
        tidei_layout part = o->lay;
        if (tidei_layout_size(&part)) part.offset += (int64_t)i * part.strides[axis];
        drop_axis(&part, axis);
        s = add_view(l, o, &part, op);
    }
    return tidei_several_end(l, s, outs);
}

tide_status tide_unstack(tide_array *a, int axis, tide_array **outs, size_t m) {
    tidei_operand o;
    tide_status s = tidei_operand_get(a, "tide_unstack", 1, &o);
    if (s != TIDE_OK) return s;
    s = unstack(&o, axis, outs, m);
    tidei_operand_put(&o);
    return s;
}

/* Where part i of m begins on an axis of n elements; part m is behind the end. */
static int64_t part_begins(const int64_t *indices, size_t i, size_t m, int64_t n) {
    if (i == 0 || i == m) return i ? n : 0;
    if (!indices) {
        int64_t longer = n % (int64_t)m;
        return (int64_t)i * (n / (int64_t)m) + ((int64_t)i < longer ? (int64_t)i : longer);
    }
    int64_t at = indices[i - 1];
    if (at < 0) at = at < -n ? 0 : at + n;
    return at > n ? n : at;
}

static tide_status split(const tidei_operand *o, const int64_t *indices, size_t n, int axis,
                         tide_array **outs, size_t m) {
    static const char op[] = "tide_split";
    tide_status s = tidei_axis(axis, o->lay.ndim, op, &axis);
    if (s != TIDE_OK) return s;
    if (!m) return tidei_fail(TIDE_E_INVALID, op, "no parts are wanted");
    if (m > INT64_MAX) return tidei_fail(TIDE_E_INVALID, op, "%zu parts are wanted", m);
    s = check_count(indices ? (int64_t)n + 1 : (int64_t)m, m, outs, op);
    if (s != TIDE_OK) return s;
    tidei_several *l = tidei_several_begin(o->rt, m, op);
    if (!l) return tidei_last_status();
    for (size_t i = 0; i < m && s == TIDE_OK; i++) {
        int64_t from = part_begins(indices, i, m, o->lay.shape[axis]),
                to = part_begins(indices, i + 1, m, o->lay.shape[axis]);
        tidei_layout part = o->lay;
        tidei_narrow(&part, axis, from, to > from ? to - from : 0);
        if (!tidei_layout_size(&part)) part.offset = o->lay.offset;
        s = add_view(l, o, &part, op);
    }
    return tidei_several_end(l, s, outs);
}

tide_status tide_split(tide_array *a, const int64_t *indices, size_t n, int axis, tide_array **outs,
                       size_t m) {
    tidei_operand o;
    tide_status s = tidei_operand_get(a, "tide_split", 1, &o);
    if (s != TIDE_OK) return s;
    s = split(&o, indices, n, axis, outs, m);
    tidei_operand_put(&o);
    return s;
}

/* ---- arrays in one shape ---- */

/* Views of n operands stretched to a shape. */
static tide_status stretch_all(tidei_operand *o, size_t n, const tidei_layout *shape,
                               tide_array **outs, const char *op) {
    tide_status s = outs ? tidei_view_shape_check(shape->dtype, shape->ndim, shape->shape, op)
                         : tidei_fail(TIDE_E_INVALID, op, "outs is NULL");
    tidei_several *l = s == TIDE_OK ? tidei_several_begin(o[0].rt, n, op) : NULL;
    if (!l) return tidei_last_status();
    for (size_t i = 0; i < n && s == TIDE_OK; i++) {
        tidei_layout view;
        s = tidei_layout_stretch(&o[i].lay, shape->ndim, shape->shape, op, &view);
        if (s == TIDE_OK) s = add_view(l, &o[i], &view, op);
    }
    return tidei_several_end(l, s, outs);
}

tide_status tide_broadcast_arrays(tide_array *const *arrays, size_t n, tide_array **outs) {
    static const char op[] = "tide_broadcast_arrays";
    tidei_operand *o;
    tide_status s = tidei_operands_get(arrays, n, op, &o);
    if (s != TIDE_OK) return s;
    tidei_layout shape = o[0].lay;
    for (size_t i = 1; i < n && s == TIDE_OK; i++)
        s = tidei_broadcast(&shape.ndim, shape.shape, &o[i].lay, op);
    if (s == TIDE_OK) s = stretch_all(o, n, &shape, outs, op);
    tidei_operands_put(o, n);
    return s;
}

/* The axis of a grid of n dimensions that belongs to its array i. */
static int grid_axis(int indexing, size_t n, size_t i) {
    return indexing == TIDE_GRID_XY && n > 1 && i < 2 ? 1 - (int)i : (int)i;
}

/* Gives each coordinate its axis of the grid, and the grid its shape. */
static tide_status grid(tidei_operand *o, size_t n, int indexing, tidei_layout *shape) {
    static const char op[] = "tide_meshgrid";
    char text[192];
    if (indexing != TIDE_GRID_XY && indexing != TIDE_GRID_IJ)
        return tidei_fail(TIDE_E_INVALID, op, "%d is no indexing", indexing);
    if (n > TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, op, "a grid of %zu dimensions; at most %d are possible", n,
                          TIDE_MAX_RANK);
    *shape = (tidei_layout){.dtype = o[0].lay.dtype, .ndim = (int)n};
    for (size_t i = 0; i < n; i++) {
        const tidei_layout l = o[i].lay;
        int axis = grid_axis(indexing, n, i);
        if (l.ndim > 1)
            return tidei_fail(TIDE_E_SHAPE, op, "array %zu has shape %s; wanted: at most one axis",
                              i, tidei_shape_text(text, sizeof text, l.ndim, l.shape));
        o[i].lay.ndim = (int)n;
        for (int d = 0; d < (int)n; d++) o[i].lay.shape[d] = o[i].lay.strides[d] = 1;
        if (l.ndim) o[i].lay.shape[axis] = l.shape[0];
        if (l.ndim) o[i].lay.strides[axis] = l.strides[0];
        shape->shape[axis] = o[i].lay.shape[axis];
    }
    return TIDE_OK;
}

tide_status tide_meshgrid(tide_array *const *arrays, size_t n, int indexing, tide_array **outs) {
    static const char op[] = "tide_meshgrid";
    tidei_layout shape;
    tidei_operand *o;
    tide_status s = tidei_operands_get(arrays, n, op, &o);
    if (s != TIDE_OK) return s;
    s = grid(o, n, indexing, &shape);
    if (s == TIDE_OK) s = stretch_all(o, n, &shape, outs, op);
    tidei_operands_put(o, n);
    return s;
}
