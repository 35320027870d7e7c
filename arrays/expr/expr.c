/* expr.c: the public functions over expressions: making them, applying them, finding them by their
** text; and the named ones that the other public functions share. */
#include "arrays/expr/front.h"
#include <xxhash.h>

/* ---- a runtime's expressions ---- */

tide_status tidei_exprs_open(tidei_runtime *rt) {
    struct tidei_exprs *x = tidei_host_alloc(rt, sizeof *x);
    if (!x) return tidei_fail_host_memory("tide_open", sizeof *x);
    pthread_mutex_init(&x->lock, NULL);
    tidei_arrays_of(rt)->exprs = x;
    return TIDE_OK;
}

static void enlist(tidei_expr *e) {
    struct tidei_exprs *x = tidei_exprs_of(e->rt);
    pthread_mutex_lock(&x->lock);
    e->next = x->all;
    e->prev = &x->all;
    if (e->next) e->next->prev = &e->next;
    x->all = e;
    pthread_mutex_unlock(&x->lock);
}

static void delist(tidei_expr *e) {
    struct tidei_exprs *x = tidei_exprs_of(e->rt);
    pthread_mutex_lock(&x->lock);
    *e->prev = e->next;
    if (e->next) e->next->prev = e->prev;
    pthread_mutex_unlock(&x->lock);
}

static void free_expr(tidei_expr *e) {
    tidei_ref_end(e->ref);
    tidei_runtime *rt = e->rt;
    tidei_plan *p = atomic_load(&e->plans);
    while (p) {
        tidei_plan *next = p->next;
        tidei_plan_free(rt, p);
        p = next;
    }
    if (e->ast.numbers) tidei_ast_free(rt, &e->ast);
    tidei_host_free(rt, e->text);
    tidei_host_free(rt, e);
}

void tidei_exprs_close(tidei_runtime *rt) {
    struct tidei_exprs *x = tidei_exprs_of(rt);
    if (!x) return;
    for (tidei_expr *e = x->all, *next; e; e = next) {
        next = e->next;
        free_expr(e);
    }
    tidei_programs_close(rt, x);
    pthread_mutex_destroy(&x->lock);
    tidei_host_free(rt, x);
    tidei_arrays_of(rt)->exprs = NULL;
}

/* ---- text ---- */

static tidei_expr *new_expr(tidei_runtime *rt, const char *text, const char *op) {
    size_t bytes = strlen(text) + 1;
    tidei_expr *e = tidei_host_alloc(rt, sizeof *e);
    if (!e) return tidei_fail_host_memory(op, sizeof *e), NULL;
    e->rt = rt;
    e->text = tidei_host_alloc(rt, bytes);
    if (!e->text)
        tidei_fail_host_memory(op, bytes);
    else {
        memcpy(e->text, text, bytes);
        if (tidei_ast_parse(rt, e->text, op, &e->ast) == TIDE_OK) return enlist(e), e;
    }
    free_expr(e);
    return NULL;
}

static void release(tidei_expr *e) {
    delist(e);
    free_expr(e);
}

tide_expr *tide_expr_new(tide_runtime *ref, const char *text) {
    static const char op[] = "tide_expr_new";
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt) return NULL;
    if (!text) return tidei_fail(TIDE_E_INVALID, op, "the text is NULL"), NULL;
    tidei_expr *e = new_expr(rt, text, op);
    if (!e) return NULL;
    e->ref = tidei_ref_new(TIDEI_REF_EXPR, e, rt);
    if (e->ref) return e->ref;
    release(e);
    return tidei_fail_host_memory(op, sizeof *e), NULL;
}

void tide_expr_release(tide_expr *ref) {
    tidei_expr *e =
        ref && !tidei_forked() ? tidei_ref_find(TIDEI_REF_EXPR, ref, "tide_expr_release") : NULL;
    if (e) release(e);
}

static tidei_expr *find_text(tidei_expr *e, const char *text, uint64_t hash) {
    while (e && (e->hash != hash || strcmp(e->text, text) != 0)) e = e->next_text;
    return e;
}

