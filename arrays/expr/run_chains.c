/* run_chains.c: a chain of the plan as one call, where the shapes permit.
**
** Model: all folds of the chain have bodies of one shape, the *space*, and fold the same dimensions of
** it; each result has the space's shape (an element each) or that of the folds (one a row, with its
** folded dimensions or without). In the call's order of dimensions, kept ones before folded ones,
** every input has one view, whichever passes read it; else it is no chain, as where a fold without
** keepdims meets another dimension than its own. The back end is asked before anything is placed.
** What must stay true: where the answer is no, nothing has been done, and what would have failed fails
** in the passes. */
#include "arrays/expr/run.h"

/* How the dimensions of a pass stand to the space's. */
typedef enum { ALL, ROWS_KEEPING, ROWS, OTHER } place;

typedef struct space {
    tidei_shape all, keeping, rows; /* the space; a fold's shape, with and without keepdims */
    unsigned folded;                /* dimensions (bits) */
    int kept, order[TIDE_MAX_RANK];
    uint64_t keepdims; /* members (bits) whose shape is `keeping` */
    /* results are what they are; of members: that of their value */
    place results[TIDE_MAX_RESULTS];
} space;

static bool same(const tidei_shape *a, const tidei_shape *b) {
    return tidei_shape_is(a, b->ndim, b->dim);
}

/* Whether all members among the sources of a pass over ALL or ROWS_KEEPING lie along their own
** dimensions: without keepdims they count from the last one. */
static bool lie_right(const space *sp, const tidei_chain *ch, const uint8_t *sources, unsigned n) {
    const unsigned nfolded = (unsigned)(sp->all.ndim - sp->kept);
    if (!sp->kept || sp->folded == (1u << nfolded) - 1) return true;
    for (unsigned i = 0; i < n; i++)
        if (sources[i] >= TIDEI_SOURCE_STORED) {
            const unsigned k = sources[i] - TIDEI_SOURCE_STORED;
            if (ch->members >> k & 1 && !(sp->keepdims >> k & 1)) return false;
        }
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
    if (!lie_right(sp, ch, v->pass.in, v->pass.prog->ninputs)) return false;
    if (keepdims) sp->keepdims |= (uint64_t)1 << k;
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
           (p == ROWS || lie_right(sp, ch, sources, n));
}

static bool find_space(tidei_run *r, const tidei_chain *ch, space *sp) {
    sp->keepdims = 0;
    for (unsigned k = 0; k <= ch->last; k++)
        if (ch->members >> k & 1 && !look_at_member(r, ch, k, sp)) return false;
    for (unsigned i = 0; i < r->ast->nresults; i++)
        if (ch->results >> i & 1 && !look_at_result(r, ch, i, sp)) return false;
    return true;
}

/* ---- the call ---- */

/* Strides over the dimensions of a pass, in the call's order. */
static void put_strides(const space *sp, place p, const int64_t *from, int64_t *to) {
    for (int d = 0; d < sp->all.ndim; d++) {
        if (d >= sp->kept)
            to[d] = p == ALL ? from[sp->order[d]] : 0;
        else
            to[d] = from[p == ROWS ? d : sp->order[d]];
    }
}

/* The view of every input that a pass reads; false where another pass has another one of it. */
static bool add_inputs(const tidei_run *r, const tidei_chain *ch, const space *sp, place p,
                       const uint8_t *sources, unsigned n, uint32_t *seen, tidei_call *c) {
    const tidei_shape *s = p == ALL ? &sp->all : p == ROWS ? &sp->rows : &sp->keeping;
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < ch->pass.prog->ninputs; k++) {
            const tidei_operand *o = tidei_run_source(r, sources[i]);
            int64_t own[TIDE_MAX_RANK], strides[TIDE_MAX_RANK];
            if (ch->pass.in[k] != sources[i]) continue;
            tidei_broadcast_strides(&o->lay, s->ndim, s->dim, own);
            put_strides(sp, p, own, strides);
            const size_t bytes = (size_t)sp->all.ndim * sizeof *strides;
            if (*seen >> k & 1) {
                if (memcmp(c->in[k].strides, strides, bytes) != 0) return false;
                continue;
            }
            *seen |= 1u << k;
            c->in[k].st = o->st;
            c->in[k].offset = o->lay.offset;
            memcpy(c->in[k].strides, strides, bytes);
        }
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
    o.p = o.stored < 0 ? sp->results[what] : sp->keepdims >> o.stored & 1 ? ROWS_KEEPING : ROWS;
    return o;
}

