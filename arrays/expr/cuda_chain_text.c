/* cuda_chain_text.c: writes the CUDA text of a chain's kernel: what cuda_chain.cu asks for.
**
** Model: every node of a chain is either *single*, the same for a whole row, or has a value for
** each element; and belongs to a stage: the number of folds that have to come before one after the
** other. Single nodes are members of struct tide_u, computed once a row; the others are computed
** where a stage's folds, or the results, need them. */
#include "arrays/expr/cuda_chain.h"
#include "arrays/expr/cuda_say.h"

extern const char tidei_cuda_base_text[], tidei_cuda_chain_text[];

/* elements of a thread from which on their divisor's reciprocal is worth it */
#define SHARED_LEAST 4

/* ---- levels and traits ---- */

static int operands_of(const tidei_node *n) {
    if (n->op == TIDEI_OP_FOLD) return 1;
    return n->op == TIDEI_OP_INPUT || n->op == TIDEI_OP_SCALAR || n->op == TIDEI_OP_LINEAR
               ? 0
               : tidei_op_infos[n->op].arity;
}

void tidei_chain_levels_of(const tidei_program *p, unsigned flat, tidei_chain_levels *out) {
    for (unsigned i = 0; i < p->nnodes; i++) {
        const tidei_node *n = &p->nodes[i];
        const uint16_t operands[3] = {n->a, n->b, n->c};
        out->single[i] = n->op == TIDEI_OP_INPUT ? flat >> n->a & 1 : n->op != TIDEI_OP_LINEAR;
        out->stage[i] = 0;
        for (int k = 0; k < operands_of(n); k++) {
            const uint16_t a = operands[k];
            const uint8_t stage = (uint8_t)(out->stage[a] + (p->nodes[a].op == TIDEI_OP_FOLD));
            if (stage > out->stage[i]) out->stage[i] = stage;
            if (n->op != TIDEI_OP_FOLD) out->single[i] &= out->single[a];
        }
    }
}

bool tidei_chain_of(const tidei_program *p, tidei_program *out) {
    if (p->nnodes == TIDEI_NODES_MAX || tidei_is_scan(p->fold)) return false;
    memcpy(out, p, sizeof *out);
    out->nodes[out->nnodes] = (tidei_node){
        .op = TIDEI_OP_FOLD, .dtype = p->out_dtype[0], .a = p->out_node[0], .c = p->fold};
    out->out_node[0] = out->nnodes++;
    out->fold = TIDEI_FOLD_NONE;
    out->nfolds = 1;
    return true;
}

/* The nodes from which `roots` are computed, going through no fold. */
static void mark_cone(const tidei_program *p, bool *needed) {
    for (unsigned i = p->nnodes; i-- > 0;) {
        const tidei_node *n = &p->nodes[i];
        const uint16_t operands[3] = {n->a, n->b, n->c};
        if (!needed[i] || n->op == TIDEI_OP_FOLD) continue;
        for (int k = 0; k < operands_of(n); k++) needed[operands[k]] = true;
    }
}

static void find_folded(const tidei_program *p, tidei_chain_traits *out) {
    bool needed[TIDEI_NODES_MAX] = {0};
    for (unsigned i = 0; i < p->nnodes; i++)
        if (p->nodes[i].op == TIDEI_OP_FOLD) needed[p->nodes[i].a] = true;
    mark_cone(p, needed);
    for (unsigned i = 0; i < p->nnodes; i++)
        if (needed[i] && p->nodes[i].op == TIDEI_OP_INPUT)
            out->folded |= (uint16_t)(1u << p->nodes[i].a);
}

/* Bytes of a fold's accumulator and their boundary, as say_accumulator lays it out. */
static unsigned accumulator_size(const tidei_program *p, const tidei_node *n, unsigned *align) {
    const int t = p->nodes[n->a].dtype;
    const unsigned bytes = (unsigned)tide_dtype_size(t),
                   part = class_of(t) == 3 ? bytes / 2 : bytes;
    *align = is_arg(n->c) && part < 4 ? 4 : part;
    return is_arg(n->c) ? (bytes > 4 ? 16 : 8) : bytes;
}

static unsigned stage_bytes(const tidei_program *p, const tidei_chain_levels *l, unsigned stage) {
    unsigned at = 0, most = 1;
    for (unsigned i = 0; i < p->nnodes; i++) {
        unsigned align, bytes;
        if (p->nodes[i].op != TIDEI_OP_FOLD || l->stage[i] != stage) continue;
        bytes = accumulator_size(p, &p->nodes[i], &align);
        at = (at + align - 1) / align * align + bytes;
        if (align > most) most = align;
    }
    return (at + most - 1) / most * most;
}

