/* places.c: elements at the places of a plan (plan.h), taken or put by the kernels of places.h;
** with one index array taken by those of gather.h. Rows that lie together are moved in units of up
** to 16 bytes. */
#include <inttypes.h>
#include <stdlib.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/index/places.h"
#include "arrays/index/plan.h"
#include "arrays/kernels/launch.h"
#include "arrays/make/take.h"

_Static_assert(PL_RANK == TIDE_MAX_RANK, "one rank for both back ends");
_Static_assert(TIDEI_FAULT_WRITING == GA_WRITING && TIDEI_FAULT_UNSIGNED == GA_UNSIGNED,
               "one protocol of reports");

extern const char tidei_places_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_places_text, name, .tells = true }
#define BY_SIZE(name)                                                                              \
    { KERNEL(name##_1), KERNEL(name##_2), KERNEL(name##_4), KERNEL(name##_8), KERNEL(name##_16) }
/* elements are only moved, so their size decides: by its logarithm */
static const tidei_own_kernel take_kernels[] = BY_SIZE(places_take),
                              put_kernels[] = BY_SIZE(places_put);
/* of devices alone: a host puts in order, so that nobody claims */
#undef KERNEL
#define KERNEL(name)                                                                               \
    { #name, tidei_places_text, NULL, .tells = true }
static const tidei_own_kernel claim_kernel = KERNEL(places_claim),
                              few_kernels[] = BY_SIZE(places_put_few),
                              lines_kernels[] = BY_SIZE(places_put_lines),
                              slots_kernels[] = BY_SIZE(places_put_slots),
                              note_kernels[] = {KERNEL(places_note_1), KERNEL(places_note_2)},
                              noted_kernels[] = {KERNEL(places_put_noted_1),
                                                 KERNEL(places_put_noted_2)};

/* ---- plans ---- */

tide_status tidei_plan_add(tidei_plan *p, int64_t n, int64_t far_stride,
                           enum tidei_plan_kind kind) {
    if (p->ndim == TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, p->op,
                          "the elements have more than %d dimensions, which are possible",
                          TIDE_MAX_RANK);
    p->shape[p->ndim] = n;
    p->far_strides[p->ndim] = far_stride;
    p->kind[p->ndim++] = kind;
    return TIDE_OK;
}

tide_status tidei_plan_add_lists(tidei_plan *p, int ndim, const int64_t *shape) {
    int first = p->ndim;
    tide_status s = TIDE_OK;
    for (int d = 0; d < ndim && s == TIDE_OK; d++)
        s = tidei_plan_add(p, shape[d], 0, TIDEI_PLAN_LISTED);
    for (int l = 0; l < p->nlists; l++) {
        p->lists[l].first = first;
        p->lists[l].ndim = ndim;
    }
    return s;
}

tide_status tidei_plan_check(const tidei_plan *p) {
    for (int l = 0; l < p->nlists; l++) {
        const tidei_layout *indices = &p->lists[l].indices->lay;
        tidei_kind kind = tidei_dtype_kind(indices->dtype);
        if (kind != TIDEI_KIND_INT && kind != TIDEI_KIND_UINT)
            return tidei_fail(TIDE_E_DTYPE, p->op, "indices are %s; wanted an integer type",
                              tide_dtype_name(indices->dtype));
        if (p->far->lay.shape[p->lists[l].axis] == 0 && tidei_layout_size(indices) > 0)
            return tidei_fail(TIDE_E_BOUNDS, p->op,
                              "%" PRId64 " indices into axis %d, which has no elements",
                              tidei_layout_size(indices), p->lists[l].axis);
    }
    return TIDE_OK;
}

/* ---- a kernel's call ---- */

static int64_t plan_size(const tidei_plan *p) {
    int64_t n = 1;
    for (int d = 0; d < p->ndim; d++) n *= p->shape[d];
    return n;
}

static void make_list(const struct tidei_plan_list *from, const tidei_plan *p, pl_list *list) {
    const tidei_layout *indices = &from->indices->lay;
    int64_t strides[TIDE_MAX_RANK];
    *list = (pl_list){.length = p->far->lay.shape[from->axis],
                      .step = p->far->lay.strides[from->axis],
                      .size = (int)tide_dtype_size(indices->dtype),
                      .is_signed = tidei_dtype_kind(indices->dtype) == TIDEI_KIND_INT};
    tidei_broadcast_strides(indices, from->ndim, p->shape + from->first, strides);
    for (int d = 0; d < from->ndim; d++) list->strides[from->first + d] = strides[d];
}

typedef struct key_part { /* a dimension along which keys differ */
    ga_i64 length, far;   /* its stride in memory */
    ga_i64 *step;         /* what one step is worth in a key */
} key_part;

/* A part behind those that lie closer together in memory. */
static int insert_part(key_part *parts, int n, key_part part) {
    int at = n;
    for (; at > 0 && llabs(parts[at - 1].far) > llabs(part.far); at--) parts[at] = parts[at - 1];
    parts[at] = part;
    return n + 1;
}

/* Keys that are in the order of memory. They go along those dimensions that have a stride in them
** before, whatever it is. */
static void make_keys(pl_call *c) {
    key_part parts[2 * TIDE_MAX_RANK];
    int n = 0;
    ga_i64 key = 1;
    c->key_ndim = 0;
    for (int d = c->ndim - 1; d >= 0; d--)
        if (c->key_strides[d])
            n = insert_part(parts, n,
                            (key_part){c->shape[d], c->far_strides[d], &c->key_strides[d]});
    for (int l = 0; l < c->nlists; l++)
        n = insert_part(parts, n,
                        (key_part){c->lists[l].length, c->lists[l].step, &c->lists[l].key_step});
    for (int i = 0; i < n; i++) {
        const int last = c->key_ndim - 1;
        *parts[i].step = key;
        key *= parts[i].length;
        if (last >= 0 &&
            (parts[i].length == 1 || parts[i].far == c->key_far[last] * c->key_shape[last])) {
            c->key_shape[last] *= parts[i].length;
            continue;
        }
        c->key_shape[last + 1] = parts[i].length;
        c->key_far[last + 1] = parts[i].far;
        c->key_ndim++;
    }
    c->slots = key; /* so many keys there are */
}

/* The iteration over all that the plan has; what is taken or put has these strides. */
static void make_call(const tidei_plan *p, const int64_t *near_strides, pl_call *c) {
    int64_t order = 1;
    *c = (pl_call){.n = plan_size(p), .ndim = p->ndim, .nlists = p->nlists};
    for (int d = p->ndim - 1; d >= 0; d--) {
        c->shape[d] = p->shape[d];
        c->far_strides[d] = p->far_strides[d];
        c->near_strides[d] = near_strides[d];
        if (p->kind[d] == TIDEI_PLAN_WHOLE) continue;
        c->key_strides[d] = p->kind[d] == TIDEI_PLAN_EACH;
        c->order_strides[d] = order;
        order *= p->shape[d];
    }
    c->claims = order;
    for (int l = 0; l < p->nlists; l++) make_list(&p->lists[l], p, &c->lists[l]);
    make_keys(c);
}

/* Whether dimension d continues dimension `to` for one set of strides. */
static bool goes_on(const pl_call *c, const ga_i64 *strides, int to, int d) {
    return strides[to] == strides[d] * c->shape[d];
}

static bool joins(const pl_call *c, int to, int d) {
    for (int l = 0; l < c->nlists; l++)
        if (!goes_on(c, c->lists[l].strides, to, d)) return false;
    return goes_on(c, c->far_strides, to, d) && goes_on(c, c->near_strides, to, d) &&
           goes_on(c, c->key_strides, to, d) && goes_on(c, c->order_strides, to, d);
}

static void copy_dimension(pl_call *c, int to, const pl_call *source, int from) {
    c->far_strides[to] = source->far_strides[from];
    c->near_strides[to] = source->near_strides[from];
    c->key_strides[to] = source->key_strides[from];
    c->order_strides[to] = source->order_strides[from];
    for (int l = 0; l < c->nlists; l++) c->lists[l].strides[to] = source->lists[l].strides[from];
}

static void move_dimension(pl_call *c, int to, int from) { copy_dimension(c, to, c, from); }

/* Joins neighbouring dimensions where all strides allow it, drops those of length 1, and leaves at
** least one. */
static void collapse(pl_call *c) {
    int kept = 0;
    for (int d = 0; d < c->ndim; d++) {
        if (c->shape[d] == 1) continue;
        if (kept && joins(c, kept - 1, d)) {
            c->shape[kept - 1] *= c->shape[d];
        } else {
            c->shape[kept++] = c->shape[d];
        }
        move_dimension(c, kept - 1, d);
    }
    if (kept == 0) c->shape[kept++] = 1;
    c->ndim = kept;
}

#define UNIT_MAX 16 /* bytes: what one access moves, and storages' alignment */

/* How many elements move as one: rows lie together on both sides, at one place each, and begin at
** multiples of so many. */
static int64_t elements_of_unit(const pl_call *c, int64_t size, int64_t offsets) {
    const int last = c->ndim - 1;
    uint64_t all = (uint64_t)(c->shape[last] | offsets);
    if (c->far_strides[last] != 1 || c->near_strides[last] != 1 || c->key_strides[last] != 0 ||
        c->order_strides[last] != 0)
        return 1;
    for (int l = 0; l < c->nlists; l++) {
        if (c->lists[l].strides[last] != 0) return 1;
        all |= (uint64_t)c->lists[l].step;
    }
    for (int d = 0; d < last; d++) all |= (uint64_t)(c->far_strides[d] | c->near_strides[d]);
    const int64_t most = UNIT_MAX / size, least = all ? (int64_t)(all & -all) : most;
    return least < most ? least : most;
}

/* The same call in units of w elements. */
static void widen(pl_call *c, int64_t w) {
    c->n /= w;
    c->shape[c->ndim - 1] /= w;
    for (int l = 0; l < c->nlists; l++) c->lists[l].step /= w;
    for (int d = 0; d < c->ndim - 1; d++) {
        c->far_strides[d] /= w;
        c->near_strides[d] /= w;
    }
    for (int d = 0; d < c->key_ndim; d++) c->key_far[d] /= w;
}

/* The claims alone: one for each place that is named. */
static void keep_claims(pl_call *c) {
    int kept = 0;
    c->n = 1;
    for (int d = 0; d < c->ndim; d++) {
        if (c->order_strides[d] == 0) continue;
        c->shape[kept] = c->shape[d];
        c->n *= c->shape[d];
        move_dimension(c, kept++, d);
    }
    if (kept == 0) c->shape[kept++] = 1;
    c->ndim = kept;
}

/* ---- launches ---- */

void tidei_uses_add(tidei_uses *u, const tidei_operand *o, int64_t offset, unsigned mode,
                    size_t at) {
    tidei_check(u->n < TIDEI_COUNT(u->uses));
    u->uses[u->n] = tidei_operand_use(o, mode);
    uint64_t distance = (uint64_t)offset * tide_dtype_size(o->lay.dtype) - u->uses[u->n].offset;
    memcpy((char *)u->params + at, &distance, sizeof distance);
    u->at[u->n++] = at;
}

tide_status tidei_uses_run(const tidei_uses *u, tidei_runtime *rt, const tidei_own_kernel *k,
                           int64_t items, const char *op) {
    char params[TIDEI_USES_PARAMS]; /* addresses are written into them */
    tidei_check(u->bytes <= sizeof params);
    memcpy(params, u->params, u->bytes);
    return tidei_run_own(rt, k, u->uses, u->n, params, u->bytes, u->at, (uint64_t)items, op);
}

tide_status tidei_uses_run_blocks(const tidei_uses *u, tidei_runtime *rt, const tidei_own_kernel *k,
                                  unsigned threads, unsigned blocks, const char *op) {
    char params[TIDEI_USES_PARAMS];
    tidei_check(u->bytes <= sizeof params);
    memcpy(params, u->params, u->bytes);
    return tidei_run_own_blocks(rt, k, u->uses, u->n, params, u->bytes, u->at, threads, blocks, op);
}

typedef struct job {
    const tidei_plan *p;
    pl_call call;
    tidei_uses uses;
    int64_t offsets; /* of both sides' first elements: the bits of both */
} job;

static void make_job(const tidei_plan *p, const tidei_operand *near, const int64_t *near_strides,
                     bool put, job *j) {
    j->p = p;
    j->offsets = p->far->lay.offset | near->lay.offset;
    j->uses = (tidei_uses){.params = &j->call, .bytes = sizeof j->call};
    make_call(p, near_strides, &j->call);
    tidei_uses_add(&j->uses, p->far, p->far->lay.offset,
                   put ? TIDEI_READ | TIDEI_WRITE : TIDEI_READ, offsetof(pl_call, far));
    tidei_uses_add(&j->uses, near, near->lay.offset, put ? TIDEI_READ : TIDEI_WRITE,
                   offsetof(pl_call, near));
    for (int l = 0; l < p->nlists; l++)
        tidei_uses_add(&j->uses, p->lists[l].indices, p->lists[l].indices->lay.offset, TIDEI_READ,
                       offsetof(pl_call, lists) + (size_t)l * sizeof(pl_list) +
                           offsetof(pl_list, at));
    j->call.report =
        tidei_fault_report(put ? TIDEI_FAULT_SKIPPED : TIDEI_FAULT_INDEX, false, p->by);
    j->call.fault = tidei_stream_here(p->far->rt)->dev->d->fault_addr; /* where the kernel runs */
}

/* The call as kernels get it. */
static pl_call ready(const pl_call *call) {
    pl_call c = *call;
    c.small = c.n <= INT32_MAX;
    for (int d = 0; d < c.ndim && c.small; d++) c.by[d] = kt_div_by((unsigned)c.shape[d]);
    return c;
}

static tide_status run_items(const job *j, const pl_call *call, const tidei_own_kernel *k,
                             int64_t items) {
    const pl_call c = ready(call);
    tidei_uses u = j->uses;
    u.params = (void *)&c;
    return tidei_uses_run(&u, j->p->far->rt, k, items, j->p->op);
}

static tide_status run(const job *j, const pl_call *call, const tidei_own_kernel *k) {
    return run_items(j, call, k, call->n);
}

static tide_status run_blocks(const job *j, const pl_call *call, const tidei_own_kernel *k,
                              unsigned threads, int64_t blocks) {
    const pl_call c = ready(call);
    tidei_uses u = j->uses;
    u.params = (void *)&c;
    return tidei_uses_run_blocks(&u, j->p->far->rt, k, threads, (unsigned)blocks, j->p->op);
}

/* The collapsed call in the largest units; their size's logarithm, by which kernels stand. */
static int use_units(job *j) {
    const int64_t size = (int64_t)tide_dtype_size(j->p->far->lay.dtype),
                  w = elements_of_unit(&j->call, size, j->offsets);
    widen(&j->call, w);
    return __builtin_ctzll((unsigned long long)(w * size));
}

static tide_status run_units(job *j, const tidei_own_kernel *kernels) {
    const int unit = use_units(j);
    return run(j, &j->call, &kernels[unit]);
}

static tide_status take_by_one(const tidei_plan *p, const tidei_operand *out) {
    pl_list list;
    tidei_taking t = {
        .out = out, .source = p->far, .indices = p->lists[0].indices, .op = p->op, .by = p->by};
    make_list(&p->lists[0], p, &list);
    t.length = list.length;
    t.step = list.step;
    for (int d = 0; d < p->ndim; d++)
        tidei_taking_add(&t, p->shape[d], p->far_strides[d], list.strides[d]);
    return tidei_taking_run(&t);
}

tide_status tidei_plan_take_into(const tidei_plan *p, const tidei_operand *out) {
    job j;
    if (plan_size(p) == 0) return TIDE_OK;
    if (p->nlists == 1 && tidei_layout_contiguous(&out->lay)) return take_by_one(p, out);
    make_job(p, out, out->lay.strides, false, &j);
    collapse(&j.call);
    return run_units(&j, take_kernels);
}

tide_array *tidei_plan_take(const tidei_plan *p) {
    tidei_operand out;
    tide_array *a = tidei_array_make(p->far->rt, p->far->lay.dtype, p->ndim, p->shape, p->op, &out);
    return a ? tidei_array_done(a, &out, tidei_plan_take_into(p, &out)) : NULL;
}

/* ---- putting ---- */

tide_status tidei_updated_get(tide_array *a, tide_array *indices, tide_array *values,
                              const char *op, tidei_updated *u) {
    tide_status s = tidei_no_nulls(op, (tide_array *const[]){a, indices}, 2);
    if (s == TIDE_OK && !values) s = tidei_null_array(op, 4);
    if (s == TIDE_OK) s = tidei_operand_get(a, op, 1, &u->a);
    if (s != TIDE_OK) return s;
    s = tidei_operand_get_of(u->a.rt, indices, op, 2, &u->indices);
    if (s == TIDE_OK) {
        s = tidei_operand_get_of(u->a.rt, values, op, 4, &u->values);
        if (s == TIDE_OK) return s;
        tidei_operand_put(&u->indices);
    }
    tidei_operand_put(&u->a);
    return s;
}

void tidei_updated_put(tidei_updated *u) {
    tidei_operand_put(&u->values);
    tidei_operand_put(&u->indices);
    tidei_operand_put(&u->a);
}

tide_status tidei_apart(const tidei_operand *dst, const tidei_operand *src, tide_dtype t,
                        const char *op, tidei_operand *out, bool *made) {
    *made = src->lay.dtype != t || tidei_operands_overlap(dst, src);
    *out = *src;
    if (!*made) return TIDE_OK;
    const char *lost = tidei_cast_lost(src->lay.dtype, t);
    tide_status s = lost ? tidei_fail(TIDE_E_DTYPE, op, "%s into %s: %s; tide_cast first",
                                      tide_dtype_name(src->lay.dtype), tide_dtype_name(t), lost)
                         : tidei_operand_make(src->rt, t, src->lay.ndim, src->lay.shape, op, out);
    if (s != TIDE_OK) return *made = false, s;
    s = tidei_store_elements(src->rt, out, src, op);
    if (s != TIDE_OK) tidei_operand_put(out), *made = false;
    return s;
}

#define ROW_LEAST 8    /* elements of a row that a warp goes through */
#define WARPS     8192 /* that keep a device busy */
/* Units of a warp: a few steps, which the search for its rows is little beside; and no more than
** end soon. */
#define STRETCH_LEAST 128
#define STRETCH_MOST  1024

/* Shares rows of so many units out to warps, and returns how many of these there are. */
static int64_t share_rows(pl_call *c, int64_t units) {
    const int64_t rows = c->n / c->shape[c->ndim - 1];
    int64_t most = rows * units / WARPS;
    most = most < STRETCH_LEAST ? STRETCH_LEAST : most < STRETCH_MOST ? most : STRETCH_MOST;
    c->units = units;
    c->by_rows = 32;
    while (c->by_rows > 1 && c->by_rows * units > most) c->by_rows /= 2;
    const int64_t all = c->by_rows * units, parts = (all + most - 1) / most;
    c->stretch = ((all + parts - 1) / parts + 31) / 32 * 32;
    if (c->by_rows > 1) c->by_units = kt_div_by((unsigned)units);
    return (rows + c->by_rows - 1) / c->by_rows * ((all + c->stretch - 1) / c->stretch);
}

#define KEYS_A_CLAIM 8 /* above it a table of all keys would be larger than a hash table */
/* Of claims and of keys, that words of 32 bits have numbers for. */
#ifndef TIDEI_STRESS
#define NARROW_MOST ((int64_t)UINT32_MAX - 1)
#else
#define NARROW_MOST ((int64_t)3000) /* so that wide words are tried, too */
#endif

static int64_t multiprocessors(const job *j) {
    const int n = tidei_stream_here(j->p->far->rt)->dev->d->info.sm_count;
    return n > 0 ? n : 1;
}

/* Chooses the table's words and slots; of a hash table at most half of these are used. */
static void choose_table(pl_call *c) {
    const int64_t keys = c->slots;
    c->hashed = keys / KEYS_A_CLAIM > c->claims;
    c->wide = c->claims > NARROW_MOST || (c->hashed && keys > NARROW_MOST);
    if (c->hashed) {
        c->slots = 2;
        while (c->slots / 2 < c->claims) c->slots *= 2;
    }
}

/* Makes the table of winners. */
static tide_status make_table(job *j, tidei_operand *table) {
    const pl_call *c = &j->call;
    const int64_t words = c->slots * (c->hashed && c->wide ? 2 : 1);
    tide_status s = tidei_operand_make(j->p->far->rt, c->hashed || c->wide ? TIDE_U64 : TIDE_U32, 1,
                                       &words, j->p->op, table);
    if (s == TIDE_OK)
        tidei_uses_add(&j->uses, table, 0, TIDEI_READ | TIDEI_WRITE, offsetof(pl_call, winners));
    return s;
}

/* Clears the table and notes a call's claims in it. */
static tide_status note(const job *j, const tidei_operand *table, const pl_call *c,
                        const tidei_own_kernel *k) {
    const uint64_t zero = 0;
    tide_status s = tidei_fill_elements(table, &zero, j->p->op);
    return s == TIDE_OK ? run(j, c, k) : s;
}

/* Whether rows are put that lie together on both sides. */
static bool are_whole(const pl_call *c) {
    const int last = c->ndim - 1;
    return c->shape[last] >= ROW_LEAST && c->order_strides[last] == 0 &&
           c->far_strides[last] == 1 && c->near_strides[last] == 1;
}

/* ---- putting: slices ----
**
** What is claimed at random takes four times as long where the table is larger than the caches of a
** device: of small elements it has as many slots as those hold, for a slice of a dimension along
** which places differ at a time, and a word has the value as well. Measured on an H200, us: 381300
** x 88 u8 along axis 0 1980 -> 884, 15335 x 1094 f16 772 -> 402; but 1198372 x 14 i16, in slices of
** four, 786 -> 1112, 2796202 x 3 i32 230 -> 341, and a slice of all keys at a time, for which all
** claims are gone through, 1058 -> 2630. */
#define CACHED_AN_SM ((int64_t)192 << 10) /* bytes of a table: half of what an H200's caches hold */
#define CLAIMS_AN_SM 2048                 /* for each slice, at least: its launches take a while */

typedef struct slices {
    int d;        /* dimension */
    int64_t each; /* of that: elements */
} slices;

/* Numbers claims for a table whose words have values, too: numbers need not differ along dimensions
** that keys differ along. Returns how many there are. */
static int64_t number_claims(pl_call *c) {
    int64_t order = 1;
    for (int d = c->ndim - 1; d >= 0; d--) {
        c->order_strides[d] = c->key_strides[d] ? 0 : order;
        if (!c->key_strides[d]) order *= c->shape[d];
    }
    return order;
}

/* Whether the call is worth slices, and then which: of four bytes at least, or of sixteen elements
** of two bytes, as those side by side share sectors of memory. */
static bool choose_slices(const job *j, int unit, slices *out) {
    pl_call c = j->call;
    if (c.hashed || c.n != c.claims || unit >= (int)TIDEI_COUNT(note_kernels)) return false;
    const int64_t least = unit == 0 ? 4 : 16,
                  bytes = number_claims(&c) > NARROW_MOST >> (8 << unit) ? 8 : 4,
                  wanted = (c.slots * bytes - 1) / (multiprocessors(j) * CACHED_AN_SM) + 1;
    if (wanted == 1 || c.claims / wanted < multiprocessors(j) * CLAIMS_AN_SM) return false;
    for (int d = 0; d < c.ndim; d++)
        if (c.key_strides[d] && c.shape[d] / wanted >= least) {
            *out = (slices){d, c.shape[d] / wanted};
            return true;
        }
    return false;
}

/* The call for elements [first, first + n) of a dimension along which places differ. */
static void cut(pl_call *c, int d, int64_t first, int64_t n, int64_t size) {
    c->far += (uint64_t)(first * c->far_strides[d] * size);
    c->near += (uint64_t)(first * c->near_strides[d] * size);
    for (int l = 0; l < c->nlists; l++)
        c->lists[l].at += (uint64_t)(first * c->lists[l].strides[d] * c->lists[l].size);
    c->n = c->n / c->shape[d] * n;
    c->shape[d] = n;
    make_keys(c);
}

static tide_status put_by_slices(job *j, const slices *by, int unit) {
    pl_call *c = &j->call;
    const int64_t all = c->shape[by->d];
    tidei_operand table;
    c->wide = number_claims(c) > NARROW_MOST >> (8 << unit);
    c->slots = c->slots / all * by->each;
    tide_status s = make_table(j, &table);
    if (s != TIDE_OK) return s;
    for (int64_t first = 0; s == TIDE_OK && first < all; first += by->each) {
        pl_call part = *c;
        cut(&part, by->d, first, all - first < by->each ? all - first : by->each,
            (int64_t)1 << unit);
        s = note(j, &table, &part, &note_kernels[unit]);
        if (s == TIDE_OK) s = run_items(j, &part, &noted_kernels[unit], part.slots);
    }
    tidei_operand_put(&table);
    return s;
}

/* The call is not collapsed yet. */
static tide_status put_by_table(job *j) {
    slices by;
    tidei_operand table;
    choose_table(&j->call);
    pl_call claims = j->call;
    keep_claims(&claims);
    collapse(&claims);
    collapse(&j->call);
    const int unit = use_units(j);
    collapse(&j->call); /* a unit may be a row */
    if (choose_slices(j, unit, &by)) return put_by_slices(j, &by, unit);
    tide_status s = make_table(j, &table);
    if (s != TIDE_OK) return s;
    claims.winners = j->call.winners;
    s = note(j, &table, &claims, &claim_kernel);
    if (s == TIDE_OK && j->call.n == j->call.claims)
        s = run_items(j, &j->call, &slots_kernels[unit], j->call.slots);
    else if (s == TIDE_OK && are_whole(&j->call))
        s = run_items(j, &j->call, &put_kernels[unit],
                      share_rows(&j->call, j->call.shape[j->call.ndim - 1]) * 32);
    else if (s == TIDE_OK)
        s = run(j, &j->call, &put_kernels[unit]);
    tidei_operand_put(&table);
    return s;
}

#define BLOCKS_AN_SM 4 /* of kernels whose blocks have room for claims: their bounds say so */

/* Blocks of as many threads as have few claims each, and so many of them as run at once. */
static tide_status put_few(job *j) {
    pl_call *c = &j->call;
    const bool large = c->claims > (int64_t)TIDEI_OWN_BLOCK * 4;
    const unsigned threads = large ? PL_FEW_THREADS : TIDEI_OWN_BLOCK;
    c->slots = large ? PL_FEW_SLOTS : TIDEI_OWN_BLOCK * 8;
    tidei_check(c->claims <= c->slots / 2);
    collapse(c);
    const int unit = use_units(j);
    const int64_t blocks = (c->n + threads - 1) / threads,
                  most = multiprocessors(j) * (large ? 1 : BLOCKS_AN_SM);
    return run_blocks(j, c, &few_kernels[unit], threads, blocks < most ? blocks : most);
}

#define ROOM_A_CLAIM 16    /* places of a line, at most: a block looks at each */
#define LINE_MOST    65536 /* claims: those of a block's lines have numbers of 31 bits */
_Static_assert((int64_t)LINE_MOST *PL_LINES <= INT32_MAX, "claims of a block's lines");

/* Makes the dimension that the index array alone says of the innermost one, where the call has one
** such and no rows: lines. */
static bool make_lines(pl_call *c) {
    const int last = c->ndim - 1;
    int d = last;
    if (c->nlists != 1 || c->n != c->claims) return false;
    while (d > 0 && c->key_strides[d]) d--;
    for (int e = 0; e < d; e++)
        if (!c->key_strides[e]) return false;
    if (c->key_strides[d]) return false;
    c->by_columns = d < last;
    const ga_i64 shape = c->shape[d];
    const pl_call from = *c;
    for (int e = d; e < last; e++) {
        c->shape[e] = c->shape[e + 1];
        move_dimension(c, e, e + 1);
    }
    c->shape[last] = shape;
    copy_dimension(c, last, &from, d);
    return true;
}

/* Lines side by side that fill a sector of 32 bytes with elements, and one with indices. */
static int64_t lines_least(const pl_call *c, int64_t size) {
    return !c->by_columns ? 1 : size < 4 ? 32 / size : 8;
}

/* Whether blocks have room for the places of lines, and there are lines for them all. */
static bool lines_have_room(const job *j, const pl_call *c, int64_t least) {
    const int64_t claims = c->shape[c->ndim - 1], places = c->lists[0].length;
    return places <= PL_ROOM / least && claims <= LINE_MOST && places / ROOM_A_CLAIM <= claims &&
           c->n / claims / least >= multiprocessors(j) / 2;
}

static tide_status put_lines(const job *j, pl_call *c, int64_t least) {
    const int64_t claims = c->shape[c->ndim - 1], lines = c->n / claims,
                  places = c->lists[0].length, most = 2 * multiprocessors(j) * BLOCKS_AN_SM;
    c->tile = PL_ROOM / places < PL_LINES ? PL_ROOM / places : PL_LINES;
    if (c->tile > (lines + most - 1) / most) c->tile = (lines + most - 1) / most;
    c->tile = c->tile < least ? least : c->tile / least * least;
    c->by_room = kt_div_by((unsigned)(c->by_columns ? c->tile : places));
    c->by_claims = kt_div_by((unsigned)(c->by_columns ? c->tile : claims));
    c->lists[0].key_step = 1;
    const int64_t tiles = (lines + c->tile - 1) / c->tile;
    const int size = __builtin_ctzll(tide_dtype_size(j->p->far->lay.dtype));
    return run_blocks(j, c, &lines_kernels[size], TIDEI_OWN_BLOCK, tiles < most ? tiles : most);
}

/* What each block learns of all claims takes a while: of 1410 rows of 5948 i32 on an H200 77 us, by
** a table 39. */
#define FEW_BYTES ((int64_t)1 << 20)

static bool are_few(const job *j) {
    const int64_t size = (int64_t)tide_dtype_size(j->p->far->lay.dtype);
    return j->call.claims <= PL_FEW && j->call.slots < UINT32_MAX && j->call.n <= FEW_BYTES / size;
}

static tide_status put_winners(job *j) {
    if (are_few(j)) return put_few(j);
    pl_call c = j->call;
    collapse(&c);
    if (make_lines(&c)) {
        const int64_t least = lines_least(&c, (int64_t)tide_dtype_size(j->p->far->lay.dtype));
        if (lines_have_room(j, &c, least)) return put_lines(j, &c, least);
    }
    return put_by_table(j);
}

static tide_status put_from(const tidei_plan *p, const tidei_operand *near, void *none) {
    int64_t strides[TIDE_MAX_RANK];
    unsigned flags = tidei_stream_here(p->far->rt)->dev->d->info.flags;
    job j;
    (void)none;
    tidei_broadcast_strides(&near->lay, p->ndim, p->shape, strides);
    make_job(p, near, strides, true, &j);
    if (flags & TIDEI_DEV_RUNS_TEXT && j.call.claims > 1) return put_winners(&j);
    collapse(&j.call);
    return run_units(&j, put_kernels);
}

/* The index arrays as they can be read while `far` is written, in `lists`, and the plan with these;
** *made has a bit for each that is a copy. */
static tide_status lists_apart(tidei_plan *p, tidei_operand *lists, unsigned *made) {
    tide_status s = TIDE_OK;
    for (int l = 0; l < p->nlists && s == TIDE_OK; l++) {
        const tidei_operand *from = p->lists[l].indices;
        bool copied;
        s = tidei_apart(p->far, from, from->lay.dtype, p->op, &lists[l], &copied);
        *made |= (unsigned)copied << l;
        p->lists[l].indices = &lists[l];
    }
    return s;
}

tide_status tidei_plan_check_values(const tidei_plan *p, const tidei_operand *values) {
    int64_t shape[TIDE_MAX_RANK];
    char from[192], to[192];
    int ndim = p->ndim;
    memcpy(shape, p->shape, sizeof shape);
    tide_status s = tidei_broadcast(&ndim, shape, &values->lay, p->op);
    if (s == TIDE_OK && (ndim != p->ndim || !tidei_same_dims(ndim, shape, p->shape)))
        s = tidei_fail(TIDE_E_SHAPE, p->op, "values of shape %s do not stretch to the places' %s",
                       tidei_shape_text(from, sizeof from, values->lay.ndim, values->lay.shape),
                       tidei_shape_text(to, sizeof to, p->ndim, p->shape));
    return s == TIDE_OK ? tidei_writable(&p->far->lay, "the destination", p->op) : s;
}

tide_status tidei_plan_update(const tidei_plan *given, const tidei_operand *values,
                              tide_status (*update)(const tidei_plan *p, const tidei_operand *near,
                                                    void *user),
                              void *user) {
    tidei_plan p = *given;
    tidei_operand near, lists[TIDE_MAX_RANK];
    unsigned copies = 0;
    bool copied = false;
    tide_status s = tidei_plan_check_values(&p, values);
    const tide_dtype t = p.as_given ? values->lay.dtype : p.far->lay.dtype;
    if (s == TIDE_OK) s = tidei_apart(p.far, values, t, p.op, &near, &copied);
    if (s == TIDE_OK && plan_size(&p) > 0) {
        s = lists_apart(&p, lists, &copies);
        if (s == TIDE_OK) s = update(&p, &near, user);
    }
    for (int l = 0; l < p.nlists; l++)
        if (copies >> l & 1) tidei_operand_put(&lists[l]);
    if (copied) tidei_operand_put(&near);
    return s;
}

tide_status tidei_plan_put(const tidei_plan *p, const tidei_operand *values) {
    return tidei_plan_update(p, values, put_from, NULL);
}

/* Whether rows lie together on both sides, each with one index. */
static bool by_rows(const pl_call *c) {
    int last = c->ndim - 1;
    return c->nlists == 1 && c->shape[last] >= ROW_LEAST && c->lists[0].strides[last] == 0 &&
           c->far_strides[last] == 1 && c->near_strides[last] == 1;
}

tide_status tidei_plan_combine(const tidei_plan *p, const tidei_operand *near,
                               const tidei_own_kernel *k, int op, int type, int parts) {
    int64_t strides[TIDE_MAX_RANK];
    job j;
    tidei_broadcast_strides(&near->lay, p->ndim, p->shape, strides);
    make_job(p, near, strides, true, &j);
    j.call.op = op;
    j.call.type = type;
    j.call.parts = parts;
    collapse(&j.call);
    if (!by_rows(&j.call)) return run(&j, &j.call, k);
    const int64_t across = j.call.shape[j.call.ndim - 1] * parts,
                  size = (int64_t)tide_dtype_size(p->far->lay.dtype) / parts,
                  share = size < 4 ? 4 / size : 1, /* the first and the last word may be cut */
        warps = share_rows(&j.call, (across + 2 * (share - 1)) / share);
    return run_items(&j, &j.call, k, warps * 32);
}
