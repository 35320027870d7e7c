/* test_blas_sides.c: the cuBLAS side of BLAS against the OpenBLAS side, without a GPU: a double of cuBLAS computes what it is asked for as
** the real one documents it, by columns, in the host device's memory. So sides, triangles, transpositions, leading dimensions, steps and
** batches are what is tested; the handles behind it are test_cublas.c's matter. */
#include "libs/blas.h"
#include "libs/cublas.h"
#include "tests/context_double.h"
#include "tests/views.h"
#include <cblas.h>
#include <math.h>

static struct {
    tide_runtime *rt;
    int calls, failing, fails; /* of the calls that compute, `fails` fail from the failing-th on, counting from 1 */
    int bound;                 /* workspaces */
    tidei_cublas_status fails_with;
    bool on_device; /* the pointer mode */
    char handle;
} fake;

/* ---- the doubles ---- */

static tidei_cublas_status f_create(tidei_cublas_handle *out) {
    return *out = (tidei_cublas_handle)(void *)&fake.handle, 0;
}
static tidei_cublas_status f_destroy(tidei_cublas_handle h) { return (void)h, 0; }
static tidei_cublas_status f_stream(tidei_cublas_handle h, tidei_cu_stream s) { return (void)h, (void)s, 0; }
static tidei_cublas_status f_workspace(tidei_cublas_handle h, void *p, size_t n) {
    assert_ptr_equal(h, &fake.handle);
    assert_true(p ? n >= 64 * TIDEI_KIB : n == 0);
    return fake.bound += p != NULL, 0;
}
static tidei_cublas_status f_mode(tidei_cublas_handle h, tidei_cublas_math m) { return (void)h, (void)m, 0; }
static tidei_cublas_status f_pointers(tidei_cublas_handle h, tidei_cublas_pointer_mode m) {
    return (void)h, fake.on_device = m == TIDEI_CUBLAS_POINTERS_DEVICE, 0;
}

/* Every call that computes. Results go to the device exactly where that is what `sums` wants. */
static tidei_cublas_status enter(bool sums) {
    assert_int_equal(fake.on_device, sums);
    bool fails = ++fake.calls >= fake.failing && fake.calls < fake.failing + fake.fails;
    return fails ? fake.fails_with : TIDEI_CUBLAS_SUCCESS;
}
#define ENTER(sums)                                                                                                \
    do {                                                                                                           \
        tidei_cublas_status entered = enter(sums);                                                                 \
        if (entered) return entered;                                                                               \
    } while (0)

static CBLAS_TRANSPOSE op_of(tidei_cublas_operation t) {
    return t == TIDEI_CUBLAS_OP_N ? CblasNoTrans : t == TIDEI_CUBLAS_OP_T ? CblasTrans : CblasConjTrans;
}

