/* test_cublas.c: what a matrix product asks of cuBLAS and of the cache of handles, over doubles of
** cuBLAS and of the driver on the host device. The cache itself: test_handles.c; what products
** compute: test_matmul.c. */
#include "libs/blas.h"
#include "libs/cublas.h"
#include "tests/support/tidetest.h"

#define PAGE         (64 * TIDEI_KIB) /* of the host device */
#define LIMIT        (128 * TIDEI_MIB)
#define HANDLE_TAKES (60 * TIDEI_MIB) /* less than the cache expects at first */

static struct {
    tide_runtime *rt;
    tidei_runtime *inner;
    int made, destroyed, products, depth, asked; /* contexts pushed; how often one was asked for */
    bool no_context, refuses;                    /* to push one; to say which it is */
    int64_t terms;                               /* of a product's sums */
    int64_t rows;                                /* 0: 8 */
    size_t workspace, least;                     /* that the handle has; that its products need */
    int workspaces, bare;                        /* told of; products without one */
    tidei_cu_ctx current, pushed;                /* the program's own, the last pushed one */
    tidei_addr held;
    int lent; /* times that the stream was, once each */
    char handle, context;
} fake;

/* ---- the doubles ---- */

static tidei_cu_result f_name(tidei_cu_result r, const char **out) {
    return (void)r, *out = "CUDA_ERROR_X", 0;
}
static tidei_cu_ctx ours(void) { return (tidei_cu_ctx)(void *)&fake.context; }
static tidei_cu_result f_context(tidei_cu_stream s, tidei_cu_ctx *out) {
    (void)s;
    fake.asked++;
    return *out = ours(), fake.refuses ? 1 : 0;
}
static tidei_cu_result f_current(tidei_cu_ctx *c) {
    return *c = fake.depth ? fake.pushed : fake.current, 0;
}
static tidei_cu_result f_push(tidei_cu_ctx c) {
    if (fake.no_context) return 1;
    fake.pushed = c;
    return fake.depth++, 0;
}
static tidei_cu_result f_pop(tidei_cu_ctx *c) { return *c = fake.pushed, fake.depth--, 0; }
static bool entered(void) {
    return (fake.depth ? fake.pushed : fake.current) == ours() && fake.depth <= 1;
}
static const tidei_cu driver = {.cuGetErrorName = f_name,
                                .cuStreamGetCtx = f_context,
                                .cuCtxGetCurrent = f_current,
                                .cuCtxPushCurrent = f_push,
                                .cuCtxPopCurrent = f_pop};

static tidei_cublas_status f_create(tidei_cublas_handle *out) {
    tidei_device *d = fake.inner->devs[0].d;
    assert_true(entered());
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, HANDLE_TAKES, &fake.held));
    *out = (tidei_cublas_handle)(void *)&fake.handle;
    return fake.made++, TIDEI_CUBLAS_SUCCESS;
}
static tidei_cublas_status f_destroy(tidei_cublas_handle h) {
    tidei_device *d = fake.inner->devs[0].d;
    assert_ptr_equal(h, &fake.handle);
    assert_true(entered());
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, fake.held, HANDLE_TAKES);
    return fake.destroyed++, TIDEI_CUBLAS_SUCCESS;
}
static tidei_cublas_status f_stream(tidei_cublas_handle h, tidei_cu_stream s) {
    (void)h, (void)s;
    return fake.workspace = SIZE_MAX, 0; /* the handle's own, which no product is to use */
}
static tidei_cublas_status f_workspace(tidei_cublas_handle h, void *p, size_t n) {
    assert_ptr_equal(h, &fake.handle);
    assert_int_equal(p != NULL, n != 0);
    fake.workspaces += n != 0;
    return fake.workspace = n, 0;
}
static tidei_cublas_status f_mode(tidei_cublas_handle h, tidei_cublas_math m) {
    return (void)h, (void)m, 0;
}
static tidei_cublas_status f_gemm(tidei_cublas_handle h, tidei_cublas_operation ta,
                                  tidei_cublas_operation tb, int64_t m, int64_t n, int64_t k,
                                  const void *alpha, const void *a, tidei_cuda_data_type at,
                                  int64_t lda, const void *b, tidei_cuda_data_type bt, int64_t ldb,
                                  const void *beta, void *c, tidei_cuda_data_type ct, int64_t ldc,
                                  tidei_cublas_compute compute, tidei_cublas_algo algo) {
    (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)at, (void)lda,
        (void)b, (void)bt;
    (void)ldb, (void)beta, (void)c, (void)ct, (void)ldc, (void)compute, (void)algo;
    assert_ptr_equal(h, &fake.handle);
    assert_true(entered());
    assert_true(fake.workspace != SIZE_MAX);
    if (fake.workspace < fake.least) return TIDEI_CUBLAS_ALLOC_FAILED;
    fake.bare += fake.workspace == 0;
    return fake.products++, TIDEI_CUBLAS_SUCCESS;
}
static const tidei_cublas_table table = {.cublasCreate_v2 = f_create,
                                         .cublasDestroy_v2 = f_destroy,
                                         .cublasSetStream_v2 = f_stream,
                                         .cublasSetWorkspace_v2 = f_workspace,
                                         .cublasSetMathMode = f_mode,
                                         .cublasGemmEx_64 = f_gemm};