void tidei_chain_traits_of(const tidei_program *p, tidei_chain_traits *out) {
    tidei_chain_levels l;
    memset(out, 0, sizeof *out);
    out->fits = p->ninputs <= TIDEI_CHAIN_INPUTS;
    if (!out->fits) return;
    out->cost = 1;
    tidei_chain_levels_of(p, 0, &l);
    for (unsigned i = 0; i < p->nnodes; i++) {
        const tidei_node *n = &p->nodes[i];
        out->complex |= tidei_dtype_kind(n->dtype) == TIDEI_KIND_COMPLEX;
        out->linear |= n->op == TIDEI_OP_LINEAR;
        if (n->op == TIDEI_OP_FOLD) {
            out->arg |= is_arg(n->c);
            out->cost += class_of(p->nodes[n->a].dtype) == 3 ? 4 : 2;
            if (l.stage[i] >= out->stages) out->stages = (uint8_t)(l.stage[i] + 1);
            continue;
        }
        out->functions |= needs_functions(p, n);
        if (l.single[i]) continue;
        const unsigned bytes = is_half(n->dtype) ? 4 : (unsigned)tide_dtype_size(n->dtype);
        if (bytes > out->value_bytes) out->value_bytes = (uint8_t)bytes;
        out->cost += node_cost(p, n);
    }
    for (unsigned s = 0; s < out->stages; s++) {
        const unsigned bytes = stage_bytes(p, &l, s);
        if (bytes > out->acc_bytes) out->acc_bytes = (uint16_t)bytes;
    }
    find_folded(p, out);
}

/* ---- parameters ---- */

size_t tidei_chain_params_bytes(const tidei_program *p) {
    const size_t ops = p->ninputs + (size_t)p->nouts;
    return 8 * ops + 16 * (size_t)p->nscalars + 8 * (TIDE_MAX_RANK + 2) * ops + 8 +
           12 * TIDE_MAX_RANK + 4 * 6;
}

static void say_params(text *t, const tidei_program *p) {
    const unsigned ops = p->ninputs + (unsigned)p->nouts;
    say(t, "struct tide_p {\n");
    for (unsigned i = 0; i < p->ninputs; i++)
        sayf(t, "    const td_%s *i%u;\n", tide_dtype_name(p->input_dtype[i]), i);
    for (unsigned i = 0; i < p->nouts; i++)
        sayf(t, "    td_%s *o%u;\n", tide_dtype_name(p->out_dtype[i]), i);
    if (p->nscalars) sayf(t, "    tide_slot s[%u];\n", p->nscalars);
    sayf(t,
         "    td_i64 strides[8][%u], along[%u], over[%u], count;\n    tide_div div[8];\n"
         "    td_u32 last, rows, vectors, part, shift, room;\n};\n"
         "static_assert(sizeof(tide_p) == %zu, \"the host packs the same parameters\");\n",
         ops, ops, ops, tidei_chain_params_bytes(p));
}

/* ---- operands ---- */

/* A node that takes the place of the one input of its type that is needed for nothing else once a
** stage has computed it. Compilers keep floats that are needed again; halves they compute anew, as
** they do not see that two conversions are the same. */
typedef struct heir {
    int node; /* negative: none */
    unsigned input, stage;
} heir;

/* Quotients by values of the row: as all others; through reciprocals; or whole, where these do not
** do. */
typedef enum { PLAIN, SHARED, WHOLE } quotients;

typedef struct writer {
    text t;
    const tidei_program *p;
    const tidei_chain_form *f;
    tidei_chain_levels l;
    heir heir;
    unsigned stage;               /* that is written; of results the number of all */
    bool shared[TIDEI_NODES_MAX]; /* quotients through their divisor's reciprocal */
    quotients quotients;          /* how these are written now */
} writer;

/* Which operands, as inputs and then outs, are among those of a struct. */
typedef enum { EARLY, LATE, OUTS, FLATS } operand_set;
static bool is_in(const writer *w, operand_set set, unsigned i) {
    const unsigned nin = w->p->ninputs;
    const bool out = i >= nin, flat = out ? w->f->single >> (i - nin) & 1 : w->f->flat >> i & 1,
               late = !out && w->f->late >> i & 1;
    switch (set) {
    case EARLY: return !out && !flat && !late;
    case LATE: return late;
    case OUTS: return out && !flat;
    default: return flat;
    }
}
static void name_of(const writer *w, unsigned i, char name[8]) {
    const unsigned nin = w->p->ninputs;
    tidei_format(name, 8, "%c%u", i < nin ? 'i' : 'o', i < nin ? i : i - nin);
}
static int dtype_of(const writer *w, unsigned i) {
    return i < w->p->ninputs ? w->p->input_dtype[i] : w->p->out_dtype[i - w->p->ninputs];
}
static unsigned operand_count(const writer *w) { return w->p->ninputs + (unsigned)w->p->nouts; }

