/* vm_run.c: executes a compiled program: the walk through the iteration space, block by block, and
** the folds and the scans.
**
** A block is a box of the space: along each dimension one index or a stretch (chunk). Its elements,
** in row-major order of the box's dimensions, are the lanes. An operand that lies in memory just as
** the lanes do is used in place; one that is the same in all lanes is splatted, once while its
** address stays; others are gathered, and scattered back. Folds. Either the box's innermost
** dimensions are folded ones (by rows: each row of lanes ends as one value), or kept ones (by
** columns: blocks are added lane by lane). In both, blocks along the folded dimensions first meet
** lane by lane in an accumulator; float sums and products start a new accumulator every GROUP
** blocks and join accumulators pairwise, so that errors grow with the logarithm. The order depends
** on shape and strides alone: every run gives the same bits. Scans. A box is cut in the same two
** ways; each line's elements are joined one after the other, and its accumulator stays from block
** to block.
** What must stay true: nothing here allocates or fails; buffers fit in `scratch` because lanes are
** chosen so. */
#include "arrays/expr/vm_program.h"

enum {
    SCRATCH_BYTES = 96 << 10, /* on the stack of the stream's worker */
    /* what a block's instructions touch; a quarter of a first-level cache was the fastest part */
    HOT_BYTES = 12 << 10,
    LANES_MIN = 16, /* 256 nodes of 16 bytes and the rest stay within SCRATCH_BYTES */
    LANES_MAX = 4096,
    GROUP = 16, /* blocks added one after the other */
    LEVELS_MAX = 64,
    BUFFER_ALIGN = 64,
    CACHE_LINE = 64,
    /* walks over more memory than a second-level cache holds fetch the next block ahead */
    PREFETCH_BYTES = 1 << 20
};

/* Dimensions of a box with more than one index, outermost first, in the order of the lanes. */
typedef struct box {
    int n;
    int dim[TIDE_MAX_RANK];
} box;

typedef enum { IN_PLACE, SPLAT, PACKED } placement;

/* Memory used in place, of which the next block's part is fetched while the current one is
** computed. */
typedef struct fetched {
    unsigned slot;
    int64_t ahead; /* bytes from the current block's part to the next one's */
    size_t bytes;
} fetched;

typedef struct walk {
    const tidei_vm_program *p;
    const tidei_vm_kernels *k;
    const tidei_vm_call *c;
    int nd, nk; /* dimensions; the first nk are kept, the others folded */
    int64_t len[TIDE_MAX_RANK];
    int64_t chunk[TIDE_MAX_RANK];  /* the box's greatest stretch along each */
    int64_t at[TIDE_MAX_RANK];     /* the current block's first index ... */
    int64_t now[TIDE_MAX_RANK];    /* ... and stretch */
    int64_t linear[TIDE_MAX_RANK]; /* strides of the row-major index ... */
    int64_t linear_first;          /* ... which is this at the first element */
    box all, kept;                 /* the box, and its kept dimensions (where results are stored) */
    size_t lanes;                  /* of the largest block */
    placement input[TIDEI_INPUTS_MAX], out[TIDEI_OUTS_MAX];
    unsigned char *input_buffer[TIDEI_INPUTS_MAX], *out_buffer[TIDEI_OUTS_MAX];
    const unsigned char *splatted[TIDEI_INPUTS_MAX]; /* where the splat in the buffer came from */
    void *ptr[VM_SLOTS];
    fetched fetch[TIDEI_INPUTS_MAX + TIDEI_OUTS_MAX];
    unsigned nfetch;
    size_t fetch_share; /* lines to fetch before each instruction */
    size_t used;
    unsigned char *scratch;
} walk;

static unsigned char *buffer(walk *w, size_t bytes) {
    unsigned char *b = w->scratch + w->used;
    w->used += tidei_round_up(bytes, BUFFER_ALIGN);
    tidei_check(w->used <= SCRATCH_BYTES);
    return b;
}

/* ---- the box ---- */
static size_t box_lanes(const walk *w, const box *b) {
    size_t n = 1;
    for (int i = 0; i < b->n; i++) n *= (size_t)w->now[b->dim[i]];
    return n;
}
static int64_t offset(const walk *w, const int64_t *strides) {
    int64_t o = 0;
    for (int d = 0; d < w->nd; d++) o += w->at[d] * strides[d];
    return o;
}

