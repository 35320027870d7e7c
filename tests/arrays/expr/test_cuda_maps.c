/* test_cuda_maps.c: the CUDA text of maps computes what it should, in every class of layouts, and
** is of the class that its layout wants. That all text compiles for a GPU is
** test_cuda_compile.c's. */
#include "tests/arrays/expr/cuda_jobs.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(maps_compute_in_any_layout, fresh),
        cmocka_unit_test_setup(maps_compute_in_each_class, fresh),
        cmocka_unit_test_setup(an_input_of_two_stretches, fresh),
        cmocka_unit_test_setup(tiles_are_taken_where_they_pay, fresh),
        cmocka_unit_test_setup(uneven_rows_compute, fresh),
        cmocka_unit_test_setup(a_result_may_be_a_view_of_its_input, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
