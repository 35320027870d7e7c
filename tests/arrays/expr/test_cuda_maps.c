/* test_cuda_text.c: generated CUDA text computes what it should, in every class of layouts.
**
** Numbers are checked without a GPU: the text runs emulated (emulate.h), driven by the very plans
** that a launch would take, against sums and products of small integers, which every element type
** holds exactly. That all text compiles for a GPU is test_cuda_compile.c's. */
#include "tests/arrays/expr/cuda_programs.h"
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
    } cases[] = {{{5003}, 1, 0},     {{4096}, 1, 0},        {{3}, 1, 0},
                 {{5003}, 1, 1},     {{70, 64}, 2, 2},      {{64, 70}, 2, 2},
                 {{33, 48}, 2, 3},   {{100, 100}, 2, 4},    {{130, 67}, 2, 4},
                 {{64, 128}, 2, 4},  {{3, 40, 50}, 3, 4},   {{20, 3, 50}, 3, 5},
                 {{1}, 1, 0},        {{16, 16}, 2, 4},      {{2, 3, 1024}, 3, 3},
                 {{150, 140}, 2, 4}, {{2, 150, 140}, 3, 4}, {{150, 2, 140}, 3, 5},
                 {{70, 64}, 2, 6},   {{9, 400}, 2, 7},      {{9, 400}, 2, 8}};
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
            case 6: /* a row for all rows, an element for a row: of the first input */
            case 7:
                if (in && first) v->strides[cases[n / 6].kind - 6] = 0;
                break;
            case 8: /* of all inputs */
                if (in) v->strides[1] = 0;
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

/* Of two inputs either may stretch along the vectors, or both. */
static void an_input_of_two_stretches(void **state) {
    static const int64_t shape[] = {9, 400};
    tidei_program p = {0};
    (void)state;
    need_emulation();
    const uint16_t a = input(&p, TIDE_I32), b = input(&p, TIDE_I32);
    result(&p, node(&p, TIDEI_OP_ADD, TIDE_I32, a, b, 0));
    for (unsigned flat = 0; flat < 4; flat++) {
        job *j = new_job(&p, 2, 0, shape);
        for (unsigned i = 0; i < 3; i++) {
            row_major(j, i, 0, 2, 1);
            if (i < 2) view_of(j, i)->strides[0] = 404; /* so that none is flat */
            if (flat >> i & 1) view_of(j, i)->strides[1] = 0;
            furnish(j, i, 0);
        }
    }
    run_jobs();
    assert_int_equal(classes_seen[TIDEI_CUDA_ROWS], 4);
}

