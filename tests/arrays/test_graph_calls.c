/* test_graph_calls.c: what a graph's function may do and may not, when it is called, and what is
** said where it fails. */
#include <unistd.h>
#include "tests/arrays/checked.h"
#include "tests/arrays/graph_programs.h"
#include "tests/arrays/elements.h"

static int open_runtime(void **state) {
    *state = open_checked();
    return 0;
}
static int close_runtime(void **state) {
    close_checked(*state);
    return 0;
}

/* A graph of fn in a world of its own, to be run on x. */
static world w;
static tide_graph *graph_of(tide_runtime *rt, tide_graph_fn fn) {
    w = (world){.rt = rt};
    tide_graph *g = tide_graph_new(rt, fn, &w);
    assert_non_null(g);
    return g;
}
static tide_status run_once(tide_graph *g, tide_array *x, tide_array **out) {
    const tide_arg arg = tide_arg_array(x);
    return tide_graph_run(g, &arg, 1, out, 1);
}
static void has(tide_graph *g, uint64_t calls, uint64_t captures, uint64_t launches) {
    const tide_graph_figures f = figures_of(g);
    if (f.calls != calls || f.captures != captures || f.launches != launches)
        fail_msg("%d calls, %d captures, %d launches; wanted %d, %d, %d", (int)f.calls,
                 (int)f.captures, (int)f.launches, (int)calls, (int)captures, (int)launches);
}

/* ---- when the function is called ---- */

FN(twice) {
    UNUSED;
    DONE(outs[0] = tide_map(RT, "(x) -> x * 2", ARRAY(0)));
    return TIDE_OK;
}

static void twice_at_first_and_then_no_more(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, twice);
    has(g, 0, 0, 0);
    for (int run = 0; run < 5; run++) {
        tide_array *x = tide_full(rt, TIDE_F32, SHAPE(3), tide_arg_int(run)), *y;
        assert_ok(run_once(g, x, &y));
        HAS_F32(y, 2 * (float)run, 2 * (float)run, 2 * (float)run);
        tide_release(x);
        tide_release(y);
        has(g, run < 2 ? (uint64_t)run + 1 : 2, run > 0, (uint64_t)run);
    }
    const tide_graph_figures f = figures_of(g);
    assert_int_equal(f.runs, 5);
    assert_int_equal(f.builds, 1);
    assert_int_equal(f.nodes, 1);
    assert_int_equal(f.bytes, 0); /* nothing lies in between */
    tide_graph_release(g);
}

/* What nobody looks at is left out: a chain, also where it is written a second time. What stays is
** what writes to an array that is kept, through a view too, what reads it before, and results. */
FN(with_work_for_nobody) {
    UNUSED;
    tide_array *b, *read, *head;
    DONE(b = tide_map(RT, "(x) -> x * 3", ARRAY(0)));
    DONE(b = tide_map(RT, "(a) -> a + 1", b));
    OK(tide_map_into(b, "(b) -> b - 5", b));
    DONE(read = tide_map(RT, "(k) -> k * 10", KEEP(0)));
    DONE(head = tide_slice(KEEP(0), ":2"));
    OK(tide_map_into(head, "(k) -> k + 1", head));
    DONE(outs[0] = tide_map(RT, "(r, k) -> r + k", read, KEEP(0)));
    return TIDE_OK;
}

static void work_for_nobody_is_left_out(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, with_work_for_nobody);
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(3)), *y;
    assert_ok(tide_scope_begin(rt));
    keep(&w, tide_zeros(rt, TIDE_F32, SHAPE(3)));
    assert_ok(tide_scope_end(rt));
    for (int run = 0; run < 5; run++) {
        const float k = (float)run;
        assert_ok(run_once(g, x, &y));
        HAS_F32(y, 11 * k + 1, 11 * k + 1, 0);
        HAS_F32(w.kept[0], k + 1, k + 1, 0);
        tide_release(y);
    }
    has(g, 2, 1, 4);
    assert_int_equal(figures_of(g).nodes, 3);
    tide_graph_release(g);
    end_world(&w);
    tide_release(x);
}

/* ... but not what tells of bad indices. */
FN(with_a_bad_index_for_nobody) {
    UNUSED;
    tide_array *taken;
    DONE(taken = tide_take(KEEP(0), ARRAY(0), 0));
    DONE(outs[0] = tide_map(RT, "(x) -> x + 1", ARRAY(0)));
    return TIDE_OK;
}

