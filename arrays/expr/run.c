/* run.c: a plan over operands: numbers encoded, shapes inferred, results and temporaries made,
** calls built and run.
**
** Operands are held from the first step to the last. Passes run in the plan's order on the caller's
** current stream; a temporary is let go of as soon as the last pass that reads it is submitted, for
** the stream's order keeps its memory until that pass is done. Once plan and programs exist nothing
** here takes a lock or looks at text, nor allocates host memory but for shortcuts that are learnt.
** Frames are no larger than the expression needs: the parts that a frame does not overwrite hold
** addresses of arrays from earlier calls, and a collector that scans the stack would keep those
** alive (35 KiB, most of it untouched, kept one array of a loop). Destinations: a pass writes
** straight into one if that overwrites nothing that is still to be read, else into a temporary that
** is copied at the end, in the order of the results. Nothing is written while an operand or a
** number may still be refused: where there are several passes they are rehearsed first. */
#include "arrays/expr/copy.h"
#include "arrays/expr/run.h"
#include "arrays/scan/scan.h"

/* Room for n elements on the caller's frame; all n are bounded by constants, 35 KiB together. */
#define ROOM(type, n) ((type *)__builtin_alloca((n) * sizeof(type)))
tide_status tidei_run_broadcast(const tidei_run *r, const uint8_t *sources, unsigned n,
                                tidei_shape *out) {
    tide_status s = TIDE_OK;
    out->ndim = 0;
    if (n) {
        const tidei_layout *l = &tidei_run_source(r, sources[0])->lay;
        out->ndim = l->ndim;
        for (int d = 0; d < l->ndim; d++) out->dim[d] = l->shape[d];
    }
    for (unsigned i = 1; i < n && s == TIDE_OK; i++)
        s = tidei_broadcast(&out->ndim, out->dim, &tidei_run_source(r, sources[i])->lay, r->op);
    return s;
}

/* ---- numbers ---- */

static tide_status compute_number(tidei_run *r, const tidei_weak *w, tide_arg *out) {
    switch (tidei_number_compute(r->plan->graph.weaks, w, r->args, r->numbers, out)) {
    case TIDEI_NUMBER_TOO_LARGE:
        return tidei_ast_fail(r->ast, w->at, TIDE_E_DTYPE,
                              "numbers compute as i64, which one of these does not fit");
    case TIDEI_NUMBER_NO_POWER:
        return tidei_ast_fail(r->ast, w->at, TIDE_E_DTYPE,
                              "integers have no power %lld: make the base a float",
                              (long long)out->value.i);
    default: return TIDE_OK;
    }
}

static tide_status compute_numbers(tidei_run *r) {
    const tidei_graph *g = &r->plan->graph;
    tide_status s = TIDE_OK;
    for (uint32_t i = 0; i < g->nweaks && s == TIDE_OK; i++)
        if (!g->weaks[i].constant)
            s = compute_number(r, &g->weaks[i], &r->numbers[g->weaks[i].slot]);
    return s;
}

static tide_status fail_index(const tidei_run *r, uint16_t a, tide_status s) {
    const tidei_graph *g = &r->plan->graph;
    uint32_t i = 0;
    while (g->nodes[i].op != TIDEI_OP_SCALAR || g->nodes[i].a != a) i++;
    return tidei_ast_fail(r->ast, g->nodes[i].at, s, "%s", tide_error_last()->message);
}

/* What a SCALAR of a shape stands for, in a pass over s whose dimensions come in this order (NULL:
** in their own). */
static tide_status encode_of_shape(const tidei_run *r, uint16_t a, const tidei_shape *s,
                                   const int *order, unsigned char *out) {
    const bool step = a >= TIDEI_AXIS_STEP;
    int64_t v = 1;
    int i;
    tide_status status = tidei_axis(
        a - (step ? TIDEI_AXIS_STEP : TIDEI_AXIS_LENGTH) - TIDE_MAX_RANK, s->ndim, r->op, &i);
    if (status != TIDE_OK) return fail_index(r, a, status);
    if (!step) v = s->dim[i];
    for (int k = s->ndim - 1; step && (order ? order[k] : k) != i; k--)
        v *= s->dim[order ? order[k] : k];
    memcpy(out, &v, sizeof v);
    return TIDE_OK;
}

tide_status tidei_run_encode_scalars(const tidei_run *r, const tidei_pass *pass,
                                     const tidei_shape *s, const int *order, tidei_call *c) {
    c->pass = pass;
    memcpy(c->scalars, pass->values, pass->prog->nscalars * sizeof *c->scalars);
    for (unsigned i = 0; i < pass->prog->nscalars; i++) {
        tide_status status;
        if (pass->scalar[i] >= TIDEI_AXIS_LENGTH) {
            status = encode_of_shape(r, pass->scalar[i], s, order, c->scalars[i]);
            if (status != TIDE_OK) return status;
            continue;
        }
        const tidei_weak *w = &r->plan->graph.weaks[pass->scalar[i]];
        if (w->constant) continue;
        status =
            tidei_encode(r->numbers[w->slot], pass->prog->scalar_dtype[i], r->op, c->scalars[i]);
        if (status != TIDE_OK)
            return tidei_ast_fail(r->ast, w->at, status, "%s", tide_error_last()->message);
    }
    return TIDE_OK;
}

