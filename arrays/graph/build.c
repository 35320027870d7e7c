/* build.c: bodies of graphs, and building them for the device. The model stands in graph.h. */
#include "arrays/graph/graph.h"
#include "arrays/graph/stretches.h"
#include "arrays/kernels/kernels.h"
#include "arrays/kernels/launch.h"
#include "gc/collector.h"

extern const char tidei_stretches_text[];

/* ---- a body's own arrays ---- */

/* An array over all of a storage, that lives until it is given back whatever becomes of the others:
** so what looks for arrays to spill, or lists what is held, sees who has the storage. */
static tide_array *keep(tidei_storage *st) {
    tidei_runtime *rt = st->dev->rt;
    const tidei_layout all = {
        .dtype = TIDE_U8, .ndim = 1, .shape = {(int64_t)st->bytes}, .strides = {1}};
    tidei_storage_retain(st);
    tide_array *a = tidei_array_over(rt, st, &all, TIDEI_OP_GRAPH_RUN);
    if (!a || tide_retain(a)) {
        /* the maker's reference is not wanted; one of a scope's goes with the scope */
        tidei_header *h = a ? tidei_cell_header(a) : NULL;
        if (h && h->home == &h->cell && !(atomic_load(&h->refs) & TIDEI_SCOPED))
            (void)rt->gc_ops->release(h);
        return a;
    }
    tidei_array_drop(a);
    return NULL;
}

/* No other has it: its memory goes now, whatever its collector. */
static void let_go(tide_array *a) {
    tide_free(a);
    tide_release(a);
}

static tide_status keep_outer(tidei_body *b) {
    for (unsigned i = 0; i < b->c->nslots; i++) {
        tidei_slot *s = &b->c->slots[i];
        if (s->kind != TIDEI_SLOT_OUTER) continue;
        b->slots[i].array = keep(s->st);
        if (!b->slots[i].array) return tidei_last_status();
        b->slots[i].st = s->st;
        tidei_storage_release(s->st); /* the array has it */
        s->st = NULL;
    }
    return TIDE_OK;
}

/* ---- bodies ---- */

static bool is_arguments_or_results(const tidei_slot *s) {
    return s->kind == TIDEI_SLOT_GIVEN || s->kind == TIDEI_SLOT_RESULT;
}

/* Whether a slot is copied to the arena before the nodes, and back behind them. */
static bool comes_in(const tidei_slot *s) { return s->in_arena && s->kind == TIDEI_SLOT_GIVEN; }
static bool goes_out(const tidei_slot *s) {
    return s->in_arena && is_arguments_or_results(s) && (s->mode & TIDEI_WRITE);
}

static void look(tidei_body *b) {
    const tidei_capture *c = b->c;
    b->nnumbers = 1;
    for (unsigned i = 0; i < c->nslots; i++) {
        const tidei_slot *s = &c->slots[i];
        if (!s->mode) continue;
        if (!s->in_arena || is_arguments_or_results(s)) b->slots[i].number = b->nnumbers++;
        b->writes |=
            s->kind != TIDEI_SLOT_MADE && s->kind != TIDEI_SLOT_RESULT && (s->mode & TIDEI_WRITE);
        b->fixed |= s->fixed;
        b->before += comes_in(s);
    }
    for (unsigned i = 0; i < c->nnodes; i++) {
        if (!c->nodes[i]->renew) continue;
        b->nrenewed++;
        b->params_bytes += tidei_round_up(c->nodes[i]->launch.params_bytes, 16);
    }
}

tide_status tidei_body_new(tidei_capture *c, const unsigned *arg_slot, unsigned nargs,
                           const tidei_body_result *results, unsigned nresults, tidei_body **out) {
    tidei_runtime *rt = c->dev->rt;
    tide_status status = tidei_capture_finish(c);
    const size_t bytes =
        sizeof(tidei_body) + c->nslots * sizeof(tidei_body_slot) + nresults * sizeof *results;
    tidei_body *b = status == TIDE_OK ? tidei_host_alloc(rt, bytes) : NULL;
    if (!b) {
        if (status == TIDE_OK) status = tidei_fail_host_memory(TIDEI_OP_GRAPH_RUN, bytes);
        tidei_capture_drop(c);
        return status;
    }
    b->c = c;
    b->slots = (tidei_body_slot *)(b + 1);
    b->results = (tidei_body_result *)(b->slots + c->nslots);
    b->nresults = nresults;
    if (nresults) memcpy(b->results, results, nresults * sizeof *results);
    for (unsigned i = 0; i < nargs; i++)
        if (arg_slot[i] != UINT_MAX) b->slots[arg_slot[i]].arg = i;
    look(b);
    status = keep_outer(b);
    if (status == TIDE_OK) return *out = b, TIDE_OK;
    tidei_body_drop(b);
    return status;
}

