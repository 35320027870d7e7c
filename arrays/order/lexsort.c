/* lexsort.c: a sort by several keys: by the last one first, then by each before it, stably: its
** elements are brought into the order found so far, and sorted, and the orders joined. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/order/results.h"
#include "arrays/order/sort.h"
#include "arrays/order/step.h"

typedef struct keys {
    const tidei_operand *at;
    size_t n;
    int axis;
    const char *op;
} keys;

static tide_status check(keys *k, int axis) {
    char one[192], other[192];
    const tidei_layout *first = &k->at[0].lay;
    for (size_t i = 1; i < k->n; i++) {
        const tidei_layout *l = &k->at[i].lay;
        if (l->ndim != first->ndim || !tidei_same_dims(l->ndim, l->shape, first->shape))
            return tidei_fail(TIDE_E_SHAPE, k->op, "key %zu has shape %s; the first has %s", i,
                              tidei_shape_text(one, sizeof one, l->ndim, l->shape),
                              tidei_shape_text(other, sizeof other, first->ndim, first->shape));
    }
    return tidei_axis(axis, first->ndim, k->op, &k->axis);
}

/* Elements of `from`, row-major, at the places that `order` has along the axis. */
static tide_status bring(const keys *k, const tidei_operand *from, const tidei_operand *order,
                         const tidei_operand *to) {
    const tidei_layout *l = &from->lay;
    tidei_step s = {.name = TIDEI_STEP_ALONG,
                    .given = from,
                    .order = order,
                    .values = to,
                    .n = tidei_layout_size(l),
                    .length = l->shape[k->axis],
                    .inner = 1,
                    .type = l->dtype};
    for (int i = k->axis + 1; i < l->ndim; i++) s.inner *= l->shape[i];
    return tidei_step_run(&s, k->op);
}

/* The order so far, refined by a key that counts more: into `to`. */
static tide_status refine(const keys *k, const tidei_operand *key, const tidei_operand *order,
                          const tidei_operand *to) {
    const tidei_layout *l = &key->lay;
    tidei_results r = {.rt = key->rt, .op = k->op};
    const tidei_operand *plain = tidei_results_make(&r, NULL, l->dtype, l->ndim, l->shape),
                        *brought = tidei_results_make(&r, NULL, l->dtype, l->ndim, l->shape),
                        *places = tidei_results_make(&r, NULL, TIDE_I64, l->ndim, l->shape);
    const tidei_sorting s = {.source = brought, .axis = k->axis, .indices = places};
    if (r.status == TIDE_OK) r.status = tidei_copy_elements(key->rt, plain, key, k->op);
    if (r.status == TIDE_OK) r.status = bring(k, plain, order, brought);
    if (r.status == TIDE_OK) r.status = tidei_sort(&s, k->op);
    if (r.status == TIDE_OK) r.status = bring(k, order, places, to);
    return tidei_results_end(&r);
}

/* Orders take turns; the last one is the result. */
static tide_status sort_keys(keys *k, tide_array **out) {
    const tidei_operand *last = &k->at[k->n - 1], *order[2] = {NULL, NULL};
    const tidei_layout *l = &last->lay;
    const size_t result = (k->n - 1) % 2;
    tidei_results r = {.rt = last->rt, .op = k->op};
    for (size_t i = 0; i < 2 && i < k->n; i++)
        order[i] = tidei_results_make(&r, i == result ? out : NULL, TIDE_I64, l->ndim, l->shape);
    const tidei_sorting s = {.source = last, .axis = k->axis, .indices = order[0]};
    if (r.status == TIDE_OK) r.status = tidei_sort(&s, k->op);
    for (size_t i = 1; i < k->n && r.status == TIDE_OK; i++)
        r.status = refine(k, &k->at[k->n - 1 - i], order[(i + 1) % 2], order[i % 2]);
    return tidei_results_end(&r);
}

static tide_array *lexsort(tide_array *const *arrays, keys *k, int axis) {
    tide_array *out = NULL;
    tidei_operand first;
    size_t got = 0;
    if (tidei_operand_get(arrays[0], k->op, TIDEI_LISTED(1, 0), &first) != TIDE_OK) return NULL;
    tidei_runtime *rt = first.rt;
    tidei_operand *at =
        k->n <= SIZE_MAX / sizeof *at ? tidei_scratch_host(rt, k->n * sizeof *at) : NULL;
    if (at) {
        while (got < k->n && tidei_operand_get_of(rt, arrays[got], k->op, TIDEI_LISTED(1, got),
                                                  &at[got]) == TIDE_OK)
            got++;
        k->at = at;
        if (got == k->n && check(k, axis) == TIDE_OK) (void)sort_keys(k, &out); /* NULL then */
        while (got > 0) tidei_operand_put(&at[--got]);
    } else
        tidei_fail_host_memory(k->op, k->n * sizeof *at);
    tidei_scratch_host_free(rt, at);
    tidei_operand_put(&first);
    return out;
}

tide_array *tide_lexsort(tide_array *const *arrays, size_t n, int axis) {
    TIDEI_OPERATION("tide_lexsort");
    keys k = {.n = n, .op = "tide_lexsort"};
    if (n == 0 || !arrays) {
        tidei_fail(TIDE_E_INVALID, k.op, n ? "keys is NULL" : "there are no keys to sort by");
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (!arrays[i]) return (void)tidei_null_array(k.op, TIDEI_LISTED(1, i)), NULL;
    return lexsort(arrays, &k, axis);
}
