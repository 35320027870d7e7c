/* test_blas.c: BLAS of arrays against plain loops: every type, stride and batch, within the bounds
** that rounding has; factors; what an update leaves alone; what is refused, with which words;
** memory that runs out. */
#include "libs/blas.h"
#include "runtime/device/host/host.h"
#include "tests/support/devices.h"
#include "tests/arrays/every_failure.h"
#include "tests/support/tidetest.h"
#include "tests/support/views.h"
#include <float.h>
#include <math.h>

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};

/* ---- helpers ---- */

static tide_runtime *open_checked(void) {
    tide_config c = {.collector = "refcount", .debug = 1};
    return test_open(&c);
}
static void close_checked(tide_runtime *rt) {
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

static double epsilon(tide_dtype t) {
    return t == TIDE_F32 || t == TIDE_C64 ? FLT_EPSILON : DBL_EPSILON;
}
static bool is_complex(tide_dtype t) { return t == TIDE_C64 || t == TIDE_C128; }

/* In (-1, 1), of integers and bool a few small ones. */
static tide_array *random_numbers(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape) {
    int64_t n = 1;
    size_t size = tide_dtype_size(t);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    unsigned char *data = calloc((size_t)n + 1, size);
    for (int64_t i = 0; i < n; i++) {
        double re = (double)draw(1 << 30) / (1 << 29) - 1,
               im = (double)draw(1 << 30) / (1 << 29) - 1;
        tidei_kind kind = tidei_dtype_kind(t);
        tide_arg x = kind == TIDEI_KIND_COMPLEX ? tide_arg_complex(re, im)
                     : kind == TIDEI_KIND_FLOAT ? tide_arg_float(re)
                     : kind == TIDEI_KIND_BOOL
                         ? tide_arg_bool(re > 0)
                         : tide_arg_int((int64_t)draw(7) - (kind == TIDEI_KIND_INT ? 3 : 0));
        assert_ok(tidei_encode(x, t, "test", data + (size_t)i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    assert_array(a);
    free(data);
    return a;
}

/* Vectors of every kind of view: shape (batch..., n). */
enum { V_PLAIN, V_STEPS, V_BACKWARDS, V_REPEATED, V_COLUMN, V_BATCH_BACKWARDS, V_PATTERNS };
static tide_array *vectors_of(tide_runtime *rt, tide_dtype t, int pattern, int ndim,
                              const int64_t *shape) {
    int64_t s[TIDE_MAX_RANK];
    int perm[TIDE_MAX_RANK];
    memcpy(s, shape, sizeof s[0] * (size_t)ndim);
    switch (pattern) {
    case V_STEPS: s[ndim - 1] *= 3; return tide_slice(random_numbers(rt, t, ndim, s), "..., ::3");
    case V_BACKWARDS: return tide_slice(random_numbers(rt, t, ndim, s), "..., ::-1");
    case V_REPEATED:
        s[ndim - 1] = 1;
        return tide_broadcast_to(random_numbers(rt, t, ndim, s), ndim, shape);
    case V_COLUMN: /* of its transpose */
        for (int i = 0; i < ndim; i++) s[i] = shape[ndim - 1 - i], perm[i] = ndim - 1 - i;
        return tide_transpose(random_numbers(rt, t, ndim, s), perm);
    case V_BATCH_BACKWARDS:
        return tide_slice(random_numbers(rt, t, ndim, s), ndim > 1 ? "::-1" : "::1");
    default: return random_numbers(rt, t, ndim, s);
    }
}

/* A sum, and the sum of the magnitudes that it is of. */
typedef struct sum {
    long double re, im, size;
} sum;
static void add(sum *s, const numbers *x, int64_t i, const numbers *y, int64_t j) {
    s->re += (long double)x->re[i] * y->re[j] - (long double)x->im[i] * y->im[j];
    s->im += (long double)x->re[i] * y->im[j] + (long double)x->im[i] * y->re[j];
    s->size += (long double)hypot(x->re[i], x->im[i]) * hypot(y->re[j], y->im[j]);
}
static void times(sum *s, const double f[2]) {
    long double re = s->re * f[0] - s->im * f[1], im = s->re * f[1] + s->im * f[0];
    s->re = re, s->im = im, s->size *= hypot(f[0], f[1]);
}
/* f times x's element. A factor 0 reads nothing. */
static void plus(sum *s, const double f[2], const numbers *x, int64_t i) {
    if (f[0] == 0 && f[1] == 0) return;
    sum one = {x->re[i], x->im[i], hypot(x->re[i], x->im[i])};
    times(&one, f);
    s->re += one.re, s->im += one.im, s->size += one.size;
}

/* gamma_n of n roundings, complex ones counted as the four real ones that they are. */
static void assert_near(const char *what, tide_dtype t, double n, const sum *want, double re,
                        double im, int64_t i) {
    double u = epsilon(t) / 2 * (is_complex(t) ? 4 : 1),
           bound = (n + 4) * u / (1 - (n + 4) * u) * (double)want->size;
    if (!(hypot(re - (double)want->re, im - (double)want->im) <= bound))
        fail_msg("%s of %s, element %lld: %.17g + %.17gi, wanted %.17g + %.17gi within %g", what,
                 tide_dtype_name(t), (long long)i, re, im, (double)want->re, (double)want->im,
                 bound);
}

typedef struct factors {
    tide_arg alpha, beta;
    double a[2], b[2];
} factors;
static factors draw_factors(tide_dtype t) {
    static const double some[][2] = {{1, 0}, {0, 0}, {-1, 0}, {0.5, 0}, {2, 1}, {0, -1}};
    const double *a = some[draw(is_complex(t) ? 6 : 4)], *b = some[draw(is_complex(t) ? 6 : 4)];
    factors f = {.a = {a[0], a[1]}, .b = {b[0], b[1]}};
    f.alpha = a[1] != 0 ? tide_arg_complex(a[0], a[1]) : tide_arg_float(a[0]);
    f.beta = b[1] != 0           ? tide_arg_complex(b[0], b[1])
             : b[0] == (int)b[0] ? tide_arg_int((int)b[0])
                                 : tide_arg_float(b[0]);
    return f;
}

static int64_t product_of(int n, const int64_t *d) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= d[i];
    return p;
}
/* A batch's shape; *mine: a part of it that stretches to it. Returns the number of dimensions. */
static int draw_batch(int64_t *batch) {
    int n = (int)draw(3);
    for (int i = 0; i < n; i++) batch[i] = 1 + (int64_t)draw(3);
    return n;
}
static int draw_part(int nbatch, const int64_t *batch, int64_t *mine) {
    int n = (int)draw((uint64_t)nbatch + 1);
    for (int i = 0; i < n; i++) mine[i] = draw(3) ? batch[nbatch - n + i] : 1;
    return n;
}

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
        cmocka_unit_test(gemm_agrees_with_plain_loops),
        cmocka_unit_test(gemv_and_ger_agree_with_plain_loops),
        cmocka_unit_test(gemv_of_many_vectors_is_one_product),
        cmocka_unit_test(axpy_agrees_with_plain_loops),
        cmocka_unit_test(updates_write_nothing_else),
        cmocka_unit_test(beta_scales_what_was_there),
        cmocka_unit_test(dot_agrees_with_plain_loops),
        cmocka_unit_test(nrm2_agrees_with_plain_loops),
        cmocka_unit_test(nrm2_passes_infinity_and_nan),
        cmocka_unit_test(triangular_systems_are_solved),
        cmocka_unit_test(a_singular_triangle_gives_infinities),
        cmocka_unit_test(a_dot_product_of_integers_wraps),
        cmocka_unit_test(integers_are_taken_as_f64),
        cmocka_unit_test(empty_operands_are_taken),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(operands_may_lie_on_another_device),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests_name("blas", tests, NULL, NULL);
}