/* The expression of a text. *own: the table has no room for it, and the caller releases it. */
static tidei_expr *by_text(tidei_runtime *rt, const char *text, const char *op, bool *own) {
    struct tidei_exprs *x = tidei_exprs_of(rt);
    uint64_t hash = XXH3_64bits(text, strlen(text));
    _Atomic(tidei_expr *) *bucket = &x->texts[hash & (TIDEI_BUCKETS - 1)];
    tidei_expr *head = atomic_load_explicit(bucket, memory_order_acquire),
               *e = find_text(head, text, hash), *mine;
    *own = false;
    if (e || !(mine = new_expr(rt, text, op))) return e;
    if (atomic_load(&x->ntexts) >= TIDEI_TEXTS_MAX) return *own = true, mine;
    mine->hash = hash;
    for (;;) { /* another thread may have made it meanwhile */
        mine->next_text = head;
        if (atomic_compare_exchange_weak(bucket, &head, mine))
            return atomic_fetch_add(&x->ntexts, 1), mine;
        if (!(e = find_text(head, text, hash))) continue;
        release(mine);
        return e;
    }
}

/* ---- applying ---- */

/* A NULL array is reported before all else that may be wrong with a call (tide/base.h). */
static tide_status no_nulls(const char *op, const tide_arg *args, size_t n, tide_array *const *dsts,
                            size_t m) {
    for (size_t i = 0; args && i < n; i++)
        if (args[i].kind == TIDE_ARG_ARRAY && !args[i].value.array)
            return tidei_null_array(op, i + 1);
    for (size_t i = 0; dsts && i < m; i++)
        if (!dsts[i]) return tidei_null_array(op, TIDEI_DESTINATION(i));
    return TIDE_OK;
}

static tidei_expr *find_expr(tide_expr *ref, const char *op) {
    return tidei_ref_find(TIDEI_REF_EXPR, ref, op);
}

int tide_expr_results(tide_expr *ref) {
    tidei_expr *e = find_expr(ref, "tide_expr_results");
    return e ? (int)e->ast.nresults : -1;
}

tide_array *tide_expr_apply(tide_expr *ref, const tide_arg *args, size_t n) {
    tide_array *out = NULL;
    if (no_nulls("tide_expr_apply", args, n, NULL, 0) != TIDE_OK) return NULL;
    tidei_expr *e = find_expr(ref, "tide_expr_apply");
    if (!e) return NULL;
    return tidei_expr_run(e, "tide_expr_apply", args, n, NULL, &out, NULL, 1) == TIDE_OK ? out
                                                                                         : NULL;
}

tide_status tide_expr_apply_many(tide_expr *ref, const tide_arg *args, size_t n, tide_array **outs,
                                 size_t m) {
    tide_status s = no_nulls("tide_expr_apply_many", args, n, NULL, 0);
    if (s != TIDE_OK) return s;
    tidei_expr *e = find_expr(ref, "tide_expr_apply_many");
    if (!e) return tidei_last_status();
    return tidei_expr_run(e, "tide_expr_apply_many", args, n, NULL, outs, NULL, m);
}

tide_status tide_expr_apply_into(tide_array *const *dsts, size_t m, tide_expr *ref,
                                 const tide_arg *args, size_t n) {
    tide_status s = no_nulls("tide_expr_apply_into", args, n, dsts, m);
    if (s != TIDE_OK) return s;
    tidei_expr *e = find_expr(ref, "tide_expr_apply_into");
    if (!e) return tidei_last_status();
    if (!dsts)
        return tidei_fail(TIDE_E_INVALID, "tide_expr_apply_into",
                          "the list of destinations is NULL");
    return tidei_expr_run(e, "tide_expr_apply_into", args, n, NULL, NULL, dsts, m);
}

static tide_status map_text(tidei_runtime *rt, const char *text, const char *op,
                            const tide_arg *args, size_t n, tide_array **outs,
                            tide_array *const *dsts, size_t m) {
    bool own;
    if (!text) return tidei_fail(TIDE_E_INVALID, op, "the text is NULL");
    tidei_expr *e = by_text(rt, text, op, &own);
    if (!e) return tidei_last_status();
    tide_status s = tidei_expr_run(e, op, args, n, NULL, outs, dsts, m);
    if (own) release(e);
    return s;
}

tide_status tidei_expr_map(tidei_runtime *rt, const char *text, const char *op,
                           const tide_arg *args, size_t n, tide_array **out,
                           tide_array *const *dst) {
    return map_text(rt, text, op, args, n, out, dst, 1) == TIDE_OK ? TIDE_OK : tidei_fail_as(op);
}

