/* scatter.c: values combined with the elements of an array at indices along an axis, in place.
**
** Integers, and the least and greatest of anything, come to the same in any order: one kernel of
** atomics; sums of many integers begin in shared memory, or row by row in the order of their
** indices. Sums and products of floats do not: their indices are sorted stably, and equal ones
** folded in the order in which they stand, chunk by chunk and level by level (scatter.h); sums of
** few columns and not too many places are made by buckets of places (buckets.h). Sums of few
** entries of many columns, of whatever type, are a kernel that does it all (scatter_few.h). A host
** goes through them in that order at once, where that takes no more room than they do
** (scatter_host.c). */
#include <inttypes.h>
#include <math.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/index/buckets.h"
#include "arrays/index/plan.h"
#include "arrays/index/scatter.h"
#include "arrays/index/scatter_host.h"
#include "arrays/index/segments.h"
#include "arrays/order/sort.h"
#include <tide/index.h>

_Static_assert(SC_HERE == TIDEI_SCATTER_FEW, "sums of a block");
_Static_assert((int)SC_ADD == TIDEI_SCATTER_ADD && (int)SC_MAX == TIDEI_SCATTER_MAX, "one list");

extern const char tidei_scatter_text[], tidei_scatter_few_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_scatter_text, name, false }
#define TELLS(name)                                                                                \
    { #name, tidei_scatter_text, name, .tells = true }
#define FOLDS(type)                                                                                \
    KERNEL(scatter_fold_##type), {"scatter_rows_" #type, tidei_scatter_text, NULL, false}, {       \
        "scatter_tile_" #type, tidei_scatter_text, NULL, false                                     \
    }
#define PAIRS(type)                                                                                \
    { "scatter_pairs_" #type, tidei_scatter_text, NULL, false }
/* by the logarithm of a component's size */
static const tidei_own_kernel each_kernels[] = {TELLS(scatter_each_1), TELLS(scatter_each_2),
                                                TELLS(scatter_each_4), TELLS(scatter_each_8)},
                              keys_kernel = TELLS(scatter_keys);
/* For a type: its kernels, and that of what a run's value is until it is rounded. */
static const struct {
    tidei_own_kernel kernel, rows, tiles, pairs; /* pairs: of real types */
    tide_dtype acc, pair;                        /* pair: of two */
} folds[TIDE_DTYPE_COUNT] = {[TIDE_F16] = {FOLDS(f16), PAIRS(f16), TIDE_F32, TIDE_C64},
                             [TIDE_BF16] = {FOLDS(bf16), PAIRS(bf16), TIDE_F32, TIDE_C64},
                             [TIDE_F32] = {FOLDS(f32), PAIRS(f32), TIDE_F32, TIDE_C64},
                             [TIDE_F64] = {FOLDS(f64), PAIRS(f64), TIDE_F64, TIDE_C128},
                             [TIDE_C64] = {FOLDS(c64), .acc = TIDE_C64},
                             [TIDE_C128] = {FOLDS(c128), .acc = TIDE_C128}};

#define FEW(name)                                                                                  \
    { "scatter_few_" #name, tidei_scatter_few_text, NULL, .tells = true }
static const tidei_own_kernel few_kernels[TIDE_DTYPE_COUNT] = {
    [TIDE_I16] = FEW(16),  [TIDE_U16] = FEW(16),  [TIDE_I32] = FEW(32),  [TIDE_U32] = FEW(32),
    [TIDE_I64] = FEW(64),  [TIDE_U64] = FEW(64),  [TIDE_F16] = FEW(f16), [TIDE_BF16] = FEW(bf16),
    [TIDE_F32] = FEW(f32), [TIDE_F64] = FEW(f64), [TIDE_C64] = FEW(c64), [TIDE_C128] = FEW(c128)};

/* ---- in any order ---- */

/* What a component of the type is to the kernel. */
static int component_type(tide_dtype t) {
    switch (tidei_real_of(t)) {
    case TIDE_F16: return SC_F16;
    case TIDE_BF16: return SC_BF16;
    case TIDE_F32: return SC_F32;
    case TIDE_F64: return SC_F64;
    default: return tidei_dtype_kind(t) == TIDEI_KIND_INT ? SC_INT : SC_UINT;
    }
}

static tide_status combine_each(const tidei_plan *p, const tidei_operand *near, int op) {
    tide_dtype t = p->far->lay.dtype, part = tidei_real_of(t);
    const tidei_own_kernel *k = &each_kernels[__builtin_ctzll(tide_dtype_size(part))];
    return tidei_plan_combine(p, near, k, op, component_type(t), part == t ? 1 : 2);
}

/* ---- in order: keys ---- */

#define NARROW_KEYS UINT32_MAX /* of an axis of fewer elements the keys have four bytes */

tide_dtype tidei_ids_type(int64_t length) { return length < NARROW_KEYS ? TIDE_U32 : TIDE_I64; }
static bool keys_are_wide(int64_t length) { return tidei_ids_type(length) == TIDE_I64; }

/* Copies the shape of some dimensions, without those of length 1; at least one is left. */
static int copy_dims(int n, const int64_t *shape, const int64_t *a, const int64_t *b,
                     ga_i64 *out_shape, ga_i64 *out_a, ga_i64 *out_b) {
    int kept = 0;
    for (int d = 0; d < n; d++) {
        int last = kept - 1;
        if (shape[d] == 1) continue;
        if (kept && out_a[last] == a[d] * shape[d] && out_b[last] == b[d] * shape[d])
            out_shape[last] *= shape[d];
        else
            out_shape[++last] = shape[d], kept++;
        out_a[last] = a[d];
        out_b[last] = b[d];
    }
    if (kept) return kept;
    out_shape[0] = 1;
    out_a[0] = out_b[0] = 0;
    return 1;
}

/* The indices, one for each of n entries. */
static sc_list make_list(const tidei_plan *p, int64_t n) {
    const tidei_operand *indices = p->lists[0].indices;
    const tidei_layout *l = &indices->lay;
    ga_i64 same[TIDE_MAX_RANK];
    sc_list c = {.n = n,
                 .length = p->far->lay.shape[p->lists[0].axis],
                 .size = (int)tide_dtype_size(l->dtype),
                 .is_signed = tidei_dtype_kind(l->dtype) == TIDEI_KIND_INT,
                 .report = tidei_fault_report(TIDEI_FAULT_SKIPPED, false, p->by),
                 .fault = tidei_stream_here(indices->rt)->dev->d->fault_addr};
    c.wide = keys_are_wide(c.length);
    c.ndim = copy_dims(l->ndim, l->shape, l->strides, l->strides, c.shape, c.strides, same);
    return c;
}

/* The indices as keys of entries: `keys`, an operand that is made. */
static tide_status make_keys(const tidei_plan *p, int64_t n, tidei_operand *keys) {
    const tidei_operand *indices = p->lists[0].indices;
    sc_list c = make_list(p, n);
    tide_status s =
        tidei_operand_make(indices->rt, c.wide ? TIDE_I64 : TIDE_U32, 1, &n, p->op, keys);
    if (s != TIDE_OK) return s;
    tidei_uses u = {.params = &c, .bytes = sizeof c};
    tidei_uses_add(&u, indices, indices->lay.offset, TIDEI_READ, offsetof(sc_list, indices));
    tidei_uses_add(&u, keys, 0, TIDEI_WRITE, offsetof(sc_list, keys));
    s = tidei_uses_run(&u, indices->rt, &keys_kernel, n, p->op);
    if (s != TIDE_OK) tidei_operand_put(keys);
    return s;
}

/* Of a key: that of what is left out is the axis's length. */
static unsigned key_bits(const tidei_plan *p) {
    const int64_t length = p->far->lay.shape[p->lists[0].axis];
    return 64 - (unsigned)__builtin_clzll((unsigned long long)length | 1);
}

/* Sorts keys, which are replaced by sorted ones, and says where each was: as i64, or u32 where the
** sort carries that. With `carried`, which it carries, these come in place of places. `pairs`: the
** lowest bit does not count. */
static tide_status sort_keys(const tidei_plan *p, tidei_operand *keys, const tidei_operand *carried,
                             bool pairs, tidei_operand *places) {
    tidei_operand sorted;
    int64_t n = keys->lay.shape[0];
    tidei_sorting how = {.source = keys,
                         .bits = key_bits(p),
                         .values = &sorted,
                         .indices = places,
                         .carried = carried,
                         .low = pairs};
    const tide_dtype t = carried                    ? carried->lay.dtype
                         : tidei_sort_carries(keys) ? TIDE_U32
                                                    : TIDE_I64;
    tide_status s = tidei_operand_make(keys->rt, keys->lay.dtype, 1, &n, p->op, &sorted);
    if (s != TIDE_OK) return s;
    s = tidei_operand_make(keys->rt, t, 1, &n, p->op, places);
    if (s == TIDE_OK) {
        s = tidei_sort(&how, p->op);
        if (s != TIDE_OK) tidei_operand_put(places);
    }
    tidei_operand_put(s == TIDE_OK ? keys : &sorted);
    if (s == TIDE_OK) *keys = sorted;
    return s;
}

/* ---- in order: folds ---- */

typedef struct entries { /* of a level */
    const tidei_operand *near, *keys;
    const tidei_operand *places; /* NULL: none */
} entries;

/* Whether a kernel folds sums that has keys and places of four bytes. */
static bool by_rows(const tidei_plan *p, const sc_fold *c) {
    return p->far->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT && c->op == SC_ADD &&
           c->length < INT32_MAX && c->n <= UINT32_MAX && c->level == 0 && !c->wide &&
           c->long_ndim == 1 && c->width > SC_FEW;
}

/* Runs a level; what is left of it goes to `next`, which may be NULL. */
static tide_status run_level(const tidei_plan *p, sc_fold *c, const entries *from,
                             const entries *next) {
    tidei_uses u = {.params = c, .bytes = sizeof *c};
    const bool tiles = c->chunk == SC_TILE;
    c->places_size = from->places ? (int)tide_dtype_size(from->places->lay.dtype) : 0;
    c->far = c->near = c->keys = c->places = c->next_keys = c->next_near = 0;
    tidei_uses_add(&u, p->far, p->far->lay.offset, TIDEI_READ | TIDEI_WRITE,
                   offsetof(sc_fold, far));
    tidei_uses_add(&u, from->near, from->near->lay.offset, TIDEI_READ, offsetof(sc_fold, near));
    tidei_uses_add(&u, from->keys, 0, TIDEI_READ, offsetof(sc_fold, keys));
    if (from->places) tidei_uses_add(&u, from->places, 0, TIDEI_READ, offsetof(sc_fold, places));
    if (next) {
        tidei_uses_add(&u, next->near, 0, TIDEI_WRITE, offsetof(sc_fold, next_near));
        tidei_uses_add(&u, next->keys, 0, TIDEI_WRITE, offsetof(sc_fold, next_keys));
    }
    const tide_dtype t = p->far->lay.dtype;
    return tidei_uses_run(&u, p->far->rt,
                          c->pairs        ? &folds[t].pairs
                          : tiles         ? &folds[t].tiles
                          : by_rows(p, c) ? &folds[t].rows
                                          : &folds[t].kernel,
                          c->chunks * c->width * (tiles ? TIDEI_OWN_BLOCK : 1), p->op);
}

static tide_status fold_levels(const tidei_plan *p, sc_fold *c, const entries *from);

/* A level of several chunks, and those after it. */
static tide_status fold_chunks(const tidei_plan *p, sc_fold *c, const entries *from) {
    tidei_operand near, keys;
    const entries next = {&near, &keys, NULL};
    int64_t slots = 2 * c->chunks, size = slots * c->width;
    const tide_dtype t = p->far->lay.dtype;
    tide_status s = tidei_operand_make(p->far->rt, c->pairs ? folds[t].pair : folds[t].acc, 1,
                                       &size, p->op, &near);
    if (s != TIDE_OK) return s;
    s = tidei_operand_make(p->far->rt, TIDE_I64, 1, &slots, p->op, &keys);
    if (s == TIDE_OK) {
        s = run_level(p, c, from, &next);
        c->n = slots;
        c->level++;
        c->wide = 1;
        if (s == TIDE_OK) s = fold_levels(p, c, &next);
        tidei_operand_put(&keys);
    }
    tidei_operand_put(&near);
    return s;
}

/* Of many columns a thread each goes through rows, which lie together; of few ones, and of entries
** of higher levels, which are not many, blocks fold a column of a tile at once. */
static bool by_tiles(const tidei_plan *p, const sc_fold *c) {
    return p->far->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT && c->op == SC_ADD &&
           c->length < INT32_MAX && (c->level > 0 || c->width <= SC_FEW);
}

static tide_status fold_levels(const tidei_plan *p, sc_fold *c, const entries *from) {
    c->chunk = by_tiles(p, c) ? SC_TILE : SC_CHUNK;
    c->chunks = (c->n + c->chunk - 1) / c->chunk;
    return c->chunks > 1 ? fold_chunks(p, c, from) : run_level(p, c, from, NULL);
}

/* Columns and entries: the plan's dimensions, apart. */
static void make_fold(const tidei_plan *p, const tidei_operand *near,
                      const struct tidei_scatter_how *how, sc_fold *c) {
    int64_t strides[TIDE_MAX_RANK], shape[TIDE_MAX_RANK], far[TIDE_MAX_RANK], across[TIDE_MAX_RANK];
    int axis = p->lists[0].axis, n = 0, first = p->lists[0].first, listed = p->lists[0].ndim;
    ga_i64 same[TIDE_MAX_RANK];
    *c = (sc_fold){.n = 1,
                   .op = how->op,
                   .fresh = how->fresh,
                   .length = p->far->lay.shape[axis],
                   .step = p->far->lay.strides[axis],
                   .width = 1};
    c->wide = keys_are_wide(c->length);
    tidei_broadcast_strides(&near->lay, p->ndim, p->shape, strides);
    for (int d = 0; d < p->ndim; d++) {
        if (p->kind[d] == TIDEI_PLAN_LISTED) {
            c->n *= p->shape[d];
            continue;
        }
        c->width *= shape[n] = p->shape[d];
        far[n] = p->far_strides[d];
        across[n++] = strides[d];
    }
    c->ndim = copy_dims(n, shape, far, across, c->shape, c->far_strides, c->near_strides);
    c->long_ndim = copy_dims(listed, p->shape + first, strides + first, strides + first,
                             c->long_shape, c->long_strides, same);
}

/* Whether values may come with their keys, instead of being looked up: one for each entry, one
** behind the other. */
static bool are_carried(const tidei_operand *near, const sc_fold *c, const tidei_operand *keys) {
    return c->width == 1 && c->long_ndim == 1 && c->long_strides[0] == 1 &&
           tide_dtype_size(near->lay.dtype) <= sizeof(uint64_t) && tidei_sort_carries(keys);
}

#define DIGIT 8 /* bits that a pass of a sort takes */

/* Where one bit more than passes have would take another pass, it is left to the fold. */
static tide_status fold(const tidei_plan *p, const tidei_operand *near, sc_fold *c) {
    tidei_operand keys, sorted;
    tide_status s = make_keys(p, c->n, &keys);
    if (s != TIDE_OK) return s;
    const bool carried = are_carried(near, c, &keys);
    c->pairs = c->fresh && by_tiles(p, c) && folds[near->lay.dtype].pairs.name &&
               tidei_sort_carries(&keys) && key_bits(p) > DIGIT && key_bits(p) % DIGIT == 1;
    s = sort_keys(p, &keys, carried ? near : NULL, c->pairs, &sorted);
    if (s == TIDE_OK) {
        s = fold_levels(
            p, c, carried ? &(entries){&sorted, &keys, NULL} : &(entries){near, &keys, &sorted});
        tidei_operand_put(&sorted);
    }
    tidei_operand_put(&keys);
    return s;
}

/* ---- in order: buckets ---- */

/* Whether each entry's index and values are one stride from the next one's, and buckets.h takes
** them. */
static bool by_buckets(const tidei_plan *p, const sc_fold *c) {
    const int parts = tidei_dtype_kind(p->far->lay.dtype) == TIDEI_KIND_COMPLEX ? 2 : 1;
    return c->op == SC_ADD && c->width && c->length && make_list(p, c->n).ndim == 1 &&
           c->long_ndim == 1 && tidei_buckets_suit(p, c->n, c->width * parts);
}

static tide_status add_by_buckets(const tidei_plan *p, const tidei_operand *near,
                                  const sc_fold *c) {
    const sc_list list = make_list(p, c->n);
    const int parts = tidei_dtype_kind(p->far->lay.dtype) == TIDEI_KIND_COMPLEX ? 2 : 1;
    bu_call b = {.fault = list.fault,
                 .report = list.report,
                 .n = c->n,
                 .length = c->length,
                 .index_step = list.strides[0],
                 .near_step = c->long_strides[0] * parts,
                 .far_step = c->step * parts,
                 .index_size = list.size,
                 .is_signed = list.is_signed,
                 .parts = (int)c->width * parts,
                 .fresh = c->fresh};
    for (int i = 0; i < b.parts; i++) {
        b.near_at[i] = sc_offset(c->ndim, c->shape, c->near_strides, i / parts) * parts + i % parts;
        b.far_at[i] = sc_offset(c->ndim, c->shape, c->far_strides, i / parts) * parts + i % parts;
    }
    return tidei_buckets_add(p, near, &b);
}

/* ---- few entries ---- */

#define FEW_VALUES ((int64_t)1 << 18) /* at least: of less a sort of all keys takes little more */
#define MANY_EACH  ((int64_t)1 << 20) /* values, of which threads add several columns */
#define SIDE       128                /* columns side by side that a block's threads share */

static bool are_few(const tidei_plan *p, const sc_fold *c) {
    const tide_dtype t = p->far->lay.dtype;
    return p->far->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT && c->op == SC_ADD && !c->fresh &&
           few_kernels[t].name && c->n > 0 && c->n <= SC_ENTRIES && !c->wide &&
           c->width >= FEW_VALUES / c->n;
}

static tide_status add_few(const tidei_plan *p, const tidei_operand *near, const sc_fold *c) {
    const tidei_operand *indices = p->lists[0].indices;
    const int last = c->ndim - 1;
    sc_few x = {.list = make_list(p, c->n), .fold = *c};
    x.by_columns =
        c->near_strides[last] == 1 && c->far_strides[last] == 1 && c->shape[last] >= SIDE;
    x.together = c->n * c->width >= MANY_EACH ? SC_TOGETHER : 1;
    const int64_t most = TIDEI_OWN_BLOCKS_AN_SM * (int64_t)near->st->dev->d->info.sm_count,
                  blocks = c->n * c->width / x.together / SC_THREADS + 1;
    tidei_uses u = {.params = &x, .bytes = sizeof x};
    tidei_uses_add(&u, p->far, p->far->lay.offset, TIDEI_READ | TIDEI_WRITE,
                   offsetof(sc_few, fold.far));
    tidei_uses_add(&u, near, near->lay.offset, TIDEI_READ, offsetof(sc_few, fold.near));
    tidei_uses_add(&u, indices, indices->lay.offset, TIDEI_READ, offsetof(sc_few, list.indices));
    return tidei_uses_run_blocks(&u, near->rt, &few_kernels[p->far->lay.dtype], SC_THREADS,
                                 (unsigned)(blocks < most || most < 1 ? blocks : most), p->op);
}

/* ---- integers, as they are ---- */

/* From so many columns on a sort of the indices and a fold take less than an atomic a value. */
#define WIDE       12
#define MANY       ((int64_t)1 << 20) /* values, at least: a sort takes a while to begin */
#define FOR_EACH   32                 /* entries of all blocks for each place, at least */
#define A_BLOCK(n) ((n) == 1 ? 1 << 23 : 1 << 15) /* values of n bytes: their sum has 32 bits */

_Static_assert(WIDE > SC_FEW, "a block has room for the chunks of rows of more columns");

/* Whether blocks have room for all sums. */
static bool has_room(const tidei_plan *p, const sc_fold *c, size_t size) {
    const tidei_layout *l = &p->lists[0].indices->lay;
    return size <= 2 && l->ndim == 1 && tide_dtype_size(l->dtype) >= 4 && c->ndim == 1 &&
           c->long_ndim == 1 && c->width <= SC_HERE && c->length <= SC_HERE / c->width &&
           c->n < INT32_MAX / c->width && c->n / FOR_EACH >= c->length;
}

/* Whether integers of the values' type are added to those of 8 bytes without a cast: one that loses
** nothing, of values that are not copied first, as those are that lie in the array's own memory. */
static bool takes_as_given(const tidei_plan *p, const tidei_operand *values,
                           const struct tidei_scatter_how *how) {
    const tide_dtype t = values->lay.dtype, sum = p->far->lay.dtype;
    const tidei_kind kind = tidei_dtype_kind(t);
    sc_fold c;
    if (!(tidei_stream_here(values->rt)->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT)) return false;
    if (how->op != SC_ADD || (sum != TIDE_I64 && sum != TIDE_U64)) return false;
    if (kind != TIDEI_KIND_INT && kind != TIDEI_KIND_UINT) return false;
    if (tidei_cast_lost(t, sum) || tidei_operands_overlap(p->far, values)) return false;
    make_fold(p, values, how, &c);
    if (!c.n || !c.width || !c.length || (t == sum && are_few(p, &c))) return false;
    return has_room(p, &c, tide_dtype_size(t)) ||
           (c.width >= WIDE && c.n >= MANY / c.width && c.n <= UINT32_MAX && c.long_ndim == 1 &&
            c.length < INT32_MAX);
}

static tide_status add_here(const tidei_plan *p, const tidei_operand *near, const sc_fold *c) {
    static const tidei_own_kernel k = {"scatter_here", tidei_scatter_text, NULL, .tells = true};
    const tidei_operand *indices = p->lists[0].indices;
    const int64_t all = c->n * c->width, most = A_BLOCK(c->size), each = 4 * SC_HERE_THREADS,
                  sms = tidei_stream_here(near->rt)->dev->d->info.sm_count;
    int64_t blocks = (all + each - 1) / each, least = (all + most - 1) / most;
    if (blocks > sms) blocks = sms > least ? sms : least;
    sc_here x = {.list = make_list(p, c->n), .fold = *c, .width = kt_div_by((unsigned)c->width)};
    tidei_uses u = {.params = &x, .bytes = sizeof x};
    tidei_uses_add(&u, p->far, p->far->lay.offset, TIDEI_READ | TIDEI_WRITE,
                   offsetof(sc_here, fold.far));
    tidei_uses_add(&u, near, near->lay.offset, TIDEI_READ, offsetof(sc_here, fold.near));
    tidei_uses_add(&u, indices, indices->lay.offset, TIDEI_READ, offsetof(sc_here, list.indices));
    return tidei_uses_run_blocks(&u, near->rt, &k, SC_HERE_THREADS, (unsigned)blocks, p->op);
}

static tide_status add_rows(const tidei_plan *p, const tidei_operand *near, sc_fold *c) {
    static const tidei_own_kernel k = {"scatter_rows", tidei_scatter_text, NULL, false};
    tidei_operand keys, places;
    tidei_check(c->width >= WIDE && c->long_ndim == 1 && c->length < INT32_MAX);
    tide_status s = make_keys(p, c->n, &keys);
    if (s != TIDE_OK) return s;
    s = sort_keys(p, &keys, NULL, false, &places);
    if (s == TIDE_OK) {
        tidei_uses u = {.params = c, .bytes = sizeof *c};
        c->chunk = SC_CHUNK;
        c->chunks = (c->n + SC_CHUNK - 1) / SC_CHUNK;
        c->places_size = (int)tide_dtype_size(places.lay.dtype);
        tidei_uses_add(&u, p->far, p->far->lay.offset, TIDEI_READ | TIDEI_WRITE,
                       offsetof(sc_fold, far));
        tidei_uses_add(&u, near, near->lay.offset, TIDEI_READ, offsetof(sc_fold, near));
        tidei_uses_add(&u, &keys, 0, TIDEI_READ, offsetof(sc_fold, keys));
        tidei_uses_add(&u, &places, 0, TIDEI_READ, offsetof(sc_fold, places));
        s = tidei_uses_run(&u, near->rt, &k, c->chunks * c->width, p->op);
        tidei_operand_put(&places);
    }
    tidei_operand_put(&keys);
    return s;
}

static tide_status add_as_given(const tidei_plan *p, const tidei_operand *near, sc_fold *c) {
    const tide_dtype t = near->lay.dtype;
    c->size = (int)tide_dtype_size(t);
    c->is_signed = tidei_dtype_kind(t) == TIDEI_KIND_INT;
    return has_room(p, c, tide_dtype_size(t)) ? add_here(p, near, c) : add_rows(p, near, c);
}

/* ---- in order, on the host ---- */

#define ROOM_MOST (64 * TIDEI_MIB) /* bytes of tables */
/* Of a stretch of entries that has its own, at least: elements, and entries for each place, so that
** tables take little time beside them. */
#define STRETCH     32768
#define DENSE       4
#define TABLES_MOST 64
/* Places for each entry, up to which it pays to look at each place. */
#define SPARSE 4

static bool is_for_sums(const tidei_plan *p, const sc_fold *c, tide_dtype t) {
    const size_t acc = tidei_sums_kinds[t].acc;
    if (!acc || p->far->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT) return false;
    if (c->op == SC_MUL && tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX) return false;
    if ((c->op != SC_ADD && c->op != SC_MUL) || !c->n || !c->length || !c->width) return false;
    return c->length / SPARSE <= c->n && c->length <= (int64_t)(ROOM_MOST / acc) / c->width;
}

/* Into how many tables; the bits of sums depend on it. */
static int64_t count_tables(const sc_fold *c, size_t acc) {
    const int64_t room = (int64_t)(ROOM_MOST / acc) / (c->length * c->width);
    int64_t n = c->n * c->width / STRETCH;
    if (n > c->n / DENSE / c->length) n = c->n / DENSE / c->length;
    if (n > room) n = room;
    return n < 1 ? 1 : n < TABLES_MOST ? n : TABLES_MOST;
}

static tide_status add_up(const tidei_plan *p, const tidei_operand *near, const sc_fold *c) {
    const tide_dtype t = p->far->lay.dtype;
    const tidei_operand *indices = p->lists[0].indices;
    const tidei_own_kernel k = {"scatter_sums", NULL, tidei_sums_kinds[t].run, .tells = true};
    sc_sums x = {.list = make_list(p, c->n), .fold = *c};
    tidei_operand room;
    x.ntables = count_tables(c, tidei_sums_kinds[t].acc);
    x.stretch = (c->n + x.ntables - 1) / x.ntables;
    int64_t doubles = x.ntables * c->length * c->width * (int64_t)tidei_sums_kinds[t].acc / 8;
    tide_status s = tidei_operand_make(p->far->rt, TIDE_F64, 1, &doubles, p->op, &room);
    if (s != TIDE_OK) return s;
    tidei_uses u = {.params = &x, .bytes = sizeof x};
    tidei_uses_add(&u, p->far, p->far->lay.offset, TIDEI_READ | TIDEI_WRITE,
                   offsetof(sc_sums, fold.far));
    tidei_uses_add(&u, near, near->lay.offset, TIDEI_READ, offsetof(sc_sums, fold.near));
    tidei_uses_add(&u, indices, indices->lay.offset, TIDEI_READ, offsetof(sc_sums, list.indices));
    tidei_uses_add(&u, &room, 0, TIDEI_READ | TIDEI_WRITE, offsetof(sc_sums, tables));
    s = tidei_uses_run(&u, p->far->rt, &k, c->n, p->op);
    tidei_operand_put(&room);
    return s;
}

/* ---- the functions ---- */

tide_status tidei_scatter_plan(const tidei_operand *a, const tidei_operand *indices, int axis,
                               tidei_plan *p) {
    const tidei_layout *l = &a->lay;
    tide_status s = tidei_axis(axis, l->ndim, p->op, &axis);
    p->far = a;
    p->nlists = 1;
    p->lists[0] = (struct tidei_plan_list){.indices = indices, .axis = axis};
    if (s == TIDE_OK) s = tidei_plan_check(p);
    for (int d = 0; d < axis && s == TIDE_OK; d++)
        s = tidei_plan_add(p, l->shape[d], l->strides[d], TIDEI_PLAN_WHOLE);
    if (s == TIDE_OK) s = tidei_plan_add_lists(p, indices->lay.ndim, indices->lay.shape);
    for (int d = axis + 1; d < l->ndim && s == TIDE_OK; d++)
        s = tidei_plan_add(p, l->shape[d], l->strides[d], TIDEI_PLAN_WHOLE);
    return s == TIDE_OK ? tidei_shape_check(l->dtype, p->ndim, p->shape, p->op) : s;
}

static tide_status check_type(tide_dtype t, int op, const char *name) {
    tidei_kind kind = tidei_dtype_kind(t);
    bool sum = op == SC_ADD || op == SC_MUL;
    if (kind != (sum ? TIDEI_KIND_BOOL : TIDEI_KIND_COMPLEX)) return TIDE_OK;
    return tidei_fail(TIDE_E_DTYPE, name, "%s; wanted %s", tide_dtype_name(t),
                      sum ? "integers, floats or complex" : "bool, integers or floats");
}

static tide_status update(const tidei_plan *p, const tidei_operand *near, void *user) {
    const struct tidei_scatter_how *how = user;
    tide_dtype t = p->far->lay.dtype;
    bool integers = tidei_dtype_kind(t) < TIDEI_KIND_FLOAT, small = t == TIDE_F16 || t == TIDE_BF16,
         each = integers || how->op == SC_MIN || how->op == SC_MAX ||
                (how->op == SC_ADD && how->any_order && !small);
    sc_fold c;
    make_fold(p, near, how, &c);
    if (p->as_given) return add_as_given(p, near, &c);
    if (is_for_sums(p, &c, t)) return add_up(p, near, &c);
    if (!how->sorted && are_few(p, &c)) return add_few(p, near, &c);
    if (each) return combine_each(p, near, how->op);
    if (!how->sorted && by_buckets(p, &c)) return add_by_buckets(p, near, &c);
    return how->sorted ? fold_levels(p, &c, &(entries){near, p->lists[0].indices, NULL})
                       : fold(p, near, &c);
}

static tide_status combine_along(const tidei_operand *a, const tidei_operand *indices, int axis,
                                 const tidei_operand *values, struct tidei_scatter_how how,
                                 const char *op, unsigned by) {
    tidei_plan p = {.op = op, .by = by};
    tide_status s = tidei_scatter_plan(a, indices, axis, &p);
    if (s == TIDE_OK) s = tidei_plan_check_values(&p, values);
    if (s != TIDE_OK) return s;
    p.as_given = takes_as_given(&p, values, &how);
    return tidei_plan_update(&p, values, update, &how);
}

static tide_status combine_as_i32(const tidei_operand *a, const tidei_operand *indices, int axis,
                                  const tidei_operand *near, struct tidei_scatter_how how,
                                  const char *op, unsigned by) {
    tidei_operand wide;
    tide_status s = tidei_operand_make(a->rt, TIDE_I32, a->lay.ndim, a->lay.shape, op, &wide);
    if (s != TIDE_OK) return s;
    s = tidei_store_elements(a->rt, &wide, a, op);
    if (s == TIDE_OK) s = combine_along(&wide, indices, axis, near, how, op, by);
    if (s == TIDE_OK) s = tidei_store_elements(a->rt, a, &wide, op);
    tidei_operand_put(&wide);
    return s;
}

/* Where devices have no atomics for bytes: they are combined as i32, which comes to the same in the
** byte that is kept. What is refused is refused before that. */
static tide_status combine_bytes(const tidei_operand *a, const tidei_operand *indices, int axis,
                                 const tidei_operand *values, struct tidei_scatter_how how,
                                 const char *op, unsigned by) {
    tidei_plan p = {.op = op, .by = by};
    tidei_operand near;
    bool copied;
    tide_status s = tidei_scatter_plan(a, indices, axis, &p);
    if (s == TIDE_OK) s = tidei_plan_check_values(&p, values);
    if (s == TIDE_OK) s = tidei_apart(a, values, a->lay.dtype, op, &near, &copied);
    if (s != TIDE_OK) return s;
    if (tidei_layout_size(&indices->lay) > 0)
        s = combine_as_i32(a, indices, axis, &near, how, op, by);
    if (copied) tidei_operand_put(&near);
    return s;
}

/* Whether bytes are combined in their places, by exchanges of words of four bytes. Where these keep
** the least or the greatest most of them end with a look; sums are made sooner as i32. No word may
** reach beyond the memory. */
static bool are_exchanged(const tidei_operand *a, int op) {
    return (op == SC_MIN || op == SC_MAX) && a->st->bytes % 4 == 0 && a->st->addr % 4 == 0;
}

tide_status tidei_scatter(const tidei_operand *a, const tidei_operand *indices, int axis,
                          const tidei_operand *values, struct tidei_scatter_how how, const char *op,
                          unsigned by) {
    tide_dtype t = a->lay.dtype;
    unsigned flags = tidei_stream_here(a->rt)->dev->d->info.flags;
    bool bytes =
        flags & TIDEI_DEV_RUNS_TEXT && tide_dtype_size(t) == 1 && !are_exchanged(a, how.op);
    tide_status s = check_type(t, how.op, op);
    if (s != TIDE_OK) return s;
    return (bytes ? combine_bytes : combine_along)(a, indices, axis, values, how, op, by);
}

static tide_status scatter(tide_array *a, tide_array *indices, int axis, tide_array *values,
                           const char *name, unsigned by, int op, unsigned flags) {
    tidei_updated u;
    tide_status s = tidei_updated_get(a, indices, values, name, &u);
    if (s != TIDE_OK) return s;
    if (flags & ~(unsigned)TIDE_SCATTER_ANY_ORDER)
        s = tidei_fail(TIDE_E_INVALID, name, "flags are %#x", flags);
    if (s == TIDE_OK)
        s = tidei_scatter(&u.a, &u.indices, axis, &u.values,
                          (struct tidei_scatter_how){.op = op, .any_order = flags != 0}, name, by);
    tidei_updated_put(&u);
    return s;
}

tide_status tide_scatter_put(tide_array *a, tide_array *indices, int axis, tide_array *values) {
    TIDEI_OPERATION("tide_scatter_put");
    tidei_plan p = {.op = "tide_scatter_put", .by = TIDEI_FAULT_BY_SCATTER_PUT};
    tidei_updated u;
    tide_status s = tidei_updated_get(a, indices, values, p.op, &u);
    if (s != TIDE_OK) return s;
    s = tidei_scatter_plan(&u.a, &u.indices, axis, &p);
    if (s == TIDE_OK) s = tidei_plan_put(&p, &u.values);
    tidei_updated_put(&u);
    return s;
}

tide_status tide_scatter_add(tide_array *a, tide_array *indices, int axis, tide_array *values,
                             unsigned flags) {
    TIDEI_OPERATION("tide_scatter_add");
    return scatter(a, indices, axis, values, "tide_scatter_add", TIDEI_FAULT_BY_SCATTER_ADD, SC_ADD,
                   flags);
}

tide_status tide_scatter_mul(tide_array *a, tide_array *indices, int axis, tide_array *values) {
    TIDEI_OPERATION("tide_scatter_mul");
    return scatter(a, indices, axis, values, "tide_scatter_mul", TIDEI_FAULT_BY_SCATTER_MUL, SC_MUL,
                   0);
}

tide_status tide_scatter_min(tide_array *a, tide_array *indices, int axis, tide_array *values) {
    TIDEI_OPERATION("tide_scatter_min");
    return scatter(a, indices, axis, values, "tide_scatter_min", TIDEI_FAULT_BY_SCATTER_MIN, SC_MIN,
                   0);
}

tide_status tide_scatter_max(tide_array *a, tide_array *indices, int axis, tide_array *values) {
    TIDEI_OPERATION("tide_scatter_max");
    return scatter(a, indices, axis, values, "tide_scatter_max", TIDEI_FAULT_BY_SCATTER_MAX, SC_MAX,
                   0);
}
