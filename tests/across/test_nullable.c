/* Every pointer that tide-api.json calls nullable, given as NULL to the function that takes it: at
** a count of 0 where one counts it. api_table.h, made from the headers, says which these are; the
** table below has a call of each. */
#include "tests/support/tidetest.h"
#include "api_table.h"

static tide_runtime *rt;
static tide_array *one, *none, *square, *within_reach; /* rank 0; (0); (2, 2); rank 0, pinned */
static tide_expr *two;

static int open_it(void **state) {
    const tide_config c = {.collector = "refcount", .device = "host"};
    const int64_t shape[] = {2, 2}, empty[] = {0};
    (void)state;
    rt = test_open(&c);
    one = tide_ones(rt, TIDE_F32, 0, NULL);
    none = tide_ones(rt, TIDE_F32, 1, empty);
    square = tide_ones(rt, TIDE_F32, 2, shape);
    within_reach = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, 0, NULL);
    two = tide_expr_new(rt, "() -> 2.0");
    return one && none && square && within_reach && two ? 0 : -1;
}
static int close_it(void **state) {
    tide_array *const all[] = {one, none, square, within_reach};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    tide_close(rt);
    return 0;
}

/* ---- how a call ended ---- */

/* Of those that return no status: each begins without an error. */
static tide_status recorded(void) { return tide_error_last()->status; }
static tide_status made(tide_array *a) {
    tide_release(a);
    return a ? TIDE_OK : recorded();
}
static tide_status written(size_t length) { return length ? TIDE_OK : recorded(); }
static tide_status gave(tide_status s, tide_array *const *a, tide_array *const *b) {
    if (a) tide_release(*a);
    if (b) tide_release(*b);
    return s;
}

/* ---- the calls ---- */

#define CALL(name, arg) static tide_status name##_##arg(void)
#define MAKES(name, arg, ...)                                                                      \
    CALL(name, arg) { return made(name(__VA_ARGS__)); }
#define WRITES(name, arg, ...)                                                                     \
    CALL(name, arg) { return written(name(__VA_ARGS__)); }
#define GIVES(name, arg, ...)                                                                      \
    CALL(name, arg) { return name(__VA_ARGS__); }
#define DOES(name, arg, ...)                                                                       \
    CALL(name, arg) {                                                                              \
        name(__VA_ARGS__);                                                                         \
        return recorded();                                                                         \
    }

DOES(tide_close, rt, NULL)
DOES(tide_thread_detach, rt, NULL)
DOES(tide_stream_release, s, NULL)
DOES(tide_pool_release, pool, NULL)
DOES(tide_expr_release, e, NULL)
DOES(tide_graph_release, g, NULL)
DOES(tide_free, a, NULL)
DOES(tide_release, a, NULL)
DOES(tide_batches_count, b, NULL)
DOES(tide_batches_rewind, b, NULL)
DOES(tide_batches_release, b, NULL)
DOES(tide_collector_is_device_library, name, NULL)
DOES(tide_adapt_release, x, rt, "nullable", NULL)
GIVES(tide_stream_set, s, rt, NULL)
GIVES(tide_pool_set, pool, rt, NULL)
GIVES(tide_synchronize, s, rt, NULL)
GIVES(tide_reclaim, freed, rt, TIDE_RECLAIM_PURGE, NULL)
GIVES(tide_to_host, dst, none, NULL, 0)

