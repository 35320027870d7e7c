/* test_callbacks.c: callbacks that do what they must not: leave by longjmp, close the runtime, make
** arrays. */
#include "gc/collector.h"
#include "tests/runtime/leaver.h"
#include <pthread.h>
#include <semaphore.h>
#include <ucontext.h>

/* ---- leaving ---- */

static bool expect(tide_status s, const char *part) {
    return tide_error_last()->status == s && strstr(tide_error_last()->message, part);
}

/* The next call of the thread says what was left, and does nothing else; there are calls of several
** kinds. */
static void next_call_reports(int kind, unsigned which) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    tide_error_clear();
    switch (which % 5) {
    case 0: tide_safepoint(L.rt); break;
    case 1: assert_int_equal(tide_runtime_info(L.rt, &s), TIDE_E_INVALID); break;
    case 2: assert_null(tide_zeros(L.rt, TIDE_F32, SHAPE(4))); break;
    case 3: assert_null(tide_add(L.base, L.base)); break;
    default: assert_int_equal(tide_collect(L.rt), TIDE_E_INVALID);
    }
    if (!expect(TIDE_E_INVALID, leave_texts[kind]) ||
        !expect(TIDE_E_INVALID, "was left without a return"))
        fail_msg("%s: wanted its report, got %s: %s", leave_texts[kind],
                 tide_status_name(tide_error_last()->status), tide_error_last()->message);
    assert_true(tide_error_last()->operation[0]);
    tide_error_clear();
}

static unsigned steps;

static void step(void (*work)(void)) {
    L.left = false;
    if (!setjmp(L.catcher)) {
        call_deep(work);
    } else {
        int kind = L.kind;
        L.kind = LEAVE_NONE;
        next_call_reports(kind, steps);
    }
    steps++;
}

static void close_it(void) { tide_close(L.rt); }
static void ends_well(void);

/* All the work, one call of a callback of that kind left. False: there were fewer calls. */
static bool leave_at(int kind, unsigned at, int spill) {
    leaver_open(spill);
    memset(L.calls, 0, sizeof L.calls);
    L.kind = kind;
    L.at = at;
    bool left = false;
    for (unsigned i = 0; i < TIDEI_COUNT(works); i++) {
        step(works[i]);
        left |= L.left;
        tidy_up();
        if (!tidei_runtime_valid(test_rt(L.rt)))
            fail_msg("%s, call %u, work %u: not valid", leave_texts[kind], at, i);
    }
    assert_int_equal(files_in(L.folder), access(L.path, F_OK) == 0);
    L.kind = LEAVE_NONE;
    while (L.ngarbage) tide_release(L.garbage[--L.ngarbage]);
    tide_safepoint(L.rt);
    tide_runtime_figures s = test_stats(L.rt);
    if (s.live + s.spilled != sizeof leave_numbers || s.arrays != 1)
        fail_msg("%s, call %u: %zu bytes live, of %u arrays", leave_texts[kind], at, s.live,
                 (unsigned)s.arrays);
    assert_int_equal(L.weight, sizeof leave_numbers); /* the base's, all that is left */
    tide_release(L.base);
    L.base = NULL;
    L.kind = left ? LEAVE_NONE : kind;
    L.left = false;
    if (!setjmp(L.catcher)) {
        call_deep(close_it);
    } else {
        left = true;
        L.kind = LEAVE_NONE;
        tide_error_clear();
        tide_close(L.rt); /* says it, and closes all the same */
        assert_true(expect(TIDE_E_INVALID, "was left without a return"));
    }
    assert_int_equal(L.weight, 0);
    assert_int_equal(host_held, 0);
    unlink(L.path);
    assert_int_equal(rmdir(L.folder), 0);
    return left;
}

/* How much of n the next call is beyond it, unless each gets its turn. */
static unsigned part_of(unsigned n) {
    return TEST_THREADS_ONLY ? 2 * n : n / (test_quick() ? 2 : 12);
}

