/* vm_run.c: executes a compiled program along a walk (vm_walk.h): maps, folds, scans; the team's
** threads share it where there is much to do.
**
** Folds. Either the box's innermost dimensions are folded ones (by rows: each row of lanes ends as
** one value), or kept ones (by columns: blocks are added lane by lane). In both, blocks along the
** folded dimensions first meet lane by lane in an accumulator; float sums and products start a new
** accumulator every GROUP blocks and join accumulators pairwise, so that errors grow with the
** logarithm. Scans. A box is cut in the same two ways; each line's elements are joined one after
** the other, and its accumulator stays from block to block.
** Sharing. Blocks are dealt out in stretches, each to a walk of its own (blocks of kept dimensions,
** in folds and scans). A fold that has few such blocks is cut along the folded dimensions: segments
** give partial results, which are joined pairwise.
** What must stay true: nothing here allocates or fails; the order of a fold depends on its shape,
** strides and program alone: every run gives the same bits, however many threads there are. */
#include "arrays/expr/vm_walk.h"
#include "runtime/device/share.h"

enum {
    GROUP = 16, /* blocks added one after the other */
    LEVELS_MAX = 64,
    ROW_LEAST = 256, /* lanes: a block takes about 50 ns beside its lanes */
    /* what a part of a shared walk takes at least: waking a thread takes 5 to 50 us */
    PART_NS = 30000,
    PARTS_MAX = 512,
    PARTS_ENOUGH = 64,        /* keep the processors of a large machine busy */
    PARTIALS_BYTES = 32 << 10 /* of a fold's segments, on the stack */
};

/* ---- without a fold ---- */
/* Whether output o lies over an input that an instruction still reads once the output is
** written. */
static bool written_too_early(const tidei_walk *w, unsigned o) {
    for (unsigned i = 0; i < w->p->ninputs; i++)
        if (w->p->input_width[i] && w->c->in[i].base == w->c->out[o].base &&
            w->p->input_last[i] > w->p->out_written[o])
            return true;
    return false;
}

/* Whether all operands lie in place in boxes of a single row, and rows are long enough. What is in
** place in more than that has been made one row before. */
static bool rows_in_place(const tidei_walk *w) {
    bool so = w->len[w->nd - 1] >= ROW_LEAST;
    for (unsigned i = 0; i < w->p->ninputs; i++)
        so &= !w->p->input_width[i] || (uint64_t)w->c->in[i].strides[w->nd - 1] <= 1;
    for (unsigned o = 0; o < w->p->nouts; o++) so &= w->c->out[o].strides[w->nd - 1] == 1;
    return so;
}

static void choose_map_box(tidei_walk *w) {
    tidei_walk_stretch(w, rows_in_place(w) ? w->nd - 1 : 0, w->nd - 1,
                       tidei_walk_lanes_for(tidei_walk_lane_bytes(w->p), 0));
    tidei_walk_add_dims(w, &w->all, 0, w->nd);
    w->kept = w->all;
}

static void run_map(tidei_walk *w, size_t first, size_t n) {
    choose_map_box(w);
    tidei_walk_prepare(w);
    for (unsigned o = 0; o < w->p->nouts; o++) {
        w->out[o] = tidei_walk_place(w, &w->kept, w->c->out[o].strides);
        if (written_too_early(w, o)) w->out[o] = TIDEI_PACKED;
        if (w->out[o] != TIDEI_IN_PLACE)
            w->out_buffer[o] = tidei_walk_buffer(w, w->lanes * w->p->out_width[o]);
    }
    tidei_walk_fetch_prepare(w, tidei_walk_way(w, 0, w->nd), w->p->nouts);
    for (n = tidei_walk_seek(w, 0, w->nd, first, n); n-- > 0; tidei_walk_advance(w, 0, w->nd)) {
        tidei_walk_bind_inputs(w);
        tidei_walk_bind_outs(w);
        tidei_walk_execute(w, tidei_walk_lanes(w, &w->all));
        tidei_walk_flush_outs(w);
    }
}