/* The struct of a set's addresses, or of its offsets where each is used once, and how they move. */
static void say_set(writer *w, operand_set set, const char *type) {
    const unsigned ops = operand_count(w);
    const bool dense = w->f->dense && w->f->kind != TIDEI_CHAIN_COLUMNS;
    text *t = &w->t;
    char name[8];
    sayf(t, "struct %s {\n", type);
    for (unsigned i = 0; i < ops; i++) {
        if (!is_in(w, set, i)) continue;
        name_of(w, i, name);
        if (set == FLATS)
            sayf(t, "    td_i64 %s;\n", name);
        else
            sayf(t,
                 tidei_chain_by_vectors(w->f, w->p->ninputs, i)
                     ? "    %stide_vec<td_%s, tide_V> *%s;\n"
                     : "    %std_%s *%s;\n",
                 i < w->p->ninputs ? "const " : "", tide_dtype_name(dtype_of(w, i)), name);
    }
    sayf(t, "};\nTD_FN void tide_first(const tide_p &p, %s &q) {\n", type);
    for (unsigned i = 0; i < ops; i++)
        if (is_in(w, set, i)) {
            name_of(w, i, name);
            if (set == FLATS)
                sayf(t, "    q.%s = 0;\n", name);
            else
                sayf(t, "    q.%s = (decltype(q.%s))p.%s;\n", name, name, name);
        }
    say(t, "}\n");
    if (set != LATE) {
        sayf(t, "TD_FN void tide_step(const tide_p &p, int d, td_i64 k, %s &q) {\n", type);
        for (unsigned i = 0; i < ops; i++)
            if (is_in(w, set, i)) {
                name_of(w, i, name);
                sayf(t, "    q.%s += k * p.strides[d][%u];\n", name, i);
            }
        say(t, "}\n");
    }
    if (set == FLATS) return;
    sayf(t, "TD_FN void tide_goto(const tide_p &p, td_u32 k, %s &q) {\n", type);
    for (unsigned i = 0; i < ops; i++)
        if (is_in(w, set, i)) {
            name_of(w, i, name);
            sayf(t, dense ? "    q.%s += k;\n" : "    q.%s += k * p.along[%u];\n", name, i);
        }
    sayf(t, "}\nTD_FN void tide_skip(const tide_p &p, td_u32 k, %s &q) { tide_goto(p, k, q); }\n",
         type);
}

/* The address of an operand's vector. */
static const char *vector_at(const writer *w, char kind, unsigned i, char at[64]) {
    tidei_format(at, 64, w->f->uneven ? "tide_vectors<tide_V>(q.%c%u)" : "q.%c%u", kind, i);
    return at;
}

/* Whether a thread keeps vectors of input i as words. */
static bool is_packed(const writer *w, unsigned i) {
    const tide_dtype t = dtype_of(w, i);
    return tidei_chain_in_words(t) && w->f->vec * tide_dtype_size(t) >= 4 &&
           !((w->f->splat | w->f->loose) >> i & 1);
}

/* The type by which one element of input i is loaded alone: what a word has above it is 0. */
static const char *one_of(const writer *w, unsigned i) {
    if (!is_packed(w, i)) return tide_dtype_name(dtype_of(w, i));
    return tide_dtype_size(dtype_of(w, i)) == 1 ? "u8" : "u16";
}

/* How a vector of input i is loaded. */
static void say_get(writer *w, unsigned i) {
    text *t = &w->t;
    char at[128], vector[64];
    vector_at(w, 'i', i, vector);
    if (is_packed(w, i))
        tidei_format(at, sizeof at, "reinterpret_cast<const tide_packed<td_%s, tide_V> *>(%s)",
                     tide_dtype_name(dtype_of(w, i)), vector);
    else
        tidei_format(at, sizeof at, "%s", vector);
    if (w->f->splat >> i & 1)
        sayf(t, "    x.i%u = tide_array_get<tide_V>(q.i%u, true);\n", i, i);
    else if (w->f->loose >> i & 1)
        sayf(t, "    x.i%u = tide_elements<tide_V>(q.i%u);\n", i, i);
    else
        sayf(t,
             w->f->streams && is_in(w, EARLY, i) ? "    x.i%u = tide_stream_get(%s);\n"
                                                 : "    x.i%u = *(%s);\n",
             i, at);
}

/* tide_x or tide_y: a vector of a set's inputs, and how it is loaded. */
static void say_vectors(writer *w, operand_set set, const char *type, const char *vector) {
    text *t = &w->t;
    sayf(t, "struct %s {\n", vector);
    for (unsigned i = 0; i < w->p->ninputs; i++)
        if (is_in(w, set, i))
            sayf(t, "    %s<td_%s, tide_V> i%u;\n", is_packed(w, i) ? "tide_packed" : "tide_vec",
                 tide_dtype_name(dtype_of(w, i)), i);
    sayf(t, "};\nTD_FN void tide_get(const tide_p &p, const %s &q, %s &x) {\n", type, vector);
    for (unsigned i = 0; i < w->p->ninputs; i++)
        if (is_in(w, set, i)) say_get(w, i);
    sayf(t, "}\nTD_FN void tide_get_one(const tide_p &p, const %s &q, %s &x) {\n", type, vector);
    for (unsigned i = 0; i < w->p->ninputs; i++)
        if (is_in(w, set, i))
            sayf(t, "    x.i%u.v%s[0] = *reinterpret_cast<const td_%s *>(q.i%u);\n", i,
                 is_packed(w, i) ? ".w" : "", one_of(w, i), i);
    say(t, "}\n");
}

/* tide_behind: of the input that leads. */
static void say_behind(writer *w) {
    text *t = &w->t;
    say(t, "TD_FN td_u32 tide_behind(const tide_p &p, const tide_early &q) {\n");
    if (w->f->uneven)
        sayf(t, "    return (td_u64)q.i%u / sizeof(*q.i%u) %% tide_V;\n}\n", w->f->lead,
             w->f->lead);
    else
        say(t, "    return 0;\n}\n");
}

