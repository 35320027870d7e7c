/* cuda_text.c: writes the CUDA text of a program's kernels.
**
** Model: prelude.h and cuda_base.cu, the same for all; then the program's own part (parameters, one
** element's body, how operands are found and loaded); then the loop, one of cuda_map.cu,
** cuda_words.cu, cuda_uneven.cu, cuda_tile.cu, cuda_fold.cu, cuda_pair.cu.
** What must stay true: the text depends on the program and the class alone, so it can be a cache's
** key; scalars, shapes and strides are parameters. */
#include "arrays/expr/cuda_text.h"
#include "arrays/expr/cuda_pairs.h"
#include "arrays/expr/cuda_say.h"

extern const char tidei_cuda_base_text[], tidei_cuda_map_text[], tidei_cuda_words_text[],
    tidei_cuda_uneven_text[], tidei_cuda_tile_text[], tidei_cuda_locate_text[],
    tidei_cuda_fold_text[], tidei_cuda_pair_text[], tidei_cuda_scan_text[], tidei_scan_forms_text[];

const tidei_op_text tidei_op_texts[TIDEI_OP_COUNT] = {
#define TIDEI_OP(ident, name, arity, rule, bool_expr, int_expr, float_expr, complex_expr, ulps,    \
                 notes)                                                                            \
    [TIDEI_OP_##ident] = {{#bool_expr, #int_expr, #float_expr, #complex_expr}, arity},
#include "arrays/expr/ops.def"
#undef TIDEI_OP
};

/* ---- traits ---- */

/* Code that unrolling would multiply beyond this makes compiling slow and the loop no faster. */
#define COST_UNROLL 512u
#define COST_INLINE 2048u

void tidei_cuda_traits_of(const tidei_program *p, tidei_cuda_traits *out) {
    unsigned cost = 1, in = 0, in_max = 1, all_max = 1, outs = 0;
    memset(out, 0, sizeof *out);
    for (unsigned i = 0; i < p->nnodes; i++) {
        out->linear |= p->nodes[i].op == TIDEI_OP_LINEAR;
        out->functions |= needs_functions(p, &p->nodes[i]);
        out->complex |= tidei_dtype_kind(p->nodes[i].dtype) == TIDEI_KIND_COMPLEX;
        cost += node_cost(p, &p->nodes[i]);
    }
    for (unsigned i = 0; i < p->ninputs; i++) {
        unsigned b = (unsigned)tide_dtype_size(p->input_dtype[i]);
        in += b;
        if (b > in_max) in_max = b;
    }
    all_max = in_max;
    for (unsigned i = 0; i < p->nouts; i++) {
        unsigned b = (unsigned)tide_dtype_size(p->out_dtype[i]);
        outs += b;
        if (b > all_max) all_max = b;
    }
    if (tidei_is_scan(p->fold)) { /* a lane computes up to 32 elements, in one of two ways */
        memset(out->vec, 1, sizeof out->vec);
        memset(out->unroll, 1, sizeof out->unroll);
        out->complex = true; /* scan_ops.h has theirs */
        out->outline = 64 * cost > COST_INLINE;
        return;
    }
    const bool fold = p->fold != TIDEI_FOLD_NONE;
    if (fold) {
        bool arg = p->fold == TIDEI_FOLD_ARGMIN || p->fold == TIDEI_FOLD_ARGMAX;
        out->acc_bytes = arg ? 16 : (uint16_t)tide_dtype_size(p->acc_dtype);
    }
    for (int c = 0; c < TIDEI_CUDA_CLASSES; c++) {
        /* Bytes that a thread has under way: 64 to 96 fill the memory's pipes at the occupancy that
        ** is left. A fold's vectors are bounded by its accumulators' registers. */
        bool vectors = c == TIDEI_CUDA_FLAT || c == TIDEI_CUDA_ROWS || c == TIDEI_CUDA_FOLD_ROW ||
                       c == TIDEI_CUDA_FOLD_COLUMN;
        unsigned v = c == TIDEI_CUDA_UNEVEN ? (all_max < 4 ? 4 / all_max : 1)
                     : !vectors             ? 1
                     : fold                 ? floor_pow2(16 / in_max, 1, 8)
                                            : 16 / all_max;
        /* down columns one of two inputs is mostly stretched, and the cache has its elements */
        const bool one = p->ninputs == 2 && c == TIDEI_CUDA_FOLD_COLUMN;
        unsigned moved = v * (one    ? in_max
                              : in   ? in
                              : outs ? outs
                                     : 1),
                 room = p->ninputs > 3 ? 24u / p->ninputs : 8;
        unsigned u = floor_pow2(96 / moved, 1, vectors && !fold ? 4 : 8);
        if (!vectors) u = floor_pow2(room, 1, u);
        if (c == TIDEI_CUDA_STRIDED && u > 4) u = 4; /* each carries its offsets along */
        /* many small blocks in turn: memory is then read and written in shorter turns (a copy on an
        ** H200: 66 us instead of 70) */
        if (c == TIDEI_CUDA_FLAT && !fold) u = 1;
        while (u > 1 && cost * u * v > COST_UNROLL) u /= 2;
        out->vec[c] = (uint8_t)v;
        out->unroll[c] = (uint8_t)u;
        if (cost * u * v > COST_INLINE) out->outline = true;
    }
    out->vec[TIDEI_CUDA_FOLD_JOIN] = 1;
    out->unroll[TIDEI_CUDA_FOLD_JOIN] = 4;
    out->tile = in_max <= 4 ? 64 : 32;
}