static TIDEI_OWN_FRAME tide_status try_scalars(const tidei_run *r, const tidei_pass *pass,
                                               const tidei_shape *s) {
    tidei_call c;
    return tidei_run_encode_scalars(r, pass, s, NULL, &c);
}

/* ---- calls ---- */

/* The nodes of a call with numbers of a graph's run have them computed again at each run. */
static TIDEI_OWN_FRAME tide_status submit_numbers(const tidei_run *r, tidei_call *c) {
    const tidei_pass *pass = c->pass;
    const unsigned from = tidei_numbers_from(r->rt);
    tide_status s = tidei_backend_of(r->stream->dev)->run(r->stream, c, r->op);
    return s == TIDE_OK
               ? tidei_numbers_keep(r->rt, from, r->plan, pass, r->as_given, r->ast->nparams, r->op)
               : s;
}

tide_status tidei_run_submit(const tidei_run *r, tidei_call *c) {
    if (tidei_unlikely(r->of_run)) return submit_numbers(r, c);
    if (tidei_unlikely(r->lesson)) return tidei_shortcut_run(r->lesson, c);
    return tidei_backend_of(r->stream->dev)->run(r->stream, c, r->op);
}

static tide_status submit(const tidei_run *r, tidei_call *c) {
    tidei_call_collapse(c);
    return tidei_run_submit(r, c);
}

static void put_view(tidei_view *v, const tidei_operand *o) {
    v->st = o->st;
    v->offset = o->lay.offset;
    memcpy(v->strides, o->lay.strides, sizeof v->strides);
}

/* A pass over the shape s; outs[i] has that very shape. Nothing to do where it is empty. */
static tide_status run_map(const tidei_run *r, const tidei_pass *pass, const tidei_shape *s,
                           const tidei_operand *const *outs) {
    tidei_call c;
    c.prog = pass->prog;
    c.ndim = s->ndim;
    c.nred = 0;
    memcpy(c.shape, s->dim, sizeof c.shape);
    if (!tidei_shape_elements(s)) return TIDE_OK;
    for (unsigned i = 0; i < pass->prog->ninputs; i++) {
        const tidei_operand *o = tidei_run_source(r, pass->in[i]);
        c.in[i].st = o->st;
        c.in[i].offset = o->lay.offset;
        tidei_broadcast_strides(&o->lay, s->ndim, s->dim, c.in[i].strides);
    }
    for (unsigned i = 0; i < pass->prog->nouts; i++) put_view(&c.out[i], outs[i]);
    tide_status status = tidei_run_encode_scalars(r, pass, s, NULL, &c);
    return status == TIDE_OK ? submit(r, &c) : status;
}

/* Fills out with one value: the result of a fold over nothing. */
static tide_status fill(const tidei_run *r, tide_arg v, const tidei_operand *out) {
    tidei_program p = {.nnodes = 1, .nscalars = 1, .nouts = 1};
    uint8_t t = (uint8_t)out->lay.dtype;
    tidei_call c;
    p.nodes[0] = (tidei_node){.op = TIDEI_OP_SCALAR, .dtype = t};
    p.scalar_dtype[0] = p.out_dtype[0] = t;
    c.prog = tidei_program_shared(r->rt, &p);
    if (!c.prog) return tidei_fail_host_memory(r->op, sizeof p);
    c.pass = NULL;
    c.ndim = out->lay.ndim;
    c.nred = 0;
    memcpy(c.shape, out->lay.shape, sizeof c.shape);
    put_view(&c.out[0], out);
    tide_status s = tidei_encode(v, t, r->op, c.scalars[0]);
    return s == TIDE_OK ? submit(r, &c) : s;
}

/* ---- folds ---- */

static tide_status fold_axis(const tidei_run *r, const tidei_stored *v, int axis, int ndim,
                             unsigned *folded) {
    uint32_t at = r->plan->graph.nodes[v->node].at;
    int i;
    tide_status s = tidei_axis(axis, ndim, r->op, &i);
    if (s != TIDE_OK) return tidei_ast_fail(r->ast, at, s, "%s", tide_error_last()->message);
    if (*folded >> i & 1)
        return tidei_ast_fail(r->ast, at, TIDE_E_SHAPE, "axis %d stands twice", i);
    *folded |= 1u << i;
    return TIDE_OK;
}

tide_status tidei_run_fold_axes(const tidei_run *r, const tidei_stored *v, int ndim,
                                unsigned *folded, bool *keepdims) {
    const tidei_axes *x = &r->ast->folds[v->axes];
    tide_status s = TIDE_OK;
    *folded = 0;
    *keepdims = x->keepdims;
    if (x->n >= 0) {
        for (int i = 0; i < x->n && s == TIDE_OK; i++)
            s = fold_axis(r, v, x->axis[i], ndim, folded);
        return s;
    }
    if (x->n == TIDEI_AXES_GIVEN) {
        *keepdims = r->given->keepdims != 0;
        if (r->given->axes) {
            for (int i = 0; i < r->given->n && s == TIDE_OK; i++)
                s = fold_axis(r, v, r->given->axes[i], ndim, folded);
            return s;
        }
    }
    *folded = (1u << ndim) - 1;
    return TIDE_OK;
}

