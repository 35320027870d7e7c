/* test_blas.c: BLAS of arrays against plain loops: sums and triangular systems, of every type,
** stride and batch, within the bounds that rounding has; empty ones; what is refused, with which
** words; several devices; memory that runs out. */
#include "tests/support/devices.h"
#include "tests/arrays/plain_blas.h"
#include "tests/doubles/emulate.h"
#include "tests/doubles/emulated_failures.h"

/* ---- sums ---- */

static void one_dot(tide_runtime *rt, tide_dtype t, int px, int py, int64_t n) {
    int64_t batch[8], a[8], b[8], all = 1;
    int most = draw_batch(batch), na = draw_part(most, batch, a), nb = draw_part(most, batch, b);
    int nbatch = na > nb ? na : nb;
    a[na] = b[nb] = n;
    tide_array *x = vectors_of(rt, t, px, na + 1, a), *y = vectors_of(rt, t, py, nb + 1, b),
               *z = tide_dot(x, y);
    assert_array(z);
    assert_int_equal(tide_array_dtype(z), t);
    assert_int_equal(tide_array_ndim(z), nbatch);
    for (int i = 1; i <= nbatch; i++) {
        int64_t p = i <= na ? a[na - i] : 1, q = i <= nb ? b[nb - i] : 1;
        batch[nbatch - i] = p > q ? p : q;
        assert_int_equal(tide_array_dim(z, -i), batch[nbatch - i]);
        all *= batch[nbatch - i];
    }
    numbers vx = read_back(x), vy = read_back(y), vz = read_back(z);
    for (int64_t i = 0; i < vx.n; i++) vx.im[i] = -vx.im[i];
    for (int64_t w = 0; w < all; w++) {
        sum s = {0};
        int64_t p = place_at(&vx, 1, nbatch, batch, w) * n,
                q = place_at(&vy, 1, nbatch, batch, w) * n;
        for (int64_t i = 0; i < n; i++) add(&s, &vx, p + i, &vy, q + i);
        assert_near("dot", t, (double)n, &s, vz.re[w], vz.im[w], w);
    }
    drop(&vx), drop(&vy), drop(&vz);
}

static void dot_agrees_with_plain_loops(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 6;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int px = 0; px < V_PATTERNS; px++)
            for (int py = 0; py < V_PATTERNS; py++) {
                assert_ok(tide_scope_begin(rt));
                one_dot(rt, types[t], px, py, draw(6) ? 1 + (int64_t)draw(20) : 20000);
                assert_ok(tide_scope_end(rt));
            }
    close_checked(rt);
}

/* The norms of `count` vectors, times `unit`. */
static void one_nrm2(tide_runtime *rt, tide_dtype t, int pattern, int64_t count, int64_t n,
                     double unit) {
    tide_array *x = vectors_of(rt, t, pattern, SHAPE(count, n));
    tide_dtype real = tidei_real_of(t);
    x = tide_map(rt, "(x, u) -> x*u", x, unit);
    if (count == 1) x = tide_slice(x, "0");
    if (pattern == V_STEPS) x = tide_slice(x, "..., ::2");
    if (pattern == V_BACKWARDS) x = tide_slice(x, "..., ::-1");
    tide_array *z = tide_nrm2(x);
    assert_array(z);
    assert_int_equal(tide_array_dtype(z), real);
    assert_int_equal(tide_array_ndim(z), count > 1);
    assert_true(tide_array_is_contiguous(z));
    numbers vx = read_back(x), vz = read_back(z);
    int64_t m = vx.shape[vx.ndim - 1];
    for (int64_t w = 0; w < count; w++) {
        long double s = 0;
        for (int64_t i = w * m; i < (w + 1) * m; i++) {
            long double re = (long double)vx.re[i] / unit, im = (long double)vx.im[i] / unit;
            s += re * re + im * im;
        }
        sum want = {.re = sqrtl(s), .size = sqrtl(s)};
        assert_near("nrm2", real, (double)m + 8, &want, vz.re[w] / unit, 0, w);
    }
    drop(&vx), drop(&vz);
}

