/* graph.c: graphs of the `cuda` device: the driver's, whose nodes stand behind those that use the
** same bytes.
**
** Model. A node runs behind the earlier ones that *meet* it: they share bytes of a slot, and one of
** them writes there. Others run beside it. What is behind a node already need not be behind the
** nodes before that one, too: an edge stands only where no way leads along others. Library calls
** run one behind the other.
** Between two of our kernels an edge is programmatic, where the driver and the device have such:
** the second one starts while the first still runs, and waits by itself before it touches memory
** (kt_grid_wait, arrays/kernels/text.h), which saves most of what a launch takes.
** A launch is a kernel node, whose parameters we have, without addresses. An executable
** graph has them with the addresses of some moment; what has another address at a launch is told so
** first (cuGraphExecKernelNodeSetParams), node by node. That counts for later launches only, so
** what runs is as it was. What a library queues is captured on a stream of our own, and becomes a
** child, with the addresses that it was given for good. Example, two nodes, x -> [0] -> a -> [1] ->
** y, of which x and y are told at each launch and a lies in slot 0: another x tells node 0, another
** y node 1, another place of slot 0 both.
** What must stay true: a kernel that does not begin with that wait starts behind nodes that are
** complete, so that who stands behind one that is complete stands behind all before it; memory that
** different slots have at a launch is apart, where it is written (who launches sees to it). What
** the nodes were told last is noted, under the graph's lock; where the driver refused one, nothing
** noted counts, and all are told at the next launch. */
#include "runtime/device/cuda/device.h"

typedef struct node {
    tidei_cu_node node;
    tidei_launch l; /* kernel NULL: a library's call */
    const size_t *at;
    const tidei_graph_range *ranges;
    const unsigned *before; /* numbers of the nodes that it stands behind */
    unsigned nbefore;
    unsigned char *told; /* the parameters as the driver has them */
    uint64_t looked_at;  /* the launch that did last */
} node;

struct tidei_dgraph {
    pthread_mutex_t lock;
    tidei_cu_graph graph; /* by its nodes those of the executable one are known */
    tidei_cu_exec exec;
    tidei_cu_stream capture; /* what libraries queue on, until it is finished; NULL: none has */
    node **nodes;
    unsigned n, room, nslots;
    /* while a node is added, with room for all: those it is to stand behind, and which of the nodes
    ** are before these */
    tidei_cu_node *behind;
    unsigned *before, nbefore;
    bool *passed;
    tidei_addr *slots; /* as the nodes were told */
    /* the numbers of the nodes that use slot i: users[first[i]] to users[first[i + 1] - 1] */
    unsigned *first, *users;
    uint64_t launches;
    bool doubtful; /* the driver refused to be told */
};

bool tidei_cuda_has_graphs(const tidei_cu *cu) {
    return cu->cuStreamBeginCapture && cu->cuStreamEndCapture && cu->cuGraphCreate &&
           cu->cuGraphDestroy && cu->cuGraphGetNodes && cu->cuGraphAddKernelNode &&
           cu->cuGraphAddChildGraphNode && cu->cuGraphInstantiateWithFlags &&
           cu->cuGraphExecDestroy && cu->cuGraphExecKernelNodeSetParams && cu->cuGraphLaunch;
}

/* ---- making ---- */

tide_status tidei_cuda_graph_new(tidei_device *d, const tidei_addr *slots, unsigned nslots,
                                 tidei_dgraph **out) {
    tidei_cuda *c = tidei_cuda_of(d);
    const size_t bytes = sizeof(tidei_dgraph) + nslots * sizeof *slots;
    tidei_cuda_visit visit;
    tidei_dgraph *g = tidei_host_alloc(c->rt, bytes);
    if (!g) return tidei_fail_host_memory("graph_new", bytes);
    g->slots = (tidei_addr *)(g + 1);
    g->nslots = nslots;
    if (nslots) memcpy(g->slots, slots, nslots * sizeof *slots);
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status == TIDE_OK) {
        tidei_cu_result r = c->cu->cuGraphCreate(&g->graph, 0);
        tidei_cuda_leave(c, &visit);
        status = tidei_cuda_status(c, r, "cuGraphCreate");
    }
    if (status != TIDE_OK) {
        tidei_host_free(c->rt, g);
        return status;
    }
    pthread_mutex_init(&g->lock, NULL);
    *out = g;
    return TIDE_OK;
}