tide_array *tide_map_args(tide_runtime *ref, const char *text, const tide_arg *args, size_t n) {
    tide_array *out = NULL;
    if (no_nulls("tide_map", args, n, NULL, 0) != TIDE_OK) return NULL;
    tidei_runtime *rt = tidei_entered(ref, "tide_map");
    if (!rt) return NULL;
    return map_text(rt, text, "tide_map", args, n, &out, NULL, 1) == TIDE_OK ? out : NULL;
}

tide_status tide_map_many_args(tide_runtime *ref, const char *text, const tide_arg *args, size_t n,
                               tide_array **outs, size_t m) {
    tide_status s = no_nulls("tide_map_many", args, n, NULL, 0);
    if (s != TIDE_OK) return s;
    tidei_runtime *rt = tidei_entered(ref, "tide_map_many");
    if (!rt) return tidei_last_status();
    return map_text(rt, text, "tide_map_many", args, n, outs, NULL, m);
}

tide_status tide_map_into_args(tide_array *dst, const char *text, const tide_arg *args, size_t n) {
    tidei_runtime *rt;
    tide_status s = no_nulls("tide_map_into", args, n, &dst, 1);
    if (s == TIDE_OK) s = tidei_operand_runtime(dst, "tide_map_into", TIDEI_DESTINATION(0), &rt);
    return s == TIDE_OK ? map_text(rt, text, "tide_map_into", args, n, NULL, &dst, 1) : s;
}

/* ---- named expressions ---- */

/* (a, b, ..) -> node(a, b, ..), without text. `n` is its number of parameters. */
static tidei_expr *make_named(tidei_runtime *rt, const char *name, unsigned n,
                              tidei_ast_node node) {
    tidei_expr *e = tidei_host_alloc(rt, sizeof *e);
    size_t bytes = sizeof(tidei_axes) + 4 * sizeof(tidei_ast_node);
    char *block = tidei_host_alloc(rt, bytes);
    if (!e || !block) {
        tidei_host_free(rt, e);
        tidei_host_free(rt, block);
        return tidei_fail_host_memory(name, sizeof *e + bytes), NULL;
    }
    e->rt = rt;
    tidei_ast *a = &e->ast;
    a->op = name;
    a->numbers = (tide_arg *)block; /* none; the block is freed through it */
    a->nodes = (tidei_ast_node *)block;
    a->folds = (tidei_axes *)(a->nodes + 4);
    a->nparams = n;
    for (unsigned i = 0; i < n; i++)
        a->nodes[a->nnodes++] = (tidei_ast_node){.kind = TIDEI_AST_PARAM, .a = (uint16_t)i};
    a->results[a->nresults++] = (uint16_t)a->nnodes;
    a->nodes[a->nnodes++] = node;
    if (node.kind == TIDEI_AST_FOLD) a->folds[a->nfolds++] = (tidei_axes){.n = TIDEI_AXES_GIVEN};
    enlist(e);
    return e;
}

/* Puts e into its slot, unless another thread was faster. */
static tidei_expr *settle(_Atomic(tidei_expr *) *slot, tidei_expr *e) {
    tidei_expr *there = NULL;
    if (!e || atomic_compare_exchange_strong(slot, &there, e)) return e;
    release(e);
    return there;
}

tidei_expr *tidei_expr_named_op(tidei_runtime *rt, int op, const char *name) {
    _Atomic(tidei_expr *) *slot = &tidei_exprs_of(rt)->ops[op];
    tidei_expr *e = atomic_load_explicit(slot, memory_order_acquire);
    if (e) return e;
    tidei_ast_node node = {.kind = TIDEI_AST_OP, .what = (uint8_t)op, .a = 0, .b = 1, .c = 2};
    return settle(slot, make_named(rt, name, (unsigned)tidei_op_infos[op].arity, node));
}

tidei_expr *tidei_expr_named_fold(tidei_runtime *rt, int fold, const char *name) {
    _Atomic(tidei_expr *) *slot = &tidei_exprs_of(rt)->folds[fold];
    tidei_expr *e = atomic_load_explicit(slot, memory_order_acquire);
    if (e) return e;
    return settle(
        slot,
        make_named(rt, name, 1, (tidei_ast_node){.kind = TIDEI_AST_FOLD, .what = (uint8_t)fold}));
}
