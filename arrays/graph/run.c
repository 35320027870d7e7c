/* run.c: a run of a graph: which variant it is, and launching what was captured. The model stands
** in graph.h.
**
** A run has its arguments' storages and its variant from the first step to the last, and what it
** has is noted in the thread's record: if a callback is left on the way, all of it is given back.
** Results are made before anything is queued; from the submission's beginning on nothing can fail
** but the launch itself. */
#include "arrays/graph/graph.h"
#include "runtime/pool/pools.h"

#define ROOM(type, n) ((type *)__builtin_alloca((n) * sizeof(type)))
#define OP            TIDEI_OP_GRAPH_RUN

typedef struct run {
    tidei_task_graph *g;
    tidei_thread *t;
    tidei_stream *s;
    const tide_arg *args;
    size_t n, m;
    tidei_operand *ops; /* of the arguments; st NULL: a number */
    size_t nops;        /* held so far */
    unsigned char *key;
    size_t key_bytes;
    bool plain; /* an argument is such that its work is not captured */
    tidei_variant *v;
    const tidei_body *b;
    tidei_built *built;
    bool building; /* other runs call the function meanwhile */
    bool launched, instead;
    /* for a launch */
    tidei_operand *made; /* of the results; st NULL: none */
    tidei_use *uses;
    unsigned *use_slot; /* of the body, by use; UINT_MAX: the arena */
    unsigned nuses;
    tidei_range *ranges;
    tidei_addr *slots;
    tidei_graph_params *params;
    unsigned nouter; /* slots of the body whose storages are held */
    bool pinned;     /* what is fixed among these */
    bool pinned_arena;
} run;

/* ---- arguments and their key ---- */

/* What of an argument a captured call was made for. */
typedef struct key_part {
    int32_t kind, dtype, ndim, memory;
    uint32_t low; /* where its lowest byte lies between boundaries */
    int64_t shape[TIDE_MAX_RANK], strides[TIDE_MAX_RANK];
} key_part;
typedef struct key_head {
    size_t n, m;
    unsigned device;
} key_head;

/* Writes as much as the argument has; returns how much. */
static size_t put_part(unsigned char *to, const tide_arg *arg, const tidei_operand *o) {
    key_part p;
    const size_t bytes = offsetof(key_part, shape);
    memset(&p, 0, bytes);
    p.kind = arg->kind;
    if (!o->st) return memcpy(to, &p, bytes), bytes;
    p.dtype = o->lay.dtype;
    p.ndim = o->lay.ndim;
    p.memory = (int32_t)o->st->pool->kind;
    p.low = (uint32_t)(tidei_operand_lowest(o) % TIDEI_GRAPH_ALIGN);
    const size_t rank = (size_t)o->lay.ndim * sizeof *p.shape;
    memcpy(to, &p, bytes);
    memcpy(to + bytes, o->lay.shape, rank);
    memcpy(to + bytes + rank, o->lay.strides, rank);
    return bytes + 2 * rank;
}

static void make_key(run *r) {
    key_head head;
    memset(&head, 0, sizeof head);
    head.n = r->n;
    head.m = r->m;
    head.device = r->t->dev->index;
    memcpy(r->key, &head, sizeof head);
    r->key_bytes = sizeof head;
    for (size_t i = 0; i < r->n; i++)
        r->key_bytes += put_part(r->key + r->key_bytes, &r->args[i], &r->ops[i]);
}

static tide_status gather(run *r) {
    for (size_t i = 0; i < r->n; i++) {
        const tide_arg *v = &r->args[i];
        r->ops[i].st = NULL;
        r->nops = i + 1;
        if (v->kind == TIDE_ARG_ARRAY) {
            tide_status status =
                tidei_operand_get_of(r->g->rt, v->value.array, OP, i + 1, &r->ops[i]);
            if (status != TIDE_OK) return r->nops = i, status;
            r->plain |= r->ops[i].st->dev != r->t->dev || atomic_load(&r->ops[i].st->unordered);
        } else if (v->kind < TIDE_ARG_ARRAY || v->kind > TIDE_ARG_COMPLEX)
            return r->nops = i,
                   tidei_fail(TIDE_E_INVALID, OP, "argument %zu: %d is no kind of argument", i + 1,
                              (int)v->kind);
    }
    make_key(r);
    return TIDE_OK;
}

static void ungather(run *r) {
    while (r->nops > 0)
        if (r->ops[--r->nops].st) tidei_operand_put(&r->ops[r->nops]);
}

/* ---- whether the capture serves these arguments ---- */

