/* test_linalg_small.c: batches of small matrices on a GPU, emulated, which kernels of our own
** factor. No library of NVIDIA's is here: what these kernels do not serve fails. */
#include "tests/arrays/linalg_cases.h"
#include "tests/doubles/emulated_device.h"

static void a_gpu_factors_small_batches(void **state) {
    static const struct {
        int nkinds;
        int kinds[3];
        bool square;
        one_case *one;
    } all[] = {{3, {RANDOM, GRADED, DEFICIENT}, false, one_lu},
               {1, {DEFINITE}, true, one_cholesky},
               {3, {RANDOM, GRADED, DEFICIENT}, false, one_qr},
               {2, {RANDOM, DEFINITE}, true, one_system},
               {3, {RANDOM, GRADED, DEFINITE}, true, one_inverse},
               {1, {DEFINITE}, true, one_determinant}};
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    for (size_t i = 0; i < TIDEI_COUNT(all); i++)
        cases_of(rt, 1, true, all[i].kinds, all[i].nkinds, all[i].square, all[i].one);
    /* so many that several share a warp */
    static const int64_t few[] = {3, 7, 16};
    for (size_t i = 0; i < TIDEI_COUNT(few); i++)
        for (size_t k = 0; k < TIDEI_COUNT(all); k++) {
            const int64_t many = (few[i] > 8 ? 2 : few[i] > 4 ? 4 : 8) * 97 + 1;
            assert_ok(tide_scope_begin(rt));
            tide_array *a = matrices(rt, types[(i + k) % 4], all[k].kinds[all[k].nkinds - 1], PLAIN,
                                     1, &many, few[i], few[i]);
            all[k].one(rt, a, types[(i + k) % 4], few[i], few[i]);
            assert_ok(tide_scope_end(rt));
        }
    /* so large that fewer right sides at once have room beside them; and long columns */
    const struct {
        int64_t m, n;
        one_case *one;
    } wide[] = {{72, 72, one_inverse}, {72, 72, one_qr}, {1, 300, one_qr}, {900, 3, one_lu}};
    for (size_t i = 0; i < TIDEI_COUNT(wide); i++) {
        assert_ok(tide_scope_begin(rt));
        tide_array *a =
            matrices(rt, TIDE_F64, RANDOM, PLAIN, 1, (int64_t[]){2}, wide[i].m, wide[i].n);
        wide[i].one(rt, a, TIDE_F64, wide[i].m, wide[i].n);
        assert_ok(tide_scope_end(rt));
    }
    tide_close(rt);
}

/* Numbers whose squares are beyond the type: times a power of 2, they have the same factors, of
** which those that are as large as they are multiplied by it. */
static void small_batches_take_extreme_numbers(void **state) {
    enum { M = 7, N = 5, COUNT = 3, EACH = M * N };
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    seed = 3;
    for (tide_dtype t = TIDE_F32; t <= TIDE_C128; t++)
        for (int little = 0; little < 2; little++) {
            /* not so small that digits are lost */
            double power = real_of(t) == TIDE_F32 ? (little ? -100 : 120) : (little ? -990 : 1018);
            number given[COUNT * EACH], extreme[COUNT * EACH];
            tide_array *q[2], *r[2], *lu[2], *pivots[2];
            assert_ok(tide_scope_begin(rt));
            for (int w = 0; w < COUNT; w++) fill_matrix(given + w * EACH, t, RANDOM, M, N);
            for (int i = 0; i < COUNT * EACH; i++) extreme[i] = given[i] * exp2(power);
            for (int i = 0; i < 2; i++) {
                tide_array *a = array_of(rt, t, SHAPE(COUNT, M, N), i ? extreme : given);
                assert_ok(tide_qr(a, TIDE_REDUCED, &q[i], &r[i]));
                assert_ok(tide_lu_factor(a, &lu[i], &pivots[i]));
            }
            tide_array *const *all[] = {q, r, lu, pivots};
            for (int which = 0; which < 4; which++) {
                values x = read_back(all[which][0]), y = read_back(all[which][1]);
                assert_int_equal(x.n, y.n);
                for (int64_t i = 0; i < x.n; i++) {
                    bool scaled = which == 1 || (which == 2 && i % EACH % N >= i % EACH / N);
                    number back = scaled ? y.at[i] * exp2(-power) : y.at[i];
                    assert_true(cabs(back - x.at[i]) <= RATIO * epsilon(t));
                }
                drop(&x), drop(&y);
            }
            assert_ok(tide_scope_end(rt));
        }
    tide_close(rt);
}

