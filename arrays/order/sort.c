/* sort.c: sorting along an axis: which kernels, in which order, with how much room.
**
** Rows of one element are copied. On the host one kernel sorts row after row (sort_host.c). Where
** kernels are text, rows of up to SHORT elements are sorted in shared memory by one launch, and
** many of elements of one byte by counting (bytes.cu). Longer ones take a launch to clear the
** counts, one to count the digits of each round of keys, and one for each digit; all rows are in
** all launches. Of one row those digits are left out, on the device, that are the same in all keys.
** Keys and places go back and forth between two pieces of memory; the first pass makes them from
** the elements, the last one writes the results. Places are left out where the results are values
** that their keys tell; of floats the device finds that out as it counts. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/kernels/launch.h"
#include "arrays/order/sort.h"
#include "arrays/order/sort_host.h"
#include "arrays/order/types.h"

#define SHORT 4096 /* TILE of runs.cu: elements of a row */
/* A warp counts the bytes of a row (bytes.cu): of a row that is worth going over 256 counts, where
** there are rows enough that it does not matter that one of them takes longer. */
enum { BYTES_LEAST = 64, BYTES_ROWS = 256, BYTES_PLACES = 2048, WARPS = 8 };
enum { DIGITS = 256, TICKETS = 64, BUFFERS = 2 }; /* TICKETS: with plans */
#define PLANNED 4 /* passes from which on it is worth a launch to know which have nothing to do */

extern const char tidei_order_sort_text[], tidei_order_bytes_text[];

