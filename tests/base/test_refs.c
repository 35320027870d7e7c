/* test_refs.c: references of users: each kind after its object's end, of another kind, never made;
** slots that serve again; threads; and what a closed runtime's references say at every public
** function that takes one. */
#include "runtime/base/refs.h"
#include "tests/support/child.h"
#include "tests/doubles/counted_host.h"
#include <pthread.h>

static int object, other_object;
static tidei_runtime *const owner = (tidei_runtime *)(void *)&object,
                            *const other_owner = (tidei_runtime *)(void *)&other_object;
static const char *const names[] = {NULL,        "runtime",   "stream",   "pool", "expression",
                                    "use scope", "host view", "iterator", "graph"};
#define EACH_REF_KIND(k) for (tidei_ref_kind k = TIDEI_REF_RUNTIME; k <= TIDEI_REF_GRAPH; k++)

static void refused(tidei_ref_kind k, const void *ref, tide_status status, const char *part) {
    tide_error_clear();
    assert_null(tidei_ref_look(k, ref));
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_null(tidei_ref_find(k, ref, "tide_test"));
    assert_error(status, part);
    assert_error(status, names[k]);
    assert_string_equal(tide_error_last()->operation, "tide_test");
}

/* ---- no memory for the table ---- */

static bool refusing;
static unsigned refusals;
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes) {
    if (!refusing || n < 1000) return __real_calloc(n, bytes); /* what has so many is slots */
    refusals++;
    return NULL;
}

static void opens_without(const void *unused) {
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .collector = "refcount",
                     .allocator = &counted_memory};
    tide_runtime *rt = NULL;
    (void)unused;
    refusing = true;
    must(tide_open(&c, &rt) == TIDE_E_HOST_NOMEM);
    must(strcmp(tide_error_last()->operation, "tide_open") == 0);
    must(refusals > 0 && !rt);
    must(host_held == 0);
    refusing = false;
    must_ok(tide_open(&c, &rt));
    tide_close(rt);
    must(host_held == 0);
}

/* The process's first runtime makes the first slots; nothing is left of one that gets none. */
static void a_runtime_without_a_reference(void **state) {
    (void)state;
    test_needs_children();
    in_child_with(opens_without, NULL);
}

static void an_ended_reference_is_known_as_ended(void **state) {
    (void)state;
    EACH_REF_KIND(k) {
        void *ref = tidei_ref_new(k, &object, owner);
        assert_non_null(ref);
        assert_ptr_equal(tidei_ref_look(k, ref), &object);
        assert_ptr_equal(tidei_ref_find(k, ref, "tide_test"), &object);
        EACH_REF_KIND(wrong)
        if (wrong != k) refused(wrong, ref, TIDE_E_INVALID, "is no");
        assert_true(tidei_ref_end(ref));
        assert_false(tidei_ref_end(ref)); /* somebody was first */
        refused(k, ref, k == TIDEI_REF_RUNTIME ? TIDE_E_CLOSED : TIDE_E_INVALID,
                k == TIDEI_REF_RUNTIME ? "closed" : "before");
        refused(k, NULL, TIDE_E_INVALID, "NULL");
    }
    assert_false(tidei_ref_end(NULL));
}

/* Pointers to memory, small numbers, references with a bit changed. */
static void what_never_was_one(void **state) {
    (void)state;
    EACH_REF_KIND(k) {
        void *ref = tidei_ref_new(k, &object, owner);
        for (int bit = 0; bit < 64; bit++) {
            const void *near = (const void *)((uintptr_t)ref ^ (uintptr_t)1 << bit);
            assert_null(tidei_ref_look(k, near));
            assert_null(tidei_ref_find(k, near, "tide_test"));
        }
        refused(k, &object, TIDE_E_INVALID, "is no");
        refused(k, (const void *)(uintptr_t)1, TIDE_E_INVALID, "is no");
        refused(k, (const void *)UINTPTR_MAX, TIDE_E_INVALID, "is no");
        assert_true(tidei_ref_end(ref));
    }
}