/* ---- folds ---- */
typedef struct folding {
    tidei_vm_fn *join;    /* acc = join(acc, x); NULL for arg folds */
    unsigned width, log2; /* of an accumulator's lane */
    /* parts of an accumulator: 2 for complex numbers, each of type `real`; a mean divides each part
    ** by itself */
    unsigned parts, real;
    bool by_columns;
    bool grouped; /* a float sum or product */
    /* -0.0 or 1, for lanes that a short block leaves out of a new group */
    _Alignas(16) unsigned char identity[16];
    unsigned char *acc; /* the accumulator at work */
    /* joined groups: level i holds 2^i of them where bit i of `groups` is set */
    unsigned char *level[LEVELS_MAX];
    int nlevels; /* levels that have a buffer */
    uint64_t groups;
    unsigned fill;  /* blocks in acc */
    size_t lanes;   /* valid ones: those of the first block */
    int64_t *where; /* arg folds: the block in which each lane's best was found */
    unsigned char *result, *count;
} folding;

static tidei_op join_op(unsigned fold) {
    switch (fold) {
    case TIDEI_FOLD_PROD: return TIDEI_OP_MUL;
    case TIDEI_FOLD_MIN: return TIDEI_OP_MINIMUM;
    case TIDEI_FOLD_MAX: return TIDEI_OP_MAXIMUM;
    case TIDEI_FOLD_ANY: return TIDEI_OP_LOGICAL_OR;
    case TIDEI_FOLD_ALL: return TIDEI_OP_LOGICAL_AND;
    default: return TIDEI_OP_ADD;
    }
}
static bool is_arg(unsigned fold) { return fold == TIDEI_FOLD_ARGMIN || fold == TIDEI_FOLD_ARGMAX; }

/* x as one value of dtype t. */
static void encode_real(double x, unsigned t, unsigned char out[16]) {
    const double d[2] = {x, 0};
    const float f[2] = {(float)x, 0};
    const bool wide = t == TIDE_F64 || t == TIDE_C128;
    memcpy(out, wide ? (const void *)d : (const void *)f, wide ? sizeof d : sizeof f);
}

static void folding_init(folding *f, const tidei_walk *w) {
    const unsigned t = w->p->acc_dtype, fold = w->p->fold;
    *f = (folding){.width = tidei_vm_value_width(t)};
    f->log2 = tidei_vm_log2(f->width);
    f->join = is_arg(fold) ? NULL : w->k->op[join_op(fold)][t];
    f->grouped = (fold == TIDEI_FOLD_SUM || fold == TIDEI_FOLD_PROD || fold == TIDEI_FOLD_MEAN) &&
                 t >= TIDE_F32;
    encode_real(fold == TIDEI_FOLD_PROD ? 1.0 : -0.0, t, f->identity);
    f->parts = t >= TIDE_C64 ? 2 : 1;
    f->real = t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
    if (t >= TIDE_C64 && fold != TIDEI_FOLD_PROD) /* both parts */
        memcpy(f->identity + f->width / 2, f->identity, f->width / 2);
}

/* Whether elements along a dimension can be lanes in place: they lie next to each other, or all are
** the same. */
static int badly_placed(const tidei_walk *w, int dim) {
    int n = 0;
    for (unsigned i = 0; i < w->p->ninputs; i++)
        n += w->p->input_width[i] && w->c->in[i].strides[dim] != 0 && w->c->in[i].strides[dim] != 1;
    return n;
}

/* Chooses the box; returns how many levels of groups there may be. */
static int choose_box(tidei_walk *w, folding *f) {
    int64_t folded = 1, room;
    int levels = 1;
    for (int d = w->nk; d < w->nd; d++) folded *= w->len[d];
    while (f->grouped && folded >> levels >= GROUP) levels++;
    room = tidei_walk_lanes_for(
        tidei_walk_lane_bytes(w->p) + f->width + (f->join ? 0 : sizeof(int64_t)),
        f->width * (size_t)(f->grouped ? levels + 2 : 2)); /* result and count too */
    f->by_columns = w->nk > 0 && badly_placed(w, w->nd - 1) > badly_placed(w, w->nk - 1);
    if (f->by_columns) {
        room = tidei_walk_stretch(w, 0, w->nk - 1, room);
        if (room > 1) w->chunk[w->nd - 1] = tidei_walk_even_chunk(w->len[w->nd - 1], room);
        tidei_walk_add_dims(w, &w->all, w->nk, w->nd);
        tidei_walk_add_dims(w, &w->all, 0, w->nk);
    } else {
        room = tidei_walk_stretch(w, w->nk, w->nd - 1, room);
        if (room > 1) tidei_walk_stretch(w, 0, w->nk - 1, room);
        tidei_walk_add_dims(w, &w->all, 0, w->nd);
    }
    tidei_walk_add_dims(w, &w->kept, 0, w->nk);
    return levels;
}

