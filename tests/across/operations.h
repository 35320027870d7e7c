/* operations.h: a call of every public function that may make room in device memory, for tests
** that vary how much there is.
**
** The calls work on inputs that stand (struct world), put what they make into w.out, and say with
** which status they ended. What must stay true: of the inputs a call changes w.dst, w.rng, w.host
** and the file alone, so that it may be repeated; what else it makes it lets go of, whether it
** succeeds or fails. Nothing here knows of limits, pools or pages. The functions are those of the
** headers: one that is new has no row, and a case of test_never_by_hand.c says so. */
#ifndef TIDETEST_OPERATIONS_H
#define TIDETEST_OPERATIONS_H

#include <cblas.h>
#include <math.h>
#include <unistd.h>
#include "tests/support/tidetest.h"

/* ---- what a function works on ---- */

enum { ROWS = 160, SIDE = 136, OUTS = 3 };
static struct world { /* static: a collector that scans finds what it holds */
    tide_runtime *rt;
    bool counted; /* the collector wants releases */
    int64_t cols;
    tide_array *f[3], *i[2], *b; /* (ROWS, cols): f32, i32, bool */
    tide_array *turned;          /* f[0], transposed */
    tide_array *dst;             /* f32, changed by functions that write where they are told */
    tide_array *index;           /* i64 (ROWS) */
    tide_array *spd, *rhs,
        /* f32 (SIDE, SIDE), (SIDE, 3), (SIDE); all others 0 but where linear algebra asks for
        ** them */
        *vec;
    tide_array *out[OUTS];
    tide_expr *expr;
    float *host;
    tide_rng rng;
    char path[64];
} w;

static int64_t elements(void) { return ROWS * w.cols; }
static const int64_t *shape(void) {
    static int64_t s[2];
    s[0] = ROWS;
    s[1] = w.cols;
    return s;
}

/* ---- the functions ---- */

typedef tide_array *one_fn(tide_array *), *two_fn(tide_array *, tide_array *),
    *three_fn(tide_array *, tide_array *, tide_array *),
    *fold_fn(tide_array *, const int *, int, int),
    *make_fn(tide_runtime *, tide_dtype, int, const int64_t *);

static tide_status made(tide_array *a) {
    return (w.out[0] = a) ? TIDE_OK : tide_error_last()->status;
}

