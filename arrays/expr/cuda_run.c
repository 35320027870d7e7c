/* cuda_run.c: the back end of devices that run CUDA text: finds or makes the kernel of a call's
** class, launches it.
**
** Model: a program's prepared[1] holds its traits and a list of kernels, one a device and class, or
** a chain's form, that only grows; a warm call walks it without a lock and touches neither text nor
** heap. Folds that several blocks share a result of take two launches, with the accumulators
** between them in a workspace on the stream; those of rows that fit a cluster go as chains; some
** over several dimensions go as two folds, of programs of their own (cuda_steps.h).
** What must stay true: everything that may collect or climb (compiling, workspaces) comes before
** the first launch; a form depends on the call and the device alone, so that results have the same
** bits each time: a refusal of clusters is kept with the kernel that it is of. */
#include "arrays/expr/cuda_chain.h"
#include "arrays/expr/cuda_pairs.h"
#include "arrays/expr/cuda_steps.h"
#include "arrays/kernels/kernels.h"

/* Which kernel of a program: of a class, or of a chain in a form. Zero bytes between. */
typedef struct which {
    tidei_cuda_class cls; /* TIDEI_CUDA_CLASSES: a chain */
    uint32_t sides;       /* of pairs, else 0 */
    tidei_chain_form form;
} which;

typedef struct variant {
    struct variant *next;
    /* owned by the kernel cache, which outlives programs; NULL: the device takes no clusters of so
    ** many blocks of it */
    tidei_dkernel *kernel;
    unsigned dev;
    which of;
} variant;

typedef struct prepared {
    tidei_cuda_traits traits; /* not of chains */
    tidei_chain_traits chain; /* of chains and folds; of others it does not fit */
    _Atomic(variant *) variants;
    _Atomic(tidei_program *) steps[2]; /* of folds: NULL until they are wanted */
} prepared;

static void find_traits(const tidei_program *p, prepared *k) {
    tidei_program chain;
    if (p->nfolds)
        tidei_chain_traits_of(p, &k->chain);
    else
        tidei_cuda_traits_of(p, &k->traits);
    if (p->fold && tidei_chain_of(p, &chain)) tidei_chain_traits_of(&chain, &k->chain);
}

static prepared *prepared_of(tidei_runtime *rt, tidei_program *p) {
    void *there = atomic_load_explicit(&p->prepared[1], memory_order_acquire);
    if (tidei_likely(there != NULL)) return there;
    prepared *mine = tidei_host_alloc(rt, sizeof *mine);
    if (!mine) return NULL;
    find_traits(p, mine);
    if (atomic_compare_exchange_strong_explicit(&p->prepared[1], &there, mine, memory_order_acq_rel,
                                                memory_order_acquire))
        return mine;
    tidei_host_free(rt, mine); /* another thread was faster */
    return there;
}

static const variant *find_variant(prepared *k, unsigned dev, const which *of) {
    for (variant *v = atomic_load_explicit(&k->variants, memory_order_acquire); v; v = v->next)
        if (v->of.cls == of->cls && v->of.sides == of->sides && v->dev == dev &&
            memcmp(&v->of.form, &of->form, sizeof of->form) == 0)
            return v;
    return NULL;
}
static tidei_dkernel *find(prepared *k, unsigned dev, const which *of) {
    const variant *v = find_variant(k, dev, of);
    return v ? v->kernel : NULL;
}

static char *text_of(tidei_runtime *rt, const tidei_program *p, const prepared *k,
                     const which *of) {
    tidei_program chain;
    if (of->cls == TIDEI_CUDA_FOLD_PAIRS)
        return tidei_cuda_pairs_text(rt, p, &k->traits, of->sides, NULL);
    if (of->cls != TIDEI_CUDA_CLASSES) return tidei_cuda_text(rt, p, &k->traits, of->cls, NULL);
    if (p->fold) p = tidei_chain_of(p, &chain) ? &chain : NULL;
    return tidei_chain_text(rt, p, &k->chain, &of->form, NULL);
}

typedef struct widening {
    tidei_device *d;
    tidei_dkernel *k;
    const tidei_chain_form *f;
} widening;

static tide_status attempt_to_widen(void *arg, unsigned flags) {
    const widening *w = arg;
    (void)flags;
    return w->d->ops->kernel_widen(w->d, w->k, w->f->blocks, tidei_chain_threads(w->f),
                                   TIDEI_CUDA_SHARED_MAX);
}

