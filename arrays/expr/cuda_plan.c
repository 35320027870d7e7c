/* cuda_plan.c: from a call to a launch: which class of kernel, how many blocks, which parameters.
**
** Model: pure arithmetic on shapes and strides; no device, no memory. A map's offsets fit 32 bits,
** as too large calls are cut before; a fold's are 64-bit. Alignments follow from offsets, since
** storages begin on 16-byte boundaries.
** What must stay true: every element is visited once, and how a fold is divided among threads
** depends on the call and the device's size only, so that results do not change from run to run. */
#include "arrays/expr/cuda_text.h"
#include "arrays/expr/cuda_pairs.h"

/* ---- writing parameters ---- Fields in the order of struct tide_p (cuda_text.c: say_params). */
typedef struct writer {
    unsigned char *at;
} writer;

static void *take(writer *w, size_t bytes) {
    void *p = w->at;
    w->at += bytes;
    return p;
}
static void put_i64(writer *w, int64_t v) { memcpy(take(w, 8), &v, 8); }
static void put_u32(writer *w, uint32_t v) { memcpy(take(w, 4), &v, 4); }

static void begin(writer *w, tidei_cuda_plan *out, unsigned noperands) {
    w->at = out->params.bytes + 8 * (size_t)noperands; /* addresses come at the launch */
    out->noperands = noperands;
    out->sides = 0;
}

static void end(const writer *w, tidei_cuda_plan *out) {
    out->params_bytes = (size_t)(w->at - out->params.bytes + 7) / 8 * 8;
    tidei_check(out->params_bytes <= sizeof out->params);
}

static void put_scalars(writer *w, const tidei_call *c, tidei_cuda_plan *out) {
    out->scalars_at = c->prog->nscalars ? (size_t)(w->at - out->params.bytes) : 0;
    memcpy(take(w, 16 * (size_t)c->prog->nscalars), c->scalars, 16 * (size_t)c->prog->nscalars);
}

tidei_cuda_divisor tidei_cuda_divisor_of(int64_t dim) {
    uint32_t d = (uint32_t)dim, shift = d > 1 ? 32u - (uint32_t)__builtin_clz(d - 1) : 0;
    return (tidei_cuda_divisor){
        d, (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - d)) / d + 1), shift};
}

static void put_divisor(writer *w, int64_t dim) {
    const tidei_cuda_divisor d = tidei_cuda_divisor_of(dim);
    memcpy(take(w, sizeof d), &d, sizeof d);
}

static int64_t size_of(int n, const int64_t *shape) {
    int64_t size = 1;
    for (int d = 0; d < n; d++) size *= shape[d];
    return size;
}

static int64_t quotient_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

/* ---- the operands of a call, inputs first ---- */
static unsigned operands(const tidei_call *c) {
    return c->prog->ninputs + (unsigned)c->prog->nouts;
}
static const tidei_view *operand(const tidei_call *c, unsigned i) {
    return i < c->prog->ninputs ? &c->in[i] : &c->out[i - c->prog->ninputs];
}
static tidei_view *operand_of(tidei_call *c, unsigned i) {
    return i < c->prog->ninputs ? &c->in[i] : &c->out[i - c->prog->ninputs];
}
static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* ---- the order of dimensions ---- */

static void swap_dims(tidei_call *c, int a, int b) {
    int64_t t = c->shape[a];
    c->shape[a] = c->shape[b];
    c->shape[b] = t;
    for (unsigned i = 0; i < operands(c); i++) {
        tidei_view *v = operand_of(c, i);
        t = v->strides[a];
        v->strides[a] = v->strides[b];
        v->strides[b] = t;
    }
}

/* Sorts dimensions [from, to) by falling strides of `lead`; true if anything moved. */
static bool sort_dims(tidei_call *c, int from, int to, const tidei_view *lead) {
    bool moved = false;
    for (int i = from + 1; i < to; i++)
        for (int d = i; d > from; d--) {
            int64_t outer = magnitude(lead->strides[d - 1]), inner = magnitude(lead->strides[d]);
            if (outer == 0 || outer >= inner) break;
            swap_dims(c, d - 1, d);
            moved = true;
        }
    return moved;
}

const tidei_view *tidei_cuda_lead(const tidei_call *c) {
    const tidei_view *lead = &c->out[0];
    int64_t most = 0;
    for (unsigned i = 0; i < c->prog->ninputs; i++) {
        int64_t bytes = (int64_t)tide_dtype_size(c->prog->input_dtype[i]);
        for (int d = 0; d < c->ndim; d++)
            if (c->in[i].strides[d]) bytes *= c->shape[d];
        if (bytes > most) {
            most = bytes;
            lead = &c->in[i];
        }
    }
    return lead;
}

