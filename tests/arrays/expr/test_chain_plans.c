/* test_chain_plans.c: which form and launch a chain's call gets, by its shape, types and layout,
** also of what is too large to run; and that forms compile. What they compute is
** test_chains.c's. */
#include "arrays/expr/cuda_chain.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/arrays/expr/programs.h"
#include "tests/arrays/expr/unit.h"
#include <inttypes.h>
#include <math.h>

/* ---- programs ---- */

static uint16_t fold_node(tidei_program *p, int kind, uint16_t body, int out) {
    p->nfolds++;
    return node(p, TIDEI_OP_FOLD, out, body, 0, kind);
}

static void build_softmax(tidei_program *p, int t) {
    const int acc = t == TIDE_F16 || t == TIDE_BF16 ? TIDE_F32 : t;
    memset(p, 0, sizeof *p);
    const uint16_t x = input(p, t), m = fold_node(p, TIDEI_FOLD_MAX, cast(p, acc, x), t),
                   e = node(p, TIDEI_OP_EXP, t, node(p, TIDEI_OP_SUB, t, x, m, 0), 0, 0),
                   s = fold_node(p, TIDEI_FOLD_SUM, cast(p, acc, e), t);
    result(p, node(p, TIDEI_OP_DIV, t, e, s, 0));
    tidei_program_seal(p);
    assert_true(tidei_program_valid(p));
}

/* x - mean(x), times g, which is the same for all rows; and the first greatest place. */
static void build_norm(tidei_program *p, int t) {
    const int acc = t == TIDE_F16 || t == TIDE_BF16 ? TIDE_F32 : t;
    memset(p, 0, sizeof *p);
    const uint16_t x = input(p, t), g = input(p, t),
                   m = fold_node(p, TIDEI_FOLD_MEAN, cast(p, acc, x), t),
                   d = node(p, TIDEI_OP_SUB, t, x, m, 0);
    result(p, node(p, TIDEI_OP_MUL, t, d, g, 0));
    result(p, fold_node(p, TIDEI_FOLD_ARGMAX, cast(p, acc, d), TIDE_I64));
    tidei_program_seal(p);
    assert_true(tidei_program_valid(p));
}

static void build_max(tidei_program *p, int t) {
    memset(p, 0, sizeof *p);
    result(p, t == TIDE_F16 ? fold_node(p, TIDEI_FOLD_MAX, cast(p, TIDE_F32, input(p, t)), TIDE_F32)
                            : fold_node(p, TIDEI_FOLD_MAX, input(p, t), t));
    tidei_program_seal(p);
    assert_true(tidei_program_valid(p));
}

static void build_sum(tidei_program *p, int t) {
    memset(p, 0, sizeof *p);
    result(p, fold_node(p, TIDEI_FOLD_SUM, cast(p, TIDE_I64, input(p, t)), TIDE_I64));
    tidei_program_seal(p);
    assert_true(tidei_program_valid(p));
}

/* ---- calls ---- */

static bool choose_for(const tidei_program *p, int64_t rows, int64_t n, bool turned, int64_t offset,
                       bool alone, unsigned cluster_most, tidei_chain_plan *out) {
    tidei_program shared = *p;
    tidei_call c = {.prog = &shared, .ndim = 2, .nred = 1, .shape = {rows, n}};
    tidei_chain_traits k;
    tidei_chain_traits_of(p, &k);
    for (unsigned i = 0; i < 2; i++) {
        tidei_view *v = i ? &c.out[0] : &c.in[0];
        v->offset = offset;
        v->strides[0] = turned ? 1 : n;
        v->strides[1] = turned ? rows : 1;
    }
    c.in[1].strides[1] = 1; /* the same for all rows */
    c.out[1].strides[0] = 1;
    if (alone) c.out[0] = c.out[1];
    tidei_call_collapse(&c);
    tidei_chain_order(&c, &k);
    memset(out, 0xEE, sizeof *out);
    return tidei_chain_choose(&c, &k, alone, 132, cluster_most, out);
}

/* The same where `beside` rows lie side by side. */
static bool choose_beside(const tidei_program *p, int64_t outer, int64_t n, int64_t beside,
                          bool alone, tidei_chain_plan *out) {
    tidei_program shared = *p;
    tidei_call c = {.prog = &shared, .ndim = 3, .nred = 1, .shape = {outer, beside, n}};
    tidei_chain_traits k;
    tidei_chain_traits_of(p, &k);
    c.in[0] = c.out[0] = (tidei_view){.strides = {n * beside, 1, beside}};
    if (alone) c.out[0] = (tidei_view){.strides = {beside, 1, 0}};
    tidei_chain_order(&c, &k);
    memset(out, 0xEE, sizeof *out);
    return tidei_chain_choose(&c, &k, alone, 132, 16, out);
}

