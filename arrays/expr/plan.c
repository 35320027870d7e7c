/* plan.c: tidei_graph -> tidei_plan: which values are stored, and the program of each pass.
**
** A pass computes its roots from sources: parameters and values that earlier passes stored. Its
** nodes are the roots' *cone*: the nodes reached from them without going through a stored value.
** Every cone must fit into a program. So nodes are taken in order, and where a cone grows too large
** its operand with the greatest cone is stored. That is one more source for other cones with this
** operand, so the nodes behind it are taken again, stored ones too. What must stay true: the cone
** of every node before the present one fits a program. */
#include "arrays/expr/front.h"
#include <stdlib.h>

#define NONE UINT16_MAX

/* ---- cones ---- */

typedef struct cone {
    const tidei_graph *g;
    const uint16_t *stored_of;
    uint32_t *mark; /* of each node: the round that reached it last */
    uint32_t round;
    uint32_t n, ninputs, nscalars;
    uint16_t nodes[TIDEI_NODES_MAX];
} cone;

static bool is_source(const cone *c, uint16_t i) {
    return c->g->nodes[i].op == TIDEI_OP_INPUT || c->stored_of[i] != NONE;
}

/* Reaches node i; false beyond a program's limits. */
static bool reach(cone *c, uint16_t i, bool source) {
    if (c->mark[i] == c->round) return true;
    c->mark[i] = c->round;
    if (c->n == TIDEI_NODES_MAX) return false;
    c->nodes[c->n++] = i;
    c->ninputs += source;
    c->nscalars += c->g->nodes[i].op == TIDEI_OP_SCALAR;
    return c->ninputs <= TIDEI_INPUTS_MAX && c->nscalars <= TIDEI_SCALARS_MAX;
}

/* Finds the cone of the roots; false if it does not fit a program. `inside`: goes into the single
** root though it is stored. */
static bool gather(cone *c, const uint16_t *roots, uint32_t nroots, bool inside) {
    c->round++;
    c->n = c->ninputs = c->nscalars = 0;
    for (uint32_t i = 0; i < nroots; i++)
        if (!reach(c, roots[i], !inside && is_source(c, roots[i]))) return false;
    for (uint32_t k = 0; k < c->n; k++) {
        const tidei_gnode *n = &c->g->nodes[c->nodes[k]];
        const uint16_t operands[3] = {n->a, n->b, n->c};
        if (is_source(c, c->nodes[k]) && !(inside && k == 0)) continue;
        for (int j = 0; j < tidei_gnode_operands(n); j++)
            if (!reach(c, operands[j], is_source(c, operands[j]))) return false;
    }
    return true;
}

static bool make_cone(tidei_runtime *rt, const tidei_graph *g, const uint16_t *stored_of, cone *c) {
    *c = (cone){
        .g = g, .stored_of = stored_of, .mark = tidei_host_alloc(rt, g->nnodes * sizeof(uint32_t))};
    return c->mark != NULL;
}

/* ---- programs ---- */