static void say_results(writer *w) {
    text *t = &w->t;
    say(t, "struct tide_z {\n");
    for (unsigned i = 0; i < w->p->nouts; i++)
        if (!(w->f->single >> i & 1))
            sayf(t, "    tide_vec<td_%s, tide_V> o%u;\n", tide_dtype_name(w->p->out_dtype[i]), i);
    say(t, "};\nTD_FN void tide_put_all(const tide_p &p, const tide_outs &q, const tide_z &z) {\n");
    for (unsigned i = 0; i < w->p->nouts; i++)
        if (!(w->f->single >> i & 1))
            sayf(t, w->f->streams ? "    tide_stream_put(%s, z.o%u);\n" : "    *(%s) = z.o%u;\n",
                 vector_at(w, 'o', i, (char[64]){0}), i);
    say(t, "}\nTD_FN void tide_put_one(const tide_p &p, const tide_outs &q, const tide_z &z) {\n");
    for (unsigned i = 0; i < w->p->nouts; i++)
        if (!(w->f->single >> i & 1))
            sayf(t, "    *reinterpret_cast<td_%s *>(q.o%u) = z.o%u.v[0];\n",
                 tide_dtype_name(w->p->out_dtype[i]), i, i);
    say(t, "}\n");
}

/* A function that does the same for each operand of a set, whose stretches of the room lie one
** after the other: what stands before the operand's name, and behind it. */
static void say_for_each(writer *w, operand_set set, const char *head, const char *before,
                         const char *behind) {
    text *t = &w->t;
    char name[8];
    sayf(t, "TD_FN void %s {\n", head);
    for (unsigned i = 0; w->f->carried && i < operand_count(w); i++) {
        if (!is_in(w, set, i)) continue;
        name_of(w, i, name);
        sayf(t,
             "    {\n        typedef td_%s E;\n        %s%s%s;\n"
             "        room += blockDim.x * tide_U * sizeof(E);\n    }\n",
             tide_dtype_name(dtype_of(w, i)), before, name, behind);
    }
    say(t, "}\n");
}

/* tide_bring, tide_pick, tide_lay, tide_send; they do nothing where rows are not carried. */
static void say_carrying(writer *w) {
    say(&w->t, "template <class E> TD_FN void tide_carry(E *to, const E *from, td_u32 n);\n");
    say_for_each(w, EARLY, "tide_bring(const tide_p &p, td_i64 first, td_u32 n, char *room)",
                 "tide_carry((E *)room, p.", " + first, n)");
    say_for_each(w, EARLY, "tide_pick(const char *room, td_u32 k, tide_x &x)", "x.",
                 ".v[0] = ((const E *)room)[k]");
    say_for_each(w, OUTS, "tide_lay(char *room, td_u32 k, const tide_z &z)", "((E *)room)[k] = z.",
                 ".v[0]");
    say_for_each(w, OUTS, "tide_send(const tide_p &p, td_i64 first, td_u32 n, const char *room)",
                 "tide_carry(p.", " + first, (const E *)room, n)");
}

/* ---- values ---- */

static bool is_member(const writer *w, unsigned i) { /* of tide_u */
    return w->l.single[i] && w->p->nodes[i].op != TIDEI_OP_SCALAR;
}

/* Quotients of the results by a value of the row, where a thread has several. */
static void find_shared(writer *w) {
    bool needed[TIDEI_NODES_MAX] = {0};
    if ((w->f->kind == TIDEI_CHAIN_COLUMNS ? 1 : w->f->vec) * w->f->unroll < SHARED_LEAST) return;
    for (unsigned i = 0; i < w->p->nouts; i++)
        needed[w->p->out_node[i]] |= !(w->f->single >> i & 1);
    mark_cone(w->p, needed);
    for (unsigned i = 0; i < w->p->nnodes; i++) {
        const tidei_node *n = &w->p->nodes[i];
        w->shared[i] = needed[i] && n->op == TIDEI_OP_DIV && !w->l.single[i] &&
                       is_member(w, n->b) && !strcmp(value_name(n->dtype), "f32");
    }
}

/* Whether node i is a divisor of such. */
static bool is_shared_by(const writer *w, unsigned i) {
    for (unsigned k = i + 1; k < w->p->nnodes; k++)
        if (w->shared[k] && w->p->nodes[k].b == i) return true;
    return false;
}

/* tide_share: what is needed of divisors. */
static void say_share(writer *w) {
    say(&w->t, "TD_FN void tide_share(tide_u &k) {\n");
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_shared_by(w, i)) sayf(&w->t, "    k.d%u = tide_divisor_of(k.n%u);\n", i, i);
    say(&w->t, "}\n");
}

static void say_quotient(writer *w, const tidei_node *n, unsigned i) {
    sayf(&w->t, "    const td_f32 n%u = ", i);
    if (is_half(n->dtype)) sayf(&w->t, "td_round_%s", tide_dtype_name(n->dtype));
    sayf(&w->t, "(%s(n%u, n%u, k.d%u%s));\n",
         w->quotients == SHARED ? "tide_divided" : "tide_divided_whole", n->a, n->b, n->b,
         w->quotients == SHARED ? ", divides" : "");
}