static bool choose(const tidei_program *p, int64_t rows, int64_t n, bool turned, int64_t offset,
                   unsigned cluster_most, tidei_chain_plan *out) {
    return choose_for(p, rows, n, turned, offset, false, cluster_most, out);
}

/* Every element has a thread, and threads have what they can hold. */
static void check_plan(const tidei_chain_plan *p, int64_t rows, int64_t n) {
    const tidei_chain_form *f = &p->form;
    const bool columns = f->kind == TIDEI_CHAIN_COLUMNS, warp = f->kind == TIDEI_CHAIN_LANES;
    const int64_t v = columns ? 1 : f->vec, w = columns ? f->vec : 1, threads = p->threads,
                  side = (int64_t)1 << p->shift,
                  lanes = warp                    ? side
                          : columns && f->in_warp ? f->lanes
                          : columns               ? threads >> p->shift
                                                  : threads,
                  groups = warp      ? (threads >> p->shift) * f->rows
                           : columns ? (threads >> p->shift) / lanes * side
                                     : 1;
    if (f->in_warp) assert_true((columns ? side : 1) * lanes <= 32);
    if (f->uneven) { /* what goes alone has a lane each */
        assert_int_equal(p->vectors, n / v);
        assert_true(!columns && v > 1 && n >= v && lanes >= 2 * v - 2);
    } else
        assert_int_equal(p->vectors * v, n);
    assert_int_equal(p->rows * w, rows);
    assert_true(p->part * f->blocks >= p->vectors && lanes * f->unroll >= p->part);
    assert_true((int64_t)p->grid / f->blocks * groups >= p->rows);
    assert_true(p->threads >= 32 && p->threads % 32 == 0 && p->threads <= TIDEI_CHAIN_LARGE);
    assert_int_equal(p->grid % f->blocks, 0);
    assert_true(p->shared <= TIDEI_CUDA_SHARED_MAX && p->room % 16 == 0);
    if (!f->in_warp) { /* each warp leaves accumulators of its rows, of four bytes at least */
        const int64_t left = p->threads / 32 * (columns ? side < 32 ? side : 32 : 1) * w;
        assert_true(p->room >= 4 * left && (f->blocks == 1 || p->room >= 4 * side * w * f->blocks));
    }
    assert_true(f->large == (p->threads > TIDEI_CHAIN_SMALL));
    assert_true(!f->middle || p->threads <= TIDEI_CHAIN_MIDDLE);
}

/* ---- forms ---- */

