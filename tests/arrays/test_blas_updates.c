/* test_blas_updates.c: BLAS that is written into arrays, against plain loops: products, updates of
** rank one, multiples of vectors; factors; what an update leaves alone. */
#include "tests/arrays/plain_blas.h"

/* ---- updates ---- */

static void one_gemm(tide_runtime *rt, tide_dtype t, int pa, int pb, int pc, int64_t longest) {
    int64_t batch[8], a[8], b[8], c[8];
    int64_t m = 1 + (int64_t)draw((uint64_t)longest), k = 1 + (int64_t)draw((uint64_t)longest),
            n = 1 + (int64_t)draw((uint64_t)longest);
    int nbatch = draw_batch(batch), na = draw_part(nbatch, batch, a),
        nb = draw_part(nbatch, batch, b);
    memcpy(c, batch, sizeof c);
    a[na] = c[nbatch] = m, a[na + 1] = b[nb] = k, b[nb + 1] = c[nbatch + 1] = n;
    tide_array *x = view_of(rt, random_numbers, t, pa, na + 2, a),
               *y = view_of(rt, random_numbers, t, pb, nb + 2, b),
               *z = view_of(rt, random_numbers, t, pc, nbatch + 2, c);
    factors f = draw_factors(t);
    numbers va = read_back(x), vb = read_back(y), before = read_back(z);
    assert_ok(tide_gemm(z, f.alpha, x, y, f.beta));
    numbers after = read_back(z);
    for (int64_t w = 0; w < product_of(nbatch, batch); w++) {
        int64_t p = place_at(&va, 2, nbatch, batch, w) * m * k,
                q = place_at(&vb, 2, nbatch, batch, w) * k * n;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                sum s = {0};
                int64_t at = (w * m + i) * n + j;
                for (int64_t h = 0; h < k; h++) add(&s, &va, p + i * k + h, &vb, q + h * n + j);
                times(&s, f.a);
                plus(&s, f.b, &before, at);
                assert_near("gemm", t, (double)k + 2, &s, after.re[at], after.im[at], at);
            }
    }
    drop(&va), drop(&vb), drop(&before), drop(&after);
}

static void gemm_agrees_with_plain_loops(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 1;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int pa = 0; pa < PATTERNS; pa++)
            for (int pb = 0; pb < PATTERNS; pb++) {
                int pc = (int)draw(PATTERNS - 3); /* which stretch nothing; */
                assert_ok(tide_scope_begin(rt));
                one_gemm(rt, types[t], pa, pb, pc == REPEATED_ROWS ? BATCH_BACKWARDS : pc, 6);
                assert_ok(tide_scope_end(rt));
            }
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        assert_ok(tide_scope_begin(rt));
        one_gemm(rt, types[t], PLAIN, TRANSPOSED, REVERSED, test_quick() ? 40 : 150);
        assert_ok(tide_scope_end(rt));
    }
    close_checked(rt);
}

static void one_gemv(tide_runtime *rt, tide_dtype t, int pa, int px, int py, int64_t longest) {
    int64_t batch[8], a[8], b[8], c[8];
    int64_t m = 1 + (int64_t)draw((uint64_t)longest), n = 1 + (int64_t)draw((uint64_t)longest);
    int nbatch = draw_batch(batch), na = draw_part(nbatch, batch, a),
        nb = draw_part(nbatch, batch, b);
    memcpy(c, batch, sizeof c);
    a[na] = c[nbatch] = m, a[na + 1] = b[nb] = n;
    tide_array *x = view_of(rt, random_numbers, t, pa, na + 2, a),
               *y = vectors_of(rt, t, px, nb + 1, b), *z = vectors_of(rt, t, py, nbatch + 1, c);
    factors f = draw_factors(t);
    numbers va = read_back(x), vb = read_back(y), before = read_back(z);
    assert_ok(tide_gemv(z, f.alpha, x, y, f.beta));
    numbers after = read_back(z);
    for (int64_t w = 0; w < product_of(nbatch, batch); w++)
        for (int64_t i = 0; i < m; i++) {
            sum s = {0};
            int64_t p = place_at(&va, 2, nbatch, batch, w) * m * n,
                    q = place_at(&vb, 1, nbatch, batch, w) * n;
            for (int64_t h = 0; h < n; h++) add(&s, &va, p + i * n + h, &vb, q + h);
            times(&s, f.a);
            plus(&s, f.b, &before, w * m + i);
            assert_near("gemv", t, (double)n + 2, &s, after.re[w * m + i], after.im[w * m + i],
                        w * m + i);
        }
    drop(&va), drop(&vb), drop(&before), drop(&after);
}

