/* cuda_jobs.h: calls of generated CUDA text on plain memory, checked against a reference.
**
** Numbers are checked without a GPU: the text runs emulated (emulate.h), driven by the very plans
** that a launch would take, against sums and products of small integers, which every element type
** holds exactly. A case makes jobs, whose kernels are one module, and runs them. */
#ifndef TIDETEST_CUDA_JOBS_H
#define TIDETEST_CUDA_JOBS_H

#include "tests/arrays/expr/cuda_programs.h"
#include <math.h>

static uint64_t random_state = 1;
static inline unsigned pick(unsigned n) { /* 0 .. n - 1 */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((random_state >> 33) % n);
}

/* ---- a call on plain memory ---- */

#define POISON 0xA5
typedef struct job {
    tidei_program *p;
    tidei_call c;
    unsigned char *memory[TIDEI_CUDA_OPERANDS_MAX]; /* 16-byte aligned, like storages */
    size_t bytes[TIDEI_CUDA_OPERANDS_MAX];
    tidei_cuda_class cls;
    unsigned kernel, joiner;
    bool joins;
} job;

#define SM_COUNT 2 /* so small that splitting sets in early */
#define JOBS_MAX 1200
static job *jobs[JOBS_MAX];
static unsigned njobs;

static inline tidei_view *view_of(job *j, unsigned i) {
    return i < j->p->ninputs ? &j->c.in[i] : &j->c.out[i - j->p->ninputs];
}
static inline int dtype_of(const job *j, unsigned i) {
    return i < j->p->ninputs ? j->p->input_dtype[i] : j->p->out_dtype[i - j->p->ninputs];
}
static inline unsigned operands_of(const job *j) { return j->p->ninputs + (unsigned)j->p->nouts; }

/* Memory for operand i, which its view (offset unset) spans, `before` elements in; inputs get small
** integers, results poison. */
static inline void furnish(job *j, unsigned i, int64_t before) {
    tidei_view *v = view_of(j, i);
    int ndim = i < j->p->ninputs ? j->c.ndim : j->c.ndim - j->c.nred;
    int64_t lo = 0, hi = 0;
    for (int d = 0; d < ndim; d++) {
        int64_t span = (j->c.shape[d] - 1) * v->strides[d];
        *(span < 0 ? &lo : &hi) += span;
    }
    size_t size = tide_dtype_size(dtype_of(j, i)), n = (size_t)(before + hi - lo + 1);
    v->offset = before - lo;
    j->bytes[i] = n * size;
    j->memory[i] = aligned_alloc(16, tidei_round_up(n * size, 16));
    if (!j->memory[i]) fail_msg("no memory");
    memset(j->memory[i], POISON, j->bytes[i]);
    if (i >= j->p->ninputs) return;
    int kind = tidei_dtype_kind(dtype_of(j, i));
    for (size_t k = 0; k < n; k++) {
        double v0 = kind == TIDEI_KIND_BOOL   ? pick(2)
                    : kind == TIDEI_KIND_UINT ? pick(5)
                                              : (double)pick(9) - 4;
        set_element(j->memory[i] + k * size, dtype_of(j, i),
                    CMPLX(v0, kind == TIDEI_KIND_COMPLEX ? pick(7) : 0));
    }
}

static inline void *at(job *j, unsigned i, const int64_t *index, int ndim) {
    const tidei_view *v = view_of(j, i);
    int64_t offset = v->offset;
    for (int d = 0; d < ndim; d++) offset += index[d] * v->strides[d];
    return j->memory[i] + offset * (int64_t)tide_dtype_size(dtype_of(j, i));
}