/* A stretch of `len` in even pieces of at most `room`, rounded for the vectors' sake. */
static int64_t even_chunk(int64_t len, int64_t room) {
    if (len <= room) return len;
    const int64_t pieces = (len + room - 1) / room;
    const int64_t even = (len + pieces - 1) / pieces;
    const int64_t rounded = (even + 15) / 16 * 16;
    return rounded <= room ? rounded : even;
}
/* Gives dimensions first .. last, the innermost first, stretches within `room` lanes; returns the
** room left (1: none). */
static int64_t stretch(walk *w, int first, int last, int64_t room) {
    for (int d = last; d >= first; d--) {
        w->chunk[d] = even_chunk(w->len[d], room);
        room = w->chunk[d] < w->len[d] ? 1 : room / w->chunk[d];
    }
    return room;
}
static void add_dims(walk *w, box *b, int first, int end) {
    for (int d = first; d < end; d++)
        if (w->chunk[d] > 1) b->dim[b->n++] = d;
}

/* The next block along dimensions first .. end-1, the last one fastest; false when there is none,
** and all are at 0. */
static bool advance(walk *w, int first, int end) {
    for (int d = end - 1; d >= first; d--) {
        w->at[d] += w->chunk[d];
        if (w->at[d] < w->len[d]) {
            w->now[d] = w->len[d] - w->at[d] < w->chunk[d] ? w->len[d] - w->at[d] : w->chunk[d];
            return true;
        }
        w->at[d] = 0;
        w->now[d] = w->chunk[d];
    }
    return false;
}

/* ---- operands ---- */
static placement place(const walk *w, const box *b, const int64_t *strides) {
    bool same = true, in_order = true;
    int64_t expected = 1;
    for (int i = b->n; i-- > 0;) {
        const int d = b->dim[i];
        same &= strides[d] == 0;
        in_order &= strides[d] == expected && (i == 0 || w->chunk[d] == w->len[d]);
        expected *= w->chunk[d];
    }
    return in_order ? IN_PLACE : same ? SPLAT : PACKED;
}

/* Elements of an operand's box, between memory (or the sequence of indices) and a packed buffer. */
typedef struct mover {
    const tidei_vm_kernels *k;
    const int64_t *strides;
    unsigned log2;         /* of the element's width */
    unsigned char *memory; /* the address of the box's first element */
    int64_t first;         /* indices: the first one */
} mover;
/* Moves two dimensions of the box; o: the offset of their first element from the box's. */
typedef void move_fn(const mover *m, void *packed, int64_t o, size_t n1, int64_t s1, size_t n0,
                     int64_t s0);

static void gather(const mover *m, void *packed, int64_t o, size_t n1, int64_t s1, size_t n0,
                   int64_t s0) {
    m->k->gather[m->log2](packed, m->memory + (o * ((int64_t)1 << m->log2)), n1, s1, n0, s0);
}
static void scatter(const mover *m, void *packed, int64_t o, size_t n1, int64_t s1, size_t n0,
                    int64_t s0) {
    m->k->scatter[m->log2](m->memory + (o * ((int64_t)1 << m->log2)), packed, n1, s1, n0, s0);
}
static void count_up(const mover *m, void *packed, int64_t o, size_t n1, int64_t s1, size_t n0,
                     int64_t s0) {
    m->k->linear(packed, m->first + o, n1, s1, n0, s0);
}

static void move(const walk *w, const box *b, const mover *m, unsigned char *packed, move_fn *fn) {
    const int outer = b->n > 2 ? b->n - 2 : 0;
    const int d1 = b->n > 1 ? b->dim[b->n - 2] : -1, d0 = b->n > 0 ? b->dim[b->n - 1] : -1;
    const size_t n1 = d1 < 0 ? 1 : (size_t)w->now[d1], n0 = d0 < 0 ? 1 : (size_t)w->now[d0];
    const int64_t s1 = d1 < 0 ? 0 : m->strides[d1], s0 = d0 < 0 ? 1 : m->strides[d0];
    int64_t i[TIDE_MAX_RANK] = {0};
    int d;
    do {
        int64_t o = 0;
        for (d = 0; d < outer; d++) o += i[d] * m->strides[b->dim[d]];
        fn(m, packed, o, n1, s1, n0, s0);
        packed += (n1 * n0) << m->log2;
        while (d-- > 0 && ++i[d] == w->now[b->dim[d]]) i[d] = 0;
    } while (d >= 0);
}

