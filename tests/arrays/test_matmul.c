/* test_matmul.c: matrix products against a naive one, over types, shapes, strides and batches;
** integers that wrap; what is refused, with which words; memory that runs out. */
#include "arrays/linalg/product.h"
#include "libs/blas.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/arrays/checked.h"
#include "tests/doubles/emulate.h"
#include "tests/doubles/emulated_failures.h"
#include "tests/support/tidetest.h"
#include "tests/support/views.h"
#include <math.h>

extern const char tidei_product_text[];

/* ---- helpers ---- */

/* Elements small enough that every sum of the tests is exact in every type. */
static tide_array *small_numbers(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape) {
    int64_t n = 1;
    size_t size = tide_dtype_size(t);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    unsigned char *data = calloc((size_t)n + 1, size);
    for (int64_t i = 0; i < n; i++) {
        tidei_kind kind = tidei_dtype_kind(t);
        int64_t v = (int64_t)draw(5) - (kind == TIDEI_KIND_UINT ? 0 : 2);
        tide_arg x = kind == TIDEI_KIND_COMPLEX ? tide_arg_complex((double)v, (double)draw(5) - 2)
                     : kind == TIDEI_KIND_FLOAT ? tide_arg_float((double)v)
                     : kind == TIDEI_KIND_BOOL  ? tide_arg_bool(v > 0)
                                                : tide_arg_int(v);
        assert_ok(tidei_encode(x, t, "test", data + (size_t)i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, data);
    assert_array(a);
    free(data);
    return a;
}

/* a b = c, element by element; vectors have been made matrices. */
static void assert_product(const numbers *a, const numbers *b, const numbers *c, int nbatch,
                           const int64_t *batch) {
    int64_t m = a->shape[a->ndim - 2], k = a->shape[a->ndim - 1], n = b->shape[b->ndim - 1],
            count = 1;
    for (int i = 0; i < nbatch; i++) count *= batch[i];
    assert_int_equal(c->n, count * m * n);
    for (int64_t w = 0; w < count; w++) {
        int64_t x = place_at(a, 2, nbatch, batch, w) * m * k,
                y = place_at(b, 2, nbatch, batch, w) * k * n;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double re = 0, im = 0;
                for (int64_t q = 0; q < k; q++) {
                    int64_t ai = x + i * k + q, bi = y + q * n + j;
                    re += a->re[ai] * b->re[bi] - a->im[ai] * b->im[bi];
                    im += a->re[ai] * b->im[bi] + a->im[ai] * b->re[bi];
                }
                int64_t ci = (w * m + i) * n + j;
                if (c->re[ci] != re || c->im[ci] != im)
                    fail_msg("product %lld, element (%lld, %lld): %g + %gi, wanted %g + %gi",
                             (long long)w, (long long)i, (long long)j, c->re[ci], c->im[ci], re,
                             im);
            }
    }
}

/* ---- cases ---- */

static const tide_dtype numbers_of_all_kinds[] = {TIDE_F32, TIDE_F64,  TIDE_I8,  TIDE_I16, TIDE_I32,
                                                  TIDE_I64, TIDE_U8,   TIDE_U16, TIDE_U32, TIDE_U64,
                                                  TIDE_F16, TIDE_BF16, TIDE_C64, TIDE_C128};

/* One random product: shapes, which dimensions of the batch stretch, patterns. */
static void one_product(tide_runtime *rt, tide_dtype t, int pa, int pb, int64_t longest) {
    int nbatch = (int)draw(4), na = (int)draw((uint64_t)nbatch + 1),
        nb = draw(2) ? nbatch : (int)draw((uint64_t)nbatch + 1);
    int64_t batch[3] = {1, 1, 1}, a[5], b[5];
    int64_t m = 1 + (int64_t)draw((uint64_t)longest), k = 1 + (int64_t)draw((uint64_t)longest),
            n = 1 + (int64_t)draw((uint64_t)longest);
    if (draw(2)) {
        int swap = na;
        na = nb;
        nb = swap;
    }
    for (int i = 0; i < na; i++) a[i] = 1 + (int64_t)draw(3);
    for (int i = 0; i < nb; i++) { /* the same, or one of them 1 */
        int other = i - nb + na;
        b[i] = 1 + (int64_t)draw(3);
        if (other >= 0 && a[other] != b[i] && draw(2)) b[i] = 1;
        if (other >= 0 && a[other] != b[i] && b[i] != 1) a[other] = draw(2) ? b[i] : 1;
    }
    int most = na > nb ? na : nb;
    for (int i = 1; i <= most; i++) {
        int64_t x = i <= na ? a[na - i] : 1, y = i <= nb ? b[nb - i] : 1;
        batch[most - i] = x > y ? x : y;
    }
    a[na] = m, a[na + 1] = b[nb] = k, b[nb + 1] = n;
    tide_array *x = view_of(rt, small_numbers, t, pa, na + 2, a),
               *y = view_of(rt, small_numbers, t, pb, nb + 2, b);
    tide_array *z = tide_matmul(x, y);
    assert_array(z);
    assert_int_equal(tide_array_dtype(z), t);
    assert_true(tide_array_is_contiguous(z));
    numbers va = read_back(x), vb = read_back(y), vc = read_back(z);
    assert_int_equal(vc.ndim, most + 2);
    assert_memory_equal(vc.shape, batch, sizeof *batch * (size_t)most);
    assert_product(&va, &vb, &vc, most, batch);
    drop(&va), drop(&vb), drop(&vc);
}

static void every_pattern_agrees_with_the_naive_product(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 1;
    for (size_t t = 0; t < TIDEI_COUNT(numbers_of_all_kinds); t++)
        for (int pa = 0; pa < PATTERNS; pa++)
            for (int pb = 0; pb < PATTERNS; pb++) {
                assert_ok(tide_scope_begin(rt));
                one_product(rt, numbers_of_all_kinds[t], pa, pb, 6);
                assert_ok(tide_scope_end(rt));
            }
    close_checked(rt);
}

static void larger_products_agree_with_the_naive_product(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_I8, TIDE_U16, TIDE_I32, TIDE_I64};
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 2;
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int i = 0; i < 4; i++) {
            assert_ok(tide_scope_begin(rt));
            one_product(rt, types[t], (int)draw(PATTERNS), (int)draw(PATTERNS),
                        types[t] == TIDE_I8 ? 20 : 70);
            assert_ok(tide_scope_end(rt));
        }
    close_checked(rt);
}

