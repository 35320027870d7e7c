/* index.c: an array at ranges and index arrays, axis by axis, as NumPy indexes: tide_index takes
** the elements, tide_index_put writes them.
**
** A mask is as many index arrays as it has axes: those of its true elements, which are counted on
** the device before all else. One of rank 0, a switch, is none, but counts as one of length 1 or 0
** where shapes are broadcast and placed. Ranges say which part of the array is meant: a view of it.
** Index arrays broadcast together, and their shape takes the place of the axes that they go along:
** where the first of these was, if they (and single indices, which count as index arrays of rank 0
** then) stand side by side, else before all others. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/index/plan.h"
#include "arrays/make/slice.h"
#include "arrays/scan/select.h"
#include <tide/index.h>

/* for the axes, and switches beside them */
#define LISTS_MAX (2 * TIDE_MAX_RANK)
/* an axis each, a new axis each, an ellipsis, and switches */
#define ITEMS_MAX (2 * TIDE_MAX_RANK + 1 + LISTS_MAX)

tide_pick tide_pick_range(tide_range r) {
    return (tide_pick){.kind = TIDE_PICK_RANGE, .value.range = r};
}
tide_pick tide_pick_array(tide_array *a) {
    return (tide_pick){.kind = TIDE_PICK_ARRAY, .value.array = a};
}

/* What a mask of rank 0 becomes. */
enum { SWITCH = -1 };

static bool is_array(const tide_pick *item) { return item->kind == TIDE_PICK_ARRAY; }
static bool is_range(const tide_pick *item, int kind) {
    return item->kind == TIDE_PICK_RANGE && item->value.range.kind == kind;
}

/* ---- what the items are ---- */

typedef struct items {
    const char *op;
    const tide_pick *at;
    size_t n;
    int arrays; /* how many are */
    tidei_operand lists[LISTS_MAX];
    int got; /* of these */
    int switches;
    bool off; /* one of them is false */
    /* what masks stand for: `at` is `expanded` then */
    tide_pick expanded[ITEMS_MAX];
    tide_array *made[TIDE_MAX_RANK];
    int nmade;
    int64_t length[LISTS_MAX]; /* of the axis that a list's mask is for; -1: it has none */
} items;

/* Before all else: an earlier error is why an array is NULL. */
static tide_status no_nulls(tide_array *a, const items *x) {
    if (!a) return tidei_null_array(x->op, 1);
    for (size_t i = 0; x->at && i < x->n; i++)
        if (is_array(&x->at[i]) && !x->at[i].value.array)
            return tidei_null_array(x->op, TIDEI_LISTED(3, i));
    return TIDE_OK;
}

static tide_status too_many(const tidei_layout *l, const items *x, const char *what, int64_t n) {
    return tidei_fail(TIDE_E_BOUNDS, x->op, "%" PRId64 " %s for an array with %d dimension%s", n,
                      what, (int)l->ndim, l->ndim == 1 ? "" : "s");
}

static tide_status count_items(const tidei_layout *l, items *x) {
    int64_t axes = 0, news = 0, ellipses = 0, arrays = 0;
    if (x->n && !x->at) return tidei_fail(TIDE_E_INVALID, x->op, "items is NULL");
    for (size_t i = 0; x->at && i < x->n; i++) {
        const tide_pick *item = &x->at[i];
        if (!is_array(item) && item->kind != TIDE_PICK_RANGE)
            return tidei_fail(TIDE_E_INVALID, x->op, "%d is no kind of item (entry %zu)",
                              (int)item->kind, i);
        if (!is_array(item) && (item->value.range.kind < TIDE_RANGE_SLICE ||
                                item->value.range.kind > TIDE_RANGE_ELLIPSIS))
            return tidei_fail(TIDE_E_INVALID, x->op, "%d is no kind of range (entry %zu)",
                              (int)item->value.range.kind, i);
        if (is_array(item))
            arrays++;
        else if (is_range(item, TIDE_RANGE_NEWAXIS))
            news++;
        else if (is_range(item, TIDE_RANGE_ELLIPSIS))
            ellipses++;
        else
            axes++;
    }
    if (ellipses > 1) return tidei_fail(TIDE_E_INVALID, x->op, "more than one ellipsis");
    if (axes > l->ndim || arrays > LISTS_MAX) return too_many(l, x, "items", axes + arrays);
    if (news > TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, x->op,
                          "%" PRId64 " new axes; at most %d dimensions are possible", news,
                          TIDE_MAX_RANK);
    x->arrays = (int)arrays;
    return TIDE_OK;
}

