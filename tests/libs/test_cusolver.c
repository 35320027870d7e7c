/* test_cusolver.c: what factorizations ask of cuSOLVER and cuBLAS, and whether what comes out is
** what each routine promises, in every type and layout, one by one and in batches. What fails:
** test_cusolver_failures.c. */
#include "tests/libs/lapack_problem.h"

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};
#define EACH_TYPE(t) for (const tide_dtype *t = types; t < types + TIDEI_COUNT(types); t++)

#define LARGE 130 /* rows: more than calls for batches take (libs/solver_batched.c) */

/* One matrix, several that lie close and several that do not, and whether calls for batches take
** them; others go one by one. */
static void all_layouts(tidei_lapack x, bool one, bool batch, bool batch_with_gaps) {
    EACH_TYPE(t) {
        x.dtype = *t;
        x.count = 1;
        run_whole(x, 0, one);
        run_whole(x, 3, one);
        x.count = 3;
        run_whole(x, 0, batch);
        run_whole(x, 3, batch_with_gaps);
    }
}

static void lu_and_solving(void **state) {
    (void)state;
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 5, .n = 5}, true, true, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 64, .n = 64}, true, true, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 65, .n = 65}, false, true, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 4, .n = 7}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = LARGE, .n = LARGE}, false, false,
                false);
    for (int trans = 0; trans < 2; trans++) {
        all_layouts((tidei_lapack){.routine = TIDEI_GETRS, .n = 5, .k = 2, .trans = trans}, false,
                    true, false);
        all_layouts((tidei_lapack){.routine = TIDEI_GETRS, .n = LARGE, .k = 1, .trans = trans},
                    false, false, false);
    }
    assert_true(fake.copies > 0);
}

/* Pivots as cuBLAS gives them, where it is the one that is asked. */
static void pivots_may_be_narrow(void **state) {
    tidei_lapack x = {.routine = TIDEI_GETRF, .m = 5, .n = 5, .narrow = true};
    tidei_storage info = {0};
    tidei_lapack other = {
        .routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 64, .n = 64, .count = 1, .info = &info};
    int before = fake.copies;
    (void)state;
    EACH_TYPE(t) {
        x.dtype = *t;
        x.count = 1;
        run_whole(x, 0, true);
        run_whole(x, 3, true);
        x.count = 3;
        run_whole(x, 0, true);
    }
    assert_int_equal(fake.copies, before);
    assert_true(tidei_lapack_narrow_cuda(&other));
    assert_false(tidei_lapack_narrow(test_stream(stream()->ref), &other)); /* on the host */
    other.n = 63;
    assert_false(tidei_lapack_narrow_cuda(&other));
    other.m = other.n = 200;
    assert_false(tidei_lapack_narrow_cuda(&other));
}

static void cholesky_and_qr(void **state) {
    (void)state;
    for (int upper = 0; upper < 2; upper++) {
        all_layouts((tidei_lapack){.routine = TIDEI_POTRF, .n = 6, .upper = upper}, false, true,
                    true);
        all_layouts((tidei_lapack){.routine = TIDEI_POTRF, .n = LARGE, .upper = upper}, false,
                    false, false);
    }
    all_layouts((tidei_lapack){.routine = TIDEI_GEQRF, .m = 7, .n = 4}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GEQRF, .m = 4, .n = 7}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_ORGQR, .m = 7, .n = 4, .k = 4}, false, false,
                false);
}

static void singular_and_eigenvalues(void **state) {
    (void)state;
    for (const char *job = "NSA"; *job; job++) {
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 6, .n = 5, .job = *job}, true, true,
                    false);
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 5, .n = 5, .job = *job}, true, true,
                    false);
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 40, .n = 33, .job = *job}, false,
                    false, false);
    }
    for (int i = 0; i < 4; i++) {
        tidei_lapack x = {.routine = TIDEI_SYEVD, .n = 6, .upper = i & 1, .vectors = i & 2};
        all_layouts(x, false, true, false);
        tidei_cusolver_use(&old_table); /* one that has no batches, or none that are right */
        all_layouts(x, false, false, false);
        tidei_cusolver_use(&table);
    }
    assert_true(fake.products > 0);
}

