/* roll.c: arrays shifted around their ends, and repeated as a whole.
**
** Along each axis a shifted array is two parts of the other in turned order, so that it is a copy
** in 2^k parts where k axes are shifted. Of short rows each part would touch nearly all that memory
** moves at once: a device shifts them by one launch (roll.h), where one axis is shifted. A repeated
** one is one copy, of a source with an axis of stride 0 for each axis that is repeated, where all
** these axes fit into one layout. */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/kernels/launch.h"
#include "arrays/make/slice.h"
#include "arrays/make/view.h"
#include "arrays/shape/extend.h"
#include "arrays/shape/roll.h"

/* ---- roll ---- */

extern const char tidei_roll_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_roll_text, NULL, false }
/* By the logarithm of a unit's bytes. */
static const tidei_own_kernel kernels[] = {KERNEL(roll_1), KERNEL(roll_2), KERNEL(roll_4),
                                           KERNEL(roll_8), KERNEL(roll_16)};

/* Bytes of a row of such units, at most: longer ones are as good in two parts, and small units take
** a load each. */
#define ROW_MOST(unit) (256 * (unit))

/* The bytes that move as one where axis i is shifted by k; 0: not by roll.h. Threads store
** RL_STORE bytes at once, so the result begins where its memory does. */
static int64_t unit_of(const tidei_operand *dst, const tidei_operand *src, int i, int64_t k) {
    const tidei_layout *l = &src->lay;
    const int64_t size = (int64_t)tide_dtype_size(l->dtype);
    if (!(dst->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT) || !tidei_layout_contiguous(l) ||
        !tidei_layout_contiguous(&dst->lay) || dst->lay.offset)
        return 0;
    int64_t inner = size;
    for (int d = i + 1; d < l->ndim; d++) inner *= l->shape[d];
    const uint64_t all = (uint64_t)(l->shape[i] * inner) | (uint64_t)(k * inner) |
                         (uint64_t)(l->offset * size) | RL_STORE;
    const int64_t unit = (int64_t)(all & -all);
    if (tidei_layout_size(l) * size / unit >= INT32_MAX - RL_STORE) return 0;
    return l->shape[i] * inner <= ROW_MOST(unit) ? unit : 0;
}

static tide_status roll_rows(const tidei_operand *dst, const tidei_operand *src, int i, int64_t k,
                             int64_t unit, const char *op) {
    static const size_t at[] = {offsetof(rl_call, out), offsetof(rl_call, in)};
    const tidei_use uses[] = {tidei_operand_use(dst, TIDEI_WRITE),
                              tidei_operand_use(src, TIDEI_READ)};
    int64_t inner = (int64_t)tide_dtype_size(src->lay.dtype);
    for (int d = i + 1; d < src->lay.ndim; d++) inner *= src->lay.shape[d];
    const int64_t row = src->lay.shape[i] * inner,
                  bytes = tidei_layout_size(&src->lay) * (int64_t)tide_dtype_size(src->lay.dtype);
    rl_call c = {.n = bytes / unit,
                 .row = kt_div_by((unsigned)(row / unit)),
                 .shift = (unsigned)(k * inner / unit)};
    return tidei_run_own(dst->rt, &kernels[__builtin_ctzll((unsigned long long)unit)], uses, 2, &c,
                         sizeof c, at, ((uint64_t)bytes + RL_STORE - 1) / RL_STORE, op);
}

/* Copies the parts of src to where shifts put them; 0 <= shift[i] < shape[i]. */
static tide_status copy_shifted(const tidei_operand *dst, const tidei_operand *src,
                                const int64_t *shift, const char *op) {
    unsigned shifted = 0, part = 0;
    tide_status s = TIDE_OK;
    for (int i = 0; i < src->lay.ndim; i++) shifted |= shift[i] ? 1u << i : 0;
    if (shifted && !(shifted & (shifted - 1)) && tidei_layout_size(&src->lay)) {
        const int axis = __builtin_ctz(shifted);
        const int64_t unit = unit_of(dst, src, axis, shift[axis]);
        if (unit) return roll_rows(dst, src, axis, shift[axis], unit, op);
    }
    do { /* all subsets: of which axes the part is the one that comes around */
        tidei_operand to = *dst, from = *src;
        for (int i = 0; i < src->lay.ndim; i++) {
            int64_t n = src->lay.shape[i], k = shift[i];
            bool around = part >> i & 1;
            if (!k) continue;
            tidei_narrow(&to.lay, i, around ? 0 : k, around ? k : n - k);
            tidei_narrow(&from.lay, i, around ? n - k : 0, around ? k : n - k);
        }
        s = tidei_store_elements(dst->rt, &to, &from, op);
        part = (part - shifted) & shifted;
    } while (part && s == TIDE_OK);
    return s;
}