void tidei_run_fold_shape(const tidei_shape *body, unsigned folded, bool keepdims,
                          tidei_shape *out) {
    out->ndim = 0;
    for (int i = 0; i < body->ndim; i++) {
        bool gone = folded >> i & 1;
        if (!gone || keepdims) out->dim[out->ndim++] = gone ? 1 : body->dim[i];
    }
}

/* The value of a fold over nothing. */
static tide_status fold_nothing(const tidei_run *r, const tidei_stored *v, tide_arg *out) {
    const double nan = __builtin_nan("");
    bool parts = tidei_dtype_kind(v->dtype) == TIDEI_KIND_COMPLEX;
    switch (v->fold) {
    case TIDEI_FOLD_SUM: return *out = tide_arg_int(0), TIDE_OK;
    case TIDEI_FOLD_PROD: return *out = tide_arg_int(1), TIDE_OK;
    case TIDEI_FOLD_MEAN:
        return *out = parts ? tide_arg_complex(nan, nan) : tide_arg_float(nan), TIDE_OK;
    case TIDEI_FOLD_ANY: return *out = tide_arg_bool(0), TIDE_OK;
    case TIDEI_FOLD_ALL: return *out = tide_arg_bool(1), TIDE_OK;
    default:
        return tidei_ast_fail(r->ast, r->plan->graph.nodes[v->node].at, TIDE_E_EMPTY,
                              "%s of no elements has no value", tidei_fold_name(v->fold));
    }
}

static tide_status fill_with_nothing(const tidei_run *r, const tidei_stored *v,
                                     const tidei_operand *out) {
    tide_arg value;
    tide_status s = fold_nothing(r, v, &value);
    return s == TIDE_OK ? fill(r, value, out) : s;
}

int tidei_run_fold_order(int ndim, unsigned folded, int *order) {
    int n = 0, kept;
    for (int i = 0; i < ndim; i++)
        if (!(folded >> i & 1)) order[n++] = i;
    kept = n;
    for (int i = 0; i < ndim; i++)
        if (folded >> i & 1) order[n++] = i;
    return kept;
}

static tide_status run_fold(const tidei_run *r, const tidei_stored *v, const tidei_shape *body,
                            unsigned folded, bool keepdims, const tidei_operand *out) {
    int order[TIDE_MAX_RANK], kept = tidei_run_fold_order(body->ndim, folded, order);
    int64_t strides[TIDE_MAX_RANK];
    tidei_call c;
    c.prog = v->pass.prog;
    c.ndim = body->ndim;
    c.nred = body->ndim - kept;
    for (int i = 0; i < c.ndim; i++) c.shape[i] = body->dim[order[i]];
    for (unsigned k = 0; k < c.prog->ninputs; k++) {
        const tidei_operand *o = tidei_run_source(r, v->pass.in[k]);
        tidei_broadcast_strides(&o->lay, body->ndim, body->dim, strides);
        c.in[k].st = o->st;
        c.in[k].offset = o->lay.offset;
        for (int i = 0; i < c.ndim; i++) c.in[k].strides[i] = strides[order[i]];
    }
    c.out[0].st = out->st;
    c.out[0].offset = out->lay.offset;
    for (int i = 0; i < kept; i++) c.out[0].strides[i] = out->lay.strides[keepdims ? order[i] : i];
    if (!c.nred) { /* a 0-d body: one dimension stands for all of them */
        c.nred = 1;
        c.shape[c.ndim++] = 1;
        for (unsigned k = 0; k < c.prog->ninputs; k++) c.in[k].strides[0] = 0;
    }
    tide_status s = tidei_run_encode_scalars(r, &v->pass, body, order, &c);
    return s == TIDE_OK ? submit(r, &c) : s;
}

/* ---- scans ---- */

/* The axis of a scan over `body`, and the shape that it gives. */
static tide_status scan_shape(const tidei_run *r, const tidei_stored *v, const tidei_shape *body,
                              int *axis, tidei_shape *out) {
    const tidei_axes *x = &r->ast->folds[v->axes];
    uint32_t at = r->plan->graph.nodes[v->node].at;
    if (x->n < 0 && body->ndim != 1)
        return tidei_ast_fail(r->ast, at, TIDE_E_SHAPE,
                              "%s of an array with %d dimensions wants an axis: axis=",
                              tidei_fold_name(v->fold), body->ndim);
    tide_status s = tidei_axis(x->n < 0 ? 0 : x->axis[0], body->ndim, r->op, axis);
    if (s != TIDE_OK) return tidei_ast_fail(r->ast, at, s, "%s", tide_error_last()->message);
    *out = *body;
    if (x->initial && __builtin_add_overflow(out->dim[*axis], 1, &out->dim[*axis]))
        return tidei_ast_fail(r->ast, at, TIDE_E_NOMEM,
                              "axis %d of the result has 2^63 elements or more", *axis);
    return TIDE_OK;
}