/* A GPU's products where its kernels are emulated: by the host's BLAS. */
static int64_t parts, terms; /* of the last product in parts; of all calls */
tide_status __real_tidei_gemm_cuda(tidei_stream *s, tidei_gemm *g, const tidei_use uses[3],
                                   const char *op);
tide_status __wrap_tidei_gemm_cuda(tidei_stream *s, tidei_gemm *g, const tidei_use uses[3],
                                   const char *op);
tide_status __wrap_tidei_gemm_cuda(tidei_stream *s, tidei_gemm *g, const tidei_use uses[3],
                                   const char *op) {
    if (!test_on_host()) return __real_tidei_gemm_cuda(s, g, uses, op);
    if (g->nbatch) parts = g->batch[0];
    terms += g->k * (g->nbatch ? g->batch[0] : 1);
    if (g->dtype == TIDE_F16) return TIDE_OK; /* which the host's BLAS has not */
    return tidei_gemm_host(s, g, uses, op);
}

/* Few results of long sums, which go in parts on a GPU; some have a rest. */
static void long_sums(tide_runtime *rt, bool emulated) {
    static const struct {
        tide_dtype a, b;
        int64_t m, k, n, parts, terms;
    } each[] = {{TIDE_F32, TIDE_F32, 7, 65536, 7, 128, 65536},
                {TIDE_F64, TIDE_F64, 2, 65537, 3, 128, 65537},
                {TIDE_F32, TIDE_I8, 3, 70001, 2, 136, 70001},
                {TIDE_F32, TIDE_F32, 5, 525313, 2, 513, 525313},
                {TIDE_C64, TIDE_C64, 2, 65536, 2, 0, 65536},
                {TIDE_F64, TIDE_F32, 2, 65535, 4, 0, 65535},
                {TIDE_F32, TIDE_F32, 32, 65555, 2, 128, 65555}};
    seed = 7;
    for (size_t i = 0; i < TIDEI_COUNT(each); i++) {
        int64_t m = each[i].m, k = each[i].k, n = each[i].n;
        assert_ok(tide_scope_begin(rt));
        tide_array *x = view_of(rt, small_numbers, each[i].a, (int)draw(PATTERNS), SHAPE(m, k)),
                   *y = view_of(rt, small_numbers, each[i].b, (int)draw(PATTERNS), SHAPE(k, n));
        parts = terms = 0;
        tide_array *z = tide_matmul(x, y);
        assert_array(z);
        numbers vx = read_back(x), vy = read_back(y), vz = read_back(z);
        assert_product(&vx, &vy, &vz, 0, NULL);
        drop(&vx), drop(&vy), drop(&vz);
        if (emulated) {
            assert_int_equal(parts, each[i].parts);
            assert_int_equal(terms, each[i].terms);
        }
        assert_ok(tide_scope_end(rt));
    }
}
static void long_sums_agree_with_the_naive_product(void **state) {
    (void)state;
    tide_runtime *rt = open_checked();
    long_sums(rt, false);
    close_checked(rt);
}
static void long_sums_go_in_parts_on_a_gpu(void **state) {
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    long_sums(rt, true);
    tide_close(rt);
}

