/* collapse.c: collapsing a call's dimensions: those that lie one after the other in all operands
** become one. */
#include "arrays/expr/ir.h"

/* Whether dimensions i and j, the next one kept after it, are one for a view. */
static bool joins(const tidei_view *v, int i, int j, int64_t length) {
    return v->strides[i] == v->strides[j] * length;
}

static void move_dim(tidei_call *c, int from, int to, bool outs) {
    c->shape[to] = c->shape[from];
    for (unsigned k = 0; k < c->prog->ninputs; k++) c->in[k].strides[to] = c->in[k].strides[from];
    for (unsigned k = 0; outs && k < c->prog->nouts; k++)
        c->out[k].strides[to] = c->out[k].strides[from];
}

/* Collapses dimensions [from, to) into those from `at` on; returns one past the last of them. outs:
** they have these dimensions too. */
static int collapse(tidei_call *c, int from, int to, int at, bool outs) {
    int first = at;
    for (int i = from; i < to; i++) {
        if (c->shape[i] == 1) continue;
        bool join = at > first;
        for (unsigned k = 0; join && k < c->prog->ninputs; k++)
            join = joins(&c->in[k], at - 1, i, c->shape[i]);
        for (unsigned k = 0; join && outs && k < c->prog->nouts; k++)
            join = joins(&c->out[k], at - 1, i, c->shape[i]);
        if (join) {
            int64_t length = c->shape[at - 1] * c->shape[i];
            move_dim(c, i, at - 1, outs);
            c->shape[at - 1] = length;
        } else
            move_dim(c, i, at++, outs);
    }
    return at;
}

void tidei_call_collapse(tidei_call *c) {
    if (c->ndim == 1 && !c->nred && c->shape[0] != 1) return; /* the common case: nothing to do */
    int kept = c->ndim - c->nred, end = collapse(c, 0, kept, 0, true);
    if (tidei_is_scan(c->prog->fold)) { /* its axis stays as it is */
        move_dim(c, kept, end, true);
        c->ndim = end + 1;
        return;
    }
    const bool outs = c->prog->nfolds != 0;
    int all = collapse(c, kept, c->ndim, end, outs);
    if (c->nred && all == end) { /* a fold has a dimension to fold */
        c->shape[all] = 1;
        for (unsigned k = 0; k < c->prog->ninputs; k++) c->in[k].strides[all] = 0;
        for (unsigned k = 0; outs && k < c->prog->nouts; k++) c->out[k].strides[all] = 0;
        all++;
    }
    c->nred = all - end;
    c->ndim = all;
}