static void bind_inputs(walk *w) {
    const tidei_vm_program *p = w->p;
    for (unsigned i = 0; i < p->ninputs; i++) {
        const unsigned width = p->input_width[i];
        const tidei_vm_operand *x = &w->c->in[i];
        unsigned char *at;
        if (!width) continue;
        at = x->base + offset(w, x->strides) * width;
        w->ptr[VM_SLOT_INPUT + i] = w->input[i] == IN_PLACE ? at : w->input_buffer[i];
        if (w->input[i] == PACKED) {
            const mover m = {w->k, x->strides, tidei_vm_log2(width), at, 0};
            move(w, &w->all, &m, w->input_buffer[i], gather);
        } else if (w->input[i] == SPLAT && at != w->splatted[i]) {
            w->k->splat[tidei_vm_log2(width)](w->input_buffer[i], at, NULL, NULL, w->lanes);
            w->splatted[i] = at;
        }
    }
    if (p->linear) {
        const mover m = {w->k, w->linear, tidei_vm_log2(sizeof(int64_t)), NULL,
                         w->linear_first + offset(w, w->linear)};
        move(w, &w->all, &m, w->ptr[VM_SLOT_LINEAR], count_up);
    }
}
static unsigned char *out_address(const walk *w, unsigned o) {
    return w->c->out[o].base + offset(w, w->c->out[o].strides) * w->p->out_width[o];
}
static void bind_outs(walk *w) {
    for (unsigned o = 0; o < w->p->nouts; o++)
        w->ptr[VM_SLOT_OUT + o] = w->out[o] == IN_PLACE ? out_address(w, o) : w->out_buffer[o];
}
static void flush_outs(walk *w) {
    for (unsigned o = 0; o < w->p->nouts; o++) {
        const mover m = {w->k, w->c->out[o].strides, tidei_vm_log2(w->p->out_width[o]),
                         out_address(w, o), 0};
        if (w->out[o] != IN_PLACE) move(w, &w->kept, &m, w->out_buffer[o], scatter);
    }
}

/* ---- instructions ---- */
/* Prefetches `lines` more cache lines of the next block; *which and *done say how far that has
** come. */
static void fetch_ahead(const walk *w, size_t lines, unsigned *which, size_t *done) {
    while (lines > 0 && *which < w->nfetch) {
        const fetched *f = &w->fetch[*which];
        const unsigned char *next = (const unsigned char *)w->ptr[f->slot] + f->ahead;
        for (; lines > 0 && *done < f->bytes; lines--, *done += CACHE_LINE)
            __builtin_prefetch(next + *done, 0, 2);
        if (*done >= f->bytes) {
            ++*which;
            *done = 0;
        }
    }
}

static void execute(walk *w, size_t n) {
    const tidei_vm_instr *q = w->p->instrs, *end = q + w->p->ninstrs;
    void *const *ptr = w->ptr;
    unsigned which = 0;
    size_t done = 0;
    if (w->nfetch && q == end) fetch_ahead(w, SIZE_MAX, &which, &done);
    for (; q < end; q++) {
        if (w->nfetch) fetch_ahead(w, w->fetch_share, &which, &done);
        q->fn(ptr[q->d], ptr[q->a], ptr[q->b], ptr[q->c], n);
    }
}

/* ---- setting up ---- */
/* Bytes of a lane in all buffers that a block may need. */
static size_t lane_bytes(const tidei_vm_program *p) {
    size_t n = p->linear ? 8 : 0;
    for (unsigned i = 0; i < p->nregs; i++) n += p->reg_width[i];
    for (unsigned i = 0; i < p->ninputs; i++) n += p->input_width[i];
    for (unsigned i = 0; i < p->nscalars; i++) n += tidei_vm_value_width(p->scalar_dtype[i]);
    for (unsigned i = 0; i < p->nouts; i++) n += p->out_width[i];
    return n;
}
static int64_t lanes_for(size_t hot, size_t cold) {
    const size_t slack = 16 << 10; /* of rounding, and what is small */
    size_t n = tidei_min_size(HOT_BYTES / (hot + 1), (SCRATCH_BYTES - slack) / (hot + cold + 1));
    n = n >= 64 ? n / 64 * 64 : n / LANES_MIN * LANES_MIN; /* whole vectors, whole lines of cache */
    return (int64_t)tidei_min_size(tidei_max_size(n, LANES_MIN), LANES_MAX);
}