/* The sum of shifts modulo n, in [0, n). */
static int64_t shift_more(int64_t shift, int64_t by, int64_t n) {
    by %= n;
    if (by < 0) by += n;
    return shift >= n - by ? shift - (n - by) : shift + by;
}

static tide_status axis_shifts(const tidei_layout *l, const int64_t *shifts, const int *axes, int n,
                               int64_t *shift) {
    memset(shift, 0, TIDE_MAX_RANK * sizeof *shift);
    for (int i = 0; i < n; i++) {
        int axis;
        tide_status s = tidei_axis(axes[i], l->ndim, "tide_roll", &axis);
        if (s != TIDE_OK) return s;
        if (l->shape[axis]) shift[axis] = shift_more(shift[axis], shifts[i], l->shape[axis]);
    }
    return TIDE_OK;
}

/* The elements in one row; of a source where no strides give that, those of a copy. */
static tide_status roll_flat(const tidei_operand *dst, const tidei_operand *src,
                             const int64_t *shifts, int n) {
    static const char op[] = "tide_roll";
    int64_t size = tidei_layout_size(&src->lay), shift[TIDE_MAX_RANK] = {0};
    tidei_operand to = *dst, from = *src, dense;
    tide_status s = TIDE_OK;
    if (!size) return TIDE_OK;
    for (int i = 0; i < n; i++) shift[0] = shift_more(shift[0], shifts[i], size);
    if (!shift[0]) return tidei_copy_elements(dst->rt, dst, src, op);
    (void)tidei_layout_reshape(&dst->lay, 1, &size, &to.lay);
    if (tidei_layout_reshape(&src->lay, 1, &size, &from.lay))
        return copy_shifted(&to, &from, shift, op);
    s = tidei_operand_make_like(src, dst->st->dev, op, &dense);
    if (s != TIDE_OK) return s;
    s = tidei_copy_elements(dst->rt, &dense, src, op);
    from = dense;
    (void)tidei_layout_reshape(&dense.lay, 1, &size, &from.lay);
    if (s == TIDE_OK) s = copy_shifted(&to, &from, shift, op);
    tidei_operand_put(&dense);
    return s;
}

static tide_array *roll(const tidei_operand *o, const int64_t *shifts, const int *axes, int n) {
    static const char op[] = "tide_roll";
    int64_t shift[TIDE_MAX_RANK];
    tidei_operand out;
    if (n < 0) return (void)tidei_fail(TIDE_E_INVALID, op, "%d shifts are given", n), NULL;
    if (n && !shifts) return (void)tidei_fail(TIDE_E_INVALID, op, "shifts is NULL"), NULL;
    if (axes && axis_shifts(&o->lay, shifts, axes, n, shift) != TIDE_OK) return NULL;
    tide_array *made = tidei_array_make(o->rt, o->lay.dtype, o->lay.ndim, o->lay.shape, op, &out);
    if (!made) return NULL;
    return tidei_array_done(
        made, &out, axes ? copy_shifted(&out, o, shift, op) : roll_flat(&out, o, shifts, n));
}

tide_array *tide_roll(tide_array *a, const int64_t *shifts, const int *axes, int n) {
    TIDEI_OPERATION("tide_roll");
    tidei_operand o;
    if (tidei_operand_get(a, "tide_roll", 1, &o) != TIDE_OK) return NULL;
    tide_array *made = roll(&o, shifts, axes, n);
    tidei_operand_put(&o);
    return made;
}

/* ---- tile ---- */

