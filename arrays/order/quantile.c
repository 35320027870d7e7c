/* quantile.c: medians and quantiles: rows sorted, then read between two elements. Few of them are
** found without a sort: on a host (select_host.c), and where kernels are text of rows that a warp
** or a block holds in its registers (quantile.cu).
**
** Axes that are reduced become one, the last, by a copy where they are several. Positions and what
** lies between are computed in f64, and rounded once. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/kernels/launch.h"
#include "arrays/order/results.h"
#include "arrays/order/select_host.h"
#include "arrays/order/sort.h"
#include "arrays/order/step.h"

extern const char tidei_order_quantile_text[];

/* A call under way. */
typedef struct quantile {
    const tidei_operand *a;
    tidei_operand rows; /* a with its reduced axes last; then sorted, as (rows, length) */
    int kept, reduced;  /* axes */
    int64_t nrows, length;
    tidei_operand q;                      /* f64, one axis */
    int ndim;                             /* of the result */
    int64_t shape[2 * TIDE_MAX_RANK + 1]; /* likewise */
    tidei_results r;
} quantile;

/* Which axes go, as bits. */
static tide_status axes_bits(const tidei_layout *l, const int *axes, int n, const char *op,
                             unsigned *bits) {
    *bits = axes ? 0 : (1u << l->ndim) - 1;
    if (axes && n < 0) return tidei_fail(TIDE_E_INVALID, op, "%d axes are given", n);
    for (int i = 0; axes && i < n; i++) {
        int axis;
        tide_status s = tidei_axis(axes[i], l->ndim, op, &axis);
        if (s != TIDE_OK) return s;
        if (*bits >> axis & 1) return tidei_fail(TIDE_E_SHAPE, op, "axis %d is given twice", axis);
        *bits |= 1u << axis;
    }
    return TIDE_OK;
}

/* Moves the axes that go to the end, and appends to the result's shape those that stay. */
static void part_axes(quantile *x, unsigned bits, bool keepdims) {
    const tidei_layout *l = &x->a->lay;
    x->rows = *x->a;
    x->nrows = x->length = 1;
    for (int goes = 0; goes < 2; goes++)
        for (int i = 0; i < l->ndim; i++) {
            if ((int)(bits >> i & 1) != goes) continue;
            int at = x->kept + x->reduced;
            x->rows.lay.shape[at] = l->shape[i];
            x->rows.lay.strides[at] = l->strides[i];
            *(goes ? &x->reduced : &x->kept) += 1;
            *(goes ? &x->length : &x->nrows) *= l->shape[i];
        }
    for (int i = 0; i < l->ndim; i++) {
        bool goes = bits >> i & 1;
        if (!goes || keepdims) x->shape[x->ndim++] = goes ? 1 : l->shape[i];
    }
}

/* Makes the reduced axes one, by a copy where they are several. */
static void make_rows(quantile *x) {
    if (x->reduced == 1) return;
    const tidei_operand *copy =
        tidei_results_make(&x->r, NULL, x->a->lay.dtype, x->rows.lay.ndim, x->rows.lay.shape);
    if (!copy) return;
    x->r.status = tidei_store_elements(copy->rt, copy, &x->rows, x->r.op);
    x->rows = *copy;
    x->rows.lay.ndim = 2;
    memcpy(x->rows.lay.shape, (int64_t[]){x->nrows, x->length}, 2 * sizeof(int64_t));
    memcpy(x->rows.lay.strides, (int64_t[]){x->length, 1}, 2 * sizeof(int64_t));
}

static void sort_rows(quantile *x) {
    if (x->r.status != TIDE_OK) return;
    const tidei_operand *sorted =
        tidei_results_make(&x->r, NULL, x->rows.lay.dtype, x->rows.lay.ndim, x->rows.lay.shape);
    const tidei_sorting s = {.source = &x->rows, .axis = x->rows.lay.ndim - 1, .values = sorted};
    if (x->r.status == TIDE_OK) x->r.status = tidei_sort(&s, x->r.op);
    if (sorted) x->rows = *sorted;
}

/* Quantiles of sorted rows, to `values`, which is f64. */
static tide_status read_sorted(quantile *x, const tidei_operand *values) {
    const tidei_step s = {.name = TIDEI_STEP_QUANTILE,
                          .sorted = &x->rows,
                          .given = &x->q,
                          .values = values,
                          .n = x->q.lay.shape[0] * x->nrows,
                          .m = x->nrows,
                          .length = x->length,
                          .type = x->rows.lay.dtype};
    return tidei_step_run(&s, x->r.op);
}

#define ROOM_MOST  (64 * TIDEI_MIB) /* bytes, for rows that are looked at side by side, */
#define SLOTS_MOST 16               /* and how many these may be */

