/* test_blas_sides.c: the cuBLAS side of BLAS against the OpenBLAS side, without a GPU: a double of
** cuBLAS computes what it is asked for as the real one documents it, by columns, in the host
** device's memory. So sides, triangles, transpositions, leading dimensions, steps and batches are
** what is tested; the handles behind it are test_cublas.c's matter. */
#include "libs/blas.h"
#include "libs/cublas.h"
#include "tests/doubles/context_double.h"
#include "tests/doubles/cublas_double.h"
#include "tests/support/views.h"
#include "arrays/expr/copy.h"
#include <math.h>

static struct { tide_runtime *rt; } fake;

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
        tide_arg v = tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX ? tide_arg_complex(re, im)
                                                               : tide_arg_float(re);
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
            fail_msg("%s: element %lld is %g + %gi on the host's side, %g + %gi on cuBLAS's", what,
                     (long long)i, p.re[i], p.im[i], q.re[i], q.im[i]);
    }
    drop(&p), drop(&q);
}

static tidei_use whole(const tidei_operand *o, unsigned mode) { return tidei_operand_use(o, mode); }
static tidei_stream *stream(void) { return tidei_stream_here(test_rt(fake.rt)); }
static tide_status gemm_cuda(const tidei_gemm *given, const tidei_use uses[3]) {
    tidei_dev *d = stream()->dev;
    tidei_gemm g = *given;
    tidei_gemm_begin(d);
    tide_status s = tidei_gemm_cuda(stream(), &g, uses, "test");
    tidei_gemm_end(d);
    return s;
}

/* ---- descriptors ---- */

/* A random matrix in its storage, `count` places of its batch of one dimension apart, some
** backwards if `may_repeat`. */
static tidei_matrix place(const memory *m, int64_t rows, int64_t cols, int64_t count,
                          bool may_trans, bool may_repeat) {
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

static tidei_blas random_call(tidei_blas_routine routine, tide_dtype t, const memory *a,
                              const memory *b) {
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

/* A library's call comes after the stream's work so far, which blocks that move may add to. */
static void finish_stream(void) {
    tidei_device *d = stream()->dev->d;
    assert_ok(d->ops->stream_sync(d, stream()->ds));
}
static int open_with(const char *host_memory) {
    memset(&fake, 0, sizeof fake);
    memset(&cublas, 0, sizeof cublas);
    tidei_cu_use(&driver);
    tidei_cublas_use(&cublas_table);
    cublas.in_order = finish_stream;
    fake.rt = test_open(&(tide_config){
        .device = "host", .collector = "refcount", .host_device_memory = host_memory});
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
           c = random_memory(routine == TIDEI_NRM2 ? tidei_real_of(t) : t),
           d = hold(tide_copy(c.a));
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
    assert_false(cublas.on_device);
    assert_same(&c, &d, names[routine]);
    let_go(&a), let_go(&b), let_go(&c), let_go(&d);
}

static void routines_agree(void **state) {
    (void)state;
    seed = 1;
    for (int round = 0; round < (test_quick() ? 6 : 30); round++)
        for (size_t t = 0; t < TIDEI_COUNT(types); t++)
            for (int r = TIDEI_GEMV; r <= TIDEI_TRSM; r++)
                one_routine((tidei_blas_routine)r, types[t]);
}

/* Batches of gemv, ger and dot as products are the same. */
static void one_as_products(tidei_blas_routine routine, tide_dtype t, bool rows) {
    memory a = random_memory(t), b = random_memory(t), c = random_memory(t),
           d = hold(tide_copy(c.a));
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
            memory a = random_memory(types[t]), b = random_memory(types[t]),
                   c = random_memory(types[t]), d = hold(tide_copy(c.a));
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
    cublas.calls = 0;
    cublas.failing = 3;
    cublas.fails = 1;
    cublas.fails_with = TIDEI_CUBLAS_ALLOC_FAILED;
    tide_status s = tidei_blas_cuda(stream(), &x, uses, x.b.st ? 3 : 2, "test");
    cublas.fails = 0;
    assert_false(cublas.on_device);
    if (s == TIDE_OK) assert_same(wanted, &d, names[r]);
    let_go(&a), let_go(&b), let_go(&d), let_go(&first);
    return s;
}

static void a_failure_says_what_was_asked_for(void **state) {
    static const char *const told[] = {
        "a product of (3, 2) by (2,)",   "an update of (3, 2) by two vectors",
        "an update of (2,) by a vector", "a dot product of vectors (2,)",
        "a norm of a vector (2,)",       "a triangular system (3, 3) for (3, 2)"};
    (void)state;
    seed = 4;
    for (int r = TIDEI_GEMV; r <= TIDEI_TRSM; r++) {
        memory wanted;
        sides again;
        assert_int_equal(fail_third((tidei_blas_routine)r, &again, &wanted), TIDE_E_DEVICE);
        assert_error(TIDE_E_DEVICE, told[r]);
        assert_int_equal(cublas.calls, 3);
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
        /* 2, the one that failed, and all, or the rest */
        assert_int_equal(cublas.calls, r == TIDEI_TRSM ? 7 : 5);
        assert_int_equal(again.written, r == TIDEI_TRSM);
        let_go(&wanted);
    }
}

/* Likewise products that add to what is there, of which cuBLAS takes one dimension of the batch a
** call. */
static void products_that_come_again_add_once(void **state) {
    (void)state;
    seed = 6;
    memory a = random_memory(TIDE_F64), b = random_memory(TIDE_F64), c = random_memory(TIDE_F64),
           d = hold(tide_copy(c.a));
    tidei_gemm g = {.dtype = TIDE_F64,
                    .m = 2,
                    .n = 2,
                    .k = 3,
                    .nbatch = 2,
                    .batch = {3, 4},
                    .alpha = {1},
                    .beta = {2}};
    g.a = (tidei_matrix){.st = a.o.st, .ld = 4, .batch = {40, 10}};
    g.b = (tidei_matrix){.st = b.o.st, .ld = 2, .batch = {0, 7}};
    g.c = (tidei_matrix){.st = c.o.st, .ld = 2, .batch = {50, 5}};
    const tidei_use reads[2] = {whole(&a.o, TIDEI_READ), whole(&b.o, TIDEI_READ)};
    const tidei_use ours[3] = {reads[0], reads[1], whole(&c.o, TIDEI_READ | TIDEI_WRITE)};
    const tidei_use theirs[3] = {reads[0], reads[1], whole(&d.o, TIDEI_READ | TIDEI_WRITE)};
    /* what fails without a workspace gets one; with one it climbs */
    for (int fails = 1; fails <= 2; fails++) {
        g.c.st = c.o.st;
        assert_ok(tidei_gemm_host(stream(), &g, ours, "test"));
        assert_ok(tide_synchronize(fake.rt, NULL));
        g.c.st = d.o.st;
        cublas.calls = 0;
        cublas.bound = 0;
        /* the first of the second call's four; a call that fails does nothing */
        cublas.failing = 5;
        cublas.fails = fails;
        cublas.fails_with = TIDEI_CUBLAS_INTERNAL_ERROR;
        assert_ok(gemm_cuda(&g, theirs));
        cublas.fails = 0;
        assert_int_equal(cublas.bound, fails);
        assert_int_equal(cublas.calls, 12 + fails);
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
