/* Every public function that takes an array, given one that is NULL, one of another runtime, and an
** empty one whose pool is gone. api_table.h, made from the headers, says which functions these
** are; the table below has a call of each. */
#include "tests/support/tidetest.h"
#include "api_table.h"
#include "arrays/expr/front.h"
#include "gc/gc.h"
#include <math.h>

static tide_runtime *rt, *other;
static tide_array *good, *foreign, *freed; /* f32, (2, 2) */
static tide_array *pivots, *truth;
static tide_expr *sum_of_two;

static int open_both(void **state) {
    const tide_config c = {.collector = "refcount"};
    const int64_t shape[] = {2, 2};
    (void)state;
    rt = test_open(&c);
    other = test_open(&c);
    good = tide_ones(rt, TIDE_F32, 2, shape);
    foreign = tide_ones(other, TIDE_F32, 2, shape);
    freed = tide_ones(rt, TIDE_F32, 2, shape);
    tide_free(freed);
    pivots = tide_zeros(rt, TIDE_I64, 1, shape);
    truth = tide_ones(rt, TIDE_BOOL, 2, shape);
    sum_of_two = tide_expr_new(rt, "(x, y) -> x + y");
    return good && foreign && sum_of_two ? 0 : -1;
}
static int close_both(void **state) {
    (void)state;
    tide_close(rt);
    tide_close(other);
    tide_release(good);
    tide_release(foreign);
    tide_release(freed);
    tide_release(pivots);
    tide_release(truth);
    return 0;
}

/* ---- how a call ended ---- */

static tide_status made(tide_array *a) {
    tide_release(a);
    return a ? TIDE_OK : tide_error_last()->status;
}
static tide_status several(tide_status s, tide_array **outs, int n) {
    for (int i = 0; i < n; i++) tide_release(outs[i]);
    return s;
}
static tide_status unless(bool failed) { return failed ? tide_error_last()->status : TIDE_OK; }

/* ---- the calls ---- a: the arrays in the order of the arguments */

enum { MOST = 3 };
#define CALL(name) static tide_status call_##name(tide_array *const *a)