static tide_status get_lists(tidei_runtime *rt, items *x) {
    tide_status s = TIDE_OK;
    for (size_t i = 0; i < x->n && s == TIDE_OK; i++) {
        if (!is_array(&x->at[i])) continue;
        s = tidei_operand_get_of(rt, x->at[i].value.array, x->op, TIDEI_LISTED(3, i),
                                 &x->lists[x->got]);
        if (s == TIDE_OK) x->got++;
    }
    return s;
}

static void put_lists(items *x) {
    while (x->got > 0) tidei_operand_put(&x->lists[--x->got]);
}

static void end_items(items *x) {
    put_lists(x);
    while (x->nmade > 0) tidei_temporary_end(x->made[--x->nmade]);
}

/* ---- masks ---- */

static bool is_mask(const tidei_operand *list) { return list->lay.dtype == TIDE_BOOL; }

/* How many axes the items take: a mask as many as it has. */
static tide_status check_axes(const tidei_layout *l, const items *x) {
    int64_t axes = 0;
    bool masks = false;
    for (size_t i = 0; i < x->n; i++)
        axes += is_range(&x->at[i], TIDE_RANGE_SLICE) || is_range(&x->at[i], TIDE_RANGE_INDEX);
    for (int k = 0; k < x->got; k++) {
        bool mask = is_mask(&x->lists[k]);
        axes += mask ? x->lists[k].lay.ndim : 1;
        masks |= mask;
    }
    if (axes <= l->ndim) return TIDE_OK;
    if (!masks) return too_many(l, x, "items", axes);
    return tidei_fail(TIDE_E_BOUNDS, x->op,
                      "items and masks for %" PRId64 " axes; the array has %d dimension%s", axes,
                      (int)l->ndim, l->ndim == 1 ? "" : "s");
}

static tide_status read_switch(items *x, const tidei_operand *mask, size_t *n) {
    unsigned char on = 0;
    tide_status s = tidei_operand_read(mask, &on, x->op);
    x->switches++;
    x->off |= !on;
    x->expanded[(*n)++] = (tide_pick){.kind = SWITCH};
    return s;
}

/* Where one mask is true, as an index array for each of its axes. */
static tide_status expand_mask(items *x, const tidei_operand *mask, size_t *n, int *list) {
    tide_array *outs[TIDE_MAX_RANK];
    tide_status s = tidei_nonzero(mask, outs, x->op);
    for (int d = 0, ndim = s == TIDE_OK ? mask->lay.ndim : 0; d < ndim; d++) {
        if (s != TIDE_OK)
            tidei_array_drop(outs[d]);
        else if (!(outs[d] = tidei_temporary(outs[d], x->op)))
            s = tidei_last_status();
        else {
            x->length[(*list)++] = mask->lay.shape[d];
            x->made[x->nmade++] = outs[d];
            x->expanded[(*n)++] = tide_pick_array(outs[d]);
        }
    }
    return s;
}

/* Each mask becomes index arrays, side by side. */
static tide_status expand_masks(const tidei_operand *a, items *x) {
    size_t n = 0;
    int from = 0, list = 0, masks = 0;
    for (int k = 0; k < LISTS_MAX; k++) x->length[k] = -1;
    for (int k = 0; k < x->got; k++) masks += is_mask(&x->lists[k]);
    tide_status s = check_axes(&a->lay, x);
    if (s != TIDE_OK || masks == 0) return s;
    for (size_t i = 0; i < x->n && s == TIDE_OK; i++) {
        const tidei_operand *o = is_array(&x->at[i]) ? &x->lists[from++] : NULL;
        if (o && is_mask(o) && o->lay.ndim == 0) {
            s = read_switch(x, o, &n);
        } else if (o && is_mask(o)) {
            s = expand_mask(x, o, &n, &list);
        } else {
            x->expanded[n++] = x->at[i];
            list += o != NULL;
        }
    }
    if (s != TIDE_OK) return s;
    put_lists(x);
    x->at = x->expanded;
    x->n = n;
    return get_lists(a->rt, x);
}