void tidei_body_drop(tidei_body *b) {
    tidei_runtime *rt = b->c->dev->rt;
    for (unsigned i = 0; i < b->c->nslots; i++) let_go(b->slots[i].array);
    tidei_capture_drop(b->c);
    tidei_host_free(rt, b);
}

/* ---- building ---- */

typedef struct build {
    const tidei_body *b;
    tidei_dev *dev;
    tidei_stream *s;
    tidei_addr *slots; /* by number */
    tidei_dkernel *copy, *fill;
    tidei_built *made; /* what there is of it so far */
} build;

/* A range of the capture's, in the device's slots. */
static tidei_graph_range placed(const build *x, const tidei_graph_range *r) {
    const tidei_slot *s = &x->b->c->slots[r->slot];
    return s->in_arena
               ? (tidei_graph_range){0, r->mode, s->place + r->offset, r->bytes}
               : (tidei_graph_range){x->b->slots[r->slot].number, r->mode, r->offset, r->bytes};
}

static tide_status add(build *x, const tidei_launch *l, const size_t *at,
                       const tidei_graph_range *ranges) {
    return x->dev->d->ops->graph_add(x->dev->d, x->made->g, l, at, ranges);
}

/* bytes a thread moves */
#define THREAD_BYTES 64

static tidei_launch launch_of(const build *x, const char *name, tidei_dkernel *k, tidei_host_fn fn,
                              const void *params, size_t bytes, size_t moved, unsigned nranges) {
    const int sms = x->dev->d->info.sm_count > 0 ? x->dev->d->info.sm_count : 1;
    const size_t enough = (size_t)sms * TIDEI_OWN_BLOCKS_AN_SM,
                 blocks = moved / (TIDEI_OWN_BLOCK * THREAD_BYTES) + 1;
    return (tidei_launch){.name = name,
                          .kernel = k,
                          .host_fn = fn,
                          .params = params,
                          .params_bytes = bytes,
                          .grid = {(unsigned)tidei_min_size(blocks, enough), 1, 1},
                          .block = {TIDEI_OWN_BLOCK, 1, 1},
                          .nranges = nranges};
}

static tide_status add_copy(build *x, tidei_graph_range from, tidei_graph_range to) {
    static const size_t at[] = {offsetof(gs_copy, src), offsetof(gs_copy, dst)};
    const tidei_graph_range ranges[] = {from, to};
    const gs_copy p = {.bytes = from.bytes};
    tidei_launch l = launch_of(x, "graph_copy", x->copy, graph_copy, &p, sizeof p, from.bytes, 2);
    return add(x, &l, at, ranges);
}

static tide_status add_fill(build *x, const tidei_graph_node *node) {
    static const size_t at[] = {offsetof(gs_fill, dst)};
    const tidei_graph_range to = placed(x, &node->uses[0]);
    gs_fill p = {.bytes = to.bytes};
    for (size_t i = 0; i < 16; i += node->width)
        memcpy((char *)p.pattern + i, node->pattern, node->width);
    tidei_launch l = launch_of(x, "graph_fill", x->fill, graph_fill, &p, sizeof p, to.bytes, 1);
    return add(x, &l, at, &to);
}

static tide_status add_launch(build *x, const tidei_graph_node *node) {
    tidei_graph_range ranges[TIDEI_USES_MAX];
    for (unsigned i = 0; i < node->n; i++) ranges[i] = placed(x, &node->uses[i]);
    return add(x, &node->launch, node->at, ranges);
}

