/* vm_compile.c: programs to instructions of the interpreter.
**
** Nodes are taken in their order. A value gets the first free register of its width; the registers
** of operands that die at an instruction are free for its result (loops may work in place). A value
** that is stored as it is goes straight to its output. f16 and bf16 are floats in registers:
** loaded, rounded after each operation, stored.
** What must stay true: input_last and out_written are exact, because an output may lie over an
** input (vm_run.c). */
#include "arrays/expr/vm_program.h"

enum { NOT_LIVE = 0xffff, INSTRS_MAX = 2 * TIDEI_NODES_MAX + TIDEI_OUTS_MAX };

typedef struct compiler {
    const tidei_program *p;
    tidei_vm_program *vp;
    const char *op;
    /* node that reads it last, nnodes for an output; NOT_LIVE */
    uint16_t last_use[TIDEI_NODES_MAX];
    uint16_t slot[TIDEI_NODES_MAX]; /* where the node's value is */
    /* output that the value goes straight to, or TIDEI_OUTS_MAX */
    uint16_t direct[TIDEI_NODES_MAX];
    bool computed_with
        /* its value is an operand of a live node, or folded: storing it does not count */
        [TIDEI_NODES_MAX];
    bool free_reg[TIDEI_NODES_MAX];
} compiler;

static tide_status missing(const compiler *c, const char *what, unsigned dtype) {
    return tidei_fail(TIDE_E_UNSUPPORTED, c->op, "the host back end has no %s of %s", what,
                      tide_dtype_name((tide_dtype)dtype));
}

static void emit(compiler *c, tidei_vm_fn *fn, unsigned d, unsigned a, unsigned b, unsigned c3) {
    tidei_vm_program *vp = c->vp;
    const unsigned reads[3] = {a, b, c3};
    tidei_check(vp->ninstrs < INSTRS_MAX);
    for (int i = 0; i < 3; i++) {
        if (reads[i] < VM_SLOT_SCALAR)
            vp->input_last[reads[i] - VM_SLOT_INPUT] = (uint16_t)vp->ninstrs;
        if (reads[i] == VM_SLOT_LINEAR) vp->linear = true;
    }
    if (d >= VM_SLOT_OUT && d < VM_SLOT_LINEAR)
        vp->out_written[d - VM_SLOT_OUT] = (uint16_t)vp->ninstrs;
    vp->instrs[vp->ninstrs++] =
        (tidei_vm_instr){fn, (uint16_t)d, (uint16_t)a, (uint16_t)b, (uint16_t)c3};
}

/* ---- registers ---- */
static unsigned new_register(compiler *c, unsigned width) {
    tidei_vm_program *vp = c->vp;
    unsigned r = 0;
    while (r < vp->nregs && !(c->free_reg[r] && vp->reg_width[r] == width)) r++;
    if (r == vp->nregs) vp->nregs++;
    vp->reg_width[r] = (uint8_t)width;
    c->free_reg[r] = false;
    return VM_SLOT_REGISTER + r;
}
static void end_operand(compiler *c, unsigned node, unsigned user) {
    if (c->last_use[node] == user && c->slot[node] >= VM_SLOT_REGISTER)
        c->free_reg[c->slot[node] - VM_SLOT_REGISTER] = true;
}

/* ---- liveness ---- */
static unsigned operands(const tidei_node *n, uint16_t out[3]) {
    out[0] = n->a;
    out[1] = n->b;
    out[2] = n->c;
    return n->op < TIDEI_OP_CAST ? 0 : (unsigned)tidei_op_infos[n->op].arity;
}
static void find_uses(compiler *c) {
    const tidei_program *p = c->p;
    uint16_t x[3];
    for (unsigned i = 0; i < p->nnodes; i++)
        c->last_use[i] = NOT_LIVE, c->direct[i] = TIDEI_OUTS_MAX;
    for (unsigned i = 0; i < p->nouts; i++) {
        c->last_use[p->out_node[i]] = p->nnodes;
        c->computed_with[p->out_node[i]] = p->fold != TIDEI_FOLD_NONE;
    }
    for (unsigned i = p->nnodes; i-- > 0;) {
        if (c->last_use[i] == NOT_LIVE) continue;
        for (unsigned n = operands(&p->nodes[i], x); n-- > 0;) {
            c->computed_with[x[n]] = true;
            if (c->last_use[x[n]] == NOT_LIVE) c->last_use[x[n]] = (uint16_t)i;
        }
    }
}
/* A computed value whose lanes are elements as they are stored needs no register: it is computed in
** the first of its outputs. */
static void find_direct(compiler *c) {
    const tidei_program *p = c->p;
    if (p->fold != TIDEI_FOLD_NONE) return;
    for (unsigned i = p->nouts; i-- > 0;) {
        const tidei_node *n = &p->nodes[p->out_node[i]];
        if (n->op >= TIDEI_OP_CAST && !tidei_vm_is_half(n->dtype))
            c->direct[p->out_node[i]] = (uint16_t)i;
    }
}

