/* numbers.c: computing an application's numbers, and computing them again at each run of a graph.
** The model stands in numbers.h. */
#include "arrays/expr/numbers.h"

/* ---- computing ---- */

tidei_number_outcome tidei_number_compute(const tidei_weak *weaks, const tidei_weak *w,
                                          const tide_arg *params, const tide_arg *values,
                                          tide_arg *out) {
    const tide_arg zero = tide_arg_bool(0);
    tide_arg in[3] = {zero, zero, zero};
    if (w->op == TIDEI_OP_INPUT)
        *out = params[w->a];
    else {
        const uint16_t operands[3] = {w->a, w->b, w->c};
        for (int i = 0; i < tidei_op_infos[w->op].arity; i++)
            in[i] = *tidei_number(weaks, values, operands[i]);
        if (!tidei_weak_eval(w->op, w->operand, in, out)) return TIDEI_NUMBER_TOO_LARGE;
    }
    return w->natural && out->kind == TIDE_ARG_INT && out->value.i < 0 ? TIDEI_NUMBER_NO_POWER
                                                                       : TIDEI_NUMBER_IS;
}

/* ---- numbers of a graph's run ---- */

tide_status tidei_numbers_look_up(const tidei_graph_call *call, const tide_arg *args, size_t n,
                                  const char *op, tide_arg *out, uint32_t *which) {
    *which = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = args[i];
        if (args[i].kind != TIDE_ARG_NUMBER) continue;
        if (args[i].reserved != call->number || args[i].value.u >= call->n)
            return tidei_fail(TIDE_E_INVALID, op,
                              "argument %zu is a number of another run of a graph", i + 1);
        out[i] = call->args[args[i].value.u];
        *which |= (uint32_t)1 << i;
    }
    return TIDE_OK;
}

/* What the numbers of a node, or of an application, are computed from; the lists lie behind it. */
typedef struct kept {
    uint32_t nweaks, nlimits, nargs, nscalars;
    size_t scalars_at;
    const tidei_weak *weaks;
    const tidei_limit *limits;
    const tide_arg *args;
    const struct scalar {
        uint16_t weak;
        uint8_t dtype, place;
    } * scalars;
    int8_t *beyond; /* of the limits, for the program that was captured */
} kept;

static bool changes(const tidei_plan *plan, const tidei_pass *pass, unsigned i) {
    const uint16_t a = pass->scalar[i];
    return a < TIDEI_AXIS_LENGTH && !plan->graph.weaks[a].constant;
}

/* Copies n elements behind what is there already. */
static void *put(char **to, const void *from, size_t n, size_t size) {
    void *at = *to;
    if (n) memcpy(at, from, n * size);
    *to += tidei_round_up(n * size, 16);
    return at;
}

/* Those of the pass that are other ones at each run; pass NULL: of none. */
static uint32_t find_scalars(const tidei_plan *plan, const tidei_pass *pass, struct scalar *out) {
    uint32_t m = 0;
    for (unsigned i = 0; pass && i < pass->prog->nscalars; i++)
        if (changes(plan, pass, i))
            out[m++] = (struct scalar){pass->scalar[i], pass->prog->scalar_dtype[i], (uint8_t)i};
    return m;
}

/* With room for so many limits. */
static kept *make(tidei_runtime *rt, const tidei_plan *plan, const struct scalar *scalars,
                  uint32_t m, uint32_t nlimits, const tide_arg *args, unsigned n) {
    const tidei_graph *g = &plan->graph;
    size_t bytes = g->nweaks * sizeof *g->weaks + nlimits * (sizeof *g->limits + 1) +
                   n * sizeof *args + m * sizeof *scalars;
    kept *k = tidei_host_alloc(rt, tidei_round_up(sizeof *k, 16) + bytes + 5 * 16);
    if (!k) return NULL;
    char *to = (char *)k + tidei_round_up(sizeof *k, 16);
    *k = (kept){.nweaks = g->nweaks, .nlimits = nlimits, .nargs = n, .nscalars = m};
    k->weaks = put(&to, g->weaks, g->nweaks, sizeof *g->weaks);
    k->args = put(&to, args, n, sizeof *args);
    k->scalars = put(&to, scalars, m, sizeof *scalars);
    k->limits = put(&to, g->limits, nlimits, sizeof *g->limits);
    k->beyond = (int8_t *)to; /* zeroed: all are in range */
    return k;
}

static bool compute(const kept *k, const tide_arg *run, tide_arg *values) {
    tide_arg args[TIDE_MAX_ARGS];
    for (uint32_t i = 0; i < k->nargs; i++)
        args[i] = k->args[i].kind == TIDE_ARG_NUMBER ? run[k->args[i].value.u] : k->args[i];
    for (uint32_t i = 0; i < k->nweaks; i++) {
        const tidei_weak *w = &k->weaks[i];
        if (!w->constant &&
            tidei_number_compute(k->weaks, w, args, values, &values[w->slot]) != TIDEI_NUMBER_IS)
            return false;
    }
    return true;
}