static void folding_prepare(folding *f, tidei_walk *w, int levels) {
    const size_t bytes = w->lanes * f->width, results = tidei_walk_lanes(w, &w->kept);
    f->acc = tidei_walk_buffer(w, bytes);
    f->nlevels = f->grouped ? levels : 0;
    for (int i = 0; i < f->nlevels; i++) f->level[i] = tidei_walk_buffer(w, bytes);
    if (!f->join) f->where = (int64_t *)(void *)tidei_walk_buffer(w, w->lanes * sizeof(int64_t));
    f->result = tidei_walk_buffer(w, results * (f->join ? f->width : sizeof(int64_t)));
    if (w->p->fold == TIDEI_FOLD_MEAN) {
        _Alignas(16) unsigned char n[16];
        double folded = 1;
        for (int d = w->nk; d < w->nd; d++) folded *= (double)w->len[d];
        encode_real(folded, w->p->acc_dtype, n);
        f->count = tidei_walk_buffer(w, results * f->width);
        w->k->splat[f->log2 - (f->parts - 1)](f->count, n, NULL, NULL, results * f->parts);
    }
    w->out[0] = tidei_walk_place(w, &w->kept, w->c->out[0].strides);
    if (w->out[0] != TIDEI_IN_PLACE)
        w->out_buffer[0] = tidei_walk_buffer(w, results * w->p->out_width[0]);
}

/* The accumulator holds GROUP blocks: joins it with its equals. */
static void close_group(folding *f) {
    int i = 0;
    unsigned char *full;
    for (; f->groups >> i & 1; i++) f->join(f->acc, f->level[i], f->acc, NULL, f->lanes);
    tidei_check(i < f->nlevels);
    full = f->acc;
    f->acc = f->level[i];
    f->level[i] = full;
    f->groups++;
    f->fill = 0;
}
/* All groups into acc, the youngest first. */
static void close_all(folding *f) {
    for (int i = 0; f->groups >> i; i++) {
        if (!(f->groups >> i & 1)) continue;
        if (f->fill > 0) {
            f->join(f->acc, f->level[i], f->acc, NULL, f->lanes);
        } else {
            unsigned char *acc = f->acc;
            f->acc = f->level[i];
            f->level[i] = acc;
            f->fill = 1;
        }
    }
}

static void add_block(folding *f, const tidei_walk *w, const void *x, size_t n) {
    if (f->fill == 0) {
        w->k->copy[f->log2](f->acc, x, NULL, NULL, n);
        if (n < f->lanes)
            w->k->splat[f->log2](f->acc + n * f->width, f->identity, NULL, NULL, f->lanes - n);
    } else {
        f->join(f->acc, f->acc, x, NULL, n);
    }
    f->fill++;
    if (f->grouped && f->fill == GROUP) close_group(f);
}
static void add_arg_block(folding *f, const tidei_walk *w, const void *x, size_t n) {
    int64_t now = 0;
    for (int d = w->nk; d < w->nd; d++) now += w->at[d] * w->linear[d];
    if (f->fill++ == 0) {
        w->k->copy[f->log2](f->acc, x, NULL, NULL, n);
        w->k->splat[3](f->where, &now, NULL, NULL, n);
    } else {
        w->k->argstep[w->p->fold == TIDEI_FOLD_ARGMAX][w->p->acc_dtype](f->acc, f->where, x, now,
                                                                        n);
    }
}

/* Lanes to results: kept lanes, with the folded ones beside (by rows) or above (by columns) each
** other. */
static void fold_lanes(folding *f, const tidei_walk *w, size_t kept) {
    size_t m = f->lanes / kept;
    if (!f->by_columns) {
        const unsigned fold = w->p->fold == TIDEI_FOLD_MEAN ? TIDEI_FOLD_SUM : w->p->fold;
        w->k->rows[fold][w->p->acc_dtype](f->result, f->acc, kept, m);
        return;
    }
    while (m > 1) {
        const size_t half = m / 2, rest = m - half;
        f->join(f->acc, f->acc, f->acc + rest * kept * f->width, NULL, half * kept);
        m = rest;
    }
    w->k->copy[f->log2](f->result, f->acc, NULL, NULL, kept);
}
static void pick_lanes(folding *f, const tidei_walk *w, size_t kept) {
    tidei_vm_argpick_fn *pick = w->k->argpick[w->p->fold == TIDEI_FOLD_ARGMAX][w->p->acc_dtype];
    const size_t m = f->lanes / kept;
    const size_t next = f->by_columns ? 1 : m, step = f->by_columns ? kept : 1;
    int64_t *r = (int64_t *)(void *)f->result;
    for (size_t i = 0; i < kept; i++)
        r[i] = pick(f->acc + i * next * f->width, f->where + i * next, m, step);
}

