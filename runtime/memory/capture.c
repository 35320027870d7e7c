/* capture.c: nodes and slots of a capture, and where in the arena what lives between nodes lies.
** The model stands in capture.h. */
#include "runtime/memory/capture.h"

/* ---- lists ---- */

/* Makes room for one more element; false: host memory is exhausted. */
static bool grow(tidei_runtime *rt, void *list, unsigned n, unsigned *room, size_t size) {
    void *old, *more;
    if (n < *room) return true;
    unsigned wanted = *room ? 2 * *room : 16;
    memcpy(&old, list, sizeof old);
    if (!(more = tidei_host_take(rt, wanted * size))) return false;
    if (n) memcpy(more, old, n * size);
    tidei_host_free(rt, old);
    memcpy(list, &more, sizeof more);
    *room = wanted;
    return true;
}

tide_status tidei_capture_fail(tidei_capture *c, tide_status status) {
    if (c->failed == TIDE_OK) {
        c->failed = status;
        tidei_error_save(&c->why);
    }
    return status;
}

static tide_status no_memory(tidei_capture *c, const char *op, size_t bytes) {
    return tidei_capture_fail(c, tidei_fail_host_memory(op, bytes));
}

/* ---- the thread ---- */

static void leave(tidei_runtime *rt, tidei_thread *t) {
    t->capture = NULL;
    atomic_fetch_sub(&rt->capturing, 1);
}

static void undo_capture(tidei_runtime *rt, tidei_thread *t, void *c, uintptr_t of) {
    (void)of;
    leave(rt, t);
    tidei_capture_drop(c);
}

tide_status tidei_capture_begin(tidei_thread *t, tidei_dev *d, const char *op,
                                tidei_capture **out) {
    tidei_capture *c = tidei_host_alloc(d->rt, sizeof *c);
    if (!c) return tidei_fail_host_memory(op, sizeof *c);
    c->dev = d;
    c->op = op;
    c->number = atomic_fetch_add(&d->rt->captures, 1) + 1;
    tidei_check(!t->capture);
    t->capture = c;
    atomic_fetch_add(&d->rt->capturing, 1);
    tidei_hold(t, undo_capture, c, 0);
    *out = c;
    return TIDE_OK;
}

void tidei_capture_within(tidei_capture *c, const tidei_callback *call) {
    c->noted = call ? call->t : NULL;
    c->notes = call ? call->t->nnotes : 0;
}

tide_status tidei_capture_end(tidei_thread *t, tidei_capture *c) {
    tidei_let(t, c);
    leave(c->dev->rt, t);
    for (unsigned i = 0; i < c->ndraws; i++) c->draws[i].generator->counter -= c->draws[i].taken;
    if (c->failed != TIDE_OK) tidei_error_restore(&c->why);
    return c->failed;
}

__attribute__((noinline)) tidei_capture *tidei_capture_here(tidei_runtime *rt) {
    const tidei_thread *t = tidei_thread_look(rt);
    tidei_capture *c = t ? t->capture : NULL;
    return c && c->noted && c->noted->nnotes == c->notes ? c : NULL;
}

tide_status tidei_capture_refused(tidei_runtime *rt, const char *op, const char *does) {
    tidei_capture *c = tidei_capturing(rt);
    if (tidei_likely(!c)) return TIDE_OK;
    return tidei_capture_fail(
        c, tidei_fail(TIDE_E_UNSUPPORTED, op,
                      "%s %s, which cannot be captured: a graph's work is done when the "
                      "graph is run",
                      op, does));
}

static bool is_of(const tidei_storage *st, const tidei_capture *c) {
    return st->placeholder && (uintptr_t)st->priv == (uintptr_t)c->number;
}

/* Before the captured call, and behind it, nothing is captured, but placeholders are looked at. */
bool tidei_capture_admits(const tidei_storage *st) {
    const tidei_thread *t = tidei_thread_look(st->dev->rt);
    const tidei_capture *c = t ? t->capture : NULL;
    return c && is_of(st, c) && (!c->noted || c->noted->nnotes == c->notes);
}

/* ---- slots ---- */

