/* chains.c: which stored folds and results one kernel may compute together: the chains of a plan.
**
** Model: stored values are gone through in their order. A fold joins the chain that is open for its
** axes, as they are written; a value that is none of a chain's own and depends on one of its values
** closes it, so that a chain can run in the place of its last value. Then each result goes to the
** last chain among those that it reads, if all else that it reads is there by then. A chain's
** program goes through its own values, so that these are computed and not read; folds of one body
** that only differ in `keepdims` are one.
** What must stay true: the plan stands without chains, value by value; shapes decide at each call.
** Devices of a runtime are of one kind, so that where one runs no chains none does. */
#include "arrays/expr/front.h"

#define NONE UINT16_MAX

typedef struct finder {
    tidei_runtime *rt;
    const tidei_ast *ast;
    tidei_plan *p;
    uint64_t needs[TIDEI_STORED_MAX]; /* what a stored value depends on, itself too */
    uint64_t closed;                  /* chains (bits) */
    uint16_t *number;                 /* of each node in the program being written; NONE */
} finder;

static uint64_t bit(unsigned k) { return (uint64_t)1 << k; }

static uint64_t stored_among(const uint8_t *sources, unsigned n) {
    uint64_t all = 0;
    for (unsigned i = 0; i < n; i++)
        if (sources[i] >= TIDEI_SOURCE_STORED) all |= bit(sources[i] - TIDEI_SOURCE_STORED);
    return all;
}
static uint64_t read_by_stored(const tidei_plan *p, unsigned k) {
    return stored_among(p->stored[k].pass.in, p->stored[k].pass.prog->ninputs);
}
static uint64_t read_by_result(const tidei_plan *p, unsigned r) {
    return stored_among(p->results[r].sources, p->results[r].nsources);
}

/* ---- which belong together ---- */

static bool same_axes(const tidei_axes *a, const tidei_axes *b) {
    return a->n == b->n && memcmp(a->axis, b->axis, sizeof a->axis) == 0;
}

static bool may_join(const finder *f, unsigned k) {
    const tidei_stored *v = &f->p->stored[k];
    return v->fold != TIDEI_FOLD_NONE && !tidei_is_scan(v->fold) &&
           f->ast->folds[v->axes].n != TIDEI_AXES_GIVEN;
}

static unsigned first_of(uint64_t members) { return (unsigned)__builtin_ctzll(members); }

static void join(finder *f, unsigned k) {
    tidei_plan *p = f->p;
    const tidei_axes *axes = &f->ast->folds[p->stored[k].axes];
    unsigned c = 0;
    for (; c < p->nchains; c++) {
        const tidei_stored *first = &p->stored[first_of(p->chains[c].members)];
        if (!(f->closed >> c & 1) && same_axes(&f->ast->folds[first->axes], axes)) break;
    }
    if (c == p->nchains) p->nchains++; /* there are no more than stored values */
    p->chains[c].members |= bit(k);
    p->chains[c].last = (uint8_t)k;
    p->stored[k].chain = (uint8_t)c;
}

static void find_members(finder *f) {
    tidei_plan *p = f->p;
    for (unsigned k = 0; k < p->nstored; k++) {
        f->needs[k] = bit(k);
        for (uint64_t in = read_by_stored(p, k); in; in &= in - 1)
            f->needs[k] |= f->needs[first_of(in)];
        if (may_join(f, k)) join(f, k);
        for (unsigned c = 0; c < p->nchains; c++)
            if (p->stored[k].chain != c && f->needs[k] & p->chains[c].members) f->closed |= bit(c);
    }
}

static void find_results(finder *f) {
    tidei_plan *p = f->p;
    for (unsigned r = 0; r < f->ast->nresults; r++) {
        const uint64_t in = p->results[r].is_stored ? 0 : read_by_result(p, r);
        tidei_chain *best = NULL;
        for (unsigned c = 0; c < p->nchains; c++)
            if (in & p->chains[c].members && (!best || p->chains[c].last > best->last))
                best = &p->chains[c];
        if (best && !(in & ~best->members & ~(bit(best->last) - 1))) best->results |= 1u << r;
    }
}

/* ---- the program ---- */

static bool is_own(const finder *f, const tidei_chain *ch, uint16_t node) {
    const uint16_t k = f->p->stored_of[node];
    return k != NONE && ch->members >> k & 1;
}
static bool is_source(const finder *f, const tidei_chain *ch, uint16_t node) {
    return f->p->graph.nodes[node].op == TIDEI_OP_INPUT ||
           (f->p->stored_of[node] != NONE && !is_own(f, ch, node));
}

