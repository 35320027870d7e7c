/* cuda_pairs.c: folds of pairs (cuda_pairs.h): the sides of a program's values, the division of a
** call, the text.
**
** Model: an input goes with the rows or with the columns; so does every value that is made of
** inputs of one side. Those of them that the rest of the body uses are staged; the rest, which is
** made of both sides, is the body of a pair.
** What must stay true: pure arithmetic; the text depends on the program and its inputs' sides
** alone. */
#include "arrays/expr/cuda_pairs.h"
#include "arrays/expr/cuda_say.h"
#include <stdlib.h>
#include <string.h>

/* ---- tuning: what another GPU may want otherwise ---- */

/* By an accumulator's bytes. Larger tiles would stage less for each result, but then there are
** fewer of them, and the last ones leave multiprocessors idle: 1638 x 1638 floats of 100 took 87 us
** by tiles of twice the size, two blocks a multiprocessor, and 63 by these (H100). */
typedef struct tile {
    uint8_t acc;
    uint8_t sides[2]; /* rows and columns of a thread: with as many totals they fill half at most of
                      ** the registers that so many blocks leave to it */
    uint8_t blocks;   /* that a multiprocessor has at once */
    /* A block takes as long for one reduced element of its tile as the kernels of cuda_fold.cu take
    ** for so many elements on one multiprocessor: 0.05 to 0.1 us, and 0.06 ns (long rows) to
    ** 0.24 ns (rows of 64), on an H200. */
    uint16_t pays;
} tile;
static const tile tiles[] = {{4, {4, 4}, 3, 250}, {8, {4, 4}, 2, 500}, {16, {4, 2}, 2, 500}};
/* Bytes of a thread's values of one reduced element, in registers; three blocks leave room for
** half. */
#define FRAGMENTS_MAX 192u
/* Reduced elements staged at once: enough to hide the way to memory behind another block's work,
** and few enough for several blocks a multiprocessor. */
#define STAGED       32u
#define STAGED_LEAST 4u
#define STAGED_BYTES ((unsigned)24 << 10)
/* Instructions of a step that are unrolled twice, so that values are read ahead. */
#define COST_TWICE 256u
/* Beyond it the body is a function that is called. */
#define COST_INLINE 2048u
/* Reduced elements of a stretch at least, where blocks are too few. */
#define STRETCH 128

/* ---- sides ---- */

enum { NEITHER = 0, BOTH = 3 }; /* else 1 << TIDEI_PAIRS_ROWS, or _COLUMNS */

static unsigned operands_of(const tidei_node *n) {
    return n->op < TIDEI_OP_CAST    ? 0
           : n->op == TIDEI_OP_CAST ? 1
                                    : (unsigned)tidei_op_infos[n->op].arity;
}

static void find_sides(const tidei_program *p, uint32_t columns, uint8_t *side) {
    for (unsigned i = 0; i < p->nnodes; i++) {
        const tidei_node *n = &p->nodes[i];
        const uint16_t operand[3] = {n->a, n->b, n->c};
        side[i] = n->op == TIDEI_OP_INPUT ? (uint8_t)(1 << (columns >> n->a & 1)) : NEITHER;
        for (unsigned k = 0; k < operands_of(n); k++) side[i] |= side[operand[k]];
    }
}

/* Adds node i to what its side stages, once. */
static bool stage(const tidei_program *p, unsigned i, const uint8_t *side, tidei_pairs_traits *t) {
    const int s = side[i] - 1;
    for (unsigned k = 0; k < t->nvalues[s]; k++)
        if (t->values[s][k] == i) return true;
    if (t->nvalues[s] == TIDEI_PAIRS_VALUES) return false;
    t->values[s][t->nvalues[s]++] = (uint16_t)i;
    const int d = p->nodes[i].dtype;
    t->bytes[s] = (uint16_t)(t->bytes[s] + (is_half(d) ? 4 : tide_dtype_size(d)));
    return true;
}

static bool is_one_side(uint8_t side) { return side != NEITHER && side != BOTH; }