/* m x between x n elements, the outer dimensions exchanged, `many` of that one behind the other. */
static tidei_cuda_class class_of_turned(int t, int64_t many, int64_t m, int64_t n,
                                        int64_t between) {
    tidei_program p = {0};
    tidei_call c;
    tidei_cuda_plan plan;
    uint16_t a = input(&p, t);
    result(&p, node(&p, TIDEI_OP_MUL, t, a, a, 0));
    job *j = new_job(&p, 4, 0, (int64_t[]){many, n, between, m});
    memcpy(view_of(j, 0)->strides, (int64_t[]){m * between * n, 1, n, between * n},
           4 * sizeof(int64_t));
    row_major(j, 1, 0, 4, 1);
    plan_job(j, &c, &plan);
    finish_jobs();
    return plan.cls;
}
/* Tiles where most of each is used, or strides would be slow; else strides. Measured on an H200. */
static void tiles_are_taken_where_they_pay(void **state) {
    static const struct {
        int t;
        int64_t many, m, n;
        bool tiled;
    } cases[] = {
        {TIDE_U8, 1, 4096, 4096, true},
        {TIDE_F32, 1, 4096, 4096, true},
        {TIDE_F64, 1, 4096, 4096, true},
        {TIDE_F32, 1000, 64, 64, true},
        {TIDE_F64, 1000, 64, 64, true},
        {TIDE_U8, 1, 64, 1 << 20, true},
        {TIDE_U8, 1000, 16, 16, false}, /* a sixteenth of a tile */
        {TIDE_F32, 1000, 16, 20, false},
        {TIDE_F64, 1000, 16, 16, false},
        {TIDE_U8, 1000, 72, 48, false}, /* three sides of a tile are empty for the most part */
        {TIDE_U8, 1000, 40, 128, true}, /* all elements of a row would meet in a bank */
        {TIDE_F32, 1000, 48, 32, true},
        {TIDE_U8, 1, 22, 6100805, false},
        {TIDE_U8, 1, 33, 2033601, false},
        {TIDE_U8, 1, 2097152, 32, true}, /* each sector would be read by many blocks */
        {TIDE_F32, 1, 508400, 33, true},
    };
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        bool tiled = class_of_turned(cases[i].t, cases[i].many, cases[i].m, cases[i].n, 1) ==
                     TIDEI_CUDA_TILED;
        if (tiled != cases[i].tiled) fail_msg("case %u: tiled %d", i, tiled);
    }
    /* others lie between: a block meets none of a sector's other elements */
    assert_int_equal(class_of_turned(TIDE_F32, 1, 20, 27503, 61), TIDEI_CUDA_TILED);
    assert_int_equal(class_of_turned(TIDE_F32, 1, 20, 27503, 1), TIDEI_CUDA_STRIDED);
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
                 {{9000, 2}, 2, 2, 2},   {{3, 40, 100}, 3, 2, 2}, {{2000, 1}, 2, 1, 0},
                 {{16392, 9}, 2, 1, 2},  {{2051, 45}, 2, 1, 2},   {{8, 1500}, 2, 1, 5},
                 {{128, 700}, 2, 1, 2},  {{512, 71}, 2, 1, 6},    {{64, 2048}, 2, 1, 2},
                 {{64, 1200}, 2, 1, 7},  {{129, 700}, 2, 1, 2},   {{513, 70}, 2, 1, 6}};
    tidei_program p[2 * NFOLDS];
    (void)state;
    need_emulation();
    for (unsigned f = 0; f < 2 * NFOLDS; f++) build_fold(&p[f], f / 2, f % 2);
    for (unsigned n = 0; n < TIDEI_COUNT(cases) * NFOLDS; n++) {
        const int64_t *s = cases[n / NFOLDS].shape;
        const int ndim = cases[n / NFOLDS].ndim, kept = ndim - cases[n / NFOLDS].nred;
        if (folds[n % NFOLDS].kind == TIDEI_FOLD_PROD && cases[n / NFOLDS].kind >= 6)
            continue; /* too large */
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
            case 5: /* the first */
                if (i == 0) v->strides[1] = 0;
                break;
            case 6: /* the first input: a column for all columns, side by side; the second */
            case 7:
                v->strides[0] = i == cases[n / NFOLDS].kind - 6u ? 0 : 1;
                v->strides[1] = v->strides[0] ? s[0] : 1;
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

/* A block takes as long for a part of a round as for the whole: where reduced elements are divided
** among blocks, each but the last gets whole rounds. */
static void blocks_of_a_fold_get_whole_rounds(void **state) {
    tidei_program p;
    tidei_cuda_traits k;
    (void)state;
    build_fold(&p, 0, false);
    tidei_cuda_traits_of(&p, &k);
    for (int64_t n = 100003; n < 10000000; n = 2 * n + 1) {
        tidei_call c;
        tidei_cuda_plan plan;
        int64_t chunk;
        job *j = new_job(&p, 1, 1, &n);
        row_major(j, 0, 0, 1, 1);
        plan_job(j, &c, &plan);
        /* the stretch of a block comes two numbers before the count (struct tide_p) */
        memcpy(&chunk, plan.params.bytes + plan.count_at - 16, sizeof chunk);
        assert_true(plan.splits > 1);
        assert_int_equal(chunk % (256 * k.unroll[plan.cls]), 0);
        assert_int_equal(plan.splits, (n / k.vec[plan.cls] + chunk - 1) / chunk);
        finish_jobs();
    }
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

/* Joins of accumulators of few blocks, of so many results that a thread reads all of one, or half;
** and of fewer. */
static void joins_of_many_results(void **state) {
    static const struct {
        int64_t results, splits, blocks;
    } cases[] = {{1 << 17, 2, 1 << 9}, {1 << 17, 4, 1 << 9}, {70001, 4, 547},
                 {70001, 9, 1094},     {40000, 3, 625},      {1000, 4, 16}};
    tidei_program p = {0};
    emu_module m = {0};
    tidei_cuda_traits k;
    (void)state;
    need_emulation();
    fold(&p, TIDEI_FOLD_SUM, input(&p, TIDE_I32), TIDE_I64, TIDE_I64);
    tidei_cuda_traits_of(&p, &k);
    const unsigned kernel = kernel_number(&m, &p, TIDEI_CUDA_FOLD_JOIN, 0);
    emu_build(&m);
    for (unsigned n = 0; n < TIDEI_COUNT(cases); n++) {
        const int64_t results = cases[n].results, splits = cases[n].splits;
        const tidei_call c = {
            .prog = &p, .ndim = 2, .nred = 1, .shape = {results, 4096}, .out[0].strides[0] = 1};
        const tidei_cuda_plan first = {.results = results, .splits = splits};
        tidei_cuda_plan join;
        int64_t *accs = malloc((size_t)(results * splits) * sizeof *accs),
                *sums = calloc((size_t)results + 1, sizeof *sums);
        assert_true(accs && sums);
        for (int64_t i = 0; i < results * splits; i++) accs[i] = i * i % 1009 - 500;
        tidei_cuda_plan_join(&c, &k, &first, &join);
        assert_int_equal(join.grid[0], cases[n].blocks);
        join.params.addresses[0] = (uintptr_t)accs;
        join.params.addresses[1] = (uintptr_t)sums;
        emu_launch(&m, kernel, join.grid[0], join.grid[1], join.params.bytes, true);
        for (int64_t r = 0; r < results; r++) {
            int64_t want = 0;
            for (int64_t b = 0; b < splits; b++) want += accs[b * results + r];
            assert_int_equal(sums[r], want);
        }
        assert_int_equal(sums[results], 0);
        free(accs), free(sums);
    }
    emu_close(&m);
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
        cmocka_unit_test_setup(an_input_of_two_stretches, fresh),
        cmocka_unit_test_setup(tiles_are_taken_where_they_pay, fresh),
        cmocka_unit_test_setup(uneven_rows_compute, fresh),
        cmocka_unit_test_setup(a_result_may_be_a_view_of_its_input, fresh),
        cmocka_unit_test_setup(folds_compute_in_any_layout, fresh),
        cmocka_unit_test_setup(folds_compute_in_each_class, fresh),
        cmocka_unit_test_setup(blocks_of_a_fold_get_whole_rounds, fresh),
        cmocka_unit_test_setup(folds_of_pairs_compute, fresh),
        cmocka_unit_test_setup(few_columns_of_many_rows, fresh),
        cmocka_unit_test_setup(joins_of_many_results, fresh),
        cmocka_unit_test_setup(folds_keep_nan_zeros_and_infinities, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
