/* test_cancel.c: no function of the library is a point at which a cancelled thread ends, or leaves
** its cancel state changed.
**
** A thread that somebody has cancelled while it could not be ends in the next cancellation point
** that it comes to. Such a thread calls every public function (tests/exports.txt says which there
** are), with callbacks that are cancellation points themselves, and comes back from all; then it
** ends where the program says. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "runtime/base/uncancelled.h"
#include "tests/support/clean_environment.h"

/* ThreadSanitizer's own interceptors are not made for threads that are cancelled. */
#if defined(__SANITIZE_THREAD__)
#define CANCELS 0
#else
#define CANCELS 1
#endif

/* ---- what the cancelled thread does ---- */

static struct {
    const char *volatile now; /* the function it is in */
    bool done;
    int state; /* its cancel state, outside */
    char wrong[160];
    const char *called[1024];
    size_t n;
} seen;

static void begin(const char *name) {
    seen.now = name;
    for (size_t i = 0; i < seen.n; i++)
        if (!strcmp(seen.called[i], name)) return;
    seen.called[seen.n++] = name;
}

static void end(const char *name) {
    int state, type;
    pthread_setcancelstate(seen.state, &state);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    if ((state != seen.state || type != PTHREAD_CANCEL_DEFERRED) && !*seen.wrong)
        snprintf(seen.wrong, sizeof seen.wrong, "%s left the cancel state changed", name);
    seen.now = "nothing";
}

