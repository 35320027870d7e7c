/* vm_walk.c: the walk through an iteration space (vm_walk.h). */
#include "arrays/expr/vm_walk.h"

enum {
    /* what a block's instructions touch; a quarter of a first-level cache was the fastest part */
    HOT_BYTES = 12 << 10,
    LANES_MIN = 16, /* 256 nodes of 16 bytes and the rest stay within the scratch memory */
    LANES_MAX = 4096,
    CACHE_LINE = 64,
    /* walks over more memory than a second-level cache holds fetch the next block ahead */
    PREFETCH_BYTES = 1 << 20
};

unsigned char *tidei_walk_buffer(tidei_walk *w, size_t bytes) {
    unsigned char *b = w->scratch + w->used;
    w->used += tidei_round_up(bytes, TIDEI_WALK_ALIGN);
    tidei_check(w->used <= TIDEI_WALK_SCRATCH);
    return b;
}

/* ---- the box ---- */
size_t tidei_walk_lanes(const tidei_walk *w, const tidei_box *b) {
    size_t n = 1;
    for (int i = 0; i < b->n; i++) n *= (size_t)w->now[b->dim[i]];
    return n;
}
static int64_t offset(const tidei_walk *w, const int64_t *strides) {
    int64_t o = 0;
    for (int d = 0; d < w->nd; d++) o += w->at[d] * strides[d];
    return o;
}

int64_t tidei_walk_even_chunk(int64_t len, int64_t room) {
    if (len <= room) return len;
    const int64_t pieces = (len + room - 1) / room;
    const int64_t even = (len + pieces - 1) / pieces;
    const int64_t rounded = (even + 15) / 16 * 16;
    return rounded <= room ? rounded : even;
}
int64_t tidei_walk_stretch(tidei_walk *w, int first, int last, int64_t room) {
    for (int d = last; d >= first; d--) {
        w->chunk[d] = tidei_walk_even_chunk(w->len[d], room);
        room = w->chunk[d] < w->len[d] ? 1 : room / w->chunk[d];
    }
    return room;
}
void tidei_walk_add_dims(tidei_walk *w, tidei_box *b, int first, int end) {
    for (int d = first; d < end; d++)
        if (w->chunk[d] > 1) b->dim[b->n++] = d;
}