/* What a GPU folds itself, emulated: no call of a library is there to give the result. */
static void a_long_norm_is_folded_on_a_gpu(void **state) {
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    assert_ok(tide_scope_begin(rt));
    one_nrm2(rt, TIDE_F32, V_PLAIN, 1, (1 << 20) + 5, 1e35);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

/* A long vector of zeros but for some elements, alternately the real and the imaginary part of
** complex ones, from the second of its storage on. */
static double norm_of_few(tide_runtime *rt, tide_dtype t, int n, const double *few) {
    enum { LONG = (1 << 20) + 77 };
    assert_ok(tide_scope_begin(rt));
    tide_array *x = tide_slice(tide_zeros(rt, t, SHAPE(LONG + 1)), "1:");
    for (int i = 0; i < n; i++) {
        char at[32];
        snprintf(at, sizeof at, "%d", i ? LONG / i - 1 : 0);
        assert_ok(tide_fill(tide_slice(x, at), t == TIDE_C128 && i % 2 ? tide_arg_complex(0, few[i])
                                                                       : tide_arg_float(few[i])));
    }
    const double norm = tide_item_f64(tide_nrm2(x));
    assert_string_equal(atomic_load(&emulated_last), "norm_join");
    assert_ok(tide_scope_end(rt));
    return norm;
}
/* What is large and what is small, alone and beside each other, is neither lost nor too much. */
static void a_long_norm_of_doubles_has_three_sums(void **state) {
    static const struct {
        double few[3], norm;
    } cases[] = {{{0, 0, 0}, 0},
                 {{3, -4, 0}, 5},
                 {{3e300, 4e300, 0}, 5e300},
                 {{-3e-300, 4e-300, 0}, 5e-300},
                 {{3 * 0x1p-1074, 4 * 0x1p-1074, 0}, 5 * 0x1p-1074},
                 {{3e300, 1e-300, 4e300}, 5e300},
                 {{3 * 0x1p485, 4 * 0x1p485, 0}, 5 * 0x1p485},
                 {{3 * 0x1p-512, 4 * 0x1p-512, 12 * 0x1p-512}, 13 * 0x1p-512},
                 {{3 * 0x1.4p484, 4 * 0x1.4p484, 0}, 5 * 0x1.4p484}, /* in two sums */
                 {{3 * 0x1.4p-513, 4 * 0x1.4p-513, 0}, 5 * 0x1.4p-513},
                 {{1, 1e-300, 0}, 1},
                 {{INFINITY, 1, 1e-300}, INFINITY},
                 {{INFINITY, NAN, 0}, NAN},
                 {{1e-300, NAN, 0}, NAN},
                 {{1, NAN, 2}, NAN}};
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++)
        for (int t = 0; t < 2; t++) {
            const double want = cases[i].norm,
                         got = norm_of_few(rt, t ? TIDE_C128 : TIDE_F64, 3, cases[i].few);
            const bool sound = isnan(want)   ? isnan(got)
                               : isinf(want) ? got == want
                                             : fabs(got - want) <= 4e-16 * want;
            if (!sound) fail_msg("case %zu: %g, wanted %g", i, got, want);
        }
    assert_ok(tide_scope_begin(rt));
    one_nrm2(rt, TIDE_F64, V_PLAIN, 1, (1 << 20) + 5, 1);
    one_nrm2(rt, TIDE_C128, V_PLAIN, 1, 1 << 20, 1e300);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

static void a_long_norm(tide_runtime *rt, tide_status *status) {
    *status = tide_scope_begin(rt);
    if (*status != TIDE_OK) return;
    tide_array *x = tide_ones(rt, TIDE_F64, SHAPE(1 << 20));
    if (!x || !tide_nrm2(x))
        *status = tide_error_last()->status;
    else
        *status = tide_device_synchronize(rt);
    tide_status end = tide_scope_end(rt);
    if (*status == TIDE_OK) *status = end;
}
static void every_call_may_fail_for_a_long_norm(void **state) {
    (void)state;
    each_emulated_call_fails(a_long_norm);
}

static tide_status norm_of_argument(void *user, const tide_arg *args, size_t n, tide_array **outs,
                                    size_t m) {
    (void)user, (void)n, (void)m;
    outs[0] = tide_nrm2(args[0].value.array);
    return outs[0] ? TIDE_OK : tide_error_last()->status;
}
/* Both kernels are captured, with what lies between them. */
static void a_long_norm_is_captured(void **state) {
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    tide_graph *g = tide_graph_new(rt, norm_of_argument, NULL);
    tide_graph_figures f = {.struct_size = sizeof f};
    for (int run = 1; run <= 4; run++) {
        tide_array *norm = NULL;
        assert_ok(tide_scope_begin(rt));
        tide_array *x = tide_full(rt, TIDE_F64, SHAPE(1 << 20), tide_arg_float(run));
        const tide_arg arg = tide_arg_array(x);
        assert_ok(tide_graph_run(g, &arg, 1, &norm, 1));
        assert_true(tide_item_f64(norm) == 1024.0 * run);
        assert_ok(tide_scope_end(rt));
    }
    assert_ok(tide_graph_info(g, &f));
    assert_int_equal(f.launches, 3);
    assert_int_equal(f.nodes, 2);
    tide_graph_release(g);
    tide_close(rt);
}

static void nrm2_agrees_with_plain_loops(void **state) {
    static const int64_t counts[] = {1, 3, 4, 5, 40};
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 7;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        bool wide = epsilon(types[t]) == DBL_EPSILON;
        const double units[] = {1, wide ? 1e300 : 1e35, wide ? 1e-290 : 1e-33};
        for (size_t c = 0; c < TIDEI_COUNT(counts); c++)
            for (size_t u = 0; u < TIDEI_COUNT(units); u++)
                for (int p = 0; p <= V_BACKWARDS; p++) {
                    assert_ok(tide_scope_begin(rt));
                    one_nrm2(rt, types[t], p, counts[c], 1 + (int64_t)draw(30), units[u]);
                    assert_ok(tide_scope_end(rt));
                }
        assert_ok(tide_scope_begin(rt));
        one_nrm2(rt, types[t], V_PLAIN, 1, 20000, units[1]);
        one_nrm2(rt, types[t], V_PLAIN, 6, 5000, units[2]);
        assert_ok(tide_scope_end(rt));
    }
    close_checked(rt);
}