/* struct tide_u. */
static void say_row(writer *w) {
    say(&w->t, "struct tide_u {\n");
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_shared_by(w, i)) sayf(&w->t, "    tide_divisor d%u;\n", i);
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_member(w, i)) sayf(&w->t, "    td_%s n%u;\n", value_name(w->p->nodes[i].dtype), i);
    say(&w->t, "};\n");
}

/* Whether node i lies where an input did. */
static bool is_inherited(const writer *w, unsigned i) {
    return w->heir.node == (int)i && w->stage > w->heir.stage;
}

/* Marks what marked nodes are computed from; members of tide_u are known, but for those of
** `unknown`. */
static void mark_needed(const writer *w, bool *needed, const bool *unknown) {
    for (unsigned i = w->p->nnodes; i-- > 0;) {
        const tidei_node *n = &w->p->nodes[i];
        const uint16_t operands[3] = {n->a, n->b, n->c};
        const bool known = (is_member(w, i) && !(unknown && unknown[i])) || is_inherited(w, i);
        for (int k = 0; needed[i] && !known && k < operands_of(n); k++) needed[operands[k]] = true;
    }
}

/* Computes the nodes that `needed` has and what they come from. An element of an input that is no
** member comes from x, of one that is among the late ones from y. */
static void say_nodes(writer *w, bool *needed, const bool *unknown) {
    const tidei_program *p = w->p;
    mark_needed(w, needed, unknown);
    for (unsigned i = 0; i < p->nnodes; i++) {
        const tidei_node *n = &p->nodes[i];
        if (!needed[i]) continue;
        if (is_member(w, i) && !(unknown && unknown[i])) {
            sayf(&w->t, "    const td_%s n%u = k.n%u;\n", value_name(n->dtype), i, i);
            continue;
        }
        if (is_inherited(w, i)) {
            sayf(&w->t, "    const td_f32 n%u = td_load_%s(x.i%u.v[v]);\n", i,
                 tide_dtype_name(n->dtype), w->heir.input);
            continue;
        }
        if (n->op == TIDEI_OP_INPUT && !is_member(w, i))
            sayf(&w->t, "    const td_%s x%u = %c.i%u.v[v];\n",
                 tide_dtype_name(p->input_dtype[n->a]), n->a, w->f->late >> n->a & 1 ? 'y' : 'x',
                 n->a);
        if (w->quotients != PLAIN && w->shared[i])
            say_quotient(w, n, i);
        else
            say_node(&w->t, p, i);
    }
}

/* A value of bf16 is its upper half. */
static void say_stored(writer *w, unsigned i) {
    const int t = w->p->nodes[i].dtype;
    if (t == TIDE_BF16)
        sayf(&w->t, "td_cut_bf16(n%u);\n", i);
    else if (is_half(t))
        sayf(&w->t, "td_store_%s(n%u);\n", tide_dtype_name(t), i);
    else
        sayf(&w->t, "n%u;\n", i);
}

/* tide_flat and tide_put_flat. */
static void say_flats(writer *w) {
    const tidei_program *p = w->p;
    bool needed[TIDEI_NODES_MAX] = {0};
    text *t = &w->t;
    say(t, "TD_FN void tide_flat(const tide_p &p, const tide_flats &q, int v, tide_u &k) {\n");
    for (unsigned i = 0; i < p->nnodes; i++) {
        const unsigned a = p->nodes[i].a;
        if (p->nodes[i].op != TIDEI_OP_INPUT || !w->l.single[i]) continue;
        sayf(t, "    {\n    const td_%s x%u = p.i%u[q.i%u + v * p.over[%u]];\n",
             tide_dtype_name(p->input_dtype[a]), a, a, a, a);
        say_node(t, p, i);
        sayf(t, "    k.n%u = n%u;\n    }\n", i, i);
    }
    say(t, "}\nTD_FN void tide_put_flat(const tide_p &p, const tide_flats &q, int v, const tide_u "
           "&k) {\n");
    for (unsigned i = 0; i < p->nouts; i++) needed[p->out_node[i]] |= w->f->single >> i & 1;
    say_nodes(w, needed, NULL);
    for (unsigned i = 0; i < p->nouts; i++) {
        if (!(w->f->single >> i & 1)) continue;
        sayf(t, "    p.o%u[q.o%u + v * p.over[%u]] = ", i, i, p->ninputs + i);
        say_stored(w, p->out_node[i]);
    }
    say(t, "}\n");
}

/* ---- folds ---- */

