/* select_host.c: the host's kernels that pick elements of rows without sorting these: the first k
** (tide_topk), and those at some ranks (quantiles).
**
** The first k. A heap has the k least keys so far, the greatest on top; most elements are not less
** than that, and take one comparison. Of equals the first come, as a stable sort has it.
** Ranks. The keys of a long row are counted by their first bits; a rank's bucket tells which keys
** can be at it, and these alone are collected, all ranks' at once. Of them, and of short rows, one
** rank after the other is found by its digits, each of which leaves a part of the keys.
** What must stay true: what is found depends on the elements alone; nothing here fails. */
#include "arrays/order/select_host.h"
#include "runtime/device/share.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Calls FN(type, ...) with the type as a constant but for its order, so that loops over elements
** are compiled for each. */
#define CONSTANT(kind, size, inf) ((od_type){kind, size, 1, descending, inf})
#define WITH_TYPE(t, FN, ...)                                                                      \
    do {                                                                                           \
        const int descending = (t).descending;                                                     \
        switch ((t).kind * 16 + (t).size) {                                                        \
        case OD_FLOAT * 16 + 8:                                                                    \
            FN(CONSTANT(OD_FLOAT, 8, 0x7ff0000000000000ULL), __VA_ARGS__);                         \
            break;                                                                                 \
        case OD_FLOAT * 16 + 4: FN(CONSTANT(OD_FLOAT, 4, 0x7f800000), __VA_ARGS__); break;         \
        case OD_FLOAT * 16 + 2: FN(CONSTANT(OD_FLOAT, 2, (t).inf), __VA_ARGS__); break;            \
        case OD_SIGNED * 16 + 8: FN(CONSTANT(OD_SIGNED, 8, 0), __VA_ARGS__); break;                \
        case OD_SIGNED * 16 + 4: FN(CONSTANT(OD_SIGNED, 4, 0), __VA_ARGS__); break;                \
        default: FN(t, __VA_ARGS__);                                                               \
        }                                                                                          \
    } while (0)
#define EACH_TYPE static inline __attribute__((always_inline))

EACH_TYPE od_u64 key_at(od_type t, od_u64 source, od_i64 at) {
    return od_key_of_element(t, od_load(source, at, t.size));
}

/* ---- the first k ---- */

typedef struct item {
    od_u64 key;
    od_i64 place;
} item;

static bool before(item a, item b) {
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}