#define ARRAYS_1 a[0]
#define ARRAYS_2 a[0], a[1]
#define ARRAYS_3 a[0], a[1], a[2]
#define TIDEI_OP(ident, name, arity, ...)                                                          \
    CALL(tide_##name) { return made(tide_##name(ARRAYS_##arity)); }
#include "arrays/expr/ops.def"
#undef TIDEI_OP

#define FOLDS(X) X(sum) X(prod) X(min) X(max) X(mean) X(any) X(all) X(argmin) X(argmax)
#define FOLD(name)                                                                                 \
    CALL(tide_##name) { return made(tide_##name(a[0], NULL, 0, 0)); }
FOLDS(FOLD)
CALL(tide_var) { return made(tide_var(a[0], NULL, 0, 0, 0)); }
CALL(tide_std) { return made(tide_std(a[0], NULL, 0, 0, 0)); }

#define MAKES(name, ...)                                                                           \
    CALL(name) { return made(name(__VA_ARGS__)); }
#define GIVES(name, ...)                                                                           \
    CALL(name) { return name(__VA_ARGS__); }
#define FAILS_AS(name, failure, ...)                                                               \
    CALL(name) { return unless(name(__VA_ARGS__) == (failure)); }
#define OUTS(name, n, ...)                                                                         \
    CALL(name) {                                                                                   \
        tide_array *outs[MOST] = {NULL};                                                           \
        return several(name(__VA_ARGS__), outs, n);                                                \
    }
static const int64_t none_of[] = {0, 0};
static const int64_t first[] = {0, 0};
static char bytes[64];

MAKES(tide_matmul, a[0], a[1])
MAKES(tide_linear, a[0], a[1], a[2], TIDE_RELU)
MAKES(tide_slice, a[0], "...")
MAKES(tide_slicef, a[0], "%s", "...")
MAKES(tide_transpose, a[0], NULL)
MAKES(tide_reshape, a[0], 1, (const int64_t[]){-1})
MAKES(tide_broadcast_to, a[0], 2, none_of)
MAKES(tide_expand_dims, a[0], 0)
MAKES(tide_squeeze, a[0], 0)
MAKES(tide_copy, a[0])
MAKES(tide_contiguous, a[0])
MAKES(tide_cast, a[0], TIDE_F64)
MAKES(tide_take, a[0], a[1], 0)
MAKES(tide_concat, a, 2, 0)
MAKES(tide_cumsum, a[0], 0, 0)
MAKES(tide_cumprod, a[0], 0, 0)
MAKES(tide_cummin, a[0], 0, 0)
MAKES(tide_cummax, a[0], 0, 0)
MAKES(tide_argwhere, a[0])
MAKES(tide_count_nonzero, a[0], NULL, 0, 0)
MAKES(tide_masked_select, a[0], a[1] == good ? truth : a[1])
GIVES(tide_masked_put, a[0], a[1] == good ? truth : a[1], a[2])
OUTS(tide_nonzero, 2, a[0], outs, 2)
MAKES(tide_sort, a[0], 0, 0)
MAKES(tide_argsort, a[0], 0, 0)
MAKES(tide_partition, a[0], 0, 0)
MAKES(tide_argpartition, a[0], 0, 0)
MAKES(tide_lexsort, a, 2, 0)
MAKES(tide_searchsorted, a[0] == good ? pivots : a[0], a[1], 0)
MAKES(tide_isin, a[0], a[1])
MAKES(tide_unique_values, a[0])
MAKES(tide_median, a[0], NULL, 0, 0)
MAKES(tide_quantile, a[0], tide_arg_array(a[1]), NULL, 0, 0)
MAKES(tide_bincount, a[0] == good ? pivots : a[0], NULL, 3)
OUTS(tide_sort_both, 2, a[0], 0, 0, &outs[0], &outs[1])
OUTS(tide_topk, 2, a[0], 1, 0, 1, &outs[0], &outs[1])
OUTS(tide_unique_counts, 2, a[0], &outs[0], &outs[1])
OUTS(tide_unique_inverse, 2, a[0], &outs[0], &outs[1])
OUTS(tide_unique_all, 3, a[0], &outs[0], &outs[1], &outs[2], NULL)
OUTS(tide_histogram, 2, a[0], 3, 0, 1, &outs[0], &outs[1])
MAKES(tide_index, a[0], 1, (const tide_pick[]){tide_pick_array(a[1])})
MAKES(tide_take_along_axis, a[0], a[1], 0)
GIVES(tide_index_put, a[0], 1, (const tide_pick[]){tide_pick_array(a[1])}, a[2])
GIVES(tide_put_along_axis, a[0], a[1], 0, a[2])
MAKES(tide_repeat, a[0], 2, 0)
MAKES(tide_repeat_each, a[0], a[1] == good ? pivots : a[1], 0)
GIVES(tide_scatter_put, a[0], a[1] == good ? pivots : a[1], 0, a[2])
GIVES(tide_scatter_add, a[0], a[1] == good ? pivots : a[1], 0, a[2], 0)
GIVES(tide_scatter_mul, a[0], a[1] == good ? pivots : a[1], 0, a[2])
GIVES(tide_scatter_min, a[0], a[1] == good ? pivots : a[1], 0, a[2])
GIVES(tide_scatter_max, a[0], a[1] == good ? pivots : a[1], 0, a[2])
MAKES(tide_segment_sum, a[0], a[1] == good ? pivots : a[1], 2, 0)
MAKES(tide_segment_mean, a[0], a[1] == good ? pivots : a[1], 2, 0)
MAKES(tide_segment_min, a[0], a[1] == good ? pivots : a[1], 2, 0)
MAKES(tide_segment_max, a[0], a[1] == good ? pivots : a[1], 2, 0)
MAKES(tide_segment_sum_offsets, a[0], a[1], 0)
MAKES(tide_segment_mean_offsets, a[0], a[1], 0)
MAKES(tide_segment_min_offsets, a[0], a[1], 0)
MAKES(tide_segment_max_offsets, a[0], a[1], 0)
MAKES(tide_slice_ranges, a[0], 0, NULL)
MAKES(tide_flip, a[0], NULL, 0)
MAKES(tide_moveaxis, a[0], NULL, NULL, 0)
MAKES(tide_diagonal, a[0], 0, 0, 1)
MAKES(tide_windows, a[0], NULL, NULL, NULL, 0)
MAKES(tide_reshape_with, a[0], 1, (const int64_t[]){-1}, TIDE_COPY_ALWAYS)
MAKES(tide_roll, a[0], first, NULL, 1)
MAKES(tide_pad, a[0], first, first, TIDE_PAD_EDGE, tide_arg_int(0))
MAKES(tide_stack, a, 2, 0)
MAKES(tide_tile, a[0], NULL, 0)
MAKES(tide_tril, a[0], 0)
MAKES(tide_triu, a[0], 0)
MAKES(tide_empty_like, a[0])
MAKES(tide_zeros_like, a[0])
MAKES(tide_ones_like, a[0])
MAKES(tide_full_like, a[0], tide_arg_int(1))
MAKES(tide_diff, a[0], 1, 0)
MAKES(tide_trapezoid, a[0], tide_arg_int(1), 0)
MAKES(tide_retain, a[0])
MAKES(tide_to_memory, a[0], TIDE_MEMORY_DEVICE)
MAKES(tide_dot, a[0], a[1])
MAKES(tide_nrm2, a[0])
MAKES(tide_solve_triangular, a[0], a[1], TIDE_UPPER)
MAKES(tide_lu_solve, a[0], a[1] == good ? pivots : a[1], a[2])
MAKES(tide_cholesky, a[0], TIDE_LOWER)
MAKES(tide_solve, a[0], a[1])
MAKES(tide_inv, a[0])
MAKES(tide_det, a[0])
MAKES(tide_expr_apply, sum_of_two, (const tide_arg[]){tide_arg_array(a[0]), tide_arg_array(a[1])},
      2)
MAKES(tide_map_args, rt, "(x, y) -> x - y",
      (const tide_arg[]){tide_arg_array(a[0]), tide_arg_array(a[1])}, 2)
GIVES(tide_to_host, a[0], bytes, a[0] ? (size_t)tide_array_size(a[0]) * 4 : 0)
GIVES(tide_item, a[0], &(tide_arg){0})
GIVES(tide_npy_write, a[0], "/dev/null")
GIVES(tide_assign, a[0], a[1])
GIVES(tide_fill, a[0], tide_arg_int(1))
GIVES(tide_array_set_ordered, a[0], 1)
GIVES(tide_memset, a[0], 0)
GIVES(tide_array_get, a[0], first, &(tide_arg){0})
GIVES(tide_array_set, a[0], first, tide_arg_int(1))
GIVES(tide_array_prefetch, a[0], 0, 0, TIDE_TO_DEVICE)
GIVES(tide_array_advise, a[0], 0, 0, TIDE_ADVISE_NONE)
GIVES(tide_gemm, a[2], tide_arg_int(1), a[0], a[1], tide_arg_int(0))
GIVES(tide_gemv, a[2], tide_arg_int(1), a[0], a[1], tide_arg_int(0))
GIVES(tide_ger, a[2], tide_arg_int(1), a[0], a[1])
GIVES(tide_axpy, a[1], tide_arg_int(1), a[0])
GIVES(tide_map_into_args, a[0], "(x) -> -x", (const tide_arg[]){tide_arg_array(a[1])}, 1)
GIVES(tide_expr_apply_into, &a[2], 1, sum_of_two,
      (const tide_arg[]){tide_arg_array(a[0]), tide_arg_array(a[1])}, 2)
FAILS_AS(tide_array_runtime, NULL, a[0])
FAILS_AS(tide_array_dtype, -1, a[0])
FAILS_AS(tide_array_ndim, -1, a[0])
FAILS_AS(tide_array_dim, -1, a[0], 0)
FAILS_AS(tide_array_size, -1, a[0])
FAILS_AS(tide_array_stride, 0, a[0], 0)
FAILS_AS(tide_array_memory, -1, a[0])
FAILS_AS(tide_array_device, -1, a[0])
FAILS_AS(tide_array_text, 0, a[0], bytes, sizeof bytes)
FAILS_AS(tide_array_text_with, 0, a[0], NULL, bytes, sizeof bytes)
OUTS(tide_expr_apply_many, 1, sum_of_two,
     (const tide_arg[]){tide_arg_array(a[0]), tide_arg_array(a[1])}, 2, outs, 1)
OUTS(tide_map_many_args, 1, rt, "(x, y) -> x * y",
     (const tide_arg[]){tide_arg_array(a[0]), tide_arg_array(a[1])}, 2, outs, 1)
OUTS(tide_unstack, 2, a[0], 0, outs, 2)
OUTS(tide_split, 2, a[0], NULL, 0, 0, outs, 2)
OUTS(tide_broadcast_arrays, 2, a, 2, outs)
CALL(tide_meshgrid) {
    tide_array *outs[MOST] = {NULL}, *rows[2];
    for (int i = 0; i < 2; i++) rows[i] = a[i] == good ? pivots : a[i];
    return several(tide_meshgrid(rows, 2, TIDE_GRID_IJ, outs), outs, 2);
}
OUTS(tide_lu_factor, 2, a[0], &outs[0], &outs[1])
OUTS(tide_lu, 3, a[0], &outs[0], &outs[1], &outs[2])
OUTS(tide_qr, 2, a[0], TIDE_REDUCED, &outs[0], &outs[1])
OUTS(tide_svd, 3, a[0], TIDE_REDUCED, &outs[0], &outs[1], &outs[2])
OUTS(tide_eigh, 2, a[0], TIDE_LOWER, &outs[0], &outs[1])
OUTS(tide_slogdet, 2, a[0], &outs[0], &outs[1])
OUTS(tide_lstsq, 3, a[0], a[1], -1, &outs[0], &outs[1], &outs[2])
CALL(tide_item_f64) { return unless(isnan(tide_item_f64(a[0]))); }
CALL(tide_array_is_contiguous) { return unless(!tide_array_is_contiguous(a[0])); }
CALL(tide_array_is_freed) { return unless(!a[0] && !tide_array_is_freed(a[0])); }
CALL(tide_scope_keep) { return unless(!tide_scope_keep(a[0])); }
CALL(tide_data_array) { return unless(!tide_data_array(a[0]).array); }
static void note(void *user) { (void)user; }
CALL(tide_array_on_death) { return tide_array_on_death(a[0], note, NULL); }
CALL(tide_host_view_begin) {
    tide_host_view v;
    tide_status s = tide_host_view_begin(a[0], TIDE_READ, &v);
    return s == TIDE_OK ? tide_host_view_end(&v) : s;
}
CALL(tide_use_begin) {
    const tide_use uses[] = {{a[0], TIDE_READ, 0}, {a[1], TIDE_READ, 0}};
    tide_use_scope *scope;
    void *ptrs[2];
    tide_status s = tide_use_begin(rt, NULL, uses, 2, ptrs, &scope);
    return s == TIDE_OK ? tide_use_end(scope) : s;
}

/* ---- the table ---- */

static const struct call {
    const char *name; /* in the headers */
    const char *op;   /* in errors; NULL: the same */
    const char *text; /* the expression, which names the errors that come from its run */
    int n;            /* arrays */
    bool held;        /* to an expression, or a runtime, that is an argument */
    const char *place[MOST];
    tide_status (*fn)(tide_array *const *a);
} calls[] = {
/* clang-format off */
#define PLACES_1 {"argument 1"}
#define PLACES_2 {"argument 1", "argument 2"}
#define PLACES_3 {"argument 1", "argument 2", "argument 3"}
#define PLACES_124 {"argument 1", "argument 2", "argument 4"} /* a number stands third */
#define AS(name, op, text, n, held, ...) {#name, op, text, n, held, __VA_ARGS__, call_##name},
#define ONE(name)   AS(name, NULL, NULL, 1, false, PLACES_1)
#define TWO(name)   AS(name, NULL, NULL, 2, false, PLACES_2)
#define THREE(name) AS(name, NULL, NULL, 3, false, PLACES_3)
#define TIDEI_OP(ident, name, arity, ...) AS(tide_##name, NULL, NULL, arity, false, PLACES_##arity)
#include "arrays/expr/ops.def"
#undef TIDEI_OP
#define FOLD_ROW(name) ONE(tide_##name)
    FOLDS(FOLD_ROW) ONE(tide_var) ONE(tide_std)
    TWO(tide_matmul) THREE(tide_linear) ONE(tide_slice) ONE(tide_transpose) ONE(tide_reshape)
    ONE(tide_broadcast_to)
    ONE(tide_expand_dims) ONE(tide_squeeze) ONE(tide_copy) ONE(tide_contiguous) ONE(tide_cast)
    ONE(tide_cumsum) ONE(tide_cumprod) ONE(tide_cummin) ONE(tide_cummax) ONE(tide_nonzero)
    ONE(tide_argwhere) ONE(tide_count_nonzero) TWO(tide_masked_select) THREE(tide_masked_put)
    ONE(tide_sort) ONE(tide_argsort) ONE(tide_sort_both) ONE(tide_partition) ONE(tide_argpartition)
    ONE(tide_topk) TWO(tide_searchsorted) TWO(tide_isin) ONE(tide_unique_values)
    ONE(tide_unique_counts) ONE(tide_unique_inverse) ONE(tide_unique_all) ONE(tide_median)
    TWO(tide_quantile) ONE(tide_histogram) ONE(tide_bincount)
    AS(tide_lexsort, NULL, NULL, 2, false, {"argument 1, index 0,", "argument 1, index 1,"})
    TWO(tide_take) ONE(tide_slice_ranges) ONE(tide_retain) ONE(tide_to_memory) TWO(tide_dot)
    ONE(tide_flip) ONE(tide_moveaxis) ONE(tide_diagonal) ONE(tide_windows) ONE(tide_reshape_with)
    ONE(tide_unstack) ONE(tide_split) ONE(tide_roll) ONE(tide_pad) ONE(tide_tile) ONE(tide_tril)
    ONE(tide_triu) ONE(tide_empty_like) ONE(tide_zeros_like) ONE(tide_ones_like)
    ONE(tide_full_like) ONE(tide_diff) ONE(tide_trapezoid)
    ONE(tide_nrm2) TWO(tide_solve_triangular) THREE(tide_lu_solve) ONE(tide_cholesky)
    TWO(tide_solve) ONE(tide_inv) ONE(tide_det) ONE(tide_to_host) ONE(tide_item)
    ONE(tide_npy_write) TWO(tide_assign) ONE(tide_fill) ONE(tide_array_set_ordered) ONE(tide_memset)
    ONE(tide_array_get) ONE(tide_array_set) ONE(tide_array_prefetch) ONE(tide_array_advise)
    ONE(tide_array_runtime) ONE(tide_array_dtype) ONE(tide_array_ndim) ONE(tide_array_dim)
    ONE(tide_array_size) ONE(tide_array_stride)
    ONE(tide_array_memory) ONE(tide_array_device) ONE(tide_array_text) ONE(tide_array_text_with)
    ONE(tide_slicef) ONE(tide_lu_factor) ONE(tide_lu)
    ONE(tide_qr) ONE(tide_svd) ONE(tide_eigh) ONE(tide_slogdet) TWO(tide_lstsq) ONE(tide_item_f64)
    ONE(tide_array_is_contiguous) ONE(tide_array_is_freed) ONE(tide_scope_keep) ONE(tide_data_array)
    ONE(tide_array_on_death) ONE(tide_host_view_begin)
    AS(tide_gemm, NULL, NULL, 3, false, {"argument 3", "argument 4", "argument 1"})
    AS(tide_gemv, NULL, NULL, 3, false, {"argument 3", "argument 4", "argument 1"})
    AS(tide_ger, NULL, NULL, 3, false, {"argument 3", "argument 4", "argument 1"})
    AS(tide_axpy, NULL, NULL, 2, false, {"argument 3", "argument 1"})
    AS(tide_concat, NULL, NULL, 2, false, {"argument 1, index 0,", "argument 1, index 1,"})
    AS(tide_stack, NULL, NULL, 2, false, {"argument 1, index 0,", "argument 1, index 1,"})
    AS(tide_broadcast_arrays, NULL, NULL, 2, false,
       {"argument 1, index 0,", "argument 1, index 1,"})
    AS(tide_meshgrid, NULL, NULL, 2, false, {"argument 1, index 0,", "argument 1, index 1,"})
    AS(tide_index, NULL, NULL, 2, false, {"argument 1", "argument 3, index 0,"})
    AS(tide_index_put, NULL, NULL, 3, false, {"argument 1", "argument 3, index 0,", "argument 4"})
    TWO(tide_take_along_axis)
    AS(tide_put_along_axis, NULL, NULL, 3, false, PLACES_124)
    AS(tide_scatter_put, NULL, NULL, 3, false, PLACES_124)
    AS(tide_scatter_add, NULL, NULL, 3, false, PLACES_124)
    AS(tide_scatter_mul, NULL, NULL, 3, false, PLACES_124)
    AS(tide_scatter_min, NULL, NULL, 3, false, PLACES_124)
    AS(tide_scatter_max, NULL, NULL, 3, false, PLACES_124)
    ONE(tide_repeat) TWO(tide_repeat_each) TWO(tide_segment_sum) TWO(tide_segment_mean)
    TWO(tide_segment_min) TWO(tide_segment_max) TWO(tide_segment_sum_offsets)
    TWO(tide_segment_mean_offsets) TWO(tide_segment_min_offsets) TWO(tide_segment_max_offsets)
    AS(tide_use_begin, NULL, NULL, 2, true, {"argument 3, index 0,", "argument 3, index 1,"})
    AS(tide_expr_apply, NULL, "(x, y) -> x + y", 2, true, PLACES_2)
    AS(tide_expr_apply_many, NULL, "(x, y) -> x + y", 2, true, PLACES_2)
    AS(tide_expr_apply_into, NULL, "(x, y) -> x + y", 3, true,
       {"argument 1", "argument 2", "destination 1"})
    AS(tide_map_args, "tide_map", "(x, y) -> x - y", 2, true, PLACES_2)
    AS(tide_map_many_args, "tide_map_many", "(x, y) -> x * y", 2, true, PLACES_2)
    AS(tide_map_into_args, "tide_map_into", "(x) -> -x", 2, false, {"destination 1", "argument 1"})
    /* clang-format on */
};

static const char *op_of(const struct call *c) { return c->op ? c->op : c->name; }

/* The arguments with `odd` at place k and `rest` elsewhere. */
static void arguments(tide_array *a[MOST], int k, tide_array *odd, tide_array *rest) {
    for (int i = 0; i < MOST; i++) a[i] = i == k ? odd : rest;
}

/* ---- the table has them all ---- */

static bool is_listed(const char *name) {
    /* NULL is */
    static const char *const legal[] = {"tide_free", "tide_release", "tide_arg_array",
                                        "tide_pick_array"};
    for (size_t i = 0; i < TIDEI_COUNT(legal); i++)
        if (!strcmp(name, legal[i])) return true;
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++)
        if (!strcmp(name, calls[i].name)) return true;
    return false;
}

static void the_table_has_every_function(void **state) {
    unsigned n = 0;
    (void)state;
    for (size_t i = 0; i < API_FUNCTIONS; i++) {
        if (!api_functions[i].takes_array) continue;
        n++;
        if (!is_listed(api_functions[i].name))
            fail_msg("%s takes an array, and the table has no call of it", api_functions[i].name);
    }
    assert_int_equal(n, TIDEI_COUNT(calls) + 4); /* those to which NULL is legal */
}

/* ---- NULL ---- */

/* Without an earlier error it is the caller's mistake, and the message says which argument of which
** function. */
static void a_null_array_is_told_by_function_and_argument(void **state) {
    char want[96];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++)
        for (int k = 0; k < calls[i].n; k++) {
            tide_array *a[MOST];
            arguments(a, k, NULL, good);
            tide_error_clear();
            tide_status s = calls[i].fn(a);
            snprintf(want, sizeof want, "%s is NULL", calls[i].place[k]);
            if (s != TIDE_E_INVALID || strcmp(tide_error_last()->message, want) != 0 ||
                strcmp(tide_error_last()->operation, op_of(&calls[i])) != 0)
                fail_msg("%s with NULL at %d: %s, %s: %s", calls[i].name, k, tide_status_name(s),
                         tide_error_last()->operation, tide_error_last()->message);
        }
    tide_error_clear();
    tide_free(NULL);
    tide_release(NULL);
    assert_int_equal(tide_error_last()->status, TIDE_OK);
}