/* ---- a runtime full but for what a case leaves ---- */

static tidei_storage *operand;

static tide_status take(size_t bytes, tidei_storage **out) {
    return tidei_storage_new(&fake.inner->devs[0], bytes, fake.inner->devs[0].stream0, "test", out);
}
static tidei_storage *taken(size_t bytes) { /* not touched */
    tidei_storage *st;
    assert_ok(take(bytes, &st));
    return st;
}

#define LONG 256 /* terms of a sum for which a product has a workspace */

/* rows x terms by terms x 8, all in one storage; a batch of them where it says so. */
static tide_status products(int64_t count) {
    const size_t bytes = (size_t)fake.terms * 8 * sizeof(float);
    tidei_dev *d = &fake.inner->devs[0];
    tidei_matrix x = {.st = operand, .ld = 8}, a = {.st = operand, .ld = fake.terms};
    tidei_gemm g = {.dtype = TIDE_F32,
                    .m = fake.rows ? fake.rows : 8,
                    .n = 8,
                    .k = fake.terms,
                    .alpha = {1},
                    .a = a,
                    .b = x,
                    .c = x};
    const tidei_use uses[3] = {{operand, 0, bytes, TIDEI_READ},
                               {operand, 0, bytes, TIDEI_READ},
                               {operand, 0, 256, TIDEI_WRITE}};
    g.nbatch = count > 1;
    g.batch[0] = count;
    tidei_gemm_begin(d);
    tide_status s = tidei_gemm_cuda(d->stream0, &g, uses, "tide_matmul");
    tidei_gemm_end(d);
    return s;
}
static tide_status product(void) { return products(1); }

static int setup(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.terms = LONG;
    tidei_cu_use(&driver);
    tidei_cublas_use(&table);
    fake.rt = test_open(&(tide_config){
        .device = "host", .collector = "refcount", .limit = "128MiB", .pool = "tide"});
    fake.inner = test_rt(fake.rt);
    operand = taken(PAGE);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    tidei_storage_release(operand);
    tide_close(fake.rt);
    assert_int_equal(fake.made, fake.destroyed);
    assert_int_equal(fake.depth, 0);
    tidei_cublas_use(NULL);
    tidei_cu_use(NULL);
    return 0;
}
static size_t room(void) {
    tidei_dev *d = &fake.inner->devs[0];
    return LIMIT - atomic_load(&d->budget->backed) - atomic_load(&d->budget->library);
}

/* ---- */

static void one_handle_serves_all(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) assert_ok(product());
    assert_int_equal(fake.products, 3);
    assert_int_equal(fake.made, 1);
    assert_int_equal(test_stats(fake.rt).library, HANDLE_TAKES);
}