static void forms_follow_from_shapes(void **state) {
    enum { NONE = 9 };
    static const struct {
        int64_t rows, n, offset;
        uint8_t type, turned, kind, vec, blocks;
    } cases[] = {
        {8192, 4096, 0, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 1},
        {8192, 4095, 0, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 1},
        {8192, 4096, 1, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 1},
        {8192, 50257, 0, TIDE_F16, 0, TIDEI_CHAIN_BLOCK, 8, 5},
        {8192, 50257, 0, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 5},
        {8192, 129, 0, TIDE_F32, 0, TIDEI_CHAIN_LANES, 4, 1},
        {8192, 65, 0, TIDE_F16, 0, TIDEI_CHAIN_LANES, 4, 1},
        {32, 32, 0, TIDE_F32, 0, TIDEI_CHAIN_LANES, 4, 1},
        {1 << 20, 7, 0, TIDE_F32, 0, TIDEI_CHAIN_LANES, 1, 1},
        {1 << 20, 7, 1, TIDE_F32, 0, TIDEI_CHAIN_LANES, 2, 1},
        {8192, 4096, 0, TIDE_F16, 0, TIDEI_CHAIN_BLOCK, 8, 1},
        {8192, 4096, 0, TIDE_F64, 0, TIDEI_CHAIN_BLOCK, 2, 1},
        {1024, 32768, 0, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 2},
        {64, 131072, 0, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 8},
        {64, 330125, 0, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 11},
        {64, 524288, 0, TIDE_F16, 0, TIDEI_CHAIN_BLOCK, 8, 16},
        {64, 600000, 0, TIDE_F32, 0, NONE, 0, 0},
        {64, 131072, 0, TIDE_F64, 0, TIDEI_CHAIN_BLOCK, 2, 16},
        {64, 262144, 0, TIDE_F64, 0, NONE, 0, 0},
        {1, 1 << 25, 0, TIDE_F32, 0, NONE, 0, 0},
        {100000, 60, 0, TIDE_F32, 1, TIDEI_CHAIN_COLUMNS, 4, 1},
        {64, 262144, 0, TIDE_F32, 0, TIDEI_CHAIN_BLOCK, 4, 16},
        {8192, 4096, 0, TIDE_F32, 1, TIDEI_CHAIN_COLUMNS, 4, 8},
        {8192, 8192, 0, TIDE_F32, 1, TIDEI_CHAIN_COLUMNS, 4, 8},
        {8192, 16384, 0, TIDE_F32, 1, TIDEI_CHAIN_COLUMNS, 4, 16},
        {8191, 100, 0, TIDE_F32, 1, TIDEI_CHAIN_COLUMNS, 1, 2},
        {33554, 1000, 0, TIDE_F32, 1, TIDEI_CHAIN_COLUMNS, 2, 8},
        {8190, 4097, 0, TIDE_F32, 1, TIDEI_CHAIN_COLUMNS, 2, 16},
        {8192, 100000, 0, TIDE_F32, 1, NONE, 0, 0},
        {(int64_t)1 << 31, 4, 0, TIDE_F32, 0, NONE, 0, 0},
        {((int64_t)1 << 31) - (1 << 17), 4, 0, TIDE_F32, 0, TIDEI_CHAIN_LANES, 4, 1},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_program p;
        tidei_chain_plan plan;
        const int64_t rows = cases[i].rows, n = cases[i].n;
        build_softmax(&p, cases[i].type);
        const bool turned = cases[i].turned;
        const bool fits = choose(&p, rows, n, turned, cases[i].offset, 16, &plan);
        assert_int_equal(fits, cases[i].kind != NONE);
        if (!fits) continue;
        check_plan(&plan, rows, n);
        assert_int_equal(plan.form.kind, cases[i].kind);
        assert_int_equal(plan.form.vec, cases[i].vec);
        assert_int_equal(plan.form.blocks, cases[i].blocks);
        /* with the clusters that all devices have, and without */
        for (unsigned most = TIDEI_CLUSTER_SURE; most; most = most > 1 ? 1 : 0) {
            if (choose(&p, rows, n, turned, cases[i].offset, most, &plan)) {
                check_plan(&plan, rows, n);
                assert_true(plan.form.blocks <= most);
            } else
                assert_true(cases[i].blocks > most);
        }
    }
}