static tidei_cublas_status f_gemm(tidei_cublas_handle h, tidei_cublas_operation ta, tidei_cublas_operation tb,
                                  int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                                  tidei_cuda_data_type at, int64_t lda, const void *b, tidei_cuda_data_type bt,
                                  int64_t ldb, const void *beta, void *c, tidei_cuda_data_type ct, int64_t ldc,
                                  tidei_cublas_compute compute, tidei_cublas_algo algo) {
    const CBLAS_TRANSPOSE x = op_of(ta), y = op_of(tb);
    const int M = (int)m, N = (int)n, K = (int)k, p = (int)lda, q = (int)ldb, r = (int)ldc;
    (void)h, (void)algo;
    assert_true(at == bt && bt == ct);
    ENTER(false);
    switch (at) {
    case TIDEI_CUDA_R_32F:
        cblas_sgemm(CblasColMajor, x, y, M, N, K, *(const float *)alpha, a, p, b, q, *(const float *)beta, c, r);
        break;
    case TIDEI_CUDA_R_64F:
        cblas_dgemm(CblasColMajor, x, y, M, N, K, *(const double *)alpha, a, p, b, q, *(const double *)beta, c, r);
        break;
    case TIDEI_CUDA_C_32F: cblas_cgemm(CblasColMajor, x, y, M, N, K, alpha, a, p, b, q, beta, c, r); break;
    default: cblas_zgemm(CblasColMajor, x, y, M, N, K, alpha, a, p, b, q, beta, c, r);
    }
    assert_int_equal(compute, at == TIDEI_CUDA_R_32F || at == TIDEI_CUDA_C_32F ? TIDEI_CUBLAS_COMPUTE_32F
                                                                               : TIDEI_CUBLAS_COMPUTE_64F);
    return 0;
}
static size_t width(tidei_cuda_data_type t) { return t == TIDEI_CUDA_R_32F ? 4 : t == TIDEI_CUDA_C_64F ? 16 : 8; }
static tidei_cublas_status f_many(tidei_cublas_handle h, tidei_cublas_operation ta, tidei_cublas_operation tb,
                                  int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                                  tidei_cuda_data_type at, int64_t lda, long long sa, const void *b,
                                  tidei_cuda_data_type bt, int64_t ldb, long long sb, const void *beta, void *c,
                                  tidei_cuda_data_type ct, int64_t ldc, long long sc, int64_t count,
                                  tidei_cublas_compute compute, tidei_cublas_algo algo) {
    const long long w = (long long)width(at);
    assert_true(sa >= 0 && sb >= 0 && sc > 0);
    for (int64_t i = 0; i < count; i++) {
        tidei_cublas_status s =
            f_gemm(h, ta, tb, m, n, k, alpha, (const char *)a + i * sa * w, at, lda, (const char *)b + i * sb * w,
                   bt, ldb, beta, (char *)c + i * sc * w, ct, ldc, compute, algo);
        if (s) return s;
    }
    return 0;
}

static tidei_cublas_status f_axpy(tidei_cublas_handle h, int64_t n, const void *alpha, tidei_cuda_data_type t,
                                  const void *x, tidei_cuda_data_type tx, int64_t by, void *y,
                                  tidei_cuda_data_type ty, int64_t step, tidei_cuda_data_type compute) {
    (void)h;
    assert_true(t == tx && tx == ty && ty == compute);
    ENTER(false);
    switch (t) {
    case TIDEI_CUDA_R_32F: cblas_saxpy((int)n, *(const float *)alpha, x, (int)by, y, (int)step); break;
    case TIDEI_CUDA_R_64F: cblas_daxpy((int)n, *(const double *)alpha, x, (int)by, y, (int)step); break;
    case TIDEI_CUDA_C_32F: cblas_caxpy((int)n, alpha, x, (int)by, y, (int)step); break;
    default: cblas_zaxpy((int)n, alpha, x, (int)by, y, (int)step);
    }
    return 0;
}
static tidei_cublas_status f_dot(tidei_cublas_handle h, int64_t n, const void *x, tidei_cuda_data_type tx,
                                 int64_t by, const void *y, tidei_cuda_data_type ty, int64_t with, void *out,
                                 tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    (void)h;
    assert_true(tx == ty && ty == to && to == compute);
    ENTER(true);
    if (tx == TIDEI_CUDA_R_32F) *(float *)out = cblas_sdot((int)n, x, (int)by, y, (int)with);
    if (tx == TIDEI_CUDA_R_64F) *(double *)out = cblas_ddot((int)n, x, (int)by, y, (int)with);
    assert_true(tx == TIDEI_CUDA_R_32F || tx == TIDEI_CUDA_R_64F);
    return 0;
}
static tidei_cublas_status f_dotc(tidei_cublas_handle h, int64_t n, const void *x, tidei_cuda_data_type tx,
                                  int64_t by, const void *y, tidei_cuda_data_type ty, int64_t with, void *out,
                                  tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    (void)h;
    assert_true(tx == ty && ty == to && to == compute);
    ENTER(true);
    if (tx == TIDEI_CUDA_C_32F) cblas_cdotc_sub((int)n, x, (int)by, y, (int)with, out);
    if (tx == TIDEI_CUDA_C_64F) cblas_zdotc_sub((int)n, x, (int)by, y, (int)with, out);
    assert_true(tx == TIDEI_CUDA_C_32F || tx == TIDEI_CUDA_C_64F);
    return 0;
}
static tidei_cublas_status f_nrm2(tidei_cublas_handle h, int64_t n, const void *x, tidei_cuda_data_type t,
                                  int64_t by, void *out, tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    (void)h;
    assert_int_equal(to, compute);
    assert_int_equal(to, t == TIDEI_CUDA_R_32F || t == TIDEI_CUDA_C_32F ? TIDEI_CUDA_R_32F : TIDEI_CUDA_R_64F);
    ENTER(true);
    switch (t) {
    case TIDEI_CUDA_R_32F: *(float *)out = cblas_snrm2((int)n, x, (int)by); break;
    case TIDEI_CUDA_R_64F: *(double *)out = cblas_dnrm2((int)n, x, (int)by); break;
    case TIDEI_CUDA_C_32F: *(float *)out = cblas_scnrm2((int)n, x, (int)by); break;
    default: *(double *)out = cblas_dznrm2((int)n, x, (int)by);
    }
    return 0;
}