static void leave_each(int kind, int spill) {
    unsigned n = 1, most = 0;
    for (; leave_at(kind, n, spill); n += test_long() ? 1 : 1 + part_of(n)) most = n;
    if (!most) fail_msg("%s: never called", leave_texts[kind]);
    if (getenv("LEAVE_SAY")) print_message("%s: %u\n", leave_texts[kind], most);
}

static void each_callback_may_be_left(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    for (int kind = 0; kind < LEAVE_LOG; kind++) leave_each(kind, TIDE_OFF);
}

static void callbacks_may_be_left_while_arrays_are_spilled(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    leave_each(LEAVE_COLLECT, TIDE_ON);
    leave_each(LEAVE_BLOCKING, TIDE_ON);
    leave_each(LEAVE_DEATH, TIDE_ON);
}

/* ---- leaving while a collector is unregistered ---- */

static void detach_it(void) { right(tide_collector_unregister(L.rt, L.id)); }

/* Unless `detach` was called it is registered as before: it owns its arrays, weighs what they do,
** and is unregistered by a second call. False: that callback was called less often. */
static bool stays_attached(int kind, unsigned at) {
    leaver_open(TIDE_OFF);
    tide_safepoint(L.rt);
    assert_int_equal(L.weight, sizeof leave_numbers);
    tide_array *gone = checked(tide_zeros(L.rt, TIDE_U8, SHAPE(5000)));
    memset(L.calls, 0, sizeof L.calls);
    L.kind = kind, L.at = at;
    step(detach_it);
    bool left = L.left;
    L.kind = LEAVE_NONE;
    if (left && !L.calls[LEAVE_DETACH]) {
        right(tide_collector_use(L.rt, L.id));
        tide_array *more = checked(tide_zeros(L.rt, TIDE_U8, SHAPE(1000)));
        tide_release(gone);
        tide_safepoint(L.rt);
        assert_int_equal(L.weight, sizeof leave_numbers + 1000);
        unsigned collections = L.calls[LEAVE_COLLECT];
        right(tide_collect(L.rt));
        assert_int_equal(L.calls[LEAVE_COLLECT], collections + 1);
        right(tide_collector_unregister(L.rt, L.id));
        tide_release(more);
    } else {
        tide_release(gone);
    }
    assert_int_equal(L.calls[LEAVE_DETACH], 1);
    assert_int_equal(L.weight, 0);
    assert_int_equal(tide_collector_unregister(L.rt, L.id), TIDE_E_INVALID);
    assert_true(expect(TIDE_E_INVALID, "no collector"));
    tide_safepoint(L.rt);
    ends_well();
    return left;
}

static void callbacks_may_be_left_while_detaching(void **state) {
    static const int callbacks[] = {LEAVE_PRESSURE, LEAVE_BLOCKING, LEAVE_DETACH};
    (void)state;
    if (!test_on_host()) skip();
    for (unsigned i = 0; i < TIDEI_COUNT(callbacks); i++) {
        unsigned at = 1;
        while (stays_attached(callbacks[i], at)) at++;
        assert_true(at > 1);
    }
}

/* A close that was left in the collector's last figures still comes to `detach`. */
static void a_close_that_was_left_still_detaches(void **state) {
    (void)state;
    leaver_open(TIDE_OFF);
    tide_safepoint(L.rt);
    L.kind = LEAVE_PRESSURE, L.at = L.calls[LEAVE_PRESSURE] + 1;
    if (!setjmp(L.catcher)) call_deep(close_it);
    L.kind = LEAVE_NONE;
    assert_true(L.left);
    assert_int_equal(L.calls[LEAVE_DETACH], 0);
    ends_well();
    assert_true(expect(TIDE_E_INVALID, "was left without a return"));
    assert_int_equal(L.calls[LEAVE_DETACH], 1);
}

/* ---- where the stack tells nothing, or little ---- */