/* A vector times a matrix, or a matrix times a vector, whose elements that are summed up lie side
** by side, or do not. */
static void try_vector(tide_runtime *rt, tide_dtype t, bool left, bool beside) {
    enum { N = 17, K = 130 };
    const double error = t == TIDE_F16 ? 1.0 / 2048 : t == TIDE_BF16 ? 1.0 / 256 : 0;
    assert_ok(tide_scope_begin(rt));
    tide_array *rows = small_numbers(rt, t, SHAPE(N, K)), *v = small_numbers(rt, t, SHAPE(K)), *z;
    if (!beside) rows = tide_transpose(tide_contiguous(tide_transpose(rows, NULL)), NULL);
    terms = 0;
    assert_array(z = left ? tide_matmul(v, tide_transpose(rows, NULL)) : tide_matmul(rows, v));
    assert_int_equal(terms, 0);
    numbers x = read_back(rows), y = read_back(v), got = read_back(z);
    assert_int_equal(got.n, N);
    for (int i = 0; i < N; i++) {
        double want = 0;
        for (int k = 0; k < K; k++) want += x.re[i * K + k] * y.re[k];
        assert_true(fabs(got.re[i] - want) <= error * fabs(want));
    }
    drop(&x), drop(&y), drop(&got);
    assert_ok(tide_scope_end(rt));
}
/* Whether ones, m x k from column `first` of more of them on, times a vector go to a BLAS. */
static bool ones_go_to_blas(tide_runtime *rt, int64_t k, int64_t first, bool left) {
    enum { M = 3 };
    char columns[32];
    tide_arg v;
    assert_ok(tide_scope_begin(rt));
    snprintf(columns, sizeof columns, ":, %d:%d", (int)first, (int)(first + k));
    tide_array *rows = tide_slice(tide_ones(rt, TIDE_F16, SHAPE(M, k + first)), columns),
               *ones = tide_ones(rt, TIDE_F16, SHAPE(k)), *z;
    terms = 0;
    assert_array(z = left ? tide_matmul(ones, tide_transpose(rows, NULL))
                          : tide_matmul(rows, ones));
    const bool by_blas = terms != 0;
    if (!by_blas) {
        assert_ok(tide_item(tide_sum(tide_cast(z, TIDE_F32), NULL, 0, 0), &v));
        assert_true(v.value.f == M * (double)k);
    }
    assert_ok(tide_scope_end(rt));
    return by_blas;
}
static void long_uneven_rows_of_halves_go_to_blas(void **state) {
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    for (int left = 0; left < 2; left++) {
        assert_true(ones_go_to_blas(rt, 1094, 0, left));
        assert_true(ones_go_to_blas(rt, 1024, 4, left));
        assert_false(ones_go_to_blas(rt, 1024, 0, left));
        assert_false(ones_go_to_blas(rt, 1024, 8, left));
        assert_false(ones_go_to_blas(rt, 719, 0, left));
    }
    tide_close(rt);
}
static void a_vector_is_folded_on_a_gpu(void **state) {
    static const tide_dtype types[] = {TIDE_F16, TIDE_BF16, TIDE_F32, TIDE_F64};
    (void)state;
    tide_runtime *rt = emulated_or_skip();
    for (size_t t = 0; t < TIDEI_COUNT(types); t++)
        for (int how = 0; how < 4; how++) /* others of f16 and bf16 are for cuBLAS */
            if (how & 2 || types[t] == TIDE_F32 || types[t] == TIDE_F64)
                try_vector(rt, types[t], how & 1, how & 2);
    tide_close(rt);
}

static void assert_shape(tide_array *a, int ndim, const int64_t *shape) {
    assert_array(a);
    assert_int_equal(tide_array_ndim(a), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(tide_array_dim(a, i), shape[i]);
}

/* A vector is a row on the left, a column on the right, and its axis goes. */
static void a_vector_is_a_row_or_a_column(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_I32};
    (void)state;
    tide_runtime *rt = open_checked();
    for (size_t t = 0; t < 2; t++)
        for (int step = -2; step <= 2; step++) {
            int64_t four[] = {4}, eight[] = {8}, mat[] = {2, 3, 4}, tam[] = {2, 4, 3};
            char text[16];
            assert_ok(tide_scope_begin(rt));
            snprintf(text, sizeof text, "::%d", step);
            tide_array *v = small_numbers(rt, types[t], 1, step * step == 4 ? eight : four);
            v = step ? tide_slice(v, text) : tide_broadcast_to(tide_slice(v, "0:1"), 1, four);
            tide_array *a = small_numbers(rt, types[t], 3, mat),
                       *b = small_numbers(rt, types[t], 3, tam);
            tide_array *dot = tide_matmul(v, v), *av = tide_matmul(a, v), *vb = tide_matmul(v, b);
            assert_shape(dot, 0, NULL);
            assert_shape(av, 2, (int64_t[]){2, 3});
            assert_shape(vb, 2, (int64_t[]){2, 3});
            numbers nv = read_back(v), na = read_back(a), nb = read_back(b), nd = read_back(dot),
                    nav = read_back(av), nvb = read_back(vb);
            double sum = 0;
            for (int i = 0; i < 4; i++) sum += nv.re[i] * nv.re[i];
            assert_true(nd.re[0] == sum);
            for (int w = 0; w < 2; w++)
                for (int i = 0; i < 3; i++) {
                    double x = 0, y = 0;
                    for (int q = 0; q < 4; q++) {
                        x += na.re[(w * 3 + i) * 4 + q] * nv.re[q];
                        y += nv.re[q] * nb.re[(w * 4 + q) * 3 + i];
                    }
                    assert_true(nav.re[w * 3 + i] == x);
                    assert_true(nvb.re[w * 3 + i] == y);
                }
            drop(&nv), drop(&na), drop(&nb), drop(&nd), drop(&nav), drop(&nvb);
            assert_ok(tide_scope_end(rt));
        }
    close_checked(rt);
}