static tide_status run_full(void) {
    return made(tide_full(w.rt, TIDE_F32, 2, shape(), tide_arg_float(2.5)));
}
static tide_status run_arange(void) {
    return made(tide_arange(w.rt, TIDE_F32, 0, (double)elements(), 1));
}
static tide_status run_from_host(void) {
    return made(tide_from_host(w.rt, TIDE_F32, 2, shape(), w.host));
}
static tide_status run_to_host(void) {
    return tide_to_host(w.turned, w.host, (size_t)elements() * 4);
}
static tide_status run_item(void) {
    tide_arg x;
    tide_array *one = tide_slice(w.turned, "3, 4");
    tide_status s = one ? tide_item(one, &x) : tide_error_last()->status;
    tide_free(one);
    if (w.counted && one) tide_release(one);
    return s;
}
static tide_status run_item_f64(void) {
    tide_array *one = tide_slice(w.turned, "3, 4");
    double x = tide_item_f64(one);
    tide_free(one);
    if (w.counted && one) tide_release(one);
    return x == x ? TIDE_OK : tide_error_last()->status;
}
static tide_status run_npy_read(void) { return made(tide_npy_read(w.rt, w.path)); }
static tide_status run_npy_write(void) { return tide_npy_write(w.turned, w.path); }
static tide_status run_array_text(void) {
    char text[4000];
    return tide_array_text(w.turned, text, sizeof text) ? TIDE_OK : tide_error_last()->status;
}
static tide_status run_array_text_with(void) { /* the corners are put together on the device */
    const tide_print_options o = {.struct_size = sizeof o, .threshold = 1, .edge_items = 20};
    return tide_array_text_with(w.turned, &o, NULL, 0) ? TIDE_OK : tide_error_last()->status;
}
static tide_status run_reshape(void) { return made(tide_reshape(w.turned, SHAPE(elements()))); }
static tide_status run_contiguous(void) { return made(tide_contiguous(w.turned)); }
static tide_status run_cast(void) { return made(tide_cast(w.f[0], TIDE_F64)); }
static tide_status run_assign(void) { /* overlapping: by a copy */
    tide_array *low = tide_slice(w.dst, "1:"), *high = tide_slice(w.dst, ":-1");
    tide_status s = low && high ? tide_assign(low, high) : tide_error_last()->status;
    tide_free(low), tide_free(high);
    if (w.counted) tide_release(low), tide_release(high);
    return s;
}
static tide_status run_fill(void) { return tide_fill(w.dst, tide_arg_float(3)); }
static tide_status run_memset(void) { return tide_memset(w.dst, 7); }
static tide_status run_var(void) { return made(tide_var(w.f[0], (const int[]){0}, 1, 1, 0)); }
static tide_status run_std(void) { return made(tide_std(w.turned, NULL, 0, 0, 1)); }
static tide_status run_take(void) { return made(tide_take(w.f[0], w.index, 0)); }
static tide_status run_index(void) {
    return made(tide_index(
        w.f[0], 2,
        (const tide_pick[]){tide_pick_array(w.index), tide_pick_range(tide_range_all())}));
}
static tide_status run_index_put(void) { /* values that share its memory: by a copy */
    return tide_index_put(w.dst, 1, (const tide_pick[]){tide_pick_array(w.index)}, w.dst);
}
static tide_status run_take_along(void) { return made(tide_take_along_axis(w.f[0], w.i[0], 0)); }
static tide_status run_repeat(void) { return made(tide_repeat(w.turned, 3, 0)); }
static tide_status run_repeat_each(void) { return made(tide_repeat_each(w.f[0], w.index, 0)); }
static tide_status run_scatter_put(void) { return tide_scatter_put(w.dst, w.index, 0, w.i[0]); }
static tide_status run_scatter_add(void) { /* sorted and folded, its own values: by a copy */
    return tide_scatter_add(w.dst, w.index, 0, w.dst, 0);
}
static tide_status run_scatter_mul(void) { return tide_scatter_mul(w.dst, w.index, 0, w.i[0]); }
static tide_status run_scatter_min(void) { return tide_scatter_min(w.dst, w.index, 0, w.f[0]); }
static tide_status run_scatter_max(void) { return tide_scatter_max(w.dst, w.index, 0, w.f[0]); }
static tide_status run_segment_sum(void) {
    return made(tide_segment_sum(w.f[0], w.index, ROWS, 0));
}
static tide_status run_segment_mean(void) {
    return made(tide_segment_mean(w.i[0], w.index, ROWS, 0));
}
static tide_status run_segment_min(void) {
    return made(tide_segment_min(w.f[0], w.index, ROWS, 0));
}
static tide_status run_segment_max(void) {
    return made(tide_segment_max(w.turned, w.index, ROWS, 1));
}
/* all rows in one segment; the offsets are what it needs too */
static tide_status run_offsets(tide_array *(*fn)(tide_array *, tide_array *, int)) {
    static const int64_t ends[] = {0, ROWS};
    tide_array *offsets = tide_from_host(w.rt, TIDE_I64, SHAPE(2), ends);
    if (!offsets) return tide_error_last()->status;
    tide_status s = made(fn(w.f[0], offsets, 0));
    tide_free(offsets);
    if (w.counted) tide_release(offsets);
    return s;
}
static tide_status run_sum_offsets(void) { return run_offsets(tide_segment_sum_offsets); }
static tide_status run_mean_offsets(void) { return run_offsets(tide_segment_mean_offsets); }
static tide_status run_min_offsets(void) { return run_offsets(tide_segment_min_offsets); }
static tide_status run_max_offsets(void) { return run_offsets(tide_segment_max_offsets); }
static tide_status run_put_along(void) { /* of another type: by a cast */
    return tide_put_along_axis(w.dst, w.i[0], 0, w.i[1]);
}
static tide_status run_cumsum(void) { return made(tide_cumsum(w.turned, 0, 0)); }
static tide_status run_cumprod(void) {
    return made(tide_cumprod(w.f[0], 1, TIDE_SCAN_REVERSE | TIDE_SCAN_INITIAL));
}
static tide_status run_cummin(void) { return made(tide_cummin(w.turned, 1, 0)); }
static tide_status run_cummax(void) { return made(tide_cummax(w.i[0], 0, 0)); }
static tide_status run_nonzero(void) { return tide_nonzero(w.turned, w.out, 2); }
static tide_status run_argwhere(void) { return made(tide_argwhere(w.b)); }
static tide_status run_masked_select(void) { return made(tide_masked_select(w.f[0], w.b)); }
static tide_status run_masked_put(void) { /* as many values as there are places */
    tide_array *values = tide_masked_select(w.i[0], w.b);
    if (!values) return tide_error_last()->status;
    tide_status s = tide_masked_put(w.dst, w.b, values);
    tide_free(values);
    if (w.counted) tide_release(values);
    return s;
}
static tide_status run_sort(void) { return made(tide_sort(w.turned, 0, 0)); }
static tide_status run_argsort(void) { return made(tide_argsort(w.turned, 1, 1)); }
static tide_status run_sort_both(void) {
    return tide_sort_both(w.i[0], 0, 0, &w.out[0], &w.out[1]);
}
static tide_status run_partition(void) { return made(tide_partition(w.f[0], 3, 1)); }
static tide_status run_argpartition(void) { return made(tide_argpartition(w.f[0], 3, 0)); }
static tide_status run_topk(void) { return tide_topk(w.f[0], 5, 0, 1, &w.out[0], &w.out[1]); }
static tide_status run_lexsort(void) {
    return made(tide_lexsort((tide_array *const[]){w.i[0], w.b, w.f[0]}, 3, 0));
}
static tide_status run_searchsorted(void) { return made(tide_searchsorted(w.vec, w.turned, 0)); }
static tide_status run_unique_counts(void) {
    return tide_unique_counts(w.turned, &w.out[0], &w.out[1]);
}
static tide_status run_unique_inverse(void) {
    return tide_unique_inverse(w.f[0], &w.out[0], &w.out[1]);
}
static tide_status run_unique_all(void) {
    return tide_unique_all(w.turned, &w.out[0], &w.out[1], &w.out[2], NULL);
}
static tide_status run_quantile(void) {
    return made(tide_quantile(w.f[0], tide_arg_float(0.3), NULL, 0, 0));
}
static tide_status run_histogram(void) {
    return tide_histogram(w.turned, 10, NAN, NAN, &w.out[0], &w.out[1]);
}
static tide_status run_bincount(void) { return made(tide_bincount(w.i[0], w.f[0], -1)); }
static tide_status run_concat(void) {
    return made(tide_concat((tide_array *const[]){w.f[0], w.i[0], w.turned}, 2, 0));
}
static tide_status run_reshape_with(void) {
    return made(tide_reshape_with(w.f[0], SHAPE(elements()), TIDE_COPY_ALWAYS));
}
static tide_status run_roll(void) {
    return made(tide_roll(w.turned, (const int64_t[]){3, 5}, (const int[]){0, 1}, 2));
}
static tide_status run_pad(void) {
    return made(tide_pad(w.turned, (const int64_t[]){3, 5}, (const int64_t[]){7, 0},
                         TIDE_PAD_REFLECT, tide_arg_int(0)));
}
static tide_status run_stack(void) {
    return made(tide_stack((tide_array *const[]){w.f[0], w.i[0]}, 2, 1));
}
static tide_status run_tile(void) { return made(tide_tile(w.turned, (const int64_t[]){2, 1}, 2)); }
static tide_status run_tril(void) { return made(tide_tril(w.turned, 3)); }
static tide_status run_triu(void) { return made(tide_triu(w.turned, 3)); }
static tide_status run_eye(void) { return made(tide_eye(w.rt, TIDE_F32, ROWS, w.cols, 3)); }
static tide_status run_full_like(void) {
    return made(tide_full_like(w.turned, tide_arg_float(2.5)));
}
static tide_status run_linspace(void) {
    return made(tide_linspace(w.rt, TIDE_F32, 0, 1, elements(), 1));
}
static tide_status run_logspace(void) {
    return made(tide_logspace(w.rt, TIDE_F32, 0, 1, elements(), 1, 10));
}
static tide_status run_diff(void) { return made(tide_diff(w.turned, 2, 0)); }
static tide_status run_trapezoid(void) {
    return made(tide_trapezoid(w.turned, tide_arg_float(0.5), 1));
}
static tide_status run_empty_in(void) {
    return made(tide_empty_in(w.rt, TIDE_MEMORY_DEVICE, TIDE_F32, 2, shape()));
}
static tide_status run_to_memory(void) {
    return made(tide_to_memory(w.turned, TIDE_MEMORY_DEVICE));
}
static tide_status run_uniform(void) {
    return made(tide_random_uniform(w.rt, &w.rng, TIDE_F32, 2, shape()));
}
static tide_status run_normal(void) {
    return made(tide_random_normal(w.rt, &w.rng, TIDE_F32, 2, shape()));
}
static tide_status run_integers(void) {
    return made(tide_random_integers(w.rt, &w.rng, TIDE_I32, 2, shape(), -5, 5));
}
static tide_status run_random_permutation(void) {
    return made(tide_random_permutation(w.rt, &w.rng, elements()));
}
static tide_status run_expr_apply(void) {
    const tide_arg args[] = {tide_arg_array(w.f[0]), tide_arg_array(w.turned)};
    tide_expr *e = tide_expr_new(w.rt, "(x, y) -> sum(x*x) + sum(y, axis=1)");
    if (!e) return tide_error_last()->status;
    tide_status s = made(tide_expr_apply(e, args, 2));
    tide_expr_release(e);
    return s;
}
static tide_status run_expr_apply_many(void) {
    const tide_arg args[] = {tide_arg_array(w.f[0]), tide_arg_array(w.f[1])};
    return tide_expr_apply_many(w.expr, args, 2, w.out, 2);
}
static tide_status apply_both(void *user, const tide_arg *args, size_t n, tide_array **outs,
                              size_t m) {
    tide_array *between[2];
    (void)user;
    tide_status s = tide_expr_apply_many(w.expr, args, n, between, m);
    if (s != TIDE_OK) return s;
    const tide_arg more[] = {tide_arg_array(between[0]), tide_arg_array(between[1])};
    s = tide_expr_apply_many(w.expr, more, 2, outs, m);
    for (int i = 0; i < 2; i++) {
        tide_free(between[i]);
        if (w.counted) tide_release(between[i]);
    }
    return s;
}
static tide_status run_graph(void) { /* called, captured and built */
    const tide_arg args[] = {tide_arg_array(w.f[0]), tide_arg_array(w.f[1])};
    tide_graph *g = tide_graph_new(w.rt, apply_both, NULL);
    tide_status s = g ? TIDE_OK : tide_error_last()->status;
    for (int i = 0; i < 2 && s == TIDE_OK; i++) {
        for (int k = 0; i && k < 2; k++) {
            tide_free(w.out[k]);
            if (w.counted) tide_release(w.out[k]);
            w.out[k] = NULL;
        }
        s = tide_graph_run(g, args, 2, w.out, 2);
    }
    tide_graph_release(g);
    return s;
}
static tide_status run_expr_apply_into(void) { /* overlapping its operand: by a copy */
    tide_array *low = tide_slice(w.dst, "1:"), *high = tide_slice(w.dst, ":-1");
    tide_expr *e = tide_expr_new(w.rt, "(x) -> x + 1");
    const tide_arg arg = tide_arg_array(high);
    tide_status s =
        low && high && e ? tide_expr_apply_into(&low, 1, e, &arg, 1) : tide_error_last()->status;
    tide_expr_release(e);
    tide_free(low), tide_free(high);
    if (w.counted) tide_release(low), tide_release(high);
    return s;
}
static tide_status run_map(void) {
    const tide_arg args[] = {tide_arg_array(w.f[0]), tide_arg_array(w.f[1])};
    return made(tide_map_args(w.rt, "(x, y) -> x - mean(y, axis=0)", args, 2));
}
static tide_status run_map_many(void) {
    const tide_arg args[] = {tide_arg_array(w.f[0]), tide_arg_array(w.f[1])};
    return tide_map_many_args(w.rt, "(x, y) -> (x - mean(y, axis=0), x*y)", args, 2, w.out, 2);
}
static tide_status run_map_into(void) {
    const tide_arg arg = tide_arg_array(w.f[0]);
    return tide_map_into_args(w.dst, "(x) -> x*2", &arg, 1);
}
static tide_status run_matmul(void) { return made(tide_matmul(w.f[0], w.turned)); }
static tide_status run_linear(void) {
    tide_array *bias = tide_slice(w.f[0], ":, 0");
    tide_status s = made(tide_linear(w.f[0], w.turned, bias, TIDE_GELU));
    tide_free(bias);
    if (w.counted) tide_release(bias);
    return s;
}