static bool find_values(const tidei_program *p, const uint8_t *side, tidei_pairs_traits *t) {
    const unsigned out = p->out_node[0];
    bool fits = true;
    for (unsigned i = 0; i < p->nnodes && fits; i++) {
        const tidei_node *n = &p->nodes[i];
        const uint16_t operand[3] = {n->a, n->b, n->c};
        for (unsigned k = 0; side[i] == BOTH && k < operands_of(n); k++)
            if (is_one_side(side[operand[k]])) fits &= stage(p, operand[k], side, t);
    }
    return fits && (!is_one_side(side[out]) || stage(p, out, side, t));
}

static unsigned pair_cost(const tidei_program *p, const uint8_t *side) {
    unsigned cost = 1;
    for (unsigned i = 0; i < p->nnodes; i++)
        if (side[i] == BOTH) cost += node_cost(p, &p->nodes[i]);
    return cost;
}

size_t tidei_pairs_shared(const tidei_pairs_traits *t, unsigned cshift) {
    const size_t rows = (size_t)t->tile[0] << cshift, columns = (size_t)t->tile[1] << (8 - cshift);
    return t->staged * (rows * t->bytes[0] + columns * t->bytes[1] +
                        16 * (size_t)(t->nvalues[0] + t->nvalues[1]));
}

bool tidei_pairs_traits_of(const tidei_program *p, uint32_t columns, tidei_pairs_traits *t) {
    uint8_t side[TIDEI_NODES_MAX];
    const size_t acc = is_arg(p->fold) ? 16 : tide_dtype_size(p->acc_dtype);
    unsigned k = 0;
    *t = (tidei_pairs_traits){.columns = columns, .staged = STAGED};
    find_sides(p, columns, side);
    if (!find_values(p, side, t)) return false;
    while (tiles[k].acc < acc) k++;
    memcpy(t->tile, tiles[k].sides, sizeof t->tile);
    t->blocks = tiles[k].blocks;
    t->pays = tiles[k].pays;
    t->unroll = pair_cost(p, side) * t->tile[0] * t->tile[1] <= COST_TWICE ? 2 : 1;
    while (t->staged > STAGED_LEAST && tidei_pairs_shared(t, 4) > STAGED_BYTES) t->staged /= 2;
    const unsigned fragments = (unsigned)t->tile[0] * t->bytes[0] + t->tile[1] * t->bytes[1];
    if (fragments > FRAGMENTS_MAX / 2 && t->blocks > 2) t->blocks = 2;
    return fragments <= FRAGMENTS_MAX && tidei_pairs_shared(t, 4) <= TIDEI_CUDA_SHARED_MAX;
}

/* ---- the division of a call ---- */

static int64_t quotient_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

/* Whether each input lacks dimension i or j, and both are needed. */
static bool lacks_one(const tidei_call *c, int i, int j, uint32_t *columns) {
    bool rows = false, any = false;
    *columns = 0;
    for (unsigned k = 0; k < c->prog->ninputs; k++) {
        const int64_t *s = c->in[k].strides;
        if (s[i] && s[j]) return false;
        if (!s[i]) *columns |= 1u << k;
        rows |= s[i] != 0;
        any |= s[j] != 0;
    }
    return rows && any;
}

/* The shape of a tile with the fewest of them; of such, with the fewest elements that are
** staged. */
static void divide_results(const tidei_call *c, tidei_pairs *p) {
    const tidei_pairs_traits *t = &p->traits;
    int64_t least = INT64_MAX, staged = INT64_MAX;
    for (unsigned s = 1; s < 8; s++) {
        const int64_t rows = (int64_t)t->tile[0] << s, columns = (int64_t)t->tile[1] << (8 - s);
        const int64_t a = quotient_up(c->shape[p->dim[0]], rows),
                      b = quotient_up(c->shape[p->dim[1]], columns);
        if (tidei_pairs_shared(t, s) > TIDEI_CUDA_SHARED_MAX) continue;
        if (a * b > least || (a * b == least && rows + columns >= staged)) continue;
        least = a * b;
        staged = rows + columns;
        p->cshift = s;
        p->tiles[0] = a;
        p->tiles[1] = b;
    }
}

