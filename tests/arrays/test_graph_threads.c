/* test_graph_threads.c: graphs that several threads run at once, on streams of their own, while
** others collect, give memory back, spill, and reset them. */
#include <pthread.h>
#include "tests/arrays/checked.h"
#include "tests/arrays/graph_programs.h"

enum { THREADS = 4, GRAPHS = 2, N = 4096 };

/* out = (x + n) * kept, and x becomes x + 1 */
static tide_array *factor;
static tide_status work_of(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    tide_runtime *rt = user;
    tide_array *x = args[0].value.array;
    tide_array *a = tide_map(rt, "(x, n) -> x + n", x, args[1]);
    (void)n, (void)m;
    if (!a) return tide_error_last()->status;
    outs[0] = tide_map(rt, "(a, k) -> a * k", a, factor);
    tide_release(a);
    if (!outs[0]) return tide_error_last()->status;
    tide_status s = tide_map_into(x, "(x) -> x + 1", x);
    if (s == TIDE_OK) return s;
    tide_release(outs[0]);
    return s;
}

static struct {
    tide_runtime *rt;
    tide_graph *g[GRAPHS];
    int rounds;
    atomic_int running;
    _Atomic uint64_t refused;
    pthread_mutex_t lock; /* of the first error */
    char error[500];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void wrong(const char *what) {
    pthread_mutex_lock(&all.lock);
    if (!*all.error)
        snprintf(all.error, sizeof all.error, "%s: %s", what, tide_error_last()->message);
    pthread_mutex_unlock(&all.lock);
}

static bool is(tide_array *a, float wanted) {
    static _Thread_local float got[N];
    if (tide_to_host(a, got, sizeof got) != TIDE_OK) return false;
    for (int i = 0; i < N; i++)
        if (got[i] != wanted) return false;
    return true;
}

static bool one_round(tide_array *x, int round, unsigned dice) {
    const tide_arg args[] = {tide_arg_array(x), tide_arg_int(round % 7)};
    tide_array *out = NULL;
    if (tide_graph_run(all.g[dice % GRAPHS], args, 2, &out, 1) != TIDE_OK)
        return wrong("a run"), false;
    bool right = is(out, 3 * (float)(round + round % 7));
    tide_release(out);
    if (!right) wrong("a result");
    return right;
}

static void *run_rounds(void *user) {
    unsigned dice = (unsigned)(uintptr_t)user * 2654435761u + 1;
    tide_stream *s = NULL;
    tide_array *x = tide_zeros(all.rt, TIDE_F32, SHAPE(N));
    if (!x || ((uintptr_t)user % 2 &&
               (tide_stream_new(all.rt, &s) != TIDE_OK || tide_stream_set(all.rt, s) != TIDE_OK)))
        wrong("a thread's beginning");
    for (int i = 0; i < all.rounds; i++) {
        dice = dice * 1664525u + 1013904223u;
        if (!one_round(x, i, dice >> 16)) break;
    }
    tide_release(x);
    if (s) {
        (void)!tide_stream_set(all.rt, NULL);
        tide_stream_release(s);
    }
    atomic_fetch_sub(&all.running, 1);
    return NULL;
}

static void *disturb(void *user) {
    static const int levels[] = {TIDE_RECLAIM_PURGE, TIDE_RECLAIM_GC, TIDE_RECLAIM_DROP,
                                 TIDE_RECLAIM_SPILL};
    tide_graph_figures f = {.struct_size = sizeof f};
    (void)user;
    for (unsigned i = 0; atomic_load(&all.running); i++) {
        if (tide_reclaim(all.rt, levels[i % 4], NULL) != TIDE_OK) wrong("reclaim");
        if (i % 3 == 0 && tide_graph_reset(all.g[i / 3 % GRAPHS]) != TIDE_OK) wrong("reset");
        if (i % 5 == 0 && tide_collect(all.rt) != TIDE_OK) wrong("collect");
        if (tide_graph_info(all.g[i % GRAPHS], &f) != TIDE_OK) wrong("info");
        for (int k = 0; k < 20 && atomic_load(&all.running); k++) sched_yield();
    }
    return NULL;
}

static void run_at_once(tide_config c, bool disturbed) {
    pthread_t threads[THREADS], other;
    c.collector = "refcount";
    c.debug = 1;
    all.rt = test_open(&c);
    all.rounds = test_quick() ? 60 : 400;
    atomic_store(&all.running, THREADS);
    *all.error = 0;
    factor = tide_full(all.rt, TIDE_F32, SHAPE(N), tide_arg_int(3));
    for (int i = 0; i < GRAPHS; i++) all.g[i] = tide_graph_new(all.rt, work_of, all.rt);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_rounds, (void *)i), 0);
    if (disturbed) assert_int_equal(pthread_create(&other, NULL, disturb, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    if (disturbed) pthread_join(other, NULL);
    if (*all.error) fail_msg("%s", all.error);
    uint64_t launches = 0, runs = 0;
    for (int i = 0; i < GRAPHS; i++) {
        const tide_graph_figures f = figures_of(all.g[i]);
        launches += f.launches;
        runs += f.runs;
        tide_graph_release(all.g[i]);
    }
    assert_int_equal(runs, THREADS * all.rounds);
    assert_true(launches > 0);
    tide_release(factor);
    assert_int_equal(test_stats(all.rt).live, 0);
    close_checked(all.rt);
}

static void threads_share_graphs(void **state) {
    (void)state;
    run_at_once((tide_config){0}, false);
}
static void while_memory_is_given_back(void **state) {
    (void)state;
    run_at_once((tide_config){0}, true);
}
/* With hardly any memory: arguments, kept arrays and arenas come and go. */
static void near_the_limit(void **state) {
    const char *limit = test_on_host() ? "160KiB" : "6MiB"; /* a GPU's pages have 2 MiB */
    (void)state;
    run_at_once((tide_config){.limit = limit, .spill = TIDE_ON}, false);
    run_at_once((tide_config){.limit = limit, .spill = TIDE_ON}, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_graphs),
        cmocka_unit_test(while_memory_is_given_back),
        cmocka_unit_test(near_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