static tide_status another_device(tidei_capture *c, const tidei_dev *d, const char *op) {
    return tidei_capture_fail(c, tidei_fail(TIDE_E_UNSUPPORTED, op,
                                            "an array of %s cannot be captured in a graph for %s",
                                            d->d->info.name, c->dev->d->info.name));
}

tidei_slot *tidei_capture_slot(const tidei_capture *c, const tidei_storage *st) {
    for (unsigned i = c->nslots; i-- > 0;)
        if (c->slots[i].st == st) return &c->slots[i];
    return NULL;
}

static tidei_slot *add_slot(tidei_capture *c, tidei_storage *st, tidei_slot_kind kind) {
    if (!grow(c->dev->rt, &c->slots, c->nslots, &c->slots_room, sizeof *c->slots)) return NULL;
    tidei_slot *s = &c->slots[c->nslots++];
    *s = (tidei_slot){.st = st, .kind = kind, .memory = st->pool->kind, .bytes = st->bytes};
    tidei_storage_retain(st);
    return s;
}

static tide_status placeholder(tidei_capture *c, tidei_pool *pool, size_t bytes,
                               tidei_slot_kind kind, const char *op, tidei_storage **out) {
    tidei_storage *st;
    if (c->failed != TIDE_OK) return tidei_error_restore(&c->why), c->failed;
    if (pool->dev != c->dev) return another_device(c, pool->dev, op);
    tide_status status = tidei_storage_placeholder(pool, bytes, c->number, op, &st);
    if (status != TIDE_OK) return tidei_capture_fail(c, status);
    if (!add_slot(c, st, kind)) {
        tidei_storage_release(st);
        return no_memory(c, op, sizeof(tidei_slot));
    }
    *out = st;
    return TIDE_OK;
}

tide_status tidei_capture_make(tidei_capture *c, tidei_pool *pool, size_t bytes, const char *op,
                               tidei_storage **out) {
    return placeholder(c, pool, bytes, TIDEI_SLOT_MADE, op, out);
}

tide_status tidei_capture_give(tidei_capture *c, tidei_pool *pool, size_t bytes,
                               tidei_storage **out) {
    return placeholder(c, pool, bytes, TIDEI_SLOT_GIVEN, c->op, out);
}

static tide_status outer(tidei_capture *c, tidei_storage *st, const char *op, tidei_slot **out) {
    if (st->dev != c->dev) return another_device(c, st->dev, op);
    if (atomic_load(&st->unordered))
        return tidei_capture_fail(
            c, tidei_fail(TIDE_E_UNSUPPORTED, op,
                          "an array that is not ordered (tide_array_set_ordered) cannot "
                          "be captured"));
    if (st->placeholder)
        return tidei_capture_fail(c, tidei_fail(TIDE_E_INVALID, op, TIDEI_ENDED_PLACEHOLDER));
    *out = add_slot(c, st, TIDEI_SLOT_OUTER);
    return *out ? TIDE_OK : no_memory(c, op, sizeof(tidei_slot));
}

tide_status tidei_capture_outer(tidei_capture *c, tidei_storage *st, tidei_slot **out) {
    return outer(c, st, c->op, out);
}

/* The slot of a use's storage. */
static tide_status find_slot(tidei_capture *c, const tidei_use *u, const char *op,
                             unsigned *number) {
    tidei_slot *s = tidei_capture_slot(c, u->st);
    tide_status status = s ? TIDE_OK : outer(c, u->st, op, &s);
    if (status == TIDE_OK) *number = (unsigned)(s - c->slots);
    return status;
}

static void note_use(tidei_slot *s, const tidei_graph_range *r, unsigned node, bool fixed) {
    if (!s->mode) {
        s->first = node;
        s->lo = r->offset;
        s->hi = r->offset + r->bytes;
    }
    s->last = node;
    s->lo = tidei_min_size(s->lo, r->offset);
    s->hi = tidei_max_size(s->hi, r->offset + r->bytes);
    s->mode |= r->mode;
    s->fixed |= fixed;
}

/* ---- nodes ---- */

