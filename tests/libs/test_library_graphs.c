/* test_library_graphs.c: calls of libraries in graphs: an emulated GPU (doubles/emulated_device.h)
** that captures what a double of cuBLAS is asked for, and computes it when the graph is launched.
** So what lies in the arena, what is copied there and back, and which addresses stay is what is
** tested; the values are those of calls made at once, bit for bit. */
#include <cblas.h>
#include "tests/doubles/context_double.h"
#include "tests/doubles/cublas_double.h"
#include "tests/arrays/graph_programs.h"
#include "tests/doubles/emulated_device.h"

/* ---- calls that are noted while the device captures ---- */

typedef struct noted {
    int which;
    tidei_cublas_operation ta, tb;
    int64_t m, n, k, lda, ldb, ldc, step[3], count;
    tidei_cublas_side side;
    tidei_cublas_fill half;
    tidei_cublas_diag unit;
    double alpha[2], beta[2];
    const void *a, *b;
    void *c;
    tidei_cuda_data_type t;
    bool bare; /* it has no workspace */
    /* of cuBLASLt */
    tidei_cublaslt_desc desc;
    tidei_cublaslt_layout la, lb, lc;
    tidei_cublaslt_algo algo;
} noted;
enum { GEMM, LT, AXPY, DOT, NRM2, GEMV, GER, TRSM };

static struct {
    bool on, bare;
    void *stream; /* what libraries queue on */
    noted all[8];
    int n;
    int refuse_bare; /* so many calls without a workspace fail */
    int calls;       /* noted so far */
    int fail_at;     /* that one and all later ones fail; 0: none */
} capture;

static void put(double *to, const void *x, tidei_cuda_data_type t) {
    if (t == TIDEI_CUDA_R_32F)
        to[0] = *(const float *)x;
    else
        to[0] = *(const double *)x;
}
static const void *factor(const double *x, tidei_cuda_data_type t) {
    static _Thread_local float narrow;
    if (t != TIDEI_CUDA_R_32F) return x;
    narrow = (float)x[0];
    return &narrow;
}

/* Notes it; false: it is to be made at once. */
static bool note(noted x, tidei_cublas_status *status) {
    if (!capture.on) return false;
    *status = 0;
    capture.calls++;
    x.bare = capture.bare;
    if (capture.bare && capture.refuse_bare > 0) return capture.refuse_bare--, *status = 15, true;
    if (capture.fail_at && capture.calls >= capture.fail_at) return *status = 13, true;
    assert_true(capture.n < (int)TIDEI_COUNT(capture.all));
    capture.all[capture.n++] = x;
    return true;
}