/* `number`: how CBLAS takes a factor of the type. */
#define DOUBLES(letter, T, number, ger_name)                                                                       \
    static tidei_cublas_status f_##letter##gemv(tidei_cublas_handle h, tidei_cublas_operation t, int64_t m,        \
                                                int64_t n, const T *alpha, const T *a, int64_t ld, const T *x,     \
                                                int64_t by, const T *beta, T *y, int64_t step) {                   \
        (void)h;                                                                                                   \
        ENTER(false);                                                                                              \
        cblas_##letter##gemv(CblasColMajor, op_of(t), (int)m, (int)n, number alpha, (const void *)a, (int)ld,      \
                             (const void *)x, (int)by, number beta, (void *)y, (int)step);                         \
        return 0;                                                                                                  \
    }                                                                                                              \
    static tidei_cublas_status f_##letter##ger(tidei_cublas_handle h, int64_t m, int64_t n, const T *alpha,        \
                                               const T *x, int64_t by, const T *y, int64_t with, T *a,             \
                                               int64_t ld) {                                                       \
        (void)h;                                                                                                   \
        ENTER(false);                                                                                              \
        ger_name(CblasColMajor, (int)m, (int)n, number alpha, (const void *)x, (int)by, (const void *)y,           \
                 (int)with, (void *)a, (int)ld);                                                                   \
        return 0;                                                                                                  \
    }                                                                                                              \
    static tidei_cublas_status f_##letter##trsm(                                                                   \
        tidei_cublas_handle h, tidei_cublas_side side, tidei_cublas_fill half, tidei_cublas_operation t,           \
        tidei_cublas_diag unit, int64_t m, int64_t n, const T *alpha, const T *a, int64_t ld, T *b, int64_t ldb) { \
        (void)h;                                                                                                   \
        ENTER(false);                                                                                              \
        cblas_##letter##trsm(CblasColMajor, side == TIDEI_CUBLAS_SIDE_RIGHT ? CblasRight : CblasLeft,              \
                             half == TIDEI_CUBLAS_FILL_UPPER ? CblasUpper : CblasLower, op_of(t),                  \
                             unit == TIDEI_CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit, (int)m, (int)n,            \
                             number alpha, (const void *)a, (int)ld, (void *)b, (int)ldb);                         \
        return 0;                                                                                                  \
    }
