/* call.c: calling a graph's function: as it is, and captured. The model stands in graph.h.
**
** The function's numbers are arguments without a value (arrays/expr/numbers.h). Where its call is
** captured, its arrays are others too: placeholders of the same layouts, so that what the nodes use
** of an argument is told from what the function finds by itself, though both be the same memory. */
#include "arrays/expr/numbers.h"
#include "arrays/graph/graph.h"
#include "runtime/base/uncancelled.h"

#define ROOM(type, n) ((type *)__builtin_alloca((n) * sizeof(type)))

/* ---- the call itself ---- */

static void undo_call(tidei_runtime *rt, tidei_thread *t, void *at, uintptr_t before) {
    (void)rt, (void)at;
    t->graph_call = (const tidei_graph_call *)before;
}

/* The function's failure, with an error that says so much. */
static tide_status failed(tide_status status) {
    if (tidei_last_status() == status) return status;
    return tidei_fail(status, TIDEI_OP_GRAPH_RUN, "the function returned %s (%d)",
                      tide_status_name(status), (int)status);
}

/* Calls the function with arguments `given`, for a run whose numbers `call` has. c (may be NULL):
** its calls are captured there. */
static tide_status call(tidei_task_graph *g, tidei_thread *t, const tidei_graph_call *call,
                        const tide_arg *given, tide_array **outs, size_t m, tidei_capture *c) {
    TIDEI_UNCANCELLED;
    const tidei_graph_call *before = t->graph_call;
    tidei_callback in;
    t->graph_call = call;
    tidei_hold(t, undo_call, &t->graph_call, (uintptr_t)before);
    tidei_callback_begin(&in, g->rt, TIDEI_IN_GRAPH, NULL);
    tide_status status = in.t ? TIDE_OK : TIDE_E_HOST_NOMEM;
    if (in.t && c) tidei_capture_within(c, &in);
    if (in.t) status = g->fn(g->user, given, call->n, outs, m);
    if (c) tidei_capture_within(c, NULL);
    tidei_callback_end(&in);
    tidei_let(t, &t->graph_call);
    t->graph_call = before;
    if (!in.t) return tidei_fail_host_memory(TIDEI_OP_GRAPH_RUN, sizeof in);
    pthread_mutex_lock(&g->lock);
    g->figures.calls++;
    pthread_mutex_unlock(&g->lock);
    return status == TIDE_OK ? TIDE_OK : failed(status);
}

/* Arguments for the function: numbers without their values. */
static void hide_numbers(const tide_arg *args, size_t n, int32_t number, tide_arg *given) {
    for (size_t i = 0; i < n; i++)
        given[i] = args[i].kind == TIDE_ARG_ARRAY
                       ? args[i]
                       : (tide_arg){.kind = TIDE_ARG_NUMBER, .reserved = number, .value.u = i};
}

static int32_t next_number(tidei_task_graph *g) {
    return atomic_fetch_add_explicit(&tidei_graphs_of(g->rt)->calls, 1, memory_order_relaxed) + 1;
}

/* The reference that the function gave of a result, given back. A scope's goes with the scope, and
** an array of a tracing collector has none. */
static void give_back(tide_array *a) {
    tidei_header *h = tidei_cell_header(a);
    if (h->home != &h->cell || (atomic_load(&h->refs) & TIDEI_SCOPED)) return;
    tide_release(a);
}

/* Checks that no result is an argument itself: the one that the caller holds would be given away.
** */
static tide_status check_results(const tide_arg *given, size_t n, tide_array *const *outs,
                                 size_t m) {
    for (size_t k = 0; k < m; k++)
        for (size_t i = 0; outs[k] && i < n; i++)
            if (given[i].kind == TIDE_ARG_ARRAY && given[i].value.array == outs[k])
                return tidei_fail(TIDE_E_INVALID, TIDEI_OP_GRAPH_RUN,
                                  "the function returned argument %zu itself as result %zu: a "
                                  "result is an array of its own, a view of the argument say",
                                  i + 1, k + 1);
    return TIDE_OK;
}

static bool is_argument(const tide_arg *given, size_t n, const tide_array *a) {
    for (size_t i = 0; i < n; i++)
        if (given[i].kind == TIDE_ARG_ARRAY && given[i].value.array == a) return true;
    return false;
}

static void give_all_back(const tide_arg *given, size_t n, tide_array *const *outs, size_t m) {
    for (size_t k = 0; k < m; k++)
        if (outs[k] && !is_argument(given, n, outs[k])) give_back(outs[k]);
}

tide_status tidei_graph_call_function(tidei_task_graph *g, tidei_thread *t, const tide_arg *args,
                                      size_t n, tide_array **outs, size_t m) {
    const tidei_graph_call run = {args, n, next_number(g)};
    tide_arg *given = ROOM(tide_arg, n);
    tide_array **results = ROOM(tide_array *, m);
    hide_numbers(args, n, run.number, given);
    memset(results, 0, m * sizeof *results);
    tide_status status = call(g, t, &run, given, results, m, NULL);
    if (status != TIDE_OK) return status;
    status = check_results(given, n, results, m);
    if (status == TIDE_OK)
        memcpy(outs, results, m * sizeof *results);
    else
        give_all_back(given, n, results, m);
    return status;
}

/* ---- placeholders of arguments ---- */

size_t tidei_operand_lowest(const tidei_operand *o) {
    int64_t lo, hi;
    tidei_layout_extent(&o->lay, &lo, &hi);
    return (size_t)lo * tide_dtype_size(o->lay.dtype);
}

