/* topk.c: the first k of each row in its order. Where kernels are text: of very short rows a block
** sorts many at once, and writes the first k; of many short ones of bytes a warp counts these. Few
** of others are picked (select.cu): of many short rows by a warp each, else by a block a row; long
** rows fall into parts, a block each picks the first k of these, and what they picked makes shorter
** rows, until a row is one part. On a host few are picked by a heap (select_host.c). Else by a
** sort. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/kernels/launch.h"
#include "arrays/order/results.h"
#include "arrays/order/select_host.h"
#include "arrays/order/sort.h"
#include "arrays/order/types.h"

/* A block takes as long to pick of a row as to sort so many elements: 2097152 rows of 7 on an H100
** take 33 ms picked. */
#define SORTED 512
/* A warp picks up to WARP_K of a row that it has in registers: of WARP_LONGEST keys; of WARP_LONG
** where they take 32 bits, by a kernel that runs half as many warps at once. */
#define WARP_LONGEST ((int64_t)1024)
#define WARP_LONG    ((int64_t)2048)
#define WARP_K       64
#ifndef WARP_ROWS      /* a test has fewer, and shorter ones */
#define WARP_ROWS 1024 /* of fewer rows, blocks leave less of a GPU idle */
/* Shorter rows are sorted: the first 26 of 100000 rows of 256 bf16 on an H200 420 us, of 257 picked
** by warps 226. */
#define WARP_LEAST 129
#endif
/* Where parts are not worth it a block picks from a whole row that is short, or one of many. */
#define SHORT     ((int64_t)1 << 16)
#define MANY_ROWS 64
#ifndef PART /* a test has shorter ones */
/* A block that picks from a part of this length has all of it in registers (TILE of runs.cu); of a
** longer one it reads all several times. */
#define PART ((int64_t)4096)
/* The first k of a part are at most a 16th of it, and a row has so many parts at most: then what is
** left of 2^37 elements has to be parted twice more, and there are results enough for that. */
#define SHARE      16
#define PARTS_MOST 4096
/* Of up to k of a row's first, rows of this length are worth parts where elements are so many.
** Measured on an H200, of floats, us, in parts, by a block a row, sorted: the first 1000 of 1 x
** 16777216: 502, -, 727; 1 x 1048576: 204, -, 80; 64 x 262144: 405, 915, -; 200 x 65536: 324, 291,
** -; the first 256 of 10000 x 5000: 1158, 682, -; of 200 x 65536: 185, 211, -. Of up to 128 a part
** is one that a block holds, and never read again. */
#define WORTH                                                                                      \
    {128, 0, 0}, {256, (int64_t)1 << 15, 0}, { OD_TOP, (int64_t)1 << 18, (int64_t)1 << 22 }
#endif
static const struct { int64_t k, length, elements; } worth[] = {WORTH};

extern const char tidei_order_select_text[];