CALL(tide_open, config) {
    tide_runtime *other = NULL;
    tide_status s = tide_open(NULL, &other);
    tide_close(other);
    return s;
}
CALL(tide_pool_new, config) {
    tide_pool *pool = NULL;
    tide_status s = tide_pool_new(rt, NULL, &pool);
    tide_pool_release(pool);
    return s;
}
CALL(tide_stream_wrap, native) {
    tide_stream *s;
    return tide_stream_wrap(rt, NULL, &s); /* a host device has none */
}
CALL(tide_use_begin, all) {
    tide_use_scope *scope;
    tide_status s = tide_use_begin(rt, NULL, NULL, 0, NULL, &scope);
    return s ? s : tide_use_end(scope);
}
CALL(tide_pool_malloc, s) {
    tide_pool *pool = tide_pool_default(rt);
    void *p = tide_pool_malloc(pool, NULL, 8);
    tide_pool_free(pool, NULL, p);
    tide_pool_free(pool, NULL, NULL);
    return recorded();
}
CALL(tide_torch_malloc, stream) {
    void *p = tide_torch_malloc(8, 0, NULL);
    tide_torch_free(p, 8, 0, NULL);
    tide_torch_free(NULL, 8, 0, NULL);
    tide_torch_close();
    return recorded();
}
CALL(tide_adapt_register, id) {
    const tide_adapt_rule rule = {.type = "nullable", .bytes = 8}; /* nor has it fields */
    return tide_adapt_register(rt, &rule, NULL);
}
static tide_status gives_nothing(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted, (void)given;
    return TIDE_OK;
}
CALL(tide_reclaimable_register, id) {
    const tide_reclaimable cache = {
        .struct_size = sizeof cache, .name = "nullable", .purge = gives_nothing};
    return tide_reclaimable_register(rt, &cache, NULL);
}
static int collects_nothing(void *user, int level) {
    (void)user;
    (void)level;
    return TIDE_COLLECT_UNSUPPORTED;
}
CALL(tide_collector_register, id) {
    const tide_collector c = {sizeof c, .name = "nullable", .collect = collects_nothing};
    return tide_collector_register(rt, &c, NULL);
}

WRITES(tide_device_text, buf, rt, NULL, 0)
WRITES(tide_runtime_text, buf, rt, NULL, 0)
WRITES(tide_pool_text, buf, tide_pool_default(rt), NULL, 0)
WRITES(tide_array_text, buf, one, NULL, 0)
WRITES(tide_array_text_with, buf, one, NULL, NULL, 0)

MAKES(tide_empty, shape, rt, TIDE_F32, 0, NULL)
MAKES(tide_zeros, shape, rt, TIDE_F32, 0, NULL)
MAKES(tide_ones, shape, rt, TIDE_F32, 0, NULL)
MAKES(tide_full, shape, rt, TIDE_F32, 0, NULL, tide_arg_int(1))
MAKES(tide_empty_in, shape, rt, TIDE_MEMORY_DEFAULT, TIDE_F32, 0, NULL)
MAKES(tide_reshape, shape, one, 0, NULL)
MAKES(tide_broadcast_to, shape, one, 0, NULL)
MAKES(tide_slice_ranges, ranges, none, 0, NULL)
MAKES(tide_transpose, perm, square, NULL)
MAKES(tide_flip, axes, square, NULL, 0)
MAKES(tide_moveaxis, source, square, NULL, NULL, 0)
MAKES(tide_windows, lengths, square, NULL, NULL, NULL, 0)
MAKES(tide_reshape_with, shape, one, 0, NULL, TIDE_COPY_NEVER)
MAKES(tide_roll, shifts, square, NULL, NULL, 0)
MAKES(tide_pad, before, one, NULL, NULL, TIDE_PAD_EDGE, tide_arg_int(0))
MAKES(tide_tile, reps, square, NULL, 0)
GIVES(tide_unstack, outs, none, 0, NULL, 0)
CALL(tide_split, indices) {
    tide_array *x = NULL, *y = NULL, *outs[2];
    tide_status s = tide_split(square, NULL, 0, 0, outs, 2);
    if (s == TIDE_OK) x = outs[0], y = outs[1];
    return gave(s, &x, &y);
}
MAKES(tide_index, picks, square, 0, NULL)
GIVES(tide_index_put, picks, square, 0, NULL, one)
CALL(tide_from_host, shape) {
    const float x = 1;
    return made(tide_from_host(rt, TIDE_F32, 0, NULL, &x));
}
CALL(tide_from_host, data) {
    const int64_t empty[] = {0};
    return made(tide_from_host(rt, TIDE_F32, 1, empty, NULL));
}
CALL(tide_data_host, shape) {
    const float x = 1;
    return tide_data_host(TIDE_F32, 0, NULL, &x).host == &x ? TIDE_OK : TIDE_E_INVALID;
}
CALL(tide_data_host, host) {
    const int64_t empty[] = {0};
    return tide_data_host(TIDE_F32, 1, empty, NULL).ndim == 1 ? TIDE_OK : TIDE_E_INVALID;
}
#define DRAWS(name, ...)                                                                           \
    CALL(name, shape) {                                                                            \
        tide_rng rng = {1, 0};                                                                     \
        return made(name(rt, &rng, __VA_ARGS__));                                                  \
    }