DOUBLES(s, float, *, cblas_sger)
DOUBLES(d, double, *, cblas_dger)
DOUBLES(c, tidei_cublas_c64, (const void *), cblas_cgeru)
DOUBLES(z, tidei_cublas_c128, (const void *), cblas_zgeru)

static const tidei_cublas_table table = {.cublasCreate_v2 = f_create,
                                         .cublasDestroy_v2 = f_destroy,
                                         .cublasSetStream_v2 = f_stream,
                                         .cublasSetWorkspace_v2 = f_workspace,
                                         .cublasSetMathMode = f_mode,
                                         .cublasSetPointerMode_v2 = f_pointers,
                                         .cublasGemmEx_64 = f_gemm,
                                         .cublasGemmStridedBatchedEx_64 = f_many,
                                         .cublasAxpyEx_64 = f_axpy,
                                         .cublasDotEx_64 = f_dot,
                                         .cublasDotcEx_64 = f_dotc,
                                         .cublasNrm2Ex_64 = f_nrm2,
                                         .cublasSgemv_v2_64 = f_sgemv,
                                         .cublasDgemv_v2_64 = f_dgemv,
                                         .cublasCgemv_v2_64 = f_cgemv,
                                         .cublasZgemv_v2_64 = f_zgemv,
                                         .cublasSger_v2_64 = f_sger,
                                         .cublasDger_v2_64 = f_dger,
                                         .cublasCgeru_v2_64 = f_cger,
                                         .cublasZgeru_v2_64 = f_zger,
                                         .cublasStrsm_v2_64 = f_strsm,
                                         .cublasDtrsm_v2_64 = f_dtrsm,
                                         .cublasCtrsm_v2_64 = f_ctrsm,
                                         .cublasZtrsm_v2_64 = f_ztrsm};

/* ---- memory ---- */

#define ROOM 4000 /* elements of each operand's storage */

static const tide_dtype types[] = {TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};

/* An operand's memory: what a test looks at, and the array that owns it. */
typedef struct memory {
    tide_array *a;
    tidei_operand o;
} memory;

static memory hold(tide_array *a) {
    memory m = {.a = a};
    assert_array(a);
    assert_ok(tidei_operand_get(a, "test", 1, &m.o));
    return m;
}
static memory random_memory(tide_dtype t) {
    unsigned char data[ROOM * 16];
    for (size_t i = 0; i < ROOM; i++) {
        double re = 0.5 + (double)draw(1 << 20) / (1 << 21), im = (double)draw(1 << 20) / (1 << 21);
        tide_arg v = tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX ? tide_arg_complex(re, im) : tide_arg_float(re);
        assert_ok(tidei_encode(v, t, "test", data + i * tide_dtype_size(t)));
    }
    return hold(tide_from_host(fake.rt, t, SHAPE(ROOM), data));
}
static void let_go(memory *m) {
    tidei_operand_put(&m->o);
    tide_release(m->a);
}

/* The same elements within rounding, all of the storage. */
static void assert_same(const memory *x, const memory *y, const char *what) {
    numbers p = read_back(x->a), q = read_back(y->a);
    const double u = tidei_real_of(tide_array_dtype(x->a)) == TIDE_F32 ? 1e-4 : 1e-12;
    for (int64_t i = 0; i < p.n; i++) {
        double size = 1 + hypot(p.re[i], p.im[i]);
        if (!(hypot(p.re[i] - q.re[i], p.im[i] - q.im[i]) <= u * size))
            fail_msg("%s: element %lld is %g + %gi on the host's side, %g + %gi on cuBLAS's", what, (long long)i,
                     p.re[i], p.im[i], q.re[i], q.im[i]);
    }
    drop(&p), drop(&q);
}

static tidei_use whole(const tidei_operand *o, unsigned mode) { return tidei_operand_use(o, mode); }
static tidei_stream *stream(void) { return tidei_stream_here(test_rt(fake.rt)); }
static tide_status gemm_cuda(const tidei_gemm *g, const tidei_use uses[3]) {
    tidei_dev *d = stream()->dev;
    tidei_gemm_begin(d);
    tide_status s = tidei_gemm_cuda(stream(), g, uses, "test");
    tidei_gemm_end(d);
    return s;
}

