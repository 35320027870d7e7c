/* expr.c: the public functions over expressions: making them, applying them, finding them by their text; and the named
** ones that the other public functions share. */
#include "arrays/expr/front.h"
#include <xxhash.h>

/* ---- a runtime's expressions ---- */

tide_status tidei_exprs_open(tide_runtime *rt) {
    struct tidei_exprs *x = tidei_host_alloc(rt, sizeof *x);
    if (!x) return tidei_fail_host_memory("tide_open", sizeof *x);
    pthread_mutex_init(&x->lock, NULL);
    tidei_arrays_of(rt)->exprs = x;
    return TIDE_OK;
}

static void enlist(tide_expr *e) {
    struct tidei_exprs *x = tidei_exprs_of(e->rt);
    pthread_mutex_lock(&x->lock);
    e->next = x->all;
    e->prev = &x->all;
    if (e->next) e->next->prev = &e->next;
    x->all = e;
    pthread_mutex_unlock(&x->lock);
}

static void delist(tide_expr *e) {
    struct tidei_exprs *x = tidei_exprs_of(e->rt);
    pthread_mutex_lock(&x->lock);
    *e->prev = e->next;
    if (e->next) e->next->prev = e->prev;
    pthread_mutex_unlock(&x->lock);
}

static void free_expr(tide_expr *e) {
    tide_runtime *rt = e->rt;
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

void tidei_exprs_close(tide_runtime *rt) {
    struct tidei_exprs *x = tidei_exprs_of(rt);
    if (!x) return;
    for (tide_expr *e = x->all, *next; e; e = next) {
        next = e->next;
        free_expr(e);
    }
    tidei_programs_close(rt, x);
    pthread_mutex_destroy(&x->lock);
    tidei_host_free(rt, x);
    tidei_arrays_of(rt)->exprs = NULL;
}

/* ---- text ---- */

static tide_expr *new_expr(tide_runtime *rt, const char *text, const char *op) {
    size_t bytes = strlen(text) + 1;
    tide_expr *e = tidei_host_alloc(rt, sizeof *e);
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

tide_expr *tide_expr_new(tide_runtime *rt, const char *text) {
    if (!rt || !text)
        return tidei_fail(TIDE_E_INVALID, "tide_expr_new", "%s is NULL", rt ? "the text" : "the runtime"), NULL;
    return tidei_thread_get(rt) ? new_expr(rt, text, "tide_expr_new") : NULL;
}

void tide_expr_release(tide_expr *e) {
    if (!e) return;
    delist(e);
    free_expr(e);
}

static tide_expr *find_text(tide_expr *e, const char *text, uint64_t hash) {
    while (e && (e->hash != hash || strcmp(e->text, text) != 0)) e = e->next_text;
    return e;
}

/* The expression of a text. *own: it is not remembered, and the caller releases it. */
static tide_expr *by_text(tide_runtime *rt, const char *text, const char *op, bool *own) {
    struct tidei_exprs *x = tidei_exprs_of(rt);
    uint64_t hash = XXH3_64bits(text, strlen(text));
    _Atomic(tide_expr *) *bucket = &x->texts[hash & (TIDEI_BUCKETS - 1)];
    tide_expr *head = atomic_load_explicit(bucket, memory_order_acquire), *e = find_text(head, text, hash), *mine;
    *own = false;
    if (e || !(mine = new_expr(rt, text, op))) return e;
    if (atomic_load(&x->ntexts) >= TIDEI_TEXTS_MAX) return *own = true, mine;
    mine->hash = hash;
    for (;;) { /* another thread may have made it meanwhile */
        mine->next_text = head;
        if (atomic_compare_exchange_weak(bucket, &head, mine)) return atomic_fetch_add(&x->ntexts, 1), mine;
        if (!(e = find_text(head, text, hash))) continue;
        tide_expr_release(mine);
        return e;
    }
}

/* ---- applying ---- */

tide_array *tide_apply(tide_expr *e, const tide_arg *args, size_t n) {
    tide_array *out = NULL;
    if (!e) return tidei_fail(TIDE_E_INVALID, "tide_apply", "the expression is NULL"), NULL;
    return tidei_expr_run(e, "tide_apply", args, n, NULL, &out, NULL, 1) == TIDE_OK ? out : NULL;
}

tide_status tide_apply_many(tide_expr *e, const tide_arg *args, size_t n, tide_array **outs, size_t m) {
    if (!e) return tidei_fail(TIDE_E_INVALID, "tide_apply_many", "the expression is NULL");
    return tidei_expr_run(e, "tide_apply_many", args, n, NULL, outs, NULL, m);
}

tide_status tide_apply_into(tide_expr *e, const tide_arg *args, size_t n, tide_array *const *dsts, size_t m) {
    if (!e || !dsts)
        return tidei_fail(TIDE_E_INVALID, "tide_apply_into", "%s is NULL",
                          e ? "the list of destinations" : "the expression");
    return tidei_expr_run(e, "tide_apply_into", args, n, NULL, NULL, dsts, m);
}

tide_status tidei_expr_map(tide_runtime *rt, const char *text, const char *op, const tide_arg *args, size_t n,
                           tide_array **out, tide_array *const *dst) {
    bool own;
    if (!rt || !text) return tidei_fail(TIDE_E_INVALID, op, "%s is NULL", rt ? "the text" : "the runtime");
    if (!tidei_thread_get(rt)) return tidei_last_status();
    tide_expr *e = by_text(rt, text, op, &own);
    if (!e) return tidei_last_status();
    tide_status s = tidei_expr_run(e, op, args, n, NULL, out, dst, 1);
    if (own) tide_expr_release(e);
    return s;
}

tide_array *tide_map_args(tide_runtime *rt, const char *text, const tide_arg *args, size_t n) {
    tide_array *out = NULL;
    return tidei_expr_map(rt, text, "tide_map", args, n, &out, NULL) == TIDE_OK ? out : NULL;
}

tide_status tide_map_into_args(tide_array *dst, const char *text, const tide_arg *args, size_t n) {
    tide_runtime *rt;
    tide_status s = tidei_operand_runtime(dst, "tide_map_into", &rt);
    return s == TIDE_OK ? tidei_expr_map(rt, text, "tide_map_into", args, n, NULL, &dst) : s;
}

/* ---- named expressions ---- */

/* (a, b, ..) -> node(a, b, ..), without text. `n` is its number of parameters. */
static tide_expr *make_named(tide_runtime *rt, const char *name, unsigned n, tidei_ast_node node) {
    tide_expr *e = tidei_host_alloc(rt, sizeof *e);
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
static tide_expr *settle(_Atomic(tide_expr *) *slot, tide_expr *e) {
    tide_expr *there = NULL;
    if (!e || atomic_compare_exchange_strong(slot, &there, e)) return e;
    tide_expr_release(e);
    return there;
}

tide_expr *tidei_expr_named_op(tide_runtime *rt, int op, const char *name) {
    _Atomic(tide_expr *) *slot = &tidei_exprs_of(rt)->ops[op];
    tide_expr *e = atomic_load_explicit(slot, memory_order_acquire);
    if (e) return e;
    tidei_ast_node node = {.kind = TIDEI_AST_OP, .what = (uint8_t)op, .a = 0, .b = 1, .c = 2};
    return settle(slot, make_named(rt, name, (unsigned)tidei_op_infos[op].arity, node));
}

tide_expr *tidei_expr_named_fold(tide_runtime *rt, int fold, const char *name) {
    _Atomic(tide_expr *) *slot = &tidei_exprs_of(rt)->folds[fold];
    tide_expr *e = atomic_load_explicit(slot, memory_order_acquire);
    if (e) return e;
    return settle(slot, make_named(rt, name, 1, (tidei_ast_node){.kind = TIDEI_AST_FOLD, .what = (uint8_t)fold}));
}