static bool room_for_one(tidei_cuda *c, tidei_dgraph *g) {
    if (g->n < g->room) return true;
    unsigned room = g->room ? 2 * g->room : 16;
    node **more = tidei_host_alloc(
        c->rt, room * (sizeof *more + sizeof *g->behind + sizeof *g->before + sizeof *g->passed));
    if (!more) return false;
    if (g->n) memcpy(more, g->nodes, g->n * sizeof *more);
    tidei_host_free(c->rt, g->nodes);
    g->nodes = more;
    g->behind = (tidei_cu_node *)(void *)(more + room);
    g->before = (unsigned *)(void *)(g->behind + room);
    g->passed = (bool *)(g->before + room);
    g->room = room;
    return true;
}

/* ---- which nodes a node stands behind ---- */

static bool meet(const tidei_graph_range *a, const tidei_graph_range *b) {
    return a->slot == b->slot && ((a->mode | b->mode) & TIDEI_WRITE) &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool any_meet(const node *x, const tidei_graph_range *ranges, unsigned n) {
    for (unsigned i = 0; i < x->l.nranges; i++)
        for (unsigned k = 0; k < n; k++)
            if (meet(&x->ranges[i], &ranges[k])) return true;
    return false;
}

/* Finds those for a new node that has these ranges. From the last one on: what comes before one
** that was found, or before what does, is passed. */
static void find_before(tidei_dgraph *g, const tidei_graph_range *ranges, unsigned n, bool call) {
    g->nbefore = 0;
    memset(g->passed, 0, g->n * sizeof *g->passed);
    for (unsigned i = g->n; i-- > 0;) {
        const node *x = g->nodes[i];
        if (!x->node) continue; /* nothing was queued */
        if (!g->passed[i]) {
            if (!(call && !x->l.kernel) && !any_meet(x, ranges, n)) continue;
            g->behind[g->nbefore] = x->node;
            g->before[g->nbefore++] = i;
        }
        for (unsigned k = 0; k < x->nbefore; k++) g->passed[x->before[k]] = true;
    }
}

/* A node with copies of what the launch points at, behind those that were found. A library's call
** has no places of addresses. */
static node *node_of(tidei_cuda *c, const tidei_dgraph *g, const tidei_launch *l, const size_t *at,
                     const tidei_graph_range *ranges) {
    const size_t n = l->nranges, params = tidei_round_up(l->params_bytes, 16),
                 bytes = sizeof(node) + 2 * params + n * (sizeof *ranges + sizeof *at) +
                         g->nbefore * sizeof *g->before;
    node *x = tidei_host_alloc(c->rt, bytes);
    if (!x) return NULL;
    unsigned char *own = (unsigned char *)(x + 1);
    tidei_graph_range *r = (tidei_graph_range *)(void *)(own + 2 * params);
    size_t *places = (size_t *)(void *)(r + n);
    unsigned *before = (unsigned *)(void *)(places + n);
    x->l = *l;
    if (l->params_bytes) memcpy(own, l->params, l->params_bytes);
    if (n) memcpy(r, ranges, n * sizeof *r);
    if (n && at) memcpy(places, at, n * sizeof *places);
    if (g->nbefore) memcpy(before, g->before, g->nbefore * sizeof *before);
    x->l.params = own;
    x->l.ranges = NULL;
    x->told = own + params;
    x->ranges = r;
    x->at = places;
    x->before = before;
    x->nbefore = g->nbefore;
    return x;
}

/* The parameters with the addresses that slots have. */
static void put_addresses(const node *x, const void *params, const tidei_addr *slots,
                          unsigned char *out) {
    if (x->l.params_bytes) memcpy(out, params, x->l.params_bytes);
    for (unsigned i = 0; i < x->l.nranges; i++) {
        tidei_addr word;
        memcpy(&word, out + x->at[i], sizeof word);
        word += slots[x->ranges[i].slot] + x->ranges[i].offset;
        memcpy(out + x->at[i], &word, sizeof word);
    }
}

/* What the driver wants to know of a kernel's node; valid as long as the three are. */
typedef struct told {
    tidei_cu_kernel_node k;
    void *extra[5];
    size_t bytes;
} told;
static void tell_of(const tidei_cuda *c, const node *x, unsigned char *params, told *t) {
    const tidei_launch *l = &x->l;
    t->bytes = l->params_bytes;
    t->extra[0] = (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_POINTER;
    t->extra[1] = params;
    t->extra[2] = (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_BUFFER_SIZE;
    t->extra[3] = &t->bytes;
    t->extra[4] = (void *)(uintptr_t)TIDEI_CU_LAUNCH_PARAM_END;
    t->k = (tidei_cu_kernel_node){.function = l->kernel->function,
                                  .grid = {l->grid[0], l->grid[1], l->grid[2]},
                                  .block = {l->block[0], l->block[1], l->block[2]},
                                  .shared_bytes = l->shared_bytes,
                                  .extra = t->bytes ? t->extra : NULL,
                                  .ctx = c->ctx};
}

/* Edges from those that were found. A library's kernels know of no wait. */
static tidei_cu_result add_edges(tidei_cuda *c, tidei_dgraph *g, const node *x) {
    static const tidei_cu_edge whole,
        early = {.from_port = TIDEI_CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                 .type = TIDEI_CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    for (unsigned i = 0; i < g->nbefore && r == TIDEI_CU_SUCCESS; i++)
        r = c->cu->cuGraphAddDependencies(g->graph, &g->behind[i], &x->node,
                                          g->nodes[g->before[i]]->l.kernel ? &early : &whole, 1);
    return r;
}

static tidei_cu_result add_kernel(tidei_cuda *c, tidei_dgraph *g, node *x) {
    told t;
    put_addresses(x, x->l.params, g->slots, x->told);
    tell_of(c, x, x->told, &t);
    if (!x->l.kernel->waits || !c->cu->cuGraphAddDependencies)
        return c->cu->cuGraphAddKernelNode(&x->node, g->graph, g->behind, g->nbefore, &t.k);
    tidei_cu_result r = c->cu->cuGraphAddKernelNode(&x->node, g->graph, NULL, 0, &t.k);
    return r == TIDEI_CU_SUCCESS ? add_edges(c, g, x) : r;
}

tide_status tidei_cuda_graph_add(tidei_device *d, tidei_dgraph *g, const tidei_launch *l,
                                 const size_t *at, const tidei_graph_range *ranges) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!l->kernel)
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda", "%s runs no host functions (%s)",
                          d->info.name, l->name);
    if (!room_for_one(c, g)) return tidei_fail_host_memory("graph_add", g->room * sizeof *g->nodes);
    find_before(g, ranges, l->nranges, false);
    node *x = node_of(c, g, l, at, ranges);
    if (!x) return tidei_fail_host_memory("graph_add", sizeof *x);
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status == TIDE_OK) {
        tidei_cu_result r = add_kernel(c, g, x);
        tidei_cuda_leave(c, &visit);
        status = tidei_cuda_status(c, r, "adding %s to a graph", l->name);
    }
    if (status == TIDE_OK)
        g->nodes[g->n++] = x;
    else
        tidei_host_free(c->rt, x);
    return status;
}