/* What does not work for a matrix is told by its code, in order, and is no failure. */
static void codes_are_the_callers(void **state) {
    problem p = {.x = {.routine = TIDEI_POTRF, .dtype = TIDE_F64, .n = 4, .count = 5}};
    int info[5];
    (void)state;
    make(&p, 0);
    /* the third one's second diagonal element */
    memset(p.op[A].in + place_of(&p, A, 2, 1, 1), 0, 8);
    assert_ok(bring_back(&p));
    assert_ok(run(&p));
    assert_ok(tidei_submit_copy(stream(), TIDEI_COPY_D2H, NULL, 0, info, p.op[INFO].st, 0,
                                sizeof info, "test"));
    assert_ok(tide_device_synchronize(fake.rt));
    for (int i = 0; i < 5; i++) assert_int_equal(info[i], i == 2 ? 2 : 0);
    unmake(&p);
}

/* More addresses than are copied at once, more matrices than are asked for at once. */
static void long_batches_are_asked_for_in_parts(void **state) {
    (void)state;
    const int64_t count = AT_ONCE + 5;
    run_whole(
        (tidei_lapack){.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 2, .n = 2, .count = count},
        0, true);
    run_whole((tidei_lapack){.routine = TIDEI_POTRF, .dtype = TIDE_C64, .n = 2, .count = count}, 1,
              true);
    fake.batched = 0;
    run_whole((tidei_lapack){.routine = TIDEI_SYEVD, .dtype = TIDE_F32, .n = 2, .count = count}, 0,
              true);
    assert_int_equal(fake.batched, 2);
    run_whole(
        (tidei_lapack){
            .routine = TIDEI_GESVD, .dtype = TIDE_F64, .m = 3, .n = 2, .job = 'S', .count = count},
        0, true);
    assert_int_equal(fake.batched, 4);
}

/* ---- whether what is wrong is seen ---- in results that were right until it was done to them */

static void put(problem *p, int i, int64_t row, int64_t col, number z) {
    char *to = p->op[i].got + place_of(p, i, 0, row, col);
    const float f[2] = {(float)creal(z), (float)cimag(z)};
    const double d[2] = {creal(z), cimag(z)};
    memcpy(to, part_of(&p->x) == 4 ? (const void *)f : d, p->op[i].size);
}
static number get(const problem *p, int i, int64_t row, int64_t col) {
    return element(p, i, p->op[i].got, 0, row, col);
}
/* row and column */
static void exchange(problem *p, int i, const int64_t one[2], const int64_t other[2]) {
    number was = get(p, i, one[0], one[1]);
    put(p, i, one[0], one[1], get(p, i, other[0], other[1]));
    put(p, i, other[0], other[1], was);
}