/* A fold alone is one kernel's where a cluster holds its rows, and two kernels' where that is
** quicker (0 blocks): much that lies across memory, long rows of bytes. */
static void folds_alone_have_clusters(void **state) {
    static const struct {
        int64_t rows, n;
        uint8_t type, turned, blocks;
    } cases[] = {
        {1, 16000, TIDE_F32, 0, 1},     {1, 262144, TIDE_F32, 0, 16}, {1, 280000, TIDE_F32, 0, 0},
        {1000, 131072, TIDE_F32, 0, 8}, {1000, 1024, TIDE_F32, 1, 1}, {1000, 2048, TIDE_F32, 1, 2},
        {1000, 4000, TIDE_F32, 1, 4},   {1000, 4200, TIDE_F32, 1, 0}, {3, 100000, TIDE_F32, 1, 0},
        {64, 10000, TIDE_F32, 1, 16},   {1000, 1000, TIDE_I8, 1, 1},  {20, 30000, TIDE_I8, 1, 0},
        {1, 60000, TIDE_I8, 0, 1},      {1, 80000, TIDE_I8, 0, 0},    {1, 80001, TIDE_I8, 0, 0},
        {1, 379891, TIDE_I8, 0, 0},     {1, 60001, TIDE_I8, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_program p;
        tidei_chain_plan plan;
        build_max(&p, cases[i].type);
        const bool fits =
            choose_for(&p, cases[i].rows, cases[i].n, cases[i].turned, 0, true, 16, &plan);
        if (fits) check_plan(&plan, cases[i].rows, cases[i].n);
        const unsigned blocks = fits ? plan.form.blocks : 0;
        if (blocks != cases[i].blocks)
            fail_msg("case %zu has %u blocks, not %u", i, blocks, cases[i].blocks);
    }
}

/* Integers of one or two bytes are words until they are used, where a vector of them fills one; so
** a thread has many of them, also for sums of 64 bits. Halves are not. */
static void short_integers_of_rows_are_words(void **state) {
    static const struct {
        int64_t n, elements; /* elements: that a thread keeps; 0: any */
        uint8_t type, turned, sum, vec, words;
    } cases[] = {
        {4096, 128, TIDE_BOOL, 0, 0, 8, 1}, {4097, 128, TIDE_I8, 0, 0, 8, 1},
        {4096, 64, TIDE_I8, 0, 1, 8, 1},    {4100, 64, TIDE_U8, 0, 1, 8, 1},
        {4096, 64, TIDE_U16, 0, 0, 8, 1},   {4096, 64, TIDE_U16, 0, 1, 8, 1},
        {4097, 64, TIDE_I16, 0, 1, 8, 1},   {4096, 64, TIDE_F16, 0, 0, 8, 0},
        {4096, 16, TIDE_F16, 0, 1, 8, 0},   {3, 0, TIDE_I16, 0, 1, 1, 0},
        {64, 0, TIDE_U16, 1, 1, 8, 1},      {64, 0, TIDE_I8, 1, 0, 8, 1},
        {3, 0, TIDE_I8, 0, 0, 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_program p;
        tidei_chain_plan plan;
        tidei_chain_traits k;
        (cases[i].sum ? build_sum : build_max)(&p, cases[i].type);
        tidei_chain_traits_of(&p, &k);
        assert_true(choose_for(&p, 15000, cases[i].n, cases[i].turned, 0, true, 16, &plan));
        if (plan.form.vec != cases[i].vec ||
            (cases[i].elements &&
             plan.form.unroll * plan.form.vec * plan.form.rows != cases[i].elements))
            fail_msg("case %zu: %d vectors of %d in %d rows", i, plan.form.unroll, plan.form.vec,
                     plan.form.rows);
        char *text = tidei_chain_text(NULL, &p, &k, &plan.form, NULL);
        assert_non_null(text);
        const char head[] = "struct tide_x {\n    tide_", *kept = strstr(text, head);
        assert_non_null(kept);
        assert_int_equal(!strncmp(kept + strlen(head), "packed<", 7), cases[i].words);
        tidei_host_free(NULL, text);
    }
}

/* x - mean(x), times g, an element a row of memory, which is read late: of another type it takes
** nothing of a thread's room either. */
static void what_is_read_late_takes_no_room(void **state) {
    static const uint8_t types[][2] = {
        {TIDE_F32, TIDE_F32}, {TIDE_F16, TIDE_F32}, {TIDE_F32, TIDE_F64}, {TIDE_F16, TIDE_F16}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(types); i++) {
        const int t = types[i][0], w = types[i][1];
        tidei_chain_plan with, without;
        for (int weighed = 0; weighed < 2; weighed++) {
            tidei_program p;
            memset(&p, 0, sizeof p);
            const uint16_t x = input(&p, t),
                           m = fold_node(&p, TIDEI_FOLD_MEAN, cast(&p, TIDE_F32, x), TIDE_F32),
                           d = node(&p, TIDEI_OP_SUB, TIDE_F32, cast(&p, TIDE_F32, x), m, 0);
            if (weighed)
                result(&p,
                       node(&p, TIDEI_OP_MUL, TIDE_F32, d, cast(&p, TIDE_F32, input(&p, w)), 0));
            else
                result(&p, d);
            tidei_program_seal(&p);
            assert_true(choose(&p, 8192, 2048, true, 0, 16, weighed ? &with : &without));
        }
        assert_int_equal(with.form.unroll, without.form.unroll);
        assert_int_equal(with.form.blocks, without.form.blocks);
        assert_int_equal(with.threads, without.threads);
    }
}

/* Any shape is covered, or refused. */
static void plans_cover_any_shape(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        static const uint8_t types[] = {TIDE_F32, TIDE_F16, TIDE_F64};
        tidei_program p;
        tidei_chain_plan plan;
        const int64_t rows = 1 + (int64_t)exp2(unit() * 20), n = 2 + (int64_t)exp2(unit() * 18);
        const bool turned = unit() < 0.4;
        (i % 2 ? build_softmax : build_norm)(&p, types[i % 3]);
        if (choose(&p, rows, n, turned, i % 5 == 0, i % 7 ? 16 : 8, &plan))
            check_plan(&plan, rows, n);
    }
}

/* Where few rows lie side by side, a thread's neighbours have more of the same rows. */
static void few_rows_side_by_side(void **state) {
    static const struct {
        int64_t outer, n, beside;
        uint8_t type, vec, in_warp;
        uint16_t lanes, blocks, threads;
    } cases[] = {
        {100000, 7, 2, TIDE_F32, 2, 1, 4, 1, 256},     {100000, 33, 2, TIDE_F32, 2, 1, 8, 1, 256},
        {100000, 100, 2, TIDE_F32, 2, 1, 8, 1, 256},   {100000, 100, 3, TIDE_F32, 1, 1, 8, 1, 256},
        {100000, 100, 12, TIDE_F32, 4, 0, 16, 1, 64},  {100000, 3, 2, TIDE_F16, 2, 1, 1, 1, 256},
        {100000, 100, 5, TIDE_F16, 1, 0, 8, 1, 64},    {5, 100, 2, TIDE_F32, 2, 1, 8, 1, 32},
        {10000, 1000, 2, TIDE_F32, 2, 0, 64, 1, 64},   {10000, 1000, 3, TIDE_F32, 1, 0, 64, 1, 256},
        {1000, 5000, 2, TIDE_F32, 2, 0, 512, 1, 512},  {1000, 5000, 3, TIDE_F32, 1, 0, 128, 4, 512},
        {1000, 20000, 4, TIDE_F32, 4, 0, 512, 8, 512},
    };
    (void)state;
    tidei_program p;
    tidei_chain_plan plan;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        const int64_t rows = cases[i].outer * cases[i].beside, n = cases[i].n;
        build_softmax(&p, cases[i].type);
        assert_true(choose_beside(&p, cases[i].outer, n, cases[i].beside, false, &plan));
        check_plan(&plan, rows, n);
        const tidei_chain_form *f = &plan.form;
        const unsigned across = 1u << plan.shift,
                       lanes = f->in_warp ? f->lanes : plan.threads / across;
        if (f->kind != TIDEI_CHAIN_COLUMNS || f->vec != cases[i].vec ||
            across * f->vec < cases[i].beside || across / 2 * f->vec >= cases[i].beside ||
            f->in_warp != cases[i].in_warp || lanes != cases[i].lanes ||
            f->blocks != cases[i].blocks || plan.threads != cases[i].threads)
            fail_msg("case %zu: %u across, vectors of %u, %d %u lanes, %u blocks of %u threads", i,
                     across, f->vec, f->in_warp, lanes, f->blocks, plan.threads);
    }
    build_softmax(&p, TIDE_F32);
    assert_true(choose_beside(&p, 1000, 100, 16, false, &plan)); /* two sectors are enough */
    assert_true(4u << plan.shift > 16 && !plan.form.in_warp);
    check_plan(&plan, 16000, 100);
    build_max(&p, TIDE_I8); /* other kernels are better at long rows of bytes */
    assert_true(choose_beside(&p, 100000, 100, 5, true, &plan));
    assert_false(choose_beside(&p, 100000, 1000, 5, true, &plan));
    build_max(&p, TIDE_F32);
    assert_true(choose_beside(&p, 100000, 1000, 5, true, &plan));
    unsigned found = 0, narrow = 0;
    for (int i = 0; i < 4000; i++) {
        static const uint8_t types[] = {TIDE_F32, TIDE_F16, TIDE_F64};
        const int64_t outer = 2 + (int64_t)exp2(unit() * 16), n = 2 + (int64_t)exp2(unit() * 17),
                      beside = 2 + (int64_t)(unit() * 40);
        (i % 2 ? build_softmax : build_max)(&p, types[i % 3]);
        if (!choose_beside(&p, outer, n, beside, i % 2 == 0, &plan)) continue;
        check_plan(&plan, outer * beside, n);
        found++;
        narrow += (int64_t)plan.form.vec << plan.shift < 2 * beside;
    }
    assert_in_range(found, 2000, 4000);
    assert_in_range(narrow, 400, found);
}