/* The axes that masks are for, now that they are known, have as many elements as they. */
static tide_status check_lengths(const tidei_plan *p, const items *x) {
    for (int k = 0; k < p->nlists; k++) {
        int64_t length = p->far->lay.shape[p->lists[k].axis];
        if (x->length[k] >= 0 && x->length[k] != length)
            return tidei_fail(TIDE_E_SHAPE, x->op,
                              "a mask with %" PRId64 " elements along an axis that has %" PRId64,
                              x->length[k], length);
    }
    return TIDE_OK;
}

/* ---- the plan ---- */

/* What the ranges make of the array, where every index array takes a whole axis: `view`; new axes
** are left out. */
static tide_status view_of(const tidei_layout *l, const items *x, tidei_layout *view) {
    tide_range ranges[ITEMS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (is_range(&x->at[i], TIDE_RANGE_NEWAXIS) || x->at[i].kind == SWITCH) continue;
        ranges[n++] = is_array(&x->at[i]) ? tide_range_all() : x->at[i].value.range;
    }
    return tidei_layout_slice(l, n, ranges, x->op, view);
}

/* Whether index arrays, switches and single indices stand side by side; an ellipsis parts them even
** where it stands for no axes. */
static bool side_by_side(const items *x) {
    int groups = 0;
    bool inside = false;
    for (size_t i = 0; i < x->n; i++) {
        bool index = x->at[i].kind != TIDE_PICK_RANGE || is_range(&x->at[i], TIDE_RANGE_INDEX);
        groups += index && !inside;
        inside = index;
    }
    return groups <= 1;
}

static tide_status broadcast_lists(const items *x, int *ndim, int64_t *shape) {
    const tidei_layout switched = {.ndim = 1, .shape = {x->off ? 0 : 1}};
    tide_status s = TIDE_OK;
    *ndim = 0;
    for (int l = 0; l < x->got && s == TIDE_OK; l++)
        s = tidei_broadcast(ndim, shape, &x->lists[l].lay, x->op);
    return s == TIDE_OK && x->switches ? tidei_broadcast(ndim, shape, &switched, x->op) : s;
}

static tide_status add_axes(tidei_plan *p, const tidei_layout *view, int first, int count) {
    tide_status s = TIDE_OK;
    for (int i = first; i < first + count && s == TIDE_OK; i++)
        s = tidei_plan_add(p, view->shape[i], view->strides[i], TIDEI_PLAN_WHOLE);
    return s;
}

/* Whether an item stands for an axis of the view. */
static bool has_axis(const tide_pick *item) {
    return is_array(item) || is_range(item, TIDE_RANGE_SLICE);
}

/* How many axes of the view the items name; an ellipsis stands for the others. */
static int named_axes(const items *x) {
    int n = 0;
    for (size_t i = 0; i < x->n; i++) n += has_axis(&x->at[i]);
    return n;
}

/* The dimensions of what is taken, from the view's axes; those of the index arrays once, at the
** first of their items unless they came before all. */
static tide_status add_dimensions(tidei_plan *p, const items *x, const tidei_layout *view, int ndim,
                                  const int64_t *shape) {
    int axis = 0, rest = view->ndim - named_axes(x);
    bool added = !side_by_side(x);
    tide_status s = added ? tidei_plan_add_lists(p, ndim, shape) : TIDE_OK;
    for (size_t i = 0; i < x->n && s == TIDE_OK; i++) {
        const tide_pick *item = &x->at[i];
        if (is_range(item, TIDE_RANGE_NEWAXIS)) {
            s = tidei_plan_add(p, 1, 0, TIDEI_PLAN_WHOLE);
        } else if (is_range(item, TIDE_RANGE_ELLIPSIS)) {
            s = add_axes(p, view, axis, rest);
            axis += rest;
        } else if (is_range(item, TIDE_RANGE_SLICE)) {
            s = add_axes(p, view, axis++, 1);
        } else {
            if (!added) s = tidei_plan_add_lists(p, ndim, shape);
            added = true;
            axis += is_array(item);
        }
    }
    return s == TIDE_OK ? add_axes(p, view, axis, view->ndim - axis) : s;
}