/* struct tide_f<i>: the accumulator of the fold that is node i. That of an argmin or argmax is the
** best value with its number (-1: none yet), which is a thread's own count until `place`. A thread
** meets elements in their order, so that the first of equals stays. */
static void say_arg(text *t, unsigned i, int fold, int acc) {
    const char *value = value_name(acc), *less = fold == TIDEI_FOLD_ARGMIN ? "<" : ">",
               *not_less = fold == TIDEI_FOLD_ARGMIN ? ">=" : "<=";
    sayf(t,
         "struct tide_f%u {\n    td_%s v;\n    td_i32 i;\n"
         "    TD_MEMBER void start() {\n        v = 0;\n        i = -1;\n    }\n"
         "    TD_MEMBER void add(td_%s y, bool on, td_i32 step) {\n"
         "        const bool better = on & ((i < 0) | ((v == v) & !(y %s v)));\n"
         "        v = better ? y : v;\n        i = better ? step : i;\n    }\n",
         i, value, value, not_less);
    sayf(t,
         "    TD_MEMBER void place(const tide_place &at, int w) {\n"
         "        if (i >= 0) i = tide_settled(at, w, i);\n    }\n"
         "    TD_MEMBER void join(const tide_f%u &b) {\n"
         "        const bool better = b.v != b.v ? v == v : b.v %s v && v == v;\n"
         "        const bool equal = b.v == v || (b.v != b.v && v != v);\n"
         "        if (b.i >= 0 && (i < 0 || better || (equal && b.i < i))) *this = b;\n    }\n",
         i, less);
}

static void say_accumulator(text *t, const tidei_program *p, unsigned i) {
    const int fold = p->nodes[i].c, acc = p->nodes[p->nodes[i].a].dtype;
    const char *value = value_name(acc), *start = start_of(fold, acc);
    if (is_arg(fold)) {
        say_arg(t, i, fold, acc);
        return;
    }
    sayf(t, "struct tide_f%u {\n    td_%s v;\n    TD_MEMBER void start() {\n        v = ", i,
         value);
    if (class_of(acc) == 3)
        sayf(t, "td_make_%s(%s, %s);\n    }\n", value, start,
             fold == TIDEI_FOLD_PROD ? "0" : start);
    else
        sayf(t, "(td_%s)(%s);\n    }\n", value, start);
    sayf(t, "    TD_MEMBER void add(td_%s y, bool on, td_i32) {\n", value);
    if (class_of(acc) == 2 && (fold == TIDEI_FOLD_MIN || fold == TIDEI_FOLD_MAX))
        sayf(t, "    const td_%s n = %s(v, y);\n", value,
             fold == TIDEI_FOLD_MIN ? "tide_least" : "tide_most");
    else
        say_operation(t, operation_of(fold), acc, acc, "n", (const char *const[]){"v", "y"});
    sayf(t,
         "    if (on) v = n;\n    }\n    TD_MEMBER void place(const tide_place &, int) {}\n"
         "    TD_MEMBER void join(const tide_f%u &b) { add(b.v, true, 0); }\n",
         i);
}

/* The value of a finished accumulator, as it would be read had it been stored. */
static void say_value(text *t, const tidei_program *p, unsigned i) {
    const int fold = p->nodes[i].c, acc = p->nodes[p->nodes[i].a].dtype, out = p->nodes[i].dtype;
    const int real = acc == TIDE_C64 ? TIDE_F32 : acc == TIDE_C128 ? TIDE_F64 : acc;
    const char *name = fold == TIDEI_FOLD_MEAN ? "mean" : is_arg(fold) ? "i" : "v";
    sayf(t, "    TD_MEMBER td_%s value(const tide_p &p) const {\n", value_name(out));
    if (fold == TIDEI_FOLD_MEAN) {
        sayf(t, "    const td_%s count = TD_CAST(i64, %s, p.count);\n", tide_dtype_name(real),
             tide_dtype_name(real));
        if (real == acc)
            say_operation(t, TIDEI_OP_DIV, acc, acc, name, (const char *const[]){"v", "count"});
        else /* each part by itself: an infinite part leaves the other as it is */
            sayf(t, "    const td_%s mean = td_make_%s(v.re / count, v.im / count);\n",
                 tide_dtype_name(acc), tide_dtype_name(acc));
    }
    if (is_half(out))
        sayf(t, "    return td_round_%s(%s);\n    }\n};\n", tide_dtype_name(out), name);
    else
        sayf(t, "    return %s;\n    }\n};\n", name);
}

static bool is_fold_of(const writer *w, unsigned i, unsigned stage) {
    return w->p->nodes[i].op == TIDEI_OP_FOLD && w->l.stage[i] == stage;
}

/* The accumulators of a stage. */
static void say_stage_folds(writer *w, unsigned stage) {
    static const char *const all[] = {"start()", "place(at, w)"};
    static const char *const params[] = {"", "const tide_place &at, int w"};
    text *t = &w->t;
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_fold_of(w, i, stage)) {
            say_accumulator(t, w->p, i);
            say_value(t, w->p, i);
        }
    sayf(t, "struct tide_folds%u {\n", stage);
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_fold_of(w, i, stage)) sayf(t, "    tide_f%u f%u;\n", i, i);
    for (int m = 0; m < 2; m++) {
        sayf(t, "    TD_MEMBER void %.5s(%s) {\n", all[m], params[m]);
        for (unsigned i = 0; i < w->p->nnodes; i++)
            if (is_fold_of(w, i, stage)) sayf(t, "        f%u.%s;\n", i, all[m]);
        say(t, "    }\n");
    }
    sayf(t, "    TD_MEMBER void join(const tide_folds%u &b) {\n", stage);
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_fold_of(w, i, stage)) sayf(t, "        f%u.join(b.f%u);\n", i, i);
    say(t, "    }\n};\n");
}

