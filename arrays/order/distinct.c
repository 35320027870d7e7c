/* distinct.c: the distinct elements of an array whose type has so few values that each has a mark:
** those of one or two bytes, where kernels are text (distinct.cu).
**
** One pass over the elements marks the values that occur, one block ranks these, the host waits for
** their number and makes the results. The values are told from the marks alone; a second pass over
** the elements tells what else is wanted, and of each NaN, which is one of its own, its value. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/kernels/launch.h"
#include "arrays/order/distinct.h"
#include "arrays/order/results.h"
#include "arrays/order/step.h"
#include "arrays/order/types.h"

extern const char tidei_order_distinct_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_order_distinct_text, NULL, false }
static const tidei_own_kernel mark_kernels[] = {KERNEL(order_mark_8), KERNEL(order_mark_16)},
                              rank_kernel = KERNEL(order_rank_marks),
                              tell_kernel = KERNEL(order_tell_marks),
                              each_kernels[] = {KERNEL(order_tell_each_8),
                                                KERNEL(order_tell_each_16)};

/* Elements of a block: it starts without marks, and to set one takes longer than to find it set. */
#define SHARE ((int64_t)16384)
#define ROOM  8192 /* counts of a block (distinct.cu) */

/* A call: its operands; NULL: there is none. */
typedef struct job {
    const tidei_operand *source, *state, *values, *indices, *inverse, *counts;
    const char *op;
    od_distinct p;
    int64_t n;
} job;

static tide_status launch(const job *j, const tidei_own_kernel *k, int64_t blocks) {
    static const size_t fields[] = {
        offsetof(od_distinct, sort.source), offsetof(od_distinct, sort.state),
        offsetof(od_distinct, sort.values), offsetof(od_distinct, sort.indices),
        offsetof(od_distinct, inverse),     offsetof(od_distinct, counts),
    };
    const tidei_operand *const all[TIDEI_COUNT(fields)] = {j->source,  j->state,   j->values,
                                                           j->indices, j->inverse, j->counts};
    od_distinct p = j->p; /* the addresses of this launch are added */
    tidei_use uses[TIDEI_COUNT(fields)];
    size_t at[TIDEI_COUNT(fields)];
    unsigned n = 0;
    for (unsigned i = 0; i < TIDEI_COUNT(fields); i++) {
        if (!all[i]) continue;
        uses[n] = tidei_operand_use(all[i], i == 0 ? TIDEI_READ : TIDEI_READ | TIDEI_WRITE);
        *(od_u64 *)((char *)&p + fields[i]) = tidei_order_first(all[i], &uses[n]);
        at[n++] = fields[i];
    }
    return tidei_run_own(j->source->rt, k, uses, n, &p, sizeof p, at,
                         (uint64_t)blocks * TIDEI_OWN_BLOCK, j->op);
}

static int64_t shares(const job *j) { return (j->n + SHARE - 1) / SHARE; }

/* Finds how many there are: waits. */
static tide_status count(job *j) {
    const tidei_operand *o = j->state;
    const bool two = j->p.sort.type.size == 2;
    const size_t cleared = offsetof(od_marks, ranked);
    int64_t told[2] = {0};
    tide_status s = tidei_submit_fill(tidei_stream_here(o->rt), o->st, 0, &(uint64_t){0},
                                      sizeof(uint64_t), cleared / sizeof(uint64_t), j->op);
    tidei_own_ahead(o->rt, &rank_kernel);
    tidei_own_ahead(o->rt, &tell_kernel);
    if (s == TIDE_OK) s = launch(j, &mark_kernels[two], shares(j));
    if (s == TIDE_OK) s = launch(j, &rank_kernel, 1);
    if (s != TIDE_OK) return s;
    tidei_operand first = *o;
    first.lay.shape[0] = 2;
    s = tidei_operand_read(&first, told, j->op);
    j->p.found = told[0];
    j->p.nans = told[1];
    return s;
}

/* With the results there. */
static tide_status tell(job *j) {
    const bool two = j->p.sort.type.size == 2;
    const int64_t bins = two ? 1 << 16 : 1 << 8, numbers = j->p.found - j->p.nans;
    int64_t slices = j->counts && numbers > ROOM ? (numbers + ROOM - 1) / ROOM : 1;
    tide_status s = TIDE_OK;
    if (j->counts) s = tidei_fill_elements(j->counts, &(int64_t){0}, j->op);
    if (s == TIDE_OK && j->indices)
        s = tidei_fill_elements(j->indices, &(int64_t){INT64_MAX}, j->op);
    if (s == TIDE_OK && j->values) s = launch(j, &tell_kernel, bins / TIDEI_OWN_BLOCK);
    if (s == TIDE_OK && (j->indices || j->inverse || j->counts || (j->values && j->p.nans)))
        s = launch(j, &each_kernels[two], shares(j) * slices);
    return s;
}

bool tidei_has_marks(const tidei_operand *a) {
    return tide_dtype_size(a->lay.dtype) <= 2 && tidei_order_by_text(a) &&
           tidei_layout_size(&a->lay) > 0;
}

tide_status tidei_distinct(const tidei_operand *a, const tidei_wanted *w, const char *op) {
    tidei_results r = {.rt = a->rt, .op = op};
    tidei_operand flat;
    job j = {.source = &flat, .op = op};
    (void)tidei_step_flat(&r, a, a->lay.dtype, true, &flat); /* in its status */
    j.n = flat.lay.shape[0];
    j.p.sort.type = tidei_order_type(a->lay.dtype, false);
    j.p.sort.space = (od_rows){.rows = 1, .length = j.n, .step = flat.lay.strides[0]};
    /* of floats each warp of a tile notes its stretch, in the last tile too */
    const int64_t tiles = j.p.sort.type.kind == OD_FLOAT ? (j.n + OD_TILE_32 - 1) / OD_TILE_32 : 0,
                  words = (int64_t)(offsetof(od_marks, stretch) / sizeof(uint64_t)) +
                          tiles * (OD_TILE_32 / OD_STRETCH);
    j.state = tidei_results_make(&r, NULL, TIDE_U64, 1, &words);
    if (r.status == TIDE_OK) r.status = count(&j);
    const int64_t found = j.p.found;
    if (w->values) j.values = tidei_results_make(&r, w->values, a->lay.dtype, 1, &found);
    if (w->indices) j.indices = tidei_results_make(&r, w->indices, TIDE_I64, 1, &found);
    if (w->counts) j.counts = tidei_results_make(&r, w->counts, TIDE_I64, 1, &found);
    if (w->inverse)
        j.inverse = tidei_results_make(&r, w->inverse, TIDE_I64, a->lay.ndim, a->lay.shape);
    if (r.status == TIDE_OK) r.status = tell(&j);
    return tidei_results_end(&r);
}
