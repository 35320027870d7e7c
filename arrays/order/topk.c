/* topk.c: the first k of each row in its order. Where kernels are text: of very short rows a block
** sorts many at once, and writes the first k; few of others are picked by a block a row
** (select.cu), if the rows keep the device busy or are not long. On a host few are picked by a heap
** (select_host.c). Else by a sort. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/kernels/launch.h"
#include "arrays/order/results.h"
#include "arrays/order/select_host.h"
#include "arrays/order/sort.h"
#include "arrays/order/types.h"

/* A block reads its row several times: one alone is slower than a sort by all from there on. */
#define LONG      ((int64_t)1 << 16)
#define MANY_ROWS 64
/* A block takes as long to pick of a row as to sort so many elements: 2097152 rows of 7 on an H100
** take 33 ms picked. */
#define SORTED 512

extern const char tidei_order_select_text[];

static const tidei_own_kernel kernels[] = {{"order_top_32", tidei_order_select_text, NULL, false},
                                           {"order_top_64", tidei_order_select_text, NULL, false}},
                              host_kernel = {"order_top", NULL, tidei_top_host, false};

typedef struct topk {
    const tidei_operand *a, *values, *indices; /* the results may be NULL */
    int axis;
    int64_t k;
    bool descending;
    const char *op;
} topk;

static bool is_sorted(const topk *t) {
    return t->a->lay.shape[t->axis] <= SORTED && tidei_sort_keeps(t->a, t->axis);
}

static bool is_picked(const topk *t) {
    const tidei_layout *l = &t->a->lay;
    int64_t n = l->shape[t->axis];
    if (is_sorted(t) || t->k > OD_TOP || tidei_dtype_kind(l->dtype) == TIDEI_KIND_COMPLEX)
        return false;
    return !tidei_order_by_text(t->a) ||
           (n < (int64_t)1 << 32 && (n <= LONG || tidei_layout_size(l) / n >= MANY_ROWS));
}

static void add(const tidei_operand *o, unsigned mode, od_u64 *address, tidei_use *uses,
                unsigned *n) {
    uses[*n] = tidei_operand_use(o, mode);
    *address = tidei_order_first(o, &uses[(*n)++]);
}

static tide_status pick(const topk *t) {
    size_t at[3] = {offsetof(od_top, sort.source)};
    tidei_use uses[3];
    unsigned n = 0;
    od_top p = {.k = t->k};
    tidei_order_rows(&t->a->lay, t->axis, t->k, &p.sort.space);
    p.sort.type = tidei_order_type(t->a->lay.dtype, t->descending);
    add(t->a, TIDEI_READ, &p.sort.source, uses, &n);
    if (t->values) {
        at[n] = offsetof(od_top, sort.values);
        add(t->values, TIDEI_WRITE, &p.sort.values, uses, &n);
    }
    if (t->indices) {
        at[n] = offsetof(od_top, sort.indices);
        add(t->indices, TIDEI_WRITE, &p.sort.indices, uses, &n);
    }
    const tidei_own_kernel *k =
        tidei_order_by_text(t->a) ? &kernels[p.sort.type.size == 8] : &host_kernel;
    return tidei_run_own(t->a->rt, k, uses, n, &p, sizeof p, at,
                         (uint64_t)p.sort.space.rows * TIDEI_OWN_BLOCK, t->op);
}

/* The first k of what a sort gave. */
static tide_status take_first(const topk *t, const tidei_operand *to, const tidei_operand *sorted) {
    tidei_operand part = *sorted;
    part.lay.shape[t->axis] = t->k;
    return tidei_copy_elements(t->a->rt, to, &part, t->op);
}

static tide_status by_sort(const topk *t) {
    const tidei_layout *l = &t->a->lay;
    tidei_results r = {.rt = t->a->rt, .op = t->op};
    tidei_sorting s = {.source = t->a, .axis = t->axis, .descending = t->descending};
    if (is_sorted(t)) {
        s.values = t->values, s.indices = t->indices, s.kept = t->k;
        return tidei_sort(&s, t->op);
    }
    if (t->values) s.values = tidei_results_make(&r, NULL, l->dtype, l->ndim, l->shape);
    if (t->indices) s.indices = tidei_results_make(&r, NULL, TIDE_I64, l->ndim, l->shape);
    if (r.status == TIDE_OK) r.status = tidei_sort(&s, t->op);
    if (r.status == TIDE_OK && t->values) r.status = take_first(t, t->values, s.values);
    if (r.status == TIDE_OK && t->indices) r.status = take_first(t, t->indices, s.indices);
    return tidei_results_end(&r);
}

static tide_status check(topk *t, int axis) {
    tide_status s = tidei_axis(axis, t->a->lay.ndim, t->op, &t->axis);
    if (s != TIDE_OK) return s;
    int64_t n = t->a->lay.shape[t->axis];
    if (t->k >= 0 && t->k <= n) return TIDE_OK;
    return tidei_fail(TIDE_E_BOUNDS, t->op, "%" PRId64 " elements of axis %d, which has %" PRId64,
                      t->k, t->axis, n);
}

static tide_status run(topk *t, int axis, tide_array **values, tide_array **indices) {
    const tidei_layout *l = &t->a->lay;
    int64_t shape[TIDE_MAX_RANK];
    tidei_results r = {.rt = t->a->rt, .op = t->op, .status = check(t, axis)};
    memcpy(shape, l->shape, sizeof shape);
    if (r.status == TIDE_OK) shape[t->axis] = t->k;
    if (values) t->values = tidei_results_make(&r, values, l->dtype, l->ndim, shape);
    if (indices) t->indices = tidei_results_make(&r, indices, TIDE_I64, l->ndim, shape);
    if (r.status == TIDE_OK && tidei_layout_size(l) > 0 && t->k > 0)
        r.status = is_picked(t) ? pick(t) : by_sort(t);
    return tidei_results_end(&r);
}

tide_status tide_topk(tide_array *a, int64_t k, int axis, int largest, tide_array **values,
                      tide_array **indices) {
    TIDEI_OPERATION("tide_topk");
    tidei_operand o;
    topk t = {.a = &o, .k = k, .descending = largest, .op = "tide_topk"};
    if (a && !values && !indices) return tidei_results_none(t.op);
    tide_status s = tidei_operand_get(a, t.op, 1, &o);
    if (s != TIDE_OK) return s;
    s = run(&t, axis, values, indices);
    tidei_operand_put(&o);
    return s;
}