/* An earlier error is why there is no array: it stays, whatever is wrong with the other arguments,
** and its message says where that was noticed first. */
static void an_earlier_error_outlives_a_null(void **state) {
    char want[512];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++)
        for (int k = 0; k < calls[i].n; k++) {
            tide_array *a[MOST];
            tide_error_clear();
            arguments(a, k, tide_slice(good, "q"), freed);
            snprintf(want, sizeof want, "%s\nthen: %s: %s is NULL", tide_error_last()->message,
                     op_of(&calls[i]), calls[i].place[k]);
            tide_status s = calls[i].fn(a);
            if (s != TIDE_E_PARSE || strcmp(tide_error_last()->message, want) != 0 ||
                strcmp(tide_error_last()->operation, "tide_slice") != 0)
                fail_msg("%s with NULL at %d: %s, %s: %s", calls[i].name, k, tide_status_name(s),
                         tide_error_last()->operation, tide_error_last()->message);
            const struct call *later = &calls[(i + 1) % TIDEI_COUNT(calls)]; /* and adds no more */
            arguments(a, 0, NULL, good);
            assert_int_equal(later->fn(a), TIDE_E_PARSE);
            assert_string_equal(tide_error_last()->message, want);
        }
    tide_error_clear();
}

static void expect_earlier(tide_status s) {
    if (s != TIDE_E_PARSE || !strstr(tide_error_last()->message, "\nthen: "))
        fail_msg("%s: %s: %s", tide_status_name(s), tide_error_last()->operation,
                 tide_error_last()->message);
    tide_error_clear();
    assert_null(tide_slice(good, "q")); /* the next earlier one */
}