/* Infinity and not-a-number pass; zeros have norm 0. One vector, and several. */
static void nrm2_passes_infinity_and_nan(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int many = 0; many < 2; many++) {
            assert_ok(tide_scope_begin(rt));
            tide_array *x = tide_zeros(rt, types[t], SHAPE(many ? 6 : 1, 5)),
                       *first = tide_slice(x, "0");
            tide_array *element = tide_slice(first, "2");
            tide_array *of = many ? x : first;
            assert_true(tide_item_f64(tide_sum(tide_nrm2(of), NULL, 0, 0)) == 0);
            assert_ok(tide_fill(element, tide_arg_float(INFINITY)));
            double got = tide_item_f64(tide_sum(tide_nrm2(of), NULL, 0, 0));
            assert_true(isinf(got) && got > 0);
            assert_ok(tide_fill(element, tide_arg_float(NAN)));
            assert_true(isnan(tide_item_f64(tide_sum(tide_nrm2(of), NULL, 0, 0))));
            assert_ok(tide_scope_end(rt));
        }
    close_checked(rt);
}

/* ---- triangular systems ---- */

/* Fills the triangle that must not be read with NaN, and makes the other one well conditioned. */
static void make_triangle(tide_runtime *rt, tide_array *a, int how) {
    numbers v = read_back(a);
    tide_dtype t = tide_array_dtype(a);
    size_t size = tide_dtype_size(t);
    int64_t n = v.shape[v.ndim - 1];
    unsigned char *data = calloc((size_t)v.n + 1, size);
    for (int64_t i = 0; i < v.n; i++) {
        int64_t row = i / n % n, col = i % n;
        bool read = how & TIDE_UPPER ? col > row : col < row;
        double re = v.re[i] / (double)n, im = v.im[i] / (double)n;
        if (row == col && how & TIDE_UNIT) re = NAN;
        if (row == col && !(how & TIDE_UNIT)) re = 1.5 + v.re[i] / 2;
        if (row != col && !read) re = NAN;
        assert_ok(tidei_encode(is_complex(t) ? tide_arg_complex(re, im) : tide_arg_float(re), t,
                               "test", data + (size_t)i * size));
    }
    tide_array *set = tide_from_host(rt, t, v.ndim, v.shape, data);
    assert_ok(tide_assign(a, set));
    free(data);
    drop(&v);
}

static void one_solve(tide_runtime *rt, tide_dtype t, int pa, int pb, int how, int64_t n,
                      int64_t k) {
    int64_t batch[8], a[8], b[8], all = 1;
    int most = draw_batch(batch), na = draw_part(most, batch, a),
        nb = k ? draw_part(most, batch, b) : 0;
    int nbatch = na > nb ? na : nb, core = k ? 2 : 1;
    int64_t cols = k ? k : 1;
    a[na] = a[na + 1] = b[nb] = n, b[nb + 1] = k;
    tide_array *x = view_of(rt, random_numbers, t, pa, na + 2, a);
    make_triangle(rt, x, how);
    tide_array *y = k ? view_of(rt, random_numbers, t, pb, nb + 2, b)
                      : vectors_of(rt, t, pb % V_PATTERNS, 1, b);
    tide_array *z = tide_solve_triangular(x, y, how);
    assert_array(z);
    assert_true(tide_array_is_contiguous(z));
    assert_int_equal(tide_array_dtype(z), t);
    assert_int_equal(tide_array_ndim(z), nbatch + core);
    for (int i = 1; i <= nbatch; i++) {
        int64_t p = i <= na ? a[na - i] : 1, q = i <= nb ? b[nb - i] : 1;
        batch[nbatch - i] = p > q ? p : q;
        assert_int_equal(tide_array_dim(z, -i - core), batch[nbatch - i]);
        all *= batch[nbatch - i];
    }
    numbers va = read_back(x), vb = read_back(y), vz = read_back(z);
    for (int64_t w = 0; w < all; w++) {
        int64_t p = place_at(&va, 2, nbatch, batch, w) * n * n,
                q = place_at(&vb, core, nbatch, batch, w) * n * cols, r = w * n * cols;
        for (int64_t i = 0; i < n; i++) /* b minus a X, against what rounding may do to it */
            for (int64_t j = 0; j < cols; j++) {
                sum s = {0};
                const double minus[2] = {-1, 0};
                int64_t from = how & TIDE_UPPER ? i + 1 : 0, to = how & TIDE_UPPER ? n : i;
                for (int64_t h = from; h < to; h++)
                    add(&s, &va, p + i * n + h, &vz, r + h * cols + j);
                if (how & TIDE_UNIT)
                    plus(&s, (const double[]){1, 0}, &vz, r + i * cols + j);
                else
                    add(&s, &va, p + i * n + i, &vz, r + i * cols + j);
                plus(&s, minus, &vb, q + i * cols + j);
                sum nothing = {0, 0, s.size};
                assert_near("solve_triangular", t, (double)n + 4, &nothing, (double)s.re,
                            (double)s.im, i);
            }
    }
    drop(&va), drop(&vb), drop(&vz);
}