/* A node with room for n uses and `more` bytes behind them; its uses are looked up, and those of
** storages without memory left out: *which (room for n) has the numbers of the others. NULL with
** the error noted. */
static tidei_graph_node *make_node(tidei_capture *c, const tidei_use *uses, unsigned n, size_t more,
                                   unsigned *which, const char *op) {
    tidei_runtime *rt = c->dev->rt;
    const size_t at = tidei_round_up(sizeof(tidei_graph_node), 16),
                 bytes = at + n * (sizeof(tidei_graph_range) + sizeof(size_t)) + 16 + more;
    if (c->failed != TIDE_OK) return tidei_error_restore(&c->why), NULL;
    tidei_graph_node *x = tidei_host_alloc(rt, bytes);
    if (!x || !grow(rt, &c->nodes, c->nnodes, &c->nodes_room, sizeof *c->nodes)) {
        tidei_host_free(rt, x);
        return no_memory(c, op, bytes), NULL;
    }
    tidei_graph_range *r = (tidei_graph_range *)((char *)x + at);
    x->op = op;
    x->uses = r;
    for (unsigned i = 0; i < n; i++) {
        unsigned slot = 0;
        if (!uses[i].st->bytes) continue;
        if (find_slot(c, &uses[i], op, &slot) != TIDE_OK) {
            tidei_host_free(rt, x);
            return NULL;
        }
        which[x->n] = i;
        r[x->n++] = (tidei_graph_range){slot, uses[i].mode, uses[i].offset, uses[i].bytes};
    }
    return x;
}

/* What lies behind the uses: at first the places of addresses, then the node's own bytes. */
static size_t *places_of(tidei_graph_node *x, unsigned n) {
    return (size_t *)(void *)((char *)(uintptr_t)x->uses + n * sizeof *x->uses);
}
static void *bytes_of(tidei_graph_node *x, unsigned n) {
    return (void *)tidei_round_up((uintptr_t)(places_of(x, n) + n), 16);
}

static void add_node(tidei_capture *c, tidei_graph_node *x) {
    const bool fixed = x->kind == TIDEI_NODE_CALL;
    for (unsigned i = 0; i < x->n; i++)
        note_use(&c->slots[x->uses[i].slot], &x->uses[i], c->nnodes, fixed);
    c->nodes[c->nnodes++] = x;
}

tide_status tidei_capture_launch(tidei_capture *c, const tidei_use *uses, unsigned n,
                                 const tidei_launch *l, const size_t *at, const char *op) {
    unsigned which[TIDEI_USES_MAX];
    tidei_check(n <= TIDEI_USES_MAX);
    tidei_graph_node *x = make_node(c, uses, n, l->params_bytes, which, op);
    if (!x) return tidei_last_status();
    size_t *places = places_of(x, n);
    void *params = bytes_of(x, n);
    for (unsigned i = 0; i < x->n; i++)
        places[i] = at ? at[which[i]] : which[i] * sizeof(tidei_addr);
    tidei_check(!x->n || l->params_bytes); /* all work of ours needs addresses */
    if (l->params_bytes) memcpy(params, l->params, l->params_bytes);
    x->kind = TIDEI_NODE_LAUNCH;
    x->at = places;
    x->launch = *l;
    x->launch.params = params;
    x->launch.ranges = NULL;
    x->launch.nranges = x->n;
    add_node(c, x);
    return TIDE_OK;
}

tide_status tidei_capture_fill(tidei_capture *c, const tidei_use *use, const void *pattern,
                               size_t width, const char *op) {
    unsigned which;
    tidei_graph_node *x = make_node(c, use, 1, 0, &which, op);
    if (!x) return tidei_last_status();
    x->kind = TIDEI_NODE_FILL;
    x->width = width;
    memcpy(x->pattern, pattern, width);
    add_node(c, x);
    return TIDE_OK;
}

tide_status tidei_capture_copy(tidei_capture *c, const tidei_use *from, const tidei_use *to,
                               const char *op) {
    const tidei_use uses[2] = {*from, *to};
    unsigned which[2];
    tidei_graph_node *x = make_node(c, uses, 2, 0, which, op);
    if (!x) return tidei_last_status();
    x->kind = TIDEI_NODE_COPY;
    add_node(c, x);
    return TIDE_OK;
}

