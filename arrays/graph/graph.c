/* graph.c: the public functions of graphs. */
#include "arrays/graph/graph.h"
#include "runtime/base/sized.h"

static tidei_task_graph *find(tide_graph *ref, const char *op) {
    return tidei_ref_find(TIDEI_REF_GRAPH, ref, op);
}

tide_graph *tide_graph_new(tide_runtime *ref, tide_graph_fn fn, void *user) {
    static const char op[] = "tide_graph_new";
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt) return NULL;
    if (!fn) return tidei_fail(TIDE_E_INVALID, op, "the function is NULL"), NULL;
    tidei_task_graph *g = tidei_host_alloc(rt, sizeof *g);
    if (!g) return tidei_fail_host_memory(op, sizeof *g), NULL;
    g->rt = rt;
    g->fn = fn;
    g->user = user;
    g->ref = tidei_ref_new(TIDEI_REF_GRAPH, g, rt);
    if (!g->ref) {
        tidei_host_free(rt, g);
        return tidei_fail_host_memory(op, sizeof *g), NULL;
    }
    pthread_mutex_init(&g->lock, NULL);
    tidei_graphs *all = tidei_graphs_of(rt);
    pthread_mutex_lock(&all->lock);
    g->next = all->all;
    g->prev = &all->all;
    if (g->next) g->next->prev = &g->next;
    all->all = g;
    pthread_mutex_unlock(&all->lock);
    return g->ref;
}

/* The lists' errors, in the order that base.h promises: arrays that are NULL first. */
static tide_status check(const tide_arg *args, size_t n, tide_array **outs, size_t m) {
    static const char op[] = TIDEI_OP_GRAPH_RUN;
    for (size_t i = 0; args && i < n && i < TIDE_GRAPH_MAX; i++)
        if (args[i].kind == TIDE_ARG_ARRAY && !args[i].value.array)
            return tidei_null_array(op, i + 1);
    if (n > TIDE_GRAPH_MAX || m > TIDE_GRAPH_MAX)
        return tidei_fail(TIDE_E_INVALID, op,
                          "%zu arguments and %zu results; there may be %d of each", n, m,
                          TIDE_GRAPH_MAX);
    if ((n && !args) || (m && !outs))
        return tidei_fail(TIDE_E_INVALID, op, "the list of %s is NULL",
                          n && !args ? "arguments" : "arrays to write to");
    return TIDE_OK;
}

tide_status tide_graph_run(tide_graph *ref, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    TIDEI_OPERATION(TIDEI_OP_GRAPH_RUN);
    tide_status status = check(args, n, outs, m);
    tidei_task_graph *g = status == TIDE_OK ? find(ref, TIDEI_OP_GRAPH_RUN) : NULL;
    if (!g) return tidei_last_status();
    tidei_thread *t = tidei_thread_get(g->rt);
    if (!t || !tidei_may_make(g->rt, TIDEI_OP_GRAPH_RUN) ||
        tidei_capture_refused(g->rt, TIDEI_OP_GRAPH_RUN, "runs a graph") != TIDE_OK)
        return tidei_last_status();
    pthread_mutex_lock(&g->lock);
    g->busy++;
    pthread_mutex_unlock(&g->lock);
    return tidei_graph_run(g, t, args, n, outs, m);
}

static bool is_busy(tidei_task_graph *g) {
    pthread_mutex_lock(&g->lock);
    bool busy = g->busy != 0;
    pthread_mutex_unlock(&g->lock);
    return busy;
}

tide_status tide_graph_reset(tide_graph *ref) {
    static const char op[] = "tide_graph_reset";
    tidei_task_graph *g = find(ref, op);
    if (!g || !tidei_thread_get(g->rt)) return tidei_last_status();
    tidei_variants_forget(g);
    return TIDE_OK;
}

void tide_graph_release(tide_graph *ref) {
    static const char op[] = "tide_graph_release";
    if (!ref || tidei_forked()) return;
    tidei_task_graph *g = find(ref, op);
    if (!g || !tidei_thread_get(g->rt)) return;
    if (is_busy(g)) {
        tidei_fail(TIDE_E_INVALID, op, "the graph is being run");
        return;
    }
    if (!tidei_ref_end(ref)) return;
    tidei_graphs *all = tidei_graphs_of(g->rt);
    pthread_mutex_lock(&all->lock);
    *g->prev = g->next;
    if (g->next) g->next->prev = g->prev;
    pthread_mutex_unlock(&all->lock);
    tidei_variants_forget(g);
    pthread_mutex_destroy(&g->lock);
    tidei_host_free(g->rt, g);
}

#define END(field) TIDEI_END(tide_graph_figures, field)
static const uint16_t figures_ends[] = {END(struct_size), END(runs),   END(calls), END(captures),
                                        END(launches),    END(builds), END(nodes), END(bytes)};
#undef END
static const tidei_sized figures_sizes = {"tide_graph_figures", figures_ends,
                                          TIDEI_COUNT(figures_ends),
                                          TIDEI_END(tide_graph_figures, struct_size)};

tide_status tide_graph_info(tide_graph *ref, tide_graph_figures *out) {
    static const char op[] = "tide_graph_info";
    tidei_task_graph *g = find(ref, op);
    if (!g || !tidei_thread_get(g->rt)) return tidei_last_status();
    if (!out) return tidei_fail(TIDE_E_INVALID, op, "out is NULL");
    tide_status status = tidei_sized_check(&figures_sizes, out->struct_size, op);
    if (status != TIDE_OK) return status;
    pthread_mutex_lock(&g->lock);
    tide_graph_figures f = g->figures;
    for (const tidei_variant *v = g->variants; v; v = v->next) {
        if (v->body) f.nodes += v->body->c->nnodes;
        if (v->built && v->built->arena) f.bytes += v->built->arena->bytes;
    }
    pthread_mutex_unlock(&g->lock);
    f.struct_size = out->struct_size;
    memcpy(out, &f, out->struct_size);
    return TIDE_OK;
}