static tide_array *ones(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape) {
    tide_array *a = tide_ones(rt, t, ndim, shape);
    assert_array(a);
    return a;
}

static void empty_products_are_zeros(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_C128, TIDE_I16};
    (void)state;
    tide_runtime *rt = open_checked();
    assert_ok(tide_scope_begin(rt));
    for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
        tide_dtype d = types[t];
        assert_shape(tide_matmul(ones(rt, d, SHAPE(0, 3)), ones(rt, d, SHAPE(3, 4))), SHAPE(0, 4));
        assert_shape(tide_matmul(ones(rt, d, SHAPE(2, 3)), ones(rt, d, SHAPE(3, 0))), SHAPE(2, 0));
        assert_shape(tide_matmul(ones(rt, d, SHAPE(0, 2, 3)), ones(rt, d, SHAPE(1, 3, 4))),
                     SHAPE(0, 2, 4));
        tide_array *z = tide_matmul(ones(rt, d, SHAPE(5, 2, 0)), ones(rt, d, SHAPE(0, 3)));
        assert_shape(z, SHAPE(5, 2, 3)); /* sums over nothing */
        numbers n = read_back(z);
        for (int i = 0; i < 30; i++) assert_true(n.re[i] == 0 && n.im[i] == 0);
        drop(&n);
        int64_t none[] = {0};
        tide_array *dot = tide_matmul(ones(rt, d, 1, none), ones(rt, d, 1, none));
        assert_shape(dot, 0, NULL);
        n = read_back(dot);
        assert_true(n.re[0] == 0);
        drop(&n);
    }
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

static void mixed_types_are_promoted(void **state) {
    static const tide_dtype pairs[][3] = {
        {TIDE_I32, TIDE_F32, TIDE_F32},  {TIDE_BOOL, TIDE_I8, TIDE_I8},
        {TIDE_F16, TIDE_BF16, TIDE_F32}, {TIDE_U8, TIDE_I8, TIDE_I16},
        {TIDE_F32, TIDE_C64, TIDE_C64},  {TIDE_F64, TIDE_BOOL, TIDE_F64}};
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 3;
    for (size_t i = 0; i < TIDEI_COUNT(pairs); i++)
        for (int turned = 0; turned < 2; turned++) {
            assert_ok(tide_scope_begin(rt));
            int64_t sa[] = {2, 3, 4}, sb[] = {4, 5}, batch[] = {2};
            tide_array *a = view_of(rt, small_numbers, pairs[i][turned], STEPS, 3, sa);
            tide_array *b = view_of(rt, small_numbers, pairs[i][!turned], TRANSPOSED, 2, sb),
                       *c = tide_matmul(a, b);
            assert_array(c);
            assert_int_equal(tide_array_dtype(c), pairs[i][2]);
            numbers x = read_back(a), y = read_back(b), z = read_back(c);
            assert_product(&x, &y, &z, 1, batch);
            drop(&x), drop(&y), drop(&z);
            assert_ok(tide_scope_end(rt));
        }
    close_checked(rt);
}

/* Full-range integers: sums and products modulo 2^bits, the same for signed and unsigned. */
static void integers_wrap(void **state) {
    enum { M = 19, K = 70, N = 33 };
    (void)state;
    tide_runtime *rt = open_checked();
    seed = 4;
    for (tide_dtype t = TIDE_I8; t <= TIDE_U64; t++) {
        size_t size = tide_dtype_size(t);
        unsigned char a[M * K * 8], b[K * N * 8], c[M * N * 8];
        for (size_t i = 0; i < sizeof a; i++) a[i] = (unsigned char)draw(256);
        for (size_t i = 0; i < sizeof b; i++) b[i] = (unsigned char)draw(256);
        tide_array *x = tide_from_host(rt, t, SHAPE(M, K), a),
                   *y = tide_from_host(rt, t, SHAPE(K, N), b);
        tide_array *z = tide_matmul(x, y);
        assert_array(z);
        assert_ok(tide_to_host(z, c, M * N * size));
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < N; j++) {
                uint64_t sum = 0, got = 0;
                for (size_t q = 0; q < K; q++) {
                    uint64_t u = 0, v = 0;
                    memcpy(&u, a + (i * K + q) * size, size);
                    memcpy(&v, b + (q * N + j) * size, size);
                    sum += u * v;
                }
                memcpy(&got, c + (i * N + j) * size, size);
                if (size < 8) sum &= ((uint64_t)1 << size * 8) - 1;
                assert_int_equal(got, sum);
            }
        tide_release(x), tide_release(y), tide_release(z);
    }
    close_checked(rt);
}

