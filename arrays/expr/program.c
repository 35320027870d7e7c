/* program.c: programs as such: their key, their validity, the runtime's table of them. */
#include "arrays/expr/front.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- the key ---- */

static bool is_leaf(int op) {
    return op == TIDEI_OP_INPUT || op == TIDEI_OP_SCALAR || op == TIDEI_OP_LINEAR;
}

/* Zeroes what is not used, so that equal programs are equal bytes. */
static void canonical(tidei_program *p) {
    for (unsigned i = 0; i < p->nnodes; i++) {
        tidei_node *n = &p->nodes[i];
        if (n->op == TIDEI_OP_FOLD) {
            n->b = 0;
            continue;
        }
        int used = n->op == TIDEI_OP_LINEAR ? 0 : is_leaf(n->op) ? 1 : tidei_op_infos[n->op].arity;
        if (used < 1) n->a = 0;
        if (used < 2) n->b = 0;
        if (used < 3) n->c = 0;
    }
    memset(p->nodes + p->nnodes, 0, (TIDEI_NODES_MAX - p->nnodes) * sizeof *p->nodes);
    memset(p->input_dtype + p->ninputs, 0, TIDEI_INPUTS_MAX - p->ninputs);
    memset(p->scalar_dtype + p->nscalars, 0, TIDEI_SCALARS_MAX - p->nscalars);
    memset(p->out_node + p->nouts, 0, (TIDEI_OUTS_MAX - p->nouts) * sizeof *p->out_node);
    memset(p->out_dtype + p->nouts, 0, TIDEI_OUTS_MAX - p->nouts);
    if (p->fold == TIDEI_FOLD_NONE) p->acc_dtype = 0;
}

void tidei_program_seal(tidei_program *p) {
    /* the used parts, one after the other; their lengths come first */
    unsigned char bytes[sizeof(tidei_program)];
    size_t n = 0;
    canonical(p);
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = {{&p->nnodes, 4 * sizeof p->nnodes},
                 {&p->fold, 1},
                 {&p->acc_dtype, 1},
                 {&p->nfolds, 1},
                 {p->nodes, p->nnodes * sizeof *p->nodes},
                 {p->input_dtype, p->ninputs},
                 {p->scalar_dtype, p->nscalars},
                 {p->out_node, p->nouts * sizeof *p->out_node},
                 {p->out_dtype, p->nouts}};
    for (size_t i = 0; i < TIDEI_COUNT(parts); n += parts[i++].bytes)
        memcpy(bytes + n, parts[i].from, parts[i].bytes);
    XXH128_hash_t h = XXH3_128bits(bytes, n);
    p->key[0] = h.low64;
    p->key[1] = h.high64;
}
_Static_assert(offsetof(tidei_program, nouts) == 3 * sizeof(uint16_t),
               "the four counts lie together");

/* ---- validity ---- */

static bool valid_op(const tidei_program *p, const tidei_node *n) {
    const tidei_op_info *info = &tidei_op_infos[n->op];
    const uint16_t operands[3] = {n->a, n->b, n->c};
    tide_dtype t = -1;
    for (int i = 0; i < info->arity; i++) {
        tide_dtype x = p->nodes[operands[i]].dtype;
        if (info->rule == TIDEI_RULE_SELECT && i == 0) {
            if (x != TIDE_BOOL) return false;
        } else if (t >= 0 && x != t)
            return false;
        else
            t = x;
    }
    return info->classes & tidei_class(t) && n->dtype == tidei_op_result(n->op, t);
}

static bool valid_scan(int fold, tide_dtype t, tide_dtype stored) {
    tide_dtype acc, out;
    return fold < TIDEI_FOLDS && tidei_fold_types(fold, t, &acc, &out) && stored == out;
}

static bool valid_fold(int fold, tide_dtype acc, tide_dtype out) {
    if (tidei_is_scan(fold)) return valid_scan(fold, acc, out);
    bool stores = out == acc || (acc == TIDE_F32 && (out == TIDE_F16 || out == TIDE_BF16));
    bool half = acc == TIDE_F16 || acc == TIDE_BF16;
    switch (fold) {
    case TIDEI_FOLD_SUM:
    case TIDEI_FOLD_PROD:
        return stores && !half && (acc == TIDE_I64 || acc == TIDE_U64 || tidei_rank(acc) >= 2);
    case TIDEI_FOLD_MEAN: return stores && !half && tidei_rank(acc) >= 2;
    case TIDEI_FOLD_MIN:
    case TIDEI_FOLD_MAX: return stores && !half && tidei_rank(acc) < 3;
    case TIDEI_FOLD_ANY:
    case TIDEI_FOLD_ALL: return acc == TIDE_BOOL && out == TIDE_BOOL;
    case TIDEI_FOLD_ARGMIN:
    case TIDEI_FOLD_ARGMAX: return out == TIDE_I64 && !half && tidei_rank(acc) < 3;
    default: return false;
    }
}