DRAWS(tide_random_uniform, TIDE_F32, 0, NULL)
DRAWS(tide_random_normal, TIDE_F32, 0, NULL)
DRAWS(tide_random_integers, TIDE_I32, 0, NULL, 0, 4)

GIVES(tide_array_set, index, within_reach, NULL, tide_arg_int(1))
CALL(tide_array_get, index) {
    tide_arg out;
    return tide_array_get(within_reach, NULL, &out);
}

MAKES(tide_expr_apply, args, two, NULL, 0)
MAKES(tide_map_args, args, rt, "() -> 1.0", NULL, 0)
GIVES(tide_expr_apply_into, args, &one, 1, two, NULL, 0)
GIVES(tide_map_into_args, args, one, "() -> 1.0", NULL, 0)
CALL(tide_expr_apply_many, args) {
    tide_array *out = NULL;
    return gave(tide_expr_apply_many(two, NULL, 0, &out, 1), &out, NULL);
}
static tide_status makes_two(void *user, const tide_arg *args, size_t n, tide_array **outs,
                             size_t m) {
    (void)user, (void)args;
    if (n || (m && !(outs[0] = tide_expr_apply(two, NULL, 0)))) return TIDE_E_INVALID;
    return TIDE_OK;
}
static tide_status run_graph(size_t m) { /* called, captured, launched */
    tide_graph *g = tide_graph_new(rt, makes_two, NULL);
    tide_status s = g ? TIDE_OK : recorded();
    for (int i = 0; i < 3 && s == TIDE_OK; i++) {
        tide_array *out = NULL;
        s = gave(tide_graph_run(g, NULL, 0, m ? &out : NULL, m), &out, NULL);
    }
    tide_graph_release(g);
    return s;
}
CALL(tide_graph_run, args) { return run_graph(1); }
CALL(tide_graph_run, outs) { return run_graph(0); }
CALL(tide_map_many_args, args) {
    tide_array *out = NULL;
    return gave(tide_map_many(rt, &out, 1, "() -> 1.0"), &out, NULL); /* which gives it NULL */
}

#define FOLDS(X) X(sum) X(prod) X(min) X(max) X(mean) X(any) X(all) X(argmin) X(argmax)
MAKES(tide_count_nonzero, axes, square, NULL, 0, 0)
#define FOLD(name) MAKES(tide_##name, axes, square, NULL, 0, 0)
FOLDS(FOLD)
MAKES(tide_var, axes, square, NULL, 0, 0, 0)
MAKES(tide_std, axes, square, NULL, 0, 0, 0)

/* Results that are not wanted, one at a time; x and y are for the others. */
#define PAIR(name, arg, ...)                                                                       \
    CALL(name, arg) {                                                                              \
        tide_array *x = NULL, *y = NULL;                                                           \
        return gave(name(square, __VA_ARGS__), &x, &y);                                            \
    }
PAIR(tide_lu_factor, lu, NULL, &x)
PAIR(tide_lu_factor, pivots, &x, NULL)
PAIR(tide_lu, perm, NULL, &x, &y)
PAIR(tide_lu, l, &x, NULL, &y)
PAIR(tide_lu, u, &x, &y, NULL)
PAIR(tide_qr, q, TIDE_REDUCED, NULL, &x)
PAIR(tide_qr, r, TIDE_REDUCED, &x, NULL)
PAIR(tide_svd, u, TIDE_REDUCED, NULL, &x, &y)
PAIR(tide_svd, s, TIDE_REDUCED, &x, NULL, &y)
PAIR(tide_svd, vh, TIDE_REDUCED, &x, &y, NULL)
PAIR(tide_eigh, w, TIDE_LOWER, NULL, &x)
PAIR(tide_eigh, v, TIDE_LOWER, &x, NULL)
PAIR(tide_slogdet, sign, NULL, &x)
PAIR(tide_slogdet, logabs, &x, NULL)
PAIR(tide_lstsq, x, square, -1, NULL, &x, &y)
PAIR(tide_lstsq, rank, square, -1, &x, NULL, &y)
PAIR(tide_lstsq, s, square, -1, &x, &y, NULL)

