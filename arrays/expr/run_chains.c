/* run_chains.c: a chain of the plan as one call, where the shapes permit.
**
** Model: all folds of the chain have bodies of one shape, the *space*, and fold the same dimensions
** of it; each result has the space's shape (an element each) or that of the folds (one a row, with
** its folded dimensions or without). In the call's order of dimensions, kept ones before folded
** ones, every input has one view, whichever passes read it; else it is no chain, as where a fold
** without keepdims meets another dimension than its own. The back end is asked before anything is
** placed.
** What must stay true: where the answer is no, nothing has been queued or placed (a kernel may have
** been made, to ask whether the device takes it); what would have failed fails in the passes. */
#include "arrays/expr/run.h"

/* How the dimensions of a pass stand to the space's. */
typedef enum { ALL, ROWS_KEEPING, ROWS, OTHER } place;

typedef struct space {
    tidei_shape all, keeping, rows; /* the space; a fold's shape, with and without keepdims */
    unsigned folded;                /* dimensions (bits) */
    int kept, order[TIDE_MAX_RANK];
    uint64_t without; /* members (bits) whose shape is `rows`; others': `keeping` */
    /* results are what they are; of members: that of their value */
    place results[TIDE_MAX_RESULTS];
} space;

static bool same(const tidei_shape *a, const tidei_shape *b) {
    return tidei_shape_is(a, b->ndim, b->dim);
}

/* Whether all members among the sources of a pass over ALL or ROWS_KEEPING lie along their own
** dimensions: without keepdims they count from the last one. */
static bool lie_right(const space *sp, const uint8_t *sources, unsigned n) {
    const unsigned nfolded = (unsigned)(sp->all.ndim - sp->kept);
    if (!sp->without || !sp->kept || sp->folded == (1u << nfolded) - 1) return true;
    for (unsigned i = 0; i < n; i++)
        if (sources[i] >= TIDEI_SOURCE_STORED &&
            sp->without >> (sources[i] - TIDEI_SOURCE_STORED) & 1)
            return false;
    return true;
}

/* Looks at member k, whose shape those that read it want to know. */
static bool look_at_member(tidei_run *r, const tidei_chain *ch, unsigned k, space *sp) {
    const tidei_stored *v = &r->plan->stored[k];
    const bool first = k == (unsigned)__builtin_ctzll(ch->members);
    tidei_shape body;
    unsigned folded;
    bool keepdims;
    if (tidei_run_broadcast(r, v->pass.in, v->pass.prog->ninputs, &body) != TIDE_OK || !body.ndim ||
        !tidei_shape_elements(&body) ||
        tidei_run_fold_axes(r, v, body.ndim, &folded, &keepdims) != TIDE_OK)
        return false;
    if (first) {
        sp->all = body;
        sp->folded = folded;
        sp->kept = tidei_run_fold_order(body.ndim, folded, sp->order);
        tidei_run_fold_shape(&body, folded, true, &sp->keeping);
        tidei_run_fold_shape(&body, folded, false, &sp->rows);
    } else if (!same(&body, &sp->all) || folded != sp->folded)
        return false;
    if (!lie_right(sp, v->pass.in, v->pass.prog->ninputs)) return false;
    if (!keepdims) sp->without |= (uint64_t)1 << k;
    const tidei_shape *s = keepdims ? &sp->keeping : &sp->rows;
    r->stored[k].lay.ndim = s->ndim;
    memcpy(r->stored[k].lay.shape, s->dim, (size_t)s->ndim * sizeof *s->dim);
    return true;
}

static bool look_at_result(const tidei_run *r, const tidei_chain *ch, unsigned i, space *sp) {
    const uint8_t *sources = r->plan->results[i].sources;
    const unsigned n = r->plan->results[i].nsources;
    tidei_shape s;
    if (tidei_run_broadcast(r, sources, n, &s) != TIDE_OK) return false;
    place p = same(&s, &sp->all)       ? ALL
              : same(&s, &sp->keeping) ? ROWS_KEEPING
              : same(&s, &sp->rows)    ? ROWS
                                       : OTHER;
    sp->results[i] = p;
    return p != OTHER && (p == ALL || !(ch->positions >> i & 1)) &&
           (p == ROWS || lie_right(sp, sources, n));
}

static bool find_space(tidei_run *r, const tidei_chain *ch, space *sp) {
    sp->without = 0;
    for (unsigned k = 0; k <= ch->last; k++)
        if (ch->members >> k & 1 && !look_at_member(r, ch, k, sp)) return false;
    for (unsigned i = 0; i < r->ast->nresults; i++)
        if (ch->results >> i & 1 && !look_at_result(r, ch, i, sp)) return false;
    return true;
}

/* ---- the call ---- */

static const tidei_shape *shape_of(const space *sp, place p) {
    return p == ALL ? &sp->all : p == ROWS ? &sp->rows : &sp->keeping;
}

/* Strides over the dimensions of a pass, in the call's order. */
static void put_strides(const space *sp, place p, const int64_t *from, int64_t *to) {
    for (int d = 0; d < sp->all.ndim; d++) {
        if (d >= sp->kept)
            to[d] = p == ALL ? from[sp->order[d]] : 0;
        else
            to[d] = from[p == ROWS ? d : sp->order[d]];
    }
}

static bool same_strides(int n, const int64_t *a, const int64_t *b) {
    for (int d = 0; d < n; d++)
        if (a[d] != b[d]) return false;
    return true;
}

