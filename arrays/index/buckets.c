/* buckets.c: the launches of buckets.h, and the room that they share.
**
** Of one bucket two: pieces are added up, and their sums. Of several ones four before them: entries
** are counted, stretch by stretch; what stretches and buckets before have; entries go to their
** buckets. */
#include "arrays/arrays.h"
#include "arrays/index/buckets.h"
#include "arrays/kernels/launch.h"

extern const char tidei_buckets_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_buckets_text, NULL, false }
#define TELLS(name)                                                                                \
    { #name, tidei_buckets_text, NULL, .tells = true }
#define TWO(KIND, name)                                                                            \
    { KIND(name##_1), KIND(name##_2) }
#define FOUR(KIND, name)                                                                           \
    { KIND(name##_1), KIND(name##_2), KIND(name##_3), KIND(name##_4) }
static const tidei_own_kernel count_kernel = TELLS(buckets_count), sum_kernel = KERNEL(buckets_sum),
                              bounds_kernel = KERNEL(buckets_bounds);
/* By the logarithm of a component's size, less 1, and the number of components, less 1. */
static const tidei_own_kernel part_kernels[][BU_PARTS] = {
    FOUR(KERNEL, buckets_part_2), FOUR(KERNEL, buckets_part_4), TWO(KERNEL, buckets_part_8)};
/* By a component's type, and the same number. */
static const tidei_own_kernel fold_kernels[TIDE_DTYPE_COUNT][BU_PARTS] = {
    [TIDE_F16] = FOUR(TELLS, buckets_fold_f16),
    [TIDE_BF16] = FOUR(TELLS, buckets_fold_bf16),
    [TIDE_F32] = FOUR(TELLS, buckets_fold_f32),
    [TIDE_F64] = TWO(TELLS, buckets_fold_f64)};
static const tidei_own_kernel put_kernels[TIDE_DTYPE_COUNT] = {
    [TIDE_F16] = KERNEL(buckets_put_f16),
    [TIDE_BF16] = KERNEL(buckets_put_bf16),
    [TIDE_F32] = KERNEL(buckets_put_f32),
    [TIDE_F64] = KERNEL(buckets_put_f64)};

/* Fewer entries are sorted as soon. */
#define LEAST ((int64_t)1 << 15)
/* Entries of a bucket in the mean, at least: a tile is gone over as a whole, however few it has. */
#define FULL (BU_TILE / 2)
/* Blocks that a multiprocessor has at once of those that part entries: each has one stretch. */
#define STRETCHES_AN_SM 4

/* Bits of a place in its bucket: few make many buckets, to which entries go by ones and twos; many
** make tables that a tile fills sparsely. */
enum { LOW = 9, LOW_MOST = 10 };
#define BUCKETS_MANY 512
/* Sums of more places are made by a sort: of 10^7 f64 for 10^6 places 546 us on an H200, by buckets
** 694; for 262144 places 462 and 316. */
#define PLACES_MOST ((int64_t)1 << 19)

/* A bad index is a place behind the last one, which belongs to a bucket, too. */
static int64_t count_buckets(int64_t length, int low) { return (length >> low) + 1; }
static int choose_low(int64_t length, int64_t entry) {
    const bool many = count_buckets(length, LOW) > BUCKETS_MANY;
    return many && BU_PLACES(entry) == 1 << LOW_MOST ? LOW_MOST : LOW;
}
_Static_assert(PLACES_MOST >> LOW <= BU_DIGITS, "counts of a block");
static int64_t entry_bytes(const tidei_plan *p, int64_t parts) {
    return parts * (int64_t)tide_dtype_size(tidei_real_of(p->far->lay.dtype));
}

bool tidei_buckets_suit(const tidei_plan *p, int64_t n, int64_t parts) {
    const tidei_operand *far = p->far;
    const int64_t length = far->lay.shape[p->lists[0].axis], entry = entry_bytes(p, parts),
                  buckets = count_buckets(length, choose_low(length, entry));
    return far->st->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT &&
           put_kernels[tidei_real_of(far->lay.dtype)].name && parts <= BU_PARTS &&
           entry <= BU_ENTRY && n >= LEAST && n < INT32_MAX && length < PLACES_MOST &&
           n / FULL >= buckets;
}

/* An operand that kernels tell each other something in, and where the call has its address. */
enum { COUNTS, BOUNDS, KEYS, ROWS, SUMS, ROOMS };
typedef struct room {
    tidei_operand o;
    size_t at;
    bool made;
} room;

static tide_status make_room(const tidei_plan *p, room *r, tide_dtype t, int64_t n, size_t at) {
    r->at = at;
    tide_status s = tidei_operand_make(p->far->rt, t, 1, &n, p->op, &r->o);
    r->made = s == TIDE_OK;
    return s;
}

static tide_status make_rooms(const tidei_plan *p, const bu_call *c, room *r) {
    const tide_dtype part = tidei_real_of(p->far->lay.dtype),
                     acc = part == TIDE_F64 ? TIDE_F64 : TIDE_F32;
    tide_status s = TIDE_OK;
    if (c->buckets > 1) {
        s = make_room(p, &r[COUNTS], TIDE_U32, (int64_t)c->buckets * c->stretches,
                      offsetof(bu_call, counts));
        if (s == TIDE_OK)
            s = make_room(p, &r[BOUNDS], TIDE_U32, 3 * BU_DIGITS + 2, offsetof(bu_call, bounds));
        if (s == TIDE_OK) s = make_room(p, &r[KEYS], TIDE_U16, c->n, offsetof(bu_call, keys));
        if (s == TIDE_OK)
            s = make_room(p, &r[ROWS], part, c->n * c->parts, offsetof(bu_call, rows));
    }
    if (s == TIDE_OK)
        s = make_room(p, &r[SUMS], acc, ((int64_t)c->pieces * c->parts) << c->low,
                      offsetof(bu_call, sums));
    return s;
}

/* All launches use the same: those that need not, wait for each other anyway. */
typedef struct job {
    const tidei_plan *p;
    bu_call *c;
    tidei_uses uses;
} job;

static tide_status launch(const job *j, const tidei_own_kernel *k, int64_t blocks) {
    return tidei_uses_run_blocks(&j->uses, j->p->far->rt, k, BU_THREADS, (unsigned)blocks,
                                 j->p->op);
}

static tide_status part(const job *j) {
    const bu_call *c = j->c;
    const size_t size = tide_dtype_size(tidei_real_of(j->p->far->lay.dtype));
    const tidei_own_kernel *k = &part_kernels[__builtin_ctzll(size) - 1][c->parts - 1];
    tidei_own_ahead(j->p->far->rt, k);
    tide_status s = launch(j, &count_kernel, c->stretches);
    if (s == TIDE_OK) s = launch(j, &sum_kernel, c->buckets);
    if (s == TIDE_OK) s = launch(j, &bounds_kernel, 1);
    if (s == TIDE_OK) s = launch(j, k, c->stretches);
    return s;
}

static tide_status run(const job *j) {
    const bu_call *c = j->c;
    const tide_dtype t = tidei_real_of(j->p->far->lay.dtype);
    tide_status s = c->buckets > 1 ? part(j) : TIDE_OK;
    if (s == TIDE_OK) s = launch(j, &fold_kernels[t][c->parts - 1], c->pieces);
    if (s == TIDE_OK) s = launch(j, &put_kernels[t], (c->length + c->put - 1) / c->put * c->parts);
    return s;
}

tide_status tidei_buckets_add(const tidei_plan *p, const tidei_operand *near, bu_call *c) {
    const tidei_operand *indices = p->lists[0].indices;
    const int64_t tiles = (c->n + BU_TILE - 1) / BU_TILE,
                  most = STRETCHES_AN_SM * (int64_t)p->far->st->dev->d->info.sm_count;
    room rooms[ROOMS] = {{.made = false}};
    job j = {.p = p, .c = c, .uses = {.params = c, .bytes = sizeof *c}};
    c->low = choose_low(c->length, entry_bytes(p, c->parts));
    c->buckets = (int)count_buckets(c->length, c->low);
    c->bits = 32 - __builtin_clz((unsigned)(c->buckets - 1) | 1);
    c->tiles = (int)((tiles + most - 1) / most);
    c->stretches = (int)((tiles + c->tiles - 1) / c->tiles);
    /* Each bucket may have one piece that is not full. */
    c->pieces = c->buckets > 1 ? (int)(c->n / BU_PIECE) + c->buckets
                               : (int)((c->n + BU_PIECE - 1) / BU_PIECE);
    /* one bucket has few places, and pieces enough for all warps */
    c->put = c->buckets > 1 ? BU_THREADS : 32;
    tide_status s = make_rooms(p, c, rooms);
    if (s == TIDE_OK) {
        tidei_uses_add(&j.uses, p->far, p->far->lay.offset, TIDEI_READ | TIDEI_WRITE,
                       offsetof(bu_call, far));
        tidei_uses_add(&j.uses, near, near->lay.offset, TIDEI_READ, offsetof(bu_call, near));
        tidei_uses_add(&j.uses, indices, indices->lay.offset, TIDEI_READ,
                       offsetof(bu_call, indices));
        for (int i = 0; i < ROOMS; i++)
            if (rooms[i].made)
                tidei_uses_add(&j.uses, &rooms[i].o, 0, TIDEI_READ | TIDEI_WRITE, rooms[i].at);
        s = run(&j);
    }
    for (int i = 0; i < ROOMS; i++)
        if (rooms[i].made) tidei_operand_put(&rooms[i].o);
    return s;
}
