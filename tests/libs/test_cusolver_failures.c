/* test_cusolver_failures.c: factorizations on cuSOLVER and cuBLAS whose calls do not simply work:
** handles, workspaces that are wanted anew, memory that is short, what is not about memory, and
** each allocation in its turn. */
#include "tests/doubles/failing_host.h"
#include "tests/libs/lapack_problem.h"

static const tidei_lapack lu_of_one = {
    .routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 200, .n = 200, .count = 2};

static void one_handle_serves_all(void **state) {
    tidei_handle_figures f;
    (void)state;
    for (int i = 0; i < 3; i++) run_whole(lu_of_one, 0, false);
    assert_int_equal(fake.made, 1);
    assert_int_equal(fake.blas_made, 0); /* it was not needed */
    tidei_handles_figures(&fake.inner->devs[0], &tidei_cusolver_kind, &f);
    assert_int_equal(f.made, 1);
    assert_int_equal(f.idle, 1);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.made, 0);
}

/* The library may want more in the window than it did before; not for ever. */
static void another_workspace_is_wanted(void **state) {
    (void)state;
    fake.grows = 3;
    run_whole(lu_of_one, 0, false);
    assert_int_equal(fake.grows, 0);
    run_whole(
        (tidei_lapack){
            .routine = TIDEI_ORGQR, .dtype = TIDE_C64, .m = 7, .n = 4, .k = 4, .count = 1},
        0, false);
    problem p = {.x = lu_of_one};
    make(&p, 0);
    fake.grows = 1000;
    assert_int_equal(run(&p), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "another workspace");
    fake.grows = 0;
    assert_ok(run(&p));
    check(&p);
    assert_int_equal(p.again, 0); /* nothing was spoiled */
    unmake(&p);
}

/* ---- failures ---- */

/* A status that may mean a lack of memory, where there is one: climbed for, and the spoiled
** operands brought back. */
static void memory_that_is_short(void **state) {
    static const tidei_lapack all[] = {
        {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 200, .n = 200, .count = 2},
        {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 5, .n = 5, .count = 2},
        {.routine = TIDEI_SYEVD, .dtype = TIDE_C64, .n = 5, .count = 2, .vectors = true},
        {.routine = TIDEI_GESVD, .dtype = TIDE_F32, .m = 40, .n = 33, .job = 'S', .count = 1},
    };
    static const unsigned statuses[] = {TIDEI_CUSOLVER_NOT_INITIALIZED,
                                        TIDEI_CUSOLVER_INTERNAL_ERROR};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(all) * 2; i++) {
        problem p = {.x = all[i / 2]};
        make(&p, 0);
        uint64_t climbs = test_stats(fake.rt).climbs;
        fake.fail_with = all[i / 2].n == 5 && p.x.routine == TIDEI_GETRF ? TIDEI_CUBLAS_ALLOC_FAILED
                                                                         : statuses[i % 2];
        fake.fail_after =
            /* the first matrix is done by then */
            all[i / 2].count == 2 && p.x.n > 5 ? (int)(i % 2) : 0;
        fake.fail_calls = 1;
        assert_ok(run(&p));
        check(&p);
        assert_int_equal(p.again, 1);
        assert_int_equal(test_stats(fake.rt).climbs, climbs + 1);
        unmake(&p);
    }
}

/* The second library's part is repeated alone. */
static void the_second_part_is_repeated_alone(void **state) {
    problem p = {
        .x = {.routine = TIDEI_GESVD, .dtype = TIDE_C128, .m = 6, .n = 5, .job = 'S', .count = 3}};
    (void)state;
    make(&p, 0);
    fake.fail_with = TIDEI_CUBLAS_ALLOC_FAILED;
    fake.fail_after = 1;
    fake.fail_calls = 1;
    assert_ok(run(&p));
    check(&p);
    assert_int_equal(fake.fail_calls, 0);
    assert_int_equal(fake.calls, 1);
    assert_int_equal(p.again, 0);
    unmake(&p);
}

static void it_stays_short(void **state) {
    problem p = {.x = lu_of_one};
    (void)state;
    make(&p, 0);
    fake.fail_with = TIDEI_CUSOLVER_ALLOC_FAILED;
    fake.fail_calls = 1000;
    assert_int_equal(run(&p), TIDE_E_NOMEM);
    assert_true(fake.fail_calls < 999); /* more than once */
    fake.fail_calls = 0;
    assert_ok(bring_back(&p));
    assert_ok(run(&p));
    check(&p);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    fake.fail_create = 1; /* a handle's */
    assert_ok(run(&p));
    assert_int_equal(fake.fail_create, 0);
    unmake(&p);
}