/* A number that cannot be stored so is the function's error to tell. */
static bool encode(const kept *k, const tide_arg *values, unsigned char *params) {
    tidei_saved_error e;
    tidei_error_save(&e);
    for (uint32_t i = 0; i < k->nscalars; i++) {
        const struct scalar *s = &k->scalars[i];
        if (tidei_encode(*tidei_number(k->weaks, values, s->weak), s->dtype, "tide_graph_run",
                         params + k->scalars_at + 16 * s->place) == TIDE_OK)
            continue;
        tidei_error_restore(&e);
        return false;
    }
    return true;
}

static bool renew(const void *data, const tide_arg *run, unsigned char *params) {
    const kept *k = data;
    tide_arg values[TIDEI_WEAK_SLOTS_MAX];
    return compute(k, run, values) && encode(k, values, params);
}

/* Whether the numbers are what the captured program was made for, and each can be stored as it has
** them, also where nobody reads what it goes into: an error of the call is one at every run. */
static bool serves(const void *data, const tide_arg *run) {
    const kept *k = data;
    tide_arg values[TIDEI_WEAK_SLOTS_MAX];
    _Alignas(16) unsigned char nowhere[16];
    if (!compute(k, run, values)) return false;
    for (uint32_t i = 0; i < k->nlimits; i++)
        if (tidei_number_beyond(k->weaks, values, &k->limits[i]) != k->beyond[i]) return false;
    return encode(k, values, nowhere);
}

unsigned tidei_numbers_from(tidei_runtime *rt) {
    const tidei_capture *c = tidei_capturing(rt);
    return c ? c->nnodes : 0;
}

static tide_status keep(tidei_capture *c, unsigned node, const tidei_plan *plan,
                        const struct scalar *scalars, uint32_t m, const tide_arg *args, unsigned n,
                        const char *op) {
    kept *k = make(c->dev->rt, plan, scalars, m, 0, args, n);
    if (!k) return tidei_capture_fail(c, tidei_fail_host_memory(op, sizeof *k));
    k->scalars_at = c->nodes[node]->launch.scalars_at;
    return tidei_capture_renew(c, node, renew, k);
}

tide_status tidei_numbers_keep(tidei_runtime *rt, unsigned from, const tidei_plan *plan,
                               const tidei_pass *pass, const tide_arg *args, unsigned n,
                               const char *op) {
    tidei_capture *c = tidei_capturing(rt);
    struct scalar scalars[TIDEI_SCALARS_MAX];
    const uint32_t m = c ? find_scalars(plan, pass, scalars) : 0;
    bool any = false;
    if (!m || c->nnodes == from) return TIDE_OK;
    for (unsigned i = from; i < c->nnodes; i++) {
        if (c->nodes[i]->kind != TIDEI_NODE_LAUNCH || !c->nodes[i]->launch.scalars_at) continue;
        tide_status s = keep(c, i, plan, scalars, m, args, n, op);
        if (s != TIDE_OK) return s;
        any = true;
    }
    return any ? TIDE_OK
               : tidei_capture_refused(rt, op,
                                       "computes with a number of the run that its work does not "
                                       "take as one");
}

/* The numbers that the plan's nodes have, each as it is stored, on host memory; NULL: that is
** exhausted. */
static struct scalar *all_scalars(tidei_runtime *rt, const tidei_graph *g, uint32_t *m) {
    struct scalar *all = tidei_host_alloc(rt, (g->nnodes + (size_t)1) * sizeof *all);
    *m = 0;
    for (uint32_t i = 0; all && i < g->nnodes; i++) {
        const tidei_gnode *x = &g->nodes[i];
        if (x->op == TIDEI_OP_SCALAR && x->a < TIDEI_AXIS_LENGTH && !g->weaks[x->a].constant)
            all[(*m)++] = (struct scalar){x->a, x->dtype, 0};
    }
    return all;
}

/* A condition of the capture: of the plan's numbers, or of its limits, or of both. */
static tide_status watch(tidei_capture *c, const tidei_plan *plan, const int8_t *beyond,
                         uint32_t nlimits, bool stored, const tide_arg *args, unsigned n,
                         const char *op) {
    tidei_runtime *rt = c->dev->rt;
    uint32_t m = 0;
    struct scalar *scalars = stored ? all_scalars(rt, &plan->graph, &m) : NULL;
    kept *k = stored && !scalars ? NULL : make(rt, plan, scalars, m, nlimits, args, n);
    tidei_host_free(rt, scalars);
    if (!k) return tidei_capture_fail(c, tidei_fail_host_memory(op, sizeof *k));
    if (beyond) memcpy(k->beyond, beyond, nlimits);
    return tidei_capture_condition(c, serves, k);
}

tide_status tidei_numbers_watch(tidei_runtime *rt, const tidei_plan *first, const tidei_plan *ran,
                                const tide_arg *args, unsigned n, const char *op) {
    tidei_capture *c = tidei_capturing(rt);
    tide_status s = TIDE_OK;
    if (!c) return TIDE_OK;
    if (first->graph.nweaks)
        s = watch(c, first, ran->beyond, first->graph.nlimits, ran == first, args, n, op);
    if (s == TIDE_OK && ran != first && ran->graph.nweaks)
        s = watch(c, ran, NULL, 0, true, args, n, op);
    return s;
}

void tidei_numbers_failed(tidei_runtime *rt) {
    tidei_capture *c = tidei_capturing(rt);
    if (c) c->for_nobody = true;
}