#define KERNEL(name)                                                                               \
    { #name, tidei_order_sort_text, NULL, false }
static const tidei_own_kernel rows_kernels[] = {KERNEL(order_rows_32), KERNEL(order_rows_64)};
static const tidei_own_kernel count_kernels[] = {KERNEL(order_count_32), KERNEL(order_count_64)};
static const tidei_own_kernel plan_kernel = KERNEL(order_plan);
static const tidei_own_kernel sweep_kernels[] = {KERNEL(order_sweep_32), KERNEL(order_sweep_64),
                                                 KERNEL(order_sweep_32_far),
                                                 KERNEL(order_sweep_64_far)};
static const tidei_own_kernel bytes_kernel = {"order_bytes", tidei_order_bytes_text, NULL, false};
static const tidei_own_kernel host_kernel = {"order_sort", NULL, tidei_sort_host, false};

/* A sort under way: its operands, in the order of the kernels' addresses; room that it took. */
typedef struct job {
    const tidei_sorting *s;
    const char *op;
    od_sort p;
    tidei_use uses[9];
    size_t at[9];
    unsigned n;
    tidei_operand room[5];
    unsigned nroom;
} job;

static void add_operand(job *j, const tidei_operand *o, unsigned mode, size_t at) {
    if (!o) return;
    j->uses[j->n] = tidei_operand_use(o, mode);
    *(od_u64 *)((char *)&j->p + at) = tidei_order_first(o, &j->uses[j->n]);
    j->at[j->n++] = at;
}

/* Room of n elements of a type, for the address at `at` of the parameters. */
static tide_status add_room(job *j, tide_dtype t, int64_t n, size_t at) {
    tidei_operand *o = &j->room[j->nroom];
    tide_status s = tidei_operand_make(j->s->source->rt, t, 1, &n, j->op, o);
    if (s != TIDE_OK) return s;
    j->nroom++;
    add_operand(j, o, TIDEI_READ | TIDEI_WRITE, at);
    return TIDE_OK;
}

static tide_status launch(job *j, const tidei_own_kernel *k, int64_t blocks) {
    od_sort p = j->p; /* the addresses of this launch are added */
    return tidei_run_own(j->s->source->rt, k, j->uses, j->n, &p, sizeof p, j->at,
                         (uint64_t)blocks * TIDEI_OWN_BLOCK, j->op);
}

static tide_status on_host(job *j) {
    int64_t n = j->p.space.length;
    for (unsigned i = 0; i < BUFFERS; i++) {
        tide_status s = add_room(j, TIDE_U64, n, offsetof(od_sort, keys) + i * sizeof(od_u64));
        if (s == TIDE_OK)
            s = add_room(j, TIDE_I64, n, offsetof(od_sort, order) + i * sizeof(od_u64));
        if (s != TIDE_OK) return s;
    }
    return launch(j, &host_kernel, 1);
}

static bool are_counted(const od_rows *r, size_t element) {
    return element == 1 && r->step == 1 && r->out_step == 1 && r->length >= BYTES_LEAST &&
           r->length <= SHORT && r->rows >= BYTES_ROWS;
}

static tide_status short_rows(job *j) {
    /* more places have no room in shared memory; written one by one they took 1.2 to 1.5 times as
    ** long as by a sort (rows of 2632 and 3571 bytes on an H200) */
    const bool fits = !j->s->indices || j->p.kept <= BYTES_PLACES;
    if (fits && are_counted(&j->p.space, (size_t)j->p.type.size))
        return launch(j, &bytes_kernel, (j->p.space.rows + WARPS - 1) / WARPS);
    int64_t width = 16; /* ITEMS of runs.cu */
    while (width < j->p.space.length) width *= 2;
    int64_t most = SHORT / width;
    return launch(j, &rows_kernels[j->p.type.size == 8], (j->p.space.rows + most - 1) / most);
}

/* Whether what goes with a key takes 8 bytes. */
static bool is_far(const job *j) {
    return j->p.space.length > TIDEI_NEAR || j->p.carried_size == 8;
}

/* Room for a long sort: keys and places, where there is more than one pass; counts, cleared. */
static tide_status make_room(job *j, int64_t tiles) {
    int64_t n = j->p.space.rows * j->p.space.length;
    /* of integers the keys tell all, of floats maybe, and of one pass the places are known */
    bool places = j->s->indices || j->p.type.kind == OD_FLOAT;
    tide_status s = TIDE_OK;
    for (int i = 0; i < BUFFERS && i < j->p.passes - 1 && s == TIDE_OK; i++) {
        s = add_room(j, j->p.type.size == 8 ? TIDE_U64 : TIDE_U32, n,
                     offsetof(od_sort, keys) + (size_t)i * sizeof(od_u64));
        if (s == TIDE_OK && places)
            s = add_room(j, is_far(j) ? TIDE_U64 : TIDE_U32, n,
                         offsetof(od_sort, order) + (size_t)i * sizeof(od_u64));
    }
    int64_t words = TICKETS + (j->p.space.rows * j->p.passes + tiles) * DIGITS;
    if (s == TIDE_OK) s = add_room(j, TIDE_U64, words, offsetof(od_sort, state));
    if (s != TIDE_OK) return s;
    const tidei_operand *o = &j->room[j->nroom - 1];
    return tidei_submit_fill(tidei_stream_here(o->rt), o->st, 0, &(uint64_t){0}, sizeof(uint64_t),
                             (size_t)words, j->op);
}

/* A round: its digits counted, then passes over them. */
static tide_status run_round(job *j, int64_t tiles) {
    const bool wide = j->p.type.size == 8;
    const tidei_own_kernel *sweep = &sweep_kernels[wide + 2 * is_far(j)];
    j->p.shift = 0;
    j->p.first = 1;
    tidei_own_ahead(j->s->source->rt, sweep);
    if (j->p.planned) tidei_own_ahead(j->s->source->rt, &plan_kernel);
    tide_status s = launch(j, &count_kernels[wide], tiles);
    if (s == TIDE_OK && j->p.planned) s = launch(j, &plan_kernel, 1);
    for (int d = 0; d < j->p.digits && s == TIDE_OK; d++) {
        j->p.shift = 8 * d + j->p.low;
        j->p.first = d == 0;
        s = launch(j, sweep, tiles);
        j->p.pass++;
    }
    return s;
}

static tide_status long_rows(job *j) {
    const int rounds = j->p.type.parts > 1 ? OD_ROUNDS : 1, digits = j->p.digits;
    const int tile = j->p.type.size == 8 ? OD_TILE_64 : OD_TILE_32;
    int64_t tiles = (j->p.space.length + tile - 1) / tile * j->p.space.rows;
    j->p.passes = rounds == 1 ? digits : 2 * digits + 1;
    j->p.planned = rounds == 1 && j->p.space.rows == 1 && digits >= PLANNED;
    tide_status s = make_room(j, tiles);
    for (int r = 0; r < rounds && s == TIDE_OK; r++) {
        j->p.round = r;
        j->p.digits = r == OD_ROUNDS - 1 ? 1 : digits;
        s = run_round(j, tiles);
    }
    return s;
}

bool tidei_sort_keeps(const tidei_operand *source, int axis) {
    return tidei_order_by_text(source) && source->lay.shape[axis] <= SHORT;
}

bool tidei_sort_carries(const tidei_operand *source) {
    const tidei_layout *l = &source->lay;
    return tidei_order_by_text(source) && l->ndim == 1 && l->dtype == TIDE_U32 &&
           l->shape[0] > SHORT && l->shape[0] <= TIDEI_NEAR;
}

bool tidei_sort_counts(const tidei_operand *source, int axis) {
    od_rows r;
    tidei_order_rows(&source->lay, axis, source->lay.shape[axis], &r);
    return tidei_order_by_text(source) && are_counted(&r, tide_dtype_size(source->lay.dtype));
}

/* Rows of one element. */
static tide_status keep_all(const tidei_sorting *s, const char *op) {
    static const int64_t first = 0;
    tide_status status = TIDE_OK;
    if (s->values) status = tidei_copy_elements(s->source->rt, s->values, s->source, op);
    if (s->indices && status == TIDE_OK) status = tidei_fill_elements(s->indices, &first, op);
    return status;
}

tide_status tidei_sort(const tidei_sorting *s, const char *op) {
    job j = {.s = s, .op = op};
    if (tidei_layout_size(&s->source->lay) == 0) return TIDE_OK;
    if (s->source->lay.shape[s->axis] == 1 && !s->carried) return keep_all(s, op);
    j.p.kept = s->kept ? s->kept : s->source->lay.shape[s->axis];
    tidei_order_rows(&s->source->lay, s->axis, j.p.kept, &j.p.space);
    j.p.type = tidei_order_type(s->source->lay.dtype, s->descending);
    j.p.digits = s->bits ? (int)(s->bits - s->low + 7) / 8 : j.p.type.size;
    j.p.low = (int)s->low;
    add_operand(&j, s->source, TIDEI_READ, offsetof(od_sort, source));
    add_operand(&j, s->values, TIDEI_WRITE, offsetof(od_sort, values));
    add_operand(&j, s->indices, TIDEI_WRITE, offsetof(od_sort, indices));
    if (s->indices) j.p.indices_size = (int)tide_dtype_size(s->indices->lay.dtype);
    if (s->carried) j.p.carried_size = j.p.indices_size;
    add_operand(&j, s->carried, TIDEI_READ, offsetof(od_sort, carried));
    tide_status status = !tidei_order_by_text(s->source) ? on_host(&j)
                         : j.p.space.length <= SHORT     ? short_rows(&j)
                                                         : long_rows(&j);
    while (j.nroom > 0) tidei_operand_put(&j.room[--j.nroom]);
    return status;
}
