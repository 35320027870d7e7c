/* test_graph.c: graphs against calls of their functions, bit for bit: all that can be captured,
** under both collectors, in every pool, on several streams and threads, with memory given back,
** moved and spilled between the runs. */
#include <pthread.h>
#include "runtime/device/host/host.h"
#include "tests/arrays/compiles.h"
#include "tests/arrays/graph_programs.h"
#include "tests/doubles/emulated_device.h"

extern const char tidei_stretches_text[];

static int runs(void) { return test_quick() ? 4 : 7; }

static void close_sound(tide_runtime *rt, bool checked) {
    assert_ok(tide_device_synchronize(rt));
    if (checked && test_on_host())
        assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

static void run_all_on(tide_runtime *rt, const circumstance *c) {
    for (size_t i = 0; i < TIDEI_COUNT(programs); i++) run_program(rt, &programs[i], c, runs());
}
static void run_all(const circumstance *c) {
    tide_runtime *rt = test_open(&c->config);
    run_all_on(rt, c);
    close_sound(rt, c->config.debug != 0);
}

#define COUNTED .config = {.collector = "refcount", .debug = 1}

static void what_comes_out_is_the_same(void **state) {
    (void)state;
    run_all(&(circumstance){.name = "checked", COUNTED});
}

static void in_every_pool(void **state) {
    (void)state;
    for (unsigned i = 0; i < TEST_POOLS; i++)
        run_all(&(circumstance){.name = test_pool(i),
                                .config = {.collector = "refcount", .pool = test_pool(i)}});
}

/* ---- collections ---- */

static void litter(world *w, tide_graph *g) {
    (void)g;
    for (int i = 0; i < 5; i++) assert_array(tide_zeros(w->rt, TIDE_F32, SHAPE(1000 * i)));
}
static void collect(world *w, tide_graph *g) {
    litter(w, g);
    assert_ok(tide_collect(w->rt));
}

static void with_collections_between(void **state) {
    static const char *const collectors[] = {"refcount", "boehm"};
    (void)state;
    for (int i = 0; i < 1 + TEST_BOEHM; i++)
        run_all(&(circumstance){.name = collectors[i],
                                .config = {.collector = collectors[i], .debug = 1},
                                .before = litter,
                                .behind = collect});
}

/* ... and within the function: each of its results is made while collections go on. */
static tide_graph_fn inner;
static tide_status collecting_fn(void *user, const tide_arg *args, size_t n, tide_array **outs,
                                 size_t m) {
    tide_runtime *rt = ((world *)user)->rt;
    tide_status s = tide_collect(rt);
    if (s == TIDE_OK) s = tide_reclaim(rt, TIDE_RECLAIM_SPILL, NULL);
    if (s == TIDE_OK) s = inner(user, args, n, outs, m);
    if (s == TIDE_OK) s = tide_collect(rt);
    return s == TIDE_OK ? tide_reclaim(rt, TIDE_RECLAIM_SPILL, NULL) : s;
}

static void with_collections_within(void **state) {
    static const char *const collectors[] = {"refcount", "boehm"};
    (void)state;
    for (int i = 0; i < 1 + TEST_BOEHM; i++) {
        tide_config config = {.collector = collectors[i], .debug = 1};
        circumstance c = {.name = "within", .config = config, .disturbs = true};
        tide_runtime *rt = test_open(&c.config);
        for (size_t k = 0; k < TIDEI_COUNT(programs); k++) {
            program p = programs[k];
            inner = p.fn;
            p.fn = collecting_fn;
            run_program(rt, &p, &c, 4);
        }
        close_sound(rt, true);
    }
}

/* ---- memory that gives way ---- */

static void reclaim_some(world *w, tide_graph *g) {
    static int level;
    (void)g;
    assert_ok(tide_reclaim(w->rt, level++ % 5, NULL));
}

static void with_memory_given_back_between(void **state) {
    (void)state;
    run_all(&(circumstance){.name = "reclaim", COUNTED, .before = reclaim_some, .disturbs = true});
    run_all(&(circumstance){
        .name = "reclaim behind", COUNTED, .behind = reclaim_some, .disturbs = true});
}

static void spill_all(world *w, tide_graph *g) {
    (void)g;
    assert_ok(tide_reclaim(w->rt, TIDE_RECLAIM_SPILL, NULL));
}
static void with_all_spilled_between(void **state) {
    (void)state;
    run_all(&(circumstance){.name = "spill", COUNTED, .before = spill_all, .disturbs = true});
}

/* Small arrays fill what the limit leaves; every second one goes, and what is larger than any gap
** is wanted: so what lies between them moves. */
enum { CRUMBS = 128, CRUMB = 64 << 10 };
static tide_array *crumbs[CRUMBS];
static void crumble(world *w, tide_graph *g) {
    unsigned n = 0;
    (void)g;
    assert_ok(tide_scope_begin(w->rt));
    while (n < CRUMBS && (crumbs[n] = tide_empty(w->rt, TIDE_U8, SHAPE(CRUMB)))) n++;
    tide_error_clear();
    for (unsigned i = 0; i < n; i += 2) tide_free(crumbs[i]);
    assert_array(tide_zeros(w->rt, TIDE_U8, SHAPE((int64_t)n / 4 * CRUMB)));
    assert_ok(tide_scope_end(w->rt));
}
/* They take more than the limit on a GPU, most with libraries' handles alone. */
static bool takes_much(const program *p) {
    static const char *const names[] = {"layer", "linear",      "linear of halves", "adam",
                                        "blas",  "adam, given", "nothing",          "early"};
    for (size_t i = 0; i < TIDEI_COUNT(names); i++)
        if (strcmp(p->name, names[i]) == 0) return true;
    return false;
}
static void with_memory_moved_between(void **state) {
    circumstance c = {.name = "moved",
                      .config = {.collector = "refcount",
                                 .debug = 1,
                                 .limit = "6MiB",
                                 .pool = "tide"}, /* which moves */
                      .before = crumble,
                      .disturbs = true};
    (void)state;
    tide_runtime *rt = test_open(&c.config);
    /* under sanitizers, where a search for what may move takes long, half of them */
    for (size_t i = 0; i < TIDEI_COUNT(programs); i += test_quick() ? 2 : 1)
        if (test_on_host() || !takes_much(&programs[i])) run_program(rt, &programs[i], &c, runs());
    tide_pool_figures f = {.struct_size = sizeof f};
    assert_ok(tide_pool_info(tide_pool_default(rt), &f));
    assert_true(f.compactions > 0 || !test_on_host()); /* a GPU's pages are larger */
    close_sound(rt, true);
}

static void reset_some(world *w, tide_graph *g) {
    if (w->run % 3 == 2) assert_ok(tide_graph_reset(g));
}
static void with_the_graph_reset_between(void **state) {
    (void)state;
    run_all(&(circumstance){.name = "reset", COUNTED, .behind = reset_some, .disturbs = true});
}

/* ---- streams and threads ---- */

static tide_stream *streams[2];
static void other_stream(world *w, tide_graph *g) {
    (void)g;
    assert_ok(tide_stream_set(w->rt, streams[w->run % 2]));
    for (unsigned i = 0; i < w->nkept && i < 3; i++) /* uses to be ordered with */
        assert_array(tide_copy(w->kept[i]));
    assert_ok(tide_stream_set(w->rt, streams[(w->run + 1) % 2]));
}
static void on_several_streams(void **state) {
    circumstance c = {.name = "streams", COUNTED, .before = other_stream};
    (void)state;
    tide_runtime *rt = test_open(&c.config);
    for (int i = 0; i < 2; i++) assert_ok(tide_stream_new(rt, &streams[i]));
    run_all_on(rt, &c);
    assert_ok(tide_stream_set(rt, NULL));
    for (int i = 0; i < 2; i++) tide_stream_release(streams[i]);
    close_sound(rt, true);
}

struct job {
    world *w;
    const program *p;
    tide_graph *g;
    const tide_arg *args;
    size_t n;
    tide_array **outs;
    tide_status status;
};
static void *work(void *user) {
    struct job *j = user;
    j->status = run_in(j->w, j->p, j->g, j->args, j->n, j->outs);
    return NULL;
}
/* On a thread of its own; what it makes goes to this one's scope. */
static tide_status run_elsewhere(world *w, const program *p, tide_graph *g, const tide_arg *args,
                                 size_t n, tide_array **outs) {
    struct job j = {w, p, g, args, n, outs, TIDE_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work, &j), 0);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < p->m && j.status == TIDE_OK; i++) {
        if (!outs[i]) continue;
        tide_array *made = outs[i];
        outs[i] = tide_slice_ranges(made, 0, NULL);
        tide_release(made);
    }
    return j.status;
}
static void on_a_new_thread_each_time(void **state) {
    (void)state;
    run_all(&(circumstance){.name = "threads", COUNTED, .run = run_elsewhere});
}