static inline bool next_index(int64_t *index, const int64_t *shape, int ndim) {
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* ---- the reference ---- */

static inline double complex body_value(job *j, unsigned out, const int64_t *index,
                                        int64_t linear) {
    double complex v[TIDEI_NODES_MAX];
    for (unsigned i = 0; i <= j->p->out_node[out]; i++) {
        const tidei_node *n = &j->p->nodes[i];
        switch (n->op) {
        case TIDEI_OP_INPUT: v[i] = element(at(j, n->a, index, j->c.ndim), n->dtype); break;
        case TIDEI_OP_SCALAR: v[i] = element(j->c.scalars[n->a], n->dtype); break;
        case TIDEI_OP_LINEAR: v[i] = (double)linear; break;
        case TIDEI_OP_CAST: v[i] = n->dtype == TIDE_BOOL ? v[n->a] != 0 : v[n->a]; break;
        case TIDEI_OP_ADD: v[i] = v[n->a] + v[n->b]; break;
        case TIDEI_OP_MUL: v[i] = v[n->a] * v[n->b]; break;
        case TIDEI_OP_LT: v[i] = creal(v[n->a]) < creal(v[n->b]); break;
        case TIDEI_OP_WHERE: v[i] = v[n->a] != 0 ? v[n->b] : v[n->c]; break;
        default: fail_msg("the reference has no operation %d", n->op);
        }
    }
    return v[j->p->out_node[out]];
}

static inline void check_equal(const job *j, const char *what, const void *got, int t,
                               double complex want) {
    double complex g = element(got, t);
    if (creal(g) != creal(want) || cimag(g) != cimag(want))
        fail_msg("class %d, %s: got %g%+gi, want %g%+gi", j->cls, what, creal(g), cimag(g),
                 creal(want), cimag(want));
}

/* Compares results, then poisons them and looks that nothing else was written. */
static inline void check_poison(job *j) {
    for (unsigned i = j->p->ninputs; i < operands_of(j); i++)
        for (size_t k = 0; k < j->bytes[i]; k++)
            if (j->memory[i][k] != POISON)
                fail_msg("class %d: byte %zu of result %u was written", j->cls, k, i);
}

static inline void check_map(job *j) {
    int64_t index[TIDE_MAX_RANK] = {0}, linear = 0;
    do {
        for (unsigned k = 0; k < j->p->nouts; k++)
            check_equal(j, "map", at(j, j->p->ninputs + k, index, j->c.ndim), j->p->out_dtype[k],
                        body_value(j, k, index, linear));
        linear++;
    } while (next_index(index, j->c.shape, j->c.ndim));
    memset(index, 0, sizeof index);
    do
        for (unsigned k = 0; k < j->p->nouts; k++)
            memset(at(j, j->p->ninputs + k, index, j->c.ndim), POISON,
                   tide_dtype_size(j->p->out_dtype[k]));
    while (next_index(index, j->c.shape, j->c.ndim));
    check_poison(j);
}

static inline double complex fold_step(int kind, double complex a, double complex x, int64_t r,
                                       int64_t *best) {
    switch (kind) {
    case TIDEI_FOLD_SUM:
    case TIDEI_FOLD_MEAN: return a + x;
    case TIDEI_FOLD_PROD: return a * x;
    case TIDEI_FOLD_MIN: return creal(x) < creal(a) ? x : a;
    case TIDEI_FOLD_MAX: return creal(x) > creal(a) ? x : a;
    case TIDEI_FOLD_ANY: return a != 0 || x != 0;
    case TIDEI_FOLD_ALL: return a != 0 && x != 0;
    default:
        if (kind == TIDEI_FOLD_ARGMIN ? creal(x) >= creal(a) : creal(x) <= creal(a)) return a;
        *best = r;
        return x;
    }
}

static inline void check_fold(job *j) {
    const int kept = j->c.ndim - j->c.nred, kind = j->p->fold;
    const bool arg = kind == TIDEI_FOLD_ARGMIN || kind == TIDEI_FOLD_ARGMAX;
    int64_t index[TIDE_MAX_RANK] = {0}, count = 1, outer = 0;
    for (int d = kept; d < j->c.ndim; d++) count *= j->c.shape[d];
    do {
        double complex a = 0;
        int64_t r = 0, best = 0;
        do {
            double complex x = body_value(j, 0, index, outer * count + r);
            a = r                                                  ? fold_step(kind, a, x, r, &best)
                : kind == TIDEI_FOLD_ANY || kind == TIDEI_FOLD_ALL ? x != 0
                                                                   : x;
            r++;
        } while (next_index(index + kept, j->c.shape + kept, j->c.nred));
        if (kind == TIDEI_FOLD_MEAN)
            a = j->p->acc_dtype == TIDE_F32 ? (float)creal(a) / (float)count : a / (double)count;
        void *got = at(j, j->p->ninputs, index, kept);
        char rounded[16];
        set_element(rounded, j->p->out_dtype[0], arg ? (double)best : a);
        check_equal(j, "fold", got, j->p->out_dtype[0], element(rounded, j->p->out_dtype[0]));
        memset(got, POISON, tide_dtype_size(j->p->out_dtype[0]));
        outer++;
    } while (next_index(index, j->c.shape, kept));
    check_poison(j);
}

/* ---- running jobs ---- all kernels of a test in one module */

typedef struct known {
    const tidei_program *p;
    tidei_cuda_class cls;
    uint32_t sides;
    unsigned kernel;
} known;
static known knowns[512];
static unsigned nknowns;
static unsigned classes_seen[TIDEI_CUDA_CLASSES];

static inline unsigned kernel_number(emu_module *m, const tidei_program *p, tidei_cuda_class cls,
                                     uint32_t sides) {
    for (unsigned i = 0; i < nknowns; i++)
        if (knowns[i].p == p && knowns[i].cls == cls && knowns[i].sides == sides)
            return knowns[i].kernel;
    assert_true(nknowns < TIDEI_COUNT(knowns));
    knowns[nknowns] = (known){p, cls, sides, add_kernel(m, p, cls, sides)};
    return knowns[nknowns++].kernel;
}

static inline void plan_job(job *j, tidei_call *c, tidei_cuda_plan *plan) {
    tidei_cuda_traits k;
    tidei_cuda_linear lin = {0};
    tidei_cuda_traits_of(j->p, &k);
    *c = j->c;
    tidei_call_collapse(c);
    tidei_cuda_order(c, &k);
    for (int64_t d = c->ndim - 1, step = 1; d >= 0; d--) {
        lin.steps[d] = step;
        step *= c->shape[d];
    }
    memset(plan, 0xEE, sizeof *plan);
    if (j->p->fold)
        tidei_cuda_plan_fold(c, &k, &lin, SM_COUNT, plan);
    else
        tidei_cuda_plan_map(c, &k, &lin, plan);
    assert_int_equal(plan->params_bytes, tidei_cuda_params_bytes(j->p, &k, plan->cls));
}

static inline void run_job(job *j, emu_module *m) {
    tidei_call c;
    tidei_cuda_plan plan, second;
    tidei_cuda_traits k;
    plan_job(j, &c, &plan);
    tidei_cuda_traits_of(j->p, &k);
    for (unsigned i = 0; i < operands_of(j); i++) {
        const tidei_view *v = i < j->p->ninputs ? &c.in[i] : &c.out[i - j->p->ninputs];
        plan.params.addresses[i] =
            (uintptr_t)(j->memory[i] + v->offset * (int64_t)tide_dtype_size(dtype_of(j, i)));
    }
    unsigned char *space = NULL;
    const unsigned out = j->p->ninputs;
    if (plan.splits > 1) {
        space = aligned_alloc(
            16, tidei_round_up((size_t)(plan.splits * plan.results) * k.acc_bytes, 16));
        assert_non_null(space);
        tidei_cuda_plan_join(&c, &k, &plan, &second);
        assert_int_equal(second.params_bytes, tidei_cuda_params_bytes(j->p, &k, second.cls));
        second.params.addresses[0] = (uintptr_t)space;
        second.params.addresses[1] = plan.params.addresses[out];
        plan.params.addresses[out] = (uintptr_t)space;
    }
    emu_launch(m, j->kernel, plan.grid[0], plan.grid[1], plan.params.bytes,
               j->p->fold || j->cls == TIDEI_CUDA_TILED);
    if (space) emu_launch(m, j->joiner, second.grid[0], second.grid[1], second.params.bytes, true);
    free(space);
}

static inline void finish_jobs(void) {
    for (unsigned i = 0; i < njobs; i++) {
        for (unsigned k = 0; k < operands_of(jobs[i]); k++) {
            bool again = false; /* in place: two operands, one memory */
            for (unsigned l = 0; l < k; l++) again |= jobs[i]->memory[l] == jobs[i]->memory[k];
            if (!again) free(jobs[i]->memory[k]);
        }
        free(jobs[i]);
    }
    njobs = nknowns = 0;
}

static inline void run_jobs(void) {
    emu_module m = {0};
    memset(classes_seen, 0, sizeof classes_seen);
    for (unsigned i = 0; i < njobs; i++) {
        tidei_call c;
        tidei_cuda_plan plan;
        plan_job(jobs[i], &c, &plan);
        jobs[i]->cls = plan.cls;
        jobs[i]->kernel = kernel_number(&m, jobs[i]->p, plan.cls, plan.sides);
        jobs[i]->joins = plan.splits > 1;
        classes_seen[plan.cls]++;
        classes_seen[TIDEI_CUDA_FOLD_JOIN] += jobs[i]->joins;
        if (jobs[i]->joins)
            jobs[i]->joiner = kernel_number(&m, jobs[i]->p, TIDEI_CUDA_FOLD_JOIN, 0);
    }
    emu_build(&m);
    for (unsigned i = 0; i < njobs; i++) {
        run_job(jobs[i], &m);
        if (jobs[i]->p->fold)
            check_fold(jobs[i]);
        else
            check_map(jobs[i]);
    }
    emu_close(&m);
    finish_jobs();
}

static inline job *new_job(tidei_program *p, int ndim, int nred, const int64_t *shape) {
    job *j = calloc(1, sizeof *j);
    if (!j || njobs == JOBS_MAX) fail_msg("no room for a job");
    j->p = p;
    j->c = (tidei_call){.prog = p, .ndim = ndim, .nred = nred};
    memcpy(j->c.shape, shape, sizeof(int64_t) * (size_t)ndim);
    for (unsigned i = 0; i < p->nscalars; i++) set_element(j->c.scalars[i], p->scalar_dtype[i], 3);
    jobs[njobs++] = j;
    return j;
}

/* Row-major strides over dimensions [from, to), times `step`. */
static inline void row_major(job *j, unsigned i, int from, int to, int64_t step) {
    for (int d = to - 1; d >= from; d--) {
        view_of(j, i)->strides[d] = step;
        step *= j->c.shape[d];
    }
}

/* Any legal view: dimensions in any order in memory, gaps, negative strides; inputs stretch here
** and there. */
static inline void random_view(job *j, unsigned i, int ndim, bool may_stretch) {
    int order[TIDE_MAX_RANK];
    tidei_view *v = view_of(j, i);
    int64_t step = pick(4) ? 1 : 1 + pick(3);
    for (int d = 0; d < ndim; d++) order[d] = d;
    if (pick(2))
        for (int d = ndim - 1; d > 0; d--) {
            int other = (int)pick((unsigned)d + 1), t = order[d];
            order[d] = order[other];
            order[other] = t;
        }
    for (int k = ndim - 1; k >= 0; k--) {
        int d = order[k];
        if (may_stretch && pick(5) == 0) {
            v->strides[d] = 0;
            continue;
        }
        v->strides[d] = pick(8) ? step : -step;
        step *= j->c.shape[d];
        if (pick(4) == 0) step = (step + 3) / 4 * 4 + (pick(2) ? 4 : 0);
    }
    furnish(j, i, pick(3) ? 0 : pick(5));
}

static inline void need_emulation(void) {
    if (!emu_compiler()) skip();
}

static inline int fresh(void **state) { /* a case that failed leaves its jobs behind */
    (void)state;
    njobs = nknowns = 0;
    random_state = 1;
    return 0;
}

#endif