static void store_results(folding *f, tidei_walk *w, size_t kept) {
    const unsigned t = w->p->out_dtype;
    tidei_walk_bind_outs(w);
    if (f->count)
        w->k->op[TIDEI_OP_DIV][f->real](f->result, f->result, f->count, NULL, kept * f->parts);
    if (tidei_vm_is_half(t))
        w->k->store[t](w->ptr[VM_SLOT_OUT], f->result, NULL, NULL, kept);
    else
        w->k->copy[tidei_vm_log2(w->p->out_width[0])](w->ptr[VM_SLOT_OUT], f->result, NULL, NULL,
                                                      kept);
    tidei_walk_flush_outs(w);
}

static void fold_prepare(folding *f, tidei_walk *w) {
    folding_init(f, w);
    const int levels = choose_box(w, f);
    tidei_walk_prepare(w);
    folding_prepare(f, w, levels);
    tidei_walk_fetch_prepare(w,
                             tidei_walk_way(w, w->nk, w->nd) >= 0 ? tidei_walk_way(w, w->nk, w->nd)
                                                                  : tidei_walk_way(w, 0, w->nk),
                             0);
}

/* Folds n blocks of the folded dimensions from number `first` on, which is as large as any, at the
** kept block where w is: to f->result. */
static void fold_blocks(folding *f, tidei_walk *w, size_t first, size_t n) {
    n = tidei_walk_seek(w, w->nk, w->nd, first, n);
    f->groups = 0;
    f->fill = 0;
    f->lanes = tidei_walk_lanes(w, &w->all);
    for (; n-- > 0; tidei_walk_advance(w, w->nk, w->nd)) {
        const size_t lanes = tidei_walk_lanes(w, &w->all);
        tidei_walk_bind_inputs(w);
        tidei_walk_execute(w, lanes);
        if (f->join)
            add_block(f, w, w->ptr[w->p->value], lanes);
        else
            add_arg_block(f, w, w->ptr[w->p->value], lanes);
    }
    if (f->join) {
        close_all(f);
        fold_lanes(f, w, tidei_walk_lanes(w, &w->kept));
    } else {
        pick_lanes(f, w, tidei_walk_lanes(w, &w->kept));
    }
}

static void run_fold(tidei_walk *w, size_t first, size_t n) {
    folding f;
    fold_prepare(&f, w);
    for (n = tidei_walk_seek(w, 0, w->nk, first, n); n-- > 0; tidei_walk_advance(w, 0, w->nk)) {
        fold_blocks(&f, w, 0, SIZE_MAX);
        store_results(&f, w, tidei_walk_lanes(w, &w->kept));
    }
}

/* ---- folds in segments ---- */
/* Partial results of a kept block: for each segment its accumulators, and of arg folds where they
** were found, less the segment's number, which argpick adds. */
typedef struct segments {
    const tidei_vm_program *p;
    const tidei_vm_call *c;
    size_t n, block, results; /* segments; the kept block; results of one */
    unsigned char *values;
    int64_t *found;
} segments;

/* Where segment i begins: at a block as large as any, so not the last of its row. */
static size_t segment_start(const tidei_walk *w, size_t i, size_t n) {
    const size_t start = tidei_walk_blocks(w, w->nk, w->nd) * i / n;
    size_t row = 1;
    for (int d = w->nk; d < w->nd; d++)
        if (w->chunk[d] > 1 && w->len[d] % w->chunk[d]) row = tidei_walk_pieces(w, d);
    return i < n && row > 1 && start % row == row - 1 ? start - 1 : start;
}

/* The values beside the places that pick_lanes found. */
static void pick_values(const folding *f, const segments *s, size_t segment) {
    const size_t kept = s->results, m = f->lanes / kept;
    const size_t next = f->by_columns ? 1 : m, step = f->by_columns ? kept : 1;
    for (size_t r = 0; r < kept; r++) {
        const int64_t found = ((const int64_t *)(const void *)f->result)[r];
        size_t lane = 0;
        while (f->where[r * next + lane * step] + (int64_t)lane != found) lane++;
        memcpy(s->values + (segment * kept + r) * f->width,
               f->acc + (r * next + lane * step) * f->width, f->width);
        s->found[segment * kept + r] = found - (int64_t)segment;
    }
}