/* What the library queues is known to the stream before, each time. */
static void lend(tidei_device *d, tidei_dstream *s, bool once) {
    assert_ptr_equal(d, fake.inner->devs[0].d);
    assert_ptr_equal(s, fake.inner->devs[0].stream0->ds);
    assert_true(once);
    assert_int_equal(fake.lent++, fake.products);
}
static void a_product_borrows_the_stream(void **state) {
    (void)state;
    tidei_device *d = fake.inner->devs[0].d;
    const struct tidei_device_ops *real = d->ops;
    struct tidei_device_ops ops = *real;
    ops.stream_lend = lend;
    d->ops = &ops;
    for (int i = 0; i < 3; i++) assert_ok(product());
    d->ops = real;
    assert_int_equal(fake.products, 3);
    assert_int_equal(fake.lent, 3);
}

/* Sums of few terms need no workspace: they run where there is no room for one, and touch none of
** the handle's own. */
static void short_sums_do_without_a_workspace(void **state) {
    (void)state;
    fake.terms = 8;
    assert_ok(product());
    assert_int_equal(fake.bare, 1);
    tidei_storage *rest = taken(room());
    assert_ok(product());
    assert_int_equal(fake.bare, 2);
    fake.terms = LONG;
    assert_int_equal(product(), TIDE_E_NOMEM);
    assert_int_equal(fake.workspaces, 0);
    tidei_storage_release(rest);
    assert_ok(product());
    assert_int_equal(fake.workspaces, 1);
    assert_int_equal(fake.bare, 2);
    static const struct {
        int64_t terms, count;
        bool bare;
        /* 256: 64 KiB of results */
    } borders[] = {{128, 1, true}, {129, 1, false}, {8, 256, true}, {8, 257, false}};
    for (size_t i = 0; i < TIDEI_COUNT(borders); i++) {
        fake.terms = borders[i].terms;
        fake.bare = fake.workspaces = 0;
        assert_ok(products(borders[i].count));
        assert_int_equal(fake.workspaces, !borders[i].bare);
        assert_int_equal(fake.bare, borders[i].bare ? borders[i].count : 0);
    }
}

/* A small product has room for 16 partial results of each, one of a row for one for 64 terms,
** another for as much as there is: a 64th of what the limit leaves. */
static void larger_products_have_larger_workspaces(void **state) {
    static const struct {
        int64_t terms, count;
        size_t bytes;
        int64_t rows;
    } sums[] = {{LONG, 1, 64 << 10, 8}, /* terms of 64 results */
                {(1 << 14) - 1, 1, 64 << 10, 8}, {1 << 14, 1, 2 << 20, 8},
                {130, 100, 448 << 10, 8},        {164, 100, 2 << 20, 8},
                {1 << 16, 3, 2 << 20, 8},        {1 << 16, 3, 128 << 10, 1}};
    tidei_storage *const usual = operand;
    (void)state;
    operand = taken(2 << 20);
    for (size_t i = 0; i < TIDEI_COUNT(sums); i++) {
        fake.terms = sums[i].terms;
        fake.rows = sums[i].rows;
        assert_ok(products(sums[i].count));
        if (sums[i].bytes < 2 << 20)
            assert_int_equal(fake.workspace, sums[i].bytes);
        else
            assert_in_range(fake.workspace, 1 << 20, sums[i].bytes);
    }
    tidei_storage_release(operand);
    operand = usual;
}

/* A library that does not do without one gets one; each product is done once. */
static void a_product_that_was_refused_gets_a_workspace(void **state) {
    (void)state;
    fake.terms = 8;
    fake.least = 1;
    assert_ok(product());
    assert_int_equal(fake.products, 1);
    assert_int_equal(fake.bare, 0);
    assert_int_equal(fake.workspaces, 1);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_SYNC, NULL));
    tidei_storage *rest = taken(room());
    assert_int_equal(product(), TIDE_E_NOMEM);
    assert_int_equal(fake.products, 1);
    tidei_storage_release(rest);
    fake.least = SIZE_MAX; /* nor is that enough */
    assert_int_equal(product(), TIDE_E_DEVICE);
    assert_non_null(strstr(tide_error_last()->message, "a product of (8, 8) by (8, 8)"));
}