static void bad_indices_for_nobody_are_told(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, with_a_bad_index_for_nobody);
    tide_array *good = tide_from_host(rt, TIDE_I64, 1, (const int64_t[]){3}, (int64_t[]){0, 2, 1}),
               *bad = tide_from_host(rt, TIDE_I64, 1, (const int64_t[]){3}, (int64_t[]){0, 77, 1}),
               *y;
    assert_ok(tide_scope_begin(rt));
    keep(&w, tide_zeros(rt, TIDE_F32, SHAPE(3)));
    assert_ok(tide_scope_end(rt));
    for (int run = 0; run < 6; run++) {
        assert_ok(run_once(g, run % 2 ? bad : good, &y));
        assert_int_equal(tide_synchronize(rt, NULL), run % 2 ? TIDE_E_BOUNDS : TIDE_OK);
        tide_error_clear();
        tide_release(y);
    }
    has(g, 2, 1, 5);
    assert_int_equal(figures_of(g).nodes, 2);
    tide_graph_release(g);
    end_world(&w);
    tide_release(good);
    tide_release(bad);
}

/* Each of these is another key than the first. */
static void again_for_other_arguments(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, twice);
    tide_array *wide = tide_ones(rt, TIDE_F32, SHAPE(4, 8)),
               *others[] = {tide_ones(rt, TIDE_F32, SHAPE(4, 2)),
                            tide_ones(rt, TIDE_F64, SHAPE(4, 8)),
                            tide_ones(rt, TIDE_F32, SHAPE(4, 4, 2)),
                            tide_transpose(tide_reshape(wide, SHAPE(8, 4)), NULL),
                            tide_slice(tide_ones(rt, TIDE_F32, SHAPE(4, 9)), ":, 1:"),
                            tide_slice(tide_ones(rt, TIDE_F32, SHAPE(33)), "1:"),
                            tide_slice(tide_ones(rt, TIDE_F32, SHAPE(33)), ":-1"),
                            tide_broadcast_to(tide_ones(rt, TIDE_F32, SHAPE(8)), 2,
                                              (int64_t[]){4, 8}),
                            tide_to_memory(wide, TIDE_MEMORY_PINNED)},
               *y;
    for (unsigned i = 0; i < TIDEI_COUNT(others); i++) {
        assert_array(others[i]);
        for (int k = 0; k < 3; k++) assert_ok(run_once(g, others[i], &y));
        has(g, 2 * i + 2, i + 1, 2 * i + 2);
    }
    /* more than a graph remembers: the one used longest ago is forgotten */
    for (int64_t n = 40; n < 80; n++)
        assert_ok(run_once(g, tide_zeros(rt, TIDE_F32, SHAPE(n)), &y));
    const uint64_t calls = figures_of(g).calls;
    assert_ok(run_once(g, others[0], &y));
    assert_int_equal(figures_of(g).calls, calls + 1);
    tide_graph_release(g);
}

static bool flipped;
FN(flips) {
    UNUSED;
    DONE(outs[0] = tide_map(RT, flipped ? "(x) -> x - 1" : "(x) -> x + 1", ARRAY(0)));
    return TIDE_OK;
}
static void what_it_decides_is_frozen_until_a_reset(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, flips);
    tide_array *x = tide_zeros(rt, TIDE_F32, SHAPE(1)), *y;
    flipped = false;
    for (int i = 0; i < 2; i++) assert_ok(run_once(g, x, &y));
    flipped = true;
    assert_ok(run_once(g, x, &y));
    HAS_F32(y, 1);
    assert_ok(tide_graph_reset(g));
    assert_int_equal(figures_of(g).nodes, 0);
    for (int i = 0; i < 3; i++) {
        assert_ok(run_once(g, x, &y));
        HAS_F32(y, -1);
    }
    tide_graph_release(g);
}

/* ---- what cannot be captured ---- */

static char path[] = "/tmp/tide-graph-XXXXXX";
static unsigned char bytes[4096];
static tide_status as_status(const void *made) {
    return made ? TIDE_OK : tide_error_last()->status;
}
#define BAD(name, ...)                                                                             \
    static tide_status bad_##name(tide_array *x, tide_array *f) {                                  \
        tide_runtime *rt = tide_array_runtime(x);                                                  \
        tide_array *outs[4];                                                                       \
        (void)rt, (void)f, (void)outs;                                                             \
        return __VA_ARGS__;                                                                        \
    }
