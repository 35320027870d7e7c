/* scan.c: running folds: what a scan looks like to the kernels, and which of them it takes.
**
** On a device that runs host functions there is one for all. Otherwise (scan_forms.cu): lines
** that lie side by side, or have next to no elements, go to a thread each (columns); where there
** are too few of them to fill the device, long ones go to blocks (bands), even if there are but two
** side by side, and others to a thread a part of them. Several short ones go to a warp; of the
** others, many go to a warp each (rows), few are cut into tiles that find what is before them as
** they go.
** Along an axis of one element they are copied.
** Only the shape and the number of multiprocessors decide, so that the same additions are done in
** every run. Where the elements come from is the launch's to know: an array here, an expression in
** cuda_run.c. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/scan/scan.h"
#include <tide/scan.h>

_Static_assert(SC_RANK == TIDE_MAX_RANK && SC_BLOCK == TIDEI_OWN_BLOCK, "as everywhere");

/* elements that a thread takes in turn, of lines one behind the other, by what counts of their
** bytes */
#define SHORT_LINE(unit) ((unit) < 4 ? 3 : 1)
#define SIDE_BY_SIDE     32   /* lines, that neighbours' elements are fetched together */
#define CHAIN            1400 /* tiles of a band, of more than SECTOR lines */
#define SECTOR           8    /* as many still fill what is fetched at once, where there is much */
#define LINE_OF_ONE      1024 /* elements that a warp scans as fast as tiles would begin */
#define WARPS_AN_SM      32   /* that keep it busy */
#define THREADS_AN_SM    2048
#define PART             64 /* elements at least, so that parts cost little */

/* A scan of an array. */
typedef struct array_scan {
    tidei_scan x; /* comes first */
    tidei_operand in, out;
} array_scan;

/* ---- the shape ---- */

static void add_dimension(sc_scan *p, int64_t n, int64_t stride) {
    int last = p->ndim - 1;
    if (n == 1) return;
    if (p->ndim && p->strides[last] == stride * n) {
        p->shape[last] *= n;
        p->strides[last] = stride;
    } else {
        p->shape[p->ndim] = n;
        p->strides[p->ndim++] = stride;
    }
}

/* Over the source; `axis` has elements, and so has every other. */
static void lay_out(const tidei_layout *a, int axis, unsigned flags, sc_scan *p) {
    bool initial = (flags & TIDE_SCAN_INITIAL) != 0;
    *p = (sc_scan){.n = a->shape[axis],
                   .step = a->strides[axis],
                   .lines = 1,
                   .inner = 1,
                   .places = a->shape[axis] + initial,
                   .chunks = 1,
                   .chunk = a->shape[axis],
                   .initial = initial};
    for (int d = 0; d < a->ndim; d++) {
        if (d == axis) continue;
        p->lines *= a->shape[d];
        if (d > axis) p->inner *= a->shape[d];
        add_dimension(p, a->shape[d], a->strides[d]);
    }
    if (!p->ndim) p->shape[p->ndim++] = 1;
    p->out_step = p->inner;
}

/* Adds to p's addresses how far in bytes the scan begins from the first elements. */
static void begin_at(sc_scan *p, bool reverse, size_t in_bytes, size_t out_bytes) {
    if (reverse) {
        p->in += (uint64_t)((p->n - 1) * p->step) * in_bytes;
        p->out += (uint64_t)((p->n - 1) * p->out_step) * out_bytes;
        p->step = -p->step;
        p->out_step = -p->out_step;
    } else if (p->initial)
        p->out += (uint64_t)p->out_step * out_bytes;
}

/* ---- running ---- */

static tide_status launch(const tidei_scan *x, int form, const tidei_operand *state,
                          uint64_t items) {
    const array_scan *of = (const array_scan *)x;
    static const size_t at[] = {offsetof(sc_scan, out), offsetof(sc_scan, in),
                                offsetof(sc_scan, state)};
    sc_scan p = x->p;
    tidei_use uses[3] = {tidei_operand_use(&of->out, TIDEI_WRITE),
                         tidei_operand_use(&of->in, TIDEI_READ)};
    if (state) uses[2] = tidei_operand_use(state, TIDEI_READ | TIDEI_WRITE);
    p.in += (uint64_t)of->in.lay.offset * tide_dtype_size(x->kind->in) - uses[1].offset;
    return tidei_run_own(x->rt, &x->kind->forms[form], uses, state ? 3 : 2, &p, sizeof p, at, items,
                         x->op);
}