/* Divides the reduced elements where blocks are too few; whether the whole pays. */
static bool divide(const tidei_call *c, int64_t sm_count, tidei_pairs *p) {
    const int kept = c->ndim - c->nred;
    int64_t count = 1, results = 1;
    for (int d = kept; d < c->ndim; d++) count *= c->shape[d];
    for (int d = 0; d < kept; d++) results *= c->shape[d];
    divide_results(c, p);
    p->blocks = p->tiles[0] * p->tiles[1] * (results / c->shape[p->dim[0]] / c->shape[p->dim[1]]);
    int64_t splits = sm_count * p->traits.blocks / p->blocks;
    if (splits > count / STRETCH) splits = count / STRETCH;
    p->chunk = quotient_up(count, splits > 1 ? splits : 1);
    if (splits > 1) p->chunk = quotient_up(p->chunk, STRETCH) * STRETCH;
    p->splits = quotient_up(count, p->chunk);
    const int64_t rounds = quotient_up(p->blocks * p->splits, sm_count);
    return p->blocks <= INT32_MAX && (double)rounds * (double)p->chunk * p->traits.pays <
                                         (double)results * (double)count / (double)sm_count;
}

bool tidei_pairs_find(const tidei_call *c, const tidei_cuda_traits *k, unsigned sm_count,
                      tidei_pairs *out) {
    const int kept = c->ndim - c->nred;
    uint32_t columns;
    bool found = false;
    if (k->linear || c->prog->ninputs < 2) return false;
    for (int j = kept - 1; j >= 0; j--)
        for (int i = kept - 1; i >= 0; i--) {
            tidei_pairs p = {.dim = {i, j}};
            if (i == j || !lacks_one(c, i, j, &columns)) continue;
            /* results side by side are columns, if there are any */
            if (found && llabs(c->out[0].strides[j]) >= llabs(c->out[0].strides[out->dim[1]]))
                continue;
            if (!tidei_pairs_traits_of(c->prog, columns, &p.traits) ||
                !divide(c, sm_count ? sm_count : 1, &p))
                continue;
            *out = p;
            found = true;
        }
    return found;
}

/* ---- the text ---- */

static const char *const names[2] = {"row", "column"};

/* "room + tide_K * (tile * 8u + 16u)": where values before the k-th of a side end. */
static void say_room(text *t, const tidei_program *p, const tidei_pairs_traits *s, int side,
                     unsigned k) {
    unsigned bytes = 0;
    for (unsigned i = 0; i < k; i++) {
        const int d = p->nodes[s->values[side][i]].dtype;
        bytes += is_half(d) ? 4 : (unsigned)tide_dtype_size(d);
    }
    sayf(t, "tide_K * (tile * %uu + %uu)", bytes, 16 * k);
}

/* tide_row_x, tide_get, tide_set. */
static void say_making(text *t, const tidei_program *p, const tidei_pairs_traits *s, int side,
                       const uint8_t *sides) {
    sayf(t, "struct tide_%s_x {\n", names[side]);
    for (unsigned i = 0; i < p->ninputs; i++)
        if ((int)(s->columns >> i & 1) == side)
            sayf(t, "    td_%s i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    sayf(t, "};\nTD_FN void tide_get(const tide_p &p, const tide_at &at, tide_%s_x &x) {\n",
         names[side]);
    for (unsigned i = 0; i < p->ninputs; i++)
        if ((int)(s->columns >> i & 1) == side) sayf(t, "    x.i%u = p.i%u[at.i%u];\n", i, i, i);
    sayf(t,
         "}\nTD_FN void tide_set(const tide_p &p, char *room, td_u32 tile, td_u32 k, td_u32 r, "
         "const tide_%s_x &x) {\n",
         names[side]);
    for (unsigned i = 0; i < p->ninputs; i++)
        if ((int)(s->columns >> i & 1) == side)
            sayf(t, "    const td_%s x%u = x.i%u;\n", tide_dtype_name(p->input_dtype[i]), i, i);
    for (unsigned i = 0; i < p->nnodes; i++)
        if (!(sides[i] & ~(1 << side))) say_node(t, p, i);
    for (unsigned k = 0; k < s->nvalues[side]; k++) {
        const unsigned n = s->values[side][k];
        const char *name = value_name(p->nodes[n].dtype);
        sayf(t, "    reinterpret_cast<td_%s *>(room + ", name);
        say_room(t, p, s, side, k);
        sayf(t, ")[k * (tile + 16 / sizeof(td_%s)) + r] = n%u;\n", name, n);
    }
    say(t, "}\n");
}