/* Rows that a team of threads holds in its registers, by the longest of them: a warp, of which a
** block has eight, or a block. Of keys of 32 bits, and of 64. */
#define KERNEL(name)                                                                               \
    { #name, tidei_order_quantile_text, NULL, false }
static const struct held {
    int64_t longest;
    unsigned threads, rows; /* of a block */
    int64_t ranks;          /* quantiles; more of them take longer than a sort */
    tidei_own_kernel k;
} held[2][5] = {{{1024, 256, 8, 4, KERNEL(order_quantiles_32_warp)},
                 {4096, 256, 1, 4, KERNEL(order_quantiles_32_256)},
                 {8192, 512, 1, 8, KERNEL(order_quantiles_32_512)},
                 {16384, 1024, 1, 8, KERNEL(order_quantiles_32_1024)},
                 {32768, 1024, 1, 8, KERNEL(order_quantiles_32_most)}},
                {{1024, 256, 8, 4, KERNEL(order_quantiles_64_warp)},
                 {4096, 256, 1, 4, KERNEL(order_quantiles_64_256)},
                 {8192, 512, 1, 8, KERNEL(order_quantiles_64_512)},
                 {16384, 1024, 1, 8, KERNEL(order_quantiles_64_1024)}}};
/* Shorter rows are sorted, many by one block at once: 100000 rows of 128 f32 on an H200 271 us, of
** 129 held by warps 146. */
#define HELD_LEAST 65
/* Blocks a multiprocessor that share the rows, at most. */
#define HELD_BLOCKS 32

/* What holds the rows; NULL: nothing does, they are sorted. */
static const struct held *holder(const quantile *x) {
    const struct held *h = held[tide_dtype_size(x->rows.lay.dtype) == 8];
    if (!tidei_order_by_text(x->a) || x->length < HELD_LEAST) return NULL;
    for (int i = 0; i < 5; i++, h++)
        if (x->length <= h->longest) return x->q.lay.shape[0] <= h->ranks ? h : NULL;
    return NULL;
}

static bool is_picked(const quantile *x) {
    if (tidei_order_by_text(x->a)) return holder(x) != NULL;
    return x->q.lay.shape[0] <= OD_FEW_RANKS && x->length > 0 && x->length < OD_LONGEST_ROW;
}

static tide_status pick_held(const quantile *x, tidei_use *uses, od_quantiles *p,
                             const size_t *at) {
    const struct held *h = holder(x);
    const int64_t sms = tidei_stream_here(x->a->rt)->dev->d->info.sm_count,
                  most = HELD_BLOCKS * (sms > 0 ? sms : 1),
                  blocks = (x->nrows + h->rows - 1) / h->rows;
    return tidei_run_own_blocks(x->a->rt, &h->k, uses, 3, p, sizeof *p, at, h->threads,
                                (unsigned)(blocks < most ? blocks : most), x->r.op);
}

/* With room for what is known of rows that are looked at side by side. */
static tide_status pick_on_host(const quantile *x, tidei_use *uses, od_quantiles *p,
                                const size_t *at) {
    static const tidei_own_kernel k = {"order_quantiles", NULL, tidei_quantiles_host, false};
    const int64_t each = tidei_quantiles_room(x->length), most = (int64_t)ROOM_MOST / 8 / each;
    tidei_operand room;
    p->slots = most < 1 ? 1 : most < SLOTS_MOST ? most : SLOTS_MOST;
    if (p->slots > x->nrows) p->slots = x->nrows;
    int64_t words = p->slots * each;
    tide_status s = tidei_operand_make(x->a->rt, TIDE_U64, 1, &words, x->r.op, &room);
    if (s != TIDE_OK) return s;
    uses[3] = tidei_operand_use(&room, TIDEI_WRITE);
    p->room = tidei_order_first(&room, &uses[3]);
    s = tidei_run_own(x->a->rt, &k, uses, 4, p, sizeof *p, at, (uint64_t)x->nrows, x->r.op);
    tidei_operand_put(&room);
    return s;
}

/* The same of rows as they are. */
static tide_status pick(quantile *x, const tidei_operand *values) {
    static const size_t at[] = {offsetof(od_quantiles, source), offsetof(od_quantiles, q),
                                offsetof(od_quantiles, values), offsetof(od_quantiles, room)};
    od_quantiles p = {.nq = x->q.lay.shape[0], .type = tidei_order_type(x->rows.lay.dtype, false)};
    tidei_use uses[4] = {tidei_operand_use(&x->rows, TIDEI_READ),
                         tidei_operand_use(&x->q, TIDEI_READ),
                         tidei_operand_use(values, TIDEI_WRITE)};
    if (p.nq * x->nrows == 0) return TIDE_OK;
    tidei_order_rows(&x->rows.lay, x->rows.lay.ndim - 1, x->length, &p.space);
    p.source = tidei_order_first(&x->rows, &uses[0]);
    p.q = tidei_order_first(&x->q, &uses[1]);
    p.values = tidei_order_first(values, &uses[2]);
    return (tidei_order_by_text(x->a) ? pick_held : pick_on_host)(x, uses, &p, at);
}

static void find_quantiles(quantile *x, tide_array **out) {
    const tide_dtype t = x->a->lay.dtype;
    const bool direct = tidei_dtype_kind(t) != TIDEI_KIND_FLOAT || t == TIDE_F64;
    const tidei_operand *result =
        tidei_results_make(&x->r, out, direct ? TIDE_F64 : t, x->ndim, x->shape);
    tidei_operand wide;
    if (!result) return;
    if (!direct)
        x->r.status = tidei_operand_make(x->a->rt, TIDE_F64, x->ndim, x->shape, x->r.op, &wide);
    if (x->r.status != TIDE_OK) return;
    x->r.status = (is_picked(x) ? pick : read_sorted)(x, direct ? result : &wide);
    if (direct) return;
    if (x->r.status == TIDE_OK)
        x->r.status = tidei_store_elements(result->rt, result, &wide, x->r.op);
    tidei_operand_put(&wide);
}

/* With q there, and its shape in the result's. */
static void run(quantile *x, const int *axes, int n, int keepdims, tide_array **out) {
    unsigned bits;
    if (x->r.status != TIDE_OK) return;
    x->r.status = axes_bits(&x->a->lay, axes, n, x->r.op, &bits);
    if (x->r.status != TIDE_OK) return;
    if (tidei_dtype_kind(x->a->lay.dtype) == TIDEI_KIND_COMPLEX) {
        x->r.status = tidei_fail(TIDE_E_DTYPE, x->r.op, "the array is %s; wanted a real type",
                                 tide_dtype_name(x->a->lay.dtype));
        return;
    }
    part_axes(x, bits, keepdims);
    if (x->ndim > TIDE_MAX_RANK) {
        x->r.status = tidei_fail(TIDE_E_SHAPE, x->r.op,
                                 "the result has %d dimensions; at most %d are possible", x->ndim,
                                 TIDE_MAX_RANK);
        return;
    }
    make_rows(x);
    if (!is_picked(x)) sort_rows(x);
    if (x->r.status == TIDE_OK) find_quantiles(x, out);
}

/* One number for all rows. */
static void number(quantile *x, tide_arg q) {
    double d = 0;
    x->r.status = tidei_encode(q, TIDE_F64, x->r.op, &d);
    if (x->r.status == TIDE_OK && !(d >= 0 && d <= 1))
        x->r.status = tidei_fail(TIDE_E_INVALID, x->r.op, "q is %g; wanted 0 to 1", d);
    const tidei_operand *o = tidei_results_make(&x->r, NULL, TIDE_F64, 1, (const int64_t[]){1});
    if (!o) return;
    x->q = *o;
    x->r.status = tidei_fill_elements(o, &d, x->r.op);
}

static tide_array *of_array(tide_array *a, tide_arg q, const int *axes, int n, int keepdims,
                            const char *op) {
    tidei_operand o, given;
    tide_array *out = NULL;
    quantile x = {.a = &o, .r = {.op = op}};
    const bool several = q.kind == TIDE_ARG_ARRAY;
    tide_array *const both[] = {a, several ? q.value.array : a};
    if (tidei_no_nulls(op, both, 2) != TIDE_OK || tidei_operand_get(a, op, 1, &o) != TIDE_OK)
        return NULL;
    x.r.rt = o.rt;
    if (several) {
        x.r.status = tidei_operand_get_of(o.rt, q.value.array, op, 2, &given);
        if (x.r.status == TIDE_OK) {
            (void)tidei_step_flat(&x.r, &given, TIDE_F64, false, &x.q); /* in its status */
            x.ndim = given.lay.ndim;
            memcpy(x.shape, given.lay.shape, sizeof given.lay.shape);
            run(&x, axes, n, keepdims, &out);
            tidei_operand_put(&given);
        }
    } else {
        number(&x, q);
        run(&x, axes, n, keepdims, &out);
    }
    (void)tidei_results_end(&x.r); /* NULL then */
    tidei_operand_put(&o);
    return out;
}

tide_array *tide_quantile(tide_array *a, tide_arg q, const int *axes, int n, int keepdims) {
    TIDEI_OPERATION("tide_quantile");
    return of_array(a, q, axes, n, keepdims, "tide_quantile");
}

tide_array *tide_median(tide_array *a, const int *axes, int n, int keepdims) {
    TIDEI_OPERATION("tide_median");
    return of_array(a, tide_arg_float(0.5), axes, n, keepdims, "tide_median");
}