#define MADE(call) as_status(call)
static tide_host_view view;
static tide_use_scope *scope;
static tide_batches *batches;
static void *pointer;
static tide_arg item;
BAD(to_host, tide_to_host(x, bytes, 36))
BAD(item, tide_item(tide_slice(x, "0, 0"), &item))
BAD(item_f64, tide_item_f64(tide_slice(x, "0, 0")) >= 0 ? TIDE_OK : tide_error_last()->status)
BAD(from_host, MADE(tide_from_host(rt, TIDE_F32, SHAPE(9), bytes)))
BAD(array_get, tide_array_get(x, (const int64_t[]){0, 0}, &item))
BAD(array_set, tide_array_set(x, (const int64_t[]){0, 0}, tide_arg_int(1)))
BAD(host_view_begin, tide_host_view_begin(x, TIDE_READ, &view))
BAD(npy_write, tide_npy_write(x, path))
BAD(npy_read, MADE(tide_npy_read(rt, path)))
BAD(array_text, tide_array_text(x, (char *)bytes, 100) ? TIDE_OK : tide_error_last()->status)
BAD(nonzero, tide_nonzero(x, outs, 2))
BAD(argwhere, MADE(tide_argwhere(x)))
BAD(masked_select, MADE(tide_masked_select(x, tide_gt(x, x))))
BAD(masked_put, tide_masked_put(x, tide_eq(x, x), tide_zeros(rt, TIDE_F32, SHAPE(9))))
BAD(unique_values, MADE(tide_unique_values(x)))
BAD(unique_counts, tide_unique_counts(x, &outs[0], &outs[1]))
BAD(unique_inverse, tide_unique_inverse(x, &outs[0], &outs[1]))
BAD(unique_all, tide_unique_all(x, &outs[0], &outs[1], &outs[2], &outs[3]))
BAD(repeat_each, MADE(tide_repeat_each(x, tide_ones(rt, TIDE_I64, SHAPE(3)), 0)))
BAD(synchronize, tide_synchronize(rt, NULL))
BAD(device_synchronize, tide_device_synchronize(rt))
BAD(use_begin, tide_use_begin(rt, NULL, &(tide_use){x, TIDE_READ, 0}, 1, &pointer, &scope))
BAD(pool_malloc, MADE(tide_pool_malloc(tide_pool_default(rt), NULL, 100)))
BAD(lu_factor, tide_lu_factor(f, &outs[0], &outs[1]))
BAD(lu, tide_lu(f, &outs[0], &outs[1], &outs[2]))
BAD(cholesky, MADE(tide_cholesky(f, TIDE_LOWER)))
BAD(qr, tide_qr(f, TIDE_REDUCED, &outs[0], &outs[1]))
BAD(svd, tide_svd(f, TIDE_REDUCED, &outs[0], &outs[1], &outs[2]))
BAD(eigh, tide_eigh(f, TIDE_LOWER, &outs[0], &outs[1]))
BAD(solve, MADE(tide_solve(f, f)))
BAD(inv, MADE(tide_inv(f)))
BAD(det, MADE(tide_det(f)))
BAD(slogdet, tide_slogdet(f, &outs[0], &outs[1]))
BAD(lstsq, tide_lstsq(f, f, -1, &outs[0], &outs[1], &outs[2]))
#define UNIFIED tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(4))
BAD(array_prefetch, tide_array_prefetch(UNIFIED, 0, 4, TIDE_TO_HOST))
BAD(array_advise, tide_array_advise(UNIFIED, 0, 4, TIDE_ADVISE_HOST))
static tide_status bad_batches_new(tide_array *x, tide_array *f) {
    tide_data source = tide_data_host(TIDE_F32, 1, (int64_t[]){4}, bytes);
    tide_batches_config c = {.struct_size = sizeof c, .arrays = &source, .narrays = 1, .batch = 2};
    (void)f;
    return tide_batches_new(tide_array_runtime(x), &c, &batches);
}
static tide_status bad_graph_run(tide_array *x, tide_array *f) {
    tide_graph *g = tide_graph_new(tide_array_runtime(x), twice, &w);
    tide_array *out;
    (void)f;
    tide_status s = run_once(g, x, &out);
    tide_graph_release(g);
    return s;
}