static void collect_all(void) { right(tide_collect(L.rt)); }

static void leave_collect_once(void) {
    L.left = false;
    L.kind = LEAVE_COLLECT;
    L.at = L.calls[LEAVE_COLLECT] + 1;
    if (!setjmp(L.catcher)) call_deep(collect_all);
    assert_true(L.left);
    L.kind = LEAVE_NONE;
}

/* Everything works: garbage is found when memory is short. */
static void goes_on(void) {
    unsigned before = L.calls[LEAVE_COLLECT];
    for (int i = 0; i < 3; i++) {
        litter();
        tide_array *a = checked(tide_add(L.base, L.base));
        tide_release(a);
    }
    assert_true(L.calls[LEAVE_COLLECT] > before);
    assert_true(tidei_runtime_valid(test_rt(L.rt)));
}

static void ends_well(void) {
    while (L.ngarbage) tide_release(L.garbage[--L.ngarbage]);
    tide_release(L.base);
    tide_close(L.rt);
    assert_int_equal(L.weight, 0);
    assert_int_equal(host_held, 0);
    assert_int_equal(rmdir(L.folder), 0);
}

/* As deep on the stack as the collection was, and deeper. */
static __attribute__((noinline)) void recurse(unsigned depth) {
    volatile char room[4096];
    memset((void *)room, 0x5a, sizeof room);
    if (depth)
        recurse(depth - 1);
    else {
        assert_null(tide_zeros(L.rt, TIDE_F32, SHAPE(4)));
        assert_true(expect(TIDE_E_INVALID, "was left without a return"));
    }
    __asm__ __volatile__("" : : "r"(room) : "memory");
}

static void the_next_call_may_come_from_deeper(void **state) {
    (void)state;
    leaver_open(TIDE_OFF);
    leave_collect_once();
    recurse(16);
    goes_on();
    ends_well();
}

#if !defined(__SANITIZE_ADDRESS__) &&                                                              \
    !defined(__SANITIZE_THREAD__) /* which do not know stacks of the program's own */
/* Whoever is not past the place where the callback was called is taken to be inside: what is legal
** there is done, what is not is refused, and says why. */
static void refused_in_the_call(void) {
    tide_error_clear();
    assert_null(tide_zeros(L.rt, TIDE_F32, SHAPE(4)));
    assert_true(expect(TIDE_E_INVALID,
                       "called inside collect of the collector \"host\", where no array is made"));
    assert_true(expect(TIDE_E_INVALID, "if it was left by longjmp"));
    assert_int_equal(tide_array_dim(L.base, 0), LEAVE_SIDE);
    assert_int_equal(test_stats(L.rt).arrays, 1);
}

static ucontext_t main_context, other_context;

static void collect_on_another_stack(void) {
    leave_collect_once();
    refused_in_the_call(); /* the interpreter, on that stack, goes on */
    tide_close(L.rt);
    assert_true(expect(TIDE_E_INVALID, "tide_thread_detach says so"));
    tide_thread_detach(L.rt); /* it knows that nothing is inside */
    goes_on();
    swapcontext(&other_context, &main_context);
}

static void the_next_call_may_come_from_another_stack(void **state) {
    static char stack[256 << 10];
    (void)state;
    leaver_open(TIDE_OFF);
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = stack;
    other_context.uc_stack.ss_size = sizeof stack;
    makecontext(&other_context, collect_on_another_stack, 0);
    swapcontext(&main_context, &other_context);
    ends_well();
}
#else
static void the_next_call_may_come_from_another_stack(void **state) {
    (void)state;
    skip();
}
#endif

/* ---- other threads ---- */

static sem_t left_now, may_go_on;

