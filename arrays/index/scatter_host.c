/* scatter_host.c: values added or multiplied at their places on the host, in the order in which
** they stand.
**
** Model. A table has an accumulator for each column of each place, at first 0 (or 1): f64 for
** floats, so that sums of many do not lose what single ones hold. Entries are gone through in
** order; then each place combines what it has with its accumulators, and rounds once. Where there
** are many entries for each place, each stretch of entries has a table of its own, and their sums
** meet in the stretches' order. Else there is one, and where rows are wide each thread goes through
** all entries for a range of places of its own; narrow ones take no longer to add than to find.
** What must stay true: the order depends on the indices and on shapes alone, not on how many
** threads there are; a place that nothing was added to keeps its bits. */
#include <math.h>
#include "arrays/operand.h"
#include "arrays/expr/prelude.h"
#include "arrays/index/scatter_host.h"
#include "runtime/device/share.h"

/* ---- indices ---- */

/* The places of n entries from `first` on; -1 for one that is out of range, which is reported.
** Returns whether all are in range. */
static bool read_places(const sc_list *l, ga_i64 first, ga_i64 n, ga_i64 *places) {
    if (l->ndim == 1 && ga_read_block(l->indices, first * l->strides[0], l->strides[0], n, l->size,
                                      l->is_signed, l->length, places))
        return true;
    for (ga_i64 j = 0; j < n; j++) {
        const ga_i64 at = sc_offset(l->ndim, l->shape, l->strides, first + j),
                     given = ga_read(l->indices, at, l->size, l->is_signed),
                     v = ga_from_start(given, l->length, l->is_signed);
        places[j] = v < 0 || v >= l->length ? -1 : v;
        if (places[j] < 0)
            ga_report(l->fault, l->report | (l->is_signed ? 0 : GA_UNSIGNED), given, l->length);
    }
    return false;
}

/* ---- entries ---- */

static ga_i64 entry_offset(const sc_fold *f, ga_i64 e) {
    return f->long_ndim == 1 ? e * f->long_strides[0]
                             : sc_offset(f->long_ndim, f->long_shape, f->long_strides, e);
}

/* What a thread does: entries first .. end-1, of places low .. high-1. */
typedef struct part {
    const sc_sums *p;
    ga_i64 first, end, low, high, table;
} part;
typedef void part_fn(const part *x);
typedef struct sharing {
    const sc_sums *p;
    part_fn *run;
    size_t parts;
} sharing;

static void run_stretch(void *user, size_t i) {
    const sharing *s = user;
    const sc_sums *p = s->p;
    const ga_i64 first = (ga_i64)i * p->stretch, end = first + p->stretch;
    s->run(&(part){p, first, end < p->fold.n ? end : p->fold.n, 0, p->fold.length, (ga_i64)i});
}
static void run_range(void *user, size_t i) {
    const sharing *s = user;
    const sc_sums *p = s->p;
    const ga_i64 n = (ga_i64)s->parts, length = p->fold.length;
    s->run(&(part){p, 0, p->fold.n, length / n * (ga_i64)i + length % n * (ga_i64)i / n,
                   length / n * (ga_i64)(i + 1) + length % n * (ga_i64)(i + 1) / n, 0});
}

#define WIDE 8 /* elements of a row */

static void run_parts(const sc_sums *p, part_fn *run) {
    const size_t work = (size_t)(p->fold.n * p->fold.width);
    sharing s = {p, run, (size_t)p->ntables};
    if (s.parts > 1) {
        tidei_share(s.parts, run_stretch, &s);
        return;
    }
    s.parts = p->fold.width < WIDE
                  ? 1
                  : tidei_min_size(tidei_share_threads(), work / TIDEI_SHARE_GRAIN + 1);
    tidei_share(s.parts, run_range, &s);
}

/* ---- for each type ---- */

#define REAL_NONE(op)     ((op) == SC_MUL ? 1.0 : -0.0)
#define INTEGER_NONE(op)  ((op) == SC_MUL ? 1u : 0u)
#define REAL_IS(op, x)    ((op) == SC_MUL ? (x) == 1 : (x) == 0 && __builtin_signbit(x))
#define INTEGER_IS(op, x) ((x) == INTEGER_NONE(op))
static const sc_c64 complex_none = {-0.0, -0.0}; /* of products: not this way */
#define COMPLEX_NONE(op) complex_none
#define COMPLEX_IS(op, x)                                                                          \
    ((x).re == 0 && __builtin_signbit((x).re) && (x).im == 0 && __builtin_signbit((x).im))

