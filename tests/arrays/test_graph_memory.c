/* test_graph_memory.c: what graphs hold, and how that gives way. */
#include "tests/arrays/checked.h"
#include "tests/arrays/graph_programs.h"
#include "tests/arrays/elements.h"

enum { N = 1 << 16, BYTES = N * 4 }; /* an array here is of a quarter of a MiB */

static tide_runtime *open_with(const char *limit, int spill) {
    return test_open(&(tide_config){
        .collector = "refcount", .debug = 1, .limit = limit, .policy = "never", .spill = spill});
}
static size_t live(tide_runtime *rt) { return test_stats(rt).live; }
static tide_array *array_of(tide_runtime *rt, double v) {
    tide_array *a = tide_full(rt, TIDE_F32, SHAPE(N), tide_arg_float(v));
    assert_array(a);
    return a;
}
/* All of an array's elements are that; it is released. */
static void all_are(tide_array *a, double v) {
    assert_array(a);
    tide_array *lo = tide_min(a, NULL, 0, 0), *hi = tide_max(a, NULL, 0, 0);
    if (tide_item_f64(lo) != v || tide_item_f64(hi) != v)
        fail_msg("%g to %g, wanted %g", tide_item_f64(lo), tide_item_f64(hi), v);
    tide_release(lo);
    tide_release(hi);
    tide_release(a);
}

/* A graph that adds 1 so often, each time to a new array. */
typedef struct adder {
    tide_runtime *rt;
    int often;
    tide_array *kept; /* (may be NULL) is added too */
} adder;
static tide_status add_up(void *user, const tide_arg *args, size_t n, tide_array **outs, size_t m) {
    const adder *x = user;
    tide_array *a = tide_retain(args[0].value.array);
    (void)n, (void)m;
    for (int i = 0; i < x->often && a; i++) {
        tide_array *next = tide_map(x->rt, "(a) -> a + 1", a);
        tide_release(a);
        a = next;
    }
    if (a && x->kept) {
        tide_array *sum = tide_map(x->rt, "(a, k) -> a + k", a, x->kept);
        tide_release(a);
        a = sum;
    }
    return (outs[0] = a) ? TIDE_OK : tide_error_last()->status;
}

static tide_status run_adder(tide_graph *g, tide_array *a, tide_array **out) {
    const tide_arg arg = tide_arg_array(a);
    return tide_graph_run(g, &arg, 1, out, 1);
}
static void add_once(tide_graph *g, tide_array *a, double wanted) {
    tide_array *out;
    assert_ok(run_adder(g, a, &out));
    all_are(out, wanted);
}

/* ---- what is held ---- */

/* Twenty arrays in between take the room of two. */
static void arrays_in_between_share_the_arena(void **state) {
    (void)state;
    tide_runtime *rt = open_with(NULL, 0);
    adder x = {rt, 20, NULL};
    tide_graph *g = tide_graph_new(rt, add_up, &x);
    tide_array *a = array_of(rt, 0);
    for (int run = 0; run < 4; run++) add_once(g, a, 20);
    assert_int_equal(figures_of(g).bytes, 2 * BYTES);
    assert_int_equal(live(rt), 3 * BYTES);
    tide_graph_release(g);
    assert_int_equal(live(rt), BYTES);
    tide_release(a);
    close_checked(rt);
}

/* However often it runs, and whatever it is given. */
static void runs_hold_nothing_more(void **state) {
    (void)state;
    tide_runtime *rt = open_with(NULL, 0);
    adder x = {rt, 3, NULL};
    tide_graph *g = tide_graph_new(rt, add_up, &x);
    size_t first = 0;
    for (int run = 0; run < (test_quick() ? 30 : 200); run++) {
        tide_array *a = array_of(rt, run), *out;
        assert_ok(run_adder(g, a, &out));
        tide_release(a);
        all_are(out, run + 3);
        if (run == 2) first = live(rt);
        if (run > 2) assert_int_equal(live(rt), first);
    }
    assert_int_equal(first, 2 * BYTES);
    assert_int_equal(figures_of(g).builds, 1);
    tide_graph_release(g);
    assert_int_equal(live(rt), 0);
    close_checked(rt);
}