/* What counts of an element's bytes. */
static int64_t unit_of(const tidei_scan *x) {
    int64_t in = (int64_t)tide_dtype_size(x->kind->in),
            out = (int64_t)tide_dtype_size(x->kind->out);
    return SC_UNIT(in, out);
}

/* A form whose blocks take `tickets`, and tell `told` accumulators. */
static tide_status run_told(tidei_scan *x, int form, int64_t told, int64_t tickets) {
    static const uint32_t none = 0;
    tidei_operand state;
    /* the ticket, and two bytes for each byte that is told */
    int64_t bytes = (int64_t)sizeof(sc_u64) + told * 2 * (int64_t)tide_dtype_size(x->kind->acc);
    tide_status s = tidei_operand_make(x->rt, TIDE_U8, 1, &bytes, x->op, &state);
    if (s != TIDE_OK) return s;
    s = tidei_submit_fill(tidei_stream_here(x->rt), state.st, 0, &none, sizeof none,
                          (size_t)bytes / sizeof none, x->op);
    if (s == TIDE_OK) s = x->launch(x, form, &state, (uint64_t)tickets * TIDEI_OWN_BLOCK);
    tidei_operand_put(&state);
    return s;
}

static tide_status run_tiles(tidei_scan *x) {
    int64_t tile = SC_TILE(unit_of(x));
    x->p.tiles = (x->p.n + tile - 1) / tile;
    x->p.groups = (x->p.tiles + SC_GROUP - 1) / SC_GROUP;
    return run_told(x, TIDEI_SCAN_TILES, x->p.lines * (x->p.tiles + x->p.groups),
                    x->p.lines * x->p.tiles);
}

/* Of the lines side by side each band has as many, or the last one fewer. */
static int64_t band_width(const sc_scan *p) {
    int64_t across = (p->inner + SC_BAND_WIDTH - 1) / SC_BAND_WIDTH;
    return (p->inner + across - 1) / across;
}

/* Lines that lie side by side, too few to go to a thread each, and long enough to fill a tile; a
** quarter of one will do where other forms would fetch and store a sector once for each line. Of
** more lines that is slower where elements are small, for what is done with each, or where so many
** tiles follow each other that their chain takes longer than reading all twice (an H200: of halves
** 0.3 to 0.9 times as fast, of 1118481 x 30 floats, 4237 tiles, 0.55, of 219310 x 153, 1329 tiles,
** 1.2). */
static bool by_bands(const tidei_scan *x, int64_t threads) {
    const sc_scan *p = &x->p;
    const int64_t tile = SC_BAND_TILE(unit_of(x), band_width(p));
    if (p->inner < SECTOR) return p->inner > 1 && p->n >= tile / 4;
    return tide_dtype_size(x->kind->in) >= 4 && p->n >= tile && p->n <= CHAIN * tile &&
           p->lines <= threads / 2;
}

static tide_status run_bands(tidei_scan *x) {
    sc_scan *p = &x->p;
    const int64_t width = band_width(p), across = (p->inner + width - 1) / width,
                  bands = p->lines / p->inner * across, tile = SC_BAND_TILE(unit_of(x), width);
    p->width = (int)width;
    p->tiles = (p->n + tile - 1) / tile;
    p->groups = (p->tiles + SC_BAND_GROUP - 1) / SC_BAND_GROUP;
    int64_t greats = (p->groups + SC_BAND_GROUP - 1) / SC_BAND_GROUP;
    return run_told(x, TIDEI_SCAN_BANDS, bands * width * (p->tiles + p->groups + greats),
                    bands * p->tiles);
}