#define LOAD_HALF(S, x)        ((double)td_load_##S(x))
#define STORE_HALF(S, x)       td_store_##S(td_odd_f64(x))
#define LOAD_f16(x)            LOAD_HALF(f16, x)
#define LOAD_bf16(x)           LOAD_HALF(bf16, x)
#define STORE_f16(x)           STORE_HALF(f16, x)
#define STORE_bf16(x)          STORE_HALF(bf16, x)
#define LOAD_f32(x)            ((double)(x))
#define STORE_f32(x)           ((float)(x))
#define LOAD_f64(x)            (x)
#define STORE_f64(x)           (x)
#define LOAD_i64(x)            (x)
#define STORE_i64(x)           (x)
#define LOAD_c64(x)            ((sc_c64){(x).re, (x).im})
#define STORE_c64(x)           ((sc_c32){(float)(x).re, (float)(x).im})
#define LOAD_c128(x)           (x)
#define STORE_c128(x)          (x)
#define REAL_JOIN(op, a, b)    ((op) == SC_MUL ? (a) * (b) : (a) + (b))
#define INTEGER_JOIN           REAL_JOIN
#define COMPLEX_JOIN(op, a, b) ((void)(op), sc_plus_sc_c64(a, b))

#define SUMS(name, elem, acc, CLASS)                                                               \
    static void add_##name(const part *x) {                                                        \
        const sc_fold *f = &x->p->fold;                                                            \
        const ga_i64 width = f->width, size = f->length * width, low = x->low, high = x->high;     \
        const ga_i64 across = f->ndim == 1 ? f->near_strides[0] : 0;                               \
        const int op = f->op;                                                                      \
        const elem *near = (const elem *)f->near;                                                  \
        acc *table = (acc *)x->p->tables + x->table * size;                                        \
        ga_i64 places[GA_BLOCK];                                                                   \
        for (ga_i64 i = low * width; i < high * width; i++) table[i] = CLASS##_NONE(op);           \
        for (ga_i64 e = x->first; e < x->end; e += GA_BLOCK) {                                     \
            const ga_i64 n = x->end - e < GA_BLOCK ? x->end - e : GA_BLOCK;                        \
            const bool all =                                                                       \
                read_places(&x->p->list, e, n, places) && low == 0 && high == f->length;           \
            if (all && width == 1 && f->long_ndim == 1) {                                          \
                const elem *from = near + e * f->long_strides[0];                                  \
                for (ga_i64 j = 0; j < n; j++, from += f->long_strides[0])                         \
                    table[places[j]] = CLASS##_JOIN(op, table[places[j]], LOAD_##name(*from));     \
                continue;                                                                          \
            }                                                                                      \
            for (ga_i64 j = 0; j < n; j++) {                                                       \
                if (places[j] < low || places[j] >= high) continue;                                \
                const elem *from = near + entry_offset(f, e + j);                                  \
                acc *to = table + places[j] * width;                                               \
                for (ga_i64 col = 0; col < width; col++) {                                         \
                    const ga_i64 at = f->ndim == 1                                                 \
                                          ? col * across                                           \
                                          : sc_offset(f->ndim, f->shape, f->near_strides, col);    \
                    to[col] = CLASS##_JOIN(op, to[col], LOAD_##name(from[at]));                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* Places first .. end-1 get what was added up for them. */                                    \
    static void store_##name(const void *params, size_t first, size_t end) {                       \
        const sc_sums *p = params;                                                                 \
        const sc_fold *f = &p->fold;                                                               \
        const ga_i64 width = f->width, size = f->length * width;                                   \
        for (ga_i64 i = (ga_i64)first * width; i < (ga_i64)end * width; i++) {                     \
            const acc *from = (const acc *)p->tables + i;                                          \
            acc sum = from[0];                                                                     \
            for (ga_i64 t = 1; t < p->ntables; t++)                                                \
                sum = CLASS##_JOIN(f->op, sum, from[t * size]);                                    \
            if (CLASS##_IS(f->op, sum)) continue;                                                  \
            const ga_i64 place = kt_quotient(i, width), col = i - place * width;                   \
            elem *to = (elem *)f->far + place * f->step +                                          \
                       sc_offset(f->ndim, f->shape, f->far_strides, col);                          \
            *to = STORE_##name(CLASS##_JOIN(f->op, LOAD_##name(*to), sum));                        \
        }                                                                                          \
    }                                                                                              \
    static void sums_##name(const void *params) {                                                  \
        const sc_sums *p = params;                                                                 \
        run_parts(p, add_##name);                                                                  \
        tidei_share_items((size_t)p->fold.length, TIDEI_SHARE_GRAIN / (size_t)p->fold.width + 1,   \
                          store_##name, p);                                                        \
    }
SUMS(f16, td_f16, double, REAL)
SUMS(bf16, td_bf16, double, REAL)
SUMS(f32, float, double, REAL)
SUMS(f64, double, double, REAL)
SUMS(i64, ga_u64, ga_u64, INTEGER)
SUMS(c64, sc_c32, sc_c64, COMPLEX)
SUMS(c128, sc_c64, sc_c64, COMPLEX)

#define KIND(name, acc)                                                                            \
    { sums_##name, sizeof(acc) }
const sc_sums_kind tidei_sums_kinds[TIDE_DTYPE_COUNT] = {
    [TIDE_F16] = KIND(f16, double), [TIDE_BF16] = KIND(bf16, double),
    [TIDE_F32] = KIND(f32, double), [TIDE_F64] = KIND(f64, double),
    [TIDE_I64] = KIND(i64, ga_u64), [TIDE_U64] = KIND(i64, ga_u64),
    [TIDE_C64] = KIND(c64, sc_c64), [TIDE_C128] = KIND(c128, sc_c64)};