/* ---- functions by chance ---- */

/* A function makes the same steps at each call: arrays from stretches of others, writes into
** stretches of arguments, kept arrays and what it has made. */
enum { LENGTH = 48, POOL = 24 };
static struct {
    uint64_t seed, at;
    int steps, shift;
    uint64_t launched;
} drawn;
static unsigned dice(unsigned n) {
    drawn.at = drawn.at * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((drawn.at >> 33) % n);
}

typedef struct pool {
    tide_array *a[POOL];
    unsigned n;
} pool;

static tide_array *stretch(tide_array *a, unsigned n) {
    unsigned step = 1 + dice(2), longest = (LENGTH - n) / step;
    tide_range r = {.start = dice(longest + 1), .step = n > LENGTH / 2 ? 1 : step};
    r.stop = r.start + n * r.step;
    return a && r.stop <= LENGTH ? tide_slice_ranges(a, 1, &r) : NULL;
}
static tide_array *any_of(const pool *p) { return p->a[dice(p->n)]; }

static tide_status one_step(tide_runtime *rt, pool *p, const tide_arg *args) {
    const unsigned n = 1 + dice(LENGTH / 2);
    tide_array *made = NULL, *dst = stretch(any_of(p), n), *a = stretch(any_of(p), n),
               *b = stretch(any_of(p), n);
    if (!dst || !a || !b) return TIDE_OK; /* it would have been beyond the end */
    switch (dice(9)) {
    case 0: return tide_map_into(dst, "(a, b) -> 0.5*a - b", a, b);
    case 1: return tide_map_into(dst, "(a, x) -> a * 0.25 + x", a, args[2]);
    case 2: return tide_assign(dst, a);
    case 3: return tide_fill(dst, tide_arg_float(n / 8.0));
    case 4: made = tide_map(rt, "(a, b, x) -> a + b*x", any_of(p), any_of(p), args[2]); break;
    case 5: made = tide_cumsum(any_of(p), 0, 0); break;
    case 6: made = tide_map(rt, "(a, b) -> a - sum(b) * 0.1", any_of(p), b); break;
    case 7: made = tide_copy(any_of(p)); break;
    default: made = tide_zeros(rt, TIDE_F32, SHAPE(LENGTH));
    }
    if (!made) return tide_error_last()->status;
    p->a[p->n < POOL ? p->n++ : dice(POOL)] = made; /* the one there before is garbage */
    return TIDE_OK;
}