static tide_status run_gemm(void) {
    tide_array *c = tide_slice(w.dst, ":136, :136");
    tide_status s = c ? tide_gemm(c, tide_arg_float(1), w.spd, w.spd, tide_arg_float(0.5))
                      : tide_error_last()->status;
    tide_free(c);
    if (w.counted) tide_release(c);
    return s;
}
static tide_status run_gemv(void) {
    tide_array *y = tide_slice(w.dst, "0, :136");
    tide_status s = y ? tide_gemv(y, tide_arg_float(1), w.spd, w.vec, tide_arg_float(1))
                      : tide_error_last()->status;
    tide_free(y);
    if (w.counted) tide_release(y);
    return s;
}
static tide_status run_ger(void) {
    tide_array *a = tide_slice(w.dst, ":136, :136");
    tide_status s = a ? tide_ger(a, tide_arg_float(1), w.vec, w.vec) : tide_error_last()->status;
    tide_free(a);
    if (w.counted) tide_release(a);
    return s;
}
static tide_status run_axpy(void) { return tide_axpy(w.dst, tide_arg_float(2), w.f[0]); }
static tide_status run_dot(void) { return made(tide_dot(w.f[0], w.f[1])); }
static tide_status run_nrm2(void) { return made(tide_nrm2(w.turned)); }
static tide_status run_triangular(void) {
    return made(tide_solve_triangular(w.spd, w.rhs, TIDE_LOWER));
}
static tide_status run_lu_factor(void) { return tide_lu_factor(w.spd, &w.out[0], &w.out[1]); }
static tide_status run_lu_solve(void) { /* its own factors are what it needs too */
    tide_array *lu = NULL, *pivots = NULL;
    tide_status s = tide_lu_factor(w.spd, &lu, &pivots);
    if (s != TIDE_OK) return s;
    s = made(tide_lu_solve(lu, pivots, w.rhs));
    tide_free(lu), tide_free(pivots);
    if (w.counted) tide_release(lu), tide_release(pivots);
    return s;
}
static tide_status run_lu(void) { return tide_lu(w.spd, &w.out[0], &w.out[1], &w.out[2]); }
static tide_status run_cholesky(void) { return made(tide_cholesky(w.spd, TIDE_LOWER)); }
static tide_status run_qr(void) { return tide_qr(w.spd, TIDE_REDUCED, &w.out[0], &w.out[1]); }
static tide_status run_svd(void) {
    return tide_svd(w.spd, TIDE_REDUCED, &w.out[0], &w.out[1], &w.out[2]);
}
static tide_status run_eigh(void) { return tide_eigh(w.spd, TIDE_LOWER, &w.out[0], &w.out[1]); }
static tide_status run_solve(void) { return made(tide_solve(w.spd, w.rhs)); }
static tide_status run_inv(void) { return made(tide_inv(w.spd)); }
static tide_status run_det(void) { return made(tide_det(w.spd)); }
static tide_status run_slogdet(void) { return tide_slogdet(w.spd, &w.out[0], &w.out[1]); }
static tide_status run_lstsq(void) {
    return tide_lstsq(w.spd, w.rhs, -1, &w.out[0], &w.out[1], &w.out[2]);
}