/* The source with axes in front, and how often each axis is repeated. */
static tide_status tiling(const tidei_layout *l, const int64_t *reps, int n, tidei_layout *out,
                          int64_t *times, int64_t *shape) {
    static const char op[] = "tide_tile";
    int rank = n > l->ndim ? n : l->ndim;
    if (n < 0) return tidei_fail(TIDE_E_INVALID, op, "%d repetitions are given", n);
    if (n && !reps) return tidei_fail(TIDE_E_INVALID, op, "reps is NULL");
    if (rank > TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, op, "%d repetitions; at most %d are possible", n,
                          TIDE_MAX_RANK);
    *out = *l;
    out->ndim = rank;
    for (int i = 0; i < rank; i++) {
        int have = i - (rank - l->ndim), given = i - (rank - n);
        out->shape[i] = have < 0 ? 1 : l->shape[have];
        out->strides[i] = have < 0 ? 1 : l->strides[have];
        times[i] = given < 0 ? 1 : reps[given];
        if (times[i] < 0)
            return tidei_fail(TIDE_E_SHAPE, op, "axis %d is repeated %" PRId64 " times", i,
                              times[i]);
        if (__builtin_mul_overflow(out->shape[i], times[i], &shape[i]))
            return tidei_fail(TIDE_E_NOMEM, op, "axis %d of the result has 2^63 elements or more",
                              i);
    }
    return TIDE_OK;
}

/* One axis for the repetitions and one for the elements of each axis that has both; false: there
** are too many. dst is the layout of the row-major result. */
static bool unfold(tidei_layout *dst, tidei_layout *src, const int64_t *times) {
    tidei_layout to = {.dtype = dst->dtype}, from = {.dtype = src->dtype, .offset = src->offset};
    for (int i = 0; i < src->ndim; i++) {
        bool both = times[i] > 1 && src->shape[i] > 1;
        if (from.ndim + 1 + both > TIDE_MAX_RANK) return false;
        if (both) from.strides[from.ndim] = 0, from.shape[from.ndim++] = times[i];
        bool again = times[i] > 1 && !both;
        from.strides[from.ndim] = again ? 0 : src->strides[i];
        from.shape[from.ndim++] = again ? times[i] : src->shape[i];
    }
    to.ndim = from.ndim;
    memcpy(to.shape, from.shape, sizeof to.shape);
    tidei_row_major(to.ndim, to.shape, to.strides);
    *dst = to;
    *src = from;
    return true;
}

static tide_status copy_tiles(const tidei_operand *dst, const tidei_operand *src,
                              const int64_t *times, const char *op) {
    tidei_operand to = *dst, from = *src;
    if (unfold(&to.lay, &from.lay, times)) return tidei_copy_elements(dst->rt, &to, &from, op);
    to = *dst;
    for (int i = 0; i < src->lay.ndim; i++) to.lay.shape[i] = src->lay.shape[i];
    tide_status s = tidei_copy_elements(dst->rt, &to, src, op);
    for (int i = 0; i < src->lay.ndim && s == TIDE_OK; i++) {
        int64_t n = src->lay.shape[i];
        s = tidei_extend(dst, &to.lay, i, 0, n * times[i] - n, n, op);
    }
    return s;
}

static tide_array *tile(const tidei_operand *o, const int64_t *reps, int n) {
    int64_t times[TIDE_MAX_RANK], shape[TIDE_MAX_RANK];
    tidei_operand src = *o, out;
    if (tiling(&o->lay, reps, n, &src.lay, times, shape) != TIDE_OK) return NULL;
    tide_array *made =
        tidei_array_make(o->rt, o->lay.dtype, src.lay.ndim, shape, "tide_tile", &out);
    if (!made) return NULL;
    bool any = tidei_layout_size(&out.lay) > 0;
    return tidei_array_done(made, &out, any ? copy_tiles(&out, &src, times, "tide_tile") : TIDE_OK);
}

tide_array *tide_tile(tide_array *a, const int64_t *reps, int n) {
    TIDEI_OPERATION("tide_tile");
    tidei_operand o;
    if (tidei_operand_get(a, "tide_tile", 1, &o) != TIDE_OK) return NULL;
    tide_array *made = tile(&o, reps, n);
    tidei_operand_put(&o);
    return made;
}