FN(by_chance) {
    UNUSED;
    pool p = {.n = 5};
    for (int i = 0; i < 2; i++) p.a[i] = ARRAY(i);
    for (int i = 0; i < 3; i++) p.a[2 + i] = KEEP(i);
    drawn.at = drawn.seed;
    for (int i = 0; i < drawn.steps; i++) OK(one_step(RT, &p, args));
    for (unsigned i = 0; i < 3; i++)
        DONE(outs[i] = tide_slice(p.a[dice(p.n)], i == 2 ? "::-1" : ":"));
    return TIDE_OK;
}
static void by_chance_begin(world *w) {
    for (unsigned i = 0; i < 4; i++) keep(w, numbers(w->rt, TIDE_F32, i, SHAPE(LENGTH)));
    keep(w, numbers(w->rt, TIDE_F32, 9, SHAPE(4 * LENGTH)));
}
/* Views that may be of one array, and overlap. */
static size_t by_chance_args(world *w, tide_arg *args) {
    for (int i = 0; i < 2; i++) {
        tide_range r = {.start = (w->run * 7 + i * drawn.shift) * 4 % (3 * LENGTH), .step = 1};
        r.stop = r.start + LENGTH;
        args[i] = tide_arg_array(tide_slice_ranges(w->kept[4], 1, &r));
    }
    args[2] = tide_arg_float(w->run * 0.125);
    return 3;
}

