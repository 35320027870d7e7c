/* vm.c: the host back end: finds the instruction set, compiles programs once, and queues calls on a
** stream as host functions. A call is copied by value, as words, so the worker needs none of the
** caller's memory. */
#include "arrays/expr/vm_program.h"

/* ---- instruction sets ---- */
#define SETS_MAX 3
static tidei_vm_kernels sets[SETS_MAX];
static unsigned nsets;
static pthread_once_t sets_once = PTHREAD_ONCE_INIT;

static void find_sets(void) {
#ifdef TIDEI_VM_X86 /* the build has them */
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        tidei_vm_kernels_avx512(&sets[nsets++]);
    if (__builtin_cpu_supports("avx2")) tidei_vm_kernels_avx2(&sets[nsets++]);
#endif
    tidei_vm_kernels_base(&sets[nsets++]);
}

const tidei_vm_kernels *tidei_vm_kernels_at(unsigned i) {
    (void)pthread_once(&sets_once, find_sets);
    return i < nsets ? &sets[i] : NULL;
}

/* ---- a call as words ---- program; ndim, nred and backwards; shape; address and strides of each
** operand; scalars. */
typedef union word {
    int64_t i;
    uint64_t u;
    const tidei_vm_program *p;
} word;
#define WORDS_MAX                                                                                  \
    (2 + TIDE_MAX_RANK + (TIDEI_INPUTS_MAX + TIDEI_OUTS_MAX) * (1 + TIDE_MAX_RANK) +               \
     2 * TIDEI_SCALARS_MAX)
_Static_assert(WORDS_MAX * sizeof(word) <= TIDEI_PARAMS_MAX,
               "every call fits into the parameters of a launch");

typedef struct message {
    word words[WORDS_MAX];
    unsigned n;
    /* where addresses are: byte offsets within their uses, until the submission adds these */
    size_t address[TIDEI_INPUTS_MAX + TIDEI_OUTS_MAX];
    tidei_use uses[TIDEI_INPUTS_MAX + TIDEI_OUTS_MAX];
    unsigned nuses;
} message;

static void put_operand(message *m, const tidei_call *c, int ndim, const tidei_view *v,
                        tide_dtype t, unsigned mode) {
    const int64_t size = (int64_t)tide_dtype_size(t);
    int64_t lo = 0, hi = 0; /* the elements touched, from the view's first */
    word *first = &m->words[m->n++];
    m->address[m->nuses] = (size_t)((char *)first - (char *)m->words);
    for (int d = 0; d < ndim; d++) {
        const int64_t last = (c->shape[d] - 1) * v->strides[d];
        if (last < 0)
            lo += last;
        else
            hi += last;
        m->words[m->n++].i = v->strides[d];
    }
    first->i = -lo * size;
    m->uses[m->nuses++] =
        (tidei_use){v->st, (size_t)((v->offset + lo) * size), (size_t)((hi - lo + 1) * size), mode};
}

static void put_call(message *m, const tidei_call *c, const tidei_vm_program *vp) {
    const tidei_program *p = c->prog;
    m->words[0].p = vp;
    const bool scan = tidei_is_scan(p->fold);
    m->words[1].u =
        (uint64_t)c->ndim << 32 | (uint64_t)(scan && c->backwards) << 16 | (uint64_t)c->nred;
    m->n = 2;
    m->nuses = 0;
    for (int d = 0; d < c->ndim; d++) m->words[m->n++].i = c->shape[d];
    for (unsigned i = 0; i < p->ninputs; i++)
        put_operand(m, c, c->ndim, &c->in[i], p->input_dtype[i], TIDEI_READ);
    for (unsigned i = 0; i < p->nouts; i++)
        put_operand(m, c, scan ? c->ndim : c->ndim - c->nred, &c->out[i], p->out_dtype[i],
                    TIDEI_WRITE);
    memcpy(&m->words[m->n], c->scalars, p->nscalars * sizeof c->scalars[0]);
    m->n += 2u * p->nscalars;
}

static const word *take_operand(const word *x, int ndim, tidei_vm_operand *out) {
    out->base = (unsigned char *)(uintptr_t)(x++)->u;
    for (int d = 0; d < TIDE_MAX_RANK; d++) out->strides[d] = d < ndim ? (x++)->i : 0;
    return x;
}

/* On the stream's worker. */
static void run_message(const void *params) {
    const word *x = params;
    const tidei_vm_program *vp = (x++)->p;
    tidei_vm_call c;
    c.ndim = (int)(x->u >> 32);
    c.backwards = x->u >> 16 & 1;
    c.nred = (int)(x++->u & UINT16_MAX);
    for (int d = 0; d < c.ndim; d++) c.shape[d] = (x++)->i;
    for (unsigned i = 0; i < vp->ninputs; i++) x = take_operand(x, c.ndim, &c.in[i]);
    for (unsigned i = 0; i < vp->nouts; i++)
        x = take_operand(x, vp->scan ? c.ndim : c.ndim - c.nred, &c.out[i]);
    memcpy(c.scalars, x, vp->nscalars * sizeof c.scalars[0]);
    tidei_vm_run(vp, &c);
}

/* ---- the back end ---- */
/* The compiled program, made by the first caller. */
static tide_status prepared(tidei_runtime *rt, tidei_program *p, const char *op,
                            tidei_vm_program **out) {
    void *there = atomic_load_explicit(&p->prepared[0], memory_order_acquire);
    tidei_vm_program *mine = NULL;
    if (!there) {
        tide_status s = tidei_vm_compile(rt, p, tidei_vm_kernels_at(0), op, &mine);
        if (s != TIDE_OK) return s;
        if (atomic_compare_exchange_strong(&p->prepared[0], &there, mine))
            there = mine;
        else
            tidei_vm_release(rt, mine); /* another thread was first */
    }
    *out = there;
    return TIDE_OK;
}

static tide_status vm_run(tidei_stream *s, tidei_call *c, const char *op) {
    tidei_vm_program *vp = NULL;
    message m;
    tidei_launch l = {.name = "expression", .host_fn = run_message, .params = m.words};
    tide_status st = prepared(s->dev->rt, c->prog, op, &vp);
    if (st != TIDE_OK) return st;
    put_call(&m, c, vp);
    l.params_bytes = m.n * sizeof(word);
    l.scalars_at = (m.n - 2u * c->prog->nscalars) * sizeof(word);
    return tidei_submit_launch(s, m.uses, m.nuses, &l, m.words, m.address, op);
}

static void vm_forget(tidei_runtime *rt, tidei_program *p) {
    tidei_vm_release(rt, atomic_exchange(&p->prepared[0], NULL));
}

const tidei_backend tidei_backend_host = {"host", vm_run, vm_forget, NULL, NULL};