/* Marks what the marked nodes are computed from; number is 0 where marked. */
static void mark(finder *f, const tidei_chain *ch) {
    for (uint32_t i = f->p->graph.nnodes; i-- > 0;) {
        const tidei_gnode *n = &f->p->graph.nodes[i];
        const uint16_t operands[3] = {n->a, n->b, n->c};
        if (f->number[i] == NONE || is_source(f, ch, (uint16_t)i)) continue;
        for (int k = 0; k < tidei_gnode_operands(n); k++) f->number[operands[k]] = 0;
    }
}

/* An earlier fold that is the same but for its dimensions' number; NONE. */
static uint16_t twin(const finder *f, const tidei_chain *ch, uint16_t i) {
    const tidei_gnode *n = &f->p->graph.nodes[i];
    for (uint16_t j = 0; j < i; j++) {
        const tidei_gnode *m = &f->p->graph.nodes[j];
        if (m->op == TIDEI_OP_FOLD && f->number[j] != NONE && is_own(f, ch, j) && m->a == n->a &&
            m->c == n->c)
            return j;
    }
    return NONE;
}

static void write_source(const finder *f, uint16_t i, tidei_node *o, tidei_program *p,
                         tidei_pass *pass) {
    const uint16_t k = f->p->stored_of[i];
    o->op = TIDEI_OP_INPUT;
    o->a = p->ninputs;
    p->input_dtype[p->ninputs] = o->dtype;
    pass->in[p->ninputs++] =
        (uint8_t)(k != NONE ? TIDEI_SOURCE_STORED + k : f->p->graph.nodes[i].a);
}

static void write_scalar(const tidei_gnode *n, tidei_node *o, tidei_program *p, tidei_pass *pass) {
    o->a = p->nscalars;
    p->scalar_dtype[p->nscalars] = n->dtype;
    pass->scalar[p->nscalars++] = n->a;
}

/* Writes the marked nodes; false beyond a program's limits. */
static bool write_nodes(finder *f, const tidei_chain *ch, tidei_program *p, tidei_pass *pass) {
    for (uint16_t i = 0; i < f->p->graph.nnodes; i++) {
        const tidei_gnode *n = &f->p->graph.nodes[i];
        tidei_node *o = &p->nodes[p->nnodes];
        const bool source = is_source(f, ch, i), fold = n->op == TIDEI_OP_FOLD && !source;
        if (f->number[i] == NONE) continue;
        if (fold && twin(f, ch, i) != NONE) {
            f->number[i] = f->number[twin(f, ch, i)];
            continue;
        }
        if (p->nnodes == TIDEI_NODES_MAX || p->ninputs == TIDEI_INPUTS_MAX ||
            p->nscalars == TIDEI_SCALARS_MAX)
            return false;
        f->number[i] = p->nnodes++;
        *o = (tidei_node){.op = n->op, .dtype = n->dtype};
        if (source)
            write_source(f, i, o, p, pass);
        else if (n->op == TIDEI_OP_SCALAR)
            write_scalar(n, o, p, pass);
        else {
            const int operands = tidei_gnode_operands(n);
            o->a = operands > 0 ? f->number[n->a] : 0;
            o->b = operands > 1 ? f->number[n->b] : 0;
            o->c = fold ? n->c : operands > 2 ? f->number[n->c] : 0;
            p->nfolds += fold;
        }
    }
    return true;
}

/* Whether somebody else reads a member, so that it has to be stored. */
static bool is_read_outside(const finder *f, const tidei_chain *ch, unsigned member) {
    const tidei_plan *p = f->p;
    for (unsigned k = 0; k < p->nstored; k++)
        if (!(ch->members >> k & 1) && read_by_stored(p, k) >> member & 1) return true;
    for (unsigned r = 0; r < f->ast->nresults; r++)
        if (!p->results[r].is_stored && !(ch->results >> r & 1) &&
            read_by_result(p, r) >> member & 1)
            return true;
    return false;
}

/* Lists the outs and marks their nodes; false where there are too many. */
static bool list_outs(finder *f, tidei_chain *ch, uint16_t *nodes, unsigned *n) {
    const tidei_plan *p = f->p;
    *n = 0;
    for (unsigned k = 0; k < p->nstored; k++) {
        const int8_t result = p->stored[k].result;
        if (!(ch->members >> k & 1) || (result < 0 && !is_read_outside(f, ch, k))) continue;
        if (*n == TIDEI_OUTS_MAX) return false;
        ch->outs[*n] = (uint8_t)(result >= 0 ? (unsigned)result : TIDE_MAX_RESULTS + k);
        nodes[(*n)++] = p->stored[k].node;
    }
    for (unsigned r = 0; r < f->ast->nresults; r++) {
        if (!(ch->results >> r & 1)) continue;
        if (*n == TIDEI_OUTS_MAX) return false;
        ch->outs[*n] = (uint8_t)r;
        nodes[(*n)++] = p->graph.results[r];
    }
    return true;
}

