/* graph.c: graphs of the host device: lists of launches. A launch of a graph is one command of its
** stream's queue, which has copies of all nodes; so a graph may go while launches of it are queued,
** and either all of it is queued or nothing. */
#include "runtime/device/host/host.h"

static tide_status no_memory(const char *op) {
    return tidei_fail(TIDE_E_HOST_NOMEM, op,
                      "host memory for the record of queued work is exhausted");
}

static tidei_host *host_of(tidei_device *d) { return (tidei_host *)d; }

tide_status tidei_host_graph_new(tidei_device *d, const tidei_addr *slots, unsigned nslots,
                                 tidei_dgraph **out) {
    (void)slots, (void)nslots; /* each launch says them */
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "graph_new");
    tidei_dgraph *g = tidei_host_alloc(h->rt, sizeof *g);
    return g ? (*out = g, TIDE_OK) : tidei_fail_host_memory("graph_new", sizeof *g);
}

static bool room_for_one(tidei_host *h, tidei_dgraph *g) {
    if (g->n < g->room) return true;
    unsigned room = g->room ? 2 * g->room : 16;
    tidei_host_node **more = tidei_host_alloc(h->rt, room * sizeof *more);
    if (!more) return false;
    if (g->n) memcpy(more, g->nodes, g->n * sizeof *more);
    tidei_host_free(h->rt, g->nodes);
    g->nodes = more;
    g->room = room;
    return true;
}

/* The node, with what it points at behind it; NULL: host memory is exhausted. */
static tidei_host_node *copy_of(tidei_host *h, const tidei_launch *l, const size_t *at,
                                const tidei_graph_range *ranges) {
    const size_t n = l->nranges, params = tidei_round_up(l->params_bytes, 16);
    tidei_host_node *x =
        tidei_host_alloc(h->rt, sizeof *x + params + n * (sizeof *ranges + sizeof *at));
    if (!x) return NULL;
    char *behind = (char *)(x + 1);
    tidei_graph_range *r = (tidei_graph_range *)(void *)(behind + params);
    size_t *places = (size_t *)(void *)(r + n);
    if (l->params_bytes) memcpy(behind, l->params, l->params_bytes);
    if (n) memcpy(r, ranges, n * sizeof *r);
    if (n) memcpy(places, at, n * sizeof *places);
    x->l = *l;
    x->l.params = behind;
    x->l.ranges = NULL;
    x->ranges = r;
    x->at = places;
    return x;
}

tide_status tidei_host_graph_add(tidei_device *d, tidei_dgraph *g, const tidei_launch *l,
                                 const size_t *at, const tidei_graph_range *ranges) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "graph_add");
    if (!l->host_fn || l->params_bytes > TIDEI_PARAMS_MAX)
        return tidei_fail(TIDE_E_INVALID, "graph_add", "%s: %s has %s and %zu bytes of parameters",
                          d->info.name, l->name, l->host_fn ? "a function" : "no host function",
                          l->params_bytes);
    tidei_host_node *x = room_for_one(h, g) ? copy_of(h, l, at, ranges) : NULL;
    if (!x) return no_memory("graph_add");
    g->bytes += tidei_host_node_bytes(l);
    g->nodes[g->n++] = x;
    return TIDE_OK;
}

tide_status tidei_host_graph_finish(tidei_device *d, tidei_dgraph *g) {
    (void)g;
    tidei_host *h = host_of(d);
    return tidei_host_is_lost(h) ? tidei_host_lost(h, "graph_finish") : TIDE_OK;
}

/* Tells the checker what each node touches, in their order. */
static tide_status check(tidei_dstream *s, const tidei_dgraph *g, const tidei_addr *slots) {
    tide_status status = TIDE_OK;
    for (unsigned i = 0; i < g->n && status == TIDE_OK; i++) {
        const tidei_host_node *x = g->nodes[i];
        tidei_range *r = tidei_host_alloc(s->host->rt, (x->l.nranges + 1) * sizeof *r);
        if (!r) return no_memory("graph_launch");
        for (unsigned k = 0; k < x->l.nranges; k++)
            r[k] = (tidei_range){slots[x->ranges[k].slot] + x->ranges[k].offset, x->ranges[k].bytes,
                                 x->ranges[k].mode};
        status = tidei_host_check(s, "graph_launch", x->l.name ? x->l.name : "a kernel", r,
                                  x->l.nranges);
        tidei_host_free(s->host->rt, r);
    }
    return status;
}

tide_status tidei_host_graph_launch(tidei_device *d, tidei_dstream *s, tidei_dgraph *g,
                                    const tidei_addr *slots, const tidei_graph_params *params,
                                    unsigned n) {
    tidei_host *h = host_of(d);
    tide_status status = TIDE_OK;
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "graph_launch");
    pthread_mutex_lock(&s->lock);
    if (h->checker) status = check(s, g, slots);
    if (status == TIDE_OK && !tidei_hqueue_graph(s, g, slots, params, n))
        status = no_memory("graph_launch");
    pthread_mutex_unlock(&s->lock);
    return status;
}

void tidei_host_graph_release(tidei_device *d, tidei_dgraph *g) {
    tidei_host *h = host_of(d);
    for (unsigned i = 0; i < g->n; i++) tidei_host_free(h->rt, g->nodes[i]);
    tidei_host_free(h->rt, g->nodes);
    tidei_host_free(h->rt, g);
}
