/* variants.c: which variant serves a run, which run captures and builds, and what gives way. The
** model stands in graph.h.
**
** Under the graph's lock the variants' states and counts change; what is let go of is let go of
** outside it. */
#include "arrays/graph/graph.h"

/* Keys that a graph remembers; then the one asked for longest ago goes. A key costs some hundred
** bytes, a body about a thousand a node. */
#define VARIANTS_MAX 32

/* ---- letting go ---- */

static void drop_variant(tidei_runtime *rt, tidei_variant *v) {
    if (v->built) tidei_built_drop(v->built);
    if (v->body) tidei_body_drop(v->body);
    tidei_host_free(rt, v);
}

/* Takes the variants out of the graph that no run uses, into a list; the others go with their last
** user. Under the lock. */
static tidei_variant *take_all(tidei_task_graph *g) {
    tidei_variant *gone = NULL;
    for (tidei_variant **at = &g->variants, *v; (v = *at);) {
        if (v->users) {
            v->stale = true;
            at = &v->next;
            continue;
        }
        *at = v->next;
        g->nvariants--;
        v->next = gone;
        gone = v;
    }
    return gone;
}

static void drop_all(tidei_runtime *rt, tidei_variant *v) {
    for (tidei_variant *next; v; v = next) {
        next = v->next;
        drop_variant(rt, v);
    }
}

void tidei_variants_forget(tidei_task_graph *g) {
    pthread_mutex_lock(&g->lock);
    tidei_variant *gone = take_all(g);
    pthread_mutex_unlock(&g->lock);
    drop_all(g->rt, gone);
}

/* The least recently used of those that no run uses, taken out of the graph; NULL: none. Under the
** lock. */
static tidei_variant *take_oldest(tidei_task_graph *g) {
    tidei_variant **oldest = NULL, *v;
    for (tidei_variant **at = &g->variants; *at; at = &(*at)->next)
        if (!(*at)->users && (!oldest || (*at)->used < (*oldest)->used)) oldest = at;
    if (!oldest) return NULL;
    v = *oldest;
    *oldest = v->next;
    v->next = NULL;
    g->nvariants--;
    return v;
}

/* ---- for a run ---- */

static tidei_variant *find(const tidei_task_graph *g, const void *key, size_t bytes) {
    for (tidei_variant *v = g->variants; v; v = v->next)
        if (v->key_bytes == bytes && !v->stale && memcmp(v->key, key, bytes) == 0) return v;
    return NULL;
}

static tidei_variant *make(tidei_task_graph *g, tidei_dev *d, const void *key, size_t bytes) {
    tidei_variant *v = tidei_host_alloc(g->rt, sizeof *v + bytes);
    if (!v) return NULL;
    v->dev = d;
    v->key_bytes = bytes;
    memcpy(v->key, key, bytes);
    v->next = g->variants;
    g->variants = v;
    g->nvariants++;
    return v;
}

/* What a run does with a variant whose key came before. Under the lock. */
static tidei_run_way way_of(tidei_variant *v) {
    switch (v->state) {
    case TIDEI_READY: return TIDEI_RUN_LAUNCH;
    case TIDEI_SEEN: return v->state = TIDEI_CAPTURING, TIDEI_RUN_CAPTURE;
    default: return TIDEI_RUN_CALL;
    }
}