/* Pivots are the first of the greatest, infos the first zero or minor, and a matrix that is not
** finite is alone with what becomes of it. */
static void small_batches_keep_the_rules(void **state) {
    static const double ties[] = {1,      4, 0, -1, 2, 5, 1, 9, 7,  /**/ 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                  /**/ 1, 0, 0, 0,  1, 0, 0, 0, NAN};
    static const double singular[] = {2, 1, 1, 2, /**/ 1, 2, 2, 4, /**/ 0, 0, 0, 0};
    static const double no_reciprocal[] = {0x1p-1074, 0, 0x1p-1074, 0x1p-1074,
                                           0x1p-1070, 0, 0x1p-1070, 0x1p-1070};
    static const double wanted[] = {0, 1, 2, 0, 1, 2};
    double got[9], factors[27], least[3], corner = 0;
    tide_array *lu, *pivots, *q, *r;
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    assert_ok(tide_scope_begin(rt));
    tide_array *a = tide_from_host(rt, TIDE_F64, SHAPE(3, 3, 3), ties);
    assert_ok(tide_lu_factor(a, &lu, &pivots));
    assert_ok(tide_to_host(tide_cast(pivots, TIDE_F64), got, sizeof got));
    for (size_t i = 0; i < TIDEI_COUNT(wanted); i++) assert_true(got[i] == wanted[i]);
    assert_ok(tide_to_host(lu, factors, sizeof factors));
    for (int i = 0; i < 27; i++) assert_int_equal(isnan(factors[i]), i >= 18);
    for (int i = 9; i < 18; i++) assert_true(factors[i] == 0);
    assert_ok(tide_qr(a, TIDE_REDUCED, &q, &r));
    for (int which = 0; which < 2; which++) {
        assert_ok(tide_to_host(which ? r : q, factors, sizeof factors));
        for (int i = 0; i < 18; i++) assert_true(isfinite(factors[i]));
        assert_true(isnan(factors[26]));
    }
    tide_array *b = tide_from_host(rt, TIDE_F64, SHAPE(3, 2, 2), singular);
    tide_array *side = tide_ones(rt, TIDE_F64, SHAPE(2, 3));
    assert_null(tide_solve(b, side));
    assert_error(TIDE_E_SINGULAR, "matrix 1 of the batch is singular: U(2, 2) is 0");
    assert_null(tide_inv(b));
    assert_error(TIDE_E_SINGULAR, "matrix 1 of the batch");
    assert_null(tide_cholesky(b, TIDE_UPPER));
    assert_error(TIDE_E_SINGULAR, "matrix 1 of the batch");
    assert_ok(tide_to_host(tide_det(b), least, sizeof least));
    assert_true(fabs(least[0] - 3) < 1e-14 && least[1] == 0 && least[2] == 0);
    /* the least number has no reciprocal */
    tide_array *smallest = tide_from_host(rt, TIDE_F64, SHAPE(2, 2, 2), no_reciprocal);
    assert_ok(tide_lu_factor(smallest, &lu, NULL));
    assert_ok(tide_to_host(lu, factors, 8 * sizeof *factors));
    for (int i = 0; i < 8; i++) assert_true(factors[i] == (i % 4 == 2 ? 1 : no_reciprocal[i]));
    /* and that of the largest complex ones is lost on the way */
    tide_array *largest =
        tide_full(rt, TIDE_C128, SHAPE(2, 3, 2), tide_arg_complex(1.7e308, 1.7e308));
    assert_ok(tide_lu_factor(largest, &lu, NULL));
    assert_ok(tide_to_host(lu, factors, 24 * sizeof *factors));
    for (int i = 0; i < 24; i++)
        assert_true(factors[i] == (i % 12 < 4 ? 1.7e308 : i % 4 == 0 ? 1 : 0));
    /* what overflows on the way ends, whatever it gives */
    tide_array *huge = tide_full(rt, TIDE_F64, SHAPE(2, 3, 3), tide_arg_float(1e308));
    assert_ok(tide_qr(huge, TIDE_COMPLETE, &q, &r));
    assert_ok(tide_to_host(tide_slice(r, "0, 2, 0"), &corner, sizeof corner));
    assert_true(corner == 0);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

/* How many there are decides how many share a warp, not what comes of them. */
static void small_batches_do_not_depend_on_their_number(void **state) {
    enum { N = 7, FEW = 3, MANY = 97 * 4 };
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    assert_ok(tide_scope_begin(rt));
    tide_array *many = matrices(rt, TIDE_F64, RANDOM, PLAIN, 1, (int64_t[]){MANY}, N, N),
               *got[2][3];
    for (int i = 0; i < 2; i++) {
        tide_array *a = i ? tide_slice(many, ":3") : many;
        assert_ok(tide_qr(a, TIDE_REDUCED, &got[i][0], &got[i][1]));
        assert_array(got[i][2] = tide_inv(a));
    }
    for (int which = 0; which < 3; which++) {
        values x = read_back(got[0][which]), y = read_back(got[1][which]);
        assert_int_equal(y.n, FEW * N * N);
        for (int64_t i = 0; i < y.n; i++) assert_true(x.at[i] == y.at[i]);
        drop(&x), drop(&y);
    }
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_factors_small_batches),
        cmocka_unit_test(small_batches_take_extreme_numbers),
        cmocka_unit_test(small_batches_keep_the_rules),
        cmocka_unit_test(small_batches_do_not_depend_on_their_number),
    };
    return cmocka_run_group_tests_name("linalg_small", tests, NULL, NULL);
}