/* Other dimensions may lie beside these, and how many rows there are in all is nothing to a row. */
static void what_lies_side_by_side(void **state) {
    (void)state;
    tidei_program p;
    tidei_chain_plan plan, few;
    build_softmax(&p, TIDE_F32);
    tidei_call c = {.prog = &p, .ndim = 3, .nred = 1, .shape = {1000, 3, 1000}};
    tidei_chain_traits k;
    tidei_chain_traits_of(&p, &k);
    c.in[0] = c.out[0] = (tidei_view){.strides = {4, 1, 4000}}; /* three of four columns */
    assert_true(tidei_chain_choose(&c, &k, false, 132, 16, &plan));
    assert_true(plan.form.kind == TIDEI_CHAIN_COLUMNS && plan.shift >= 4 && !plan.form.in_warp);
    c.in[0] = c.out[0] = (tidei_view){.strides = {4000, 1, 4}};
    assert_true(tidei_chain_choose(&c, &k, false, 132, 16, &plan));
    assert_true(plan.form.kind == TIDEI_CHAIN_COLUMNS && plan.shift == 2);
    unsigned planned = 0;
    for (int64_t n = 2; n < 20000; n += n / 3 + 1)
        for (int64_t beside = 2; beside < 14; beside++) {
            if (!choose_beside(&p, 100000, n, beside, false, &plan)) continue;
            planned++;
            for (int64_t outer = 2; outer < 100; outer += outer) {
                assert_true(choose_beside(&p, outer, n, beside, false, &few));
                assert_int_equal(few.form.unroll, plan.form.unroll);
                assert_int_equal(few.form.blocks, plan.form.blocks);
                assert_int_equal(few.form.in_warp, plan.form.in_warp);
                assert_int_equal(few.form.lanes, plan.form.lanes);
                if (!few.form.in_warp)
                    assert_int_equal(few.threads >> few.shift, plan.threads >> plan.shift);
            }
        }
    assert_in_range(planned, 300, 360);
}

