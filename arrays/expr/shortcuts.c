/* shortcuts.c: calls whose operands lie as an earlier call's did, and that came to one launch.
**
** Model: what a launch is made of (kernel, grid, parameters but for addresses, which bytes of which
** operand it uses) depends on the plan, the device and the operands' layouts alone, where the plan
** has no numbers of the call. The first such call goes the whole way, and a listener (ir.h) writes
** down what it queued; the plan keeps that with the layouts. Later calls compare layouts, make the
** results and queue. A plan has few shortcuts, and keeps them: looking for one takes no lock.
** What must stay true: a shortcut is kept only if its call queued nothing else, read operands alone
** and wrote each result; whatever else decides what is queued has to be part of the key. */
#include "arrays/expr/run.h"
#include "runtime/base/uncancelled.h"

/* A plan's, with the calls that taught none: what comes to several launches does so each time.
** Calls of further layouts go the whole way. Who finds none has compared them all. Threads that
** learn at once may be beyond it by one each. */
#define SHORTCUTS_MOST 8

typedef struct operand_use {
    size_t offset, bytes;
    unsigned mode;
    unsigned of; /* an argument, or TIDEI_SOURCE_STORED and a result */
} operand_use;

struct tidei_shortcut {
    tidei_shortcut *next;
    unsigned dev, nargs, nresults, nuses;
    tidei_launch launch;     /* its params lie behind the uses */
    const tidei_layout *lay; /* the arguments', the results'; behind this struct */
    const operand_use *uses; /* behind the layouts */
};

/* ---- taking one ---- */

static bool lies_as(const tidei_layout *a, const tidei_layout *b) {
    return a->ndim == b->ndim && a->offset == b->offset &&
           tidei_same_dims(a->ndim, a->shape, b->shape) &&
           tidei_same_dims(a->ndim, a->strides, b->strides);
}

static bool fits(const tidei_shortcut *x, const tidei_run *r) {
    if (x->dev != r->stream->dev->index) return false;
    for (unsigned i = 0; i < x->nargs; i++)
        if (!lies_as(&x->lay[i], &r->arg[i].lay)) return false;
    return true;
}

/* Destinations may be read under; a graph's run computes numbers anew; axes are the call's. */
static bool may_be_short(const tidei_run *r) {
    return !r->dsts && !r->call && !r->given && !r->plan->graph.nslots &&
           r->used == (UINT64_C(1) << r->ast->nparams) - 1;
}

const tidei_shortcut *tidei_shortcut_find(tidei_run *r, tidei_lesson *lesson) {
    if (!may_be_short(r)) return NULL;
    unsigned n = atomic_load_explicit(&r->plan->no_shortcuts, memory_order_relaxed);
    const tidei_shortcut *x = atomic_load_explicit(&r->plan->shortcuts, memory_order_acquire);
    for (; x && !fits(x, r); x = x->next) n++;
    if (tidei_unlikely(!x && n < SHORTCUTS_MOST) && tidei_backend_of(r->stream->dev)->run_heard) {
        *lesson = (tidei_lesson){.r = r};
        r->lesson = lesson;
    }
    return x;
}

tide_status tidei_shortcut_take(tidei_run *r, const tidei_shortcut *x) {
    TIDEI_UNCANCELLED; /* once, for the collector's cells and the driver's calls */
    for (unsigned i = 0; i < x->nresults; i++) {
        r->made[i] = tidei_array_make_as(r->t, &x->lay[x->nargs + i], r->op, &r->out[i]);
        if (!r->made[i]) return tidei_last_status();
        r->out_held |= 1u << i;
    }
    tidei_use *uses = __builtin_alloca(x->nuses * sizeof *uses);
    for (unsigned i = 0; i < x->nuses; i++) {
        const operand_use *u = &x->uses[i];
        const tidei_operand *o =
            u->of < TIDEI_SOURCE_STORED ? &r->arg[u->of] : &r->out[u->of - TIDEI_SOURCE_STORED];
        uses[i] = (tidei_use){o->st, u->offset, u->bytes, u->mode};
    }
    tidei_launch l = x->launch;
    void *params = __builtin_alloca(l.params_bytes);
    memcpy(params, l.params, l.params_bytes);
    l.params = params;
    return tidei_submit_launch(r->stream, uses, x->nuses, &l, params, NULL, r->op);
}

/* ---- learning one ---- */