/* A slot's next object is not taken for its last one, though the slots go round. */
static void slots_serve_again(void **state) {
    enum { KEPT = 5000 };
    static void *old[KEPT];
    (void)state;
    for (int i = 0; i < KEPT; i++) {
        old[i] = tidei_ref_new(TIDEI_REF_EXPR, &object, owner);
        assert_non_null(old[i]);
        if (i) assert_true(tidei_ref_end(old[i - 1]));
        for (int j = i < 50 ? 0 : i - 50; j < i; j++)
            assert_null(tidei_ref_look(TIDEI_REF_EXPR, old[j]));
    }
    assert_true(tidei_ref_end(old[KEPT - 1]));
    refused(TIDEI_REF_EXPR, old[0], TIDE_E_INVALID, "before");
    for (int i = 0; i < KEPT; i++)
        for (int j = i + 1; j < i + 3 && j < KEPT; j++) assert_ptr_not_equal(old[i], old[j]);
}

static void a_runtime_ends_what_is_its_own(void **state) {
    (void)state;
    void *mine[TIDEI_REF_GRAPH + 1], *others[TIDEI_REF_GRAPH + 1];
    EACH_REF_KIND(k) {
        mine[k] = tidei_ref_new(k, &object, owner);
        others[k] = tidei_ref_new(k, &other_object, other_owner);
    }
    tidei_refs_close(owner);
    EACH_REF_KIND(k) {
        refused(k, mine[k], TIDE_E_CLOSED, "closed");
        assert_false(tidei_ref_end(mine[k]));
        assert_ptr_equal(tidei_ref_look(k, others[k]), &other_object);
    }
    tidei_refs_close(owner); /* twice is once */
    tidei_refs_close(other_owner);
    EACH_REF_KIND(k) assert_null(tidei_ref_look(k, others[k]));
}

/* ---- threads ---- */

static void *make_and_end(void *wrong) {
    int mine = 0;
    for (int i = 0; i < 3000; i++) {
        void *a = tidei_ref_new(TIDEI_REF_POOL, &mine, owner),
             *b = tidei_ref_new(TIDEI_REF_STREAM, &i, owner);
        if (tidei_ref_look(TIDEI_REF_POOL, a) != &mine || tidei_ref_look(TIDEI_REF_STREAM, b) != &i)
            return wrong;
        if (!tidei_ref_end(a) || !tidei_ref_end(b)) return wrong;
        if (tidei_ref_look(TIDEI_REF_POOL, a) || tidei_ref_look(TIDEI_REF_STREAM, b)) return wrong;
    }
    return NULL;
}

static _Atomic int winners;
static void *end_it(void *ref) {
    if (tidei_ref_end(ref)) atomic_fetch_add(&winners, 1);
    return NULL;
}

static void several_threads_make_and_end_references(void **state) {
    enum { THREADS = 6 };
    pthread_t t[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, make_and_end, &object), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(t[i], &wrong);
        assert_null(wrong);
    }
    void *ref = tidei_ref_new(TIDEI_REF_SCOPE, &object, owner);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&t[i], NULL, end_it, ref), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    assert_int_equal(winners, 1);
}

/* ---- as users meet them ---- */

typedef struct held {
    tide_runtime *rt;
    tide_stream *stream;
    tide_pool *pool;
    tide_expr *expr;
    tide_use_scope *scope;
    tide_batches *batches;
    tide_graph *graph;
    tide_host_view view;
    tide_array *a;
} held;

static tide_status no_work(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    return (void)user, (void)args, (void)n, (void)outs, (void)m, TIDE_OK;
}