#define CALL(f, ...)                                                                               \
    ({                                                                                             \
        begin(#f);                                                                                 \
        __typeof__(f(__VA_ARGS__)) call_gave = f(__VA_ARGS__);                                     \
        end(#f);                                                                                   \
        call_gave;                                                                                 \
    })
#define DO(f, ...) (begin(#f), f(__VA_ARGS__), end(#f))
#define DROP(a)    DO(tide_release, a)
/* A result that nobody wants, array or status. */
#define MAKE(f, ...) DROP(CALL(f, __VA_ARGS__))
#define OK(f, ...)                                                                                 \
    do {                                                                                           \
        if (CALL(f, __VA_ARGS__) != TIDE_OK && !*seen.wrong)                                       \
            snprintf(seen.wrong, sizeof seen.wrong, "%s: %.100s", #f, tide_error_last()->message); \
    } while (0)
#define TRY(f, ...) ((void)CALL(f, __VA_ARGS__))

/* ---- callbacks, each of which would be the end ---- */

static int nowhere = -1;
static void would_end(void) {
    pthread_testcancel();
    (void)!write(nowhere, "x", 1);
}
static void log_line(void *user, int level, const char *line) {
    (void)user, (void)level, (void)line;
    would_end();
}
static void *host_alloc(void *user, size_t bytes) {
    (void)user;
    would_end();
    return malloc(bytes);
}
static void host_free(void *user, void *p) {
    (void)user;
    would_end();
    free(p);
}
static void on_death(void *user) {
    (void)user;
    would_end();
}
static int collect(void *self, int level) {
    (void)self, (void)level;
    would_end();
    return TIDE_COLLECT_DONE;
}
static int may_collect(void *self) {
    (void)self;
    would_end();
    return 1;
}
static void pressure(void *self, int64_t delta) {
    (void)self, (void)delta;
    would_end();
}
static void blocking(void *self, void (*fn)(void *arg), void *arg) {
    (void)self;
    would_end();
    fn(arg);
    would_end();
}
static void detach(void *self) {
    (void)self;
    would_end();
}
static tide_status give(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted;
    *given = 0;
    would_end();
    return TIDE_E_IO; /* which the log tells */
}
static size_t bytes_held(void *user, int device) {
    (void)user, (void)device;
    would_end();
    return 4096;
}
static tide_status fill_samples(void *user, int64_t first, const int64_t *samples, int64_t n,
                                void *const *out) {
    (void)user, (void)first, (void)samples;
    would_end();
    memset(out[0], 0, (size_t)n * sizeof(double));
    return TIDE_OK;
}
static tide_status moved(void *user, void *copy, const void *from, unsigned how) {
    (void)user, (void)copy, (void)from, (void)how;
    would_end();
    return TIDE_OK;
}
static void host_work(void *arg) { *(int *)arg = 1; } /* on the library's own thread */

static void decide(void *user, void *state, const tide_policy_snapshot *now,
                   tide_policy_decision *out) {
    (void)user, (void)state;
    would_end();
    out->level = now->used + now->request > now->limit / 2 ? now->level : 0;
    out->reason = "half of the limit";
}
static void observe(void *user, void *state, const tide_policy_snapshot *before,
                    const tide_policy_snapshot *after, const tide_policy_collection *c) {
    (void)user, (void)state, (void)before, (void)after, (void)c;
    would_end();
}

static const tide_policy half = {
    .struct_size = sizeof half, .name = "half", .decide = decide, .observe = observe};

/* ---- the headers, one after the other ---- */

static char folder[64];
static char *in_folder(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void texts(tide_runtime *rt) {
    const tide_policy always = {
        .struct_size = sizeof always, .name = "always", .decide = decide, .observe = observe};
    char text[4096];
    tide_pool *pool = CALL(tide_pool_default, rt);
    TRY(tide_version);
    TRY(tide_status_name, TIDE_E_IO);
    TRY(tide_dtype_name, TIDE_F32);
    TRY(tide_dtype_size, TIDE_F32);
    TRY(tide_policy_register, &half); /* once more */
    TRY(tide_error_last);
    DO(tide_error_clear);
    TRY(tide_device_text, rt, text, sizeof text);
    TRY(tide_runtime_text, rt, text, sizeof text);
    TRY(tide_pool_text, pool, text, sizeof text);
    TRY(tide_collector_is_device_library, "libcublas.so.12");
    TRY(tide_arg_bool, 1);
    TRY(tide_arg_uint, 1);
    TRY(tide_arg_complex, 1, 2);
}

static void operations(tide_array *x) {
#define ARRAYS_1                          x
#define ARRAYS_2                          x, x
#define ARRAYS_3                          x, x, x
#define TIDEI_OP(ident, name, arity, ...) MAKE(tide_##name, ARRAYS_##arity);
#include "arrays/expr/ops.def"
#undef TIDEI_OP
    MAKE(tide_sum, x, NULL, 0, 0);
    MAKE(tide_prod, x, NULL, 0, 0);
    MAKE(tide_min, x, NULL, 0, 0);
    MAKE(tide_max, x, NULL, 0, 0);
    MAKE(tide_mean, x, NULL, 0, 0);
    MAKE(tide_any, x, NULL, 0, 0);
    MAKE(tide_all, x, NULL, 0, 0);
    MAKE(tide_argmin, x, NULL, 0, 0);
    MAKE(tide_argmax, x, NULL, 0, 0);
    MAKE(tide_var, x, NULL, 0, 0, 0);
    MAKE(tide_std, x, NULL, 0, 0, 0);
    MAKE(tide_matmul, x, x);
}

/* tide/shape.h, of a matrix of 3 rows and columns. */
static void shapes(tide_runtime *rt, tide_array *x) {
    const int64_t one[2] = {1, 1};
    const int axes[2] = {0, 1};
    tide_array *outs[3] = {NULL}, *list[2] = {x, x}, *row = CALL(tide_slice, x, "0");
    tide_array *rows[2] = {row, row};
    MAKE(tide_flip, x, NULL, 0);
    MAKE(tide_moveaxis, x, axes, axes, 2);
    MAKE(tide_diagonal, x, 0, 0, 1);
    MAKE(tide_windows, x, NULL, one, NULL, 2);
    MAKE(tide_reshape_with, x, 2, (int64_t[2]){9, 1}, TIDE_COPY_ALWAYS);
    OK(tide_unstack, x, 0, outs, 3);
    for (int i = 0; i < 3; i++) DROP(outs[i]);
    OK(tide_split, x, NULL, 0, 0, outs, 2);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    OK(tide_broadcast_arrays, list, 2, outs);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    OK(tide_meshgrid, rows, 2, TIDE_GRID_XY, outs);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    MAKE(tide_roll, x, one, axes, 2);
    MAKE(tide_pad, x, one, one, TIDE_PAD_WRAP, tide_arg_int(0));
    MAKE(tide_stack, list, 2, 0);
    MAKE(tide_tile, x, one, 2);
    MAKE(tide_tril, x, 0);
    MAKE(tide_triu, x, 0);
    MAKE(tide_eye, rt, TIDE_F32, 3, 3, 0);
    MAKE(tide_empty_like, x);
    MAKE(tide_zeros_like, x);
    MAKE(tide_ones_like, x);
    MAKE(tide_full_like, x, tide_arg_int(2));
    MAKE(tide_linspace, rt, TIDE_F64, 0, 1, 5, 1);
    MAKE(tide_logspace, rt, TIDE_F64, 0, 1, 5, 1, 10);
    MAKE(tide_diff, x, 2, 0);
    MAKE(tide_trapezoid, x, tide_arg_array(row), 1);
    DROP(row);
}

/* tide/scan.h, select.h and order.h. */
static void order(tide_array *x, tide_array *row) {
    tide_array *outs[4] = {NULL}, *mask = CALL(tide_gt, x, row);
    MAKE(tide_cumsum, x, 0, 0);
    MAKE(tide_cumprod, x, 1, TIDE_SCAN_REVERSE);
    MAKE(tide_cummin, x, 0, TIDE_SCAN_INITIAL);
    MAKE(tide_cummax, x, 0, 0);
    OK(tide_nonzero, x, outs, 2);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    MAKE(tide_argwhere, x);
    MAKE(tide_count_nonzero, x, NULL, 0, 0);
    MAKE(tide_masked_select, x, mask);
    OK(tide_masked_put, x, mask, row);
    MAKE(tide_sort, x, 0, 0);
    MAKE(tide_argsort, x, 0, 1);
    OK(tide_sort_both, x, 1, 0, &outs[0], &outs[1]);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    OK(tide_topk, x, 2, 1, 1, &outs[0], &outs[1]);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    MAKE(tide_partition, x, 1, 0);
    MAKE(tide_argpartition, x, 1, 0);
    MAKE(tide_lexsort, (tide_array *const[2]){x, x}, 2, 0);
    MAKE(tide_searchsorted, row, x, 0);
    MAKE(tide_isin, x, row);
    MAKE(tide_unique_values, x);
    OK(tide_unique_counts, x, &outs[0], &outs[1]);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    OK(tide_unique_inverse, x, &outs[0], &outs[1]);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    OK(tide_unique_all, x, &outs[0], &outs[1], &outs[2], &outs[3]);
    for (int i = 0; i < 4; i++) DROP(outs[i]);
    MAKE(tide_median, x, NULL, 0, 0);
    MAKE(tide_quantile, x, tide_arg_float(0.5), NULL, 0, 0);
    OK(tide_histogram, x, 3, 0, 4, &outs[0], &outs[1]);
    for (int i = 0; i < 2; i++) DROP(outs[i]);
    DROP(mask);
}

/* tide/index.h; `at` are three indices. */
static void indexing(tide_array *x, tide_array *row, tide_array *at) {
    tide_pick picks[2] = {CALL(tide_pick_array, at), CALL(tide_pick_range, tide_range_all())};
    tide_array *offsets = CALL(tide_arange, tide_array_runtime(x), TIDE_I64, 0, 4, 1);
    tide_array *places = CALL(tide_expand_dims, at, 1);
    MAKE(tide_index, x, 2, picks);
    OK(tide_index_put, x, 2, picks, row);
    MAKE(tide_take_along_axis, x, places, 1);
    OK(tide_put_along_axis, x, places, 1, places);
    MAKE(tide_repeat, x, 2, 0);
    MAKE(tide_repeat_each, x, at, 0);
    MAKE(tide_bincount, at, NULL, -1);
    OK(tide_scatter_put, x, at, 0, row);
    OK(tide_scatter_add, x, at, 0, row, 0);
    OK(tide_scatter_mul, x, at, 0, row);
    OK(tide_scatter_min, x, at, 0, row);
    OK(tide_scatter_max, x, at, 0, row);
    MAKE(tide_segment_sum, x, at, 3, 0);
    MAKE(tide_segment_mean, x, at, 3, 0);
    MAKE(tide_segment_min, x, at, 3, 0);
    MAKE(tide_segment_max, x, at, 3, 0);
    MAKE(tide_segment_sum_offsets, x, offsets, 0);
    MAKE(tide_segment_mean_offsets, x, offsets, 0);
    MAKE(tide_segment_min_offsets, x, offsets, 0);
    MAKE(tide_segment_max_offsets, x, offsets, 0);
    DROP(places);
    DROP(offsets);
}

static void making(tide_runtime *rt) {
    const int64_t shape[2] = {3, 3}, nine = 9;
    double data[9] = {2, 1, 0, 1, 3, 1, 0, 1, 4};
    char text[1024];
    const tide_arg two = CALL(tide_arg_float, 2), one_more = CALL(tide_arg_int, 1);
    tide_arg item;
    tide_array *x = CALL(tide_from_host, rt, TIDE_F64, 2, shape, data);
    OK(tide_to_host, x, data, sizeof data);
    operations(x);
    shapes(rt, x);
    tide_array *row = CALL(tide_slice, x, "0"), *at = CALL(tide_arange, rt, TIDE_I64, 0, 3, 1);
    MAKE(tide_linear, x, x, row, TIDE_GELU);
    order(x, row);
    indexing(x, row, at);
    DROP(row);
    DROP(at);
    MAKE(tide_empty, rt, TIDE_F32, 2, shape);
    MAKE(tide_zeros, rt, TIDE_F32, 2, shape);
    MAKE(tide_ones, rt, TIDE_F32, 2, shape);
    MAKE(tide_full, rt, TIDE_F32, 2, shape, two);
    tide_array *one = CALL(tide_arange, rt, TIDE_I64, 0, 1, 1);
    OK(tide_item, one, &item);
    TRY(tide_item_f64, one);
    TRY(tide_array_text, x, text, sizeof text);
    TRY(tide_array_text_with, x, NULL, text, sizeof text);
    OK(tide_npy_write, x, in_folder("x.npy"));
    OK(tide_npy_write, x, in_folder("x.npy"));
    MAKE(tide_npy_read, rt, in_folder("x.npy"));
    TRY(tide_npy_read, rt, in_folder("no.npy"));
    TRY(tide_npy_write, x, "/nowhere/x.npy");
    TRY(tide_npy_write, x, "/dev/null");
    TRY(tide_array_runtime, x);
    TRY(tide_array_dtype, x);
    TRY(tide_array_device, x);
    TRY(tide_array_memory, x);
    TRY(tide_array_ndim, x);
    TRY(tide_array_dim, x, 0);
    TRY(tide_array_size, x);
    TRY(tide_array_stride, x, 0);
    TRY(tide_array_is_contiguous, x);
    TRY(tide_array_is_freed, x);
    MAKE(tide_slice_ranges, x, 1, &(tide_range){.start = 0, .stop = 2, .step = 1});
    MAKE(tide_slice, x, "0:2");
    TRY(tide_slice, x, "wrong");
    MAKE(tide_transpose, x, NULL);
    MAKE(tide_reshape, x, 1, &nine);
    MAKE(tide_broadcast_to, one, 2, shape);
    MAKE(tide_expand_dims, x, 0);
    MAKE(tide_squeeze, one, 0);
    tide_array *t = CALL(tide_transpose, x, NULL);
    MAKE(tide_slicef, x, "%d:%d", 0, 2);
    const tide_range ranges[] = {CALL(tide_range_all), CALL(tide_range_slice, 0, 1, 1),
                                 CALL(tide_range_index, 0), CALL(tide_range_newaxis),
                                 CALL(tide_range_ellipsis)};
    MAKE(tide_slice_ranges, x, TIDEI_COUNT(ranges), ranges);
    MAKE(tide_copy, t);
    MAKE(tide_contiguous, t);
    OK(tide_npy_write, t, in_folder("t.npy"));
    MAKE(tide_cast, x, TIDE_F16);
    OK(tide_assign, t, x);
    OK(tide_fill, t, one_more);
    OK(tide_array_set_ordered, t, 0);
    OK(tide_memset, t, 0);
    MAKE(tide_take, x, one, 0);
    MAKE(tide_concat, (tide_array *const[2]){x, x}, 2, 0);
    OK(tide_array_on_death, t, on_death, NULL);
    TRY(tide_retain, t);
    DROP(t);
    DO(tide_free, t);
    DROP(t);
    DROP(one);
    DROP(x);
    OK(tide_scope_begin, rt);
    tide_array *outlives = CALL(tide_ones, rt, TIDE_F32, 2, shape);
    TRY(tide_scope_keep, outlives);
    TRY(tide_ones, rt, TIDE_F32, 2, shape);
    OK(tide_scope_begin, rt);
    int depth = CALL(tide_scope_depth, rt);
    OK(tide_scope_unwind, rt, depth - 1);
    OK(tide_scope_end, rt);
    DROP(outlives);
}

static tide_status doubled(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    (void)user, (void)n, (void)m;
    outs[0] = tide_add(args[0].value.array, args[0].value.array);
    return outs[0] ? TIDE_OK : tide_error_last()->status;
}
static void graphs(tide_runtime *rt) {
    tide_array *x = CALL(tide_arange, rt, TIDE_F64, 0, 100, 1), *out = NULL;
    const tide_arg arg = CALL(tide_arg_array, x);
    tide_graph_figures figures = {.struct_size = sizeof figures};
    tide_graph *g = CALL(tide_graph_new, rt, doubled, NULL);
    for (int run = 0; run < 3; run++) { /* called, captured, queued */
        OK(tide_graph_run, g, &arg, 1, &out, 1);
        DROP(out);
    }
    OK(tide_graph_info, g, &figures);
    OK(tide_graph_reset, g);
    DO(tide_graph_release, g);
    DROP(x);
}

static void expressions(tide_runtime *rt) {
    tide_array *x = CALL(tide_arange, rt, TIDE_F64, 0, 100, 1), *out = NULL, *second = NULL;
    const tide_arg arg = CALL(tide_arg_array, x);
    tide_expr *e = CALL(tide_expr_new, rt, "(x) -> x * 2");
    MAKE(tide_expr_apply, e, &arg, 1);
    OK(tide_expr_apply_many, e, &arg, 1, &out, 1);
    DO(tide_expr_results, e);
    OK(tide_expr_apply_into, &out, 1, e, &arg, 1);
    MAKE(tide_map_args, rt, "(x) -> sum(x)", &arg, 1);
    OK(tide_map_many_args, rt, "(x) -> -x", &arg, 1, &second, 1);
    DROP(second);
    OK(tide_map_into_args, out, "(x) -> x + 1", &arg, 1);
    TRY(tide_map_args, rt, "(x) -> y", &arg, 1);
    DO(tide_expr_release, e);
    tide_rng rng = {1, 0};
    const int64_t n = 10;
    MAKE(tide_random_uniform, rt, &rng, TIDE_F32, 1, &n);
    MAKE(tide_random_normal, rt, &rng, TIDE_F32, 1, &n);
    MAKE(tide_random_integers, rt, &rng, TIDE_I32, 1, &n, 0, 5);
    MAKE(tide_random_permutation, rt, &rng, 10);
    DROP(out);
    DROP(x);
}

static void algebra(tide_runtime *rt) {
    const int64_t shape[2] = {3, 3};
    double data[9] = {4, 1, 0, 1, 3, 1, 0, 1, 5};
    const tide_arg one = CALL(tide_arg_float, 1);
    tide_array *a = CALL(tide_from_host, rt, TIDE_F64, 2, shape, data);
    tide_array *b = CALL(tide_from_host, rt, TIDE_F64, 1, shape, data), *m = CALL(tide_copy, a),
               *y = CALL(tide_copy, b);
    tide_array *r[3] = {NULL, NULL, NULL};
    OK(tide_gemm, m, one, a, a, one);
    OK(tide_gemv, y, one, a, b, one);
    OK(tide_ger, m, one, b, b);
    OK(tide_axpy, m, one, a);
    MAKE(tide_dot, b, b);
    MAKE(tide_nrm2, b);
    MAKE(tide_solve_triangular, a, b, TIDE_LOWER);
    OK(tide_lu_factor, a, &r[0], &r[1]);
    MAKE(tide_lu_solve, r[0], r[1], b);
    DROP(r[0]), DROP(r[1]);
    OK(tide_lu, a, &r[0], &r[1], &r[2]);
    DROP(r[0]), DROP(r[1]), DROP(r[2]);
    MAKE(tide_cholesky, a, TIDE_LOWER);
    OK(tide_qr, a, TIDE_REDUCED, &r[0], &r[1]);
    DROP(r[0]), DROP(r[1]);
    OK(tide_svd, a, TIDE_REDUCED, &r[0], &r[1], &r[2]);
    DROP(r[0]), DROP(r[1]), DROP(r[2]);
    OK(tide_eigh, a, TIDE_LOWER, &r[0], &r[1]);
    DROP(r[0]), DROP(r[1]);
    MAKE(tide_solve, a, b);
    MAKE(tide_inv, a);
    MAKE(tide_det, a);
    OK(tide_slogdet, a, &r[0], &r[1]);
    DROP(r[0]), DROP(r[1]);
    OK(tide_lstsq, a, b, -1, &r[0], &r[1], &r[2]);
    DROP(r[0]), DROP(r[1]), DROP(r[2]);
    DROP(m), DROP(y), DROP(b), DROP(a);
}

static void memory(tide_runtime *rt) {
    const int64_t n = 100, zero = 0;
    tide_host_view view;
    tide_device_figures info = {.struct_size = sizeof info};
    tide_arg item, number = CALL(tide_arg_float, 1);
    tide_array *p = CALL(tide_empty_in, rt, TIDE_MEMORY_PINNED, TIDE_F64, 1, &n);
    tide_array *d = CALL(tide_to_memory, p, TIDE_MEMORY_DEVICE),
               *u = CALL(tide_empty_in, rt, TIDE_MEMORY_UNIFIED, TIDE_F64, 1, &n);
    OK(tide_host_view_begin, p, TIDE_WRITE, &view);
    OK(tide_host_view_end, &view);
    TRY(tide_thread_allow_scalar, rt, 1);
    OK(tide_array_set, p, &zero, number);
    OK(tide_array_get, d, &zero, &item);
    TRY(tide_array_prefetch, u, 0, n, TIDE_TO_DEVICE);
    TRY(tide_array_advise, u, 0, n, TIDE_ADVISE_HOST);
    OK(tide_device_info, rt, &info);
    DROP(u), DROP(d), DROP(p);
}

static void pools(tide_runtime *rt) {
    static const char *const kinds[] = {"tide", "none", "driver", "split", "binned", "simple"};
    tide_pool_figures stats = {.struct_size = sizeof stats};
    uint64_t value;
    for (size_t i = 0; i < TIDEI_COUNT(kinds); i++) {
        tide_pool *pool = NULL;
        OK(tide_pool_new, rt,
           &(tide_pool_config){.struct_size = sizeof(tide_pool_config), .kind = kinds[i]}, &pool);
        OK(tide_pool_set, rt, pool);
        TRY(tide_pool_current, rt);
        TRY(tide_pool_set_attribute, pool, TIDE_POOL_RELEASE_THRESHOLD, 0);
        TRY(tide_pool_get_attribute, pool, TIDE_POOL_RELEASE_THRESHOLD, &value);
        for (int k = 0; k < 3; k++) {
            void *block = CALL(tide_pool_malloc, pool, NULL, (size_t)1 << (10 + 5 * k));
            DO(tide_pool_free, pool, NULL, block);
        }
        OK(tide_pool_info, pool, &stats);
        OK(tide_pool_set, rt, NULL);
        DO(tide_pool_release, pool);
    }
    void *lent = CALL(tide_torch_malloc, 1000, 0, NULL);
    DO(tide_torch_free, lent, 1000, 0, NULL);
    DO(tide_torch_close);
}

static void streams(tide_runtime *rt) {
    int flag = 0;
    tide_runtime_figures stats = {.struct_size = sizeof stats};
    tide_stream *s = NULL, *wrapped = NULL;
    void *address;
    tide_use_scope *scope = NULL;
    tide_array *x = CALL(tide_arange, rt, TIDE_F64, 0, 100, 1);
    OK(tide_stream_new, rt, &s);
    OK(tide_stream_set, rt, s);
    TRY(tide_stream_current, rt);
    TRY(tide_stream_native, s);
    MAKE(tide_add, x, x);
    OK(tide_use_begin, rt, s, &(tide_use){.array = x, .mode = TIDE_WRITE}, 1, &address, &scope);
    if (CALL(tide_use_launch, scope, host_work, &flag) != TIDE_OK) DO(tide_error_clear);
    OK(tide_use_end, scope);
    OK(tide_synchronize, rt, s);
    OK(tide_device_synchronize, rt);
    OK(tide_stream_set, rt, NULL);
    DO(tide_stream_release, s);
    TRY(tide_stream_wrap, rt, NULL, &wrapped);
    DO(tide_stream_release, wrapped);
    TRY(tide_device_count, rt);
    TRY(tide_device_current, rt);
    OK(tide_device_set, rt, 0);
    TRY(tide_device_reaches, rt, 0, 0);
    OK(tide_runtime_info, rt, &stats);
    DO(tide_runtime_reset_peaks, rt);
    DROP(x);
}

struct pair {
    tide_data x, y;
};

static void structures(tide_runtime *rt) {
    static const tide_adapt_field fields[] = {TIDE_FIELD(struct pair, x),
                                              TIDE_FIELD(struct pair, y)};
    static const tide_adapt_rule rule = {"pair", sizeof(struct pair), fields, 2, moved, NULL};
    static const double data[100];
    const int64_t n = 100;
    tide_array *x = CALL(tide_arange, rt, TIDE_F64, 0, 100, 1);
    struct pair here, there, back;
    uint64_t id;
    memset(&there, 0, sizeof there);
    memset(&back, 0, sizeof back);
    here.x = CALL(tide_data_host, TIDE_F64, 1, &n, data);
    here.y = CALL(tide_data_array, x);
    OK(tide_adapt_register, rt, &rule, &id);
    OK(tide_adapt, rt, "pair", &here, TIDE_ADAPT_DEVICE, &there);
    OK(tide_adapt, rt, "pair", &there, TIDE_ADAPT_HOST, &back);
    DO(tide_adapt_release, rt, "pair", &back);
    DO(tide_adapt_release, rt, "pair", &there);
    OK(tide_adapt_unregister, rt, id);
    tide_data source = here.x, batch = {0};
    source.host = NULL;
    tide_batches *b = NULL;
    tide_batches_config c = {.struct_size = sizeof c,
                             .arrays = &source,
                             .narrays = 1,
                             .batch = 30,
                             .fill = fill_samples};
    OK(tide_batches_new, rt, &c, &b);
    OK(tide_batches_next, b, &batch);
    OK(tide_batches_next, b, &batch);
    TRY(tide_batches_count, b);
    DO(tide_batches_rewind, b);
    OK(tide_batches_next, b, &batch);
    DO(tide_batches_release, b);
    DROP(x);
}

/* Garbage, limits, everything that gives way, and a request that does not fit. */
static void shortage(tide_runtime *rt) {
    const int64_t many = 100000000;
    const tide_reclaimable cache = {.struct_size = sizeof cache,
                                    .name = "mine",
                                    .purge = give,
                                    .drop = give,
                                    .bytes = bytes_held};
    const tide_collector mine = {.struct_size = sizeof mine,
                                 .name = "mine",
                                 .caps = TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_MINOR,
                                 .collect = collect,
                                 .may_collect = may_collect,
                                 .pressure = pressure,
                                 .blocking = blocking,
                                 .detach = detach};
    uint64_t id = 0, number = 0;
    char text[4096];
    size_t freed;
    OK(tide_reclaimable_register, rt, &cache, &id);
    OK(tide_collector_register, rt, &mine, &number);
    tide_array *x = CALL(tide_zeros, rt, TIDE_F64, 1, (const int64_t[1]){400000});
    OK(tide_collector_use, rt, 0);
    TRY(tide_zeros, rt, TIDE_F64, 1, &many);
    for (int level = TIDE_RECLAIM_PURGE; level <= TIDE_RECLAIM_SPILL; level++)
        OK(tide_reclaim, rt, level, &freed);
    OK(tide_collect, rt);
    DO(tide_safepoint, rt);
    TRY(tide_runtime_text, rt, text, sizeof text);
    OK(tide_device_set_soft_limit, rt, 1 << 20);
    TRY(tide_device_set_limit, rt, 1 << 20);
    OK(tide_device_set_soft_limit, rt, SIZE_MAX);
    OK(tide_device_set_limit, rt, SIZE_MAX);
    DROP(x);
    OK(tide_synchronize, rt, NULL);
    OK(tide_collector_unregister, rt, number);
    OK(tide_reclaimable_unregister, rt, id);
}

/* The frame of the thread's function is unwound by the C library, which AddressSanitizer does not
** see: what it says of variables there would stay where the thread's end has its own. So that
** function has none, and what it calls is no part of it. */
__attribute__((noinline)) static void whole_program(const tide_config *c) {
    tide_runtime *rt = NULL;
    OK(tide_open, c, &rt);
    if (!rt) return;
    OK(tide_thread_attach, rt);
    texts(rt);
    making(rt);
    expressions(rt);
    graphs(rt);
    algebra(rt);
    memory(rt);
    pools(rt);
    streams(rt);
    structures(rt);
    shortage(rt);
    DO(tide_thread_detach, rt);
    MAKE(tide_zeros, rt, TIDE_F64, 0, NULL);
    DO(tide_close, rt);
}

__attribute__((noinline)) static void set_cancelling(int state) {
    int unused;
    pthread_setcancelstate(state, &unused);
}

static void *cancelled_thread(void *config) {
    set_cancelling(PTHREAD_CANCEL_DISABLE);
    pthread_cancel(pthread_self());
    set_cancelling(seen.state);
    whole_program(config);
    seen.done = true;
    set_cancelling(PTHREAD_CANCEL_ENABLE);
    for (;;) pthread_testcancel();
    return NULL;
}

/* ---- the cases ---- */

static int setup(void **state) {
    (void)state;
    clear_environment();
    strcpy(folder, "/tmp/tide_cancel_XXXXXX");
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return mkdtemp(folder) && nowhere >= 0 ? 0 : -1;
}
static int teardown(void **state) {
    static const char *const names[] = {"x.npy", "t.npy", "run.json"};
    for (size_t i = 0; i < TIDEI_COUNT(names); i++) unlink(in_folder(names[i]));
    close(nowhere);
    rmdir(folder);
    return restore_environment(state);
}

static void survives(const tide_config *c, int cancel_state) {
    pthread_t thread;
    void *end_of_it;
    if (!CANCELS) skip();
    memset(&seen, 0, sizeof seen);
    seen.state = cancel_state;
    assert_int_equal(pthread_create(&thread, NULL, cancelled_thread, (void *)c), 0);
    assert_int_equal(pthread_join(thread, &end_of_it), 0);
    if (!seen.done) fail_msg("the thread ended inside %s", seen.now);
    assert_ptr_equal(end_of_it, PTHREAD_CANCELED);
    assert_string_equal(seen.wrong, "");
}

static tide_config config_of(const char *collector) {
    (void)!tide_policy_register(&half); /* it may be there */
    return (tide_config){.struct_size = sizeof(tide_config),
                         .device = test_device(),
                         .host_device_memory = "64MiB",
                         /* on a GPU libraries' handles count, too */
                         .limit = test_on_host() ? "48MiB" : "512MiB",
                         .collector = collector,
                         .policy = "half",
                         .spill = TIDE_ON,
                         .log = log_line,
                         .log_level = TIDE_LOG_DEBUG};
}

static void refcount_survives_cancelled_threads(void **state) {
    tide_config c = config_of("refcount");
    (void)state;
    survives(&c, PTHREAD_CANCEL_ENABLE);
}

static void boehm_survives_cancelled_threads(void **state) {
    tide_config c = config_of("boehm");
    (void)state;
    if (!TEST_BOEHM) skip();
    survives(&c, PTHREAD_CANCEL_ENABLE);
}

/* Recorded, tracked, with host memory of the program's own. */
static void all_that_writes_survives_cancelled_threads(void **state) {
    tide_config c = config_of("refcount");
    const tide_allocator host = {host_alloc, host_free, NULL};
    (void)state;
    c.trace = in_folder("run.json");
    c.debug = 2;
    c.allocator = &host;
    survives(&c, PTHREAD_CANCEL_ENABLE);
}

/* A thread that is not to be cancelled stays so. */
static void a_thread_not_to_be_cancelled_stays_so(void **state) {
    tide_config c = config_of("refcount");
    (void)state;
    survives(&c, PTHREAD_CANCEL_DISABLE);
}

/* Every function that there is was called by the first of them. */
static void every_function_was_called(void **state) {
    char path[400], name[80];
    (void)state;
    if (!CANCELS) skip();
    assert_non_null(getenv("TIDE_TEST_SOURCE"));
    snprintf(path, sizeof path, "%s/tests/exports.txt", getenv("TIDE_TEST_SOURCE"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%79s", name) == 1) {
        size_t i = 0;
        while (i < seen.n && strcmp(seen.called[i], name) != 0) i++;
        if (i == seen.n) fail_msg("no cancelled thread calls %s", name);
    }
    fclose(f);
}

/* ---- waits for other threads ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool waits, over;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *waiting_thread(void *timed) {
    pthread_mutex_lock(&gate.lock);
    gate.waits = true;
    while (!gate.over) {
        struct timespec never = {.tv_sec = 4000000000};
        if (timed)
            tidei_cond_wait_until(&gate.changed, &gate.lock, &never);
        else
            tidei_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
    tidei_nap(1000);
    pthread_testcancel();
    return NULL;
}

/* Cancelled in the middle of a wait it goes on waiting, and holds no lock when it ends. */
static void a_cancelled_wait_goes_on_and_holds_no_lock(void **state) {
    (void)state;
    if (!CANCELS) skip();
    for (int timed = 0; timed < 2; timed++) {
        pthread_t thread;
        void *end_of_it;
        gate.waits = gate.over = false;
        assert_int_equal(pthread_create(&thread, NULL, waiting_thread, timed ? &gate : NULL), 0);
        for (bool waits = false; !waits;) {
            pthread_mutex_lock(&gate.lock);
            waits = gate.waits;
            pthread_mutex_unlock(&gate.lock);
        }
        pthread_cancel(thread);
        pthread_mutex_lock(&gate.lock); /* the waiter has not gone with it */
        gate.over = true;
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.lock);
        assert_int_equal(pthread_join(thread, &end_of_it), 0);
        assert_ptr_equal(end_of_it, PTHREAD_CANCELED);
    }
}

static void *short_thread(void *x) { return x; }
static void *joining_thread(void *unused) {
    pthread_t thread;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &(int){0});
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &(int){0});
    if (pthread_create(&thread, NULL, short_thread, NULL)) return unused;
    tidei_join(thread);
    seen.done = true;
    pthread_testcancel();
    return unused;
}
static void a_cancelled_join_goes_on(void **state) {
    pthread_t thread;
    void *end_of_it;
    (void)state;
    if (!CANCELS) skip();
    seen.done = false;
    assert_int_equal(pthread_create(&thread, NULL, joining_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &end_of_it), 0);
    assert_true(seen.done);
    assert_ptr_equal(end_of_it, PTHREAD_CANCELED);
}

/* ---- a storm ---- */

enum { STORM_THREADS = 8 };
static tide_runtime *stormy;

static void *storm_thread(void *unused) {
    for (int i = 0;; i++) {
        tide_array *a = tide_arange(stormy, TIDE_F64, 0, 500, 1),
                   *y = tide_map(stormy, "(x) -> sum(x)", a);
        (void)tide_item_f64(y);
        tide_release(a);
        tide_release(y);
        if (i % 50 == 0) pthread_testcancel();
    }
    return unused;
}

/* Threads that are cancelled wherever they are, round after round: the runtime serves on. */
static void the_runtime_outlives_a_storm_of_cancellations(void **state) {
    (void)state;
    if (!CANCELS) skip();
    tide_config c = {.struct_size = sizeof c,
                     .device = test_device(),
                     .host_device_memory = "64MiB",
                     .collector = "refcount"};
    stormy = test_open(&c);
    for (int round = 0; round < (test_quick() ? 5 : 40); round++) {
        pthread_t thread[STORM_THREADS];
        for (int i = 0; i < STORM_THREADS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, storm_thread, NULL), 0);
        usleep(3000);
        for (int i = 0; i < STORM_THREADS; i++) pthread_cancel(thread[i]);
        for (int i = 0; i < STORM_THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
        tide_array *a = tide_arange(stormy, TIDE_F64, 0, 500, 1),
                   *y = tide_map(stormy, "(x) -> sum(x)", a);
        assert_true(tide_item_f64(y) == 124750);
        tide_release(a);
        tide_release(y);
    }
    assert_true(tidei_runtime_valid(test_rt(stormy)));
    tide_close(stormy);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(boehm_survives_cancelled_threads),
        CASE(all_that_writes_survives_cancelled_threads),
        CASE(a_thread_not_to_be_cancelled_stays_so),
        CASE(refcount_survives_cancelled_threads),
        cmocka_unit_test(every_function_was_called), /* of the last one */
        cmocka_unit_test(a_cancelled_wait_goes_on_and_holds_no_lock),
        cmocka_unit_test(a_cancelled_join_goes_on),
        CASE(the_runtime_outlives_a_storm_of_cancellations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
