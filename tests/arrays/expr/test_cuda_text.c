/* test_cuda_text.c: generated CUDA text: it compiles for a GPU, and it computes what it should, in
** every class of layouts.
**
** Numbers are checked without a GPU: the text runs emulated (emulate.h), driven by the very plans
** that a launch would take, against sums and products of small integers, which every element type
** holds exactly. */
#include "arrays/expr/cuda_pairs.h"
#include "arrays/expr/cuda_text.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/doubles/emulate.h"
#include "tests/arrays/expr/programs.h"
#include <math.h>

static uint64_t random_state = 1;
static unsigned pick(unsigned n) { /* 0 .. n - 1 */
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

static tidei_view *view_of(job *j, unsigned i) {
    return i < j->p->ninputs ? &j->c.in[i] : &j->c.out[i - j->p->ninputs];
}
static int dtype_of(const job *j, unsigned i) {
    return i < j->p->ninputs ? j->p->input_dtype[i] : j->p->out_dtype[i - j->p->ninputs];
}
static unsigned operands_of(const job *j) { return j->p->ninputs + (unsigned)j->p->nouts; }

/* Memory for operand i, which its view (offset unset) spans, `before` elements in; inputs get small
** integers, results poison. */
static void furnish(job *j, unsigned i, int64_t before) {
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

static void *at(job *j, unsigned i, const int64_t *index, int ndim) {
    const tidei_view *v = view_of(j, i);
    int64_t offset = v->offset;
    for (int d = 0; d < ndim; d++) offset += index[d] * v->strides[d];
    return j->memory[i] + offset * (int64_t)tide_dtype_size(dtype_of(j, i));
}

static bool next_index(int64_t *index, const int64_t *shape, int ndim) {
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* ---- the reference ---- */

static double complex body_value(job *j, unsigned out, const int64_t *index, int64_t linear) {
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

static void check_equal(const job *j, const char *what, const void *got, int t,
                        double complex want) {
    double complex g = element(got, t);
    if (creal(g) != creal(want) || cimag(g) != cimag(want))
        fail_msg("class %d, %s: got %g%+gi, want %g%+gi", j->cls, what, creal(g), cimag(g),
                 creal(want), cimag(want));
}

/* Compares results, then poisons them and looks that nothing else was written. */
static void check_poison(job *j) {
    for (unsigned i = j->p->ninputs; i < operands_of(j); i++)
        for (size_t k = 0; k < j->bytes[i]; k++)
            if (j->memory[i][k] != POISON)
                fail_msg("class %d: byte %zu of result %u was written", j->cls, k, i);
}

static void check_map(job *j) {
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

static double complex fold_step(int kind, double complex a, double complex x, int64_t r,
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

static void check_fold(job *j) {
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

/* The text of a class, of pairs for inputs on such sides. */
static unsigned add_kernel(emu_module *m, const tidei_program *p, tidei_cuda_class cls,
                           uint32_t sides) {
    tidei_cuda_traits k;
    size_t body;
    tidei_cuda_traits_of(p, &k);
    char *text = cls == TIDEI_CUDA_FOLD_PAIRS ? tidei_cuda_pairs_text(NULL, p, &k, sides, &body)
                                              : tidei_cuda_text(NULL, p, &k, cls, &body);
    assert_non_null(text);
    unsigned number = emu_add(m, text, body);
    tidei_host_free(NULL, text);
    return number;
}

static unsigned kernel_number(emu_module *m, const tidei_program *p, tidei_cuda_class cls,
                              uint32_t sides) {
    for (unsigned i = 0; i < nknowns; i++)
        if (knowns[i].p == p && knowns[i].cls == cls && knowns[i].sides == sides)
            return knowns[i].kernel;
    assert_true(nknowns < TIDEI_COUNT(knowns));
    knowns[nknowns] = (known){p, cls, sides, add_kernel(m, p, cls, sides)};
    return knowns[nknowns++].kernel;
}

static void plan_job(job *j, tidei_call *c, tidei_cuda_plan *plan) {
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

static void run_job(job *j, emu_module *m) {
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

static void finish_jobs(void) {
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

static void run_jobs(void) {
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

static job *new_job(tidei_program *p, int ndim, int nred, const int64_t *shape) {
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
static void row_major(job *j, unsigned i, int from, int to, int64_t step) {
    for (int d = to - 1; d >= from; d--) {
        view_of(j, i)->strides[d] = step;
        step *= j->c.shape[d];
    }
}

/* Any legal view: dimensions in any order in memory, gaps, negative strides; inputs stretch here
** and there. */
static void random_view(job *j, unsigned i, int ndim, bool may_stretch) {
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

static void need_emulation(void) {
    if (!emu_compiler()) skip();
}

/* ---- maps ---- */

static void build_maps(tidei_program p[6]) {
    memset(p, 0, 6 * sizeof *p);
    uint16_t a = input(&p[0], TIDE_F32), b = input(&p[0], TIDE_F32), c = input(&p[0], TIDE_F32);
    result(&p[0],
           node(&p[0], TIDEI_OP_ADD, TIDE_F32, node(&p[0], TIDEI_OP_MUL, TIDE_F32, a, b, 0), c, 0));
    result(&p[0], node(&p[0], TIDEI_OP_LT, TIDE_BOOL, a, b, 0));
    result(&p[1], cast(&p[1], TIDE_F64, input(&p[1], TIDE_U8)));
    a = input(&p[2], TIDE_I64);
    result(&p[2], node(&p[2], TIDEI_OP_ADD, TIDE_I64, a,
                       node(&p[2], TIDEI_OP_LINEAR, TIDE_I64, 0, 0, 0), 0));
    a = input(&p[3], TIDE_F16);
    result(&p[3], node(&p[3], TIDEI_OP_ADD, TIDE_F16, a, scalar(&p[3], TIDE_F16), 0));
    a = input(&p[4], TIDE_BOOL);
    b = input(&p[4], TIDE_C64);
    c = scalar(&p[4], TIDE_C128);
    result(&p[4], node(&p[4], TIDEI_OP_WHERE, TIDE_C128, a, cast(&p[4], TIDE_C128, b), c));
    result(&p[4], b);
    result(&p[5], input(&p[5], TIDE_I8)); /* a copy */
}

static void maps_compute_in_any_layout(void **state) {
    tidei_program p[6];
    (void)state;
    need_emulation();
    build_maps(p);
    for (unsigned n = 0; n < 240; n++) {
        int64_t shape[4];
        int ndim = (int)pick(5);
        for (int d = 0; d < ndim; d++)
            shape[d] = pick(3) == 0 ? 4 * (1 + pick(5)) : 1 + pick(ndim == 2 ? 40 : 12);
        job *j = new_job(&p[n % 6], ndim, 0, shape);
        for (unsigned i = 0; i < operands_of(j); i++) random_view(j, i, ndim, i < j->p->ninputs);
    }
    run_jobs();
    assert_true(classes_seen[TIDEI_CUDA_FLAT] > 0 && classes_seen[TIDEI_CUDA_STRIDED] > 0);
}

/* The classes that random views seldom meet, at sizes with more than a block and with a rest. */
static void maps_compute_in_each_class(void **state) {
    static const struct {
        int64_t shape[3];
        int ndim, kind;
    } cases[] = {{{5003}, 1, 0},    {{4096}, 1, 0},    {{3}, 1, 0},         {{5003}, 1, 1},
                 {{70, 64}, 2, 2},  {{64, 70}, 2, 2},  {{33, 48}, 2, 3},    {{100, 100}, 2, 4},
                 {{130, 67}, 2, 4}, {{64, 128}, 2, 4}, {{3, 40, 50}, 3, 4}, {{20, 3, 50}, 3, 5},
                 {{1}, 1, 0},       {{16, 16}, 2, 4},  {{2, 3, 1024}, 3, 3}};
    tidei_program p[6];
    (void)state;
    need_emulation();
    build_maps(p);
    for (unsigned n = 0; n < TIDEI_COUNT(cases) * 6; n++) {
        const int64_t *s = cases[n / 6].shape;
        const int ndim = cases[n / 6].ndim;
        job *j = new_job(&p[n % 6], ndim, 0, s);
        for (unsigned i = 0; i < operands_of(j); i++) {
            const bool in = i < j->p->ninputs, first = i == 0;
            int64_t before = 0;
            row_major(j, i, 0, ndim, 1);
            tidei_view *v = view_of(j, i);
            switch (cases[n / 6].kind) {
            case 1: before = 1; break; /* off its boundary */
            case 2:
                if (in && !first) v->strides[0] = 0;
                break; /* a row for all rows */
            case 3:
                if (in && first) memset(v->strides, 0, sizeof v->strides);
                break; /* one element for all */
            case 4:    /* the last two dimensions turned */
                if (in && first) {
                    v->strides[ndim - 2] = 1;
                    v->strides[ndim - 1] = s[ndim - 2];
                }
                break;
            case 5: /* the outermost dimension contiguous */
                if (in && first) {
                    v->strides[0] = 1;
                    v->strides[1] = s[0] * s[2];
                    v->strides[2] = s[0];
                }
                break;
            default: break;
            }
            furnish(j, i, before);
        }
    }
    run_jobs();
    for (int c = 0; c <= TIDEI_CUDA_TILED; c++)
        if (!classes_seen[c]) fail_msg("no case of class %d", c);
}

/* Long rows that begin anywhere: of elements of 1, 2, 4 and 8 bytes and of several sizes at once;
** side by side, further apart, backwards, one for all; of one dimension too. */
static void uneven_rows_compute(void **state) {
    static const int64_t rows[] = {1, 2, 4, 9, 17}, lengths[] = {515, 1026, 1029, 1100};
    static const int small[] = {TIDE_I8, TIDE_F16, TIDE_U16, TIDE_F32};
    tidei_program p[10];
    (void)state;
    need_emulation();
    build_maps(p);
    for (unsigned i = 0; i < 4; i++) {
        memset(&p[6 + i], 0, sizeof *p);
        uint16_t a = input(&p[6 + i], small[i]), b = input(&p[6 + i], small[i]);
        result(&p[6 + i], node(&p[6 + i], TIDEI_OP_ADD, small[i], a, b, 0));
        if (i == 0) result(&p[6], node(&p[6], TIDEI_OP_LT, TIDE_BOOL, a, b, 0));
    }
    for (unsigned n = 0; n < 400; n++) {
        const int ndim = 1 + (int)pick(3);
        int64_t shape[3] = {rows[pick(5)], rows[pick(3)], 0};
        shape[ndim - 1] = lengths[pick(4)];
        job *j = new_job(&p[n % 10], ndim, 0, shape);
        for (unsigned i = 0; i < operands_of(j); i++) {
            int64_t step = pick(8) ? 1 : pick(2) ? -1 : 3;
            if (i < j->p->ninputs && pick(8) == 0) step = 0;
            view_of(j, i)->strides[ndim - 1] = step;
            step = (step ? llabs(step) * shape[ndim - 1] : 1) + pick(4);
            for (int d = ndim - 2; d >= 0; d--) {
                view_of(j, i)->strides[d] = step;
                step = step * shape[d] + pick(3);
            }
            furnish(j, i, pick(5));
        }
    }
    run_jobs();
    assert_true(classes_seen[TIDEI_CUDA_UNEVEN] > 200);
}

/* A result may be the very view of an input. */
static void a_result_may_be_a_view_of_its_input(void **state) {
    static const int64_t flat[] = {3001}, rows[] = {30, 44};
    tidei_program p = {0};
    (void)state;
    need_emulation();
    uint16_t a = input(&p, TIDE_I32), b = input(&p, TIDE_I32);
    result(&p, node(&p, TIDEI_OP_ADD, TIDE_I32, a, b, 0));
    result(&p, node(&p, TIDEI_OP_MUL, TIDE_I32, a, b, 0));
    emu_module m = {0};
    for (int n = 0; n < 3; n++) {
        job *j = new_job(&p, n == 0 ? 1 : 2, 0, n == 0 ? flat : rows);
        for (unsigned i = 0; i < 4; i++) row_major(j, i, 0, j->c.ndim, 1);
        if (n == 2) {
            j->c.in[1].strides[0] = 1;
            j->c.in[1].strides[1] = rows[0];
        }
        for (unsigned i = 0; i < 4; i++) furnish(j, i, 0);
        tidei_call c;
        tidei_cuda_plan plan;
        plan_job(j, &c, &plan);
        j->cls = plan.cls;
        j->kernel = kernel_number(&m, &p, plan.cls, 0);
    }
    emu_build(&m);
    for (int n = 0; n < 3; n++) {
        job *j = jobs[n];
        const size_t bytes = j->bytes[0];
        unsigned char *before = malloc(bytes);
        assert_non_null(before);
        memcpy(before, j->memory[0], bytes);
        free(j->memory[2]);
        j->memory[2] = j->memory[0]; /* a + b goes where a is, and a * b elsewhere */
        run_job(j, &m);
        unsigned char *sums = j->memory[0];
        j->memory[2] = malloc(bytes);
        assert_non_null(j->memory[2]);
        memcpy(j->memory[2], sums, bytes);
        memcpy(sums, before, bytes);
        free(before);
        check_map(j);
    }
    emu_close(&m);
    finish_jobs();
}

/* ---- folds ---- */

static const struct {
    uint8_t kind, in, acc, out;
} folds[] = {{TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32, TIDE_F32},
             {TIDEI_FOLD_SUM, TIDE_U8, TIDE_U64, TIDE_U64},
             {TIDEI_FOLD_SUM, TIDE_F16, TIDE_F32, TIDE_F16},
             {TIDEI_FOLD_PROD, TIDE_I16, TIDE_I64, TIDE_I64},
             {TIDEI_FOLD_MIN, TIDE_I32, TIDE_I32, TIDE_I32},
             {TIDEI_FOLD_MAX, TIDE_BF16, TIDE_F32, TIDE_BF16},
             {TIDEI_FOLD_MIN, TIDE_BOOL, TIDE_BOOL, TIDE_BOOL},
             {TIDEI_FOLD_ANY, TIDE_I8, TIDE_BOOL, TIDE_BOOL},
             {TIDEI_FOLD_ALL, TIDE_F64, TIDE_BOOL, TIDE_BOOL},
             {TIDEI_FOLD_ARGMIN, TIDE_F32, TIDE_F32, TIDE_I64},
             {TIDEI_FOLD_ARGMAX, TIDE_U8, TIDE_U8, TIDE_I64},
             {TIDEI_FOLD_MEAN, TIDE_F32, TIDE_F32, TIDE_F32},
             {TIDEI_FOLD_MEAN, TIDE_I64, TIDE_F64, TIDE_F64}};
#define NFOLDS TIDEI_COUNT(folds)

/* `two`: the body is a product of two inputs. */
static void build_fold(tidei_program *p, unsigned f, bool two) {
    memset(p, 0, sizeof *p);
    uint16_t a = cast(p, folds[f].acc, input(p, folds[f].in));
    if (two && folds[f].acc != TIDE_BOOL)
        a = node(p, TIDEI_OP_MUL, folds[f].acc, a, cast(p, folds[f].acc, input(p, folds[f].in)), 0);
    fold(p, folds[f].kind, a, folds[f].acc, folds[f].out);
}

static void folds_compute_in_any_layout(void **state) {
    tidei_program p[NFOLDS];
    (void)state;
    need_emulation();
    for (unsigned f = 0; f < NFOLDS; f++) build_fold(&p[f], f, f % 2);
    for (unsigned n = 0; n < 20 * NFOLDS; n++) {
        int64_t shape[4];
        int ndim = 1 + (int)pick(4), nred = 1 + (int)pick((unsigned)ndim);
        for (int d = 0; d < ndim; d++) shape[d] = pick(3) == 0 ? 4 * (1 + pick(4)) : 1 + pick(9);
        job *j = new_job(&p[n % NFOLDS], ndim, nred, shape);
        for (unsigned i = 0; i < j->p->ninputs; i++) random_view(j, i, ndim, true);
        random_view(j, j->p->ninputs, ndim - nred, false);
    }
    run_jobs();
    assert_true(classes_seen[TIDEI_CUDA_FOLD_ANY] > 0);
}

/* Sizes at which results are shared among blocks, vectors have a rest, and columns are more than a
** block's. */
static void folds_compute_in_each_class(void **state) {
    static const struct {
        int64_t shape[3];
        int ndim, nred, kind;
    } cases[] = {{{1}, 1, 1, 0},         {{20011}, 1, 1, 0},      {{40000}, 1, 1, 1},
                 {{5, 3001}, 2, 1, 0},   {{5, 3008}, 2, 1, 0},    {{300, 12}, 2, 1, 0},
                 {{64, 2000}, 2, 1, 2},  {{9, 3000}, 2, 1, 2},    {{520, 8}, 2, 1, 2},
                 {{7, 6, 900}, 3, 2, 0}, {{4, 64, 50}, 3, 1, 3},  {{8, 1500}, 2, 1, 4},
                 {{9000, 2}, 2, 2, 2},   {{3, 40, 100}, 3, 2, 2}, {{2000, 1}, 2, 1, 0}};
    tidei_program p[2 * NFOLDS];
    (void)state;
    need_emulation();
    for (unsigned f = 0; f < 2 * NFOLDS; f++) build_fold(&p[f], f / 2, f % 2);
    for (unsigned n = 0; n < TIDEI_COUNT(cases) * NFOLDS; n++) {
        const int64_t *s = cases[n / NFOLDS].shape;
        const int ndim = cases[n / NFOLDS].ndim, kept = ndim - cases[n / NFOLDS].nred;
        job *j = new_job(&p[2 * (n % NFOLDS) + (n / NFOLDS) % 2], ndim, cases[n / NFOLDS].nred, s);
        for (unsigned i = 0; i < j->p->ninputs; i++) {
            int64_t before = 0;
            tidei_view *v = view_of(j, i);
            row_major(j, i, 0, ndim, 1);
            switch (cases[n / NFOLDS].kind) {
            case 1: before = 1; break; /* off its boundary */
            case 2:                    /* reduced dimensions outside */
                row_major(j, i, 0, kept, 1);
                row_major(j, i, kept, ndim, kept ? s[0] : 1);
                if (ndim - kept > 1) v->strides[kept] *= 1;
                break;
            case 3: /* the middle one reduced: memory runs (first, reduced, second) */
                v->strides[0] = s[1] * s[2];
                v->strides[2] = s[1];
                v->strides[1] = 1;
                break;
            case 4: /* the second input: one element a row */
                if (i == 1) v->strides[1] = 0;
                break;
            default: break;
            }
            furnish(j, i, before);
        }
        row_major(j, j->p->ninputs, 0, kept, 1);
        furnish(j, j->p->ninputs, 0);
    }
    run_jobs();
    for (int c = TIDEI_CUDA_FOLD_ROW; c < TIDEI_CUDA_SCAN; c++)
        if (c != TIDEI_CUDA_FOLD_PAIRS && !classes_seen[c]) fail_msg("no case of class %d", c);
}

/* Every row of one operand with every column of another: one input of each side, two of one, one
** that has neither; rows or reduced elements side by side in memory; batches, several reduced
** dimensions, tiles that are not whole, and so few results that the reduced elements are
** divided. */
static void folds_of_pairs_compute(void **state) {
    static const struct {
        int64_t rows, columns, batch, reduced[2];
    } shapes[] = {{70, 90, 1, {20, 1}},  {33, 300, 2, {7, 3}},  {260, 40, 1, {35, 1}},
                  {64, 64, 1, {600, 1}}, {130, 130, 1, {1, 1}}, {40, 48, 3, {16, 2}},
                  {48, 72, 1, {3, 2}}};
    tidei_program p[2 * NFOLDS];
    (void)state;
    need_emulation();
    for (unsigned f = 0; f < 2 * NFOLDS; f++) {
        const int in = folds[f / 2].in, acc = folds[f / 2].acc;
        memset(&p[f], 0, sizeof *p);
        uint16_t a = cast(&p[f], acc, input(&p[f], in)), b = cast(&p[f], acc, input(&p[f], in));
        const int op = acc == TIDE_BOOL ? TIDEI_OP_WHERE : f % 2 ? TIDEI_OP_MUL : TIDEI_OP_ADD;
        if (f % 2 && acc != TIDE_BOOL) /* of rows alone, and one for all */
            a = node(&p[f], TIDEI_OP_ADD, acc, node(&p[f], TIDEI_OP_MUL, acc, a, a, 0),
                     cast(&p[f], acc, input(&p[f], in)), 0);
        a = acc == TIDE_BOOL ? node(&p[f], op, acc, a, b, a) : node(&p[f], op, acc, a, b, 0);
        fold(&p[f], folds[f / 2].kind, a, acc, folds[f / 2].out);
    }
    for (unsigned n = 0; n < TIDEI_COUNT(shapes) * 2 * NFOLDS; n++) {
        tidei_program *prog = &p[n % (2 * NFOLDS)];
        const unsigned k = n / (2 * NFOLDS);
        if (prog->fold == TIDEI_FOLD_PROD && shapes[k].reduced[0] > 6) continue; /* too large */
        const int64_t shape[5] = {shapes[k].batch, shapes[k].rows, shapes[k].columns,
                                  shapes[k].reduced[0], shapes[k].reduced[1]};
        job *j = new_job(prog, 5, 2, shape);
        for (unsigned i = 0; i < prog->ninputs; i++) {
            int64_t *s = view_of(j, i)->strides, pad = pick(3);
            const int along = i == 0 ? 1 : 2; /* the second goes with columns */
            const int64_t length = shape[along], count = shape[3] * shape[4];
            memset(s, 0, TIDE_MAX_RANK * sizeof *s);
            if (pick(2)) { /* neighbours of the side lie side by side */
                s[4] = length + pad, s[3] = s[4] * shape[4];
                s[along] = 1;
            } else {
                s[4] = 1, s[3] = shape[4];
                s[along] = count + pad;
            }
            if (i == 2) s[along] = 0;
            if (pick(3)) s[0] = (length + pad) * (count + pad);
            furnish(j, i, pick(4));
        }
        row_major(j, prog->ninputs, 0, 3, 1);
        if (pick(3) == 0) { /* the result turned */
            view_of(j, prog->ninputs)->strides[1] = 1;
            view_of(j, prog->ninputs)->strides[2] = shape[1];
        }
        furnish(j, prog->ninputs, pick(4));
    }
    const unsigned all = njobs;
    run_jobs();
    assert_true(classes_seen[TIDEI_CUDA_FOLD_PAIRS] > all / 2);
    assert_true(classes_seen[TIDEI_CUDA_FOLD_JOIN] > 0);
}

/* Few columns of many rows: blocks that share results are many, and their accumulators go to more
** blocks than one. */
static void few_columns_of_many_rows(void **state) {
    static const int64_t shapes[][2] = {{20, 33000}, {21, 17000}, {3, 30000}};
    static const unsigned kinds[] = {0, 9, 11}; /* of folds[] */
    tidei_program p[TIDEI_COUNT(kinds)];
    (void)state;
    need_emulation();
    for (unsigned f = 0; f < TIDEI_COUNT(kinds); f++) build_fold(&p[f], kinds[f], false);
    for (unsigned n = 0; n < TIDEI_COUNT(shapes) * TIDEI_COUNT(kinds); n++) {
        const int64_t *s = shapes[n / TIDEI_COUNT(kinds)];
        job *j = new_job(&p[n % TIDEI_COUNT(kinds)], 2, 1, s);
        view_of(j, 0)->strides[0] = 1;
        view_of(j, 0)->strides[1] = s[0];
        furnish(j, 0, n % 2);
        row_major(j, 1, 0, 1, 1);
        furnish(j, 1, 0);
    }
    const unsigned all = njobs;
    run_jobs();
    assert_int_equal(classes_seen[TIDEI_CUDA_FOLD_JOIN], all);
}

/* ---- special values ---- */

static void one_fold(emu_module *m, tidei_program *p, int kind, int t, const void *data,
                     int64_t n) {
    memset(p, 0, sizeof *p);
    fold(p, kind, input(p, t), t,
         kind == TIDEI_FOLD_ARGMIN || kind == TIDEI_FOLD_ARGMAX ? TIDE_I64 : t);
    job *j = new_job(p, 1, 1, &n);
    row_major(j, 0, 0, 1, 1);
    furnish(j, 0, 0);
    memcpy(j->memory[0], data, j->bytes[0]);
    furnish(j, 1, 0);
    tidei_call c;
    tidei_cuda_plan plan;
    plan_job(j, &c, &plan);
    j->kernel = kernel_number(m, p, plan.cls, 0);
    j->cls = plan.cls;
    assert_int_equal(plan.splits, 1);
}

/* NaN wins in min and max, and its first place in the arg forms; of equals the first; a sum of -0.0
** is -0.0; infinities are extremes like others. */
static void folds_keep_nan_zeros_and_infinities(void **state) {
    double x[1000], zeros[600], infs[300];
    (void)state;
    need_emulation();
    for (int i = 0; i < 1000; i++) x[i] = i % 100;
    x[70] = x[71] = x[900] = NAN;
    for (int i = 0; i < 600; i++) zeros[i] = -0.0;
    for (int i = 0; i < 300; i++) infs[i] = INFINITY;
    double ties[1000];
    /* 333 is the first 5, 0 the first 4 */
    for (int i = 0; i < 1000; i++) ties[i] = i >= 333 && i % 3 == 0 ? 5 : 4;
    const struct {
        const double *data;
        int64_t n;
        int kind;
        double want;
    } cases[] = {{x, 1000, TIDEI_FOLD_MIN, NAN},     {x, 1000, TIDEI_FOLD_MAX, NAN},
                 {x, 1000, TIDEI_FOLD_ARGMIN, 70},   {x, 1000, TIDEI_FOLD_ARGMAX, 70},
                 {x, 1000, TIDEI_FOLD_SUM, NAN},     {ties, 1000, TIDEI_FOLD_ARGMAX, 333},
                 {ties, 1000, TIDEI_FOLD_ARGMIN, 0}, {zeros, 600, TIDEI_FOLD_SUM, -0.0},
                 {zeros, 1, TIDEI_FOLD_MEAN, -0.0},  {infs, 300, TIDEI_FOLD_MIN, INFINITY},
                 {infs, 300, TIDEI_FOLD_ARGMIN, 0},  {x, 70, TIDEI_FOLD_ARGMAX, 69},
                 {x + 70, 1, TIDEI_FOLD_ARGMIN, 0},  {x + 71, 1, TIDEI_FOLD_MAX, NAN}};
    tidei_program p[TIDEI_COUNT(cases)];
    emu_module m = {0};
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++)
        one_fold(&m, &p[i], cases[i].kind, TIDE_F64, cases[i].data, cases[i].n);
    emu_build(&m);
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        run_job(jobs[i], &m);
        double complex got = element(jobs[i]->memory[1], p[i].out_dtype[0]);
        double g = creal(got), w = cases[i].want;
        if (!(g == w || (g != g && w != w)) || (w == 0 && signbit(g) != signbit(w)))
            fail_msg("case %u: got %g, want %g", i, g, w);
    }
    emu_close(&m);
    finish_jobs();
}

/* ---- plans of what no test could run ---- */

/* A call beyond 32-bit offsets is cut until its pieces fit, and the pieces are all of it. */
static int64_t cut(const tidei_call *c, unsigned *pieces, int depth) {
    int d;
    if (!tidei_cuda_too_large(c, &d)) {
        int64_t n = 1;
        for (int i = 0; i < c->ndim; i++) n *= c->shape[i];
        ++*pieces;
        return n;
    }
    assert_in_range(d, 0, c->ndim - 1);
    assert_true(depth < 64);
    tidei_call half = *c;
    half.shape[d] = c->shape[d] / 2;
    int64_t n = cut(&half, pieces, depth + 1);
    half.shape[d] = c->shape[d] - c->shape[d] / 2;
    return n + cut(&half, pieces, depth + 1);
}

static void large_calls_are_cut(void **state) {
    static const struct {
        int64_t shape[3], in[3];
        unsigned least, most;
    } cases[] = {{{70000, 70000, 1}, {1, 70000, 0}, 3, 16}, /* a transpose of 4.9e9 elements */
                 {{1, 1000, 1000}, {0, 5000, 1}, 1, 1},     /* fits */
                 {{4, 1 << 20, 1000}, {(int64_t)1 << 35, -1000, 1}, 4, 8},
                 {{2, 3, 5}, {0, (int64_t)1 << 40, 1}, 3, 3}};
    tidei_program p = {0};
    (void)state;
    result(&p, input(&p, TIDE_I8));
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_call c = {.prog = &p, .ndim = 3};
        unsigned pieces = 0;
        int64_t n = 1, step = 1;
        for (int d = 2; d >= 0; d--) {
            c.shape[d] = cases[i].shape[d];
            c.in[0].strides[d] = cases[i].in[d];
            c.out[0].strides[d] = step;
            step *= c.shape[d];
            n *= c.shape[d];
        }
        assert_int_equal(cut(&c, &pieces, 0), n);
        assert_in_range(pieces, cases[i].least, cases[i].most);
    }
}

/* Contiguous calls and folds need no cutting: their grids stay within what a launch takes, and
** cover everything. */
static void grids_of_large_calls_fit_a_launch(void **state) {
    tidei_program map = {0}, sum = {0};
    tidei_cuda_traits k;
    tidei_cuda_linear lin = {0};
    tidei_cuda_plan plan;
    int dim;
    (void)state;
    result(&map, input(&map, TIDE_U8));
    fold(&sum, TIDEI_FOLD_SUM, input(&sum, TIDE_F32), TIDE_F32, TIDE_F32);
    tidei_call c = {.prog = &map, .ndim = 1, .shape = {(int64_t)1 << 37}};
    c.in[0].strides[0] = c.out[0].strides[0] = 1;
    c.in[0].offset = 1;
    assert_false(tidei_cuda_too_large(&c, &dim));
    tidei_cuda_traits_of(&map, &k);
    tidei_cuda_plan_map(&c, &k, &lin, &plan);
    assert_int_equal(plan.cls, TIDEI_CUDA_FLAT_ONE);
    assert_int_equal((int64_t)plan.grid[0] * 256 * k.unroll[plan.cls], (int64_t)1 << 37);

    tidei_cuda_traits_of(&sum, &k);
    const int64_t shapes[][2] = {
        {1, (int64_t)1 << 36}, {(int64_t)1 << 36, 1}, {1 << 18, 1 << 18}, {3, (int64_t)1 << 34}};
    for (unsigned i = 0; i < TIDEI_COUNT(shapes); i++)
        for (int columns = 0; columns < 2; columns++) {
            c = (tidei_call){
                .prog = &sum, .ndim = 2, .nred = 1, .shape = {shapes[i][0], shapes[i][1]}};
            c.in[0].strides[0] = columns ? 1 : shapes[i][1];
            c.in[0].strides[1] = columns ? shapes[i][0] : 1;
            c.out[0].strides[0] = 1;
            tidei_call_collapse(&c);
            tidei_cuda_plan_fold(&c, &k, &lin, 132, &plan);
            assert_in_range(plan.grid[0], 1, INT32_MAX);
            assert_in_range(plan.grid[1], 1, 65535);
            assert_int_equal(plan.grid[1], plan.splits);
            assert_int_equal(plan.results, shapes[i][0]);
            assert_true(plan.splits == 1 ||
                        /* the workspace stays small */
                        plan.splits * plan.results <= (int64_t)1 << 24);
        }
}

/* What blocks leave of few results is read by many lanes at once. */
static void joins_are_spread(void **state) {
    tidei_program sum = {0};
    tidei_cuda_traits k;
    tidei_cuda_linear lin = {0};
    (void)state;
    fold(&sum, TIDEI_FOLD_SUM, input(&sum, TIDE_F32), TIDE_F32, TIDE_F32);
    tidei_cuda_traits_of(&sum, &k);
    for (int64_t results = 2; results <= 4096; results *= 2) {
        tidei_call c = {
            .prog = &sum, .ndim = 2, .nred = 1, .shape = {results, (1 << 25) / results}};
        tidei_cuda_plan first, second;
        c.in[0].strides[0] = c.out[0].strides[0] = 1;
        c.in[0].strides[1] = results;
        tidei_cuda_plan_fold(&c, &k, &lin, 132, &first);
        assert_true(first.splits > 1);
        tidei_cuda_plan_join(&c, &k, &first, &second);
        const int64_t columns = (results + second.grid[0] - 1) / second.grid[0],
                      round = 256 / columns * k.unroll[TIDEI_CUDA_FOLD_JOIN];
        assert_true(columns == 1 || first.splits <= round);
    }
}

/* ---- the text ---- */

/* A program that uses every operation on elements of type t once. */
static void build_operations(tidei_program *p, int t) {
    memset(p, 0, sizeof *p);
    uint16_t a = input(p, t), b = input(p, t), c = scalar(p, t), truth = input(p, TIDE_BOOL),
             all = truth;
    for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++) {
        const tidei_op_info *info = &tidei_op_infos[op];
        if (!operation_takes(op, t)) continue;
        int r = result_dtype(op, t);
        uint16_t x =
            info->rule == TIDEI_RULE_SELECT ? node(p, op, r, truth, a, b) : node(p, op, r, a, b, c);
        all = node(p, TIDEI_OP_LOGICAL_XOR, TIDE_BOOL, all, cast(p, TIDE_BOOL, x), 0);
    }
    result(p, all);
}

/* All casts from t; complex ones go to bool and complex only. */
static void build_casts(tidei_program *p, int t) {
    memset(p, 0, sizeof *p);
    uint16_t a = input(p, t), all = cast(p, TIDE_BOOL, a);
    for (int to = 0; to < TIDE_DTYPE_COUNT; to++) {
        bool from_complex = tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX,
             to_complex = tidei_dtype_kind(to) == TIDEI_KIND_COMPLEX;
        if (to == t || (from_complex && !to_complex && to != TIDE_BOOL)) continue;
        all = node(p, TIDEI_OP_LOGICAL_XOR, TIDE_BOOL, all, cast(p, TIDE_BOOL, cast(p, to, a)), 0);
    }
    result(p, all);
}

static void add_text(emu_module *m, const tidei_program *p, tidei_cuda_class cls) {
    add_kernel(m, p, cls, 0);
}

/* Compiles what has been added, and starts afresh. */
static void compile(emu_module *m) {
    void *image;
    size_t bytes;
    char *source = emu_nvrtc_source(m);
    tide_status s = tidei_nvrtc_compile(source, "kernels", 90, &image, &bytes);
    free(source);
    if (s != TIDE_OK) fail_msg("%s", tide_error_last()->message);
    assert_true(bytes > 1000);
    free(image);
    emu_close(m);
}

static void need_nvrtc(void) {
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
}

static void operations_compile(void **state) {
    emu_module m = {0};
    tidei_program p;
    (void)state;
    need_nvrtc();
    for (int t = 0; t < TIDE_DTYPE_COUNT; t += test_quick() ? 4 : 1) {
        build_operations(&p, t);
        add_text(&m, &p, t % 2 && !test_long() ? TIDEI_CUDA_STRIDED : TIDEI_CUDA_FLAT);
        if (test_long())
            for (int c = TIDEI_CUDA_FLAT_ONE; c <= TIDEI_CUDA_TILED; c++)
                add_text(&m, &p, (tidei_cuda_class)c);
    }
    compile(&m);
}

static void casts_compile(void **state) {
    emu_module m = {0};
    tidei_program p;
    (void)state;
    need_nvrtc();
    for (int t = 0; t < TIDE_DTYPE_COUNT; t++) {
        build_casts(&p, t);
        add_text(&m, &p, TIDEI_CUDA_FLAT_ONE);
    }
    compile(&m);
}

/* Every fold with every accumulator and result it has; all classes in a long run, else one in turn
** and the joining one. */
static void folds_compile(void **state) {
    static const uint8_t sums[][2] = {
        {TIDE_I64, TIDE_I64}, {TIDE_U64, TIDE_U64},  {TIDE_F64, TIDE_F64}, {TIDE_F32, TIDE_F32},
        {TIDE_F32, TIDE_F16}, {TIDE_F32, TIDE_BF16}, {TIDE_C64, TIDE_C64}, {TIDE_C128, TIDE_C128}};
    static const uint8_t orders[][2] = {
        {TIDE_BOOL, TIDE_BOOL}, {TIDE_I8, TIDE_I8},   {TIDE_I16, TIDE_I16}, {TIDE_I32, TIDE_I32},
        {TIDE_I64, TIDE_I64},   {TIDE_U8, TIDE_U8},   {TIDE_U16, TIDE_U16}, {TIDE_U32, TIDE_U32},
        {TIDE_U64, TIDE_U64},   {TIDE_F64, TIDE_F64}, {TIDE_F32, TIDE_F32}, {TIDE_F32, TIDE_F16},
        {TIDE_F32, TIDE_BF16}};
    emu_module m = {0};
    unsigned turn = 0;
    (void)state;
    need_nvrtc();
    for (int kind = TIDEI_FOLD_SUM; kind <= TIDEI_FOLD_MEAN; kind++) {
        const bool sum =
            kind == TIDEI_FOLD_SUM || kind == TIDEI_FOLD_PROD || kind == TIDEI_FOLD_MEAN;
        const bool logic = kind == TIDEI_FOLD_ANY || kind == TIDEI_FOLD_ALL;
        const bool arg = kind == TIDEI_FOLD_ARGMIN || kind == TIDEI_FOLD_ARGMAX;
        unsigned n = logic ? 1 : sum ? TIDEI_COUNT(sums) : TIDEI_COUNT(orders) - (arg ? 2 : 0);
        for (unsigned i = kind == TIDEI_FOLD_MEAN ? 2 : 0; i < n; i++) {
            const uint8_t *t = sum ? sums[i] : orders[i];
            tidei_program p = {0};
            int in = tidei_dtype_kind(t[1]) == TIDEI_KIND_INT && sum ? TIDE_I16 : t[1];
            const unsigned mine = turn++;
            /* the time is NVRTC's, which no sanitizer looks into */
            if (test_quick() && mine % 4) continue;
            fold(&p, kind, input(&p, in), t[0], arg ? TIDE_I64 : t[1]);
            for (int c = TIDEI_CUDA_FOLD_ROW; c <= TIDEI_CUDA_FOLD_ANY; c++)
                if (test_long() || c - TIDEI_CUDA_FOLD_ROW == (int)(mine % 3))
                    add_text(&m, &p, (tidei_cuda_class)c);
            if (test_long() || mine % 4 == 0) add_text(&m, &p, TIDEI_CUDA_FOLD_JOIN);
        }
    }
    compile(&m);
}

/* Folds of pairs of every accumulator's size, one with a body so long that it is a function. */
static void pairs_compile(void **state) {
    static const uint8_t types[][3] = {{TIDE_F32, TIDE_F32, TIDE_F32},
                                       {TIDE_F16, TIDE_F32, TIDE_F16},
                                       {TIDE_I8, TIDE_I64, TIDE_I64},
                                       {TIDE_C128, TIDE_C128, TIDE_C128},
                                       {TIDE_F64, TIDE_F64, TIDE_I64}};
    emu_module m = {0};
    (void)state;
    need_nvrtc();
    for (unsigned i = 0; i < TIDEI_COUNT(types); i += test_quick() ? 2 : 1) {
        tidei_program p = {0};
        const uint8_t *t = types[i];
        uint16_t a = cast(&p, t[1], input(&p, t[0])), b = cast(&p, t[1], input(&p, t[0])),
                 x = node(&p, TIDEI_OP_MUL, t[1], a, b, 0);
        for (int n = 0; i == 0 && n < 4; n++)
            x = node(&p, TIDEI_OP_TANH, t[1], node(&p, TIDEI_OP_ADD, t[1], x, b, 0), 0, 0);
        fold(&p, t[2] == TIDE_I64 && t[0] == TIDE_F64 ? TIDEI_FOLD_ARGMIN : TIDEI_FOLD_SUM, x, t[1],
             t[2]);
        add_kernel(&m, &p, TIDEI_CUDA_FOLD_PAIRS, 2);
    }
    compile(&m);
}

/* Which calls are folds of pairs: those whose tiles are full enough. */
static void pairs_are_found(void **state) {
    static const struct {
        int64_t rows, columns, count;
        bool found;
    } cases[] = {{2048, 2048, 64, true}, {512, 512, 64, true}, {16, 16, 64, false},
                 {16, 100000, 64, true}, {3, 4096, 64, false}, {64, 64, 100000, true},
                 {1000, 1000, 1, true}};
    tidei_program p = {0};
    tidei_cuda_traits k;
    tidei_pairs pairs;
    (void)state;
    uint16_t a = input(&p, TIDE_F32), b = input(&p, TIDE_F32);
    fold(&p, TIDEI_FOLD_SUM, node(&p, TIDEI_OP_MUL, TIDE_F32, a, b, 0), TIDE_F32, TIDE_F32);
    tidei_cuda_traits_of(&p, &k);
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_call c = {.prog = &p,
                        .ndim = 3,
                        .nred = 1,
                        .shape = {cases[i].rows, cases[i].columns, cases[i].count}};
        c.in[0].strides[0] = c.in[1].strides[1] = cases[i].count;
        c.in[0].strides[2] = c.in[1].strides[2] = 1;
        c.out[0].strides[0] = cases[i].columns;
        c.out[0].strides[1] = 1;
        if (tidei_pairs_find(&c, &k, 132, &pairs) != cases[i].found) fail_msg("case %u", i);
        c.in[0].strides[1] = 1; /* one operand that lacks nothing */
        assert_false(tidei_pairs_find(&c, &k, 132, &pairs));
    }
}

/* The largest program there may be: its parameters fit, its text compiles. */
static void the_largest_program_fits_and_compiles(void **state) {
    tidei_program map = {0}, sum = {0};
    tidei_cuda_traits k;
    emu_module m = {0};
    (void)state;
    for (tidei_program *p = &map; p; p = p == &map ? &sum : NULL) {
        uint16_t x = 0;
        for (int i = 0; i < TIDEI_INPUTS_MAX; i++) {
            uint16_t a = input(p, i % 3 ? TIDE_F32 : TIDE_C128);
            a = i % 3 ? a : cast(p, TIDE_BOOL, a);
            x = i ? node(p, TIDEI_OP_ADD, TIDE_F32, x, cast(p, TIDE_F32, a), 0)
                  : cast(p, TIDE_F32, a);
        }
        for (int i = 0; i < TIDEI_SCALARS_MAX; i++)
            x = node(p, TIDEI_OP_MUL, TIDE_F32, x, scalar(p, TIDE_F32), 0);
        x = node(p, TIDEI_OP_ADD, TIDE_F32, x,
                 cast(p, TIDE_F32, node(p, TIDEI_OP_LINEAR, TIDE_I64, 0, 0, 0)), 0);
        if (p == &map)
            for (int i = 0; i < TIDEI_OUTS_MAX; i++) result(p, x);
        else
            fold(p, TIDEI_FOLD_SUM, x, TIDE_F32, TIDE_F32);
        tidei_cuda_traits_of(p, &k);
        for (int c = p == &map ? 0 : TIDEI_CUDA_FOLD_ROW;
             c < (p == &map ? TIDEI_CUDA_FOLD_ROW : TIDEI_CUDA_CLASSES); c++)
            assert_in_range(tidei_cuda_params_bytes(p, &k, (tidei_cuda_class)c), 1,
                            TIDEI_PARAMS_MAX);
    }
    need_nvrtc();
    add_text(&m, &map, TIDEI_CUDA_STRIDED);
    add_text(&m, &sum, TIDEI_CUDA_FOLD_ROW);
    compile(&m);
}

/* The text is a cache's key: the same program gives the same one, another one another; classes are
** few. */
static void one_program_has_one_text(void **state) {
    tidei_program p[6], q[6];
    (void)state;
    build_maps(p);
    build_maps(q);
    char *first = NULL;
    for (unsigned i = 0; i < 6; i++) {
        tidei_cuda_traits k;
        size_t body, other;
        tidei_cuda_traits_of(&p[i], &k);
        char *a = tidei_cuda_text(NULL, &p[i], &k, TIDEI_CUDA_STRIDED, &body);
        char *b = tidei_cuda_text(NULL, &q[i], &k, TIDEI_CUDA_STRIDED, &other);
        char *c = tidei_cuda_text(NULL, &p[i], &k, TIDEI_CUDA_FLAT, NULL);
        assert_string_equal(a, b);
        assert_int_equal(body, other);
        assert_string_not_equal(a, c);
        assert_null(strstr(a, "#include"));
        if (first) assert_string_not_equal(a, first);
        tidei_host_free(NULL, first);
        first = a;
        tidei_host_free(NULL, b);
        tidei_host_free(NULL, c);
    }
    tidei_host_free(NULL, first);
    assert_true(TIDEI_CUDA_FOLD_ROW <= 6 && TIDEI_CUDA_SCAN - TIDEI_CUDA_FOLD_ROW <= 6);
}

static int fresh(void **state) { /* a case that failed leaves its jobs behind */
    (void)state;
    njobs = nknowns = 0;
    random_state = 1;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(maps_compute_in_any_layout, fresh),
        cmocka_unit_test_setup(maps_compute_in_each_class, fresh),
        cmocka_unit_test_setup(uneven_rows_compute, fresh),
        cmocka_unit_test_setup(a_result_may_be_a_view_of_its_input, fresh),
        cmocka_unit_test_setup(folds_compute_in_any_layout, fresh),
        cmocka_unit_test_setup(folds_compute_in_each_class, fresh),
        cmocka_unit_test_setup(folds_of_pairs_compute, fresh),
        cmocka_unit_test_setup(few_columns_of_many_rows, fresh),
        cmocka_unit_test_setup(folds_keep_nan_zeros_and_infinities, fresh),
        cmocka_unit_test_setup(large_calls_are_cut, fresh),
        cmocka_unit_test_setup(grids_of_large_calls_fit_a_launch, fresh),
        cmocka_unit_test_setup(joins_are_spread, fresh),
        cmocka_unit_test_setup(one_program_has_one_text, fresh),
        cmocka_unit_test_setup(operations_compile, fresh),
        cmocka_unit_test_setup(casts_compile, fresh),
        cmocka_unit_test_setup(folds_compile, fresh),
        cmocka_unit_test_setup(pairs_compile, fresh),
        cmocka_unit_test_setup(pairs_are_found, fresh),
        cmocka_unit_test_setup(the_largest_program_fits_and_compiles, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