static const struct bad {
    const char *name;
    tide_status (*call)(tide_array *x, tide_array *f);
} bads[] = {
#define ROW(name)                                                                                  \
    { "tide_" #name, bad_##name }
    ROW(to_host),
    ROW(item),
    {"tide_item", bad_item_f64},
    ROW(from_host),
    ROW(array_get),
    ROW(array_set),
    ROW(host_view_begin),
    ROW(npy_write),
    ROW(npy_read),
    ROW(array_text),
    ROW(nonzero),
    ROW(argwhere),
    ROW(masked_select),
    ROW(masked_put),
    ROW(unique_values),
    ROW(unique_counts),
    ROW(unique_inverse),
    ROW(unique_all),
    ROW(repeat_each),
    ROW(synchronize),
    ROW(device_synchronize),
    ROW(use_begin),
    ROW(pool_malloc),
    ROW(lu_factor),
    ROW(lu),
    ROW(cholesky),
    ROW(qr),
    ROW(svd),
    ROW(eigh),
    ROW(solve),
    ROW(inv),
    ROW(det),
    ROW(slogdet),
    ROW(lstsq),
    ROW(batches_new),
    ROW(graph_run),
    ROW(array_prefetch),
    ROW(array_advise),
};

static const struct bad *bad;
static bool shrugs;
static unsigned worked; /* calls of the function in which the bad one was right */

/* It writes into x and what it keeps, does what it must not, and goes on whatever came of it. */
FN(does_it) {
    UNUSED;
    OK(tide_map_into(KEEP(0), "(k) -> k + 1", KEEP(0)));
    OK(tide_map_into(ARRAY(0), "(x) -> x * 2", ARRAY(0)));
    tide_status s = bad->call(ARRAY(0), KEEP(1));
    worked += s == TIDE_OK;
    if (!shrugs && s != TIDE_OK) return s;
    if (shrugs) tide_error_clear();
    DONE((outs[0] = tide_copy(ARRAY(0))) || shrugs);
    return TIDE_OK;
}

static void end_what_was_begun(void) {
    if (view.reserved[0]) assert_ok(tide_host_view_end(&view));
    if (scope) assert_ok(tide_use_end(scope));
    if (pointer && !scope) tide_pool_free(tide_pool_default(w.rt), NULL, pointer);
    tide_batches_release(batches);
    scope = NULL, pointer = NULL, batches = NULL;
}

static void refused(tide_graph *g, const struct bad *b, tide_array *x) {
    tide_array *out = x, *were[2] = {tide_copy(x), tide_copy(w.kept[0])};
    assert_int_equal(run_once(g, x, &out), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, b->name);
    assert_error(TIDE_E_UNSUPPORTED, "cannot be captured");
    assert_ptr_equal(out, x); /* and nothing was done */
    same_arrays(b->name, 0, 1, were[0], x);
    same_arrays(b->name, 1, 1, were[1], w.kept[0]);
}

/* Called it is right, and captured it is refused, each time. */
static void refuse(tide_runtime *rt, const struct bad *b, bool fn_shrugs) {
    tide_graph *g = graph_of(rt, does_it);
    tide_array *out;
    bad = b, shrugs = fn_shrugs;
    assert_ok(tide_scope_begin(rt));
    keep(&w, tide_zeros(rt, TIDE_F32, SHAPE(3)));
    keep(&w, tide_eye(rt, TIDE_F32, 3, 3, 0));
    tide_array *x = tide_to_memory(tide_ones(rt, TIDE_F32, SHAPE(3, 3)), TIDE_MEMORY_PINNED);
    assert_ok(tide_npy_write(w.kept[1], path));
    for (int run = 0; run < 6; run++) {
        worked = 0;
        if (run % 3) {
            refused(g, b, x);
            continue;
        }
        assert_ok(tide_graph_reset(g));
        if (run_once(g, x, &out) != TIDE_OK)
            fail_msg("%s: %s", b->name, tide_error_last()->message);
        assert_int_equal(worked, 1);
        end_what_was_begun();
    }
    assert_int_equal(figures_of(g).captures, 0);
    tide_graph_release(g);
    end_world(&w);
    assert_ok(tide_scope_end(rt));
}

static void what_needs_an_outcome_is_refused_by_name(void **state) {
    int file = mkstemp(path);
    assert_true(file >= 0);
    for (size_t i = 0; i < TIDEI_COUNT(bads); i++) {
        refuse(*state, &bads[i], false);
        refuse(*state, &bads[i], true);
    }
    unlink(path);
}

/* ---- errors ---- */

static tide_status returned;
FN(fails) {
    UNUSED;
    outs[0] = NULL;
    if (returned == TIDE_E_SHAPE) return as_status(tide_add(ARRAY(0), KEEP(0)));
    return returned;
}
static void the_functions_error_is_the_runs(void **state) {
    tide_runtime *rt = *state;
    assert_ok(tide_scope_begin(rt));
    for (int at = 0; at < 3; at++) { /* the run that fails: called, captured, called again */
        tide_graph *g = graph_of(rt, fails);
        tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(3)), *none = x;
        keep(&w, tide_ones(rt, TIDE_F32, SHAPE(4)));
        for (int run = 0; run < at; run++) {
            returned = TIDE_OK;
            assert_ok(run_once(g, x, &none));
            assert_null(none);
            none = x;
            if (run) assert_ok(tide_graph_reset(g));
        }
        returned = TIDE_E_SHAPE;
        assert_int_equal(run_once(g, x, &none), TIDE_E_SHAPE);
        assert_error(TIDE_E_SHAPE, "do not broadcast");
        tide_error_clear();
        returned = TIDE_E_IO; /* of which it tells nothing */
        assert_int_equal(run_once(g, x, &none), TIDE_E_IO);
        assert_error(TIDE_E_IO, "the function returned TIDE_E_IO");
        assert_string_equal(tide_error_last()->operation, "tide_graph_run");
        assert_ptr_equal(none, x);
        returned = TIDE_OK;
        for (int k = 0; k < 3; k++) assert_ok(run_once(g, x, &none));
        assert_int_equal(figures_of(g).launches > 0, 1);
        tide_graph_release(g);
        end_world(&w);
    }
    assert_ok(tide_scope_end(rt));
}