/* Single nodes that are known from this stage on and not before. */
static void say_settle(writer *w, unsigned stage) {
    bool unknown[TIDEI_NODES_MAX] = {0}, needed[TIDEI_NODES_MAX] = {0};
    for (unsigned i = 0; i < w->p->nnodes; i++)
        needed[i] = unknown[i] = is_member(w, i) && w->l.stage[i] == stage &&
                                 w->p->nodes[i].op != TIDEI_OP_FOLD &&
                                 w->p->nodes[i].op != TIDEI_OP_INPUT;
    say(&w->t, "TD_FN void settle(const tide_p &p, tide_u &k) {\n");
    say_nodes(w, needed, unknown);
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (unknown[i]) sayf(&w->t, "    k.n%u = n%u;\n", i, i);
    say(&w->t, "}\n");
}

/* Marks what a stage is there for: its folds' bodies, or the results. */
static void mark_purpose(const writer *w, unsigned stage, unsigned stages, bool *needed) {
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_fold_of(w, i, stage)) needed[w->p->nodes[i].a] = true;
    for (unsigned i = 0; stage == stages && i < w->p->nouts; i++)
        needed[w->p->out_node[i]] |= !(w->f->single >> i & 1);
}

/* The input whose place node i can take once `now`, what its stage needs, is computed. */
static bool may_inherit(writer *w, unsigned i, unsigned stages, const bool *now, unsigned *input) {
    bool later[TIDEI_NODES_MAX] = {0};
    const heir before = w->heir;
    w->heir = (heir){(int)i, 0, w->stage};
    const unsigned stage = w->stage;
    for (w->stage++; w->stage <= stages; w->stage++) {
        bool needed[TIDEI_NODES_MAX] = {0};
        mark_purpose(w, w->stage, stages, needed);
        mark_needed(w, needed, NULL);
        for (unsigned k = 0; k < w->p->nnodes; k++) later[k] |= needed[k];
    }
    w->stage = stage;
    w->heir = before;
    for (unsigned k = 0; k < i && later[i]; k++) {
        const tidei_node *n = &w->p->nodes[k];
        if (n->op != TIDEI_OP_INPUT || n->dtype != w->p->nodes[i].dtype || !now[k] || later[k] ||
            w->l.single[k] || w->f->late >> n->a & 1)
            continue;
        *input = n->a;
        return true;
    }
    return false;
}

/* The last node of the first stage that has one, as it stands for all before it. */
static void find_heir(writer *w, unsigned stages) {
    w->heir.node = -1;
    for (w->stage = 0; w->stage < stages && w->heir.node < 0; w->stage++) {
        bool now[TIDEI_NODES_MAX] = {0};
        mark_purpose(w, w->stage, stages, now);
        mark_needed(w, now, NULL);
        for (unsigned i = 0; i < w->p->nnodes; i++) {
            const tidei_node *n = &w->p->nodes[i];
            unsigned input;
            if (now[i] && n->op > TIDEI_OP_CAST && is_half(n->dtype) && !w->l.single[i] &&
                may_inherit(w, i, stages, now, &input))
                w->heir = (heir){(int)i, input, w->stage};
        }
    }
}

static void say_take(writer *w, unsigned stage) {
    bool needed[TIDEI_NODES_MAX] = {0};
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_fold_of(w, i, stage)) needed[w->p->nodes[i].a] = true;
    say(&w->t, "TD_FN void take(const tide_p &p, const tide_u &k, td_i64 linear, tide_x &x, "
               "int v, bool on, td_i32 step, fold &f) {\n");
    say_nodes(w, needed, NULL);
    if (w->heir.node >= 0 && w->heir.stage == stage) {
        sayf(&w->t, "    x.i%u.v[v] = ", w->heir.input);
        say_stored(w, (unsigned)w->heir.node);
    }
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_fold_of(w, i, stage))
            sayf(&w->t, "    f.f%u.add(n%u, on, step);\n", i, w->p->nodes[i].a);
    say(&w->t, "}\nTD_FN void end(const tide_p &p, const fold &f, tide_u &k) {\n");
    for (unsigned i = 0; i < w->p->nnodes; i++)
        if (is_fold_of(w, i, stage)) sayf(&w->t, "    k.n%u = f.f%u.value(p);\n", i, i);
    say(&w->t, "}\n");
}

static void say_stages(writer *w, unsigned stages) {
    sayf(&w->t, "constexpr int tide_stages = %u;\ntemplate <int S> struct tide_stage;\n", stages);
    for (unsigned s = 0; s <= stages; s++) {
        if (s < stages) say_stage_folds(w, s);
        w->stage = s;
        sayf(&w->t, "template <> struct tide_stage<%u> {\n", s);
        if (s < stages) sayf(&w->t, "typedef tide_folds%u fold;\n", s);
        say_settle(w, s);
        if (s < stages) say_take(w, s);
        say(&w->t, "};\n");
    }
}