static void one_ger(tide_runtime *rt, tide_dtype t, int px, int py, int pa, int64_t longest) {
    int64_t batch[8], a[8], b[8], c[8];
    int64_t m = 1 + (int64_t)draw((uint64_t)longest), n = 1 + (int64_t)draw((uint64_t)longest);
    int nbatch = draw_batch(batch), na = draw_part(nbatch, batch, a),
        nb = draw_part(nbatch, batch, b);
    memcpy(c, batch, sizeof c);
    a[na] = c[nbatch] = m, b[nb] = c[nbatch + 1] = n;
    tide_array *x = vectors_of(rt, t, px, na + 1, a), *y = vectors_of(rt, t, py, nb + 1, b),
               *z = view_of(rt, random_numbers, t, pa, nbatch + 2, c);
    static const double one[2] = {1, 0};
    factors f = draw_factors(t);
    numbers vx = read_back(x), vy = read_back(y), before = read_back(z);
    assert_ok(tide_ger(z, f.alpha, x, y));
    numbers after = read_back(z);
    for (int64_t w = 0; w < product_of(nbatch, batch); w++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                sum s = {0};
                int64_t at = (w * m + i) * n + j;
                add(&s, &vx, place_at(&vx, 1, nbatch, batch, w) * m + i, &vy,
                    place_at(&vy, 1, nbatch, batch, w) * n + j);
                times(&s, f.a);
                plus(&s, one, &before, at);
                assert_near("ger", t, 3, &s, after.re[at], after.im[at], at);
            }
    drop(&vx), drop(&vy), drop(&before), drop(&after);
}

static int own_vectors(void) { /* which stretch nothing */
    int p = (int)draw(V_PATTERNS);
    return p == V_REPEATED ? V_PLAIN : p;
}
static int own_matrices(void) {
    int p = (int)draw(PATTERNS);
    return p == REPEATED_ROWS || p == REPEATED ? PLAIN : p;
}

static void gemv_and_ger_agree_with_plain_loops(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 2;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int pa = 0; pa < PATTERNS; pa++)
            for (int px = 0; px < V_PATTERNS; px++) {
                int64_t longest = draw(8) ? 7 : 120;
                assert_ok(tide_scope_begin(rt));
                one_gemv(rt, types[t], pa, px, own_vectors(), longest);
                one_ger(rt, types[t], px, (int)draw(V_PATTERNS), own_matrices(), longest);
                assert_ok(tide_scope_end(rt));
            }
    close_checked(rt);
}

/* One matrix that many vectors meet is a product of the matrix of these. */
static void gemv_of_many_vectors_is_one_product(void **state) {
    enum { B = 9, M = 5, N = 4 };
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 3;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int turned = 0; turned < 2; turned++) {
            assert_ok(tide_scope_begin(rt));
            tide_array *a =
                view_of(rt, random_numbers, types[t], turned ? TRANSPOSED : PLAIN, SHAPE(M, N));
            tide_array *x = random_numbers(rt, types[t], SHAPE(B, N)),
                       *y = random_numbers(rt, types[t], SHAPE(B, M));
            numbers va = read_back(a), vx = read_back(x), before = read_back(y);
            const double half[2] = {0.5, 0}, two[2] = {2, 0};
            assert_ok(tide_gemv(y, tide_arg_float(0.5), a, x, tide_arg_int(2)));
            numbers after = read_back(y);
            for (int64_t w = 0; w < B; w++)
                for (int64_t i = 0; i < M; i++) {
                    sum s = {0};
                    for (int64_t j = 0; j < N; j++) add(&s, &va, i * N + j, &vx, w * N + j);
                    times(&s, half);
                    plus(&s, two, &before, w * M + i);
                    assert_near("gemv", types[t], N + 2, &s, after.re[w * M + i],
                                after.im[w * M + i], w * M + i);
                }
            drop(&va), drop(&vx), drop(&before), drop(&after);
            assert_ok(tide_scope_end(rt));
        }
    close_checked(rt);
}