void tidei_cuda_order(tidei_call *c, const tidei_cuda_traits *k) {
    if (c->ndim < 2 || k->linear || tidei_is_scan(c->prog->fold)) return;
    bool moved;
    if (!c->nred)
        moved = sort_dims(c, 0, c->ndim, &c->out[0]);
    else {
        const tidei_view *lead = tidei_cuda_lead(c);
        int kept = c->ndim - c->nred;
        moved = sort_dims(c, 0, kept, lead);
        if (c->prog->fold != TIDEI_FOLD_ARGMIN && c->prog->fold != TIDEI_FOLD_ARGMAX)
            moved |= sort_dims(c, kept, c->ndim, lead);
    }
    if (moved) tidei_call_collapse(c);
}

/* ---- maps ---- */

static bool is_flat(const tidei_call *c) {
    if (c->ndim == 0) return true;
    if (c->ndim > 1) return false;
    for (unsigned i = 0; i < operands(c); i++)
        if (operand(c, i)->strides[0] != 1) return false;
    return true;
}

/* Offsets and element numbers below this fit the 32-bit arithmetic of kernels, with room for a
** block beyond the end. */
#define LARGE (((int64_t)1 << 31) - ((int64_t)1 << 16))

bool tidei_cuda_too_large(const tidei_call *c, int *dim) {
    if (c->prog->fold != TIDEI_FOLD_NONE || is_flat(c)) return false;
    int64_t most = 0;
    bool large = size_of(c->ndim, c->shape) >= LARGE;
    for (unsigned i = 0; i < operands(c); i++) {
        int64_t span = 0;
        for (int d = 0; d < c->ndim; d++)
            span += (c->shape[d] - 1) * magnitude(operand(c, i)->strides[d]);
        large |= span >= LARGE;
    }
    if (!large) return false;
    for (int d = 0; d < c->ndim; d++) {
        int64_t weight = c->shape[d];
        for (unsigned i = 0; i < operands(c); i++) {
            int64_t span = (c->shape[d] - 1) * magnitude(operand(c, i)->strides[d]);
            if (span > weight) weight = span;
        }
        if (c->shape[d] > 1 && weight > most) {
            most = weight;
            *dim = d;
        }
    }
    return true;
}

/* Whether the first n operands move as vectors of v elements along a dimension: their strides there
** are 1 (an input's may be 0: a bit in *flat), everything else they depend on is a multiple of
** v. */
static bool vectors_fit(const tidei_call *c, int v, int along, unsigned n, uint32_t *flat) {
    bool any = false;
    *flat = 0;
    for (unsigned i = 0; i < n; i++) {
        const tidei_view *o = operand(c, i);
        if (o->strides[along] == 0 && i < c->prog->ninputs) {
            *flat |= 1u << i;
            continue;
        }
        if (o->strides[along] != 1 || o->offset % v) return false;
        for (int d = 0; d < c->ndim; d++)
            if (d != along && o->strides[d] % v) return false;
        any = true;
    }
    return any && v > 1;
}

static void put_linear(writer *w, const tidei_call *c, const tidei_cuda_traits *k,
                       const tidei_cuda_linear *lin, int v, int along, const int *order) {
    if (!k->linear) return;
    put_i64(w, lin->base);
    put_i64(w, v > 1 ? lin->steps[along] : 0);
    int64_t *steps = take(w, 8 * TIDE_MAX_RANK);
    for (int d = 0; d < c->ndim; d++) steps[d] = lin->steps[order[d]] * (order[d] == along ? v : 1);
}

static void plan_flat(const tidei_call *c, const tidei_cuda_traits *k, const tidei_cuda_linear *lin,
                      tidei_cuda_plan *out) {
    const int v = k->vec[TIDEI_CUDA_FLAT];
    int64_t n = size_of(c->ndim, c->shape);
    out->cls = TIDEI_CUDA_FLAT;
    for (unsigned i = 0; i < operands(c); i++)
        if (operand(c, i)->offset % v) out->cls = TIDEI_CUDA_FLAT_ONE;
    int64_t groups = n / k->vec[out->cls];
    writer w;
    begin(&w, out, operands(c));
    put_scalars(&w, c, out);
    const int order[TIDE_MAX_RANK] = {0};
    put_linear(&w, c, k, lin, 1, 0, order);
    put_i64(&w, groups);
    put_i64(&w, n);
    end(&w, out);
    out->grid[0] =
        (unsigned)quotient_up(groups ? groups : 1, TIDEI_CUDA_THREADS * k->unroll[out->cls]);
}