static void triangular_systems_are_solved(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 8;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int how = 0; how < 4; how++)
            for (int pa = 0; pa < PATTERNS; pa++) {
                if (pa == REPEATED_ROWS || pa == REPEATED) continue;
                for (int pb = 0; pb < PATTERNS; pb += 2) {
                    assert_ok(tide_scope_begin(rt));
                    one_solve(rt, types[t], pa, pb + (int)draw(2) * (pb + 1 < PATTERNS), how,
                              1 + (int64_t)draw(7), (int64_t)draw(5));
                    assert_ok(tide_scope_end(rt));
                }
            }
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        assert_ok(tide_scope_begin(rt));
        one_solve(rt, types[t], PLAIN, PLAIN, (int)t, test_quick() ? 40 : 100, 30);
        assert_ok(tide_scope_end(rt));
    }
    close_checked(rt);
}

/* A zero on the diagonal is no error: it gives infinities. */
static void a_singular_triangle_gives_infinities(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    assert_ok(tide_scope_begin(rt));
    tide_array *x = tide_solve_triangular(tide_zeros(rt, TIDE_F64, SHAPE(1, 1)),
                                          tide_ones(rt, TIDE_F64, SHAPE(1)), 0);
    assert_array(x);
    assert_true(isinf(tide_item_f64(x)));
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* ---- types ---- */

/* Of integers a dot product is theirs, and wraps, as the product of matrices does. */
static void a_dot_product_of_integers_wraps(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 8;
    for (int t = TIDE_BOOL; t <= TIDE_U64; t++)
        for (int u = TIDE_I8; u <= TIDE_U64; u++) {
            assert_ok(tide_scope_begin(rt));
            unsigned char a[3 * 40 * 8], b[40 * 8];
            tide_dtype common = -1;
            (void)tidei_promote(t, u, "test", &common);
            for (size_t i = 0; i < sizeof a; i++) a[i] = (unsigned char)draw(256);
            for (size_t i = 0; i < sizeof b; i++) b[i] = (unsigned char)draw(256);
            tide_array *x = tide_from_host(rt, t, SHAPE(3, 1, 40), a),
                       *y = tide_from_host(rt, u, SHAPE(40), b);
            tide_array *turned = tide_slice(x, "..., ::-1"), *product = tide_matmul(turned, y),
                       *dot = tide_dot(turned, y);
            if (common < 0) { /* u64 with a signed type */
                assert_null(dot);
                assert_error(TIDE_E_DTYPE, "have no common type");
                assert_string_equal(tide_error_last()->operation, "tide_dot");
            } else {
                assert_array(dot);
                assert_int_equal(tide_array_dtype(dot), common);
                assert_true(tide_array_ndim(dot) == 2 && tide_array_dim(dot, 0) == 3 &&
                            tide_array_dim(dot, 1) == 1);
                assert_true(tide_item_f64(tide_all(tide_eq(dot, product), NULL, 0, 0)) == 1);
            }
            assert_ok(tide_scope_end(rt));
        }
    assert_ok(tide_scope_begin(rt));
    tide_array *none =
        tide_dot(tide_ones(rt, TIDE_I16, SHAPE(2, 0)), tide_ones(rt, TIDE_U8, SHAPE(0)));
    assert_true(tide_array_dtype(none) == TIDE_I16 && tide_array_dim(none, 0) == 2);
    assert_true(tide_item_f64(tide_any(none, NULL, 0, 0)) == 0);
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

static void integers_are_taken_as_f64(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    assert_ok(tide_scope_begin(rt));
    tide_array *i = tide_full(rt, TIDE_I32, SHAPE(3), tide_arg_int(2));
    tide_array *f = tide_ones(rt, TIDE_F32, SHAPE(3));
    tide_array *all[] = {tide_dot(i, f),
                         tide_nrm2(tide_full(rt, TIDE_I8, SHAPE(4), tide_arg_int(-3))),
                         tide_nrm2(tide_ones(rt, TIDE_BOOL, SHAPE(6, 9))),
                         tide_solve_triangular(tide_full(rt, TIDE_U8, SHAPE(1, 1), tide_arg_int(4)),
                                               tide_ones(rt, TIDE_I64, SHAPE(1)), 0)};
    static const tide_dtype want[] = {TIDE_F32, TIDE_F64, TIDE_F64, TIDE_F64};
    static const double values[] = {6, 6, 18, 0.25};
    static const bool rounds[] = {false, true, true, false}; /* a norm may be scaled on the way */
    for (size_t n = 0; n < TIDEI_COUNT(all); n++) {
        assert_array(all[n]);
        assert_int_equal(tide_array_dtype(all[n]), want[n]);
        double off = fabs(tide_item_f64(tide_sum(all[n], NULL, 0, 0)) - values[n]);
        assert_true(off <= (rounds[n] ? 8 * DBL_EPSILON * values[n] : 0));
    }
    tide_array *c = tide_zeros(rt, TIDE_F64, SHAPE(3, 3)),
               *m = tide_full(rt, TIDE_I16, SHAPE(3, 3), tide_arg_int(2));
    assert_ok(
        tide_gemm(c, tide_arg_int(1), m, tide_ones(rt, TIDE_BOOL, SHAPE(3, 3)), tide_arg_int(1)));
    assert_true(tide_item_f64(tide_sum(c, NULL, 0, 0)) == 54);
    /* an integer takes the type of the float that it meets */
    tide_array *y = tide_zeros(rt, TIDE_F32, SHAPE(3));
    assert_ok(tide_gemv(y, tide_arg_int(1), m, i, tide_arg_int(0)));
    assert_true(tide_item_f64(tide_sum(y, NULL, 0, 0)) == 36);
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* ---- where memory ends ---- */

/* A vector ends with the pool's last page, behind which nothing is mapped. OpenBLAS's zgemv by
** columns, and zdotc of vectors with steps, would load an element more. */
static void nothing_is_read_beyond_a_vector(void **state) {
    enum { HALF = 256 << 10, N = 34 };
    const int64_t half = HALF;
    (void)state;
    if (!test_on_host()) skip();
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        tide_runtime *rt =
            test_open(&(tide_config){.collector = "refcount", .pool = "tide", .limit = "512KiB"});
        const int64_t n = HALF / (int64_t)tide_dtype_size(types[t]);
        tide_array *low = tide_empty(rt, TIDE_U8, 1, &half), *high = tide_ones(rt, types[t], 1, &n);
        assert_array(low);
        assert_array(high);
        tide_free(low);
        for (int64_t rows = 1; rows <= 2 * N; rows++)
            for (int strided = 0; strided < 2; strided++) {
                char slice[40];
                snprintf(slice, sizeof slice, strided ? "%d::34" : "-34:", (int)(n - 1 - 33 * 34));
                tide_array *x = tide_slice(high, slice), *y = tide_zeros(rt, types[t], SHAPE(rows)),
                           *a = tide_ones(rt, types[t], SHAPE(N, rows)),
                           *trans = tide_transpose(a, NULL);
                assert_ok(tide_gemv(y, tide_arg_int(1), trans, x, tide_arg_int(0)));
                numbers got = read_back(y);
                for (int64_t i = 0; i < rows; i++) assert_true(got.re[i] == N && got.im[i] == 0);
                drop(&got);
                tide_array *ones = tide_ones(rt, types[t], SHAPE(N)),
                           *dots[] = {tide_dot(x, ones), tide_dot(ones, x)};
                for (int i = 0; i < 2; i++) {
                    got = read_back(dots[i]);
                    assert_true(got.re[0] == N && got.im[0] == 0);
                    drop(&got);
                    tide_free(dots[i]);
                }
                tide_free(ones);
                tide_free(y), tide_free(trans), tide_free(a), tide_free(x);
            }
        tide_free(high);
        tide_close(rt);
    }
}

/* ---- empty ones ---- */

static void empty_operands_are_taken(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    tide_arg one = tide_arg_int(1);
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        tide_dtype d = types[t];
        assert_ok(tide_scope_begin(rt));
        assert_ok(tide_gemm(tide_ones(rt, d, SHAPE(0, 2)), one, tide_ones(rt, d, SHAPE(0, 3)),
                            tide_ones(rt, d, SHAPE(3, 2)), one));
        assert_ok(tide_gemm(tide_ones(rt, d, SHAPE(0, 2, 2)), one, tide_ones(rt, d, SHAPE(2, 3)),
                            tide_ones(rt, d, SHAPE(3, 2)), one));
        assert_ok(tide_gemv(tide_ones(rt, d, SHAPE(0)), one, tide_ones(rt, d, SHAPE(0, 3)),
                            tide_ones(rt, d, SHAPE(3)), one));
        assert_ok(tide_ger(tide_ones(rt, d, SHAPE(0, 3)), one, tide_ones(rt, d, SHAPE(0)),
                           tide_ones(rt, d, SHAPE(3))));
        assert_ok(tide_axpy(tide_ones(rt, d, SHAPE(4, 0)), one, tide_ones(rt, d, SHAPE(0))));
        tide_array *dot = tide_dot(tide_ones(rt, d, SHAPE(2, 0)), tide_ones(rt, d, SHAPE(0)));
        tide_array *none = tide_dot(tide_ones(rt, d, SHAPE(0, 3)), tide_ones(rt, d, SHAPE(3)));
        tide_array *norm = tide_nrm2(tide_ones(rt, d, SHAPE(0))),
                   *norms = tide_nrm2(tide_ones(rt, d, SHAPE(7, 0)));
        tide_array *x = tide_solve_triangular(tide_ones(rt, d, SHAPE(2, 0, 0)),
                                              tide_ones(rt, d, SHAPE(0, 3)), 0);
        tide_array *no_sides =
            tide_solve_triangular(tide_ones(rt, d, SHAPE(2, 2)), tide_ones(rt, d, SHAPE(2, 0)), 0);
        tide_array *const results[] = {dot, none, norm, norms, x, no_sides};
        for (size_t i = 0; i < TIDEI_COUNT(results); i++) assert_array(results[i]);
        assert_int_equal(tide_array_size(dot), 2);
        assert_true(tide_item_f64(tide_sum(tide_abs(dot), NULL, 0, 0)) == 0);
        assert_int_equal(tide_array_size(none), 0);
        assert_true(tide_item_f64(norm) == 0);
        assert_int_equal(tide_array_size(norms), 7);
        assert_true(tide_item_f64(tide_sum(norms, NULL, 0, 0)) == 0);
        assert_int_equal(tide_array_ndim(x), 3);
        assert_int_equal(tide_array_dim(x, 0), 2);
        assert_int_equal(tide_array_dim(x, 2), 3);
        assert_int_equal(tide_array_dim(no_sides, 0), 2);
        assert_ok(tide_scope_end(rt));
    }
    close_checked(rt);
}

/* ---- refusals ---- */

#define assert_refused(call, operation_wanted, status, part)                                       \
    do {                                                                                           \
        tide_error_clear();                                                                        \
        assert_int_equal(call, status);                                                            \
        assert_error(status, part);                                                                \
        assert_string_equal(tide_error_last()->operation, operation_wanted);                       \
    } while (0)
static tide_status made(tide_array *a) { return a ? TIDE_OK : tide_error_last()->status; }

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    tide_runtime *rt = open_checked(), *other = open_checked();
    assert_ok(tide_scope_begin(rt));
    tide_arg one = tide_arg_int(1), i = tide_arg_complex(0, 1);
    tide_array *a = tide_ones(rt, TIDE_F32, SHAPE(2, 3)), *b = tide_ones(rt, TIDE_F32, SHAPE(3, 4)),
               *c = tide_zeros(rt, TIDE_F32, SHAPE(2, 4)), *x = tide_ones(rt, TIDE_F32, SHAPE(3)),
               *y = tide_zeros(rt, TIDE_F32, SHAPE(2)), *half = tide_ones(rt, TIDE_F16, SHAPE(3)),
               *d = tide_ones(rt, TIDE_F64, SHAPE(3, 4)), *z = tide_ones(rt, TIDE_C64, SHAPE(3));
    assert_refused(tide_gemm(c, one, a, a, one), "tide_gemm", TIDE_E_SHAPE,
                   "a of shape (2, 3) and b of shape (2, 3): the inner dimensions 3 and 2 differ");
    assert_refused(tide_gemm(a, one, a, b, one), "tide_gemm", TIDE_E_SHAPE,
                   "b of shape (3, 4) and c of shape (2, 3): the columns 4 and 3");
    assert_refused(tide_gemm(b, one, a, b, one), "tide_gemm", TIDE_E_SHAPE,
                   "the rows 2 and 3 differ");
    assert_refused(tide_gemm(c, one, x, b, one), "tide_gemm", TIDE_E_SHAPE,
                   "a of shape (3,) is no matrix");
    assert_refused(tide_gemm(c, one, a, d, one), "tide_gemm", TIDE_E_DTYPE,
                   "c is f32, the result f64");
    assert_refused(tide_gemm(c, i, a, b, one), "tide_gemm", TIDE_E_DTYPE, "complex");
    assert_refused(tide_gemm(c, one, a, b, i), "tide_gemm", TIDE_E_DTYPE, "complex");
    assert_refused(tide_gemm(c, tide_arg_float(1e300), a, b, one), "tide_gemm", TIDE_E_DTYPE,
                   "1e+300");
    assert_refused(tide_gemm(c, tide_arg_array(a), a, b, one), "tide_gemm", TIDE_E_INVALID,
                   "an array");
    assert_refused(tide_gemm(c, one, tide_broadcast_to(a, SHAPE(5, 2, 3)), b, one), "tide_gemm",
                   TIDE_E_SHAPE, "the others' batch (5,) does not stretch to that of c, ()");
    assert_refused(tide_gemm(tide_zeros(rt, TIDE_F32, SHAPE(1, 2, 4)), one,
                             tide_broadcast_to(a, SHAPE(5, 2, 3)), b, one),
                   "tide_gemm", TIDE_E_SHAPE, "(1,)");
    assert_refused(tide_gemm(tide_broadcast_to(tide_ones(rt, TIDE_F32, SHAPE(4)), SHAPE(2, 4)), one,
                             a, b, one),
                   "tide_gemm", TIDE_E_INVALID, "c is a stretched view");
    tide_array *square = tide_ones(rt, TIDE_F32, SHAPE(4, 4)), *row = tide_slice(square, "1");
    assert_refused(tide_gemm(square, one, square, tide_ones(rt, TIDE_F32, SHAPE(4, 4)), one),
                   "tide_gemm", TIDE_E_INVALID, "c, which is updated, shares memory with a");
    assert_refused(tide_gemv(row, one, square, tide_ones(rt, TIDE_F32, SHAPE(4)), one), "tide_gemv",
                   TIDE_E_INVALID, "shares memory with a");
    assert_refused(tide_ger(square, one, row, tide_ones(rt, TIDE_F32, SHAPE(4))), "tide_ger",
                   TIDE_E_INVALID, "a, which is updated, shares memory with x");
    assert_refused(tide_axpy(row, one, row), "tide_axpy", TIDE_E_INVALID, "shares memory with x");
    assert_refused(tide_gemv(y, one, a, y, one), "tide_gemv", TIDE_E_SHAPE,
                   "the inner dimensions 3 and 2");
    assert_refused(tide_gemv(x, one, a, x, one), "tide_gemv", TIDE_E_SHAPE, "the rows 2 and 3");
    assert_refused(tide_ger(a, one, y, y), "tide_ger", TIDE_E_SHAPE, "the columns 2 and 3");
    assert_refused(tide_axpy(x, one, a), "tide_axpy", TIDE_E_SHAPE, "does not stretch");
    assert_refused(tide_axpy(tide_ones(rt, TIDE_I32, SHAPE(3)), one, x), "tide_axpy", TIDE_E_DTYPE,
                   "y is i32, the result f32");
    assert_refused(
        tide_axpy(tide_ones(rt, TIDE_I32, SHAPE(3)), one, tide_ones(rt, TIDE_I32, SHAPE(3))),
        "tide_axpy", TIDE_E_DTYPE, "y is i32, the result f64");
    assert_refused(tide_axpy(x, one, z), "tide_axpy", TIDE_E_DTYPE, "y is f32, the result c64");
    assert_refused(tide_axpy(half, one, half), "tide_axpy", TIDE_E_DTYPE, "not in f16");
    assert_refused(made(tide_dot(half, x)), "tide_dot", TIDE_E_DTYPE, "not in f16");
    tide_array *yes = tide_ones(rt, TIDE_BOOL, SHAPE(3));
    assert_refused(made(tide_dot(yes, yes)), "tide_dot", TIDE_E_DTYPE, "bool has no product");
    assert_refused(made(tide_dot(x, y)), "tide_dot", TIDE_E_SHAPE, "the lengths 3 and 2 differ");
    assert_refused(made(tide_dot(x, tide_ones(rt, TIDE_F32, 0, NULL))), "tide_dot", TIDE_E_SHAPE,
                   "y of shape () is no vector");
    assert_refused(made(tide_nrm2(tide_ones(rt, TIDE_F32, 0, NULL))), "tide_nrm2", TIDE_E_SHAPE,
                   "is no vector");
    assert_refused(made(tide_nrm2(tide_ones(rt, TIDE_BF16, SHAPE(2)))), "tide_nrm2", TIDE_E_DTYPE,
                   "bf16");
    assert_refused(made(tide_solve_triangular(a, x, 0)), "tide_solve_triangular", TIDE_E_SHAPE,
                   "a of shape (2, 3) is not square");
    assert_refused(made(tide_solve_triangular(square, x, 0)), "tide_solve_triangular", TIDE_E_SHAPE,
                   "the rows 4 and 3 differ");
    assert_refused(made(tide_solve_triangular(square, row, 4)), "tide_solve_triangular",
                   TIDE_E_INVALID, "4 is none of");
    tide_array *foreign = tide_ones(other, TIDE_F32, SHAPE(3));
    assert_refused(made(tide_dot(x, foreign)), "tide_dot", TIDE_E_INVALID, "another runtime");
    tide_release(foreign);
    assert_refused(made(tide_dot(x, NULL)), "tide_dot", TIDE_E_INVALID, "NULL");
    assert_refused(tide_gemm(c, one, NULL, b, one), "tide_gemm", TIDE_E_INVALID, "NULL");
    tide_array *gone = tide_ones(rt, TIDE_F32, SHAPE(3));
    tide_free(gone);
    assert_refused(made(tide_nrm2(gone)), "tide_nrm2", TIDE_E_FREED, "freed");
    assert_refused(tide_axpy(gone, one, x), "tide_axpy", TIDE_E_FREED, "freed");
    numbers untouched = read_back(c);
    for (int64_t n = 0; n < untouched.n; n++) assert_true(untouched.re[n] == 0);
    drop(&untouched);
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
    close_checked(other);
}