/* In the device's context, which is pushed where it is not current, and not left current where it
** was not. */
static void all_is_done_in_the_context(void **state) {
    (void)state;
    assert_ok(product());
    assert_int_equal(fake.depth, 0);
    fake.current = (tidei_cu_ctx)(void *)&fake.handle; /* another one */
    assert_ok(product());
    assert_int_equal(fake.depth, 0);
    fake.no_context = true; /* none can be pushed */
    assert_int_equal(product(), TIDE_E_DEVICE);
    fake.current = ours();
    assert_ok(product()); /* nor has to be */
    assert_int_equal(fake.products, 3);
    assert_int_equal(fake.asked, 1);
    fake.no_context = false;
}

/* Of a device that is lost the driver is asked again, which may refuse; the handle then stays. */
static void a_lost_device_is_asked_for_again(void **state) {
    tidei_device *d = fake.inner->devs[0].d;
    (void)state;
    assert_ok(product());
    d->ops->lose(d, "a test");
    fake.refuses = true;
    (void)!tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL);
    assert_int_equal(fake.asked, 2);
    assert_int_equal(fake.destroyed, 0);
    fake.refuses = false;
    (void)!tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL);
    assert_int_equal(fake.destroyed, 1);
}

/* A product that finds no room for its workspace does not make it of the handle it is about to
** use. */
static void a_product_keeps_its_handle(void **state) {
    tidei_storage *rest, *last;
    (void)state;
    assert_ok(product());
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_SYNC, NULL)); /* the workspace of the first */
    rest = taken(room() - PAGE);
    last = taken(PAGE);
    assert_int_equal(product(), TIDE_E_NOMEM);
    assert_int_equal(fake.destroyed, 0);
    tidei_gemm_begin(&fake.inner->devs[0]); /* nor for the result */
    tidei_storage *more;
    assert_int_equal(take(PAGE, &more), TIDE_E_NOMEM);
    tidei_gemm_end(&fake.inner->devs[0]);
    assert_int_equal(fake.destroyed, 0);
    tidei_storage_release(last);
    assert_ok(product());
    assert_int_equal(fake.made, 1);
    tidei_storage_release(rest);
}

/* Others may have its memory; and once it is known what a handle takes, none is made in vain. */
static void the_ladder_drops_an_idle_handle(void **state) {
    (void)state;
    assert_ok(product());
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_SYNC, NULL));
    tidei_storage *rest = taken(room()), *more = taken(PAGE);
    assert_int_equal(fake.destroyed, 1);
    assert_int_equal(test_stats(fake.rt).library, 0);
    tidei_storage *most = taken(HANDLE_TAKES - 2 * PAGE);
    assert_int_equal(product(), TIDE_E_NOMEM);
    assert_int_equal(fake.made, 1);
    tidei_storage_release(most);
    tidei_storage_release(more);
    tidei_storage_release(rest);
    assert_ok(product()); /* having trimmed what was let go */
    assert_int_equal(fake.made, 2);
    assert_int_equal(test_stats(fake.rt).library, HANDLE_TAKES);
}

/* What cannot be destroyed now stays whole, and counted. */
static void a_drop_that_fails_loses_nothing(void **state) {
    (void)state;
    assert_ok(product());
    fake.no_context = true;
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 0);
    assert_int_equal(test_stats(fake.rt).library, HANDLE_TAKES);
    fake.no_context = false;
    assert_ok(product());
    assert_int_equal(fake.made, 1);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 1);
    assert_int_equal(test_stats(fake.rt).library, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_handle_serves_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_product_borrows_the_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(short_sums_do_without_a_workspace, setup, teardown),
        cmocka_unit_test_setup_teardown(larger_products_have_larger_workspaces, setup, teardown),
        cmocka_unit_test_setup_teardown(a_product_that_was_refused_gets_a_workspace, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(all_is_done_in_the_context, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_device_is_asked_for_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_product_keeps_its_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(the_ladder_drops_an_idle_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(a_drop_that_fails_loses_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