static tide_status add_call(build *x, const tidei_graph_node *node) {
    tidei_use uses[TIDEI_USES_MAX];
    tidei_graph_range ranges[TIDEI_USES_MAX];
    tidei_submission w = {.s = x->s, .uses = uses, .n = node->n, .op = node->op, .ranges = w.few};
    for (unsigned i = 0; i < node->n; i++) {
        const tidei_graph_range r = ranges[i] = placed(x, &node->uses[i]);
        uses[i] = (tidei_use){NULL, node->uses[i].offset, r.bytes, r.mode};
        w.few[i] = (tidei_range){x->slots[r.slot] + r.offset, r.bytes, r.mode};
    }
    return node->call(node, x->dev, x->made->g, &w, ranges);
}

static tide_status add_node(build *x, const tidei_graph_node *node) {
    switch (node->kind) {
    case TIDEI_NODE_LAUNCH: return add_launch(x, node);
    case TIDEI_NODE_FILL: return add_fill(x, node);
    case TIDEI_NODE_COPY: return add_copy(x, placed(x, &node->uses[0]), placed(x, &node->uses[1]));
    default: return add_call(x, node);
    }
}

/* Copies between the arena and the memory of arguments and results that stand there. */
static tide_status add_copies(build *x, bool in) {
    const tidei_capture *c = x->b->c;
    tide_status status = TIDE_OK;
    for (unsigned i = 0; i < c->nslots && status == TIDE_OK; i++) {
        const tidei_slot *s = &c->slots[i];
        if (!(in ? comes_in(s) : goes_out(s)) || !s->mode) continue;
        const size_t bytes = s->hi - s->lo;
        tidei_graph_range there = {x->b->slots[i].number, TIDEI_READ, s->lo, bytes},
                          here = {0, TIDEI_READ, s->place + s->lo, bytes};
        *(in ? &here.mode : &there.mode) = TIDEI_WRITE;
        status = in ? add_copy(x, there, here) : add_copy(x, here, there);
    }
    return status;
}

static tide_status add_all(build *x) {
    const tidei_capture *c = x->b->c;
    tide_status status = add_copies(x, true);
    for (unsigned i = 0; i < c->nnodes && status == TIDE_OK; i++) status = add_node(x, c->nodes[i]);
    return status == TIDE_OK ? add_copies(x, false) : status;
}

/* Gives back what a built graph has of the device, or of what was built of it. */
static void unbuild(tidei_built *x) {
    tidei_device *d = x->dev->d;
    tidei_saved_error e;
    tidei_error_save(&e);
    if (x->g) d->ops->graph_release(d, x->g);
    x->g = NULL;
    tidei_library_unback(x->dev, x->library);
    x->library = 0;
    tidei_error_restore(&e);
}

/* Takes memory that no pool has: what the driver keeps of nodes. */
static tide_status attempt(void *arg, unsigned flags) {
    build *x = arg;
    tidei_device *d = x->dev->d;
    const size_t bytes = x->b->c->nnodes * d->info.graph_node_bytes;
    (void)flags;
    if (!tidei_library_back(x->dev, bytes))
        return tidei_fail(TIDE_E_NOMEM, TIDEI_OP_GRAPH_RUN,
                          "a graph of %u nodes takes about %zu bytes, more than the limit leaves",
                          x->b->c->nnodes, bytes);
    x->made->library = bytes;
    tide_status status = d->ops->graph_new(d, x->slots, x->b->nnumbers, &x->made->g);
    if (status == TIDE_OK) status = add_all(x);
    if (status == TIDE_OK) status = d->ops->graph_finish(d, x->made->g);
    if (status != TIDE_OK) unbuild(x->made);
    return status;
}

static bool has_kind(const tidei_body *b, int kind) {
    for (unsigned i = 0; i < b->c->nnodes; i++)
        if ((int)b->c->nodes[i]->kind == kind) return true;
    return false;
}

static bool has_copies(const tidei_body *b) {
    bool any = b->before || has_kind(b, TIDEI_NODE_COPY);
    for (unsigned i = 0; i < b->c->nslots; i++) any |= goes_out(&b->c->slots[i]);
    return any;
}