/* ---- several devices ---- */

/* The work is the current device's; operands and what is updated may lie on another that it
** reaches. */
static void operands_may_lie_on_another_device(void **state) {
    (void)state;
    tide_runtime *rt = open_devices(2, "all");
    tide_arg one = tide_arg_int(1);
    if (!test_on_host() && !tide_device_reaches(rt, 0, 1)) {
        tide_close(rt);
        skip();
    }
    assert_ok(tide_scope_begin(rt));
    tide_array *a = tide_ones(rt, TIDE_F32, SHAPE(4, 4)), *x = tide_ones(rt, TIDE_F32, SHAPE(4)),
               *c = tide_zeros(rt, TIDE_F32, SHAPE(4, 4));
    on(rt, 1);
    tide_array *b = tide_full(rt, TIDE_F32, SHAPE(4, 4), tide_arg_int(2)),
               *y = tide_ones(rt, TIDE_F32, SHAPE(4));
    assert_ok(tide_gemm(c, one, a, b, one));
    assert_ok(tide_ger(c, one, x, y));
    assert_ok(tide_gemv(y, one, b, x, one));
    assert_ok(tide_axpy(y, one, x));
    assert_true(tide_item_f64(tide_sum(c, NULL, 0, 0)) == 16 * 9);
    assert_true(tide_item_f64(tide_dot(x, y)) == 40);
    assert_true(fabs(tide_item_f64(tide_nrm2(x)) - 2) <= 4 * FLT_EPSILON);
    assert_true(tide_item_f64(tide_sum(tide_solve_triangular(a, y, TIDE_UNIT), NULL, 0, 0)) == 10);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

/* ---- memory that runs out ---- */

static void all_of_them(tide_runtime *rt, tide_status *status) {
    tide_arg one = tide_arg_int(1);
    tide_status s[8] = {0};
    *status = tide_scope_begin(rt);
    if (*status != TIDE_OK) return;
    /* (3, 4) */
    tide_array *a = tide_ones(rt, TIDE_F32, SHAPE(6, 8)), *gaps = tide_slice(a, "::2, ::2"),
               *i = tide_ones(rt, TIDE_I32, SHAPE(8, 3)),
               *c = tide_zeros(rt, TIDE_F32, SHAPE(12, 6)), *part = tide_slice(c, "::2, ::2"),
               *x = tide_slice(tide_ones(rt, TIDE_F32, SHAPE(8)), "::-2"),
               *y = tide_zeros(rt, TIDE_F32, SHAPE(6));
    if (a && gaps && i && c && part && x && y) {
        s[0] = tide_gemm(part, one, a, i, one);
        s[1] = tide_gemv(tide_slice(y, "::-2"), one, gaps, x, one);
        s[2] = tide_ger(tide_slice(c, "::3, ::2"), one, x, tide_slice(y, "::2"));
        s[3] = tide_axpy(tide_slice(c, "::-1"), one, y);
        s[4] = made(tide_dot(gaps, x));
        s[5] = made(tide_nrm2(a));
        s[6] = made(tide_nrm2(x));
        s[7] = made(tide_solve_triangular(tide_ones(rt, TIDE_I8, SHAPE(3, 3)), gaps, TIDE_UNIT));
    } else
        *status = tide_error_last()->status;
    for (size_t n = 0; n < TIDEI_COUNT(s) && *status == TIDE_OK; n++) *status = s[n];
    if (*status == TIDE_OK) *status = tide_device_synchronize(rt);
    tide_status end = tide_scope_end(rt);
    if (*status == TIDE_OK) *status = end;
}

static void every_call_may_fail(void **state) {
    (void)state;
    each_call_fails(all_of_them);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dot_agrees_with_plain_loops),
        cmocka_unit_test(nrm2_agrees_with_plain_loops),
        cmocka_unit_test(a_long_norm_is_folded_on_a_gpu),
        cmocka_unit_test(a_long_norm_of_doubles_has_three_sums),
        cmocka_unit_test(every_call_may_fail_for_a_long_norm),
        cmocka_unit_test(a_long_norm_is_captured),
        cmocka_unit_test(nrm2_passes_infinity_and_nan),
        cmocka_unit_test(triangular_systems_are_solved),
        cmocka_unit_test(a_singular_triangle_gives_infinities),
        cmocka_unit_test(a_dot_product_of_integers_wraps),
        cmocka_unit_test(integers_are_taken_as_f64),
        cmocka_unit_test(nothing_is_read_beyond_a_vector),
        cmocka_unit_test(empty_operands_are_taken),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(operands_may_lie_on_another_device),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests_name("blas", tests, NULL, NULL);
}