/* ---- descriptors ---- */

/* A random matrix in its storage, `count` places of its batch of one dimension apart, some backwards if `may_repeat`. */
static tidei_matrix place(const memory *m, int64_t rows, int64_t cols, int64_t count, bool may_trans,
                          bool may_repeat) {
    tidei_matrix x = {.st = m->o.st, .trans = may_trans && draw(2)};
    int64_t stored_rows = x.trans ? cols : rows, stored_cols = x.trans ? rows : cols;
    x.ld = stored_cols + (int64_t)draw(3);
    int64_t span = stored_rows * x.ld + (int64_t)draw(4);
    x.batch[0] = may_repeat && draw(4) == 0 ? 0 : span;
    x.offset = (int64_t)draw(7);
    if (may_repeat && draw(4) == 0) {
        x.batch[0] = -span;
        x.offset += span * (count - 1);
    }
    assert_true(x.offset + span * count <= ROOM);
    return x;
}

static const char *const names[] = {"gemv", "ger", "axpy", "dot", "nrm2", "trsm"};

static tidei_blas random_call(tidei_blas_routine routine, tide_dtype t, const memory *a, const memory *b) {
    bool complex_one = tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX;
    tidei_blas x = {.routine = routine,
                    .dtype = t,
                    .m = 1 + (int64_t)draw(6),
                    .n = 1 + (int64_t)draw(6),
                    .nbatch = (int)draw(2),
                    .alpha = {0.5, complex_one ? 0.25 : 0},
                    .beta = {draw(2) ? 2 : 0, complex_one && draw(2) ? -1 : 0},
                    .upper = draw(2),
                    .unit = draw(2)};
    x.batch[0] = x.nbatch ? 2 + (int64_t)draw(3) : 0;
    bool reads_b = routine == TIDEI_GEMV || routine == TIDEI_GER || routine == TIDEI_DOT;
    tidei_extents e = tidei_blas_extents(&x, 0), f = tidei_blas_extents(&x, 2);
    x.a = place(a, e.rows, e.cols, x.batch[0] ? x.batch[0] : 1, e.cols > 1, true);
    if (reads_b) x.b = place(b, f.rows, f.cols, x.batch[0] ? x.batch[0] : 1, false, true);
    return x;
}

/* ---- cases ---- */

static int open_with(const char *host_memory) {
    memset(&fake, 0, sizeof fake);
    tidei_cu_use(&driver);
    tidei_cublas_use(&table);
    fake.rt = test_open(&(tide_config){.device = "host", .collector = "refcount", .host_memory = host_memory});
    return 0;
}
static int setup(void **state) { return (void)state, open_with("4GiB"); }
static int setup_short(void **state) {
    return (void)state, open_with("64MiB");
} /* so that a failure may be a lack of it */
static int teardown(void **state) {
    (void)state;
    tide_close(fake.rt);
    assert_int_equal(contexts.depth, 0);
    tidei_cublas_use(NULL);
    tidei_cu_use(NULL);
    return 0;
}

static void one_routine(tidei_blas_routine routine, tide_dtype t) {
    memory a = random_memory(t), b = random_memory(t),
           c = random_memory(routine == TIDEI_NRM2 ? tidei_real_of(t) : t), d = hold(tide_copy(c.a));
    tidei_blas x = random_call(routine, t, &a, &b);
    tidei_extents e = tidei_blas_extents(&x, 1);
    x.c = place(&c, e.rows, e.cols, x.batch[0] ? x.batch[0] : 1, false, false);
    assert_ok(tidei_blas_run(stream(), &x, "test"));
    assert_ok(tide_synchronize(fake.rt, NULL)); /* the double computes at once */
    tidei_blas y = x;
    y.c.st = d.o.st;
    const tidei_use uses[3] = {whole(&a.o, TIDEI_READ), whole(&d.o, TIDEI_READ | TIDEI_WRITE),
                               whole(&b.o, TIDEI_READ)};
    assert_ok(tidei_blas_cuda(stream(), &y, uses, x.b.st ? 3 : 2, "test"));
    assert_false(fake.on_device);
    assert_same(&c, &d, names[routine]);
    let_go(&a), let_go(&b), let_go(&c), let_go(&d);
}