static void unmark(finder *f) { memset(f->number, 0xff, f->p->graph.nnodes * sizeof *f->number); }

/* Whether a result holds positions outside folds' bodies. */
static bool has_positions(finder *f, const tidei_chain *ch, unsigned r) {
    bool found = false;
    unmark(f);
    f->number[f->p->graph.results[r]] = 0;
    for (uint32_t i = f->p->graph.nnodes; i-- > 0;) {
        const tidei_gnode *n = &f->p->graph.nodes[i];
        const uint16_t operands[3] = {n->a, n->b, n->c};
        if (f->number[i] == NONE || is_source(f, ch, (uint16_t)i) || is_own(f, ch, (uint16_t)i))
            continue;
        found |= n->op == TIDEI_OP_LINEAR;
        for (int k = 0; k < tidei_gnode_operands(n); k++) f->number[operands[k]] = 0;
    }
    return found;
}

/* Makes a chain's program; without one it is none. */
static tide_status write_program(finder *f, tidei_chain *ch) {
    uint16_t nodes[TIDEI_OUTS_MAX];
    tidei_program p = {0};
    unsigned n;
    if (!list_outs(f, ch, nodes, &n)) return TIDE_OK;
    for (unsigned r = 0; r < f->ast->nresults; r++)
        if (ch->results >> r & 1 && has_positions(f, ch, r)) ch->positions |= 1u << r;
    unmark(f);
    for (unsigned i = 0; i < n; i++) f->number[nodes[i]] = 0;
    mark(f, ch);
    if (!write_nodes(f, ch, &p, &ch->pass)) return TIDE_OK;
    p.nouts = (uint16_t)n;
    for (unsigned i = 0; i < n; i++) {
        p.out_node[i] = f->number[nodes[i]];
        p.out_dtype[i] = f->p->graph.nodes[nodes[i]].dtype;
    }
    if (p.nfolds + __builtin_popcount(ch->results) < 2) return TIDE_OK; /* a fold alone */
    tide_status s = tidei_pass_encode(f->ast, &f->p->graph, &ch->pass, &p);
    if (s != TIDE_OK) return s;
    ch->pass.prog = tidei_program_shared(f->rt, &p);
    return ch->pass.prog ? TIDE_OK : tidei_fail_host_memory(f->ast->op, sizeof p);
}

/* ---- the whole ---- */

/* What members read stays until the last of them has run. */
static void keep_until_last(tidei_plan *p, const tidei_chain *ch) {
    for (uint64_t m = ch->members; m; m &= m - 1)
        for (uint64_t in = read_by_stored(p, first_of(m)); in; in &= in - 1) {
            uint8_t *last = &p->stored[first_of(in)].last_use;
            if (*last < ch->last) *last = ch->last;
        }
}

static bool is_whole(const finder *f, const tidei_chain *ch) {
    bool all = true;
    for (unsigned k = 0; k < f->p->nstored; k++) all &= ch->members >> k & 1;
    for (unsigned r = 0; r < f->ast->nresults; r++)
        all &= f->p->results[r].is_stored || ch->results >> r & 1;
    return all;
}

static void give_up(tidei_plan *p, const tidei_chain *ch) {
    for (uint64_t m = ch->members; m; m &= m - 1) p->stored[first_of(m)].chain = TIDEI_NO_CHAIN;
}

static tide_status find(finder *f) {
    tide_status s = TIDE_OK;
    find_members(f);
    find_results(f);
    for (unsigned c = 0; c < f->p->nchains && s == TIDE_OK; c++) {
        tidei_chain *ch = &f->p->chains[c];
        s = write_program(f, ch);
        if (!ch->pass.prog) {
            give_up(f->p, ch);
            continue;
        }
        ch->whole = is_whole(f, ch);
        keep_until_last(f->p, ch);
    }
    return s;
}

tide_status tidei_plan_find_chains(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p) {
    const size_t bytes = p->nstored * sizeof *p->chains,
                 numbers = p->graph.nnodes * sizeof(uint16_t);
    finder f = {.rt = rt, .ast = ast, .p = p};
    if (!p->nstored || !tidei_backend_of(tidei_dev_next(rt, NULL))->suits) return TIDE_OK;
    p->chains = tidei_host_alloc(rt, bytes);
    f.number = tidei_host_alloc(rt, numbers);
    tide_status s =
        p->chains && f.number ? find(&f) : tidei_fail_host_memory(ast->op, bytes + numbers);
    tidei_host_free(rt, f.number);
    return s;
}