/* ---- parameters ---- */

static bool is_fold(tidei_cuda_class c) {
    return c >= TIDEI_CUDA_FOLD_ROW && c <= TIDEI_CUDA_FOLD_JOIN;
}
static bool is_scan(tidei_cuda_class c) { return c >= TIDEI_CUDA_SCAN; }
static bool is_flat(tidei_cuda_class c) { return c == TIDEI_CUDA_FLAT || c == TIDEI_CUDA_FLAT_ONE; }
static unsigned inputs_of(const tidei_program *p, tidei_cuda_class c) {
    return c == TIDEI_CUDA_FOLD_JOIN ? 1 : p->ninputs;
}
static bool linear_of(const tidei_cuda_traits *k, tidei_cuda_class c) {
    return k->linear && c != TIDEI_CUDA_FOLD_JOIN;
}

size_t tidei_cuda_params_bytes(const tidei_program *p, const tidei_cuda_traits *k,
                               tidei_cuda_class cls) {
    size_t ops = inputs_of(p, cls) + (size_t)p->nouts;
    size_t n = 8 * ops + (cls == TIDEI_CUDA_FOLD_JOIN ? 0 : 16 * (size_t)p->nscalars);
    if (linear_of(k, cls)) n += 8 * (2 + TIDE_MAX_RANK);
    if (is_scan(cls)) /* the result is among the scan's own */
        return sizeof(sc_scan) + n - 8 + 8 * (TIDE_MAX_RANK + 1) * (size_t)p->ninputs + 8;
    if (is_flat(cls)) return n + 8 * 2;
    if (is_fold(cls)) return n + 8 * 5 + 8 * TIDE_MAX_RANK * (2 + ops) + 4 * 8;
    n += 12 * TIDE_MAX_RANK + 8 + 4 * TIDE_MAX_RANK * ops + 4 * 2;
    if (cls == TIDEI_CUDA_UNEVEN) n += 12 + 4 * 4;
    if (cls == TIDEI_CUDA_TILED) n += 8 * 2 + 4 * 2 + 4 * 2 * ops + 4 * (size_t)p->ninputs;
    return (n + 7) / 8 * 8;
}