static void routines_agree(void **state) {
    (void)state;
    seed = 1;
    for (int round = 0; round < (test_quick() ? 6 : 30); round++)
        for (size_t t = 0; t < TIDEI_COUNT(types); t++)
            for (int r = TIDEI_GEMV; r <= TIDEI_TRSM; r++) one_routine((tidei_blas_routine)r, types[t]);
}

/* Batches of gemv, ger and dot as products are the same. */
static void one_as_products(tidei_blas_routine routine, tide_dtype t, bool rows) {
    memory a = random_memory(t), b = random_memory(t), c = random_memory(t), d = hold(tide_copy(c.a));
    tidei_blas x = random_call(routine, t, &a, &b);
    tidei_gemm g;
    if (!x.nbatch) x.nbatch = 1, x.batch[0] = 1;
    tidei_extents e = tidei_blas_extents(&x, 1);
    x.c = place(&c, e.rows, e.cols, x.batch[0], false, false);
    if (rows) { /* vectors that meet one matrix */
        x.a.batch[0] = x.a.offset = 0;
        x.b.ld = x.c.ld = 1;
        x.b.offset = 0;
        x.b.batch[0] = x.n + 2;
        x.c.batch[0] = x.m + 1;
    }
    const tidei_use uses[3] = {whole(&a.o, TIDEI_READ), whole(&c.o, TIDEI_READ | TIDEI_WRITE),
                               whole(&b.o, TIDEI_READ)};
    assert_ok(tidei_blas_host(stream(), &x, uses, 3, "test"));
    assert_ok(tide_synchronize(fake.rt, NULL));
    assert_true(tidei_blas_as_gemm(&x, &g));
    if (rows) assert_int_equal(g.nbatch, 0);
    g.c.st = d.o.st;
    const tidei_use others[3] = {whole(&a.o, TIDEI_READ), whole(&b.o, TIDEI_READ),
                                 whole(&d.o, TIDEI_READ | TIDEI_WRITE)};
    const tidei_use turned[3] = {others[1], others[0], others[2]};
    assert_ok(gemm_cuda(&g, g.a.st == b.o.st ? turned : others));
    assert_same(&c, &d, names[routine]);
    let_go(&a), let_go(&b), let_go(&c), let_go(&d);
}

static void batches_are_products(void **state) {
    (void)state;
    seed = 2;
    for (int round = 0; round < (test_quick() ? 6 : 30); round++)
        for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
            one_as_products(TIDEI_GEMV, types[t], false);
            one_as_products(TIDEI_GEMV, types[t], true);
            one_as_products(TIDEI_GER, types[t], false);
            one_as_products(TIDEI_DOT, types[t], false);
        }
}

