/* search.c: places in sorted arrays, and whether elements are in a set. */
#include "arrays/arrays.h"
#include "arrays/order/results.h"
#include "arrays/order/sort.h"
#include "arrays/order/step.h"

/* Both operands as one axis of one type. */
typedef struct pair {
    tidei_operand a, b, a_flat, b_flat;
    tide_dtype type;
    tidei_results r;
} pair;

static tide_status pair_get(pair *x, tide_array *a, tide_array *b, const char *op) {
    tide_array *const both[] = {a, b};
    *x = (pair){.r = {.op = op}};
    tide_status s = tidei_no_nulls(op, both, 2);
    if (s == TIDE_OK) s = tidei_operand_get(a, op, 1, &x->a);
    if (s != TIDE_OK) return s;
    s = tidei_operand_get_of(x->a.rt, b, op, 2, &x->b);
    if (s != TIDE_OK) tidei_operand_put(&x->a);
    x->r.rt = x->a.rt;
    return s;
}

static void pair_flatten(pair *x) {
    if (x->r.status == TIDE_OK)
        x->r.status = tidei_promote(x->a.lay.dtype, x->b.lay.dtype, x->r.op, &x->type);
    (void)tidei_step_flat(&x->r, &x->a, x->type, true, &x->a_flat);  /* in its status */
    (void)tidei_step_flat(&x->r, &x->b, x->type, false, &x->b_flat); /* likewise */
}

static void pair_put(pair *x) {
    tidei_operand_put(&x->b);
    tidei_operand_put(&x->a);
}

static void find(pair *x, bool right, tide_array **out) {
    const tidei_layout *values = &x->b.lay;
    if (x->a.lay.ndim != 1)
        x->r.status = tidei_fail(TIDE_E_SHAPE, x->r.op,
                                 "the sorted array has %d dimensions; wanted 1", x->a.lay.ndim);
    pair_flatten(x);
    tidei_step s = {.name = TIDEI_STEP_FIND,
                    .sorted = &x->a_flat,
                    .given = &x->b_flat,
                    .n = x->b_flat.lay.shape[0],
                    .m = x->a_flat.lay.shape[0],
                    .right = right,
                    .type = x->type};
    s.places = tidei_results_make(&x->r, out, TIDE_I64, values->ndim, values->shape);
    if (s.places) x->r.status = tidei_step_run(&s, x->r.op);
}

tide_array *tide_searchsorted(tide_array *sorted, tide_array *values, int right) {
    TIDEI_OPERATION("tide_searchsorted");
    tide_array *out = NULL;
    pair x;
    if (pair_get(&x, sorted, values, "tide_searchsorted") != TIDE_OK) return NULL;
    find(&x, right, &out);
    (void)tidei_results_end(&x.r); /* NULL then */
    pair_put(&x);
    return out;
}

/* Of a's elements, which are in b: b is the first of the pair, as it is the one to be sorted. */
static void look_up(pair *x, tide_array **out) {
    const tidei_layout *l = &x->b.lay;
    pair_flatten(x);
    const tidei_operand *sorted = tidei_results_make(&x->r, NULL, x->type, 1, x->a_flat.lay.shape);
    const tidei_sorting by_value = {.source = &x->a_flat, .values = sorted};
    tidei_step s = {.name = TIDEI_STEP_IS_IN,
                    .sorted = sorted,
                    .given = &x->b_flat,
                    .n = x->b_flat.lay.shape[0],
                    .m = x->a_flat.lay.shape[0],
                    .type = x->type};
    s.values = tidei_results_make(&x->r, out, TIDE_BOOL, l->ndim, l->shape);
    if (s.values) x->r.status = tidei_sort(&by_value, x->r.op);
    if (x->r.status == TIDE_OK) x->r.status = tidei_step_run(&s, x->r.op);
}

/* The pair's operands come in the other order: the set first. */
static tide_status swapped(pair *x, tide_array *a, tide_array *b, const char *op) {
    tide_status s = pair_get(x, a, b, op);
    const tidei_operand first = x->a;
    if (s != TIDE_OK) return s;
    x->a = x->b;
    x->b = first;
    return s;
}

tide_array *tide_isin(tide_array *a, tide_array *b) {
    TIDEI_OPERATION("tide_isin");
    tide_array *out = NULL;
    pair x;
    if (swapped(&x, a, b, "tide_isin") != TIDE_OK) return NULL;
    look_up(&x, &out);
    (void)tidei_results_end(&x.r); /* NULL then */
    pair_put(&x);
    return out;
}