static bool meet(const tidei_use *a, const tidei_use *b) {
    return a->st == b->st && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Whether an argument's bytes that are written are another one's too, or an array's of the body, or
** the other way round: the captured work was made for memory that is apart. */
static bool shares(const run *r) {
    if (!r->b->writes) return false;
    for (unsigned i = 0; i < r->nuses; i++) {
        if (r->use_slot[i] == UINT_MAX || r->b->c->slots[r->use_slot[i]].kind != TIDEI_SLOT_GIVEN)
            continue;
        for (unsigned k = 0; k < r->nuses; k++)
            if (k != i && ((r->uses[i].mode | r->uses[k].mode) & TIDEI_WRITE) &&
                meet(&r->uses[i], &r->uses[k]))
                return true;
    }
    return false;
}

/* The slot's use, in the memory that it has in this run. */
static tidei_use use_of(const run *r, unsigned i) {
    const tidei_slot *s = &r->b->c->slots[i];
    tidei_use u = {r->b->slots[i].st, s->lo, s->hi - s->lo, s->mode};
    if (s->kind == TIDEI_SLOT_GIVEN) {
        const tidei_operand *o = &r->ops[r->b->slots[i].arg];
        const size_t lowest = tidei_operand_lowest(o);
        u.st = o->st;
        u.offset += lowest - lowest % TIDEI_GRAPH_ALIGN;
    }
    return u;
}

/* Lists what the body uses of arguments and of its own arrays; results and the arena come later. */
static void list_uses(run *r) {
    const tidei_capture *c = r->b->c;
    r->nuses = 0;
    for (unsigned i = 0; i < c->nslots; i++) {
        if (!r->b->slots[i].number || c->slots[i].kind == TIDEI_SLOT_RESULT) continue;
        r->use_slot[r->nuses] = i;
        r->uses[r->nuses++] = use_of(r, i);
    }
}

static bool serves(const run *r) {
    const tidei_capture *c = r->b->c;
    for (unsigned i = 0; i < c->nconditions; i++)
        if (!c->conditions[i].serves(c->conditions[i].data, r->args)) return false;
    return true;
}

/* Computes what is new of nodes' parameters, in `room`. False: the captured work does not serve. */
static bool renew(run *r, unsigned char *room) {
    const tidei_capture *c = r->b->c;
    unsigned k = 0;
    for (unsigned i = 0; i < c->nnodes; i++) {
        const tidei_graph_node *x = c->nodes[i];
        if (!x->renew) continue;
        memcpy(room, x->launch.params, x->launch.params_bytes);
        if (!x->renew(x->renewed, r->args, room)) return false;
        r->params[k++] = (tidei_graph_params){r->b->before + i, room};
        room += tidei_round_up(x->launch.params_bytes, 16);
    }
    return true;
}

/* ---- results ---- */

static bool pool_for(const run *r, tidei_mem_kind memory, tidei_pool **out) {
    if (memory == TIDEI_MEM_DEVICE) return *out = tidei_pool_here(r->s->dev), true;
    return tidei_kind_pool(r->s->dev, tidei_kind_public(memory), OP, out) == TIDE_OK;
}

/* The storage that a slot has in this run, with a reference; NULL with the error set. */
static tidei_storage *storage_of(run *r, unsigned slot, size_t k) {
    const tidei_slot *s = &r->b->c->slots[slot];
    tidei_storage *st = NULL;
    tidei_pool *pool;
    if (s->kind == TIDEI_SLOT_GIVEN) st = r->ops[r->b->slots[slot].arg].st;
    if (s->kind == TIDEI_SLOT_OUTER) st = r->b->slots[slot].st;
    for (size_t i = 0; i < k && !st; i++) /* several results may be views of one */
        if (r->b->results[i].any && r->b->results[i].slot == slot) st = r->made[i].st;
    if (st) return tidei_storage_retain(st), st;
    if (!pool_for(r, s->memory, &pool)) return NULL;
    return tidei_storage_new_in(pool, s->bytes, r->s, OP, &st) == TIDE_OK ? st : NULL;
}

/* Offsets count from the slot's beginning; an argument's lies somewhere in its storage. */
static tidei_layout layout_of(const run *r, const tidei_body_result *x) {
    tidei_layout lay = x->lay;
    if (r->b->c->slots[x->slot].kind == TIDEI_SLOT_GIVEN) {
        const size_t lowest = tidei_operand_lowest(&r->ops[r->b->slots[x->slot].arg]);
        lay.offset += (int64_t)((lowest - lowest % TIDEI_GRAPH_ALIGN) / tide_dtype_size(lay.dtype));
    }
    return lay;
}

static tide_status make_results(run *r, tide_array **outs) {
    for (size_t k = 0; k < r->m; k++) {
        const tidei_body_result *x = &r->b->results[k];
        r->made[k].st = NULL;
        outs[k] = NULL;
        if (!x->any) continue;
        const tidei_layout lay = layout_of(r, x);
        tidei_storage *st = storage_of(r, x->slot, k);
        tidei_operand o;
        if (!st) return tidei_last_status();
        outs[k] = tidei_array_make_over(r->g->rt, st, &lay, OP, &o);
        if (!outs[k]) return tidei_last_status();
        r->made[k] = o;
        const bool used = r->b->slots[x->slot].number != 0;
        if (!used || r->b->c->slots[x->slot].kind != TIDEI_SLOT_RESULT) continue;
        bool listed = false;
        for (size_t i = 0; i < k; i++)
            listed |= r->b->results[i].any && r->b->results[i].slot == x->slot;
        if (listed) continue;
        r->use_slot[r->nuses] = x->slot;
        r->uses[r->nuses] = use_of(r, x->slot);
        r->uses[r->nuses++].st = o.st;
    }
    return TIDE_OK;
}

/* The newest first. Where the run came to nothing the arrays are dropped. */
static void end_results(run *r, tide_array **outs, bool well) {
    for (size_t k = r->m; k-- > 0;) {
        if (!outs[k]) continue;
        tidei_operand_put(&r->made[k]);
        if (!well) {
            tidei_array_drop(outs[k]);
            outs[k] = NULL;
        }
    }
}

/* ---- memory that stays where it is ---- */

static bool is_fixed_outer(const run *r, unsigned i) {
    return r->b->c->slots[i].fixed && r->b->slots[i].st;
}

/* Holds the body's own arrays: what is held is not spilled. */
static void hold_outer(run *r) {
    for (; r->nouter < r->b->c->nslots; r->nouter++)
        if (r->b->slots[r->nouter].st) tidei_storage_retain(r->b->slots[r->nouter].st);
}

static void pin_outer(run *r) {
    for (unsigned i = 0; i < r->b->c->nslots; i++)
        if (is_fixed_outer(r, i)) tidei_storage_pin(r->b->slots[i].st);
    r->pinned = true;
}

static void pin_arena(run *r, tidei_storage *arena) {
    if (!r->b->fixed || !arena) return;
    tidei_storage_pin(arena);
    r->pinned_arena = true;
}

static void unpin_arena(run *r, tidei_storage *arena) {
    if (r->pinned_arena) tidei_storage_unpin(arena);
    r->pinned_arena = false;
}

static void let_go_of_outer(run *r) {
    for (unsigned i = 0; r->pinned && i < r->b->c->nslots; i++)
        if (is_fixed_outer(r, i)) tidei_storage_unpin(r->b->slots[i].st);
    r->pinned = false;
    while (r->nouter > 0)
        if (r->b->slots[--r->nouter].st) tidei_storage_release(r->b->slots[r->nouter].st);
}

/* ---- the built graph ---- */

static void undo_arena(tidei_runtime *rt, tidei_thread *t, void *arena, uintptr_t pinned) {
    (void)rt, (void)t;
    if (pinned) tidei_storage_unpin(arena);
    tidei_storage_release(arena);
}

static tide_status build_in(run *r, tidei_storage *arena) {
    if (!arena) return tidei_build(r->b, NULL, r->s, &r->built);
    if (r->b->fixed) tidei_storage_pin(arena);
    tidei_hold(r->t, undo_arena, arena, r->b->fixed);
    tidei_moves_wait(r->g->rt->moves); /* a move that began before the pins were seen has ended */
    tide_status status = tidei_build(r->b, arena, r->s, &r->built);
    tidei_let(r->t, arena);
    if (status == TIDE_OK)
        r->pinned_arena = r->b->fixed;
    else
        undo_arena(r->g->rt, r->t, arena, r->b->fixed);
    return status;
}

static tide_status build(run *r) {
    tidei_storage *arena = NULL;
    r->building = true;
    tide_status status = tidei_arena_new(r->b, r->s, &arena);
    if (status == TIDE_OK) status = build_in(r, arena);
    r->building = false;
    tidei_variant_set_built(r->g, r->v, status == TIDE_OK ? r->built : NULL);
    return status;
}

/* Finds the built graph, or builds it. Without one the function is to be called (`instead`). */
static tide_status find_built(run *r) {
    bool to_build;
    r->built = tidei_variant_built(r->g, r->v, &to_build);
    if (r->built) {
        pin_arena(r, r->built->arena);
        if (r->b->fixed) tidei_moves_wait(r->g->rt->moves);
        if (!tidei_built_fits(r->built, r->b)) {
            tidei_built *old = r->built;
            r->built = NULL;
            unpin_arena(r, old->arena);
            tidei_built_leave(r->g, r->v, old, true, &to_build);
        }
    }
    if (!r->built && to_build) return build(r);
    r->instead = !r->built;
    return TIDE_OK;
}

static void leave_built(run *r) {
    if (!r->built) return;
    unpin_arena(r, r->built->arena);
    tidei_built_leave(r->g, r->v, r->built, false, NULL);
    r->built = NULL;
}

/* ---- the launch ---- */

static tide_status submit(run *r) {
    tidei_device *d = r->s->dev->d;
    tidei_submission w;
    if (r->built->arena) {
        r->use_slot[r->nuses] = UINT_MAX;
        r->uses[r->nuses++] =
            (tidei_use){r->built->arena, 0, r->built->arena->bytes, TIDEI_READ | TIDEI_WRITE};
    }
    /* runs on other threads use the same arena */
    tide_status status =
        tidei_submit_begin_under(&w, r->s, r->uses, r->nuses, r->ranges, &r->built->lock, OP);
    if (status != TIDE_OK) return status;
    for (unsigned i = 0; i < r->nuses; i++) {
        const unsigned slot = r->use_slot[i];
        if (slot == UINT_MAX)
            r->slots[0] = w.ranges[i].addr;
        else
            r->slots[r->b->slots[slot].number] = w.ranges[i].addr - r->b->c->slots[slot].lo;
    }
    tidei_count_locked(&r->s->launches);
    status = d->ops->graph_launch(d, r->s->ds, r->built->g, r->slots, r->params, r->b->nrenewed);
    pthread_mutex_unlock(&r->built->lock);
    return tidei_submit_end(&w, status);
}

/* Each generator gave what the captured draws take. */
static void advance(const run *r) {
    const tidei_capture *c = r->b->c;
    for (unsigned i = 0; i < c->ndraws; i++) c->draws[i].generator->counter += c->draws[i].taken;
}

/* With room for all that a launch needs. */
static tide_status launch_in(run *r, unsigned char *params, tide_array **outs) {
    list_uses(r);
    r->instead = shares(r) || !serves(r) || !renew(r, params);
    if (r->instead) return TIDE_OK;
    tide_status status = make_results(r, outs);
    if (status == TIDE_OK && r->b->c->nnodes) {
        hold_outer(r);
        status = tidei_uses_return(r->s, r->uses, r->nuses, OP);
        if (status == TIDE_OK && r->b->fixed) pin_outer(r);
        if (status == TIDE_OK) status = find_built(r);
        if (status == TIDE_OK && !r->instead) status = submit(r);
    }
    r->launched = status == TIDE_OK && !r->instead;
    if (r->launched) advance(r);
    leave_built(r);
    let_go_of_outer(r);
    end_results(r, outs, r->launched);
    return status;
}

/* Makes room, and launches. Where there is no device memory for it the function is called. */
static tide_status launch(run *r, tide_array **outs) {
    const tidei_capture *c = (r->b = r->v->body)->c;
    tidei_saved_error before;
    const size_t uses = c->nslots + 1;
    size_t at[7], bytes = 0;
    const size_t sizes[7] = {r->m * sizeof *r->made,
                             uses * sizeof *r->uses,
                             uses * sizeof *r->ranges,
                             r->b->nnumbers * sizeof *r->slots,
                             r->b->nrenewed * sizeof *r->params,
                             uses * sizeof *r->use_slot,
                             r->b->params_bytes};
    for (int i = 0; i < 7; i++) {
        at[i] = bytes;
        bytes += tidei_round_up(sizes[i], 16);
    }
    char *room = tidei_scratch_host(r->g->rt, bytes);
    if (!room) return tidei_fail_host_memory(OP, bytes);
    r->made = (tidei_operand *)(void *)(room + at[0]);
    r->uses = (tidei_use *)(void *)(room + at[1]);
    r->ranges = (tidei_range *)(void *)(room + at[2]);
    r->slots = (tidei_addr *)(void *)(room + at[3]);
    r->params = (tidei_graph_params *)(void *)(room + at[4]);
    r->use_slot = (unsigned *)(void *)(room + at[5]);
    memset(r->slots, 0, sizes[3]);
    memset(outs, 0, r->m * sizeof *outs);
    tidei_error_save(&before);
    tide_status status = launch_in(r, (unsigned char *)room + at[6], outs);
    tidei_scratch_host_free(r->g->rt, room);
    if (status != TIDE_E_NOMEM) return status;
    tidei_variant_unbuild(r->g, r->v); /* the function has that memory too */
    tidei_error_restore(&before);
    r->instead = true;
    return TIDE_OK;
}

/* ---- the whole ---- */

static void count_run(tidei_task_graph *g, bool launched, bool captured) {
    pthread_mutex_lock(&g->lock);
    g->figures.runs++;
    g->figures.launches += launched;
    g->figures.captures += captured;
    pthread_mutex_unlock(&g->lock);
}

static void leave_variant(run *r) {
    if (!r->v) return;
    tidei_variant_leave(r->g, r->v);
    r->v = NULL;
}

static tide_status capture(run *r, tidei_run_way *way) {
    tidei_body *body = NULL;
    tide_status status = tidei_graph_capture(r->g, r->t, r->args, r->ops, r->n, r->m, &body);
    tidei_variant_captured(r->g, r->v, body);
    if (!body) *way = TIDEI_RUN_CALL;
    return status;
}

/* Arguments are gathered. */
static tide_status run_gathered(run *r, tide_array **outs) {
    tidei_run_way way = TIDEI_RUN_CALL;
    tide_status status = TIDE_OK;
    r->plain |= !(r->t->dev->d->info.flags & TIDEI_DEV_GRAPHS);
    if (!r->plain) {
        r->v = tidei_variant_take(r->g, r->t->dev, r->key, r->key_bytes, &way);
        if (!r->v) return tidei_last_status();
    }
    if (way == TIDEI_RUN_CAPTURE) status = capture(r, &way);
    if (status == TIDE_OK && way != TIDEI_RUN_CALL) status = launch(r, outs);
    leave_variant(r);
    if (status == TIDE_OK && !r->launched)
        status = tidei_graph_call_function(r->g, r->t, r->args, r->n, outs, r->m);
    if (status == TIDE_OK) count_run(r->g, r->launched, way == TIDEI_RUN_CAPTURE);
    return status;
}

static void leave_graph(tidei_task_graph *g) {
    pthread_mutex_lock(&g->lock);
    g->busy--;
    pthread_mutex_unlock(&g->lock);
}

/* A callback was left. What has a note of its own (operands, results, the arena) goes by that. */
static void undo_run(tidei_runtime *rt, tidei_thread *t, void *x, uintptr_t of) {
    run *r = x;
    (void)t, (void)of;
    leave_built(r);
    if (r->b) let_go_of_outer(r);
    if (r->building) tidei_variant_set_built(r->g, r->v, NULL);
    if (r->v && r->v->state == TIDEI_CAPTURING && !r->b) tidei_variant_captured(r->g, r->v, NULL);
    leave_variant(r);
    leave_graph(r->g);
    tidei_host_free(rt, r);
}

/* The run, with room for its operands and its key behind it. */
static run *new_run(tidei_task_graph *g, tidei_thread *t, const tide_arg *args, size_t n,
                    size_t m) {
    const size_t at = tidei_round_up(sizeof(run), 16);
    run *r = tidei_host_take(g->rt, at + n * (sizeof(tidei_operand) + sizeof(key_part)) +
                                        sizeof(key_head));
    if (!r) return NULL;
    memset(r, 0, sizeof *r);
    r->g = g;
    r->t = t;
    r->s = tidei_thread_stream(t);
    r->args = args;
    r->n = n;
    r->m = m;
    r->ops = (tidei_operand *)(void *)((char *)r + at);
    r->key = (unsigned char *)(r->ops + n);
    return r;
}

tide_status tidei_graph_run(tidei_task_graph *g, tidei_thread *t, const tide_arg *args, size_t n,
                            tide_array **outs, size_t m) {
    tide_array **results = ROOM(tide_array *, m);
    run *r = new_run(g, t, args, n, m);
    if (!r) {
        leave_graph(g);
        return tidei_fail_host_memory(OP, sizeof *r);
    }
    tidei_hold(t, undo_run, r, 0);
    tide_status status = gather(r);
    if (status == TIDE_OK) status = run_gathered(r, results);
    ungather(r);
    tidei_let(t, r);
    tidei_host_free(g->rt, r);
    leave_graph(g);
    if (status == TIDE_OK && m) memcpy(outs, results, m * sizeof *outs);
    return status;
}