tide_status tidei_capture_call(tidei_capture *c, const tidei_use *uses, unsigned n,
                               tidei_node_call call, const void *data, size_t bytes,
                               const char *op) {
    unsigned which[TIDEI_USES_MAX];
    tidei_check(n <= TIDEI_USES_MAX);
    tidei_graph_node *x = make_node(c, uses, n, bytes, which, op);
    if (!x) return tidei_last_status();
    if (x->n != n) { /* the call finds its operands by their number */
        tidei_host_free(c->dev->rt, x);
        return tidei_capture_fail(c, tidei_fail(TIDE_E_UNSUPPORTED, op, "a call over no elements"));
    }
    x->kind = TIDEI_NODE_CALL;
    x->call = call;
    x->data = memcpy(bytes_of(x, n), data, bytes);
    add_node(c, x);
    return TIDE_OK;
}

tide_status tidei_capture_renew(tidei_capture *c, unsigned node, tidei_node_renew renew,
                                void *data) {
    tidei_graph_node *x = c->nodes[node];
    if (x->renew) {
        tidei_host_free(c->dev->rt, data);
        return tidei_capture_fail(c,
                                  tidei_fail(TIDE_E_UNSUPPORTED, x->op, "it changes in two ways"));
    }
    x->renew = renew;
    x->renewed = data;
    return TIDE_OK;
}

tide_status tidei_capture_condition(tidei_capture *c, tidei_capture_serves serves, void *data) {
    if (!grow(c->dev->rt, &c->conditions, c->nconditions, &c->conditions_room,
              sizeof *c->conditions)) {
        tidei_host_free(c->dev->rt, data);
        return no_memory(c, c->op, sizeof *c->conditions);
    }
    c->conditions[c->nconditions++] = (tidei_condition){serves, data};
    return TIDE_OK;
}

tide_status tidei_capture_draw(tidei_capture *c, tide_rng *generator, uint64_t taken,
                               uint64_t *before) {
    unsigned i = 0;
    while (i < c->ndraws && c->draws[i].generator != generator) i++;
    if (i == c->ndraws) {
        if (!grow(c->dev->rt, &c->draws, i, &c->draws_room, sizeof *c->draws))
            return no_memory(c, c->op, sizeof *c->draws);
        c->draws[c->ndraws++] = (tidei_draws){.generator = generator};
    }
    *before = c->draws[i].taken;
    c->draws[i].taken += taken;
    return TIDE_OK;
}

/* ---- what nobody reads ---- */

/* Whether the node writes what is wanted. One that writes nothing is there for something else, and
** one that looks at indices tells of bad ones. */
static bool is_needed(const tidei_capture *c, const tidei_graph_node *x) {
    bool writes = false;
    if (x->kind == TIDEI_NODE_LAUNCH && x->launch.tells) return true;
    for (unsigned i = 0; i < x->n; i++) {
        if (!(x->uses[i].mode & TIDEI_WRITE)) continue;
        if (c->slots[x->uses[i].slot].wanted) return true;
        writes = true;
    }
    return !writes;
}

static void drop_node(tidei_capture *c, unsigned i) {
    tidei_host_free(c->dev->rt, c->nodes[i]->renewed);
    tidei_host_free(c->dev->rt, c->nodes[i]);
    c->nodes[i] = NULL;
}

/* From the last node to the first, so that what reads a slot is known before what writes it. A
** write ends no want: it may be of a part. Those that go leave NULL. */
static void drop_unneeded(tidei_capture *c) {
    for (unsigned i = 0; i < c->nslots; i++)
        c->slots[i].wanted = c->slots[i].kind != TIDEI_SLOT_MADE;
    for (unsigned i = c->nnodes; i-- > 0;) {
        const tidei_graph_node *x = c->nodes[i];
        if (!is_needed(c, x)) {
            drop_node(c, i);
            continue;
        }
        for (unsigned k = 0; k < x->n; k++)
            if (x->uses[k].mode & TIDEI_READ) c->slots[x->uses[k].slot].wanted = true;
    }
}