/* Writes the fold of no elements into its place along the axis. */
static tide_status fill_initial(const tidei_run *r, const tidei_stored *v, int axis,
                                const tidei_operand *out) {
    const tidei_axes *x = &r->ast->folds[v->axes];
    unsigned char none[16];
    tidei_operand place = *out;
    if (x->reverse) place.lay.offset += (place.lay.shape[axis] - 1) * place.lay.strides[axis];
    place.lay.shape[axis] = 1;
    tidei_scan_find(v->fold - TIDEI_FOLD_CUMSUM, v->pass.prog->acc_dtype)->none(none);
    return tidei_fill_elements(&place, none, r->op);
}

/* Makes a view begin at the last of its n elements along dimension d. */
static void turn(tidei_view *v, int d, int64_t n) {
    v->offset += (n - 1) * v->strides[d];
    v->strides[d] = -v->strides[d];
}

static tide_status run_scan(const tidei_run *r, const tidei_stored *v, const tidei_shape *body,
                            int axis, const tidei_operand *out) {
    const tidei_axes *x = &r->ast->folds[v->axes];
    const int64_t n = body->dim[axis];
    int order[TIDE_MAX_RANK], last = tidei_run_fold_order(body->ndim, 1u << axis, order);
    int64_t strides[TIDE_MAX_RANK];
    tidei_call c;
    c.prog = v->pass.prog;
    c.ndim = body->ndim;
    c.nred = 1;
    c.backwards = x->reverse;
    c.inner = 1;
    for (int i = axis + 1; i < body->ndim; i++) c.inner *= body->dim[i];
    for (int i = 0; i < c.ndim; i++) c.shape[i] = body->dim[order[i]];
    for (unsigned k = 0; k < c.prog->ninputs; k++) {
        const tidei_operand *o = tidei_run_source(r, v->pass.in[k]);
        tidei_broadcast_strides(&o->lay, body->ndim, body->dim, strides);
        c.in[k].st = o->st;
        c.in[k].offset = o->lay.offset;
        for (int i = 0; i < c.ndim; i++) c.in[k].strides[i] = strides[order[i]];
        if (x->reverse) turn(&c.in[k], last, n);
    }
    c.out[0].st = out->st;
    c.out[0].offset = out->lay.offset;
    for (int i = 0; i < c.ndim; i++) c.out[0].strides[i] = out->lay.strides[order[i]];
    if (x->reverse)
        turn(&c.out[0], last, n);
    else if (x->initial)
        c.out[0].offset += c.out[0].strides[last];
    tide_status s = tidei_run_encode_scalars(r, &v->pass, body, order, &c);
    return s == TIDE_OK ? submit(r, &c) : s;
}

/* ---- where results go ---- */

static tide_status check_destination(const tidei_run *r, unsigned i, const tidei_shape *s) {
    const tidei_layout *l = &r->dst[i].lay;
    char want[192], got[192];
    if (!tidei_shape_is(s, l->ndim, l->shape))
        return tidei_fail(TIDE_E_SHAPE, r->op, "result %u has shape %s, its destination %s", i + 1,
                          tidei_shape_text(want, sizeof want, s->ndim, s->dim),
                          tidei_shape_text(got, sizeof got, l->ndim, l->shape));
    if (tidei_layout_repeats(l))
        return tidei_fail(TIDE_E_INVALID, r->op, "destination %u is " TIDEI_STRETCHED, i + 1);
    return TIDE_OK;
}

bool tidei_run_is_read_under(const tidei_run *r, unsigned i, bool group) {
    for (unsigned k = 0; k < i; k++)
        if (tidei_operands_overlap(&r->dst[k], &r->dst[i])) return true;
    for (unsigned k = 0; k < r->ast->nparams; k++)
        if (r->used >> k & 1 && tidei_operands_overlap(&r->arg[k], &r->dst[i]) &&
            !(group && tidei_layout_same(&r->arg[k].lay, &r->dst[i].lay)))
            return true;
    return false;
}

tide_status tidei_run_place_result(tidei_run *r, unsigned i, const tidei_shape *s, bool group) {
    tide_dtype t = r->plan->results[i].dtype;
    tide_status status;
    if (!r->dsts) {
        r->made[i] = tidei_array_make(r->rt, t, s->ndim, s->dim, r->op, &r->out[i]);
        if (!r->made[i]) return tidei_last_status();
    } else {
        if ((status = check_destination(r, i, s)) != TIDE_OK) return status;
        if (!tidei_run_is_read_under(r, i, group)) return r->out[i] = r->dst[i], TIDE_OK;
        status = tidei_operand_make(r->rt, t, s->ndim, s->dim, r->op, &r->out[i]);
        if (status != TIDE_OK) return status;
        r->copied |= 1u << i;
    }
    r->out_held |= 1u << i;
    return TIDE_OK;
}