/* The device is asked for the clusters of a kernel that it may not take. Who asks loads the kernel,
** where the driver has put that off. */
static tide_status widen(tidei_dev *d, tidei_dkernel *k, const which *of, const char *op) {
    widening w = {d->d, k, &of->form};
    if (of->cls != TIDEI_CUDA_CLASSES || of->form.blocks <= TIDEI_CLUSTER_SURE ||
        !d->d->ops->kernel_widen)
        return TIDE_OK;
    tide_status s = tidei_outside_with_reclaim(d, TIDEI_LOADED_BYTES, op, attempt_to_widen, &w);
    if (s == TIDE_E_LOST) return tidei_lost(d, op);
    return s == TIDE_OK || s == TIDE_E_NOMEM || s == TIDE_E_UNSUPPORTED ? s : tidei_fail_as(op);
}

/* Makes the kernel: text, compiler or cache, and a new entry of the list. Two threads may both come
** here; both get the same kernel, and the second entry is never looked at. */
static tide_status make(tidei_dev *d, const tidei_program *p, prepared *k, const which *of,
                        const char *op, tidei_dkernel **out) {
    tidei_runtime *rt = d->rt;
    variant *v = tidei_host_alloc(rt, sizeof *v);
    if (!v) return tidei_fail_host_memory(op, sizeof *v);
    char *text = text_of(rt, p, k, of);
    if (!text) {
        tidei_host_free(rt, v);
        return tidei_fail_host_memory(op, strlen(tidei_prelude_text));
    }
    tidei_thread *t = tidei_thread_get(rt);
    tidei_hold(t, tidei_undo_host, v, 0);
    tidei_hold(t, tidei_undo_host, text, 0);
    tide_status s = tidei_kernel_get(d, "tide_k", text, op, &v->kernel);
    tidei_let(t, text);
    tidei_host_free(rt, text);
    bool refused = false;
    if (s == TIDE_OK) {
        s = widen(d, v->kernel, of, op);
        refused = s == TIDE_E_UNSUPPORTED;
    }
    tidei_let(t, v);
    if (s != TIDE_OK && !refused) {
        tidei_host_free(rt, v);
        return s;
    }
    if (refused) v->kernel = NULL;
    v->dev = d->index;
    v->of = *of;
    *out = v->kernel;
    v->next = atomic_load_explicit(&k->variants, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&k->variants, &v->next, v, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return s;
}

/* Another kernel of the program is wanted soon: where it has to be compiled, that begins. */
static void make_ahead(tidei_dev *d, const tidei_program *p, prepared *k, tidei_cuda_class cls) {
    tidei_runtime *rt = d->rt;
    const which of = {.cls = cls};
    char *text = find(k, d->index, &of) ? NULL : tidei_cuda_text(rt, p, &k->traits, cls, NULL);
    if (!text) return;
    tidei_thread *t = tidei_thread_get(rt);
    tidei_hold(t, tidei_undo_host, text, 0);
    tidei_kernel_ahead(d, "tide_k", text);
    tidei_let(t, text);
    tidei_host_free(rt, text);
}

static tide_status kernel_of(tidei_dev *d, const tidei_program *p, prepared *k,
                             tidei_cuda_class cls, const char *op, tidei_dkernel **out) {
    const which of = {.cls = cls};
    *out = find(k, d->index, &of);
    return tidei_likely(*out != NULL) ? TIDE_OK : make(d, p, k, &of, op, out);
}
static tide_status kernel_of_fold(tidei_dev *d, const tidei_program *p, prepared *k,
                                  const tidei_cuda_plan *plan, const char *op,
                                  tidei_dkernel **out) {
    const which of = {.cls = plan->cls, .sides = plan->sides};
    *out = find(k, d->index, &of);
    return tidei_likely(*out != NULL) ? TIDE_OK : make(d, p, k, &of, op, out);
}

/* ---- launching ---- */

/* what a launch touches, and where in each extent its operand's offset lies */
typedef struct operand_uses {
    tidei_use uses[TIDEI_CUDA_OPERANDS_MAX];
    size_t origin[TIDEI_CUDA_OPERANDS_MAX];
    unsigned n;
} operand_uses;

static void add_view(operand_uses *u, const tidei_view *v, int ndim, const int64_t *shape,
                     tide_dtype t, unsigned mode) {
    int64_t lo = v->offset, hi = v->offset;
    for (int d = 0; d < ndim; d++) {
        int64_t span = (shape[d] - 1) * v->strides[d];
        if (span < 0)
            lo += span;
        else
            hi += span;
    }
    size_t bytes = tidei_dtype_size(t);
    u->uses[u->n] = (tidei_use){v->st, (size_t)lo * bytes, (size_t)(hi - lo + 1) * bytes, mode};
    u->origin[u->n++] = (size_t)(v->offset - lo) * bytes;
}

/* So many bytes of a workspace, from one on. */
static void add_workspace(operand_uses *u, tidei_storage *st, size_t from, size_t bytes,
                          unsigned mode) {
    u->uses[u->n] = (tidei_use){st, from, bytes, mode};
    u->origin[u->n++] = 0;
}

static void add_inputs(operand_uses *u, const tidei_call *c) {
    for (unsigned i = 0; i < c->prog->ninputs; i++)
        add_view(u, &c->in[i], c->ndim, c->shape, c->prog->input_dtype[i], TIDEI_READ);
}

/* `at`: where in the parameters the operands' addresses are (tidei_submit_launch). */
static tide_status submit(tidei_stream *s, tidei_launch *l, tidei_cuda_plan *plan,
                          const operand_uses *u, const size_t *at, const char *op,
                          tidei_listener *listener) {
    for (unsigned i = 0; i < u->n; i++)
        memcpy(plan->params.bytes + (at ? at[i] : i * sizeof(tidei_addr)), &u->origin[i],
               sizeof u->origin[i]);
    tide_status status = tidei_submit_launch(s, u->uses, u->n, l, plan->params.bytes, at, op);
    if (tidei_unlikely(listener != NULL) && status == TIDE_OK)
        listener->heard(listener, l, u->uses, u->origin, at ? 0 : u->n);
    return status;
}

static tide_status launch(tidei_stream *s, tidei_cuda_plan *plan, tidei_dkernel *kernel,
                          const operand_uses *u, const size_t *at, const char *op,
                          tidei_listener *listener) {
    static const char *const names[] = {
        "flat map",           "flat map by element", "map of rows",     "strided map",
        "map of uneven rows", "tiled map",           "fold of rows",    "fold of columns",
        "strided fold",       "fold of pairs",       "joining fold",    "scan of rows",
        "scan of short rows", "scan of tiles",       "scan of columns", "sums of columns",
        "scan of bands"};
    _Static_assert(TIDEI_COUNT(names) == TIDEI_CUDA_CLASSES, "each class has one");
    tidei_launch l = {.name = names[plan->cls],
                      .kernel = kernel,
                      .params = plan->params.bytes,
                      .params_bytes = plan->params_bytes,
                      .grid = {plan->grid[0], plan->grid[1], 1},
                      .block = {TIDEI_CUDA_THREADS, 1, 1},
                      .shared_bytes = plan->shared,
                      .scalars_at = plan->scalars_at};
    return submit(s, &l, plan, u, at, op, listener);
}

static tide_status run_map(tidei_stream *s, const tidei_call *c, prepared *k,
                           const tidei_cuda_linear *lin, const char *op, tidei_listener *listener);

/* Runs both halves of the call along dimension d, one after the other. */
static tide_status run_halves(tidei_stream *s, const tidei_call *c, prepared *k,
                              const tidei_cuda_linear *lin, int d, const char *op,
                              tidei_listener *listener) {
    tidei_call half = *c;
    tidei_cuda_linear from = *lin;
    const int64_t at = c->shape[d] / 2;
    half.shape[d] = at;
    tide_status status = run_map(s, &half, k, &from, op, listener);
    if (status != TIDE_OK) return status;
    half.shape[d] = c->shape[d] - at;
    for (unsigned i = 0; i < c->prog->ninputs; i++) half.in[i].offset += at * half.in[i].strides[d];
    for (unsigned i = 0; i < c->prog->nouts; i++) half.out[i].offset += at * half.out[i].strides[d];
    from.base += at * from.steps[d];
    return run_map(s, &half, k, &from, op, listener);
}

static tide_status run_map(tidei_stream *s, const tidei_call *c, prepared *k,
                           const tidei_cuda_linear *lin, const char *op, tidei_listener *listener) {
    int dim;
    if (tidei_unlikely(tidei_cuda_too_large(c, &dim)))
        return run_halves(s, c, k, lin, dim, op, listener);
    tidei_cuda_plan plan;
    tidei_dkernel *kernel;
    operand_uses u;
    tidei_cuda_plan_map(c, &k->traits, lin, &plan);
    tide_status status = kernel_of(s->dev, c->prog, k, plan.cls, op, &kernel);
    if (status != TIDE_OK) return status;
    u.n = 0;
    add_inputs(&u, c);
    for (unsigned i = 0; i < c->prog->nouts; i++)
        add_view(&u, &c->out[i], c->ndim, c->shape, c->prog->out_dtype[i], TIDEI_WRITE);
    return launch(s, &plan, kernel, &u, NULL, op, listener);
}

/* ---- chains ---- */

static tide_status kernel_of_chain(tidei_dev *d, const tidei_program *p, prepared *k,
                                   const tidei_chain_form *f, const char *op, tidei_dkernel **out) {
    const which of = {.cls = TIDEI_CUDA_CLASSES, .form = *f};
    *out = find(k, d->index, &of);
    return tidei_likely(*out != NULL) ? TIDE_OK : make(d, p, k, &of, op, out);
}

static tide_status run_chain(tidei_stream *s, const tidei_call *c, prepared *k,
                             const tidei_chain_plan *chain, const char *op,
                             tidei_listener *listener) {
    tidei_cuda_plan plan;
    operand_uses u;
    tidei_launch l = {.name = c->prog->nfolds ? "folds of rows and more" : "fold of rows",
                      .params = plan.params.bytes,
                      .grid = {chain->grid, 1, 1},
                      .block = {chain->threads, 1, 1},
                      .shared_bytes = chain->shared};
    tide_status status = kernel_of_chain(s->dev, c->prog, k, &chain->form, op, &l.kernel);
    if (status != TIDE_OK) return status;
    tidei_chain_params(c, chain, &plan);
    l.params_bytes = plan.params_bytes;
    l.scalars_at = plan.scalars_at;
    u.n = 0;
    add_inputs(&u, c);
    for (unsigned i = 0; i < c->prog->nouts; i++)
        add_view(&u, &c->out[i], c->ndim, c->shape, c->prog->out_dtype[i], TIDEI_WRITE);
    return submit(s, &l, &plan, &u, NULL, op, listener);
}

/* Whether the device takes clusters of so many blocks of a kernel, which only the kernel tells: it
** is made. What else fails is told where the kernel is wanted. Out of line, for what is saved of an
** error is large. */
static __attribute__((noinline)) bool takes(tidei_dev *d, const tidei_program *p, prepared *k,
                                            const tidei_chain_form *f, const char *op) {
    const which of = {.cls = TIDEI_CUDA_CLASSES, .form = *f};
    const variant *v = find_variant(k, d->index, &of);
    if (!v) {
        tidei_saved_error before;
        tidei_dkernel *kernel;
        tidei_error_save(&before);
        if (make(d, p, k, &of, op, &kernel) == TIDE_OK) return true;
        tidei_error_restore(&before);
        v = find_variant(k, d->index, &of);
    }
    return !v || v->kernel;
}

/* The form that the device takes. */
static bool choose_chain(const tidei_stream *s, const tidei_call *c, prepared *k, bool folds_alone,
                         tidei_chain_plan *out) {
    const tidei_device_info *info = &s->dev->d->info;
    const unsigned sm_count = (unsigned)info->sm_count;
    return tidei_chain_choose(c, &k->chain, folds_alone, sm_count, info->cluster_most, out) &&
           (tidei_likely(out->form.blocks <= TIDEI_CLUSTER_SURE) ||
            takes(s->dev, c->prog, k, &out->form, "a fold of long rows") ||
            tidei_chain_choose(c, &k->chain, folds_alone, sm_count, TIDEI_CLUSTER_SURE, out));
}

/* A fold goes as a chain where a block or a cluster holds its rows. */
static bool find_chain(const tidei_stream *s, tidei_call *c, prepared *k, tidei_chain_plan *out) {
    for (int d = c->ndim - c->nred; d < c->ndim; d++) c->out[0].strides[d] = 0;
    return choose_chain(s, c, k, true, out);
}

static bool suits(const tidei_stream *s, tidei_call *c) {
    tidei_chain_plan plan;
    prepared *k = prepared_of(s->dev->rt, c->prog);
    if (!k) return false;
    tidei_call_collapse(c);
    tidei_chain_order(c, &k->chain);
    if (!choose_chain(s, c, k, false, &plan)) return false;
    memcpy(c->found, &plan, sizeof plan);
    return true;
}
_Static_assert(sizeof(tidei_chain_plan) <= sizeof((tidei_call *)0)->found, "found has room");

/* ---- folds ---- */

/* Bytes on whose multiples the parts of a workspace begin: as far apart as a pool's blocks. */
#define WORKSPACE_PART 256

/* A fold that is planned, and whose kernels are there. */
typedef struct fold_work {
    tidei_call *c;
    prepared *k;
    tidei_cuda_plan plan;
    tidei_dkernel *kernel, *joiner;
    int64_t count;    /* a mean's divisor where it is not the call's own; 0: it is */
    size_t at, bytes; /* of accumulators between two launches, in the workspace; 0: one launch */
    bool chained;
    tidei_chain_plan chain; /* where it goes as a chain; then there are no others of these */
} fold_work;

static void set_count(const fold_work *w, tidei_cuda_plan *plan) {
    if (w->count) memcpy(plan->params.bytes + plan->count_at, &w->count, sizeof w->count);
}

/* Plans what goes as no chain, and gets its kernels. */
static tide_status plan_fold(tidei_stream *s, const tidei_cuda_linear *lin, const char *op,
                             fold_work *w) {
    const tidei_program *p = w->c->prog;
    tidei_cuda_plan_fold(w->c, &w->k->traits, lin, (unsigned)s->dev->d->info.sm_count, &w->plan);
    const bool split = w->plan.splits > 1;
    w->chained = false;
    w->bytes = split ? (size_t)(w->plan.splits * w->plan.results) * w->k->traits.acc_bytes : 0;
    if (split) make_ahead(s->dev, p, w->k, TIDEI_CUDA_FOLD_JOIN);
    tide_status status = kernel_of_fold(s->dev, p, w->k, &w->plan, op, &w->kernel);
    if (status == TIDE_OK && split)
        status = kernel_of(s->dev, p, w->k, TIDEI_CUDA_FOLD_JOIN, op, &w->joiner);
    return status;
}

/* The second launch of a fold: from the accumulators in `space` to the result. */
static tide_status join(tidei_stream *s, const fold_work *w, tidei_storage *space, const char *op,
                        tidei_listener *listener) {
    const tidei_call *c = w->c;
    tidei_cuda_plan plan;
    operand_uses u;
    tidei_cuda_plan_join(c, &w->k->traits, &w->plan, &plan);
    set_count(w, &plan);
    u.n = 0;
    add_workspace(&u, space, w->at, w->bytes, TIDEI_READ);
    add_view(&u, &c->out[0], c->ndim - c->nred, c->shape, c->prog->out_dtype[0], TIDEI_WRITE);
    return launch(s, &plan, w->joiner, &u, NULL, op, listener);
}

static tide_status launch_fold(tidei_stream *s, fold_work *w, tidei_storage *space, const char *op,
                               tidei_listener *listener) {
    const tidei_call *c = w->c;
    operand_uses u;
    if (w->chained) return run_chain(s, c, w->k, &w->chain, op, listener);
    set_count(w, &w->plan);
    u.n = 0;
    add_inputs(&u, c);
    if (w->bytes)
        add_workspace(&u, space, w->at, w->bytes, TIDEI_WRITE);
    else
        add_view(&u, &c->out[0], c->ndim - c->nred, c->shape, c->prog->out_dtype[0], TIDEI_WRITE);
    tide_status status = launch(s, &w->plan, w->kernel, &u, NULL, op, listener);
    return status == TIDE_OK && w->bytes ? join(s, w, space, op, listener) : status;
}

static tide_status workspace(tidei_stream *s, size_t bytes, const char *op, tidei_storage **out) {
    *out = NULL;
    return bytes ? tidei_scratch_new(tidei_pool_here(s->dev), bytes, s, op, out) : TIDE_OK;
}

/* ---- folds in two steps ---- */

/* The programs of both steps, which live as long as the runtime. */
static bool programs_of(tidei_runtime *rt, const tidei_program *p, prepared *k,
                        tidei_program *out[2]) {
    tidei_program made[2];
    for (int i = 0; i < 2; i++) out[i] = atomic_load_explicit(&k->steps[i], memory_order_acquire);
    if (tidei_likely(out[0] && out[1])) return true;
    tidei_steps_programs(p, &made[0], &made[1]);
    for (int i = 0; i < 2; i++) {
        out[i] = tidei_program_shared(rt, &made[i]);
        if (!out[i]) return false;
        atomic_store_explicit(&k->steps[i], out[i], memory_order_release);
    }
    return true;
}

static bool goes_in_steps(const tidei_stream *s, const tidei_call *c, const prepared *k,
                          tidei_steps *out) {
    const unsigned sm_count = (unsigned)s->dev->d->info.sm_count;
    tidei_pairs pairs;
    return tidei_steps_find(c, &k->traits, out) &&
           !tidei_pairs_find(c, &k->traits, sm_count, &pairs);
}

/* Plans a step and gets its kernels. */
static tide_status ready_step(tidei_stream *s, tidei_call *c, tidei_program *p, int64_t count,
                              const char *op, fold_work *w) {
    const tidei_cuda_linear lin = {0}; /* no positions are looked at */
    c->prog = p;
    w->c = c;
    w->k = prepared_of(s->dev->rt, p);
    w->count = count;
    if (!w->k) return tidei_fail_host_memory(op, sizeof *w->k);
    tidei_call_collapse(c);
    tidei_cuda_order(c, &w->k->traits);
    if (count || !find_chain(s, c, w->k, &w->chain)) return plan_fold(s, &lin, op, w);
    w->chained = true;
    w->bytes = 0;
    return kernel_of_chain(s->dev, p, w->k, &w->chain.form, op, &w->kernel);
}

/* The workspace has the accumulators between the steps, and then those within each. Out of line,
** for two works are large. */
static __attribute__((noinline)) tide_status run_steps(tidei_stream *s, const tidei_call *c,
                                                       prepared *k, const tidei_steps *steps,
                                                       const char *op, tidei_listener *listener) {
    tidei_program *p[2];
    tidei_call calls[2];
    fold_work first, second;
    tidei_storage *space;
    if (!programs_of(s->dev->rt, c->prog, k, p)) return tidei_fail_host_memory(op, sizeof **p);
    tidei_steps_calls(c, steps, &calls[0], &calls[1]);
    const int64_t count = c->prog->fold == TIDEI_FOLD_MEAN ? steps->count : 0;
    tide_status status = ready_step(s, &calls[0], p[0], 0, op, &first);
    if (status == TIDE_OK) status = ready_step(s, &calls[1], p[1], count, op, &second);
    if (status != TIDE_OK) return status;
    first.at = tidei_round_up((size_t)steps->partial * k->traits.acc_bytes, WORKSPACE_PART);
    second.at = first.at + tidei_round_up(first.bytes, WORKSPACE_PART);
    status = workspace(s, second.at + second.bytes, op, &space);
    if (status != TIDE_OK) return status;
    calls[0].out[0].st = calls[1].in[0].st = space;
    status = launch_fold(s, &first, space, op, listener);
    if (status == TIDE_OK) status = launch_fold(s, &second, space, op, listener);
    tidei_scratch_release(space);
    return status;
}

static tide_status run_fold(tidei_stream *s, tidei_call *c, prepared *k,
                            const tidei_cuda_linear *lin, const char *op,
                            tidei_listener *listener) {
    fold_work w;
    tidei_steps steps;
    tidei_storage *space;
    if (find_chain(s, c, k, &w.chain)) return run_chain(s, c, k, &w.chain, op, listener);
    if (goes_in_steps(s, c, k, &steps)) return run_steps(s, c, k, &steps, op, listener);
    w.c = c;
    w.k = k;
    w.count = 0;
    w.at = 0;
    tide_status status = plan_fold(s, lin, op, &w);
    if (status == TIDE_OK) status = workspace(s, w.bytes, op, &space);
    if (status != TIDE_OK) return status;
    status = launch_fold(s, &w, space, op, listener);
    if (space) tidei_scratch_release(space);
    return status;
}

/* ---- scans ---- */

typedef struct scan {
    tidei_scan x; /* comes first */
    const tidei_call *c;
    prepared *k;
    const tidei_cuda_linear *lin;
} scan;

static tide_status launch_scan(const tidei_scan *x, int form, const tidei_operand *state,
                               uint64_t items) {
    const scan *of = (const scan *)x;
    const tidei_call *c = of->c;
    tidei_stream *s = tidei_stream_here(x->rt);
    tidei_cuda_plan plan;
    tidei_dkernel *kernel;
    operand_uses u;
    tidei_cuda_plan_scan(c, &of->k->traits, of->lin, &x->p, form, items,
                         (unsigned)s->dev->d->info.sm_count, &plan);
    tide_status status = kernel_of(s->dev, c->prog, of->k, plan.cls, x->op, &kernel);
    if (status != TIDE_OK) return status;
    /* the result, what the form keeps if anything, the inputs */
    size_t at[TIDEI_CUDA_OPERANDS_MAX] = {offsetof(sc_scan, out)};
    u.n = 0;
    add_view(&u, &c->out[0], c->ndim, c->shape, c->prog->out_dtype[0], TIDEI_WRITE);
    if (state) {
        at[u.n] = offsetof(sc_scan, state);
        add_workspace(&u, state->st, 0, state->st->bytes, TIDEI_READ | TIDEI_WRITE);
    }
    for (unsigned i = 0; i < c->prog->ninputs; i++)
        at[u.n + i] = sizeof(sc_scan) + i * sizeof(tidei_addr);
    add_inputs(&u, c);
    return launch(s, &plan, kernel, &u, at, x->op, NULL);
}

static tide_status run_scan(const tidei_call *c, prepared *k, tidei_cuda_linear *lin,
                            tidei_runtime *rt, const char *op) {
    const int last = c->ndim - 1;
    const int64_t n = c->shape[last];
    scan of = {.x = {.kind = tidei_scan_find(c->prog->fold - TIDEI_FOLD_CUMSUM, c->prog->acc_dtype),
                     .op = op,
                     .rt = rt,
                     .launch = launch_scan,
                     .p = {.n = n,
                           .out_step = c->out[0].strides[last],
                           .lines = 1,
                           .inner = c->inner,
                           .places = n,
                           .chunks = 1,
                           .chunk = n,
                           .ndim = last ? last : 1,
                           .shape = {1}}},
               .c = c,
               .k = k,
               .lin = lin};
    for (int d = 0; d < last; d++) {
        of.x.p.lines *= c->shape[d];
        of.x.p.shape[d] = c->shape[d];
        of.x.p.strides[d] = c->out[0].strides[d];
    }
    if (c->backwards) {
        lin->base = (n - 1) * lin->steps[last];
        lin->steps[last] = -lin->steps[last];
    }
    return tidei_scan_run(&of.x);
}

static tide_status run_heard(tidei_stream *s, tidei_call *c, const char *op,
                             tidei_listener *listener) {
    prepared *k = prepared_of(s->dev->rt, c->prog);
    if (!k) return tidei_fail_host_memory(op, sizeof *k);
    if (c->prog->nfolds) {
        tidei_chain_plan chain;
        memcpy(&chain, c->found, sizeof chain);
        return run_chain(s, c, k, &chain, op, listener);
    }
    tidei_cuda_linear lin = {0};
    tidei_cuda_order(c, &k->traits);
    if (k->traits.linear) {
        int64_t step = 1;
        for (int d = c->ndim - 1; d >= 0; d--) {
            lin.steps[d] = step;
            step *= c->shape[d];
        }
    }
    if (tidei_is_scan(c->prog->fold)) return run_scan(c, k, &lin, s->dev->rt, op);
    return c->prog->fold == TIDEI_FOLD_NONE ? run_map(s, c, k, &lin, op, listener)
                                            : run_fold(s, c, k, &lin, op, listener);
}

static tide_status run(tidei_stream *s, tidei_call *c, const char *op) {
    return run_heard(s, c, op, NULL);
}

static void forget(tidei_runtime *rt, tidei_program *p) {
    prepared *k = atomic_exchange_explicit(&p->prepared[1], NULL, memory_order_acq_rel);
    if (!k) return;
    for (variant *v = atomic_load_explicit(&k->variants, memory_order_acquire), *next; v;
         v = next) {
        next = v->next;
        tidei_host_free(rt, v);
    }
    tidei_host_free(rt, k);
}

const tidei_backend tidei_backend_text = {"cuda text", run, forget, suits, run_heard};
