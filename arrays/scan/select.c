/* select.c: elements picked by a condition (picks.h has the kernels).
**
** Steps: each tile of places counts its own, a scan sums those counts, the host waits for the last
** sum and makes results of that size, and a second kernel looks at the places again and writes from
** where its tile's sum says. Looking twice costs less than results of the greatest size would.
** Items of several elements are taken at a list of places, as tide_take does it, where one number
** says where in the array a place is; where not, and where items are put, each tile's are cut into
** parts, so that a short mask over long items keeps all of the device busy. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/expr/front.h"
#include "arrays/kernels/launch.h"
#include "arrays/make/take.h"
#include "arrays/scan/picks.h"
#include "arrays/scan/scan.h"
#include "arrays/scan/select.h"
#include "runtime/base/text.h"
#include <tide/scan.h>
#include <tide/select.h>

_Static_assert(PK_RANK == TIDE_MAX_RANK && TIDEI_OWN_BLOCK == 256, "as everywhere");

extern const char tidei_picks_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_picks_text, name, false }
#define KERNELS(what)                                                                              \
    {                                                                                              \
        KERNEL(picks_##what##_1), KERNEL(picks_##what##_2), KERNEL(picks_##what##_4),              \
            KERNEL(picks_##what##_8), KERNEL(picks_##what##_16)                                    \
    }
/* by the size of an element */
static const tidei_own_kernel counting[] = KERNELS(count), where[] = KERNELS(where),
                              getting[] = KERNELS(get), putting[] = KERNELS(put);
