/* unique.c: the distinct elements of an array, in order. Of types that have few values these are
** marked (distinct.c). Others are sorted; where each group of equals begins, the host must wait for
** as it makes the results' size; and then what is to be told of each group. */
#include "arrays/arrays.h"
#include "arrays/order/distinct.h"
#include "arrays/order/results.h"
#include "arrays/order/sort.h"
#include "arrays/order/step.h"
#include "arrays/scan/select.h"

/* The array sorted, and what each sorted element's place was. */
typedef struct groups {
    tidei_operand flat;
    const tidei_operand *sorted, *order;
    int64_t n;
} groups;

/* Whether a group begins, for each sorted element. */
static tide_status find_begins(const tidei_results *r, const groups *g, tidei_operand *flags) {
    tide_status s = tidei_operand_make(r->rt, TIDE_BOOL, 1, &g->n, r->op, flags);
    if (s != TIDE_OK) return s;
    const tidei_step begins = {.name = TIDEI_STEP_BEGINS,
                               .sorted = g->sorted,
                               .values = flags,
                               .n = g->n,
                               .type = g->sorted->lay.dtype};
    s = tidei_step_run(&begins, r->op);
    if (s != TIDE_OK) tidei_operand_put(flags);
    return s;
}

/* Where groups begin: i64, as many as there are. */
static tide_status find_starts(const tidei_results *r, const groups *g, tide_array **starts) {
    tidei_operand flags;
    tide_status s = find_begins(r, g, &flags);
    if (s != TIDE_OK) return s;
    s = tidei_nonzero(&flags, starts, r->op);
    if (s == TIDE_OK && !(*starts = tidei_temporary(*starts, r->op))) s = tidei_last_status();
    tidei_operand_put(&flags);
    return s;
}

/* The values alone. */
static tide_status pick_values(const tidei_results *r, const groups *g, tide_array **values) {
    tidei_operand flags;
    tide_status s = find_begins(r, g, &flags);
    if (s != TIDE_OK) return s;
    tide_array *picked = tidei_masked_select(g->sorted, &flags, r->op);
    tidei_operand_put(&flags);
    if (!picked) return tidei_last_status();
    *values = picked;
    return TIDE_OK;
}

static tide_status tell(const tidei_operand *a, const tidei_wanted *w, const groups *g,
                        const tidei_operand *starts, const char *op) {
    const int64_t count = starts->lay.shape[0];
    tidei_results r = {.rt = a->rt, .op = op};
    tidei_step s = {.name = TIDEI_STEP_TELL,
                    .sorted = g->sorted,
                    .order = g->order,
                    .starts = starts,
                    .n = count,
                    .m = g->n,
                    .type = a->lay.dtype};
    if (w->values) s.values = tidei_results_make(&r, w->values, s.type, 1, &count);
    if (w->indices) s.places = tidei_results_make(&r, w->indices, TIDE_I64, 1, &count);
    if (w->counts) s.counts = tidei_results_make(&r, w->counts, TIDE_I64, 1, &count);
    if (w->inverse)
        s.inverse = tidei_results_make(&r, w->inverse, TIDE_I64, a->lay.ndim, a->lay.shape);
    tidei_step invert = {.name = TIDEI_STEP_INVERT,
                         .order = g->order,
                         .starts = starts,
                         .inverse = s.inverse,
                         .n = w->inverse ? g->n : 0,
                         .m = count,
                         .type = s.type};
    s.inverse = NULL;
    if (r.status == TIDE_OK) r.status = tidei_step_run(&s, op);
    if (r.status == TIDE_OK) r.status = tidei_step_run(&invert, op);
    return tidei_results_end(&r);
}

static void sort_all(tidei_results *r, const tidei_operand *a, const tidei_wanted *w, groups *g) {
    (void)tidei_step_flat(r, a, a->lay.dtype, true, &g->flat); /* in its status */
    g->n = g->flat.lay.shape[0];
    g->sorted = tidei_results_make(r, NULL, a->lay.dtype, 1, &g->n);
    if (w->indices || w->inverse) g->order = tidei_results_make(r, NULL, TIDE_I64, 1, &g->n);
    const tidei_sorting s = {.source = &g->flat, .values = g->sorted, .indices = g->order};
    if (r->status == TIDE_OK) r->status = tidei_sort(&s, r->op);
}

/* What is to be told of groups by where they begin. */
static tide_status tell_groups(const tidei_operand *a, const tidei_wanted *w, const groups *g,
                               const tidei_results *r) {
    tide_array *starts = NULL;
    tidei_operand o;
    tide_status s = find_starts(r, g, &starts);
    if (s == TIDE_OK) s = tidei_operand_get(starts, r->op, 1, &o);
    if (s == TIDE_OK) {
        s = tell(a, w, g, &o, r->op);
        tidei_operand_put(&o);
    }
    tidei_temporary_end(starts);
    return s;
}

static tide_status unique(const tidei_operand *a, const tidei_wanted *w, const char *op) {
    tidei_results r = {.rt = a->rt, .op = op}; /* of use during the call alone */
    groups g = {.n = 0};
    sort_all(&r, a, w, &g);
    if (r.status == TIDE_OK)
        r.status = w->indices || w->inverse || w->counts ? tell_groups(a, w, &g, &r)
                                                         : pick_values(&r, &g, w->values);
    return tidei_results_end(&r);
}

static tide_status unique_of(tide_array *a, const tidei_wanted *w, const char *op) {
    tidei_operand o;
    if (a && !w->values && !w->indices && !w->inverse && !w->counts) return tidei_results_none(op);
    tide_status s = tidei_operand_get(a, op, 1, &o);
    if (s != TIDE_OK) return s;
    s = tidei_has_marks(&o) ? tidei_distinct(&o, w, op) : unique(&o, w, op);
    tidei_operand_put(&o);
    return s;
}

tide_array *tide_unique_values(tide_array *a) {
    TIDEI_OPERATION("tide_unique_values");
    tide_array *out = NULL;
    (void)unique_of(a, &(tidei_wanted){.values = &out}, "tide_unique_values"); /* NULL then */
    return out;
}

tide_status tide_unique_counts(tide_array *a, tide_array **values, tide_array **counts) {
    TIDEI_OPERATION("tide_unique_counts");
    return unique_of(a, &(tidei_wanted){.values = values, .counts = counts}, "tide_unique_counts");
}

tide_status tide_unique_inverse(tide_array *a, tide_array **values, tide_array **inverse) {
    TIDEI_OPERATION("tide_unique_inverse");
    return unique_of(a, &(tidei_wanted){.values = values, .inverse = inverse},
                     "tide_unique_inverse");
}

tide_status tide_unique_all(tide_array *a, tide_array **values, tide_array **indices,
                            tide_array **inverse, tide_array **counts) {
    TIDEI_OPERATION("tide_unique_all");
    return unique_of(a, &(tidei_wanted){values, indices, inverse, counts}, "tide_unique_all");
}