static void one_axpy(tide_runtime *rt, tide_dtype tx, tide_dtype ty, int px, int py, int nbatch,
                     const int64_t *batch, int64_t n) {
    int64_t a[8], c[8];
    int na = draw_part(nbatch, batch, a);
    static const double one[2] = {1, 0};
    memcpy(c, batch, sizeof *c * (size_t)nbatch);
    a[na] = c[nbatch] = n;
    tide_array *x = vectors_of(rt, tx, px, na + 1, a), *y = vectors_of(rt, ty, py, nbatch + 1, c);
    factors f = draw_factors(ty);
    numbers vx = read_back(x), before = read_back(y);
    assert_ok(tide_axpy(y, f.alpha, x));
    numbers after = read_back(y);
    for (int64_t i = 0; i < before.n; i++) {
        sum s = {0};
        plus(&s, f.a, &vx, place_at(&vx, 1, nbatch, batch, i / n) * n + i % n);
        plus(&s, one, &before, i);
        assert_near("axpy", ty, 3, &s, after.re[i], after.im[i], i);
    }
    drop(&vx), drop(&before), drop(&after);
}

static void axpy_agrees_with_plain_loops(void **state) {
    static const tide_dtype pairs[][2] = {{TIDE_I32, TIDE_F32},
                                          {TIDE_BOOL, TIDE_F64},
                                          {TIDE_F32, TIDE_F64},
                                          {TIDE_F64, TIDE_C128},
                                          {TIDE_F32, TIDE_C64}};
    int64_t batch[8];
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 4;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int px = 0; px < V_PATTERNS; px++)
            for (int py = 0; py < V_PATTERNS; py++) {
                if (py == V_REPEATED) continue;
                assert_ok(tide_scope_begin(rt));
                int nbatch = draw_batch(batch);
                one_axpy(rt, types[t], types[t], px, py, nbatch, batch, 1 + (int64_t)draw(9));
                one_axpy(rt, types[t], types[t], px, py, 0, batch, draw(2) ? 30000 : 1);
                assert_ok(tide_scope_end(rt));
            }
    for (size_t i = 0; i < TIDEI_COUNT(pairs); i++) {
        assert_ok(tide_scope_begin(rt));
        one_axpy(rt, pairs[i][0], pairs[i][1], V_STEPS, V_PLAIN, 1, (int64_t[]){3}, 4);
        assert_ok(tide_scope_end(rt));
    }
    assert_ok(tide_scope_begin(rt)); /* numbers, of no dimension */
    tide_array *y = tide_ones(rt, TIDE_F64, 0, NULL);
    assert_ok(tide_axpy(y, tide_arg_int(3), tide_ones(rt, TIDE_F64, 0, NULL)));
    assert_true(tide_item_f64(y) == 4);
    /* What is narrower is multiplied in y's type, not in its own. */
    int8_t hundred[] = {100, -100};
    float third = 1.0f / 3;
    y = tide_zeros(rt, TIDE_F64, SHAPE(2));
    assert_ok(tide_axpy(y, tide_arg_int(2), tide_from_host(rt, TIDE_I8, SHAPE(2), hundred)));
    assert_true(tide_item_f64(tide_slice(y, "0")) == 200 &&
                tide_item_f64(tide_slice(y, "1")) == -200);
    y = tide_zeros(rt, TIDE_F64, SHAPE(1));
    assert_ok(tide_axpy(y, tide_arg_float(0.1), tide_from_host(rt, TIDE_F32, SHAPE(1), &third)));
    assert_true(tide_item_f64(tide_slice(y, "0")) == 0.1 * (double)third);
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* What lies between and around a view's elements stays as it is. */
static void updates_write_nothing_else(void **state) {
    static const char *const views[] = {"2:6, 3:7", "::2, ::3", "::-2, 1:5", "1:5, 2"};
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 5;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (size_t v = 0; v < TIDEI_COUNT(views); v++)
            for (int what = 0; what < 4; what++) {
                assert_ok(tide_scope_begin(rt));
                tide_dtype d = types[t];
                tide_array *whole = random_numbers(rt, d, SHAPE(8, 10)),
                           *part = tide_slice(whole, views[v]);
                int64_t rows = tide_array_dim(part, 0),
                        cols = tide_array_ndim(part) == 2 ? tide_array_dim(part, 1) : 0;
                numbers before = read_back(whole);
                tide_array *rest = tide_copy(whole); /* with NaN where the view is */
                assert_ok(tide_fill(tide_slice(rest, views[v]), tide_arg_float(NAN)));
                numbers free_of = read_back(rest);
                tide_arg two = tide_arg_int(2);
                if (cols && what == 0)
                    assert_ok(tide_gemm(part, two, random_numbers(rt, d, SHAPE(rows, 3)),
                                        random_numbers(rt, d, SHAPE(3, cols)), two));
                else if (cols && what == 1)
                    assert_ok(tide_ger(part, two, random_numbers(rt, d, SHAPE(rows)),
                                       random_numbers(rt, d, SHAPE(cols))));
                else if (cols && what == 2)
                    assert_ok(tide_axpy(part, two, random_numbers(rt, d, SHAPE(rows, cols))));
                else if (!cols)
                    assert_ok(tide_gemv(part, two, random_numbers(rt, d, SHAPE(rows, 3)),
                                        random_numbers(rt, d, SHAPE(3)), two));
                numbers after = read_back(whole);
                int changed = 0;
                for (int64_t i = 0; i < before.n; i++) {
                    bool same = before.re[i] == after.re[i] && before.im[i] == after.im[i];
                    if (!isnan(free_of.re[i]) && !same)
                        fail_msg("%s, element %lld", views[v], (long long)i);
                    changed += !same;
                }
                assert_true(changed > 0 || (cols && what == 3));
                drop(&before), drop(&after), drop(&free_of);
                assert_ok(tide_scope_end(rt));
            }
    close_checked(rt);
}