/* Rows of vectors, or elements of any strides. */
static void plan_strided(const tidei_call *c, const tidei_cuda_traits *k,
                         const tidei_cuda_linear *lin, tidei_cuda_plan *out) {
    const unsigned n = operands(c);
    const int inner = c->ndim - 1;
    int v = k->vec[TIDEI_CUDA_ROWS], order[TIDE_MAX_RANK];
    uint32_t flat = 0;
    out->cls = TIDEI_CUDA_ROWS;
    if (c->shape[inner] % v || !vectors_fit(c, v, inner, n, &flat)) {
        out->cls = TIDEI_CUDA_STRIDED;
        v = 1;
        flat = 0;
    }
    int64_t groups = size_of(c->ndim, c->shape) / v;
    for (int d = 0; d < c->ndim; d++) order[d] = inner - d;
    writer w;
    begin(&w, out, n);
    put_scalars(&w, c, out);
    put_linear(&w, c, k, lin, v, inner, order);
    put_i64(&w, groups);
    put_u32(&w, (uint32_t)inner);
    put_u32(&w, flat);
    int32_t *strides = take(&w, 4 * TIDE_MAX_RANK * (size_t)n);
    for (int d = 0; d < c->ndim; d++)
        for (unsigned i = 0; i < n; i++)
            strides[(unsigned)d * n + i] =
                (int32_t)(operand(c, i)->strides[order[d]] * (d == 0 ? v : 1));
    for (int d = 0; d < c->ndim; d++) put_divisor(&w, c->shape[order[d]] / (d == 0 ? v : 1));
    take(&w, 12 * (size_t)(TIDE_MAX_RANK - c->ndim));
    end(&w, out);
    out->grid[0] = (unsigned)quotient_up(groups, TIDEI_CUDA_THREADS * k->unroll[out->cls]);
}

/* Rows of so many quarters of a stretch at least keep enough of a warp's threads busy: shorter ones
** go as strided. */
#define UNEVEN_QUARTERS 3

/* How many warps of a block go along a row, as a logarithm: so that the others have rows. */
static unsigned warps_across(int64_t rows) {
    return rows > 4 ? 0 : rows > 2 ? 1 : rows > 1 ? 2 : 3;
}

static bool uneven_fits(const tidei_call *c, const tidei_cuda_traits *k) {
    const int64_t stretch = 32 * k->vec[TIDEI_CUDA_UNEVEN] * k->unroll[TIDEI_CUDA_UNEVEN];
    return c->ndim > 0 && c->shape[c->ndim - 1] >= stretch / 4 * UNEVEN_QUARTERS &&
           size_of(c->ndim, c->shape) < LARGE;
}

static void plan_uneven(const tidei_call *c, const tidei_cuda_traits *k,
                        const tidei_cuda_linear *lin, tidei_cuda_plan *out) {
    const unsigned n = operands(c);
    const int inner = c->ndim - 1, v = k->vec[TIDEI_CUDA_UNEVEN];
    const int64_t rows = size_of(inner, c->shape), stretch = 32 * v * k->unroll[TIDEI_CUDA_UNEVEN];
    const unsigned across = warps_across(rows);
    /* the first group may begin up to v - 1 elements before the row */
    const int64_t stretches =
        quotient_up(quotient_up(c->shape[inner] + v - 1, stretch), 1 << across);
    int order[TIDE_MAX_RANK];
    uint32_t apart = 0;
    writer w;
    for (int d = 0; d < c->ndim; d++) order[d] = inner - d;
    for (unsigned i = 0; i < n; i++) apart |= operand(c, i)->strides[inner] != 1;
    begin(&w, out, n);
    put_scalars(&w, c, out);
    put_linear(&w, c, k, lin, 1, inner, order);
    put_i64(&w, rows * stretches);
    put_u32(&w, (uint32_t)inner);
    put_u32(&w, 0);
    int32_t *strides = take(&w, 4 * TIDE_MAX_RANK * (size_t)n);
    for (int d = 0; d < c->ndim; d++)
        for (unsigned i = 0; i < n; i++)
            strides[(unsigned)d * n + i] = (int32_t)operand(c, i)->strides[order[d]];
    for (int d = 0; d < c->ndim; d++) put_divisor(&w, c->shape[order[d]]);
    take(&w, 12 * (size_t)(TIDE_MAX_RANK - c->ndim));
    put_divisor(&w, stretches);
    put_u32(&w, (uint32_t)rows);
    put_u32(&w, across);
    put_u32(&w, apart);
    put_u32(&w, (uint32_t)c->shape[inner]);
    end(&w, out);
    out->cls = TIDEI_CUDA_UNEVEN;
    out->grid[0] = (unsigned)(stretches * quotient_up(rows, 8 >> across));
}

/* Tiles of shorter sides are mostly empty, and never pay. */
#define TILED_MIN 16

static unsigned room_of(size_t element, unsigned tile) { /* as cuda_tile.cu's tide_pitch says */
    return (unsigned)(tile * (tile + (element < 4 ? 4 / element : 1)) * element + 15) / 16 * 16;
}