FN(gives_it_back) {
    UNUSED;
    DONE(outs[0] = tide_copy(ARRAY(0)));
    outs[1] = ARRAY(0);
    return TIDE_OK;
}
static void an_argument_itself_is_no_result(void **state) {
    tide_graph *g = graph_of(*state, gives_it_back);
    tide_array *x = tide_ones(*state, TIDE_F32, SHAPE(2)), *outs[2] = {x, x};
    const tide_arg arg = tide_arg_array(x);
    for (int run = 0; run < 3; run++) {
        assert_int_equal(tide_graph_run(g, &arg, 1, outs, 2), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "argument 1 itself as result 2");
        assert_ptr_equal(outs[0], x);
    }
    assert_int_equal(test_stats(*state).arrays, 1);
    tide_graph_release(g);
}

/* ---- what a captured call leaves behind ---- */

static tide_array *stale;
FN(hides_one) {
    UNUSED;
    tide_array *a = tide_map(RT, "(x) -> x + 1", ARRAY(0));
    DONE(a);
    if (stale) tide_release(stale);
    stale = tide_retain(a);
    DONE(outs[0] = tide_map(RT, "(a) -> a * 2", a));
    return TIDE_OK;
}
static void arrays_of_a_captured_call_end_with_it(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, hides_one), *other;
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(2)), *y;
    char text[100];
    assert_ok(tide_scope_begin(rt));
    for (int run = 0; run < 2; run++) assert_ok(run_once(g, x, &y));
    HAS_F32(y, 4, 4);
    assert_null(tide_add(stale, x));
    assert_error(TIDE_E_INVALID, "captured call");
    assert_int_equal(tide_to_host(stale, text, 8), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "ended with it");
    assert_null(tide_slice(stale, "1:"));
    assert_error(TIDE_E_INVALID, "captured call");
    assert_int_equal(tide_array_dim(stale, 0), 2); /* what it was like can be asked */
    assert_int_equal(run_once(g, stale, &y), TIDE_E_INVALID);
    tide_error_clear();
    other = graph_of(rt, twice); /* neither plainly nor captured */
    for (int run = 0; run < 3; run++) assert_int_equal(run_once(other, stale, &y), TIDE_E_INVALID);
    tide_release(stale);
    stale = NULL;
    tide_graph_release(g);
    tide_graph_release(other);
    assert_ok(tide_scope_end(rt));
    tide_release(x);
    assert_int_equal(test_stats(rt).arrays, 0);
}
FN(uses_stale) {
    UNUSED;
    DONE(outs[0] = tide_add(ARRAY(0), stale));
    return TIDE_OK;
}
static void nor_are_they_of_use_in_another_capture(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, hides_one), *other;
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(2)), *y;
    assert_ok(tide_scope_begin(rt));
    assert_ok(run_once(g, x, &y));
    other = tide_graph_new(rt, uses_stale, &w);
    assert_ok(run_once(other, x, &y));
    assert_ok(run_once(g, x, &y)); /* captured */
    assert_int_equal(run_once(other, x, &y), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "captured call");
    tide_release(stale);
    stale = NULL;
    tide_graph_release(g);
    tide_graph_release(other);
    assert_ok(tide_scope_end(rt));
    tide_release(x);
}

static unsigned deaths;
static void on_death(void *user) { deaths++, (void)user; }
FN(mourns) {
    UNUSED;
    tide_array *a = tide_copy(ARRAY(0));
    DONE(a);
    OK(tide_array_on_death(a, on_death, NULL));
    OK(tide_collect(RT));
    tide_release(a);
    tide_safepoint(RT);
    return TIDE_OK;
}
static void deaths_within_are_told(void **state) {
    tide_graph *g = graph_of(*state, mourns);
    tide_array *x = tide_ones(*state, TIDE_F32, SHAPE(2)), *y;
    deaths = 0;
    for (int run = 0; run < 4; run++) assert_ok(run_once(g, x, &y));
    assert_int_equal(deaths, 2); /* of the two calls */
    tide_graph_release(g);
    tide_release(x);
}

