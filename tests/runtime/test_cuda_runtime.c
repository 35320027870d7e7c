/* test_cuda_runtime.c: a whole runtime on the `cuda` device, over a double of the driver that runs
** kernels emulated: what an expression asks of the device, that its numbers are the host's, and
** what stays when memory is short, the driver refuses or the device is lost. The texts' own cases
** are test_cuda_maps.c's and test_cuda_folds.c's. */
#include "arrays/expr/front.h"
#include "tests/doubles/cublas_double.h"
#include "tests/doubles/cuda_double.h"
#include "tests/doubles/hooked_host.h"
#include <math.h>

static tide_runtime *open_cuda(const tide_config *given) {
    tide_config c = given ? *given : (tide_config){0};
    tide_runtime *rt = NULL;
    c.struct_size = sizeof c;
    c.device = "cuda";
    c.collector = "refcount";
    assert_ok(tide_open(&c, &rt));
    return rt;
}
static void close_cuda(tide_runtime *rt) {
    tide_close(rt);
    assert_nothing_left();
}
/* Kernels are emulated, where that can be. */
static bool emulate(void) { return fake.runs_texts = emu_compiler() != NULL; }

static void assert_values(tide_array *a, const float *want, size_t n) {
    float *got = malloc(n * sizeof *got);
    assert_ok(tide_to_host(a, got, n * sizeof *got));
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
    free(got);
}

/* n small integers, exact in every sum below. */
static tide_array *counting(tide_runtime *rt, int ndim, const int64_t *shape, float *values) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    for (int64_t i = 0; i < n; i++) values[i] = (float)(i * 7 % 11) - 5;
    tide_array *a = tide_from_host(rt, TIDE_F32, ndim, shape, values);
    assert_array(a);
    return a;
}

/* ---- expressions ---- */