enum after { CALLS, ENDS, SLEEPS };
static void *lead_and_leave(void *p) {
    enum after then = *(enum after *)p;
    leave_collect_once();
    sem_post(&left_now);
    sem_wait(&may_go_on);
    if (then == CALLS) {
        tide_safepoint(L.rt);
        assert_true(expect(TIDE_E_INVALID, "was left without a return"));
    }
    if (then == SLEEPS) sem_wait(&may_go_on);
    return NULL;
}
static atomic_int followed;
static void *follow(void *unused) {
    (void)unused;
    assert_ok(tide_collect(L.rt));
    atomic_store(&followed, 1);
    return NULL;
}
static bool somebody_follows(void) { /* inside the blocking region, for the round to end */
    tidei_gc *gc = tidei_gc_of(test_rt(L.rt));
    bool inside = false;
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++) inside |= gc->at[i].users > 0;
    pthread_mutex_unlock(&gc->lock);
    return inside;
}

/* A follower waits for a round whose leader was left: until that thread's next call, or its end. */
static void followers_do_not_wait_for_a_round_that_was_left(void **state) {
    (void)state;
    for (enum after then = CALLS; then <= ENDS; then++) {
        pthread_t leader, follower;
        leaver_open(TIDE_OFF);
        sem_init(&left_now, 0, 0), sem_init(&may_go_on, 0, 0);
        atomic_store(&followed, 0);
        assert_int_equal(pthread_create(&leader, NULL, lead_and_leave, &then), 0);
        sem_wait(&left_now);
        assert_int_equal(pthread_create(&follower, NULL, follow, NULL), 0);
        while (!somebody_follows()) sched_yield();
        assert_int_equal(atomic_load(&followed), 0);
        sem_post(&may_go_on);
        pthread_join(leader, NULL);
        pthread_join(follower, NULL);
        assert_int_equal(atomic_load(&followed), 1);
        goes_on();
        ends_well();
    }
}

/* The thread does nothing more while another closes the runtime, and comes back to nothing. */
static void closing_does_not_wait_for_a_call_that_was_left(void **state) {
    pthread_t leader;
    enum after then = SLEEPS;
    (void)state;
    leaver_open(TIDE_OFF);
    sem_init(&left_now, 0, 0), sem_init(&may_go_on, 0, 0);
    assert_int_equal(pthread_create(&leader, NULL, lead_and_leave, &then), 0);
    sem_wait(&left_now);
    ends_well();
    sem_post(&may_go_on);
    sem_post(&may_go_on);
    pthread_join(leader, NULL);
}

/* ---- what is refused inside ---- */

static unsigned tried[LEAVE_KINDS];

static void do_all_the_work(void) {
    for (unsigned i = 0; i < TIDEI_COUNT(works); i++) {
        works[i]();
        tidy_up();
    }
}

/* The callback is named, or the one around it. */
static bool names(int kind) {
    return expect(TIDE_E_INVALID, leave_texts[kind]) ||
           (L.in_graph && expect(TIDE_E_INVALID, leave_texts[LEAVE_GRAPH]));
}

static void close_from_inside(int kind) {
    if (!L.rt) return; /* it is opening */
    tried[kind]++;
    tide_error_clear();
    tide_close(L.rt);
    if (!names(kind) || !expect(TIDE_E_INVALID, "whose runtime stays open"))
        fail_msg("%s: %s", leave_texts[kind], tide_error_last()->message);
    tide_error_clear();
}

static void closing_inside_a_callback_is_refused(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    memset(tried, 0, sizeof tried);
    leaver_open(TIDE_OFF);
    L.inside = close_from_inside;
    do_all_the_work();
    for (int kind = 0; kind < LEAVE_KINDS; kind++) assert_true(tried[kind] > 0);
    unsigned so_far = tried[LEAVE_DETACH];
    unlink(L.path);
    ends_well(); /* detach is called once more, while it closes */
    assert_int_equal(tried[LEAVE_DETACH], so_far + 1);
}

static bool makes(int kind) {
    return kind == LEAVE_PURGE || kind == LEAVE_DROP || kind == LEAVE_FILL || kind == LEAVE_MOVED ||
           kind == LEAVE_GRAPH;
}