/* Nor does it matter what else is wrong: the expression, its text, the runtime, how many arguments
** and results there are. */
static void an_expression_tells_null_before_all_else(void **state) {
    const tide_arg args[] = {tide_arg_array(good), tide_arg_array(NULL), tide_arg_array(good)};
    tide_array *outs[2], *dsts[] = {good, good};
    tide_expr *gone = tide_expr_new(rt, "(x, y) -> x / y");
    assert_non_null(gone);
    tide_expr_release(gone);
    tide_expr *const all[] = {sum_of_two, gone, NULL};
    (void)state;
    tide_error_clear();
    assert_null(tide_slice(good, "q"));
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        expect_earlier(made(tide_expr_apply(all[i], args, 3)));
        expect_earlier(tide_expr_apply_many(all[i], args, 3, outs, 1));
        expect_earlier(tide_expr_apply_many(all[i], args, 2, outs, 2));
        expect_earlier(tide_expr_apply_many(all[i], args, 2, NULL, 1));
        expect_earlier(tide_expr_apply_into(dsts, 1, all[i], args, 3));
        expect_earlier(tide_expr_apply_into(dsts, 2, all[i], args, 2));
        expect_earlier(tide_expr_apply_into(NULL, 1, all[i], args, 2));
    }
    expect_earlier(made(tide_map_args(rt, "(x) -> x", args, 3)));
    expect_earlier(made(tide_map_args(rt, "(x", args, 2)));
    expect_earlier(made(tide_map_args(rt, NULL, args, 2)));
    expect_earlier(made(tide_map_args(NULL, "(x, y) -> x", args, 2)));
    expect_earlier(tide_map_many_args(rt, "(x, y) -> (x, y)", args, 2, outs, 1));
    expect_earlier(tide_map_many_args(rt, "(x", args, 2, NULL, 1));
    expect_earlier(tide_map_many_args(NULL, NULL, args, 3, outs, 2));
    expect_earlier(tide_map_into_args(good, "(x", args, 2));
    expect_earlier(tide_map_into_args(freed, "(x) -> x", args, 3));
    tide_error_clear();
}