static held everything(void) {
    static const float samples[4] = {1, 2, 3, 4};
    static const int64_t four = 4;
    held h = {.rt = test_open(&(tide_config){.collector = "refcount"})};
    void *p;
    assert_ok(tide_stream_new(h.rt, &h.stream));
    assert_ok(tide_pool_new(h.rt, NULL, &h.pool));
    h.expr = tide_expr_new(h.rt, "(x) -> x + 1");
    assert_non_null(h.graph = tide_graph_new(h.rt, no_work, NULL));
    assert_array(h.a = tide_to_memory(tide_ones(h.rt, TIDE_F32, SHAPE(4)), TIDE_MEMORY_PINNED));
    tide_use use = {.array = h.a, .mode = TIDE_READ};
    assert_ok(tide_use_begin(h.rt, h.stream, &use, 1, &p, &h.scope));
    assert_ok(tide_host_view_begin(h.a, TIDE_READ, &h.view));
    tide_data d = tide_data_host(TIDE_F32, 1, &four, samples);
    tide_batches_config c = {.struct_size = sizeof c, .arrays = &d, .narrays = 1, .batch = 2};
    assert_ok(tide_batches_new(h.rt, &c, &h.batches));
    return h;
}

#define CLOSED(call)                                                                               \
    do {                                                                                           \
        tide_error_clear();                                                                        \
        (void)!(call);                                                                             \
        if (tide_error_last()->status != TIDE_E_CLOSED)                                            \
            fail_msg("%s: %s, %s", #call, tide_status_name(tide_error_last()->status),             \
                     tide_error_last()->message);                                                  \
    } while (0)

static void call_all(held *h) {
    tide_runtime_figures stats = {.struct_size = sizeof stats};
    tide_device_figures info = {.struct_size = sizeof info};
    tide_pool_figures pool = {.struct_size = sizeof pool};
    tide_graph_figures graph = {.struct_size = sizeof graph};
    tide_stream *s = NULL;
    tide_pool *p = NULL;
    tide_rng rng = {1, 0};
    tide_arg arg = tide_arg_array(h->a);
    uint64_t value;
    char text[200];
    CLOSED(tide_ones(h->rt, TIDE_F32, 0, NULL));
    CLOSED(tide_arange(h->rt, TIDE_F32, 0, 1, 1));
    CLOSED(tide_random_uniform(h->rt, &rng, TIDE_F32, 0, NULL));
    CLOSED(tide_npy_read(h->rt, "nowhere"));
    CLOSED(tide_map_args(h->rt, "(x) -> x", &arg, 1));
    CLOSED(tide_expr_new(h->rt, "(x) -> x"));
    CLOSED(tide_runtime_info(h->rt, &stats));
    CLOSED(tide_device_info(h->rt, &info));
    CLOSED(tide_runtime_text(h->rt, text, sizeof text));
    CLOSED(tide_device_text(h->rt, text, sizeof text));
    CLOSED(tide_device_count(h->rt));
    CLOSED(tide_device_set(h->rt, 0));
    CLOSED(tide_device_set_limit(h->rt, SIZE_MAX));
    CLOSED(tide_collect(h->rt));
    CLOSED(tide_reclaim(h->rt, 0, NULL));
    CLOSED(tide_scope_begin(h->rt));
    CLOSED(tide_stream_new(h->rt, &s));
    CLOSED(tide_stream_current(h->rt) ? 1 : 0);
    CLOSED(tide_stream_set(h->rt, h->stream));
    CLOSED(tide_synchronize(h->rt, h->stream));
    CLOSED(tide_device_synchronize(h->rt));
    CLOSED(tide_thread_attach(h->rt));
    CLOSED(tide_pool_new(h->rt, NULL, &p));
    CLOSED(tide_stream_native(h->stream) ? 1 : 0);
    CLOSED(tide_pool_info(h->pool, &pool));
    CLOSED(tide_pool_get_attribute(h->pool, TIDE_POOL_REUSE_DONE, &value));
    CLOSED(tide_pool_malloc(h->pool, NULL, 1) ? 1 : 0);
    CLOSED(tide_expr_apply(h->expr, &arg, 1) ? 1 : 0);
    CLOSED(tide_batches_next(h->batches, &arg));
    CLOSED(tide_graph_new(h->rt, no_work, NULL) ? 1 : 0);
    CLOSED(tide_graph_run(h->graph, NULL, 0, NULL, 0));
    CLOSED(tide_graph_reset(h->graph));
    CLOSED(tide_graph_info(h->graph, &graph));
    CLOSED(tide_use_end(h->scope));
    CLOSED(tide_host_view_end(&h->view));
    CLOSED(tide_copy(h->a) ? 1 : 0);
    CLOSED((tide_close(h->rt), 0));
}