/* Complex factors, conjugated operands, a result that is read. */
static void products_agree(void **state) {
    (void)state;
    seed = 3;
    for (int round = 0; round < (test_quick() ? 10 : 60); round++)
        for (size_t t = 0; t < TIDEI_COUNT(types); t++) {
            bool complex_one = t >= 2;
            memory a = random_memory(types[t]), b = random_memory(types[t]), c = random_memory(types[t]),
                   d = hold(tide_copy(c.a));
            tidei_gemm g = {.dtype = types[t],
                            .m = 1 + (int64_t)draw(5),
                            .n = 1 + (int64_t)draw(5),
                            .k = 1 + (int64_t)draw(5),
                            .nbatch = (int)draw(2),
                            .alpha = {0.5, complex_one ? 0.25 : 0},
                            .beta = {draw(2) ? 2 : 0, complex_one && draw(2) ? -1 : 0}};
            int64_t count = g.batch[0] = g.nbatch ? 2 + (int64_t)draw(3) : 1;
            g.a = place(&a, g.m, g.k, count, true, true);
            g.b = place(&b, g.k, g.n, count, true, true);
            g.c = place(&c, g.m, g.n, count, false, false);
            g.a.conj = g.a.trans && complex_one && draw(2);
            g.b.conj = g.b.trans && complex_one && draw(2);
            const tidei_use ours[3] = {whole(&a.o, TIDEI_READ), whole(&b.o, TIDEI_READ),
                                       whole(&c.o, TIDEI_READ | TIDEI_WRITE)};
            assert_ok(tidei_gemm_host(stream(), &g, ours, "test"));
            assert_ok(tide_synchronize(fake.rt, NULL));
            tidei_gemm other = g;
            other.c.st = d.o.st;
            const tidei_use theirs[3] = {ours[0], ours[1], whole(&d.o, TIDEI_READ | TIDEI_WRITE)};
            assert_ok(gemm_cuda(&other, theirs));
            assert_same(&c, &d, "gemm");
            let_go(&a), let_go(&b), let_go(&c), let_go(&d);
        }
}

/* The third call of four fails. */
typedef struct sides {
    const memory *to, *from;
    int written;
} sides;
static tide_status write_again(void *arg) {
    sides *s = arg;
    s->written++;
    tide_status status = tidei_copy_elements(test_rt(fake.rt), &s->to->o, &s->from->o, "test");
    return status == TIDE_OK ? tide_synchronize(fake.rt, NULL) : status;
}

static tide_status fail_third(tidei_blas_routine r, sides *again, memory *wanted) {
    memory a = random_memory(TIDE_F64), b = random_memory(TIDE_F64), d = random_memory(TIDE_F64),
           first = hold(tide_copy(d.a));
    *wanted = hold(tide_copy(d.a));
    tidei_blas x = random_call(r, TIDE_F64, &a, &b);
    x.m = 3, x.n = 2, x.nbatch = 1, x.batch[0] = 4;
    x.a.ld = x.b.ld = 4, x.a.offset = x.b.offset = 0;
    x.a.batch[0] = x.b.batch[0] = 20;
    x.beta[0] = 2;
    x.c = (tidei_matrix){.st = wanted->o.st, .ld = 5, .batch = {30}};
    tidei_use uses[3] = {whole(&a.o, TIDEI_READ), whole(&wanted->o, TIDEI_READ | TIDEI_WRITE),
                         whole(&b.o, TIDEI_READ)};
    assert_ok(tidei_blas_host(stream(), &x, uses, x.b.st ? 3 : 2, "test"));
    assert_ok(tide_synchronize(fake.rt, NULL));
    x.c.st = d.o.st;
    uses[1] = whole(&d.o, TIDEI_READ | TIDEI_WRITE);
    *again = (sides){&d, &first, 0};
    if (r == TIDEI_TRSM) x.again = write_again, x.again_arg = again;
    fake.calls = 0;
    fake.failing = 3;
    fake.fails = 1;
    fake.fails_with = TIDEI_CUBLAS_ALLOC_FAILED;
    tide_status s = tidei_blas_cuda(stream(), &x, uses, x.b.st ? 3 : 2, "test");
    fake.fails = 0;
    assert_false(fake.on_device);
    if (s == TIDE_OK) assert_same(wanted, &d, names[r]);
    let_go(&a), let_go(&b), let_go(&d), let_go(&first);
    return s;
}

