/* test_cuda_graph.c: the `cuda` device's graphs, over a double of the driver: what nodes are told,
** and what is left where the driver refuses. */
#include "runtime/device/cuda/device.h"
#include "tests/doubles/cuda_double.h"

/* Two words to which addresses are added, and a number. */
typedef struct params {
    tidei_addr at[2];
    uint64_t number;
} params;
static const size_t both[] = {offsetof(params, at[0]), offsetof(params, at[1])};

static struct {
    tidei_device *d;
    tidei_dstream *s;
    tidei_dkernel *k;
} box;

static void open_box(void) {
    static const char image[] = "\177ELFtext";
    box.d = open_double();
    assert_ok(box.d->ops->stream_new(box.d, &box.s));
    assert_ok(box.d->ops->kernel_new(
        box.d,
        &(tidei_kernel_text){
            .name = "k", .source = "", .image = image, .image_bytes = sizeof image, .waits = true},
        &box.k, NULL, NULL));
}
static void close_box(void) {
    box.d->ops->kernel_release(box.d, box.k);
    box.d->ops->stream_release(box.d, box.s);
    box.d->ops->close(box.d);
    assert_nothing_left();
}

static tide_status add(tidei_dgraph *g, uint64_t number, unsigned from, unsigned to) {
    const params p = {{8, 0}, number};
    const tidei_launch l = {.name = "k",
                            .kernel = box.k,
                            .params = &p,
                            .params_bytes = sizeof p,
                            .grid = {(unsigned)number, 1, 1},
                            .block = {32, 1, 1},
                            .nranges = 2};
    const tidei_graph_range r[] = {{from, TIDEI_READ, 0, 16}, {to, TIDEI_WRITE, 100, 16}};
    return box.d->ops->graph_add(box.d, g, &l, both, r);
}

/* slot 1 -> [0] -> slot 0 -> [1] -> slot 0, elsewhere -> [2] -> slot 2 */
static tide_status make(tidei_dgraph **out) {
    static const tidei_addr at[] = {1000, 2000, 3000};
    const struct tidei_device_ops *o = box.d->ops;
    tidei_dgraph *g;
    tide_status s = o->graph_new(box.d, at, 3, &g);
    if (s != TIDE_OK) return s;
    s = add(g, 1, 1, 0);
    if (s == TIDE_OK) s = add(g, 2, 0, 0);
    if (s == TIDE_OK) s = add(g, 3, 0, 2);
    if (s == TIDE_OK) s = o->graph_finish(box.d, g);
    if (s == TIDE_OK)
        *out = g;
    else
        o->graph_release(box.d, g);
    return s;
}
/* As the last launch had it. */
static params launched(void) {
    params p;
    assert_int_equal(fake.params_bytes, sizeof p);
    memcpy(&p, fake.params, sizeof p);
    return p;
}

static void nodes_are_told_what_is_new(void **state) {
    (void)state;
    open_box();
    tidei_dgraph *g;
    assert_ok(make(&g));
    assert_true(box.d->info.flags & TIDEI_DEV_GRAPHS);
    assert_true(box.d->info.graph_node_bytes > 0);
    tidei_addr at[] = {1000, 2000, 3000};
    const struct {
        tidei_addr at[3];
        int told;
    } steps[] = {{{1000, 2000, 3000}, 0}, /* as it was made */
                 {{1000, 2000, 4000}, 1}, /* the last node */
                 {{1000, 5000, 4000}, 1}, /* the first */
                 {{7000, 5000, 4000}, 3}, /* all of them, the second in both its words */
                 {{7000, 5000, 4000}, 0}, {{7000, 6000, 8000}, 2}};
    for (size_t i = 0; i < TIDEI_COUNT(steps); i++) {
        memcpy(at, steps[i].at, sizeof at);
        fake.told = fake.launches = 0;
        assert_ok(box.d->ops->graph_launch(box.d, box.s, g, at, NULL, 0));
        assert_int_equal(fake.told, steps[i].told);
        assert_int_equal(fake.launches, 3);
        const params p = launched();
        assert_int_equal(p.at[0], 8 + at[0]);
        assert_int_equal(p.at[1], 100 + at[2]);
        assert_int_equal(p.number, 3);
        assert_int_equal(fake.grid[0], 3);
    }
    assert_int_equal(fake.graph_launches, TIDEI_COUNT(steps));
    box.d->ops->graph_release(box.d, g);
    close_box();
}