static void *call_all_elsewhere(void *h) { return call_all(h), NULL; }

/* On the thread that opened and closed it, on another that never was inside, and once the slots
** serve others. */
static void nothing_of_a_closed_runtime_is_reached(void **state) {
    pthread_t t;
    (void)state;
    held h = everything();
    tide_close(h.rt);
    held copy = h;
    call_all(&copy);
    copy = h;
    assert_int_equal(pthread_create(&t, NULL, call_all_elsewhere, &copy), 0);
    pthread_join(t, NULL);
    held next = everything();
    copy = h;
    call_all(&copy);
    tide_stream_release(h.stream); /* legal at any time; these do nothing */
    tide_pool_release(h.pool);
    tide_expr_release(h.expr);
    tide_graph_release(h.graph);
    tide_batches_release(h.batches);
    tide_batches_rewind(h.batches);
    tide_thread_detach(h.rt);
    tide_release(h.a);
    tide_array *sum =
        tide_expr_apply(next.expr, &(tide_arg){.kind = TIDE_ARG_ARRAY, .value.array = next.a}, 1);
    assert_array(sum);
    assert_ok(tide_use_end(next.scope));
    assert_ok(tide_host_view_end(&next.view));
    tide_close(next.rt);
}

static void what_was_released_is_an_error(void **state) {
    held h = everything();
    tide_arg arg = tide_arg_array(h.a);
    tide_host_view view = h.view;
    (void)state;
    tide_expr_release(h.expr);
    assert_null(tide_expr_apply(h.expr, &arg, 1));
    assert_error(TIDE_E_INVALID, "the expression was released");
    tide_expr_release(h.expr); /* twice */
    tide_graph_release(h.graph);
    assert_int_equal(tide_graph_run(h.graph, NULL, 0, NULL, 0), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the graph was released");
    assert_ok(tide_use_end(h.scope));
    assert_int_equal(tide_use_end(h.scope), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the use scope was ended");
    assert_ok(tide_host_view_end(&h.view));
    assert_int_equal(tide_host_view_end(&view), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the host view was ended");
    tide_stream_release(h.stream);
    assert_int_equal(tide_synchronize(h.rt, h.stream), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the stream was released");
    tide_pool_release(h.pool);
    assert_null(tide_pool_malloc(h.pool, NULL, 1));
    assert_error(TIDE_E_INVALID, "the pool was released");
    tide_batches_release(h.batches);
    assert_int_equal(tide_batches_next(h.batches, &arg), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the iterator was released");
    assert_null(tide_ones((tide_runtime *)(void *)h.stream, TIDE_F32, 0, NULL));
    assert_error(TIDE_E_INVALID, "is no runtime");
    tide_release(h.a);
    tide_close(h.rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runtime_without_a_reference), /* while there are no slots */
        cmocka_unit_test(an_ended_reference_is_known_as_ended),
        cmocka_unit_test(what_never_was_one),
        cmocka_unit_test(slots_serve_again),
        cmocka_unit_test(a_runtime_ends_what_is_its_own),
        cmocka_unit_test(several_threads_make_and_end_references),
        cmocka_unit_test(nothing_of_a_closed_runtime_is_reached),
        cmocka_unit_test(what_was_released_is_an_error),
    };
    return cmocka_run_group_tests_name("refs", tests, NULL, NULL);
}