/* An array of the argument's layout over a placeholder, whose first byte that the argument spans
** lies as far behind a boundary as there. NULL with the error set. */
static tide_array *stand_in(tidei_capture *c, const tidei_operand *o, unsigned *slot) {
    const int64_t size = (int64_t)tide_dtype_size(o->lay.dtype);
    const size_t lowest = tidei_operand_lowest(o), pad = lowest % TIDEI_GRAPH_ALIGN;
    int64_t lo, hi;
    tidei_storage *st;
    tidei_layout lay = o->lay;
    tidei_layout_extent(&lay, &lo, &hi);
    const size_t bytes = hi > lo ? (size_t)((hi - lo) * size) + pad : 0;
    if (tidei_capture_give(c, o->st->pool, bytes, &st) != TIDE_OK) return NULL;
    *slot = (unsigned)(tidei_capture_slot(c, st) - c->slots);
    lay.offset += (int64_t)pad / size - lo;
    return tidei_temporary(tidei_array_over(o->rt, st, &lay, c->op), c->op);
}

static void end_stand_ins(tide_arg *given, const tidei_operand *ops, size_t n) {
    while (n-- > 0)
        if (ops[n].st) tidei_temporary_end(given[n].value.array);
}

static tide_status stand_ins(tidei_capture *c, const tidei_operand *ops, size_t n, tide_arg *given,
                             unsigned *arg_slot) {
    for (size_t i = 0; i < n; i++) {
        arg_slot[i] = UINT_MAX;
        if (!ops[i].st) continue;
        tide_array *a = stand_in(c, &ops[i], &arg_slot[i]);
        if (!a) return end_stand_ins(given, ops, i), tidei_last_status();
        given[i].value.array = a;
    }
    return TIDE_OK;
}

/* ---- capturing ---- */

/* What a result is of: a slot, and where there. One that was made becomes a RESULT. */
static tide_status look_at_result(tidei_capture *c, tide_array *a, tidei_body_result *out) {
    tidei_operand o;
    tide_status status = tidei_operand_get_of(c->dev->rt, a, c->op, 1, &o);
    if (status != TIDE_OK) return status;
    tidei_slot *s = tidei_capture_slot(c, o.st);
    if (!s) status = tidei_capture_outer(c, o.st, &s);
    if (status == TIDE_OK) {
        if (s->kind == TIDEI_SLOT_MADE) s->kind = TIDEI_SLOT_RESULT;
        *out = (tidei_body_result){true, (unsigned)(s - c->slots), o.lay};
    }
    tidei_operand_put(&o);
    return status;
}

static tide_status look_at_results(tidei_capture *c, tide_array *const *outs, size_t m,
                                   tidei_body_result *results) {
    tide_status status = TIDE_OK;
    for (size_t k = 0; k < m && status == TIDE_OK; k++) {
        results[k].any = false;
        if (outs[k]) status = look_at_result(c, outs[k], &results[k]);
    }
    return status;
}

static tide_status captured_call(tidei_task_graph *g, tidei_thread *t, tidei_capture *c,
                                 const tidei_graph_call *run, const tide_arg *given, size_t m,
                                 tidei_body_result *results) {
    tide_array **outs = ROOM(tide_array *, m);
    memset(outs, 0, m * sizeof *outs);
    tide_status status = call(g, t, run, given, outs, m, c);
    if (status != TIDE_OK || c->failed != TIDE_OK) return status;
    status = check_results(given, run->n, outs, m);
    if (status == TIDE_OK) status = look_at_results(c, outs, m, results);
    give_all_back(given, run->n, outs, m);
    return status;
}

/* A failure of the function's, and one that the capture has: the latter is told, as the reason. */
static tide_status end(tidei_thread *t, tidei_capture *c, tide_status status) {
    tidei_saved_error e;
    tidei_error_save(&e);
    tide_status refused = tidei_capture_end(t, c);
    if (refused != TIDE_OK) return refused;
    if (status != TIDE_OK) tidei_error_restore(&e);
    return status;
}

tide_status tidei_graph_capture(tidei_task_graph *g, tidei_thread *t, const tide_arg *args,
                                const tidei_operand *ops, size_t n, size_t m, tidei_body **out) {
    const tidei_graph_call run = {args, n, next_number(g)};
    tide_arg *given = ROOM(tide_arg, n);
    const size_t bytes = m * sizeof(tidei_body_result) + n * sizeof(unsigned);
    tidei_body_result *results = tidei_scratch_host(g->rt, bytes);
    tidei_capture *c;
    if (!results) return tidei_fail_host_memory(TIDEI_OP_GRAPH_RUN, bytes);
    unsigned *arg_slot = (unsigned *)(results + m);
    hide_numbers(args, n, run.number, given);
    tide_status status = tidei_capture_begin(t, t->dev, TIDEI_OP_GRAPH_RUN, &c);
    if (status == TIDE_OK) {
        status = stand_ins(c, ops, n, given, arg_slot);
        if (status == TIDE_OK) {
            status = captured_call(g, t, c, &run, given, m, results);
            end_stand_ins(given, ops, n);
        }
        status = end(t, c, status);
        if (status != TIDE_OK || c->for_nobody)
            tidei_capture_drop(c);
        else
            status = tidei_body_new(c, arg_slot, (unsigned)n, results, (unsigned)m, out);
    }
    tidei_scratch_host_free(g->rt, results);
    return status;
}