static void assert_refused(tide_array *result, tide_status status, const char *part) {
    assert_null(result);
    assert_error(status, part);
    assert_string_equal(tide_error_last()->operation, "tide_matmul");
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    tide_runtime *rt = open_checked(), *other = open_checked();
    assert_ok(tide_scope_begin(rt));
    tide_array *a = ones(rt, TIDE_F32, SHAPE(2, 3)), *zero_d = ones(rt, TIDE_F32, 0, NULL);
    assert_refused(tide_matmul(a, zero_d), TIDE_E_SHAPE,
                   "shapes (2, 3) and (): a 0-d array is no matrix");
    assert_refused(tide_matmul(zero_d, a), TIDE_E_SHAPE, "0-d");
    assert_refused(tide_matmul(a, a), TIDE_E_SHAPE,
                   "shapes (2, 3) and (2, 3): the inner dimensions 3 and 2 differ");
    assert_refused(
        tide_matmul(ones(rt, TIDE_F32, SHAPE(2, 4, 3)), ones(rt, TIDE_F32, SHAPE(5, 3, 4))),
        TIDE_E_SHAPE, "do not broadcast");
    tide_array *truth = ones(rt, TIDE_BOOL, SHAPE(3, 3));
    assert_refused(tide_matmul(truth, truth), TIDE_E_DTYPE, "bool has no product");
    assert_refused(tide_matmul(ones(rt, TIDE_U64, SHAPE(3, 3)), ones(rt, TIDE_I8, SHAPE(3, 3))),
                   TIDE_E_DTYPE, "u64");
    tide_array *foreign = ones(other, TIDE_F32, SHAPE(3, 2));
    assert_refused(tide_matmul(a, foreign), TIDE_E_INVALID,
                   "argument 2 belongs to another runtime");
    tide_release(foreign);
    tide_error_clear();
    assert_refused(tide_matmul(a, NULL), TIDE_E_INVALID, "NULL");
    tide_array *gone = ones(rt, TIDE_F32, SHAPE(3, 2));
    tide_free(gone);
    assert_refused(tide_matmul(a, gone), TIDE_E_FREED, "freed");
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
    close_checked(other);
}

/* Simplifying keeps the products: the same triples of places in memory, whatever their order. */
typedef struct triple {
    int64_t a, b, c;
} triple;
static int by_place(const void *x, const void *y) { return memcmp(x, y, sizeof(triple)); }
static size_t places(const tidei_gemm *g, triple *out) {
    int64_t count = 1;
    size_t n = 0;
    for (int i = 0; i < g->nbatch; i++) count *= g->batch[i];
    for (int64_t w = 0; w < count; w++) {
        int64_t rest = w, a = g->a.offset, b = g->b.offset, c = g->c.offset;
        for (int i = g->nbatch - 1; i >= 0; i--) {
            a += rest % g->batch[i] * g->a.batch[i];
            b += rest % g->batch[i] * g->b.batch[i];
            c += rest % g->batch[i] * g->c.batch[i];
            rest /= g->batch[i];
        }
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++)
                for (int64_t q = 0; q < g->k; q++)
                    out[n++] = (triple){a + (g->a.trans ? q * g->a.ld + i : i * g->a.ld + q),
                                        b + (g->b.trans ? j * g->b.ld + q : q * g->b.ld + j),
                                        c + i * g->c.ld + j};
    }
    qsort(out, n, sizeof *out, by_place);
    return n;
}
static void simpler_products_are_the_same_products(void **state) {
    static triple before[10000], after[10000];
    int fewer = 0, taller = 0;
    (void)state;
    seed = 5;
    for (int round = 0; round < 3000; round++) {
        tidei_gemm g = {
            .m = 1 + (int64_t)draw(3), .n = 1 + (int64_t)draw(3), .k = 1 + (int64_t)draw(3)};
        tidei_matrix *const side[] = {&g.a, &g.b, &g.c};
        g.nbatch = (int)draw(4);
        g.a.trans = draw(4) == 0;
        g.b.trans = draw(4) == 0;
        g.a.ld = (g.a.trans ? g.m : g.k) + (int64_t)draw(2);
        g.b.ld = (g.b.trans ? g.k : g.n) + (int64_t)draw(2);
        g.c.ld = g.n;
        int64_t next[] = {(g.a.trans ? g.k : g.m) * g.a.ld, (g.b.trans ? g.n : g.k) * g.b.ld,
                          g.m * g.c.ld};
        for (int i = g.nbatch - 1; i >= 0; i--) {
            g.batch[i] = 1 + (int64_t)draw(3);
            /* dense mostly; else repeated, apart, or (not c) backwards */
            for (int x = 0; x < 3; x++) {
                uint64_t kind = draw(8);
                side[x]->batch[i] = kind == 0 && x < 2   ? 0
                                    : kind == 1          ? next[x] + 5
                                    : kind == 2 && x < 2 ? -next[x]
                                                         : next[x];
                if (side[x]->batch[i] > 0) next[x] = side[x]->batch[i] * g.batch[i];
            }
        }
        tidei_gemm simple = g;
        tidei_gemm_simplify(&simple);
        assert_true(simple.nbatch <= g.nbatch);
        size_t n = places(&g, before), m = places(&simple, after);
        assert_int_equal(n, m);
        assert_memory_equal(before, after, n * sizeof *before);
        assert_true(simple.a.ld >= (simple.a.trans ? simple.m : simple.k) &&
                    simple.c.ld >= simple.n);
        fewer += simple.nbatch < g.nbatch;
        taller += simple.m > g.m;
    }
    assert_true(fewer > 1000 && taller > 20);
}