/* With beta 0 what was there does not count; with no terms it is scaled. */
static void beta_scales_what_was_there(void **state) {
    static const char *const views[] = {"...", "::2, ::-1", "::-1"};
    (void)state;
    tide_runtime *rt = open_checked();
    tide_arg nothing = tide_arg_int(0), one = tide_arg_int(1), half = tide_arg_float(0.5);
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (size_t v = 0; v < TIDEI_COUNT(views); v++)
            for (int64_t k = 0; k < 8; k += 7)
                for (int turned = 0; turned < 2; turned++) {
                    assert_ok(tide_scope_begin(rt));
                    tide_dtype d = types[t];
                    tide_array *c = tide_full(rt, d, SHAPE(6, 4), tide_arg_float(NAN));
                    if (turned) c = tide_transpose(c, NULL);
                    c = tide_slice(c, views[v]);
                    tide_array *y = tide_slice(c, "1"), *z = tide_slice(c, "..., 0");
                    int64_t m = tide_array_dim(c, 0), n = tide_array_dim(c, 1);
                    tide_array *b = tide_ones(rt, d, SHAPE(n, k)), *x = tide_ones(rt, d, SHAPE(k));
                    assert_ok(tide_gemm(c, one, tide_ones(rt, d, SHAPE(m, k)),
                                        tide_ones(rt, d, SHAPE(k, n)), nothing));
                    assert_true(tide_item_f64(tide_sum(tide_abs(c), NULL, 0, 0)) ==
                                (double)(m * n * k));
                    assert_ok(tide_fill(c, tide_arg_float(NAN)));
                    assert_ok(tide_gemv(y, one, b, x, nothing));
                    assert_true(tide_item_f64(tide_sum(tide_abs(y), NULL, 0, 0)) ==
                                (double)(n * k));
                    assert_ok(tide_fill(z, tide_arg_int(3))); /* now a scale */
                    assert_ok(tide_gemv(z, one, tide_ones(rt, d, SHAPE(m, k)), x, half));
                    assert_true(tide_item_f64(tide_sum(tide_abs(z), NULL, 0, 0)) ==
                                (double)m * ((double)k + 1.5));
                    assert_ok(tide_scope_end(rt));
                }
    close_checked(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_agrees_with_plain_loops),
        cmocka_unit_test(gemv_and_ger_agree_with_plain_loops),
        cmocka_unit_test(gemv_of_many_vectors_is_one_product),
        cmocka_unit_test(axpy_agrees_with_plain_loops),
        cmocka_unit_test(updates_write_nothing_else),
        cmocka_unit_test(beta_scales_what_was_there),
    };
    return cmocka_run_group_tests_name("blas_updates", tests, NULL, NULL);
}