static tide_status find_kernels(build *x) {
    const char *op = TIDEI_OP_GRAPH_RUN;
    tide_status status = TIDE_OK;
    if (!(x->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT)) return TIDE_OK;
    if (has_copies(x->b))
        status = tidei_kernel_get_fixed(x->dev, "graph_copy", tidei_stretches_text, op, &x->copy);
    if (status == TIDE_OK && has_kind(x->b, TIDEI_NODE_FILL))
        status = tidei_kernel_get_fixed(x->dev, "graph_fill", tidei_stretches_text, op, &x->fill);
    return status;
}

static tidei_addr address_of(tidei_storage *st) {
    tidei_stamps_lock(st);
    tidei_addr at = st->addr;
    tidei_stamps_unlock(st);
    return at;
}

/* By number. What is not fixed may be elsewhere by the time of a launch, which says where. */
static void find_addresses(const build *x, tidei_storage *arena) {
    if (arena) x->slots[0] = address_of(arena);
    for (unsigned i = 0; i < x->b->c->nslots; i++)
        if (x->b->slots[i].st && x->b->slots[i].number)
            x->slots[x->b->slots[i].number] = address_of(x->b->slots[i].st);
}

/* What library calls use: arrays of the body's own; by slot of the body, and the arena behind them.
** Where all addresses can be changed it is not asked. */
static tidei_addr fixed_address(const tidei_body *b, tidei_storage *arena, unsigned i) {
    if (i == b->c->nslots) return arena ? address_of(arena) : 0;
    return b->c->slots[i].fixed && b->slots[i].st ? address_of(b->slots[i].st) : 0;
}

bool tidei_built_fits(const tidei_built *x, const tidei_body *b) {
    for (unsigned i = 0; b->fixed && i <= b->c->nslots; i++)
        if (fixed_address(b, x->arena, i) != x->fixed_at[i]) return false;
    return true;
}

tide_status tidei_arena_new(const tidei_body *b, tidei_stream *s, tidei_storage **out) {
    *out = NULL;
    if (!b->c->arena) return TIDE_OK;
    return tidei_storage_new_in(s->dev->pool, b->c->arena, s, TIDEI_OP_GRAPH_RUN, out);
}

static void undo_build(tidei_runtime *rt, tidei_thread *t, void *x, uintptr_t of) {
    (void)t, (void)of;
    tidei_built *made = x;
    unbuild(made);
    pthread_mutex_destroy(&made->lock);
    tidei_host_free(rt, made);
}

tide_status tidei_build(const tidei_body *b, tidei_storage *arena, tidei_stream *s,
                        tidei_built **out) {
    tidei_runtime *rt = s->dev->rt;
    tidei_thread *t = tidei_thread_get(rt);
    const unsigned nfixed = b->fixed ? b->c->nslots + 1 : 0;
    build x = {.b = b, .dev = s->dev, .s = s};
    tide_status status = find_kernels(&x);
    if (status != TIDE_OK) return status;
    x.made = tidei_host_alloc(rt, sizeof *x.made + (nfixed + b->nnumbers) * sizeof(tidei_addr));
    if (!x.made) return tidei_fail_host_memory(TIDEI_OP_GRAPH_RUN, sizeof *x.made);
    pthread_mutex_init(&x.made->lock, NULL);
    x.made->dev = s->dev;
    x.made->fixed_at = (tidei_addr *)(x.made + 1);
    x.slots = x.made->fixed_at + nfixed;
    tidei_hold(t, undo_build, x.made, 0);
    find_addresses(&x, arena);
    for (unsigned i = 0; i < nfixed; i++) x.made->fixed_at[i] = fixed_address(b, arena, i);
    status = tidei_outside_with_reclaim(s->dev, b->c->nnodes * s->dev->d->info.graph_node_bytes,
                                        TIDEI_OP_GRAPH_RUN, attempt, &x);
    tidei_let(t, x.made);
    if (status != TIDE_OK) {
        undo_build(rt, t, x.made, 0);
        return tidei_fail_as(TIDEI_OP_GRAPH_RUN);
    }
    x.made->arena = arena;
    *out = x.made;
    return TIDE_OK;
}

void tidei_built_drop(tidei_built *x) {
    if (x->arena) tidei_storage_release(x->arena);
    undo_build(x->dev->rt, NULL, x, 0);
}