static tidei_cublas_status c_workspace(tidei_cublas_handle h, void *p, size_t n) {
    if (capture.on) capture.bare = p == NULL;
    return b_workspace(h, p, n);
}
static tidei_cublas_status c_pointers(tidei_cublas_handle h, tidei_cublas_pointer_mode m) {
    return b_pointers(h, m);
}
static tidei_cublas_status c_gemm(tidei_cublas_handle h, tidei_cublas_operation ta,
                                  tidei_cublas_operation tb, int64_t m, int64_t n, int64_t k,
                                  const void *alpha, const void *a, tidei_cuda_data_type at,
                                  int64_t lda, const void *b, tidei_cuda_data_type bt, int64_t ldb,
                                  const void *beta, void *c, tidei_cuda_data_type ct, int64_t ldc,
                                  tidei_cublas_compute compute, tidei_cublas_algo algo) {
    noted x = {.which = GEMM,
               .ta = ta,
               .tb = tb,
               .m = m,
               .n = n,
               .k = k,
               .lda = lda,
               .ldb = ldb,
               .ldc = ldc,
               .a = a,
               .b = b,
               .c = c,
               .t = at};
    tidei_cublas_status s;
    put(x.alpha, alpha, at), put(x.beta, beta, at);
    return note(x, &s) ? s
                       : b_gemm(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc,
                                compute, algo);
}
/* It is told the stream itself, and its own workspace. */
static tidei_cublas_status c_lt(tidei_cublaslt_handle h, tidei_cublaslt_desc *d, const void *alpha,
                                const void *a, tidei_cublaslt_layout *la, const void *b,
                                tidei_cublaslt_layout *lb, const void *beta, const void *in,
                                tidei_cublaslt_layout *lin, void *c, tidei_cublaslt_layout *lc,
                                const tidei_cublaslt_algo *algo, void *workspace, size_t bytes,
                                tidei_cu_stream stream) {
    const tidei_cuda_data_type t = (tidei_cuda_data_type)la->data[0];
    noted x = {.which = LT,
               .desc = *d,
               .la = *la,
               .lb = *lb,
               .lc = *lc,
               .algo = *algo,
               .a = a,
               .b = b,
               .c = c,
               .t = t};
    tidei_cublas_status s;
    put(x.alpha, alpha, t), put(x.beta, beta, t);
    if (capture.on) {
        assert_ptr_equal(stream, capture.stream);
        assert_int_equal(capture.bare, workspace == NULL);
    }
    return note(x, &s) ? s
                       : b_lt_matmul(h, d, alpha, a, la, b, lb, beta, in, lin, c, lc, algo,
                                     workspace, bytes, stream);
}
static tidei_cublas_status c_axpy(tidei_cublas_handle h, int64_t n, const void *alpha,
                                  tidei_cuda_data_type t, const void *a, tidei_cuda_data_type tx,
                                  int64_t by, void *c, tidei_cuda_data_type ty, int64_t step,
                                  tidei_cuda_data_type compute) {
    noted x = {.which = AXPY, .n = n, .a = a, .lda = by, .c = c, .ldc = step, .t = t};
    tidei_cublas_status s;
    put(x.alpha, alpha, t);
    return note(x, &s) ? s : b_axpy(h, n, alpha, t, a, tx, by, c, ty, step, compute);
}
static tidei_cublas_status c_dot(tidei_cublas_handle h, int64_t n, const void *a,
                                 tidei_cuda_data_type tx, int64_t by, const void *b,
                                 tidei_cuda_data_type ty, int64_t with, void *out,
                                 tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    const noted x = {
        .which = DOT, .n = n, .a = a, .lda = by, .b = b, .ldb = with, .c = out, .t = tx};
    tidei_cublas_status s;
    return note(x, &s) ? s : b_dot(h, n, a, tx, by, b, ty, with, out, to, compute);
}
static tidei_cublas_status c_nrm2(tidei_cublas_handle h, int64_t n, const void *a,
                                  tidei_cuda_data_type t, int64_t by, void *out,
                                  tidei_cuda_data_type to, tidei_cuda_data_type compute) {
    const noted x = {.which = NRM2, .n = n, .a = a, .lda = by, .c = out, .t = t};
    tidei_cublas_status s;
    return note(x, &s) ? s : b_nrm2(h, n, a, t, by, out, to, compute);
}
static tidei_cublas_status c_dgemv(tidei_cublas_handle h, tidei_cublas_operation t, int64_t m,
                                   int64_t n, const double *alpha, const double *a, int64_t ld,
                                   const double *v, int64_t by, const double *beta, double *y,
                                   int64_t step) {
    const noted x = {.which = GEMV,
                     .ta = t,
                     .m = m,
                     .n = n,
                     .a = a,
                     .lda = ld,
                     .b = v,
                     .ldb = by,
                     .c = y,
                     .ldc = step,
                     .alpha = {*alpha},
                     .beta = {*beta}};
    tidei_cublas_status s;
    return note(x, &s) ? s : b_dgemv(h, t, m, n, alpha, a, ld, v, by, beta, y, step);
}
static tidei_cublas_status c_dger(tidei_cublas_handle h, int64_t m, int64_t n, const double *alpha,
                                  const double *v, int64_t by, const double *y, int64_t with,
                                  double *a, int64_t ld) {
    const noted x = {.which = GER,
                     .m = m,
                     .n = n,
                     .a = v,
                     .lda = by,
                     .b = y,
                     .ldb = with,
                     .c = a,
                     .ldc = ld,
                     .alpha = {*alpha}};
    tidei_cublas_status s;
    return note(x, &s) ? s : b_dger(h, m, n, alpha, v, by, y, with, a, ld);
}
static tidei_cublas_status c_dtrsm(tidei_cublas_handle h, tidei_cublas_side side,
                                   tidei_cublas_fill half, tidei_cublas_operation t,
                                   tidei_cublas_diag unit, int64_t m, int64_t n,
                                   const double *alpha, const double *a, int64_t ld, double *b,
                                   int64_t ldb) {
    const noted x = {.which = TRSM,
                     .side = side,
                     .half = half,
                     .ta = t,
                     .unit = unit,
                     .m = m,
                     .n = n,
                     .a = a,
                     .lda = ld,
                     .c = b,
                     .ldc = ldb,
                     .alpha = {*alpha}};
    tidei_cublas_status s;
    return note(x, &s) ? s : b_dtrsm(h, side, half, t, unit, m, n, alpha, a, ld, b, ldb);
}