enum { WARPS = 8, TILE = 4096 }; /* of a block: a row each; keys that it has in registers */
#define KERNEL(name)                                                                               \
    { #name, tidei_order_select_text, NULL, false }
static const tidei_own_kernel kernels[] = {KERNEL(order_top_32), KERNEL(order_top_64)},
                              held_kernels[] = {KERNEL(order_top_32_held),
                                                KERNEL(order_top_64_held)},
                              warp_kernels[] = {KERNEL(order_first_32), KERNEL(order_first_64)},
                              long_kernel = KERNEL(order_first_32_long),
                              host_kernel = {"order_top", NULL, tidei_top_host, false};

typedef struct topk {
    const tidei_operand *a, *values, *indices; /* the results may be NULL */
    int axis;
    int64_t k;
    bool descending;
    const char *op;
} topk;

/* The kernel by which warps pick k of so many rows of n; NULL: they do not. */
static const tidei_own_kernel *by_warps(int64_t rows, int64_t n, int64_t k, size_t element) {
    if (rows < WARP_ROWS || k > WARP_K) return NULL;
    if (n <= WARP_LONGEST) return &warp_kernels[element == 8];
    return n <= WARP_LONG && element < 8 ? &long_kernel : NULL;
}

static bool is_sorted(const topk *t) {
    const tidei_layout *l = &t->a->lay;
    const int64_t n = l->shape[t->axis];
    if (tidei_sort_counts(t->a, t->axis)) return true;
    if (n > SORTED || !tidei_sort_keeps(t->a, t->axis)) return false;
    return n < WARP_LEAST || tidei_dtype_kind(l->dtype) == TIDEI_KIND_COMPLEX ||
           !by_warps(tidei_layout_size(l) / n, n, t->k, tide_dtype_size(l->dtype));
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* How many parts a row of n falls into. */
static int64_t parts_of(int64_t n, int64_t k) {
    int64_t most = larger(larger(PART, k * SHARE), (n + PARTS_MOST - 1) / PARTS_MOST);
    return (n + most - 1) / most;
}

/* Whether rows fall into parts at all. */
static bool has_parts(const topk *t) {
    const tidei_layout *l = &t->a->lay;
    if (!tidei_order_by_text(t->a)) return false;
    for (size_t i = 0; i < TIDEI_COUNT(worth); i++)
        if (t->k <= worth[i].k)
            return l->shape[t->axis] >= worth[i].length &&
                   tidei_layout_size(l) >= worth[i].elements;
    return false;
}

static bool is_picked(const topk *t) {
    const tidei_layout *l = &t->a->lay;
    int64_t n = l->shape[t->axis];
    if (is_sorted(t) || t->k > OD_TOP || tidei_dtype_kind(l->dtype) == TIDEI_KIND_COMPLEX)
        return false;
    if (!tidei_order_by_text(t->a)) return true;
    if (has_parts(t)) return n / parts_of(n, t->k) < TIDEI_NEAR - 1;
    return n < TIDEI_NEAR && (n <= SHORT || tidei_layout_size(l) / n >= MANY_ROWS);
}

/* A launch: what it picks from and to, each may be NULL but `source`. */
typedef struct picking {
    const tidei_operand *source, *from, *values, *indices;
    od_top p;
} picking;

static tide_status launch(picking *g, const topk *t) {
    const od_rows *space = &g->p.sort.space;
    const size_t element = (size_t)g->p.sort.type.size;
    const tidei_own_kernel *k = NULL;
    int64_t blocks = space->rows * g->p.parts;
    if (!tidei_order_by_text(t->a)) k = &host_kernel;
    if (!k && g->p.parts == 1) {
        k = by_warps(space->rows, space->length, t->k, element);
        if (k) blocks = (blocks + WARPS - 1) / WARPS;
    }
    const bool held = (space->length + g->p.parts - 1) / g->p.parts <= TILE;
    if (!k) k = &(held ? held_kernels : kernels)[element == 8];
    const tidei_operand *const all[] = {g->source, g->from, g->values, g->indices};
    static const size_t fields[] = {offsetof(od_top, sort.source), offsetof(od_top, from),
                                    offsetof(od_top, sort.values), offsetof(od_top, sort.indices)};
    size_t at[TIDEI_COUNT(fields)];
    tidei_use uses[TIDEI_COUNT(fields)];
    unsigned n = 0;
    for (unsigned i = 0; i < TIDEI_COUNT(fields); i++) {
        if (!all[i]) continue;
        uses[n] = tidei_operand_use(all[i], i < 2 ? TIDEI_READ : TIDEI_WRITE);
        *(od_u64 *)((char *)&g->p + fields[i]) = tidei_order_first(all[i], &uses[n]);
        at[n++] = fields[i];
    }
    return tidei_run_own(t->a->rt, k, uses, n, &g->p, sizeof g->p, at,
                         (uint64_t)blocks * TIDEI_OWN_BLOCK, t->op);
}

/* Picks from each part, and makes rows of that, which the next launch picks from. */
static tide_status pick_parts(picking *g, const topk *t, tidei_results *r) {
    od_rows *space = &g->p.sort.space;
    picking part = *g;
    int64_t length = g->p.parts * t->k, n = space->rows * length;
    part.values = tidei_results_make(r, NULL, t->a->lay.dtype, 1, &n);
    part.indices = g->indices ? tidei_results_make(r, NULL, TIDE_I64, 1, &n) : NULL;
    part.p.sort.space.out_step = 1;
    if (r->status == TIDE_OK) r->status = launch(&part, t);
    g->source = part.values;
    g->from = part.indices;
    space->length = length;
    space->step = 1;
    for (int d = space->ndim - 1; d >= 0; length *= space->outer[d--])
        space->source_strides[d] = length;
    return r->status;
}

static tide_status pick(const topk *t) {
    tidei_results r = {.rt = t->a->rt, .op = t->op};
    picking g = {.source = t->a, .values = t->values, .indices = t->indices, .p = {.k = t->k}};
    od_rows *space = &g.p.sort.space;
    const bool parts = has_parts(t);
    tidei_order_rows(&t->a->lay, t->axis, t->k, space);
    g.p.sort.type = tidei_order_type(t->a->lay.dtype, t->descending);
    while (r.status == TIDE_OK && (g.p.parts = parts ? parts_of(space->length, t->k) : 1) > 1)
        pick_parts(&g, t, &r);
    if (r.status == TIDE_OK) r.status = launch(&g, t);
    return tidei_results_end(&r);
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