/* The folds of parts, which are scanned in place. */
static array_scan of_parts(const tidei_scan *x, const tidei_operand *sums) {
    return (array_scan){.x = {.kind = tidei_scan_find(x->kind->fold, x->kind->acc),
                              .op = x->op,
                              .rt = x->rt,
                              .launch = launch,
                              .p = {.n = x->p.chunks,
                                    .step = x->p.lines,
                                    .out_step = x->p.lines,
                                    .lines = x->p.lines,
                                    .inner = x->p.lines,
                                    .places = x->p.chunks,
                                    .chunks = 1,
                                    .chunk = x->p.chunks,
                                    .ndim = 1,
                                    .shape = {x->p.lines},
                                    .strides = {1}}},
                        .in = *sums,
                        .out = *sums};
}

static tide_status run_columns(tidei_scan *x, int64_t threads) {
    int64_t most = x->p.n / PART, parts = threads / x->p.lines;
    tidei_operand sums;
    if (parts > most) parts = most;
    if (parts < 2 || x->p.inner < SECTOR)
        return x->launch(x, TIDEI_SCAN_COLUMNS, NULL, (uint64_t)x->p.lines);
    x->p.chunk = (x->p.n + parts - 1) / parts;
    x->p.chunks = (x->p.n + x->p.chunk - 1) / x->p.chunk;
    int64_t items = x->p.lines * x->p.chunks;
    tide_status s = tidei_operand_make(x->rt, x->kind->acc, 1, &items, x->op, &sums);
    if (s != TIDE_OK) return s;
    array_scan among = of_parts(x, &sums);
    s = x->launch(x, TIDEI_SCAN_COLUMN_SUMS, &sums, (uint64_t)items);
    if (s == TIDE_OK) s = tidei_scan_run(&among.x);
    if (s == TIDE_OK) s = x->launch(x, TIDEI_SCAN_COLUMNS, &sums, (uint64_t)items);
    tidei_operand_put(&sums);
    return s;
}

/* Lanes of a line: as many as it has vectors, up to a power of two; more than a warp has where it
** is no short one. */
static int lanes_of(const tidei_scan *x) {
    const int64_t vector = SC_VECTOR(unit_of(x));
    int lanes = 1;
    while (lanes <= 32 && lanes * vector < x->p.n) lanes *= 2;
    return lanes;
}

/* Fewer lines side by side are worth a thread each where one load of many threads comes upon what
** the next ones are for, or a thread each or several where every thread that the device has at once
** gets an element. Of five to seven, lanes along a line would load and store a sector each: where
** each thread gets a short line it goes through that, and its neighbours' elements share sectors:
** 435771 x 44 x 7 of u8 on an H200, 1358 us and 672 (but 300000 x 200 x 2 of f32, 440 and 1169). */
static bool by_threads(const tidei_scan *x, int64_t threads) {
    const sc_scan *p = &x->p;
    return p->inner >= SIDE_BY_SIDE || p->n <= SHORT_LINE(unit_of(x)) ||
           (p->n <= (p->inner < SECTOR ? SC_EACH / 2 : SC_EACH) && p->inner > 1) ||
           (p->inner >= SECTOR && p->lines * p->n >= threads) ||
           (p->inner > SECTOR / 2 && p->n <= 64 && p->lines >= threads);
}

tide_status tidei_scan_run(tidei_scan *x) {
    const tidei_device_info *info = &tidei_stream_here(x->rt)->dev->d->info;
    int64_t sms = info->sm_count > 0 ? info->sm_count : 1;
    if (!(info->flags & TIDEI_DEV_RUNS_TEXT)) return run_columns(x, 0);
    if (by_bands(x, sms * THREADS_AN_SM)) return run_bands(x);
    if (by_threads(x, sms * THREADS_AN_SM)) return run_columns(x, sms * THREADS_AN_SM);
    x->p.lanes = lanes_of(x);
    if (x->p.lanes <= 32)
        return x->launch(x, TIDEI_SCAN_SHORT, NULL, (uint64_t)x->p.lines * (uint64_t)x->p.lanes);
    if (x->p.n <= LINE_OF_ONE || x->p.lines >= sms * WARPS_AN_SM)
        return x->launch(x, TIDEI_SCAN_ROWS, NULL, (uint64_t)x->p.lines * 32);
    return run_tiles(x);
}