/* The axis of the view that each index array goes along. */
static void find_axes(tidei_plan *p, const items *x, int rest) {
    int axis = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (is_array(&x->at[i])) {
            p->lists[p->nlists].indices = &x->lists[p->nlists];
            p->lists[p->nlists++].axis = axis;
        }
        axis += is_range(&x->at[i], TIDE_RANGE_ELLIPSIS) ? rest : has_axis(&x->at[i]);
    }
}

/* Plans over `view`, an operand that borrows a's storage. */
static tide_status plan(const tidei_operand *a, const items *x, unsigned by, tidei_operand *view,
                        tidei_plan *p) {
    int64_t shape[TIDE_MAX_RANK];
    int ndim;
    *view = *a;
    *p = (tidei_plan){.op = x->op, .by = by, .far = view};
    tide_status s = view_of(&a->lay, x, &view->lay);
    if (s != TIDE_OK) return s;
    find_axes(p, x, view->lay.ndim - named_axes(x));
    s = check_lengths(p, x);
    if (s == TIDE_OK) s = tidei_plan_check(p);
    if (s == TIDE_OK) s = broadcast_lists(x, &ndim, shape);
    if (s == TIDE_OK) s = add_dimensions(p, x, &view->lay, ndim, shape);
    return s == TIDE_OK ? tidei_shape_check(a->lay.dtype, p->ndim, p->shape, x->op) : s;
}

/* ---- the functions ---- */

/* The view that ranges alone give. */
static tide_array *view_alone(const tidei_operand *a, const items *x) {
    tide_range ranges[ITEMS_MAX];
    tidei_layout l;
    for (size_t i = 0; i < x->n; i++) ranges[i] = x->at[i].value.range;
    if (tidei_layout_slice(&a->lay, x->n, ranges, x->op, &l) != TIDE_OK) return NULL;
    tidei_storage_retain(a->st);
    return tidei_array_over(a->rt, a->st, &l, x->op);
}

static tide_array *take_items(const tidei_operand *a, items *x) {
    tidei_operand view;
    tidei_plan p;
    tide_array *made = NULL;
    if (count_items(&a->lay, x) != TIDE_OK) return NULL;
    if (x->arrays == 0) return view_alone(a, x);
    if (get_lists(a->rt, x) == TIDE_OK && expand_masks(a, x) == TIDE_OK &&
        plan(a, x, TIDEI_FAULT_BY_INDEX, &view, &p) == TIDE_OK)
        made = tidei_plan_take(&p);
    end_items(x);
    return made;
}

tide_array *tide_index(tide_array *a, size_t n, const tide_pick *picks) {
    TIDEI_OPERATION("tide_index");
    items x = {.op = "tide_index", .at = picks, .n = n};
    tidei_operand o;
    if (no_nulls(a, &x) != TIDE_OK || tidei_operand_get(a, x.op, 1, &o) != TIDE_OK) return NULL;
    tide_array *made = take_items(&o, &x);
    tidei_operand_put(&o);
    return made;
}

static tide_status put_items(const tidei_operand *a, items *x, const tidei_operand *values) {
    tidei_operand view;
    tidei_plan p;
    tide_status s = count_items(&a->lay, x);
    if (s == TIDE_OK) s = tidei_writable(&a->lay, "the destination", x->op);
    if (s == TIDE_OK) s = get_lists(a->rt, x);
    if (s == TIDE_OK) s = expand_masks(a, x);
    if (s == TIDE_OK) s = plan(a, x, TIDEI_FAULT_BY_INDEX_PUT, &view, &p);
    if (s == TIDE_OK) s = tidei_plan_put(&p, values);
    end_items(x);
    return s;
}

tide_status tide_index_put(tide_array *a, size_t n, const tide_pick *picks, tide_array *values) {
    TIDEI_OPERATION("tide_index_put");
    items x = {.op = "tide_index_put", .at = picks, .n = n};
    tidei_operand o, v;
    tide_status s = no_nulls(a, &x);
    if (s == TIDE_OK && !values) s = tidei_null_array(x.op, 4);
    if (s == TIDE_OK) s = tidei_operand_get(a, x.op, 1, &o);
    if (s != TIDE_OK) return s;
    s = tidei_operand_get_of(o.rt, values, x.op, 4, &v);
    if (s == TIDE_OK) {
        s = put_items(&o, &x, &v);
        tidei_operand_put(&v);
    }
    tidei_operand_put(&o);
    return s;
}