static void make_lt(const noted *x, const void *beta) {
    noted y = *x; /* which may be written to */
    b_lt_matmul((tidei_cublaslt_handle)(void *)&cublas.handle, &y.desc, factor(x->alpha, x->t),
                x->a, &y.la, x->b, &y.lb, beta, x->c, &y.lc, x->c, &y.lc, &y.algo, NULL, 0, NULL);
}

static void make_one(const noted *x) {
    tidei_cublas_handle h = (tidei_cublas_handle)(void *)&cublas.handle;
    const tidei_cublas_compute compute =
        x->t == TIDEI_CUDA_R_32F ? TIDEI_CUBLAS_COMPUTE_32F : TIDEI_CUBLAS_COMPUTE_64F;
    void (*in_order)(void) = cublas.in_order;
    float beta;
    const void *b = x->beta;
    cublas.in_order = NULL; /* it comes in the stream's order */
    cublas.on_device = x->which == DOT || x->which == NRM2;
    if (x->t == TIDEI_CUDA_R_32F) beta = (float)x->beta[0], b = &beta;
    switch (x->which) {
    case GEMM:
        b_gemm(h, x->ta, x->tb, x->m, x->n, x->k, factor(x->alpha, x->t), x->a, x->t, x->lda, x->b,
               x->t, x->ldb, b, x->c, x->t, x->ldc, compute, 0);
        break;
    case LT: make_lt(x, b); break;
    case AXPY:
        b_axpy(h, x->n, factor(x->alpha, x->t), x->t, x->a, x->t, x->lda, x->c, x->t, x->ldc, x->t);
        break;
    case DOT: b_dot(h, x->n, x->a, x->t, x->lda, x->b, x->t, x->ldb, x->c, x->t, x->t); break;
    case NRM2: b_nrm2(h, x->n, x->a, x->t, x->lda, x->c, x->t, x->t); break;
    case GEMV:
        b_dgemv(h, x->ta, x->m, x->n, x->alpha, x->a, x->lda, x->b, x->ldb, x->beta, x->c, x->ldc);
        break;
    case GER: b_dger(h, x->m, x->n, x->alpha, x->a, x->lda, x->b, x->ldb, x->c, x->ldc); break;
    default:
        b_dtrsm(h, x->side, x->half, x->ta, x->unit, x->m, x->n, x->alpha, x->a, x->lda, x->c,
                x->ldc);
    }
    cublas.on_device = false;
    cublas.in_order = in_order;
}
static void make_all(const void *params) {
    const noted *const *list = params;
    const noted *x = *list;
    for (int64_t i = 0; i < x[0].count; i++) make_one(&x[i]);
}

/* The lists that graphs have: kept to the end of the case. */
static noted *lists[400];
static int nlists;

static tide_status begin(tidei_device *d, tidei_dgraph *g, void **native) {
    (void)d;
    assert_false(capture.on);
    capture.on = true;
    capture.n = 0;
    return *native = capture.stream = g, TIDE_OK;
}
static tide_status end(tidei_device *d, tidei_dgraph *g, bool keep, const tidei_graph_range *ranges,
                       unsigned n) {
    (void)ranges, (void)n;
    assert_true(capture.on);
    capture.on = false;
    if (!keep || !capture.n) return TIDE_OK;
    assert_true(nlists < (int)TIDEI_COUNT(lists));
    noted *list = lists[nlists++] = calloc((size_t)capture.n, sizeof *list);
    memcpy(list, capture.all, (size_t)capture.n * sizeof *list);
    list[0].count = capture.n;
    const tidei_launch l = {
        .name = "a library", .host_fn = make_all, .params = &list, .params_bytes = sizeof list};
    return emulated_inner->graph_add(d, g, &l, NULL, NULL);
}