/* Each does something to operand i of the first matrix, where that means something. */
static void conjugated(problem *p, int i) {
    for (int64_t k = 0; k < p->op[i].rows * p->op[i].cols; k++)
        put(p, i, k % p->op[i].rows, k / p->op[i].rows,
            conj(get(p, i, k % p->op[i].rows, k / p->op[i].rows)));
}
static void transposed(problem *p, int i) {
    for (int64_t col = 0; col < p->op[i].cols && p->op[i].rows == p->op[i].cols; col++)
        for (int64_t row = 0; row < col; row++)
            exchange(p, i, (int64_t[]){row, col}, (int64_t[]){col, row});
}
static void of_one_column_less(problem *p, int i) { /* the last one is not written */
    if (p->op[i].cols > 1)
        memcpy(p->op[i].got + place_of(p, i, 0, 0, p->op[i].cols - 1),
               p->op[i].in + place_of(p, i, 0, 0, p->op[i].cols - 1),
               p->op[i].size * (size_t)p->op[i].rows);
}
static void negated(problem *p, int i) { /* what is first */
    int64_t rows = p->op[i].cols > 1 ? p->op[i].rows : 1;
    bool free_sign = p->x.routine == TIDEI_SYEVD && i == A; /* the other sign is as right */
    for (int64_t row = 0; row < rows && !free_sign; row++) put(p, i, row, 0, -get(p, i, row, 0));
}
static void in_another_order(problem *p, int i) {
    if (p->op[i].cols == 1) exchange(p, i, (int64_t[]){0, 0}, (int64_t[]){1, 0});
    for (int64_t row = 0; row < p->op[i].rows && p->op[i].cols > 1; row++)
        exchange(p, i, (int64_t[]){row, 0}, (int64_t[]){row, 1});
}
static void not_exact(problem *p, int i) {
    int64_t last = p->op[i].rows - 1;
    put(p, i, last, 0,
        get(p, i, last, 0) + (part_of(&p->x) == 4 ? 1e5 * FLT_EPSILON : 1e5 * DBL_EPSILON));
}
static void not_a_number(problem *p, int i) { put(p, i, 0, p->op[i].cols - 1, NAN); }
static void of_the_other_matrix(problem *p, int i) {
    for (int64_t col = 0; col < p->op[i].cols; col++)
        memcpy(p->op[i].got + place_of(p, i, 0, 0, col), p->op[i].got + place_of(p, i, 1, 0, col),
               p->op[i].size * (size_t)p->op[i].rows);
}
static void (*const spoilers[])(problem *, int) = {
    conjugated,       transposed, of_one_column_less, negated,
    in_another_order, not_exact,  not_a_number,       of_the_other_matrix};

/* Every other number that a pivot could be. */
static void moved_pivots(problem *p) {
    int64_t first;
    char *at = p->op[B].got + place_of(p, B, 0, 0, 0);
    memcpy(&first, at, sizeof first);
    for (int64_t other = 0; other <= p->x.m + 1; other++) {
        memcpy(at, &other, sizeof other);
        assert_true(other == first || judge(p).broken);
    }
    memcpy(at, &first, sizeof first);
}

/* One bit before, between and behind the matrices. */
static void spilled(problem *p, int i) {
    const size_t where[] = {0, place_of(p, i, 1, 0, 0) - 1, place_of(p, i, p->x.count, 0, 0),
                            p->op[i].bytes - 1};
    for (size_t k = 0; k < TIDEI_COUNT(where); k++) {
        p->op[i].got[where[k]] ^= 1;
        assert_non_null(judge(p).broken);
        p->op[i].got[where[k]] ^= 1;
    }
}

static void each_spoiled(tidei_lapack x) {
    problem p = {.x = x};
    make(&p, 3);
    assert_ok(run(&p));
    check(&p);
    for (int i = 0; i < INFO; i++) {
        bool rubbish =
            i == A && (x.routine == TIDEI_GESVD || (x.routine == TIDEI_SYEVD && !x.vectors));
        bool pivots = i == B && x.routine == TIDEI_GETRF;
        if (!p.op[i].bytes) continue;
        spilled(&p, i);
        if (pivots) moved_pivots(&p);
        char *right = malloc(p.op[i].bytes);
        memcpy(right, p.op[i].got, p.op[i].bytes);
        for (size_t k = 0; k < TIDEI_COUNT(spoilers) && !rubbish && !pivots; k++) {
            spoilers[k](&p, i);
            if (memcmp(p.op[i].got, right, p.op[i].bytes) && !judge(&p).broken)
                fail_msg("%s of %s: operand %d, spoiler %d is not seen", tidei_lapack_name(&x),
                         tide_dtype_name(x.dtype), i, (int)k);
            memcpy(p.op[i].got, right, p.op[i].bytes);
        }
        free(right);
    }
    unmake(&p);
}