static void count_launches(world *w, tide_graph *g) {
    static uint64_t before;
    const uint64_t now = figures_of(g).launches;
    drawn.launched += now - (w->run ? before : 0);
    before = now;
}

static void functions_by_chance(void **state) {
    const program p = {"by chance", by_chance_begin, by_chance_args, by_chance, 3, NULL};
    const circumstance c = {.name = "chance", COUNTED, .behind = count_launches, .disturbs = true};
    (void)state;
    tide_runtime *rt = test_open(&c.config);
    for (drawn.seed = 1; drawn.seed <= (test_quick()  ? 40
                                        : test_long() ? 4000
                                                      : 250);
         drawn.seed++) {
        drawn.steps = 1 + (int)(drawn.seed % 60);
        drawn.shift = (int)(drawn.seed % 17);
        run_program(rt, &p, &c, 5);
    }
    assert_true(drawn.launched >
                drawn.seed); /* of four that there could be, where nothing overlaps */
    close_sound(rt, true);
}

/* ---- a GPU's kernels ---- */

/* Those that the functions are to come to. */
static struct {
    const char *mark;
    bool seen;
} texts[] = {{"/* cuda_chain.cu", false}, {"/* cuda_pair.cu", false}, {"/* cuda_uneven.cu", false}};
static void look_at(char *text) {
    for (size_t i = 0; i < TIDEI_COUNT(texts); i++)
        texts[i].seen |= strstr(text, texts[i].mark) != NULL;
}

/* Some of the functions, as each kernel takes a compiler a second. */
static void with_kernels_of_a_gpu(void **state) {
    static const char *const some[] = {"limits", "softmax", "rows",    "far",  "taken",
                                       "adam",   "draws",   "written", "fills"};
    const circumstance c = {.name = "emulated", .config = {.collector = "refcount"}};
    (void)state;
    tide_runtime *rt = emulated_open(&c.config);
    if (!rt) skip();
    emulated_edit = look_at;
    for (size_t i = 0; i < TIDEI_COUNT(programs); i++)
        for (size_t k = 0; k < TIDEI_COUNT(some); k++)
            if (strcmp(programs[i].name, some[k]) == 0) run_program(rt, &programs[i], &c, 4);
    for (size_t i = 0; i < TIDEI_COUNT(texts); i++) assert_true(texts[i].seen);
    emulated_edit = NULL;
    close_sound(rt, false);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_stretches_text, "stretches.h", "ALL", 90);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_out_is_the_same),
        cmocka_unit_test(in_every_pool),
        cmocka_unit_test(with_collections_between),
        cmocka_unit_test(with_collections_within),
        cmocka_unit_test(with_memory_given_back_between),
        cmocka_unit_test(with_all_spilled_between),
        cmocka_unit_test(with_memory_moved_between),
        cmocka_unit_test(with_the_graph_reset_between),
        cmocka_unit_test(on_several_streams),
        cmocka_unit_test(on_a_new_thread_each_time),
        cmocka_unit_test(functions_by_chance),
        cmocka_unit_test(with_kernels_of_a_gpu),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