/* Which operand use i of the call is of; false: of none that a later call has too. */
static bool operand_of(const tidei_run *r, const tidei_call *c, const tidei_use *u, unsigned i,
                       unsigned *of) {
    if (i < c->prog->ninputs) return (*of = c->pass->in[i]) < TIDEI_SOURCE_STORED;
    for (unsigned k = 0; k < r->ast->nresults; k++)
        if (r->out_held >> k & 1 && r->out[k].st == u->st)
            return *of = TIDEI_SOURCE_STORED + k, true;
    return false;
}

/* The uses of a launch as a later call has them; returns the results (bits) that it writes, 0: it
** uses something else. */
static unsigned learn_uses(const tidei_run *r, const tidei_call *c, const tidei_use *uses,
                           unsigned n, operand_use *out) {
    unsigned written = 0;
    if (n != (unsigned)c->prog->ninputs + c->prog->nouts) return 0;
    for (unsigned i = 0; i < n; i++) {
        out[i] = (operand_use){uses[i].offset, uses[i].bytes, uses[i].mode, 0};
        if (!operand_of(r, c, &uses[i], i, &out[i].of)) return 0;
        if (out[i].of >= TIDEI_SOURCE_STORED) written |= 1u << (out[i].of - TIDEI_SOURCE_STORED);
    }
    return written;
}

/* NULL: it is none, or there is no host memory. */
static tidei_shortcut *learn(const tidei_run *r, const tidei_call *c, const tidei_launch *l,
                             const tidei_use *uses, const size_t *origin, unsigned n) {
    const unsigned nargs = r->ast->nparams, nresults = r->ast->nresults;
    const size_t lays = (nargs + nresults) * sizeof(tidei_layout),
                 of_uses = n * sizeof(operand_use);
    tidei_shortcut *x = tidei_host_alloc(r->rt, sizeof *x + lays + of_uses + l->params_bytes);
    if (!x) return NULL;
    tidei_layout *lay = (tidei_layout *)(x + 1);
    operand_use *learnt = (operand_use *)(void *)((char *)lay + lays);
    char *params = (char *)learnt + of_uses;
    *x = (tidei_shortcut){NULL, r->stream->dev->index, nargs, nresults, n, *l, lay, learnt};
    if (learn_uses(r, c, uses, n, learnt) != (1u << nresults) - 1) {
        tidei_host_free(r->rt, x);
        return NULL;
    }
    for (unsigned i = 0; i < nargs; i++) lay[i] = r->arg[i].lay;
    for (unsigned i = 0; i < nresults; i++) lay[nargs + i] = r->out[i].lay;
    memcpy(params, l->params, l->params_bytes);
    memcpy(params, origin, n * sizeof *origin); /* in place of the addresses */
    x->launch.params = params;
    x->launch.ranges = NULL;
    x->launch.nranges = 0;
    return x;
}

static void forget(tidei_lesson *x) {
    if (!x->made) return;
    tidei_let(x->r->t, x->made);
    tidei_host_free(x->r->rt, x->made);
    x->made = NULL;
}

static void heard(tidei_listener *listener, const tidei_launch *l, const tidei_use *uses,
                  const size_t *origin, unsigned n) {
    tidei_lesson *x = (tidei_lesson *)listener;
    if (x->launches++ || x->calls != 1 || !x->call->pass) return forget(x);
    x->made = learn(x->r, x->call, l, uses, origin, n);
    if (x->made) tidei_hold(x->r->t, tidei_undo_host, x->made, 0);
}

tide_status tidei_shortcut_run(tidei_lesson *x, tidei_call *c) {
    const tidei_run *r = x->r;
    if (x->calls++) forget(x);
    x->listener.heard = heard;
    x->call = c;
    return tidei_backend_of(r->stream->dev)->run_heard(r->stream, c, r->op, &x->listener);
}

void tidei_shortcut_learnt(tidei_lesson *x, bool whole) {
    if (!whole) return forget(x);
    if (!x->made) {
        atomic_fetch_add_explicit(&x->r->plan->no_shortcuts, 1, memory_order_relaxed);
        return;
    }
    _Atomic(tidei_shortcut *) *head = &x->r->plan->shortcuts;
    tidei_let(x->r->t, x->made);
    x->made->next = atomic_load_explicit(head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(head, &x->made->next, x->made,
                                                  memory_order_release, memory_order_relaxed)) {}
}

void tidei_shortcuts_free(tidei_runtime *rt, tidei_plan *p) {
    for (tidei_shortcut *x = atomic_load(&p->shortcuts), *next; x; x = next) {
        next = x->next;
        tidei_host_free(rt, x);
    }
}