/* tide_final, or tide_final_shared. */
static void say_final(writer *w, unsigned stages, bool sharing) {
    bool needed[TIDEI_NODES_MAX] = {0};
    mark_purpose(w, stages, stages, needed);
    sayf(&w->t,
         "TD_FN void tide_final%s(const tide_p &p, const tide_u &k, td_i64 linear, const tide_x "
         "&x, const tide_y &y, int v, tide_z &z%s) {\n",
         sharing ? "_shared" : "", sharing ? ", bool &divides" : "");
    w->quotients = sharing ? SHARED : WHOLE;
    say_nodes(w, needed, NULL);
    w->quotients = PLAIN;
    for (unsigned i = 0; i < w->p->nouts; i++) {
        if (w->f->single >> i & 1) continue;
        sayf(&w->t, "    z.o%u.v[v] = ", i);
        say_stored(w, w->p->out_node[i]);
    }
    say(&w->t, "}\n");
}

/* ---- the whole ---- */

/* Blocks of a multiprocessor at least, so that what they have under way fills the memory's pipes:
** 1024 threads, if their values fit 64 registers or nearly, else fewer. Blocks of clusters wait for
** each other, and 1280 threads wait less, where halves fit 48 registers (softmax of rows of 50257
** bf16 on an H200: 1672 GB/s, 1827). */
static unsigned least_blocks(const writer *w, const tidei_chain_traits *k, unsigned threads) {
    const tidei_chain_form *f = w->f;
    const unsigned elements = ((unsigned)f->vec * f->unroll + f->uneven) * f->rows;
    unsigned kept = 0, late = 0;
    for (unsigned i = 0; i < w->p->ninputs; i++) {
        const unsigned bytes = (unsigned)tide_dtype_size(w->p->input_dtype[i]);
        if (is_in(w, EARLY, i)) kept += bytes;
        if (is_in(w, LATE, i)) late += bytes < 4 ? 4 : bytes;
    }
    late *= elements / f->rows >= 32 ? f->vec : 2u * f->vec;
    if (f->middle && 28 + (elements * kept + late) / 4 <= 48) return 1280 / threads;
    if (kept < k->value_bytes) kept = k->value_bytes;
    const unsigned registers = 28 + (elements * kept + late) / 4;
    return registers <= 72                                   ? 1024 / threads
           : registers <= 96 && threads == TIDEI_CHAIN_SMALL ? 3
                                                             : 512 / threads;
}

static void say_constants(writer *w, const tidei_chain_traits *k) {
    const tidei_chain_form *f = w->f;
    const unsigned threads = tidei_chain_threads(f);
    sayf(&w->t,
         "#define TIDE_K %d\n#define TIDE_CLUSTER%s\n"
         "constexpr int tide_form = %d, tide_L = %d, tide_V = %d, tide_U = %d, tide_R = %d, "
         "tide_W = %d, tide_K = %d, tide_B = %u, tide_M = %u;\nconstexpr bool tide_nested = %d, "
         "tide_in_warp = %d, tide_uneven = %d, tide_carried = %d, tide_has_late = %d;\n",
         f->blocks, f->blocks > 1 ? " __cluster_dims__(TIDE_K, 1, 1)" : "", f->kind, f->lanes,
         f->vec, f->unroll, f->rows, f->kind == TIDEI_CHAIN_COLUMNS ? f->vec : f->rows, f->blocks,
         threads, least_blocks(w, k, threads), f->nested, f->in_warp, f->uneven, f->carried,
         f->late != 0);
    say(&w->t, "#ifndef TD_CUTS\n#define td_cut_bf16(f) td_store_bf16(f)\n#endif\n"
               "struct tide_place;\nTD_FN td_i32 tide_settled(const tide_place &at, int w, td_i32 "
               "step);\n");
}

char *tidei_chain_text(tidei_runtime *rt, const tidei_program *p, const tidei_chain_traits *k,
                       const tidei_chain_form *f, size_t *body) {
    writer w = {.t = {.rt = rt}, .p = p, .f = f};
    text *t = &w.t;
    tidei_chain_levels_of(p, f->flat, &w.l);
    say_common(t, k->complex, k->functions, tidei_cuda_base_text);
    if (body) *body = t->n;
    say_halves(t, p);
    say_constants(&w, k);
    say_params(t, p);
    say_set(&w, EARLY, "tide_early");
    say_set(&w, LATE, "tide_late");
    say_set(&w, OUTS, "tide_outs");
    say_set(&w, FLATS, "tide_flats");
    say_vectors(&w, EARLY, "tide_early", "tide_x");
    say_vectors(&w, LATE, "tide_late", "tide_y");
    say_behind(&w);
    say_results(&w);
    say_carrying(&w);
    find_shared(&w);
    find_heir(&w, k->stages);
    say_row(&w);
    say_flats(&w);
    say_stages(&w, k->stages);
    say_share(&w);
    say_final(&w, k->stages, false);
    say_final(&w, k->stages, true);
    say(t, tidei_cuda_chain_text);
    if (!t->failed) return t->at;
    tidei_host_free(rt, t->at);
    return NULL;
}