/* ---- nodes ---- */
static unsigned destination(compiler *c, unsigned node) {
    if (c->direct[node] < TIDEI_OUTS_MAX) return (unsigned)VM_SLOT_OUT + c->direct[node];
    return new_register(c, tidei_vm_value_width(c->p->nodes[node].dtype));
}

static tide_status compile_input(compiler *c, unsigned i) {
    const tidei_node *n = &c->p->nodes[i];
    c->vp->input_width[n->a] = (uint8_t)tide_dtype_size(n->dtype);
    c->vp->cost += TIDEI_VM_COST_BYTE * c->vp->input_width[n->a];
    c->slot[i] = (uint16_t)(VM_SLOT_INPUT + n->a);
    if (tidei_vm_is_half(n->dtype) && c->computed_with[i]) {
        const unsigned d = destination(c, i);
        emit(c, c->vp->k->load[n->dtype], d, c->slot[i], c->slot[i], c->slot[i]);
        c->slot[i] = (uint16_t)d;
    }
    return TIDE_OK;
}

/* Functions of the C library are those by which the back ends' results differ; quotients of
** integers have no vector loops either. */
static unsigned cost_of(int op, unsigned t) {
    return tidei_op_ulps(op, (tide_dtype)t) || tidei_op_infos[op].rule == TIDEI_RULE_REAL
               ? TIDEI_VM_COST_FUNCTION
               : TIDEI_VM_COST_INSTR;
}

static tide_status compile_operation(compiler *c, unsigned i) {
    const tidei_node *n = &c->p->nodes[i];
    const tidei_vm_kernels *k = c->vp->k;
    uint16_t x[3];
    const unsigned arity = operands(n, x);
    /* The type that picks the loop: of the last operand, because WHERE's first is a bool. */
    const unsigned t = c->p->nodes[x[arity - 1]].dtype;
    tidei_vm_fn *fn = n->op == TIDEI_OP_CAST ? k->cast[t][n->dtype] : k->op[n->op][t];
    unsigned s[3], d;
    if (!fn) return missing(c, tidei_op_infos[n->op].name, n->op == TIDEI_OP_CAST ? n->dtype : t);
    for (unsigned j = 0; j < 3; j++) s[j] = c->slot[x[j < arity ? j : 0]];
    for (unsigned j = 0; j < arity; j++) end_operand(c, x[j], i);
    d = destination(c, i);
    emit(c, fn, d, s[0], s[1], s[2]);
    c->vp->cost += cost_of(n->op, t);
    if (n->op != TIDEI_OP_CAST && tidei_vm_is_half(n->dtype))
        emit(c, k->cast[n->dtype][n->dtype], d, d, d, d);
    c->slot[i] = (uint16_t)d;
    return TIDE_OK;
}

static tide_status compile_node(compiler *c, unsigned i) {
    const tidei_node *n = &c->p->nodes[i];
    switch (n->op) {
    case TIDEI_OP_INPUT: return compile_input(c, i);
    case TIDEI_OP_SCALAR: c->slot[i] = (uint16_t)(VM_SLOT_SCALAR + n->a); return TIDE_OK;
    case TIDEI_OP_LINEAR: c->slot[i] = VM_SLOT_LINEAR; return TIDE_OK;
    default: return compile_operation(c, i);
    }
}