/* Lanes and blocks have what there is: not more than a quarter of their vectors is beyond it. */
static void rows_are_shared_evenly(void **state) {
    static const uint8_t types[] = {TIDE_F32, TIDE_F16, TIDE_F64};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(types); i++)
        for (int64_t n = 40; n <= 5000; n += 8) {
            tidei_program p;
            tidei_chain_plan plan;
            build_max(&p, types[i]);
            assert_true(choose(&p, 100000, n, false, 0, 16, &plan));
            const bool lanes = plan.form.kind == TIDEI_CHAIN_LANES;
            const int64_t threads = lanes ? plan.form.lanes : plan.threads,
                          have = threads * plan.form.unroll * plan.form.vec;
            if (have * 3 > n * 4)
                fail_msg("%" PRId64 ": %" PRId64 " threads, %u of %u", n, threads, plan.form.unroll,
                         plan.form.vec);
        }
}

/* Columns that a thread each has, by other kernels: many, neither short nor long, where lanes would
** load little at once or join much. */
static void columns_of_threads_alone(void **state) {
    static const struct {
        int64_t rows, n;
        bool sum, fits; /* a sum of i8, else the greatest f16 */
    } cases[] = {{919299, 73, false, false}, {919296, 73, false, true},  {919299, 30, false, true},
                 {91929, 73, false, true},   {4000000, 33, true, false}, {4000000, 4, true, true},
                 {800000, 100, true, true}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_program p;
        tidei_chain_plan plan;
        cases[i].sum ? build_sum(&p, TIDE_I8) : build_max(&p, TIDE_F16);
        const bool fits = choose_for(&p, cases[i].rows, cases[i].n, true, 0, true, 16, &plan);
        if (fits != cases[i].fits) fail_msg("case %zu", i);
        if (fits) check_plan(&plan, cases[i].rows, cases[i].n);
    }
}

/* Folds of several stages across memory: no wider clusters than are worth it. */
static void columns_of_one_result(void **state) {
    static const struct {
        int64_t rows, n;
        uint8_t type, blocks;
    } cases[] = {{3986, 8418, TIDE_F32, 8},  {3296, 10174, TIDE_F32, 0},
                 {37871, 886, TIDE_F32, 2},  {48592, 1381, TIDE_F16, 2},
                 {6592, 10174, TIDE_F16, 0}, {142784, 470, TIDE_F16, 1}};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_program p;
        tidei_chain_plan plan;
        const int t = cases[i].type;
        memset(&p, 0, sizeof p);
        const uint16_t x = input(&p, t),
                       m = fold_node(&p, TIDEI_FOLD_MEAN, cast(&p, TIDE_F32, x), t),
                       d = node(&p, TIDEI_OP_SUB, t, x, m, 0);
        result(&p, fold_node(&p, TIDEI_FOLD_MEAN,
                             cast(&p, TIDE_F32, node(&p, TIDEI_OP_MUL, t, d, d, 0)), t));
        tidei_program_seal(&p);
        tidei_call c = {.prog = &p, .ndim = 2, .nred = 1, .shape = {cases[i].rows, cases[i].n}};
        tidei_chain_traits k;
        tidei_chain_traits_of(&p, &k);
        c.in[0].strides[0] = c.out[0].strides[0] = 1;
        c.in[0].strides[1] = cases[i].rows;
        const bool found = tidei_chain_choose(&c, &k, false, 132, 16, &plan);
        assert_int_equal(found ? plan.form.blocks : 0, cases[i].blocks);
        if (found) check_plan(&plan, cases[i].rows, cases[i].n);
    }
}

