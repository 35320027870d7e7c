/* test_cuda_folds.c: the CUDA text of folds computes what it should: in every class of layouts,
** shared among blocks and joined, of pairs, and of special values. That all text compiles for a GPU
** is test_cuda_compile.c's. */
#include "tests/arrays/expr/cuda_jobs.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
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