/* Outputs that no instruction wrote directly are written at the end: copies of leaves, second
** outputs of a value, f16 and bf16. */
static void compile_out(compiler *c, unsigned o) {
    const tidei_program *p = c->p;
    const tidei_vm_kernels *k = c->vp->k;
    const tidei_node *n = &p->nodes[p->out_node[o]];
    const unsigned width = (unsigned)tide_dtype_size(n->dtype);
    const unsigned d = VM_SLOT_OUT + o, s = c->slot[p->out_node[o]];
    c->vp->out_width[o] = (uint8_t)width;
    c->vp->cost += TIDEI_VM_COST_BYTE * width;
    if (s == d) return;
    if (n->op == TIDEI_OP_INPUT) {
        const unsigned in = VM_SLOT_INPUT + n->a; /* the bits as they are, of NaN too */
        emit(c, k->copy[tidei_vm_log2(width)], d, in, in, in);
    } else {
        emit(c, tidei_vm_is_half(n->dtype) ? k->store[n->dtype] : k->copy[tidei_vm_log2(width)], d,
             s, s, s);
    }
}

static tide_status compile_fold(compiler *c) {
    const tidei_program *p = c->p;
    tidei_vm_program *vp = c->vp;
    const unsigned fold = p->fold == TIDEI_FOLD_MEAN ? TIDEI_FOLD_SUM : p->fold;
    vp->fold = p->fold;
    vp->acc_dtype = p->acc_dtype;
    vp->out_dtype = p->out_dtype[0];
    vp->out_width[0] = (uint8_t)tide_dtype_size(p->out_dtype[0]);
    vp->value = c->slot[p->out_node[0]];
    vp->cost += TIDEI_VM_COST_INSTR;
    vp->linear |= vp->value == VM_SLOT_LINEAR;
    if (tidei_is_scan(fold)) {
        vp->scan = tidei_scan_find((int)fold - TIDEI_FOLD_CUMSUM, p->acc_dtype);
        return vp->scan ? TIDE_OK : missing(c, "such scan", p->acc_dtype);
    }
    if (fold <= TIDEI_FOLD_ALL ? !vp->k->rows[fold][p->acc_dtype]
                               : !vp->k->argstep[fold == TIDEI_FOLD_ARGMAX][p->acc_dtype])
        return missing(c, "such reduction", p->acc_dtype);
    return TIDE_OK;
}

static tide_status compile_all(compiler *c) {
    const tidei_program *p = c->p;
    tide_status s = TIDE_OK;
    find_uses(c);
    find_direct(c);
    for (unsigned i = 0; i < p->nnodes && s == TIDE_OK; i++)
        if (c->last_use[i] != NOT_LIVE) s = compile_node(c, i);
    if (s != TIDE_OK) return s;
    if (p->fold != TIDEI_FOLD_NONE) return compile_fold(c);
    for (unsigned i = 0; i < p->nouts; i++) compile_out(c, i);
    return TIDE_OK;
}

tide_status tidei_vm_compile(tidei_runtime *rt, const tidei_program *p, const tidei_vm_kernels *k,
                             const char *op, tidei_vm_program **out) {
    const size_t bytes = sizeof(tidei_vm_program) + INSTRS_MAX * sizeof(tidei_vm_instr);
    tidei_vm_program *wide = tidei_host_alloc(rt, bytes), *vp = NULL;
    compiler *c = tidei_host_alloc(rt, sizeof *c);
    tide_status s = wide && c ? TIDE_OK : tidei_fail_host_memory(op, bytes);
    if (s == TIDE_OK) {
        *c = (compiler){.p = p, .vp = wide, .op = op};
        wide->k = k;
        wide->ninputs = p->ninputs;
        wide->nscalars = p->nscalars;
        wide->nouts = p->nouts;
        memcpy(wide->scalar_dtype, p->scalar_dtype, sizeof wide->scalar_dtype);
        s = compile_all(c);
    }
    if (s == TIDE_OK) { /* keeps only the instructions there are */
        const size_t need = sizeof *vp + wide->ninstrs * sizeof(tidei_vm_instr);
        vp = tidei_host_alloc(rt, need);
        if (vp)
            memcpy(vp, wide, need);
        else
            s = tidei_fail_host_memory(op, need);
    }
    tidei_host_free(rt, c);
    tidei_host_free(rt, wide);
    if (s == TIDE_OK) *out = vp;
    return s;
}

void tidei_vm_release(tidei_runtime *rt, tidei_vm_program *vp) { tidei_host_free(rt, vp); }