/* All lines are empty: of the result there is the initial place alone. */
static tide_status fill_initial(const array_scan *a) {
    unsigned char none[16];
    a->x.kind->none(none);
    return tidei_fill_elements(&a->out, none, a->x.op);
}

tide_status tidei_scan_into(const tidei_operand *out, const tidei_operand *a, int fold, int axis,
                            unsigned flags, const char *op) {
    array_scan of = {.x = {.op = op,
                           .rt = out->rt,
                           .launch = launch,
                           .kind = tidei_scan_find(fold, a->lay.dtype)},
                     .in = *a,
                     .out = *out};
    tidei_scan *x = &of.x;
    if (tidei_layout_size(&out->lay) == 0) return TIDE_OK;
    if (tidei_layout_size(&a->lay) == 0) return fill_initial(&of);
    if (a->lay.shape[axis] == 1 && out->lay.shape[axis] == 1) /* each element by itself */
        return tidei_store_elements(out->rt, out, a, op);
    lay_out(&a->lay, axis, flags, &x->p);
    begin_at(&x->p, (flags & TIDE_SCAN_REVERSE) != 0, tide_dtype_size(x->kind->in),
             tide_dtype_size(x->kind->out));
    return tidei_scan_run(x);
}

static tide_status check(const tidei_layout *a, int fold, int *axis, unsigned flags,
                         const char *op) {
    static const char *const names[] = {"cumsum", "cumprod", "cummin", "cummax"};
    const unsigned all = TIDE_SCAN_REVERSE | TIDE_SCAN_INITIAL;
    if (tidei_axis(*axis, a->ndim, op, axis) != TIDE_OK) return tidei_last_status();
    if (flags & ~all)
        return tidei_fail(TIDE_E_INVALID, op, "flags are %#x, of which %#x are none", flags,
                          flags & ~all);
    if (!tidei_scan_find(fold, a->dtype))
        return tidei_fail(TIDE_E_DTYPE, op, "%s is offered for bool, integers, floats, not for %s",
                          names[fold], tide_dtype_name(a->dtype));
    return TIDE_OK;
}

static tide_array *scan_of(const tidei_operand *a, int fold, int axis, unsigned flags,
                           const char *op) {
    tidei_operand out;
    int64_t shape[TIDE_MAX_RANK];
    if (check(&a->lay, fold, &axis, flags, op) != TIDE_OK) return NULL;
    memcpy(shape, a->lay.shape, sizeof shape);
    if (flags & TIDE_SCAN_INITIAL && __builtin_add_overflow(shape[axis], 1, &shape[axis])) {
        tidei_fail(TIDE_E_NOMEM, op, "axis %d of the result has 2^63 elements or more", axis);
        return NULL;
    }
    tide_dtype t = tidei_scan_find(fold, a->lay.dtype)->out;
    tide_array *made = tidei_array_make(a->rt, t, a->lay.ndim, shape, op, &out);
    if (!made) return NULL;
    return tidei_array_done(made, &out, tidei_scan_into(&out, a, fold, axis, flags, op));
}

static tide_array *apply(tide_array *a, int fold, int axis, unsigned flags, const char *op) {
    TIDEI_OPERATION(op);
    tidei_operand o;
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return NULL;
    tide_array *made = scan_of(&o, fold, axis, flags, op);
    tidei_operand_put(&o);
    return made;
}

tide_array *tide_cumsum(tide_array *a, int axis, unsigned flags) {
    return apply(a, TIDEI_SCAN_sum, axis, flags, "tide_cumsum");
}
tide_array *tide_cumprod(tide_array *a, int axis, unsigned flags) {
    return apply(a, TIDEI_SCAN_prod, axis, flags, "tide_cumprod");
}
tide_array *tide_cummin(tide_array *a, int axis, unsigned flags) {
    return apply(a, TIDEI_SCAN_min, axis, flags, "tide_cummin");
}
tide_array *tide_cummax(tide_array *a, int axis, unsigned flags) {
    return apply(a, TIDEI_SCAN_max, axis, flags, "tide_cummax");
}
