/* test_cuda_compile.c: plans and generated CUDA text, where nothing runs: calls that are too large
** for any test are cut into launches that fit; every operation, cast and fold compiles for a GPU;
** one program has one text. What it computes is test_cuda_maps.c's and test_cuda_folds.c's. */
#include "runtime/device/cuda/nvrtc.h"
#include "tests/arrays/expr/cuda_programs.h"

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

/* Many columns are a thread's each, unless they are long. */
static void many_columns_are_alone(void **state) {
    static const struct {
        int64_t columns, n, blocks;
    } cases[] = {{1 << 20, 100, 1 << 10},
                 {1000003, 100, 3907},
                 {1 << 20, 600, 1 << 13},
                 {1 << 17, 100, 1 << 10}};
    tidei_program sum = {0};
    tidei_cuda_traits k;
    tidei_cuda_linear lin = {0};
    (void)state;
    fold(&sum, TIDEI_FOLD_SUM, input(&sum, TIDE_F32), TIDE_F32, TIDE_F32);
    tidei_cuda_traits_of(&sum, &k);
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tidei_call c = {
            .prog = &sum, .ndim = 2, .nred = 1, .shape = {cases[i].columns, cases[i].n}};
        tidei_cuda_plan plan;
        c.in[0].strides[0] = c.out[0].strides[0] = 1;
        c.in[0].strides[1] = cases[i].columns;
        tidei_cuda_plan_fold(&c, &k, &lin, 132, &plan);
        assert_int_equal(plan.grid[0], cases[i].blocks);
        assert_int_equal(plan.scalars_at, 0); /* it has none */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_calls_are_cut),
        cmocka_unit_test(grids_of_large_calls_fit_a_launch),
        cmocka_unit_test(joins_are_spread),
        cmocka_unit_test(many_columns_are_alone),
        cmocka_unit_test(one_program_has_one_text),
        cmocka_unit_test(operations_compile),
        cmocka_unit_test(casts_compile),
        cmocka_unit_test(folds_compile),
        cmocka_unit_test(pairs_compile),
        cmocka_unit_test(pairs_are_found),
        cmocka_unit_test(the_largest_program_fits_and_compiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