/* Finds the dimension along which inputs are contiguous that are not so along the last, where the
** results are. */
static bool tiles_fit(const tidei_call *c, const tidei_cuda_traits *k, int *side, uint32_t *turned,
                      unsigned *shared) {
    const int inner = c->ndim - 1;
    if (c->ndim < 2 || c->prog->ninputs > TIDEI_CUDA_TILED_INPUTS || c->shape[inner] < TILED_MIN)
        return false;
    for (unsigned i = 0; i < c->prog->nouts; i++)
        if (c->out[i].strides[inner] != 1) return false;
    *side = -1;
    *turned = 0;
    *shared = 0;
    for (unsigned i = 0; i < c->prog->ninputs; i++) {
        if (magnitude(c->in[i].strides[inner]) <= 1) continue;
        for (int d = 0; d < inner && *side < 0; d++)
            if (magnitude(c->in[i].strides[d]) == 1 && c->shape[d] >= TILED_MIN) *side = d;
        if (*side < 0 || magnitude(c->in[i].strides[*side]) != 1) continue;
        *turned |= 1u << i;
        *shared += room_of(tide_dtype_size(c->prog->input_dtype[i]), k->tile);
    }
    return *turned && *shared <= TIDEI_CUDA_SHARED_MAX;
}

/* ---- tiles, or strides ---- What an element costs, in hundredths of a picosecond of an H200 at
** work on many, fitted to 4200 measured calls (bench/RESULTS.md, 2026-11-29): a tile is paid for
** whole, however few of its elements there are; strided reads pay for meeting one bank, and where
** neighbours are read by other blocks, later, for each sector again. */

/* The larger of an instruction's and of memory's, for elements of so many bytes. */
static int64_t least_cost(int64_t bytes) {
    return 130 + 28 * bytes > 59 * bytes ? 130 + 28 * bytes : 59 * bytes;
}

static int64_t tiled_cost(const tidei_call *c, int64_t bytes, int side, int tile) {
    const int64_t inner = c->shape[c->ndim - 1], across = c->shape[side],
                  slots = quotient_up(inner, tile) * tile * (quotient_up(across, tile) * tile),
                  each = 30 * bytes > 120 ? 30 * bytes : 120;
    const double of_one = (double)slots / ((double)inner * (double)across);
    const int64_t first = 30 + (int64_t)((double)each * of_one), least = least_cost(bytes);
    return (first > least ? first : least) + (c->prog->ninputs - 1) * (70 + (int64_t)(35 * of_one));
}

#define BANKS     128   /* bytes that all banks of a multiprocessor give at once */
#define NEAR      128   /* elements of a row: of shorter ones a block has several */
#define NEAR_ROOM 16384 /* bytes between a row's first and last element that caches hold */

/* Of an input that lies together along `side`, and whose neighbours along the last dimension are
** `step` bytes apart. */
static int64_t strided_cost(const tidei_call *c, int64_t bytes, int side, int64_t step) {
    const int64_t inner = c->shape[c->ndim - 1], lanes = inner < 32 ? inner : 32,
                  places = BANKS / (step & -step) > 0 ? BANKS / (step & -step) : 1,
                  meet = lanes / (lanes < places ? lanes : places);
    const int64_t sector = step < 32 ? step : 32;
    int64_t cost = least_cost(bytes);
    if (side != c->ndim - 2)
        cost += 24 * sector; /* all of it is read for each element */
    else if (inner > NEAR)
        cost += 4 * sector;
    else if (step > NEAR_ROOM / inner)
        cost = 160 + 40 * bytes;
    if (cost < 14 * meet) cost = 14 * meet;
    return cost + 25 * (c->prog->ninputs - 1);
}

/* Whether tiles cost less, of which the inputs in `turned` make use. */
static bool tiles_pay(const tidei_call *c, const tidei_cuda_traits *k, int side, uint32_t turned) {
    int64_t most = 0, worst = 0;
    for (unsigned i = 0; i < c->prog->ninputs; i++) {
        const int64_t bytes = (int64_t)tide_dtype_size(c->prog->input_dtype[i]);
        if (bytes > most) most = bytes;
        if (!(turned >> i & 1)) continue;
        const int64_t cost =
            strided_cost(c, bytes, side, magnitude(c->in[i].strides[c->ndim - 1]) * bytes);
        if (cost > worst) worst = cost;
    }
    return tiled_cost(c, most, side, k->tile) <= worst;
}