static void walk_init(walk *w, const tidei_vm_program *p, const tidei_vm_call *c,
                      unsigned char *scratch) {
    int64_t linear = 1;
    w->p = p;
    w->k = p->k;
    w->c = c;
    w->scratch = scratch;
    w->used = 0;
    w->nd = c->ndim > 0 ? c->ndim : 1;
    w->nk = c->ndim > 0 ? c->ndim - c->nred : 1;
    w->all.n = w->kept.n = 0;
    for (int d = w->nd; d-- > 0;) {
        w->len[d] = c->ndim > 0 ? c->shape[d] : 1;
        w->linear[d] = linear;
        linear *= w->len[d];
        w->chunk[d] = 1;
        w->at[d] = 0;
    }
    w->linear_first = 0;
    if (p->scan && c->backwards) {
        w->linear_first = w->len[w->nd - 1] - 1;
        w->linear[w->nd - 1] = -1;
    }
}
/* Once the chunks and the boxes are fixed: buffers, and what does not change from block to
** block. */
static void walk_prepare(walk *w) {
    const tidei_vm_program *p = w->p;
    for (int d = 0; d < w->nd; d++) w->now[d] = w->chunk[d];
    w->lanes = box_lanes(w, &w->all);
    for (unsigned i = 0; i < p->nregs; i++)
        w->ptr[VM_SLOT_REGISTER + i] = buffer(w, w->lanes * p->reg_width[i]);
    for (unsigned i = 0; i < p->ninputs; i++) {
        if (!p->input_width[i]) continue;
        w->input[i] = place(w, &w->all, w->c->in[i].strides);
        w->splatted[i] = NULL;
        if (w->input[i] != IN_PLACE) w->input_buffer[i] = buffer(w, w->lanes * p->input_width[i]);
    }
    if (p->linear) w->ptr[VM_SLOT_LINEAR] = buffer(w, w->lanes * 8);
    for (unsigned i = 0; i < p->nscalars; i++) {
        const unsigned t = p->scalar_dtype[i], width = tidei_vm_value_width(t);
        const unsigned char *x = w->c->scalars[i];
        _Alignas(16) unsigned char value[16];
        if (tidei_vm_is_half(t)) {
            w->k->load[t](value, x, NULL, NULL, 1);
            x = value;
        }
        w->ptr[VM_SLOT_SCALAR + i] = buffer(w, w->lanes * width);
        w->k->splat[tidei_vm_log2(width)](w->ptr[VM_SLOT_SCALAR + i], x, NULL, NULL, w->lanes);
    }
}

/* The dimension along which the walk goes from block to block, among first .. end-1; -1: one block
** is all. */
static int walked(const walk *w, int first, int end) {
    for (int d = end; d-- > first;)
        if (w->chunk[d] < w->len[d]) return d;
    return -1;
}
static void fetch_slot(walk *w, unsigned slot, int d, int64_t stride, unsigned width) {
    const int64_t ahead = w->chunk[d] * stride * (int64_t)width;
    if (ahead != 0) w->fetch[w->nfetch++] = (fetched){slot, ahead, w->lanes * width};
}
/* Decides what is fetched ahead on the way along d. */
static void fetch_prepare(walk *w, int d, unsigned nouts) {
    const tidei_vm_program *p = w->p;
    size_t lines = 0, per_element = 0;
    double elements = 1;
    for (int i = 0; i < w->nd; i++) elements *= (double)w->len[i];
    w->nfetch = 0;
    for (unsigned i = 0; i < p->ninputs; i++) per_element += p->input_width[i];
    if (d < 0 || elements * (double)per_element < PREFETCH_BYTES) return;
    for (unsigned i = 0; i < p->ninputs; i++)
        if (p->input_width[i] && w->input[i] == IN_PLACE)
            fetch_slot(w, VM_SLOT_INPUT + i, d, w->c->in[i].strides[d], p->input_width[i]);
    for (unsigned i = 0; i < nouts; i++)
        if (w->out[i] == IN_PLACE)
            fetch_slot(w, VM_SLOT_OUT + i, d, w->c->out[i].strides[d], p->out_width[i]);
    for (unsigned i = 0; i < w->nfetch; i++) lines += w->fetch[i].bytes / CACHE_LINE + 1;
    w->fetch_share = p->ninstrs ? lines / p->ninstrs + 1 : lines;
}

/* ---- without a fold ---- */
/* Whether output o lies over an input that an instruction still reads once the output is
** written. */
static bool written_too_early(const walk *w, unsigned o) {
    for (unsigned i = 0; i < w->p->ninputs; i++)
        if (w->p->input_width[i] && w->c->in[i].base == w->c->out[o].base &&
            w->p->input_last[i] > w->p->out_written[o])
            return true;
    return false;
}