static void maps_run_as_kernels(void **state) {
    enum { R = 40, C = 24 };
    static float x[R * C], y[R], want[R * C];
    (void)state;
    bool runs = emulate();
    tide_runtime *rt = open_cuda(NULL);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = counting(rt, SHAPE(R, C), x), *b = counting(rt, SHAPE(R, 1), y);
    int launches = fake.launches, loads = fake.loads;
    tide_array *flat = tide_map(rt, "(a, s) -> a * s + 1", a, 2.0);
    assert_array(flat);
    assert_int_equal(fake.launches, launches + 1);
    for (int i = 0; i < R * C; i++) want[i] = x[i] * 2 + 1;
    if (runs) assert_values(flat, want, R * C);
    flat = tide_map(rt, "(a, s) -> a * s + 1", flat, 3.0);
    assert_array(flat);
    assert_int_equal(fake.loads, loads + 1); /* the same kernel */
    for (int i = 0; i < R * C; i++) want[i] = want[i] * 3 + 1;
    if (runs) assert_values(flat, want, R * C);
    /* Inputs that lie otherwise than the results: repeated, turned round, backwards. */
    tide_array *rows = tide_map(rt, "(a, b) -> a * b", a, b);
    for (int i = 0; i < R * C; i++) want[i] = x[i] * y[i / C];
    if (runs) assert_values(rows, want, R * C);
    tide_array *turned = tide_contiguous(
        tide_map(rt, "(a, b) -> a + b", tide_transpose(a, NULL), tide_reshape(flat, SHAPE(C, R))));
    assert_array(turned);
    for (int i = 0; i < R * C; i++) want[i] = x[i % R * C + i / R] + ((x[i] * 2 + 1) * 3 + 1);
    if (runs) assert_values(turned, want, R * C);
    tide_array *back = tide_map(rt, "(a) -> a * 0.5", tide_slice(a, "::-1, ::-2"));
    for (int i = 0; i < R * C / 2; i++)
        want[i] = x[(R - 1 - i / (C / 2)) * C + C - 1 - 2 * (i % (C / 2))] / 2;
    if (runs) assert_values(back, want, R * C / 2);
    tide_array *linear = tide_arange(rt, TIDE_F32, 3, 103, 1);
    for (int i = 0; i < 100; i++) want[i] = (float)(3 + i);
    if (runs) assert_values(linear, want, 100);
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

static void folds_run_as_kernels(void **state) {
    enum { R = 500, C = 2000 };
    static float x[R * C], want[C];
    float whole = 0;
    (void)state;
    bool runs = emulate();
    tide_runtime *rt = open_cuda(NULL);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = counting(rt, SHAPE(R, C), x);
    int launches = fake.launches;
    tide_array *rows = tide_sum(a, (int[]){1}, 1, 0);
    assert_array(rows);
    for (int i = 0; i < R * C; i++) want[i / C] += x[i], whole += x[i];
    if (runs) assert_values(rows, want, R);
    memset(want, 0, sizeof want);
    for (int i = 0; i < R * C; i++) want[i % C] += x[i];
    tide_array *columns = tide_sum(a, (int[]){0}, 1, 0);
    if (runs) assert_values(columns, want, C);
    launches = fake.launches;
    size_t live = test_stats(rt).live;
    tide_array *all = tide_sum(a, NULL, 0, 0);
    assert_array(all);
    /* blocks that share the result, and what joins them */
    assert_int_equal(fake.launches, launches + 2);
    if (runs) assert_values(all, &whole, 1);
    /* what lay between them is free again */
    assert_int_equal(test_stats(rt).live, live + sizeof(float));
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

/* ---- calls that lie as an earlier one ---- */

/* Whether the plan that was made last of the named operation has shortcuts; of one plan. */
static bool has_shortcuts(tide_runtime *rt) {
    tidei_expr *e = tidei_expr_named_op(test_rt(rt), TIDEI_OP_ADD, "tide_add");
    tidei_plan *p = e ? atomic_load(&e->plans) : NULL;
    return p && atomic_load(&p->shortcuts);
}

/* a + b as one launch, each element of which is checked where kernels run. */
static void assert_sum(tide_array *a, tide_array *b, const float *x, const float *y, size_t n) {
    static float want[4096];
    int launches = fake.launches;
    tide_array *sum = tide_add(a, b);
    assert_array(sum);
    assert_int_equal(fake.launches, launches + 1);
    for (size_t i = 0; i < n; i++) want[i] = x[i] + y[i];
    if (fake.runs_texts) assert_values(sum, want, n);
    tide_release(sum);
}

static void calls_that_lie_alike_use_their_own_operands(void **state) {
    enum { R = 40, C = 24 };
    static float x[R * C], y[R * C];
    (void)state;
    emulate();
    tide_runtime *rt = open_cuda(NULL);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = counting(rt, SHAPE(R, C), x);
    for (int i = 0; i < R * C; i++) y[i] = (float)(i % 17);
    tide_array *b = tide_from_host(rt, TIDE_F32, SHAPE(R, C), y);
    assert_false(has_shortcuts(rt));
    assert_sum(a, b, x, y, R * C);
    assert_true(has_shortcuts(rt));
    /* the same form of call: the other way round, of one array, of what such a call made */
    assert_sum(b, a, y, x, R * C);
    assert_sum(a, a, x, x, R * C);
    assert_sum(a, b, x, y, R * C);
    /* other places of the same shape */
    for (int from = 0; from < 4; from++)
        for (int again = 0; again < 2; again++) {
            char rows[32];
            snprintf(rows, sizeof rows, "%d:%d", from, from + 20);
            assert_sum(tide_slice(a, rows), tide_slice(b, "3:23"), x + from * C, y + 3 * C, 20 * C);
        }
    /* more layouts than are kept */
    for (int n = 1; n < 20; n++)
        for (int again = 0; again < 2; again++) {
            char rows[32];
            snprintf(rows, sizeof rows, ":%d", n);
            assert_sum(tide_slice(a, rows), tide_slice(b, rows), x, y, (size_t)n * C);
        }
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

static _Atomic uint64_t host_allocations;
static void *counting_alloc(void *user, size_t bytes) {
    (void)user;
    atomic_fetch_add(&host_allocations, 1);
    return malloc(bytes);
}
static void counting_free(void *user, void *p) {
    (void)user;
    free(p);
}

/* Warm calls allocate no more on the host than as many empty arrays as they make storages, also
** those of which no shortcut can be made: of several launches, of several passes. (Nothing, where
** records are kept for the next ones: not under AddressSanitizer, nor by the pool `none`.) */
static void warm_calls_allocate_only_their_storages(void **state) {
    static const struct {
        const char *text;
        unsigned storages; /* results, and what lies between */
    } forms[] = {{"(x) -> x * x + 1", 1},
                 {"(x) -> sum(x)", 2},
                 {"(x) -> x - mean(x)", 3},
                 {"(x) -> cumsum(x) + 1", 3}};
    const tide_allocator host = {counting_alloc, counting_free, NULL};
    (void)state;
    tide_runtime *rt = open_cuda(&(tide_config){.allocator = &host});
    tide_array *x = tide_empty(rt, TIDE_F32, SHAPE(1 << 20));
    for (size_t i = 0; i < TIDEI_COUNT(forms); i++) {
        uint64_t made = 0, applied = 0;
        for (int k = 0; k < 60; k++) { /* the second half counts */
            uint64_t t0 = atomic_load(&host_allocations);
            tide_array *a = tide_empty(rt, TIDE_F32, SHAPE(8));
            uint64_t t1 = atomic_load(&host_allocations);
            tide_array *b = tide_map(rt, forms[i].text, x);
            uint64_t t2 = atomic_load(&host_allocations);
            assert_array(b);
            tide_free(a), tide_free(b);
            if (k >= 30) made += t1 - t0, applied += t2 - t1;
        }
        if (applied > made * forms[i].storages)
            fail_msg("%s: %d allocations, %d of an empty array", forms[i].text, (int)applied,
                     (int)made);
    }
    tide_free(x);
    close_cuda(rt);
}

/* A kernel of folds; numbers and destinations, which are each call's own. */
static void what_differs_between_calls_is_looked_at(void **state) {
    enum { R = 12, C = 32 };
    static float x[R * C], y[R * C], want[R * C];
    (void)state;
    bool runs = emulate();
    tide_runtime *rt = open_cuda(NULL);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = counting(rt, SHAPE(R, C), x);
    for (int i = 0; i < R * C; i++) y[i] = (float)(i % 19);
    tide_array *b = tide_from_host(rt, TIDE_F32, SHAPE(R, C), y);
    for (int k = 0; k < 4; k++) {
        const float *v = k & 1 ? y : x;
        tide_array *rows = tide_map(rt, "(x) -> x - max(x, axis=1, keepdims=true)", k & 1 ? b : a);
        assert_array(rows);
        for (int i = 0; i < R * C; i++) {
            float most = v[i / C * C];
            for (int j = 0; j < C; j++) most = fmaxf(most, v[i / C * C + j]);
            want[i] = v[i] - most;
        }
        if (runs) assert_values(rows, want, R * C);
        tide_array *scaled = tide_map(rt, "(x, s) -> x * s", k & 1 ? b : a, k + 1.0);
        for (int i = 0; i < R * C; i++) want[i] = v[i] * (float)(k + 1);
        if (runs) assert_values(scaled, want, R * C);
        assert_ok(tide_map_into(scaled, "(x) -> x + 1", k & 1 ? b : a));
        for (int i = 0; i < R * C; i++) want[i] = v[i] + 1;
        if (runs) assert_values(scaled, want, R * C);
        tide_array *two[2];
        assert_ok(tide_map_many(rt, two, 2, "(x) -> (x + 1, x * 2)", k & 1 ? b : a));
        if (runs) assert_values(two[0], want, R * C);
        for (int i = 0; i < R * C; i++) want[i] = v[i] * 2;
        if (runs) assert_values(two[1], want, R * C);
        tide_array *sums = tide_sum(k & 1 ? b : a, (int[]){k / 2}, 1, 0);
        memset(want, 0, sizeof want);
        for (int i = 0; i < R * C; i++) want[k / 2 ? i / C : i % C] += v[i];
        if (runs) assert_values(sums, want, k / 2 ? R : C);
    }
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

/* Offsets that do not fit 32 bits: in halves, each where it belongs. Nothing is touched, so nothing
** is taken. */
static void far_offsets_are_cut_in_halves(void **state) {
    const int64_t n = ((int64_t)1 << 31) + 1000;
    int64_t base[2];
    (void)state;
    fake.total = (size_t)64 << 30;
    tide_runtime *rt = open_cuda(NULL);
    tide_array *one = tide_full(rt, TIDE_U8, SHAPE(1), tide_arg_int(3)),
               *a = tide_empty(rt, TIDE_U8, SHAPE(2, n));
    tide_array *stretched = tide_broadcast_to(one, SHAPE(2, n)), *half = tide_slice(a, ":, ::2");
    assert_array(half);
    int launches = fake.launches;
    assert_ok(
        /* contiguous where it is written, not where it is read */
        tide_map_into(a, "(x) -> x + 1", stretched));
    assert_int_equal(fake.launches, launches + 4); /* 2^32 and more elements: twice in halves */
    launches = fake.launches;
    assert_ok(tide_map_into(half, "(x) -> x + 1", tide_broadcast_to(one, SHAPE(2, n / 2))));
    assert_int_equal(fake.launches, launches + 4);
    memcpy(base, fake.params, sizeof base);
    assert_true((uint64_t)base[1] > (uint64_t)1 << 31); /* the last quarter's address */
    tide_free(half), tide_free(stretched), tide_free(a), tide_free(one);
    close_cuda(rt);
}

/* ---- large copies ---- */

/* From and to memory that the driver does not know they pass through pinned memory, in pieces. */
static void large_copies_pass_through_pinned_memory(void **state) {
    const size_t n = (size_t)9 << 20;
    unsigned char *sent = malloc(n), *got = calloc(n, 1);
    tide_device_figures f = {.struct_size = sizeof f};
    (void)state;
    for (size_t i = 0; i < n; i++) sent[i] = (unsigned char)(i * 7 + i / 1000);
    tide_runtime *rt = open_cuda(&(tide_config){.pool = "tide"});
    for (int pinned = 0; pinned < 2; pinned++) {
        int copies = fake.copies;
        fake.pinned_source = pinned; /* by the program itself */
        tide_array *a = tide_from_host(rt, TIDE_U8, SHAPE((int64_t)n), sent);
        assert_array(a);
        memset(got, 0, n);
        assert_ok(tide_to_host(a, got, n));
        assert_memory_equal(got, sent, n);
        assert_int_equal(fake.copies - copies, pinned ? 0 : 10);
        tide_release(a);
    }
    assert_ok(tide_device_info(rt, &f));
    assert_int_equal(f.pinned.live, 0);
    assert_true(f.pinned.backed >= n);
    fake.pinned_source = false;
    free(sent);
    free(got);
    close_cuda(rt);
}

/* ---- products ---- */

static int with_cublas(void **state) {
    memset(&cublas, 0, sizeof cublas);
    tidei_cublas_use(&cublas_table);
    return setup(state);
}
static int without_cublas(void **state) {
    tidei_cublas_use(NULL);
    assert_int_equal(cublas.made, 0);
    return teardown(state);
}

static void products_run_on_the_device(void **state) {
    enum { M = 5, K = 7, N = 3 };
    static float x[2 * M * K], y[2 * K * N], z[M * N], want[2 * M * N];
    (void)state;
    bool runs = emulate();
    tide_runtime *rt = open_cuda(NULL);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = counting(rt, SHAPE(M, K), x), *b = counting(rt, SHAPE(K, N), y);
    tide_array *c = tide_matmul(a, b);
    assert_array(c);
    for (int i = 0; i < M * N; i++)
        for (int k = 0; k < K; k++) want[i] += x[i / N * K + k] * y[k * N + i % N];
    assert_values(c, want, M * N);
    assert_int_equal(cublas.calls, 1);
    /* A matrix times a vector, from either side: sums, which cuBLAS is not asked for. */
    tide_array *column =
        tide_matmul(a, tide_reshape(tide_slice(tide_transpose(b, NULL), "1"), SHAPE(K, 1)));
    for (int i = 0; i < M; i++) z[i] = want[i * N + 1];
    if (runs) assert_values(column, z, M);
    tide_array *row = tide_matmul(tide_slice(a, "2:3"), b);
    if (runs) assert_values(row, want + 2 * N, N);
    tide_array *batch =
        tide_matmul(counting(rt, SHAPE(2, M, K), x), counting(rt, SHAPE(2, K, 1), y));
    for (int i = 0; i < 2 * M; i++) {
        want[i] = 0;
        for (int k = 0; k < K; k++) want[i] += x[i * K + k] * y[i / M * K + k];
    }
    if (runs) assert_values(batch, want, 2 * M);
    assert_true(tide_array_ndim(batch) == 3 && tide_array_size(batch) == 2 * M);
    assert_int_equal(cublas.calls, 1);
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

static void blas_runs_on_the_device(void **state) {
    enum { M = 6, N = 4 };
    static float x[M * N], u[M], v[N], want[M * N], long_one[2 * 9000];
    (void)state;
    tide_runtime *rt = open_cuda(NULL);
    assert_ok(tide_scope_begin(rt));
    tide_array *a = counting(rt, SHAPE(M, N), x), *p = counting(rt, SHAPE(M), u),
               *q = counting(rt, SHAPE(N), v);
    for (int i = 0; i < M * N; i++) want[i] = x[i] + 2 * u[i / N] * v[i % N];
    assert_ok(tide_ger(a, tide_arg_int(2), p, q));
    assert_values(a, want, M * N);
    for (int i = 0; i < M; i++) {
        u[i] *= -1;
        for (int k = 0; k < N; k++) u[i] += want[i * N + k] * v[k];
    }
    assert_ok(tide_gemv(p, tide_arg_int(1), a, q, tide_arg_int(-1)));
    assert_values(p, u, M);
    /* Few long vectors one by one, many short ones as products. */
    tide_array *l = counting(rt, SHAPE(2, 9000), long_one),
               *s = counting(rt, SHAPE(2, 9), long_one);
    float dots[2] = {0};
    for (int i = 0; i < 18; i++) dots[i / 9] += long_one[i] * long_one[i];
    assert_values(tide_dot(s, s), dots, 2);
    int calls = cublas.calls;
    counting(rt, SHAPE(2, 9000), long_one);
    dots[0] = dots[1] = 0;
    for (int i = 0; i < 18000; i++) dots[i / 9000] += long_one[i] * long_one[i];
    assert_values(tide_dot(l, l), dots, 2);
    assert_int_equal(cublas.calls, calls + 2);
    const float wide[] = {3, 4};
    const float five = 5;
    assert_values(tide_nrm2(tide_from_host(rt, TIDE_F32, SHAPE(2), wide)), &five, 1);
    assert_ok(tide_scope_end(rt));
    close_cuda(rt);
}

/* ---- what fails ---- */

static struct {
    tide_runtime *rt;
    tide_array *a;
    float whole;
} work;

/* A map, a sum in two launches and its value; what was made is freed. */
static tide_status works(void) {
    float got = 0;
    tide_array *b = tide_map(work.rt, "(a) -> a + 1", work.a),
               *sum = b ? tide_sum(b, NULL, 0, 0) : NULL;
    tide_status s = sum ? tide_to_host(sum, &got, sizeof got) : tide_error_last()->status;
    if (s == TIDE_OK && fake.runs_texts) assert_true(got == work.whole);
    tide_error_clear();
    tide_free(b), tide_free(sum);
    return s;
}
static void open_work(tide_config c) {
    enum { N = 20000 };
    static float x[N];
    work.rt = open_cuda(&c);
    work.a = counting(work.rt, SHAPE(N), x);
    work.whole = N;
    for (int i = 0; i < N; i++) work.whole += x[i];
}
static void close_work(void) {
    tide_free(work.a);
    close_cuda(work.rt);
}

static void each_call_may_fail(void **state) {
    static const tidei_cu_result ways[] = {TIDEI_CU_OUT_OF_MEMORY, TIDEI_CU_INVALID_VALUE};
    static const char *const pools[] = {"tide", "none", "driver"};
    (void)state;
    for (size_t i = 0; i < 2 * TIDEI_COUNT(ways) * TIDEI_COUNT(pools); i++) {
        bool failed = true;
        for (int n = 1; failed; n++) {
            open_work((tide_config){.pool = pools[i / TIDEI_COUNT(ways) % TIDEI_COUNT(pools)]});
            /* what an earlier call has found out, later ones do not ask for */
            if (i >= TIDEI_COUNT(ways) * TIDEI_COUNT(pools)) assert_ok(works());
            size_t live = test_stats(work.rt).live;
            fail_nth(n, ways[i % TIDEI_COUNT(ways)], true);
            tide_status s = works();
            failed = fake.failed != NULL;
            fail_at(NULL, 0, 0);
            if (s != TIDE_OK && s != TIDE_E_NOMEM && s != TIDE_E_DEVICE && s != TIDE_E_HOST_NOMEM)
                fail_msg("call %d: %s", n, tide_status_name(s));
            assert_ok(tide_device_synchronize(work.rt));
            assert_int_equal(test_stats(work.rt).live, live);
            assert_true(tidei_runtime_valid(test_rt(work.rt)));
            assert_ok(works());
            close_work();
            assert_true(n < 500);
        }
    }
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        atomic_store(&hook.fail_at, 0);
        open_work((tide_config){.allocator = &hooked});
        size_t live = test_stats(work.rt).live;
        uint64_t at = atomic_load(&hook.calls) + n;
        atomic_store(&hook.fail_at, at);
        tide_status s = works();
        failed = atomic_load(&hook.calls) >= at;
        atomic_store(&hook.fail_at, 0);
        assert_true(s == TIDE_OK || s == TIDE_E_HOST_NOMEM);
        assert_int_equal(test_stats(work.rt).live, live);
        assert_ok(works());
        close_work();
        assert_int_equal(atomic_load(&hook.held), 0);
        assert_true(n < 500);
    }
}

/* Where a text does not compile, what the compiler says is told, and nothing is left of it. */
static void a_kernel_that_does_not_compile_is_told(void **state) {
    nvrtc_double *rtc = dlsym(dlopen(NVRTC_DOUBLE, RTLD_NOW | RTLD_LOCAL), "tidetest_nvrtc");
    (void)state;
    open_work((tide_config){0});
    rtc->failing = "nvrtcCompileProgram";
    rtc->error = TIDEI_NVRTC_COMPILATION;
    assert_null(tide_map(work.rt, "(a) -> a + 1", work.a));
    assert_error(TIDE_E_DEVICE, "NVRTC 13.0 did not compile tide_k (-arch=sm_90), error 6");
    rtc->failing = NULL;
    assert_ok(works());
    close_work();
}

/* Who has a native stream may queue there what ours must not pass. */
static void kernels_of_a_lent_stream_start_behind_all(void **state) {
    (void)state;
    open_work((tide_config){.pool = "tide"});
    int early = fake.early_launches, all = fake.launches;
    assert_ok(works());
    assert_true(fake.launches > all);
    assert_int_equal(fake.early_launches - early, fake.launches - all);
    assert_non_null(tide_stream_native(tide_stream_current(work.rt)));
    early = fake.early_launches, all = fake.launches;
    assert_ok(works());
    assert_ok(works());
    assert_true(fake.launches > all);
    assert_int_equal(fake.early_launches, early);
    close_work();
}

static void a_lost_device_ends_the_runtimes_work(void **state) {
    (void)state;
    open_work((tide_config){.pool = "tide"});
    assert_ok(works());
    fail_at("cuLaunchKernelEx", 0, TIDEI_CU_ILLEGAL_ADDRESS);
    assert_null(tide_map(work.rt, "(a) -> a + 1", work.a));
    assert_error(TIDE_E_LOST,
                 "CUDA_ERROR_ILLEGAL_ADDRESS (700: said in words) at launching flat map");
    fail_at(NULL, 0, 0);
    assert_int_equal(works(), TIDE_E_LOST);
    assert_int_equal(tide_device_synchronize(work.rt), TIDE_E_LOST);
    tide_free(work.a);
    tide_close(work.rt);
    assert_true(fake.maps == 1 && fake.nowned == 1); /* unmapping is not tried: it would fail */
    fake.maps = fake.nowned = 0;
    assert_nothing_left();
}

/* ---- streams of the program's ---- */

static void a_captured_stream_is_refused(void **state) {
    tide_stream *s;
    (void)state;
    open_work((tide_config){0});
    assert_ok(tide_stream_wrap(work.rt, &stream_storage[40], &s));
    assert_ok(tide_stream_set(work.rt, s));
    assert_ok(works());
    fake.capturing = 1;
    assert_null(tide_map(work.rt, "(a) -> a + 1", work.a));
    assert_error(TIDE_E_UNSUPPORTED, "being captured into a graph");
    fake.capturing = 0;
    assert_ok(works());
    assert_ok(tide_stream_set(work.rt, NULL));
    tide_stream_release(s);
    close_work();
}

/* ---- PyTorch's form ---- */

static bool no_calloc;
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes) { return no_calloc ? NULL : __real_calloc(n, bytes); }

static void pytorch_gets_memory_of_its_devices(void **state) {
    (void)state;
    fake.devices = 2;
    no_calloc = true;
    assert_null(tide_torch_malloc(1000, 0, NULL));
    assert_error(TIDE_E_HOST_NOMEM, "host memory");
    no_calloc = false;
    fail_at("cuDevicePrimaryCtxRetain", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_null(tide_torch_malloc(1000, 0, NULL));
    assert_error(TIDE_E_NOMEM, "cuDevicePrimaryCtxRetain");
    fail_at(NULL, 0, 0);
    void *a = tide_torch_malloc(1000, 0, NULL),
         *b = tide_torch_malloc(1000, 0, &stream_storage[40]);
    assert_true(a && b && a != b);
    fail_at("cuStreamGetCtx", 0, TIDEI_CU_INVALID_VALUE); /* a stream is wrapped once */
    void *c = tide_torch_malloc(1000, 0, &stream_storage[40]);
    assert_non_null(c);
    fail_at(NULL, 0, 0);
    void *other = tide_torch_malloc(1000, 1, NULL); /* the second GPU's */
    assert_non_null(other);
    assert_int_equal(fake.contexts, 2);
    fake.foreign_stream = &stream_storage[41];
    assert_null(tide_torch_malloc(1000, 0, &stream_storage[41]));
    assert_error(TIDE_E_INVALID, "another device or context");
    tide_torch_free(a, 1000, 0, NULL);
    tide_torch_free(b, 1000, 0, &stream_storage[40]);
    tide_torch_free(c, 1000, 0, &stream_storage[40]);
    tide_torch_free(other, 1000, 1, NULL);
    tide_torch_close();
    assert_nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(maps_run_as_kernels),
        CASE(folds_run_as_kernels),
        CASE(calls_that_lie_alike_use_their_own_operands),
        CASE(warm_calls_allocate_only_their_storages),
        CASE(what_differs_between_calls_is_looked_at),
        CASE(far_offsets_are_cut_in_halves),
        CASE(large_copies_pass_through_pinned_memory),
        cmocka_unit_test_setup_teardown(products_run_on_the_device, with_cublas, without_cublas),
        cmocka_unit_test_setup_teardown(blas_runs_on_the_device, with_cublas, without_cublas),
        CASE(each_call_may_fail),
        CASE(each_allocation_may_fail),
        CASE(a_kernel_that_does_not_compile_is_told),
        CASE(kernels_of_a_lent_stream_start_behind_all),
        CASE(a_lost_device_ends_the_runtimes_work),
        CASE(a_captured_stream_is_refused),
        CASE(pytorch_gets_memory_of_its_devices),
    };
    return cmocka_run_group_tests_name("cuda_runtime", tests, NULL, NULL);
}