/* ---- what libraries queue ---- */

tide_status tidei_cuda_graph_capture_begin(tidei_device *d, tidei_dgraph *g, void **native) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    if (!g->capture) r = c->cu->cuStreamCreate(&g->capture, TIDEI_CU_STREAM_NON_BLOCKING);
    /* relaxed: other threads, and this one, may take and give back memory meanwhile */
    if (r == TIDEI_CU_SUCCESS)
        r = c->cu->cuStreamBeginCapture(g->capture, TIDEI_CU_CAPTURE_RELAXED);
    tidei_cuda_leave(c, &visit);
    *native = g->capture;
    return tidei_cuda_status(c, r, "cuStreamBeginCapture");
}

/* Makes a child of it, unless nothing was queued. */
static tidei_cu_result adopt(tidei_cuda *c, tidei_dgraph *g, tidei_cu_graph captured, node *x) {
    size_t queued = 0;
    tidei_cu_result r = c->cu->cuGraphGetNodes(captured, NULL, &queued);
    if (r == TIDEI_CU_SUCCESS && queued)
        r = c->cu->cuGraphAddChildGraphNode(&x->node, g->graph, g->behind, g->nbefore, captured);
    return r;
}

/* The node of what was captured; NULL: host memory is exhausted. */
static node *call_of(tidei_cuda *c, tidei_dgraph *g, const tidei_graph_range *ranges, unsigned n) {
    if (!room_for_one(c, g)) return NULL;
    find_before(g, ranges, n, true);
    return node_of(c, g, &(tidei_launch){.nranges = n}, NULL, ranges);
}