/* ---- numbers ---- */

static tide_arg foreign;
FN(takes_numbers) {
    UNUSED;
    tide_array *a[2] = {NULL};
    double got;
    const tide_arg both[] = {args[0], foreign};
    if (foreign.kind == TIDE_ARG_NUMBER) {
        assert_null(tide_map_args(RT, "(x, n) -> x + n", both, 2));
        assert_error(TIDE_E_INVALID, "number of another run");
    } else
        foreign = args[1];
    assert_int_equal(args[1].kind, TIDE_ARG_NUMBER);
    got = args[1].value.f; /* is of no use */
    (void)got;
    assert_int_equal(tide_fill(ARRAY(0), args[1]), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "a number of a graph's run was given");
    assert_null(tide_full(RT, TIDE_F32, SHAPE(2), args[1]));
    assert_int_equal(tide_gemm(ARRAY(0), args[1], ARRAY(0), ARRAY(0), args[1]), TIDE_E_INVALID);
    tide_error_clear();
    DONE(a[0] = tide_map(RT, "(x, n) -> x + n", ARRAY(0), args[1]));
    outs[0] = a[0];
    return TIDE_OK;
}
static void numbers_are_their_runs(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, takes_numbers);
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(1, 1)), *y;
    assert_ok(tide_scope_begin(rt));
    foreign = tide_arg_int(0);
    for (int run = 0; run < 3; run++) {
        const tide_arg args[] = {tide_arg_array(x), tide_arg_float(run)};
        assert_ok(tide_graph_run(g, args, 2, &y, 1));
        HAS_F32(y, 1 + (float)run);
    }
    /* it tells nothing outside, not even to a run */
    assert_null(tide_map(rt, "(n) -> n + 1", foreign));
    assert_int_equal(tide_error_last()->status, TIDE_E_INVALID);
    const tide_arg args[] = {tide_arg_array(x), foreign};
    assert_int_equal(tide_graph_run(g, args, 2, &y, 1), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "no kind of argument");
    assert_ok(tide_scope_end(rt));
    tide_graph_release(g);
    tide_release(x);
}

FN(narrow) {
    UNUSED;
    DONE(outs[0] = tide_map(RT, "(x, n) -> x + n", ARRAY(0), args[1]));
    DONE(outs[1] = tide_map(RT, "(x, n) -> i32(x) ** n", ARRAY(0), args[2]));
    return TIDE_OK;
}
/* A number for which the call would fail is the call's error at every run. */
static void a_number_that_does_not_fit_is_the_calls_error(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, narrow);
    tide_array *x = tide_ones(rt, TIDE_U8, SHAPE(2)), *outs[2];
    assert_ok(tide_scope_begin(rt));
    for (int run = 0; run < 6; run++) {
        const tide_arg args[] = {tide_arg_array(x), tide_arg_int(run == 3 ? 300 : run),
                                 tide_arg_int(run == 4 ? -1 : 2)};
        tide_status s = tide_graph_run(g, args, 3, outs, 2);
        if (run == 3) assert_error(TIDE_E_DTYPE, "300");
        if (run == 4) assert_error(TIDE_E_DTYPE, "-1");
        assert_int_equal(s, run == 3 || run == 4 ? TIDE_E_DTYPE : TIDE_OK);
    }
    has(g, 4, 1, 3);
    assert_ok(tide_scope_end(rt));
    tide_graph_release(g);
    tide_release(x);
}

/* x + n, or zeros where n is no number of x's type; and what is checked only by an operation whose
** result nobody wants. */
static tide_status handled(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    tide_runtime *rt = user;
    (void)n, (void)m;
    outs[0] = tide_map_args(rt, "(x, n) -> x + n", args, 2);
    if (!outs[0]) tide_error_clear(), outs[0] = tide_zeros_like(args[0].value.array);
    return outs[0] ? TIDE_OK : tide_error_last()->status;
}
static tide_status checked(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    tide_runtime *rt = user;
    (void)n, (void)m;
    if (!tide_map_args(rt, "(x, n) -> x + n", args, 2)) return tide_error_last()->status;
    outs[0] = tide_map_args(rt, "(x) -> x", args, 1);
    return outs[0] ? TIDE_OK : tide_error_last()->status;
}
/* An error that follows from types is the same at every run. */
static tide_status probing(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    tide_runtime *rt = user;
    (void)n, (void)m;
    if (tide_map_args(rt, "(x, n) -> c64(x) % n", args, 2)) return TIDE_E_INVALID;
    tide_error_clear();
    outs[0] = tide_map_args(rt, "(x, n) -> x + n", args, 2);
    return outs[0] ? TIDE_OK : tide_error_last()->status;
}