/* Nor any other argument: each of these calls has nothing that is right. */
static void a_null_is_told_before_all_else(void **state) {
    const tide_use uses[] = {{good, TIDE_READ, 0}, {NULL, 77, 0}};
    const tide_arg none = {.kind = 77};
    tide_array *const list[] = {freed, NULL};
    const char *no_format = NULL;
    tide_use_scope *scope;
    void *ptrs[2];
    tide_stream *gone;
    (void)state;
    assert_ok(tide_stream_new(rt, &gone));
    tide_stream_release(gone);
    tide_error_clear();
    assert_null(tide_slice(good, "q"));
    expect_earlier(tide_use_begin(NULL, NULL, uses, 2, ptrs, &scope));
    expect_earlier(tide_use_begin(rt, gone, uses, 2, ptrs, &scope));
    expect_earlier(tide_use_begin(rt, NULL, uses, 2, NULL, NULL));
    expect_earlier(tide_host_view_begin(NULL, 77, NULL));
    expect_earlier(tide_array_prefetch(NULL, -1, -1, 77));
    expect_earlier(tide_array_advise(NULL, -1, -1, 77));
    expect_earlier(tide_to_host(NULL, NULL, 77));
    expect_earlier(tide_item(NULL, NULL));
    expect_earlier(tide_array_get(NULL, NULL, NULL));
    expect_earlier(tide_array_set(NULL, NULL, none));
    expect_earlier(tide_fill(NULL, none));
    expect_earlier(tide_array_on_death(NULL, NULL, NULL));
    expect_earlier(tide_npy_write(NULL, NULL));
    expect_earlier(unless(!tide_array_text(NULL, NULL, 77)));
    expect_earlier(unless(!tide_array_text_with(NULL, &(tide_print_options){0}, NULL, 77)));
    expect_earlier(made(tide_slice(NULL, NULL)));
    expect_earlier(made(tide_slicef(NULL, no_format, 1)));
    expect_earlier(made(tide_slice_ranges(NULL, 77, NULL)));
    expect_earlier(made(tide_reshape(NULL, -1, NULL)));
    expect_earlier(made(tide_broadcast_to(NULL, 77, NULL)));
    expect_earlier(made(tide_cast(NULL, 77)));
    expect_earlier(made(tide_to_memory(NULL, 77)));
    expect_earlier(made(tide_take(freed, NULL, 77)));
    expect_earlier(made(tide_concat(list, 2, 77)));
    expect_earlier(made(tide_flip(NULL, (const int[]){77}, -1)));
    expect_earlier(made(tide_windows(NULL, NULL, NULL, NULL, 77)));
    expect_earlier(made(tide_roll(NULL, NULL, NULL, 77)));
    expect_earlier(made(tide_pad(NULL, NULL, NULL, 77, none)));
    expect_earlier(made(tide_stack(list, 2, 77)));
    expect_earlier(made(tide_tile(NULL, NULL, 77)));
    expect_earlier(made(tide_full_like(NULL, none)));
    expect_earlier(made(tide_trapezoid(freed, tide_arg_array(NULL), 77)));
    expect_earlier(tide_split(NULL, NULL, 0, 77, NULL, 0));
    expect_earlier(tide_meshgrid(list, 2, 77, NULL));
    expect_earlier(made(tide_sum(NULL, (const int[]){77}, -1, 0)));
    expect_earlier(made(tide_argmax(NULL, (const int[]){77}, 0, 0)));
    expect_earlier(tide_gemm(good, none, freed, NULL, none));
    expect_earlier(tide_gemv(NULL, none, freed, good, none));
    expect_earlier(tide_ger(good, none, freed, NULL));
    expect_earlier(tide_axpy(NULL, none, freed));
    expect_earlier(made(tide_solve_triangular(good, NULL, 77)));
    expect_earlier(made(tide_cholesky(NULL, 77)));
    expect_earlier(tide_lu(NULL, NULL, NULL, NULL));
    expect_earlier(tide_lu_factor(NULL, NULL, NULL));
    expect_earlier(tide_qr(NULL, 77, NULL, NULL));
    expect_earlier(tide_svd(NULL, 77, NULL, NULL, NULL));
    expect_earlier(tide_eigh(NULL, 77, NULL, NULL));
    expect_earlier(tide_slogdet(NULL, NULL, NULL));
    expect_earlier(tide_lstsq(freed, NULL, NAN, NULL, NULL, NULL));
    expect_earlier(tide_map_into_args(NULL, NULL, NULL, 77));
    tide_error_clear();
}