static const tidei_shape *shape_of(const space *sp, place p) {
    return p == ALL ? &sp->all : p == ROWS ? &sp->rows : &sp->keeping;
}

/* The layout that the out will have unless it has to be a temporary: then it has this one, or a new
** array's. */
static bool expect(const tidei_run *r, const space *sp, const out *o, tide_dtype t,
                   tidei_layout *lay) {
    const tidei_shape *s = shape_of(sp, o->p);
    if (o->result >= 0 && r->dsts) {
        *lay = r->dst[o->result].lay;
        return tidei_shape_is(s, lay->ndim, lay->shape);
    }
    return tidei_layout_make(t, s->ndim, s->dim, r->op, lay) == TIDE_OK;
}

static void put_out(const space *sp, const out *o, const tidei_layout *lay, tidei_view *v) {
    v->st = NULL;
    v->offset = lay->offset;
    put_strides(sp, o->p, lay->strides, v->strides);
}

/* All of a call but where the outs lie, which is as expected. */
static bool make_call(const tidei_run *r, const tidei_chain *ch, const space *sp, tidei_call *c) {
    c->prog = ch->pass.prog;
    c->ndim = sp->all.ndim;
    c->nred = c->ndim - sp->kept;
    for (int d = 0; d < c->ndim; d++) c->shape[d] = sp->all.dim[sp->order[d]];
    if (!add_all_inputs(r, ch, sp, c)) return false;
    for (unsigned j = 0; j < c->prog->nouts; j++) {
        const out o = out_of(r, ch, sp, j);
        tidei_layout lay;
        if (!expect(r, sp, &o, c->prog->out_dtype[j], &lay)) return false;
        put_out(sp, &o, &lay, &c->out[j]);
    }
    return true;
}

/* Places out j, and tells the call; *moved: it does not lie as expected. Only a result with all
** elements may be written over what is read: it has the very elements of that, row by row. */
static tide_status place_out(tidei_run *r, const tidei_chain *ch, const space *sp, unsigned j,
                             tidei_call *c, bool *moved) {
    const out o = out_of(r, ch, sp, j);
    const bool over = ch->whole && o.p == ALL;
    tidei_layout lay;
    const bool known = expect(r, sp, &o, c->prog->out_dtype[j], &lay);
    tide_status s = o.stored >= 0
                        ? tidei_run_place_stored(r, (unsigned)o.stored, shape_of(sp, o.p), over)
                        : tidei_run_place_result(r, (unsigned)o.result, shape_of(sp, o.p), over);
    if (s != TIDE_OK) return s;
    const tidei_operand *at = o.stored >= 0 ? &r->stored[o.stored] : &r->out[o.result];
    *moved |= !known || !tidei_layout_same(&lay, &at->lay);
    c->out[j].st = at->st;
    return TIDE_OK;
}

/* The call again, over what the outs are. */
static void put_outs(const tidei_run *r, const tidei_chain *ch, const space *sp, tidei_call *c) {
    make_call(r, ch, sp, c);
    for (unsigned j = 0; j < c->prog->nouts; j++) {
        const out o = out_of(r, ch, sp, j);
        const tidei_operand *at = o.stored >= 0 ? &r->stored[o.stored] : &r->out[o.result];
        put_out(sp, &o, &at->lay, &c->out[j]);
        c->out[j].st = at->st;
    }
}

TIDEI_OWN_FRAME tide_status tidei_run_chain(tidei_run *r, const tidei_chain *ch, bool *done) {
    const tidei_backend *b = tidei_backend_of(r->stream->dev);
    space sp;
    tidei_call c;
    bool moved = false;
    *done =
        b->suits && find_space(r, ch, &sp) && make_call(r, ch, &sp, &c) && b->suits(r->stream, &c);
    if (!*done) return TIDE_OK;
    tide_status s = tidei_run_encode_scalars(r, &ch->pass, &sp.all, sp.order, &c);
    for (unsigned j = 0; j < ch->pass.prog->nouts && s == TIDE_OK; j++)
        s = place_out(r, ch, &sp, j, &c, &moved);
    if (s != TIDE_OK) return s;
    if (moved) put_outs(r, ch, &sp, &c);
    r->chained |= ch->results;
    return tidei_run_submit(r, &c);
}