/* The integer kernels alone, the host's and the device's text run on the host: every width,
** strides, batches, several tiles a block. */
static void both_integer_kernels_agree(void **state) {
    static const tidei_host_fn host[] = {product_1, product_2, product_4, product_8};
    enum { COUNT = 3, M = 21, K = 37, N = 18 };
    static const char calls[] =
        "typedef pr_product tide_p;\nstatic void tide_k(const tide_p p) { %s(p); }\n";
    static uint64_t a[COUNT * M * K], b[K * N * 2], out[COUNT * M * N + 1];
    (void)state;
    emu_module m = {0};
    for (int log2 = 0; log2 < 4; log2++) {
        char name[16], call[160], *text = malloc(strlen(tidei_product_text) + sizeof call);
        snprintf(name, sizeof name, "product_%d", 1 << log2);
        snprintf(call, sizeof call, calls, name);
        size_t body = (size_t)sprintf(text, "%s", tidei_product_text);
        strcpy(text + body, call);
        emu_add(&m, text, body);
        free(text);
    }
    bool emulates = emu_compiler() != NULL;
    if (emulates) emu_build(&m);
    seed = 6;
    for (int run = 0; run < (emulates ? 8 : 4); run++) {
        int log2 = run % 4;
        size_t size = (size_t)1 << log2;
        for (size_t i = 0; i < sizeof a; i++) ((unsigned char *)a)[i] = (unsigned char)draw(256);
        for (size_t i = 0; i < sizeof b; i++) ((unsigned char *)b)[i] = (unsigned char)draw(256);
        memset(out, 0xee, sizeof out);
        pr_product p = {.out = (uintptr_t)out,
                        .a = (uintptr_t)a,
                        .b = (uintptr_t)b + (K - 1) * size,
                        .m = M,
                        .n = N,
                        .k = K,
                        .count = COUNT,
                        .a_row = K,
                        .a_col = 1,
                        .b_row = -1,
                        .b_col = K,
                        .nbatch = 1,
                        .shape = {COUNT},
                        .a_batch = {M * K}};
        if (run < 4)
            host[log2](&p);
        else
            emu_launch(&m, (unsigned)log2, 5, 1, &p, true); /* 12 tiles for 5 blocks */
        for (size_t i = 0; i < COUNT * M; i++)
            for (size_t j = 0; j < N; j++) {
                uint64_t sum = 0, got = 0;
                for (size_t q = 0; q < K; q++) {
                    uint64_t u = 0, v = 0;
                    memcpy(&u, (char *)a + (i * K + q) * size, size);
                    memcpy(&v, (char *)b + (j * K + K - 1 - q) * size, size);
                    sum += u * v;
                }
                if (size < 8) sum &= ((uint64_t)1 << size * 8) - 1;
                memcpy(&got, (char *)out + (i * N + j) * size, size);
                if (got != sum) fail_msg("run %d, width %zu, element (%zu, %zu)", run, size, i, j);
            }
        assert_int_equal(((unsigned char *)out)[COUNT * M * N * size], 0xee);
    }
    emu_close(&m);
}

static void device_text_compiles(void **state) {
    void *image;
    size_t bytes;
    (void)state;
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
    assert_ok(tidei_nvrtc_compile(tidei_product_text, "product", 90, &image, &bytes));
    assert_memory_equal(image, "\177ELF", 4);
    free(image);
}

/* ---- memory that runs out ---- */