/* ---- runtimes ---- */

static tidei_cublas_table table;
static tide_runtime *open_with(const char *limit) {
    tidei_cu_use(&driver);
    table = cublas_table;
    table.cublasSetWorkspace_v2 = c_workspace;
    table.cublasSetPointerMode_v2 = c_pointers;
    table.cublasGemmEx_64 = c_gemm;
    table.cublasLtMatmul = c_lt;
    table.cublasAxpyEx_64 = c_axpy;
    table.cublasDotEx_64 = c_dot;
    table.cublasNrm2Ex_64 = c_nrm2;
    table.cublasDgemv_v2_64 = c_dgemv;
    table.cublasDger_v2_64 = c_dger;
    table.cublasDtrsm_v2_64 = c_dtrsm;
    tidei_cublas_use(&table);
    tide_runtime *rt =
        emulated_open(&(tide_config){.collector = "refcount", .debug = 1, .limit = limit});
    if (!rt) return NULL;
    emulated_ops.graph_capture_begin = begin;
    emulated_ops.graph_capture_end = end;
    return rt;
}
static tide_runtime *fake_rt;
static void finish_stream(void) {
    tidei_stream *s = tidei_stream_here(test_rt(fake_rt));
    assert_ok(s->dev->d->ops->stream_sync(s->dev->d, s->ds));
}
/* Where kernels cannot be emulated there is nothing to see. */
static tide_runtime *opened(void **state) {
    if (!*state) skip();
    return *state;
}
static int setup(void **state) {
    memset(&cublas, 0, sizeof cublas);
    memset(&capture, 0, sizeof capture);
    *state = fake_rt = open_with(NULL);
    cublas.in_order = finish_stream;
    return 0;
}
static int teardown(void **state) {
    if (!*state) return tidei_cublas_use(NULL), tidei_cu_use(NULL), 0;
    assert_ok(tide_device_synchronize(*state));
    assert_int_equal(tidei_host_checker_reports(test_rt(*state)->devs[0].d), 0);
    assert_true(tidei_runtime_valid(test_rt(*state)));
    tide_close(*state);
    assert_int_equal(contexts.depth, 0);
    tidei_cublas_use(NULL);
    tidei_cu_use(NULL);
    while (nlists) free(lists[--nlists]);
    return 0;
}

/* ---- cases ---- */

static const program *named(const char *name) {
    for (size_t i = 0; i < TIDEI_COUNT(programs); i++)
        if (strcmp(programs[i].name, name) == 0) return &programs[i];
    fail_msg("no program %s", name);
    return NULL;
}

static void what_comes_out_is_the_same(void **state) {
    static const char *const with_libraries[] = {"layer", "linear",      "adam",
                                                 "blas",  "adam, given", "nothing"};
    const circumstance c = {.name = "libraries"};
    for (size_t i = 0; i < TIDEI_COUNT(with_libraries); i++)
        run_program(opened(state), named(with_libraries[i]), &c, 6);
    assert_true(capture.calls > 0);
}

/* Products that are made without a workspace, and one that the library refuses to make so. */
static void bare_products_are_tried_bare(void **state) {
    const circumstance c = {.name = "bare"};
    run_program(opened(state), named("layer"), &c, 4);
    for (int i = 0; i < nlists; i++) assert_true(lists[i]->bare);
    const int before = nlists;
    capture.refuse_bare = 4; /* two products, each by cuBLASLt and then by cuBLAS */
    run_program(opened(state), named("layer"), &c, 4);
    int without = 0;
    for (int i = before; i < nlists; i++) without += lists[i]->bare;
    assert_int_equal(nlists - before, 3);
    assert_int_equal(without, 1);
}

static int count_lt(int from) {
    int n = 0;
    for (int i = from; i < nlists; i++)
        for (int64_t k = 0; k < lists[i][0].count; k++) n += lists[i][k].which == LT;
    return n;
}