static void run_segment(void *user, size_t i) {
    _Alignas(TIDEI_WALK_ALIGN) unsigned char scratch[TIDEI_WALK_SCRATCH];
    const segments *s = user;
    folding f;
    tidei_walk w;
    tidei_walk_init(&w, s->p, s->c, scratch);
    fold_prepare(&f, &w);
    tidei_walk_seek(&w, 0, w.nk, s->block, 1);
    const size_t first = segment_start(&w, i, s->n);
    fold_blocks(&f, &w, first, segment_start(&w, i + 1, s->n) - first);
    if (f.join)
        memcpy(s->values + i * s->results * f.width, f.result, s->results * f.width);
    else
        pick_values(&f, s, i);
}

/* All segments' results, in halves, to f->result. */
static void join_segments(folding *f, const tidei_walk *w, const segments *s) {
    const size_t r = s->results;
    if (!f->join) {
        tidei_vm_argpick_fn *pick = w->k->argpick[w->p->fold == TIDEI_FOLD_ARGMAX][w->p->acc_dtype];
        for (size_t i = 0; i < r; i++)
            ((int64_t *)(void *)f->result)[i] =
                pick(s->values + i * f->width, s->found + i, s->n, r);
        return;
    }
    for (size_t n = s->n, half; n > 1; n -= half) {
        half = n / 2;
        f->join(s->values, s->values, s->values + (n - half) * r * f->width, NULL, half * r);
    }
    memcpy(f->result, s->values, r * f->width);
}

static void run_fold_segments(tidei_walk *w, size_t n) {
    _Alignas(TIDEI_WALK_ALIGN) unsigned char values[PARTIALS_BYTES];
    int64_t found[PARTIALS_BYTES / sizeof(int64_t)];
    segments s = {.p = w->p, .c = w->c, .n = n, .values = values, .found = found};
    folding f;
    fold_prepare(&f, w);
    const size_t blocks = tidei_walk_seek(w, 0, w->nk, 0, SIZE_MAX);
    for (; s.block < blocks; s.block++, tidei_walk_advance(w, 0, w->nk)) {
        s.results = tidei_walk_lanes(w, &w->kept);
        tidei_share(n, run_segment, &s);
        join_segments(&f, w, &s);
        store_results(&f, w, s.results);
    }
}

/* ---- scans ---- */
/* The box: lines by rows, each with its elements one after the other, or by columns, line beside
** line; returns which. */
static bool choose_scan_box(tidei_walk *w) {
    const int axis = w->nd - 1;
    int64_t room =
        tidei_walk_lanes_for(tidei_walk_lane_bytes(w->p) + tide_dtype_size(w->p->scan->acc), 0);
    bool by_columns = w->nk > 0 && badly_placed(w, axis) > badly_placed(w, axis - 1);
    if (by_columns) {
        room = tidei_walk_stretch(w, 0, axis - 1, room);
        w->chunk[axis] = tidei_walk_even_chunk(w->len[axis], room);
        tidei_walk_add_dims(w, &w->all, axis, w->nd);
        tidei_walk_add_dims(w, &w->all, 0, axis);
    } else {
        room = tidei_walk_stretch(w, axis, axis, room);
        if (room > 1) tidei_walk_stretch(w, 0, axis - 1, room);
        tidei_walk_add_dims(w, &w->all, 0, w->nd);
    }
    w->kept = w->all; /* where results are stored */
    return by_columns;
}