/* Everything that a product takes from the device or the host fails in its turn; nothing stays
** behind. */
static void products(tide_runtime *rt, tide_status *status) {
    tide_array *all[8] = {0};
    *status = tide_scope_begin(rt);
    if (*status != TIDE_OK) return;
    all[0] = tide_ones(rt, TIDE_F32, SHAPE(4, 6));
    all[1] = tide_slice(all[0], "::2, ::2");
    all[2] = tide_matmul(all[1], tide_transpose(all[1], NULL)); /* strides that are copied */
    all[3] = tide_matmul(tide_cast(all[0], TIDE_I16), tide_ones(rt, TIDE_I8, SHAPE(6, 3)));
    all[4] = tide_matmul(tide_cast(all[0], TIDE_F16), tide_ones(rt, TIDE_F16, SHAPE(6, 3)));
    for (int i = 0; i < 5 && *status == TIDE_OK; i++)
        if (!all[i]) *status = tide_error_last()->status;
    if (*status == TIDE_OK) *status = tide_device_synchronize(rt);
    tide_status end = tide_scope_end(rt);
    if (*status == TIDE_OK) *status = end;
}

static void every_call_may_fail(void **state) {
    (void)state;
    each_call_fails(products);
}

static void a_product_in_parts(tide_runtime *rt, tide_status *status) {
    *status = tide_scope_begin(rt);
    if (*status != TIDE_OK) return;
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(66000, 2)), *xt = x ? tide_transpose(x, NULL) : x;
    if (!xt || !tide_matmul(xt, x))
        *status = tide_error_last()->status;
    else
        *status = tide_device_synchronize(rt);
    tide_status end = tide_scope_end(rt);
    if (*status == TIDE_OK) *status = end;
}
static void every_call_may_fail_for_parts(void **state) {
    (void)state;
    each_emulated_call_fails(a_product_in_parts);
}

static void no_room_for_the_result_is_told(void **state) {
    (void)state;
    tide_config c = {.collector = "refcount", .limit = "8MiB"};
    tide_runtime *rt = test_open(&c);
    tide_array *a = ones(rt, TIDE_F32, SHAPE(1 << 19, 1)),
               *b = ones(rt, TIDE_F32, SHAPE(1, 1 << 19));
    assert_null(tide_matmul(a, b)); /* 1 TiB */
    assert_error(TIDE_E_NOMEM, "wanted by tide_matmul");
    tide_array *dot = tide_matmul(b, a);
    if (!dot && !test_on_host()) { /* cuBLAS itself does not fit under such a limit */
        assert_error(TIDE_E_NOMEM, "tide_matmul");
    } else {
        assert_array(dot);
        assert_true(tide_item_f64(dot) == 1 << 19);
        tide_release(dot);
    }
    tide_release(a);
    tide_release(b);
    tide_close(rt);
}

/* ---- products that something follows ---- */

static double followed(int activation, double x) {
    if (activation == TIDE_RELU) return x > 0 ? x : 0;
    if (activation == TIDE_GELU)
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    return x;
}

/* Of what tide_matmul gives, which the cases above are about, and the bias. The sums are exact; so
** is what follows them but for tanh. */
static void assert_linear(tide_runtime *rt, tide_array *a, tide_array *b, tide_array *bias,
                          tide_dtype t) {
    assert_ok(tide_scope_begin(rt));
    numbers x = read_back(tide_matmul(a, b)), y = read_back(bias);
    for (int activation = TIDE_IDENTITY; activation <= TIDE_GELU; activation++) {
        tide_array *got = tide_linear(a, b, bias, activation);
        assert_array(got);
        assert_int_equal(tide_array_dtype(got), t);
        numbers z = read_back(got);
        assert_int_equal(z.ndim, x.ndim);
        assert_int_equal(z.n, x.n);
        double tolerance = activation != TIDE_GELU ? 0
                           : t == TIDE_F64         ? 1e-14
                           : t == TIDE_F32         ? 2e-6
                           : t == TIDE_F16         ? 1e-3
                                                   : 8e-3;
        for (int64_t i = 0; i < z.n; i++) {
            double want = followed(activation, x.re[i] + y.re[i % y.n]);
            if (fabs(z.re[i] - want) > tolerance * (1 + fabs(want)))
                fail_msg("activation %d, element %lld: %g, wanted %g", activation, (long long)i,
                         z.re[i], want);
        }
        drop(&z);
    }
    drop(&x), drop(&y);
    assert_ok(tide_scope_end(rt));
}