static void say_params(text *t, const tidei_program *p, const tidei_cuda_traits *k,
                       tidei_cuda_class cls) {
    unsigned nin = inputs_of(p, cls), ops = nin + p->nouts;
    say(t, "struct tide_p {\n");
    for (unsigned i = 0; i < nin; i++) {
        if (cls == TIDEI_CUDA_FOLD_JOIN)
            say(t, "    const tide_acc *i0;\n");
        else
            sayf(t, "    const td_%s *i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    }
    for (unsigned i = 0; i < p->nouts; i++) {
        if (is_fold(cls)) say(t, "    union {\n    ");
        sayf(t, "    td_%s *o%u;\n", tide_dtype_name(p->out_dtype[i]), i);
        if (is_fold(cls)) say(t, "        tide_acc *accs;\n    };\n");
    }
    if (p->nscalars && cls != TIDEI_CUDA_FOLD_JOIN) sayf(t, "    tide_slot s[%u];\n", p->nscalars);
    if (linear_of(k, cls)) say(t, "    td_i64 linear, linear_v, linears[8];\n");
    if (is_flat(cls))
        say(t, "    td_i64 groups, n;\n");
    else if (is_fold(cls))
        sayf(t,
             "    td_i64 groups, chunk, outs, count, lift, strides[8][%u];\n"
             "    struct {\n        td_u64 d, mul;\n    } div[8];\n"
             "    td_u32 kept, last, flat, cshift, across, tail, part, whole;\n",
             ops);
    else if (cls == TIDEI_CUDA_TILED)
        sayf(t,
             "    td_i64 groups, linear_i, linear_j;\n"
             "    td_u32 last, turned, ni, nj, room[%u];\n"
             "    td_i32 si[%u], sj[%u], strides[8][%u];\n",
             nin ? nin : 1, ops, ops, ops);
    else
        sayf(t, "    td_i64 groups;\n    td_u32 last, flat;\n    td_i32 strides[8][%u];\n", ops);
    if (!is_flat(cls) && !is_fold(cls)) say(t, "    tide_div div[8];\n");
    if (cls == TIDEI_CUDA_UNEVEN)
        say(t, "    tide_div stretches;\n    td_u32 rows, across, apart;\n    td_i32 n;\n");
    sayf(t, "};\nstatic_assert(sizeof(tide_p) == %zu, \"the host packs the same parameters\");\n",
         tidei_cuda_params_bytes(p, k, cls));
}

/* ---- the body: one element ---- */

/* struct tide_r and tide_f: from one element of each input, its linear index and the scalars, one
** of each result. With a fold tide_r is the accumulator's type, with a scan that of the body's
** elements. */
static void say_body(text *t, const tidei_program *p, const tidei_cuda_traits *k) {
    const char *acc = tide_dtype_name(p->acc_dtype);
    const bool stored = tidei_is_scan(p->fold) && is_half(p->acc_dtype);
    if (p->fold)
        sayf(t, "typedef td_%s tide_r;\n", stored ? acc : value_name(p->acc_dtype));
    else {
        say(t, "struct tide_r {\n");
        for (unsigned i = 0; i < p->nouts; i++)
            sayf(t, "    td_%s o%u;\n", tide_dtype_name(p->out_dtype[i]), i);
        say(t, "};\n");
    }
    sayf(t, "%s tide_r tide_f(const tide_p &p, td_i64 linear",
         k->outline ? "static __device__ __noinline__" : "TD_FN");
    for (unsigned i = 0; i < p->ninputs; i++)
        sayf(t, ", td_%s x%u", tide_dtype_name(p->input_dtype[i]), i);
    say(t, ") {\n");
    for (unsigned i = 0; i < p->nnodes; i++) say_node(t, p, i);
    if (stored)
        sayf(t, "    return td_store_%s(n%u);\n}\n", acc, p->out_node[0]);
    else if (p->fold)
        sayf(t, "    return n%u;\n}\n", p->out_node[0]);
    else {
        say(t, "    tide_r r;\n");
        for (unsigned i = 0; i < p->nouts; i++) {
            int d = p->out_dtype[i];
            if (is_half(d))
                sayf(t, "    r.o%u = td_store_%s(n%u);\n", i, tide_dtype_name(d), p->out_node[i]);
            else
                sayf(t, "    r.o%u = n%u;\n", i, p->out_node[i]);
        }
        say(t, "    return r;\n}\n");
    }
}

/* "(p, linear, x.i0.v[k], x.i1.v[k])": a call of tide_f for element k of a group. */
static void say_call(text *t, const tidei_program *p, const char *linear, const char *k) {
    sayf(t, "tide_f(p, %s", linear);
    for (unsigned i = 0; i < p->ninputs; i++) sayf(t, ", x.i%u.v[%s]", i, k);
    say(t, ")");
}

/* ---- finding and moving operands ---- */

/* tide_at, tide_step, tide_two, tide_flat, tide_x, tide_load: `offset` is the type of offsets. */
static void say_operands(text *t, const tidei_program *p, const tidei_cuda_traits *k,
                         tidei_cuda_class cls) {
    unsigned nin = inputs_of(p, cls);
    const bool lin = linear_of(k, cls), flat = is_flat(cls),
               splats = !flat && k->vec[cls] > 1 && !(is_fold(cls) && nin == 1);
    const char *offset = is_fold(cls) ? "td_i64" : "td_i32";
    say(t, "struct tide_at {\n");
    if (flat)
        say(t, "    td_i64 all;\n");
    else {
        for (unsigned i = 0; i < nin; i++) sayf(t, "    %s i%u;\n", offset, i);
        for (unsigned i = 0; i < p->nouts; i++) sayf(t, "    %s o%u;\n", offset, i);
        if (lin) say(t, "    td_i64 linear;\n");
    }
    say(t, "};\n");
    if (!flat) {
        sayf(t, "TD_FN void tide_step(const tide_p &p, int d, %s k, tide_at &at) {\n", offset);
        for (unsigned i = 0; i < nin; i++) sayf(t, "    at.i%u += k * p.strides[d][%u];\n", i, i);
        for (unsigned i = 0; i < p->nouts; i++)
            sayf(t, "    at.o%u += k * p.strides[d][%u];\n", i, nin + i);
        if (lin) say(t, "    at.linear += k * p.linears[d];\n");
        say(t, "}\n");
    }
    sayf(t,
         "constexpr bool tide_two = %s;\n"
         "TD_FN td_u32 tide_flat(const tide_p &p) { return %s; }\n"
         "template <int FLAT> TD_FN bool tide_is_flat(const tide_p &p, int i) {\n"
         "    return (FLAT < 0 ? tide_flat(p) : (td_u32)FLAT) >> i & 1;\n}\n",
         nin == 2 ? "true" : "false", splats ? "p.flat" : "0");
    say(t, "template <int N> struct tide_x {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    tide_vec<%s%s, N> i%u;\n", cls == TIDEI_CUDA_FOLD_JOIN ? "tide_acc" : "td_",
             cls == TIDEI_CUDA_FOLD_JOIN ? "" : tide_dtype_name(p->input_dtype[i]), i);
    say(t, "};\ntemplate <int FLAT, int N>\n"
           "TD_FN void tide_load(const tide_p &p, const tide_at &at, tide_x<N> &x) {\n");
    for (unsigned i = 0; i < nin; i++) {
        if (flat)
            sayf(t, "    x.i%u = tide_array_get<N>(p.i%u + at.all);\n", i, i);
        else if (!splats)
            sayf(t, "    x.i%u = tide_array_get<N>(p.i%u + at.i%u);\n", i, i, i);
        else
            sayf(t, "    x.i%u = tide_array_get<N>(p.i%u + at.i%u, tide_is_flat<FLAT>(p, %u));\n",
                 i, i, i, i);
    }
    say(t, "}\n");
}

/* tide_y, tide_expr_apply, tide_store: for programs without a fold. */
static void say_results(text *t, const tidei_program *p, const tidei_cuda_traits *k,
                        tidei_cuda_class cls) {
    const char *linear = !k->linear     ? "0"
                         : is_flat(cls) ? "p.linear + at.all + k"
                                        : "p.linear + at.linear + k";
    say(t, "template <int N> struct tide_y {\n");
    for (unsigned i = 0; i < p->nouts; i++)
        sayf(t, "    tide_vec<td_%s, N> o%u;\n", tide_dtype_name(p->out_dtype[i]), i);
    say(t, "};\ntemplate <int N>\n"
           "TD_FN void tide_expr_apply(const tide_p &p, const tide_at &at, const tide_x<N> &x, "
           "tide_y<N> &y) {\n"
           "#pragma unroll\n    for (int k = 0; k < N; k++) {\n        const tide_r r = ");
    say_call(t, p, linear, "k");
    say(t, ";\n");
    for (unsigned i = 0; i < p->nouts; i++) sayf(t, "        y.o%u.v[k] = r.o%u;\n", i, i);
    say(t, "    }\n}\ntemplate <int N> TD_FN void tide_store(const tide_p &p, const tide_at &at, "
           "const tide_y<N> "
           "&y) {\n");
    for (unsigned i = 0; i < p->nouts; i++) {
        if (is_flat(cls))
            sayf(t, "    tide_put(p.o%u + at.all, y.o%u);\n", i, i);
        else
            sayf(t, "    tide_put(p.o%u + at.o%u, y.o%u);\n", i, i, i);
    }
    say(t, "}\n");
}

static void say_map(text *t, const tidei_program *p, const tidei_cuda_traits *k,
                    tidei_cuda_class cls) {
    sayf(t, "constexpr int tide_V = %d, tide_U = %d;\n", k->vec[cls], k->unroll[cls]);
    say_halves(t, p);
    say_params(t, p, k, cls);
    say_body(t, p, k);
    say_operands(t, p, k, cls);
    say_results(t, p, k, cls);
    sayf(t, "#undef TIDE_FLAT\n#define TIDE_FLAT %d\n", is_flat(cls));
    say(t, tidei_cuda_map_text);
}

/* What cuda_uneven.cu has of each operand. */
static void say_uneven(text *t, const tidei_program *p, const tidei_cuda_traits *k) {
    const tidei_cuda_class cls = TIDEI_CUDA_UNEVEN;
    const unsigned nin = p->ninputs, ops = nin + p->nouts;
    sayf(t, "constexpr int tide_V = %d, tide_U = %d;\n", k->vec[cls], k->unroll[cls]);
    say_halves(t, p);
    say_params(t, p, k, cls);
    say_body(t, p, k);
    say_operands(t, p, k, cls);
    say_results(t, p, k, cls);
    say(t, "struct tide_from {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    const td_%s *i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    for (unsigned i = 0; i < p->nouts; i++)
        sayf(t, "    td_%s *o%u;\n", tide_dtype_name(p->out_dtype[i]), i);
    say(t, "    td_i64 linear;\n};\nTD_FN void tide_begin(const tide_p &p, const tide_at &at, "
           "td_i32 k0, tide_from &from) {\n");
    for (unsigned i = 0; i < ops; i++) {
        const char side = i < nin ? 'i' : 'o';
        const unsigned n = i < nin ? i : i - nin;
        sayf(t, "    from.%c%u = p.%c%u + (at.%c%u + (td_i64)k0 * p.strides[0][%u]);\n", side, n,
             side, n, side, n, i);
    }
    sayf(t, "    from.linear = %s;\n}\n", k->linear ? "at.linear + k0" : "0");
    sayf(t,
         "TD_FN tide_at tide_where(const tide_from &from, td_i32 k) {\n"
         "    tide_at at = tide_at();\n%s    return at;\n}\n",
         k->linear ? "    at.linear = from.linear + k;\n" : "");
    say(t, "TD_FN td_i32 tide_behind(const tide_p &p, const tide_at &at) {\n"
           "    return (td_i32)((td_u64)(p.o0 + at.o0) / sizeof *p.o0) & (tide_V - 1);\n}\n");
    say(t, tidei_cuda_words_text);
    say(t, "template <int N> struct tide_raw {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    tide_words<td_%s, N> i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    say(t, "};\ntemplate <bool DENSE, int N>\n"
           "TD_FN void tide_pick(const tide_p &p, const tide_from &from, td_i32 k, tide_raw<N> &x) "
           "{\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    x.i%u.template pick<DENSE>(from.i%u, k, p.strides[0][%u]);\n", i, i, i);
    say(t, "}\ntemplate <bool DENSE, int N>\n"
           "TD_FN void tide_open(const tide_from &from, const tide_raw<N> &x, tide_x<N> &y) {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    y.i%u = x.i%u.template open<DENSE>(from.i%u);\n", i, i, i);
    say(t, "}\ntemplate <bool DENSE, int N>\n"
           "TD_FN void tide_lay(const tide_p &p, const tide_from &from, td_i32 k, const tide_y<N> "
           "&y) {\n");
    for (unsigned i = 0; i < p->nouts; i++)
        sayf(t, "    tide_put_words<DENSE>(from.o%u, k, p.strides[0][%u], y.o%u);\n", i, nin + i,
             i);
    say(t, "}\n");
    say(t, tidei_cuda_uneven_text);
}

/* The pieces of cuda_tile.cu that name operands come before it; templates they use are declared
** here. */
static void say_tiled(text *t, const tidei_program *p, const tidei_cuda_traits *k) {
    const tidei_cuda_class cls = TIDEI_CUDA_TILED;
    sayf(t, "constexpr int tide_T = %d;\n", k->tile);
    say_halves(t, p);
    say_params(t, p, k, cls);
    say_body(t, p, k);
    say_operands(t, p, k, cls);
    say_results(t, p, k, cls);
    say(t, "template <class E>\n"
           "TD_FN void tide_turn(const E *from, td_i32 si, td_i32 sj, td_u32 ni, td_u32 nj, char "
           "*room);\n"
           "template <class E>\n"
           "TD_FN E tide_one(const E *from, td_i32 offset, const char *room, td_u32 i, td_u32 j, "
           "bool turned);\n"
           "TD_FN void tide_fill(const tide_p &p, const tide_at &at, td_u32 ni, td_u32 nj, char "
           "*room) {\n");
    for (unsigned i = 0; i < p->ninputs; i++)
        sayf(t,
             "    if (p.turned >> %u & 1) tide_turn(p.i%u + at.i%u, p.si[%u], p.sj[%u], ni, nj, "
             "room + "
             "p.room[%u]);\n",
             i, i, i, i, i, i);
    say(t, "}\nTD_FN void tide_pick(const tide_p &p, const tide_at &at, const char *room, td_u32 "
           "i, td_u32 j,\n"
           "                     tide_x<1> &x) {\n");
    for (unsigned i = 0; i < p->ninputs; i++)
        sayf(t,
             "    x.i%u.v[0] = tide_one(p.i%u + at.i%u, (td_i32)i * p.si[%u] + (td_i32)j * "
             "p.sj[%u],\n"
             "                         room + p.room[%u], i, j, p.turned >> %u & 1);\n",
             i, i, i, i, i, i, i);
    say(t, "}\nTD_FN void tide_move(const tide_p &p, td_u32 i, td_u32 j, tide_at &at) {\n");
    for (unsigned i = 0; i < p->nouts; i++)
        sayf(t, "    at.o%u += (td_i32)i * p.si[%u] + (td_i32)j * p.sj[%u];\n", i, p->ninputs + i,
             p->ninputs + i);
    if (k->linear) say(t, "    at.linear += i * p.linear_i + j * p.linear_j;\n");
    say(t, "}\n");
    say(t, tidei_cuda_tile_text);
}

/* ---- folds ---- */

/* The accumulator: a value, or for arg folds the best value with its index (-1: none yet). */
static void say_accumulator(text *t, const tidei_program *p) {
    const int acc = p->acc_dtype;
    const char *value = value_name(acc);
    if (is_arg(p->fold)) {
        const char *before = p->fold == TIDEI_FOLD_ARGMIN ? "<" : ">";
        sayf(t, "struct tide_acc {\n    td_%s v;\n    td_i64 i;\n};\n", value);
        say(t, "TD_FN tide_acc tide_start() {\n    tide_acc a;\n    a.v = 0;\n    a.i = -1;\n    "
               "return a;\n}\n");
        sayf(t,
             "TD_FN void tide_join(tide_acc &a, const tide_acc &b) {\n"
             "    const bool better = b.v != b.v ? a.v == a.v : b.v %s a.v && a.v == a.v;\n"
             "    const bool equal = b.v == a.v || (b.v != b.v && a.v != a.v);\n"
             "    if (b.i >= 0 && (a.i < 0 || better || (equal && b.i < a.i))) a = b;\n}\n",
             before);
        /* an accumulator meets elements in their order, so that the first of equals stays */
        sayf(t,
             "TD_FN void tide_add(tide_acc &a, td_%s v, td_i64 i) {\n"
             "    const bool better = (a.i < 0) | ((a.v == a.v) & !(v %s a.v));\n"
             "    a.v = better ? v : a.v;\n    a.i = better ? i : a.i;\n}\n",
             value, p->fold == TIDEI_FOLD_ARGMIN ? ">=" : "<=");
        return;
    }
    sayf(t, "typedef td_%s tide_acc;\nTD_FN tide_acc tide_start() { return ", value);
    const char *start = start_of(p->fold, acc);
    if (class_of(acc) == 3) {
        const char *zero = p->fold == TIDEI_FOLD_PROD ? "0" : start;
        sayf(t, "td_make_%s(%s, %s); }\n", value, start, zero);
    } else
        sayf(t, "(td_%s)(%s); }\n", value, start);
    sayf(t, "TD_FN void tide_add(tide_acc &x, td_%s y, td_i64) {\n", value);
    say_operation(t, operation_of(p->fold), acc, acc, "n", (const char *const[]){"x", "y"});
    say(t, "    x = n;\n}\nTD_FN void tide_join(tide_acc &x, const tide_acc &y) { tide_add(x, y, "
           "0); }\n");
}

/* tide_done, tide_end: the result of a finished accumulator, and its storing. */
static void say_end(text *t, const tidei_program *p) {
    const int acc = p->acc_dtype, out = p->out_dtype[0];
    const int real = acc == TIDE_C64 ? TIDE_F32 : acc == TIDE_C128 ? TIDE_F64 : acc;
    const char *value = p->fold == TIDEI_FOLD_MEAN ? "mean" : is_arg(p->fold) ? "sum.i" : "sum";
    const char *stored = tide_dtype_name(out);
    sayf(t, "TD_FN td_%s tide_done(const tide_p &p, tide_acc sum) {\n", stored);
    if (p->fold == TIDEI_FOLD_MEAN) {
        const char *name = tide_dtype_name(real);
        sayf(t, "    const td_%s count = TD_CAST(i64, %s, p.count);\n", name, name);
        if (real == acc)
            say_operation(t, TIDEI_OP_DIV, acc, acc, value, (const char *const[]){"sum", "count"});
        else /* each part by itself: an infinite part leaves the other as it is */
            sayf(t, "    const tide_acc mean = td_make_%s(sum.re / count, sum.im / count);\n",
                 tide_dtype_name(acc));
    }
    if (is_half(out))
        sayf(t, "    return td_store_%s(%s);\n}\n", stored, value);
    else
        sayf(t, "    return %s;\n}\n", value);
    say(t, "TD_FN void tide_end(const tide_p &p, const tide_at &at, int w, tide_acc sum) {\n"
           "    p.o0[at.o0 + w * p.lift] = tide_done(p, sum);\n}\n");
}

/* tide_hop: adds offsets. */
static void say_hop(text *t, unsigned nin, bool lin) {
    say(t, "TD_FN void tide_hop(tide_at &at, const tide_at &by) {\n");
    for (unsigned i = 0; i < nin; i++) sayf(t, "    at.i%u += by.i%u;\n", i, i);
    if (lin) say(t, "    at.linear += by.linear;\n");
    say(t, "}\n");
}

static void say_fold(text *t, const tidei_program *p, const tidei_cuda_traits *k,
                     tidei_cuda_class cls) {
    const int mode = cls == TIDEI_CUDA_FOLD_ROW ? 0 : cls == TIDEI_CUDA_FOLD_COLUMN ? 1 : 2;
    sayf(t, "constexpr int tide_V = %d, tide_U = %d, tide_W = %d, tide_mode = %d;\n", k->vec[cls],
         k->unroll[cls], mode == 1 ? k->vec[cls] : 1, mode);
    say_halves(t, p);
    say_accumulator(t, p);
    say_params(t, p, k, cls);
    if (cls != TIDEI_CUDA_FOLD_JOIN) say_body(t, p, k);
    say_operands(t, p, k, cls);
    const bool lin = linear_of(k, cls);
    unsigned nin = inputs_of(p, cls);
    say_hop(t, nin, lin);
    say(t, "TD_FN void tide_single(const tide_p &p, td_i64 e, tide_at &at) {\n");
    for (unsigned i = 0; i < nin; i++) sayf(t, "    at.i%u += p.flat >> %u & 1 ? 0 : e;\n", i, i);
    if (lin) say(t, "    at.linear += e * p.linear_v;\n");
    sayf(t, "}\nTD_FN td_i64 tide_linear(const tide_p &p, const tide_at &at) { return %s; }\n",
         lin ? "p.linear + at.linear" : "0");
    say(t, "template <int N>\n"
           "TD_FN void tide_take(tide_acc &a, const tide_p &p, const tide_x<N> &x, int v, td_i64 "
           "linear, td_i64 "
           "index) {\n");
    if (cls == TIDEI_CUDA_FOLD_JOIN)
        say(t, "    tide_join(a, x.i0.v[v]);\n");
    else {
        say(t, "    tide_add(a, ");
        say_call(t, p, lin ? "linear + v * p.linear_v" : "0", "v");
        say(t, ", index);\n");
    }
    say(t, "}\n");
    say_end(t, p);
    say(t, tidei_cuda_locate_text);
    say(t, tidei_cuda_fold_text);
}

static void say_pairs(text *t, const tidei_program *p, const tidei_cuda_traits *k,
                      const tidei_pairs_traits *s) {
    say_halves(t, p);
    say_accumulator(t, p);
    say_params(t, p, k, TIDEI_CUDA_FOLD_PAIRS);
    say_operands(t, p, k, TIDEI_CUDA_FOLD_PAIRS);
    say_hop(t, p->ninputs, false);
    say_end(t, p);
    tidei_pairs_say(t, p, s);
    say(t, tidei_cuda_locate_text);
    say(t, tidei_cuda_pair_text);
}

/* ---- scans ---- */

static void say_scan_params(text *t, const tidei_program *p, const tidei_cuda_traits *k) {
    const unsigned nin = p->ninputs;
    say(t, "struct tide_p : sc_scan {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    const td_%s *i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    if (p->nscalars) sayf(t, "    tide_slot s[%u];\n", p->nscalars);
    if (k->linear) say(t, "    td_i64 linear, linear_step, linears[8];\n");
    if (nin) sayf(t, "    td_i64 over[8][%u], steps[%u];\n", nin, nin);
    sayf(t,
         "    td_u32 ahead, unused;\n};\n"
         "static_assert(sizeof(tide_p) == %zu, \"the host packs the same parameters\");\n",
         tidei_cuda_params_bytes(p, k, TIDEI_CUDA_SCAN));
}

/* tide_from, tide_begin, tide_move, tide_whole. */
static void say_lines(text *t, const tidei_program *p, const tidei_cuda_traits *k) {
    const unsigned nin = p->ninputs;
    say(t, "struct tide_from {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    const td_%s *i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    say(t, "    td_i64 linear;\n};\nTD_FN void tide_begin(const tide_p &p, tide_from &at) {\n");
    for (unsigned i = 0; i < nin; i++) sayf(t, "    at.i%u = p.i%u;\n", i, i);
    sayf(t, "    at.linear = %s;\n}\n", k->linear ? "p.linear" : "0");
    say(t, "TD_FN void tide_move(const tide_p &p, int d, td_i64 k, tide_from &at) {\n");
    for (unsigned i = 0; i < nin; i++) sayf(t, "    at.i%u += k * p.over[d][%u];\n", i, i);
    if (k->linear) say(t, "    at.linear += k * p.linears[d];\n");
    say(t, "}\ntemplate <int V, class E> TD_FN bool tide_in_line(const E *first, td_i64 step);\n"
           "template <int V> TD_FN bool tide_whole(const tide_p &p, const tide_from &at) {\n"
           "    return true");
    for (unsigned i = 0; i < nin; i++) sayf(t, " && tide_in_line<V>(at.i%u, p.steps[%u])", i, i);
    say(t, ";\n}\n");
}

/* tide_x, tide_get, tide_value. */
static void say_elements(text *t, const tidei_program *p, const tidei_cuda_traits *k) {
    const unsigned nin = p->ninputs;
    say(t, "template <int V> struct tide_x {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    tide_vec<td_%s, V> i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    say(t, "};\nTD_FN void tide_get(const tide_p &p, const tide_from &at, td_i64 i, tide_x<1> &x) "
           "{\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t, "    x.i%u.v[0] = at.i%u[i * p.steps[%u]];\n", i, i, i);
    say(t, "}\ntemplate <int V, class E>\n"
           "TD_FN void tide_vector(const E *q, td_i64 step, tide_vec<E, V> &x);\n"
           "template <bool AHEAD, int V>\n"
           "TD_FN void tide_get(const tide_p &p, const tide_from &at, td_i64 i, tide_x<V> &x) {\n");
    for (unsigned i = 0; i < nin; i++)
        sayf(t,
             "    {\n        const td_i64 step = AHEAD ? 1 : p.steps[%u];\n"
             "        tide_vector<V>(at.i%u + i * step, step, x.i%u);\n    }\n",
             i, i, i);
    say(t, "}\ntemplate <int V>\nTD_FN tide_r tide_value(const tide_p &p, const tide_from &at, "
           "td_i64 i, const tide_x<V> &x, int v) {\n    return ");
    say_call(t, p, k->linear ? "at.linear + i * p.linear_step" : "0", "v");
    say(t, ";\n}\n");
}

/* The kernel of a form: two blocks at once a multiprocessor, since the body takes registers too. */
static void say_scan_kernel(text *t, tidei_cuda_class cls) {
    static const char *const forms[TIDEI_SCAN_FORMS] = {
        [TIDEI_SCAN_ROWS] = "sc_rows<tide_scan>",
        [TIDEI_SCAN_SHORT] = "sc_short<tide_scan>",
        [TIDEI_SCAN_TILES] = "sc_tiles<tide_scan>",
        [TIDEI_SCAN_COLUMNS] = "sc_columns<tide_scan, true>",
        [TIDEI_SCAN_COLUMN_SUMS] = "sc_columns<tide_scan, false>",
        [TIDEI_SCAN_BANDS] = "sc_bands<tide_scan>"};
    sayf(t,
         "SC_KERNEL_OF(2) tide_k(const __grid_constant__ tide_p p) {\n"
         "    kt_grid_wait();\n    %s(p);\n}\n",
         forms[cls - TIDEI_CUDA_SCAN]);
}

static const char *scan_name(int t) { return t == TIDE_BOOL ? "truth" : tide_dtype_name(t); }

static void say_scan(text *t, const tidei_program *p, const tidei_cuda_traits *k,
                     tidei_cuda_class cls) {
    static const char *const names[] = {"sum", "prod", "min", "max"};
    const int fold = p->fold - TIDEI_FOLD_CUMSUM;
    const tidei_scan_kind *kind = tidei_scan_find(fold, p->acc_dtype);
    const char *in = scan_name(kind->in);
    say(t, "#undef TIDEI_SCAN_PARAMS_H\n#undef TIDEI_SCAN_OPS_H\n");
    say(t, tidei_scan_forms_text);
    sayf(t, "SC_KIND(%s, %s, %s, %s)\ntypedef sc_%s_of_%s tide_body;\n", names[fold], in,
         scan_name(kind->acc), scan_name(kind->out), names[fold], in);
    say_scan_params(t, p, k);
    say_body(t, p, k);
    say_lines(t, p, k);
    say_elements(t, p, k);
    say(t, tidei_cuda_scan_text);
    say_scan_kernel(t, cls);
}

/* The whole text, to be freed, or NULL. */
static char *finished(text *t) {
    if (!t->failed) return t->at;
    tidei_host_free(t->rt, t->at);
    return NULL;
}

char *tidei_cuda_text(tidei_runtime *rt, const tidei_program *p, const tidei_cuda_traits *k,
                      tidei_cuda_class cls, size_t *body) {
    text t = {.rt = rt};
    say_common(&t, k->complex, k->functions, tidei_cuda_base_text);
    if (body) *body = t.n;
    if (cls == TIDEI_CUDA_TILED)
        say_tiled(&t, p, k);
    else if (cls == TIDEI_CUDA_UNEVEN)
        say_uneven(&t, p, k);
    else if (is_scan(cls))
        say_scan(&t, p, k, cls);
    else if (is_fold(cls))
        say_fold(&t, p, k, cls);
    else
        say_map(&t, p, k, cls);
    return finished(&t);
}

char *tidei_cuda_pairs_text(tidei_runtime *rt, const tidei_program *p, const tidei_cuda_traits *k,
                            uint32_t sides, size_t *body) {
    text t = {.rt = rt};
    tidei_pairs_traits s;
    const bool fits = tidei_pairs_traits_of(p, sides, &s);
    tidei_check(fits); /* the plan made it so */
    (void)fits;
    say_common(&t, k->complex, k->functions, tidei_cuda_base_text);
    if (body) *body = t.n;
    say_pairs(&t, p, k, &s);
    return finished(&t);
}