tidei_variant *tidei_variant_take(tidei_task_graph *g, tidei_dev *d, const void *key, size_t bytes,
                                  tidei_run_way *way) {
    tidei_graphs *all = tidei_graphs_of(g->rt);
    pthread_mutex_lock(&g->lock);
    tidei_variant *v = find(g, key, bytes), *gone = NULL;
    *way = v ? way_of(v) : TIDEI_RUN_CALL;
    if (!v && g->nvariants >= VARIANTS_MAX) gone = take_oldest(g);
    if (!v) v = make(g, d, key, bytes);
    if (v) {
        v->users++;
        v->used = atomic_fetch_add_explicit(&all->clock, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&g->lock);
    drop_all(g->rt, gone);
    if (!v) tidei_fail_host_memory(TIDEI_OP_GRAPH_RUN, sizeof *v + bytes);
    return v;
}

void tidei_variant_captured(tidei_task_graph *g, tidei_variant *v, tidei_body *body) {
    pthread_mutex_lock(&g->lock);
    v->state = body ? TIDEI_READY : TIDEI_SEEN;
    v->body = body;
    pthread_mutex_unlock(&g->lock);
}

void tidei_variant_leave(tidei_task_graph *g, tidei_variant *v) {
    pthread_mutex_lock(&g->lock);
    bool goes = --v->users == 0 && v->stale;
    for (tidei_variant **at = &g->variants; goes && *at; at = &(*at)->next)
        if (*at == v) {
            *at = v->next;
            g->nvariants--;
            break;
        }
    pthread_mutex_unlock(&g->lock);
    if (goes) drop_variant(g->rt, v);
}

tidei_built *tidei_variant_built(tidei_task_graph *g, tidei_variant *v, bool *build) {
    pthread_mutex_lock(&g->lock);
    tidei_built *x = v->built;
    *build = !x && !v->building;
    if (x) x->refs++;
    v->building |= *build;
    pthread_mutex_unlock(&g->lock);
    return x;
}

void tidei_variant_set_built(tidei_task_graph *g, tidei_variant *v, tidei_built *x) {
    pthread_mutex_lock(&g->lock);
    v->building = false;
    v->built = x;
    if (x) {
        x->refs = 2; /* the variant's, and the run's */
        g->figures.builds++;
    }
    pthread_mutex_unlock(&g->lock);
}

void tidei_variant_unbuild(tidei_task_graph *g, tidei_variant *v) {
    pthread_mutex_lock(&g->lock);
    tidei_built *x = v->built && v->built->refs == 1 ? v->built : NULL;
    if (x) v->built = NULL;
    pthread_mutex_unlock(&g->lock);
    if (x) tidei_built_drop(x);
}

void tidei_built_leave(tidei_task_graph *g, tidei_variant *v, tidei_built *x, bool replace,
                       bool *build) {
    pthread_mutex_lock(&g->lock);
    if (replace && v->built == x) {
        v->built = NULL;
        x->refs--;
    }
    if (build) {
        *build = !v->built && !v->building;
        v->building |= *build;
    }
    bool last = --x->refs == 0;
    pthread_mutex_unlock(&g->lock);
    if (last) tidei_built_drop(x);
}

/* ---- giving way ---- */

/* The built graph of a variant that no run uses, of those asked for before `until` the one asked
** for longest ago, and when that was. Under the lock of graphs. */
struct idle {
    tidei_task_graph *g;
    tidei_variant *v;
    uint64_t used;
};

static bool holds(const tidei_variant *v, const tidei_dev *d, bool all) {
    return !v->users && v->dev == d && (v->built || (all && v->body));
}

static void look_through(tidei_task_graph *g, const tidei_dev *d, bool all, struct idle *oldest,
                         uint64_t *newest) {
    pthread_mutex_lock(&g->lock);
    for (tidei_variant *v = g->variants; v; v = v->next) {
        if (v->built && v->dev == d && v->used > *newest) *newest = v->used;
        if (holds(v, d, all) && (!oldest->v || v->used < oldest->used))
            *oldest = (struct idle){g, v, v->used};
    }
    pthread_mutex_unlock(&g->lock);
}

/* What it had, taken out of its variant; NULLs where a run has it again. Under the lock of graphs.
** */
static void take_out(const struct idle *x, bool all, tidei_built **built, tidei_body **body) {
    *built = NULL;
    *body = NULL;
    pthread_mutex_lock(&x->g->lock);
    tidei_variant *v = x->g->variants;
    while (v && v != x->v) v = v->next;
    if (v && !v->users && v->used == x->used) {
        *built = v->built;
        v->built = NULL;
        if (all) {
            *body = v->body;
            v->body = NULL;
            v->state = TIDEI_SEEN;
        }
    }
    pthread_mutex_unlock(&x->g->lock);
}

static size_t bytes_of(const tidei_built *x) {
    return x->library + (x->arena ? x->arena->bytes : 0);
}

/* Lets go of one; false: there is none. `all`: bodies too, and the one that was used last. */
static bool give_one(tidei_dev *d, bool all, size_t *given) {
    tidei_graphs *graphs = tidei_graphs_of(d->rt);
    struct idle oldest = {0};
    uint64_t newest = 0;
    tidei_built *built = NULL;
    tidei_body *body = NULL;
    pthread_mutex_lock(&graphs->lock);
    for (tidei_task_graph *g = graphs->all; g; g = g->next)
        look_through(g, d, all, &oldest, &newest);
    bool found = oldest.v && (all || oldest.used != newest);
    if (found) take_out(&oldest, all, &built, &body);
    pthread_mutex_unlock(&graphs->lock);
    if (built) {
        *given += bytes_of(built);
        tidei_built_drop(built);
    }
    if (body) tidei_body_drop(body);
    return found;
}

static size_t give_way(tidei_dev *d, size_t wanted, bool all) {
    size_t given = 0;
    while (given < wanted && give_one(d, all, &given)) {}
    return given;
}

/* The one that was used last stays: it is wanted again at once. */
static size_t purge(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    (void)self, (void)failed;
    return give_way(d, wanted, false);
}

static size_t drop(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    (void)self, (void)failed;
    return give_way(d, wanted, true);
}

static size_t bytes(void *self, tidei_dev *d) {
    tidei_graphs *graphs = self;
    size_t sum = 0;
    pthread_mutex_lock(&graphs->lock);
    for (tidei_task_graph *g = graphs->all; g; g = g->next) {
        pthread_mutex_lock(&g->lock);
        for (tidei_variant *v = g->variants; v; v = v->next)
            if (v->built && v->dev == d) sum += bytes_of(v->built);
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&graphs->lock);
    return sum;
}

/* ---- all graphs ---- */

tide_status tidei_graphs_open(tidei_runtime *rt) {
    tidei_graphs *graphs = tidei_host_alloc(rt, sizeof *graphs);
    if (!graphs) return tidei_fail_host_memory("tide_open", sizeof *graphs);
    pthread_mutex_init(&graphs->lock, NULL);
    graphs->reclaim = (tidei_reclaimable){
        .name = "graphs", .purge = purge, .drop = drop, .bytes = bytes, .self = graphs};
    tidei_arrays_of(rt)->graphs = graphs; /* first: a neighbour may ask from now on */
    tidei_reclaimable_register(rt, &graphs->reclaim);
    return TIDE_OK;
}

void tidei_graphs_end(tidei_runtime *rt) {
    tidei_graphs *graphs = tidei_graphs_of(rt);
    pthread_mutex_lock(&graphs->lock);
    for (tidei_task_graph *g = graphs->all; g; g = g->next) tidei_variants_forget(g);
    pthread_mutex_unlock(&graphs->lock);
}

void tidei_graphs_close(tidei_runtime *rt) {
    tidei_graphs *graphs = tidei_graphs_of(rt);
    if (!graphs) return;
    tidei_reclaimable_unregister(rt, &graphs->reclaim);
    for (tidei_task_graph *g; (g = graphs->all);) {
        graphs->all = g->next;
        tidei_variants_forget(g);
        pthread_mutex_destroy(&g->lock);
        tidei_host_free(rt, g);
    }
    pthread_mutex_destroy(&graphs->lock);
    tidei_host_free(rt, graphs);
    tidei_arrays_of(rt)->graphs = NULL;
}