/* Puts x into a heap of n from `at` down, where the heap has a gap. */
static void sift(item *heap, od_i64 n, od_i64 at, item x) {
    for (od_i64 child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(heap[child], heap[child + 1])) child++;
        if (!before(x, heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

EACH_TYPE void find_first(od_type t, const od_sort *p, od_i64 source, od_i64 k, item *heap) {
    const od_i64 step = p->space.step;
    for (od_i64 i = 0; i < k; i++) heap[i] = (item){key_at(t, p->source, source + i * step), i};
    for (od_i64 i = k / 2; i-- > 0;) sift(heap, k, i, heap[i]);
    for (od_i64 i = k; i < p->space.length; i++) {
        const od_u64 key = key_at(t, p->source, source + i * step);
        if (key < heap[0].key) sift(heap, k, 0, (item){key, i});
    }
}

static void top_rows(const void *params, size_t first, size_t end) {
    const od_top *p = params;
    const od_sort *s = &p->sort;
    item heap[OD_TOP];
    for (size_t row = first; row < end; row++) {
        od_i64 source, out;
        od_row(&s->space, (od_i64)row, &source, &out);
        WITH_TYPE(s->type, find_first, s, source, p->k, heap);
        for (od_i64 n = p->k; n-- > 0;) {
            const item last = heap[0];
            sift(heap, n, 0, heap[n]);
            od_put(s, source, last.place, out + n * s->space.out_step, last.key);
        }
    }
}

static size_t grain(od_i64 length) { return 4 * TIDEI_SHARE_GRAIN / (size_t)length + 1; }

void tidei_top_host(const void *params) {
    const od_top *p = params;
    tidei_share_items((size_t)p->sort.space.rows, grain(p->sort.space.length), top_rows, p);
}

/* ---- the key at a rank ---- */

enum { DIGIT = 8, DIGITS = 1 << DIGIT, FEW = 64 };

static void insert(od_u64 *keys, od_i64 n) {
    for (od_i64 i = 1; i < n; i++) {
        const od_u64 key = keys[i];
        od_i64 j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

/* Which of the counts the rank is in; takes those before it from the rank. */
static int bucket_of(const od_u32 *counts, od_i64 *rank) {
    int b = 0;
    for (; *rank >= (od_i64)counts[b]; b++) *rank -= counts[b];
    return b;
}

/* The key at a rank of n, whose bits from `bits` on are the same; `room`: for n more. */
static od_u64 key_of_rank(const od_u64 *keys, od_i64 n, od_i64 rank, int bits, od_u64 *room) {
    while (n > FEW && bits > 0) {
        od_u32 counts[DIGITS] = {0};
        const int shift = bits > DIGIT ? bits - DIGIT : 0;
        od_i64 kept = 0;
        for (od_i64 i = 0; i < n; i++) counts[keys[i] >> shift & (DIGITS - 1)]++;
        const od_u64 digit = (od_u64)bucket_of(counts, &rank);
        for (od_i64 i = 0; i < n; i++) { /* in place, once they are in the room */
            room[kept] = keys[i];
            kept += (keys[i] >> shift & (DIGITS - 1)) == digit;
        }
        keys = room;
        n = kept;
        bits = shift;
    }
    if (bits == 0) return keys[0];
    if (keys != room) memcpy(room, keys, (size_t)n * sizeof *room);
    insert(room, n);
    return room[rank];
}

/* ---- a row's ranks ---- */

enum {
    FIRST = 12, /* bits by which a long row is counted; the counts fit into a first-level cache */
    BUCKETS = 1 << FIRST,
    LONG = 1 << 14,
    STRETCHES = 16, /* that a long row is counted in, side by side */
    RANKS = 2 * OD_FEW_RANKS
};

typedef struct ranks {
    const od_quantiles *p;
    od_i64 source;
    int bits;                      /* of a key */
    od_u64 *keys, *other;          /* room for two times the row */
    od_u32 *counts;                /* of each stretch; then where its keys go */
    bool wanted[BUCKETS];          /* a rank is there */
    bool nan[STRETCHES];           /* there are NaN in the stretch */
    od_i64 rank[RANKS];            /* in its bucket */
    od_i64 start[RANKS], n[RANKS]; /* the keys among which each is */
    od_u64 found[RANKS];
    int nranks;
} ranks;

od_i64 tidei_quantiles_room(od_i64 length) {
    return 2 * length + (length < LONG ? 0 : STRETCHES * BUCKETS / 2);
}

static od_i64 stretch_of(const ranks *r, size_t i) {
    const od_i64 n = r->p->space.length;
    return n / STRETCHES * (od_i64)i + n % STRETCHES * (od_i64)i / STRETCHES;
}

EACH_TYPE void count_keys(od_type t, ranks *r, size_t i) {
    const od_i64 step = r->p->space.step, end = stretch_of(r, i + 1);
    const int shift = 8 * t.size - FIRST;
    const od_u64 most = OD_LIMIT(8 * t.size);
    od_u32 *counts = r->counts + i * BUCKETS;
    od_u64 nan = 0;
    memset(counts, 0, BUCKETS * sizeof *counts);
    for (od_i64 j = stretch_of(r, i); j < end; j++) {
        const od_u64 key = key_at(t, r->p->source, r->source + j * step);
        counts[key >> shift]++;
        nan |= key == most;
    }
    r->nan[i] = nan && t.kind == OD_FLOAT;
}
static void count_stretch(void *user, size_t i) {
    ranks *r = user;
    WITH_TYPE(r->p->type, count_keys, r, i);
}

EACH_TYPE void collect_keys(od_type t, ranks *r, size_t i) {
    const od_i64 step = r->p->space.step, end = stretch_of(r, i + 1);
    const int shift = 8 * t.size - FIRST;
    od_u32 *to = r->counts + i * BUCKETS;
    for (od_i64 j = stretch_of(r, i); j < end; j++) {
        const od_u64 key = key_at(t, r->p->source, r->source + j * step);
        if (r->wanted[key >> shift]) r->keys[to[key >> shift]++] = key;
    }
}
static void collect_stretch(void *user, size_t i) {
    ranks *r = user;
    WITH_TYPE(r->p->type, collect_keys, r, i);
}

/* Counts become the places where each stretch's keys of each wanted bucket go; `start` and `n` of
** the ranks, the bucket's. */
static void lay_out(ranks *r, const int *bucket) {
    od_i64 at = 0;
    for (int b = 0; b < BUCKETS; b++) {
        if (!r->wanted[b]) continue;
        const od_i64 first = at;
        for (int s = 0; s < STRETCHES; s++) {
            od_u32 *count = &r->counts[s * BUCKETS + b], n = *count;
            *count = (od_u32)at;
            at += n;
        }
        for (int k = 0; k < r->nranks; k++)
            if (bucket[k] == b) r->start[k] = first, r->n[k] = at - first;
    }
}

/* Leaves to each rank the keys of its bucket. */
static void part_long(ranks *r) {
    od_u32 all[BUCKETS] = {0};
    int bucket[RANKS];
    tidei_share(STRETCHES, count_stretch, r);
    for (int s = 0; s < STRETCHES; s++)
        for (int b = 0; b < BUCKETS; b++) all[b] += r->counts[s * BUCKETS + b];
    memset(r->wanted, 0, sizeof r->wanted);
    for (int k = 0; k < r->nranks; k++) {
        bucket[k] = bucket_of(all, &r->rank[k]);
        r->wanted[bucket[k]] = true;
    }
    lay_out(r, bucket);
    tidei_share(STRETCHES, collect_stretch, r);
    r->bits -= FIRST;
}

EACH_TYPE void all_keys(od_type t, ranks *r) {
    const od_i64 step = r->p->space.step, n = r->p->space.length;
    const od_u64 most = OD_LIMIT(8 * t.size);
    od_u64 nan = 0;
    for (od_i64 j = 0; j < n; j++) {
        r->keys[j] = key_at(t, r->p->source, r->source + j * step);
        nan |= r->keys[j] == most;
    }
    memset(r->nan, 0, sizeof r->nan);
    r->nan[0] = nan && t.kind == OD_FLOAT;
    for (int k = 0; k < r->nranks; k++) r->start[k] = 0, r->n[k] = n;
}

/* One after the other: those of one bucket have the same room. */
static void find_ranks(ranks *r) {
    for (int k = 0; k < r->nranks; k++) {
        const bool again = k && r->start[k] == r->start[k - 1] && r->rank[k] == r->rank[k - 1];
        r->found[k] = again ? r->found[k - 1]
                            : key_of_rank(r->keys + r->start[k], r->n[k], r->rank[k], r->bits,
                                          r->other + r->start[k]);
    }
}

static bool has_nan(const ranks *r) {
    bool nan = false;
    for (int s = 0; s < STRETCHES; s++) nan |= r->nan[s];
    return nan;
}

/* ---- quantiles ---- */

static bool is_valid(double q) { return q >= 0 && q <= 1; }

/* The two ranks between which each quantile lies. */
static void find_places(ranks *r) {
    const od_i64 last = r->p->space.length - 1;
    r->nranks = 0;
    for (od_i64 k = 0; k < r->p->nq; k++) {
        const double q = ((const double *)r->p->q)[k], at = is_valid(q) ? q * (double)last : 0;
        const od_i64 below = (od_i64)at < last ? (od_i64)at : last;
        r->rank[r->nranks++] = below;
        r->rank[r->nranks++] = below < last ? below + 1 : last;
    }
}

/* The element at a rank, whose key this is. Zeros of either sign have one: of these, as of all
** equals, the first come first. */
static double number_at(const ranks *r, od_i64 rank, od_u64 key) {
    const od_type t = r->p->type;
    const od_i64 step = r->p->space.step;
    od_i64 i;
    if (od_tells(t, key)) return od_number_of(t, od_bits(t, key));
    for (i = 0; i < r->p->space.length; i++)
        rank -= key_at(t, r->p->source, r->source + i * step) < key;
    for (i = 0; key_at(t, r->p->source, r->source + i * step) != key || rank-- > 0; i++) {}
    return od_number_of(t, od_load(r->p->source, r->source + i * step, t.size));
}

static double quantile(const ranks *r, od_i64 k) {
    const od_i64 last = r->p->space.length - 1;
    const double q = ((const double *)r->p->q)[k], at = q * (double)last;
    if (!is_valid(q) || has_nan(r)) return NAN;
    const od_i64 below = (od_i64)at < last ? (od_i64)at : last;
    return od_between(number_at(r, below, r->found[2 * k]),
                      number_at(r, below < last ? below + 1 : last, r->found[2 * k + 1]),
                      at - (double)below);
}

static void quantiles_of(const od_quantiles *p, od_i64 number, od_u64 *room) {
    const od_i64 n = p->space.length;
    ranks r = {.p = p, .bits = 8 * p->type.size, .keys = room, .other = room + n};
    od_i64 out;
    r.counts = (od_u32 *)(room + 2 * n);
    od_row(&p->space, number, &r.source, &out);
    find_places(&r);
    if (n >= LONG && r.bits > FIRST)
        part_long(&r);
    else
        WITH_TYPE(p->type, all_keys, &r);
    find_ranks(&r);
    for (od_i64 k = 0; k < p->nq; k++)
        ((double *)p->values)[k * p->space.rows + number] = quantile(&r, k);
}

static void run_slot(void *user, size_t slot) {
    const od_quantiles *p = user;
    od_u64 *room = (od_u64 *)p->room + (od_i64)slot * tidei_quantiles_room(p->space.length);
    for (od_i64 i = (od_i64)slot; i < p->space.rows; i += p->slots) quantiles_of(p, i, room);
}

void tidei_quantiles_host(const void *params) {
    od_quantiles p = *(const od_quantiles *)params;
    if (p.slots == 1)
        run_slot(&p, 0); /* so that a long row is shared */
    else
        tidei_share((size_t)p.slots, run_slot, &p);
}