/* ---- passes ---- */

tide_status tidei_run_place_stored(tidei_run *r, unsigned k, const tidei_shape *s, bool group) {
    const tidei_stored *v = &r->plan->stored[k];
    if (v->result >= 0) {
        tide_status status = tidei_run_place_result(r, (unsigned)v->result, s, group);
        r->stored[k] = r->out[v->result];
        return status;
    }
    tide_status status = tidei_operand_make(r->rt, v->dtype, s->ndim, s->dim, r->op, &r->stored[k]);
    if (status == TIDE_OK) r->stored_held |= (uint64_t)1 << k;
    return status;
}

static tide_status run_stored_scan(tidei_run *r, unsigned k, const tidei_shape *body) {
    const tidei_stored *v = &r->plan->stored[k];
    int axis = 0;
    tidei_shape s;
    tide_status status = scan_shape(r, v, body, &axis, &s);
    if (status == TIDE_OK) status = tidei_run_place_stored(r, k, &s, false);
    if (status != TIDE_OK || !tidei_shape_elements(&s)) return status;
    if (r->ast->folds[v->axes].initial) status = fill_initial(r, v, axis, &r->stored[k]);
    if (status != TIDE_OK || !tidei_shape_elements(body)) return status;
    return run_scan(r, v, body, axis, &r->stored[k]);
}

static TIDEI_OWN_FRAME tide_status run_stored(tidei_run *r, unsigned k) {
    const tidei_stored *v = &r->plan->stored[k];
    const tidei_operand *out = &r->stored[k];
    tidei_shape body, s;
    unsigned folded;
    bool keepdims;
    tide_status status = tidei_run_broadcast(r, v->pass.in, v->pass.prog->ninputs, &body);
    if (status != TIDE_OK) return status;
    if (v->fold == TIDEI_FOLD_NONE) {
        status = tidei_run_place_stored(r, k, &body, false);
        return status == TIDE_OK ? run_map(r, &v->pass, &body, &out) : status;
    }
    if (tidei_is_scan(v->fold)) return run_stored_scan(r, k, &body);
    if ((status = tidei_run_fold_axes(r, v, body.ndim, &folded, &keepdims)) != TIDE_OK)
        return status;
    tidei_run_fold_shape(&body, folded, keepdims, &s);
    if ((status = tidei_run_place_stored(r, k, &s, false)) != TIDE_OK || !tidei_shape_elements(&s))
        return status;
    return tidei_shape_elements(&body) ? run_fold(r, v, &body, folded, keepdims, out)
                                       : fill_with_nothing(r, v, out);
}

static void release_stored(tidei_run *r, unsigned k) {
    if (r->stored_held >> k & 1) tidei_operand_put(&r->stored[k]);
    r->stored_held &= ~((uint64_t)1 << k);
}

/* In the place of a chain's last value: by one kernel, or value by value. */
static tide_status run_members(tidei_run *r, const tidei_chain *ch) {
    bool done = false;
    tide_status s = tidei_run_chain(r, ch, &done);
    for (unsigned k = 0; k <= ch->last && !done && s == TIDE_OK; k++)
        if (ch->members >> k & 1) s = run_stored(r, k);
    return s;
}

static tide_status run_all_stored(tidei_run *r) {
    tide_status s = TIDE_OK;
    for (unsigned k = 0; k < r->plan->nstored && s == TIDE_OK; k++) {
        const uint8_t chain = r->plan->stored[k].chain;
        if (chain == TIDEI_NO_CHAIN)
            s = run_stored(r, k);
        else if (r->plan->chains[chain].last == k)
            s = run_members(r, &r->plan->chains[chain]);
        for (unsigned j = 0; j < k; j++)
            if (r->plan->stored[j].last_use == k) release_stored(r, j);
    }
    return s;
}

/* Whether result i is to be written once all values are stored. */
static bool is_left(const tidei_run *r, unsigned i) {
    return !r->plan->results[i].is_stored && !(r->chained >> i & 1);
}

/* The results (bits) from r on that one pass can write with result `first`. */
static unsigned fellows(const tidei_run *r, const tidei_shape *shapes, unsigned first) {
    unsigned set = 0;
    for (unsigned i = first; i < r->ast->nresults; i++)
        if (is_left(r, i) && r->plan->results[i].bundle == r->plan->results[first].bundle &&
            tidei_shape_is(&shapes[first], shapes[i].ndim, shapes[i].dim))
            set |= 1u << i;
    return set;
}

static tide_status run_group(tidei_run *r, unsigned set, const tidei_shape *s) {
    const tidei_operand *outs[TIDE_MAX_RESULTS];
    const tidei_pass *pass;
    unsigned n = 0;
    for (unsigned i = 0; i < r->ast->nresults; i++)
        if (set >> i & 1) outs[n++] = &r->out[i];
    tide_status status = tidei_plan_group(r->rt, r->ast, r->plan, set, &pass);
    return status == TIDE_OK ? run_map(r, pass, s, outs) : status;
}