/* A variance whose mean is found in f64: threads have as many f32 of a column as in f32, unless
** functions are computed in f64. */
static void columns_folded_in_twice_the_digits(void **state) {
    (void)state;
    for (int function = 0; function < 2; function++) {
        tidei_program p;
        tidei_chain_plan plan;
        tidei_chain_traits k;
        memset(&p, 0, sizeof p);
        const uint16_t x = input(&p, TIDE_F32), wide = cast(&p, TIDE_F64, x),
                       y = function ? node(&p, TIDEI_OP_EXP, TIDE_F64, wide, 0, 0) : wide,
                       m = cast(&p, TIDE_F32, fold_node(&p, TIDEI_FOLD_MEAN, y, TIDE_F64)),
                       d = node(&p, TIDEI_OP_SUB, TIDE_F32, x, m, 0);
        result(&p,
               fold_node(&p, TIDEI_FOLD_SUM, node(&p, TIDEI_OP_MUL, TIDE_F32, d, d, 0), TIDE_F32));
        tidei_program_seal(&p);
        tidei_call c = {.prog = &p, .ndim = 3, .nred = 1, .shape = {3, 38304, 292}};
        tidei_chain_traits_of(&p, &k);
        c.in[0].strides[0] = (int64_t)292 * 38304;
        c.in[0].strides[2] = c.out[0].strides[0] = 38304;
        c.in[0].strides[1] = c.out[0].strides[1] = 1;
        assert_true(tidei_chain_choose(&c, &k, false, 132, 16, &plan));
        assert_int_equal(plan.form.kind, TIDEI_CHAIN_COLUMNS);
        assert_int_equal(plan.threads >> plan.shift, function ? 128 : 64);
    }
}

/* Several folds of a stage have so large accumulators that only narrow pieces of columns fit shared
** memory: these are chosen. */
static void columns_of_several_folds(void **state) {
    static const int64_t lengths[] = {150, 300, 1000, 2000, 4097, 4600};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(lengths); i++) {
        tidei_program p;
        tidei_chain_plan plan;
        memset(&p, 0, sizeof p);
        const uint16_t x = input(&p, TIDE_F32), y = input(&p, TIDE_F32),
                       most = fold_node(&p, TIDEI_FOLD_MAX, x, TIDE_F32),
                       least = fold_node(&p, TIDEI_FOLD_MIN, x, TIDE_F32),
                       mean = fold_node(&p, TIDEI_FOLD_MEAN, x, TIDE_F32),
                       span = node(&p, TIDEI_OP_SUB, TIDE_F32, most, least, 0),
                       d = node(&p, TIDEI_OP_SUB, TIDE_F32, x, mean, 0);
        result(&p, node(&p, TIDEI_OP_DIV, TIDE_F32, d, span, 0));
        result(&p, node(&p, TIDEI_OP_ADD, TIDE_F32, mean, y, 0));
        tidei_program_seal(&p);
        for (unsigned most_blocks = 8; most_blocks <= 16; most_blocks += 8) {
            assert_true(choose(&p, 8190 + i % 2, lengths[i], true, 0, most_blocks, &plan));
            check_plan(&plan, 8190 + i % 2, lengths[i]);
        }
    }
}

/* Few columns, whose accumulators fit where those of many would not. */
static void few_columns_of_many_folds(void **state) {
    static const uint8_t kinds[] = {TIDEI_FOLD_MAX,  TIDEI_FOLD_MIN,    TIDEI_FOLD_SUM,
                                    TIDEI_FOLD_MEAN, TIDEI_FOLD_ARGMAX, TIDEI_FOLD_ARGMIN};
    (void)state;
    tidei_program p;
    tidei_chain_plan plan;
    memset(&p, 0, sizeof p);
    const uint16_t x = input(&p, TIDE_F32);
    uint16_t all = x;
    for (unsigned i = 0; i < TIDEI_COUNT(kinds); i++) {
        const bool arg = kinds[i] == TIDEI_FOLD_ARGMAX || kinds[i] == TIDEI_FOLD_ARGMIN;
        const uint16_t f = fold_node(&p, kinds[i], x, arg ? TIDE_I64 : TIDE_F32);
        all = node(&p, TIDEI_OP_ADD, TIDE_F32, all, arg ? cast(&p, TIDE_F32, f) : f, 0);
    }
    result(&p, all);
    tidei_program_seal(&p);
    for (int64_t n = 900; n < 10000; n *= 3) {
        assert_true(choose(&p, 2, n, true, 0, 16, &plan));
        check_plan(&plan, 2, n);
    }
}

static void compile_form(const tidei_program *p, const tidei_chain_plan *plan) {
    tidei_chain_traits k;
    void *image;
    size_t bytes;
    tidei_chain_traits_of(p, &k);
    char *text = tidei_chain_text(NULL, p, &k, &plan->form, NULL);
    assert_non_null(text);
    assert_null(strstr(text, "#include"));
    tide_status s = tidei_nvrtc_compile(text, "tide_k", 90, &image, &bytes);
    tidei_host_free(NULL, text);
    if (s != TIDE_OK) fail_msg("%s", tide_error_last()->message);
    free(image);
}