/* A new array each time: the one before is as it was, though the graph ran again. */
static void results_are_never_overwritten(void **state) {
    (void)state;
    tide_runtime *rt = open_with(NULL, 0);
    adder x = {rt, 2, NULL};
    tide_graph *g = tide_graph_new(rt, add_up, &x);
    tide_array *outs[12];
    for (int run = 0; run < 12; run++) {
        tide_array *a = array_of(rt, run);
        assert_ok(run_adder(g, a, &outs[run]));
        tide_release(a); /* the next run's may lie there */
    }
    tide_graph_release(g);
    for (int run = 0; run < 12; run++) all_are(outs[run], run + 2);
    close_checked(rt);
}

/* ---- giving way ---- */

static void each_level_gives_what_it_says(void **state) {
    (void)state;
    tide_runtime *rt = open_with(NULL, 0);
    adder x = {rt, 3, NULL};
    tide_graph *g[2];
    tide_array *a = array_of(rt, 0);
    for (int i = 0; i < 2; i++) {
        g[i] = tide_graph_new(rt, add_up, &x);
        for (int run = 0; run < 3; run++) add_once(g[i], a, 3);
    }
    assert_int_equal(live(rt), 5 * BYTES);
    /* but the one that was used last */
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(figures_of(g[0]).bytes, 0);
    assert_int_equal(figures_of(g[1]).bytes, 2 * BYTES);
    assert_int_equal(live(rt), 3 * BYTES);
    add_once(g[0], a, 3); /* built anew, without a call */
    assert_int_equal(figures_of(g[0]).calls, 2);
    assert_int_equal(figures_of(g[0]).builds, 2);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(figures_of(g[i]).bytes, 0);
        assert_int_equal(figures_of(g[i]).nodes, 0);
    }
    assert_int_equal(live(rt), BYTES);
    add_once(g[1], a, 3); /* captured anew */
    assert_int_equal(figures_of(g[1]).calls, 3);
    assert_int_equal(figures_of(g[1]).captures, 2);
    for (int i = 0; i < 2; i++) tide_graph_release(g[i]);
    tide_release(a);
    close_checked(rt);
}

/* Twenty graphs, whose arenas would be ten times the limit. */
static void many_graphs_share_little_memory(void **state) {
    enum { GRAPHS = 20 };
    (void)state;
    const unsigned pools =
        test_on_host() ? TEST_POOLS : 2; /* others take 32 MiB of a GPU at once */
    for (unsigned p = 0; p < pools; p++) {
        tide_runtime *rt = test_open(&(tide_config){
            .collector = "refcount", .debug = 1, .limit = "4MiB", .pool = test_pool(p)});
        adder x = {rt, 3, NULL};
        tide_graph *g[GRAPHS];
        tide_array *a = array_of(rt, 1);
        for (int i = 0; i < GRAPHS; i++) g[i] = tide_graph_new(rt, add_up, &x);
        for (int run = 0; run < 5; run++)
            for (int i = 0; i < GRAPHS; i++) add_once(g[i], a, 4);
        assert_true(test_stats(rt).peak_backed <= 4 << 20);
        for (int i = 0; i < GRAPHS; i++) {
            assert_true(figures_of(g[i]).launches > 0);
            tide_graph_release(g[i]);
        }
        tide_release(a);
        assert_int_equal(live(rt), 0);
        close_checked(rt);
    }
}