tide_status tidei_cuda_graph_capture_end(tidei_device *d, tidei_dgraph *g, bool keep,
                                         const tidei_graph_range *ranges, unsigned n) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tidei_cu_graph captured = NULL;
    node *x = keep ? call_of(c, g, ranges, n) : NULL;
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status == TIDE_OK) {
        tidei_cu_result r = c->cu->cuStreamEndCapture(g->capture, &captured);
        if (r == TIDEI_CU_SUCCESS && x) r = adopt(c, g, captured, x);
        if (captured) c->cu->cuGraphDestroy(captured);
        tidei_cuda_leave(c, &visit);
        if (keep) status = tidei_cuda_status(c, r, "cuStreamEndCapture");
    }
    if (keep && !x && status == TIDE_OK)
        status = tidei_fail_host_memory("graph_capture_end", sizeof *x);
    if (keep && status == TIDE_OK)
        g->nodes[g->n++] = x;
    else
        tidei_host_free(c->rt, x);
    return status;
}

/* ---- finishing ---- */

/* Which nodes use each slot; a node that does so twice stands there twice. */
static bool list_users(tidei_cuda *c, tidei_dgraph *g) {
    size_t uses = 0;
    for (unsigned i = 0; i < g->n; i++) uses += g->nodes[i]->l.nranges;
    g->first = tidei_host_alloc(c->rt, (g->nslots + 2 + uses) * sizeof *g->first);
    if (!g->first) return false;
    g->users = g->first + g->nslots + 2;
    /* first[i + 2] counts those of slot i, then says where they end, and is moved on as they come:
    ** so in the end first[i + 1] does */
    for (unsigned i = 0; i < g->n; i++)
        for (unsigned k = 0; k < g->nodes[i]->l.nranges; k++)
            g->first[g->nodes[i]->ranges[k].slot + 2]++;
    for (unsigned i = 0; i < g->nslots; i++) g->first[i + 2] += g->first[i + 1];
    for (unsigned i = 0; i < g->n; i++)
        for (unsigned k = 0; k < g->nodes[i]->l.nranges; k++)
            g->users[g->first[g->nodes[i]->ranges[k].slot + 1]++] = i;
    return true;
}