static int by_number(const void *a, const void *b) {
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

tide_status tidei_pass_encode(const tidei_ast *ast, const tidei_graph *g, tidei_pass *pass,
                              const tidei_program *p) {
    for (unsigned i = 0; i < p->nscalars; i++) {
        if (pass->scalar[i] >= TIDEI_AXIS_LENGTH) continue;
        const tidei_weak *w = &g->weaks[pass->scalar[i]];
        if (!w->constant) continue;
        tide_status s = tidei_encode(w->value, p->scalar_dtype[i], ast->op, pass->values[i]);
        if (s != TIDE_OK) return tidei_ast_fail(ast, w->at, s, "%s", tide_error_last()->message);
    }
    return TIDE_OK;
}

/* Whether an operation of index(axis) changes nothing in a map, where axes keep their order: the
** last one's step is 1, and the first one is gone through once. */
static bool is_idle(const cone *c, const tidei_gnode *n) {
    const uint16_t of = n->op == TIDEI_OP_TRUNCDIV ? TIDEI_AXIS_STEP + TIDE_MAX_RANK - 1
                        : n->op == TIDEI_OP_FMOD   ? TIDEI_AXIS_LENGTH + TIDE_MAX_RANK
                                                   : 0;
    return of && c->g->nodes[n->b].op == TIDEI_OP_SCALAR && c->g->nodes[n->b].a == of;
}

/* The program of a gathered cone: its nodes in order, sources as inputs. */
static void write_nodes(const cone *c, bool inside, uint16_t root, bool fold, tidei_program *p,
                        tidei_pass *pass, uint16_t *number) {
    for (uint32_t k = 0; k < c->n; k++) {
        uint16_t i = c->nodes[k];
        const tidei_gnode *n = &c->g->nodes[i];
        tidei_node *o = &p->nodes[p->nnodes];
        if (!fold && is_idle(c, n)) {
            number[i] = number[n->a];
            continue;
        }
        number[i] = p->nnodes++;
        *o = (tidei_node){.op = n->op, .dtype = n->dtype};
        if (is_source(c, i) && !(inside && i == root)) {
            o->op = TIDEI_OP_INPUT;
            o->a = p->ninputs;
            p->input_dtype[p->ninputs] = n->dtype;
            pass->in[p->ninputs++] =
                (uint8_t)(c->stored_of[i] != NONE ? TIDEI_SOURCE_STORED + c->stored_of[i] : n->a);
        } else if (n->op == TIDEI_OP_SCALAR) {
            o->a = p->nscalars;
            p->scalar_dtype[p->nscalars] = n->dtype;
            pass->scalar[p->nscalars++] = n->a;
        } else {
            int operands = tidei_gnode_operands(n);
            o->a = operands > 0 ? number[n->a] : 0;
            o->b = operands > 1 ? number[n->b] : 0;
            o->c = operands > 2 ? number[n->c] : 0;
        }
    }
}

/* The pass that computes the roots; a fold's root is its body. */
static tide_status make_pass(tidei_runtime *rt, const tidei_ast *ast, cone *c,
                             const uint16_t *roots, uint32_t nroots, bool inside,
                             const tidei_gnode *fold, tidei_pass *pass) {
    tidei_program p = {0};
    uint16_t *number = tidei_host_alloc(rt, c->g->nnodes * sizeof *number);
    if (!number) return tidei_fail_host_memory(ast->op, c->g->nnodes * sizeof *number);
    bool fits = gather(c, roots, nroots, inside);
    tidei_check(fits); /* the plan made it so */
    (void)fits;
    qsort(c->nodes, c->n, sizeof *c->nodes, by_number);
    write_nodes(c, inside, roots[0], fold != NULL, &p, pass, number);
    p.nouts = (uint16_t)nroots;
    for (uint32_t i = 0; i < nroots; i++) {
        p.out_node[i] = number[roots[i]];
        p.out_dtype[i] = fold ? fold->dtype : c->g->nodes[roots[i]].dtype;
    }
    p.fold = fold ? (uint8_t)fold->c : TIDEI_FOLD_NONE;
    p.acc_dtype = fold ? c->g->nodes[fold->a].dtype : 0;
    tidei_host_free(rt, number);
    tide_status s = tidei_pass_encode(ast, c->g, pass, &p);
    if (s != TIDE_OK) return s;
    pass->prog = tidei_program_shared(rt, &p);
    return pass->prog ? TIDE_OK : tidei_fail_host_memory(ast->op, sizeof p);
}

/* ---- which values are stored ---- */

static tide_status store(const tidei_ast *ast, tidei_plan *p, uint16_t node) {
    if (p->nstored == TIDEI_STORED_MAX)
        return tidei_ast_fail(ast, p->graph.nodes[node].at, TIDE_E_UNSUPPORTED,
                              "the expression needs more than %d passes: split it",
                              TIDEI_STORED_MAX);
    p->stored_of[node] = 0; /* numbered in order later */
    p->nstored++;
    return TIDE_OK;
}

/* Whether the cone has positions: what holds them means another thing in a pass over another
** shape. */
static bool has_positions(const cone *c) {
    for (uint32_t k = 0; k < c->n; k++)
        if (c->g->nodes[c->nodes[k]].op == TIDEI_OP_LINEAR) return true;
    return false;
}

/* The operand of node i with the greatest cone among those worth storing; NONE if there is none. */
static uint16_t greatest_operand(cone *c, const tidei_gnode *n) {
    const uint16_t operands[3] = {n->a, n->b, n->c};
    uint16_t best = NONE;
    uint32_t size = 1; /* leaves are not worth storing */
    for (int j = 0; j < tidei_gnode_operands(n); j++) {
        if (is_source(c, operands[j])) continue;
        bool fits = gather(c, &operands[j], 1, false);
        tidei_check(fits);
        (void)fits;
        if (c->n > size && !has_positions(c)) size = c->n, best = operands[j];
    }
    return best;
}

static tide_status choose_stored(const tidei_ast *ast, tidei_plan *p, cone *c) {
    tide_status s = TIDE_OK;
    for (uint16_t i = 0; i < p->graph.nnodes && s == TIDE_OK; i++) {
        const tidei_gnode *n = &p->graph.nodes[i];
        bool stored = p->stored_of[i] != NONE;
        if (n->op == TIDEI_OP_FOLD) { /* its pass computes the body, whose cone fits */
            if (!stored) s = store(ast, p, i);
        } else if (!gather(c, &i, 1, stored)) {
            uint16_t operand = greatest_operand(c, n);
            if (operand == NONE) /* three leaves would fit */
                return tidei_ast_fail(ast, n->at, TIDE_E_UNSUPPORTED,
                                      "what holds index() is too large for one pass: split it");
            s = store(ast, p, operand);
            i = operand; /* continue behind the operand */
        }
    }
    return s;
}

/* Notes that stored value k, or (k = TIDEI_STORED_MAX) the results read these sources, which must
** be kept until then. */
static void note_uses(tidei_plan *p, const uint8_t *sources, unsigned n, unsigned k) {
    for (unsigned i = 0; i < n; i++)
        if (sources[i] >= TIDEI_SOURCE_STORED)
            p->stored[sources[i] - TIDEI_SOURCE_STORED].last_use = (uint8_t)k;
}

static tide_status make_stored(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p, cone *c) {
    p->stored = tidei_host_alloc(rt, p->nstored * sizeof *p->stored);
    if (!p->stored) return tidei_fail_host_memory(ast->op, p->nstored * sizeof *p->stored);
    uint16_t k = 0;
    for (uint16_t i = 0; i < p->graph.nnodes; i++)
        if (p->stored_of[i] != NONE) p->stored_of[i] = k++;
    k = 0;
    for (uint16_t i = 0; i < p->graph.nnodes; i++) {
        if (p->stored_of[i] == NONE) continue;
        const tidei_gnode *n = &p->graph.nodes[i];
        bool fold = n->op == TIDEI_OP_FOLD;
        tidei_stored *v = &p->stored[k];
        *v = (tidei_stored){.dtype = n->dtype,
                            .fold = (uint8_t)(fold ? n->c : TIDEI_FOLD_NONE),
                            .result = -1,
                            .chain = TIDEI_NO_CHAIN,
                            .axes = n->b,
                            .node = i};
        tide_status s =
            make_pass(rt, ast, c, fold ? &n->a : &i, 1, !fold, fold ? n : NULL, &v->pass);
        if (s != TIDE_OK) return s;
        note_uses(p, v->pass.in, v->pass.prog->ninputs, k++);
    }
    return TIDE_OK;
}

/* ---- results ---- */

static void list_sources(tidei_plan *p, cone *c, uint32_t r) {
    uint16_t node = p->graph.results[r];
    bool fits = gather(c, &node, 1, false);
    tidei_check(fits);
    (void)fits;
    for (uint32_t k = 0; k < c->n; k++) {
        uint16_t i = c->nodes[k];
        if (!is_source(c, i)) continue;
        p->results[r].sources[p->results[r].nsources++] =
            (uint8_t)(c->stored_of[i] != NONE ? TIDEI_SOURCE_STORED + c->stored_of[i]
                                              : c->g->nodes[i].a);
    }
}

static void arrange_results(const tidei_ast *ast, tidei_plan *p, cone *c) {
    uint16_t bundle[TIDE_MAX_RESULTS];
    uint32_t n = 0;
    uint8_t bundles = 0;
    for (uint32_t r = 0; r < ast->nresults; r++) {
        uint16_t node = p->graph.results[r], k = p->stored_of[node];
        p->results[r].dtype = p->graph.nodes[node].dtype;
        if (k != NONE && p->stored[k].result < 0) {
            p->stored[k].result = (int8_t)r;
            p->results[r].is_stored = true;
            continue;
        }
        list_sources(p, c, r);
        note_uses(p, p->results[r].sources, p->results[r].nsources, TIDEI_STORED_MAX);
        bundle[n++] = node;
        if (!gather(c, bundle, n, false)) bundles++, bundle[0] = node, n = 1;
        p->results[r].bundle = bundles;
    }
}

/* ---- the whole ---- */

static tide_status build(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p) {
    size_t bytes = p->graph.nnodes * sizeof *p->stored_of;
    cone c;
    p->stored_of = tidei_host_alloc(rt, bytes);
    if (!p->stored_of) return tidei_fail_host_memory(ast->op, bytes);
    memset(p->stored_of, 0xff, bytes); /* NONE */
    if (!make_cone(rt, &p->graph, p->stored_of, &c))
        return tidei_fail_host_memory(ast->op, 2 * bytes);
    tide_status s = choose_stored(ast, p, &c);
    if (s == TIDE_OK && p->nstored) s = make_stored(rt, ast, p, &c);
    if (s == TIDE_OK) arrange_results(ast, p, &c);
    tidei_host_free(rt, c.mark);
    return s == TIDE_OK ? tidei_plan_find_chains(rt, ast, p) : s;
}

tide_status tidei_plan_build(tidei_runtime *rt, const tidei_ast *ast, const uint8_t *sig, bool into,
                             const int8_t *beyond, uint32_t nlimits, tidei_plan **out) {
    size_t bytes = sizeof(tidei_plan) + (beyond ? nlimits : 0);
    tidei_plan *p = tidei_host_alloc(rt, bytes);
    if (!p) return tidei_fail_host_memory(ast->op, bytes);
    p->into = into;
    if (beyond) p->beyond = memcpy(p + 1, beyond, nlimits);
    memcpy(p->sig, sig, ast->nparams + (into ? ast->nresults : 0));
    tide_status s =
        tidei_graph_build(rt, ast, sig, into ? sig + ast->nparams : NULL, beyond, &p->graph);
    if (s == TIDE_OK) s = build(rt, ast, p);
    if (s == TIDE_OK)
        *out = p;
    else
        tidei_plan_free(rt, p);
    return s;
}

void tidei_plan_free(tidei_runtime *rt, tidei_plan *p) {
    tidei_plan *other = atomic_load(&p->others);
    while (other) {
        tidei_plan *next = other->next;
        tidei_plan_free(rt, other); /* has no others */
        other = next;
    }
    tidei_group *g = atomic_load(&p->groups);
    while (g) {
        tidei_group *next = g->next;
        tidei_host_free(rt, g);
        g = next;
    }
    tidei_shortcuts_free(rt, p);
    tidei_host_free(rt, p->chains);
    tidei_host_free(rt, p->stored);
    tidei_host_free(rt, p->stored_of);
    tidei_graph_free(rt, &p->graph);
    tidei_host_free(rt, p);
}

static tidei_group *find_group(tidei_group *g, unsigned results) {
    while (g && g->results != results) g = g->next;
    return g;
}

static tide_status make_group(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p,
                              unsigned results, tidei_group *g) {
    uint16_t roots[TIDE_MAX_RESULTS];
    uint32_t n = 0;
    cone c;
    for (uint32_t r = 0; r < ast->nresults; r++)
        if (results >> r & 1) roots[n++] = p->graph.results[r];
    if (!make_cone(rt, &p->graph, p->stored_of, &c))
        return tidei_fail_host_memory(ast->op, p->graph.nnodes * 4);
    g->results = results;
    tide_status s = make_pass(rt, ast, &c, roots, n, false, NULL, &g->pass);
    tidei_host_free(rt, c.mark);
    return s;
}

tide_status tidei_plan_group(tidei_runtime *rt, const tidei_ast *ast, tidei_plan *p,
                             unsigned results, const tidei_pass **out) {
    tidei_group *head = atomic_load_explicit(&p->groups, memory_order_acquire),
                *g = find_group(head, results), *mine;
    if (g) return *out = &g->pass, TIDE_OK;
    mine = tidei_host_alloc(rt, sizeof *mine);
    if (!mine) return tidei_fail_host_memory(ast->op, sizeof *mine);
    tide_status s = make_group(rt, ast, p, results, mine);
    if (s != TIDE_OK) return tidei_host_free(rt, mine), s;
    for (;;) { /* another thread may have made it meanwhile */
        mine->next = head;
        if (atomic_compare_exchange_weak(&p->groups, &head, mine))
            return *out = &mine->pass, TIDE_OK;
        if (!(g = find_group(head, results))) continue;
        tidei_host_free(rt, mine);
        return *out = &g->pass, TIDE_OK;
    }
}