static void what_follows_is_added_and_bent(void **state) {
    static const tide_dtype floats[] = {TIDE_F16, TIDE_BF16, TIDE_F32, TIDE_F64};
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    (void)state;
    assert_ok(tide_scope_begin(rt));
    for (size_t i = 0; i < TIDEI_COUNT(floats); i++) {
        const tide_dtype t = floats[i];
        tide_array *x = small_numbers(rt, t, SHAPE(7, 5)), *w = small_numbers(rt, t, SHAPE(5, 6)),
                   *b = small_numbers(rt, t, SHAPE(6)), *all = small_numbers(rt, t, SHAPE(3, 12));
        assert_linear(rt, x, w, b, t);
        /* a vector, one row, one column, a batch, strides, a bias with gaps */
        assert_linear(rt, tide_slice(x, "2"), w, b, t);
        assert_linear(rt, tide_slice(x, "2:3"), w, b, t);
        assert_linear(rt, x, tide_slice(w, ":, 1:2"), tide_slice(b, "3:4"), t);
        assert_linear(rt, small_numbers(rt, t, SHAPE(2, 3, 4, 5)), w, b, t);
        assert_linear(rt, small_numbers(rt, t, SHAPE(2, 4, 5)),
                      small_numbers(rt, t, SHAPE(2, 5, 6)), b, t);
        assert_linear(rt, tide_slice(x, "::-2, ::2"), tide_slice(w, "::2, ::-1"),
                      tide_slice(all, "1, ::-2"), t);
        assert_linear(rt, tide_transpose(tide_slice(x, ":5"), NULL), w, tide_slice(all, "0, 3:9"),
                      t);
        /* nothing to add up, and nothing at all */
        assert_linear(rt, tide_slice(x, ":, :0"), tide_slice(w, ":0"), b, t);
        assert_linear(rt, tide_slice(x, ":0"), w, b, t);
    }
    /* the common type of all three */
    assert_linear(rt, small_numbers(rt, TIDE_F32, SHAPE(3, 4)),
                  small_numbers(rt, TIDE_F16, SHAPE(4, 2)), small_numbers(rt, TIDE_I8, SHAPE(2)),
                  TIDE_F32);
    assert_linear(rt, small_numbers(rt, TIDE_I32, SHAPE(3, 4)),
                  small_numbers(rt, TIDE_I32, SHAPE(4, 2)), small_numbers(rt, TIDE_F64, SHAPE(2)),
                  TIDE_F64);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

static void what_cannot_follow_is_refused(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    (void)state;
    assert_ok(tide_scope_begin(rt));
    tide_array *x = small_numbers(rt, TIDE_F32, SHAPE(3, 4)),
               *w = small_numbers(rt, TIDE_F32, SHAPE(4, 2)),
               *b = small_numbers(rt, TIDE_F32, SHAPE(2)),
               *i = small_numbers(rt, TIDE_I32, SHAPE(4, 2));
    assert_null(tide_linear(x, w, b, 3));
    assert_error(TIDE_E_INVALID, "activation is 3; wanted: TIDE_IDENTITY, TIDE_RELU or TIDE_GELU");
    assert_null(tide_linear(x, w, b, -1));
    assert_null(tide_linear(x, w, tide_slice(b, ":1"), 0));
    assert_error(TIDE_E_SHAPE, "a bias of shape (1,) for a product of 2 columns");
    assert_null(tide_linear(x, w, tide_slice(w, ":2"), 0));
    assert_error(TIDE_E_SHAPE, "a bias of shape (2, 2)");
    assert_null(tide_linear(x, tide_slice(w, ":, 0"), tide_slice(b, ":1"), 0));
    assert_error(TIDE_E_SHAPE, "for each column of a matrix");
    assert_null(tide_linear(w, w, b, 0));
    assert_error(TIDE_E_SHAPE, "the inner dimensions 2 and 4 differ");
    assert_string_equal(tide_error_last()->operation, "tide_linear");
    assert_null(tide_linear(tide_transpose(i, NULL), i, tide_slice(i, "0"), TIDE_RELU));
    assert_error(TIDE_E_DTYPE, "the operands' common type is i32; wanted: a float");
    assert_null(tide_linear(x, tide_cast(w, TIDE_C64), b, 0));
    assert_error(TIDE_E_DTYPE, "c64");
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_agrees_with_the_naive_product),
        cmocka_unit_test(larger_products_agree_with_the_naive_product),
        cmocka_unit_test(long_sums_agree_with_the_naive_product),
        cmocka_unit_test(long_sums_go_in_parts_on_a_gpu),
        cmocka_unit_test(a_vector_is_folded_on_a_gpu),
        cmocka_unit_test(long_uneven_rows_of_halves_go_to_blas),
        cmocka_unit_test(a_vector_is_a_row_or_a_column),
        cmocka_unit_test(empty_products_are_zeros),
        cmocka_unit_test(mixed_types_are_promoted),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(simpler_products_are_the_same_products),
        cmocka_unit_test(both_integer_kernels_agree),
        cmocka_unit_test(device_text_compiles),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(every_call_may_fail_for_parts),
        cmocka_unit_test(no_room_for_the_result_is_told),
        cmocka_unit_test(what_follows_is_added_and_bent),
        cmocka_unit_test(what_cannot_follow_is_refused),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