static char last_operation[64]; /* that was refused */
static void refused(int kind, bool was, const char *why) {
    if (was && (!names(kind) || !expect(TIDE_E_INVALID, why)))
        fail_msg("%s, %s: %s", leave_texts[kind], why, tide_error_last()->message);
    if (!was) fail_msg("%s, %s: not refused", leave_texts[kind], why);
    snprintf(last_operation, sizeof last_operation, "%s", tide_error_last()->operation);
    tide_error_clear();
}

/* One may look at arrays and figures in all of them, and drop arrays; in some, make them. */
static void use_from_inside(int kind) {
    static bool nested; /* making one calls callbacks in its turn */
    if (!L.rt || nested) return;
    nested = true;
    tried[kind]++;
    tide_error_clear();
    tide_runtime_figures s = {.struct_size = sizeof s};
    right(tide_runtime_info(L.rt, &s));
    char text[100];
    if (kind != LEAVE_BYTES) assert_true(tide_runtime_text(L.rt, text, sizeof text) > 0);
    if (L.base) assert_int_equal(tide_array_dim(tide_retain(L.base), 1), LEAVE_SIDE);
    tide_release(L.base);
    tide_thread_detach(L.rt);
    refused(kind, tide_error_last()->status != TIDE_OK, "which goes on in the thread's record");
    if (makes(kind)) {
        tide_array *a = tide_zeros(L.rt, TIDE_F32, SHAPE(2)), *b = tide_slice(a, "1:");
        assert_array(b);
        tide_release(b);
        tide_release(a);
    } else {
        refused(kind, !tide_zeros(L.rt, TIDE_F32, SHAPE(2)), "where no array is made");
        tide_pool *pool = tide_pool_default(L.rt);
        refused(kind, !tide_pool_malloc(pool, NULL, 1000), "where no array is made");
        assert_string_equal(last_operation, "tide_pool_malloc");
        tide_data source = tide_data_host(TIDE_F32, 1, (int64_t[]){4}, leave_numbers);
        tide_batches_config c = {
            .struct_size = sizeof c, .arrays = &source, .narrays = 1, .batch = 2};
        tide_batches *none = NULL;
        refused(kind, tide_batches_new(L.rt, &c, &none) == TIDE_E_INVALID,
                "where no array is made");
        assert_string_equal(last_operation, "tide_batches_new");
        assert_null(none);
        refused(kind, tide_collector_unregister(L.rt, L.id) == TIDE_E_INVALID,
                "where no collector is unregistered");
        unsigned collections = L.calls[LEAVE_COLLECT];
        right(tide_collect(L.rt)); /* does nothing */
        right(tide_reclaim(L.rt, TIDE_RECLAIM_GC, NULL));
        assert_int_equal(L.calls[LEAVE_COLLECT], collections);
        if (L.base) refused(kind, !tide_slice(L.base, "0"), "where no array is made");
        if (L.base && tide_device_current(L.rt) == 0) /* the other one does not reach it */
            refused(kind, !tide_add(L.base, L.base), "where no array is made");
    }
    nested = false;
}

static void each_callback_may_use_what_it_is_allowed(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    memset(tried, 0, sizeof tried);
    leaver_open(TIDE_OFF);
    L.inside = use_from_inside;
    do_all_the_work();
    for (int kind = 0; kind < LEAVE_KINDS; kind++) assert_true(tried[kind] > 0);
    L.inside = NULL;
    unlink(L.path);
    ends_well();
}

/* An iterator is not changed by who is inside it. */
static void change_batches(int kind) {
    tide_data none;
    if (kind != LEAVE_FILL && kind != LEAVE_COLLECT) return;
    if (!L.batches) return;
    tried[kind]++;
    assert_int_equal(tide_batches_next(L.batches, &none), TIDE_E_INVALID);
    assert_true(expect(TIDE_E_INVALID, "inside tide_batches_next of the same iterator"));
    tide_batches_release(L.batches);
    assert_true(expect(TIDE_E_INVALID, "inside tide_batches_next of the same iterator"));
    tide_batches_rewind(L.batches);
    assert_true(expect(TIDE_E_INVALID, "inside tide_batches_next of the same iterator"));
    tide_error_clear();
}