static void run_map(walk *w) {
    stretch(w, 0, w->nd - 1, lanes_for(lane_bytes(w->p), 0));
    add_dims(w, &w->all, 0, w->nd);
    w->kept = w->all;
    walk_prepare(w);
    for (unsigned o = 0; o < w->p->nouts; o++) {
        w->out[o] = place(w, &w->kept, w->c->out[o].strides);
        if (written_too_early(w, o)) w->out[o] = PACKED;
        if (w->out[o] != IN_PLACE) w->out_buffer[o] = buffer(w, w->lanes * w->p->out_width[o]);
    }
    fetch_prepare(w, walked(w, 0, w->nd), w->p->nouts);
    do {
        bind_inputs(w);
        bind_outs(w);
        execute(w, box_lanes(w, &w->all));
        flush_outs(w);
    } while (advance(w, 0, w->nd));
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

static void folding_init(folding *f, const walk *w) {
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
static int badly_placed(const walk *w, int dim) {
    int n = 0;
    for (unsigned i = 0; i < w->p->ninputs; i++)
        n += w->p->input_width[i] && w->c->in[i].strides[dim] != 0 && w->c->in[i].strides[dim] != 1;
    return n;
}

/* Chooses the box; returns how many levels of groups there may be. */
static int choose_box(walk *w, folding *f) {
    int64_t folded = 1, room;
    int levels = 1;
    for (int d = w->nk; d < w->nd; d++) folded *= w->len[d];
    while (f->grouped && folded >> levels >= GROUP) levels++;
    room = lanes_for(lane_bytes(w->p) + f->width + (f->join ? 0 : sizeof(int64_t)),
                     f->width * (size_t)(f->grouped ? levels + 2 : 2)); /* result and count too */
    f->by_columns = w->nk > 0 && badly_placed(w, w->nd - 1) > badly_placed(w, w->nk - 1);
    if (f->by_columns) {
        room = stretch(w, 0, w->nk - 1, room);
        if (room > 1) w->chunk[w->nd - 1] = even_chunk(w->len[w->nd - 1], room);
        add_dims(w, &w->all, w->nk, w->nd);
        add_dims(w, &w->all, 0, w->nk);
    } else {
        room = stretch(w, w->nk, w->nd - 1, room);
        if (room > 1) stretch(w, 0, w->nk - 1, room);
        add_dims(w, &w->all, 0, w->nd);
    }
    add_dims(w, &w->kept, 0, w->nk);
    return levels;
}

static void folding_prepare(folding *f, walk *w, int levels) {
    const size_t bytes = w->lanes * f->width, results = box_lanes(w, &w->kept);
    f->acc = buffer(w, bytes);
    f->nlevels = f->grouped ? levels : 0;
    for (int i = 0; i < f->nlevels; i++) f->level[i] = buffer(w, bytes);
    if (!f->join) f->where = (int64_t *)(void *)buffer(w, w->lanes * sizeof(int64_t));
    f->result = buffer(w, results * (f->join ? f->width : sizeof(int64_t)));
    if (w->p->fold == TIDEI_FOLD_MEAN) {
        _Alignas(16) unsigned char n[16];
        double folded = 1;
        for (int d = w->nk; d < w->nd; d++) folded *= (double)w->len[d];
        encode_real(folded, w->p->acc_dtype, n);
        f->count = buffer(w, results * f->width);
        w->k->splat[f->log2 - (f->parts - 1)](f->count, n, NULL, NULL, results * f->parts);
    }
    w->out[0] = place(w, &w->kept, w->c->out[0].strides);
    if (w->out[0] != IN_PLACE) w->out_buffer[0] = buffer(w, results * w->p->out_width[0]);
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

static void add_block(folding *f, const walk *w, const void *x, size_t n) {
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
static void add_arg_block(folding *f, const walk *w, const void *x, size_t n) {
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
static void fold_lanes(folding *f, const walk *w, size_t kept) {
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
static void pick_lanes(folding *f, const walk *w, size_t kept) {
    tidei_vm_argpick_fn *pick = w->k->argpick[w->p->fold == TIDEI_FOLD_ARGMAX][w->p->acc_dtype];
    const size_t m = f->lanes / kept;
    const size_t next = f->by_columns ? 1 : m, step = f->by_columns ? kept : 1;
    int64_t *r = (int64_t *)(void *)f->result;
    for (size_t i = 0; i < kept; i++)
        r[i] = pick(f->acc + i * next * f->width, f->where + i * next, m, step);
}

static void store_results(folding *f, walk *w, size_t kept) {
    const unsigned t = w->p->out_dtype;
    bind_outs(w);
    if (f->count)
        w->k->op[TIDEI_OP_DIV][f->real](f->result, f->result, f->count, NULL, kept * f->parts);
    if (tidei_vm_is_half(t))
        w->k->store[t](w->ptr[VM_SLOT_OUT], f->result, NULL, NULL, kept);
    else
        w->k->copy[tidei_vm_log2(w->p->out_width[0])](w->ptr[VM_SLOT_OUT], f->result, NULL, NULL,
                                                      kept);
    flush_outs(w);
}

static void run_fold(walk *w) {
    folding f;
    folding_init(&f, w);
    const int levels = choose_box(w, &f);
    walk_prepare(w);
    folding_prepare(&f, w, levels);
    fetch_prepare(w, walked(w, w->nk, w->nd) >= 0 ? walked(w, w->nk, w->nd) : walked(w, 0, w->nk),
                  0);
    do {
        const size_t kept = box_lanes(w, &w->kept);
        f.groups = 0;
        f.fill = 0;
        f.lanes = box_lanes(w, &w->all);
        do {
            const size_t n = box_lanes(w, &w->all);
            bind_inputs(w);
            execute(w, n);
            if (f.join)
                add_block(&f, w, w->ptr[w->p->value], n);
            else
                add_arg_block(&f, w, w->ptr[w->p->value], n);
        } while (advance(w, w->nk, w->nd));
        if (f.join) {
            close_all(&f);
            fold_lanes(&f, w, kept);
        } else {
            pick_lanes(&f, w, kept);
        }
        store_results(&f, w, kept);
    } while (advance(w, 0, w->nk));
}

/* ---- scans ---- */
/* The box: lines by rows, each with its elements one after the other, or by columns, line beside
** line; returns which. */
static bool choose_scan_box(walk *w) {
    const int axis = w->nd - 1;
    int64_t room = lanes_for(lane_bytes(w->p) + tide_dtype_size(w->p->scan->acc), 0);
    bool by_columns = w->nk > 0 && badly_placed(w, axis) > badly_placed(w, axis - 1);
    if (by_columns) {
        room = stretch(w, 0, axis - 1, room);
        w->chunk[axis] = even_chunk(w->len[axis], room);
        add_dims(w, &w->all, axis, w->nd);
        add_dims(w, &w->all, 0, axis);
    } else {
        room = stretch(w, axis, axis, room);
        if (room > 1) stretch(w, 0, axis - 1, room);
        add_dims(w, &w->all, 0, w->nd);
    }
    w->kept = w->all; /* where results are stored */
    return by_columns;
}

static void run_scan(walk *w) {
    const tidei_scan_kind *kind = w->p->scan;
    const int axis = w->nd - 1;
    const bool by_columns = choose_scan_box(w);
    walk_prepare(w);
    w->out[0] = place(w, &w->kept, w->c->out[0].strides);
    if (w->out[0] != IN_PLACE) w->out_buffer[0] = buffer(w, w->lanes * w->p->out_width[0]);
    tidei_scan_lanes l = {
        .so_far = buffer(w, w->lanes / (size_t)w->chunk[axis] * tide_dtype_size(kind->acc))};
    fetch_prepare(w, walked(w, axis, w->nd) >= 0 ? axis : walked(w, 0, axis), 1);
    do {
        do {
            bind_inputs(w);
            bind_outs(w);
            execute(w, box_lanes(w, &w->all));
            l.x = w->ptr[w->p->value];
            l.y = w->ptr[VM_SLOT_OUT];
            l.begins = w->at[axis] == 0;
            l.n = (size_t)w->now[axis];
            l.lines = box_lanes(w, &w->all) / l.n;
            l.apart = by_columns ? 1 : l.n;
            l.step = by_columns ? l.lines : 1;
            kind->lanes(&l);
            flush_outs(w);
        } while (advance(w, axis, w->nd));
    } while (advance(w, 0, axis));
}

void tidei_vm_run(const tidei_vm_program *p, const tidei_vm_call *c) {
    _Alignas(BUFFER_ALIGN) unsigned char scratch[SCRATCH_BYTES];
    walk w;
    walk_init(&w, p, c, scratch);
    if (p->fold == TIDEI_FOLD_NONE)
        run_map(&w);
    else if (p->scan)
        run_scan(&w);
    else
        run_fold(&w);
}