/* Which way a function goes at a number's error is told anew at each run; numbers that fit are
** served by a capture with one that does. */
static void errors_of_numbers_are_their_runs(void **state) {
    static const int64_t numbers[] = {300, 300, 1, 2, 300, -1, 255};
    static const tide_graph_fn fns[] = {handled, checked, probing};
    tide_runtime *rt = *state;
    tide_array *x = tide_ones(rt, TIDE_U8, SHAPE(2));
    for (int k = 0; k < 6; k++) {
        const bool in_turn = k >= 3;
        const tide_graph_fn fn = fns[k % 3];
        tide_graph *g = tide_graph_new(rt, fn, rt);
        assert_ok(tide_scope_begin(rt));
        for (size_t i = 0; i < TIDEI_COUNT(numbers); i++) {
            const int64_t number = numbers[in_turn ? TIDEI_COUNT(numbers) - 1 - i : i];
            const tide_arg args[] = {tide_arg_array(x), tide_arg_int(number)};
            tide_array *out = NULL, *want = NULL;
            const tide_status called = fn(rt, args, 2, &want, 1);
            uint8_t a[2], b[2];
            assert_int_equal(tide_graph_run(g, args, 2, &out, 1), called);
            if (called != TIDE_OK) continue;
            assert_ok(tide_to_host(out, a, sizeof a));
            assert_ok(tide_to_host(want, b, sizeof b));
            assert_memory_equal(a, b, sizeof a);
        }
        tide_graph_figures f = {.struct_size = sizeof f};
        assert_ok(tide_graph_info(g, &f));
        assert_int_equal(f.launches, in_turn ? 2 : 3); /* 2, 1; 1, 2, 255 */
        assert_ok(tide_scope_end(rt));
        tide_graph_release(g);
    }
    tide_release(x);
}

/* ---- arrays that are kept ---- */

static void a_freed_array_is_kept(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, layer);
    assert_ok(tide_scope_begin(rt));
    layer_begin(&w);
    tide_arg arg[1];
    tide_array *outs[2][3];
    for (int run = 0; run < 4; run++) {
        assert_int_equal(layer_args(&w, arg), 1);
        assert_ok(tide_graph_run(g, arg, 1, outs[run > 0], 3));
        if (run == 1) { /* it is theirs now alone; the memory goes to nobody else */
            for (int i = 0; i < 2; i++) tide_free(w.kept[i]);
            for (int i = 0; i < 50; i++)
                assert_array(tide_full(rt, TIDE_F32, SHAPE(20, 12), tide_arg_float(1e30)));
        }
    }
    for (unsigned i = 0; i < 3; i++) same_arrays("freed", i, 3, outs[0][i], outs[1][i]);
    assert_ok(tide_graph_reset(g));
    assert_int_equal(tide_graph_run(g, arg, 1, outs[0], 3), TIDE_E_FREED);
    tide_graph_release(g);
    end_world(&w);
    assert_ok(tide_scope_end(rt));
    assert_int_equal(test_stats(rt).live, 0);
}

static void of_another_order_and_device(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    const tide_config c = {.collector = "refcount", .debug = 1, .host_devices = 2};
    tide_runtime *rt = test_open(&c);
    tide_graph *g = graph_of(rt, own);
    assert_ok(tide_scope_begin(rt));
    own_begin(&w);
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(32)), *y;
    assert_ok(tide_array_set_ordered(x, 0)); /* as an argument: called */
    for (int run = 0; run < 3; run++) assert_ok(run_once(g, x, &y));
    has(g, 3, 0, 0);
    assert_ok(tide_array_set_ordered(w.kept[0], 0));
    assert_ok(tide_array_set_ordered(x, 1));
    assert_ok(run_once(g, x, &y));
    assert_int_equal(run_once(g, x, &y), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "not ordered");
    assert_ok(tide_array_set_ordered(w.kept[0], 1));
    for (int run = 0; run < 2; run++) assert_ok(run_once(g, x, &y));
    has(g, 6, 1, 2);
    /* the other device: x is not of it, and then what is kept is not */
    assert_ok(tide_device_set(rt, 1));
    for (int run = 0; run < 3; run++) assert_ok(run_once(g, x, &y));
    has(g, 9, 1, 2);
    tide_array *there = tide_ones(rt, TIDE_F32, SHAPE(32));
    assert_ok(run_once(g, there, &y));
    assert_int_equal(run_once(g, there, &y), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "an array of host:0");
    assert_ok(tide_device_set(rt, 0));
    assert_ok(run_once(g, x, &y));
    tide_graph_release(g);
    end_world(&w);
    assert_ok(tide_scope_end(rt));
    close_checked(rt);
}