/* The results that are no stored values, by the passes that write them. */
typedef struct groups {
    unsigned n, all;                 /* how many; their results (bits) */
    unsigned sets[TIDE_MAX_RESULTS]; /* results (bits) of each */
    tidei_shape *shapes;             /* of each result; the caller makes room */
} groups;

static inline tide_status find_groups(const tidei_run *r, groups *g) {
    tide_status s = TIDE_OK;
    unsigned m = r->ast->nresults;
    g->n = g->all = 0;
    for (unsigned i = 0; i < m && s == TIDE_OK; i++)
        if (is_left(r, i))
            s = tidei_run_broadcast(r, r->plan->results[i].sources, r->plan->results[i].nsources,
                                    &g->shapes[i]);
    for (unsigned i = 0; i < m && s == TIDE_OK; i++)
        if (is_left(r, i) && !(g->all >> i & 1))
            g->all |= g->sets[g->n++] = fellows(r, g->shapes, i);
    return s;
}

static const tidei_shape *group_shape(const groups *g, unsigned i) {
    return &g->shapes[__builtin_ctz(g->sets[i])];
}

/* Checks that the numbers of every group can be encoded. */
static TIDEI_OWN_FRAME tide_status try_groups(tidei_run *r, const groups *g) {
    tide_status s = TIDE_OK;
    for (unsigned i = 0; i < g->n && s == TIDE_OK; i++) {
        const tidei_pass *pass;
        if (!tidei_shape_elements(group_shape(g, i))) continue;
        s = tidei_plan_group(r->rt, r->ast, r->plan, g->sets[i], &pass);
        if (s == TIDE_OK) s = try_scalars(r, pass, group_shape(g, i));
    }
    return s;
}

static tide_status run_results(tidei_run *r) {
    groups g;
    g.shapes = ROOM(tidei_shape, r->ast->nresults);
    unsigned m = r->ast->nresults;
    tide_status s = find_groups(r, &g);
    for (unsigned i = 0; i < m && s == TIDE_OK; i++)
        if (g.all >> i & 1) s = tidei_run_place_result(r, i, &g.shapes[i], g.n == 1);
    if (g.n > 1 && r->dsts && !r->plan->nstored && s == TIDE_OK) s = try_groups(r, &g);
    for (unsigned i = 0; i < g.n && s == TIDE_OK; i++)
        s = run_group(r, g.sets[i], group_shape(&g, i));
    for (unsigned i = 0; i < m && s == TIDE_OK; i++)
        if (r->copied >> i & 1) s = tidei_copy_elements(r->rt, &r->dst[i], &r->out[i], r->op);
    return s;
}

/* ---- the rehearsal ---- Checks all that can be refused, except for lack of memory, without
** running anything. */

static TIDEI_OWN_FRAME tide_status rehearse_stored(tidei_run *r, unsigned k) {
    const tidei_stored *v = &r->plan->stored[k];
    const bool scan = tidei_is_scan(v->fold);
    tide_arg value;
    tidei_shape body, s;
    int axis;
    unsigned folded = 0;
    bool keepdims = true;
    tide_status status = tidei_run_broadcast(r, v->pass.in, v->pass.prog->ninputs, &body);
    if (status == TIDE_OK && scan)
        status = scan_shape(r, v, &body, &axis, &s);
    else if (status == TIDE_OK && v->fold != TIDEI_FOLD_NONE)
        status = tidei_run_fold_axes(r, v, body.ndim, &folded, &keepdims);
    if (status != TIDE_OK) return status;
    if (!scan) tidei_run_fold_shape(&body, folded, keepdims, &s);
    r->stored[k].lay.ndim = s.ndim; /* for the passes that read it */
    memcpy(r->stored[k].lay.shape, s.dim, (size_t)s.ndim * sizeof *s.dim);
    if (v->result >= 0) status = check_destination(r, (unsigned)v->result, &s);
    if (status != TIDE_OK || !tidei_shape_elements(&s)) return status;
    return tidei_shape_elements(&body) ? try_scalars(r, &v->pass, &body)
           : scan                      ? TIDE_OK
                                       : fold_nothing(r, v, &value);
}

static TIDEI_OWN_FRAME tide_status rehearse(tidei_run *r) {
    groups g = {.shapes = ROOM(tidei_shape, r->ast->nresults)};
    tide_status s = TIDE_OK;
    for (unsigned k = 0; k < r->plan->nstored && s == TIDE_OK; k++) s = rehearse_stored(r, k);
    if (s == TIDE_OK) s = find_groups(r, &g);
    for (unsigned i = 0; i < r->ast->nresults && s == TIDE_OK; i++)
        if (g.all >> i & 1) s = check_destination(r, i, &g.shapes[i]);
    return s == TIDE_OK ? try_groups(r, &g) : s;
}

/* ---- the whole ---- */