static void plan_tiled(const tidei_call *c, const tidei_cuda_traits *k,
                       const tidei_cuda_linear *lin, int side, uint32_t turned,
                       tidei_cuda_plan *out) {
    const unsigned n = operands(c), nin = c->prog->ninputs;
    const int inner = c->ndim - 1, tile = k->tile;
    int order[TIDE_MAX_RANK] = {inner, side}, nd = 2;
    int64_t blocks = 1, dims[TIDE_MAX_RANK];
    for (int d = inner - 1; d >= 0; d--)
        if (d != side) order[nd++] = d;
    for (int d = 0; d < c->ndim; d++) {
        dims[d] = d < 2 ? quotient_up(c->shape[order[d]], tile) : c->shape[order[d]];
        blocks *= dims[d];
    }
    writer w;
    begin(&w, out, n);
    put_scalars(&w, c, out);
    if (k->linear) {
        put_i64(&w, lin->base);
        put_i64(&w, 0);
        int64_t *steps = take(&w, 8 * TIDE_MAX_RANK);
        for (int d = 0; d < c->ndim; d++) steps[d] = lin->steps[order[d]] * (d < 2 ? tile : 1);
    }
    put_i64(&w, blocks);
    put_i64(&w, k->linear ? lin->steps[side] : 0);
    put_i64(&w, k->linear ? lin->steps[inner] : 0);
    put_u32(&w, (uint32_t)(c->ndim - 1));
    put_u32(&w, turned);
    put_u32(&w, (uint32_t)c->shape[side]);
    put_u32(&w, (uint32_t)c->shape[inner]);
    for (unsigned i = 0, at = 0; i < nin; i++) {
        put_u32(&w, at);
        if (turned >> i & 1) at += room_of(tide_dtype_size(c->prog->input_dtype[i]), k->tile);
    }
    for (unsigned i = 0; i < n; i++) put_u32(&w, (uint32_t)operand(c, i)->strides[side]);
    for (unsigned i = 0; i < n; i++) put_u32(&w, (uint32_t)operand(c, i)->strides[inner]);
    int32_t *strides = take(&w, 4 * TIDE_MAX_RANK * (size_t)n);
    for (int d = 0; d < c->ndim; d++)
        for (unsigned i = 0; i < n; i++)
            strides[(unsigned)d * n + i] =
                (int32_t)(operand(c, i)->strides[order[d]] * (d < 2 ? tile : 1));
    for (int d = 0; d < c->ndim; d++) put_divisor(&w, dims[d]);
    take(&w, 12 * (size_t)(TIDE_MAX_RANK - c->ndim));
    end(&w, out);
    out->cls = TIDEI_CUDA_TILED;
    out->grid[0] = (unsigned)blocks;
}

void tidei_cuda_plan_map(const tidei_call *c, const tidei_cuda_traits *k,
                         const tidei_cuda_linear *lin, tidei_cuda_plan *out) {
    int side;
    uint32_t turned;
    out->grid[1] = 1;
    out->shared = 0;
    out->splits = 1;
    if (is_flat(c)) {
        plan_flat(c, k, lin, out);
        if (out->cls == TIDEI_CUDA_FLAT_ONE && k->vec[TIDEI_CUDA_UNEVEN] > 1 && uneven_fits(c, k))
            plan_uneven(c, k, lin, out);
    } else if (tiles_fit(c, k, &side, &turned, &out->shared) && tiles_pay(c, k, side, turned))
        plan_tiled(c, k, lin, side, turned, out);
    else {
        out->shared = 0;
        plan_strided(c, k, lin, out);
        if (out->cls == TIDEI_CUDA_STRIDED && uneven_fits(c, k)) plan_uneven(c, k, lin, out);
    }
}

/* ---- folds ---- */

/* Blocks for each multiprocessor before reduced elements are divided among more: several waves, so
** that the last one, in which some multiprocessors idle, weighs little. */
#define FOLD_BLOCKS 32
/* rounds of a block at least, when reduced elements are divided: joining costs a launch */
#define FOLD_ROUNDS 4
/* blocks that a join keeps at least when its threads get more to do */
#define JOIN_BLOCKS        512
#define FOLD_COLUMNS_SHIFT 5u /* 32 threads across neighbouring results read whole lines */

static unsigned shift_up(int64_t n, unsigned max) { /* least s with 2^s >= n, at most max */
    unsigned s = 0;
    while (s < max && ((int64_t)1 << s) < n) s++;
    return s;
}

/* of a launch: groups of results, groups of reduced elements, and which threads work on which */
typedef struct fold_shape {
    int64_t outs, groups, chunk, splits;
    unsigned cshift; /* log2 of a block's columns */
    /* neighbouring threads on neighbouring results, else on neighbouring reduced elements */
    bool across;
} fold_shape;

