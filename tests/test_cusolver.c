/* test_cusolver.c: what factorizations ask of cuSOLVER and cuBLAS, and what they compute by them: each routine in every type and
** layout, one by one and in batches, against LAPACKE. What fails: test_cusolver_failures.c. */
#include "tests/lapack_problem.h"

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};
#define EACH_TYPE(t) for (const tide_dtype *t = types; t < types + TIDEI_COUNT(types); t++)

/* One matrix, several that lie close and several that do not, and whether calls for batches take them; others go one by one. */
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
    all_layouts((tidei_lapack){.routine = TIDEI_GETRF, .m = 200, .n = 200}, false, false, false);
    for (int trans = 0; trans < 2; trans++) {
        all_layouts((tidei_lapack){.routine = TIDEI_GETRS, .n = 5, .k = 2, .trans = trans}, false, true, false);
        all_layouts((tidei_lapack){.routine = TIDEI_GETRS, .n = 150, .k = 1, .trans = trans}, false, false, false);
    }
    assert_true(fake.copies > 0);
}

/* Pivots as cuBLAS gives them, where it is the one that is asked. */
static void narrow_pivots(void **state) {
    tidei_lapack x = {.routine = TIDEI_GETRF, .m = 5, .n = 5, .narrow = true};
    tidei_storage info = {0};
    tidei_lapack other = {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 64, .n = 64, .count = 1, .info = &info};
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
        all_layouts((tidei_lapack){.routine = TIDEI_POTRF, .n = 6, .upper = upper}, false, true, true);
        all_layouts((tidei_lapack){.routine = TIDEI_POTRF, .n = 150, .upper = upper}, false, false, false);
    }
    all_layouts((tidei_lapack){.routine = TIDEI_GEQRF, .m = 7, .n = 4}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_GEQRF, .m = 4, .n = 7}, false, false, false);
    all_layouts((tidei_lapack){.routine = TIDEI_ORGQR, .m = 7, .n = 4, .k = 4}, false, false, false);
}

static void singular_and_eigenvalues(void **state) {
    (void)state;
    for (const char *job = "NSA"; *job; job++) {
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 6, .n = 5, .job = *job}, true, true, false);
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 5, .n = 5, .job = *job}, true, true, false);
        all_layouts((tidei_lapack){.routine = TIDEI_GESVD, .m = 40, .n = 33, .job = *job}, false, false, false);
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
    memset(p.in[0] + 2 * 16 * 8 + 5 * 8, 0, 8); /* the third one's second diagonal element */
    assert_ok(bring_back(&p));
    assert_ok(run(&p));
    assert_ok(tidei_submit_copy(test_stream(stream()->ref), TIDEI_COPY_D2H, NULL, 0, info, p.st[4], 0, sizeof info,
                                "test"));
    assert_ok(tide_device_synchronize(fake.rt));
    for (int i = 0; i < 5; i++) assert_int_equal(info[i], i == 2 ? 2 : 0);
    unmake(&p);
}

/* More addresses than are copied at once, more matrices than are asked for at once. */
static void long_batches(void **state) {
    (void)state;
    const int64_t count = AT_ONCE + 5;
    run_whole((tidei_lapack){.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 2, .n = 2, .count = count}, 0, true);
    run_whole((tidei_lapack){.routine = TIDEI_POTRF, .dtype = TIDE_C64, .n = 2, .count = count}, 1, true);
    fake.batched = 0;
    run_whole((tidei_lapack){.routine = TIDEI_SYEVD, .dtype = TIDE_F32, .n = 2, .count = count}, 0, true);
    assert_int_equal(fake.batched, 2);
    run_whole((tidei_lapack){.routine = TIDEI_GESVD, .dtype = TIDE_F64, .m = 3, .n = 2, .job = 'S', .count = count},
              0, true);
    assert_int_equal(fake.batched, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lu_and_solving, setup, teardown),
        cmocka_unit_test_setup_teardown(narrow_pivots, setup, teardown),
        cmocka_unit_test_setup_teardown(cholesky_and_qr, setup, teardown),
        cmocka_unit_test_setup_teardown(singular_and_eigenvalues, setup, teardown),
        cmocka_unit_test_setup_teardown(codes_are_the_callers, setup, teardown),
        cmocka_unit_test_setup_teardown(long_batches, setup, teardown),
    };
    openblas_set_num_threads(1); /* ThreadSanitizer does not see how its own threads are ordered */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