static void what_is_wrong_is_seen(void **state) {
    (void)state;
    EACH_TYPE(t) {
        each_spoiled(
            (tidei_lapack){.routine = TIDEI_GETRF, .dtype = *t, .m = 5, .n = 5, .count = 2});
        each_spoiled(
            (tidei_lapack){.routine = TIDEI_GETRF, .dtype = *t, .m = 4, .n = 7, .count = 2});
        each_spoiled(
            (tidei_lapack){.routine = TIDEI_GEQRF, .dtype = *t, .m = 7, .n = 4, .count = 2});
        each_spoiled(
            (tidei_lapack){.routine = TIDEI_GEQRF, .dtype = *t, .m = 5, .n = 5, .count = 2});
        each_spoiled((tidei_lapack){
            .routine = TIDEI_ORGQR, .dtype = *t, .m = 7, .n = 4, .k = 4, .count = 2});
        for (int i = 0; i < 2; i++) {
            each_spoiled((tidei_lapack){
                .routine = TIDEI_GETRS, .dtype = *t, .n = 5, .k = 2, .trans = i, .count = 2});
            each_spoiled((tidei_lapack){
                .routine = TIDEI_POTRF, .dtype = *t, .n = 6, .upper = i, .count = 2});
            each_spoiled((tidei_lapack){.routine = TIDEI_SYEVD,
                                        .dtype = *t,
                                        .n = 6,
                                        .upper = i,
                                        .vectors = true,
                                        .count = 2});
        }
        each_spoiled((tidei_lapack){.routine = TIDEI_SYEVD, .dtype = *t, .n = 6, .count = 2});
        for (const char *job = "NSA"; *job; job++) {
            each_spoiled((tidei_lapack){
                .routine = TIDEI_GESVD, .dtype = *t, .m = 6, .n = 5, .job = *job, .count = 2});
            each_spoiled((tidei_lapack){
                .routine = TIDEI_GESVD, .dtype = *t, .m = 5, .n = 5, .job = *job, .count = 2});
        }
    }
}

/* ---- and what is free is let pass ---- */

static void times(problem *p, int i, int64_t row, int64_t col, int64_t down, int64_t right,
                  number z) {
    for (; row < p->op[i].rows && col < p->op[i].cols; row += down, col += right)
        put(p, i, row, col, get(p, i, row, col) * z);
}

static void other_vectors_are_as_good(void **state) {
    (void)state;
    EACH_TYPE(t) {
        problem e = {
            .x = {.routine = TIDEI_SYEVD, .dtype = *t, .n = 6, .vectors = true, .count = 1}};
        problem s = {
            .x = {.routine = TIDEI_GESVD, .dtype = *t, .m = 8, .n = 5, .job = 'A', .count = 1}};
        make(&e, 3);
        make(&s, 3);
        number phase = is_complex(&e.x) ? CMPLX(0, 1) : -1;
        assert_ok(run(&e));
        assert_ok(run(&s));
        check(&e);
        check(&s);
        times(&e, A, 0, 2, 1, 0, phase);
        assert_null(judge(&e).broken);
        times(&s, C, 0, 1, 1, 0, phase);
        assert_non_null(judge(&s).broken);
        times(&s, D, 1, 0, 0, 1, conj(phase));
        assert_null(judge(&s).broken);
        times(&s, C, 0, 6, 1, 0, phase); /* of the null space */
        for (int row = 0; row < 8; row++) exchange(&s, C, (int64_t[]){row, 5}, (int64_t[]){row, 7});
        assert_null(judge(&s).broken);
        unmake(&e);
        unmake(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lu_and_solving, setup, teardown),
        cmocka_unit_test_setup_teardown(pivots_may_be_narrow, setup, teardown),
        cmocka_unit_test_setup_teardown(cholesky_and_qr, setup, teardown),
        cmocka_unit_test_setup_teardown(singular_and_eigenvalues, setup, teardown),
        cmocka_unit_test_setup_teardown(codes_are_the_callers, setup, teardown),
        cmocka_unit_test_setup_teardown(long_batches_are_asked_for_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(other_vectors_are_as_good, setup, teardown),
    };
    openblas_set_num_threads(1); /* ThreadSanitizer does not see how its own threads are ordered */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