/* tide_rows, tide_read. */
static void say_reading(text *t, const tidei_program *p, const tidei_pairs_traits *s, int side) {
    sayf(t, "struct tide_%ss {\n", names[side]);
    for (unsigned k = 0; k < s->nvalues[side]; k++) {
        const unsigned n = s->values[side][k];
        sayf(t, "    td_%s n%u[%d];\n", value_name(p->nodes[n].dtype), n, s->tile[side]);
    }
    sayf(t,
         "};\nTD_FN void tide_read(const char *room, td_u32 tile, td_u32 k, td_u32 r, tide_%ss &x) "
         "{\n",
         names[side]);
    for (unsigned k = 0; k < s->nvalues[side]; k++) {
        const unsigned n = s->values[side][k];
        const char *name = value_name(p->nodes[n].dtype);
        sayf(t, "    tide_vectors(reinterpret_cast<const td_%s *>(room + ", name);
        say_room(t, p, s, side, k);
        sayf(t, ") + k * (tile + 16 / sizeof(td_%s)) + r, x.n%u);\n", name, n);
    }
    say(t, "}\n");
}

/* tide_pair. */
static void say_pair(text *t, const tidei_program *p, const tidei_pairs_traits *s,
                     const uint8_t *sides) {
    const bool outline = pair_cost(p, sides) * s->tile[0] * s->tile[1] > COST_INLINE;
    sayf(t, "%s td_%s tide_f(const tide_p &p", outline ? "static __device__ __noinline__" : "TD_FN",
         value_name(p->acc_dtype));
    for (int side = 0; side < 2; side++)
        for (unsigned k = 0; k < s->nvalues[side]; k++) {
            const unsigned n = s->values[side][k];
            sayf(t, ", td_%s n%u", value_name(p->nodes[n].dtype), n);
        }
    say(t, ") {\n");
    for (unsigned i = 0; i < p->nnodes; i++)
        if (sides[i] == NEITHER || sides[i] == BOTH) say_node(t, p, i);
    sayf(t,
         "    return n%u;\n}\nTD_FN td_%s tide_pair(const tide_p &p, const tide_rows &r, int m, "
         "const tide_columns &c, int n) {\n    return tide_f(p",
         p->out_node[0], value_name(p->acc_dtype));
    for (unsigned k = 0; k < s->nvalues[0]; k++) sayf(t, ", r.n%u[m]", s->values[0][k]);
    for (unsigned k = 0; k < s->nvalues[1]; k++) sayf(t, ", c.n%u[n]", s->values[1][k]);
    say(t, ");\n}\n");
}

void tidei_pairs_say(text *t, const tidei_program *p, const tidei_pairs_traits *s) {
    uint8_t sides[TIDEI_NODES_MAX];
    const bool sum =
        p->fold == TIDEI_FOLD_SUM || p->fold == TIDEI_FOLD_PROD || p->fold == TIDEI_FOLD_MEAN;
    find_sides(p, s->columns, sides);
    sayf(
        t,
        "constexpr int tide_M = %d, tide_N = %d, tide_K = %d, tide_unroll = %d, tide_blocks = %d;\n"
        "constexpr bool tide_runs = %s;\ntypedef td_%s tide_out;\n",
        s->tile[0], s->tile[1], s->staged, s->unroll, s->blocks,
        sum && class_of(p->acc_dtype) >= 2 ? "true" : "false", tide_dtype_name(p->out_dtype[0]));
    say(t, "template <int N, class V> TD_FN void tide_vectors(const V *from, V (&to)[N]);\n"
           "TD_FN td_u32 tide_rows_bytes(td_u32 tile) { return ");
    say_room(t, p, s, TIDEI_PAIRS_ROWS, s->nvalues[TIDEI_PAIRS_ROWS]);
    say(t, "; }\n");
    for (int side = 0; side < 2; side++) {
        say_making(t, p, s, side, sides);
        say_reading(t, p, s, side);
    }
    say_pair(t, p, s, sides);
}