static bool valid_node(const tidei_program *p, unsigned i) {
    const tidei_node *n = &p->nodes[i];
    const uint16_t operands[3] = {n->a, n->b, n->c};
    if (n->dtype >= TIDE_DTYPE_COUNT) return false;
    if (n->op == TIDEI_OP_FOLD)
        return p->nfolds && n->a < i && !tidei_is_scan(n->c) &&
               valid_fold(n->c, p->nodes[n->a].dtype, n->dtype);
    if (n->op >= TIDEI_OP_COUNT) return false;
    if (n->op == TIDEI_OP_INPUT) return n->a < p->ninputs && n->dtype == p->input_dtype[n->a];
    if (n->op == TIDEI_OP_SCALAR) return n->a < p->nscalars && n->dtype == p->scalar_dtype[n->a];
    if (n->op == TIDEI_OP_LINEAR) return n->dtype == TIDE_I64;
    for (int k = 0; k < tidei_op_infos[n->op].arity; k++)
        if (operands[k] >= i) return false;
    if (n->op != TIDEI_OP_CAST) return valid_op(p, n);
    int from = tidei_rank(p->nodes[n->a].dtype), to = tidei_rank(n->dtype);
    return from < 3 || to == 3 || to == 0;
}

bool tidei_program_valid(const tidei_program *p) {
    if (!p->nnodes || p->nnodes > TIDEI_NODES_MAX || p->ninputs > TIDEI_INPUTS_MAX ||
        p->nscalars > TIDEI_SCALARS_MAX || !p->nouts || p->nouts > TIDEI_OUTS_MAX)
        return false;
    for (unsigned i = 0; i < p->ninputs; i++)
        if (p->input_dtype[i] >= TIDE_DTYPE_COUNT) return false;
    for (unsigned i = 0; i < p->nscalars; i++)
        if (p->scalar_dtype[i] >= TIDE_DTYPE_COUNT) return false;
    for (unsigned i = 0; i < p->nnodes; i++)
        if (!valid_node(p, i)) return false;
    for (unsigned i = 0; i < p->nouts; i++)
        if (p->out_node[i] >= p->nnodes) return false;
    if (p->fold != TIDEI_FOLD_NONE)
        return !p->nfolds && p->nouts == 1 && p->nodes[p->out_node[0]].dtype == p->acc_dtype &&
               valid_fold(p->fold, p->acc_dtype, p->out_dtype[0]);
    for (unsigned i = 0; i < p->nouts; i++)
        if (p->out_dtype[i] != p->nodes[p->out_node[i]].dtype) return false;
    return true;
}

/* ---- the table ---- */

typedef struct tidei_program_entry {
    struct tidei_program_entry *next;
    tidei_program p;
} entry;

static bool equal(const tidei_program *a, const tidei_program *b) { /* both canonical */
    return a->key[0] == b->key[0] && a->key[1] == b->key[1] && a->nnodes == b->nnodes &&
           a->ninputs == b->ninputs && a->nscalars == b->nscalars && a->nouts == b->nouts &&
           a->fold == b->fold && a->acc_dtype == b->acc_dtype && a->nfolds == b->nfolds &&
           !memcmp(a->nodes, b->nodes, a->nnodes * sizeof *a->nodes) &&
           !memcmp(a->input_dtype, b->input_dtype, sizeof a->input_dtype) &&
           !memcmp(a->scalar_dtype, b->scalar_dtype, sizeof a->scalar_dtype) &&
           !memcmp(a->out_node, b->out_node, sizeof a->out_node) &&
           !memcmp(a->out_dtype, b->out_dtype, sizeof a->out_dtype);
}

static entry *find(entry *e, const tidei_program *p) {
    while (e && !equal(&e->p, p)) e = e->next;
    return e;
}

tidei_program *tidei_program_shared(tidei_runtime *rt, const tidei_program *wanted) {
    struct tidei_exprs *x = tidei_exprs_of(rt);
    tidei_program p = *wanted;
    tidei_program_seal(&p);
    tidei_check(tidei_program_valid(&p));
    _Atomic(entry *) *bucket = &x->programs[p.key[0] & (TIDEI_BUCKETS - 1)];
    entry *head = atomic_load_explicit(bucket, memory_order_acquire), *e = find(head, &p), *mine;
    if (e) return &e->p;
    mine = tidei_host_alloc(rt, sizeof *mine);
    if (!mine) return NULL;
    mine->p = p;
    atomic_init(&mine->p.prepared[0], NULL);
    atomic_init(&mine->p.prepared[1], NULL);
    for (;;) { /* another thread may have made it meanwhile */
        mine->next = head;
        if (atomic_compare_exchange_weak(bucket, &head, mine))
            return atomic_fetch_add(&x->nprograms, 1), &mine->p;
        if (!(e = find(head, &p))) continue;
        tidei_host_free(rt, mine);
        return &e->p;
    }
}

static void forget(tidei_runtime *rt, tidei_program *p) {
    if (atomic_load(&p->prepared[0])) tidei_backend_host.forget(rt, p);
    if (atomic_load(&p->prepared[1])) tidei_backend_text.forget(rt, p);
}

void tidei_programs_close(tidei_runtime *rt, struct tidei_exprs *x) {
    for (unsigned i = 0; i < TIDEI_BUCKETS; i++) {
        entry *e = atomic_load(&x->programs[i]);
        while (e) {
            entry *next = e->next;
            forget(rt, &e->p);
            tidei_host_free(rt, e);
            e = next;
        }
    }
}