/* The view of input k, which a pass reads; false where another pass has another one of it. */
static bool add_input(const tidei_run *r, const tidei_chain *ch, const space *sp, place p,
                      unsigned k, uint32_t *seen, tidei_call *c) {
    const tidei_operand *o = tidei_run_source(r, ch->pass.in[k]);
    const tidei_shape *s = shape_of(sp, p);
    int64_t own[TIDE_MAX_RANK], strides[TIDE_MAX_RANK];
    const bool again = *seen >> k & 1;
    tidei_broadcast_strides(&o->lay, s->ndim, s->dim, own);
    put_strides(sp, p, own, again ? strides : c->in[k].strides);
    if (again) return same_strides(sp->all.ndim, strides, c->in[k].strides);
    *seen |= 1u << k;
    c->in[k].st = o->st;
    c->in[k].offset = o->lay.offset;
    return true;
}

static bool add_inputs(const tidei_run *r, const tidei_chain *ch, const space *sp, place p,
                       const uint8_t *sources, unsigned n, uint32_t *seen, tidei_call *c) {
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < ch->pass.prog->ninputs; k++)
            if (ch->pass.in[k] == sources[i] && !add_input(r, ch, sp, p, k, seen, c)) return false;
    return true;
}

static bool add_all_inputs(const tidei_run *r, const tidei_chain *ch, const space *sp,
                           tidei_call *c) {
    const tidei_plan *p = r->plan;
    uint32_t seen = 0;
    for (unsigned k = 0; k <= ch->last; k++)
        if (ch->members >> k & 1 && !add_inputs(r, ch, sp, ALL, p->stored[k].pass.in,
                                                p->stored[k].pass.prog->ninputs, &seen, c))
            return false;
    for (unsigned i = 0; i < r->ast->nresults; i++)
        if (ch->results >> i & 1 && !add_inputs(r, ch, sp, sp->results[i], p->results[i].sources,
                                                p->results[i].nsources, &seen, c))
            return false;
    return true;
}

/* What out j is: a result (-1: none), a stored value (-1: none). */
typedef struct out {
    int result, stored;
    place p;
} out;

static out out_of(const tidei_run *r, const tidei_chain *ch, const space *sp, unsigned j) {
    const uint8_t what = ch->outs[j];
    out o = {.result = -1, .stored = -1};
    if (what >= TIDE_MAX_RESULTS)
        o.stored = what - TIDE_MAX_RESULTS;
    else if (r->plan->results[what].is_stored)
        while (r->plan->stored[++o.stored].result != what) {}
    if (what < TIDE_MAX_RESULTS) o.result = what;
    o.p = o.stored < 0 ? sp->results[what] : sp->without >> o.stored & 1 ? ROWS : ROWS_KEEPING;
    return o;
}

/* Only a result with all elements may be written over what is read: it has the very elements of
** that, row by row. */
static bool goes_over(const tidei_chain *ch, const out *o) { return ch->whole && o->p == ALL; }

/* Where the out will lie: in its destination, or in a new array. */
static bool expect(const tidei_run *r, const tidei_chain *ch, const space *sp, const out *o,
                   tidei_view *v) {
    const tidei_shape *s = shape_of(sp, o->p);
    int64_t strides[TIDE_MAX_RANK], step = 1;
    const tidei_layout *dst = o->result >= 0 && r->dsts ? &r->dst[o->result].lay : NULL;
    if (dst && !tidei_shape_is(s, dst->ndim, dst->shape)) return false;
    if (dst && tidei_run_is_read_under(r, (unsigned)o->result, goes_over(ch, o))) dst = NULL;
    for (int d = s->ndim - 1; d >= 0; step *= s->dim[d--]) strides[d] = step;
    v->offset = dst ? dst->offset : 0;
    put_strides(sp, o->p, dst ? dst->strides : strides, v->strides);
    return true;
}

/* All of a call but the outs' storages. */
static bool make_call(const tidei_run *r, const tidei_chain *ch, const space *sp, tidei_call *c) {
    c->prog = ch->pass.prog;
    c->ndim = sp->all.ndim;
    c->nred = c->ndim - sp->kept;
    for (int d = 0; d < c->ndim; d++) c->shape[d] = sp->all.dim[sp->order[d]];
    if (!add_all_inputs(r, ch, sp, c)) return false;
    for (unsigned j = 0; j < c->prog->nouts; j++) {
        const out o = out_of(r, ch, sp, j);
        if (!expect(r, ch, sp, &o, &c->out[j])) return false;
    }
    return true;
}

static tide_status place_out(tidei_run *r, const tidei_chain *ch, const space *sp, unsigned j,
                             tidei_call *c) {
    const out o = out_of(r, ch, sp, j);
    const tidei_shape *s = shape_of(sp, o.p);
    const bool over = goes_over(ch, &o);
    tide_status status = o.stored >= 0 ? tidei_run_place_stored(r, (unsigned)o.stored, s, over)
                                       : tidei_run_place_result(r, (unsigned)o.result, s, over);
    const tidei_operand *at = o.stored >= 0 ? &r->stored[o.stored] : &r->out[o.result];
    tidei_check(status != TIDE_OK || at->lay.offset == c->out[j].offset);
    c->out[j].st = at->st;
    return status;
}

TIDEI_OWN_FRAME tide_status tidei_run_chain(tidei_run *r, const tidei_chain *ch, bool *done) {
    const tidei_backend *b = tidei_backend_of(r->stream->dev);
    space sp;
    tidei_call c;
    *done =
        b->suits && find_space(r, ch, &sp) && make_call(r, ch, &sp, &c) && b->suits(r->stream, &c);
    if (!*done) return TIDE_OK;
    tide_status s = tidei_run_encode_scalars(r, &ch->pass, &sp.all, sp.order, &c);
    for (unsigned j = 0; j < ch->pass.prog->nouts && s == TIDE_OK; j++)
        s = place_out(r, ch, &sp, j, &c);
    if (s != TIDE_OK) return s;
    r->chained |= ch->results;
    return tidei_run_submit(r, &c);
}