/* ---- inside each other ---- */

static tide_graph *outer_graph;
static int depth;
FN(nested) {
    UNUSED;
    tide_array *y = NULL;
    if (depth++ == 0) {
        tide_graph *g = tide_graph_new(RT, twice, user);
        OK(run_once(g, ARRAY(0), &y)); /* from a plain call */
        tide_graph_release(g);
        assert_int_equal(tide_graph_reset(outer_graph), TIDE_OK);
        tide_graph_release(outer_graph);
        assert_error(TIDE_E_INVALID, "is being run");
        tide_error_clear();
        OK(run_once(outer_graph, ARRAY(0), &outs[0])); /* itself */
        tide_release(y);
        return TIDE_OK;
    }
    DONE(outs[0] = tide_map(RT, "(x) -> x * 2", ARRAY(0)));
    return TIDE_OK;
}
static void runs_within_plain_calls_are_runs(void **state) {
    tide_runtime *rt = *state;
    tide_array *x = tide_ones(rt, TIDE_F32, SHAPE(2)), *y;
    outer_graph = graph_of(rt, nested);
    depth = 0;
    for (int run = 0; run < 4; run++) {
        assert_ok(run_once(outer_graph, x, &y));
        HAS_F32(y, 2, 2);
        tide_release(y);
    }
    assert_int_equal(figures_of(outer_graph).captures, 1);
    tide_graph_release(outer_graph);
    tide_release(x);
}

/* ---- lists and lives ---- */

static void lists_have_their_limits(void **state) {
    tide_runtime *rt = *state;
    tide_graph *g = graph_of(rt, idle);
    static tide_arg args[TIDE_GRAPH_MAX + 1];
    static tide_array *outs[TIDE_GRAPH_MAX + 1];
    for (int i = 0; i <= TIDE_GRAPH_MAX; i++) args[i] = tide_arg_int(i);
    for (int run = 0; run < 3; run++) {
        outs[TIDE_GRAPH_MAX - 1] = (tide_array *)outs;
        assert_ok(tide_graph_run(g, args, TIDE_GRAPH_MAX, outs, TIDE_GRAPH_MAX));
        assert_null(outs[TIDE_GRAPH_MAX - 1]);
    }
    has(g, 2, 1, 2);
    assert_int_equal(tide_graph_run(g, args, TIDE_GRAPH_MAX + 1, outs, 1), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "1025 arguments");
    assert_int_equal(tide_graph_run(g, args, 1, outs, TIDE_GRAPH_MAX + 1), TIDE_E_INVALID);
    args[2].kind = 77;
    assert_int_equal(tide_graph_run(g, args, 3, outs, 0), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "argument 3: 77");
    tide_graph_release(g);
    tide_graph_release(g);
    assert_int_equal(tide_error_last()->status, TIDE_E_INVALID);
    assert_int_equal(tide_graph_run(g, args, 0, NULL, 0), TIDE_E_INVALID);
    tide_error_clear();
}

/* Graphs in all states, with work that is queued. */
static void closing_ends_them(void **state) {
    (void)state;
    for (int runs = 0; runs < 4; runs++) {
        tide_runtime *rt = open_checked();
        tide_graph *g = graph_of(rt, large);
        assert_ok(tide_scope_begin(rt));
        large_begin(&w);
        for (w.run = 0; w.run < runs; w.run++) {
            tide_arg arg[1];
            tide_array *outs[2];
            large_args(&w, arg);
            assert_ok(tide_graph_run(g, arg, 1, outs, 2));
        }
        end_world(&w);
        close_checked(rt);
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(twice_at_first_and_then_no_more),
        CASE(work_for_nobody_is_left_out),
        CASE(bad_indices_for_nobody_are_told),
        CASE(again_for_other_arguments),
        CASE(what_it_decides_is_frozen_until_a_reset),
        CASE(what_needs_an_outcome_is_refused_by_name),
        CASE(the_functions_error_is_the_runs),
        CASE(an_argument_itself_is_no_result),
        CASE(arrays_of_a_captured_call_end_with_it),
        CASE(nor_are_they_of_use_in_another_capture),
        CASE(deaths_within_are_told),
        CASE(numbers_are_their_runs),
        CASE(a_number_that_does_not_fit_is_the_calls_error),
        CASE(errors_of_numbers_are_their_runs),
        CASE(a_freed_array_is_kept),
        cmocka_unit_test(of_another_order_and_device),
        CASE(runs_within_plain_calls_are_runs),
        CASE(lists_have_their_limits),
        cmocka_unit_test(closing_ends_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