static tide_status hold(tidei_run *r, tide_array *a, tidei_place place, tidei_operand *o) {
    tide_status s = tidei_operand_get_of(r->rt, a, r->op, place, o);
    if (s != TIDE_OK) return s;
    if (tidei_unlikely(o->st->dev != r->stream->dev) && o->st->bytes)
        s = tidei_peer_need(r->stream->dev, o->st, r->op);
    if (s != TIDE_OK) tidei_operand_put(o);
    return s;
}

/* Holds the operands and writes the signature. */
static tide_status gather(tidei_run *r, size_t n, size_t m) {
    tide_status s;
    for (unsigned i = 0; i < n; i++) {
        const tide_arg *v = &r->args[i];
        if (v->kind < TIDE_ARG_ARRAY || v->kind > TIDE_ARG_COMPLEX)
            return v->kind == TIDE_ARG_NUMBER
                       ? tidei_fail(TIDE_E_INVALID, r->op,
                                    "argument %u is a number of a graph's run, which is over",
                                    i + 1)
                       : tidei_fail(TIDE_E_INVALID, r->op, "argument %u: %d is no kind of argument",
                                    i + 1, (int)v->kind);
        if (v->kind != TIDE_ARG_ARRAY) {
            r->sig[i] = (uint8_t)(TIDEI_WEAK + tidei_weak_dtype(v));
            continue;
        }
        if ((s = hold(r, v->value.array, i + 1, &r->arg[i])) != TIDE_OK) return s;
        r->used |= (uint64_t)1 << i;
        r->sig[i] = (uint8_t)r->arg[i].lay.dtype;
    }
    for (unsigned i = 0; r->dsts && i < m; i++) {
        if ((s = hold(r, r->dsts[i], TIDEI_DESTINATION(i), &r->dst[i])) != TIDE_OK) return s;
        r->dst_held |= 1u << i;
        r->sig[n + i] = (uint8_t)r->dst[i].lay.dtype;
    }
    return TIDE_OK;
}

static inline void put_all(tidei_operand *o, uint64_t held) {
    while (held) {
        unsigned last = 63 - (unsigned)__builtin_clzll(held);
        held ^= UINT64_C(1) << last;
        tidei_operand_put(&o[last]);
    }
}

/* Puts the operands, the last one held first, as the thread's record finds that soonest. */
static void leave(tidei_run *r) {
    put_all(r->out, r->out_held);
    put_all(r->dst, r->dst_held);
    put_all(r->arg, r->used);
}