static void next_batch(void) {
    tide_status s = tide_batches_next(L.batches, &L.batch);
    right(s);
}

static void batches_refuse_to_be_used_inside_themselves(void **state) {
    tide_data source = tide_data_host(TIDE_F32, 2, (int64_t[]){LEAVE_SIDE, LEAVE_SIDE}, NULL);
    tide_batches_config c = {.struct_size = sizeof c,
                             .arrays = &source,
                             .narrays = 1,
                             .batch = LEAVE_SIDE / 2,
                             .fill = leave_fill};
    (void)state;
    memset(tried, 0, sizeof tried);
    setenv("TIDE_GC_EARLY", "0", 1); /* for that goes by how long memory takes: it stays full */
    leaver_open(TIDE_OFF);
    unsetenv("TIDE_GC_EARLY");
    right(tide_batches_new(L.rt, &c, &L.batches));
    litter();
    L.inside = change_batches;
    next_batch();
    next_batch();
    assert_true(tried[LEAVE_FILL] > 0 && tried[LEAVE_COLLECT] > 0);
    L.inside = NULL;
    tidy_up();
    ends_well();
}

/* Whichever fill was left, its own or that of the batch to come: the batch that the call was about
** to give is what the next one gives. */
static void no_batch_is_passed_over(void **state) {
    enum { BATCHES = 4, ROWS = LEAVE_SIDE / BATCHES };
    static float got[ROWS * LEAVE_SIDE];
    static unsigned at, i; /* what longjmp leaves alone */
    tide_data source = tide_data_host(TIDE_F32, 2, (int64_t[]){LEAVE_SIDE, LEAVE_SIDE}, NULL);
    tide_batches_config c = {.struct_size = sizeof c,
                             .arrays = &source,
                             .narrays = 1,
                             .batch = ROWS,
                             .fill = leave_fill};
    (void)state;
    leaver_open(TIDE_OFF);
    for (at = 1; at <= BATCHES; at++) {
        right(tide_batches_new(L.rt, &c, &L.batches));
        L.kind = LEAVE_FILL;
        L.at = L.calls[LEAVE_FILL] + at;
        L.left = false;
        for (i = 0; i < BATCHES; i++) {
            if (setjmp(L.catcher)) {
                L.kind = LEAVE_NONE;
                tide_error_clear();
                tide_safepoint(L.rt);
                assert_true(expect(TIDE_E_INVALID, "was left without a return"));
            }
            call_deep(next_batch);
            right(tide_to_host(L.batch.array, got, sizeof got));
            assert_true(got[0] == (float)(i * ROWS * LEAVE_SIDE));
        }
        assert_int_equal(tide_batches_next(L.batches, &L.batch), TIDE_END);
        assert_true(L.left);
        tidy_up();
    }
    ends_well();
}

/* ---- closing twice at once ---- */

static atomic_int refusals;
static sem_t first_is_in, second_is_over;
static void hold_up(void *unused) {
    (void)unused;
    sem_post(&first_is_in);
    sem_wait(&second_is_over);
}
static void *close_late(void *rt) {
    sem_wait(&first_is_in);
    tide_close(rt);
    if (expect(TIDE_E_CLOSED, "closing the runtime")) atomic_fetch_add(&refusals, 1);
    sem_post(&second_is_over);
    return NULL;
}
static void *close_now(void *rt) {
    tide_error_clear();
    tide_close(rt);
    if (expect(TIDE_E_CLOSED, "clos")) atomic_fetch_add(&refusals, 1);
    return NULL;
}