size_t tidei_walk_pieces(const tidei_walk *w, int d) {
    return (size_t)((w->len[d] + w->chunk[d] - 1) / w->chunk[d]);
}
size_t tidei_walk_blocks(const tidei_walk *w, int first, int end) {
    size_t n = 1;
    for (int d = first; d < end; d++) n *= tidei_walk_pieces(w, d);
    return n;
}
size_t tidei_walk_seek(tidei_walk *w, int first, int end, size_t block, size_t n) {
    n = tidei_min_size(n, tidei_walk_blocks(w, first, end) - block);
    for (int d = end - 1; d >= first; d--) {
        const size_t there = tidei_walk_pieces(w, d);
        w->at[d] = (int64_t)(block % there) * w->chunk[d];
        w->now[d] = w->len[d] - w->at[d] < w->chunk[d] ? w->len[d] - w->at[d] : w->chunk[d];
        block /= there;
    }
    return n;
}
bool tidei_walk_advance(tidei_walk *w, int first, int end) {
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
tidei_placement tidei_walk_place(const tidei_walk *w, const tidei_box *b, const int64_t *strides) {
    bool same = true, in_order = true;
    int64_t expected = 1;
    for (int i = b->n; i-- > 0;) {
        const int d = b->dim[i];
        same &= strides[d] == 0;
        in_order &= strides[d] == expected && (i == 0 || w->chunk[d] == w->len[d]);
        expected *= w->chunk[d];
    }
    return in_order ? TIDEI_IN_PLACE : same ? TIDEI_SPLAT : TIDEI_PACKED;
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

static void move(const tidei_walk *w, const tidei_box *b, const mover *m, unsigned char *packed,
                 move_fn *fn) {
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

void tidei_walk_bind_inputs(tidei_walk *w) {
    const tidei_vm_program *p = w->p;
    for (unsigned i = 0; i < p->ninputs; i++) {
        const unsigned width = p->input_width[i];
        const tidei_vm_operand *x = &w->c->in[i];
        unsigned char *at;
        if (!width) continue;
        at = x->base + offset(w, x->strides) * width;
        w->ptr[VM_SLOT_INPUT + i] = w->input[i] == TIDEI_IN_PLACE ? at : w->input_buffer[i];
        if (w->input[i] == TIDEI_PACKED) {
            const mover m = {w->k, x->strides, tidei_vm_log2(width), at, 0};
            move(w, &w->all, &m, w->input_buffer[i], gather);
        } else if (w->input[i] == TIDEI_SPLAT && at != w->splatted[i]) {
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
static unsigned char *out_address(const tidei_walk *w, unsigned o) {
    return w->c->out[o].base + offset(w, w->c->out[o].strides) * w->p->out_width[o];
}
void tidei_walk_bind_outs(tidei_walk *w) {
    for (unsigned o = 0; o < w->p->nouts; o++)
        w->ptr[VM_SLOT_OUT + o] =
            w->out[o] == TIDEI_IN_PLACE ? out_address(w, o) : w->out_buffer[o];
}
void tidei_walk_flush_outs(tidei_walk *w) {
    for (unsigned o = 0; o < w->p->nouts; o++) {
        const mover m = {w->k, w->c->out[o].strides, tidei_vm_log2(w->p->out_width[o]),
                         out_address(w, o), 0};
        if (w->out[o] != TIDEI_IN_PLACE) move(w, &w->kept, &m, w->out_buffer[o], scatter);
    }
}

/* ---- instructions ---- */
/* Prefetches `lines` more cache lines of the next block; *which and *done say how far that has
** come. */
static void fetch_ahead(const tidei_walk *w, size_t lines, unsigned *which, size_t *done) {
    while (lines > 0 && *which < w->nfetch) {
        const tidei_fetched *f = &w->fetch[*which];
        const unsigned char *next = (const unsigned char *)w->ptr[f->slot] + f->ahead;
        for (; lines > 0 && *done < f->bytes; lines--, *done += CACHE_LINE)
            __builtin_prefetch(next + *done, 0, 2);
        if (*done >= f->bytes) {
            ++*which;
            *done = 0;
        }
    }
}

void tidei_walk_execute(tidei_walk *w, size_t n) {
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
size_t tidei_walk_lane_bytes(const tidei_vm_program *p) {
    size_t n = p->linear ? 8 : 0;
    for (unsigned i = 0; i < p->nregs; i++) n += p->reg_width[i];
    for (unsigned i = 0; i < p->ninputs; i++) n += p->input_width[i];
    for (unsigned i = 0; i < p->nscalars; i++) n += tidei_vm_value_width(p->scalar_dtype[i]);
    for (unsigned i = 0; i < p->nouts; i++) n += p->out_width[i];
    return n;
}
int64_t tidei_walk_lanes_for(size_t hot, size_t cold) {
    const size_t slack = 16 << 10; /* of rounding, and what is small */
    size_t n =
        tidei_min_size(HOT_BYTES / (hot + 1), (TIDEI_WALK_SCRATCH - slack) / (hot + cold + 1));
    n = n >= 64 ? n / 64 * 64 : n / LANES_MIN * LANES_MIN; /* whole vectors, whole lines of cache */
    return (int64_t)tidei_min_size(tidei_max_size(n, LANES_MIN), LANES_MAX);
}

void tidei_walk_init(tidei_walk *w, const tidei_vm_program *p, const tidei_vm_call *c,
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
void tidei_walk_prepare(tidei_walk *w) {
    const tidei_vm_program *p = w->p;
    for (int d = 0; d < w->nd; d++) w->now[d] = w->chunk[d];
    w->lanes = tidei_walk_lanes(w, &w->all);
    for (unsigned i = 0; i < p->nregs; i++)
        w->ptr[VM_SLOT_REGISTER + i] = tidei_walk_buffer(w, w->lanes * p->reg_width[i]);
    for (unsigned i = 0; i < p->ninputs; i++) {
        if (!p->input_width[i]) continue;
        w->input[i] = tidei_walk_place(w, &w->all, w->c->in[i].strides);
        w->splatted[i] = NULL;
        if (w->input[i] != TIDEI_IN_PLACE)
            w->input_buffer[i] = tidei_walk_buffer(w, w->lanes * p->input_width[i]);
    }
    if (p->linear) w->ptr[VM_SLOT_LINEAR] = tidei_walk_buffer(w, w->lanes * 8);
    for (unsigned i = 0; i < p->nscalars; i++) {
        const unsigned t = p->scalar_dtype[i], width = tidei_vm_value_width(t);
        const unsigned char *x = w->c->scalars[i];
        _Alignas(16) unsigned char value[16];
        if (tidei_vm_is_half(t)) {
            w->k->load[t](value, x, NULL, NULL, 1);
            x = value;
        }
        w->ptr[VM_SLOT_SCALAR + i] = tidei_walk_buffer(w, w->lanes * width);
        w->k->splat[tidei_vm_log2(width)](w->ptr[VM_SLOT_SCALAR + i], x, NULL, NULL, w->lanes);
    }
}

int tidei_walk_way(const tidei_walk *w, int first, int end) {
    for (int d = end; d-- > first;)
        if (w->chunk[d] < w->len[d]) return d;
    return -1;
}
static void fetch_slot(tidei_walk *w, unsigned slot, int d, int64_t stride, unsigned width) {
    const int64_t ahead = w->chunk[d] * stride * (int64_t)width;
    if (ahead != 0) w->fetch[w->nfetch++] = (tidei_fetched){slot, ahead, w->lanes * width};
}
void tidei_walk_fetch_prepare(tidei_walk *w, int d, unsigned nouts) {
    const tidei_vm_program *p = w->p;
    size_t lines = 0, per_element = 0;
    double elements = 1;
    for (int i = 0; i < w->nd; i++) elements *= (double)w->len[i];
    w->nfetch = 0;
    for (unsigned i = 0; i < p->ninputs; i++) per_element += p->input_width[i];
    if (d < 0 || elements * (double)per_element < PREFETCH_BYTES) return;
    for (unsigned i = 0; i < p->ninputs; i++)
        if (p->input_width[i] && w->input[i] == TIDEI_IN_PLACE)
            fetch_slot(w, VM_SLOT_INPUT + i, d, w->c->in[i].strides[d], p->input_width[i]);
    for (unsigned i = 0; i < nouts; i++)
        if (w->out[i] == TIDEI_IN_PLACE)
            fetch_slot(w, VM_SLOT_OUT + i, d, w->c->out[i].strides[d], p->out_width[i]);
    for (unsigned i = 0; i < w->nfetch; i++) lines += w->fetch[i].bytes / CACHE_LINE + 1;
    w->fetch_share = p->ninstrs ? lines / p->ninstrs + 1 : lines;
}