/* An out-of-memory report, which is long, and a formula of ten steps. */
static void an_error_passes_through_a_whole_formula(void **state) {
    tide_array *x;
    (void)state;
    tide_error_clear();
    x = tide_ones(rt, TIDE_F64, SHAPE((int64_t)1 << 50));
    for (int i = 0; i < 10; i++) x = tide_mul(good, x);
    double v;
    assert_int_equal(tide_to_host(x, &v, sizeof v), TIDE_E_NOMEM);
    assert_string_equal(tide_error_last()->operation, "tide_ones");
    const char *then = strstr(tide_error_last()->message, "\nthen: ");
    assert_non_null(then);
    assert_string_equal(then, "\nthen: tide_mul: argument 2 is NULL");
    tide_error_clear();
}

/* ---- another runtime ---- */

static void arrays_of_another_runtime_are_refused(void **state) {
    char want[96];
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++)
        for (int k = calls[i].held ? 0 : 1; k < calls[i].n; k++) {
            tide_array *a[MOST];
            arguments(a, k, foreign, good);
            tide_error_clear();
            tide_status s = calls[i].fn(a);
            snprintf(want, sizeof want, "%s belongs to another runtime", calls[i].place[k]);
            if (s != TIDE_E_INVALID || strcmp(tide_error_last()->message, want) != 0 ||
                strcmp(tide_error_last()->operation,
                       calls[i].text ? calls[i].text : calls[i].name) != 0)
                fail_msg("%s with another runtime's array at %d: %s, %s: %s", calls[i].name, k,
                         tide_status_name(s), tide_error_last()->operation,
                         tide_error_last()->message);
        }
    tide_error_clear();
}