/* A few forms, as a GPU's compiler sees them, which allows less than emulation does. */
static void forms_compile(void **state) {
    static const struct {
        int64_t rows, n;
        uint8_t type, turned;
    } cases[] = {{8192, 4096, TIDE_F32, 0}, {100000, 20, TIDE_BF16, 0}, {64, 65536, TIDE_F16, 0},
                 {8192, 4096, TIDE_F32, 1}, {100000, 30, TIDE_F64, 1},  {100000, 7, TIDE_BF16, 0},
                 {100000, 15, TIDE_F32, 0}, {667, 50257, TIDE_BF16, 0}};
    (void)state;
    tidei_program p;
    tidei_chain_plan plan;
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        if (test_quick() && i % 2) continue;
        (i % 2 ? build_norm : build_softmax)(&p, cases[i].type);
        assert_true(choose(&p, cases[i].rows, cases[i].n, cases[i].turned, 0, 16, &plan));
        compile_form(&p, &plan);
    }
    build_softmax(&p, TIDE_F16);
    assert_true(choose_beside(&p, 1000, 33, 3, false, &plan) && plan.form.in_warp);
    compile_form(&p, &plan);
    assert_true(choose_beside(&p, 100, 5000, 3, false, &plan) && plan.form.blocks > 1);
    compile_form(&p, &plan);
}

/* The room that plans have for what threads and blocks exchange is counted by what a stage's
** accumulators take: a GPU's compiler lays them out so, and a thread's beside each other as well.
** Folds of several widths, in both orders; with their numbers too. */
static void accumulators_take_what_is_counted(void **state) {
    static const uint8_t types[] = {TIDE_BOOL, TIDE_I8, TIDE_F32, TIDE_F64};
    (void)state;
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
    for (int way = 0; way < (test_quick() ? 2 : 4); way++) {
        tidei_program p;
        tidei_chain_traits k;
        tidei_chain_form f = {.kind = TIDEI_CHAIN_COLUMNS, .blocks = 2, .rows = 1, .lanes = 1};
        char assertion[256];
        void *image;
        size_t bytes;
        memset(&p, 0, sizeof p);
        for (int i = 0; i < 4; i++) {
            const int t = types[way % 2 ? 3 - i : i];
            const uint16_t x = input(&p, t);
            result(&p, way < 2 ? fold_node(&p, TIDEI_FOLD_MAX, x, t)
                               : fold_node(&p, TIDEI_FOLD_ARGMAX, x, TIDE_I64));
            f.single |= (uint8_t)(1u << i);
        }
        tidei_program_seal(&p);
        assert_true(tidei_program_valid(&p));
        tidei_chain_traits_of(&p, &k);
        f.unroll = 1;
        f.vec = (uint8_t)(1 << way);
        char *text = tidei_chain_text(NULL, &p, &k, &f, NULL);
        assert_non_null(text);
        snprintf(assertion, sizeof assertion,
                 "typedef tide_stage<0>::fold fold;\n"
                 "static_assert(sizeof(fold) == %u && sizeof(tide_accs<fold>) <= %u, \"\");\n",
                 k.acc_bytes, f.vec * ((k.acc_bytes + 3u) / 4 * 4));
        const size_t n = strlen(text) + strlen(assertion) + 1;
        char *asserted = malloc(n);
        assert_non_null(asserted);
        snprintf(asserted, n, "%s%s", text, assertion);
        tidei_host_free(NULL, text);
        tide_status s = tidei_nvrtc_compile(asserted, "tide_k", 90, &image, &bytes);
        free(asserted);
        if (s != TIDE_OK) fail_msg("way %d: %s", way, tide_error_last()->message);
        free(image);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_follow_from_shapes),
        cmocka_unit_test(folds_alone_have_clusters),
        cmocka_unit_test(short_integers_of_rows_are_words),
        cmocka_unit_test(what_is_read_late_takes_no_room),
        cmocka_unit_test(plans_cover_any_shape),
        cmocka_unit_test(few_rows_side_by_side),
        cmocka_unit_test(what_lies_side_by_side),
        cmocka_unit_test(rows_are_shared_evenly),
        cmocka_unit_test(columns_of_threads_alone),
        cmocka_unit_test(columns_of_one_result),
        cmocka_unit_test(columns_folded_in_twice_the_digits),
        cmocka_unit_test(columns_of_several_folds),
        cmocka_unit_test(few_columns_of_many_folds),
        cmocka_unit_test(forms_compile),
        cmocka_unit_test(accumulators_take_what_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