static void run_scan(tidei_walk *w, size_t first, size_t n) {
    const tidei_scan_kind *kind = w->p->scan;
    const int axis = w->nd - 1;
    const bool by_columns = choose_scan_box(w);
    tidei_walk_prepare(w);
    w->out[0] = tidei_walk_place(w, &w->kept, w->c->out[0].strides);
    if (w->out[0] != TIDEI_IN_PLACE)
        w->out_buffer[0] = tidei_walk_buffer(w, w->lanes * w->p->out_width[0]);
    tidei_scan_lanes l = {.so_far = tidei_walk_buffer(w, w->lanes / (size_t)w->chunk[axis] *
                                                             tide_dtype_size(kind->acc))};
    tidei_walk_fetch_prepare(
        w, tidei_walk_way(w, axis, w->nd) >= 0 ? axis : tidei_walk_way(w, 0, axis), 1);
    for (n = tidei_walk_seek(w, 0, axis, first, n); n-- > 0; tidei_walk_advance(w, 0, axis)) {
        do {
            tidei_walk_bind_inputs(w);
            tidei_walk_bind_outs(w);
            tidei_walk_execute(w, tidei_walk_lanes(w, &w->all));
            l.x = w->ptr[w->p->value];
            l.y = w->ptr[VM_SLOT_OUT];
            l.begins = w->at[axis] == 0;
            l.n = (size_t)w->now[axis];
            l.lines = tidei_walk_lanes(w, &w->all) / l.n;
            l.apart = by_columns ? 1 : l.n;
            l.step = by_columns ? l.lines : 1;
            kind->lanes(&l);
            tidei_walk_flush_outs(w);
        } while (tidei_walk_advance(w, axis, w->nd));
    }
}

/* ---- sharing ---- */

/* Runs n of the blocks that can be dealt out, or all there are, from number `first` on. */
typedef void run_fn(tidei_walk *w, size_t first, size_t n);
typedef struct sharing {
    const tidei_vm_program *p;
    const tidei_vm_call *c;
    run_fn *run;
    size_t blocks, parts, segments;
} sharing;

static void run_part(void *user, size_t i) {
    _Alignas(TIDEI_WALK_ALIGN) unsigned char scratch[TIDEI_WALK_SCRATCH];
    const sharing *s = user;
    const size_t first = s->blocks * i / s->parts;
    tidei_walk w;
    tidei_walk_init(&w, s->p, s->c, scratch);
    if (s->segments > 1)
        run_fold_segments(&w, s->segments);
    else
        s->run(&w, first, s->blocks * (i + 1) / s->parts - first);
}

static size_t at_least_1(size_t n) { return n ? n : 1; }

static size_t parts_for(double ns, size_t blocks) {
    return at_least_1(tidei_min_size(tidei_min_size(blocks, PARTS_MAX), (size_t)(ns / PART_NS)));
}

/* How many segments a fold is cut into along its folded dimensions. */
static size_t segments_for(const tidei_walk *w, const folding *f, double ns) {
    const size_t kept = tidei_walk_blocks(w, 0, w->nk), folded = tidei_walk_blocks(w, w->nk, w->nd);
    const size_t room = PARTIALS_BYTES / tidei_max_size(f->width, sizeof(int64_t));
    size_t results = 1, n = parts_for(ns / (double)kept, folded / 2);
    for (int i = 0; i < w->kept.n; i++) results *= (size_t)w->chunk[w->kept.dim[i]];
    n = tidei_min_size(n, PARTS_ENOUGH / kept);
    return at_least_1(tidei_min_size(n, room / results));
}

/* Chooses the box of w as the run will, and cuts it. */
static void cut(sharing *s, tidei_walk *w, double ns) {
    folding f;
    int dealt = w->nd; /* dimensions whose blocks can be dealt out */
    if (s->run == run_map) {
        choose_map_box(w);
    } else if (s->run == run_scan) {
        choose_scan_box(w);
        dealt--;
    } else {
        folding_init(&f, w);
        choose_box(w, &f);
        dealt = w->nk;
        s->segments = segments_for(w, &f, ns);
    }
    s->blocks = tidei_walk_blocks(w, 0, dealt);
    s->parts = s->segments > 1 ? 1 : parts_for(ns, s->blocks);
}

void tidei_vm_run(const tidei_vm_program *p, const tidei_vm_call *c) {
    sharing s = {.p = p, .c = c, .blocks = SIZE_MAX, .parts = 1, .segments = 1};
    double ns = (double)p->cost / TIDEI_VM_COSTS_AN_NS;
    for (int d = 0; d < c->ndim; d++) ns *= (double)c->shape[d];
    s.run = p->fold == TIDEI_FOLD_NONE ? run_map : p->scan ? run_scan : run_fold;
    if (ns >= 2 * PART_NS) {
        tidei_walk w;
        tidei_walk_init(&w, p, c, NULL);
        cut(&s, &w, ns);
    }
    if (s.parts > 1)
        tidei_share(s.parts, run_part, &s);
    else
        run_part(&s, 0);
}