/* What the program dropped, and the graph alone keeps, gives way to what it wants. */
static void kept_arrays_give_way(void **state) {
    (void)state;
    tide_runtime *rt = open_with("6MiB", TIDE_OFF);
    tide_array *a = tide_full(rt, TIDE_F32, SHAPE(N), tide_arg_int(1)), *large;
    adder x = {rt, 1, tide_full(rt, TIDE_F32, SHAPE(8, N), tide_arg_int(5))}; /* 2 MiB */
    tide_graph *g = tide_graph_new(rt, add_up, &x);
    tide_array *out;
    for (int run = 0; run < 3; run++) {
        assert_ok(run_adder(g, a, &out));
        tide_release(out);
    }
    tide_release(x.kept);
    x.kept = NULL;
    assert_true(live(rt) >= 9 * BYTES);
    assert_array(large = tide_zeros(rt, TIDE_F32, SHAPE(18, N)));
    assert_int_equal(figures_of(g).nodes, 0);
    add_once(g, a, 2);
    tide_release(large);
    tide_release(a);
    tide_graph_release(g);
    close_checked(rt);
}

/* There is no room for an arena: the function is called, whose arrays fit one after the other. */
static void without_room_the_function_is_called(void **state) {
    (void)state;
    tide_runtime *rt = open_with("2MiB", TIDE_OFF);
    adder x = {rt, 4, NULL};
    tide_graph *g = tide_graph_new(rt, add_up, &x);
    tide_array *a = array_of(rt, 0), *others[3];
    for (int run = 0; run < 3; run++) add_once(g, a, 4);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    for (int i = 0; i < 3; i++) others[i] = array_of(rt, 9);
    for (int run = 0; run < 6; run++) {
        tide_array *more[2] = {NULL}, *out;
        for (int i = 0; i < run % 3; i++) more[i] = array_of(rt, 1);
        assert_ok(run_adder(g, a, &out));
        for (int i = 0; i < 2; i++) tide_release(more[i]);
        all_are(out, 4);
    }
    for (int i = 0; i < 3; i++) all_are(others[i], 9);
    tide_release(a);
    tide_graph_release(g);
    assert_int_equal(live(rt), 0);
    close_checked(rt);
}

/* Kept arrays, arguments and results that do not fit together: they are spilled and come back. */
static void more_than_the_limit_is_spilled(void **state) {
    enum { WORLDS = 8 };
    (void)state;
    tide_runtime *rt = open_with("2MiB", TIDE_ON);
    adder x[WORLDS];
    tide_graph *g[WORLDS];
    tide_array *a[WORLDS], *outs[WORLDS] = {NULL};
    for (int i = 0; i < WORLDS; i++) {
        a[i] = array_of(rt, i);
        x[i] = (adder){rt, 2, array_of(rt, 10 * i)};
        g[i] = tide_graph_new(rt, add_up, &x[i]);
    }
    for (int run = 0; run < 5; run++)
        for (int i = 0; i < WORLDS; i++) {
            if (outs[i]) all_are(outs[i], 11 * i + 2);
            assert_ok(run_adder(g[i], a[i], &outs[i]));
        }
    const tide_runtime_figures s = test_stats(rt);
    assert_true(s.spills > 0 && s.returns > 0);
    for (int i = 0; i < WORLDS; i++) {
        all_are(outs[i], 11 * i + 2);
        all_are(a[i], i);
        all_are(x[i].kept, 10 * i);
        tide_graph_release(g[i]);
    }
    assert_int_equal(live(rt), 0);
    close_checked(rt);
}

/* The text of the device names them. */
static void texts_say_what_they_hold(void **state) {
    (void)state;
    tide_runtime *rt = open_with(NULL, 0);
    static char text[20000];
    adder x = {rt, 3, NULL};
    tide_graph *g = tide_graph_new(rt, add_up, &x);
    tide_array *a = array_of(rt, 0);
    for (int run = 0; run < 2; run++) add_once(g, a, 3);
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "graphs"));
    tide_graph_release(g);
    tide_release(a);
    close_checked(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_in_between_share_the_arena),
        cmocka_unit_test(runs_hold_nothing_more),
        cmocka_unit_test(results_are_never_overwritten),
        cmocka_unit_test(each_level_gives_what_it_says),
        cmocka_unit_test(many_graphs_share_little_memory),
        cmocka_unit_test(kept_arrays_give_way),
        cmocka_unit_test(without_room_the_function_is_called),
        cmocka_unit_test(more_than_the_limit_is_spilled),
        cmocka_unit_test(texts_say_what_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