PAIR(tide_sort_both, values, 0, 0, NULL, &x)
PAIR(tide_sort_both, indices, 0, 0, &x, NULL)
PAIR(tide_topk, values, 1, 0, 1, NULL, &x)
PAIR(tide_topk, indices, 1, 0, 1, &x, NULL)
PAIR(tide_unique_counts, values, NULL, &x)
PAIR(tide_unique_counts, counts, &x, NULL)
PAIR(tide_unique_inverse, values, NULL, &x)
PAIR(tide_unique_inverse, inverse, &x, NULL)
PAIR(tide_unique_all, values, NULL, &x, &y, NULL)
PAIR(tide_unique_all, indices, &x, NULL, &y, NULL)
PAIR(tide_unique_all, inverse, &x, &y, NULL, NULL)
PAIR(tide_unique_all, counts, &x, NULL, &y, NULL)
PAIR(tide_histogram, counts, 2, 0, 1, NULL, &x)
PAIR(tide_histogram, edges, 2, 0, 1, &x, NULL)
MAKES(tide_median, axes, square, NULL, 0, 0)
MAKES(tide_quantile, axes, square, tide_arg_float(0.5), NULL, 0, 0)
CALL(tide_bincount, weights) {
    tide_array *whole = tide_ones(rt, TIDE_I32, 0, NULL);
    tide_status s = made(tide_bincount(whole, NULL, 2));
    tide_release(whole);
    return s;
}

/* ---- the table ---- */