static void parameters_are_for_one_launch(void **state) {
    (void)state;
    open_box();
    tidei_dgraph *g;
    assert_ok(make(&g));
    const tidei_addr at[] = {1000, 2000, 3000}, moved[] = {1000, 2000, 9000};
    for (uint64_t n = 7; n < 10; n++) {
        const params p = {{8, 0}, n};
        const tidei_graph_params told = {2, &p};
        fake.told = 0;
        assert_ok(box.d->ops->graph_launch(box.d, box.s, g, n == 9 ? moved : at, &told, 1));
        assert_int_equal(fake.told, 1);
        assert_int_equal(launched().number, n);
        assert_int_equal(launched().at[1], n == 9 ? 9100 : 3100);
        assert_ok(box.d->ops->graph_launch(box.d, box.s, g, n == 9 ? moved : at, &told, 1));
        assert_int_equal(fake.told, 1); /* it is what it was */
    }
    box.d->ops->graph_release(box.d, g);
    close_box();
}

static void after_a_refusal_all_are_told(void **state) {
    (void)state;
    open_box();
    tidei_dgraph *g;
    assert_ok(make(&g));
    const tidei_addr at[] = {1500, 2500, 3500};
    fail_at("cuGraphExecKernelNodeSetParams", 1, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(box.d->ops->graph_launch(box.d, box.s, g, at, NULL, 0), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "cuGraphExecKernelNodeSetParams(3 nodes)");
    assert_int_equal(fake.graph_launches, 0);
    fail_at(NULL, 0, 0);
    fake.told = 0;
    assert_ok(box.d->ops->graph_launch(box.d, box.s, g, at, NULL, 0));
    assert_int_equal(fake.told, 3);
    assert_int_equal(launched().at[0], 1508);
    fail_at("cuGraphLaunch", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(box.d->ops->graph_launch(box.d, box.s, g, at, NULL, 0), TIDE_E_NOMEM);
    fail_at(NULL, 0, 0);
    box.d->ops->graph_release(box.d, g);
    close_box();
}

/* ---- which nodes stand behind which ---- */

static void queue_on(void *native, unsigned blocks) {
    assert_int_equal(
        driver.cuLaunchKernel(box.k->function, blocks, 1, 1, 32, 1, 1, 0, native, NULL, NULL), 0);
}

#define DRAWN 24 /* nodes of a graph, of four uses at most */
typedef struct drawn {
    tidei_graph_range uses[4];
    unsigned n;
    bool call, empty; /* a library's call, that queued nothing */
} drawn;

static unsigned below(unsigned n) {
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static drawn draw(void) {
    drawn x = {.n = below(5), .call = below(4) == 0};
    for (unsigned i = 0; i < x.n; i++)
        x.uses[i] = (tidei_graph_range){below(3), below(3) ? TIDEI_READ : 1 + below(3), below(40),
                                        1 + below(12)};
    x.empty = x.call && below(3) == 0;
    return x;
}

/* By its bytes, one by one. */
static bool share(const drawn *a, const drawn *b) {
    for (unsigned i = 0; i < a->n; i++)
        for (unsigned k = 0; k < b->n; k++) {
            const tidei_graph_range *r = &a->uses[i], *q = &b->uses[k];
            if (r->slot != q->slot || !((r->mode | q->mode) & TIDEI_WRITE)) continue;
            for (size_t at = r->offset; at < r->offset + r->bytes; at++)
                if (q->offset <= at && at < q->offset + q->bytes) return true;
        }
    return a->call && b->call;
}

static void add_drawn(tidei_dgraph *g, const drawn *x) {
    const struct tidei_device_ops *o = box.d->ops;
    static const size_t at[] = {0, 8, 16, 24};
    static const tidei_addr words[4];
    const tidei_launch l = {.name = "k",
                            .kernel = box.k,
                            .params = words,
                            .params_bytes = sizeof words,
                            .grid = {1, 1, 1},
                            .block = {32, 1, 1},
                            .nranges = x->n};
    void *native;
    if (!x->call) {
        assert_ok(o->graph_add(box.d, g, &l, at, x->uses));
        return;
    }
    assert_ok(o->graph_capture_begin(box.d, g, &native));
    if (!x->empty) queue_on(native, 1);
    assert_ok(o->graph_capture_end(box.d, g, true, x->uses, x->n));
}

/* All nodes that come before each, as the driver has it: those that share bytes are among them, and
** an edge stands only where no way leads along others. `early`: kernels start while those before
** them still run, where these are kernels too. */
static void check_order(const drawn *x, const struct CUgraph_st *g, bool early) {
    unsigned before[DRAWN] = {0}, node[DRAWN], n = 0;
    for (unsigned i = 0; i < DRAWN; i++) {
        if (x[i].empty) continue;
        const unsigned behind = g->nodes[n].behind;
        for (unsigned k = 0; k < n; k++)
            if (behind >> k & 1) {
                assert_int_equal(before[n] >> k & 1, 0);
                assert_true(share(&x[node[k]], &x[i]));
            }
        for (unsigned k = n; k-- > 0;)
            if (behind >> k & 1) before[n] |= before[k];
        assert_int_equal(before[n] & behind, 0); /* no edge that another way replaces */
        unsigned calls = 0;                      /* before it */
        for (unsigned k = 0; k < n; k++) calls |= (unsigned)x[node[k]].call << k;
        assert_int_equal(g->nodes[n].early, early && !x[i].call ? behind & ~calls : 0);
        before[n] |= behind;
        for (unsigned k = 0; k < n; k++)
            if (share(&x[node[k]], &x[i])) assert_int_equal(before[n] >> k & 1, 1);
        node[n++] = i;
    }
    assert_int_equal(g->n, n);
}

static void check_drawn_graphs(bool early) {
    static const tidei_addr at[3] = {1000, 2000, 3000};
    open_box();
    const struct tidei_device_ops *o = box.d->ops;
    unsigned edges = 0;
    for (int round = 0; round < 200; round++) {
        drawn x[DRAWN];
        tidei_dgraph *g;
        assert_ok(o->graph_new(box.d, at, 3, &g));
        for (unsigned i = 0; i < DRAWN; i++) {
            x[i] = draw();
            add_drawn(g, &x[i]);
        }
        assert_ok(o->graph_finish(box.d, g));
        check_order(x, fake.finished, early);
        for (size_t i = 0; i < fake.finished->n; i++)
            edges += (unsigned)__builtin_popcount(fake.finished->nodes[i].behind);
        assert_ok(o->graph_launch(box.d, box.s, g, at, NULL, 0));
        o->graph_release(box.d, g);
    }
    assert_in_range(edges, 200, 200 * DRAWN * 3); /* some, and far from all */
    close_box();
}

static void what_shares_bytes_keeps_its_order(void **state) {
    (void)state;
    check_drawn_graphs(true);
}

/* Where there are no programmatic edges: of an older driver, or of kernels that are compiled for an
** architecture that has no wait. */
static void kernels_start_behind_those_that_ended(void **state) {
    (void)state;
    tidei_cu old = driver;
    old.cuGraphAddDependencies = NULL;
    tidei_cu_use(&old);
    check_drawn_graphs(false);
    tidei_cu_use(&driver);
    fake.ampere = true;
    check_drawn_graphs(false);
}

/* Readers of what one node wrote run side by side, and who overwrites it behind all of them. */
static void readers_run_side_by_side(void **state) {
    (void)state;
    static const tidei_addr at[] = {1000};
    static const drawn x[] = {{{{0, TIDEI_WRITE, 0, 8}}, 1, false, false},
                              {{{0, TIDEI_READ, 0, 8}}, 1, false, false},
                              {{{0, TIDEI_READ, 4, 8}}, 1, true, false},
                              {{{0, TIDEI_WRITE, 20, 8}}, 1, false, false},
                              {{{0, TIDEI_READ | TIDEI_WRITE, 6, 4}}, 1, false, false}};
    static const unsigned behind[] = {0, 1, 1, 0, 6};
    open_box();
    tidei_dgraph *g;
    assert_ok(box.d->ops->graph_new(box.d, at, 1, &g));
    for (size_t i = 0; i < TIDEI_COUNT(x); i++) add_drawn(g, &x[i]);
    assert_ok(box.d->ops->graph_finish(box.d, g));
    for (size_t i = 0; i < TIDEI_COUNT(x); i++)
        assert_int_equal(fake.finished->nodes[i].behind, behind[i]);
    box.d->ops->graph_release(box.d, g);
    close_box();
}

/* ---- what libraries queue ---- */

static void what_is_queued_becomes_a_node(void **state) {
    (void)state;
    open_box();
    const struct tidei_device_ops *o = box.d->ops;
    const tidei_addr at[] = {1000, 2000, 3000};
    tidei_dgraph *g;
    void *native;
    assert_ok(o->graph_new(box.d, at, 3, &g));
    for (unsigned i = 0; i < 4; i++) {
        const bool keep = i != 2; /* nothing is queued in the second, the third is not kept */
        assert_ok(o->graph_capture_begin(box.d, g, &native));
        assert_non_null(native);
        if (i != 1) queue_on(native, 40 + i);
        if (i == 3) queue_on(native, 50);
        assert_ok(o->graph_capture_end(box.d, g, keep, NULL, 0));
        assert_int_equal(fake.launches, 0);
        assert_ok(add(g, i + 1, 1, 2));
    }
    assert_ok(o->graph_finish(box.d, g));
    const tidei_addr elsewhere[] = {1000, 2000, 6000};
    assert_ok(o->graph_launch(box.d, box.s, g, elsewhere, NULL, 0));
    assert_int_equal(fake.launches, 3 + 4);
    assert_int_equal(fake.told, 4);
    assert_int_equal(launched().at[1], 6100);
    o->graph_release(box.d, g);
    close_box();
}

static void a_capture_may_fail(void **state) {
    (void)state;
    open_box();
    const struct tidei_device_ops *o = box.d->ops;
    tidei_dgraph *g;
    void *native;
    assert_ok(o->graph_new(box.d, NULL, 0, &g));
    assert_ok(o->graph_capture_begin(box.d, g, &native));
    fake.invalid = true;
    assert_int_equal(o->graph_capture_end(box.d, g, true, NULL, 0), TIDE_E_DEVICE);
    assert_ok(o->graph_capture_begin(box.d, g, &native));
    assert_ok(o->graph_capture_end(box.d, g, false, NULL,
                                   0)); /* who does not want it is told of no error */
    fake.invalid = false;
    assert_ok(o->graph_capture_begin(box.d, g, &native));
    queue_on(native, 1);
    assert_ok(o->graph_capture_end(box.d, g, true, NULL, 0));
    assert_ok(o->graph_finish(box.d, g));
    assert_ok(o->graph_launch(box.d, box.s, g, NULL, NULL, 0));
    assert_int_equal(fake.launches, 1);
    o->graph_release(box.d, g);
    close_box();
}

/* ---- failures ---- */

static tide_status all_of_it(void) {
    const struct tidei_device_ops *o = box.d->ops;
    const tidei_addr at[] = {1000, 2000, 3000}, moved[] = {1, 2, 3};
    tidei_dgraph *g;
    void *native;
    tide_status s = o->graph_new(box.d, at, 3, &g);
    if (s != TIDE_OK) return s;
    s = add(g, 1, 1, 0);
    if (s == TIDE_OK) s = add(g, 2, 0, 2);
    if (s == TIDE_OK && (s = o->graph_capture_begin(box.d, g, &native)) == TIDE_OK) {
        bool queued =
            driver.cuLaunchKernel(box.k->function, 1, 1, 1, 32, 1, 1, 0, native, NULL, NULL) == 0;
        s = o->graph_capture_end(box.d, g, queued, NULL, 0);
        if (!queued) s = TIDE_E_DEVICE;
    }
    if (s == TIDE_OK) s = o->graph_finish(box.d, g);
    if (s == TIDE_OK) s = o->graph_launch(box.d, box.s, g, moved, NULL, 0);
    o->graph_release(box.d, g);
    return s;
}

static void every_call_may_fail(void **state) {
    (void)state;
    open_box();
    assert_ok(all_of_it());
    int n = 1;
    for (tide_status s = TIDE_E_DEVICE; s != TIDE_OK; n++) {
        fail_nth(n, TIDEI_CU_INVALID_VALUE, true);
        s = all_of_it();
        fail_at(NULL, 0, 0);
        assert_int_equal(fake.graphs, 0);
        assert_int_equal(fake.execs, 0);
        assert_int_equal(fake.streams, 1);
        assert_null(fake.captured);
        assert_true(n < 100);
    }
    assert_true(n > 8);
    close_box();
}

/* A driver that lacks one of the functions has none of the slots used. */
static void older_drivers_have_none(void **state) {
    (void)state;
    tidei_cu old = driver;
    old.cuGraphExecKernelNodeSetParams = NULL;
    tidei_cu_use(&old);
    open_box();
    assert_false(box.d->info.flags & TIDEI_DEV_GRAPHS);
    close_box();
}

static void host_functions_are_refused(void **state) {
    (void)state;
    open_box();
    tidei_dgraph *g;
    assert_ok(box.d->ops->graph_new(box.d, NULL, 0, &g));
    const tidei_launch l = {.name = "on the host"};
    assert_int_equal(box.d->ops->graph_add(box.d, g, &l, NULL, NULL), TIDE_E_UNSUPPORTED);
    box.d->ops->graph_release(box.d, g);
    close_box();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(nodes_are_told_what_is_new),
        CASE(parameters_are_for_one_launch),
        CASE(after_a_refusal_all_are_told),
        CASE(what_is_queued_becomes_a_node),
        CASE(a_capture_may_fail),
        CASE(every_call_may_fail),
        CASE(what_shares_bytes_keeps_its_order),
        CASE(kernels_start_behind_those_that_ended),
        CASE(readers_run_side_by_side),
        CASE(older_drivers_have_none),
        CASE(host_functions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