/* Products by cuBLASLt, with what follows them in the same call; without a kernel for them they are
** cuBLAS's, and what follows is a node of its own. Which it is is known before a node is made. */
static void what_follows_a_product_is_captured_with_it(void **state) {
    const circumstance c = {.name = "cuBLASLt"};
    run_program(opened(state), named("linear"), &c, 4);
    const int fused = nlists, asked = cublas.lt_asked;
    assert_int_equal(count_lt(0), 3);
    assert_true(cublas.lt_epilogues > 0);
    run_program(opened(state), named("linear"), &c, 4);
    assert_int_equal(cublas.lt_asked, asked); /* captures ask what calls have asked */
    assert_int_equal(count_lt(fused), 3);
}
static void without_a_kernel_what_follows_is_a_node(void **state) {
    const circumstance c = {.name = "no cuBLASLt"};
    for (int refuses = 0; refuses < 2; refuses++) {
        cublas.lt_has_none = !refuses;
        cublas.lt_refuses = refuses;
        run_program(opened(state), named("linear"), &c, 4);
    }
    assert_int_equal(count_lt(0), 0);
    assert_int_equal(cublas.lt_epilogues, 0);
}

/* The addresses of kept arrays are in the library's calls: where these move, or were spilled, the
** graph is built anew. */
static void moved_arrays_are_found(void **state) {
    tide_runtime *rt = opened(state);
    const program *p = named("layer");
    world w[2];
    for (int i = 0; i < 2; i++) begin_world(&w[i], rt, p);
    tide_graph *g = tide_graph_new(rt, p->fn, &w[1]);
    const circumstance c = {.name = "moved"};
    uint64_t builds = 0;
    for (int run = 0; run < 8; run++) {
        if (run == 4) { /* the storage gets another block, as after a move */
            tidei_operand o, other;
            tide_array *elsewhere = tide_copy(w[1].kept[0]);
            assert_ok(tidei_operand_get(w[1].kept[0], "test", 1, &o));
            assert_ok(tidei_operand_get(elsewhere, "test", 2, &other));
            assert_ok(tide_device_synchronize(rt));
            const tidei_addr here = o.st->addr;
            void *priv = o.st->priv;
            o.st->addr = other.st->addr, o.st->priv = other.st->priv;
            other.st->addr = here, other.st->priv = priv;
            builds = figures_of(g).builds;
            tidei_operand_put(&other);
            tidei_operand_put(&o);
            tide_free(elsewhere);
            tide_release(elsewhere);
        }
        one_run(p, &c, &w[0], &w[1], g, run);
    }
    const tide_graph_figures f = figures_of(g);
    assert_int_equal(f.calls, 2);
    assert_int_equal(f.builds, builds + 1);
    tide_graph_release(g);
    for (int i = 0; i < 2; i++) end_world(&w[i]);
}

/* A library that fails while the graph is built: the run fails, and says what was asked for. */
static void a_librarys_failure_is_the_runs(void **state) {
    tide_runtime *rt = opened(state);
    const program *p = named("layer");
    world w;
    tide_arg arg[1];
    tide_array *outs[OUTS];
    begin_world(&w, rt, p);
    tide_graph *g = tide_graph_new(rt, p->fn, &w);
    assert_ok(tide_scope_begin(rt));
    for (int run = 0; run < 4; run++) {
        assert_int_equal(p->args(&w, arg), 1);
        capture.calls = 0;
        capture.fail_at = run == 1 ? 2 : 0;
        tide_status s = tide_graph_run(g, arg, 1, outs, p->m);
        if (run == 1) {
            assert_int_equal(s, TIDE_E_DEVICE);
            assert_error(TIDE_E_DEVICE, "cuBLAS");
            assert_error(TIDE_E_DEVICE, "a product of");
            assert_false(capture.on);
        } else
            assert_ok(s);
    }
    assert_int_equal(figures_of(g).builds, 1);
    assert_ok(tide_scope_end(rt));
    tide_graph_release(g);
    end_world(&w);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(what_comes_out_is_the_same),
        CASE(bare_products_are_tried_bare),
        CASE(what_follows_a_product_is_captured_with_it),
        CASE(without_a_kernel_what_follows_is_a_node),
        CASE(moved_arrays_are_found),
        CASE(a_librarys_failure_is_the_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