/* How it is called. FLOATS, INTS, BOOLS: on one to three arrays of these. */
enum form { MAKE, FLOATS_1, FLOATS_2, FLOATS_3, INTS_1, INTS_2, WHERE, FOLD, RUN };
static const struct row {
    const char *name;
    enum form form;
    union {
        make_fn *make;
        one_fn *one;
        two_fn *two;
        three_fn *three;
        fold_fn *fold;
        tide_status (*run)(void);
    } fn;
} rows[] = {
#define ROW(f, form_, slot)                                                                        \
    {                                                                                              \
        "tide_" #f, form_, { .slot = tide_##f }                                                    \
    }
#define OWN(f, run_)                                                                               \
    {                                                                                              \
        "tide_" #f, RUN, { .run = run_ }                                                           \
    }
    ROW(empty, MAKE, make),
    ROW(zeros, MAKE, make),
    ROW(ones, MAKE, make),
    OWN(full, run_full),
    OWN(arange, run_arange),
    OWN(from_host, run_from_host),
    OWN(to_host, run_to_host),
    OWN(item, run_item),
    OWN(item_f64, run_item_f64),
    OWN(npy_read, run_npy_read),
    OWN(npy_write, run_npy_write),
    OWN(array_text, run_array_text),
    OWN(array_text_with, run_array_text_with),
    OWN(reshape, run_reshape),
    ROW(copy, FLOATS_1, one),
    OWN(contiguous, run_contiguous),
    OWN(cast, run_cast),
    OWN(assign, run_assign),
    OWN(fill, run_fill),
    OWN(memset, run_memset),
    OWN(take, run_take),
    OWN(concat, run_concat),
    /* order.h */
    OWN(sort, run_sort),
    OWN(argsort, run_argsort),
    OWN(sort_both, run_sort_both),
    OWN(partition, run_partition),
    OWN(argpartition, run_argpartition),
    OWN(topk, run_topk),
    OWN(lexsort, run_lexsort),
    OWN(searchsorted, run_searchsorted),
    ROW(isin, FLOATS_2, two),
    ROW(unique_values, FLOATS_1, one),
    OWN(unique_counts, run_unique_counts),
    OWN(unique_inverse, run_unique_inverse),
    OWN(unique_all, run_unique_all),
    OWN(quantile, run_quantile),
    ROW(median, FOLD, fold),
    OWN(histogram, run_histogram),
    OWN(bincount, run_bincount),
    /* scan.h, select.h */
    OWN(cumsum, run_cumsum),
    OWN(cumprod, run_cumprod),
    OWN(cummin, run_cummin),
    OWN(cummax, run_cummax),
    OWN(nonzero, run_nonzero),
    OWN(argwhere, run_argwhere),
    ROW(count_nonzero, FOLD, fold),
    OWN(masked_select, run_masked_select),
    OWN(masked_put, run_masked_put),
    /* index.h */
    OWN(index, run_index),
    OWN(index_put, run_index_put),
    OWN(take_along_axis, run_take_along),
    OWN(put_along_axis, run_put_along),
    OWN(repeat, run_repeat),
    OWN(repeat_each, run_repeat_each),
    OWN(scatter_put, run_scatter_put),
    OWN(scatter_add, run_scatter_add),
    OWN(scatter_mul, run_scatter_mul),
    OWN(scatter_min, run_scatter_min),
    OWN(scatter_max, run_scatter_max),
    OWN(segment_sum, run_segment_sum),
    OWN(segment_mean, run_segment_mean),
    OWN(segment_min, run_segment_min),
    OWN(segment_max, run_segment_max),
    OWN(segment_sum_offsets, run_sum_offsets),
    OWN(segment_mean_offsets, run_mean_offsets),
    OWN(segment_min_offsets, run_min_offsets),
    OWN(segment_max_offsets, run_max_offsets),
    /* ops.h */
    ROW(add, FLOATS_2, two),
    ROW(sub, FLOATS_2, two),
    ROW(mul, FLOATS_2, two),
    ROW(div, FLOATS_2, two),
    ROW(floordiv, FLOATS_2, two),
    ROW(rem, FLOATS_2, two),
    ROW(truncdiv, FLOATS_2, two),
    ROW(fmod, FLOATS_2, two),
    ROW(pow, FLOATS_2, two),
    ROW(maximum, FLOATS_2, two),
    ROW(minimum, FLOATS_2, two),
    ROW(atan2, FLOATS_2, two),
    ROW(hypot, FLOATS_2, two),
    ROW(copysign, FLOATS_2, two),
    ROW(nextafter, FLOATS_2, two),
    ROW(ldexp, FLOATS_2, two),
    ROW(logaddexp, FLOATS_2, two),
    ROW(gcd, INTS_2, two),
    ROW(neg, FLOATS_1, one),
    ROW(abs, FLOATS_1, one),
    ROW(sign, FLOATS_1, one),
    ROW(square, FLOATS_1, one),
    ROW(reciprocal, FLOATS_1, one),
    ROW(mantissa, FLOATS_1, one),
    ROW(exponent, FLOATS_1, one),
    ROW(real, FLOATS_1, one),
    ROW(imag, FLOATS_1, one),
    ROW(conj, FLOATS_1, one),
    ROW(complex, FLOATS_2, two),
    ROW(angle, FLOATS_1, one),
    ROW(eq, FLOATS_2, two),
    ROW(ne, FLOATS_2, two),
    ROW(lt, FLOATS_2, two),
    ROW(le, FLOATS_2, two),
    ROW(gt, FLOATS_2, two),
    ROW(ge, FLOATS_2, two),
    ROW(isnan, FLOATS_1, one),
    ROW(isinf, FLOATS_1, one),
    ROW(isfinite, FLOATS_1, one),
    ROW(signbit, FLOATS_1, one),
    ROW(logical_and, FLOATS_2, two),
    ROW(logical_or, FLOATS_2, two),
    ROW(logical_xor, FLOATS_2, two),
    ROW(logical_not, FLOATS_1, one),
    ROW(bit_and, INTS_2, two),
    ROW(bit_or, INTS_2, two),
    ROW(bit_xor, INTS_2, two),
    ROW(bit_not, INTS_1, one),
    ROW(shl, INTS_2, two),
    ROW(shr, INTS_2, two),
    ROW(popcount, INTS_1, one),
    ROW(floor, FLOATS_1, one),
    ROW(ceil, FLOATS_1, one),
    ROW(trunc, FLOATS_1, one),
    ROW(round, FLOATS_1, one),
    ROW(sqrt, FLOATS_1, one),
    ROW(exp, FLOATS_1, one),
    ROW(expm1, FLOATS_1, one),
    ROW(exp2, FLOATS_1, one),
    ROW(log, FLOATS_1, one),
    ROW(log1p, FLOATS_1, one),
    ROW(log2, FLOATS_1, one),
    ROW(log10, FLOATS_1, one),
    ROW(sin, FLOATS_1, one),
    ROW(cos, FLOATS_1, one),
    ROW(tan, FLOATS_1, one),
    ROW(asin, FLOATS_1, one),
    ROW(acos, FLOATS_1, one),
    ROW(atan, FLOATS_1, one),
    ROW(sinh, FLOATS_1, one),
    ROW(cosh, FLOATS_1, one),
    ROW(tanh, FLOATS_1, one),
    ROW(asinh, FLOATS_1, one),
    ROW(acosh, FLOATS_1, one),
    ROW(atanh, FLOATS_1, one),
    ROW(erf, FLOATS_1, one),
    ROW(erfc, FLOATS_1, one),
    ROW(erfinv, FLOATS_1, one),
    ROW(norm_cdf, FLOATS_1, one),
    ROW(norm_ppf, FLOATS_1, one),
    ROW(lgamma, FLOATS_1, one),
    ROW(digamma, FLOATS_1, one),
    ROW(sinc, FLOATS_1, one),
    ROW(where, WHERE, three),
    ROW(clip, FLOATS_3, three),
    ROW(sum, FOLD, fold),
    ROW(prod, FOLD, fold),
    ROW(min, FOLD, fold),
    ROW(max, FOLD, fold),
    ROW(mean, FOLD, fold),
    ROW(any, FOLD, fold),
    ROW(all, FOLD, fold),
    ROW(argmin, FOLD, fold),
    ROW(argmax, FOLD, fold),
    OWN(var, run_var),
    OWN(std, run_std),
    OWN(matmul, run_matmul),
    OWN(linear, run_linear),
    /* memory.h, random.h, expr.h */
    OWN(empty_in, run_empty_in),
    OWN(to_memory, run_to_memory),
    OWN(random_uniform, run_uniform),
    OWN(random_normal, run_normal),
    OWN(random_integers, run_integers),
    OWN(random_permutation, run_random_permutation),
    OWN(expr_apply, run_expr_apply),
    OWN(expr_apply_many, run_expr_apply_many),
    OWN(graph_run, run_graph),
    OWN(expr_apply_into, run_expr_apply_into),
    OWN(map_args, run_map),
    OWN(map_many_args, run_map_many),
    OWN(map_into_args, run_map_into),
    /* linalg.h */
    OWN(gemm, run_gemm),
    OWN(gemv, run_gemv),
    OWN(ger, run_ger),
    OWN(axpy, run_axpy),
    OWN(dot, run_dot),
    OWN(nrm2, run_nrm2),
    OWN(solve_triangular, run_triangular),
    OWN(lu_factor, run_lu_factor),
    OWN(lu_solve, run_lu_solve),
    OWN(lu, run_lu),
    OWN(cholesky, run_cholesky),
    OWN(qr, run_qr),
    OWN(svd, run_svd),
    OWN(eigh, run_eigh),
    OWN(solve, run_solve),
    OWN(inv, run_inv),
    OWN(det, run_det),
    OWN(slogdet, run_slogdet),
    OWN(lstsq, run_lstsq),
    /* shape.h */
    OWN(reshape_with, run_reshape_with),
    OWN(roll, run_roll),
    OWN(pad, run_pad),
    OWN(stack, run_stack),
    OWN(tile, run_tile),
    OWN(tril, run_tril),
    OWN(triu, run_triu),
    OWN(eye, run_eye),
    ROW(empty_like, FLOATS_1, one),
    ROW(zeros_like, FLOATS_1, one),
    ROW(ones_like, FLOATS_1, one),
    OWN(full_like, run_full_like),
    OWN(linspace, run_linspace),
    OWN(logspace, run_logspace),
    OWN(diff, run_diff),
    OWN(trapezoid, run_trapezoid),
};