static const struct call {
    const char *place; /* as in api_nullable */
    tide_status (*fn)(void);
} calls[] = {
#define ROW(name, arg)                                                                             \
    { #name "." #arg, name##_##arg }
#define AS(name, arg, other)                                                                       \
    { #name "." #arg, other }
    /* objects */
    ROW(tide_close, rt),
    ROW(tide_thread_detach, rt),
    ROW(tide_stream_release, s),
    ROW(tide_pool_release, pool),
    ROW(tide_expr_release, e),
    ROW(tide_graph_release, g),
    ROW(tide_free, a),
    ROW(tide_release, a),
    ROW(tide_batches_count, b),
    ROW(tide_batches_rewind, b),
    ROW(tide_batches_release, b),
    ROW(tide_stream_set, s),
    ROW(tide_pool_set, pool),
    ROW(tide_synchronize, s),
    /* memory, configurations and numbers */
    ROW(tide_open, config),
    ROW(tide_pool_new, config),
    ROW(tide_stream_wrap, native),
    AS(tide_use_begin, s, tide_use_begin_all),
    AS(tide_use_begin, uses, tide_use_begin_all),
    AS(tide_use_begin, ptrs, tide_use_begin_all),
    ROW(tide_pool_malloc, s),
    AS(tide_pool_free, s, tide_pool_malloc_s),
    AS(tide_pool_free, ptr, tide_pool_malloc_s),
    ROW(tide_torch_malloc, stream),
    AS(tide_torch_free, ptr, tide_torch_malloc_stream),
    AS(tide_torch_free, stream, tide_torch_malloc_stream),
    ROW(tide_adapt_register, id),
    ROW(tide_adapt_release, x),
    ROW(tide_collector_register, id),
    ROW(tide_reclaim, freed),
    ROW(tide_reclaimable_register, id),
    ROW(tide_collector_is_device_library, name),
    ROW(tide_to_host, dst),
    /* texts */
    ROW(tide_device_text, buf),
    ROW(tide_runtime_text, buf),
    ROW(tide_pool_text, buf),
    ROW(tide_array_text, buf),
    ROW(tide_array_text_with, buf),
    AS(tide_array_text_with, options, tide_array_text_with_buf),
    /* shapes, axes, indices */
    ROW(tide_empty, shape),
    ROW(tide_zeros, shape),
    ROW(tide_ones, shape),
    ROW(tide_full, shape),
    ROW(tide_empty_in, shape),
    ROW(tide_reshape, shape),
    ROW(tide_broadcast_to, shape),
    ROW(tide_slice_ranges, ranges),
    ROW(tide_transpose, perm),
    ROW(tide_flip, axes),
    ROW(tide_moveaxis, source),
    AS(tide_moveaxis, destination, tide_moveaxis_source),
    ROW(tide_windows, lengths),
    AS(tide_windows, axes, tide_windows_lengths),
    AS(tide_windows, steps, tide_windows_lengths),
    ROW(tide_reshape_with, shape),
    ROW(tide_roll, shifts),
    AS(tide_roll, axes, tide_roll_shifts),
    ROW(tide_pad, before),
    AS(tide_pad, after, tide_pad_before),
    ROW(tide_tile, reps),
    ROW(tide_unstack, outs),
    ROW(tide_split, indices),
    ROW(tide_index, picks),
    ROW(tide_index_put, picks),
    ROW(tide_from_host, shape),
    ROW(tide_from_host, data),
    ROW(tide_data_host, shape),
    ROW(tide_data_host, host),
    ROW(tide_random_uniform, shape),
    ROW(tide_random_normal, shape),
    ROW(tide_random_integers, shape),
    ROW(tide_array_set, index),
    ROW(tide_array_get, index),
#define FOLD_ROW(name) ROW(tide_##name, axes),
    FOLDS(FOLD_ROW) ROW(tide_count_nonzero, axes),
    ROW(tide_median, axes),
    ROW(tide_quantile, axes),
    ROW(tide_bincount, weights),
    ROW(tide_var, axes),
    ROW(tide_std, axes),
    /* arguments of expressions */
    ROW(tide_expr_apply, args),
    ROW(tide_map_args, args),
    ROW(tide_expr_apply_into, args),
    ROW(tide_map_into_args, args),
    ROW(tide_expr_apply_many, args),
    ROW(tide_map_many_args, args),
    ROW(tide_graph_run, args),
    ROW(tide_graph_run, outs),
    /* results that are not wanted */
    ROW(tide_sort_both, values),
    ROW(tide_sort_both, indices),
    ROW(tide_topk, values),
    ROW(tide_topk, indices),
    ROW(tide_unique_counts, values),
    ROW(tide_unique_counts, counts),
    ROW(tide_unique_inverse, values),
    ROW(tide_unique_inverse, inverse),
    ROW(tide_unique_all, values),
    ROW(tide_unique_all, indices),
    ROW(tide_unique_all, inverse),
    ROW(tide_unique_all, counts),
    ROW(tide_histogram, counts),
    ROW(tide_histogram, edges),
    ROW(tide_lu_factor, lu),
    ROW(tide_lu_factor, pivots),
    ROW(tide_lu, perm),
    ROW(tide_lu, l),
    ROW(tide_lu, u),
    ROW(tide_qr, q),
    ROW(tide_qr, r),
    ROW(tide_svd, u),
    ROW(tide_svd, s),
    ROW(tide_svd, vh),
    ROW(tide_eigh, w),
    ROW(tide_eigh, v),
    ROW(tide_slogdet, sign),
    ROW(tide_slogdet, logabs),
    ROW(tide_lstsq, x),
    ROW(tide_lstsq, rank),
    ROW(tide_lstsq, s),
};

static void null_is_taken_where_the_header_says_so(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
        tide_error_clear();
        tide_status s = calls[i].fn();
        if (s != TIDE_OK && s != TIDE_E_UNSUPPORTED) /* no native streams; no LAPACK */
            fail_msg("%s NULL: %s: %s", calls[i].place, tide_status_name(s),
                     tide_error_last()->message);
    }
}

static bool is_called(const char *place) {
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++)
        if (strcmp(calls[i].place, place) == 0) return true;
    return false;
}
static bool is_nullable(const char *place) {
    for (size_t i = 0; i < API_NULLABLE; i++)
        if (strcmp(api_nullable[i], place) == 0) return true;
    return false;
}
/* The table has each, and no other. */
static void the_table_has_every_nullable_pointer(void **state) {
    (void)state;
    for (size_t i = 0; i < API_NULLABLE; i++)
        if (!is_called(api_nullable[i])) fail_msg("no call has %s NULL", api_nullable[i]);
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++)
        if (!is_nullable(calls[i].place)) fail_msg("%s is not nullable", calls[i].place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(null_is_taken_where_the_header_says_so, open_it, close_it),
        cmocka_unit_test(the_table_has_every_nullable_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