/* The nodes that stay are numbered anew, and slots know those alone. */
static void leave_out_unneeded(tidei_capture *c) {
    const unsigned n = c->nnodes;
    drop_unneeded(c);
    for (unsigned i = 0; i < c->nslots; i++) {
        c->slots[i].mode = 0;
        c->slots[i].fixed = false;
    }
    c->nnodes = 0;
    for (unsigned i = 0; i < n; i++)
        if (c->nodes[i]) add_node(c, c->nodes[i]);
}

/* ---- the arena ---- */

static bool stands_in_arena(const tidei_slot *s) {
    return s->mode && s->kind != TIDEI_SLOT_OUTER && (s->kind == TIDEI_SLOT_MADE || s->fixed);
}

static bool live_together(const tidei_slot *a, const tidei_slot *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place for s that no slot which lives with it has. `placed`: those that have places, by
** place. */
static size_t place_for(const tidei_slot *const *placed, unsigned n, const tidei_slot *s,
                        size_t align) {
    size_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!live_together(placed[i], s)) continue;
        if (placed[i]->place >= at + s->hi) break;
        at = tidei_max_size(at, tidei_round_up(placed[i]->place + placed[i]->hi, align));
    }
    return at;
}

/* Puts s, which has its place, where it belongs in the order. */
static void insert(const tidei_slot **placed, unsigned n, const tidei_slot *s) {
    for (; n && placed[n - 1]->place > s->place; n--) placed[n] = placed[n - 1];
    placed[n] = s;
}

/* The largest slot that has no place yet and wants one; of two the earlier. NULL: none. */
static tidei_slot *next_to_place(tidei_capture *c) {
    tidei_slot *best = NULL;
    for (unsigned i = 0; i < c->nslots; i++) {
        tidei_slot *s = &c->slots[i];
        if (!s->in_arena && stands_in_arena(s) && (!best || s->hi > best->hi)) best = s;
    }
    return best;
}

/* Large ones first, each as low as it goes. */
static void lay_out(tidei_capture *c, const tidei_slot **placed) {
    const size_t align = c->dev->d->info.align;
    unsigned n = 0;
    for (tidei_slot *s; (s = next_to_place(c));) {
        if (s->kind != TIDEI_SLOT_MADE) { /* for all of the graph */
            s->first = 0;
            s->last = c->nnodes - 1;
        }
        s->in_arena = true;
        s->place = place_for(placed, n, s, align);
        insert(placed, n++, s);
        c->arena = tidei_max_size(c->arena, s->place + s->hi);
    }
}

static void let_go(tidei_slot *s) {
    if (s->st) tidei_storage_release(s->st);
    s->st = NULL;
}

tide_status tidei_capture_finish(tidei_capture *c) {
    tidei_runtime *rt = c->dev->rt;
    const tidei_slot **placed = tidei_host_take(rt, (c->nslots + 1) * sizeof *placed);
    if (!placed) return tidei_fail_host_memory(c->op, c->nslots * sizeof *placed);
    leave_out_unneeded(c);
    lay_out(c, placed);
    tidei_host_free(rt, placed);
    for (unsigned i = 0; i < c->nslots; i++)
        if (c->slots[i].kind != TIDEI_SLOT_OUTER) let_go(&c->slots[i]);
    return TIDE_OK;
}

void tidei_capture_drop(tidei_capture *c) {
    tidei_runtime *rt = c->dev->rt;
    for (unsigned i = 0; i < c->nslots; i++) let_go(&c->slots[i]);
    for (unsigned i = 0; i < c->nnodes; i++) drop_node(c, i);
    for (unsigned i = 0; i < c->nconditions; i++) tidei_host_free(rt, c->conditions[i].data);
    tidei_host_free(rt, c->conditions);
    tidei_host_free(rt, c->nodes);
    tidei_host_free(rt, c->slots);
    tidei_host_free(rt, c->draws);
    tidei_host_free(rt, c);
}