/* These may collect for the record of an array, or for an array that was spilled. They take no
** memory of the device for a result. */
static const char *const without[] = {
    "tide_retain",
    "tide_slice_ranges",
    "tide_slice",
    "tide_transpose",
    "tide_broadcast_to",
    "tide_expand_dims",
    "tide_squeeze",
    "tide_host_view_begin",
    "tide_array_get",
    "tide_array_set",
    "tide_use_begin",
    "tide_slicef",
    "tide_flip",
    "tide_moveaxis",
    "tide_diagonal",
    "tide_windows",
    "tide_unstack",
    "tide_split",
    "tide_broadcast_arrays",
    "tide_meshgrid",
};

static tide_status call(const struct row *r) {
    tide_array **a = r->form == INTS_1 || r->form == INTS_2 ? w.i : w.f;
    const int axis = 0;
    switch (r->form) {
    case MAKE: return made(r->fn.make(w.rt, TIDE_F32, 2, shape()));
    case FLOATS_1:
    case INTS_1: return made(r->fn.one(a[0]));
    case FLOATS_2:
    case INTS_2: return made(r->fn.two(a[0], a[1]));
    case FLOATS_3: return made(r->fn.three(a[0], a[1], a[2]));
    case WHERE: return made(r->fn.three(w.b, a[1], a[2]));
    case FOLD: return made(r->fn.fold(w.turned, &axis, 1, 0));
    default: return r->fn.run();
    }
}

