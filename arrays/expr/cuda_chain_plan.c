/* cuda_chain_plan.c: from a call of a chain to a launch: which form, how many blocks, which
** parameters.
**
** Model: pure arithmetic on shapes and strides, as cuda_plan.c. A row is loaded by vectors where
** all operands lie so; where they do not, but are dense and each row begins equally far behind a
** boundary in all of them, by vectors but for what is before the first boundary and behind the
** last; else by elements. It goes to threads that have CHAIN_BYTES of it at most: to lanes of a
** warp, as many as cost least; to a block, a cluster of blocks; beyond that threads take twice as
** much, and beyond that it is not kept at all. Short rows of odd lengths that lie one after the
** other are a thread's each. Of rows across memory a block has so many neighbouring ones as make a
** piece of memory; where fewer lie side by side, other ways are compared by what they cost.
** What must stay true: every element is visited once, and which threads a row's elements go to
** follows from the call's shape, types, strides and offsets, and the device's kind, alone: of how
** many rows there are only whether they are few. */
#include "arrays/expr/cuda_chain.h"

/* Bytes of a row that a thread has under way. An H200's memory wants 64 KiB of a multiprocessor;
** with 1024 threads there it is twice that, since half of them compute while the others wait. More
** would not fit their registers. */
#define CHAIN_BYTES   128u
#define CHAIN_THREADS TIDEI_CHAIN_LARGE
/* Vectors of a row that a thread of a block has at least where results have all elements: with
** fewer, threads would do little but wait for each other; with more, fewer threads have loads under
** way (8192 rows of 4096 on an H200: a layer norm takes 97, 68.8, 70.2 us with 2, 4, 8). Where a
** row has one result, what is joined costs more: an argmax takes 78, 48, 38 us. */
#define CHAIN_FEW  4u
#define CHAIN_LINE 128u /* bytes of a line of the cache */
/* fewer bytes side by side than this are not worth being read alone: two sectors */
#define CHAIN_NARROW 64
/* Blocks of a cluster for rows of which fewer than CHAIN_NARROW bytes lie side by side; half as
** many where vectors are of one or two bytes, of which clusters have so little under way that it is
** faster to go value by value (x - max along 20000 bytes, three of which lie side by side, on an
** H200: 252, 703 GB/s). */
#define NARROW_BLOCKS 8u
/* more bytes than any device's caches hold */
#define CHAIN_CACHE ((int64_t)64 << 20)
/* a thread's unrolled body, in instructions: beyond, compilers take long */
#define CHAIN_COST  2048u
#define CHAIN_BRIEF 16u /* instructions of an element: sums and squares, without functions */
/* Rows of a thread beside each other: each has accumulators and values of its own. Where results
** have all elements more threads do better than more rows (softmax of rows of 7 on an H200: 2707,
** 2543, 2251 GB/s with 1, 2, 4; of 33 it is 2 that is best). */
#define CHAIN_ROWS         8u
#define CHAIN_ROWS_WRITTEN 2u
/* A fold by itself of so many bytes across memory is better off with two kernels (on an H100, for
** two and for one, 2048 x 1000 floats: 5.6, 4.3 us; 8192 x 1024: 11.1, 13.9). */
#define CHAIN_FOLD_COLUMNS ((int64_t)16 << 20)
#define CHAIN_FOLD_BYTES   ((int64_t)1 << 16) /* elements of an uneven row of bytes, for one */
/* elements' and rows' numbers stay below this, with room for a block beyond the end */
#define CHAIN_LARGE (((int64_t)1 << 31) - ((int64_t)1 << 16))
/* the columns' fold kernel (cuda_fold.cu) is as good with more lanes a row than this (1023 rows of
** 32800 floats on an H200: 2814 GB/s there, 3277 here) */
#define CHAIN_FOLD_LANES 128u

/* Columns that go to threads alone, by the other kernels (tidei_cuda_is_alone), rather than to
** lanes: where a thread would load fewer bytes at once than this, or have accumulators of more, all
** of which are joined (on an H200: sums of 73 bf16, whose neighbours make no vectors, 1018 GB/s by
** lanes; of 33 u8, in 64 bits, 115). Side by side they are a warp's at least. */
#define ALONE_LOAD        8u
#define ALONE_ACCUMULATED 32u
#define ALONE_BESIDE      32u