tide_status tidei_cuda_graph_finish(tidei_device *d, tidei_dgraph *g) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!list_users(c, g))
        return tidei_fail_host_memory("graph_finish", g->nslots * sizeof *g->first);
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuGraphInstantiateWithFlags(&g->exec, g->graph, 0);
    if (g->capture) c->cu->cuStreamDestroy(g->capture);
    g->capture = NULL;
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuGraphInstantiateWithFlags(%u nodes)", g->n);
}

/* ---- launching ---- */

/* Tells the driver the node's parameters, where they are others than before. */
static tidei_cu_result tell(tidei_cuda *c, tidei_dgraph *g, unsigned i, const void *params,
                            const tidei_addr *slots) {
    node *x = g->nodes[i];
    _Alignas(16) unsigned char now[TIDEI_PARAMS_MAX];
    told t;
    if (x->looked_at == g->launches || !x->l.kernel) return TIDEI_CU_SUCCESS;
    x->looked_at = g->launches;
    put_addresses(x, params, slots, now);
    if (!g->doubtful && memcmp(now, x->told, x->l.params_bytes) == 0) return TIDEI_CU_SUCCESS;
    tell_of(c, x, now, &t);
    tidei_cu_result r = c->cu->cuGraphExecKernelNodeSetParams(g->exec, x->node, &t.k);
    if (r == TIDEI_CU_SUCCESS) memcpy(x->told, now, x->l.params_bytes);
    return r;
}

static tidei_cu_result tell_users(tidei_cuda *c, tidei_dgraph *g, unsigned slot,
                                  const tidei_addr *slots) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    for (unsigned k = g->first[slot]; k < g->first[slot + 1] && r == TIDEI_CU_SUCCESS; k++)
        r = tell(c, g, g->users[k], g->nodes[g->users[k]]->l.params, slots);
    return r;
}

/* Parameters that are told for this launch come first: they are the node's. */
static tidei_cu_result tell_all(tidei_cuda *c, tidei_dgraph *g, const tidei_addr *slots,
                                const tidei_graph_params *params, unsigned n) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    g->launches++;
    for (unsigned i = 0; i < n && r == TIDEI_CU_SUCCESS; i++)
        r = tell(c, g, params[i].node, params[i].params, slots);
    for (unsigned i = 0; i < g->nslots && r == TIDEI_CU_SUCCESS; i++)
        if (g->doubtful || slots[i] != g->slots[i]) r = tell_users(c, g, i, slots);
    g->doubtful = r != TIDEI_CU_SUCCESS;
    if (!g->doubtful && g->nslots) memcpy(g->slots, slots, g->nslots * sizeof *slots);
    return r;
}

tide_status tidei_cuda_graph_launch(tidei_device *d, tidei_dstream *s, tidei_dgraph *g,
                                    const tidei_addr *slots, const tidei_graph_params *params,
                                    unsigned n) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    pthread_mutex_lock(&g->lock);
    tidei_cu_result r = tell_all(c, g, slots, params, n);
    const char *what = r == TIDEI_CU_SUCCESS ? "cuGraphLaunch" : "cuGraphExecKernelNodeSetParams";
    if (r == TIDEI_CU_SUCCESS) r = c->cu->cuGraphLaunch(g->exec, s->s);
    pthread_mutex_unlock(&g->lock);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "%s(%u nodes)", what, g->n);
}

void tidei_cuda_graph_release(tidei_device *d, tidei_dgraph *g) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (tidei_cuda_enter_release(c, &visit)) {
        if (g->capture) c->cu->cuStreamDestroy(g->capture);
        if (g->exec) c->cu->cuGraphExecDestroy(g->exec);
        c->cu->cuGraphDestroy(g->graph);
        tidei_cuda_leave(c, &visit);
    }
    for (unsigned i = 0; i < g->n; i++) tidei_host_free(c->rt, g->nodes[i]);
    tidei_host_free(c->rt, g->nodes);
    tidei_host_free(c->rt, g->first);
    pthread_mutex_destroy(&g->lock);
    tidei_host_free(c->rt, g);
}