/* Signatures are so short that a call of memcmp would take longer. */
static bool same_sig(const uint8_t *a, const uint8_t *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

static tidei_plan *find_plan(tidei_plan *p, const uint8_t *sig, bool into, size_t n) {
    while (p && (p->into != into || !same_sig(p->sig, sig, n))) p = p->next;
    return p;
}

/* The plan for the signature; made at its first use. */
static tide_status get_plan(tidei_run *r) {
    bool into = r->dsts != NULL;
    size_t n = r->ast->nparams + (into ? r->ast->nresults : 0);
    tidei_plan *head = atomic_load_explicit(&r->e->plans, memory_order_acquire), *mine;
    r->plan = find_plan(head, r->sig, into, n);
    if (r->plan) return TIDE_OK;
    tide_status s = tidei_plan_build(r->rt, r->ast, r->sig, into, NULL, 0, &mine);
    if (s != TIDE_OK) return s;
    for (;;) { /* another thread may have made it meanwhile */
        mine->next = head;
        if (atomic_compare_exchange_weak(&r->e->plans, &head, mine)) return r->plan = mine, TIDE_OK;
        if (!(r->plan = find_plan(head, r->sig, into, n))) continue;
        tidei_plan_free(r->rt, mine);
        return TIDE_OK;
    }
}

/* Finds tidei_beyond of each limit's number; returns whether any is not in its type's range. */
static bool find_beyond(const tidei_run *r, int8_t *out) {
    const tidei_graph *g = &r->plan->graph;
    bool any = false;
    for (uint32_t i = 0; i < g->nlimits; i++) {
        out[i] = tidei_number_beyond(g->weaks, r->numbers, &g->limits[i]);
        any |= out[i] != 0;
    }
    return any;
}

static tidei_plan *find_other(tidei_plan *p, const int8_t *beyond, size_t n) {
    while (p && memcmp(p->beyond, beyond, n) != 0) p = p->next;
    return p;
}

/* The plan for numbers out of range as `beyond` says; made at its first use. */
static tide_status get_other(tidei_run *r, const int8_t *beyond) {
    tidei_plan *base = r->plan, *head = atomic_load_explicit(&base->others, memory_order_acquire),
               *mine;
    uint32_t n = base->graph.nlimits;
    r->plan = find_other(head, beyond, n);
    if (r->plan) return TIDE_OK;
    tide_status s = tidei_plan_build(r->rt, r->ast, base->sig, base->into, beyond, n, &mine);
    if (s != TIDE_OK) return s;
    for (;;) { /* another thread may have made it meanwhile */
        mine->next = head;
        if (atomic_compare_exchange_weak(&base->others, &head, mine))
            return r->plan = mine, TIDE_OK;
        if (!(r->plan = find_other(head, beyond, n))) continue;
        tidei_plan_free(r->rt, mine);
        return TIDE_OK;
    }
}

static tide_status compute(tidei_run *r) {
    r->numbers = ROOM(tide_arg, r->plan->graph.nslots);
    tide_status s = r->plan->graph.nslots ? compute_numbers(r) : TIDE_OK;
    if (r->plan->graph.nlimits && s == TIDE_OK) {
        int8_t *beyond = ROOM(int8_t, r->plan->graph.nlimits);
        if (tidei_unlikely(find_beyond(r, beyond)) && (s = get_other(r, beyond)) == TIDE_OK) {
            r->numbers = ROOM(tide_arg, r->plan->graph.nslots);
            s = compute_numbers(r);
        }
    }
    if (s != TIDE_OK) return s;
    r->stored = ROOM(tidei_operand, r->plan->nstored);
    if (r->plan->nstored) memset(r->stored, 0, r->plan->nstored * sizeof *r->stored);
    if (s == TIDE_OK && r->dsts && r->ast->nresults > 1 && r->plan->nstored) s = rehearse(r);
    if (s == TIDE_OK) s = run_all_stored(r);
    if (s == TIDE_OK) s = run_results(r);
    for (unsigned k = 0; r->stored_held; k++) release_stored(r, k);
    return s;
}

static tide_status steps(tidei_run *r, size_t n, size_t m) {
    tide_arg *args = ROOM(tide_arg, r->call ? n : 0);
    if (tidei_unlikely(r->call != NULL)) r->args = args;
    if (r->call && tidei_numbers_look_up(r->call, r->as_given, n, r->op, args, &r->of_run))
        return tidei_last_status();
    r->arg = ROOM(tidei_operand, n);
    r->out = ROOM(tidei_operand, m); /* written late, while collections may come between */
    memset(r->out, 0, m * sizeof *r->out);
    r->dst = ROOM(tidei_operand, r->dsts ? m : 0);
    tide_status s = gather(r, n, m);
    if (s == TIDE_OK) s = get_plan(r);
    const tidei_plan *first = r->plan;
    tidei_lesson lesson;
    const tidei_shortcut *shortcut = s == TIDE_OK ? tidei_shortcut_find(r, &lesson) : NULL;
    if (shortcut)
        s = tidei_shortcut_take(r, shortcut);
    else if (s == TIDE_OK) {
        s = compute(r);
        if (tidei_unlikely(r->lesson)) tidei_shortcut_learnt(r->lesson, s == TIDE_OK);
        /* types are in order, or there would be no plan */
        if (s == TIDE_E_DTYPE && tidei_unlikely(r->of_run)) tidei_numbers_failed(r->rt);
    }
    if (s == TIDE_OK && tidei_unlikely(r->of_run))
        s = tidei_numbers_watch(r->rt, first, r->plan, r->as_given, (unsigned)n, r->op);
    leave(r);
    return s;
}

static tide_status check_counts(const tidei_run *r, size_t n, const void *outs, size_t m) {
    if (n != r->ast->nparams)
        return tidei_fail(TIDE_E_INVALID, r->op,
                          "the expression has %u parameters; %zu arguments are given",
                          r->ast->nparams, n);
    if (m != r->ast->nresults)
        return tidei_fail(TIDE_E_INVALID, r->op, "the expression has %u results; %zu are wanted",
                          r->ast->nresults, m);
    if (n && !r->args) return tidei_fail(TIDE_E_INVALID, r->op, "the list of arguments is NULL");
    if (!outs) return tidei_fail(TIDE_E_INVALID, r->op, "the list of arrays to write to is NULL");
    return TIDE_OK;
}

tide_status tidei_expr_run(tidei_expr *e, const char *op, const tide_arg *args, size_t n,
                           const tidei_given_axes *axes, tide_array **outs, tide_array *const *dsts,
                           size_t m) {
    TIDEI_OPERATION(op);
    tidei_run r;
    tidei_thread *t = tidei_thread_get(e->rt);
    if (!t) return tidei_last_status();
    r.e = e, r.rt = e->rt, r.ast = &e->ast, r.plan = NULL, r.op = op, r.t = t,
    r.stream = tidei_thread_stream(t);
    r.args = r.as_given = args, r.given = axes, r.dsts = dsts;
    r.call = t->graph_call, r.of_run = 0, r.lesson = NULL;
    r.used = r.stored_held = 0;
    r.out_held = r.dst_held = r.copied = r.chained = 0;
    tide_status s = check_counts(&r, n, dsts ? (const void *)dsts : outs, m);
    if (s != TIDE_OK) return tidei_ast_name_error(r.ast), s;
    for (size_t i = 0; i < m; i++) r.made[i] = NULL;
    s = steps(&r, n, m);
    if (s != TIDE_OK) {
        for (size_t i = 0; i < m; i++)
            if (r.made[i]) tidei_array_drop(r.made[i]);
        tidei_ast_name_error(r.ast);
    } else
        for (size_t i = 0; !dsts && i < m; i++) outs[i] = r.made[i];
    return s;
}