static uint32_t pow2_up(uint32_t n) { return n > 1 ? 2u << (31 - __builtin_clz(n - 1)) : 1; }
static uint32_t pow2_down(uint32_t n) { return n ? 1u << (31 - __builtin_clz(n)) : 1; }
static uint32_t quotient_up(uint32_t n, uint32_t d) { return (n + d - 1) / d; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t log2_of(uint32_t n) { return (uint32_t)__builtin_ctz(n); } /* of a power of two */
static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

void tidei_chain_order(tidei_call *c, const tidei_chain_traits *k) {
    const tidei_cuda_traits order = {.linear = k->linear || k->arg};
    tidei_cuda_order(c, &order);
}

/* ---- what the operands are ---- */

typedef struct layout {
    const tidei_call *c;
    int kept, last;  /* dimensions that stay; the folded one */
    uint32_t widest; /* bytes of an element */
    uint32_t early;  /* bytes of all inputs that are kept from the beginning, one element each */
    int64_t moved;   /* bytes of all that has more than one element a row */
    unsigned lead;   /* the input that moves most bytes */
    uint32_t uneven; /* elements of a vector where rows may begin anywhere; 0: they may not */
    uint32_t splat;  /* of the bytes `early`, those of inputs with one element for a vector */
    bool words;      /* all inputs with elements along a row can lie in words */
    bool columns;
} layout;

/* Whether some result has all elements. */
static bool has_all(const layout *l, const tidei_chain_form *f) {
    return f->single != (1u << l->c->prog->nouts) - 1;
}

static bool same_for_all_rows(const layout *l, const tidei_view *v) {
    for (int d = 0; d < l->kept; d++)
        if (v->strides[d]) return false;
    return true;
}

static int64_t bytes_of(const tidei_call *c, const tidei_view *v, uint32_t bytes) {
    int64_t moved = bytes;
    for (int d = 0; d < c->ndim; d++)
        if (v->strides[d]) moved *= c->shape[d];
    return moved;
}

/* Looks at an input that has an element for each of the row. How the one lies that moves most bytes
** decides: `most` so far. */
static void look(layout *l, unsigned i, uint32_t bytes, int64_t *most) {
    const tidei_view *v = &l->c->in[i];
    const int64_t moved = bytes_of(l->c, v, bytes);
    l->moved += moved;
    if (moved <= *most) return;
    *most = moved;
    l->lead = i;
    if (!l->kept) return;
    const int64_t a = magnitude(v->strides[l->kept - 1]), b = magnitude(v->strides[l->last]);
    l->columns = a != 0 && a < b;
}

static void look_at_operands(layout *l, const tidei_chain_traits *k, tidei_chain_form *f) {
    const tidei_program *p = l->c->prog;
    int64_t most = 0;
    l->words = true;
    for (unsigned i = 0; i < p->ninputs; i++) {
        const tidei_view *v = &l->c->in[i];
        const uint32_t bytes = (uint32_t)tidei_dtype_size(p->input_dtype[i]);
        if (v->strides[l->last] == 0) {
            f->flat |= (uint16_t)(1u << i);
            continue;
        }
        look(l, i, bytes, &most);
        l->words &= tidei_chain_in_words(p->input_dtype[i]);
        if (bytes > l->widest) l->widest = bytes;
        if (!(k->folded >> i & 1) && l->kept && same_for_all_rows(l, v))
            f->late |= (uint16_t)(1u << i);
        else
            l->early += bytes;
    }
    for (unsigned i = 0; i < p->nouts; i++) {
        const uint32_t bytes = (uint32_t)tidei_dtype_size(p->out_dtype[i]);
        if (l->c->out[i].strides[l->last] == 0 && l->c->shape[l->last] > 1)
            f->single |= (uint8_t)(1u << i);
        else {
            l->moved += bytes_of(l->c, &l->c->out[i], bytes);
            if (bytes > l->widest) l->widest = bytes;
        }
    }
}

/* Whether each input lacks one of two kept dimensions, so that a row is one of pairs. */
static bool are_pairs(const tidei_call *c, int i, int j) {
    bool first = false, second = false;
    for (unsigned k = 0; k < c->prog->ninputs; k++) {
        const int64_t *s = c->in[k].strides;
        if (s[i] && s[j]) return false;
        first |= s[i] != 0;
        second |= s[j] != 0;
    }
    return first && second;
}

/* Folds of pairs whose rows are many more than what is read: kernels that have tiles of them at
** hand read each operand less often than those of rows, which would compute little else. */
static bool is_for_tiles(const layout *l, const tidei_chain_form *f) {
    if (has_all(l, f)) return false;
    for (int i = 0; i < l->kept; i++)
        for (int j = i + 1; j < l->kept; j++)
            if (are_pairs(l->c, i, j)) return true;
    return false;
}

/* Whether operand i moves by vectors of v elements along a dimension. */
static bool vector_fits(const layout *l, const tidei_view *o, int along, int64_t v) {
    if (o->strides[along] != 1 || o->offset % v) return false;
    for (int d = 0; d < l->c->ndim; d++)
        if (d != along && o->strides[d] % v) return false;
    return true;
}

static bool vectors_fit(const layout *l, tidei_chain_form *f, int along, uint32_t v) {
    const tidei_program *p = l->c->prog;
    f->splat = 0;
    if (l->c->shape[along] % v) return false;
    for (unsigned i = 0; i < p->ninputs; i++) {
        if (f->flat >> i & 1) continue;
        if (l->columns && l->c->in[i].strides[along] == 0)
            f->splat |= (uint16_t)(1u << i);
        else if (!vector_fits(l, &l->c->in[i], along, v))
            return false;
    }
    for (unsigned i = 0; i < p->nouts; i++)
        if (!(f->single >> i & 1) && !vector_fits(l, &l->c->out[i], along, v)) return false;
    return true;
}

static bool is_dense(const layout *l, const tidei_chain_form *f) {
    const tidei_program *p = l->c->prog;
    for (unsigned i = 0; i < p->ninputs; i++)
        if (!(f->flat >> i & 1) && l->c->in[i].strides[l->last] != 1) return false;
    for (unsigned i = 0; i < p->nouts; i++)
        if (!(f->single >> i & 1) && l->c->out[i].strides[l->last] != 1) return false;
    return true;
}

/* Whether each row begins equally far behind a boundary of v elements in both. */
static bool lie_alike(const layout *l, const tidei_view *a, const tidei_view *b, int64_t v) {
    if ((a->offset - b->offset) % v) return false;
    for (int d = 0; d < l->kept; d++)
        if ((a->strides[d] - b->strides[d]) % v) return false;
    return true;
}

/* Whether b has fewer rows than a, so that the cache keeps them. */
static bool is_repeated(const layout *l, const tidei_view *a, const tidei_view *b) {
    for (int d = 0; d < l->kept; d++)
        if (a->strides[d] && !b->strides[d]) return true;
    return false;
}

/* Whether rows may begin anywhere: finds what has boundaries of its own. */
static bool are_alike(const layout *l, const tidei_chain_form *f, uint32_t v, uint16_t *loose) {
    const tidei_program *p = l->c->prog;
    const tidei_view *lead = &l->c->in[l->lead];
    *loose = 0;
    if (!l->early || f->late >> l->lead & 1) return false;
    for (unsigned i = 0; i < p->ninputs; i++) {
        if (f->flat >> i & 1 || lie_alike(l, lead, &l->c->in[i], v)) continue;
        if (!is_repeated(l, lead, &l->c->in[i])) return false;
        *loose |= (uint16_t)(1u << i);
    }
    for (unsigned i = 0; i < p->nouts; i++)
        if (!(f->single >> i & 1) && !lie_alike(l, lead, &l->c->out[i], v)) return false;
    return true;
}

static void choose_vectors(layout *l, tidei_chain_form *f) {
    const int along = l->columns ? l->kept - 1 : l->last;
    const uint32_t most = pow2_down(least(8, l->widest ? 16 / least(l->widest, 16) : 1));
    uint32_t v = most;
    uint16_t loose;
    while (v > 1 && !vectors_fit(l, f, along, v)) v /= 2;
    if (v == 1) f->splat = 0;
    for (unsigned i = 0; i < l->c->prog->ninputs; i++)
        if ((f->splat & ~f->late) >> i & 1)
            l->splat += (uint32_t)tidei_dtype_size(l->c->prog->input_dtype[i]);
    f->vec = (uint8_t)v;
    f->dense = !l->columns && is_dense(l, f);
    l->uneven = v < most && f->dense && are_alike(l, f, most, &loose) ? most : 0;
}

static void make_uneven(const layout *l, tidei_chain_form *f, uint32_t v) {
    f->uneven = true;
    f->lead = (uint8_t)l->lead;
    f->vec = (uint8_t)v;
    are_alike(l, f, v, &f->loose);
}

/* ---- who works on what ---- */

/* Vectors of a row that a thread keeps, at most; by what values take too where these have 8 or 16
** bytes. Integers of one or two bytes along a row lie in words until they are used, of which an
** H200 adds up 64 a thread in 64 bits faster than 16 (GB/s, rows of 1000 i8: 2092, 804; of 1000
** u16: 3847, 1604; of 65536: 3969, 1571). Across memory a thread joins accumulators for each
** element of a vector in each stage, which takes longer than all else where it has few vectors: of
** elements of 4 bytes it keeps twice as many beside values of 8, if little is done with these. */
static uint32_t room_of(const layout *l, const tidei_chain_traits *k, uint32_t v) {
    const bool words = l->words && l->widest && l->widest <= 2 && !l->columns,
               brief = l->columns && l->widest == 4 && k->stages > 1 && k->cost <= CHAIN_BRIEF;
    const uint32_t wide = k->value_bytes == 16  ? 16
                          : k->value_bytes != 8 ? 1
                          : words               ? 2
                          : brief               ? 4
                                                : 8,
                   each = l->early    ? l->early
                          : l->widest ? l->widest
                                      : 8,
                   kept = v * each - (v - 1) * l->splat, bytes = kept > v * wide ? kept : v * wide;
    uint32_t u = pow2_down(least(16, bytes < CHAIN_BYTES ? CHAIN_BYTES / bytes : 1));
    while (u > 1 && k->cost * u * v > CHAIN_COST) u /= 2;
    return u;
}

/* Vectors that a thread keeps where it is not as many as there is room for: no more than it has, as
** the others would hold registers in vain; even numbers of many, so that kernels are few. */
static uint32_t kept_of(uint32_t m) { return m > 9 ? m + m % 2 : m; }

/* ---- what a way costs ---- */

/* How a warp shares rows: as many rows as make it whole, of which each is so many neighbours'. */
typedef struct sharing {
    uint32_t neighbours, unroll; /* threads of a row; vectors that a thread has of it */
    uint32_t vec, vectors;       /* elements of a vector, vectors of a row */
    uint32_t beside;             /* rows that lie side by side, between one vector and the next */
    uint32_t more;               /* instructions of a thread: for joining, for what goes alone */
} sharing;

/* What it costs a warp, roughly, in instructions of a lane: those of a thread and of a vector; and,
** of each stretch of memory that it reads or writes at once, lines that the cache is asked for,
** lines and sectors that are written. The numbers were fitted to what 2400 ways took on an H200, of
** columns and of rows: of those measured, the one that costs least by them is 1.6 % slower than the
** best in the mean. */
static uint64_t warp_cost(const layout *l, const tidei_chain_traits *k, const tidei_chain_form *f,
                          const sharing *s) {
    const uint32_t rows = 32 / s->neighbours, bytes = s->vec * (l->widest ? l->widest : 8),
                   thread = 40 + s->more + s->unroll * (4 + s->vec * k->cost);
    const size_t stretches = quotient_up(rows, s->beside),
                 each = (size_t)least(rows, s->beside) * bytes * s->neighbours,
                 span = stretches * s->vectors * s->beside * bytes, /* that all of them are in */
        lines = tidei_min_size(stretches * (1 + each / CHAIN_LINE), 1 + span / CHAIN_LINE),
                 sectors = tidei_min_size(stretches * (1 + (each - 1) / 32), 1 + span / 32),
                 written = has_all(l, f) ? 256 * lines + 192 * sectors : 0;
    return 32 * (uint64_t)thread + s->unroll * (128 * lines + written);
}

/* Instructions of a thread for joining an accumulator with its neighbours'. */
static uint32_t joining_cost(uint32_t neighbours) { return 16 + 8 * log2_of(neighbours); }

/* ---- rows of memory ---- */

/* Elements that go alone, in a row of uneven vectors, and so its lanes at least. */
static uint32_t alone_of(uint32_t v) { return pow2_up(2 * v - 2); }

/* How lanes of a warp could have a row. */
typedef struct lanes_way {
    uint32_t vec, lanes, unroll;
    bool uneven;
    uint64_t cost;
} lanes_way;

/* The cheapest way by vectors of v elements, if there is a better one than `best`. */
static void try_lanes(const layout *l, const tidei_chain_traits *k, const tidei_chain_form *f,
                      uint32_t v, bool uneven, lanes_way *best) {
    const uint32_t m = (uint32_t)l->c->shape[l->last] / v, room = room_of(l, k, v),
                   words = (k->acc_bytes + 3u) / 4;
    for (uint32_t lanes = uneven ? alone_of(v) : 1; m && lanes <= 32; lanes *= 2) {
        const uint32_t unroll = kept_of(quotient_up(m, lanes));
        if (unroll > room) continue;
        const sharing s = {.neighbours = lanes,
                           .unroll = unroll,
                           .vec = v,
                           .vectors = m,
                           .beside = 1,
                           .more = k->stages * words * joining_cost(lanes) +
                                   (uneven ? 100 + k->cost : 0)};
        const uint64_t cost = warp_cost(l, k, f, &s) * lanes;
        if (cost < best->cost) *best = (lanes_way){v, lanes, unroll, uneven, cost};
    }
}

/* Threads and blocks for rows so many of which are a block's of TIDEI_CHAIN_SMALL threads: small
** blocks where there are few, so that all multiprocessors have some. */
static void spread_rows(tidei_chain_plan *out, uint32_t rows, unsigned sm_count) {
    out->threads = TIDEI_CHAIN_SMALL;
    while (out->threads > 32 && (uint64_t)rows * 2 * sm_count > out->rows)
        out->threads /= 2, rows /= 2;
    out->grid = quotient_up(out->rows, rows);
}

/* Whether rows of n elements of an operand lie one after the other, from a boundary on. */
static bool is_one_piece(const tidei_view *v, int64_t n, size_t bytes) {
    return v->strides[0] == n && v->strides[1] == 1 && v->offset * (int64_t)bytes % 16 == 0;
}

/* What the room takes of a thread's row, where rows can be carried; else 0. Lengths are odd: so
** neighbouring threads find their elements in different banks of shared memory. */
static uint32_t carried_bytes(const layout *l, const tidei_chain_form *f) {
    const tidei_program *p = l->c->prog;
    const int64_t n = l->c->shape[l->last];
    uint32_t in = 0, outs = 0;
    if (!has_all(l, f) || l->kept != 1 || n % 2 == 0) return 0;
    for (unsigned i = 0; i < p->ninputs; i++) {
        const size_t bytes = tidei_dtype_size(p->input_dtype[i]);
        if ((f->flat | f->late) >> i & 1) continue;
        if (!is_one_piece(&l->c->in[i], n, bytes)) return 0;
        in += (uint32_t)bytes;
    }
    for (unsigned i = 0; i < p->nouts; i++) {
        const size_t bytes = tidei_dtype_size(p->out_dtype[i]);
        if (f->single >> i & 1) continue;
        if (!is_one_piece(&l->c->out[i], n, bytes)) return 0;
        outs += (uint32_t)bytes;
    }
    return in ? (uint32_t)n * (in > outs ? in : outs) : 0;
}

/* A row to a thread, by way of shared memory. */
static bool give_to_threads(const layout *l, const tidei_chain_traits *k, unsigned sm_count,
                            tidei_chain_plan *out) {
    tidei_chain_form *f = &out->form;
    const uint32_t n = (uint32_t)l->c->shape[l->last];
    if (n > room_of(l, k, 1)) return false;
    const uint32_t bytes = carried_bytes(l, f);
    if (!bytes || TIDEI_CHAIN_SMALL * bytes > TIDEI_CUDA_SHARED_MAX) return false;
    f->kind = TIDEI_CHAIN_LANES;
    f->carried = f->in_warp = true;
    f->vec = 1;
    f->unroll = (uint8_t)n;
    out->vectors = out->part = n;
    out->shift = 0;
    spread_rows(out, TIDEI_CHAIN_SMALL, sm_count);
    out->shared = out->threads * bytes;
    return true;
}

/* A row to a few lanes of a warp; false where it is too long. */
static bool give_to_lanes(const layout *l, const tidei_chain_traits *k, unsigned sm_count,
                          tidei_chain_plan *out) {
    tidei_chain_form *f = &out->form;
    const uint32_t n = (uint32_t)l->c->shape[l->last];
    lanes_way s = {.cost = UINT64_MAX};
    try_lanes(l, k, f, f->vec, false, &s);
    for (uint32_t v = l->uneven; v > 1; v /= 2) try_lanes(l, k, f, v, true, &s);
    if (!s.unroll) return false;
    if (s.uneven) make_uneven(l, f, s.vec);
    f->kind = TIDEI_CHAIN_LANES;
    f->in_warp = true;
    f->lanes = (uint8_t)s.lanes;
    f->unroll = (uint8_t)s.unroll;
    f->rows = (uint8_t)least(room_of(l, k, s.vec) / (s.unroll + s.uneven),
                             has_all(l, f) ? CHAIN_ROWS_WRITTEN : CHAIN_ROWS);
    if (!f->rows) f->rows = 1;
    out->vectors = out->part = n / s.vec;
    out->shift = log2_of(s.lanes);
    spread_rows(out, f->rows * TIDEI_CHAIN_SMALL >> out->shift, sm_count);
    return true;
}

/* Threads of a block that has so many vectors of a row, each as many as there is room for, or fewer
** (CHAIN_FEW). */
static uint32_t threads_of(bool written, uint32_t part, uint32_t *room) {
    while (written && *room > CHAIN_FEW && quotient_up(part, *room / 2) <= CHAIN_THREADS)
        *room /= 2;
    return quotient_up(quotient_up(part, *room), 32) * 32;
}

/* Blocks of a row: as few as hold it; where they are a cluster, so many that those which run at
** once hold most (rows of 50257 floats: five blocks of 320 threads, three of which a multiprocessor
** takes, rather than four of 416). */
static uint32_t blocks_of(bool written, uint32_t vectors, uint32_t room, uint32_t threads,
                          uint32_t most) {
    const uint32_t fewest = quotient_up(vectors, CHAIN_THREADS * room);
    uint32_t best = fewest, held = 0;
    for (uint32_t blocks = fewest; fewest > 1 && blocks <= most; blocks++) {
        const uint32_t part = quotient_up(vectors, blocks);
        uint32_t each = room;
        const uint32_t at_once = threads / threads_of(written, part, &each) * part;
        if (at_once > held) best = blocks, held = at_once;
    }
    return least(best, most);
}

/* A row to blocks of whole warps. `threads`: of a multiprocessor, whose registers have the room. */
static bool give_to_blocks(const layout *l, tidei_chain_plan *out, uint32_t room, uint32_t threads,
                           uint32_t most_blocks) {
    tidei_chain_form *f = &out->form;
    const bool written = has_all(l, f);
    const uint32_t blocks = blocks_of(written, out->vectors, room, threads, most_blocks);
    out->part = quotient_up(out->vectors, blocks);
    out->threads = threads_of(written, out->part, &room);
    if (out->threads > CHAIN_THREADS) return false;
    f->kind = TIDEI_CHAIN_BLOCK;
    f->streams = l->moved > CHAIN_CACHE;
    f->unroll = (uint8_t)kept_of(quotient_up(out->part, out->threads));
    f->blocks = (uint8_t)blocks;
    out->shift = 0;
    out->grid = out->rows;
    return true;
}

/* The same by few blocks, which wait less for each other, or by as many as there may be. */
static bool give_to_cluster(const layout *l, tidei_chain_plan *out, uint32_t room, uint32_t threads,
                            uint32_t most_blocks) {
    return give_to_blocks(l, out, room, threads, least(most_blocks, TIDEI_CLUSTER_SURE)) ||
           (most_blocks > TIDEI_CLUSTER_SURE && give_to_blocks(l, out, room, threads, most_blocks));
}

/* Of a cluster that has a fold by itself: a launch less than blocks that leave their accumulators
** to another kernel. Of bytes a thread would have so many elements that the cluster's few
** multiprocessors take longer (the greatest of 379891 on an H100: 7.2, 12.0 us); unless rows begin
** anywhere and are not long: the other kernels take those element by element. */
static uint32_t fold_blocks(const layout *l, uint32_t most) {
    const bool short_uneven = l->uneven && l->c->shape[l->last] < CHAIN_FOLD_BYTES;
    return l->widest > 1 || short_uneven ? most : 1;
}

static bool give_row(const layout *l, const tidei_chain_traits *k, unsigned sm_count,
                     unsigned cluster_most, bool alone, tidei_chain_plan *out) {
    if (give_to_threads(l, k, sm_count, out) || give_to_lanes(l, k, sm_count, out)) return true;
    if (l->uneven) make_uneven(l, &out->form, l->uneven);
    const uint32_t v = out->form.vec, room = room_of(l, k, v),
                   most = alone ? fold_blocks(l, cluster_most) : cluster_most;
    /* Twice as much a thread, where a row is not kept otherwise, may take twice as long to compile
    ** (softmax of 330125 floats on an H200: value by value 1482 GB/s, so 2048); not where values
    ** are of 8 bytes, of which functions take more registers than there are. */
    const uint32_t twice = k->value_bytes > 4 ? CHAIN_COST : 2 * CHAIN_COST;
    out->vectors = (uint32_t)l->c->shape[l->last] / v;
    return give_to_cluster(l, out, room, 2 * CHAIN_THREADS, most) ||
           (!alone && k->cost * 2 * room * v <= twice &&
            give_to_cluster(l, out, 2 * room, CHAIN_THREADS, most));
}

/* What a stage's accumulators take in shared memory, twice so that stages take turns, and twice
** more where blocks meet, in words, with a count for each stage behind them. */
static bool find_shared(const tidei_chain_traits *k, tidei_chain_plan *out) {
    const tidei_chain_form *f = &out->form;
    if (f->carried) return true; /* found already */
    const uint32_t across = f->kind == TIDEI_CHAIN_COLUMNS ? 1u << out->shift : 1,
                   parts = f->in_warp    ? 0
                           : across < 32 ? out->threads / 32 * across
                                         : out->threads,
                   met = f->blocks > 1 ? f->blocks * across : 0, most = parts > met ? parts : met,
                   wide = f->kind == TIDEI_CHAIN_COLUMNS ? f->vec : 1;
    out->room = (most * wide * ((k->acc_bytes + 3u) / 4 * 4) + 15) / 16 * 16;
    out->shared = f->blocks > 1 ? out->room * 4 + k->stages * 8 : out->room * 2;
    return out->shared <= TIDEI_CUDA_SHARED_MAX;
}

/* Where rows run across memory: bytes that a block reads side by side, with how many blocks of a
** cluster that is worth it; the best first. */
typedef struct pieces {
    uint16_t bytes;
    uint8_t blocks;
} pieces;
#define PIECES_MOST 3
static const pieces folded[PIECES_MOST] = {{64, 8}}, folded_narrow[PIECES_MOST] = {{64, 2}},
                    even[PIECES_MOST] = {{128, 8}, {64, 16}},
                    uneven_narrow[PIECES_MOST] = {{128, 16}},
                    uneven[PIECES_MOST] = {{512, 8}, {256, 16}, {128, 16}};

/* Pieces that begin anywhere are parts of more lines and sectors than they have bytes for, so that
** wide ones are better: softmax of 1000 rows of 33554 floats on an H100: 1758, 2157, 2344 GB/s with
** pieces of 128, 256 and 512 bytes; of 4097 rows of 8190, by 16 blocks: 1711 and 1892 with 128 and
** 256. Elements of two bytes are too many for their threads: 1231, 1141, 715. Where each row has
** one result, going value by value reads all once for each stage, which is faster than wider
** clusters (a variance of 10174 rows of 3296 floats on an H200: 959 GB/s by 16 blocks, else 1393;
** of as many rows of 6592 bf16 by 4 blocks 522, else 1021). */
static const pieces *pieces_of(const layout *l, const tidei_chain_form *f) {
    if (!has_all(l, f)) return l->widest < 4 ? folded_narrow : folded;
    return f->vec * l->widest >= 16 ? even : l->widest < 4 ? uneven_narrow : uneven;
}

/* Lanes of a row across memory, a power of two, of a block that has room for so many at most, and
** how many blocks, as few as hold the row; 0 if there are not as many. Threads that have a few
** vectors more than there is room for spare the joining, or half of the lanes. */
static uint32_t share_row(uint32_t m, uint32_t room, uint32_t most_lanes, uint32_t most_blocks,
                          uint32_t *blocks) {
    const uint32_t unroll = m <= 2 * room ? m : room + room / 8;
    uint32_t lanes = pow2_up(quotient_up(m, unroll));
    for (*blocks = 1; lanes > most_lanes && *blocks < most_blocks;) {
        *blocks *= 2;
        lanes = pow2_up(quotient_up(quotient_up(m, *blocks), unroll));
    }
    return lanes <= most_lanes ? lanes : 0;
}

/* So many neighbouring rows across memory are a block's, or a cluster's, each so many lanes' of
** every block. All three are powers of two. */
static void set_columns(const layout *l, tidei_chain_plan *out, uint32_t across, uint32_t lanes,
                        uint32_t blocks) {
    tidei_chain_form *f = &out->form;
    out->threads = across * lanes < 32 ? 32 : across * lanes;
    out->part = quotient_up(out->vectors, blocks);
    f->kind = TIDEI_CHAIN_COLUMNS;
    f->streams = l->moved > CHAIN_CACHE;
    f->unroll = (uint8_t)kept_of(quotient_up(out->part, lanes));
    f->blocks = (uint8_t)blocks;
    f->in_warp = false;
    f->lanes = 1;
    out->shift = log2_of(out->threads / lanes);
}

/* Blocks, with no more threads than there are rows for. */
static void shrink_columns(tidei_chain_plan *p) {
    while (p->threads > 32 && p->rows <= 1u << p->shift >> 1) {
        p->threads /= 2;
        p->shift--;
    }
    p->grid = quotient_up(p->rows, 1u << p->shift);
}

/* Whether it fits shared memory, with no more threads than there are rows for. */
static bool fits_shared(const tidei_chain_traits *k, const tidei_chain_plan *p) {
    tidei_chain_plan launched = *p;
    if (!p->form.in_warp) shrink_columns(&launched);
    return find_shared(k, &launched);
}

/* As many rows as make whole pieces of memory. */
static bool give_columns_to(const layout *l, tidei_chain_plan *out, uint32_t room,
                            uint32_t across_bytes, uint32_t most_blocks) {
    const uint32_t bytes = out->form.vec * l->widest,
                   narrow = bytes < across_bytes ? across_bytes / bytes : 1;
    uint32_t blocks;
    const uint32_t lanes =
        share_row(out->vectors, room, CHAIN_THREADS / narrow, most_blocks, &blocks);
    if (!lanes) return false;
    const uint32_t threads = lanes * 2 * narrow <= 256 ? 256 : CHAIN_THREADS;
    set_columns(l, out, threads / lanes, lanes, blocks);
    return true;
}

static bool give_wide_columns(const layout *l, const tidei_chain_traits *k, unsigned cluster_most,
                              bool alone, tidei_chain_plan *out) {
    const uint32_t v = out->form.vec, room = room_of(l, k, v);
    const pieces *p = pieces_of(l, &out->form), *last = p;
    if (alone)
        return give_columns_to(l, out, room, folded[0].bytes, cluster_most) && fits_shared(k, out);
    for (unsigned i = 0; i < PIECES_MOST && p[i].bytes; i++) {
        last = &p[i];
        if (give_columns_to(l, out, room, last->bytes, least(last->blocks, cluster_most)) &&
            fits_shared(k, out))
            return true;
    }
    return has_all(l, &out->form) && k->cost * 2 * room * v <= CHAIN_COST &&
           give_columns_to(l, out, 2 * room, last->bytes, least(last->blocks, cluster_most)) &&
           fits_shared(k, out);
}

/* What a row costs, as warp_cost. `beside`: vectors that lie side by side. */
static uint64_t columns_cost(const layout *l, const tidei_chain_traits *k,
                             const tidei_chain_plan *p, uint32_t beside) {
    const tidei_chain_form *f = &p->form;
    const uint32_t words = f->vec * ((k->acc_bytes + 3u) / 4),
                   lanes = f->in_warp ? f->lanes : p->threads >> p->shift,
                   neighbours = least(lanes, 32 / least(1u << p->shift, 32));
    uint32_t join = words * joining_cost(neighbours);
    if (!f->in_warp) { /* by shared memory, as tide_join_block does it (cuda_chain.cu) */
        const uint32_t parts = p->shift < 5 ? p->threads / 32 : lanes,
                       readers = least(32u >> least(p->shift, 5), pow2_down(parts));
        join += 64 + words * 32;
        if (parts > 1) join += words * (24 * quotient_up(parts, readers) + 8 * log2_of(readers));
    }
    if (f->blocks > 1) join += 256;
    const sharing s = {.neighbours = neighbours,
                       .unroll = f->unroll,
                       .vec = f->vec,
                       .vectors = p->vectors,
                       .beside = beside,
                       .more = k->stages * join};
    return warp_cost(l, k, f, &s) * lanes * f->blocks;
}

/* Where few rows lie side by side, and then other rows' elements, a thread's neighbours can have
** more of the same rows, so that a warp reads what lies together. Takes the cheapest of these ways,
** unless `out` is a plan already and is cheaper. */
static bool give_narrow_columns(const layout *l, const tidei_chain_traits *k, unsigned sm_count,
                                uint32_t most_blocks, uint32_t beside, bool planned,
                                tidei_chain_plan *out) {
    const uint32_t room = room_of(l, k, out->form.vec), across = pow2_up(beside),
                   most = CHAIN_THREADS / across;
    uint64_t best = planned ? columns_cost(l, k, out, beside) : UINT64_MAX;
    uint32_t blocks, lanes = share_row(out->vectors, room, most, most_blocks, &blocks);
    for (; lanes && lanes <= most && lanes < 2 * out->vectors; lanes *= 2) {
        tidei_chain_plan p = *out;
        set_columns(l, &p, across, lanes, blocks);
        if (blocks == 1 && across * lanes <= 32) {
            p.form.in_warp = true;
            p.form.lanes = (uint8_t)lanes;
            p.shift = log2_of(across);
            spread_rows(&p, TIDEI_CHAIN_SMALL / lanes, sm_count);
        }
        const uint64_t cost = columns_cost(l, k, &p, beside);
        if (cost < best && fits_shared(k, &p)) {
            *out = p;
            best = cost;
        }
    }
    return best != UINT64_MAX;
}

/* Vectors across memory that lie side by side, from one element of a row to the next. */
static uint64_t beside_of(const layout *l, uint32_t v) {
    const tidei_view *lead = &l->c->in[l->lead];
    uint64_t n = 1;
    for (int d = l->kept - 1; d >= 0; d--) {
        const int64_t stride = magnitude(lead->strides[d]);
        if (!stride || stride >= magnitude(lead->strides[l->last])) break;
        n *= (uint64_t)l->c->shape[d];
    }
    return n / v;
}

/* Whether columns of a fold by itself are better off as a thread's each. */
static bool are_alone(const layout *l, const tidei_chain_traits *k, unsigned sm_count,
                      const tidei_chain_plan *p) {
    const uint32_t v = p->form.vec;
    return tidei_cuda_is_alone(p->rows, p->vectors, sm_count) &&
           p->vectors > 2 * room_of(l, k, v) && beside_of(l, 1) >= ALONE_BESIDE &&
           (v * l->widest < ALONE_LOAD || v * k->acc_bytes > ALONE_ACCUMULATED);
}

static bool give_columns(const layout *l, const tidei_chain_traits *k, unsigned sm_count,
                         unsigned cluster_most, bool alone, tidei_chain_plan *out) {
    const uint32_t bytes = out->form.vec * l->widest;
    const uint64_t beside = beside_of(l, out->form.vec);
    out->vectors = (uint32_t)l->c->shape[l->last];
    if (alone) {
        const bool few = l->moved < CHAIN_FOLD_COLUMNS;
        if (!few && (out->vectors > room_of(l, k, out->form.vec) * CHAIN_FOLD_LANES ||
                     are_alone(l, k, sm_count, out)))
            return false;
        cluster_most = few ? fold_blocks(l, cluster_most) : 1;
    }
    bool planned = give_wide_columns(l, k, cluster_most, alone, out);
    /* other kernels take long rows of bytes (the greatest of 1000, of which five lie side by side,
    ** on an H200: 889, 1320 GB/s) */
    const bool left = alone && !planned && l->widest == 1;
    if (l->kept > 1 && beside * bytes < CHAIN_NARROW && !left)
        planned = give_narrow_columns(l, k, sm_count,
                                      least(cluster_most, NARROW_BLOCKS / (bytes < 4 ? 2 : 1)),
                                      (uint32_t)beside, planned, out);
    if (!planned) return false;
    if (!out->form.in_warp) shrink_columns(out);
    return true;
}

bool tidei_chain_choose(const tidei_call *c, const tidei_chain_traits *k, bool folds_alone,
                        unsigned sm_count, unsigned cluster_most, tidei_chain_plan *out) {
    layout l = {.c = c, .kept = c->ndim - c->nred, .last = c->ndim - 1};
    int64_t rows = 1;
    if (!k->fits || c->nred != 1 || c->shape[l.last] >= CHAIN_LARGE) return false;
    for (int d = 0; d < l.kept; d++)
        if (__builtin_mul_overflow(rows, c->shape[d], &rows)) return false;
    if (rows >= CHAIN_LARGE) return false;
    memset(&out->form, 0, sizeof out->form);
    out->form.rows = out->form.blocks = out->form.lanes = 1;
    out->form.nested = l.kept > 1;
    out->room = 0;
    look_at_operands(&l, k, &out->form);
    if (is_for_tiles(&l, &out->form)) return false;
    choose_vectors(&l, &out->form);
    out->rows = (uint32_t)rows / (l.columns ? out->form.vec : 1);
    if (!cluster_most) cluster_most = 1;
    if (!(l.columns ? give_columns(&l, k, sm_count, cluster_most, folds_alone, out)
                    : give_row(&l, k, sm_count, cluster_most, folds_alone, out)))
        return false;
    if ((uint64_t)out->grid * out->form.blocks > INT32_MAX) return false;
    out->grid *= out->form.blocks;
    out->form.large = out->threads > TIDEI_CHAIN_SMALL;
    out->form.middle = out->form.large && out->threads <= TIDEI_CHAIN_MIDDLE && !l.columns &&
                       out->form.blocks > 1 && l.early <= 2;
    return find_shared(k, out);
}

/* ---- parameters ---- Fields in the order of struct tide_p (cuda_chain_text.c: say_params). */

void tidei_chain_params(const tidei_call *c, const tidei_chain_plan *plan, tidei_cuda_plan *out) {
    const unsigned nin = c->prog->ninputs, n = nin + (unsigned)c->prog->nouts;
    const int kept = c->ndim - c->nred, last = c->ndim - 1;
    const bool columns = plan->form.kind == TIDEI_CHAIN_COLUMNS;
    const int64_t v = plan->form.vec;
    unsigned char *at = out->params.bytes + 8 * (size_t)n; /* addresses come at the launch */
    out->noperands = n;
    out->scalars_at = c->prog->nscalars ? (size_t)(at - out->params.bytes) : 0;
    memcpy(at, c->scalars, 16 * (size_t)c->prog->nscalars);
    at += 16 * (size_t)c->prog->nscalars;
    int64_t *strides = (int64_t *)(void *)at, *steps = strides + TIDE_MAX_RANK * n,
            *over = steps + n;
    tidei_cuda_divisor *div = (tidei_cuda_divisor *)(over + n + 1);
    uint32_t *numbers = (uint32_t *)(div + TIDE_MAX_RANK);
    for (unsigned i = 0; i < n; i++) {
        const tidei_view *o = i < nin ? &c->in[i] : &c->out[i - nin];
        const bool vectors = tidei_chain_by_vectors(&plan->form, nin, i);
        for (int d = 0; d < kept; d++) {
            const int64_t stride = o->strides[kept - 1 - d] * (columns && d == 0 ? v : 1);
            strides[(unsigned)d * n + i] = vectors ? stride / v : stride;
        }
        if (!kept) strides[i] = 0;
        steps[i] = vectors && columns ? o->strides[last] / v : o->strides[last];
        over[i] = kept ? o->strides[kept - 1] : 0;
    }
    over[n] = c->shape[last];
    for (int d = 0; d < kept; d++)
        div[d] = tidei_cuda_divisor_of(c->shape[kept - 1 - d] / (columns && d == 0 ? v : 1));
    const uint32_t given[] = {kept ? (uint32_t)kept - 1 : 0,
                              plan->rows,
                              plan->vectors,
                              plan->part,
                              plan->shift,
                              plan->room};
    memcpy(numbers, given, sizeof given);
    out->params_bytes =
        (size_t)((unsigned char *)(numbers + TIDEI_COUNT(given)) - out->params.bytes);
    tidei_check(out->params_bytes <= sizeof out->params);
}