/* Reported as it is, and nothing is climbed for: a status that means something else, or would mean
** it where memory is plenty. */
static void what_is_not_about_memory(void **state) {
    static const unsigned statuses[] = {TIDEI_CUSOLVER_INVALID_VALUE,
                                        TIDEI_CUSOLVER_EXECUTION_FAILED,
                                        TIDEI_CUSOLVER_INTERNAL_ERROR};
    for (unsigned i = 0; i < TIDEI_COUNT(statuses); i++) {
        problem p = {.x = lu_of_one};
        teardown(state);
        open_with(i == 2 ? "4GiB" : "128MiB");
        make(&p, 0);
        tide_runtime_figures before = test_stats(fake.rt);
        fake.fail_with = statuses[i];
        fake.fail_calls = 1;
        assert_int_equal(run(&p), TIDE_E_DEVICE);
        assert_error(TIDE_E_DEVICE, "cuSOLVER");
        assert_error(TIDE_E_DEVICE, "getrf of 2 matrices of (200, 200)");
        assert_int_equal(p.again, 0);
        assert_int_equal(test_stats(fake.rt).climbs, before.climbs);
        assert_int_equal(test_stats(fake.rt).collections, before.collections);
        unmake(&p);
    }
}

static void too_large_for_ints(void **state) {
    problem p = {
        .x = {.routine = TIDEI_ORGQR, .dtype = TIDE_F32, .m = 7, .n = 4, .k = 4, .count = 1}};
    (void)state;
    make(&p, 0);
    p.x.m = p.x.a.ld = 1ll << 31;
    assert_int_equal(tidei_lapack_cuda(test_stream(stream()->ref), &p.x, "tide_test"),
                     TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "2147483648");
    assert_int_equal(fake.made, 0);
    unmake(&p);
}

/* Everything that a call takes from the device or the host fails in its turn; nothing stays behind,
** and what was asked for works afterwards. */
static void open_failing(void) {
    static const tide_allocator memory = {.alloc = failing_alloc, .free = plain_free};
    tidei_device *inner, *d;
    tide_config c = {.struct_size = sizeof c, .collector = "refcount", .allocator = &memory};
    host_fails = 0;
    assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 128 << 20}, &inner));
    assert_ok(tidei_fault_open(inner, &d));
    assert_ok(tidei_open_on(&c, d, &fake.rt));
    fake.inner = test_rt(fake.rt);
    fake.failing = true;
}
static void fail_each(tidei_lapack x, bool of_host) {
    tide_status s = TIDE_E_DEVICE;
    long n = 1;
    for (; s != TIDE_OK; n++) {
        problem p = {.x = x};
        open_failing();
        make(&p, 0);
        if (of_host)
            host_fails = host_calls + n;
        else
            tidei_fault_set(device(), TIDEI_FAULT_ANY, (uint64_t)n, TIDE_E_DEVICE, false);
        s = run(&p);
        host_fails = 0;
        tidei_fault_set(device(), TIDEI_FAULT_ANY, 0, TIDE_OK, false);
        assert_true(s == TIDE_OK || s == (of_host ? TIDE_E_HOST_NOMEM : TIDE_E_DEVICE));
        if (s != TIDE_OK) assert_string_equal(tide_error_last()->operation, "tide_test");
        assert_true(tidei_runtime_valid(fake.inner));
        assert_ok(bring_back(&p));
        assert_ok(run(&p));
        check(&p);
        unmake(&p);
        tide_close(fake.rt);
        assert_int_equal(fake.made + fake.blas_made, 0);
        assert_true(n < 1000);
    }
    /* else nothing failed. A pool may have all that a device gives */
    assert_true(n > 2 || !of_host);
}
static void each_call_may_fail(void **state) {
    static const tidei_lapack all[] = {
        {.routine = TIDEI_GETRF, .dtype = TIDE_F64, .m = 5, .n = 5, .count = 3},
        {.routine = TIDEI_GETRS, .dtype = TIDE_F64, .n = 5, .k = 2, .count = 3},
        {.routine = TIDEI_GEQRF, .dtype = TIDE_F64, .m = 5, .n = 5, .count = 3},
        {.routine = TIDEI_GESVD, .dtype = TIDE_C64, .m = 5, .n = 5, .job = 'A', .count = 3},
    };
    tide_close(fake.rt);
    for (size_t i = 0; i < 2 * TIDEI_COUNT(all); i++) fail_each(all[i / 2], i % 2);
    (void)state;
    open_with(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_handle_serves_all, setup, teardown),
        cmocka_unit_test_setup_teardown(another_workspace_is_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_that_is_short, setup, teardown),
        cmocka_unit_test_setup_teardown(the_second_part_is_repeated_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(it_stays_short, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_about_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(too_large_for_ints, setup, teardown),
        cmocka_unit_test_setup_teardown(each_call_may_fail, setup, teardown),
    };
    openblas_set_num_threads(1); /* ThreadSanitizer does not see how its own threads are ordered */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