static bool has_row(const char *name) {
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++)
        if (!strcmp(rows[i].name, name)) return true;
    return false;
}
static bool is_without(const char *name) {
    for (size_t i = 0; i < TIDEI_COUNT(without); i++)
        if (!strcmp(without[i], name)) return true;
    return false;
}

/* ---- the inputs ---- */

static void drop(tide_array **a) {
    if (!*a) return;
    tide_free(*a);
    if (w.counted) tide_release(*a);
    *a = NULL;
}
static void drop_outs(void) {
    for (int i = 0; i < OUTS; i++) drop(&w.out[i]);
}
static tide_array **const inputs[] = {&w.f[0],   &w.f[1], &w.f[2],  &w.i[0], &w.i[1], &w.b,
                                      &w.turned, &w.dst,  &w.index, &w.spd,  &w.rhs,  &w.vec};

static float value(int64_t k, int which) { return (float)((k * 37 + which * 11) % 101) / 50 - 1; }

static tide_array *floats(int which) {
    for (int64_t k = 0; k < elements(); k++) w.host[k] = value(k, which);
    return tide_from_host(w.rt, TIDE_F32, 2, shape(), w.host);
}
static tide_array *dominant(int64_t n, int64_t k) { /* well conditioned, where it is square */
    for (int64_t at = 0; at < n * k; at++) {
        int64_t r = at / k, c = at % k;
        w.host[at] = r == c ? (float)SIDE : 1 / (float)(1 + r + c);
    }
    return k > 1 ? tide_from_host(w.rt, TIDE_F32, SHAPE(n, k), w.host)
                 : tide_from_host(w.rt, TIDE_F32, SHAPE(n), w.host);
}

