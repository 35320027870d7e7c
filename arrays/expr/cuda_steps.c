/* cuda_steps.c: folds over several dimensions that do not merge, in two steps.
**
** Model: a fold over one dimension alone reads memory by vectors, or by neighbours side by side;
** over several it goes element by element, and finds each by divisions. So one dimension is folded
** first, into accumulators that lie in the order in which memory does, and then the others of
** these. Which dimension is first follows from what is moved: the inputs' bytes, more of them where
** few bytes lie side by side, and the accumulators twice.
** What must stay true: the choice depends on the call alone, so that results have the same bits
** each time; accumulators keep the fold's own type between the steps. */
#include "arrays/expr/cuda_steps.h"
#include "arrays/expr/cuda_say.h"

/* Elements of a call: fewer are folded in less time than another launch takes. */
#define STEPS_LEAST ((int64_t)1 << 20)
/* The accumulators take no more than this part of the bytes that are read: writing and reading them
** would cost what is won. Nor more than so many bytes: a fold of most of a GPU's memory has to find
** room for them beside it, and there is no other way once it is in steps. */
#define STEPS_PART 4
#define STEPS_ROOM ((int64_t)2 << 30)
/* Bytes that lie side by side: where they are fewer, a warp asks for more lines than it has
** elements for, and the step costs half of its bytes more. */
#define STEPS_NARROW 64
/* Elements of a dimension: of longer ones no chain has all. Narrow ones cost three times their
** bytes more then; of one or two bytes an element, not of whole vectors, half of their bytes. */
#define STEPS_LONG 2048
#define VECTOR     16 /* bytes */

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

static int64_t elements_of(const tidei_call *c, int from, int to) {
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= c->shape[d];
    return n;
}

/* Elements that lie between two neighbours along dimension d, at least. */
static int64_t beside(const tidei_call *c, const tidei_view *lead, int d) {
    int64_t n = 1;
    for (int e = 0; e < c->ndim; e++)
        if (lead->strides[e] && magnitude(lead->strides[e]) < magnitude(lead->strides[d]))
            n *= c->shape[e];
    return n;
}

/* What it costs to fold dimension d of `bytes` first, in bytes that are moved. */
static int64_t cost_of(const tidei_call *c, const tidei_view *lead, int64_t element, int64_t bytes,
                       int64_t accumulators, int d) {
    const int64_t n = beside(c, lead, d), run = n > 1 ? n : c->shape[d];
    const bool is_long = n > 1 && c->shape[d] > STEPS_LONG;
    int64_t more = 0;
    if (run * element < STEPS_NARROW) more = is_long ? 3 * bytes : bytes / 2;
    if (is_long && element < 4 && run * element % VECTOR) more += bytes / 2;
    return bytes + more + 2 * accumulators;
}

bool tidei_steps_find(const tidei_call *c, const tidei_cuda_traits *k, tidei_steps *out) {
    const tidei_program *p = c->prog;
    const int kept = c->ndim - c->nred, last = c->ndim - 1;
    const int64_t elements = elements_of(c, 0, c->ndim);
    const tidei_view *lead = tidei_cuda_lead(c);
    if (c->nred < 2 || k->linear || is_arg(p->fold) || !p->ninputs || elements < STEPS_LEAST)
        return false;
    const int64_t element = (int64_t)tide_dtype_size(p->input_dtype[lead - c->in]);
    int64_t bytes = element, best = INT64_MAX;
    for (int d = 0; d < c->ndim; d++)
        if (lead->strides[d]) bytes *= c->shape[d];
    for (int d = kept; d <= last; d += last - kept) { /* the outermost, or the innermost */
        const int64_t accumulators = elements / c->shape[d] * k->acc_bytes;
        if (!lead->strides[d] || accumulators > bytes / STEPS_PART || accumulators > STEPS_ROOM)
            continue;
        const int64_t cost = cost_of(c, lead, element, bytes, accumulators, d);
        if (cost >= best) continue;
        best = cost;
        *out = (tidei_steps){d, elements / c->shape[d], elements_of(c, kept, c->ndim)};
    }
    return best != INT64_MAX;
}

void tidei_steps_programs(const tidei_program *p, tidei_program *first, tidei_program *second) {
    memcpy(first, p, sizeof *first);
    if (p->fold == TIDEI_FOLD_MEAN) first->fold = TIDEI_FOLD_SUM;
    first->out_dtype[0] = p->acc_dtype;
    memset(second, 0, sizeof *second);
    second->nnodes = second->ninputs = second->nouts = 1;
    second->nodes[0] = (tidei_node){.op = TIDEI_OP_INPUT, .dtype = p->acc_dtype};
    second->input_dtype[0] = p->acc_dtype;
    second->out_dtype[0] = p->out_dtype[0];
    second->fold = p->fold;
    second->acc_dtype = p->acc_dtype;
}

void tidei_steps_calls(const tidei_call *c, const tidei_steps *s, tidei_call *first,
                       tidei_call *second) {
    const int kept = c->ndim - c->nred, all = c->ndim - 1;
    const tidei_view *lead = tidei_cuda_lead(c);
    int order[TIDE_MAX_RANK], n = 0; /* the dimensions of accumulators, as the lead has them */
    int64_t strides[TIDE_MAX_RANK], step = 1;
    for (int d = 0; d < c->ndim; d++) {
        if (d == s->dim) continue;
        int at = n++;
        for (; at && magnitude(lead->strides[order[at - 1]]) < magnitude(lead->strides[d]); at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = all - 1; i >= 0; i--) {
        strides[order[i]] = step;
        step *= c->shape[order[i]];
    }
    *first = *c;
    first->nred = 1;
    first->out[0] = (tidei_view){0};
    order[all] = s->dim;
    for (int i = 0; i < c->ndim; i++) {
        first->shape[i] = c->shape[order[i]];
        for (unsigned k = 0; k < c->prog->ninputs; k++)
            first->in[k].strides[i] = c->in[k].strides[order[i]];
        first->out[0].strides[i] = i < all ? strides[order[i]] : 0;
    }
    *second = (tidei_call){.ndim = all, .nred = c->nred - 1};
    second->out[0] = c->out[0];
    for (int d = 0, i = 0; d < c->ndim; d++) {
        if (d == s->dim) continue;
        second->shape[i] = c->shape[d];
        second->in[0].strides[i] = strides[d];
        if (d < kept) second->out[0].strides[i] = c->out[0].strides[d];
        i++;
    }
}