static void a_failure_says_what_was_asked_for(void **state) {
    static const char *const told[] = {"a product of (3, 2) by (2,)",   "an update of (3, 2) by two vectors",
                                       "an update of (2,) by a vector", "a dot product of vectors (2,)",
                                       "a norm of a vector (2,)",       "a triangular system (3, 3) for (3, 2)"};
    (void)state;
    seed = 4;
    for (int r = TIDEI_GEMV; r <= TIDEI_TRSM; r++) {
        memory wanted;
        sides again;
        assert_int_equal(fail_third((tidei_blas_routine)r, &again, &wanted), TIDE_E_DEVICE);
        assert_error(TIDE_E_DEVICE, told[r]);
        assert_int_equal(fake.calls, 3);
        let_go(&wanted);
    }
}

/* What comes again, because memory may have been short, does nothing twice. */
static void what_comes_again_goes_on(void **state) {
    (void)state;
    seed = 5;
    for (int r = TIDEI_GEMV; r <= TIDEI_TRSM; r++) {
        memory wanted;
        sides again;
        assert_ok(fail_third((tidei_blas_routine)r, &again, &wanted));
        assert_int_equal(fake.calls, r == TIDEI_TRSM ? 7 : 5); /* 2, the one that failed, and all, or the rest */
        assert_int_equal(again.written, r == TIDEI_TRSM);
        let_go(&wanted);
    }
}

/* Likewise products that add to what is there, of which cuBLAS takes one dimension of the batch a call. */
static void products_that_come_again_add_once(void **state) {
    (void)state;
    seed = 6;
    memory a = random_memory(TIDE_F64), b = random_memory(TIDE_F64), c = random_memory(TIDE_F64),
           d = hold(tide_copy(c.a));
    tidei_gemm g = {
        .dtype = TIDE_F64, .m = 2, .n = 2, .k = 3, .nbatch = 2, .batch = {3, 4}, .alpha = {1}, .beta = {2}};
    g.a = (tidei_matrix){.st = a.o.st, .ld = 4, .batch = {40, 10}};
    g.b = (tidei_matrix){.st = b.o.st, .ld = 2, .batch = {0, 7}};
    g.c = (tidei_matrix){.st = c.o.st, .ld = 2, .batch = {50, 5}};
    const tidei_use reads[2] = {whole(&a.o, TIDEI_READ), whole(&b.o, TIDEI_READ)};
    const tidei_use ours[3] = {reads[0], reads[1], whole(&c.o, TIDEI_READ | TIDEI_WRITE)};
    const tidei_use theirs[3] = {reads[0], reads[1], whole(&d.o, TIDEI_READ | TIDEI_WRITE)};
    for (int fails = 1; fails <= 2; fails++) { /* what fails without a workspace gets one; with one it climbs */
        g.c.st = c.o.st;
        assert_ok(tidei_gemm_host(stream(), &g, ours, "test"));
        assert_ok(tide_synchronize(fake.rt, NULL));
        g.c.st = d.o.st;
        fake.calls = 0;
        fake.bound = 0;
        fake.failing = 5; /* the first of the second call's four; a call that fails does nothing */
        fake.fails = fails;
        fake.fails_with = TIDEI_CUBLAS_INTERNAL_ERROR;
        assert_ok(gemm_cuda(&g, theirs));
        fake.fails = 0;
        assert_int_equal(fake.bound, fails);
        assert_int_equal(fake.calls, 12 + fails);
        assert_same(&c, &d, "gemm");
    }
    let_go(&a), let_go(&b), let_go(&c), let_go(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(routines_agree, setup, teardown),
        cmocka_unit_test_setup_teardown(batches_are_products, setup, teardown),
        cmocka_unit_test_setup_teardown(products_agree, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_says_what_was_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(what_comes_again_goes_on, setup_short, teardown),
        cmocka_unit_test_setup_teardown(products_that_come_again_add_once, setup_short, teardown),
    };
    return cmocka_run_group_tests_name("blas_sides", tests, NULL, NULL);
}