/* In a frame of its own: what it leaves on the stack is the collector's. */
static __attribute__((noinline)) void make_inputs(void) {
    int64_t index[ROWS];
    for (int i = 0; i < 3; i++) assert_array(w.f[i] = floats(i));
    for (int i = 0; i < 2; i++)
        assert_array(w.i[i] = tide_full(w.rt, TIDE_I32, 2, shape(), tide_arg_int(i + 3)));
    assert_array(w.b = tide_lt(w.f[0], w.f[1]));
    assert_array(w.turned = tide_transpose(w.f[0], NULL));
    assert_array(w.dst = tide_zeros(w.rt, TIDE_F32, 2, shape()));
    for (int i = 0; i < ROWS; i++) index[i] = ROWS - 1 - i;
    assert_array(w.index = tide_from_host(w.rt, TIDE_I64, SHAPE(ROWS), index));
    assert_array(w.spd = dominant(SIDE, SIDE));
    assert_array(w.rhs = dominant(SIDE, 3));
    assert_array(w.vec = dominant(SIDE, 1));
    assert_non_null(w.expr = tide_expr_new(w.rt, "(x, y) -> (x + y, x - y)"));
    assert_ok(tide_npy_write(w.f[0], w.path));
    assert_ok(tide_device_synchronize(w.rt));
}

/* Inputs of so many columns, in a runtime that was opened with this collector. */
static void world_open(tide_runtime *rt, const char *collector, int64_t cols) {
    memset(&w, 0, sizeof w);
    openblas_set_num_threads(1); /* ThreadSanitizer does not see how its own threads take turns */
    w.rt = rt;
    w.counted = strcmp(collector, "refcount") == 0;
    w.cols = cols;
    w.host = malloc((size_t)elements() * 8);
    assert_non_null(w.host);
    strcpy(w.path, "/tmp/tide_never_XXXXXX");
    close(mkstemp(w.path));
    make_inputs();
}
/* Lets go of all of it; the runtime stays open. */
static void world_close(void) {
    drop_outs();
    for (size_t i = 0; i < TIDEI_COUNT(inputs); i++) drop(inputs[i]);
    tide_expr_release(w.expr);
    unlink(w.path);
    free(w.host);
}

#endif