static void divide(fold_shape *f, unsigned unroll, unsigned sm_count, bool may_split) {
    if (f->across) {
        f->cshift = shift_up(f->outs, FOLD_COLUMNS_SHIFT);
        /* so that there are no more lanes than groups */
        while (f->cshift < 8 && f->groups <= (256 >> f->cshift) / 2) f->cshift++;
        if (may_split && tidei_cuda_is_alone(f->outs, f->groups, sm_count)) f->cshift = 8;
    } else
        f->cshift = 8 - shift_up(quotient_up(f->groups, unroll), 8);
    while (f->cshift < 8 && quotient_up(f->outs, (int64_t)1 << f->cshift) > INT32_MAX) f->cshift++;
    int64_t tiles = quotient_up(f->outs, (int64_t)1 << f->cshift),
            round = (int64_t)(256 >> f->cshift) * unroll, least = FOLD_ROUNDS * round;
    int64_t wanted = (int64_t)sm_count * FOLD_BLOCKS / tiles, possible = f->groups / least;
    int64_t splits = may_split && wanted > 1 ? (wanted < possible ? wanted : possible) : 1;
    if (splits < 1) splits = 1;
    if (f->groups / splits >= (int64_t)1 << 30) splits = quotient_up(f->groups, (int64_t)1 << 30);
    f->chunk = quotient_up(f->groups, splits);
    /* a block takes as long for a part of a round as for the whole */
    if (splits > 1) f->chunk = quotient_up(f->chunk, round) * round;
    f->splits = quotient_up(f->groups, f->chunk);
}

static void put_fold(writer *w, const fold_shape *f, int64_t count, int64_t lift,
                     tidei_cuda_plan *out) {
    put_i64(w, f->groups);
    put_i64(w, f->chunk);
    put_i64(w, f->outs);
    out->count_at = (size_t)(w->at - out->params.bytes);
    put_i64(w, count);
    put_i64(w, lift);
}

/* floor(2^64 / d): the high half of a product with it is a quotient, or one less. */
static void put_wide_divisor(writer *w, int64_t d) {
    put_i64(w, d);
    put_i64(w, d > 1 ? (int64_t)(UINT64_MAX / (uint64_t)d + ((d & (d - 1)) == 0)) : -1);
}

static void put_fold_ends(writer *w, const fold_shape *f, int kept, int ndim, uint32_t flat,
                          uint32_t tail) {
    put_u32(w, (uint32_t)kept);
    put_u32(w, (uint32_t)(ndim - 1));
    put_u32(w, flat);
    put_u32(w, f->cshift);
    put_u32(w, f->across);
    put_u32(w, tail);
    put_u32(w, f->splits > 1); /* leaves accumulators */
    put_u32(w, 0);
}

/* Whether memory goes along the reduced elements rather than along dimension d, for inputs of one
** side: those that do not decide it say nothing. */
static bool runs_along(const tidei_call *c, const tidei_pairs *p, int side) {
    const int d = p->dim[side], last = c->ndim - 1;
    for (unsigned i = 0; i < c->prog->ninputs; i++) {
        const int64_t *s = c->in[i].strides;
        if ((int)(p->traits.columns >> i & 1) != side || !s[d] || !s[last]) continue;
        return magnitude(s[last]) < magnitude(s[d]);
    }
    return false;
}

/* Whether a thread's results of a row are whole vectors. */
static bool whole_vectors(const tidei_call *c, const tidei_pairs *p) {
    const int64_t n = p->traits.tile[TIDEI_PAIRS_COLUMNS], j = p->dim[TIDEI_PAIRS_COLUMNS],
                  a_vector = 16 / (int64_t)tide_dtype_size(c->prog->out_dtype[0]),
                  v = n < a_vector ? n : a_vector;
    const tidei_view *o = &c->out[0];
    if (p->splits > 1 || o->strides[j] != 1 || c->shape[j] % n || o->offset % v) return false;
    for (int d = 0; d < c->ndim - c->nred; d++)
        if (d != j && o->strides[d] % v) return false;
    return true;
}