static void of_two_threads_that_close_one_is_refused(void **state) {
    pthread_t threads[2];
    tide_runtime *rt;
    (void)state;
    sem_init(&first_is_in, 0, 0), sem_init(&second_is_over, 0, 0);
    atomic_store(&refusals, 0);
    rt = test_open(&(tide_config){.collector = "refcount"});
    assert_ok(tide_array_on_death(tide_ones(rt, TIDE_F32, SHAPE(4)), hold_up, NULL));
    assert_int_equal(pthread_create(&threads[0], NULL, close_late, rt), 0);
    tide_close(rt);
    pthread_join(threads[0], NULL);
    assert_int_equal(atomic_load(&refusals), 1);
    for (int round = 0; round < 50; round++) {
        rt = test_open(&(tide_config){.collector = "refcount"});
        atomic_store(&refusals, 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, close_now, rt), 0);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&refusals), 1);
    }
}

/* ---- an interpreter's error ---- It leaves a callback in which scopes were begun, in a runtime or
** in one inside another, and is caught below all of them. */

struct erring {
    tide_runtime *rt[2];
    tide_batches *batches[2];
    int inner;  /* the runtime whose callback errs; 0: the other's is not called */
    int inside; /* the depth that the callback unwound to, in its own runtime */
};
static struct erring erring;

static void fetch(int which) {
    tide_data batch;
    right(tide_batches_next(erring.batches[which], &batch));
}

static tide_status fill_and_err(void *user, int64_t first, const int64_t *samples, int64_t n,
                                void *const *out) {
    int which = (int)(intptr_t)user;
    tide_runtime *rt = erring.rt[which];
    (void)first, (void)samples, (void)n, (void)out;
    for (int i = 0; i < 3; i++) {
        right(tide_scope_begin(rt));
        checked(tide_zeros(rt, TIDE_F32, SHAPE(4)));
    }
    right(tide_scope_unwind(rt, tide_scope_depth(rt) - 1)); /* inside nothing is left */
    erring.inside = tide_scope_depth(rt);
    if (which < erring.inner) fetch(1);
    longjmp(L.catcher, 1);
}

static void fetch_first(void) { fetch(0); }

static __attribute__((noinline)) void err(void) {
    if (setjmp(L.catcher)) return;
    call_deep(fetch_first);
    fail_msg("it came back");
}

static void open_erring(int which) {
    const tide_data x = tide_data_host(TIDE_F32, SHAPE(2), NULL);
    const tide_batches_config c = {.struct_size = sizeof c,
                                   .arrays = &x,
                                   .narrays = 1,
                                   .batch = 1,
                                   .fill = fill_and_err,
                                   .user = (void *)(intptr_t)which};
    erring.rt[which] = test_open(&(tide_config){.collector = "refcount"});
    assert_ok(tide_batches_new(erring.rt[which], &c, &erring.batches[which]));
}

/* The first call after the error is the one that expects it. */
static void an_error_waits_for_who_expects_it(void **state) {
    (void)state;
    for (int inner = 0; inner < 2; inner++) {
        tide_array *outer[2];
        erring = (struct erring){.inner = inner};
        for (int i = 0; i < 2; i++) {
            open_erring(i);
            assert_ok(tide_scope_begin(erring.rt[i]));
            assert_array(outer[i] = tide_ones(erring.rt[i], TIDE_F32, SHAPE(4)));
        }
        assert_null(tide_slice(outer[0], "q"));
        err();
        assert_int_equal(tide_scope_unwind(erring.rt[0], 4), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "depth is 4; this thread has 3 open scopes");
        assert_null(tide_slice(outer[0], "q"));
        for (int i = 0; i < 2; i++) assert_ok(tide_scope_unwind(erring.rt[i], 1));
        assert_error(TIDE_E_PARSE, "column 1"); /* which stood before */
        assert_int_equal(erring.inside, 3);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(tide_scope_depth(erring.rt[i]), 1);
            assert_true(tidei_runtime_valid(test_rt(erring.rt[i])));
            assert_true(tide_item_f64(tide_sum(outer[i], NULL, 0, 0)) == 4);
            tide_batches_release(erring.batches[i]);
            assert_ok(tide_scope_unwind(erring.rt[i], 0));
            assert_int_equal(test_stats(erring.rt[i]).arrays, 0);
        }
        for (int i = 0; i < 2; i++) tide_close(erring.rt[i]);
    }
}

