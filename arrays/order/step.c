/* step.c: the steps that follow a sort (step.h). */
#include "arrays/expr/copy.h"
#include "arrays/kernels/launch.h"
#include "arrays/layout.h"
#include "arrays/order/step.h"
#include "arrays/order/steps.h"

extern const char tidei_order_steps_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_order_steps_text, name, false }
static const tidei_own_kernel kernels[] = {
    [TIDEI_STEP_FIND] = KERNEL(order_find),         [TIDEI_STEP_IS_IN] = KERNEL(order_is_in),
    [TIDEI_STEP_BEGINS] = KERNEL(order_begins),     [TIDEI_STEP_TELL] = KERNEL(order_tell),
    [TIDEI_STEP_INVERT] = KERNEL(order_invert),     [TIDEI_STEP_ALONG] = KERNEL(order_along),
    [TIDEI_STEP_QUANTILE] = KERNEL(order_quantile), [TIDEI_STEP_EDGES] = KERNEL(order_edges),
    [TIDEI_STEP_BINS] = KERNEL(order_bins),         [TIDEI_STEP_STARTS] = KERNEL(order_starts),
    [TIDEI_STEP_WEIGH] = KERNEL(order_weigh),
};

/* On devices that run text, for as many elements as are worth it. */
static const tidei_own_kernel bins_here = {"order_bins_here", tidei_order_steps_text, NULL, false},
                              by_tree[] = {
                                  {"order_find_by_tree", tidei_order_steps_text, NULL, false},
                                  {"order_is_in_by_tree", tidei_order_steps_text, NULL, false}};

#define A_THREAD   4  /* elements, at least: a block takes a while to begin */
#define A_BIN      32 /* of all blocks, likewise: a block's counts are added to those of all */
#define TREE_LEAST 16 /* elements that are searched; below, a search is over soon */

/* Levels of a tree that is made for `each` searches; an element of `size` bytes takes 4 or 8. */
static int tree_levels(int64_t m, uint64_t each, int size) {
    int levels = 0;
    while (m >> levels && (size > 4 ? 8u : 4u) << levels < OD_TREE_BYTES && 4u << levels <= each)
        levels++;
    return levels;
}

/* The kernel by which a block each multiprocessor does the step, and what it wants to know; NULL:
** there is none, or the elements are too few. */
static const tidei_own_kernel *large_blocks(const tidei_step *s, od_steps *p,
                                            const tidei_device_info *info) {
    if (!(info->flags & TIDEI_DEV_RUNS_TEXT) || info->sm_count < 1) return NULL;
    const uint64_t each = (uint64_t)s->n / (uint64_t)info->sm_count;
    if (s->name == TIDEI_STEP_BINS)
        return s->m <= OD_BIN_BYTES / 4 && s->n / A_BIN >= s->m ? &bins_here : NULL;
    if (s->name != TIDEI_STEP_FIND && s->name != TIDEI_STEP_IS_IN) return NULL;
    if (p->type.parts > 1 || p->step != 1 || s->m >= (int64_t)1 << 31) return NULL;
    if (each < OD_LARGE_BLOCK * A_THREAD || s->m < TREE_LEAST) return NULL;
    p->levels = tree_levels(s->m, each, p->type.size);
    return &by_tree[s->name == TIDEI_STEP_IS_IN];
}

enum { ARRAYS = 10, READ = 6 }; /* of a step, of which it reads the first few */

tide_status tidei_step_run(const tidei_step *s, const char *op) {
    static const size_t fields[ARRAYS] = {offsetof(od_steps, sorted),  offsetof(od_steps, given),
                                          offsetof(od_steps, order),   offsetof(od_steps, starts),
                                          offsetof(od_steps, least),   offsetof(od_steps, greatest),
                                          offsetof(od_steps, values),  offsetof(od_steps, places),
                                          offsetof(od_steps, inverse), offsetof(od_steps, counts)};
    const tidei_operand *const all[ARRAYS] = {s->sorted,  s->given,    s->order,  s->starts,
                                              s->least,   s->greatest, s->values, s->places,
                                              s->inverse, s->counts};
    od_steps p = {.n = s->n,
                  .m = s->m,
                  .step = s->sorted && s->sorted->lay.ndim ? s->sorted->lay.strides[0] : 1,
                  .length = s->length,
                  .inner = s->inner,
                  .type = tidei_order_type(s->type, false),
                  .right = s->right,
                  .whole = s->whole,
                  .low = s->low,
                  .high = s->high};
    tidei_use uses[ARRAYS];
    size_t at[ARRAYS];
    tidei_runtime *rt = NULL;
    unsigned n = 0;
    if (s->n == 0) return TIDE_OK;
    for (unsigned i = 0; i < ARRAYS; i++) {
        if (!all[i]) continue;
        rt = all[i]->rt;
        at[n] = fields[i];
        uses[n] = tidei_operand_use(all[i], i < READ                     ? TIDEI_READ
                                            : s->name == TIDEI_STEP_BINS ? TIDEI_READ | TIDEI_WRITE
                                                                         : TIDEI_WRITE);
        *(od_u64 *)((char *)&p + at[n]) = tidei_order_first(all[i], &uses[n]);
        n++;
    }
    const tidei_device_info *info = &tidei_stream_here(rt)->dev->d->info;
    const tidei_own_kernel *large = large_blocks(s, &p, info);
    if (large) {
        const int64_t blocks = s->n / (OD_LARGE_BLOCK * A_THREAD) + 1;
        return tidei_run_own_blocks(rt, large, uses, n, &p, sizeof p, at, OD_LARGE_BLOCK,
                                    (unsigned)(blocks < info->sm_count ? blocks : info->sm_count),
                                    op);
    }
    const bool search = s->name == TIDEI_STEP_FIND || s->name == TIDEI_STEP_IS_IN;
    const uint64_t items = (uint64_t)s->n, each = search ? OD_SEARCHES : 1;
    return tidei_run_own(rt, &kernels[s->name], uses, n, &p, sizeof p, at,
                         (items + each - 1) / each, op);
}

tide_status tidei_step_flat(tidei_results *r, const tidei_operand *a, tide_dtype t, bool strided,
                            tidei_operand *flat) {
    const tidei_layout *l = &a->lay;
    const int64_t n = tidei_layout_size(l);
    *flat = *a;
    if (r->status != TIDE_OK) return r->status;
    if (l->dtype == t && ((strided && l->ndim == 1) || tidei_layout_contiguous(l))) {
        flat->lay.strides[0] = l->ndim == 1 ? l->strides[0] : 1;
    } else {
        const tidei_operand *copy = tidei_results_make(r, NULL, t, l->ndim, l->shape);
        if (!copy) return r->status;
        r->status = tidei_store_elements(a->rt, copy, a, r->op);
        *flat = *copy;
        flat->lay.strides[0] = 1;
    }
    flat->lay.ndim = 1;
    flat->lay.shape[0] = n;
    return r->status;
}