static void plan_pairs(const tidei_call *c, const tidei_pairs *p, tidei_cuda_plan *out) {
    const unsigned nin = c->prog->ninputs, n = nin + 1;
    const int kept = c->ndim - c->nred, last = c->ndim - 1;
    const int i = p->dim[TIDEI_PAIRS_ROWS], j = p->dim[TIDEI_PAIRS_COLUMNS];
    const int64_t results = size_of(kept, c->shape), count = size_of(c->nred, c->shape + kept);
    const fold_shape f = {.outs = results, .groups = count, .chunk = p->chunk, .splits = p->splits};
    int order[TIDE_MAX_RANK] = {j, i}, nd = 2;
    int64_t to[TIDE_MAX_RANK], step = 1; /* where results go, or accumulators */
    for (int d = kept - 1; d >= 0; d--) {
        to[d] = p->splits > 1 ? step : c->out[0].strides[d];
        step *= c->shape[d];
        if (d != i && d != j) order[nd++] = d;
    }
    for (int d = last; d >= kept; d--) order[nd++] = d;
    writer w;
    begin(&w, out, n);
    put_scalars(&w, c, out);
    put_fold(&w, &f, count, to[j], out);
    int64_t *strides = take(&w, 8 * TIDE_MAX_RANK * (size_t)n);
    for (int d = 0; d < c->ndim; d++) {
        for (unsigned k = 0; k < nin; k++)
            strides[(unsigned)d * n + k] = c->in[k].strides[order[d]];
        strides[(unsigned)d * n + nin] = order[d] < kept ? to[order[d]] : 0;
    }
    for (int d = 0; d < c->ndim; d++) put_wide_divisor(&w, c->shape[order[d]]);
    take(&w, 16 * (size_t)(TIDE_MAX_RANK - c->ndim));
    put_u32(&w, (uint32_t)kept);
    put_u32(&w, (uint32_t)last);
    put_u32(&w, runs_along(c, p, TIDEI_PAIRS_ROWS) | runs_along(c, p, TIDEI_PAIRS_COLUMNS) << 1);
    put_u32(&w, p->cshift);
    put_u32(&w, (uint32_t)p->tiles[TIDEI_PAIRS_COLUMNS]);
    put_u32(&w, (uint32_t)p->tiles[TIDEI_PAIRS_ROWS]);
    put_u32(&w, p->splits > 1);
    put_u32(&w, whole_vectors(c, p));
    end(&w, out);
    out->cls = TIDEI_CUDA_FOLD_PAIRS;
    out->sides = p->traits.columns;
    out->grid[0] = (unsigned)p->blocks;
    out->grid[1] = (unsigned)p->splits;
    out->shared = (unsigned)tidei_pairs_shared(&p->traits, p->cshift);
    out->splits = p->splits;
    out->results = results;
}

static void finish_fold(tidei_cuda_plan *out, const fold_shape *f, int64_t results) {
    out->grid[0] = (unsigned)quotient_up(f->outs, (int64_t)1 << f->cshift);
    out->grid[1] = (unsigned)f->splits;
    out->shared = 0;
    out->splits = f->splits;
    out->results = results;
}

/* True if neighbouring results lie closer in memory than neighbouring reduced elements. */
static bool runs_across(const tidei_call *c, int kept) {
    const tidei_view *lead = tidei_cuda_lead(c);
    if (kept == 0) return false;
    int64_t a = magnitude(lead->strides[kept - 1]), b = magnitude(lead->strides[c->ndim - 1]);
    return b == 0 ? c->shape[c->ndim - 1] == 1 || a != 0 : a != 0 && a < b;
}

/* The class, and how results and reduced elements are grouped. */
static tidei_cuda_class fold_class(const tidei_call *c, const tidei_cuda_traits *k, fold_shape *f,
                                   uint32_t *flat) {
    const int kept = c->ndim - c->nred, last = c->ndim - 1;
    const unsigned nin = c->prog->ninputs;
    f->across = runs_across(c, kept);
    if (f->across) {
        const int v = k->vec[TIDEI_CUDA_FOLD_COLUMN];
        if (c->nred == 1 && c->shape[kept - 1] % v == 0 && vectors_fit(c, v, kept - 1, nin, flat)) {
            f->outs /= v;
            return TIDEI_CUDA_FOLD_COLUMN;
        }
    } else {
        const int v = k->vec[TIDEI_CUDA_FOLD_ROW];
        if (c->nred == 1 && f->groups >= v && vectors_fit(c, v, last, nin, flat)) {
            f->groups /= v;
            return TIDEI_CUDA_FOLD_ROW;
        }
    }
    *flat = 0;
    return TIDEI_CUDA_FOLD_ANY;
}

void tidei_cuda_plan_fold(const tidei_call *c, const tidei_cuda_traits *k,
                          const tidei_cuda_linear *lin, unsigned sm_count, tidei_cuda_plan *out) {
    const unsigned nin = c->prog->ninputs, n = nin + 1;
    const int kept = c->ndim - c->nred, last = c->ndim - 1;
    const int64_t results = size_of(kept, c->shape), count = size_of(c->nred, c->shape + kept);
    fold_shape f = {.outs = results, .groups = count};
    uint32_t flat;
    tidei_pairs pairs;
    if (tidei_pairs_find(c, k, sm_count, &pairs)) {
        plan_pairs(c, &pairs, out);
        return;
    }
    out->cls = fold_class(c, k, &f, &flat);
    divide(&f, k->unroll[out->cls], sm_count, true);

    /* Dimensions innermost first, the kept ones before the reduced ones. */
    const int v = k->vec[out->cls], along = out->cls == TIDEI_CUDA_FOLD_COLUMN ? kept - 1 : last;
    int order[TIDE_MAX_RANK];
    for (int d = 0; d < c->ndim; d++) order[d] = d < kept ? kept - 1 - d : last - (d - kept);
    writer w;
    begin(&w, out, n);
    put_scalars(&w, c, out);
    put_linear(&w, c, k, lin, v, along, order);
    put_fold(&w, &f, count, kept ? c->out[0].strides[kept - 1] : 0, out);
    int64_t *strides = take(&w, 8 * TIDE_MAX_RANK * (size_t)n);
    for (int d = 0; d < c->ndim; d++) {
        const int scale = order[d] == along ? v : 1;
        for (unsigned i = 0; i < nin; i++)
            strides[(unsigned)d * n + i] = c->in[i].strides[order[d]] * scale;
        strides[(unsigned)d * n + nin] = d < kept ? c->out[0].strides[order[d]] * scale : 0;
    }
    for (int d = 0; d < c->ndim; d++)
        put_wide_divisor(&w, c->shape[order[d]] / (order[d] == along ? v : 1));
    take(&w, 16 * (size_t)(TIDE_MAX_RANK - c->ndim));
    put_fold_ends(&w, &f, kept, c->ndim, flat,
                  out->cls == TIDEI_CUDA_FOLD_ROW ? (uint32_t)(count % v) : 0);
    end(&w, out);
    finish_fold(out, &f, results);
}