/* The same where the first call after it is the unwinding, with an error that stands. */
static void unwinding_keeps_the_error(void **state) {
    (void)state;
    erring = (struct erring){.inner = 0};
    open_erring(0);
    for (int stands = 0; stands < 2; stands++) {
        tide_error_clear();
        if (stands) assert_null(tide_slice(NULL, "0"));
        err();
        assert_ok(tide_scope_unwind(erring.rt[0], 0));
        assert_int_equal(tide_error_last()->status, stands ? TIDE_E_INVALID : TIDE_OK);
        assert_string_equal(tide_error_last()->operation, stands ? "tide_slice" : "");
        assert_int_equal(tide_scope_depth(erring.rt[0]), 0);
        assert_int_equal(tide_error_last()->status, stands ? TIDE_E_INVALID : TIDE_OK);
    }
    tide_error_clear();
    tide_batches_release(erring.batches[0]);
    assert_int_equal(test_stats(erring.rt[0]).arrays, 0);
    tide_close(erring.rt[0]);
}

/* ---- functions of tide_use_launch ---- They run on a thread that the runtime waits for when it
** closes. */

struct launched {
    tide_runtime *rt;
    tide_array *dropped;
    bool close_refused, make_refused;
};
static void misbehave(void *arg) {
    struct launched *x = arg;
    tide_close(x->rt);
    x->close_refused = expect(TIDE_E_INVALID, "tide_use_launch");
    tide_error_clear();
    x->make_refused =
        !tide_zeros(x->rt, TIDE_F32, SHAPE(4)) && expect(TIDE_E_INVALID, "tide_use_launch");
    tide_release(x->dropped);
}

static void a_launched_function_can_neither_make_nor_close(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    struct launched x = {rt, tide_ones(rt, TIDE_F32, SHAPE(4)), false, false};
    tide_use_scope *scope;
    assert_ok(tide_use_begin(rt, NULL, NULL, 0, NULL, &scope));
    assert_ok(tide_use_launch(scope, misbehave, &x));
    assert_ok(tide_use_end(scope));
    assert_ok(tide_device_synchronize(rt));
    assert_true(x.close_refused && x.make_refused);
    assert_int_equal(test_stats(rt).arrays, 0);
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_callback_may_be_left),
        cmocka_unit_test(callbacks_may_be_left_while_arrays_are_spilled),
        cmocka_unit_test(callbacks_may_be_left_while_detaching),
        cmocka_unit_test(a_close_that_was_left_still_detaches),
        cmocka_unit_test(the_next_call_may_come_from_deeper),
        cmocka_unit_test(the_next_call_may_come_from_another_stack),
        cmocka_unit_test(followers_do_not_wait_for_a_round_that_was_left),
        cmocka_unit_test(closing_does_not_wait_for_a_call_that_was_left),
        cmocka_unit_test(closing_inside_a_callback_is_refused),
        cmocka_unit_test(each_callback_may_use_what_it_is_allowed),
        cmocka_unit_test(batches_refuse_to_be_used_inside_themselves),
        cmocka_unit_test(no_batch_is_passed_over),
        cmocka_unit_test(of_two_threads_that_close_one_is_refused),
        cmocka_unit_test(an_error_waits_for_who_expects_it),
        cmocka_unit_test(unwinding_keeps_the_error),
        cmocka_unit_test(a_launched_function_can_neither_make_nor_close),
    };
    return cmocka_run_group_tests_name("callbacks", tests, NULL, NULL);
}