/* ---- empty arrays whose pool is gone ---- */

static bool in_a_pool(tide_array *a) {
    const tidei_storage *st = tidei_cell_header(a)->st;
    bool found = false;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(st->dev, x));)
        found = found || x->p == st->pool;
    return found;
}

/* An empty array has no block that would hold its pool. */
static void an_empty_array_outlives_its_pool(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        const tide_pool_config c = {.struct_size = sizeof c, .kind = test_pool(p)};
        tide_array *a[MOST], *view;
        tide_pool *pool;
        if (tide_pool_new(rt, &c, &pool) != TIDE_OK) continue; /* not offered here */
        assert_ok(tide_pool_set(rt, pool));
        for (int i = 0; i < MOST; i++) assert_array(a[i] = tide_empty(rt, TIDE_F32, SHAPE(0, 0)));
        assert_array(view = tide_slice(a[0], "::-1"));
        assert_ok(tide_pool_set(rt, NULL));
        tide_pool_release(pool);
        assert_ok(tide_device_synchronize(rt));
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
        assert_true(in_a_pool(a[0]) && in_a_pool(view));
        for (size_t i = 0; i < TIDEI_COUNT(calls); i++) (void)calls[i].fn(a);
        (void)call_tide_host_view_begin(&view);
        assert_int_equal(tide_array_memory(view), TIDE_MEMORY_DEVICE);
        for (int i = 0; i < MOST; i++) tide_release(a[i]);
        tide_release(view);
    }
    tide_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_every_function),
        cmocka_unit_test(a_null_array_is_told_by_function_and_argument),
        cmocka_unit_test(an_earlier_error_outlives_a_null),
        cmocka_unit_test(an_expression_tells_null_before_all_else),
        cmocka_unit_test(a_null_is_told_before_all_else),
        cmocka_unit_test(an_error_passes_through_a_whole_formula),
        cmocka_unit_test(arrays_of_another_runtime_are_refused),
        cmocka_unit_test(an_empty_array_outlives_its_pool),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