void tidei_cuda_plan_join(const tidei_call *c, const tidei_cuda_traits *k,
                          const tidei_cuda_plan *first, tidei_cuda_plan *out) {
    const int kept = c->ndim - c->nred, unroll = k->unroll[TIDEI_CUDA_FOLD_JOIN];
    fold_shape f = {.outs = first->results, .groups = first->splits, .across = first->results > 1};
    divide(&f, (unsigned)unroll, 1, false);
    /* few results of many blocks: a lane's accumulators come one round after the other, a memory's
    ** delay each, which would take longer than reading all of them in pieces of lines */
    while (f.cshift && f.groups > (int64_t)(256 >> f.cshift) * unroll) f.cshift--;
    /* many results of few blocks: a thread reads all of a result side by side, so that less has to
    ** be joined with other threads */
    while (f.across && f.cshift < 8 && f.groups <= (int64_t)(128 >> f.cshift) * unroll &&
           f.outs >> (f.cshift + 1) >= JOIN_BLOCKS)
        f.cshift++;
    writer w;
    begin(&w, out, 2);
    out->scalars_at = 0;
    put_fold(&w, &f, size_of(c->nred, c->shape + kept), 0, out);
    int64_t *strides = take(&w, 8 * TIDE_MAX_RANK * 2), step = 1;
    for (int d = 0; d < kept; d++) {
        strides[2 * d] = step;
        strides[2 * d + 1] = c->out[0].strides[kept - 1 - d];
        step *= c->shape[kept - 1 - d];
    }
    strides[2 * kept] = first->results;
    strides[2 * kept + 1] = 0;
    for (int d = 0; d < kept; d++) put_wide_divisor(&w, c->shape[kept - 1 - d]);
    take(&w, 16 * (size_t)(TIDE_MAX_RANK - kept));
    put_fold_ends(&w, &f, kept, kept + 1, 0, 0);
    end(&w, out);
    finish_fold(out, &f, first->results);
    out->cls = TIDEI_CUDA_FOLD_JOIN;
}

/* ---- scans ---- */

void tidei_cuda_plan_scan(const tidei_call *c, const tidei_cuda_traits *k,
                          const tidei_cuda_linear *lin, const sc_scan *p, int form, uint64_t items,
                          unsigned sm_count, tidei_cuda_plan *out) {
    const unsigned nin = c->prog->ninputs;
    const int last = c->ndim - 1;
    uint64_t blocks = (items + TIDEI_CUDA_THREADS - 1) / TIDEI_CUDA_THREADS,
             enough = (uint64_t)(sm_count ? sm_count : 1) * TIDEI_OWN_BLOCKS_AN_SM;
    uint32_t ahead = 1;
    writer w = {out->params.bytes};
    out->noperands = nin;
    out->sides = 0;
    memcpy(take(&w, sizeof *p), p, sizeof *p);
    take(&w, 8 * (size_t)nin); /* addresses come at the launch */
    put_scalars(&w, c, out);
    if (k->linear) {
        put_i64(&w, lin->base);
        put_i64(&w, lin->steps[last]);
        memcpy(take(&w, 8 * TIDE_MAX_RANK), lin->steps, 8 * (size_t)last);
    }
    int64_t *lines = take(&w, 8 * TIDE_MAX_RANK * (size_t)nin), *steps = take(&w, 8 * (size_t)nin);
    for (unsigned i = 0; i < nin; i++) {
        for (int d = 0; d < last; d++) lines[(unsigned)d * nin + i] = c->in[i].strides[d];
        steps[i] = c->in[i].strides[last];
        ahead &= steps[i] == 1;
    }
    put_u32(&w, ahead);
    put_u32(&w, 0);
    end(&w, out);
    out->cls = (tidei_cuda_class)(TIDEI_CUDA_SCAN + form);
    out->grid[0] = (unsigned)(blocks < enough ? blocks : enough);
    out->grid[1] = 1;
    out->shared = 0;
    out->splits = 1;
}