#define FILL(name)                                                                                 \
    { #name, tidei_picks_text, NULL, false }
static const tidei_own_kernel filling[] = {FILL(picks_fill_1), FILL(picks_fill_2),
                                           FILL(picks_fill_4)};

static const tidei_own_kernel *of_size(const tidei_own_kernel *by_log2, tide_dtype t) {
    return &by_log2[__builtin_ctzll(tide_dtype_size(t))];
}

typedef struct pick {
    const char *op;
    tidei_operand mask;
    tidei_operand from; /* where each tile's begin, and behind them how many there are in all */
    bool counted;       /* `from` is there */
    int64_t count;
    pk_pick p;
} pick;

/* ---- places ---- */

/* Bits of an element that make it differ from 0. */
static void keep_bits(tide_dtype t, pk_u64 keep[2]) {
    keep[0] = keep[1] = ~(pk_u64)0;
    if (t == TIDE_F16 || t == TIDE_BF16) keep[0] = 0x7fff;
    if (t == TIDE_F32 || t == TIDE_C64) keep[0] = 0x7fffffff7fffffff;
    if (t == TIDE_F64 || t == TIDE_C128) keep[0] = keep[1] = ~(pk_u64)0 >> 1;
}

/* Adds a dimension, as part of the one before it where the strides allow. */
static void add_dimension(pk_dims *d, int64_t n, int64_t stride, pk_i64 *others, int64_t other) {
    int last = d->ndim - 1;
    if (n == 1) return;
    if (d->ndim && d->strides[last] == stride * n && others[last] == other * n) {
        d->shape[last] *= n;
    } else {
        last++;
        d->shape[d->ndim++] = n;
    }
    d->strides[last] = stride;
    others[last] = other;
}
static void at_least_one(pk_dims *d) {
    if (!d->ndim) d->shape[d->ndim++] = 1;
}

/* Places of the mask; items: the array whose first dimensions they are, or NULL. */
static pick begin(const tidei_operand *mask, const tidei_layout *items, const char *op) {
    const tidei_layout *m = &mask->lay;
    pick x = {.op = op, .mask = *mask, .p = {.n = tidei_layout_size(m), .inner = 1, .parts = 1}};
    pk_i64 unused[PK_RANK] = {0};
    keep_bits(m->dtype, x.p.keep);
    for (int d = 0; d < m->ndim; d++)
        add_dimension(&x.p.at, m->shape[d], m->strides[d], x.p.strides,
                      items ? items->strides[d] : m->strides[d]);
    for (int d = m->ndim; items && d < items->ndim; d++) {
        x.p.inner *= items->shape[d];
        add_dimension(&x.p.within, items->shape[d], items->strides[d], unused, 0);
    }
    at_least_one(&x.p.at);
    at_least_one(&x.p.within);
    return x;
}

/* ---- running ---- */

/* What an address in the parameters is counted from, as tidei_run_own has it. */
static uint64_t first_element(const tidei_operand *o, const tidei_use *use) {
    return (uint64_t)o->lay.offset * tide_dtype_size(o->lay.dtype) - use->offset;
}

/* An operand of a kernel beside the mask: its address belongs at `at`. */
typedef struct part {
    const tidei_operand *o;
    size_t at;
    unsigned mode;
} part;

static tide_status launch_threads(const pick *x, const tidei_own_kernel *k, const part *parts,
                                  unsigned n, uint64_t threads) {
    size_t at[2 + PK_RANK] = {offsetof(pk_pick, mask)};
    tidei_use uses[2 + PK_RANK] = {tidei_operand_use(&x->mask, TIDEI_READ)};
    pk_pick p = x->p;
    p.mask = first_element(&x->mask, &uses[0]);
    for (unsigned i = 0; i < n; i++) {
        uses[i + 1] = tidei_operand_use(parts[i].o, parts[i].mode);
        at[i + 1] = parts[i].at;
        uint64_t first = first_element(parts[i].o, &uses[i + 1]);
        memcpy((char *)&p + parts[i].at, &first, sizeof first);
    }
    return tidei_run_own(x->mask.rt, k, uses, n + 1, &p, sizeof p, at, threads, x->op);
}

/* A block for each part of a tile. */
static tide_status launch(const pick *x, const tidei_own_kernel *k, const part *parts, unsigned n) {
    const uint64_t tiles = ((uint64_t)x->p.n + PK_TILE - 1) / PK_TILE;
    return launch_threads(x, k, parts, n, tiles * (uint64_t)x->p.parts * TIDEI_OWN_BLOCK);
}

static tide_status sum_counts(pick *x, const tidei_operand *counts, int64_t tiles) {
    const part to = {counts, offsetof(pk_pick, counts), TIDEI_WRITE};
    tide_status s = launch(x, of_size(counting, x->mask.lay.dtype), &to, 1);
    if (s == TIDE_OK)
        s = tidei_scan_into(&x->from, counts, TIDEI_SCAN_sum, 0, TIDE_SCAN_INITIAL, x->op);
    if (s != TIDE_OK) return s;
    tidei_operand last = x->from;
    last.lay.ndim = 0;
    last.lay.offset += tiles;
    return tidei_operand_read(&last, &x->count, x->op);
}

/* Finds how many places there are: waits. On success finish() is due. */
static tide_status count(pick *x) {
    int64_t tiles = (x->p.n + PK_TILE - 1) / PK_TILE, sums = tiles + 1;
    tidei_operand counts;
    if (x->p.n == 0) return TIDE_OK;
    tide_status s = tidei_operand_make(x->mask.rt, TIDE_I64, 1, &tiles, x->op, &counts);
    if (s != TIDE_OK) return s;
    s = tidei_operand_make(x->mask.rt, TIDE_I64, 1, &sums, x->op, &x->from);
    if (s == TIDE_OK) {
        x->counted = true;
        s = sum_counts(x, &counts, tiles);
    }
    tidei_operand_put(&counts);
    return s;
}
static void finish(pick *x) {
    if (x->counted) tidei_operand_put(&x->from);
}

/* ---- nonzero ---- */

static tide_status tell_places(pick *x, const tidei_operand *outs, int n) {
    part parts[1 + PK_RANK] = {{&x->from, offsetof(pk_pick, counts), TIDEI_READ}};
    x->p.rank = x->mask.lay.ndim;
    x->p.together = n != x->p.rank;
    for (int d = 0; d < x->p.rank; d++) x->p.dims[d] = x->mask.lay.shape[d];
    for (int i = 0; i < n; i++)
        parts[i + 1] =
            (part){&outs[i], offsetof(pk_pick, outs) + (size_t)i * sizeof(pk_u64), TIDEI_WRITE};
    if (!x->count || !n || !x->p.rank) return TIDE_OK;
    return launch(x, of_size(where, x->mask.lay.dtype), parts, (unsigned)n + 1);
}

/* The places as numbers, counted row-major. */
static tide_status tell_numbers(pick *x, const tidei_operand *out) {
    const part parts[] = {{&x->from, offsetof(pk_pick, counts), TIDEI_READ},
                          {out, offsetof(pk_pick, outs), TIDEI_WRITE}};
    x->p.rank = 1;
    x->p.dims[0] = x->p.n;
    return launch(x, of_size(where, x->mask.lay.dtype), parts, TIDEI_COUNT(parts));
}

tide_status tidei_nonzero(const tidei_operand *a, tide_array **outs, const char *op) {
    tidei_operand made[PK_RANK];
    tide_array *arrays[PK_RANK];
    int n = 0, rank = a->lay.ndim;
    pick x = begin(a, NULL, op);
    tide_status s = count(&x);
    for (; s == TIDE_OK && n < rank; n++) {
        arrays[n] = tidei_array_make(a->rt, TIDE_I64, 1, &x.count, op, &made[n]);
        if (!arrays[n]) {
            s = tidei_last_status();
            break;
        }
    }
    if (s == TIDE_OK) s = tell_places(&x, made, n);
    while (n-- > 0) {
        tide_array *one = tidei_array_done(arrays[n], &made[n], s);
        if (one) outs[n] = one;
    }
    finish(&x);
    return s;
}

tide_status tide_nonzero(tide_array *a, tide_array **outs, size_t n) {
    static const char op[] = "tide_nonzero";
    TIDEI_OPERATION(op);
    tidei_operand o;
    tide_status s = tidei_operand_get(a, op, 1, &o);
    if (s != TIDE_OK) return s;
    if (!o.lay.ndim)
        s = tidei_fail(TIDE_E_SHAPE, op, "the array has no axes, so no element has an index");
    else if (!outs)
        s = tidei_fail(TIDE_E_INVALID, op, "outs is NULL");
    else if (n != (size_t)o.lay.ndim)
        s = tidei_fail(TIDE_E_INVALID, op, "room for %zu results; the array has %d axes", n,
                       o.lay.ndim);
    else
        s = tidei_nonzero(&o, outs, op);
    tidei_operand_put(&o);
    return s;
}

static tide_array *argwhere(const tidei_operand *a, const char *op) {
    tide_array *made = NULL;
    tidei_operand out;
    pick x = begin(a, NULL, op);
    tide_status s = count(&x);
    if (s == TIDE_OK)
        made =
            tidei_array_make(a->rt, TIDE_I64, 2, (const int64_t[]){x.count, a->lay.ndim}, op, &out);
    if (made) made = tidei_array_done(made, &out, tell_places(&x, &out, 1));
    finish(&x);
    return made;
}

tide_array *tide_argwhere(tide_array *a) {
    static const char op[] = "tide_argwhere";
    TIDEI_OPERATION(op);
    tidei_operand o;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    tide_array *made = argwhere(&o, op);
    tidei_operand_put(&o);
    return made;
}

/* ---- counting ---- */

/* The axes as the expression language writes them: "0, 2"; no axis comes twice. */
static tide_status axes_text(const int *axes, int n, int ndim, const char *op, char *buf,
                             size_t cap) {
    unsigned seen = 0;
    size_t used = 0;
    *buf = 0;
    if (n < 0) return tidei_fail(TIDE_E_INVALID, op, "%d axes are given", n);
    for (int i = 0; i < n; i++) {
        int axis;
        tide_status s = tidei_axis(axes[i], ndim, op, &axis);
        if (s != TIDE_OK) return s;
        if (seen >> axis & 1) return tidei_fail(TIDE_E_SHAPE, op, "axis %d is given twice", axis);
        seen |= 1u << axis;
        used += (size_t)tidei_format(buf + used, cap - used, i ? ", %d" : "%d", axis);
    }
    return TIDE_OK;
}

tide_array *tide_count_nonzero(tide_array *a, const int *axes, int n, int keepdims) {
    static const char op[] = "tide_count_nonzero";
    TIDEI_OPERATION(op);
    const tide_arg arg = tide_arg_array(a);
    const char *keep = keepdims ? ", keepdims=true" : "";
    char list[TIDE_MAX_RANK * 4], text[128];
    tide_array *out = NULL;
    tidei_operand o;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    tide_status s = axes_text(axes, axes ? n : 0, o.lay.ndim, op, list, sizeof list);
    if (axes)
        tidei_format(text, sizeof text, "(x) -> sum(x != 0, axis=(%s)%s)", list, keep);
    else
        tidei_format(text, sizeof text, "(x) -> sum(x != 0%s)", keep);
    if (s == TIDE_OK) (void)tidei_expr_map(o.rt, text, op, &arg, 1, &out, NULL); /* NULL then */
    tidei_operand_put(&o);
    return out;
}

/* ---- by a mask ---- */

/* The mask's shape begins a's. */
static tide_status check_mask(const tidei_layout *a, const tidei_layout *mask, const char *op) {
    char one[192], other[192];
    if (mask->dtype != TIDE_BOOL)
        return tidei_fail(TIDE_E_DTYPE, op, "the mask is %s; wanted bool",
                          tide_dtype_name(mask->dtype));
    if (mask->ndim <= a->ndim && tidei_same_dims(mask->ndim, mask->shape, a->shape)) return TIDE_OK;
    return tidei_fail(TIDE_E_SHAPE, op,
                      "the mask has shape %s, which does not begin the array's, %s",
                      tidei_shape_text(one, sizeof one, mask->ndim, mask->shape),
                      tidei_shape_text(other, sizeof other, a->ndim, a->shape));
}

#define UNIT_MAX   16                 /* bytes: what one access moves, and storages' alignment */
#define PART_BYTES ((int64_t)1 << 16) /* of items, were all of a part's places taken */

/* How many elements move as one: items lie together, and begin at multiples of so many. */
static int64_t elements_of_unit(const pk_pick *p, const tidei_operand *items,
                                const tidei_operand *line) {
    const int64_t most = UNIT_MAX / (int64_t)tide_dtype_size(items->lay.dtype);
    uint64_t all = (uint64_t)(p->inner | items->lay.offset | line->lay.offset | most);
    if (p->within.ndim != 1 || p->within.strides[0] != 1) return 1;
    for (int d = 0; d < p->at.ndim; d++) all |= (uint64_t)p->strides[d];
    return (int64_t)(all & -all);
}
/* The same in units of w elements. */
static void widen(pk_pick *p, int64_t w) {
    p->inner /= w;
    p->within.shape[0] /= w;
    for (int d = 0; w > 1 && d < p->at.ndim; d++) p->strides[d] /= w;
}

/* Between items in an array and in a line. */
static tide_status move(const pick *given, const tidei_own_kernel *k, const tidei_operand *items,
                        const tidei_operand *line, bool put) {
    const part parts[] = {{items, offsetof(pk_pick, items), put ? TIDEI_WRITE : TIDEI_READ},
                          {line, offsetof(pk_pick, line), put ? TIDEI_READ : TIDEI_WRITE},
                          {&given->from, offsetof(pk_pick, counts), TIDEI_READ}};
    pick x = *given;
    const int64_t size = (int64_t)tide_dtype_size(items->lay.dtype),
                  places = x.p.n < PK_TILE ? x.p.n : PK_TILE,
                  fit = PART_BYTES / (places * size); /* elements of an item, in one part */
    const int64_t w = elements_of_unit(&x.p, items, line);
    x.p.parts = (x.p.inner + fit - 1) / fit;
    widen(&x.p, w);
    return launch(&x, &k[__builtin_ctzll((unsigned long long)(w * size))], parts, x.p.same ? 2 : 3);
}

/* The shape of `count` items of a, whose first n dimensions are the mask's. */
static int line_shape(const tidei_layout *a, int n, int64_t count, int64_t *shape) {
    shape[0] = count;
    for (int d = n; d < a->ndim; d++) shape[d - n + 1] = a->shape[d];
    return a->ndim - n + 1;
}

/* Whether the first n dimensions of a go through it by one stride. */
static bool by_one_stride(const tidei_layout *a, int n, int64_t *stride) {
    int64_t inner = 1;
    *stride = 0;
    for (int d = n - 1; d >= 0; d--) {
        if (a->shape[d] == 1) continue;
        if (inner == 1) *stride = a->strides[d];
        if (a->strides[d] != *stride * inner) return false;
        inner *= a->shape[d];
    }
    return true;
}

/* Takes the items at a list of places; `stride` is from one to the next in `a`. */
static tide_status take_listed(pick *x, const tidei_operand *a, const tidei_operand *out,
                               int64_t stride) {
    const tidei_layout *lay = &a->lay;
    tidei_operand places;
    tidei_taking t = {.out = out,
                      .source = a,
                      .indices = &places,
                      .op = x->op,
                      .by = TIDEI_FAULT_BY_TAKE,
                      .length = x->p.n,
                      .step = stride};
    tide_status s = tidei_operand_make(a->rt, TIDE_I64, 1, &x->count, x->op, &places);
    if (s != TIDE_OK) return s;
    s = tell_numbers(x, &places);
    tidei_taking_add(&t, x->count, 0, 1);
    for (int d = x->mask.lay.ndim; d < lay->ndim; d++)
        tidei_taking_add(&t, lay->shape[d], lay->strides[d], 0);
    if (s == TIDE_OK) s = tidei_taking_run(&t);
    tidei_operand_put(&places);
    return s;
}

#define LISTED_LEAST 4 /* bytes of an item: a place in the list takes 8 */

static tide_status get_items(pick *x, const tidei_operand *a, const tidei_operand *out) {
    int64_t stride;
    if (tidei_layout_size(&out->lay) == 0) return TIDE_OK;
    if (x->p.inner >= LISTED_LEAST / (int64_t)tide_dtype_size(a->lay.dtype) && x->p.inner > 1 &&
        by_one_stride(&a->lay, x->mask.lay.ndim, &stride))
        return take_listed(x, a, out, stride);
    return move(x, getting, a, out, false);
}

tide_array *tidei_masked_select(const tidei_operand *a, const tidei_operand *mask, const char *op) {
    int64_t shape[TIDE_MAX_RANK + 1];
    tide_array *made = NULL;
    tidei_operand out;
    if (check_mask(&a->lay, &mask->lay, op) != TIDE_OK) return NULL;
    pick x = begin(mask, &a->lay, op);
    if (count(&x) == TIDE_OK) {
        int ndim = line_shape(&a->lay, mask->lay.ndim, x.count, shape);
        made = tidei_array_make(a->rt, a->lay.dtype, ndim, shape, op, &out);
    }
    if (made) made = tidei_array_done(made, &out, get_items(&x, a, &out));
    finish(&x);
    return made;
}

tide_array *tide_masked_select(tide_array *a, tide_array *mask) {
    static const char op[] = "tide_masked_select";
    TIDEI_OPERATION(op);
    tidei_operand o, m;
    tide_array *made = NULL;
    if (tidei_no_nulls(op, (tide_array *const[]){a, mask}, 2) != TIDE_OK) return NULL;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    if (tidei_operand_get_of(o.rt, mask, op, 2, &m) == TIDE_OK) {
        made = tidei_masked_select(&o, &m, op);
        tidei_operand_put(&m);
    }
    tidei_operand_put(&o);
    return made;
}

/* ---- writing ---- */

/* Whether one value goes to places that lie side by side in the mask as in a. Elements of 8 bytes
** are written faster one by one: 78 us for 90, of 128 MiB on an H200. */
static bool is_filled(const pick *x, const tidei_operand *a) {
    const size_t size = tide_dtype_size(a->lay.dtype);
    const pk_pick *p = &x->p;
    return p->same && p->inner == 1 && size <= 4 && p->at.ndim == 1 && p->at.strides[0] == 1 &&
           p->strides[0] == 1 && (uint64_t)x->mask.lay.offset % (UNIT_MAX / size) == 0 &&
           (uint64_t)a->lay.offset % (UNIT_MAX / size) == 0 &&
           a->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT;
}

static tide_status fill(const pick *x, const tidei_operand *a, const tidei_operand *value) {
    const part parts[] = {{a, offsetof(pk_pick, items), TIDEI_READ | TIDEI_WRITE},
                          {value, offsetof(pk_pick, line), TIDEI_READ}};
    const uint64_t size = tide_dtype_size(a->lay.dtype), each = UNIT_MAX / size * PK_FILL_AHEAD;
    return launch_threads(x, of_size(filling, a->lay.dtype), parts, TIDEI_COUNT(parts),
                          ((uint64_t)x->p.n + each - 1) / each);
}

static tide_status put(const pick *x, const tidei_operand *a, const tidei_operand *line) {
    return is_filled(x, a) ? fill(x, a, line) : move(x, putting, a, line, true);
}

/* The values as a line of row-major elements of a's type, in memory that is not a's. */
static tide_status put_line(pick *x, const tidei_operand *a, const tidei_operand *values, int ndim,
                            const int64_t *shape) {
    tidei_operand line;
    if (values->lay.dtype == a->lay.dtype && values->lay.ndim == ndim &&
        tidei_same_dims(ndim, values->lay.shape, shape) && tidei_layout_contiguous(&values->lay) &&
        !tidei_operands_overlap(values, a))
        return put(x, a, values);
    tide_status s = tidei_operand_make(a->rt, a->lay.dtype, ndim, shape, x->op, &line);
    if (s != TIDE_OK) return s;
    s = tidei_store_elements(a->rt, &line, values, x->op);
    if (s == TIDE_OK) s = put(x, a, &line);
    tidei_operand_put(&line);
    return s;
}

/* Values whose first axis counts the items. */
static tide_status put_each(pick *x, const tidei_operand *a, const tidei_operand *values) {
    int64_t shape[TIDE_MAX_RANK + 1];
    tide_status s = count(x);
    int ndim = line_shape(&a->lay, x->mask.lay.ndim, x->count, shape);
    if (s == TIDE_OK && values->lay.shape[0] != x->count)
        s = tidei_fail(TIDE_E_SHAPE, x->op,
                       "%" PRId64 " values for %" PRId64 " places where the mask is true",
                       values->lay.shape[0], x->count);
    if (s == TIDE_OK && x->count && x->p.inner) s = put_line(x, a, values, ndim, shape);
    finish(x);
    return s;
}

/* Values that are the same for all places. */
static tide_status put_same(pick *x, const tidei_operand *a, tidei_operand values) {
    int64_t shape[TIDE_MAX_RANK + 1];
    int ndim = line_shape(&a->lay, x->mask.lay.ndim, 1, shape);
    if (values.lay.ndim == ndim) {
        values.lay.ndim--;
        memmove(values.lay.shape, values.lay.shape + 1, sizeof(int64_t) * (size_t)(ndim - 1));
        memmove(values.lay.strides, values.lay.strides + 1, sizeof(int64_t) * (size_t)(ndim - 1));
    }
    x->p.same = 1;
    return x->p.n && x->p.inner ? put_line(x, a, &values, ndim - 1, shape + 1) : TIDE_OK;
}

/* Whether values broadcast to items, however many there are, and can be cast. */
static tide_status check_values(const tidei_layout *a, const tidei_layout *mask,
                                const tidei_layout *values, const char *op) {
    char one[192], other[192];
    int item = a->ndim - mask->ndim;
    bool fits = values->ndim <= item + 1;
    for (int d = 1; fits && d <= item && d <= values->ndim; d++) {
        int64_t n = values->shape[values->ndim - d];
        fits = n == 1 || n == a->shape[a->ndim - d];
    }
    const char *lost = tidei_cast_lost(values->dtype, a->dtype);
    if (fits && lost)
        return tidei_fail(TIDE_E_DTYPE, op, "%s into %s: %s; tide_cast first",
                          tide_dtype_name(values->dtype), tide_dtype_name(a->dtype), lost);
    if (fits) return TIDE_OK;
    return tidei_fail(TIDE_E_SHAPE, op, "values of shape %s do not broadcast to items of shape %s",
                      tidei_shape_text(one, sizeof one, values->ndim, values->shape),
                      tidei_shape_text(other, sizeof other, item, a->shape + mask->ndim));
}

static tide_status put_at(const tidei_operand *a, const tidei_operand *mask,
                          const tidei_operand *values, const char *op) {
    pick x = begin(mask, &a->lay, op);
    bool each = values->lay.ndim == a->lay.ndim - mask->lay.ndim + 1 && values->lay.shape[0] != 1;
    return each ? put_each(&x, a, values) : put_same(&x, a, *values);
}

static tide_status masked_put(const tidei_operand *a, const tidei_operand *mask,
                              const tidei_operand *values, const char *op) {
    tidei_operand copy;
    tide_status s = tidei_writable(&a->lay, "the array", op);
    if (s == TIDE_OK) s = check_mask(&a->lay, &mask->lay, op);
    if (s == TIDE_OK) s = check_values(&a->lay, &mask->lay, &values->lay, op);
    if (s != TIDE_OK || !tidei_operands_overlap(a, mask))
        return s == TIDE_OK ? put_at(a, mask, values, op) : s;
    s = tidei_operand_make(a->rt, TIDE_BOOL, mask->lay.ndim, mask->lay.shape, op, &copy);
    if (s != TIDE_OK) return s;
    s = tidei_copy_elements(a->rt, &copy, mask, op);
    if (s == TIDE_OK) s = put_at(a, &copy, values, op);
    tidei_operand_put(&copy);
    return s;
}

tide_status tide_masked_put(tide_array *a, tide_array *mask, tide_array *values) {
    static const char op[] = "tide_masked_put";
    TIDEI_OPERATION(op);
    tidei_operand o[3];
    tide_array *const arrays[] = {a, mask, values};
    int got = 1;
    tide_status s = tidei_no_nulls(op, arrays, 3);
    if (s == TIDE_OK) s = tidei_operand_get(a, op, 1, &o[0]);
    if (s != TIDE_OK) return s;
    for (; got < 3 && s == TIDE_OK; got += s == TIDE_OK)
        s = tidei_operand_get_of(o[0].rt, arrays[got], op, (tidei_place)got + 1, &o[got]);
    if (s == TIDE_OK) s = masked_put(&o[0], &o[1], &o[2], op);
    while (got > 0) tidei_operand_put(&o[--got]);
    return s;
}
